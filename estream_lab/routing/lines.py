"""Numbers in the lines of route files: checked on the way in, exact on the way out."""

from __future__ import annotations

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.routing.routes import Routes

INT32_MAX = 2**31 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)


class Line:
    """A place in a route file, for errors that name it."""

    def __init__(self, path: object, number: int) -> None:
        self.path = path
        self.number = number

    def error(self, reason: str) -> EStreamError:
        """The error for something wrong at this place; `reason` says what and what to do."""
        return EStreamError(f"{self.path}, line {self.number}: {reason}")

    def whole(self, value: object, name: str, limit: int = INT32_MAX) -> int:
        """`value` as a whole number in 0..limit."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise self.error(f"{name} is {value!r}, but must be a whole number from 0 to {limit}.")
        return value

    def weight(self, value: object, name: str) -> float:
        """`value` as a number that stays finite in float32."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= FLOAT32_MAX:
            raise self.error(f"{name} is {value!r}, but must be a finite float32 number.")
        return float(value)


def routes_of(token: list[int], expert: list[int], weight: list[float]) -> Routes:
    """Routes from checked columns."""
    return Routes(np.array(token, np.int32), np.array(expert, np.int32), np.array(weight, np.float32))
