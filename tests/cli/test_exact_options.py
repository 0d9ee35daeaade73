"""--executor exact with what it can't be run with: one sentence, a status, and no file that wasn't there."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xxhash

from estream_lab.cli import main
from estream_lab.cli.prefill import summary
from estream_lab.engine import PrefillEngine
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.vtcm import least_vtcm
from estream_lab.models.synthetic import SyntheticSource, Weights
from estream_lab.streaming.pack import pack_synthetic
from estream_lab.streaming.store import manifest_checksum
from tests.stores import SPEC, synthetic_store

from .conftest import Run

GIVEN = ("--tokens", "1,2,3,4,5,6,7,8", "--executor", "exact")
LEAST = least_vtcm(SPEC.hidden, SPEC.ffn)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("exact"))


@pytest.fixture
def estream(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stopped:  # arguments that don't parse
            status = int(stopped.code or 0)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def rewrite(store: Path, change: Callable[[dict[str, object]], None]) -> None:
    """Change a manifest as another program might have written it: with its checksum."""
    manifest = json.loads((store / "manifest.json").read_text())
    change(manifest)
    manifest["checksum"] = manifest_checksum(manifest)
    (store / "manifest.json").write_text(json.dumps(manifest))


def with_scale(store: Path, layer: int, scale: float) -> None:
    """A scale in every up projection of a layer, with the records' checksums."""
    manifest = json.loads((store / "manifest.json").read_text())
    record, entry = RecordClass.from_json(manifest["classes"][0]), manifest["layers"][layer]
    content = np.fromfile(store / "experts.bin", np.uint8)
    for place in range(len(entry["order"])):
        begin = entry["offset"] + place * record.stride
        at = begin + record.gate_bytes + 512
        content[at : at + 2] = np.array([scale], "<f2").view(np.uint8)
        entry["checksums"][place] = xxhash.xxh3_64_hexdigest(content[begin : begin + record.stride].data)
    content.tofile(store / "experts.bin")
    rewrite(store, lambda found: found.update(layers=manifest["layers"]))


def check_refusal(answer: tuple[int, str, str], status: int, message: str) -> None:
    """One sentence; before it the usage where the arguments don't parse."""
    found, out, err = answer
    told = err.rstrip("\n").split("\n")
    assert (found, out) == (status, "") and message in told[-1] and "Traceback" not in err
    assert len(told) == 1 or (status == 2 and told[0].startswith("usage: estream prefill"))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--profile", "hmx_v99"), 2, "argument --profile: invalid choice: 'hmx_v99' (choose from"),
        (("--profile", ""), 2, "argument --profile: invalid choice: ''"),
        (("--vtcm", "0"), 1, "vtcm bytes must be at least 1, not 0"),
        (("--vtcm", "-5"), 2, "argument --vtcm: '-5' is not a size such as"),
        (("--vtcm", "1"), 1, f"the region activations takes 4,096 bytes, 1 of 1 bytes of VTCM are left; no tiles fit: "
         f"give it {LEAST:,} bytes or more"),
        (("--vtcm", "64KiB"), 1, f"of 65,536 bytes of VTCM are left; no tiles fit: give it {LEAST:,} bytes or more"),
        (("--vtcm", str(LEAST - 1)), 1, f"the region compressed1 takes 2,304 bytes, 2,303 of {LEAST - 1:,} bytes"),
        (("--vtcm", "64KiB", "--route-capacity", "9" * 18), 1, f"give it {LEAST:,} bytes or more"),
        (("--vtcm", "1TiB"), 2, "argument --vtcm: '1TiB' is not a size such as"),
        (("--vtcm", "1024GiB"), 1, "VTCM of 1,099,511,627,776 bytes is more than a 32-bit address reaches: give 4GiB"),
        (("--vtcm", "8 M i B"), 2, "argument --vtcm: '8 M i B' is not a size such as"),
        (("--vtcm", "8MiB/s"), 2, "argument --vtcm: '8MiB/s' is not a size such as"),
        (("--vtcm", ""), 2, "argument --vtcm: '' is not a size such as"),
        (("--vtcm", "nan"), 2, "argument --vtcm: 'nan' is not a size such as"),
        (("--executor", "host", "--profile", "hmx_v75_g8"), 1, "the host executor has no numerics profile"),
        (("--executor", "host", "--vtcm", "8MiB"), 1, "the host executor has no VTCM capacity"),
        (("--executor", "host", "--steps", "s.json"), 1, "the host executor has no record of steps"),
        (("--executor", "npu"), 2, "argument --executor: invalid choice: 'npu' (choose from"),
        (("--steps", "no/where/s.json"), 1, "Cannot write no/where/s.json: No such file or directory"),
        (("--steps", "."), 1, "Cannot write .: it is a folder or a device"),
        (("--steps", "/dev/null"), 1, "Cannot write /dev/null: it is a folder or a device"),
        (("--steps", "s", "--trace", "./s"), 1, "--trace and --steps would both be written to s: give each a file of"),
        (("--steps", "a/../s", "--report", "s"), 1, "--steps and --report would both be written to s: give each a"),
        (("--steps", "STORE/experts.bin"), 1, "--steps would be written to "),
        (("--trace", "STORE/new.json"), 1, "which the store is read from: give it another place"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_one_sentence(
    estream: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], status: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    given = [each.replace("STORE", str(store)) for each in arguments]
    check_refusal(estream("prefill", store, *GIVEN, *given), status, message)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_takes_no_files_stops_before_the_run(
    estream: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(PrefillEngine, "open", lambda *_, **__: pytest.fail("the run began"))
    target = tmp_path / "s.json"
    answer = estream("prefill", store, *GIVEN, "--steps", target)
    check_refusal(answer, 1, f"Cannot write {target}: Permission denied; give a path in a writable folder.")


@pytest.mark.parametrize("size", ["8MiB", "8 MiB", "8mib", "8388608", "8192KiB", "0.0078125GiB"])
def test_spellings_of_one_capacity(estream: Run, store: Path, size: str) -> None:
    status, out, _ = estream("prefill", store, *GIVEN, "--vtcm", size, "--json")
    assert status == 0 and json.loads(out)["tile_plan"]["vtcm_bytes"] == 8 << 20


def test_the_least_capacity_that_a_refusal_names_works(estream: Run, store: Path) -> None:
    status, out, _ = estream("prefill", store, *GIVEN, "--vtcm", LEAST)
    assert status == 0
    assert f"tiles           M=32 Nf=32 Nd=32, {LEAST} of {LEAST} bytes of VTCM: computed" in out


def test_the_steps_and_the_figures_say_what_they_were_made_in(estream: Run, store: Path, tmp_path: Path) -> None:
    steps = tmp_path / "steps.json"
    profile = ("--profile", "hmx_v73_g4", "--vtcm", "200KiB", "--route-capacity", "40")
    status, out, _ = estream("prefill", store, *GIVEN, *profile, "--steps", steps)
    said = json.loads(steps.read_text())["otherData"]["provenance"]
    assert status == 0 and (said["numerics_profile"], said["vtcm_bytes"]) == ("hmx_v73_g4", 200 << 10)
    tiles = f"M={said['tile_rows']} Nf={said['ffn_panel_columns']} Nd={said['hidden_panel_columns']}"
    assert f"tiles           {tiles}, {said['vtcm_used_bytes']} of {200 << 10} bytes of VTCM: computed" in out
    with PrefillEngine.open(store) as engine:
        assert "tiles  " not in summary(engine.prefill([1, 2]))


@pytest.mark.parametrize("layout", ["q8_0", "bf16"])
def test_stores_of_another_quantisation_are_one_sentence(estream: Run, tmp_path: Path, layout: str) -> None:
    store = synthetic_store(tmp_path)
    rewrite(store, lambda found: found["classes"][0]["shape"].update(layouts=[layout] * 3))  # type: ignore[index]
    check_refusal(estream("prefill", store, *GIVEN), 1, f"unknown expert layout '{layout}': this version reads f32, q4")


def test_a_store_of_floats_is_one_sentence_and_steps_are_not_begun(estream: Run, tmp_path: Path) -> None:
    store, steps = synthetic_store(tmp_path, "f32"), tmp_path / "s.json"
    answer = estream("prefill", store, *GIVEN, "--steps", steps)
    check_refusal(answer, 1, "the exact executor reads records in q4-32x32, not f32: pack the model with --quant q4_0")
    assert not steps.exists()


@pytest.mark.parametrize("scale", [8192.0, np.inf, np.nan])
def test_a_scale_that_overflows_is_one_sentence_and_old_steps_stay(estream: Run, tmp_path: Path, scale: float) -> None:
    store, steps = synthetic_store(tmp_path), tmp_path / "s.json"
    with_scale(store, 1, scale)
    steps.write_text("old")
    answer = estream("prefill", store, *GIVEN, "--json", "--steps", steps, "--profile", "ieee_fp32")
    status, out, err = answer
    assert json.loads(out)["error"] == err.removeprefix("estream: ").rstrip("\n")
    check_refusal((status, "", err), 1, "of a bank has a scale of 8192 or more in magnitude: its weights overflow fp16")
    assert "the up projection in slot " in err
    assert steps.read_text() == "old" and {path.name for path in tmp_path.iterdir()} == {"s.json", store.name}


def test_activations_that_overflow_are_one_sentence(estream: Run, tmp_path: Path) -> None:
    """Before experts take them: the router has seen them."""

    class Huge(SyntheticSource):
        def dense(self, name: str) -> Weights:
            return super().dense(name) * np.float32(3e38 if "norm" in name else 1)

    pack_synthetic(Huge(SPEC), tmp_path / "huge.estream", progress=False)
    answer = estream("prefill", tmp_path / "huge.estream", *GIVEN)
    check_refusal(answer, 1, "the router of layer 0 gives NaN or infinite values: the model's weights overflow float32")


def test_steps_get_the_times_of_a_device_profile(estream: Run, store: Path, tmp_path: Path) -> None:
    order, timed = tmp_path / "order.json", tmp_path / "timed.json"
    assert estream("prefill", store, *GIVEN, "--steps", order)[0] == 0
    assert estream("prefill", store, *GIVEN, "--steps", timed, "--steps-device", "phone")[0] == 0
    found = [json.loads(path.read_text()) for path in (order, timed)]
    assert [len(document["traceEvents"]) for document in found] == [len(found[0]["traceEvents"])] * 2
    kinds = [document["otherData"]["provenance"]["kind"] for document in found]
    assert kinds == ["steps in order, without time", "steps with modelled times (assumed rates)"]
    assert {event["dur"] for event in found[0]["traceEvents"] if event["ph"] == "X"} == {0.001}
    assert len({event["dur"] for event in found[1]["traceEvents"] if event["ph"] == "X"}) > 1


def test_a_profile_for_steps_that_go_nowhere_or_that_is_none_is_refused(
    estream: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefillEngine, "open", lambda *_, **__: pytest.fail("the run began"))
    status, _, error = estream("prefill", store, *GIVEN, "--steps-device", "phone")
    assert status == 1 and "say with --steps where they go" in error
    status, _, error = estream("prefill", store, *GIVEN, "--steps", tmp_path / "s.json", "--steps-device", "telephone")
    assert status == 1 and "no device profile 'telephone'" in error
