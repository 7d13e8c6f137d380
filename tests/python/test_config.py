# SPDX-License-Identifier: MIT
"""Settings read back: of buffers, learners and presets; and outputs taken from the action space."""

import re
import threading

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _mirror
from gpureplay._learner_config import learner_config
from gpureplay._settings import of_learner

NUMBERS = {"obs": ((4,), "float32"), "action": ((), "int32"), "reward": ((), "float32"), "next_obs": ((4,), "float32"),
           "terminated": ((), "bool"), "truncated": ((), "bool")}
FRAMES = {**NUMBERS, "obs": ((4, 84, 84), "uint8"), "next_obs": ((4, 84, 84), "uint8")}
BUFFERS = {
    "default": (1000, {}),
    "small": (20, {}),
    "distinct": (5000, {"distinct": True, "seed": 7, "flush": "manual", "min_size": 30, "reward_clip": 2.5}),
    "priorities": (64_000, {"prioritized": "plain", "alpha": 0.7, "beta": (0.4, 1.0, 1000), "weight_norm": "memory"}),
    "begin": (64_000, {"prioritized": True, "beta": (0.4, 1.0, 1000, 5)}),
    "steps": (3000, {"n_step": 3, "gamma": 0.9, "update_size": 17, "max_batch": 11}),
    "linked": (3000, {"layout": "linked", "num_envs": 3, "autoreset": "next_step"}),
}
AGENTS = {
    "default": {},
    "network": {"trunk": [64, (32, "tanh")], "head": "dueling", "hidden": 16, "seed": 3, "max_act_batch": 9},
    "optimizer": {"optimizer": "rmsprop_torch", "centered": 1, "learning_rate": (1e-3, 1e-4, 100), "clip_norm": 1},
    "draws": {"distinct": True, "batch_size": 7, "exploration": (1.0, 0.05, 200)},
}
PRESETS = ["melee-gpu", "melee-dqn", "melee-double", "nature-dqn", "nature-dueling", "apex-dqn", "cartpole"]


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
        assert config["max_batch"] == most(buffer)
        config["capacity"] = 0
        assert buffer.config["capacity"] == capacity


def most(buffer):
    """The largest batch that is drawn, by trying."""
    with pytest.raises(gpureplay.InvalidArgument) as refused:
        buffer.sample(2**40)
    return int(re.search(r"max_batch = (\d+)", str(refused.value))[1])


def test_the_defaults_are_the_librarys_at_any_capacity():
    for layout in ("packed", "linked"):
        for capacity in (70, 1000, 20_000, 31_999, 40_000, 127_999, 200_000):
            plan = gpureplay.ReplayBuffer.plan
            with gpureplay.ReplayBuffer(capacity, NUMBERS, device="cpu", layout=layout) as buffer:
                config = buffer.config
            filled = {key: config[key] for key in ("max_batch", "update_size", "frame_slack")}
            assert plan(capacity, NUMBERS, layout=layout, **filled) == plan(capacity, NUMBERS, layout=layout), capacity


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
    fields = FRAMES if found.buffer.get("layout") == "linked" else NUMBERS
    if name == "cartpole":
        assert found.buffer == {}
    else:
        assert found.buffer["capacity"] >= 1_000_000
        by_name = gpureplay.ReplayBuffer.plan(None, fields, preset=name)
        assert gpureplay.ReplayBuffer.plan(fields=fields, **found.buffer) == by_name
        small = {"device": "cpu", "capacity": 2000, "fields": fields, "max_batch": 512, "update_size": 16,
                 "min_size": 50}
        with gpureplay.ReplayBuffer(preset=name, **small) as one:
            with gpureplay.ReplayBuffer(**{**found.buffer, **small}) as other:
                assert one.config == other.config
    for source in (_mirror.UNIFORM, _mirror.PRIORITIZED):
        assert of_learner(learner_config(None, found.agent, source)) == of_learner(learner_config(name, {}, source))


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
        assert gpureplay.DQN(buffer, trunk=[8]).config["outputs"] == 5
        assert gpureplay.DQN(buffer, 5, trunk=[8]).config["outputs"] == 5
        assert gpureplay.DQN(buffer, preset="cartpole").config["outputs"] == 5
        for wrong in (4, 6):
            with pytest.raises(ValueError, match=rf"outputs is {wrong}; it must be 5, .* Discrete\(5\)"):
                gpureplay.DQN(buffer, wrong, trunk=[8])
        with pytest.raises(TypeError, match="outputs is 'five'"):
            gpureplay.DQN(buffer, "five")
    env = gymnasium.make("CartPole-v1")
    with gpureplay.ReplayBuffer.for_env(100, env, device="cpu") as buffer:
        assert gpureplay.DQN(buffer, trunk=[8]).config["outputs"] == 2
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu") as buffer:  # says nothing of actions
        assert gpureplay.DQN(buffer, 7, trunk=[8]).config["outputs"] == 7
        with pytest.raises(gpureplay.InvalidArgument, match="outputs"):
            gpureplay.DQN(buffer, trunk=[8])


def test_actions_that_begin_elsewhere_are_refused_with_what_to_do():
    with spaced(gymnasium.spaces.Discrete(3, start=1)) as buffer:
        for outputs in (None, 3):
            with pytest.raises(ValueError, match=r"first action is 1; .* make it Discrete\(3\), and add 1"):
                gpureplay.DQN(buffer, outputs, trunk=[8])
        assert gpureplay.DQN(buffer, 4, trunk=[8]).config["outputs"] == 4


def test_more_observations_than_max_act_batch_are_acted_on():
    with gpureplay.ReplayBuffer(100, NUMBERS, device="cpu") as buffer:
        small = gpureplay.DQN(buffer, 3, trunk=[16], seed=2, max_act_batch=7)
        large = gpureplay.DQN(buffer, 3, trunk=[16], seed=2, max_act_batch=100)
        obs = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
        for count in (1, 6, 7, 8, 14, 100):
            assert np.array_equal(small.act(obs[:count]), large.act(obs[:count])), count
            assert np.allclose(small.q_values(obs[:count]), large.q_values(obs[:count]), atol=1e-6), count
        stop, equal = threading.Event(), np.tile(obs[0], (1024, 1))
        trainer = threading.Thread(target=lambda: [large.train() for _ in iter(stop.is_set, True)])
        buffer.extend(obs=obs, action=np.zeros(100, np.int32), reward=np.zeros(100, np.float32), next_obs=obs,
                      terminated=np.zeros(100, bool))
        trainer.start()
        try:
            for _ in range(30):  # one call is answered by one network, while another thread trains
                answered = large.q_values(equal)
                assert np.ptp(answered, axis=0).max() < 1e-6
        finally:
            stop.set()
            trainer.join()
        random = small.act(np.zeros((3000, 4)), epsilon=1.0)
        assert random.shape == (3000,) and (np.bincount(random, minlength=3) > 800).all()
        assert small.stats.acts == 136 + 3000


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
