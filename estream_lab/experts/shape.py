"""Expert shape classes, and the record that each is stored and executed as (paper section 2)."""

from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.kernels.layout import LAYOUTS, projection_bytes

PAGE_BYTES = 4096  # direct I/O and the device's DMA want page-aligned records


@dataclass(frozen=True)
class ExpertShape:
    """What one compiled expert graph serves: hidden size H, FFN size F and the layout of each projection.

    ``layouts`` names the layouts of gate (F, H), up (F, H) and down (H, F), each one of `kernels.layout.LAYOUTS`.

    Raises:
        EStreamError: a size that isn't a positive multiple of 32, or a layout that no kernel reads.
    """

    hidden: int
    ffn: int
    layouts: tuple[str, str, str]

    def __post_init__(self) -> None:
        for name, size in (("hidden", self.hidden), ("ffn", self.ffn)):
            if size <= 0 or size % 32:
                raise EStreamError(
                    f"expert {name} size {size} is not a positive multiple of 32, which the tile layout needs"
                )
        for layout in self.layouts:
            if layout not in LAYOUTS:
                raise EStreamError(f"unknown expert layout '{layout}': this version reads {', '.join(sorted(LAYOUTS))}")


@dataclass(frozen=True)
class RecordClass:
    """One expert's bytes: gate | up | down, padded to a page (paper: S_g, S_u, S_d and W_e = their sum).

    Attributes:
        shape: the shape class.
        gate_bytes, up_bytes, down_bytes: prepacked size S_j of each projection.
    """

    shape: ExpertShape
    gate_bytes: int
    up_bytes: int
    down_bytes: int

    @classmethod
    def of(cls, shape: ExpertShape) -> "RecordClass":
        """The record class of ``shape``."""
        gate, up, down = shape.layouts
        return cls(
            shape,
            projection_bytes(gate, shape.ffn, shape.hidden),
            projection_bytes(up, shape.ffn, shape.hidden),
            projection_bytes(down, shape.hidden, shape.ffn),
        )

    @property
    def expert_bytes(self) -> int:
        """W_e, without padding."""
        return self.gate_bytes + self.up_bytes + self.down_bytes

    @property
    def stride(self) -> int:
        """Bytes from one record to the next: W_e rounded up to whole pages; budgets count this."""
        return -(-self.expert_bytes // PAGE_BYTES) * PAGE_BYTES

    def to_json(self) -> dict[str, Any]:
        """The manifest's form."""
        return asdict(self) | {"stride": self.stride}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RecordClass":
        """Read the manifest's form; sizes that contradict the shape are refused.

        Raises:
            EStreamError: sizes that this version's layouts don't have, or missing keys.
        """
        try:
            shape = data["shape"]
            record = cls.of(ExpertShape(int(shape["hidden"]), int(shape["ffn"]), tuple(shape["layouts"])))
        except (KeyError, TypeError, ValueError) as error:
            raise EStreamError(f"the manifest's record class is damaged ({error!r}): pack the store again") from error
        if record.to_json() != data | {"shape": asdict(record.shape)}:
            raise EStreamError("the manifest's record sizes contradict its expert shape: pack the store again")
        return record
