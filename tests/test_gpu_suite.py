# SPDX-License-Identifier: MIT
"""bench/gpu_suite.sh: its parts and their reports, its plan, its dry run, builds that are kept, and what it does when
something fails or it is interrupted.

The GPU, the build and compute-sanitizer are made up (gpu_machine.py)."""

import os
import re
import signal
import subprocess
import tarfile
import time
from pathlib import Path

from gpu_machine import BENCHES, FAILS, PARTS, WAITS, machine_with, outcomes, report_of, run, with_checksums
from machine import expect, run_tests


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
    process group. Returns all it printed."""
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
    expect("interrupted" in printed and not list(machine.root.glob("tmp.*")), machine, printed)
    return printed


def a_stage_is_interrupted():
    for send, sent in ((os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.kill, signal.SIGTERM)):
        with machine_with(bench_append=WAITS) as machine:
            printed = interrupt(machine, send, sent, 1, "--part", "measure")
            report = report_of(machine, "measure")
            wanted = [("the device opens", "passed"), ("bench_device cuda:0", "passed"),
                      ("bench_nodes cuda:0", "passed"), ("bench_append cuda:0", "stopped")]
            expect(outcomes(report) == wanted and report["failed"] == 0, machine, printed)
            expect(printed == (machine.root / "out/report-measure.txt").read_text(), machine, printed)
            expect("began --device cuda:0" in (machine.root / "out/log-measure.txt").read_text(), machine, printed)


def jobs_side_by_side_are_interrupted():
    """Twelve at a time: what compares with the CPU, which is over at once, then compute-sanitizer."""
    checker = WAITS.replace('echo "began', '[ "$3" = --error-exitcode ] || exit 0\necho "began')
    for sent in (signal.SIGINT, signal.SIGTERM):
        with machine_with() as machine:
            machine.add(machine.bin / "compute-sanitizer", checker)
            printed = interrupt(machine, os.killpg, sent, 12, "--part", "prove")
            found = outcomes(report_of(machine, "prove"))
            expect(("test_cross cuda:0", "passed") in found and ("memcheck launch_shape", "stopped") in found, machine,
                   printed)
            expect([outcome for _, outcome in found].count("stopped") == 12, machine, printed)


def each_part_does_its_own_and_keeps_what_others_left():
    with machine_with() as machine:
        for part, stage in (("prove", "test_cross_losses cuda:0"), ("measure", "bench_priority cuda:0"),
                            ("peers", "in-device ahead of in-RAM")):
            status, printed, report = run(machine, "--part", part)
            found = outcomes(report)
            expect(status == 0 and report["part"] == part and (stage, "passed") in found, machine, printed)
            expect((("goals and decisions", "passed") in found) == (part == "measure"), machine, printed)
        status, printed, report = run(machine)
        names = [name for name, _ in outcomes(report)]
        expect(status == 0 and report["part"] == "all" and len(set(names)) == len(names), machine, printed)
        for earlier, later in (("test_cross cuda:0", "bench_device cuda:0"),
                               ("bench_nodes cuda:0", "bench_contest cuda:0"),
                               ("replay beside others", "goals and decisions")):
            expect(names.index(earlier) < names.index(later), machine, printed)
        for part in PARTS:
            expect((machine.root / f"out/report-{part}.txt").exists(), machine, printed)
        for name in ("append", "contest"):
            expect((machine.root / f"out/bench_{name}.json").exists(), machine, printed)
        packed = tarfile.open(machine.root / "out/results.tar.gz").getnames()
        expect("./report-prove.json" in packed and "./bench_contest.json" in packed, machine, printed)
        expect("./results.tar.gz" not in packed and "./log.txt" in packed, machine, printed)


def a_commit_must_be_known():
    with machine_with() as machine:
        machine.environment["GPUREPLAY_COMMIT"] = ""
        status, printed = machine.run("--built", "made", "--out", "out")
        expect(status == 2 and "give it as GPUREPLAY_COMMIT" in printed, machine, printed)
        expect(not (machine.root / "out").exists(), machine, printed)


def a_second_call_keeps_what_the_first_one_found():
    with machine_with() as machine:
        run(machine, "--part", "measure")
        out = machine.root / "out"
        (out / "bench_append.json").write_text("the first")
        first = (out / "report-measure.txt").read_text()
        status, printed, _ = run(machine, "--part", "measure")
        expect((out / "earlier/1/report-measure.txt").read_text() == first, machine, printed)
        expect((out / "earlier/1/bench_append.json").read_text() == "the first", machine, printed)
        expect((out / "bench_append.json").read_text() != "the first" and status == 0, machine, printed)
        machine.add(machine.root / "made/bench/bench_append", FAILS)  # and writes nothing
        status, printed, _ = run(machine, "--part", "measure")
        expect((out / "earlier/2/bench_append.json").exists() and status == 1, machine, printed)


def what_a_gpu_must_show_is_a_stage():
    """All of its figures are told, also where it falls short, and it fails the suite then."""
    figures = 'for i in {1..30}; do echo "figure $i of $*"; done'
    for status, outcome in ((0, "passed"), (1, "failed")):
        python = f'#!/bin/bash\n[ "$1" = -c ] || {{ {figures}; exit {status}; }}\n'
        with machine_with(python3=python) as machine:
            exit_status, printed, report = run(machine, "--part", "peers")
            found, out = outcomes(report), machine.root / "out"
            for name in ("in-device ahead of in-RAM", "train steps beside others", "replay beside others"):
                expect((name, outcome) in found, machine, printed)
            expect(exit_status == status, machine, printed)
            for i in range(1, 31):
                expect(f"figure {i} of bench/contest_checks.py {out}/bench_contest.json" in printed, machine, printed)
            expect(f"passed --device cuda:0 --json {out}/bench_contest.json" in printed, machine, printed)
            for words in ("figure 1 of bench/peers/steps/steps.py --quick --json",
                          "bench_peers_steps.json --device cuda:0",
                          "figure 1 of bench/peers/peers.py --quick --kinds uniform,prioritized --json"):
                expect(words in printed, machine, printed)
            exit_status, printed, report = run(machine, "--part", "measure")
            expect(("goals and decisions", outcome) in outcomes(report) and exit_status == status, machine, printed)
            for i in range(1, 31):
                expect(f"figure {i} of bench/goals.py {out} --json {out}/goals.json" in printed, machine, printed)


def a_failing_stage_is_told_and_the_rest_goes_on():
    with machine_with(test_cross=FAILS, bench_device=FAILS) as machine:
        status, printed, report = run(machine, "--part", "prove")
        told = (machine.root / "out/report-prove.txt").read_text()
        expect(status == 1 and ("test_cross cuda:0", "failed") in outcomes(report), machine, printed)
        expect("    status 3; the last lines:\n    | begins\n" in told and "    | line 30\n" in told, machine, told)
        expect(("test_cross_losses cuda:0", "passed") in outcomes(report) and report["failed"] == 1, machine, printed)
        status, printed, report = run(machine, "--part", "measure")
        expect(("bench_append cuda:0", "passed") in outcomes(report) and status == 1, machine, printed)


def time_that_is_up_is_told():
    with machine_with(bench_device="#!/bin/bash\nsleep 30\n") as machine:
        machine.environment["GPUREPLAY_GPU_SECONDS"] = "2"
        status, printed, report = run(machine, "--part", "measure")
        found = outcomes(report)
        expect(("bench_device cuda:0", "timeout") in found and ("bench_append cuda:0", "late") in found, machine,
               printed)
        expect(status == 1 and "cartpole_dqn cuda:0: left out, since " in printed, machine, printed)
        in_time = [outcome for _, outcome in found if outcome in ("passed", "skipped")]
        expect(report["failed"] == len(found) - len(in_time), machine, printed)


def without_the_device_nothing_else_is_run():
    with machine_with(gpu=False) as machine:
        status, printed, report = run(machine, "--part", "measure")
        expect(status == 1 and "no cuda:0, so nothing to run on it" in printed, machine, printed)
        expect(outcomes(report) == [("the device opens", "failed")], machine, printed)


def a_dry_run_measures_nothing_and_says_so():
    with machine_with(gpu=False) as machine:
        status, printed, report = run(machine, "--dry-run")
        found = dict(outcomes(report))
        expect(status == 0 and report["dry_run"] is True, machine, printed)
        for name in ("the device opens", "in-device ahead of in-RAM", "goals and decisions",
                     "train steps beside others", "cartpole_dqn cuda:0", "for the sanitizer: launch_shape",
                     *(f"bench_{name} cuda:0" for name in BENCHES)):
            expect(found.get(name) == "refused", machine, f"{name}\n{printed}")
        for name in ("test_cross cpu", "soak cpu", "nodes of a step cpu", "the device as cuDNN has it",
                     "bench_device cpu"):
            expect(found.get(name) == "passed", machine, f"{name}\n{printed}")
        expect(printed.startswith("DRY RUN: without a GPU. It measures nothing"), machine, printed)
        expect("\nA dry run: no GPU was used, nothing was measured" in printed, machine, printed)
        expect(not list((machine.root / "out").glob("bench_*.json")), machine, printed)


def a_command_that_does_not_refuse_fails_a_dry_run():
    """One that runs all the same; one that does not know its options; one that fails of something else."""
    for ending in ("echo it ran; exit 0", "echo no such option for cuda:0; exit 2", "echo something is wrong; exit 1"):
        with machine_with(gpu=False, bench_append=f"#!/bin/bash\n{ending}\n") as machine:
            status, printed, report = run(machine, "--dry-run", "--part", "measure")
            expect(status == 1 and ("bench_append cuda:0", "failed") in outcomes(report), machine, printed)
            expect("a dry run's command must find no GPU: status 77, or \"no cuda:0: " in printed, machine, printed)
    with machine_with(gpu=False, bench_append="#!/bin/bash\necho no cuda:0: no driver; exit 2\n") as machine:
        status, printed, report = run(machine, "--dry-run", "--part", "measure")
        expect(status == 0 and ("bench_append cuda:0", "refused") in outcomes(report), machine, printed)
        (machine.root / "made/bench/bench_append").unlink()
        status, _, report = run(machine, "--dry-run", "--part", "measure")
        expect(status == 1 and ("bench_append cuda:0", "missing") in outcomes(report), machine, printed)
        machine.environment["GPUREPLAY_GPU_DEVICE"] = "gpu"
        expect(machine.run("--dry-run")[0] == 2, machine, printed)


def planned(printed):
    """Seconds one after the other, until the last job of twelve places has ended, and of all jobs, by its lines."""
    after, jobs, ends = 0, 0, [0]
    for limit, how, count in re.findall(r"^  \S.*? +(\d+) s(, beside others)?(?:, (\d+) times)?$", printed, flags=re.M):
        for _ in range(int(count or 1) if how else 0):
            ends.append(-(-jobs // 12) + int(limit))
            jobs += int(limit)
        after += 0 if how else int(limit)
    return after, max(ends), jobs


def a_plan_that_does_not_fit_fails_a_dry_run():
    with machine_with(gpu=False) as machine:
        status, printed, _ = run(machine, "--dry-run")
        for part in (*PARTS, "all"):
            expect(f"plan of part {part}, which has " in printed, machine, printed)
        prove = printed[printed.index("plan of part prove"):printed.index("plan of part measure")]
        words = "  at most {} s one after the other, and {} s for {} s of jobs, 12 at a time".format(*planned(prove))
        expect(words in prove, machine, f"{words}\n{printed}")
        expect("compute-sanitizer, a tool, a program   30 s, beside others, 60 times" in printed, machine, printed)
        expect("  configure " in printed and " it must be at most" not in printed, machine, printed)
        machine.environment["GPUREPLAY_GPU_SECONDS"] = "200"
        status, printed, _ = run(machine, "--dry-run", "--part", "peers")
        expect(status == 1 and " s; it must be at most 200" in printed, machine, printed)


def tools_that_cannot_are_left_out():
    """No failure: a machine may refuse compute-sanitizer its GPU, or anybody the counters."""
    refuses = '#!/bin/bash\necho "{}"\nexit 1\n'
    with machine_with() as machine:
        machine.add(machine.bin / "compute-sanitizer", refuses.format("Error: Device not supported"))
        machine.add(machine.bin / "ncu", refuses.format("==ERROR== ERR_NVGPUCTRPERM - The user has no permission"))
        status, printed, report = run(machine, "--part", "prove")
        expect(not status and "compute-sanitizer is left out: Error: Device not" in printed, machine, printed)
        status, printed, report = run(machine, "--part", "measure")
        expect(status == 0 and "ncu is left out: ==ERROR== ERR_NVGPUCTRPERM" in printed and
               "counters of a step's kernels" not in dict(outcomes(report)), machine, printed)
        machine.add(machine.bin / "ncu", "#!/bin/bash\necho dram__bytes_read.sum 17\n")
        status, printed, report = run(machine, "--part", "measure")
        expect(("counters of a step's kernels", "passed") in outcomes(report), machine, printed)
        expect("dram__bytes_read.sum 17" in (machine.root / "out/report-measure.txt").read_text(), machine, printed)
    with machine_with() as machine:
        machine.add(machine.bin / "compute-sanitizer", '#!/bin/bash\n[ "$1" != --tool ] || exit 9\n')
        status, printed, report = run(machine, "--part", "prove")
        expect(status == 1 and ("racecheck launch_shape", "failed") in outcomes(report), machine, printed)
        expect("ncu is neither on the PATH" in run(machine, "--part", "measure")[1], machine, printed)
        machine.add(machine.bin / "compute-sanitizer", '#!/bin/bash\n[ "$1" != --tool ] || sleep 9\n')
        machine.environment["GPUREPLAY_GPU_SECONDS"] = "3"
        _, printed, report = run(machine, "--part", "prove")
        found = list(dict(outcomes(report)).values())
        expect(12 <= found.count("timeout") and report["failed"] == found.count("late"), machine, printed)


def a_build_of_the_same_sources_is_kept():
    with with_checksums(machine_with()) as machine:
        machine.run("--part", "measure", "--out", "out")
        expect(len(machine.calls("cmake --build")) == 1 and "_TIMEOUT=45" in machine.calls("cmake")[0], machine, "")
        for path in machine.root.rglob("*.[ch]"):
            path.touch()  # a copy of the tree is as old as the copying
        status, printed = machine.run("--part", "peers", "--out", "out")
        expect(len(machine.calls("cmake")) == 2 and "which is of these sources" in printed, machine, printed)
        (machine.root / "src/a.c").write_text("2")
        machine.run("--part", "peers", "--out", "out")
        expect(len(machine.calls("cmake --build")) == 2, machine, printed)


def a_build_that_fails_for_one_program_is_used_and_not_kept():
    with with_checksums(machine_with()) as machine:
        machine.environment["FAKE_BUILD"] = "1"
        status, printed = machine.run("--part", "measure", "--out", "out")
        expect(status == 1 and "no build, so nothing to run" in printed, machine, printed)
        (machine.root / "build/gpu/libgpureplay.a").touch()
        status, printed = machine.run("--part", "measure", "--out", "out")
        found = outcomes(report_of(machine, "measure"))
        expect(status == 1 and ("build", "failed") in found and ("bench_append cuda:0", "passed") in found, machine,
               printed)
        expect("    | a word on what is wrong" in printed, machine, printed)
        machine.environment["FAKE_BUILD"] = "0"
        machine.run("--part", "measure", "--out", "out")
        expect(len(machine.calls("cmake --build")) == 3, machine, printed)


run_tests([
    each_part_does_its_own_and_keeps_what_others_left,
    a_commit_must_be_known,
    a_second_call_keeps_what_the_first_one_found,
    what_a_gpu_must_show_is_a_stage,
    a_failing_stage_is_told_and_the_rest_goes_on,
    time_that_is_up_is_told,
    without_the_device_nothing_else_is_run,
    a_dry_run_measures_nothing_and_says_so,
    a_command_that_does_not_refuse_fails_a_dry_run,
    a_plan_that_does_not_fit_fails_a_dry_run,
    tools_that_cannot_are_left_out,
    a_build_of_the_same_sources_is_kept,
    a_build_that_fails_for_one_program_is_used_and_not_kept,
    a_stage_is_interrupted,
    jobs_side_by_side_are_interrupted,
])
