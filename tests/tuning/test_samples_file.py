"""The file of a sweep: samples are there as they come, a stop costs one at most, and nothing else is written to."""

import json
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.tuning.samples_file import SweepSample, open_samples, read_samples

SUBJECT = {"machine": "abacus", "tokens": 7, "configurations": [[1, 1, 4]]}


def sample(number: int = 0, seconds: float = 1.5) -> SweepSample:
    return SweepSample(number, 1, 1, 4, seconds, 100, 40, 0.25, "f00d")


def test_samples_are_in_the_file_as_they_come_and_the_next_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with open_samples(path, SUBJECT) as file:
        assert file.samples == [] and file.dropped_bytes == 0
        for number in range(2):
            file.add(sample(number))
            assert read_samples(path) == (SUBJECT, [sample(i) for i in range(number + 1)])
    with open_samples(path, SUBJECT) as file:
        assert file.samples == [sample(0), sample(1)]
        file.add(sample(2))
    assert read_samples(path)[1] == [sample(0), sample(1), sample(2)]


def test_wherever_it_is_cut_off_whole_lines_are_kept(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    with open_samples(whole, SUBJECT) as file:
        for number in range(3):
            file.add(sample(number))
    content = whole.read_bytes()
    path = tmp_path / "cut.jsonl"
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        lines = content[:length].count(b"\n")
        with open_samples(path, SUBJECT) as file:
            assert file.samples == [sample(i) for i in range(max(0, lines - 1))]
            assert file.dropped_bytes == length - (content[:length].rfind(b"\n") + 1)
            for number in range(max(0, lines - 1), 3):
                file.add(sample(number))
        assert path.read_bytes() == content


def test_a_cut_off_line_is_no_sample_of_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with open_samples(path, SUBJECT) as file:
        file.add(sample())
    with path.open("ab") as raw:
        raw.write(b'{"round": 1, "que')
    assert read_samples(path) == (SUBJECT, [sample()])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("my notes", "is no sweep of EStream Lab"),
        ("my notes\n", "is no sweep of EStream Lab"),
        ("{}\n", "is no sweep of EStream Lab"),
        ('{"format": "estream-sweep", "version": 3}\n', "is a sweep of version 3, and this release reads 1"),
        (
            '{"format": "estream-sweep", "version": 1, "machine": "other"}\n',
            "sweep of another machine .other, and this",
        ),
        (
            json.dumps({"format": "estream-sweep", "version": 1, **SUBJECT, "tokens": 8}) + "\n",
            "another tokens .8, and",
        ),
        (json.dumps({"format": "estream-sweep", "version": 1, **SUBJECT}) + "\n{}\n", "line 2 of .* is no sample"),
        (json.dumps({"format": "estream-sweep", "version": 1, **SUBJECT}) + "\n3\n", "line 2 of .* is no sample"),
    ],
)
def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(content)
    with pytest.raises(EStreamError, match=message), open_samples(path, SUBJECT):
        pass
    assert path.read_text() == content


def test_one_process_at_a_time_and_places_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with (
        open_samples(path, SUBJECT),
        pytest.raises(EStreamError, match="another process is writing"),
        open_samples(path, SUBJECT),
    ):
        pass
    with (
        pytest.raises(EStreamError, match="can't write .*: No such file"),
        open_samples(tmp_path / "no" / "s", SUBJECT),
    ):
        pass
    with pytest.raises(EStreamError, match="can't read .*none: No such file"):
        read_samples(tmp_path / "none")
