"""Groups in banks, against the store's file and a lane's result."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.residency import ResidencyError
from estream_lab.streaming import Store
from estream_lab.streaming.fill import fill_banks
from tests.stores import synthetic_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("fill")))


def test_each_slot_holds_the_record_of_its_expert(store: Store) -> None:
    arena, placement = fill_banks(store, 1, {3: 0, 1: 2}, group_size=3, banks=3)  # group 3: one expert, of ten
    assert placement.tolist() == [-1, -1, -1, 6, 7, 8, -1, -1, -1, 0]
    records, file = store.layers[1], store.experts_path.read_bytes()
    for expert in (9, 3, 4, 5):
        start = records.offset + records.order.tolist().index(expert) * records.record.stride
        slot = int(placement[expert])
        held = arena.memory[slot * arena.stride : (slot + 1) * arena.stride].tobytes()
        assert held == file[start : start + arena.stride]
    assert not arena.memory[3 * arena.stride : 6 * arena.stride].any()  # nothing went into bank 1


@pytest.mark.parametrize("bank_of", [{4: 0}, {0: 3}, {-1: 0}, {0: -1}])
def test_what_is_not_there_is_refused(store: Store, bank_of: dict[int, int]) -> None:
    with pytest.raises(EStreamError, match="the layer has 4 groups of 3 and the arena 3 banks"):
        fill_banks(store, 0, bank_of, group_size=3, banks=3)


def test_one_bank_takes_one_group(store: Store) -> None:
    with pytest.raises(ResidencyError):
        fill_banks(store, 0, {0: 1, 2: 1}, group_size=3, banks=3)


def test_one_group_may_hold_every_expert(store: Store) -> None:
    _, placement = fill_banks(store, 0, {0: 1}, group_size=10, banks=2)
    assert placement.tolist() == list(range(10, 20))
