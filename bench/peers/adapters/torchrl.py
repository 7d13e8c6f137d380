# SPDX-License-Identifier: MIT
"""TorchRL: tensors in one TensorDict, on the device that is asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl._torchrl import MinSegmentTreeFp32, SumSegmentTreeFp32
from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, SliceSampler
from workloads import Schema

from .base import ALPHA, BETA, INDEX, WEIGHT, Adapter, Prioritized, Rows, Saving, Sequences, Settings

logging.getLogger("torchrl").setLevel(logging.WARNING)  # it logs each storage


class TorchRL(Adapter):
    name = package = "torchrl"
    as_used = ("TensorDictReplayBuffer(storage=LazyTensorStorage(capacity, device=...)), uniform; `add`, and `extend` "
               "for many and for a step of several environments, are given TensorDicts with flat keys, made before the "
               "clock runs. A sample returns its index beside the fields.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
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
        sampled = self._buffer.sample(count)
        return [sampled[name] for name in self._names]

    def read(self, sampled: Any) -> Rows:
        return {name: tensor.cpu().numpy() for name, tensor in zip(self._names, sampled)}


class TorchRLFrames(TorchRL):
    kind = "frames"


class TorchRLPriorities(Prioritized, TorchRL):
    as_used = ("ReplayBuffer(storage=LazyTensorStorage(capacity, device=...), sampler=PrioritizedSampler(capacity, "
               "0.6, 0.4)), `sample(n, return_info=True)`, which was faster than "
               "TensorDictPrioritizedReplayBuffer; not stratified, weights by the buffer's smallest priority; "
               "`update_priority` is given the index tensor that a sample gave and a float32 tensor.")

    def make(self) -> Any:
        storage = LazyTensorStorage(self.capacity, device=self.settings.device)
        return ReplayBuffer(storage=storage, sampler=PrioritizedSampler(self.capacity, ALPHA, BETA))

    def indices_as(self, indices: np.ndarray) -> Any:
        return torch.from_numpy(indices).to(self.settings.device)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities).to(self.settings.device)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priority(indices, priorities)

    def sample(self, count: int) -> Any:
        sampled, info = self._buffer.sample(count, return_info=True)
        return [sampled[name] for name in self._names], info["priority_weight"], info["index"]

    def sampled_indices(self, sampled: Any) -> Any:
        return sampled[2]

    def read(self, sampled: Any) -> Rows:
        fields, weights, indices = sampled
        return {**super().read(fields), WEIGHT: weights.cpu().numpy(), INDEX: indices.cpu().numpy()}


class TorchRLTrees(Prioritized):
    kind = "trees"
    name = package = "torchrl"
    devices = ("cpu",)
    as_used = ("SumSegmentTreeFp32 and MinSegmentTreeFp32 of torchrl._torchrl with tensors, as PrioritizedSampler uses "
               "them, and no buffer around: `scan_lower_bound` of uniform numbers, `pow` for weights; `pow` and both "
               "trees' items for an update. Nothing is gathered: a row is its index. On the CPU.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        torch.manual_seed(settings.seed)
        self._sum, self._min, self._given = SumSegmentTreeFp32(capacity), MinSegmentTreeFp32(capacity), 0

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        return "" if tuple(schema.fields) == (schema.tag,) else "trees have no rows"

    def one(self, rows: Rows) -> Any:
        return len(rows[self.schema.tag])

    many = one

    def add(self, transition: int) -> None:
        self.extend(transition)

    def extend(self, transitions: int) -> None:
        slots = torch.arange(self._given, self._given + transitions) % self.capacity
        self._given += transitions
        self._sum[slots] = self._min[slots] = torch.ones(transitions)

    def indices_as(self, indices: np.ndarray) -> Any:
        return torch.from_numpy(indices)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities)

    def update(self, indices: Any, priorities: Any) -> None:
        power = torch.pow(priorities, ALPHA)
        self._sum[indices] = power
        self._min[indices] = power

    def sample(self, count: int) -> Any:
        mass = torch.rand(count) * self._sum.query(0, self.capacity)
        index = self._sum.scan_lower_bound(mass).clamp_max_(self.capacity - 1)
        return index, torch.pow(self._sum[index] / self._min.query(0, self.capacity), -BETA)

    def sampled_indices(self, sampled: Any) -> Any:
        return sampled[0]

    def read(self, sampled: Any) -> Rows:
        """The tag that would be there."""
        slots, newest = sampled[0].numpy(), self._given - 1
        tags = newest - (newest - slots) % self.capacity
        return {self.schema.tag: tags.astype(np.float32), WEIGHT: sampled[1].numpy(), INDEX: slots}


class TorchRLSequences(Sequences, TorchRL):
    as_used = ("TensorDictReplayBuffer(storage=LazyTensorStorage(capacity, device=...), sampler=SliceSampler("
               "slice_len=100, end_key=\"terminated\", cache_values=True)): episodes are looked for once, and not "
               "after each step that is added; `sample(100 count)`.")

    def make(self) -> Any:
        sampler = SliceSampler(slice_len=self.length, end_key="terminated", truncated_key=None, cache_values=True)
        return TensorDictReplayBuffer(storage=LazyTensorStorage(self.capacity, device=self.settings.device),
                                      sampler=sampler)

    def sample(self, count: int) -> Any:
        return super().sample(count * self.length)


class TorchRLFiles(Saving, TorchRL):
    as_used = "`dumps` and `loads`: a folder of memory-mapped files, one a field; no checksum, no fsync."

    def save(self) -> None:
        self._buffer.dumps(self.folder / "replay")

    def load(self, folder: Path) -> None:
        self._buffer.loads(folder / "replay")


class Loop:
    """Of loops.py."""

    def __init__(self, case: Any):
        storage = LazyTensorStorage(case.capacity)
        self._prioritized, self._envs = case.prioritized, case.envs
        self._buffer = ReplayBuffer(storage=storage, sampler=PrioritizedSampler(case.capacity, 0.6, 0.4)) \
            if case.prioritized else TensorDictReplayBuffer(storage=storage)

    def add(self, step: Rows) -> None:
        tensors = {name: torch.from_numpy(array) for name, array in step.items()}
        self._buffer.extend(TensorDict(tensors, batch_size=[self._envs]))

    def sample(self, batch: int) -> Any:
        if not self._prioritized:
            return self._buffer.sample(batch), None
        sampled, info = self._buffer.sample(batch, return_info=True)
        return sampled, info["index"]

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priority(indices, torch.from_numpy(priorities))


ADAPTERS = (TorchRL, TorchRLFrames, TorchRLSequences, TorchRLPriorities, TorchRLTrees, TorchRLFiles)
