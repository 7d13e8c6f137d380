# SPDX-License-Identifier: MIT
"""bench/peers/steps: whose losses are ours is timed, whose are not is told; the report.

Contestants that are not here are skipped; ours must be."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("bench/peers", "bench/peers/steps"):
    sys.path.insert(0, str(ROOT / folder))

import contest_steps  # noqa: E402
import networks  # noqa: E402
import ours  # noqa: E402
import same  # noqa: E402
import steps  # noqa: E402
from base import Settings  # noqa: E402

SETTINGS = Settings("cpu", "fp32")
SMALL = {"melee-gpu": networks.Case(networks.MELEE, 8, 300), "nature-dueling": networks.Case(networks.NATURE, 2, 40)}
FEW = networks.Case(networks.MELEE, 4, 100)


@pytest.fixture(scope="module")
def wanted():
    """Losses of ours by network, computed once."""
    computed = {}

    def of(network):
        if network not in computed:
            learner = ours.Ours(SMALL[network], SETTINGS)
            computed[network] = same.losses_of(learner)
            learner.close()
        return computed[network]

    return of


@pytest.mark.parametrize("network", SMALL)
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_contestant_has_our_losses_and_goes_on_training(wanted, name, network):
    kind, no = steps.find(name, SETTINGS)
    if no:
        pytest.skip(no)
    contestant = kind(SMALL[network], SETTINGS)
    assert same.fault(same.losses_of(contestant), wanted(network), "fp32") == ""
    before = contestant.train_on(same.ids_of(SMALL[network])[0])
    contestant.train(1)
    contestant.finish()
    assert contestant.train_on(same.ids_of(SMALL[network])[0]) != before
    contestant.close()


def test_the_losses_tell_the_arithmetic_apart(wanted):
    """To a part in a thousand, and NaN from anything."""
    losses = wanted("melee-gpu")
    assert len(losses) == same.BLOCKS * networks.BLOCK and np.isfinite(losses).all()
    assert same.fault(losses * 1.0005, losses, "fp32") == ""
    assert "its loss of step 1 is" in same.fault(losses * 1.002, losses, "fp32")
    assert same.fault(losses * 1.002, losses, "tf32") == ""
    broken = losses.copy()
    broken[20] = np.nan
    assert "its loss of step 21 is nan" in same.fault(broken, losses, "tf32")
    assert "hardly differ" in same.fault(np.ones(32), np.ones(32), "fp32")


class NoCopy(ours.Ours):
    """Its target stays as it was: right until the first copy."""

    def train_on(self, ids):
        losses = super().train_on(ids)
        self._learner.target_weights.load(networks.weights_of(self.case.world))
        return losses


class Shifted(ours.Ours):
    """Trains on the rows beside those that it is given."""

    def train_on(self, ids):
        return super().train_on((ids + 1) % self.case.rows)


class Raises(ours.Ours):
    def train_on(self, ids):
        raise KeyError("no such rows")


def test_who_computes_other_losses_is_told_and_not_timed(capsys):
    found = {"gpureplay": (ours.Ours, ""), "torch": (NoCopy, ""), "jax": (Shifted, ""), "torch graph": (Raises, ""),
             "torch compiled": (None, "it is not here: ImportError: torch")}
    outcome = contest_steps.Contest(found, SETTINGS, 6, 1e-4).run(FEW)
    results = outcome["results"]
    assert len(results["gpureplay"]["samples"]) == 6 and results["gpureplay"]["seconds"]["median"] > 0
    step = int(results["torch"]["no"].split()[4])
    assert networks.BLOCK < step <= 2 * networks.BLOCK, "until the copy its losses are ours"
    assert results["jax"]["no"].startswith("its loss of step ")
    assert results["torch graph"]["no"] == "it raised KeyError: 'no such rows'"
    assert results["torch compiled"]["no"] == "it is not here: ImportError: torch"
    printed = capsys.readouterr().out
    assert "melee-gpu, batch 4, 100 rows" in printed and "  jax            no: its loss of step" in printed


def test_ratios_are_of_ours_to_theirs():
    found = {"gpureplay": (ours.Ours, ""), "torch": (ours.Ours, "")}
    result = contest_steps.Contest(found, SETTINGS, 6, 1e-4).run(FEW)["results"]["torch"]
    assert 0.1 < result["ratio"]["median"] < 10 and result["ratio"]["runs"] == 6


def test_ours_must_be_right(monkeypatch):
    monkeypatch.setattr(ours, "Ours", Raises)
    monkeypatch.setattr(networks, "cases", lambda quick, on_cuda, names: [FEW])
    monkeypatch.setattr(steps.host, "use_threads", lambda threads, on_cuda: 1)
    assert steps.main(["--only", "gpureplay"]) == 1


@pytest.mark.parametrize(("arguments", "status", "interrupted"), [([], 0, False), (["--quick"], 130, True)])
def test_the_report_is_written_also_after_an_interrupt(tmp_path, monkeypatch, arguments, status, interrupted):
    def cases(quick, on_cuda, names):
        yield FEW
        if quick:
            raise KeyboardInterrupt

    path = tmp_path / "steps.json"
    monkeypatch.setattr(networks, "cases", cases)
    monkeypatch.setattr(steps, "SECONDS", 1e-4)
    monkeypatch.setattr(steps, "QUICK_SECONDS", 1e-4)
    monkeypatch.setattr(steps.host, "use_threads", lambda threads, on_cuda: 1)
    assert steps.main([*arguments, "--rounds", "6", "--only", "gpureplay", "--json", str(path)]) == status
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["interrupted"] is interrupted and report["settings"]["steps_a_call"] == networks.BLOCK
    assert [case["name"] for case in report["cases"]] == [FEW.name]
    assert str(ROOT) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "words"), [
    (["--only", "torch,tinygrad"], "--only has tinygrad; there are gpureplay, torch, torch compiled"),
    (["--networks", "alexnet"], "--networks has alexnet; there are melee-gpu, nature-dueling"),
    (["--threads", "0"], "--threads is 0; it must be 1 or more"),
    (["--rounds", "5"], "--rounds is 5; it must be 6 or more"),
    (["--math", "tf32"], "--math is tf32, and --device cpu; it must be cuda:N"),
])
def test_bad_options_are_refused_with_what_is_wanted(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        steps.options(arguments)
    assert stopped.value.code == 2 and words in capsys.readouterr().err


def test_cases_fit_the_machine():
    small = networks.cases(True, False, tuple(networks.WORLDS))
    assert [(case.world.name, case.batch) for case in small] == [
        ("melee-gpu", 32), ("melee-gpu", 256), ("nature-dueling", 32)]
    large = networks.cases(False, True, tuple(networks.WORLDS))
    assert {(case.world.name, case.batch): case.rows for case in large} == {
        ("melee-gpu", 32): 10**6, ("melee-gpu", 256): 10**6, ("melee-gpu", 1024): 10**6,
        ("nature-dueling", 32): 20_000, ("nature-dueling", 512): 20_000}


def test_a_cuda_graph_is_refused_where_there_is_no_cuda():
    kind, no = steps.find("torch graph", SETTINGS)
    assert no == "a CUDA graph needs CUDA" if kind else no.startswith("it is not here: ")
