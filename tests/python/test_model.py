# SPDX-License-Identifier: MIT
"""The buffer against a list of rows, under random schedules of every call."""

import gpureplay
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import DTYPES, block, same

SHAPES = st.lists(st.integers(1, 5), max_size=3).map(tuple)
SCHEMAS = st.lists(st.tuples(SHAPES, st.sampled_from(DTYPES)), min_size=1, max_size=5).map(
    lambda fields: {f"field{number}": field for number, field in enumerate(fields)})
CALLS = st.lists(st.one_of(
    st.tuples(st.just("add"), st.integers(0, 2)),
    st.tuples(st.just("extend"), st.integers(0, 2), st.integers(0, 40)),
    st.tuples(st.just("flush"), st.integers(0, 2)),
    st.tuples(st.just("sample"), st.integers(1, 16)),
    st.tuples(st.just("gather"), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=16)),
), max_size=40)
ENVS = (1, 3, 1)  # of the writers


class Model:
    """Every row ever added has an id, counting from 0. `seen`: rows that a draw must see."""

    def __init__(self, fields, capacity, update_size, flush, executor):
        self.fields, self.capacity, self.auto, self.added, self.seen = fields, capacity, flush == "auto", 0, 0
        self.update_size = update_size
        self.buffer = gpureplay.ReplayBuffer(
            capacity, fields, device=gpureplay.Device("cpu", executor=executor), num_envs=ENVS[0], max_batch=16,
            update_size=update_size, flush=flush, seed=3)
        self.writers = [self.buffer, *(self.buffer.writer(envs) for envs in ENVS[1:])]

    def add(self, writer):
        assert self.writers[writer].add(**self.rows(ENVS[writer])) == ENVS[writer]

    def extend(self, writer, count):
        assert self.writers[writer].extend(**self.rows(count)) == count

    def rows(self, count):
        self.added += count
        self.seen = self.added if self.auto else self.seen
        return block(self.fields, self.added - count, count)

    def flush(self, writer):
        self.writers[writer].flush()
        self.seen = self.added

    def sample(self, count):
        if len(self.buffer):
            self.check(self.buffer.sample(count), count)
        else:
            with pytest.raises(gpureplay.TooFew, match="empty"):
                self.buffer.sample(count)

    def gather(self, places):
        stats = self.buffer.stats
        if stats.visible:
            ids = [stats.first_id + int(place * stats.visible) for place in places]
            batch = self.buffer.gather(ids)
            assert batch.id.tolist() == ids
            self.check(batch, len(ids))

    def check(self, batch, count):
        assert len(batch) == count
        assert batch.id.min() >= self.seen - self.capacity and batch.id.max() < self.added
        self.seen = max(self.seen, int(batch.id.max()) + 1)
        for at, row in enumerate(batch.id):
            wanted = block(self.fields, int(row), 1)
            for name in self.fields:
                assert same(batch[name][at:at + 1], wanted[name]), (name, row)
        assert (batch.weight == 1).all() and (batch.discount == np.float32(0.99)).all()

    def invariant(self):
        """Read-your-writes; and what is not flushed is less than a block, or waits for the next draw."""
        stats = self.buffer.stats
        assert (stats.appended, len(self.buffer)) == (self.added, stats.visible)
        end = stats.first_id + stats.visible
        assert self.seen <= end <= self.added or stats.visible == 0 == self.seen
        if self.auto:
            assert len(self.buffer) == min(self.added, self.capacity) and end == self.added
        assert self.buffer.is_full == (len(self.buffer) == self.capacity)


@pytest.mark.parametrize("flush", ["auto", "manual"])
@pytest.mark.parametrize("executor", ["inline", "thread"])
@settings(max_examples=40)
@given(SCHEMAS, st.integers(32, 100), st.integers(1, 16), CALLS)
def test_every_schedule_agrees_with_a_list_of_rows(executor, flush, fields, capacity, update_size, calls):
    model = Model(fields, capacity, update_size, flush, executor)
    with model.buffer:
        for call, *arguments in calls:
            getattr(model, call)(*arguments)
            model.invariant()


def test_the_first_single_step_is_drawn():
    with gpureplay.ReplayBuffer(100, {"x": "int64"}, device="cpu") as buffer:
        for row in range(250):
            buffer.add(x=row)
            assert len(buffer) == min(row + 1, 100)
            assert buffer.gather([row]).x.tolist() == [row]
            assert buffer.sample(32).x.max() <= row
