"""Every rule has a case that shows in a moment what it is there for."""

import pytest

from estream_lab.experts.cases import CASES, STORY, troubles
from estream_lab.experts.exploration import explore, without
from estream_lab.experts.hazards import HazardChecker
from estream_lab.experts.rules import RULES
from estream_lab.experts.steps import refused, walk

WRONG = {
    "free-bank": ("double owner", "bytes of group 0 of layer 0 and group 1 of layer 0 mix"),
    "one-home": ("double home", "group 2 of layer 0 is read into two banks"),
    "queue-place": ("queue overrun", "more than 1 reads are outstanding"),
    "useful-read": ("useless read", "group 1 of layer 0 has no work, or has done it"),
    "spare-bank": ("deadlock", "bank 0: READY group 2 of layer 0, bank 1: READY group 0 of layer 1"),
    "all-slices": ("early publish", "a part of its weights hasn't arrived"),
    "good-data": ("bad data", "its weights failed their check"),
    "ready-first": ("early publish", "a part of its weights hasn't arrived"),
    "routes-first": ("before routing", "the layer's routes aren't known"),
    "visit-order": ("out of order", "sums are rounded in another order"),
    "once": ("no routes", "it has no work in this layer"),
    "one-runner": ("two at once", "two executions add into one result"),
    "last-invocation": ("early reuse", "group 0 of layer 0 computes with bytes of group 2 of layer 0"),
    "needed-stays": ("reads ahead", "more than 2 reads before the routes"),
    "settle": ("left behind", "its bytes arrive in the next run's bank"),
    "all-run": ("never run", "routes of group 0, 1, 2 are left out of the result"),
    "all-released": ("left behind", "its bytes arrive in the next layer's bank"),
    "stop": ("start after the stop", "the run never comes to rest"),
    "turn-taking": ("not ended", "layer 0 is left unfinished"),
}


def test_every_rule_has_a_case() -> None:
    assert list(CASES) == list(WRONG) == [rule.name for rule in RULES] == list(troubles())


@pytest.mark.parametrize("rule", WRONG)
def test_a_case_is_small_and_shows_what_its_rule_prevents(rule: str) -> None:
    setting = CASES[rule]
    whole = explore(setting)
    assert whole.trouble == {} and whole.ends > 0  # with all rules on
    assert whole.states < 4_000
    trouble = without(setting, rule)
    assert trouble is not None
    assert (trouble.kind, trouble.hazard.why) == WRONG[rule]
    assert len(trouble.moves) <= 16
    assert set(refused(trouble.moves, setting).values()) == {rule}


def test_the_story_is_one_of_the_runs_that_were_explored() -> None:
    moves, checker = walk(STORY), HazardChecker(STORY.banks, STORY.queue_depth)
    for move in moves:
        checker.observe(move)
    assert checker.hazards == []
    assert refused(moves, STORY) == {}
    assert explore(STORY).trouble == {}


def test_a_hang_is_told_without_an_event_before_it() -> None:
    assert str(troubles()["spare-bank"].hazard) == (
        "deadlock: nothing can follow (at 9): bank 0: READY group 2 of layer 0, bank 1: READY group 0 of layer 1"
    )
