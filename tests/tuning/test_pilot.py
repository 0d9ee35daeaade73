"""The pilot: what is worth declaring, how long it will take, and that it is measured once."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.tuning.pilot import Pilot, pilot
from tests.stores import synthetic_store

TOKENS = np.arange(20, dtype=np.int32)


def test_a_pilot_foretells_what_a_sample_takes() -> None:
    """Three quarters of the shorter part hide behind the longer one."""
    found = Pilot(open_seconds=0.5, computing_seconds=2.0, needed_bytes=4_000_000)
    assert found.balanced_bandwidth == 2_000_000
    assert found.sample_seconds(1_000_000) == 0.5 + 2 * (4 + 0.5)
    assert found.sample_seconds(4_000_000) == 0.5 + 2 * (2 + 0.25)


def test_a_pilot_is_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = Store(synthetic_store(tmp_path)), tmp_path / "pilot.json"
    found = pilot(store, TOKENS, 1, path, prompt="numbers")
    with PrefillEngine.open(store, threads=1) as engine:
        assert found.needed_bytes == engine.prefill(TOKENS).bytes_needed
    assert found.open_seconds > 0 and found.computing_seconds > 0
    monkeypatch.setattr("estream_lab.tuning.pilot.PrefillEngine", None)
    assert pilot(store, TOKENS, 1, path, prompt="numbers") == found
    for threads, prompt in ((2, "numbers"), (1, "letters")):
        with pytest.raises(EStreamError, match=r"pilot.json is the pilot of another prompt or threads: give another"):
            pilot(store, TOKENS, threads, path, prompt=prompt)
    for content in ("[", "[]", '{"tokens": 1}', '{"pilot": {"tokens": 1}}'):
        path.write_text(content)
        with pytest.raises(EStreamError, match=r"pilot.json keeps no pilot .*: remove it"):
            pilot(store, TOKENS, 1, path, prompt="numbers")
