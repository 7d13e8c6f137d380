# SPDX-License-Identifier: MIT
"""PyTorch: eager; compiled as its documentation advises for small kernels; and with a CUDA graph made by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from base import Settings, Steps
from torch import nn
from torch.nn import functional
from networks import BLOCK, EPSILON, GAMMA, RATE, Case, World, channels_first, rows_of, weights_of

Update = Callable[[], torch.Tensor]  # makes a step, and returns its loss


class Network(nn.Module):
    """Parameters by the names of ours, whose dots PyTorch does not allow in a module's name."""

    def __init__(self, world: World):
        super().__init__()
        self._world = world
        for name, value in channels_first(world, weights_of(world)).items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.from_numpy(value)))

    def _dense(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

    def _trunk(self, x: torch.Tensor) -> torch.Tensor:
        if not self._world.is_image:
            return functional.relu(self._dense("trunk_0", x))
        x = x.float() * (1 / 255)
        for layer in self._world.convolutions:
            name = layer.name.replace(".", "_")
            x = functional.relu(functional.conv2d(x, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"),
                                                  layer.stride))
        return x.flatten(1)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        x = self._trunk(obs)
        value, advantage = (self._dense(f"{stream}_out", functional.relu(self._dense(f"{stream}_hidden", x)))
                            for stream in ("value", "advantage"))
        return value + advantage - advantage.mean(1, keepdim=True)


class Eager(Steps):
    name = "torch"
    as_used = "eager: randint, index_select, backward, fused Adam"

    def __init__(self, case: Case, settings: Settings):
        super().__init__(case, settings)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = settings.math == "tf32"
        torch.backends.cudnn.benchmark = True
        rows = {name: torch.from_numpy(array) for name, array in rows_of(case.world, case.rows).items()}
        rows["action"] = rows["action"].long()[:, None]
        rows["discount"] = GAMMA * (1 - rows.pop("terminated").float())
        self._rows = {name: array.to(settings.device) for name, array in rows.items()}
        self._online, self._target = (Network(case.world).to(settings.device) for _ in range(2))
        self._copies = list(self._target.parameters()), list(self._online.parameters())
        self._adam = torch.optim.Adam(self._copies[1], RATE, eps=EPSILON, fused=True, capturable=settings.on_cuda)
        self._ids = torch.zeros(case.batch, dtype=torch.int64, device=settings.device)
        self._step = self._made(self._update)  # on the rows in _ids
        self._drawn_step = self._draw_and_step

    @staticmethod
    def version() -> str:
        return torch.__version__

    def _made(self, update: Update) -> Update:
        """What does the same, as this contestant does it."""
        return update

    def _draw_and_step(self) -> torch.Tensor:
        self._ids.random_(0, self.case.rows)
        return self._step()

    def _loss(self) -> torch.Tensor:
        batch = {name: array.index_select(0, self._ids) for name, array in self._rows.items()}
        q = self._online(batch["obs"]).gather(1, batch["action"])[:, 0]
        with torch.no_grad():
            best = self._online(batch["next_obs"]).argmax(1, keepdim=True)
            following = self._target(batch["next_obs"]).gather(1, best)[:, 0]
            wanted = batch["reward"] + batch["discount"] * following
        return functional.huber_loss(q, wanted)

    def _update(self) -> torch.Tensor:
        self._adam.zero_grad(set_to_none=True)
        loss = self._loss()
        loss.backward()
        self._adam.step()
        return loss.detach()

    def _copy(self) -> None:
        with torch.no_grad():
            torch._foreach_copy_(*self._copies)

    def train_on(self, ids: np.ndarray) -> list[float]:
        losses = []
        for row in ids:
            self._ids.copy_(torch.from_numpy(row))
            losses.append(self._step().item())
        self._copy()
        return losses

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            for _ in range(BLOCK):
                self._drawn_step()
            self._copy()

    def finish(self) -> None:
        if self.settings.on_cuda:
            torch.cuda.synchronize()


class Compiled(Eager):
    name = "torch compiled"
    as_used = 'torch.compile(mode="reduce-overhead") of the update, its backward pass and Adam included'

    def _made(self, update: Update) -> Update:
        compiled = torch.compile(update, mode="reduce-overhead")

        def step() -> torch.Tensor:
            torch.compiler.cudagraph_mark_step_begin()
            return compiled()

        return step


class Graph(Eager):
    name = "torch graph"
    as_used = "a torch.cuda.CUDAGraph of draw, gather and update, replayed"
    WARM = 3  # updates before the capture, as PyTorch's documentation wants

    @staticmethod
    def refusal(settings: Settings) -> str:
        return "" if settings.on_cuda else "a CUDA graph needs CUDA"

    def __init__(self, case: Case, settings: Settings):
        super().__init__(case, settings)
        self._drawn_step = self._captured(self._draw_and_step_bare)

    def _draw_and_step_bare(self) -> torch.Tensor:
        self._ids.random_(0, self.case.rows)
        return self._update()

    def _made(self, update: Update) -> Update:
        """Warmed up first, which leaves weights and Adam's memory as they were."""
        kept = [parameter.detach().clone() for parameter in self._copies[1]]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.WARM):
                update()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            torch._foreach_copy_(self._copies[1], kept)
            for state in self._adam.state.values():
                torch._foreach_zero_(list(state.values()))
        return self._captured(update)

    def _captured(self, update: Update) -> Update:
        """A capture runs nothing."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = update()

        def step() -> torch.Tensor:
            graph.replay()
            return loss

        return step


CONTESTANTS = (Eager, Compiled, Graph)
