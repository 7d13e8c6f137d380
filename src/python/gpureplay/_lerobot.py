# SPDX-License-Identifier: MIT
"""LeRobot's data sets: a folder of Parquet files of frames, with JSON and Parquet files that describe them. Written is
version 3.0 of the form, read are 2.0 to 3.0."""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._arrow import ArrowTable, arrow, of_files, reading
from ._episodes import Episode, Episodes, Leaves, is_leaf_of, needed
from ._schema import STORED_AS
from ._tables import flags_of

OBS, ACTION, REWARD, DONE, TRUNCATED = "observation", "action", "next.reward", "next.done", "next.truncated"
_INFO, _FINAL = "complementary_info.", "final/"  # fields of one's own; observations after an episode's last step
_NUMBERS = ("reward", "terminated", "truncated")  # fields that are one number
_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_COUNTERS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64",
             "task_index": "int64"}
_FILE_BYTES, _FILES_OF_A_CHUNK = 100 * 2**20, 1000


# In.


def fields_of(features: Mapping[str, Any], observations: Sequence[str] | None) -> dict[str, str]:
    """The features that are read, by the names of the buffer's fields. ValueError: one is a video."""
    if isinstance(observations, str):
        raise TypeError(f"observations is {observations!r}; it must be a list of features, as [{observations!r}]")
    found = [name for name in features if is_leaf_of(name, OBS)] if observations is None else list(observations)
    for name in found:
        if name not in features:
            raise KeyError(f"observations has {name!r}, and the data set has no such feature; it has "
                           f"{', '.join(features)}")
        if features[name]["dtype"] == "video":
            raise ValueError(f"{name} is a video, which is not decoded here; name the features that are read as "
                             "observations=[...]")
    fields = {"obs" + ("" if len(found) == 1 else name[len(OBS):] if name.startswith(f"{OBS}.") else f".{name}"): name
              for name in found}
    fields.update({name: name for name in features if is_leaf_of(name, ACTION)})
    others = {"reward": REWARD, "terminated": DONE, "truncated": TRUNCATED}
    fields.update({field: name for field, name in others.items() if name in features})
    fields.update({name[len(_INFO):]: name for name in features if name.startswith(_INFO)})
    return fields


def _features_of(root: Path) -> dict[str, Any]:
    wanted = "it must be the folder of a data set of LeRobot's in its form 2.0 to 3.0"
    if not root.is_dir():
        kind, what = (NotADirectoryError, "is no folder") if root.exists() else (FileNotFoundError, "is not there")
        raise kind(f"folder is {str(root)!r}, which {what}; {wanted}")
    try:
        info = json.loads((root / "meta/info.json").read_text(encoding="utf-8"))
        features = info["features"]
    except FileNotFoundError as error:
        raise FileNotFoundError(f"folder is {str(root)!r}, which has no meta/info.json; {wanted}") from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{root}/meta/info.json has no JSON object with \"features\" ({error!r}); {wanted}") from error
    if not isinstance(features, dict):
        raise ValueError(f"{root}/meta/info.json has features {features!r}, which are no object; {wanted}")
    for name, feature in features.items():
        if not isinstance(feature, dict) or not {"dtype", "shape"} <= feature.keys():
            raise ValueError(f"{root}/meta/info.json has the feature {name!r}: {feature!r}, which has no \"dtype\" and "
                             f"\"shape\"; {wanted}")
    version = info.get("codebase_version")
    if not re.fullmatch(r"v?(2\.[0-9]+|3\.0)", str(version)):
        raise ValueError(f"{root}/meta/info.json has codebase_version {version!r}; it must be v2.0 to v3.0")
    return features


class Folder:
    """A data set that is read."""

    def __init__(self, path: str, observations: Sequence[str] | None):
        root = Path(path)
        self._features = _features_of(root)
        self._table = of_files([str(file) for file in sorted(root.glob("data/*/*.parquet"))])
        self.fields = fields_of(self._features, observations)
        for field, name in (("obs", OBS), ("action", ACTION)):
            if not any(is_leaf_of(one, field) for one in self.fields):
                raise KeyError(f"the data set has no {name}; it has {', '.join(self._features)}")
        if self._table.count == 0:
            raise ValueError(f"{root}/data has no frames; it must have one or more")
        index = self._table.read("episode_index", 0, self._table.count)
        self._firsts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
        self._finals = _finals_of(root)
        self._index = index

    def default_fields(self) -> dict[str, Any]:
        """For a buffer of what is read."""
        found: dict[str, Any] = {}
        for field, name in self.fields.items():
            kind, shape = self._features[name]["dtype"], tuple(self._features[name]["shape"])
            if kind == "image":
                kind, shape = "uint8", self._image(name, 0, 1).shape[1:]
            is_one = shape == (1,) and (np.dtype(kind).kind != "f" or field == "reward")
            found[field] = () if is_one else shape, STORED_AS.get(kind, kind)
        found.update({f"next_{field}": kind for field, kind in found.items() if is_leaf_of(field, "obs")})
        return {**found, "reward": "float32", "terminated": "bool", "truncated": "bool"}

    def episodes(self, final_reward: float | None) -> Episodes:
        """final_reward: of the last step of each episode where there are no rewards; that step then terminates."""
        if "reward" not in self.fields and final_reward is None:
            raise KeyError(f"the data set has no {REWARD}; it has {', '.join(self._features)}: say final_reward=1.0 "
                           "where each episode ends with a success")
        if "reward" in self.fields and final_reward is not None:
            raise ValueError(f"final_reward is {final_reward} and the data set has {REWARD}; it must be None")
        ends = [*self._firsts[1:], self._table.count]
        spans = [(int(first), int(end)) for first, end in zip(self._firsts, ends)]
        for field in self.fields:
            if field in _NUMBERS and math.prod(self._features[self.fields[field]]["shape"]) != 1:
                raise TypeError(f"{self.fields[field]} has shape {self._features[self.fields[field]]['shape']}; it "
                                "must be a number for each frame")
        done = self._flags("terminated")
        lengths = [end - first - (not self._is_whole(first, bool(done[end - 1]), final_reward)) for first, end in spans]
        return Episodes(np.array(lengths, np.int64), self._each(spans, lengths, done, final_reward))

    def _is_whole(self, first: int, is_done: bool, final_reward: float | None) -> bool:
        """Whether the last frame is a step."""
        return is_done or final_reward is not None or bool(self._finals.get(int(self._index[first])))

    def _flags(self, field: str) -> np.ndarray:
        if field not in self.fields:
            return np.zeros(self._table.count, np.bool_)
        return flags_of(self.fields[field], self._table.read(self.fields[field], 0, self._table.count))

    def _each(self, spans: list[tuple[int, int]], lengths: list[int], done: np.ndarray, final_reward: float | None
              ) -> Iterator[Episode]:
        truncated = self._flags("truncated")
        for (first, end), steps in zip(spans, lengths):
            found = {field: self._read(name, first, end) for field, name in self.fields.items()
                     if field not in ("terminated", "truncated")}
            obs, action = ({field[len(root):]: found.pop(field) for field in list(found) if is_leaf_of(field, root)}
                           for root in ("obs", ACTION))
            if steps == end - first:
                finals = self._finals.get(int(self._index[first]), {})
                obs = {leaf: np.concatenate([array, _final(finals.get(self.fields[f"obs{leaf}"]), array)])
                       for leaf, array in obs.items()}
            ends = [flags[first:first + steps].copy() for flags in (done, truncated)]
            reward = found.pop("reward").reshape(-1)[:steps] if "reward" in found else np.zeros(steps, np.float32)
            if final_reward is not None:
                reward[-1:], ends[0][-1:] = final_reward, True
            ends[1][-1:] |= ~ends[0][-1:]
            action, found = ({name: array[:steps] for name, array in part.items()} for part in (action, found))
            yield Episode(obs, action, reward, ends[0], ends[1], found)

    def _read(self, name: str, first: int, end: int) -> np.ndarray:
        if self._features[name]["dtype"] == "image":
            return self._image(name, first, end)
        array: np.ndarray = self._table.read(name, first, end)
        return array.reshape(end - first, *self._features[name]["shape"])

    def _image(self, name: str, first: int, end: int) -> np.ndarray:
        pieces = self._table.pieces(name, first, end)
        return np.stack([_decoded(value) for piece in pieces for value in piece.field("bytes").to_pylist()])


def _final(value: Any, array: np.ndarray) -> np.ndarray:
    """(1, ...) the observation after the last step; zeros if it was not stored."""
    if value is None:
        return np.zeros_like(array[:1])
    if isinstance(value, dict):
        return _decoded(value["bytes"])[np.newaxis]
    return np.asarray(value, array.dtype).reshape(1, *array.shape[1:])


def _finals_of(root: Path) -> dict[int, dict[str, Any]]:
    """By episode, then by feature. Data sets of others have none."""
    parquet, found = needed("pyarrow.parquet", "LeRobot's form"), {}
    for file in sorted(root.glob("meta/episodes/*/*.parquet")):
        with reading(str(file)):
            names = [name for name in parquet.read_schema(file).names if name.startswith(_FINAL)]
            rows = parquet.read_table(file, columns=["episode_index", *names]).to_pylist() if names else []
        for row in rows:
            found[row["episode_index"]] = {name[len(_FINAL):]: row[name] for name in names if row[name] is not None}
    return found


def _decoded(data: bytes) -> np.ndarray:
    image = needed("PIL.Image", "an image of LeRobot's", "pillow")
    found: np.ndarray = np.asarray(image.open(io.BytesIO(data)))
    return found


def _encoded(array: np.ndarray) -> dict[str, Any]:
    image, stream = needed("PIL.Image", "an image of LeRobot's", "pillow"), io.BytesIO()
    image.fromarray(np.ascontiguousarray(array)).save(stream, format="PNG")
    return {"bytes": stream.getvalue(), "path": None}


# Out.


def _is_image(array: np.ndarray) -> bool:
    """Whether rows are images (height, width, 3)."""
    return array.dtype == np.uint8 and array.ndim == 4 and array.shape[-1] == 3


def _feature(array: np.ndarray) -> dict[str, Any]:
    """What meta/info.json says of an array (frames, ...)."""
    if _is_image(array):
        return {"dtype": "image", "shape": list(array.shape[1:]), "names": ["height", "width", "channels"]}
    return {"dtype": array.dtype.name, "shape": list(array.shape[1:]) or [1], "names": None}


def _column(array: np.ndarray) -> Any:
    """As Hugging Face's datasets has it: one number alone, several as lists, several axes as lists of lists."""
    pa = arrow()
    if _is_image(array):
        return pa.array([_encoded(one) for one in array], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    count, shape = len(array), array.shape[1:]
    found = pa.array(np.ascontiguousarray(array).reshape(-1))
    if len(shape) == 1 and shape[0] > 1:
        return pa.FixedSizeListArray.from_arrays(found, shape[0])
    for at in range(len(shape) - 1, -1, -1) if len(shape) > 1 else ():
        lists = count * int(np.prod(shape[:at]))
        found = pa.ListArray.from_arrays(pa.array(np.arange(lists + 1, dtype=np.int32) * shape[at]), found)
    return found


def _frames(episode: Episode) -> Leaves:
    """The columns of an episode without the counters, (steps, ...)."""
    found = {_name_of(leaf, array): array[:-1] for leaf, array in episode.obs.items()}
    found.update({ACTION + leaf: array for leaf, array in episode.action.items()})
    found.update({REWARD: episode.reward.astype(np.float32), DONE: episode.terminated, TRUNCATED: episode.truncated})
    return {**found, **{_INFO + name: array for name, array in episode.extras.items()}}


def _name_of(leaf: str, array: np.ndarray) -> str:
    return OBS + (leaf or (".image" if _is_image(array) else ".state"))


class Statistics:
    """Of the numbers of each feature, along the frames."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, frames: Mapping[str, np.ndarray]) -> None:
        for name, array in frames.items():
            if _is_image(array):  # by channel, 0 to 1
                array = array.reshape(-1, 3) / 255.0
            numbers = array.reshape(len(array), -1).astype(np.float64)
            one = self._found.setdefault(name, {"min": np.inf, "max": -np.inf, "sum": 0.0, "squares": 0.0, "count": 0})
            one["min"], one["max"] = np.minimum(one["min"], numbers.min(0)), np.maximum(one["max"], numbers.max(0))
            one["sum"], one["squares"] = one["sum"] + numbers.sum(0), one["squares"] + (numbers**2).sum(0)
            one["count"] += len(numbers)
            one["is_image"] = _is_image(frames[name])

    def described(self, frames: int) -> dict[str, Any]:
        """For meta/stats.json."""
        found = {}
        for name, one in self._found.items():
            mean = one["sum"] / one["count"]
            deviation = np.sqrt(np.maximum(one["squares"] / one["count"] - mean**2, 0))
            shape = (-1, 1, 1) if one["is_image"] else (-1,)
            values = {"min": one["min"], "max": one["max"], "mean": mean, "std": deviation}
            found[name] = {**{key: np.reshape(value, shape).tolist() for key, value in values.items()},
                           "count": [frames]}
        return found


class Writing:
    """A data set that is written, episode by episode."""

    def __init__(self, path: str, fps: int, task: str, robot_type: str | None):
        self._root, self._fps, self._task, self._robot_type = Path(path), fps, task, robot_type
        self._parquet = needed("pyarrow.parquet", "LeRobot's form")
        self._episodes: list[dict[str, Any]] = []
        self._features: dict[str, Any] = {}
        self._statistics, self._frames = Statistics(), 0
        self._writer: Any = None
        self._file, self._bytes = 0, 0

    def add(self, episode: Episode) -> None:
        pa, frames, steps = arrow(), _frames(episode), episode.steps
        self._features = self._features or {name: _feature(array) for name, array in frames.items()}
        self._statistics.add(frames)
        table = pa.table({**{name: _column(array) for name, array in frames.items()}, **self._counters(steps)})
        if self._writer is not None and self._bytes + table.nbytes > _FILE_BYTES:
            self._writer.close()
            self._writer, self._file, self._bytes = None, self._file + 1, 0
        chunk, file = divmod(self._file, _FILES_OF_A_CHUNK)
        if self._writer is None:
            path = self._root / _DATA.format(chunk_index=chunk, file_index=file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._parquet.ParquetWriter(path, table.schema)
        self._writer.write_table(table)
        self._bytes += table.nbytes
        finals = {_FINAL + _name_of(leaf, array): _encoded(array[-1]) if _is_image(array) else array[-1].tolist()
                  for leaf, array in episode.obs.items()}
        self._episodes.append({
            "episode_index": len(self._episodes), "tasks": [self._task], "length": steps, "data/chunk_index": chunk,
            "data/file_index": file, "dataset_from_index": self._frames, "dataset_to_index": self._frames + steps,
            "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0, **finals})
        self._frames += steps

    def _counters(self, steps: int) -> dict[str, Any]:
        pa, frame = arrow(), np.arange(steps)
        values = {"timestamp": frame / self._fps, "frame_index": frame, "index": self._frames + frame,
                  "episode_index": np.full(steps, len(self._episodes)), "task_index": np.zeros(steps)}
        return {name: pa.array(values[name].astype(kind)) for name, kind in _COUNTERS.items()}

    def close(self) -> None:
        """Writes what describes the frames."""
        pa = arrow()
        self.stop()
        meta = self._root / "meta"
        (meta / "episodes/chunk-000").mkdir(parents=True)
        self._parquet.write_table(pa.Table.from_pylist(self._episodes), meta / "episodes/chunk-000/file-000.parquet")
        self._parquet.write_table(_tasks(self._task), meta / "tasks.parquet")
        counters = {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in _COUNTERS.items()}
        count = len(self._episodes)
        info = {"codebase_version": "v3.0", "robot_type": self._robot_type, "total_episodes": count,
                "total_frames": self._frames, "total_tasks": 1, "chunks_size": _FILES_OF_A_CHUNK,
                "data_files_size_in_mb": _FILE_BYTES // 2**20, "video_files_size_in_mb": 200, "fps": self._fps,
                "splits": {"train": f"0:{count}"}, "data_path": _DATA, "video_path": None,
                "features": {**self._features, **counters}}
        for name, content in (("info.json", info), ("stats.json", self._statistics.described(self._frames))):
            (meta / name).write_text(json.dumps(content, indent=4), encoding="utf-8")

    def stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _tasks(task: str) -> Any:
    """A table that pandas reads with the task as the index."""
    index = "__index_level_0__"

    def column(name: str | None, field: str | None, kind: str, numpy: str) -> dict[str, Any]:
        return {"name": name, "field_name": field, "pandas_type": kind, "numpy_type": numpy, "metadata": None}

    described = {"index_columns": [index], "column_indexes": [column(None, None, "unicode", "object")],
                 "columns": [column("task_index", "task_index", "int64", "int64"),
                             column(None, index, "unicode", "object")],
                 "creator": {"library": "pyarrow", "version": arrow().__version__}, "pandas_version": "2.0.0"}
    table = arrow().table({"task_index": arrow().array([0], "int64"), index: [task]})
    return table.replace_schema_metadata({"pandas": json.dumps(described)})
