# SPDX-License-Identifier: MIT
"""Data sets into buffers and out of them: Minari, D4RL's HDF5, LeRobot, Arrow, Parquet, NumPy.

    from gpureplay import data

    buffer = data.from_minari("D4RL/pen/human-v2", n_step=3)
    data.to_parquet(buffer, "pen.parquet")

A `from_` function makes a `ReplayBuffer` of the settings that it is given, as for its constructor, by default with room
for just the data set. Or it fills `into`, a `ReplayBuffer` or `LaneBuffer`, in which each episode is played in one
lane. Steps are added as a program adds them, so that n_step, frame_stack, layout and flatten are as ever. Float64 is
stored as float32, which rounds it. The last step of an episode counts as truncated if it is not terminated. progress:
is called with the transitions done and those in all; an exception in it ends the call. A buffer keeps what was added
before an error amid the data.

`to_minari`, `to_d4rl` and `to_lerobot` write the steps of episodes. A buffer of several environments or with n_step
above 1 must have been made with keep_steps=True, but for a `LaneBuffer`. Episodes whose first steps were overwritten
are left out, with a warning, unless partial=True. Rewards that were clipped stay so, but with keep_steps and n_step
above 1. `to_numpy`, `to_arrow` and `to_parquet` write transitions as they are stored.

A `DDPG` takes actions of -1 to 1. action_bounds: (low, high) of the data set's actions, numbers or an array each, for
which -1 and 1 then stand in the buffer, on the way in as on the way out; True: those of the data set's action space, or
of the action_space that is given. The buffer's action space is then -1 to 1. Numbers come back but for rounding.

A full buffer overwrites its oldest transitions, as ever; a warning says how many. ValueError: the data set has more
transitions than the buffer can hold; both numbers are said. TypeError, KeyError: a field is missing, or has another
dtype. InvalidArgument: the buffer cannot tell its steps. OSError: a file is not of the format, or damaged.
ModuleNotFoundError: the format's package is not installed.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _arrow, _lerobot
from ._bounds import ActionBounds, bounds_of
from ._buffer import ReplayBuffer
from ._device import caller_depth
from ._episodes import (Buffer, Episode, Episodes, Leaves, Progress, fill, is_leaf_of, leaves_of, needed, nested,
                        refuse_capacity, restored, transitions)
from ._inputs import integer
from ._lanes import LaneBuffer
from ._paths import MINARI_ID, Replacing, file_to_read, path_of, writing
from ._schema import Field
from ._tables import (NOT_OWN, Table, default_fields, episodes_in, lengths_in, missing_of_steps, put, refuse_no_steps,
                      table_of)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    B = TypeVar("B", ReplayBuffer, LaneBuffer, default=ReplayBuffer)

Path = Union[str, "os.PathLike[str]"]
_GROUP_BYTES = 2**26  # of the episodes that are handed to a library at a time


# The buffer of a data set.


def _is_given(into: Buffer | None, settings: Mapping[str, Any]) -> bool:
    """Whether there is a buffer. TypeError: it has its settings already."""
    if into is not None and settings:
        raise TypeError(f"into is given, and {', '.join(settings)}; a buffer that is there has its settings already")
    if into is not None and not isinstance(into, (ReplayBuffer, LaneBuffer)):
        raise TypeError(f"into is a {type(into).__name__}; it must be a ReplayBuffer or a LaneBuffer, or None")
    return into is not None


def _made(fields: Any, action_space: Any, lengths: np.ndarray, settings: dict[str, Any]) -> ReplayBuffer:
    """A buffer with room for episodes of these lengths, whose frames are one more for each."""
    rows = int(lengths.sum())
    if rows == 0:
        raise ValueError("the data set has no transitions; it must have one or more")
    capacity = settings.pop("capacity", None)
    if capacity is not None:
        refuse_capacity(integer("capacity", capacity), rows)
    stack, n_step = (integer(name, settings.get(name) or 1) for name in ("frame_stack", "n_step"))
    if (stack > 1 or settings.get("layout") == "frames") and settings.get("extra_frames") is None:
        beside = 1 if settings.get("observations") == "frames" else stack  # where stacks begin as others do
        of_blocks = max(128, rows // 1000) * (stack + n_step) if n_step > 1 else 0
        settings["extra_frames"] = max(rows // 64, 64 * (stack + 2 * n_step)) + beside * len(lengths) + of_blocks
    return ReplayBuffer(max(rows, 2) if capacity is None else capacity, fields, action_space, **settings)


def _from_table(table: Table, into: Any, spaces: tuple[Any, Any], action_bounds: Any, settings: dict[str, Any],
                progress: Progress | None, max_episode_steps: int | None = None) -> Any:
    bounds = bounds_of(action_bounds, spaces[1])
    _refuse_spaces(spaces, bounds, action_bounds, settings)
    if bounds is not None:
        table, spaces = bounds.store_column(table), (spaces[0], _scaled_space(bounds, spaces[1]))
    if max_episode_steps is not None:
        integer("max_episode_steps", max_episode_steps, 1)
    if not _is_given(into, settings):
        fields, action_space = (default_fields(table), None) if spaces[0] is None else spaces
        takes_rows = any(is_leaf_of(name, "next_obs") for name in table.columns) or \
            (spaces[0] is None and bool(missing_of_steps(table)))
        into = _made(fields, action_space, np.ones(table.rows, np.int64) if takes_rows and not _has_frames(settings)
                     else lengths_in(table) if "discount" in table.columns and (settings.get("n_step") or 1) != 1
                     else episodes_in(table, max_episode_steps).lengths, settings)
    put(into, table, progress, max_episode_steps)
    return into


def _refuse_spaces(spaces: tuple[Any, Any], bounds: ActionBounds | None, action_bounds: Any,
                   settings: Mapping[str, Any]) -> None:
    """TypeError: one space is given without the other, which would be ignored, or flatten=True without a space."""
    has_bounds_only = bounds is not None and action_bounds is True and spaces[0] is None
    if (spaces[0] is None) != (spaces[1] is None) and not has_bounds_only:
        raise TypeError(f"observation_space is {spaces[0]} and action_space {spaces[1]}; both must be given, or "
                        "neither")
    if spaces[0] is None and settings.get("flatten"):
        raise TypeError("flatten is True and observation_space None; flatten=True needs observation_space= and "
                        "action_space=, which the data set has not")


def _scaled_space(bounds: ActionBounds | None, space: Any) -> Any:
    return space if bounds is None or space is None else bounds.space(space)


def _has_frames(settings: Mapping[str, Any]) -> bool:
    return settings.get("layout") == "frames" or (settings.get("frame_stack") or 1) > 1


# Minari.


def from_minari(dataset: Any, *, action_bounds: Any = None, into: B | None = None, progress: Progress | None = None,
                **settings: Any) -> B:
    """The steps of a Minari dataset, or of the one of this id. Its spaces become those of the buffer. Of its infos,
    those are taken that have the name of a field of `into`."""
    minari = needed("minari", "from_minari")
    name = dataset
    if isinstance(dataset, str) and not MINARI_ID.fullmatch(dataset):
        raise ValueError(f"dataset is {dataset!r}; it must be the id of a dataset, such as \"namespace/name-v0\"")
    if isinstance(dataset, str):
        with _read_by_minari(name):
            dataset = minari.load_dataset(dataset)
    if not isinstance(dataset, minari.MinariDataset):
        raise TypeError(f"dataset is {dataset!r}; it must be a minari.MinariDataset, or the id of one")
    with _read_by_minari(name):
        lengths = np.array([one["total_steps"] for one in
                            dataset.storage.get_episode_metadata(dataset.episode_indices)], np.int64)
    buffer: Any = into
    bounds = bounds_of(action_bounds, dataset.action_space)
    if not _is_given(into, settings):
        buffer = _made(dataset.observation_space, _scaled_space(bounds, dataset.action_space), lengths, settings)
    each = map(_of_minari, dataset.iterate_episodes())
    episodes = Episodes(lengths, _with_infos_told(each) if into is None else each)
    fill(buffer, episodes if bounds is None else bounds.store(episodes), progress)
    return buffer  # type: ignore[no-any-return]


@contextlib.contextmanager
def _read_by_minari(dataset: Any) -> Iterator[None]:
    """OSError: it is not there, or its files are damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"dataset is {dataset!r}, which is not among the local ones of Minari; `minari "
                                f"download {dataset}` gets it, or it must be another id") from error
    except (OSError, ValueError) as error:
        raise OSError(f"dataset is {dataset!r}, which Minari cannot read: {error}") from error


def _of_minari(episode: Any) -> Episode:
    steps = len(episode.rewards)
    terminated, truncated = (np.array(flags, np.bool_) for flags in (episode.terminations, episode.truncations))
    truncated[-1:] |= ~terminated[-1:]
    infos = {name[1:]: array for name, array in leaves_of(episode.infos or {}) if name}
    extras = {name: array[-steps:] for name, array in infos.items()  # the first may be what the reset gave
              if array.ndim > 0 and len(array) in (steps, steps + 1)}
    return Episode(dict(leaves_of(episode.observations)), dict(leaves_of(episode.actions)),
                   np.asarray(episode.rewards).reshape(-1), terminated, truncated, extras)


def _with_infos_told(each: Iterator[Episode]) -> Iterator[Episode]:
    """Warns of infos of which the buffer, made for the dataset's spaces, has no fields."""
    for at, episode in enumerate(each):
        if at == 0 and episode.extras:
            warnings.warn(f"the dataset has infos, {', '.join(episode.extras)}, which are left out; a buffer that is "
                          "given as into= gets those of which it has fields", RuntimeWarning,
                          stacklevel=caller_depth())
        yield episode


def to_minari(buffer: Buffer, dataset_id: str, *, observation_space: Any = None, action_space: Any = None,
              action_bounds: Any = None, partial: bool = False, progress: Progress | None = None, **metadata: Any
              ) -> Any:
    """Writes the episodes of a buffer as a new Minari dataset, which is returned. The spaces are by default those of
    the buffer, or where it was made of fields boxes of their shapes and dtypes. Fields of your own become infos, with
    zeros for the reset. metadata: other arguments of minari.create_dataset_from_buffers (env, author, data_format ...).
    Images are stored without loss unless jpeg_encoding=True is among them; Minari before 0.5.4 stores JPEGs."""
    _refuse_others(buffer)
    minari = needed("minari", "to_minari")
    if not isinstance(dataset_id, str) or not MINARI_ID.fullmatch(dataset_id):
        raise ValueError(f"dataset_id is {dataset_id!r}; it must be a text such as \"namespace/name-v0\"")
    collector: Any = needed("minari.data_collector", "to_minari")
    bounds = bounds_of(action_bounds, action_space)
    if bounds is not None and action_space is None:
        action_space = _box_between(bounds, _space_of(buffer, "action"))
    spaces = [_space_of(buffer, name) if space is None else space
              for name, space in (("obs", observation_space), ("action", action_space))]
    if "jpeg_encoding" in inspect.signature(minari.create_dataset_from_buffers).parameters:
        metadata.setdefault("jpeg_encoding", False)
    dataset, done, episodes = None, 0, _restored(buffer, partial, bounds)
    path, wanted = _new_minari_path(dataset_id)
    try:
        for group in _groups(episodes.each):
            buffers = [_to_minari(collector.EpisodeBuffer, spaces, episode) for episode in group]
            with writing("dataset_id", dataset_id, wanted):
                if dataset is None:
                    dataset = minari.create_dataset_from_buffers(
                        dataset_id, buffers, observation_space=spaces[0], action_space=spaces[1], **metadata)
                else:
                    dataset.update_dataset_from_buffer(buffers)
            done += sum(episode.steps for episode in group)
            if progress is not None:
                progress(done, int(episodes.lengths.sum()))
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return dataset


def _new_minari_path(dataset_id: str) -> tuple[str, str]:
    """And what it must be to be written. FileExistsError: there is such a dataset."""
    place = needed("minari.storage.datasets_root_dir", "to_minari")
    wanted = "Minari's folder, MINARI_DATASETS_PATH, must be one that can be written, and has room"
    with writing("dataset_id", dataset_id, wanted):
        path = str(place.get_dataset_path(dataset_id))
    if os.path.exists(path):
        raise FileExistsError(f"dataset_id is {dataset_id!r}, and {path} is there; it must be a new one")
    return path, wanted


def _to_minari(kind: Any, spaces: list[Any], episode: Episode) -> Any:
    infos = {name: np.concatenate([np.zeros_like(array[:1]), array]) for name, array in episode.extras.items()}
    return kind(observations=nested(spaces[0], episode.obs), actions=nested(spaces[1], episode.action),
                rewards=episode.reward.astype(np.float64), terminations=episode.terminated,
                truncations=episode.truncated, infos=infos or None)


def _groups(episodes: Iterable[Episode]) -> Iterator[list[Episode]]:
    """Episodes together, of so many bytes that they fit into memory."""
    group: list[Episode] = []
    held = 0
    for episode in episodes:
        group.append(episode)
        held += sum(array.nbytes for leaves in (episode.obs, episode.action) for array in leaves.values())
        if held >= _GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _space_of(buffer: Buffer, root: str) -> Any:
    """The space of obs or action."""
    space = buffer._obs_space if root == "obs" else buffer._action_space
    if space is not None:
        return space
    spaces = needed("gymnasium", "to_minari").spaces
    fields = buffer.fields if isinstance(buffer, LaneBuffer) else buffer._spec.given
    found = [field for field in fields if is_leaf_of(field.name, root)]
    if len(found) == 1 and found[0].name == root:
        return _box_of(spaces, found[0])
    return spaces.Dict({field.name[len(root) + 1:]: _box_of(spaces, field) for field in found})


def _box_between(bounds: ActionBounds, like: Any) -> Any:
    bounds.refuse_shape(like.shape)
    low, high = (np.broadcast_to(bound, like.shape).astype(np.float32) for bound in bounds)
    return needed("gymnasium", "to_minari").spaces.Box(low, high, like.shape, np.float32)


def _refuse_others(buffer: Any) -> None:
    if not isinstance(buffer, (ReplayBuffer, LaneBuffer)):
        raise TypeError(f"buffer is {buffer!r}; it must be a ReplayBuffer or a LaneBuffer")


def _restored(buffer: Buffer, partial: bool, bounds: ActionBounds | None) -> Episodes:
    _refuse_others(buffer)
    found = restored(buffer, partial)
    return found if bounds is None else bounds.give(found)


def _box_of(spaces: Any, field: Field) -> Any:
    if field.dtype.kind == "b":
        return spaces.MultiBinary(field.shape or 1)
    low, high = (-np.inf, np.inf) if field.dtype.kind == "f" else \
        (np.iinfo(field.dtype).min, np.iinfo(field.dtype).max)
    return spaces.Box(low, high, field.shape, field.dtype)


# D4RL's HDF5.

_D4RL = {"observations": "obs", "actions": "action", "rewards": "reward", "next_observations": "next_obs",
         "terminals": "terminated", "timeouts": "truncated"}


def from_d4rl(source: Any, *, observation_space: Any = None, action_space: Any = None, action_bounds: Any = None,
              max_episode_steps: int | None = None, into: B | None = None, progress: Progress | None = None,
              **settings: Any) -> B:
    """The steps of a data set in D4RL's form: the path of an HDF5 file, an h5py.File, or a dict of arrays such as
    d4rl's get_dataset gives: observations, actions, rewards, terminals, and where they are there timeouts and
    next_observations. Groups of arrays are the parts of a Dict space.

    An episode ends at a terminal, at a timeout, where an observation is not the next one of the row before, after
    max_episode_steps, and with the last row. Without next_observations they are taken from the rows that follow: the
    last row of an episode that was not terminated then is no step, and what follows a terminal is zeros.

    Fields of your own are other arrays beside these, of as many rows; groups, and names with a "/", are left out.

    The spaces may be left out: the buffer's fields are then as the arrays are."""
    with contextlib.ExitStack() as stack:
        if isinstance(source, (str, os.PathLike)):
            source = stack.enter_context(_opened(source))
        if not isinstance(source, Mapping):  # as an h5py.File is
            raise TypeError(f"source is {source!r}; it must be a path, an h5py.File or a dict of arrays")
        columns: dict[str, Any] = {}
        for name, own in _D4RL.items():
            if name in source:
                columns.update({own + leaf: array for leaf, array in _leaves_of_file(source[name])})
        columns.update({name: array for name, array in _own_of_file(source, columns.get("reward"))
                        if name not in columns})
        table = table_of(columns, {own: name for name, own in _D4RL.items()})
        refuse_no_steps(table)
        found: Any = _from_table(table, into, (observation_space, action_space), action_bounds, settings, progress,
                                 max_episode_steps)
    return found  # type: ignore[no-any-return]


def _opened(path: Path) -> Any:
    h5py = needed("h5py", "from_d4rl")
    path = file_to_read("source", path, "the path of an HDF5 file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise OSError(f"source is {path!r}, which HDF5 cannot read; it must be the path of an HDF5 file: "
                      f"{error}") from error


def _leaves_of_file(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a group of an HDF5 file, which are read in parts."""
    if isinstance(found, Mapping):  # of HDF5, too
        for key, part in found.items():
            yield from _leaves_of_file(part, f"{name}.{key}")
    else:
        yield name, found if hasattr(found, "shape") else np.asarray(found)


def _own_of_file(source: Mapping[str, Any], rewards: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a file, beside those of D4RL, that have a row for each reward."""
    shape = np.shape(rewards)
    for name, found in source.items():
        if name in (*_D4RL, *NOT_OWN) or "/" in name or isinstance(found, Mapping):
            continue
        array = found if hasattr(found, "shape") else np.asarray(found)
        if len(array.shape) and array.dtype.kind in "fiub" and array.shape[:1] == shape[:1]:
            for meant in difflib.get_close_matches(name, _D4RL.keys() - source.keys(), 1, 0.85):
                _warn_of_name(name, f"D4RL's name is {meant}")
            yield name, array


def _warn_of_name(name: str, meant: str) -> None:
    warnings.warn(f"{name} is read as a field of your own; {meant}", RuntimeWarning, stacklevel=caller_depth())


def to_d4rl(buffer: Buffer, path: Path, *, action_bounds: Any = None, partial: bool = False, compression: Any = None,
            progress: Progress | None = None) -> None:
    """Writes the episodes of a buffer as an HDF5 file in D4RL's form, with timeouts and next_observations. Fields of
    your own are arrays of their names. compression: as for h5py, say "gzip". The file at `path` is the old one or the
    new one, and complete.

        data.to_d4rl(buffer, "steps.hdf5")
        same = data.from_d4rl("steps.hdf5")
    """
    h5py, episodes, done = needed("h5py", "to_d4rl"), _restored(buffer, partial, bounds_of(action_bounds, None)), 0
    steps = int(episodes.lengths.sum())
    with Replacing(path) as new, h5py.File(new.part, "w") as file:
        for episode in episodes.each:
            with new.writing():
                for name, array in _d4rl_arrays(episode):
                    if name not in file:
                        file.create_dataset(name, (steps, *array.shape[1:]), array.dtype, chunks=True,
                                            compression=compression)
                    file[name][done:done + episode.steps] = array
            done += episode.steps
            if progress is not None:
                progress(done, steps)


def _d4rl_arrays(episode: Episode) -> Iterator[tuple[str, np.ndarray]]:
    def path(root: str, leaf: str) -> str:
        return root + leaf.replace(".", "/")

    for leaf, array in episode.obs.items():
        yield path("observations", leaf), array[:-1]
        yield path("next_observations", leaf), array[1:]
    for leaf, array in episode.action.items():
        yield path("actions", leaf), array
    yield "rewards", episode.reward
    yield "terminals", episode.terminated
    yield "timeouts", episode.truncated
    yield from episode.extras.items()


# LeRobot.


def from_lerobot(folder: Path, *, observations: Sequence[str] | None = None, observation_space: Any = None,
                 action_space: Any = None, action_bounds: Any = None, final_reward: float | None = None,
                 into: B | None = None, progress: Progress | None = None, **settings: Any) -> B:
    """The steps of a LeRobot data set in this folder, of its form 2.0 to 3.0, as LeRobot's own replay buffer reads
    them: next.done is terminated. Images of frames are read; videos are not, and are refused unless `observations`
    names the features that are. An observation is the frame after; the last frame of an episode that did not terminate
    is no step, unless `to_lerobot` wrote the data set. What follows a terminal is zeros then.

    final_reward: for demonstrations without next.reward: that of the last step of each episode, which then terminates.
        The other steps have 0.

        buffer = data.from_lerobot("steps", final_reward=1.0)
    """
    found = _lerobot.Folder(path_of("folder", folder), observations)
    episodes, bounds = found.episodes(final_reward), bounds_of(action_bounds, action_space)
    _refuse_spaces((observation_space, action_space), bounds, action_bounds, settings)
    buffer: Any = into
    if not _is_given(into, settings):
        fields, space = (found.default_fields(), None) if observation_space is None else \
            (observation_space, _scaled_space(bounds, action_space))
        buffer = _made(fields, space, episodes.lengths, settings)
    fill(buffer, episodes if bounds is None else bounds.store(episodes), progress)
    return buffer  # type: ignore[no-any-return]


def to_lerobot(buffer: Buffer, folder: Path, *, fps: int = 30, task: str = "", robot_type: str | None = None,
               action_bounds: Any = None, partial: bool = False, progress: Progress | None = None) -> None:
    """Writes the episodes of a buffer as a LeRobot data set, form 3.0, in a new folder. An observation of one array is
    observation.state, or observation.image if it is an image (height, width, 3); parts of a Dict are observation.key.
    next.done is terminated, next.truncated truncated, and fields of your own are complementary_info. The observations
    after the last steps are in meta/episodes, where LeRobot does not read them, and `from_lerobot` does.

        data.to_lerobot(buffer, "steps")
        same = data.from_lerobot("steps")
    """
    integer("fps", fps, 1)
    episodes, done, path = _restored(buffer, partial, bounds_of(action_bounds, None)), 0, path_of("folder", folder)
    data_set = _lerobot.Writing(path, fps, task, robot_type)
    if os.path.lexists(path):
        raise FileExistsError(f"folder is {path!r}, which is there; it must be a new one")
    with writing("folder", path):
        os.makedirs(path)
    try:
        for episode in episodes.each:
            with writing("folder", path):
                data_set.add(episode)
            done += episode.steps
            if progress is not None:
                progress(done, int(episodes.lengths.sum()))
        with writing("folder", path):
            data_set.close()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            data_set.stop()
        raise


# Arrays, Arrow, Parquet.


def from_numpy(arrays: Mapping[str, Any], *, observation_space: Any = None, action_space: Any = None,
               action_bounds: Any = None, into: B | None = None, progress: Progress | None = None, **settings: Any
               ) -> B:
    """Transitions of arrays (count, ...) by the names of fields, as `to_numpy` gives them: obs, action, reward,
    terminated, and where they are there next_obs, truncated and others. They are added as they are where the buffer
    stores such rows: n_step above 1 with a column discount, or layout "rows" and 1 without step_reward; with keep_steps
    or sequences also id and previous. Else they are steps of episodes, which end as in `from_d4rl`, or as id and
    previous say. Layout "frames" with keep_steps or sequences gets them episode by episode, and with n_step above 1
    needs a library with xxHash. priority: what the buffer has as priorities then, if it is prioritized.

    Rows without obs, action, reward or terminated are no steps. They are added as they are, as is everything where the
    buffer has no next_obs.

    The spaces may be left out: the buffer's fields are then as the arrays are.

        buffer = data.from_numpy(arrays)
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays is {arrays!r}; it must be a dict of arrays")
    columns = {f"{name}{leaf}": array for name, value in arrays.items() for leaf, array in leaves_of(value)}
    for name in _D4RL.keys() & columns.keys():
        if into is None and _D4RL[name] not in columns:
            _warn_of_name(name, f"the name here is {_D4RL[name]}, and from_d4rl takes D4RL's names")
    found: Any = _from_table(table_of(columns), into, (observation_space, action_space), action_bounds, settings,
                             progress)
    return found  # type: ignore[no-any-return]


def to_numpy(buffer: Buffer, *, action_bounds: Any = None) -> dict[str, np.ndarray]:
    """The transitions of a buffer in the order of their ids: arrays (count, ...) by the names of fields, with "id",
    and for a prioritized ReplayBuffer "priority", which has priority_offset in it. Those of a LaneBuffer are single
    steps, with "previous", the id of the lane's transition before, or -1.

        arrays = data.to_numpy(buffer)
    """
    parts = list(_some(buffer, action_bounds))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def from_arrow(table: Any, *, observation_space: Any = None, action_space: Any = None, action_bounds: Any = None,
               into: B | None = None, progress: Progress | None = None, **settings: Any) -> B:
    """As `from_numpy`, of the columns of pyarrow's Table, RecordBatch or RecordBatchReader. What has several numbers in
    a row is a list, a list of lists, or a tensor of a fixed shape.

        buffer = data.from_arrow(data.to_arrow(buffer))
    """
    found: Any = _from_arrow(_arrow.of_table(table), into, (observation_space, action_space), action_bounds, settings,
                             progress)
    return found  # type: ignore[no-any-return]


def to_arrow(buffer: Buffer, *, action_bounds: Any = None) -> Any:
    """The transitions of `to_numpy` as a Table of pyarrow. What has several numbers in a row is a list of a fixed size,
    and the metadata of its column have the shape.

        table = data.to_arrow(buffer)
    """
    schema, batches = _arrow.record_batches(_some(buffer, action_bounds), _steps_of(buffer))
    return _arrow.arrow().Table.from_batches(batches, schema)


def from_parquet(path: Path, *, observation_space: Any = None, action_space: Any = None, action_bounds: Any = None,
                 into: B | None = None, progress: Progress | None = None, **settings: Any) -> B:
    """As `from_arrow`, of a Parquet file,
    which is read in parts.

        data.to_parquet(buffer, "steps.parquet")
        buffer = data.from_parquet("steps.parquet")
    """
    _arrow.arrow()
    path = file_to_read("path", path, "that of a Parquet file")
    found: Any = _from_arrow(_arrow.of_files([path]), into, (observation_space, action_space),
                             action_bounds, settings, progress)
    return found  # type: ignore[no-any-return]


def to_parquet(buffer: Buffer, path: Path, *, action_bounds: Any = None, progress: Progress | None = None) -> None:
    """Writes the transitions of `to_arrow` as a Parquet file. The file at `path` is the old one or the new one, and
    complete."""
    _refuse_others(buffer)
    done, count = 0, len(buffer)

    def note(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, count)

    with Replacing(path) as new:
        _arrow.write_parquet(new, _some(buffer, action_bounds), _steps_of(buffer), note)


def _steps_of(buffer: Buffer) -> tuple[int, float] | None:
    """The n_step and gamma of rewards that are sums."""
    _refuse_others(buffer)
    if isinstance(buffer, LaneBuffer) or buffer._spec.config.n_step == 1:
        return None
    return int(buffer._spec.config.n_step), float(buffer._spec.config.gamma)


def _some(buffer: Buffer, action_bounds: Any) -> Iterator[Leaves]:
    """Transitions in parts, of which there is one. ValueError: the buffer is empty."""
    _refuse_others(buffer)
    bounds, parts = bounds_of(action_bounds, None), transitions(buffer)
    if bounds is not None:
        parts = map(bounds.give_column, parts)
    first = next(parts, None)
    if first is None:
        raise ValueError("the buffer is empty; it must have a transition")
    yield first
    yield from parts


def _from_arrow(found: _arrow.ArrowTable, into: Any, spaces: tuple[Any, Any], action_bounds: Any,
                settings: dict[str, Any], progress: Progress | None) -> Any:
    table = table_of(found.columns)._replace(steps=found.steps)
    return _from_table(table, into, spaces, action_bounds, settings, progress)
