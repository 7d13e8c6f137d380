# SPDX-License-Identifier: MIT
"""A program that trains, gpureplay-train or python -m gpureplay.train, as a user runs it: the files of a run, a run
that is killed and resumed, Ctrl-C, and what it refuses. Both programs pass the same tests.

usage: test_train.py device program [words of its command]
"""

import contextlib
import csv
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forked import Forks

DEVICE = sys.argv[1]
PROGRAM = [str(Path(sys.argv[2]).absolute()), *sys.argv[3:]]
FORKS = Forks(PROGRAM[0], PROGRAM[2]) if PROGRAM[1:] == ["-m", "gpureplay.train"] else None
ROOT = Path(__file__).resolve().parents[2]
STEPS = 12000
BEST = {"best.safetensors"}
# Python's program writes TensorBoard's events where it has the package.
EVENTS = {"tensorboard"} if "-m" in PROGRAM and importlib.util.find_spec("tensorboard") else set()


def pole(**changes):
    """The options of a run on CartPole."""
    options = {"env": "CartPole-v1", "preset": "fast-dqn-small", "device": DEVICE, "deterministic": 1, "threads": 2,
               "prepopulation": 1000, "eval-period": 2000, "eval-episodes": 3, "checkpoint": 2000,
               "exploration-steps": 5000, "seed": 7, "steps": STEPS, **changes}
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def run(*options, status=0, anew=False, cwd=None, **more):
    """anew: in a process of its own also where Python could be forked. So is a run that starts processes, or that has
    `more`, the arguments of subprocess.run."""
    words = [str(word) for word in options]
    if FORKS is None or anew or more or "--processes" in words:
        done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=300, check=False, cwd=cwd,
                              **more)
    else:
        done = FORKS.run(words, timeout=300, cwd=cwd)
    assert done.returncode == status, f"{options}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def start(*options, stdout=subprocess.PIPE):
    return subprocess.Popen([*PROGRAM, *map(str, options)], stdout=stdout, stderr=subprocess.PIPE, text=True)


def rows_of(folder, kind):
    """The rows of a CSV file, which ends with a whole line and has every column in each row; empty cells are None."""
    text = (folder / f"{kind}.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert text.endswith("\n") and all(None not in row and None not in row.values() for row in rows), kind
    return [{name: float(cell) if cell else None for name, cell in row.items()} for row in rows]


def busiest_of(rates):
    """The row of the time with the most train steps. After the last row but one none may have come."""
    return max(rates, key=lambda row: row["train_steps_per_second"])


def log_of(folder, kind):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: cell for name, cell in row.items() if name != "kind"} for row in rows if row["kind"] == kind]


def results_of(folder):
    """What does not depend on time."""
    names = ["episodes.csv", "evaluations.csv", "learner.safetensors"]
    names += [name for name in BEST if len(rows_of(folder, "evaluations")) > 0]
    lines = [line for line in (folder / "log.jsonl").read_text().splitlines() if '"rates"' not in line]
    return [(folder / name).read_bytes() for name in names] + [lines]


def wait_for(path):
    """Until a file or folder is there."""
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} is not there after 120 s")


def a_run_has_all_its_files(folder):
    done = run(*pole(out=folder), anew=True)
    assert f"{STEPS} of {STEPS} steps, 100.0%" in done.stdout and str(folder) in done.stdout, done.stdout
    names = {"config.json", "options.txt", "episodes.csv", "evaluations.csv", "rates.csv", "log.jsonl", "checkpoint",
             "learner.safetensors"}
    assert {path.name for path in folder.iterdir()} == names | BEST | EVENTS
    saved = {"replay.safetensors", "learner.safetensors", "run.safetensors", "position.txt"} | BEST
    assert {path.name for path in (folder / "checkpoint").iterdir()} == saved
    assert f"step {STEPS}\n" in (folder / "checkpoint/position.txt").read_text()

    config = json.loads((folder / "config.json").read_text())
    assert config["environment"]["observation"]["shape"] == [4] and config["environment"]["num_actions"] == 2
    assert (config["run"]["num_envs"], config["run"]["target_period"], config["options"]["steps"]) == (8, 1000, STEPS)
    assert config["options"]["learning-rate"] == config["learner"]["optimizer"]["learning_rate"]["last"] == 0.00025
    assert config["device"]["name"] == DEVICE and config["build"]["version"] == config["version"]
    # The preset's "auto" is decided. CartPole's two dense layers train in one kernel on a GPU, which has float32 alone.
    assert config["options"]["math"] == config["learner"]["math"] == "fp32"
    assert "--math fp32\n" in (folder / "options.txt").read_text()

    for kind, name in (("episodes", "episode"), ("evaluations", "evaluation"), ("rates", "rates")):
        assert rows_of(folder, kind) == log_of(folder, name), kind
    evaluations = rows_of(folder, "evaluations")
    assert [row["step"] for row in evaluations] == list(range(2000, STEPS + 1, 2000))
    assert all(row["episodes"] == 3 and row["length"] == 3 * row["mean_return"] for row in evaluations)


def episodes_and_rates_add_up(folder):
    episodes = rows_of(folder, "episodes")
    before = [row for row in episodes if row["step"] <= 0]
    assert {row["lane"] for row in before} == {0} and sum(row["length"] for row in before) >= 1000
    for lane in range(8):
        mine = [row for row in episodes if row["step"] > 0 and row["lane"] == lane]
        assert all(row["return"] == row["length"] for row in mine)
        for row in mine:  # lane i takes steps i + 1, i + 9, ...: its episodes fill them
            assert (row["step"] - 1) % 8 == lane
        assert sum(row["length"] for row in mine) == (mine[-1]["step"] - 1 - lane) / 8 + 1
    rows = rows_of(folder, "rates")
    last, busiest = rows[-1], busiest_of(rows)
    assert (last["step"], last["train_steps"], last["episodes"]) == (STEPS, STEPS / 4, len(episodes))
    assert busiest["observations_per_inference"] == 8 and busiest["loss"] > 0 and busiest["env_steps_per_second"] > 0
    assert all(row["missing_share"] is None for row in rows)  # of a cache of returns


def the_same_seed_trains_alike(folder, whole):
    run(*pole(out=folder / "again"), "--quiet")
    assert results_of(folder / "again") == results_of(whole)
    run(*pole(out=folder / "other", seed=8), "--quiet")
    assert results_of(folder / "other")[0] != results_of(whole)[0]


def a_killed_run_goes_on_bit_for_bit(folder, whole, seconds):
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    kills = 0
    while kills < 3:
        begun = (folder / "options.txt").exists()
        process = start(*(["--resume", folder] if begun else pole(out=folder)))
        wait_for(folder / "options.txt")  # a run that was killed before it cannot be resumed
        time.sleep(moments.uniform(0.1, 0.9) * seconds)
        kills += process.poll() is None
        process.kill()
        _, err = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), (process.returncode, err)
        if process.returncode == 0 and kills > 0:
            break
        if process.returncode == 0:  # it came to its end before it could be killed
            shutil.rmtree(folder)
            seconds /= 2
    run("--resume", folder)
    assert results_of(folder) == results_of(whole), f"killed {kills} times, seed {seed}"
    steps = [row["step"] for row in rows_of(folder, "rates")]
    assert steps == sorted(steps)  # two rows have one step where it is saved or evaluated for long


def a_run_can_be_made_longer(folder, whole):
    run(*pole(out=folder, steps=8500, checkpoint=50000))
    assert [row["step"] for row in rows_of(folder, "evaluations")] == [2000, 4000, 6000, 8000, 8500]
    assert rows_of(folder, "episodes")[-1]["step"] > 8000  # of the target period that has not ended, too
    assert "step 8000\n" in (folder / "checkpoint/position.txt").read_text()
    before = results_of(folder)
    less = run("--resume", folder, "--steps", 8200, status=2)  # rows of the steps after the checkpoint would be lost
    assert "--steps is 8200; the run has taken 8500 steps" in less.stderr and results_of(folder) == before, less.stderr
    run("--resume", folder, "--steps", STEPS)
    assert results_of(folder) == results_of(whole)
    less = run("--resume", folder, "--steps", 3000, status=2)
    assert "3000" in less.stderr and str(STEPS) in less.stderr
    assert results_of(folder) == results_of(whole)


def a_run_keeps_its_arithmetic(folder):
    """Also one that began before there was a choice, in float32."""
    run(*pole(out=folder, steps=2000, math="tf32"))
    config = json.loads((folder / "config.json").read_text())
    assert config["options"]["math"] == config["learner"]["math"] == "tf32"
    run("--resume", folder, "--steps", 3000)
    assert json.loads((folder / "config.json").read_text())["learner"]["math"] == "tf32"
    path, wanted = folder / "options.txt", "and the run that is to be resumed has"
    assert f"--math is bf16, {wanted} tf32" in run("--resume", folder, "--math", "bf16", status=2).stderr
    path.write_text(path.read_text().replace("--math tf32\n", ""))
    assert f"--math is tf32, {wanted} fp32" in run("--resume", folder, "--math", "tf32", status=2).stderr
    run("--resume", folder, "--steps", 4000)
    assert "--math fp32\n" in path.read_text()


def a_run_without_a_checkpoint_cannot_be_resumed(folder):
    for name, options, words in (("none", {"checkpoint": 0, "steps": 2000}, "--checkpoint 0"),
                                 ("short", {"steps": 500}, "learner.safetensors")):
        run(*pole(out=folder / name, **options))
        before = results_of(folder / name)
        assert words in run("--resume", folder / name, "--steps", 4000, status=2).stderr
        anew = run(*pole(out=folder / name, **options), status=2).stderr
        assert f"delete the folder {folder / name} " in anew and "--resume" not in anew, anew
        assert results_of(folder / name) == before
    run(*pole(out=folder / "begun", steps=500))  # before it saved anything but rows
    (folder / "begun/learner.safetensors").unlink()
    again = run(*pole(out=folder / "begun", steps=500), status=2).stderr
    assert "delete" not in again and f"--resume {folder / 'begun'} goes on with the run of this folder" in again, again
    run("--resume", folder / "begun")
    assert results_of(folder / "begun") == results_of(folder / "short")


def without_exploration_steps_epsilon_has_its_last_value(folder):
    run(*pole(out=folder, steps=1000, **{"exploration-steps": 0}))
    assert {row["epsilon"] for row in rows_of(folder, "rates")} == {0.1}


def the_network_to_act_by_and_whole_episodes_are_options(folder):
    chosen = {"concurrent": 0, "act": "target", "whole-episodes": 1}
    for name, options in (("chosen", chosen), ("latest", {**chosen, "act": "latest"}),
                          ("steps", {**chosen, "whole-episodes": 0})):
        run(*pole(out=folder / name, steps=4000, **options))
    made = json.loads((folder / "chosen/config.json").read_text())["run"]
    assert (made["act"], made["whole_episodes"]) == ("target", 1)
    latest = json.loads((folder / "latest/config.json").read_text())["run"]
    assert (latest["act"], latest["concurrent"]) == ("latest", 0)
    assert len({results_of(folder / name)[2] for name in ("chosen", "latest", "steps")}) == 3
    run(*pole(out=folder / "parts", steps=2000, **chosen))
    run("--resume", folder / "parts", "--steps", 4000)
    assert results_of(folder / "parts") == results_of(folder / "chosen")


def an_interrupted_run_ends_with_what_there_is(folder):
    process = start(*pole(out=folder, steps=10**9))
    wait_for(folder / "checkpoint")
    locked = run("--resume", folder, status=2)
    assert "another process" in locked.stderr
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and f"--resume {folder}" in out, (process.returncode, out, err)
    learner = (folder / "learner.safetensors").read_bytes()
    assert b"trunk.0.weight" in learner and rows_of(folder, "episodes") and rows_of(folder, "rates")
    resumed = start("--resume", folder)
    assert "goes on after step" in resumed.stdout.readline() + resumed.stdout.readline()
    resumed.send_signal(signal.SIGTERM)
    resumed.communicate(timeout=60)
    assert resumed.returncode == 130
    process = start(*pole(out=folder.with_name("unsaved"), steps=10**9, checkpoint=0))
    wait_for(folder.with_name("unsaved") / "options.txt")
    process.send_signal(signal.SIGINT)
    shown = "".join(process.communicate(timeout=60))
    assert process.returncode == 130 and "no checkpoint to go on from" in shown, shown
    assert "after the next checkpoint" not in shown, shown


def an_interrupted_run_without_checkpoints_keeps_its_learner(folder):
    process = start(*pole(out=folder, steps=10**9, checkpoint=0))
    wait_for(folder / "best.safetensors")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "there is no checkpoint to go on from" in out, (process.returncode, out, err)
    assert b"trunk.0.weight" in (folder / "learner.safetensors").read_bytes()


def a_run_whose_output_nobody_reads_saves_a_checkpoint_at_its_end(folder):
    """At Ctrl-C `tee` ends first; a terminal that is closed often sends SIGHUP twice."""
    for number in (signal.SIGINT, signal.SIGHUP):
        out = folder / number.name
        process = start(*pole(out=out, steps=10**9))
        process.stdout.readline()
        process.stdout.close()
        wait_for(out / "checkpoint")
        for _ in range(1 + (number == signal.SIGHUP)):
            process.send_signal(number)
        err = process.stderr.read()
        assert process.wait(timeout=60) == 130 and "ipe" not in err, (number, process.returncode, err)
        assert (out / "learner.safetensors").exists()


def a_burst_is_an_option(folder):
    """It takes the place of concurrent training. One is not the other's training."""
    for name, options in (("burst", {"burst": 1}), ("each", {"concurrent": 0})):
        run(*pole(out=folder / name, steps=4000, **options))
    made = json.loads((folder / "burst/config.json").read_text())["run"]
    assert (made["burst"], made["concurrent"]) == (1, 0)
    assert results_of(folder / "burst")[2] != results_of(folder / "each")[2]
    run(*pole(out=folder / "parts", steps=2000, burst=1))
    run("--resume", folder / "parts", "--steps", 4000)
    assert results_of(folder / "parts") == results_of(folder / "burst")


def a_part_of_each_batch_is_drawn_from_a_file(folder, whole):
    """A run with demonstrations goes on bit for bit."""
    file = whole / "checkpoint/replay.safetensors"
    given = {"demonstrations": file, "demonstration-ratio": 0.25}
    run(*pole(out=folder / "all", steps=4000, **given))
    run(*pole(out=folder / "none", steps=4000))
    config = json.loads((folder / "all/config.json").read_text())["options"]
    assert (config["demonstrations"], config["demonstration-ratio"]) == (str(file), 0.25)
    assert "demonstration-ratio" not in json.loads((folder / "none/config.json").read_text())["options"]
    assert results_of(folder / "all")[2] != results_of(folder / "none")[2]
    run(*pole(out=folder / "parts", steps=2000, **given))
    assert (folder / "parts/checkpoint/demonstrations.safetensors").exists()
    run("--resume", folder / "parts", "--steps", 4000)
    assert results_of(folder / "parts") == results_of(folder / "all")
    for options, words in (
        ({"demonstration-ratio": 0.25}, "--demonstration-ratio is 0.25 and --demonstrations is missing"),
        ({**given, "demonstration-ratio": 0.3}, "--demonstration-ratio is 0.3, which of batch_size 32 is 9.6"),
        ({"demonstrations": folder / "no"}, f"{folder / 'no'}: "),
        ({"demonstrations": whole / "learner.safetensors"}, 'of kind "learner"; demonstrations must be of kind'),
        ({**given, "preset": "vrc-2021-small", "lambda": 0.5}, "--preset is vrc-2021-small, which draws from a cache"),
    ):
        refused = run(*pole(out=folder / "refused", **options), status=2).stderr
        assert words in refused, refused
        assert not (folder / "refused").exists()


def pendulum(**changes):
    """The options of a short run of continuous actions."""
    options = {"env": "Pendulum", "preset": "ddpg-small", "device": DEVICE, "deterministic": 1, "threads": 1,
               "hidden": "32,32", "batch": 32, "period": 500, "eval-period": 1000, "eval-episodes": 2,
               "checkpoint": 1000, "seed": 7, "steps": 2000, **changes}
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def action_vectors_are_trained_by_ddpg_td3_and_sac(folder):
    """With one environment and with several; both go on bit for bit, and are played and evaluated."""
    for name, more in (("one", {"sigma": 0.3, "gamma": 0.98, "n-step": 3, "critic-learning-rate": 0.002}),
                       ("four", {"num-envs": 4}), ("beside", {"num-envs": 2, "concurrent": 1}),
                       ("td3", {"preset": "td3-small", "critic-head": "quantiles", "atoms": 11}),
                       ("sac", {"preset": "sac-small"}),
                       ("atoms", {"preset": "sac-small", "critic-head": "categorical", "atoms": 21, "v-min": -200,
                                  "v-max": 0.5, "target-entropy": -0.5})):
        run(*pendulum(out=folder / name, **more))
        run(*pendulum(out=folder / f"{name} parts", **{**more, "steps": 1000}))
        run("--resume", folder / f"{name} parts", "--steps", 2000)
        assert results_of(folder / f"{name} parts") == results_of(folder / name)
        assert [row["step"] for row in rows_of(folder / name, "evaluations")] == [1000, 2000]
        rates = rows_of(folder / name, "rates")
        assert (rates[-1]["step"], rates[-1]["train_steps"]) == (2000, 2000), rates[-1]
        assert busiest_of(rates)["mean_q"] < 0, rates
        lanes = {row["lane"] for row in rows_of(folder / name, "episodes") if row["step"] > 0}
        assert lanes == set(range(more.get("num-envs", 1)))
    config = json.loads((folder / "one/config.json").read_text())
    assert [layer["units"] for layer in config["dpg"]["actor"]["trunk"]] == [32, 32]
    assert (config["run"]["train_steps"], config["dpg"]["target_rate"], config["dpg"]["target_period"]) == (1, 0.005, 1)
    assert (config["dpg"]["critic_optimizer"]["learning_rate"]["last"], config["run"]["sigma"]) == (0.002, 0.3)
    assert (config["replay"]["gamma"], config["replay"]["n_step"]) == (0.98, 3)
    config = json.loads((folder / "td3/config.json").read_text())["dpg"]
    assert (config["critics"], config["policy_delay"], round(config["target_noise"], 6)) == (2, 2, 0.2)
    assert (config["critic"]["head"], config["critic"]["atoms"]) == ("quantiles", 11)
    config = json.loads((folder / "atoms/config.json").read_text())["sac"]
    assert [config["critic"][name] for name in ("head", "atoms", "v_min", "v_max")] == ["categorical", 21, -200, 0.5]
    assert config["target_entropy"] == -0.5
    config = json.loads((folder / "four/config.json").read_text())["run"]
    assert (config["train_period"], config["train_steps"], config["synchronized"]) == (4, 4, 1)
    for command in ("play", "evaluate"):
        shown = run(command, folder / "one", "--episodes", 2, anew=True).stdout
        assert "mean return -" in shown and " of 2 games" in shown, shown


def distributions_of_returns_are_trained_by_qr_dqn_and_c51(folder):
    """Both go on bit for bit, and are played and evaluated. An environment without frames gets the small sizes."""
    for preset, head, atoms in (("qr-dqn", "quantiles", 50), ("c51", "categorical", 101)):
        given = {"preset": preset, "target-period": 400, "checkpoint": 800, "eval-period": 800}
        run(*pole(out=folder / preset, steps=1600, **given))
        run(*pole(out=folder / f"{preset} parts", steps=800, **given))
        run("--resume", folder / f"{preset} parts", "--steps", 1600)
        assert results_of(folder / f"{preset} parts") == results_of(folder / preset)
        assert [row["step"] for row in rows_of(folder / preset, "evaluations")] == [800, 1600]
        rates = rows_of(folder / preset, "rates")
        last, busiest = rates[-1], busiest_of(rates)
        assert (last["step"], last["train_steps"]) == (1600, 400) and busiest["loss"] > 0 != busiest["mean_q"], rates
        config = json.loads((folder / preset / "config.json").read_text())
        network = config["learner"]["network"]
        assert (network["head"], network["atoms"], network["hidden"]) == (head, atoms, 128), network
        assert network.get("v_max", 0) == (100 if preset == "c51" else 0)
        assert config["run"]["num_envs"] == 8 and config["learner"]["batch_size"] == 64
        for command in ("play", "evaluate"):
            shown = run(command, folder / preset, "--episodes", 2, anew=True).stdout
            assert " of 2 games" in shown, shown
    run(*pole(out=folder / "own", steps=400, preset="c51", atoms=7,
              **{"v-min": -5, "v-max": 5, "target-period": 400, "checkpoint": 400, "eval-period": 400}))
    network = json.loads((folder / "own/config.json").read_text())["learner"]["network"]
    assert (network["atoms"], network["v_min"], network["v_max"]) == (7, -5, 5), network


def several_train_steps_follow_each_period(folder):
    """The update-to-data ratio, of DQN, too."""
    run(*pole(out=folder / "pole", steps=2000, **{"train-steps": 2}))
    assert rows_of(folder / "pole", "rates")[-1]["train_steps"] == 2 * 2000 / 4
    assert json.loads((folder / "pole/config.json").read_text())["learner"]["target_period"] == 2 * 1000 / 4
    run(*pendulum(out=folder / "pendulum", steps=500, **{"train-steps": 3, "train-period": 2}))
    assert rows_of(folder / "pendulum", "rates")[-1]["train_steps"] == 3 * 500 / 2


def returns_of_several_steps_are_trained_on(folder):
    """By each estimator; one run of it goes on bit for bit."""
    options = {"preset": "vrc-2021-small", "steps": 2000, "checkpoint": 1000}
    results = set()
    for name, more in (("peng", {"lambda": 0.5}), ("other", {"lambda": 0.75}), ("watkins", {"lambda": 0.5}),
                       ("n-step", {"n-step": 4}), ("peng-median", {}), ("watkins-error-bound", {"error-bound": 0.5})):
        estimator = {} if name in ("peng", "other") else {"estimator": name}
        run(*pole(out=folder / name, **options, **estimator, **more))
        config = json.loads((folder / name / "config.json").read_text())
        assert config["learner"]["returns"]["estimator"] == config["options"]["estimator"]
        assert config["learner"]["returns"]["cache_size"] == 8000 and config["run"]["burst"] == 1
        assert [config["options"].get(option) for option in more] == list(more.values())
        results.add(results_of(folder / name)[2])
        assert {row["missing_share"] for row in rows_of(folder / name, "rates")} - {None} == {0}
    assert len(results) == 6
    run(*pole(out=folder / "parts", **{**options, "steps": 1000}, **{"lambda": 0.5}))
    run("--resume", folder / "parts", "--steps", 2000)
    assert results_of(folder / "parts") == results_of(folder / "peng")
    run(*pole(out=folder / "beside", **options, **{"lambda": 0.5, "concurrent": 1, "num-envs": 4}))
    assert json.loads((folder / "beside/config.json").read_text())["run"]["burst"] == 0


def the_cache_of_returns_has_options(folder):
    """All settings of DQN(lambda). A run that began before there were such options has the preset's."""
    few = {"preset": "vrc-2021-small", "lambda": 0.5, "steps": 2000, "checkpoint": 1000, "eval-episodes": 0}
    chosen = {"block-length": 50, "cache-size": 4000, "storage": "physical", "draw": "replacement",
              "prioritization": 0.5, "prioritization-steps": 1000, "truncation-terminates": 1, "optimizer": "adam"}
    run(*pole(out=folder / "chosen", **few, **chosen))
    config = json.loads((folder / "chosen/config.json").read_text())
    returns = config["learner"]["returns"]
    assert [config["options"][name] for name in chosen] == list(chosen.values())
    assert [returns[name.replace("-", "_")] for name in [*chosen][:4]] == [50, 4000, "physical", "replacement"]
    assert [returns["prioritization"][name] for name in ("first", "last", "steps")] == [0.5, 0, 1000]
    assert (returns["truncation_terminates"], config["learner"]["optimizer"]["kind"]) == (1, "adam")
    run(*pole(out=folder / "parts", **{**few, "steps": 1000}, **chosen))
    run("--resume", folder / "parts", "--steps", 2000)
    assert results_of(folder / "parts") == results_of(folder / "chosen")

    run(*pole(out=folder / "old", **{**few, "steps": 1000}))
    path = folder / "old/options.txt"
    lines = path.read_text().splitlines(keepends=True)
    older = [line for line in lines if line.split()[0][2:] not in chosen]
    assert len(older) == len(lines) - len(chosen)
    path.write_text("".join(older))
    refused = run("--resume", folder / "old", "--draw", "replacement", status=2).stderr
    assert "--draw is replacement, and the run that is to be resumed has none; leave it out" in refused, refused
    run("--resume", folder / "old", "--steps", 2000)
    assert path.read_text() == "".join(lines).replace("--steps 1000\n", "--steps 2000\n")
    run(*pole(out=folder / "whole", **few))
    assert results_of(folder / "old") == results_of(folder / "whole") != results_of(folder / "chosen")


def entries_that_train_nothing_are_reported(folder):
    """Of a period of 1000 steps, with a train step every 4, each overwrites rows of a replay of 500."""
    done = run(*pole(out=folder, preset="vrc-2021-small", burst=0, concurrent=0, capacity=500, steps=2000,
                     **{"lambda": 0.5, "num-envs": 2}))
    assert max(row["missing_share"] or 0 for row in rows_of(folder, "rates")) > 0.5
    assert re.search(r"  missing 0\.7\d*\n", done.stdout), done.stdout  # over the whole run


def a_checkpoint_that_is_being_saved_is_completed(folder):
    """Ctrl-C while the files of a large replay are written."""
    process = start("--env", "MinAtar/Seaquest", "--device", DEVICE, "--threads", 1, "--prepopulation", 30000,
                    "--checkpoint", 1000, "--eval-episodes", 0, "--out", folder)
    new = folder / "checkpoint.new"
    while not (new.exists() and any(new.iterdir())) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on after step 1000\n" in out, (process.returncode, out, err)
    assert "step 1000\n" in (folder / "checkpoint/position.txt").read_text() and not new.exists()


def compile_plugin(source, plugin):
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", str(plugin),
                    str(source)], check=True)


def a_plugin_that_cannot_save_its_state_is_resumed(folder):
    page = (ROOT / "docs/environments.md").read_text()
    source = re.search(r"```c\n(#include <gpureplay/env.h>.*?)```", page, flags=re.S).group(1)
    (folder / "corridor.c").write_text(source)
    compile_plugin(folder / "corridor.c", folder / "corridor.so")
    out = folder / "runs/Corridor-1"
    options = ["--env", "./corridor.so", "--preset", "fast-dqn-small", "--env-options", "length=5",
               "--prepopulation", 500, "--num-envs", 2, "--checkpoint", 1000, "--eval-period", 0, "--eval-episodes", 2,
               "--device", DEVICE]
    run(*options, "--steps", 2000, cwd=folder)
    run("--resume", out, "--steps", 4000)  # from another folder
    steps = [row["step"] for row in rows_of(out, "episodes") if row["step"] > 0]
    assert steps and len(steps) == len(set(steps)) and 2000 < max(steps) <= 4000
    assert [row["step"] for row in rows_of(out, "evaluations")] == [4000]
    environment = json.loads((out / "config.json").read_text())["environment"]
    assert (environment["name"], environment["options"]) == ("Corridor", "length=5")
    assert f"--env {(folder / 'corridor.so').resolve()}\n" in (out / "options.txt").read_text()
    assert "Corridor" in run("--list", "--env", folder / "corridor.so").stdout
    (folder / "corridor.so").rename(folder / "moved.so")
    gone = run("--resume", out, "--steps", 6000, status=2).stderr
    assert "corridor.so" in gone and gone.endswith("; --env FILE names the file to which it was moved\n"), gone
    other = run("--resume", out, "--env", "CartPole-v1", status=2).stderr
    assert '--env is of type "CartPole-v1", and the run that is to be resumed has "Corridor"' in other, other
    run("--resume", out, "--env", folder / "moved.so", "--steps", 6000)
    assert f"--env {(folder / 'moved.so').resolve()}\n" in (out / "options.txt").read_text()


def a_plugin_that_steps_many_at_once_is_enough(folder):
    compile_plugin(ROOT / "tests/env/corridors.c", folder / "corridors.so")
    options = ["--env", folder / "corridors.so", "--preset", "fast-dqn-small", "--prepopulation", 500, "--num-envs", 4,
               "--checkpoint", 1000, "--eval-period", 1000, "--eval-episodes", 2, "--device", DEVICE]
    run(*options, "--steps", 4000, "--out", folder / "run")
    run("--resume", folder / "run", "--steps", 6000)
    evaluations = rows_of(folder / "run", "evaluations")
    assert [row["step"] for row in evaluations] == [1000, 2000, 3000, 4000, 5000, 6000]
    for row in evaluations:  # a corridor's end is 5 steps away, and after 30 it is truncated
        assert row["length"] == 60 if row["mean_return"] == 0 else 10 <= row["length"] < 60
    lanes = {row["lane"] for row in rows_of(folder / "run", "episodes") if row["step"] > 0}
    assert lanes == {0, 1, 2, 3}
    environment = json.loads((folder / "run/config.json").read_text())["environment"]
    assert (environment["name"], environment["num_actions"], environment["save_bytes"]) == ("Corridors", 2, 0)
    listed = run("--list", "--env", folder / "corridors.so").stdout
    assert "Corridors" in listed and "begins new episodes" in listed
    refused = run(*options, "--steps", 4002, "--out", folder / "odd", status=2).stderr
    assert all(word in refused for word in ("4002", "num", "4", "multiple")) and not (folder / "odd").exists()
    refused = run("--env", folder / "corridors.so", "--device", DEVICE, "--num-envs", 1, "--synchronized", 0, "--out",
                  folder / "odd", status=2).stderr
    assert "synchronized is 0; a vector environment" in refused, refused
    alone = [one if one != 4 else 1 for one in options]
    run(*alone, "--steps", 1000, "--out", folder / "one")
    assert {row["lane"] for row in rows_of(folder / "one", "episodes")} == {0}
    refused = run("--list", "--env", f"{folder}/corridors.so:Halls", status=2).stderr
    assert 'gpur_vector_env_plugin has no type "Halls"' in refused
    named = folder / "a:b"  # the colon before a type's name is the first one after ".so"
    named.mkdir()
    (folder / "corridors.so").rename(named / "corridors.so")
    assert "Corridors" in run("--list", "--env", f"{named}/corridors.so:Corridors").stdout


NOTHING = """
#include <gpureplay/env.h>
static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env) { return *env = 0; }
static const char *reset(void *env, void *obs) { return 0; }
static const char *step(void *env, const void *action, void *obs, gpur_env_result *result) { return 0; }
static void close(void *env) { *(int *)env = 0; }
static const gpur_env_type type = {.size = sizeof type, .name = "Nothing", .init = init, .reset = reset, .step = step,
                                   .close = close};
const gpur_env_type *gpur_env_plugin(const char *name) { return &type; }
"""


def a_plugin_that_makes_no_environment_is_refused(folder):
    (folder / "nothing.c").write_text(NOTHING)
    compile_plugin(folder / "nothing.c", folder / "nothing.so")
    for more in ([], ["--list"]):
        refused = run("--env", "./nothing.so", *more, status=2, cwd=folder).stderr
        assert "init of Nothing returned no environment" in refused, refused
    assert not (folder / "runs/Nothing-1").exists()


ENDLESS = """
#include <gpureplay/env.h>
static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {1}, .high = 1};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    info->max_steps = *options ? 100 : 0;
    return *env = (void *)&gpur_env_plugin, (char *)0;
}
static const char *reset(void *env, void *obs) { return *(float *)obs = 0, (char *)0; }
static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    return *(float *)obs = 0, result->reward = 1, (char *)0;
}
static void close(void *env) {}
static const gpur_env_type type = {.size = sizeof type, .name = "Endless", .init = init, .reset = reset, .step = step,
                                   .close = close};
const gpur_env_type *gpur_env_plugin(const char *name) { return &type; }
"""


def a_game_of_an_evaluation_has_an_end(folder):
    (folder / "endless.c").write_text(ENDLESS)
    compile_plugin(folder / "endless.c", folder / "endless.so")
    for preset, more in (("fast-dqn-small-vectors", ("--prepopulation", 200)), ("a2c-small", ("--agents", 2))):
        for length, options in ((27000, ()), (100, ("--env-options", "limited"))):
            out = folder / f"{preset}-{length}"
            done = run("--env", folder / "endless.so", "--preset", preset, "--device", DEVICE, "--threads", 1,
                       "--steps", 400, "--eval-episodes", 2, "--checkpoint", 0, "--out", out, *more, *options)
            (evaluation,) = rows_of(out, "evaluations")
            assert evaluation["mean_return"] == length and evaluation["return_deviation"] == 0
            said = "cut off after 27000 steps, as this environment tells no limit"
            assert (said in done.stdout + done.stderr) == (length == 27000), done


def bad_options_are_refused_before_anything_is_made(folder, whole):
    game = ["--env", "CartPole-v1", "--device", "cpu"]
    vrc = [*game, "--preset", "vrc-2021-small", "--lambda", "0.5"]
    vectors = ["--env", "Pendulum", "--device", "cpu", "--preset", "ddpg-small"]
    for options, words in (
        ([], ["--env", "--list"]),
        (["--nonsense"], ["--nonsense"]),
        ([*game, "--steps"], ["--steps", "N"]),
        ([*game, "--steps", "0"], ["--steps", '"0"', "1"]),
        (["--resume", ""], ["--resume is empty; it must be the folder of a run"]),
        ([*game, "--steps", "1.5"], ["--steps", '"1.5"']),
        ([*game, "--concurrent", "2"], ['--concurrent is "2"; it must be 0 or 1']),
        ([*game, "--learning-rate", "-1"], ["--learning-rate", '"-1"']),
        ([*game, "--math", "fp8"], ['--math is "fp8"; it must be fp32, tf32, bf16 or auto']),
        ([*game, "--target-period", "10"], ["--target-period is 10 and --train-period is 4; the first must be a mul"]),
        ([*game, "--num-envs", "12"], ["--target-period is 400 and --num-envs is 12", "or give --synchronized 0"]),
        ([*game, "--env-threads", "16"], ["--env-threads is 16 and --num-envs is 8; the first must be 0 (as many)"]),
        ([*game, "--capacity", "63"], ["--capacity is 63 and --batch is 64; the first must be at least twice"]),
        ([*game, "--checkpoint", "1500"], ["1500", "400", "multiple"]),
        ([*game, "--num-envs", "1", "--synchronized", "1"], ["--synchronized is 1 and --num-envs is 1"]),
        ([*game, "--act", "previous"], ["act", "previous", "latest", "target"]),
        ([*game, "--preset", "fast-dqn"], ["84"]),
        ([*game, "--preset", "slow-dqn"], ["slow-dqn", "fast-dqn-small", "vrc-2021-small", "apex-dpg", "ga3c-large-1"]),
        ([*game, "--preset", "apex-dqn-smal", "--num-envs", "2"], ["--preset is apex-dqn-smal; it must be fast-dqn"]),
        ([*game, "--preset", "vrc-2021", "--lambda", "0.5"], ["84"]),
        ([*game, "--preset", "vrc-2021-small"], ["--lambda is missing", "peng"]),
        ([*vrc[:-2], "--lambda", "2"], ['--lambda is "2"; it must be a number of 0 to 1']),
        ([*vrc, "--prioritization", "1.5"], ['--prioritization is "1.5"; it must be a number of 0 to 1']),
        ([*vrc, "--prioritization", "0.5"], ["--prioritization is 0.5 and --draw is permutation", "draw repl"]),
        ([*vrc, "--prioritization-steps", "-1"], ['--prioritization-steps is "-1"; it must be a whole number of 0 to']),
        ([*vrc, "--cache-size", "0"], ['--cache-size is "0"; it must be a whole number of 1 to']),
        ([*vrc, "--cache-size", "450"], ["--cache-size is 450 and --block-length is 100", "must be a multiple"]),
        ([*vrc, "--capacity", "100"], ["train: --block-length is 100; it must be at least 1 and be"]),
        ([*vrc, "--block-length", "0"], ['--block-length is "0"; it must be a whole number of 1 to']),
        ([*vrc, "--storage", "none"], ['--storage is "none"; it must be virtual or physical']),
        ([*vrc, "--draw", "all"], ['--draw is "all"; it must be permutation or replacement']),
        ([*vrc, "--truncation-terminates", "2"], ['--truncation-terminates is "2"']),
        ([*game, "--optimizer", "sgd"], ['--optimizer is "sgd"; it must be adam, rmsprop_tf, ']),
        ([*game, "--cache-size", "400"], ["--cache-size is 400", "fast-dqn-small", "has no returns", "vrc-2021"]),
        ([*game, "--truncation-terminates", "0"], ["--truncation-terminates is 0", "has no returns"]),
        ([*game, "--preset", "apex-dqn-small", "--draw", "replacement"],
         ["--draw is replacement and --preset is apex-dqn-small, which does not have it"]),
        ([*game, "--preset", "a2c-small", "--optimizer", "adam"],
         ["--optimizer is adam and --preset is a2c-small, which does not have it", "vrc, apex-dqn or offline-dqn"]),
        ([*game, "--preset", "vrc-2021-small", "--lambda", "0.5", "--n-step", "3"], ["--n-step is 3", "peng"]),
        ([*game, "--preset", "vrc-2021-small", "--estimator", "sarsa"], ["sarsa", "watkins"]),
        ([*game, "--preset", "vrc-2021-small", "--lambda", "0.5", "--num-envs", "500", "--capacity", "30000"],
         ["capacity is 30000 and ", "envs is 500, which is 60", "at least 2 x block_length = 200"]),
        ([*game, "--lambda", "0.5"], ["--lambda is 0.5", "fast-dqn-small", "vrc-2021"]),
        ([*game, "--estimator", "peng"], ["--estimator is peng", "fast-dqn-small"]),
        ([*game, "--burst", "1", "--concurrent", "1"], ["--burst is 1 and --concurrent is 1"]),
        ([*game, "--burst", "1", "--act", "target"], ['--burst is 1 and --act is "target"; it must be "latest"']),
        ([*game, "--frame-stack", "2"], ["stack", "2", "CartPole-v1"]),
        ([*game, "--train-steps", "0"], ['--train-steps is "0"; it must be a whole number of 1 to 65536']),
        ([*game, "--sigma", "1"], ["--sigma is 1 and --preset is fast-dqn-small-vectors, which does not have it; leave "
                                   "the option out, or take a preset of ddpg, td3 or apex-dpg"]),
        ([*vectors[:-2]], ["Pendulum has continuous actions and --preset is missing; it must be ddpg, ddpg-small, "
                           "td3, td3-small, sac, sac-small, apex-dpg or"]),
        ([*vectors[:-2], "--preset", "fast-dqn-small"], ["needs discrete actions", '"ddpg-small"']),
        ([*game, "--preset", "ddpg"], ["CartPole-v1: the environment's actions are discrete"]),
        ([*vectors, "--hidden", "64,,64"], ['--hidden is "64,,64"; it must be 1 to 8 numbers of 1 to 65536, with co']),
        ([*vectors, "--hidden", "0"], ['--hidden is "0"; it must be 1 to 8 numbers']),
        ([*vectors, "--atoms", "5"], ["--atoms is 5 and --critic-head is q, which does not have it; leave one of the"]),
        ([*vectors, "--critic-head", "quantiles", "--v-min", "-5"], ["--v-min is -5 and --critic-head is quantiles"]),
        ([*vectors, "--critic-head", "categorical", "--v-min", "5", "--v-max", "-5"],
         ["--v-min is 5 and --v-max is -5; the first must be below the second"]),
        ([*vectors, "--critic-head", "categorical", "--atoms", "1"],
         ["--atoms is 1 and --critic-head is categorical; the first must be 2 or more, or 0"]),
        ([*game, "--atoms", "5"], ["--atoms is 5 and --preset is fast-dqn-small-vectors, which does not have it; leave "
                                   "the option out, or take qr-dqn or c51"]),
        ([*game, "--preset", "qr-dqn", "--v-min", "-5"],
         ["--v-min is -5 and --preset is qr-dqn, which does not have it; leave the option out, or take c51"]),
        ([*game, "--preset", "c51", "--v-min", "5", "--v-max", "-5"],
         ["--v-min is 5 and --v-max is -5; the first must be below the second"]),
        ([*game, "--preset", "c51", "--atoms", "1"],
         ["--atoms is 1 and --preset is c51; the first must be 2 or more, or 0"]),
        ([*game, "--preset", "a2c-small", "--v-max", "5"],
         ["--v-max is 5 and --preset is a2c-small, which does not have it; leave the option out, or take a preset of "
          "c51, ddpg, td3, sac or offline-c51"]),
        ([*vectors, "--checkpoint", "1500"], ["--checkpoint is 1500 and --period is 1000; the first must be a multi"]),
        ([*vectors, "--eval-period", "1500"], ["--eval-period is 1500 and --period is 1000; the first must be a mu"]),
        ([*vectors, "--num-envs", "3", "--period", "100"], ["--period is 100 and --train-period is 3; the first must"]),
        ([*vectors, "--sigma", "-1"], ['--sigma is "-1"; it must be a number of 0 or more']),
        ([*game, "--env-options", "length=5"], ["length"]),
        ([*game[:2], "--device", "gpu"], ["gpu", "cpu"]),
        (["--env", "Pong"], ["Pong", "CartPole-v1"]),
        (["--env", "Nothing/Pong-v5"], ["Nothing/Pong-v5", "CartPole-v1", "Gymnasium"]),
        (["--resume", folder / "none"], ["none is no folder of a run: it has no options.txt"]),
    ):
        made = [] if "--resume" in options else ["--out", folder / "refused"]
        refused = run(*made, *options, status=2, cwd=folder)
        assert all(word in refused.stderr for word in words), (options, refused.stderr)
        # The line that says what is going to run comes before memory is taken, which can be refused.
        assert re.fullmatch("(.*, [0-9]+ at a time, by .*\n)?", refused.stdout), (options, refused.stdout)
        assert list(folder.iterdir()) == [], options
    before = results_of(whole)
    assert "--seed is 8" in run("--resume", whole, "--seed", "8", status=2).stderr
    assert f"--resume {whole}" in run(*game, "--out", whole, status=2).stderr
    assert "--out" in run("--resume", whole, "--out", folder, status=2).stderr
    assert results_of(whole) == before


def a_learner_that_has_diverged_is_told_with_what_the_program_can_change(folder):
    few = {"prepopulation": 200, "target-period": 200, "steps": 2000, "eval-episodes": 0, "eval-period": 0,
           "checkpoint": 0, "out": folder}
    told = run(*pole(**few, **{"learning-rate": "1e30"}), status=2).stderr
    assert re.search(r"the learner has diverged: after train step \d+ its numbers are not finite \([^)]*\)"
                     r"(, and the loss before was \S+)?\. It helps most often to lower --learning-rate, now 1e\+?30, "
                     r"or to scale the environment's rewards$", told.rstrip()), told
    shutil.rmtree(folder)
    run(*pole(**few, **{"learning-rate": "1e-4"}))


def a_run_that_fails_says_how_it_goes_on(folder):
    source = (ROOT / "tests/env/frames.c").read_text()
    (folder / "breaks.c").write_text(source.replace(
        "const int is_one", "static int steps; if (++steps > 2500) return \"it broke\";\n    const int is_one"))
    compile_plugin(folder / "breaks.c", folder / "breaks.so")
    options = ["--env", folder / "breaks.so", "--preset", "fast-dqn-small", "--num-envs", 1, "--prepopulation", 500,
               "--checkpoint", 1000, "--eval-episodes", 0, "--steps", 4000, "--device", DEVICE]
    failed = run(*options, "--out", folder / "run", status=2)
    assert "step 2001: it broke" in failed.stderr, failed.stderr
    assert re.search(rf"^failed; .*--resume {folder / 'run'} goes on after step 2000$", failed.stdout, flags=re.M)
    assert run(*options, "--out", folder / "quiet", "--quiet", status=2).stdout == ""


def a_full_disk_ends_the_run(folder):
    """Here a limit on the size of files, of which Python has switched the signal off."""
    failed = run(*pole(out=folder, checkpoint=0), status=2, restore_signals=False,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)))
    assert "too large" in failed.stderr, failed.stderr
    assert "--checkpoint 0" in run("--resume", folder, status=2).stderr


def words_that_are_not_known_are_refused_with_where_the_known_ones_are():
    for words, wanted in ((["train", "--env", "X"], "train is no preset and no command; --help lists them"),
                          (["--steps", "3", "a2c-small"], ": a2c-small is a preset; it must be the first word, "),
                          (["--step", "3"], " PRESET --help lists them"),
                          (["--out", "a", "--env", "CartPole-v1", "--out=b"], ": --out is given twice\n"),
                          (["a2c-small", "--step", "3"], "--step is not an option; "),
                          (["a2c-small", "--step", "3"], " a2c-small --help lists them")):
        assert wanted in run(*words, status=2).stderr, words


def help_of_a_preset_is_of_it_alone():
    for preset, there, others in (
            ("fast-dqn-small", ["  --target-period 1000 +C: ", "  --act target +latest, target: "], "--estimator|a2c"),
            ("vrc-2021-small", ["  --estimator peng +peng, n-step, watkins,"], "apex|a2c|demonstration"),
            ("ga3c-small", ["  --when-full wait +wait, refuse, drop-oldest: ", "0: 60, of code 20"], r"\ba[23]c|dqn"),
            ("ddpg-small", ["  --hidden 400,300 ", "  --period 1000 +C: "], r"epsilon\b|estimator|dqn|refill"),
            ("a2c-small", ["  --deterministic 0 "], "a3c|dqn"), ("apex-dpg", ["  --refill "], "dqn|epsilons")):
        shown = run(preset, "--help").stdout
        assert all(re.search(words, shown) for words in there), shown
        assert not re.search(others, shown), shown
        assert max(map(len, shown.splitlines()[1:])) <= 100, shown
    assert run("-h").stdout == run("--help").stdout and re.search(r"\n  Ape-X DPG, .*\n {34}apex-dpg", run("-h").stdout)


def help_and_list():
    words_that_are_not_known_are_refused_with_where_the_known_ones_are()
    help_of_a_preset_is_of_it_alone()
    page = (ROOT / "docs/training.md").read_text()
    options = re.findall(r"^  (--[a-z-]+)", run("--help").stdout, flags=re.M)
    for preset in ("fast-dqn", "vrc-2021-small", "td3", "sac", "apex-dqn", "apex-dpg", "ga3c", "a2c-small"):
        options += re.findall(r"^  (--[a-z-]+)", run(preset, "--help").stdout, flags=re.M)
    assert len(set(options)) > 50
    for option in options:
        assert f"`{option}" in page, f"docs/training.md does not have {option}"
    shown = run("apex-dqn-small", "--help").stdout
    assert not re.search("fast|vrc|lambda|dpg|ga3c|a3c|a2c", shown, flags=re.I), shown
    assert "--capacity 100000 " in shown and "--learning-rate 0.001 " in shown
    shown = run("vrc-2021-small", "--help").stdout
    assert all(f"  --{words} " in shown for words in ("lambda X", "cache-size 8000", "checkpoint 50000")), shown
    listed = run("--list").stdout
    for words in ("CartPole-v1", "float32 (4)", "MinAtar/Breakout", "uint8 (10, 10, 4)", "sticky_action_prob"):
        assert words in listed, words


@contextlib.contextmanager
def new_folder():
    """A folder for the runs of a test program, which ends as skipped where this build cannot train on the device, or
    save to files."""
    with tempfile.TemporaryDirectory() as name:
        options = [str(word) for word in pole(out=Path(name, "tried"), steps=1000)]
        tried = subprocess.run([*PROGRAM, *options], capture_output=True, text=True, check=False)
        lacks_numpy = "No module named 'numpy'" in tried.stderr
        can_save = "cannot save to files" not in tried.stderr
        if lacks_numpy or (tried.returncode == 2 and (DEVICE != "cpu" or not can_save)):
            print(f"skipped: {'this Python has no NumPy' if lacks_numpy else tried.stderr.strip()}")
            sys.exit(77)
        yield Path(name)


def main():
    with new_folder() as folder:
        help_and_list()
        whole = folder / "whole"
        begun = time.monotonic()
        a_run_has_all_its_files(whole)
        seconds = time.monotonic() - begun
        episodes_and_rates_add_up(whole)
        the_same_seed_trains_alike(folder, whole)
        a_killed_run_goes_on_bit_for_bit(folder / "killed", whole, seconds)
        a_run_can_be_made_longer(folder / "longer", whole)
        a_run_keeps_its_arithmetic(folder / "arithmetic")
        an_interrupted_run_ends_with_what_there_is(folder / "interrupted")
        an_interrupted_run_without_checkpoints_keeps_its_learner(folder / "interrupted without")
        a_run_whose_output_nobody_reads_saves_a_checkpoint_at_its_end(folder / "unread")
        a_run_without_a_checkpoint_cannot_be_resumed(folder)
        without_exploration_steps_epsilon_has_its_last_value(folder / "greedy")
        the_network_to_act_by_and_whole_episodes_are_options(folder)
        a_burst_is_an_option(folder / "bursts")
        a_part_of_each_batch_is_drawn_from_a_file(folder / "demonstrations", whole)
        action_vectors_are_trained_by_ddpg_td3_and_sac(folder / "vectors")
        distributions_of_returns_are_trained_by_qr_dqn_and_c51(folder / "distributions")
        several_train_steps_follow_each_period(folder / "several")
        returns_of_several_steps_are_trained_on(folder / "returns")
        the_cache_of_returns_has_options(folder / "cache")
        entries_that_train_nothing_are_reported(folder / "missing")
        a_checkpoint_that_is_being_saved_is_completed(folder / "saved")
        for part in ("plugin", "vector", "refused"):
            (folder / part).mkdir()
        a_plugin_that_cannot_save_its_state_is_resumed(folder / "plugin")
        a_plugin_that_makes_no_environment_is_refused(folder / "plugin")
        a_game_of_an_evaluation_has_an_end(folder / "plugin")
        a_plugin_that_steps_many_at_once_is_enough(folder / "vector")
        bad_options_are_refused_before_anything_is_made(folder / "refused", whole)
        a_learner_that_has_diverged_is_told_with_what_the_program_can_change(folder / "diverged")
        (folder / "breaks").mkdir()
        a_run_that_fails_says_how_it_goes_on(folder / "breaks")
        a_full_disk_ends_the_run(folder / "full")
    print(f"test_train {DEVICE}: 29 tests")


if __name__ == "__main__":
    main()
