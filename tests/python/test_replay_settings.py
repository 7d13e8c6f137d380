# SPDX-License-Identifier: MIT
"""The settings of a buffer: what they do, which presets there are, what is refused, and the plan."""

import gpureplay
import numpy as np
import pytest
from rows import TRANSITION, block

ATARI = {"obs": ((4, 84, 84), "uint8"), "action": "int64", "reward": "float32", "next_obs": ((4, 84, 84), "uint8"),
         "terminated": "bool", "truncated": "bool"}
FRAMES = {**ATARI, "obs": ((84, 84), "uint8"), "next_obs": ((84, 84), "uint8")}
STEPS = {**TRANSITION, "obs": ((4, 3), "float32"), "next_obs": ((4, 3), "float32")}


def make(fields=TRANSITION, capacity=200, **settings):
    return gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", **settings})


REFUSED = {
    "no capacity": ({"capacity": None}, TypeError, "capacity is None; it must be a number of transitions, or there "),
    "no such preset": ({"preset": "atari"}, ValueError, 'no replay preset "atari"; there are "melee-gpu"'),
    "a preset of no name": ({"preset": 3}, TypeError, "preset is 3; it must be a name, or None"),
    "prioritized": ({"prioritized": "rank"}, ValueError, "prioritized is 'rank'; it must be True, False, \"plain\""),
    "prioritized of a list": ({"prioritized": [1]}, ValueError, r"prioritized is \[1\]; it must be True, False, "),
    "prioritized of an array": ({"prioritized": np.array([True, False])}, ValueError, r"prioritized is array\("),
    "distinct": ({"distinct": "x"}, TypeError, "distinct is 'x'; it must be True or False"),
    "check_nan": ({"check_nan": "x"}, TypeError, "check_nan is 'x'; it must be True or False"),
    **{f"{name} of 0": ({name: 0}, ValueError, f"{name} is 0; it must be 1 or more, or None for the default")
       for name in ("frame_stack", "max_batch", "update_size")},
    "distinct by priority": ({"prioritized": True, "distinct": True}, ValueError, "distinct is True and the buffer "
                             "prioritized; a draw by priority may take a transition twice"),
    "alpha alone": ({"alpha": 0.5}, ValueError, "alpha is 0.5 and the buffer is not prioritized; it needs "
                    "prioritized=True"),
    "beta alone": ({"beta": 0.5}, ValueError, "beta is 0.5 and the buffer is not prioritized"),
    "alpha below 0": ({"prioritized": True, "alpha": -1}, ValueError, "alpha is -1; it must be 0 to 10"),
    "alpha as text": ({"prioritized": True, "alpha": "a"}, TypeError, "alpha is 'a'; it must be a number"),
    "beta of two": ({"prioritized": True, "beta": (0.4, 1)}, ValueError, r"beta is \(0.4, 1\); it must be a number, "
                    r"\(first, last, steps\)"),
    "beta as text": ({"prioritized": True, "beta": "a"}, TypeError, "beta is 'a'; it must be a number"),
    "beta from text": ({"prioritized": True, "beta": (0.4, "b", 3)}, TypeError, "last of beta is 'b'; it must be a "),
    "beta below 0": ({"prioritized": True, "beta": (0.4, -1, 10)}, ValueError, "beta goes from 0.4 to -1"),
    "weight_norm": ({"prioritized": True, "weight_norm": "max"}, ValueError, "weight_norm is 'max'; it must be one of "
                    "'batch', 'memory', 'none'"),
    "n_step of 0": ({"n_step": 0}, ValueError, "n_step is 0; it must be 1 to 64"),
    "n_step of 65": ({"n_step": 65}, ValueError, "n_step is 65; it must be 1 to 64"),
    "n_step of 2.5": ({"n_step": 2.5}, TypeError, "n_step is 2.5; it must be an integer"),
    "a stack that is none": ({"frame_stack": 4}, ValueError, r'frame_stack is 4 and the first axis of "obs" is 3 long, '
                             r'its shape being \(3,\); say .* or observations="frames" where each is one frame'),
    "a stack of the other axis": ({"frame_stack": 4, "fields": {**ATARI, "obs": ((84, 84, 4), "uint8")}}, ValueError,
                                  '"obs" is 84 long.*; say stack_axis="last" where the last axis counts the frames'),
    "a stack of the other axis, last": ({"frame_stack": 4, "fields": ATARI, "stack_axis": "last"}, ValueError,
                                        'the last axis of "obs" is 84 long.*; say stack_axis="first" where the first'),
    "a stack of one number": ({"frame_stack": 4, "fields": {**ATARI, "obs": "float32"}}, ValueError,
                              r'"obs" is 0 long, its shape being \(\); say'),
    "a stack of 17": ({"frame_stack": 17}, ValueError, "frame_stack is 17; it must be 1 to 16"),
    "layout": ({"layout": "sparse"}, ValueError, "layout is 'sparse'; it must be one of 'packed', 'linked'"),
    "stack_axis": ({"stack_axis": -1}, ValueError, "stack_axis is -1; it must be one of 'first', 'last'"),
    "stack_pad": ({"stack_pad": "reset"}, ValueError, "stack_pad is 'reset'; it must be one of 'zero', 'repeat'"),
    "frame_slack": ({"fields": STEPS, "frame_stack": 4, "frame_slack": -1}, ValueError, "frame_slack is -1; it must"),
    "observations": ({"observations": "pixels"}, ValueError, "observations is 'pixels'; it must be one of 'stacks', "
                     "'frames'"),
    "packed frames": ({"observations": "frames"}, ValueError, 'observations is "frames" and layout "packed"; stacks '
                      'are made of frames by layout "linked"'),
    "steps without obs": ({"fields": {"x": "float32", "reward": "float32"}, "n_step": 2}, ValueError,
                          "there is no field 'obs'; with n_step above 1"),
    "frames without obs": ({"fields": {"x": "float32"}, "layout": "linked"}, ValueError, "there is no field 'obs'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_setting_is_refused(case):
    settings, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        make(**settings)


def test_leaves_of_a_space_cannot_be_folded():
    gymnasium = pytest.importorskip("gymnasium")
    box, keys = gymnasium.spaces.Box(-1, 1, (3,), np.float32), gymnasium.spaces.Discrete(3)
    with pytest.raises(ValueError, match="no field 'obs'.*each one array: no Dict or Tuple space"):
        make(gymnasium.spaces.Dict(a=box), action_space=keys, n_step=3)
    with make(box, action_space=keys, n_step=3) as buffer:
        assert [field.name for field in buffer.fields][-1] == "discount"


def test_previous_of_another_kind_is_a_field_like_others():
    """Only one int64 beside what a step wants is an id that the library fills in."""
    for fields in ({**TRANSITION, "previous": "float32"}, {"previous": "int64"}):
        shapes = {name: of if isinstance(of, tuple) else ((), of) for name, of in fields.items()}
        with make(fields) as buffer:
            given = block(shapes, 0, 1)
            assert buffer.add(**{name: value[0] for name, value in given.items()}) == 1
            assert buffer.gather([0]).previous.tolist() == given["previous"].tolist()


def test_presets():
    """[Mnih et al. 2015; Horgan et al. 2018], and what is said beside them."""
    def config_of(fields, **settings):
        with make(fields, **{"capacity": 5000, "min_size": 10, "max_batch": 100, **settings}) as buffer:
            return buffer._form.config, [field.name for field in buffer.fields]

    config, names = config_of(ATARI, preset="nature-dueling")
    assert (config.layout, config.frame_stack, config.n_step, config.prioritized, config.reward_clip) == (1, 4, 1, 0, 1)
    assert names == list(ATARI)
    config, names = config_of(ATARI, preset="apex-dqn")
    assert (config.layout, config.n_step, config.prioritized, config.index_source) == (1, 3, 1, 0)
    assert names == [*ATARI, "discount"]
    config, names = config_of(ATARI, preset="apex-dqn", prioritized=False, n_step=1, layout="packed", reward_clip=0,
                              gamma=0.5)
    assert (config.layout, config.n_step, config.prioritized, config.index_source) == (0, 1, 0, 1)
    assert (config.reward_clip, config.gamma, names) == (0, 0.5, list(ATARI))
    config, _ = config_of(FRAMES, preset="nature-dqn", observations="frames")
    assert config.frame_stack == 4
    plan = gpureplay.ReplayBuffer.plan(None, ATARI, preset="nature-dqn")
    assert plan.frames == 1_000_000 + 1_000_000 // 64 and plan.frame_bytes == 84 * 84
    with make(preset="melee-gpu", min_size=1, max_batch=100, update_size=10) as buffer:
        assert buffer.capacity == 200 and buffer._form.config.reward_clip == 1


def test_the_plan_takes_every_setting():
    frames = gpureplay.ReplayBuffer.plan(10_000, FRAMES, frame_stack=4, observations="frames", num_envs=8, device="cpu")
    stacks = gpureplay.ReplayBuffer.plan(10_000, ATARI, frame_stack=4)
    packed = gpureplay.ReplayBuffer.plan(10_000, ATARI, frame_stack=4, layout="packed", prioritized=True)
    assert frames == stacks and frames.frame_ring_bytes == frames.frames * 84 * 84 and frames.priority_bytes == 0
    assert packed.frames == 0 and packed.ring_bytes > 7 * stacks.device_bytes
    assert 8 * 10_000 < packed.priority_bytes < 20 * 10_000
    with pytest.raises(TypeError, match=r"\['capacty'\] are no settings of a buffer; they are .*n_step"):
        gpureplay.ReplayBuffer.plan(10_000, ATARI, capacty=3)


def extend(buffer):
    """Transitions that can be given priorities, for they are seen."""
    buffer.extend(**block(TRANSITION, 0, 100))
    buffer.gather([0])


def test_beta_of_a_draw():
    """Weights are (N P)^-beta over the largest [Schaul et al. 2016, section 3.4]."""
    with make(prioritized=True, alpha=1.0, beta=(0.25, 0.75, 2), seed=1, max_batch=100) as buffer:
        extend(buffer)
        buffer.update_priorities(np.arange(100), 1.0 + np.arange(100))

        def exponent(**settings):
            batch = buffer.sample(100, **settings)
            logs = np.log(batch.weight), np.log(1.0 + batch.id)
            return -np.polyfit(logs[1], logs[0], 1)[0]

        found = [exponent(), exponent(), exponent(), exponent(beta=0.1), exponent(), exponent(beta=1)]
        np.testing.assert_allclose(found, [0.25, 0.5, 0.75, 0.1, 0.1, 1], atol=1e-3)
    with make() as buffer:
        buffer.extend(**block(TRANSITION, 0, 100))
        with pytest.raises(gpureplay.InvalidArgument, match="prioritized"):
            buffer.sample(10, beta=0.5)
        assert (buffer.sample(10).weights == 1).all()


def test_what_weights_are_divided_by():
    for norm, most in (("batch", 1), ("memory", None), ("none", None), (None, 1)):
        with make(prioritized="plain", alpha=1.0, beta=1.0, priority_offset=0.0, weight_norm=norm, seed=2,
                  max_batch=100) as buffer:
            extend(buffer)
            buffer.update_priorities(np.arange(100), np.r_[0.001, np.full(99, 2.0)])
            batch = buffer.sample(20)
            assert 0 not in batch.id
            wanted = {"memory": 0.001 / 2, "none": (0.001 + 99 * 2) / (100 * 2)}.get(norm, most)
            np.testing.assert_allclose(batch.weight, wanted, rtol=1e-3)


def test_the_schedules_of_draws_are_told_apart():
    rows = {field: values for field, values in block(TRANSITION, 0, 200).items()}
    drawn = []
    for prioritized in (False, True, "plain"):
        with make(prioritized=prioritized, seed=1, max_batch=100) as buffer:
            buffer.extend(**rows)
            drawn.append(sorted(buffer.sample(100).id.tolist()))
    # Of equal priorities, each row of a batch from its own two of 200: nobody is drawn thrice.
    assert drawn[1] != drawn[2] and all(at // 2 == number for number, at in enumerate(drawn[1]))
    assert max(map(drawn[2].count, drawn[2])) > 1 or max(map(drawn[0].count, drawn[0])) > 1
