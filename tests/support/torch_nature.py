#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers, losses and optimizers make of the Nature network's first train steps, on weights and
transitions that follow from a hash: writes tests/support/torch_nature.h, which test_torch_nature.c trains against. Run
it with PyTorch (any version, CPU) and NumPy; the test needs neither. It computes in float64, so that what the test
measures are the test's own roundings.

No rounding may decide the results, or they would differ from CPU to CPU. At the published rates PyTorch in float32 is
1e-3 and more away from itself in float64 after nine steps of RMSProp or twenty of Adam, so the comparison's rates are
lower. And the data's seed is the first one with which double DQN's best action leads the second best by MIN_GAP of
the largest |Q| at every step, no input of a ReLU is nearer to 0 than MIN_INPUT in the step whose gradients are
compared, and no loss of float32 is further from float64's than MAX_DIFFERENCE of it.

usage: torch_nature.py > torch_nature.h
"""

import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ROWS, BATCH, STEPS, ACTIONS, PERIOD, GAMMA, SAMPLES = 48, 32, 20, 6, 8, 0.99, 4
N_STEP, SAMPLED = 3, 16  # of apex-dqn's rows: they span 1 to 3 steps; and as many have a priority above 0
MIN_GAP, MIN_INPUT, MAX_DIFFERENCE = 1e-3, 5e-7, 1e-5  # the test's tolerance of a loss in float32 is 1e-4 of it
data_seed = 0


class Undecided(Exception):
    """With this seed a rounding could decide a choice."""


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    offset = np.uint32((sequence + 10000 * data_seed) * 40503 % 2**32)
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + offset
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def frames(sequence):
    return (unit(4 * 84 * 84, sequence) * 256).astype(np.uint8).reshape(4, 84, 84)


def transitions():
    whole = np.arange(ROWS)
    return {
        "obs": torch.tensor(np.stack([frames(1000 + i) for i in whole])),
        "next_obs": torch.tensor(np.stack([frames(2000 + i) for i in whole])),
        "action": torch.tensor((unit(ROWS, 1) * ACTIONS).astype(np.int64)),
        "reward": torch.tensor((2 * unit(ROWS, 2) - 1).astype(np.float32)).double(),
        "alive": torch.tensor((whole % 7 != 0).astype(np.float64)),
        "steps": torch.tensor((1 + whole % N_STEP).astype(np.float64)),
    }


def uniform(step):
    """Rows of a step, which the test asks for by id, and their weights."""
    return [(step * 11 + b * 5) % ROWS for b in range(BATCH)], torch.ones(BATCH)


def by_priority(step):
    """The same for priorities that are whole numbers, of sum BATCH: a sample takes one row of each of BATCH equal parts
    of the priorities' sum, and so each row as often as its priority says. Weights are (N P)^-beta, the largest 1
    [Schaul et al. 2016, section 3.4]."""
    rows = [(step * 11 + j * 5) % ROWS for j in range(SAMPLED)]
    priorities = [1 + j % 3 for j in range(SAMPLED - 1)] + [2]
    assert sum(priorities) == BATCH
    ids = [row for row, priority in zip(rows, priorities) for _ in range(priority)]
    chances = torch.tensor([priority / BATCH for priority in priorities for _ in range(priority)])
    weights = (ROWS * chances)**-float(np.float32(0.4))
    return ids, weights / weights.max()


def huber(q, y, weights):
    return functional.huber_loss(q, y)


def squared(q, y, weights):
    """Half the squared error, weighed."""
    return (weights * functional.mse_loss(q, y, reduction="none") / 2).mean()


class Nature(nn.Module):
    """Three convolutions, and one stream of 512 to Q or two to value and advantage."""

    def __init__(self, dueling):
        super().__init__()
        self.dueling = dueling
        layers = {"trunk.0": nn.Conv2d(4, 32, 8, 4), "trunk.1": nn.Conv2d(32, 64, 4, 2),
                  "trunk.2": nn.Conv2d(64, 64, 3, 1)}
        if dueling:
            layers |= {"value.hidden": nn.Linear(3136, 512), "advantage.hidden": nn.Linear(3136, 512),
                       "value.out": nn.Linear(512, 1), "advantage.out": nn.Linear(512, ACTIONS)}
        else:
            layers |= {"trunk.3": nn.Linear(3136, 512), "q.out": nn.Linear(512, ACTIONS)}
        self.names = list(layers)
        self.layers = nn.ModuleList(layers.values())
        with torch.no_grad():
            self._fill()

    def _fill(self):
        """Weights (F, K, K, C) or (units, inputs) from the hash, tensor by tensor; a convolution's axes then turned to
        PyTorch's order. Biases too: zeros would hide them."""
        for index, layer in enumerate(self.layers):
            shape = tuple(layer.weight.shape)
            ours = shape if len(shape) == 2 else (shape[0], shape[2], shape[3], shape[1])
            limit = (6.0 / (shape[1] * np.prod(shape[2:]) + shape[0] * np.prod(shape[2:])))**0.5
            for parameter, count, sequence in ((layer.weight, layer.weight.numel(), 10 + 2 * index),
                                               (layer.bias, layer.bias.numel(), 11 + 2 * index)):
                values = (limit * (2 * unit(count, sequence) - 1)).astype(np.float32)
                if parameter is layer.weight and len(shape) == 4:
                    values = np.ascontiguousarray(values.reshape(ours).transpose(0, 3, 1, 2))
                parameter.copy_(torch.tensor(values).double().reshape(parameter.shape))

    def forward(self, obs):
        x = obs.to(self.layers[0].weight.dtype) * float(np.float32(1 / 255))
        self.min_input = float("inf")  # the distance to 0 of the ReLU input that is nearest to it
        for layer in self.layers[:3]:
            x = self._relu(layer(x))
        x = x.permute(0, 2, 3, 1).flatten(1)  # (H, W, C), as a dense layer behind a convolution reads it
        if not self.dueling:
            return self.layers[4](self._relu(self.layers[3](x)))
        value = self.layers[5](self._relu(self.layers[3](x)))
        advantage = self.layers[6](self._relu(self.layers[4](x)))
        return value + advantage - advantage.mean(1, keepdim=True)

    def _relu(self, x):
        self.min_input = min(self.min_input, x.detach().abs().min().item())
        return functional.relu(x)


def gap_of(q):
    """By how much the best action leads the second best, as a part of the largest |Q|: the least of all rows."""
    best, second = q.topk(2, 1).values.T
    return ((best - second) / q.abs().max(1).values).min().item()


def loss_of(online, target, batch, run):
    """The loss, and the gap of the network that chooses; without double DQN a near tie changes nothing."""
    q = online(batch["obs"]).gather(1, batch["action"][:, None])[:, 0]
    gap = 1.0
    with torch.no_grad():
        values = target(batch["next_obs"])
        best = values.max(1).values
        if run.dueling:
            min_input = online.min_input
            chooser = online(batch["next_obs"])
            online.min_input = min_input  # a choice has no gradient
            best = values.gather(1, chooser.argmax(1, keepdim=True))[:, 0]
            gap = gap_of(chooser)
        discount = GAMMA**batch["steps"] if run.sample is by_priority else GAMMA
        y = batch["reward"] + discount * batch["alive"] * best
    return run.loss(q, y, batch["weight"]), gap


def ordered(layer, gradient):
    """A weight's gradient in our order, flat."""
    return (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).flatten().double().numpy()


def gradients(online):
    """A line for each tensor's gradient."""
    for layer_name, layer in zip(online.names, online.layers):
        for part in ("weight", "bias"):
            g = ordered(layer, getattr(layer, part).grad)
            at = [int(len(g) * k / SAMPLES) for k in range(SAMPLES)]
            values = ", ".join(f"{g[i]:.9g}" for i in at)
            yield f'    {{"{layer_name}.{part}", {np.sqrt((g * g).sum()):.9g}, {{{values}}}}},'


def numbers(name, values):
    """An array of one number a step."""
    yield f"static const double {name}[TORCH_STEPS] = {{"
    for first in range(0, STEPS, 5):
        yield "    " + ", ".join(f"{value:.9g}" for value in values[first:first + 5]) + ","
    yield "};"


class Run(NamedTuple):
    """What a preset trains: double DQN wherever its network is dueling."""

    dueling: bool
    make_optimizer: Callable[[Any], torch.optim.Optimizer]
    norm: float = 0.0
    loss: Callable[..., torch.Tensor] = huber
    sample: Callable[[int], Any] = uniform


RUNS = {
    "dueling": Run(True, lambda p: torch.optim.Adam(p, 3e-5), 0.05),
    "apex": Run(True, lambda p: torch.optim.RMSprop(p, 6.25e-6, alpha=0.95, eps=0.01, centered=True), 40.0, squared,
                by_priority),
    "dqn": Run(False, lambda p: torch.optim.RMSprop(p, 2.5e-5, alpha=0.95, eps=0.01, centered=True)),
}


def run(name, what, dtype):
    """Losses and gaps of one run, and the lines of its first gradients."""
    rows, online, target = transitions(), Nature(what.dueling).to(dtype), Nature(what.dueling).to(dtype)
    rows = {key: value.to(dtype) if value.is_floating_point() else value for key, value in rows.items()}
    optimizer = what.make_optimizer(online.parameters())
    first, losses, gaps = [], [], []
    for step in range(STEPS):
        ids, weights = what.sample(step)
        batch = {key: value[torch.tensor(ids)] for key, value in rows.items()} | {"weight": weights.to(dtype)}
        loss, gap = loss_of(online, target, batch, what)
        if step == 0 and dtype == torch.float64 and online.min_input < MIN_INPUT:
            raise Undecided(f"{name}: an input of a ReLU is {online.min_input:.1e}")
        if gap < MIN_GAP:
            raise Undecided(f"{name}: in step {step + 1} the best action leads by {gap:.1e}")
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            first = list(gradients(online))
        if what.norm:
            nn.utils.clip_grad_norm_(online.parameters(), what.norm)
        optimizer.step()
        losses.append(loss.item())
        gaps.append(gap)
        if (step + 1) % PERIOD == 0:
            target.load_state_dict(online.state_dict())
    return losses, gaps, first


def decided(name, what):
    """The lines of one run, if no rounding decides it."""
    losses, gaps, first = run(name, what, torch.float64)
    narrow, _, _ = run(name, what, torch.float32)
    apart = max(abs(narrow_loss / loss - 1) for narrow_loss, loss in zip(narrow, losses))
    if apart > MAX_DIFFERENCE:
        raise Undecided(f"{name}: float32 is {apart:.1e} away")
    return [f"static const torch_gradient {name}_gradients[] = {{", *first, "};", *numbers(f"{name}_losses", losses),
            *numbers(f"{name}_gaps", gaps)]


def decided_runs():
    """The lines of all runs, with the first seed that leaves nothing to a rounding."""
    global data_seed
    for data_seed in itertools.count():
        try:
            return [line for name, what in RUNS.items() for line in decided(name, what)]
        except Undecided as why:
            print(f"seed {data_seed}: {why}", file=sys.stderr, flush=True)


def main():
    torch.set_default_dtype(torch.float64)
    lines = decided_runs()
    print("/* SPDX-License-Identifier: MIT */")
    version = torch.__version__.split("+")[0]
    print(f"/* Made by torch_nature.py with PyTorch {version}: gradients of the first train step (norm, and numbers"
          "\n * 0, n / 4, n / 2, 3 n / 4 of each tensor's n); of all steps the loss, and the gap: by how much the best"
          "\n * action that double DQN chooses leads the second best, as a part of the largest |Q|; 1 without double"
          "\n * DQN. */")
    print("#pragma once\n")
    print("typedef struct torch_gradient {\n    const char *name;\n    double norm, numbers[4];\n} torch_gradient;\n")
    print(f"enum {{ TORCH_ROWS = {ROWS}, TORCH_BATCH = {BATCH}, TORCH_STEPS = {STEPS}, TORCH_ACTIONS = {ACTIONS}, "
          f"TORCH_PERIOD = {PERIOD} }};")
    print(f"enum {{ TORCH_N_STEP = {N_STEP}, TORCH_SAMPLED = {SAMPLED}, TORCH_SEED = {data_seed} }};")
    print("\n".join(lines))


main()
