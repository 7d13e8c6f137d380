# SPDX-License-Identifier: MIT
"""Hindsight experience replay: its settings, where goals lie in a transition, and rewards that a function computes."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Union

import numpy as np

from . import _c_api
from ._batch import Batch
from ._choices import CHOICES, settings_in
from ._config import Spec, put_setting
from ._flatten import Flattener
from ._inputs import integer, refuse_not_finite
from ._library import InvalidArgument, check, lib
from ._schema import Field

if TYPE_CHECKING:
    from ._settings import Strategy

Goal = Union[str, "tuple[str, int, int]"]
RewardFunction = Callable[[np.ndarray, np.ndarray, "dict[str, Any]"], Any]

_REWARD = f"{_c_api.HindsightConfig.c_name}.reward"
_SETTINGS = [name for name in settings_in(_c_api.HindsightConfig)
             if name not in ("achieved_at", "desired_at", "goal_size", "reward")]  # which are read apart
_FLOAT32 = np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class Hindsight:
    """Hindsight experience replay [Andrychowicz et al. 2017], a setting of `ReplayBuffer`: most transitions that are
    sampled get a goal that was achieved later in their episode, and the reward of that goal.

    strategy: which achieved goal: "future": that after the transition's own first step or a later one; "final": after
        the last one; "episode": after any one that has not been overwritten. All of these are equally likely.
    n_sampled_goal: k: a transition gets a new goal with probability k / (k + 1).
    reward: that of a new goal, of which what was achieved is at the Euclidean distance d. "sparse": reward_reached if d
        is at most threshold, else reward_missed; with threshold 0, if all numbers are equal. "distance": -d.
        "nearness": exp(-d). "unchanged": as stored: the caller computes the rewards of the rows that are
        `batch.relabeled`. Or a function of arrays, as an environment's compute_reward(achieved, desired, info): it gets
        (count, ...) of what was achieved after the step and of the new goals, and {}, and returns (count,). It needs a
        buffer on the CPU.
        With a function or "unchanged" n_step must be 1, and no learner can train on the buffer, because learners draw
        their samples without Python.
    ends_at_goal: a step that reaches the goal, by threshold, ends the task: then terminated is True and discount 0, and
        a return of several steps ends there; where the new goal is not reached, terminated is False. Default: both
        stay as they were stored.
    achieved, desired: where the goals are: the key of a Dict observation, or a field; or (field, first, end): its
        numbers first to end - 1. The field "next_" + that name has the goal after the step. Default: "achieved_goal"
        and "desired_goal", as in environments of Gymnasium-Robotics. Goals are float32; flatten=True makes others such.

    The buffer keeps what was stored, which `gather` and `sample_sequences` return. Transitions get new goals only once
    their episode has ended. It is a buffer with sequences=True and layout "rows". A file does not have these settings:
    a buffer that loads one has its own.
    """

    strategy: Strategy = "future"
    n_sampled_goal: int = 4
    reward: str | RewardFunction = "sparse"
    threshold: float = 0.0
    reward_reached: float = 0.0
    reward_missed: float = -1.0
    ends_at_goal: bool = False
    achieved: Goal | None = None
    desired: Goal | None = None


class _Place(NamedTuple):
    """Where a goal lies in a field of the schema, and in that of the next step."""

    field: Field
    first: int
    end: int

    def of(self, batch: Batch, rows: np.ndarray, prefix: str = "") -> np.ndarray:
        """The goals of some rows: (count, ...), a copy."""
        found: np.ndarray = batch[prefix + self.field.name][rows]
        is_whole = self.end - self.first == math.prod(self.field.shape)
        return found if is_whole else found.reshape(len(rows), -1)[:, self.first:self.end]


class _Finder:
    """Finds goals among the fields of a buffer."""

    def __init__(self, fields: Sequence[Field], flattener: Flattener | None):
        self._fields = {field.name: field for field in fields}
        self._parts: Mapping[str, tuple[int, int]] = {} if flattener is None else flattener.parts()

    def find(self, name: str, given: Any, default: str) -> _Place:
        """name: of the setting."""
        place = self._place_of(name, default if given is None else given)
        field, following = place.field, self._fields.get(f"next_{place.field.name}")
        if following is None or (following.shape, following.dtype) != (field.shape, field.dtype):
            found = "there is none" if following is None else f"it is {following.dtype} of shape {following.shape}"
            raise ValueError(f"{name} is in field {field.name!r}, {field.dtype} of shape {field.shape}; there must be "
                             f"a field \"next_{field.name}\" of the same, and {found}")
        if field.dtype != _FLOAT32:
            raise TypeError(f"{name} is in field {field.name!r}, which is {field.dtype}; goals must be float32, as "
                            "flatten=True makes the numbers of an observation space")
        return place

    def _place_of(self, name: str, given: Any) -> _Place:
        if isinstance(given, str):
            if given in self._parts:
                return _Place(self._fields["obs"], *self._parts[given])
            field = self._fields.get(f"obs.{given}", self._fields.get(given))
            if field is None:
                self._refuse_name(name, given)
            return _Place(field, 0, math.prod(field.shape))
        if not isinstance(given, tuple) or len(given) != 3 or not isinstance(given[0], str):
            raise TypeError(f"{name} is {given!r}; it must be the key of an observation, the name of a field, or "
                            "(field, first, end)")
        field = self._fields.get(given[0])
        if field is None:
            self._refuse_name(name, given[0])
        size = math.prod(field.shape)
        first = integer(f"first of {name}", given[1], 0, size - 1)
        return _Place(field, first, integer(f"end of {name}", given[2], first + 1, size))

    def _refuse_name(self, name: str, given: str) -> NoReturn:
        keys = [key.removeprefix("obs.") for key in self._fields if key.startswith("obs.")] or list(self._parts)
        of_keys = f"the keys of the observation are {', '.join(map(repr, keys))}, and " if keys else ""
        raise ValueError(f"{name} is {given!r}; {of_keys}the fields are {', '.join(map(repr, self._fields))}: "
                         f"Hindsight({name}=...) must say where the goal is")


class Goals(NamedTuple):
    """What a buffer knows of its goals."""

    given: Hindsight
    achieved: _Place
    desired: _Place
    reward_clip: float
    check_nan: bool

    @property
    def needs_function(self) -> bool:
        return callable(self.given.reward)

    @property
    def are_for_learners(self) -> bool:
        return self.given.reward in ("sparse", "distance", "nearness")

    def relabel(self, batch: Batch) -> None:
        """Writes the rewards that the function gives into a batch in host memory."""
        rows = np.flatnonzero(batch["relabeled"])
        if rows.size:
            batch["reward"].reshape(-1)[rows] = self._rewards(self.achieved.of(batch, rows, "next_"),
                                                              self.desired.of(batch, rows))

    def _rewards(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        assert callable(self.given.reward)
        found = np.asarray(self.given.reward(achieved, desired, {}))
        return checked_rewards(found, len(achieved), self.reward_clip, self.check_nan)


def checked_rewards(found: np.ndarray, count: int, reward_clip: float = 0.0, check_nan: bool = True) -> np.ndarray:
    """The rewards that a function gave, as they are stored. ValueError, TypeError: they are not `count` numbers."""
    if found.shape != (count,):
        raise ValueError(f"the reward function gave shape {found.shape} for {count} goals; it must be ({count},)")
    if found.dtype.kind not in "fiub":
        raise TypeError(f"the reward function gave {found.dtype}; it must be numbers")
    rewards: np.ndarray = found.astype(np.float32)
    if check_nan:
        refuse_not_finite(Field("reward", (), _FLOAT32), rewards)
    return rewards.clip(-reward_clip, reward_clip) if reward_clip > 0 else rewards


def add_hindsight(spec: Spec, given: Any, flattener: Flattener | None) -> tuple[Spec, Goals]:
    """The spec of a buffer with hindsight, of one with a field "previous". TypeError, ValueError: a setting is none, or
    the goals are not where it says."""
    if not isinstance(given, Hindsight):
        raise TypeError(f"hindsight is {given!r}; it must be a gpureplay.Hindsight, or None")
    finder, config = _Finder(spec.fields, flattener), spec.config
    achieved = finder.find("achieved", given.achieved, "achieved_goal")
    desired = finder.find("desired", given.desired, "desired_goal")
    _refuse_pair(achieved, desired)
    is_builtin = isinstance(given.reward, str)
    if not is_builtin and not callable(given.reward):
        raise TypeError(f"reward is {given.reward!r}; it must be one of {', '.join(map(repr, CHOICES[_REWARD]))}, or a "
                        "function of arrays")
    struct = _c_api.HindsightConfig()
    check(lib.gpur_hindsight_config_init(ctypes.addressof(struct), ctypes.sizeof(struct)))
    struct.achieved_field, struct.desired_field = achieved.field.name.encode(), desired.field.name.encode()
    struct.achieved_at, struct.desired_at, struct.goal_size = achieved.first, desired.first, desired.end - desired.first
    for name in _SETTINGS:
        put_setting(struct, name, getattr(given, name))
    put_setting(struct, "reward", given.reward if is_builtin else "unchanged")
    if struct.reward == _c_api.GOAL_REWARD_UNCHANGED and (struct.ends_at_goal or config.n_step != 1):
        raise InvalidArgument(f"reward is {given.reward!r}, ends_at_goal {bool(struct.ends_at_goal)} and n_step "
                              f"{config.n_step}; they must be False and 1, because only the library's own rewards are "
                              "summed and cut")
    config.hindsight = ctypes.addressof(struct)
    return spec._replace(hindsight=struct), Goals(given, achieved, desired, float(config.reward_clip),
                                                  bool(config.check_finite))


def _refuse_pair(achieved: _Place, desired: _Place) -> None:
    """ValueError: the two goals are not alike, or are the same numbers."""
    sizes = achieved.end - achieved.first, desired.end - desired.first
    if sizes[0] != sizes[1]:
        raise ValueError(f"the achieved goal has {sizes[0]} numbers and the desired one {sizes[1]}; they must have as "
                         "many")
    if achieved.field == desired.field and achieved.first < desired.end and desired.first < achieved.end:
        raise ValueError(f"the achieved goal is numbers {achieved.first} to {achieved.end - 1} of field "
                         f"{achieved.field.name!r}, and the desired one {desired.first} to {desired.end - 1}; they "
                         "must not overlap")


def refuse_learner(goals: Goals | None) -> None:
    """InvalidArgument: samples of a learner would have new goals and old rewards."""
    if goals is not None and not goals.are_for_learners:
        raise InvalidArgument(f"hindsight has reward={goals.given.reward!r}, and learners draw their samples without "
                              "Python, so that new goals would have old rewards; it must be \"sparse\", \"distance\" "
                              "or \"nearness\"")
