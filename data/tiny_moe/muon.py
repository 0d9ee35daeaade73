"""Muon for the weight matrices, AdamW for everything else.

Muon (Jordan et al., 2024) replaces a matrix's momentum by its nearest orthogonal matrix, found by five
Newton-Schulz steps, so that all directions of the matrix learn at the same pace.
"""

from __future__ import annotations

import torch
from transformers import OlmoeForCausalLM

# Quintic Newton-Schulz coefficients of the reference implementation: steepest slope at zero for which
# singular values still end near one.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Nearest semi-orthogonal matrix, roughly, of each of ``matrices`` [..., rows, columns]."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # [..., short, long]
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT  # [..., short, short]
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: torch.Tensor = x.mT if tall else x
    return result


class Muon:
    """Momentum, orthogonalised per matrix, with decoupled weight decay."""

    def __init__(self, weights: list[tuple[torch.nn.Parameter, int]], momentum: float, decay: float) -> None:
        """``weights`` pairs each parameter [..., rows, columns] with how many matrices its rows stack."""
        self.weights = weights
        self.momentum = momentum
        self.decay = decay
        self.averages = [torch.zeros_like(weight) for weight, _ in weights]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update every weight from its ``.grad`` at learning rate ``rate`` and drop the gradient."""
        for (weight, stacked), average in zip(self.weights, self.averages, strict=True):
            assert weight.grad is not None
            average.lerp_(weight.grad, 1 - self.momentum)
            nesterov = weight.grad.lerp(average, self.momentum)
            rows, columns = weight.shape[-2] // stacked, weight.shape[-1]
            update = orthogonalize(nesterov.reshape(-1, rows, columns)).view_as(weight)
            weight.mul_(1 - rate * self.decay)
            # Tall matrices get a larger step, so that the change of the output keeps its size.
            weight.add_(update, alpha=-rate * max(1.0, rows / columns) ** 0.5)
            weight.grad = None


class Optimizer:
    """Both optimizers behind one learning rate, that of AdamW; Muon's is ``MUON_FACTOR`` times it."""

    MUON_FACTOR = 5.0

    def __init__(self, model: OlmoeForCausalLM) -> None:
        matrices: list[tuple[torch.nn.Parameter, int]] = []
        others: list[torch.nn.Parameter] = []
        for name, weight in model.named_parameters():
            # Embedding, output and router rows are per token or expert, not a linear map's directions.
            per_row = any(part in name for part in ("embed_tokens", "lm_head", "mlp.gate."))
            if weight.ndim >= 2 and not per_row:
                matrices.append((weight, 2 if name.endswith("gate_up_proj") else 1))
            else:
                others.append(weight)
        self.parameters = [*(weight for weight, _ in matrices), *others]
        self.muon = Muon(matrices, momentum=0.95, decay=0.05)
        self.adamw = torch.optim.AdamW(others, lr=1.0, betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, rate: float) -> None:
        """Clip the gradient to norm 1, update all parameters, and clear the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.muon.step(self.MUON_FACTOR * rate)
        for group in self.adamw.param_groups:
            group["lr"] = rate
        self.adamw.step()
        self.adamw.zero_grad()
