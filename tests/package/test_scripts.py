# SPDX-License-Identifier: MIT
"""The scripts: each has its help and refuses what it does not know, and the quickstart builds and trains, for a moment
and with a program that is already built.

usage: test_scripts.py cartpole_dqn
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("tests/run.sh", "bench/run.sh", "bench/run_gpu.sh", "examples/quickstart.sh")


def run(*command, status, **environment):
    done = subprocess.run(["bash", *map(str, command)], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def a_script_has_a_help_and_refuses_what_it_does_not_know(script):
    assert "usage: bash " + script in run(ROOT / script, "--help", status=0).stdout, script
    assert '"--nonsense"' in run(ROOT / script, "--nonsense", status=2).stderr, script


def every_part_of_the_gpu_run_has_commands():
    commands = run(ROOT / "bench/run_gpu.sh", "--dry-run", status=0).stdout
    assert commands.count("part ") == 8 and "racecheck" in commands and "bench_device" in commands, commands


def the_quickstart_builds_and_trains(program, folder):
    """In a copy of the scripts, where cmake is a program that builds by copying."""
    for name in ("tests", "examples"):
        (folder / name).mkdir()
        for path in (ROOT / name).iterdir():
            if path.suffix in (".sh", ".py"):
                shutil.copy(path, folder / name)
    cmake = folder / "programs/cmake"
    cmake.parent.mkdir()
    cmake.write_text(f'#!/bin/sh\nmkdir -p build/quickstart/examples\ncp "{program}" build/quickstart/examples/\n')
    cmake.chmod(0o755)
    done = run(folder / "examples/quickstart.sh", "--no-install", "--device", "cpu", "--seed", "1", "--steps", "2000",
               status=1, PATH=f"{cmake.parent}:{os.environ['PATH']}")
    curve = folder / "runs/cartpole/curve.csv"
    assert len(curve.read_text().splitlines()) > 1, done.stdout
    assert "no picture: matplotlib" in done.stdout or curve.with_suffix(".png").is_file(), done.stdout


def main():
    program = Path(sys.argv[1]).resolve()
    for script in SCRIPTS:
        a_script_has_a_help_and_refuses_what_it_does_not_know(script)
    every_part_of_the_gpu_run_has_commands()
    with tempfile.TemporaryDirectory() as name:
        the_quickstart_builds_and_trains(program, Path(name))
    print(f"test_scripts: {len(SCRIPTS)} scripts")


main()
