# SPDX-License-Identifier: MIT
"""The house: which floor may include which, where CUDA may be named, how long files and functions may be."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A floor, and all that it may include, itself included. Standard and system headers are in angle brackets.
BELOW = {
    "kernels": ["kernels"],
    "src/base": ["src/base", "include"],
    "src/device": ["src/device", "src/base", "include", "kernels"],
    "src/replay": ["src/replay", "src/device", "src/base", "include", "kernels"],
    "src/learn": ["src/learn", "src/replay", "src/device", "src/base", "include", "kernels"],
    "include": ["include"],
    "examples": ["examples", "include"],
    "bench": ["bench", "include"],
    "bench/device": ["bench", "src", "include", "kernels"],
}
CUDA_NAMES = re.compile(r"#include [<\"](cuda|cublas|cudnn|curand)|\b(cuda|cublas|cudnn)[A-Z]\w+\(")
CUDA_FILES = re.compile(r"_cuda\.[ch]$|^kernels/(cuda\.cu|target_cuda\.h)$")
SUFFIXES = (".c", ".h", ".cc", ".cu", ".py", ".sh", ".cmake", ".in")


def files(folder):
    return [path for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def found_include(path, name):
    """The file of ours that an include in quotes means, or None."""
    for base in (path.parent, ROOT / "src", ROOT / "include", ROOT):
        if (base / name).is_file():
            return (base / name).resolve().relative_to(ROOT).as_posix()
    return None


def holds_kernels(here):
    """src/ sees argument structs and pure functions (Philox, schedules) of kernels/, but never a kernel."""
    text = (ROOT / here).read_text(encoding="utf-8")
    return here == "kernels/all.h" or re.search(r"^GPUR_KERNEL\(", text, flags=re.M) is not None


def floor_of(here):
    """The innermost floor that a file lies on."""
    return max((floor for floor in BELOW if here.startswith(floor + "/")), key=len)


def includes_go_downward(floor, allowed):
    for path in files(floor):
        here = path.relative_to(ROOT).as_posix()
        if path.suffix not in (".c", ".h", ".cu") or floor_of(here) != floor:
            continue
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), flags=re.M):
            there = found_include(path, name)
            assert there, f"{here}: includes \"{name}\", which is no file of ours"
            assert there.startswith(tuple(part + "/" for part in allowed)) or there == "include/gpureplay.h", \
                f"{here}: {floor} must not include {there}"
            if there.startswith("kernels/") and floor.startswith(("src/", "bench/device")):
                assert not holds_kernels(there), f"{here}: includes kernels with {there}"


def cuda_stays_in_its_files():
    for folder in ("src", "kernels", "include"):
        for path in files(folder):
            here = path.relative_to(ROOT).as_posix()
            if path.suffix in (".c", ".h", ".cu") and not CUDA_FILES.search(here):
                code = re.sub(r"/\*.*?\*/|//.*", "", path.read_text(encoding="utf-8"), flags=re.S)
                assert not CUDA_NAMES.search(code), f"{here}: names CUDA"


def files_are_short_and_licensed():
    count = 0
    for folder in ("src", "kernels", "include", "tests", "bench", "examples"):
        for path in files(folder):
            if not path.name.endswith(SUFFIXES) and path.name != "CMakeLists.txt":
                continue
            here, lines = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8").splitlines()
            assert any("SPDX-License-Identifier: MIT" in line for line in lines[:2]) or path.name.endswith(".pc.in"), \
                f"{here}: no licence line"
            assert len(lines) <= 300, f"{here}: {len(lines)} lines; at most 300"
            for number, line in enumerate(lines, 1):
                assert "\t" not in line and line == line.rstrip(), f"{here}:{number}: a tab, or a space at the end"
            count += 1
    return count


def functions_are_short():
    """Nine in ten under 40 lines, none over 80, from the line of the opening brace to that of the closing one."""
    lengths = {}
    for folder in ("src", "kernels", "bench", "examples", "tests"):
        for path in files(folder):
            if path.suffix in (".c", ".h", ".cc", ".cu"):
                lines = path.read_text(encoding="utf-8").splitlines()
                opened = 0
                for number, line in enumerate(lines, 1):
                    if line == "{":
                        opened = number
                    elif line == "}" and opened:
                        lengths[f"{path.relative_to(ROOT)}:{opened}"] = number - opened + 1
                        opened = 0
    longest = max(lengths, key=lengths.get)
    assert lengths[longest] <= 80, f"{longest}: a function of {lengths[longest]} lines; at most 80"
    long = [where for where, length in lengths.items() if length >= 40]
    assert len(long) <= len(lengths) / 10, f"{len(long)} of {len(lengths)} functions have 40 lines or more: {long}"
    return len(lengths)


def main():
    for floor, allowed in BELOW.items():
        includes_go_downward(floor, allowed)
    cuda_stays_in_its_files()
    print(f"test_floors: {files_are_short_and_licensed()} files in their place, {functions_are_short()} functions")


main()
