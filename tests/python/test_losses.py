# SPDX-License-Identifier: MIT
"""The same trainings as print_losses.c, with the same bits."""

import os
import subprocess

import gpureplay
import numpy as np
import pytest

PROGRAM = os.environ.get("GPUREPLAY_PRINT_LOSSES")
ROWS, OBS, STEPS = 500, 5, 100


IMAGE = (8, 7, 3)
DENSE = {"head": "dueling", "hidden": 16, "trunk": [(24, "tanh"), 20], "optimizer": "rmsprop_torch",
         "learning_rate": (3e-3, 1e-3, 80, 10), "distinct": True}
CONVOLUTIONS = {"trunk": [("conv", 6, 3, 2, 1), {"conv": 4, "kernel": 2, "activation": "tanh"}, 20],
                "input_layout": "hwc", "input_scale": 1 / 255, "beta": (0.4, 1.0, 60, 5)}


def fill(buffer, images):
    row, i, flat = np.arange(ROWS)[:, None], np.arange(OBS), np.arange(ROWS)
    obs, next_obs = (row * 7 + i * 3) % 11 / 4 - 1, (row * 5 + i * 2) % 13 / 4 - 1.5
    if images:
        pixel = np.arange(np.prod(IMAGE))
        obs, next_obs = ((row * a + pixel * b) % c for a, b, c in ((7, 3, 251), (5, 2, 253)))
        obs, next_obs = obs.reshape(ROWS, *IMAGE), next_obs.reshape(ROWS, *IMAGE)
    buffer.extend(obs=obs, next_obs=next_obs, action=flat % 3, reward=flat % 9 / 2 - 2, terminated=flat % 17 == 0)


def losses(executor, images):
    obs = (IMAGE, "uint8") if images else ((OBS,), "float32")
    fields = {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}
    device = gpureplay.Device("cpu", executor=executor)
    more = {"prioritized": True, "alpha": 0.7} if images else {}
    with gpureplay.ReplayBuffer(400, fields, device=device, seed=5, gamma=0.9, **more) as buffer:
        fill(buffer, images)
        learner = gpureplay.DQN(buffer, outputs=3, batch_size=48, target_period=30, seed=11,
                                **(CONVOLUTIONS if images else DENSE))
        for _ in range(STEPS):
            learner.train(1)
            learner.sync()
            stats = learner.stats
            yield np.array([stats.loss, stats.mean_q, stats.gradient_norm], np.float32).view(np.uint32)


# The extension module has a part in rows alone, of which vectors tell enough.
ONCE = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST", "off") != "off", reason="run without the extension module")


@pytest.mark.skipif(PROGRAM is None, reason="GPUREPLAY_PRINT_LOSSES does not name the program print_losses")
@pytest.mark.parametrize("executor", ["inline", "thread"])
@pytest.mark.parametrize("images", [False, pytest.param(True, marks=ONCE)], ids=["vectors", "images"])
def test_the_losses_are_those_of_the_c_program(executor, images):
    command = [PROGRAM, *["images"] * images]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    wanted = [line.split() for line in done.stdout.splitlines()]
    got = [[f"{bits:08x}" for bits in step] for step in losses(executor, images)]
    assert got == wanted and len(got) == STEPS and len({loss for loss, _, _ in got}) > STEPS // 2
