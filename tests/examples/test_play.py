# SPDX-License-Identifier: MIT
"""The commands of gpureplay-train around a run, as a user runs them: the weights of the best evaluation, playing and
evaluating by saved weights, the list of games, and runs with several seeds, which python -m gpureplay has, too.

usage: test_play.py device program [words of its command]
"""

import json
import math
import re
import signal
import statistics
import struct
from pathlib import Path

from test_train import DEVICE, PROGRAM, ROOT, compile_plugin, new_folder, pole, rows_of, run, start, wait_for

GAME = re.compile(r"^game (\d+): return (\S+), (\d+) steps$", flags=re.M)
RESULT = re.compile(r"^mean return (\S+) of (\d+) games?, standard deviation (\S+?)(?:, 95% interval (\S+) to (\S+))?, "
                    r"(\S+) steps a game$", flags=re.M)


def about(path):
    """The metadata of a safetensors file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))["__metadata__"]


def games_of(text):
    return [(float(score), int(length)) for _, score, length in GAME.findall(text)]


def result_of(text):
    """mean, games, deviation, low, high, steps a game"""
    (found,) = RESULT.findall(text)
    return [float(number) if number else None for number in found]


def the_weights_of_the_best_evaluation_are_kept(folder):
    best = max(rows_of(folder, "evaluations"), key=lambda row: row["mean_return"])  # the first of equal ones
    kept = about(folder / "best.safetensors")
    assert (int(kept["env_steps"]), float(kept["mean_return"]), int(kept["episodes"])) == (best["step"],
                                                                                         best["mean_return"], 3)
    assert (folder / "checkpoint/best.safetensors").read_bytes() == (folder / "best.safetensors").read_bytes()
    shown = run("evaluate", folder, "--weights", "best", "--episodes", 3).stdout
    assert f"the weights of the best evaluation, {best['mean_return']:.7g} after {best['step']:.0f} steps" in shown
    assert f"of train step {kept['weights_version']}\n" in shown, shown


def games_are_played_one_after_another(folder):
    done = run("play", folder, "--episodes", 6)
    games = games_of(done.stdout)
    scores = [score for score, _ in games]
    mean, count, deviation, low, high, length = result_of(done.stdout)
    assert len(games) == count == 6 and all(score == steps for score, steps in games)
    assert math.isclose(mean, statistics.mean(scores), rel_tol=1e-5) and math.isclose(length, mean, rel_tol=1e-5)
    assert math.isclose(deviation, statistics.pstdev(scores), rel_tol=1e-3)
    half = 2.571 * statistics.stdev(scores) / math.sqrt(6)
    assert math.isclose(high - mean, half, rel_tol=1e-3) and math.isclose(mean - low, half, rel_tol=1e-3)
    assert run("play", folder, "--episodes", 6).stdout == done.stdout
    assert games_of(run("play", folder, "--episodes=6", "--seed=8").stdout) != games
    assert len(games_of(run("play", folder).stdout)) == 5
    alone = result_of(run("evaluate", folder, "--episodes", 6, "--envs", 1).stdout)
    assert alone == result_of(done.stdout)
    random = result_of(run("evaluate", folder, "--epsilon", 1, "--episodes", 100).stdout)
    assert 18 < random[0] < 28 and random[1] == 100, random  # the mean of random play is 22
    greedy = run("evaluate", folder, "--greedy").stdout
    assert result_of(greedy)[1] == 30 and greedy == run("evaluate", folder, "--epsilon", 0).stdout


def an_interrupted_command_shows_what_it_has(folder):
    process = start("play", folder, "--episodes", "1e9")
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = first + process.stdout.read(), process.stderr.read()  # communicate loses what readline has read ahead
    assert process.wait(timeout=60) == 130 and result_of(out)[1] == len(games_of(out)) > 0, (out, err)


def what_a_game_shows_is_drawn(folder):
    shown = run("play", folder / "whole", "--episodes", 1, "--text").stdout
    numbers = [line for line in shown.splitlines() if re.fullmatch(r"(-?[\d.e-]+ ){3}-?[\d.e-]+", line)]
    assert len(numbers) == games_of(shown)[0][1]
    out = folder / "breakout"
    run("--env", "MinAtar/Breakout", "--device", DEVICE, "--threads", 1, "--prepopulation", 200, "--steps", 400,
        "--target-period", 200, "--eval-period", 0, "--eval-episodes", 1, "--checkpoint", 0, "--out", out)
    shown = run("play", out, "--episodes", 1, "--text").stdout
    pictures = re.findall(r"((?:[.1-4]{10}\n){10})\n", shown)
    assert len(pictures) == games_of(shown)[0][1] > 1 and "1" in pictures[0] and "4444444444\n" in pictures[0], shown


def a_file_needs_its_game(folder, whole):
    (folder / "alone").mkdir()
    for name in ("learner.safetensors", "best.safetensors"):
        file = folder / "alone" / name
        file.write_bytes((whole / name).read_bytes())
        assert f"--env is missing and {file} is not the folder of a run" in run("play", file, status=2).stderr
        other = run("play", file, "--env", "Pendulum", status=2).stderr
        assert "Pendulum: the environment's actions are not discrete" in other, other
        assert result_of(run("evaluate", file, "--env", "CartPole-v1", "--episodes", 4).stdout)[1] == 4
    same = run("evaluate", whole / "learner.safetensors", "--env", "CartPole-v1", "--seed", 7, "--threads", 2,
               "--episodes", 9).stdout
    assert same == run("evaluate", whole, "--episodes", 9).stdout  # CartPole's preset explores with 0.05, too


def runs_of_every_kind_are_evaluated(folder):
    """Of a plug-in, also after it was moved, with a stack of frames, of one that steps many at once, with
    probabilities, and with action vectors."""
    compile_plugin(ROOT / "tests/env/frames.c", folder / "frames.so")
    compile_plugin(ROOT / "tests/env/corridors.c", folder / "many.so")
    few = ["--device", DEVICE, "--threads", 1, "--eval-episodes", 1]
    for name, options in (
        ("stack", ["--env", folder / "frames.so", "--preset", "fast-dqn-small", "--steps", 400, "--prepopulation", 200,
                   "--target-period", 200, "--eval-period", 200]),
        ("many", ["--env", folder / "many.so", "--preset", "fast-dqn-small", "--steps", 400, "--prepopulation", 500,
                  "--target-period", 200, "--num-envs", 4, "--eval-period", 200]),
        ("probabilities", ["--env", folder / "frames.so", "--preset", "a2c-small", "--agents", 4, "--steps", 400]),
        ("vectors", ["--env", "Pendulum", "--preset", "apex-dpg-small", "--actors", 1, "--steps", 1500,
                     "--prepopulation", 500, "--eval-period", 0]),
    ):
        run(*options, *few, "--out", folder / name)
        assert (folder / name / "best.safetensors").exists(), name
        for more in ([], ["--weights", "best"], ["--greedy"]):
            mean, count, _, low, high, length = result_of(run("evaluate", folder / name, "--episodes", 9, *more).stdout)
            assert count == 9 and low <= mean <= high
            assert {"many": 5 <= length <= 30, "vectors": length == 200}.get(name, length == 20), (name, length)
    games = games_of(run("play", folder / "stack", "--greedy").stdout)
    assert len(games) == 5 and len(set(games)) == 1  # nothing in it is random
    refused = run("play", folder / "vectors", "--epsilon", 0.5, status=2).stderr
    assert "epsilon is 0.5 and the network computes action vectors" in refused, refused
    (folder / "frames.so").rename(folder / "moved.so")
    gone = run("play", folder / "stack", status=2).stderr
    assert "frames.so" in gone and gone.endswith("; --env FILE names the file to which it was moved\n"), gone
    moved = ("--env", folder / "moved.so")
    assert games_of(run("play", folder / "stack", "--greedy", *moved).stdout) == games
    short = run("play", folder / "stack", *moved, "--env-options", "short").stdout
    assert {length for _, length in games_of(short)} == {10}
    assert "Frames\n  observation  uint8 (12, 12)" in run("list", folder / "moved.so").stdout


SEVERAL = """
#include <gpureplay/env.h>
#include <string.h>
static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    info->obs = info->action = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {1}, .high = 1};
    return (*env = (void *)&init) ? NULL : "";
}
static const char *reset(void *env, void *obs) { return NULL; }
static const char *step(void *env, const void *action, void *obs, gpur_env_result *result) { return NULL; }
static const char *step_many(void *env, const void *actions, const gpur_vector_result *result) { return NULL; }
static const char *init_many(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env)
{
    return init(options, seed, info, env);
}
static void close(void *env) {}
static const gpur_env_type one = {.size = sizeof one, .name = "One", .init = init, .reset = reset, .step = step,
                                  .close = close};
static const gpur_vector_env_type many = {.size = sizeof many, .name = "Many", .init = init_many, .reset = reset,
                                          .autoreset = GPUR_AUTORESET_SAME_STEP, .step = step_many, .close = close};
const gpur_env_type *gpur_env_plugin(const char *name) { return !*name || !strcmp(name, "One") ? &one : NULL; }
const gpur_vector_env_type *gpur_vector_env_plugin(const char *name) { return !strcmp(name, "Many") ? &many : NULL; }
const char *gpur_env_plugin_name(int32_t index) { return NAMES; }
"""
TWO_NAMES = 'index == 0 ? "One" : index == 1 ? "Many" : NULL'


def compile_several(folder, name, names):
    (folder / "several.c").write_text(SEVERAL.replace("NAMES", names))
    compile_plugin(folder / "several.c", folder / name)
    return folder / name


def games_of_a_plugin_are_listed(folder):
    several = compile_several(folder, "several.so", TWO_NAMES)
    assert run("list", several).stdout == run("--list", "--env", several).stdout == f"{several}:One\n{several}:Many\n"
    assert run("list", "./several.so", cwd=folder).stdout == "./several.so:One\n./several.so:Many\n"
    for name in ("One", "Many"):
        assert f"{name}\n  observation  float32 (1)" in run("list", f"{several}:{name}").stdout
    assert "One\n  observation" in run("list", several, "--env-options", "a=1").stdout  # options are for its default
    assert "One\n  observation" in run("list", compile_several(folder, "default.so", "NULL")).stdout
    for number, (names, wanted) in enumerate((
        ('index ? NULL : "Three"', ["gpur_env_plugin_name for index 0: plug-in ", 'has no type "Three"']),
        ('index == 0 ? "One" : ""', ["returns an empty name for index 1; it must return NULL after the last one"]),
        ('"One"', ["has a name for index 4096; it must return NULL after the last one"]),
    )):
        refused = run("list", compile_several(folder, f"several{number}.so", names), status=2)
        assert all(words in refused.stderr for words in wanted) and not refused.stdout, refused.stderr


def games_are_listed():
    assert run("list").stdout == run("--list").stdout
    assert run("list", "Pendulum").stdout == run("--list", "--env", "Pendulum").stdout
    assert "float32 (4)" in run("list", "CartPole-v1").stdout
    assert '"Pong"' in run("list", "Pong", status=2).stderr
    assert "sticky_action_prob" in run("list", "MinAtar/Asterix", "--env-options", "sticky_action_prob=0").stdout


def commands_have_help_and_refuse_other_words(folder, whole):
    assert "python -m gpureplay.compare" in run("compare", whole, status=2).stderr
    for command, options in (("play", "episodes text weights epsilon greedy env env-options seed device threads"),
                             ("evaluate", "episodes envs weights epsilon greedy env env-options seed device threads"),
                             ("list", "env-options"), ("compare", "")):
        shown = run(command, "--help").stdout
        assert re.findall(r"^  --([a-z-]+)", shown, flags=re.M) == options.split(), shown
        assert shown.startswith(f"usage: gpureplay-train {command} "), shown
        assert f"gpureplay-train {command} " in run("--help").stdout
    assert "python -m gpureplay.play RUN --video FOLDER" in run("play", "-h").stdout
    for words, wanted in (
        (["play"], ["play has no run", "a learner's file"]),
        (["play", folder / "none"], [f"there is no {folder / 'none'}; it must be the folder of a run, or a learner"]),
        (["play", folder], [f"{folder} is no folder of a run: it has no options.txt"]),
        (["play", folder / "none", "--env", "CartPole-v1"], ["none"]),
        (["play", whole, whole], ["one run too many"]),
        (["play", whole, "--nonsense"], ["--nonsense is not an option; gpureplay-train play --help lists them"]),
        (["play", whole, "--steps", 5], ["--steps is not an option; gpureplay-train play"]),
        (["evaluate", whole, "--text"], ["--text is not an option; gpureplay-train evaluate"]),
        (["play", whole, "--text=1"], ["--text=1 has a value; it must have none"]),
        (["play", whole, "--episodes"], ["--episodes has no value", "N"]),
        (["play", whole, "--episodes", 0], ['--episodes is "0"; it must be a whole number of 1 to']),
        (["play", whole, "--episodes", "many"], ['--episodes is "many"']),
        (["evaluate", whole, "--envs", 5000], ['--envs is "5000"; it must be a whole number of 1 to 1024']),
        (["evaluate", whole, "--epsilon", 1.5], ['--epsilon is "1.5"; it must be 0 to 1']),
        (["play", whole, "--greedy", "--epsilon", 0.5], ["--epsilon is 0.5 beside --greedy", "leave one of them out"]),
        (["evaluate", whole, "--weights", "worst"], ['--weights is "worst"; it must be best or last']),
        (["evaluate", whole, "--device", "gpu"], ["gpu", "cpu"]),
        (["evaluate", whole, "--seed", "-1"], ['--seed is "-1"']),
        (["evaluate", folder / "none", "--weights", "best", "--env", "CartPole-v1"],
         ["none has no best.safetensors, the weights of its best evaluation"]),
    ):
        refused = run(*words, status=2)
        assert all(word in refused.stderr for word in wanted) and not refused.stdout, (words, refused.stderr)


def what_cannot_be_shown_is_an_error(whole):
    """But not where its reader has ended, as head does."""
    for words in (["list"], ["evaluate", whole], ["play", whole, "--text"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            process = start(*words, stdout=full)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 2 and "what is shown cannot be written: " in err, (words, err)
        process = start(*words)
        process.stdout.close()
        assert process.wait(timeout=60) in (0, -signal.SIGPIPE) and process.stderr.read() == "", words


def seeds_run_side_by_side(folder):
    options = [word for word in pole(steps=2000, threads=1, out=folder / "pole") if word not in ("--seed", 7)]
    done = run(*options, "--seeds", "3-5")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"3 runs, at most \d+ at a time, with --threads 1", lines[0]) and len(lines) == 4, lines
    for seed in (3, 4, 5):
        out = folder / f"pole-{seed}"
        (evaluation,) = rows_of(out, "evaluations")
        assert f"--seed {seed}\n" in (out / "options.txt").read_text()
        mean = f"{evaluation['mean_return']:.7g}"
        assert f"seed {seed}: done, mean return {mean} of the evaluation after 2000 steps; {out}" in lines, lines
    run(*pole(steps=2000, threads=1, seed=4, out=folder / "alone-4"))
    assert (folder / "alone-4/learner.safetensors").read_bytes() == (folder / "pole-4/learner.safetensors").read_bytes()
    unread = start(*options[:-1], folder / "unread", "--seeds", "3-4")
    unread.stdout.close()
    err = unread.stderr.read()
    assert unread.wait(timeout=120) == 0 and (folder / "unread-4/learner.safetensors").exists(), (unread, err)
    again = run(*options, "--seeds", "5-6", status=2)  # one of them is there, and none begins
    assert f"{folder}/pole-5/options.txt is there already; --resume " in again.stderr and again.stdout == ""
    assert not (folder / "pole-6").exists()
    auto = run("--env", "CartPole-v1", "--steps", 400, "--prepopulation", 100, "--eval-episodes", 0, "--seeds", "1-3",
               "--out", folder / "auto").stderr
    assert len(auto.splitlines()) <= 1, auto  # where "auto" is the CPU it is said once
    assert run("--env", "CartPole-v1", "--device", DEVICE, "--steps", 500, "--prepopulation", 100, "--eval-episodes", 0,
               "--seeds", 9, "--quiet", cwd=folder).stdout == ""
    assert (folder / "runs/CartPole-v1-9/learner.safetensors").exists()
    one = run(*options, "--seeds", 8).stdout
    assert re.match(r"1 run, at most \d+ at a time, with --threads 1\nseed 8: done, ", one), one
    for words, wanted in ((["--seeds", "5-3"], '--seeds is "5-3"; it must be A-B'), (["--seeds", "x"], '"x"'),
                          (["--seeds", "1-2000"], "at most 1024"), (["--seeds", "1-2", "--seed", 3], "--seed is given"),
                          (["--seeds", "1-2", "--steps", 0], "--steps")):
        refused = run(*options[:-4], *words, status=2)
        assert wanted in refused.stderr, (words, refused.stderr)


def seeds_are_interrupted_together(folder):
    options = [word for word in pole(steps=10**9, threads=1, out=folder / "long") if word not in ("--seed", 7)]
    process = start(*options, "--seeds", "1-64")
    wait_for(folder / "long-1/checkpoint")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (process.returncode, out, err)
    begun = sorted(path.name for path in folder.glob("long-*"))
    told = re.findall(r"^seed \d+: interrupted.*; --resume (\S+)$", out, flags=re.M)
    assert err.count("stopping the runs; once more ends them at once") == 1, err
    assert "stopping after" not in err, err
    assert sorted(Path(name).name for name in told) == begun and len(begun) < 64, out
    assert (folder / "long-1/learner.safetensors").exists()


def seeds_end_with_a_parent_that_is_killed(folder):
    """They are interrupted, and can be resumed."""
    options = [word for word in pole(steps=10**9, threads=1, out=folder / "orphan") if word not in ("--seed", 7)]
    process = start(*options, "--seeds", "1")
    wait_for(folder / "orphan-1/checkpoint")
    process.kill()
    process.communicate(timeout=120)  # until the run has closed its output, too
    assert (folder / "orphan-1/learner.safetensors").exists()
    saved = re.search(r"^step (\d+)$", (folder / "orphan-1/checkpoint/position.txt").read_text(), flags=re.M)
    refused = run("--resume", folder / "orphan-1", "--steps", 1, status=2).stderr
    assert f"the run has taken {saved[1]} steps" in refused, refused  # nobody holds the folder any more


def commands_work(folder, whole):
    """Those that gpureplay-train has; tests/python/test_play.py has Python's."""
    run(*pole(out=whole, steps=6000))
    the_weights_of_the_best_evaluation_are_kept(whole)
    games_are_played_one_after_another(whole)
    an_interrupted_command_shows_what_it_has(whole)
    what_a_game_shows_is_drawn(folder)
    a_file_needs_its_game(folder, whole)
    (folder / "kinds").mkdir()
    runs_of_every_kind_are_evaluated(folder / "kinds")
    games_are_listed()
    games_of_a_plugin_are_listed(folder)
    what_cannot_be_shown_is_an_error(whole)
    commands_have_help_and_refuse_other_words(folder, whole)


def main():
    with new_folder() as folder:
        if len(PROGRAM) == 1:
            commands_work(folder, folder / "whole")
        (folder / "seeds").mkdir()
        seeds_run_side_by_side(folder / "seeds")
        seeds_are_interrupted_together(folder / "seeds")
        seeds_end_with_a_parent_that_is_killed(folder / "seeds")
    print("test_play: best weights, games that are played and evaluated, lists of games, and several seeds")


if __name__ == "__main__":
    main()
