# SPDX-License-Identifier: MIT
"""TorchRL: tensors in one TensorDict, on the device that is asked for."""

from __future__ import annotations

import logging
from typing import Any

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from workloads import Schema

from .base import Adapter, Rows, Settings


class TorchRL(Adapter):
    package = "torchrl"
    as_used = ("TensorDictReplayBuffer(storage=LazyTensorStorage(capacity, device=...)), uniform; `add`, and `extend` "
               "for many and for a step of several environments, are given TensorDicts with flat keys, made before the "
               "clock runs. A draw brings its index beside the fields.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        logging.getLogger("torchrl").setLevel(logging.WARNING)  # it tells of each storage
        torch.manual_seed(settings.seed)
        self._buffer = self.make()
        self._add = self._buffer.extend if schema.envs > 1 else self._buffer.add
        self._names = tuple(schema.fields)

    def make(self) -> Any:
        """The buffer."""
        return TensorDictReplayBuffer(storage=LazyTensorStorage(self.capacity, device=self.settings.device))

    def one(self, rows: Rows) -> Any:
        step = {name: array[:self.schema.envs] for name, array in rows.items()}
        return self.many(step) if self.schema.envs > 1 else self.many(step)[0].clone()

    def many(self, rows: Rows) -> Any:
        count = len(next(iter(rows.values())))
        return TensorDict({name: torch.from_numpy(array) for name, array in rows.items()}, batch_size=[count])

    def add(self, transition: Any) -> None:
        self._add(transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.extend(transitions)

    def finish(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize()

    def sample(self, count: int) -> Any:
        drawn = self._buffer.sample(count)
        return [drawn[name] for name in self._names]

    def read(self, drawn: Any) -> Rows:
        return {name: tensor.cpu().numpy() for name, tensor in zip(self._names, drawn)}


CONTESTANT = TorchRL
