# SPDX-License-Identifier: MIT
"""usage: test_cuda_entries.py KERNELS SCRATCH NVCC ARGUMENT...

Checks the PTX of the CUDA kernels: how they begin as dependent launches, which a GPU may schedule before the previous
kernel has ended; how cooperative kernels synchronize and read memory; and how many loads some have in flight before
they store. Compiles kernels/cuda.cu for compute capability 9.0 with the build's flags. Needs no GPU."""

import re
import subprocess
import sys
from pathlib import Path

WAIT, LET = "griddepcontrol.wait", "griddepcontrol.launch_dependents"

# A kernel that waits for each load pays the memory latency for every few bytes. These kernels must have this many loads
# in flight before they store: four units, with a load instruction for each of five sizes; a frame for each of eight
# positions; eight rows of dy and y.
LOADS_AT_ONCE = {"gather": 20, "scatter": 20, "gather_frames": 8, "layer_backward": 16, "channel_backward": 16}

# Kernels for the heads of a DQN, which need no exponentials: code for other heads in them would be fetched for nothing.
VALUE_HEADS = {"td_error", "explore"}


def ptx_of(kernels, scratch, command):
    words = [word for word, before in zip(command, ["", *command]) if "-gencode" not in (word, before)]
    Path(scratch).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*words, "-arch=compute_90", "-ptx", f"{kernels}/cuda.cu", "-o", scratch], check=True)
    text = Path(scratch).read_text(encoding="utf-8", errors="replace")
    Path(scratch).unlink()
    return text


def kernels_that_meet(kernels):
    text = (Path(kernels) / "kernels.h").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(r"#define GPUR_MEETING_KERNEL_LIST\(X\)(.*)", text)
    assert line, "kernels.h has no GPUR_MEETING_KERNEL_LIST"
    return set(re.findall(r"X\((\w+)\)", line[1]))


def instructions(body):
    """Yields the opcodes, and labels unchanged."""
    for line in body.splitlines():
        code = re.sub(r"//.*", "", line).strip()
        if re.match(r"[$\w]+:$", code):
            yield code
        elif code and not code.startswith((".", "{", "}", "(", ")")):
            yield re.sub(r"^@!?%\w+\s+", "", code).split()[0].rstrip(";")


def check_begin(kernel, opcodes, meets):
    """Before the wait nothing is read or written, and no branch skips it."""
    assert WAIT in opcodes, f"kernel {kernel} does not wait for what it follows"
    before = opcodes[:opcodes.index(WAIT)]
    strange = [code for code in before if not code.startswith(("mov.", "cvt.", "ld.param", LET))]
    assert not strange, f"kernel {kernel} does more than to prepare before it waits: {strange}"
    assert opcodes.count(LET) == (0 if meets else 1), f"kernel {kernel}: {opcodes.count(LET)} times {LET}"
    assert meets or LET in before, f"kernel {kernel} waits before it lets its follower begin"


def loads_at_once(opcodes):
    """Returns the longest run of loads from device memory with no store and no barrier between them."""
    most = run = 0
    for code in opcodes:
        if code.startswith("ld.global"):
            run += 1
            most = max(most, run)
        elif code.startswith(("st.global", "bar.", "barrier.")):
            run = 0
    return most


def check_meeting(kernel, opcodes):
    """The cluster barrier is relaxed, as a fence of one thread covers its block's writes; and no load goes through the
    read-only cache (.nc), which may hold stale values of what other blocks write."""
    arrivals = {code for code in opcodes if code.startswith("barrier.cluster.arrive")}
    assert arrivals == {"barrier.cluster.arrive.relaxed.aligned"}, f"kernel {kernel} arrives at a cluster by {arrivals}"
    stale = [code for code in opcodes if ".nc" in code]
    assert not stale, f"kernel {kernel} meets, and reads past what others write: {stale}"


def main():
    kernels, scratch, *command = sys.argv[1:]
    text, meeting = ptx_of(kernels, scratch, command), kernels_that_meet(kernels)
    entries = re.findall(r"\.entry gpur_(\w+)_cuda_entry\((.*?)^\}", text, flags=re.M | re.S)
    found = {kernel for kernel, _ in entries}
    assert meeting and meeting <= found, f"of the kernels that meet, {sorted(meeting - found)} were not compiled"
    assert LOADS_AT_ONCE.keys() <= found, f"{sorted(LOADS_AT_ONCE.keys() - found)} were not compiled"
    for kernel, body in entries:
        opcodes = list(instructions(body.partition("{")[2]))
        check_begin(kernel, opcodes, kernel in meeting)
        if kernel in meeting:
            check_meeting(kernel, opcodes)
        exponentials = [code for code in opcodes if code.startswith("ex2")]
        assert kernel not in VALUE_HEADS or not exponentials, f"kernel {kernel} has heads that it never sees"
        loads, wanted = loads_at_once(opcodes), LOADS_AT_ONCE.get(kernel, 0)
        assert loads >= wanted, f"kernel {kernel} has {loads} loads on their way before it stores; wanted {wanted}"
    print(f"test_cuda_entries: {len(entries)} kernels, {len(meeting)} of which meet")


main()
