# SPDX-License-Identifier: MIT
"""Tasks of the control suite [Tassa et al. 2018] by dm_control, with Gymnasium's interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

if "DISPLAY" not in os.environ:  # nothing is drawn, and without a display dm_control would warn that it cannot
    os.environ.setdefault("MUJOCO_GL", "disable")
try:
    from dm_control import suite
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the control suite needs dm_control, which is not installed; `pip install "
                              "gpureplay[dm_control]`", name=error.name) from error


_UNLIMITED = np.float32(1e10)  # the bound that dm_control gives a motor without one


class Box:
    """A space of arrays of numbers within bounds."""

    def __init__(self, low: np.ndarray, high: np.ndarray):
        self.low, self.high = np.asarray(low, np.float32), np.asarray(high, np.float32)
        self.shape, self.dtype = self.low.shape, np.dtype(np.float32)

    def __repr__(self) -> str:
        return f"Box({self.low.min()}, {self.high.max()}, {self.shape}, {self.dtype})"


def _bounds_of(spec: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.broadcast_to(spec.minimum, spec.shape), np.broadcast_to(spec.maximum, spec.shape)


class ControlEnv:
    """A task. Its observation is all arrays of dm_control's, in its order, as one vector of float32. Episodes of the
    suite have 1,000 steps of at most 1 reward each, and are truncated then; one whose discount is 0 is terminated.

    name: "dm_control/DOMAIN-TASK": "dm_control/cartpole-swingup". options: keywords of the task, such as time_limit.
    ValueError: no such task, other keywords, or actions without limits (lqr).
    """

    metadata: dict[str, Any] = {}

    def __init__(self, name: str, options: Mapping[str, Any]):
        domain, _, task = name.partition("/")[2].partition("-")
        if (domain, task) not in suite.ALL_TASKS:
            known = ", ".join("-".join(each) for each in suite.ALL_TASKS)
            raise ValueError(f"env is {name!r}; after dm_control/ it must be one of {known}")
        if "random" in options:
            raise ValueError(f"env_options has random={options['random']!r}; it must not: the seed is that of the run")
        self._random = np.random.RandomState(0)  # the task draws from it
        try:
            self._env = suite.load(domain, task, task_kwargs={**options, "random": self._random})
        except TypeError as error:
            raise ValueError(f"env_options is {dict(options)}; {name} does not take it: {error}") from error
        shapes = [spec.shape for spec in self._env.observation_spec().values()]
        size = sum(int(np.prod(shape)) for shape in shapes)
        self.observation_space = Box(np.full(size, -np.inf), np.full(size, np.inf))
        self.action_space = Box(*_bounds_of(self._env.action_spec()))
        if np.abs([self.action_space.low, self.action_space.high]).max() >= _UNLIMITED:
            raise ValueError(f"env is {name!r}, whose actions have no limits; they must, as -1 to 1 become the limits")
        self.spec = SimpleNamespace(id=name, max_episode_steps=None)

    def _observed(self, step: Any) -> np.ndarray:
        return np.concatenate([np.ravel(part) for part in step.observation.values()]).astype(np.float32)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._random.seed(seed)
        return self._observed(self._env.reset()), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        step = self._env.step(action)
        terminated = bool(step.last() and step.discount == 0)
        return self._observed(step), float(step.reward), terminated, bool(step.last() and not terminated), {}

    def close(self) -> None:
        self._env.close()
