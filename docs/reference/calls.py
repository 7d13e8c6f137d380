# SPDX-License-Identifier: MIT
"""Where a public function is called: in the examples, in blocks of the guides, and where neither calls it, in the
program gpureplay-train, in the package, in benchmarks and in tests, all of which the tests run."""

import ast
import functools
import json
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
FILES_IN_C = ("examples/minimal.c", "examples/*.c", "src/program/*.c", "src/plugins/**/*.c", "bench/**/*.c",
              "tests/**/*.c")
FILES_IN_PYTHON = ("examples/python/*.py", "src/python/gpureplay/*.py", "bench/**/*.py", "tests/**/*.py")
LONGEST = 12  # lines of an excerpt
# A call of a test that is to fail, or to give nothing.
REFUSED = re.compile(r"CHECK_FAILS|REFUSED\(|, (GPUR_[A-Z_]+|NULL|0|-1)\)*;?$")
MAKERS = {"sample": "Batch", "gather": "Batch", "sample_sequences": "SequenceBatch", "policy": "Policy",
          "writer": "Writer", "make_env": "GameEnv", "make_vec": "GameVectorEnv"}  # functions, by what they return


class Source(NamedTuple):
    """The text of a file, or of a block in a guide."""

    file: str
    text: str


class Call(NamedTuple):
    file: str
    text: str
    language: str


def blocks_of(file, language):
    text = (ROOT / file).read_text(encoding="utf-8")
    return [Source(file, found) for found in re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)]


def cells_of(notebook):
    """(whether it is code, its text, what it shows) of each cell."""
    def shown(output):
        return "".join(output.get("text") or output["data"]["text/plain"]).rstrip()

    cells = json.loads((ROOT / notebook).read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"] == "code", "".join(cell["source"]), "\n".join(map(shown, cell.get("outputs", []))))
            for cell in cells]


def notebooks():
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/notebooks/*.ipynb"))


def files(patterns):
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@functools.cache
def sources_in_c():
    first, *others = FILES_IN_C
    guides = [block for guide in GUIDES for block in blocks_of(guide, "c")]
    return [*files([first]), *guides, *files(others)]


@functools.cache
def sources_in_python():
    """With the tree of each."""
    examples, *others = FILES_IN_PYTHON
    guides = [block for guide in GUIDES for block in blocks_of(guide, "python")]
    cells = [Source(notebook, text) for notebook in notebooks() for is_code, text, _ in cells_of(notebook) if is_code]
    found = []
    for source in (*guides, *files([examples]), *cells, *files(others)):
        try:
            found.append((source, ast.parse(source.text)))
        except SyntaxError:  # a block with "..." or a prompt
            continue
    return found


def excerpt(lines, first, last):
    """Lines first to last, counted from 0, as a block of their own, with those beside them that are no empty ones."""
    begin = max((at + 1 for at in range(max(first - 3, 0), first) if not lines[at].strip()), default=max(first - 2, 0))
    end = min((at - 1 for at in range(last + 1, min(last + 3, len(lines))) if not lines[at].strip()), default=last + 2)
    first, last = begin, min(end, len(lines) - 1)
    taken = lines[first:min(last, first + LONGEST - 1) + 1]
    indent = min((len(line) - len(line.lstrip()) for line in taken if line.strip()), default=0)
    return "\n".join(line[indent:] for line in taken)


def statement_in_c(text, at):
    """The lines of the statement or condition around a place."""
    first = max(text.rfind(mark, 0, at) for mark in (";", "{", "}", "*/", "\\\n")) + 1
    depth, last = 0, at
    while last < len(text) and not (depth <= 0 and text[last] in ";{"):
        depth += {"(": 1, ")": -1}.get(text[last], 0)
        last += 1
    first += len(text[first:at]) - len(text[first:at].lstrip())
    return text.count("\n", 0, first), text.count("\n", 0, last)


@functools.cache
def by_name_in_c():
    found = {}
    for source in sources_in_c():
        lines = source.text.splitlines()
        for one in re.finditer(r"\b(gpur_\w+)\(", source.text):
            first, last = statement_in_c(source.text, one.start())
            refused = source.file.startswith("tests/") and bool(REFUSED.search("\n".join(lines[first:last + 1])))
            of_file = found.setdefault(one[1], {})
            if source.file not in of_file or refused < of_file[source.file][0]:
                of_file[source.file] = refused, Call(source.file, excerpt(lines, first, last), "c")
    return {name: [call for _, call in sorted(of_file.values(), key=lambda one: one[0])]
            for name, of_file in found.items()}


def in_c(name):
    """The first call in each file, examples first."""
    calls = by_name_in_c().get(name, [])
    if calls:
        return calls
    return [Call(source.file, text.strip(), "python") for source in files(FILES_IN_PYTHON[1:])
            for text in source.text.splitlines() if f"lib.{name}" in text][:1]


def statements(tree):
    """(statement, call) of each call in the simple statement or the head of the block that it is in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
            for child in inner:
                for call in ast.walk(child):
                    if isinstance(call, ast.Call):
                        yield node, call, bool(getattr(node, "body", None))


def class_of(value, classes):
    """The class that an expression makes: ReplayBuffer(...), ReplayBuffer.for_env(...), buffer.sample(...)."""
    if isinstance(value, ast.Call):
        words = ast.unparse(value.func).split(".")
        return next((word for word in words if word in classes), MAKERS.get(words[-1]))
    return None


def types_in(tree, classes):
    """{"buffer": "ReplayBuffer"} of what is assigned."""
    found = {}
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.withitem) and node.optional_vars:
            pairs = [(node.optional_vars, node.context_expr)]
        for target, value in pairs:
            if kind := class_of(value, classes):
                found[ast.unparse(target)] = kind
    return found


@functools.cache
def by_name_in_python(classes):
    """{(class or None, "sample"): [Call]}. The class is None where an expression does not tell it."""
    found = {}
    for source, tree in sources_in_python():
        lines, types = source.text.splitlines(), types_in(tree, classes)
        for statement, call, is_block in statements(tree):
            words = call.func
            if isinstance(words, ast.Attribute) and words.attr == "remote" and isinstance(words.value, ast.Attribute):
                words = words.value  # a method of Ray's actor
            name = words.attr if isinstance(words, ast.Attribute) else getattr(words, "id", "")
            receiver = words.value if isinstance(words, ast.Attribute) else None
            last = ast.unparse(receiver).split(".")[-1] if receiver else ""
            kind = last if last in classes else receiver and (types.get(ast.unparse(receiver))
                                                              or class_of(receiver, classes))
            one = call if is_block else statement
            text = excerpt(lines, one.lineno - 1, one.end_lineno - 1)
            calls = found.setdefault((kind, name), [])
            if all(other.file != source.file for other in calls):
                calls.append(Call(source.file, text, "python"))
    return found
