# SPDX-License-Identifier: MIT
"""Random schedules of everything that makes, holds and lets go of batches. Every field of a row follows from its id, so
every array of every live batch can be compared with what its ids say, at any time.

The devices are those that GPUR_TEST_DEVICES names (separated by commas), or the CPU and the first GPU.
"""

import contextlib
import os
import random
import threading

import gpureplay
import numpy as np
import pytest
from rows import block
from steps_model import World

try:
    import torch
except ModuleNotFoundError:
    torch = None

DEVICES = [(name, executor) for name in os.environ.get("GPUR_TEST_DEVICES", "cpu,cuda:0").split(",")
           for executor in (("inline", "thread") if name == "cpu" else ("inline",))]
SIZES = (1, 2, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256)
MAX_BATCH = 256
GAMMA = 0.9


class Packed:
    """Finished transitions."""

    fields = {"obs": ((3,), "float32"), "odd": ((13,), "uint8"), "action": ((), "int32"), "reward": ((), "float32"),
              "next_obs": ((3,), "float32"), "half": ((2,), "float16"), "flags": ((5,), "bool"),
              "terminated": ((), "bool"), "tag": ((), "int64")}
    most = 6000

    def __init__(self, **settings):
        self.settings = {"max_batch": MAX_BATCH, "gamma": GAMMA, "seed": 3, **settings}
        self.capacity = 700
        self.rows = block(self.fields, 0, self.most)
        self.begun = self.count = 0  # rows that may be there, and those that are
        self.rows["action"] %= 4
        self.rows["discount"] = np.float32(GAMMA) * ~self.rows["terminated"]

    def make(self, device):
        return gpureplay.ReplayBuffer(self.capacity, self.fields, device=device, **self.settings)

    def grow(self, buffers, draw):
        """More rows, the same in each buffer, by any of the ways there are."""
        count = min(draw.choice((1, 1, 2, 40, 300)), self.most - self.count)
        if count == 0:
            return
        given = {name: self.rows[name][self.count:self.count + count] for name in self.fields}
        self.begun += count
        way = draw.choice(("add", "extend", "writer", "writers"))
        for buffer in buffers:
            if way == "add" and count == 1:
                buffer.add(**{name: values[0] for name, values in given.items()})
            elif way == "writer" or (way == "writers" and count == 1):
                with contextlib.closing(buffer.writer()) as writer:
                    writer.extend(**given)
            elif way == "writers":
                with contextlib.closing(buffer.writer(num_envs=count, autoreset="disabled")) as writer:
                    writer.add(**given)
            else:
                buffer.extend(**given)
        self.count += count

    def wanted(self, name, ids):
        return self.rows[name][ids]


class Wide(Packed):
    """Rows so large that a batch's memory is for fewer than 64."""

    fields = {"image": ((48, 48, 2), "uint8"), "reward": ((), "float32"), "more": ((3000,), "float32"),
              "terminated": ((), "bool")}
    most = 900

    def __init__(self, **settings):
        self.settings = {"max_batch": 100, "gamma": GAMMA, **settings}
        self.capacity, self.begun, self.count = 200, 0, 0
        self.rows = block(self.fields, 0, self.most)
        self.rows["discount"] = np.float32(GAMMA) * ~self.rows["terminated"]


class One(Packed):
    """One field alone, which is not the library's first."""

    fields = {"x": ((), "uint8")}

    def __init__(self, **settings):
        self.settings = {"max_batch": MAX_BATCH, "gamma": GAMMA, **settings}
        self.capacity, self.begun, self.count = 700, 0, 0
        self.rows = block(self.fields, 0, self.most)
        self.rows["discount"] = np.full(self.most, GAMMA, np.float32)


class Linked:
    """Steps, of which the library makes stacks of frames that are stored once, and returns of several steps."""

    def __init__(self, **settings):
        self.world = World(5, num_envs=2, n_step=2, stack=3, gives="stacks", dtype="float32", gamma=GAMMA)
        self.settings = {**self.world.settings(), "layout": "linked", "max_batch": 200, "seed": 3, **settings}
        self.count = 0

    @property
    def begun(self):
        return len(self.world.rows)

    def make(self, device):
        return gpureplay.ReplayBuffer(1500, self.world.fields(), **{**self.settings, "device": device})

    def grow(self, buffers, draw):
        for _ in range(draw.choice((1, 1, 10, 60))):
            given = self.world.step()
            for buffer in buffers:
                buffer.add(**{name: values for name, values in given.items()
                              if name in [field.name for field in buffer.fields]})
        self.count = len(self.world.rows)

    def wanted(self, name, ids):
        return np.stack([np.asarray(self.world.rows[at][name]) for at in ids])


SOURCES = {
    "packed": Packed,
    "distinct": lambda: Packed(distinct=True),
    "prioritized": lambda: Packed(prioritized=True),
    "plain priorities": lambda: Packed(prioritized="plain", weight_norm="none"),
    "wide": Wide,
    "one field": One,
    "linked": Linked,
    "linked prioritized": lambda: Linked(prioritized=True),
}


class Held:
    """Something of a batch that is kept, and what it must go on to say."""

    def __init__(self, kind, thing, read, wanted):
        self.kind, self.thing, self.read, self.wanted = kind, thing, read, wanted


class Capsule:
    """A DLPack capsule that nobody has taken from yet."""

    def __init__(self, array):
        self._capsule, self._device = array.__dlpack__(), array.__dlpack_device__()

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def host(array):
    """A copy on the host of any array."""
    return np.array(array.cpu().numpy() if torch is not None and isinstance(array, torch.Tensor) else array)


def holders(on_cuda):
    """Name: (what is kept of an array, how it is read later)."""
    found = {"Array": (lambda batch, name: batch.array(name), lambda array: array.numpy())}
    if torch is not None:
        found["tensor"] = (lambda batch, name: torch.from_dlpack(batch.array(name)), host)
    if not on_cuda:
        found.update({
            "array": (lambda batch, name: batch[name], host),
            "row": (lambda batch, name: batch[name][-1:], host),
            "memoryview": (lambda batch, name: memoryview(batch[name]), host),
            "dlpack": (lambda batch, name: np.from_dlpack(batch.array(name)), host),
            "capsule": (lambda batch, name: Capsule(batch.array(name)), None),
        })
    return found


class Schedule:
    """One thread's random calls on a buffer, and all that it holds."""

    def __init__(self, seed, source, buffer, grows, twin=None):
        self.draw, self.source, self.buffer, self.grows = random.Random(seed), source, buffer, grows
        self.twin, self.live, self.said, self.learners = twin, [], [], ()
        self.holders = holders(buffer.device.is_cuda)
        self.most = min(buffer._form.config.max_batch, MAX_BATCH)
        self.is_prioritized, self.last = buffer._is_prioritized, None

    def size(self):
        size = self.draw.choice((*SIZES, self.draw.randrange(1, self.most + 1), 50, 50))
        return min(size, self.most, len(self.buffer))

    def newest(self, count):
        """Ids that nobody evicts meanwhile."""
        room = len(self.buffer) // 2
        return np.array([self.source.count - 1 - self.draw.randrange(max(room, 1)) for _ in range(count)])

    def sample(self):
        return self.take(self.buffer.sample(self.size()), None)

    def gather(self):
        wanted = self.newest(self.size())
        return self.take(self.buffer.gather(wanted), wanted)

    def take(self, batch, ids):
        self.check_batch(batch, ids)
        if self.draw.random() < 0.6:
            self.hold(batch)
        elif not self.buffer.device.is_cuda and self.draw.random() < 0.3:
            for name in batch.keys():
                batch[name].fill(1)  # what a user writes is gone with the next draw
        self.last = batch if self.draw.random() < 0.5 else None

    def hold(self, batch):
        if self.draw.random() < 0.4:
            ids = host(batch["id"])
            self.live.append(Held("batch", batch, None, ids))
            return
        kind, name = self.draw.choice(list(self.holders)), self.draw.choice(batch.keys())
        keep, read = self.holders[kind]
        wanted = host(batch[name])
        self.live.append(Held(kind, keep(batch, name), read, wanted[-1:] if kind == "row" else wanted))

    def release(self):
        if self.live:
            held = self.live.pop(self.draw.randrange(len(self.live)))
            if held.kind == "capsule":
                assert_same(np.from_dlpack(held.thing), held.wanted, held.kind)

    def grow(self):
        if self.grows:
            self.source.grow([self.buffer, *([self.twin] if self.twin else [])], self.draw)

    def priorities(self):
        if self.is_prioritized:
            ids = self.newest(self.draw.randrange(1, 60))
            given = np.array([self.draw.random() * 9 for _ in ids], np.float32)
            for buffer in (self.buffer, *([self.twin] if self.twin else [])):
                buffer.update_priorities(ids, given)

    def train(self):
        for learner in self.learners:
            learner.train(2)

    def train_on(self):
        ids = self.newest(32)
        for learner in self.learners:
            learner.train_on(ids)

    def check_all(self):
        for held in self.live:
            if held.kind == "batch":
                self.check_batch(held.thing, held.wanted)
            elif held.read is not None:
                assert_same(held.read(held.thing), held.wanted, held.kind)

    def check_batch(self, batch, ids):
        """ids: those that it must have, or None."""
        found, count = host(batch["id"]), len(batch)
        assert found.shape == (count,) and (ids is None or (found == ids).all())
        assert (found >= 0).all() and (found < self.source.begun).all(), "no ids of rows that there ever were"
        for name in batch.keys():
            values = host(batch[name])
            assert len(values) == count
            if name == "weight":
                assert np.isfinite(values).all() and (values > 0).all()
                assert self.is_prioritized or (values == 1).all()
            elif name != "id":
                assert_same(values, self.source.wanted(name, found), name)

    def run(self, turns):
        ways = [self.sample] * 8 + [self.gather] * 4 + [self.release] * 5 + [self.grow] * 2 + [self.priorities]
        ways += [self.train, self.train_on] if self.learners else []
        for _ in range(turns):
            way = self.draw.choice(ways)
            self.said.append(way.__name__)
            way()
            if len(self.live) > 9:
                self.release()
            if self.draw.random() < 0.2:
                self.check_all()
        self.check_all()


def assert_same(got, wanted, name):
    """Bit for bit, but for what is summed in another order."""
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


def test_a_smaller_batch_in_a_larger_ones_memory():
    """Memory for more rows has its arrays further apart."""
    for executor in ("inline", "thread"):
        with contextlib.closing(gpureplay.Device("cpu", executor=executor, threads=1)) as device, \
                gpureplay.ReplayBuffer(1000, {"a": "int64", "b": "int64"}, device=device) as buffer:
            buffer.extend(a=np.arange(1000), b=-np.arange(1000))
            for size in (100, 50, 50, 200, 50, 100, 50, 256, 1, 1):
                batch = buffer.sample(size)
                assert len(batch.id) == size and (batch.a == batch.id).all() and (batch.b == -batch.id).all()
                assert (batch.weight == 1).all()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("device, executor", DEVICES)
def test_every_live_batch_is_what_its_ids_say(device, executor, name, seed):
    """Two buffers at once, of which the second has other rows."""
    with contextlib.closing(opened(device, executor)) as where:
        schedules = []
        for number, key in enumerate((name, "packed")):
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


@pytest.mark.parametrize("name", ["packed", "prioritized", "linked", "linked prioritized"])
@pytest.mark.parametrize("device, executor", DEVICES)
def test_a_learner_trains_on_what_it_would_if_nobody_else_drew(device, executor, name):
    """Beside a twin that is only fed and trained, which ends with the same weights to the last bit."""
    with contextlib.closing(opened(device, executor)) as where:
        source = SOURCES[name]()
        buffer, twin = source.make(where), source.make(where)
        schedule = Schedule(7, source, buffer, grows=True, twin=twin)
        for turn in (4, 5, 6):
            source.grow([buffer, twin], random.Random(turn))
        schedule.learners = [gpureplay.DQN(of, 9, batch_size=32, trunk=[16], seed=5) for of in (buffer, twin)]
        schedule.run(250)
        ours, theirs = (learner.weights for learner in schedule.learners)
        assert "train" in schedule.said and "train_on" in schedule.said and len(ours)
        for key in ours:
            assert ours[key].tobytes() == theirs[key].tobytes(), key


@pytest.mark.parametrize("name", ["packed", "prioritized", "linked"])
@pytest.mark.parametrize("device, executor", DEVICES)
def test_threads_that_share_a_buffer_have_batches_of_their_own(device, executor, name):
    """One of them adds, too."""
    with contextlib.closing(opened(device, executor)) as where:
        source, wrong = SOURCES[name](), []
        with source.make(where) as buffer:
            for turn in (4, 5, 6, 7, 8, 9):
                source.grow([buffer], random.Random(turn))

            def play(number):
                try:
                    Schedule(number, source, buffer, grows=number == 0).run(60)
                except BaseException as error:  # noqa: BLE001 (it is told in the main thread)
                    wrong.append(error)

            threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if wrong:
            raise wrong[0]
