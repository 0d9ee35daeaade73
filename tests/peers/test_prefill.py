"""`estream bench prefill` with the real llama.cpp on a tiny model: it runs the same one, in every form of the sweep."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.bench.prefill.agreement import SAME, agree
from estream_lab.bench.prefill.forms import QUANTS, sweep
from estream_lab.bench.prefill.llama import llama
from estream_lab.bench.prefill.model import plain_model
from estream_lab.bench.prefill.rows import FIGURES
from estream_lab.bench.session import PeerFailed
from estream_lab.cli import main
from estream_lab.errors import EStreamError
from estream_lab.kernels.host import thread_limit

SIZES = {"hidden": 256, "ffn": 256, "layers": 2, "experts": 8, "top-k": 2, "vocab": 320, "tokens": 64}
OURS = [f"host-{kind} {how}" for kind in ("int8", "f32") for how in ("resident", "streaming")]
THREADS = min(2, thread_limit())


@pytest.fixture(name="found", scope="module")
def _found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of the command, with the whole sweep."""
    folder = tmp_path_factory.mktemp("prefill")
    sizes = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        command = ["bench", "prefill", "--peer", "llama.cpp", *sizes, "--threads", str(THREADS), "--rounds", "1"]
        assert main([*command, "-o", str(folder / "out.json")]) == 0
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def test_the_peer_computes_the_same_model_and_every_row_runs_it(found: dict[str, Any]) -> None:
    assert 0 < found["agreement"]["llama.cpp"] < SAME
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows)[:4] == OURS and len(rows) == 4 + 5
    same = rows["q4_0 experts, f32 dense"]  # the very weights: activations in int8 are all that differs
    assert same["relative_error"] < 0.05 and rows["host-int8 resident"]["relative_error"] < 0.05
    assert rows["host-f32 streaming"]["relative_error"] == 0


def test_every_form_was_swept_or_is_unsupported_with_the_reason(found: dict[str, Any]) -> None:
    swept, refused = [row["name"] for row in found["sweep"]], {row["name"] for row in found["unsupported"]}
    assert set(swept) | refused == {form.name for form in sweep()} and not set(swept) & refused
    assert all(row["reason"] for row in found["unsupported"])
    assert {row["quant"] for row in found["sweep"]} == set(QUANTS)
    assert all(row["seconds"] > 0 and row["experts"] == row["quant"] for row in found["sweep"])


def test_the_file_has_what_other_programs_rely_on(found: dict[str, Any]) -> None:
    for row in found["rows"]:
        assert {*FIGURES, "implementation", "peak_memory_bytes", "store_bytes", "dense", "experts"} <= row.keys()
        assert row["tokens"] == SIZES["tokens"] and min(row["seconds"], row["tokens_per_second"]) > 0
        assert row["peak_rss_bytes"] > 1e7 and row["store_bytes"] > 1e6
    build = found["peer_build"]["llama.cpp"]
    assert "-DGGML_NATIVE=ON" in build["flags"] and build["system_info"].startswith("CPU : ")


def test_another_model_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that the peer is given turns its heads otherwise."""

    def turned(*given: Any) -> dict[str, Any]:
        weights = plain_model(*given)
        weights["spec"]["rope_theta"] *= 2
        return weights

    with llama() as session:
        assert agree(session, tmp_path, THREADS) < SAME
        monkeypatch.setattr("estream_lab.bench.prefill.llama.plain_model", turned)
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises(EStreamError, match="llama.cpp computes another model"):
            agree(session, other, THREADS)


def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    settings = dict.fromkeys(("repack", "ubatch", "flash", "cache"))
    with llama() as session, pytest.raises(PeerFailed, match="failed to prepare: RuntimeError: llama.cpp can't load"):
        session.ask("prepare", row="a", model=str(tmp_path / "broken.gguf"), tokens=4, threads=1, **settings)
