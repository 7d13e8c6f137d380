# SPDX-License-Identifier: MIT
"""A replay of PyTorch tensors as FastTD3 and its like write it: each observation is stored twice, and as many
transitions of each environment are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


class TorchRing:
    """Tensors (lanes, steps, ...). Transitions of n steps are gathered as (lanes, rows, n) rewards and flags."""

    def __init__(self, lanes: int, kept: int, shapes: Mapping[str, tuple[int, ...]], gamma: float, device: str):
        """shapes: of what is stored beside the reward and the flags."""
        self._lanes, self._kept, self._gamma, self._device, self._added = lanes, kept, gamma, device, 0
        types = {**{name: (shape, torch.float32) for name, shape in {**shapes, "reward": ()}.items()},
                 "done": ((), torch.int64), "truncated": ((), torch.int64)}
        self._rings = {name: torch.zeros(lanes, kept, *shape, device=device, dtype=dtype)
                       for name, (shape, dtype) in types.items()}
        self.bytes = sum(ring.nbytes for ring in self._rings.values())

    def add(self, step: Mapping[str, Any]) -> None:
        """A step of all lanes. done: it ended an episode, for whichever reason."""
        slot = self._added % self._kept
        for name, values in step.items():
            self._rings[name][:, slot] = values
        self._added += 1

    def sample(self, rows: int, n: int = 1) -> dict[str, Any]:
        """rows: of each lane."""
        at = torch.randint(0, min(self._added, self._kept), (self._lanes, rows), device=self._device)
        return {name: self._rows(name, at) for name in self._rings} if n == 1 else self._joined(at, n)

    def _rows(self, name: str, at: Any) -> Any:
        ring = self._rings[name]
        if ring.dim() == 2:
            return torch.gather(ring, 1, at).reshape(-1)
        wide = at.unsqueeze(-1).expand(-1, -1, ring.shape[2])
        return torch.gather(ring, 1, wide).reshape(-1, ring.shape[2])

    def _joined(self, at: Any, n: int) -> dict[str, Any]:
        following = (at.unsqueeze(-1) + torch.arange(n, device=self._device)) % self._kept

        def steps_of(name: str) -> Any:
            return torch.gather(self._rings[name].unsqueeze(-1).expand(-1, -1, n), 1, following)

        reward, done, truncated = steps_of("reward"), steps_of("done"), steps_of("truncated")
        before = torch.cat([torch.zeros_like(done[..., :1]), done[..., :-1]], dim=2)
        goes_on = torch.cumprod(1.0 - before, dim=2)
        discounts = self._gamma ** torch.arange(n, device=self._device)
        ends = torch.where(done.sum(2) == 0, n - 1, (done > 0).float().argmax(2))
        cuts = torch.where(truncated.sum(2) == 0, n - 1, (truncated > 0).float().argmax(2))
        last = torch.gather(following, 2, torch.minimum(ends, cuts).unsqueeze(-1)).squeeze(-1)
        return {"obs": self._rows("obs", at), "action": self._rows("action", at),
                "reward": (reward * goes_on * discounts).sum(2).reshape(-1), "steps": goes_on.sum(2).reshape(-1),
                **{name: self._rows(name, last) for name in ("next_obs", "done", "truncated")}}
