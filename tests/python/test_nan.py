# SPDX-License-Identifier: MIT
"""NaN is refused where it comes in, wherever it stands, and numbers never are."""

import warnings

import gpureplay
import numpy as np
import pytest

FIELDS = {"before": ((), "int32"), "x": ((27,), "float32"), "half": ((3,), "float16"), "reward": ((), "float32")}
NAN = float("nan")


def rows(count, value=1.0):
    return {"before": np.zeros(count, np.int32), "x": np.full((count, 27), value, np.float32),
            "half": np.full((count, 3), 1, np.float16), "reward": np.full(count, value, np.float32)}


def make(num_envs, **settings):
    return gpureplay.ReplayBuffer(30_000, FIELDS, device="cpu", num_envs=num_envs, autoreset="disabled", **settings)


@pytest.mark.parametrize("name", ["x", "half", "reward"])
@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("count", [1, 7, 500, 9000])
def test_nan_is_found_anywhere(count, way, name):
    with make(count) as buffer:
        for row in sorted({0, count // 2, count - 1}):
            given = rows(count)
            given[name].reshape(count, -1)[row:, -1] = NAN
            with pytest.raises(ValueError, match=f"{name} has NaN, first in row {row} of {count}"):
                getattr(buffer, way)(**given)
        assert len(buffer) == 0 == buffer.stats.appended
        assert getattr(buffer, way)(**rows(count)) == count


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0])
@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("count", [2, 9000])
def test_every_other_number_goes_in(count, way, value):
    with make(count) as buffer, warnings.catch_warnings():
        warnings.simplefilter("error")
        given = rows(count, value)
        given["x"][::2] *= np.float32(-1)
        given["half"][:] = np.float16(np.inf)
        assert getattr(buffer, way)(**given) == count
        got = buffer.gather([0, 1])
        assert (got.x == given["x"][:2]).all() and (got.half == np.inf).all()


@pytest.mark.parametrize("form", [np.float64, list])
def test_nan_is_found_in_what_is_converted(form):
    given = rows(4)
    given["x"][2, 3] = NAN
    given["x"] = given["x"].tolist() if form is list else given["x"].astype(form)
    with make(4) as buffer, pytest.raises(ValueError, match="x has NaN, first in row 2 of 4"):
        buffer.extend(**given)


@pytest.mark.parametrize("way", ["add", "extend"])
def test_the_search_can_be_left_out(way):
    with make(3, check_nan=False) as buffer:
        given = rows(3)
        given["x"][1] = NAN
        assert getattr(buffer, way)(**given) == 3
        assert np.isnan(buffer.gather([1]).x).all()


def test_the_search_is_settled_when_the_buffer_is_made():
    """Writers remember it."""
    with make(3, check_nan=False) as buffer:
        assert buffer.check_nan is False
        with pytest.raises(AttributeError):
            buffer.check_nan = True
