# SPDX-License-Identifier: MIT
"""The extension module gives what the package's Python gives, in the same words."""

import gc
import itertools
import sys
import threading
import time

import gpureplay
import numpy as np
import pytest
from gpureplay._accelerator import fast
from programs import run

FIELDS = {"x": ((3,), "float32"), "reward": ((), "float32"), "half": ((), "float16"), "small": ((), "uint8"),
          "action": ((), "int32"), "wide": ((), "int64"), "flag": ((), "bool")}
needs_fast = pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")


def rows(count):
    row = np.arange(count)
    return {"x": np.arange(3 * count, dtype=np.float32).reshape(count, 3), "reward": row.astype(np.float32),
            "half": row.astype(np.float16), "small": row.astype(np.uint8), "action": -row.astype(np.int32),
            "wide": row << 40, "flag": row % 2 == 1}


def buffers(num_envs):
    """One by the extension, and one by Python alone."""
    made = [gpureplay.ReplayBuffer(64, FIELDS, device="cpu", num_envs=num_envs, autoreset="disabled") for _ in range(2)]
    for plain in (made[1], made[1]._writer):
        plain._rows = plain._steps = None
    return made


def outcome(buffer, way, given):
    """What a call returns or raises, and what the buffer holds then."""
    try:
        result = getattr(buffer, way)(**given)
    except Exception as error:  # noqa: BLE001
        result = type(error), str(error)
    count = len(buffer)
    held = buffer.gather(range(count)) if count else {}
    return result, count, [held[name].tobytes() for name in held.keys()]


def unaligned(values):
    raw = bytearray(values.nbytes + 1)
    array = np.frombuffer(raw, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def spoiled(value):
    def change(values):
        values = values.copy()
        values.reshape(-1)[-1:] = value
        return values
    return change


FORMS = {
    "as it is": lambda values: values,
    "float64": lambda values: values.astype(np.float64),
    "int64": lambda values: values.astype(np.int64),
    "object": lambda values: values.astype(object),
    "complex": lambda values: values.astype(np.complex64),
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "strided": lambda values: np.repeat(values, 2, axis=0)[::2],
    "Fortran": np.asfortranarray,
    "unaligned": unaligned,
    "subclass": lambda values: values.view(np.recarray),
    "one more axis": lambda values: values[:, np.newaxis],
    "one axis less": lambda values: values.reshape(-1),
    "one row less": lambda values: values[:-1],
    "one row": lambda values: values[:1],
    "first row": lambda values: values[0],
    "no rows": lambda values: values[:0],
    "a column less": lambda values: values[..., :-1] if values.ndim > 1 else values,
    "list": lambda values: values.tolist(),
    "None": lambda values: None,
    "text": lambda values: "text",
    "last is 300": lambda values: spoiled(300)(values.astype(np.int64)),
}
FORMS.update({f"last is {value}": spoiled(value) for value in (np.inf, -np.inf, 0, 1)})


@needs_fast
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value")
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("form", FORMS)
def test_odd_arrays_end_alike(form, count):
    for name, way in itertools.product(FIELDS, ("add", "extend")):
        try:
            changed = FORMS[form](rows(count)[name])
        except OverflowError:
            continue  # there is no such array
        quick, plain = buffers(count)
        given = {**rows(count), name: changed}
        assert outcome(quick, way, given) == outcome(plain, way, given), (name, way)


@needs_fast
@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("name", ["x", "reward", "half"])
@pytest.mark.parametrize("count", [1, 2, 5, 64])
def test_nan_ends_alike(count, name, way):
    for at in range(count * (3 if name == "x" else 1)):
        quick, plain = buffers(count)
        given = rows(count)
        given[name].reshape(-1)[at] = np.nan
        got = outcome(quick, way, given)
        assert got == outcome(plain, way, given) and got[0][0] is ValueError and got[1] == 0


NUMBERS = [0, 1, -1, 2, 255, 256, 2**11 + 1, 2**24 + 1, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, 2**63, -2**63,
           10**30, True, False, 0.0, -0.0, 0.5, 1e-50, 1e39, -1e39, 3.4028235e38, 3.4028235677973362e38,
           3.4028235677973366e38, np.inf, -np.inf, np.nan, np.float32(1), np.float64(1.5), np.int8(-3), np.bool_(1),
           np.float16(2), 1j, None, "1", [1], (1.0,), np.array(1), np.array(1.5, np.float32), np.array(True)]


@needs_fast
@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{type(number).__name__} {number}")
def test_odd_numbers_end_alike(number, name):
    for way, count in (("add", 1), ("add", 2), ("extend", 1)):
        quick, plain = buffers(count)
        given = {**rows(count), name: number}
        assert outcome(quick, way, given) == outcome(plain, way, given), way


@needs_fast
@pytest.mark.parametrize("change", [lambda given: given.pop("half"), lambda given: given.update(more=1),
                                    lambda given: (given.pop("half"), given.update(more=1)), dict.clear])
def test_wrong_names_end_alike(change):
    for way in ("add", "extend"):
        quick, plain = buffers(2)
        given = rows(2)
        change(given)
        assert outcome(quick, way, given) == outcome(plain, way, given)


@needs_fast
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_a_step_of_other_than_all_environments_ends_alike(count):
    quick, plain = buffers(4)
    got = outcome(quick, "add", rows(count))
    assert got == outcome(plain, "add", rows(count)) and got[0][0] is ValueError


@needs_fast
def test_the_ordinary_is_not_left_to_python():
    buffer = buffers(1)[0]
    writer = buffer._writer
    step = {"x": np.ones(3, np.float32), "reward": 0.5, "half": np.float16(1), "small": 255, "action": -(2**31),
            "wide": 2**63 - 1, "flag": True}
    assert writer._rows.append(writer, rows(5)) == 5
    assert writer._steps.append(writer, rows(1)) == 1
    assert writer._steps.append(writer, {**step, "half": np.ones(1, np.float16)}) == 1
    assert writer._steps.append(writer, step) is None  # NumPy's halves are
    assert len(buffer) == 7
    buffer.sample(4)
    assert gpureplay._reuse.redraw is fast.redraw and fast.idle(buffer._spare[1]) is not None


@needs_fast
def test_both_draw_the_same():
    program = """
    import hashlib
    with make(seed=3) as buffer:
        digest = hashlib.sha256()
        for turn in range(50):
            batch = buffer.sample(32 if turn % 7 else 8)
            for name in batch.keys():
                digest.update(batch[name].tobytes())
        print(digest.hexdigest(), buffer.stats.batches_made)
    """
    assert run(program)[0] == run(program, GPUREPLAY_FAST="off")[0]


@needs_fast
@pytest.mark.parametrize("way", ["add", "extend", "by keyword", "sample", "refused", "closed"])
def test_nothing_leaks(way):
    buffer, plain = buffers(4)
    given = rows(4)
    nan = {**given, "reward": np.full(4, np.nan, np.float32)}
    writer, batch = buffer._writer, None
    plain.close()
    calls = {
        "add": lambda: buffer.add(**given), "extend": lambda: buffer.extend(**given),
        "sample": lambda: buffer.sample(4), "by keyword": lambda: buffer.extend(
            x=given["x"], reward=given["reward"], half=given["half"], small=given["small"], action=given["action"],
            wide=given["wide"], flag=given["flag"]),
        "refused": lambda: writer._rows.append(writer, nan),
        "closed": lambda: writer._rows.append(plain._writer, given),
    }
    buffer.extend(**given)
    watched = [*given, *given.values(), *(values.dtype for values in given.values()), writer, buffer, writer._calls]

    def counts():
        gc.collect()
        return [sys.getrefcount(one) for one in watched], sys.getallocatedblocks()

    call = calls[way]
    for _ in range(1000):
        batch = call()
    before = counts()
    for _ in range(100_000):
        batch = call()
    after = counts()
    del batch
    assert after[0] == before[0] and after[1] - before[1] < 100 and not writer._calls and not buffer._calls


@needs_fast
def test_a_search_and_an_append_let_other_threads_go_on():
    fields, count = {"x": ((1 << 18,), "float32")}, 30
    with gpureplay.ReplayBuffer(256, fields, device="cpu", update_size=128) as buffer:
        given, turns, done = np.zeros((count, 1 << 18), np.float32), [0], threading.Event()

        def turn():
            while not done.is_set():
                turns[0] += 1
                time.sleep(0)  # gives the lock back, which nobody asks for

        thread = threading.Thread(target=turn)
        old = sys.getswitchinterval()
        sys.setswitchinterval(60)  # nobody is asked to give the lock away in time, so the extension must
        try:
            thread.start()
            before = turns[0]
            for _ in range(100):  # a core may be somebody else's for longer than one call takes
                buffer.extend(x=given)
                if turns[0] > before:
                    break
            assert turns[0] > before
        finally:
            done.set()
            sys.setswitchinterval(old)
            thread.join()


@needs_fast
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_batch_whose_array_was_changed_in_place_is_not_used_again():
    for change in (lambda array: array.setflags(write=False), lambda array: setattr(array, "dtype", np.int32)):
        with buffers(1)[0] as buffer:
            buffer.extend(**rows(16))
            batch = buffer.sample(8)
            change(batch.x)
            address = id(batch)
            del batch
            again = buffer.sample(8)
            assert id(again) != address or again.x.flags.writeable
            assert again.x.dtype == np.float32 and again.x.flags.writeable


def test_it_can_be_switched_off():
    assert run("print(gpureplay._accelerator.fast)", GPUREPLAY_FAST="off")[0] == "None\n"


def test_a_wrong_path_is_told():
    _, said = run("", wanted=1, GPUREPLAY_FAST="/nowhere.so")
    assert 'GPUREPLAY_FAST is \'/nowhere.so\', where there is no file; it must be "off", or the module\'s path' in said


@needs_fast
@pytest.mark.parametrize("call", [
    "Rows([], 1, 2)", "Rows(1, 1)", "Rows([1], 1)", "Rows([('x', (), 1)], True)", "Watch(())", "Watch(1)", "idle(1)",
    "Rows([('x', (1,) * 7, np.dtype('f4'))], True)", "Rows([('x', (1,), np.dtype('f4'))] * 65, True)", "redraw(1, 2)",
    "redraw(1, 'x', ())", "Watch((1,) * 71)", "Rows([], True).append(1)", "Rows([], True).append(1, {}, 'x')"])
def test_what_it_was_not_made_for_raises(call):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        eval(f"fast.{call}", {"fast": fast, "np": np})  # noqa: S307
