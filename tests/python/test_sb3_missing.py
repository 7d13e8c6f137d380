# SPDX-License-Identifier: MIT
"""gpureplay.sb3 where one of the frameworks is not installed."""

import importlib.util
import os
import subprocess
import sys

import pytest


def python(text):
    """Runs it with the search path of this process."""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=1200,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def test_without_pytorch_the_import_says_what_to_install():
    run = python("import sys; sys.modules['torch'] = None; import gpureplay.sb3")
    assert run.returncode == 1
    assert "ModuleNotFoundError: gpureplay.sb3 makes PyTorch's tensors, and PyTorch is not installed; " \
           "`pip install torch`" in run.stderr


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")
def test_without_stable_baselines3_it_serves_cleanrl():
    run = python("""
import sys; sys.modules["stable_baselines3"] = None
import numpy as np
from gymnasium import spaces
from gpureplay.sb3 import ReplayBuffer
rb = ReplayBuffer(100, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), "cpu", handle_timeout_termination=False)
obs = np.ones((1, 3), np.float32)
rb.add(obs, 2 * obs, np.array([1]), np.array([3.0]), np.array([True]), {})
batch = rb.sample(2)
print(*(tensor.flatten().tolist() for tensor in batch[:5]), batch.discounts)
""")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"{[1.0] * 6} [1, 1] {[2.0] * 6} [1.0, 1.0] [3.0, 3.0] None"
