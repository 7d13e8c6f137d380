# SPDX-License-Identifier: MIT
"""bench_nodes and bench_device, all of them in their quick form: every case is there, on a device that has it with its
time, on another as absent with the reason; what is compared is equal; a device that is not here is refused.

usage: test_bench_device.py bench_nodes bench_device
       test_bench_device.py bench_nodes cuda:0          on that device, which may have a case or not
"""

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

NODES, SECOND = sys.argv[1:3]


def each(form, *lists):
    return [form.format(*values) for values in itertools.product(*lists)]


def nodes_here():
    sizes = ("256 B", "64 KB", "16 MB")
    return [
        *each("recorded chain of {}, 32 repetitions, unroll {}", (1, 8, 64, 512), (1, 8)),
        "launches outside a recording", "event recorded, host waits", "two streams wait for each other",
        *each("32 rounds of {} nodes, unrolled", (1, 14)),
        *each("pinned host, read by a kernel, {}", sizes),
        *each("pinned host to device, {}", sizes), *each("device to pinned host, {}", sizes),
        "pinned host to device, waited for, 256 B", "device to pinned host, waited for, 256 B",
        "within the device, read and written, 64 MB", "fill, 64 MB",
        *each("{} rows of 228 B to the device, {}", (64, 1024, 4096), ("packed", "padded to 256 B each by the host")),
        "64 pieces of 4 KB to the device, a call each",
    ]


def nodes_of_cuda():
    grids = (16, 66, 132)
    return [
        *each("recorded chain of {}, 32 repetitions, unroll 8, dependent launches", (1, 8, 64, 512)),
        *each("32 rounds of {} nodes, WHILE and one node more", (1, 14)),
        "chain of 32, an IF that is not taken behind each",
        *each("meet: cluster of {} blocks", (2, 4, 8, 16)), *each("meet: grid of {} blocks", grids),
        *each("grid barrier {}, {} blocks", ("of cooperative groups", "by hand"), grids),
        *each("{} rows of 228 B to the device, spread to 256 B each by the copy", (64, 1024, 4096)),
        "64 pieces of 4 KB to the device, one call",
    ]


def products():
    small = ("27 -> 128", "128 -> 1024", "512 -> 1", "512 -> 5", "weights of 27 -> 128", "weights of 128 -> 1024",
             "weights of 512 -> 1", "weights of 512 -> 5", "inputs of 128 -> 1024", "inputs of 512 -> 1",
             "inputs of 512 -> 5")
    nature = ("3136 -> 512", "weights of 3136 -> 512", "inputs of 3136 -> 512")
    return each("{}, batch {}, fp32", small, (32, 1024)) + each("{}, batch 32, fp32", nature)


def device_here():
    rows = (32, 1024, 4096)
    return [
        *each("draw + gather {} rows of 1,000,000{}, recorded", rows, ("", " by priority")),
        *each("gather: {} rows {} B apart", rows, (228, 240, 256)),
        *each("pixels, {} transitions: {}", (32, 512),
              ("frames to bytes", "bytes to bfloat16", "frames to bytes to bfloat16",
               "frames to bfloat16 in one kernel")),
        *each("{} {} of 1 M by priority, recorded", ("draw", "update"), rows),
        *STEPS, *products(),
    ]


def device_of_cuda():
    shapes = ("cluster of 8", "cluster of 16", "grid of 16", "grid of 66", "grid of 132")
    steps = ("unroll 1", "unroll 32", "unroll 8, dependent launches", "unroll 32, dependent launches",
             *each("one kernel, {}", shapes))
    return [
        *each("bare probe: {} rows {} B apart", (32, 1024, 4096), (228, 240, 256)),
        *each("pixels, {} transitions: frames to bfloat16, bare probe", (32, 512)),
        *each("melee-gpu step, batch {}, fp32, {}", (32, 256, 1024), steps),
        *each("melee-gpu step, batch {}, fp32, one kernel", (256, 1024)),
        *each("melee-gpu step, batch {}, tf32, {}", (32, 256, 1024), ("unroll 8", "unroll 32, dependent launches")),
        *each("nature-dueling step, batch {}, bf16, unroll 8{}", (32, 512), ("", ", dependent launches")),
        *each("melee-gpu step, batch 256, fp32, L2 {}", ("as it is", "window")),
        *each("draw 4096 of 16 M by priority, L2 {}", ("as it is", "window")),
        "matrix products by graphs of cuDNN's",
    ]


STEPS = [*each("melee-gpu step, batch {}, fp32, unroll 8", (32, 256, 1024)),
         "melee-gpu step, batch 32, fp32, one kernel"]
EQUAL = [*each("{}: steps, skipped, loss", STEPS),
         "leaves of 1 M, here and on the CPU", "sums above them of 1 M, here and on the CPU",
         "draws of 1 M, here and on the CPU", "pixels, numbers of two kernels and of one"]


def run(program, *options):
    return subprocess.run([program, *options], capture_output=True, text=True, timeout=280, check=False)


def check_figure(case):
    assert 0 < case["min"] <= case["low"] <= case["seconds"] <= case["high"] <= case["max"], case
    assert case["runs"] == len(case["samples"]) >= 6 and case["items"] >= 1, case


def check_names(found, wanted, what):
    missing, strange = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    assert not missing and not strange, f"{what}: not there {missing}; not known {strange}"
    assert len(found) == len(set(found)), f"{what}: a name stands for two cases"


def cases_of(program, device):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        done = run(program, "--quick", "--rounds", "6", "--device", device, "--json", str(path))
        assert done.returncode == 0, f"{program}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        report = json.loads(path.read_text(encoding="utf-8"))
        cases = report["cases"]
        assert report["interrupted"] == 0, f"{program}: not at its end"
    for case in cases:
        assert len(case.get("absent", "a reason")) > 3 and case["name"] in done.stdout, case
        assert "failed" not in case and case.get("differ", 0) == 0 and case.get("of", 1) > 0, case
        if "seconds" in case:
            check_figure(case)
    return cases


def names_with(cases, key):
    return [case["name"] for case in cases if key in case]


def check_on_cpu(program, here, of_cuda, equal):
    cases = cases_of(program, "cpu")
    check_names(names_with(cases, "seconds"), here, "measured")
    check_names(names_with(cases, "absent"), of_cuda, "absent")
    check_names(names_with(cases, "differ"), equal, "compared")
    return len(cases)


def check_nodes_on(device):
    """All that lies on the host's side of CUDA goes to its end; only what CUDA itself is asked may be missing."""
    cases = cases_of(NODES, device)
    size = ", 240 MB" if "fill, 240 MB" in names_with(cases, "seconds") else ", 64 MB"  # as it has memory
    here = [name.replace(", 64 MB", size) for name in nodes_here()]
    check_names(names_with(cases, "seconds") + names_with(cases, "absent"), here + nodes_of_cuda(), "all")
    missing = set(here) - set(names_with(cases, "seconds"))
    assert not missing, f"not measured: {sorted(missing)}"
    return len(cases)


def a_killed_run_leaves_a_whole_file(program):
    """Killed in the middle of a case: what was done before it is there, and that it did not end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [program, "--quick", "--rounds", "6", "--device", "cpu", "--json", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            names = [line.split("  ")[0] for line in itertools.islice(running.stdout, 7)][4:]
            running.kill()
        report = json.loads(path.read_text(encoding="utf-8"))
    found = [case["name"] for case in report["cases"]]
    assert found[:3] == names and report["interrupted"] == 1, (names, found, report["interrupted"])


def a_device_that_is_not_here_is_refused(program):
    done = run(program, "--quick", "--device", "cuda:99")
    assert done.returncode == 77 and "cuda:99" in done.stderr and not done.stdout, (done, done.stdout)


def main():
    if SECOND.startswith("cuda:"):
        count = check_nodes_on(SECOND)
    else:
        count = check_on_cpu(NODES, nodes_here(), nodes_of_cuda(), [])
        count += check_on_cpu(SECOND, device_here(), device_of_cuda(), EQUAL)
        for program in (NODES, SECOND):
            a_device_that_is_not_here_is_refused(program)
            a_killed_run_leaves_a_whole_file(program)
    print(f"test_bench_device: {count} cases")


main()
