"""The configuration in a store: kept for this machine, replaced by the next, and nobody else's file is touched."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.simulate import SharedBandwidth
from estream_lab.streaming import Store
from estream_lab.streaming.store import manifest_checksum
from estream_lab.tuning import pipeline_file
from estream_lab.tuning.configure import select
from estream_lab.tuning.pipeline_file import pipeline_path, read_pipeline, write_pipeline
from estream_lab.tuning.profile import Profile
from tests.stores import synthetic_store

from .profiles import calibration, profile, routes


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(synthetic_store(tmp_path))


def made(store: Store) -> Profile:
    loads = routes(3, 10)
    runs = [calibration(loads, size, depth, SharedBandwidth(1e9, 3)) for size in (2, 5) for depth in (1, 2)]
    return profile(loads, runs, checksum=store.checksum)


def write(store: Store, budget: int = 40_000) -> dict[str, Any]:
    found = made(store)
    path = write_pipeline(store, select(found, budget), found)
    return dict(json.loads(path.read_text()))


def test_a_choice_is_kept_with_the_profile_behind_it_and_replaced_by_the_next(store: Store) -> None:
    assert read_pipeline(store) is None
    for budget in (40_000, 50_000):
        write(store, budget)
        found, chosen = read_pipeline(store), select(made(store), budget)
        assert found is not None and found.budget_bytes == budget and found.profile() == made(store)
        assert (found.group_size, found.banks, found.queue_depth) == (
            chosen.chosen.group_size, chosen.chosen.banks, chosen.chosen.queue_depth,
        )  # fmt: skip
    assert [path.name for path in (store.path / "pipeline").iterdir()] == [pipeline_path(store).name]


def test_each_machine_has_a_file_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store)
    mine = pipeline_path(store)
    monkeypatch.setattr(pipeline_file, "processor", lambda: "Abacus (R) 9/2")
    assert pipeline_path(store) == store.path / "pipeline" / "abacus-r-9-2.json"
    assert read_pipeline(store) is None
    mine.rename(pipeline_path(store))
    with pytest.raises(EStreamError, match="abacus-r-9-2.json is the configuration of another machine"):
        read_pipeline(store)
    monkeypatch.setattr(pipeline_file, "processor", lambda: "!")
    assert pipeline_path(store).name == "machine.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "notes"}, "is no configuration of EStream Lab"),
        ({"version": 9}, "is a configuration of version 9, and this release reads 1"),
        ({"store_checksum": "f00d"}, "is the configuration of another store .manifest f00d"),
        ({"configuration": {"group_size": 2}}, "is damaged"),
    ],
)
def test_a_foreign_file_is_named_and_never_overwritten(store: Store, change: dict[str, Any], message: str) -> None:
    document = write(store) | change
    document["checksum"] = manifest_checksum(document)
    path = pipeline_path(store)
    path.write_text(json.dumps(document))
    for act in (lambda: read_pipeline(store), lambda: write(store)):
        with pytest.raises(EStreamError, match=f"{path} {message}.*: remove it, and run estream configure again"):
            act()
    assert json.loads(path.read_text()) == document


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000])
def test_what_is_no_configuration_is_told(store: Store, content: str) -> None:
    path = pipeline_path(store)
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(EStreamError, match=f"{path} is no configuration of EStream Lab: remove it"):
        write(store)
    assert path.read_text() == content


def test_a_changed_file_and_unreadable_places_are_told(store: Store) -> None:
    document = write(store)
    document["configuration"]["banks"] = 99
    pipeline_path(store).write_text(json.dumps(document))
    with pytest.raises(EStreamError, match="was changed since it was written"):
        read_pipeline(store)
    pipeline_path(store).unlink()
    pipeline_path(store).mkdir()
    with pytest.raises(EStreamError, match="can't read .*: Is a directory"):
        read_pipeline(store)
    pipeline_path(store).rmdir()
    (store.path / "pipeline").rmdir()
    (store.path / "pipeline").write_text("")
    with pytest.raises(EStreamError, match="can't read .*: Not a directory"):
        write(store)


def test_a_profile_of_another_version_behind_a_choice_is_told(store: Store) -> None:
    document = write(store)
    found = read_pipeline(store)
    assert found is not None
    other = replace(found, document=document | {"profile": document["profile"] | {"version": 7}})
    with pytest.raises(EStreamError, match=f"{found.path} is a profile of version 7"):
        other.profile()
