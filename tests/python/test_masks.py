# SPDX-License-Identifier: MIT
"""Action masks: from info, from Dict observations and by name; in targets, in `act`, and what refuses them."""

from __future__ import annotations

from typing import Any

import gpureplay
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

ACTIONS = 11
BOX, DISCRETE = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(ACTIONS)
DICT = spaces.Dict({"observation": BOX, "action_mask": spaces.MultiBinary(ACTIONS)})


def buffer_of(space: Any = BOX, **settings: Any) -> gpureplay.ReplayBuffer:
    return gpureplay.ReplayBuffer(100, space, DISCRETE, device="cpu", action_mask=True, **settings)


def masks_of(seed: int, count: int) -> np.ndarray:
    masks = np.random.default_rng(seed).random((count, ACTIONS)) < 0.3
    masks[:, 4] |= ~masks.any(axis=1)
    return masks


def step(t: int, **more: Any) -> dict[str, Any]:
    obs = np.full(3, t / 100, np.float32)
    return {"obs": obs, "action": t % ACTIONS, "reward": 1.0, "next_obs": obs + np.float32(0.01),
            "terminated": False, **more}


def stored(buffer: gpureplay.ReplayBuffer, count: int) -> np.ndarray:
    bits = np.asarray(buffer.gather(np.arange(count)).next_action_mask)
    return np.unpackbits(bits, axis=1, count=ACTIONS, bitorder="little").astype(bool)


def test_a_step_takes_the_mask_from_info_from_its_name_or_from_a_dict() -> None:
    masks = masks_of(1, 3)
    with buffer_of() as buffer:
        buffer.add(**step(0), info={"action_mask": masks[0]})
        buffer.add(**step(1), info={"action_mask": masks[1].astype(np.int8)})
        buffer.add(**step(2), next_action_mask=masks[2])
        assert (stored(buffer, 3) == masks).all()
    with buffer_of(DICT) as buffer:
        for t in range(3):
            given = step(t)
            given["obs"] = {"observation": given["obs"], "action_mask": masks[t - 1]}
            given["next_obs"] = {"observation": given["next_obs"], "action_mask": masks[t]}
            buffer.add(**given)
        assert (stored(buffer, 3) == masks).all()
        assert buffer.fields[0].name == "obs" and buffer.fields[0].shape == (3,)


def test_several_environments_and_steps_have_the_masks_of_the_last_observation() -> None:
    masks = masks_of(2, 10)
    with buffer_of(num_envs=2, autoreset="next_step", n_step=3) as buffer:
        for t in range(5):
            obs = np.full((2, 3), t, np.float32)
            buffer.add(obs=obs, action=np.zeros(2, np.int64), reward=np.ones(2), next_obs=obs + 1,
                       terminated=np.zeros(2, bool), info={"action_mask": masks[2 * t:2 * t + 2]})
        assert len(buffer) == 6 and (stored(buffer, 6) == masks[4:]).all()
    with buffer_of(num_envs=2, autoreset="next_step") as buffer:
        obs = np.zeros((2, 3), np.float32)
        buffer.add(obs=obs, action=np.zeros(2, np.int64), reward=np.ones(2), next_obs=obs + 1,
                   terminated=np.zeros(2, bool), info=[{"action_mask": mask} for mask in masks[:2]])
        assert (stored(buffer, 2) == masks[:2]).all()


def test_transitions_and_targets_have_masks() -> None:
    """The only action that pays is never allowed next, so Q learns the rewards without it."""
    rng, count = np.random.default_rng(3), 80
    allowed = np.zeros((count, ACTIONS), bool)
    allowed[:, :2] = True
    action = rng.integers(0, 3, count)
    obs = np.zeros((count, 3), np.float32)
    with buffer_of(gamma=0.5) as buffer:
        buffer.extend(obs=obs, action=action, reward=np.where(action == 2, 10.0, 1.0).astype(np.float32),
                      next_obs=obs + 0, terminated=np.zeros(count, bool), truncated=np.zeros(count, bool),
                      next_action_mask=allowed)
        with gpureplay.DQN(buffer, trunk=[32], learning_rate=1e-2, target_period=20, seed=1) as agent:
            agent.train(1500)
            q = agent.q_values(obs[0])[0]
            mask = np.zeros((1, ACTIONS), bool)
            mask[0, :2] = True
            assert abs(q[:2] - 2.0).max() < 0.2 and abs(q[2] - 11.0) < 0.5  # 1 / (1 - gamma), 10 + 0.5 * 2
            assert agent.act(obs[0], mask=mask)[0] in (0, 1)
        batch = buffer.gather(np.arange(count))
        bits = np.asarray(batch.next_action_mask)
        buffer.extend(obs=obs, action=action, reward=np.asarray(batch.reward), next_obs=obs + 0,
                      terminated=np.zeros(count, bool), truncated=np.zeros(count, bool), next_action_mask=bits)
        assert (np.asarray(buffer.gather(np.arange(20) + count).next_action_mask) == bits[:20]).all()


def test_only_allowed_actions_are_chosen() -> None:
    masks = masks_of(4, 2000)
    obs = np.random.default_rng(5).standard_normal((2000, 3)).astype(np.float32)
    with buffer_of(DICT) as buffer, gpureplay.DQN(buffer, trunk=[8]) as agent, \
            gpureplay.Policy.for_learner(agent, max_batch=2000) as policy:
        for epsilon in (0.0, 0.5, 1.0):
            for actions in (agent.act({"observation": obs, "action_mask": masks}, epsilon),
                            agent.act(obs, epsilon, mask=masks), policy.act(obs, epsilon, mask=masks.astype(int))):
                assert masks[np.arange(2000), actions].all()
        assert (agent.act(obs, mask=np.ones_like(masks)) == policy.act(obs)).all()
        assert agent.q_values({"observation": obs, "action_mask": masks}).shape == (2000, ACTIONS)
        assert agent.act(obs[0], mask=masks[0]).shape == (1,)


def test_refusals_are_in_words() -> None:
    none = np.zeros(ACTIONS, bool)
    with buffer_of() as buffer, gpureplay.DQN(buffer, trunk=[8]) as agent:
        with pytest.raises(ValueError, match=r'no mask of next_obs: it must be in info\["action_mask"\]'):
            buffer.add(**step(0))
        with pytest.raises(ValueError, match="its last axis must be 11 long"):
            buffer.add(**step(0), info={"action_mask": none[:3]})
        with pytest.raises(ValueError, match="numbers other than 0 and 1"):
            buffer.add(**step(0), info={"action_mask": np.full(ACTIONS, 2)})
        with pytest.raises(TypeError, match="must be bools, or numbers 0 and 1"):
            buffer.add(**step(0), info={"action_mask": np.full(ACTIONS, "x")})
        assert len(buffer) == 0
        with pytest.raises(ValueError, match="mask is None and the buffer has action_mask=True"):
            agent.act(np.zeros(3, np.float32))
        with pytest.raises(ValueError, match="it must be for 2"):
            agent.act(np.zeros((2, 3), np.float32), mask=~none)
        with pytest.raises(gpureplay.InvalidArgument, match="allows none of the 11 actions"):
            agent.act(np.zeros(3, np.float32), mask=none)
    with pytest.raises(gpureplay.InvalidArgument, match="must be a Discrete that starts at 0"):
        gpureplay.ReplayBuffer(100, BOX, BOX, device="cpu", action_mask=True)
    with pytest.raises(gpureplay.InvalidArgument, match="autoreset is \"same_step\" and action_mask True"):
        buffer_of(num_envs=2, autoreset="same_step")
    with buffer_of(sequences=True) as buffer, pytest.raises(gpureplay.InvalidArgument, match="with masks it must be 0"):
        gpureplay.DQN(buffer, trunk=[8], cache_size=1000, block_length=10, estimator="peng", lambda_=0.5)


def test_runs_in_the_librarys_threads_refuse_them() -> None:
    with gpureplay.ReplayBuffer(100, spaces.Box(-5.0, 5.0, (4,), np.float32), spaces.Discrete(2), device="cpu",
                                action_mask=True) as buffer, gpureplay.DQN(buffer, trunk=[8]) as agent:
        with pytest.raises(gpureplay.InvalidArgument, match="which the environments of a run do not give"):
            gpureplay.Run(agent, "CartPole-v1", eval_period=0)


class Masked(gymnasium.Env):  # type: ignore[misc, name-defined]
    observation_space, action_space = DICT, DISCRETE

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return {"observation": np.zeros(3, np.float32), "action_mask": np.ones(ACTIONS, np.int8)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.reset()[0], 1.0, False, True, {}


def test_trainings_refuse_observations_with_masks_with_advice_that_works(tmp_path: Any) -> None:
    settings: Any = {"steps": 40, "num_envs": 2, "device": "cpu", "prepopulation": 20, "batch": 4, "capacity": 100,
                     "target_period": 20, "eval_period": 0, "eval_episodes": 0, "progress": False}
    envs = gymnasium.vector.SyncVectorEnv([Masked] * 2)
    wanted = r"trainings regard no masks: .*gymnasium\.wrappers\.(vector\.)?FilterObservation"
    for given in (lambda lane: Masked()), envs:
        with pytest.raises(TypeError, match=wanted) as refused:
            gpureplay.train(given, **settings)
        advice = str(refused.value).rsplit(" by ", 1)[1]
        names = {"gymnasium": gymnasium, "envs": envs}
        filtered = eval(advice, names) if given is envs else lambda lane: eval(advice, {**names, "env": Masked()})
        result = gpureplay.train(filtered, out=tmp_path / str(given is envs), **settings)
        assert len(result.episodes) > 0
