# SPDX-License-Identifier: MIT
"""Stable-Baselines3: NumPy arrays, sampled into PyTorch tensors; and this repository's buffer in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpureplay
import numpy as np
from gpureplay import sb3
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl
from workloads import STACK, Schema, step_of

from .base import Adapter, Rows, Saving, Settings

ONCE = {"optimize_memory_usage": True, "handle_timeout_termination": False}  # the first requires the second


def _box(shape: tuple[int, ...], dtype: np.dtype) -> spaces.Box:
    low, high = (0, 255) if dtype.kind == "u" else (-np.inf, np.inf)
    return spaces.Box(low, high, shape, dtype.type)


class Sb3(Adapter):
    name, package = "sb3", "stable-baselines3"
    as_used = ("ReplayBuffer(..., n_envs=chunk): one transition is given as a Gymnasium environment's step returned "
               "it, `done` and `infos` made before the clock runs; many at once are one step of so many environments, "
               "as it has no other call for many. It keeps actions as int64, and done and time-out as two float32, of "
               "which a sample gives one column, terminated: five tensors, not six. Random numbers of NumPy's global "
               "generator. Rows in host memory always, samples on the device.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        np.random.seed(settings.seed)
        self._buffer = self.make(_box(*schema.fields["obs"]), spaces.Discrete(2**31 - 1))

    def options(self) -> dict[str, Any]:
        """Of the buffer, beside those."""
        return {}

    def make(self, observations: spaces.Box, actions: spaces.Discrete) -> Any:
        """The buffer."""
        return ReplayBuffer(self.capacity, observations, actions, self.settings.device, n_envs=self.chunk,
                            **self.options())

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        return "" if "obs" in schema.fields else "its rows are observation, action, reward, next observation and done"

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        if self.schema.envs > 1:
            return self.many(step)
        cut = step["truncated"] and not step["terminated"]
        infos = [{"TimeLimit.truncated": True}] if cut else [{}]
        done = step["terminated"] or step["truncated"]
        return step["obs"], step["next_obs"], step["action"], step["reward"], done, infos

    def many(self, rows: Rows) -> Any:
        cut = rows["truncated"] & ~rows["terminated"]
        infos = [{"TimeLimit.truncated": True} if one else {} for one in cut]
        done = rows["terminated"] | rows["truncated"]
        return rows["obs"], rows["next_obs"], rows["action"], rows["reward"], done, infos

    def add(self, transition: Any) -> None:
        self._buffer.add(*transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.add(*transitions)

    def fill(self, rows: Rows) -> None:
        columns = self.many(rows)
        for start in range(0, len(columns[0]), self.chunk):
            self._buffer.add(*(column[start:start + self.chunk] for column in columns))

    def sample(self, count: int) -> Any:
        sampled = self._buffer.sample(count)
        return sampled.observations, sampled.actions, sampled.rewards, sampled.next_observations, sampled.dones

    def read(self, sampled: Any) -> Rows:
        names = ("obs", "action", "reward", "next_obs", "terminated")
        return {name: tensor.cpu().numpy() for name, tensor in zip(names, sampled)}

    def expected(self, rows: Rows) -> Rows:
        return {name: array for name, array in rows.items() if name != "truncated"}


class Sb3Frames(Sb3):
    kind = "frames"


class Sb3DropIn(Sb3):
    kind = "drop-in"


class Sb3Once(Sb3):
    kind = "once"
    as_used = ("ReplayBuffer(..., optimize_memory_usage=True, handle_timeout_termination=False), of which the "
               "first requires the second: an episode's last observation is overwritten, and time limits count as "
               "ends.")

    def options(self) -> dict[str, Any]:
        return ONCE


class Sb3Files(Saving, Sb3):
    as_used = "`save_to_pkl` and `load_from_pkl`, as `save_replay_buffer` calls them: pickle; no checksum, no fsync."

    def save(self) -> None:
        save_to_pkl(self.folder / "replay.pkl", self._buffer)

    def load(self, folder: Path) -> None:
        self._buffer = load_from_pkl(folder / "replay.pkl")


class OursDropIn(Sb3):
    kind = "drop-in"
    name = package = "gpureplay"
    as_used = ("gpureplay.sb3.ReplayBuffer, given what Stable-Baselines3's is given; samples on the device. Steps "
               "are checked for NaN.")

    @classmethod
    def version(cls) -> str:
        return gpureplay.__version__

    def make(self, observations: spaces.Box, actions: spaces.Discrete) -> Any:
        return sb3.ReplayBuffer(self.capacity, observations, actions, self.settings.device, n_envs=self.chunk,
                                seed=self.settings.seed, **self.options())

    def close(self) -> None:
        self._buffer.close()


class OursOnce(OursDropIn):
    kind = "once"
    as_used = ("gpureplay.sb3.ReplayBuffer(..., optimize_memory_usage=True): episodes are followed, their last "
               "observations stored, time limits distinguished from ends.")

    def options(self) -> dict[str, Any]:
        return {"optimize_memory_usage": True}


class Loop:
    """Of loops.py."""

    def __init__(self, case: Any):
        if case.prioritized:
            raise ValueError("it has no samples by priority")
        images = case.shape == STACK
        self._buffer = ReplayBuffer(case.capacity * case.envs,
                                    _box(case.shape, np.dtype(np.uint8 if images else np.float32)),
                                    spaces.Discrete(4), "cpu", n_envs=case.envs, **(ONCE if images else {}))
        self._infos: list[dict[str, Any]] = [{} for _ in range(case.envs)]

    def add(self, step: Rows) -> None:
        self._buffer.add(step["obs"], step["next_obs"], step["action"], step["reward"],
                         step["terminated"] | step["truncated"], self._infos)

    def sample(self, batch: int) -> Any:
        return self._buffer.sample(batch), None


ADAPTERS = (OursDropIn, OursOnce, Sb3, Sb3Frames, Sb3DropIn, Sb3Once, Sb3Files)
