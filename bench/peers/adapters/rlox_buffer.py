# SPDX-License-Identifier: MIT
"""rlox: a ring in Rust, of float32 vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import rlox
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings

_NAMES = {"obs": "obs", "action": "actions", "reward": "rewards", "next_obs": "next_obs", "terminated": "terminated",
          "truncated": "truncated"}


class Rlox(Adapter):
    package, devices = "rlox", ("cpu",)
    as_used = ("ReplayBuffer(capacity, obs_dim, act_dim=1); `push` for one transition, `push_batch` of flat arrays "
               "for many and for a step of several environments. It keeps actions as float32 and is given such, made "
               "before the clock runs; the flags of many as uint8. Each draw is given the next seed. Always "
               "in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._seed = settings.seed
        self._buffer = rlox.ReplayBuffer(capacity, int(np.prod(schema.fields["obs"][0])), 1)
        self._push = self._buffer.push_batch if schema.envs > 1 else self._buffer.push

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        obs = schema.fields.get("obs")
        if obs is None:
            return "its rows are observation, action, reward, next observation, terminated and truncated"
        return "" if obs[1] == np.float32 else f"it keeps observations as float32 only, not as {obs[1]}"

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        if self.schema.envs > 1:
            return self.many(step)
        action = np.full(1, step["action"], np.float32)
        return step["obs"], action, step["reward"], step["terminated"], step["truncated"], step["next_obs"]

    def many(self, rows: Rows) -> Any:
        flags = rows["terminated"].view(np.uint8), rows["truncated"].view(np.uint8)
        action = rows["action"].astype(np.float32)
        return rows["obs"].ravel(), rows["next_obs"].ravel(), action, rows["reward"], *flags

    def add(self, transition: Any) -> None:
        self._push(*transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.push_batch(*transitions)

    names = tuple(_NAMES.values())

    def sample(self, count: int) -> Any:
        self._seed += 1
        drawn = self._buffer.sample(count, self._seed)
        return [drawn[name] for name in self.names]

    def read(self, drawn: Any) -> Rows:
        return dict(zip(_NAMES, drawn))


CONTESTANT = Rlox
