# SPDX-License-Identifier: MIT
"""Offline runs: a learner trains on a buffer as it is."""

from __future__ import annotations

import os
import re
from typing import Any, cast

from ._buffer import ReplayBuffer
from ._config import RunConfigs
from ._door import is_program
from ._lanes import LaneBuffer
from ._library import InvalidArgument, lib
from ._python_envs import Envs
from ._run import LibraryRun, OnEvent, Reporter
from ._tuples import RunStats


class NoEnvs(Envs):
    """In the place of environments, where there are none."""

    name, eval_count = "no environment", 0


class Offline(LibraryRun):
    """The run of `train_offline`: train steps, and evaluations between them in environments, if there are some."""

    _stats, _adds = RunStats, False

    def _create(self, agent: Any, envs: Envs, configs: RunConfigs, on_event: OnEvent | Reporter | None) -> None:
        if envs.type is None and not isinstance(envs, NoEnvs):
            raise InvalidArgument(f"{envs.name} steps all its environments at once; to evaluate it must step one at a "
                                  "time")

        def create(learner: int, common: int, _own: int, run: int) -> int:
            return cast(int, lib.gpur_offline_create(learner, None if envs.type is None else common, run))

        self._make(create, agent, envs, configs, on_event)
        envs.open()

    @property
    def stats(self) -> RunStats:
        """Counts and times. env_steps counts train steps, as everywhere in such a run. Does not wait for steps."""
        return cast(RunStats, self._read_stats())


def refuse_other_envs(env: Any) -> None:
    if env is not None and not isinstance(env, str) and not callable(env):
        raise TypeError(f"env is {env!r}; offline it must be a name, or a function make_env(number), since each "
                        "evaluation makes its own; None: there are no evaluations")


# Of data sets that are no files of `ReplayBuffer.save`, by the ends of their names.
_READERS = {".parquet": "from_parquet", ".hdf5": "from_d4rl", ".h5": "from_d4rl"}


def read_data(data: Any, device: Any) -> Any:
    """A buffer with the transitions of a data set: a Parquet file, an HDF5 file in D4RL's form, LeRobot's folder, or
    Minari's id. Other data as they are."""
    if not isinstance(data, (str, os.PathLike)):
        return data
    path = os.fspath(data)
    reader = _READERS.get(os.path.splitext(path)[1].lower())
    if os.path.exists(os.path.join(path, "meta", "info.json")):
        reader = "from_lerobot"
    elif not os.path.exists(path) and re.fullmatch(r"[\w./-]+-v\d+", path):
        reader = "from_minari"
    if reader is None:
        return data
    from . import data as data_sets

    try:
        return getattr(data_sets, reader)(path, device="auto" if device is None else device)
    except (OSError, ValueError) as error:
        if len(error.args) == 1:
            error.args = (re.sub(r"^(source|path|folder|dataset) is ", f"{'--' * is_program()}data is ",
                                 str(error.args[0])),)
        raise
    except KeyError as error:
        raise InvalidArgument(error.args[0]) from error


def file_of(data: Any) -> str | None:
    """The path of the file that has the transitions; None: a buffer has them."""
    if isinstance(data, ReplayBuffer):
        return None
    if isinstance(data, LaneBuffer):
        raise TypeError(f"data is {data!r}; it must be a ReplayBuffer, as gpureplay.data.from_numpy makes one of "
                        "gpureplay.data.to_numpy(lanes). A learner that is made with the lanes trains on them by "
                        "agent.train(steps)")
    if not isinstance(data, (str, os.PathLike)):
        raise TypeError(f"data is {data!r}; it must be a ReplayBuffer, the path of a file that ReplayBuffer.save "
                        "wrote, or that of a data set")
    return os.path.abspath(os.fspath(data))
