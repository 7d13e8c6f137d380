# SPDX-License-Identifier: MIT
"""The folder of a run, whose files are those of the program gpureplay-train (docs/training.md): the record in
episodes.csv, evaluations.csv, rates.csv, of Ape-X actors.csv, of GA3C tuner.csv, and log.jsonl,
and the checkpoint."""

from __future__ import annotations

import csv
import fcntl
import json
import math
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Union

import numpy as np

Number = Union[int, float]
Cell = Union[Number, str]

# The kinds of rows: the file and the columns of each.
COLUMNS: dict[str, tuple[str, ...]] = {
    "episode": ("step", "lane", "length", "return"),
    "evaluation": ("step", "episodes", "length", "mean_return", "return_deviation"),
    "rates": ("seconds", "step", "train_steps", "episodes", "env_steps_per_second", "inferences_per_second",
              "observations_per_inference", "train_steps_per_second", "env_share", "infer_share", "train_share",
              "publish_share", "copy_share", "eval_share", "publish_seconds", "copy_seconds", "recent_return",
              "epsilon", "learning_rate", "loss", "mean_q", "gradient_norm", "missing_share"),
}
# The same of Ape-X.
APEX_COLUMNS: dict[str, tuple[str, ...]] = {
    "episode": ("step", "actor", "length", "return", "epsilon"),
    "evaluation": COLUMNS["evaluation"],
    "rates": ("seconds", "step", "train_steps", "episodes", "env_steps_per_second", "transitions_per_second",
              "megabytes_per_second", "train_steps_per_second", "learned_per_second", "samples_per_insert",
              "weights_age", "actors", "deaths", "lost_transitions", "refused_blocks", "limiter_timeouts",
              "train_share", "broadcast_share", "receive_share", "learner_wait_share", "actor_env_share",
              "actor_infer_share", "actor_wait_share", "recent_return", "evaluated_return", "learning_rate", "loss",
              "mean_q", "gradient_norm"),
    "actor": ("step", "actor", "incarnation", "event", "asked", "lost_blocks", "lost_rows"),
}
# The same of A3C and A2C, and of GA3C.
A3C_COLUMNS: dict[str, tuple[str, ...]] = {
    "episode": ("step", "agent", "length", "return"),
    "evaluation": ("step", "episodes", "mean_return", "return_deviation"),
    "rates": ("seconds", "step", "train_steps", "episodes", "env_steps_per_second", "predictions_per_second",
              "rollouts_per_second", "predictions_per_rollout", "train_steps_per_second", "prediction_batch",
              "prediction_queue", "training_queue", "mean_lag", "largest_lag", "queue_lag", "queue_lag_bound", "agents",
              "predictors", "trainers", "env_share", "wait_share", "predict_share", "train_share", "recent_return",
              "entropy", "value_loss", "learning_rate", "gradient_norm"),
}
GA3C_COLUMNS = {**A3C_COLUMNS,
                "tuner": ("step", "agents", "predictors", "trainers", "accepted", "rollouts_per_second")}
_FILES = {"episode": "episodes.csv", "evaluation": "evaluations.csv", "rates": "rates.csv", "actor": "actors.csv",
          "tuner": "tuner.csv"}
_ROUNDED = ("rates", "tuner")  # what is measured
_ALL = (COLUMNS, APEX_COLUMNS, GA3C_COLUMNS)
_LOG = "log.jsonl"
_TYPES = {**dict.fromkeys(("step", "lane", "length", "episodes", "train_steps", "actor", "incarnation", "asked",
                           "lost_blocks", "lost_rows", "agent", "agents", "predictors", "trainers", "accepted"), int),
          "event": str}


def files_of(columns: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The files of a record, in the order of position.txt."""
    return [*(_FILES[kind] for kind in columns), _LOG]


def all_files() -> list[str]:
    """Those that a record of any system has."""
    return list(dict.fromkeys(name for columns in _ALL for name in files_of(columns)))


def rows_to_array(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> np.ndarray:
    """(count,) with the columns as fields: array["step"]."""
    dtypes = {int: np.int64, str: "U7", float: np.float64}
    return np.array([tuple(row) for row in rows], [(name, dtypes[_TYPES.get(name, float)]) for name in columns])


def _read(folder: str | os.PathLike[str], kind: str) -> tuple[list[str], list[list[Cell]]]:
    """The columns and rows of a kind. An empty cell is NaN. ValueError: the file has other columns."""
    path, known = Path(folder, _FILES[kind]), [found[kind] for found in _ALL if kind in found]
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # The last line may be incomplete, and be the only one.
    header, *rows = [*csv.reader(line for line in lines if line.endswith("\n"))] or [["none"]]
    if tuple(header) not in known:
        raise ValueError(f"{path} has the columns {', '.join(header)}; they must be "
                         f"{', or '.join(map(', '.join, dict.fromkeys(known)))}")
    types = [_TYPES.get(name, float) for name in header]
    return header, [[make(cell or "nan") for make, cell in zip(types, row)] for row in rows]


def read_array(folder: str | os.PathLike[str], kind: str) -> np.ndarray:
    return rows_to_array(*_read(folder, kind))


def is_apex(folder: str | os.PathLike[str]) -> bool:
    """Whether the run is one of Ape-X."""
    return Path(folder, _FILES["actor"]).exists()


def _cell(value: Cell, digits: int | None, none: str) -> str:
    """A number with all of its digits, or rounded to some; whole numbers keep theirs. NaN and infinity are `none`."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return none
    if value == math.floor(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value)) if digits is None else f"{value:.{digits}g}"


class Record:
    """The rows of a run, in memory and, if there is a folder, in its files. A row is written by one call of the
    system, so that a run that is killed leaves whole rows."""

    def __init__(self, folder: Path | None, columns: Mapping[str, tuple[str, ...]] = COLUMNS):
        """OSError: a file cannot be opened, or another process writes to it. Files keep what they have."""
        self.columns, self.files = columns, files_of(columns)
        self._rows: dict[str, list[Sequence[Cell]]] = {kind: [] for kind in columns}
        self._lock, self._folder = threading.Lock(), folder  # rows come from two threads
        self._files: dict[str, IO[bytes]] = {}
        try:
            for path in [folder / name for name in self.files] if folder is not None else ():
                file = self._files[path.name] = open(path, "ab", buffering=0)
                _lock(file)
        except OSError:
            self.close()
            raise

    def last_step(self) -> int:
        """Of all episodes and evaluations in the files, whose first column it is; 0: there are none."""
        lines = (line for kind in ("episode", "evaluation")
                 for line in Path(self._folder or "", _FILES[kind]).read_text(encoding="utf-8").splitlines())
        return max((int(step) for step, _, _ in (line.partition(",") for line in lines) if step.isdigit()), default=0)

    def begin(self, sizes: Mapping[str, int] | None) -> None:
        """Goes back to where the files had these sizes, in bytes. None: to the beginning. ValueError: a file is
        smaller, so rows are missing."""
        for name, file in self._files.items():
            size, wanted = os.fstat(file.fileno()).st_size, (sizes or {}).get(name, 0)
            if size < wanted:
                raise ValueError(f"{Path(self._folder or '', name)} has {size} bytes; it had {wanted} when the "
                                 "checkpoint was saved, and must have no less")
        for name, file in self._files.items():
            os.ftruncate(file.fileno(), (sizes or {}).get(name, 0))
        for kind, columns in self.columns.items() if self._files else ():
            if not sizes:
                self._files[_FILES[kind]].write((",".join(columns) + "\n").encode())
            self._rows[kind] = list(_read(self._folder or "", kind)[1])

    def add(self, kind: str, row: Sequence[Cell]) -> None:
        """Any thread. One number for each column; NaN is no value."""
        digits = 6 if kind in _ROUNDED else None
        with self._lock:
            self._rows[kind].append(row)
            if not self._files:
                return
            cells = zip(self.columns[kind], [f'"{value}"' if isinstance(value, str) else _cell(value, digits, "null")
                                             for value in row])
            members = "".join(f', "{name}": {cell}' for name, cell in cells)
            line = ",".join(_cell(value, digits, "") for value in row) + "\n"
            _write_whole(self._files[_FILES[kind]], line.encode())
            _write_whole(self._files[_LOG], f'{{"kind": "{kind}"{members}}}\n'.encode())

    def array(self, kind: str) -> np.ndarray:
        with self._lock:
            return rows_to_array(self.columns[kind], self._rows[kind])

    def sync(self) -> dict[str, int]:
        """Waits until all rows are on the disk. Returns the sizes of the files."""
        with self._lock:
            for file in self._files.values():
                os.fsync(file.fileno())
            return {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def _write_whole(file: IO[bytes], row: bytes) -> None:
    """All of it, or, where there is no room, nothing."""
    before, written = os.fstat(file.fileno()).st_size, 0
    try:
        while written < len(row):
            written += file.write(row[written:])
    except OSError as error:
        os.ftruncate(file.fileno(), before)
        raise OSError(error.errno, error.strerror, file.name) from error


def _lock(file: IO[bytes]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(f"{file.name} is locked; another process must not write to it") from error


# Files that are whole or not there.


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_file(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    _sync_folder(path.parent)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """With each list of numbers in one line."""
    text = json.dumps(document, indent=2)
    write_file(path, re.sub(r"\[[-\d.,\s]+\]", lambda numbers: " ".join(numbers[0].split())
                            .replace("[ ", "[").replace(" ]", "]"), text) + "\n")


# Checkpoints.

_POSITION = "position.txt"


class Position(NamedTuple):
    """Where a run was when its checkpoint was saved."""

    step: int
    seconds: float
    sizes: dict[str, int]  # of the files of the record, in bytes


class Checkpoint:
    """The folder "checkpoint": the files of Run.save, and position.txt. A new one is saved as "checkpoint.new", and
    replaces the one before when it is complete: whenever the process is killed, one complete checkpoint is there, or
    `find` puts it in its place."""

    def __init__(self, folder: Path):
        self.path = folder / "checkpoint"
        self._new, self._old = folder / "checkpoint.new", folder / "checkpoint.old"

    def _put_in_place(self) -> None:
        if self.path.exists():
            os.rename(self.path, self._old)
        os.rename(self._new, self.path)
        _sync_folder(self.path.parent)
        shutil.rmtree(self._old, ignore_errors=True)

    def _settle(self) -> None:
        """Ends what a killed process has begun: there is an old one and no current one only while a complete new one is
        put in its place."""
        if not self.path.exists() and self._old.exists():
            self._put_in_place()
        for path in (self._new, self._old):
            if path.exists():
                shutil.rmtree(path)

    def exists(self) -> bool:
        """Nothing is changed: another process may be writing to the folder."""
        return self.path.exists() or self._old.exists()

    def begin(self) -> Path:
        """The folder to which the run is to be saved."""
        self._settle()
        return self._new

    def complete(self, record: Record, step: int, seconds: float) -> None:
        """Adds the position to what was saved, and puts it in the place of the checkpoint before."""
        lines: Iterable[tuple[str, str]] = (("step", str(step)), ("seconds", _cell(seconds, None, "0")),
                                            *((name, str(size)) for name, size in record.sync().items()))
        write_file(self._new / _POSITION, "".join(f"{name} {value}\n" for name, value in lines))
        self._put_in_place()

    def find(self, files: Sequence[str] = tuple(files_of(COLUMNS))) -> Position | None:
        """The position of the last checkpoint. None: there is none. ValueError: it is damaged. files: of the record."""
        self._settle()
        if not self.path.exists():
            return None
        path = self.path / _POSITION
        pairs = dict(line.partition(" ")[::2] for line in path.read_text(encoding="utf-8").splitlines())
        try:
            sizes = {name: int(pairs[name]) for name in files}
            return Position(int(pairs["step"]), float(pairs["seconds"]), sizes)
        except (KeyError, ValueError):
            raise ValueError(f"{path} is damaged; it must have the lines \"step N\", \"seconds X\" and one for each "
                             "file of the record") from None
