# SPDX-License-Identifier: MIT
"""What gpureplay.sb3 needs of PyTorch, and of Stable-Baselines3 where that is installed."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["DictReplayBufferSamples", "PrioritizedReplayBufferSamples", "ReplayBufferSamples", "joined", "register",
           "torch", "torch_device"]

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gpureplay.sb3 makes PyTorch's tensors, and PyTorch is not installed; `pip install "
                              "torch`, or use gpureplay.ReplayBuffer, which needs NumPy alone") from error

try:
    from stable_baselines3.common import buffers as _theirs
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
except ModuleNotFoundError:
    _theirs = None

    class ReplayBufferSamples(NamedTuple):  # type: ignore[no-redef]
        """A minibatch of B transitions, of tensors; observations are a dict of them under a Dict space."""

        observations: Any  # (B, ...)
        actions: torch.Tensor  # (B, numbers in an action)
        next_observations: Any  # (B, ...)
        dones: torch.Tensor  # (B, 1) float32
        rewards: torch.Tensor  # (B, 1) float32
        discounts: torch.Tensor | None = None

    DictReplayBufferSamples = ReplayBufferSamples


class PrioritizedReplayBufferSamples(NamedTuple):
    """A minibatch of B transitions that were drawn by priority: what ReplayBufferSamples has, and two more."""

    observations: Any  # (B, ...), or a dict of such
    actions: torch.Tensor  # (B, numbers in an action)
    next_observations: Any  # (B, ...), or a dict of such
    dones: torch.Tensor  # (B, 1) float32
    rewards: torch.Tensor  # (B, 1) float32
    discounts: torch.Tensor | None  # (B, 1) float32, with n_steps above 1
    weights: torch.Tensor  # (B, 1) float32
    indices: torch.Tensor  # (B,) int64


def torch_device(device: Any) -> torch.device:
    """With its index. "auto": the GPU where PyTorch has one."""
    if isinstance(device, str) and device == "auto":
        device = "cuda"
        if not torch.cuda.is_available():
            device = "cpu"
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {str(device)!r}; it must be \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def joined(batches: list[Any]) -> Any:
    """One minibatch of all their transitions, in their order: copies."""
    if isinstance(batches[0], dict):
        return {key: joined([batch[key] for batch in batches]) for key in batches[0]}
    if isinstance(batches[0], tuple):
        return type(batches[0])(*(joined(list(parts)) for parts in zip(*batches)))
    return None if batches[0] is None else torch.cat(batches)


def register(kind: type) -> None:
    """Makes a class count as one of Stable-Baselines3's buffers: `load_replay_buffer` asks."""
    if _theirs is not None:
        _theirs.ReplayBuffer.register(kind)
