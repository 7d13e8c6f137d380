# SPDX-License-Identifier: MIT
"""Pictures of environments of the library and of plug-ins, drawn from what they show."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Painter = Callable[[np.ndarray], np.ndarray]  # of an observation the picture, (height, width, 3) uint8

FPS = {"CartPole-v1": 50, "Pendulum": 20}  # in which these move as fast as in the world
OTHER_FPS = 15  # about those of an Atari game that is seen by every fourth frame

_CELL = 10  # pixels of a side of a cell of MinAtar
_BACKGROUND = (16, 16, 24)
_KINDS = np.array([(230, 230, 230), (228, 80, 70), (110, 120, 140), (245, 190, 60), (80, 190, 120), (90, 150, 240),
                   (190, 110, 220), (70, 200, 210), (240, 140, 60), (250, 130, 180)], np.uint8)
_PAPER, _INK, _ROD, _HUB = (250, 250, 250), (40, 40, 48), (200, 130, 80), (90, 100, 200)


def painter_of(name: str, shape: tuple[int, ...], dtype: np.dtype) -> Painter | None:
    """For the environment of that name, which shows arrays of this shape and dtype. None: these are no picture."""
    painter: Painter | None = {"CartPole-v1": _cartpole, "Pendulum": _pendulum}.get(name)
    if painter is not None:
        return painter
    if name.startswith("MinAtar/"):
        return _minatar
    is_image = dtype == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))
    return _image if is_image else None


def _image(obs: np.ndarray) -> np.ndarray:
    """An image already, in gray or in color."""
    image = obs.reshape(*obs.shape[:2], -1)
    return np.ascontiguousarray(np.broadcast_to(image, (*obs.shape[:2], 3)))


def _minatar(obs: np.ndarray) -> np.ndarray:
    """(10, 10, kinds): a cell has the color of what is in it, the last kind on top."""
    picture = np.full((*obs.shape[:2], 3), _BACKGROUND, np.uint8)
    for kind in range(obs.shape[2]):
        picture[obs[:, :, kind] != 0] = _KINDS[kind % len(_KINDS)]
    return picture.repeat(_CELL, axis=0).repeat(_CELL, axis=1)


def _rod(picture: np.ndarray, start: tuple[float, float], end: tuple[float, float], width: float,
         color: tuple[int, int, int]) -> None:
    """Draws the points that are at most width / 2 pixels from the line between two points (x, y)."""
    y, x = np.ogrid[:picture.shape[0], :picture.shape[1]]
    along, across = end[0] - start[0], end[1] - start[1]
    length = along * along + across * across or 1.0
    at = np.clip(((x - start[0]) * along + (y - start[1]) * across) / length, 0.0, 1.0)
    far = np.hypot(x - start[0] - at * along, y - start[1] - at * across)
    picture[far <= width / 2] = color


def _cartpole(obs: np.ndarray) -> np.ndarray:
    """The track from -2.4 to 2.4 is the width of the picture."""
    height, width, ground = 200, 300, 150.0
    picture = np.full((height, width, 3), _PAPER, np.uint8)
    x, theta = width / 2 + float(obs[0]) * width / 4.8, float(obs[2])
    _rod(picture, (0, ground), (width, ground), 2, _INK)
    _rod(picture, (x - 16, ground), (x + 16, ground), 18, _INK)
    _rod(picture, (x, ground - 6), (x + 75 * math.sin(theta), ground - 6 - 75 * math.cos(theta)), 7, _ROD)
    _rod(picture, (x, ground - 6), (x, ground - 6), 6, _HUB)
    return picture


def _pendulum(obs: np.ndarray) -> np.ndarray:
    """A positive angle turns it to the left, as in Gymnasium."""
    side, length = 200, 75
    picture = np.full((side, side, 3), _PAPER, np.uint8)
    middle = (side / 2, side / 2)
    _rod(picture, middle, (side / 2 - length * float(obs[1]), side / 2 - length * float(obs[0])), 18, _ROD)
    _rod(picture, middle, middle, 8, _INK)
    return picture
