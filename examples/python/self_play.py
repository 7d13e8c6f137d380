# SPDX-License-Identifier: MIT
"""Learns a board game of PettingZoo by playing against itself, with the legal moves as action masks, and then plays
1,000 games against an opponent that makes random legal moves, as the first player in every second one.

    python3 self_play.py                tic-tac-toe
    python3 self_play.py connect_four   connect four; --help tells more
"""

import argparse
import importlib
import math

import numpy as np

import gpureplay

GAMES = {"tictactoe": ("pettingzoo.classic.tictactoe_v3", 20_000), "connect_four":
         ("pettingzoo.classic.connect_four_v3", 40_000)}


def stacked(observations):
    """Observations of several boards as one, of which each part has an axis for the boards."""
    return {key: np.stack([obs[key] for obs in observations]) for key in ("observation", "action_mask")}


class Boards:
    """Games side by side. `moves` has what each player saw and did last, until its next turn or the end."""

    def __init__(self, module, count, seed):
        self.envs = [importlib.import_module(module).env() for _ in range(count)]
        self._seeds = np.random.default_rng(seed)
        self.moves = [{} for _ in self.envs]
        for at in range(count):
            self.begin(at)

    def begin(self, at):
        self.envs[at].reset(seed=int(self._seeds.integers(2**31)))
        self.moves[at] = {}

    def observe(self):
        return [env.observe(env.agent_selection) for env in self.envs]

    def step(self, at, obs, action):
        """Makes a move, and returns the transitions that it completes, and the rewards if it ends the game: a player's
        move leads to its own next turn."""
        env, player, moves = self.envs[at], self.envs[at].agent_selection, self.moves[at]
        made = [(*moves[player], 0.0, obs, False)] if player in moves else []
        moves[player] = obs, action
        env.step(action)
        if not (any(env.terminations.values()) or any(env.truncations.values())):
            return made, None
        rewards = dict(env.rewards)
        return made + [(*moves[one], rewards[one], env.observe(one), True) for one in moves], rewards


def train(agent, buffer, boards, args):
    games = steps = 0
    while games < args.games:
        observations, made = boards.observe(), []
        epsilon = max(0.1, 1.0 - 1.5 * games / args.games)
        for at, action in enumerate(agent.act(stacked(observations), epsilon)):
            completed, rewards = boards.step(at, observations[at], int(action))
            made += completed
            if rewards is not None:
                games += 1
                boards.begin(at)
        if made:
            obs, action, reward, next_obs, terminated = zip(*made)
            buffer.extend(obs=stacked(obs), action=np.array(action), reward=np.array(reward, np.float32),
                          next_obs=stacked(next_obs), terminated=np.array(terminated),
                          truncated=np.zeros(len(made), bool))
            steps += len(made)
        if len(buffer) >= 1_000:
            agent.train(8)
    return steps


def play(agent, module, games, seed):
    """Wins, draws and losses of so many games against random legal moves."""
    random, counts = np.random.default_rng(seed), [0, 0, 0]
    boards = Boards(module, games, seed)
    playing = list(range(games))
    while playing:
        observations = boards.observe()
        actions = agent.act(stacked(observations))
        for at in list(playing):
            env = boards.envs[at]
            ours = env.possible_agents[at % 2]
            action = actions[at] if env.agent_selection == ours else random.choice(
                np.flatnonzero(observations[at]["action_mask"]))
            rewards = boards.step(at, observations[at], int(action))[1]
            if rewards is not None:
                counts[1 - int(np.sign(rewards[ours]))] += 1
                playing.remove(at)
                boards.begin(at)  # so that there is something to observe
    return counts


def interval(hits, count):
    """Wilson's interval of 95%."""
    z, p = 1.96, hits / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", nargs="?", default="tictactoe", choices=GAMES)
    parser.add_argument("--games", type=int, help="of self-play (default: 20,000, and 40,000 of connect four)")
    parser.add_argument("--against", type=int, default=1_000, help="games against the random opponent")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    module, games = GAMES[args.game]
    args.games = args.games or games
    boards = Boards(module, 64, args.seed)
    player = boards.envs[0].possible_agents[0]
    buffer = gpureplay.ReplayBuffer(100_000, boards.envs[0].observation_space(player),
                                    boards.envs[0].action_space(player), device=gpureplay.Device("auto", threads=1),
                                    flatten=True, action_mask=True, gamma=0.95, seed=args.seed)
    agent = gpureplay.DQN(buffer, trunk=[256, 256], learning_rate=5e-4, batch_size=128, double_dqn=True,
                          target_period=500, seed=args.seed)
    steps = train(agent, buffer, boards, args)
    wins, draws, losses = play(agent, module, args.against, args.seed + 1)
    low, high = interval(wins + draws, args.against)
    print(f"{args.game}, seed {args.seed}: {steps:,} moves; {wins} wins, {draws} draws, {losses} losses: "
          f"{(wins + draws) / args.against:.1%} not lost ({low:.1%} to {high:.1%})")


if __name__ == "__main__":
    main()
