# SPDX-License-Identifier: MIT
"""What a contestant has to do."""

from __future__ import annotations

import abc
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from workloads import Schema

Rows = dict[str, np.ndarray]  # (count, ...) each


class Settings(NamedTuple):
    """The same for all. device: "cpu" or "cuda:N"; who has no such device stays in host memory."""

    device: str
    threads: int
    seed: int = 1

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")


class Adapter(abc.ABC):
    """One buffer of a contestant, for transitions of a schema that come one by one or `chunk` at once.

    What is timed is `add`, `extend`, `finish` and `sample`; what they are given was made by `one` and `many` before:
    what Gymnasium's `step` returns (workloads.step_of) where the contestant takes that, else the form that it takes,
    the making of which is not timed.
    """

    package: str  # of PyPI
    devices: tuple[str, ...] = ("cpu", "cuda")  # kinds that its draws can lie on
    as_used: str  # which of its classes and settings, and what it does otherwise than asked
    add: Callable[[Any], None]  # of a step: a method, or set when it is made
    extend: Callable[[Any], None]  # of many

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        self.schema, self.capacity, self.chunk, self.settings = schema, capacity, chunk, settings
        self.on_cuda = settings.on_cuda

    @classmethod
    def version(cls) -> str:
        """Of the package."""
        return metadata.version(cls.package)

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        """Why it cannot hold such transitions; "" when it can."""
        return ""

    @abc.abstractmethod
    def one(self, rows: Rows) -> Any:
        """A step of the schema's environments, out of the first rows, for `add`."""

    @abc.abstractmethod
    def many(self, rows: Rows) -> Any:
        """All of the rows, for `extend`."""

    def finish(self) -> None:
        """Returns when a draw would see all that was added; on CUDA when all that was asked for is done."""

    @abc.abstractmethod
    def sample(self, count: int) -> Any:
        """A uniform draw with replacement: the arrays of all fields, made, and ready. On CUDA they lie there, and are
        ready behind `finish`."""

    @abc.abstractmethod
    def read(self, drawn: Any) -> Rows:
        """What `sample` gave, by our names, in host memory."""

    def fill(self, rows: Rows) -> None:
        """Puts rows in, however that goes fastest."""
        self.extend(self.many(rows))

    def expected(self, rows: Rows) -> Rows:
        """What it gives back of these rows."""
        return rows

    def close(self) -> None:
        """Gives its memory back."""


STEP = ("obs", "action", "reward", "next_obs", "terminated", "truncated")


def add_by_keywords(buffer: Any, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], None]:
    """`buffer.add` by written-out keywords, as a training loop has it, given the values in the order of the names: the
    same for every contestant that takes keywords."""

    def step(values: tuple[Any, ...]) -> None:
        obs, action, reward, next_obs, terminated, truncated = values
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)

    def pixels(values: tuple[Any, ...]) -> None:
        state, pixels = values
        buffer.add(state=state, pixels=pixels)

    def number(values: tuple[Any, ...]) -> None:
        (value,) = values
        buffer.add(number=value)

    return {STEP: step, ("state", "pixels"): pixels, ("number",): number}[names]
