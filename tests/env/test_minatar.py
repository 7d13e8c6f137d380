# SPDX-License-Identifier: MIT
"""The five games against those of the authors' package, step by step with the same random numbers, and in the mean with
random numbers of their own. Exits 77 where the package (PyPI: minatar) is not installed.

usage: test_minatar.py libgpureplay.so
"""

import itertools
import logging
import math
import os
import struct
import sys

try:
    import numpy
    logging.disable(logging.WARNING)  # the package warns that it cannot draw without seaborn
    from minatar import Environment as Theirs
except ImportError as missing:
    print(f"skipped: {missing} (pip install --no-deps minatar)")
    sys.exit(77)
import support
from our_numbers import OurNumbers

GAMES = {"Asterix": "asterix", "Breakout": "breakout", "Freeway": "freeway", "Seaquest": "seaquest",
         "SpaceInvaders": "space_invaders"}
HARDEST = {"Asterix": 9, "Seaquest": 19, "SpaceInvaders": 6}  # how many times they can become harder
STAY, LEFT, UP, RIGHT, DOWN, FIRE = range(6)


def episode_of(env):
    """(random, ramp) of a saved state: behind the game's name and options."""
    random, _, _, _, ramp, _ = struct.unpack_from("<Qqiiii", env.save(), 64)
    return random, ramp


class Pair:
    """Our game and theirs, which must agree in everything."""

    def __init__(self, kind, name, seed, sticky, ramping):
        self.ours = support.Environment(kind, f"sticky_action_prob={sticky},difficulty_ramping={ramping:d}", seed)
        self.theirs = Theirs(GAMES[name], sticky_action_prob=sticky, difficulty_ramping=ramping)
        self.theirs.random = self.theirs.env.random = self.numbers = OurNumbers(seed)
        self.name, self.steps, self.episodes, self.best_ramp = name, 0, 0, 0
        self.episode_return, self.best_return = 0.0, 0.0

    def reset(self):
        self.theirs.reset()
        self.compare_obs(self.ours.reset())
        self.episodes += 1
        self.episode_return = 0.0

    def compare_obs(self, obs):
        wanted = self.theirs.state()
        if not numpy.array_equal(obs, wanted):
            y, x, channel = numpy.argwhere(obs != wanted)[0]
            raise AssertionError(f"{self.name}, step {self.steps}: row {y}, column {x}, channel {channel} is "
                                 f"{obs[y, x, channel]}; wanted {int(wanted[y, x, channel])}")

    def step(self, action):
        """Returns whether the episode ended."""
        reward, terminal = self.theirs.act(action)
        obs, our_reward, terminated, truncated = self.ours.step(action)
        self.steps += 1
        self.compare_obs(obs)
        assert (our_reward, terminated, truncated) == (reward, terminal, 0), \
            f"{self.name}, step {self.steps}: {(our_reward, terminated)}; wanted {(reward, terminal)}"
        random, ramp = episode_of(self.ours)
        assert random == self.numbers.state, f"{self.name}, step {self.steps}: another count of random numbers"
        assert ramp == (self.theirs.env.difficulty_ramp() or 0), f"{self.name}, step {self.steps}: ramp {ramp}"
        self.episode_return += reward
        self.best_ramp, self.best_return = max(self.best_ramp, ramp), max(self.best_return, self.episode_return)
        return bool(terminated)


# What a player wants most, from the package's own variables. Most wanted first; others follow in random order.

def towards(x, y, to_x, to_y):
    wanted = [] if to_x == x else [RIGHT if to_x > x else LEFT]
    return wanted + ([] if to_y == y else [DOWN if to_y > y else UP])


def wants_of_asterix(env, _random):
    """The nearest treasure, else the middle."""
    gold = [(abs(one[0] - env.player_x) + abs(one[1] - env.player_y), one[0], one[1])
            for one in env.entities if one and one[3]]
    return towards(env.player_x, env.player_y, *min(gold)[1:]) if gold else towards(env.player_x, env.player_y, 5, 5)


def wants_of_breakout(env, random):
    """To be where the ball comes down, below the last cell of its path, which sends it back, or the one before that,
    which sends it on: at random, so that it gets everywhere."""
    path, step = [env.ball_x] * 2, 1 if env.ball_dir in (1, 2) else -1
    for _ in range(env.ball_y, 9 if env.ball_dir in (2, 3) else env.ball_y):
        path.append(min(max(path[-1] + step, 0), 9))
        step = step if path[-1] != path[-2] else -step  # it has met the wall
    return towards(env.pos, 0, path[-1 - random.integers(2)], 0) + [STAY]


def wants_of_freeway(env, _random):
    return [UP]


def wants_of_seaquest(env, _random):
    """Six divers to the surface, fewer when oxygen is short; otherwise the nearest diver, else the middle."""
    x, y = env.sub_x, env.sub_y
    if env.diver_count == 6 or (env.oxygen < 70 and env.diver_count != 0):
        return [UP]
    divers = [(abs(one[0] - x) + abs(one[1] - y), one[0], one[1]) for one in env.divers]
    return towards(x, y, *min(divers)[1:]) if divers else towards(x, y, 5, 4)


def wants_of_space_invaders(env, _random):
    """To be below the nearest alien."""
    columns = [column for column in range(10) if env.alien_map[:, column].any()]
    return towards(env.pos, 0, min(columns, key=lambda column: abs(column - env.pos), default=env.pos), 0)


class CarefulPlayer:
    """Fires where that will pay, else does what it wants most of what it survives, when it stays for some steps after
    that: it tries so in a second game of ours, which it loads with the state of the first one, random numbers to come
    included. Now and then it acts at random."""

    def __init__(self, kind, name, seed, sticky, ramping):
        self.trial = support.Environment(kind, f"sticky_action_prob={sticky},difficulty_ramping={ramping:d}", seed)
        self.wants, self.random = globals()[f"wants_of_{GAMES[name]}"], numpy.random.default_rng(seed)
        self.horizon, self.explore = (1, 0.002) if name == "Breakout" else (9, 0.02)  # no ball waits for a paddle

    def outcome(self, state, *actions):
        """(whether it survives, the reward until then)"""
        self.trial.load(state)
        reward = 0.0
        for action in (*actions, *[STAY] * (self.horizon - 1)):
            _, gained, terminated, _ = self.trial.step(action)
            reward += gained
            if terminated:
                return False, reward
        return True, reward

    def act(self, pair):
        others = [int(action) for action in self.random.permutation(6)]
        if self.random.random() < self.explore:
            return others[0]
        state = pair.ours.save()
        if getattr(pair.theirs.env, "shot_timer", 1) == 0 and \
                self.outcome(state, FIRE) > (True, self.outcome(state, STAY)[1]):
            return FIRE
        wanted = dict.fromkeys(self.wants(pair.theirs.env, self.random) + others)
        return next((action for action in wanted if self.outcome(state, action)[0]), others[0])


class Marksman(CarefulPlayer):
    """Also tries to move some steps before it fires: the last alien of a wave is hard to hit."""

    def act(self, pair):
        wait, state = pair.theirs.env.shot_timer, pair.ours.save()
        plans = [[move] * steps + [FIRE] for steps in range(wait, wait + 4) for move in (STAY, LEFT, RIGHT)]
        best = max(plans, key=lambda plan: (*self.outcome(state, *plan), -len(plan)))
        return best[0] if self.outcome(state, *best) > (True, 0.0) else super().act(pair)


class RandomPlayer:
    def __init__(self, kind, name, seed, sticky, ramping):
        self.actions = itertools.cycle(numpy.random.default_rng(seed).integers(6, size=9973).tolist())

    def act(self, pair):
        return next(self.actions)


def games_agree(kind, name, player, steps, sticky=0.1, ramping=True, seed=1):
    pair, player = Pair(kind, name, seed, sticky, ramping), player(kind, name, seed, sticky, ramping)
    done = True
    for _ in range(steps):
        if done:
            pair.reset()
        done = pair.step(player.act(pair))
    print(f"  {name:<14} {type(player).__name__:<13} sticky {sticky}, ramping {ramping:d}: {pair.steps} steps, "
          f"{pair.episodes} episodes, best return {pair.best_return:g}, ramp up to {pair.best_ramp}")
    return pair


def all_games_agree(library, steps):
    """At least so many steps of each game by each player: most as the package begins it, some otherwise."""
    for name in GAMES:
        kind = support.find(library, f"MinAtar/{name}")
        random = games_agree(kind, name, RandomPlayer, steps)
        careful = games_agree(kind, name, CarefulPlayer, steps)
        assert careful.best_return > max(random.best_return, 9), f"{name}: the careful player gets nowhere"
        other = games_agree(kind, name, Marksman if name == "SpaceInvaders" else CarefulPlayer, steps // 10, sticky=0.0,
                            seed=2)
        games_agree(kind, name, RandomPlayer, steps // 10, sticky=0.5, ramping=False, seed=3)
        games_agree(kind, name, CarefulPlayer, steps // 10, ramping=False, seed=4)
        assert max(careful.best_ramp, other.best_ramp) == HARDEST.get(name, 0), f"{name} never becomes hardest"


def spaces_agree(library):
    for name, theirs in GAMES.items():
        kind, package = support.find(library, f"MinAtar/{name}"), Theirs(theirs)
        assert list(support.Environment(kind).obs.shape) == package.state_shape()
        assert support.Environment(kind).info.action.num_actions == package.num_actions()
        minimal = package.minimal_action_set()
        assert support.Environment(kind, "minimal_actions=1").info.action.num_actions == len(minimal)
        for action, same in enumerate(minimal):
            few, all_six = support.Environment(kind, "minimal_actions=1", 5), support.Environment(kind, "", 5)
            few.reset(), all_six.reset()
            for _ in range(3):
                assert numpy.array_equal(few.step(action)[0], all_six.step(same)[0])


def random_episodes(step, reset, count, seed):
    """(count, 2): return and length of each episode of a random player."""
    actions, results = numpy.random.default_rng(seed), []
    for _ in range(count):
        reset()
        total, length, done = 0.0, 0, False
        while not done:
            reward, done = step(int(actions.integers(6)))
            total, length = total + reward, length + 1
        results.append((total, length))
    return numpy.array(results)


def random_players_do_alike(library, scale):
    """Means with their standard errors, and a 95% interval of the difference, which must be within 4 of its standard
    errors of 0: that is wrong once in 16,000 times, and the seeds are fixed."""
    for name, theirs in GAMES.items():
        kind, count = support.find(library, f"MinAtar/{name}"), scale // 20 if name == "Freeway" else scale
        ours, package = support.Environment(kind, "", 77), Theirs(theirs)
        package.seed(78)
        got = random_episodes(lambda action: ours.step(action)[1:3], ours.reset, count, 79)
        wanted = random_episodes(package.act, package.reset, count, 80)
        mean, error = [part.mean(0) for part in (got, wanted)], [part.std(0, ddof=1) / math.sqrt(count)
                                                                 for part in (got, wanted)]
        off, wide = mean[0] - mean[1], numpy.hypot(*error)
        for what, i in (("return", 0), ("length", 1)):
            print(f"  {name:<14} {what} of {count} random episodes: {mean[0][i]:.3f} +- {error[0][i]:.3f}, package "
                  f"{mean[1][i]:.3f} +- {error[1][i]:.3f}, difference {off[i] - 1.96 * wide[i]:+.3f} to "
                  f"{off[i] + 1.96 * wide[i]:+.3f}")
        assert numpy.all(numpy.abs(off) <= 4 * wide), f"{name}: {mean[0]} and {mean[1]}, standard errors {error}"


def main():
    is_long = os.environ.get("GPUR_TEST_LONG") == "1"
    library = support.load(sys.argv[1])
    spaces_agree(library)
    all_games_agree(library, 500_000 if is_long else 12_000)
    random_players_do_alike(library, 20_000 if is_long else 500)
    print("test_minatar: every observation, reward, end, ramp and random number agrees with the package")


main()
