# SPDX-License-Identifier: MIT
"""Steps as environments hand them out go through C, with what Python alone makes of them: numbers of NumPy's, arrays of
other dtypes and orders, a `truncated` left out, and environments that reset themselves."""

import gpureplay
import numpy as np
import pytest
from gpureplay._accelerator import fast

pytestmark = pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")
DTYPES = ["float32", "float16", "uint8", "int32", "int64", "bool"]
GIVEN = [np.dtype(kind) for kind in "?bBhHiIlLqQefdg"]
FIELDS = {"obs": ((2,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((2,), "float32"),
          "terminated": "bool", "truncated": "bool"}


def pair(fields=FIELDS, num_envs=1, autoreset="disabled", **options):
    """One by the extension, and one by Python alone."""
    made = [gpureplay.ReplayBuffer(512, fields, device="cpu", num_envs=num_envs, autoreset=autoreset,
                                   max_batch=256, **options)
            for _ in range(2)]
    for plain in (made[1], made[1]._writer):
        plain._rows = plain._steps = None
    return made


def outcome(buffer, way, given):
    """What a call returns or raises, what the buffer holds then, and which environments are taken to have ended."""
    try:
        result = getattr(buffer, way)(**given)
    except Exception as error:  # noqa: BLE001
        result = type(error), str(error)
    held = buffer.gather(range(len(buffer))) if len(buffer) else {}
    ended = getattr(buffer._writer._resets, "_ended", np.zeros(0))
    return result, [held[name].tobytes() for name in held.keys()], ended.tolist()


@pytest.fixture
def in_c(monkeypatch):
    """Calls that come to Python fail."""
    for name in ("_add", "_extend"):
        monkeypatch.setattr(gpureplay.Writer, name, lambda *_: pytest.fail("it came to Python"))


def vector_step(num_envs, ended=()):
    ends = np.isin(np.arange(num_envs), ended)
    obs = np.arange(2.0 * num_envs, dtype=np.float32).reshape(2, num_envs).T  # as CartPole's vector gives it
    return {"obs": obs, "action": np.arange(num_envs, dtype=np.int32), "reward": np.ones(num_envs), "next_obs": obs + 1,
            "terminated": ends, "truncated": np.zeros(num_envs, bool)}


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
    "with what tells of the end": {"info": {"final_obs": None}, "final_obs": None},
}


@pytest.mark.parametrize("form", STEPS)
@pytest.mark.parametrize("is_out", [False, True], ids=["all", "no truncated"])
def test_a_step_of_one_environment_never_comes_to_python(in_c, monkeypatch, form, is_out):
    step = {"obs": np.ones(2, np.float32), "action": 1, "reward": 1.0, "next_obs": np.ones(2, np.float32),
            "terminated": False, "truncated": False, **STEPS[form]}
    if is_out:
        del step["truncated"]
    quick, plain = pair()
    assert quick.add(**step) == 1 and quick._writer.add(**step) == 1
    monkeypatch.undo()
    plain.add(**step)
    assert outcome(quick, "extend", {})[1] == [field * 2 for field in outcome(plain, "extend", {})[1][:-1]] \
        + [outcome(quick, "extend", {})[1][-1]]


@pytest.mark.parametrize("autoreset", ["disabled", "next_step", "same_step"])
def test_a_step_of_a_vector_never_comes_to_python(in_c, autoreset):
    quick, _ = pair(num_envs=8, autoreset=autoreset)
    for _ in range(3):
        assert quick.add(**vector_step(8), info={}) == 8
    step = vector_step(8)
    count = quick.add(obs=step["obs"], info={}, next_obs=step["obs"], reward=step["reward"], final_obs=None,
                      action=step["action"], terminated=step["terminated"])  # not as a dict
    assert count == 8
    without = vector_step(8)
    del without["truncated"]
    assert quick.add(**without) == 8
    if autoreset != "same_step":
        assert quick.add(**vector_step(8, [1, 5])) == 8
        assert quick.add(**vector_step(8, [1, 2])) == (6 if autoreset == "next_step" else 8)
        assert quick.add(**vector_step(8)) == (7 if autoreset == "next_step" else 8)


@pytest.mark.parametrize("autoreset", ["disabled", "next_step", "same_step"])
@pytest.mark.parametrize("flag", ["bool", "uint8", "float32", "float16", "int32"])
@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_episodes_end_alike(autoreset, flag, num_envs):
    random = np.random.default_rng(5)
    flags = {"terminated": "uint8" if flag == "uint8" else "bool", "truncated": flag}
    quick, plain = pair({**FIELDS, **flags}, num_envs, autoreset)
    for turn in range(40):
        likely = random.choice([0, 0.2, 0.9])
        step = vector_step(num_envs)
        for name, kind in flags.items():
            step[name] = (random.random(num_envs) < likely) * np.dtype(kind).type(1)
        if flag.startswith("float"):
            step["truncated"] = -step["truncated"]  # -0 is no end
        step["action"] += turn
        if turn % 7 == 3:
            step["reward"][random.integers(num_envs)] = np.nan
        if turn % 11 == 5:
            step["truncated"] = None
        if turn % 5 == 2 and flag != "int32":
            del step["truncated"]
        given = {**step, "final_obs": np.full((num_envs, 2), turn, np.float32)} if turn % 3 else step
        assert outcome(quick, "add", given) == outcome(plain, "add", given), turn
        if turn % 13 == 12:
            quick.reset(), plain.reset()
    assert len(quick) > 20


@pytest.mark.parametrize("given", GIVEN, ids=lambda dtype: dtype.char)
@pytest.mark.parametrize("wanted", DTYPES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_every_number_of_every_type_ends_alike(wanted, given):
    if given.kind == "f":
        numbers = [0.0, -0.0, 1.5, 1e-50, 6.5e4, 1e6, 1e39, -1e39, np.inf, -np.inf, np.nan]
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
        for form in forms:
            quick, plain = pair({"x": wanted}, check_nan=False)
            for way in ("add", "extend"):
                assert outcome(quick, way, {"x": form}) == outcome(plain, way, {"x": form}), (way, repr(form))


@pytest.mark.parametrize("fields, left_out", [
    (FIELDS, "truncated"), (FIELDS, "terminated"), (FIELDS, "reward"),
    ({**FIELDS, "truncated": "float32"}, "truncated"), ({**FIELDS, "truncated": "int32"}, "truncated"),
    ({**FIELDS, "truncated": ((2,), "bool")}, "truncated"), ({"truncated": "uint8", **FIELDS}, "truncated"),
    ({"truncated": "bool"}, "truncated")])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_field_left_out_ends_alike(fields, left_out, num_envs):
    shapes = {name: field[0] if isinstance(field, tuple) else () for name, field in fields.items()}
    given = {name: np.ones((num_envs, *shape), np.uint8) for name, shape in shapes.items() if name != left_out}
    for way in ("add", "extend"):
        quick, plain = pair(fields, num_envs)
        assert outcome(quick, way, given) == outcome(plain, way, given), way
        more = {**given, "info": None, "more": 1}
        assert outcome(quick, way, more) == outcome(plain, way, more), way


def test_what_is_too_large_for_the_scratch_ends_alike():
    """Some of these seem larger than all memory."""
    for shape in ((1, 8192), (1, 8193), (3, 5000), (2**59,), (2**60 - 1,)):
        fields = {"x": (shape[1:], "int64"), "y": (shape[1:], "int64")}
        value = np.broadcast_to(np.ones(shape[1:], np.uint8), shape)
        if shape[0] > 10**6:
            buffer = pair(fields)[0]
            for of in (np.uint8, np.uint32, np.int64, np.uint64):
                value = np.broadcast_to(np.ones((), of), shape)
                assert buffer._rows.append(buffer._writer, {"x": value, "y": value}) is None
            continue
        quick, plain = pair(fields)
        given = {"x": value, "y": value.astype(np.int16)}
        assert outcome(quick, "extend", given) == outcome(plain, "extend", given), shape
