"""A way through the protocol as a story: its steps in words, what a rule forbids in it, and what collides."""

from dataclasses import dataclass, field
from functools import cached_property

from estream_lab.experts.exploration import Setting
from estream_lab.experts.hazards import Event, Hazard
from estream_lab.experts.protocol import Move, State
from estream_lab.experts.steps import refused, sentence, states
from estream_lab.trace import Provenance


@dataclass(frozen=True)
class Story:
    """Moves from rest, and what is to be said of them.

    Attributes:
        setting: in which they were made. hazard: what they end in, its events numbered by step; None for nothing.
        rule: that was taken away, "" for none.
        provenance: where the moves come from; the setting's B, Q and G are added.
    """

    setting: Setting
    moves: tuple[Move, ...]
    hazard: Hazard | None = None
    rule: str = ""
    provenance: Provenance = field(default_factory=lambda: {"kind": "model", "lane": "protocol"})

    @cached_property
    def states(self) -> list[State]:
        """The state before the first move and after each."""
        return states(self.moves, self.setting.banks)

    @cached_property
    def refused(self) -> dict[int, str]:
        """The steps that a rule forbids."""
        return refused(self.moves, self.setting)

    @cached_property
    def lines(self) -> list[str]:
        """A sentence for each step; one more where nothing can follow."""
        hang = self.hazard is not None and self.hazard.second.at > len(self.moves)
        return [*map(sentence, self.moves), *(["nothing can follow"] if hang else [])]

    @cached_property
    def collision(self) -> tuple[Event, ...]:
        """The events that collide: both, or the later one where nothing came before it."""
        both = (self.hazard.first, self.hazard.second) if self.hazard is not None else ()
        return tuple(event for event in both if event.at)

    def words(self, step: int) -> str:
        """What happens at ``step`` (from 1 on), in a sentence."""
        return self.lines[step - 1] if 0 < step <= len(self.lines) else "at rest"
