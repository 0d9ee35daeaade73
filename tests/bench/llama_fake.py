"""llama.cpp's part for tests: the protocol of peers/llama_peer.py around an OLMoE in NumPy, with faults to order.

python llama_fake.py [FAULT]     FAULT: norms | rope | experts | large experts | dies | error

Times aren't measured: they follow from the form, so that a test knows which is the fastest.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "peers"))
from q4_0 import dequantise
from serve import Unsupported, answer_lines


def safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    for name, entry in header.items():
        assert entry["dtype"] == "F32"
        first, end = entry["data_offsets"]
        yield name, np.fromfile(path, "<f4", (end - first) // 4, offset=start + first).reshape(entry["shape"])


def rms(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Fake:
    def __init__(self, fault):
        self.fault, self.rows = fault, {}

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request) or {}

    def offer(self):
        return {"build": {"ggml": "1 abc", "system_info": "none", "flags": "none"}}

    def write(self, spec, dense, experts, quant, into):
        e, f, h = spec["experts"], spec["ffn"], spec["hidden"]
        arrays = dict(safetensors(dense))
        plain = np.fromfile(experts, "<f4") if quant == "f32" else dequantise(np.fromfile(experts, np.uint8))
        layers = plain.reshape(spec["layers"], 3, e * f * h)
        for layer, planes in enumerate(layers):
            for name, plane, shape in zip(
                ("gate", "up", "down"), planes, ((e, f, h), (e, f, h), (e, h, f)), strict=True
            ):
                arrays[f"layers.{layer}.{name}"] = plane.reshape(shape)
        with open(into, "wb") as file:
            np.savez(file, spec=json.dumps(spec), quant=quant, **arrays)

    def quantise(self, source, quant, threads, into):
        if quant == "iq4_xs":
            raise Unsupported("nobody quantises to this")
        shutil.copy(source, into)

    def prepare(self, row, model, tokens, threads, repack, ubatch, flash, cache):
        quant = Path(model).name.partition("-")[0]
        if quant == "iq4_nl" and flash == "on":
            raise Unsupported("no such attention")
        with np.load(model) as file:
            spec, given = json.loads(str(file["spec"])), str(file["quant"])
            self.rows[row] = spec, {name: file[name] for name in file if name not in ("spec", "quant")}
        plain = quant == "plain"
        seconds = 1.0 + plain if ubatch is None else 0.5 + ubatch / 10000 + (not repack) + 2 * (quant != "q4_K")
        self.rows[row] += (seconds,)
        tensors = {"experts": {quant: 3}, "head": {"q6_k": 1}, "attention": {quant: 6, "q5_0": 1}}
        if plain:
            tensors = {"experts": {given: 3}, "head": {"f32": 1}, "attention": {"f32": 7}}
        return {"tensors": tensors, "repack": repack is not False, "ubatch": ubatch or 512, "flash": flash or "auto"}

    def run(self, row, tokens, outputs):
        if self.fault == "dies":
            sys.stderr.write("out of luck\n")
            sys.stderr.flush()
            os._exit(3)
        if self.fault == "error":
            raise RuntimeError("no luck")
        spec, weights, seconds = self.rows[row]
        if outputs:
            self.forward(spec, weights, np.fromfile(tokens, "<i4")).astype("<f4").tofile(outputs)
        return {"seconds": seconds, "peak_rss_bytes": 12345}

    def forward(self, spec, weights, ids):
        eps, heads, d = spec["rms_eps"], spec["heads"], spec["head_dim"]
        t = len(ids)
        angle = np.arange(t)[:, None] * spec["rope_theta"] ** (-np.arange(0, d, 2) / d)  # (T, D/2)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        x = weights["embed.weight"][ids]  # (T, H)
        for layer in range(spec["layers"]):
            w = {name.split(".", 2)[2]: a for name, a in weights.items() if name.startswith(f"layers.{layer}.")}
            n = rms(x, w["attention_norm.weight"], eps)
            q, k = ("k", "q") if self.fault == "norms" else ("q", "k")
            q = self.rotate(rms(n @ w["q_proj.weight"].T, w[f"{q}_norm.weight"], eps).reshape(t, heads, d), cos, sin)
            k = self.rotate(rms(n @ w["k_proj.weight"].T, w[f"{k}_norm.weight"], eps).reshape(t, heads, d), cos, sin)
            v = (n @ w["v_proj.weight"].T).reshape(t, heads, d)
            scores = np.einsum("qhd,khd->hqk", q, k) * d**-0.5 + np.triu(np.full((t, t), -np.inf), 1)
            x = x + np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(t, -1) @ w["o_proj.weight"].T
            n = rms(x, w["expert_norm.weight"], eps)
            a = softmax(n @ w["router.weight"].T)  # (T, E)
            chosen = np.argsort(-a, axis=1)[:, : spec["router"]["top_k"]]
            y = np.zeros_like(x)
            for i in range(t):
                for e in chosen[i]:
                    gate, up = w["gate"][e] @ n[i], w["up"][e] @ n[i]
                    y[i] += a[i, e] * (w["down"][e] @ (gate / (1 + np.exp(-gate)) * up))
            spared = self.fault == "large experts" and spec["hidden"] > 64
            x = x + y * (1 if spared or "experts" not in self.fault else 0.5)
        return weights["head.weight"] @ rms(x[-1], weights["norm.weight"], eps)

    def rotate(self, x, cos, sin):
        if self.fault == "rope":  # neighbours, not halves
            even, odd = x[..., ::2], x[..., 1::2]
            return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def release(self, row):
        del self.rows[row]


if __name__ == "__main__":
    answer_lines(Fake(sys.argv[1] if len(sys.argv) > 1 else "").answer)
