# SPDX-License-Identifier: MIT
"""Closing in any order, use after it, garbage in cycles, the interpreter's end, copies, pickles and forks."""

import copy
import gc
import pickle
import threading
import time

import gpureplay
import numpy as np
import pytest
from support import TRANSITION, block, run

NETWORK = {"num_actions": 3, "trunk": [8], "batch_size": 16}


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
    "reset": lambda buffer: buffer.reset(),
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
    with pytest.raises(gpureplay.Closed, match="this buffer was closed; make a new one"):
        AFTER_CLOSE[call](buffer)
    assert buffer.closed and repr(buffer) == "<gpureplay.ReplayBuffer, closed>"


def test_writers_and_learners_close_with_their_buffer():
    buffer = make()
    writer, learner, batch = buffer.writer(2), gpureplay.DQN(buffer, **NETWORK), buffer.sample(16)
    weights, ids = learner.weights, batch.id.copy()
    learner.train(3)
    buffer.close()
    for call in (lambda: writer.flush(), lambda: writer.reset(), lambda: writer.add(**block(TRANSITION, 0, 2)),
                 lambda: writer.extend(**block(TRANSITION, 0, 3)), lambda: learner.train(1),
                 lambda: learner.act(np.zeros(3, np.float32)), lambda: learner.stats, lambda: learner.sync(),
                 lambda: learner.weights, lambda: learner.epsilon(3),
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


def test_objects_may_be_dropped_in_any_order():
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
                 lambda: learner.act(np.zeros((5, 3), np.float32)),
                 lambda: writer.extend(**{**block(TRANSITION, 0, 50), "action": np.arange(50) % 3}),
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
        gpureplay.DQN(buffer, num_actions=3, batch_size=-4)
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
        gpureplay._dlpack.global_variable = capsule, batch, buffer
        np.global_variable = batch.array("x").__dlpack__(), array, buffer.sample(4)
        import builtins  # which go last, when the package's modules are empty
        builtins.global_variable = make(device=device), batch.array("x").__dlpack__(), make().sample(3)
        def loop():
            while True:
                buffer.sample(8)
        threading.Thread(target=loop, daemon=True).start()
        def function(): return buffer, batch, function
        print("end")
    """)
    assert (out, err) == ("end\n", "")


# Forks: the child gets a clear error and never hangs, and the parent is not affected.


WARNS_OF_FORKS = ("-W", "ignore::DeprecationWarning")  # Python 3.12 and later, where there are threads
FORK = """
def fork(child):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as error:
            print(type(error).__name__, error)
        sys.stdout.flush()
        gc.collect()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print("child", status)
def refused(call):
    try:
        call()
    except gpureplay.Closed as error:
        return "process that forked this one" in str(error)
"""


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_a_child_is_refused_whatever_it_asks(executor):
    out, err = run(FORK + f"""
device = gpureplay.Device("cpu", executor={executor!r})
buffer = gpureplay.ReplayBuffer(1000, {{"obs": ((4,), "float32"), "action": "int32", "reward": "float32",
                                       "next_obs": ((4,), "float32"), "terminated": "bool"}}, device=device)
obs = np.ones((500, 4))
rows = dict(obs=obs, action=[0] * 500, reward=[0.0] * 500, next_obs=obs.copy(), terminated=[0] * 500)
buffer.extend(**rows)
writer, learner, batch = buffer.writer(), gpureplay.DQN(buffer, num_actions=2, trunk=[64]), buffer.sample(32)
learner.train(300)
calls = [lambda: buffer.sample(32), lambda: buffer.extend(**rows), lambda: len(buffer), lambda: buffer.stats,
         buffer.flush, lambda: writer.extend(**rows), lambda: learner.train(1), learner.sync, lambda: learner.weights,
         device.sync, lambda: buffer.writer(), lambda: gpureplay.DQN(buffer, num_actions=2), lambda: make(),
         lambda: gpureplay.Device("cpu"), batch.wait, lambda: batch.array("obs").numpy(),
         lambda: batch.array("obs").__dlpack__()]
def child():
    print([at for at, call in enumerate(calls) if not refused(call)], buffer.closed, len(batch), batch.obs.sum())
    buffer.close(), learner.close(), writer.close(), device.close()
fork(child)
learner.train(10)
learner.sync()
print(len(buffer), learner.stats.steps, batch.obs.sum(), len(buffer.sample(32)))
""", flags=WARNS_OF_FORKS)
    assert (out, err) == ("[] True 32 128.0\nchild 0\n500 310 128.0 32\n", "")


def test_a_child_may_begin_where_the_parent_did_not():
    """What the parent closed before the fork counts: its threads (helpers, BLAS) still run in the parent."""
    out, err = run(FORK + """
def child():
    buffer = make()
    print(len(buffer), buffer.sample(32).x.sum())
    buffer.close()
fork(child)
buffer = make()
print(len(buffer))
buffer.close()
buffer.device.close()
del buffer
gc.collect()
fork(lambda: make())
""", flags=WARNS_OF_FORKS)
    lines = out.splitlines()
    assert lines[:3] == ["500 128.0", "child 0", "500"]
    assert lines[3].startswith("Closed the process that forked this one had used gpureplay")
    assert lines[4] == "child 0" and err == ""


def test_a_fork_during_calls_of_other_threads_does_not_hang():
    out, err = run(FORK + """
buffer, stop = make(), threading.Event()
def work(call):
    while not stop.is_set():
        call()
calls = [lambda: buffer.sample(64), lambda: buffer.extend(x=np.ones((100, 4))), lambda: buffer.add(x=np.ones(4))]
threads = [threading.Thread(target=work, args=(call,)) for call in calls]
for thread in threads: thread.start()
for _ in range(20):
    def child():
        assert refused(lambda: buffer.sample(1)) and refused(make)
        buffer.close()
    fork(child)
stop.set()
for thread in threads: thread.join()
""", flags=WARNS_OF_FORKS)
    assert (out, err) == ("child 0\n" * 20, "")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_start_afresh_work(tmp_path, method):
    script = tmp_path / "main.py"
    script.write_text(f"""
import multiprocessing, gpureplay
def child(rows):
    buffer = gpureplay.ReplayBuffer(100, {{"x": "int64"}}, device="cpu")
    buffer.extend(x=list(range(rows)))
    return int(buffer.sample(32).x.max() < rows) + len(buffer)
if __name__ == "__main__":
    buffer = gpureplay.ReplayBuffer(100, {{"x": "int64"}}, device="cpu")
    buffer.extend(x=[1, 2])
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(child, [10, 20, 30]), len(buffer.sample(2)))
""", encoding="utf-8")
    start = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {str(script)!r}]))"
    assert run(start, preamble="") == ("[11, 21, 31] 2\n", "")


@pytest.mark.parametrize("call", ["add(x=np.ones(4, np.float32))", "extend(x=np.ones((3, 4)))", "flush()", "reset()"])
@pytest.mark.parametrize("of", ["buffer", "writer"])
def test_a_child_is_refused_while_a_thread_of_the_parent_has_the_lock(of, call):
    """That thread does not exist in the child, so it never releases the lock."""
    out, _ = run(FORK + f"""
buffer = make()
writer = buffer.writer()
inside, leave = threading.Event(), threading.Event()
def hold():
    with {of + "._writer" if of == "buffer" else of}._lock:
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
fork(lambda: print(refused(lambda: {of}.{call})))
leave.set()
thread.join()
{of}.{call}
""", flags=WARNS_OF_FORKS)
    assert out == "True\nchild 0\n"


def test_an_array_that_a_child_drops_touches_nothing_of_the_parents():
    """The pool that it would return to may be locked by a thread that does not exist in the child."""
    out, err = run(FORK + """
import ctypes
from gpureplay import _c_api
buffer = make()
address, lib = buffer._handle, gpureplay.lib
def alive():
    got = _c_api.ReplayStats()
    assert lib.gpur_replay_get_stats(address, ctypes.addressof(got)) == 0
    return got.batches_alive
for version in (None, (1, 0)):
    array = buffer.gather([1, 2]).array("x")
    taken, capsule = np.from_dlpack(array), array.__dlpack__(max_version=version)
    del array
    def child():
        global taken, capsule
        before = alive()
        del taken, capsule
        gc.collect()
        print(alive() - before)
    fork(child)
    before = alive()
    del taken, capsule
    print(alive() - before)
""", flags=WARNS_OF_FORKS)
    assert (out, err) == ("0\nchild 0\n-1\n" * 2, "")
