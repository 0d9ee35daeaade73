"""Files of profiles: nothing is lost in them, and what is of no use is refused in one sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.machine import processor
from estream_lab.simulate import SharedBandwidth
from estream_lab.streaming import Store
from estream_lab.streaming.store import manifest_checksum
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import load_profile, save_profile, to_json
from tests.stores import synthetic_store

from .profiles import calibration, profile, routes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("profiles")))


def made(store: Store) -> Profile:
    loads = routes(3, 10)
    runs = [calibration(loads, size, depth, SharedBandwidth(1e9, 3)) for size in (2, 5) for depth in (1, 2)]
    return profile(loads, runs, checksum=store.checksum)


def test_a_profile_is_read_back_as_it_was(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    save_profile(made(store), path)
    assert load_profile(path, store) == made(store)
    assert [entry.name for entry in tmp_path.iterdir()] == ["profile.json"]
    with pytest.raises(EStreamError, match="Cannot write"):
        save_profile(made(store), tmp_path / "no" / "profile.json")


def test_a_profile_of_another_store_or_machine_is_refused(store: Store, tmp_path: Path) -> None:
    path, found = tmp_path / "profile.json", made(store)
    save_profile(replace(found, origin=replace(found.origin, store_checksum="f00d")), path)
    with pytest.raises(
        EStreamError, match=f"profile.json is the profile of another store .manifest f00d, .*{store.path}"
    ):
        load_profile(path, store)
    save_profile(replace(found, origin=replace(found.origin, machine="abacus")), path)
    with pytest.raises(
        EStreamError, match="profile.json is the profile of another machine .abacus, and this is "
    ) as told:
        load_profile(path, store)
    assert processor() in str(told.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "p.json is no profile: it is not JSON"),
        ("[" * 100_000, "p.json is no profile: it is not JSON"),
        ("[]", "p.json is no profile of EStream Lab"),
        ('{"format": "estream-trace", "version": 1}', "p.json is no profile of EStream Lab"),
        ('{"format": "estream-profile", "version": 2}', "p.json is a profile of version 2, and this release reads 1"),
        ('{"format": "estream-profile", "version": 1}', "p.json is a damaged profile"),
    ],
)
def test_what_is_no_profile_is_told(store: Store, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(EStreamError, match=message):
        load_profile(tmp_path / "p.json", store)


def test_a_missing_file_is_told(store: Store, tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="can't read the profile .*: No such file or directory; make one with"):
        load_profile(tmp_path / "none.json", store)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("runs", 0, "loadings"), 3), (("runs", 0, "loadings", 0), [1]), (("runs", 0), {}), (("origin",), {}),
        (("routes",), ["ab"]), (("service",), None), (("extra",), 1), (("runs", 0, "non_expert_ns"), ["x"]),
    ],
)  # fmt: skip
def test_a_damaged_profile_is_told(store: Store, tmp_path: Path, path: tuple[str | int, ...], value: object) -> None:
    document: Any = json.loads(json.dumps(to_json(made(store))))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file = tmp_path / "p.json"
    file.write_text(json.dumps(document))
    with pytest.raises(EStreamError, match="p.json is a damaged profile .*its checksum is wrong"):
        load_profile(file, store)
    document["checksum"] = manifest_checksum(document)
    file.write_text(json.dumps(document))
    with pytest.raises(EStreamError, match="p.json is a damaged profile"):
        load_profile(file, store)
