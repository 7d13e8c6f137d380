#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers, distributions, derivatives and Adam make of the first train steps of soft actor-critic in
the order of Stable-Baselines3's, on weights and transitions that follow from a hash, and on the learner's own draws,
with critics of values and of categorical distributions: writes tests/support/torch_sac.h, which test_torch_sac.c trains
against. Run it with PyTorch (any version, CPU) and NumPy; the test needs neither. It computes in float64.

usage: torch_sac.py > torch_sac.h
"""

import copy

import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

STEPS, ROWS, BATCH, FEATURES, ACTIONS, UNITS, SAMPLES, SEED = 8, 64, 32, 5, 3, 32, 4, 7
ATOMS, V_MIN, V_MAX = 11, -2.0, 3.0
RATE, TAU, ALPHA = (float(np.float32(x)) for x in (1e-3, 0.05, 0.3))
LEARN, POLICY_DRAW = 5, 23  # purposes of the library's random numbers: rows of a batch, actions of a train step


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def numbers(count, sequence):
    """-1 to 1, as float32 has them."""
    return torch.tensor((2 * unit(count, sequence) - 1).astype(np.float32)).double()


def philox(purpose, step, lane):
    """Philox4x32-10 [Salmon et al. 2011] of a counter that is made as kernels/lib/random.h says."""
    counter, key = [lane, purpose, step, 0], [SEED, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def rows_of(step):
    bits = [philox(LEARN, step, row) for row in range(BATCH)]
    return [((word[1] << 32 | word[0]) * ROWS) >> 64 for word in bits]


def draws_of(step):
    """Normal numbers (2 BATCH, ACTIONS) by Box and Muller: for obs, then for next_obs."""
    found = []
    for lane in range((2 * BATCH * ACTIONS + 3) // 4):
        bits = philox(POLICY_DRAW, step, lane)
        for pair in (0, 2):
            radius = np.sqrt(-2 * np.log(((bits[pair] >> 8) + 1) * 2.0**-24))
            angle = 2 * np.pi * (bits[pair + 1] >> 8) * 2.0**-24
            found += [radius * np.cos(angle), radius * np.sin(angle)]
    return torch.tensor(found[:2 * BATCH * ACTIONS]).double().reshape(2 * BATCH, ACTIONS)


def network(sizes, outputs, sequence):
    """Two layers with ReLU, and output layers beside each other. Its parameters are sequences one after the other."""
    layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])] + [nn.Linear(sizes[-1], outputs[0]) for _ in outputs]
    for index, layer in enumerate(layers):
        layer.double()
        limit = 1 / layer.in_features**0.5
        for parameter, place in ((layer.weight, 2 * index), (layer.bias, 2 * index + 1)):
            values = (limit * (2 * unit(parameter.numel(), sequence + place) - 1)).astype(np.float32)
            with torch.no_grad():
                parameter.copy_(torch.tensor(values).double().reshape(parameter.shape))
    return nn.ModuleList(layers)


def outputs_of(net, x):
    x = torch.relu(net[1](torch.relu(net[0](x))))
    return [layer(x) for layer in net[2:]]


def policy_of(actor, obs, noise):
    mean, log_std = outputs_of(actor, obs)
    distribution = Independent(TransformedDistribution(Normal(mean, log_std.clamp(-20, 2).exp()),
                                                       [TanhTransform(cache_size=1)]), 1)
    normal = distribution.base_dist.base_dist
    action = distribution.base_dist.transforms[0](normal.loc + normal.scale * noise)
    return action, distribution.log_prob(action)


def gradients(name, outputs, net):
    """A line for each tensor's gradient."""
    for layer_name, layer in zip(("trunk.0", "trunk.1", *outputs), net):
        for part in ("weight", "bias"):
            g = getattr(layer, part).grad.flatten().numpy()
            values = ", ".join(f"{g[int(len(g) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))
            yield f'    {{"{name}.{layer_name}.{part}", {np.sqrt((g * g).sum()):.9g}, {{{values}}}}},'


def norm_of(*nets):
    return torch.sqrt(sum((w.grad**2).sum() for net in nets for w in net.parameters())).item()


class Values:
    """Critics whose output is the value."""

    outputs, name = 1, "q.out"

    @staticmethod
    def means(x):
        return x[..., 0]

    @staticmethod
    def loss(x, target, lost, reward, discount):
        """Of both critics' outputs (2, B, 1), from those of their targets (2, B, 1)."""
        y = reward + discount * (target[..., 0].min(0).values - lost)
        return ((x[..., 0] - y)**2).mean(1).sum() / 2


class Atoms:
    """Critics whose outputs are the logits of the probabilities of returns."""

    outputs, name = ATOMS, "atoms.out"
    support = torch.linspace(V_MIN, V_MAX, ATOMS).double()

    @classmethod
    def means(cls, x):
        return (torch.softmax(x, -1) * cls.support).sum(-1)

    @classmethod
    def loss(cls, x, target, lost, reward, discount):
        """The cross-entropy from the distribution with the smaller mean, moved and projected onto the support."""
        least = torch.where((cls.means(target[0]) <= cls.means(target[1]))[:, None], target[0], target[1])
        moved = (reward - discount * lost)[:, None] + discount[:, None] * cls.support
        near = (moved.clamp(V_MIN, V_MAX)[:, :, None] - cls.support).abs() * (ATOMS - 1) / (V_MAX - V_MIN)
        projected = (torch.softmax(least, -1)[:, :, None] * (1 - near).clamp(min=0)).sum(1)
        return -(projected * torch.log_softmax(x, -1)).sum(-1).mean(1).sum()


def train(head):
    """Lines of the last gradients, and of the steps."""
    actor = network((FEATURES, UNITS, UNITS), (ACTIONS, ACTIONS), 10)
    critics = [network((FEATURES + ACTIONS, UNITS, UNITS), (head.outputs,), sequence) for sequence in (20, 30)]
    targets = copy.deepcopy(critics)
    log_alpha = torch.tensor(float(np.log(np.float32(ALPHA)))).double().requires_grad_()
    optimizers = [torch.optim.Adam(parameters, lr=RATE) for parameters in
                  (actor.parameters(), [w for net in critics for w in net.parameters()], [log_alpha])]
    obs, next_obs = numbers(ROWS * FEATURES, 1).reshape(ROWS, -1), numbers(ROWS * FEATURES, 2).reshape(ROWS, -1)
    actions, reward = numbers(ROWS * ACTIONS, 3).reshape(ROWS, -1), numbers(ROWS, 4)
    discount = torch.tensor([0.0 if row % 5 == 0 else float(np.float32(0.97)) for row in range(ROWS)]).double()

    def outputs_for(nets, obs, action):
        return torch.stack([outputs_of(net, torch.cat([obs, action], 1))[0] for net in nets])

    lines = []
    for step in range(STEPS):
        rows, noise, alpha = rows_of(step), draws_of(step), log_alpha.detach().exp()
        action, log_prob = policy_of(actor, obs[rows], noise[:BATCH])
        temperature_loss = -(log_alpha * (log_prob - ACTIONS).detach()).mean()
        optimizers[2].zero_grad()
        temperature_loss.backward()
        with torch.no_grad():
            next_action, next_log_prob = policy_of(actor, next_obs[rows], noise[BATCH:])
            target = outputs_for(targets, next_obs[rows], next_action)
        x = outputs_for(critics, obs[rows], actions[rows])
        critic_loss = head.loss(x, target, alpha * next_log_prob, reward[rows], discount[rows])
        optimizers[1].zero_grad()
        critic_loss.backward()
        critic_norm, mean_q = norm_of(*critics), head.means(x).mean().item()
        critic_lines = [line for i, net in enumerate(critics, 1)
                        for line in gradients(f"critic.{i}", (head.name,), net)]
        optimizers[1].step()
        value = head.means(outputs_for(critics, obs[rows], action)).min(0).values
        actor_loss = (alpha * log_prob - value).mean()
        optimizers[0].zero_grad()
        actor_loss.backward()
        row = (critic_loss.item(), actor_loss.item(), mean_q, critic_norm, norm_of(actor), alpha.item(),
               -log_prob.mean().item(), log_alpha.grad.item())
        lines.append("    {" + ", ".join(f"{value:.9g}" for value in row) + "},")
        actor_lines = list(gradients("actor", ("mean.out", "log_std.out"), actor))
        optimizers[0].step()
        optimizers[2].step()
        with torch.no_grad():
            for target, net in zip(targets, critics):
                for old, new in zip(target.parameters(), net.parameters()):
                    old += TAU * (new - old)
    return [*actor_lines, *critic_lines], lines


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_sac.py with PyTorch {torch.__version__.split('+')[0]}: gradients of the last train step "
          "(norm, and numbers 0,\n * n / 4, n / 2, 3 n / 4 of each tensor's n); of all steps the critics' and the "
          "actor's loss, the mean of Q,\n * the norms of the critics' and the actor's gradient, the temperature, the "
          "entropy, and the gradient by log\n * alpha. Those of the end are of critics of categorical distributions. "
          "*/")
    print("#pragma once\n")
    print("typedef struct torch_gradient {\n    const char *name;\n    double norm, numbers[4];\n} torch_gradient;\n")
    print(f"enum {{\n    TORCH_STEPS = {STEPS},\n    TORCH_ROWS = {ROWS},\n    TORCH_BATCH = {BATCH},\n"
          f"    TORCH_FEATURES = {FEATURES},\n    TORCH_ACTIONS = {ACTIONS},\n    TORCH_UNITS = {UNITS},\n"
          f"    TORCH_ATOMS = {ATOMS},\n    TORCH_SEED = {SEED}\n}};")
    print(f"#define TORCH_RATE {RATE:.9g}f\n#define TORCH_TAU {TAU:.9g}f\n#define TORCH_ALPHA {ALPHA:.9g}f")
    print(f"#define TORCH_V_MIN {V_MIN:.1f}f\n#define TORCH_V_MAX {V_MAX:.1f}f\n")
    for suffix, head in (("", Values), ("_of_atoms", Atoms)):
        gradient_lines, lines = train(head)
        print(f"static const torch_gradient torch_gradients{suffix}[] = {{", *gradient_lines, "};", sep="\n")
        print(f"static const double torch_steps{suffix}[TORCH_STEPS][8] = {{", *lines, "};", sep="\n")


main()
