# SPDX-License-Identifier: MIT
"""A program that trains offline on a saved replay, gpureplay-train or python -m gpureplay.train, as a user runs it: its
files, with an environment and without, a run that is killed or stopped and goes on, several seeds, and what it refuses.

usage: test_train_offline.py device program [words of its command]
"""

import json
import shutil
import signal

from test_train import (BEST, DEVICE, EVENTS, busiest_of, log_of, new_folder, results_of, rows_of, run, start,
                        wait_for)

MOST, STEPS = 10**9, 1500
FILES = {"config.json", "options.txt", "episodes.csv", "evaluations.csv", "rates.csv", "log.jsonl", "checkpoint",
         "learner.safetensors"}


def record(folder):
    """The replays of short trainings of our own: of CartPole, mostly random, and of Pendulum, with returns of 5 steps
    and priorities."""
    run("--env", "CartPole-v1", "--device", DEVICE, "--threads", 1, "--prepopulation", 4000, "--steps", 4000,
        "--checkpoint", 4000, "--eval-episodes", 0, "--quiet", "--out", folder / "pole", "--seed", 3)
    shutil.copy(folder / "pole/checkpoint/replay.safetensors", folder / "rows.safetensors")
    run("apex-dpg-small", "--env", "Pendulum", "--device", DEVICE, "--threads", 1, "--actors", 1, "--steps", 1000,
        "--prepopulation", 500, "--checkpoint", 1000, "--eval-episodes", 0, "--quiet", "--out", folder / "pendulum")
    shutil.copy(folder / "pendulum/checkpoint/replay.safetensors", folder / "vectors.safetensors")


def pole(folder, **changes):
    """The options of a run on the first file, which plays CartPole."""
    options = {"data": folder.parent / "rows.safetensors", "env": "CartPole-v1", "device": DEVICE, "deterministic": 1,
               "threads": 1, "eval-period": 500, "eval-episodes": 3, "checkpoint": 600, "seed": 5, "steps": STEPS,
               "out": folder, **changes}
    return ["offline-dqn", *(word for name, value in options.items() if value is not None
                             for word in (f"--{name}", value))]


def a_run_has_all_its_files(folder):
    done = run(*pole(folder), anew=True)
    assert " transitions, by offline-dqn on " in done.stdout, done.stdout
    assert f"{STEPS} of {STEPS} steps, 100.0%" in done.stdout and "  loss " in done.stdout, done.stdout
    assert {path.name for path in folder.iterdir()} == FILES | BEST | EVENTS
    saved = {"replay.safetensors", "learner.safetensors", "run.safetensors", "position.txt"} | BEST
    assert {path.name for path in (folder / "checkpoint").iterdir()} == saved
    config = json.loads((folder / "config.json").read_text())
    assert config["environment"]["name"] == "CartPole-v1" and config["options"]["num-actions"] == 2
    assert config["offline"]["eval_period"] == 500 and config["learner"]["network"]["num_actions"] == 2
    assert config["options"]["data"] == str(folder.parent / "rows.safetensors")
    assert not {"run", "apex", "ga3c"} & set(config)
    for kind, name in (("evaluations", "evaluation"), ("rates", "rates")):
        assert rows_of(folder, kind) == log_of(folder, name), kind
    assert rows_of(folder, "episodes") == []
    evaluations, rates = rows_of(folder, "evaluations"), rows_of(folder, "rates")
    last, busiest = rates[-1], busiest_of(rates)
    assert [row["step"] for row in evaluations] == [500, 1000, 1500]
    assert all(row["length"] == 3 * row["mean_return"] for row in evaluations)
    assert (last["step"], last["train_steps"], last["episodes"]) == (STEPS, STEPS, 0) and busiest["loss"] > 0
    assert busiest["train_steps_per_second"] > 0 and "env_steps_per_second" not in last


def the_best_weights_beat_random_ones(folder):
    """Of which games have 22 steps, with a deviation of 12."""
    best = max(row["mean_return"] for row in rows_of(folder, "evaluations"))
    assert best > 100, rows_of(folder, "evaluations")
    told = run("evaluate", folder, "--weights", "best", "--episodes", 4, "--device", DEVICE).stdout
    assert "mean return " in told and " of 4 games" in told, told


def a_run_can_be_made_longer(folder):
    fewer = run("--resume", folder, "--steps", 1000, status=2).stderr
    assert f"--steps is 1000; the run has taken {STEPS} steps" in fewer, fewer
    run("--resume", folder, "--steps", STEPS + 100, "--quiet")
    assert rows_of(folder, "rates")[-1]["step"] == STEPS + 100


def a_killed_run_goes_on_without_the_data(folder, whole):
    """Its checkpoint has them."""
    process = start(*pole(folder, steps=MOST))
    wait_for(folder / "checkpoint")
    process.kill()
    process.communicate()
    data = folder.parent / "rows.safetensors"
    hidden = data.rename(folder.parent / "hidden")
    taken = int((folder / "checkpoint/position.txt").read_text().split()[1])
    steps = max(STEPS, taken + 100)
    run("--resume", folder, "--steps", steps, "--quiet")
    hidden.rename(data)
    if steps == STEPS:
        assert results_of(folder) == whole
    assert rows_of(folder, "rates")[-1]["step"] == steps


def an_interrupted_run_has_the_results_of_a_whole_one(folder, whole):
    process = start(*pole(folder))
    wait_for(folder / "evaluations.csv")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    if process.returncode == 130:
        assert f"--resume {folder} goes on after step " in out, (out, err)
        run("--resume", folder, "--quiet")
    assert results_of(folder) == whole


def no_environment_is_needed(folder):
    done = run("offline-dqn", "--data", "rows.safetensors", "--device", DEVICE, "--threads", 1, "--steps", 200,
               "--seeds", "1-2", "--checkpoint", 100, cwd=folder, anew=True)
    assert "seed 1: done; runs/rows-1" in done.stdout and "seed 2: done; runs/rows-2" in done.stdout, done.stdout
    for seed in (1, 2):
        made = folder / f"runs/rows-{seed}"
        assert {path.name for path in made.iterdir()} == FILES | EVENTS
        assert rows_of(made, "evaluations") == []
    config = json.loads((made / "config.json").read_text())
    assert config["environment"]["name"] == "" and config["environment"]["num_actions"] == 2
    none = run("play", made, status=2).stderr
    assert "had no environment; --env must give the game to play" in none, none
    played = run("play", made, "--env", "CartPole-v1", "--episodes", 1, "--device", DEVICE).stdout
    assert "mean return " in played, played


def vectors_are_trained_by_dpg(folder):
    run("offline-dpg", "--data", folder.parent / "vectors.safetensors", "--env", "Pendulum", "--device", DEVICE,
        "--threads", 1, "--steps", 200, "--eval-period", 100, "--eval-episodes", 1, "--checkpoint", 100, "--out",
        folder, "--quiet")
    config = json.loads((folder / "config.json").read_text())
    assert (config["replay"]["n_step"], config["replay"]["prioritized"], config["options"]["prioritized"]) == (5, 1, 1)
    assert [row["step"] for row in rows_of(folder, "evaluations")] == [100, 200]
    assert all(-2000 < row["mean_return"] < 0 for row in rows_of(folder, "evaluations"))
    games = ["--episodes", 2, "--seed", 9, "--device", DEVICE, "--threads", 1]
    alone = folder.parent / "alone.safetensors"  # it does not tell the bounds of actions
    shutil.copy(folder / "learner.safetensors", alone)
    one, other = (run("evaluate", *words, *games).stdout.splitlines()[-1] for words in (
        [folder], [alone, "--env", "Pendulum"]))
    assert one == other and "mean return -" in one, (one, other)


def help_has_its_own_words(_folder):
    for preset, without in (("offline-dqn", "--num-envs"), ("offline-dpg", "--num-actions")):
        told = run(preset, "--help").stdout
        assert f"{preset} --data FILE [options]" in told and "train steps\n" in told, told
        assert without not in told and "--exploration-steps" not in told, told
    assert "offline-dqn --data FILE" in run("--help").stdout


def bad_options_are_refused(folder):
    rows, vectors = ["--data", folder / "rows.safetensors"], ["--data", folder / "vectors.safetensors"]
    learner = folder / "whole/learner.safetensors"
    for options, *words in (
        (["offline-dqn"], "--data is missing; it must be the file of a replay"),
        (["offline-dqn", "--data", folder / "none"], f"{folder / 'none'}: cannot be opened"),
        (["offline-dqn", "--data", learner], f"{learner}: it is a learner file; it must be a replay file"),
        (["offline-dqn", *vectors], "the actions of --data are float32 of 1", "offline-dpg takes vectors"),
        (["offline-dpg", *rows], "the actions of --data are int32", "offline-dqn takes one whole number each"),
        (["offline-dqn", *rows, "--env", "Pendulum"], "Pendulum has continuous actions and --preset is offline-dqn"),
        (["offline-dpg", *vectors, "--env", "CartPole-v1"], "CartPole-v1 has discrete actions"),
        (["offline-dqn", *rows, "--env", "MinAtar/Breakout"], "MinAtar/Breakout: ", "uint8 and obs of the data is fl"),
        (["offline-dqn", *rows, "--n-step", 3], "--n-step is 3 and the transitions of --data are of 1 step;"),
        (["offline-dpg", *vectors, "--n-step", 1], "--n-step is 1 and the transitions of --data are of 5 steps;"),
        (["offline-dqn", *rows, "--prioritized", 1], "--prioritized is 1 and --data has no priorities"),
        (["offline-dqn", *rows, "--num-actions", 1], "--data has the action 1 and --num-actions is 1"),
        (["offline-dqn", *rows, "--env", "CartPole-v1", "--num-actions", 3],
         "--num-actions is 3 and CartPole-v1 has 2 actions"),
        (["offline-dqn", *rows, "--eval-episodes", 3], "--eval-episodes is 3 and --env is missing"),
        (["offline-dqn", *rows, "--eval-period", 100], "--eval-period is 100 and --env is missing"),
        (["offline-dqn", *rows, "--num-envs", 2], "--num-envs is 2 and --preset is offline-dqn"),
        (["offline-dqn", *rows, "--actors", 2], "--actors is 2 and --preset is offline-dqn"),
        (["offline-dqn", *rows, "--demonstrations", learner], "of fast-dqn, ddpg, td3, sac, apex-dqn or apex-dpg\n"),
        (["dqn-lambda-2019-small", "--env", "CartPole-v1", "--lambda", 0.8, "--demonstrations", learner],
         "take a preset of fast-dqn, apex-dqn or apex-dpg\n"),
        (["fast-dqn-small", "--env", "CartPole-v1", *rows], "which does not have it",
         "offline-dqn, offline-dpg, offline-td3 or offline-sac"),
    ):
        refused = run(*options, "--device", DEVICE, "--out", folder / "refused", status=2).stderr
        assert all(word in refused for word in words), (options, refused)
        assert not (folder / "refused/config.json").exists(), options
        shutil.rmtree(folder / "refused", ignore_errors=True)


def main():
    with new_folder() as folder:
        record(folder)
        a_run_has_all_its_files(folder / "whole")
        the_best_weights_beat_random_ones(folder / "whole")
        whole = results_of(folder / "whole")
        a_killed_run_goes_on_without_the_data(folder / "killed", whole)
        an_interrupted_run_has_the_results_of_a_whole_one(folder / "stopped", whole)
        bad_options_are_refused(folder)
        a_run_can_be_made_longer(folder / "whole")
        no_environment_is_needed(folder)
        vectors_are_trained_by_dpg(folder / "dpg")
        help_has_its_own_words(folder)
    print(f"test_train_offline {DEVICE}: 9 tests")


if __name__ == "__main__":
    main()
