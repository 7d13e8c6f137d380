# SPDX-License-Identifier: MIT
"""The files of Stable-Baselines3."""

from __future__ import annotations

from pathlib import Path

from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl

from .saving import Saving
from .sb3_buffer import Sb3


class Sb3Files(Saving, Sb3):
    as_used = "`save_to_pkl` and `load_from_pkl`, as `save_replay_buffer` calls them: pickle; no checksum, no fsync."

    def save(self) -> None:
        save_to_pkl(self.folder / "replay.pkl", self._buffer)

    def load(self, folder: Path) -> None:
        self._buffer = load_from_pkl(folder / "replay.pkl")


CONTESTANT = Sb3Files
