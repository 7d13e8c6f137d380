# SPDX-License-Identifier: MIT
"""What changes a buffer's transitions or goes over all of them, against a list: `clear`, `buffer[...]`, `epoch` and
`write_field`. GPUR_TEST_DEVICES names the devices (separated by commas); default: the CPU and the first GPU."""

import random

import gpureplay
import numpy as np
import pytest
from support import needs_files
from test_batches import DEVICES

FIELDS = {"obs": ((3,), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((3,), "uint8"),
          "terminated": "bool", "truncated": "bool"}
CAPACITY, MAX_BATCH = 40, 16
BUFFERS = [{}, {"prioritized": True}, {"n_step": 3}, {"sequences": True}, {"distinct": True},
           {"frame_stack": 2, "observations": "frames"}, {"frame_stack": 2, "observations": "frames", "n_step": 3}]


def make(device="cpu", executor="inline", fields=FIELDS, **settings):
    settings = {"max_batch": MAX_BATCH, "block_rows": 8, "gamma": 1.0, **settings}
    return gpureplay.ReplayBuffer(CAPACITY, fields, device=gpureplay.Device(device, executor=executor), **settings)


def numbered(first, count):
    """Finished transitions whose actions are their numbers."""
    numbers, obs = np.arange(first, first + count), np.zeros((count, 3), np.uint8)
    return {"obs": obs, "action": numbers, "reward": numbers, "next_obs": obs + 1, "terminated": numbers % 2 == 1,
            "truncated": np.zeros(count, bool)}


class Model:
    """One environment's transitions by their ids, as a list; its steps are numbered, and n steps are added up."""

    def __init__(self, buffer):
        self.buffer, self.n_step = buffer, buffer.config["n_step"]
        self.rows, self.open, self.first, self.steps = [], [], 0, 0

    def step(self, ends):
        step, self.steps = self.steps, self.steps + 1
        frame = np.full((2, 3), [[step % 256], [(step + 1) % 256]], np.uint8)
        self.buffer.add(obs=frame[0], action=step, reward=step, next_obs=frame[1], terminated=ends, truncated=False)
        self.open.append(step)
        while self.open and (ends or len(self.open) == self.n_step):
            self.rows.append((self.open[0], sum(self.open)))
            self.open.pop(0)
        self.first = max(self.first, len(self.rows) - CAPACITY)

    def trim(self, keep):
        self.first = max(self.first, len(self.rows) - keep)

    @property
    def ids(self):
        return list(range(self.first, len(self.rows)))

    def check(self, batch, ids):
        """The batch has these transitions in this order."""
        newest = batch.obs[:, -1, 0] if batch.obs.ndim == 3 else batch.obs[:, 0]
        found = zip(batch.id, batch.action, batch.reward, newest)
        expected = [(one, *self.rows[one], self.rows[one][0] % 256) for one in ids]
        assert [tuple(int(x) for x in row) for row in found] == expected

    def check_all(self):
        assert len(self.buffer) == len(self.ids) and self.buffer.stats.first_id == self.first
        for first in range(0, len(self.ids), MAX_BATCH):
            self.check(self.buffer[first:first + MAX_BATCH], self.ids[first:first + MAX_BATCH])


def host(batch):
    """What the model reads of a batch, in host memory."""
    return batch if isinstance(batch.id, np.ndarray) else Copied(batch)


class Copied:
    def __init__(self, batch):
        for name in ("id", "obs", "action", "reward"):
            setattr(self, name, np.array(batch[name].cpu() if hasattr(batch[name], "cpu") else batch[name]))


@pytest.mark.parametrize("settings", BUFFERS, ids=str)
@pytest.mark.parametrize("device, executor", DEVICES)
def test_random_schedules_agree_with_a_list(device, executor, settings):
    choose = random.Random(7)
    try:
        buffer = make(device, executor, **settings)
    except gpureplay.Unavailable:
        pytest.skip(f"no {device}")
    with buffer:
        model = Model(buffer)
        for turn in range(300):
            call = choose.choice(("add", "add", "add", "clear", "trim", "at", "slice", "array", "epoch", "write"))
            size = len(model.ids)
            if call == "add":
                for _ in range(choose.randrange(1, 30)):
                    model.step(ends=choose.random() < 0.2)
            elif call == "clear" and turn % 3 == 0:
                buffer.clear()
                model.trim(0)
            elif call == "trim":
                keep = choose.randrange(CAPACITY + 1)
                buffer.trim(keep)
                model.trim(keep)
            elif call == "at" and size:
                at = choose.randrange(-size, size)
                model.check(host(buffer[at]), [model.ids[at]])
            elif call == "slice":
                where = slice(*(choose.choice((None, choose.randrange(-50, 50))) for _ in range(2)),
                              choose.choice((None, 1, -1, 3, -4)))
                if 1 <= len(model.ids[where]) <= MAX_BATCH:
                    model.check(host(buffer[where]), model.ids[where])
                else:
                    with pytest.raises(gpureplay.InvalidArgument, match=f"got {len(model.ids[where])} places"):
                        buffer[where]
            elif call == "array" and size:
                at = [choose.randrange(-size, size) for _ in range(choose.randrange(1, MAX_BATCH + 1))]
                where = choose.choice((at, np.array(at, np.int16), np.array(at) % size))
                model.check(host(buffer[where]), [model.ids[one] for one in at])
            elif call == "epoch":
                check_epoch(choose, model)
            elif call == "write" and model.rows:
                write(choose, model)
            assert len(buffer) == len(model.ids)


def write(choose, model):
    """New rewards of transitions: of some that are gone, and of some twice."""
    ids = [choose.randrange(-1, len(model.rows)) for _ in range(choose.randrange(MAX_BATCH + 1))]
    rewards = [choose.randrange(1000) for _ in ids]
    model.buffer.write_field(*choose.choice(((ids,), (np.array(ids, np.int64),))), reward=rewards)
    for one, reward in zip(ids, rewards):
        if one >= 0:  # those that are gone are not looked at again
            model.rows[one] = (model.rows[one][0], reward)


def check_epoch(choose, model):
    """Each transition comes once, in batches of the wanted size, in their order unless they are shuffled."""
    count, shuffle, drop = choose.randrange(1, MAX_BATCH + 1), choose.random() < 0.5, choose.random() < 0.5
    ids, came = model.ids, []
    batches = model.buffer.epoch(count, shuffle=shuffle, drop_last=drop)
    if len(ids) <= CAPACITY - 4:
        for _ in range(4):  # these do not come
            model.step(ends=False)
    for batch in batches:
        batch = host(batch)
        model.check(batch, batch.id.tolist())
        came.append(batch.id.tolist())
    whole, rest = divmod(len(ids), count)
    assert [len(one) for one in came] == [count] * whole + [rest] * (rest > 0 and not drop)
    flat = sum(came, [])
    assert (flat == ids[:len(flat)]) if not shuffle else (set(flat) <= set(ids) and len(set(flat)) == len(flat))


def test_a_cleared_buffer_goes_on_with_new_ids_and_open_episodes():
    with make(n_step=3, prioritized=True, sequences=True) as buffer:
        model = Model(buffer)
        for _ in range(10):
            model.step(ends=False)
        gone = buffer[:].id.copy()
        buffer.update_priorities(gone, np.full(len(gone), 9.0))
        buffer.clear()
        model.trim(0)
        stats = buffer.stats
        assert (len(buffer), stats.first_id, stats.evicted, stats.visible) == (0, 8, 8, 0) and not buffer.can_sample
        assert buffer.priority_stats.nonzero == 0 and buffer.priority_stats.max_priority == 1.0
        for call in (lambda: buffer.sample(1), lambda: buffer.gather([7]), lambda: buffer.get_priorities([7])):
            with pytest.raises(gpureplay.TooFew, match="the replay is empty"):
                call()
        assert list(buffer.epoch(4)) == []
        buffer.update_priorities(gone, np.full(len(gone), 9.0))  # all are skipped
        assert buffer.priority_stats.stale == len(gone)
        buffer.clear()  # of an empty one
        model.step(ends=True)
        model.check_all()
        assert buffer[0].id.tolist() == [8] and buffer[0].previous.tolist() == [7]
        assert set(buffer.sample(16).id.tolist()) <= {8, 9, 10} and buffer.check_priorities() == 0
        with pytest.raises(gpureplay.Evicted, match="ids.0. is 7, and has been overwritten"):
            buffer.gather([7])


def test_clear_takes_what_is_not_visible_yet():
    with make(flush="manual") as buffer:
        model, writer = Model(buffer), buffer.writer()
        for _ in range(43):
            model.step(ends=False)
        writer.extend(**numbered(0, 3))
        buffer.clear()
        buffer.flush()
        assert len(buffer) == 0 and buffer.stats.first_id == 46
        writer.close()
        model.rows += [None] * 3
        model.trim(0)
        for _ in range(20):
            model.step(ends=False)
        buffer.flush()
        model.check_all()


@needs_files
def test_a_cleared_buffer_is_saved_and_loaded(tmp_path):
    with make(prioritized=True) as buffer, make(prioritized=True) as other:
        model = Model(buffer)
        for _ in range(50):
            model.step(ends=False)
        buffer.clear()
        buffer.save(tmp_path / "empty.safetensors")
        other.load(tmp_path / "empty.safetensors")
        assert len(other) == 0 and other.stats.first_id == 50
        model.trim(0)
        model.buffer = other
        model.step(ends=False)
        model.check_all()
        assert other.check_priorities() == 0


def test_a_buffer_that_evicts_by_priority_is_cleared_and_has_no_order():
    with make(prioritized=True, eviction="priority") as buffer:
        for first in range(0, 5 * CAPACITY, 30):
            buffer.extend(**numbered(first, 30))
            if first % 60 == 0:
                buffer.clear()
                assert len(buffer) == 0 and buffer.priority_stats.nonzero == 0
            else:
                assert set(buffer.sample(16).action.tolist()) <= set(range(first, first + 30))
        assert buffer.check_priorities() == 0
        for call in (lambda: buffer[0], lambda: buffer.epoch(4)):
            with pytest.raises(gpureplay.InvalidArgument, match='eviction is "priority", so that .* must be "oldest"'):
                call()


def test_an_epoch_has_an_order_that_can_be_repeated():
    def orders(*calls, **settings):
        with make(**settings) as buffer:
            model = Model(buffer)
            for _ in range(30):
                model.step(ends=False)
            return [sum((batch.id.tolist() for batch in buffer.epoch(7, **call)), []) for call in calls]

    first, second, chosen, again = orders({}, {}, {"seed": 5}, {"seed": 5}, seed=3)
    assert first != second and chosen == again and len({*map(tuple, (first, second, chosen))}) == 3
    assert [first, second] == orders({}, {}, seed=3) != orders({}, {}, seed=4)


def test_an_epoch_tells_what_is_gone():
    with make() as buffer:
        model = Model(buffer)
        for _ in range(CAPACITY):
            model.step(ends=False)
        batches = buffer.epoch(8, shuffle=False)
        model.check(next(batches), range(8))
        for _ in range(16):
            model.step(ends=False)
        with pytest.raises(gpureplay.Evicted, match="ids.0. is 8, and has been overwritten"):
            next(batches)
        assert list(batches) == []  # it is over


@pytest.mark.parametrize("where, error, words", [
    (30, IndexError, r"got 30; its 30 transitions are 0 to 29, or -30 to -1"),
    (-31, IndexError, r"got -31; its 30"),
    (2**70, TypeError, "it must be an int"),
    ([0, 2, 99], IndexError, "got 99; its 30"),
    (np.array([2**63], np.uint64), IndexError, "got 9223372036854775808; its 30"),
    ([], gpureplay.InvalidArgument, "got 0 places; they must be 1 to max_batch = 16"),
    (slice(None), gpureplay.InvalidArgument, "got 30 places"),
    (1.0, TypeError, r"got 1.0; it must be an int, a slice, or an array \(count,\) of ints"),
    (True, TypeError, "got True; it must be"),
    ("reward", TypeError, "got 'reward'; it must be"),
    (None, TypeError, "got None; it must be"),
    ([True] * 30, TypeError, r"got an array \(30,\) of bool; it must be"),
    ([0.5], TypeError, r"got an array \(1,\) of float64; it must be"),
    ([[1]], TypeError, r"got an array \(1, 1\) of int64; it must be"),
])
def test_places_that_are_none_are_refused(where, error, words):
    with make() as buffer:
        with pytest.raises(IndexError, match="got 0; the buffer is empty"):
            buffer[0]
        model = Model(buffer)
        for _ in range(30):
            model.step(ends=False)
        with pytest.raises(error, match=words):
            buffer[where]


def test_arguments_of_an_epoch_are_refused_at_once():
    with make() as buffer:
        for arguments, words in (((0,), "batch_size is 0; it must be 1 to max_batch = 16"), ((17,), "batch_size is 17"),
                                 ((4, {"seed": -1}), "seed is -1")):
            with pytest.raises(gpureplay.InvalidArgument, match=words):
                buffer.epoch(arguments[0], **(arguments[1] if len(arguments) > 1 else {}))
        for name in ("shuffle", "drop_last"):
            with pytest.raises(TypeError, match=f"{name} is 1; it must be True or False"):
                buffer.epoch(4, **{name: 1})
        for call in (iter, reversed, list):
            with pytest.raises(TypeError):
                call(buffer)
    for call in (buffer.clear, lambda: buffer[0], lambda: buffer.epoch(4)):
        with pytest.raises(gpureplay.Closed):
            call()


def test_a_learner_goes_on_after_clear():
    fields = {**FIELDS, "obs": ((3,), "float32"), "next_obs": ((3,), "float32")}
    with make(fields=fields, min_size=20) as buffer:
        agent = gpureplay.DQN(buffer, 30, trunk=[8], batch_size=8)
        buffer.extend(**numbered(0, 30))
        agent.train(3)
        buffer.clear()
        with pytest.raises(gpureplay.TooFew):
            agent.train(1)
        buffer.extend(**numbered(7, 1))
        agent.train(2)
        assert agent.stats.steps == 5


def test_written_values_are_those_of_later_samples():
    fields = {**FIELDS, "mask": ((2,), "bool"), "half": ((3,), "float16")}
    with make(fields=fields, reward_clip=2.0) as buffer:
        buffer.extend(**numbered(0, 30), mask=np.zeros((30, 2), bool), half=np.zeros((30, 3)))
        old = buffer.gather([3, 4])
        buffer.write_field([3, -1, 4, 3], reward=[1, 1, -9, 1.5])
        buffer.write_field(np.array([4]), mask=np.array([[True, False]]))
        buffer.write_field([3], half=np.full((1, 3), 0.1))
        new = buffer.gather([3, 4])
        assert old.reward.tolist() == [2, 2] and new.reward.tolist() == [1.5, -2]
        assert new.mask.tolist() == [[False, False], [True, False]]
        assert new.half.tolist() == [[np.float16(0.1)] * 3, [0] * 3] and new.action.tolist() == [3, 4]
        buffer.write_field([], reward=[])
        buffer.write_field([[0, 1], [-1, 2]], reward=[[0.5, 0.25], [1, 0.125]])
        assert buffer.gather([0, 1, 2]).reward.tolist() == [0.5, 0.25, 0.125]


@pytest.mark.parametrize("ids, values, error, words", [
    ([0], {}, TypeError, "write_field got no field; it must get one field by its name"),
    ([0], {"reward": [1], "action": [1]}, TypeError, "got reward, action; it must get one field"),
    ([0], {"rewards": [1]}, TypeError, "the buffer has no field 'rewards'; its fields are obs, action"),
    ([[[0]]], {"reward": [[[1]]]}, ValueError, r"ids has shape \(1, 1, 1\); it must be \(count,\) or \(batch_size, l"),
    ([[0]], {"reward": [1]}, ValueError, r"reward has shape \(1,\); it must be \(1, 1\)"),
    ([0, 1], {"reward": [1]}, ValueError, r"reward has shape \(1,\); it must be \(2,\)"),
    ([0], {"obs": np.zeros((1, 4), np.uint8)}, ValueError, r"obs has shape \(1, 4\); it must be \(1, 3\)"),
    ([0], {"obs": np.zeros((1, 3))}, TypeError, "obs is float64; it must be uint8"),
    ([0.5], {"reward": [1]}, TypeError, "ids is float64; it must be int64"),
    ([0], {"reward": [np.nan]}, ValueError, '"reward" is NaN in row 0 of 1; its numbers must be finite'),
    ([30], {"reward": [1]}, gpureplay.InvalidArgument, "ids.0. is 30; the visible transitions are 0 to 29"),
    ([0], {"previous": [1]}, gpureplay.InvalidArgument, '"previous" links transitions; it cannot be written'),
    ([0], {"priority": [1]}, gpureplay.InvalidArgument, "`ReplayBuffer.update_priorities` sets new"),
    ([0], {"terminated": [True]}, gpureplay.InvalidArgument, '"terminated" must agree with "discount"'),
    ([0], {"action": [2]}, gpureplay.InvalidArgument, '"action" is 2 in row 0 of 1; it must be 0 to 1'),
    (range(17), {"reward": range(17)}, gpureplay.InvalidArgument, "count is 17; it must be 0 to max_batch = 16"),
])
def test_values_that_cannot_be_written_are_refused(ids, values, error, words):
    fields = {**FIELDS, "obs": ((3,), "uint8"), "priority": "float32", "discount": "float32", "previous": "int64"}
    with make(fields=fields, prioritized=True) as buffer:
        rows = {**numbered(0, 30), "action": np.zeros(30, np.int32), "terminated": np.zeros(30, bool)}
        buffer.extend(**rows, priority=np.ones(30), discount=np.ones(30), previous=np.arange(30) - 1)
        agent = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8)
        before = buffer[:16].reward.copy()
        with pytest.raises(error, match=words):
            buffer.write_field(ids, **values)
        assert (buffer[:16].reward == before).all() and buffer.priority_stats.stale == 0
        agent.close()


def test_frames_are_not_written():
    with make(frame_stack=2, observations="frames") as buffer:
        model = Model(buffer)
        model.step(ends=False)
        for name in ("obs", "next_obs"):
            with pytest.raises(gpureplay.InvalidArgument, match=f'"{name}" is made of frames, which transitions share'):
                buffer.write_field([0], **{name: np.zeros((1, 2, 3), np.uint8)})
