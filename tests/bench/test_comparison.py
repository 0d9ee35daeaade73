"""A whole comparison, with a peer in NumPy behind the real protocol."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.bench import memory, peers, rounds, session
from estream_lab.bench.comparison import compare
from estream_lab.bench.inputs import KINDS, Inputs
from estream_lab.bench.ours import LANES
from estream_lab.bench.session import PeerFailed
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import Weights
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus

SHAPE = LayerShape("tiny", 64, 32, 4, 2, 3.0)
PEER = Path(__file__).parent / "numpy_peer.py"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    order(monkeypatch, "")


def order(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Let every peer be the one in NumPy, with this fault."""
    monkeypatch.setattr(peers, "command", lambda name: [sys.executable, str(PEER), *([fault] if fault else [])])


def run(folder: Path, tokens: tuple[int, ...] = (9,), **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "threads": 1,
        "rounds": 2,
        "kinds": KINDS,
        "peaks": lambda threads: {},
        "progress": lambda *_: None,
    } | settings
    return compare([SHAPE], tokens, ["ggml"], folder=folder, **given)


def test_every_row_is_timed_in_every_round_and_held_to_float64(tmp_path: Path) -> None:
    parts: list[tuple[str, int, int]] = []
    measured = iter([5e8, 1e9, 7e8])  # before, between and after the two layers
    found = run(
        tmp_path,
        (9, 3),
        peaks=lambda threads: {"fp32": threads * next(measured)},
        progress=lambda *part: parts.append(part),
    )
    assert json.loads(json.dumps(found)) == found
    assert found["threads"] == 1 and found["rounds"] == 2 and found["peak"] == {"fp32": 1e9}
    assert found["peer_build"]["ggml"]["features"] == "none" and found["machine"] and found["versions"]["numba"]
    names = [(row["tokens"], row["implementation"], row["name"]) for row in found["rows"]]
    per_layer = [*(("estream", lane.name) for lane in LANES), ("ggml", "plain"), ("ggml", "halved")]
    lanes = len(LANES)
    assert names == [(tokens, *name) for tokens in (9, 3) for name in per_layer]
    for row in found["rows"]:
        assert row["shape"] == "tiny" and len(row["seconds"]) == 2
        assert row["relative_errors"].keys() == {"gaussian", "lognormal", "outliers"}
        bound = {"fp32": 1e-5, "bf16": 0.004, "int8": 0.03}[row["arithmetic"]]
        assert row["relative_error"] == row["relative_errors"]["gaussian"] < bound
        assert row["token_error"] == row["token_errors"]["gaussian"] < 2 * bound
        assert row["relative_error"] <= row["token_error"] and row["token_errors"].keys() == set(KINDS)
        weight = 4 if row["implementation"] == "ggml" else 18 / 32
        experts = {9: 4, 3: len(np.unique(_timed(tmp_path, 3)))}[row["tokens"]]
        assert row["macs_per_weight_byte"] == pytest.approx(2 * row["tokens"] / (experts * weight))
        assert row["seconds_contended"] == [] and row["slowdown"] is None
        assert row["macs_per_second"] == pytest.approx(SHAPE.macs(row["tokens"]) / row["seconds_median"])
        peak = {"fp32": pytest.approx(row["macs_per_second"] / 1e9), "bf16": None, "int8": None}[row["arithmetic"]]
        assert row["fraction_of_peak"] == peak
        assert row["times_fastest"] is not None and row.get("note") == (1 if row["implementation"] == "ggml" else None)
    assert [row["quant"] for row in found["rows"][lanes - 1 : lanes + 2]] == ["q4_0", "q4_0", "q4_0 halved"]
    assert [row["default"] for row in found["rows"][: lanes + 2]] == [lane.name == "host int8" for lane in LANES] + [
        True, False
    ]  # fmt: skip
    refused = {"implementation": "ggml", "name": "never", "reason": "nobody has this"}
    assert found["unsupported"] == [{"shape": "tiny", "tokens": tokens, **refused} for tokens in (9, 3)]
    assert parts[-1] == ("tiny, 3 tokens: rounds", 2 * (lanes + 2), 2 * (lanes + 2))
    assert ("tiny, 3 tokens: errors", lanes + 2, lanes + 2) in parts
    assert list(tmp_path.glob("tiny.*")) == [] and list(tmp_path.glob("ggml.*")) == []


def test_activations_are_not_made_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one generator's numbers they would be: a token then meets its own row, and nothing is as it is elsewhere."""
    tokens: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    draw, write = Inputs.draw, Weights.write

    def drawn(*arguments: Any) -> Inputs:
        inputs = draw(*arguments)
        tokens.extend(inputs.x)
        return inputs

    def written(*arguments: Any) -> Weights:
        weights = write(*arguments)
        rows.extend(np.fromfile(weights.plain, "<f4").reshape(-1, SHAPE.hidden)[:50])
        return weights

    monkeypatch.setattr(Inputs, "draw", staticmethod(drawn))
    monkeypatch.setattr(Weights, "write", staticmethod(written))
    run(tmp_path)
    likeness = np.array([x / np.linalg.norm(x) for x in tokens]) @ np.array([w / np.linalg.norm(w) for w in rows]).T
    assert len(tokens) > 9 and len(rows) == 50 and np.abs(likeness).max() < 0.9


def test_no_call_sees_inputs_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []
    draw = Inputs.draw

    def spy(*given: Any) -> Inputs:
        inputs = draw(*given)
        drawn.append(inputs.x.tobytes())
        return inputs

    monkeypatch.setattr(Inputs, "draw", spy)
    run(tmp_path, rounds=3)
    assert len(set(drawn)) == len(drawn) == 3 + 3  # kinds and rounds


def test_errors_are_taken_for_the_kinds_that_are_asked_for(tmp_path: Path) -> None:
    rows = run(tmp_path, kinds=["outliers"])["rows"]
    assert [list(row["relative_errors"]) for row in rows] == [["outliers"]] * (len(LANES) + 2)


def test_the_time_is_what_the_peer_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order(monkeypatch, "slow")
    theirs = [row for row in run(tmp_path)["rows"] if row["implementation"] == "ggml"]
    assert all(1 < row["seconds_median"] < 2 and min(row["seconds"]) > 1 for row in theirs)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            "wrong",
            r"ggml plain is off by 0\.\d+ of the layer's output, and by 1 of a token's: it computes something else",
        ),
        ("dies", "the peer ggml died .status 3., its last words: out of luck"),
        ("error", "the peer ggml failed to run: RuntimeError: no luck"),
    ],
)
def test_a_peer_at_fault_ends_the_run_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, told: str
) -> None:
    order(monkeypatch, fault)
    with pytest.raises(EStreamError, match=told):
        run(tmp_path)


def test_one_token_that_is_wrong_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order(monkeypatch, "half")
    monkeypatch.setattr("estream_lab.bench.accuracy.WRONG_TOKEN", 0.6)
    run(tmp_path, (24,), kinds=["gaussian"])  # by the whole alone, it wouldn't be seen
    monkeypatch.setattr("estream_lab.bench.accuracy.WRONG_TOKEN", 0.4)
    with pytest.raises(EStreamError, match=r"ggml plain is off by 0\.[01]\d* of the layer's output, and by 0\.5 of a"):
        run(tmp_path, (24,), kinds=["gaussian"])


def test_a_peer_that_hangs_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order(monkeypatch, "mute")
    patient = session.Session.ask

    def ask(self: session.Session, do: str, **request: Any) -> dict[str, Any]:
        self.deadline = 0.3 if do == "run" else 60
        return patient(self, do, **request)

    monkeypatch.setattr(session.Session, "ask", ask)
    with pytest.raises(PeerFailed, match=r"did not run within 0\.3 s"):
        run(tmp_path)


def test_what_does_not_fit_into_memory_is_said_before_anything_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 4 * 3 * SHAPE.weights)  # of the three peer rows
    with pytest.raises(EStreamError, match=f"{len(LANES) + 3} rows of tiny with 9 tokens need .* fewer peers"):
        run(tmp_path, (3, 9))
    assert list(tmp_path.iterdir()) == []


def test_a_peer_whose_offer_lacks_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = 'import sys\nfor line in sys.stdin: print(\'{"ok": {"build": {}, "rows": [{"name": "a"}]}}\', flush=True)'
    monkeypatch.setattr(peers, "command", lambda name: [sys.executable, "-c", answer])
    with pytest.raises(PeerFailed, match="the peer ggml offers no rows .'quant'.: run `make peers`"):
        peers.peers(["ggml"]).__enter__()


def test_a_missing_environment_is_told_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path / ".venv-peers")
    with pytest.raises(EStreamError, match="needs the environment .*venv-peers: make it with `make peers`"):
        peers.command("torch")
    monkeypatch.setattr(peers, "CHECKOUT", tmp_path)
    with pytest.raises(EStreamError, match="part of the checkout"):
        peers.command("torch")


def test_every_peer_has_its_program() -> None:
    assert [name for name, program in peers.PEERS.items() if not (peers.CHECKOUT / "peers" / program).exists()] == []


def _timed(folder: Path, tokens: int) -> np.ndarray:
    """Experts of the rounds' routes, whose popularity is the same in every round."""
    return Inputs.draw(SHAPE, tokens, "gaussian", 1100, folder / "again").expert


def test_competitors_are_timed_beside_every_row(tmp_path: Path) -> None:
    found = run(tmp_path, competitors=1, rounds=3)
    assert found["competitors"] == 1
    for row in found["rows"]:
        assert len(row["seconds"]) == len(row["seconds_contended"]) == 3
        ratios = np.array(row["seconds_contended"]) / row["seconds"]
        assert row["slowdown"] == pytest.approx(np.median(ratios))


def test_a_run_tells_its_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found = run(tmp_path, (9, 3))
    assert found["environment"]["cleared"]["OMP_NUM_THREADS"] == "7"
    assert found["between_turns"] == session.BETWEEN_TURNS and found["processors"] == available_cpus()
    assert len(found["other_load"]) == 4 and all(0 <= share <= 1 for share in found["other_load"])
    assert found["memory_bytes"] > 4 * 3 * SHAPE.weights


def test_a_peer_that_was_left_out_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path)
    (tmp_path / "ktransformers-absent.txt").write_text("no wheel\n")
    (tmp_path / "torch-absent.txt").write_text("")
    peers.check_installed(["ggml", "torch"])
    with pytest.raises(EStreamError, match=r"ktransformers is not there on this computer \(no wheel\): leave it out"):
        peers.check_installed(["ggml", "ktransformers"])
