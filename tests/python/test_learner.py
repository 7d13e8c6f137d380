# SPDX-License-Identifier: MIT
"""The learner from Python: settings, weights, acting, and what is refused."""

import gpureplay
import numpy as np
import pytest

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
NETWORK = {"outputs": 3, "trunk": [16, (8, "tanh")], "batch_size": 32}


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(1000, FIELDS, device="cpu") as made:
        random = np.random.default_rng(1)
        obs = random.normal(size=(500, 4))
        made.extend(obs=obs, action=random.integers(0, 3, 500), reward=obs[:, 0], next_obs=obs,
                    terminated=np.ones(500, bool))
        yield made


def test_it_learns_and_tells(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK, learning_rate=1e-2)
    learner.train(1)
    learner.sync()
    first = learner.stats
    learner.train(600)
    learner.sync()
    last = learner.stats
    assert (first.steps, last.steps, last.steps_enqueued) == (1, 601, 601) and last.mean_loss < first.loss / 10
    obs = np.eye(4, dtype=np.float32)
    assert np.abs(learner.q_values(obs)[:, 0] - [1, 0, 0, 0]).max() < 0.5


def forward(weights, obs):
    """The network, by hand."""
    hidden = np.maximum(obs @ weights["trunk.0.weight"].T + weights["trunk.0.bias"], 0)
    hidden = np.tanh(hidden @ weights["trunk.1.weight"].T + weights["trunk.1.bias"])
    names = [name for name in weights if not name.startswith("trunk")]
    weight, bias = sorted(names, reverse=True)
    return hidden @ weights[weight].T + weights[bias]


def test_weights_are_read_and_written_by_name(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK, head="q", hidden=0, seed=3)
    learner.train(5)
    obs = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    assert np.allclose(learner.q_values(obs), forward(learner.weights, obs), atol=1e-5)
    assert learner.act(obs).tolist() == learner.q_values(obs).argmax(axis=1).tolist()
    assert learner.q_values(obs[0]).shape == (1, 3) and learner.act(obs[0]).shape == (1,)
    saved = dict(learner.weights)
    learner.train(20)
    assert not np.array_equal(learner.weights["trunk.0.weight"], saved["trunk.0.weight"])
    learner.weights.load(saved)
    assert all(np.array_equal(learner.weights[name], saved[name]) for name in saved)
    learner.target_weights["trunk.0.bias"] = np.arange(16)
    assert learner.target_weights["trunk.0.bias"].tolist() == list(range(16))
    assert saved.keys() == learner.gradients.keys() and len(learner.weights) == len(saved)


def test_weights_that_do_not_fit_change_nothing(buffer):
    weights = gpureplay.DQN(buffer, **NETWORK).weights
    before = dict(weights)
    with pytest.raises(ValueError, match=r"trunk.0.weight has shape \(4, 16\); it must be \(16, 4\)"):
        weights.load({"trunk.0.bias": np.ones(16), "trunk.0.weight": np.ones((4, 16))})
    with pytest.raises(KeyError, match="'nothing' is no tensor of the network; they are trunk.0.weight"):
        weights.load({"trunk.0.bias": np.ones(16), "nothing": np.ones(3)})
    with pytest.raises(KeyError, match="'nothing' is no tensor"):
        weights["nothing"]
    with pytest.raises(gpureplay.InvalidArgument, match="belongs to the network"):
        del weights["trunk.0.bias"]
    assert all(np.array_equal(weights[name], before[name]) for name in before)


def test_epsilon_follows_the_schedule_and_acts_at_random(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK, exploration=(1.0, 0.5, 10, 5), max_act_batch=512)
    assert [learner.epsilon(step) for step in (0, 5, 10, 15, 99)] == [1.0, 1.0, 0.75, 0.5, 0.5]
    obs = np.zeros((512, 4), np.float32)
    assert set(learner.act(obs, 1.0).tolist()) == {0, 1, 2} and len(set(learner.act(obs, 0.0).tolist())) == 1
    assert learner.stats.acts == 1024


def test_training_on_ids_of_the_callers_choice(buffer):
    losses = []
    for ids in (range(32), range(32), range(100, 132)):
        learner = gpureplay.DQN(buffer, **NETWORK, seed=4)
        learner.train_on(ids)
        learner.sync()
        losses.append(learner.stats.loss)
    assert losses[0] == losses[1] != losses[2]


BAD = {
    "outputs missing": ({"outputs": None}, ValueError, "outputs"),
    "unknown setting": ({"learning_rat": 1}, TypeError, "'learning_rat' is no setting; they are trunk, head"),
    "choice": ({"loss": "mse"}, ValueError, "loss is 'mse'; it must be one of 'huber', 'squared'"),
    "activation": ({"trunk": [(8, "gelu")]}, ValueError, "activation in trunk is 'gelu'; it must be one of 'linear'"),
    "layers": ({"trunk": [8] * 9}, ValueError, "trunk has 9 layers; it may have 8"),
    "units": ({"trunk": ["wide"]}, TypeError, "units is 'wide'; it must be an integer"),
    "batch": ({"batch_size": 2.5}, TypeError, "batch_size is 2.5; it must be an integer"),
    "wrapping units": ({"trunk": [2**32 + 8]}, gpureplay.InvalidArgument, "units is 4294967304; it must be"),
    "rate": ({"learning_rate": "fast"}, TypeError, "learning_rate is 'fast'; it must be a number"),
    "schedule": ({"exploration": (1.0, 0.1)}, ValueError, r"exploration is \(1.0, 0.1\); it must be a number, \(first"),
    "delta": ({"huber_delta": -1.0}, gpureplay.InvalidArgument, "huber_delta is -1"),
    "choice of a list": ({"loss": ["huber"]}, ValueError, r"loss is \['huber'\]; it must be one of 'huber'"),
    "one layer": ({"trunk": 8}, TypeError, r"trunk is 8; it must be a list of units or \(units, activation\)"),
    "layer of three": ({"trunk": [(8, "relu", 2)]}, TypeError, r"trunk has \(8, 'relu', 2\); it must be a list of"),
    "preset of a number": ({"preset": 3}, TypeError, "preset is 3; it must be a name, or None"),
    "preset": ({"preset": "atari"}, gpureplay.InvalidArgument, "atari"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_refused(buffer, case):
    settings, error, text = BAD[case]
    with pytest.raises(error, match=text):
        gpureplay.DQN(buffer, **{**NETWORK, **settings})


def test_bad_calls_are_refused(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK)
    for call, error, text in (
            (lambda: learner.act(np.zeros((2, 5))), ValueError,
             r"obs has shape \(2, 5\); it must be \(count, 4\) or \(4,\)"),
            (lambda: learner.act(np.zeros((0, 4))), gpureplay.InvalidArgument, "count is 0"),
            (lambda: learner.act(np.zeros(4), 1.5), gpureplay.InvalidArgument, "1.5"),
            (lambda: learner.act(np.zeros(4), "often"), TypeError, "epsilon is 'often'; it must be a number"),
            (lambda: learner.act(np.zeros(4, complex)), TypeError, "obs is complex128"),
            (lambda: learner.act(3.0), ValueError, r"obs has shape \(\)"),
            (lambda: learner.train(-1), gpureplay.InvalidArgument, "-1"),
            (lambda: learner.train(1.5), TypeError, "steps is 1.5"),
            (lambda: learner.train_on([1, 2]), ValueError, r"ids has shape \(2,\); it must be \(32,\)"),
            (lambda: learner.train_on([9999] * 32), gpureplay.InvalidArgument, "9999")):
        with pytest.raises(error, match=text):
            call()
    assert learner.stats.steps_enqueued == 0 == learner.stats.acts


def test_a_buffer_without_what_it_learns_from_is_refused():
    with gpureplay.ReplayBuffer(100, {"x": "float32"}, device="cpu") as other:
        with pytest.raises(gpureplay.InvalidArgument, match="obs"):
            gpureplay.DQN(other, outputs=2)
    with pytest.raises(TypeError, match="buffer is None; it must be a gpureplay.ReplayBuffer"):
        gpureplay.DQN(None, outputs=2)
    with gpureplay.ReplayBuffer(100, FIELDS, device="cpu") as empty:
        with pytest.raises(gpureplay.TooFew, match="empty|visible"):
            gpureplay.DQN(empty, **NETWORK).train()


def test_nan_is_refused_unless_the_buffer_says_otherwise(buffer):
    bad = np.zeros((3, 4), np.float32)
    bad[1, 2] = np.nan
    learner = gpureplay.DQN(buffer, **NETWORK)
    before = {name: values.copy() for name, values in learner.weights.items()}
    for call, text in ((lambda: learner.act(bad), "obs has NaN, first in row 1 of 3"),
                       (lambda: learner.act(bad[1]), "obs has NaN, first in row 0 of 1"),
                       (lambda: learner.q_values(bad.tolist()), "obs has NaN, first in row 1 of 3"),
                       (lambda: learner.weights.load({name: values * np.nan for name, values in before.items()}),
                        "numbers of trunk.0.weight are NaN or infinite")):
        with pytest.raises(ValueError, match=text):
            call()
    assert learner.stats.acts == 0 and all((learner.weights[name] == values).all() for name, values in before.items())
    with gpureplay.ReplayBuffer(100, FIELDS, device="cpu", check_nan=False) as careless:
        assert gpureplay.DQN(careless, **NETWORK).act(bad).shape == (3,)
