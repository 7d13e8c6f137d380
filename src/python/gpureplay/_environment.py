# SPDX-License-Identifier: MIT
"""What a buffer wants to know of a Gymnasium environment, or of a vector of them."""

from __future__ import annotations

from typing import Any, NamedTuple

# Wrappers that reset a single environment: Gymnasium 1.x's, and the one before.
_WRAPPERS = {"Autoreset": "next_step", "AutoResetWrapper": "same_step"}


class Environment(NamedTuple):
    """Spaces of one environment, how many there are, and how they reset themselves: a name, or Gymnasium's enum."""

    observation_space: Any
    action_space: Any
    num_envs: int
    autoreset: Any


def _mode_of_vector(env: Any) -> Any:
    """The vector's own word, for Gymnasium before 1.2 may share the metadata among vectors. None: it has none."""
    own = getattr(getattr(env, "unwrapped", env), "autoreset_mode", None)
    return own if own is not None else (getattr(env, "metadata", None) or {}).get("autoreset_mode")


def _mode_of_single(env: Any) -> str:
    while env is not None:
        if type(env).__name__ in _WRAPPERS:
            return _WRAPPERS[type(env).__name__]
        env = getattr(env, "env", None)
    return "disabled"


def environment_of(env: Any, autoreset: Any = None) -> Environment:
    """From a Gymnasium Env or VectorEnv; `autoreset`, where it is not None, overrides what the environment says."""
    if hasattr(env, "single_observation_space"):
        mode = _mode_of_vector(env) if autoreset is None else autoreset
        if mode is None:
            raise ValueError(f"metadata of {env} has no \"autoreset_mode\", by which it would tell how it resets its "
                             "environments; pass autoreset=\"next_step\", \"same_step\" or \"disabled\"")
        return Environment(env.single_observation_space, env.single_action_space, env.num_envs, mode)
    if not hasattr(env, "observation_space") or not hasattr(env, "action_space") or hasattr(env, "num_envs"):
        raise TypeError(f"env is {env!r}; it must be an Env or a VectorEnv of Gymnasium")
    return Environment(env.observation_space, env.action_space, 1, _mode_of_single(env) if autoreset is None
                       else autoreset)
