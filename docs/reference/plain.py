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
STATEMENT = re.compile(r";([ \t]*//.*)?$", re.M)  # the end of a line in C
AFTER_SENTENCE = re.compile(r"(?<=\.) (?=[a-z_]+(?:, [a-z_]+)*: )")
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


def parts_of(entry):
    """An entry "name: text", or several of them that share lines."""
    return [[part] for part in AFTER_SENTENCE.split(" ".join(entry))] if NAMES.match(entry[0]) else [entry]


def definitions(group, link):
    """A list of names with what they mean."""
    lines = []
    for first, *rest in (part for entry in entries(group) for part in parts_of(entry)):
        one = ENTRY.match(first)
        term, text = (one["term"], one["text"]) if one else (first, "")
        text = " ".join([text, *rest]).strip()
        lines += [term_of(term, link), "   " + (inline(text, link) if text else "\\ ")]
    return [*lines, ""]


def language_of(text):
    if text.startswith("#include") or STATEMENT.search(text):
        return "c"
    try:
        ast.parse(text)
        return "python" if "(" in text else "none"
    except SyntaxError:
        return "none"


def code_block(text):
    """What stays as it is."""
    return [f".. code-block:: {language_of(text)}", "", *(f"   {line}".rstrip() for line in text.splitlines()), ""]


def pieces(text):
    """The groups of lines, and as texts what stays as it is, of one or several groups."""
    literal = []
    for group in groups(text.expandtabs().splitlines()):
        is_table = any(COLUMNS.search(line) for _, *rest in entries(group) for line in rest)
        if indent_of(group[0]) >= 4 and not all(map(LIST.match, group)) or (indent_of(group[0]) >= 2 and is_table):
            literal += ["", *group] if literal else group
            continue
        if literal:
            yield textwrap.dedent("\n".join(literal))
            literal = []
        yield group
    if literal:
        yield textwrap.dedent("\n".join(literal))


def code_in_c(text):
    """The code of a comment: [text]."""
    return [piece for piece in pieces(text) if isinstance(piece, str) and language_of(piece) == "c"]


def restructured(text, link):
    """Lines of reStructuredText."""
    lines = []
    for piece in pieces(text):
        if isinstance(piece, str):
            lines += code_block(piece)
            continue
        first = entries(piece)
        if all(one[0].startswith("- ") for one in first):
            for one in first:
                lines += [f"- {inline(' '.join(one)[2:], link)}"]
            lines += [""]
        elif indent_of(piece[0]) >= 2 or (len(first) < len(piece) and all(NAMES.match(one[0]) for one in first)):
            lines += definitions(piece, link)
        else:
            lines += [inline(" ".join(piece), link), ""]
    return lines
