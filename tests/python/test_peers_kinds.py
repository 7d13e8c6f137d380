# SPDX-License-Identifier: MIT
"""bench/peers beyond uniform draws: priorities, stacks of frames, files. Their checks find what is wrong, what is timed
is what is said, and each contestant that is here passes its check.

Those that are not here are skipped; ours must be."""

import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))

import adapters  # noqa: E402
import check  # noqa: E402
import check_priorities  # noqa: E402
import host  # noqa: E402
import peers  # noqa: E402
import summary  # noqa: E402
import table  # noqa: E402
import timing  # noqa: E402
import workloads  # noqa: E402
from adapters import Found  # noqa: E402
from adapters.base import Settings  # noqa: E402
from adapters.priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized  # noqa: E402
from adapters.returns import Returns  # noqa: E402
from adapters.saving import Saving  # noqa: E402
from contest import Contest  # noqa: E402

SETTINGS = Settings("cpu", 1)
NEED_TORCH = ("drop-in", "once")  # of ours, too
PROVEN = [(kind, module, schema) for kind, modules in adapters.KINDS.items() if kind != "uniform" for module in modules
          for schema in dict.fromkeys(group.schema.name for group in workloads.groups(False, (kind,)))]


def schema_of(name):
    return next(group.schema for group in workloads.groups(False, tuple(adapters.KINDS)) if group.schema.name == name)


@pytest.mark.parametrize("kind, module, schema", PROVEN)
def test_a_contestant_passes_its_check(kind, module, schema):
    found = adapters.find(module, kind)
    if found.adapter is None:
        assert found.name != adapters.OURS or kind in NEED_TORCH and find_spec("torch") is None, found.error
        pytest.skip(found.error)
    for chunk in check.chunks(schema_of(schema)):
        assert check.prove(found.adapter, schema_of(schema), chunk, SETTINGS) == ""


class Ranked(Prioritized):
    """Right, and slow. `spoil` makes it wrong."""

    package, as_used, spoil = "numpy", "NumPy arrays", ""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.given, self.priority, self.rng = 0, np.ones(self.capacity), np.random.default_rng(1)

    one = many = staticmethod(lambda rows: rows)

    def add(self, transition):
        self.given += len(transition["reward"])

    extend = add

    def sample(self, count):
        mass = self.priority ** {"alpha": 0.4, "uniform": 0}.get(self.spoil, ALPHA)
        slots = self.rng.choice(self.capacity, count, p=mass / mass.sum())
        return slots, self.priority[slots] ** -(0.3 if self.spoil == "beta" else ALPHA * BETA)

    def read(self, drawn):
        newest = self.given - 1
        rows = workloads.rows_of(self.schema, newest - (newest - drawn[0]) % self.capacity)
        return {**rows, WEIGHT: drawn[1], INDEX: drawn[0] ^ (1 if self.spoil == "index" else 0)}

    def update(self, indices, priorities):
        if self.spoil != "deaf":
            self.priority[indices] = priorities

    def indices_of(self, drawn):
        return drawn[0]


@pytest.mark.parametrize("spoil, said", [
    ("", ""), ("alpha", "do not follow priorities: chi-square"), ("uniform", "do not follow priorities"),
    ("beta", "weights differ from"), ("index", "came with the rows of"), ("deaf", "weights differ from"),
])
def test_the_check_of_priorities_finds_what_is_wrong(spoil, said):
    wrong = check.prove(type("Spoilt", (Ranked,), {"spoil": spoil}), workloads.OBS4, 1, SETTINGS)
    assert (said in wrong) and bool(wrong) == bool(spoil), wrong


class Kept(Saving):
    """Right, and slow. `spoil` makes it wrong."""

    package, as_used, spoil = "numpy", "NumPy arrays", ""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.given, self.rng = [], np.random.default_rng(1)

    one = many = staticmethod(lambda rows: rows)

    def add(self, transition):
        self.given.extend(workloads.tags_of(self.schema, transition))

    extend = add

    def sample(self, count):
        return workloads.rows_of(self.schema, self.rng.choice(np.array(self.given[-self.capacity:]), count))

    def read(self, drawn):
        return drawn

    def save(self):
        np.save(self.folder / "rows.npy", self.given)

    def load(self, folder):
        self.given = list(np.load(folder / "rows.npy"))
        if self.spoil:
            self.given = self.given[:self.capacity]


@pytest.mark.parametrize("spoil", ["", "old"])
def test_the_check_of_files_reads_them(spoil):
    folders = []

    def close(self):
        folders.append(self.folder)
        Kept.close(self)

    wrong = check.prove(type("Spoilt", (Kept,), {"spoil": spoil, "close": close}), workloads.OBS4, 1, SETTINGS)
    assert wrong.startswith("loaded: transitions ") if spoil else not wrong, wrong
    assert len(folders) == 2 and not any(folder.exists() for folder in folders)


def test_stacks_hold_an_episode_s_newest_frames():
    """Written out: two first steps, a fourth and a last one."""
    rows = workloads.rows_of(workloads.STACKS, np.array([0, 3, 127, 128]))
    low = {name: rows[name][:, 0, 0, :].tolist() for name in ("obs", "next_obs")}  # byte of the frame's number
    assert low["obs"] == [[0, 0, 0, 0], [0, 1, 2, 3], [124, 125, 126, 127], [129, 129, 129, 129]]
    assert low["next_obs"] == [[0, 0, 0, 1], [1, 2, 3, 4], [125, 126, 127, 128], [129, 129, 129, 130]]
    assert rows["terminated"].tolist() == [False, False, True, False] and not rows["truncated"].any()


def test_episodes_go_on_from_what_they_led_to():
    rows = workloads.rows_of(workloads.FOLLOWING, np.arange(300))
    assert np.array_equal(rows["next_obs"][:-1], rows["obs"][1:]) and not rows["truncated"].any()
    assert np.flatnonzero(rows["terminated"]).tolist() == [127, 255]
    assert workloads.tags_of(workloads.FOLLOWING, rows).tolist() == list(range(300))


def test_returns_are_of_three_steps_or_to_the_end():
    """Written out: a whole one, and an episode's last two."""
    adapter = Mock(schema=workloads.FOLLOWING)
    rows = Returns.expected(adapter, workloads.rows_of(workloads.FOLLOWING, np.array([10, 126, 127])))
    assert rows["reward"].tolist() == [10 + 11 / 2 + 12 / 4, 126 + 127 / 2, 127]
    assert rows["next_obs"][:, 0].tolist() == [13, 128, 128] and rows["terminated"].tolist() == [False, True, True]


@pytest.mark.parametrize("module", ["ours_returns", "ours_sb3_once"])
def test_who_follows_episodes_is_given_one_after_another(module):
    kind = next(kind for kind, modules in adapters.KINDS.items() if module in modules)
    found = adapters.find(module, kind)
    if found.adapter is None:
        pytest.skip(found.error)
    adapter = found.adapter(workloads.FOLLOWING, 1000, 1, SETTINGS)
    run = timing.run_of(adapter, workloads.Case("add", 1))
    run(200), run(150)
    replay = getattr(adapter._buffer, "_replay", adapter._buffer)
    if module == "ours_returns":
        assert len(replay) == 348  # two wait for the steps to come
    else:
        assert len(replay) == 350 and replay.stats.frames_stored == 350 + 3  # of three episodes
    adapter.close()


def counted():
    """An adapter whose calls are kept."""
    adapter = Mock(capacity=1000)
    adapter.places = adapter.indices_as = adapter.priorities_as = adapter.indices_of = lambda values: values
    return adapter


def test_updates_are_of_other_rows_each_time():
    adapter = counted()
    timing.run_of(adapter, workloads.Case("update", 64))(5)
    given = [call.args for call in adapter.update.call_args_list]
    assert [len(indices) for indices, _ in given] == [64] * 5 == [len(values) for _, values in given]
    assert all(indices.min() >= 0 and indices.max() < 1000 and values.min() > 0 for indices, values in given)
    assert len({indices.tobytes() for indices, _ in given}) == 5
    adapter.finish.assert_called_once_with()


def test_a_turn_updates_what_it_drew():
    adapter = counted()
    adapter.sample.side_effect = lambda count: (adapter.sample.call_count, count)
    timing.run_of(adapter, workloads.Case("turn", 32))(3)
    assert [call.args[0] for call in adapter.update.call_args_list] == [(1, 32), (2, 32), (3, 32)]


def test_what_is_saved_is_timed_until_it_is_on_the_disk():
    adapter = counted()
    timing.run_of(adapter, workloads.Case("save", 10))(2)
    assert [call[0] for call in adapter.method_calls] == ["save", "flush"] * 2
    timing.run_of(adapter, workloads.Case("load", 10))(2)
    assert [call[0] for call in adapter.method_calls][4:] == ["save", "load", "load"]


def test_who_skews_when_large_is_timed_and_said_to(monkeypatch, capsys):
    monkeypatch.setattr(check, "BLOCK", 512)
    monkeypatch.setattr(check, "prove", lambda *_: "")
    monkeypatch.setattr(check_priorities, "_wrong_batch", lambda *_: "")
    skewed = type("Skewed", (Ranked,), {"spoil": "uniform"})
    group = workloads.Group(workloads.OBS4, 256, 1, (workloads.Case("sample", 8),), "prioritized")
    present = [Found("cpprb", skewed, "", "prioritized"), Found("sb3", Kept, "")]
    (outcome,) = Contest(present, SETTINGS, 30, 1e-5, table.Progress(1)).run(group)
    assert list(outcome["results"]) == ["cpprb"] and len(outcome["results"]["cpprb"]["samples"]) == 30
    assert "but its draws do not follow priorities: chi-square" in capsys.readouterr().out


def test_files_are_told_in_bytes_and_stacks_with_their_memory(capsys):
    seconds = summary.summarise([0.5])._asdict()
    case = {"name": "save", "bytes": 10**9, "kind": "files",
            "results": {"cpprb": {"seconds": seconds, "memory": 3 * 2**20}}}
    table.print_case(case)
    assert "2.00 GB/s" in capsys.readouterr().out
    table.print_case({**case, "bytes": None, "kind": "frames"})
    assert capsys.readouterr().out.rstrip().endswith("   3 MiB")


def test_every_kind_is_run_and_each_alone():
    for quick in (True, False):
        kinds = [group.kind for group in workloads.groups(quick, tuple(adapters.KINDS))]
        assert set(kinds) == set(adapters.KINDS)
        for kind in adapters.KINDS:
            assert [group.kind for group in workloads.groups(quick, (kind,))] == [kind] * kinds.count(kind)
    counts = {case.count for group in workloads.groups(False, ("prioritized", "trees")) for case in group.cases}
    assert counts == {32, 256, 1024, 65_536}


def test_kinds_and_names_are_chosen():
    found = peers._contestants("cpprb", "trees,prioritized")
    assert [(one.kind, one.name) for one in found] == [("prioritized", "gpureplay"), ("prioritized", "cpprb"),
                                                       ("trees", "gpureplay"), ("trees", "cpprb")]
    for options, said in ((("sb4", None), "--only has sb4; there are gpureplay, cpprb"),
                          ((None, "tree"), "--kinds has tree; there are uniform, prioritized")):
        with pytest.raises(SystemExit, match=said):
            peers._contestants(*options)


def test_memory_is_that_of_the_process():
    before = host.resident()
    held = np.ones(8 * 2**20)
    assert abs(host.resident() - before - held.nbytes) < 2**22
