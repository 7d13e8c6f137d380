# SPDX-License-Identifier: MIT
"""The Python package's mirror of the public structs, and its layout. Run with a file name, it writes a C program there
that prints the compiler's layout."""

import ctypes
import importlib
import sys
import types
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src/python/gpureplay"


def load_mirror():
    """Module and structs alone, of the package nothing else: they need the standard library only."""
    sys.dont_write_bytecode = True  # beside the sources
    bare = types.ModuleType("gpureplay_bare")
    bare.__path__ = [str(PACKAGE)]
    sys.modules[bare.__name__] = bare
    return importlib.import_module("gpureplay_bare._c_api")


mirror = load_mirror()


def layout():
    """{"gpur_field": 40, "gpur_field.name": (0, 8), ...}: sizes, and (offset, size) of each member."""
    found = {}
    for struct in mirror.STRUCTS:
        found[struct.c_name] = ctypes.sizeof(struct)
        for name, _ in struct._fields_:
            member = getattr(struct, name)
            found[f"{struct.c_name}.{name}"] = (member.offset, member.size)
    return found


def c_program():
    """Prints the same, one line each: `name size` or `name.member offset size`."""
    lines = ["#include <gpureplay.h>", "#include <stdio.h>", "int main(void)", "{"]
    for struct in mirror.STRUCTS:
        lines.append(f'    printf("{struct.c_name} %zu\\n", sizeof({struct.c_name}));')
        for name, _ in struct._fields_:
            place = f"offsetof({struct.c_name}, {name}), sizeof((({struct.c_name} *)0)->{name})"
            lines.append(f'    printf("{struct.c_name}.{name} %zu %zu\\n", {place});')
    return "\n".join([*lines, "    return 0;", "}", ""])


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(c_program())
