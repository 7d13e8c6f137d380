# SPDX-License-Identifier: MIT
"""The options of training, which are the library's: keywords of `train`, and with dashes options of `python -m
gpureplay.train`. Here is what Python needs of them, their names."""

from __future__ import annotations

import ctypes
import functools
import keyword
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _c_api
from ._library import in_c, lib, names_from

LANES = _c_api.PRESET_FAST_DQN, _c_api.PRESET_DPG, _c_api.PRESET_SAC  # whose run is a `Run`
APEX = _c_api.PRESET_APEX_DQN, _c_api.PRESET_APEX_DPG
ACTOR_CRITIC = _c_api.PRESET_GA3C, _c_api.PRESET_A3C
OFFLINE = _c_api.PRESET_OFFLINE_DQN, _c_api.PRESET_OFFLINE_DPG, _c_api.PRESET_OFFLINE_SAC
DPG = (_c_api.PRESET_DPG, _c_api.PRESET_SAC, _c_api.PRESET_APEX_DPG, _c_api.PRESET_OFFLINE_DPG,
       _c_api.PRESET_OFFLINE_SAC)


def _presets() -> dict[str, int]:
    """The library's presets by name, with their systems."""
    system = ctypes.c_int32()
    names = names_from(lambda i: lib.gpur_preset_name(i, ctypes.addressof(system)))
    return {name: system.value for name in names}


def keyword_of(name: str) -> str:
    """As Python has an option's name: "lambda_" for "lambda"."""
    return name + "_" * keyword.iskeyword(name)


PRESETS = _presets()
OPTIONS = {system: tuple(map(keyword_of, names_from(functools.partial(lib.gpur_training_option_name, system))))
           for system in (*LANES, *APEX, *ACTOR_CRITIC, *OFFLINE)}
ALL = tuple(dict.fromkeys(name for names in OPTIONS.values() for name in names))


def system_of(preset: Any) -> int:
    """What a preset trains by. None, and what is no preset: fast DQN, whose presets are chosen by the environment."""
    return PRESETS.get(str(preset), _c_api.PRESET_FAST_DQN)


def flag_of(name: str) -> str:
    """As the command line has it: "--num-envs", and "--lambda" for lambda_."""
    return "--" + name.rstrip("_").replace("_", "-")


def text_of(value: Any) -> str:
    """A value as the library reads it, and files have it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(int(value)) if isinstance(value, bool) else str(value)


def option_of(name: str, value: Any) -> bytes:
    """ "num_envs=8", as the library takes it."""
    return f"{name.rstrip('_')}=".encode() + in_c(name, text_of(value))


def refuse_unknown(given: Iterable[str], function: str, systems: Iterable[int] = OPTIONS) -> None:
    """TypeError: a name is no option of any system. The text has those of `systems`."""
    for name in given:
        if name not in ALL:
            known = dict.fromkeys(option for system in systems for option in OPTIONS[system])
            raise TypeError(f"{function}() has no argument {name!r}; options of training are {', '.join(known)}")
