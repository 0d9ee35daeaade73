"""Ways through the protocol: their states, their words, their placement map, and the trace that they make."""

from dataclasses import replace

import numpy as np
import pytest

from estream_lab.experts.cases import CASES, STORY, troubles
from estream_lab.experts.decide import Policies
from estream_lab.experts.exploration import Setting
from estream_lab.experts.protocol import (
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    GroupKey,
    Keep,
    Move,
    Publish,
    Read,
    Release,
    Reset,
    Routed,
    Run,
    Stop,
    at_rest,
)
from estream_lab.experts.residency import ResidencyTable, SlotState
from estream_lab.experts.schedule import AfterRouting, OnDemand
from estream_lab.experts.steps import placement, refused, sentence, states, trace, transitions, walk
from estream_lab.experts.watch import hazards

A, F, R, U = SlotState
LAYERS = replace(STORY, passes=(0, 1), ahead=True)
ZERO, ONE = GroupKey(0, 0), GroupKey(0, 1)
TWO_SLICES: list[Move] = [
    Begin(0),
    Read(ZERO, 0, 2),
    Arrived(0),
    Read(ONE, 1, 2),
    Arrived(1),
    Arrived(0),
    Publish(ZERO, 0),
    Routed(0, (0,)),
    Run(ZERO, 0, 2),
    Completed(0),
    Arrived(1),
    Completed(0),
    Release(ZERO, 0),
    Release(ONE, 1),
    End(0),
]


def spans(moves: list[Move], unit: str) -> list[tuple[int, int, int | None, int | None]]:
    """(first step, last step, group, bank) of a unit's spans."""
    return [(s.start_ns, s.end_ns, s.group, s.bank) for s in trace(moves, 2, 2).select(unit)]


def test_a_read_lasts_to_its_last_slice_and_an_execution_to_its_last_invocation() -> None:
    assert spans(TWO_SLICES, "storage") == [(2, 6, 0, 0), (4, 11, 1, 1)]
    assert spans(TWO_SLICES, "expert") == [(9, 12, 0, 0)]
    assert spans(TWO_SLICES, "plan") == [(8, 8, 0, None), (15, 15, None, None)]
    assert spans(TWO_SLICES, "dense") == [(1, 8, None, None)]
    assert spans(TWO_SLICES, "request") == [(0, 16, None, None)]


def test_what_has_not_ended_lasts_beyond_the_last_step() -> None:
    assert spans(TWO_SLICES[:5], "storage") == [(2, 6, 0, 0), (4, 6, 1, 1)]
    assert spans(TWO_SLICES[:9], "expert") == [(9, 10, 0, 0)]


def test_a_failed_read_ends_and_a_new_run_is_another_request() -> None:
    moves = [Begin(0), Read(ZERO, 0, 3), Arrived(0), Failed(0), Stop(), Release(ZERO, 0), Reset(), Begin(0)]
    assert spans(moves, "storage") == spans(moves[:5], "storage") == [(2, 4, 0, 0)]
    assert [(s.request, s.start_ns, s.end_ns) for s in trace(moves, 1, 1).select("request")] == [(0, 0, 7), (1, 7, 9)]


def test_two_reads_into_one_bank_end_in_the_order_in_which_they_began() -> None:
    moves = [Begin(0), Read(ZERO, 0), Read(ONE, 0), Arrived(0), Arrived(0)]
    assert spans(moves, "storage") == [(2, 4, 0, 0), (3, 5, 1, 0)]


def test_the_trace_numbers_steps_and_says_that_it_is_a_model() -> None:
    found = trace(TWO_SLICES, 2, 1)
    assert {span.clock for span in found.spans} == {"order"}
    assert found.provenance == {"kind": "model", "lane": "protocol", "banks": 2, "queue_depth": 1}


UNTOLD = {"spare-bank", "good-data", "settle", "stop", "turn-taking"}
"""Rules whose breach no span tells of: a hang, a failed read, a stop, a layer begun out of turn."""


@pytest.mark.parametrize("rule", [rule for rule in CASES if rule not in UNTOLD])
def test_the_hazard_checker_finds_the_same_hazard_in_the_trace(rule: str) -> None:
    setting, trouble = CASES[rule], troubles()[rule]
    found = hazards(trace(trouble.moves, setting.banks, setting.queue_depth))
    same = [hazard for hazard in found if hazard.kind == trouble.kind and hazard.second == trouble.hazard.second]
    assert len(same) == 1
    if rule != "needed-stays":  # the layer's beginning, which no span of "plan" tells of
        assert (same[0].first.what, same[0].first.at) == (trouble.hazard.first.what, trouble.hazard.first.at)
    shorter = hazards(trace(trouble.moves[:-2], setting.banks, setting.queue_depth))
    assert trouble.kind not in [hazard.kind for hazard in shorter] or rule in ("all-run", "all-released")


SCHEDULES = [None, Policies(OnDemand()), Policies(AfterRouting())]


@pytest.mark.parametrize("policies", SCHEDULES, ids=["early", "on-demand", "after-routing"])
@pytest.mark.parametrize("invocations", [1, 2])
def test_a_walk_goes_to_the_end_by_the_rules_and_leaves_no_hazard(policies: Policies | None, invocations: int) -> None:
    setting = replace(LAYERS, policies=policies, ahead=policies is None, invocations=invocations)
    moves = walk(setting)
    assert moves[0] == Begin(0, 1 if policies is None else -1) and moves[-1] == End(1)
    assert states(moves, 2)[-1].banks == at_rest(2).banks
    assert refused(moves, setting) == {}
    assert [move.key for move in moves if isinstance(move, Run)] == [(0, 0), (0, 2), (1, 0), (1, 2)]
    assert sum(isinstance(move, Completed) for move in moves) == 4 * invocations
    assert hazards(trace(moves, 2, 2)) == []


def test_a_walk_shows_an_unrouted_group_given_up_and_the_next_layer_read_ahead() -> None:
    # moves of different kinds may be equal as tuples
    at = {(type(move), *move): step for step, move in enumerate(walk(LAYERS))}
    assert (Run, ONE, 1, 1) not in at and at[Read, ONE, 1, 2] < at[Release, ONE, 1]
    assert at[Read, GroupKey(1, 0), 0, 2] < at[End, 0] < at[Begin, 1, -1]


def test_the_placement_map_is_the_residency_tables() -> None:
    setting = replace(LAYERS, experts=5, needed=((0, 1, 2),))  # the last group has one expert
    moves = walk(setting)
    table = ResidencyTable(layers=2, experts=5, banks=2, group_size=2)
    published = 0
    for state, move in zip(states(moves, 2)[1:], moves, strict=True):
        match move:
            case Read(key, bank, slices):
                experts = np.arange(5, dtype=np.int32)[key.group * 2 :][:2]
                table.assign(bank, key.layer, experts, slices + 1)  # published by one more: the move of that name
            case Arrived(bank) | Publish(_, bank):
                table.slice_arrived(bank)
            case Run(_, bank):
                table.use(bank)
            case Release(_, bank):
                table.release(bank)
        slots = placement(state, setting)
        assert np.array_equal(slots, [table.placement(0), table.placement(1)])
        assert [table.bank_state(bank) for bank in range(2)] == [bank.state for bank in state.banks]
        published = max(published, int((slots >= 0).sum()))
    assert published == 4


def test_the_transitions_of_a_bank_are_the_papers_and_those_of_keeping_and_stopping() -> None:
    paper = {(A, F): ("Read",), (F, R): ("Publish",), (R, U): ("Run",), (U, A): ("Release",), (R, A): ("Release",)}
    plain = Setting(2, 1, 2, 2)
    assert transitions(plain) == paper
    assert transitions(replace(plain, passes=(0, 0), keep=True)) == paper | {(U, R): ("Keep",), (R, R): ("Keep",)}
    assert transitions(replace(plain, stop=True)) == paper | {(F, A): ("Release",)}


def test_a_step_that_a_rule_forbids_is_named_and_later_ones_are_judged_from_where_it_led() -> None:
    moves = [Begin(0), Read(ZERO, 0), Read(ONE, 0), Arrived(0), Publish(ONE, 0)]
    assert refused(moves, Setting(2, 1, 2, 2)) == {3: "free-bank"}


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (Begin(0), "layer 0 begins"),
        (Begin(0, 1), "layer 0 begins, layer 1 is next"),
        (Routed(1, (0, 2)), "routes of layer 1 known: groups 0, 2"),
        (Routed(1, (2,)), "routes of layer 1 known: group 2"),
        (Routed(1, ()), "routes of layer 1 known: no group"),
        (Read(ONE, 0), "read group 1 of layer 0 into bank 0"),
        (Keep(ONE, 0), "keep group 1 of layer 0 in bank 0"),
        (Failed(1), "the read into bank 1 fails"),
        (Stop(), "the run is stopped"),
        (Reset(), "a new run begins"),
    ],
)
def test_moves_are_put_in_words(move: Move, words: str) -> None:
    assert sentence(move) == words
