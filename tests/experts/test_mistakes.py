"""Policies that are wrong on purpose are wrong in the way that they say, at every point, and never do harm."""

import pytest

from estream_lab.experts.decide import Policies
from estream_lab.experts.exploration import Setting, explore
from estream_lab.experts.mistakes import MISTAKES, Backwards

SENTENCES = {
    "greedy": "the last spare bank goes to the first group in visit order that is in none",
    "forgetful": "a group is in at most one bank",
    "deaf": "once the routes are known, only groups with work are read",
    "asleep": "starves the executor",
    "hoarder": "a group that runs before that one keeps its bank",
}


def test_every_mistake_is_held_here() -> None:
    assert list(MISTAKES) == list(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_a_mistake_is_refused_with_its_sentence_and_does_no_harm_before(name: str) -> None:
    found = explore(Setting(3, 1, 2, 2, passes=(0, 1), policies=MISTAKES[name], needed=((0, 1, 2),)))
    assert set(found.trouble) == {"policy error"}
    why = found.trouble["policy error"].hazard.why
    assert f"'{name}'" in why and SENTENCES[name] in why


@pytest.mark.parametrize("banks", [1, 2, 3])
def test_reading_backwards_is_odd_but_lawful(banks: int) -> None:
    found = explore(Setting(4, 1, banks, 2, policies=Policies(Backwards())))
    assert found.trouble == {} and found.ends > 0
