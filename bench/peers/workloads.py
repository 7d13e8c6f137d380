# SPDX-License-Identifier: MIT
"""What every contestant is made to do, and the transitions it does it with.

Transition number i is a function of i alone, its tag, in every number of every field: so a row that was drawn shows
whether its fields belong together, and which transition it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FRAME_BYTES = 1000  # from here on a row is pixels, and fewer are added at once
FRAMES_KEPT, QUICK_FRAMES = 10_000, 1_000


class Schema(NamedTuple):
    """The fields of a transition: name: (shape, dtype). `tag` is a float field that tells the transition."""

    name: str
    fields: dict[str, tuple[tuple[int, ...], np.dtype]]
    tag: str = "reward"

    @property
    def row_bytes(self) -> int:
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.fields.values())


class Case(NamedTuple):
    """One figure: `operation` is "add" (one transition), "extend" or "sample" (of `count`)."""

    operation: str
    count: int

    @property
    def name(self) -> str:
        return "add 1" if self.operation == "add" else f"{self.operation} {self.count:,}"


class Group(NamedTuple):
    """Cases that one filled buffer of each contestant serves. `chunk`: how many transitions come at once."""

    schema: Schema
    capacity: int
    chunk: int
    cases: tuple[Case, ...]

    @property
    def name(self) -> str:
        return f"{self.schema.name}, {self.capacity:,} slots"


def transition(name: str, shape: tuple[int, ...], dtype: type) -> Schema:
    """Gymnasium's six fields around observations of this shape."""
    obs, flag = (shape, np.dtype(dtype)), ((), np.dtype(np.bool_))
    return Schema(name, {"obs": obs, "action": ((), np.dtype(np.int32)), "reward": ((), np.dtype(np.float32)),
                         "next_obs": obs, "terminated": flag, "truncated": flag})


OBS4 = transition("obs (4) float32", (4,), np.float32)
OBS27 = transition("obs (27) float32", (27,), np.float32)
FRAMES = transition("obs (84, 84, 4) uint8", (84, 84, 4), np.uint8)
MIXED = Schema("{(5) float32, (3, 32, 32) uint8}", {"state": ((5,), np.dtype(np.float32)),
                                                    "pixels": ((3, 32, 32), np.dtype(np.uint8))}, "state")
SCHEMAS = (OBS4, OBS27, MIXED, FRAMES)

def _samples(*counts: int) -> tuple[Case, ...]:
    return tuple(Case("sample", count) for count in counts)


def _vectors(schema: Schema, capacity: int, samples: tuple[int, ...], extends: tuple[int, ...]) -> list[Group]:
    one = Group(schema, capacity, 1, (Case("add", 1), *_samples(*samples)))
    return [one, *(Group(schema, capacity, count, (Case("extend", count),)) for count in extends)]


def groups(quick: bool) -> list[Group]:
    """All that is run, in order."""
    found = []
    for schema in (OBS4, OBS27):
        for capacity in (100_000,) if quick else (100_000, 1_000_000):
            found += _vectors(schema, capacity, (32, 256) if quick else (32, 64, 256, 1024), (128, 10_000))
    slots = QUICK_FRAMES if quick else FRAMES_KEPT
    frames = Group(FRAMES, slots, 1, (Case("add", 1), *_samples(32, 256)))
    return [*found, Group(MIXED, slots, 1, _samples(256)), frames]


def reduced(quick: bool) -> list[str]:
    """What is smaller than in the workloads that others publish, and why."""
    slots = QUICK_FRAMES if quick else FRAMES_KEPT
    lines = [f"Frames of (84, 84, 4): {slots:,} slots, not 1,000,000: with next_obs a million is 56 GB for each "
             "contestant, and all hold theirs at once.",
             "Vectors: at most 1,000,000 slots; those of 10 and 346 million that others publish are left out, as are "
             "slices, sequences and priorities, which not every contestant has."]
    short = "--quick: 100,000 slots alone, two sizes of draw, fewer frames, shorter samples: figures for orientation."
    return [*lines, short] if quick else lines


def _bytes_of(tags: np.ndarray, count: int) -> np.ndarray:
    """(len(tags), count) uint8: the tag's three low bytes, again and again."""
    return (tags[:, np.newaxis] >> (8 * (np.arange(count) % 3)) & 255).astype(np.uint8)


def _flag(name: str, tags: np.ndarray) -> np.ndarray:
    return tags % 7 == 3 if name == "truncated" else tags % 5 == 0


def _field(name: str, shape: tuple[int, ...], dtype: np.dtype, tags: np.ndarray) -> np.ndarray:
    """(len(tags), *shape). A successor differs from its observation in every number."""
    count, is_next = int(np.prod(shape)), name == "next_obs"
    if dtype.kind == "b":
        values = _flag(name, tags)
    elif dtype.kind == "u":
        values = _bytes_of(tags, count) ^ np.uint8(255 if is_next else 0)
    else:
        values = tags[:, np.newaxis] + np.arange(count) + (0.5 if is_next else 0)
    return np.ascontiguousarray(values.reshape(len(tags), *shape).astype(dtype))


def rows_of(schema: Schema, tags: np.ndarray) -> dict[str, np.ndarray]:
    """The transitions of these tags, (len(tags), ...) each field. Exact for tags below 2^23."""
    return {name: _field(name, shape, dtype, tags) for name, (shape, dtype) in schema.fields.items()}


def tags_of(schema: Schema, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Which transitions the rows say they are, (count) int64."""
    values = np.asarray(rows[schema.tag], np.float64)
    return np.rint(values.reshape(len(values), -1)[:, 0]).astype(np.int64)
