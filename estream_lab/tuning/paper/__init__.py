"""The paper's figures once more: ours beside the published values, each value marked with how it came about."""

from estream_lab.tuning.paper.baseline import check
from estream_lab.tuning.paper.marks import KINDS, Mark, by_quantity, published_mark

__all__ = ["KINDS", "Mark", "by_quantity", "check", "published_mark"]
