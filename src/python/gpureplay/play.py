# SPDX-License-Identifier: MIT
"""Plays games by the weights of a run: python -m gpureplay.play RUN [--episodes N] [--video FOLDER]. Needs gymnasium,
and for videos moviepy, with which Gymnasium's RecordVideo writes them. `python -m gpureplay.train evaluate RUN` shows
the mean return alone.

RUN is the folder of a run, of any of the programs, in a game of the library, a plug-in, or an environment of Gymnasium
or another that has a name. `gpureplay-train play` and `evaluate` are faster, and play what is in C."""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._door import end_without_reader, lines_of_warnings
from ._envs import is_native, maker_of_name, options_dict
from ._library import GpureplayError
from ._make_envs import make_env
from ._policy import Policy
from ._run_folder import read_config
from .plot import interval

_FILES = {"last": "", "best": "best.safetensors"}


class Game(NamedTuple):
    """Its rewards together, and its steps."""

    score: float
    length: int


def _make(config: dict[str, Any], env: str | None, env_options: str | None, video: str | None) -> Any:
    """The run's environment, or another one; recorded to the folder `video`."""
    if video is not None and importlib.util.find_spec("moviepy") is None:
        raise ModuleNotFoundError("Gymnasium writes videos with moviepy, which is not installed; `pip install moviepy`",
                                  name="moviepy")
    name = env or config["options"]["env"]
    if name.startswith("("):
        raise ValueError("the run had an environment without a name, made by a function, say; --env must give the name "
                         "of one like it: module:make_env")
    options = (None if env else config["options"].get("env-options")) if env_options is None else env_options
    render_mode = None if video is None else "rgb_array"
    try:
        if is_native(name):
            made: Any = make_env(name, env_options=options, render_mode=render_mode)
        else:
            given = {} if render_mode is None else {"render_mode": render_mode}
            made = maker_of_name(name, {**options_dict(options), **given})(0)
    except (TypeError, ValueError) as error:
        if video is None or "render_mode" not in str(error):
            raise
        raise type(error)(f"--video is {video}, for which {name} is made with render_mode=\"rgb_array\": {error}"
                          ) from None
    if video is None:
        return made
    from gymnasium.wrappers import RecordVideo
    return RecordVideo(made, video, episode_trigger=lambda _: True)


def _stacked(shape: tuple[int, ...], shown: tuple[int, ...], repeats: bool) -> Callable[[Any, bool], np.ndarray]:
    """A function of what the environment shows, and whether an episode begins, that gives what a network with
    observations of `shape` sees: a stack of frames, if that has one axis more."""
    if len(shape) != len(shown) + 1:
        return lambda frame, _begins: np.asarray(frame)
    axis = 0 if shape[1:] == shown else len(shape) - 1
    frames: collections.deque[np.ndarray] = collections.deque(maxlen=shape[axis])

    def see(frame: Any, begins: bool) -> np.ndarray:
        newest = np.array(frame)
        if begins:
            frames.extend([newest if repeats else np.zeros_like(newest)] * shape[axis])
        frames.append(newest)
        return np.stack(list(frames), axis)

    return see


def _epsilon_of(config: dict[str, Any]) -> float:
    """That of the run's evaluations; actor-critics have none."""
    return float(next((config[name]["eval_epsilon"] for name in ("run", "apex") if name in config), 0.0))


def play(run: str | os.PathLike[str], *, episodes: int = 5, seed: int = 1, weights: str = "last", greedy: bool = False,
         epsilon: float | None = None, env: str | None = None, env_options: str | None = None,
         video: str | None = None, device: str = "auto") -> Iterator[Game]:
    """Plays games, one after another.

    run: the folder of a run. weights: "last", or "best": those of its best evaluation.
    epsilon: the probability of a random action; None: that of the run's evaluations. greedy: the best action always.
    env, env_options: in place of those of the run. video: the folder to which each episode is recorded.
    """
    folder = Path(run)
    config = read_config(folder)
    if weights == "best" and not (folder / _FILES["best"]).exists():
        raise FileNotFoundError(f"{folder} has no {_FILES['best']}, the weights of its best evaluation, which a run "
                                "keeps that evaluates; the newest weights are \"last\"")
    policy = Policy.open(folder / _FILES[weights], device=device, seed=seed)
    made = _make(config, env, env_options, video)
    try:
        see = _stacked(policy._obs.shape, made.observation_space.shape or (),
                       config.get("replay", {}).get("stack_pad") == "repeat")
        noise = 0.0 if greedy else _epsilon_of(config) if epsilon is None else epsilon
        act = _actor(policy, noise, greedy)
        limit = sys.maxsize if config["environment"].get("max_steps") else _c_api.EVALUATION_STEPS
        for game in range(episodes):
            yield _play_one(made, see, act, limit, seed if game == 0 else None)
    finally:
        made.close()
        policy.close()


def _actor(policy: Policy, epsilon: float, greedy: bool) -> Callable[[np.ndarray], Any]:
    head = policy.config["head"]
    if head == "tanh_action":
        return lambda obs: policy.act_vectors(obs[None])[0]
    drawn = {"greedy": greedy} if head == "softmax_value" else {}
    return lambda obs: int(policy.act(obs[None], epsilon, **drawn)[0])


def _play_one(env: Any, see: Callable[[Any, bool], np.ndarray], act: Callable[[np.ndarray], Any], limit: int,
              seed: int | None) -> Game:
    """A lost life does not end it. seed: of this game and those that follow."""
    score, length, goes_on = 0.0, 0, True
    while goes_on:
        shown, _ = env.reset(seed=seed)
        obs, ended, seed = see(shown, True), False, None
        while not ended and length < limit:
            shown, reward, terminated, truncated, info = env.step(act(obs))
            obs, ended = see(shown, False), terminated or truncated
            score, length = score + float(reward), length + 1
        goes_on = ended and bool(info.get("continues")) and length < limit
    return Game(score, length)


@lines_of_warnings("python -m gpureplay")
def main(command: str = "play") -> int:
    """command: "play", or "evaluate", which shows the result alone."""
    program = f"python -m gpureplay.{'play' if command == 'play' else 'train evaluate'}"
    default = 5 if command == "play" else 30
    parser = argparse.ArgumentParser(prog=program, description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument("--episodes", metavar="N", type=int, default=default, help=f"games; {default}")
    parser.add_argument("--video", metavar="FOLDER", help="where a video of each episode goes")
    parser.add_argument("--weights", choices=_FILES, default="last", help="of the best evaluation, or the last ones")
    parser.add_argument("--epsilon", metavar="X", type=float, help="probability of a random action; that of the run's "
                        "evaluations")
    parser.add_argument("--greedy", action="store_true", help="the best action always")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of everything random")
    parser.add_argument("--env", metavar="NAME", help="the environment, in place of the run's")
    parser.add_argument("--env-options", metavar="LIST", help="the environment's: a=1,b=2")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu or cuda:N")
    given = vars(parser.parse_args())
    games = []
    try:
        if given["episodes"] < 1:
            raise ValueError(f"--episodes is {given['episodes']}; it must be 1 or more")
        if not 0 <= (given["epsilon"] or 0) <= 1:
            raise ValueError(f"--epsilon is {given['epsilon']}; it must be 0 to 1")
        for game in play(given.pop("run"), **given):
            games.append(game)
            if command == "play":
                print(f"game {len(games)}: return {game.score:.7g}, {game.length} steps", flush=True)
        scores = np.array([game.score for game in games])
        mean, half = interval(scores) if len(games) > 1 else (scores[0], 0.0)
        between = f", 95% interval {mean - half:.7g} to {mean + half:.7g}" if len(games) > 1 else ""
        print(f"mean return {mean:.7g} of {len(games)} games, standard deviation {scores.std():.4g}{between}",
              flush=True)
    except BrokenPipeError:
        return end_without_reader()
    except (OSError, ValueError, KeyError, TypeError, ImportError, GpureplayError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
