"""kill -9 at random moments of pack and prefill: no store is ever half valid, and the next run works."""

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.store import MANIFEST
from estream_lab.streaming.unfinished import JOURNAL
from tests.full.forks import Forks, forks
from tests.streaming.test_pack import files

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "data" / "tiny_moe" / "checkpoint"
MOMENTS = 50
SEED = 2609


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with forks(str(tmp_path_factory.mktemp("forks") / "output.txt")) as parent:
        yield parent


@pytest.fixture(scope="module")
def whole(forked: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of an uninterrupted run."""
    output = tmp_path_factory.mktemp("whole") / "m.estream"
    assert forked.run(["pack", str(CHECKPOINT), "-o", str(output)]).status == 0
    return output


def moments(seconds: float) -> list[float]:
    """One in each fiftieth of a command's duration, and a little beyond its end."""
    draw = random.Random(SEED)
    return [(i + draw.random()) / MOMENTS * seconds * 1.04 for i in range(MOMENTS)]


def state(output: Path) -> str:
    """What a killed pack left, in a word; a store that can be opened is a whole one."""
    if not (output / MANIFEST).exists():
        with pytest.raises(EStreamError, match="is not a store"):
            Store(output)
        if (output / "manifest.json.partial").exists():
            return "between the renames"
        journal = output.with_name(output.name + ".partial") / JOURNAL
        if not journal.exists():
            return "no layer" if journal.parent.exists() else "nothing"
        return f"{len(json.loads(journal.read_bytes())['layers'])} layers"
    store = Store(output)
    assert verify_records(store) == store.spec.layers * store.spec.experts
    store.verify_dense()
    return "whole"


def check_next_pack(forked: Forks, output: Path, found: str, expected: dict[str, bytes]) -> None:
    """The same command again gives the bytes of an uninterrupted one."""
    again = forked.run(["pack", str(CHECKPOINT), "-o", str(output)])
    if found == "whole":
        assert again.status == 1 and "exists already" in again.output
    else:
        assert again.status == 0, again.output
    kept = {name: data for name, data in files(output).items() if name != JOURNAL}  # a kill may leave it in a whole one
    assert kept == expected and os.listdir(output.parent) == [output.name]
    shutil.rmtree(output)


def test_pack_killed_at_random_moments(forked: Forks, whole: Path, tmp_path: Path) -> None:
    expected, output = files(whole), tmp_path / "m.estream"
    command = ["pack", str(CHECKPOINT), "-o", str(output)]
    durations = []
    for _ in range(3):
        durations.append(forked.run(command).seconds)
        shutil.rmtree(output)
    found: Counter[str] = Counter()
    for moment in moments(sorted(durations)[1]):
        ended = forked.run(command, kill_after=moment)
        assert ended.status in (-9, 0)
        left = state(output)
        found[left] += 1
        check_next_pack(forked, output, left, expected)
    sys.stdout.write(f"pack, {MOMENTS} kills within {sorted(durations)[1]:.2f} s: {dict(found)}\n")
    assert sum(found.values()) == MOMENTS and len([left for left in found if "layer" in left]) >= 2


STEPS = ["os.fsync", "os.replace", "os.rename", "pathlib.Path.unlink"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_pack_killed_at_each_step_that_makes_something_last(
    forked: Forks, whole: Path, tmp_path: Path, step: str, after: bool
) -> None:
    """Random moments hardly ever come between two renames."""
    expected, output = files(whole), tmp_path / "m.estream"
    found = []
    for nth in range(1, 99):
        prelude = KILL.format(owner=step.rpartition(".")[0], name=step.rpartition(".")[2], nth=nth, after=after)
        ended = forked.run(["pack", str(CHECKPOINT), "-o", str(output)], prelude=prelude)
        if ended.status == 0:  # there is no such call any more
            break
        assert ended.status == -9
        found.append(state(output))
        check_next_pack(forked, output, found[-1], expected)
    sys.stdout.write(f"pack, killed {'after' if after else 'before'} {step}: {', '.join(found)}\n")
    assert found


KILL = """
import os, pathlib, signal
real, calls = {owner}.{name}, [0]
def step(*arguments, **more):
    calls[0] += 1
    if calls[0] == {nth} and not {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    value = real(*arguments, **more)
    if calls[0] == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
    return value
{owner}.{name} = step
"""


def test_prefill_killed_at_random_moments(forked: Forks, whole: Path, tmp_path: Path) -> None:
    before = files(whole)
    trace, report = tmp_path / "t.json", tmp_path / "r.html"
    prompt = ROOT / "data" / "tiny_moe" / "heldout" / "text.txt"
    command = ["prefill", str(whole), "--prompt-file", str(prompt), "--max-tokens", "256", "--group-size", "2"]
    command += ["--banks", "3", "--trace", str(trace), "--report", str(report), "--json"]
    runs = [forked.run(command) for _ in range(3)]
    logits = {json.loads(run.output)["logits_sha256"] for run in runs}
    assert len(logits) == 1 and {run.status for run in runs} == {0}
    seconds = sorted(run.seconds for run in runs)[1]
    found: Counter[str] = Counter()
    for moment in moments(seconds):
        trace.unlink(missing_ok=True)
        report.unlink(missing_ok=True)
        ended = forked.run(command, kill_after=moment)
        assert ended.status in (-9, 0)
        written = [path.name for path in (trace, report) if path.exists()]
        found[" and ".join(written) or "no file"] += 1
        if trace.exists():
            assert json.loads(trace.read_text())["traceEvents"]
        if report.exists():
            assert report.read_text(encoding="utf-8").rstrip().endswith("</html>")
        for path in set(tmp_path.iterdir()) - {trace, report}:  # what was being written has a name of its own
            assert path.name.startswith(".") and path.name.endswith(".partial")
            path.unlink()
        again = forked.run([*command[:-5], "--json"])
        assert again.status == 0 and json.loads(again.output)["logits_sha256"] in logits
    assert files(whole) == before
    sys.stdout.write(f"prefill, {MOMENTS} kills within {seconds:.2f} s: {dict(found)}\n")
    assert found["no file"] and len(found) >= 2
