"""An axis for values of either sign over many decades."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SignedScale:
    """Logarithmic away from 0 and linear about it: a gain can't be taken for a loss, nor a small value for none.

    A value v is drawn at arcsinh(v / 2 unit) / ln 10: about log10(|v| / unit), with v's sign, where |v| is larger.

    Attributes:
        unit: where the scale turns from linear to logarithmic.
    """

    unit: float

    def place(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Where values are drawn."""
        return np.asarray(np.arcsinh(np.asarray(values, np.float64) / (2 * self.unit)) / np.log(10))

    def error_bars(self, values: Sequence[float], errors: Sequence[float]) -> dict[str, Any]:
        """Plotly's error bars of values ± errors: on this scale their two sides differ."""
        middle, spread = np.array(values), np.array(errors)
        at = self.place(middle)
        return {
            "array": (self.place(middle + spread) - at).tolist(),
            "arrayminus": (at - self.place(middle - spread)).tolist(),
            "symmetric": False,
            "thickness": 1,
        }

    def ticks(self, least: float, most: float, first: float, decades: int) -> dict[str, Any]:
        """Plotly's ticks at 0, at ± `first` and then every so many decades, as far as least and most reach."""
        marks = [0.0]
        size = first
        while size <= max(abs(least), abs(most)):
            marks = ([-size] if -size >= least else []) + marks + ([size] if size <= most else [])
            size *= 10.0**decades
        return {"tickvals": self.place(marks).tolist(), "ticktext": [_text(mark) for mark in marks]}


def _text(value: float) -> str:
    if value == 0 or 1e-3 < abs(value) < 1e4:
        return f"{value:+g}".replace("-", "−") if value else "0"
    return f"{'−' if value < 0 else '+'}10<sup>{round(np.log10(abs(value)))}</sup>".replace("<sup>-", "<sup>−")
