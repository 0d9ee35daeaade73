"""Device profiles: what the simulator knows of a device, every number with its unit, its mark and its source.

A profile is a JSON file. `data/devices/` of the checkout holds those that come with it; a name stands for one of them.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.simulate.storage import DepthBandwidth
from estream_lab.trace import write_atomically

FOLDER = Path(__file__).parents[2] / "data" / "devices"
"""Where the profiles of the checkout lie."""

MARKS = {
    "published": "printed by the device's maker, or in the paper",
    "inferred": "follows from published numbers",
    "fitted": "chosen so that simulated times come near published or measured ones",
    "assumed": "made up, or taken from similar devices",
}
"""How sure a number is, and what that means."""

UNITS = {
    "read_latency": "ns",
    "bank_synchronisation": "ns",
    "dense_rate": "FLOP/s",
    "expert_rate": "FLOP/s",
    "group_overhead": "ns",
    "runtime_memory": "bytes",
    "dense_weight": "bytes/weight",
    "vtcm": "bytes",
    "dma_rate": "bytes/s",
    "dma_latency": "ns",
    "decode_rate": "weights/s",
    "vector_rate": "elements/s",
    "matrix_rate": "FLOP/s",
}
"""The numbers of a profile by name, each with its unit; `Device` says what they mean."""

POSITIVE = ("dense_rate", "expert_rate", "vtcm", "dma_rate", "decode_rate", "vector_rate", "matrix_rate")
FORMAT, VERSION = "estream-device", 1
_KEYS = ("format", "version", "name", "title", "scope", "fitted_to", "read_bandwidths", "numbers")


@dataclass(frozen=True)
class Number:
    """A number of a profile: its value, its unit, one of `MARKS`, and a sentence that says where it is from."""

    value: float
    unit: str
    mark: str
    source: str


@dataclass(frozen=True)
class FittedTo:
    """What was simulated where a profile was fitted: a model by its title, a number of tokens, and G (None: any)."""

    model: str
    tokens: int
    group_size: int | None

    def covers(self, model: str, tokens: int, group_size: int) -> bool:
        """Whether this is such a request."""
        return (model, tokens) == (self.model, self.tokens) and self.group_size in (None, group_size)


@dataclass(frozen=True)
class Device:
    """A device as the simulator sees it.

    Attributes:
        name: of its file. title: what device. scope: what the numbers are good for, in a sentence's part.
        fitted_to: the same where numbers are fitted, for `covers`; None where none are.
        read_bandwidths: bytes/s of all reads together, with one, two, … of them outstanding; more are as fast as the
            last.
        numbers: by name, in the units of `UNITS`:

            - read_latency: what a read takes before its first byte comes.
            - bank_synchronisation: per layer and bank, see `soc.service_times_of`.
            - dense_rate, expert_rate: of a layer's non-expert work, and of an expert group.
            - group_overhead: what a group takes on top of its rows.
            - runtime_memory: what a request takes beside arena, dense weights and keys and values.
            - dense_weight: size of a weight that isn't an expert's, in memory.
            - vtcm, dma_rate, dma_latency, decode_rate, vector_rate, matrix_rate: inside an invocation, see `tiles`.

    Raises:
        EStreamError: a number that is missing or unknown, of another unit or an unknown mark, without a source, or out
            of its range.
    """

    name: str
    title: str
    scope: str
    fitted_to: FittedTo | None
    read_bandwidths: tuple[Number, ...]
    numbers: Mapping[str, Number]

    def __post_init__(self) -> None:
        wrong = [f"lacks {name}" for name in UNITS if name not in self.numbers]
        wrong += [f"has the unknown number {name}" for name in self.numbers if name not in UNITS]
        if wrong:
            raise self._refused(wrong[0])
        to = self.fitted_to
        if to is not None and (type(to.model), type(to.tokens), type(to.group_size)) not in _FITTED:
            raise self._refused("was fitted to what is no model, number of tokens and group size")
        for place, bandwidth in enumerate(self.read_bandwidths, 1):
            self._check(f"read_bandwidths {place}", bandwidth, "bytes/s", positive=True)
        for name, number in self.numbers.items():
            self._check(name, number, UNITS[name], positive=name in POSITIVE)
        self.storage()

    def __getitem__(self, name: str) -> float:
        """The value of a number by its name; KeyError if there is none."""
        return self.numbers[name].value

    @property
    def mark(self) -> str:
        """ "fitted" if any number that request times come from is, else the least sure of their marks."""
        marks = {*(number.mark for number in self.read_bandwidths), *(self.numbers[name].mark for name in _REQUEST)}
        return "fitted" if "fitted" in marks else max(marks, key=list(MARKS).index)

    @property
    def assumed(self) -> list[str]:
        """The numbers that request times come from and that are assumed, each as name, value and unit."""
        numbers = {name: self.numbers[name] for name in _REQUEST}
        return [f"{name} {one.value:g} {one.unit}" for name, one in numbers.items() if one.mark == "assumed"]

    def covers(self, model: str, tokens: int, group_size: int) -> bool:
        """Whether such a request is what the profile was fitted to, or nothing was fitted."""
        return self.fitted_to is None or self.fitted_to.covers(model, tokens, group_size)

    def storage(self) -> DepthBandwidth:
        """Its storage.

        Raises:
            EStreamError: bandwidths that fall with more outstanding reads, or none.
        """
        return DepthBandwidth(tuple(bandwidth.value for bandwidth in self.read_bandwidths), round(self["read_latency"]))

    def with_values(self, bandwidths: Mapping[int, float], values: Mapping[str, float]) -> "Device":
        """The same device with other values: of read bandwidths by their place from 0 on, and of numbers by name.

        Raises:
            EStreamError: as the class.
        """
        reads = tuple(
            replace(number, value=bandwidths.get(place, number.value))
            for place, number in enumerate(self.read_bandwidths)
        )
        changed = {name: replace(self.numbers[name], value=value) for name, value in values.items()}
        return replace(self, read_bandwidths=reads, numbers={**self.numbers, **changed})

    def to_json(self, path: Path) -> None:
        """Write the profile's file."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "title": self.title,
            "scope": self.scope,
            "fitted_to": self.fitted_to and vars(self.fitted_to),
            "read_bandwidths": [vars(number) for number in self.read_bandwidths],
            "numbers": {name: vars(self.numbers[name]) for name in UNITS},
        }
        write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def _check(self, name: str, number: Number, unit: str, *, positive: bool) -> None:
        value = number.value
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0 or (positive and not value):
            raise self._refused(f"gives {name} as {value!r}, which is no {'positive ' * positive}number of {unit}")
        if number.unit != unit:
            raise self._refused(f"gives {name} in '{number.unit}', not in {unit}")
        if number.mark not in MARKS:
            raise self._refused(f"marks {name} '{number.mark}', which is none of {', '.join(MARKS)}")
        if not isinstance(number.source, str) or not number.source.strip():
            raise self._refused(f"doesn't say where {name} is from")

    def _refused(self, what: str) -> EStreamError:
        return EStreamError(f"the device profile '{self.name}' {what}: correct its file")


_FITTED = ((str, int, int), (str, int, type(None)))
_REQUEST = ("read_latency", "bank_synchronisation", "dense_rate", "expert_rate", "group_overhead")


def load_device(of: str | Path) -> Device:
    """The profile of a file, or of that name in the checkout's `data/devices`.

    Raises:
        EStreamError: no such file, one that isn't a profile or is of another version, or what `Device` refuses.
    """
    path = Path(of)
    if path.suffix != ".json":
        path = FOLDER / f"{of}.json"
        if not path.exists():
            known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.json"))) or "none"
            raise EStreamError(
                f"there is no device profile '{of}' in {FOLDER}: choose one of those there ({known}), or give the path "
                "of a .json file"
            )
    document = _read(path)
    try:
        to = None if document["fitted_to"] is None else FittedTo(**document["fitted_to"])
        reads = tuple(Number(**values) for values in document["read_bandwidths"])
        numbers = {str(name): Number(**values) for name, values in document["numbers"].items()}
    except (AttributeError, TypeError) as error:
        raise EStreamError(
            f"{path} is a damaged device profile ({error}): each number has value, unit, mark and source, "
            "and what it was fitted to has model, tokens and group_size"
        ) from error
    name, title, scope = (document[key] for key in ("name", "title", "scope"))
    if not all(isinstance(text, str) and text for text in (name, title, scope)):
        raise EStreamError(f"{path} is a damaged device profile: name, title and scope are texts")
    return Device(name, title, scope, to, reads, numbers)


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise EStreamError(f"can't read the device profile {path}: {error.strerror}; check the path") from error
    except ValueError as error:
        raise EStreamError(
            f"{path} is no device profile: it isn't JSON ({error}); give a file like those in {FOLDER}"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise EStreamError(f"{path} is no device profile: give a file like those in {FOLDER}")
    if document.get("version") != VERSION:
        raise EStreamError(
            f"{path} is a device profile of version {document.get('version')}, this release reads {VERSION}"
        )
    if set(document) != set(_KEYS):
        odd = sorted(set(document) ^ set(_KEYS))[0]
        raise EStreamError(f"{path} is a damaged device profile: '{odd}' is missing or unknown")
    return document
