"""The weights of a checkpoint under canonical names, and the experts one at a time."""

from __future__ import annotations

import os
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.models.checkpoint import CONFIG, Checkpoint
from estream_lab.models.config import Config
from estream_lab.models.families import family_of
from estream_lab.models.spec import ModelSpec

Weights = NDArray[np.float32]


class ExpertSource:
    """A checkpoint of a known family, every tensor of which is accounted for before any is read.

    Attributes:
        checkpoint: where the tensors come from.
        spec: the model.
        dense_names: canonical names of the weights that are not experts', in the order of use.
        packed: per layer, whether its experts lie together in one tensor a projection.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Prefer `open`, which validates as well."""
        where = str(checkpoint.path / CONFIG)
        self.checkpoint = checkpoint
        self._family = family_of(checkpoint.config, where)
        self.spec: ModelSpec = self._family.spec(Config(checkpoint.config, where))
        names = set(checkpoint.names)
        self._refuse_more("num_hidden_layers", self.spec.layers, len(names))
        self.dense_names: tuple[str, ...] = tuple(self.spec.dense_shapes())
        experts = self._family.experts
        self.packed: tuple[bool, ...] = tuple(
            experts.gate_up.format(layer=layer) in names for layer in range(self.spec.layers)
        )
        if not all(self.packed):
            self._refuse_more("num_experts", self.spec.experts, len(names))

    @classmethod
    def open(cls, checkpoint: Checkpoint | str | os.PathLike[str]) -> ExpertSource:
        """The validated source of an open checkpoint or of a checkpoint's folder; a folder's files close with the
        source.

        Raises:
            EStreamError: see `Checkpoint`, `spec_from_config` and `validate`.
        """
        if isinstance(checkpoint, Checkpoint):
            source = cls(checkpoint)
            source.validate()
            return source
        opened = Checkpoint(checkpoint)
        try:
            return cls.open(opened)
        except BaseException:
            opened.close()
            raise

    def __enter__(self) -> ExpertSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.checkpoint.close()

    def dense(self, name: str) -> Weights:
        """A dense weight by its canonical name, float32, in memory of its own; NaN and infinity are refused."""
        if name not in self.dense_names:
            raise KeyError(name)
        return self.checkpoint.read(self._family.dense_name(name))

    def dense_dtype(self, name: str) -> str:
        """How the checkpoint stores a dense weight: "F32", "F16" or "BF16"."""
        return self.checkpoint.dtype(self._family.dense_name(name))

    def expert(self, layer: int, expert: int) -> tuple[Weights, Weights, Weights]:
        """gate (F, H), up (F, H) and down (H, F) of one expert, float32; NaN and infinity are refused."""
        if not (0 <= layer < self.spec.layers and 0 <= expert < self.spec.experts):
            raise IndexError(f"no expert {expert} in layer {layer}")
        names, read = self._family.experts, self.checkpoint.read
        if self.packed[layer]:
            gate_up = read(names.gate_up.format(layer=layer), expert)  # (2F, H), gate rows first
            down = read(names.packed_down.format(layer=layer), expert)  # (H, F)
            return gate_up[: self.spec.ffn], gate_up[self.spec.ffn :], down
        gate, up, down = (read(name.format(layer=layer, expert=expert)) for name in (names.gate, names.up, names.down))
        return gate, up, down

    def expected_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor that the checkpoint must hold, by the checkpoint's own names."""
        spec, names = self.spec, self._family.experts
        shapes = {self._family.dense_name(name): shape for name, shape in spec.dense_shapes().items()}
        for layer in range(spec.layers):
            if self.packed[layer]:
                shapes[names.gate_up.format(layer=layer)] = (spec.experts, 2 * spec.ffn, spec.hidden)
                shapes[names.packed_down.format(layer=layer)] = (spec.experts, spec.hidden, spec.ffn)
                continue
            for expert in range(spec.experts):
                shapes[names.gate.format(layer=layer, expert=expert)] = (spec.ffn, spec.hidden)
                shapes[names.up.format(layer=layer, expert=expert)] = (spec.ffn, spec.hidden)
                shapes[names.down.format(layer=layer, expert=expert)] = (spec.hidden, spec.ffn)
        return shapes

    def _refuse_more(self, key: str, count: int, tensors: int) -> None:
        """Refuse a count that so few tensors can't make up: an absurd one must not become a list of names."""
        if count > tensors:
            raise EStreamError(
                f"{self.checkpoint.path / CONFIG} sets {key} to {count}, more than the checkpoint has tensors "
                f"({tensors}); correct {CONFIG} or give a complete checkpoint"
            )

    def validate(self) -> None:
        """Compare every tensor's name, shape and dtype with what the configuration promises, reading no weights.

        A tensor under an unknown name is refused: loaders that pass over it leave experts silently unloaded.

        Raises:
            EStreamError: a tensor is missing, unknown, of another shape, or of a dtype that isn't read.
        """
        path, names = self.checkpoint.path, set(self.checkpoint.names)
        expected = self.expected_shapes()
        missing, unknown = sorted(set(expected) - names), sorted(names - set(expected))
        if missing:
            also = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            hint = f"; it holds the unknown tensor {unknown[0]}" if unknown else ""
            raise EStreamError(
                f"{path} lacks tensor {missing[0]}{also}{hint}; give a complete checkpoint of this family"
            )
        if unknown:
            also = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise EStreamError(
                f"{path} holds the unknown tensor {unknown[0]}{also}; correct {CONFIG} or remove the tensor"
            )
        for name, shape in expected.items():
            found = self.checkpoint.shape(name)
            if found != shape:
                raise EStreamError(
                    f"tensor {name} in {path} has shape {found} where {CONFIG} promises {shape}; correct {CONFIG}"
                )
            self.checkpoint.check_dtype(name)
