# SPDX-License-Identifier: MIT
"""What many tests share: transitions whose values follow from their number, an environment, programs in other
processes, and arrays that claim to be in a CUDA device's memory."""

import contextlib
import importlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import gpureplay
import gymnasium
import numpy as np
import pytest

needs_files = pytest.mark.skipif("files: none" in gpureplay.lib.gpur_build_info().decode(),
                                 reason="the library was built without cJSON or xxHash")
# Of tests that concern no one device: test_policy, test_learner.
DEVICE = os.environ.get("GPUREPLAY_TEST_DEVICE", "cpu")
DTYPES = ("float32", "float16", "uint8", "int32", "int64", "bool")
TRANSITION = {
    "obs": ((3,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((3,), "float32"),
    "terminated": ((), "bool"), "truncated": ((), "bool"),
}


class Endless(gymnasium.Env):
    """A game without an end."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 1.0, False, False, {}


def column(number, first, count, shape, dtype):
    """(count, ...) of field `number`: every element follows from its row and its index."""
    size = int(np.prod(shape))
    grid = np.arange(first, first + count)[:, None] * 7 + np.arange(size) * 3 + number
    # float16 holds integers up to 2048 exactly
    kinds = {"bool": grid % 2, "uint8": grid % 251, "float16": grid % 2039 - 1000, "int64": grid * 2**33}
    return kinds.get(dtype, grid).astype(dtype).reshape(count, *shape)


def block(fields, first, count):
    """Rows first ... first + count - 1 of a schema {name: (shape, dtype)}."""
    return {name: column(number, first, count, *field) for number, (name, field) in enumerate(fields.items())}


def same(got, wanted):
    """Bit for bit, dtype and shape too."""
    got = np.asarray(got)
    return got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()


def blocks_of_page(name, language="python"):
    """The blocks of a language in a page of docs/, in their order."""
    page = (Path(__file__).resolve().parents[2] / "docs" / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.S | re.M)


def compile_plugin(folder, source, *flags):
    """The path of a plug-in with environments, made of its source."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a plug-in with")
    (folder / "plugin.c").write_text(source, encoding="utf-8")
    include = PACKAGE.parents[1] / "include"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-O2", *flags, "-I", include, folder / "plugin.c", "-o",
                    folder / "plugin.so"], check=True)
    return str(folder / "plugin.so")


def unaligned(values):
    """A copy whose elements begin at odd addresses."""
    array = np.frombuffer(bytearray(values.nbytes + 1), np.uint8)[1:].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def read_only(values):
    values.setflags(write=False)
    return values


class Exporter:
    """It has nothing but DLPack."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **more):
        return self._values.__dlpack__(**more)

    def __dlpack_device__(self):
        return 1, 0


# The same numbers in other forms.
FORMS = {
    "arrays": lambda values: values,
    "float64 and int64": lambda values: values.astype({"f": "f8", "i": "i8", "u": "i8", "b": "i4"}[values.dtype.kind]),
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "Fortran": np.asfortranarray,
    "strided": lambda values: np.repeat(values, 2, axis=0)[::2],
    "backwards": lambda values: values[::-1].copy()[::-1],
    "read-only": lambda values: read_only(values.copy()),
    "unaligned": unaligned,
    "lists": lambda values: values.tolist(),
    "tuples": lambda values: tuple(map(tuple, values.tolist())) if values.ndim > 1 else tuple(values.tolist()),
    "memoryview": lambda values: memoryview(values) if values.dtype != np.float16 else values,
    "subclass": lambda values: values.view(np.recarray),
    "DLPack": Exporter,
    "object with an array": lambda values: type("Holder", (), {"__array__": lambda _, *a, **more: values})(),
}
PACKAGE = Path(__file__).resolve().parents[2] / "src/python"
SECONDS = 600  # before a program counts as hanging

PREAMBLE = """
import os, sys, gc, threading, time
import numpy as np
import gpureplay
def make(**settings):
    made = gpureplay.ReplayBuffer(1000, {"x": ((4,), "float32")}, device=settings.pop("device", "cpu"), **settings)
    made.extend(x=np.ones((500, 4), np.float32))
    return made
"""


def run(program, *, preamble=PREAMBLE, wanted=0, flags=(), **environment):
    """Runs a program in another process. Returns its stdout and stderr."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", preamble + textwrap.dedent(program)], capture_output=True, text=True,
        timeout=SECONDS, check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment})
    assert done.returncode == wanted, f"status {done.returncode}, wanted {wanted}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


class CudaInterface:
    """[CUDA array interface, version 3]"""

    def __init__(self, shape, typestr="<f4", **more):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (4096, False), "version": 3,
                                         **more}


class CudaDlpack:
    """An exporter on a CUDA device that fails if it is asked for its array."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("exported, and the buffer cannot take it")


class Done(NamedTuple):
    stdout: str
    stderr: str


def program(*arguments, wanted=0, module="train"):
    """python -m gpureplay.MODULE, in this process, which keeps its handlers of signals."""
    out, err, argv, train = io.StringIO(), io.StringIO(), sys.argv, gpureplay.train
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    sys.argv = [module, *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = importlib.import_module(f"gpureplay.{module}").main()
    except SystemExit as error:  # of argparse
        status = error.code
    finally:
        sys.argv, gpureplay.train = argv, train  # the import of the module has replaced the function
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert status == wanted, f"status {status}\n{out.getvalue()}{err.getvalue()}"
    return Done(out.getvalue(), err.getvalue())
