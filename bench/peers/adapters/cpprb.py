# SPDX-License-Identifier: MIT
"""cpprb: a ring of NumPy arrays with a core in C++, always in host memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cpprb
import numpy as np
from workloads import STACK, Schema, step_of

from .base import (ALPHA, BETA, GAMMA, INDEX, STEPS, WEIGHT, Adapter, Prioritized, Returns, Rows, Saving, Settings,
                   add_by_keywords)


class Cpprb(Adapter):
    name = package = "cpprb"
    devices = ("cpu",)
    as_used = ("cpprb.ReplayBuffer(capacity, env_dict), without next_of and stack_compress, which save memory and "
               "not time; `add` by written-out keywords with what a Gymnasium environment's step returned, or with "
               "many; random numbers of NumPy's global generator. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        np.random.seed(settings.seed)
        fields = {name: {"shape": shape or 1, "dtype": dtype} for name, (shape, dtype) in schema.fields.items()}
        self._buffer = self.make(fields)
        self._names = tuple(schema.fields)
        self.add = self.extend = add_by_keywords(self._buffer, self._names)

    def make(self, fields: dict[str, Any]) -> Any:
        """The buffer."""
        return cpprb.ReplayBuffer(self.capacity, fields)

    def one(self, rows: Rows) -> Any:
        return tuple(step_of(self.schema, rows).values())

    def many(self, rows: Rows) -> Any:
        return tuple(rows.values())

    def sample(self, count: int) -> Any:
        sampled = self._buffer.sample(count)
        return [sampled[name] for name in self._names]

    def read(self, sampled: Any) -> Rows:
        return dict(zip(self._names, sampled))


class CpprbPriorities(Prioritized, Cpprb):
    as_used = ("cpprb.PrioritizedReplayBuffer(capacity, env_dict, alpha=0.6), `sample(n, beta=0.4)`: stratified, "
               "weights by the buffer's smallest priority; `update_priorities` is given the indexes that a sample gave "
               "and float32. Always in host memory.")

    def make(self, fields: dict[str, Any]) -> Any:
        return cpprb.PrioritizedReplayBuffer(self.capacity, fields, alpha=ALPHA)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        return self._buffer.sample(count, beta=BETA)

    def sampled_indices(self, sampled: Any) -> Any:
        return sampled["indexes"]

    def read(self, sampled: Any) -> Rows:
        return {**{name: sampled[name] for name in self._names}, WEIGHT: sampled["weights"], INDEX: sampled["indexes"]}


class CpprbTrees(CpprbPriorities):
    kind = "trees"


class CpprbFrames(Cpprb):
    kind = "frames"
    as_used = ("cpprb.ReplayBuffer(capacity, env_dict, next_of=\"obs\", stack_compress=\"obs\"): next_obs is stored "
               "once, too; `on_episode_end` after an episode's last step. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self.add = self._step

    def make(self, fields: dict[str, Any]) -> Any:
        fields = {name: field for name, field in fields.items() if name != "next_obs"}
        return cpprb.ReplayBuffer(self.capacity, fields, next_of="obs", stack_compress="obs")

    def _step(self, values: Any) -> None:
        step = dict(zip(self._names, values))
        self._buffer.add(**step)
        if step["terminated"]:
            self._buffer.on_episode_end()

    def fill(self, rows: Rows) -> None:
        for i in range(len(rows["reward"])):
            self._step([array[i] for array in rows.values()])


class CpprbReturns(Returns, CpprbPriorities):
    as_used = ("cpprb.PrioritizedReplayBuffer(capacity, env_dict, alpha=0.6, Nstep={size: 3, gamma: 0.5}); "
               "`terminated` is called `done`, as it wants; `on_episode_end` after an episode's last step. Of an "
               "episode's last transitions 11.0.0 gives other next_obs, and done not in all that end there: the two "
               "are not compared. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self.add = self._step

    def make(self, fields: dict[str, Any]) -> Any:
        fields = {("done" if name == "terminated" else name): field for name, field in fields.items()}
        returns = {"size": STEPS, "gamma": GAMMA, "rew": "reward", "next": "next_obs"}
        return cpprb.PrioritizedReplayBuffer(self.capacity, fields, alpha=ALPHA, Nstep=returns)

    def _step(self, values: Any) -> None:
        obs, action, reward, next_obs, done, truncated = values
        self._buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, done=done, truncated=truncated)
        if done:
            self._buffer.on_episode_end()

    def expected(self, rows: Rows) -> Rows:
        return {name: array for name, array in super().expected(rows).items() if name not in ("next_obs", "terminated")}

    def read(self, sampled: Any) -> Rows:
        return super().read({**sampled, "terminated": sampled["done"]})


class CpprbFiles(Saving, Cpprb):
    as_used = "`save_transitions` and `load_transitions`: NumPy's npz; no checksums but zip's own, no fsync."

    def save(self) -> None:
        self._buffer.save_transitions(str(self.folder / "replay.npz"))

    def load(self, folder: Path) -> None:
        self._buffer.clear()
        self._buffer.load_transitions(str(folder / "replay.npz"))


class Loop:
    """Of loops.py."""

    def __init__(self, case: Any):
        import torch

        kind = np.uint8 if case.shape == STACK else np.float32
        fields = {"obs": {"shape": case.shape, "dtype": kind}, "action": {"dtype": np.int64}, "reward": {},
                  "next_obs": {"shape": case.shape, "dtype": kind}, "terminated": {"dtype": bool},
                  "truncated": {"dtype": bool}}
        options = {}
        if case.shape == STACK:
            del fields["next_obs"]
            options = {"next_of": "obs", "stack_compress": "obs"}
        make = cpprb.PrioritizedReplayBuffer if case.prioritized else cpprb.ReplayBuffer
        self._buffer, self._tensor = make(case.capacity, fields, **options), torch.from_numpy
        self._options = {"beta": 0.4} if case.prioritized else {}

    def add(self, step: Rows) -> None:
        self._buffer.add(**step)
        if step["terminated"][0]:
            self._buffer.on_episode_end()

    def sample(self, batch: int) -> Any:
        sampled = self._buffer.sample(batch, **self._options)
        indices = sampled.pop("indexes", None)
        return {name: self._tensor(array) for name, array in sampled.items()}, indices

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)


ADAPTERS = (Cpprb, CpprbPriorities, CpprbTrees, CpprbFrames, CpprbReturns, CpprbFiles)
