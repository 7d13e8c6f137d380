# SPDX-License-Identifier: MIT
"""Every public function says, in the comment before it, which threads may call it, and what it answers when it fails.

Threads may be told once for all calls on a handle, by the comment of its type: "used by one thread at a time" or "any
thread". "Like gpur_x" makes the comment of gpur_x part of another's.
"""

import re
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[2] / "include/gpureplay"
COMMENT = r"/\*((?:[^*]|\*(?!/))*)\*/\n"
FUNCTION = re.compile(COMMENT + r"GPUR_API ([\w ]+?\**)(gpur_\w+)\(([^;]*)\);")
HANDLE = re.compile(COMMENT + r"typedef struct (gpur_\w+) \2;")
THREADS = re.compile(r"(?<!\bthis )\bthreads?\b", flags=re.I)
THREADS_OF_ALL_CALLS = re.compile(r"\b(one thread at a time|any thread)\b", flags=re.I)
STATUSES = re.compile(r"\bGPUR_(INVALID_ARGUMENT|OUT_OF_MEMORY|TOO_FEW|WOULD_BLOCK|UNAVAILABLE|FILE_ERROR"
                      r"|DEVICE_ERROR)\b|\berrors\b")


def words_of(comment):
    return " ".join(re.sub(r"^ \*", " ", comment, flags=re.M).split())


def whole_comment(name, functions):
    """With the comments of those that it is like."""
    said = functions[name][0]
    for other in re.findall(r"\bLike (gpur_\w+)", said):
        said += " " + whole_comment(other, functions)
    return said


def what_is_missing(said, result, arguments, handles):
    taken = [handles[kind] for kind in re.findall(r"\bgpur_\w+(?= \*\w+(?:,|$))", arguments) if kind in handles]
    if not THREADS.search(said) and not any(THREADS_OF_ALL_CALLS.search(handle) for handle in taken[:1]):
        yield "its threads"
    if result == "gpur_status" and not STATUSES.search(said):
        yield "the statuses of its errors"
    if result != "gpur_status" and "*" in arguments and "NULL" not in said:
        yield "what it does with NULL"


def main():
    functions, handles, declared = {}, {}, 0
    for header in sorted(HEADERS.glob("*.h")):
        text = header.read_text(encoding="utf-8")
        declared += len(re.findall(r"^GPUR_API ", text, flags=re.M))
        handles.update((name, words_of(comment)) for comment, name in HANDLE.findall(text))
        for comment, result, name, arguments in FUNCTION.findall(text):
            functions[name] = (words_of(comment), result.strip(), " ".join(arguments.split()), header.name)
    assert len(functions) == declared > 40, f"{len(functions)} functions have a comment, of {declared} declared"
    assert len(handles) >= 5, f"handles: {sorted(handles)}"
    silent = [f"{header}: {name} does not say {missing}" for name, (_, result, arguments, header) in functions.items()
              for missing in what_is_missing(whole_comment(name, functions), result, arguments, handles)]
    assert not silent, "\n".join(["", *silent])
    print(f"test_headers_say: {len(functions)} functions say their threads and errors")


main()
