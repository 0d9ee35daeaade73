"""Numbers on a logarithmic axis: plotly's own leave a short one with none, and write 20 as a small 2."""

import numpy as np


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two logarithms, from the coarsest steps of a decade that give three of them."""
    decades = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    for mantissas in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7), range(1, 10), [tenth / 10 for tenth in range(10, 100)]):
        values = [float(f"{one}e{decade}") for decade in decades for one in mantissas]
        ticks = [value for value in values if low <= np.log10(value) <= high]
        if len(ticks) > 2:
            break
    return ticks
