# SPDX-License-Identifier: MIT
"""The recipes in PyTorch: its own fused Adam, and formulas over all weights at once by its multi-tensor functions."""

from __future__ import annotations

import torch
from recipes import BETAS, Recipe

Tensors = list[torch.Tensor]


def _clip(gradients: Tensors, most: float) -> None:
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (most / norm).clamp(max=1.0))


def _laid(gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As the weight lies in memory: else the multi-tensor functions take tensors one by one, and fused Adam none."""
    return gradient if gradient.stride() == weight.stride() else torch.empty_like(weight).copy_(gradient)


class Optimizer:
    """Changes `weights` in place when called with their gradients, which it may spoil. `reset` brings its memory back
    to where it began, in place."""

    def __init__(self, recipe: Recipe, weights: Tensors):
        self.recipe, self.weights = recipe, weights

    def __call__(self, gradients: Tensors) -> None:
        gradients = [_laid(gradient, weight) for gradient, weight in zip(gradients, self.weights)]
        if self.recipe.clip_norm:
            _clip(gradients, self.recipe.clip_norm)
        self.update(gradients)

    def _zeros(self) -> Tensors:
        return [torch.zeros_like(weight, requires_grad=False) for weight in self.weights]

    def update(self, gradients: Tensors) -> None:
        raise NotImplementedError

    def memory(self) -> Tensors:
        raise NotImplementedError

    def reset(self) -> None:
        torch._foreach_zero_(self.memory())


class FusedAdam(Optimizer):
    """torch.optim.Adam, one kernel on CUDA."""

    def __init__(self, recipe: Recipe, weights: Tensors, on_cuda: bool):
        super().__init__(recipe, weights)
        self._adam = torch.optim.Adam(weights, recipe.rate, BETAS, recipe.epsilon, fused=True, capturable=on_cuda)

    def update(self, gradients: Tensors) -> None:
        for weight, gradient in zip(self.weights, gradients):
            weight.grad = gradient
        self._adam.step()

    def memory(self) -> Tensors:
        """There after the first step."""
        return [tensor for state in self._adam.state.values() for tensor in state.values()]


class Adam(Optimizer):
    """The same in functions that a compiler sees into."""

    def __init__(self, recipe: Recipe, weights: Tensors):
        super().__init__(recipe, weights)
        self._mean, self._square = self._zeros(), self._zeros()
        self._powers = torch.ones(2, device=weights[0].device)  # of the betas
        self._betas = torch.tensor(BETAS, device=weights[0].device)

    def memory(self) -> Tensors:
        return [*self._mean, *self._square, self._powers]

    def reset(self) -> None:
        super().reset()
        self._powers.fill_(1.0)

    def update(self, gradients: Tensors) -> None:
        self._powers.mul_(self._betas)
        mean_part, square_part = (1 - self._powers).unbind()
        torch._foreach_lerp_(self._mean, gradients, 1 - BETAS[0])
        torch._foreach_mul_(self._square, BETAS[1])
        torch._foreach_addcmul_(self._square, gradients, gradients, 1 - BETAS[1])
        root = torch._foreach_sqrt(self._square)
        torch._foreach_mul_(root, square_part.rsqrt())
        torch._foreach_add_(root, self.recipe.epsilon)
        change = torch._foreach_div(self._mean, root)
        torch._foreach_mul_(change, self.recipe.rate / mean_part)
        torch._foreach_sub_(self.weights, change)


class RmsProp(Optimizer):
    """With epsilon within the root: TensorFlow's, and DeepMind's, which is centred."""

    def __init__(self, recipe: Recipe, weights: Tensors):
        super().__init__(recipe, weights)
        self._square, self._other = self._zeros(), self._zeros()  # the other: velocity, or mean
        self.reset()

    def memory(self) -> Tensors:
        return [*self._square, *self._other]

    def reset(self) -> None:
        super().reset()
        torch._foreach_add_(self._square, self.recipe.first)

    def update(self, gradients: Tensors) -> None:
        keep = self.recipe.decay
        torch._foreach_mul_(self._square, keep)
        torch._foreach_addcmul_(self._square, gradients, gradients, 1 - keep)
        if self.recipe.kind == "rmsprop_deepmind":
            torch._foreach_lerp_(self._other, gradients, 1 - keep)
            root = torch._foreach_addcmul(self._square, self._other, self._other, -1.0)
            torch._foreach_clamp_min_(root, 0.0)
        else:
            root = self._square
        root = torch._foreach_add(root, self.recipe.epsilon)
        torch._foreach_sqrt_(root)
        self._move(gradients, root)

    def _move(self, gradients: Tensors, root: Tensors) -> None:
        if self.recipe.kind == "rmsprop_deepmind":
            torch._foreach_addcdiv_(self.weights, gradients, root, -self.recipe.rate)
            return
        torch._foreach_mul_(self._other, self.recipe.momentum)
        torch._foreach_addcdiv_(self._other, gradients, root, self.recipe.rate)
        torch._foreach_sub_(self.weights, self._other)


def optimizer_of(recipe: Recipe, weights: Tensors, on_cuda: bool, is_compiled: bool) -> Optimizer:
    if recipe.kind != "adam":
        return RmsProp(recipe, weights)
    return Adam(recipe, weights) if is_compiled else FusedAdam(recipe, weights, on_cuda)
