# SPDX-License-Identifier: MIT
"""`add` and `extend`, where the extension tries them first: to whoever looks they are the package's own methods, and
they keep out while somebody else is in the midst of a writer."""

import gc
import inspect
import threading
import weakref

import gpureplay
import numpy as np
import pytest
from gpureplay._accelerator import fast

FIELDS = {"x": ((2,), "float32"), "n": ((), "int32")}
WAYS = [(gpureplay.ReplayBuffer, "add"), (gpureplay.ReplayBuffer, "extend"), (gpureplay.Writer, "add"),
        (gpureplay.Writer, "extend")]
needs_fast = pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")


def rows(first, count=1):
    n = np.arange(first, first + count, dtype=np.int32)
    return {"x": np.stack([n, -n], axis=1).astype(np.float32), "n": n}


def make(**options):
    return gpureplay.ReplayBuffer(64, FIELDS, device="cpu", **options)


def held(buffer):
    return buffer.gather(range(len(buffer))).n.tolist()


@pytest.mark.parametrize("kind, name", WAYS)
def test_it_tells_of_itself_what_a_method_does(kind, name):
    function = getattr(kind, name)
    assert function.__name__ == name and function.__qualname__ == f"{kind.__name__}.{name}"
    assert function.__doc__ and inspect.isroutine(function)
    wanted = ["self", "info", "final_obs", "values"] if name == "add" else ["self", "stream", "values"]
    assert list(inspect.signature(function).parameters) == wanted
    with make() as buffer:
        one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
        method = getattr(one, name)
        assert method.__self__ is one and method.__doc__ == function.__doc__
        assert list(inspect.signature(method).parameters) == wanted[1:]
        assert method == getattr(one, name) and hash(method) == hash(getattr(one, name))
        assert method != getattr(one, "extend" if name == "add" else "add") and method != 1
        assert repr(method).startswith(f"<bound method {kind.__name__}.{name} of <gpureplay.")


@pytest.mark.parametrize("kind, name", WAYS)
def test_every_way_to_call_it_appends(kind, name):
    with make() as buffer:
        one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
        method, given = getattr(one, name), [rows(at) for at in range(7)]
        assert getattr(one, name)(**given[0]) == 1
        assert getattr(kind, name)(one, x=given[1]["x"], n=given[1]["n"]) == 1
        assert getattr(kind, name)(one, n=given[2]["n"], x=given[2]["x"]) == 1
        assert getattr(one, name)(**{"".join(["", key]): given[3][key] for key in ("n", "x")}) == 1
        assert getattr(kind, name)(one, **given[4]) == 1
        assert getattr(super(kind, one), name, method)(**given[5]) == 1
        assert method(**given[6]) == 1
        assert held(buffer) == list(range(7))


@pytest.mark.parametrize("kind, name", WAYS)
def test_wrong_calls_are_told_as_pythons(kind, name):
    with make() as buffer:
        one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
        with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
            getattr(one, name)(1)
        with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
            getattr(one, name)(1, **rows(0))
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            getattr(kind, name)()
        with pytest.raises(TypeError, match="missing .'n', 'x'., unknown"):
            getattr(one, name)()
        assert len(buffer) == 0


def test_a_subclass_may_do_otherwise():
    class Doubling(gpureplay.ReplayBuffer):
        def add(self, **values):
            return super().add(**values) + super().add(**values)

    with Doubling(64, FIELDS, device="cpu") as buffer:
        assert buffer.add(**rows(3)) == 2 and held(buffer) == [3, 3]


def test_a_kept_method_keeps_its_object_and_no_longer():
    buffer = make()
    alive, method = weakref.ref(buffer), buffer.add
    del buffer
    assert method(**rows(0)) == 1
    method.__self__.again = method  # a circle
    del method
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["add", "extend"])
def test_weak_references_to_it_are_as_to_any_method(name):
    with make() as buffer:
        method, gone = getattr(buffer, name), []
        weak = weakref.ref(method, gone.append)
        one = weak()
        assert one is method
        del method, one
        assert weak() is None and gone == [weak]
        lasting = weakref.WeakMethod(getattr(buffer, name))
        one, count = lasting(), lasting()(**rows(0))
        assert count == 1 and one == getattr(buffer, name)
        del one
    del buffer
    gc.collect()
    assert lasting() is None


@pytest.mark.parametrize("name", ["add", "extend"])
def test_a_closed_one_says_so(name):
    buffer = make()
    method = getattr(buffer, name)
    buffer.close()
    for call in (method, getattr(buffer, name)):
        with pytest.raises(gpureplay.Closed, match="make a new one"):
            call(**rows(0))


@pytest.mark.parametrize("name", ["add", "extend"])
def test_who_is_inside_is_not_come_between(name):
    """A thread that has the writer's turn finishes first; its own calls go on."""
    with make() as buffer:
        inside, may_go = threading.Event(), threading.Event()

        def stay():
            with buffer._writer._turn, buffer._writer._turn:
                pass
            with buffer._writer._turn:
                getattr(buffer, name)(**rows(0))
                inside.set()
                may_go.wait()
                getattr(buffer, name)(**rows(1))

        threads = [threading.Thread(target=stay),
                   threading.Thread(target=lambda: getattr(buffer, name)(**rows(2)))]
        threads[0].start()
        inside.wait()
        threads[1].start()
        threads[1].join(0.2)
        waited = threads[1].is_alive()
        may_go.set()
        for thread in threads:
            thread.join()
        assert waited and held(buffer) == [0, 1, 2]


@needs_fast
def test_the_turn_counts_who_is_inside_and_lets_exceptions_through():
    lock = threading.RLock()
    turn = fast.Turn(lock)
    with pytest.raises(KeyError):
        with turn, turn:
            assert lock._is_owned()
            raise KeyError
    assert not lock._is_owned()
    with pytest.raises(AttributeError):
        fast.Turn(1)


@needs_fast
def test_what_is_ordinary_never_comes_to_python(monkeypatch):
    with make() as buffer:
        for name in ("_add", "_extend"):
            monkeypatch.setattr(gpureplay.Writer, name, lambda *_: pytest.fail("it came to Python"))
        assert buffer.add(**rows(0)) == 1 and buffer.extend(**rows(1, 3)) == 3
        count = buffer.add(x=np.zeros(2, np.float32), n=4)  # not in an assert, which looks the method up first
        assert count == 1
        assert buffer._writer.add(**rows(5)) == 1 and buffer._writer.extend(**rows(6)) == 1
        assert held(buffer) == [0, 1, 2, 3, 4, 5, 6]
        with pytest.raises(pytest.fail.Exception), buffer._writer._turn:
            buffer.add(**rows(0))
        assert buffer.add(**rows(7)) == 1
        with pytest.raises(pytest.fail.Exception):
            buffer.extend(**rows(0), stream=None)
