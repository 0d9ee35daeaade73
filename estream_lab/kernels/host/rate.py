"""How fast a loop runs at best on several threads: what peaks are measured by."""

from __future__ import annotations

import time

from estream_lab.kernels.host.threads import SHARES_A_THREAD, Work, run_workers


def best_rate(work: Work, threads: int, each: float, rounds: int, shares: int | None = None) -> float:
    """What is counted, a second, in the fastest of some rounds; a round before them, which compiles, isn't timed.

    Args:
        work: takes shares, see `threads.run_workers`.
        threads: that run at once, at most `thread_limit()`.
        each: how much a share counts.
        rounds: how often all shares are timed.
        shares: how many; by default some for each thread.
    """
    shares = SHARES_A_THREAD * threads if shares is None else shares
    run_workers(work, shares, threads, shares)
    best = 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        run_workers(work, shares, threads, shares)
        best = max(best, shares * each / (time.perf_counter() - start))
    return best
