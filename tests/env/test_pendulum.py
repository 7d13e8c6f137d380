# SPDX-License-Identifier: MIT
"""Pendulum against Gymnasium's Pendulum-v1, step by step. Exits 77 where Gymnasium is not installed.

usage: test_pendulum.py libgpureplay.so
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

# Where a saved state has theta and theta_dot: behind the game's name and options.
STATE_OFFSET = 64


def state_of(ours):
    return numpy.frombuffer(ours.save(), numpy.float64, 2, STATE_OFFSET).copy()


def set_state(ours, wanted):
    saved = ours.save()
    numpy.frombuffer(saved, numpy.float64, 2, STATE_OFFSET)[:] = wanted
    ours.load(saved)


def begin_at(env, state):
    """Begins an episode of Gymnasium's in the given state, and returns its observation."""
    env.reset()
    env.unwrapped.state = numpy.array(state)
    return env.unwrapped._get_obs()


def same_step(ours, env, torque, tolerance):
    """Steps both; asserts that they agree; returns whether the episode ended. Gymnasium's gets the float32 as a
    float64: else it would multiply in float32."""
    torque = numpy.float32(torque)
    obs, reward, terminated, truncated, _ = env.step(numpy.array([torque], numpy.float64))
    our_obs, our_reward, our_terminated, our_truncated = ours.step([torque])
    off = numpy.max(numpy.abs(state_of(ours) - env.unwrapped.state))
    assert off <= tolerance, f"state is off by {off}: {state_of(ours)}, wanted {env.unwrapped.state}"
    assert numpy.allclose(our_obs, obs, rtol=2e-7, atol=1e-7), f"observation {our_obs}, wanted {obs}"
    assert numpy.isclose(our_reward, reward, rtol=1e-6, atol=1e-9), f"reward {our_reward}, wanted {reward}"
    assert (bool(our_terminated), bool(our_truncated)) == (terminated, truncated)
    return terminated or truncated


def spaces_agree(game, env):
    info = support.Environment(game).info
    bounds = [support.numbers(at, 3) for at in (info.obs.lows, info.obs.highs)]
    assert numpy.array_equal(bounds, [env.observation_space.low, env.observation_space.high])
    assert (info.action.low, info.action.high) == (env.action_space.low[0], env.action_space.high[0])
    assert tuple(info.action.shape)[:2] == (1, 0) and info.action.num_actions == 0
    assert info.max_steps == env.spec.max_episode_steps


def random_actions_agree_from_start_to_end(game, env, steps):
    """Free-running: our state is never corrected within an episode. Torques are also beyond their bounds."""
    random = numpy.random.default_rng(1)
    ours, done, episodes = support.Environment(game, seed=1), True, 0
    for _ in range(steps):
        if done:
            assert numpy.allclose(ours.reset(), begin_at(env, state_of(ours)), rtol=2e-7, atol=1e-7)
            episodes += 1
        done = same_step(ours, env, random.uniform(-3, 3), 1e-9)
    assert episodes == steps / 200, episodes


def single_steps_agree_from_anywhere(game, env, count):
    """States many turns away, so that every term of the equations matters, and the speed meets its bounds."""
    random = numpy.random.default_rng(3)
    ours = support.Environment(game, seed=3)
    for _ in range(count):
        ours.reset()
        state = random.uniform(-1, 1, 2) * (40.0, 8.0)
        set_state(ours, state)
        begin_at(env, state)
        same_step(ours, env, random.uniform(-3, 3), 1e-14)


def starts_are_uniform(game, count):
    """Mean and variance of U(-1, 1) in units of the bounds, each within 5 of its standard errors. Another seed starts
    otherwise, the same seed alike."""
    ours = support.Environment(game, seed=4)
    states = numpy.array([(ours.reset(), state_of(ours))[1] for _ in range(count)]) / (numpy.pi, 1.0)
    assert numpy.all(numpy.abs(states) <= 1) and numpy.all(states.max(0) > 0.998) and numpy.all(states.min(0) < -0.998)
    assert numpy.all(numpy.abs(states.mean(0)) < 5 * numpy.sqrt(1 / 3 / count))
    assert numpy.all(numpy.abs((states**2).mean(0) - 1 / 3) < 5 * numpy.sqrt((1 / 5 - 1 / 9) / count))
    assert numpy.all(numpy.abs(numpy.corrcoef(states.T) - numpy.eye(2)) < 5 / numpy.sqrt(count))
    first = support.Environment(game, seed=4)
    assert numpy.array_equal((first.reset(), state_of(first))[1] / (numpy.pi, 1.0), states[0])
    other = support.Environment(game, seed=5)
    assert not numpy.array_equal((other.reset(), state_of(other))[1] / (numpy.pi, 1.0), states[0])


def main():
    steps = 200_000 if os.environ.get("GPUR_TEST_LONG") == "1" else 20_000
    env = gymnasium.make("Pendulum-v1", disable_env_checker=True)
    env.reset(seed=0)
    game = support.find(support.load(sys.argv[1]), "Pendulum")
    spaces_agree(game, env)
    random_actions_agree_from_start_to_end(game, env, steps)
    single_steps_agree_from_anywhere(game, env, steps // 4)
    starts_are_uniform(game, steps)
    print(f"test_pendulum: {steps} steps agree with Gymnasium {gymnasium.__version__}")


main()
