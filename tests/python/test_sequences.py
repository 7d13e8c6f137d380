# SPDX-License-Identifier: MIT
"""Sequences of successive transitions: of steps of several environments, of finished transitions, and what is refused.
What the library finds is compared with a search in all transitions in tests/replay/test_sequences.c."""

import gpureplay
import numpy as np
import pytest
from steps_model import MODES, Model, give

ROWS = {"obs": ((3,), "float32"), "terminated": "bool"}


def buffer_of(capacity, fields, **settings):
    return gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", "sequences": True, **settings})


def blocks(count, ends):
    """Finished transitions 0 ... count - 1, of which `ends` are the last of episodes."""
    obs = np.repeat(np.arange(count, dtype=np.float32)[:, np.newaxis], 3, axis=1)
    return {"obs": obs, "terminated": np.isin(np.arange(count), list(ends))}


def extend(buffer, values, *cuts):
    """Gives the transitions in several calls."""
    for first, last in zip((0, *cuts), (*cuts, len(values["obs"]))):
        buffer.extend(**{name: array[first:last] for name, array in values.items()})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["rows", "frames"])
def test_sequences_of_steps_follow_each_other(mode, layout):
    model = Model(4, num_envs=3, mode=mode, n_step=2, stack=2 if layout == "frames" else 1)
    with gpureplay.ReplayBuffer(400, model.fields(), sequences=True, layout=layout, **model.settings()) as buffer:
        give(buffer, model, 200)
        batch = buffer.sample_sequences(8, 5)
        assert batch.obs.shape == (8, 5, *model.rows[0]["obs"].shape) and len(batch) == 8
        assert batch.mask.shape == batch.is_first.shape == batch.weight.shape == batch.discount.shape == (8, 5)
        assert batch.mask.all()
        for sequence in range(8):
            for at in range(5):
                row = model.rows[batch.id[sequence, at]]
                assert (batch.obs[sequence, at] == row["obs"]).all()
                assert batch.is_first[sequence, at] == (row["previous"] < 0)
            for before, after in zip(batch.id[sequence], batch.id[sequence, 1:]):
                previous = model.rows[after]["previous"]
                assert before == (previous if previous >= 0 else -2 - previous)


def test_finished_transitions_are_one_environments():
    values = blocks(200, {20, 21, 90})
    with buffer_of(1000, ROWS) as buffer:
        extend(buffer, values, 3, 4, 150)
        assert "previous" not in buffer.config["fields"] and buffer.config["sequences"]
        batch = buffer.sample_sequences(64, 7)
        assert (np.diff(batch.id, axis=1) == 1).all() and (batch.obs[..., 0] == batch.id).all()
        assert (batch.is_first == np.isin(batch.id, [0, 21, 22, 91])).all()
        within = buffer.sample_sequences(64, 7, across_episodes=False)
        assert not within.is_first[:, 1:].any() and not within.mask.all()
        assert (within.id[~within.mask] == -1).all() and not within.obs[~within.mask].any()
        last = buffer.sample_sequences(3, 4, last_ids=[199, 30, 2])
        assert last.id[:2].tolist() == [[196, 197, 198, 199], [27, 28, 29, 30]]
        assert not last.mask[2].any()


def test_steps_of_one_environment_need_no_special_fields():
    with buffer_of(100, {"x": "int64", "terminated": "bool"}) as buffer:
        for x in range(20):
            buffer.add(x=x, terminated=x == 9)
        batch = buffer.sample_sequences(1, 20)
        assert batch.x.tolist() == [list(range(20))]
        assert np.flatnonzero(batch.is_first).tolist() == [0, 10]


def test_steps_of_several_environments_need_no_special_fields():
    """Each is linked to the one before of its environment, whichever of them are reset."""
    with buffer_of(300, {"x": ((2,), "int64"), "terminated": "bool"}, num_envs=3, autoreset="disabled") as buffer:
        for t in range(40):
            ends = np.arange(3) + 4 == t
            buffer.add(x=np.stack([np.arange(3), np.full(3, t)], 1), terminated=ends)
            if t == 20:
                buffer.reset([1])
            if t == 30:
                buffer.reset()
        batch = buffer.sample_sequences(30, 10)
        assert batch.mask.all() and (batch.x[..., 0] == batch.x[:, :1, 0]).all()
        assert (np.diff(batch.x[..., 1], axis=1) == 1).all()
        env, t = batch.x[..., 0], batch.x[..., 1]
        assert (batch.is_first == ((t == 0) | (t == env + 5) | (t == 31) | ((t == 21) & (env == 1)))).all()


def test_a_reset_amid_an_episode_begins_another_one():
    with buffer_of(100, {"x": "int64", "terminated": "bool"}) as buffer:
        buffer.reset()
        for x in range(20):
            buffer.add(x=x, terminated=x == 9)
            if x in {4, 9}:
                buffer.reset()
            buffer.reset(envs=[])  # none
        batch = buffer.sample_sequences(1, 20)
        assert batch.x.tolist() == [list(range(20))]
        assert np.flatnonzero(batch.is_first).tolist() == [0, 5, 10]
        within = buffer.sample_sequences(2, 20, across_episodes=False, last_ids=[7, 19])
        assert within.mask.sum(axis=1).tolist() == [3, 10]


def test_episodes_shorter_than_a_sequence_come_with_a_mask():
    with buffer_of(100, ROWS) as buffer:
        extend(buffer, blocks(50, range(4, 50, 5)))  # episodes of 5
        last_ids = [4, 5, 27, 49]
        for batch in (buffer.sample_sequences(6, 8, across_episodes=False),
                      buffer.sample_sequences(4, 8, across_episodes=False, last_ids=last_ids)):
            last = batch.id.max(axis=1)
            assert (batch.mask.sum(axis=1) == last % 5 + 1).all() and batch.is_first[:, 0].all()
            assert (batch.id[:, 0] == last - last % 5).all() and (batch.obs[..., 0] == batch.id)[batch.mask].all()
        assert last.tolist() == last_ids
        complete = buffer.sample_sequences(16, 3, min_length=3, across_episodes=False)
        assert complete.mask.all() and set(complete.id[:, -1] % 5) <= {2, 3, 4}
        missing = buffer.sample_sequences(4, 8, min_length=6, across_episodes=False)
        assert not missing.mask.any() and not missing.obs.any() and (missing.id == -1).all()
        assert not buffer.sample_sequences(1, 49, last_ids=[47]).mask.any()


def test_sequences_by_priority_learn_from_the_last_ids():
    with buffer_of(1000, ROWS, prioritized=True, alpha=1.0, priority_offset=0) as buffer:
        extend(buffer, blocks(100, {50}))
        ids = np.arange(100)
        buffer.update_priorities(ids, np.where(ids % 10 == 5, 3.0, 0.0))
        batch = buffer.sample_sequences(64, 4)
        assert set(batch.id[:, -1]) <= set(range(5, 100, 10)) and (batch.weight == 1).all()
        buffer.update_priorities(batch.id[:, -1], np.full(64, 6.0))
        assert buffer.get_priorities(batch.id[:1, -1]).tolist() == [6.0]


def ends_of(places, whole, length, every):
    """The ids of the rows that end a sequence. places: each row's place in its episode; whole: the numbers of rows of
    episodes that have ended, by the id of their last row."""
    ends = set()
    for id, at in enumerate(places):
        starts = range(0, at + 1, every)
        if at - length + 1 in starts or (id in whole and any(start > at - length + 1 for start in starts)):
            ends.add(id)
    return ends


@pytest.mark.parametrize("every", [1, 3, 9, None])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["rows", "frames"])
def test_sequences_begin_every_so_many_steps_of_an_episode(layout, mode, every):
    model = Model(5, num_envs=3, mode=mode, n_step=2, stack=2 if layout == "frames" else 1)
    with gpureplay.ReplayBuffer(400, model.fields(), sequences=(4, every), layout=layout, prioritized=True,
                                **model.settings()) as buffer:
        give(buffer, model, 80)
        places = []
        for row in model.rows:
            places.append(places[row["previous"]] + 1 if row["previous"] >= 0 else 0)
        followed = {row["previous"] for row in model.rows}
        whole = {id for id, row in enumerate(model.rows) if (row["terminated"] or row["truncated"])
                 and id not in followed}
        ends = ends_of(places, whole, 4, 1000 if every is None else every)
        priorities = buffer.get_priorities(range(len(places)))
        assert set(np.flatnonzero(priorities)) == ends and set(priorities) == {0, 1}
        batch = buffer.sample_sequences(64)
        assert batch.id.shape == (64, 4) and set(batch.id.max(1)) <= ends and batch.mask[:, 0].all()
        assert (batch.mask.sum(1) == [min(4, places[last] + 1) for last in batch.id.max(1)]).all()
        assert every is not None or batch.is_first[:, 0].all()
        assert buffer.config["sequences"] == (4, every or 2**31 - 1)


def test_finished_transitions_end_sequences_too():
    with buffer_of(400, ROWS, sequences=(5, 2), prioritized=True) as buffer:
        extend(buffer, blocks(60, {20, 23, 50}), 3, 4, 30)
        whole, places = {20, 23, 50}, [id - max(first for first in (0, 21, 24, 51) if first <= id) for id in range(60)]
        assert set(np.flatnonzero(buffer.get_priorities(range(60)))) == ends_of(places, whole, 5, 2)
    with buffer_of(400, {"x": "int64", "terminated": "bool"}, num_envs=2, autoreset="disabled", sequences=(3, 3),
                   prioritized=True) as buffer:
        for t in range(12):
            buffer.add(x=[t, t], terminated=[t == 4, t == 7])
        ends = np.flatnonzero(buffer.get_priorities(range(24)))
        assert [(id // 2, id % 2) for id in ends] == [(2, 0), (2, 1), (4, 0), (5, 1), (7, 0), (7, 1), (10, 0), (10, 1)]


def test_recurrent_states_are_written_back_by_ids():
    fields = {"obs": ((3,), "float32"), "terminated": "bool", "state": ((2,), "float32")}
    with buffer_of(100, fields, sequences=(4, 2), prioritized=True) as buffer:
        buffer.extend(**blocks(30, {9, 12}), state=np.zeros((30, 2)))
        batch = buffer.sample_sequences(16)
        ids = np.array(batch.id)
        buffer.write_field(batch.id, state=np.stack([ids, -ids], 2))
        again = buffer.sample_sequences(16, last_ids=ids.max(1))
        assert (again.id == ids).all() and (again.state[..., 0] == np.where(ids >= 0, ids, 0)).all()
        assert not again.state[ids < 0].any()


def test_a_batch_of_sequences_can_be_filled_again():
    with buffer_of(100, ROWS) as buffer, \
            buffer_of(100, ROWS) as other:
        extend(buffer, blocks(100, {50}))
        extend(other, blocks(100, {50}))
        batch, single = buffer.sample_sequences(4, 6), buffer.sample(24)
        ids, memory = batch.id.copy(), batch.obs.ctypes.data
        assert buffer.sample_sequences(4, 6, out=batch) is batch
        assert batch.obs.ctypes.data == memory and (batch.id != ids).any()
        assert (batch.obs[..., 0] == batch.id).all()
        assert np.from_dlpack(batch.array("obs")).shape == (4, 6, 3)
        for wrong, size in ((single, (4, 6)), (batch, (6, 4)), (other.sample_sequences(4, 6), (4, 6))):
            with pytest.raises(gpureplay.InvalidArgument, match="out"):
                buffer.sample_sequences(*size, out=wrong)
        for size in (4, 24):
            with pytest.raises(gpureplay.InvalidArgument, match="out is .*SequenceBatch"):
                buffer.sample(size, out=batch)
        with pytest.raises(AttributeError, match="no 'mask'"):
            getattr(single, "mask")


@pytest.mark.parametrize("settings, text", [
    ({"sequences": 3}, "^sequences is 3; it must be True"),
    ({"sequences": (3,)}, r"^sequences is \(3,\); it must be True, False or \(length, every\)"),
    ({"sequences": (0, 2)}, "^length of sequences is 0; it must be 1"),
    ({"sequences": (3, 0)}, "^every of sequences is 0; it must be 1"),
    ({"sequences": (3, 2)}, r"^sequences is \(3, 2\) and the buffer is not prioritized"),
    ({"sequences": (3, 2), "prioritized": True, "priority_offset": 0.5}, r"priority_offset 0\.5; it must be 0"),
    ({"sequences": (3, 2), "prioritized": True, "priority": "float32"}, "field \"priority\", which is then filled in")])
def test_settings_of_sequences_are_refused(settings, text):
    own = {name: settings.pop(name) for name in ("priority",) if name in settings}
    with pytest.raises((ValueError, TypeError), match=text):
        buffer_of(100, {**ROWS, **own}, **settings)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="previous.* must be one int64"):
        buffer_of(100, {**ROWS, "previous": "int32"})
    with pytest.raises(ValueError, match="a field 'mask'"):
        buffer_of(100, {**ROWS, "mask": "bool"})
    with buffer_of(100, ROWS, max_batch=32) as buffer:
        with pytest.raises(gpureplay.TooFew):
            buffer.sample_sequences(2, 2)
        extend(buffer, blocks(50, ()))
        with pytest.raises(TypeError, match="unknown .'previous'"):
            buffer.extend(**blocks(5, ()), previous=np.zeros(5, np.int64))
        for sizes, text in (((5, 7), "^batch_size is 5 and length 7; .* at most max_batch = 32"),
                            ((0, 7), "^batch_size is 0 and length 7"), ((7, 0), "^batch_size is 7 and length 0"),
                            ((2**40, 2**40), "^batch_size is 1099511627776")):
            with pytest.raises(gpureplay.InvalidArgument, match=text):
                buffer.sample_sequences(*sizes)
        for fewest in (0, 8):
            with pytest.raises(gpureplay.InvalidArgument, match=f"^min_length is {fewest}; it must be 1 to 7"):
                buffer.sample_sequences(4, 7, min_length=fewest)
        with pytest.raises(ValueError, match="last_ids has 1 ids and batch_size is 2"):
            buffer.sample_sequences(2, 2, last_ids=[3])
        extend(buffer, blocks(100, ()))
        with pytest.raises(gpureplay.Evicted):
            buffer.sample_sequences(1, 2, last_ids=[3])
    with buffer_of(100, ROWS, sequences=False) as buffer:
        extend(buffer, blocks(50, ()))
        with pytest.raises(gpureplay.InvalidArgument, match="no field \"previous\".*sequences=True"):
            buffer.sample_sequences(2, 2)
