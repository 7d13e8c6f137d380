# SPDX-License-Identifier: MIT
"""The layout of the sources: which layer may include which, where CUDA may be named, and how long lines may be."""

import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("src", "kernels", "include", "tests", "bench", "examples")
SRC = ["src/base", "src/env", "src/device", "src/file", "src/replay", "src/learn", "src/run", "src/train"]
# A layer, and all that it may reach by includes, itself included.
BELOW = {
    "kernels": ["kernels", "include"],
    "src/base": ["src/base", "include"],
    "src/env": ["src/env", "src/base", "include"],
    "src/device": ["src/device", "src/base", "include", "kernels"],
    "src/file": ["src/file", "src/device", "src/base", "include", "kernels"],
    "src/replay": ["src/replay", "src/file", "src/device", "src/base", "include", "kernels"],
    "src/learn": ["src/learn", "src/replay", "src/file", "src/device", "src/base", "include", "kernels"],
    "src/run": [*SRC[:-1], "include", "kernels"],
    "src/train": [*SRC, "include", "kernels"],
    "src/program": ["src/program", "include"],
    "src/python": ["src/python", "include"],
    "src/plugins": ["src/plugins", "include"],
    "include": ["include"],
    "examples": ["examples", "include"],
    "bench/lib": ["bench/lib", "include"],
    "bench/replay": ["bench/replay", "bench/lib", "include"],
    "bench/compare": ["bench/compare", "bench/lib", "include"],
    "bench/train": ["bench/train", "bench/compare", "bench/lib", "examples", "include"],
    "bench/run": ["bench/run", "bench/lib", *SRC, "include", "kernels"],
    "bench/device": ["bench/device", "bench/lib", *SRC, "include", "kernels"],
    "tests": ["tests", "examples", *SRC, "include", "kernels"],
}
CUDA_NAMES = re.compile(r"#include [<\"](cuda|cublas|cudnn|curand)|\b(cuda|cublas|cudnn)[A-Z]\w+\(")
CUDA_FILES = re.compile(r"^src/device/cuda/|^kernels/(cuda\.cu|target/cuda\.h)$")
SOURCES = (".c", ".h", ".cc", ".cu")
TEXTS = (".py", ".sh", ".cmake", ".md", ".txt")
LONGEST = 120  # characters of a line


def files(folder):
    return [path for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def found_include(path, quote, name):
    """The file of ours that an include means, or None. Standard and system headers, in angle brackets, are nobody's."""
    beside = [path.parent, ROOT / "tests", ROOT / "tests/support", ROOT / "tests/reference"] if quote == '"' else []
    for base in (*beside, ROOT / "src", ROOT / "include", ROOT):
        if (base / name).is_file():
            return (base / name).resolve().relative_to(ROOT).as_posix()
    assert quote == "<", f"{path.relative_to(ROOT)}: includes \"{name}\", which is no file of ours"
    return None


@functools.cache
def includes(here):
    path = ROOT / here
    found = re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', path.read_text(encoding="utf-8"), flags=re.M)
    return [there for there in (found_include(path, *one) for one in found) if there]


def reached(here):
    """(file, one path to it) of all that a file includes, and what that includes."""
    paths, left = {here: ()}, [here]
    while left:
        by = left.pop()
        for there in includes(by):
            if there not in paths:
                paths[there] = (*paths[by], by)
                left.append(there)
    return [(there, path) for there, path in paths.items() if path]


def holds_kernels(here):
    """src/ sees argument structs and pure functions (Philox, schedules) of kernels/, but never a kernel."""
    text = (ROOT / here).read_text(encoding="utf-8")
    return here == "kernels/all.h" or re.search(r"^GPUR_KERNEL(_OF|_COOPERATIVE)?\(", text, flags=re.M) is not None


def layer_of(here):
    """The innermost layer of a file."""
    layers = [layer for layer in BELOW if here.startswith(layer + "/")]
    assert layers, f"{here}: is in no layer; those are {', '.join(BELOW)}"
    return max(layers, key=len)


def includes_go_downward(here):
    layer = layer_of(here)
    for there, path in reached(here):
        words = " -> ".join((*path, there))
        assert layer_of(there) in BELOW[layer], f"{words}: not for {layer} to see"
        if there.startswith("kernels/") and layer.startswith(("src/", "bench/device")):
            assert not holds_kernels(there), f"{words}: {layer} must not see kernels"


def folders_have_no_circles():
    """Of folders beside each other. A folder above others has what they share, such as the handle of a replay, and the
    lists of them all, so it includes them and they include it."""
    arrows = {}
    for path in (path for folder in TOPS[:3] for path in files(folder) if path.suffix in SOURCES):
        here = path.relative_to(ROOT)
        there = {Path(name).parent for name in includes(here.as_posix())} - {here.parent, *here.parents}
        arrows.setdefault(here.parent, set()).update(each for each in there if here.parent not in each.parents)
    while free := {folder for folder, reached_by in arrows.items() if not reached_by & arrows.keys()}:
        arrows = {folder: there for folder, there in arrows.items() if folder not in free}
    assert not arrows, f"folders that include each other: {', '.join(sorted(map(str, arrows)))}"


def cuda_stays_in_its_files():
    for folder in ("src", "kernels", "include", "bench"):
        for path in files(folder):
            here = path.relative_to(ROOT).as_posix()
            if path.suffix in (".c", ".h", ".cu") and not CUDA_FILES.search(here):
                code = re.sub(r"/\*.*?\*/|//.*", "", path.read_text(encoding="utf-8"), flags=re.S)
                assert not CUDA_NAMES.search(code), f"{here}: names CUDA"


def lines_fit():
    """All but the rows of tables in Markdown, which cannot be broken."""
    texts = [path for folder in (*TOPS, "docs") for path in files(folder) if path.suffix in (*SOURCES, *TEXTS)]
    for path in (*texts, ROOT / "README.md", ROOT / "CMakeLists.txt"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= LONGEST or (path.suffix == ".md" and line.startswith("|")), \
                f"{path.relative_to(ROOT)}:{number}: {len(line)} characters; a line has at most {LONGEST}"


def main():
    for folder in TOPS:
        for path in files(folder):
            if path.suffix in SOURCES:
                includes_go_downward(path.relative_to(ROOT).as_posix())
    folders_have_no_circles()
    cuda_stays_in_its_files()
    lines_fit()
    print("test_layers: includes go downward, and lines fit")


main()
