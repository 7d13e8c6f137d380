# SPDX-License-Identifier: MIT
"""Random episodes by `add`: n steps, stacks and frames, several environments, three autoreset modes, resets in between,
against transitions that are worked out one by one."""

import gpureplay
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps_model import World, check, give

MODES = ("disabled", "next_step", "same_step")
WORLDS = st.fixed_dictionaries({
    "seed": st.integers(0, 2**32), "num_envs": st.integers(1, 4), "mode": st.sampled_from(MODES),
    "n_step": st.integers(1, 5), "stack": st.integers(1, 4), "pad": st.sampled_from(("zero", "repeat")),
    "axis": st.sampled_from(("first", "last")), "gives": st.sampled_from(("stacks", "frames")),
    "dtype": st.sampled_from(("uint8", "float32")), "clip": st.sampled_from((0.0, 0.5))})
SCHEDULE = st.lists(st.one_of(st.integers(1, 30), st.just("reset")), min_size=1, max_size=6)
MORE = {"tag": "float32", "previous": "int64"}


def play(buffer, world, schedule):
    for part in schedule:
        if part == "reset":
            buffer.reset()
            world.reset()
        else:
            give(buffer, world, part)


@given(WORLDS, SCHEDULE, st.sampled_from((20, 64, 2000)))
def test_frames_that_are_stored_once(settings, schedule, capacity):
    world = World(**settings)
    with gpureplay.ReplayBuffer(capacity, world.fields(**MORE), layout="linked", max_batch=2, **world.settings(),
                                update_size=1) as buffer:
        play(buffer, world, [*schedule, 20])
        check(buffer, world, most=2)


@given(WORLDS, SCHEDULE, st.sampled_from((20, 64, 2000)))
def test_whole_stacks(settings, schedule, capacity):
    world = World(**{**settings, "gives": "stacks"})
    with gpureplay.ReplayBuffer(capacity, world.fields(**MORE), layout="packed", max_batch=2,
                                **world.settings()) as buffer:
        play(buffer, world, [*schedule, 20])
        check(buffer, world, most=2)
