"""The protocol in tables: what its rules demand, what each prevents, what was explored, what became of policies."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import plotly.graph_objects as go

from estream_lab.experts.exploration import Exploration, Setting, Trouble
from estream_lab.experts.rules import Rule
from estream_lab.trace import Provenance
from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import COLOURS, GREY, provenance_line, shared


def rules_table(rules: Sequence[Rule], troubles: Mapping[str, Trouble], provenance: Provenance) -> go.Figure:
    """A row a rule: what it demands, and what goes wrong without it, after how many steps at the soonest.

    Args:
        rules: the protocol's. troubles: by rule, the shortest way into trouble without it.
        provenance: of the exploration that found them.
    """
    found = [troubles.get(rule.name) for rule in rules]
    columns = {
        "rule": [rule.name for rule in rules],
        "demands": [rule.demand for rule in rules],
        "without it": [trouble.kind if trouble else "nothing found" for trouble in found],
        "steps": [str(len(trouble.moves)) if trouble else "–" for trouble in found],
        "what comes of it": [trouble.hazard.why if trouble else "" for trouble in found],
    }
    colours = {"without it": [COLOURS["wait"]] * len(rules)}
    title = f"{len(rules)} rules, and what each prevents"
    return table(columns, (145, 310, 130, 55, 303), title, provenance_line(provenance), colours)


def explored_table(found: Sequence[Exploration], provenance: Provenance) -> go.Figure:
    """A row a setting that was explored to its last state."""
    settings = [item.setting for item in found]
    troubles = [", ".join(item.trouble) or "none" for item in found]
    columns = {
        "E": [str(setting.experts) for setting in settings],
        "G": [str(setting.group_size) for setting in settings],
        "K": [str(setting.groups) for setting in settings],
        "B": [str(setting.banks) for setting in settings],
        "Q": [str(setting.queue_depth) for setting in settings],
        "layers": [", ".join(map(str, setting.passes)) for setting in settings],
        "may happen": [_liberties(setting) for setting in settings],
        "states": [f"{item.states:,}" for item in found],
        "transitions": [f"{item.transitions:,}" for item in found],
        "at rest": [f"{item.ends:,}" for item in found],
        "trouble": troubles,
    }
    colours = {"trouble": [GREY if text == "none" else COLOURS["wait"] for text in troubles]}
    title = f"Every interleaving: {sum(item.states for item in found):,} states"
    widths = (35, 35, 35, 35, 35, 70, 280, 75, 100, 70, 90)
    return table(columns, widths, title, provenance_line(provenance), colours)


def _liberties(setting: Setting) -> str:
    policies = setting.policies
    schedule = "any policy" if policies is None else f"{policies.schedule.name}, keeps {policies.retention.name}"
    extras = {
        "reads ahead": setting.ahead,
        "groups kept": setting.keep,
        "a failed read": setting.fail,
        "a stop": setting.stop,
        f"{setting.invocations} invocations": setting.invocations > 1,
    }
    return ", ".join([schedule, *(name for name, on in extras.items() if on)])


class Attempt(Protocol):
    """What became of a policy on the real lane: `viz.explore.policies.Attempt` says it."""

    @property
    def policy(self) -> str: ...  # noqa: D102
    @property
    def logits_sha256(self) -> str: ...  # noqa: D102
    @property
    def refusal(self) -> str: ...  # noqa: D102
    @property
    def provenance(self) -> Provenance: ...  # noqa: D102


def attempts_table(attempts: Sequence[Attempt]) -> go.Figure:
    """A row a policy: refused and why, or the SHA-256 of its logits, compared with the first one's.

    Raises ValueError where the first one was refused: there is nothing to compare with then.
    """
    if attempts[0].refusal:
        raise ValueError(f"the first policy, {attempts[0].policy}, was refused: name one that works first")
    outcomes = [_outcome(attempt, attempts[0].logits_sha256) for attempt in attempts]
    columns = {
        "policy": [attempt.policy for attempt in attempts],
        "outcome": [word for word, _ in outcomes],
        "logits, or why not": [attempt.refusal or attempt.logits_sha256[:24] + "…" for attempt in attempts],
    }
    title = "Refused or right, never wrong" if "✗ differs" not in columns["outcome"] else "These policies differ"
    subtitle = provenance_line(shared([attempt.provenance for attempt in attempts if not attempt.refusal]))
    return table(columns, (120, 90, 640), title, subtitle, {"outcome": [colour for _, colour in outcomes]})


def _outcome(attempt: Attempt, first: str) -> tuple[str, str]:
    if attempt.refusal:
        return "refused", COLOURS["other"]
    return ("✓ equal", GREY) if attempt.logits_sha256 == first else ("✗ differs", COLOURS["wait"])
