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

from ._lanes import LaneBuffer

Fields = dict[str, Any]


class SimpleReplayBuffer:
    """A ring of buffer_size steps of each of n_env environments, with the constructor, `extend` and `sample` of
    FastTD3's [Seo et al. 2025].

    n_obs, n_act, n_critic_obs: the lengths of observations, actions, and the critic's observations with asymmetric_obs.
    playground_mode: the critic's observations begin with the actor's, which are then stored once.
    n_steps, gamma: of the transitions that `sample` gives.
    device: a torch.device or its name. None: the CPU.
    buffer: the `LaneBuffer` that has the steps.
    """

    def __init__(self, n_env: int, buffer_size: int, n_obs: int, n_act: int, n_critic_obs: int,
                 asymmetric_obs: bool = False, playground_mode: bool = False, n_steps: int = 1, gamma: float = 0.99,
                 device: Any = None):
        self.n_env, self.buffer_size, self.n_obs, self.n_act = n_env, buffer_size, n_obs, n_act
        self.n_critic_obs, self.asymmetric_obs = n_critic_obs, asymmetric_obs
        self.playground_mode = playground_mode and asymmetric_obs
        self.n_steps, self.gamma, self.device, self.ptr = n_steps, gamma, torch.device(device or "cpu"), 0
        fields: Fields = {"obs": ((n_obs,), "float32"), "action": ((n_act,), "float32")}
        if asymmetric_obs:
            fields["critic_obs"] = ((n_critic_obs - (n_obs if self.playground_mode else 0),), "float32")
            fields["next_critic_obs"] = fields["critic_obs"]
        self.buffer = LaneBuffer(n_env, buffer_size, fields, n_step=n_steps, gamma=gamma, device=self.device)

    def extend(self, tensor_dict: Mapping[str, Any]) -> None:
        """Adds a step of all environments: "observations" and "actions" (n_env, n), with asymmetric_obs
        "critic_observations"; and in "next": "observations" (and "critic_observations"), which are the last ones of the
        episode where it has ended, "rewards", "dones" and "truncations" (n_env,). done and not truncated is the end of
        the task."""
        following = tensor_dict["next"]
        truncated = following["truncations"].bool()
        step = {"obs": tensor_dict["observations"], "action": tensor_dict["actions"], "reward": following["rewards"],
                "terminated": following["dones"].bool() & ~truncated, "truncated": truncated,
                "final_obs": following["observations"]}
        if self.asymmetric_obs:
            step["critic_obs"] = self._of_critic(tensor_dict)
            step["final_critic_obs"] = self._of_critic(following)
        self.buffer.add(**{name: self._as_stored(name, array) for name, array in step.items()})
        self.ptr += 1

    def _of_critic(self, given: Mapping[str, Any]) -> Any:
        return given["critic_observations"][:, self.n_obs if self.playground_mode else 0:]

    def _as_stored(self, name: str, array: Any) -> Any:
        return array.contiguous() if name in ("terminated", "truncated") else array.detach().float().contiguous()

    def sample(self, batch_size: int) -> Fields:
        """batch_size transitions of each environment, those of environment 0 first: (n_env * batch_size, n) arrays in a
        dict of the form that `extend` takes. next.effective_n_steps is how many steps each has, at most n_steps: their
        rewards are summed with gamma, and next.observations is what came after the last one."""
        batch = self.buffer.sample(self.n_env * batch_size, per_lane=True)
        following: Fields = {
            "rewards": batch["reward"], "dones": (batch["terminated"] | batch["truncated"]).long(),
            "truncations": batch["truncated"].long(), "observations": batch["next_obs"],
            "effective_n_steps": batch["steps"].long(),
        }
        out: Fields = {"observations": batch["obs"], "actions": batch["action"], "next": following}
        if self.asymmetric_obs:
            out["critic_observations"] = self._for_critic(batch["obs"], batch["critic_obs"])
            following["critic_observations"] = self._for_critic(batch["next_obs"], batch["next_critic_obs"])
        return out

    def _for_critic(self, obs: Any, critic_obs: Any) -> Any:
        return torch.cat([obs, critic_obs], dim=1) if self.playground_mode else critic_obs
