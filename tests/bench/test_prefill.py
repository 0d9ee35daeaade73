"""Whole prefills against a peer in NumPy behind the real protocol."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.bench import peers, rounds
from estream_lab.bench.prefill import compare_prefill, comparison
from estream_lab.bench.prefill.forms import DEFAULT, QUANTS, Form, sweep
from estream_lab.bench.prefill.llama import Files, llama
from estream_lab.bench.prefill.rows import FIGURES, OurRow, Prompt
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.dense import DENSE_QUANTS
from estream_lab.streaming.pack import pack_synthetic

SPEC = synthetic_spec(hidden=64, ffn=32, layers=2, experts=4, top_k=2, heads=2, vocab=96, context=64)
FAKE = Path(__file__).parent / "llama_fake.py"
OURS = ["host-int8 resident", "host-int8 streaming", "host-f32 resident", "host-f32 streaming"]
FORMS = [
    DEFAULT,
    Form("q4_0", True, 128, "on"),
    Form("q4_0", False, 128, "on"),
    Form("q4_K", True, 512, "off"),
    Form("q4_K", True, 128, "on"),
    Form("iq4_nl", True, 128, "on"),
    Form("iq4_xs", True, 128, "on"),
]


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "SETTLE_SECONDS", 0)
        patch.setattr(comparison, "sweep", lambda: FORMS)
        order(patch, "")
        yield


@pytest.fixture(name="store", scope="module")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("model") / "tiny.estream"
    pack_synthetic(SyntheticSource(SPEC), path, progress=False)
    return Store(path)


Part = tuple[str, int, int]


@pytest.fixture(name="parts", scope="module")
def _parts() -> list[Part]:
    """What was said on the way."""
    return []


@pytest.fixture(name="found", scope="module")
def _found(store: Store, parts: list[Part], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One comparison without faults."""
    return run(store, tmp_path_factory.mktemp("found"), progress=lambda *part: parts.append(part))


def order(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Let llama.cpp be the model in NumPy, with this fault."""
    command = [sys.executable, str(FAKE), *[fault] * bool(fault)]
    monkeypatch.setattr("estream_lab.bench.prefill.llama.command", lambda name: command)


def run(store: Store, folder: Path, names: tuple[str, ...] = ("llama.cpp",), **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"threads": 1, "rounds": 2, "progress": lambda *_: None} | settings
    return compare_prefill(store, 9, names, folder=folder, files=folder, **given)


def test_every_row_runs_the_same_model_in_every_round(found: dict[str, Any], parts: list[Part]) -> None:
    assert json.loads(json.dumps(found)) == found
    theirs = ["q4_0 by default", "q4_K repacked, 128 tokens, flash on", "q4_K repacked, 512 tokens, flash off"]
    theirs += ["q4_0 repacked, 128 tokens, flash on", "q4_0 experts, f32 dense"]
    assert [row["name"] for row in found["rows"]] == [*OURS, *theirs]
    for row in found["rows"]:
        assert len(row["seconds_rounds"]) == 2 and row["seconds"] == np.median(row["seconds_rounds"])
        assert row["tokens_per_second"] == pytest.approx(9 / row["seconds"]) and row["tokens"] == 9
        assert row["relative_error"] < (0.05 if "int8" in row["name"] else 1e-5)
    assert found["agreement"]["llama.cpp"] < 1e-4
    assert found["peer_build"]["llama.cpp"]["system_info"] == "none" and found["model"] == SPEC.to_json()
    assert parts[-1] == ("rounds", 18, 18) and ("llama.cpp: sweep", 7, 7) in parts
    assert ("llama.cpp: sweep, q4_K", 3, 7) in parts


def test_each_row_says_its_quantisations(found: dict[str, Any]) -> None:
    rows = found["rows"]
    assert [row["experts"] for row in rows] == [*["q4_0"] * 5, "q4_K", "q4_K", "q4_0", "q4_0"]
    assert [row.get("resident") for row in rows] == [True, False, True, False, *[None] * 5]
    assert rows[0]["dense"] == {"attention": "f32", "embedding": "f32", "head": "f32"}
    assert rows[4]["dense"] == {"attention": "q4_0 x6 q5_0 x1", "head": "q6_k"}
    assert rows[8]["dense"] == {"attention": "f32", "head": "f32"}
    assert (rows[4]["repack"], rows[4]["ubatch"], rows[4]["flash"]) == (True, 512, "auto")


def test_each_row_has_the_figures_of_a_prefill(found: dict[str, Any], store: Store, tmp_path: Path) -> None:
    ours, theirs = found["rows"][:4], found["rows"][4:]
    assert all(set(FIGURES) <= row.keys() for row in found["rows"])
    for row in ours:
        assert all(row[key] is not None for key in FIGURES) and row["store_bytes"] == store.nbytes
        assert (row["bytes_read"] > 0) == ("streaming" in row["name"])
    engine = PrefillEngine.open(store, profile="host-f32", threads=1)
    with engine:
        result = engine.prefill(Prompt.draw(9, SPEC.vocab, comparison._SEED, tmp_path / "prompt").ids)
    assert (ours[2]["logits_sha256"], ours[2]["top"][0][:2]) == (result.logits_sha256, [*result.top[0][:2]])
    assert ours[2]["top"][0][2] == pytest.approx(result.top[0][2], abs=1e-5)
    assert len({row["logits_sha256"] for row in ours}) == 2  # of int8 and of float32, streamed or not
    for row in theirs:
        assert (row["lane"], row["peak_rss_bytes"], row["arena_bytes"]) == ("llama.cpp", 12345, None)
        assert row["store_bytes"] > 1000
    assert all(row["top"][0][0] == ours[2]["top"][0][0] for row in found["rows"])
    chances = [sum(np.exp(chance) for *_, chance in row["top"]) for row in found["rows"]]
    assert len(ours[0]["top"]) == 5 and all(0 < chance <= 1 for chance in chances)


def test_rows_are_held_to_the_default_and_to_the_fastest(found: dict[str, Any]) -> None:
    rows = found["rows"]
    default, fastest = rows[4], rows[5]
    assert [row["default"] for row in rows] == [row is default or row is rows[1] for row in rows]
    assert [row["fastest"] for row in rows] == [row is fastest for row in rows]
    for row in rows:
        assert row["of_default"] == pytest.approx(1.0 / row["seconds"])
        assert row["of_fastest"] == pytest.approx(0.5128 / row["seconds"])


def test_forms_that_there_are_not_are_told_and_the_rest_is_swept(found: dict[str, Any]) -> None:
    assert [form["name"] for form in found["sweep"]] == [form.name for form in FORMS[:5]]
    assert [form["seconds"] for form in found["sweep"]] == pytest.approx([1.0, 2.5128, 3.5128, 0.5512, 0.5128])
    reasons = {row["name"]: row["reason"] for row in found["unsupported"]}
    assert reasons == {FORMS[5].name: "no such attention", FORMS[6].name: "nobody quantises to this"}


@pytest.mark.parametrize("quant", DENSE_QUANTS)
def test_quantised_dense_weights_are_told_and_the_peer_gets_their_values(tmp_path: Path, quant: str) -> None:
    pack_synthetic(SyntheticSource(SPEC), tmp_path / "q.estream", dense_quant=quant, progress=False)
    found = run(Store(tmp_path / "q.estream"), tmp_path)
    assert [row["dense"] for row in found["rows"][:4]] == [dict.fromkeys(("attention", "embedding", "head"), quant)] * 4
    same = next(row for row in found["rows"] if row["name"] == "q4_0 experts, f32 dense")
    assert 1e-5 < same["relative_error"] < 0.03  # activations are rounded here, not there
    assert not list(tmp_path.glob("*.plain")) and (tmp_path / "q.estream" / "dense.safetensors").exists()


def test_without_a_peer_only_ours_run(store: Store, tmp_path: Path) -> None:
    found = run(store, tmp_path, ())
    assert [row["name"] for row in found["rows"]] == OURS
    assert all(row["of_default"] is row["of_fastest"] is None for row in found["rows"])


def test_no_run_sees_the_tokens_of_another(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = Prompt.draw

    def spy(tokens: int, vocab: int, seed: int, path: Path) -> Prompt:
        drawn.append(seed)
        return draw(tokens, vocab, seed, path)

    monkeypatch.setattr(Prompt, "draw", spy)
    run(store, tmp_path, (), rounds=3)
    assert len(set(drawn)) == 4 and drawn[:4] == [drawn[0]] * 4  # all rows' errors on one prompt, each round on its own


@pytest.mark.parametrize("fault", ["norms", "rope", "experts"])
def test_another_model_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    order(monkeypatch, fault)
    with pytest.raises(EStreamError, match="llama.cpp computes another model .*logits are off by 0"):
        run(store, tmp_path)


def test_a_row_of_other_weights_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.estream"
    pack_synthetic(SyntheticSource(SPEC, 1), other, progress=False)
    of = Files.of
    elsewhere: list[Files] = []

    def theirs(files: Files, form: Form) -> Path:
        if not form.default or files in elsewhere:
            return of(files, form)
        elsewhere.append(Files(files._session, Store(other), tmp_path, 1))
        return of(elsewhere[-1], form)

    monkeypatch.setattr(Files, "of", theirs)
    with pytest.raises(EStreamError, match="llama.cpp q4_0 by default is off by 1.* it runs another model"):
        run(store, tmp_path)


def test_with_our_weights_a_row_may_only_round_otherwise(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order(monkeypatch, "large experts")  # a model of one layer's error, which the small one is spared
    with pytest.raises(EStreamError, match=r"llama.cpp q4_0 experts, f32 dense is off by 0\.[1-9]"):
        run(store, tmp_path)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("dies", "the peer llama.cpp died .status 3., its last words: out of luck"),
        ("error", "the peer llama.cpp failed to run: RuntimeError: no luck"),
    ],
)
def test_a_peer_at_fault_ends_the_run_in_a_sentence(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, told: str
) -> None:
    order(monkeypatch, fault)
    with pytest.raises(EStreamError, match=told):
        run(store, tmp_path)


def test_files_are_made_once_and_never_taken_unfinished(store: Store, tmp_path: Path) -> None:
    with llama() as session:
        files = Files(session, store, tmp_path, 1)
        path = files.of(DEFAULT)
        path.with_suffix(".part").write_bytes(b"half")
        made = path.stat().st_mtime_ns
        assert Files(session, store, tmp_path, 1).of(DEFAULT).stat().st_mtime_ns == made
        path.unlink()
        assert files.of(DEFAULT).stat().st_size > 4
    assert not (tmp_path / "experts.plain").exists()


def test_the_sweep_is_every_form_once_and_begins_with_the_default() -> None:
    forms = sweep()
    assert len(forms) == 1 + len(QUANTS) * 2 * 3 * 2 and len({form.name for form in forms}) == len(forms)
    assert [form for form in forms if form.default] == forms[:1] == [DEFAULT]


def test_the_program_is_there() -> None:
    assert all((peers.CHECKOUT / "peers" / program).exists() for program in peers.PREFILL_PEERS.values())


def test_each_round_has_an_order_of_its_own(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    real = OurRow.run

    def run_(row: OurRow, prompt: Prompt) -> float:
        real(row, prompt)
        ran.append(row.name)
        return float(len(ran))

    monkeypatch.setattr(OurRow, "run", run_)
    rows = run(store, tmp_path, ())["rows"]
    orders = [[OURS[i] for i in rounds.order(4, turn)] for turn in range(2)]
    assert ran == [*orders[0], *orders[1]] and orders[0] != orders[1]
    assert [row["seconds_rounds"] for row in rows] == [[order.index(n) + 1 + 4 * i for i, order in enumerate(orders)]
                                               for n in OURS]  # fmt: skip
