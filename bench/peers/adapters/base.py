# SPDX-License-Identifier: MIT
"""What an adapter of a library has to do."""

from __future__ import annotations

import abc
import os
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from workloads import Schema, rows_of, tags_of

Rows = dict[str, np.ndarray]  # (count, ...) each

ALPHA, BETA = 0.6, 0.4
MAX_ROWS = 65_536  # of a sample or an update by priority
WEIGHT, INDEX = "a row's weight", "a row's index"  # beside the fields, in what `read` gives
LENGTH = 100  # of a sequence
STEPS, GAMMA = 3, 0.5  # of returns; with this gamma sums of whole numbers are exact


class Settings(NamedTuple):
    """The same for all. device: "cpu" or "cuda:N"; a library without such a device keeps its rows in host memory."""

    device: str
    threads: int
    seed: int = 1

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")


class Adapter(abc.ABC):
    """One buffer of a library, for transitions of a schema that come one by one or `chunk` at once.

    `add`, `extend`, `finish` and `sample` are timed; what they are given was made by `one` and `many` before: what
    Gymnasium's `step` returns (workloads.step_of) where the library takes that, else the form that it takes.
    """

    name: str  # in the report
    kind: str = "uniform"  # of adapters.KINDS
    package: str  # of PyPI
    devices: tuple[str, ...] = ("cpu", "cuda")  # kinds that its samples can lie on
    as_used: str  # which of its classes and settings, and what differs from what was asked
    add: Callable[[Any], None]  # of a step: a method, or set when it is made
    extend: Callable[[Any], None]  # of many

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        self.schema, self.capacity, self.chunk, self.settings = schema, capacity, chunk, settings
        self.on_cuda = settings.on_cuda

    @classmethod
    def version(cls) -> str:
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
        """Returns when a sample would see all that was added; on CUDA when all enqueued work is done."""

    @abc.abstractmethod
    def sample(self, count: int) -> Any:
        """A sample with replacement: the arrays of all fields. On CUDA they lie there, and are ready after `finish`."""

    @abc.abstractmethod
    def read(self, sampled: Any) -> Rows:
        """What `sample` gave, by our names, in host memory."""

    def fill(self, rows: Rows) -> None:
        """Adds rows, however that is fastest."""
        self.extend(self.many(rows))

    def expected(self, rows: Rows) -> Rows:
        """What it gives back of these rows."""
        return rows

    def close(self) -> None:
        """Gives its memory back."""


class Prioritized(Adapter):
    """`sample` gives fields, weights, and the indices that `update` takes; `read` of that also WEIGHT and INDEX.
    `update` is timed; what it is given was made by `indices_as` and `priorities_as` before, or sampled."""

    kind = "prioritized"

    @property
    def max_rows(self) -> int:
        return min(MAX_ROWS, self.capacity // 2)

    def indices_of_slots(self, slots: np.ndarray) -> np.ndarray:
        """Row i of all that were added lies in slot i % capacity."""
        return slots

    def indices_as(self, indices: np.ndarray) -> Any:
        """As `update` takes them, which is as `sample` gives them."""
        return indices

    def priorities_as(self, priorities: np.ndarray) -> Any:
        """As `update` takes them, of float32."""
        return priorities

    @abc.abstractmethod
    def update(self, indices: Any, priorities: Any) -> None:
        """Gives rows new priorities, of which samples use the power ALPHA."""

    @abc.abstractmethod
    def sampled_indices(self, sampled: Any) -> Any:
        """Those of what `sample` gave, for `update`."""


class Returns(Adapter):
    """`add` is given steps, `sample` gives transitions of STEPS of them, or of fewer at an episode's end: the first
    one's obs and action, the last one's next_obs and terminated, and the sum of rewards discounted by GAMMA."""

    kind = "returns"

    def expected(self, rows: Rows) -> Rows:
        tags = tags_of(self.schema, rows)
        steps = np.minimum(self.schema.episode - tags % self.schema.episode, STEPS)
        reward = sum(np.where(step < steps, GAMMA**step * (tags + step), 0) for step in range(STEPS))
        last = rows_of(self.schema, tags + steps - 1)
        return {**rows, "reward": np.float32(reward), "next_obs": last["next_obs"], "terminated": last["terminated"]}

    def fill(self, rows: Rows) -> None:
        for row in range(len(rows["reward"])):
            self.add(tuple(array[row] for array in rows.values()))


class Sequences(Adapter):
    """`sample` gives arrays of (count, length, ...): successive transitions, from any of the buffer on. `read` gives
    one transition of each sequence, the one in its middle, and fails if those around it are others than they should
    be."""

    kind = "sequences"

    @property
    def length(self) -> int:
        """In the small buffer that is checked a batch of long sequences has no room."""
        return LENGTH if self.capacity >= LENGTH**2 else 2

    def read(self, sampled: Any) -> Rows:
        rows = super().read(sampled)  # type: ignore[safe-super]
        rows = {name: array.reshape(-1, self.length, *array.shape[array.ndim - len(self.schema.fields[name][0]):])
                for name, array in rows.items()}
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in rows.items()}
        tags = tags_of(self.schema, flat).reshape(-1, self.length)
        if (np.diff(tags, axis=1) != 1).any():
            raise AssertionError("a sequence has transitions that do not follow each other")
        return {name: array[:, self.length // 2] for name, array in rows.items()}


class Saving(Adapter):
    """`save` and `load` are timed: all rows, to files in `folder`, which goes when the adapter is closed."""

    kind = "files"

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._folder = tempfile.TemporaryDirectory()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def flush(self) -> None:
        """Makes sure that what was saved is on the disk, for those that do not do so themselves."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())

    @abc.abstractmethod
    def save(self) -> None:
        """Over what was saved before."""

    @abc.abstractmethod
    def load(self, folder: Path) -> None:
        """What such an adapter saved in its folder, in place of the rows that are there."""

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def add_by_keywords(buffer: Any, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], None]:
    """`buffer.add` with written-out keywords, as a training loop has it, given the values in the order of the names:
    the same for every library that takes keywords."""

    def step(values: tuple[Any, ...]) -> None:
        obs, action, reward, next_obs, terminated, truncated = values
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)

    def pixels(values: tuple[Any, ...]) -> None:
        state, pixels = values
        buffer.add(state=state, pixels=pixels)

    def number(values: tuple[Any, ...]) -> None:
        (value,) = values
        buffer.add(number=value)

    return {6: step, 2: pixels, 1: number}[len(names)]
