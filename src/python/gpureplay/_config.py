# SPDX-License-Identifier: MIT
"""Settings of buffers, learners and policies: from Python's keywords to the library's structs, and back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from . import _c_api
from ._choices import (ACTIVATIONS, CHOICES, FLAGS, NORMS, SOURCES, choices_of, member_of, parts_in, settings_in)
from ._inputs import flag, integer, put, put_count, real
from ._library import InvalidArgument, check, in_c, lib
from ._schema import NUMPY, PREVIOUS, PRIORITY, STEP_REWARD, Field, shape_of, to_c
from ._struct import Struct

Settings = dict[str, Any]

# Settings that only a prioritized buffer has.
_BY_PRIORITY = ("alpha", "beta", "weight_norm", "priority_offset", "first_priority")
_OF_FRAMES = ("frame_stack", "stack_axis", "stack_pad", "extra_frames")  # settings that only layout "frames" has


# Setting members of structs.


def choice(name: str, value: Any, choices: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")
    return choices[value]


def schedule(name: str, value: Any) -> _c_api.Schedule:
    """From a number, (first, last, steps) or (first, last, steps, begin)."""
    parts = value if isinstance(value, (tuple, list)) else (value, value, 0)
    if len(parts) not in (3, 4):
        raise ValueError(f"{name} is {value!r}; it must be a number, (first, last, steps) or (first, last, steps, "
                         f"begin)")
    made = _c_api.Schedule()
    for member, number in zip(("first", "last", "steps", "begin"), parts):
        put(made, member, number, called=f"{member} of {name}" if parts is value else name)
    return made


def put_setting(struct: Struct, name: str, value: Any) -> None:
    """Sets a struct's member by the setting's name: one of its choices, a trunk, a schedule, or a number."""
    member, choices = member_of(name), choices_of(type(struct), name)
    if choices is not None:
        setattr(struct, member, choice(name, value, choices))
    elif name == "trunk":
        _set_trunk(struct, value)
    elif isinstance(getattr(struct, member), _c_api.Schedule):
        setattr(struct, member, schedule(name, value))
    elif name in ("block_rows", "max_batch", "frame_stack") and isinstance(struct, (_c_api.ReplayConfig,
                                                                                     _c_api.ApexConfig)):
        put_count(struct, name, value)
    else:
        put(struct, member, bool(value) if isinstance(value, np.bool_) else value, called=name)


_Parts = list[tuple[Struct, tuple[str, ...]]]  # structs, and the settings that are theirs


def _parts_of(config: Struct) -> _Parts:
    """The config's parts, and the config itself."""
    parts = [(getattr(config, member), settings_in(kind)) for member, kind in parts_in(type(config)).items()]
    return [*parts, (config, settings_in(type(config)))]


def names_in(struct: type[Struct]) -> tuple[str, ...]:
    """All settings of a config, its parts included."""
    return sum(map(settings_in, (*parts_in(struct).values(), struct)), ())


def _put_settings(parts: _Parts, settings: Mapping[str, Any], unknown: Callable[[str], Exception],
                  others: Sequence[str] = ()) -> None:
    """others: settings that are not put here. unknown: the exception for a name that is none."""
    for name, value in settings.items():
        struct = next((struct for struct, names in parts if name in names), None)
        if struct is not None:
            put_setting(struct, name, value)
        elif name not in others:
            raise unknown(name)


def _unknown(names: Sequence[str], of: str = "", advice: str = "") -> Callable[[str], Exception]:
    return lambda name: TypeError(f"{name!r} is no setting{of}; they are {', '.join(names)}{advice}")


def _begin(config: Any, init: Any, set_preset: Any, preset: Any) -> None:
    """Fills the struct with a preset's settings, or with the defaults if `preset` is None."""
    check(init(ctypes.addressof(config), ctypes.sizeof(config)))
    if preset is None:
        return
    if not isinstance(preset, str):
        raise TypeError(f"preset is {preset!r}; it must be a name, or None")
    check(set_preset(ctypes.addressof(config), in_c("preset", preset)))


# Buffers.


class Spec(NamedTuple):
    """Everything that a buffer is made from."""

    config: _c_api.ReplayConfig
    fields: list[Field]  # of the library's schema, as batches have them
    given: list[Field]  # as `add` takes them
    observations: int  # _c_api.OBSERVATIONS_*
    sequences: bool  # whether there is a field "previous" that writers fill in, also of finished transitions
    keep_steps: bool = False  # whether single steps can be told from transitions of several
    hindsight: _c_api.HindsightConfig | None = None  # to which `config` points
    ends: tuple[int, int] | None = None  # sequences=(length, every): writers say where they end


_BUFFER_MEMBERS = ("flush", "weight_norm", "layout", "stack_axis", "stack_pad", "eviction", "first_priority", "beta",
                   "block_rows", "max_batch", "frame_stack", "min_size", "gamma", "reward_clip", "seed", "alpha",
                   "priority_offset", "n_step", "extra_frames", "evict_alpha")
BUFFER_SETTINGS = ("distinct", "prioritized", "observations", "num_envs", "sequences", "keep_steps", "check_nan",
                   *_BUFFER_MEMBERS)


def make_spec(given: list[Field], capacity: Any, preset: Any, settings: Settings) -> Spec:
    """What the library needs for a buffer whose `add` takes the fields `given`."""
    config, fields = _replay_config(preset, capacity, settings), list(given)
    taken = choice("observations", settings.get("observations", "stacks"), CHOICES["observations"])
    if taken == _c_api.OBSERVATIONS_STACKS:
        _check_stack(fields, config)
    else:
        if config.layout != _c_api.LAYOUT_FRAMES:
            raise ValueError("observations is \"frames\" and layout \"rows\"; stacks are made of frames by layout "
                             "\"frames\", which frame_stack above 1 chooses by itself")
        fields = [_stacked(field, config) for field in fields]
    if config.n_step > 1 and all(field.name != "discount" for field in fields):
        fields.append(Field("discount", (), np.dtype(np.float32)))
    keeps = flag("keep_steps", settings.get("keep_steps", False))
    if keeps and config.n_step > 1:
        _add_step_reward(fields)
    ends = _sequences_of(settings.get("sequences", False))
    sequences = ends is not None or flag("sequences", settings.get("sequences", False)) or keeps
    if sequences:
        _add_previous(fields)
    if ends is not None:
        _add_ends(fields, config, settings)
    config.fields, config.field_count = to_c(fields), len(fields)
    _set_extra_frames(config, fields, settings.get("num_envs", 1))
    return Spec(config, fields, given, taken, sequences, keeps, ends=ends)


def lane_config(fields: list[Field], num_lanes: Any, steps: Any, autoreset: int, settings: Settings
                ) -> _c_api.ReplayConfig:
    """What the library needs for a buffer of lanes. `settings` are some of BUFFER_SETTINGS."""
    lanes = integer("num_lanes", num_lanes, 1, _c_api.MAX_LANES)
    kept = integer("steps", steps, 2, 2**40 // lanes)
    config = _replay_config(None, lanes * kept, settings)
    config.layout, config.lane_autoreset, config.lanes = _c_api.LAYOUT_LANES, autoreset, lanes
    config.fields, config.field_count = to_c(fields), len(fields)
    return config


def _add_step_reward(fields: list[Field]) -> None:
    if any(field.name == STEP_REWARD.name for field in fields):
        raise ValueError(f"a field is called {STEP_REWARD.name!r}, as the one that keep_steps=True adds; choose "
                         "another name")
    fields.append(STEP_REWARD)


def _add_previous(fields: list[Field]) -> None:
    names = [field.name for field in fields]
    if "previous" not in names:
        fields.append(PREVIOUS)
    elif fields[names.index("previous")] != PREVIOUS:
        raise ValueError("field \"previous\" must be one int64, or be left out, if sequences is True")
    for name in ("mask", "is_first"):
        if name in names:
            raise ValueError(f"there is a field {name!r}, which is the name of an array of every batch of sequences")


def _sequences_of(given: Any) -> tuple[int, int] | None:
    """Of (length, every), where every may be None. None: it is something else."""
    if not isinstance(given, (tuple, list)):
        return None
    if len(given) != 2:
        raise ValueError(f"sequences is {given!r}; it must be True, False or (length, every)")
    length, every = given
    return integer("length of sequences", length, 1, 2**31 - 1), \
        2**31 - 1 if every is None else integer("every of sequences", every, 1, 2**31 - 1)


def _add_ends(fields: list[Field], config: _c_api.ReplayConfig, settings: Settings) -> None:
    given = f"sequences is {settings['sequences']!r}"
    if any(field.name == PRIORITY.name for field in fields):
        raise ValueError(f"{given} and there is a field \"priority\", which is then filled in; leave it out")
    if not config.prioritized:
        raise ValueError(f"{given} and the buffer is not prioritized; it needs prioritized=True or \"independent\"")
    if settings.get("priority_offset"):
        raise ValueError(f"{given} and priority_offset {settings['priority_offset']!r}; it must be 0 or left out: "
                         "transitions of priority 0 end no sequence")
    config.priority_offset = 0.0
    fields.append(PRIORITY)


def _replay_config(preset: Any, capacity: Any, settings: Settings) -> _c_api.ReplayConfig:
    """`settings` are some of BUFFER_SETTINGS. None is the preset's setting, or the library's default."""
    config = _c_api.ReplayConfig()
    _begin(config, lib.gpur_replay_config_init, lib.gpur_replay_config_preset, preset)
    if capacity is not None:
        config.capacity = integer("capacity", capacity)
    elif preset is None:
        raise TypeError("capacity is None; it must be a number of transitions, or there must be a preset that has it")
    _set_index_source(config, settings.get("distinct"), settings.get("prioritized"))
    for name, value in settings.items():
        if value is not None and name in _BUFFER_MEMBERS:
            put_setting(config, name, value)
    for name in _BY_PRIORITY:
        if settings.get(name) is not None and not config.prioritized:
            raise ValueError(f"{name} is {settings[name]!r} and the buffer is not prioritized; it needs "
                             "prioritized=True or \"independent\"")
    if settings.get("evict_alpha") is not None and config.eviction != _c_api.EVICT_BY_PRIORITY:
        raise ValueError(f"evict_alpha is {settings['evict_alpha']!r} and the oldest transitions are evicted; it needs "
                         "eviction=\"priority\"")
    config.check_finite = flag("check_nan", settings.get("check_nan", True))
    if config.frame_stack > 1 and settings.get("layout") is None:
        config.layout = _c_api.LAYOUT_FRAMES
    return config


def _set_index_source(config: _c_api.ReplayConfig, distinct: Any, prioritized: Any) -> None:
    """None is the preset's setting."""
    if prioritized is not None:
        if not isinstance(prioritized, (str, bool, np.bool_)) or prioritized not in SOURCES:
            raise ValueError(f"prioritized is {prioritized!r}; it must be True, False, \"independent\" or None")
        config.index_source, config.prioritized = SOURCES[prioritized], int(bool(prioritized))
    if distinct is None or not flag("distinct", distinct):
        return
    if config.prioritized:
        raise ValueError("distinct is True and the buffer prioritized; a sample by priority may take a transition "
                         "twice: leave out one of them")
    config.index_source = _c_api.UNIFORM_DISTINCT


def _stacked(field: Field, config: _c_api.ReplayConfig) -> Field:
    """The field as batches have it, if it is an observation that is given frame by frame."""
    if field.name not in ("obs", "next_obs"):
        return field
    axis = (config.frame_stack,)
    return field._replace(shape=axis + field.shape if config.stack_axis == _c_api.STACK_FIRST else field.shape + axis)


def _check_stack(fields: list[Field], config: _c_api.ReplayConfig) -> None:
    """InvalidArgument: observations are given as stacks, but are no stacks of frame_stack frames."""
    count, (axis, at) = config.frame_stack, ("first", 0) if config.stack_axis == _c_api.STACK_FIRST else ("last", -1)
    if config.layout != _c_api.LAYOUT_FRAMES or not 1 < count <= _c_api.MAX_STACK:  # the library refuses a larger stack
        return
    for field in fields:
        found = field.shape[at] if field.shape else 0
        if field.name in ("obs", "next_obs") and found != count:
            other = "last" if axis == "first" else "first"
            raise InvalidArgument(
                f"frame_stack is {count} and the {axis} axis of \"{field.name}\" is {found} long, its shape being "
                f"{field.shape}; say stack_axis=\"{other}\" where the {other} axis counts the frames, or "
                "observations=\"frames\" where each is one frame")


def _set_extra_frames(config: _c_api.ReplayConfig, fields: list[Field], num_envs: Any) -> None:
    """Chooses an extra_frames that was not given, so that num_envs environments need no frame stored twice."""
    wanted = integer("num_envs", num_envs, 1, 2**31 - 1) * (config.frame_stack + 2 * config.n_step)
    plan, names = _c_api.ReplayPlan(), {field.name for field in fields}
    if config.layout == _c_api.LAYOUT_FRAMES and config.extra_frames == 0 and {"obs", "next_obs"} <= names:
        check(lib.gpur_replay_plan_bytes(ctypes.addressof(config), ctypes.addressof(plan)))
        if plan.frame_reach < wanted:
            config.extra_frames = wanted


# The next four repeat the library's rules for 0, the default. include/gpureplay/replay.h states them.


def max_batch_of(config: _c_api.ReplayConfig) -> int:
    most = config.capacity
    if config.layout == _c_api.LAYOUT_LANES:
        is_distinct = config.index_source == _c_api.UNIFORM_DISTINCT
        return int(config.max_batch) or (min(_c_api.MAX_LANES, most - 1) if is_distinct else _c_api.MAX_LANES)
    if config.index_source == _c_api.UNIFORM_DISTINCT and config.layout == _c_api.LAYOUT_FRAMES:
        most = config.capacity // 2 // min(2 * config.frame_stack, config.frame_stack + config.n_step)
    elif config.index_source == _c_api.UNIFORM_DISTINCT:
        most -= _block_rows_of(config)
    return int(config.max_batch) or min(4096, max(1, most))


def index_source_of(config: _c_api.ReplayConfig) -> int:
    return int(config.index_source) or (_c_api.PRIORITIZED_STRATIFIED if config.prioritized else _c_api.UNIFORM)


def _block_rows_of(config: _c_api.ReplayConfig) -> int:
    blocks = 64 if config.layout == _c_api.LAYOUT_FRAMES else 16
    return int(config.block_rows) or min(2000, max(1, config.capacity // blocks))


def _extra_frames_of(config: _c_api.ReplayConfig) -> int:
    return int(config.extra_frames) or max(config.capacity // 64, 64 * (config.frame_stack + 2 * config.n_step))


# The layers of a network's trunk.

_LAYER_KINDS = {"dense": _c_api.DENSE, "conv": _c_api.CONV}
# The members of a layer of each kind, in the order of a tuple, with their defaults. None: the caller must give it.
_LAYER_MEMBERS: dict[str, dict[str, Any]] = {
    "dense": {"dense": None, "activation": "relu", "norm": "none"},
    "conv": {"conv": None, "kernel": None, "stride": 1, "padding": 0, "activation": "relu"},
}
_LAYER_WORDS = ("activation", "norm")
_TRUNK = ('a list of units or (units, activation[, "layer_norm"]), and before them ("conv", filters, kernel[, stride[, '
          'padding]][, activation]), or a dict of such names')


def _layer_error(layer: Any) -> TypeError:
    return TypeError(f"trunk has {layer!r}; it must be {_TRUNK}")


def _layer_of_tuple(layer: Any, parts: tuple[Any, ...]) -> tuple[str, Settings]:
    kind = "dense"
    if isinstance(parts[0], str) and parts[0] in _LAYER_KINDS and len(parts) > 1:
        kind, parts = parts[0], parts[1:]
    numbers = [name for name in _LAYER_MEMBERS[kind] if name not in _LAYER_WORDS]
    words = [name for name in _LAYER_MEMBERS[kind] if name in _LAYER_WORDS]
    count = len(parts)
    while count > max(1, len(parts) - len(words)) and isinstance(parts[count - 1], str) and parts[count - 1] != "same":
        count -= 1
    if count > len(numbers):
        raise _layer_error(layer)
    return kind, {**dict(zip(numbers, parts[:count])), **dict(zip(words, parts[count:]))}


def _layer_of_dict(layer: Mapping[str, Any]) -> tuple[str, Settings]:
    kinds = [kind for kind in _LAYER_KINDS if kind in layer]
    if len(kinds) != 1 or set(layer) - set(_LAYER_MEMBERS[kinds[0]]):
        raise _layer_error(layer)
    return kinds[0], dict(layer)


def _set_layer(struct: _c_api.Layer, layer: Any) -> None:
    if isinstance(layer, Mapping):
        kind, named = _layer_of_dict(layer)
    else:
        kind, named = _layer_of_tuple(layer, tuple(layer) or (None,) if isinstance(layer, (tuple, list)) else (layer,))
    values = {**_LAYER_MEMBERS[kind], **named}
    if None in values.values():
        raise _layer_error(layer)
    if isinstance(values.get("padding"), str):
        if values["padding"] != "same":
            raise TypeError(f"padding is {values['padding']!r}; it must be an integer or 'same'")
        values["padding"] = _c_api.SAME
    struct.kind = _LAYER_KINDS[kind]
    put(struct, "units", values[kind])
    for member in ("kernel", "stride", "padding"):
        put(struct, member, values.get(member, 0))
    struct.activation = choice("activation in trunk", values["activation"], ACTIVATIONS)
    struct.norm = choice("norm in trunk", values.get("norm", "none"), NORMS)


def _set_trunk(network: Struct, layers: Sequence[Any]) -> None:
    """Each layer is units, (units, activation[, "layer_norm"]), ("conv", filters, kernel[, stride[, padding]][,
    activation]), or a dict. The default activation is relu."""
    if not isinstance(layers, (tuple, list)):
        raise TypeError(f"trunk is {layers!r}; it must be {_TRUNK}")
    if len(layers) > _c_api.MAX_LAYERS:
        raise ValueError(f"trunk has {len(layers)} layers; it may have {_c_api.MAX_LAYERS}")
    for struct, layer in zip(network.trunk, layers):
        _set_layer(struct, layer)
    network.trunk_count = len(layers)


def _trunk_of(network: Struct) -> list[Any]:
    """The layers as `_set_trunk` takes them: (units, activation[, "layer_norm"]), and ("conv", filters, kernel, stride,
    padding, activation)."""
    layers = network.trunk[:network.trunk_count]
    return [(layer.units, _word(ACTIVATIONS, layer.activation), *(["layer_norm"] if layer.norm else []))
            if layer.kind == _c_api.DENSE else
            ("conv", layer.units, layer.kernel, layer.stride,
             "same" if layer.padding == _c_api.SAME else layer.padding, _word(ACTIVATIONS, layer.activation))
            for layer in layers]


# Learners.

_DRAW_SETTINGS = ("distinct", "prioritized")
_NO_MEMBERS = (*_DRAW_SETTINGS, "demonstrations")  # settings that are no numbers in the struct
_OF_RETURNS = settings_in(_c_api.ReturnsConfig)  # of the cache of returns
LEARNER_SETTINGS = (*names_in(_c_api.DQNConfig), *_NO_MEMBERS)


def refuse_document(settings: Mapping[str, Any]) -> None:
    """Raises TypeError if these are a learner's settings as config.json has them, in the structs of the library."""
    for name in {"network", "optimizer"} & settings.keys():
        if isinstance(settings[name], Mapping):
            raise TypeError(f"{name!r} is no setting, but what config.json calls a part of a learner; "
                            "Policy.open(folder) makes the policy of a run, and agent.config has a learner's settings")


def _unknown_of_learner(unknown: Callable[[str], Exception], on_buffer: bool = True) -> Callable[[str], Exception]:
    """Of a learner, or a policy. That some settings are those of what it is made on, such as gamma, is easily
    overlooked."""
    def made(name: str) -> Exception:
        if name == "deterministic":
            return TypeError(f"{name!r} is no setting of a learner or a policy, but of its device: "
                             f"device=Device(..., {name}=True)")
        if on_buffer and name in BUFFER_SETTINGS:
            return TypeError(f"{name!r} is no setting of a learner, but of its buffer: ReplayBuffer(..., {name}=...)")
        return unknown(name)

    return made


def learner_config(preset: str | None, settings: Mapping[str, Any], index_source: int) -> _c_api.DQNConfig:
    """The preset's settings, or the defaults, overridden by `settings`. index_source is the buffer's."""
    config = _c_api.DQNConfig()
    _begin(config, lib.gpur_dqn_config_init, lib.gpur_dqn_config_preset, preset)
    unknown = _unknown_of_learner(_unknown(LEARNER_SETTINGS))
    _put_settings(_parts_of(config), settings, unknown, _NO_MEMBERS)
    _refuse_unused_ratio(settings)
    unused = [name for name in _OF_RETURNS if name in settings and name != "cache_size"]
    if unused and config.returns.cache_size == 0:
        raise InvalidArgument(f"{unused[0]} is {settings[unused[0]]!r} and cache_size 0, so that there is no cache of "
                              "returns to use it; cache_size must be above 0")
    config.index_source = _learner_source(settings.get("distinct"), settings.get("prioritized"), index_source,
                                          config.index_source)
    return config


def _refuse_unused_ratio(settings: Mapping[str, Any]) -> None:
    if "demonstration_ratio" in settings and settings.get("demonstrations") is None:
        raise InvalidArgument(f"demonstration_ratio is {settings['demonstration_ratio']!r} and demonstrations None; "
                              "demonstrations must be the buffer that this part of each batch is drawn from")


def _learner_source(distinct: Any, prioritized: Any, of_buffer: int, of_preset: int) -> int:
    """How train steps sample: as the settings say, else as the buffer does if it has priorities, else as the preset
    says."""
    if prioritized is not None and (not isinstance(prioritized, Hashable) or prioritized not in SOURCES):
        raise ValueError(f"prioritized is {prioritized!r}; it must be True, False, \"independent\" or None")
    if distinct and prioritized:
        raise ValueError(f"distinct is {distinct!r} and prioritized {prioritized!r}; a sample by priority may take a "
                         f"transition twice: leave out one of them")
    if distinct:
        return _c_api.UNIFORM_DISTINCT
    if prioritized is not None:
        return SOURCES[prioritized]
    return of_buffer if of_buffer in (_c_api.PRIORITIZED_STRATIFIED,
                                      _c_api.PRIORITIZED_INDEPENDENT) else of_preset or of_buffer


# Policies.


def policy_config(preset: str | None, settings: Mapping[str, Any]) -> _c_api.PolicyConfig:
    """The network of the preset, or the defaults, overridden by `settings`. `obs` remains to be set."""
    config = _c_api.PolicyConfig()
    _begin(config, lib.gpur_policy_config_init, lib.gpur_policy_config_preset, preset)
    names = names_in(_c_api.PolicyConfig)
    advice = (". Policy.for_learner(agent) makes a policy for a learner, and Policy.open(path) for its file or the "
              "folder of a run, without settings")
    unknown = _unknown_of_learner(_unknown(names, " of a policy", advice), on_buffer=False)
    _put_settings(_parts_of(config), settings, unknown)
    return config


def refuse_doubtful_layout(network: _c_api.NetworkConfig, obs: Field) -> None:
    """Says in Python's words what the library would refuse in those of C: images whose shape does not tell where the
    channels are."""
    reads_images = network.trunk_count > 0 and network.trunk[0].kind == _c_api.CONV and len(obs.shape) == 3
    if reads_images and network.input_layout == _c_api.INPUT_AUTO and leaves_doubt(obs.shape):
        raise InvalidArgument(f"input_layout is 'auto', and the shape of obs, {obs.shape}, does not tell which axis "
                              "has the channels; input_layout must be 'chw' (channels, height, width) or 'hwc' "
                              "(height, width, channels)")


def leaves_doubt(shape: Sequence[int]) -> bool:
    """Whether the shape of an image does not tell which axis has the channels."""
    return bool(lib.gpur_image_layout(*shape) == _c_api.INPUT_AUTO)


def network_settings(settings: Settings) -> Settings:
    """Those of a learner's settings that are its network's."""
    return {name: settings[name] for name in settings_in(_c_api.NetworkConfig) if name in settings}


# Actor-critics.

ACTOR_CRITIC_SETTINGS = names_in(_c_api.ActorCriticConfig)


def actor_critic_config(settings: Mapping[str, Any]) -> _c_api.ActorCriticConfig:
    """The defaults, overridden by `settings`. `obs` remains to be set."""
    config = _c_api.ActorCriticConfig()
    check(lib.gpur_actor_critic_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    unknown = _unknown_of_learner(_unknown(ACTOR_CRITIC_SETTINGS), on_buffer=False)
    _put_settings(_parts_of(config), settings, unknown)
    return config


# Learners of continuous actions.

ActionConfig = Union[_c_api.DPGConfig, _c_api.SACConfig]


def _owners_of(config: ActionConfig) -> tuple[str, ...]:
    """The settings that are dicts: of a network with its optimizer, and of an optimizer."""
    return ("actor", "critic", "temperature_optimizer") if isinstance(config, _c_api.SACConfig) else ("actor", "critic")


def _parts_of_owner(config: ActionConfig, owner: str) -> _Parts:
    names = (owner,) if owner.endswith("_optimizer") else (owner, f"{owner}_optimizer")
    return [(part, settings_in(type(part))) for part in (getattr(config, name) for name in names)]


def _put_owner(config: ActionConfig, owner: str, settings: Settings) -> None:
    if not isinstance(settings, Mapping):
        example = '{"learning_rate": 1e-4}' if owner.endswith("_optimizer") else '{"trunk": [128]}'
        raise TypeError(f"{owner} is {settings!r}; it must be a dict of settings, as {example}")
    parts = _parts_of_owner(config, owner)
    names = [name for _, members in parts for name in members]
    _put_settings(parts, settings, _unknown(names, f" of {owner}"))


def put_action_settings(config: ActionConfig, init: Any, settings: Mapping[str, Any], num_actions: int,
                        index_source: int) -> None:
    """Sets the defaults that `init` sets, overridden by `settings`. index_source is the buffer's."""
    check(init(ctypes.addressof(config), ctypes.sizeof(config)))
    config.actor.num_actions = num_actions
    owners = _owners_of(config)
    for owner in owners:
        if owner in settings:
            _put_owner(config, owner, settings[owner])
    own = settings_in(type(config))
    unknown = _unknown_of_learner(_unknown((*owners, *own, *_NO_MEMBERS)))
    _put_settings([(config, own)], settings, unknown, (*owners, *_NO_MEMBERS))
    _refuse_unused_ratio(settings)
    config.index_source = _learner_source(settings.get("distinct"), settings.get("prioritized"), index_source,
                                          config.index_source)


# Runs.

class RunConfigs(NamedTuple):
    """The settings that all runs have, with their environments, and those of a system."""

    common: _c_api.RunConfig
    own: Any


def _run_configs(own: Any, init: Any, settings: Settings, others: tuple[str, ...] = ()) -> RunConfigs:
    """The defaults, overridden by `settings`."""
    common = _c_api.RunConfig()
    check(lib.gpur_run_config_init(ctypes.addressof(common), ctypes.sizeof(common)))
    check(init(ctypes.addressof(own), ctypes.sizeof(own)))
    made = RunConfigs(common, own)
    names = (*names_in(type(own)), *others, *settings_in(type(common)))
    _put_settings(_parts_of_run(made), settings, _unknown(names), others)
    return made


def _parts_of_run(configs: RunConfigs) -> _Parts:
    return [*_parts_of(configs.own), *_parts_of(configs.common)]


def set_envs(common: _c_api.RunConfig, env_type: int | None, vector_type: int | None, options: bytes) -> None:
    """env_type, vector_type: the address of a gpur_env_type and of a gpur_vector_env_type. options: of their init, a
    copy of which the caller keeps."""
    common.type, common.vector, common.env_options = env_type, vector_type, options


def fast_dqn_configs(settings: Settings) -> RunConfigs:
    return _run_configs(_c_api.FastDQNConfig(), lib.gpur_fast_dqn_config_init, settings)


# Ape-X.

_APEX_OTHERS = ("epsilons", "folder", "processes")  # the last of which `Apex` reads


def apex_configs(settings: Settings) -> RunConfigs:
    made = _run_configs(_c_api.ApexConfig(), lib.gpur_apex_config_init, settings, _APEX_OTHERS)
    if "epsilons" in settings:
        _set_epsilons(made.own, settings["epsilons"])
    folder = settings.get("folder")
    made.own.folder = None if folder is None else in_c("folder", folder)
    return made


def _set_epsilons(config: _c_api.ApexConfig, values: Sequence[float] | None) -> None:
    """None: the ladder."""
    numbers = [real("one of the epsilons", value) for value in values or ()]
    config.kept = array = (ctypes.c_float * len(numbers))(*numbers)
    config.epsilons, config.epsilon_count = ctypes.addressof(array) if numbers else None, len(numbers)


# GA3C.

def ga3c_configs(settings: Settings) -> RunConfigs:
    return _run_configs(_c_api.GA3CConfig(), lib.gpur_ga3c_config_init, settings)


# Reading settings back from structs.


def _word(choices: dict[Any, int], code: int) -> Any:
    return next(word for word, known in choices.items() if known == code)


def shortest(value: float) -> float:
    """A float32 as the shortest number that is read as it: 0.99, and not 0.9900000095367432."""
    return float(str(np.float32(value)))


def _schedule_of(given: _c_api.Schedule) -> Any:
    """A number, (first, last, steps), or with a begin other than 0 (first, last, steps, begin)."""
    first, last = shortest(given.first), shortest(given.last)
    if first == last:
        return first
    return (first, last, given.steps, given.begin) if given.begin else (first, last, given.steps)


def _value_of(struct: Struct, name: str) -> Any:
    choices = choices_of(type(struct), name)
    if name == "trunk":
        return _trunk_of(struct)
    value = getattr(struct, member_of(name))
    if choices is not None:
        return _word(choices, value)
    if isinstance(value, _c_api.Schedule):
        return _schedule_of(value)
    return bool(value) if name in FLAGS else shortest(value) if isinstance(value, float) else value


# The settings that only networks with these heads have.
_OF_HEADS = {"atoms": (_c_api.HEAD_QUANTILES, _c_api.HEAD_CATEGORICAL), "v_min": (_c_api.HEAD_CATEGORICAL,),
             "v_max": (_c_api.HEAD_CATEGORICAL,)}


def _values_of(struct: Struct, names: Sequence[str]) -> Settings:
    return {name: _value_of(struct, name) for name in names
            if name not in _OF_HEADS or getattr(struct, "head") in _OF_HEADS[name]}


def _settings_of(parts: _Parts) -> Settings:
    return {name: value for struct, names in parts for name, value in _values_of(struct, names).items()}


def _draw_of(source: int) -> Settings:
    """How a learner with this index source samples."""
    return {"prioritized": _word(SOURCES, source) if source in SOURCES.values() else False,
            "distinct": source == _c_api.UNIFORM_DISTINCT}


def _settings_of_replay(config: _c_api.ReplayConfig) -> Settings:
    """The settings in a buffer's struct. A setting without a meaning for this buffer is None."""
    found = {
        "capacity": config.capacity, **_values_of(config, _BUFFER_MEMBERS), "max_batch": max_batch_of(config),
        "block_rows": _block_rows_of(config), "distinct": config.index_source == _c_api.UNIFORM_DISTINCT,
        "prioritized": _word(SOURCES, index_source_of(config)) if config.prioritized else False,
        "extra_frames": _extra_frames_of(config), "check_nan": bool(config.check_finite),
    }
    for name in () if config.prioritized else _BY_PRIORITY:
        found[name] = None
    for name in () if config.layout == _c_api.LAYOUT_FRAMES else _OF_FRAMES:
        found[name] = None
    if config.eviction != _c_api.EVICT_BY_PRIORITY:
        found["evict_alpha"] = None
    return found


def settings_of_buffer(spec: Spec) -> Settings:
    """The settings that a buffer's spec has, of which actors make blocks. InvalidArgument: it has lanes."""
    if spec.config.layout == _c_api.LAYOUT_LANES:
        raise InvalidArgument("the buffer is a LaneBuffer, whose steps come from device memory; actors, and runs with "
                              "them, need a ReplayBuffer")
    fields = {field.name: (field.shape, field.dtype.name) for field in spec.given}
    found = _settings_of_replay(spec.config)
    return {"capacity": found.pop("capacity"), "fields": fields, **found,
            "observations": "frames" if spec.observations == _c_api.OBSERVATIONS_FRAMES else "stacks",
            "sequences": spec.ends or spec.sequences, "keep_steps": spec.keep_steps}


def settings_of_learner(config: _c_api.DQNConfig) -> Settings:
    """Without a cache of returns those of its settings are left out."""
    found = _settings_of(_parts_of(config))
    for name in () if config.returns.cache_size > 0 else _OF_RETURNS:
        del found[name]
    return {**_without_unused_ratio(config, found), **_draw_of(config.index_source)}


def _without_unused_ratio(config: _c_api.DQNConfig | ActionConfig, found: Settings) -> Settings:
    return {name: value for name, value in found.items() if name != "demonstration_ratio" or config.demonstrations}


def settings_of(config: Struct) -> Settings:
    """Of a policy or an actor-critic."""
    return _settings_of(_parts_of(config))


def settings_of_actions(config: ActionConfig) -> Settings:
    """Of a learner of continuous actions."""
    owners = {owner: _settings_of(_parts_of_owner(config, owner)) for owner in _owners_of(config)}
    own = _without_unused_ratio(config, _values_of(config, settings_in(type(config))))
    return {**owners, **own, **_draw_of(config.index_source)}


def apex_networks(networks: list[_c_api.NetworkConfig]) -> _c_api.ApexNetworks:
    """Of a `DQN` one network, of other learners the policy network and each critic, which must outlive what is
    returned."""
    both = _c_api.ApexNetworks()
    both.acting = ctypes.addressof(networks[0])
    both.critic = ctypes.addressof(networks[1]) if len(networks) > 1 else None
    both.critics = len(networks) - 1
    return both


def settings_of_run(configs: RunConfigs) -> Settings:
    found, own = _settings_of(_parts_of_run(configs)), configs.own
    if not isinstance(own, _c_api.ApexConfig):
        return found
    epsilons = (ctypes.c_float * own.epsilon_count).from_address(own.epsilons) if own.epsilons else None
    return {**found, "processes": own.command is not None,
            "epsilons": None if epsilons is None else [shortest(value) for value in epsilons],
            "folder": None if own.folder is None else os.fsdecode(own.folder)}


def settings_text(settings: Settings, names: str) -> str:
    """Some of the settings, written as in a call."""
    return ", ".join(f"{name}={settings[name]!r}" for name in names.split())


# Presets.


class Preset(NamedTuple):
    """The settings of a published system, as keywords.

    buffer: settings of `ReplayBuffer`. It is empty for "cartpole", which has no settings of a buffer.
    agent: settings of `DQN`.
    """

    buffer: Settings
    agent: Settings


# The settings that no preset has.
_NOT_IN_BUFFER_PRESETS = ("max_batch", "flush", "distinct", "seed", "extra_frames")
_NOT_IN_AGENT_PRESETS = ("seed", "act", "math", "host_batches", "step_kernel", "distinct")


def preset(name: str) -> Preset:
    """The settings behind `preset=name` of `ReplayBuffer` and `DQN`:

        gpureplay.preset("apex-dqn").agent["batch_size"]

    InvalidArgument: there is no preset of that name. The text lists all names."""
    learner, replay, buffer = _c_api.DQNConfig(), _c_api.ReplayConfig(), Settings()
    _begin(learner, lib.gpur_dqn_config_init, lib.gpur_dqn_config_preset, name)
    try:
        _begin(replay, lib.gpur_replay_config_init, lib.gpur_replay_config_preset, name)
        buffer = _settings_of_replay(replay)
        if replay.block_rows == 0:
            del buffer["block_rows"]  # the library chooses it by the capacity
    except InvalidArgument:
        pass
    agent = settings_of_learner(learner)
    # A preset without priorities leaves the choice to the buffer.
    absent = _NOT_IN_AGENT_PRESETS if agent["prioritized"] else (*_NOT_IN_AGENT_PRESETS, "prioritized")
    return Preset({key: value for key, value in buffer.items()
                   if value is not None and key not in _NOT_IN_BUFFER_PRESETS},
                  {key: value for key, value in agent.items() if key not in absent})


class GA3CPreset(NamedTuple):
    """The settings of a system for an environment, as keywords of `ActorCritic`, with obs, and of `GA3C`."""

    learner: Settings
    run: Settings


def ga3c_preset(name: str, env_type: int | None, options: bytes) -> GA3CPreset:
    """The arguments are those of `set_envs`. InvalidArgument: there is no preset of that name, or it cannot take the
    environment."""
    learner, run = actor_critic_config({}), ga3c_configs({})
    set_envs(run.common, env_type, None, options)
    check(lib.gpur_ga3c_preset(in_c("preset", name), *map(ctypes.addressof, (run.common, learner, run.own))))
    return GA3CPreset(keywords_of_learner(learner), settings_of_run(run))


def keywords_of_buffer(replay: _c_api.ReplayConfig) -> Settings:
    """Of `ReplayBuffer`, by which it gets this config."""
    buffer = {key: value for key, value in _settings_of_replay(replay).items() if value is not None}
    for key in ("max_batch", "block_rows", "extra_frames"):
        if getattr(replay, key) == 0:
            buffer.pop(key, None)  # the library chooses it by other settings, which the caller may change
    return {**buffer, "fields": dict(map(_field_of, replay.fields[:replay.field_count]))}


def keywords_of_learner(config: _c_api.DQNConfig | ActionConfig | _c_api.ActorCriticConfig) -> Settings:
    """Of `DQN`, `DDPG`, `SAC` or `ActorCritic`. One that says nothing special of how it samples samples as its buffer
    does."""
    if isinstance(config, _c_api.ActorCriticConfig):
        return {"obs": _field_of(config.obs)[1], **settings_of(config)}
    found = settings_of_learner(config) if isinstance(config, _c_api.DQNConfig) else settings_of_actions(config)
    return {key: value for key, value in found.items() if value or key not in _DRAW_SETTINGS}


def _field_of(field: _c_api.Field) -> tuple[str, tuple[tuple[int, ...], str]]:
    """(name, (shape, dtype)), as `ReplayBuffer` takes it."""
    return (field.name or b"").decode(), (shape_of(field), NUMPY[field.dtype].name)
