# SPDX-License-Identifier: MIT
"""What a contestant of the train steps has to do."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from networks import Case

OFFSET = 1e-6  # of priorities: p = (|TD error| + OFFSET)^ALPHA [Schaul et al. 2016]


class Steps:
    """DQN by the case's recipe with Huber loss, on rows that lie on the device. Every BLOCK steps the target is copied.
    Draws by priority are stratified, weigh the losses by (p / least p of the batch)^-BETA, and the errors become the
    new priorities; before the first step all are 1."""

    name: ClassVar[str]
    as_used: ClassVar[str]  # which calls are timed, for the report
    bf16: ClassVar[str] = ""  # what is rounded where, other than with ours

    def __init__(self, case: Case, device: str):
        """Puts the rows on the device, "cpu" or "cuda:N", and makes the network, with weights_of the world as both
        networks' weights."""
        self.case, self.device, self.on_cuda = case, device, device.startswith("cuda")

    @staticmethod
    def version() -> str:
        raise NotImplementedError

    @staticmethod
    def refusal(device: str) -> str:
        """Why it does not take part there; "" when it does."""
        return ""

    def train_on(self, ids: np.ndarray) -> list[float]:
        """Steps on these rows, (BLOCK, batch), with weights of 1, and a copy to the target: the loss of each."""
        raise NotImplementedError

    def drawn_losses(self) -> list[float]:
        """Of who draws the same rows as ours: mean losses of a few blocks of the steps that are timed. Else none."""
        return []

    def priorities(self, ids: np.ndarray) -> np.ndarray:
        """Of these rows, (n,): |TD error| + OFFSET as of their last step. Of draws by priority alone."""
        raise NotImplementedError

    def drawn(self) -> np.ndarray:
        """The rows of one draw, (batch), without a step. Of draws by priority alone, and not of ours."""
        raise NotImplementedError

    def train(self, blocks: int) -> None:
        """Enqueues so many times BLOCK steps, each on rows drawn at random on the device, and a copy to the target."""
        raise NotImplementedError

    def finish(self) -> None:
        """Waits for all of it."""
        raise NotImplementedError

    def remark(self) -> str:
        """What must be known about its figures; "" when nothing."""
        return ""

    def close(self) -> None:
        """Gives its memory back."""
