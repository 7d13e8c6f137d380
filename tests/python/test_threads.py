# SPDX-License-Identifier: MIT
"""Many threads on one buffer, what the interpreter lock does meanwhile, signals in long calls, and progress."""

import os
import signal
import sys
import threading
import time

import gpureplay
import numpy as np
import pytest
from support import needs_files

FIELDS = {"obs": ((6,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((6,), "float32"),
          "terminated": ((), "bool"), "writer": ((), "int64"), "serial": ((), "int64"), "sum": ((), "int64")}
ROWS, WRITERS, BLOCK = 6000, 4, 50


def rows(writer, first, count):
    """Rows that show if one is torn: obs and next_obs follow from the serial, and sum from all."""
    serial = np.arange(first, first + count)
    obs = (serial[:, None] * 3 + np.arange(6) + writer).astype(np.float32) / 1024
    return {"obs": obs, "action": serial % 3, "reward": obs[:, 0], "next_obs": -obs, "terminated": serial % 7 == 0,
            "writer": np.full(count, writer), "serial": serial, "sum": serial * 8 + writer}


def is_whole(batch):
    wanted = [rows(int(writer), int(serial), 1) for writer, serial in zip(batch.writer, batch.serial)]
    return all((batch[name] == np.concatenate([row[name] for row in wanted])).all() for name in FIELDS)


class Work:
    """Threads whose errors `join` raises."""

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


def update(buffer, done):
    while not done.is_set():
        batch = buffer.sample(16)
        buffer.update_priorities(batch.indices, np.abs(batch.reward))


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_writers_samplers_and_a_learner_share_a_buffer(executor, prioritized):
    device = gpureplay.Device("cpu", executor=executor)
    with gpureplay.ReplayBuffer(4000, FIELDS, device=device, block_rows=64, autoreset="disabled",
                                prioritized=prioritized) as buffer:
        buffer.extend(**rows(9, 0, 100))
        learner = gpureplay.DQN(buffer, num_actions=3, trunk=[16], batch_size=16)
        writing, others, done = Work(), Work(), threading.Event()
        for size in (16, 48):
            others.start(draw, buffer, size, done)
        others.start(train, learner, done)
        if prioritized:
            others.start(update, buffer, done)
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
        assert not prioritized or (buffer.check_priorities() == 0 and buffer.priority_stats.updates > 0)


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
    only when that releases it, because the switch interval is long."""
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
        learner = gpureplay.DQN(buffer, num_actions=3, trunk=[64, 64], batch_size=64)
        if executor == "inline":  # the first call does the work, else the second waits for it
            calls = [lambda: None, lambda: learner.train(512)]
        else:
            calls = [lambda: learner.train(512), learner.sync]
        assert any(turns_during(*calls) for _ in range(20))


def test_other_threads_go_on_while_large_rows_are_added():
    given = np.zeros((30, 1 << 18), np.float32)
    with gpureplay.ReplayBuffer(256, {"x": ((1 << 18,), "float32")}, device="cpu", block_rows=128) as buffer:
        assert any(turns_during(lambda: None, lambda: buffer.extend(x=given)) for _ in range(100))


# Ctrl-C and other signals during long calls, and the progress of training.


STEP_FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
LARGE = 64 << 20  # bytes of a buffer whose file takes some time

@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(1000, STEP_FIELDS, device="cpu") as made:
        obs = np.zeros((500, 4), np.float32)
        made.extend(obs=obs, action=np.zeros(500, np.int32), reward=obs[:, 0], next_obs=obs,
                    terminated=np.ones(500, bool))
        yield made


@pytest.fixture
def large():
    with gpureplay.ReplayBuffer(LARGE // 1024, {"x": ((1024,), "uint8"), "n": "int64"}, device="cpu",
                                max_batch=16) as made:
        made.extend(x=np.zeros((LARGE // 1024, 1024), np.uint8), n=np.arange(LARGE // 1024))
        yield made


class SignalWhen:
    """Sends this process a signal as soon as `happened` returns True."""

    def __init__(self, happened, number=signal.SIGINT):
        self._happened, self._number, self._over = happened, number, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._over.is_set():
            if self._happened():
                os.kill(os.getpid(), self._number)
                return
            time.sleep(0.0002)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def test_ctrl_c_ends_training_between_launches(buffer):
    agent = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8)
    steps = 2_000_000
    with pytest.raises(KeyboardInterrupt), SignalWhen(lambda: agent.stats.steps_enqueued > 0):
        agent.train(steps)
    done = agent.stats.steps_enqueued
    assert 0 < done < steps and done % 256 == 0
    agent.train(3)
    agent.sync()
    assert agent.stats.steps == done + 3


def test_training_in_launches_trains_as_in_one_call(buffer):
    losses = []
    for way in ([600], [256, 256, 88]):
        agent = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8, seed=5)
        for steps in way:
            agent.train(steps)
        agent.sync()
        losses.append((agent.stats.loss, agent.stats.steps))
    assert losses[0] == losses[1]


def test_training_reports_its_progress(buffer):
    agent, told = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8), []
    agent.train(600, progress=lambda done, in_all: told.append((done, in_all)))
    assert told == [(256, 600), (512, 600), (600, 600)]
    told.clear()
    agent.train(0, lambda done, in_all: told.append((done, in_all)))
    assert told == [(0, 0)]
    with pytest.raises(gpureplay.Interrupted, match="after 512 of 1000 train steps"):
        agent.train(1000, lambda done, _: done < 512)
    assert agent.stats.steps_enqueued == 600 + 512
    with pytest.raises(ZeroDivisionError):
        agent.train(1000, lambda done, _: 1 // 0)
    assert agent.stats.steps_enqueued == 600 + 512 + 256
    with pytest.raises(gpureplay.InvalidArgument, match="steps is -1; it must be 0 or more"):
        agent.train(-1, lambda *_: told.append("never"))
    assert told == [(0, 0)]


def interrupted_midway(attempt, was_midway):
    """Whether one of many attempts, all of which raise, was ended before it was through."""
    for number in range(30):
        with pytest.raises(KeyboardInterrupt):
            attempt(number)
        if was_midway(number):
            return True
    return False


@needs_files
def test_ctrl_c_ends_a_save_at_once(large, tmp_path):
    def attempt(number):
        part = tmp_path / f"{number}.part"
        with SignalWhen(part.exists):
            large.save(tmp_path / str(number))

    before = signal.getsignal(signal.SIGINT)
    assert interrupted_midway(attempt, lambda number: not (tmp_path / str(number)).exists())
    assert signal.getsignal(signal.SIGINT) is before
    large.save(tmp_path / "whole")
    assert gpureplay.file_info(tmp_path / "whole").rows == len(large)


@needs_files
def test_ctrl_c_ends_a_load_before_anything_has_changed(large, tmp_path):
    large.save(tmp_path / "file")
    held = []

    def attempt(_):
        with gpureplay.ReplayBuffer(large.capacity, {"x": ((1024,), "uint8"), "n": "int64"}, device="cpu",
                                    max_batch=16) as other:
            other.extend(x=np.ones((20, 1024), np.uint8), n=np.arange(20))
            begun, call = threading.Event(), other._call

            def tell(function, *arguments):
                if function is gpureplay.lib.gpur_replay_load:
                    begun.set()
                return call(function, *arguments)

            other._call = tell
            try:
                with SignalWhen(begun.is_set):
                    other.load(tmp_path / "file")
                    time.sleep(1)  # it was faster than the signal
            finally:
                held.append(len(other))
                batch = other.sample(16)
                assert batch.n.tolist() == batch.id.tolist()

    assert interrupted_midway(attempt, lambda _: held[-1] == 20)
    assert set(held) <= {20, len(large)}


@needs_files
@pytest.mark.parametrize("progress", [None, lambda *_: None], ids=["silent", "told"])
def test_what_a_handler_raises_is_raised_and_one_that_raises_nothing_ends_nothing(large, tmp_path, progress):
    class Alarm(Exception):
        pass

    heard = []

    def raises(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        path = tmp_path / "raises"
        with pytest.raises(Alarm), SignalWhen(path.with_name("raises.part").exists, signal.SIGUSR1):
            large.save(path, progress)
        signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
        path = tmp_path / "silent"
        with SignalWhen(path.with_name("silent.part").exists, signal.SIGUSR1):
            large.save(path, progress)
        assert path.exists()
        large.save(path, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
        assert heard and set(heard) == {signal.SIGUSR1}
    finally:
        signal.signal(signal.SIGUSR1, before)


@needs_files
def test_another_thread_saves_without_signals(large, tmp_path):
    raised = []

    def save():
        try:
            large.save(tmp_path / "file")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=save)
    thread.start()
    thread.join()
    assert not raised and (tmp_path / "file").exists()
