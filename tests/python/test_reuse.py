# SPDX-License-Identifier: MIT
"""A batch is drawn into again when nobody holds anything of it, and never otherwise."""

import ctypes
import gc
import operator
import sys
import threading
import weakref

import gpureplay
import numpy as np
import pytest
from rows import TRANSITION, block

SIZE = 16


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(512, TRANSITION, device="cpu", seed=1) as made:
        made.extend(**block(TRANSITION, 0, 512))
        yield made


HOLDERS = {
    "batch": lambda batch: batch,
    "array": lambda batch: batch.obs,
    "item": lambda batch: batch["next_obs"],
    "alias": lambda batch: batch.indices,
    "slice": lambda batch: batch.obs[2:],
    "view of a view": lambda batch: batch.obs[2:].T[::2],
    "element's row": lambda batch: batch.obs[3],
    "other type": lambda batch: batch.obs.view(np.int32)[:1],
    "asarray": lambda batch: np.asarray(batch.obs),
    "subclass": lambda batch: batch.obs.view(np.recarray),
    "memoryview": lambda batch: memoryview(batch.obs)[1:],
    "buffer": lambda batch: np.frombuffer(batch.obs, np.uint8),
    "iterator": lambda batch: iter(batch.obs),
    "flat": lambda batch: batch.obs.flat,
    "nditer": lambda batch: np.nditer(batch.obs),
    "strided": lambda batch: np.lib.stride_tricks.as_strided(batch.obs, (2, 2), (4, 4)),
    "sliding window": lambda batch: np.lib.stride_tricks.sliding_window_view(batch.id, 4),
    "base": lambda batch: batch.obs.base,
    "made of base": lambda batch: np.frombuffer(batch.obs.base, np.float32, 4),
    "ctypes": lambda batch: batch.obs.ctypes,
    "ctypes pointer": lambda batch: batch.obs.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
    "ctypes array": lambda batch: np.ctypeslib.as_ctypes(batch.obs),
    "from_buffer": lambda batch: (ctypes.c_char * 4).from_buffer(batch.obs),
    "dlpack to NumPy": lambda batch: np.from_dlpack(batch.obs),
    "capsule": lambda batch: batch.obs.__dlpack__(),
    "our capsule": lambda batch: batch.array("obs").__dlpack__(),
    "our dlpack to NumPy": lambda batch: np.from_dlpack(batch.array("obs")),
    "Array": lambda batch: batch.array("obs"),
    "method": lambda batch: batch.keys,
    "method of an array": lambda batch: batch.obs.sum,
    "generator": lambda batch: (row for row in batch.obs),
    "closure": lambda batch: lambda: batch,
    "dict": lambda batch: {**dict(batch)},
    "getter": lambda batch: (operator.attrgetter("obs"), batch.obs),
    "interface": lambda batch: np.asarray(type("Holder", (), {"__array_interface__": batch.obs.__array_interface__,
                                                              "of": batch.obs})()),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_stays_as_it_is(buffer, name):
    for _ in range(3):  # batches that lie in the buffer's list already
        buffer.sample(SIZE)
    batch = buffer.sample(SIZE)
    place, copies = batch.array("id").ptr, {key: batch[key].copy() for key in batch.keys()}
    watch = gpureplay.Array(batch, batch._layouts["id"])  # only to know the address; let go with the batch
    held = HOLDERS[name](batch)
    del batch, watch
    for _ in range(1000):
        other = buffer.sample(SIZE)
        assert other.array("id").ptr != place
    memory = (ctypes.c_int64 * SIZE).from_address(place)
    assert list(memory) == copies["id"].tolist()
    del held


def test_what_nobody_holds_is_used_again(buffer):
    made = buffer.stats.batches_made
    for _ in range(100):
        batch = buffer.sample(SIZE)
        assert batch.obs.shape == (SIZE, 3) and batch["id"].min() >= 0
    del batch
    assert buffer.stats.batches_made <= made + 2


def test_two_batches_in_turn_are_used_again(buffer):
    first = buffer.sample(SIZE)
    made = {id(first)}
    for _ in range(100):
        second = buffer.sample(SIZE)
        made |= {id(second)}
        assert first.array("id").ptr != second.array("id").ptr
        first = second
    assert len(made) == 2


def test_an_old_batch_is_unchanged_after_a_thousand(buffer):
    batch = buffer.sample(SIZE)
    copies = {name: batch[name].copy() for name in batch.keys()}
    for _ in range(1000):
        buffer.sample(SIZE).obs.fill(7)
        buffer.extend(**block(TRANSITION, 5, 1))
    assert all((batch[name] == copies[name]).all() for name in batch.keys())


def test_what_a_user_wrote_is_gone_with_the_next_draw(buffer):
    batch = buffer.sample(SIZE)
    for name in batch.keys():
        batch[name].fill(1)
    batch.weight[:], address = 9, id(batch)
    del batch
    batch = buffer.sample(SIZE)
    rows = block(TRANSITION, 0, 512)
    assert id(batch) == address and (batch.weight == 1).all()
    assert all((batch[name] == rows[name][batch.id]).all() for name in TRANSITION)


@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_a_reshaped_array_is_not_handed_out_again(buffer):
    batch = buffer.sample(SIZE)
    try:
        batch.obs.shape = (3, SIZE)
    except AttributeError:
        pytest.skip("this NumPy does not let an array's shape be set")
    del batch
    assert buffer.sample(SIZE).obs.shape == (SIZE, 3)


def test_arrays_of_a_batch_cannot_be_replaced(buffer):
    batch = buffer.sample(SIZE)
    with pytest.raises(AttributeError, match="reward of a batch cannot be replaced"):
        batch.reward = np.zeros(SIZE)


def test_what_a_weak_reference_watches_is_never_something_else(buffer):
    """A cache by arrays would else give what belongs to an earlier draw."""
    for look in (lambda batch: batch.reward, lambda batch: batch["id"]):
        batch = buffer.sample(SIZE)
        weak, place = weakref.ref(look(batch)), batch.array("id").ptr
        del batch
        for _ in range(20):
            assert buffer.sample(SIZE).array("id").ptr != place
        del weak


def test_a_finalizer_of_an_array_is_called_once_it_is_gone(buffer):
    called, batch = [], buffer.gather([1, 2, 3])
    weakref.finalize(batch.reward, called.append, 1)
    del batch
    gc.collect()
    assert called == [1]


def test_a_batch_has_no_place_for_what_would_come_back_with_it(buffer):
    batch = buffer.sample(SIZE)
    with pytest.raises(TypeError):
        vars(batch)
    with pytest.raises(TypeError, match="weak reference"):
        weakref.finalize(batch, print)
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(batch.obs.base)
    with pytest.raises(AttributeError, match="mine of a batch cannot be replaced"):
        batch.mine = 5
    with pytest.raises(AttributeError, match="reward of a batch cannot be deleted"):
        del batch.reward
    with pytest.raises(AttributeError, match="mine"):
        batch.obs.base.mine = 5
    with pytest.raises(AttributeError):
        batch.__class__ = type("Other", (type(batch),), {})


@pytest.mark.parametrize("name", ["obs.left", "device", "_views", "__name", "keys", "items", "torch", "class", "é",
                                  "of"])
def test_a_field_may_have_any_name(name):
    with gpureplay.ReplayBuffer(64, {name: "float32"}, device="cpu") as buffer:
        buffer.extend(**{name: np.arange(64)})
        for _ in range(3):
            batch = buffer.sample(SIZE)
            assert (batch[name] == batch.id).all() and batch.keys()[0] == name
        assert batch.device == "cpu" and isinstance(batch, gpureplay.Batch)
        if not hasattr(gpureplay.Batch, name):
            assert getattr(batch, name) is batch[name]


def test_another_thread_holds_as_well(buffer):
    batch, seen, go = buffer.sample(SIZE), [], threading.Event()

    def hold(held):
        go.wait(600)
        seen.append((held.id.tolist(), held.obs.tolist()))

    wanted = batch.id.tolist(), batch.obs.tolist()
    thread = threading.Thread(target=hold, args=(batch,))
    thread.start()
    del batch
    for _ in range(1000):
        buffer.sample(SIZE)
    go.set()
    thread.join()
    assert seen == [wanted]


def test_threads_that_share_a_buffer_never_get_one_batch_twice(buffer):
    """Sizes change all the time, so that what is kept is replaced all the time, too."""
    rows, wrong = block(TRANSITION, 0, 512), []

    def draw(number):
        for turn in range(600):
            size = SIZE if (turn + number) % 5 else 2 * SIZE
            batch = buffer.sample(size)
            ids = batch.id.copy()
            same = len(batch) == len(ids) == size and (batch.obs == rows["obs"][ids]).all() and (batch.id == ids).all()
            if not same:
                wrong.append((number, turn, size, len(batch)))

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(6)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(old)
    assert not wrong, wrong[:5]


def test_a_cycle_holds_until_it_is_collected(buffer):
    batch = buffer.sample(SIZE)
    cycle = [batch.obs]
    cycle.append(cycle)
    place, obs = batch.array("obs").ptr, batch.obs.copy()
    del batch, cycle
    gc.disable()
    try:
        others = [buffer.sample(SIZE).array("obs").ptr for _ in range(50)]
    finally:
        gc.enable()
    assert place not in others and list((ctypes.c_float * 3).from_address(place)) == obs[0].tolist()


def test_libraries_hold_what_they_were_given(buffer):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    for take in (torch.from_numpy, torch.from_dlpack, torch.as_tensor, lambda array: torch.from_numpy(array)[2:].T):
        batch = buffer.sample(SIZE)
        held, wanted = take(batch.obs), take(batch.obs).clone()
        del batch
        for _ in range(200):
            buffer.sample(SIZE)
        assert torch.equal(held, wanted)


def test_jax_holds_what_it_was_given(buffer):
    jax = pytest.importorskip("jax", reason="JAX is not installed here")
    for take in (jax.dlpack.from_dlpack, jax.numpy.asarray, jax.device_put):
        batch = buffer.sample(SIZE)
        wanted = batch.obs.copy()
        held = take(batch.obs)
        del batch
        for _ in range(200):
            buffer.sample(SIZE)
        assert (np.asarray(held) == wanted).all()
