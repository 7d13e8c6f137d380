# SPDX-License-Identifier: MIT
"""What Python reads of the folder of a run, whose files the library writes (docs/training.md): its tables as arrays,
and options.txt."""

from __future__ import annotations

import csv
import json
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


def _type_of(column: str) -> type:
    return str if column == "event" else int if column in _WHOLE else float


def rows_to_array(columns: Sequence[str], *rows: Sequence[Cell]) -> np.ndarray:
    """(count,) with the columns as fields: array["step"]."""
    dtypes = {int: np.int64, str: "U7", float: np.float64}
    return np.array([tuple(row) for row in rows], [(name, dtypes[_type_of(name)]) for name in columns])


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


def read_array(folder: str | os.PathLike[str], kind: str) -> np.ndarray:
    """The rows of a kind. An empty cell is NaN. ValueError: the file is no table of a run."""
    path = file_of(folder, _TABLES[kind])
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # The last line may be incomplete, and be the only one.
    header, *rows = [*csv.reader(line for line in lines if line.endswith("\n"))] or [["none"]]
    if "step" not in header:
        raise ValueError(f"{path} has the columns {', '.join(header)}; it must have the column step")
    types = list(map(_type_of, header))
    return rows_to_array(header, *([make(cell or "nan") for make, cell in zip(types, row)] for row in rows))


def is_apex(folder: str | os.PathLike[str]) -> bool:
    """Whether the run is one of Ape-X."""
    return Path(folder, _TABLES["actor"]).exists()


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


def refuse_two_folders(given: Mapping[str, Any]) -> None:
    """InvalidArgument: these arguments of a training are a new run's and a resumed one's."""
    out, resume = given.get("out"), given.get("resume")
    if out is not None and resume is not None:
        raise InvalidArgument(f"out is {os.fspath(out)!r} and resume is {os.fspath(resume)!r}; a run that is resumed "
                              "stays in its folder, so only one of the two may be given")
