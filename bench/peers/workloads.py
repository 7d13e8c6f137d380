# SPDX-License-Identifier: MIT
"""What every library is made to do, and the transitions it does it with.

Transition number i is a function of i alone, its tag, in every number of every field: so a row that was sampled shows
whether its fields belong together, and which transition it is.

Some sizes are smaller than in the workloads that others publish, since all libraries hold their buffers at once: frames
of (84, 84, 4) have 10,000 slots and not 1,000,000, images of (32, 32, 3) 10,000 and not 500,000, vectors 1,000,000 at
most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

STACK = (84, 84, 4)
FRAME_BYTES = 1000  # rows of more bytes are pixels, and fewer are added at once
FRAMES_SLOTS, QUICK_FRAMES_SLOTS = 10_000, 1_000
WIDE_SLOTS = 1_000  # rows of 226 kB
STACKS_SLOTS = 50_000  # rows of 56 kB, which some libraries store whole


class Schema(NamedTuple):
    """The fields of a transition: name: (shape, dtype). `tag` is a float field that identifies the transition. `envs`:
    how many environments a step is of; with more than one no episode ends, so that none of their rows is a reset's.
    `reward`: the type that one environment's step gives it. `episode`: steps of each episode where an observation is
    the successor of the step before, in which images are stacks of the newest frames; else 0."""

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
    (priorities) or "sample + update" (a sample, then new priorities for what was sampled), each of `count`; "save" or
    "load" (all)."""

    operation: str
    count: int

    @property
    def is_file(self) -> bool:
        return self.operation in ("save", "load")

    @property
    def name(self) -> str:
        if self.operation == "step":
            return f"add 1 step of {self.count} environments"
        if self.operation == "add" or self.is_file:
            return "add 1" if self.operation == "add" else self.operation
        return f"{self.operation} {self.count:,}"


class Group(NamedTuple):
    """Cases that one filled buffer of each library serves. `chunk`: how many transitions come at once. `kind`: of
    adapters.KINDS."""

    schema: Schema
    capacity: int
    chunk: int
    cases: tuple[Case, ...]
    kind: str = "uniform"

    @property
    def name(self) -> str:
        words = {"prioritized": ", by priority", "trees": ", priorities alone", "files": ", a file", "returns": ", by "
                 "priority, returns of 3 steps", "once": ", stored once", "sequences": ", sequences of 100",
                 "extension": ", with and without the extension module"}.get(self.kind, "")
        return f"{self.schema.name}, {self.capacity:,} slots{words}"


def _transition(name: str, shape: tuple[int, ...], dtype: type, envs: int = 1, reward: type = float) -> Schema:
    """Gymnasium's six fields around observations of this shape; actions as its Discrete spaces sample them."""
    obs, flag = (shape, np.dtype(dtype)), ((), np.dtype(np.bool_))
    fields = {"obs": obs, "action": ((), np.dtype(np.int64)), "reward": ((), np.dtype(np.float32)), "next_obs": obs,
              "terminated": flag, "truncated": flag}
    return Schema(name, fields, envs=envs, reward=reward)


OBS4 = _transition("obs (4) float32", (4,), np.float32)
OBS4_OF_8 = _transition("obs (4) float32, 8 at a time", (4,), np.float32, envs=8)
OBS27 = _transition("obs (27) float32", (27,), np.float32, reward=np.float64)
WIDE = _transition("obs (28,224) float32", (28_224,), np.float32)
IMAGES = _transition("obs (32, 32, 3) uint8", (32, 32, 3), np.uint8)
FRAMES = _transition("obs (84, 84, 4) uint8", STACK, np.uint8)
MIXED = Schema("{(5) float32, (3, 32, 32) uint8}", {"state": ((5,), np.dtype(np.float32)),
                                                    "pixels": ((3, 32, 32), np.dtype(np.uint8))}, "state")
STACKS = FRAMES._replace(name="stacks of 4 frames (84, 84) uint8", episode=128)
FOLLOWING = OBS27._replace(name="obs (27) float32 of episodes", tag="obs", episode=128)
ONE_EPISODE = FOLLOWING._replace(name="obs (27) float32 of one episode", episode=2**40)
NUMBER = Schema("1 number", {"number": ((), np.dtype(np.float32))}, "number")


def _samples(*counts: int) -> tuple[Case, ...]:
    return tuple(Case("sample", count) for count in counts)


def _uniform(quick: bool) -> list[Group]:
    found, slots = [], QUICK_FRAMES_SLOTS if quick else FRAMES_SLOTS
    for schema in (OBS4, OBS27):
        for capacity in (100_000,) if quick else (100_000, 1_000_000):
            samples = _samples(*((32, 256) if quick else (32, 64, 256, 1024)))
            found.append(Group(schema, capacity, 1, (Case("add", 1), *samples)))
            found += [Group(schema, capacity, count, (Case("extend", count),)) for count in (128, 10_000)]
    return [*found, Group(OBS4_OF_8, 100_000, 8, (Case("step", 8),)),
            Group(WIDE, WIDE_SLOTS, 1, (Case("add", 1), *_samples(32))),
            Group(MIXED, slots, 1, _samples(256)),
            Group(IMAGES, slots, 1, (Case("add", 1), *_samples(256))),
            Group(IMAGES, slots, 128, (Case("extend", 128),)),
            Group(FRAMES, slots, 1, (Case("add", 1), *_samples(32, 256))),
            Group(FRAMES, QUICK_FRAMES_SLOTS, 128, (Case("extend", 128),))]


def _prioritized(quick: bool) -> list[Group]:
    rows, trees = (100_000, (100_000,)) if quick else (1_000_000, (1_000_000, 10_000_000))
    counts = (32, 1024) if quick else (32, 256, 1024, 65_536)
    cases = tuple(Case(operation, count) for count in counts for operation in ("sample", "update", "sample + update"))
    return [Group(OBS27, rows, 128, cases, "prioritized"),
            *(Group(NUMBER, slots, 10_000, cases, "trees") for slots in trees)]


def groups(quick: bool, kinds: tuple[str, ...]) -> list[Group]:
    """All that is run of these kinds, in order."""
    slots, samples = 100_000 if quick else 1_000_000, _samples(*((32,) if quick else (32, 256)))
    found = _uniform(quick) + _prioritized(quick)
    found.append(Group(STACKS, QUICK_FRAMES_SLOTS if quick else STACKS_SLOTS, 1,
                       (*_samples(*((32,) if quick else (32, 512))), Case("add", 1)), "frames"))
    found.append(Group(ONE_EPISODE, slots, 128, samples, "sequences"))
    found += [Group(FOLLOWING, slots, 1, (Case("add", 1), *samples), kind) for kind in ("returns", "drop-in", "once")]
    found += [Group(schema, 100_000, chunk, cases, "extension") for schema, chunk, cases in (
        (OBS4, 1, (Case("add", 1), *_samples(32, 256))), (OBS4, 256, (Case("extend", 256),)),
        (OBS4_OF_8, 8, (Case("step", 8),)))]
    found.append(Group(OBS27, slots, 10_000, (Case("save", slots), Case("load", slots)), "files"))
    return [group for group in found if group.kind in kinds]


def _bytes_of(tags: np.ndarray, count: int) -> np.ndarray:
    """(len(tags), count) uint8: the tag's three low bytes, again and again."""
    low = (tags[:, np.newaxis] >> (8 * np.arange(3)) & 255).astype(np.uint8)
    return np.tile(low, -(-count // 3))[:, :count]


def _field(name: str, shape: tuple[int, ...], dtype: np.dtype, tags: np.ndarray) -> np.ndarray:
    """(len(tags), *shape). A successor differs from its observation in every number."""
    count, is_next = int(np.prod(shape)), name == "next_obs"
    if dtype.kind == "b":
        values = tags % 7 == 3 if name == "truncated" else tags % 5 == 0
    elif dtype.kind == "u":
        values = _bytes_of(tags, count) ^ np.uint8(255 if is_next else 0)
    else:
        values = tags[:, np.newaxis] + np.arange(count) + (0.5 if is_next else 0)
    return np.ascontiguousarray(values.reshape(len(tags), *shape).astype(dtype))


def _stacks(episode: int, tags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """obs and next_obs: stacks of the newest frames, the newest last, as Gymnasium's FrameStackObservation makes them,
    padded with an episode's first frame. No frame is like another."""
    height, width, stack = STACK
    number, step = np.divmod(tags, episode)

    def seen(newest: np.ndarray) -> np.ndarray:
        in_episode = np.maximum(newest[:, np.newaxis] + np.arange(-stack + 1, 1), 0)
        frames = _bytes_of((number[:, np.newaxis] * (episode + 1) + in_episode).ravel(), height * width)
        stacked = np.moveaxis(frames.reshape(len(tags), stack, height * width), -2, -1)
        return np.ascontiguousarray(stacked.reshape(len(tags), *STACK))

    return seen(step), seen(step + 1)


def _successors(shape: tuple[int, ...], tags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """obs and next_obs: (len(tags), *shape) float32, of which the first number is the transition's."""
    obs = (tags[:, np.newaxis] + np.arange(int(np.prod(shape)))).reshape(len(tags), *shape).astype(np.float32)
    return obs, obs + np.float32(1)


def rows_of(schema: Schema, tags: np.ndarray) -> dict[str, np.ndarray]:
    """The transitions of these tags, (len(tags), ...) each field. Exact for tags below 2^23."""
    rows = {name: _field(name, shape, dtype, tags) for name, (shape, dtype) in schema.fields.items()}
    if schema.episode:
        shape, dtype = schema.fields["obs"]
        rows["obs"], rows["next_obs"] = _stacks(schema.episode, tags) if dtype.kind == "u" else _successors(shape, tags)
        rows["terminated"] = tags % schema.episode == schema.episode - 1
        rows["truncated"] = np.zeros(len(tags), np.bool_)
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
