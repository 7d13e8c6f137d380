# SPDX-License-Identifier: MIT
"""The recipes in JAX, which compiles each into the step."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from recipes import BETAS, Recipe

Tree = Any  # of arrays, as the weights


def first_memory(recipe: Recipe, weights: Tree) -> tuple[Tree, Tree, jax.Array]:
    """Mean of squares, mean or velocity, and the powers of Adam's betas."""
    return (jax.tree.map(lambda weight: jnp.full_like(weight, recipe.first), weights),
            jax.tree.map(jnp.zeros_like, weights), jnp.ones(2))


def _clipped(gradients: Tree, most: float) -> Tree:
    norm = jnp.sqrt(sum((gradient * gradient).sum() for gradient in jax.tree.leaves(gradients)))
    return jax.tree.map(lambda gradient: gradient * jnp.minimum(most / norm, 1.0), gradients)


def updated(recipe: Recipe, weights: Tree, memory: tuple[Tree, Tree, jax.Array], gradients: Tree) -> tuple[Tree, Tree]:
    """The weights and the memory after a step."""
    if recipe.clip_norm:
        gradients = _clipped(gradients, recipe.clip_norm)
    square, other, powers = memory
    keep, keep_other = (BETAS[1], BETAS[0]) if recipe.kind == "adam" else (recipe.decay, recipe.decay)
    square = jax.tree.map(lambda v, g: keep * v + (1 - keep) * g * g, square, gradients)
    if recipe.kind == "rmsprop_tf":
        other = jax.tree.map(lambda u, v, g: recipe.momentum * u + recipe.rate * g / jnp.sqrt(v + recipe.epsilon),
                             other, square, gradients)
        return jax.tree.map(jnp.subtract, weights, other), (square, other, powers)
    other = jax.tree.map(lambda m, g: keep_other * m + (1 - keep_other) * g, other, gradients)
    if recipe.kind == "rmsprop_deepmind":
        change = jax.tree.map(lambda m, v, g: g / jnp.sqrt(jnp.maximum(v - m * m, 0) + recipe.epsilon), other, square,
                              gradients)
    else:
        powers = powers * jnp.asarray(BETAS)
        change = jax.tree.map(lambda m, v: m / (1 - powers[0]) / (jnp.sqrt(v / (1 - powers[1])) + recipe.epsilon),
                              other, square)
    return jax.tree.map(lambda w, c: w - recipe.rate * c, weights, change), (square, other, powers)
