# SPDX-License-Identifier: MIT
"""Saved runs of environments in Python, which cannot be saved themselves: after a load they have new seeds."""

import gpureplay
import gymnasium
import numpy as np
import pytest

FIELDS = {"obs": ((2,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((2,), "float32"),
          "terminated": "bool", "truncated": "bool"}


class Seeded(gymnasium.Env):
    """Episodes of 30 steps; it records the seeds that it gets."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    def __init__(self, lane, seeds):
        self.lane, self.seeds, self.steps, self.closed = lane, seeds, 0, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        if seed is not None:
            self.seeds.append((self.lane, seed))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(2, self.steps / 30, np.float32), 1.0, self.steps == 30, False, {}

    def close(self):
        self.closed += 1


def run_of(env, **settings):
    buffer = gpureplay.ReplayBuffer(1000, FIELDS, device="cpu", min_size=30)
    agent = gpureplay.DQN(buffer, num_actions=2, trunk=[8], target_period=20)
    return gpureplay.Run(agent, env, prepopulation=30, eval_period=0, **settings)


def test_environments_get_new_seeds_after_a_load(tmp_path):
    made, seeds = [], []

    def make_env(lane):
        made.append(Seeded(lane, seeds))
        return made[-1]

    settings = {"num_envs": 2, "eval_episodes": 1}
    with run_of(make_env, **settings) as run:
        run.advance(80)
        run.evaluate()
        run.save(tmp_path / "run")
    first, loads = list(seeds), []
    assert [lane for lane, _ in first] == [0, 1, 2]
    for _ in range(2):
        made.clear()
        seeds.clear()
        with run_of(make_env, **settings) as run:
            run.load(tmp_path / "run")
            run.advance(80)
            run.evaluate()
        assert len(made) == 3 and [env.closed for env in made] == [1, 1, 1]  # none was made twice
        loads.append(list(seeds))
    assert loads[0] == loads[1] and [lane for lane, _ in loads[0]] == [0, 1, 2]
    assert not {seed for _, seed in first} & {seed for _, seed in loads[0]}


@pytest.mark.parametrize("mode", [gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP])
def test_a_vector_environment_gets_new_seeds_after_a_load(tmp_path, mode):
    found = []
    for is_loaded in (False, True, True):
        seeds = []
        envs = gymnasium.vector.SyncVectorEnv([lambda lane=lane, seeds=seeds: Seeded(lane, seeds) for lane in range(2)],
                                              autoreset_mode=mode)
        with run_of(envs, eval_episodes=0) as run:
            if is_loaded:
                run.load(tmp_path / "run")
            run.advance(80)
            if not is_loaded:
                run.save(tmp_path / "run")
        envs.close()
        found.append(seeds)
    assert found[1] == found[2] and len(found[1]) == 2
    assert not {seed for _, seed in found[0]} & {seed for _, seed in found[1]}
