# SPDX-License-Identifier: MIT
"""Deterministic policy gradients, also with TD3's settings: train steps against NumPy, policies of action vectors, a
task, files, and what is refused."""

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
    buffer = gpureplay.ReplayBuffer(capacity, fields, device="cpu", gamma=0.9, **settings)
    buffer.extend(**rows)
    return buffer


def make(rows, **settings):
    return gpureplay.DDPG(buffer_of(rows), **{**NETWORKS, "batch_size": ROWS, "distinct": True, "seed": 3, **settings})


def layers(weights, name, out):
    return [(weights[f"{name}.{layer}.weight"].astype(float), weights[f"{name}.{layer}.bias"].astype(float))
            for layer in ("trunk.0", out)]


def mu(weights, obs):
    (w, b), (w_out, b_out) = layers(weights, "actor", "action.out")
    hidden = np.tanh(obs @ w.T + b)
    return hidden, np.tanh(hidden @ w_out.T + b_out)


def q_of(weights, obs, action, critic="critic"):
    (w, b), (w_out, b_out) = layers(weights, critic, "q.out")
    hidden = np.tanh(np.concatenate([obs, action], axis=1) @ w.T + b)
    return hidden, (hidden @ w_out.T + b_out)[:, 0]


@pytest.mark.parametrize("clip, penalty, rate", [(0.0, 0.0, 1), (0.12, 0.0, 0.1), (0.12, 0.3, 1)])
def test_train_steps_are_those_of_the_formulas(clip, penalty, rate):
    """Every batch has each row once, so that its means are those of all rows."""
    rows = rows_of()
    learner = make(rows, target_period=2, target_rate=rate, action_gradient_clip=clip, preactivation_penalty=penalty)
    for step in range(1, 5):
        before, target = dict(learner.weights), dict(learner.target_weights)
        learner.train()
        learner.sync()
        after, gradients, stats = dict(learner.weights), learner.gradients, learner.stats
        next_q = q_of(target, rows["next_obs"], mu(target, rows["next_obs"])[1])[1]
        error = q_of(before, rows["obs"], rows["action"])[1] - rows["reward"] - 0.9 * ~rows["terminated"] * next_q
        np.testing.assert_allclose(stats.critic_loss, (error**2).mean() / 2, rtol=1e-4)
        np.testing.assert_allclose(gradients["critic.q.out.bias"], error.mean(), rtol=1e-3, atol=1e-6)
        hidden, action = mu(before, rows["obs"])  # by the actor from before the step, and the critic from after it
        critic_hidden, q = q_of(after, rows["obs"], action)
        np.testing.assert_allclose(stats.actor_loss, -q.mean(), rtol=1e-4, atol=1e-6)
        slope = ((1 - critic_hidden**2) * after["critic.q.out.weight"]) @ after["critic.trunk.0.weight"][:, FEATURES:]
        if clip:
            assert 0 < (np.abs(slope) > clip).mean() < 1
            slope = np.clip(slope, -clip, clip)
        dz = (2 * penalty * np.arctanh(action) - slope * (1 - action**2)) / ROWS
        np.testing.assert_allclose(gradients["actor.action.out.weight"], dz.T @ hidden, rtol=1e-3, atol=1e-6)
        assert stats.steps == step and stats.target_copies == step // 2
        for name in after:  # a copy comes after steps 2 and 4
            wanted = target[name] + (step % 2 == 0) * rate * (after[name] - target[name])
            np.testing.assert_allclose(learner.target_weights[name], wanted, rtol=1e-5, atol=1e-6)


def test_train_steps_of_td3_are_those_of_the_formulas():
    rows = rows_of()
    td3 = gpureplay.TD3(buffer_of(rows), **NETWORKS, batch_size=ROWS, distinct=True, seed=3, target_noise=0)
    for step in range(1, 7):
        before, target = dict(td3.weights), dict(td3.target_weights)
        td3.train()
        td3.sync()
        after, gradients, stats = dict(td3.weights), td3.gradients, td3.stats
        next_action = mu(target, rows["next_obs"])[1]
        next_q = np.minimum(*(q_of(target, rows["next_obs"], next_action, f"critic.{i}")[1] for i in (1, 2)))
        y = rows["reward"] + 0.9 * ~rows["terminated"] * next_q
        errors = [q_of(before, rows["obs"], rows["action"], f"critic.{i}")[1] - y for i in (1, 2)]
        np.testing.assert_allclose(stats.critic_loss, sum((error**2).mean() / 2 for error in errors), rtol=1e-4)
        for i, error in enumerate(errors, 1):
            np.testing.assert_allclose(gradients[f"critic.{i}.q.out.bias"], error.mean(), rtol=1e-3, atol=1e-6)
        if step % 2:
            assert all(np.array_equal(before[name], after[name]) for name in before if name.startswith("actor."))
        else:
            _, action = mu(before, rows["obs"])
            np.testing.assert_allclose(stats.actor_loss, -q_of(after, rows["obs"], action, "critic.1")[1].mean(),
                                       rtol=1e-4, atol=1e-6)
        assert stats.steps == step and stats.target_copies == step // 2
        for name in after:
            wanted = target[name] + (step % 2 == 0) * 0.005 * (after[name] - target[name])
            np.testing.assert_allclose(td3.target_weights[name], wanted, rtol=1e-5, atol=1e-6)


def test_fast_td3_has_the_settings_of_its_code_and_trains_on_lanes():
    lanes = gpureplay.LaneBuffer(8, 20, {"obs": ((3,), "float32"), "action": ((2,), "float32")}, device="cpu")
    config = gpureplay.FastTD3(lanes, batch_size=64).config
    assert config["actor"]["trunk"] == [(512, "relu"), (256, "relu"), (128, "relu")] and config["critics"] == 2
    assert config["critic"]["trunk"] == [(1024, "relu"), (512, "relu"), (256, "relu")]
    assert config["critic"]["head"] == "categorical" and config["critic"]["atoms"] == 101
    assert config["target_rate"] == 0.1 and config["actor"]["weight_decay"] == 0.1
    learner = gpureplay.FastTD3(lanes, batch_size=64, critic={"v_min": -10, "v_max": 10, "trunk": [32]},
                                actor={"trunk": [32]})
    assert repr(learner).startswith("<gpureplay.FastTD3, actions of 2 numbers, on cpu; batch_size=64")
    rng = np.random.default_rng(1)
    obs = rng.standard_normal((8, 3)).astype(np.float32)
    for _ in range(20):
        final = rng.standard_normal((8, 3)).astype(np.float32)
        lanes.add(obs=obs, action=rng.uniform(-1, 1, (8, 2)).astype(np.float32), reward=final[:, 0].copy(),
                  terminated=np.zeros(8, bool), final_obs=final)
        obs = final
    learner.train(10)
    learner.sync()
    assert learner.stats.steps == 10 and np.isfinite(learner.stats.critic_loss)


def test_td3_has_the_settings_of_its_paper_and_takes_others():
    buffer = buffer_of(rows_of())
    config = gpureplay.TD3(buffer).config
    assert config["critics"] == 2 and config["policy_delay"] == 2 and config["batch_size"] == 100
    assert config["target_noise"] == 0.2 and config["target_noise_clip"] == 0.5 and config["target_rate"] == 0.005
    assert config["actor"]["trunk"] == config["critic"]["trunk"] == [(400, "relu"), (300, "relu")]
    td3 = gpureplay.TD3(buffer, batch_size=32, policy_delay=3, critics=1)
    assert td3.config["policy_delay"] == 3 and "critic.trunk.0.weight" in td3.weights
    assert repr(td3).startswith("<gpureplay.TD3, actions of 2 numbers, on cpu; batch_size=32, target_period=1")
    for settings, text in (({"critics": 3}, "critics is 3; it must be 1 to 2"),
                           ({"policy_delay": 0}, "policy_delay is 0; it must be 1 to 64"),
                           ({"target_noise": -1.0}, "target_noise is -1; it must be 0 or more")):
        with pytest.raises(gpureplay.InvalidArgument, match=text):
            gpureplay.TD3(buffer, **settings)


def test_policies_act_by_its_actor_with_noise():
    rows = rows_of()
    learner = make(rows)
    policy = learner.policy(max_batch=ROWS)
    learner.train(3)
    assert policy.version == 0
    policy.pull(learner)
    assert policy.version == 3
    quiet = policy.act_vectors(rows["obs"])
    np.testing.assert_allclose(quiet, mu(learner.weights, rows["obs"])[1], rtol=1e-4, atol=1e-5)
    sigma = np.linspace(0, 0.2, ROWS).astype(np.float32)
    noisy = np.stack([policy.act_vectors(rows["obs"], sigma, steps=step) for step in range(400)])
    assert np.array_equal(noisy[:, 0], np.broadcast_to(quiet[0], noisy[:, 0].shape)) and np.abs(noisy).max() <= 1
    inside = np.abs(quiet).max(1) < 0.2  # five deviations from what is clipped
    assert inside.sum() > 3
    np.testing.assert_allclose(noisy.std(0)[inside], np.broadcast_to(sigma[inside, None], (inside.sum(), ACTIONS)),
                               rtol=0.25, atol=1e-6)
    assert np.array_equal(noisy[7], policy.act_vectors(rows["obs"], sigma, steps=7))
    assert policy.act_vectors(rows["obs"][0], 0.1).shape == (1, ACTIONS)


@pytest.mark.parametrize("kind", [gpureplay.DDPG, gpureplay.TD3])
def test_an_actor_learns_the_best_action(kind):
    """The reward is -|a - f(s)|^2, and each episode has one step."""
    rows = rows_of(2000)
    best = 0.5 * np.tanh(rows["obs"][:, :ACTIONS])
    rows.update(reward=-((rows["action"] - best)**2).sum(1).astype(np.float32), terminated=np.ones(2000, bool))
    networks = {"actor": {"trunk": [(32, "tanh")], "learning_rate": 3e-3},
                "critic": {"trunk": [(64, "tanh"), (32, "tanh")], "learning_rate": 5e-3}}
    learner = kind(buffer_of(rows, capacity=2000, prioritized=True), batch_size=64, **networks)
    before = learner.policy(max_batch=2000).act_vectors(rows["obs"])
    learner.train(1500)
    after = learner.policy(max_batch=2000).act_vectors(rows["obs"])
    assert ((after - best)**2).mean() < 0.02 < ((before - best)**2).mean()


@needs_files
@pytest.mark.parametrize("settings", [{}, {"critics": 2, "policy_delay": 2, "target_noise": 0.2}])
def test_training_goes_on_from_a_file(tmp_path, settings):
    first, second = make(rows_of(), **settings), make(rows_of(), **settings)
    first.train(5)
    first.save(tmp_path / "ddpg.safetensors")
    second.load(tmp_path / "ddpg.safetensors")
    for learner in (first, second):
        learner.train(4)
        learner.sync()
    stats = first.stats, second.stats
    assert stats[1].steps == 9 and stats[0].critic_loss == stats[1].critic_loss
    assert stats[0][6:12] == stats[1][6:12]  # actor_loss to actor_learning_rate
    assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)
    policy = second.policy()
    policy.load(tmp_path / "ddpg.safetensors")
    assert policy.version == 5 and gpureplay.file_info(tmp_path / "ddpg.safetensors").kind == "dpg"


def test_settings_are_read_back():
    learner = gpureplay.DDPG(buffer_of(rows_of()), critic={"optimizer": "rmsprop_tf", "momentum": 0.5}, batch_size=32)
    config = learner.config
    assert config["actor"]["trunk"] == [(300, "tanh"), (200, "linear")] and config["actor"]["head"] == "tanh_action"
    assert config["actor"]["num_actions"] == ACTIONS and config["actor"]["learning_rate"] == 1e-4
    assert config["critic"]["optimizer"] == "rmsprop_tf" and config["critic"]["momentum"] == 0.5
    assert config["batch_size"] == 32 and config["target_period"] == 100 and config["action_gradient_clip"] == 1.0
    assert config["prioritized"] is False and config["distinct"] is False
    assert repr(learner).startswith("<gpureplay.DDPG, actions of 2 numbers, on cpu; batch_size=32, target_period=100")
    learner.close()
    assert repr(learner) == "<gpureplay.DDPG, actions of 2 numbers, closed>"


def test_what_does_not_fit_is_refused():
    buffer = buffer_of(rows_of())
    with pytest.raises(TypeError, match="'trunk' is no setting; they are actor, critic, action_gradient_clip"):
        gpureplay.DDPG(buffer, trunk=[8])
    with pytest.raises(TypeError, match=r"'deterministic' is no setting of .* but of its device: device=Device\(\."):
        gpureplay.DDPG(buffer, deterministic=True)
    with pytest.raises(TypeError, match="'units' is no setting of critic; they are trunk"):
        gpureplay.DDPG(buffer, critic={"units": 8})
    with pytest.raises(TypeError, match="actor is 5; it must be a dict of settings"):
        gpureplay.DDPG(buffer, actor=5)
    with pytest.raises(gpureplay.InvalidArgument, match='actor: head is "q"; it must be "tanh_action"'):
        gpureplay.DDPG(buffer, actor={"head": "q"})
    with pytest.raises(gpureplay.InvalidArgument, match="action_gradient_clip is -1"):
        gpureplay.DDPG(buffer, action_gradient_clip=-1.0)
    rows = rows_of()
    rows["action"] = np.zeros(ROWS, np.int32)
    with pytest.raises(gpureplay.InvalidArgument, match=r"the buffer's action has shape \(\); it must have one axis"):
        gpureplay.DDPG(buffer_of(rows))
    with pytest.raises(TypeError, match="it must be a gpureplay.ReplayBuffer"):
        gpureplay.DDPG(None)
    policy = gpureplay.Policy(((FEATURES,), "float32"), ACTIONS, device="cpu", head="tanh_action", trunk=[8])
    with pytest.raises(gpureplay.InvalidArgument, match=r"sigma\[0\] is -0.1; it must be 0 or more"):
        policy.act_vectors(rows["obs"], -0.1)
    with pytest.raises(gpureplay.InvalidArgument, match="action_vectors"):
        policy.act(rows["obs"])
