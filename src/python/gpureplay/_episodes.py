# SPDX-License-Identifier: MIT
"""Episodes of single steps: how they get into a buffer, and how they are found again in what it holds."""

from __future__ import annotations

import heapq
import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from . import _c_api
from ._buffer import ReplayBuffer
from ._device import caller_depth
from ._flatten import Flattener
from ._inputs import convert
from ._lanes import LaneBuffer
from ._library import InvalidArgument
from ._schema import PREVIOUS, STEP_REWARD, Field
from ._spaces import kind_of, parts_of
from ._writer import Writer

Buffer = Union[ReplayBuffer, LaneBuffer]
Leaves = dict[str, np.ndarray]
Progress = Callable[[int, int], Any]  # is called with the steps done and the steps in all

_OBS, _NEXT_OBS, _ACTION = "obs", "next_obs", "action"
_ENDS = ("terminated", "truncated")
_STAGE_BYTES = 2**25  # of the steps that are laid out for lanes at a time
_ROWS_AT_A_TIME = 4096
_STEPS_OF_A_FINAL = 24  # of lanes, for each of which there is room for a final observation [gpureplay/lanes.h]


def needed(module: str, what: str, package: str | None = None) -> Any:
    """A module that `what` needs. ModuleNotFoundError: it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = package or module.partition(".")[0]
        raise ModuleNotFoundError(f"{what} needs {package}, which is not installed: {error}; `pip install "
                                  f"{package}`", name=module) from error


class Episode(NamedTuple):
    """The steps of an episode, or of a part of it. Observations and actions have an array for each leaf of their space,
    by the rest of its field's name: "" where the space is one array, else ".key"."""

    obs: Leaves  # (steps + 1, ...)
    action: Leaves  # (steps, ...)
    reward: np.ndarray  # (steps,)
    terminated: np.ndarray
    truncated: np.ndarray
    extras: Leaves  # (steps, ...) other fields by name

    @property
    def steps(self) -> int:
        return len(self.reward)


class Episodes(NamedTuple):
    """Those of a data set, which are read one by one."""

    lengths: np.ndarray  # the steps of each
    each: Iterator[Episode]


# Spaces of several arrays.


def is_leaf_of(name: str, root: str) -> bool:
    """Whether a field is `root` or a leaf of it."""
    return name == root or name.startswith(f"{root}.")


def leaves_of(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a dict or tuple, by the names of their leaves."""
    if isinstance(value, (Mapping, tuple)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from leaves_of(part, f"{name}.{key}")
    else:
        yield name, np.asarray(value)


def nested(space: Any, leaves: Leaves, name: str = "") -> Any:
    """The reverse of `leaves_of`, with the dtypes of the space."""
    kind = kind_of(space)
    if kind in ("Dict", "Tuple"):
        parts = {key: nested(part, leaves, f"{name}.{key}") for key, part in parts_of(space)}
        return parts if kind == "Dict" else tuple(parts.values())
    if name not in leaves:
        raise ValueError(f"the space is {space}, and the buffer has no array {name[1:]!r} of it; it has "
                         f"{', '.join(leaf[1:] or 'one array' for leaf in leaves)}")
    array = leaves[name]
    if array.shape[1:] != tuple(space.shape):
        raise ValueError(f"the space is {space}, of shape {tuple(space.shape)}, and the buffer's arrays have "
                         f"{array.shape[1:]}; they must be the same")
    return array.astype(space.dtype, copy=False)


def _vectors(space: Any, leaves: Leaves, name: str = "") -> Iterator[np.ndarray]:
    """(count, n) float32 of each leaf, in the order and the form of gymnasium.spaces.flatten."""
    kind = kind_of(space)
    if kind in ("Dict", "Tuple"):
        for key, part in parts_of(space):
            yield from _vectors(part, leaves, f"{name}.{key}")
        return
    if name not in leaves:
        raise TypeError(f"the space of the buffer's observations has a part {name[1:]!r}, and the data set none; it "
                        f"has {', '.join(leaf[1:] or 'one array' for leaf in leaves)}")
    array = leaves[name]
    if kind not in ("Discrete", "MultiDiscrete"):
        yield array.reshape(len(array), -1)
        return
    counts, starts = np.ravel(space.n if kind == "Discrete" else space.nvec), np.ravel(getattr(space, "start", 0))
    numbers = array.reshape(len(array), -1) - starts
    if array.dtype.kind not in "iu" or (numbers < 0).any() or (numbers >= counts).any():
        raise ValueError(f"observations have {array.min()} to {array.max()} of {array.dtype}, which are not all in "
                         f"their space, {space}")
    for at, count in enumerate(counts):
        yield np.eye(int(count), dtype=np.float32)[numbers[:, at]]


def _unflattened(space: Any, vectors: np.ndarray, name: str = "") -> tuple[Leaves, np.ndarray]:
    """The reverse: the leaves, and the rest of the vectors, which have more numbers than the space."""
    kind, count = kind_of(space), len(vectors)
    if kind in ("Dict", "Tuple"):
        found: Leaves = {}
        for key, part in parts_of(space):
            leaves, vectors = _unflattened(part, vectors, f"{name}.{key}")
            found.update(leaves)
        return found, vectors
    if kind not in ("Discrete", "MultiDiscrete"):
        size = math.prod(space.shape)
        return {name: vectors[:, :size].reshape(count, *space.shape).astype(space.dtype)}, vectors[:, size:]
    counts, starts = np.ravel(space.n if kind == "Discrete" else space.nvec), np.ravel(getattr(space, "start", 0))
    columns = []
    for values in counts:
        columns.append(vectors[:, :values].argmax(axis=1))
        vectors = vectors[:, values:]
    numbers = (np.stack(columns, axis=1) + starts).reshape(count, *space.shape)
    return {name: numbers.astype(space.dtype)}, vectors


def flattened(flattener: Flattener | None, leaves: Leaves) -> Leaves:
    """Observations as the buffer stores them."""
    if flattener is None or (set(leaves) == {""} and leaves[""].shape[1:] == flattener.field.shape
                             and leaves[""].dtype.kind == "f"):
        return leaves
    return {"": np.concatenate([part.astype(np.float32) for part in _vectors(flattener.space, leaves)], axis=1)}


# Into a buffer.


def column(field: Field, array: Any, count: int) -> np.ndarray:
    """(count, ...) of the field's dtype. ValueError, TypeError: it cannot be."""
    found = convert(np.asarray(array), field)
    if {found.shape[1:], field.shape} == {(), (1,)}:
        found = found.reshape(len(found), *field.shape)
    if found.shape != (count, *field.shape):
        raise ValueError(f"{field.name} has shape {found.shape}; it must be {(count, *field.shape)}")
    return found


def refuse_fields(wanted: Sequence[str], given: Sequence[str]) -> None:
    """TypeError: the data set lacks a field, or has parts of obs or action that the buffer has not."""
    unknown = [name for name in given if name not in wanted and (is_leaf_of(name, _OBS) or is_leaf_of(name, _ACTION))]
    missing = [name for name in wanted if name not in given]
    if missing or unknown:
        raise TypeError(f"the data set lacks {missing} and has {unknown} beyond; the buffer's fields are "
                        f"{', '.join(wanted)}, and the data set has {', '.join(given)}")


def _columns(fields: list[Field], flattener: Flattener | None, episode: Episode, gamma: float
             ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """By the names of fields: observations (steps + 1, ...), and the rest (steps, ...), next_obs left out."""
    steps = episode.steps
    obs = {_OBS + leaf: array for leaf, array in flattened(flattener, episode.obs).items()}
    rest = {**episode.extras, **{_ACTION + leaf: array for leaf, array in episode.action.items()},
            "reward": episode.reward, "terminated": episode.terminated, "truncated": episode.truncated}
    if "discount" not in rest:
        rest["discount"] = np.where(episode.terminated, np.float32(0), np.float32(gamma))
    wanted = [field for field in fields if not is_leaf_of(field.name, _NEXT_OBS)]
    refuse_fields([field.name for field in wanted], [*obs, *rest])
    found = {field.name: column(field, {**rest, **obs}[field.name], steps + (field.name in obs)) for field in wanted}
    return {name: found.pop(name) for name in obs}, found


def overwritten(buffer: Buffer) -> int:
    """Transitions, or steps of lanes, that were overwritten so far."""
    if isinstance(buffer, LaneBuffer):
        return max(0, buffer.stats.steps - buffer.steps)
    return buffer.stats.evicted


def tell_overwritten(buffer: Buffer, before: int) -> None:
    """Warns of what a full buffer has overwritten since `overwritten` was `before`."""
    lost = overwritten(buffer) - before
    if lost > 0:
        what, room = (f"{lost} steps of each lane", f"its steps are {buffer.steps}") \
            if isinstance(buffer, LaneBuffer) else (f"{lost} transitions", f"its capacity is {buffer.capacity}")
        warnings.warn(f"the buffer was full, so that {what} were overwritten; {room}, and with more it keeps them",
                      RuntimeWarning, stacklevel=caller_depth())


def fill(buffer: Buffer, episodes: Episodes, progress: Progress | None) -> None:
    """Adds episodes to a buffer. ValueError: all of them are more than it can hold. Nothing was added."""
    before = overwritten(buffer)
    _fill(buffer, episodes, progress)
    tell_overwritten(buffer, before)


def _fill(buffer: Buffer, episodes: Episodes, progress: Progress | None) -> None:
    if isinstance(buffer, LaneBuffer):
        _fill_lanes(buffer, episodes, progress)
        return
    steps, done = int(episodes.lengths.sum()), 0
    refuse_capacity(buffer.capacity, steps)
    with_writer = _Filler(buffer)
    try:
        for episode in episodes.each:
            if episode.steps > 0:
                with_writer.add(episode)
            done += episode.steps
            if progress is not None:
                progress(done, steps)
    finally:
        with_writer.writer.close()


def refuse_capacity(capacity: int, rows: int) -> None:
    """ValueError: a buffer of this capacity cannot hold the rows of a data set."""
    if rows > capacity:
        raise ValueError(f"capacity is {capacity} and the data set has {rows} transitions; capacity must be at least "
                         "as many")


class _Filler:
    """Adds episodes by a writer of its own."""

    def __init__(self, buffer: ReplayBuffer):
        self.writer: Writer = buffer.writer(1, "disabled")
        config, self._flattener = buffer._spec.config, buffer._flattener
        self._tracker, self._links, self._gamma = self.writer._tracker, buffer._spec.sequences, float(config.gamma)
        is_finished = config.n_step == 1 and config.layout == _c_api.LAYOUT_ROWS  # a step is a transition
        names = {field.name for field in buffer.fields}
        self._by_block = is_finished and (self._tracker is None or (self._links and "truncated" in names))
        self._fields = self.writer._fields if self._by_block or self._tracker is None else self._tracker.fields

    def add(self, episode: Episode) -> None:
        obs, rest = _columns(self._fields, self._flattener, episode, self._gamma)
        if not self._by_block:
            self._add_steps(obs[_OBS], rest)
            return
        before = {name: array[:-1] for name, array in obs.items()}
        after = {f"next_{name}": array[1:] for name, array in obs.items()}
        self.writer.extend(**before, **rest, **after)
        if self._links and self._tracker is None:
            self.writer.reset()

    def _add_steps(self, obs: np.ndarray, rest: dict[str, np.ndarray]) -> None:
        add, columns = self.writer.add, list(rest.items())
        for t in range(len(obs) - 1):
            add(obs=obs[t:t + 1], next_obs=obs[t + 1:t + 2], **{name: array[t:t + 1] for name, array in columns})
        if not any(rest[name][-1].any() for name in _ENDS):
            self.writer.reset()


# Into lanes: each plays one episode after another.


class _Dealt(NamedTuple):
    """Episodes dealt to lanes, each to the one that is free first."""

    lanes: list[int]  # of each episode
    starts: list[int]  # the number of its first step in its lane; they never fall
    end: int  # of the longest lane


def _deal(lengths: np.ndarray, num_lanes: int) -> _Dealt:
    free = [(0, lane) for lane in range(num_lanes)]
    dealt = _Dealt([], [], 0)
    for length in lengths.tolist():
        start, lane = heapq.heappop(free)
        heapq.heappush(free, (start + length, lane))
        dealt.lanes.append(lane)
        dealt.starts.append(start)
    return dealt._replace(end=max(end for end, _ in free))


def _fill_lanes(buffer: LaneBuffer, episodes: Episodes, progress: Progress | None) -> None:
    later = int(buffer._resets_later)  # the step that resets
    dealt = _deal(episodes.lengths + later, buffer.num_lanes)
    if dealt.end > buffer.steps:
        raise ValueError(f"steps is {buffer.steps} and the data set's {len(episodes.lengths)} episodes of "
                         f"{episodes.lengths.sum()} transitions need {dealt.end} in {buffer.num_lanes} lanes; steps "
                         "must be at least as many")
    room = buffer.num_lanes * max(2, -(-buffer.steps // _STEPS_OF_A_FINAL))
    if not later and len(episodes.lengths) > room:
        raise ValueError(f"steps is {buffer.steps}, so that there is room for {room} final observations, and the data "
                         f"set has {len(episodes.lengths)} episodes; steps must be more, or autoreset \"next_step\", "
                         "with which final observations are steps")
    fields = [field for field in buffer.fields if not is_leaf_of(field.name, _NEXT_OBS)]
    finals = [name for name in buffer._finals if not is_leaf_of(name, f"final_{_OBS}")]
    if finals:
        raise TypeError(f"the buffer takes {finals[0]}, which the data set has not; its only final observations are "
                        "those of obs")
    _LaneFiller(buffer, fields).fill(episodes, dealt, progress)
    buffer.reset()


class _LaneFiller:
    """Lays out the steps of all lanes in stages of some steps each."""

    def __init__(self, buffer: LaneBuffer, fields: list[Field]):
        self._buffer, self._fields, self._later = buffer, fields, buffer._resets_later
        self._finals = [] if self._later else [field for field in fields if f"final_{field.name}" in buffer._finals]
        size = sum(field.dtype.itemsize * math.prod(field.shape) for field in fields) * buffer.num_lanes
        self._ticks = max(1, min(1024, _STAGE_BYTES // size))

    def fill(self, episodes: Episodes, dealt: _Dealt, progress: Progress | None) -> None:
        steps, done, following = int(episodes.lengths.sum()), 0, 0
        playing: list[tuple[int, int, Any, Any]] = []
        for first in range(0, dealt.end, self._ticks):
            ticks = min(self._ticks, dealt.end - first)
            while following < len(dealt.starts) and dealt.starts[following] < first + ticks:
                columns = _columns(self._fields, None, next(episodes.each), self._buffer.gamma)
                self._refuse_early_end(columns[1])
                playing.append((dealt.lanes[following], dealt.starts[following], *columns))
                following += 1
            done += self._add(first, ticks, playing)
            playing = [one for one in playing if one[1] + self._ticks_of(one[3]) > first + ticks]
            if progress is not None:
                progress(done, steps)

    def _refuse_early_end(self, rest: dict[str, np.ndarray]) -> None:
        """The step after an end resets, which this data set has no steps for."""
        if self._later and any(rest[name][:-1].any() for name in _ENDS):
            raise ValueError("an episode of the data set ends before its last step, and autoreset is \"next_step\"; "
                             "make the buffer with autoreset=\"same_step\"")

    def _ticks_of(self, rest: dict[str, np.ndarray]) -> int:
        return len(rest["reward"]) + int(self._later)

    def _add(self, first: int, ticks: int, playing: list[tuple[int, int, Any, Any]]) -> int:
        """Adds steps first ... first + ticks - 1 of all lanes. Returns how many are those of episodes."""
        lanes, done = self._buffer.num_lanes, 0
        stage = {field.name: np.zeros((ticks, lanes, *field.shape), field.dtype) for field in self._fields}
        finals = {field.name: np.zeros((ticks, lanes, *field.shape), field.dtype) for field in self._finals}
        is_idle = np.ones((ticks, lanes), np.bool_)
        for lane, start, obs, rest in playing:
            steps = len(rest["reward"])
            begin, end = max(start, first) - start, min(start + self._ticks_of(rest), first + ticks) - start
            place = slice(start + begin - first, start + end - first)
            is_idle[place, lane] = False
            done += min(end, steps) - begin
            for name, array in obs.items():
                stage[name][place, lane] = array[begin:end]
            for name, array in rest.items():
                stage[name][place.start:place.start + min(end, steps) - begin, lane] = array[begin:end]
            for name, array in finals.items():  # only those of steps that end an episode are read
                array[place, lane] = obs[name][begin + 1:end + 1]
        self._add_all({**stage, **{f"final_{name}": array for name, array in finals.items()}}, is_idle)
        return done

    def _add_all(self, stage: dict[str, np.ndarray], is_idle: np.ndarray) -> None:
        arrays = {name: self._placed(array) for name, array in stage.items()}
        idle = self._placed(is_idle)
        for tick, has_idle in enumerate(np.any(is_idle, axis=1).tolist()):
            self._buffer.add(**{name: array[tick] for name, array in arrays.items()})
            if has_idle:
                self._buffer.reset(idle[tick])

    def _placed(self, array: np.ndarray) -> Any:
        return on_device(self._buffer, array)


def on_device(buffer: LaneBuffer, array: np.ndarray) -> Any:
    """The array where the buffer reads it: on CUDA a tensor of PyTorch's."""
    if not buffer.device.is_cuda:
        return array
    return needed("torch", "a LaneBuffer on CUDA").from_numpy(array).to(buffer.device.name)


def on_host(array: Any) -> np.ndarray:
    """A copy that stays."""
    return np.array(array.cpu() if hasattr(array, "cpu") else array.get() if hasattr(array, "get") else array)


# Out of a buffer.


class Held(NamedTuple):
    """The transitions that a buffer holds, in the order of their ids."""

    ids: np.ndarray
    before: np.ndarray  # the place of the transition before in the episode; -1: it is not there
    begins: np.ndarray  # whether it is known to be the first of its episode
    ended: np.ndarray  # whether its flags say that the episode ended


def visible_ids(buffer: Buffer) -> np.ndarray:
    """The ids of what a buffer holds; those of lanes may be of steps that are no transitions."""
    if isinstance(buffer, LaneBuffer):
        steps, lanes = buffer.stats.steps, buffer.num_lanes
        return np.arange(max(0, steps - buffer.steps) * lanes, steps * lanes)
    buffer._flush_all()
    window = buffer._window()
    return np.arange(window.start, window.stop)


def read(buffer: Buffer, ids: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """The fields of transitions and their ids, in parts."""
    most = buffer.max_batch if isinstance(buffer, LaneBuffer) else int(buffer.config["max_batch"])
    for first in range(0, len(ids), most):
        yield _read_part(buffer, ids[first:first + most])


def _read_part(buffer: Buffer, ids: np.ndarray) -> dict[str, np.ndarray]:
    names = [*(field.name for field in buffer.fields), "id"]
    if isinstance(buffer, ReplayBuffer):
        batch: Any = buffer.gather(ids)
        return {name: np.array(batch[name]) for name in names}
    drawn = buffer.sample_sequences(len(ids), 1, last_ids=on_device(buffer, ids), n_step=1)
    return {name: on_host(drawn[name])[:, 0] for name in (*names, "is_first")}


def held_by(buffer: Buffer) -> Held:
    """Finds out which transitions follow each other. InvalidArgument: the buffer does not tell."""
    return _held_by_lanes(buffer) if isinstance(buffer, LaneBuffer) else _held_by_rows(buffer)


def _joined(parts: Iterator[tuple[np.ndarray, ...]], count: int) -> list[np.ndarray]:
    found = list(parts)
    return [np.concatenate(arrays) for arrays in zip(*found)] if found else [np.zeros(0, np.int64)] * count


def _is_ended(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    ended = np.zeros(len(rows["id"]), np.bool_)
    for name in _ENDS:
        if name in rows:
            ended |= rows[name].reshape(-1) != 0
    return ended


def _held_by_lanes(buffer: LaneBuffer) -> Held:
    parts = ((rows["id"], rows["is_first"], _is_ended(rows)) for rows in read(buffer, visible_ids(buffer)))
    ids, begins, ended = _joined(parts, 3)
    places = np.flatnonzero(ids >= 0)
    ids, begins, ended = ids[places], begins[places].astype(np.bool_), ended[places].astype(np.bool_)
    return Held(ids, np.where(begins, -1, places_of(ids, ids - buffer.num_lanes)), begins, ended)


def places_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where these ids are among `ids`, which rise; -1: nowhere."""
    if not len(ids):
        return np.zeros(0, np.int64)
    places = np.searchsorted(ids, wanted)
    return np.where(ids[np.minimum(places, len(ids) - 1)] == wanted, places, -1)


def _held_by_rows(buffer: ReplayBuffer) -> Held:
    ids, names = visible_ids(buffer), {field.name for field in buffer.fields}
    _refuse_rows(buffer, names)
    if PREVIOUS in buffer.fields:
        parts = ((rows["previous"], _is_ended(rows)) for rows in read(buffer, ids))
        previous, ended = _joined(parts, 2)
        return Held(ids, np.where(previous < 0, -1, places_of(ids, previous)), previous < 0, ended.astype(np.bool_))
    follows, ended = _joined(_following(read(buffer, ids)), 2)
    follows, ended = follows.astype(np.bool_), ended.astype(np.bool_)
    breaks = np.flatnonzero(~follows[1:] & ~ended[:-1])
    if len(breaks):
        raise InvalidArgument(f"transition {ids[breaks[0] + 1]} does not go on where {ids[breaks[0]]} left off, which "
                              "ended no episode: they are of several environments, or one was reset amid its episode. "
                              "Nothing tells which follow each other; make the buffer with keep_steps=True")
    begins = ~follows
    begins[:1] &= ids[:1] == 0
    return Held(ids, np.where(follows, np.arange(len(ids)) - 1, -1), begins, ended)


def _refuse_rows(buffer: ReplayBuffer, names: set[str]) -> None:
    missing = [root for root in (_OBS, _ACTION, "reward", _NEXT_OBS, "terminated")
               if not any(is_leaf_of(name, root) for name in names)]
    if missing:
        raise InvalidArgument(f"the buffer has no field {missing[0]!r}; episodes have obs, action, reward, next_obs "
                              "and terminated")
    n_step = buffer._spec.config.n_step
    if n_step > 1 and not buffer._spec.keep_steps:
        raise InvalidArgument(f"n_step is {n_step}, and rewards of so many steps are stored as their sum, of which "
                              "single ones cannot be told exactly; make the buffer with keep_steps=True")
    envs = sum(user.num_envs for user in buffer._users if isinstance(user, Writer) and not user.closed)
    if PREVIOUS not in buffer.fields and envs > 1:
        raise InvalidArgument(f"transitions of {envs} environments are stored in turns, and nothing tells which follow "
                              "each other; make the buffer with keep_steps=True")


def _following(parts: Iterator[dict[str, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Whether each row goes on where the one before left off, and whether it ends its episode."""
    last: dict[str, np.ndarray] | None = None
    for rows in parts:
        ended, pairs = _is_ended(rows), [name for name in rows if is_leaf_of(name, _OBS)]
        follows = np.zeros(len(ended), np.bool_)
        follows[1:] = ~ended[:-1]
        follows[0] = last is not None and not _is_ended(last)[0]
        for name in pairs:
            after = rows[f"next_{name}"]
            led_to = after[:1] if last is None else last[f"next_{name}"]
            follows &= equal_rows(rows[name], np.concatenate([led_to, after[:-1]]))
        last = {name: array[-1:] for name, array in rows.items()}
        yield follows, ended


def equal_rows(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(count,) bool: all numbers are equal. NaN is equal to NaN."""
    same = (one == other) | ((one != one) & (other != other))  # noqa: PLR0124: NaN alone differs from itself
    return np.asarray(same.reshape(len(one), -1).all(axis=1))


def chains_of(held: Held) -> Iterator[np.ndarray]:
    """The places of the transitions of each episode, in their order."""
    count = len(held.ids)
    heads = np.flatnonzero(held.before < 0)
    if np.array_equal(held.before[held.before >= 0] + 1, np.flatnonzero(held.before >= 0)):
        for first, end in zip(heads, [*heads[1:], count]):
            yield np.arange(first, end)
        return
    after = np.full(count, -1, np.int64)
    after[held.before[held.before >= 0]] = np.flatnonzero(held.before >= 0)
    following = after.tolist()
    for head in heads.tolist():
        chain = [head]
        while (place := following[chain[-1]]) >= 0:
            chain.append(place)
        yield np.array(chain)


class _Chain(NamedTuple):
    """The places of an episode's transitions."""

    places: np.ndarray
    is_whole: bool  # else the last one only has the observation after the step before

    @property
    def steps(self) -> int:
        return len(self.places) - (not self.is_whole)


def restored(buffer: Buffer, partial: bool) -> Episodes:
    """The episodes that a buffer holds, in the order of their first transitions. partial: also those whose first steps
    it no longer has. The last step of an episode that goes on is truncated. ValueError: there are none."""
    held, n_step = held_by(buffer), 1 if isinstance(buffer, LaneBuffer) else int(buffer._spec.config.n_step)
    found = [_Chain(places, n_step == 1 or bool(held.ended[places[-1]])) for places in chains_of(held)]
    chains = [chain for chain in found if chain.steps > 0 and (partial or held.begins[chain.places[0]])]
    left_out = sum(chain.steps for chain in found) - sum(chain.steps for chain in chains)
    if not chains:
        raise ValueError(f"the buffer has {len(held.ids)} transitions and no episode from its beginning; there must be "
                         "one" + ("" if partial else ", or partial=True"))
    if left_out:
        warnings.warn(f"{left_out} transitions are left out: those of episodes whose first steps the buffer no longer "
                      "has, or may not have; partial=True writes them as episodes that begin later", RuntimeWarning,
                      stacklevel=caller_depth())
    return Episodes(np.array([chain.steps for chain in chains], np.int64), _episodes_of(buffer, held.ids, chains))


def _episodes_of(buffer: Buffer, ids: np.ndarray, chains: list[_Chain]) -> Iterator[Episode]:
    """Reads as many episodes at a time as have the transitions of some batches, or one."""
    group: list[_Chain] = []
    rows = 0
    for at, chain in enumerate(chains):
        group.append(chain)
        rows += len(chain.places)
        if rows < _ROWS_AT_A_TIME and at + 1 < len(chains):
            continue
        parts = list(read(buffer, ids[np.concatenate([chain.places for chain in group])]))
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        first = 0
        for one in group:
            end = first + len(one.places)
            yield _episode_of(buffer, {name: array[first:end] for name, array in found.items()}, one)
            first = end
        group, rows = [], 0


def _episode_of(buffer: Buffer, rows: dict[str, np.ndarray], chain: _Chain) -> Episode:
    steps, names = chain.steps, [field.name for field in buffer.fields]
    obs = {name[len(_OBS):]: _newest(buffer, rows[name]) for name in names if is_leaf_of(name, _OBS)}
    if chain.is_whole:
        obs = {leaf: np.concatenate([array, _newest(buffer, rows[_NEXT_OBS + leaf][-1:])])
               for leaf, array in obs.items()}
    if buffer._flattener is not None:
        obs = _unflattened(buffer._flattener.space, obs[""])[0]
    action = {name[len(_ACTION):]: rows[name][:steps] for name in names if is_leaf_of(name, _ACTION)}
    ends = {name: np.zeros(steps, np.bool_) for name in _ENDS}
    if chain.is_whole:
        for name in _ENDS:
            ends[name][-1] = name in rows and bool(rows[name][-1].any())
    ends["truncated"][-1] |= not ends["terminated"][-1]
    reward = rows[STEP_REWARD.name if _keeps_rewards(buffer) else "reward"][:steps].reshape(-1)
    known = {*_ENDS, "reward", "discount", PREVIOUS.name, *([STEP_REWARD.name] if _keeps_rewards(buffer) else [])}
    extras = {name: rows[name][:steps] for name in names
              if name not in known and not any(is_leaf_of(name, root) for root in (_OBS, _NEXT_OBS, _ACTION))}
    return Episode(obs, action, reward, ends["terminated"], ends["truncated"], extras)


def _keeps_rewards(buffer: Buffer) -> bool:
    return isinstance(buffer, ReplayBuffer) and buffer._spec.keep_steps and buffer._spec.config.n_step > 1


def _newest(buffer: Buffer, stacks: np.ndarray) -> np.ndarray:
    """Observations as the buffer is given them: of stacks that it makes of frames the newest frame."""
    if buffer._spec.observations != _c_api.OBSERVATIONS_FRAMES:
        return stacks
    return stacks[:, -1] if buffer._spec.config.stack_axis == _c_api.STACK_FIRST else stacks[..., -1]


def transitions(buffer: Buffer) -> Iterator[dict[str, np.ndarray]]:
    """What a buffer holds, in parts, by the names of fields; beside them "id", and of lanes "previous". Where there are
    priorities those of a ReplayBuffer are "priority"."""
    for rows in read(buffer, visible_ids(buffer)):
        if isinstance(buffer, LaneBuffer):
            is_first, is_here = rows.pop("is_first"), rows["id"] >= 0
            rows["previous"] = np.where(is_first, -1, rows["id"] - buffer.num_lanes)
            rows = {name: array[is_here] for name, array in rows.items()}
        elif buffer._is_prioritized:
            rows["priority"] = buffer.get_priorities(rows["id"])
        yield rows
