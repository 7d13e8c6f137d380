# SPDX-License-Identifier: MIT
"""Each script has its help, refuses an unknown option and names itself by its path, and the quickstart trains with a
program that is built.

usage: test_scripts.py cartpole_dqn
In a build with benchmarks and CUDA, what run_gpu.sh would run is looked for, too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("tests/run.sh", "bench/run.sh", "bench/run_gpu.sh", "examples/quickstart.sh",
           "docs/reference/build.sh", "src/cmake/wheel.sh", "src/plugins/atari/build.sh")


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


def the_gpus_commands_are_there(build, folder):
    """run_gpu.sh cannot be run without a GPU, but --dry-run asks each program of the build for the options and tests
    that a part names. A program that lacks one is found."""
    python = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script, wanted = ROOT / "bench/run_gpu.sh", {"first": "test_cuda_streams", "atari": "--env CartPole-v1",
                                                 "measure": "bench_pixels", "runs": "--steps"}
    for part, word in wanted.items():
        assert word in run(script, "--dry-run", "--part", part, "--build", build, status=0, PATH=python).stdout, part
    fake = folder / "build/bench/bench_device"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\necho '  --device NAME'\n")
    fake.chmod(0o755)
    found = run(script, "--dry-run", "--part", "steps", "--build", folder / "build", status=1).stdout
    assert "bench_device: has no option --json" in found and "no option --device" not in found, found
    found = run(script, "--dry-run", "--part", "measure", "--build", folder / "build", status=1).stdout
    assert "bench_append: cannot be asked" in found, found


for script in SCRIPTS:
    assert "usage: bash " + script in run(ROOT / script, "--help", status=0).stdout, script
    said = run(ROOT / script, "--nonsense", status=2).stderr
    assert said.startswith(f'{script}: unknown option "--nonsense"'), said
with tempfile.TemporaryDirectory() as name:
    the_quickstart_builds_and_trains(Path(sys.argv[1]).resolve(), Path(name))
    built = Path(sys.argv[1]).resolve().parents[1]
    if (built / "bench/bench_device").exists() and (built / "tests/test_cuda_faults").exists():
        the_gpus_commands_are_there(built, Path(name) / "gpu")
print(f"test_scripts: {len(SCRIPTS)} scripts")
