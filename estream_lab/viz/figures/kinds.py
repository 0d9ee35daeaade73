"""How marks of each kind look: a reader tells published from measured, simulated and fitted without a colour."""

from collections.abc import Sequence

from estream_lab.tuning.paper.marks import COMPUTED, FITTED, KINDS, MEASURED, NOTED, PUBLISHED, SIMULATED, Mark
from estream_lab.viz.figures.theme import COLOURS, GREY

SYMBOLS = {
    PUBLISHED: "diamond",
    NOTED: "diamond-open",
    MEASURED: "circle",
    SIMULATED: "triangle-up-open",
    FITTED: "square-open",
    COMPUTED: "x-thin-open",
}
KIND_COLOURS = {
    PUBLISHED: COLOURS["wait"],
    NOTED: COLOURS["wait"],
    MEASURED: COLOURS["dense"],
    SIMULATED: COLOURS["storage"],
    FITTED: COLOURS["other"],
    COMPUTED: GREY,
}

UNIT_BYTES = {"MiB": 2**20, "GiB": 2**30}


def hover(mark: Mark) -> str:
    """A mark in words, for plotly."""
    note = f"<br>{mark.note}" if mark.note else ""
    return f"<b>{mark.of}</b><br>{mark.quantity} {told(mark)}<br>{mark.kind}: {KINDS[mark.kind]}{note}<extra></extra>"


def told(mark: Mark) -> str:
    """A value with its unit, to three digits."""
    if mark.unit == "bytes":
        unit = bytes_unit([mark])
        return f"{mark.value / UNIT_BYTES[unit]:.3g} {unit}"
    return f"{mark.value:.1f} %" if mark.unit == "%" else f"{mark.value:.3g} {mark.unit}"


def bytes_unit(marks: Sequence[Mark]) -> str:
    """The unit in which all of them are short: MiB if they are below a quarter of a GiB."""
    return "MiB" if max(mark.value for mark in marks) < 2**28 else "GiB"
