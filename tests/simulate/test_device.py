"""Device profiles: every number has a unit, a mark and a source, and a file that is wrong is refused in a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.simulate import DepthBandwidth
from estream_lab.simulate.device import FOLDER, MARKS, UNITS, load_device

from .devices import device

PROFILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_shipped_profile_loads_by_name_and_is_written_as_it_was_read(path: Path, tmp_path: Path) -> None:
    found = load_device(path.stem)
    assert found.name == path.stem
    found.to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_phone_says_that_it_is_fitted_and_what_for() -> None:
    phone = load_device("phone")
    assert (phone.mark, phone.scope) == ("fitted", "OLMoE at 1,024 tokens, G=8")
    assert phone.covers("OLMoE-1B-7B", 1024, 8)
    for other in (("OLMoE", 1024, 8), ("OLMoE-1B-7B", 1023, 8), ("OLMoE-1B-7B", 1024, 4)):
        assert not phone.covers(*other) and device().covers(*other)
    assert {number.mark for number in phone.numbers.values()} == {"fitted", "inferred", "assumed"}
    sentences = [number.source for number in (*phone.read_bandwidths, *phone.numbers.values())]
    assert all(len(sentence.split()) > 4 for sentence in sentences)
    assert phone.assumed == ["read_latency 0 ns", "group_overhead 0 ns"]


def test_values_by_name_storage_and_the_least_sure_mark() -> None:
    made = device(1e9, 3e9, read_latency=7.0)
    assert (made["read_latency"], made["expert_rate"]) == (7, 12e9)
    assert made.storage() == DepthBandwidth((1e9, 3e9), 7)
    assert made.mark == "assumed"


def test_other_values_keep_units_marks_and_sources() -> None:
    made = device()
    other = made.with_values({1: 5e9}, {"expert_rate": 1e9})
    assert [number.value for number in other.read_bandwidths] == [1e9, 5e9]
    assert (other["expert_rate"], other["dense_rate"]) == (1e9, made["dense_rate"])
    assert vars(other.numbers["expert_rate"]) | {"value": 0} == vars(made.numbers["expert_rate"]) | {"value": 0}


def number(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["numbers"]["dense_rate"].update(changes)


WRONG: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda d: d["numbers"].pop("vtcm"), "profile 'made-up' lacks vtcm: correct its file"),
    (lambda d: d["numbers"].update(speed=d["numbers"]["vtcm"]), "has the unknown number speed"),
    (number(value=0), "gives dense_rate as 0, which is no positive number of FLOP/s"),
    (number(value=True), "gives dense_rate as True"),
    (number(value="4e12"), "gives dense_rate as '4e12'"),
    (lambda d: d["numbers"]["read_latency"].update(value=-1), "gives read_latency as -1, which is no number of ns"),
    (number(unit="TFLOP/s"), "gives dense_rate in 'TFLOP/s', not in FLOP/s"),
    (number(mark="guessed"), "marks dense_rate 'guessed', which is none of published, inferred, fitted, assumed"),
    (number(source=" "), "doesn't say where dense_rate is from"),
    (number(origin="x"), "each number has value, unit, mark and source"),
    (lambda d: d["read_bandwidths"].reverse(), r"2e\+09, 1e\+09 bytes/s fall"),
    (lambda d: d["read_bandwidths"].clear(), "reads need a bandwidth"),
    (lambda d: d["read_bandwidths"][0].update(value=0), "gives read_bandwidths 1 as 0"),
    (lambda d: d.update(numbers=[]), "damaged device profile"),
    (lambda d: d.update(scope=""), "name, title and scope are texts"),
    (lambda d: d.update(fitted_to={"model": "x"}), "what it was fitted to has model, tokens and group_size"),
    (
        lambda d: d.update(fitted_to={"model": "x", "tokens": "1", "group_size": 2}),
        "was fitted to what is no model, number of tokens and group size",
    ),
    (
        lambda d: d.update(fitted_to={"model": "x", "tokens": 1, "group_size": "2"}),
        "was fitted to what is no model, number of tokens and group size",
    ),
    (lambda d: d.pop("title"), "'title' is missing or unknown"),
    (lambda d: d.update(more=1), "'more' is missing or unknown"),
    (lambda d: d.update(version=2), "version 2, this release reads 1"),
    (lambda d: d.update(format="x"), "is no device profile"),
]


@pytest.mark.parametrize(("spoil", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_wrong_profile_is_refused(spoil: Callable[[dict[str, Any]], Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "made-up.json"
    device().to_json(path)
    load_device(path)
    document = json.loads(path.read_bytes())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(EStreamError, match=sentence):
        load_device(path)


def test_no_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"no device profile 'telephone' in .*: choose one .*\(.*phone.*\)"):
        load_device("telephone")
    with pytest.raises(EStreamError, match="can't read the device profile"):
        load_device(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(EStreamError, match="isn't JSON"):
        load_device(tmp_path / "text.json")


def test_marks_are_told_and_units_are_those_of_numbers() -> None:
    assert list(MARKS) == ["published", "inferred", "fitted", "assumed"]
    assert set(device().numbers) == set(UNITS)
