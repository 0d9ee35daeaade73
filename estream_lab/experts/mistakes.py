"""Policies that are wrong on purpose, for lessons and tests: each is refused with a sentence that says why.

`Backwards` is the exception: not a good idea, but it breaks no rule, and so it changes no result.
"""

from estream_lab.experts.decide import Policies
from estream_lab.experts.protocol import GroupKey
from estream_lab.experts.retention import Retention
from estream_lab.experts.schedule import Early, Schedule, View


class Backwards(Schedule):
    """Reads the last group first, as long as there is a bank to spare for the first one."""

    name = "backwards"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        if not view.unread:
            return None
        return view.unread[-1] if view.free > 1 else view.unread[0]


class Greedy(Schedule):
    """Reads the last group first into every bank there is: the group that runs first finds none."""

    name = "greedy"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        return view.unread[-1] if view.unread else None


class Forgetful(Schedule):
    """Reads the layer's first group again and again."""

    name = "forgetful"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        return GroupKey(view.layer, 0)


class Deaf(Schedule):
    """Reads group after group, whatever the router says."""

    name = "deaf"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        groups = (GroupKey(view.layer, group) for group in range(view.limits.groups[view.layer]))
        return next((key for key in groups if key not in view.held), None) if view.routed else None


class Asleep(Schedule):
    """Never reads."""

    name = "asleep"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        return None


class Hoarder(Retention):
    """Keeps every group, and gives up one that isn't in any bank."""

    name = "hoarder"

    def keep(self, view: View, key: GroupKey) -> bool:
        """See `Retention`."""
        return True

    def victim(self, view: View) -> GroupKey | None:
        """See `Retention`."""
        return view.unread[0] if view.unread else None


MISTAKES: dict[str, Policies] = {
    "greedy": Policies(Greedy()),
    "forgetful": Policies(Forgetful()),
    "deaf": Policies(Deaf()),
    "asleep": Policies(Asleep()),
    "hoarder": Policies(Early(), Hoarder()),
}
