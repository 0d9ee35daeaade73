"""Records joined with addresses: worked example C, and split records."""

import numpy as np

from estream_lab.experts import compact
from estream_lab.experts.planes import ParameterPlanes
from estream_lab.experts.record_addresses import RecordAddresses
from estream_lab.routing import Routes

ROUTES = Routes([0, 0, 1, 1, 2, 2], [4, 1, 1, 5, 4, 0], [0.6, 0.4, 0.7, 0.3, 0.5, 0.5])
PLACEMENT = np.array([0, 1, -1, -1, 2, 3], np.int32)
PLANES = ParameterPlanes((1000, 5000, 9000), (100, 100, 120))


def test_worked_example_c() -> None:
    """Π = (2,5) | (0,1) (1,2) | (0,0) (2,4) | (1,3), joined with slots 0, 1, 1, 2, 2, 3."""
    binding = compact(ROUTES, PLACEMENT, 0, 4)
    joined = RecordAddresses.of(binding, PLANES.addresses(binding.slot), row_bytes=8)
    assert joined.slot.tolist() == [0, 1, 1, 2, 2, 3]
    assert joined.x.tolist() == joined.y.tolist() == [16, 0, 8, 0, 16, 8]
    assert joined.gate.tolist() == [1000, 1100, 1100, 1200, 1200, 1300]
    assert joined.up.tolist() == [5000, 5100, 5100, 5200, 5200, 5300]
    assert joined.down.tolist() == [9000, 9120, 9120, 9240, 9240, 9360]


def test_a_part_of_split_records_keeps_their_addresses() -> None:
    binding = compact(ROUTES, PLACEMENT, 0, 4)
    whole = RecordAddresses.of(binding, PLANES.addresses(binding.slot), 8)
    parts = [RecordAddresses.of(part, PLANES.addresses(part.slot), 8) for part in binding.split(4)]
    assert len(parts) == 2
    for name in ("slot", "x", "gate", "up", "down", "y"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
