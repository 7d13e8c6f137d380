# SPDX-License-Identifier: MIT
"""The extension module `_fast`, if it is there: the usual cases of `add`, `extend` and `sample` in C. It leaves all
other cases to the package's Python code, and the package works without it.

The environment variable GPUREPLAY_FAST: "off" leaves the module out. A path is that of the module's file, if that does
not lie in the package.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ._handle import forked
from ._library import lib

VARIABLE = "GPUREPLAY_FAST"
# The library's functions that the module calls, in its order.
_FUNCTIONS = ("gpur_writer_try_append_fields", "gpur_writer_append_fields", "gpur_writer_step_ex",
              "gpur_writer_reset", "gpur_replay_sample", "gpur_replay_sample_into", "gpur_batch_get_array",
              "gpur_replay_update_priorities", "gpur_batch_release")
# How help() shows the methods: C has no signatures.
_SIGNATURES = {"add": "($self, /, *, info=None, final_obs=None, **values)",
               "extend": "($self, /, *, stream=None, **values)",
               "sample": "($self, /, batch_size, *, out=None, beta=None, stream=None)"}
_Class = TypeVar("_Class", bound=type)


def _import() -> Any:
    path = os.environ.get(VARIABLE, "")
    if path == "off" or "t" in sys.abiflags:
        return None  # the module relies on the interpreter's lock, which a free-threaded one does not have
    if not path:
        found = importlib.util.find_spec(f"{__package__}._fast")
        if found is None or (sys.version_info < (3, 10) and str(found.origin).endswith(".abi3.so")):
            return None  # one that serves several versions serves Python 3.10 and later
        try:
            return importlib.import_module(found.name)
        except ImportError:
            return None
    if not os.path.isfile(path):
        raise ImportError(f"{VARIABLE} is {path!r}, where there is no file; it must be \"off\", or the module's path")
    loader = importlib.machinery.ExtensionFileLoader(f"{__package__}._fast", path)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(loader.name, loader, origin=path))
    loader.exec_module(module)
    return module


def _load() -> Any:
    module = _import()
    if module is not None:
        addresses = [ctypes.cast(getattr(lib, name), ctypes.c_void_p) for name in _FUNCTIONS]
        module.use(bytes((ctypes.c_void_p * len(addresses))(*addresses)), forked)
    return module


fast = _load()


def accelerated(*names: str) -> Callable[[_Class], _Class]:
    """A class decorator: replaces these methods by those of the module, which call the method in Python, under the name
    "_python_" + name, for all that they do not do. The attributes that they read of an object are listed here.

    add, extend: `_adder` and `_extender`, an Appender of the module or None.
    sample: `_sampling`: (Batch or None if `out` is left to Python, name of the first array, name of the last one,
        function of (Reference, first address, last address, count) that makes the Batch, Reference).
    """
    def replace(kind: _Class) -> _Class:
        for name in names if fast is not None else ():
            function = kind.__dict__[name]
            setattr(kind, f"_python_{name}", function)
            setattr(kind, name, fast.method(kind, name, f"{name}{_SIGNATURES[name]}\n--\n\n{function.__doc__ or ''}"))
        return kind
    return replace
