"""Build the goldens: what transformers computes for fixed prompts, against which the engine is tested without torch.

    .venv-oracle/bin/python oracle/build_goldens.py

One command; run it again whenever data/tiny_moe/checkpoint changes. It writes, into tests/goldens (or --out):

    random_olmoe/                    a seeded random checkpoint, saved by transformers (oracle/random_olmoe.py)
    {random_olmoe,tiny_moe}.{f32,q4_0}.npz

of the two models, with expert weights as they are ("f32") and after a round trip through Q4_0 ("q4_0"). Prompts are
cut from data/tiny_moe/heldout; every model reads bytes. P prompts of together N tokens, L layers, k routes a token;
arrays of an npz:

    provenance     JSON: versions, seeds, checkpoint's SHA-256 by file
    tokens         uint8 (N,)           all prompts end to end
    lengths        int32 (P,)
    domains        str (P,)             "text" or "code"
    positions      int32 (M,)           where logits are recorded, counted within the prompt
    position_counts int32 (P,)          how many of them each prompt has
    logits         float32 (M, V)
    ids, weights   uint8, float32 (L, N, k)   every route, in the router's order
    tie_layer, tie_token, tie_margin    int32, int32, float32: tokens (counted over all prompts) whose k-th and (k+1)-th
                                        router logits differ by less than 1e-5
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from random_olmoe import SEED, save
from reference import Forward, forward, load

ROOT = Path(__file__).resolve().parent.parent
HELDOUT = ROOT / "data" / "tiny_moe" / "heldout"
SHIPPED = ROOT / "data" / "tiny_moe" / "checkpoint"
MODELS = ("random_olmoe", "tiny_moe")
MODES = ("f32", "q4_0")
# Around the kernels' block sizes, and the whole context for both domains.
LENGTHS = (1, 2, 3, 17, 31, 32, 33, 64, 100, 255, 512, 1024, 1024, 200)
# Where the first prompt starts in its held-out file, and the distance to the next. Chosen so that no route of any
# golden hangs on a router difference of less than SAFE: a BLAS of another machine then chooses the same experts.
START, STRIDE = 1400, 4000
SAFE = 5e-6
ALL_POSITIONS_UP_TO = 33
SPREAD_POSITIONS = 24
TIE = 1e-5


@dataclass(frozen=True)
class Prompt:
    """`tokens` uint8 (T,), bytes of one domain's held-out file."""

    domain: str
    tokens: np.ndarray

    @property
    def positions(self) -> np.ndarray:
        """Where logits are recorded: everywhere in a short prompt, else spread, first and last included."""
        length = len(self.tokens)
        count = length if length <= ALL_POSITIONS_UP_TO else SPREAD_POSITIONS
        return np.linspace(0, length - 1, count).round().astype(np.int32)


def prompts() -> Iterator[Prompt]:
    """One prompt for each of LENGTHS, domains alternating, cut from places that no two prompts share."""
    for number, length in enumerate(LENGTHS):
        domain = ("text", "code")[number % 2]
        content = (HELDOUT / f"{domain}.txt").read_bytes()
        start = START + number * STRIDE
        yield Prompt(domain, np.frombuffer(content[start : start + length], np.uint8))


def checksums(checkpoint: Path) -> dict[str, str]:
    """SHA-256 of every file that decides what the model computes."""
    files = [file for file in sorted(checkpoint.iterdir()) if file.name == "config.json" or "safetensors" in file.name]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def margins(router_logits: np.ndarray, top_k: int) -> np.ndarray:
    """(L, T): by how much the last chosen expert's router logit exceeds the first that wasn't chosen."""
    ordered = np.sort(router_logits, axis=-1)  # ascending
    return ordered[..., -top_k] - ordered[..., -top_k - 1]


def golden(checkpoint: Path, mode: str) -> dict[str, np.ndarray]:
    """The arrays of one npz."""
    model = load(checkpoint, mode)
    asked = list(prompts())
    answers: list[Forward] = [forward(model, prompt.tokens) for prompt in asked]
    ids = np.concatenate([answer.ids for answer in answers], axis=1)
    margin = np.concatenate([margins(answer.router_logits, ids.shape[-1]) for answer in answers], axis=1)
    tie_layer, tie_token = np.nonzero(margin < TIE)
    logits = np.concatenate([answer.logits[prompt.positions] for answer, prompt in zip(answers, asked, strict=True)])
    provenance = {
        "mode": mode,
        "checkpoint_sha256": checksums(checkpoint),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "attention": "eager",
        "experts": "eager",
        "threads": 1,
        "random_olmoe_seed": SEED,
        "logit_std": round(float(logits.std()), 4),
        "smallest_margin": float(margin.min()),
    }
    return {
        "provenance": np.array(json.dumps(provenance, indent=1)),
        "tokens": np.concatenate([prompt.tokens for prompt in asked]),
        "lengths": np.array([len(prompt.tokens) for prompt in asked], np.int32),
        "domains": np.array([prompt.domain for prompt in asked]),
        "positions": np.concatenate([prompt.positions for prompt in asked]),
        "position_counts": np.array([len(prompt.positions) for prompt in asked], np.int32),
        "logits": logits.astype(np.float32),
        "ids": ids.astype(np.uint8),
        "weights": np.concatenate([answer.weights for answer in answers], axis=1).astype(np.float32),
        "tie_layer": tie_layer.astype(np.int32),
        "tie_token": tie_token.astype(np.int32),
        "tie_margin": margin[tie_layer, tie_token].astype(np.float32),
    }


def build(out: Path, models: tuple[str, ...] = MODELS, shipped: Path = SHIPPED) -> None:
    """Write the goldens of the named models into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name in models:
        checkpoint = shipped if name == "tiny_moe" else out / name
        if name == "random_olmoe":
            save(checkpoint)
        if not (checkpoint / "config.json").exists():
            raise SystemExit(f"{checkpoint} holds no checkpoint: name the shipped one with --shipped")
        for mode in MODES:
            arrays = golden(checkpoint, mode)
            np.savez_compressed(out / f"{name}.{mode}.npz", **arrays)
            sys.stdout.write(f"{name} {mode}: {arrays['provenance']}\n{len(arrays['tie_layer'])} near ties\n")
            if (arrays["tie_margin"] < SAFE).any():
                sys.stdout.write(f"a route hangs on less than {SAFE}: move START and build again\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "goldens")
    parser.add_argument("--model", choices=MODELS, action="append", help="only this model (may be given twice)")
    parser.add_argument("--shipped", type=Path, default=SHIPPED, help="folder of the shipped checkpoint")
    options = parser.parse_args()
    build(options.out, tuple(options.model or MODELS), options.shipped)


if __name__ == "__main__":
    main()
