"""`estream bench kernels` with the real peers on a tiny layer: they are all there, they compute it, and say how."""

import json
import platform
import sys
from itertools import product
from typing import Any

import pytest

from estream_lab.bench import peers
from estream_lab.bench.inputs import KINDS
from estream_lab.bench.peers import PEERS, PREFILL_PEERS
from estream_lab.bench.shapes import LayerShape
from estream_lab.cli import main
from estream_lab.cli.bench import kernels
from estream_lab.errors import EStreamError
from estream_lab.kernels.host import thread_limit

SHAPE = LayerShape("tiny", 256, 256, 4, 2, 3.0)
TOKENS = (5, 40)
PRESENT = [name for name in PEERS if not peers.absent(name)]
THREADS = min(2, thread_limit())

QUANTS = ("q4_0", "q4_1", "q4_K", "iq4_nl", "iq4_xs", "mxfp4")
FORMS = {
    "ggml": {f"{quant}{form}" for quant, form in product(QUANTS, ("", " repacked"))},
    "torch": {"fp32", "bf16"},
    "ktransformers": {"llamafile", "rawint4"},
}
# relative errors, of the whole and of any kind of activations: float32 sums, bf16 products, int8 activations in
# blocks of 32, and in those of 256 that the K-quants and iq4_xs have
BOUNDS = {"fp32": 1e-5, "bf16": 0.015, "int8": 0.04, "int8 of 256": 0.12, "bf16 or int8, as the library chose": 0.04}


@pytest.fixture(name="found", scope="module")
def _found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of the command with every peer that there is."""
    folder = tmp_path_factory.mktemp("kernels")
    command = ["bench", "kernels", "--peer", *PRESENT, "--shape", "olmoe", "--tokens", *map(str, TOKENS)]
    command += ["--threads", str(THREADS), "--rounds", "1", "--competitor", "1", "-o", str(folder / "out.json")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kernels.SHAPES, "olmoe", SHAPE)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("OMP_NUM_THREADS", "1")  # peers are not to heed it
        assert main(command) == 0
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def test_only_what_has_no_build_for_this_platform_is_absent() -> None:
    here = (sys.platform, platform.machine()) == ("linux", "x86_64") and (3, 11) <= sys.version_info < (3, 13)
    libc = tuple(int(n) for n in platform.libc_ver()[1].split(".") if n) if here else ()
    absent = [] if libc >= (2, 35) else ["ktransformers"]
    assert [name for name in PEERS | PREFILL_PEERS if peers.absent(name)] == absent


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_computes_the_layer_or_is_refused_with_the_reason(name: str, found: dict[str, Any]) -> None:
    if name not in PRESENT:
        with pytest.raises(EStreamError, match=f"the peer {name} is not there on this computer .*leave it out"):
            peers.command(name)
        return
    rows = [row for row in found["rows"] if row["implementation"] == name]
    assert {row["tokens"] for row in rows} == set(TOKENS)
    for row in rows:
        wide = row["quant"] in ("q4_K", "iq4_xs")
        bound = BOUNDS["int8 of 256" if wide else row["arithmetic"]]
        assert row["relative_errors"].keys() == row["token_errors"].keys() == set(KINDS)
        assert max(row["relative_errors"].values()) < bound, row
        assert max(row["token_errors"].values()) < 1.5 * bound, row
        assert row["arithmetic"] == "fp32" or row["relative_error"] > 1e-4  # and it is the arithmetic that it says


@pytest.mark.parametrize("name", PEERS)
def test_every_form_is_a_row_or_unsupported_with_the_reason(name: str, found: dict[str, Any]) -> None:
    for tokens in TOKENS:
        of = {
            kind: {row["name"]: row for row in found[kind]
                   if (row["implementation"], row["tokens"]) == (name, tokens)}
            for kind in ("rows", "unsupported")
        }  # fmt: skip
        forms = of["rows"].keys() | of["unsupported"].keys()
        assert forms == (FORMS[name] if name in PRESENT else set())
        assert not of["rows"].keys() & of["unsupported"].keys()
        # what a processor may lack: kernels of a repacked form, or the instructions of KTransformers' own int4
        lacking = [row["name"] for row in of["unsupported"].values() if row["reason"]]
        assert len(lacking) == len(of["unsupported"])
        assert all("repacked" in form or form == "rawint4" for form in lacking)


def test_a_row_says_which_quantisation_it_compares(found: dict[str, Any]) -> None:
    rows = {(row["implementation"], row["name"]): row for row in found["rows"]}
    for (implementation, name), row in rows.items():
        if implementation == "ggml":
            quant, _, form = name.partition(" ")
            assert row["quant"] == quant and row["quants"] == [quant] * 3
            assert row["buffers"] == ["CPU_REPACK" if form else "CPU"] * 3
    assert rows["torch", "bf16"]["quant"] == "q4_0 as bf16"
    default = [row["name"] for row in found["rows"] if row["implementation"] == "ggml" and row["default"]]
    repacks = ("ggml", "q4_0 repacked") in rows
    assert default == ["q4_0 repacked" if repacks else "q4_0"] * len(TOKENS)


def test_the_file_has_what_other_programs_rely_on(found: dict[str, Any]) -> None:
    assert {"machine", "peak", "peer_build", "rows"} <= found.keys()
    keys = {"shape", "tokens", "implementation", "quant", "threads", "seconds_median", "times_ours",
            "fraction_of_peak", "relative_error"}  # fmt: skip
    for row in found["rows"]:
        assert keys <= row.keys() and row["threads"] == THREADS
        assert row["seconds_median"] > 0 and row["times_ours"] > 0 and row["slowdown"] > 0
        measured = row["arithmetic"] in ("int8", "bf16", "fp32")
        assert (row["fraction_of_peak"] is not None) == measured
    ours = [row["times_ours"] for row in found["rows"] if row["name"] == "host int8"]
    assert ours == [1] * len(TOKENS)
    assert found["peak"].keys() == {"int8", "bf16", "fp32", "read_bytes_per_second"} and min(found["peak"].values()) > 0


def test_every_peer_tells_how_it_was_built(found: dict[str, Any]) -> None:
    builds = found["peer_build"]
    assert list(builds) == PRESENT
    ggml = builds["ggml"]
    assert "-DGGML_NATIVE=ON" in ggml["flags"] and "-DCMAKE_BUILD_TYPE=Release" in ggml["flags"]
    assert ggml["system_info"].startswith("CPU : ")
    assert ggml["features"].get("OPENMP") == ("1" if sys.platform == "linux" else None)
    assert ggml["buffer_types"][-1] == "CPU"
    assert builds["torch"]["features"] and "PyTorch built with" in builds["torch"]["flags"]
    assert all(build["features"] for build in builds.values())


def test_what_is_set_here_does_not_steer_a_peer(found: dict[str, Any]) -> None:
    assert found["environment"]["cleared"]["OMP_NUM_THREADS"] == "1"
    told = f"omp_get_max_threads() : {thread_limit()}\n"
    assert told in found["peer_build"]["torch"]["parallel"]
