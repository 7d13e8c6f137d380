# SPDX-License-Identifier: MIT
"""The environments of a run, from what a caller gives: a game of the library, a plug-in, or environments in Python."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import importlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _c_api
from ._flatten import Translation
from ._handle import signals_after
from ._library import InvalidArgument, check, in_c, lib, names_from
from ._python_envs import Envs, PythonEnvs, PythonVector
from ._schema import shape_of

EnvOptions = Optional[Union[str, Mapping[str, Any]]]
_WANTED = ("the name of a game (\"CartPole-v1\", \"MinAtar/Breakout\"), a plug-in's file, an id of Gymnasium, "
           "\"dm_control/DOMAIN-TASK\", a function that makes the environment of a lane, make_env(lane), or where it "
           "is (\"module:make_env\"), a list of environments, or a vector environment")


class NativeEnvs(Envs):
    """A game of the library, or a plug-in. If that has a type of each kind, the one that steps one at a time."""

    eval_count = 0

    def __init__(self, name: str, options: EnvOptions):
        found, text = ctypes.c_void_p(), in_c("env", name)
        status = lib.gpur_env_find(text, ctypes.addressof(found))
        if status == 0:
            self.type = found.value or 0
        else:
            other = lib.gpur_vector_env_find(text, ctypes.addressof(found))
            if other != 0 and status != _c_api.UNAVAILABLE:
                # The file may have types that step one at a time: the error is about these.
                check(lib.gpur_env_find(text, ctypes.addressof(found)))
            check(other)
            self.vector_type = found.value
        self.name = env_type(self).name.decode()
        self.options = in_c("env_options", options_text(options))

    @functools.cached_property
    def translation(self) -> Translation:  # type: ignore[override]
        action = env_info(self).action
        return Translation() if action.num_actions > 0 else Translation(bounds=bounds_of(action))


def bounds_of(space: _c_api.Space) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    """(shape, low, high) of a space that is not discrete, with the bounds of each number."""
    shape = shape_of(space)
    count = math.prod(shape)
    low, high = ((one,) * count if many is None else tuple((ctypes.c_float * count).from_address(many))
                 for one, many in ((space.low, space.lows), (space.high, space.highs)))
    return shape, low, high


def env_type(envs: Envs) -> _c_api.EnvType | _c_api.VectorEnvType:
    """The library's struct of functions from which the spaces are known."""
    if envs.type is None:
        return _c_api.VectorEnvType.from_address(envs.vector_type or 0)
    return _c_api.EnvType.from_address(envs.type)


def env_info(envs: Envs) -> _c_api.EnvInfo:
    """What the environments show and take. Before they are opened."""
    info = _c_api.EnvInfo()
    get_info, found = ((lib.gpur_vector_env_get_info, envs.vector_type) if envs.type is None else
                       (lib.gpur_env_get_info, envs.type))
    with signals_after():
        check(get_info(found, envs.options, ctypes.addressof(info)))
    return info


def open_envs(env: Any, *, num_envs: int | None = None, eval_env: Any = None, options: EnvOptions = None
              ) -> Envs:
    """From what `Run` and `train` take as `env`."""
    env = name_of_path(env)
    if isinstance(env, Sequence) and not isinstance(env, str):
        return _of_list(list(env), num_envs, eval_env)
    if hasattr(env, "single_observation_space"):
        return _of_vector(env, num_envs, eval_env)
    if eval_env is not None:
        raise TypeError(f"eval_env is {eval_env!r} and env is {env!r}; only a list of environments and a vector "
                        "environment need an eval_env")
    if isinstance(env, str):
        return (NativeEnvs(env, options) if is_native(env) else
                PythonEnvs(maker_of_name(env, options_dict(options)), True))
    if options is not None:
        raise TypeError(f"env_options is {options!r} and env is {env!r}; options go with a name")
    if callable(env) and not hasattr(env, "reset"):
        _check_lane(env)
        return PythonEnvs(env, True)
    of_class = f"; lambda lane: {env.__name__}() makes those of a class" if isinstance(env, type) else ""
    raise TypeError(f"env is {env!r}; it must be {_WANTED}{of_class}")


def _check_lane(make_env: Callable[..., Any]) -> None:
    """TypeError: it cannot be called with the number of a lane."""
    with contextlib.suppress(ValueError):  # it does not tell its arguments
        arguments = inspect.signature(make_env)
        try:
            arguments.bind(0)
        except TypeError as error:
            raise TypeError(f"env is {make_env!r}, a function with the arguments {arguments}; it must be "
                            "make_env(lane), which is called with the number of a lane") from error


def name_of_path(env: Any) -> Any:
    """The name that a path of a plug-in's file is. Other environments are returned."""
    return os.path.abspath(env) if isinstance(env, os.PathLike) else env


def game_names() -> list[str]:
    """The library's games."""
    return list(names_from(lib.gpur_env_name))


def is_native(name: str) -> bool:
    """Whether the library finds this environment: a game, or a plug-in's file."""
    file, _ = _split(name)
    return name in game_names() or (file.endswith(".so") and len(file) > 3) or ("/" in file and os.path.exists(file))


def _split(name: str) -> tuple[str, str]:
    """The file of a plug-in and what follows it: a colon and one of its names, or nothing. The colon is where
    gpur_env_find takes it to be: the first one after ".so"."""
    colon = name.find(":", max(0, name.find(".so")))
    return (name, "") if colon < 0 else (name[:colon], name[colon:])


def absolute(name: str) -> str:
    """A name with the absolute path of a plug-in's file, so that the run can be resumed from any folder. A file without
    a slash is searched for where dlopen searches, and stays as it is."""
    file, rest = _split(name)
    is_file = "/" in file and name not in game_names() and os.path.exists(file)
    return os.path.realpath(file) + rest if is_file else name


def name_of(name: str) -> str:
    """The name of an environment of the library or of a plug-in, without the file. Ids of Gymnasium are their names."""
    return NativeEnvs(name, None).name if is_native(name) else name


def maker_of_name(name: str, options: Mapping[str, Any]) -> Callable[[int], Any]:
    """Of "dm_control/DOMAIN-TASK", of "module:function", or of an id of Gymnasium, which may be "module:Id-v0"."""
    if name.startswith("dm_control/"):
        from ._dm_control import ControlEnv  # which imports dm_control
        return lambda _lane: ControlEnv(name, options)
    module, _, function = name.partition(":")
    nothing = f"env is {name!r}, which is no game of the library ({', '.join(game_names())}) and no plug-in's file"
    if function.isidentifier():
        try:
            make = getattr(importlib.import_module(module), function, None)
        except ModuleNotFoundError as error:
            if error.name is None or f"{module}.".startswith(f"{error.name}."):
                raise ModuleNotFoundError(f"env is {name!r}, and no module is called {module!r}; it must be a file of "
                                          "the current folder, or a package that is installed", name=module) from None
            raise
        if isinstance(make, type):
            raise TypeError(f"env is {name!r}, which is a class; it must be a function, as def make_env(lane): return "
                            f"{function}()")
        if callable(make):
            return functools.partial(make, **options)
        nothing += f", and {module} has no function {function!r}"
    return _maker_of_id(name, options, nothing)


def _maker_of_id(name: str, options: Mapping[str, Any], nothing: str) -> Callable[[int], Any]:
    try:
        gymnasium = importlib.import_module("gymnasium")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{nothing}, and Gymnasium is not installed; `pip install gymnasium`",
                                  name=error.name) from None

    if name.startswith("ALE/"):
        with contextlib.suppress(ModuleNotFoundError):
            gymnasium.register_envs(importlib.import_module("ale_py"))

    def make(_lane: int) -> Any:
        try:
            return gymnasium.make(name, **options)
        except gymnasium.error.UnregisteredEnv as error:
            raise ValueError(f"{nothing}; Gymnasium says: {error}") from None
        except gymnasium.error.DependencyNotInstalled as error:
            raise ModuleNotFoundError(f"env is {name!r}; Gymnasium says: {error}") from None
        except gymnasium.error.Error as error:
            raise ValueError(f"env is {name!r}; Gymnasium says: {error}") from None

    return make


def _check_eval_env(env: Any) -> None:
    if env is not None and (isinstance(env, type) or not hasattr(env, "observation_space") or hasattr(env, "num_envs")):
        raise TypeError(f"eval_env is {env!r}; it must be an Env of Gymnasium like those that train, or None")


def _of_list(envs: list[Any], num_envs: int | None, eval_env: Any) -> Envs:
    if not envs or num_envs not in (None, len(envs)):
        raise ValueError(f"env has {len(envs)} environments and num_envs is {num_envs}; they must be as many, and 1 or "
                         "more")
    _check_eval_env(eval_env)
    all_envs = [*envs, *([] if eval_env is None else [eval_env])]
    if len(set(map(id, all_envs))) < len(all_envs):
        raise ValueError("env and eval_env have an environment twice; each lane, and the evaluation, needs its own")
    found = PythonEnvs(lambda lane: all_envs[lane], False)
    found.count, found.can_evaluate = len(envs), eval_env is not None
    return found


def _of_vector(envs: Any, num_envs: int | None, eval_env: Any) -> Envs:
    if num_envs not in (None, envs.num_envs):
        raise ValueError(f"env has {envs.num_envs} environments and num_envs is {num_envs}; they must be as many")
    _check_eval_env(eval_env)
    evaluation = None if eval_env is None else PythonEnvs(lambda _lane: eval_env, False)
    return PythonVector(envs, evaluation)


# Options of an environment.


def options_text(options: EnvOptions, env: Any = None) -> str:
    """As the library takes them, and files have them: "name=value,name=value". Gymnasium's `env` has True where the
    library has 1."""
    if isinstance(options, Mapping):
        has_words = isinstance(env, str) and not is_native(env)
        return ",".join(f"{name}={int(value) if isinstance(value, bool) and not has_words else value}"
                        for name, value in options.items())
    return options or ""


def check_text(options: EnvOptions, env: Any) -> None:
    """InvalidArgument: a file's text of the options would give Gymnasium's `env` other ones when the run is resumed."""
    if not isinstance(options, Mapping) or not isinstance(env, str) or is_native(env):
        return
    for name, value in options.items():
        found = options_dict(options_text({name: value}, env))
        if [*found] != [name] or type(found[name]) is not type(value) or found[name] != value:
            raise InvalidArgument(f"env_options[{name!r}] is {value!r}, which the text in the run's files does not "
                                  "give back; it must be a number, True, False, None, or a text without commas that is "
                                  "none of these: leave out= out, or give env as a function make_env(lane)")


def options_dict(options: EnvOptions) -> dict[str, Any]:
    """As Gymnasium takes them: keyword arguments of `make`. A value in a text is a literal of Python, or else a
    text."""
    if isinstance(options, Mapping):
        return dict(options)
    parts = (part.partition("=") for part in (options or "").split(",") if part)
    return {name: _literal(value) for name, _, value in parts}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
