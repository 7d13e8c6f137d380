# SPDX-License-Identifier: MIT
"""A dueling double DQN with the Nature network learns an Atari game on the built-in learner, by the rules and constants
of its papers, from a replay that stores each frame once.

    python3 atari.py                          Pong; needs `pip install ale-py gymnasium`, matplotlib for the picture
    python3 atari.py --game breakout --resume        goes on from the last checkpoint in breakout/
    python3 atari.py --smoke                         a minute on two CPU cores, to see that it runs; --help tells more

Ctrl-C saves a checkpoint and ends with status 130. A million transitions take 7.3 GB of the device, and each checkpoint
as much of the disk (twice while it is written). The emulators are in none: a run that is resumed begins new games.
"""

import argparse
import collections
import signal
import sys
import time
from pathlib import Path

import numpy as np

import checkpoints
import gpureplay
from atari_checks import check_loss, check_stacks
from atari_env import CAP, FRAME_SKIP, NOOPS, SIZE, Atari
from curve import draw, show

# The learner's and the replay's constants are those of preset "nature-dueling"; these belong to the run.
STEPS = 50_000_000  # 200 million frames [Mnih et al. 2015, Methods: training details]
TRAIN_EVERY = 4  # steps a train step [ibid., extended data table 1: update frequency]
EVALUATE_EVERY, EPISODES, EPSILON = 250_000, 30, 0.05  # [ibid., Methods; Daley & Amato 2021]
ENVS = 8  # [Daley & Amato 2021: W]
FIELDS = {"obs": ((SIZE, SIZE), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((SIZE, SIZE), "uint8"),
          "terminated": "bool"}
SMOKE = {"steps": 1_200, "capacity": 4_096, "min_size": 800, "evaluate_every": 600, "episodes": 2, "cap": 50,
         "check": True}


class Stop:
    """Whether the run is to end: looked at between steps, so that what is saved is of one moment."""

    def __init__(self, minutes):
        self.signal, self._until = 0, time.monotonic() + 60 * minutes
        for number in signal.SIGINT, signal.SIGTERM:
            signal.signal(number, self._hear)

    def _hear(self, number, _):
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number

    def __bool__(self):
        return self.signal != 0 or time.monotonic() > self._until


class Run:
    """Games, replay, learner, and what is counted beside them."""

    def __init__(self, args):
        self.args, self.stop = args, Stop(args.minutes)
        self.games, self.judge = (Atari(args.game, count, args.frame_skip, args.noops, args.fire, args.life_loss,
                                        args.cap) for count in (args.envs, args.episodes))
        self.buffer = gpureplay.ReplayBuffer(args.capacity, FIELDS, preset="nature-dueling", observations="frames",
                                             device=args.device, num_envs=args.envs, autoreset="disabled",
                                             seed=args.seed, min_size=args.min_size)
        self.agent = gpureplay.DQN(self.buffer, self.games.actions, "nature-dueling", seed=args.seed)
        self.step, self.trained, self.curve, self.recent = 0, 0, [], collections.deque(maxlen=100)
        self.began, self.began_at = time.monotonic(), 0

    def load(self, path):
        """Goes on from a checkpoint; with new games, for the emulators are not in it."""
        kept = checkpoints.load(path, self.buffer, self.agent)
        self.buffer.reset()
        self.step = self.began_at = kept["step"]
        self.trained, self.curve = kept["trained"], kept["curve"]
        self.recent.extend(kept["recent"])

    def save(self):
        kept = {"settings": settings_of(self.args), "step": self.step, "trained": self.trained, "curve": self.curve,
                "recent": list(self.recent), "device": self.buffer.device.name}
        try:
            checkpoints.save(self.args.out, self.step, self.buffer, self.agent, kept)
        except (gpureplay.Unavailable, gpureplay.FileError, OSError) as error:
            print(f"\nno checkpoint: {error}")

    def draw(self, quiet=False):
        draw(self.curve, Path(self.args.out) / "curve.png", title=self.args.game, quiet=quiet)

    def train(self):
        """Until the last step, or until it is to stop."""
        self.games.reset(self.args.seed + self.step)
        self.judge.reset(self.args.seed + self.step + 1_000_000)
        while self.step < self.args.steps and not self.stop:
            self._play()
            self._learn()
            if self.step % self.args.evaluate_every < self.args.envs:
                self._evaluate()
            if self.step % (64 * self.args.envs) == 0:
                self._show()

    def _play(self):
        """One step of every game. Before training begins actions are random, and no step counts for the schedule."""
        obs, seen = self.games.obs, self.games.stacks
        action = self.agent.act(seen, self.agent.epsilon(max(0, self.step - self.args.min_size)))
        led = self.games.step(action)
        self.buffer.add(obs=obs, action=action, reward=led.reward, next_obs=led.next_obs, terminated=led.terminated,
                        truncated=led.truncated)
        self.step += len(obs)
        self.recent.extend(led.scores.values())
        if self.args.check:
            check_stacks(self.buffer, seen, led.next_obs)

    def _learn(self):
        due = (self.step - self.args.min_size) // TRAIN_EVERY - self.trained
        if due > 0 and self.buffer.can_sample:
            self.agent.train(due)  # returns before it is done
            self.trained += due

    def _evaluate(self):
        """Mean score of one game of each of the judge's, onto the curve; and a checkpoint."""
        scores = {}
        self.judge.reset()
        while len(scores) < self.judge.num_envs:
            if self.stop:
                return
            scores = self.judge.step(self.agent.act(self.judge.stacks, EPSILON)).scores | scores
        self.curve.append((self.step, sum(scores.values()) / len(scores)))
        self.save()
        self.draw(quiet=True)

    def _show(self):
        frames = (self.step - self.began_at) * self.args.frame_skip / (time.monotonic() - self.began)
        last = f"last {len(self.recent)} games {np.mean(self.recent):.1f}" if self.recent else "no game is over"
        judged = f", evaluated {self.curve[-1][1]:.1f}" if self.curve else ""
        show(self.step, self.args.steps, f"{frames:,.0f} frames/s, {last}{judged}")


def settings_of(args):
    """Those that a run that is resumed has to share."""
    free = ("steps", "minutes", "device", "out", "resume", "check", "smoke")
    return {name: value for name, value in vars(args).items() if name not in free}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="pong", help="ale-py's name: ms_pacman, say")
    parser.add_argument("--steps", type=int, default=STEPS, help="environment steps in all; default %(default)s")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop then, with a checkpoint")
    parser.add_argument("--out", help="folder of the checkpoints and of the learning curve; default: the game's name")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda:N")
    parser.add_argument("--envs", type=int, default=ENVS, help="games side by side; default %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capacity", type=int, default=1_000_000, help="transitions kept; default %(default)s")
    parser.add_argument("--min-size", type=int, default=50_000, help="random steps before; default %(default)s")
    parser.add_argument("--evaluate-every", type=int, default=EVALUATE_EVERY, help="steps; default %(default)s")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of an evaluation; default %(default)s")
    parser.add_argument("--frame-skip", type=int, default=FRAME_SKIP, help="default %(default)s")
    parser.add_argument("--noops", type=int, default=NOOPS, help="at most, when a game begins; default %(default)s")
    parser.add_argument("--no-fire", dest="fire", action="store_false", help="FIRE does not begin a game")
    parser.add_argument("--no-life-loss", dest="life_loss", action="store_false", help="an episode is a whole game")
    parser.add_argument("--cap", type=int, default=CAP, help="steps after which a game is cut off; default %(default)s")
    parser.add_argument("--check", action="store_true", help="compare each observation with what the replay rebuilds")
    parser.add_argument("--smoke", action="store_true", help="a minute, to see that it runs")
    parser.set_defaults(**SMOKE if parser.parse_args().smoke else {})
    args = parser.parse_args()
    args.out = args.out or args.game
    return args


def begin(args):
    """A new run, or the one of the last checkpoint; ends the program where it is neither."""
    path = checkpoints.newest(args.out)
    if args.resume and path is None:
        sys.exit(f"there is no checkpoint in {args.out} to go on from; without --resume a run begins there")
    if path is not None and not args.resume:
        sys.exit(f"{path} is there: --resume goes on from it, and --out puts another run elsewhere")
    kept = checkpoints.settings(path)["settings"] if path else {}
    for name, value in settings_of(args).items():
        if kept.get(name, value) != value:
            sys.exit(f"{path} is of a run with {name} {kept[name]}, not {value}")
    run = Run(args)
    checkpoints.try_out(args.out, run.buffer, run.agent)
    if path:
        run.load(path)
    return run


if __name__ == "__main__":
    args = arguments()
    run = begin(args)
    run.train()
    print()
    if run.step > run.began_at:
        run.save()
    run.draw()
    if args.smoke and not run.stop:
        check_loss(run.agent, run.buffer)
    sys.exit(128 + run.stop.signal if run.stop.signal else 0)
