# SPDX-License-Identifier: MIT
"""Comments of headers and docstrings, which are plain text, as reStructuredText: paragraphs, lists of names with what
they mean, "- " lists, and what is indented by four or more, which stays as it is. Names that are known become links."""

import ast
import re
import textwrap

WORD = re.compile(r"(`[^`\n]+`|\b(?:gpur|GPUR)_\w+(?:\.\w+)?\*?|\b[\w/]+\.(?:h|md|c)\b)")
ENTRY = re.compile(r"(?P<term>.+?)(?:  +|: )(?P<text>\S.*)$")
COLUMNS = re.compile(r"\S {4,}[^ \[]")  # of a table; a citation may stand at the right
LIST = re.compile(r" *[A-Za-z_][\w.]*(, [\w.]+)*  +[^ =]")
NAMES = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*: ")


def escaped(text):
    return re.sub(r"([\\`*_|])", r"\\\1", text)


def inline(text, link):
    """A paragraph. link(name): the role and the target of a name, or None."""
    parts = []
    for part in filter(None, WORD.split(" ".join(text.split()))):
        name = part.strip("`")
        found = link(name) if WORD.fullmatch(part) else None
        if found:
            parts.append(f"\\ {found}\\ ")
        elif WORD.fullmatch(part) and not part.endswith((".h", ".md", ".c")):
            parts.append(f"\\ ``{name}``\\ ")
        else:
            parts.append(escaped(part))
    return "\\ " + "".join(parts)  # so that no word begins a list


def groups(lines):
    """Successive lines that are not empty."""
    group = []
    for line in [*lines, ""]:
        if line.strip():
            group.append(line)
        elif group:
            yield group
            group = []


def indent_of(line):
    return len(line) - len(line.lstrip())


def entries(group):
    """The lines of least indent, each with the lines below it."""
    base, found = indent_of(group[0]), []
    for line in group:
        if indent_of(line) <= base or not found:
            found.append([line.strip()])
        else:
            found[-1].append(line.strip())
    return found


def term_of(term, link):
    """Names with commas between them, of which those that are known are links."""
    return ", ".join(f"\\ {link(name)}" if link(name) else inline(name, link) for name in term.split(", "))


def definitions(group, link):
    """A list of names with what they mean."""
    lines = []
    for first, *rest in entries(group):
        one = ENTRY.match(first)
        term, text = (one["term"], one["text"]) if one else (first, "")
        text = " ".join([text, *rest]).strip()
        lines += [term_of(term, link), "   " + (inline(text, link) if text else "\\ ")]
    return [*lines, ""]


def language_of(lines):
    text = textwrap.dedent("\n".join(lines))
    try:
        ast.parse(text)
        return "python" if "(" in text else "none"
    except SyntaxError:
        return "c" if text.rstrip().endswith(";") else "none"


def code_block(lines):
    """What stays as it is."""
    indent = min(indent_of(line) for line in lines if line)
    return [f".. code-block:: {language_of(lines)}", "", *("   " + line[indent:] for line in lines), ""]


def restructured(text, link):
    """Lines of reStructuredText."""
    lines, literal = [], []
    for group in groups(text.expandtabs().splitlines()):
        indent = indent_of(group[0])
        first = entries(group)
        is_table = any(COLUMNS.search(line) for _, *rest in first for line in rest)
        if indent >= 4 and not all(map(LIST.match, group)) or (indent >= 2 and is_table):
            literal += ["", *group] if literal else group
            continue
        lines += code_block(literal) if literal else []
        literal = []
        if all(one[0].startswith("- ") for one in first):
            for one in first:
                lines += [f"- {inline(' '.join(one)[2:], link)}"]
            lines += [""]
        elif indent >= 2 or (len(first) < len(group) and all(NAMES.match(one[0]) for one in first)):
            lines += definitions(group, link)
        else:
            lines += [inline(" ".join(group), link), ""]
    return [*lines, *(code_block(literal) if literal else [])]
