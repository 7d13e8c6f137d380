# SPDX-License-Identifier: MIT
"""The events for TensorBoard that a training writes while it runs."""

import os
import sys
import time
import warnings
from pathlib import Path

import gpureplay
import numpy as np
import pytest
from gpureplay import _run_folder, tensorboard
from support import needs_files

SMALL = {"device": "cpu", "threads": 1, "target_period": 80, "prepopulation": 250, "capacity": 1000,
         "eval_period": 160, "eval_episodes": 2, "exploration_steps": 300, "checkpoint": 80, "progress": False}

pytestmark = needs_files


def train(**options):
    return gpureplay.train("CartPole-v1", **{**SMALL, **options})


def scalars(folder):
    """{tag: [(step, value)]} of all events."""
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def rows_of(folder, kind, column):
    rows = _run_folder.read_array(folder, kind)
    rows = rows[rows["step"] > 0]
    return list(zip(rows["step"].tolist(), np.float32(rows[column]).tolist()))


def assert_events_are_rows(folder):
    found = scalars(folder)
    assert found["evaluation/mean_return"] == rows_of(folder, "evaluation", "mean_return")
    assert found["rates/train_steps"] == rows_of(folder, "rates", "train_steps")
    episodes, rows = found["episode/return"], rows_of(folder, "episode", "return")
    assert 0 < len(episodes) <= len(rows) and set(episodes) <= set(rows)


def test_events_are_written_while_a_training_runs(tmp_path):
    """The training ends when they are there, with those of its first seconds."""
    pytest.importorskip("tensorboard")
    until, seen = time.monotonic() + 60, []

    def on_event(_event):
        files = [*tmp_path.glob("tensorboard/*")]
        seen.extend(file.stat().st_size for file in files)
        return not (seen and seen[-1] > 200) and time.monotonic() < until

    train(out=tmp_path, steps=10**9, on_event=on_event)
    assert seen and seen[-1] > 200
    assert_events_are_rows(tmp_path)


def test_a_resumed_run_has_each_event_once(tmp_path):
    """Also where its last events were of rows that are cut off; files of others in that folder are kept."""
    pytest.importorskip("tensorboard")
    train(out=tmp_path, steps=400)
    events = tensorboard._Events(tmp_path, is_live=True)
    with open(tmp_path / "evaluations.csv", "a") as file:
        file.write("999,2,18,9,0\n")
    events.go_on()
    events.close()
    assert scalars(tmp_path)["evaluation/mean_return"][-1] == (999, 9.0)
    (tmp_path / "tensorboard/other").write_text("of another program")
    train(resume=tmp_path, steps=800)
    assert_events_are_rows(tmp_path)
    assert [step for step, _ in scalars(tmp_path)["evaluation/mean_return"]] == [160, 320, 480, 640, 800]
    assert (tmp_path / "tensorboard/other").exists()


def test_a_training_goes_on_with_events_that_another_program_has_converted(tmp_path):
    pytest.importorskip("tensorboard")
    train(out=tmp_path, steps=400)
    events = tensorboard._Events(tmp_path, is_live=True)
    tensorboard.convert(tmp_path)
    with open(tmp_path / "evaluations.csv", "a") as file:
        file.write("999,2,18,9,0\n")
    events.go_on()
    events.close()
    assert_events_are_rows(tmp_path)


def test_a_look_reads_what_came_since_the_last(tmp_path):
    """And of a training that writes its own events at most one episode in a time."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "evaluations.csv").write_text("step,mean_return\n100,1\n200,")  # the last row is not whole
    (tmp_path / "rates.csv").write_text("seconds,step\n0,0\n10,1000\n")
    (tmp_path / "episodes.csv").write_text("step,lane,length,return\n" + "".join(
        f"{step},0,1,{step}\n" for step in range(1, 1001)))
    curves, live = tensorboard._Curves(tmp_path), tensorboard._Curves(tmp_path, 0.0625)
    for found, wanted in ((curves, 1000), (live, 161)):
        assert len([row for row in found.read() if "episode/return" in row[2]]) == wanted
    with open(tmp_path / "evaluations.csv", "a") as file:
        file.write("2\n")
    assert curves.read() == live.read() == [(2.0, 200, {"evaluation/mean_return": 2.0})]
    assert curves.read() == []


def test_curves_begin_anew_where_rows_were_cut_off_or_the_greediest_actor_comes_later(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "evaluations.csv").write_text("step,mean_return\n")
    (tmp_path / "rates.csv").write_text("seconds,step\n0,0\n")
    (tmp_path / "episodes.csv").write_text("step,actor,length,return,epsilon\n10,0,10,10,0.5\n")
    curves = tensorboard._Curves(tmp_path)
    assert [row[1] for row in curves.read()] == [10]
    with open(tmp_path / "episodes.csv", "a") as file:
        file.write("20,1,10,10,0.1\n30,0,10,10,0.5\n")
    assert curves.read() is None
    curves = tensorboard._Curves(tmp_path)
    assert [row[1] for row in curves.read()] == [20]
    os.utime(tmp_path / "config.json", (1, 1))  # written again when a run is resumed
    assert curves.read() is None


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_training_needs_no_tensorboard(tmp_path, monkeypatch, has_folder):
    """Nor is a folder of that name taken for the package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if "-packages" not in path)])
    if has_folder:
        (tmp_path / "tensorboard").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(out=tmp_path / "run", steps=400)
    assert not (tmp_path / "run/tensorboard").exists()


def test_a_training_whose_events_cannot_be_written_says_so_once_and_goes_on(tmp_path):
    pytest.importorskip("tensorboard")
    Path(tmp_path, "tensorboard").write_text("a file, and no folder")
    with pytest.warns(RuntimeWarning, match="no further events for TensorBoard are written: .*tensorboard") as warned:
        train(out=tmp_path, steps=400)
    assert len([one for one in warned if "TensorBoard" in str(one.message)]) == 1
    assert _run_folder.read_array(tmp_path, "rates")["step"][-1] == 400
