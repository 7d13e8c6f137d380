# SPDX-License-Identifier: MIT
"""This repository's buffer, by priority and of returns of several steps."""

from __future__ import annotations

from typing import Any

from .ours_priorities import OursPriorities
from .returns import GAMMA, STEPS, Returns


class OursReturns(Returns, OursPriorities):
    as_used = ("ReplayBuffer(capacity, fields, prioritized=True, alpha=0.6, beta=0.4, max_batch=65536, n_step=3, "
               "gamma=0.5): each step is checked to follow the one before.")

    def options(self) -> dict[str, Any]:
        return {**super().options(), "n_step": STEPS, "gamma": GAMMA}


CONTESTANT = OursReturns
