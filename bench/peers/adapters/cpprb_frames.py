# SPDX-License-Identifier: MIT
"""cpprb, each frame of a stack kept once."""

from __future__ import annotations

from typing import Any

import cpprb
from workloads import Schema

from .base import Rows, Settings
from .cpprb_buffer import Cpprb


class CpprbFrames(Cpprb):
    as_used = ("cpprb.ReplayBuffer(capacity, env_dict, next_of=\"obs\", stack_compress=\"obs\"): next_obs is kept "
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


CONTESTANT = CpprbFrames
