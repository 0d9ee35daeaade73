"""Made-up devices: the same from the same seed, within their ranges, and called made up."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from estream_lab.simulate.device import load_device
from estream_lab.simulate.variants import ADDED, FACTORS, GAIN, LONE_READ, drawn_device

PHONE = load_device("phone")


@given(seed=st.integers(0, 10_000))
def test_numbers_are_within_their_ranges_and_marked_assumed(seed: int) -> None:
    found = drawn_device(PHONE, seed)
    lone, both = (number.value for number in found.read_bandwidths)
    assert LONE_READ[0] <= lone / PHONE.read_bandwidths[0].value <= LONE_READ[1]
    assert GAIN[0] <= both / lone <= GAIN[1]
    for name, (least, most) in FACTORS.items():
        assert least * (1 - 1e-12) <= found[name] / PHONE[name] <= most * (1 + 1e-12)
    for name, (least, most) in ADDED.items():
        assert least <= found[name] <= most
    assert found.mark == "assumed" and found.covers("anything", 1, 1)
    drawn = (*found.read_bandwidths, *(found.numbers[name] for name in (*FACTORS, *ADDED)))
    assert all(f"seed {seed} " in number.source for number in drawn)


def test_a_seed_gives_the_same_device_and_another_another() -> None:
    one, same, other = (drawn_device(PHONE, seed) for seed in (3, 3, 4))
    assert one == same and one != other
    assert (one.name, other.name) == ("phone-3", "phone-4")
    kept = {name: number for name, number in one.numbers.items() if name not in FACTORS and name not in ADDED}
    assert kept == {name: PHONE.numbers[name] for name in kept} and "vtcm" in kept
    assert replace(one, name="phone-4").read_bandwidths != other.read_bandwidths
