# SPDX-License-Identifier: MIT
"""Each public header compiles alone, as C99 with -pedantic and as C++17, with every compiler that is here; and each is
in the list of gpureplay.h or of gpureplay/run.h.
"""

import os
import re
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


def doors_list_all():
    """The two headers that a program includes list what they include, and every other header is in one of them."""
    listed = []
    for door in ("gpureplay.h", "gpureplay/run.h"):
        text = (INCLUDE / door).read_text(encoding="utf-8")
        included = re.findall(r'^#include "(.*)"$', text, flags=re.M)
        assert included == re.findall(r"^ \*   (gpureplay/\w+\.h)  +\w", text, flags=re.M), f"the list of {door}"
        listed += included
    others = {f"gpureplay/{path.name}" for path in (INCLUDE / "gpureplay").glob("*.h")} - {"gpureplay/run.h"}
    assert sorted(listed) == sorted(others), sorted(set(listed) ^ others)


def main():
    doors_list_all()
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
