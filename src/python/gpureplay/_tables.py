# SPDX-License-Identifier: MIT
"""Data sets whose rows are steps or transitions, in columns that are read in parts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._blocks import BlockWriter
from ._buffer import ReplayBuffer
from ._device import caller_depth
from ._episodes import (Buffer, Episode, Episodes, Held, Progress, chains_of, equal_rows, fill, is_leaf_of, overwritten,
                        places_of, refuse_capacity, refuse_fields, tell_overwritten)
from ._inputs import convert
from ._library import InvalidArgument
from ._schema import PREVIOUS, STEP_REWARD, STORED_AS, Field
from ._writer import LinkedWriter

_ROWS_AT_A_TIME = 2**14
_ENDS = ("terminated", "truncated")
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
_NO_FIELDS = ("id", "previous", "priority")  # columns that describe rows, and are not stored as they are
NOT_OWN = ("obs", "action", "reward", "next_obs", *_ENDS, "discount", STEP_REWARD.name, *_NO_FIELDS)


class Table(NamedTuple):
    """The columns of a data set by the names of fields. column[first:end] is an array."""

    columns: Mapping[str, Any]
    rows: int
    called: Mapping[str, str]  # what the data set calls them, if that is another
    steps: tuple[int, float] | None = None  # n_step and gamma, where the data set says them

    def part(self, names: list[str], first: int, end: int) -> dict[str, np.ndarray]:
        return {name: np.asarray(self.columns[name][first:end]) for name in names}

    def whole(self, name: str) -> np.ndarray:
        return np.asarray(self.columns[name][0:self.rows])

    def parts(self, names: list[str]) -> Iterator[dict[str, np.ndarray]]:
        for first in range(0, self.rows, _ROWS_AT_A_TIME):
            yield self.part(names, first, min(self.rows, first + _ROWS_AT_A_TIME))


def table_of(columns: Mapping[str, Any], called: Mapping[str, str] | None = None) -> Table:
    """called: what the data set calls columns, if that is another. ValueError, KeyError, TypeError: they are not those
    of a data set."""
    names = called or {}
    if not columns:
        raise KeyError("the data set has no columns; it must have one or more")
    for name, column in columns.items():
        if getattr(column, "shape", None) == ():
            raise TypeError(f"{names.get(name, name)} is {column[()]}; it must be an array with a row for each step")
    counts = {name: len(column) for name, column in columns.items()}
    first = "reward" if "reward" in counts else next(iter(counts))
    count = counts[first]
    for name, found in counts.items():
        if found != count:
            raise ValueError(f"{names.get(name, name)} has {found} rows and {names.get(first, first)} {count}; they "
                             "must be as many")
    if count == 0:
        raise ValueError("the data set has no rows; it must have one or more")
    table = Table(columns, count, names)
    if missing_of_steps(table):
        return table
    for name, row in table.part([name for name in ("reward", *_ENDS) if name in columns], 0, 1).items():
        if row.size != 1 or row.dtype.kind not in "fiub":
            raise _number_error(table, name, row)
    return table


def missing_of_steps(table: Table) -> list[str]:
    """What rows lack to be steps of episodes. Rows that lack anything are those of fields of the caller's own."""
    return [root for root in ("obs", "action", "reward", "terminated")
            if not any(is_leaf_of(name, root) for name in table.columns)]


def refuse_no_steps(table: Table) -> None:
    """KeyError: rows are no steps of episodes."""
    missing = missing_of_steps(table)
    if missing:
        raise KeyError(f"the data set has no {table.called.get(missing[0], missing[0])}, which steps of episodes have; "
                       f"it has {', '.join(table.columns)}")


def _number_error(table: Table, name: str, array: np.ndarray) -> TypeError:
    return TypeError(f"{table.called.get(name, name)} is {array.dtype} of shape {(table.rows, *array.shape[1:])}; it "
                     "must be a number for each row")


def flags_of(name: str, values: np.ndarray) -> np.ndarray:
    """(rows,) bool. ValueError: a number is neither 0 nor 1."""
    values = values.reshape(-1)
    wrong = np.flatnonzero((values != 0) & (values != 1))  # NaN is among them
    if wrong.size:
        raise ValueError(f"{name} has {values[wrong[0]]} in row {wrong[0]}; it must be 0 or 1 in each")
    return np.asarray(values == 1)


def _flags(table: Table, name: str) -> np.ndarray:
    if name not in table.columns:
        return np.zeros(table.rows, np.bool_)
    return flags_of(table.called.get(name, name), table.whole(name))


def _column(table: Table, field: Field) -> np.ndarray:
    return convert(table.whole(field.name), field).reshape(-1)


# Episodes among the rows.


class _Rows(NamedTuple):
    """Which rows are an episode, and how they are read."""

    places: np.ndarray
    steps: int  # of the episode: as many, or without the last row


def _has_next(table: Table) -> bool:
    return any(is_leaf_of(name, "next_obs") for name in table.columns)


def _are_several(table: Table) -> bool:
    """Whether rows are transitions of several steps that keep their steps."""
    return STEP_REWARD.name in table.columns and PREVIOUS.name in table.columns


def episodes_in(table: Table, max_episode_steps: int | None = None, keeps_flags: bool = False) -> Episodes:
    """The episodes of a data set. One ends where a row is terminated or truncated, where the next one's obs is another
    than next_obs, after max_episode_steps, and with the last row, which counts as truncated unless keeps_flags.

    Without next_obs it is the next row's obs, and the last row of an episode that is not terminated only has the last
    observation. What comes after the step that terminated is zeros then. KeyError: rows are no steps."""
    refuse_no_steps(table)
    terminated, truncated = _flags(table, "terminated"), _flags(table, "truncated")
    held = _held(table, terminated | truncated, max_episode_steps)
    has_next, rows = _has_next(table) and not _are_several(table), []
    for places in chains_of(held):
        last = places[-1]
        is_whole = has_next or bool(terminated[last]) or (_are_several(table) and bool(truncated[last]))
        truncated[last] |= not terminated[last] and not keeps_flags
        rows.append(_Rows(places, len(places) - (not is_whole)))
    cut = sum(one.steps < len(one.places) for one in rows) if _are_several(table) else 0
    if cut:
        warnings.warn(f"{cut} episodes of the data set go on, whose newest transition is left out: what follows it is "
                      "not all there", RuntimeWarning, stacklevel=caller_depth())
    rows = [one for one in rows if one.steps > 0]
    if not all(len(one.places) == one.places[-1] - one.places[0] + 1 for one in rows):
        table = table._replace(columns={name: table.whole(name) for name in table.columns})
    lengths = np.array([one.steps for one in rows], np.int64)
    return Episodes(lengths, _read(table, rows, terminated, truncated))


def lengths_in(table: Table) -> np.ndarray:
    """How many transitions of several steps end with each end of an episode: at least as many as there are episodes."""
    ended = _flags(table, "terminated") | _flags(table, "truncated")
    return np.bincount(np.cumsum(ended) - ended)


def _held(table: Table, ended: np.ndarray, max_episode_steps: int | None) -> Held:
    """Which rows follow each other: by `id` and `previous`, if there are these columns, else those that are beside each
    other."""
    count = table.rows
    if _has_links(table):
        ids, previous = _links_of(table)
        before = np.where(previous < 0, -1, places_of(ids, previous))
        return Held(ids, before, before < 0, ended)
    follows = np.zeros(count, np.bool_)
    follows[1:] = ~ended[:-1]
    if _has_next(table):
        follows &= _fits(table)
    if max_episode_steps is not None:
        firsts = np.flatnonzero(~follows)
        steps = np.arange(count) - np.repeat(firsts, np.diff([*firsts, count]))
        follows &= steps % max_episode_steps != 0
    return Held(np.arange(count), np.where(follows, np.arange(count) - 1, -1), ~follows, ended)


def _has_links(table: Table) -> bool:
    return {"id", PREVIOUS.name} <= table.columns.keys()


def _links_of(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """The ids of rows, and of those before them in their episodes."""
    ids = _column(table, Field("id", (), _INT64))
    if (np.diff(ids) <= 0).any():
        raise ValueError("the ids of the data set do not rise; its rows must be in their order")
    return ids, _column(table, PREVIOUS)


def _fits(table: Table) -> np.ndarray:
    """(rows,) bool: obs is the next_obs of the row before."""
    pairs = [(name, f"next_{name}") for name in table.columns if is_leaf_of(name, "obs")]
    found, last = [], None
    for part in table.parts([name for pair in pairs for name in pair]):
        fits = np.ones(len(part[pairs[0][0]]), np.bool_)
        for name, following in pairs:
            after = part[following]
            led_to = after[:1] if last is None else last[following][-1:]
            fits &= equal_rows(part[name], np.concatenate([led_to, after[:-1]]))
        found.append(fits)
        last = part
    return np.concatenate(found)


def _read(table: Table, episodes: list[_Rows], terminated: np.ndarray, truncated: np.ndarray) -> Iterator[Episode]:
    """Reads the rows of as many episodes at a time as are beside each other, up to a number."""
    names, at = [name for name in table.columns if name not in ("terminated", "truncated", "id", "previous")], 0
    while at < len(episodes):
        first = end = episodes[at].places[0]
        until = at
        while until < len(episodes) and (until == at or episodes[until].places[-1] < first + _ROWS_AT_A_TIME):
            end = max(end, episodes[until].places[-1] + 1)
            until += 1
        part = table.part(names, first, end)
        for one in episodes[at:until]:
            ends = terminated[one.places], truncated[one.places]
            yield _episode(table, {name: array[one.places - first] for name, array in part.items()}, one.steps, *ends)
        at = until


def _episode(table: Table, rows: dict[str, np.ndarray], steps: int, terminated: np.ndarray, truncated: np.ndarray
             ) -> Episode:
    several = _are_several(table)
    obs = {name[3:]: array for name, array in rows.items() if is_leaf_of(name, "obs")}
    if steps == len(terminated):
        last = {leaf: rows[f"next_obs{leaf}"][-1:] if _has_next(table) else np.zeros_like(array[:1])
                for leaf, array in obs.items()}
        obs = {leaf: np.concatenate([array, last[leaf]]) for leaf, array in obs.items()}
    action = {name[6:]: array[:steps] for name, array in rows.items() if is_leaf_of(name, "action")}
    ends = [np.zeros(steps, np.bool_), np.zeros(steps, np.bool_)]
    if steps == len(terminated):
        ends[0][-1], ends[1][-1] = terminated[-1], truncated[-1]
    else:
        ends[1][-1] = True
    known = {"reward", *((STEP_REWARD.name, "discount") if several else ())}
    extras = {name: array[:steps] for name, array in rows.items()
              if name not in known and not any(is_leaf_of(name, root) for root in ("obs", "next_obs", "action"))}
    reward = rows[STEP_REWARD.name if several else "reward"][:steps].reshape(-1)
    return Episode(obs, action, reward, ends[0], ends[1], extras)


# Into a buffer.


def default_fields(table: Table) -> dict[str, tuple[tuple[int, ...], Any]]:
    """The fields of a buffer for the data set: its columns, and what a step of an episode has beside."""
    fields: dict[str, tuple[tuple[int, ...], Any]] = {}
    for name in table.columns:
        if name in _NO_FIELDS or (_are_several(table) and name in (STEP_REWARD.name, "discount")):
            continue
        array = table.part([name], 0, 1)[name]
        fields[name] = array.shape[1:], STORED_AS.get(array.dtype.name, array.dtype)
    if missing_of_steps(table):
        return fields
    for name in [name for name in fields if is_leaf_of(name, "obs")]:
        fields.setdefault(f"next_{name}", fields[name])
    for name, dtype in (("reward", "float32"), ("terminated", "bool"), ("truncated", "bool")):
        fields[name] = (), dtype
    return fields


def put(buffer: Buffer, table: Table, progress: Progress | None, max_episode_steps: int | None = None) -> None:
    """Adds the rows of a data set to a buffer: as they are if that can be, else as steps of episodes."""
    finished = isinstance(buffer, ReplayBuffer) and _are_finished(buffer, table)
    has_rewards = not missing_of_steps(table)
    if has_rewards and "discount" in table.columns and not _are_several(table) and (
            all(field.name != "discount" for field in buffer.fields) if finished
            else not isinstance(buffer, ReplayBuffer) or buffer._tracks_episodes):
        raise InvalidArgument("the data set has discount, as transitions of several steps have, and the buffer takes "
                              "single steps; leave the column out if they are single steps")
    if isinstance(buffer, ReplayBuffer) and has_rewards and not _are_several(table) and (
            other := _other_steps(buffer, table)):
        raise InvalidArgument(other)
    if isinstance(buffer, ReplayBuffer) and finished:
        before = overwritten(buffer)
        _put_rows(buffer, table, progress) if buffer._spec.config.layout == _c_api.LAYOUT_ROWS else \
            _put_blocks(buffer, table, progress)
        tell_overwritten(buffer, before)
        return
    before = buffer.stats.appended if isinstance(buffer, ReplayBuffer) else 0
    were_stored = isinstance(buffer, ReplayBuffer) and buffer._spec.config.n_step == 1 and "id" in table.columns
    episodes = episodes_in(table, max_episode_steps, keeps_flags=were_stored)
    priorities: list[np.ndarray] = []
    fill(buffer, episodes._replace(each=_with_priorities(episodes.each, priorities)), progress)
    if isinstance(buffer, ReplayBuffer):
        _put_priorities(buffer, before, priorities)


def _with_priorities(episodes: Iterator[Episode], found: list[np.ndarray]) -> Iterator[Episode]:
    for episode in episodes:
        if "priority" in episode.extras:
            found.append(episode.extras["priority"])
        yield episode


def _are_finished(buffer: ReplayBuffer, table: Table) -> bool:
    """Whether the rows are transitions as the buffer stores them."""
    config, has_links = buffer._spec.config, PREVIOUS in buffer.fields
    stores_next = any(is_leaf_of(field.name, "next_obs") for field in buffer.fields)
    return (config.layout == _c_api.LAYOUT_ROWS or _go_in_blocks(buffer, table)) \
        and (not has_links or (_has_links(table) and not _clips_sums(buffer, table))) \
        and (_has_next(table) or not stores_next) \
        and (not _are_several(table) if config.n_step == 1 else "discount" in table.columns) \
        and not (_are_several(table) and _other_steps(buffer, table)) \
        and (buffer._flattener is None or "obs" in table.columns)


def _go_in_blocks(buffer: ReplayBuffer, table: Table) -> bool:
    """Whether rows with stacks of frames cannot be added as steps: they are several, or of steps a frame is wanted."""
    shape = next((field.shape for field in buffer.fields if field.name == "obs"), None)
    return {"obs", "next_obs"} <= table.columns.keys() and table.part(["obs"], 0, 1)["obs"].shape[1:] == shape and (
        buffer._spec.config.n_step > 1 or buffer._spec.observations == _c_api.OBSERVATIONS_FRAMES)


def _clips_sums(buffer: ReplayBuffer, table: Table) -> bool:
    """Whether the buffer would clip rewards that are sums."""
    clip = float(buffer._spec.config.reward_clip)
    return int(buffer._spec.config.n_step) > 1 and clip > 0 and "reward" in table.columns \
        and bool((np.abs(table.whole("reward")) > np.float32(clip)).any())


def _other_steps(buffer: ReplayBuffer, table: Table) -> str | None:
    """How the n_step or gamma of rows that are sums of rewards differs from those of the buffer, in words. Discounts,
    which are powers of gamma, tell it where the data set does not say it."""
    n_step, gamma = int(buffer._spec.config.n_step), float(buffer._spec.config.gamma)
    if table.steps is not None:
        is_same = table.steps[0] == n_step and np.isclose(table.steps[1], gamma, rtol=1e-6, atol=0)
        return None if is_same else _steps_in_words(n_step, gamma, f"n_step {table.steps[0]} and gamma "
                                                                   f"{table.steps[1]:g}")
    if "discount" not in table.columns or not 0 < gamma < 1 - 2**-16:  # powers of others are too near to each other
        return None
    discounts = table.whole("discount").reshape(-1)
    is_power, truncated = discounts > 0, _flags(table, "truncated")
    found = discounts[is_power].astype(np.float64)
    steps = np.rint(np.log(found) / np.log(gamma))
    is_wrong = (steps < 1) | (steps > 64) | ~np.isclose(gamma**steps, found, rtol=64 * 2**-22, atol=0)
    if is_wrong.any():  # with n_step 1 they may be a field of one's own
        return None if n_step == 1 else _steps_in_words(
            n_step, gamma, f"a discount of {found[is_wrong][0]:g}, which is no power of that gamma from 1 to {n_step}")
    most = int(steps.max(initial=0))
    if most > n_step or (0 < most < n_step and not truncated[is_power].all()):
        return _steps_in_words(n_step, gamma, f"n_step {most}")
    return None


def _steps_in_words(n_step: int, gamma: float, found: str) -> str:
    return (f"n_step is {n_step} and gamma {gamma:g}, and the data set's transitions have {found}; they must be the "
            "same, or the data set one of a buffer with keep_steps=True")


def _names_of_rows(buffer: ReplayBuffer, table: Table) -> list[str]:
    """The columns of finished transitions that the buffer stores. ValueError, TypeError: it cannot."""
    refuse_capacity(buffer.capacity, table.rows)
    if _clips_sums(buffer, table):
        raise InvalidArgument(f"reward_clip is {buffer._spec.config.reward_clip:g} and the data set has rewards beyond "
                              "it, which are sums of several; it must be 0, with which they stay as they are")
    fields = [field.name for field in buffer.fields if field != PREVIOUS]
    given = [name for name in table.columns if name not in ("id", PREVIOUS.name)]
    refuse_fields([name for name in fields if name != "truncated"], given)
    return [name for name in given if name in (*fields, "priority")]


def _put_rows(buffer: ReplayBuffer, table: Table, progress: Progress | None) -> None:
    names = _names_of_rows(buffer, table)
    has_field = any(field.name == "priority" for field in buffer.fields)
    writer, before, done = LinkedWriter(buffer, 1, "disabled"), buffer.stats.appended, 0
    links = _moved_links(table, before) if PREVIOUS in buffer.fields else None
    priorities: list[np.ndarray] = []
    try:
        for part in table.parts(names):
            if not has_field and "priority" in part:
                priorities.append(part.pop("priority"))
            for name in ("terminated", "truncated"):
                if name in part:
                    part[name] = part[name].reshape(-1) != 0
            if links is not None:
                _refuse_others(buffer, before + done)
                part[PREVIOUS.name] = links[done:done + len(part[names[0]])]
            done += writer.extend(**part)
            if progress is not None:
                progress(done, table.rows)
    finally:
        writer.close()
    _put_priorities(buffer, before, priorities)


def _put_blocks(buffer: ReplayBuffer, table: Table, progress: Progress | None) -> None:
    """Episode by episode, where the buffer links transitions."""
    names, before, done = _names_of_rows(buffer, table), buffer.stats.appended, 0
    order, begins = np.arange(table.rows), np.zeros(table.rows, np.bool_)
    if PREVIOUS in buffer.fields:
        chains = list(chains_of(_held(table, begins, None)))
        order, begins[np.cumsum([0, *map(len, chains[:-1])])] = np.concatenate(chains), True
    if (np.diff(order) != 1).any():
        table = table._replace(columns={name: table.whole(name)[order] for name in names})
    priorities: list[np.ndarray] = []
    most, writer = max(1, int(buffer.config["block_rows"]) // 2), BlockWriter(buffer)
    try:
        for part in table.parts(names):
            if "priority" in part:
                priorities.append(part["priority"])
            for first in range(0, len(part["reward"]), most):
                rows = {name: array[first:first + most] for name, array in part.items()}
                writer.append(rows, begins[done:done + len(rows["reward"])])
                done += len(rows["reward"])
            if progress is not None:
                progress(done, table.rows)
    finally:
        writer.close()
    _put_priorities(buffer, before, priorities)


def _moved_links(table: Table, first_id: int) -> np.ndarray:
    """`previous` of the rows as their ids are from first_id on. One whose row before is not there begins an episode."""
    ids, previous = _links_of(table)
    named = np.where(previous < -1, -2 - previous, previous)  # of the first of an episode the last of the one before
    places = np.where(named < 0, -1, places_of(ids, named))
    moved = first_id + places
    return np.where(places < 0, -1, np.where(previous < 0, -2 - moved, moved))


def _refuse_others(buffer: ReplayBuffer, appended: int) -> None:
    """InvalidArgument: links, which are ids, would be those of other transitions."""
    if buffer.stats.appended != appended:
        raise InvalidArgument("others added transitions meanwhile, and the links of the data set are those of ids that "
                              "follow each other; let nobody else add until it is read")


def _put_priorities(buffer: ReplayBuffer, first_id: int, found: list[np.ndarray]) -> None:
    """Of the transitions from first_id on, which were added. What was read has priority_offset in it."""
    if not found or not buffer._is_prioritized or any(field.name == "priority" for field in buffer.fields):
        return
    priorities = np.concatenate(found).astype(np.float64).reshape(-1) - float(buffer._spec.config.priority_offset)
    if buffer.stats.appended - first_id != len(priorities):
        warnings.warn("others added transitions meanwhile; the priorities of the data set are not set", RuntimeWarning,
                      stacklevel=caller_depth())
        return
    most = int(buffer.config["max_batch"])
    for first in range(0, len(priorities), most):
        part = np.maximum(priorities[first:first + most], 0).astype(np.float32)
        buffer.update_priorities(np.arange(first_id + first, first_id + first + len(part)), part)
