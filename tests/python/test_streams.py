# SPDX-License-Identifier: MIT
"""On which CUDA stream the library reads a device array, told from what made it. Nothing here needs a GPU: the arrays
only say that they are in a device's memory."""

import sys
import types

import gpureplay
import numpy as np
import pytest
from gpureplay import _inputs, _numbers
from gpureplay._schema import Field

FIELD = Field("obs", (3,), np.dtype(np.float32))
LEGACY = 1


class OnDevice:
    """An array of a library that tells nobody its stream. It notes for which stream it was made ready."""

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
    """As CuPy's, which has both protocols, and tells the stream by one of them."""

    def __init__(self, stream):
        super().__init__()
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         "stream": stream}


class FakeDevice:
    """The buffer's device, as far as arrays ask for it."""

    def __init__(self):
        self.waited = []

    def wait_stream(self, stream):
        self.waited.append(stream)


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def torch(monkeypatch):
    current = types.SimpleNamespace(cuda_stream=0)
    fake = types.SimpleNamespace(Tensor=Tensor, current=current,
                                 cuda=types.SimpleNamespace(current_stream=lambda device: current))
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.mark.parametrize("current, wanted", [(0, LEGACY), (0x5550, 0x5550)])
def test_a_tensor_is_read_on_the_current_stream_of_pytorch(device, torch, current, wanted):
    """That is the stream in whose order PyTorch gives its memory to the next tensor, so it has to wait for the
    reading."""
    torch.current.cuda_stream = current
    tensor = Tensor()
    array = _inputs.located(FIELD, tensor, device)
    assert (array.stream, tensor.asked, device.waited) == (wanted, [wanted], [])
    assert _inputs.stream_of([array], None) == wanted


def test_an_array_that_tells_its_stream_is_read_on_that(device):
    array = Interface(0x7770)
    assert (_inputs.located(FIELD, array, device).stream, array.asked, device.waited) == (0x7770, [], [])
    assert _inputs.located(FIELD, Interface(None), device).stream is None


def test_an_array_that_does_not_is_waited_for(device):
    """Nobody could make its library wait for the reading: what takes its memory next is on a stream nobody knows. The
    array is ready then, and a call without a stream returns when it has been read."""
    array = OnDevice()
    found = _inputs.located(FIELD, array, device)
    assert (array.asked, device.waited, found.stream) == ([LEGACY], [LEGACY], None)
    assert _inputs.stream_of([found], None) is None


def test_who_says_the_stream_is_believed(device, torch):
    for array in (Tensor(), OnDevice(), Interface(0x7770)):
        found = _inputs.located(FIELD, array, device, 0x9990)
        assert (array.asked, device.waited) == ([0x9990], [])
        assert _inputs.stream_of([found], 0x9990) == 0x9990


@pytest.mark.parametrize("stream, wanted", [
    (None, None), (7, 7), (np.int64(7), 7), (0, LEGACY),
    (types.SimpleNamespace(cuda_stream=7), 7), (types.SimpleNamespace(cuda_stream=0), LEGACY),
    (types.SimpleNamespace(ptr=9), 9), (types.SimpleNamespace(__cuda_stream__=lambda: (0, 11)), 11),
])
def test_a_stream_is_a_number_or_an_object_that_has_one(stream, wanted):
    """0 is CUDA's legacy default stream, which the library calls 1: its own 0 is none at all."""
    assert _numbers.stream_of(stream) == wanted


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
        for function in ("gpur_replay_sample", "gpur_replay_gather", "gpur_replay_resample", "gpur_batch_wait"):
            monkeypatch.setattr(gpureplay._library.lib, function, without_stream(function))
        yield buffer


def without_stream(name):
    call, place = getattr(gpureplay._library.lib, name), {"gpur_replay_gather": 3, "gpur_replay_sample": 2}.get(name, 1)
    return lambda *given: call(*given[:place], None, *given[place + 1:])


@pytest.mark.parametrize("draw", [lambda buffer, stream: buffer.sample(8, stream=stream),
                                  lambda buffer, stream: buffer.gather([1, 2], stream=stream)])
def test_a_batch_holds_the_streams_it_was_drawn_for(batches, draw):
    batch = draw(batches, Stream())
    assert Stream.alive == 1
    batch.wait(Stream())
    assert Stream.alive == 2
    array = batch.array("obs")
    del batch
    assert Stream.alive == 2
    batches._spare = 0, ()
    del array
    assert Stream.alive == 0


def test_a_batch_that_is_drawn_anew_holds_the_new_stream_alone(batches, monkeypatch):
    monkeypatch.setattr(gpureplay._buffer, "_redraw", gpureplay._reuse._redraw)
    monkeypatch.setattr(gpureplay._reuse, "_kind", gpureplay._reuse.Watch)
    gpureplay._reuse._measure()
    address = batches.sample(8, stream=Stream()).array("obs").ptr
    assert Stream.alive == 1
    batch = batches.sample(8, stream=Stream())
    assert (batch.array("obs").ptr, Stream.alive) == (address, 1)
    batch = batches.sample(8)
    del batch
    batches._spare = 0, ()
    assert Stream.alive == 0
