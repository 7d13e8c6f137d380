# SPDX-License-Identifier: MIT
"""PyTorch: eager; compiled as its documentation advises for small kernels; and with a CUDA graph made by hand. In BF16
it also rounds what a dense layer or its gradients' products make, and biases; convolutions round as ours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from networks import BETAS, BLOCK, EPSILON, GAMMA, RATE, Case, Network, Steps, channels_first, rows_of
from torch.nn import functional

Weights = dict[str, torch.Tensor]
Tensors = list[torch.Tensor]


def _lowered(weights: Weights, dtype: torch.dtype) -> Weights:
    """In the type of the products. The heads stay in float32."""
    return {name: weight if ".out." in name else weight.to(dtype) for name, weight in weights.items()}


def _dense(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _trunk(network: Network, weights: Weights, obs: torch.Tensor) -> torch.Tensor:
    x = obs.to(weights["trunk.0.weight"].dtype)
    if not network.is_image:
        return functional.relu(_dense(weights, "trunk.0", x))
    x = x * (1 / 255)
    for layer in network.convolutions:
        weight, bias = weights[f"{layer.name}.weight"], weights[f"{layer.name}.bias"]
        x = functional.relu(functional.conv2d(x, weight, bias, layer.stride))
    return x.flatten(1)


def _values(network: Network, weights: Weights, obs: torch.Tensor) -> torch.Tensor:
    """Q of every action, (batch, actions) float32, with _lowered weights."""
    x = _trunk(network, weights, obs)
    value, advantage = (
        _dense(weights, f"{stream}.out", functional.relu(_dense(weights, f"{stream}.hidden", x)).float())
        for stream in ("value", "advantage"))
    return value + advantage - advantage.mean(1, keepdim=True)


def _loss(network: Network, dtype: torch.dtype, online: Weights, target: Weights, batch: Weights) -> torch.Tensor:
    """Mean Huber loss of double DQN."""
    online = _lowered(online, dtype)
    with torch.no_grad():
        following = _values(network, _lowered(target, dtype), batch["next_obs"])
        best = _values(network, online, batch["next_obs"]).argmax(1, keepdim=True)
        wanted = batch["reward"] + batch["discount"] * following.gather(1, best)[:, 0]
    return functional.huber_loss(_values(network, online, batch["obs"]).gather(1, batch["action"])[:, 0], wanted)


class FusedAdam:
    """torch.optim.Adam, one kernel on CUDA. Changes the weights in place when called with their gradients."""

    def __init__(self, weights: Tensors, on_cuda: bool):
        self._weights = weights
        self._adam = torch.optim.Adam(weights, RATE, BETAS, EPSILON, fused=True, capturable=on_cuda)

    def __call__(self, gradients: Tensors) -> None:
        for weight, gradient in zip(self._weights, gradients):
            same = gradient.stride() == weight.stride()  # else there is no fused step
            weight.grad = gradient if same else torch.empty_like(weight).copy_(gradient)
        self._adam.step()

    def memory(self) -> Tensors:
        """There after the first step."""
        return [tensor for state in self._adam.state.values() for tensor in state.values()]


class FormulaAdam:
    """The same in functions that a compiler sees into."""

    def __init__(self, weights: Tensors):
        self._weights = weights
        self._mean, self._square = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
        self._powers = torch.ones(2, device=weights[0].device)  # of the betas
        self._betas = torch.tensor(BETAS, device=weights[0].device)

    def memory(self) -> Tensors:
        return [*self._mean, *self._square, self._powers]

    def __call__(self, gradients: Tensors) -> None:
        self._powers.mul_(self._betas)
        mean_part, square_part = (1 - self._powers).unbind()
        torch._foreach_lerp_(self._mean, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self._square, BETAS[1])
        torch._foreach_addcmul_(self._square, gradients, gradients, 1 - BETAS[1])
        root = torch._foreach_sqrt(self._square)
        torch._foreach_mul_(root, square_part.rsqrt())
        torch._foreach_add_(root, EPSILON)
        change = torch._foreach_div(self._mean, root)
        torch._foreach_mul_(change, RATE / mean_part)
        torch._foreach_sub_(self._weights, change)


class Eager(Steps):
    name = "torch"
    as_used = "eager: randint, index_select, autograd, fused Adam; filters with channels last except in FP32"
    is_compiled = False

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        if self.on_cuda:
            torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.math == "tf32"
        torch.backends.cudnn.benchmark = True
        rows = {name: torch.from_numpy(array) for name, array in rows_of(case.network, case.rows).items()}
        rows["action"] = rows["action"].long()[:, None]
        rows["discount"] = GAMMA * (1 - rows.pop("terminated").float())
        self._rows = {name: array.to(device) for name, array in rows.items()}
        self._online, self._target = self._weights(not self.is_compiled), self._weights(False)
        self._leaves = list(self._online.values())
        self._dtype = torch.bfloat16 if case.math == "bf16" else torch.float32
        self._optimizer = FormulaAdam(self._leaves) if self.is_compiled else FusedAdam(self._leaves, self.on_cuda)
        self._ids = torch.zeros(case.batch, dtype=torch.int64, device=device)  # that `train_on` is given
        self.prepare()

    def _weights(self, with_gradient: bool) -> Weights:
        made = {}
        for name, value in channels_first(self.case.network).items():
            is_filter = self.case.math != "fp32" and value.ndim == 4  # tensor cores want the channels last
            form = torch.channels_last if is_filter else torch.contiguous_format
            made[name] = torch.from_numpy(value).to(self.device, memory_format=form).clone()
            made[name].requires_grad_(with_gradient)
        return made

    def prepare(self) -> None:
        """Before the first step."""

    @staticmethod
    def version() -> str:
        return torch.__version__

    def _sample(self) -> torch.Tensor:
        return torch.randint(0, self.case.rows, (self.case.batch,), device=self.device)

    def _gradients(self, batch: Weights) -> tuple[Tensors, torch.Tensor]:
        """Of the loss by each weight; and the loss."""
        loss = _loss(self.case.network, self._dtype, self._online, self._target, batch)
        return list(torch.autograd.grad(loss, self._leaves)), loss.detach()

    def _update(self, ids: torch.Tensor) -> torch.Tensor:
        gradients, loss = self._gradients({name: array.index_select(0, ids) for name, array in self._rows.items()})
        with torch.no_grad():
            self._optimizer(gradients)
        return loss

    def _given_step(self) -> torch.Tensor:
        return self._update(self._ids)

    def _drawn_step(self) -> torch.Tensor:
        return self._update(self._sample())

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

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._block()

    def finish(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize()


class Compiled(Eager):
    name = "torch compiled"
    as_used = ('torch.compile(mode="reduce-overhead", fullgraph=True) of a whole step: sample, gather, gradients by '
               "torch.func, Adam's formulas; the copy to the target eager")
    is_compiled = True

    def prepare(self) -> None:
        """One compiled function serves `train_on`, too, which costs a step one choice."""
        self._is_given = torch.zeros((), dtype=torch.bool, device=self.device)
        self._skips = _skips()
        for tensor in (*self._rows.values(), *self._leaves, *self._target.values(), *self._optimizer.memory(),
                       self._ids, self._is_given):
            torch._dynamo.mark_static_address(tensor)  # changed in place, as a module's parameters are
        self._compiled = torch.compile(self._chosen_step, mode="reduce-overhead", fullgraph=True)

    def _gradients(self, batch: Weights) -> tuple[Tensors, torch.Tensor]:
        def loss_of(online: Weights) -> torch.Tensor:
            return _loss(self.case.network, self._dtype, online, self._target, batch)

        gradients, loss = torch.func.grad_and_value(loss_of)(self._online)
        return list(gradients.values()), loss

    def _chosen_step(self) -> torch.Tensor:
        return self._update(torch.where(self._is_given, self._ids, self._sample()))

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
        """Only a few compilations of one function are allowed."""
        torch._dynamo.reset()


def _skips() -> int:
    return torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]


class Graph(Eager):
    name = "torch graph"
    as_used = "a torch.cuda.CUDAGraph of 16 times sample, gather and update, and of the copy to the target, replayed"
    WARM_UP = 3  # updates before the capture, as PyTorch's documentation wants

    @staticmethod
    def refusal(device: str) -> str:
        return "" if device.startswith("cuda") else "a CUDA graph needs CUDA"

    def prepare(self) -> None:
        self._warm_up()
        self._replay_given, self._loss = self._captured(super()._given_step)
        self._replay_block, _ = self._captured(super()._block)

    def _warm_up(self) -> None:
        """Leaves weights and the optimizer's memory as they were."""
        before = [weight.detach().clone() for weight in self._leaves]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UP):
                super()._drawn_step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            torch._foreach_copy_(self._leaves, before)
            torch._foreach_zero_(self._optimizer.memory())

    @staticmethod
    def _captured(work: Callable[[], torch.Tensor | None]) -> tuple[Callable[[], None], torch.Tensor | None]:
        """What replays it, and what it returns, filled in anew each time. A capture runs nothing."""
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


IMPLEMENTATIONS = (Eager, Compiled, Graph)
