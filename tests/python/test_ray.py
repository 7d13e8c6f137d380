# SPDX-License-Identifier: MIT
"""Ape-X on a cluster of Ray of three nodes, all on this machine: a training, deaths of actors, of a node and of the
learner, blocks that are refused, callers that flood, and strangers without the token."""

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import gpureplay
import numpy as np
import pytest
from support import PACKAGE, needs_files

os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
                  RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_DEDUP_LOGS="0")
ray = pytest.importorskip("ray")
import gpureplay.ray as on_ray  # noqa: E402
from gpureplay import _c_api, _config, _envs, _schema  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = needs_files
PATIENCE = 300  # seconds for what takes a few: the machine may be busy
SMALL = {"preset": "apex-dqn-small", "device": "cpu", "threads": 1, "capacity": 2000, "prepopulation": 300,
         "samples_per_insert": 2.0, "progress": False, "agent": {"trunk": [16], "hidden": 16}}
NODE = {"object_store_memory": 100 * 2**20}
ON_HEAD = {"learner": {"num_cpus": 0, "resources": {"head": 1}}, "actor": {"num_cpus": 1}}

# An environment that fails. Nodes find it in the path that this process had when the cluster was begun.
MODULE = """
import os

import gymnasium

class Failing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}

    def step(self, action):
        raise KeyError("the motor is broken")

class Dying(Failing):
    def step(self, action):
        os.abort()

class Infinite(Failing):
    steps = 0

    def step(self, action):
        self.steps += 1
        bad = float("inf") if self.steps == 200 else 1.0
        return self.observation_space.high * bad, 1.0, self.steps % 10 == 0, False, {}

def make_env(lane):
    return Failing()

def make_dying_env(lane):
    return Dying()

def make_infinite_env(lane):
    return Infinite()
"""


@pytest.fixture(scope="module")
def cluster():
    """Three nodes: that of the learner, and two for actors."""
    place = tempfile.mkdtemp(prefix="gpr")
    os.makedirs("/tmp/ray", exist_ok=True)  # where ray.init writes the cluster's address, wherever temp_dir is
    with open(os.path.join(place, "some_motor.py"), "w", encoding="utf-8") as file:
        file.write(MODULE)
    python_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), place])
    made = Cluster()
    try:
        made.add_node(**NODE, num_cpus=0, resources={"head": 2}, include_dashboard=False, temp_dir=place)
        for _ in range(2):
            made.add_node(**NODE, num_cpus=2)
        ray.init(address=made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(place, ignore_errors=True)
        if python_path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = python_path


def apex(env="CartPole-v1", **options):
    return on_ray.ApeX(env, **{**SMALL, "actors": 2, "resources": ON_HEAD, **options})


def processes_of(kind):
    """The processes of living actors of this class, by their actor's number with Ray."""
    return {actor: info["Pid"] for actor, info in ray._private.state.actors().items()
            if info["ActorClassName"] == kind and info["State"] == "ALIVE" and info["Pid"]}


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing came for too long"
        time.sleep(0.1)


# Whole trainings.


def test_a_training_on_three_nodes(cluster, tmp_path):
    seen = []
    result = apex(on_stats=seen.append, out=tmp_path / "run", eval_episodes=2, steps=2000).train(3000)
    stats = result.stats
    assert stats.env_steps == stats.rows >= 3000 and stats.train_steps > 0
    # One may have done all before the other began. One more evaluates.
    assert 1 <= stats.actors <= 2 and stats.actors + 1 <= stats.starts <= 2 + 1
    assert stats.refused_blocks == stats.lost_blocks == stats.deaths == 0
    # A train step for 16 transitions: two blocks of 50 on their way are 6, and weights are broadcast every 10.
    assert 0 <= stats.weights_age < 20
    assert set(result.episodes["actor"]) <= {0, 1} and stats.episodes == len(result.episodes) > 0
    assert np.allclose(result.episodes["epsilon"], np.where(result.episodes["actor"] == 0, 0.4, 0.4**8), rtol=1e-4)
    assert result.evaluations["episodes"].tolist() == [2] and not stats.recent_return <= 1
    assert result.agent.act(np.zeros((3, 4), np.float32)).shape == (3,) and result.agent.version == stats.train_steps
    assert (tmp_path / "run/learner.safetensors").exists() and (tmp_path / "run/checkpoint/run.safetensors").exists()
    assert {name: seen[-1][name] for name in ("env_steps", "train_steps", "recent_return")} == {
        "env_steps": stats.env_steps, "train_steps": stats.train_steps, "recent_return": stats.recent_return}
    more = on_ray.ApeX(resume=tmp_path / "run", resources=ON_HEAD, progress=False, refill=True).train(4000)
    assert more.stats.env_steps >= 4000 and len(more.episodes) > len(result.episodes)
    assert not processes_of("Actor")


def test_continuous_actions(cluster):
    """Weights of two networks travel."""
    result = on_ray.ApeX("Pendulum", preset="apex-dpg-small", actors=1, resources=ON_HEAD, device="cpu", threads=1,
                         capacity=2000, prepopulation=200, samples_per_insert=2.0, eval_episodes=0,
                         progress=False).train(600)
    assert result.stats.env_steps >= 600 and result.stats.train_steps > 0 and result.stats.refused_blocks == 0
    assert result.agent.act_vectors(np.zeros((2, 3), np.float32)).shape == (2, 1)


def test_deaths_of_actors_of_a_node_and_of_the_learner(cluster, tmp_path):
    """All are killed by the number of their process, at whatever they are doing."""
    seen, ended, done = [], [], threading.Event()

    def train():
        try:
            ended.append(apex(on_stats=seen.append, out=tmp_path / "run", checkpoint=1000, eval_episodes=0, actors=3,
                              steps=10**7, on_event=lambda event: not done_file.exists()).train())
        except BaseException as error:
            ended.append(error)
        done.set()

    done_file = tmp_path / "done"
    thread = threading.Thread(target=train)
    thread.start()

    def goes_on():
        """Until transitions have come that were not there."""
        assert not done.is_set(), ended
        before = seen[-1]["rows"] if seen else 0
        looks = len(seen)
        wait_for(lambda: done.is_set() or (len(seen) > looks and seen[-1]["rows"] > before + 500))

    def kill(kind):
        """Also waits until another one is in its place, of which something has come."""
        actor, process = next(iter(processes_of(kind).items()))
        starts = seen[-1]["starts"]
        os.kill(process, signal.SIGKILL)
        wait_for(lambda: done.is_set() or processes_of(kind).get(actor, process) != process)
        wait_for(lambda: done.is_set() or kind == "Learner" or seen[-1]["starts"] > starts)

    try:
        wait_for(lambda: done.is_set() or (seen and seen[-1]["actors"] == 3))
        for _ in range(2):
            kill("Actor")
        assert seen[-1]["deaths"] == 2
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(**NODE, num_cpus=2)  # another one joins
        goes_on()
        wait_for(lambda: seen[-1]["actors"] == 3 and len(processes_of("Actor")) == 3)
        wait_for((tmp_path / "run/checkpoint").exists)
        steps = seen[-1]["train_steps"]
        kill("Learner")
        goes_on()
        assert seen[-1]["train_steps"] > 0
        wait_for(lambda: done.is_set() or seen[-1]["train_steps"] > steps)
    finally:
        done_file.touch()
        thread.join(PATIENCE)
    (result,) = ended
    assert not isinstance(result, BaseException), result
    # Actors that had no answer send their blocks again, which the checkpoint may have.
    assert result.stats.refused_blocks <= 3 * 8 and result.stats.lost_blocks == 0
    assert np.all(np.diff(result.episodes["step"]) >= 0)


def test_an_actor_that_is_killed_at_each_start_ends_no_training(cluster):
    """As soon as its process is there. All deaths are counted."""
    kills, victims, rows = [], [], []

    def look(stats):
        if stats["actors"] and stats["train_steps"] and not victims:
            victims.append(next(iter(processes_of("Actor"))))
        process = processes_of("Actor").get(victims[0]) if victims and len(kills) < 6 else None
        if process not in (None, *kills):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            kills.append(process)
        rows.append(stats["rows"])
        assert stats["deaths"] < 6, f"{stats['deaths']} deaths"

    with pytest.raises(AssertionError, match="6 deaths"):
        apex(on_stats=look, eval_episodes=0, steps=10**7).train()
    assert len(kills) == 6 and rows[-1] > rows[0]


def kill_all(kind):
    for process in processes_of(kind).values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_actors_that_are_not_restarted_end_the_training(cluster):
    resources = {**ON_HEAD, "actor": {"num_cpus": 1, "max_restarts": 0}}
    with pytest.raises(on_ray.ActorFailed, match="is gone for good, as all others are"):
        apex(resources=resources, eval_episodes=0, steps=10**7,
             on_stats=lambda stats: kill_all("Actor") if stats["actors"] == 2 else None).train()


def test_without_checkpoints_a_learner_begins_anew_and_what_on_stats_raises_ends_it(cluster, tmp_path):
    killed = []

    def look(stats):
        learners = set(processes_of("Learner").values())
        if stats["train_steps"] and not killed:
            killed.extend(learners)
            kill_all("Learner")
        elif stats["train_steps"] and learners and not learners & set(killed):
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        apex(on_stats=look, out=tmp_path / "run", checkpoint=0, eval_episodes=0, steps=10**7).train()
    assert (tmp_path / "run/learner.safetensors").exists() and (tmp_path / "run/episodes.csv").exists()


def test_an_environment_that_fails_again_and_again_ends_the_training(cluster):
    with pytest.raises(on_ray.ActorFailed, match=r"actor [01]: step 0: KeyError: 'the motor is broken' \(some_motor.py,"
                                                 r" line \d+\) \(for the 5th time in a row"):
        apex("some_motor:make_env", eval_episodes=0).train()


def test_an_environment_that_shows_infinity_ends_the_training(cluster):
    """At once, though something of its actor has come before."""
    with pytest.raises(on_ray.ActorFailed, match=r"^actor [01]: step 199: the observation is infinite; its numbers "
                                                 r"must be finite, or say check_nan=False$"):
        apex("some_motor:make_infinite_env", eval_episodes=0).train()
    result = apex("some_motor:make_infinite_env", eval_episodes=0, check_nan=False, prepopulation=1900,
                  steps=800).train()
    assert result.stats.deaths == 0 and result.stats.rows >= 700


def test_a_learner_that_has_diverged_ends_the_training(cluster):
    agent = {**SMALL["agent"], "learning_rate": 1e30, "clip_norm": 0}
    with pytest.raises(gpureplay.InvalidArgument, match=r"^the learner has diverged: after train step \d+ its numbers"):
        apex(agent=agent, eval_episodes=0, steps=10**7).train()


def test_an_environment_that_kills_its_process_ends_the_training(cluster):
    with pytest.raises(on_ray.ActorFailed, match=r"actor [01]: its process died \d+ times in a row before anything of "
                                                 "it was received, and so did those of all others"):
        apex("some_motor:make_dying_env", eval_episodes=0).train()
    wait_for(lambda: not processes_of("Actor") and not processes_of("Learner"))


def last_step(folder):
    """That of the last whole row of the run's rates; 0: there is none."""
    lines = (folder / "rates.csv").read_text().split("\n")[:-1] if (folder / "rates.csv").exists() else []
    return int(lines[-1].split(",")[lines[0].split(",").index("step")]) if len(lines) > 1 else 0


@pytest.mark.parametrize("checkpoint", [20, 10**6])
def test_a_signal_ends_the_program_after_a_checkpoint(cluster, tmp_path, checkpoint):
    """With one after every 20 steps mostly while it is saved."""
    program = [sys.executable, "-m", "gpureplay.train", "--engine", "ray", "--env", "CartPole-v1", "--preset",
               "apex-dqn-small", "--actors", "1", "--device", "cpu", "--capacity", "2000", "--prepopulation", "300",
               "--eval-episodes", "0", "--checkpoint", str(checkpoint), "--out", str(tmp_path / "run")]
    with subprocess.Popen(program, env={**os.environ, "RAY_ADDRESS": cluster.address}) as process:
        wait_for(lambda: process.poll() is not None or last_step(tmp_path / "run") > 100)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 130
    logs = Path(cluster.head_node.get_session_dir_path(), "logs").glob("worker-*.out")
    told = "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)
    step = int((tmp_path / "run/checkpoint/position.txt").read_text().split()[1])
    assert f"--engine ray --resume {tmp_path / 'run'} goes on after step {step}\n" in told
    assert (tmp_path / "run/learner.safetensors").exists() and (step > 100 or checkpoint == 20)


@pytest.mark.parametrize("changes, command, texts", [
    ({}, ["--env", "some_motor:make_env", "--actors", "1"], ["the motor is broken", "for the 5th time in a row"]),
    ({"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_NUM_REDIS_GET_RETRIES": "1"}, ["--env", "CartPole-v1"],
     ["Failed to connect to Ray cluster at ", "or it has another token than this program"]),
])
def test_a_program_that_fails_says_why(cluster, tmp_path, changes, command, texts):
    """Ray does not add that it tries again."""
    done = subprocess.run([sys.executable, "-m", "gpureplay.train", "--engine", "ray", "--preset", "apex-dqn-small",
                           "--device", "cpu", "--eval-episodes", "0", "--out", str(tmp_path / "run"), *command],
                          capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, "RAY_ADDRESS": cluster.address, **changes})
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 130) and all(text in told for text in texts), told
    assert "retries remaining" not in told and "Traceback" not in told, told


@pytest.mark.parametrize("cpus, actors, of_learner, share", [
    ([2], 4, 1, 0.25), ([2, 2], 5, 0, 0.66), ([1, 1], 4, 1, 0.25), ([8, 2], 20, 1, 0.43), ([1], 4, 1, 0),
    ([1], 4, 0.5, 0.12), ([0.5, 4], 3, 1, 1), ([2], 100, 1, 0.01), ([2], 101, 1, 0),
])
def test_what_actors_may_want_so_that_all_have_a_place(cpus, actors, of_learner, share):
    assert on_ray._share_of(cpus, actors, of_learner) == share


def test_too_many_actors_are_told_what_to_want_and_then_have_places(cluster, caplog):
    def look(stats):
        assert stats["starts"] < 5, "all have begun"

    advised = {**ON_HEAD, "actor": {"num_cpus": 0.66}}
    for resources, text, error in ((ON_HEAD, '5 actors want 5 CPUs, and 4 are there: resources={"actor": '
                                    '{"num_cpus": 0.66}} gives all of them a place', KeyError),
                                   (advised, "", AssertionError)):
        caplog.clear()
        with pytest.raises(error):
            apex(actors=5, resources=resources, eval_episodes=0, steps=10**7,
                 on_stats=look if error is AssertionError else lambda stats: {}[0]).train()
        assert text in caplog.text and ("want" in caplog.text) == bool(text)


@pytest.mark.parametrize("options, error, text", [
    ({"processes": True}, ValueError, "processes is True; on Ray it must be left out"),
    ({"preset": "fast-dqn"}, ValueError, "preset is 'fast-dqn'; it must be one of Ape-X"),
    ({"env": lambda lane: None}, TypeError, "for Ape-X it must be a name"),
    ({"resources": {"actors": {}}}, ValueError, "no other names than \"actor\" and \"learner\""),
    ({"resources": {"actor": {"num_cpu": 1}}}, ValueError, "num_cpu"),
    ({"out": "a", "resume": "b"}, ValueError, "out is 'a' and resume is 'b'"),
    ({"device": "cuda:1"}, ValueError, "device is 'cuda:1'; it must be auto, cpu or cuda"),
    ({"speed": 3}, TypeError, "'speed'"),
    ({"batch": 1500}, ValueError, "^capacity is 2000 and batch is 1500"),
])
def test_options_that_are_refused(cluster, options, error, text):
    with pytest.raises(error, match=text):
        apex(**options).train()
    wait_for(lambda: not processes_of("Learner"))


# Blocks.


def blocks_of(learner, settings, actor, incarnation, count):
    """Blocks as an actor makes them, by the learner's weights."""
    answers, blocks = [], []
    wait_for(lambda: answers.append(take(learner, actor)) or answers[-1])  # None until there are weights
    newest = ray.get(answers[-1][1][0])

    def take_block(_user, address, size):
        blocks.append(np.frombuffer(ctypes.string_at(address, size), np.uint8))
        return len(blocks) == count

    def copy_weights(_user, weights, size, is_new):
        ctypes.memmove(weights, newest.ctypes.data, size)
        ctypes.c_int32.from_address(is_new).value = 1
        return 0

    transport, kinds = _c_api.ApexTransport(), dict(_c_api.ApexTransport._fields_)
    transport.take_block = kinds["take_block"](take_block)
    transport.take_episode = kinds["take_episode"](lambda _user, _length, _value: 0)
    transport.copy_weights = kinds["copy_weights"](copy_weights)
    buffer = dict(settings["buffer"])
    fields = _schema.fields_of({name: tuple(field) for name, field in buffer.pop("fields").items()})
    spec = _config.make_spec(fields, buffer.pop("capacity"), None, buffer)
    network = _config.policy_config(None, settings["networks"][0]).network
    networks = _config.apex_networks([network])
    (common, own), envs = _config.apex_configs(settings["apex"]), _envs.open_envs(settings["env"])
    _config.set_envs(common, envs.type, None, envs.options)
    assert gpureplay.lib.gpur_apex_act(ctypes.addressof(common), ctypes.addressof(own), actor, incarnation,
                                       ctypes.addressof(spec.config), ctypes.addressof(networks), 0,
                                       ctypes.addressof(transport)) == _c_api.INTERRUPTED
    return blocks


@pytest.fixture
def learner(cluster):
    """A learner without actors."""
    bound = dict.fromkeys(gpureplay._train.train.__kwdefaults__ or {})
    bound.update(gpureplay._train.train.__kwdefaults__, env="CartPole-v1", **SMALL)
    bound.update(actors=2, eval_episodes=0, samples_per_insert=0.0)
    made = ray.remote(concurrency_groups={"train": 1, "take": 1}, num_cpus=0, resources={"head": 1},
                      max_pending_calls=8)(on_ray.Learner).remote(bound)
    made.train.options(concurrency_group="train").remote()
    yield made
    ray.kill(made)


def take(learner, actor, *blocks, episodes=(), call=None):
    taken = learner.take.options(concurrency_group="take").remote(actor, None, episodes, *blocks, call=call)
    return ray.get(taken, timeout=PATIENCE)


def test_bad_blocks_are_refused_and_counted(learner):
    settings = ray.get(learner.settings.remote())
    blocks = blocks_of(learner, settings, 0, 5, 8)
    damaged, foreign = blocks[2].copy(), {**settings, "buffer": {**settings["buffer"], "gamma": 0.5}}
    damaged[len(damaged) // 2] ^= 16
    take(learner, 0, blocks[0])
    before = ray.get(learner.stats.remote())
    bad = (damaged, blocks[2][:-1], blocks[0], np.zeros(0, np.uint8), np.arange(200, dtype=np.uint8),
           blocks_of(learner, foreign, 0, 5, 1)[0], blocks_of(learner, settings, 0, 4, 1)[0])
    for block in bad:
        take(learner, 0, block)
    after = ray.get(learner.stats.remote())
    assert after.refused_blocks == before.refused_blocks + len(bad) == 7
    assert (after.rows, after.blocks, after.lost_blocks, after.starts) == (50, 1, 0, 1)
    for block in (*blocks[1:3], blocks[4], blocks[7]):  # three are lost on the way
        take(learner, 0, block)
    take(learner, 1, *blocks_of(learner, settings, 1, 9, 3))
    stats = ray.get(learner.stats.remote())
    assert (stats.lost_blocks, stats.blocks, stats.rows, stats.refused_blocks) == (3, 8, 400, 7)
    assert (stats.actors, stats.starts, stats.deaths) == (2, 2, 0)
    for _ in range(2):  # Ray repeats a call when it does not know whether the first one was carried out
        take(learner, 1, episodes=[(20, 20.0)], call=(1, 1))
    assert ray.get(learner.stats.remote()).episodes == 1
    for episode, text in (((0, 1.0), "length is 0"), ((5, float("nan")), "episode_return is nan")):
        with pytest.raises(ValueError, match=text):
            take(learner, 1, episodes=[episode])
    with pytest.raises(TypeError):
        take(learner, 0, "no block")
    with pytest.raises(ValueError, match="actor is 2 and the run has 2 remote actors"):
        ray.get(learner.take.options(concurrency_group="take").remote(2, None, [(1, 1.0)]), timeout=PATIENCE)


@pytest.mark.parametrize("waits", [False, True])
def test_an_actor_of_a_run_with_a_limiter_goes_on_when_its_block_has_arrived(learner, waits):
    blocks = blocks_of(learner, ray.get(learner.settings.remote()), 0, 5, 3)
    link = on_ray._Link(learner, 0)
    link.waits = waits
    for i, block in enumerate(blocks):
        link.take_block(block.ctypes.data, block.size)
        assert (link._call is None) == waits and (not waits or link.arrived == i + 1)


@ray.remote(num_cpus=1)
def flood(learner, blocks):
    """Calls without waiting. Returns how many Ray accepts before it refuses one."""
    for count in range(1000):
        try:
            learner.take.options(concurrency_group="take").remote(0, None, [], *blocks)
        except ray.exceptions.PendingCallsLimitExceeded:
            return count
    return 1000


def test_who_floods_is_held_up_by_ray_and_others_go_on(learner):
    settings = ray.get(learner.settings.remote())
    blocks, others = blocks_of(learner, settings, 0, 5, 20), blocks_of(learner, settings, 1, 5, 3)
    floods = [flood.remote(learner, blocks) for _ in range(2)]
    for block in others:
        take(learner, 1, block)
    assert max(ray.get(floods, timeout=PATIENCE)) < 1000
    stats = ray.get(learner.stats.remote())
    assert stats.blocks >= 20 + 3 and stats.lost_blocks == 0


def test_who_has_no_token_is_refused(cluster):
    """The control store, by which everything begins; ray.init would try again for long."""
    program = f"""
from ray._raylet import GcsClient
print("inside", GcsClient(address={cluster.address!r}).internal_kv_keys(b"", None))
"""
    for change, is_inside in (({}, True), ({"RAY_AUTH_TOKEN": secrets.token_hex(32)}, False),
                              ({"RAY_AUTH_MODE": "disabled"}, False)):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE,
                              check=False, env={**os.environ, **change})
        assert (done.returncode == 0) == is_inside and ("inside" in done.stdout) == is_inside, done.stderr
        assert is_inside or "AuthenticationError" in done.stderr


# The examples of docs/distributed.md and of the module, as they are but for their sizes and places.


def run_example(code, **changes):
    for old, new in changes.items():
        assert old in code, old
        code = code.replace(old, new)
    names = {}
    exec(compile(code, "docs/distributed.md", "exec"), names)
    return names


def test_the_page_and_the_module_say_what_works(cluster, tmp_path, capsys):
    page = (PACKAGE.parents[1] / "docs/distributed.md").read_text(encoding="utf-8")
    out = repr(str(tmp_path / "run"))
    run_example(page.split("```python\n")[1].split("```")[0], **{
        "actors=64": "actors=2, progress=False", '"/shared/runs/breakout"': out,
        '"num_cpus": 4, "num_gpus": 1': '"num_cpus": 0, "resources": {"head": 1}', "10_000_000": "400"})
    rows, lost, agent = capsys.readouterr().out.split(maxsplit=2)
    assert int(rows) > 300 and lost == "0" and agent.startswith("<gpureplay.Policy")
    (line,) = [line for line in on_ray.__doc__.splitlines() if "result = " in line]
    names = run_example("import gpureplay.ray\n" + line.strip(), **{
        "actors=64": f"actors=2, progress=False, resources={ON_HEAD}", '"/shared/run"': repr(str(tmp_path / "two")),
        "10**7": "400"})
    assert names["result"].stats.rows > 300
