# SPDX-License-Identifier: MIT
"""Actor-critic learners: train steps against the loss in NumPy, policies with probabilities, files, and what is
refused."""

import gpureplay
import numpy as np
import pytest
from support import needs_files

OBS = np.random.default_rng(3).normal(size=(20, 4)).astype(np.float32)
NETWORK = {"trunk": [(16, "tanh")], "seed": 4}


def make(**settings):
    return gpureplay.ActorCritic(((4,), "float32"), 3, device="cpu", **{**NETWORK, **settings})


def batch(count, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 4)), random.integers(0, 3, count), random.normal(size=count)


def forward(weights, obs):
    """Hidden units, probabilities and values, in double."""
    hidden = np.tanh(obs @ weights["trunk.0.weight"].astype(np.float64).T + weights["trunk.0.bias"])
    logits = hidden @ weights["policy.out.weight"].astype(np.float64).T + weights["policy.out.bias"]
    p = np.exp(logits - logits.max(1, keepdims=True))
    value = hidden @ weights["value.out.weight"][0].astype(np.float64) + weights["value.out.bias"]
    return hidden, p / p.sum(1, keepdims=True), value


def test_a_train_step_is_that_of_the_formulas():
    learner, eps = make(entropy=0.2, log_epsilon=1e-3), 1e-3
    for step, count in enumerate((5, 1, 17), 1):
        obs, actions, returns = batch(count, step)
        hidden, p, value = forward(learner.weights, obs)
        advantage, rows = returns - value, np.arange(count)
        chosen, log = p[rows, actions], np.log(p + eps)
        dp = 0.2 * (log + 1)
        dp[rows, actions] -= advantage / (chosen + eps)
        dz = p * (dp - (p * dp).sum(1, keepdims=True))
        losses = learner.train(obs, actions, returns)
        np.testing.assert_allclose(losses.policy, (-np.log(chosen + eps) * advantage).mean(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(losses.value, (advantage**2).mean(), rtol=1e-4)
        np.testing.assert_allclose(losses.entropy, -((p + eps) * log).sum(1).mean(), rtol=1e-4)
        np.testing.assert_allclose(learner.gradients["policy.out.weight"], dz.T @ hidden, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(learner.gradients["value.out.bias"], -advantage.sum(), rtol=1e-3, atol=1e-5)
        assert losses.step == learner.steps == step


def test_policies_act_by_its_weights():
    learner = make(policy_floor=0.1)
    policy = learner.policy(max_batch=32)
    learner.train(*batch(9, 1))
    assert policy.version == 0
    policy.pull(learner)
    acted = policy.act_with_values(OBS, greedy=True)
    _, p, value = forward(learner.weights, OBS)
    np.testing.assert_allclose(acted.probabilities, (p + 0.1) / 1.3, rtol=1e-5)
    np.testing.assert_allclose(acted.values, value, rtol=1e-4, atol=1e-5)
    assert acted.version == 1 and acted.actions.tolist() == acted.probabilities.argmax(1).tolist()
    drawn = np.array([policy.act(OBS, steps=step) for step in range(400)])
    shares = np.stack([(drawn == action).mean(0) for action in range(3)], axis=1)
    assert np.abs(shares - acted.probabilities).max() < 0.15  # six standard deviations of the widest
    assert np.array_equal(policy.act(OBS, lanes=7, steps=5), policy.act(OBS, lanes=7, steps=5))


@needs_files
def test_training_goes_on_from_a_file(tmp_path):
    first, second = make(), make(seed=9)
    first.train(*batch(8, 1))
    first.save(tmp_path / "learner.safetensors")
    second.load(tmp_path / "learner.safetensors")
    assert second.steps == 1
    assert first.train(*batch(8, 2)) == second.train(*batch(8, 2))
    assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)
    policy = second.policy()
    policy.load(tmp_path / "learner.safetensors")
    assert policy.version == 1 and gpureplay.file_info(tmp_path / "learner.safetensors").kind == "actor-critic"


def test_settings_are_read_back():
    learner = make(optimizer="adam", learning_rate=(1e-3, 1e-4, 100), log="softmax", dual_optimizer=True)
    config = learner.config
    assert config["learning_rate"] == (1e-3, 1e-4, 100) and config["log"] == "softmax"
    assert config["head"] == "softmax_value" and config["dual_optimizer"] is True and config["entropy"] == 0.01
    assert repr(learner).startswith("<gpureplay.ActorCritic, 3 actions, on cpu, 0 train steps; trunk=[(16, 'tanh')]")


REFUSED = {
    "no rows": ((np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)), gpureplay.InvalidArgument, "count is 0"),
    "an action": ((OBS[:2], [0, 3], [0.0, 0.0]), gpureplay.InvalidArgument, r"actions\[1\] is 3"),
    "a return": ((OBS[:2], [0, 1], [0.0, np.inf]), gpureplay.InvalidArgument, '"returns" is infinite in row 1 of 2'),
    "too many": ((np.zeros((129, 4)), 0, 0.0), gpureplay.InvalidArgument, "count is 129; it must be 1 to max_batch"),
    "shapes": ((OBS[:2], [0], [0.0, 0.0]), ValueError, r"actions has shape \(1,\)"),
    "NaN": ((OBS[:2] * np.nan, 0, 0.0), ValueError, "NaN"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_batches_are_refused(case):
    learner = make()
    arguments, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        learner.train(*arguments)
    assert learner.steps == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="'replay' is no setting; they are trunk"):
        make(replay=1)
    with pytest.raises(TypeError, match=r"'deterministic' is no setting of .* but of its device: device=Device\(\."):
        make(deterministic=True)
    with pytest.raises(gpureplay.InvalidArgument, match='head is "dueling"; an actor-critic needs "softmax_v'):
        make(head="dueling")
    policy = gpureplay.Policy(((4,), "float32"), 3, device="cpu", head="softmax_value", trunk=[8])
    with pytest.raises(gpureplay.InvalidArgument, match="opened by another Device than|trunk.0.weight"):
        policy.pull(make())
    with pytest.raises(gpureplay.InvalidArgument, match='q is given; a policy with "softmax_value"'):
        policy.q_values(OBS)
    with pytest.raises(TypeError, match="it must be a gpureplay.DQN, DDPG, SAC or ActorCritic"):
        policy.pull(policy)
