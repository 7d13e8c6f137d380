# SPDX-License-Identifier: MIT
"""Devices: where replay memory lives and where training runs."""

from __future__ import annotations

import ctypes
import logging
import sys
import warnings
from typing import Any, NamedTuple, Protocol

from . import _mirror
from ._handle import Handle, refuse_after_fork, start_work
from ._library import check, lib
from ._numbers import put, stream_of

logger = logging.getLogger("gpureplay")
_EXECUTORS = {"inline": _mirror.EXECUTOR_INLINE, "thread": _mirror.EXECUTOR_THREAD}
_warned = False


def _say(_user: Any, line: bytes) -> None:
    logger.info("%s", line.decode("utf-8", "replace"))


_log = _mirror.LOG_FN(_say)


def _config(threads: int, executor: str, stream: Any) -> _mirror.DeviceConfig:
    if executor not in _EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(map(repr, _EXECUTORS))}")
    config = _mirror.DeviceConfig()
    check(lib.gpur_device_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    put(config, "threads", threads)
    config.executor, config.stream = _EXECUTORS[executor], stream_of(stream)
    config.log = ctypes.cast(_log, ctypes.c_void_p)
    return config


class DeviceInfo(NamedTuple):
    """A device as it is now; memory in bytes."""

    name: str
    description: str
    is_cuda: bool
    threads: int
    memory_total: int
    memory_free: int
    memory_used: int


class TorchDevice(Protocol):
    """What is asked of a torch.device."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> int | None: ...


class Device(Handle):
    """An open device: "cpu", "cuda:0", or "auto", which is "cuda:0" where that works and "cpu" elsewhere. A
    torch.device names one, too.

    threads: CPU threads for kernels and BLAS; 0: OMP_NUM_THREADS, or as many as the process has cores.
    executor: "inline" (in the calling thread, best for small batches) or "thread" (training overlaps with acting).
    stream: CUDA, a stream to run on: a cudaStream_t as an int, or a stream of PyTorch's or CuPy's, which is then held;
        None: a private one.

    What the library has to say goes to the logger "gpureplay". Serves any number of threads. Closing it gives up this
    hold; what lives on it goes on.
    """

    _kind = "device"

    def __init__(self, name: str | TorchDevice = "auto", *, threads: int = 0, executor: str = "inline",
                 stream: Any = None):
        refuse_after_fork()
        name = _name_of(name)
        address = ctypes.c_void_p()
        config = _config(threads, executor, stream)
        check(lib.gpur_device_open(name.encode(), ctypes.addressof(config), ctypes.addressof(address)))
        super().__init__(address.value, lib.gpur_device_close)
        info = self.info
        self._stream = stream
        self.name: str = info.name
        self.is_cuda: bool = info.is_cuda
        # NumPy reads a batch at once: on a CPU device with threads of its own, a draw must be waited for.
        self._waits: bool = not info.is_cuda and executor == "thread"
        if info.is_cuda or self._waits:
            start_work()
        if name == "auto" and not info.is_cuda:
            _warn_once()

    @property
    def info(self) -> DeviceInfo:
        """Name, model, threads, and memory as it is now."""
        got = _mirror.DeviceInfo()
        self._call(lib.gpur_device_get_info, ctypes.addressof(got))
        return DeviceInfo(got.name.decode(), got.description.decode("utf-8", "replace"), bool(got.is_cuda), got.threads,
                          got.memory_total, got.memory_free, got.memory_used)

    @property
    def _if_cuda(self) -> Device | None:
        """Itself, if it is a CUDA device: arrays of other devices are refused."""
        return self if self.is_cuda else None

    def wait_stream(self, stream: Any) -> None:
        """CUDA: waits until what another library has enqueued on this stream is done. stream: as for the
        constructor."""
        device = Device(self.name) if self.closed else self  # what lives on a closed one goes on, and may ask
        device._call(lib.gpur_device_wait_stream, stream_of(stream))

    def sync(self) -> None:
        """Waits until all work enqueued through this device is done."""
        self._call(lib.gpur_device_sync)

    def __repr__(self) -> str:
        return f"<gpureplay.Device {self.name}{', closed' if self.closed else ''}>"


def _name_of(device: str | TorchDevice, more: str = "") -> str:
    """Of a device's name, or of a torch.device: its name here."""
    if isinstance(device, str):
        if "\0" in device:
            raise ValueError(f"device is {device!r}; it must have no NUL")
        return device
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    if type(device).__name__ != "device" or kind not in ("cpu", "cuda"):
        raise TypeError(f"device is {device!r}; it must be \"auto\", \"cpu\", \"cuda:N\", a torch.device of these"
                        f"{more}")
    if kind == "cpu":
        return "cpu"
    if index is None:  # PyTorch's current one
        index = sys.modules[type(device).__module__].cuda.current_device()
    return f"cuda:{index}"


def _warn_once() -> None:
    """A device was wanted, whichever: say once that this build can only give the CPU."""
    global _warned
    if not _warned and "cuda: not built" in lib.gpur_build_info().decode():
        _warned = True
        warnings.warn("this gpureplay was built without CUDA, and keeps replay on the CPU; gpureplay.show_config() "
                      "tells what is missing", RuntimeWarning, stacklevel=_depth())


def _depth() -> int:
    """warnings' stacklevel, seen from the caller, of the first function that is not this package's."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        frame, depth = frame.f_back, depth + 1
    return depth


def as_device(device: str | TorchDevice | Device) -> Device:
    """A device to hold, from its name, from a torch.device or from itself."""
    if isinstance(device, Device):
        device._open_handle()
        return device
    return Device(_name_of(device, " or a gpureplay.Device"))
