# SPDX-License-Identifier: MIT
"""Environments of Gymnasium by the library's names. The package has these functions where Gymnasium is not installed,
too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._envs import EnvOptions, name_of_path

if TYPE_CHECKING:
    from .envs import GameEnv, GameVectorEnv


def make_env(name: str | os.PathLike[str], *, env_options: EnvOptions = None, render_mode: str | None = None
             ) -> GameEnv:
    """Makes one environment of the library or of a plug-in, a gymnasium.Env.

        env = gpureplay.make_env("MinAtar/Breakout", env_options={"sticky_action_prob": 0}, render_mode="rgb_array")
        obs, info = env.reset(seed=1)
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        picture = env.render()             # (100, 100, 3) uint8

    name: a game ("CartPole-v1", "MinAtar/Breakout", ...), or a plug-in's file ("./games.so:Corridor").
    env_options: {"name": value} or "name=value,name=value". `python -m gpureplay.train --list` has them.
    render_mode: "rgb_array": `render` draws. Plug-ins can be drawn that show images of uint8, (height, width) or with
        an axis of 1 or 3 colors behind.
    ValueError: no such name, options or render_mode. ModuleNotFoundError: Gymnasium is not installed.
    """
    from .envs import GameEnv
    return GameEnv(name_of_path(name), env_options=env_options, render_mode=render_mode)


def make_vec(name: str | os.PathLike[str], num_envs: int, *, env_options: EnvOptions = None,
             autoreset: Any = "next_step", render_mode: str | None = None) -> GameVectorEnv:
    """Makes environments of the library or of a plug-in that step together, a gymnasium.vector.VectorEnv.

        envs = gpureplay.make_vec("MinAtar/Breakout", 64)
        obs, info = envs.reset(seed=1)     # (64, 10, 10, 4) uint8
        obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())

    A step of all is one call into the library, in the calling thread, which lets other threads of Python run meanwhile.

    autoreset: how the next episode of an environment begins: "next_step" (Gymnasium's default), "same_step" or
        "disabled", or Gymnasium's AutoresetMode.
    The other arguments and the errors are those of `make_env`.
    """
    from .envs import GameVectorEnv
    return GameVectorEnv(name_of_path(name), num_envs, env_options=env_options, autoreset=autoreset,
                         render_mode=render_mode)
