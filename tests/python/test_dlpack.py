# SPDX-License-Identifier: MIT
"""Batches in other libraries' hands, without a copy."""

import ctypes
import gc
import sys

import gpureplay
import numpy as np
import pytest
from rows import DTYPES, block, same

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
    """An exporter from before DLPack 1.0: nothing is asked of it but a stream."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, stream=None):
        return self._array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("exporter", [lambda array: array, Unversioned], ids=["versioned", "unversioned"])
def test_numpy_takes_every_array_where_it_lies(buffer, exporter, name):
    batch = buffer.sample(16)
    array = batch.array(name)
    taken = np.from_dlpack(exporter(array))
    assert taken.ctypes.data == array.ptr == batch[name].ctypes.data and array.ptr % 256 == 0
    assert same(taken, batch[name]) and array.shape == taken.shape and array.dtype == taken.dtype
    assert array.nbytes == taken.nbytes and len(array) == 16 and array.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("arguments, capsule", [
    ({}, '"dltensor"'), ({"max_version": (0, 8)}, '"dltensor"'), ({"max_version": (1, 0)}, '"dltensor_versioned"'),
    ({"max_version": (2, 1)}, '"dltensor_versioned"'), ({"stream": None}, '"dltensor"'), ({"stream": -1}, '"dltensor"'),
    ({"dl_device": (1, 0)}, '"dltensor"'), ({"copy": False}, '"dltensor"'),
])
def test_the_consumer_chooses_the_capsule(buffer, arguments, capsule):
    assert capsule in repr(buffer.sample(4).array("bool").__dlpack__(**arguments))


def test_another_device_is_refused(buffer):
    with pytest.raises(BufferError, match=r"is on DLPack device \(1, 0\), wanted on \(2, 0\)"):
        buffer.sample(4).array("bool").__dlpack__(dl_device=(2, 0))


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


def test_items_are_the_arrays_by_name(buffer):
    batch = buffer.sample(16)
    assert [name for name, _ in batch.items()] == batch.keys() == NAMES
    assert all(array is batch[name] for name, array in batch.items())


def test_torch_is_asked_for_where_it_is_missing(buffer, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="PyTorch is not installed; `pip install torch`"):
        buffer.sample(4).torch()


def test_a_batch_gives_tensors_of_its_memory(buffer):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    batch = buffer.sample(16)
    tensors, wanted = batch.torch(), {name: array.copy() for name, array in batch.items()}
    assert list(tensors) == NAMES and tensors["bool"].dtype == torch.bool
    assert all(tensor.data_ptr() == batch.array(name).ptr for name, tensor in tensors.items())
    del batch
    for _ in range(20):
        buffer.sample(16).torch()["float32"].fill_(7)
    assert all(same(tensor.numpy(), wanted[name]) for name, tensor in tensors.items())


def test_no_stream_of_cuda_is_waited_for_on_the_cpu(buffer):
    with pytest.raises(gpureplay.InvalidArgument, match="stream"):
        buffer.sample(4).array("bool").__dlpack__(stream=3)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_nobody_takes_gives_its_batch_back(buffer, version):
    before = alive(buffer)
    capsules = [buffer.gather([1, 2]).array("int32").__dlpack__(max_version=version) for _ in range(10)]
    assert alive(buffer) == before + 10
    del capsules
    assert alive(buffer) == before


def test_the_last_taker_gives_the_batch_back(buffer):
    before, batch = alive(buffer), buffer.gather([5, 6, 7])
    taken = [np.from_dlpack(batch.array(name)) for name in NAMES]
    views, wanted = [array[1:] for array in taken], [array[1:].copy() for array in taken]
    del batch, taken
    assert alive(buffer) == before + 1 and all((a == b).all() for a, b in zip(views, wanted))
    del views
    assert alive(buffer) == before


def test_a_part_of_one_array_keeps_the_batch(buffer):
    """Of a batch that the buffer keeps for no other draw."""
    before = alive(buffer)
    part, wanted = buffer.gather([5, 6, 7]).float32[1:], block(FIELDS, 6, 2)["float32"]
    assert alive(buffer) == before + 1
    others = [buffer.gather([1, 2, 3]) for _ in range(20)]
    assert same(part, wanted)
    del part, others
    assert alive(buffer) == before


def test_a_batch_outlives_its_buffer_and_device():
    device = gpureplay.Device("cpu")
    buffer = gpureplay.ReplayBuffer(64, FIELDS, device=device)
    rows = block(FIELDS, 0, 64)
    buffer.extend(**rows)
    batch = buffer.sample(16)
    taken, part = np.from_dlpack(batch.array("float32")), batch.uint8[3:]
    ids = batch.id.copy()
    buffer.close()
    device.close()
    del buffer, device
    gc.collect()
    assert all(same(batch[name], rows[name][ids]) for name in FIELDS) and len(batch) == 16
    assert same(batch.array("bool").numpy(), rows["bool"][ids])
    del batch
    gc.collect()
    assert same(taken, rows["float32"][ids]) and same(part, rows["uint8"][ids[3:]])


def test_numpy_asks_an_array_for_itself(buffer):
    batch = buffer.sample(8)
    array = batch.array("float32")
    assert np.asarray(array) is batch.float32
    assert array.numpy() is not batch.float32 and same(array.numpy(), batch.float32)
    assert np.asarray(array, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(array, copy=True), batch.float32)
    with pytest.raises(ValueError, match="float32 in the memory of cpu"):
        array.__array__(np.float64, copy=False)
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        array.__cuda_array_interface__


def test_torch_takes_every_array_where_it_lies(buffer):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    for name in NAMES:
        batch = buffer.sample(16)
        for taken in (torch.from_dlpack(batch.array(name)), torch.from_dlpack(batch[name])):
            assert taken.data_ptr() == batch.array(name).ptr and same(taken.numpy(), batch[name])
    assert torch.from_dlpack(batch.array("bool")).dtype == torch.bool


def test_jax_takes_every_array_where_it_lies(buffer):
    jax = pytest.importorskip("jax", reason="JAX is not installed here")
    with jax.enable_x64(True):
        for name in NAMES:
            batch = buffer.sample(16)
            taken = jax.dlpack.from_dlpack(batch.array(name))
            assert taken.unsafe_buffer_pointer() == batch.array(name).ptr and same(taken, batch[name])


def test_the_memory_has_the_bytes_that_the_arrays_show(buffer):
    batch = buffer.sample(16)
    for name in NAMES:
        array = batch.array(name)
        assert ctypes.string_at(array.ptr, array.nbytes) == batch[name].tobytes()
