# SPDX-License-Identifier: MIT
"""What comes out of a buffer that makes one transition of several steps."""

from __future__ import annotations

import numpy as np
from workloads import rows_of, tags_of

from .base import Adapter, Rows

STEPS, GAMMA = 3, 0.5  # by which sums of whole numbers stay exact


class Returns(Adapter):
    """`add` is given steps, `sample` gives transitions of STEPS of them, or of fewer at an episode's end: the first
    one's obs and action, the last one's next_obs and terminated, and the sum of rewards, each times GAMMA more."""

    def expected(self, rows: Rows) -> Rows:
        tags = tags_of(self.schema, rows)
        steps = np.minimum(self.schema.episode - tags % self.schema.episode, STEPS)
        reward = sum(np.where(step < steps, GAMMA**step * (tags + step), 0) for step in range(STEPS))
        last = rows_of(self.schema, tags + steps - 1)
        return {**rows, "reward": np.float32(reward), "next_obs": last["next_obs"], "terminated": last["terminated"]}

    def fill(self, rows: Rows) -> None:
        for row in range(len(rows["reward"])):
            self.add(tuple(array[row] for array in rows.values()))
