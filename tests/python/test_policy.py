# SPDX-License-Identifier: MIT
"""Policies: acting as a learner does, random actions by lane and step, weights by pull, bytes and file, and what is
refused."""

import copy
import pickle
import threading

import gpureplay
import numpy as np
import pytest
from gymnasium import spaces
from support import DEVICE, FORMS, needs_files, run

FIELDS = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool"}
NETWORK = {"trunk": [16, (8, "tanh")], "head": "dueling", "hidden": 12}
OBS = np.random.default_rng(2).normal(size=(30, 4)).astype(np.float32)


@pytest.fixture
def agent():
    with gpureplay.ReplayBuffer(1000, FIELDS, device=DEVICE) as buffer:
        random = np.random.default_rng(1)
        obs = random.normal(size=(500, 4))
        buffer.extend(obs=obs, action=random.integers(0, 3, 500), reward=obs[:, 0], next_obs=obs.copy(),
                      terminated=np.ones(500, bool))
        yield gpureplay.DQN(buffer, num_actions=3, batch_size=32, target_period=7, seed=3, **NETWORK)


def make(**settings):
    return gpureplay.Policy(((4,), "float32"), 3, **{"device": DEVICE, **NETWORK, **settings})


def test_a_squashed_gaussian_is_drawn_or_acted_on_by_its_mean():
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    with gpureplay.Policy(((3,), "float32"), 2, device="cpu", head="squashed_gaussian", trunk=[8], seed=3) as policy:
        greedy, drawn = policy.act_vectors(obs, greedy=True), policy.act_vectors(obs, steps=7)
        assert greedy.shape == drawn.shape == (4, 2) and (np.abs(drawn) <= 1).all() and (greedy != drawn).all()
        assert (policy.act_vectors(obs, greedy=True) == greedy).all()
        assert (policy.act_vectors(obs, steps=7) == drawn).all() and (policy.act_vectors(obs, steps=8) != drawn).all()
        with pytest.raises(gpureplay.InvalidArgument, match="action_vectors"):
            policy.act(obs)


def test_it_acts_as_the_learner_whose_weights_it_has(agent):
    policy = gpureplay.Policy.for_learner(agent, streams=2)
    assert policy.version == 0 and np.array_equal(policy.q_values(OBS), agent.q_values(OBS))
    agent.train(10)
    before = policy.q_values(OBS)
    assert not np.array_equal(before, agent.q_values(OBS))
    policy.pull(agent)
    acted = policy.act_with_q(OBS)
    assert acted.version == policy.version == 10 and np.array_equal(acted.q_values, agent.q_values(OBS))
    assert acted.actions.tolist() == acted.q_values.argmax(axis=1).tolist() == policy.act(OBS).tolist()
    policy.pull(agent, target=True)
    assert not np.array_equal(policy.q_values(OBS), acted.q_values)
    assert policy.q_values(OBS[0]).shape == (1, 3) and policy.act(OBS[0]).shape == (1,)
    assert policy.stats[:3] == (7, 5 * 30 + 2, 10) and policy.stats.device_bytes > 0
    assert policy.config["trunk"] == [(16, "relu"), (8, "tanh")] and policy.config["streams"] == 2
    assert repr(policy).startswith(f"<gpureplay.Policy, 3 actions, on {DEVICE}, version 10; trunk=[(16, 'relu')")


def test_the_initial_weights_and_actions_are_those_of_a_learner_of_this_seed(agent):
    policy = make(seed=3)
    assert np.array_equal(policy.q_values(OBS), agent.q_values(OBS))
    assert all(np.array_equal(policy.act(OBS, 0.7), agent.act(OBS, 0.7)) for _ in range(5))
    assert not np.array_equal(make(seed=4).q_values(OBS), agent.q_values(OBS))


@pytest.mark.parametrize("form", FORMS)
def test_observations_come_in_many_forms(form):
    policy = make()
    assert np.array_equal(policy.q_values(FORMS[form](OBS)), policy.q_values(OBS))


def test_spaces_and_presets():
    policy = gpureplay.Policy(spaces.Box(0, 255, (4, 84, 84), np.uint8), 6, "nature-dqn", device=DEVICE, max_batch=2)
    assert policy.q_values(np.zeros((4, 84, 84), np.uint8)).shape == (1, 6)
    assert np.float32(policy.config["input_scale"]) == np.float32(1 / 255)
    assert policy.config["trunk"][0] == ("conv", 32, 8, 4, 0, "relu")
    policy = gpureplay.Policy(spaces.Box(-1, 1, (4,), np.float64), preset="cartpole", device=DEVICE)
    assert policy.act(np.zeros(4)).shape == (1,)


def test_random_actions_follow_from_seed_lane_and_step():
    policy, lanes = make(seed=9, streams=3), np.arange(30)[::-1] + 2**32 - 30
    steps, epsilon = np.arange(30) * 2**40, np.linspace(0, 1, 30)
    whole = policy.act(OBS, epsilon, lanes, steps)
    parts = [policy.act(OBS[at:at + 7], epsilon[at:at + 7], lanes[at:at + 7], steps[at:at + 7])
             for at in (21, 0, 28, 7, 14)]
    assert np.concatenate([parts[at] for at in (1, 3, 4, 0, 2)]).tolist() == whole.tolist()
    assert whole[0] == policy.q_values(OBS[0]).argmax()
    same = policy.act(OBS, 1.0, lanes=4, steps=7)
    assert len(set(same.tolist())) == 1 and np.array_equal(same, policy.act(OBS, 1, [4] * 30, np.full(30, 7, np.uint8)))
    assert np.array_equal(policy.act(OBS, 1.0, steps=5), policy.act(OBS, 1.0, np.arange(30), 5))
    assert len({tuple(policy.act(OBS, 1.0).tolist()) for _ in range(10)}) == 10  # each call draws anew


def test_threads_act_while_weights_change(agent):
    policy, expected, stop, wrong = gpureplay.Policy.for_learner(agent, streams=2), {}, threading.Event(), []
    weights = []
    for _ in range(5):
        expected[policy.version] = policy.q_values(OBS)
        weights.append(policy.get_weights())
        agent.train(3)
        policy.pull(agent)

    def act():
        while not stop.is_set():
            acted = policy.act_with_q(OBS)
            if acted.version in expected and not np.array_equal(acted.q_values, expected[acted.version]):
                wrong.append(acted.version)

    threads = [threading.Thread(target=act) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(60):
        policy.set_weights(weights[turn % 5])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and policy.version == 12


def test_weights_travel_as_bytes(agent):
    agent.train(4)
    policy, other = gpureplay.Policy.for_learner(agent), make(seed=8)
    for given in (policy.get_weights(), bytearray(policy.get_weights()), memoryview(policy.get_weights())):
        other.set_weights(given)
        assert other.version == 4 and np.array_equal(other.q_values(OBS), policy.q_values(OBS))
    out, _ = run(f"""
        policy = gpureplay.Policy(((4,), "float32"), 3, device={DEVICE!r}, **{NETWORK!r})
        policy.set_weights(bytes.fromhex({policy.get_weights().hex()!r}))
        print(policy.version, policy.q_values(np.ones(4)).tobytes().hex())
    """)
    assert out.split() == ["4", policy.q_values(np.ones(4)).tobytes().hex()]
    for bad, text in ((b"", "bytes is 0; the weights of this policy's network have"),
                      (b"X" + policy.get_weights()[1:], "do not begin with \"GPURWTS1\""),
                      (make(hidden=11).get_weights(), "bytes is")):
        with pytest.raises(gpureplay.InvalidArgument, match=text):
            other.set_weights(bad)
    with pytest.raises(TypeError):
        other.set_weights("text")
    assert other.version == 4


@needs_files
def test_weights_travel_as_files(agent, tmp_path):
    agent.train(4)
    policy, other = gpureplay.Policy.for_learner(agent), make(seed=8)
    policy.save(tmp_path / "policy")
    agent.save(tmp_path / "learner")
    agent.save_weights(tmp_path / "weights")
    for name in ("policy", "learner", "weights"):
        other = make(seed=8)
        other.load(tmp_path / name)
        assert other.version == 4 and np.array_equal(other.q_values(OBS), agent.q_values(OBS))
    assert gpureplay.file_info(tmp_path / "policy")[0] == "weights"
    assert gpureplay.file_info(tmp_path / "policy").steps == 4
    with pytest.raises(gpureplay.InvalidArgument, match="trunk.0.weight"):
        make(trunk=[17]).load(tmp_path / "weights")
    with pytest.raises(gpureplay.Interrupted):
        other.load(tmp_path / "policy", progress=lambda done, total: False)
    with pytest.raises(gpureplay.FileError):
        other.load(tmp_path / "nothing")


BAD = {
    "no actions": ({"num_actions": None}, gpureplay.InvalidArgument, "num_actions is None; it must be the number"),
    "actions": ({"num_actions": 2.5}, TypeError, "num_actions is 2.5; it must be an integer"),
    "of the device": ({"deterministic": True}, TypeError, r"'deterministic' is no setting .* its device: device=Dev"),
    "unknown": ({"learning_rate": 1}, TypeError, "'learning_rate' is no setting of a policy; they are trunk, head"),
    "streams": ({"streams": 65}, gpureplay.InvalidArgument, "streams is 65; it must be 1 to 64"),
    "batch": ({"max_batch": 0}, gpureplay.InvalidArgument, "max_batch is 0; it must be 1 to 1048576"),
    "math": ({"math": "fp8"}, ValueError, "math is 'fp8'; it must be one of 'fp32', 'tf32', 'bf16', 'auto'"),
    "head": ({"head": "softmax"}, ValueError, "head is 'softmax'; it must be one of 'q', 'dueling'"),
    "preset": ({"preset": "atari"}, gpureplay.InvalidArgument, "atari"),
    "dtype": ({"obs": ((4,), "int64")}, gpureplay.InvalidArgument, "is int64; a network reads float32 or uint8"),
    "obs": ({"obs": ((4,), "complex")}, TypeError, "field 'obs' has dtype 'complex'"),
    "dict": ({"obs": spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Text(2))}, TypeError, "and Text.* is a part of it"),
    "image": ({"trunk": [("conv", 8, 3)]}, gpureplay.InvalidArgument, "it needs three axes"),
    "nan": ({"check_nan": 1}, TypeError, "check_nan is 1; it must be True or False"),
    "device": ({"device": "tpu"}, gpureplay.InvalidArgument, "tpu"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_refused(case):
    settings, error, text = BAD[case]
    with pytest.raises(error, match=text):
        gpureplay.Policy(**{"obs": ((4,), "float32"), "num_actions": 3, "device": DEVICE, **settings})


def test_bad_calls_are_refused():
    policy, nan = make(max_batch=5), np.full((2, 4), np.nan, np.float32)
    for call, error, text in (
            (lambda: policy.act(np.zeros((2, 5))), ValueError, r"obs has shape \(2, 5\); it must be \(count, 4\) or"),
            (lambda: policy.act(np.zeros((6, 4))), gpureplay.InvalidArgument, "count is 6; it must be 1 to max_batch"),
            (lambda: policy.act(np.zeros((0, 4))), gpureplay.InvalidArgument, "count is 0; it must be 1 to"),
            (lambda: policy.act(np.zeros((2, 4)), [0.5, 1.5]), gpureplay.InvalidArgument, r"epsilon\[1\] is 1.5"),
            (lambda: policy.act(np.zeros((2, 4)), [0.5]), ValueError, r"epsilon has shape \(1,\); it must be \(2,\)"),
            (lambda: policy.act(np.zeros(4), "often"), TypeError, "epsilon is"),
            (lambda: policy.act(np.zeros((2, 4)), 1.0, [0, -1]), ValueError, "lanes has -1 to 0; uint32 holds"),
            (lambda: policy.act(np.zeros((2, 4)), 1.0, [0, 0.5]), TypeError, "lanes is float64; it must be uint32"),
            (lambda: policy.act(np.zeros((2, 4)), 1.0, None, [-1, 0]), ValueError, "steps has -1 to 0; uint64 holds"),
            (lambda: policy.act(nan), ValueError, '"obs" is NaN in row 0 of 2'),
            (lambda: policy.act(np.zeros(4), stream=7), gpureplay.InvalidArgument, "on the CPU it must be NULL"),
            (lambda: policy.pull(None), TypeError, "agent is None; it must be a gpureplay.DQN")):
        with pytest.raises(error, match=text):
            call()
    assert policy.stats.calls == 0
    assert make(check_nan=False).act(nan).shape == (2,)


def test_weights_of_another_learner_are_refused(agent):
    for settings, text in (({"hidden": 13}, r"\"value.hidden.weight\" \(12, 8\), of this policy .* \(13, 8\)"),
                           ({"trunk": [16, (8, "relu")]}, "layer 2 of the learner, counted from 1, has activation 2"),
                           ({}, "opened by another Device than this policy's")):
        policy = make(**settings, device=agent._buffer.device if settings else DEVICE)
        with pytest.raises(gpureplay.InvalidArgument, match=text):
            policy.pull(agent)
    policy = gpureplay.Policy.for_learner(agent)
    agent.close()
    with pytest.raises(gpureplay.Closed, match="this learner was closed"):
        policy.pull(agent)
    assert policy.act(OBS).shape == (30,)


def test_a_closed_policy_says_so(agent):
    policy = make()
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="gpureplay policy cannot be copied or pickled"):
            attempt(policy)
    policy.close()
    policy.close()
    for call in (lambda: policy.act(OBS), lambda: policy.q_values(OBS), lambda: policy.version, lambda: policy.stats,
                 policy.get_weights, lambda: policy.set_weights(b"1"), lambda: policy.pull(agent),
                 lambda: policy.save("x"), lambda: policy.load("x")):
        with pytest.raises(gpureplay.Closed, match="this policy was closed; make a new one"):
            call()
    assert repr(policy) == "<gpureplay.Policy, 3 actions, closed>"


def test_a_child_process_is_refused():
    out, _ = run("""
        policy = gpureplay.Policy(((4,), "float32"), 2, device="cpu")
        policy.act(np.zeros(4))
        sys.stdout.flush()
        if os.fork() == 0:
            try:
                policy.act(np.zeros(4))
            except gpureplay.Closed as error:
                print("refused", policy.closed)
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        print(policy.act(np.zeros(4)).shape)
    """, flags=("-W", "ignore::DeprecationWarning"))
    assert out == "refused True\n(1,)\n"
