# SPDX-License-Identifier: MIT
"""The learner of this repository, as a graph of kernels and as one kernel."""

from __future__ import annotations

from typing import Any, ClassVar

import gpureplay
import numpy as np
from networks import BETAS, BLOCK, EPSILON, GAMMA, RATE, Case, Steps, rows_of, weights_of

CHUNK = 4096  # rows added at once
ADAM = {"optimizer": "adam", "learning_rate": RATE, "epsilon": EPSILON, "beta1": BETAS[0], "beta2": BETAS[1],
        "clip_norm": 0.0, "double_dqn": True}


class Ours(Steps):
    name: ClassVar[str] = "gpureplay"
    as_used: ClassVar[str] = "DQN.train(16): sample, gather and step on the device"
    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        network = case.network
        obs = (network.obs, "uint8" if network.is_image else "float32")
        fields = {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}
        self._buffer = gpureplay.ReplayBuffer(case.rows, fields, device=device, gamma=GAMMA)
        rows = rows_of(network, case.rows)
        for first in range(0, case.rows, CHUNK):
            self._buffer.extend(**{name: array[first:first + CHUNK] for name, array in rows.items()})
        self._learner = gpureplay.DQN(self._buffer, num_actions=network.actions, preset=network.name,
                                      batch_size=case.batch,
                                      target_period=BLOCK, target_copy_first=False, math=case.math, **ADAM,
                                      **self.settings)
        self._learner.weights.load(weights_of(network))
        self._learner.target_weights.load(weights_of(network))

    @staticmethod
    def version() -> str:
        return gpureplay.__version__

    def train_on(self, ids: np.ndarray) -> list[float]:
        losses = []
        for row in ids:
            self._learner.train_ids(row)
            self._learner.sync()
            losses.append(self._learner.stats.loss)
        return losses

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._learner.train(BLOCK)

    def train_few(self, steps: int) -> None:
        """And waits for them."""
        self._learner.train(steps)
        self._learner.sync()

    def finish(self) -> None:
        self._learner.sync()

    def close(self) -> None:
        self._learner.close()
        self._buffer.close()


class OneKernel(Ours):
    name, as_used = "gpureplay one kernel", "the same, a step as one kernel"
    settings = {"step_kernel": "fused"}

    @staticmethod
    def refusal(device: str) -> str:
        return "" if device.startswith("cuda") else "on a CPU it runs on one core and is for tests"


IMPLEMENTATIONS = (Ours, OneKernel)
