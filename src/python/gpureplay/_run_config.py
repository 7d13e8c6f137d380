# SPDX-License-Identifier: MIT
"""config.json in the folder of a run: everything that the run was made with, by the names of the library's structs."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _c_api
from ._config import RunConfigs, shortest
from ._device import Device
from ._envs import env_info
from ._library import lib
from ._options import flag_of
from ._python_envs import Envs
from ._schema import NUMPY, shape_of
from ._struct import Struct
from ._words import WORDS

_LEFT_OUT = ("size", "reserved", "fields", "field_count", "trunk_count", "env_options", "on_event", "user",
             "command", "epsilons", "folder", "type", "vector",
             "lane_autoreset", "lanes")  # a run's replay has no lanes


def _number(value: float) -> float | None:
    """JSON has no infinity. Whole numbers look like whole numbers."""
    return None if not math.isfinite(value) else int(value) if value == math.floor(value) else shortest(value)


def _members(struct: Struct) -> dict[str, Any]:
    return {member[0]: _value(struct, member[0]) for member in struct._fields_ if member[0] not in _LEFT_OUT}


def _value(struct: Struct, name: str) -> Any:
    value = getattr(struct, name)
    if isinstance(value, _c_api.Field):
        return _field(value)
    if isinstance(value, Struct):
        return _members(value)
    if isinstance(struct, _c_api.NetworkConfig) and name == "trunk":
        return [_members(layer) for layer in value[:struct.trunk_count]]
    if name == "padding" and value == _c_api.SAME:
        return "same"
    words = WORDS.get(f"{struct.c_name}.{name}") or WORDS.get(name, {})
    if value in words:
        return words[value]
    return _number(value) if isinstance(value, float) else value


def _field(field: _c_api.Field) -> dict[str, Any]:
    return {"name": (field.name or b"obs").decode(), "dtype": NUMPY[field.dtype].name,  # an ActorCritic drops the name
            "shape": list(shape_of(field))}


def _environment(envs: Envs) -> dict[str, Any]:
    info = env_info(envs)
    obs = {"dtype": NUMPY[info.obs.dtype].name, "shape": list(shape_of(info.obs)), "low": _number(info.obs.low),
           "high": _number(info.obs.high)}
    return {"name": envs.name, "options": envs.options.decode("utf-8", "replace"), "observation": obs,
            "num_actions": info.action.num_actions, "max_steps": info.max_steps, "save_bytes": info.save_bytes,
            **envs.translation.described()}


def _run(run: RunConfigs, has_target: bool) -> dict[str, Any]:
    """`act` is that by which a run acts: with `concurrent` the target network, if there is one."""
    own, members = run.own, {**_members(run.own), **_members(run.common)}
    if isinstance(own, _c_api.ApexConfig):
        return {"apex": members}
    return {"run": {**members, **({"act": "target"} if own.concurrent and has_target else {})}}


def _device(device: Device) -> dict[str, Any]:
    info = device.info
    return {name: getattr(info, name) for name in ("name", "description", "threads", "memory_total")}


def config_document(options: Mapping[str, Any], overrides: Mapping[str, Any], device: Device, envs: Envs,
                    replay: _c_api.ReplayConfig, learner: _c_api.DQNConfig | _c_api.DPGConfig,
                    run: RunConfigs) -> dict[str, Any]:
    """options: by the names of `train`. overrides: settings of the buffer and the agent that were given beside them."""
    is_dpg = isinstance(learner, _c_api.DPGConfig)
    return {
        **_beginning(options, overrides, device, envs),
        **_run(run, has_target=isinstance(learner, _c_api.DQNConfig) and learner.returns.cache_size == 0),
        "replay": {**_members(replay), "fields": [_field(replay.fields[i]) for i in range(replay.field_count)]},
        "dpg" if is_dpg else "learner": _members(learner),
    }


def ga3c_document(options: Mapping[str, Any], overrides: Mapping[str, Any], device: Device, envs: Envs,
                  learner: _c_api.ActorCriticConfig, run: RunConfigs) -> dict[str, Any]:
    """The same of GA3C, A3C and A2C."""
    return {**_beginning(options, overrides, device, envs), "ga3c": {**_members(run.own), **_members(run.common)},
            "actor_critic": _members(learner)}


def _beginning(options: Mapping[str, Any], overrides: Mapping[str, Any], device: Device,
               envs: Envs) -> dict[str, Any]:
    lines = (line.partition(": ") for line in lib.gpur_build_info().decode().splitlines() if ": " in line)
    return {
        "program": "gpureplay.train", "version": lib.gpur_version().decode(), "python": sys.version.split()[0],
        "build": {key: value for key, _, value in lines}, "device": _device(device),
        "options": {flag_of(name)[2:]: int(value) if isinstance(value, bool) else value
                    for name, value in options.items() if value is not None},
        "overrides": overrides, "environment": _environment(envs),
    }


def plain(value: Any) -> Any:
    """The value as JSON gives it back: lists for tuples, and Python's numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
