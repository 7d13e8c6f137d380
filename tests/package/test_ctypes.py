# SPDX-License-Identifier: MIT
"""The Python package's ctypes mirror has every constant, struct, member and function of the public headers; and the
shared library loads with it, which compares the size of each struct with the C compiler's. The stub of the package's
named tuples, which come from the structs, lists their members.

usage: test_ctypes.py libgpureplay.so
       test_ctypes.py --write          writes the stub anew
"""

import ctypes
import importlib
import re
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/python/gpureplay"
COMMAND = "python3 tests/package/test_ctypes.py --write"
PLAIN = {
    "void": None, "char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double, "uint8_t": ctypes.c_uint8,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "gpur_status": ctypes.c_int32,
    "gpur_log_fn": ctypes.c_void_p, "gpur_alloc_fn": ctypes.c_void_p, "gpur_release_fn": ctypes.c_void_p,
    "gpur_progress_fn": ctypes.c_void_p,
}


def load_mirror():
    """The module alone, without the package around it: it needs the standard library only."""
    sys.dont_write_bytecode = True  # beside the sources
    bare = types.ModuleType("gpureplay_bare")
    bare.__path__ = [str(PACKAGE)]
    sys.modules[bare.__name__] = bare
    return importlib.import_module("gpureplay_bare._c_api")


mirror = load_mirror()
STRUCTS = {struct.c_name: struct for struct in mirror.STRUCTS}


def header_text():
    """All public headers, without comments."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "include/gpureplay").glob("*.h")))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def header_constants(text):
    """{"OK": 0, ...} of every enumerator."""
    found = {}
    for body in re.findall(r"\benum \{(.*?)\}", text, flags=re.S):
        for name, value in re.findall(r"GPUR_(\w+) = (-?\d+)", body):
            assert name not in found, name
            found[name] = int(value)
        assert len(re.findall(r"\bGPUR_\w+", body)) == body.count("="), f"an enumerator without a number in {body}"
    return found


def ctypes_type(declared):
    """The ctypes type of a C type without its array bounds: text, any other pointer, a number, or a struct."""
    words = declared.replace("*", " * ").split()
    if "*" in words:
        return ctypes.c_char_p if words == ["const", "char", "*"] else ctypes.c_void_p
    (name,) = [word for word in words if word != "const"]
    return PLAIN[name] if name in PLAIN else STRUCTS[name]


def argument_types(arguments):
    """Of "int32_t a, void *b, int32_t c[4], int (*d)(void *e)", where the last two are pointers, too."""
    arguments = re.sub(r"\w+ \(\*(\w+)\)\([^()]*\)", r"void *\1", arguments)
    parts = [re.sub(r"(\w+)\[\w*\]", r"*\1", part) for part in arguments.split(",") if part.strip() != "void"]
    return [ctypes_type(re.sub(r"\w+\s*$", "", part)) for part in parts]


def members_of(declaration, constants):
    """[(name, type, array length or 0)] of "float low, high", "int32_t shape[6]" or "void (*close)(void *env)", where a
    function's type is its result and its arguments."""
    if function := re.fullmatch(r"([\w ]+[ *]+)\(\*(\w+)\)\(([^()]*)\)", declaration):
        result, name, arguments = function.groups()
        return [(name, (ctypes_type(result), argument_types(arguments)), 0)]
    base, names = re.fullmatch(r"((?:const )?\w+) (.*)", declaration).groups()
    parts = [re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", part.strip()).groups(default="0") for part in names.split(",")]
    return [(name, ctypes_type(base + pointer), int(constants.get(bound.removeprefix("GPUR_"), bound)))
            for pointer, name, bound in parts]


def header_structs(text, constants):
    """{"gpur_field": [("name", type, array length or 0), ...], ...} of every struct with members, in order."""
    return {name: [member for declaration in body.split(";")[:-1]
                   for member in members_of(" ".join(declaration.split()), constants)]
            for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S)}


def header_functions(text):
    """{"gpur_version": (result, [arguments])}."""
    found = {}
    for result, name, arguments in re.findall(r"GPUR_API ([\w ]+?[ *]+)(gpur_\w+)\(((?:[^()]|\([^()]*\))*)\);", text):
        found[name] = ctypes_type(result), argument_types(arguments)
    assert len(found) == len(re.findall(r"^GPUR_API ", text, flags=re.M)), "a function that this does not read"
    return found


def mirror_member(name, declared):
    """As header_structs has it: pointers to anything but functions are pointers."""
    if issubclass(declared, ctypes._CFuncPtr):
        return name, (declared._restype_, list(declared._argtypes_)), 0
    element = getattr(declared, "_type_", declared) if hasattr(declared, "_length_") else declared
    is_pointer = issubclass(element, ctypes._Pointer)
    return name, ctypes.c_void_p if is_pointer else element, getattr(declared, "_length_", 0)


def check_equal(what, ours, theirs):
    assert ours.keys() == theirs.keys(), f"{what}s of only one side: {sorted(ours.keys() ^ theirs.keys())}"
    wrong = [f"{what} {name}: ctypes {ours[name]}, headers {theirs[name]}" for name in ours
             if ours[name] != theirs[name]]
    assert not wrong, "\n".join(wrong)


def tuples_text():
    """The stub of the named tuples, for type checkers and editors."""
    made = vars(importlib.import_module("gpureplay_bare._tuples"))
    tuples = [one for one in made.values() if isinstance(one, type) and issubclass(one, tuple)]
    lines = ["# SPDX-License-Identifier: MIT", f"# Written by {COMMAND}", "from typing import NamedTuple", "",
             "from . import _learner, _run"]
    for one in tuples:
        lines += ["", f"class {one.__name__}(NamedTuple):"]
        lines += [f"    {name}: {kind}" for name, kind in one.__annotations__.items()]
    return "\n".join(lines) + "\n"


def written():
    """The files that are made here, with their texts."""
    return {PACKAGE / "_tuples.pyi": tuples_text()}


def write():
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


def main():
    for path, text in written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not what the headers say; run {COMMAND}"
    text = header_text()
    constants, functions = header_constants(text), header_functions(text)
    check_equal("constant", {name: value for name, value in vars(mirror).items()
                             if name.isupper() and isinstance(value, int)}, constants)
    check_equal("struct", {name: [mirror_member(*member) for member in struct._fields_]
                           for name, struct in STRUCTS.items()}, header_structs(text, constants))
    check_equal("function", mirror.FUNCTIONS, functions)
    mirror.load(sys.argv[1])
    print(f"test_ctypes: {len(constants)} constants, {len(STRUCTS)} structs and {len(functions)} functions agree")


write() if sys.argv[1:] == ["--write"] else main()
