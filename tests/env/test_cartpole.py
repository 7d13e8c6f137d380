# SPDX-License-Identifier: MIT
"""CartPole-v1 against Gymnasium's, step by step. Exits 77 where Gymnasium is not installed.

usage: test_cartpole.py libgpureplay.so
"""

import os
import sys

try:
    import gymnasium
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import support

# Where a saved state has x, x_dot, theta and theta_dot: behind the game's name and options.
STATE_OFFSET = 64


class Port:
    """Our CartPole, whose state can be set."""

    def __init__(self, kind, seed):
        self.env = support.Environment(kind, seed=seed)

    def reset(self):
        return self.env.reset()

    def step(self, action):
        obs, reward, terminated, truncated = self.env.step(action)
        return obs, reward, bool(terminated), bool(truncated)

    @property
    def state(self):
        return numpy.frombuffer(self.env.save(), numpy.float64, 4, STATE_OFFSET).copy()

    @state.setter
    def state(self, wanted):
        saved = self.env.save()
        numpy.frombuffer(saved, numpy.float64, 4, STATE_OFFSET)[:] = wanted
        self.env.load(saved)


def gymnasium_at(env, state):
    """Begins an episode of Gymnasium's in the given state, and returns its observation."""
    env.reset()
    env.unwrapped.state = numpy.array(state, dtype=numpy.float64)
    return numpy.array(state, dtype=numpy.float32)


def same_step(port, env, action, tolerance):
    """Steps both; asserts that they agree; returns whether the episode ended."""
    obs, reward, terminated, truncated, _ = env.step(action)
    ours = port.step(action)
    wanted = env.unwrapped.state
    off = numpy.max(numpy.abs(port.state - wanted) / numpy.maximum(1.0, numpy.abs(wanted)))
    assert off <= tolerance, f"state is off by {off}: {port.state}, wanted {wanted}"
    assert numpy.allclose(ours[0], obs, rtol=2e-7, atol=1e-12), f"observation {ours[0]}, wanted {obs}"
    assert ours[1:] == (reward, terminated, truncated), f"{ours[1:]}, wanted {(reward, terminated, truncated)}"
    return terminated or truncated


def spaces_agree(game, env):
    info = Port(game, 0).env.info
    for ours, wanted in ((info.obs.lows, env.observation_space.low), (info.obs.highs, env.observation_space.high)):
        assert numpy.array_equal(support.numbers(ours, 4), wanted), (support.numbers(ours, 4), wanted)
    assert info.action.num_actions == env.action_space.n and info.max_steps == env.spec.max_episode_steps


def random_actions_agree_from_start_to_end(game, env, steps):
    """Free-running: our state is never corrected within an episode. An error of 1 ulp grows about e^(4 t)."""
    random = numpy.random.default_rng(1)
    port, done, episodes = Port(game, 1), True, 0
    for _ in range(steps):
        if done:
            assert numpy.array_equal(port.reset(), gymnasium_at(env, port.state))
            episodes += 1
        done = same_step(port, env, int(random.integers(2)), 1e-12)
    assert episodes > steps / 50, episodes


def balanced_episodes_are_truncated_alike(game, env, episodes):
    """A balancing policy reaches step 500. Over 10 s the last bit of sin would grow to anything, so each step begins in
    Gymnasium's own state."""
    port = Port(game, 2)
    for _ in range(episodes):
        port.reset()
        gymnasium_at(env, port.state)
        steps, done = 0, False
        while not done:
            port.state = x, x_dot, theta, theta_dot = env.unwrapped.state
            done = same_step(port, env, int(theta + 0.5 * theta_dot + 0.02 * x + 0.05 * x_dot > 0), 1e-14)
            steps += 1
        assert steps == 500, steps


def single_steps_agree_from_anywhere(game, env, count):
    """States far beyond where an episode can get, so that every term of the equations matters."""
    random = numpy.random.default_rng(3)
    port = Port(game, 3)
    for _ in range(count):
        port.reset()
        port.state = random.uniform(-1, 1, 4) * (3.0, 5.0, 1.5, 8.0)
        gymnasium_at(env, port.state)
        same_step(port, env, int(random.integers(2)), 1e-14)


def starts_are_uniform(game, count):
    """Mean and variance of U(-0.05, 0.05), each within 5 of its standard errors, and the bounds: of 20,000 samples the
    largest is below 0.0499 with probability 2e-9. Another seed starts otherwise, the same seed alike."""
    port = Port(game, 4)
    states = numpy.array([(port.reset(), port.state)[1] for _ in range(count)])
    variance, fourth = 0.05**2 / 3, 0.05**4 / 5
    assert numpy.all(numpy.abs(states) <= 0.05)
    assert numpy.all(states.max(0) > 0.0499) and numpy.all(states.min(0) < -0.0499)
    assert numpy.all(numpy.abs(states.mean(0)) < 5 * numpy.sqrt(variance / count))
    assert numpy.all(numpy.abs((states**2).mean(0) - variance) < 5 * numpy.sqrt((fourth - variance**2) / count))
    assert numpy.all(numpy.abs(numpy.corrcoef(states.T) - numpy.eye(4)) < 5 / numpy.sqrt(count))
    assert [numpy.array_equal(Port(game, seed).reset(), states[0].astype("f")) for seed in (4, 5)] == [True, False]


def main():
    steps = 200_000 if os.environ.get("GPUR_TEST_LONG") == "1" else 20_000
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    game = support.find(support.load(sys.argv[1]), "CartPole-v1")
    spaces_agree(game, env)
    random_actions_agree_from_start_to_end(game, env, steps)
    balanced_episodes_are_truncated_alike(game, env, steps // 5_000)
    single_steps_agree_from_anywhere(game, env, steps // 4)
    starts_are_uniform(game, steps)
    print(f"test_cartpole: {steps} steps agree with Gymnasium {gymnasium.__version__}")


main()
