"""Train the small MoE for a fixed number of steps from a fixed seed and save an ordinary checkpoint.

    python data/tiny_moe/corpus.py                                   # once
    python data/tiny_moe/train.py --seed 0 --out data/tiny_moe/runs/seed0

Each step sees 4,096 bytes, half of each domain.  Every fourth step uses rows of 1,024 bytes, so that
all positions are trained; the others use rows of 256, which cost less attention.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from corpus import CORPUS_DIR, DOMAINS, Bytes, load
from model import balance_loss, forward, new_model, route_distances, z_loss
from muon import Optimizer
from tokenizer import byte_tokenizer
from transformers import OlmoeForCausalLM


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights besides the corpora and the library versions."""

    seed: int = 0
    steps: int = 600
    batch_bytes: int = 4096
    short_length: int = 256
    long_length: int = 1024
    long_every: int = 4
    rate: float = 4e-3  # AdamW's peak; Muon's is five times it
    warmup_steps: int = 50
    decay_power: float = 0.7
    balance: float = 0.01  # weight of the per-layer load-balancing loss
    z: float = 1e-4  # weight of the router z-loss
    threads: int = 1  # the order of float sums depends on it


def learning_rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then a power of the remaining share of the steps."""
    warmup = min(1.0, (step + 1) / recipe.warmup_steps)
    return float(recipe.rate * warmup * (1 - step / recipe.steps) ** recipe.decay_power)


def draw_batch(recipe: Recipe, step: int, train: dict[str, Bytes], random: np.random.Generator) -> torch.Tensor:
    """Random windows, the domains in turn: ids [rows, length + 1] int64, rows · length = batch bytes."""
    length = recipe.long_length if step % recipe.long_every == 0 else recipe.short_length
    rows = []
    for row in range(recipe.batch_bytes // length):
        data = train[DOMAINS[row % len(DOMAINS)]]
        start = random.integers(0, len(data) - length)
        rows.append(data[start : start + length + 1])
    return torch.from_numpy(np.stack(rows).astype(np.int64))


def train(recipe: Recipe, data: dict[str, Bytes]) -> tuple[OlmoeForCausalLM, list[dict[str, Any]]]:
    """The trained model and a log of one entry every 25 steps; prints rate and remaining time."""
    torch.set_num_threads(recipe.threads)
    model = new_model(recipe.seed)
    top_k = model.config.num_experts_per_tok
    optimizer = Optimizer(model)
    random = np.random.default_rng(recipe.seed)
    log: list[dict[str, Any]] = []
    started = time.monotonic()
    for step in range(recipe.steps):
        ids = draw_batch(recipe, step, data, random)
        logits, router_logits = forward(model, ids[:, :-1])  # [rows, length, 256], layers x [T, E]
        byte_loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        balance = balance_loss(router_logits, top_k)
        loss = byte_loss + recipe.balance * balance
        if recipe.z:
            loss = loss + recipe.z * z_loss(router_logits)
        torch.autograd.backward(loss)
        optimizer.step(learning_rate(recipe, step))
        if (step + 1) % 25 == 0 or step + 1 == recipe.steps:
            per_step = (time.monotonic() - started) / (step + 1)
            distances = route_distances(router_logits, ids.shape[1] - 1, top_k)  # rows alternate domains
            entry = {
                "step": step + 1,
                "bits_per_byte": round(byte_loss.item() / float(np.log(2)), 4),
                "balance_per_layer": round(balance.item() / len(router_logits), 4),
                "tv_text_code": [round(distance, 3) for distance in distances],
            }
            log.append(entry)
            remaining = per_step * (recipe.steps - step - 1)
            print(
                f"step {step + 1}/{recipe.steps}  {entry['bits_per_byte']:.3f} bits/byte  "
                f"balance {entry['balance_per_layer']:.3f}  tv {entry['tv_text_code']}  "
                f"{recipe.batch_bytes / per_step:,.0f} bytes/s  {remaining / 60:.1f} min left",
                flush=True,
            )
    return model, log


def save(model: OlmoeForCausalLM, record: dict[str, Any], out: Path) -> None:
    """Write a float16 checkpoint, its tokenizer and ``training.json``, whole or not at all."""
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.half().save_pretrained(partial)  # type: ignore[no-untyped-call, unused-ignore]
    byte_tokenizer().save_pretrained(partial)
    (partial / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    if out.exists():
        shutil.rmtree(out)
    os.replace(partial, out)


def parse_arguments() -> argparse.Namespace:
    """The command line; each default is the shipped recipe's."""
    default = Recipe()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--balance", type=float, default=default.balance, help="load-balancing weight")
    parser.add_argument("--z", type=float, default=default.z, help="router z-loss weight")
    parser.add_argument("--threads", type=int, default=default.threads)
    parser.add_argument("--corpus", type=Path, default=CORPUS_DIR, help="folder that corpus.py filled")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint")
    return parser.parse_args()


def main() -> None:
    """Train from the command line's recipe and save."""
    arguments = parse_arguments()
    recipe = Recipe(
        seed=arguments.seed,
        steps=arguments.steps,
        balance=arguments.balance,
        z=arguments.z,
        threads=arguments.threads,
    )
    data = {domain: load(domain, arguments.corpus).train for domain in DOMAINS}
    started = time.monotonic()
    model, log = train(recipe, data)
    record = {
        "recipe": asdict(recipe),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seconds": round(time.monotonic() - started),
        "log": log,
    }
    save(model, record, arguments.out)
    print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
