# SPDX-License-Identifier: MIT
"""What gpureplay.sb3 keeps of a transition, and by which settings."""

from __future__ import annotations

import math
import pickle
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _schema
from ._accelerator import fast

if TYPE_CHECKING:
    from ._buffer import ReplayBuffer as Buffer
    from ._sb3_buffer import ReplayBuffer

_MOST = 4096  # transitions that are drawn at once
_COMMON = 1024  # agents seldom want more in a batch
_Fields = dict[str, tuple[tuple[int, ...], np.dtype]]


def fields_of(observation_space: Any, action_space: Any, by_steps: bool = False) -> _Fields:
    """The shapes that a batch is to have, so that no tensor is reshaped: no number stands without an axis, and an
    action is flat. `done` is (1 - timeout) x done, as the losses want it. by_steps: what the library follows episodes
    by, in its own shapes."""
    found: _Fields = {}
    for name, shape, dtype in _schema.from_spaces(observation_space, action_space):
        if name.partition(".")[0] in ("obs", "next_obs", "reward"):
            found[name] = shape or (1,), dtype
        elif name == "action":
            found[name] = (math.prod(shape),), dtype
    if "action" not in found:
        raise TypeError(f"action_space is {action_space}; it must be one Box, Discrete, MultiDiscrete or MultiBinary")
    if not by_steps:
        return {**found, "done": ((1,), np.dtype(np.float32))}
    if "obs" not in found:
        raise TypeError(f"observation_space is {observation_space}; with optimize_memory_usage, or n_steps above 1, it "
                        "must be one Box, Discrete, MultiDiscrete or MultiBinary")
    return {**found, "reward": ((), np.dtype(np.float32)), "terminated": ((), np.dtype(np.bool_))}


def in_c(replay: Buffer, observation_space: Any, action_space: Any) -> Any:
    """What adds a step in C: the extension's Rows or Steps of the replay's writer, for arrays in the shapes in which
    Stable-Baselines3 has them, (n_envs, ...) of the spaces' own. None: there is no extension."""
    given = {name: shape for name, shape, _ in _schema.from_spaces(observation_space, action_space)}
    given["done"] = ()
    writer = replay._writer
    if fast is None:
        return None

    def rows_of(fields: list[_schema.Field]) -> Any:
        return writer._rows_of(replay.num_envs, [field._replace(shape=given[field.name]) for field in fields])

    return rows_of(replay.fields) if writer._by_steps is None else writer._by_steps.in_c(rows_of)


def settings_of(buffer: ReplayBuffer, frame_stack: int, stack_axis: str) -> dict[str, Any]:
    """Of the replay behind a buffer."""
    if not buffer.optimize_memory_usage and frame_stack != 1:
        raise ValueError(f"frame_stack is {frame_stack!r}; without optimize_memory_usage it must be 1: stacks are kept "
                         "whole")
    linked = {"layout": "linked", "frame_stack": frame_stack, "stack_axis": stack_axis}
    return {**(linked if buffer.optimize_memory_usage else {}),
            **({"n_step": buffer.n_steps, "gamma": buffer.gamma} if buffer.n_steps > 1 else {})}


def most_of(capacity: int, update_size: int | None, linked: bool) -> int:
    """The largest batch that is drawn at once. Larger than the library's default where the buffer is small: the
    originals draw as many as they hold. Where observations are kept once, small beside the capacity: there is room for
    all those of the largest batch, twice over; but not below what agents draw."""
    if linked:
        return max(min(_MOST, capacity // 8), min(_COMMON, capacity // 2), 1)
    return max(min(_MOST, capacity - (update_size or max(capacity // 16, 1))), 1)


def seed_of_numpy() -> int:
    """From the state of NumPy's global generator, which stays as it is: an agent's seed then is the buffer's, too."""
    return zlib.crc32(pickle.dumps(np.random.get_state(legacy=False)))
