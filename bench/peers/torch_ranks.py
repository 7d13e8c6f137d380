# SPDX-License-Identifier: MIT
"""Draws by priority in PyTorch, as anybody would write them: running sums of all priorities at every draw."""

from __future__ import annotations

import torch
from adapters.priorities import ALPHA, BETA


class Ranks:
    """Priorities of `rows` rows on a device, all 1 at first."""

    def __init__(self, rows: int, device: str):
        self.powers = torch.ones(rows, device=device)  # priority^ALPHA

    def draw(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """ids (count) int64, a row from each of as many equal parts of the whole, and weights (count) float32, of which
        the largest is 1."""
        sums = self.powers.cumsum(0, dtype=torch.float64)
        points = torch.arange(count, dtype=torch.float64, device=sums.device)
        points = (points + torch.rand_like(points)) * (sums[-1] / count)
        ids = torch.searchsorted(sums, points, right=True).clamp_max(len(sums) - 1)
        powers = self.powers[ids]
        return ids, (powers / powers.min())**-BETA

    def update(self, ids: torch.Tensor, priorities: torch.Tensor) -> None:
        """Of a row that is there twice one of them stays, where ours keeps the largest."""
        self.powers.index_put_((ids,), priorities**ALPHA)

    def of(self, ids: torch.Tensor) -> torch.Tensor:
        return self.powers[ids]**(1 / ALPHA)
