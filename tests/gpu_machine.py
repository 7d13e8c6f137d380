# SPDX-License-Identifier: MIT
"""A machine that is made up, with a build of ours whose programs are made up, too, for tests of bench/gpu_suite.sh."""

import json
import shutil

from machine import Machine

# With FAKE_GPU there is a GPU; without it, what wants one refuses.
PASSES = """#!/bin/bash
case " $* " in *" cuda:"*) [ -n "$FAKE_GPU" ] || { echo "no cuda:0 here" && exit 77; } ;; esac
echo "passed $*"
while [ $# -gt 1 ]; do
    [ "$1" != --json ] || { mkdir -p "${2%/*}" && echo "{}" >"$2"; }
    shift
done
exit 0
"""
FAILS = '#!/bin/bash\necho "begins"\nfor i in {1..30}; do echo "line $i"; done\nexit 3\n'
# It and its child would run for a minute; it leaves their numbers.
WAITS = """#!/bin/bash
echo "began $*"
sleep 60 &
echo "$$ $!" >"$FAKE_LOG.pids.$$"
wait
"""
# -c asks for a module, or for the environment that it is of. What reads results finds none of a GPU.
PYTHON = """#!/bin/bash
[ "$1" = -c ] && exit 0
case "$1:$FAKE_GPU" in bench/contest_checks.py: | bench/goals.py:) exit 77 ;; esac
""" + PASSES.split("\n", 1)[1]
TESTS = ("cuda_open", "soak", "cross", "cross_ranked", "cross_linked", "cross_losses", "cuda_step_nodes",
         "launch_shape", "stream", "loss", "optimizer", "device_memory", "meet", "dependent", "gather_observed",
         "one_kernel_reference")
BENCHES = ("device", "nodes", "append", "sample", "priority", "pixels", "conv", "training", "contest")
PARTS = ("prove", "measure", "peers")


def machine_with(gpu=True, **made):
    """One whose programs pass, but for those given: {"bench_append": FAILS}."""
    machine = Machine("bench/gpu_suite.sh")
    machine.environment.update(FAKE_GPU="yes" if gpu else "", GPUREPLAY_COMMIT="a commit")
    for tool in ("mv", "readlink", "tar", "gzip"):
        (machine.bin / tool).symlink_to(shutil.which(tool))
    names = [f"tests/test_{name}" for name in TESTS] + [f"bench/bench_{name}" for name in BENCHES]
    for name in (*names, "tests/print_device", "examples/cartpole_dqn"):
        machine.add(machine.root / "made" / name, made.get(name.split("/")[1], PASSES))
    machine.add(machine.bin / "python3", made.get("python3", PYTHON))
    return machine


def run(machine, *options):
    """(status, all it printed, its report)"""
    status, printed = machine.run("--built", "made", "--out", "out", *options)
    part = options[options.index("--part") + 1] if "--part" in options else ""
    return status, printed, report_of(machine, part)


def report_of(machine, part, folder="out"):
    return json.loads((machine.root / folder / f"report{'-' if part else ''}{part}.json").read_text())


def outcomes(report):
    return [(stage["name"], stage["outcome"]) for stage in report["stages"]]


def with_checksums(machine):
    for tool in ("cksum", "xargs"):
        (machine.bin / tool).symlink_to(shutil.which(tool))
    for name in ("CMakeLists.txt", "src/a.c", "kernels/a.h", "include/a.h"):
        machine.add(machine.root / name, "1")
    shutil.copytree(machine.root / "made", machine.root / "build/gpu")
    return machine
