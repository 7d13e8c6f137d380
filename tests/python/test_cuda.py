# SPDX-License-Identifier: MIT
"""Lanes on a fake GPU, whose memory is the host's and whose kernels are the CPU's: arrays with the CUDA array
interface, those of stand-ins for CuPy and PyTorch, streams, and what is refused while the caller captures one.
run_tests.py gives the library. CuPy and PyTorch make no arrays on a GPU without a driver; the stand-ins have what this
package uses of them."""

import contextlib
import ctypes
import sys
import types
import warnings

import numpy as np
import pytest

import gpureplay
from support import blocks_of_page, needs_files

if not hasattr(gpureplay.lib, "__wrap_cudaStreamBeginCapture"):
    pytest.skip("the library has no fake GPU", allow_module_level=True)

LANES, STEPS, LEGACY = 6, 16, 1
FIELDS = {"obs": ((3,), "float32"), "action": ((), "int32"), "tag": ((), "int64")}
cuda = gpureplay.lib


def runtime(name, *arguments):
    """A call of the fake runtime, without an error."""
    error = getattr(cuda, f"__wrap_cuda{name}")(*arguments)
    assert error == 0, f"{name}: {error}"


class Stream:
    """[CUDA stream protocol]"""

    def __init__(self):
        self.ptr = ctypes.c_void_p()
        runtime("StreamCreateWithFlags", ctypes.byref(self.ptr), 1)
        self.ptr = self.ptr.value

    def __cuda_stream__(self):
        return 0, self.ptr

    @contextlib.contextmanager
    def capture(self):
        """Yields a list that has, at its end, what launches the graph."""
        launch, graph, exec_ = [], ctypes.c_void_p(), ctypes.c_void_p()
        runtime("StreamBeginCapture", ctypes.c_void_p(self.ptr), 0)
        yield launch
        runtime("StreamEndCapture", ctypes.c_void_p(self.ptr), ctypes.byref(graph))
        runtime("GraphInstantiate", ctypes.byref(exec_), graph, ctypes.c_uint64(0))
        launch.append(lambda: runtime("GraphLaunch", exec_, ctypes.c_void_p(self.ptr)))


class Cupy(types.ModuleType):
    """What is used of CuPy."""

    def __init__(self):
        super().__init__("cupy")
        module = self
        self.current, self.devices = LEGACY, []  # the stream, and the devices that were made the current one

        class Array:
            """Of the device's memory."""

            def __init__(self, shape, dtype, offset=0):
                self.shape, self.dtype, self.address = shape, np.dtype(dtype), ctypes.c_void_p()
                self.strides, self.is_read_only = None, False
                bytes_ = int(np.prod(shape)) * self.dtype.itemsize + offset
                gpureplay._library.check(cuda.gpur_device_alloc(module.memory._handle, max(1, bytes_),
                                                                ctypes.byref(self.address)))
                self.address = self.address.value + offset
                self.host = np.ctypeslib.as_array((ctypes.c_uint8 * max(1, bytes_ - offset)).from_address(self.address))
                self.host = self.host[:bytes_ - offset].view(self.dtype).reshape(shape)

            @property
            def __cuda_array_interface__(self):
                return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, self.is_read_only),
                        "version": 3, "strides": self.strides, "stream": module.current}

            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, **_):
                raise AssertionError("CuPy's stream would be waited for; the interface names it")

        self.ndarray = Array
        self.cuda = types.SimpleNamespace(Device=self._device)

    memory = gpureplay.Device("cuda:0")  # whose memory arrays have

    @contextlib.contextmanager
    def _device(self, number):
        self.devices.append(number)
        yield

    def empty(self, shape, dtype):
        return self.ndarray(shape, dtype)

    def zeros(self, shape, dtype):
        made = self.ndarray(shape, dtype)
        made.host[...] = 0
        return made

    def asarray(self, values):
        made = self.ndarray(values.shape, values.dtype)
        made.host[...] = values
        return made


@pytest.fixture
def cupy(monkeypatch):
    module = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return module


class Torch(Cupy):
    """What is used of PyTorch, with types that are NumPy's."""

    device, strided = str, "strided"

    def __init__(self):
        super().__init__()
        self.__name__, torch = "torch", self

        class Tensor(self.ndarray):
            device, layout, requires_grad = "cuda:0", "strided", False
            __cuda_array_interface__ = None

            def is_contiguous(self):
                return self.strides is None

            def stride(self):
                return self.strides

            def is_neg(self):
                return False

            def data_ptr(self):
                return self.address

        self.Tensor = self.ndarray = Tensor
        for name in ("float32", "float16", "uint8", "int32", "int64", "bool"):
            setattr(self, name, np.dtype(name))
        self.compiler = types.SimpleNamespace(is_compiling=lambda: False)
        self.cuda = types.SimpleNamespace(current_stream=lambda _: types.SimpleNamespace(cuda_stream=torch.current),
                                          CUDAGraph=types.SimpleNamespace, graph=self._graph,
                                          is_initialized=lambda: True)

    @contextlib.contextmanager
    def _graph(self, graph):
        stream = Stream()
        self.current, before = stream.ptr, self.current
        with stream.capture() as launch:
            yield
        self.current, graph.replay = before, launch[0]

    def empty(self, shape, dtype, device):
        return self.ndarray(shape, dtype)

    def zeros(self, shape, dtype, device):
        made = self.ndarray(shape, dtype)
        made.host[...] = 0
        return made


@pytest.fixture
def torch(monkeypatch):
    module = Torch()
    operators = types.SimpleNamespace(Operators=lambda _: None)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setitem(sys.modules, "gpureplay._torch_lanes", operators)
    monkeypatch.setattr(gpureplay, "_torch_lanes", operators, raising=False)
    return module


def make(device="cuda:0", **settings):
    return gpureplay.LaneBuffer(LANES, STEPS, FIELDS, **{"device": device, "seed": 1, "n_step": 2, **settings})


def step_of(t):
    ids = t * LANES + np.arange(LANES)
    obs = np.repeat(ids[:, None], 3, axis=1).astype(np.float32)
    return {"obs": obs, "action": ids.astype(np.int32), "tag": ids, "reward": np.ones(LANES, np.float32),
            "terminated": ids % 11 == 0, "truncated": ids % 13 == 0, "final_obs": -obs}


def given(module, t, **changes):
    return {name: module.asarray(array) for name, array in step_of(t).items()} | changes


def the_same(batch, wanted):
    return all(batch[name].host.tobytes() == wanted[name].tobytes() and batch[name].shape == wanted[name].shape
               for name in wanted)


@pytest.mark.parametrize("prioritized", [False, True])
def test_arrays_of_cupy_go_in_and_out(cupy, prioritized):
    """The same steps and draws have the same bits as on the CPU."""
    there, here = make(prioritized=prioritized), make("cpu", prioritized=prioritized)
    out = there.sample(8)  # nothing was added: CuPy is the library that is there
    assert type(out["obs"]) is cupy.ndarray and not out["obs"].host.any() and (out["id"].host == -1).all()
    here.sample(8)
    for t in range(40):
        there.add(**given(cupy, t))
        here.add(**step_of(t))
        if t % 7 == 3:
            there.reset(cupy.asarray(which := np.arange(LANES) % 2 == t % 3))
            here.reset(which)
        elif t % 7 == 6:
            there.reset()
            here.reset()
        assert there.sample(8, out=out) is out and the_same(out, wanted := here.sample(8))
        if prioritized:
            priorities = (wanted["id"] % 5).astype(np.float32)
            there.update_priorities(out["id"], cupy.asarray(priorities))
            here.update_priorities(wanted["id"], priorities)
    assert type(there.sample(4)["id"]) is cupy.ndarray and here.sample(4) is not None
    assert the_same(there.gather(out["id"], out=out), here.gather(wanted["id"]))
    sequences = here.sample_sequences(4, 3)
    assert the_same(there.sample_sequences(4, 3), sequences)
    without = {name: array for name, array in given(cupy, 40).items() if name != "truncated"}
    cupy.zeros = cupy.empty = None
    there.add(**without)  # no array is made
    here.add(**{**step_of(40), "truncated": np.zeros(LANES, bool)})
    assert there.stats == here.stats and len(there) == len(here) and set(cupy.devices) == {0}


def test_the_flags_are_not_looked_at(cupy):
    """The first `add` with truncated and without final_obs warns."""
    buffer, none = make(), cupy.asarray(np.zeros(LANES, bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(**given(cupy, 0))
        buffer.add(**{name: array for name, array in given(cupy, 1).items() if name not in ("truncated", "final_obs")})
    with pytest.warns(RuntimeWarning, match="`add` was given no final_obs") as caught:
        for _ in range(2):
            buffer.add(**{name: array for name, array in given(cupy, 2, truncated=none).items() if name != "final_obs"})
    assert len(caught) == 1


def test_arrays_that_tell_no_stream_wait_for_pytorchs_draws(torch, monkeypatch):
    """They are ready, as JAX's, and the call runs on a stream of the library's own."""
    class Ready:
        def __init__(self, array):
            self._array = array
            self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "version": 3,
                                             "data": (array.address, False), "stream": None}

    buffer, other, waited = make(), make("cpu"), []
    torch.current = Stream().ptr
    monkeypatch.setattr(buffer.device, "wait_stream", waited.append)
    for t in range(4):
        buffer.add(**{name: Ready(array) for name, array in given(torch, t).items()})
        other.add(**step_of(t))
        assert waited == [torch.current] * (t + 1)
        assert the_same(buffer.sample(8), other.sample(8))  # tensors, on PyTorch's stream


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda c: {"obs": np.zeros((LANES, 3), np.float32)}, ValueError,
     "obs is in host memory; it must be in the memory of cuda:0"),
    (lambda c: {"obs": c.zeros((LANES, 3), np.float64)}, TypeError, "obs is float64 in device memory; it must be floa"),
    (lambda c: {"obs": c.zeros((7, 3), np.float32)}, ValueError, r"obs has shape \(7, 3\); it must be \(6, 3\)"),
    (lambda c: {"obs": strided(c, (LANES, 3), (4, 24))}, ValueError, r"obs is a CUDA array of strides \(4, 24\)"),
    (lambda c: {"obs": strided(c, (LANES, 3), (0, 4))}, ValueError, r"strides \(0, 4\) bytes; it must be contiguous"),
    (lambda c: {"obs": strided(c, (LANES, 3), (-12, 4))}, ValueError, r"strides \(-12, 4\) bytes"),
    (lambda c: {"reward": c.ndarray((LANES,), np.float32, offset=2)}, ValueError, '"reward" is at .* a multiple of 4'),
    (lambda c: {"reward": [1.0] * LANES}, ValueError, "reward is in host memory; it must be in the memory of cuda:0"),
    (lambda c: {"obs": (same := c.zeros((LANES, 3), np.float32)), "final_obs": same}, ValueError,
     "obs and final_obs are the same memory"),
    (lambda c: {"stream": "3"}, TypeError, "stream is '3'; it must be an integer"),
    (lambda c: {"obs": on_stream(c, 77)}, ValueError, r"the arrays are made on streams \[1, 77\]; make them on"),
])
def test_arrays_that_do_not_fit_are_refused(cupy, change, error, words):
    buffer = make()
    for t in range(3):
        buffer.add(**given(cupy, t))
    before = buffer.stats
    with pytest.raises(error, match=words):
        buffer.add(**given(cupy, 3, **change(cupy)))
    assert buffer.stats == before


def strided(cupy, shape, strides):
    array = cupy.zeros(shape, np.float32)
    array.strides = strides
    return array


def on_stream(cupy, stream):
    class Other(cupy.ndarray):
        @property
        def __cuda_array_interface__(self):
            return {**super().__cuda_array_interface__, "stream": stream}

    return Other((LANES, 3), np.float32)


@pytest.mark.parametrize(("out", "error", "words"), [
    (lambda c: {"obs": np.zeros((4, 3), np.float32)}, ValueError, r'out\["obs"\] is in host memory; it must be in the'),
    (lambda c: {"obs": c.zeros((3, 3), np.float32)}, ValueError, r'out\["obs"\] has shape \(3, 3\); it must be \(4, 3'),
    (lambda c: {"id": c.zeros((4,), np.int32)}, TypeError, r'out\["id"\] is int32 in device memory; it must be int64'),
    (lambda c: {"obs": (o := c.zeros((4, 3), np.float32)), "next_obs": o}, ValueError, "have memory in common"),
    (lambda c: {"obs": read_only(c)}, ValueError, r'out\["obs"\] is read-only; it must be an array that can be'),
])
def test_draws_that_do_not_fit_are_refused(cupy, out, error, words):
    buffer = make()
    buffer.add(**given(cupy, 0))
    with pytest.raises(error, match=words):
        buffer.sample(4, out=out(cupy))
    assert buffer.stats.draws == 0


def read_only(cupy):
    array = cupy.zeros((4, 3), np.float32)
    array.is_read_only = True
    return array


def test_other_libraries_arrays_are_read_and_the_batch_needs_one_that_can_make_it(cupy, monkeypatch):
    class Interface:
        def __init__(self, array):
            self._array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__

    buffer, other = make(), make("cpu")
    for t in range(4):
        buffer.add(**{name: Interface(array) for name, array in given(cupy, t).items()})
        other.add(**step_of(t))
    assert the_same(buffer.sample(8), other.sample(8))  # CuPy makes it
    monkeypatch.delitem(sys.modules, "cupy")
    with pytest.raises(TypeError, match="neither PyTorch nor CuPy is imported, .*; import one of them, or give arrays"):
        buffer.sample(8)
    out = {name: cupy.empty(array.shape, array.dtype) for name, array in other.sample(8).items()}
    assert the_same(buffer.sample(8, out={name: Interface(array) for name, array in out.items()}) and out,
                    other.gather(out["id"].host.copy()))


@needs_files
@pytest.mark.parametrize("own", [False, True])
def test_a_captured_loop_goes_on_and_what_waits_is_refused(cupy, tmp_path, own):
    """own: the device was opened with the stream that is captured."""
    stream = Stream()
    device = gpureplay.Device("cuda:0", stream=stream) if own else "cuda:0"
    buffer, other = make(device, prioritized=True), make("cpu", prioritized=True)
    agent = gpureplay.DQN(buffer, num_actions=3, trunk=[8], batch_size=8)
    buffer.save(tmp_path / "empty")
    cupy.current, values = stream.ptr, given(cupy, 0)
    out = buffer.sample(8)
    other.sample(8)
    which = cupy.asarray(np.zeros(LANES, bool))
    with stream.capture() as launch:
        buffer.add(**values)
        buffer.reset(which)
        for call in (lambda: buffer.stats, lambda: len(buffer), lambda: buffer.priority_stats,
                     lambda: buffer.save(tmp_path / "lanes"), lambda: buffer.load(tmp_path / "empty"),
                     *([lambda: agent.train(1)] if own else [])):
            with pytest.raises(gpureplay.GpureplayError, match="is being captured into a graph"):
                call()
        with pytest.raises(ValueError, match="the legacy default stream"):
            buffer.sample(8, out=out, stream=LEGACY)
        buffer.sample(8, out=out)
        buffer.update_priorities(out["id"], out["weight"])
    assert not (tmp_path / "lanes").exists() and buffer.stats.steps == 0
    for t in range(30):
        for name, array in step_of(t).items():
            values[name].host[...] = array
        which.host[...] = np.arange(LANES) % 5 == t % 7
        launch[0]()
        other.add(**step_of(t))
        other.reset(which.host.copy())
        wanted = other.sample(8)
        assert the_same(out, wanted)
        other.update_priorities(wanted["id"], wanted["weight"])
    assert buffer.stats == other.stats and buffer.stats.steps == 30 and buffer.stats.without_final > 10
    agent.train(2)


def test_a_closed_buffer_says_so_under_capture(cupy):
    """The graph itself knows nothing of it: it must not be launched any more."""
    stream, buffer = Stream(), make()
    cupy.current, values = stream.ptr, given(cupy, 0)
    with stream.capture() as launch:
        buffer.add(**values)
        buffer.close()
        for call in (lambda: buffer.add(**values), lambda: buffer.sample(4), lambda: len(buffer)):
            with pytest.raises(gpureplay.Closed, match="this buffer was closed; make a new one"):
                call()
    assert len(launch) == 1


def test_streams_by_all_their_names(cupy):
    stream = Stream()
    buffer, other = make(), make("cpu")
    of_cupy, of_torch = types.SimpleNamespace(ptr=stream.ptr), types.SimpleNamespace(cuda_stream=stream.ptr)
    for t, name in enumerate((stream, stream.ptr, of_cupy, of_torch, 0, None)):
        buffer.add(**given(cupy, t), stream=name)
        other.add(**step_of(t))
        assert the_same(buffer.sample(8, stream=name), other.sample(8))


def test_tensors_go_in_and_out_on_the_current_stream(torch):
    buffer, other = make(), make("cpu")
    torch.current = Stream().ptr
    buffer.reset()
    for t in range(20):
        buffer.add(**given(torch, t))
        other.add(**step_of(t))
        if t % 5 == 2:
            buffer.reset()
            other.reset()
        assert the_same(buffer.sample(8), other.sample(8))
    assert buffer.stats == other.stats
    on_host, turned = torch.zeros((LANES, 3), np.float32, None), torch.zeros((LANES, 3), np.float32, None)
    on_host.device, turned.strides = "cpu", (1, LANES)
    for change, error, words in (
            ({"obs": on_host}, ValueError, "obs is on cpu; it must be on cuda:0"),
            ({"obs": turned}, ValueError, r"obs has strides \(1, 6\); it must be contiguous: obs.contiguous\(\)"),
            ({"action": np.zeros(LANES, np.int32)}, TypeError, "action is a ndarray, and other arrays are PyTorch's"),
            ({"reward": torch.zeros((LANES,), np.float16, None)}, TypeError, "reward is float16; it must be float32")):
        with pytest.raises(error, match=words):
            buffer.add(**given(torch, 20, **change))
    for lanes, error, words in (
            (torch.zeros((LANES,), np.float32, None), TypeError, "lanes is float32; it must be bool"),
            (np.zeros(LANES, bool), ValueError, "lanes is in host memory; it must be in the memory of cuda:0")):
        with pytest.raises(error, match=words):
            buffer.reset(lanes)
    assert buffer.stats == other.stats


def test_the_block_of_the_page_is_captured(torch):
    block, = (block for block in blocks_of_page("simulators.md") if "CUDAGraph" in block)
    buffer, other, values = make(), make("cpu"), given(torch, 0)
    names = {**values, "torch": torch, "buffer": buffer}
    block = block.replace("obs=obs,", "obs=obs, tag=tag,", 1)  # a field of this test's
    exec(compile(block, "simulators.md", "exec"), names)
    other.sample(32768)
    assert buffer.stats == other.stats and buffer.stats.steps == 0
    for t in range(5):
        for name, array in step_of(t).items():
            values[name].host[...] = array
        names["graph"].replay()
        other.add(**step_of(t))
        assert the_same(names["batch"], other.sample(32768))
    assert buffer.stats == other.stats and buffer.stats.steps == 5
