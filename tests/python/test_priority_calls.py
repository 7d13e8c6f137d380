# SPDX-License-Identifier: MIT
"""Priorities: what a buffer without them says, how large they may be, and a beta that a refused draw does not set."""

import gpureplay
import numpy as np
import pytest
from gpureplay import _priorities, _replay_config


def make(count=40, **settings):
    made = gpureplay.ReplayBuffer(64, {"x": "float32"}, device="cpu", **{"prioritized": True, **settings})
    if count:
        made.extend(x=np.arange(count))
    return made


OF_PRIORITIES = {
    "update": lambda buffer: buffer.update_priorities([0], [1.0]),
    "update with arrays": lambda buffer: buffer.update_priorities(np.zeros(1, np.int64), np.ones(1, np.float32)),
    "get": lambda buffer: buffer.get_priorities([0]), "check": lambda buffer: buffer.check_priorities(),
    "stats": lambda buffer: buffer.priority_stats, "alpha": lambda buffer: buffer.alpha,
    "beta": lambda buffer: buffer.beta, "set alpha": lambda buffer: setattr(buffer, "alpha", 0.5),
    "set beta": lambda buffer: setattr(buffer, "beta", 0.5),
    "beta of a draw": lambda buffer: buffer.sample(1, beta=0.5),
}


@pytest.mark.parametrize("by_extension", [True, False])
@pytest.mark.parametrize("call", OF_PRIORITIES)
def test_a_uniform_buffer_says_what_it_lacks(monkeypatch, call, by_extension):
    if not by_extension:
        monkeypatch.setattr(_priorities, "_updated", _priorities._never)
    with gpureplay.ReplayBuffer(10, {"x": "uint8"}, device="cpu") as buffer:
        buffer.extend(x=[1, 2])
        text = 'no priorities; make it with prioritized=True or "plain"'
        with pytest.raises(gpureplay.InvalidArgument, match=text):
            OF_PRIORITIES[call](buffer)
    with pytest.raises(gpureplay.Closed, match="this buffer was closed"):
        OF_PRIORITIES[call](buffer)


def test_priorities_beyond_what_is_kept_count_as_the_most():
    """p ** alpha is kept up to 4,096: here to the power 1 / 0.5."""
    with make(alpha=0.5, priority_offset=0.0) as buffer:
        buffer.sample(1)
        buffer.update_priorities([0, 1, 2], [2.0 ** 24, 2.0 ** 26, 2.0 ** 22])
        stats = buffer.priority_stats
        assert isinstance(stats, gpureplay.PriorityStats) and stats.max_priority == 2.0 ** 26
        rest = len(buffer) - 3
        np.testing.assert_allclose(stats.total, 4096 + 4096 + 2048 + rest, rtol=1e-6)


REFUSED = {
    "too many": ({"batch_size": 33}, ValueError, "batch_size is 33; it must be 1 to max_batch = 32"),
    "none": ({"batch_size": 0}, ValueError, "batch_size is 0; it must be 1 to max_batch = 32"),
    "half": ({"batch_size": 2.5}, TypeError, "batch_size is 2.5; it must be an integer"),
    "text": ({"batch_size": "8"}, TypeError, "batch_size is '8'"),
    "stream": ({"stream": 7}, ValueError, "stream is 7; on the CPU it must be None"),
    "stream as text": ({"stream": "x"}, TypeError, "stream is 'x'; it must be an integer"),
    "beta": ({"beta": -1}, ValueError, "beta is -1"),
    "beta as text": ({"beta": "x"}, TypeError, "beta is 'x'; it must be a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_draw_that_is_refused_leaves_the_schedule_of_beta(case):
    given, error, text = REFUSED[case]
    with make(beta=(0.25, 0.75, 2)) as buffer:
        with pytest.raises(error, match=text):
            buffer.sample(**{"batch_size": 8, "beta": 0.9, **given})
        found = [buffer.beta]
        for _ in range(2):
            buffer.sample(8)
            found.append(buffer.beta)
        assert found == [0.25, 0.5, 0.75]


def test_a_draw_of_nothing_leaves_the_schedule_of_beta():
    for flush in ("auto", "manual"):
        with make(count=0, beta=(0.25, 0.75, 2), flush=flush) as buffer:
            if flush == "manual":
                buffer.extend(x=[1])
            with pytest.raises(gpureplay.TooFew, match="empty; a draw needs at least 1 transition"):
                buffer.sample(1, beta=0.9)
            assert buffer.beta == 0.25
            buffer.extend(x=[1])
            buffer.flush()
            buffer.sample(1, beta=0.5)
            assert buffer.beta == 0.5


@pytest.mark.parametrize("settings", [
    {}, {"capacity": 2}, {"capacity": 20_000}, {"max_batch": 7}, {"n_step": 5}, {"frame_stack": 4},
    {"frame_stack": 4, "n_step": 3}, {"frame_stack": 2, "n_step": 5}, {"layout": "linked"},
    {"frame_stack": 4, "capacity": 40_000},
])
def test_the_largest_batch_is_the_librarys(settings):
    """Where it is told beforehand, by the library's own rule for a default."""
    shape = (settings.get("frame_stack", 3),)
    fields = {"obs": (shape, "float32"), "action": "int32", "reward": "float32", "next_obs": (shape, "float32"),
              "terminated": "bool", "truncated": "bool"}
    with gpureplay.ReplayBuffer(fields=fields, device="cpu", **{"capacity": 200, **settings}) as buffer:
        most = _replay_config.most_of(buffer._form.config)
        for count, error in ((most, gpureplay.TooFew), (most + 1, gpureplay.InvalidArgument)):
            with pytest.raises(error):
                buffer.sample(count)
