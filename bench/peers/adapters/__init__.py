# SPDX-License-Identifier: MIT
"""The contestants, one a file, each used as its documentation advises for speed."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from .base import Adapter

MODULES = {"ours": "gpureplay", "cpprb_buffer": "cpprb", "sb3_buffer": "sb3", "torchrl_buffer": "torchrl",
           "rlox_buffer": "rlox", "flashbax_buffer": "flashbax"}
OURS = "gpureplay"


class Found(NamedTuple):
    """A contestant, or why it is not here."""

    name: str
    adapter: type[Adapter] | None
    error: str


def find(module: str) -> Found:
    """Imports it. A library that does not load may raise anything."""
    try:
        adapter = importlib.import_module(f"{__name__}.{module}").CONTESTANT
    except Exception as error:  # noqa: BLE001
        return Found(MODULES[module], None, f"{type(error).__name__}: {error}")
    return Found(MODULES[module], adapter, "")
