# SPDX-License-Identifier: MIT
"""bench/peers/steps: its options, and which cases come when."""

import pytest
from test_peers_steps import networks, steps


@pytest.mark.parametrize(("arguments", "words"), [
    (["--only", "torch,tinygrad"], "--only has tinygrad; there are gpureplay, torch graph, torch"),
    (["--networks", "alexnet"], "--networks has alexnet; there are melee-gpu, nature-dueling"),
    (["--optimizers", "adam,sgd"], "--optimizers has sgd; there are preset, adam"),
    (["--draws", "best"], "--draws has best; there are uniform, prioritized"),
    (["--threads", "0"], "--threads is 0; it must be 1 or more"),
    (["--rounds", "5"], "--rounds is 5; it must be 6 or more"),
    (["--limit", "0.5"], "--limit is 0.5; it must be 1 or more"),
    (["--math", "fp8", "--device", "cuda:0"], "--math has fp8; there are fp32, tf32, bf16"),
    (["--math", "fp32,tf32"], "--math is fp32,tf32, and --device cpu; it must be cuda:N"),
])
def test_bad_options_are_refused_with_what_is_wanted(arguments, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        steps.options(arguments)
    assert stopped.value.code == 2 and words in " ".join(capsys.readouterr().err.split())


def test_quick_has_a_limit():
    assert steps.options(["--quick"]).limit == steps.QUICK_LIMIT < 120
    assert steps.options(["--quick", "--limit", "30"]).limit == 30 and steps.options([]).limit == float("inf")


def names(*arguments):
    return [case.name for case in networks.cases(networks.Wanted(*arguments))]


def test_cases_fit_the_machine_and_what_tells_most_comes_first():
    assert names(True, False) == [
        "melee-gpu, batch 32, 100,000 rows, fp32", "melee-gpu, batch 256, 100,000 rows, fp32",
        "melee-gpu, batch 32, 100,000 rows, fp32, prioritized", "melee-gpu, batch 32, 100,000 rows, fp32, adam"]
    assert names(True, True)[:4] == [
        "melee-gpu, batch 32, 100,000 rows, fp32", "nature-dueling, batch 32, 5,000 rows, bf16",
        "melee-gpu, batch 256, 100,000 rows, fp32", "nature-dueling, batch 512, 5,000 rows, bf16"]
    full = names(False, True)
    assert len(full) == len(set(full)) == 3 * 3 + 2 * 3 + 4
    sizes = ("melee-gpu", (32, 256, 1024), "1,000,000"), ("nature-dueling", (32, 512), "20,000")
    for network, batches, rows in sizes:
        for batch in batches:
            for math in networks.MATHS:
                assert f"{network}, batch {batch}, {rows} rows, {math}" in full
    assert [name for name in names(False, False) if "nature" in name] == ["nature-dueling, batch 32, 1,024 rows, fp32"]
    assert names(False, True, ("nature-dueling",), ("tf32",), ("adam",), ("uniform",)) == [
        "nature-dueling, batch 32, 20,000 rows, tf32, adam", "nature-dueling, batch 512, 20,000 rows, tf32, adam"]


def test_a_device_that_is_not_here_is_told(capsys, monkeypatch):
    monkeypatch.setattr(steps.host, "use_threads", lambda threads, on_cuda: 1)
    assert steps.main(["--device", "cuda:97", "--only", "gpureplay"]) == 77
    assert "steps.py: cuda:97: " in capsys.readouterr().err


def test_what_needs_cuda_is_refused_without():
    kind, no = steps.find("torch graph", "cpu")
    assert no == "a CUDA graph needs CUDA" if kind else no.startswith("it is not here: ")
    assert steps.find("gpureplay unroll 16", "cpu")[1] == "unroll is of CUDA graphs"
