# SPDX-License-Identifier: MIT
"""Files: saved and loaded here, opened and made by safetensors' own package."""

import warnings

import gpureplay
import numpy as np
import pytest
from gpureplay import DQN, ReplayBuffer
from support import TRANSITION, block, needs_files

FIELDS = TRANSITION
ROWS, CAPACITY = 150, 100

pytestmark = needs_files


def rows():
    return {**block(FIELDS, 0, ROWS), "action": np.arange(ROWS) % 3}


@pytest.fixture
def buffer():
    with ReplayBuffer(CAPACITY, FIELDS, device="cpu", max_batch=32, seed=3) as made:
        made.extend(**rows())
        yield made


def learner(buffer):
    return DQN(buffer, 3, trunk=[16], head="q", batch_size=16, seed=4)


def test_a_buffer_comes_back_and_draws_on(buffer, tmp_path):
    buffer.sample(8)
    buffer.save(tmp_path / "replay")
    with ReplayBuffer(CAPACITY, FIELDS, device="cpu", max_batch=32, seed=3) as other:
        other.load(tmp_path / "replay")
        assert len(other) == CAPACITY and other.stats.first_id == ROWS - CAPACITY
        ours, theirs = buffer.sample(32), other.sample(32)
        for name in ("id", *FIELDS):
            assert (np.asarray(ours[name]) == np.asarray(theirs[name])).all(), name


def test_a_learner_comes_back_and_trains_on(buffer, tmp_path):
    agent = learner(buffer)
    agent.train(20)
    agent.save(tmp_path / "learner")
    buffer.save(tmp_path / "replay")
    agent.train(20)
    agent.sync()
    wanted = agent.stats.loss, {name: np.array(value) for name, value in agent.weights.items()}
    buffer.load(tmp_path / "replay")
    other = learner(buffer)
    other.load(tmp_path / "learner")
    assert other.stats.steps == 20
    other.train(20)
    other.sync()
    assert other.stats.loss == wanted[0]
    for name, value in wanted[1].items():
        assert (np.asarray(other.weights[name]) == value).all(), name


def test_safetensors_opens_all_of_them(buffer, tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    agent = learner(buffer)
    agent.train(5)
    agent.save_weights(tmp_path / "weights")
    theirs = numpy_files.load_file(tmp_path / "weights")
    assert sorted(theirs) == sorted(agent.weights)
    for name, value in agent.weights.items():
        assert theirs[name].dtype == np.float32 and (theirs[name] == np.asarray(value)).all(), name
    agent.save(tmp_path / "learner")
    theirs = numpy_files.load_file(tmp_path / "learner")
    for name, value in agent.weights.items():
        assert (theirs["online." + name] == np.asarray(value)).all(), name
    buffer.save(tmp_path / "replay")
    theirs = numpy_files.load_file(tmp_path / "replay")
    assert theirs["rows"].shape == (CAPACITY, 64) and theirs["checksums"].shape == (3,)
    reward = theirs["rows"][:, 16:20].copy().view(np.float32)[:, 0]
    assert (reward == rows()["reward"][-CAPACITY:]).all()


def test_weights_that_safetensors_made_are_read(buffer, tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    agent = learner(buffer)
    rng = np.random.default_rng(5)
    made = {name: rng.random(np.asarray(value).shape, np.float32) for name, value in agent.weights.items()}
    numpy_files.save_file(made, tmp_path / "made", {"format": "np"})
    agent.load_weights(tmp_path / "made")
    for name, value in made.items():
        assert (np.asarray(agent.weights[name]) == value).all(), name
        assert (np.asarray(agent.target_weights[name]) == value).all(), name
    numpy_files.save_file({**made, "more": np.zeros(1, np.float32)}, tmp_path / "more")
    with pytest.raises(gpureplay.InvalidArgument, match="6 tensors|tensors; this network has"):
        agent.load_weights(tmp_path / "more")
    name = next(iter(made))
    numpy_files.save_file({**made, name: made[name].astype(np.float64)}, tmp_path / "wide")
    with pytest.raises(gpureplay.InvalidArgument, match="F64"):
        agent.load_weights(tmp_path / "wide")


def test_files_tell_what_they_are(buffer, tmp_path):
    buffer.save(tmp_path / "replay")
    info = gpureplay.file_info(tmp_path / "replay")
    assert (info.kind, info.rows, info.capacity, info.steps) == ("replay", CAPACITY, CAPACITY, -1)
    assert info.version == gpureplay.__version__ and info.bytes == (tmp_path / "replay").stat().st_size


def test_progress_is_told_and_ends_it(buffer, tmp_path):
    reported = []
    buffer.save(tmp_path / "replay", lambda done, in_all: reported.append((done, in_all)))
    assert reported and reported[-1][0] == reported[-1][1] == (tmp_path / "replay").stat().st_size
    with pytest.raises(gpureplay.Interrupted):
        buffer.load(tmp_path / "replay", lambda done, in_all: False)
    with pytest.raises(ZeroDivisionError):
        buffer.save(tmp_path / "other", lambda done, in_all: 1 / 0)
    assert [path.name for path in tmp_path.iterdir()] == ["replay"]


def test_damage_and_difference_are_refused(buffer, tmp_path):
    path = tmp_path / "replay"
    buffer.save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(gpureplay.FileError, match="not what was written"):
        buffer.load(path)
    with pytest.raises(OSError):
        buffer.load(tmp_path / "nowhere")
    buffer.save(path)
    with ReplayBuffer(CAPACITY, FIELDS, device="cpu", max_batch=32, gamma=0.5) as other:
        with pytest.raises(gpureplay.InvalidArgument, match='gamma is 0.99 in the file; this buffer has 0.5'):
            other.load(path)
    assert len(buffer) == CAPACITY


def test_a_path_with_a_nul_is_refused(buffer, tmp_path):
    agent, path = learner(buffer), str(tmp_path / "file") + "\0.old"
    for call in (buffer.save, buffer.load, agent.save, agent.load, agent.save_weights, agent.load_weights,
                 gpureplay.file_info, lambda path: buffer.save(path.encode())):
        with pytest.raises(ValueError, match="path is .*; it must have no NUL"):
            call(path)
    assert list(tmp_path.iterdir()) == []
    for call in (lambda: gpureplay.Device("cpu\0"), lambda: DQN(buffer, 3, preset="cartpole\0x"),
                 lambda: ReplayBuffer(100, FIELDS, preset="apex-dqn\0", device="cpu")):
        with pytest.raises(ValueError, match="it must have no NUL"):
            call()


def of_envs(num_envs, autoreset="disabled", **settings):
    return ReplayBuffer(64, {**TRANSITION}, device="cpu", num_envs=num_envs, autoreset=autoreset,
                        **{"n_step": 3, **settings})


FRAMES = {"frame_stack": 2, "observations": "frames"}


@needs_files
@pytest.mark.parametrize("mine, others, cause", [
    ({}, {}, None), ({}, {"num_envs": 3}, "the file has the state of 2 environments, and this buffer has 3"),
    ({}, {"autoreset": "next_step"}, "the file's environments have another autoreset than this buffer's, 'next_step'"),
    ({"writer": 2}, {"num_envs": 4}, "the file has the state of 2 writers with 4 environments together, and this "
                                     "buffer has 1"),
    (FRAMES, {**FRAMES, "autoreset": "same_step"},
     "the file's environments take their steps in another way than this buffer's, with autoreset='same_step' and "
     "observations='frames'"),
])
def test_a_load_that_cuts_open_episodes_warns(tmp_path, mine, others, cause):
    settings = {name: value for name, value in mine.items() if name != "writer"}
    with of_envs(2, **settings) as made, of_envs(**{"num_envs": 2, **others}) as other:
        second = made.writer(mine["writer"], "disabled") if "writer" in mine else None
        obs = np.zeros((2, *TRANSITION["obs"][0]), np.float32)
        made.add(obs=obs, action=np.zeros(2, int), reward=np.zeros(2), next_obs=obs + 1, terminated=np.zeros(2, bool))
        made.save(tmp_path / "rows")
        del second
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            other.load(tmp_path / "rows")
    assert [str(warning.message) for warning in found] == ([] if cause is None else [
        f"2 open episodes of {tmp_path / 'rows'} are cut off: {cause}. All transitions are loaded"])
