# SPDX-License-Identifier: MIT
"""Feeding step by step, when all or some environments are reset by the caller."""

import gpureplay
import numpy as np
import pytest
from steps_model import check, give
from test_steps import MODES, WAYS, make, refused, step_without


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_without_a_word_is_refused(way, mode):
    """Where episodes go on: who ended, begins with whatever comes."""
    buffer, world = make(way, mode, num_envs=1)
    with buffer:
        give(buffer, world, 20)
        while world.over[0]:
            give(buffer, world, 1)
        given = step_without(world)
        refused(buffer, ValueError, "obs of environment 0 is not the next_obs that was given last, and its episode "
                                    "has not ended; call `reset`", **{**given, "obs": given["obs"] + 1})
        buffer.add(**given)
        check(buffer, world)
        for _ in range(3):  # the first finds nothing to end, or an episode without a step
            buffer.reset()
            world.reset()
            check(buffer, world)
        give(buffer, world, 30)
        check(buffer, world)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("say", [lambda envs: envs, lambda envs: np.isin(np.arange(4), envs)],
                         ids=["numbers", "a mask"])
def test_some_environments_are_reset_and_the_others_go_on(way, mode, say):
    buffer, world = make(way, mode, num_envs=4)
    draw = np.random.default_rng(1)
    with buffer:
        for _ in range(40):
            give(buffer, world, 3)
            envs = np.flatnonzero(draw.integers(0, 3, 4) == 0)
            buffer.reset(say(envs))
            world.reset(envs)
        give(buffer, world, 10)
        check(buffer, world)


BAD_ENVS = {
    "a shape": (np.ones(3, bool), ValueError, r"envs is a mask of shape \(3,\); it must be \(2,\)"),
    "one too high": ([0, 2], ValueError, "envs has 2; it must be 0 to 1"),
    "one too low": ([-1], ValueError, "envs has -1; it must be 0 to 1"),
    "no numbers": ([0.5], TypeError, r"envs is \[0.5\]; it must be None, a mask of \(2,\) bool, or numbers"),
    "a word": ("all", TypeError, "envs is 'all'; it must be"),
    "two axes": ([[0, 1]], TypeError, r"envs is \[\[0, 1\]\]; it must be"),
}


@pytest.mark.parametrize("case", BAD_ENVS)
def test_environments_that_are_none_are_refused(way, case):
    envs, error, text = BAD_ENVS[case]
    buffer, world = make(way)
    with buffer:
        give(buffer, world, 20)
        with pytest.raises(error, match=text):
            buffer.reset(envs)
        buffer.reset([])
        give(buffer, world, 20)
        check(buffer, world)


def test_ctrl_c_in_the_midst_of_a_reset(way, monkeypatch):
    """The library has ended an episode, and nobody was told."""
    buffer, world = make(way, "disabled")
    with buffer:
        for _ in range(20):
            give(buffer, world, 5)
            with monkeypatch.context() as patch:
                real = buffer._writer._call

                def call(function, *arguments, real=real):
                    real(function, *arguments)
                    if function is gpureplay.lib.gpur_writer_reset:
                        raise KeyboardInterrupt

                patch.setattr(buffer._writer, "_call", call)
                is_open = not world.over[0]
                try:
                    buffer.reset([0])
                    assert not is_open
                except KeyboardInterrupt:
                    assert is_open
            world.reset([0])
        give(buffer, world, 10)
        check(buffer, world)


def test_a_reset_of_some_counts_where_steps_are_transitions_as_they_come():
    """Under "next_step" the step after an end is left out, unless that environment was reset by the caller."""
    fields = {"obs": ((1,), "float32"), "reward": "float32", "next_obs": ((1,), "float32"), "terminated": "bool"}
    with gpureplay.ReplayBuffer(100, fields, num_envs=3, device="cpu") as buffer:
        step = {"obs": np.zeros((3, 1)), "reward": np.arange(3), "next_obs": np.zeros((3, 1))}
        for envs, left in (([], []), ([1], [1]), ([False, True, True], [1, 2]), (None, [0, 1, 2])):
            buffer.add(**step, terminated=np.ones(3, bool))
            buffer.reset(envs)
            assert buffer.add(**step, terminated=np.zeros(3, bool)) == len(left)
            newest = np.arange(len(left)) + len(buffer) - len(left)
            assert not left or buffer.gather(newest).reward.tolist() == left
