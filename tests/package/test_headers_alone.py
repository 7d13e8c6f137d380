# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C99 with -pedantic and as C++17, with every compiler that is here."""

import os
import shutil
import subprocess
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


def compilers(*names):
    return sorted({shutil.which(name) for name in names if name} - {None})


def compiles(compiler, flags, header):
    command = [compiler, *flags, *WARNINGS, f"-I{INCLUDE}", "-fsyntax-only", "-"]
    run = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)
    assert run.returncode == 0, f"{' '.join(command)} refuses {header}:\n{run.stderr}"


def main():
    headers = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))
    assert len(headers) >= 6, headers
    c = compilers(os.environ.get("CC"), "gcc", "clang", "cc")
    cxx = compilers(os.environ.get("CXX"), "g++", "clang++")
    assert c, "no C compiler by the names CC, gcc, clang or cc"
    for header in headers:
        for compiler in c:
            compiles(compiler, ["-x", "c", "-std=c99"], header)
        for compiler in cxx:
            compiles(compiler, ["-x", "c++", "-std=c++17"], header)
    print(f"test_headers_alone: {len(headers)} headers with {', '.join(c + cxx)}")


main()
