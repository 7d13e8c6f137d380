# SPDX-License-Identifier: MIT
"""The library's messages, in the words of Python."""

import re

import gpureplay
import numpy as np
import pytest
from gpureplay._words import in_python
from support import PACKAGE, needs_files

NETWORKS = {"actor": {"trunk": [4]}, "critic": {"trunk": [4]}}
ROWS = {"obs": ((2,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((2,), "float32"),
        "terminated": "bool", "truncated": "bool"}
VECTORS = {**ROWS, "action": ((2,), "float32")}
FRAMES = {**ROWS, "obs": ((4, 8, 8), "uint8"), "next_obs": ((4, 8, 8), "uint8")}


def rows_buffer(fields=None, **settings):
    return gpureplay.ReplayBuffer(100, fields or ROWS, device="cpu", **settings)


def learner_of(buffer=None, **settings):
    return gpureplay.DQN(buffer or rows_buffer(), 2, **{"trunk": [8], **settings})


def ddpg_of(**settings):
    return gpureplay.DDPG(rows_buffer(VECTORS), **{**NETWORKS, "batch_size": 4, **settings})


def policy_of(**settings):
    return gpureplay.Policy(((2,), "float32"), 2, trunk=[8], device="cpu", **settings)


def critic_of(**settings):
    return gpureplay.ActorCritic(((4,), "float32"), 2, trunk=[4], device="cpu", **settings)


REFUSED = {
    "alpha is -1; it must be 0 to 10": lambda: rows_buffer(alpha=-1, prioritized=True),
    'eviction is "priority", and prioritized is False; it must be True': lambda: rows_buffer(eviction="priority"),
    "max_batch is 100 and distinct is True; it must be at most": lambda: rows_buffer(
        distinct=True, max_batch=100, block_rows=50),
    'frame_stack is 3 and the first axis of "obs" is 4 long': lambda: rows_buffer(
        FRAMES, layout="frames", frame_stack=3),
    "the replay's layout is \"frames\", which stores each frame": lambda: rows_buffer(FRAMES, layout="frames").extend(
        **{name: np.zeros((3, *(field[0] if isinstance(field, tuple) else ())),
                          field[1] if isinstance(field, tuple) else field) for name, field in FRAMES.items()}),
    "learning_rate goes from 0.001 to -1, from step 0 on": lambda: learner_of(learning_rate=(1e-3, -1, 5)),
    "weight_decay is 0.1, and RMSProp has none; it must be 0, or the optimizer Adam":
        lambda: learner_of(optimizer="rmsprop_tf", weight_decay=0.1),
    'head is "tanh_action"; a DQN learner needs "q", "dueling", "quantiles" or "categorical"':
        lambda: learner_of(head="tanh_action"),
    "atoms is 1; it must be 2 to 65536": lambda: learner_of(head="categorical", atoms=1),
    "v_min is 5 and v_max 0; they must be finite, and the first below": lambda: learner_of(head="categorical", v_min=5),
    "huber_delta is -1; it must be 0 or more, and finite": lambda: learner_of(head="quantiles", huber_delta=-1.0),
    "prioritized is True, by priority, and the replay's prioritized is False; it must be True, or leave out":
        lambda: learner_of(prioritized=True),
    "prioritized is False, uniform, and the replay evicts by priority": lambda: learner_of(
        rows_buffer(eviction="priority", prioritized=True), prioritized=False),
    'step_kernel is "fused"; with a cache of returns it must be "auto" or "libraries"': lambda: learner_of(
        rows_buffer(sequences=True), cache_size=640, block_length=64, lambda_=0.5, step_kernel="fused"),
    "actor: learning_rate goes from -1 to -1": lambda: ddpg_of(actor={"trunk": [4], "learning_rate": -1}),
    'actor: trunk[0] is a convolution ("conv"); deterministic policy gradients need dense layers ("dense")': lambda:
        ddpg_of(actor={"trunk": [("conv", 1, 1)]}),
    'actor: head is "q"; it must be "tanh_action"': lambda: ddpg_of(actor={"trunk": [4], "head": "q"}),
    "critic: input_scale is 2; it must be 1": lambda: ddpg_of(critic={"trunk": [4], "input_scale": 2.0}),
    'they need "tanh_action", and head is "q"': lambda: policy_of().act_vectors([[0, 0]]),
    'epsilon or sigma is given; a policy with "squashed_gaussian" has action_vectors and greedy': lambda: policy_of(
        head="squashed_gaussian").act_vectors([[0, 0]], sigma=0.1),
    'a policy with "softmax_value" has probabilities': lambda: policy_of(head="softmax_value").q_values([[0, 0]]),
    "opened by another Device than this policy's cpu": lambda: policy_of().pull(ddpg_of()),
    'head is "q"; an actor-critic needs "softmax_value"': lambda: critic_of(head="q"),
    'log is "softmax"; a floor needs "add" or "max"': lambda: critic_of(log="softmax", policy_floor=0.5),
    'tuner is "code" and system 1; a tuner is for "ga3c" alone': lambda: gpureplay.GA3C(
        critic_of(), "CartPole-v1", tuner="code", system="a3c"),
    'initial_priorities is "td", the replay\'s prioritized is 0': lambda: gpureplay.Apex(
        learner_of(), "CartPole-v1", actors=1),
    "the environment's actions are discrete; the network computes vectors": lambda: gpureplay.Apex(
        gpureplay.DDPG(rows_buffer({**VECTORS, "priority": "float32"}, prioritized=True), batch_size=4, **NETWORKS),
        "CartPole-v1", block_rows=5),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_refusal_has_the_names_of_python(text):
    with pytest.raises(gpureplay.GpureplayError) as raised:
        REFUSED[text]()
    assert text in str(raised.value) and "gpur_" not in str(raised.value) and "GPUR_" not in str(raised.value)


def test_no_message_of_the_library_keeps_a_name_of_c():
    """But for what only a program in C has: structs that it passes, blocks, plug-ins, memory of its own."""
    of_c = r"gpur_(\w+_(config|settings|stats|info|input|output|view|batch|losses|result|carrier|options|plan|table" \
           r"|type|plugin|find)|lane_draw(\.\w+)?|block_\w+|packer_\w+|grid\.\w+|env_\w+|vector_env_\w+)$"
    seen = 0
    for path in sorted((PACKAGE.parents[1] / "src").rglob("*.[ch]")):
        source = re.sub(r"/\*.*?\*/|#include.*?$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', source):
            kept = re.findall(r"\b(?:gpur_[\w.]+|GPUR_\w+)", in_python(literal))
            seen += "gpur_" in literal or "GPUR_" in literal
            assert all(re.match(of_c, name.rstrip(".")) for name in kept), (path.name, literal, kept)
    assert seen > 100


# Settings of a file that are not those of the object that loads it.


def differing(saved, loading, tmp_path):
    """What loading the file of one into the other says."""
    saved.save(tmp_path / "file")
    with pytest.raises(gpureplay.InvalidArgument) as raised:
        loading.load(tmp_path / "file")
    return str(raised.value)


@needs_files
@pytest.mark.parametrize("saved, loading, text", [
    ({"trunk": [8]}, {"trunk": [9]}, 'trunk[0] is (8, "relu") in the file; this learner has (9, "relu")'),
    ({"trunk": [8]}, {"trunk": [(8, "tanh")]}, 'trunk[0] is (8, "relu") in the file; this learner has (8, "tanh")'),
    ({"trunk": [8]}, {"trunk": [8, 4]}, 'trunk[1] is nothing in the file; this learner has (4, "relu")'),
    ({"trunk": [8, 4]}, {"trunk": [8]}, 'trunk[1] is (4, "relu") in the file; this learner has nothing'),
    ({"trunk": [8]}, {"trunk": [("conv", 4, 3, 1, 1, "tanh")], "image": True},
     'trunk[0] is (8, "relu") in the file; this learner has ("conv", 4, 3, 1, 1, "tanh")'),
    ({}, {"head": "dueling"}, 'head is "q" in the file; this learner has "dueling"'),
])
def test_the_networks_of_a_file_and_a_learner_are_told_apart(tmp_path, saved, loading, text):
    images = loading.pop("image", False)
    with rows_buffer(FRAMES) as frames, rows_buffer() as rows:
        buffer = frames if images else rows
        assert differing(learner_of(buffer, **saved), learner_of(buffer, **loading), tmp_path) == text


@needs_files
@pytest.mark.parametrize("saved, loading, text", [
    ({}, {"prioritized": True}, "prioritized is False in the file; this buffer has True"),
    ({"gamma": 0.9}, {"gamma": 0.5}, "gamma is 0.9 in the file; this buffer has 0.5"),
    ({}, {"fields": {**ROWS, "extra": "float32"}},
     'field number 7 is nothing in the file; this buffer has "extra float32"'),
    ({"fields": {**ROWS, "extra": "float32"}}, {},
     'field number 7 is "extra float32" in the file; this buffer has nothing'),
    ({}, {"fields": VECTORS}, 'field number 2 is "action int64" in the file; this buffer has "action float32 of 2"'),
])
def test_the_settings_of_a_file_and_a_buffer_are_told_apart(tmp_path, saved, loading, text):
    assert differing(rows_buffer(**saved), rows_buffer(**loading), tmp_path) == text
