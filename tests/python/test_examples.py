# SPDX-License-Identifier: MIT
"""README's Python, help(), the programs of examples/python and the comparisons of bench/peers, run as a user would."""

import importlib.util
import inspect
import json
import os
import pydoc
import re
import signal
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import gpureplay
import numpy as np
import pytest
from gpureplay import _library
from gymnasium import spaces
from support import needs_files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "python"
# Starts a command as a terminal would: a shell's job in the background, which tests may be, ignores Ctrl-C.
HEEDING_CTRL_C = ("import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
                  "os.execv(sys.argv[1], sys.argv[1:])")


def environment(**more):
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, "GPUREPLAY_LIBRARY": _library.path, **more}


def needs(*modules):
    missing = [name for name in modules if not importlib.util.find_spec(name)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def example(name, *arguments, code=None, **more):
    """Runs it; `code` goes before it, in the same interpreter."""
    path, folder = str(FOLDER / name), str(FOLDER)
    start = [path] if code is None else ["-c", f"{code}; import runpy; sys.path.insert(0, {folder!r}); "
                                               f"runpy.run_path({path!r}, run_name='__main__')"]
    return subprocess.run([sys.executable, *start, *arguments], capture_output=True, text=True, timeout=1200,
                          env=environment(**more))


def test_bits_are_flipped_with_hindsight_alone(tmp_path):
    """Fifteen; with seed 1 all goals are reached after 100 rounds."""
    out = ("--bits", "15", "--out", str(tmp_path / "curve.png"))
    run = example("bit_flipping.py", "--rounds", "200", *out)
    assert run.returncode == 0, run.stderr
    assert re.search(r"(99|100)\.\d% of goals reached \nsolved", run.stdout)
    run = example("bit_flipping.py", "--rounds", "50", "--without", *out)
    assert run.returncode == 1 and ", 0.0% of goals reached \nnot solved" in run.stdout


@needs("gymnasium")
def test_cartpole_trains_shows_how_far_and_ends(tmp_path):
    run = example("cartpole.py", "--quick", "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    progress = re.findall(r"\[(#+) *\] ([\d,]+) of 4,096 steps, [\d.]+ s, mean return [\d.]+ of 475", run.stdout)
    assert progress == [("#" * 5 * quarter, f"{1024 * quarter:,}") for quarter in (1, 2, 3, 4)]
    returns = re.findall(r"mean return ([\d.]+)", run.stdout)
    assert len(returns) == 4 and float(returns[-1]) > 30  # a random agent's is 22; seed 1 had 100 and more
    assert run.stdout.splitlines()[-2] == "not solved within the limit"
    check_picture(tmp_path / "curve.png", run)


def check_picture(path, run):
    if importlib.util.find_spec("matplotlib"):
        assert path.read_bytes().startswith(b"\x89PNG") and run.stdout.splitlines()[-1] == f"learning curve: {path}"
    else:
        assert run.stdout.splitlines()[-1] == "no picture of the learning curve: pip install matplotlib"


@pytest.mark.parametrize("name", [pytest.param("cartpole.py", marks=needs("gymnasium")),
                                  pytest.param("torch_dqn.py", marks=needs("gymnasium", "torch")), "bare_ctypes.py",
                                  "bit_flipping.py"])
def test_ctrl_c_ends_an_example_without_a_traceback(tmp_path, name):
    """bare_ctypes.py, which uses the library alone, ends by the signal."""
    is_bare = name == "bare_ctypes.py"
    command = [sys.executable, str(FOLDER / name), *([] if is_bare else ["--out", str(tmp_path / "curve.png")])]
    run = subprocess.Popen([sys.executable, "-c", HEEDING_CTRL_C, *command], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=environment())
    try:
        first = "".join(run.stdout.read(1) for _ in range(30 if is_bare else 60))
        assert ("[" if is_bare else "steps") in first  # the progress line
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=600)
    finally:
        run.kill()
    assert (run.returncode == -signal.SIGINT and err == "") if is_bare else (
        run.returncode == 1 and "interrupted" in out and "Traceback" not in err), err


@needs("gymnasium", "torch")
def test_a_torch_agent_trains(tmp_path):
    run = example("torch_dqn.py", "--quick", "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    said = r"\[#+ +\] 2,048 of 3,000 steps, [\d.]+ s, last 20 episodes return \d\d"
    assert re.search(said, run.stdout), run.stdout
    check_picture(tmp_path / "curve.png", run)


@needs("torch")
@pytest.mark.parametrize("state", ["stored", "zero", "none"])
def test_a_recurrent_agent_trains(tmp_path, state):
    run = example("r2d2.py", "--quick", "--state", state, "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    said = r"\[#+\] 4,000 of 4,000 steps, [\d.]+ s, \d+\.\d% of greedy episodes turn the right way"
    assert re.search(said, run.stdout), run.stdout
    check_picture(tmp_path / "curve.png", run)


def test_bare_ctypes_learns_with_no_package_and_no_numpy():
    run = example("bare_ctypes.py", "--quick", code="import sys; sys.modules.update(gpureplay=None, numpy=None)")
    assert run.returncode == 0, run.stdout + run.stderr
    assert 0.5 < float(re.search(r"right (-?[\d.]+)", run.stdout)[1]) < 1.2
    rewards = re.search(r"rewards of 32 sampled transitions: (.*)", run.stdout)[1].split()
    assert len(rewards) == 32 and set(rewards) == {"0", "1"}


@pytest.mark.parametrize("name, module", [("cartpole.py", "gymnasium"), ("torch_dqn.py", "torch"),
                                          ("r2d2.py", "torch"), ("jax_ddpg.py", "jax"),
                                          pytest.param("torch_td3.py", "torch", marks=needs("jax"))])
@needs("gymnasium")
def test_a_missing_module_is_named_with_the_command(name, module):
    run = example(name, code=f"import sys; sys.modules[{module!r}] = None")
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert f"pip install {module}" in run.stderr


def test_bare_ctypes_says_how_to_name_the_library():
    run = example("bare_ctypes.py", GPUREPLAY_LIBRARY="nowhere.so")
    assert run.returncode == 1 and "set GPUREPLAY_LIBRARY to the path of libgpureplay.so" in run.stderr
    assert "Traceback" not in run.stderr


@needs("gymnasium")
@pytest.mark.parametrize("name", ["dqn_cartpole", pytest.param("own_network", marks=needs("torch")),
                                  pytest.param("atari_stacks", marks=needs("ale_py"))])
def test_a_notebook_shows_what_is_in_its_file(name):
    """Its cells in order, as a program. Numbers may differ, and how many evaluations there were."""
    document = json.loads((ROOT / f"examples/notebooks/{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, env=environment())
    assert run.returncode == 0, run.stderr
    shown = "".join("".join(output["text"]) for cell in cells for output in cell["outputs"] if "text" in output)

    def lines(text):
        return list(dict.fromkeys(re.sub(r" *[\d,.]+", " N", line) for line in text.splitlines()))

    assert lines(run.stdout) == lines(shown)
    returns = [int(number) for number in re.findall(r"return (\d+)", run.stdout)]
    assert max(returns, default=500) > 100  # a random agent's is 22


# The Python programs of README.md and docs/python.md, run as they are.


def blocks_of(path):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(encoding="utf-8"), re.M | re.S)


README, GUIDE = blocks_of("README.md"), blocks_of("docs/python.md")


def names_of(block):
    names = {}
    exec(compile(block, "a document", "exec"), names)
    return names


def test_the_learner_trains():
    pytest.importorskip("gymnasium")
    names = names_of(README[0])
    assert len(names["batch"]) == 256 and names["agent"].stats.steps_enqueued == 1600


def test_the_replay_alone_prints_what_is_said(capsys):
    names = names_of(GUIDE[0])
    assert capsys.readouterr().out == ("500 False True (32, 84, 84, 4)\n"
                                       + re.search(r"print\(error\)  # (.*)", GUIDE[0])[1] + "\n")
    assert (names["buffer"].gather(names["ids"]).action == names["old"].action).all()


def has_jax():
    return Path(_library.path).with_name("libgpureplay_jax.so").is_file() and bool(importlib.util.find_spec("jax"))


needs_jax = pytest.mark.skipif(not has_jax(), reason="gpureplay.jax was not built, or JAX is not installed")


@needs_jax
@needs("gymnax")
def test_a_training_in_one_scan_of_jax(tmp_path):
    run = example("jax_ddpg.py", "--quick", "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    chance, *returns = map(float, re.findall(r"steps, [\d.]+ s, mean return (-\d+), of a random player", run.stdout))
    assert len(returns) == 6 and max(returns) > chance / 2  # seeds 1 to 5: -148 to -205 at the end; by chance -1200
    check_picture(tmp_path / "curve.png", run)


@needs("torch", "mujoco_playground")
@pytest.mark.parametrize("learner", ["torch", "built-in"])
def test_a_training_on_mujoco_playground(tmp_path, learner):
    run = example("torch_td3.py", "--quick", "--learner", learner, "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    assert re.search(r"\[#{20}\] 12,800 of 12,800 steps, [\d.]+ s, mean return \d+, of a random player \d+", run.stdout)
    assert re.search(r"\b400 train steps of 256 on <gpureplay.LaneBuffer of 64 lanes x 1000 steps on cpu>", run.stdout)
    check_picture(tmp_path / "curve.png", run)


@needs_jax
def test_the_page_of_simulators_runs_in_jax():
    import jax

    with jax.enable_x64(False):  # which other tests have set
        names = names_of(next(block for block in blocks_of("docs/simulators.md") if "gpureplay.jax" in block))
    assert names["targets"].shape == (1000,) and names["buffer"].stats.steps == 1000


@needs_files
def test_the_page_of_simulators_runs(tmp_path):
    blocks = blocks_of("docs/simulators.md")
    code = blocks[0] + next(block for block in blocks if ".save(" in block)
    run = subprocess.run([sys.executable, "-c", code + "print(target.shape, (batch['id'] >= 0).all())"],
                         capture_output=True, text=True, timeout=100, env=environment(), cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "(256,) True\n"), run.stderr


def test_what_is_stored_is_changed_as_the_guide_says(capsys):
    names = names_of(GUIDE[1])
    assert len(capsys.readouterr().out.splitlines()) == 8 and len(names["buffer"]) == 0


def test_sequences_have_the_shapes_that_are_said():
    pytest.importorskip("gymnasium")
    batch = names_of(GUIDE[4])["batch"]
    assert batch.obs.shape == (32, 80, 4) and batch.is_first.shape == (32, 80) and batch.mask.all()


def test_sequences_of_recurrent_agents_are_as_the_guide_says():
    names = names_of(GUIDE[5])
    batch, buffer = names["batch"], names["buffer"]
    steps = batch.obs[:, 0, 0]
    assert batch.mask.all() and set(steps) <= {0, 8, 16, 24, 32, 34} and (batch.is_first[:, 0] == (steps == 0)).all()
    assert (buffer.gather(batch.id[0]).state == 1).all() and np.count_nonzero(buffer.get_priorities(range(1000))) == 120


def test_goals_are_replaced_as_the_guide_says():
    names = names_of(GUIDE[6])
    assert names["agent"].stats.steps_enqueued == 100 and 0.7 < names["batch"].relabeled.mean() < 0.9


def test_continuous_actions_are_trained_on():
    pytest.importorskip("gymnasium")
    names = names_of(GUIDE[7])
    assert len(names["buffer"]) == 1500 and names["agent"].stats.steps_enqueued == 1000


def test_demonstrations_are_a_part_of_each_batch():
    pytest.importorskip("gymnasium")
    assert names_of(GUIDE[8])["agent"].config["demonstration_ratio"] == 0.25


def test_a_policy_acts_beside_a_learner(capsys):
    pytest.importorskip("gymnasium")
    names = names_of(GUIDE[9])
    assert capsys.readouterr().out == "0 True\n" and names["actions"].shape == (8,)


def test_a_training_in_one_call():
    assert names_of(GUIDE[10])["result"].evaluations["step"].tolist() == [20_000]


def test_a_training_in_environments_of_ones_own(capsys):
    pytest.importorskip("gymnasium")
    names = names_of(GUIDE[11])
    assert names["result"].episodes["length"].max() <= 200 and capsys.readouterr().out.endswith(" True\n")


def test_only_allowed_actions_are_learned_from():
    pytest.importorskip("gymnasium")
    names = names_of(GUIDE[13])
    assert len(names["buffer"]) == 100 and names["agent"].stats.steps_enqueued == 10


@needs("pettingzoo", "pygame")
def test_self_play_beats_random_moves():
    run = example("self_play.py", "--games", "2000", "--against", "200")
    assert run.returncode == 0, run.stderr
    assert float(re.search(r"([\d.]+)% not lost", run.stdout)[1]) > 75, run.stdout  # of random play about 57


@needs("torch", "stable_baselines3")
def test_a_buffer_in_an_agent_of_stable_baselines3():
    buffer = names_of(GUIDE[12])["model"].replay_buffer
    assert type(buffer) is gpureplay.sb3.ReplayBuffer and buffer.n_steps == 3 and buffer.size() > 900


@needs("gymnasium", "ale_py", "cv2")
def test_a_training_in_a_game_of_atari(tmp_path):
    block, _ = blocks_of("docs/training.md")
    short = ('steps=40, num_envs=2, prepopulation=20, capacity=100, target_period=20, eval_episodes=0, '
             'agent={"trunk": [("conv", 4, 8, 4), 16]}')
    run = subprocess.run([sys.executable, "-c", block.replace('"runs/pong"', f'"runs/pong", {short}')],
                         capture_output=True, text=True, timeout=1200, env=environment(), cwd=tmp_path)
    assert run.returncode == 0 and (tmp_path / "runs/pong/learner.safetensors").exists(), run.stderr


def test_events_go_to_other_tools(tmp_path, monkeypatch):
    """To one with the functions of wandb that the page calls."""
    _, block = blocks_of("docs/training.md")
    logged = []
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda project: None, log=logged.append))
    short = ("steps=800, prepopulation=100, target_period=80, eval_period=0, eval_episodes=1, device='cpu', "
             "progress=False")
    exec(block.replace('"runs/pole"', f"{str(tmp_path / 'run')!r}, {short}"), {})
    assert {"episode/return", "evaluation/return", "step"} == {name for row in logged for name in row}


def test_every_block_of_a_page_is_one_that_is_run():
    """GUIDE[3] by test_torchrl.py, those of ape-x.md by test_apex.py, that of dqn-lambda.md by test_train.py, and the
    first of distributed.md by test_ray.py. Its second, which needs Ray Tune, is run by hand. Those of simulators.md are
    run above and by test_lanes.py, those of environments.md by test_envs.py, and that of data.md by test_data.py."""
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    count = {page: len(blocks_of(page)) for page in pages if blocks_of(page)}
    assert count == {"README.md": 1, "docs/python.md": 14, "docs/training.md": 2, "docs/distributed.md": 2,
                     "docs/ape-x.md": 3, "docs/dqn-lambda.md": 1, "docs/simulators.md": 5, "docs/environments.md": 2,
                     "docs/data.md": 1}


def test_frames_by_priority():
    pytest.importorskip("gymnasium")
    names = names_of(GUIDE[2])
    assert names["batch"].obs.shape == (32, 4, 4) and names["buffer"].stats.frames_stored < 450
    assert names["buffer"].priority_stats.updates == 32


# What help() shows.


def page(thing):
    return pydoc.render_doc(thing, renderer=pydoc.plaintext)


def test_help_of_the_package_is_a_page():
    text = page(gpureplay)
    begin = text[:text.index("PACKAGE CONTENTS")]
    assert "buffer.add(" in begin and "agent.train(" in begin and "buffer.sample(" in begin
    for name in ("ReplayBuffer", "DQN", "Policy", "Writer", "Device", "preset", "show_config", "file_info", "sb3"):
        assert name in begin, name


def test_the_example_in_it_runs():
    pytest.importorskip("gymnasium")
    text = inspect.getdoc(gpureplay)
    example = inspect.cleandoc("    " + text[text.index("import gymnasium"):text.index("A network of your own")])
    assert "range(10_000)" in example
    names = {}
    exec(example.replace("10_000", "50"), names)
    assert len(names["buffer"]) >= 300 and names["agent"].stats.steps_enqueued > 0


def of_docstring(text, given, **changes):
    """Runs the blocks of code in it, with these words changed, and returns their names. A block stands behind an empty
    line; lists of names, which are no code, do so, too."""
    found = re.findall(r"(?<=\n\n)(?:    .*\n+)+", f"{text}\n")
    blocks = [block for block in found if re.search(r"\w\(|import", block)]
    code = textwrap.dedent("".join(blocks))
    for old, new in changes.items():
        assert old in code, old
        code = code.replace(old, new)
    names = {"gpureplay": gpureplay, **given}
    exec(compile(code, "a docstring", "exec"), names)
    return names


def test_the_examples_of_learners_run(tmp_path):
    obs, box = np.zeros((5, 4), np.float32), spaces.Box(-1, 1, (4,))
    learner = of_docstring(inspect.getdoc(gpureplay.ActorCritic), {
        "env": types.SimpleNamespace(observation_space=box), "obs": obs, "returns": np.ones(5)})["learner"]
    assert learner.steps == 1
    with gpureplay.ReplayBuffer(500, box, box, device="cpu", seed=1) as buffer:
        rows = {name: np.zeros((300, 4), np.float32) for name in ("obs", "action", "next_obs")}
        buffer.extend(**rows, reward=np.zeros(300), terminated=np.zeros(300, bool),
                      truncated=np.zeros(300, bool))
        assert of_docstring(inspect.getdoc(gpureplay.DDPG), {"buffer": buffer, "obs": obs})["learner"].stats.steps == 10
    run = of_docstring(inspect.getdoc(gpureplay.GA3C), {}, **{"100_000": "400", "(30)": "(2)", "=16": "=2"})["run"]
    assert run.closed
    names = of_docstring(inspect.getdoc(gpureplay.train), {"obs": np.zeros((10, 10, 4), np.uint8)},
                         **{"300_000": "300, eval_episodes=0, progress=False", '"runs/breakout"': repr(str(tmp_path))})
    assert names["action"].shape == (1,)
    assert of_docstring(inspect.getdoc(gpureplay.preset), {})


@needs("torch", "stable_baselines3")
def test_the_examples_of_sb3_run():
    import gpureplay.sb3
    import torch

    text = re.sub(r"    from cleanrl_utils.*\n", "", inspect.getdoc(gpureplay.sb3))  # a module that is not here
    names = of_docstring(text, {})
    assert names["model"].replay_buffer.n_steps == 3
    box, two = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
    buffer = gpureplay.sb3.PrioritizedReplayBuffer(200, box, two, device="cpu")
    for step in range(150):
        buffer.add(np.zeros((1, 4)), np.ones((1, 4)), np.zeros(1, int), np.zeros(1), np.zeros(1), [{}])
    value = torch.zeros(128, 1)
    of_docstring(inspect.getdoc(gpureplay.sb3.PrioritizedReplayBuffer),
                 {"rb": buffer, "target": value + 1, "value": value, "torch": torch})
    assert buffer.priority_stats.updates > 50


def test_all_names_are_there_once_and_documented():
    assert sorted(gpureplay.__all__) == sorted(set(gpureplay.__all__))
    for name in gpureplay.__all__:
        thing = getattr(gpureplay, name)
        assert inspect.getdoc(thing) and not name.startswith("_"), name
    public = {name for name, thing in vars(gpureplay).items()
              if not name.startswith("_") and not inspect.ismodule(thing) and name != "lib"}
    assert public == set(gpureplay.__all__)


# One short run of each comparison with other libraries, without the others: it ends well and reports times.


@pytest.mark.parametrize("command", ["peers.py --kinds uniform,prioritized", "steps/steps.py", "actor_steps.py",
                                     "envs.py"])
def test_a_comparison_reports_times(tmp_path, command):
    path = tmp_path / "report.json"
    script, *options = command.split()
    words = [sys.executable, str(ROOT / "bench/peers" / script), "--quick", "--only", "gpureplay", "--rounds", "6",
             "--json", str(path), *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src/python")})
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(path.read_text())
    assert not report["interrupted"] and report["cases"]
    assert all(case["variants"][0]["seconds"] > 0 for case in report["cases"])


# What the comparison of learning decides.


@pytest.fixture
def experiments(monkeypatch):
    for folder in ("bench/experiments", "bench/peers", "examples/python"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("experiments")


def runs_of(systems, seeds, spread):
    """Returns 100 above a random player's, and as far to both sides of it as `spread`, by seed."""
    return [{"system": system, "seed": seed, "random": 0.0, "evaluated": 100 + spread * (-1) ** seed,
             "seconds": 1.0} for system in systems for seed in range(1, seeds + 1)]


def test_seeds_are_added_while_an_interval_is_too_wide(experiments):
    systems = ("gpureplay", "a", "b")
    three, two = (experiments.EXPERIMENTS["lanes-jax"]._replace(systems=dict.fromkeys(names))
                  for names in (systems, systems[:2]))
    is_enough = experiments.harness.is_enough
    assert not is_enough(three, runs_of(systems, 4, 1.0))
    assert is_enough(three, runs_of(systems, 6, 8.0))  # to either side 2.571 x 8.76 / 6^0.5 x 2^0.5
    wide = runs_of(systems[:2], 6, 8.0) + runs_of(systems[2:], 6, 14.0)
    assert not is_enough(three, wide) and is_enough(two, wide)


PUBLISHED = {  # and how many of its criteria hold and fail
    "fast-dqn": ("cpu-amd-epyc/learning", 9, 3), "switches": ("cpu-intel-xeon/switches", 4, 2),
    "dqn-lambda": ("cpu-amd-epyc/dqn_lambda", 2, 0), "estimators": ("cpu-intel-xeon/estimators", 20, 0),
    "ape-x": ("cpu-amd-epyc/ape_x", 4, 5), "ape-x-rates": ("cpu-intel-xeon/ape_x_rates", 0, 0),
    "ape-x-age": ("cpu-intel-xeon/ape_x_age", 0, 0), "ray-kills": ("cpu-amd-epyc/ray_kills", 1, 0),
    "apex-dpg": ("cpu-amd-epyc/control_pendulum", 3, 3), "cartpole": ("cpu-amd-epyc/control_cartpole", 0, 0),
    "cheetah": ("cpu-amd-epyc/control_cheetah", 0, 2), "eviction": ("cpu-amd-epyc/control_eviction", 1, 3),
    "ga3c": ("cpu-amd-epyc/learning_ga3c", 8, 4), "ga3c-cartpole": ("cpu-intel-xeon/ga3c_cartpole", 0, 4),
    "defaults": ("cpu-intel-xeon/defaults", 0, 0), "lanes-torch": ("cpu-intel-xeon/learning_lanes_torch", 1, 0),
    "lanes-jax": ("cpu-intel-xeon/learning_lanes_jax", 2, 0), "lanes-learners": ("cpu-amd-epyc/lanes_learners", 1, 0),
    "bit-flipping": ("cpu-amd-epyc/bit_flipping", 1, 0), "memory": ("cpu-amd-epyc/memory", 2, 0),
    "demonstrations": ("cpu-amd-epyc/demonstrations", 0, 0),
    "sac-pendulum": ("cpu-amd-epyc/sac_pendulum", 2, 0), "td3-pendulum": ("cpu-amd-epyc/td3_pendulum", 2, 0),
    "sac-cartpole": ("cpu-amd-epyc/sac_cartpole", 0, 0), "qr-dqn": ("cpu-amd-epyc/qr_dqn", 2, 0)}
UNFINISHED = {"sac-cheetah", "td3-cartpole", "td3-cheetah"}  # nothing is published of these


def test_what_was_learned_is_committed_and_gives_its_table(capsys, experiments):
    assert PUBLISHED.keys() | UNFINISHED == experiments.EXPERIMENTS.keys()
    for name, (file, holds, fails) in PUBLISHED.items():
        given = types.SimpleNamespace(file=ROOT / f"bench/results/{file}.json")
        experiments.harness.table(experiments.EXPERIMENTS[name], given)
        shown = capsys.readouterr().out
        assert (shown.count("| holds |"), shown.count("| fails |")) == (holds, fails), name


SMALL_EXPERIMENT = """
import sys
sys.path.insert(0, {folder!r})
from harness import Experiment, main
from trainings import by

options = "--preset fast-dqn-small --prepopulation 100 --target-period 40 --num-envs 2"
settings = {{"steps": 400, "last_steps": 200, "eval_episodes": {{"CartPole-v1": 1}}}}
main({{"small": Experiment(("CartPole-v1",), {{"a": by(options), "b": by(options + " --act target --concurrent 0")}},
                         (1, 2), settings)}}, "")
"""


@needs_files
def test_an_experiment_is_run_once_and_gives_a_file_and_a_table(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(SMALL_EXPERIMENT.format(folder=str(ROOT / "bench/experiments")))

    def call(*words):
        done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=False,
                              cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "src/python")})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ours = ("--train", f"{sys.executable} -m gpureplay.train")
    assert len(call("run", "small", *ours).splitlines()) == 4
    (tmp_path / "build/experiments/small/b-CartPole-v1-2.json").unlink()
    assert call("run", "small", *ours).startswith("b, CartPole-v1, seed 2: ")  # the others are there
    call("collect", "small", "before.json")
    (tmp_path / "build/experiments/small/b-CartPole-v1-2.json").unlink()
    assert call("run", "small", *ours, "--systems", "b", "--done", "before.json") == ""
    call("collect", "small", "small.json")
    document = json.loads((tmp_path / "small.json").read_text())
    assert [(one["system"], one["seed"]) for one in document["runs"]] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert document["commit"] and len(document["runs"][0]["curve"]) == 60
    assert "| CartPole-v1 | a minus b | the evaluations |" in call("table", "small", "small.json")


@needs("torch", "mujoco_playground")
def test_the_ring_of_the_comparison_has_the_same_transitions(experiments):
    import torch

    torch.manual_seed(1)
    example = importlib.import_module("torch_td3")
    ours = example.lane_buffer(types.SimpleNamespace(num_obs=2, num_actions=1), 1)
    ring = importlib.import_module("lane_replays").Ring(types.SimpleNamespace(num_obs=2, num_actions=1))
    obs, draw = torch.rand(64, 2), torch.Generator().manual_seed(1)
    for _ in range(30):
        terminated, truncated = (torch.rand(64, generator=draw) < share for share in (0.1, 0.1))
        truncated &= ~terminated
        final_obs = torch.rand(64, 2)
        step = {"obs": obs, "action": torch.rand(64, 1), "reward": torch.rand(64), "terminated": terminated,
                "truncated": truncated, "final_obs": final_obs}
        ours.add(**step), ring.add(**step)
        obs = torch.where((terminated | truncated)[:, None], torch.rand(64, 2), final_obs)
    rows = []
    for batch in (ours.sample(25600), ring.sample(25600)):
        batch["next_obs"] = batch["next_obs"] * (batch["discount"] > 0)[:, None]
        columns = [batch[name].reshape(25600, -1) for name in ("obs", "action", "reward", "discount", "next_obs")]
        rows.append(set(map(tuple, torch.cat(columns, 1).tolist())))
    # The ring draws the newest step, too, whose next observation ours does not know yet where no episode ended.
    assert len(rows[0]) > 29 * 64 and rows[0] < rows[1] and len(rows[1] - rows[0]) <= 64
