# SPDX-License-Identifier: MIT
"""A replay buffer in the place of FastTD3's: one import changes.

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
_PAIRS = "obs", "critic_obs"


def _at_least(least: int, name: str, value: Any) -> int:
    number = integer(name, value)
    if number < least:
        raise ValueError(f"{name} is {number}; it must be {least} or more")
    return number


def _is_recorded(device: torch.device) -> bool:
    """Whether the call is traced or captured, where no number can be read."""
    return bool(torch.compiler.is_compiling() or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()))


def _refuse_one_memory(name: str, array: Any, after: Any) -> None:
    if array is after or (not torch.compiler.is_compiling() and array.data_ptr() == after.data_ptr()):
        raise ValueError(f"next.{name} has the memory of {name}, so that one has overwritten the other; it must be a "
                         "tensor of its own, with what the step led to")


class SimpleReplayBuffer:
    """A ring of buffer_size steps of each of n_env environments, with the constructor, `extend` and `sample` of
    FastTD3's [Seo et al. 2025].

    n_env, buffer_size: 1 to 65,536, and 2 or more. `sample` draws at most 65,536 transitions: n_env x batch_size.
    n_obs, n_act, n_critic_obs: the lengths of observations, actions, and the critic's observations with asymmetric_obs.
    playground_mode: the critic's observations begin with the actor's, which are then stored once.
    n_steps, gamma: of the transitions that `sample` gives.
    device: a torch.device or its name. None: PyTorch's default one.
    buffer: the `LaneBuffer` that has the steps. Its `save` and `load` write and read files, and it tells what it has
        (`stats`).
    ptr: how often `extend` was called.

    Each observation is stored once: the next observation of a step is the observation of the next one. So where they
    differ, since the environment was reset in between, as FastTD3's script does after an evaluation, the step is left
    out, and counted in buffer.stats.without_final.

        buffer = SimpleReplayBuffer(n_env=64, buffer_size=1000, n_obs=48, n_act=12, n_critic_obs=48)
        buffer.extend(transition)                 # a TensorDict, as FastTD3's script makes it
        data = buffer.sample(32)
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
        # What the last step led to, in memory that a captured graph may write.
        self._led_to = {name: torch.zeros((n_env, *fields[name][0]), device=self.device) for name in _PAIRS
                        if name in fields}
        self._goes_on = torch.ones(n_env, dtype=torch.bool, device=self.device)

    def extend(self, tensor_dict: Mapping[str, Any]) -> None:
        """Adds a step of all environments: "observations" and "actions" (n_env, n), with asymmetric_obs
        "critic_observations"; and in "next": "observations" (and "critic_observations"), which are the last ones of the
        episode where it has ended, "rewards", "dones" and "truncations" (n_env,). done and not truncated is the end of
        the task.

        The observations must be the next ones of the step before, number by number, but where its episode has ended,
        or the environment was reset since. ValueError: in the second call none of them is, as when observations are
        normalized anew in each step, which cannot be stored once. For this check that call waits; one that is compiled
        or captured into a graph makes none."""
        following = self._following(tensor_dict)
        truncated = self._given(following, "next.truncations").bool()
        done = self._given(following, "next.dones").bool()
        step = {"obs": self._given(tensor_dict, "observations", self.n_obs),
                "action": self._given(tensor_dict, "actions", self.n_act),
                "reward": self._given(following, "next.rewards"), "terminated": done & ~truncated,
                "truncated": truncated, "final_obs": self._given(following, "next.observations", self.n_obs)}
        _refuse_one_memory("observations", step["obs"], step["final_obs"])
        if self.asymmetric_obs:
            step["critic_obs"] = self._of_critic(tensor_dict, "critic_observations")
            step["final_critic_obs"] = self._of_critic(following, "next.critic_observations")
            _refuse_one_memory("critic_observations", step["critic_obs"], step["final_critic_obs"])
        step = {name: self._as_stored(name, array) for name, array in step.items()}
        differs = self._differs(step)
        if self.ptr == 1 and not _is_recorded(self.device):
            self._refuse_others(differs)
        self.buffer.reset(differs)
        self.buffer.add(**step)
        for name, after in self._led_to.items():
            after.copy_(step[f"final_{name}"])
        self._goes_on.copy_(~(done | truncated))
        self.ptr += 1

    def _following(self, tensor_dict: Mapping[str, Any]) -> Any:
        """What "next" has."""
        following: Any = tensor_dict["next"] if "next" in tensor_dict.keys() else None  # noqa: SIM118: as below
        if not hasattr(following, "keys"):
            what = "is missing" if following is None else f"is a {type(following).__name__}"
            raise (KeyError if following is None else TypeError)(
                f"next {what}; it must be a dict of what came after the step: observations, rewards, dones, "
                "truncations")
        given: tuple[tuple[Any, str], ...] = ((tensor_dict, "critic_observations"),
                                              (following, "next.critic_observations"))
        for values, name in given:
            if not self.asymmetric_obs and "critic_observations" in values.keys():  # noqa: SIM118: as below
                raise ValueError(f"{name} is given and asymmetric_obs is False; make the buffer with "
                                 "asymmetric_obs=True, or leave it out")
        return following

    def _differs(self, step: Fields) -> Any:
        """(n_env,) bool: observations that are not what the last step led to. Bits are compared, as NaN is another
        number than itself."""
        return torch.stack([(step[name].view(torch.int32) != after.view(torch.int32)).any(1)
                            for name, after in self._led_to.items()]).any(0)

    def _refuse_others(self, differs: Any) -> None:
        """Refuses observations none of which is the next one of the first step."""
        if bool(self._goes_on.any() & (differs | ~self._goes_on).all()):
            raise ValueError("observations of the second step are not next.observations of the first one in any of the "
                             f"{self.n_env} environments; they must be the same numbers in each whose episode goes on, "
                             "since each is stored once. Where they are normalized anew in each step, give them as the "
                             "environment does, and normalize what `sample` returns")

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
        """batch_size transitions of each environment, those of environment 0 first: (n_env * batch_size, n) arrays, of
        at most 65,536 rows, in a dict of the form that `extend` takes. next.effective_n_steps is how many steps each
        has, at most n_steps: their rewards are summed with gamma, and next.observations is what came after the last
        one. The newest step of an episode that goes on is not drawn before the next one. An environment of which there
        is nothing to draw gives zeros, with 0 effective_n_steps."""
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
