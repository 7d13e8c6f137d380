# SPDX-License-Identifier: MIT
"""Ctrl-C, and other signals, in the midst of long calls; and the progress of training."""

import os
import signal
import threading
import time

import gpureplay
import numpy as np
import pytest

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
LARGE = 64 << 20  # bytes of a buffer whose file takes some time
needs_files = pytest.mark.skipif("files: none" in gpureplay.lib.gpur_build_info().decode(),
                                 reason="the library was built without cJSON or xxHash")


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(1000, FIELDS, device="cpu") as made:
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
    """Sends this process a signal as soon as `happened` says yes."""

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


def test_training_hears_ctrl_c_between_launches(buffer):
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


def test_training_tells_its_progress(buffer):
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
def test_a_save_hears_ctrl_c_at_once(large, tmp_path):
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
def test_a_load_hears_ctrl_c_before_anything_has_changed(large, tmp_path):
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
