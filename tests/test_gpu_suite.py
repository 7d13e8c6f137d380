# SPDX-License-Identifier: MIT
"""bench/gpu_suite.sh: what a GPU must show is told with all its figures, and fails the suite where it falls short. When
it is interrupted, its commands end, and what it has found until then is in the report.

The GPU, the build and compute-sanitizer are made up (machine.py)."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from machine import Machine, expect, run_tests

PASSES = '#!/bin/bash\necho "passed $*"\n'
# It and its child would run for a minute; it leaves their numbers.
WAITS = """#!/bin/bash
echo "began $*"
sleep 60 &
echo "$$ $!" >"$FAKE_LOG.pids.$$"
wait
"""


def programs(machine, **made):
    """A build whose test programs pass, but for those given."""
    for name in ("test_cuda_open", "test_cross", "test_cross_ranked", "test_cross_linked", "test_cross_losses",
                 "test_cuda_step_nodes", "test_launch_shape"):
        machine.add(machine.root / "made/tests" / name, made.get(name, PASSES))


def waiting(machine):
    """The processes of each program that waits."""
    said = [path.read_text().split() for path in machine.root.glob("log.pids.*")]
    return [[int(number) for number in pids] for pids in said if len(pids) == 2]


def runs(pid):
    """A zombie does not: nobody may be there to bury an orphan."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def interrupt(machine, send, sent, count, *options):
    """Sends a signal once `count` programs wait, by os.kill to the script or by os.killpg, as a terminal does, to its
    process group. Returns (all it printed, its report as JSON)."""
    with subprocess.Popen(
        machine.command(["--built", "made", "--out", "out", *options]), env=machine.environment, cwd=machine.root,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored where tests are run
    ) as script:
        deadline = time.monotonic() + 20
        while len(waiting(machine)) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)  # into the middle of it
        began = time.monotonic()
        send(script.pid, sent)
        printed, _ = script.communicate(timeout=60)
    expect(script.returncode == 130 and time.monotonic() - began < 8, machine, printed)
    begun = [pid for pids in waiting(machine) for pid in pids]
    expect(len(begun) == 2 * count and not any(map(runs, begun)), machine, printed)
    expect("interrupted" in printed and printed == (machine.root / "out/report.txt").read_text(), machine, printed)
    return printed, json.loads((machine.root / "out/report.json").read_text())


def outcomes(report):
    return [(stage["name"], stage["outcome"]) for stage in report["stages"]]


def a_stage_is_interrupted():
    for send, sent in ((os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.kill, signal.SIGTERM)):
        with Machine("bench/gpu_suite.sh") as machine:
            programs(machine, test_cross_losses=WAITS)
            printed, report = interrupt(machine, send, sent, 1, "--dry-run")
            wanted = [(f"test_cross{part} cpu", "passed") for part in ("", "_ranked", "_linked")]
            wanted.append(("test_cross_losses cpu", "stopped"))
            expect(outcomes(report) == wanted and report["failed"] == 0, machine, printed)
            log = (machine.root / "out/log.txt").read_text()
            expect("passed cpu" in log and "began cpu" in log, machine, log)


def jobs_side_by_side_are_interrupted():
    """Six at a time: the CPU's tests, which are over at once, then compute-sanitizer."""
    for sent in (signal.SIGINT, signal.SIGTERM):
        six_jobs_are_interrupted(sent)


def six_jobs_are_interrupted(sent):
    with Machine("bench/gpu_suite.sh") as machine:
        programs(machine)
        checker = WAITS.replace('echo "began', '[ "$3" = --error-exitcode ] || exit 0\necho "began')
        machine.add(machine.bin / "compute-sanitizer", checker)
        printed, report = interrupt(machine, os.killpg, sent, 6)
        found = outcomes(report)
        expect(("ctest: cpu", "passed") in found and ("memcheck launch_shape", "stopped") in found, machine, printed)
        expect([outcome for _, outcome in found].count("stopped") == 6, machine, printed)
        expect(not list(machine.root.glob("tmp.*")), machine, printed)


def what_a_gpu_must_show_is_a_stage():
    """All of its figures are told, also where it falls short, and it fails the suite then."""
    for status, outcome in ((0, "passed"), (1, "failed")):
        with Machine("bench/gpu_suite.sh") as machine:
            programs(machine)
            for name in ("bench_contest", "bench_training"):
                machine.add(machine.root / "made/bench" / name, PASSES)
            figures = 'for i in {1..30}; do echo "figure $i of $*"; done'
            machine.add(machine.bin / "python3", f'#!/bin/bash\n[ "$1" = -c ] || {{ {figures}; exit {status}; }}\n')
            exit_status, printed = machine.run("--built", "made", "--out", "out")
            report = json.loads((machine.root / "out/report.json").read_text())
            expect(("in-device ahead of in-RAM", outcome) in outcomes(report), machine, printed)
            expect(report["failed"] == 3 * status and exit_status == status, machine, printed)  # two more are python's
            json_path = machine.root / "out/bench_contest.json"
            for i in range(1, 31):
                expect(f"figure {i} of bench/contest_checks.py {json_path}" in printed, machine, printed)
            expect(f"passed --device cuda:0 --json {json_path}" in printed, machine, printed)
            expect("passed --quick --device cuda:0 --json" in printed and "pictures" in printed, machine, printed)
            expect(("train steps beside others", outcome) in outcomes(report), machine, printed)
            expect("figure 1 of bench/peers/steps/steps.py --quick --device cuda:0 --json" in printed, machine, printed)


def a_dry_run_shows_the_contest():
    with Machine("bench/gpu_suite.sh", without=("matplotlib",)) as machine:
        programs(machine)
        _, printed = machine.run("--dry-run", "--built", "made", "--out", "out")
        for name in ("nodes of a step, memory", "bench_priority cuda:0", "bench_pixels cuda:0", "bench_conv cuda:0",
                     "bench_checkpoint cuda:0", "bench_contest cuda:0", "in-device ahead of in-RAM",
                     "bench_training cuda:0"):
            expect(f"{name:<28} would run (" in printed, machine, printed)
        expect("pictures are left out: matplotlib is not here" in printed, machine, printed)
        expect("train steps beside others are left out: no PyTorch is here" in printed, machine, printed)


run_tests([
    what_a_gpu_must_show_is_a_stage,
    a_dry_run_shows_the_contest,
    a_stage_is_interrupted,
    jobs_side_by_side_are_interrupted,
])
