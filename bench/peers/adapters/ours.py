# SPDX-License-Identifier: MIT
"""This repository's buffer, by its Python package."""

from __future__ import annotations

from typing import Any

import gpureplay
import numpy as np
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings, add_by_keywords


class Ours(Adapter):
    package = "gpureplay"
    as_used = ("ReplayBuffer(capacity, fields, num_envs=..., device=...), all else by default; `add` is given what a "
               "Gymnasium environment's step returned, by written-out keywords, `extend` a dict of NumPy arrays; "
               "`sample` gives NumPy arrays on the CPU, device arrays on CUDA, where what is added comes "
               "from host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._device = gpureplay.Device(settings.device, threads=settings.threads)
        self._buffer = gpureplay.ReplayBuffer(capacity, dict(schema.fields), num_envs=schema.envs, device=self._device,
                                              seed=settings.seed, **self.options())
        self._names = tuple(schema.fields)
        self.add = add_by_keywords(self._buffer, self._names)

    def options(self) -> dict[str, Any]:
        """Of the buffer, beside those."""
        return {}

    @classmethod
    def version(cls) -> str:
        return gpureplay.__version__

    def one(self, rows: Rows) -> Any:
        return tuple(step_of(self.schema, rows).values())

    def many(self, rows: Rows) -> Any:
        return tuple(rows.values())

    def extend(self, transitions: Any) -> None:
        self._buffer.extend(**dict(zip(self._names, transitions)))

    def finish(self) -> None:
        self._buffer.flush()
        self._device.sync()

    def sample(self, count: int) -> Any:
        batch = self._buffer.sample(count)
        return [getattr(batch, name) for name in self._names]

    def read(self, drawn: Any) -> Rows:
        return {name: np.asarray(array) for name, array in zip(self._names, drawn)}

    def close(self) -> None:
        self._buffer.close()
        self._device.close()


CONTESTANT = Ours
