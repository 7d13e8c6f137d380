# SPDX-License-Identifier: MIT
"""One short run of each benchmark on the CPU, and of the scripts that read what benchmarks write: all end well, every
figure is a time, and a picture is drawn. What they find out is not looked at.

usage: test_bench.py PROGRAM...
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHORT = {"bench_training": ("--steps", "1000", "--batch", "8")}


def run(*command, statuses=(0,)):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode in statuses, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def figures(report):
    """All numbers of seconds, wherever they stand in a report."""
    if isinstance(report, list):
        return [x for part in report for x in figures(part)]
    if not isinstance(report, dict):
        return []
    own = [x for key, value in report.items() if key.endswith("seconds")
           for x in (value if isinstance(value, list) else [value]) if x is not None]
    return own + [x for part in report.values() for x in figures(part)]


def measure(program, folder):
    path = folder / f"{program.name}.json"
    run(program, "--json", path, *SHORT.get(program.name, ("--quick", "--rounds", "6")))
    report = json.loads(path.read_text())
    times = figures(report)
    assert report["interrupted"] == 0 and times, program
    assert all(math.isfinite(x) and x >= 0 for x in times) and any(times), program
    run(program, "--sede", "3", statuses=(2,))


def python_with_matplotlib():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def main():
    programs = [Path(name) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in programs:
            measure(program, folder)
        run(sys.executable, BENCH / "goals.py", folder, statuses=(77,))  # goals are a GPU's
        run(sys.executable, BENCH / "contest_checks.py", folder / "bench_contest.json", statuses=(0, 1))
        python = python_with_matplotlib()
        if python:
            run(python, BENCH / "plot.py", folder)
            assert any(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
    print(f"test_bench: {len(programs)} programs{'' if python else ', no pictures: no Python here has matplotlib'}")


main()
