"""estream pack --order: from a route file, from a calibration prompt, and every way to get it wrong."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from estream_lab.cli import calibrate, main
from estream_lab.engine import PrefillEngine
from estream_lab.experts.order import ORDERS, ExpertOrder
from estream_lab.routing import Routes, read_routes, synthetic_routes, write_routes
from estream_lab.streaming import Store
from estream_lab.streaming import pack as module
from estream_lab.streaming.pack import pack
from tests.golden_compare import TINY_MOE
from tests.stores import SPEC
from tests.streaming.test_pack import files, write_checkpoint

TEXT = "In the beginning God created the heaven and the earth.\n" * 25  # 1375 bytes: more than one prompt of 1024


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic weights, with the shipped model's tokenizer: a byte is a token, and SPEC has 96."""
    path = write_checkpoint(tmp_path_factory.mktemp("order") / "checkpoint")
    shutil.copy(TINY_MOE / "tokenizer.json", path)
    return path


def routes(layers: int = SPEC.layers, experts: int = SPEC.experts, top_k: int = 2) -> dict[int, Routes]:
    return {layer: synthetic_routes(30, experts, top_k, alpha=1.0, seed=layer) for layer in range(layers)}


@pytest.mark.parametrize("name", [name for name in ORDERS if name != "id"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_route_file_orders_the_experts(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, suffix: str
) -> None:
    write_routes(tmp_path / f"r{suffix}", routes())
    command = ["pack", str(checkpoint), "-o", str(tmp_path / "m.estream"), "--order", name]
    assert main([*command, "--routes", str(tmp_path / f"r{suffix}"), "--json"]) == 0
    expected = ExpertOrder.of(name, routes(), SPEC.layers, SPEC.experts, 2, f"r{suffix}")
    store = Store(tmp_path / "m.estream")
    assert [layer.order.tolist() for layer in store.layers] == [layer.tolist() for layer in expected.layers]
    assert store.origin["order"] == expected.to_json() == json.loads(capsys.readouterr().out)["order"]


def test_a_router_trace_without_weights_does(checkpoint: Path, tmp_path: Path) -> None:
    """As Megatron Core writes it."""
    write_routes(tmp_path / "r.jsonl", routes())
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    for line in lines:
        del line["top_weights"]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ["pack", str(checkpoint), "-o", str(tmp_path / "m.estream"), "--order", "popularity"]
    assert main([*command, "--routes", str(tmp_path / "r.jsonl")]) == 0
    plain = ExpertOrder.of("popularity", routes(), SPEC.layers, SPEC.experts, 2, "r.jsonl")
    assert Store(tmp_path / "m.estream").origin["order"] == plain.to_json()


def test_a_calibration_prompt_orders_by_the_routes_that_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.txt").write_text(TEXT)
    command = ["pack", str(TINY_MOE), "-o", str(tmp_path / "m.estream"), "--order", "co-activation"]
    assert main([*command, "--order-prompt-file", str(tmp_path / "t.txt")]) == 0
    assert "experts by co-activation over 1375 tokens of t.txt" in capsys.readouterr().out
    store = Store(tmp_path / "m.estream")
    pack(TINY_MOE, tmp_path / "id.estream", progress=False)
    with PrefillEngine.open(tmp_path / "id.estream", resident=True) as engine:
        prompts = [engine.prefill(list(TEXT.encode())[at : at + 1024]).routes for at in (0, 1024)]
    whole = {layer: calibrate._join([p[layer] for p in prompts], range(0, 1375, 1024)) for layer in range(4)}
    assert store.origin["order"] == ExpertOrder.of("co-activation", whole, 4, 16, 2, "t.txt").to_json()
    assert sorted(os.listdir(tmp_path)) == ["id.estream", "m.estream", "t.txt"]
    # the file that `estream routes` writes of a prompt gives the same order as the prompt
    (tmp_path / "short.txt").write_text(TEXT[:900])
    arguments = ["routes", str(tmp_path / "id.estream"), "--prompt-file", str(tmp_path / "short.txt")]
    assert main([*arguments, "-o", str(tmp_path / "short.csv")]) == 0
    assert main(
        ["pack", str(TINY_MOE), "-o", str(tmp_path / "n.estream"), "--order", "popularity",
         "--order-prompt-file", str(tmp_path / "short.txt")]
    ) == 0  # fmt: skip
    from_file = ExpertOrder.of("popularity", read_routes(tmp_path / "short.csv"), 4, 16, 2, "short.txt")
    assert Store(tmp_path / "n.estream").origin["order"] == from_file.to_json()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "popularity"], "--order popularity needs routes: give --routes FILE or --order-prompt-file FILE"),
        (["--routes", "good.csv"], "the order by id needs no routes: leave good.csv out"),
        (["--order", "popularity", "--routes", "none.csv"], "Cannot read the route file none.csv"),
        (["--order", "popularity", "--routes", "other-e.csv"], "other-e.csv"),
        (["--order", "popularity", "--routes", "layer-missing.csv"], "has no routes for layer 2 of the model's 3"),
        (["--order", "popularity", "--routes", "deeper.csv"], "has routes for layer 3 of a model of 3 layers"),
        (["--order", "popularity", "--routes", "other-k.csv"], "sends a token to 3 experts where the model has 2"),
        (["--order", "popularity", "--order-prompt-file", "none.txt"], "can't read none.txt"),
        (["--order", "popularity", "--order-prompt-file", "empty.txt"], "empty.txt is empty"),
        (["--order", "popularity", "--order-prompt-file", "t.txt"], "is outside the vocabulary of 96"),
        (["--order", "popularity", "--routes", "good.csv", "-o", "there.estream"], "there.estream exists already"),
    ],
)
def test_what_cannot_be_ordered_is_one_sentence_and_leaves_nothing(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_routes("good.csv", routes())
    write_routes("other-e.csv", routes(experts=SPEC.experts + 20))
    write_routes("layer-missing.csv", {layer: routes()[layer] for layer in (0, 1)})
    write_routes("deeper.csv", routes(layers=4))
    write_routes("other-k.csv", routes(top_k=3))
    Path("empty.txt").write_text("")
    Path("t.txt").write_text("~")  # byte 126
    Path("there.estream").mkdir()
    Path("there.estream/manifest.json").write_text("{}")
    before = sorted(os.listdir())
    assert main(["pack", str(checkpoint), "-o", "m.estream", *arguments, "--json"]) == 1
    captured = capsys.readouterr()
    assert message in json.loads(captured.out)["error"] and "Traceback" not in captured.err
    assert sorted(os.listdir()) == before


def test_no_tokenizer_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = write_checkpoint(tmp_path / "checkpoint")
    (tmp_path / "t.txt").write_text("text")
    command = ["pack", str(bare), "-o", str(tmp_path / "m.estream"), "--order", "popularity"]
    assert main([*command, "--order-prompt-file", str(tmp_path / "t.txt")]) == 1
    assert "has no tokenizer" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "t.txt"]


STOPS = {
    "the temporary pack": (module, "pack_record", 20, "calibration"),
    "the prompt": (PrefillEngine, "_layers", 1, "calibration"),
    "the pack": (module, "pack_record", 64 + 40, "partial"),
}


@pytest.mark.parametrize("stop_in", STOPS)
def test_interrupted_anywhere_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stop_in: str
) -> None:
    """Afterwards the store is the one that an undisturbed run makes, and nothing else is left."""
    (tmp_path / "t.txt").write_text(TEXT[:200])
    owner, name, nth, left = STOPS[stop_in]
    real, calls = getattr(owner, name), 0

    def stop(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(owner, name, stop)
    command = ["pack", str(TINY_MOE), "-o", str(tmp_path / "m.estream"), "--order", "popularity"]
    command += ["--order-prompt-file", str(tmp_path / "t.txt")]
    assert main(command) == 130
    assert f"whole layers are kept in {tmp_path / 'm.estream'}.{left}" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == [f"m.estream.{left}", "t.txt"]
    monkeypatch.undo()
    assert main(command) == 0
    assert ("layers resumed" in capsys.readouterr().out) == (stop_in == "the pack")
    assert main([*command[:3], str(tmp_path / "n.estream"), *command[4:]]) == 0
    assert files(tmp_path / "m.estream") == files(tmp_path / "n.estream")
    assert sorted(os.listdir(tmp_path)) == ["m.estream", "n.estream", "t.txt"]


def test_two_calibrations_never_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.txt").write_text(TEXT[:200])
    command = ["pack", str(TINY_MOE), "-o", str(tmp_path / "m.estream"), "--order", "popularity"]
    command += ["--order-prompt-file", str(tmp_path / "t.txt")]
    real, statuses = calibrate.prompt_tokens, []

    def meddled(*arguments: object) -> object:
        monkeypatch.undo()
        statuses.append(main(command))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(calibrate, "prompt_tokens", meddled)
    assert main(command) == 0
    assert statuses == [1] and "another process calibrates in" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["m.estream", "t.txt"]
