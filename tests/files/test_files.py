# SPDX-License-Identifier: MIT
"""Files of every release load, with the contents that were recorded with them, and what was saved goes on. Files that
are saved today have all tensors and notes of those of the newest release here, with their types and shapes.

usage: test_files.py libgpureplay.so
       test_files.py libgpureplay.so --write      saves the files of this version in a new folder, before its release:
                                                  those of a release stay as they are
"""

import collections
import contextlib
import ctypes
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

FILES = Path(__file__).resolve().parent
ROOT = FILES.parents[1]
RECORD = "contents.json"

if importlib.util.find_spec("numpy") is None:
    print(f"skipped: {sys.executable} has no NumPy; tests/run.sh makes an environment that has it")
    sys.exit(77)
import numpy as np  # noqa: E402

os.environ["GPUREPLAY_LIBRARY"] = str(Path(sys.argv[1]).resolve())
sys.path.insert(0, str(ROOT / "src/python"))
import gpureplay  # noqa: E402
from gpureplay import (C51, DDPG, DQN, GA3C, QRDQN, SAC, TD3, ActorCritic, Apex, LaneBuffer, Policy,  # noqa: E402
                       ReplayBuffer, Run, _c_api, lib)

# What an object contains. A number or an array is compared exactly; Near, what follows from sums of floats in any
# order, to 5 digits.
Near = collections.namedtuple("Near", "values")


def check(function, *arguments):
    assert function(*arguments) == 0, ctypes.string_at(lib.gpur_last_error()).decode()


def exact(array):
    array = np.ascontiguousarray(array)
    return f"{array.dtype}{list(array.shape)} {zlib.crc32(array.tobytes()):08x}"


def near(values):
    return Near([float(f"{value:.7g}") for value in np.asarray(values, np.float64).ravel()])


def differences(name, was, now):
    if isinstance(was, dict) and isinstance(now, dict):
        return [line for key in was for line in differences(f"{name}.{key}", was[key], now.get(key))]
    is_near = all(isinstance(one, list) and all(isinstance(value, float) for value in one) for one in (was, now))
    if is_near and len(was) == len(now):
        same = np.allclose(now, was, rtol=1e-5, atol=1e-6)
    else:
        same = was == now
    return [] if same else [f"{name} was {was} and is {now}"]


def plain(found):
    """As JSON has it."""
    if isinstance(found, dict):
        return {name: plain(value) for name, value in found.items()}
    return list(found.values) if isinstance(found, Near) else found


# Replays. All numbers are small fractions of powers of two, which float32 adds without rounding.

OBS = ((3,), "float32")
FIELDS = {"obs": OBS, "action": "int32", "reward": "float32", "next_obs": OBS, "terminated": "bool",
          "truncated": "bool"}
ALL_TYPES = {**FIELDS, "half": ((2,), "float16"), "byte": "uint8", "long": "int64"}
BUILD = lib.gpur_build_info().decode()
DEVICE = gpureplay.Device("cpu", threads=1)


def numbers(field, first, count):
    grid = np.arange(first, first + count).reshape(-1, *(1 for _ in field.shape)) * 3
    grid = grid + np.arange(int(np.prod(field.shape))).reshape(field.shape) + sum(map(ord, field.name.split("_")[-1]))
    if field.name in ("action", "terminated", "truncated"):
        return (grid % {"action": 2, "terminated": 5, "truncated": 7}[field.name] == 0).astype(field.dtype)
    return (grid % 64 / 8 if field.dtype.kind == "f" else grid % 64).astype(field.dtype)


def add_steps(buffer, first, count):
    """Steps of all environments, whose episodes end together."""
    envs, is_same_step = buffer.num_envs, buffer._autoreset == "same_step"
    for step in range(first, first + count):
        values = {field.name: numbers(field, step * envs, envs)
                  for field in buffer.fields if field.name not in ("previous", "discount", "step_reward")}
        obs = buffer._spec.given[0]
        values["obs"], values["next_obs"] = (numbers(obs, at * envs, envs) for at in (step, step + 1))
        values["terminated"][:], values["truncated"][:] = step % 9 == 4, step % 11 == 7
        is_end = step % 9 == 4 or step % 11 == 7
        buffer.add(**values, final_obs=values["next_obs"] if is_same_step and is_end else None)


def rows_of(buffer):
    stats = buffer.stats
    ids = np.arange(stats.first_id, stats.first_id + stats.visible)
    batch = buffer.gather(ids)
    found = {field.name: exact(batch[field.name]) for field in buffer.fields}
    found |= {"first_id": stats.first_id, "visible": stats.visible, "appended": stats.appended,
              "sampled": stats.sampled}
    if buffer.config["prioritized"]:
        priorities = buffer.get_priorities(ids).astype(np.float64)
        found["priorities"] = near([priorities.sum(), priorities @ ids])
        found |= {"alpha": buffer.alpha, "beta": near(buffer.beta), "updates": buffer.priority_stats.updates}
    return found


def replay_contents(buffer):
    """Its rows, those that it draws, and its rows after further steps, which complete the open returns."""
    found = {"rows": rows_of(buffer), "drawn": exact(buffer.sample(16).id)}
    if buffer._spec.sequences:
        found["sequences"] = exact(buffer.sample_sequences(4, 3)["id"])
    add_steps(buffer, 24, 6)
    return {**found, "later": rows_of(buffer)}


def fill_replay(buffer):
    add_steps(buffer, 0, 24)
    buffer.sample(8)
    if buffer.config["prioritized"]:
        ids = np.arange(buffer.stats.first_id, buffer.stats.appended)[::2]
        buffer.update_priorities(ids, 2.0 ** (ids % 5))


def fill_eviction(buffer):
    columns = {field.name: numbers(field, 0, 40) for field in buffer.fields}
    buffer.extend(**{**columns, "priority": 2.0 ** np.arange(40) % 7})
    buffer.sample(8)


def eviction_contents(buffer):
    stats, batch = buffer.stats, buffer.sample(16)
    return {"appended": stats.appended, "evicted": stats.evicted, "visible": stats.visible, "drawn": exact(batch.id),
            **{field.name: exact(batch[field.name]) for field in buffer.fields}}


def lane_step(buffer, step):
    values = {field.name: numbers(field, step * buffer.num_lanes, buffer.num_lanes)
              for field in buffer.fields if field.name != "next_obs"}
    if buffer.config_stack > 1:  # of whole stacks, whose older frames are those of the steps before
        frames = [numbers(buffer.fields[0]._replace(shape=(4, 4)), at * buffer.num_lanes, buffer.num_lanes)
                  for at in (step - 1, step)]
        values["obs"] = np.stack(frames, axis=1)
        values["terminated"][:] = values["truncated"][:] = False
    return {**values, "final_obs": values["obs"] + values["obs"].dtype.type(1)}


def fill_lanes(buffer):
    for step in range(1, 25):
        buffer.add(**lane_step(buffer, step))
    buffer.sample(8)
    if buffer._is_prioritized:
        ids = np.arange(20, 30)
        buffer.update_priorities(ids, (2.0 ** (ids % 5)).astype(np.float32))


def lane_contents(buffer):
    def rows():
        newest = buffer.stats.steps * buffer.num_lanes
        ids = np.arange(max(0, newest - buffer.capacity), newest)
        return {name: exact(values) for name, values in buffer.gather(ids).items()} | {
            name: getattr(buffer.stats, name) for name in ("steps", "transitions", "draws", "finals", "broken_stacks")}
    found = {"rows": rows(), "drawn": exact(buffer.sample(16)["id"])}
    for step in range(25, 29):
        buffer.add(**lane_step(buffer, step))
    return {**found, "later": rows()}


def replay(**settings):
    fields = settings.pop("fields", FIELDS)
    return ReplayBuffer(settings.pop("capacity", 32), fields, device=DEVICE, seed=3, gamma=0.5,
                        **{"block_rows": 4, "max_batch": 64, **settings})


def lanes(fields, **settings):
    buffer = LaneBuffer(2, 16, fields, device=DEVICE, seed=3, gamma=0.5, max_batch=64, **settings)
    buffer.config_stack = settings.get("frame_stack", 1)
    return buffer


# Learners: their weights, and what two more train steps make of them.

NETWORK = {"trunk": [4], "seed": 4}
STEPS = {"batch_size": 8, "target_period": 3}


def learner_rows(**settings):
    buffer = replay(capacity=64, **settings)
    columns = {field.name: numbers(field, 0, 48) for field in buffer.fields if field.name != "previous"}
    if "priority" in columns:
        columns["priority"] = np.abs(columns["priority"]) + 1
    if buffer._spec.sequences:
        add_steps(buffer, 0, 48)
    else:
        buffer.extend(**columns)
    return buffer


def dqn(head="q", **settings):
    sequences = {"sequences": True, "num_envs": 2} if "cache_size" in settings else {}
    return DQN(learner_rows(**sequences), 2, **{**NETWORK, **STEPS, "head": head, "hidden": 4, **settings})


def distributional(learner, **settings):
    return learner(learner_rows(), 2, **NETWORK, **STEPS, **settings)


def conv_dqn():
    fields = {**FIELDS, "obs": ((2, 6, 6), "uint8"), "next_obs": ((2, 6, 6), "uint8")}
    return DQN(learner_rows(fields=fields), 2, head="dueling", hidden=4, seed=4, input_scale=1 / 64,
               trunk=[("conv", 2, 3, 2), 4], double_dqn=True, optimizer="rmsprop_tf", **STEPS)


def of_actions(learner=DDPG, critic=None, **settings):
    fields = {**FIELDS, "action": ((2,), "float32")}
    buffer = replay(capacity=64, fields=fields)
    columns = {field.name: numbers(field, 0, 48) for field in buffer.fields}
    buffer.extend(**{**columns, "action": columns["action"].astype(np.float32)})
    return learner(buffer, actor={"trunk": [4]}, critic={"trunk": [4], **(critic or {})}, seed=4, **STEPS, **settings)


def critic(**settings):
    return ActorCritic(OBS, 2, device=DEVICE, max_batch=8, **{**NETWORK, **settings})


def has_cache(agent):
    return isinstance(agent, DQN) and agent._config.returns.cache_size > 0


def train(agent, steps):
    if has_cache(agent):
        agent.refresh()
    agent.train(steps)
    agent.sync()


def train_critic(agent):
    obs = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
    return agent.train(obs, np.arange(8) % 2, np.arange(8, dtype=np.float32) / 4)


def fill_critic(agent):
    for _ in range(7):
        train_critic(agent)


def weights_of(agent):
    return {name: exact(value) for name, value in agent.weights.items()}


def learner_contents(agent):
    found = {"weights": weights_of(agent)}
    if isinstance(agent, ActorCritic):
        found["steps"] = agent.steps
        losses = [train_critic(agent) for _ in range(2)]
        found["losses"] = near([getattr(one, name) for one in losses for name in ("policy", "value", "entropy")])
    else:
        found["target"] = {} if has_cache(agent) else {
            name: exact(value) for name, value in agent.target_weights.items()}
        stats = agent.stats
        found |= {"steps": stats.steps, "target_copies": stats.target_copies}
        train(agent, 2)
        stats = agent.stats
        found["losses"] = near([stats.loss, stats.mean_loss] if isinstance(agent, DQN)
                               else [stats.critic_loss, stats.actor_loss])
    found["later"] = {name: near(value) for name, value in agent.weights.items()}
    return found


# Policies.


def policy(**settings):
    return Policy(OBS, 2, device=DEVICE, **{**NETWORK, "hidden": 4, **settings})


def policy_contents(one):
    obs = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
    found = {"version": one.version}
    try:
        found["q"] = near(one.q_values(obs))
    except gpureplay.GpureplayError:
        try:
            found["values"] = near(one.act_with_values(obs).values)
        except gpureplay.GpureplayError:
            found["actions"] = near(one.act_vectors(obs))
    return found


# Runs.

POLE = {"obs": ((4,), "float32"), "next_obs": ((4,), "float32")}
APEX = {**FIELDS, **POLE, "discount": "float32", "priority": "float32"}


def fast_dqn(**settings):
    cached = {"sequences": True} if "cache_size" in settings else {}
    agent = DQN(replay(capacity=48, fields={**FIELDS, **POLE}, **cached), 2,
                **{**NETWORK, "batch_size": 8, "target_period": 5, **settings})
    return Run(agent, "CartPole-v1", num_envs=2, prepopulation=32, target_period=20, train_period=4, eval_period=40,
               eval_episodes=1, seed=5)


def pole_rows():
    buffer = replay(capacity=48, fields={**FIELDS, **POLE})
    buffer.extend(**{field.name: numbers(field, 0, 48) for field in buffer.fields})
    return buffer


def demonstrated():
    return fast_dqn(demonstrations=pole_rows(), demonstration_ratio=0.25)


def apex_dqn():
    buffer = replay(capacity=96, fields=APEX, n_step=3, prioritized=True, min_size=32, block_rows=8, max_batch=96)
    agent = DQN(buffer, 2, **NETWORK, **STEPS)
    return Apex(agent, "CartPole-v1", actors=2, block_rows=8, eval_period=0, seed=5)


def apex_dpg():
    pendulum = {"obs": OBS, "next_obs": OBS, "action": ((1,), "float32")}
    buffer = replay(capacity=96, fields={**APEX, **pendulum}, n_step=3, prioritized=True, min_size=32, block_rows=8,
                    max_batch=96)
    agent = DDPG(buffer, actor={"trunk": [4]}, critic={"trunk": [4]}, seed=4, **STEPS)
    return Apex(agent, "Pendulum", actors=2, block_rows=8, eval_period=0, seed=5)


def ga3c():
    return GA3C(ActorCritic(((4,), "float32"), 2, device=DEVICE, max_batch=64, **NETWORK), "CartPole-v1", agents=2,
                eval_period=0, seed=5)


def fill_run(run):
    run.advance(120)
    if isinstance(run, Apex):
        run.advance(0, 10)
    if not isinstance(run, Run):
        run.evaluate(1)


def run_contents(run):
    stats = run.stats
    names = ("env_steps", "train_steps", "episodes", "evaluations", "evaluated_steps", "evaluated_return",
             "recent_return", "prepopulated", "learned", "rows", "inserted", "starts", "predictions", "trained_rows",
             "lag_sum", "agents", "predictors", "trainers")
    found = {name: getattr(stats, name) for name in names if hasattr(stats, name)}
    for name in ("evaluated_return", "recent_return"):  # as a text, since NaN is none
        found[name] = str(found[name])
    agent = run._agent
    found["weights"] = weights_of(agent)
    if not isinstance(agent, ActorCritic):
        found["replay"] = rows_of(agent._buffer)
    run.advance(100)
    if isinstance(run, Apex):
        run.advance(0, 10)
    found["goes on"] = run.stats.env_steps > stats.env_steps and run.stats.train_steps > stats.train_steps
    return found


# Whole trainings, whose folder goes on.

VECTORS = {"env": "Pendulum", "period": 20, "prepopulation": 32, "capacity": 48, "batch": 8, "checkpoint": 100,
           "eval_period": 100, "hidden": "4,4"}
TRAININGS = {
    "fast-dqn": {"preset": "fast-dqn-small-vectors", "num_envs": 2, "target_period": 20, "prepopulation": 32,
                 "capacity": 48, "batch": 8, "checkpoint": 100, "eval_period": 100,
                 "agent": {"trunk": [4], "hidden": 4}},
    "dqn-lambda": {"preset": "dqn-lambda-2019", "target_period": 20, "prepopulation": 48, "capacity": 64, "batch": 8,
                   "block_length": 8, "cache_size": 40, "checkpoint": 100, "eval_period": 100,
                   "agent": {"trunk": [4], "hidden": 4}},
    "offline-dqn": {"preset": "offline-dqn", "data": pole_rows, "batch": 8, "checkpoint": 100,
                    "agent": {"trunk": [4], "hidden": 4}},
    "apex-dqn": {"preset": "apex-dqn-small", "actors": 2, "prepopulation": 50, "capacity": 1000, "batch": 8,
                 "checkpoint": 100, "eval_period": 0, "agent": {"trunk": [4], "hidden": 4}},
    "apex-dpg": {"preset": "apex-dpg-small", "env": "Pendulum", "actors": 2, "prepopulation": 50, "capacity": 1000,
                 "batch": 8, "checkpoint": 100, "eval_period": 0,
                 "agent": {"actor": {"trunk": [4]}, "critic": {"trunk": [4]}}},
    "ga3c": {"preset": "ga3c-small", "agents": 2, "checkpoint": 100, "agent": {"trunk": [4]}},
    "td3": {"preset": "td3-small", **VECTORS},
    "sac": {"preset": "sac-small", **VECTORS},
    "qr-dqn": {"preset": "qr-dqn", "num_envs": 2, "target_period": 20, "prepopulation": 32, "capacity": 48, "batch": 8,
               "checkpoint": 100, "eval_period": 100, "agent": {"trunk": [4], "atoms": 3}},
}


class Training:
    """A training as an object that is saved to a folder."""

    def __init__(self, name):
        self.options = {"env": "CartPole-v1", "device": "cpu", "threads": 1, "seed": 6, "eval_episodes": 1,
                        "progress": False, **TRAININGS[name]}
        self.folder = self.result = None

    def save(self, folder):
        options = {**self.options, "out": folder, "steps": 100}
        if "data" in options:
            del options["threads"]  # which the buffer's device has
            with options.pop("data")() as data:
                gpureplay.train_offline(data, **options)
        else:
            gpureplay.train(**options)
        (folder / "learner.safetensors").unlink()  # it is in the checkpoint, too

    def load(self, folder):
        self.folder = folder

    def contents(self):
        first = read_folder(self.folder)
        best = play(self.folder)
        result = gpureplay.train(resume=self.folder, steps=200, progress=False)
        return {"best": {name: getattr(best, name) for name in ("version", "best_step", "best_return")}, **first,
                "keeps its episodes": read_folder(self.folder)["episodes"][:len(first["episodes"])]
                == first["episodes"], "goes on": result.stats.env_steps >= 200,
                "preset": result.config["options"]["preset"], "weights": list(weights_of(result.agent))}

    def close(self):
        pass


def read_folder(folder):
    episodes = (folder / "episodes.csv").read_text(encoding="utf-8").splitlines()
    position = (folder / "checkpoint/position.txt").read_text(encoding="utf-8").split()
    return {"episodes": episodes, "resumed at": int(position[1])}


def play(folder):
    """One game by the weights of the best evaluation, as gpureplay-train does it, which refuses what Python alone
    sets."""
    folder = copy_of(folder, folder.with_name(folder.name + "-played"))
    lines = (folder / "options.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "options.txt").write_text("".join(one for one in lines if not one.startswith("agent")), encoding="utf-8")
    config, result = _c_api.PlayConfig(), _c_api.PlayResult()
    path, options = os.fsencode(folder), (ctypes.c_char_p * 2)(b"device=cpu", None)
    check(lib.gpur_play_config_init, ctypes.addressof(config), ctypes.sizeof(config))
    config.path, config.options, config.best, config.episodes = path, ctypes.addressof(options), 1, 1
    check(lib.gpur_play, ctypes.addressof(config), ctypes.addressof(result))
    return result


# Blocks, which C and whoever carries them keep as bytes.


class Block:
    """A block that is packed of rows, and appended to a replay."""

    def __init__(self, compression=0, **settings):
        self.compression = compression
        self.buffer = replay(block_rows=16, **settings)
        self.bytes = b""

    def save(self, path):
        fields, rows = self.buffer.fields, 12
        columns = [numbers(field, 0, rows) for field in fields]
        addresses = (ctypes.c_void_p * len(fields))(*[column.ctypes.data for column in columns])
        given = _c_api.BlockInput()
        given.actor, given.incarnation, given.sequence, given.first_step, given.version = 2, 1, 0, 5, 9
        given.rows, given.fields, given.compression = rows, ctypes.addressof(addresses), self.compression
        if self.buffer.config["layout"] == "frames":
            frames = numbers(fields[0]._replace(shape=(4, 4)), 0, rows + 2)
            links = np.array([[[row, row + 1], [row + 1, row + 2]] for row in range(rows)], np.int32)
            given.frames, given.frame_data, given.links = len(frames), frames.ctypes.data, links.ctypes.data
        room, written = 1 << 16, ctypes.c_int64()
        image = ctypes.create_string_buffer(room)
        with self.format() as block_format:
            check(lib.gpur_block_pack, block_format, ctypes.addressof(given), ctypes.addressof(image), room,
                      ctypes.addressof(written))
        path.write_bytes(image.raw[:written.value])

    def load(self, path):
        self.bytes = path.read_bytes()

    @contextlib.contextmanager
    def format(self):
        handle = ctypes.c_void_p()
        check(lib.gpur_block_format_create, ctypes.addressof(self.buffer._spec.config), ctypes.addressof(handle))
        try:
            yield handle
        finally:
            lib.gpur_block_format_destroy(handle)

    def contents(self):
        info = _c_api.BlockInfo()
        writer = self.buffer.writer(1)
        check(lib.gpur_writer_append_block, writer._handle, self.bytes, len(self.bytes), ctypes.addressof(info))
        self.buffer.sample(1)
        return {"replay": rows_of(self.buffer),
                **{name: getattr(info, name) for name, _ in info._fields_ if name not in ("size", "bytes")}}

    def close(self):
        self.buffer.close()


# Every kind: how it is made, filled and read. Of those that are "timed" the counts in a file depend on how threads ran.
Kind = collections.namedtuple("Kind", "make fill contents is_timed", defaults=(False,))
IMAGES = {**FIELDS, "obs": ((4, 4), "uint8"), "next_obs": ((4, 4), "uint8")}
STACKS = {**FIELDS, "obs": ((2, 4, 4), "uint8"), "next_obs": ((2, 4, 4), "uint8")}
PRIORITY = {**FIELDS, "priority": "float32"}
LANES = {"obs": OBS, "action": "int32"}


def kinds():
    def of_replay(**settings):
        return Kind(lambda: replay(**settings), fill_replay, replay_contents)

    def of_learner(make):
        return Kind(make, lambda agent: train(agent, 7), learner_contents)

    def of_policy(**settings):
        return Kind(lambda: policy(**settings), None, policy_contents)

    found = {
        "replay-rows": of_replay(fields=ALL_TYPES, n_step=3, num_envs=2, reward_clip=4),
        "replay-same-step": of_replay(n_step=2, num_envs=2, autoreset="same_step"),
        "replay-sequences": of_replay(sequences=True, num_envs=2),
        "replay-steps": of_replay(n_step=3, num_envs=2, keep_steps=True),
        "replay-priorities": of_replay(num_envs=2, prioritized=True, alpha=0.5, beta=(0.5, 1.0, 8)),
        "replay-frames": of_replay(fields=IMAGES, frame_stack=2, observations="frames", n_step=2, num_envs=2,
                                   extra_frames=32),
        "replay-frames-priorities": of_replay(fields=IMAGES, frame_stack=2, observations="frames", stack_pad="repeat",
                                              stack_axis="last", prioritized=True, num_envs=2, extra_frames=32),
        "replay-eviction": Kind(lambda: replay(fields=PRIORITY, prioritized=True, eviction="priority"), fill_eviction,
                                eviction_contents),
        "lanes": Kind(lambda: lanes(LANES, n_step=3), fill_lanes, lane_contents),
        "lanes-priorities": Kind(lambda: lanes(LANES, prioritized=True, alpha=0.5), fill_lanes, lane_contents),
        "lanes-frames": Kind(lambda: lanes({"obs": ((2, 4, 4), "uint8"), "action": "int32"}, frame_stack=2), fill_lanes,
                             lane_contents),
        "learner-conv": of_learner(conv_dqn),
        "learner-lambda": of_learner(lambda: dqn(cache_size=32, block_length=8, estimator="peng", lambda_=0.5)),
        "learner-norm": of_learner(lambda: dqn(trunk=[(4, "relu", "layer_norm")], optimizer="adam", weight_decay=0.5)),
        "learner-qr-dqn": of_learner(lambda: distributional(QRDQN, atoms=3)),
        "learner-c51": of_learner(lambda: distributional(C51, atoms=3, v_min=-8, v_max=8)),
        "learner-ddpg": of_learner(of_actions),
        "learner-td3": of_learner(lambda: of_actions(TD3)),
        "learner-sac": of_learner(lambda: of_actions(SAC)),
        "learner-actor-critic": Kind(critic, fill_critic, learner_contents),
        "learner-actor-critic-dual": Kind(lambda: critic(dual_optimizer=True), fill_critic, learner_contents),
        "policy-q": of_policy(head="q"),
        "policy-dueling": of_policy(head="dueling"),
        "policy-softmax": of_policy(head="softmax_value"),
        "policy-tanh": of_policy(head="tanh_action"),
        "policy-squashed-gaussian": of_policy(head="squashed_gaussian"),
        "policy-quantiles": of_policy(head="quantiles", atoms=3),
        "run-fast-dqn": Kind(fast_dqn, fill_run, run_contents),
        "run-dqn-lambda": Kind(lambda: fast_dqn(cache_size=40, block_length=8, estimator="peng", lambda_=0.5),
                               fill_run, run_contents),
        "run-demonstrations": Kind(demonstrated, fill_run, run_contents),
        "run-apex-dqn": Kind(apex_dqn, fill_run, run_contents, True),
        "run-apex-dpg": Kind(apex_dpg, fill_run, run_contents, True),
        "run-ga3c": Kind(ga3c, fill_run, run_contents, True),
        "block": Kind(Block, None, Block.contents),
        "block-frames": Kind(lambda: Block(fields=STACKS, frame_stack=2, layout="frames"), None, Block.contents),
    }
    if "zstd: none" not in BUILD:
        found["block-compressed"] = Kind(lambda: Block(compression=3), None, Block.contents)
    for name in ("adam", "adam_tf", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind"):
        found[f"learner-{name.replace('_', '-')}"] = of_learner(lambda optimizer=name: dqn(optimizer=optimizer))
    for name in TRAININGS:
        found[f"training-{name}"] = Kind(lambda name=name: Training(name), None, Training.contents, True)
    return found


@contextlib.contextmanager
def made(kind):
    one = kind.make()
    try:
        yield one
    finally:
        one.close()


def save(kind, path):
    with made(kind) as one:
        if kind.fill is not None:
            kind.fill(one)
        one.save(path)


def contents(kind, path):
    with made(kind) as one:
        one.load(path)
        return plain(kind.contents(one))


# The form of files: what other programs find in them by name.


def form_of(path, is_timed):
    """{file: what it has by name}."""
    if path.is_dir():
        return {f"{one.relative_to(path)}: {name}": found for one in sorted(path.rglob("*")) if one.is_file()
                for name, found in form_of(one, is_timed).items()}
    if path.suffix == ".csv":
        return dict.fromkeys(path.read_text(encoding="utf-8").splitlines()[0].split(","), "column")
    if path.suffix == ".txt":
        return {line.split()[0]: "line" for line in path.read_text(encoding="utf-8").splitlines()}
    if path.suffix == ".json":
        return json_form(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".jsonl":
        return {f"{row['kind']}.{key}": "member" for line in path.read_text(encoding="utf-8").splitlines()
                for row in [json.loads(line)] for key in row}
    data = path.read_bytes()
    if data[8:9] != b"{":  # a block
        return {"bytes of the header": exact(np.frombuffer(data[:16], np.uint8))}
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    notes = header.pop("__metadata__")
    found = {f"note {name}": value if is_text(name, value) else "number" for name, value in notes.items()}
    return found | {f"tensor {name}": f"{one['dtype']} {one['shape'][1:] if is_timed else one['shape']}"
                    for name, one in header.items() if name != "checksums"} | {"tensor checksums": "I64"}


def is_text(name, value):
    return not name.startswith("gpureplay.checksum") and name != "gpureplay" and not re.fullmatch(
        r"(0x)?[-+.e0-9a-f]+|nan", value)


def json_form(value, name=""):
    if isinstance(value, dict) and name.count(".") < 3:
        return {key: kind for part in value for key, kind in json_form(value[part], f"{name}.{part}").items()}
    return {name: type(value).__name__ if isinstance(value, (dict, list, str)) else "number"}


# The record.


def copy_of(path, to):
    return Path(shutil.copytree(path, to) if path.is_dir() else shutil.copy(path, to))


def write(scratch):
    folder = FILES / gpureplay.__version__
    assert not folder.exists(), f"{folder} is there; files of a release are never made anew"
    folder.mkdir()
    record = {}
    for name, kind in kinds().items():
        save(kind, folder / name)
        record[name] = contents(kind, copy_of(folder / name, scratch / name))
    lines = [f"{json.dumps(name)}: {json.dumps(found, sort_keys=True)}" for name, found in sorted(record.items())]
    (folder / RECORD).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def compare(scratch):
    releases = sorted((path.parent for path in FILES.glob(f"*/{RECORD}")),
                      key=lambda path: [int(part) for part in path.name.split(".")])
    assert releases, "there are no files of any release"
    lines, count, here = [], 0, kinds()
    for release in releases:
        record = {name: was for name, was in json.loads((release / RECORD).read_text(encoding="utf-8")).items()
                  if name in here or "compressed" not in name}
        for name, was in record.items():
            label = f"{release.name}/{name}"
            try:
                found = contents(here[name], copy_of(release / name, scratch / f"{release.name}-{name}"))
                lines += differences(label, was, found)
            except (AssertionError, gpureplay.GpureplayError) as error:
                lines.append(f"{label} does not load: {error}")
            count += 1
    for name in record:  # of the newest release
        save(here[name], scratch / name)
        was, now = (form_of(folder / name, here[name].is_timed) for folder in (release, scratch))
        lines += differences(f"a saved {name}", was, now)
    assert not lines, "\n".join(lines)
    print(f"test_files: {count} files of {', '.join(release.name for release in releases)} load; those saved now have "
          "what theirs have")


def main():
    if "files: none" in BUILD:
        print("skipped: the library was built without cJSON or xxHash")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        (write if sys.argv[2:] == ["--write"] else compare)(Path(scratch))
    return 0


sys.exit(main())
