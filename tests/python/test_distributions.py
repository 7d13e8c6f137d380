# SPDX-License-Identifier: MIT
"""QRDQN and C51: learners of distributions, with everything that a DQN does."""

import gpureplay
import numpy as np
import pytest
from support import DEVICE

FIELDS = {"obs": ((3,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((3,), "float32"),
          "terminated": "bool"}
CLASSES = {"qr-dqn": (gpureplay.QRDQN, {"head": "quantiles", "atoms": 200}),
           "c51": (gpureplay.C51, {"head": "categorical", "atoms": 51, "v_min": -10.0, "v_max": 10.0})}
SMALL = {"trunk": [16], "batch_size": 16, "target_period": 5, "seed": 3}


def filled(rows=300, fields=FIELDS, **settings):
    buffer = gpureplay.ReplayBuffer(512, fields, device=DEVICE, seed=1, **settings)
    random = np.random.default_rng(2)
    obs = random.standard_normal((rows + 1, 3), np.float32)
    action = random.integers(0, 2, rows, np.int32)
    for i in range(rows):
        buffer.add(obs=obs[i], action=action[i], reward=obs[i, 0] * (2 * action[i] - 1), next_obs=obs[i + 1],
                   terminated=i % 20 == 19)
    return buffer


@pytest.mark.parametrize("name", CLASSES)
def test_the_defaults_are_those_of_the_papers(name):
    made, wanted = CLASSES[name]
    with filled() as buffer, made(buffer, 2) as agent:
        assert {key: agent.config[key] for key in wanted} == wanted and agent.config["huber_delta"] == 1.0
        assert ("v_min" in agent.config) == (name == "c51")
        assert repr(agent).startswith(f"<gpureplay.{made.__name__}, 2 actions")
        assert made(buffer, **agent.config).config == agent.config
    assert wanted.items() <= gpureplay.preset(name).agent.items()
    with filled() as buffer, gpureplay.DQN(buffer, 2) as agent:
        assert not {"atoms", "v_min", "v_max"} & agent.config.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_another_head_is_refused(name):
    made, _ = CLASSES[name]
    with filled() as buffer, pytest.raises(gpureplay.InvalidArgument, match=f"that of a {made.__name__} is"):
        made(buffer, 2, head="dueling")


@pytest.mark.parametrize("name", CLASSES)
def test_the_best_action_is_learned(name):
    """The reward of action 1 is obs[0], and of action 0 minus that."""
    with filled(500) as buffer, CLASSES[name][0](buffer, 2, **{**SMALL, "trunk": [32]}) as agent:
        agent.train(1500)
        obs = np.array([[1.5, 0, 0], [-1.5, 0, 0]], np.float32)
        assert agent.act(obs).tolist() == [1, 0]
        q = agent.q_values(obs)
        assert q.shape == (2, 2) and q[0, 1] > q[0, 0] + 0.5 and q[1, 0] > q[1, 1] + 0.5
        assert np.isfinite(agent.stats.loss) and agent.stats.steps == 1500


@pytest.mark.parametrize("name", CLASSES)
def test_values_are_the_means_of_the_distributions(name):
    settings = {**SMALL, "atoms": 11}
    with filled() as buffer, CLASSES[name][0](buffer, 2, **settings) as agent:
        obs = np.random.default_rng(1).standard_normal((5, 3), np.float32)
        w = {key: value.astype(np.float64) for key, value in agent.weights.items()}
        out = "quantiles.out" if name == "qr-dqn" else "atoms.out"
        hidden = np.maximum(obs @ w["trunk.0.weight"].T + w["trunk.0.bias"], 0)
        z = (hidden @ w[f"{out}.weight"].T + w[f"{out}.bias"]).reshape(5, 2, 11)
        if name == "c51":
            p = np.exp(z - z.max(2, keepdims=True))
            z = 11 * p / p.sum(2, keepdims=True) * np.linspace(-10, 10, 11)
        assert np.allclose(agent.q_values(obs), z.mean(2), atol=1e-5)


@pytest.mark.parametrize("name", CLASSES)
def test_files_and_policies_have_the_distributions(name, tmp_path):
    made, wanted = CLASSES[name]
    wanted = {**wanted, "atoms": 7, **({"v_min": -2.5, "v_max": 4.0} if name == "c51" else {})}
    settings = {**SMALL, **{key: value for key, value in wanted.items() if key != "head"}}
    obs = np.random.default_rng(1).standard_normal((5, 3), np.float32)
    with filled() as buffer, made(buffer, 2, **settings) as agent, made(buffer, 2, **settings) as other:
        agent.train(20)
        agent.save(tmp_path / "learner")
        agent.save_weights(tmp_path / "weights")
        other.load(tmp_path / "learner")
        assert np.array_equal(agent.q_values(obs), other.q_values(obs))
        for policy in (gpureplay.Policy.for_learner(agent), gpureplay.Policy.open(tmp_path / "learner", device=DEVICE),
                       gpureplay.Policy.open(tmp_path / "weights", device=DEVICE)):
            assert np.array_equal(policy.q_values(obs), agent.q_values(obs))
            assert np.array_equal(policy.act(obs), agent.act(obs))
            assert {key: policy.config[key] for key in wanted} == wanted
        with gpureplay.Policy(((3,), "float32"), 2, trunk=[16], device=buffer.device, head=wanted["head"],
                              atoms=7) as policy:
            if name == "c51":
                with pytest.raises(gpureplay.InvalidArgument, match="v_min -2.5 and v_max 4, that of this policy 7"):
                    policy.pull(agent)
        agent.train(3)
        other.train(3)
        assert np.array_equal(agent.weights["trunk.0.weight"], other.weights["trunk.0.weight"])


@pytest.mark.parametrize("name", CLASSES)
def test_losses_become_priorities(name):
    with filled(prioritized=True, n_step=3) as buffer, CLASSES[name][0](buffer, 2, **SMALL) as agent:
        ids = np.arange(16)
        agent.train_ids(ids)
        agent.sync()
        priorities = buffer.get_priorities(ids)
        assert np.isclose(priorities.mean(), agent.stats.loss, rtol=1e-4)
        agent.train(10)
        agent.sync()


@pytest.mark.parametrize("name", CLASSES)
def test_demonstrations_are_drawn_too(name):
    with filled() as buffer, gpureplay.ReplayBuffer(100, FIELDS, device=buffer.device) as demonstrations:
        far = np.full(3, 3, np.float32)
        for _ in range(50):
            demonstrations.add(obs=far, action=np.int32(0), reward=1.0, next_obs=far.copy(), terminated=True)
        with CLASSES[name][0](buffer, 2, demonstrations=demonstrations, **SMALL) as agent:
            agent.train(1000)
            assert abs(agent.q_values(far[None])[0, 0] - 1) < 0.4


@pytest.mark.parametrize("name", CLASSES)
def test_cartpole_is_trained_by_a_run(name):
    head = {"head": CLASSES[name][1]["head"], "atoms": 21, **({"v_min": 0.0, "v_max": 100.0} if name == "c51" else {})}
    result = gpureplay.train("CartPole-v1", steps=3000, agent=head, device=DEVICE)
    assert result.agent.config["head"] == head["head"] and result.agent.config["atoms"] == 21
    assert result.agent.stats.steps > 0 and np.isfinite(result.agent.stats.loss)


@pytest.mark.parametrize("critics", [1, 2])
@pytest.mark.parametrize("name", CLASSES)
def test_critics_of_action_vectors_learn_distributions(name, critics, tmp_path):
    """The reward is how near the first number of the action is to that of obs, so that the actor learns that one."""
    fields = {**FIELDS, "action": ((2,), "float32")}
    random = np.random.default_rng(2)
    obs, action = random.uniform(-0.8, 0.8, (500, 3)), random.uniform(-1, 1, (500, 2))
    critic = {"trunk": [(32, "relu")], "learning_rate": 3e-3, "head": CLASSES[name][1]["head"], "atoms": 11,
              **({"v_min": -3.0, "v_max": 1.0} if name == "c51" else {})}
    with gpureplay.ReplayBuffer(600, fields, device=DEVICE, seed=1) as buffer:
        buffer.extend(obs=obs.astype(np.float32), action=action.astype(np.float32),
                      reward=-np.abs(action[:, 0] - obs[:, 0]).astype(np.float32), next_obs=obs.astype(np.float32),
                      terminated=np.ones(500, bool))
        settings = {"actor": {"trunk": [(32, "relu")], "learning_rate": 3e-3}, "critic": critic, "critics": critics,
                    "batch_size": 64, "target_period": 10}
        with gpureplay.DDPG(buffer, **settings) as agent, gpureplay.DDPG(buffer, **agent.config) as other:
            assert other.config == agent.config and agent.config["critic"]["atoms"] == 11
            agent.train(1500)
            agent.save(tmp_path / "learner")
            other.load(tmp_path / "learner")
            with agent.policy() as policy:
                acted = policy.act_vectors(obs[:64].astype(np.float32))
            assert np.abs(acted[:, 0] - obs[:64, 0]).mean() < 0.25
            agent.train(5)
            other.train(5)
            for tensor, value in agent.weights.items():
                assert np.array_equal(value, other.weights[tensor]), tensor
