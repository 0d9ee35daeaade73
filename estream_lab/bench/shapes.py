"""The MoE layers of the five model families, as sizes: what a bench of kernels computes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerShape:
    """One MoE layer: E experts of H x F, k of them for each token.

    Attributes:
        name: of the family.
        hidden: H. ffn: F. experts: E. top_k: k.
        alpha: concentration of the experts' popularity, see `routing.synthetic_routes`.
    """

    name: str
    hidden: int
    ffn: int
    experts: int
    top_k: int
    alpha: float

    @property
    def projections(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """(outputs, inputs) of gate, up and down."""
        return (self.ffn, self.hidden), (self.ffn, self.hidden), (self.hidden, self.ffn)

    @property
    def weights(self) -> int:
        """Weights of all experts."""
        return 3 * self.hidden * self.ffn * self.experts

    def macs(self, tokens: int) -> int:
        """Multiply-accumulate operations that `tokens` tokens ask for: nothing padded, nothing but the products."""
        return 3 * self.hidden * self.ffn * self.top_k * tokens


# Published configurations; alpha is the middle of what routing.synthetic_routes tells of each.
SHAPES = {
    shape.name: shape
    for shape in (
        LayerShape("olmoe", 2048, 1024, 64, 8, 3.5),
        LayerShape("lfm2", 2048, 1792, 32, 4, 6.0),
        LayerShape("deepseek", 2048, 1408, 64, 6, 3.0),
        LayerShape("qwen3", 2048, 768, 128, 8, 2.0),
        LayerShape("mixtral", 4096, 14336, 8, 2, 20.0),
    )
}

TOKENS = (32, 128, 256, 1024, 2048)
"""Numbers of tokens that layers are measured at."""
