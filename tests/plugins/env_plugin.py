# SPDX-License-Identifier: MIT
"""A plug-in environment by include/gpureplay/env.h alone, as a program without the library uses it."""

import ctypes

import numpy as np

DTYPES = {1: np.float32, 3: np.uint8}  # GPUR_FLOAT32, GPUR_UINT8


class Space(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("shape", ctypes.c_int32 * 6), ("num_actions", ctypes.c_int32),
                ("low", ctypes.c_float), ("high", ctypes.c_float),
                ("lows", ctypes.c_void_p), ("highs", ctypes.c_void_p)]


class Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("obs", Space), ("action", Space), ("max_steps", ctypes.c_int64),
                ("save_bytes", ctypes.c_int64)]


class Result(ctypes.Structure):
    _fields_ = [("reward", ctypes.c_float), ("terminated", ctypes.c_uint8), ("truncated", ctypes.c_uint8),
                ("continues", ctypes.c_uint8), ("reserved", ctypes.c_uint8)]


def function(*arguments, result=ctypes.c_char_p):
    return ctypes.CFUNCTYPE(result, *arguments)


class Type(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("name", ctypes.c_char_p), ("options", ctypes.c_char_p),
                ("init", function(ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(Info),
                                  ctypes.POINTER(ctypes.c_void_p))),
                ("reset", function(ctypes.c_void_p, ctypes.c_void_p)),
                ("step", function(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Result))),
                ("close", function(ctypes.c_void_p, result=None)),
                ("save", function(ctypes.c_void_p, ctypes.c_void_p)),
                ("load", function(ctypes.c_void_p, ctypes.c_void_p))]


class Failure(Exception):
    """The sentence that a function of an environment returned."""


def tried(sentence):
    if sentence is not None:
        raise Failure(sentence.decode())


class Plugin:
    """A shared object that exports gpur_env_plugin."""

    def __init__(self, path):
        library = ctypes.CDLL(str(path))
        self.find, self.name = library.gpur_env_plugin, library.gpur_env_plugin_name
        self.find.argtypes, self.find.restype = [ctypes.c_char_p], ctypes.POINTER(Type)
        self.name.argtypes, self.name.restype = [ctypes.c_int32], ctypes.c_char_p

    def type(self, name):
        """The type of that name, or None."""
        found = self.find(name.encode())
        return found.contents if found else None


class Env:
    """An environment. obs and result are those of the last call."""

    def __init__(self, kind, options="", seed=0):
        self.kind, self.info, self.result = kind, Info(size=ctypes.sizeof(Info)), Result()
        self.handle = ctypes.c_void_p()
        tried(kind.init(options.encode(), seed, ctypes.byref(self.info), ctypes.byref(self.handle)))
        shape = list(self.info.obs.shape)
        self.obs = np.zeros(shape[: shape.index(0)], DTYPES[self.info.obs.dtype])
        self.actions = self.info.action.num_actions

    def __del__(self):
        if getattr(self, "handle", None):
            self.kind.close(self.handle)

    def reset(self):
        tried(self.kind.reset(self.handle, self.obs.ctypes.data))
        return self.obs

    def step(self, action):
        tried(self.kind.step(self.handle, ctypes.byref(ctypes.c_int32(action)), self.obs.ctypes.data,
                             ctypes.byref(self.result)))
        return self.result

    def save(self):
        state = np.zeros(self.info.save_bytes, np.uint8)
        tried(self.kind.save(self.handle, state.ctypes.data))
        return state

    def load(self, state):
        tried(self.kind.load(self.handle, state.ctypes.data))
