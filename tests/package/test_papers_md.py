# SPDX-License-Identifier: MIT
"""docs/papers.md has a row for every mechanism of the five systems, and every file, test and function that it names is
defined."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "docs/papers.md"
# system: number of mechanisms
SYSTEMS = {"In-GPU replay": 14, "Fast DQN": 12, "GA3C": 12, "Virtual replay cache": 11, "Ape-X": 14}


def sections(text):
    """(title, [cells of each numbered row]) of each section."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in part.splitlines()
                if re.match(r"\| *\d+ *\|", line)]
        yield part.splitlines()[0], rows


def defines(file, name):
    """A function with its body, a test, a kernel, a macro or a struct of this name, outside comments."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return re.search(rf"^ *def {name}\(", text, flags=re.M) is not None
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    forms = (rf"^[A-Za-z_][\w *]*\b{name}\([^;{{}}]*\)\n\{{", rf"^(TEST|GPUR_KERNEL\w*)\({name}(, \w+)?\)\n\{{",
             rf"^#define {name}\b", rf"^(typedef )?struct {name} \{{")
    return any(re.search(form, text, flags=re.M) for form in forms)


def names_exist(where, cell):
    """`path`, or `path: name(), other()` with functions (kernels without their gpur_) defined in that file."""
    for path, functions in re.findall(r"`([^`:]+)(?:: ([^`]+))?`", cell):
        file = ROOT / path
        assert file.is_file(), f"{where}: there is no file {path}"
        for name in re.findall(r"(\w+)\(\)", functions):
            assert defines(file, name), f"{where}: no {name} is defined in {path}"


def main():
    found = {}
    for title, rows in sections(PAPERS.read_text(encoding="utf-8")):
        system = next((name for name in SYSTEMS if title.startswith(name)), None)
        if not system:
            continue
        found[system] = [int(row[0]) for row in rows]
        for number, _, files, tests, state in rows:
            where = f"{system} {number}"
            names_exist(where, files)
            names_exist(where, tests)
            assert state.startswith("not yet: ") or (files and tests), f"{where}: no file or no test"
    for system, count in SYSTEMS.items():
        assert found.get(system) == list(range(1, count + 1)), f"{system}: rows are {found.get(system)}"
    print(f"test_papers_md: {sum(SYSTEMS.values())} mechanisms, every name exists")


main()
