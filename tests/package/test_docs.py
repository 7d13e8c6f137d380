# SPDX-License-Identifier: MIT
"""The documents: every C block compiles, those with a main run, and every file and every name of ours that is named or
linked exists. The public headers describe every preset of a run.

usage: test_docs.py FOLDER_OF_libgpureplay.so
A block that opens with ```c is a whole translation unit. Fragments and other languages name something else. A name is
looked for wherever it stands in `code` or in a block of any language: `bash bench/run.sh --quick` names bench/run.sh.
`COMMIT:FILE` is a file of that commit, and not looked for.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted((ROOT / "bench/results").glob("*.md"))]
NAMED = re.compile(r"(?<![\w./<>{}$:-])(?:\./)?((?:src|kernels|include|tests|bench|examples|docs)/[\w./*+-]+)")
WORD = re.compile(r"\b(?:gpur|GPUR|GPUREPLAY)_\w+")
FORMER = "Names that have changed"  # the part of the changelog that may name what is gone
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-function"]


def blocks(text):
    """(line number, code) of each C block."""
    for found in re.finditer(r"^```c\n(.*?)^```$", text, flags=re.S | re.M):
        yield text[: found.start()].count("\n") + 2, found.group(1)


def compile_and_run(where, code, library):
    """A kernel is compiled as kernels/ compiles it, a program as a user's."""
    compiler = os.environ.get("CC", "cc").split()
    has_main = re.search(r"\bint main\(", code)
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "block.c", Path(folder) / "block"
        source.write_text(code, encoding="utf-8")
        paths = [f"-I{ROOT / path}" for path in ("include", "kernels", "src", ".")]
        command = [*compiler, "-std=c11", "-D_GNU_SOURCE", *WARNINGS, *paths, str(source)]
        command += ["-o", str(program), f"-L{library}", "-lgpureplay", f"-Wl,-rpath,{library}", "-lm"] \
            if has_main else ["-fsyntax-only"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{where} does not compile:\n{done.stderr}"
        if has_main:
            done = subprocess.run([str(program)], capture_output=True, text=True, timeout=1000, cwd=folder)
            assert done.returncode == 0, f"{where} exits with {done.returncode}:\n{done.stdout}{done.stderr}"


def names_find_files(path, text):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), f"{path.relative_to(ROOT)}: no file {target}"
    for code in re.findall(r"^```\w*\n(.*?)^```$|`([^`\n]+)`", text, flags=re.S | re.M):
        for named in NAMED.findall("".join(code)):
            assert list(ROOT.glob(named.rstrip("./-"))), f"{path.relative_to(ROOT)}: no file {named}"


def names_are_known(path, text, known):
    """`gpur_replay_x` stands for any, and one that ends in a line is the beginning of several."""
    for word in set(WORD.findall(text.split(FORMER)[0])):
        found = word in known or word.endswith("_x") or word.endswith("_") and any(x.startswith(word) for x in known)
        assert found, f"{path.relative_to(ROOT)}: nothing of ours is named {word}"


def presets_are_described():
    headers = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "include/gpureplay").glob("*.h"))
    names = re.findall(r'{"([\w-]+)", GPUR_PRESET_', (ROOT / "src/run/presets.c").read_text(encoding="utf-8"))
    missing = [name for name in names if f'"{name}"' not in headers]
    assert names and not missing, f"no header in include/gpureplay describes the presets {missing}"


def main():
    count, known = 0, set()
    presets_are_described()
    for folder in ("include", "src", "kernels", "tests", "bench"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".c", ".cc", ".py", ".cmake", ".sh") and path.name != "test_docs.py":
                known.update(WORD.findall(path.read_text(encoding="utf-8")))
    known.update(WORD.findall((ROOT / "CMakeLists.txt").read_text(encoding="utf-8")))
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        names_find_files(path, text)
        names_are_known(path, text, known | set(re.findall(r"^} (\w+);", text, flags=re.M)))
        for line, code in blocks(text):
            compile_and_run(f"{path.relative_to(ROOT)}:{line}", code, sys.argv[1])
            count += 1
    assert count > 0, "no C block in any document"
    print(f"test_docs: {count} C blocks of {len(DOCUMENTS)} documents compile")


main()
