# SPDX-License-Identifier: MIT
"""What the public headers declare, as ctypes would have it: constants, members of structs, functions."""

import ctypes
import re
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[2] / "include/gpureplay"
PLAIN = {
    "void": None, "char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double, "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "gpur_status": ctypes.c_int32,
    "gpur_log_fn": ctypes.c_void_p, "gpur_alloc_fn": ctypes.c_void_p, "gpur_release_fn": ctypes.c_void_p,
    "gpur_progress_fn": ctypes.c_void_p,
}


def text():
    """All of them, without comments."""
    together = "\n".join(path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h")))
    return re.sub(r"/\*.*?\*/", "", together, flags=re.S)


def constants():
    """{"OK": 0, ...} of every enumerator."""
    found = {}
    for body in re.findall(r"\benum \{(.*?)\}", text(), flags=re.S):
        for name, value in re.findall(r"GPUR_(\w+) = (-?\d+)", body):
            assert name not in found, name
            found[name] = int(value)
        assert len(re.findall(r"\bGPUR_\w+", body)) == body.count("="), f"an enumerator without a number in {body}"
    return found


def kind(declared, structs):
    """The ctypes type of a C type without its array bounds: text, any other pointer, a number, or a struct."""
    words = declared.replace("*", " * ").split()
    if "*" in words:
        return ctypes.c_char_p if words == ["const", "char", "*"] else ctypes.c_void_p
    (name,) = [word for word in words if word != "const"]
    return PLAIN[name] if name in PLAIN else structs[name]


def members(structs):
    """{"gpur_field": [("name", type, array length), ...], ...} of every struct with members, in order."""
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text(), flags=re.S):
        parts = re.findall(r"([\w ]+?[ *]+)(\w+)((?:\[\w+\])*);", body)
        assert len(parts) == body.count(";"), f"{name}: a member that this does not read"
        found[name] = [(part, kind(declared, structs), bounds) for declared, part, bounds in parts]
    return found


def functions(structs):
    """{"gpur_version": (result, [arguments])}."""
    found = {}
    for result, name, arguments in re.findall(r"GPUR_API ([\w ]+?[ *]+)(gpur_\w+)\(([^)]*)\);", text()):
        parts = [] if arguments.strip() == "void" else arguments.split(",")
        kinds = [kind(re.sub(r"\w+\s*$", "", part), structs) for part in parts]
        found[name] = kind(result, structs), kinds
    assert len(found) == len(re.findall(r"^GPUR_API ", text(), flags=re.M)), "a function that this does not read"
    return found
