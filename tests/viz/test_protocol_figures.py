"""The figures of the protocol: a way step by step, slot states, placement map, and the tables."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from estream_lab.experts.cases import CASES, STORY, troubles
from estream_lab.experts.exploration import Setting, explore
from estream_lab.experts.residency import SlotState
from estream_lab.experts.rules import RULES
from estream_lab.experts.steps import trace as steps_trace
from estream_lab.experts.steps import transitions, walk
from estream_lab.trace import Provenance, Trace
from estream_lab.viz import figures
from estream_lab.viz.figures.placement import stays
from estream_lab.viz.figures.steps import FAINT, PURPLE, RED, step_drawing
from estream_lab.viz.figures.story import Story
from estream_lab.viz.figures.tables import table

from .hand_made import MS, PROVENANCE, UP, span, trace

FOUND = troubles()
ORDER = np.array([3, 1, 0, 2], np.int32)


def story(rule: str) -> Story:
    return Story(CASES[rule], FOUND[rule].moves, FOUND[rule].hazard, rule, PROVENANCE)


@dataclass(frozen=True)
class Attempt:
    policy: str
    logits_sha256: str = ""
    refusal: str = ""
    provenance: Provenance = field(default_factory=lambda: PROVENANCE)


@dataclass(frozen=True)
class Run:
    bytes_needed: int
    bytes_speculative: int
    bytes_kept: int
    trace: Trace


ATTEMPTS = [Attempt("early", "ab" * 32), Attempt("odd", "ab" * 32), Attempt("wrong", refusal="no", provenance={})]
DRAWN: dict[str, Callable[[], Any]] = {
    "attempts_table": lambda: figures.attempts_table(ATTEMPTS),
    "explored_table": lambda: figures.explored_table([explore(STORY)], PROVENANCE),
    "placement_map": lambda: figures.placement_map(trace(), 0, ORDER, 2),
    "read_bars": lambda: figures.read_bars({"a": Run(4, 2, 1, trace()), "b": Run(3, 0, 2, trace())}),
    "rules_table": lambda: figures.rules_table(RULES, FOUND, PROVENANCE),
    "slot_states": lambda: figures.slot_states(transitions(STORY), PROVENANCE),
    "step_timeline": lambda: figures.step_timeline(story("last-invocation")),
}


def column(figure: Any, name: str) -> list[str]:
    """The cells under a heading, lines joined."""
    headings = [heading.strip("<b>/") for heading in figure.data[0].header["values"]]
    return [cell.replace("<br>", " ") for cell in figure.data[0].cells["values"][headings.index(name)]]


def bars(drawing: Any, kind: str) -> list[tuple[int, int, int, str]]:
    """(column, first step, last step, text) of the bars of a kind."""
    states = drawing["data"][0]
    edges = zip(states["x"], states["base"], states["y"], states["text"], states["customdata"], strict=True)
    found = [(x, int(base + 0.5), int(base + y - 0.5), text, what) for x, base, y, text, what in edges]
    assert all(what.endswith(f", steps {start} to {end}") for _, start, end, _, what in found)
    return [bar[:4] for bar in found if bar[4].startswith(f"{kind}, ")]


# ---- a way step by step


def test_the_bars_are_the_states_that_the_moves_lead_through() -> None:
    """Begin, routes, read 0 (steps 3 to 5), publish 6, run 7, released 8, read 2 into the same bank 9."""
    drawing = step_drawing(story("last-invocation"), 9)
    assert bars(drawing, "routes unknown") == [(0, 1, 1, "layer 0")]
    assert bars(drawing, "routes known") == [(0, 2, 6, "to run: 0, 1, 2"), (0, 7, 9, "to run: 1, 2")]
    assert bars(drawing, "filling") == [(1, 3, 5, "group 0"), (1, 9, 9, "group 2"), (2, 5, 9, "group 1")]
    assert bars(drawing, "ready") == [(1, 6, 6, "group 0")]
    assert bars(drawing, "in use") == [(1, 7, 7, "group 0")]


def test_a_drawing_goes_up_to_its_step_in_a_frame_that_stays() -> None:
    drawing = step_drawing(story("last-invocation"), 4)
    assert bars(drawing, "filling") == [(1, 3, 4, "group 0")]
    assert bars(drawing, "in use") == []
    assert drawing["layout"]["shapes"][-1]["y0"] == 4.5  # the line below the last step
    every = [step_drawing(story("last-invocation"), step) for step in range(10)]
    assert len({len(one["data"]) for one in every}) == 1
    frame = [{key: value for key, value in one["layout"].items() if key != "shapes"} for one in every]
    assert frame == [frame[0]] * 10


def test_the_events_that_collide_are_red_and_the_forbidden_move_purple() -> None:
    drawing = step_drawing(story("last-invocation"), 9)
    labels = drawing["layout"]["yaxis"]["ticktext"]
    assert [at for at, label in enumerate(labels, 1) if RED in label] == [7, 9]
    assert [at for at, label in enumerate(labels, 1) if PURPLE in label] == [8]
    marks = drawing["data"][1]
    assert marks["y"] == [7, 9] and {int(x) for x in marks["x"]} == {1}  # both in bank 0's column
    before = step_drawing(story("last-invocation"), 6)
    assert len(before["layout"]["shapes"]) == 1 and len(drawing["layout"]["shapes"]) == 3  # bands behind both


def test_a_hang_has_a_step_of_its_own_after_the_last_move() -> None:
    hang = story("spare-bank")
    assert len(hang.lines) == len(hang.moves) + 1
    drawing = step_drawing(hang, 9)
    assert RED in drawing["layout"]["yaxis"]["ticktext"][8] and "nothing can follow" in hang.words(9)
    assert bars(drawing, "ready") == [(1, 7, 8, "group 2 of layer 0"), (2, 8, 8, "group 0 of layer 1")]
    assert drawing["data"][-1]["text"][2] == "expert 2 → slot 0"  # the map that the last move leaves


def test_the_map_shows_slots_of_published_banks_only() -> None:
    whole = Story(STORY, walk(STORY))
    before, after = (step_drawing(whole, step)["data"][-1] for step in (5, 6))
    assert before["text"] == [f"expert {expert}" for expert in range(6)]
    assert set(before["marker"]["color"]) == {FAINT}
    assert after["text"][:3] == ["expert 0 → slot 0", "expert 1 → slot 1", "expert 2"]
    assert [colour == FAINT for colour in after["marker"]["color"]] == [False] * 2 + [True] * 4
    later = figures.step_timeline(whole, map_at=11)
    assert [text[-6:] for text in later.data[-1].text[:4]] == ["slot 0", "slot 1", "slot 2", "slot 3"]
    assert later.data[-1].marker.color[1] != later.data[-1].marker.color[2]  # another bank
    assert later.layout.xaxis.ticktext[-1] == "Φ, layer 0, step 11"


def test_two_layers_have_a_map_each() -> None:
    drawing = step_drawing(story("spare-bank"), 8)
    assert drawing["layout"]["xaxis"]["ticktext"][-2:] == ["Φ, layer 0", "Φ, layer 1"]
    assert drawing["data"][-1]["text"] == [
        *("expert 0", "expert 1", "expert 2 → slot 0"),
        *("expert 0 → slot 1", "expert 1", "expert 2"),
    ]
    assert drawing["data"][-1]["x"] == [3.25] * 3 + [4.25] * 3


def test_a_failed_read_is_marked_in_its_bar() -> None:
    assert (1, 4, 4, "group 0, failed") in bars(step_drawing(story("good-data"), 6), "filling")


def test_the_whole_story_says_the_hazards_sentence() -> None:
    figure = figures.step_timeline(story("last-invocation"))
    told = figure.layout.title.subtitle.text.replace("<br>", " ")
    assert told.startswith(str(FOUND["last-invocation"].hazard))
    assert figure.layout.title.text == "Without the rule “last-invocation”: early reuse"
    assert figures.step_timeline(Story(STORY, walk(STORY))).layout.title.text == "All rules on: no two events collide"


def test_the_steps_are_drawn_by_the_bank_timeline_too() -> None:
    way = FOUND["last-invocation"].moves
    figure = figures.timeline(steps_trace(way, 2, 2))
    assert figure.layout.xaxis.title.text == "step"
    rows = figure.layout.yaxis.ticktext
    reads = {
        rows[int(y)]: (base, x)
        for b in figure.data
        if b.name == "reads"
        for y, base, x in zip(b.y, b.base, b.x, strict=True)
    }
    assert reads["bank 1"] == (5, 5)  # from step 5 to beyond the last one


# ---- states and placement


def test_every_transition_has_its_arrow_with_its_moves() -> None:
    plain = figures.slot_states(transitions(STORY), PROVENANCE)
    texts = [a.text for a in plain.layout.annotations if a.text]
    assert [text for text in texts if text.startswith("<b>Release</b>")] == [
        "<b>Release</b> · no routed work came: translations vanish",
        "<b>Release</b> · last completion: translations vanish",
    ]
    heads = [a for a in plain.layout.annotations if a.showarrow]
    assert len(heads) == len(transitions(STORY)) == 5
    assert [s.type for s in plain.layout.shapes].count("rect") == len(SlotState)
    assert not [text for text in texts if "Keep" in text]
    keeping = figures.slot_states(transitions(Setting(2, 1, 2, 2, passes=(0, 0), keep=True, stop=True)), PROVENANCE)
    words = " ".join(a.text for a in keeping.layout.annotations)
    assert "stays for a later pass" in words and "after a stop" in words


def test_the_translations_of_a_bank_appear_and_vanish_together() -> None:
    """Reads of 1 to 6 and 2 to 7 ms; runs 6 to 9, and 9 to 10 and 12 to 13; the file order is 3, 1 | 0, 2."""
    found = [
        (s.expert, s.slot, s.state, (s.start_ns - UP) // MS, (s.end_ns - UP) // MS) for s in stays(trace(), 0, ORDER, 2)
    ]
    assert found == [
        *((expert, slot, "filling", 1, 6) for expert, slot in ((3, 0), (1, 1))),
        *((expert, slot, "in use", 6, 9) for expert, slot in ((3, 0), (1, 1))),
        *((expert, slot, "filling", 2, 7) for expert, slot in ((0, 2), (2, 3))),
        *((expert, slot, "ready", 7, 9) for expert, slot in ((0, 2), (2, 3))),
        *((expert, slot, "in use", 9, 10) for expert, slot in ((0, 2), (2, 3))),
        *((expert, slot, "ready", 10, 12) for expert, slot in ((0, 2), (2, 3))),
        *((expert, slot, "in use", 12, 13) for expert, slot in ((0, 2), (2, 3))),
    ]
    way, ready, used = DRAWN["placement_map"]().data
    assert list(way.base) == pytest.approx([1, 1, 2, 2]) and list(way.x) == pytest.approx([5] * 4)
    assert list(ready.y) == [0, 2, 0, 2] and list(used.text) == [f"<b>{slot}</b>" for slot in (0, 1, 2, 3, 2, 3)]


def test_the_placement_map_of_steps_counts_steps() -> None:
    figure = figures.placement_map(steps_trace(walk(STORY), 2, 2), 0, np.arange(6, dtype=np.int32), 2)
    assert figure.layout.xaxis.title.text == "step"
    assert list(figure.data[0].base[:2]) == [2, 2]


# ---- tables


def test_the_rules_stand_with_what_they_prevent() -> None:
    figure = DRAWN["rules_table"]()
    assert column(figure, "rule") == [rule.name for rule in RULES]
    assert column(figure, "demands") == [rule.demand for rule in RULES]
    assert column(figure, "without it") == [FOUND[rule.name].kind for rule in RULES]
    assert column(figure, "steps") == [str(len(FOUND[rule.name].moves)) for rule in RULES]
    assert column(figure, "what comes of it") == [FOUND[rule.name].hazard.why for rule in RULES]
    short = figures.rules_table(RULES, {}, PROVENANCE)
    assert set(column(short, "without it")) == {"nothing found"}


def test_an_exploration_is_told_with_its_counts_and_its_trouble() -> None:
    setting = Setting(3, 1, 2, 2, invocations=2, stop=True, needed=((0,),))
    broken = explore(replace(setting, without=frozenset({"stop"})))
    figure = figures.explored_table([explore(setting), broken], PROVENANCE)
    assert column(figure, "may happen") == ["any policy, a stop, 2 invocations"] * 2
    assert column(figure, "trouble") == ["none", ", ".join(broken.trouble)]
    assert column(figure, "states")[1] == f"{broken.states:,}"
    assert figure.layout.title.text == f"Every interleaving: {explore(setting).states + broken.states:,} states"


def test_policies_are_told_refused_equal_or_different() -> None:
    assert column(DRAWN["attempts_table"](), "outcome") == ["✓ equal", "✓ equal", "refused"]
    assert column(DRAWN["attempts_table"](), "logits, or why not")[2] == "no"
    other = figures.attempts_table([*ATTEMPTS, Attempt("worse", "ff" * 32)])
    assert column(other, "outcome")[-1] == "✗ differs" and other.layout.title.text == "These policies differ"
    with pytest.raises(ValueError, match="wrong, was refused"):
        figures.attempts_table(ATTEMPTS[::-1])


def test_long_cells_are_broken_into_lines_and_the_table_grows() -> None:
    short = table({"a": ["x"], "b": ["y"]}, (1, 1), "t", "s")
    long = table({"a": ["word <b> " * 30], "b": ["y"]}, (1, 1), "t", "s")
    (cell,) = long.data[0].cells["values"][0]
    assert cell.count("<br>") > 3 and "word &lt;b>" in cell and max(map(len, cell.split("<br>"))) <= 56 + 3 * 6
    assert long.layout.height - short.layout.height == 19 * cell.count("<br>")


def test_bytes_read_and_kept_add_up() -> None:
    needed, wasted, kept = DRAWN["read_bars"]().data
    assert [bar * 2**20 for bar in needed.x] == [4, 3]
    assert [bar * 2**20 for bar in wasted.x] == [2, 0]
    assert [bar * 2**20 for bar in kept.x] == [1, 2]
    assert DRAWN["read_bars"]().layout.title.text == "Expert bytes"


def test_an_unstated_time_of_a_span_is_no_stay() -> None:
    bare = Trace((span("storage", "read", 1, 2, layer=0, bank=0),), PROVENANCE)
    assert stays(bare, 0, ORDER, 2) == []
