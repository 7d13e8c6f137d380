# SPDX-License-Identifier: MIT
"""Arrays that other libraries take and give: by DLPack, and on which device and stream. Nothing here needs a GPU."""

import ctypes
import gc
import importlib.util
import sys
import types

import gpureplay
import numpy as np
import pytest
from gpureplay import _dlpack, _inputs
from gpureplay._schema import Field
from support import DTYPES, block, same

FIELDS = {dtype: ((5, 2) if dtype != "int64" else (), dtype) for dtype in DTYPES}
NAMES = [*FIELDS, "discount", "weight", "id"]


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(64, FIELDS, device="cpu") as made:
        made.extend(**block(FIELDS, 0, 64))
        yield made


def alive(buffer):
    gc.collect()
    return buffer.stats.batches_alive


class Unversioned:
    """An exporter from before DLPack 1.0: it takes no argument except the stream."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def import_of(library):
    """Its from_dlpack, and a function that gives an array's address."""
    if library.startswith("numpy"):
        wrap = Unversioned if "unversioned" in library else lambda array: array
        return lambda array: np.from_dlpack(wrap(array)), lambda array: array.ctypes.data
    module = pytest.importorskip(library, reason=f"{library} is not installed here")
    if library == "jax":
        module.config.update("jax_enable_x64", True)
        return module.dlpack.from_dlpack, lambda array: array.unsafe_buffer_pointer()
    return module.from_dlpack, lambda array: array.data_ptr()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("library", ["numpy", "numpy, unversioned", "torch", "jax"])
def test_libraries_take_every_array_where_it_lies(buffer, library, name):
    import_array, address = import_of(library)
    batch = buffer.sample(16)
    array = batch.array(name)
    taken = import_array(array)
    assert address(taken) == array.ptr == batch[name].ctypes.data and array.ptr % 256 == 0
    assert same(taken, batch[name]) and array.shape == taken.shape and array.dtype == np.asarray(taken).dtype
    assert array.nbytes == batch[name].nbytes and len(array) == 16 and array.__dlpack_device__() == (1, 0)
    assert ctypes.string_at(array.ptr, array.nbytes) == batch[name].tobytes()


@pytest.mark.parametrize("arguments, capsule", [
    ({}, '"dltensor"'), ({"max_version": (0, 8)}, '"dltensor"'), ({"max_version": (1, 0)}, '"dltensor_versioned"'),
    ({"max_version": (2, 1)}, '"dltensor_versioned"'), ({"stream": None}, '"dltensor"'), ({"stream": -1}, '"dltensor"'),
    ({"dl_device": (1, 0)}, '"dltensor"'), ({"copy": False}, '"dltensor"'),
])
def test_the_consumer_chooses_the_capsule(buffer, arguments, capsule):
    if not _dlpack.HAS_VERSIONED:
        capsule = '"dltensor"'  # NumPy before 2.1 has no others
    assert capsule in repr(buffer.sample(4).array("bool").__dlpack__(**arguments))


def test_another_device_or_stream_is_refused(buffer):
    array = buffer.sample(4).array("bool")
    with pytest.raises(BufferError, match=r"is on DLPack device \(1, 0\), wanted on \(2, 0\)"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(gpureplay.InvalidArgument, match="stream"):
        array.__dlpack__(stream=3)


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_a_copy_and_holds_no_batch(buffer, name, version):
    before, batch = alive(buffer), buffer.gather([5, 6, 7])
    wanted = batch[name].copy()

    class Copying:
        def __dlpack__(self, **_):
            return batch.array(name).__dlpack__(max_version=version, copy=True)

        def __dlpack_device__(self):
            return 1, 0

    taken = np.from_dlpack(Copying())
    assert not np.shares_memory(taken, batch[name]) and same(taken, wanted)
    del batch
    assert alive(buffer) == before and same(taken, wanted)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="this NumPy's from_dlpack has no copy")
def test_numpy_copies_when_it_is_told_to(buffer):
    batch = buffer.sample(16)
    for array in (batch.float32, batch.array("float32")):
        taken = np.from_dlpack(array, copy=True)
        assert same(taken, batch.float32) and not np.shares_memory(taken, batch.float32) and taken.flags.writeable
        assert np.shares_memory(np.from_dlpack(array, copy=False), batch.float32)
        assert np.shares_memory(np.from_dlpack(array, device="cpu"), batch.float32)


def test_a_batch_gives_tensors_of_its_memory(buffer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        with pytest.raises(ModuleNotFoundError, match="PyTorch is not installed; `pip install torch`"):
            buffer.sample(4).torch()
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    batch = buffer.sample(16)
    tensors, wanted = batch.torch(), {name: array.copy() for name, array in batch.items()}
    assert list(tensors) == NAMES and tensors["bool"].dtype == torch.bool
    assert all(tensor.data_ptr() == batch.array(name).ptr for name, tensor in tensors.items())
    del batch
    for _ in range(20):
        buffer.sample(16).torch()["float32"].fill_(7)
    assert all(same(tensor.numpy(), wanted[name]) for name, tensor in tensors.items())


def test_numpy_asks_an_array_for_itself(buffer):
    batch = buffer.sample(8)
    array = batch.array("float32")
    assert np.asarray(array).ctypes.data == batch.float32.ctypes.data and same(np.asarray(array), batch.float32)
    assert array.numpy() is not batch.float32 and same(array.numpy(), batch.float32)
    assert np.asarray(array, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(array, copy=True), batch.float32)
    with pytest.raises(ValueError, match="float32 in the memory of cpu"):
        array.__array__(np.float64, copy=False)
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        array.__cuda_array_interface__


# The stream on which the library reads a device array: the arrays only claim to be in a device's memory.


FIELD = Field("obs", (3,), np.dtype(np.float32))
LEGACY = 1


class OnDevice:
    """An array of a library that does not name its stream. It records the streams for which it was made ready."""

    device = "cuda:0"

    def __init__(self):
        self._values, self.asked = np.zeros((2, 3), np.float32), []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        return self._values.__dlpack__()


class Tensor(OnDevice):
    """As PyTorch's."""


class Interface(OnDevice):
    """Like an array of CuPy, which has both protocols, and names its stream in one of them."""

    def __init__(self, stream):
        super().__init__()
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         "stream": stream}


@pytest.fixture
def waiter():
    """The buffer's device, as far as arrays ask for it. It records the streams that it waits for."""
    waited = []
    return types.SimpleNamespace(waited=waited, wait_stream=waited.append)


@pytest.fixture
def torch(monkeypatch):
    current = types.SimpleNamespace(cuda_stream=0)
    fake = types.SimpleNamespace(Tensor=Tensor, current=current,
                                 cuda=types.SimpleNamespace(current_stream=lambda device: current))
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.mark.parametrize("current, wanted", [(0, LEGACY), (0x5550, 0x5550)])
def test_a_tensor_is_read_on_the_current_stream_of_pytorch(waiter, torch, current, wanted):
    """That is the stream in whose order PyTorch gives its memory to the next tensor, so it has to wait for the
    reading."""
    torch.current.cuda_stream = current
    tensor = Tensor()
    array = _inputs.read_array(FIELD, tensor, waiter)
    assert (array.stream, tensor.asked, waiter.waited) == (wanted, [wanted], [])
    assert _inputs.producer_stream([array], None) == wanted


def test_an_array_that_names_its_stream_is_read_on_that(waiter):
    array = Interface(0x7770)
    assert (_inputs.read_array(FIELD, array, waiter).stream, array.asked, waiter.waited) == (0x7770, [], [])
    assert _inputs.read_array(FIELD, Interface(None), waiter).stream is None


def test_an_array_that_does_not_is_waited_for(waiter):
    """Its library cannot be made to wait for the reading, because the next user of its memory is on an unknown stream.
    The array is ready then, and a call without a stream returns when it has been read."""
    array = OnDevice()
    found = _inputs.read_array(FIELD, array, waiter)
    assert (array.asked, waiter.waited, found.stream) == ([LEGACY], [LEGACY], None)
    assert _inputs.producer_stream([found], None) is None


def test_the_stream_that_the_caller_gives_is_used(waiter, torch):
    for array in (Tensor(), OnDevice(), Interface(0x7770)):
        found = _inputs.read_array(FIELD, array, waiter, 0x9990)
        assert (array.asked, waiter.waited) == ([0x9990], [])
        assert _inputs.producer_stream([found], 0x9990) == 0x9990


@pytest.mark.parametrize("stream, wanted", [
    (None, None), (7, 7), (np.int64(7), 7), (0, LEGACY),
    (types.SimpleNamespace(cuda_stream=7), 7), (types.SimpleNamespace(cuda_stream=0), LEGACY),
    (types.SimpleNamespace(ptr=9), 9), (types.SimpleNamespace(__cuda_stream__=lambda: (0, 11)), 11),
])
def test_a_stream_is_a_number_or_an_object_that_has_one(stream, wanted):
    """0 is CUDA's legacy default stream, which the library calls 1: its own 0 is none at all."""
    assert _inputs.stream_of(stream) == wanted


class Stream:
    """As CuPy's: destroyed with its last reference."""

    alive = 0

    def __init__(self):
        self.ptr = 0x100
        Stream.alive += 1

    def __del__(self):
        Stream.alive -= 1


@pytest.fixture
def batches(monkeypatch):
    """Of a buffer on the CPU, which is made to take any stream."""
    with gpureplay.ReplayBuffer(64, {"obs": ((3,), "float32")}, device="cpu") as buffer:
        buffer.extend(obs=np.zeros((32, 3), np.float32))
        for function in ("gpur_replay_sample", "gpur_replay_gather", "gpur_replay_sample_into", "gpur_batch_wait"):
            monkeypatch.setattr(gpureplay._library.lib, function, without_stream(function))
        yield buffer


def without_stream(name):
    call, place = getattr(gpureplay._library.lib, name), {"gpur_replay_gather": 3, "gpur_replay_sample": 2}.get(name, 1)
    return lambda *given: call(*given[:place], None, *given[place + 1:])


@pytest.mark.parametrize("sample", [lambda buffer, stream: buffer.sample(8, stream=stream),
                                  lambda buffer, stream: buffer.gather([1, 2], stream=stream)])
def test_a_batch_holds_the_streams_it_was_sampled_for(batches, sample):
    batch = sample(batches, Stream())
    assert Stream.alive == 1
    batch.wait(Stream())
    assert Stream.alive == 2
    array = batch.array("obs")
    del batch
    assert Stream.alive == 2
    del array
    assert Stream.alive == 0


def test_a_batch_that_is_sampled_into_holds_the_new_stream_alone(batches):
    batch = batches.sample(8, stream=Stream())
    address = batch.array("obs").ptr
    assert batches.sample(8, out=batch, stream=Stream()) is batch
    assert (batch.array("obs").ptr, Stream.alive) == (address, 1)
    assert batches.sample(8, out=batch, stream=None) is batch
    assert Stream.alive == 0


# Devices named as PyTorch names them.


class device:  # noqa: N801 (as torch.device, of which nothing else is asked)
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index


def name_of(monkeypatch, given):
    """The name that the library is asked to open."""
    names = []

    def open_device(name, *_):
        names.append(name.decode())
        return gpureplay._c_api.UNAVAILABLE

    monkeypatch.setattr(gpureplay.lib, "gpur_device_open", open_device)
    with pytest.raises(gpureplay.Unavailable):
        gpureplay.Device(given)
    return names


def test_a_torch_device_is_the_one_of_its_index_or_pytorchs_current_one(monkeypatch):
    for index in (None, 0):
        with gpureplay.ReplayBuffer(100, {"x": "float32"}, device=device("cpu", index)) as buffer:
            assert buffer.device.name == "cpu"
    if "torch" in sys.modules or importlib.util.find_spec("torch"):
        assert gpureplay.Device(importlib.import_module("torch").device("cpu")).name == "cpu"
    assert name_of(monkeypatch, device("cuda", 3)) == ["cuda:3"]
    fake = types.ModuleType("fake_torch")
    fake.cuda = types.SimpleNamespace(current_device=lambda: 1)
    monkeypatch.setitem(sys.modules, "fake_torch", fake)
    monkeypatch.setattr(device, "__module__", "fake_torch")
    assert name_of(monkeypatch, device("cuda")) == ["cuda:1"]


@pytest.mark.parametrize("wrong", [device("mps"), device("meta"), 0, None, ["cpu"], b"cpu"])
def test_what_names_no_device_is_refused(wrong):
    with pytest.raises(TypeError, match='device is .*; it must be "auto", "cpu", "cuda:N", a torch.device'):
        gpureplay.ReplayBuffer(100, {"x": "float32"}, device=wrong)
