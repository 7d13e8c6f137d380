# SPDX-License-Identifier: MIT
"""Around a run, in Python: games that are played by its weights, as gpureplay-train plays them, videos, and runs that
are compared."""

import importlib
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _scores, compare, play
from support import PACKAGE, compile_plugin, needs_files

pytestmark = needs_files
TRAIN = os.environ.get("GPUREPLAY_TRAIN", "")
in_c = pytest.mark.skipif(not TRAIN, reason="GPUREPLAY_TRAIN does not name gpureplay-train")

FRAMES = (Path(__file__).resolve().parents[1] / "env/frames.c").read_text(encoding="utf-8")
FEW = ["--device", "cpu", "--threads", "1", "--prepopulation", "200", "--steps", "400", "--target-period", "200",
       "--eval-period", "200", "--eval-episodes", "2", "--checkpoint", "0", "--quiet"]


def train(folder, *options):
    subprocess.run([TRAIN, *map(str, options), *FEW, "--out", folder], check=True, timeout=120)
    return folder


def games_in_c(folder, *options):
    shown = subprocess.run([TRAIN, "play", folder, *options], check=True, timeout=120, capture_output=True, text=True)
    return [(float(score), int(length)) for score, length in
            re.findall(r"^game \d+: return (\S+), (\d+) steps$", shown.stdout, flags=re.M)]


def module(name, *arguments, wanted=0, cwd=None):
    paths = {"PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-m", f"gpureplay.{name}", *map(str, arguments)], capture_output=True,
                          text=True, timeout=120, check=False, env={**os.environ, **paths}, cwd=cwd)
    assert done.returncode == wanted, done.stderr
    return done


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A run in frames, which are stacked."""
    folder = tmp_path_factory.mktemp("frames")
    return train(folder / "run", "--env", compile_plugin(folder, FRAMES), "--env-options", "lives", "--preset",
                 "fast-dqn-small")


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("pole") / "run", "--env", "CartPole-v1", "--seed", "3")


@in_c
@pytest.mark.parametrize("weights", ["last", "best"])
def test_both_programs_play_the_same_games(frames, weights):
    games = list(play.play(frames, episodes=3, weights=weights, greedy=True))
    assert [tuple(game) for game in games] == games_in_c(frames, "--episodes", "3", "--greedy", "--weights", weights)
    assert games[0].length >= 20 and games[0].score > 0


@in_c
def test_the_module_plays(pole):
    shown = module("play", pole, "--episodes", 3).stdout
    assert shown == module("play", pole, "--episodes", 3, "--seed", 3).stdout  # the run's
    scores = [float(score) for score in re.findall(r"^game \d: return (\d+), \1 steps$", shown, flags=re.M)]
    assert len(scores) == 3 and f"mean return {np.mean(scores):.7g} of 3 games" in shown
    assert shown == module("play", pole, "--episodes", 3).stdout
    random = [[game.score for game in play.play(pole, episodes=60, epsilon=1.0, seed=seed)] for seed in (1, 2)]
    assert random[0] != random[1]
    assert all(16 < mean < 30 for mean in np.mean(random, axis=1))  # of random play the mean is 22
    in_gymnasium = list(play.play(pole, episodes=2, env="gymnasium:CartPole-v1"))
    assert all(game.score == game.length for game in in_gymnasium)
    for words, wanted in ((["none"], "there is no none; it must be the folder of a run, or a learner's file"),
                          ([pole, "--episodes", 0], "--episodes is 0; it must be 1 to 1"),
                          ([pole, "--env", "Nothing-v9"], "Nothing-v9"), ([pole, "--weights", "worst"], "worst"),
                          ([pole, "--episodes", "x"], "argument --episodes: it is 'x'; it must be a whole number"),
                          ([pole, "--epsilon", 2], "--epsilon is 2.0; it must be 0 to 1"),
                          ([pole, "--greedy", "--epsilon", 0.5], "--epsilon is 0.5 beside --greedy, which is"),
                          ([pole, "--envs", 2], "unrecognized arguments: --envs"),
                          ([pole / "learner.safetensors"], "--env is missing and "),
                          ([pole, "--episode", 2], "unrecognized arguments: --episode")):
        assert wanted in module("play", *words, wanted=2).stderr


@in_c
@pytest.mark.parametrize("weights", ["last", "best"])
def test_both_programs_evaluate_and_say_whose_weights(pole, weights):
    """Of the same games, with the same interval."""
    ours, theirs = (subprocess.run([*program, "evaluate", pole, "--greedy", "--episodes", "4", "--env", "CartPole-v1",
                                    "--env-options", "max_steps=5", "--weights", weights], check=True, timeout=120,
                                   capture_output=True, text=True,
                                   env={**os.environ, "PYTHONPATH": str(PACKAGE)}).stdout
                    for program in ([sys.executable, "-m", "gpureplay"], [TRAIN]))
    best = r"of the best evaluation, \d\S* after \d+ steps, and " if weights == "best" else ""
    result = "mean return 5 of 4 games, standard deviation 0, 95% interval 5 to 5, 5 steps a game"
    assert ours == theirs and re.fullmatch(rf"the weights {best}of train step \d+\n{result}\n", ours), ours


@in_c
def test_the_interval_of_an_evaluation(pole):
    shown = module("train", "evaluate", pole, "--episodes", 3).stdout
    mean, deviation, low, high = map(float, re.search(
        r"^mean return (\S+) of 3 games, standard deviation (\S+), 95% interval (\S+) to (\S+), "
        r"\S+ steps a game\n", shown, re.M).groups())
    half = 4.303 * deviation * math.sqrt(3 / 2) / math.sqrt(3)
    assert math.isclose(mean - low, half, rel_tol=1e-3) and math.isclose(high - mean, half, rel_tol=1e-3)
    alone = module("train", "evaluate", pole, "--episodes", 1, "--threads", 1).stdout
    assert re.search(r"^mean return \S+ of 1 game, standard deviation 0, \S+ steps a game\n", alone, re.M), alone
    for envs in (0, 1025):
        assert f"--envs is {envs}; it must be 1 to 1024" in module(
            "train", "evaluate", pole, "--envs", envs, wanted=2).stderr


@in_c
def test_many_environments_play_at_once(pole):
    """As many games as wanted, whose mean is that of one environment; with the best action always they end alike."""
    together, alone = (sorted(play.play(pole, episodes=60, envs=envs, epsilon=1.0)) for envs in (7, 1))
    assert len(together) == len(alone) == 60 and together != alone
    assert all(16 < np.mean([game.score for game in games]) < 30 for games in (together, alone))
    assert len(list(play.play(pole, episodes=2, envs=5))) == 2


@in_c
def test_an_interrupted_command_shows_what_it_has(pole):
    process = subprocess.Popen([sys.executable, "-m", "gpureplay", "play", pole, "--episodes", "1e9"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = first + process.stdout.read(), process.stderr.read()
    count = len(re.findall("^game ", out, flags=re.M))
    assert process.wait(timeout=60) == 130 and f" of {count} game" in out and "Traceback" not in err, (out, err)


@in_c
def test_a_file_needs_its_game(pole, tmp_path):
    file = tmp_path / "best.safetensors"
    file.write_bytes((pole / "best.safetensors").read_bytes())
    assert "--env is missing and " in module("train", "evaluate", file, wanted=2).stderr
    given = ("--env", "CartPole-v1", "--episodes", 4, "--greedy", "--seed", 1)
    of_file = module("train", "evaluate", file, *given).stdout
    of_run = module("train", "evaluate", pole, "--weights", "best", *given).stdout
    assert of_file.splitlines()[-1] == of_run.splitlines()[-1]


@in_c
@pytest.mark.parametrize("kind", ["pole", "frames"])
def test_both_programs_draw_what_a_game_shows(kind, request):
    """With the same letters and numbers."""
    folder = request.getfixturevalue(kind)
    words = ("play", folder, "--greedy", "--episodes", "1", "--text")
    ours = module(words[0], *words[1:]).stdout.splitlines()
    theirs = subprocess.run([TRAIN, *words], check=True, timeout=120, capture_output=True, text=True).stdout
    if kind == "frames":  # in which nothing is random
        assert theirs.splitlines() == ours
    numbers = [line for line in ours if re.fullmatch(r"(-?[\d.e-]+ ){3}-?[\d.e-]+", line)]
    assert kind == "frames" or f"{len(numbers)} steps" in ours[-3]


@in_c
@pytest.mark.parametrize("typed, said", [
    (("gpureplay",), "python -m gpureplay"), (("gpureplay.train",), "python -m gpureplay.train"),
    (("gpureplay", "play"), "python -m gpureplay play"), (("gpureplay.play",), "python -m gpureplay.play"),
    (("gpureplay.train", "evaluate"), "python -m gpureplay.train evaluate"),
    (("gpureplay", "compare"), "python -m gpureplay compare")])
def test_messages_have_the_name_that_was_typed(typed, said):
    done = {words: subprocess.run([sys.executable, "-m", *typed, *words], capture_output=True, text=True, check=False,
                                  timeout=120, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
            for words in (("--help",), ("no-such-thing",))}
    assert done["--help",].stdout.startswith(f"usage: {said} "), done
    if typed[-1].rpartition(".")[2] in ("play", "evaluate"):
        assert re.search(r"--seed N +of everything random; the run's\n", done["--help",].stdout), done
    assert done["no-such-thing",].stderr.splitlines()[-1].startswith(f"{said}: "), done


def test_a_run_in_an_object_is_played_in_an_environment_with_a_name(tmp_path):
    (tmp_path / "walks.py").write_text("""
import gymnasium
def make_env(lane):
    return gymnasium.make("CartPole-v1", max_episode_steps=9)
""")
    folder = tmp_path / "run"
    gpureplay.train(lambda lane: gymnasium.make("CartPole-v1"), device="cpu", threads=1, steps=400, prepopulation=200,
                    eval_episodes=0, checkpoint=0, progress=False, out=folder)
    told = module("play", folder, wanted=2).stderr
    assert "had an environment without a name" in told and "--env must give the name of one like it: module:mak" in told
    given = [folder, "--env", "walks:make_env", "--episodes", 1]
    assert " steps\n" in module("play", *given, cwd=tmp_path).stdout
    if importlib.util.find_spec("moviepy") is not None:
        told = module("play", *given, "--video", tmp_path / "videos", wanted=2, cwd=tmp_path).stderr
        assert f"--video is {tmp_path / 'videos'}, for which walks:make_env is made with render_mode=\"rgb_arr" in told


@in_c
def test_a_video_needs_pictures(pole, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: True)
    config = {"options": {"env": compile_plugin(tmp_path, FRAMES.replace("{12, 12}", "{144}"))}}
    with pytest.raises(ValueError, match="--video is v, for which .* is made with render_mode=.*are no picture"):
        play._make(config, None, None, "v")


@in_c
def test_the_best_weights_act_as_the_environment_takes_it(pole):
    with gpureplay.Policy.open(pole / "best.safetensors", device="cpu") as policy:
        assert policy.act(np.zeros((2, 4), np.float32)).shape == (2,)
        assert policy.version in (50, 100)  # the train steps before one of the two evaluations


@in_c
@pytest.mark.skipif(importlib.util.find_spec("moviepy") is None, reason="needs moviepy")
def test_a_video_of_each_game(pole, tmp_path):
    module("play", pole, "--episodes", 2, "--video", tmp_path / "videos")
    assert len(list((tmp_path / "videos").glob("*.mp4"))) == 2


@in_c
def test_a_video_needs_moviepy(pole, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "moviepy" else find(name))
    with pytest.raises(ModuleNotFoundError, match="`pip install moviepy`"):
        list(play.play(pole, video=str(tmp_path)))


def test_continuous_and_probable_actions_are_played(tmp_path):
    few = {"device": "cpu", "threads": 1, "steps": 1000, "eval_episodes": 1, "checkpoint": 0, "progress": False}
    for preset, env, more in (("apex-dpg-small", "Pendulum", {"actors": 1, "prepopulation": 500, "eval_period": 0}),
                              ("a2c-small", "CartPole-v1", {"agents": 4})):
        gpureplay.train(env, preset=preset, out=tmp_path / preset, **few, **more)
        for greedy in (False, True):
            games = list(play.play(tmp_path / preset, episodes=2, greedy=greedy, device="cpu"))
            assert len(games) == 2 and all(game.length == 200 or env != "Pendulum" for game in games)


SHOWS = """
import gymnasium
import numpy as np
from gymnasium import spaces

STATE = spaces.Discrete(13)
KINDS = {"Discrete": (spaces.Discrete(13, start=2), lambda t: 2 + 5 * t % 13),
         "Tuple": (spaces.Tuple([STATE, spaces.Discrete(2)]), lambda t: (5 * t % 13, t % 2)),
         "Dict": (spaces.Dict(a=STATE, b=spaces.MultiBinary(2)), lambda t: {"a": 5 * t % 13, "b": [1, 0]}),
         "number": (spaces.Box(0, 1, ()), lambda t: np.float32(5 * t % 13 % 2))}

class Shows(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, kind):
        self.observation_space, self.shown = KINDS[kind]

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.shown(0), {}

    def step(self, action):
        reward = float(action == 5 * self.t % 13 % 2)
        self.t += 1
        return self.shown(self.t), reward, self.t == 20, False, {}

def make_env(lane, kind):
    return Shows(kind)
"""


@pytest.mark.parametrize("kind", ["Discrete", "Tuple", "Dict", "number"])
def test_observations_of_other_spaces_are_played_as_they_were_trained(kind, tmp_path, monkeypatch):
    (tmp_path / "shows.py").write_text(SHOWS)
    monkeypatch.syspath_prepend(tmp_path)
    folder, few = tmp_path / "run", {"device": "cpu", "threads": 1, "progress": False, "checkpoint": 0}
    gpureplay.train("shows:make_env", out=folder, env_options={"kind": kind}, steps=4000, prepopulation=1000,
                    target_period=200, eval_episodes=0, **few)
    env = importlib.import_module("shows").make_env(0, kind)
    obs, wanted = env.reset()[0], 0.0
    with gpureplay.Policy.open(folder, device="cpu") as policy:
        for _ in range(20):
            obs, reward, *_ = env.step(int(policy.act(obs)[0]))
            wanted += reward
    assert wanted > 15
    assert list(play.play(folder, episodes=3, greedy=True, device="cpu", envs=2)) == [(wanted, 20)] * 3
    shown = module("play", folder, "--text", "--episodes", 1, "--greedy", cwd=tmp_path).stdout
    assert f"game 1: return {wanted:.7g}, 20 steps\n" in shown and len(shown.splitlines()) == 23


@in_c
def test_a_game_of_other_observations_is_refused(pole, tmp_path):
    refused = module("train", "evaluate", pole, "--env", "MinAtar/Breakout", wanted=2).stderr
    assert "MinAtar/Breakout shows observations of shape (10, 10, 4), and the network reads (4,)" in refused
    run = train(tmp_path / "run", "apex-dpg-small", "--env", "Pendulum", "--actors", "1")
    assert "epsilon is 0.1 and the network computes action vectors" in module("play", run, "--epsilon", 0.1,
                                                                             wanted=2).stderr


# Comparing.


def made_run(folder, evaluations, *, env="MinAtar/Breakout", preset="fast-dqn-small", seed=1, **options):
    """The files of a run that compare reads. evaluations: {step: mean return}."""
    folder.mkdir(parents=True)
    config = {"environment": {"name": env}, "options": {"env": env, "preset": preset, "seed": seed, **options},
              "run": {"seed": seed, **options}}
    (folder / "config.json").write_text(json.dumps(config))
    rows = "".join(f"{step},30,900,{score},1\n" for step, score in evaluations.items())
    (folder / "evaluations.csv").write_text("step,episodes,length,mean_return,return_deviation\n" + rows)
    names = ("seconds", "step")
    (folder / "rates.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    return folder


def test_runs_are_compared_at_equal_steps(tmp_path):
    for seed, score in ((1, 10.0), (2, 12.0), (3, 17.0)):
        made_run(tmp_path / f"a-{seed}", {100: 1, 200: score, 300: 99}, seed=seed, batch=32)
        made_run(tmp_path / f"b-{seed}", {100: 2, 200: 2 * score}, seed=seed, batch=64)
    made_run(tmp_path / "c", {100: 5.0, 250: 6.0}, preset="a2c-small")
    made_run(tmp_path / "d", {50: 7.0}, env="Pendulum", preset="apex-dpg-small")
    rows = compare.rows_of(compare.read_groups(sorted(tmp_path.iterdir())))
    assert [(row.env, row.label, row.runs, row.step, row.mean) for row in rows] == [
        ("MinAtar/Breakout", "fast-dqn-small batch=64", 3, 200, 26.0),
        ("MinAtar/Breakout", "fast-dqn-small batch=32", 3, 200, 13.0),
        ("MinAtar/Breakout", "a2c-small", 1, 200, 5.0), ("Pendulum", "apex-dpg-small", 1, 50, 7.0)]
    assert math.isclose(rows[1].half, 4.303 * np.std([10, 12, 17], ddof=1) / math.sqrt(3), rel_tol=1e-6)
    assert math.isnan(rows[2].half) and all(math.isnan(row.percent) for row in rows)
    shown = module("compare", *sorted(tmp_path.iterdir()), "--out", tmp_path / "picture.png")
    row = r"^MinAtar/Breakout +fast-dqn-small batch=32 +3 +200 +13 +\+- 8\.957$"
    assert re.search(row, shown.stdout, flags=re.M), shown
    assert "human" not in shown.stdout
    assert (tmp_path / "picture.png").exists() or "pip install matplotlib" in shown.stderr
    (tmp_path / "picture.png").write_text("")  # as `compare runs/*` finds it the next time
    again = module("compare", *sorted(tmp_path.iterdir()), "--out", tmp_path / "picture.png")
    assert again.stdout == shown.stdout
    assert "same seed" not in shown.stderr
    runs = [tmp_path / "a-2", made_run(tmp_path / "again", {100: 1, 200: 12}, seed=2, batch=32), tmp_path / "a-3"]
    assert f"{runs[0]}, {runs[1]}: these runs have the same seed and settings, and count as 2 runs; leave all" in (
        module("compare", *runs, "--out", tmp_path / "picture.png").stderr)
    made_run(tmp_path / "late", {900: 1.0})
    late = module("compare", tmp_path / "a-1", tmp_path / "late", wanted=2)
    assert not late.stdout and "late has its first evaluation after 900 steps, and " in late.stderr
    assert f"{tmp_path / 'a-1'} its last one after 300; leave one of the two out" in late.stderr
    made_run(tmp_path / "empty", {})
    told = module("compare", tmp_path / "empty", *sorted(tmp_path.glob("a-*")), "--out", tmp_path / "picture.png")
    assert re.search(r"^MinAtar/Breakout +fast-dqn-small +3 +300", told.stdout, flags=re.M), told.stdout
    assert f"{tmp_path / 'empty'}: no evaluation yet, and not compared\n" in told.stderr
    assert f"{tmp_path / 'empty'}: no evaluation yet; a run" in module("compare", tmp_path / "empty", wanted=2).stderr
    assert f"{tmp_path} is no folder of a run: it has no config.json" in module("compare", tmp_path, wanted=2).stderr


def test_runs_in_environments_of_one_name_are_told_apart(tmp_path):
    made_run(tmp_path / "a", {100: 1.0}, env="CartPole-v1")
    made_run(tmp_path / "b", {100: 2.0}, env="CartPole-v1")
    config = json.loads((tmp_path / "b/config.json").read_text())
    config["environment"]["max_steps"], config["options"]["env"] = 500, "gymnasium:CartPole-v1"
    (tmp_path / "b/config.json").write_text(json.dumps(config))
    assert [row.label for row in compare.rows_of(compare.read_groups([tmp_path / "a", tmp_path / "b"]))] == [
        "fast-dqn-small env=gymnasium:CartPole-v1", "fast-dqn-small env=CartPole-v1"]


def test_tensorboard_takes_the_folders_of_a_pattern(tmp_path):
    pytest.importorskip("tensorboard")
    run = made_run(tmp_path / "run", {100: 1.5})
    (run / "episodes.csv").write_text("step,lane,length,return\n")
    (tmp_path / "compare.png").write_text("")
    shown = module("tensorboard", *sorted(tmp_path.iterdir()))
    assert shown.stdout == f"{run / 'tensorboard'}\n"
    refused = module("tensorboard", tmp_path, wanted=2).stderr
    assert f"{tmp_path} is no folder of a run: it has no config.json" in refused


def test_atari_games_are_compared_with_humans(tmp_path):
    """The mean of a human is 100%, that of random play 0%."""
    for name, env, score in (("1", "Pong", 14.6), ("2", "ALE/Breakout-v5", 1.7),
                             ("3", "BeamRiderNoFrameskip-v4", 16926.5)):
        made_run(tmp_path / name, {100: score}, env=env, preset="fast-dqn")
    rows = compare.rows_of(compare.read_groups(sorted(tmp_path.iterdir())))
    assert {row.env: round(row.percent, 6) for row in rows} == {"Pong": 100, "ALE/Breakout-v5": 0,
                                                               "BeamRiderNoFrameskip-v4": 100}
    assert re.search(r"^median of 3 games +fast-dqn +100$", compare.table_of(rows), flags=re.M)
    assert len(_scores._SCORES) == 57 and math.isnan(_scores.human_normalized("MinAtar/Breakout", 1.0))
    for name in ("Ms_Pacman", "ms_pacman", "MsPacman", "ALE/MsPacman-v5"):
        assert _scores.human_normalized(name, 6951.6) == 100


@in_c
def test_what_cannot_be_shown_is_said_in_a_line(pole, tmp_path):
    """A reader that has ended, as head does, wants no more."""
    paths = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    for name, *words in (("play", pole), ("train", "evaluate", pole), ("compare", pole, "--out", tmp_path / "p.png")):
        command = [sys.executable, "-m", f"gpureplay.{name}", *words]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
                                  env=paths)
        assert done.returncode == 2 and "No space left on device" in done.stderr, done
        assert "Traceback" not in done.stderr and "Warning" not in done.stderr, done
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
                              env=paths)
        os.close(write)
        assert done.returncode == 0 and "rror" not in done.stderr and "pipe" not in done.stderr, done


@in_c
def test_weights_of_a_best_evaluation_must_be_there(pole, tmp_path):
    for name in ("config.json", "options.txt", "learner.safetensors"):
        (tmp_path / name).write_bytes((pole / name).read_bytes())
    refused = module("play", tmp_path, "--weights", "best", wanted=2).stderr
    assert f"{tmp_path} has no best.safetensors, the weights of its best evaluation, which a run keeps" in refused


@in_c
def test_real_runs_are_compared(pole, frames):
    shown = module("compare", pole, frames, "--out", pole / "compare.png").stdout
    assert re.search(r"^CartPole-v1 +fast-dqn-small-vectors +1 +400 ", shown, flags=re.M), shown
    assert re.search(r"^Frames +fast-dqn-small +1 +400 ", shown, flags=re.M), shown


def test_a_picture_for_each_environment(tmp_path):
    pytest.importorskip("matplotlib")
    for seed in (1, 2):
        made_run(tmp_path / f"a-{seed}", {100: 1, 200: 3 + seed}, seed=seed)
        made_run(tmp_path / f"b-{seed}", {100: 1, 200: 3}, env="Pendulum", seed=seed)
    compare.draw(compare.read_groups(sorted(tmp_path.iterdir())), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_an_environment_of_gymnasium_is_made_with_the_options_of_the_run():
    config = {"options": {"env": "gymnasium:CartPole-v1", "env-options": "max_episode_steps=7"}}
    env = play._make(config, None, None, None)
    assert isinstance(env, gymnasium.Env) and env.spec.max_episode_steps == 7
    assert play._make(config, "CartPole-v1", None, None).name == "CartPole-v1"


def test_events_follow_a_run(tmp_path):
    """A look adds what the run has written since the one before, and nothing twice."""
    pytest.importorskip("tensorboard")
    from gpureplay import tensorboard
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = made_run(tmp_path / "run", {100: 1.5, 200: 1.5})
    (run / "episodes.csv").write_text("step,lane,length,return\n7,0,3,2\n7,1,3,2\n")  # equal ones count twice
    followed = tensorboard._Events(run, None)
    followed.go_on()
    with open(run / "evaluations.csv", "a") as file:
        file.write("300,30,900,2.5,1\n")
    followed.go_on()
    followed.close()
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("evaluation/mean_return")] == [
        (100, 1.5), (200, 1.5), (300, 2.5)]
    assert len(events.Scalars("episode/return")) == 2
