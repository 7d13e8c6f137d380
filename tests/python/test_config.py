# SPDX-License-Identifier: MIT
"""The settings of buffers and learners: what they do, how they are given, which presets there are, what is refused, and
the plan."""

import functools
import itertools
import re

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _c_api
from gpureplay._choices import CHOICES
from gpureplay._config import learner_config, settings_of_learner
from support import TRANSITION, block

# Settings read back: of buffers, learners and presets; and outputs taken from the action space.


NUMBERS = {"obs": ((4,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((4,), "float32"),
           "terminated": ((), "bool"), "truncated": ((), "bool")}
FRAMES = {**NUMBERS, "obs": ((4, 84, 84), "uint8"), "next_obs": ((4, 84, 84), "uint8")}
BUFFERS = {
    "default": (1000, {}),
    "small": (20, {}),
    "distinct": (5000, {"distinct": True, "seed": 7, "flush": "manual", "min_size": 30, "reward_clip": 2.5}),
    "priorities": (64_000,
                   {"prioritized": "independent", "alpha": 0.7, "beta": (0.4, 1.0, 1000), "weight_norm": "memory"}),
    "begin": (64_000, {"prioritized": True, "beta": (0.4, 1.0, 1000, 5)}),
    "steps": (3000, {"n_step": 3, "gamma": 0.9, "block_rows": 17, "max_batch": 11}),
    "frames": (3000, {"layout": "frames", "num_envs": 3, "autoreset": "next_step"}),
}
AGENTS = {
    "default": {},
    "network": {"trunk": [64, (32, "tanh")], "head": "dueling", "hidden": 16, "seed": 3},
    "optimizer": {"optimizer": "rmsprop_torch", "centered": 1, "learning_rate": (1e-3, 1e-4, 100), "clip_norm": 1},
    "samples": {"distinct": True, "batch_size": 7, "exploration": (1.0, 0.05, 200)},
    "quantiles": {"head": "quantiles", "atoms": 32, "huber_delta": 0.0},
    "atoms": {"head": "categorical", "atoms": 21, "v_min": 0.0, "v_max": 500.0},
}
PRESETS = ["melee-gpu", "melee-dqn", "melee-double", "nature-dqn", "nature-dueling", "qr-dqn", "c51", "apex-dqn",
           "cartpole"]


@pytest.mark.parametrize("name", BUFFERS)
def test_a_buffer_made_from_its_config_is_the_same(name):
    capacity, options = BUFFERS[name]
    with gpureplay.ReplayBuffer(capacity, NUMBERS, device="cpu", **options) as buffer:
        config = buffer.config
        with gpureplay.ReplayBuffer(**config) as other:
            assert other.config == config
        given = {"capacity": capacity, "fields": NUMBERS, "device": "cpu", **options}
        assert {key: config[key] for key in given} == given
        settings = {key: value for key, value in config.items() if key not in ("capacity", "fields", "device",
                                                                               "num_envs", "autoreset", "check_nan")}
        # Defaults that were filled in are those of the library.
        assert gpureplay.ReplayBuffer.plan(capacity, NUMBERS, **settings) == gpureplay.ReplayBuffer.plan(
            capacity, NUMBERS, **{key: value for key, value in options.items() if key != "autoreset"})
        assert config["max_batch"] == largest_batch(buffer)
        config["capacity"] = 0
        assert buffer.config["capacity"] == capacity


def largest_batch(buffer):
    """The largest batch that `sample` accepts, by trying."""
    with pytest.raises(gpureplay.InvalidArgument) as refused:
        buffer.sample(2**40)
    return int(re.search(r"max_batch = (\d+)", str(refused.value))[1])


def test_the_defaults_are_the_librarys_at_any_capacity():
    for layout in ("rows", "frames"):
        for capacity in (70, 1000, 20_000, 31_999, 40_000, 127_999, 200_000):
            for more in ({}, {"n_step": 5}, {"frame_stack": 4}, {"frame_stack": 4, "n_step": 3}):
                plan, settings = gpureplay.ReplayBuffer.plan, {"layout": layout, **more}
                with gpureplay.ReplayBuffer(capacity, NUMBERS, device="cpu", **settings) as buffer:
                    config = buffer.config
                filled = {key: config[key] for key in ("max_batch", "block_rows", "extra_frames")}
                assert plan(capacity, NUMBERS, **settings, **filled) == plan(capacity, NUMBERS, **settings), settings


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_made_from_its_config_is_the_same(name):
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu") as buffer:
        config = gpureplay.DQN(buffer, 3, **AGENTS[name]).config
        assert gpureplay.DQN(buffer, **config).config == config
        for key, value in AGENTS[name].items():
            assert config[key] == ([(64, "relu"), (32, "tanh")] if key == "trunk" else value), key


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_values_make_what_its_name_makes(name):
    found = gpureplay.preset(name)
    fields = FRAMES if found.buffer.get("layout") == "frames" else NUMBERS
    if name == "cartpole":
        assert found.buffer == {}
    else:
        assert found.buffer["capacity"] >= 1_000_000
        by_name = gpureplay.ReplayBuffer.plan(None, fields, preset=name)
        assert gpureplay.ReplayBuffer.plan(fields=fields, **found.buffer) == by_name
        small = {"device": "cpu", "capacity": 2000, "fields": fields, "max_batch": 512, "block_rows": 16,
                 "min_size": 50, "seed": 1}
        with gpureplay.ReplayBuffer(preset=name, **small) as one:
            with gpureplay.ReplayBuffer(**{**found.buffer, **small}) as other:
                assert one.config == other.config
    for source in (_c_api.UNIFORM, _c_api.PRIORITIZED_STRATIFIED):
        by_settings, by_name = learner_config(None, found.agent, source), learner_config(name, {}, source)
        assert settings_of_learner(by_settings) == settings_of_learner(by_name)


def test_presets_tell_what_was_published():
    found = gpureplay.preset("apex-dqn")
    assert found.buffer["capacity"] == 2_000_000 and found.buffer["n_step"] == 3 and found.buffer["alpha"] == 0.6
    assert found.agent["batch_size"] == 512 and found.agent["trunk"][0] == ("conv", 32, 8, 4, 0, "relu")
    with pytest.raises(gpureplay.InvalidArgument, match="\"nobody\"; there are melee-gpu, .*, cartpole"):
        gpureplay.preset("nobody")
    with pytest.raises(TypeError, match="preset is 3"):
        gpureplay.preset(3)


def test_their_repr_shows_the_main_settings():
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu", n_step=3) as buffer:
        text = repr(buffer)
        assert text.startswith("<gpureplay.ReplayBuffer, 0 of 100 transitions on cpu; obs float32[4], action int32")
        assert "n_step=3" in text and "prioritized=False" in text
        agent = gpureplay.DQN(buffer, 3, trunk=[8], batch_size=16)
        text = repr(agent)
        assert text.startswith("<gpureplay.DQN, 3 actions, on cpu; trunk=[(8, 'relu')]") and "batch_size=16" in text
    assert repr(buffer) == "<gpureplay.ReplayBuffer, closed>" and repr(agent) == "<gpureplay.DQN, 3 actions, closed>"
    assert buffer.config["capacity"] == 100 and agent.config["batch_size"] == 16


def spaced(action, **options):
    return gpureplay.ReplayBuffer(200, gymnasium.spaces.Box(-1, 1, (4,), np.float32), action, device="cpu", **options)


def test_outputs_are_the_action_spaces():
    with spaced(gymnasium.spaces.Discrete(5)) as buffer:
        assert gpureplay.DQN(buffer, trunk=[8]).config["num_actions"] == 5
        assert gpureplay.DQN(buffer, 5, trunk=[8]).config["num_actions"] == 5
        assert gpureplay.DQN(buffer, preset="cartpole").config["num_actions"] == 5
        for wrong in (4, 6):
            with pytest.raises(ValueError, match=rf"num_actions is {wrong}; it must be 5, .* Discrete\(5\)"):
                gpureplay.DQN(buffer, wrong, trunk=[8])
        with pytest.raises(TypeError, match="num_actions is 'five'"):
            gpureplay.DQN(buffer, "five")
    env = gymnasium.make("CartPole-v1")
    with gpureplay.ReplayBuffer.for_env(100, env, device="cpu") as buffer:
        assert gpureplay.DQN(buffer, trunk=[8]).config["num_actions"] == 2
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu") as buffer:  # it has no action space
        assert gpureplay.DQN(buffer, 7, trunk=[8]).config["num_actions"] == 7
        with pytest.raises(gpureplay.InvalidArgument, match="num_actions"):
            gpureplay.DQN(buffer, trunk=[8])


def test_actions_that_begin_elsewhere_are_refused_with_what_to_do():
    with spaced(gymnasium.spaces.Discrete(3, start=1)) as buffer:
        for num_actions in (None, 3):
            with pytest.raises(ValueError, match=r"first action is 1; .* make it Discrete\(3\), and add 1"):
                gpureplay.DQN(buffer, num_actions, trunk=[8])
        assert gpureplay.DQN(buffer, 4, trunk=[8]).config["num_actions"] == 4


def test_any_number_of_observations_is_acted_on():
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu") as buffer:
        small, large = (gpureplay.DQN(buffer, 3, trunk=[16], seed=2) for _ in range(2))
        obs = np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32)
        large.act(obs)
        for count in (1, 63, 64, 65, 130, 300):
            assert np.array_equal(small.act(obs[:count]), large.act(obs[:count])), count
            assert np.allclose(small.q_values(obs[:count]), large.q_values(obs[:count]), atol=1e-6), count
        random = small.act(np.zeros((3000, 4)), epsilon=1.0)
        assert (np.bincount(random, minlength=3) > 800).all() and small.stats.actions == 623 + 3000


def test_every_space_fits_or_is_refused_at_once():
    spaces = gymnasium.spaces
    box, discrete = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)
    for fits in (box, discrete, spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(4), spaces.Dict(a=box, b=discrete),
                 spaces.Tuple([box, spaces.Dict(a=discrete)])):
        with gpureplay.ReplayBuffer(100, fits, discrete, device="cpu") as buffer:
            assert len(buffer.fields) >= 6
    for wrong in (spaces.OneOf([box, discrete]), spaces.Text(5), spaces.Sequence(box), spaces.Graph(box, None),
                  spaces.Dict(a=spaces.OneOf([box, box]))):
        for given in ((wrong, discrete), (box, wrong)):
            with pytest.raises(TypeError, match="is a (OneOf|Text|Sequence|Graph); it must be a Box, Discrete"):
                gpureplay.ReplayBuffer(100, *given, device="cpu")


# The settings of a buffer: what they do, which presets there are, what is refused, and the plan.


ATARI = {"obs": ((4, 84, 84), "uint8"), "action": "int64", "reward": "float32", "next_obs": ((4, 84, 84), "uint8"),
         "terminated": "bool", "truncated": "bool"}
FRAME_FIELDS = {**ATARI, "obs": ((84, 84), "uint8"), "next_obs": ((84, 84), "uint8")}
STEPS = {**TRANSITION, "obs": ((4, 3), "float32"), "next_obs": ((4, 3), "float32")}


def make(fields=TRANSITION, capacity=200, **settings):
    return gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", **settings})


REFUSED = {
    "no capacity": ({"capacity": None}, TypeError, "capacity is None; it must be a number of transitions, or there "),
    "no such preset": ({"preset": "atari"}, ValueError, 'no replay preset "atari"; there are "melee-gpu"'),
    "a preset of no name": ({"preset": 3}, TypeError, "preset is 3; it must be a name, or None"),
    "prioritized": ({"prioritized": "rank"}, ValueError,
                    "prioritized is 'rank'; it must be True, False, \"independent\""),
    "prioritized of a list": ({"prioritized": [1]}, ValueError, r"prioritized is \[1\]; it must be True, False, "),
    "prioritized of an array": ({"prioritized": np.array([True, False])}, ValueError, r"prioritized is array\("),
    "distinct": ({"distinct": "x"}, TypeError, "distinct is 'x'; it must be True or False"),
    "check_nan": ({"check_nan": "x"}, TypeError, "check_nan is 'x'; it must be True or False"),
    **{f"{name} of 0": ({name: 0}, ValueError, f"{name} is 0; it must be 1 or more, or None for the default")
       for name in ("frame_stack", "max_batch", "block_rows")},
    "distinct by priority": ({"prioritized": True, "distinct": True}, ValueError, "distinct is True and the buffer "
                             "prioritized; a sample by priority may take a transition twice"),
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
    "layout": ({"layout": "sparse"}, ValueError, "layout is 'sparse'; it must be one of 'rows', 'frames'"),
    "stack_axis": ({"stack_axis": -1}, ValueError, "stack_axis is -1; it must be one of 'first', 'last'"),
    "stack_pad": ({"stack_pad": "reset"}, ValueError, "stack_pad is 'reset'; it must be one of 'zero', 'repeat'"),
    "extra_frames": ({"fields": STEPS, "frame_stack": 4, "extra_frames": -1}, ValueError,
                     "extra_frames is -1; it must"),
    "observations": ({"observations": "pixels"}, ValueError, "observations is 'pixels'; it must be one of 'stacks', "
                     "'frames'"),
    "frames as rows": ({"observations": "frames"}, ValueError, 'observations is "frames" and layout "rows"; stacks '
                      'are made of frames by layout "frames"'),
    "steps without obs": ({"fields": {"x": "float32", "reward": "float32"}, "n_step": 2}, ValueError,
                          "there is no field 'obs'; with n_step above 1"),
    "frames without obs": ({"fields": {"x": "float32"}, "layout": "frames"}, ValueError, "there is no field 'obs'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_setting_is_refused(case):
    settings, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        make(**settings)


def test_leaves_of_a_space_cannot_be_folded():
    gymnasium = pytest.importorskip("gymnasium")
    box, keys = gymnasium.spaces.Box(-1, 1, (3,), np.float32), gymnasium.spaces.Discrete(3)
    with pytest.raises(ValueError, match="no field 'obs'.*each one array: of a Dict or Tuple space flatten=True"):
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


def test_arguments_override_a_preset():
    def config_of(fields, **settings):
        with make(fields, **{"capacity": 5000, "min_size": 10, "max_batch": 100, **settings}) as buffer:
            return buffer._spec.config, [field.name for field in buffer.fields]

    config, names = config_of(ATARI, preset="apex-dqn")
    assert (config.layout, config.n_step, config.prioritized, config.index_source) == (1, 3, 1, 0)
    assert names == [*ATARI, "discount"]
    config, names = config_of(ATARI, preset="apex-dqn", prioritized=False, n_step=1, layout="rows", reward_clip=0,
                              gamma=0.5)
    assert (config.layout, config.n_step, config.prioritized, config.index_source) == (0, 1, 0, 1)
    assert (config.reward_clip, config.gamma, names) == (0, 0.5, list(ATARI))
    config, _ = config_of(FRAME_FIELDS, preset="nature-dqn", observations="frames")
    assert config.frame_stack == 4


def test_the_plan_takes_every_setting():
    frames = gpureplay.ReplayBuffer.plan(10_000, FRAME_FIELDS, frame_stack=4, observations="frames", num_envs=8,
                                         device="cpu")
    stacks = gpureplay.ReplayBuffer.plan(10_000, ATARI, frame_stack=4)
    as_rows = gpureplay.ReplayBuffer.plan(10_000, ATARI, frame_stack=4, layout="rows", prioritized=True)
    assert frames == stacks and frames.frame_ring_bytes == frames.frames * 84 * 84 and frames.priority_bytes == 0
    assert as_rows.frames == 0 and as_rows.ring_bytes > 7 * stacks.device_bytes
    assert 8 * 10_000 < as_rows.priority_bytes < 20 * 10_000
    with pytest.raises(TypeError, match=r"\['capacty'\] are no settings of a buffer; they are .*n_step"):
        gpureplay.ReplayBuffer.plan(10_000, ATARI, capacty=3)


# What settings do is tested in C. Here: each word and number reaches the library. The numbers are the header's.
REACHED = {
    "uniform": ({}, {"index_source": 0, "prioritized": 0, "flush": 0, "layout": 0}),
    "distinct": ({"distinct": True, "flush": "manual", "gamma": 0.5, "reward_clip": 2.0, "min_size": 7, "seed": 2**63},
                 {"index_source": 2, "flush": 1, "gamma": 0.5, "reward_clip": 2.0, "min_size": 7, "seed": 2**63}),
    "by priority": ({"prioritized": True, "alpha": 1, "priority_offset": 0.5, "weight_norm": "memory", "beta": 0.5},
                    {"index_source": 3, "prioritized": 1, "alpha": 1.0, "priority_offset": 0.5, "weight_norm": 1,
                     "beta.first": 0.5, "beta.steps": 0}),
    "independent": ({"prioritized": "independent", "weight_norm": "none", "beta": (0.25, 0.75, 20, 3)},
              {"index_source": 4, "prioritized": 1, "weight_norm": 2, "beta.first": 0.25, "beta.last": 0.75,
               "beta.steps": 20, "beta.begin": 3}),
    "frames": ({"fields": STEPS, "frame_stack": 4, "stack_pad": "repeat", "extra_frames": 30, "n_step": 3},
               {"layout": 1, "frame_stack": 4, "stack_axis": 0, "stack_pad": 1, "extra_frames": 30, "n_step": 3}),
    "sizes": ({"block_rows": 5, "max_batch": 9}, {"block_rows": 5, "max_batch": 9, "capacity": 200}),
}


@pytest.mark.parametrize("case", REACHED)
def test_settings_reach_the_library(case):
    settings, wanted = REACHED[case]
    with make(**settings) as buffer:
        config = buffer._spec.config
        assert {name: functools.reduce(getattr, name.split("."), config) for name in wanted} == wanted


@pytest.mark.parametrize("setting", sorted(CHOICES.keys() - {"initial_priorities"}))  # which is 0 or 1 in C
def test_a_word_stands_for_the_constant_whose_name_ends_in_it(setting):
    for word, code in CHOICES[setting].items():
        end = word.upper().replace("-", "_")
        named = {name: value for name, value in vars(_c_api).items() if name.endswith(end)}
        assert code in named.values(), f"{setting}={word!r} is {code}, and the header has {named}"


def test_buffers_without_a_seed_draw_other_positions_in_the_same_order_each_time(monkeypatch):
    def draws(**settings):
        with gpureplay.ReplayBuffer(1000, {"x": "int64"}, device="cpu", **settings) as buffer:
            buffer.extend(x=np.arange(1000))
            return buffer.config["seed"], buffer.sample(64).x.tolist()

    first, second, given = draws(), draws(), draws(seed=0)
    assert [seed for seed, _ in (first, second, given)] == [0, 1, 0]
    assert first[1] != second[1] and given == first
    monkeypatch.setattr("gpureplay._buffer._seeds", itertools.count())  # as in the next process
    assert (draws(), draws()) == (first, second)
