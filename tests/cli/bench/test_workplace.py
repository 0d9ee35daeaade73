"""Where benches work: kept folders, temporary ones, and what killed runs leave behind."""

import os
from pathlib import Path

import pytest

from estream_lab.cli.bench.workplace import synthetic_store, workplace
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store


def test_a_temporary_folder_does_not_outlive_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt), workplace(None) as folder:
        assert folder.parent.resolve() == tmp_path and folder.is_dir()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_named_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="finished stores are kept in .*here"), workplace(tmp_path / "here"):
        raise KeyboardInterrupt
    assert (tmp_path / "here").is_dir()


def test_what_a_killed_run_left_is_removed_by_the_next_one_and_running_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves the folder with a lock that nobody holds."""
    monkeypatch.chdir(tmp_path)
    killed, unknown = tmp_path / "estream-bench-killed", tmp_path / "estream-bench-mine"
    (killed / "m.estream").mkdir(parents=True)
    (killed / "lock").touch()
    unknown.mkdir()  # without a lock: of no bench
    with workplace(None) as running:
        assert sorted(os.listdir()) == sorted([running.name, unknown.name])
        with workplace(None) as other:
            assert sorted(os.listdir()) == sorted([running.name, other.name, unknown.name])
    assert os.listdir() == [unknown.name]


def test_kept_stores_of_other_shapes_are_not_taken_for_these(tmp_path: Path) -> None:
    shapes = [{"top_k": 1, "heads": 1}, {"top_k": 2, "heads": 1}, {"top_k": 1, "heads": 2}]
    specs = [synthetic_spec(hidden=64, ffn=32, layers=1, experts=4, **shape) for shape in shapes]
    made = [synthetic_store(tmp_path, spec) for spec in specs for _ in range(2)]
    assert [Store(path).spec for path in made] == [spec for spec in specs for _ in range(2)]
    assert len(set(made)) == 3
