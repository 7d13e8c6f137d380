# SPDX-License-Identifier: MIT
"""Soft actor-critic: its settings, policies that draw or act by the mean, a task, replays of rows, lanes, priorities
and demonstrations, files, and what is refused. Its train steps are compared in C."""

import gpureplay
import numpy as np
import pytest
from support import needs_files

ROWS, FEATURES, ACTIONS = 64, 4, 2
NETWORKS = {"actor": {"trunk": [(8, "tanh")], "learning_rate": 1e-2},
            "critic": {"trunk": [(12, "tanh")], "learning_rate": 2e-2}}


def rows_of(count=ROWS):
    random = np.random.default_rng(5)
    return {"obs": random.normal(size=(count, FEATURES)).astype(np.float32),
            "action": random.uniform(-1, 1, (count, ACTIONS)).astype(np.float32),
            "reward": random.normal(size=count).astype(np.float32),
            "next_obs": random.normal(size=(count, FEATURES)).astype(np.float32),
            "terminated": np.arange(count) % 5 == 0}


def buffer_of(rows, capacity=1000, **settings):
    fields = {name: (values.shape[1:], values.dtype.name) for name, values in rows.items()}
    buffer = gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", "gamma": 0.9, **settings})
    buffer.extend(**rows)
    return buffer


def make(rows, **settings):
    return gpureplay.SAC(buffer_of(rows), **{**NETWORKS, "batch_size": ROWS, "distinct": True, "seed": 3, **settings})


def trained(learner, steps=9):
    learner.train(steps)
    learner.sync()
    assert learner.stats.steps == steps and np.isfinite(learner.stats.actor_loss)
    return {name: value.copy() for name, value in learner.weights.items()}


def test_it_has_the_settings_of_its_paper_and_takes_others():
    buffer = buffer_of(rows_of())
    config = gpureplay.SAC(buffer).config
    assert config["actor"]["trunk"] == config["critic"]["trunk"] == [(256, "relu"), (256, "relu")]
    assert config["actor"]["learning_rate"] == config["temperature_optimizer"]["learning_rate"] == 3e-4
    assert config["actor"]["head"] == "squashed_gaussian" and config["critics"] == 2 and config["batch_size"] == 256
    assert config["target_rate"] == 0.005 and config["target_period"] == 1 and config["target_entropy"] == -1
    assert config["temperature"] == 1 and config["fixed_temperature"] is False
    learner = make(rows_of(), temperature=0.5, fixed_temperature=True, critics=1,
                   temperature_optimizer={"learning_rate": 1e-3})
    assert learner.config["temperature_optimizer"]["learning_rate"] == 1e-3 and "critic.q.out.bias" in learner.weights
    assert repr(learner).startswith("<gpureplay.SAC, actions of 2 numbers, on cpu; batch_size=64, target_period=1")
    trained(learner)
    assert learner.stats.temperature == pytest.approx(0.5) and learner.stats.entropy != 0


def test_fast_sac_has_the_settings_of_its_code_and_trains():
    buffer = buffer_of(rows_of())
    config = gpureplay.FastSAC(buffer, batch_size=ROWS).config
    assert config["actor"]["trunk"] == [(units, "relu", "layer_norm") for units in (512, 256, 128)]
    assert config["critic"]["trunk"] == [(units, "relu", "layer_norm") for units in (768, 384, 192)]
    assert config["actor"]["learning_rate"] == 3e-4 and config["actor"]["beta2"] == pytest.approx(0.95)
    assert config["actor"]["weight_decay"] == config["critic"]["weight_decay"] == 0.001
    assert config["temperature_optimizer"]["weight_decay"] == 0.01
    assert config["critic"]["head"] == "categorical" and config["critic"]["atoms"] == 101
    assert config["critic"]["v_min"] == -20 and config["critic"]["v_max"] == 20
    assert config["temperature"] == pytest.approx(0.001) and config["target_entropy"] == 0
    assert config["target_rate"] == 0.125 and config["critics"] == 2
    learner = gpureplay.FastSAC(buffer, **NETWORKS, batch_size=32)
    assert repr(learner).startswith("<gpureplay.FastSAC, actions of 2 numbers, on cpu; batch_size=32")
    trained(learner)


def test_the_temperature_is_a_weight_that_is_learned_and_can_be_set():
    learner = make(rows_of(), temperature=0.25)
    assert learner.stats.temperature == 0.25
    assert learner.weights["temperature.log_alpha"] == pytest.approx([np.log(0.25)], rel=1e-6)
    trained(learner)
    assert learner.stats.temperature != 0.25 and learner.gradients["temperature.log_alpha"].shape == (1,)
    learner.weights["temperature.log_alpha"] = np.array([-2], np.float32)
    learner.train()
    learner.sync()
    assert learner.stats.temperature == pytest.approx(np.exp(-2), rel=1e-5)


def test_the_critics_alone_have_targets():
    learner = make(rows_of())
    critics = {name: value for name, value in learner.weights.items() if name.startswith("critic.")}
    assert list(learner.target_weights) == list(critics)
    assert all(np.array_equal(value, critics[name]) for name, value in learner.target_weights.items())
    with pytest.raises(KeyError, match="is no tensor of the network; they are critic.1"):
        _ = learner.target_weights["actor.trunk.0.weight"]


def test_policies_draw_or_act_by_the_mean():
    rows = rows_of()
    learner = make(rows)
    policy = learner.policy(max_batch=ROWS)
    greedy, drawn = policy.act_vectors(rows["obs"], greedy=True), policy.act_vectors(rows["obs"], steps=1)
    assert greedy.shape == (ROWS, ACTIONS) and (np.abs(drawn) <= 1).all() and (drawn != greedy).any()
    assert (policy.act_vectors(rows["obs"], steps=1) == drawn).all()
    trained(learner)
    policy.pull(learner)
    assert policy.version == 9 and (policy.act_vectors(rows["obs"], greedy=True) != greedy).any()


def check_goes_on(first, second, path):
    first.save(path)
    second.load(path)
    first.train(7)
    second.train(7)
    for name, value in first.weights.items():
        assert np.array_equal(value, second.weights[name]), name


@needs_files
@pytest.mark.parametrize("critic", [{"head": "quantiles", "atoms": 11},
                                    {"head": "categorical", "atoms": 21, "v_min": -6.0, "v_max": 3.0}])
def test_critics_learn_distributions(critic, tmp_path):
    networks = {**NETWORKS, "critic": {**NETWORKS["critic"], **critic}}
    first, second = make(rows_of(), **networks), make(rows_of(), **networks)
    assert critic.items() <= first.config["critic"].items()
    trained(first, 20)
    check_goes_on(first, second, tmp_path / "sac.safetensors")
    with pytest.raises(gpureplay.InvalidArgument, match="head"):
        make(rows_of()).load(tmp_path / "sac.safetensors")


def test_an_actor_learns_the_best_action_and_its_entropy_the_target():
    """The reward is -4 |a - f(s)|^2, and each episode has one step."""
    rows = rows_of(2000)
    best = 0.5 * np.tanh(rows["obs"][:, :ACTIONS])
    rows.update(reward=-4 * ((rows["action"] - best)**2).sum(1).astype(np.float32), terminated=np.ones(2000, bool))
    networks = {"actor": {"trunk": [32, 32], "learning_rate": 3e-3},
                "critic": {"trunk": [64, 32], "learning_rate": 5e-3}}
    learner = gpureplay.SAC(buffer_of(rows, capacity=2000, prioritized=True), batch_size=64, **networks,
                            temperature_optimizer={"learning_rate": 1e-2})
    before = learner.policy(max_batch=2000).act_vectors(rows["obs"], greedy=True)
    trained(learner, 2000)
    after = learner.policy(max_batch=2000).act_vectors(rows["obs"], greedy=True)
    assert np.abs(after - best).mean() < 0.12 and np.abs(after - best).mean() < np.abs(before - best).mean() / 2
    assert learner.stats.entropy == pytest.approx(-ACTIONS, abs=1)


@needs_files
def test_training_goes_on_from_a_file_and_a_policy_opens_it(tmp_path):
    first, second = make(rows_of()), make(rows_of(), temperature=0.5)
    trained(first, 5)
    check_goes_on(first, second, tmp_path / "sac.safetensors")
    first.save(tmp_path / "sac.safetensors")
    with gpureplay.Policy.open(tmp_path / "sac.safetensors", device="cpu", seed=3) as policy:
        obs = rows_of()["obs"]
        assert policy.version == 12 and policy.config["head"] == "squashed_gaussian"
        assert (policy.act_vectors(obs, greedy=True) == first.policy(max_batch=64).act_vectors(obs, greedy=True)).all()


def test_it_trains_with_demonstrations_n_steps_and_lanes():
    rows = rows_of()
    buffer = buffer_of(rows)
    demonstrations = buffer_of(rows_of(50), device=buffer.device)
    trained(gpureplay.SAC(buffer, **NETWORKS, batch_size=32, demonstrations=demonstrations))
    lanes = gpureplay.LaneBuffer(8, 64, {"obs": ((FEATURES,), "float32"), "action": ((ACTIONS,), "float32")}, n_step=3,
                                 device="cpu")
    random = np.random.default_rng(2)
    for _ in range(40):
        lanes.add(action=random.uniform(-1, 1, (8, ACTIONS)).astype(np.float32),
                  obs=random.normal(size=(8, FEATURES)).astype(np.float32),
                  reward=random.normal(size=8).astype(np.float32), terminated=random.random(8) < 0.1,
                  truncated=np.zeros(8, bool))
    trained(gpureplay.SAC(lanes, **NETWORKS, batch_size=32))


def test_what_does_not_fit_is_refused():
    buffer = buffer_of(rows_of())
    for settings, error, text in (
            ({"temperature": 0.0}, gpureplay.InvalidArgument, "temperature is 0; it must be above 0, and finite"),
            ({"critics": 3}, gpureplay.InvalidArgument, "critics is 3; it must be 1 to 2"),
            ({"target_rate": 0.0}, gpureplay.InvalidArgument, "target_rate is 0; it must be above 0"),
            ({"actor": {"head": "tanh_action"}}, gpureplay.InvalidArgument,
             'actor: head is "tanh_action"; it must be "squashed_gaussian"'),
            ({"temperature_optimizer": 1e-3}, TypeError, "temperature_optimizer is 0.001; it must be a dict"),
            ({"temperature_optimizer": {"trunk": [3]}}, TypeError, "'trunk' is no setting of temperature_optimizer"),
            ({"temperature_optimizer": {"learning_rate": -1}}, gpureplay.InvalidArgument,
             "temperature_optimizer: learning_rate goes from -1"),
            ({"fixed_temperature": 2}, gpureplay.InvalidArgument, "fixed_temperature is 2; it must be 0 or 1"),
            ({"critic": {"trunk": [("conv", 1, 1)]}}, gpureplay.InvalidArgument,
             r"critic: trunk\[0\] is a convolution \(\"conv\"\); soft actor-critic needs dense layers")):
        with pytest.raises(error, match=text):
            gpureplay.SAC(buffer, **settings)
