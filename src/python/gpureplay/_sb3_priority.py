# SPDX-License-Identifier: MIT
"""The buffer of gpureplay.sb3 that draws by priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _sb3_buffer
from ._batch import Batch
from ._priorities import PriorityStats
from ._sb3_types import PrioritizedReplayBufferSamples, register, torch


class PrioritizedReplayBuffer(_sb3_buffer.ReplayBuffer):
    """Like ReplayBuffer, but transitions are drawn in proportion to priority ** alpha [Schaul et al. 2016], and a
    minibatch has two tensors more: `weights`, (B, 1) float32, by which each transition's loss is to be multiplied, and
    `indices`, (B,) int64, for `update_priorities`. New transitions have the largest priority given so far.

    The agents of Stable-Baselines3 neither weigh losses nor give priorities back: with theirs as they are, draws stay
    uniform. Use it in a training loop of your own, as CleanRL's, or in an agent with another `train`:

        data = rb.sample(128)
        ...
        error = target - value                                          # (B, 1), of data's tensors
        loss = (data.weights * torch.nn.functional.smooth_l1_loss(value, target, reduction="none")).mean()
        rb.update_priorities(data.indices, error.abs())

    alpha: 0 is uniform. beta: exponent of the weights: a number, or (first, last, steps) of batches drawn.
    weight_norm: what weights are divided by: "batch": the batch's largest; "memory": the largest that any transition
        would have; "none". priority_offset: added to every priority; None: 1e-6.
    more: ReplayBuffer's; optimize_memory_usage and n_steps, too.
    """

    def __init__(self, *given: Any, alpha: float = 0.6, beta: float | Sequence[float] = 0.4,
                 weight_norm: str = "batch", priority_offset: float | None = None, **more: Any):
        self._more = {"prioritized": True, "alpha": alpha, "beta": beta, "weight_norm": weight_norm,
                      "priority_offset": priority_offset}
        super().__init__(*given, **more)

    def sample(self, batch_size: int, env: Any = None) -> PrioritizedReplayBufferSamples:
        """A minibatch of at most max_batch transitions: weights of several draws could not be compared. The rest as
        ReplayBuffer's.

        ValueError: more than max_batch."""
        if batch_size > self._max_batch:
            raise ValueError(f"batch_size is {batch_size}; it must be at most {self._max_batch}: make the buffer with "
                             "max_batch=..., or with a larger buffer_size")
        batch: PrioritizedReplayBufferSamples = super().sample(batch_size, env)
        return batch

    def update_priorities(self, indices: torch.Tensor, priorities: torch.Tensor) -> None:
        """New priorities for transitions, of (B,) or (B, 1): how large their errors are, say. Tensors on the buffer's
        device or the host, or arrays. Those of transitions that were overwritten meanwhile are passed over."""
        found, given = (torch.as_tensor(values, device=self._device).detach().reshape(-1)
                        for values in (indices, priorities))
        given = given.to(torch.float32)
        if self._device.type == "cpu":
            self._replay.update_priorities(found.numpy(), given.numpy())
        else:
            self._replay.update_priorities(found, given, stream=self._stream())

    @property
    def alpha(self) -> float:
        """How much priorities matter. Assigning changes it for all draws to come."""
        return self._replay.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self._replay.alpha = alpha

    @property
    def beta(self) -> float:
        """Exponent of the weights of the next draw. Assigning ends its schedule."""
        return self._replay.beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._replay.beta = beta

    @property
    def priority_stats(self) -> PriorityStats:
        """Of all priorities at this moment: among them, how many updates came, and how many were of transitions that
        are gone (`stale`) or no priority (`invalid`)."""
        return self._replay.priority_stats

    def _samples(self, batch: Batch, env: Any) -> Any:
        more = self._column(batch["weight"]), self._tensor(batch["id"])
        return PrioritizedReplayBufferSamples._make((*super()._samples(batch, env), *more))


register(PrioritizedReplayBuffer)
