# SPDX-License-Identifier: MIT
"""The learner: training, acting, weights, networks on images, what is refused; and the losses of print_losses.c."""

import os
import subprocess
import warnings

import gpureplay
import gymnasium
import numpy as np
import pytest
from support import DEVICE, needs_files

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
NETWORK = {"num_actions": 3, "trunk": [16, (8, "tanh")], "batch_size": 32}


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(1000, FIELDS, device=DEVICE) as made:
        random = np.random.default_rng(1)
        obs = random.normal(size=(500, 4))
        made.extend(obs=obs, action=random.integers(0, 3, 500), reward=obs[:, 0], next_obs=obs.copy(),
                    terminated=np.ones(500, bool))
        yield made


def test_it_learns_and_reports(buffer):
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
    """The network in NumPy."""
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


@pytest.mark.parametrize("layer", [
    (16, "tanh", "layer_norm"), {"dense": 16, "activation": "tanh", "norm": "layer_norm"}])
def test_layers_are_normalized(buffer, layer):
    settings = {**NETWORK, "trunk": [layer, 8], "head": "q", "hidden": 0}
    learner = gpureplay.DQN(buffer, **settings)
    assert learner.config["trunk"] == [(16, "tanh", "layer_norm"), (8, "relu")]
    assert learner.weights["trunk.0.norm.weight"].tolist() == [1] * 16
    assert learner.weights["trunk.0.norm.bias"].tolist() == [0] * 16
    learner.train(50)
    obs = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    w = dict(learner.weights)
    assert np.abs(w["trunk.0.norm.weight"] - 1).max() > 1e-3
    x = obs @ w["trunk.0.weight"].T + w["trunk.0.bias"]
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    x = np.tanh(x * w["trunk.0.norm.weight"] + w["trunk.0.norm.bias"])
    x = np.maximum(x @ w["trunk.1.weight"].T + w["trunk.1.bias"], 0)
    assert np.allclose(learner.q_values(obs), x @ w["q.out.weight"].T + w["q.out.bias"], atol=1e-5)
    with pytest.raises(ValueError, match=r"layers without normalization; trunk\[0\]"):
        gpureplay.DQN(buffer, **settings, step_kernel="fused")


@needs_files
def test_files_say_which_layers_are_normalized(buffer, tmp_path):
    settings = {**NETWORK, "trunk": [(16, "relu", "layer_norm")]}
    learner, path = gpureplay.DQN(buffer, **settings), tmp_path / "learner.safetensors"
    learner.train(20)
    learner.save(path)
    obs = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    policy = gpureplay.Policy.open(path, device=DEVICE)
    assert policy.config["trunk"] == [(16, "relu", "layer_norm")]
    assert np.array_equal(policy.q_values(obs), learner.q_values(obs))
    with pytest.raises(gpureplay.InvalidArgument, match=r'trunk\[0\] is \(16, "relu", "layer_norm"\) in the file'):
        gpureplay.DQN(buffer, **{**settings, "trunk": [16]}).load(path)


def test_targets_are_copied_softly(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK, target_period=1, target_rate=0.25)
    before = dict(learner.target_weights)
    learner.train(1)
    for name, new in learner.weights.items():
        wanted = before[name] + 0.25 * (new - before[name])
        assert np.allclose(learner.target_weights[name], wanted, rtol=1e-5, atol=1e-7)


def test_weights_decay(buffer):
    """With gradients clipped to nothing that is all that they do."""
    learner = gpureplay.DQN(buffer, **NETWORK, clip_value=1e-30, weight_decay=0.5, learning_rate=0.1)
    before = dict(learner.weights)
    learner.train(2)
    for name, new in learner.weights.items():
        assert np.allclose(new, before[name] * 0.95**2, rtol=1e-5, atol=1e-7)


def test_target_rates_out_of_range_are_refused(buffer):
    with pytest.raises(ValueError, match="target_rate is 0; it must be above 0, and at most 1"):
        gpureplay.DQN(buffer, **NETWORK, target_rate=0)


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
    learner = gpureplay.DQN(buffer, **NETWORK, exploration=(1.0, 0.5, 10, 5))
    assert [learner.epsilon(step) for step in (0, 5, 10, 15, 99)] == [1.0, 1.0, 0.75, 0.5, 0.5]
    obs = np.zeros((512, 4), np.float32)
    assert set(learner.act(obs, 1.0).tolist()) == {0, 1, 2} and len(set(learner.act(obs, 0.0).tolist())) == 1
    assert learner.stats.actions == 1024


def test_training_on_ids_of_the_callers_choice(buffer):
    losses = []
    for ids in (range(32), range(32), range(100, 132)):
        learner = gpureplay.DQN(buffer, **NETWORK, seed=4)
        learner.train_ids(ids)
        learner.sync()
        losses.append(learner.stats.loss)
    assert losses[0] == losses[1] != losses[2]


def test_it_trains_on_returns_of_several_steps(buffer):
    cache = {"cache_size": 400, "block_length": 20, "lambda_": 0.5, "draw": "replacement", "storage": "physical",
             "prioritization": (0.1, 0.0, 50), "truncation_terminates": True}
    with gpureplay.ReplayBuffer(1000, {**FIELDS, "truncated": "bool", "previous": "int64"}, device=DEVICE) as made:
        obs = np.random.default_rng(1).normal(size=(500, 4))
        flags = np.zeros(500, bool)
        made.extend(obs=obs, action=np.zeros(500, int), reward=np.ones(500), next_obs=obs.copy(), terminated=flags,
                    truncated=flags, previous=np.arange(500) - 1)
        learner = gpureplay.DQN(made, **NETWORK, double_dqn=False, **cache)
        assert {name: learner.config[name] for name in cache} == cache
        assert gpureplay.DQN(made, **learner.config).config == learner.config
        with pytest.raises(gpureplay.TooFew):
            learner.train()
        for _ in range(30):
            learner.refresh()
            learner.train(12)
        learner.sync()
        stats = learner.stats
        assert (stats.steps, stats.refreshes, stats.missing_rows) == (360, 30, 0) and stats.cache_bytes > 400 * 8
        assert learner.q_values(obs[:9])[:, 0].min() > 3  # each return has the rewards of many steps
    with pytest.raises(gpureplay.InvalidArgument, match="cache"):
        gpureplay.DQN(buffer, **NETWORK).refresh()
    with pytest.raises(gpureplay.InvalidArgument, match="lambda_ is 0.5 and cache_size 0, .* must be above 0"):
        gpureplay.DQN(buffer, **NETWORK, lambda_=0.5)
    with pytest.raises(gpureplay.InvalidArgument, match="cache_size is 400 .* must be made with sequences=True"):
        gpureplay.DQN(buffer, **NETWORK, **cache)
    assert "cache_size" not in gpureplay.DQN(buffer, **NETWORK).config


def test_a_refresh_that_finds_no_block_is_told_of_once():
    with gpureplay.ReplayBuffer(100, {**FIELDS, "previous": "int64"}, device=DEVICE) as made:
        ids, obs = np.arange(30), np.zeros((30, 4))  # of two environments in turn
        made.extend(obs=obs, action=0 * ids, reward=1.0 * ids, next_obs=obs.copy(), terminated=ids < 0,
                    previous=np.maximum(ids - 2, -1))
        learner = gpureplay.DQN(made, **NETWORK, double_dqn=False, cache_size=40, block_length=20, lambda_=0.5)
        learner.refresh()
        learner.train(3)
        with pytest.warns(RuntimeWarning, match="^1 refresh found no 20 successive transitions") as told:
            learner.sync()
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert learner.stats.empty_refreshes == 1


BAD = {
    "estimator": ({"estimator": "sarsa"}, ValueError, "estimator is 'sarsa'; it must be one of 'peng', 'n-step'"),
    "lambda": ({"lambda_": "half"}, TypeError, "lambda_? is 'half'; it must be a number"),
    "num_actions missing": ({"num_actions": None}, ValueError, "num_actions"),
    "setting of the device": ({"deterministic": True}, TypeError, r"'deterministic' is no .* its device: device=Dev"),
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
    "one layer": ({"trunk": 8}, TypeError, r"trunk is 8; it must be a list of units or \(units, activation"),
    "layer of three": ({"trunk": [(8, "relu", 2)]}, TypeError, r"trunk has \(8, 'relu', 2\); it must be a list of"),
    "preset of a number": ({"preset": 3}, TypeError, "preset is 3; it must be a name, or None"),
    "preset": ({"preset": "atari"}, gpureplay.InvalidArgument, "atari"),
}


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
            (lambda: learner.train_ids([1, 2]), ValueError, r"ids has shape \(2,\); it must be \(32,\)"),
            (lambda: learner.train_ids([9999] * 32), gpureplay.InvalidArgument, "9999")):
        with pytest.raises(error, match=text):
            call()
    assert learner.stats.steps_enqueued == 0 == learner.stats.actions


def test_a_buffer_without_what_it_learns_from_is_refused():
    with gpureplay.ReplayBuffer(100, {"x": "float32"}, device=DEVICE) as other:
        with pytest.raises(gpureplay.InvalidArgument, match="obs"):
            gpureplay.DQN(other, num_actions=2)
    with pytest.raises(TypeError, match="buffer is None; it must be a gpureplay.ReplayBuffer"):
        gpureplay.DQN(None, num_actions=2)
    with gpureplay.ReplayBuffer(100, FIELDS, device=DEVICE) as empty:
        with pytest.raises(gpureplay.TooFew, match="empty|visible"):
            gpureplay.DQN(empty, **NETWORK).train()


def test_nan_is_refused_unless_the_buffer_says_otherwise(buffer):
    bad = np.zeros((3, 4), np.float32)
    bad[1, 2] = np.nan
    learner = gpureplay.DQN(buffer, **NETWORK)
    before = {name: values.copy() for name, values in learner.weights.items()}
    for call, text in ((lambda: learner.act(bad), '"obs" is NaN in row 1 of 3'),
                       (lambda: learner.act(bad[1]), '"obs" is NaN in row 0 of 1'),
                       (lambda: learner.q_values(bad.tolist()), '"obs" is NaN in row 1 of 3'),
                       (lambda: learner.weights.load({name: values * np.nan for name, values in before.items()}),
                        "numbers of trunk.0.weight are NaN or infinite")):
        with pytest.raises(ValueError, match=text):
            call()
    assert learner.stats.actions == 0 and all((learner.weights[name] == values).all() for name,
                                              values in before.items())
    with gpureplay.ReplayBuffer(100, FIELDS, device=DEVICE, check_nan=False) as careless:
        agent = gpureplay.DQN(careless, **NETWORK)
        assert agent.act(bad).shape == (3,)
        # A hidden layer's ReLU does not hide it.
        assert np.isnan(agent.q_values(bad)).any(axis=1).tolist() == np.isnan(bad).any(axis=1).tolist()


# Convolutions and sampling by priority from Python: how layers are written, and what is refused.


CONVOLUTIONS = [("conv", 8, 3, 2, 1), ("conv", 8, 3), 24]


def make(count=300, **settings):
    """Images of noise, with random rewards, and nothing follows."""
    obs = (3, 10, 12), "uint8"
    fields = {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}
    made = gpureplay.ReplayBuffer(1000, fields, device=gpureplay.Device(DEVICE, threads=1), **settings)
    random = np.random.default_rng(4)
    images = random.integers(0, 256, (count, *obs[0])).astype(np.uint8)
    made.extend(obs=images, action=random.integers(0, 2, count), reward=random.normal(size=count),
                next_obs=images.copy(), terminated=np.ones(count, bool))
    return made, images


def net(**more):
    return {"num_actions": 2, "trunk": CONVOLUTIONS, "input_scale": 1 / 255, "batch_size": 32, "learning_rate": 3e-3,
            "seed": 2, **more}


WRITTEN = {
    "tuples": [("conv", 8, 3, 2, 1, "tanh"), ("conv", 6, 2), (16, "relu"), 8],
    "dicts": [{"conv": 8, "kernel": 3, "stride": 2, "padding": 1, "activation": "tanh"}, {"conv": 6, "kernel": 2},
              {"dense": 16}, {"dense": 8, "activation": "relu"}],
    "lists": [["conv", 8, 3, 2, 1, "tanh"], ["conv", 6, 2, 1, 0, "relu"], [16], [8]],
    "steps left out": [("conv", 8, 3, 2, 1, "tanh"), ("conv", 6, 2, "relu"), {"dense": 16, "activation": "relu"}, 8],
}


def test_layers_are_written_in_many_forms():
    buffer, images = make()
    with buffer:
        first, *others = (gpureplay.DQN(buffer, **net(trunk=layers)) for layers in WRITTEN.values())
        assert [first.weights[f"trunk.{at}.weight"].shape for at in range(4)] == [
            (8, 3, 3, 3), (6, 2, 2, 8), (16, 4 * 5 * 6), (8, 16)]
        for other in others:
            assert np.array_equal(first.q_values(images[:5]), other.q_values(images[:5]))


def test_same_padding_and_a_shift_are_as_numpy_computes_them():
    buffer, images = make()
    with buffer:
        forms = [("conv", 4, 4, 3, "same"), ("conv", 4, 4, 3, "same", "relu"),
                 {"conv": 4, "kernel": 4, "stride": 3, "padding": "same"}]
        first, *others = (gpureplay.DQN(buffer, **net(trunk=[layer, 8])) for layer in forms)
        assert first.config["trunk"][0] == ("conv", 4, 4, 3, "same", "relu") and first.config["input_shift"] == 0
        values = first.q_values(images[:5])
        for other in others:
            assert np.array_equal(values, other.q_values(images[:5]))
        shifted = gpureplay.DQN(buffer, **net(trunk=[forms[0], 8], input_scale=1 / 128, input_shift=-1))
        assert shifted.config["input_shift"] == -1
        w = {name: np.asarray(tensor) for name, tensor in shifted.weights.items()}
        # 10 rows become 4 with 1 above and 2 below; 12 columns become 4 with 1 behind them.
        x = np.pad(images[:5] / 128 - 1, ((0, 0), (0, 0), (1, 2), (0, 1)))
        patches = np.lib.stride_tricks.sliding_window_view(x, (4, 4), axis=(2, 3))[:, :, ::3, ::3]
        y = np.einsum("ncijuv,fuvc->nijf", patches, w["trunk.0.weight"]) + w["trunk.0.bias"]
        y = np.maximum(np.maximum(y, 0).reshape(5, -1) @ w["trunk.1.weight"].T + w["trunk.1.bias"], 0)
        np.testing.assert_allclose(shifted.q_values(images[:5]), y @ w["q.out.weight"].T + w["q.out.bias"], atol=1e-5)


BAD_IMAGES = {
    "no kernel": ({"trunk": [("conv", 8)]}, TypeError, r"trunk has \('conv', 8\); it must be a list of units"),
    "no filters": ({"trunk": [("conv",)]}, TypeError, "units is 'conv'; it must be an integer"),
    "too much": ({"trunk": [("conv", 8, 3, 2, 1, 1)]}, TypeError, r"trunk has \('conv', 8, 3, 2, 1, 1\); it must be"),
    "nothing": ({"trunk": [()]}, TypeError, r"trunk has \(\); it must be"),
    "None": ({"trunk": [None]}, TypeError, "trunk has None; it must be"),
    "another word": ({"trunk": [("pool", 2, 2)]}, TypeError, r"trunk has \('pool', 2, 2\); it must be"),
    "another name": ({"trunk": [{"conv": 8, "kernel": 3, "dilation": 2}]}, TypeError, "dilation.* it must be a list"),
    "no kind": ({"trunk": [{"kernel": 3}]}, TypeError, "kernel.* it must be a list"),
    "two kinds": ({"trunk": [{"conv": 3, "dense": 3}]}, TypeError, "dense.* it must be a list"),
    "a dense kernel": ({"trunk": [{"dense": 3, "kernel": 3}]}, TypeError, "kernel.* it must be a list"),
    "text": ({"trunk": [("conv", 8, "3", 2)]}, TypeError, "kernel is '3'; it must be an integer"),
    "activation": ({"trunk": [("conv", 8, 3, "gelu")]}, ValueError, "activation in trunk is 'gelu'; it must be one of"),
    "stride": ({"trunk": [("conv", 8, 3, 0)]}, gpureplay.InvalidArgument, "stride is 0"),
    "padding": ({"trunk": [("conv", 8, 3, 1, 3)]}, gpureplay.InvalidArgument, "padding is 3"),
    "padding of a word": ({"trunk": [("conv", 8, 3, 1, "full", "relu")]}, TypeError,
                          "padding is 'full'; it must be an integer or 'same'"),
    "shift": ({"input_shift": float("nan")}, gpureplay.InvalidArgument, "input_shift is nan; it must be finite"),
    "order": ({"trunk": [8, ("conv", 8, 3)]}, gpureplay.InvalidArgument, "trunk"),
    "layout": ({"input_layout": "nchw"}, ValueError, "input_layout is 'nchw'; it must be one of 'auto', 'chw', 'hwc'"),
    "too large": ({"trunk": [("conv", 8, 11)]}, gpureplay.InvalidArgument, "kernel"),
    "beta": ({"beta": (0.4, 1.0)}, ValueError, r"beta is \(0.4, 1.0\); it must be a number, \(first"),
    "negative beta": ({"beta": -1}, gpureplay.InvalidArgument, "beta"),
    "no priorities": ({"prioritized": True}, gpureplay.InvalidArgument, "prioritized"),
    "no priorities, by preset": ({"preset": "apex-dqn"}, gpureplay.InvalidArgument, "prioritized"),
    "a word": ({"prioritized": "rank"}, ValueError,
               "prioritized is 'rank'; it must be True, False, \"independent\" or None"),
    "a list": ({"prioritized": [1]}, ValueError,
               r"prioritized is \[1\]; it must be True, False, \"independent\" or None"),
    "both": ({"prioritized": "independent", "distinct": True}, ValueError,
             "distinct is True and prioritized 'independent'; a"),
}


@pytest.mark.parametrize("case", [*BAD, *(f"images: {case}" for case in BAD_IMAGES)])
def test_bad_settings_are_refused(buffer, case):
    settings, error, text = BAD[case] if case in BAD else BAD_IMAGES[case.removeprefix("images: ")]
    images, _ = make(count=40)
    source, good = (buffer, NETWORK) if case in BAD else (images, net())
    with images, pytest.raises(error, match=text):
        gpureplay.DQN(source, **{**good, **settings})


def written(learner, buffer):
    """How many priorities a train step gives."""
    before = buffer.priority_stats.updates
    learner.train(1)
    learner.sync()
    return buffer.priority_stats.updates - before


def test_a_learner_samples_as_the_buffer_unless_set():
    buffer, _ = make(prioritized="independent")
    with buffer:
        cases = [({}, 32), ({"prioritized": True}, 32), ({"prioritized": False}, 0), ({"distinct": True}, 0),
                 ({"distinct": False}, 32), ({"preset": "nature-dqn"}, 32),
                 ({"prioritized": False, "distinct": True}, 0)]
        for settings, count in cases:
            assert written(gpureplay.DQN(buffer, **net(**settings)), buffer) == count, settings
        with pytest.raises(gpureplay.TooFew, match="distinct|400"):
            gpureplay.DQN(buffer, **net(distinct=True, batch_size=400)).train(1)
        most = buffer.capacity // 2  # stay visible while others come; as many as that may be drawn with replacement
        with pytest.raises(gpureplay.InvalidArgument, match=f"batch_size is {most + 1} .* at most {most}, the transit"):
            gpureplay.DQN(buffer, **net(distinct=True, batch_size=most + 1))
        gpureplay.DQN(buffer, **net(batch_size=most + 1)).close()


# The same trainings as print_losses.c, with the same bits.


PROGRAM = os.environ.get("GPUREPLAY_PRINT_LOSSES")
ROWS, OBS, STEPS = 500, 5, 100


IMAGE = (8, 7, 3)
DENSE = {"head": "dueling", "hidden": 16, "trunk": [(24, "tanh"), 20], "optimizer": "rmsprop_torch",
         "learning_rate": (3e-3, 1e-3, 80, 10), "distinct": True}
CONVOLUTIONAL = {"trunk": [("conv", 6, 3, 2, 1), {"conv": 4, "kernel": 2, "activation": "tanh"}, 20],
                "input_layout": "hwc", "input_scale": 1 / 255, "beta": (0.4, 1.0, 60, 5)}


def fill(buffer, images):
    row, i, flat = np.arange(ROWS)[:, None], np.arange(OBS), np.arange(ROWS)
    obs, next_obs = (row * 7 + i * 3) % 11 / 4 - 1, (row * 5 + i * 2) % 13 / 4 - 1.5
    if images:
        pixel = np.arange(np.prod(IMAGE))
        obs, next_obs = ((row * a + pixel * b) % c for a, b, c in ((7, 3, 251), (5, 2, 253)))
        obs, next_obs = obs.reshape(ROWS, *IMAGE), next_obs.reshape(ROWS, *IMAGE)
    buffer.extend(obs=obs, next_obs=next_obs, action=flat % 3, reward=flat % 9 / 2 - 2, terminated=flat % 17 == 0)


def losses(executor, images):
    obs = (IMAGE, "uint8") if images else ((OBS,), "float32")
    fields = {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}
    device = gpureplay.Device("cpu", executor=executor)
    more = {"prioritized": True, "alpha": 0.7} if images else {}
    with gpureplay.ReplayBuffer(400, fields, device=device, seed=5, gamma=0.9, **more) as buffer:
        fill(buffer, images)
        learner = gpureplay.DQN(buffer, num_actions=3, batch_size=48, target_period=30, seed=11,
                                **(CONVOLUTIONAL if images else DENSE))
        for _ in range(STEPS):
            learner.train(1)
            learner.sync()
            stats = learner.stats
            yield np.array([stats.loss, stats.mean_q, stats.gradient_norm], np.float32).view(np.uint32)


# The extension module only adds rows, which the vectors test.
ONCE = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST", "off") != "off", reason="run without the extension module")


@pytest.mark.skipif(PROGRAM is None, reason="GPUREPLAY_PRINT_LOSSES does not name the program print_losses")
@pytest.mark.parametrize("executor", ["inline", "thread"])
@pytest.mark.parametrize("images", [False, pytest.param(True, marks=ONCE)], ids=["vectors", "images"])
def test_the_losses_are_those_of_the_c_program(executor, images):
    command = [PROGRAM, *["images"] * images]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    wanted = [line.split() for line in done.stdout.splitlines()]
    got = [[f"{bits:08x}" for bits in step] for step in losses(executor, images)]
    assert got == wanted and len(got) == STEPS and len({loss for loss, _, _ in got}) > STEPS // 2


def test_the_mean_of_the_losses_can_be_read_twice(buffer):
    learner = gpureplay.DQN(buffer, **NETWORK)
    learner.train(10)
    learner.sync()
    first = learner.stats
    assert first.mean_loss == learner.stats.mean_loss > 0
    learner.train(1)
    learner.sync()
    assert learner.stats.mean_loss == np.float32(learner.stats.loss) != first.mean_loss


def part_of(space):
    """An environment with such observations."""
    class Env(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 1.0, False, False, {}
    return Env()


BOXES = {"a": gymnasium.spaces.Box(-1, 1, (2,), np.float32), "b": gymnasium.spaces.Box(-1, 1, (3,), np.float32)}
PARTS = {
    "Dict": gymnasium.spaces.Dict(BOXES),
    "Tuple": gymnasium.spaces.Tuple(BOXES.values()),
    "Dict of numbers": gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(3), "b": gymnasium.spaces.Discrete(4)}),
}


@pytest.mark.parametrize("learner", [lambda buffer: gpureplay.DQN(buffer, trunk=[8], batch_size=8), gpureplay.DDPG])
@pytest.mark.parametrize("name", PARTS)
def test_a_buffer_of_a_dict_is_refused_and_the_advice_helps(name, learner):
    env = part_of(PARTS[name])
    with gpureplay.ReplayBuffer.for_env(100, env, device="cpu") as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match=r"as obs\.\w of .*, obs\.\w of .*one array.*flatten=T"):
            learner(buffer)
    with gpureplay.ReplayBuffer.for_env(100, env, device="cpu", flatten=True) as buffer:
        obs, _ = env.reset(seed=1)
        for _ in range(20):
            next_obs, reward, terminated, truncated, _ = env.step(0)
            buffer.add(obs=obs, action=0, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
            obs = next_obs
        agent = gpureplay.DQN(buffer, trunk=[8], batch_size=8)
        agent.train(3)
        agent.sync()
        assert agent.stats.steps == 3


def test_weights_go_to_pytorch_as_the_guide_says():
    torch = pytest.importorskip("torch")
    fields = {"obs": ((2, 9, 7), "float32"), "action": "int64", "reward": "float32", "next_obs": ((2, 9, 7), "float32"),
              "terminated": "bool"}
    with gpureplay.ReplayBuffer(64, fields, device="cpu") as buffer:
        agent = gpureplay.DQN(buffer, num_actions=3, trunk=[("conv", 4, 3), ("conv", 5, 2, 2), 6], input_layout="chw")
        weights = {name: np.asarray(array).copy() for name, array in agent.weights.items()}
        layers = (torch.nn.Conv2d(2, 4, 3), torch.nn.Conv2d(4, 5, 2, 2), torch.nn.Linear(5 * 3 * 2, 6),
                  torch.nn.Linear(6, 3))
        net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), torch.nn.Flatten(), layers[2],
                                  torch.nn.ReLU(), layers[3])
        h, w, c = 3, 2, 5
        for layer, (name, weight) in zip(layers, [item for item in weights.items() if item[0].endswith("weight")]):
            if weight.ndim == 4:
                weight = np.asarray(weight).transpose(0, 3, 1, 2)
            elif weight.shape[1] == h * w * c:
                weight = np.asarray(weight).reshape(-1, h, w, c).transpose(0, 3, 1, 2).reshape(-1, c * h * w)
            layer.weight.data = torch.from_numpy(np.ascontiguousarray(weight))
            layer.bias.data = torch.from_numpy(weights[name.replace("weight", "bias")])
        obs = np.random.default_rng(1).standard_normal((4, 2, 9, 7)).astype(np.float32)
        found = net(torch.from_numpy(obs)).detach().numpy()
        assert np.allclose(agent.q_values(obs), found, rtol=1e-4, atol=1e-5)
