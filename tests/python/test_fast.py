# SPDX-License-Identifier: MIT
"""The extension module does the usual cases of `add`, `extend` and `sample`, and gives what the package's Python gives:
counts, rows, errors, and the states of environments and episodes."""

import gc
import inspect
import itertools
import sys
import threading
import time
import weakref

import gpureplay
import numpy as np
import pytest
from gpureplay._accelerator import fast
from steps_model import MODES, TRACKED, check, give, make, step_of
from support import DTYPES, FORMS, needs_files, run

pytestmark = pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")
FIELDS = {"x": ((3,), "float32"), "reward": ((), "float32"), "half": ((), "float16"), "small": ((), "uint8"),
          "action": ((), "int32"), "wide": ((), "int64"), "flag": ((), "bool")}
STEP = {"obs": ((2,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((2,), "float32"),
        "terminated": "bool", "truncated": "bool"}


def pair(fields=FIELDS, num_envs=1, autoreset="disabled", **options):
    """A buffer that uses the module, and one in Python alone."""
    made = [gpureplay.ReplayBuffer(512, fields, device="cpu", num_envs=num_envs, autoreset=autoreset,
                                   **{"max_batch": 256, **options}) for _ in range(2)]
    without_module(made[1])
    return made


def without_module(buffer):
    for one in (buffer, buffer._writer):
        one._adder = one._extender = None


def outcome(buffer, method, given):
    """What a call returns or raises, what the buffer holds then, and the states of its environments."""
    try:
        result = getattr(buffer, method)(**given)
    except Exception as error:  # noqa: BLE001
        result = type(error), str(error)
    count, tracker = len(buffer), buffer._writer._tracker
    held = buffer.gather(range(max(0, count - 200), count)) if count else {}
    states = [buffer._writer._policy.ended.tolist()] if buffer._writer.autoreset == "next_step" and not tracker else []
    if tracker:
        states = [tracker.envs.state.tolist(), tracker.envs.pending.tolist(),
                  tracker.envs.last_obs[tracker.envs.state == 1].tobytes()]
    return result, count, buffer.stats.appended, [held[name].tobytes() for name in held.keys()], states


def ends_alike(buffers, method, given, case=""):
    """Both buffers give the same. Returns what the call gave."""
    found = [outcome(buffer, method, given) for buffer in buffers]
    assert found[0] == found[1], case or given
    return found[0][0]


@pytest.fixture
def in_c(monkeypatch):
    """After this is called, every call that the module leaves to Python fails."""
    def begin():
        for name in ("_add", "_extend"):
            monkeypatch.setattr(gpureplay.Writer, name, lambda *_: pytest.fail("it was left to Python"))
    return begin


def rows(count):
    row = np.arange(count)
    return {"x": np.arange(3 * count, dtype=np.float32).reshape(count, 3), "reward": row.astype(np.float32),
            "half": row.astype(np.float16), "small": row.astype(np.uint8), "action": -row.astype(np.int32),
            "wide": row << 40, "flag": row % 2 == 1}


# Values.


def ending_with(value):
    def change(values):
        values = values.copy()
        values.reshape(-1)[-1:] = value
        return values
    return change


ODD_FORMS = {
    **FORMS,
    "float64": lambda values: values.astype(np.float64),
    "int64": lambda values: values.astype(np.int64),
    "object": lambda values: values.astype(object),
    "complex": lambda values: values.astype(np.complex64),
    "one more axis": lambda values: values[:, np.newaxis],
    "one axis less": lambda values: values.reshape(-1),
    "one row less": lambda values: values[:-1],
    "one row": lambda values: values[:1],
    "first row": lambda values: values[0],
    "no rows": lambda values: values[:0],
    "a column less": lambda values: values[..., :-1] if values.ndim > 1 else values,
    "None": lambda values: None,
    "text": lambda values: "text",
    "last is 300": lambda values: ending_with(300)(values.astype(np.int64)),
    **{f"last is {value}": ending_with(value) for value in (np.inf, -np.inf, 0, 1)},
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value")
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("form", ODD_FORMS)
def test_odd_arrays_end_alike(form, count):
    for name, method in itertools.product(FIELDS, ("add", "extend")):
        try:
            changed = ODD_FORMS[form](rows(count)[name])
        except OverflowError:
            continue  # there is no such array
        ends_alike(pair(num_envs=count), method, {**rows(count), name: changed}, (name, method))


@pytest.mark.parametrize("number", [10**30, 1j, None, "1", [1], (1.0,), np.array(1), np.array(1.5, np.float32),
                                    np.array(True), np.timedelta64(1), np.longdouble(1.5), np.complex64(1)],
                         ids=lambda number: f"{type(number).__name__} {number}")
def test_odd_numbers_end_alike(number):
    for name, (method, count) in itertools.product(FIELDS, (("add", 1), ("add", 2), ("extend", 1))):
        ends_alike(pair(num_envs=count), method, {**rows(count), name: number}, (name, method))


@pytest.mark.parametrize("given", [np.dtype(kind) for kind in "?bBhHiIlLqQefdg"], ids=lambda dtype: dtype.char)
@pytest.mark.parametrize("wanted", DTYPES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_every_number_of_every_type_ends_alike(wanted, given):
    if given.kind == "f":
        numbers = [0.0, -0.0, 1.5, 1e-50, 6.5e4, 1e6, 3.4028235677973362e38, 3.4028235677973366e38, 1e39, -1e39, np.inf,
                   -np.inf, np.nan]
    else:
        least, most = (0, 1) if given.kind == "b" else (np.iinfo(given).min, np.iinfo(given).max)
        edges = [0, 1, 2, -1, 127, 128, -129, 255, 256, 2**11, 2**11 + 1, 2**24, -2**24, 2**24 + 1, 2**31 - 1, 2**31,
                 -2**31, -2**31 - 1, 2**63 - 1, 2**63, 2**64 - 1, -2**63]
        numbers = [edge for edge in edges if least <= edge <= most]
    values = np.array(numbers, np.longdouble if given.kind == "f" else object).astype(given)
    for one in [value[()] for value in np.split(values, len(values))] + [values[:3], values[-3:], values[:6:2], values]:
        forms = [np.asarray(one)]
        if len(one) == 1:
            forms += [one[0], one[0].item() if one.dtype.char != "g" else one[0]]
        for form, method in itertools.product(forms, ("add", "extend")):
            ends_alike(pair({"x": wanted}, check_nan=False), method, {"x": form}, (method, repr(form)))


@pytest.mark.parametrize("change", [lambda given: given.pop("half"), lambda given: given.update(more=1),
                                    lambda given: (given.pop("half"), given.update(more=1)), dict.clear])
@pytest.mark.parametrize("method", ["add", "extend"])
def test_wrong_names_end_alike(change, method):
    given = rows(2)
    change(given)
    ends_alike(pair(num_envs=2), method, given)


@pytest.mark.parametrize("fields, left_out", [
    (STEP, "truncated"), (STEP, "terminated"), (STEP, "reward"),
    ({**STEP, "truncated": "float32"}, "truncated"), ({**STEP, "truncated": "int32"}, "truncated"),
    ({**STEP, "truncated": ((2,), "bool")}, "truncated"), ({"truncated": "uint8", **STEP}, "truncated"),
    ({"truncated": "bool"}, "truncated")])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_field_left_out_ends_alike(fields, left_out, num_envs):
    shapes = {name: field[0] if isinstance(field, tuple) else () for name, field in fields.items()}
    given = {name: np.ones((num_envs, *shape), np.uint8) for name, shape in shapes.items() if name != left_out}
    for method, more in itertools.product(("add", "extend"), ({}, {"info": None}, {"info": None, "more": 1})):
        ends_alike(pair(fields, num_envs), method, {**given, **more}, (method, more))


def test_values_that_are_too_large_to_convert_end_alike():
    """Some of these seem larger than all memory."""
    for shape in ((1, 8192), (1, 8193), (3, 5000), (2**59,), (2**60 - 1,)):
        buffers = pair({"x": (shape[1:], "int64"), "y": (shape[1:], "int64")})
        if shape[0] < 10**6:
            value = np.broadcast_to(np.ones(shape[1:], np.int32), shape)
            ends_alike(buffers, "extend", {"x": value, "y": value.astype(np.int16)}, shape)
        for of in (np.uint8, np.uint32, np.int64, np.uint64) if shape[0] > 10**6 else ():
            value = np.broadcast_to(np.ones((), of), shape)
            assert buffers[0]._extender.add(x=value, y=value) is None


# What the module does without Python.

STEPS = {
    "a sampled action": {"action": np.int64(1)},
    "NumPy's numbers": {"action": np.int32(1), "reward": np.float64(0.5), "terminated": np.bool_(1)},
    "a small reward": {"reward": np.float32(0.5)},
    "whole rewards": {"reward": 1},
    "an unsigned action": {"action": np.uint8(3)},
    "flags of ones": {"terminated": 1, "truncated": np.int64(0)},
    "doubles": {"obs": np.ones(2), "next_obs": np.ones((1, 2))},
    "integers": {"obs": np.arange(2), "next_obs": np.arange(2, dtype=np.uint8)},
    "flags as floats of another field": {"reward": True, "obs": np.ones(2, bool)},
    "every other": {"obs": np.arange(4, dtype=np.float32)[::2], "next_obs": np.arange(4.0)[::2]},
    "an array of no axis": {"action": np.array(1, np.int32), "reward": np.array(0.5)},
    "with info and final_obs": {"info": {"final_obs": None}, "final_obs": None},
}


@pytest.mark.parametrize("form", STEPS)
@pytest.mark.parametrize("left_out", [[], ["truncated"]], ids=["all", "no truncated"])
def test_a_step_of_one_environment_never_comes_to_python(in_c, monkeypatch, form, left_out):
    step = {"obs": np.ones(2, np.float32), "action": 1, "reward": 1.0, "next_obs": np.ones(2, np.float32),
            "terminated": False, "truncated": False, **STEPS[form]}
    step = {name: value for name, value in step.items() if name not in left_out}
    quick, plain = pair(STEP)
    in_c()
    assert quick.add(**step) == 1 and quick._writer.add(**step) == 1
    monkeypatch.undo()
    assert plain.add(**step) == plain.add(**step) == 1
    assert outcome(quick, "extend", {}) == outcome(plain, "extend", {})


def vector_step(num_envs, ended=()):
    obs = np.arange(2.0 * num_envs, dtype=np.float32).reshape(2, num_envs).T  # not contiguous
    return {"obs": obs, "action": np.arange(num_envs, dtype=np.int32), "reward": np.ones(num_envs), "next_obs": obs + 1,
            "terminated": np.isin(np.arange(num_envs), ended), "truncated": np.zeros(num_envs, bool)}


@pytest.mark.parametrize("autoreset", MODES)
def test_a_step_of_a_vector_never_comes_to_python(in_c, autoreset):
    quick, _ = pair(STEP, 8, autoreset)
    in_c()
    for _ in range(3):
        assert quick.add(**vector_step(8), info={}) == 8
    step = vector_step(8)
    count = quick.add(obs=step["obs"], info={}, next_obs=step["next_obs"], reward=step["reward"], final_obs=None,
                      action=step["action"], terminated=step["terminated"])  # not as a dict
    assert count == 8 and quick.extend(**vector_step(30)) == 30
    if autoreset != "same_step":
        assert quick.add(**vector_step(8, [1, 5])) == 8
        assert quick.add(**vector_step(8, [1, 2])) == (6 if autoreset == "next_step" else 8)
        assert quick.add(**vector_step(8)) == (7 if autoreset == "next_step" else 8)
    with quick._writer._lock, quick._writer._shared:
        assert quick.add(**vector_step(8)) == 8
    assert pair({"x": ((3,), "float32")})[0].extend(x=np.ones((20_000, 3), np.float32)) == 20_000  # not at once
    with pytest.raises(pytest.fail.Exception):
        quick.extend(**vector_step(8), stream=None)


def test_a_sample_never_comes_to_python(monkeypatch):
    buffer, _ = pair()
    buffer.extend(**rows(64))
    monkeypatch.setattr(gpureplay.ReplayBuffer, "_python_sample", lambda *_: pytest.fail("it was left to Python"))
    batch = buffer.sample(16)
    assert buffer.sample(16, out=batch) is batch and (batch.x[:, 0] == 3 * batch.id).all()
    with pytest.raises(TypeError):
        buffer.sample(17, out=batch)  # is left to Python


def test_both_sample_the_same():
    program = """
    import hashlib
    with make(seed=3) as buffer:
        digest, batch = hashlib.sha256(), None
        for turn in range(50):
            size = 32 if turn % 7 else 8
            batch = buffer.sample(size, out=batch if batch is not None and len(batch) == size and turn % 3 else None)
            for name in batch.keys():
                digest.update(batch[name].tobytes())
        print(digest.hexdigest(), buffer.stats.batches_made)
    """
    assert run(program)[0] == run(program, GPUREPLAY_FAST="off")[0]


# Environments that reset themselves, and tracked episodes.


KINDS = {**TRACKED, "halves": ({"n_step": 2, "dtype": "float16"}, {}), "transitions": ({}, {}),
         **{f"transitions, truncated is {flag}": ({}, {"truncated": flag}) for flag in (
             "uint8", "float32", "float16", "int32")}}


def model_pair(kind, mode, num_envs=3):
    buffers, models = zip(*(make(KINDS[kind], mode, num_envs=num_envs) for _ in range(2)))
    without_module(buffers[1])
    return buffers, models[0]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TRACKED)
def test_only_ends_under_same_step_come_to_python(kind, mode, num_envs, monkeypatch):
    (buffer, _), model = model_pair(kind, mode, num_envs)
    real, came = gpureplay.Writer._add, []
    monkeypatch.setattr(gpureplay.Writer, "_add", lambda *of: came.append(of) or real(*of))
    with buffer:
        give(buffer, model, 1)  # Python asks the library for the states
        for _ in range(80):
            given, before = step_of(buffer, model), len(came)
            buffer.add(**given)
            assert len(came) - before == (mode == "same_step" and (given["terminated"] | given["truncated"]).any())
        assert sum(row["terminated"] or row["truncated"] for row in model.rows) > 4
        check(buffer, model)


def test_tracked_numbers_of_one_environment_never_come_to_python(in_c):
    with gpureplay.ReplayBuffer(100, STEP, n_step=2, device="cpu", autoreset="disabled") as buffer:
        step = {"obs": np.zeros(2), "action": np.int32(1), "reward": 0.5, "next_obs": np.zeros(2), "terminated": False,
                "truncated": np.bool_(0)}
        assert buffer.add(**step) == 0
        in_c()
        del step["truncated"]
        assert [buffer.add(**step, info={}) for _ in range(3)] == [1, 1, 1]
        assert buffer.add(**{**step, "terminated": 1}) == 2
        assert buffer.add(**step) == 0 and buffer._writer.add(**step) == 1
        assert np.allclose(buffer.gather(range(6)).reward, [0.995] * 4 + [0.5, 0.995])


def spoiled(given, turn, random):
    """The step with a mistake of the caller, or in another form."""
    env, kind = random.integers(len(given["reward"])), turn % 23
    other = {name: value.copy() for name, value in given.items()}
    if kind == 0:
        other["reward"][env] = np.nan
    elif kind == 1:
        other["obs"][env] += 1
    elif kind == 2:
        other["next_obs"][env].flat[0] += 7  # of stacks, a frame that was not there
    elif kind == 3 and other["obs"].dtype.kind == "f":
        other[random.choice(["obs", "next_obs"])][env] = np.nan
    elif kind == 4:
        other["terminated"] = other["terminated"].astype(np.uint8) * 3
    elif kind == 5:
        del other["truncated"]
    elif kind == 6:
        other = {name: value.astype(np.float64) if value.dtype == np.float32 else value
                 for name, value in other.items()}
    elif kind == 7:
        other["obs"], other["reward"] = np.asfortranarray(other["obs"]), np.repeat(other["reward"], 2)[::2]
    elif kind == 8:
        other["terminated"] = np.ones_like(other["terminated"])
    elif kind == 9:
        other["obs"] = other["obs"][..., :-1]
    elif kind == 10:
        other.pop("final_obs")
    elif kind == 11:
        other["action"] = None
    elif kind == 12:
        other["info"] = {"final_obs": other.pop("final_obs")}
    elif kind == 13:
        other["truncated"] = -other["truncated"].astype(np.float32)  # -0 is no end
    elif kind == 14:
        other["truncated"] = None
    return other


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_environments_end_alike(kind, mode):
    """Each also with a mistake, or in another form."""
    random, kinds = np.random.default_rng(3), set()
    buffers, model = model_pair(kind, mode)
    for turn in range(200):
        given = step_of(buffers[0], model)
        given["truncated"] = given["truncated"].astype(KINDS[kind][1].get("truncated", "bool"))
        for step in (spoiled(given, turn, random), given):
            result = ends_alike(buffers, "add", step, turn)
            kinds.add(type(result))
            if isinstance(result, int):
                break
        if turn % 23 in (2, 4, 8) or turn % 29 == 0:  # it may differ from the model's
            for one in (*buffers, model):
                one.reset()
    assert kinds == {int, tuple} and len(buffers[0]) > 300
    for buffer in buffers:
        buffer.close()


# Threads.


def test_a_writer_that_threads_share_counts_every_step():
    """All observations are equal, so every step continues the one before, whichever thread made that."""
    step = {"obs": np.zeros(2, np.float32), "action": 1, "reward": 1.0, "next_obs": np.zeros(2, np.float32),
            "terminated": False, "truncated": False}
    counts = []
    with gpureplay.ReplayBuffer(10_000, STEP, n_step=3, device="cpu", autoreset="disabled") as buffer:
        def add():
            counts.append(sum(buffer.add(**{**step, "terminated": number % 5 == 0}) for number in range(2000)))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(counts) == buffer.stats.appended
        buffer.reset()
        assert buffer.stats.appended == 8000


@pytest.mark.parametrize("method", ["add", "extend", "add that is tracked", "flush", "reset"])
def test_a_call_waits_for_the_thread_that_holds_the_writer(method):
    options = {"n_step": 3} if "tracked" in method else {}
    step = {name: value[0] for name, value in vector_step(1).items()}
    step["next_obs"] = step["obs"].copy()
    given = {name: [value] for name, value in step.items()} if method == "extend" else step if "add" in method else {}
    with gpureplay.ReplayBuffer(100, STEP, device="cpu", autoreset="disabled", **options) as buffer:
        call = getattr(buffer, method.split()[0])
        call(**given)
        thread = threading.Thread(target=lambda: call(**given))
        with buffer._writer._lock, buffer._writer._shared:
            call(**given)  # the thread that holds it may
            before = buffer.stats.appended
            thread.start()
            thread.join(0.1)
            assert thread.is_alive() and buffer.stats.appended == before
        thread.join()
        assert call(**given) == (1 if given else None)


@needs_files
def test_a_step_that_waits_lets_other_threads_go_on(tmp_path):
    """It waits for a save, which calls its progress function."""
    (buffer, _), model = model_pair("n steps", "disabled")
    added, seen = threading.Event(), []

    def add():
        buffer.add(**step_of(buffer, model))
        added.set()

    def progress(*_):
        if not thread.is_alive() and not added.is_set():
            thread.start()
            time.sleep(0.1)
            seen.append(added.is_set())
        return True

    thread = threading.Thread(target=add)
    with buffer:
        give(buffer, model, 20)
        buffer.save(tmp_path / "buffer", progress)
        thread.join()
        assert seen == [False] and added.is_set()
        check(buffer, model)


def refused(call, *given):
    with pytest.raises(ValueError):
        call(*given)


@pytest.mark.parametrize("method", ["add", "extend", "sample", "out", "left to Python", "tracked", "update",
                                 "update of float32", "refused update"])
def test_nothing_leaks(method):
    buffer, _ = pair(num_envs=4, prioritized=True)
    tracked = gpureplay.ReplayBuffer(512, STEP, device="cpu", num_envs=4, autoreset="disabled", n_step=2)
    given, batch = rows(4), None
    step = {**vector_step(4), "next_obs": vector_step(4)["obs"]}
    nan = {**given, "reward": np.full(4, np.nan, np.float32)}
    buffer.extend(**given)
    tracked.add(**step)
    out, ids, values = buffer.sample(4), np.arange(4), np.ones(4)
    values32 = values.astype(np.float32)
    call = {
        "add": lambda: buffer.add(**given), "extend": lambda: buffer.extend(**given),
        "sample": lambda: buffer.sample(4), "out": lambda: buffer.sample(4, out=out),
        "left to Python": lambda: buffer._extender.add(**nan), "tracked": lambda: tracked.add(**step),
        "update": lambda: buffer.update_priorities(ids, values),
        "update of float32": lambda: buffer.update_priorities(ids, values32),
        "refused update": lambda: refused(buffer.update_priorities, ids, values[1:]),
    }[method]
    watched = [*given, *given.values(), *step.values(), *(values.dtype for values in given.values()), buffer._writer,
               buffer, tracked, out, ids, values, values32]

    def counts():
        gc.collect()
        return [sys.getrefcount(one) for one in watched], sys.getallocatedblocks()

    for _ in range(1000):
        batch = call()
    before = counts()
    for _ in range(3000 if method == "refused update" else 30_000):
        batch = call()
    after = counts()
    del batch
    # A reference that each call leaks, or drops once too often, changes a count by thousands. Other threads and caches
    # of the interpreter hold some references to names of fields for a while.
    assert all(abs(x - y) < 100 for x, y in zip(after[0], before[0])) and after[1] - before[1] < 100
    assert not any(one._calls for one in (buffer, buffer._writer, tracked, tracked._writer))


# The methods, as callers see them.

METHODS = [(gpureplay.ReplayBuffer, "add"), (gpureplay.ReplayBuffer, "extend"), (gpureplay.ReplayBuffer, "sample"),
           (gpureplay.Writer, "add"), (gpureplay.Writer, "extend")]


@pytest.mark.parametrize("kind, name", METHODS)
def test_a_method_has_the_signature_and_the_text_of_pythons(kind, name):
    method, python = getattr(kind, name), getattr(kind, f"_python_{name}")
    assert (method.__name__, method.__qualname__) == (name, f"{kind.__name__}.{name}") and inspect.isroutine(method)
    assert inspect.getdoc(method) == inspect.getdoc(python)
    wanted = [(one.name, one.default) for one in inspect.signature(python).parameters.values()]
    assert [(one.name, one.default) for one in inspect.signature(method).parameters.values()] == wanted
    buffer, _ = pair()
    one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
    bound = getattr(one, name)
    assert bound.__self__ is one and bound.__doc__ == method.__doc__ and bound == getattr(one, name)
    assert list(inspect.signature(bound).parameters) == [name for name, _ in wanted[1:]]


@pytest.mark.parametrize("kind, name", METHODS[:2] + METHODS[3:])
def test_every_form_of_call_appends(kind, name):
    buffer, _ = pair({"x": ((2,), "float32"), "n": "int32"})
    one = buffer if kind is gpureplay.ReplayBuffer else buffer.writer()
    given = [{"x": np.ones((1, 2), np.float32), "n": np.array([at], np.int32)} for at in range(6)]
    assert getattr(one, name)(**given[0]) == getattr(kind, name)(one, x=given[1]["x"], n=given[1]["n"]) == 1
    assert getattr(kind, name)(one, n=given[2]["n"], x=given[2]["x"]) == 1
    assert getattr(one, name)(**{"".join(["", key]): given[3][key] for key in ("n", "x")}) == 1
    assert getattr(super(kind, one), name, getattr(one, name))(**given[4]) == getattr(one, name)(**given[5]) == 1
    assert buffer.gather(range(len(buffer))).n.tolist() == list(range(6))
    for wrong in (lambda: getattr(one, name)(1), lambda: getattr(one, name)(1, **given[0])):
        with pytest.raises(TypeError, match=f"{kind.__name__}.{name}.. takes 1 positional argument but 2"):
            wrong()
    with pytest.raises(TypeError, match="missing .'n', 'x'., unknown"):
        getattr(one, name)()
    assert len(buffer) == 6


def test_a_subclass_may_override_it():
    class Doubling(gpureplay.ReplayBuffer):
        def add(self, **values):
            return super().add(**values) + super().add(**values)

    with Doubling(64, {"n": "int32"}, device="cpu") as buffer:
        assert buffer.add(n=3) == 2 and buffer.gather([0, 1]).n.tolist() == [3, 3]


def test_a_bound_method_holds_its_object_and_no_longer():
    buffer = gpureplay.ReplayBuffer(64, {"n": "int32"}, device="cpu")
    alive, method, closing = weakref.ref(buffer), buffer.add, gpureplay.ReplayBuffer(64, {"n": "int32"}, device="cpu")
    del buffer
    assert method(n=1) == 1
    method.__self__.again = method  # a circle
    del method
    gc.collect()
    assert alive() is None
    method = closing.add
    closing.close()
    for call in (method, closing.add, closing.extend):
        with pytest.raises(gpureplay.Closed, match="make a new one"):
            call(n=[1])


def test_it_can_be_switched_off():
    assert run("print(gpureplay._accelerator.fast)", GPUREPLAY_FAST="off")[0] == "None\n"
    _, error = run("", wanted=1, GPUREPLAY_FAST="/nowhere.so")
    assert 'GPUREPLAY_FAST is \'/nowhere.so\', where there is no file; it must be "off", or the module\'s path' in error


@pytest.mark.parametrize("call", ["Appender()", "method(int, 'absent', '')", "method(1, 'add', '')", "use(b'')",
                                  "use([1])", "put_arrays(1, 2, 3, 4, 5)", "Appender(a=1)"])
def test_what_the_module_was_not_made_for_raises(call):
    with pytest.raises((TypeError, ValueError, IndexError)):
        eval(f"fast.{call}", {"fast": fast})  # noqa: S307
