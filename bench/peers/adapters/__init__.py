# SPDX-License-Identifier: MIT
"""The contestants, one a file, each used as its documentation advises for speed."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from .base import Adapter

UNIFORM = {"ours": "gpureplay", "cpprb_buffer": "cpprb", "sb3_buffer": "sb3", "torchrl_buffer": "torchrl",
           "rlox_buffer": "rlox", "flashbax_buffer": "flashbax", "torch_tensors": "torch", "torch_graph": "torch graph",
           "jax_arrays": "jax", "cupy_arrays": "cupy"}
# What is compared: the contestants' modules and names, ours first.
KINDS = {
    "uniform": UNIFORM,
    "prioritized": {"ours_priorities": "gpureplay", "cpprb_priorities": "cpprb", "torchrl_priorities": "torchrl",
                    "rlox_priorities": "rlox", "flashbax_priorities": "flashbax", "torch_priorities": "torch"},
    "trees": {"ours_priorities": "gpureplay", "cpprb_priorities": "cpprb", "torchrl_trees": "torchrl"},
    "frames": {"ours_frames": "gpureplay", "cpprb_frames": "cpprb", "sb3_buffer": "sb3", "torchrl_buffer": "torchrl",
               "flashbax_buffer": "flashbax"},
    "returns": {"ours_returns": "gpureplay", "cpprb_returns": "cpprb"},
    "drop-in": {"ours_sb3": "gpureplay", "sb3_buffer": "sb3"},
    "once": {"ours_sb3_once": "gpureplay", "sb3_once": "sb3"},
    "files": {"ours_files": "gpureplay", "cpprb_files": "cpprb", "sb3_files": "sb3", "torchrl_files": "torchrl"},
}
NAMES = tuple(UNIFORM.values())
OURS = "gpureplay"


class Found(NamedTuple):
    """A contestant, or why it is not here."""

    name: str
    adapter: type[Adapter] | None
    error: str
    kind: str = "uniform"


def find(module: str, kind: str = "uniform") -> Found:
    """Imports it. A library that does not load may raise anything."""
    name = KINDS[kind][module]
    try:
        adapter = importlib.import_module(f"{__name__}.{module}").CONTESTANT
    except Exception as error:  # noqa: BLE001
        return Found(name, None, f"{type(error).__name__}: {error}", kind)
    return Found(name, adapter, "", kind)
