# SPDX-License-Identifier: MIT
"""This repository's buffer, by its Python package."""

from __future__ import annotations

from typing import Any

import gpureplay
import numpy as np
from workloads import Schema

from .base import Adapter, Rows, Settings, python_step


STEP = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


class Ours(Adapter):
    package = "gpureplay"
    as_used = ("ReplayBuffer(capacity, fields, device=...), all else by default; `add` is given what an "
               "environment's step returned, by the keywords that a training loop writes, `extend` NumPy arrays; "
               "`sample` gives NumPy arrays on the CPU, device arrays (waited for) on CUDA, where what is added comes "
               "from host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._device = gpureplay.Device(settings.device, threads=settings.threads)
        self._buffer = gpureplay.ReplayBuffer(capacity, dict(schema.fields), device=self._device, seed=settings.seed)
        self._names, self._on_cuda = tuple(schema.fields), self._device.is_cuda
        if self._names == STEP:
            self.add = self._add_step  # type: ignore[method-assign]

    @classmethod
    def version(cls) -> str:
        return gpureplay.__version__

    def one(self, rows: Rows) -> Any:
        step = python_step(rows)
        return tuple(step.values()) if self._names == STEP else step

    def many(self, rows: Rows) -> Any:
        return rows

    def add(self, transition: Any) -> None:
        self._buffer.add(**transition)

    def _add_step(self, transition: Any) -> None:
        obs, action, reward, next_obs, terminated, truncated = transition
        self._buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                         truncated=truncated)

    def extend(self, transitions: Any) -> None:
        self._buffer.extend(**transitions)

    def finish(self) -> None:
        self._buffer.flush()
        self._device.sync()

    def sample(self, count: int) -> Any:
        batch = self._buffer.sample(count)
        arrays = [getattr(batch, name) for name in self._names]
        if self._on_cuda:
            batch.wait()
        return arrays

    def read(self, drawn: Any) -> Rows:
        return {name: np.asarray(array) for name, array in zip(self._names, drawn)}

    def close(self) -> None:
        self._buffer.close()
        self._device.close()


CONTESTANT = Ours
