"""The grids of configurations: the paper's counts, and layers of any size."""

from hypothesis import given
from hypothesis import strategies as st

from estream_lab.tuning.grids import Configuration, configurations, group_sizes

PUBLISHED = {"LFM2.5": (32, 25), "OLMoE": (64, 53), "DeepSeek-V2-Lite": (64, 53), "Qwen3": (128, 53)}


def test_the_rule_gives_the_published_counts() -> None:
    counts = {model: len(configurations(experts)) for model, (experts, _) in PUBLISHED.items()}
    assert counts == {model: count for model, (_, count) in PUBLISHED.items()}
    assert sum(counts.values()) == 184


def test_group_sizes() -> None:
    assert group_sizes(32) == group_sizes(64) == group_sizes(16) == (4, 8, 16)
    assert group_sizes(128) == (8, 16, 32)
    assert group_sizes(10) == (4, 8)
    assert group_sizes(3) == (3,)  # no group is larger than the layer


def test_configurations_of_a_small_layer_in_order() -> None:
    assert configurations(10) == (
        Configuration(1, 1, 4), Configuration(1, 2, 4), Configuration(1, 3, 4), Configuration(2, 2, 4),
        Configuration(2, 3, 4), Configuration(1, 1, 8), Configuration(1, 2, 8), Configuration(2, 2, 8),
    )  # fmt: skip
    assert configurations(10, (5,), (2,)) == (Configuration(2, 2, 5),)


@given(experts=st.integers(1, 512))
def test_every_configuration_fits_its_layer(experts: int) -> None:
    found = configurations(experts)
    assert len(found) == len(set(found)) > 0
    for depth, banks, size in found:
        assert 1 <= depth <= banks and (banks - 1) * size < experts and size <= experts


def test_a_configuration_is_told_by_its_letters() -> None:
    assert Configuration(queue_depth=2, banks=3, group_size=8).told == "G=8 Q=2 B=3"
