# SPDX-License-Identifier: MIT
"""Priorities: reading, updates, refusals, and buffers without priorities."""

import gpureplay
import numpy as np
import pytest
from gpureplay import _buffer
from gpureplay._dlpack import DeviceArray
from support import FORMS, CudaDlpack, CudaInterface, needs_files

# Updates and exponents.


FIELDS = {"obs": ((2,), "float32")}
OFFSET = np.float32(1e-6)


def make(capacity=64, count=40, **settings):
    made = gpureplay.ReplayBuffer(capacity, FIELDS, device="cpu", **{"prioritized": True, "max_batch": 48, **settings})
    made.extend(obs=np.repeat(np.arange(count, dtype=np.float32), 2).reshape(count, 2))
    return made


@pytest.fixture
def buffer():
    with make() as made:
        yield made


@pytest.fixture(params=["as it is", "without the extension"])
def each_path(request, monkeypatch):
    if request.param != "as it is":
        monkeypatch.setattr(_buffer, "_update_in_c", _buffer._never)


def test_alpha_and_beta_are_read_and_set():
    """A new exponent changes what is sampled; beta is a schedule until it is set."""
    with make(beta=(0.4, 1.0, 3)) as buffer:
        assert buffer.alpha == np.float32(0.6) and buffer.beta == np.float32(0.4)
        buffer.sample(4)
        assert np.isclose(buffer.beta, 0.6)
        buffer.beta = 0.5
        buffer.sample(4)
        assert buffer.beta == 0.5
        buffer.sample(4, beta=0.75)
        assert buffer.beta == 0.75
        buffer.update_priorities(np.arange(32), np.r_[np.full(8, 4.0), np.zeros(24)])
        buffer.update_priorities(np.arange(32, 40), np.zeros(8))
        buffer.alpha = 1.0
        batch = buffer.sample(32)
        assert buffer.alpha == 1 and set(batch.ids.tolist()) == set(range(8)) and (batch.weights == 1).all()


def test_eviction_by_priority_keeps_large_priorities():
    """Each append makes a row of priority 10^-4 leave rather than one of 10^4, 1,600 times as likely."""
    with make(eviction="priority", evict_alpha=-0.4, count=60, max_batch=20, block_rows=1) as buffer:
        assert buffer.config["eviction"] == "priority" and buffer.config["evict_alpha"] == -0.4
        buffer.update_priorities(np.arange(20), np.full(20, 1e4))
        buffer.update_priorities(np.arange(20, 40), np.full(20, 1e-4))
        buffer.update_priorities(np.arange(40, 60), np.full(20, 1e-4))
        buffer.extend(obs=np.zeros((24, 2), np.float32))
        assert len(buffer) == 64 and (buffer.gather(np.arange(20)).ids == np.arange(20)).sum() >= 19
        assert (buffer.gather(np.arange(20, 40)).ids == -1).any() or (buffer.gather(np.arange(40, 60)).ids == -1).any()
        evicted = buffer.stats.evicted
        buffer.trim(40)
        assert evicted == 20 and buffer.stats.evicted == 44 and len(buffer) == 40
    with make() as buffer:
        assert buffer.config["eviction"] == "oldest" and buffer.config["evict_alpha"] is None
    with pytest.raises(ValueError, match="evict_alpha is -1.0 and the oldest transitions are evicted"):
        make(evict_alpha=-1.0)
    with pytest.raises(ValueError, match="eviction is 'last'"):
        make(eviction="last")


IDS = {**FORMS, **{name: lambda ids, name=name: ids.astype(name) for name in ("int32", "uint8", "uint64", "int16")}}
VALUES = {**FORMS, **{name: lambda values, name=name: values.astype(name)
                      for name in ("float64", "float16", "int64", "uint8")}}


def test_tensors_are_taken_as_they_are(buffer, each_path):
    torch = pytest.importorskip("torch")
    indices, priorities = torch.tensor([5, 2, 9]), torch.tensor([3.0, 1.0, 0.0])
    for ids, values in ((indices, priorities), (indices.int(), 2 * priorities.double())):
        buffer.update_priorities(ids, values)
        assert np.array_equal(buffer.get_priorities(ids), values.numpy().astype(np.float32) + OFFSET)
    for wrong, text in ((priorities.requires_grad_(), r"priorities is .* a gradient; .* priorities.detach\(\)"),
                        (priorities.detach().bfloat16(), "priorities cannot be .*bfloat16, and must be float32")):
        with pytest.raises(ValueError, match=text):
            buffer.update_priorities(indices, wrong)


@pytest.mark.parametrize("ids, values", [*((ids, "arrays") for ids in IDS), ("int32", "float64"), ("lists", "lists"),
                                         *(("arrays", values) for values in VALUES)])
def test_arrays_of_other_types_are_converted(buffer, each_path, ids, values):
    indices, priorities = np.array([5, 2, 9, 30]), np.array([3, 1, 0, 7], np.float32)
    buffer.update_priorities(IDS[ids](indices), VALUES[values](priorities))
    to_read = indices if ids == "DLPack" else IDS[ids](indices)
    assert np.array_equal(buffer.get_priorities(to_read), priorities + OFFSET)


def test_many_are_converted_at_once(each_path):
    with make(capacity=8000, count=3000, max_batch=3000) as buffer:
        ids, values = np.arange(3000)[::-1].astype(np.int32), np.linspace(0, 5, 3000)
        for count in (1023, 1024, 1025, 3000):
            given = values[:count] + count
            buffer.update_priorities(ids[:count], given)
            assert np.array_equal(buffer.get_priorities(ids[:count]), given.astype(np.float32) + OFFSET)


def test_what_a_batch_holds_goes_back(buffer, each_path):
    batch = buffer.sample(32)
    buffer.update_priorities(batch.indices, batch.obs[:, 0])
    assert np.array_equal(buffer.get_priorities(batch.ids), batch.obs[:, 0] + OFFSET)
    buffer.update_priorities([], [])
    buffer.update_priorities(np.zeros(0, np.int64), np.zeros(0, np.float32))
    assert buffer.priority_stats.updates == 32
    buffer.update_priorities([*range(40), -1], [2.0] * 39 + [0.5, 1.0])  # -1: a batch's mark of no transition
    stats, wanted = buffer.priority_stats, np.array([2.0] * 39 + [0.5]) + OFFSET
    assert (stats.updates, stats.stale, stats.invalid, stats.nonzero) == (72, 1, 0, 40)
    assert (stats.max_priority, stats.min_priority) == (np.float32(2) + OFFSET, np.float32(0.5) + OFFSET)
    assert buffer.check_priorities() == 0
    assert np.isclose(stats.total, (wanted**stats.alpha).sum(), atol=1e-4) and stats.beta == np.float32(0.4)


BAD = {
    "one priority less": ([1, 2], [1.0], ValueError, r"priorities has shape \(1,\); it must be \(2,\), as ids"),
    "arrays of other lengths": (np.arange(9), np.ones(2, np.float32), ValueError, r"has shape \(2,\); it must be"),
    "a column": ([1, 2], [[1.0], [2.0]], ValueError, r"priorities has shape \(2, 1\); it must be \(2,\), as ids"),
    "one index": (1, 1.0, ValueError, r"ids has shape \(\); it must be \(count,\)"),
    "a grid": (np.zeros((2, 2), int), np.zeros((2, 2)), ValueError, r"ids has shape \(2, 2\); it must be"),
    "ids of floats": ([1.5, 2], [1, 1], TypeError, "ids is float64; it must be int64"),
    "ids of bools": ([True, False], [1, 1], TypeError, "ids is bool; it must be int64"),
    "huge indices": (np.full(1, 2**63, np.uint64), [1.0], ValueError, "ids has 9223372036854775808 to .*int64"),
    "text": ([1], ["a"], TypeError, "priorities is <U1; it must be float32"),
    "huge priorities": ([1], [1e39], ValueError, r"priorities has 1e\+39 .* float32 holds"),
    "masked": ([1], np.ma.zeros(1, np.float32), TypeError, "priorities is a masked array"),
    "an index without a transition": ([0, 40], [1, 1], gpureplay.InvalidArgument, r"ids\[1\] is 40; .* 0 to 39"),
    "too many": (np.zeros(49, int), np.zeros(49), gpureplay.InvalidArgument, "49"),
    "on a device": (CudaDlpack(), [1.0], TypeError, "ids is in the memory of a CUDA device"),
    "priorities on a device": ([1], CudaInterface((1,)), TypeError, "priorities is in the memory of a CUDA device"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_priorities_change_nothing(buffer, each_path, case):
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
    with pytest.raises(ValueError, match=r"ids has shape \(1, 1\); it must be \(count,\)"):
        buffer.get_priorities([[1]])
    for name in ("alpha", "beta"):
        with pytest.raises(gpureplay.InvalidArgument, match="-1"):
            setattr(buffer, name, -1.0)
        with pytest.raises(TypeError, match=f"{name} is 'a'; it must be a number"):
            setattr(buffer, name, "a")


def test_two_places_are_refused_and_two_device_arrays_are_not():
    there = DeviceArray(4096, (3,), np.dtype(np.int64), 7, None), DeviceArray(8192, (3,), np.dtype(np.float32), 7, None)
    both = _buffer._IDS, _buffer._PRIORITIES
    assert _buffer._on_device([*there], both, None) == ([4096, 8192], 7)
    assert _buffer._on_device([*there], both, 9) == ([4096, 8192], 9)
    for given in ([there[0], np.zeros(3, np.float32)], [np.zeros(3, np.int64), there[1]]):
        with pytest.raises(TypeError, match="is in host memory, and the other in a CUDA device's; both must be in"):
            _buffer._on_device(given, both, None)
    with pytest.raises(TypeError, match="priorities is int64 in device memory; it must be float32"):
        _buffer._on_device([there[0], there[0]], both, None)


# Buffers without priorities; a refused `sample` does not set beta.


def make_numbers(count=40, **settings):
    made = gpureplay.ReplayBuffer(64, {"x": "float32"}, device="cpu", **{"prioritized": True, **settings})
    if count:
        made.extend(x=np.arange(count))
    return made


OF_PRIORITIES = {
    "update": lambda buffer: buffer.update_priorities([0], [1.0]),
    "update with arrays": lambda buffer: buffer.update_priorities(np.zeros(1, np.int64), np.ones(1, np.float32)),
    "get": lambda buffer: buffer.get_priorities([0]), "check": lambda buffer: buffer.check_priorities(),
    "stats": lambda buffer: buffer.priority_stats, "alpha": lambda buffer: buffer.alpha,
    "beta": lambda buffer: buffer.beta, "set alpha": lambda buffer: setattr(buffer, "alpha", 0.5),
    "set beta": lambda buffer: setattr(buffer, "beta", 0.5),
    "beta of a sample": lambda buffer: buffer.sample(1, beta=0.5),
}


@pytest.mark.parametrize("by_extension", [True, False])
@pytest.mark.parametrize("call", OF_PRIORITIES)
def test_a_uniform_buffer_says_what_it_lacks(monkeypatch, call, by_extension):
    if not by_extension:
        monkeypatch.setattr(_buffer, "_update_in_c", _buffer._never)
    with gpureplay.ReplayBuffer(10, {"x": "uint8"}, device="cpu") as buffer:
        buffer.extend(x=[1, 2])
        text = 'no priorities; make it with prioritized=True or "independent"'
        with pytest.raises(gpureplay.InvalidArgument, match=text):
            OF_PRIORITIES[call](buffer)
    with pytest.raises(gpureplay.Closed, match="this buffer was closed"):
        OF_PRIORITIES[call](buffer)


REFUSED = {
    "too many": ({"batch_size": 65}, ValueError, "batch_size is 65; it must be 1 to max_batch = 64"),
    "none": ({"batch_size": 0}, ValueError, "batch_size is 0; it must be 1 to max_batch = 64"),
    "half": ({"batch_size": 2.5}, TypeError, "batch_size is 2.5; it must be an integer"),
    "text": ({"batch_size": "8"}, TypeError, "batch_size is '8'"),
    "stream": ({"stream": 7}, ValueError, "stream is 7; on the CPU it must be None"),
    "stream as text": ({"stream": "x"}, TypeError, "stream is 'x'; it must be an integer"),
    "beta": ({"beta": -1}, ValueError, "beta is -1"),
    "beta as text": ({"beta": "x"}, TypeError, "beta is 'x'; it must be a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sample_that_is_refused_leaves_the_schedule_of_beta(case):
    given, error, text = REFUSED[case]
    with make_numbers(beta=(0.25, 0.75, 2)) as buffer:
        with pytest.raises(error, match=text):
            buffer.sample(**{"batch_size": 8, "beta": 0.9, **given})
        found = [buffer.beta]
        for _ in range(2):
            buffer.sample(8)
            found.append(buffer.beta)
        assert found == [0.25, 0.5, 0.75]


def test_a_sample_of_too_few_leaves_the_schedule_of_beta():
    for flush in ("auto", "manual"):
        with make_numbers(count=0, beta=(0.25, 0.75, 2), flush=flush) as buffer:
            if flush == "manual":
                buffer.extend(x=[1])
            with pytest.raises(gpureplay.TooFew, match="empty; a sample needs at least 1 transition"):
                buffer.sample(1, beta=0.9)
            assert buffer.beta == 0.25
            buffer.extend(x=[1])
            buffer.flush()
            buffer.sample(1, beta=0.5)
            assert buffer.beta == 0.5
    with make_numbers(count=4, beta=(0.25, 0.75, 2), min_size=5) as buffer:
        with pytest.raises(gpureplay.TooFew, match="min_size = 5"):
            buffer.sample(1, beta=0.9)
        assert buffer.beta == 0.25


# The first priority of a transition, and the unit of priorities.


def draws_with_an_outlier(**settings):
    """How many different rows the last batch of a run has, and the share of the 16 newest of 2,000 in it. One error, of
    step 100, is a million times as large as the others."""
    rng = np.random.default_rng(0)
    with gpureplay.ReplayBuffer(2000, {"x": "int64"}, device="cpu", prioritized=True, max_batch=64, seed=3,
                                **settings) as buffer:
        for step in range(3000):
            buffer.extend(x=[step])
            if step < 64:
                continue
            batch = buffer.sample(32)
            errors = np.abs(rng.normal(0, 0.01, 32)).astype(np.float32)
            errors[0] = 1e4 if step == 100 else errors[0]
            buffer.update_priorities(batch.ids, errors)
        largest = buffer.priority_stats.max_priority
        assert buffer.check_priorities() == 0
        return len(np.unique(batch.ids)), (batch.ids >= 2984).mean(), largest


def test_an_outlier_is_forgotten_when_its_row_has_another_priority():
    rows, newest, largest = draws_with_an_outlier()
    assert rows >= 30 and newest < 0.2 and largest < 0.1
    rows, newest, largest = draws_with_an_outlier(first_priority="ever")  # the paper's rule
    assert rows < 16 and newest > 0.5 and largest > 9999
    with gpureplay.ReplayBuffer(100, {"x": "int64"}, device="cpu", preset="apex-dqn", layout="rows", frame_stack=1,
                                n_step=1, reward_clip=0.0, min_size=1) as buffer:
        assert buffer.config["first_priority"] == "ever"


def test_a_row_without_a_priority_gets_the_largest_of_the_buffer():
    """Also of rows that were added with it, and after a save and a load; 1 while there is none."""
    fields = {"x": "int64", "priority": "float32"}
    none = np.nan
    with gpureplay.ReplayBuffer(6, fields, device="cpu", prioritized=True, priority_offset=0.0) as buffer:
        def add(*given):
            buffer.extend(x=np.zeros(len(given), np.int64), priority=given)
            first = buffer.stats.first_id
            return [buffer.get_priorities([first + row]).item() for row in range(len(buffer))]

        assert add(none, 0.0, none) == [1, 0, 1]
        assert add(0.5, none) == [1, 0, 1, 0.5, 1]
        buffer.update_priorities([0, 2, 4], [0.25, 0.25, 0.125])
        assert add(none) == [0.25, 0, 0.25, 0.5, 0.125, 0.5]
        assert add(8.0, none) == [0.25, 0.5, 0.125, 0.5, 8, 8]
        assert add(*[none] * 4) == [8] * 6
        assert add(*[none] * 6) == [1] * 6  # all others have left
        for row in range(6):
            buffer.update_priorities([buffer.stats.first_id + row], [0.0])
        assert add(none)[-1] == 1


@needs_files
def test_a_file_has_the_priorities_and_their_unit(tmp_path):
    settings = {"alpha": 1.0, "priority_offset": 0.0, "seed": 1}
    with make(**settings) as buffer, gpureplay.ReplayBuffer(64, FIELDS, device="cpu", prioritized=True, max_batch=48,
                                                           **settings) as other:
        buffer.update_priorities(np.arange(40), np.arange(40) * 1e-9)
        buffer.save(tmp_path / "rows")
        other.load(tmp_path / "rows")
        for each in (buffer, other):
            each.extend(obs=np.zeros((1, 2), np.float32))
        stats = other.priority_stats
        assert stats == buffer.priority_stats and np.isclose(stats.max_priority, 39e-9) and stats.raised == 0
        assert np.array_equal(buffer.sample(48).ids, other.sample(48).ids) and other.check_priorities() == 0


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_only_the_ratios_of_priorities_matter(alpha):
    """Priorities of 1 to 1,000, in units from 1e-12 to 1e12: each of ten groups of rows is drawn as in the unit of 1,
    within 1% of its share, and exactly in proportion to the sums of p^alpha."""
    values, batches = np.arange(1, 1001.0), 300
    wanted = (values**alpha).reshape(10, 100).sum(1) / (values**alpha).sum()
    with gpureplay.ReplayBuffer(4096, {"x": "int64"}, device="cpu", prioritized=True, alpha=alpha, priority_offset=0.0,
                                max_batch=2000, seed=5) as buffer:
        buffer.extend(x=np.arange(1000))
        for unit in (1, 1e-3, 1e-12, 1e-6, 1e12, 1e5, 1e-12 / 500500, 1):
            buffer.update_priorities(np.arange(1000), values * unit)
            stats = buffer.priority_stats
            assert np.isclose(stats.total, ((values * unit)**alpha).sum(), rtol=1e-5) and stats.raised == 0
            rows = np.concatenate([buffer.sample(2000).x for _ in range(batches)])
            shares = np.bincount(rows // 100, minlength=10) / len(rows)
            assert np.abs(shares / wanted - 1).max() < 0.01, (unit, shares / wanted)
        assert buffer.check_priorities() == 0


def test_priorities_below_the_smallest_step_are_counted():
    with make(alpha=1.0, priority_offset=0.0) as buffer:
        buffer.update_priorities(np.arange(40), np.r_[1.0, np.full(9, 1e-12), np.full(30, 0.5)])
        assert buffer.priority_stats.raised == 9
        buffer.update_priorities([0, *range(10, 40)], np.full(31, 1e-12))
        assert buffer.priority_stats.raised == 0  # they are the largest ones now
        buffer.alpha = 0.0
        assert buffer.priority_stats.raised == 0 and np.isclose(buffer.priority_stats.total, 40)


def test_eviction_by_priority_draws_from_all_that_a_launch_would_see():
    """Also rows that no launch has published yet. Each of six equal rows makes room for the seventh equally often."""
    left, trials = np.zeros(6), 400
    for seed in range(trials):
        with gpureplay.ReplayBuffer(6, {"x": "int32"}, device="cpu", prioritized=True, eviction="priority",
                                    block_rows=1, max_batch=2, seed=seed) as buffer:
            for row in range(6):
                buffer.extend(x=[row])
            assert len(buffer) == 6
            buffer.extend(x=[6])
            left += [(buffer.gather([row]).ids == -1).sum() for row in range(6)]
    assert left.sum() == trials and (np.abs(left - trials / 6) < 5 * np.sqrt(trials / 6)).all(), left
