# SPDX-License-Identifier: MIT
"""What a type checker sees of the package: pyproject.toml says how strictly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed here")
pytestmark = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST") != "off", reason="once is enough: without _fast")
ROOT = Path(__file__).resolve().parents[2]
USER = """
import numpy as np
import gpureplay

buffer = gpureplay.ReplayBuffer(100, {"obs": ((4,), "float32")}, device="cpu", num_envs=2)
added: int = buffer.add(obs=np.ones((2, 4)))
batch: gpureplay.Batch = buffer.sample(32)
where: str = batch.device
array: gpureplay.Array = batch.array("obs")
weights: np.ndarray = gpureplay.DQN(buffer, 2).weights["value.out.bias"]
buffer.smaple(32)
for transition in batch:
    pass
"""


def mypy(*arguments):
    """Standard output; a cache of its own lies where the tests' other files do."""
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src/python")}
    return subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *arguments],
                          capture_output=True, text=True, cwd=ROOT, env=environment, check=False).stdout


def test_the_package_holds_under_mypy_strict(tmp_path):
    out = mypy("--cache-dir", tmp_path)
    assert out.startswith("Success: no issues found in "), out


def test_a_user_is_told_of_a_slip_and_of_nothing_else(tmp_path):
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    out = mypy("--cache-dir", tmp_path, tmp_path / "user.py")
    assert '"ReplayBuffer" has no attribute "smaple"' in out
    numbers = [int(line.split(":")[1]) for line in out.splitlines() if "user.py:" in line and ": error:" in line]
    refused = [USER.splitlines()[number - 1] for number in numbers]
    assert refused == ["buffer.smaple(32)", "for transition in batch:"], out


def test_the_marker_is_shipped():
    assert (ROOT / "src/python/gpureplay/py.typed").is_file()
