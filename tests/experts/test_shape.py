"""Record classes: the published sizes, and what is refused."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts import ExpertShape, RecordClass

# models.md, "W_e, bytes": hidden, FFN, bytes
PUBLISHED = {
    "OLMoE-1B-7B": (2048, 1024, 3_538_944),
    "LFM2-8B-A1B": (2048, 1792, 6_193_152),
    "DeepSeek-V2-Lite": (2048, 1408, 4_866_048),
    "Qwen3-30B-A3B": (2048, 768, 2_654_208),
    "Mixtral-8x7B": (4096, 14336, 99_090_432),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_record_sizes(model: str) -> None:
    hidden, ffn, expert_bytes = PUBLISHED[model]
    record = RecordClass.of(ExpertShape(hidden, ffn, ("q4-32x32",) * 3))
    assert record.expert_bytes == expert_bytes == record.stride  # whole pages: padding wastes nothing


def test_small_records_are_padded_to_a_page() -> None:
    record = RecordClass.of(ExpertShape(192, 128, ("q4-32x32",) * 3))
    assert record.expert_bytes == 3 * 192 * 128 * 18 // 32 and record.stride == 45_056


def test_json_round_trip_and_contradictions() -> None:
    record = RecordClass.of(ExpertShape(64, 32, ("f32", "f32", "q4-32x32")))
    assert RecordClass.from_json(record.to_json()) == record
    with pytest.raises(EStreamError, match="contradict"):
        RecordClass.from_json(record.to_json() | {"down_bytes": 7})
    with pytest.raises(EStreamError, match="damaged"):
        RecordClass.from_json({"shape": {"hidden": 64}})


@pytest.mark.parametrize(("hidden", "ffn"), [(0, 32), (48, 32), (64, -32)])
def test_sizes_that_are_no_multiple_of_32_are_refused(hidden: int, ffn: int) -> None:
    with pytest.raises(EStreamError, match="multiple of 32"):
        ExpertShape(hidden, ffn, ("f32",) * 3)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(EStreamError, match="unknown expert layout 'q5'"):
        ExpertShape(64, 32, ("f32", "q5", "f32"))
