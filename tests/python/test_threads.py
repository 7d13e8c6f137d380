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

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
LARGE = 64 << 20  # bytes of a buffer whose file takes some time


def rows(count):
    obs = np.zeros((count, 4), np.float32)
    return {"obs": obs, "action": np.zeros(count, np.int32), "reward": obs[:, 0], "next_obs": obs.copy(),
            "terminated": np.ones(count, bool)}


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(1000, FIELDS, device="cpu") as made:
        made.extend(**rows(500))
        yield made


def test_threads_that_share_one_writer_take_turns():
    """Each row is whole, and there once. (test_batches.py has threads that sample and train.)"""
    fields = {"obs": ((6,), "float32"), "terminated": "bool", "thread": "int64", "serial": "int64"}

    def numbered(thread, first, count):
        serial = np.arange(first, first + count)
        return {"obs": np.repeat(serial[:, None] * 8 + thread, 6, axis=1), "terminated": serial % 7 == 0,
                "thread": np.full(count, thread), "serial": serial}

    with gpureplay.ReplayBuffer(20_000, fields, device="cpu", max_batch=10_000, autoreset="disabled") as buffer:
        def add(thread):
            for step in range(800):
                buffer.add(**numbered(thread, step, 1))

        def extend(thread):
            for step in range(100):
                buffer.extend(**numbered(thread, 800 + 4 * step, 4))

        threads = [threading.Thread(target=call, args=(thread,)) for thread in range(4) for call in (add, extend)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        every = buffer.gather(range(4 * 1200))
        assert (every.obs == (every.serial * 8 + every.thread)[:, None]).all()
        assert (every.terminated == (every.serial % 7 == 0)).all()
        found = sorted(zip(every.thread.tolist(), every.serial.tolist()))
        assert found == [(thread, serial) for thread in range(4) for serial in range(1200)]


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
        buffer.extend(**rows(1000))
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
    for launches in ([600], [256, 256, 88]):
        agent = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8, seed=5)
        for steps in launches:
            agent.train(steps)
        agent.sync()
        losses.append((agent.stats.loss, agent.stats.steps))
    assert losses[0] == losses[1]


def test_training_reports_its_progress(buffer):
    agent, reported = gpureplay.DQN(buffer, 2, trunk=[8], batch_size=8), []
    agent.train(600, progress=lambda done, in_all: reported.append((done, in_all)))
    assert reported == [(256, 600), (512, 600), (600, 600)]
    reported.clear()
    agent.train(0, lambda done, in_all: reported.append((done, in_all)))
    assert reported == [(0, 0)]
    with pytest.raises(gpureplay.Interrupted, match="after 512 of 1000 train steps"):
        agent.train(1000, lambda done, _: done < 512)
    assert agent.stats.steps_enqueued == 600 + 512
    with pytest.raises(ZeroDivisionError):
        agent.train(1000, lambda done, _: 1 // 0)
    assert agent.stats.steps_enqueued == 600 + 512 + 256
    with pytest.raises(gpureplay.InvalidArgument, match="steps is -1; it must be 0 or more"):
        agent.train(-1, lambda *_: reported.append("never"))
    assert reported == [(0, 0)]


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

            def note_begin(function, *arguments):
                if function is gpureplay.lib.gpur_replay_load:
                    begun.set()
                return call(function, *arguments)

            other._call = note_begin
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
@pytest.mark.parametrize("progress", [None, lambda *_: None], ids=["silent", "reported"])
def test_what_a_handler_raises_is_raised_and_one_that_raises_nothing_ends_nothing(large, tmp_path, progress):
    class Alarm(Exception):
        pass

    received_signals = []

    def raises(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        path = tmp_path / "raises"
        with pytest.raises(Alarm), SignalWhen(path.with_name("raises.part").exists, signal.SIGUSR1):
            large.save(path, progress)
        signal.signal(signal.SIGUSR1, lambda number, frame: received_signals.append(number))
        path = tmp_path / "silent"
        with SignalWhen(path.with_name("silent.part").exists, signal.SIGUSR1):
            large.save(path, progress)
        assert path.exists()
        large.save(path, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
        assert received_signals and set(received_signals) == {signal.SIGUSR1}
    finally:
        signal.signal(signal.SIGUSR1, before)


@needs_files
def test_another_thread_saves_without_signals(large, tmp_path):
    thread = threading.Thread(target=large.save, args=(tmp_path / "file",))
    thread.start()
    thread.join()
    assert (tmp_path / "file").exists()
