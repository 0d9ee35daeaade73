"""Where benches work: kept folders, temporary ones, and what killed runs leave behind."""

import errno
import fcntl
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from estream_lab.cli.bench.workplace import cache_folder, synthetic_store, workplace
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store


def test_a_temporary_folder_is_told_and_does_not_outlive_its_run(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt), workplace(None, 200_000_000) as folder:
        assert folder.parent == cache and folder.is_dir()
        assert capsys.readouterr().err == f"files of this run (0.2 GB) lie in {folder} until it ends\n"
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == os.listdir(cache) == []


def test_the_cache_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for unusable in ("", "relative/place"):  # which the XDG specification says to ignore
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache_folder().is_relative_to(tmp_path) and cache_folder().name == "estream-lab"


@pytest.mark.parametrize("kept", [True, False])
def test_a_disk_without_room_is_told_before_anything_is_made(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=3_000_000_000))
    with workplace(tmp_path if kept else None, 3_000_000_000):
        pass
    with pytest.raises(EStreamError, match=r"needs 3\.1 GB for files, and .* has 3\.0 GB free: make room"):
        workplace(tmp_path if kept else None, 3_100_000_000).__enter__()
    assert os.listdir(tmp_path if kept else cache) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    remedy = "another --folder" if kept else "set XDG_CACHE_HOME"
    with pytest.raises(EStreamError, match=f"can't work in .*file.*: .*{remedy}"):
        workplace(tmp_path / "file" / "x" if kept else None).__enter__()


def test_links_in_a_circle_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(EStreamError, match="can't work in .*: .*another --folder"):
        workplace(tmp_path / "a" / "x").__enter__()


def test_a_folder_within_a_store_is_refused(tmp_path: Path) -> None:
    store = synthetic_store(tmp_path, synthetic_spec(hidden=64, ffn=32, layers=1, experts=4, top_k=2, vocab=32))
    before, link = sorted(store.iterdir()), tmp_path / "link"
    link.symlink_to(store)
    for folder in (store, store / "deep" / "er", link, link / "deep", tmp_path / "new" / ".." / store.name):
        with pytest.raises(EStreamError, match=r"lies in the store .*: give a --folder outside of it"):
            workplace(folder).__enter__()
    assert sorted(store.iterdir()) == before


def test_a_folder_beside_a_store_or_under_another_manifest_is_in_no_store(tmp_path: Path) -> None:
    store = synthetic_store(tmp_path, synthetic_spec(hidden=64, ffn=32, layers=1, experts=4, top_k=2, vocab=32))
    (tmp_path / "manifest.json").write_text("{}")  # of a web page, say
    for folder in (tmp_path / "mine", store / ".." / "out"):
        with workplace(folder):
            pass
    assert (tmp_path / "mine").is_dir() and (tmp_path / "out").is_dir()


def test_a_folder_that_was_named_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="finished files are kept in .*here"), workplace(tmp_path / "here"):
        raise KeyboardInterrupt
    assert (tmp_path / "here").is_dir()


def test_what_a_killed_run_left_is_removed_by_the_next_one_and_running_ones_stay(cache: Path) -> None:
    """A kill leaves the folder with a lock that nobody holds."""
    killed, unknown = cache / "estream-bench-killed", cache / "estream-bench-mine"
    (killed / "m.estream").mkdir(parents=True)
    (killed / "lock").touch()
    unknown.mkdir()  # without a lock: of no bench
    with workplace(None) as running:
        assert sorted(os.listdir(cache)) == sorted([running.name, unknown.name])
        with workplace(None) as other:
            assert sorted(os.listdir(cache)) == sorted([running.name, other.name, unknown.name])
    assert os.listdir(cache) == [unknown.name]


def test_without_a_home_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(EStreamError, match="no home folder .*: set XDG_CACHE_HOME"):
        workplace(None).__enter__()


def test_a_folder_is_not_removed_between_its_making_and_its_lock(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run, in a process of its own, comes just when the first one's lock is there and not yet held."""
    flock, seconds = fcntl.flock, []
    wait = "from estream_lab.cli.bench.workplace import workplace\nwith workplace(None): print('in', flush=True)"

    def overtaken(file: Any, how: int) -> None:
        if not isinstance(file, int) and how == fcntl.LOCK_EX:
            second = subprocess.Popen([sys.executable, "-c", wait], stdout=subprocess.PIPE, text=True)
            seconds.append(second)
            assert second.stdout is not None
            assert not select.select([second.stdout], [], [], 2.0)[0], "it works beside us"
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with workplace(None) as folder:
        out, _ = seconds[0].communicate(timeout=60)
        assert out == "in\n" and seconds[0].returncode == 0
        assert (folder / "lock").is_file()
    assert os.listdir(cache) == []


def test_a_full_disk_is_told_with_its_remedy(cache: Path) -> None:
    """NumPy's `tofile` raises an OSError without a number, others one with it; other errors are left alone."""
    sentence = r"no room left in .*: make room, or set XDG_CACHE_HOME"
    for number in (None, errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(EStreamError, match=sentence), workplace(None):
            raise OSError("7 requested and 0 written") if number is None else OSError(number, os.strerror(number))
    with pytest.raises(PermissionError), workplace(None):
        raise PermissionError(errno.EACCES, "no")


def test_kept_stores_of_other_shapes_are_not_taken_for_these(tmp_path: Path) -> None:
    shapes = [{"top_k": 1, "heads": 1}, {"top_k": 2, "heads": 1}, {"top_k": 1, "heads": 2}]
    specs = [synthetic_spec(hidden=64, ffn=32, layers=1, experts=4, **shape) for shape in shapes]
    made = [synthetic_store(tmp_path, spec) for spec in specs for _ in range(2)]
    assert [Store(path).spec for path in made] == [spec for spec in specs for _ in range(2)]
    assert len(set(made)) == 3
