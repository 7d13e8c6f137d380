# SPDX-License-Identifier: MIT
"""Environments in Python, with Gymnasium's interface, as tables of functions that the library's threads call. Each call
takes the interpreter's lock."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._flatten import Translation, reading_of
from ._inputs import convert
from ._schema import DTYPES, Field
from ._spaces import actions_refusal, has_choices, has_floats, refuse_masks
from ._writer import Environment, environment_of


class Envs:
    """Environments of one type. The library makes those of a run in the order of the lanes, and that of evaluations
    last."""

    name: str
    # The addresses of the gpur_env_type, and of the gpur_vector_env_type that steps the lanes, if they are one. One of
    # the library has no other type.
    type: int | None = None
    vector_type: int | None = None
    options: bytes = b""  # for init
    translation = Translation()  # between an environment and the network
    count: int | None = None  # how many lanes there can be; None: any number
    can_evaluate = True  # whether there is an environment for evaluations
    eval_count = 1  # environments in which an evaluation plays at the same time; 0: as the library chooses

    def open(self) -> None:
        """From now on `init` makes environments of a run, and no longer only tells the spaces."""

    def cause_of(self, text: str) -> BaseException | None:
        """The exception in Python that the library's message `text` is about."""
        return None

    def close(self) -> None:
        """Releases what was made for the run, which is gone."""


# Spaces.


class Spaces(NamedTuple):
    """What all environments of a run have in common."""

    obs: Field  # as the library gets it
    num_actions: int  # 0: actions are vectors
    translation: Translation
    action: Field | None = None  # of vectors: as the environment gets them


def _spaces_of(found: Environment, is_vector: bool = False) -> Spaces:
    """TypeError: the library cannot take these observations or actions."""
    refuse_masks(found.observation_space, is_vector)
    (field, flattener), action = reading_of(found.observation_space, is_vector), found.action_space
    if has_floats(action):
        shape = tuple(int(n) for n in action.shape)
        low, high = (tuple(np.asarray(bound, np.float32).ravel().tolist()) for bound in (action.low, action.high))
        return Spaces(field, 0, Translation(flattener, bounds=(shape, low, high)),
                      Field("action", shape, np.dtype(action.dtype)))
    if not has_choices(action):
        raise TypeError(actions_refusal(action, is_vector))
    return Spaces(field, int(action.n), Translation(flattener, int(getattr(action, "start", 0))))


def _single_spaces(env: Any) -> Spaces:
    """Of an environment that a run resets itself."""
    found = environment_of(env)
    if found.autoreset != "disabled":
        raise TypeError(f"{env} resets itself; a run resets its environments: leave out the wrapper that does it")
    return _spaces_of(found)


def _name_of(env: Any) -> str:
    """For messages and files: the id, or the name of the class."""
    return str(getattr(getattr(env, "spec", None), "id", "") or type(getattr(env, "unwrapped", env)).__name__)


def _limit_of(env: Any) -> int:
    """The steps after which Gymnasium's TimeLimit truncates; 0: there is none. What the spec says holds for an
    environment without its wrappers no more."""
    one = getattr(env, "envs", [env])[0] if hasattr(env, "envs") else env
    while one is not None and type(one).__name__ != "TimeLimit":
        one = getattr(one, "env", None)
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return int(getattr(one, "_max_episode_steps", limit) or 0) if one is not None else 0


def _seed_of(seed: int) -> int:
    """Of the library's 64 bits those that every environment takes, some emulators only 31. A vector adds numbers."""
    return seed >> 34


class _Memory:
    """The library's memory of an array, as an array. The library gives the same address each time."""

    def __init__(self, shape: tuple[int, ...], dtype: Any):
        self._shape, self._dtype, self._address = shape, np.dtype(dtype), 0
        self._array = np.empty(0)

    def at(self, address: int) -> np.ndarray:
        if address != self._address:
            count = int(np.prod(self._shape))
            raw = (ctypes.c_char * max(1, count * self._dtype.itemsize)).from_address(address)
            self._array = np.frombuffer(raw, self._dtype, count).reshape(self._shape)
            self._address = address
        return self._array


def _observation(obs: Any, spaces: Spaces) -> np.ndarray:
    """ValueError: `obs` is not what its space says."""
    flattener = spaces.translation.flattener
    return _checked(obs if flattener is None else flattener.one(obs), spaces.obs)


def _checked(obs: Any, field: Field) -> np.ndarray:
    array = convert(np.asarray(obs), field)
    if array.shape != field.shape:
        raise ValueError(f"the observation has shape {array.shape}; it must be {field.shape}, as in the observation "
                         "space")
    return array


_REWARD = Field("reward", (), np.dtype(np.float32))


def _reward(reward: Any) -> float:
    """One number, of shape () or (1,), say. ValueError: it is not one, or too large for a float32."""
    array = np.asarray(reward)
    if array.size != 1:
        raise ValueError(f"the reward is {reward}, of shape {array.shape}; it must be one number")
    return float(_rounded(array.reshape(())))


def _rounded(rewards: np.ndarray) -> np.ndarray:
    """As float32. Integers, which it may not hold exactly, are rounded, and so is what else Python's float() takes, as
    a Fraction. ValueError: one is too large for a float32."""
    if rewards.dtype.kind in "iu":
        rewards = rewards.astype(np.float64)
    elif rewards.dtype.kind == "O":
        with contextlib.suppress(TypeError):  # no number: `convert` refuses it
            rewards = np.array([float(one) for one in rewards.flat]).reshape(rewards.shape)
    return convert(rewards, _REWARD)


# Tables of functions.

# With results as addresses: ctypes would leak the text of a c_char_p.
_P = ctypes.c_void_p
_FUNCTIONS = {
    "init": ctypes.CFUNCTYPE(_P, ctypes.c_char_p, ctypes.c_uint64, _P, _P),
    "vector_init": ctypes.CFUNCTYPE(_P, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32, _P, _P),
    "reset": ctypes.CFUNCTYPE(_P, _P, _P), "step": ctypes.CFUNCTYPE(_P, _P, _P, _P, _P),
    "vector_step": ctypes.CFUNCTYPE(_P, _P, _P, _P),
    # Its function is one of C, as it may run in a finalizer: see _handle.py.
    "close": ctypes.CFUNCTYPE(None, _P),
}
_RANDOM_STEP = "a random step before training: "  # what the library puts before that of such a step
_MAX_SENTENCE = 300  # bytes; the library's messages have room for about 500
_PROBE = 1 << 20  # the handle of no environment, while only the spaces are read


def _bounds_of(box: Any) -> list[np.ndarray]:
    return [np.ascontiguousarray(bound, np.float32) for bound in (box.low, box.high)]


def _describe_box(space: Any, dtype: np.dtype[Any], shape: tuple[int, ...], bounds: list[np.ndarray]) -> None:
    """Fills in a gpur_space. Its bounds are those in `bounds`, which must stay."""
    low, high = bounds
    space.dtype = DTYPES[dtype]
    space.shape[:len(shape)] = shape
    space.low, space.high = low.min(), high.max()
    if (low != low.min()).any() or (high != high.max()).any():
        space.lows, space.highs = low.ctypes.data, high.ctypes.data


class _PythonType(Envs):
    """What all types in Python share: the spaces, and the exceptions of environments.

    An exception cannot pass through C. It is stored, and the library gets a sentence instead, with which the run ends.

    tells_place: whether the sentence has the file and the line, for those who get nothing else.
    """

    tells_place = False

    def __init__(self, first: Any, spaces: Spaces, box: Any, actions: Any):
        """first: the environment that names the type. box, actions: the observation and action space of one
        environment."""
        self.name, self.spaces, self.translation = _name_of(first), spaces, spaces.translation
        self._max_steps = _limit_of(first)
        self._bounds = _bounds_of(box if self.translation.flattener is None else self.translation.flattener.box)
        self._action_bounds = _bounds_of(actions) if spaces.action is not None else None
        # By their sentence, with the bytes of it that the library reads.
        self._raised: dict[str, tuple[BaseException, ctypes.Array[ctypes.c_char]]] = {}
        self._kept: list[Any] = [self.name.encode()]  # what the tables point to

    def _fill(self, table: Any, functions: dict[str, Callable[..., Any]]) -> int:
        """Fills a table of the library's. Returns its address. functions: by their names in _FUNCTIONS; all but `close`
        are functions in Python."""
        table.name = self._kept[0]
        for name, function in functions.items():
            member = name.removeprefix("vector_")
            thunk = _FUNCTIONS[name](function if name == "close" else self._guarded(function))
            setattr(table, member, ctypes.cast(thunk, dict(table._fields_)[member]))
            self._kept.append(thunk)
        self._kept.append(table)
        return ctypes.addressof(table)

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int | None]:
        """The function as the library calls it: it returns the sentence of what `function` raises, or NULL."""
        def call(*arguments: Any) -> int | None:
            try:
                function(*arguments)
            except BaseException as error:
                return self._refusal(error)
            return None

        return call

    def _describe(self, info_at: int) -> None:
        """Fills in a gpur_env_info, whose size is set."""
        size = ctypes.sizeof(ctypes.c_uint64)
        ctypes.memset(info_at + size, 0, ctypes.sizeof(_c_api.EnvInfo) - size)
        info, spaces = _c_api.EnvInfo.from_address(info_at), self.spaces
        _describe_box(info.obs, spaces.obs.dtype, spaces.obs.shape, self._bounds)
        if spaces.action is not None and self._action_bounds is not None:
            _describe_box(info.action, np.dtype(np.float32), spaces.action.shape, self._action_bounds)
        else:
            info.action.dtype, info.action.num_actions = _c_api.INT32, spaces.num_actions
            info.action.high = spaces.num_actions - 1
        info.max_steps = self._max_steps

    def _probe(self, _options: bytes, _seed: int, info_at: int, env_at: int) -> None:
        """An `init` that only tells the spaces."""
        self._describe(info_at)
        _P.from_address(env_at).value = _PROBE

    def _refusal(self, error: BaseException) -> int:
        """Stores the exception. Returns the address of a sentence."""
        text = _shortened(_words_of(error))
        if self.tells_place:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text += f" ({os.path.basename(place.filename)}, line {place.lineno})"
        stored = error, ctypes.create_string_buffer(text.encode("utf-8", "replace"))
        _, sentence = self._raised.setdefault(text, stored)
        return ctypes.addressof(sentence)

    def cause_of(self, text: str) -> BaseException | None:
        """The library puts before the sentence where it was said: "environment 3, step 17: "."""
        found = self._raised.get(text.removeprefix(_RANDOM_STEP).partition(": ")[2])
        return None if found is None else found[0]


def _words_of(error: BaseException) -> str:
    """Its type and text. An exception of the user's may have none: its __str__ may raise another one."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception as other:
        return f"{kind}, whose text raised {type(other).__name__}"


def _shortened(text: str) -> str:
    """What the library gives back unchanged."""
    return text.replace("\0", " ").encode("utf-8", "replace")[:_MAX_SENTENCE].decode("utf-8", "ignore")


class _Player:
    """One environment. One thread at a time uses it."""

    def __init__(self, env: Any, spaces: Spaces, seed: int):
        self.env, self._spaces, self._seed = env, spaces, seed
        self._memory = _Memory(spaces.obs.shape, spaces.obs.dtype)
        self._vector = None if spaces.action is None else _Memory(spaces.action.shape, np.float32)

    def _action_at(self, address: int) -> Any:
        """The library's number, or a copy of its vector, which it uses again."""
        if self._vector is None or self._spaces.action is None:
            return ctypes.c_int32.from_address(address).value + self._spaces.translation.first_action
        return self._vector.at(address).astype(self._spaces.action.dtype)

    def reset(self, obs_at: int) -> None:
        # The first reset gets the seed. Those that follow go on with the environment's random numbers.
        obs, _ = self.env.reset() if self._seed < 0 else self.env.reset(seed=self._seed)
        self._seed = -1
        self._memory.at(obs_at)[...] = _observation(obs, self._spaces)

    def step(self, action_at: int, obs_at: int, result_at: int) -> None:
        obs, reward, terminated, truncated, _ = self.env.step(self._action_at(action_at))
        self._memory.at(obs_at)[...] = _observation(obs, self._spaces)
        result = _c_api.EnvResult.from_address(result_at)
        result.reward, result.terminated, result.truncated = _reward(reward), bool(terminated), bool(truncated)


class PythonEnvs(_PythonType):
    """Environments of their own for the lanes, which are made in the thread that makes the run, or for the agents of
    GA3C, each made in its agent's thread.

    The library closes environments and makes them again when it loads a run, or when agents come and go: then they
    stay, and their next reset gets the new seed.

    make: makes the environment of a lane, one at a time. closes: whether they are closed with the run.
    """

    def __init__(self, make: Callable[[int], Any], closes: bool):
        self._make, self._closes = make, closes
        self._players: dict[int, _Player] = {}  # by handle: the lane + 1, because NULL is none
        self._closed: set[int] = set()  # handles that the library has closed, those of _probe, too
        self._is_open, self._making = False, threading.Lock()
        self._first = make(0)  # from which the spaces are known
        try:
            super().__init__(self._first, _single_spaces(self._first), self._first.observation_space,
                             self._first.action_space)
        except TypeError:
            self.close()
            raise
        self.type = self._fill(_c_api.EnvType(), {"init": self._init, "reset": self._reset, "step": self._step,
                                                  "close": self._closed.add})

    def open(self) -> None:
        self._is_open = True

    def _init(self, options: bytes, seed: int, info_at: int, env_at: int) -> None:
        _P.from_address(env_at).value = None
        if not self._is_open:
            self._probe(options, seed, info_at, env_at)
            return
        self._describe(info_at)
        with self._making:
            handle = self._open_player(seed)
        _P.from_address(env_at).value = handle

    def _open_player(self, seed: int) -> int:
        """Returns its handle."""
        handle = min(self._players.keys() & self._closed, default=len(self._players) + 1)
        made = self._players[handle].env if handle in self._players else \
            self._first if handle == 1 else self._make(handle - 1)
        if any(player.env is made for other, player in self._players.items() if other != handle):
            raise ValueError(f"environment {handle - 1} is that of another slot; each needs its own")
        self._closed.discard(handle)
        self._players[handle] = _Player(made, self.spaces, _seed_of(seed))
        self._require_same(made)
        return handle

    def _require_same(self, made: Any) -> None:
        first = self._first
        if _single_spaces(made) != self.spaces:
            raise ValueError(f"the spaces are {made.observation_space} and {made.action_space}; they must be those of "
                             f"the first environment, {first.observation_space} and {first.action_space}")

    def _reset(self, handle: int, obs_at: int) -> None:
        self._players[handle].reset(obs_at)

    def _step(self, handle: int, action_at: int, obs_at: int, result_at: int) -> None:
        self._players[handle].step(action_at, obs_at, result_at)

    def close(self) -> None:
        envs = [player.env for player in self._players.values()] or [self._first]
        with contextlib.ExitStack() as closing:
            for env in envs if self._closes else ():
                closing.callback(env.close)
        self._closes = False


class PythonVector(_PythonType):
    """A vector environment, which steps all lanes at once. The caller closes it.

    evaluation: the environment for evaluations; None: there is none.
    """

    def __init__(self, envs: Any, evaluation: PythonEnvs | None):
        found = environment_of(envs)
        modes = {"next_step": _c_api.AUTORESET_NEXT_STEP, "same_step": _c_api.AUTORESET_SAME_STEP}
        mode = str(getattr(found.autoreset, "name", found.autoreset)).lower()
        if mode not in modes:
            raise ValueError(f"the autoreset mode of {envs} is {mode!r}; a run needs \"next_step\" or \"same_step\"")
        super().__init__(envs, _spaces_of(found, True), found.observation_space, found.action_space)
        if evaluation is not None and evaluation.spaces != self.spaces:
            raise ValueError(f"the spaces of eval_env are {evaluation.spaces}, and those of the vector environment "
                             f"{self.spaces}; they must be the same")
        self._envs, self._mode, self._evaluation, self._seed = envs, mode, evaluation, 0
        self.count, self.can_evaluate = found.num_envs, evaluation is not None
        # The library asks this for the spaces, and if there are evaluations for their environment.
        self.type = self._fill(_c_api.EnvType(), {"init": self._probe, "close": bool}) \
            if evaluation is None else evaluation.type
        table = _c_api.VectorEnvType()
        table.autoreset = modes[mode]
        self.vector_type = self._fill(table, {"vector_init": self._init, "reset": self._reset,
                                              "vector_step": self._step, "close": bool})
        shape, obs = (found.num_envs,), self.spaces.obs
        actions = _Memory(shape, np.int32) if self.spaces.action is None else \
            _Memory(shape + self.spaces.action.shape, np.float32)
        self._memory = {"actions": actions, "next_obs": _Memory(shape + obs.shape, obs.dtype),
                        "final_obs": _Memory(shape + obs.shape, obs.dtype), "reward": _Memory(shape, np.float32),
                        "terminated": _Memory(shape, np.bool_), "truncated": _Memory(shape, np.bool_)}
        self._batch = Field("obs", shape + obs.shape, obs.dtype)

    def open(self) -> None:
        if self._evaluation is not None:
            self._evaluation.open()

    def _init(self, _options: bytes, seed: int, _num_envs: int, info_at: int, env_at: int) -> None:
        self._describe(info_at)
        self._seed = _seed_of(seed)
        _P.from_address(env_at).value = 1

    def _reset(self, _handle: int, obs_at: int) -> None:
        obs, _ = self._envs.reset() if self._seed < 0 else self._envs.reset(seed=self._seed)
        self._seed = -1
        self._memory["next_obs"].at(obs_at)[...] = self._observations(obs)

    def _step(self, _handle: int, actions_at: int, result_at: int) -> None:
        result = _c_api.VectorResult.from_address(result_at)
        actions = self._memory["actions"].at(actions_at)
        if self.spaces.action is None:
            actions = actions.astype(np.int64) + self.translation.first_action
        else:
            actions = actions.astype(self.spaces.action.dtype)
        obs, rewards, terminated, truncated, info = self._envs.step(actions)
        self._memory["next_obs"].at(result.next_obs)[...] = self._observations(obs)
        for name, values in (("reward", rewards), ("terminated", terminated), ("truncated", truncated)):
            column = self._column(name, values)
            self._memory[name].at(getattr(result, name))[...] = _rounded(column) if name == "reward" else column
        ended = np.flatnonzero(np.logical_or(terminated, truncated).reshape(-1))
        if self._mode == "same_step" and ended.size:
            final = self._memory["final_obs"].at(result.final_obs)
            for env in ended:
                final[env] = _observation(info["final_obs"][env], self.spaces)

    def _column(self, name: str, values: Any) -> np.ndarray:
        """(num_envs,), also of (num_envs, 1)."""
        array = np.asarray(values)
        if array.shape not in ((self.count,), (self.count, 1)):
            raise ValueError(f"{name} has shape {array.shape}; it must be ({self.count},)")
        return array.reshape(-1)

    def _observations(self, obs: Any) -> np.ndarray:
        """Those of all environments."""
        flattener = self.translation.flattener
        return _checked(obs if flattener is None else flattener.batch(obs), self._batch)

    def cause_of(self, text: str) -> BaseException | None:
        found = super().cause_of(text)
        return found if found is not None or self._evaluation is None else self._evaluation.cause_of(text)
