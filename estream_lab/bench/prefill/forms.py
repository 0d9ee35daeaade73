"""The forms in which llama.cpp runs the model: the committed sweep that its fastest row is looked for in."""

from dataclasses import dataclass
from itertools import product

QUANTS = ("q4_0", "q4_1", "q4_K", "iq4_nl", "iq4_xs", "mxfp4")
"""Every four-bit file that llama.cpp's quantiser makes for every sizes of experts, its own mixture for each."""

MICRO_BATCHES = (128, 512, 1024)


@dataclass(frozen=True)
class Form:
    """How llama.cpp runs; None is what it does by itself.

    Attributes:
        quant: of the file.
        repack: weights are kept in a form of the processor's own.
        ubatch: tokens that go through the layers together.
        flash: attention in one pass, "on" or "off".
        cache: "f32" where keys and values are not to be rounded to fp16.
        dense: "f32" where only the experts are quantised, in a file that llama.cpp's quantiser has not been over.
    """

    quant: str
    repack: bool | None = None
    ubatch: int | None = None
    flash: str | None = None
    cache: str | None = None
    dense: str | None = None

    @property
    def name(self) -> str:
        """For a table."""
        if self.ubatch is None:
            return f"{self.quant} by default" if self.dense is None else f"{self.quant} experts, {self.dense} dense"
        return f"{self.quant}{' repacked' * bool(self.repack)}, {self.ubatch} tokens, flash {self.flash}"

    @property
    def default(self) -> bool:
        """Whether everything but the file is left to llama.cpp."""
        return (self.repack, self.ubatch, self.flash, self.cache, self.dense) == (None,) * 5


DEFAULT = Form("q4_0")

SAME_WEIGHTS = Form("q4_0", dense="f32")
"""Every weight has the value that it has in our rows: what llama.cpp's logits may be held to."""


def sweep() -> list[Form]:
    """llama.cpp's default, and quantisation x repack x micro-batch x flash attention; a model's forms lie together."""
    choices = product(QUANTS, (True, False), MICRO_BATCHES, ("on", "off"))
    return [DEFAULT, *(Form(*choice) for choice in choices)]
