"""The fault matrix: every fault x every phase x every schedule x two arenas, and what each must come to.

A cell passes if the run gives the same bits as a run without faults, over an arena poisoned with NaN and watched for
hazards, or the one right sentence; and if the same engine then gives the same bits. A hang fails it.
"""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from estream_lab.cli.signals import Stops
from estream_lab.doctor import examine
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.retention import KeepLatest
from estream_lab.streaming import Store, lane, loader
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.plan import WaitLimit
from tests.faults.injection import Fault, Hung, Injector, Site
from tests.stores import SPEC

HANG_SECONDS = 60.0
GROUP = 3  # of 10 experts: four groups, the last one of a single expert
LONG = tuple(range(40, 64))  # a prompt whose routes need every group of every layer
SCHEDULES: dict[str, dict[str, Any]] = {
    "on-demand": {"schedule": "on-demand"},
    "after-routing": {"schedule": "after-routing"},
    "early": {"schedule": "early"},
    "carry-over": {"schedule": "early", "carry_over": True},
    "kept": {"schedule": "early", "retention": KeepLatest()},
}
EARLY = ("early", "carry-over", "kept")


@dataclass(frozen=True)
class Short:
    """A prompt of one token in whose ``layer`` group 1 has no route, and ``needed`` other groups have."""

    token: int
    layer: int
    needed: int


@dataclass(frozen=True)
class Reference:
    """A store without faults, and what prompts give on it."""

    store: Path
    logits: dict[tuple[int, ...], bytes]
    short: Short

    @classmethod
    def of(cls, store: Path) -> "Reference":
        """Run both prompts with all experts resident."""
        with PrefillEngine.open(store, resident=True, group_size=GROUP) as engine:
            long = engine.prefill(LONG, positions="all")
            needed = {layer: {int(e) // GROUP for e in routes.expert} for layer, routes in long.routes.items()}
            assert all(len(groups) == 4 for groups in needed.values()), "this prompt no longer needs every group"
            for token in range(SPEC.vocab):
                one = engine.prefill([token], positions="all")
                for layer, routes in one.routes.items():
                    groups = {int(e) // GROUP for e in routes.expert}
                    if layer > 0 and 1 not in groups:
                        logits = {LONG: long.output.tobytes(), (token,): one.output.tobytes()}
                        return cls(store, logits, Short(token, layer, len(groups)))
        raise AssertionError("every token needs group 1")


@dataclass(frozen=True)
class Phase:
    """When a fault acts. ``reads`` says which read is the phase's first, from the site, its layer and its record."""

    name: str
    reads: Callable[[Site, int, int], bool]
    early_only: bool = False
    runs: str = "prefill"  # or resident, verify, doctor


def _running(site: Site, layer: int) -> bool:
    return layer == 1 and site.step == "run" and site.layer == 1


FIRST = Phase("first reads", lambda site, layer, record: True)
BEFORE = Phase("before the routes", lambda site, layer, record: site.step != "run", early_only=True)
AFTER = Phase("after routing", lambda site, layer, record: _running(site, layer))
REFILL = Phase("refill mid-layer", lambda site, layer, record: _running(site, layer) and site.executed >= 2)
LAST = Phase("last layer", lambda site, layer, record: (layer, record // GROUP) == (SPEC.layers - 1, 3))
DRAIN = Phase("drain", lambda site, layer, record: False, early_only=True)
RESIDENT = Phase("resident load", lambda site, layer, record: (layer, record // GROUP) == (1, 1), runs="resident")
VERIFY = Phase("verify", lambda site, layer, record: (layer, record) == (1, 4), runs="verify")
DOCTOR = Phase("doctor", lambda site, layer, record: (layer, record) == (1, 4), runs="doctor")
PHASES = (FIRST, BEFORE, AFTER, REFILL, LAST, DRAIN, RESIDENT, VERIFY, DOCTOR)


class Overtaken(Exception):
    """On a busy machine a sound read took longer than the short deadline: the run gave up before its fault came."""


def _overtaken_unless(acted: bool, fault: Fault) -> None:
    if fault.slow_to_notice and not acted:
        raise Overtaken
    assert acted, "the fault never acted"


@dataclass(frozen=True)
class Cell:
    """One run of the matrix."""

    fault: Callable[[], Fault]
    phase: Phase
    schedule: str = "early"
    banks: int = 2

    def run(self, reference: Reference, folder: Path) -> str:
        """Run it on a copy of the store in ``folder``; returns the outcome in a word.

        Raises:
            AssertionError: another outcome than the fault's, or an engine that doesn't work afterwards.
        """
        path = folder / "m.estream"
        run = {"verify": _verify, "doctor": _doctor}.get(self.phase.runs, self._prefill)
        for patience in (1, 10, 100):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(reference.store, path)
            fault, store = self.fault(), Store(path)
            fault.wait_limit *= patience
            with no_hang(f"{fault.name}, {self.phase.name}, {self.schedule}"), suppress(Overtaken):
                return run(fault, store, reference)
        raise AssertionError(f"{fault.name}, {self.phase.name}, {self.schedule}: the fault never acted")

    def _prefill(self, fault: Fault, store: Store, reference: Reference) -> str:
        prompt: tuple[int, ...] = LONG
        phase, hold = self.phase.reads, None
        if self.phase is DRAIN:
            short = reference.short
            prompt, hold = (short.token,), (short.layer, GROUP, short.needed)
            phase = lambda site, layer, record: (layer, record) == hold[:2]  # noqa: E731
        injector = Injector(store, phase, fault, hold, meet=0 if self.phase is BEFORE else None)
        options = SCHEDULES[self.schedule] | {"resident": self.phase.runs == "resident"}
        engine = PrefillEngine.open(
            store,
            group_size=GROUP,
            banks=self.banks,
            queue_depth=self.banks,
            poison=True,
            check_hazards=True,
            **options,
        )
        with engine:
            if "retention" in options and self.phase.runs == "prefill":
                # the fault comes while groups of an earlier request are in the banks
                with impatience(fault):  # which a lane learns when it opens
                    try:
                        warm = engine.prefill(prompt, positions="all").output.tobytes()
                    except EStreamError as error:
                        if not re.search(Hung.expected, str(error)):
                            raise
                        raise Overtaken from None
                assert warm == reference.logits[prompt]
            with injector:
                outcome = judge(fault, lambda: engine.prefill(prompt, positions="all").output.tobytes(),
                                reference.logits[prompt])  # fmt: skip
            _overtaken_unless(injector.acted.is_set(), fault)
            assert engine.prefill(prompt, positions="all").output.tobytes() == reference.logits[prompt], "afterwards"
            if isinstance(fault, Hung):  # the read returns at last, into memory that nobody uses any more
                fault.released.set()
                for thread in fault.threads:
                    thread.join(HANG_SECONDS / 2)
                    assert not thread.is_alive(), "a reading thread is stuck"
                again = engine.prefill(prompt, positions="all").output.tobytes()
                assert again == reference.logits[prompt], "after the hung read returned"
        return outcome


def _verify(fault: Fault, store: Store, reference: Reference) -> str:
    injector = Injector(store, VERIFY.reads, fault)
    with injector:
        outcome = judge(fault, lambda: verify_records(store), SPEC.layers * SPEC.experts)
    assert injector.acted.is_set(), "the fault never acted"
    assert verify_records(store) == SPEC.layers * SPEC.experts, "afterwards"
    if isinstance(fault, Hung):
        fault.released.set()
    return outcome


def _doctor(fault: Fault, store: Store, reference: Reference) -> str:
    def verdict() -> str:
        finding = examine(store.path.parent, store.path)[-1]
        if finding.status == "error":
            raise EStreamError(finding.detail)
        return finding.status

    injector = Injector(store, DOCTOR.reads, fault)
    with injector:
        outcome = judge(fault, verdict, "ok")
    assert injector.acted.is_set(), "the fault never acted"
    assert verdict() == "ok", "afterwards"
    if isinstance(fault, Hung):
        fault.released.set()
    return outcome


def judge(fault: Fault, run: Callable[[], object], expected: object) -> str:
    """The outcome of ``run`` in a word, if it is the fault's."""
    try:
        with impatience(fault), Stops():
            found = run()
    except EStreamError as error:
        sentence = str(error)
        assert fault.expected not in ("result", "stopped"), f"{fault.name} ended in: {sentence}"
        assert re.search(fault.expected, sentence), f"{fault.name}: another sentence: {sentence}"
        assert "\n" not in sentence
        return "error"
    except KeyboardInterrupt:
        assert fault.expected == "stopped"
        return "stopped"
    assert found == expected, f"{fault.name}: wrong logits"
    assert fault.expected == "result", f"{fault.name} went unnoticed"
    return "same bits"


def cells(faults: list[Callable[[], Fault]], banks: tuple[int, ...] = (2, 1)) -> Iterator[Cell]:
    """All that can occur: reads before the routes only where a schedule has them, banks only where experts stream."""
    for fault in faults:
        for phase in PHASES:
            if phase.runs != "prefill":
                yield Cell(fault, phase)
                continue
            for schedule in EARLY if phase.early_only else SCHEDULES:
                for count in banks:
                    if phase is not DRAIN or count > 1:  # in a single bank a read that isn't needed is in the way
                        yield Cell(fault, phase, schedule, count)


@contextmanager
def impatience(fault: Fault) -> Iterator[None]:
    """Waits that only end by themselves end soon."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(loader, "BUSY_WAITS", [0.0001] * 11))
        if fault.slow_to_notice:
            patches.enter_context(patch.object(WaitLimit, "of", classmethod(lambda cls, *_: cls(fault.wait_limit))))
            for module in (lane, loader):
                patches.enter_context(patch.object(module, "SETTLE_SECONDS", 0.05))
        yield


@contextmanager
def no_hang(what: str, seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Fail, rather than wait for ever; in the main thread."""

    def ring(number: int, frame: object) -> None:
        raise AssertionError(f"a hang: {what}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
