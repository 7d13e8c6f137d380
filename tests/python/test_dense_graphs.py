# SPDX-License-Identifier: MIT
"""dense_graphs from Python: it reaches the learner, which says what it may be; on a CPU it changes nothing."""

import gpureplay
import numpy as np
import pytest

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(100, FIELDS, device="cpu") as made:
        rows = np.arange(80)
        obs = np.sin(rows[:, None] + np.arange(4))
        made.extend(obs=obs, action=rows % 3, reward=obs[:, 0], next_obs=obs, terminated=rows % 5 == 0)
        yield made


def test_a_cpu_trains_as_without(buffer):
    losses = []
    for dense_graphs in (0, 1):
        learner = gpureplay.DQN(buffer, outputs=3, dense_graphs=dense_graphs, seed=4)
        learner.train(20)
        learner.sync()
        losses.append(learner.stats.loss)
    assert losses[0] == losses[1] > 0


def test_the_learner_says_what_it_may_be(buffer):
    with pytest.raises(gpureplay.InvalidArgument, match="dense_graphs is 2"):
        gpureplay.DQN(buffer, outputs=3, dense_graphs=2)
