# SPDX-License-Identifier: MIT
"""The same training as print_losses.c, with the same bits."""

import os
import subprocess

import gpureplay
import numpy as np
import pytest

PROGRAM = os.environ.get("GPUREPLAY_PRINT_LOSSES")
ROWS, OBS, STEPS = 500, 5, 100


def fill(buffer):
    row, i = np.arange(ROWS)[:, None], np.arange(OBS)
    flat = np.arange(ROWS)
    buffer.extend(obs=(row * 7 + i * 3) % 11 / 4 - 1, next_obs=(row * 5 + i * 2) % 13 / 4 - 1.5, action=flat % 3,
                  reward=flat % 9 / 2 - 2, terminated=flat % 17 == 0)


def losses(executor):
    fields = {"obs": ((OBS,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((OBS,), "float32"),
              "terminated": "bool"}
    device = gpureplay.Device("cpu", executor=executor)
    with gpureplay.ReplayBuffer(400, fields, device=device, seed=5, gamma=0.9) as buffer:
        fill(buffer)
        learner = gpureplay.DQN(buffer, outputs=3, head="dueling", hidden=16, trunk=[(24, "tanh"), 20], batch_size=48,
                                optimizer="rmsprop_torch", learning_rate=(3e-3, 1e-3, 80, 10), target_period=30,
                                seed=11, distinct=True)
        for _ in range(STEPS):
            learner.train(1)
            learner.sync()
            stats = learner.stats
            yield np.array([stats.loss, stats.mean_q, stats.gradient_norm], np.float32).view(np.uint32)


@pytest.mark.skipif(PROGRAM is None, reason="GPUREPLAY_PRINT_LOSSES does not name the program print_losses")
@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_losses_are_those_of_the_c_program(executor):
    done = subprocess.run([PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    wanted = [line.split() for line in done.stdout.splitlines()]
    got = [[f"{bits:08x}" for bits in step] for step in losses(executor)]
    assert got == wanted and len(got) == STEPS and len({loss for loss, _, _ in got}) > STEPS // 2
