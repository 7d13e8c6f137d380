# SPDX-License-Identifier: MIT
"""Where a public function is called: in the examples, in guides, in comments of headers, in docstrings, and besides in
the program gpureplay-train, in the package, in benchmarks and in tests. The tests run or compile all of these."""

import ast
import functools
import json
import re
from pathlib import Path
from typing import NamedTuple

import headers
import plain

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
FILES_IN_C = ("examples/minimal.c", "examples/*.c", "src/program/*.c", "src/plugins/**/*.c", "bench/**/*.c",
              "tests/**/*.c")
FILES_IN_PYTHON = ("examples/python/*.py", "src/python/gpureplay/*.py", "bench/**/*.py", "tests/**/*.py")
LONGEST = 12  # lines of an excerpt
UNFINISHED = (",", "(", "[", "=", "&&", "||", "\\")  # ends of lines on which the next one goes on
# A call of a test that is to fail, or to give nothing.
REFUSED = re.compile(r"CHECK_FAILS|REFUSED\(|, (GPUR_[A-Z_]+|NULL|0|-1)\)*;?$")
# What functions return, by their names.
MAKERS = {"sample": "Batch", "gather": "Batch", "sample_sequences": "SequenceBatch", "policy": "Policy",
          "writer": "Writer", "array": "Array", "make_env": "GameEnv", "make_vec": "GameVectorEnv"}
# What names in docstrings usually are.
USUAL = {"agent": "DQN", "agent.weights": "Weights", "batch": "Batch", "buffer": "ReplayBuffer", "device": "Device",
         "lanes": "LaneBuffer", "policy": "Policy", "run": "Run", "writer": "Writer"}
USUAL_IN = {"jax": {"lanes": "Lanes"}, "sb3": {"buffer": "sb3.ReplayBuffer", "rb": "PrioritizedReplayBuffer"}}
TWICE = {"ReplayBuffer"}  # classes of this name are in two modules


class Source(NamedTuple):
    """The text of a file, or of a block in a guide, a header's comment or a docstring. file: of a comment the name that
    it describes, or "gpureplay/writer.h"; of a docstring "gpureplay.Policy.act"."""

    file: str
    text: str


class Call(NamedTuple):
    """line: where it is in a file, counted from 1; 0: in a block. test: the function of a test that it is in."""

    file: str
    text: str
    language: str
    line: int = 0
    test: str = ""


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


def is_comment(file):
    """Of a header, or a docstring."""
    return file == "gpureplay" or file.startswith(("gpur_", "gpureplay/", "gpureplay."))


def is_example(call):
    return is_comment(call.file) or call.file.startswith(("examples/", "docs/", "README"))


def comments():
    """The blocks of code in the comments of headers."""
    for header in headers.all_headers():
        text, declared = headers.read(header)
        described = {text: header}
        for one in declared:
            described.setdefault(one.comment, one.name or header)
        for comment, name in described.items():
            yield from (Source(name, block) for block in plain.code_in_c(comment))


def docstrings():
    """The blocks of code in the docstrings of the package."""
    for path in sorted((ROOT / "src/python/gpureplay").glob("*.py")):
        module = "gpureplay" + f".{path.stem}" * (not path.stem.startswith("_"))
        waiting = [(module, ast.parse(path.read_text(encoding="utf-8")))]
        for name, node in waiting:
            for piece in plain.pieces(ast.get_docstring(node) or ""):
                if isinstance(piece, str) and plain.language_of(piece) == "python":
                    yield Source(name, piece)
            waiting += [(f"{name}.{one.name}", one) for one in node.body
                        if isinstance(one, (ast.ClassDef, ast.FunctionDef))]


@functools.cache
def sources_in_c():
    first, *others = FILES_IN_C
    guides = [block for guide in GUIDES for block in blocks_of(guide, "c")]
    return [*files([first]), *guides, *files(others[:1]), *comments(), *files(others[1:])]


@functools.cache
def sources_in_python():
    """With the tree of each."""
    examples, *others = FILES_IN_PYTHON
    guides = [block for guide in GUIDES for block in blocks_of(guide, "python")]
    cells = [Source(notebook, text) for notebook in notebooks() for is_code, text, _ in cells_of(notebook) if is_code]
    found = []
    for source in (*guides, *files([examples]), *cells, *docstrings(), *files(others)):
        try:
            found.append((source, ast.parse(source.text)))
        except SyntaxError:  # a block with "..." or a prompt
            continue
    return found


def excerpt(lines, first, last):
    """Lines first to last, counted from 0, as a block of their own, with those beside them that are no empty ones."""
    begin = max((at + 1 for at in range(max(first - 3, 0), first) if not lines[at].strip()), default=max(first - 2, 0))
    end = min((at - 1 for at in range(last + 1, min(last + 3, len(lines))) if not lines[at].strip()), default=last + 2)
    while begin < first and lines[begin - 1].rstrip().endswith(UNFINISHED):
        begin += 1
    while end > last and lines[min(end, len(lines) - 1)].rstrip().endswith(UNFINISHED):
        end -= 1
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
                of_file[source.file] = refused, (
                    Call(source.file, source.text, "c") if is_comment(source.file) else
                    Call(source.file, excerpt(lines, first, last), "c", first + 1))
    return {name: [call for _, call in sorted(of_file.values(), key=lambda one: one[0])]
            for name, of_file in found.items()}


def in_c(name):
    """The first call in each file, examples first."""
    return by_name_in_c().get(name, [])


def statements(tree):
    """(statement, call, whether it is a block) of each call in the simple statement or the head of the block that it is
    in, of each exception that a block handles, and of `close` of what a block closes at its end."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
            for child in inner:
                for call in ast.walk(child):
                    if isinstance(call, ast.Call):
                        yield node, call, bool(getattr(node, "body", None))
        if isinstance(node, ast.With):
            for item in node.items:  # the end of the block closes it
                yield node, ast.copy_location(ast.Call(ast.Attribute(item.context_expr, "close"), [], []),
                                              item.context_expr), True
        if isinstance(node, ast.ExceptHandler) and node.type:
            for one in getattr(node.type, "elts", [node.type]):
                yield node, ast.copy_location(ast.Call(one, [], []), node), True


def class_name(kind):
    """As it is found here: two modules have a ReplayBuffer."""
    return f"sb3.{kind.__name__}" if kind.__module__ == "gpureplay.sb3" and kind.__name__ in TWICE else kind.__name__


def named(word, words, text):
    of_sb3 = word in TWICE and ("sb3" in words or re.search(rf"from gpureplay\.sb3 import[^\n]*\b{word}\b", text))
    return f"sb3.{word}" if of_sb3 else word


def class_of(value, classes, text):
    """The class that an expression makes: ReplayBuffer(...), ReplayBuffer.for_env(...), buffer.sample(...)."""
    if isinstance(value, ast.Call):
        words = ast.unparse(value.func).split(".")
        return next((named(word, words, text) for word in words if word in classes), MAKERS.get(words[-1]))
    return None


def types_in(tree, classes, text):
    """{"buffer": "ReplayBuffer"} of what is assigned."""
    found = {}
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.withitem) and node.optional_vars:
            pairs = [(node.optional_vars, node.context_expr)]
        for target, value in pairs:
            if kind := class_of(value, classes, text):
                found[ast.unparse(target)] = kind
    return found


def test_of(tree, line):
    return next((node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
                 and node.lineno <= line <= node.end_lineno), "")


@functools.cache
def by_name_in_python(classes):
    """{(class or None, "sample"): [Call]}. The class is None where an expression does not tell it."""
    found, of_file = {}, {}
    for source, tree in sources_in_python():
        types = of_file.setdefault(source.file, {})  # a block of a guide goes on from those before
        types.update(types_in(tree, classes, source.text))
        if is_comment(source.file):
            types = {**USUAL, **USUAL_IN.get(source.file.partition(".")[2].partition(".")[0], {}), **types}
        lines = source.text.splitlines()
        for statement, call, is_block in statements(tree):
            words = call.func
            if isinstance(words, ast.Attribute) and words.attr == "remote" and isinstance(words.value, ast.Attribute):
                words = words.value  # a method of Ray's actor
            name = words.attr if isinstance(words, ast.Attribute) else getattr(words, "id", "")
            receiver = words.value if isinstance(words, ast.Attribute) else None
            before = ast.unparse(receiver).split(".") if receiver else [""]
            kind = named(before[-1], before, source.text) if before[-1] in classes else \
                receiver and (types.get(ast.unparse(receiver)) or class_of(receiver, classes, source.text))
            one = call if is_block else statement
            text = source.text if is_comment(source.file) else excerpt(lines, one.lineno - 1, one.end_lineno - 1)
            calls = found.setdefault((kind, name), [])
            if all(other.file != source.file for other in calls):
                calls.append(Call(source.file, text, "python", one.lineno, test_of(tree, one.lineno)))
    return found
