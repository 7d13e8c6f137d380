# SPDX-License-Identifier: MIT
"""Reads the public headers: what they declare, in their order, each with its comment."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
GENERAL = re.compile(r"#ifdef __cplusplus.*?#endif\n|(?:/\*[^*]*\*/\n)?#if defined\(__GNUC__\).*?#endif\n", re.S)
TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<define>#define (\w+) [^\n]*)|#[^\n]*|(?P<blank>\n[ \t]*(?=\n))|\s+|"
                   r"(?P<code>(?:[^;{}/#]|\{(?:[^{}/]|/\*.*?\*/)*\})+;)(?:[ \t]*/\*(?P<beside>.*?)\*/)?", re.S)
PARAMETERS = r"\(((?:[^()]|\([^()]*\))*)\)"
FUNCTION = re.compile(rf"(GPUR_API )?([\w ]+?[ *]+)(gpur_\w+){PARAMETERS};")
CALLBACK = re.compile(rf"typedef ([\w ]+[ *]*)\(\*(gpur_\w+)\){PARAMETERS};")
STRUCT = re.compile(r"typedef struct (\w+) \{(.*)\} \1;", re.S)
ENUM = re.compile(r"enum \{(.*)\};", re.S)
TYPE = re.compile(r"typedef [^;{(]*?(\w+);")
MEMBER = re.compile(r"\s*(?:/\*(.*?)\*/)?\s*([^;/]+);[ \t]*(?:/\*(.*?)\*/)?", re.S)
VALUE = re.compile(r"\s*(GPUR_\w+) = (-?\d+),?[ \t]*(?:/\*(.*?)\*/)?", re.S)


class Declaration(NamedTuple):
    """kind: "function", "plug-in" (a function that a plug-in exports), "callback", "struct", "enum", "type", "define";
    "text" is a comment with nothing after it. result, arguments: of functions and callbacks. members: (declaration,
    comment) of each of a struct, (name, value, comment) of each of an enum."""

    kind: str
    name: str
    comment: str
    code: str = ""
    result: str = ""
    arguments: str = ""
    members: tuple = ()


def plain(comment):
    """A comment's lines, without its frame."""
    lines = [re.sub(r"^ ?\*? ?", "", line, count=1) if number else line.strip()
             for number, line in enumerate(comment.rstrip().splitlines())]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def beside(comment):
    """A comment beside a member: lines of any indent, and empty ones between its paragraphs."""
    return "\n".join(line.strip().removeprefix("* ") for line in (comment or "").strip().splitlines())


def each(pattern, body):
    """The groups of a pattern that a body consists of."""
    at = 0
    while body[at:].strip():
        one = pattern.match(body, at)
        assert one, f"a member that this does not read: {body[at:at + 80]!r}"
        yield one.groups()
        at = one.end()


def declaration(code, comment):
    if found := FUNCTION.fullmatch(code):
        exported, result, name, arguments = found.groups()
        return Declaration("function" if exported else "plug-in", name, comment, code, result.strip(), arguments)
    if found := CALLBACK.fullmatch(code):
        return Declaration("callback", found[2], comment, code, found[1].strip(), found[3])
    if found := STRUCT.fullmatch(code):
        members = tuple((" ".join(one.split()), "\n\n".join(map(beside, filter(None, (above, text)))))
                        for above, one, text in each(MEMBER, found[2]))
        return Declaration("struct", found[1], comment, code, members=members)
    if found := ENUM.fullmatch(code):
        members = tuple((name, int(value), beside(text)) for name, value, text in each(VALUE, found[1]))
        return Declaration("enum", "", comment, code, members=members)
    found = TYPE.fullmatch(code)
    assert found, f"a declaration that this does not read: {code}"
    return Declaration("type", found[1], comment, code)


def read(header):
    """(the comment at its head, its declarations) of "gpureplay/writer.h"."""
    license, _, text = (INCLUDE / header).read_text(encoding="utf-8").partition("\n")
    assert license == "/* SPDX-License-Identifier: MIT */", f"{header} begins with {license!r}"
    text = GENERAL.sub("", text)
    found, waiting, is_new, at = [], "", False, 0
    while at < len(text):
        one = TOKEN.match(text, at)
        assert one, f"{header}: this does not read {text[at:at + 80]!r}"
        at = one.end()
        if one["comment"] or one["blank"] is not None:
            if is_new:
                found.append(Declaration("text", "", waiting))
            waiting, is_new = plain(one["comment"] or ""), bool(one["comment"])
        elif one["define"] and not one[3].endswith("_H"):
            found.append(Declaration("define", one[3], waiting, one["define"]))
            waiting, is_new = "", False
        elif one["code"]:
            found.append(declaration(one["code"].strip(), beside(one["beside"]) or waiting))
            # Functions without an empty line between them share a comment.
            waiting, is_new = waiting if found[-1].kind in ("function", "plug-in") else "", False
    head, *rest = found
    assert head.kind == "text", f"{header} has no comment at its head"
    return head.comment, rest


def all_headers():
    """Their names in the order of the lists in gpureplay.h and gpureplay/run.h."""
    return [header for door in ("gpureplay.h", "gpureplay/run.h") for header in re.findall(
        r'^#include "(.*)"$', (INCLUDE / door).read_text(encoding="utf-8"), flags=re.M)]


def declarations():
    """Those of all headers, by the headers' names."""
    return [one for header in sorted(all_headers()) for one in read(header)[1]]
