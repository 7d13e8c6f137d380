# SPDX-License-Identifier: MIT
"""The library's environments in Python, for tests: by ctypes, as the public headers have them."""

import ctypes
import importlib
import sys
import types
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]


def bare_package():
    """Modules of the package alone, without the package around them: the build folder has no package."""
    sys.dont_write_bytecode = True  # beside the sources
    bare = types.ModuleType("gpureplay_bare")
    bare.__path__ = [str(ROOT / "src/python/gpureplay")]
    sys.modules[bare.__name__] = bare


bare_package()
c_api = importlib.import_module("gpureplay_bare._c_api")
load = importlib.import_module("gpureplay_bare._load").load
DTYPES = {c_api.FLOAT32: numpy.float32, c_api.UINT8: numpy.uint8, c_api.BOOL: numpy.bool_}


class Refused(Exception):
    """A call that failed, with the library's or the environment's words."""


def find(library, name):
    """The type of that name."""
    found = ctypes.c_void_p()
    if library.gpur_env_find(name.encode(), ctypes.byref(found)) != c_api.OK:
        assert not found.value
        raise Refused(library.gpur_last_error().decode())
    return c_api.EnvType.from_address(found.value)


def must(sentence):
    if sentence is not None:
        raise Refused(sentence.decode())


def numbers(address, count):
    """So many floats of the library's."""
    return numpy.array((ctypes.c_float * count).from_address(address), numpy.float32)


class Environment:
    """One of ours, whose action is a number, or a list of one float. `obs` is overwritten by each step."""

    def __init__(self, kind, options="", seed=0):
        self.kind, self.info, handle = kind, c_api.EnvInfo(), ctypes.c_void_p()
        must(kind.init(options.encode(), seed, ctypes.addressof(self.info), ctypes.addressof(handle)))
        self.handle = handle.value
        shape = [length for length in self.info.obs.shape if length]
        self.obs = numpy.zeros(shape, DTYPES[self.info.obs.dtype])
        self.state = ctypes.create_string_buffer(self.info.save_bytes)
        self.result = c_api.EnvResult()
        self.action = (ctypes.c_int32 if self.info.action.num_actions else ctypes.c_float)()
        self._obs, self._state = self.obs.ctypes.data, ctypes.addressof(self.state)
        self._result, self._action = ctypes.addressof(self.result), ctypes.addressof(self.action)
        self._step = kind.step

    def reset(self):
        must(self.kind.reset(self.handle, self._obs))
        return self.obs

    def step(self, action):
        """(obs, reward, terminated, truncated)"""
        self.action.value = action[0] if isinstance(action, list) else action
        must(self._step(self.handle, self._action, self._obs, self._result))
        return self.obs, self.result.reward, self.result.terminated, self.result.truncated

    def save(self):
        """The buffer of the state, which the next save overwrites."""
        must(self.kind.save(self.handle, self._state))
        return self.state

    def load(self, state):
        must(self.kind.load(self.handle, ctypes.addressof(state)))

    def close(self):
        self.kind.close(self.handle)
