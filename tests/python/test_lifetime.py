# SPDX-License-Identifier: MIT
"""Closing in any order, use after it, garbage in cycles, the interpreter's end, copies and pickles."""

import copy
import gc
import pickle
import threading
import time

import gpureplay
import numpy as np
import pytest
from programs import run
from rows import TRANSITION, block

NETWORK = {"outputs": 3, "trunk": [8], "batch_size": 16}


def make(**settings):
    buffer = gpureplay.ReplayBuffer(500, TRANSITION, device="cpu", **settings)
    rows = block(TRANSITION, 0, 200)
    rows["action"] %= 3
    buffer.extend(**rows)
    return buffer


AFTER_CLOSE = {
    "add": lambda buffer: buffer.add(**block(TRANSITION, 0, 1)),
    "extend": lambda buffer: buffer.extend(**block(TRANSITION, 0, 3)),
    "extend by nothing": lambda buffer: buffer.extend(**block(TRANSITION, 0, 0)),
    "flush": lambda buffer: buffer.flush(),
    "sample": lambda buffer: buffer.sample(16),
    "gather": lambda buffer: buffer.gather([1]),
    "len": len,
    "is_full": lambda buffer: buffer.is_full,
    "can_sample": lambda buffer: buffer.can_sample,
    "stats": lambda buffer: buffer.stats,
    "writer": lambda buffer: buffer.writer(),
    "learner": lambda buffer: gpureplay.DQN(buffer, **NETWORK),
}


@pytest.mark.parametrize("call", AFTER_CLOSE)
def test_a_closed_buffer_says_so(call):
    buffer = make()
    buffer.sample(16)
    buffer.close()
    buffer.close()
    with pytest.raises(gpureplay.Closed, match="this (buffer|writer) was closed.*make a new one"):
        AFTER_CLOSE[call](buffer)
    assert buffer.closed and repr(buffer) == "<gpureplay.ReplayBuffer, closed>"


def test_writers_and_learners_close_with_their_buffer():
    buffer = make()
    writer, learner, batch = buffer.writer(2), gpureplay.DQN(buffer, **NETWORK), buffer.sample(16)
    weights, ids = learner.weights, batch.id.copy()
    learner.train(3)
    buffer.close()
    for call in (lambda: writer.flush(), lambda: learner.train(1), lambda: learner.act(np.zeros(3, np.float32)),
                 lambda: learner.stats, lambda: learner.sync(), lambda: learner.weights, lambda: learner.epsilon(3),
                 lambda: weights["trunk.0.weight"], lambda: weights.update({"trunk.0.bias": np.zeros(8)})):
        with pytest.raises(gpureplay.Closed, match="this (writer|learner) was closed with its buffer; make a new one"):
            call()
    assert len(batch) == 16 and (batch.id == ids).all() and batch.array("obs").numpy().shape == (16, 3)
    writer.close()
    learner.close()


def test_a_closed_writer_learner_or_device_says_so():
    device = gpureplay.Device("cpu")
    buffer = gpureplay.ReplayBuffer(500, TRANSITION, device=device)
    writer = buffer.writer()
    writer.close()
    with pytest.raises(gpureplay.Closed, match="this writer was closed"):
        writer.add(**block(TRANSITION, 0, 1))
    buffer.extend(**block(TRANSITION, 0, 20))
    learner = gpureplay.DQN(buffer, **NETWORK)
    learner.close()
    with pytest.raises(gpureplay.Closed, match="this learner was closed"):
        learner.q_values(np.zeros((1, 3), np.float32))
    device.close()
    assert len(buffer.sample(4)) == 4
    for call in (device.sync, lambda: device.info, lambda: gpureplay.ReplayBuffer(10, TRANSITION, device=device)):
        with pytest.raises(gpureplay.Closed, match="this device was closed"):
            call()


def test_a_buffer_in_a_cycle_is_collected_whole():
    """The collector runs finalizers in whatever order: the buffer's may come before its writers' and learners'."""
    for _ in range(5):
        buffer = make()
        buffer.me = buffer
        buffer.children = [buffer.writer(3), gpureplay.DQN(buffer, **NETWORK), buffer.sample(16)]
        buffer.children[1].train(5)
        del buffer
        gc.collect()


def test_every_order_of_letting_go_is_fine():
    for order in range(6):
        buffer = make()
        held = [buffer, buffer.writer(), gpureplay.DQN(buffer, **NETWORK)]
        del buffer
        for at in (order % 3, order // 3, 0):
            del held[at % len(held)]
            gc.collect()


def test_closing_waits_for_calls_of_other_threads():
    for _ in range(10):
        buffer, stop, wrong = make(autoreset="disabled"), threading.Event(), []
        writer, learner = buffer.writer(1, "disabled"), gpureplay.DQN(buffer, **NETWORK)

        def use(call):
            try:
                while not stop.is_set():
                    call()
            except gpureplay.Closed:
                return
            except Exception as error:  # whatever else it is, the test wants to see it
                wrong.append(error)

        calls = [lambda: buffer.sample(16), lambda: buffer.sample(8).obs.sum(), lambda: learner.train(2),
                 lambda: learner.act(np.zeros((5, 3), np.float32)), lambda: writer.extend(**block(TRANSITION, 0, 50)),
                 lambda: buffer.add(**block(TRANSITION, 0, 1)), lambda: buffer.stats,
                 lambda: learner.weights["trunk.0.bias"]]
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        buffer.close()
        stop.set()
        for thread in threads:
            thread.join(600)
            assert not thread.is_alive()
        assert not wrong, wrong


def test_nothing_of_the_library_is_copied_or_pickled():
    buffer = make()
    batch, learner = buffer.sample(4), gpureplay.DQN(buffer, **NETWORK)
    for thing in (buffer, batch, batch.array("obs"), learner, buffer.device, buffer.writer()):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="gpureplay .*cannot be copied or pickled"):
                attempt(thing)
    assert (pickle.loads(pickle.dumps(batch.obs)) == batch.obs).all()
    assert pickle.loads(pickle.dumps(buffer.stats)) == buffer.stats
    buffer.close()


def test_a_half_made_buffer_gives_everything_back():
    device = gpureplay.Device("cpu")
    before = device.info.memory_used
    for settings in ({"num_envs": 0}, {"autoreset": "never"}, {"gamma": 7}):
        with pytest.raises(ValueError):
            gpureplay.ReplayBuffer(100_000, TRANSITION, device=device, **settings)
        gc.collect()
        assert device.info.memory_used == before
    buffer = gpureplay.ReplayBuffer(100_000, TRANSITION, device=device)
    assert device.info.memory_used > before
    with pytest.raises(ValueError):
        gpureplay.DQN(buffer, outputs=3, batch_size=-4)
    buffer.close()
    assert device.info.memory_used == before


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_interpreter_may_end_with_everything_open(executor):
    out, err = run(f"""
        device = gpureplay.Device("cpu", executor={executor!r})
        buffer = make(device=device)
        buffer.me = buffer
        batch, writer = buffer.sample(8), buffer.writer()
        capsule, array = batch.array("x").__dlpack__(), np.from_dlpack(batch.array("x"))
        gpureplay._dlpack.kept = capsule, batch, buffer
        np.kept = batch.array("x").__dlpack__(), array, buffer.sample(4)
        import builtins  # which go last, when the package's modules are empty
        builtins.kept = make(device=device), batch.array("x").__dlpack__(), make().sample(3)
        def loop():
            while True:
                buffer.sample(8)
        threading.Thread(target=loop, daemon=True).start()
        def function(): return buffer, batch, function
        print("end")
    """)
    assert (out, err) == ("end\n", "")
