# SPDX-License-Identifier: MIT
"""A program that trains by Ape-X, gpureplay-train or python -m gpureplay.train, as a user runs it: its files, actors
that are killed, both ways to go on after the program was, Ctrl-C, and what it refuses.

usage: test_train_apex.py device program [words of its command]
"""

import json
import math
import os
import re
import shutil
import signal
import time
from pathlib import Path

from test_train import (BEST, DEVICE, EVENTS, PROGRAM, ROOT, compile_plugin, log_of, new_folder, rows_of, run, start,
                        wait_for)

ACTORS, EVALUATOR = 3, 1024
MOST = 10**9


def pole(**changes):
    """The options of a run on CartPole."""
    options = {"env": "CartPole-v1", "preset": "apex-dqn-small", "device": DEVICE, "threads": 1, "actors": ACTORS,
               "prepopulation": 1000, "checkpoint": 2000, "seed": 7, "steps": 6000, **changes}
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def actor_rows(folder):
    """Those of actors.csv, which has a word among its numbers."""
    lines = [line.split(",") for line in (folder / "actors.csv").read_text().splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def saved_step(folder):
    """The step of the last checkpoint."""
    return int((folder / "checkpoint/position.txt").read_text().split()[1])


def children_of(process):
    """Also of threads other than the first."""
    return [int(child) for task in Path(f"/proc/{process.pid}/task").glob("*/children")
            for child in task.read_text().split()]


def wait_until(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{condition.__doc__} did not come true in 120 s")


def a_run_has_all_its_files(folder):
    done = run(*pole(out=folder), anew=True)
    assert "transitions learned" in done.stdout and "9,700" in done.stdout and "12,500" in done.stdout, done.stdout
    names = {"config.json", "options.txt", "episodes.csv", "evaluations.csv", "rates.csv", "actors.csv", "log.jsonl",
             "checkpoint", "learner.safetensors"}
    assert {path.name for path in folder.iterdir()} == names | BEST | EVENTS
    saved = {"replay.safetensors", "learner.safetensors", "run.safetensors", "position.txt"}
    assert {path.name for path in (folder / "checkpoint").iterdir()} == saved
    assert re.search(r"  age \d.*  actors \d", done.stdout) and "train steps old" not in done.stdout + done.stderr
    config = json.loads((folder / "config.json").read_text())
    assert config["apex"]["rows_under_way"] == 500  # of 125 train steps
    assert (config["apex"]["actors"], config["apex"]["soft_capacity"], config["options"]["actors"]) == (3, 100000, 3)
    assert config["replay"]["capacity"] == 106250 and "run" not in config
    if DEVICE == "cpu":  # what the preset's "auto" becomes
        assert config["options"]["math"] == config["learner"]["math"] == "fp32"

    for kind, name in (("episodes", "episode"), ("evaluations", "evaluation"), ("rates", "rates")):
        assert rows_of(folder, kind) == log_of(folder, name), kind
    episodes, rates = rows_of(folder, "episodes"), rows_of(folder, "rates")
    for row in episodes:
        assert math.isclose(row["epsilon"], 0.4 ** (1 + 7 * row["actor"] / (ACTORS - 1)), rel_tol=1e-5), row
    last = rates[-1]
    late = 200 * ACTORS  # of blocks that were on their way when the steps were reached, and of those that actors ended
    assert 6000 <= last["step"] < 6000 + late + 500 and last["episodes"] == len(episodes)
    assert 0 <= last["step"] - sum(row["length"] for row in episodes) <= ACTORS * 500  # the open ones
    assert all(row["return"] == row["length"] for row in episodes)
    # 8 transitions are learned for each one after the first 1,000, within the limiter's band of 4,000.
    assert abs(last["train_steps"] * 32 - 8 * (last["step"] - 1000)) < 4000 + 32 + 8 * late, last
    (evaluation,) = rows_of(folder, "evaluations")  # at the end
    assert evaluation["episodes"] == 30 and evaluation["length"] == round(30 * evaluation["mean_return"])
    assert evaluation["step"] == last["step"] and math.isclose(evaluation["mean_return"], last["evaluated_return"],
                                                               rel_tol=1e-5)
    for event, actors in (("started", [0, 1, 2, EVALUATOR]), ("ended", [0, 1, 2])):  # the evaluator ends with the run
        rows = [row for row in actor_rows(folder) if row["event"] == event]
        assert sorted(int(row["actor"]) for row in rows) == actors
        assert all(row["asked"] == str(int(event == "ended")) and row["lost_rows"] == "0" for row in rows)


def killed_actors_are_started_again(folder):
    process = start(*pole(out=folder, steps=MOST, processes=1, **{"eval-episodes": 2}))
    wait_for(folder / "checkpoint")
    assert len(children_of(process)) == ACTORS
    for kills in (1, 2, 3):
        os.kill(children_of(process)[0], signal.SIGKILL)

        def is_counted(kills=kills):
            """A row of the killed actor"""
            return sum(row["event"] == "ended" for row in actor_rows(folder)) >= kills
        wait_until(is_counted)
    ended = [row for row in actor_rows(folder) if row["event"] == "ended"]
    assert all(row["asked"] == "0" and int(row["lost_rows"]) >= 0 for row in ended)

    def all_are_back():
        """Another incarnation of each actor that was killed"""
        begun = {(row["actor"], int(row["incarnation"])) for row in actor_rows(folder) if row["event"] == "started"}
        return all((row["actor"], int(row["incarnation"]) + 1) in begun for row in ended)
    wait_until(all_are_back)
    return process


def corridor_source():
    """That of the plug-in of the page."""
    page = (ROOT / "docs/environments.md").read_text()
    return re.search(r"```c\n(#include <gpureplay/env.h>.*?)```", page, flags=re.S).group(1)


def there_is_room_for_the_frames_that_blocks_repeat(folder):
    """Also with longer stacks. The corridor shows images."""
    source = corridor_source().replace("#include <stdlib.h>", "#include <stdlib.h>\n#include <string.h>")
    for old, new in (("GPUR_FLOAT32, .shape = {1}, .low = 0, .high = 1", "GPUR_UINT8, .shape = {9, 9}, .high = 255"),
                     ("*(float *)obs = (float)(c->position = c->steps = 0);",
                      "memset(obs, c->position = c->steps = 0, 81);"),
                     ("*(float *)obs = (float)c->position / (float)(c->length - 1);", "memset(obs, c->position, 81);")):
        assert old in source, old
        source = source.replace(old, new)
    (folder / "images.c").write_text(source)
    compile_plugin(folder / "images.c", folder / "images.so")
    for stack in (4, 8):
        out = folder / f"images-{stack}"
        few = {"env": folder / "images.so", "steps": 400, "prepopulation": 300, "capacity": 20000, "frame-stack": stack}
        run(*pole(**few, **{"eval-episodes": 0, "checkpoint": 0}, out=out))
        extra = json.loads((out / "config.json").read_text())["replay"]["extra_frames"]
        capacity = 21250  # a block of 50 repeats the frames of its first stack, and those of n = 3 steps
        assert abs(extra - (capacity * (stack + 2) / 50 + capacity / 64)) < 2, (stack, extra)
    refused = run(*pole(**{**few, "capacity": 10**15}, out=folder / "refused"), status=2).stderr
    assert "capacity is 10" in refused and not (folder / "refused").exists(), refused


def old_weights_are_warned_of(folder):
    """Those that act are the first ones to the end. With a limiter a block would have its share of 4 rows."""
    few = {"prepopulation": 300, "checkpoint": 0, "actors": 2, "target-period": 2, "eval-episodes": 0}
    done = run(*pole(out=folder / "old", **few, steps=20000, **{"samples-per-insert": 0, "pull-period": 10**6}))
    told = done.stdout + done.stderr
    assert re.search(r"the weights that act are \d+ train steps old, more than a target period, 2: fewer ", told), told
    assert told.count("train steps old") == 1
    assert json.loads((folder / "old/config.json").read_text())["apex"]["rows_under_way"] == 0
    run(*pole(out=folder / "limited", **few, steps=1000))
    assert json.loads((folder / "limited/config.json").read_text())["apex"]["rows_under_way"] == 4


def a_number_that_is_not_finite_ends_the_run_and_has_its_actor(folder):
    """Also in what the actor's own process says."""
    source = corridor_source().replace("#include <stdlib.h>", "#include <math.h>\n#include <stdlib.h>")
    shown = "*(float *)obs = (float)c->position / (float)(c->length - 1);"
    assert shown in source
    (folder / "bad.c").write_text(source.replace(shown, f"{shown} if (c->position == 2) *(float *)obs = INFINITY;"))
    compile_plugin(folder / "bad.c", folder / "bad.so")
    for processes in (0, 1):
        # So many steps that actor 0, which explores, begins before actor 1 has taken them all.
        done = run(*pole(env=folder / "bad.so", actors=2, processes=processes, steps=10**6, out=folder / "bad",
                         **{"eval-episodes": 0, "checkpoint": 0}), status=2)
        told = done.stdout + done.stderr
        found = re.findall(r"(.*)step \d+: the observation is infinite; its numbers must be finite", told)
        assert len(found) > 1 and all(re.search(r"actor [01]( ended)?: $", before) for before in found), told
        shutil.rmtree(folder / "bad", ignore_errors=True)
    # Also where an actor has failed before the run was called again.
    (folder / "bad.c").write_text(source.replace(
        shown, f"static int steps; {shown} if (++steps > 1000) *(float *)obs = INFINITY;"))
    compile_plugin(folder / "bad.c", folder / "bad.so")
    for _ in range(8):
        failed = run(*pole(env=folder / "bad.so", actors=8, prepopulation=5000, checkpoint=400, steps=10**6,
                           out=folder / "bad", **{"eval-episodes": 0}), status=2).stderr
        assert "the observation is infinite" in failed and "can only be destroyed" not in failed, failed
        shutil.rmtree(folder / "bad")


def actors_in_processes_find_a_plugin(folder):
    """By its file, also when the run is resumed from another folder. Fewer steps than were taken are refused, and what
    came beyond those that were asked for does not count."""
    (folder / "corridor.c").write_text(corridor_source())
    compile_plugin(folder / "corridor.c", folder / "corridor.so")
    options = pole(env="./corridor.so", actors=2, processes=1, prepopulation=500, steps=3000, out="out",
                   **{"env-options": "length=5", "eval-episodes": 2})
    run(*options, cwd=folder)
    run("--resume", folder / "out", "--steps", 5000)
    episodes, before = rows_of(folder / "out", "episodes"), actor_rows(folder / "out")
    assert {row["actor"] for row in episodes} <= {0, 1}  # on a busy machine one may take all steps
    assert 3000 < episodes[-1]["step"]
    assert min(row["length"] for row in episodes) == 4  # steps to the end; of a corridor without options 7
    fewer = run("--resume", folder / "out", "--steps", 4000, status=2).stderr
    assert "--steps is 4000; the run has taken 5000 steps" in fewer, fewer
    assert rows_of(folder / "out", "episodes") == episodes
    run("--resume", folder / "out", "--steps", 5000)
    assert rows_of(folder / "out", "episodes") == episodes and actor_rows(folder / "out") == before


def a_killed_program_goes_on(folder, process):
    """From its file, and with an empty replay; its actors end by themselves."""
    left = children_of(process)
    process.kill()
    process.communicate()

    def all_have_ended():
        """The end of a killed learner's actors"""
        return not any(Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes()
                       for child in left)
    wait_until(all_have_ended)
    step = saved_step(folder)
    taken = int(rows_of(folder, "episodes")[-1]["step"])  # fewer cannot be asked for
    done = run("--resume", folder, "--steps", taken + 2000)
    assert f"goes on after step {step}" in done.stdout, done.stdout
    rates = [row for row in rows_of(folder, "rates") if row["step"] > step]
    assert rates[0]["train_steps"] > 0 and rates[-1]["step"] >= taken + 2000
    stored = (folder / "checkpoint/replay.safetensors").stat().st_size
    run("--resume", folder, "--steps", saved_step(folder) + 1, "--refill")
    assert (folder / "checkpoint/replay.safetensors").stat().st_size < stored  # it began with an empty replay
    before = rows_of(folder, "rates")[-1]["train_steps"]
    run("--resume", folder, "--steps", saved_step(folder) + 3000, "--refill")
    assert rows_of(folder, "rates")[-1]["train_steps"] > before


def an_interrupted_run_ends_with_what_there_is(folder):
    process = start(*pole(out=folder, steps=MOST, processes=1))
    wait_for(folder / "checkpoint")
    children = children_of(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and f"--resume {folder}" in out, (process.returncode, out, err)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert (folder / "learner.safetensors").exists() and rows_of(folder, "episodes")
    ended = [row["actor"] for row in actor_rows(folder) if row["event"] == "ended"]
    assert sorted(ended, key=int) == ["0", "1", "2"]


def the_experiments_are_options(folder):
    run(*pole(out=folder, steps=3000, capacity=2000, replicate=2, epsilons="0.5,0.25", prioritized=0,
              **{"eval-episodes": 0, "initial-priorities": "max"}))
    assert {(row["actor"], row["epsilon"]) for row in rows_of(folder, "episodes")} == {(0, 0.5), (1, 0.25), (2, 0.5)}
    config = json.loads((folder / "config.json").read_text())
    assert (config["apex"]["replicate"], config["learner"]["index_source"]) == (2, "uniform")
    assert (config["apex"]["soft_capacity"], config["replay"]["capacity"]) == (2000, 2125)
    assert rows_of(folder, "evaluations") == []


def workers_fill_the_replay_by_files(folder):
    """A learner without actors of its own. Workers are processes of the program in C."""
    common = {"folder": folder / "shared", "eval-episodes": 0}
    learner = start(*pole(out=folder / "run", actors=0, steps=2000, **common))
    if "python" in Path(PROGRAM[0]).name:
        wait_for(folder / "shared/model.safetensors")
        learner.send_signal(signal.SIGINT)
        learner.communicate(timeout=120)
        return
    workers = [start("--env", "CartPole-v1", "--preset", "apex-dqn-small", "--actors", 2, "--folder", common["folder"],
                     "--work", i) for i in (0, 1)]
    out, err = learner.communicate(timeout=300)
    assert learner.returncode == 0, (out, err)
    for worker in workers:
        worker.send_signal(signal.SIGINT)
        _, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
    last = rows_of(folder / "run", "rates")[-1]
    assert last["step"] >= 2000 and last["train_steps"] > 0 and last["refused_blocks"] == 0
    assert "--folder" in run("--env", "CartPole-v1", "--preset", "apex-dqn-small", "--work", 0, status=2).stderr
    assert '--work is "first"; it must be' in run("--env", "CartPole-v1", "--work", "first", status=2).stderr


def continuous_actions_are_trained_on(folder):
    """Pendulum by a learner of DPG, in threads and in processes, and gone on with."""
    swing = ["--env", "Pendulum", "--preset", "apex-dpg-small", "--device", DEVICE, "--threads", 1, "--actors", 2,
             "--prepopulation", 300, "--batch", 16, "--samples-per-insert", 2, "--eval-episodes", 2]
    refused = run(*swing, "--eviction", "newest", "--out", folder / "run", status=2).stderr
    assert "newest" in refused and "oldest" in refused and "priority" in refused, refused
    refused = run(*swing, "--eviction", "priority", "--prioritized", 0, "--out", folder / "run", status=2).stderr
    assert "--prioritized is 0; it must be 1" in refused, refused
    done = run(*swing, "--steps", 1200, "--checkpoint", 600, "--sigma", 0.2, "--eviction", "priority",
               "--capacity", 1000, "--out", folder / "run")
    assert "22,000" in done.stdout and "by apex-dpg-small" in done.stdout, done.stdout
    assert {row["epsilon"] for row in rows_of(folder / "run", "episodes")} == {0.2}
    assert all(row["mean_return"] < 0 for row in rows_of(folder / "run", "evaluations"))
    config = json.loads((folder / "run/config.json").read_text())
    assert config["apex"]["sigma"] == 0.2 and config["dpg"]["batch_size"] == 16 and "learner" not in config
    assert config["environment"]["action"] == {"shape": [1], "low": [-2], "high": [2]}
    assert config["replay"]["eviction"] == "priority" and config["replay"]["capacity"] == 1062
    assert config["dpg"]["actor"]["head"] == "tanh_action" and config["dpg"]["index_source"] == "prioritized_stratified"
    rates = rows_of(folder / "run", "rates")
    before, learned = rates[-1], [row for row in rates if row["loss"] is not None]  # since the row before it trained
    assert learned and all(row["loss"] >= 0 and row["gradient_norm"] >= 0 for row in learned), rates
    run("--resume", folder / "run", "--steps", int(before["step"]) + 1000)
    assert rows_of(folder / "run", "rates")[-1]["train_steps"] > before["train_steps"]
    refused = run(*swing, "--second-activation", "linear", "--out", folder / "refused", status=2).stderr
    assert "--second-activation is \"linear\"; it must be none, relu or tanh" in refused, refused
    run(*swing, "--steps", 600, "--processes", 1, "--second-activation", "tanh", "--checkpoint", 0, "--out",
        folder / "processes")  # whose weights would not fit actors of other networks
    assert rows_of(folder / "processes", "rates")[-1]["lost_transitions"] == 0
    networks = json.loads((folder / "processes/config.json").read_text())["dpg"]
    trunks = [networks[name]["trunk"] for name in ("actor", "critic")]
    assert {trunk[i]["activation"] for trunk in trunks for i in (0, 1)} == {"relu", "tanh"}
    second = config["options"]["second-activation"], config["dpg"]["actor"]["trunk"][1]["activation"]
    assert second == ("relu", "relu")
    refused = run("--env", "Pendulum", "--out", folder / "refused", status=2).stderr
    assert "Pendulum has continuous actions and --preset is missing; it must be ddpg, " in refused, refused
    assert "from -2 to 2" in run("--list", "--env", "Pendulum").stdout


def demonstrations_are_drawn_by_both_learners(folder):
    """Those of the checkpoints of two runs before, and after resuming those of one's own checkpoint."""
    pendulum = ["--env", "Pendulum", "--preset", "apex-dpg-small", "--device", DEVICE, "--threads", 1, "--actors", 1,
                "--prepopulation", 300, "--checkpoint", 2000, "--steps", 2000, "--eval-episodes", 0,
                "--eviction", "priority"]  # as in that run
    for name, before, words in (("dqn", "whole", pole()), ("dpg", "continuous/run", pendulum)):
        (folder / name).mkdir()
        file, out = folder / name / "shown.safetensors", folder / name / "run"
        shutil.copy(folder / before / "checkpoint/replay.safetensors", file)
        run(*words, "--demonstrations", file, "--demonstration-ratio", 0.25, "--out", out)
        options, first = json.loads((out / "config.json").read_text())["options"], rows_of(out, "rates")[-1]
        assert (options["demonstrations"], options["demonstration-ratio"]) == (str(file), 0.25)
        assert (out / "checkpoint/demonstrations.safetensors").exists() and first["train_steps"] > 0
        run("--resume", out, "--steps", int(first["step"]) + 500)
        assert rows_of(out, "rates")[-1]["train_steps"] > first["train_steps"]


def other_options_are_refused(folder):
    game = ["--env", "CartPole-v1", "--device", "cpu", "--out", folder / "refused"]
    small = ["--preset", "apex-dqn-small"]
    for options, words in (
        ([*small, "--num-envs", 4], ["num", "4", "apex-dqn-small"]),
        ([*small, "--exploration-steps", 4], ["exploration", "4", "apex-dqn-small"]),
        ([*small, "--lambda", 0.5], ["lambda", "0.5", "apex-dqn-small"]),
        (["--actors", 4], ["actors", "4", "fast-dqn-small"]),
        (["--preset", "fast-dqn-small", "--samples-per-insert", 4], ["samples", "4", "fast-dqn-small"]),
        ([*small, "--refill"], ["refill", "resume"]),
        ([*small, "--actors", 0], ["actors", "0", "1"]),
        ([*small, "--epsilons", "0.5,2"], ["epsilons", "2", "0 to 1"]),
        ([*small, "--math", "fp8"], ["--math is \"fp8\"; it must be fp32, tf32, bf16 or auto"]),
        ([*small, "--initial-priorities", "none"], ["none", "td", "max"]),
        ([*small, "--prepopulation", 3000, "--capacity", 2000], ["3000", "2000"]),
        (["--preset", "apex-dqn"], ["84", "apex-dqn-small"]),
        ([*small, "--sigma", 0.1], ["sigma", "0.1", "apex-dpg"]),
        (["--preset", "apex-dpg-small"], ["CartPole-v1", "discrete"]),
        (["--preset", "apex-dpg-small", "--epsilons", "0.1"], ["epsilons", "0.1", "apex-dqn"]),
        (["--preset", "apex-dpg-small", "--frame-stack", 4], ["frame-stack", "4", "apex-dpg-small"]),
    ):
        refused = run(*game, *options, status=2).stderr
        assert all(word in refused for word in words), (options, refused)
        assert not (folder / "refused").exists(), options


def main():
    with new_folder() as folder:
        a_run_has_all_its_files(folder / "whole")
        process = killed_actors_are_started_again(folder / "killed")
        a_killed_program_goes_on(folder / "killed", process)
        (folder / "plugin").mkdir()
        there_is_room_for_the_frames_that_blocks_repeat(folder / "plugin")
        old_weights_are_warned_of(folder / "plugin")
        actors_in_processes_find_a_plugin(folder / "plugin")
        a_number_that_is_not_finite_ends_the_run_and_has_its_actor(folder / "plugin")
        an_interrupted_run_ends_with_what_there_is(folder / "interrupted")
        the_experiments_are_options(folder / "experiments")
        workers_fill_the_replay_by_files(folder)
        continuous_actions_are_trained_on(folder / "continuous")
        demonstrations_are_drawn_by_both_learners(folder)
        other_options_are_refused(folder)
    print(f"test_train_apex {DEVICE}: 12 tests")


main()
