# SPDX-License-Identifier: MIT
"""Trains a DQN agent or an actor-critic, with the options and the files of the program gpureplay-train:
python -m gpureplay.train --help.

`gpureplay.train` is a function. Once this module was imported by its name, the package's attribute is the module, which
can be called in the same way."""

from __future__ import annotations

import argparse
import functools
import math
import os
import signal
import sys
import traceback
import types
from typing import Any

from . import _c_api
from ._door import program_words
from ._envs import env_info, env_type, game_names, name_of, open_envs
from ._library import GpureplayError, for_program
from ._options import OPTIONS, System, flag_of, parsed
from ._run import EnvError
from ._schema import NUMPY
from ._train import train

_PROGRAM = "python -m gpureplay.train"
_INTERRUPTED = 130


_BEFORE = {System.APEX: "of Ape-X: ", System.GA3C: "of GA3C: ", System.ACTOR_CRITIC: "of GA3C, A3C and A2C: "}


class _Callable(types.ModuleType):
    __call__ = staticmethod(train)


if __name__ != "__main__":
    sys.modules[__name__].__class__ = _Callable


def _value(name: str, text: str) -> Any:
    try:
        return parsed(name, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, allow_abbrev=False, usage=f"{_PROGRAM} --env NAME [options]\n       {_PROGRAM} --resume FOLDER",
        description="Trains a DQN agent in W environments, by default with both switches of fast DQN [Daley & Amato "
                    "2021], or with --preset apex-dqn or apex-dpg by Ape-X [Horgan et al. 2018]; or an actor-critic by "
                    "GA3C "
                    "[Babaeizadeh et al. 2017], A3C or A2C. Ctrl-C ends it with what there is. In brackets: the "
                    "default, of fast-dqn and of fast-dqn-small where they differ, which is mostly that of the other "
                    "presets, too; of options of Ape-X or GA3C alone that of apex-dqn or ga3c, and of the small one.",
        epilog="Exit status: 0 done, 130 interrupted, 2 an error.")
    for name, option in OPTIONS.items():
        parser.add_argument(flag_of(name), dest=name, metavar=option.metavar, type=functools.partial(_value, name),
                            help=_BEFORE.get(option.of, "") + option.meaning)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--out", metavar="FOLDER", help="where the files go (runs/ENV-SEED)")
    one.add_argument("--resume", metavar="FOLDER", help="go on with the run of this folder, with its options; --steps "
                                                        "may be given, to take more, and --env, where the plug-in has "
                                                        "moved")
    parser.add_argument("--refill", action="store_true", help="of Ape-X, with --resume: the replay stays empty, and "
                                                              "actors fill it again before training goes on")
    parser.add_argument("--engine", choices=("local", "ray"), default="local",
                        help="of Ape-X: ray: actors and learner are processes on a cluster of Ray, that of "
                             "RAY_ADDRESS, of this machine, or a new one (local)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--list", action="store_true", help="show the environments of the library, or the one of "
                                                            "--env, and their options")
    return parser


# --list.


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "any"


def _space_text(space: Any) -> str:
    if space.num_actions > 0:
        return f"{space.num_actions}, discrete"
    shape = ", ".join(str(length) for length in space.shape if length)
    bounds = "each number with bounds of its own" if space.lows else \
        f"from {_bound(space.low)} to {_bound(space.high)}"
    return f"{NUMPY[space.dtype].name} ({shape}), {bounds}"


def _describe(name: str, env_options: str | None) -> str:
    envs = open_envs(name, options=env_options)
    try:
        info, kind = env_info(envs), env_type(envs)
    finally:
        envs.close()
    lines = [kind.name.decode(), f"  observation  {_space_text(info.obs)}",
             f"  actions      {_space_text(info.action)}"]
    if info.max_steps > 0:
        lines.append(f"  episodes     of at most {info.max_steps} steps")
    lines.append("  a resumed run goes on bit for bit" if info.save_bytes > 0 else
                 "  a resumed run begins new episodes: this environment cannot save its state")
    return "\n".join([*lines, *(f"  option       {line}" for line in (kind.options or b"").decode().splitlines())])


# The program.


def _folder_of(env: str, seed: int) -> str:
    """"runs/MinAtar-Breakout-1"."""
    return "runs/" + f"{name_of(env)}-{seed}".translate(str.maketrans("/ \\:", "----"))


def _listen_to_signals() -> None:
    """The first Ctrl-C stops the run, a second one the program. Every row that was written is whole."""
    received: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(_INTERRUPTED)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _trainer(engine: str, given: dict[str, Any]) -> Any:
    if engine == "local":
        return functools.partial(train, **given)
    from .ray import ApeX, _join  # the module says how to install Ray where it is missing

    apex = ApeX(**given)
    _join()
    return apex.train


def main() -> int:
    parser = _parser()
    given = vars(parser.parse_args())
    quiet, lists, engine = given.pop("quiet"), given.pop("list"), given.pop("engine")
    try:
        if lists:
            for name in [given["env"]] if given["env"] else game_names():
                print(_describe(name, given["env_options"] if given["env"] else None))
            return 0
        if given["env"] is None and given["resume"] is None:
            parser.error("--env is missing; it must be a game of --list, a plug-in's file, or an id of Gymnasium")
        if given["out"] is None and given["resume"] is None:
            given["out"] = _folder_of(given["env"], 1 if given["seed"] is None else given["seed"])
        run = _trainer(engine, {**given, "progress": not quiet})
        _listen_to_signals()  # ray.init has a handler of its own, which this one replaces
        with program_words():
            run()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (GpureplayError, OSError, ValueError, TypeError, ImportError) as error:
        if isinstance(error, EnvError) and error.__cause__ is not None:
            traceback.print_exception(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        print(f"{_PROGRAM}: {for_program(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
