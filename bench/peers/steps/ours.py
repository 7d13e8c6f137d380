# SPDX-License-Identifier: MIT
"""The learner of this repository."""

from __future__ import annotations

from typing import Any

import gpureplay
import numpy as np
from base import Settings, Steps
from networks import BLOCK, EPSILON, GAMMA, RATE, Case, rows_of, weights_of

CHUNK = 4096  # rows added at once


def _fields(case: Case) -> dict[str, Any]:
    obs = (case.world.obs, "uint8" if case.world.is_image else "float32")
    return {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}


class Ours(Steps):
    name, as_used = "gpureplay", "DQN.train(16): draw, gather and step on the device"

    def __init__(self, case: Case, settings: Settings):
        super().__init__(case, settings)
        self._buffer = gpureplay.ReplayBuffer(case.rows, _fields(case), device=settings.device, gamma=GAMMA)
        rows = rows_of(case.world, case.rows)
        for first in range(0, case.rows, CHUNK):
            self._buffer.extend(**{name: array[first:first + CHUNK] for name, array in rows.items()})
        self._learner = gpureplay.DQN(self._buffer, outputs=case.world.actions, preset=case.world.preset,
                                      batch_size=case.batch, optimizer="adam", learning_rate=RATE, epsilon=EPSILON,
                                      beta1=0.9, beta2=0.999, clip_norm=0.0, double_dqn=True, target_period=BLOCK,
                                      target_copy_first=False, math=settings.math, init="glorot")
        weights = weights_of(case.world)
        self._learner.weights.load(weights)
        self._learner.target_weights.load(weights)

    @staticmethod
    def version() -> str:
        return gpureplay.__version__

    def train_on(self, ids: np.ndarray) -> list[float]:
        losses = []
        for row in ids:
            self._learner.train_on(row)
            self._learner.sync()
            losses.append(self._learner.stats.loss)
        return losses

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._learner.train(BLOCK)

    def finish(self) -> None:
        self._learner.sync()

    def close(self) -> None:
        self._learner.close()
        self._buffer.close()


CONTESTANTS = (Ours,)
