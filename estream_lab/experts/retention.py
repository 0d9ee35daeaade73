"""Retention: which groups stay in their banks after they have run, for a later pass over their layer.

A later pass is the next request, or the next chunk of a long prompt. Pure, like schedules.
"""

from typing import ClassVar

from estream_lab.errors import EStreamError
from estream_lab.experts.protocol import GroupKey
from estream_lab.experts.schedule import View


class Retention:
    """Keep nothing: each layer starts with empty banks, as the paper's model has it.

    One that keeps something derives from this. It is asked as a `Schedule` is, and has its name as that has.
    """

    name: ClassVar[str] = "nothing"

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name", cls.__name__)

    def keep(self, view: View, key: GroupKey) -> bool:
        """Whether ``key``, which has run or has no routes, stays in its bank."""
        return False

    def victim(self, view: View) -> GroupKey | None:
        """Which of ``view.evictable`` to give up for the next read; None to wait for a free bank instead."""
        return None


class KeepFirst(Retention):
    """Keep the first groups that come by, in at most ``banks`` banks, and never give them up.

    These are the first layer's, whose first fill hides behind less work than any other.

    Raises:
        EStreamError: fewer than one bank to keep.
    """

    name = "first"

    def __init__(self, banks: int) -> None:
        if banks < 1:
            raise EStreamError(f"at least one bank must be kept, not {banks}: leave the retention out to keep none")
        self.banks = banks

    def keep(self, view: View, key: GroupKey) -> bool:
        """See `Retention`."""
        return len(view.kept) < self.banks


class KeepLatest(Retention):
    """Keep every group until its bank is wanted, then give up the one whose layer comes back last."""

    name = "latest"

    def keep(self, view: View, key: GroupKey) -> bool:
        """See `Retention`."""
        return True

    def victim(self, view: View) -> GroupKey | None:
        """See `Retention`."""
        layers = len(view.limits.groups)
        return max(view.evictable, key=lambda key: ((key.layer - view.layer - 1) % layers, key.group), default=None)
