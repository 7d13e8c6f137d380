# SPDX-License-Identifier: MIT
"""Structs of the library in ctypes, and named tuples with their members."""

from __future__ import annotations

import collections
import ctypes
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

_Tuple = TypeVar("_Tuple")
_readers: dict[Any, tuple[Any, list[str], dict[str, Any]]] = {}  # of each tuple: what reads the struct's values, the
# names of these, and the functions that make of some of them what Python has


class Struct(ctypes.Structure):
    """A struct of the library's, by its name there."""

    c_name = ""
    _fields_: ClassVar[Any]


class Sized(Struct):
    """A config or info struct, which begins with its own size."""

    def __init__(self) -> None:
        super().__init__()
        self.size = ctypes.sizeof(self)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


_CONVERTERS: dict[str, Any] = {"str": _text, "bool": bool, "tuple[int, ...]": tuple, "tuple[float, ...]": tuple}


def _type_name(declared: Any) -> str | None:
    """Of a member in Python. None: it is an address, a function or a struct, which tuples do not have."""
    if hasattr(declared, "_length_"):
        return "str" if declared._type_ is ctypes.c_char else f"tuple[{_type_name(declared._type_)}, ...]"
    code = getattr(declared, "_type_", None)
    if not isinstance(code, str) or code == "P":
        return None
    return {"z": "str", "f": "float", "d": "float"}.get(code, "int")


def tuple_type(name: str, doc: str, struct: Any, part: str = "", *, without: str = "",
               renamed: Mapping[str, str] | None = None, types: Mapping[str, str] | None = None) -> Any:
    """A named tuple with the members of a struct, in their order, for the module `_tuples`.

    struct: its class. part: a member that is a struct, whose members follow. without: members that the tuple does not
    have, beside size, reserved ones, addresses, functions and other structs. renamed: other names of members. types: of
    members that have others in C, and of those that only the tuple has, which come last.
    """
    places, kinds = {}, {}
    for owner, prefix in ((struct, ""), *([(dict(struct._fields_)[part], f"{part}.")] if part else [])):
        for member, declared in owner._fields_:
            kind = _type_name(declared)
            if kind is not None and not member.startswith("reserved") and member not in ("size", *without.split()):
                called = (renamed or {}).get(member, member)
                places[called], kinds[called] = prefix + member, kind
    kinds.update(types or {})
    made: Any = collections.namedtuple(name, kinds, module=f"{__package__}._tuples")  # type: ignore[misc]
    made.__doc__, made.__annotations__ = doc, kinds
    convert = {called: _CONVERTERS[kinds[called]] for called in places if kinds[called] in _CONVERTERS}
    _readers[made] = operator.attrgetter(*places.values()), list(places), convert
    return made


def read_tuple(kind: type[_Tuple], struct: Struct, /, **given: Any) -> _Tuple:
    """The tuple, of a type that `tuple_type` has made, with the struct's values. given: members that have others."""
    read, names, convert = _readers[kind]
    values = read(struct)
    if not convert and not given:
        return kind(*values)
    found = dict(zip(names, values))
    found.update((name, function(found[name])) for name, function in convert.items() if name not in given)
    return kind(**{**found, **given})
