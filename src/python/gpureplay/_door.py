# SPDX-License-Identifier: MIT
"""Messages of trainings in the words of the door that was used: the function `train`, whose keywords they then name, or
the program `python -m gpureplay`, whose options they name. The library writes its own messages so; here are those
of Python, and those about the buffer and the learner, which Python makes."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import _c_api
from ._config import ACTOR_CRITIC_SETTINGS, BUFFER_SETTINGS, LEARNER_SETTINGS
from ._library import GpureplayError
from ._options import ACTOR_CRITIC, ALL, DPG, OFFLINE, OPTIONS, flag_of

_OTHERS = ("out", "resume", "refill")  # keywords that are options of the program, too
_BEFORE = r"(?<![-\w.\"'{(=])(?<!the )(?<!its )(?<!a )"  # of a name that stands for itself
_program = threading.local()


def is_program() -> bool:
    """Whether this thread is inside `program_words`."""
    return bool(getattr(_program, "speaks", False))


@contextlib.contextmanager
def program_words() -> Iterator[None]:
    """Inside, messages of this thread are those of the program."""
    _program.speaks = True
    try:
        yield
    finally:
        _program.speaks = False


def program(command: str = "") -> str:
    """This program's name as the user typed it, with the command: "python -m gpureplay play"."""
    name = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "").removesuffix(".__main__")
    if name.partition(".")[0] != __package__:
        name = "gpureplay.train"
    return f"python -m {name} {'' if name.endswith(f'.{command}') else command}".rstrip()


@contextlib.contextmanager
def lines_of_warnings() -> Iterator[None]:
    """Inside, a warning is a line of the program, without the place in Python's sources from which it came."""
    def show(message: Warning | str, *_place: Any, **_others: Any) -> None:
        with contextlib.suppress(OSError):  # the reader of the output has ended
            print(f"{program()}: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def end_without_reader() -> int:
    """The exit status where the reader of the output has ended, as `head` does. Nothing more is written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextlib.contextmanager
def reader_may_end() -> Iterator[None]:
    """Inside, what is shown need not be read until the end."""
    try:
        yield
    finally:
        try:
            print(end="", flush=True)
        except OSError:
            end_without_reader()


def _of_settings(text: str, system: int, speaker: str = "agent") -> str:
    """Settings of the buffer and of the learner, which `train` takes in two dicts. speaker: "buffer" or "agent", of
    which the text is about: names that both have are its own, unless it says that they are the replay's."""
    agent = {**dict.fromkeys(ACTOR_CRITIC, ACTOR_CRITIC_SETTINGS), **dict.fromkeys(DPG, ())}
    places = {"buffer": () if system in (*ACTOR_CRITIC, *OFFLINE) else BUFFER_SETTINGS,
              "agent": agent.get(system, LEARNER_SETTINGS)}
    owners = {name: owner for owner in sorted(places, key=speaker.__eq__) for name in places[owner]
              if name != "check_nan" and name not in OPTIONS[system]}

    def replaced(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"] or "..."
        owner = "buffer" if found["of_replay"] and name in places["buffer"] else owners[name]
        return f"{owner}={{\"{name}\": {value}}}"

    text = re.sub(r"\bReplayBuffer\(\.\.\., (\w+=\.\.\.)\)", r"\1", text)
    return re.sub(rf"(?:(?P<of_replay>\bthe (?:replay|buffer)'s )|{_BEFORE})(?P<name>{'|'.join(owners)})"
                  r"(?:=(?P<value>[\w.\"']+)|(?= is ))", replaced, text)


def _as_options(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        name, quoted, plain = found.groups()
        value = plain if quoted is None else shlex.quote(quoted)
        return flag_of(name) if value is None else f"{flag_of(name)} {value}"

    names = "|".join((*ALL, *_OTHERS))
    text = re.sub(rf"{_BEFORE}({names})(?:=(?:'([^']*)'|([\w.]+))|(?= is ))", replaced, text)
    return re.sub(r"\b(agent|buffer)=(\{[^}]*\}+)", r"\1=\2 of gpureplay.train in Python", text)


@contextlib.contextmanager
def _reworded(words: Callable[[str], str]) -> Iterator[None]:
    """What is refused inside is said in these words."""
    try:
        yield
    except (GpureplayError, FileExistsError, ImportError, TypeError, ValueError) as error:
        if error.__cause__ is None and len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (words(error.args[0]),)
            if isinstance(error, ImportError):
                error.msg = error.args[0]  # which is its text
        raise


def buffer_words(system: int) -> contextlib.AbstractContextManager[None]:
    """Inside `own_words`, where the buffer is made: what it refuses are its own settings. system: what trains."""
    return _reworded(lambda text: _of_settings(text, system, "buffer"))


def own_words(system: int) -> contextlib.AbstractContextManager[None]:
    """What is refused inside is said in the words of the door. system: what trains."""
    return _reworded(lambda text: _as_options(_of_settings(text, system)) if is_program() else
                     _of_settings(text, system))
