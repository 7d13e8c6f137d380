# SPDX-License-Identifier: MIT
"""Plays games by the weights of a run: python -m gpureplay play RUN [--episodes N] [--video FOLDER]. Needs gymnasium,
and for videos moviepy, with which Gymnasium's RecordVideo writes them. `python -m gpureplay evaluate RUN` shows the
mean return alone.

RUN is the folder of a run, of any of the programs, in a game of the library, a plug-in, or an environment of Gymnasium
or another that has a name, or with --env a learner's file. `gpureplay-train play` and `evaluate` are faster, and play
what is in C."""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._device import Device
from ._door import end_without_reader, lines_of_warnings, program
from ._envs import is_native, maker_of_name, options_dict
from ._flatten import reading_of
from ._library import GpureplayError, lib, text_by
from ._make_envs import make_env
from ._policy import Policy
from ._run_folder import read_config
from ._spaces import is_a
from .plot import interval

_FILES = {"last": "", "best": "best.safetensors"}
_INTERRUPTED = 130
_MAX_ENVS = 1024
_FILE_EPSILON = 0.05  # of a learner's file, which does not tell that of its run
_LETTERS = ".123456789abcdefghijklmnopqrstuvwxyz"  # of the last channel that is not 0
_LARGEST_PICTURE, _MOST_NUMBERS = 40, 16  # sides of what is drawn; numbers that are shown of the rest
_FRAME_SECONDS = 0.066  # on a terminal


class Game(NamedTuple):
    """Its rewards together, and its steps."""

    score: float
    length: int


def _make(config: dict[str, Any], env: str | None, env_options: str | None, video: str | None, number: int = 0) -> Any:
    """The run's environment, or another one; recorded to the folder `video`. number: of several."""
    if video is not None and importlib.util.find_spec("moviepy") is None:
        raise ModuleNotFoundError("Gymnasium writes videos with moviepy, which is not installed; `pip install moviepy`",
                                  name="moviepy")
    name = env or config["options"].get("env")
    if name is None:
        raise ValueError("the run had no environment; --env must give the game to play")
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
            made = maker_of_name(name, {**options_dict(options), **given})(number)
    except (TypeError, ValueError) as error:
        if env is None and str(error).startswith("plug-in "):
            raise ValueError(f"{error}; --env FILE names the file to which it was moved") from None
        if video is None or "render_mode" not in str(error):
            raise
        raise type(error)(f"--video is {video}, for which {name} is made with render_mode=\"rgb_array\": {error}"
                          ) from None
    if video is None:
        return made
    from gymnasium.wrappers import RecordVideo
    return RecordVideo(made, video, episode_trigger=lambda _: True)


def _sight(shape: tuple[int, ...], space: Any, repeats: bool, name: str) -> Callable[[Any, bool], np.ndarray]:
    """A function of what the environment shows, and whether an episode begins, that gives what a network with
    observations of `shape` sees: of other spaces than a Box their vectors, or a stack of frames, if that has one axis
    more. ValueError: the network reads others. name: of the environment."""
    flattener = None if is_a(space, "Box") else reading_of(space)[1]
    shown = space.shape if flattener is None else flattener.field.shape
    is_stack = flattener is None and len(shape) > 0 and shown in (shape[1:], shape[:-1])
    if not is_stack and shape not in (shown, (math.prod(shown),)):
        raise ValueError(f"{name} shows observations of shape {shown}, and the network reads {shape}; they must be the "
                         "same")
    if flattener is not None:
        read = flattener.one
        return lambda shown, _begins: read(shown)
    if not is_stack:
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


def _config_of(run: Path, env: str | None) -> dict[str, Any]:
    """A learner's file does not say what its network plays."""
    if run.is_dir():
        return read_config(run)
    if not run.exists():
        raise FileNotFoundError(f"there is no {run}; it must be the folder of a run, or a learner's file")
    if env is None:
        raise ValueError(f"--env is missing and {run} is not the folder of a run; a file needs the game that its "
                         "network plays")
    return {"options": {}, "environment": {}, "run": {"eval_epsilon": _FILE_EPSILON}}


def _epsilon_of(config: dict[str, Any]) -> float:
    """That of the run's evaluations; actor-critics have none."""
    return float(next((config[name]["eval_epsilon"] for name in ("run", "apex", "offline") if name in config), 0.0))


def play(run: str | os.PathLike[str], *, episodes: int = 5, seed: int = 1, weights: str = "last", greedy: bool = False,
         epsilon: float | None = None, env: str | None = None, env_options: str | None = None,
         video: str | None = None, device: str = "auto", threads: int = 0, envs: int = 1,
         on_weights: Callable[[int], Any] | None = None, on_obs: Callable[[Any], Any] | None = None,
         stop: Callable[[], Any] | None = None) -> Iterator[Game]:
    """Plays games, each yielded when it has ended.

    run: the folder of a run, or a learner's file, which needs env. weights: "last", or "best": those of its best
    evaluation.
    epsilon: the probability of a random action; None: that of the run's evaluations. greedy: the best action always.
    env, env_options: in place of those of the run. video: the folder to which each episode is recorded.
    threads: that compute on the CPU; 0: all cores. envs: environments that play at the same time, with one inference.
    on_weights: gets the train step that the weights are of, before the first game. on_obs: gets what the first of the
    environments shows before each of its steps. stop: asked before each step of all; True: no further one.
    """
    folder = Path(run)
    config = _config_of(folder, env)
    if weights == "best" and not (folder / _FILES["best"]).exists():
        raise FileNotFoundError(f"{folder} has no {_FILES['best']}, the weights of its best evaluation, which a run "
                                "keeps that evaluates; the newest weights are \"last\"")
    with contextlib.ExitStack() as closing:
        opened = closing.enter_context(Device(device, threads=threads))
        policy = closing.enter_context(Policy.open(folder / _FILES[weights], device=opened, seed=seed, max_batch=envs))
        if on_weights is not None:
            on_weights(policy.version)
        made = []
        for number in range(envs):
            made.append(_make(config, env, env_options, video, number))
            closing.callback(made[-1].close)
        if not config["environment"].get("name"):  # whose bounds the policy has
            policy._translation = policy._translation._replace(bounds=_bounds_of(made[0].action_space))
        own = _epsilon_of(config) if policy.config["head"] in ("q", "dueling") else 0.0
        if policy.config["head"] in ("tanh_action", "squashed_gaussian") and epsilon:
            raise ValueError(f"epsilon is {epsilon:g} and the network computes action vectors; leave it out")
        act = _actor(policy, 0.0 if greedy else own if epsilon is None else epsilon, greedy)
        limit = sys.maxsize if config["environment"].get("max_steps") else _c_api.EVALUATION_STEPS
        sees = [_sight(policy._obs.shape, one.observation_space, config.get("replay", {}).get("stack_pad") == "repeat",
                       env or config["options"]["env"]) for one in made]
        yield from _play_all(made, sees, act, limit, seed, episodes, on_obs, stop)


def _bounds_of(space: Any) -> Any:
    return (space.shape, space.low.ravel().tolist(), space.high.ravel().tolist()) if hasattr(space, "low") else None


def _actor(policy: Policy, epsilon: float, greedy: bool) -> Callable[[np.ndarray], list[Any]]:
    head = policy.config["head"]
    if head == "tanh_action":
        return lambda obs: list(policy.act_vectors(obs))
    if head == "squashed_gaussian":
        return lambda obs: list(policy.act_vectors(obs, greedy=greedy))
    drawn = {"greedy": greedy} if head == "softmax_value" else {}
    return lambda obs: policy.act(obs, epsilon, **drawn).tolist()


def _play_all(envs: list[Any], sees: list[Any], act: Callable[[np.ndarray], list[Any]], limit: int, seed: int,
              episodes: int, on_obs: Callable[[Any], Any] | None, stop: Callable[[], Any] | None) -> Iterator[Game]:
    """Each environment begins a game as soon as its last one has ended, until so many have begun."""
    playing: dict[int, Generator[tuple[Any, Any], Any, Game]] = {}
    seen: dict[int, tuple[Any, Any]] = {}
    begun = 0
    while (playing or begun < episodes) and not (stop is not None and stop()):
        for i in range(len(envs)):
            if i not in playing and begun < episodes:
                playing[i] = _play_one(envs[i], sees[i], limit, seed + i if begun < len(envs) else None)
                seen[i], begun = next(playing[i]), begun + 1
        if on_obs is not None and 0 in playing:
            on_obs(seen[0][0])
        for i, action in zip([*playing], act(np.stack([seen[i][1] for i in playing]))):
            try:
                seen[i] = playing[i].send(action)
            except StopIteration as end:
                del playing[i]
                yield end.value


def _play_one(env: Any, see: Callable[[Any, bool], np.ndarray], limit: int, seed: int | None
              ) -> Generator[tuple[Any, Any], Any, Game]:
    """Yields what the environment shows and what the network sees, and is sent the action. A lost life does not end the
    game. seed: of this game and those that follow."""
    score, length, goes_on = 0.0, 0, True
    while goes_on:
        shown, _ = env.reset(seed=seed)
        obs, ended, seed = see(shown, True), False, None
        while not ended and length < limit:
            shown, reward, terminated, truncated, info = env.step((yield shown, obs))
            obs, ended = see(shown, False), terminated or truncated
            score, length = score + float(reward), length + 1
        goes_on = ended and bool(info.get("continues")) and length < limit
    return Game(score, length)


def _array(shown: Any) -> np.ndarray:
    """Of a Tuple or Dict the numbers one after another."""
    parts = shown.values() if isinstance(shown, Mapping) else shown if isinstance(shown, tuple) else None
    return np.asarray(shown) if parts is None else np.concatenate([_array(part).ravel() for part in parts])


def _draw(shown: Any) -> None:
    """A small image as letters, else numbers. On a terminal a picture takes the place of the one before."""
    frame, is_terminal = _array(shown), sys.stdout.isatty()
    if frame.ndim in (2, 3) and max(frame.shape[:2]) <= _LARGEST_PICTURE:
        cells = frame.reshape(*frame.shape[:2], -1) != 0
        last = (cells * np.arange(1, cells.shape[2] + 1)).max(2)
        rows = ["".join(_LETTERS[min(cell, len(_LETTERS) - 1)] for cell in row) for row in last]
        print("\033[H\033[J" * is_terminal + "\n".join(rows) + "\n")
    else:
        numbers = [f"{number:.4g}" for number in frame.ravel()[:_MOST_NUMBERS]]
        print(" ".join([*numbers, *["..."] * (frame.size > _MOST_NUMBERS)]))
    if is_terminal:
        sys.stdout.flush()
        time.sleep(_FRAME_SECONDS)


def _listen_to_signals() -> list[int]:
    """The first Ctrl-C stops the games, a second one the program. Returns those that came, as they come."""
    received: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(_INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return received


def _whole(text: str) -> int:
    """Also as 1e6."""
    with contextlib.suppress(ValueError):
        if (number := float(text)).is_integer():
            return int(number)
    raise argparse.ArgumentTypeError(f"it is {text!r}; it must be a whole number")


def _show_weights(best: Path | None, train_step: int) -> None:
    """best: the file of the best evaluation's, which has that evaluation in its header."""
    evaluation = ""
    if best is not None:
        with best.open("rb") as file:
            about = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
        evaluation = f"of the best evaluation, {float(about['mean_return']):.7g} after {about['env_steps']} steps, and "
    print(f"the weights {evaluation}of train step {train_step}")


def _show_result(games: list[Game]) -> None:
    scores = np.array([game.score for game in games])
    mean, half = interval(scores) if len(games) > 1 else (scores[0], 0.0)
    between = f", 95% interval {mean - half:.7g} to {mean + half:.7g}" if len(games) > 1 else ""
    print(f"mean return {mean:.7g} of {len(games)} game{'s' * (len(games) > 1)}, standard deviation "
          f"{scores.std():.4g}{between}, {np.mean([game.length for game in games]):.6g} steps a game", flush=True)


def _check(given: dict[str, Any]) -> None:
    for name, high in (("episodes", 10**15), ("envs", _MAX_ENVS)):
        if name in given and not 1 <= given[name] <= high:
            raise ValueError(f"--{name} is {given[name]}; it must be 1 to {high}")
    if not 0 <= given.get("epsilon", 0) <= 1:
        raise ValueError(f"--epsilon is {given['epsilon']}; it must be 0 to 1")
    if given["greedy"] and "epsilon" in given:
        raise ValueError(f"--epsilon is {given['epsilon']:g} beside --greedy, which is the best action always; leave "
                         "one of them out")
    if "video" in given and given.get("envs", 1) > 1:
        raise ValueError(f"--envs is {given['envs']}; beside --video it must be 1")


def _parser(command: str) -> argparse.ArgumentParser:
    """The options are those of gpureplay-train, as the library tells them, and --video."""
    parser = argparse.ArgumentParser(prog=program(command), description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="the folder of a run, or with --env a learner's file")
    parser.add_argument("--video", metavar="FOLDER", help="where a video of each episode goes")
    types = {"epsilon": float, **dict.fromkeys(("episodes", "envs", "seed", "threads"), _whole)}
    text = text_by(lib.gpur_training_help, command.encode(), None, None)
    for name, value, meaning in re.findall(r"^  --([a-z-]+) ?(\S*) +(.*(?:\n {30}.*)*)", text, flags=re.M):
        choices = value.split("|") if "|" in value else None
        how: dict[str, Any] = {"metavar": value, "type": types.get(name, str), "choices": choices} if value else {
            "action": "store_true"}
        parser.add_argument(f"--{name}", help=" ".join(meaning.split()), **how)
    return parser


@lines_of_warnings()
def main(command: str = "play") -> int:
    """command: "play", or "evaluate", which shows the result alone."""
    is_play = command == "play"
    given = {name: value for name, value in vars(_parser(command).parse_args()).items() if value is not None}
    given.setdefault("episodes", 5 if is_play else 30)
    games: list[Game] = []
    try:
        _check(given)
        if given.pop("text", False):
            given["on_obs"] = _draw
        given["envs"] = min(given.get("envs", 1 if is_play or "video" in given else 8), given["episodes"])
        options = _config_of(Path(given["run"]), given.get("env"))["options"]
        given = {**{name: int(options[name]) for name in ("seed", "threads") if name in options}, **given}
        received = _listen_to_signals()
        best = Path(given["run"], _FILES["best"]) if given.get("weights") == "best" else None
        steps: list[int] = []
        for game in play(given.pop("run"), stop=lambda: received, on_weights=steps.append, **given):
            games.append(game)
            if is_play:
                print(f"game {len(games)}: return {game.score:.7g}, {game.length} steps", flush=True)
        if games:
            _show_weights(best, *steps)
            _show_result(games)
    except BrokenPipeError:
        return end_without_reader()
    except (OSError, ValueError, KeyError, TypeError, ImportError, GpureplayError) as error:
        print(f"{program(command)}: {error}", file=sys.stderr)
        return 2
    return _INTERRUPTED if len(games) < given["episodes"] else 0


if __name__ == "__main__":
    sys.exit(main())
