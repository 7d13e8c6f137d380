# SPDX-License-Identifier: MIT
"""What a fork does: a clear error in the child, never a hang, and nothing of the parent's is touched."""

import pytest
from programs import run

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
rows = dict(obs=obs, action=[0] * 500, reward=[0.0] * 500, next_obs=obs, terminated=[0] * 500)
buffer.extend(**rows)
writer, learner, batch = buffer.writer(), gpureplay.DQN(buffer, outputs=2, trunk=[64]), buffer.sample(32)
learner.train(300)
calls = [lambda: buffer.sample(32), lambda: buffer.extend(**rows), lambda: len(buffer), lambda: buffer.stats,
         buffer.flush, lambda: writer.extend(**rows), lambda: learner.train(1), learner.sync, lambda: learner.weights,
         device.sync, lambda: buffer.writer(), lambda: gpureplay.DQN(buffer, outputs=2), lambda: make(),
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
    out, err = run(FORK + """
def child():
    buffer = make()
    print(len(buffer), buffer.sample(32).x.sum())
    buffer.close()
fork(child)
print(len(make()))
fork(lambda: make())
""", flags=WARNS_OF_FORKS)
    lines = out.splitlines()
    assert lines[:3] == ["500 128.0", "child 0", "500"]
    assert lines[3].startswith("Closed the process that forked this one had used")
    assert lines[4] == "child 0" and err == ""


def test_what_was_closed_before_the_fork_counts_as_used():
    """Its threads (helpers', BLAS's) are still the parent's."""
    out, _ = run(FORK + """
buffer = make()
buffer.close()
buffer.device.close()
del buffer
gc.collect()
fork(lambda: make())
""", flags=WARNS_OF_FORKS)
    assert out.startswith("Closed the process that forked this one had used gpureplay") and out.endswith("child 0\n")


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
def test_a_child_is_refused_though_a_thread_was_in_the_midst(of, call):
    """That thread is not in the child, and never leaves its turn."""
    out, _ = run(FORK + f"""
buffer = make()
writer = buffer.writer()
inside, leave = threading.Event(), threading.Event()
def hold():
    with {of + "._writer" if of == "buffer" else of}._turn:
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
    """The pool that it would go back to may be locked by a thread that is not there."""
    out, err = run(FORK + """
import ctypes
from gpureplay import _mirror
buffer = make()
address, lib = buffer._handle, gpureplay.lib
def alive():
    got = _mirror.ReplayStats()
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
