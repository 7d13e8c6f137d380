# SPDX-License-Identifier: MIT
"""The libraries that are compared, one a file, each used as its documentation advises for speed."""

from __future__ import annotations

import importlib

from common import error_text

from .base import Adapter

# Name: module. Ours first.
LIBRARIES = {"gpureplay": "ours", "cpprb": "cpprb", "sb3": "sb3", "torchrl": "torchrl", "rlox": "rlox",
             "flashbax": "flashbax", "reverb": "reverb"}
KINDS = {"uniform": "uniform samples", "prioritized": "samples by priority", "trees": "priorities without rows",
         "frames": "stacks whose frames are stored once", "returns": "returns of 3 steps, by priority",
         "drop-in": "gpureplay.sb3 in place of Stable-Baselines3's buffer",
         "sequences": "sequences of 100 successive transitions",
         "once": "the same with optimize_memory_usage", "files": "saving and loading",
         "extension": "ours with the extension module, with out=batch, and by ctypes alone"}


def adapters_of(library: str) -> tuple[tuple[type[Adapter], ...], str]:
    """Its adapters of all kinds, or why it is not here. A library that does not load may raise anything."""
    try:
        return importlib.import_module(f"{__name__}.{LIBRARIES[library]}").ADAPTERS, ""
    except Exception as error:  # noqa: BLE001
        return (), error_text(error)
