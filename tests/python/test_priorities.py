# SPDX-License-Identifier: MIT
"""Priorities from Python: what is drawn, what a batch weighs, and what is refused."""

import gc
import sys
import threading

import gpureplay
import numpy as np
import pytest
from fakes import CudaDlpack, CudaInterface
from gpureplay import _priorities
from gpureplay._dlpack import DeviceArray

FIELDS = {"obs": ((2,), "float32")}
OFFSET = np.float32(1e-6)


def make(capacity=64, count=40, **settings):
    made = gpureplay.ReplayBuffer(capacity, FIELDS, device="cpu", **{"prioritized": True, "max_batch": 32, **settings})
    made.extend(obs=np.repeat(np.arange(count, dtype=np.float32), 2).reshape(count, 2))
    made.gather([0])  # which publishes them all: an update passes over what is not yet there
    return made


@pytest.fixture
def buffer():
    with make() as made:
        yield made


@pytest.fixture(params=["as it is", "without the extension"])
def ways(request, monkeypatch):
    if request.param != "as it is":
        monkeypatch.setattr(_priorities, "_updated", _priorities._never)


def test_a_random_schedule_is_what_a_dict_gives(ways):
    random = np.random.default_rng(3)
    with make(count=1, update_size=4) as buffer:
        held, largest, invalid, stale = {0: np.float32(1)}, np.float32(1), 0, 0
        for _ in range(150):
            count = int(random.integers(1, 9))
            buffer.extend(obs=np.zeros((count, 2), np.float32))
            first = max(held) + 1
            held.update(dict.fromkeys(range(first, first + count), largest))
            buffer.sample(1)
            held = dict(sorted(held.items())[-len(buffer):])
            ids = random.integers(max(first - 70, 0), first + count, 12)
            given = random.choice([0, 0.25, 1, 3, -1, np.nan, np.inf, 17], 12).astype(np.float32)
            buffer.update_priorities(ids, given)
            fine = (given >= 0) & (given < np.inf)
            new = {}
            for index, value, is_fine in zip(ids.tolist(), given + OFFSET, fine):
                stale, invalid = stale + (is_fine and index not in held), invalid + (not is_fine)
                if index in held and is_fine:
                    new[index] = max(new.get(index, value), value)
            held.update(new)
            largest = max([largest, *new.values()])
            wanted = random.choice(list(held), 20)
            assert np.array_equal(buffer.get_priorities(wanted), [held[index] for index in wanted])
        stats = buffer.priority_stats
        kept = np.array(list(held.values()), np.float64)
        assert (stats.max_priority, stats.min_priority) == (largest, kept.min()) and stats.drawable == len(held)
        assert np.isclose(stats.total, (kept**0.6).sum(), atol=len(held) * 2**-20) and buffer.check_priorities() == 0
        assert stats.stale == stale > 0 and stats.invalid == invalid > 0


def test_draws_and_weights_follow_the_priorities(buffer):
    priorities = np.r_[np.full(8, 4.0), np.zeros(32)]
    buffer.update_priorities(np.arange(40)[:32], priorities[:32])
    buffer.update_priorities(np.arange(32, 40), priorities[32:])
    buffer.alpha, buffer.beta = 1.0, 0.5
    batch = buffer.sample(32)
    assert set(batch.ids.tolist()) == set(range(8)) and np.array_equal(batch.weights, np.ones(32))
    buffer.update_priorities([0], [12.0])
    counts = np.zeros(40)
    for _ in range(200):
        batch = buffer.sample(32)
        np.add.at(counts, batch.ids, 1)
    assert abs(counts[0] / counts.sum() - 12 / 40) < 0.02 and counts[8:].sum() <= 2
    wanted = np.where(batch.ids == 0, (12 / 4)**-0.5, 1)
    assert np.allclose(batch.weights, wanted, rtol=1e-5)


@pytest.mark.parametrize("norm,largest", [("batch", 1.0), ("none", None)])
def test_weights_are_divided_as_said(norm, largest):
    with make(weight_norm=norm, alpha=1.0, beta=1.0) as buffer:
        buffer.update_priorities(np.arange(20), np.arange(1, 21))
        batch = buffer.sample(16)
        held = buffer.get_priorities(range(20)).tolist() + buffer.get_priorities(range(20, 40)).tolist()
        weights = 1 / (40 * np.array(held)[batch.ids] / sum(held))
        assert np.allclose(batch.weights, weights / (weights.max() if largest else 1), rtol=1e-4)


def test_beta_is_a_schedule_until_it_is_set():
    with make(beta=(0.4, 1.0, 3)) as buffer:
        betas = [buffer.beta]
        for _ in range(4):
            buffer.sample(4)
            betas.append(buffer.beta)
        assert np.allclose(betas, [0.4, 0.6, 0.8, 1.0, 1.0])
        buffer.beta = 0.25
        assert buffer.beta == 0.25
        buffer.sample(4, beta=0.75)
        assert buffer.beta == 0.75 and buffer.alpha == np.float32(0.6)
        buffer.alpha = 0
        assert buffer.alpha == 0 and buffer.check_priorities() == 0


def unaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype)
    raw[:] = array
    return raw


IDS = {
    "int64": lambda ids: ids, "list": lambda ids: ids.tolist(), "strided": lambda ids: np.repeat(ids, 2)[::2],
    "read-only": lambda ids: np.frombuffer(ids.tobytes(), np.int64), "unaligned": unaligned,
    "big-endian": lambda ids: ids.astype(">i8"), **{
        name: lambda ids, name=name: ids.astype(name) for name in ("int32", "uint8", "uint64", "int16")},
}
VALUES = {
    "float32": lambda values: values, "list": lambda values: values.tolist(), "unaligned": unaligned,
    "strided": lambda values: np.repeat(values, 2)[::2], **{
        name: lambda values, name=name: values.astype(name)
        for name in ("float64", "float16", "int64", "uint8", ">f4")},
}


def test_tensors_are_taken_as_they_are(buffer, ways):
    torch = pytest.importorskip("torch")
    indices, priorities = torch.tensor([5, 2, 9]), torch.tensor([3.0, 1.0, 0.0])
    for ids, values in ((indices, priorities), (indices.int(), 2 * priorities.double())):
        buffer.update_priorities(ids, values)
        assert np.array_equal(buffer.get_priorities(ids), values.numpy().astype(np.float32) + OFFSET)
    for wrong, text in ((priorities.requires_grad_(), r"priorities is .* a gradient; .* priorities.detach\(\)"),
                        (priorities.detach().bfloat16(), "priorities cannot be .*bfloat16, and must be float32")):
        with pytest.raises(ValueError, match=text):
            buffer.update_priorities(indices, wrong)


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("values", VALUES)
def test_arrays_of_other_types_are_converted(buffer, ways, ids, values):
    indices, priorities = np.array([5, 2, 9, 30]), np.array([3, 1, 0, 7], np.float32)
    buffer.update_priorities(IDS[ids](indices), VALUES[values](priorities))
    assert np.array_equal(buffer.get_priorities(IDS[ids](indices)), priorities + OFFSET)


def test_many_are_converted_at_once(ways):
    with make(capacity=8000, count=3000, max_batch=3000) as buffer:
        ids, values = np.arange(3000)[::-1].astype(np.int32), np.linspace(0, 5, 3000)
        for count in (1023, 1024, 1025, 3000):
            given = values[:count] + count
            buffer.update_priorities(ids[:count], given)
            assert np.array_equal(buffer.get_priorities(ids[:count]), given.astype(np.float32) + OFFSET)


def test_what_a_batch_holds_goes_back(buffer, ways):
    batch = buffer.sample(32)
    buffer.update_priorities(batch.indices, batch.obs[:, 0])
    assert np.array_equal(buffer.get_priorities(batch.ids), batch.obs[:, 0] + OFFSET)
    buffer.update_priorities([], [])
    buffer.update_priorities(np.zeros(0, np.int64), np.zeros(0, np.float32))
    assert buffer.priority_stats.updates == 32


BAD = {
    "one priority less": ([1, 2], [1.0], ValueError, r"priorities has shape \(1,\); it must be \(2,\), as indices"),
    "arrays of other lengths": (np.arange(9), np.ones(2, np.float32), ValueError, r"has shape \(2,\); it must be"),
    "a column": ([1, 2], [[1.0], [2.0]], ValueError, r"priorities has shape \(2, 1\); it must be \(2,\), as indices"),
    "one index": (1, 1.0, ValueError, r"indices has shape \(\); it must be \(count,\)"),
    "a grid": (np.zeros((2, 2), int), np.zeros((2, 2)), ValueError, r"indices has shape \(2, 2\); it must be"),
    "indices of floats": ([1.5, 2], [1, 1], TypeError, "indices is float64; it must be int64"),
    "indices of bools": ([True, False], [1, 1], TypeError, "indices is bool; it must be int64"),
    "huge indices": (np.full(1, 2**63, np.uint64), [1.0], ValueError, "indices has 9223372036854775808 to .*int64"),
    "text": ([1], ["a"], TypeError, "priorities is <U1; it must be float32"),
    "huge priorities": ([1], [1e39], ValueError, r"priorities has 1e\+39 .* float32 holds"),
    "masked": ([1], np.ma.zeros(1, np.float32), TypeError, "priorities is a masked array"),
    "too many": (np.zeros(33, int), np.zeros(33), gpureplay.InvalidArgument, "33"),
    "on a device": (CudaDlpack(), [1.0], TypeError, "indices is in the memory of a CUDA device"),
    "priorities on a device": ([1], CudaInterface((1,)), TypeError, "priorities is in the memory of a CUDA device"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_priorities_change_nothing(buffer, ways, case):
    indices, priorities, error, text = BAD[case]
    before = buffer.priority_stats
    with pytest.raises(error, match=text):
        buffer.update_priorities(indices, priorities)
    assert buffer.priority_stats == before and np.array_equal(buffer.get_priorities(range(32)), np.ones(32))


def test_the_rest_of_what_is_refused(buffer):
    with pytest.raises(gpureplay.InvalidArgument, match="stream"):
        buffer.update_priorities([1], [1.0], stream=1)
    with pytest.raises(gpureplay.InvalidArgument, match="40"):
        buffer.get_priorities([40])
    with pytest.raises(ValueError, match=r"indices has shape \(1, 1\); it must be \(count,\)"):
        buffer.get_priorities([[1]])
    for name in ("alpha", "beta"):
        with pytest.raises(gpureplay.InvalidArgument, match="-1"):
            setattr(buffer, name, -1.0)
        with pytest.raises(TypeError, match=f"{name} is 'a'; it must be a number"):
            setattr(buffer, name, "a")


def test_two_places_are_refused_and_two_device_arrays_are_not():
    there = DeviceArray(4096, (3,), np.dtype(np.int64), 7, None), DeviceArray(8192, (3,), np.dtype(np.float32), 7, None)
    assert _priorities._on_device([*there], None) == ([4096, 8192], 7)
    assert _priorities._on_device([*there], 9) == ([4096, 8192], 9)
    for given in ([there[0], np.zeros(3, np.float32)], [np.zeros(3, np.int64), there[1]]):
        with pytest.raises(TypeError, match="is in host memory, and the other in a CUDA device's; both must be in"):
            _priorities._on_device(given, None)
    with pytest.raises(TypeError, match="priorities is int64 in device memory; it must be float32"):
        _priorities._on_device([there[0], there[0]], None)


@pytest.mark.parametrize("call", [
    lambda buffer: buffer.update_priorities(np.zeros(1, np.int64), np.zeros(1, np.float32)),
    lambda buffer: buffer.get_priorities([0]), lambda buffer: buffer.alpha, lambda buffer: setattr(buffer, "beta", 1),
    lambda buffer: buffer.check_priorities(), lambda buffer: buffer.sample(1, beta=1)])
def test_other_buffers_and_closed_ones_say_so(ways, call):
    with make(prioritized=False) as plain, pytest.raises(gpureplay.InvalidArgument, match="prioritized"):
        call(plain)
    buffer = make()
    buffer.close()
    with pytest.raises(gpureplay.Closed, match="this buffer was closed; make a new one"):
        call(buffer)


def test_nothing_leaks(buffer):
    ids, values, wide = np.arange(32), np.ones(32, np.float32), np.ones(32)
    bad = np.full(33, 1), np.ones(33, np.float32)

    def call():
        buffer.update_priorities(ids, values)
        buffer.update_priorities(ids, wide)
        with pytest.raises(gpureplay.InvalidArgument):
            buffer.update_priorities(*bad)

    def counts():
        gc.collect()
        watched = [ids, values, wide, *bad, buffer, ids.dtype, values.dtype, wide.dtype]
        return [sys.getrefcount(one) for one in watched], sys.getallocatedblocks()

    for _ in range(200):
        call()
    before = counts()
    for _ in range(5000):
        call()
    after = counts()
    assert after[0] == before[0] and after[1] - before[1] < 100 and not buffer._calls


def test_threads_that_draw_add_and_update():
    with make(capacity=256) as buffer:
        failures, done = [], threading.Event()

        def work(act):
            try:
                while not done.is_set():
                    act()
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        def update():
            batch = buffer.sample(16)
            buffer.update_priorities(batch.indices, batch.obs[:, 0])

        acts = [update, update, lambda: buffer.extend(obs=np.ones((3, 2), np.float32)), lambda: buffer.priority_stats]
        threads = [threading.Thread(target=work, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        done.wait(0.5)
        done.set()
        for thread in threads:
            thread.join()
        assert not failures and buffer.check_priorities() == 0 and buffer.priority_stats.updates > 0
