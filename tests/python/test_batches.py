# SPDX-License-Identifier: MIT
"""A batch does not change until `sample` is given it as `out`: random schedules of all calls that make, hold and drop
batches. GPUR_TEST_DEVICES names the devices (separated by commas); default: the CPU and the first GPU."""

import contextlib
import ctypes
import gc
import os
import random
import threading
import weakref
from typing import NamedTuple

import gpureplay
import numpy as np
import pytest
from steps_model import EXTRAS, Model, step_of
from support import DTYPES, TRANSITION, block

try:
    import torch
except ModuleNotFoundError:
    torch = None

DEVICES = [(name, executor) for name in os.environ.get("GPUR_TEST_DEVICES", "cpu,cuda:0").split(",")
           for executor in (("inline", "thread") if name == "cpu" else ("inline",))]
SIZES = (1, 2, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256)
MAX_BATCH = 256
GAMMA = 0.9


class Rows:
    """Finished transitions, all known before they are added."""

    def __init__(self, fields, capacity=700, max_rows=6000, **settings):
        self.fields, self.capacity, self.max_rows = fields, capacity, max_rows
        self.settings = {"max_batch": MAX_BATCH, "gamma": GAMMA, "seed": 3, **settings}
        self.rows = block(fields, 0, max_rows)
        self.begun = self.count = 0  # rows that may be there, and those that are
        if "action" in fields:
            self.rows["action"] %= 4
        self.rows["discount"] = np.float32(GAMMA) * ~self.rows.get("terminated", np.zeros(max_rows, bool))

    def make(self, device):
        return gpureplay.ReplayBuffer(self.capacity, self.fields, device=device, **self.settings)

    def grow(self, buffers, random):
        """Adds the same rows to each buffer, by a random call."""
        count = min(random.choice((1, 1, 2, 40, 300)), self.max_rows - self.count)
        if count == 0:
            return
        given = {name: self.rows[name][self.count:self.count + count] for name in self.fields}
        self.begun += count
        call = random.choice(("add", "extend", "writer", "writers"))
        for buffer in buffers:
            if call == "add" and count == 1:
                buffer.add(**{name: values[0] for name, values in given.items()})
            elif call == "writer" or (call == "writers" and count == 1):
                with contextlib.closing(buffer.writer()) as writer:
                    writer.extend(**given)
            elif call == "writers":
                with contextlib.closing(buffer.writer(num_envs=count, autoreset="disabled")) as writer:
                    writer.add(**given)
            else:
                buffer.extend(**given)
        self.count += count

    def wanted(self, name, ids):
        return self.rows[name][ids]


FIELDS = {"obs": ((3,), "float32"), "odd": ((13,), "uint8"), "action": ((), "int32"), "reward": ((), "float32"),
          "next_obs": ((3,), "float32"), "half": ((2,), "float16"), "flags": ((5,), "bool"), "terminated": ((), "bool"),
          "tag": ((), "int64")}
WIDE = {"image": ((48, 48, 2), "uint8"), "reward": ((), "float32"), "more": ((3000,), "float32"),
        "terminated": ((), "bool")}  # a batch's memory is for fewer than 64 such rows


def random_rows(flush, seed):
    """A random schema in a small ring; one has 60 fields, and names as long as names may be. With flush "manual" a
    launch sees whole blocks, and all rows after `flush`."""
    of_seed = random.Random(seed)
    names = [f"field{at}" for at in range(of_seed.randint(1, 5))] if seed else [f"{at:063}" for at in range(60)]
    shapes = [tuple(of_seed.randint(1, 4) for _ in range(of_seed.choice((0, 0, 1, 2, 3, 6)))) for _ in names]
    fields = {name: (shape, of_seed.choice(DTYPES)) for name, shape in zip(names, shapes)}
    return Rows(fields, of_seed.randint(32, 100), 1500, flush=flush, block_rows=of_seed.randint(1, 16), max_batch=16)


class Steps:
    """Steps, from which the library makes stacks of frames and n-step returns."""

    def __init__(self, **settings):
        self.model = Model(5, num_envs=2, n_step=2, stack=3, dtype="float32", gamma=GAMMA)
        self.settings = {**self.model.settings(), "layout": "frames", "max_batch": 200, "seed": 3, **settings}
        self.count = 0

    @property
    def begun(self):
        return len(self.model.rows)

    def make(self, device):
        return gpureplay.ReplayBuffer(1500, self.model.fields(**EXTRAS), **{**self.settings, "device": device})

    def grow(self, buffers, random):
        for _ in range(random.choice((1, 1, 10, 60))):
            given = step_of(buffers[0], self.model)
            for buffer in buffers:
                buffer.add(**given)
        self.count = len(self.model.rows)

    def wanted(self, name, ids):
        return np.stack([np.asarray(self.model.rows[at][name]) for at in ids])


SOURCES = {
    "rows": lambda: Rows(FIELDS),
    "distinct": lambda: Rows(FIELDS, distinct=True),
    "prioritized": lambda: Rows(FIELDS, prioritized=True),
    "independent": lambda: Rows(FIELDS, prioritized="independent", weight_norm="none"),
    "wide": lambda: Rows(WIDE, 200, 900, max_batch=100),
    "one field": lambda: Rows({"x": ((), "uint8")}),
    **{f"random {seed}, flush {flush}": lambda flush=flush, seed=seed: random_rows(flush, seed)
       for flush in ("auto", "manual") for seed in range(4)},
    "frames": Steps,
    "frames by priority": lambda: Steps(prioritized=True),
}


class Unversioned:
    """An exporter from before DLPack 1.0, whose capsule was made and not taken yet."""

    def __init__(self, array):
        self._capsule, self._device = array.__dlpack__(), array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def host(array):
    """A copy on the host of any array."""
    return np.array(array.cpu().numpy() if torch is not None and isinstance(array, torch.Tensor) else array)


# What holds a batch's memory: a function of an Array, and one that reads the values, or None where that is not possible
# or takes the memory. Those of the second table need arrays of the host.
HOLDERS = {"Array": (lambda array: array, lambda array: array.numpy())}
if torch is not None:
    HOLDERS["tensor"] = (torch.from_dlpack, host)
HOST_HOLDERS = {
    "array": (np.asarray, host),
    "view of a view": (lambda array: np.asarray(array).T[..., None].T, lambda array: array[0]),
    "other type": (lambda array: np.asarray(array).view(np.uint8), None),
    "base": (lambda array: np.asarray(array).base, None),
    "ctypes": (lambda array: np.asarray(array).ctypes.data_as(ctypes.c_void_p), None),
    "from_buffer": (lambda array: (ctypes.c_char * 1).from_buffer(np.asarray(array)), None),
    "memoryview": (lambda array: memoryview(np.asarray(array)), host),
    "dlpack": (np.from_dlpack, host),
    "unversioned dlpack": (lambda array: np.from_dlpack(Unversioned(array)), host),
    "capsule": (Unversioned, None),
    "versioned capsule": (lambda array: array.__dlpack__(max_version=(1, 0)), None),
    "numpy's capsule": (lambda array: np.asarray(array).__dlpack__(), None),
}


class Held(NamedTuple):
    """A batch, or what holds one of its arrays, and the values that it must have (of a batch: its ids)."""

    kind: str
    thing: object
    read: object
    wanted: np.ndarray


class Schedule:
    """The random calls of one thread on a buffer, and the parts of batches that it holds."""

    def __init__(self, seed, source, buffer, grows, twin=None, is_shared=False):
        self.random, self.source, self.buffer, self.grows = random.Random(seed), source, buffer, grows
        self.twin, self.live, self.called, self.learners, self.is_shared = twin, [], [], (), is_shared
        self.holders = HOLDERS if buffer.device.is_cuda else {**HOLDERS, **HOST_HOLDERS}
        self.largest = min(buffer._spec.config.max_batch, MAX_BATCH)
        self.is_prioritized, self.last, self.spare = buffer._is_prioritized, None, None
        self.is_auto, self.seen = buffer.config["flush"] == "auto", 0  # every launch sees the rows before `seen`

    def size(self):
        size = self.random.choice((*SIZES, self.random.randrange(1, self.largest + 1), 50, 50))
        return min(size, self.largest, len(self.buffer))

    def newest(self, count):
        """Ids that are not evicted before the call, even if another thread adds rows."""
        stats = self.buffer.stats
        end, room = stats.first_id + stats.visible, stats.visible // 2
        return np.array([end - 1 - self.random.randrange(max(room, 1)) for _ in range(count)])

    def sample(self):
        """Half of the time with `out`, a batch that is not held."""
        out, self.spare = self.spare if self.random.random() < 0.5 else None, None
        self.last = None if out is not None else self.last
        if len(self.buffer):
            self.take(self.buffer.sample(self.size() if out is None else len(out), out=out), None)
        else:
            with pytest.raises(gpureplay.TooFew, match="empty"):
                self.buffer.sample(1)

    def gather(self):
        wanted = self.newest(self.size())
        if len(wanted):
            self.take(self.buffer.gather(wanted), wanted)

    def take(self, batch, ids):
        self.check_batch(batch, ids)
        if self.random.random() < 0.6:
            self.hold(batch)
            return
        self.spare = batch
        if not self.buffer.device.is_cuda and self.random.random() < 0.3:
            for name in batch.keys():
                batch[name].fill(1)  # what a user writes is gone with the next sample
        self.last = batch if self.random.random() < 0.5 else None  # the batch before lives on, as in a training loop

    def hold(self, batch):
        if self.random.random() < 0.4:
            ids = host(batch["id"])
            self.live.append(Held("batch", batch, None, ids))
            return
        kind, name = self.random.choice(list(self.holders)), self.random.choice(batch.keys())
        hold, read = self.holders[kind]
        self.live.append(Held(kind, hold(batch.array(name)), read, host(batch[name])))

    def release(self):
        if self.live:
            held = self.live.pop(self.random.randrange(len(self.live)))
            if held.kind == "capsule":
                assert_same(np.from_dlpack(held.thing), held.wanted, held.kind)

    def grow(self):
        if self.grows:
            self.source.grow([self.buffer, *([self.twin] if self.twin else [])], self.random)

    def flush(self):
        self.buffer.flush()
        self.seen = self.source.count if self.grows else 0

    def check_window(self):
        """With flush "auto" every row that was added is seen; else those before the last `flush`, and whole blocks."""
        stats = self.buffer.stats
        end = stats.first_id + stats.visible
        assert stats.appended == self.source.count and len(self.buffer) == stats.visible
        assert self.seen <= end <= self.source.count and (not self.is_auto or end == self.source.count)
        if self.buffer.config["layout"] == "rows":
            assert not self.is_auto or len(self.buffer) == min(end, self.buffer.capacity)
            assert self.buffer.is_full == (len(self.buffer) == self.buffer.capacity)

    def priorities(self):
        if self.is_prioritized:
            ids = self.newest(self.random.randrange(1, 60))
            given = np.array([self.random.random() * 9 for _ in ids], np.float32)
            for buffer in (self.buffer, *([self.twin] if self.twin else [])):
                buffer.update_priorities(ids, given)

    def train(self):
        for learner in self.learners:
            learner.train(2)

    def train_ids(self):
        ids = self.newest(32)
        for learner in self.learners:
            learner.train_ids(ids)

    def check_all(self):
        for held in self.live:
            if held.kind == "batch":
                self.check_batch(held.thing, held.wanted)
            elif held.read is not None:
                assert_same(held.read(held.thing), held.wanted, held.kind)

    def check_batch(self, batch, ids):
        """ids: the ids that the batch must have, or None."""
        found, count = host(batch["id"]), len(batch)
        assert found.shape == (count,) and (ids is None or (found == ids).all())
        assert (found >= 0).all() and (found < self.source.begun).all(), "no ids of rows that there ever were"
        self.seen = max(self.seen, int(found.max()) + 1) if self.grows else 0
        for name in batch.keys():
            values = host(batch[name])
            assert len(values) == count
            if name == "weight":
                assert np.isfinite(values).all() and (values > 0).all()
                assert self.is_prioritized or (values == 1).all()
            elif name != "id":
                assert_same(values, self.source.wanted(name, found), name)

    def run(self, turns):
        calls = [self.sample] * 8 + [self.gather] * 4 + [self.release] * 5 + [self.grow] * 2 + [self.priorities]
        calls += [] if self.is_auto else [self.flush]
        calls += [self.train, self.train_ids] if self.learners else []
        for _ in range(turns):
            call = self.random.choice(calls)
            self.called.append(call.__name__)
            call()
            if self.grows and not self.is_shared:
                self.check_window()
            if len(self.live) > 9:
                self.release()
            if self.random.random() < 0.2:
                self.check_all()
        self.check_all()


def assert_same(got, wanted, name):
    """Bit for bit, except sums in another order."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, (name, got.shape, wanted.shape)
    if name in ("reward", "discount"):
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6, err_msg=name)
    else:
        assert (got == wanted).all(), name


def opened(device, executor):
    try:
        return gpureplay.Device(device, executor=executor, threads=1)
    except gpureplay.Unavailable as error:
        return pytest.skip(str(error))


@pytest.mark.parametrize("seed", range(2 if os.environ.get("GPUR_TEST_LONG") else 1))
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("device, executor", DEVICES)
def test_every_live_batch_is_what_its_ids_say(device, executor, name, seed):
    """Two buffers at once. The second has other rows."""
    with contextlib.closing(opened(device, executor)) as where:
        schedules = []
        for number, key in enumerate((name, "rows")):
            source = SOURCES[key]()
            buffer = source.make(where)
            schedules.append(Schedule(10 * seed + number, source, buffer, grows=True))
            source.grow([buffer], random.Random(1))
            source.grow([buffer], random.Random(3))
        for _ in range(12):
            for schedule in schedules:
                schedule.run(25)
        for schedule in schedules:
            schedule.buffer.close()
            schedule.check_all()  # what is held outlives the buffer
    for schedule in schedules:
        schedule.check_all()  # and the device


@pytest.mark.parametrize("name", ["rows", "prioritized", "frames", "frames by priority"])
@pytest.mark.parametrize("device, executor", DEVICES)
def test_samples_do_not_change_what_a_learner_trains_on(device, executor, name):
    """A twin that only gets rows and trains ends with the same weights, bit for bit."""
    with contextlib.closing(opened(device, executor)) as where:
        source = SOURCES[name]()
        buffer, twin = source.make(where), source.make(where)
        schedule = Schedule(7, source, buffer, grows=True, twin=twin)
        for turn in (4, 5, 6):
            source.grow([buffer, twin], random.Random(turn))
        schedule.learners = [gpureplay.DQN(of, 9, batch_size=32, trunk=[16], seed=5) for of in (buffer, twin)]
        schedule.run(250)
        ours, theirs = (learner.weights for learner in schedule.learners)
        assert "train" in schedule.called and "train_ids" in schedule.called and len(ours)
        for key in ours:
            assert ours[key].tobytes() == theirs[key].tobytes(), key


@pytest.mark.parametrize("name", ["rows", "prioritized", "frames"])
@pytest.mark.parametrize("device, executor", DEVICES)
def test_threads_that_share_a_buffer_have_batches_of_their_own(device, executor, name):
    """One of the threads also adds, and one trains."""
    with contextlib.closing(opened(device, executor)) as where:
        source, wrong = SOURCES[name](), []
        with source.make(where) as buffer:
            for turn in (4, 5, 6, 7, 8, 9):
                source.grow([buffer], random.Random(turn))

            learner = gpureplay.DQN(buffer, 9, batch_size=32, trunk=[16])

            def run(number):
                try:
                    schedule = Schedule(number, source, buffer, grows=number == 0, is_shared=True)
                    schedule.learners = [learner] if number == 1 else []
                    schedule.run(60)
                except BaseException as error:  # noqa: BLE001 (it is raised in the main thread)
                    wrong.append(error)

            threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if wrong:
            raise wrong[0]


# A batch and everything that shares its memory stay unchanged, unless the batch is passed to `sample` as `out`.


SIZE = 16
ROWS = block(TRANSITION, 0, 512)


@pytest.fixture(params=["inline", "thread"])
def buffer(request):
    with contextlib.closing(gpureplay.Device("cpu", executor=request.param)) as device, \
            gpureplay.ReplayBuffer(512, TRANSITION, device=device, seed=1) as made:
        made.extend(**ROWS)
        yield made


def is_right(batch):
    return all((batch[name] == ROWS[name][batch.id]).all() for name in TRANSITION)


@pytest.mark.parametrize("name", ["batch", "method", *HOLDERS, *HOST_HOLDERS])
def test_what_is_held_stays_as_it_is(buffer, name):
    """What is no longer held is used for another batch."""
    holders = {"batch": (None, None), "method": (None, None), **HOLDERS, **HOST_HOLDERS}
    batch, before = buffer.sample(SIZE), buffer.stats.batches_alive
    place, ids = batch.array("id").ptr, batch.id.tolist()
    held = batch if name == "batch" else batch.keys if name == "method" else holders[name][0](batch.array("obs"))
    del batch
    for _ in range(50):
        other = buffer.sample(SIZE)
        assert other.array("id").ptr != place
        buffer.sample(SIZE, out=other)
    assert list((ctypes.c_int64 * SIZE).from_address(place)) == ids
    del held, other
    gc.collect()
    assert buffer.stats.batches_alive == before - 1
    batches = [buffer.sample(SIZE) for _ in range(4)]
    assert place in [batch.array("id").ptr for batch in batches]


def test_a_batch_that_is_sampled_into_is_overwritten(buffer):
    batch = buffer.sample(SIZE)
    obs, view, ids, made = batch.obs, batch.obs[3:].T, batch.id.copy(), buffer.stats.batches_made
    for turn in range(20):
        for name in batch.keys():
            batch[name].fill(1)  # what a user writes is gone with the next sample
        assert buffer.sample(SIZE, out=batch) is batch and batch.obs is obs
        assert is_right(batch) and (batch.weight == 1).all() and (view == obs[3:].T).all()
    assert buffer.stats.batches_made == made and (batch.id != ids).any() and turn == 19
    gathered = buffer.gather(range(SIZE))
    assert buffer.sample(SIZE, out=gathered) is gathered and is_right(gathered)


def test_a_batch_that_does_not_fit_is_refused(buffer):
    batch = buffer.sample(SIZE)
    ids = batch.id.copy()
    with gpureplay.ReplayBuffer(512, TRANSITION, device="cpu") as second:
        second.extend(**ROWS)
        for size, out, error, text in (
                (SIZE + 1, batch, gpureplay.InvalidArgument, "batch_size is 17 and out has 16 transitions; they must"),
                (SIZE, second.sample(SIZE), gpureplay.InvalidArgument, "out is <gpureplay.Batch of 16: .*, which "
                 "another buffer sampled; it must be a batch of this one"),
                (SIZE, batch.obs, TypeError, "out is a ndarray; it must be a batch that this buffer sampled, or None"),
                (SIZE, buffer, TypeError, "out is a ReplayBuffer; it must be"),
                (2.5, batch, TypeError, "batch_size is 2.5; it must be an integer"),
                (2**70, batch, gpureplay.InvalidArgument, "batch_size is 1180591620717411303424; it must be")):
            with pytest.raises(error, match=text):
                buffer.sample(size, out=out)
        with pytest.raises(gpureplay.InvalidArgument, match="stream"):
            buffer.sample(SIZE, out=batch, stream=7)
    assert (batch.id == ids).all() and is_right(batch)
    buffer.close()
    with pytest.raises(gpureplay.Closed, match="this buffer was closed"):
        buffer.sample(SIZE, out=batch)
    assert (batch.id == ids).all()


def test_a_batch_that_another_library_holds_by_dlpack_is_refused(buffer):
    batch = buffer.sample(SIZE)
    held, ids = np.from_dlpack(batch.array("id")), batch.id.tolist()
    with pytest.raises(gpureplay.WouldBlock, match="the batch has 2 references; it must have one"):
        buffer.sample(SIZE, out=batch)
    assert held.tolist() == batch.id.tolist() == ids
    del held
    assert buffer.sample(SIZE, out=batch) is batch and batch.id.tolist() != ids


def test_beta_and_priorities_hold_for_a_sample_into_a_batch():
    with gpureplay.ReplayBuffer(256, {"x": "int64"}, device="cpu", prioritized=True, beta=(0.25, 0.75, 2),
                                max_batch=64) as buffer:
        buffer.extend(x=np.arange(64))
        batch = buffer.sample(8)
        with pytest.raises(gpureplay.InvalidArgument, match="out has 8"):
            buffer.sample(9, out=batch, beta=0.5)
        assert buffer.beta == 0.5
        buffer.update_priorities(np.arange(64), (np.arange(64) == 7).astype(np.float32))
        assert buffer.sample(8, out=batch, beta=1.0) is batch and buffer.beta == 1.0
        assert (batch.x == batch.id).all() and np.bincount(batch.id).argmax() == 7 and batch.weight.max() == 1


def test_a_batch_is_not_written_over_by_accident(buffer):
    batch = buffer.sample(SIZE)
    for name in ("reward", "mine"):
        with pytest.raises(AttributeError, match=f"{name} of a batch cannot be replaced; write into it"):
            setattr(batch, name, np.zeros(SIZE))
    with pytest.raises(AttributeError, match="reward of a batch cannot be deleted"):
        del batch.reward
    called, weak = [], weakref.ref(batch)
    weakref.finalize(batch.reward, called.append, 1)
    del batch
    gc.collect()
    assert called == [1] and weak() is None


def test_a_trimmed_buffer_keeps_the_newest():
    with gpureplay.ReplayBuffer(64, {"x": "int32"}, device="cpu", prioritized=True, max_batch=8) as buffer:
        buffer.extend(x=np.arange(60))
        buffer.trim(40)
        assert len(buffer) == 40 and set(buffer.sample(8).x.tolist()) <= set(range(20, 60))
        buffer.trim(50)
        assert len(buffer) == 40 and buffer.stats.evicted == 20 and buffer.priority_stats.nonzero == 40
        buffer.extend(x=np.arange(60, 84))
        assert len(buffer) == 64 and buffer.stats.evicted == 20
        for keep in (-1, 65):
            with pytest.raises(gpureplay.InvalidArgument, match=f"keep is {keep}; it must be 0 to capacity = 64"):
                buffer.trim(keep)
        assert len(buffer) == 64
        buffer.trim(1)
        assert len(buffer) == 1 and buffer.sample(8).x.tolist() == [83] * 8


@pytest.mark.parametrize("capacity, settings", [
    *((capacity, {"prioritized": prioritized}) for capacity in (2, 3, 100) for prioritized in (False, True)),
    (2, {"distinct": True}), (64, {"distinct": True}), (40, {"block_rows": 39}), (40, {"prioritized": True,
                                                                                      "eviction": "priority"})])
def test_a_full_small_buffer_is_sampled_and_updated_whole(capacity, settings):
    with gpureplay.ReplayBuffer(capacity, {"x": "int32"}, device="cpu", seed=1, **settings) as buffer:
        most, block = buffer.config["max_batch"], buffer.config["block_rows"]
        assert most == capacity - (block if "distinct" in settings else 0)
        for begin in range(0, 4 * capacity, capacity):
            buffer.extend(x=np.arange(begin, begin + capacity))
            batch = buffer.sample(most)
            if "eviction" not in settings:
                assert len(buffer) == capacity and batch.x.min() >= begin and (batch.x == batch.id).all()
            if "distinct" in settings:
                assert len(set(batch.x)) == most
            if settings.get("prioritized") and "eviction" not in settings:
                ids = np.arange(begin, begin + capacity)
                buffer.update_priorities(ids, ids % 7 + 1.0)
                assert np.array_equal(buffer.get_priorities(ids), np.float32(ids % 7 + 1.0) + np.float32(1e-6))
        with pytest.raises(gpureplay.InvalidArgument, match=f"it must be 1 to max_batch = {most}"):
            buffer.sample(most + 1)


def test_a_full_small_buffer_of_frames_is_sampled_whole():
    fields = {"obs": ((4, 2), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((4, 2), "uint8"),
              "terminated": "bool", "truncated": "bool"}
    with gpureplay.ReplayBuffer(50, fields, device="cpu", frame_stack=4, observations="stacks") as buffer:
        obs = np.zeros((4, 2), np.uint8)
        for step in range(1, 170):
            next_obs = np.concatenate([obs[1:], np.full((1, 2), step, np.uint8)])
            buffer.add(obs=obs, action=step, reward=0.0, next_obs=next_obs, terminated=False, truncated=False)
            obs = next_obs
            batch = buffer.sample(50)
            assert (batch.next_obs[:, -1, 0] == batch.action).all() and batch.action.min() > step - 50
        assert len(buffer) == 50


@pytest.mark.parametrize("name", ["obs.left", "device", "_arrays", "__name", "keys", "items", "torch", "class", "é",
                                  "of", "_count", "_handle", "weights"])
def test_a_batch_is_read_by_name_whatever_the_names(name):
    with gpureplay.ReplayBuffer(64, {name: "float32", "obs": "float32"}, device="cpu") as buffer:
        buffer.extend(**{name: np.arange(64), "obs": -np.arange(64)})
        batch = buffer.sample(SIZE)
        for _ in range(3):
            batch = buffer.sample(SIZE, out=batch)
            assert batch.keys() == [name, "obs", "discount", "weight", "id"] == [key for key, _ in batch.items()]
            assert (batch[name] == batch.id).all() and (batch.obs == -batch.id).all() and batch.obs is batch["obs"]
        assert batch.ids is batch.id is batch.indices is batch["indices"] and batch.weight is batch["weight"]
        assert all(array is batch[key] for key, array in batch.items()) and {*dict(batch)} == {*batch.keys()}
        assert "obs" in batch and "ids" in batch and "nothing" not in batch
        assert batch.device == "cpu" and isinstance(batch, gpureplay.Batch)
        assert (batch["weights"] is batch.weight) == (name != "weights")
        if not hasattr(gpureplay.Batch, name) and name[0] != "_":
            assert getattr(batch, name) is batch[name]
