"""A small, telling setting for each rule: with the rule taken away, the shortest way into trouble is short and plain.

`exploration.without(CASES[rule], rule)` finds that way in a few hundredths of a second. Unless a rule needs more, a
case has two banks, two reads at once, and three groups of one expert that all have routes.
"""

from dataclasses import replace

from estream_lab.experts.decide import Policies
from estream_lab.experts.exploration import Setting, Trouble, without
from estream_lab.experts.rules import RULES
from estream_lab.experts.schedule import Early

ALL = ((0, 1, 2),)
PLAIN = Setting(experts=3, group_size=1, banks=2, queue_depth=2, needed=ALL)
SKIPPING = replace(PLAIN, needed=((0, 2),))  # group 1 has no routes

CASES: dict[str, Setting] = {
    "free-bank": PLAIN,
    "one-home": PLAIN,
    "queue-place": replace(PLAIN, queue_depth=1),
    "useful-read": SKIPPING,
    "spare-bank": replace(SKIPPING, passes=(0, 1), ahead=True),  # the next layer's group takes this layer's bank
    "all-slices": replace(PLAIN, experts=6, group_size=2),
    "good-data": replace(PLAIN, fail=True),
    "ready-first": PLAIN,
    "routes-first": PLAIN,
    "visit-order": PLAIN,
    "once": SKIPPING,
    "one-runner": PLAIN,
    "last-invocation": replace(PLAIN, invocations=2),
    "needed-stays": PLAIN,
    "settle": replace(PLAIN, stop=True, policies=Policies(Early())),
    "all-run": PLAIN,
    "all-released": replace(PLAIN, needed=((0,),)),  # group 1 is read before the routes say that it has no work
    "stop": replace(PLAIN, stop=True),
    "turn-taking": PLAIN,
}

STORY = Setting(experts=6, group_size=2, banks=2, queue_depth=2, needed=((0, 2),))
"""A run with all rules on that shows what there is to see: groups of two slots, more groups than banks, one without
routes."""


WHOLE: tuple[Setting, ...] = (
    replace(PLAIN, needed=None),
    Setting(experts=7, group_size=2, banks=1, queue_depth=1, stop=True, fail=True),  # one bank, filled four times
    Setting(experts=3, group_size=2, banks=2, queue_depth=2, passes=(0, 1, 0), keep=True),
    Setting(experts=5, group_size=2, banks=2, queue_depth=2, stop=True, fail=True),
    Setting(experts=3, group_size=2, banks=2, queue_depth=2, passes=(0, 1), ahead=True, keep=True, fail=True),
)
"""Settings that are explored to the last state in seconds, whatever the routes and the policy, all rules on; the
quickest come first."""


def troubles() -> dict[str, Trouble]:
    """The shortest way into trouble without each rule, in the order of `RULES`."""
    found = {rule.name: without(CASES[rule.name], rule.name) for rule in RULES}
    return {name: trouble for name, trouble in found.items() if trouble is not None}
