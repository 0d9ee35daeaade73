"""Weights and inputs as files: the very bytes that ggml and the peers' programs read."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.bench.inputs import KINDS, Inputs
from estream_lab.bench.shapes import SHAPES, TOKENS, LayerShape
from estream_lab.bench.weights import Weights, from_q4_0_blocks, q4_0_blocks
from estream_lab.kernels.quant import quantise_q4_0

SHAPE = LayerShape("tiny", 64, 32, 4, 2, 3.0)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_blocks_are_those_of_the_gguf_package(rows: int, blocks: int, seed: int) -> None:
    w = np.random.default_rng(seed).standard_normal((rows, 32 * blocks), np.float32)
    q, d = quantise_q4_0(w)
    made = q4_0_blocks(q, d)
    assert made.tobytes() == gguf.quantize(w, gguf.GGMLQuantizationType.Q4_0).tobytes()
    q_again, d_again = from_q4_0_blocks(made, rows, 32 * blocks)
    assert np.array_equal(q, q_again) and d.tobytes() == d_again.tobytes()


def test_files_hold_distinct_experts_projection_by_projection(tmp_path: Path) -> None:
    weights = Weights.write(SHAPE, tmp_path, seed=3)
    assert weights.plain.stat().st_size == 2 * 3 * 64 * 32 * 4 and weights.blocks.stat().st_size == 2 * 3 * 64 * 18
    read = weights.of_file(weights.plain)
    plain = np.fromfile(weights.plain, "<f4").reshape(2, 3, -1)
    for expert in range(2):
        for projection, sizes in enumerate(SHAPE.projections):
            w = read(expert, projection)
            assert w.shape == sizes and w.tobytes() == plain[expert, projection].tobytes()
            q, d = weights.quantised(expert, projection)
            assert all(np.array_equal(a, b) for a, b in zip((q, d), quantise_q4_0(w), strict=True))
            error = np.linalg.norm(weights.dequantised(expert, projection) - w) / np.linalg.norm(w)
            assert 0.01 < error < 0.15
    assert not np.array_equal(read(0, 0), read(1, 0)) and not np.array_equal(read(0, 0), read(0, 1))


def test_a_layer_of_one_expert_has_one_distinct(tmp_path: Path) -> None:
    assert Weights.write(LayerShape("one", 32, 32, 1, 1, 3.0), tmp_path, seed=0).distinct == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_inputs_holds_activations_experts_and_weights(tmp_path: Path, kind: str) -> None:
    drawn = Inputs.draw(LayerShape("wide", 1024, 32, 4, 2, 3.0), 50, kind, 1, tmp_path / "inputs")
    assert drawn.path.read_bytes() == b"".join(a.tobytes() for a in (drawn.x, drawn.expert, drawn.weight))
    channels = np.sqrt((drawn.x.astype(np.float64) ** 2).mean(axis=0))
    largest, middle = channels.max(), np.median(channels)
    spread = {"gaussian": (1, 2), "lognormal": (3, 12), "outliers": (20, 40)}[kind]
    assert spread[0] < largest / middle < spread[1]


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown kind of activations 'pink'"):
        Inputs.draw(SHAPE, 2, "pink", 1, tmp_path / "inputs")


def test_the_five_families_have_their_published_sizes() -> None:
    w_e = {name: 3 * shape.hidden * shape.ffn // 32 * 18 for name, shape in SHAPES.items()}
    assert w_e == {
        "olmoe": 3538944, "lfm2": 6193152, "deepseek": 4866048, "qwen3": 2654208, "mixtral": 99090432,
    }  # fmt: skip
    assert SHAPES["olmoe"].macs(1024) == 3 * 2048 * 1024 * 8 * 1024 and TOKENS == (32, 128, 256, 1024, 2048)
    assert [SHAPES[n].experts for n in w_e] == [64, 32, 64, 128, 8] and [SHAPES[n].top_k for n in w_e] == [
        8,
        4,
        6,
        8,
        2,
    ]
