# SPDX-License-Identifier: MIT
"""This repository's buffer, by its Python package."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import gpureplay
import numpy as np
from gpureplay import _accelerator
from workloads import STACK, Schema, step_of

from .base import (ALPHA, BETA, GAMMA, INDEX, MAX_ROWS, STEPS, WEIGHT, Adapter, Prioritized, Returns, Rows, Saving,
                   Sequences, Settings, add_by_keywords)

MAX_FRAMES = 512  # rows of a sample of stacks


class Ours(Adapter):
    name = package = "gpureplay"
    as_used = ("ReplayBuffer(capacity, fields, num_envs=..., device=...), all else by default; `add` is given what a "
               "Gymnasium environment's step returned, by written-out keywords, `extend` a dict of NumPy arrays; "
               "`sample` gives NumPy arrays on the CPU, device arrays on CUDA, where what is added comes "
               "from host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        library = self.library()
        self._device = library.Device(settings.device, threads=settings.threads)
        self._buffer = library.ReplayBuffer(capacity, dict(schema.fields), num_envs=schema.envs, device=self._device,
                                            seed=settings.seed, **self.options())
        self._names = tuple(schema.fields)
        self.add = add_by_keywords(self._buffer, self._names)

    @staticmethod
    def library() -> Any:
        return gpureplay

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

    def read(self, sampled: Any) -> Rows:
        return {name: np.asarray(array) for name, array in zip(self._names, sampled)}

    def close(self) -> None:
        self._buffer.close()
        self._device.close()


class OursPriorities(Prioritized, Ours):
    as_used = ("ReplayBuffer(capacity, fields, prioritized=True, alpha=0.6, beta=0.4, max_batch=65536), stratified, "
               "weights by the batch's largest; `update_priorities` is given the ids that a sample gave and float32; "
               "on CUDA tensors of PyTorch's on the device.")

    def options(self) -> dict[str, Any]:
        return {"prioritized": True, "alpha": ALPHA, "beta": BETA, "max_batch": self.max_rows}

    def indices_of_slots(self, slots: np.ndarray) -> np.ndarray:
        """Ids: the newest of each slot."""
        newest = self._buffer.stats.appended - 1
        return newest - (newest - slots) % self.capacity

    def _on_device(self, array: np.ndarray) -> Any:
        """An update takes indices and priorities from one memory, and a sample's ids lie on the device."""
        if not self.on_cuda:
            return array
        import torch

        return torch.from_numpy(array).to(self.settings.device)

    def indices_as(self, indices: np.ndarray) -> Any:
        return self._on_device(indices.astype(np.int64))

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return self._on_device(priorities)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        batch = self._buffer.sample(count)
        return [getattr(batch, name) for name in self._names], batch.weights, batch.indices

    def sampled_indices(self, sampled: Any) -> Any:
        return sampled[2]

    def read(self, sampled: Any) -> Rows:
        fields, weights, indices = sampled
        return {**super().read(fields), WEIGHT: np.asarray(weights), INDEX: np.asarray(indices)}


class OursTrees(OursPriorities):
    kind = "trees"


class OursReturns(Returns, OursPriorities):
    as_used = ("ReplayBuffer(capacity, fields, prioritized=True, alpha=0.6, beta=0.4, max_batch=65536, n_step=3, "
               "gamma=0.5): each step is checked to follow the one before.")

    def options(self) -> dict[str, Any]:
        return {**super().options(), "n_step": STEPS, "gamma": GAMMA}


class OursFrames(Ours):
    kind = "frames"
    as_used = ("ReplayBuffer(capacity, fields, layout=\"frames\", frame_stack=4, stack_axis=\"last\", "
               "stack_pad=\"repeat\"); `add` is given whole stacks, obs and next_obs.")

    def options(self) -> dict[str, Any]:
        return {"layout": "frames", "frame_stack": 4, "stack_axis": "last", "stack_pad": "repeat",
                "max_batch": min(MAX_FRAMES, self.capacity // 2)}

    def fill(self, rows: Rows) -> None:
        for i in range(len(rows["reward"])):
            self._buffer.add(**{name: array[i] for name, array in rows.items()})


class OursFiles(Saving, Ours):
    as_used = ("`save` and `load`: one file with checksums, written beside the old one, flushed to the disk (fsync) "
               "and renamed; with the state of the samples; read twice, to be checked before anything changes.")

    def save(self) -> None:
        self._buffer.save(self.folder / "replay.safetensors")

    def load(self, folder: Path) -> None:
        self._buffer.load(folder / "replay.safetensors")


class OursWithExtension(Ours):
    kind = "extension"

    @staticmethod
    def library() -> Any:
        if _accelerator.fast is None:
            raise RuntimeError("the extension module is not loaded: build the package with it, and unset "
                               "GPUREPLAY_FAST")
        return gpureplay


class OursOut(OursWithExtension):
    name, kind, as_used = "out=batch", "extension", "as gpureplay, with `sample(count, out=batch)`"
    _batch: Any = None

    def sample(self, count: int) -> Any:
        fits = self._batch is not None and len(self._batch) == count
        self._batch = batch = self._buffer.sample(count, out=self._batch) if fits else self._buffer.sample(count)
        return [getattr(batch, name) for name in self._names]


class OursByCtypes(Ours):
    name, kind, as_used = "by ctypes", "extension", "a second copy of the package, with GPUREPLAY_FAST=off"

    @staticmethod
    @functools.cache
    def library() -> Any:
        name, folder = "gpureplay_by_ctypes", Path(gpureplay.__file__).parent
        spec = importlib.util.spec_from_file_location(name, folder / "__init__.py",
                                                      submodule_search_locations=[str(folder)])
        assert spec is not None and spec.loader is not None
        sys.modules[name] = package = importlib.util.module_from_spec(spec)
        with mock.patch.dict(os.environ, GPUREPLAY_FAST="off"):
            spec.loader.exec_module(package)
        return package


class Loop:
    """Of loops.py."""

    def __init__(self, case: Any):
        images = case.shape == STACK
        obs = (case.shape, "uint8" if images else "float32")
        fields = {"obs": obs, "action": "int64", "reward": "float32", "next_obs": obs, "terminated": "bool",
                  "truncated": "bool"}
        options: dict[str, Any] = {"prioritized": True} if case.prioritized else {}
        if images:
            options.update(frame_stack=4, layout="frames", stack_axis="last", stack_pad="repeat")
        self._buffer = gpureplay.ReplayBuffer(case.capacity, fields, num_envs=case.envs, device="cpu",
                                              autoreset="disabled", **options)

    def add(self, step: Rows) -> None:
        self._buffer.add(**step)
        if step["terminated"][0]:
            self._buffer.reset()

    def sample(self, batch: int) -> Any:
        sampled = self._buffer.sample(batch)
        return sampled.torch(), sampled.indices

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)


class OursSequences(Sequences, Ours):
    as_used = ("ReplayBuffer(capacity, fields, sequences=True), `extend` for the steps of one environment, "
               "`sample_sequences(count, 100)`.")

    def options(self) -> dict[str, Any]:
        return {"sequences": True, "max_batch": min(MAX_ROWS, self.capacity // 2)}

    def sample(self, count: int) -> Any:
        batch = self._buffer.sample_sequences(count, self.length)
        return [getattr(batch, name) for name in self._names]


ADAPTERS = (Ours, OursSequences, OursPriorities, OursTrees, OursFrames, OursReturns, OursFiles, OursWithExtension,
            OursOut, OursByCtypes)
