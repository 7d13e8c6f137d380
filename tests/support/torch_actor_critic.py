#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers and derivatives make of the first train steps of GA3C's network, and of the large one whose
first layer has stride 3, on weights and batches that follow from a hash: writes tests/support/torch_actor_critic.h,
which test_torch_actor_critic.c trains against. Run it with PyTorch (any version, CPU) and NumPy; the test needs
neither. It computes in float64, and RMSProp with epsilon inside of the root, which PyTorch does not have, is written
out.

usage: torch_actor_critic.py > torch_actor_critic.h
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STEPS, ACTIONS, LARGEST, SAMPLES = 12, 6, 40, 4
LOGS = ("ADD", "MAX", "SOFTMAX")
SMALL, LARGE = [(4, 16, 8, 4), (16, 32, 4, 2)], [(4, 32, 8, 3), (32, 32, 4, 2), (32, 64, 4, 2)]  # convolutions
ENTROPY, RATE, DECAY, EPSILON, LOG_EPSILON = (float(np.float32(x)) for x in (0.05, 3e-4, 0.99, 0.1, 1e-6))


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def batch(step):
    """1 to LARGEST rows."""
    count = 1 + step * 7 % LARGEST
    frames = [(unit(4 * 84 * 84, 1000 + 50 * step + row) * 256).astype(np.uint8) for row in range(count)]
    obs = torch.tensor(np.stack(frames).reshape(count, 4, 84, 84)).double()
    actions = torch.tensor((unit(count, 5000 + step) * ACTIONS).astype(np.int64))
    returns = torch.tensor((4 * unit(count, 6000 + step) - 2).astype(np.float32)).double()
    return obs, actions, returns


def same(x, kernel, stride):
    """Zeros as TensorFlow's SAME padding adds them: the odd one after."""
    pads = []
    for size in (x.shape[3], x.shape[2]):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return functional.pad(x, pads)


class Network(nn.Module):
    """Section 3.2 and Table 2 of Babaeizadeh et al. 2017."""

    def __init__(self, convolutions):
        super().__init__()
        layers, side = {}, 84
        for i, (inputs, filters, kernel, stride) in enumerate(convolutions):
            layers[f"trunk.{i}"] = nn.Conv2d(inputs, filters, kernel, stride)
            side = -(-side // stride)
        layers |= {f"trunk.{len(layers)}": nn.Linear(side * side * convolutions[-1][1], 256),
                   "policy.out": nn.Linear(256, ACTIONS), "value.out": nn.Linear(256, 1)}
        self.names, self.layers = list(layers), nn.ModuleList(layers.values())
        with torch.no_grad():
            self._fill()

    def _fill(self):
        """Weights (F, K, K, C) or (units, inputs) from the hash, tensor by tensor; a convolution's axes then turned to
        PyTorch's order."""
        for index, layer in enumerate(self.layers):
            shape = tuple(layer.weight.shape)
            limit = 1 / np.prod(shape[1:])**0.5
            for parameter, sequence in ((layer.weight, 10 + 2 * index), (layer.bias, 11 + 2 * index)):
                values = (limit * (2 * unit(parameter.numel(), sequence) - 1)).astype(np.float32)
                if parameter is layer.weight and len(shape) == 4:
                    ours = values.reshape(shape[0], shape[2], shape[3], shape[1])
                    values = np.ascontiguousarray(ours.transpose(0, 3, 1, 2))
                parameter.copy_(torch.tensor(values).double().reshape(parameter.shape))

    def forward(self, obs):
        x = obs / 128 - 1
        *convolutions, dense, policy, value = self.layers
        for layer in convolutions:
            x = functional.relu(layer(same(x, layer.kernel_size[0], layer.stride[0])))
        x = functional.relu(dense(x.permute(0, 2, 3, 1).flatten(1)))
        return policy(x), value(x)[:, 0]


def loss_of(log, logits, value, actions, returns):
    """The loss, and the four means that a train step reports."""
    p, advantage = functional.softmax(logits, 1), returns - value
    if log == "ADD":
        log_p = torch.log(p + LOG_EPSILON)
        entropy = -((p + LOG_EPSILON) * log_p).sum(1)
    elif log == "MAX":
        log_p = torch.log(p.clamp_min(LOG_EPSILON))
        entropy = -(p * log_p).sum(1)
    else:
        log_p = functional.log_softmax(logits, 1)
        entropy = -(p * log_p).sum(1)
    chosen = log_p.gather(1, actions[:, None])[:, 0]
    loss = (-chosen * advantage.detach() - ENTROPY * entropy + 0.5 * advantage**2).sum()
    means = (-chosen * advantage).mean(), (advantage**2).mean(), entropy.mean(), value.mean()
    return loss, [mean.item() for mean in means]


def ordered(gradient):
    """A weight's gradient in our order, flat."""
    return (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).flatten().numpy()


def gradients(network):
    """A line for each tensor's gradient."""
    for layer_name, layer in zip(network.names, network.layers):
        for part in ("weight", "bias"):
            g = ordered(getattr(layer, part).grad)
            values = ", ".join(f"{g[int(len(g) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))
            yield f'    {{"{layer_name}.{part}", {np.sqrt((g * g).sum()):.9g}, {{{values}}}}},'


def run(name, log, convolutions, steps):
    """The lines of one network and kind of logarithm."""
    network = Network(convolutions).double()
    squares = [torch.ones_like(w) for w in network.parameters()]
    lines, rows = [], []
    for step in range(steps):
        obs, actions, returns = batch(step)
        loss, means = loss_of(log, *network(obs), actions, returns)
        network.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((w.grad**2).sum() for w in network.parameters())).item()
        rows.append("    {" + ", ".join(f"{value:.9g}" for value in (*means, norm)) + "},")
        if step == 1:
            lines += [f"static const torch_gradient {name}_gradients[] = {{", *gradients(network), "};"]
        with torch.no_grad():
            for w, square in zip(network.parameters(), squares):
                square.mul_(DECAY).add_((1 - DECAY) * w.grad**2)
                w -= RATE * w.grad / torch.sqrt(square + EPSILON)
    return [*lines, f"static const double {name}_steps[{steps}][5] = {{", *rows, "};"]


def main():
    version = torch.__version__.split("+")[0]
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_actor_critic.py with PyTorch {version}: gradients of the second train step (norm, and "
          "numbers\n * 0, n / 4, n / 2, 3 n / 4 of each tensor's n); of all steps the means of the policy's loss, of "
          "the squared error,\n * of the entropy and of the value, and the gradient's norm. */")
    print("#pragma once\n")
    print("typedef struct torch_gradient {\n    const char *name;\n    double norm, numbers[4];\n} torch_gradient;\n")
    print(f"enum {{ TORCH_STEPS = {STEPS}, TORCH_ACTIONS = {ACTIONS}, TORCH_LARGEST = {LARGEST} }};")
    for log in LOGS:
        print("\n".join(run(log.lower(), log, SMALL, STEPS)))
    print("\n".join(run("large", "ADD", LARGE, 2)))


main()
