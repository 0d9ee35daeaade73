"""Reading config.json: typed values, and a clear refusal of what isn't there or isn't supported."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class Config:
    """The values of one config.json.

    Attributes:
        values: the parsed object.
        where: the file's name, for messages.

    A default of None means that the key must be there; null counts as absent. Every reader raises EStreamError.
    """

    values: Mapping[str, Any]
    where: str = "config.json"

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self._value(key, default)
        if type(value) is not int or value < 1:
            raise self.refuse(key, value, "a positive whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive finite number."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:  # NaN fails as well
            raise self.refuse(key, value, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """true or false."""
        value = self._value(key, default)
        if type(value) is not bool:
            raise self.refuse(key, value, "true or false")
        return value

    def require(self, key: str, only: object) -> None:
        """Refuse a value other than the only one that is supported; an absent key or null passes."""
        value = self.values.get(key)
        if value is not None and value != only:
            raise self.refuse(key, value, f"{only!r} (the only value that is supported)")

    def refuse(self, key: str, value: object, wanted: str) -> EStreamError:
        """The error for a value that can't be used."""
        return EStreamError(f"{self.where} sets {key} to {value!r} where it must be {wanted}; give another checkpoint")

    def rope_theta(self, default: float) -> float:
        """The rotary base, from `rope_theta` or from the `rope_parameters` that transformers 5 writes.

        Any kind of scaling is refused: a model made for it gives garbage without it.
        """
        parameters: dict[str, Any] = {}
        for key in ("rope_scaling", "rope_parameters"):
            value = self.values.get(key) or {}
            if not isinstance(value, Mapping):
                raise self.refuse(key, value, "an object")
            for name, part in value.items():
                if name in ("rope_type", "type"):
                    known = part in (None, "default")
                elif name == "partial_rotary_factor":
                    known = part in (None, 1)
                else:
                    known = name == "rope_theta" or part is None
                if not known:
                    raise self.refuse(f"{key}.{name}", part, "absent (rope scaling is not supported)")
            parameters.update(value)
        both = {self.number("rope_theta")} if self.values.get("rope_theta") is not None else set()
        if parameters.get("rope_theta") is not None:
            both.add(Config(parameters, f"{self.where} rope_parameters").number("rope_theta"))
        if len(both) > 1:
            raise self.refuse("rope_theta", sorted(both), "the same number as in rope_parameters")
        return both.pop() if both else default

    def _value(self, key: str, default: object) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise EStreamError(f"{self.where} lacks {key}; give a complete checkpoint")
        return default
