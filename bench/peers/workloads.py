# SPDX-License-Identifier: MIT
"""What every contestant is made to do, and the transitions it does it with.

Transition number i is a function of i alone, its tag, in every number of every field: so a row that was drawn shows
whether its fields belong together, and which transition it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import history
import numpy as np

FRAME_BYTES = 1000  # from here on a row is pixels, and fewer are added at once
FRAMES_KEPT, QUICK_FRAMES = 10_000, 1_000
WIDE_KEPT = 1_000  # rows of 226 kB
STACKS_KEPT = 50_000  # rows of 56 kB, which some keep whole


class Schema(NamedTuple):
    """The fields of a transition: name: (shape, dtype). `tag` is a float field that tells the transition. `envs`: how
    many environments a step is of; with more than one no episode ends, so that none of their rows is a reset's.
    `reward`: the type that one environment's step gives it. `episode`: steps of each episode, where an
    observation is the successor of the step before (history.py): images are stacks of the newest frames. Else 0."""

    name: str
    fields: dict[str, tuple[tuple[int, ...], np.dtype]]
    tag: str = "reward"
    envs: int = 1
    reward: type = float
    episode: int = 0

    @property
    def row_bytes(self) -> int:
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.fields.values())


class Case(NamedTuple):
    """One figure: `operation` is "add" (one transition), "step" (of `count` environments), "extend", "sample", "update"
    (priorities) or "turn" (a draw, then new priorities for what was drawn), each of `count`; "save" or "load" (all)."""

    operation: str
    count: int

    @property
    def is_file(self) -> bool:
        """A matter of seconds, not of microseconds."""
        return self.operation in ("save", "load")

    @property
    def name(self) -> str:
        if self.operation == "step":
            return f"add 1 step of {self.count} environments"
        if self.operation == "add" or self.is_file:
            return "add 1" if self.operation == "add" else self.operation
        return f"{'sample + update' if self.operation == 'turn' else self.operation} {self.count:,}"


class Group(NamedTuple):
    """Cases that one filled buffer of each contestant serves. `chunk`: how many transitions come at once. `kind`: what
    is compared, of adapters.KINDS."""

    schema: Schema
    capacity: int
    chunk: int
    cases: tuple[Case, ...]
    kind: str = "uniform"

    @property
    def name(self) -> str:
        made = {"prioritized": ", by priority", "trees": ", priorities alone", "files": ", a file", "returns": ", by "
                "priority, returns of 3 steps", "once": ", kept once"}.get(self.kind, "")
        return f"{self.schema.name}, {self.capacity:,} slots{made}"


def transition(name: str, shape: tuple[int, ...], dtype: type, envs: int = 1, reward: type = float) -> Schema:
    """Gymnasium's six fields around observations of this shape; actions as its Discrete spaces draw them."""
    obs, flag = (shape, np.dtype(dtype)), ((), np.dtype(np.bool_))
    fields = {"obs": obs, "action": ((), np.dtype(np.int64)), "reward": ((), np.dtype(np.float32)), "next_obs": obs,
              "terminated": flag, "truncated": flag}
    return Schema(name, fields, envs=envs, reward=reward)


OBS4 = transition("obs (4) float32", (4,), np.float32)
OBS4_OF_8 = transition("obs (4) float32, 8 at a time", (4,), np.float32, envs=8)
OBS27 = transition("obs (27) float32", (27,), np.float32, reward=np.float64)
WIDE = transition("obs (28,224) float32", (28_224,), np.float32)
IMAGES = transition("obs (32, 32, 3) uint8", (32, 32, 3), np.uint8)
FRAMES = transition("obs (84, 84, 4) uint8", (84, 84, 4), np.uint8)
MIXED = Schema("{(5) float32, (3, 32, 32) uint8}", {"state": ((5,), np.dtype(np.float32)),
                                                    "pixels": ((3, 32, 32), np.dtype(np.uint8))}, "state")
SCHEMAS = (OBS4, OBS4_OF_8, OBS27, WIDE, MIXED, IMAGES, FRAMES)
STACKS = FRAMES._replace(name="stacks of 4 frames (84, 84) uint8", episode=128)
FOLLOWING = OBS27._replace(name="obs (27) float32 of episodes", tag="obs", episode=128)
NUMBER = Schema("1 number", {"number": ((), np.dtype(np.float32))}, "number")

def _samples(*counts: int) -> tuple[Case, ...]:
    return tuple(Case("sample", count) for count in counts)


def _vectors(schema: Schema, capacity: int, samples: tuple[int, ...], extends: tuple[int, ...]) -> list[Group]:
    one = Group(schema, capacity, 1, (Case("add", 1), *_samples(*samples)))
    return [one, *(Group(schema, capacity, count, (Case("extend", count),)) for count in extends)]


def _wide() -> list[Group]:
    return [Group(OBS4_OF_8, 100_000, 8, (Case("step", 8),)),
            Group(WIDE, WIDE_KEPT, 1, (Case("add", 1), *_samples(32)))]


def _pixels(slots: int) -> list[Group]:
    return [Group(MIXED, slots, 1, _samples(256)),
            Group(IMAGES, slots, 1, (Case("add", 1), *_samples(256))),
            Group(IMAGES, slots, 128, (Case("extend", 128),)),
            Group(FRAMES, slots, 1, (Case("add", 1), *_samples(32, 256))),
            Group(FRAMES, QUICK_FRAMES, 128, (Case("extend", 128),))]


def _priorities(schema: Schema, capacity: int, chunk: int, counts: tuple[int, ...], kind: str) -> Group:
    cases = tuple(Case(operation, count) for count in counts for operation in ("sample", "update", "turn"))
    return Group(schema, capacity, chunk, cases, kind)


def _prioritized(quick: bool) -> list[Group]:
    rows, trees = (100_000, (100_000,)) if quick else (1_000_000, (1_000_000, 10_000_000))
    counts = (32, 1024) if quick else (32, 256, 1024, 65_536)
    return [_priorities(OBS27, rows, 128, counts, "prioritized"),
            *(_priorities(NUMBER, slots, 10_000, counts, "trees") for slots in trees)]


def _frames(quick: bool) -> list[Group]:
    samples = _samples(*((32,) if quick else (32, 512)))
    return [Group(STACKS, QUICK_FRAMES if quick else STACKS_KEPT, 1, (*samples, Case("add", 1)), "frames")]


def _steps(quick: bool) -> list[Group]:
    """Where episodes are followed."""
    slots, cases = 100_000 if quick else 1_000_000, (Case("add", 1), *_samples(*((32,) if quick else (32, 256))))
    return [Group(FOLLOWING, slots, 1, cases, kind) for kind in ("returns", "drop-in", "once")]


def _files(quick: bool) -> list[Group]:
    slots = 100_000 if quick else 1_000_000
    return [Group(OBS27, slots, 10_000, (Case("save", slots), Case("load", slots)), "files")]


def groups(quick: bool, kinds: tuple[str, ...] = ("uniform",)) -> list[Group]:
    """All that is run of these kinds (adapters.KINDS), in order."""
    found = (_uniform(quick) if "uniform" in kinds else []) + _prioritized(quick) + _frames(quick)
    found += _steps(quick) + _files(quick)
    return [group for group in found if group.kind in kinds]


def _uniform(quick: bool) -> list[Group]:
    found = []
    for schema in (OBS4, OBS27):
        for capacity in (100_000,) if quick else (100_000, 1_000_000):
            found += _vectors(schema, capacity, (32, 256) if quick else (32, 64, 256, 1024), (128, 10_000))
    return [*found, *_wide(), *_pixels(QUICK_FRAMES if quick else FRAMES_KEPT)]


def reduced(quick: bool) -> list[str]:
    """What is smaller than in the workloads that others publish, and why."""
    slots = QUICK_FRAMES if quick else FRAMES_KEPT
    lines = [f"Frames of (84, 84, 4): {slots:,} slots, not 1,000,000: with next_obs a million is 56 GB for each "
             f"contestant, and all hold theirs at once; {QUICK_FRAMES:,} where blocks of 128 are added. Images of "
             f"(32, 32, 3): {slots:,}, not 500,000. Observations of 28,224 numbers: {WIDE_KEPT:,} slots.",
             "Vectors: at most 1,000,000 slots; those of 10 and 346 million that others publish are left out, as are "
             "slices and sequences, which not every contestant has. Priorities: 10 million for the trees alone, beside "
             f"one number a row. Stacks of frames: {QUICK_FRAMES if quick else STACKS_KEPT:,}."]
    short = "--quick: 100,000 slots alone, two sizes of draw, fewer frames, shorter samples: figures for orientation."
    return [*lines, short] if quick else lines


def _bytes_of(tags: np.ndarray, count: int) -> np.ndarray:
    """(len(tags), count) uint8: the tag's three low bytes, again and again."""
    low = (tags[:, np.newaxis] >> (8 * np.arange(3)) & 255).astype(np.uint8)
    return np.tile(low, -(-count // 3))[:, :count]


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
    rows = {name: _field(name, shape, dtype, tags) for name, (shape, dtype) in schema.fields.items()}
    if schema.episode:
        shape, dtype = schema.fields["obs"]
        make = history.stacks if dtype.kind == "u" else history.numbers
        rows.update(make(shape, schema.episode, tags))
    if schema.envs > 1:
        rows.update((name, np.zeros(len(tags), np.bool_)) for name in ("terminated", "truncated"))
    return rows


def step_of(schema: Schema, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """The first rows as a Gymnasium environment's `step` and its `action_space.sample()` return them: one environment
    as CartPole-v1, NumPy's int64 for the action, Python's float and bools (a float64 of NumPy's for the reward, as
    MuJoCo's, where the schema says so); several as its vector environment, arrays of all."""
    if schema.envs > 1:
        return {name: array[:schema.envs] for name, array in rows.items()}
    made = {"reward": schema.reward, "terminated": bool, "truncated": bool}
    return {name: made[name](array[0]) if name in made else array[0] for name, array in rows.items()}


def tags_of(schema: Schema, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Which transitions the rows say they are, (count) int64."""
    values = np.asarray(rows[schema.tag], np.float64)
    return np.rint(values.reshape(len(values), -1)[:, 0]).astype(np.int64)
