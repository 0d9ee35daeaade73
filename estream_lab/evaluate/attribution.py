"""Numerics attribution: how much of the difference between device and exact results each step of the arithmetic makes.

Two kinds of figures. *Local*: every variant sees the same inputs, those of the run with all steps off, so that layers
don't add up. *Free-running*: each variant goes its own way through the model; its routes and its logits are compared
with those of its reference.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import OFF, Case
from estream_lab.evaluate.layers import layerwise
from estream_lab.evaluate.local import LocalErrors
from estream_lab.evaluate.runs import Change, change, run, size_bytes
from estream_lab.experts.switched import watched
from estream_lab.streaming import Store


@dataclass(frozen=True, kw_only=True)
class Row(Change):
    """What one step, or several, change.

    Attributes:
        group, name: of the case.
        on, reference: what was on, and what was on in the run that it is compared with.
        layer_error: of each layer's expert output on equal inputs: ‖y - y_ref‖ / ‖y_off‖ over all windows.
    """

    group: str
    name: str
    on: tuple[str, ...]
    reference: tuple[str, ...]
    layer_error: tuple[float, ...]


@dataclass(frozen=True)
class Attribution:
    """All rows for one model and text.

    Attributes:
        model: the checkpoint that its weights come from.
        renormalise: whether its router divides a token's weights by their sum. top_k: experts of a token.
        windows, tokens: of the text that was read. routes_per_layer: tokens times k.
        bits_per_byte: with Q4_0 weights and all steps off.
        rows: in the order of the cases.
    """

    model: str
    renormalise: bool
    top_k: int
    windows: int
    tokens: int
    routes_per_layer: int
    bits_per_byte: float
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def attribute(store: Store, windows: Sequence[Window], found: Sequence[Case], *, threads: int = 1) -> Attribution:
    """Compare the cases on a model and a text.

    Args:
        store: packed as f32, so that quantising is a step like the others.
        windows: no longer than the model's context, of at least two tokens together.
        found: what to compare with what.
        threads: of the engine; they change no figure.

    Raises:
        EStreamError: a store of another layout, or fewer than two tokens.
    """
    unquantised(store)
    tokens = count_tokens(windows)
    layers = store.spec.layers
    local = LocalErrors(found, layers)
    seen = watched(layerwise([OFF] * layers), local.see)
    runs = {OFF: run(store, windows, seen, threads=threads, begin=local.begin)}
    for each in dict.fromkeys(s for case in found for s in (case.reference, case.switches)):
        if each not in runs:
            runs[each] = run(store, windows, layerwise([each] * layers), threads=threads)
    rows = tuple(
        Row(
            **vars(change(runs[case.switches], runs[case.reference], windows)),
            group=case.group,
            name=case.name,
            on=case.switches.names,
            reference=case.reference.names,
            layer_error=tuple(error.tolist()),
        )
        for case, error in zip(found, local.errors, strict=True)
    )
    router = store.spec.router
    return Attribution(
        model=str(store.origin["checkpoint"]),
        renormalise=router.renormalise,
        top_k=router.top_k,
        windows=len(windows),
        tokens=tokens,
        routes_per_layer=tokens * router.top_k,
        bits_per_byte=runs[OFF].bits(windows) / size_bytes(windows),
        rows=rows,
    )


def unquantised(store: Store) -> None:
    """See that quantising can be a step.

    Raises:
        EStreamError: the store's weights are quantised.
    """
    if any(set(record.shape.layouts) != {"f32"} for record in store.classes):
        raise EStreamError(f"{store.path} is quantised already: attribution needs it packed with --quant f32")


def count_tokens(windows: Sequence[Window]) -> int:
    """Tokens of all windows.

    Raises:
        EStreamError: fewer than two: a difference needs a spread.
    """
    if (tokens := sum(map(len, windows))) < 2:
        raise EStreamError(
            f"attribution needs two tokens of text, to say how sure a difference is: give more than {tokens}"
        )
    return tokens
