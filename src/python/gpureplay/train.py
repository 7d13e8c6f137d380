# SPDX-License-Identifier: MIT
"""Trains a DQN agent or an actor-critic, with the words, options and files of the program gpureplay-train, also in
environments in Python: python -m gpureplay.train --help, or python -m gpureplay --help.

`gpureplay.train` is a function. Once this module was imported by its name, the package's attribute is the module, which
can be called in the same way."""

from __future__ import annotations

import functools
import importlib
import os
import re
import signal
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

from ._door import lines_of_warnings, own_words, program, program_words, reader_may_end
from ._envs import game_names, is_native, name_of, open_envs
from ._library import GpureplayError, InvalidArgument, for_program, in_c, lib, text_by
from ._options import ALL, OFFLINE, PRESETS, keyword_of, system_of
from ._python_envs import PythonEnvs, PythonVector
from ._run import EnvError
from ._seeds import train_seeds
from ._train import train

_INTERRUPTED = 130
# This program's own options, with the placeholders of their values. None: the option takes no value.
_OF_PROGRAM = {"out": "FOLDER", "resume": "FOLDER", "seeds": "A-B", "engine": "local|ray", "refill": None,
               "quiet": None, "list": None, "help": None}
_NAMES_IN_C = "a game of --list, or a plug-in: ./games.so or ./games.so:Corridor"


class _Callable(types.ModuleType):
    __call__ = staticmethod(train)


if __name__ != "__main__":
    sys.modules[__name__].__class__ = _Callable


# The words.


def _read(words: Sequence[str]) -> dict[str, Any]:
    """The options by their keywords, as texts. InvalidArgument: a word is none."""
    rest, given = ["--help" if word == "-h" else word for word in words], dict[str, Any]()
    if rest[:1] == ["list"]:
        rest, given["list"] = rest[1:], True
    if rest and not rest[0].startswith("-"):
        if "list" not in given and rest[0] not in PRESETS:
            raise InvalidArgument(f"{rest[0]} is no preset and no command; --help lists them")
        given["env" if "list" in given else "preset"] = rest.pop(0)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        name = keyword_of(flag.removeprefix("--").replace("-", "_"))
        if name == "work":
            raise InvalidArgument(f"{word} is an option of gpureplay-train alone")
        if word in PRESETS:
            raise InvalidArgument(f"{word} is a preset; it must be the first word, or follow --preset")
        if not flag.startswith("--") or (name not in ALL and name not in _OF_PROGRAM):
            command = "list" if "list" in given else given.get("preset", "PRESET")
            raise InvalidArgument(f"{word} is not an option; {program(command)} --help lists them")
        wanted = _OF_PROGRAM[name] if name in _OF_PROGRAM else \
            lib.gpur_training_option_value(name.rstrip("_").encode()).decode()
        if wanted is None and equals:
            raise InvalidArgument(f"{flag} has a value; it must have none")
        if wanted is not None and not equals and not rest:
            raise InvalidArgument(f"{flag} has no value; it must have one: {wanted}")
        if name in given:
            raise InvalidArgument(f"{flag} is given twice")
        given[name] = True if wanted is None else value if equals else rest.pop(0)
    return given


# --help and --list.


def _text(function: Any, *arguments: str | None) -> str:
    return text_by(function, *(None if one is None else in_c("env", one) for one in arguments))


def _help(given: dict[str, Any]) -> str:
    env = given.get("env")
    has_defaults = env is not None and is_native(env)
    topic = "list" if "list" in given else given.get("preset")
    text = _text(lib.gpur_training_help, topic, env if has_defaults else None,
                 given.get("env_options") if has_defaults else None)
    more = "  --engine local|ray              ray: actors and learner are on a cluster of Ray\n"
    # Without what the program in C alone has.
    ours = re.sub(r"^(?: +gpureplay-train .* --work I .*\n|  --work .*\n(?: {20}.*\n)*)", "", text, flags=re.M)
    names = f"{_NAMES_IN_C.replace(', or', ',')},\n{34 * ' '}an id of Gymnasium, or a function: module:make_env"
    return ours.replace(_NAMES_IN_C, names).replace("gpureplay-train", program()) + (
        more if str(topic).startswith("apex") else "")


def _described(name: str, env_options: str | None) -> str:
    if is_native(name):
        return _text(lib.gpur_training_describe_env, name, env_options)
    envs = open_envs(name, options=env_options)
    assert isinstance(envs, (PythonEnvs, PythonVector))
    spaces = envs.spaces
    action = f"{spaces.num_actions}, discrete" if spaces.action is None else str(spaces.action.shape)
    envs.close()
    return (f"{envs.name}\n  observation  {spaces.obs.dtype.name} {spaces.obs.shape}\n  actions      {action}\n"
            "  a resumed run begins new episodes: this environment cannot save its state\n")


# The program.


def _listen_to_signals() -> None:
    """The first Ctrl-C stops the run, a second one the program. Every row that was written is whole. A terminal that is
    closed stops the run, too."""
    received: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        if number == signal.SIGHUP and received:  # a terminal that is closed often sends it twice
            return
        received.append(number)
        if len(received) > 1:
            os._exit(_INTERRUPTED)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stop)


def _trainer(engine: str, given: dict[str, Any]) -> Any:
    if engine == "local":
        return functools.partial(train, **given)
    if engine != "ray":
        raise InvalidArgument(f"--engine is \"{engine}\"; it must be local or ray")
    from .ray import ApeX, _join  # the module says how to install Ray where it is missing

    if given.get("out") == "":  # learner and actors have other current folders
        name = f"{name_of(given['env'])}-{given.get('seed', 1)}"
        given["out"] = "runs/" + name.translate(str.maketrans("/ \\:", "----"))
    if given.get("actors", "").isdigit():
        given["actors"] = int(given["actors"])
    apex = ApeX(**given)
    _join()
    return apex.train


def _run(given: dict[str, Any]) -> None:
    needs_env = system_of(given.get("preset")) not in OFFLINE or given.get("engine", "local") != "local"
    if needs_env and "env" not in given and "resume" not in given:
        raise InvalidArgument("--env is missing; it must be a game of --list, a plug-in's file, or an id of Gymnasium")
    if "resume" not in given:
        given.setdefault("out", "")
    given["progress"] = not given.pop("quiet", False)
    trainer = _trainer(given.pop("engine", "local"), given)
    _listen_to_signals()  # ray.init has a handler of its own, which this one replaces
    trainer()


@lines_of_warnings()
def main() -> int:
    if sys.argv[1:2] in (["play"], ["evaluate"], ["compare"]):
        command = sys.argv.pop(1)
        module = importlib.import_module(f"{__package__}.{'compare' if command == 'compare' else 'play'}")
        return int(module.main(*([] if command == "compare" else [command])))
    try:
        given = _read(sys.argv[1:])
        if given.pop("help", False) or len(sys.argv) == 1:
            print(_help(given), end="")
        elif given.pop("list", False):
            with program_words(), own_words(system_of(None)):
                for name in [given["env"]] if "env" in given else game_names():
                    print(_described(name, given.get("env_options") if "env" in given else None), end="")
        else:
            with program_words(), reader_may_end():
                if "seeds" in given:
                    return train_seeds(given)
                _run(given)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (GpureplayError, OSError, ValueError, TypeError, ImportError) as error:
        if isinstance(error, EnvError) and error.__cause__ is not None:
            traceback.print_exception(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        print(f"{program()}: {for_program(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
