# SPDX-License-Identifier: MIT
"""usage: test_cuda_ptx.py KERNELS SCRATCH CURAND_INCLUDE_DIR NVCC ARGUMENT...

Checks the PTX of the CUDA kernels, compiled for compute capability 9.0 with the build's flags and source lines: how
they begin as dependent launches, which a GPU may schedule before the previous kernel has ended; how kernels with a
grid sync read memory; and that the toolkit's own Philox is included. Needs no GPU."""

import re
import subprocess
import sys
from pathlib import Path

WAIT, LET = "griddepcontrol.wait", "griddepcontrol.launch_dependents"

HEADER = "curand_philox4x32_x.h"


def ptx_of(kernels, scratch, command):
    words = [word for word, before in zip(command, ["", *command]) if "-gencode" not in (word, before)]
    words = [word for word in words if not word.startswith("-gencode=")]
    out = Path(scratch)
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*words, "-arch=compute_90", "-ptx", f"{kernels}/cuda.cu", "-o", str(out)], check=True)
    text = out.read_text(encoding="utf-8", errors="replace")
    out.unlink()
    return text


def cooperative_kernels(kernels):
    text = (Path(kernels) / "kernels.h").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(r"#define GPUR_COOPERATIVE_KERNEL_LIST\(X\)(.*)", text)
    assert line, "kernels.h has no GPUR_COOPERATIVE_KERNEL_LIST"
    return set(re.findall(r"X\((\w+)\)", line[1]))


def prepared_kernels(kernels):
    """Those that compute from their arguments before they wait."""
    texts = [path.read_text(encoding="utf-8") for path in Path(kernels).rglob("*.h")]
    names = {name for text in texts for name in re.findall(r"^GPUR_KERNEL_PREPARED\w*\((\w+)", text, flags=re.M)}
    assert names, "no kernel is prepared"
    return names


def lines_of(body):
    return [line for line in (re.sub(r"//.*", "", line).strip() for line in body.splitlines()) if line]


def instructions(body):
    """Yields the opcodes, but for those that compute an address in the thread's own memory (%SPL)."""
    for code in lines_of(body):
        if re.match(r"(add\.u64\s+%rd\d+, %SPL, \d+|cvta\.local\.u64\s+%SP, %SPL);", code):
            continue
        if not code.startswith((".", "{", "}", "(", ")")) and not re.match(r"[$\w]+:$", code):
            yield re.sub(r"^@!?%\w+\s+", "", code).split()[0].rstrip(";")


def check_arguments_alone(kernel, before, text):
    """`before`: the opcodes before the wait; `text`: their lines. They read arguments and what is of the thread alone,
    write only the latter, and every branch leads to a place before the wait."""
    reads = ("ld.param", "ld.const", "ld.local", "st.local")
    memory = [code for code in before if code.startswith(("ld", "st", "atom", "red", "cp.", "bar", "fence", "membar"))]
    strange = [code for code in memory if not code.startswith(reads)]
    strange += [code for code in before if code.startswith(("ret", "exit", "call", "brx"))]
    assert not strange, f"kernel {kernel} does more than to compute from its arguments before it waits: {strange}"
    labels = {match[1] for line in text if (match := re.match(r"([$\w]+):$", line))}
    targets = {match[1] for line in text if (match := re.search(r"\bbra(?:\.uni)?\s+([$\w]+);", line))}
    assert targets <= labels, f"kernel {kernel}: branches lead past its wait, to {sorted(targets - labels)}"


def check_begin(kernel, opcodes, is_cooperative, prepared):
    """Before the wait nothing is read or written, and no branch skips it. `prepared`: the lines before the wait of a
    kernel that computes from its arguments there; else None."""
    assert WAIT in opcodes, f"kernel {kernel} does not wait for what it follows"
    before = opcodes[:opcodes.index(WAIT)]
    if prepared is None:
        strange = [code for code in before if not code.startswith(("mov.", "cvt.", "ld.param", LET))]
        assert not strange, f"kernel {kernel} does more than to prepare before it waits: {strange}"
    else:
        check_arguments_alone(kernel, before, prepared)
    assert opcodes.count(LET) == (0 if is_cooperative else 1), f"kernel {kernel}: {opcodes.count(LET)} times {LET}"
    assert is_cooperative or LET in before, f"kernel {kernel} waits before it lets its follower begin"


def check_grid_sync(kernel, opcodes):
    """No load goes through the read-only cache (.nc), which may hold stale values of what other blocks write."""
    stale = [code for code in opcodes if ".nc" in code]
    assert not stale, f"kernel {kernel} has a grid sync, and reads past what others write: {stale}"


def main():
    kernels, scratch, curand, *command = sys.argv[1:]
    text = ptx_of(kernels, scratch, command)
    cooperative, prepared = cooperative_kernels(kernels), prepared_kernels(kernels)
    files = {number: Path(name) for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, flags=re.M)}
    entries = dict(re.findall(r"\.entry gpur_(\w+)_cuda_entry\((.*?)^\}", text, flags=re.M | re.S))
    assert cooperative and cooperative <= entries.keys(), f"{sorted(cooperative - entries.keys())} were not compiled"
    toolkits = [path for path in files.values() if path.name.startswith("curand")]
    assert [path.name for path in toolkits] == [HEADER], f"of curand: {toolkits}; wanted {HEADER} alone"
    assert toolkits[0].resolve() == (Path(curand) / HEADER).resolve(), f"{toolkits[0]}; wanted the one in {curand}"
    for kernel, body in entries.items():
        code = body.partition("{")[2]
        opcodes = list(instructions(code))
        begin = lines_of(code.partition(WAIT)[0]) if kernel in prepared else None
        check_begin(kernel, opcodes, kernel in cooperative, begin)
        if kernel in cooperative:
            check_grid_sync(kernel, opcodes)
    print(f"test_cuda_ptx: {len(entries)} kernels, {len(cooperative)} of which are cooperative")


main()
