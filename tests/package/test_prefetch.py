# SPDX-License-Identifier: MIT
"""A kernel's function that does nothing but prefetch is still called, by every compiler that is here.

gcc takes such a function for one without effect, and drops calls of it that it does not inline: nothing fails, and
every sample waits for memory. The first argument is the compiler of the build.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HINTS = 4
SOURCE = """
#include "kernels/target/thread.h"
static __attribute__((noinline)) void ask(const char *memory)
{
    for (int i = 0; i < %d; i++)
        WHICH(memory + 64 * i);
}
void walk(const char **memory, int n);
void walk(const char **memory, int n)
{
    for (int i = 0; i < n; i++)
        ask(memory[i]);
}
""" % HINTS


def hints_in(compiler, which):
    command = [compiler, "-x", "c", "-O3", f"-DWHICH={which}", "-I.", "-S", "-", "-o", "-"]
    run = subprocess.run(command, input=SOURCE, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, f"{' '.join(command)} failed:\n{run.stderr}"
    return sum(line.split()[0].startswith("prefetch") for line in run.stdout.splitlines() if line.startswith("\t"))


def main():
    if platform.machine() != "x86_64":
        print(f"skipped: it looks for the instructions of x86_64, and this is {platform.machine()}")
        sys.exit(77)
    compilers = {shutil.which(name) for name in (sys.argv[1], "gcc", "clang")} - {None}
    for compiler in compilers:
        for which in ("gpur_prefetch", "gpur_prefetch_l2"):
            hints = hints_in(compiler, which)
            assert hints == HINTS, f"{compiler} left {hints} of {HINTS} prefetches of {which}"
    print(f"test_prefetch: {', '.join(compilers)}")


main()
