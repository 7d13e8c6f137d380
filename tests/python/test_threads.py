# SPDX-License-Identifier: MIT
"""Many threads on one buffer, and what the interpreter lock does meanwhile."""

import sys
import threading
import time

import gpureplay
import numpy as np
import pytest

FIELDS = {"obs": ((6,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((6,), "float32"),
          "terminated": ((), "bool"), "writer": ((), "int64"), "serial": ((), "int64"), "sum": ((), "int64")}
ROWS, WRITERS, BLOCK = 6000, 4, 50


def rows(writer, first, count):
    """Rows that hold what tells a torn one: obs and next_obs follow from the serial, and sum from all."""
    serial = np.arange(first, first + count)
    obs = (serial[:, None] * 3 + np.arange(6) + writer).astype(np.float32) / 1024
    return {"obs": obs, "action": serial % 3, "reward": obs[:, 0], "next_obs": -obs, "terminated": serial % 7 == 0,
            "writer": np.full(count, writer), "serial": serial, "sum": serial * 8 + writer}


def is_whole(batch):
    wanted = [rows(int(writer), int(serial), 1) for writer, serial in zip(batch.writer, batch.serial)]
    return all((batch[name] == np.concatenate([row[name] for row in wanted])).all() for name in FIELDS)


class Work:
    """Threads whose errors the test sees."""

    def __init__(self):
        self.threads, self.errors = [], []

    def start(self, function, *arguments):
        def guarded():
            try:
                function(*arguments)
            except BaseException as error:
                self.errors.append(error)

        self.threads.append(threading.Thread(target=guarded))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(600)
            assert not thread.is_alive()
        assert not self.errors, self.errors


def write(buffer, number):
    writer = buffer.writer(num_envs=1, autoreset="disabled") if number else buffer
    for first in range(0, ROWS, BLOCK):
        if number % 2:
            for step in range(first, first + BLOCK):
                writer.add(**rows(number, step, 1))
        else:
            writer.extend(**rows(number, first, BLOCK))


def draw(buffer, size, done):
    while not done.is_set():
        held = [buffer.sample(size) for _ in range(3)]
        assert all(map(is_whole, held))


def train(learner, done):
    while not done.is_set():
        learner.train(5)
        learner.act(np.zeros((2, 6), np.float32), 0.5)
        assert np.isfinite(learner.stats.loss)


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_writers_samplers_and_a_learner_share_a_buffer(executor):
    device = gpureplay.Device("cpu", executor=executor)
    with gpureplay.ReplayBuffer(4000, FIELDS, device=device, update_size=64, autoreset="disabled") as buffer:
        buffer.extend(**rows(9, 0, 100))
        learner = gpureplay.DQN(buffer, outputs=3, trunk=[16], batch_size=16)
        writing, others, done = Work(), Work(), threading.Event()
        for size in (16, 48):
            others.start(draw, buffer, size, done)
        others.start(train, learner, done)
        for number in range(WRITERS):
            writing.start(write, buffer, number)
        try:
            writing.join()
        finally:
            done.set()
        others.join()
        learner.sync()
        assert buffer.stats.appended == WRITERS * ROWS + 100 and len(buffer) == 4000
        last = buffer.gather(np.arange(buffer.stats.first_id, buffer.stats.first_id + 2000))
        assert is_whole(last) and learner.stats.invalid_actions == 0


def test_threads_that_share_one_writer_take_turns():
    with gpureplay.ReplayBuffer(20_000, FIELDS, device="cpu", max_batch=10_000, autoreset="disabled") as buffer:
        work = Work()
        for number in range(4):
            work.start(lambda number: [buffer.add(**rows(number, step, 1)) for step in range(800)], number)
            work.start(lambda number: [buffer.extend(**rows(number, 800 + 4 * step, 4)) for step in range(100)], number)
        work.join()
        every = buffer.gather(range(4 * 1200))
        assert is_whole(every)
        found = sorted(zip(every.writer.tolist(), every.serial.tolist()))
        assert found == [(writer, serial) for writer in range(4) for serial in range(1200)]


def turns_during(prepare, call):
    """How often another thread's loop goes round while this one is in `call`, behind `prepare`. It gets the interpreter
    only when that gives it away, for nobody takes it by force here."""
    turns, over, old = [0], threading.Event(), sys.getswitchinterval()

    def count():
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    sys.setswitchinterval(1000)
    try:
        thread.start()
        prepare()
        begin = turns[0]
        call()
        return turns[0] - begin
    finally:
        over.set()
        sys.setswitchinterval(old)
        thread.join()


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_other_threads_go_on_during_a_long_call(executor):
    with gpureplay.ReplayBuffer(4000, FIELDS, device=gpureplay.Device("cpu", executor=executor)) as buffer:
        buffer.extend(**rows(0, 0, 1000))
        learner = gpureplay.DQN(buffer, outputs=3, trunk=[64, 64], batch_size=64)
        if executor == "inline":  # the first call does the work, else the second waits for it
            calls = [lambda: None, lambda: learner.train(512)]
        else:
            calls = [lambda: learner.train(512), learner.sync]
        assert any(turns_during(*calls) for _ in range(20))


@pytest.mark.parametrize("call", ["flush", "reset"])
def test_a_flush_waits_for_its_turn(call):
    """A writer of the library's is one thread's at a time."""
    with gpureplay.ReplayBuffer(1000, FIELDS, device="cpu") as buffer:
        thread = threading.Thread(target=getattr(buffer, call))
        with buffer._writer._turn:
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()
        thread.join(600)
        assert not thread.is_alive()
