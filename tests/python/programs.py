# SPDX-License-Identifier: MIT
"""Python programs in processes of their own, which must end by themselves."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src/python"
SECONDS = 600  # after which it is taken to hang

PREAMBLE = """
import os, sys, gc, threading, time
import numpy as np
import gpureplay
def make(**settings):
    made = gpureplay.ReplayBuffer(1000, {"x": ((4,), "float32")}, device=settings.pop("device", "cpu"), **settings)
    made.extend(x=np.ones((500, 4), np.float32))
    return made
"""


def run(program, *, preamble=PREAMBLE, wanted=0, flags=(), **environment):
    """What it prints, and what it writes to stderr."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", preamble + textwrap.dedent(program)], capture_output=True, text=True,
        timeout=SECONDS, check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment})
    assert done.returncode == wanted, f"status {done.returncode}, wanted {wanted}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr
