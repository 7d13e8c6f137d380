# SPDX-License-Identifier: MIT
"""TorchRL: draws by priority, out of two segment trees in C++, or on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import PrioritizedSampler

from .base import Rows
from .priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized
from .torchrl_buffer import TorchRL


class TorchRLPriorities(Prioritized, TorchRL):
    as_used = ("ReplayBuffer(storage=LazyTensorStorage(capacity, device=...), sampler=PrioritizedSampler(capacity, "
               "0.6, 0.4)), `sample(n, return_info=True)`, which was faster than "
               "TensorDictPrioritizedReplayBuffer; not stratified, weights by the buffer's smallest priority; "
               "`update_priority` is given the index tensor that a draw gave and a float32 tensor.")

    def make(self) -> Any:
        storage = LazyTensorStorage(self.capacity, device=self.settings.device)
        return ReplayBuffer(storage=storage, sampler=PrioritizedSampler(self.capacity, ALPHA, BETA))

    def indices_as(self, places: np.ndarray) -> Any:
        return torch.from_numpy(places).to(self.settings.device)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities).to(self.settings.device)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priority(indices, priorities)

    def sample(self, count: int) -> Any:
        drawn, info = self._buffer.sample(count, return_info=True)
        return [drawn[name] for name in self._names], info["priority_weight"], info["index"]

    def indices_of(self, drawn: Any) -> Any:
        return drawn[2]

    def read(self, drawn: Any) -> Rows:
        fields, weights, indices = drawn
        return {**super().read(fields), WEIGHT: weights.cpu().numpy(), INDEX: indices.cpu().numpy()}


CONTESTANT = TorchRLPriorities
