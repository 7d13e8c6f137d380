# SPDX-License-Identifier: MIT
"""Devices, which hold the replay memory and run the training."""

from __future__ import annotations

import ctypes
import logging
import sys
import warnings
from typing import Any, Protocol

from . import _c_api
from ._handle import Handle, refuse_after_fork, note_library_threads
from ._library import check, in_c, lib
from ._inputs import flag, put, stream_of
from ._struct import read_tuple
from ._tuples import DeviceInfo

logger = logging.getLogger("gpureplay")
_EXECUTORS = {"inline": _c_api.EXECUTOR_INLINE, "thread": _c_api.EXECUTOR_THREAD}
_warned = False
WITHOUT_CUDA = "this gpureplay was built without CUDA"


def _log_line(_user: Any, line: bytes) -> None:
    logger.info("%s", line.decode("utf-8", "replace"))


_log = _c_api.LOG_FN(_log_line)


def _config(threads: int, executor: str, stream: Any, deterministic: bool) -> _c_api.DeviceConfig:
    if executor not in _EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(map(repr, _EXECUTORS))}")
    config = _c_api.DeviceConfig()
    check(lib.gpur_device_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    put(config, "threads", threads)
    config.executor, config.stream = _EXECUTORS[executor], stream_of(stream)
    config.deterministic = flag("deterministic", deterministic)
    config.log = ctypes.cast(_log, ctypes.c_void_p)
    return config


class TorchDevice(Protocol):
    """The attributes of torch.device that are read."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> int | None: ...


class Device(Handle):
    """An open device: "cpu", "cuda:0", or "auto", which is "cuda:0" if that works and "cpu" otherwise. The name may
    also be a torch.device.

    threads: CPU threads for kernels and BLAS. 0: OMP_NUM_THREADS, or the number of cores of the process.
    executor: "inline" runs work in the calling thread, which is best for small batches. "thread" runs it in a thread of
        its own, so that training overlaps with acting.
    stream: the CUDA stream to run on: a cudaStream_t as an int, or a stream of PyTorch or CuPy, which the device then
        keeps alive. None: a private stream.
    deterministic: CUDA: learners and policies use only algorithms that give the same bits in each run, which can be
        slower. On the CPU all do.

    The library's messages go to the logger "gpureplay". Any number of threads may use a device. `close` releases this
    reference only: buffers and learners on the device keep working.
    """

    _kind = "device"

    def __init__(self, name: str | TorchDevice = "auto", *, threads: int = 0, executor: str = "inline",
                 stream: Any = None, deterministic: bool = False):
        refuse_after_fork()
        text = in_c("device", _name_of(name))
        config = _config(threads, executor, stream, deterministic)
        super().__init__(lambda address: check(lib.gpur_device_open(text, ctypes.addressof(config), address)),
                         lib.gpur_device_close)
        info = self.info
        self._stream = stream
        self.name: str = info.name
        self.is_cuda: bool = info.is_cuda
        self.deterministic = bool(config.deterministic)
        # NumPy reads a batch at once, so on a CPU device with a thread of its own a sample must be waited for.
        self._waits: bool = not info.is_cuda and executor == "thread"
        if info.is_cuda or self._waits:
            note_library_threads()
        if name == "auto" and not info.is_cuda:
            _warn_once()

    @property
    def info(self) -> DeviceInfo:
        """Name, model, threads, and memory at this moment."""
        got = _c_api.DeviceInfo()
        self._call(lib.gpur_device_get_info, ctypes.addressof(got))
        return read_tuple(DeviceInfo, got)

    @property
    def _if_cuda(self) -> Device | None:
        """Itself if it is a CUDA device, else None: then device arrays are refused."""
        return self if self.is_cuda else None

    def wait_stream(self, stream: Any) -> None:
        """CUDA: waits until the work that another library has enqueued on this stream is done. stream: as for the
        constructor.

            device.wait_stream(torch.cuda.current_stream())
        """
        device = Device(self.name) if self.closed else self  # a buffer keeps working after its device was closed
        device._call(lib.gpur_device_wait_stream, stream_of(stream))

    def sync(self) -> None:
        """Waits until all work enqueued
        through this device is done.

            agent.train(100)
            device.sync()                             # the steps are done
        """
        self._call(lib.gpur_device_sync)

    def __repr__(self) -> str:
        return f"<gpureplay.Device {self.name}{', closed' if self.closed else ''}>"


def _name_of(device: str | TorchDevice, more: str = "") -> str:
    """The library's name of a device, from a name or a torch.device."""
    if isinstance(device, str):
        return device
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    if type(device).__name__ != "device" or kind not in ("cpu", "cuda"):
        raise TypeError(f"device is {device!r}; it must be \"auto\", \"cpu\", \"cuda:N\", a torch.device of these"
                        f"{more}")
    if kind == "cpu":
        return "cpu"
    if index is None:  # PyTorch's current device
        index = sys.modules[type(device).__module__].cuda.current_device()
    return f"cuda:{index}"


def _warn_once() -> None:
    """Warns once, when "auto" was asked for, that this build has only the CPU."""
    global _warned
    if not _warned and "cuda: not built" in lib.gpur_build_info().decode():
        _warned = True
        warnings.warn(f"{WITHOUT_CUDA}, and keeps replay on the CPU; gpureplay.show_config() tells what is missing",
                      RuntimeWarning, stacklevel=caller_depth())


def caller_depth() -> int:
    """The stacklevel for warnings.warn, as seen from the caller, of the first function outside this package."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        frame, depth = frame.f_back, depth + 1
    return depth


def as_device(device: str | TorchDevice | Device) -> Device:
    """An open device, from a name, a torch.device or a Device."""
    if isinstance(device, Device):
        device._open_handle()
        return device
    return Device(_name_of(device, " or a gpureplay.Device"))
