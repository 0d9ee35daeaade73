"""All switches on is the device's arithmetic, all off is float64, and each of them does what it says and no more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.exact import PROFILES, ExactOperator, switches
from estream_lab.kernels.exact.switches import STORED, Switches, Weights, switched_bank
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

H, F, T, SLOTS = 64, 96, 9, 3
F32, F64 = NDArray[np.float32], NDArray[np.float64]
OFF = Switches()
ALONE = {
    "decode": Switches(decode=True),
    "operands": Switches(operands=True),
    "accumulator": Switches(accumulator=STORED),
    "silu": Switches(silu=True),
    "scatter": Switches(scatter="visit"),
}


class Bank:
    """A bank of three experts, the second without records, and records that name a token twice."""

    def __init__(self, scale: float = 1.0) -> None:
        rng = np.random.default_rng(3)
        sizes = ((F, H), (F, H), (H, F))
        floats = [[rng.standard_normal(s).astype(np.float32) / np.float32(8) for s in sizes] for _ in range(SLOTS)]
        self.floats = [(a, b, c) for a, b, c in floats]
        self.quantised = [tuple(quantise_q4_0(w) for w in expert) for expert in floats]
        self.x = (rng.standard_normal((T, H)) * scale).astype(np.float32)
        self.offsets = np.array([0, 7, 7, 16], np.int64)
        self.token = np.array([0, 0, 2, 3, 4, 6, 8, *range(9)], np.int32)
        self.weight = rng.random(16, np.float32)
        self.y = rng.standard_normal((T, H)).astype(np.float32)

    def run(self, on: Switches, experts: Any = None) -> F32:
        y = self.y.copy()
        chosen: list[tuple[Weights, Weights, Weights] | None] = list(experts or self.quantised)
        chosen[1] = None
        switched_bank(self.x, y, self.offsets, self.token, self.weight, chosen, on)
        return y

    def device(self, profile: str) -> F32:
        planes = [[pack_q4_32x32(*projection) for projection in expert] for expert in self.quantised]
        at = np.cumsum([0, *(len(plane) for expert in planes for plane in expert)])[:-1].reshape(SLOTS, 3)
        gate, up, down = (np.ascontiguousarray(column, np.int64) for column in at.T)
        arena, y = np.concatenate([plane for expert in planes for plane in expert]), self.y.copy()
        operator = ExactOperator(H, F, 16, profile, 1 << 20)
        operator(self.x, y, self.offsets, self.token, self.weight, arena, gate, up, down)
        return y

    def oracle(self) -> NDArray[np.float64]:
        """float64, one record after the other."""
        y = self.y.astype(np.float64)
        for slot in range(SLOTS):
            gate, up, down = (dequantise_q4_0(*w).astype(np.float64) for w in self.quantised[slot])
            for i in range(self.offsets[slot], self.offsets[slot + 1]):
                x = self.x[self.token[i]].astype(np.float64)
                g, u = gate @ x, up @ x
                y[self.token[i]] += float(self.weight[i]) * (down @ (g / (1 + np.exp(-g)) * u))
        return y


@pytest.mark.parametrize("scale", [1.0, 3e3, 1e6])
@pytest.mark.parametrize("profile", PROFILES)
def test_all_on_is_the_device_bit_for_bit(profile: str, scale: float) -> None:
    """Also where activations leave the range of fp16."""
    bank = Bank(scale)
    assert bank.run(Switches.device(profile)).tobytes() == bank.device(profile).tobytes()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "missing", [{"accumulator": STORED}, {"silu": False}, {"scatter": None}, {"scatter": "reverse"}]
)
def test_a_device_with_one_step_missing_is_another(profile: str, missing: dict[str, Any]) -> None:
    """The comparison above tells: a switch without effect, and records in the wrong order.

    (Without `decode` and `operands` a profile is refused; what they do alone is below.)
    """
    bank = Bank()
    assert bank.run(replace(Switches.device(profile), **missing)).tobytes() != bank.device(profile).tobytes()


def test_all_off_is_float64_rounded_once() -> None:
    bank = Bank()
    exact = bank.oracle()
    rounded = exact.astype(np.float32)
    found = bank.run(OFF)
    assert (found == rounded).mean() > 0.999  # sums in another order may fall on the other side of a middle
    assert np.abs(found - exact).max() <= np.spacing(np.abs(rounded)).max()


@pytest.mark.parametrize("name", ALONE)
def test_each_switch_alone_changes_something(name: str) -> None:
    bank = Bank()
    off, on = bank.run(OFF), bank.run(ALONE[name])
    error = np.linalg.norm(on - off) / np.linalg.norm(off)
    low, high = (1e-9, 1e-6) if name == "scatter" else (1e-6, 1e-3)
    assert low < error < high


def test_quantising_is_what_packing_does() -> None:
    bank = Bank()
    for on in (OFF, Switches.device("hmx_v75_g8")):
        assert bank.run(replace(on, quantise=True), bank.floats).tobytes() == bank.run(on).tobytes()
    error = np.linalg.norm(bank.run(OFF, bank.floats) - bank.run(OFF)) / np.linalg.norm(bank.run(OFF))
    assert 0.01 < error < 0.3


def test_decoding_floats_rounds_them_to_fp16() -> None:
    bank = Bank()
    halves = [tuple(w.astype(np.float16).astype(np.float32) for w in expert) for expert in bank.floats]
    assert bank.run(Switches(decode=True), bank.floats).tobytes() == bank.run(OFF, halves).tobytes()
    assert bank.run(Switches(decode=True), bank.floats).tobytes() != bank.run(OFF, bank.floats).tobytes()


def test_the_scatter_order_matters_from_three_terms_on() -> None:
    """y, and two records of token 0 in one slot and a third in another."""
    bank = Bank()
    visit, reverse = (bank.run(Switches(scatter=order)) for order in ("visit", "reverse"))  # type: ignore[arg-type]
    assert (visit[0] != reverse[0]).any()
    np.testing.assert_array_equal(visit[1], reverse[1])  # y and one record
    bank.y[:] = 0
    visit, reverse = (bank.run(Switches(scatter=order)) for order in ("visit", "reverse"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(visit[2], reverse[2])  # two records: a sum of two doesn't depend on their order
    assert (visit[0] != reverse[0]).any()


def test_what_overflows_saturates_where_fp16_is_on() -> None:
    bank = Bank(1e6)
    off = np.abs(bank.run(OFF)).max()
    assert off > 1e9
    for on in (Switches(operands=True), Switches(accumulator=STORED)):
        assert np.abs(bank.run(on)).max() < off / 10


@pytest.mark.parametrize("missing", ["decode", "operands"])
def test_a_profile_without_its_operands_is_refused(missing: str) -> None:
    with pytest.raises(EStreamError, match="multiplies fp16 numbers: switch decode and operands on"):
        replace(Switches.device("ieee_fp32"), **{missing: False})  # type: ignore[arg-type]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(EStreamError, match="no numerics profile 'hmx'"):
        Switches(decode=True, operands=True, accumulator="hmx")
    with pytest.raises(EStreamError, match="no scatter order 'random'"):
        Switches(scatter="random")  # type: ignore[arg-type]


def test_names_tell_what_is_on() -> None:
    assert OFF.names == ()
    assert Switches.device("ieee_fp32").names == ("decode", "operands", "ieee_fp32", "silu", "scatter visit")


def test_bad_input_is_refused() -> None:
    bank = Bank()
    bank.x[0, 0] = np.inf
    with pytest.raises(ValueError, match="finite"):
        bank.run(OFF)
    bank.offsets[1] = 6
    bank.x[0, 0] = 0
    with pytest.raises(ValueError, match="slot 1 has records and no expert"):
        bank.run(OFF)
    with pytest.raises(ValueError, match="2 experts for 3 slots"):
        bank.run(OFF, bank.quantised[:2])
    assert bank.y.tobytes() == Bank().y.tobytes()


def sums(a: F64, b: F64) -> F64:
    """The plain version of `float64_sums`: k ascending, each product rounded, then each sum."""
    out = np.zeros((len(a), len(b)))
    for k in range(a.shape[1]):
        out = out + a[:, k : k + 1] * b[:, k]  # (M, 1) * (N,)
    return out


NUMBERS = st.one_of(
    st.floats(-1e100, 1e100),  # some products are lost beside others, none overflows
    st.floats(-1e-150, 1e-150),  # products below the normal numbers, and below all
    st.sampled_from([0.0, -0.0, 1.0, 1 + 2**-52, -1 - 2**-52, 2.0**27 + 1, 5e-324]),
)


@st.composite
def factors(draw: st.DrawFn) -> tuple[F64, F64]:
    rows, columns, depth = (draw(st.integers(1, most)) for most in (3, 5, 9))
    a, b = (draw(arrays(np.float64, (n, depth), elements=NUMBERS)) for n in (rows, columns))
    return a, b


@given(factors())
@example((np.array([[1 + 2**-52, 1.0]]), np.array([[1 - 2**-52, -1.0]])))  # 0, and not 0 where they are fused
@example((np.array([[1e100, 1.0, -1e100]]), np.ones((2, 3))))  # 0 in this order, 1 in others
@example((np.array([[-1.0]]), np.array([[0.0]])))  # 0 - 0 is +0
def test_sums_are_the_plain_ones_bit_for_bit(drawn: tuple[F64, F64]) -> None:
    a, b = drawn
    assert switches.float64_sums(a, b).tobytes() == sums(a, b).tobytes()
    strided = np.repeat(np.asfortranarray(a), 2, axis=1)[:, ::2]
    assert switches.float64_sums(strided, b).tobytes() == sums(a, b).tobytes()


def test_long_sums_are_the_plain_ones_too() -> None:
    """Long enough for vectors of every width, with a rest."""
    rng = np.random.default_rng(5)
    for rows, columns, depth in ((1, 67, 129), (5, 129, 67)):
        a, b = (rng.standard_normal((n, depth)) * np.exp2(rng.integers(-30, 30, (n, depth))) for n in (rows, columns))
        assert switches.float64_sums(a, b).tobytes() == sums(a, b).tobytes()
        assert switches.float64_sums(a, b).tobytes() != sums(a[:, ::-1], b[:, ::-1]).tobytes()


def test_experts_are_asked_for_in_turn_and_once() -> None:
    bank, asked = Bank(), []

    class Told(list[Any]):
        def __getitem__(self, slot: Any) -> Any:
            asked.append(slot)
            return super().__getitem__(slot)

    chosen, y = Told(bank.quantised), bank.y.copy()
    switched_bank(bank.x, y, bank.offsets, bank.token, bank.weight, chosen, OFF)
    assert asked == [0, 2] and y.tobytes() == bank.run(OFF).tobytes()


def test_half_rounds_to_even_and_saturates() -> None:
    found = switches.to_half(np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519.99, 65520, -1e9]))
    assert list(found) == [1, 1 + 2**-9, 65504, 65504, -65504]
