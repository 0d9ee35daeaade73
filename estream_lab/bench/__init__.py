"""Measurements against peers: rows of one interleaved run, ours in this process, theirs in processes of their own."""

from estream_lab.bench.comparison import compare
from estream_lab.bench.inputs import KINDS
from estream_lab.bench.peaks import peaks
from estream_lab.bench.peers import PEERS
from estream_lab.bench.shapes import SHAPES, TOKENS, LayerShape

__all__ = ["KINDS", "PEERS", "SHAPES", "TOKENS", "LayerShape", "compare", "peaks"]
