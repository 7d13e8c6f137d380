# SPDX-License-Identifier: MIT
"""What Python reads of the folder of a run, whose files the library writes (docs/training.md): its tables as arrays,
and options.txt."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._library import InvalidArgument
from ._options import keyword_of

Cell = Union[int, float, str]
FILE = "options.txt"
OVERRIDES = ("buffer", "agent")  # lines of it with settings of the objects that Python makes
_TABLES = {"episode": "episodes.csv", "evaluation": "evaluations.csv", "rates": "rates.csv", "actor": "actors.csv"}
_WHOLE = ("step", "lane", "length", "episodes", "train_steps", "actor", "incarnation", "asked", "lost_blocks",
          "lost_rows", "agent", "agents", "predictors", "trainers", "accepted")  # columns of whole numbers


def _dtype_of(columns: Sequence[str]) -> np.dtype[Any]:
    return np.dtype([(name, "U7" if name == "event" else np.int64 if name in _WHOLE else np.float64)
                     for name in columns])


def rows_to_array(columns: Sequence[str], *rows: Sequence[Cell]) -> np.ndarray:
    """(count,) with the columns as fields: array["step"]."""
    return np.array([tuple(row) for row in rows], _dtype_of(columns))


def folders_among(paths: Sequence[str]) -> list[str]:
    """Without the files, such as pictures, that a pattern like runs/* names beside the folders of runs."""
    return [path for path in paths if not os.path.isfile(path)] or list(paths)


def file_of(folder: str | os.PathLike[str], name: str) -> Path:
    """The path of a file that the folder of a run has. FileNotFoundError: it has none."""
    path = Path(folder, name)
    if not path.exists():
        raise FileNotFoundError(f"{os.fspath(folder)} is no folder of a run: it has no {name}")
    return path


def read_config(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """config.json."""
    config: dict[str, Any] = json.loads(file_of(folder, "config.json").read_text(encoding="utf-8"))
    return config


def grouped(folders: Sequence[str | os.PathLike[str]], key: Callable[[dict[str, Any]], Any]
            ) -> dict[Any, tuple[dict[str, Any], list[Path]]]:
    """The runs with equal keys of their config.json, and one of these, in the order given."""
    groups: dict[Any, tuple[dict[str, Any], list[Path]]] = {}
    for folder in map(Path, folders):
        config = read_config(folder)
        groups.setdefault(key(config), (config, []))[1].append(folder)
    return groups


class Table:
    """The table of a kind of rows, which may grow. FileNotFoundError: the folder has none."""

    def __init__(self, folder: str | os.PathLike[str], kind: str):
        self._path = file_of(folder, _TABLES[kind])
        self._columns: list[str] = []
        self._at = 0  # where the next line begins

    def read(self) -> np.ndarray:
        """The rows since the last call. An empty cell is NaN. ValueError: the file is no table of a run."""
        with open(self._path, "rb") as file:
            file.seek(self._at)
            found = file.read()
        lines = found[:found.rfind(b"\n") + 1]  # the last line may be incomplete, and be the only one
        self._at += len(lines)
        rows = [*csv.reader(lines.decode().splitlines())]
        if not self._columns:
            header, *rows = rows or [["none"]]
            if "step" not in header:
                raise ValueError(f"{self._path} has the columns {', '.join(header)}; it must have the column step")
            self._columns = header
        cells = np.array(rows, str).reshape(-1, len(self._columns))
        made = np.empty(len(cells), _dtype_of(self._columns))
        for column, name in zip(cells.T, self._columns):
            made[name] = np.where(column == "", "nan", column)
        return made


def read_array(folder: str | os.PathLike[str], kind: str) -> np.ndarray:
    """All rows of a kind, as `Table` reads them."""
    return Table(folder, kind).read()


def seconds_by(rates: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The seconds that a run had taken at these steps, from its rows of rates: between two of them in proportion."""
    seconds: np.ndarray = np.interp(steps, [0, *rates["step"]], [0.0, *rates["seconds"]])
    return seconds


def greediest(episodes: np.ndarray) -> tuple[float, int]:
    """Of Ape-X the smallest epsilon of these rows of actors, and the first actor that has it; of others (inf, -1)."""
    if "epsilon" not in (episodes.dtype.names or ()):
        return math.inf, -1
    return min(zip(episodes["epsilon"].tolist(), episodes["actor"].tolist()), default=(math.inf, -1))


def sorted_episodes(rows: np.ndarray, actor: int) -> np.ndarray:
    """By the order of their ends: a run reports them lane by lane. Those of one actor, where this is no -1."""
    names: list[str] = list(rows.dtype.fields or {})
    sorted_rows: np.ndarray = np.sort(rows[rows["actor"] == actor] if actor >= 0 else rows, order=names[:2],
                                      kind="stable")
    return sorted_rows


def read_options(folder: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The options of the run in this folder as texts, and the settings of its buffer and agent."""
    overrides: dict[str, dict[str, Any]] = {name: {} for name in OVERRIDES}
    found: dict[str, str] = {}
    for line in file_of(folder, FILE).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        flag, _, text = line.partition(" ")
        if flag in overrides:
            overrides[flag] = json.loads(text)
        else:
            found[keyword_of(flag.removeprefix("--").replace("-", "_"))] = text
    return found, overrides


def check_folders(given: Mapping[str, Any]) -> None:
    """InvalidArgument: these arguments of a training are a new run's and a resumed one's, or name no folder."""
    out, resume = given.get("out"), given.get("resume")
    if resume == "":
        raise InvalidArgument("resume is empty; it must be the folder of a run")
    if out is not None and resume is not None:
        raise InvalidArgument(f"out is {os.fspath(out)!r} and resume is {os.fspath(resume)!r}; a run that is resumed "
                              "stays in its folder, so only one of the two may be given")
