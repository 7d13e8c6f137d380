# SPDX-License-Identifier: MIT
"""bench/peers/steps: what is left out when the time is over, and what the exit status tells."""

import time

import pytest
from test_peers_steps import FEW, ONCE, RANKED, OtherDraws, Raises, contest, contest_steps, networks, ours, steps

pytestmark = ONCE


class Clock:
    """Goes on by so many seconds whenever it is read."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_what_would_not_end_in_time_is_left_out(capsys):
    """A reading of the clock is 10 s later than the one before: checking each takes 10 s, and so does timing."""
    there = {"gpureplay": (ours.Ours, ""), "torch": (ours.Ours, "")}
    short = contest_steps.Contest(there, "cpu", 6, 1e-4, 140.0, Clock(10.0))
    assert "samples" in short.run(FEW)["results"]["torch"], "nothing is known of how long it takes"
    assert short.run(FEW).startswith("no time: 0 s are left, and it took 10 s the last time")
    longer = contest_steps.Contest(there, "cpu", 6, 1e-4, 290.0, Clock(10.0))
    longer.run(FEW)
    longer._took["torch"] = 100.0
    results = longer.run(FEW)["results"]
    assert "samples" in results["gpureplay"] and results["torch"]["no"].endswith("and it took 100 s the last time")
    capsys.readouterr()


class Sleeps(ours.Ours):
    def train_on(self, ids):
        try:
            time.sleep(60)
        except Exception:  # noqa: BLE001, S110  # as another library might
            pass
        raise AssertionError


def test_the_limit_comes_into_what_is_under_way(capsys):
    began = time.monotonic()
    outcome = contest({"gpureplay": (ours.Ours, ""), "torch": (Sleeps, "")}, limit=10.0)
    assert outcome["results"]["torch"]["no"] == contest_steps.LATE and time.monotonic() - began < 20
    assert len(outcome["results"]["gpureplay"]["samples"]) == 6, "who was there already is timed"
    assert contest({"gpureplay": (Sleeps, "")}, limit=1.0) == contest_steps.LATE
    capsys.readouterr()


class Slow(ours.Ours):
    """A second a block."""

    def train(self, blocks):
        time.sleep(blocks)
        super().train(blocks)


def test_who_could_not_be_timed_to_the_end_is_left_out(capsys):
    """What 6 rounds take is known of a block: 20 s and more, of the 10 that are left at most."""
    began = time.monotonic()
    outcome = contest({"gpureplay": (ours.Ours, ""), "torch": (Slow, ""), "jax": (ours.Ours, "")}, limit=12.0)
    results = outcome["results"]
    assert "and to time those here takes 2" in results["torch"]["no"] and time.monotonic() - began < 13
    assert len(results["jax"]["samples"]) == len(results["gpureplay"]["samples"]) == 6
    capsys.readouterr()


def test_the_limit_counts_from_when_the_program_began():
    late = contest_steps.Contest({"gpureplay": (Raises, "")}, "cpu", 6, 1e-4, 90.0, lambda: 191.0, began=100.0)
    assert late.run(FEW).startswith("no time: 0 s are left")


class Doubled(ours.Ours):
    def train_on(self, ids):
        return [2 * loss for loss in super().train_on(ids)]


class Untimely(ours.Ours):
    """Ready when the time is over."""

    def __init__(self, case, device):
        super().__init__(case, device)
        if case is not FEW:
            time.sleep(60)


@pytest.mark.parametrize(("kind", "one_kernel", "cases", "status"), [
    (ours.Ours, ours.Ours, [FEW], 0), (Raises, ours.Ours, [FEW], 1), (Doubled, ours.Ours, [FEW], 1),
    (ours.Ours, OtherDraws, [FEW], 1), (ours.Ours, Raises, [FEW], 0), (ours.Ours, ours.Ours, [], 1),
    (Untimely, Raises, [FEW, RANKED], 0), (Untimely, Raises, [RANKED], 1)])
def test_the_exit_status_tells_who_is_wrong(kind, one_kernel, cases, status, monkeypatch, capsys):
    """Ours, or ours by others; who raises is a finding, and so is a case without time, but not a table without any."""
    monkeypatch.setattr(ours, "Ours", kind)
    monkeypatch.setattr(ours, "OneKernel", one_kernel)
    monkeypatch.setattr(networks, "cases", lambda wanted: cases)
    monkeypatch.setattr(steps, "SECONDS", 1e-4)
    monkeypatch.setattr(steps.host, "use_threads", lambda threads, on_cuda: 1)
    limit = ["--limit", "8"] if kind is Untimely else []
    assert steps.main([*limit, "--rounds", "6", "--only", "gpureplay one kernel"]) == status
    capsys.readouterr()
