# SPDX-License-Identifier: MIT
"""Convolutions and draws by priority from Python: what is learnt, how layers are said, and what is refused."""

import gpureplay
import numpy as np
import pytest

SHAPES = {"chw": (3, 10, 12), "hwc": (10, 12, 3)}
CONVOLUTIONS = [("conv", 8, 3, 2, 1), ("conv", 8, 3), 24]


def make(layout="chw", count=300, **settings):
    """Images of noise; the reward is how bright one corner is, and nothing follows."""
    obs = {"chw": (3, 10, 12), "hwc": (10, 12, 3)}[layout], "uint8"
    fields = {"obs": obs, "action": "int32", "reward": "float32", "next_obs": obs, "terminated": "bool"}
    made = gpureplay.ReplayBuffer(1000, fields, device=gpureplay.Device("cpu", threads=1), **settings)
    random = np.random.default_rng(4)
    images = random.integers(0, 256, (count, *obs[0])).astype(np.uint8)
    corner = (slice(None), 0) if layout == "chw" else (slice(None), slice(None), slice(None), 0)
    reward = images[corner].reshape(count, 10, 12)[:, :4, :4].mean(axis=(1, 2)) / 32 - 4
    made.extend(obs=images, action=random.integers(0, 2, count), reward=reward, next_obs=images,
                terminated=np.ones(count, bool))
    return made, images


def net(**more):
    return {"outputs": 2, "trunk": CONVOLUTIONS, "input_scale": 1 / 255, "batch_size": 32, "learning_rate": 3e-3,
            "seed": 2, **more}


@pytest.mark.parametrize("prioritized", [False, True, "plain"])
@pytest.mark.parametrize("layout", SHAPES)
def test_the_loss_on_a_fixed_replay_falls(layout, prioritized):
    buffer, images = make(layout, prioritized=prioritized)
    with buffer:
        learner = gpureplay.DQN(buffer, **net(input_layout=layout))
        losses = []
        for steps in (40, 200, 20):
            learner.train(steps)
            learner.sync()
            losses.append(learner.stats.mean_loss)
        assert losses[2] < losses[0] / 3
        stack = learner.weights["trunk.0.weight"]
        assert stack.shape == (8, 3, 3, 3) and learner.weights["trunk.1.weight"].shape == (8, 3, 3, 8)
        assert learner.q_values(images[:7]).shape == (7, 2) and learner.act(images[0]).shape == (1,)


def test_planes_and_pixels_are_the_same_image():
    made = {layout: make(layout) for layout in SHAPES}
    learners = {layout: gpureplay.DQN(buffer, **net(input_layout=layout)) for layout, (buffer, _) in made.items()}
    planes = made["chw"][1][:9]
    q = [learners["chw"].q_values(planes), learners["hwc"].q_values(np.moveaxis(planes, 1, 3))]
    assert np.allclose(*q, atol=1e-5) and np.ptp(q[0]) > 0.01
    assert not np.allclose(q[0], learners["hwc"].q_values(planes.reshape(9, *SHAPES["hwc"])), atol=1e-3)


SAID = {
    "tuples": [("conv", 8, 3, 2, 1, "tanh"), ("conv", 6, 2), (16, "relu"), 8],
    "dicts": [{"conv": 8, "kernel": 3, "stride": 2, "padding": 1, "activation": "tanh"}, {"conv": 6, "kernel": 2},
              {"dense": 16}, {"dense": 8, "activation": "relu"}],
    "lists": [["conv", 8, 3, 2, 1, "tanh"], ["conv", 6, 2, 1, 0, "relu"], [16], [8]],
    "steps left out": [("conv", 8, 3, 2, 1, "tanh"), ("conv", 6, 2, "relu"), {"dense": 16, "activation": "relu"}, 8],
}


def test_layers_are_said_in_many_ways():
    buffer, images = make()
    with buffer:
        first, *others = (gpureplay.DQN(buffer, **net(trunk=said)) for said in SAID.values())
        assert [first.weights[f"trunk.{at}.weight"].shape for at in range(4)] == [
            (8, 3, 3, 3), (6, 2, 2, 8), (16, 4 * 5 * 6), (8, 16)]
        for other in others:
            assert np.array_equal(first.q_values(images[:5]), other.q_values(images[:5]))


BAD = {
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
    "order": ({"trunk": [8, ("conv", 8, 3)]}, gpureplay.InvalidArgument, "trunk"),
    "layout": ({"input_layout": "nchw"}, ValueError, "input_layout is 'nchw'; it must be one of 'chw', 'hwc'"),
    "too large": ({"trunk": [("conv", 8, 11)]}, gpureplay.InvalidArgument, "kernel"),
    "beta": ({"beta": (0.4, 1.0)}, ValueError, r"beta is \(0.4, 1.0\); it must be a number, \(first"),
    "negative beta": ({"beta": -1}, gpureplay.InvalidArgument, "beta"),
    "no priorities": ({"prioritized": True}, gpureplay.InvalidArgument, "prioritized"),
    "no priorities, by preset": ({"preset": "apex-dqn"}, gpureplay.InvalidArgument, "prioritized"),
    "a word": ({"prioritized": "rank"}, ValueError, "prioritized is 'rank'; it must be True, False, \"plain\" or None"),
    "a list": ({"prioritized": [1]}, ValueError, r"prioritized is \[1\]; it must be True, False, \"plain\" or None"),
    "both": ({"prioritized": "plain", "distinct": True}, ValueError, "distinct is True and prioritized 'plain'; a"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_refused(case):
    settings, error, text = BAD[case]
    buffer, _ = make(count=40)
    with buffer, pytest.raises(error, match=text):
        gpureplay.DQN(buffer, **net(**settings))


def written(learner, buffer):
    """How many priorities a train step gives."""
    before = buffer.priority_stats.updates
    learner.train(1)
    learner.sync()
    return buffer.priority_stats.updates - before


def test_a_learner_draws_as_the_buffer_unless_told():
    buffer, _ = make(prioritized="plain")
    with buffer:
        cases = [({}, 32), ({"prioritized": True}, 32), ({"prioritized": False}, 0), ({"distinct": True}, 0),
                 ({"distinct": False}, 32), ({"preset": "nature-dqn"}, 32),
                 ({"prioritized": False, "distinct": True}, 0)]
        for settings, count in cases:
            assert written(gpureplay.DQN(buffer, **net(**settings)), buffer) == count, settings
        with pytest.raises(gpureplay.TooFew, match="distinct|400"):
            gpureplay.DQN(buffer, **net(distinct=True, batch_size=400)).train(1)


def test_errors_become_priorities():
    buffer, images = make(count=32, prioritized=True)
    with buffer:
        learner = gpureplay.DQN(buffer, **net(), target_period=1000, double_dqn=False)
        held = buffer.gather(range(32))
        q = learner.q_values(images)[np.arange(32), held.action]
        learner.train_on(range(32))
        learner.sync()
        assert np.allclose(buffer.get_priorities(range(32)), np.abs(held.reward - q) + 1e-6, atol=1e-4)


def test_the_published_networks_are_there():
    fields = {"obs": ((4, 84, 84), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((4, 84, 84), "uint8"),
              "terminated": "bool"}
    shapes = {}
    for preset, size in (("nature-dqn", 32), ("nature-dueling", 32), ("apex-dqn", 512)):
        with gpureplay.ReplayBuffer(2000, fields, preset=preset, device="cpu", min_size=1, max_batch=512) as buffer:
            learner = gpureplay.DQN(buffer, 6, preset)
            assert learner._batch_size == size
            shapes[preset] = {name: learner.weights._shape(name) for name in learner.weights}
    convolutions = {"trunk.0.weight": (32, 8, 8, 4), "trunk.1.weight": (64, 4, 4, 32), "trunk.2.weight": (64, 3, 3, 64)}
    assert all(convolutions.items() <= found.items() for found in shapes.values())
    assert shapes["nature-dueling"] == shapes["apex-dqn"] != shapes["nature-dqn"]
