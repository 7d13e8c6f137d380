# SPDX-License-Identifier: MIT
"""A dueling double DQN learns CartPole-v1 on the built-in learner, until 100 greedy episodes return 475 on average.

    python3 cartpole.py                needs `pip install gymnasium`, and matplotlib for the picture; --help tells more
"""

import argparse
import sys

import numpy as np

import gpureplay
from curve import draw, show

try:
    import gymnasium
except ModuleNotFoundError:
    sys.exit("this example plays Gymnasium's CartPole: pip install gymnasium")

SOLVED, ENVS, ROUND, EVALUATE_EVERY, EPISODES = 475, 8, 256, 1024, 100


def evaluate(agent, envs):
    """Mean return of one greedy episode of each environment."""
    obs, _ = envs.reset()
    playing, total = np.ones(envs.num_envs, bool), 0.0
    while playing.any():
        obs, reward, terminated, truncated, _ = envs.step(agent.act(obs))
        total += reward[playing].sum()
        playing &= ~(terminated | truncated)
    return total / envs.num_envs


def train(seed, steps, curve):
    """Adds (steps, mean return) to the curve at each evaluation. True when it is solved."""
    envs, judge = (gymnasium.make_vec("CartPole-v1", num_envs=count) for count in (ENVS, EPISODES))
    device = gpureplay.Device("auto", threads=1)  # layers this small gain little from more
    buffer = gpureplay.ReplayBuffer.for_env(100_000, envs, device=device, min_size=1000, seed=seed)
    agent = gpureplay.DQN(buffer, preset="cartpole", seed=seed)
    (obs, _), _ = envs.reset(seed=seed), judge.reset(seed=seed + 1)
    for step in range(ENVS, steps + 1, ENVS):
        action = agent.act(obs, agent.epsilon(step))
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
        obs = next_obs
        if step % ROUND == 0 and buffer.can_sample:
            agent.train(ROUND)  # a train step for each environment step; returns before they are done
        if step % EVALUATE_EVERY == 0:
            curve.append((step, evaluate(agent, judge)))
            show(step, steps, f"mean return {curve[-1][1]:.1f} of {SOLVED}")
            if curve[-1][1] >= SOLVED:
                return True
    return False


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=100_000, help="give up after so many environment steps")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--out", default="cartpole.png", help="the picture of the learning curve")
parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
args, curve = parser.parse_args(), []
try:
    solved = train(args.seed, 4 * EVALUATE_EVERY if args.quick else args.steps, curve)
    print("\nsolved" if solved else "\nnot solved within the limit")
except KeyboardInterrupt:
    solved = False
    print("\ninterrupted")
draw(curve, args.out, SOLVED)
sys.exit(0 if solved or args.quick else 1)
