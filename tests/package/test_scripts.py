# SPDX-License-Identifier: MIT
"""Each script has its help and refuses an unknown option, and the quickstart trains with a program that is built.

usage: test_scripts.py cartpole_dqn
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("tests/run.sh", "bench/run.sh", "bench/run_gpu.sh", "examples/quickstart.sh",
           "src/plugins/atari/build.sh")


def run(*command, status, **environment):
    done = subprocess.run(["bash", *map(str, command)], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def the_quickstart_builds_and_trains(program, folder):
    """In a copy of the scripts, where cmake is a program that builds by copying."""
    for name in ("tests", "examples"):
        shutil.copytree(ROOT / name, folder / name,
                        ignore=lambda _, names: [each for each in names if each[-3:] not in (".sh", ".py")])
    cmake = folder / "programs/cmake"
    cmake.parent.mkdir()
    cmake.write_text(f'#!/bin/sh\nmkdir -p build/quickstart/examples\ncp "{program}" build/quickstart/examples/\n')
    cmake.chmod(0o755)
    run(folder / "examples/quickstart.sh", "--no-install", "--device", "cpu", "--seed", "1", "--steps", "2000",
        status=1, PATH=f"{cmake.parent}:{os.environ['PATH']}")
    assert len((folder / "runs/cartpole/curve.csv").read_text().splitlines()) > 1


for script in SCRIPTS:
    assert "usage: bash " + script in run(ROOT / script, "--help", status=0).stdout, script
    assert '"--nonsense"' in run(ROOT / script, "--nonsense", status=2).stderr, script
with tempfile.TemporaryDirectory() as name:
    the_quickstart_builds_and_trains(Path(sys.argv[1]).resolve(), Path(name))
print(f"test_scripts: {len(SCRIPTS)} scripts")
