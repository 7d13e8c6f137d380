# SPDX-License-Identifier: MIT
"""Flips bits until they are those of a goal, as in section 4.1 of hindsight experience replay [Andrychowicz et al.
2017]. Each step costs 1 until then, so that an agent that never meets its goal sees the same reward always. With goals
that were achieved it learns all the same.

    python3 bit_flipping.py            30 bits, with hindsight
    python3 bit_flipping.py --without  the same without it; --help tells more
"""

import argparse
import sys

import numpy as np

import gpureplay
from curve import draw, show

ENVS, TRAIN_STEPS, EVALUATE_EVERY, EPISODES, SOLVED = 16, 40, 50, 200, 0.99


class Bits:
    """Environments that step together. An observation is the bits and those of the goal, an action the bit to flip. An
    episode is truncated after as many steps as there are bits."""

    def __init__(self, count, bits, random):
        self.count, self.bits, self._random = count, bits, random
        self.obs, self._steps = np.zeros((count, 2 * bits), np.float32), np.zeros(count, int)
        self.reset(np.ones(count, bool))

    def reset(self, envs):
        self.obs[envs] = self._random.integers(0, 2, (envs.sum(), 2 * self.bits))
        self._steps[envs] = 0

    def step(self, action):
        """Returns what `add` takes, and the next observations, of new episodes where one has ended."""
        before, at = self.obs.copy(), (np.arange(self.count), action)
        self.obs[at] = 1 - self.obs[at]
        self._steps += 1
        terminated = (self.obs[:, :self.bits] == self.obs[:, self.bits:]).all(1)
        row = {"obs": before, "action": action, "reward": terminated - 1.0, "next_obs": self.obs.copy(),
               "terminated": terminated, "truncated": ~terminated & (self._steps == self.bits)}
        self.reset(terminated | row["truncated"])
        return row


def success_rate(agent, bits):
    """The share of greedy episodes that reach the goal."""
    envs, reached = Bits(EPISODES, bits, np.random.default_rng(0)), np.zeros(EPISODES, bool)
    for _ in range(bits):
        reached |= envs.step(agent.act(envs.obs))["terminated"]
    return reached.mean()


def train(args, curve):
    """Adds (steps, success rate) to the curve at each evaluation. True when it is solved."""
    bits = args.bits
    fields = {"obs": ((2 * bits,), "float32"), "action": "int32", "reward": "float32",
              "next_obs": ((2 * bits,), "float32"), "terminated": "bool", "truncated": "bool"}
    hindsight = None if args.without else gpureplay.Hindsight(
        achieved=("obs", 0, bits), desired=("obs", bits, 2 * bits), ends_at_goal=True)
    device = gpureplay.Device("auto", threads=1)  # layers this small gain little from more
    buffer = gpureplay.ReplayBuffer(1_000_000, fields, num_envs=ENVS, autoreset="disabled", device=device, gamma=0.98,
                                    hindsight=hindsight, seed=args.seed)
    agent = gpureplay.DQN(buffer, bits, trunk=[256], learning_rate=1e-3, batch_size=128, double_dqn=True,
                          target_period=1, target_rate=0.005, seed=args.seed)
    envs, rounds = Bits(ENVS, bits, np.random.default_rng(args.seed)), 5 if args.quick else args.rounds
    for round in range(1, rounds + 1):
        for _ in range(bits):
            buffer.add(**envs.step(agent.act(envs.obs, epsilon=0.2)))
        agent.train(TRAIN_STEPS)  # returns before they are done
        if round % EVALUATE_EVERY == 0 or round == rounds:
            curve.append((round * bits * ENVS, success_rate(agent, bits)))
            show(curve[-1][0], rounds * bits * ENVS, f"{curve[-1][1]:.1%} of goals reached")
            if curve[-1][1] >= SOLVED:
                return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=30)
    parser.add_argument("--without", action="store_true", help="without hindsight")
    parser.add_argument("--rounds", type=int, default=3000, help="give up after so many times 16 episodes or more")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="bit_flipping.png", help="the picture of the learning curve")
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    args, curve = parser.parse_args(), []
    try:
        solved = train(args, curve)
        print("\nsolved" if solved else "\nnot solved within the limit")
    except KeyboardInterrupt:
        solved = False
        print("\ninterrupted")
    draw(curve, args.out, SOLVED, f"{args.bits} bits")
    return 0 if solved or args.quick else 1


if __name__ == "__main__":
    sys.exit(main())
