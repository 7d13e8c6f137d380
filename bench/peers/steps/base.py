# SPDX-License-Identifier: MIT
"""What a contestant of the train steps has to do."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from networks import Case


class Settings(NamedTuple):
    """device: "cpu" or "cuda:N"; math: "fp32" or "tf32", of products and convolutions; float32 is kept whichever."""

    device: str
    math: str

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")


class Steps:
    """Double DQN with Adam and Huber loss, on rows that lie on the device. Every BLOCK steps the target is copied."""

    name: ClassVar[str]
    as_used: ClassVar[str]  # which calls are timed, for the report

    def __init__(self, case: Case, settings: Settings):
        """Puts the rows on the device and makes the network, with weights_of the world as both networks' weights."""
        self.case, self.settings = case, settings

    @staticmethod
    def version() -> str:
        raise NotImplementedError

    @staticmethod
    def refusal(settings: Settings) -> str:
        """Why it does not take part with these; "" when it does."""
        return ""

    def train_on(self, ids: np.ndarray) -> list[float]:
        """Steps on these rows, (BLOCK, batch), and a copy to the target: the loss of each."""
        raise NotImplementedError

    def train(self, blocks: int) -> None:
        """Enqueues so many times BLOCK steps, each on rows drawn at random on the device, and a copy to the target."""
        raise NotImplementedError

    def finish(self) -> None:
        """Waits for all of it."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives its memory back."""
