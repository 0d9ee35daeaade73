"""Figures held to a recorded baseline: what drifted, is new or is gone is named in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from estream_lab.errors import EStreamError

Figure = float | str


def recorded(baseline: Path, name: str) -> Any:
    """What a file of baselines records under a name.

    Raises:
        EStreamError: no such file or name in it.
    """
    try:
        return json.loads(baseline.read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EStreamError(f"{baseline} holds no baseline '{name}' ({error!r}): record one") from error


def hold(mine: Mapping[str, Figure], theirs: Mapping[str, Figure], near: Callable[[str], bool]) -> int:
    """Hold figures, by place, to those that were recorded; returns how many were compared.

    Args:
        mine: found now.
        theirs: recorded.
        near: whether the two at a place, which both have, are as close as they should be.

    Raises:
        EStreamError: a figure that left its baseline, was added or is gone.
    """
    drifted = [f"{at} is {'new' if at in mine else 'gone'}" for at in sorted(set(mine) ^ set(theirs))]
    both = sorted(set(mine) & set(theirs))
    drifted += [f"{at} is {_shown(mine[at])}, its baseline {_shown(theirs[at])}" for at in both if not near(at)]
    if drifted:
        more = f" and {len(drifted) - 3} more" if len(drifted) > 3 else ""
        raise EStreamError(
            f"{len(drifted)} of {len(both)} figures left their baseline: {'; '.join(drifted[:3])}{more}. "
            "Find the cause; if the change is meant, record the baseline again."
        )
    return len(both)


def _shown(value: Figure) -> str:
    return value if isinstance(value, str) else f"{value:g}"
