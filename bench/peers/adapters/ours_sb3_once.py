# SPDX-License-Identifier: MIT
"""This repository's buffer in the place of Stable-Baselines3's, each observation kept once."""

from __future__ import annotations

from typing import Any

from .ours_sb3 import OursSb3


class OursSb3Once(OursSb3):
    as_used = ("gpureplay.sb3.ReplayBuffer(..., optimize_memory_usage=True): episodes are followed, their last "
               "observations kept, time limits told apart from ends.")

    def options(self) -> dict[str, Any]:
        return {"optimize_memory_usage": True}


CONTESTANT = OursSb3Once
