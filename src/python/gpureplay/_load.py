# SPDX-License-Identifier: MIT
"""Loads libgpureplay. Needs the standard library alone."""

from __future__ import annotations

import ctypes
import os

from . import _c_api


def load(path: str | os.PathLike[str]) -> ctypes.CDLL:
    """The shared library, every function with its signature. RuntimeError when it is another version's."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _c_api.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise RuntimeError(f"{path} has no {name}; it is of another version than this package") from None
        function.restype, function.argtypes = result, arguments
    for struct in _c_api.STRUCTS:
        theirs, ours = library.gpur_struct_size(struct.c_name.encode()), ctypes.sizeof(struct)
        if theirs != ours:
            raise RuntimeError(f"{struct.c_name} has {theirs} bytes in {path} and {ours} in this package; "
                               "they are of different versions")
    return library
