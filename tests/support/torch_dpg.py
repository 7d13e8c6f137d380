#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers, derivatives and optimizers make of the first train steps of Ape-X DPG's networks, on
weights and transitions that follow from a hash: with Adam and copies to the targets every few steps, and with AdamW,
soft targets and normalized layers. Writes tests/support/torch_dpg.h, which test_torch_dpg.c trains against. Run it with
PyTorch (any version, CPU) and NumPy; the test needs neither. It computes in float64.

usage: torch_dpg.py > torch_dpg.h
"""

import copy

import numpy as np
import torch
from torch import nn

STEPS, ROWS, FEATURES, ACTIONS, SAMPLES = 8, 64, 17, 6, 4
RATE, CLIP, PENALTY, TAU, TARGET_PERIOD = (*(float(np.float32(x)) for x in (1e-4, 0.05, 0.05, 0.05)), 3)
DECAY = 25.0  # large, so that it matters in a few steps


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def numbers(count, sequence):
    """-1 to 1, as float32 has them."""
    return torch.tensor((2 * unit(count, sequence) - 1).astype(np.float32)).double()


def middle_of(tensor):
    """The middle of its first values: a gain is near 1."""
    return 1.0 if tensor.endswith("norm.weight") else 0.0


class Network:
    """Of three layers; `activations` follow the first two. By default as in section 4.2 and appendix D of Horgan et al.
    2018: tanh after the first layer alone."""

    def __init__(self, name, out, sizes, sequence, activations=(nn.Tanh(), nn.Identity()), is_normalized=False):
        layers = [nn.Linear(a, b).double() for a, b in zip(sizes, sizes[1:])]
        norms = [nn.LayerNorm(size).double() for size in sizes[1:-1]] if is_normalized else []
        between = zip(norms or [nn.Identity()] * 2, activations)
        self.net = nn.Sequential(layers[0], *next(between), layers[1], *next(between), layers[2])
        self.tensors = {}  # by name: the parameter, its sequence, the limit of its first values
        for layer_name, layer in zip(("trunk.0", "trunk.1", out), layers):
            for part in ("weight", "bias"):
                self.tensors[f"{name}.{layer_name}.{part}"] = (getattr(layer, part), sequence + len(self.tensors),
                                                               1 / layer.in_features**0.5)
        for index, norm in enumerate(norms):
            for part in ("weight", "bias"):
                place = sequence + len(self.tensors)
                self.tensors[f"{name}.trunk.{index}.norm.{part}"] = getattr(norm, part), place, 0.5
        with torch.no_grad():
            for tensor, (parameter, place, limit) in self.tensors.items():
                values = (middle_of(tensor) + limit * (2 * unit(parameter.numel(), place) - 1)).astype(np.float32)
                parameter.copy_(torch.tensor(values).double().reshape(parameter.shape))

    def lines(self):
        """A line for each tensor's gradient."""
        for name, (parameter, place, limit) in self.tensors.items():
            g = parameter.grad.flatten().numpy()
            values = ", ".join(f"{g[int(len(g) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))
            middle = f", {middle_of(name)}" if middle_of(name) else ""
            yield f'    {{"{name}", {place}, {limit!r}, {np.sqrt((g * g).sum()):.9g}, {{{values}}}{middle}}},'


def norm_of(*nets):
    return torch.sqrt(sum((w.grad**2).sum() for net in nets for w in net.parameters())).item()


def q_of(net, obs, action):
    return net(torch.cat([obs, action], 1))[:, 0]


def batch():
    """obs, next_obs, action, reward, discount."""
    obs, next_obs = numbers(ROWS * FEATURES, 1).reshape(ROWS, -1), numbers(ROWS * FEATURES, 2).reshape(ROWS, -1)
    action, reward = numbers(ROWS * ACTIONS, 3).reshape(ROWS, -1), numbers(ROWS, 4)
    discount = torch.tensor([0.0 if row % 5 == 0 else float(np.float32(0.97)) for row in range(ROWS)]).double()
    return obs, next_obs, action, reward, discount


def step_line(*numbers_of_step):
    return "    {" + ", ".join(f"{value:.9g}" for value in numbers_of_step) + "},"


def train(is_soft):
    """The lines of the last step's gradients, and of all steps' numbers."""
    networks = (Network("actor", "action.out", (FEATURES, 300, 200, ACTIONS), 10, is_normalized=is_soft),
                Network("critic", "q.out", (FEATURES + ACTIONS, 400, 300, 1), 20, is_normalized=is_soft))
    actor, critic = (network.net for network in networks)
    targets = copy.deepcopy(actor), copy.deepcopy(critic)
    optimizers = [torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY) if is_soft else
                  torch.optim.Adam(net.parameters(), lr=RATE) for net in (actor, critic)]
    obs, next_obs, action, reward, discount = batch()
    lines = []
    for step in range(STEPS):
        with torch.no_grad():
            y = reward + discount * q_of(targets[1], next_obs, torch.tanh(targets[0](next_obs)))
        q = q_of(critic, obs, action)
        critic_loss = ((q - y)**2).mean() / 2
        optimizers[1].zero_grad()
        critic_loss.backward()
        critic_norm, mean_q = norm_of(critic), q.mean().item()
        critic_lines = list(networks[1].lines())
        optimizers[1].step()
        z = actor(obs)
        mu = torch.tanh(z)
        actor_loss = -q_of(critic, obs, mu)
        slope = torch.autograd.grad(-actor_loss.sum(), mu, retain_graph=True)[0]
        clipped = (slope.abs() > CLIP).double().mean().item()
        assert 0.05 < clipped < 0.95, clipped
        optimizers[0].zero_grad()
        (-(slope.clamp(-CLIP, CLIP) * mu).sum(1).mean() + PENALTY * (z**2).sum(1).mean()).backward()
        lines.append(step_line(critic_loss.item(), actor_loss.mean().item(), mean_q, critic_norm, norm_of(actor)))
        actor_lines = list(networks[0].lines())
        optimizers[0].step()
        if is_soft or (step + 1) % TARGET_PERIOD == 0:
            with torch.no_grad():
                for target, net in zip(targets, (actor, critic)):
                    for old, new in zip(target.parameters(), net.parameters()):
                        old.copy_(torch.lerp(old, new, TAU if is_soft else 1.0))
    return [*actor_lines, *critic_lines], lines


def main():
    version = torch.__version__.split("+")[0]
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_dpg.py with PyTorch {version}: tensors, whose first values are middle -+ limit, with "
          "their gradients\n * in the last train step (norm, and numbers 0, n / 4, n / 2, 3 n / 4 of n); of all steps "
          "the critic's and the\n * actor's loss, the mean of Q, and the norms of the critic's and the actor's "
          "gradient. */")
    print("#pragma once\n")
    print("typedef struct torch_tensor {\n    const char *name;\n    int sequence;\n    double limit, norm, "
          "numbers[4], middle;\n} torch_tensor;\n")
    print(f"enum {{ TORCH_STEPS = {STEPS}, TORCH_ROWS = {ROWS}, TORCH_FEATURES = {FEATURES}, "
          f"TORCH_ACTIONS = {ACTIONS}, TORCH_TARGET_PERIOD = {TARGET_PERIOD} }};")
    print(f"#define TORCH_CLIP {CLIP:.9g}f\n#define TORCH_PENALTY {PENALTY:.9g}f\n#define TORCH_TAU {TAU:.9g}f\n"
          f"#define TORCH_DECAY {DECAY}\n")
    for name, is_soft in (("torch_plain", False), ("torch_soft", True)):
        tensors, steps = train(is_soft)
        print(f"static const torch_tensor {name}[] = {{", *tensors, "};", sep="\n")
        print(f"static const double {name}_steps[{STEPS}][5] = {{", *steps, "};", sep="\n")


if __name__ == "__main__":
    main()
