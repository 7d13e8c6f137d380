# SPDX-License-Identifier: MIT
"""Writers beside a buffer's own, when it is full, and what a closed one says."""

import gpureplay
import numpy as np
import pytest
from rows import TRANSITION

ENVS = 2
STEPS = {"obs": "float32", "action": "int64", "reward": "float32", "next_obs": "float32", "terminated": "bool"}


def make(fields=STEPS, capacity=100, **settings):
    return gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", **settings})


def fill(into, mode, steps=10, num_envs=ENVS):
    """Every second step ends all episodes. How many transitions `add` says there were."""
    count = 0
    for number in range(steps):
        step = {name: np.full(num_envs, number + (name == "next_obs"), kind) for name, kind in STEPS.items()}
        more = {"final_obs": step["next_obs"]} if mode == "same_step" else {}
        count += into.add(**{**step, "terminated": np.full(num_envs, number % 2 == 1)}, **more)
    return count


@pytest.mark.parametrize("n_step", [1, 2])
@pytest.mark.parametrize("mode, wanted", [("disabled", 20), ("same_step", 20), ("next_step", 12)])
def test_a_writer_resets_as_its_buffer(mode, wanted, n_step):
    """Told nothing of its own, it drops no step that the buffer would have kept, and keeps none that only resets."""
    with make(num_envs=ENVS, autoreset=mode, n_step=n_step) as one, \
            make(num_envs=ENVS, autoreset=mode, n_step=n_step) as other:
        writer = other.writer(ENVS)
        assert writer.autoreset == mode
        found = fill(one, mode), fill(writer, mode)
        assert found[0] == found[1] == len(one) == len(other)
        if n_step == 1:
            assert found[0] == wanted
            ours, theirs = one.gather(range(wanted)), other.gather(range(wanted))
            assert (ours.obs == theirs.obs).all() and (ours.next_obs == theirs.next_obs).all()


def test_a_writer_may_reset_in_another_way():
    with make(num_envs=ENVS, autoreset="disabled") as buffer:
        for mode in ("next_step", "same_step"):
            assert buffer.writer(ENVS, mode).autoreset == mode
        assert buffer.writer(1).autoreset == "disabled"


def test_a_buffer_that_was_told_nothing_leaves_each_writer_its_default():
    with make() as single, make(num_envs=ENVS) as vector:
        assert [single.writer(count).autoreset for count in (1, ENVS)] == ["disabled", "next_step"]
        assert [vector.writer(count).autoreset for count in (1, ENVS)] == ["disabled", "next_step"]
        with pytest.raises(ValueError, match="nobody said how that one resets"):
            fill(vector.writer(1), "disabled", num_envs=1)


def test_the_mode_of_an_environment_is_its_writers_too():
    gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="sync",
                              vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})
    with gpureplay.ReplayBuffer.for_env(100, envs, device="cpu") as buffer:
        assert buffer.writer(ENVS).autoreset == buffer.writer().autoreset == "same_step"
    envs.close()


@pytest.mark.parametrize("call", ["reset", "flush", "add", "extend"])
def test_a_closed_buffer_speaks_of_itself(call):
    buffer = make(TRANSITION)
    writer = buffer.writer()
    buffer.close()
    given = {name: np.zeros((1, *shape), kind) for name, (shape, kind) in TRANSITION.items()}
    for closed, text in ((buffer, "this buffer was closed; make"), (writer, "this writer was closed with its buffer")):
        with pytest.raises(gpureplay.Closed, match=text):
            getattr(closed, call)(**given if call in ("add", "extend") else {})


def test_full_is_also_a_ring_of_frames_that_is_used_up(tmp_path):
    """Episodes of one step need two frames each, and there is one for each transition, and few more."""
    fields = {**STEPS, "obs": ((4,), "float32"), "next_obs": ((4,), "float32")}
    settings = {"layout": "linked", "frame_slack": 20, "autoreset": "disabled"}
    with make(fields, 400, **settings) as buffer:
        def step(number):
            buffer.add(obs=np.full(4, 2 * number), action=0, reward=0.0, next_obs=np.full(4, 2 * number + 1),
                       terminated=True)

        assert not buffer.is_full
        for number in range(100):
            step(number)
        assert not buffer.is_full and buffer.stats.evicted == 0
        for number in range(100, 800):
            step(number)
        assert len(buffer) < 400 and buffer.is_full
        if "files: none" not in gpureplay.lib.gpur_build_info().decode():
            buffer.save(tmp_path / "full")
            with make(fields, 400, **settings) as other:
                other.load(tmp_path / "full")
                assert other.is_full


def test_frames_that_are_taken_for_stacks_name_the_cure():
    """Four numbers of one observation are no four frames of one number."""
    fields = {**STEPS, "obs": ((4,), "float32"), "next_obs": ((4,), "float32")}
    step = {"obs": np.arange(4.0), "action": 0, "reward": 0.0, "next_obs": np.arange(4.0) * 3, "terminated": False}
    with make(fields, frame_stack=4) as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match='if obs is one frame .*observations="frames", and if '
                                                            'its last axis .*stack_axis="last"'):
            buffer.add(**step)
        assert buffer.stats.appended == 0
    with make(fields, frame_stack=4, observations="frames") as buffer:
        assert buffer.add(**step) == 1
