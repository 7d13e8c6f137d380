# SPDX-License-Identifier: MIT
"""The learner of this repository, as it is, and with each other way that it has of doing a step."""

from __future__ import annotations

from typing import Any, ClassVar

import gpureplay
import numpy as np
from adapters.priorities import ALPHA, BETA
from base import OFFSET, Steps
from gpureplay._learner_config import SETTINGS
from networks import BLOCK, GAMMA, Case, rows_of, weights_of
from recipes import settings_of

CHUNK = 4096  # rows added at once


def _fields(case: Case) -> dict[str, Any]:
    obs = (case.world.obs, "uint8" if case.world.is_image else "float32")
    return {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}


def _priorities(case: Case) -> dict[str, Any]:
    if case.draws == "uniform":
        return {"prioritized": False}
    return {"prioritized": True, "alpha": ALPHA, "beta": BETA, "priority_offset": OFFSET}


class Ours(Steps):
    name: ClassVar[str] = "gpureplay"
    as_used: ClassVar[str] = "DQN.train(16): draw, gather and step on the device"
    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        self._buffer = gpureplay.ReplayBuffer(case.rows, _fields(case), device=device, gamma=GAMMA, **_priorities(case))
        rows = rows_of(case.world, case.rows)
        for first in range(0, case.rows, CHUNK):
            self._buffer.extend(**{name: array[first:first + CHUNK] for name, array in rows.items()})
        of_case = {"preset": case.world.name, "batch_size": case.batch, "target_period": BLOCK, "math": case.math,
                   "target_copy_first": False, **settings_of(case.world.name, case.optimizer)}
        if case.draws == "prioritized":
            of_case["beta"] = BETA
        self._learner = gpureplay.DQN(self._buffer, outputs=case.world.actions, **of_case, **self.settings)
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

    def drawn_losses(self) -> list[float]:
        """What checks each way of doing a step by the calls that are timed: `train_on` has one way alone."""
        return [self._mean_loss() for _ in range(2)]

    def _mean_loss(self) -> float:
        self._learner.sync()
        self._learner.stats  # noqa: B018  # the mean is of the steps since one asked before
        self.train(1)
        self._learner.sync()
        return self._learner.stats.mean_loss

    def priorities(self, ids: np.ndarray) -> np.ndarray:
        return self._buffer.get_priorities(ids)

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._learner.train(BLOCK)

    def finish(self) -> None:
        self._learner.sync()

    def close(self) -> None:
        self._learner.close()
        self._buffer.close()


class OneStepGraph(Ours):
    name, as_used, settings = "gpureplay unroll 1", "the same, a CUDA graph of one step", {"unroll": 1}

    @staticmethod
    def refusal(device: str) -> str:
        return "" if device.startswith("cuda") else "unroll is of CUDA graphs"


class LongGraph(OneStepGraph):
    name, as_used, settings = "gpureplay unroll 16", "the same, a CUDA graph of 16 steps", {"unroll": BLOCK}


class DenseGraphs(OneStepGraph):
    name, as_used = "gpureplay cuDNN", "the same, dense layers by graphs of cuDNN's where it has them"
    settings = {"dense_graphs": 1}

    def __init__(self, case: Case, device: str):
        if case.math == "fp32":
            raise ValueError(f"math is {case.math}; it must be tf32 or bf16 for graphs of dense layers")
        super().__init__(case, device)


class OneKernel(Ours):
    name, as_used = "gpureplay one kernel", "the same, a step as one kernel"
    settings = {"step_kernel": "one_kernel"}

    @staticmethod
    def refusal(device: str) -> str:
        return "" if "step_kernel" in SETTINGS else "this library has no such kernel"


CONTESTANTS = (Ours, OneStepGraph, LongGraph, OneKernel, DenseGraphs)
