# SPDX-License-Identifier: MIT
"""bench/peers: its arithmetic, its checks, its report; and each contestant that is here passes its check.

Those that are not here are skipped; ours must be."""

import json
import math
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))

import adapters  # noqa: E402
import check  # noqa: E402
import host  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import summary  # noqa: E402
import table  # noqa: E402
import timing  # noqa: E402
import workloads  # noqa: E402
from adapters import Found  # noqa: E402
from adapters.base import STEP, Adapter, Settings, add_by_keywords  # noqa: E402
from contest import Contest  # noqa: E402

SETTINGS = Settings("cpu", 1)
TINY = workloads.Group(workloads.OBS4, 256, 1, (workloads.Case("add", 1), workloads.Case("sample", 8)))


class Ring(Adapter):
    """Right, and slow. `spoil` makes it wrong."""

    package, as_used, spoil = "numpy", "NumPy arrays", ""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.given, self.rng = [], np.random.default_rng(1)

    one = many = staticmethod(lambda rows: rows)

    def extend(self, transitions):
        self.given.extend(workloads.tags_of(self.schema, transitions))

    add = extend

    def sample(self, count):
        there = np.array(self.given[-self.capacity:])
        if self.spoil == "old":
            there = np.array(self.given)
        if self.spoil == "new":
            there = there[self.capacity // 2:]
        rows = workloads.rows_of(self.schema, self.rng.choice(there, count))
        if self.spoil in rows:
            rows[self.spoil][0] = workloads.rows_of(self.schema, self.rng.choice(there, 1) + 1)[self.spoil][0]
        return rows

    def read(self, drawn):
        return drawn


class Broken(Ring):
    def sample(self, count):
        raise OSError("no /usr/lib/secret/libfast.so.1 here")


def below(runs, j):
    """The chance that fewer than j of so many samples are under the median."""
    return sum(math.comb(runs, i) for i in range(j)) / 2**runs


@pytest.mark.parametrize("runs", [6, 7, 10, 30, 31, 51, 200])
def test_the_interval_is_the_narrowest_of_95_percent(runs):
    j = summary.rank(runs)
    assert 1 - 2 * below(runs, j) >= 0.95 > 1 - 2 * below(runs, j + 1)


def test_a_summary_of_known_numbers():
    figure = summary.summarise([float(n) for n in range(30, 0, -1)])
    assert figure == (15.5, 10, 21, 1, 30, 30)  # the tables' 10th and 21st of 30
    assert summary.summarise([3.0, 1.0, 2.0]) == (2, 1, 3, 1, 3, 3)
    assert summary.summarise([7.0]).median == 7


def test_ratios_are_of_neighbours():
    assert summary.ratios([2.0, 9.0], [1.0, 3.0]) == [2, 3]
    with pytest.raises(ValueError, match="2 rounds of ours and 1 of theirs"):
        summary.ratios([1.0, 2.0], [1.0])


def test_contestants_take_turns_and_none_is_always_first():
    calls = []
    runs = {name: lambda repeats, name=name: calls.append((name, repeats)) for name in "abc"}
    samples = timing.interleave(runs, 6, 0.0, lambda part: None)
    assert {name: len(seconds) for name, seconds in samples.items()} == {"a": 6, "b": 6, "c": 6}
    turns = calls[-36:]  # each untimed first
    assert "".join(name for name, _ in turns[1::2]) == "abcbcacababcbcacab"
    assert [name for name, _ in turns[0::2]] == [name for name, _ in turns[1::2]]
    assert {repeats for _, repeats in turns[0::2]} == {timing.UNTIMED}


def test_a_sample_is_long_enough():
    clock, passed = [0.0], []

    def run(repeats):
        passed.append(repeats)
        clock[0] += repeats * 1e-4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing.time, "perf_counter", lambda: clock[0])
        assert 50 <= timing.calibrate(run, 5e-3) <= 100
        assert timing.clock(run, 7) == pytest.approx(1e-4)


@pytest.mark.parametrize("schema", workloads.SCHEMAS, ids=lambda schema: schema.name)
def test_a_transition_is_its_tag(schema):
    tags = np.array([0, 1, 255, 256, 9999, 1_250_000])
    rows = workloads.rows_of(schema, tags)
    assert workloads.tags_of(schema, rows).tolist() == tags.tolist()
    for name, (shape, dtype) in schema.fields.items():
        assert rows[name].shape == (6, *shape) and rows[name].dtype == dtype and rows[name].flags.c_contiguous
        if dtype.kind != "b":
            assert len(np.unique(rows[name].reshape(6, -1), axis=0)) == 6
    if "next_obs" in rows:
        assert (rows["next_obs"] != rows["obs"]).all()


def kinds_of(step):
    """What each value is, and how many numbers it has."""
    return [(type(value), getattr(value, "dtype", None), np.size(value)) for value in step]


def test_a_step_is_what_gymnasium_gives():
    gymnasium = pytest.importorskip("gymnasium")
    for schema, env in ((workloads.OBS4, gymnasium.make("CartPole-v1")),
                        (workloads.OBS4_OF_8, gymnasium.make_vec("CartPole-v1", num_envs=8))):
        env.reset(seed=1)
        action = env.action_space.sample()
        obs, reward, terminated, truncated, _ = env.step(action)
        step = workloads.step_of(schema, workloads.rows_of(schema, np.arange(8)))
        assert tuple(step) == STEP
        assert kinds_of(step.values()) == kinds_of((obs, action, reward, obs, terminated, truncated))


def test_a_step_of_mujoco_has_numpy_s_reward():
    step = workloads.step_of(workloads.OBS27, workloads.rows_of(workloads.OBS27, np.arange(1)))
    assert type(step["reward"]) is np.float64 and type(step["terminated"]) is bool


def test_keywords_are_written_out_for_every_schema():
    for schema in (*workloads.SCHEMAS, workloads.NUMBER):
        buffer, names = Mock(), tuple(schema.fields)
        add_by_keywords(buffer, names)(names)
        buffer.add.assert_called_once_with(**{name: name for name in names})


@pytest.mark.parametrize("quick", [True, False])
def test_blocks_hold_whole_chunks(quick):
    groups = workloads.groups(quick)
    for group in groups:
        block = check.FRAME_BLOCK if group.schema.row_bytes > workloads.FRAME_BYTES else check.BLOCK
        assert block % group.chunk == 0, group
    assert "add 1 step of 8 environments" in [case.name for group in groups for case in group.cases]


@pytest.mark.parametrize("spoil", ["", "old", "new", "obs", "action", "next_obs"])
def test_the_check_finds_what_is_wrong(spoil):
    contestant = type("Spoilt", (Ring,), {"spoil": spoil})
    for chunk in (1, check.CHUNK):
        wrong = check.prove(contestant, workloads.OBS4, chunk, SETTINGS)
        wanted = {"": "", "old": "are there", "new": "newer half"}.get(spoil, f"{spoil} of transition")
        assert (wanted in wrong) and bool(wrong) == bool(spoil), wrong


@pytest.mark.parametrize("module", adapters.UNIFORM)
@pytest.mark.parametrize("schema", workloads.SCHEMAS, ids=lambda schema: schema.name)
def test_a_contestant_passes_its_check(module, schema):
    found = adapters.find(module)
    if found.adapter is None:
        assert found.name != adapters.OURS, found.error
        pytest.skip(found.error)
    if "cpu" not in found.adapter.devices:
        pytest.skip("it is for CUDA alone")
    if found.adapter.refusal(schema):
        assert found.name != adapters.OURS
        pytest.skip(found.adapter.refusal(schema))
    for chunk in check.chunks(schema):
        assert check.prove(found.adapter, schema, chunk, SETTINGS) == ""


def test_a_library_that_is_missing_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cpprb", None)
    monkeypatch.delitem(sys.modules, "adapters.cpprb_buffer", raising=False)
    found = adapters.find("cpprb_buffer")
    assert found.name == "cpprb" and found.adapter is None and "cpprb" in found.error


def compete(*contestants, patch):
    """The outcomes of the tiny group, its buffers filled with few rows."""
    patch.setattr(check, "BLOCK", 512)
    contest = Contest(list(contestants), SETTINGS, 30, 1e-5, table.Progress(2))
    return list(contest.run(TINY))


def test_the_run_goes_on_without_one_that_fails(monkeypatch, capsys):
    ours = adapters.find("ours")
    outcomes = compete(ours, Found("cpprb", Ring, ""), Found("rlox", Broken, ""), patch=monkeypatch)
    assert [outcome["operation"] for outcome in outcomes] == ["add", "sample"]
    for outcome in outcomes:
        results = outcome["results"]
        assert list(results) == ["gpureplay", "cpprb", "rlox"]
        assert results["rlox"] == {"no": "it failed its check: it raised OSError: no libfast.so.1 here"}
        assert len(results["cpprb"]["samples"]) == results["cpprb"]["ratio"]["runs"] == 30
        assert results["gpureplay"]["memory"] >= 0 and outcome["kind"] == "uniform" and outcome["bytes"] is None
        wanted = summary.median(summary.ratios(results["gpureplay"]["samples"], results["cpprb"]["samples"]))
        assert results["cpprb"]["ratio"]["median"] == wanted
    assert "rlox         no: it failed" in capsys.readouterr().out


def test_who_is_ahead_is_said():
    figure = {"median": 1.0, "min": 0.1, "max": 3.0, "runs": 30}
    intervals = {"cpprb": (1.1, 1.3), "sb3": (0.9, 1.1), "rlox": (0.5, 0.9)}
    results = {name: {"ratio": {**figure, "low": low, "high": high}} for name, (low, high) in intervals.items()}
    lines = table.ahead([{"name": "a case", "results": {**results, "torchrl": {"no": "not here"}}}])
    assert [line.split(":")[0] for line in lines] == ["cpprb is ahead", "sb3 may be ahead"]


def test_the_end_names_who_was_not_compared(capsys):
    found = [{"name": name, "present": name != "rlox"} for name in ("gpureplay", "rlox")]
    head = {"reduced": [], "contestants": found}
    table.print_end(head, [])
    assert f"Not compared: {', '.join(adapters.NAMES[1:])}." in capsys.readouterr().out
    found = [{"name": name, "present": True} for name in adapters.NAMES]
    table.print_end({**head, "contestants": found}, [])
    assert "Every contestant was present." in capsys.readouterr().out


def test_the_report_names_no_folder(tmp_path, monkeypatch, capsys):
    found = [adapters.find("ours"), Found("rlox", None, f"ImportError: {tmp_path}/lib/thing.so: cannot open")]
    head = peers._head(peers._options(["--quick"]), 1, found)
    report.write(str(tmp_path / "out.json"), head, compete(found[0], patch=monkeypatch))
    text = (tmp_path / "out.json").read_text()
    written = json.loads(text)
    assert written["contestants"][1] == {"name": "rlox", "kind": "uniform", "present": False, "version": "",
                                         "as_used": "", "error": "ImportError: thing.so: cannot open"}
    assert written["machine"]["cpu"] and written["machine"]["cores"] >= 1
    assert written["cases"][0]["results"]["gpureplay"]["seconds"]["runs"] == 30
    for folder in (ROOT, tmp_path, Path.home(), Path(sys.prefix)):
        assert f"{folder}/" not in text


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_cases_until_then(tmp_path, monkeypatch, capsys, sent):
    def interrupted(contest, group):
        yield {"name": "the first case", "results": {}}
        assert json.loads(path.read_text())["cases"], "written as soon as it is there"
        signal.raise_signal(sent)
        raise AssertionError("no signal came")

    monkeypatch.setattr(Contest, "run", interrupted)
    monkeypatch.setattr(peers.host, "use_threads", lambda threads, on_cuda: 1)
    path = tmp_path / "out.json"
    assert peers.main(["--quick", "--only", "cpprb", "--json", str(path)]) == 130
    written, said = json.loads(path.read_text()), capsys.readouterr()
    assert written["interrupted"] is True and [case["name"] for case in written["cases"]] == ["the first case"]
    assert f"interrupted; cases done: 1; report: {path}" in said.err and "ahead" not in said.out


@pytest.mark.parametrize("given, wanted", [
    ("No module named 'x'", "No module named 'x'"),
    ("/a/b/lib.so.1: cannot open", "lib.so.1: cannot open"),
    ("cannot import 'y' from 'z' (/home/me/z/__init__.py)", "cannot import 'y' from 'z' (__init__.py)"),
    ("ours / theirs, and/or 3/4 of it", "ours / theirs, and/or 3/4 of it"),
])
def test_messages_lose_their_folders(given, wanted):
    assert host.without_paths(given) == wanted


@pytest.mark.parametrize("arguments, said", [
    (["--rounds", "29"], "--rounds is 29; it must be 30 or more"),
    (["--threads", "0"], "--threads is 0; it must be 1 or more"),
])
def test_bad_options_are_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        peers._options(arguments)
    assert said in capsys.readouterr().err
