# SPDX-License-Identifier: MIT
"""bench/peers/steps: whose losses are ours is timed, whose are not is told; the report.

Contestants that are not here are skipped; ours must be."""

import json
import os
import signal
import subprocess
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
import recipes  # noqa: E402
import same  # noqa: E402
import steps  # noqa: E402
from gpureplay import _learner_config, _mirror  # noqa: E402

SMALL = {f"{network.name} {optimizer} {draws}": networks.Case(network, batch, rows, "fp32", optimizer, draws)
         for network, batch, rows in ((networks.MELEE, 8, 300), (networks.NATURE, 2, 40))
         for optimizer in recipes.OPTIMIZERS for draws in networks.DRAWS
         if network is networks.MELEE or (optimizer, draws) == ("preset", "uniform")}
# Compilers of others take their time, and nothing here depends on our extension module, with and without which all
# tests are run.
ONCE = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST", "off") != "off", reason="run without the extension module")
pytestmark = ONCE
FEW = networks.Case(networks.MELEE, 4, 100)
RANKED = FEW._replace(draws="prioritized")


@pytest.fixture(scope="module")
def wanted():
    """What was found of ours by case, computed once."""
    computed = {}

    def of(case):
        if case not in computed:
            learner = ours.Ours(case, "cpu")
            computed[case] = same.found_of(learner)
            learner.close()
        return computed[case]

    return of


def contestant_of(name, case):
    kind, no = steps.find(name, "cpu")
    if no:
        pytest.skip(no)
    return kind(case, "cpu")


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_contestant_has_our_losses_and_goes_on_training(wanted, name, small):
    case = SMALL[small]
    contestant = contestant_of(name, case)
    assert same.fault(same.found_of(contestant), wanted(case), "fp32") == ""
    before = contestant.train_on(same.ids_of(case)[0])
    contestant.train(1)
    contestant.finish()
    assert contestant.train_on(same.ids_of(case)[0]) != before
    contestant.close()


@pytest.mark.parametrize("name", ["torch", "jax"])
@pytest.mark.parametrize("small", ["melee-gpu preset uniform", "nature-dueling preset uniform"])
def test_bfloat16_is_used_and_is_near(wanted, name, small):
    """Ours computes float32 on a CPU; theirs rounds, and comes out near it, but not as near as float32 does. The first
    steps alone: so small a batch makes much of a rounding later."""
    case = SMALL[small]
    contestant = contestant_of(name, case._replace(math="bf16"))
    losses = np.array(contestant.train_on(same.ids_of(case)[0]))
    apart = np.abs(losses / wanted(case).losses[:networks.BLOCK] - 1)[:3].max()
    assert 1e-4 < apart < same.TOLERANCES["bf16"]
    contestant.close()


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_draws_of_others_follow_their_priorities(name):
    """Half of the rows have been given errors, the others the 1 that all begin with. Chi-square of 1 degree."""
    contestant = contestant_of(name, networks.Case(networks.MELEE, 64, 128, draws="prioritized"))
    contestant.train_on(np.tile(np.arange(64), (networks.BLOCK, 1)))
    power = contestant.priorities(np.arange(128)).astype(np.float64)**0.6
    drawn = np.concatenate([contestant.drawn() for _ in range(200)])
    assert drawn.min() >= 0 and drawn.max() < 128
    wanted_first = power[:64].sum() / power.sum()
    assert not 0.45 < wanted_first < 0.55, "the halves must differ for this to tell anything"
    deviation = (len(drawn) * wanted_first * (1 - wanted_first))**0.5
    assert abs((drawn < 64).sum() - len(drawn) * wanted_first) < 5 * deviation
    contestant.close()


def test_our_settings_are_those_of_the_presets():
    kinds = {"adam": _mirror.ADAM, "rmsprop_tf": _mirror.RMSPROP_TF, "rmsprop_deepmind": _mirror.RMSPROP_DEEPMIND}
    for name, recipe in recipes.PRESETS.items():
        config = _learner_config.learner_config(name, {}, 0)
        optimizer = config.optimizer
        assert (optimizer.kind, bool(config.double_dqn)) == (kinds[recipe.kind], recipe.double)
        for there, here in ((optimizer.learning_rate.first, recipe.rate), (optimizer.epsilon, recipe.epsilon),
                            (optimizer.decay, recipe.decay), (optimizer.momentum, recipe.momentum),
                            (optimizer.clip_norm, recipe.clip_norm)):
            assert there == pytest.approx(here), name
        assert config.loss == _mirror.LOSS_HUBER and config.huber_delta == 1


def found(losses, drawn=(), priorities=()):
    return same.Found(np.asarray(losses), np.asarray(drawn), np.asarray(priorities))


def test_the_losses_tell_the_arithmetic_apart(wanted):
    """To a part in a thousand, and NaN from anything."""
    of_ours = wanted(SMALL["melee-gpu preset uniform"])
    losses = of_ours.losses
    assert len(losses) == same.BLOCKS * networks.BLOCK and np.isfinite(losses).all() and len(of_ours.drawn) == 2
    assert same.fault(found(losses * 1.0005), of_ours, "fp32") == ""
    assert "its loss of step 1 is" in same.fault(found(losses * 1.002), of_ours, "fp32")
    assert same.fault(found(losses * 1.002), of_ours, "tf32") == ""
    broken = losses.copy()
    broken[20] = np.nan
    assert "its loss of step 21 is nan" in same.fault(found(broken), of_ours, "bf16")
    assert "hardly differ" in same.fault(found(np.ones(32)), found(np.ones(32)), "fp32")
    assert "mean loss of drawn block 2 is" in same.fault(found(losses, of_ours.drawn * (1, 1.002)), of_ours, "fp32")


def test_priorities_are_compared(wanted):
    of_ours = wanted(RANKED)
    count = len(of_ours.priorities)
    assert 10 < count < 64 and (of_ours.priorities != 1).all()
    assert same.fault(of_ours, of_ours, "fp32") == ""
    far = of_ours.priorities.copy()
    far[np.argmax(far)] *= 1.002
    assert f"its priority {np.argmax(far) + 1} is" in same.fault(of_ours._replace(priorities=far), of_ours, "fp32")
    none = same.fault(of_ours._replace(priorities=far[:3]), of_ours, "fp32")
    assert none == f"it has 3 priorities; ours has {count}"


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


class OtherDraws(ours.Ours):
    """Right on given rows, and wrong on those that it draws."""

    def train(self, blocks):
        self._learner.target_weights.load(networks.weights_of(self.case.world))
        super().train(blocks)


class Raises(ours.Ours):
    def train_on(self, ids):
        raise KeyError("no such rows")


def contest(found_, case=FEW, **options):
    return contest_steps.Contest(found_, "cpu", 6, 1e-4, **options).run(case)


def test_who_computes_other_losses_is_told_and_not_timed(capsys):
    there = {"gpureplay": (ours.Ours, ""), "torch": (NoCopy, ""), "jax": (Shifted, ""), "torch graph": (Raises, ""),
             "torch compiled": (None, "it is not here: ImportError: torch"), "gpureplay one kernel": (OtherDraws, "")}
    outcome = contest(there)
    results = outcome["results"]
    assert list(results) == list(there)
    assert len(results["gpureplay"]["samples"]) == 6 and results["gpureplay"]["seconds"]["median"] > 0
    step = int(results["torch"]["no"].split()[4])
    assert networks.BLOCK < step <= 2 * networks.BLOCK, "until the copy its losses are ours"
    assert results["jax"]["no"].startswith("its loss of step ")
    assert results["torch graph"]["no"] == "it raised KeyError: 'no such rows'"
    assert outcome["apart"] == ["torch", "jax", "gpureplay one kernel"]
    assert results["torch compiled"]["no"] == "it is not here: ImportError: torch"
    assert results["gpureplay one kernel"]["no"].startswith("its mean loss of drawn block ")
    printed = capsys.readouterr().out
    assert "melee-gpu, batch 4, 100 rows, fp32; losses within 0.001 of ours" in printed
    assert "  jax                  no: its loss of step" in printed


class Remarked(ours.Ours):
    def remark(self):
        return "2 of its parts go without CUDA graphs"


def test_ratios_are_of_ours_to_theirs_and_remarks_are_kept(capsys):
    result = contest({"gpureplay": (ours.Ours, ""), "torch": (Remarked, "")}, RANKED)["results"]["torch"]
    assert 0.1 < result["ratio"]["median"] < 10 and result["ratio"]["runs"] == 6
    assert result["but"] in capsys.readouterr().out and "CUDA graphs" in result["but"]


@pytest.mark.parametrize(("arguments", "status", "interrupted"), [([], 0, False), (["--quick"], 130, True)])
def test_the_report_is_written_also_after_an_interrupt(tmp_path, monkeypatch, arguments, status, interrupted):
    def cases(wanted):
        yield FEW
        assert json.loads(path.read_text(encoding="utf-8"))["cases"], "written as soon as it is there"
        if wanted.quick:
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


def test_a_terminated_run_keeps_its_cases(tmp_path):
    """As `timeout` ends it. The program says what it is doing, and the first case is in the file when it is printed."""
    path = tmp_path / "steps.json"
    command = [sys.executable, str(ROOT / "bench/peers/steps/steps.py"), "--only", "gpureplay", "--rounds", "6",
               "--networks", "melee-gpu", "--json", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as program:
        said = ""
        while "batch 256" not in said:
            said = program.stderr.readline()
            assert said, "it ended by itself"
        program.send_signal(signal.SIGTERM)
        said = program.communicate(timeout=60)[1]
    assert program.returncode == 130 and "interrupted; cases done: 1" in said
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["interrupted"] is True and len(report["cases"]) == 1
