"""Where results go: never over what a command reads, nor into its store; refused before anything runs."""

from pathlib import Path

import pytest

from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "s.estream").mkdir()
    (tmp_path / "s.estream" / "experts.bin").write_bytes(b"weights")
    (tmp_path / "prompt.txt").write_text("text")
    (tmp_path / "link.txt").symlink_to(tmp_path / "prompt.txt")
    (tmp_path / "other").symlink_to(tmp_path / "s.estream")
    return tmp_path


@pytest.mark.parametrize("option", ["--trace", "--steps", "--report"])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("s.estream/experts.bin", "the store"),
        ("s.estream/new.json", "the store"),
        ("s.estream/../s.estream/a", "the store"),
        ("other/new.json", "the store"),
        ("prompt.txt", "--prompt-file"),
        ("./s.estream/../prompt.txt", "--prompt-file"),
        ("link.txt", "--prompt-file"),
    ],
)
def test_nothing_goes_where_the_command_reads(place: Path, option: str, name: str, source: str) -> None:
    read = {"the store": place / "s.estream", "--prompt-file": place / "prompt.txt"}
    with pytest.raises(EStreamError, match=f"{option} would be written to .*, which {source} is read from"):
        check_results({option: place / name}, read)
    assert (place / "s.estream" / "experts.bin").read_bytes() == b"weights"
    assert sorted(path.name for path in (place / "s.estream").iterdir()) == ["experts.bin"]


def test_other_places_are_free(place: Path) -> None:
    read = {"the store": place / "s.estream", "--prompt-file": None}
    check_results({"--trace": place / "prompt.txt", "--steps": place / "s.estream.json", "--report": None}, read)
    assert (place / "prompt.txt").read_text() == "text"


def test_one_file_takes_one_result(place: Path) -> None:
    with pytest.raises(EStreamError, match="--trace and --report would both be written to .*/a: give each a file"):
        check_results({"--trace": place / "a", "--steps": place / "b", "--report": place / "x" / ".." / "a"}, {})
