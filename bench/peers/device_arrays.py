# SPDX-License-Identifier: MIT
"""Arrays of a CUDA device's memory, for who makes none itself: by PyTorch or CuPy, whichever is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import host
import numpy as np


def _of_torch(array: np.ndarray, device: str) -> Any:
    import torch

    return torch.from_numpy(array).to(device)


def _of_cupy(array: np.ndarray, device: str) -> Any:
    import cupy

    with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
        return cupy.asarray(array)


# JAX is none of them: without a setting that holds for the whole process it has no int64.
MAKERS: tuple[Callable[[np.ndarray, str], Any], ...] = (_of_torch, _of_cupy)


def on(device: str, array: np.ndarray) -> Any:
    """A copy there, of the same dtype. RuntimeError: neither library is here and has CUDA."""
    why = []
    for make in MAKERS:
        try:
            return make(array, device)
        except Exception as error:  # noqa: BLE001  # a library that does not load may raise anything
            why.append(host.without_paths(f"{type(error).__name__}: {error}"))
    raise RuntimeError(f"arrays on {device} need PyTorch or CuPy with CUDA; {'; '.join(why)}")
