"""What every peer's program shares: requests as JSON lines on standard input, answers as JSON lines on standard output.

Requests and answers (estream_lab/bench/session.py is the other side):

    {"do": "offer"}                                  -> {"build": {...}, "rows": [{"name": ..., "quant": ...,
                                                         "default": bool, "bytes_per_weight": ..., "copies": ...}]}
    {"do": "prepare", "row": ..., "layer": {...}}    -> {"arithmetic": ..., "own_weights": bool, ...}
    {"do": "run", "row": ..., "inputs": file, "outputs": file or null}    -> {"seconds": ...}
    {"do": "weights", "row": ..., "into": file}      -> {}     the row's own weights, dequantised
    {"do": "release", "row": ...}                    -> {}

A row multiplies by weights of `bytes_per_weight`, and holds `copies` of them.

An answer is {"ok": {...}}, {"unsupported": reason} or {"error": text}; standard output holds nothing else. The end of
standard input ends the program. Arrays travel as files of plain little-endian numbers:

    weights, of `distinct` experts one after the other, each gate (F, H), up (F, H), down (H, F); float32 in `weights`,
    Q4_0 blocks of 18 bytes (fp16 scale, 16 bytes of nibbles) in `blocks`; expert e of a layer is number e % distinct
    inputs: x (T, H) float32, expert (T, k) int32, weight (T, k) float32
    outputs: y (T, H) float32
"""

import ctypes
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np


class Unsupported(Exception):
    """A row that this machine or build doesn't offer."""


@dataclass(frozen=True)
class Layer:
    """One MoE layer to compute, as the request describes it."""

    hidden: int
    ffn: int
    experts: int
    top_k: int
    tokens: int
    threads: int
    distinct: int
    weights: str
    blocks: str

    @property
    def planes(self):
        """(outputs, inputs) of gate, up and down."""
        return ((self.ffn, self.hidden), (self.ffn, self.hidden), (self.hidden, self.ffn))

    def projection(self, file, plane, expert, item):
        """The elements of one distinct expert's projection in a file with `item` elements of dtype per weight.

        Args:
            file: a memory map, its elements weights (item = 1) or bytes (item = 18 / 32).
            plane: 0 gate, 1 up, 2 down.
        """
        size = int(self.hidden * self.ffn * item)
        first = (3 * expert + plane) * size
        return file[first : first + size]


@dataclass(frozen=True)
class Inputs:
    """Of one call: x (T, H) float32, expert (T, k) int32, weight (T, k) float32."""

    x: np.ndarray
    expert: np.ndarray
    weight: np.ndarray

    @staticmethod
    def read(path, layer):
        """From the file of a request."""
        words = np.fromfile(path, "<u4")
        t, h, k = layer.tokens, layer.hidden, layer.top_k
        x, expert, weight = np.split(words, (t * h, t * (h + k)))
        return Inputs(x.view("<f4").reshape(t, h), expert.view("<i4").reshape(t, k), weight.view("<f4").reshape(t, k))


def serve(peer):
    """Answer requests until standard input ends.

    Args:
        peer: has `offer()`, `prepare(row, layer)`, `run(row, inputs) -> (seconds, y)`, `weights(row)` (an iterator over
            the float32 arrays of the file, in its order) and `release(row)`. `prepare` may raise `Unsupported`.
    """
    layers = {}
    answer_lines(lambda request: _answer(peer, layers, request))


def answer_lines(answer):
    """Answer each request, a JSON line of standard input, until that ends.

    Args:
        answer: gives the object to answer a request with; it may raise `Unsupported`.
    """
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    for line in sys.stdin:
        try:
            found = {"ok": answer(json.loads(line))}
        except Unsupported as reason:
            found = {"unsupported": str(reason)}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def end_with_parent():
    """Linux: end when the bench does, even while it has this process stopped and the end of its input goes unseen."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, prctl(2)


def _answer(peer, layers, request):
    row = request.get("row")
    match request["do"]:
        case "offer":
            return peer.offer()
        case "prepare":
            layers[row] = Layer(**request["layer"])
            return peer.prepare(row, layers[row])
        case "run":
            seconds, y = peer.run(row, Inputs.read(request["inputs"], layers[row]))
            if request["outputs"]:
                np.ascontiguousarray(y, "<f4").tofile(request["outputs"])
            return {"seconds": seconds}
        case "weights":
            with Path(request["into"]).open("wb") as file:
                for part in peer.weights(row):
                    np.ascontiguousarray(part, "<f4").tofile(file)
            return {}
        case "release":
            peer.release(row)
            return {}
    raise ValueError(f"unknown request {request['do']!r}")
