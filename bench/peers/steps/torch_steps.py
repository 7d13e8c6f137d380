# SPDX-License-Identifier: MIT
"""PyTorch: eager; compiled as its documentation advises for small kernels; and with a CUDA graph made by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from base import OFFSET, Steps
from networks import BLOCK, GAMMA, Case, channels_first, rows_of, weights_of
from torch_network import Weights, errors, mean_huber
from torch_optimizers import optimizer_of
from torch_ranks import Ranks

Update = Callable[[], torch.Tensor]  # makes a step, and returns its loss


def _rows(case: Case, device: str) -> Weights:
    rows = {name: torch.from_numpy(array) for name, array in rows_of(case.world, case.rows).items()}
    rows["action"] = rows["action"].long()[:, None]
    rows["discount"] = GAMMA * (1 - rows.pop("terminated").float())
    return {name: array.to(device) for name, array in rows.items()}


def _weights(case: Case, device: str, with_gradient: bool) -> Weights:
    """Images and their filters with the channels last, which the tensor cores want."""
    last = case.math != "fp32"
    made = {}
    for name, value in channels_first(case.world, weights_of(case.world)).items():
        form = torch.channels_last if last and value.ndim == 4 else torch.contiguous_format
        made[name] = torch.from_numpy(value).to(device, memory_format=form).clone().requires_grad_(with_gradient)
    return made


class Eager(Steps):
    name = "torch"
    as_used = ("eager: randint, index_select, autograd, fused Adam, or RMSProp by multi-tensor functions; filters with "
               "channels last but in FP32")
    bf16 = ("what a dense layer or its gradients' products make is rounded to bfloat16, too, and biases are; "
            "convolutions round as ours")
    is_compiled = False

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        if self.on_cuda:
            torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.math == "tf32"
        torch.backends.cudnn.benchmark = True
        self._rows = _rows(case, device)
        self._online = _weights(case, device, not self.is_compiled)
        self._target = _weights(case, device, False)
        self._leaves = list(self._online.values())
        self._dtype = torch.bfloat16 if case.math == "bf16" else torch.float32
        self._optimizer = optimizer_of(case.recipe, self._leaves, self.on_cuda, self.is_compiled)
        self._ranks = Ranks(case.rows, device) if case.draws == "prioritized" else None
        self._ids = torch.zeros(case.batch, dtype=torch.int64, device=device)  # that `train_on` is given
        self.prepare()

    def prepare(self) -> None:
        """Before the first step."""

    @staticmethod
    def version() -> str:
        return torch.__version__

    def _drawn(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """ids, and weights where they are not all 1."""
        if self._ranks:
            return self._ranks.draw(self.case.batch)
        return torch.randint(0, self.case.rows, (self.case.batch,), device=self.device), None

    def _gradients(self, batch: Weights, weight: torch.Tensor | None) -> tuple[list[torch.Tensor], torch.Tensor,
                                                                               torch.Tensor]:
        """Of the loss by each weight; the loss; the errors."""
        error = errors(self.case.world, self.case.recipe.double, self._dtype, self._online, self._target, batch)
        loss = mean_huber(error, weight)
        return list(torch.autograd.grad(loss, self._leaves)), loss.detach(), error.detach()

    def _update(self, ids: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        batch = {name: array.index_select(0, ids) for name, array in self._rows.items()}
        gradients, loss, error = self._gradients(batch, weight)
        with torch.no_grad():
            self._optimizer(gradients)
            if self._ranks:
                self._ranks.update(ids, error.abs() + OFFSET)
        return loss

    def _given_step(self) -> torch.Tensor:
        return self._update(self._ids, None)

    def _drawn_step(self) -> torch.Tensor:
        return self._update(*self._drawn())

    def _copy(self) -> None:
        with torch.no_grad():
            torch._foreach_copy_(list(self._target.values()), self._leaves)

    def _block(self) -> None:
        for _ in range(BLOCK):
            self._drawn_step()
        self._copy()

    def train_on(self, ids: np.ndarray) -> list[float]:
        losses = []
        for row in ids:
            self._ids.copy_(torch.from_numpy(row))
            losses.append(self._given_step().item())
        self._copy()
        return losses

    def priorities(self, ids: np.ndarray) -> np.ndarray:
        assert self._ranks is not None
        return self._ranks.of(torch.from_numpy(ids).to(self.device)).cpu().numpy()

    def drawn(self) -> np.ndarray:
        return self._drawn()[0].cpu().numpy()

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._block()

    def finish(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize()


class Compiled(Eager):
    name = "torch compiled"
    as_used = ('torch.compile(mode="reduce-overhead", fullgraph=True) of a whole step: draw, gather, gradients by '
               "torch.func, the optimiser's formulas; the copy to the target eager")
    is_compiled = True

    def prepare(self) -> None:
        """One compiled function serves `train_on`, too, which costs a step one choice."""
        self._is_given = torch.zeros((), dtype=torch.bool, device=self.device)
        self._skips = _skips()
        for tensor in (*self._rows.values(), *self._leaves, *self._target.values(), *self._optimizer.memory(),
                       self._ids, self._is_given, *([self._ranks.powers] if self._ranks else [])):
            torch._dynamo.mark_static_address(tensor)  # changed in place, as a module's parameters are
        self._compiled = torch.compile(self._chosen_step, mode="reduce-overhead", fullgraph=True)

    def _gradients(self, batch: Weights, weight: torch.Tensor | None) -> tuple[list[torch.Tensor], torch.Tensor,
                                                                               torch.Tensor]:
        def loss_of(online: Weights) -> tuple[torch.Tensor, torch.Tensor]:
            error = errors(self.case.world, self.case.recipe.double, self._dtype, online, self._target, batch)
            return mean_huber(error, weight), error

        gradients, (loss, error) = torch.func.grad_and_value(loss_of, has_aux=True)(self._online)
        return list(gradients.values()), loss, error

    def _chosen_step(self) -> torch.Tensor:
        ids, weight = self._drawn()
        ids = torch.where(self._is_given, self._ids, ids)
        weight = None if weight is None else torch.where(self._is_given, torch.ones_like(weight), weight)
        return self._update(ids, weight)

    def _drawn_step(self) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return self._compiled()

    def _given_step(self) -> torch.Tensor:
        self._is_given.fill_(True)
        loss = self._drawn_step().clone()
        self._is_given.fill_(False)
        return loss

    def remark(self) -> str:
        skipped = _skips() - self._skips
        return f"{skipped} of its parts go without CUDA graphs" if self.on_cuda and skipped else ""

    def close(self) -> None:
        """A few compilations of one function are kept, and a further one would be refused."""
        torch._dynamo.reset()


def _skips() -> int:
    return torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]


class Graph(Eager):
    name = "torch graph"
    as_used = "a torch.cuda.CUDAGraph of 16 times draw, gather and update, and of the copy to the target, replayed"
    WARM = 3  # updates before the capture, as PyTorch's documentation wants

    @staticmethod
    def refusal(device: str) -> str:
        return "" if device.startswith("cuda") else "a CUDA graph needs CUDA"

    def prepare(self) -> None:
        self._warm_up()
        self._replay_given, self._loss = self._captured(super()._given_step)
        self._replay_block, _ = self._captured(super()._block)

    def _warm_up(self) -> None:
        """Leaves weights, the optimiser's memory and priorities as they were."""
        kept = [weight.detach().clone() for weight in self._leaves]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.WARM):
                super()._drawn_step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            torch._foreach_copy_(self._leaves, kept)
        self._optimizer.reset()
        if self._ranks:
            self._ranks.powers.fill_(1.0)

    @staticmethod
    def _captured(work: Callable[[], torch.Tensor | None]) -> tuple[Callable[[], None], torch.Tensor | None]:
        """What does it, and what it returns, filled in anew each time. A capture runs nothing."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work()
        return graph.replay, result

    def _given_step(self) -> torch.Tensor:
        self._replay_given()
        assert self._loss is not None
        return self._loss

    def _block(self) -> None:
        self._replay_block()


CONTESTANTS = (Eager, Compiled, Graph)
