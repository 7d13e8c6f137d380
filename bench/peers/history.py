# SPDX-License-Identifier: MIT
"""Transitions of episodes, where each observation is the successor of the step before."""

from __future__ import annotations

import numpy as np


def _frames(shape: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
    """(*numbers.shape[:-1], height, width, stack) uint8, of frame numbers (..., stack): no frame is like another."""
    height, width, _ = shape
    at = np.arange(height * width)
    low = (numbers[..., np.newaxis] >> (8 * (at % 3)) & 255).astype(np.uint8)
    return np.moveaxis(low, -2, -1).reshape(*numbers.shape[:-1], *shape)


def _ends(episode: int, tags: np.ndarray) -> dict[str, np.ndarray]:
    return {"terminated": tags % episode == episode - 1, "truncated": np.zeros(len(tags), np.bool_)}


def numbers(shape: tuple[int, ...], episode: int, tags: np.ndarray) -> dict[str, np.ndarray]:
    """obs, next_obs, terminated and truncated of transition numbers (count,), in episodes of `episode` steps.
    Observations are (count, *shape) float32, of which the first number is the transition's."""
    obs = (tags[:, np.newaxis] + np.arange(int(np.prod(shape)))).reshape(len(tags), *shape).astype(np.float32)
    return {"obs": obs, "next_obs": obs + np.float32(1), **_ends(episode, tags)}


def stacks(shape: tuple[int, ...], episode: int, tags: np.ndarray) -> dict[str, np.ndarray]:
    """As `numbers`; observations are stacks of the newest frames, the newest last, as Gymnasium's FrameStackObservation
    makes them: before an episode's first frames stands its first one again."""
    number, step = np.divmod(tags, episode)
    back = np.arange(-shape[-1] + 1, 1)

    def seen(newest: np.ndarray) -> np.ndarray:
        in_episode = np.maximum(newest[:, np.newaxis] + back, 0)
        return np.ascontiguousarray(_frames(shape, number[:, np.newaxis] * (episode + 1) + in_episode))

    return {"obs": seen(step), "next_obs": seen(step + 1), **_ends(episode, tags)}
