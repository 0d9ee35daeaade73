"""Measure checkpoints on the held-out bytes and write ``results.json``; the first is the shipped one.

    python data/tiny_moe/evaluate.py data/tiny_moe/checkpoint data/tiny_moe/runs/seed0 data/tiny_moe/runs/seed2

Per checkpoint: held-out bits per byte of both domains; per layer the total variation between the two
domains' shares of routes, of the trained model and of an untrained control with the same configuration
and seed; per layer the effective number of experts.  Beside them, gzip -9 on the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from corpus import CORPUS_DIR, DOMAINS, HELDOUT_BYTES, HERE, Bytes, load, write_atomically
from model import chosen_experts, forward, new_model
from transformers import OlmoeForCausalLM

# The figures to reach, of a five-minute recipe, and the ratio that "clearly more" means.
TARGET_BITS_PER_BYTE = {"text": 2.09, "code": 1.91}
TARGET_TV_RATIO = 1.5
# 256 is the length that the target figures were measured at; 1,024 is the model's whole context.
LENGTHS = (256, 1024)
ROUTING_LENGTH = 256
BATCH_BYTES = 16384

Shares = npt.NDArray[np.float64]


def windows(data: Bytes, length: int) -> torch.Tensor:
    """Adjacent windows that overlap by the one byte a prediction needs: ids [rows, length + 1]."""
    rows = (len(data) - 1) // length
    starts = np.arange(rows)[:, None] * length  # [rows, 1]
    return torch.from_numpy(data[starts + np.arange(length + 1)].astype(np.int64))


@torch.no_grad()
def read_heldout(model: OlmoeForCausalLM, heldout: Bytes, length: int) -> tuple[float, Shares]:
    """Bits per byte over all windows of ``length``, and the experts' shares of the routes.

    Each window starts with an empty context.  The shares are [2, layers, E]: per half of the held-out
    bytes and layer, each expert's share of that layer's routes.
    """
    top_k = model.config.num_experts_per_tok
    ids = windows(heldout, length)  # [rows, length + 1]
    nats = 0.0
    halves = []
    for half in torch.chunk(ids, 2):
        counts = torch.zeros(model.config.num_hidden_layers, model.config.num_experts)
        for batch in torch.split(half, BATCH_BYTES // length):
            logits, router_logits = forward(model, batch[:, :-1])  # [rows, length, 256], layers x [T, E]
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
            nats += loss.item()
            counts += torch.stack([chosen_experts(layer, top_k) for layer in router_logits])
        halves.append((counts / counts.sum(dim=-1, keepdim=True)).double().numpy())
    return nats / (len(ids) * length) / float(np.log(2)), np.stack(halves)


def total_variation(a: Shares, b: Shares) -> Shares:
    """Half the summed absolute difference of two distributions [..., E]: 0 equal, 1 disjoint; [...]."""
    return np.asarray(0.5 * np.abs(a - b).sum(axis=-1))


def effective_experts(shares: Shares) -> Shares:
    """Exponential of the entropy of [..., E]: how many equally loaded experts would spread so; [...]."""
    logs = np.log(np.maximum(shares, 1e-300))
    return np.asarray(np.exp(-(shares * logs).sum(axis=-1)))


def rounded(values: Shares) -> list[float]:
    """Four decimals, for a file that people read."""
    return [round(float(value), 4) for value in values]


def routing(halves: dict[str, Shares]) -> dict[str, list[float]]:
    """Per layer: total variation between and within the domains, and effective experts.

    ``halves`` holds each domain's shares [2, layers, E].
    """
    text, code = (halves[domain].mean(axis=0) for domain in DOMAINS)  # [layers, E]
    return {
        "tv_text_code": rounded(total_variation(text, code)),
        # What two halves of one domain differ by: the part of the distance that is no specialisation.
        "tv_within_text": rounded(total_variation(*halves["text"])),
        "tv_within_code": rounded(total_variation(*halves["code"])),
        "effective_experts_mixed": rounded(effective_experts((text + code) / 2)),
        "effective_experts_text": rounded(effective_experts(text)),
        "effective_experts_code": rounded(effective_experts(code)),
    }


def measure(directory: Path, heldout: dict[str, Bytes]) -> dict[str, Any]:
    """All figures of one checkpoint and of its untrained control."""
    training = json.loads((directory / "training.json").read_text())
    model = OlmoeForCausalLM.from_pretrained(directory, dtype=torch.float32).train(False)
    control = new_model(training["recipe"]["seed"]).train(False)
    bits: dict[str, dict[str, float]] = {domain: {} for domain in DOMAINS}
    shares: dict[int, dict[str, Shares]] = {length: {} for length in LENGTHS}
    for domain in DOMAINS:
        for length in LENGTHS:
            value, shares[length][domain] = read_heldout(model, heldout[domain], length)
            bits[domain][str(length)] = round(value, 4)
    trained_routing = routing(shares[ROUTING_LENGTH])
    control_routing = routing({domain: read_heldout(control, heldout[domain], ROUTING_LENGTH)[1] for domain in DOMAINS})
    trained_tv = np.array(trained_routing["tv_text_code"])
    ratio = trained_tv / np.array(control_routing["tv_text_code"])
    result = {
        "recipe": training["recipe"],
        "training_seconds": training["seconds"],
        "bits_per_byte": bits,
        "trained": trained_routing,
        "control": control_routing,
        "tv_ratio": rounded(ratio),
        "layers_at_target_ratio": int((ratio >= TARGET_TV_RATIO).sum()),
    }
    print(json.dumps(result, indent=2), flush=True)
    return result


def over_seeds(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Per layer, the mean total variation over all runs, trained and control, and the ratio of the means."""
    trained, control = (
        np.array([run[kind]["tv_text_code"] for run in runs]).mean(axis=0) for kind in ("trained", "control")
    )  # [layers] each
    ratio = trained / control
    return {
        "trained_tv": rounded(trained),
        "control_tv": rounded(control),
        "tv_ratio": rounded(ratio),
        "layers_at_target_ratio": int((ratio >= TARGET_TV_RATIO).sum()),
    }


def gzip_bits_per_byte(heldout: Bytes) -> float:
    """``gzip -9`` on the same bytes, without a name or time in its header."""
    return 8 * len(gzip.compress(heldout.tobytes(), 9, mtime=0)) / len(heldout)


def main() -> None:
    """Measure every checkpoint of the command line and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoints", type=Path, nargs="+", help="folders that train.py wrote")
    parser.add_argument("--corpus", type=Path, default=CORPUS_DIR, help="folder that corpus.py filled")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    heldout = {domain: load(domain, arguments.corpus).heldout for domain in DOMAINS}
    shipped = arguments.checkpoints[0]
    weights = [path for path in shipped.iterdir() if path.is_file()]
    runs = [measure(directory, heldout) for directory in arguments.checkpoints]
    results = {
        "heldout_bytes": HELDOUT_BYTES,
        "parameters": OlmoeForCausalLM.from_pretrained(shipped).num_parameters(),
        "checkpoint_bytes": sum(path.stat().st_size for path in weights),
        "target_bits_per_byte": TARGET_BITS_PER_BYTE,
        "target_tv_ratio": TARGET_TV_RATIO,
        "gzip_bits_per_byte": {domain: round(gzip_bits_per_byte(heldout[domain]), 4) for domain in DOMAINS},
        "shipped_seed": runs[0]["recipe"]["seed"],
        "over_seeds": over_seeds(runs),
        "runs": runs,
    }
    write_atomically(arguments.out, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
