# SPDX-License-Identifier: MIT
"""examples/cartpole.h against Gymnasium's CartPole-v1, step by step. Exits 77 where Gymnasium is not installed."""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gymnasium
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]


SHIM = """#include "examples/cartpole.h"
void reset(cartpole *pole, float *obs) { cartpole_reset(pole, obs); }
void step(cartpole *pole, int action, float *obs, uint8_t *ends) { cartpole_step(pole, action, obs, ends, ends + 1); }
"""


class Pole(ctypes.Structure):
    _fields_ = [("state", ctypes.c_double * 4), ("random", ctypes.c_uint64), ("steps", ctypes.c_int32)]


def load_game(folder):
    """Compiles cartpole.h as it is, with two functions to call it by."""
    source, library = Path(folder) / "cartpole.c", Path(folder) / "cartpole.so"
    source.write_text(SHIM)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC", f"-I{ROOT}", str(source),
                    "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


class Port:
    """Our CartPole."""

    def __init__(self, game, seed):
        self.game, self.pole, self.obs = game, Pole(random=seed), numpy.zeros(4, dtype=numpy.float32)
        self.state = numpy.frombuffer(self.pole, dtype=numpy.float64, count=4)  # x, x_dot, theta, theta_dot

    def reset(self):
        self.game.reset(ctypes.byref(self.pole), ctypes.c_void_p(self.obs.ctypes.data))
        return self.obs

    def step(self, action):
        ends = (ctypes.c_uint8 * 2)()
        self.game.step(ctypes.byref(self.pole), ctypes.c_int32(action), ctypes.c_void_p(self.obs.ctypes.data), ends)
        return self.obs, 1.0, bool(ends[0]), bool(ends[1])


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
            port.state[:] = x, x_dot, theta, theta_dot = env.unwrapped.state
            done = same_step(port, env, int(theta + 0.5 * theta_dot + 0.02 * x + 0.05 * x_dot > 0), 1e-14)
            steps += 1
        assert steps == 500, steps


def single_steps_agree_from_anywhere(game, env, count):
    """States far beyond where an episode can get, so that every term of the equations matters."""
    random = numpy.random.default_rng(3)
    port = Port(game, 3)
    for _ in range(count):
        port.reset()
        port.state[:] = random.uniform(-1, 1, 4) * (3.0, 5.0, 1.5, 8.0)
        gymnasium_at(env, port.state)
        same_step(port, env, int(random.integers(2)), 1e-14)


def starts_are_uniform(game, count):
    """Mean and variance of U(-0.05, 0.05), each within 5 of its standard errors, and the bounds: of 20,000 samples the
    largest is below 0.0499 with probability 2e-9. Another seed starts otherwise, the same seed alike."""
    port = Port(game, 4)
    states = numpy.array([(port.reset(), port.state.copy())[1] for _ in range(count)])
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
    with tempfile.TemporaryDirectory() as folder:
        game = load_game(folder)
        random_actions_agree_from_start_to_end(game, env, steps)
        balanced_episodes_are_truncated_alike(game, env, steps // 5_000)
        single_steps_agree_from_anywhere(game, env, steps // 4)
        starts_are_uniform(game, steps)
    print(f"test_cartpole: {steps} steps agree with Gymnasium {gymnasium.__version__}")


main()
