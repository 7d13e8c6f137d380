# SPDX-License-Identifier: MIT
"""Learners that draw a part of each batch from a second buffer."""

import gc

import gpureplay
import numpy as np
import pytest
from gpureplay import data
from support import DEVICE, needs_files

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
SPACE = {**FIELDS, "action": ((2,), "float32")}


@pytest.fixture(scope="module")
def device():
    with gpureplay.Device(DEVICE) as opened:
        yield opened


def buffer_of(device, count, seed=0, fields=FIELDS, **settings):
    rng = np.random.default_rng(seed)
    buffer = gpureplay.ReplayBuffer(1000, fields, device=device, **settings)
    action = rng.integers(0, 2, count, dtype=np.int32) if fields is FIELDS else \
        rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    if count:
        buffer.extend(obs=rng.normal(size=(count, 4)).astype(np.float32), action=action,
                      reward=rng.normal(size=count).astype(np.float32),
                      next_obs=rng.normal(size=(count, 4)).astype(np.float32), terminated=np.zeros(count, bool))
    return buffer


def test_half_of_a_batch_are_demonstrations_and_both_buffers_get_priorities(device):
    own, shown = buffer_of(device, 500, prioritized=True), buffer_of(device, 20, 1, prioritized=True)
    agent = gpureplay.DQN(own, 2, batch_size=32, trunk=[16], demonstrations=shown)
    assert agent.config["demonstration_ratio"] == 0.5
    agent.train(10)
    agent.sync()
    assert own.priority_stats.updates == shown.priority_stats.updates == 160


@pytest.mark.parametrize(("ratio", "rows"), [(0.25, 8), (0.03125, 1), (0.96875, 31)])
def test_a_ratio_is_a_number_of_rows(device, ratio, rows):
    own, shown = (buffer_of(device, count, fields=SPACE, prioritized=True) for count in (500, 20))
    agent = gpureplay.DDPG(own, actor={"trunk": [16]}, critic={"trunk": [16]}, batch_size=32, demonstrations=shown,
                           demonstration_ratio=ratio)
    agent.train(3)
    agent.sync()
    assert (own.priority_stats.updates, shown.priority_stats.updates) == (3 * (32 - rows), 3 * rows)


@needs_files
def test_a_learner_goes_on_from_its_files(device, tmp_path):
    def agent_of(count):
        own, shown = buffer_of(device, count, prioritized=True), buffer_of(device, count // 10, 1)
        return own, shown, gpureplay.DQN(own, 2, batch_size=16, trunk=[16], demonstrations=shown, seed=3)

    own, shown, agent = agent_of(300)
    agent.train(5)
    for name, one in (("own", own), ("shown", shown), ("agent", agent)):
        one.save(tmp_path / name)
    other = agent_of(0)
    for name, one in zip(("own", "shown", "agent"), other):
        one.load(tmp_path / name)
    for one in (agent, other[2]):
        one.train(7)
    for name, tensor in agent.weights.items():
        assert np.array_equal(tensor, other[2].weights[name])


def test_settings_without_demonstrations(device):
    agent = gpureplay.DQN(buffer_of(device, 10), 2, demonstrations=None)
    assert "demonstration_ratio" not in agent.config
    assert "demonstration_ratio" not in gpureplay.preset("cartpole").agent
    with pytest.raises(gpureplay.InvalidArgument, match="demonstration_ratio is 0.5 and demonstrations None"):
        gpureplay.DQN(buffer_of(device, 10), 2, demonstration_ratio=0.5)
    with pytest.raises(TypeError, match="demonstrations is 'file'; it must be a gpureplay.ReplayBuffer, or None"):
        gpureplay.DQN(buffer_of(device, 10), 2, demonstrations="file")
    with pytest.raises(gpureplay.InvalidArgument, match="it must be made with device=buffer.device"):
        gpureplay.DQN(buffer_of(device, 10), 2, demonstrations=buffer_of(DEVICE, 10))


@pytest.mark.parametrize(("settings", "others", "message"), [
    ({"demonstration_ratio": 0.3}, {}, "demonstration_ratio is 0.3, which of batch_size 32 is 9.6 transitions"),
    ({}, {"gamma": 0.9}, "demonstrations: gamma is 0.9; it must be 0.99, as in the learner's own replay"),
    ({}, {"n_step": 3}, "demonstrations: n_step is 3; it must be 1, as in the learner's own replay"),
    ({}, {"layout": "frames"}, "layout is \"frames\"; it must be layout=\"rows\", as in the learner's own replay"),
    ({"step_kernel": "fused"}, {}, "one replay"),
])
def test_what_does_not_fit_is_refused(device, settings, others, message):
    with pytest.raises(gpureplay.InvalidArgument) as caught:
        gpureplay.DQN(buffer_of(device, 10), 2, demonstrations=buffer_of(device, 0, **others), **settings)
    assert message in str(caught.value) and "gpur_" not in str(caught.value).lower()


def test_too_few_demonstrations(device):
    agent = gpureplay.DQN(buffer_of(device, 10), 2, demonstrations=buffer_of(device, 0))
    with pytest.raises(gpureplay.TooFew, match="demonstrations: the replay is empty"):
        agent.train()


def test_the_buffer_of_demonstrations_lives_as_long_as_the_learner_and_closes_it(device):
    shown = buffer_of(device, 30, 1)
    agent = gpureplay.DQN(buffer_of(device, 100), 2, demonstrations=shown)
    del shown
    gc.collect()
    agent.train(3)
    agent.sync()
    shown = buffer_of(device, 30, 1)
    agent = gpureplay.DQN(buffer_of(device, 100), 2, demonstrations=shown)
    shown.close()
    with pytest.raises(gpureplay.Closed):
        agent.train()
    with pytest.raises(gpureplay.Closed):
        gpureplay.DQN(buffer_of(device, 100), 2, demonstrations=shown)


@needs_files
def test_a_data_set_becomes_demonstrations_of_a_training(device, tmp_path):
    """Its actions are int64, and a training's int32."""
    count, rng = 100, np.random.default_rng(3)
    shown = gpureplay.ReplayBuffer(count, {**FIELDS, "truncated": "bool"}, device=device)
    data.from_numpy({
        "obs": rng.normal(size=(count, 4)), "action": np.arange(count) % 2, "reward": np.ones(count),
        "next_obs": rng.normal(size=(count, 4)), "terminated": np.zeros(count, bool),
        "truncated": np.ones(count, bool)}, into=shown)
    shown.save(tmp_path / "shown.safetensors")
    result = gpureplay.train("CartPole-v1", "fast-dqn-small-vectors", demonstrations=tmp_path / "shown.safetensors",
                             device=device, out=tmp_path / "run", steps=800, prepopulation=400, eval_episodes=0,
                             progress=False)
    assert result.stats.train_steps == 200


@needs_files
@pytest.mark.parametrize(("preset", "env"), [("apex-dqn-small", "CartPole-v1"), ("apex-dpg-small", "Pendulum")])
def test_ape_x_draws_demonstrations_and_goes_on_with_them(device, tmp_path, preset, env):
    common = {"env": env, "preset": preset, "device": device, "actors": 1, "prepopulation": 300, "steps": 1500,
              "batch": 16, "eval_episodes": 0, "progress": False}
    first = gpureplay.train(**common, out=tmp_path / "shown")  # whose updates the file counts, too
    shown = {"demonstrations": tmp_path / "shown/checkpoint/replay.safetensors", "demonstration_ratio": 0.25}
    result = gpureplay.train(**common, **shown, out=tmp_path / "run")
    steps, drawn = result.stats.train_steps, result.agent._buffers[1]
    assert drawn.priority_stats.updates - 16 * first.stats.train_steps == 4 * steps > 0 and len(drawn) > 1000
    assert (tmp_path / "run/checkpoint/demonstrations.safetensors").exists()
    longer = gpureplay.train(resume=tmp_path / "run", steps=result.stats.env_steps + 500, progress=False)
    more = longer.agent._buffers[1].priority_stats.updates - drawn.priority_stats.updates
    assert more == 4 * (longer.stats.train_steps - steps) > 0


def test_train_takes_a_file(device, tmp_path):
    with pytest.raises(TypeError, match="agent has \"demonstrations\", which is a keyword of `train`"):
        gpureplay.train("CartPole-v1", steps=100, agent={"demonstrations": buffer_of(device, 1)})
