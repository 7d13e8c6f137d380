# SPDX-License-Identifier: MIT
"""The library's games, and plug-ins, as environments of Gymnasium, for agents of any kind.

    import gpureplay.envs, gymnasium

    env = gymnasium.make("gpureplay/MinAtar-Breakout", render_mode="rgb_array")
    envs = gymnasium.make_vec("gpureplay/MinAtar-Breakout", num_envs=64)

`gpureplay.make_env` and `gpureplay.make_vec` make the same by the library's names, and environments of plug-ins. The
import registers the games: "gpureplay/" and the name, with "-" in the place of a slash.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _c_api
from ._envs import EnvOptions, NativeEnvs, bounds_of, env_info, game_names, is_native
from ._handle import Handle
from ._library import check, lib
from ._pictures import FPS, OTHER_FPS, painter_of
from ._schema import NUMPY
from ._writer import autoreset_name

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gpureplay.envs has environments of Gymnasium, which is not installed; `pip install "
                              "gymnasium`", name=error.name) from error
try:
    from gymnasium.vector import AutoresetMode
except ImportError as error:
    raise ImportError(f"Gymnasium is {gymnasium.__version__}; gpureplay.envs needs 1.1 or later: `pip install -U "
                      "gymnasium`") from error

__all__ = ["GameEnv", "GameVectorEnv"]

_AUTORESETS = {"disabled": _c_api.AUTORESET_DISABLED, "next_step": _c_api.AUTORESET_NEXT_STEP,
               "same_step": _c_api.AUTORESET_SAME_STEP}
_RGB = "rgb_array"
_memory_of: Any = ctypes.c_char.from_buffer
_SEEDS = 2**64


def _id_of(name: str) -> str:
    return "gpureplay/" + re.sub(r"[^\w.-]", "-", name)


def _spec_arguments(name: str, **more: Any) -> dict[str, Any]:
    """Of the environment `name`, as `gymnasium.register` takes them. more: other arguments of it."""
    return {"entry_point": f"{__name__}:GameEnv", "vector_entry_point": f"{__name__}:GameVectorEnv",
            "kwargs": {"name": name, **more}}


def _box(space: _c_api.Space) -> gymnasium.spaces.Box:
    dtype: np.dtype[Any] = NUMPY[space.dtype]
    shape, low, high = bounds_of(space)
    if dtype.kind != "f":  # bool as bytes: a Box has no bool
        dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        low, high = (tuple(int(min(max(bound, least), most)) for bound in bounds) for bounds in (low, high))
    return gymnasium.spaces.Box(np.array(low, dtype).reshape(shape), np.array(high, dtype).reshape(shape), dtype=dtype)


def _action_space(space: _c_api.Space) -> gymnasium.Space[Any]:
    return gymnasium.spaces.Discrete(space.num_actions) if space.num_actions > 0 else _box(space)


class _Games(Handle):
    """Environments that step together, with the arrays that their steps fill in. One thread at a time."""

    _kind = "environment"

    def __init__(self, name: str, env_options: EnvOptions, num_envs: int, autoreset: str, batch: tuple[int, ...]):
        """batch: the axes of actions before those of one: (num_envs,), or () for an environment alone."""
        if not isinstance(name, str) or not is_native(name):
            raise ValueError(f"name is {name!r}; it must be a game of the library ({', '.join(game_names())}) or a "
                             "plug-in's file; gymnasium.make makes what Gymnasium has")
        found = NativeEnvs(name, env_options)
        if found.type is None:
            raise ValueError(f"name is {name!r}, a plug-in whose environments step many at once by themselves; it must "
                             "have a type that steps one at a time")
        if not isinstance(num_envs, (int, np.integer)) or not 1 <= num_envs < 2**31:
            raise ValueError(f"num_envs is {num_envs!r}; it must be a whole number from 1 to {2**31 - 1}")
        count, mode = int(num_envs), _AUTORESETS[autoreset]
        seeds = (ctypes.c_uint64 * count)()  # until the first reset
        super().__init__(lambda at: check(lib.gpur_envs_create(found.type, found.options, ctypes.addressof(seeds),
                                                               count, mode, at)), lib.gpur_envs_destroy)
        info = env_info(found)
        self.name, self.has_seeds = found.name, False
        self.observation_space, self.action_space = _box(info.obs), _action_space(info.action)
        self._most, self._is_discrete = info.action.num_actions - 1, info.action.num_actions > 0
        self._kinds = "iu" if self._is_discrete else "iuf"  # of actions, as NumPy has them
        self._actions = np.zeros((*batch, *(self.action_space.shape or ())),
                                 np.int32 if self._is_discrete else NUMPY[info.action.dtype])
        self._actions_at = self._actions.ctypes.data
        self._obs = (count, *self.observation_space.shape), self.observation_space.dtype
        self.reward = np.zeros(count, np.float32)
        self.terminated, self.truncated, self.continues = (np.zeros(count, np.bool_) for _ in range(3))
        self.final_obs = np.empty(*self._obs) if autoreset == "same_step" else None
        self._result = _c_api.VectorResult()
        for member in ("final_obs", "reward", "terminated", "truncated", "continues"):
            array = getattr(self, member)
            setattr(self._result, member, None if array is None else array.ctypes.data)
        self._result_at = ctypes.addressof(self._result)

    def reset(self, seeds: Any, mask: np.ndarray | None, obs: np.ndarray | None) -> np.ndarray:
        """Returns the first observations, (num_envs, ...). seeds: None: random numbers go on. mask: None: all.
        obs: what the others show."""
        first = np.empty(*self._obs) if obs is None else obs.copy()
        given = None if seeds is None else np.array(seeds, np.uint64)
        chosen = None if mask is None else np.ascontiguousarray(mask)
        self._call(lib.gpur_envs_reset, None if given is None else given.ctypes.data,
                   None if chosen is None else chosen.ctypes.data, first.ctypes.data)
        self.has_seeds = True
        return first

    def step(self, actions: Any) -> np.ndarray:
        """Returns the next observations, a new array (num_envs, ...)."""
        given, taken = np.asarray(actions), self._actions
        if given.shape != taken.shape or given.dtype.kind not in self._kinds:
            numbers = "integers" if self._is_discrete else "numbers"
            raise ValueError(f"the action has shape {given.shape} and dtype {given.dtype}; it must be {numbers} of "
                             f"shape {taken.shape}")
        taken[...] = given
        if self._is_discrete and given.dtype != taken.dtype and np.count_nonzero(taken != given):
            wrong = given[taken != given].flat[0]  # beyond 32 bits
            raise ValueError(f"the action is {wrong}; it must be 0 to {self._most}")
        obs = np.empty(*self._obs)
        self._result.next_obs = ctypes.addressof(_memory_of(obs))
        self._call(lib.gpur_envs_step, self._actions_at, self._result_at)
        return obs


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _SEEDS:
        raise ValueError(f"seed is {seed!r}; it must be a whole number from 0 to {_SEEDS - 1}")
    return int(seed)


class _Picture:
    """What `render` draws: the last observations."""

    def __init__(self, name: str, space: gymnasium.spaces.Box, render_mode: str | None):
        self._paint = painter_of(name, space.shape, space.dtype)
        if render_mode is not None and (render_mode != _RGB or self._paint is None):
            wanted = f"{_RGB!r} or None" if self._paint is not None else \
                f"None: the observations of {name}, {space.dtype} of shape {space.shape}, are no picture"
            raise ValueError(f"render_mode is {render_mode!r}; it must be {wanted}")
        self.is_drawn = render_mode is not None
        self.obs: np.ndarray | None = None
        self.metadata = {"render_modes": [] if self._paint is None else [_RGB],
                         "render_fps": FPS.get(name, OTHER_FPS)}

    def note(self, obs: np.ndarray) -> None:
        """obs: (num_envs, ...), which the caller may change afterwards."""
        if self.is_drawn:
            self.obs = obs.copy()

    def draw(self) -> tuple[np.ndarray, ...] | None:
        if self._paint is None or not self.is_drawn:
            gymnasium.logger.warn(f"render draws nothing: the environment was made without render_mode={_RGB!r}")
            return None
        if self.obs is None:
            raise gymnasium.error.ResetNeeded("render shows what the environment showed last; call reset first")
        return tuple(map(self._paint, self.obs))


class GameEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment. `gpureplay.make_env` has the arguments.

    observation_space: a Box of the dtype and the bounds that the game tells. bool is shown as uint8.
    action_space: Discrete, or a Box.
    name: the game's, without a plug-in's file.
    """

    metadata: dict[str, Any] = {"render_modes": [_RGB], "render_fps": OTHER_FPS}
    observation_space: gymnasium.spaces.Box

    def __init__(self, name: str, *, env_options: EnvOptions = None, render_mode: str | None = None):
        self._games = _Games(name, env_options, 1, "disabled", ())
        self.observation_space, self.action_space = self._games.observation_space, self._games.action_space
        self.name, self.render_mode = self._games.name, render_mode
        self._picture = _Picture(self.name, self.observation_space, render_mode)
        self.metadata = self._picture.metadata
        self.spec = gymnasium.envs.registration.EnvSpec(
            id=_id_of(self.name), **_spec_arguments(name, env_options=env_options, render_mode=render_mode))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode. Returns its first observation, a new array, and {}.

        seed: of everything random from now on: equal seeds and actions give equal episodes, here, in a vector and in C.
            None: the random numbers go on; those of the first episode are then from the system.
        options: None or {}. Options are given when the environment is made, as env_options.
        """
        if options:
            raise ValueError(f"options is {options!r}; it must be None or empty: options of a game are given when it "
                             "is made, as env_options")
        given = None if seed is None else _checked_seed(seed)
        super().reset(seed=given)
        if given is None and not self._games.has_seeds:
            given = int(self.np_random.integers(2**63))
        obs = self._games.reset(None if given is None else [given], None, None)
        self._picture.note(obs)
        return obs[0, ...], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes a step. Returns (obs, reward, terminated, truncated, info); obs is a new array. An episode that has had
        its max_steps is truncated. info is {}, or {"continues": True} where a life was lost, and the game goes on with
        the next reset.

        ValueError: another shape, dtype or number than those of the action space, or no open episode; nothing has
        changed. InvalidArgument, which is one: the game refuses the action, or has failed.
        """
        games = self._games
        obs = games.step(action)
        self._picture.note(obs)
        info = {"continues": True} if games.continues[0] else {}
        return obs[0, ...], float(games.reward[0]), bool(games.terminated[0]), bool(games.truncated[0]), info

    def render(self) -> np.ndarray | None:
        """A picture of what the last step or reset has shown, (height, width, 3) uint8, with
        render_mode="rgb_array"."""
        self._games._open_handle()
        pictures = self._picture.draw()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Closes the environment. Closing twice does nothing."""
        self._games.close()


class GameVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, Any, np.ndarray]):
    """Environments that step together: a step is one call into the library, which lets other threads of Python run
    meanwhile. `gpureplay.make_vec` has the arguments.

    single_observation_space, single_action_space: as those of `GameEnv`.
    observation_space, action_space: the same with an axis of the environments in front.
    metadata["autoreset_mode"]: Gymnasium's AutoresetMode.
    """

    metadata: dict[str, Any] = {"render_modes": [_RGB], "render_fps": OTHER_FPS,
                                "autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space: gymnasium.spaces.Box
    closed = True  # until it is made: older versions of Gymnasium close what goes

    def __init__(self, name: str, num_envs: int = 1, *, env_options: EnvOptions = None, autoreset: Any = "next_step",
                 render_mode: str | None = None):
        self._mode = autoreset_name(autoreset)
        self._games = games = _Games(name, env_options, num_envs, self._mode, (num_envs,))
        self.num_envs, self.name, self.render_mode = int(num_envs), games.name, render_mode
        self.single_observation_space, self.single_action_space = games.observation_space, games.action_space
        batch_space = gymnasium.vector.utils.batch_space
        self.observation_space = batch_space(games.observation_space, self.num_envs)
        self.action_space = batch_space(games.action_space, self.num_envs)
        self._picture = _Picture(self.name, games.observation_space, render_mode)
        self.metadata = {**self._picture.metadata, "autoreset_mode": AutoresetMode[self._mode.upper()]}
        self._shown: np.ndarray | None = None  # what environments show that a mask leaves out
        self.closed = False

    def _seeds_of(self, seed: Any) -> list[int] | None:
        if seed is None:
            return None if self._games.has_seeds else self.np_random.integers(2**63, size=self.num_envs).tolist()
        if isinstance(seed, (int, np.integer)):
            return [(_checked_seed(seed) + i) % _SEEDS for i in range(self.num_envs)]
        seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed has {len(seeds)} numbers; it must have {self.num_envs}, one for each environment")
        return [int(self.np_random.integers(2**63)) if one is None else _checked_seed(one) for one in seeds]

    def _mask_of(self, options: dict[str, Any] | None) -> np.ndarray | None:
        if not options:
            return None
        if set(options) != {"reset_mask"} or self._mode != "disabled":
            raise ValueError(f"options is {options!r}; it must be None or empty, or with autoreset=\"disabled\" have "
                             "\"reset_mask\": options of a game are given when it is made, as env_options")
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValueError(f"reset_mask has shape {mask.shape} and dtype {mask.dtype}; it must be bool of shape "
                             f"({self.num_envs},)")
        return mask

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode in all environments. Returns the first observations, (num_envs, ...), a new array, and {}.

        seed: environment i gets seed + i, or a list has one for each; None in it stands for a random one. An
            environment does what a `GameEnv` with its seed does. None: all go on with their random numbers; those of
            the first episodes are then from the system.
        options: None, or with autoreset="disabled" {"reset_mask": mask}, (num_envs,) bool: the environments that begin
            an episode; the others show what they showed before.
        """
        mask, seeds = self._mask_of(options), self._seeds_of(seed)
        super().reset(seed=int(seed) if isinstance(seed, (int, np.integer)) else None)
        obs = self._games.reset(seeds, mask, None if mask is None else self._shown)
        self._note(obs)
        return obs, {}

    def _note(self, obs: np.ndarray) -> None:
        self._picture.note(obs)
        if self._mode == "disabled":
            self._shown = obs.copy()

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes a step in each environment. Returns (obs, reward, terminated, truncated, info), new arrays: obs
        (num_envs, ...), reward (num_envs,) float32, and (num_envs,) bool. Episodes that have had their max_steps are
        truncated.

        With autoreset="next_step" the step after an episode's end begins the next one: its action does not matter, and
        its reward is 0. With "same_step" obs is the new episode's first one already, and info has, where an episode
        ended, "final_obs", (num_envs,) of observations or None, "_final_obs", which says where, and an empty
        "final_info". With "disabled" `reset` comes next.
        info["continues"], (num_envs,) bool, is there where a life was lost, and the game goes on with the next episode.

        actions: (num_envs,) integers, or (num_envs, ...) numbers, as in the action space.
        ValueError: other shapes, dtypes or numbers, or an episode that has ended; nothing has changed. InvalidArgument,
        which is one, and names the environment: a game has failed; all must be reset.
        """
        games = self._games
        obs = games.step(actions)
        self._note(obs)
        terminated, truncated = games.terminated.copy(), games.truncated.copy()
        ended = terminated | truncated
        info = self._info_of(ended) if ended.any() else {}
        return obs, games.reward.copy(), terminated, truncated, info

    def _info_of(self, ended: np.ndarray) -> dict[str, Any]:
        info: dict[str, Any] = {}
        continues, final_obs = self._games.continues, self._games.final_obs
        if continues.any():
            info |= {"continues": continues.copy(), "_continues": ended.copy()}
        if final_obs is not None:
            found = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                found[i] = final_obs[i].copy()
            info |= {"final_obs": found, "_final_obs": ended, "final_info": {}, "_final_info": ended.copy()}
        return info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of each environment, (height, width, 3) uint8, with render_mode="rgb_array"."""
        self._games._open_handle()
        return self._picture.draw()

    def close_extras(self, **_: Any) -> None:
        self._games.close()


for _name in game_names():
    gymnasium.register(_id_of(_name), **_spec_arguments(_name))
