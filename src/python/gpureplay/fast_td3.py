# SPDX-License-Identifier: MIT
"""A replay buffer in the place of FastTD3's and FastSAC's: one import changes.

    from gpureplay.fast_td3 import SimpleReplayBuffer

It needs PyTorch. Each observation is stored once, where theirs is stored twice; transitions of several steps never have
rewards of another episode, or of steps that were overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ._inputs import integer
from ._lanes import LaneBuffer

Fields = dict[str, Any]


def _at_least(least: int, name: str, value: Any) -> int:
    number = integer(name, value)
    if number < least:
        raise ValueError(f"{name} is {number}; it must be {least} or more")
    return number


class SimpleReplayBuffer:
    """A ring of buffer_size steps of each of n_env environments, with the constructor, `extend` and `sample` of
    FastTD3's [Seo et al. 2025].

    n_obs, n_act, n_critic_obs: the lengths of observations, actions, and the critic's observations with asymmetric_obs.
    playground_mode: the critic's observations begin with the actor's, which are then stored once.
    n_steps, gamma: of the transitions that `sample` gives.
    device: a torch.device or its name. None: PyTorch's default one.
    buffer: the `LaneBuffer` that has the steps. Its `save` and `load` write and read files, and it tells what it has
        (`stats`).
    ptr: how often `extend` was called.
    """

    def __init__(self, n_env: int, buffer_size: int, n_obs: int, n_act: int, n_critic_obs: int,
                 asymmetric_obs: bool = False, playground_mode: bool = False, n_steps: int = 1, gamma: float = 0.99,
                 device: Any = None):
        self.n_env, self.buffer_size = integer("n_env", n_env, 1, 65536), _at_least(2, "buffer_size", buffer_size)
        self.n_obs, self.n_act = _at_least(1, "n_obs", n_obs), _at_least(1, "n_act", n_act)
        self.n_critic_obs, self.asymmetric_obs = n_critic_obs, asymmetric_obs
        self.playground_mode = playground_mode and asymmetric_obs
        self.n_steps, self.gamma, self.ptr = integer("n_steps", n_steps, 1, 64), gamma, 0
        self.device = torch.empty(0, device=device).device
        fields: Fields = {"obs": ((n_obs,), "float32"), "action": ((n_act,), "float32")}
        if asymmetric_obs:
            first = n_obs if self.playground_mode else 0  # the critic's numbers from here on are stored
            _at_least(first + 1, "n_critic_obs", n_critic_obs)
            fields["critic_obs"] = ((n_critic_obs - first,), "float32")
            fields["next_critic_obs"] = fields["critic_obs"]
        self.buffer = LaneBuffer(n_env, buffer_size, fields, n_step=n_steps, gamma=gamma, device=self.device)

    def extend(self, tensor_dict: Mapping[str, Any]) -> None:
        """Adds a step of all environments: "observations" and "actions" (n_env, n), with asymmetric_obs
        "critic_observations"; and in "next": "observations" (and "critic_observations"), which are the last ones of the
        episode where it has ended, "rewards", "dones" and "truncations" (n_env,). done and not truncated is the end of
        the task."""
        obs, following = self._given(tensor_dict, "observations", self.n_obs), tensor_dict["next"]
        truncated = self._given(following, "next.truncations").bool()
        step = {"obs": obs, "action": self._given(tensor_dict, "actions", self.n_act),
                "reward": self._given(following, "next.rewards"),
                "terminated": self._given(following, "next.dones").bool() & ~truncated, "truncated": truncated,
                "final_obs": self._given(following, "next.observations", self.n_obs)}
        if step["final_obs"] is obs:
            raise ValueError("next.observations is the tensor of observations; it must be one of its own, with what "
                             "the step led to")
        if self.asymmetric_obs:
            step["critic_obs"] = self._of_critic(tensor_dict, "critic_observations")
            step["final_critic_obs"] = self._of_critic(following, "next.critic_observations")
        self.buffer.add(**{name: self._as_stored(name, array) for name, array in step.items()})
        self.ptr += 1

    def _given(self, values: Mapping[str, Any], name: str, *shape: int) -> Any:
        """values[name], a tensor (n_env, *shape). ValueError, TypeError, KeyError: it is none."""
        wanted, key = (self.n_env, *shape), name.rpartition(".")[2]
        if key not in values.keys():  # noqa: SIM118: a TensorDict has no other way to tell
            raise KeyError(f"{name} is missing; it must be a tensor {wanted}")
        tensor = values[key]
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; it must be a tensor {wanted}")
        if tuple(tensor.shape) != wanted:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be {wanted}")
        if tensor.device != self.device:
            raise ValueError(f"{name} is on {tensor.device}; it must be on {self.device}: "
                             f"{name}.to({str(self.device)!r})")
        return tensor

    def _of_critic(self, values: Mapping[str, Any], name: str) -> Any:
        return self._given(values, name, self.n_critic_obs)[:, self.n_obs if self.playground_mode else 0:]

    def _as_stored(self, name: str, array: Any) -> Any:
        return array.contiguous() if name in ("terminated", "truncated") else array.detach().float().contiguous()

    def sample(self, batch_size: int) -> Fields:
        """batch_size transitions of each environment, those of environment 0 first: (n_env * batch_size, n) arrays in a
        dict of the form that `extend` takes. next.effective_n_steps is how many steps each has, at most n_steps: their
        rewards are summed with gamma, and next.observations is what came after the last one. The newest step of an
        episode that goes on is not drawn before the next one. An environment of which there is nothing to draw gives
        zeros, with 0 effective_n_steps."""
        most = self.buffer.max_batch // self.n_env
        count = self.n_env * integer("batch_size", batch_size, 1, most)
        if self.ptr == 0 and len(self.buffer) == 0:
            raise ValueError("`sample` is called and nothing was added; `extend` must be called before")
        batch = self.buffer.sample(count, per_lane=True)
        following: Fields = {
            "rewards": batch["reward"], "dones": (batch["terminated"] | batch["truncated"]).long(),
            "truncations": batch["truncated"].long(), "observations": batch["next_obs"],
            "effective_n_steps": batch["steps"].long() if self.n_steps == 1 else batch["steps"].float(),  # as theirs
        }
        out: Fields = {"observations": batch["obs"], "actions": batch["action"], "next": following}
        if self.asymmetric_obs:
            out["critic_observations"] = self._for_critic(batch["obs"], batch["critic_obs"])
            following["critic_observations"] = self._for_critic(batch["next_obs"], batch["next_critic_obs"])
        return out

    def _for_critic(self, obs: Any, critic_obs: Any) -> Any:
        return torch.cat([obs, critic_obs], dim=1) if self.playground_mode else critic_obs
