"""The bandwidth is that of bytes which are all read."""

import numpy as np

from estream_lab.kernels.host import peak, thread_limit
from estream_lab.kernels.host.peak import READ_BYTES, read_bandwidth


def test_every_piece_is_added_up_as_numpy_does() -> None:
    words = np.random.default_rng(0).integers(-(2**40), 2**40, 3 * peak._PIECE)
    sums, taken = np.zeros(2, np.int64), np.zeros(1, np.int64)
    peak._sum_pieces(words, sums, 1, taken.ctypes.data, 3)
    assert sums.tolist() == [0, words.sum()]


def test_the_bandwidth_is_a_rate() -> None:
    for threads in {1, thread_limit()}:
        assert 1e8 < read_bandwidth(threads, 8 << 20, rounds=2) < 1e13
    assert READ_BYTES % (8 * peak._PIECE) == 0
