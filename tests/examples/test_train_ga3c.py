# SPDX-License-Identifier: MIT
"""A program that trains by GA3C, A3C or A2C, gpureplay-train or python -m gpureplay.train, as a user runs it: its
files, a program that is killed and goes on, Ctrl-C, the tuner, and what it refuses.

usage: test_train_ga3c.py device program [words of its command]
"""

import json
import math
import re
import signal
import time

from test_train import BEST, DEVICE, EVENTS, log_of, new_folder, rows_of, run, start, wait_for

AGENTS = 6
MOST = 10**9


def pole(**changes):
    """The options of a run on CartPole."""
    options = {"env": "CartPole-v1", "preset": "ga3c-small", "device": DEVICE, "threads": 1, "agents": AGENTS,
               "checkpoint": 2000, "eval-episodes": 5, "seed": 7, "steps": 6000, **changes}
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def saved_step(folder):
    """The step of the last checkpoint."""
    return int((folder / "checkpoint/position.txt").read_text().split()[1])


def stop(process):
    """Ctrl-C. Returns what the program printed."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (process.returncode, out, err)
    return out


def a_run_has_all_its_files(folder):
    done = run(*pole(out=folder), anew=True)
    assert "rollouts trained on (TPS)" in done.stdout and "policy lag, of trained steps: 0 " in done.stdout, done.stdout
    assert "of at most 24 if agents wait" in done.stdout, done.stdout  # 16 rollouts, 6 agents, 2 trainers
    names = {"config.json", "options.txt", "episodes.csv", "evaluations.csv", "rates.csv", "tuner.csv", "log.jsonl",
             "checkpoint", "learner.safetensors"}
    assert {path.name for path in folder.iterdir()} == names | BEST | EVENTS
    saved = {"learner.safetensors", "run.safetensors", "position.txt"}
    assert {path.name for path in (folder / "checkpoint").iterdir()} == saved and saved_step(folder) == 6000
    config = json.loads((folder / "config.json").read_text())
    assert (config["ga3c"]["system"], config["ga3c"]["agents"], config["options"]["agents"]) == ("ga3c", 6, 6)
    assert config["actor_critic"]["max_batch"] == 45 and config["actor_critic"]["obs"]["shape"] == [4]  # 40 + 5
    assert config["actor_critic"]["optimizer"]["learning_rate"]["last"] == config["options"]["learning-rate"] == 0.001
    assert not {"run", "apex", "replay", "learner"} & set(config)
    if DEVICE == "cpu":  # what the preset's "auto" becomes
        assert config["options"]["math"] == config["actor_critic"]["math"] == "fp32"
    for kind, name in (("episodes", "episode"), ("evaluations", "evaluation"), ("rates", "rates")):
        assert rows_of(folder, kind) == log_of(folder, name), kind

    episodes, rates = rows_of(folder, "episodes"), rows_of(folder, "rates")
    assert {row["agent"] for row in episodes} == set(range(AGENTS))
    assert all(row["return"] == row["length"] for row in episodes)
    last = rates[-1]
    assert (last["step"], last["episodes"]) == (6000, len(episodes))
    assert 0 <= 6000 - sum(row["length"] for row in episodes) <= AGENTS * 500  # the open ones
    assert (last["agents"], last["predictors"], last["trainers"]) == (AGENTS, 2, 2)
    # Each step is trained on but for those of open rollouts, 5 in a rollout, 41 to 45 in a batch but for a few.
    assert 6000 / 45 - 2 <= last["train_steps"] <= 6000 / 41 + 2 * 3, last
    assert last["queue_lag"] <= last["queue_lag_bound"] == 16 + AGENTS + 2
    spans = [row["seconds"] - before for row, before in zip(rates, [0, *(row["seconds"] for row in rates)])]
    sums = {name: sum(row[name] * span for row, span in zip(rates, spans))
            for name in ("env_steps_per_second", "predictions_per_second", "rollouts_per_second")}
    assert math.isclose(sums["env_steps_per_second"], 6000, rel_tol=0.01)
    assert 5900 < sums["predictions_per_second"] < 1.3 * 6000  # some are of values at the end of a rollout
    assert 1160 < sums["rollouts_per_second"] < 1220 + len(episodes)  # an episode's end makes one short
    busy = [row for row in rates if row["rollouts_per_second"] and row["predictions_per_second"]]
    assert busy
    for row in busy:
        assert math.isclose(row["predictions_per_rollout"], row["predictions_per_second"] / row["rollouts_per_second"],
                            rel_tol=1e-4)
        assert 0 <= row["mean_lag"] <= row["largest_lag"] and 0 < row["entropy"] <= math.log(2) + 1e-6
        assert 1 <= row["prediction_batch"] <= AGENTS and row["env_share"] + row["wait_share"] <= 1 + 1e-5
    (evaluation,) = rows_of(folder, "evaluations")  # at the end
    assert (evaluation["step"], evaluation["episodes"]) == (6000, 5) and 8 <= evaluation["mean_return"] <= 500
    assert 0 <= evaluation["return_deviation"] < 250


def a_run_can_be_made_longer(folder):
    before = (folder / "episodes.csv").read_bytes()
    fewer = run("--resume", folder, "--steps", 5000, status=2).stderr
    assert "--steps is 5000; the run has taken 6000 steps" in fewer, fewer
    run("--resume", folder, "--steps", 7000, "--quiet")
    assert (folder / "episodes.csv").read_bytes().startswith(before)
    last = rows_of(folder, "rates")[-1]
    assert last["step"] == 7000 and last["episodes"] == len(rows_of(folder, "episodes"))
    assert [row["step"] for row in rows_of(folder, "evaluations")] == [7000]  # that at 6000 came after the checkpoint


def a_killed_program_goes_on(folder):
    process = start(*pole(out=folder, steps=MOST))
    wait_for(folder / "checkpoint")
    process.kill()
    process.communicate()
    taken = int(max(row["step"] for row in rows_of(folder, "episodes")))  # fewer cannot be asked for
    done = run("--resume", folder, "--steps", taken + 5000)
    step = int(re.search(r"goes on after step (\d+) in", done.stdout).group(1))  # that of the last checkpoint
    assert step > 0 and step % 2000 == 0
    rates = rows_of(folder, "rates")
    steps, seconds = [row["step"] for row in rates], [row["seconds"] for row in rates]
    # The row that comes after a second may be written while the run is saved or evaluated: the last one has its step.
    assert steps == sorted(steps) and seconds == sorted(seconds), rates
    assert steps[-1] == taken + 5000 and rates[-1]["train_steps"] > 40, rates
    assert rates[-1]["episodes"] == len(rows_of(folder, "episodes"))


def an_interrupted_run_ends_with_what_there_is(folder):
    process = start(*pole(out=folder, steps=MOST))
    wait_for(folder / "checkpoint")
    out = stop(process)
    assert f"--resume {folder}" in out and (folder / "learner.safetensors").exists(), out
    last = rows_of(folder, "rates")[-1]
    assert saved_step(folder) <= last["step"] < MOST and last["episodes"] == len(rows_of(folder, "episodes"))
    assert rows_of(folder, "evaluations") == []
    run("--resume", folder, "--steps", int(last["step"]) + 100, "--quiet")


def the_tuner_has_a_file(folder):
    process = start(*pole(out=folder, steps=MOST, tuner="paper", checkpoint=0, **{"tuner-period": 0.05}))
    wait_for(folder / "tuner.csv")
    while (folder / "tuner.csv").read_text().count("\n") < 3:  # the header and two rows
        assert process.poll() is None
        time.sleep(0.02)
    stop(process)
    rows = rows_of(folder, "tuner")
    assert rows == log_of(folder, "tuner")
    first = rows[0]
    assert (first["agents"], first["predictors"], first["trainers"], first["accepted"]) == (AGENTS, 2, 2, 1)
    assert first["rollouts_per_second"] > 0
    for before, row in zip(rows, rows[1:]):
        if before["accepted"]:
            assert sum(abs(row[name] - before[name]) for name in ("agents", "predictors", "trainers")) <= 1


def a2c_gives_the_same_weights(folder):
    """In one piece and in several. Agents of a round report their episodes in any order."""
    def result_of(name):
        rows = rows_of(folder / name, "episodes")
        return ([[(row["length"], row["return"]) for row in rows if row["agent"] == agent] for agent in range(AGENTS)],
                (folder / name / "evaluations.csv").read_bytes(), (folder / name / "learner.safetensors").read_bytes())

    few = {"preset": "a2c-small", "steps": 3000, "deterministic": 1}
    for name, changes in (("one", {"checkpoint": 0}), ("several", {"checkpoint": 700}), ("other", {"seed": 8})):
        run(*pole(out=folder / name, **{**few, **changes}), "--quiet")
    assert result_of("one") == result_of("several") and result_of("one")[2] != result_of("other")[2]
    assert not (folder / "one/tuner.csv").exists()
    last = rows_of(folder / "one", "rates")[-1]
    assert (last["largest_lag"], last["queue_lag_bound"], last["train_steps"]) == (0, 0, 100)  # 6 agents, 5 steps
    config = json.loads((folder / "one/config.json").read_text())
    assert (config["ga3c"]["system"], config["actor_critic"]["max_batch"]) == ("a2c", 30)


def a3c_predicts_with_its_agents_copies(folder):
    run(*pole(out=folder, preset="a3c-small", steps=1000, entropy=0.02, **{"t-max": 3, "eval-episodes": 0}))
    last = rows_of(folder, "rates")[-1]
    assert last["predictions_per_second"] == 0 and 1000 / 3 - AGENTS <= last["train_steps"] < 500
    config = json.loads((folder / "config.json").read_text())
    assert (config["ga3c"]["t_max"], config["actor_critic"]["entropy"]["first"]) == (3, 0.02)
    assert config["actor_critic"]["max_batch"] == 8 and rows_of(folder, "evaluations") == []


def other_options_are_refused(folder):
    game = ["--env", "CartPole-v1", "--device", "cpu", "--out", folder / "refused"]
    small, a2c = ["--preset", "ga3c-small"], ["--preset", "a2c-small"]
    for options, words in (
        ([*small, "--batch", 4], ["batch", "4", "take a preset of fast-dqn, dqn-lambda, vrc, ddpg, "]),
        ([*small, "--num-envs", 4], ["num-envs", "4", "ga3c-small", "fast-dqn, dqn-lambda, vrc, ddpg, td3 or sac"]),
        ([*small, "--actors", 4], ["actors", "4", "ga3c-small", "take a preset of apex-dqn or apex-dpg"]),
        ([*small, "--frame-stack", 4], ["frame-stack", "4", "ga3c-small"]),
        ([*a2c, "--tuner", "paper"], ["tuner", "paper", "a2c-small", "take a preset of ga3c\n"]),
        (["--agents", 4], ["agents", "4", "fast-dqn-small", "take a preset of ga3c, a3c or a2c"]),
        (["--preset", "apex-dqn-small", "--deterministic", 1],
         ["deterministic", "apex-dqn-small", "a preset of fast-dqn, dqn-lambda, vrc, ddpg, td3, sac, ga3c, a3c, "]),
        ([*small, "--tuner", "best"], ["--tuner is \"best\"; it must be none, paper or code"]),
        ([*small, "--math", "fp8"], ["--math is \"fp8\"; it must be fp32, tf32, bf16 or auto"]),
        ([*small, "--when-full", "drop"], ["--when-full is \"drop\"; it must be wait, refuse or drop-oldest"]),
        ([*small, "--agents", 0], ["agents", "0", "1 to 1024"]),
        ([*small, "--tuner-period", 2e9], ["period is 2e+09 seconds"]),
        ([*a2c, "--agents", 1024, "--t-max", 256], ["--agents is 1024 and --t-max is 256", "65536"]),
        (["--preset", "ga3c"], ["84", "ga3c-small"]),
        (["--preset", "ga3c-tiny"], ["ga3c-tiny", "ga3c-small", "a2c-small"]),
    ):
        refused = run(*game, *options, status=2).stderr
        assert all(word in refused for word in words), (options, refused)
        assert not (folder / "refused").exists(), options


def main():
    with new_folder() as folder:
        a_run_has_all_its_files(folder / "whole")
        a_run_can_be_made_longer(folder / "whole")
        a_killed_program_goes_on(folder / "killed")
        an_interrupted_run_ends_with_what_there_is(folder / "interrupted")
        the_tuner_has_a_file(folder / "tuner")
        (folder / "a2c").mkdir()
        a2c_gives_the_same_weights(folder / "a2c")
        a3c_predicts_with_its_agents_copies(folder / "a3c")
        other_options_are_refused(folder)
    print(f"test_train_ga3c {DEVICE}: 8 tests")


main()
