"""What lies between two runs: a `Change` on numbers that can be worked out by hand."""

import math

import numpy as np
import pytest

from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.runs import Run, change, flips

WINDOWS = (Window(np.array([0, 0, 1], np.int32), 4.0), Window(np.array([0, 1, 1], np.int32), 4.0))  # 4 tokens, 8 bytes


def run(*odds: float, experts: tuple[int, int] = (0, 1)) -> Run:
    """Of two tokens, the first is so many times likelier than the second, position by position."""
    z = np.log(np.array([[odd, 1] for odd in odds], np.float32)) + 1  # (4, 2)
    chosen = np.tile(np.array(experts, np.int32), (2, 2, 1))  # (L, n, k)
    return Run((z[:2], z[2:]), (chosen, np.zeros_like(chosen)))


def test_a_run_against_itself_changes_nothing() -> None:
    same = change(run(1, 2, 3, 4), run(1, 2, 3, 4), WINDOWS)
    assert same.layer_flips == (0, 0)
    assert {value for key, value in vars(same).items() if key != "layer_flips"} == {0}


def test_costs_are_compared_token_by_token() -> None:
    found = change(run(3, 1, 1, 1), run(1, 1, 1, 1), WINDOWS)
    gained = math.log2(3 / 4 / (1 / 2))  # the first token, from 1/2 to 3/4
    assert found.delta_bits_per_byte == pytest.approx(-gained / 8)
    spread = np.std([-gained, 0, 0, 0], ddof=1) / 2  # of the mean of four
    assert found.standard_error == pytest.approx(spread * 4 / 8)
    assert found.perplexity_percent == pytest.approx(100 * (2 ** (-gained / 4) - 1))
    assert found.perplexity_error == pytest.approx(100 * 2 ** (-gained / 4) * math.log(2) * spread)
    assert found.divergence_bits == pytest.approx((0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(0.5 / 0.25)) / 4)


def test_the_error_of_logits_is_relative_to_the_reference() -> None:
    found = change(run(2, 2, 2, 4), run(2, 2, 2, 2), WINDOWS)
    assert found.logits_error == pytest.approx(math.log(2) / math.sqrt(4 * ((math.log(2) + 1) ** 2 + 1)))


def test_flips_are_counted_in_their_layer_and_their_share_is_of_all_routes() -> None:
    mine, reference = run(1, 1, 1, 1), run(1, 1, 1, 1)
    mine.experts[0][1, 0] = (0, 7)
    found = change(mine, reference, WINDOWS)
    assert found.layer_flips == (0, 1) and found.flip_share == 1 / 16


def test_routes_that_swap_places_are_no_flips() -> None:
    one = np.array([[[1, 2], [3, 4]]], np.int32)  # (L, n, k)
    other = np.array([[[2, 1], [3, 5]]], np.int32)
    assert flips(one, other).tolist() == [1]
