# SPDX-License-Identifier: MIT
"""bench/peers on CUDA, as far as it can be tried without: who takes part there, and what is timed."""

import sys
import types
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from fakes import CudaDlpack
from test_peers import SETTINGS, Found, Ring, Settings, adapters, check, compete, peers, timing, workloads


def test_a_device_that_is_not_here_is_told(monkeypatch, capsys):
    monkeypatch.setattr(peers.host, "use_threads", lambda threads, on_cuda: 1)
    assert peers.main(["--device", "cuda:97", "--only", "cpprb"]) == 77
    assert "peers.py: cuda:97: " in capsys.readouterr().err


class OnCuda(Ring):
    """Says where it is, and when it is waited for."""

    devices, waits = ("cuda",), 0

    def finish(self):
        self.waits += 1


def test_on_cuda_a_batch_of_draws_is_waited_for_once():
    for device, waits in (("cuda:0", 1), ("cpu", 0)):
        adapter = OnCuda(workloads.OBS4, 256, 1, Settings(device, 1))
        adapter.extend(adapter.many(workloads.rows_of(workloads.OBS4, np.arange(256))))
        timing.run_of(adapter, workloads.Case("sample", 8))(5)
        assert adapter.waits == waits


def test_who_has_no_such_device_is_told(monkeypatch, capsys):
    ours = adapters.find("ours")
    for outcome in compete(ours, Found("cpprb", OnCuda, ""), patch=monkeypatch):
        assert outcome["results"]["cpprb"] == {"no": "its draws lie on cuda alone"}


@pytest.fixture
def cupy_by_numpy(monkeypatch):
    """There is no CuPy without a GPU; of what is called of it here NumPy has the same, but for asnumpy and devices."""
    cupy = types.ModuleType("cupy")
    cupy.__version__, cupy.random, cupy.asnumpy = "0", np.random, np.asarray
    cupy.zeros, cupy.asarray, cupy.take, cupy.cuda = np.zeros, np.asarray, np.take, Mock()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(sys.modules, "adapters.cupy_arrays", raising=False)
    yield
    monkeypatch.delitem(sys.modules, "adapters.cupy_arrays", raising=False)


@pytest.mark.usefixtures("cupy_by_numpy")
def test_cupy_passes_its_check_where_numpy_stands_in():
    found = adapters.find("cupy_arrays")
    assert found.adapter.devices == ("cuda",) and found.adapter.version() == "0"
    for schema in workloads.SCHEMAS:
        for chunk in check.chunks(schema):
            assert check.prove(found.adapter, schema, chunk, Settings("cuda:0", 1)) == ""


@pytest.mark.parametrize("module", ["torch_tensors", "jax_arrays", "cupy_arrays"])
def test_what_goes_past_the_end_goes_on_at_the_beginning(module, request):
    """Also more at once than there are slots."""
    if module == "cupy_arrays":
        request.getfixturevalue("cupy_by_numpy")
    found = adapters.find(module)
    if found.adapter is None:
        pytest.skip(found.error)
    settings = Settings("cuda:0" if module == "cupy_arrays" else "cpu", 1)
    adapter, last = found.adapter(workloads.OBS4, 10, 1, settings), 0
    for count in (7, 7, 23, 4):
        adapter.extend(adapter.many(workloads.rows_of(workloads.OBS4, np.arange(last, last + count))))
        last += count
        rows = adapter.read(adapter.sample(200))
        assert check.wrong_rows(rows, adapter, max(last - 10, 0), last) == ""
        assert len(set(workloads.tags_of(workloads.OBS4, rows))) == min(last, 10)


class OnDevice(CudaDlpack):
    """A part of an array that says it is on a CUDA device."""

    def __init__(self, array, device):
        self.array, self.device = array, device

    def __getitem__(self, part):
        return OnDevice(self.array[part], self.device)


def without_cuda(array, device):
    raise RuntimeError("built without CUDA")


@pytest.mark.parametrize("operation", ["update", "turn"])
def test_on_cuda_ours_is_given_ids_and_priorities_in_the_same_memory(operation, monkeypatch):
    """As everybody else is there: what is timed must not come from the host with ours alone."""
    ours, given = adapters.find("ours_priorities", "prioritized").adapter, []
    adapter = ours(workloads.OBS4, 256, 1, SETTINGS)
    adapter.fill(workloads.rows_of(workloads.OBS4, np.arange(256)))
    batch = Mock(indices=OnDevice(np.arange(8), "cuda:1"))
    buffer = Mock(stats=adapter._buffer.stats, sample=lambda count: batch,
                  update_priorities=lambda *both: given.append(both))
    adapter.close()
    monkeypatch.setattr(sys.modules["device_arrays"], "MAKERS", (without_cuda, OnDevice))
    adapter._buffer, adapter._device, adapter.settings, adapter.on_cuda = buffer, Mock(), Settings("cuda:1", 1), True
    timing.run_of(adapter, workloads.Case(operation, 8))(3)
    assert len(given) == 3
    for indices, priorities in given:
        assert indices.device == priorities.device == "cuda:1"
        assert (indices.array.dtype, priorities.array.dtype) == (np.int64, np.float32)
        assert indices.array.shape == priorities.array.shape == (8,)


def test_arrays_of_a_device_are_made_by_who_is_here(monkeypatch):
    """PyTorch; else CuPy; else it is told why not."""
    import device_arrays

    torch, cupy, array = Mock(), Mock(cuda=types.SimpleNamespace(Device=MagicMock())), np.zeros(3)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert device_arrays.on("cuda:1", array) is torch.from_numpy.return_value.to.return_value
    torch.from_numpy.return_value.to.assert_called_once_with("cuda:1")
    torch.from_numpy.side_effect = AssertionError("Torch not compiled with CUDA enabled")
    assert device_arrays.on("cuda:1", array) is cupy.asarray.return_value
    cupy.cuda.Device.assert_called_once_with(1)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match="cuda:1 need PyTorch or CuPy with CUDA; AssertionError: Torch not comp"):
        device_arrays.on("cuda:1", array)
