# SPDX-License-Identifier: MIT
"""One short run of each benchmark on the CPU, and of the scripts that read the reports: all end well, and each report
has times. The figures themselves are not checked.

usage: test_bench.py PROGRAM...
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHORT = {"bench_training": ("--quick", "--batch", "8"), "bench_ablation": ("--quick", "--env", "CartPole-v1"),
         "bench_ga3c": ("--quick", "--part", "1", "--only", "one agent")}


def run(*command, status=0, folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def measure(program, folder):
    path = folder / f"{program.name}.json"
    run(program, "--json", path, *SHORT.get(program.name, ("--quick", "--rounds", "6")), folder=folder)
    assert json.loads(path.read_text())["interrupted"] == 0, program
    assert re.search(r'"seconds":\s*\[?\s*\d*\.?\d*[1-9]', path.read_text()), f"{program}: no time in {path.name}"
    if program.name == "bench_ablation":
        cases = json.loads(path.read_text())["cases"]
        acts = {case["variant"]: case["act"] for case in cases}
        assert acts == {"Standard": "latest", "Concurrent": "target", "Synchronized": "latest", "Both": "target"}, acts
        assert all(min(case["in_runs_env_infer_train"]) > 0 for case in cases), cases
    run(program, "--sede", "3", status=2)


def choose(program, folder):
    """--only; an option is kept beside --quick, which has a default of its own."""
    path = folder / "chosen.json"
    run(program, "--quick", "--rounds", "6", "--only", "draw 32 ", "--json", path)
    assert [case["name"] for case in json.loads(path.read_text())["cases"]] == ["draw 32 of 1 M"]
    run(program, "--quick", "--rounds", "6", "--only", "no such case", status=1)


def name_arithmetic(program, folder):
    path = folder / "arithmetic.json"
    run(program, "--quick", "--only", "no such case", "--math", "tf32", "--json", path, status=1)
    assert json.loads(path.read_text())["settings"].endswith(", tf32")
    run(program, "--math", "fp8", status=2)


def keep_seconds(program, folder):
    path = folder / "seconds.json"
    for given, least in ((("--quick",), 1), (("--seconds", "2", "--quick"), 2)):
        run(program, "--part", "1", "--only", "one agent", "--json", path, *given)
        (case,) = json.loads(path.read_text())["cases"]
        assert case["seconds"] >= least, (given, case)


def main():
    programs = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in programs:
            measure(program, folder)
            if program.name == "bench_priority":
                choose(program, folder)
            if program.name == "bench_ablation":
                name_arithmetic(program, folder)
            if program.name == "bench_ga3c":
                keep_seconds(program, folder)
        assert run(sys.executable, BENCH / "table.py", folder).count("|---|") >= len(programs)
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                run(python, BENCH / "plot.py", folder)
                break
    print(f"test_bench: {len(programs)} programs")


main()
