# SPDX-License-Identifier: MIT
"""What gpureplay.sb3 keeps of a transition, and where its seed comes from."""

from __future__ import annotations

import math
import pickle
import zlib
from typing import Any

import numpy as np

from . import _schema


def fields_of(observation_space: Any, action_space: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shapes that a batch is to have, so that no tensor is reshaped: no number stands without an axis, and an
    action is flat. `done` is (1 - timeout) x done, as the losses want it."""
    found = {}
    for name, shape, dtype in _schema.from_spaces(observation_space, action_space):
        if name.partition(".")[0] in ("obs", "next_obs", "reward"):
            found[name] = shape or (1,), dtype
        elif name == "action":
            found[name] = (math.prod(shape),), dtype
    if "action" not in found:
        raise TypeError(f"action_space is {action_space}; it must be one Box, Discrete, MultiDiscrete or MultiBinary")
    found["done"] = (1,), np.dtype(np.float32)
    return found


def seed_of_numpy() -> int:
    """From the state of NumPy's global generator, which stays as it is: an agent's seed then is the buffer's, too."""
    return zlib.crc32(pickle.dumps(np.random.get_state(legacy=False)))
