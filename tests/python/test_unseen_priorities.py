# SPDX-License-Identifier: MIT
"""What priorities rows brought that were overwritten before anybody looked."""

import gpureplay
import numpy as np
import pytest


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("update_size", [1, 4, 16])
def test_rows_that_came_and_went_unseen_are_counted(looks, update_size):
    """The largest priority so far, and the ones that are none, whether or not somebody looked between."""
    with gpureplay.ReplayBuffer(64, {"x": "float32", "priority": "float32"}, device="cpu", prioritized=True,
                                update_size=update_size, max_batch=8, priority_offset=0.0) as buffer:
        for block in range(12):
            given = np.full(20, 0.5, np.float32)
            given[3] = 70.0 if block == 1 else 1.0
            given[5] = -1.0
            buffer.extend(x=np.zeros(20), priority=given)
            if looks:
                assert len(buffer.sample(4)) == 4 and buffer.priority_stats.invalid == block + 1
        stats = buffer.priority_stats
        assert stats.invalid == 12 and stats.max_priority == 70
