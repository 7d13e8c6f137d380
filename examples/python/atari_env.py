# SPDX-License-Identifier: MIT
"""Atari games side by side, by the rules of DQN's papers, on ale-py's vector environment.

ale-py plays, skips frames, takes the larger of the last two, and makes them gray and 84 x 84. The rest is done here,
for of ale-py 0.12.1 this was found:

life_loss_info   reports a lost life as `terminated` and plays on, though its autoreset mode says that the step after an
                 end only resets. Who believes that leaves out the first step of each life.
the frame limit  ends a game before the screen of the last step is taken: its last observation is a mixture of older
                 ones, from which a truncated episode would be bootstrapped.
stack_num        starts with zeros at a reset, but goes on over a lost life.
"""

import sys
from typing import NamedTuple

import numpy as np

try:
    from ale_py.vector_env import AtariVectorEnv
except ModuleNotFoundError as error:
    sys.exit(f"this example plays Atari games ({error}): pip install \"ale-py>=0.12.1\" gymnasium")

SIZE, STACK = 84, 4  # pixels either way, frames in an observation [Mnih et al. 2015, Methods: preprocessing]
FRAME_SKIP = 4  # frames for which an action lasts [Mnih et al. 2015, extended data table 1]
NOOPS = 30  # a game begins with up to so many frames of doing nothing [ibid.]; a FIRE takes the place of one
CAP = 27_000  # steps, 30 minutes of play [Daley & Amato 2021, whose code ends an episode there; here it is cut off]


class Step(NamedTuple):
    """What a step of every game led to."""

    next_obs: np.ndarray  # (num_envs, 84, 84) uint8, the newest frame alone
    reward: np.ndarray  # (num_envs,) float32, as the game counts
    terminated: np.ndarray  # (num_envs,) bool: the game is over, or a life is lost
    truncated: np.ndarray  # (num_envs,) bool: the game has lasted for `cap` steps
    scores: dict  # number of the game: its score; of those that ended


class Atari:
    """num_envs games, each begun anew when it ends.

    fire: FIRE begins the games that have it. life_loss: a lost life ends an episode, but not the game.

    obs: (num_envs, 84, 84) uint8, the newest frames. stacks: (num_envs, 4, 84, 84), what the agent sees: the frames of
    the episode, oldest first, and zeros where it has not had four; so also after a lost life, as the replay rebuilds
    it [Daley & Amato 2021: its code; that code's agent goes on seeing the frames before, which it is not trained on].
    """

    def __init__(self, game, num_envs, frame_skip=FRAME_SKIP, noops=NOOPS, fire=True, life_loss=True, cap=CAP):
        # ale-py counts frames, and must not cut a game off itself; its noop_max is one more than the most.
        self.envs = AtariVectorEnv(game, num_envs, frameskip=frame_skip, noop_max=noops + 1, use_fire_reset=fire,
                                   max_num_frames_per_episode=frame_skip * (cap + 1), stack_num=1,
                                   img_height=SIZE, img_width=SIZE, reward_clipping=False)
        self.num_envs, self.actions = num_envs, int(self.envs.single_action_space.n)
        self.life_loss, self.cap = life_loss, cap
        self.stacks = np.zeros((num_envs, STACK, SIZE, SIZE), np.uint8)
        self.steps, self.totals = np.zeros(num_envs, np.int64), np.zeros(num_envs)

    def reset(self, seed=None):
        """Begins every game."""
        self._begin(np.ones(self.num_envs, bool), seed)
        self._open(np.ones(self.num_envs, bool))

    def step(self, action):
        next_obs, reward, over, _, info = self.envs.step(action)
        next_obs, lost = next_obs[:, 0], info["lives"] < self.lives
        self.steps, self.totals, self.lives = self.steps + 1, self.totals + reward, info["lives"]
        ended = over | (self.steps >= self.cap)
        terminated = over | lost if self.life_loss else over
        self.obs = next_obs
        self.stacks = pushed(self.stacks, next_obs)
        scores = {int(env): float(self.totals[env]) for env in np.flatnonzero(ended)}
        if ended.any():
            self._begin(ended)
        self._open(ended | terminated)
        return Step(next_obs, reward.astype(np.float32), terminated, ended & ~terminated, scores)

    def _begin(self, which, seed=None):
        """New games; the others stay as they are. A seed costs a tenth of a second a game: ale-py loads it again."""
        obs, info = self.envs.reset(seed=seed, options={"reset_mask": which})
        self.obs, self.lives = obs[:, 0], info["lives"]
        self.steps[which], self.totals[which] = 0, 0

    def _open(self, which):
        """New episodes."""
        self.stacks[which] = 0
        self.stacks[which, -1] = self.obs[which]


def pushed(stacks, frames):
    """The stacks one step later."""
    return np.concatenate([stacks[:, 1:], frames[:, None]], axis=1)
