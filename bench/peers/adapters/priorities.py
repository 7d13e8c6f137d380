# SPDX-License-Identifier: MIT
"""What a contestant of draws by priority has to do, beside what every contestant has to."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from .base import Adapter

ALPHA, BETA = 0.6, 0.4
MOST = 65_536  # of a draw or an update
WEIGHT, INDEX = "a row's weight", "a row's index"  # beside the fields, in what `read` gives


class Prioritized(Adapter):
    """`sample` gives the fields, importance-sampling weights and the indices that `update` takes; `read` of that the
    fields, WEIGHT (count) and INDEX (count).

    What is timed is `sample` and `update`; what `update` is given was made by `priorities_as` and `indices_as` before,
    or drawn.
    """

    @property
    def most(self) -> int:
        """Of one draw or update."""
        return min(MOST, self.capacity // 2)

    def places(self, slots: np.ndarray) -> np.ndarray:
        """How it names the rows that lie there: row i of all that were given lies in slot i % capacity."""
        return slots

    def indices_as(self, places: np.ndarray) -> Any:
        """As `update` takes them: as `sample` gives them."""
        return places

    def priorities_as(self, priorities: np.ndarray) -> Any:
        """As `update` takes them, of float32."""
        return priorities

    @abc.abstractmethod
    def update(self, indices: Any, priorities: Any) -> None:
        """Gives rows new priorities, of which a draw takes the power ALPHA."""

    @abc.abstractmethod
    def indices_of(self, drawn: Any) -> Any:
        """Those of what `sample` gave, for `update`."""
