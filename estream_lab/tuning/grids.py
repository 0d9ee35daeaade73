"""Which configurations a layer of E experts has: the rule that gives the paper's grids (inferred from its counts)."""

from typing import NamedTuple

SMALLEST_GROUP = 4
GROUPS_OF_SMALLEST = 16  # a layer's, before SMALLEST_GROUP makes them fewer
QUEUE_DEPTHS = (1, 2)


class Configuration(NamedTuple):
    """Q, B and G."""

    queue_depth: int
    banks: int
    group_size: int

    @property
    def told(self) -> str:
        """In words."""
        return f"G={self.group_size} Q={self.queue_depth} B={self.banks}"


def group_sizes(experts: int) -> tuple[int, ...]:
    """G of g0, 2 g0 and 4 g0 with g0 = max(4, E / 16), as far as a layer of E experts has as many."""
    smallest = min(experts, max(SMALLEST_GROUP, -(-experts // GROUPS_OF_SMALLEST)))
    return tuple(size for size in (smallest, 2 * smallest, 4 * smallest) if size <= experts)


def configurations(
    experts: int, sizes: tuple[int, ...] | None = None, depths: tuple[int, ...] = QUEUE_DEPTHS
) -> tuple[Configuration, ...]:
    """Every supported (Q, B, G): Q <= B <= ceil(E / G), by G, then Q, then B.

    Args:
        experts: E. sizes: of groups; those of `group_sizes` by default. depths: of the queue.
    """
    chosen = group_sizes(experts) if sizes is None else sizes
    return tuple(
        Configuration(depth, banks, size)
        for size in chosen
        for depth in depths
        for banks in range(depth, -(-experts // size) + 1)
    )
