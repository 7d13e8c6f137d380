# SPDX-License-Identifier: MIT
"""Transitions whose observations are stacks of the newest frames, the newest last, as Gymnasium's FrameStackObservation
makes them: before an episode's first frames stands its first one again."""

from __future__ import annotations

import numpy as np


def _frames(shape: tuple[int, ...], numbers: np.ndarray) -> np.ndarray:
    """(*numbers.shape[:-1], height, width, stack) uint8, of frame numbers (..., stack): no frame is like another."""
    height, width, _ = shape
    at = np.arange(height * width)
    low = (numbers[..., np.newaxis] >> (8 * (at % 3)) & 255).astype(np.uint8)
    return np.moveaxis(low, -2, -1).reshape(*numbers.shape[:-1], *shape)


def rows(shape: tuple[int, ...], episode: int, tags: np.ndarray) -> dict[str, np.ndarray]:
    """obs, next_obs, terminated and truncated of transition numbers (count,), in episodes of `episode` steps."""
    number, step = np.divmod(tags, episode)
    back = np.arange(-shape[-1] + 1, 1)

    def stacks(newest: np.ndarray) -> np.ndarray:
        in_episode = np.maximum(newest[:, np.newaxis] + back, 0)
        return np.ascontiguousarray(_frames(shape, number[:, np.newaxis] * (episode + 1) + in_episode))

    return {"obs": stacks(step), "next_obs": stacks(step + 1), "terminated": step == episode - 1,
            "truncated": np.zeros(len(tags), np.bool_)}
