# SPDX-License-Identifier: MIT
"""The library's games and plug-ins as environments of Gymnasium."""

import ctypes
import gc
import importlib
import threading
import warnings
import weakref
from pathlib import Path

import gpureplay
import gpureplay.envs
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from support import blocks_of_page, compile_plugin, run

GAMES = {"CartPole-v1": "gpureplay/CartPole-v1", "MinAtar/Asterix": "gpureplay/MinAtar-Asterix",
         "MinAtar/Breakout": "gpureplay/MinAtar-Breakout", "MinAtar/Freeway": "gpureplay/MinAtar-Freeway",
         "MinAtar/Seaquest": "gpureplay/MinAtar-Seaquest", "MinAtar/SpaceInvaders": "gpureplay/MinAtar-SpaceInvaders",
         "Pendulum": "gpureplay/Pendulum"}
MODES = ["next_step", "same_step", "disabled"]
# What Gymnasium advises against, and its own CartPole and Pendulum have, too.
ADVICE = ("Box observation space minimum value", "Box observation space maximum value", "For Box action spaces")

# Shows pictures. A game has three lives of two steps, and its step waits for `release` if "waits" is among the options.
PICTURES = """
#include <gpureplay/env.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct game { int steps, waits; } game;
static atomic_int released;
void release(void) { atomic_store(&released, 1); }

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {4, 6}, .high = 255};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    game *const g = *env = calloc(1, sizeof(game));
    g->waits = strcmp(options, "waits") == 0;
    return NULL;
}

static const char *reset(void *env, void *obs)
{
    memset(obs, 10 * ((game *)env)->steps, 24);
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    game *const g = env;
    g->steps = g->steps % 6 + 1;
    memset(obs, 10 * g->steps, 24);
    *result = (gpur_env_result){.reward = 1, .terminated = g->steps % 2 == 0,
                                .continues = g->steps == 2 || g->steps == 4};
    for (int i = 0; g->waits && !atomic_load(&released); i++, usleep(1000))
        if (i == 60000)
            return "nobody has released it";
    return NULL;
}

static const gpur_env_type type = {.size = sizeof type, .name = "Pictures", .init = init, .reset = reset, .step = step,
                                   .close = free};
const gpur_env_type *gpur_env_plugin(const char *name)
{
    return strcmp(name, "") == 0 || strcmp(name, "Pictures") == 0 ? &type : NULL;
}
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    return compile_plugin(tmp_path_factory.mktemp("pictures"), PICTURES)


def test_every_game_has_an_id():
    assert list(GAMES) == gpureplay.envs.game_names()
    assert {name for name in gymnasium.registry if name.startswith("gpureplay/")} == set(GAMES.values())


@pytest.mark.parametrize("name", GAMES)
def test_games_pass_gymnasiums_checks(name):
    """With their pictures, and those of the specification that they have."""
    for env in (gymnasium.make(GAMES[name], render_mode="rgb_array").unwrapped, gpureplay.make_env(name)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            check_env(env)
        assert [str(one.message) for one in found if not any(words in str(one.message) for words in ADVICE)] == []
        assert env.spec.id == GAMES[name] and env.name == name
        env.close()


@pytest.mark.parametrize("name", GAMES)
def test_spaces_are_those_of_gymnasiums_games_or_bytes(name):
    env = gpureplay.make_env(name)
    theirs = {"CartPole-v1": "CartPole-v1", "Pendulum": "Pendulum-v1"}.get(name)
    if theirs is not None:
        assert env.action_space == gymnasium.make(theirs).action_space
        assert env.observation_space == gymnasium.make(theirs).observation_space
    else:
        assert env.action_space == gymnasium.spaces.Discrete(6)
        assert env.observation_space.dtype == np.uint8 and env.observation_space.shape[:2] == (10, 10)
        assert gpureplay.make_env(name, env_options="minimal_actions=1").action_space.n in (3, 4, 5, 6)


def same_step(got, wanted):
    """Results of a step or a reset: arrays equal bit for bit, and infos by their keys."""
    *arrays, info = got
    *wanted_arrays, wanted_info = wanted
    for array, other in zip(arrays, wanted_arrays):
        assert array.shape == other.shape and np.array_equal(array, other.astype(array.dtype))
    assert set(info) == set(wanted_info)
    for key in info:
        if key == "final_obs":
            assert all((a is None and b is None) or np.array_equal(a, b) for a, b in zip(info[key], wanted_info[key]))
        elif key != "final_info":
            assert np.array_equal(info[key], wanted_info[key]), key
    return arrays


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", GAMES)
def test_a_vector_does_what_gymnasiums_vector_of_single_ones_does(name, mode):
    autoreset = AutoresetMode[mode.upper()]
    options = {"max_steps": 70}
    ours = gpureplay.make_vec(name, 5, env_options=options, autoreset=mode)
    theirs = SyncVectorEnv([lambda: gpureplay.make_env(name, env_options=options)] * 5, autoreset_mode=autoreset)
    assert ours.metadata["autoreset_mode"] is autoreset and ours.num_envs == 5
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    same_step(ours.reset(seed=7), theirs.reset(seed=7))
    ours.action_space.seed(1)
    ends = 0
    for _ in range(200):
        actions = ours.action_space.sample()
        obs, _, terminated, truncated = same_step(ours.step(actions), theirs.step(actions))
        assert obs in ours.observation_space
        ended = terminated | truncated
        ends += ended.sum()
        if mode == "disabled" and ended.any():
            same_step(ours.reset(options={"reset_mask": ended}), theirs.reset(options={"reset_mask": ended}))
    assert ends >= 10
    same_step(ours.reset(), theirs.reset())
    same_step(ours.reset(seed=[4, 3, 2, 1, 0]), theirs.reset(seed=[4, 3, 2, 1, 0]))


def played(env, seed, steps=60):
    """All that an environment shows and rewards."""
    env.action_space.seed(3)
    found, done = [env.reset(seed=seed)[0].tobytes()], False
    for _ in range(steps):
        if done:
            found.append(env.reset()[0].tobytes())
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        found.append((obs.tobytes(), reward, terminated, truncated))
        done = terminated or truncated
    return found


@pytest.mark.parametrize("name", GAMES)
def test_equal_seeds_give_equal_episodes(name):
    env = gpureplay.make_env(name)
    first = played(env, 5)
    assert played(env, 5) == first == played(gpureplay.make_env(name), 5) and played(env, 6) != first
    assert played(env, np.int64(5)) == first
    unseeded = [played(gpureplay.make_env(name), None) for _ in range(2)]
    assert unseeded[0] != unseeded[1]
    assert played(gpureplay.make_env(name), 2**64 - 1) != first


def test_an_episode_is_truncated_at_its_max_steps():
    env = gpureplay.make_env("MinAtar/Freeway", env_options={"max_steps": 3})
    env.reset(seed=1)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_what_was_returned_is_the_callers():
    envs = gpureplay.make_vec("CartPole-v1", 3, autoreset="same_step", render_mode="rgb_array")
    results = [envs.reset(seed=1)]
    results += [envs.step(np.ones(3, int)) for _ in range(30)]
    arrays = [array for *result, info in results for array in (*result, *info.values())
              if isinstance(array, np.ndarray)]
    assert len(arrays) > 130
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:i] if array.dtype != object)
    picture = envs.render()[0].copy()
    results[-1][0][...] = 0
    assert np.array_equal(envs.render()[0], picture)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.int8, ">i4", list, "strided"])
def test_actions_of_any_integers(kind):
    values = np.array([0, 1, 1, 0])
    given = values.tolist() if kind is list else values.repeat(2)[::2] if kind == "strided" else values.astype(kind)
    found = []
    for actions in (values, given):
        envs = gpureplay.make_vec("CartPole-v1", 4)
        envs.reset(seed=1)
        found.append(envs.step(actions)[0])
    assert np.array_equal(*found)


@pytest.mark.parametrize("actions, text", [
    ([0, 1], r"the action has shape \(2,\) and dtype int64; it must be integers of shape \(3,\)"),
    ([0.0, 1.0, 0.0], "dtype float64; it must be integers"),
    ([True, False, True], "dtype bool; it must be integers"),
    ([0, 1, 2], "the action of environment 2 is 2; it must be 0 to 1"),
    ([0, -1, 0], "the action of environment 1 is -1; it must be 0 to 1"),
    ([0, 2**32, 0], "the action is 4294967296; it must be 0 to 1"),
])
def test_actions_that_are_none_are_refused_and_change_nothing(actions, text):
    envs, others = (gpureplay.make_vec("CartPole-v1", 3) for _ in range(2))
    envs.reset(seed=1), others.reset(seed=1)
    with pytest.raises(ValueError, match=text):
        envs.step(actions)
    assert np.array_equal(envs.step([0, 0, 0])[0], others.step([0, 0, 0])[0])


def test_actions_of_one_environment():
    env = gpureplay.make_env("CartPole-v1")
    env.reset(seed=1)
    for action in (1.0, [1], None, "1"):
        with pytest.raises(ValueError, match=r"the action has shape .* it must be integers of shape \(\)"):
            env.step(action)
    with pytest.raises(gpureplay.InvalidArgument, match="is 2; it must be 0 to 1"):
        env.step(2)
    env.step(np.int64(1)), env.step(np.array(1))
    pendulum = gpureplay.make_env("Pendulum")
    pendulum.reset(seed=1)
    with pytest.raises(ValueError, match=r"it must be numbers of shape \(1,\)"):
        pendulum.step(1.0)
    with pytest.raises(gpureplay.InvalidArgument, match="the action of Pendulum is NaN"):
        pendulum.step([np.nan])
    with pytest.raises(gpureplay.InvalidArgument, match="after a call that failed"):
        pendulum.step([0.0])


@pytest.mark.parametrize("call, error, text", [
    (lambda: gpureplay.make_env("Acrobot-v1"), ValueError, "'Acrobot-v1'; it must be a game of the library .CartPole"),
    (lambda: gpureplay.make_env(3), ValueError, "name is 3; it must be a game"),
    (lambda: gpureplay.make_env("./missing.so"), gpureplay.InvalidArgument, "plug-in ./missing.so"),
    (lambda: gpureplay.make_env("CartPole-v1", env_options={"speed": 1}), gpureplay.InvalidArgument,
     "has no option \"speed\"; it has max_steps"),
    (lambda: gpureplay.make_env("CartPole-v1", render_mode="human"), ValueError, "'human'; it must be 'rgb_array' or"),
    (lambda: gpureplay.make_vec("CartPole-v1", 0), ValueError, "num_envs is 0; it must be a whole number from 1"),
    (lambda: gpureplay.make_vec("CartPole-v1", 2.0), ValueError, "num_envs is 2.0"),
    (lambda: gpureplay.make_vec("CartPole-v1", 2, autoreset="never"), ValueError, "autoreset is 'never'; it must be"),
    (lambda: gpureplay.make_env("CartPole-v1").step(0), ValueError, "all must be reset at first"),
    (lambda: gpureplay.make_env("CartPole-v1").reset(seed=-1), ValueError, "seed is -1; it must be a whole number"),
    (lambda: gpureplay.make_env("CartPole-v1").reset(seed=2**64), ValueError, "a whole number from 0 to 1844"),
    (lambda: gpureplay.make_env("CartPole-v1").reset(options={"low": 1}), ValueError, "as env_options"),
    (lambda: gpureplay.make_vec("CartPole-v1", 2).reset(seed=[1]), ValueError, "seed has 1 numbers; it must have 2"),
    (lambda: gpureplay.make_vec("CartPole-v1", 2).reset(options={"reset_mask": np.ones(2, bool)}), ValueError,
     "autoreset=\"disabled\""),
    (lambda: gpureplay.make_vec("CartPole-v1", 2, autoreset="disabled").reset(options={"reset_mask": np.ones(2)}),
     ValueError, r"reset_mask has shape \(2,\) and dtype float64; it must be bool of shape \(2,\)"),
    (lambda: gpureplay.make_env("CartPole-v1", render_mode="rgb_array").render(), gymnasium.error.ResetNeeded, "reset"),
])
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_closed_environment_draws_nothing():
    for env in (gpureplay.make_env("CartPole-v1", render_mode="rgb_array"),
                gpureplay.make_vec("CartPole-v1", 2, render_mode="rgb_array")):
        env.reset()
        env.render()
        env.close()
        with pytest.raises(gpureplay.Closed):
            env.render()


def test_a_mask_needs_a_first_reset_of_all():
    envs = gpureplay.make_vec("CartPole-v1", 2, autoreset="disabled")
    with pytest.raises(ValueError, match="the mask leaves out 1 of 2"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ValueError, match="the mask leaves out 1 of 2"):
        envs.reset(seed=1, options={"reset_mask": np.array([True, False])})


def test_an_episode_that_has_ended_must_be_reset():
    env = gpureplay.make_env("CartPole-v1", env_options="max_steps=1")
    env.reset(seed=1)
    env.step(0)
    with pytest.raises(ValueError, match="the episode of environment 0 has ended; it must be reset"):
        env.step(0)
    env.reset()
    env.step(0)


# Pictures.


@pytest.mark.parametrize("name", GAMES)
def test_pictures_show_what_changes(name):
    envs = gpureplay.make_vec(name, 2, render_mode="rgb_array")
    envs.reset(seed=1)
    before = envs.render()
    wanted = {"CartPole-v1": (200, 300, 3), "Pendulum": (200, 200, 3)}.get(name, (100, 100, 3))
    assert [(one.shape, one.dtype) for one in before] == [(wanted, np.dtype(np.uint8))] * 2
    envs.action_space.seed(1)
    for _ in range(20):
        envs.step(envs.action_space.sample())
    after = envs.render()
    assert not np.array_equal(before[0], after[0]) and len(np.unique(after[0].reshape(-1, 3), axis=0)) >= 3
    env = gpureplay.make_env(name, render_mode="rgb_array")
    env.reset(seed=1)
    assert np.array_equal(env.render(), before[0])


def test_a_cell_of_minatar_has_a_color_for_each_kind():
    env = gpureplay.make_env("MinAtar/Breakout", render_mode="rgb_array")
    obs, _ = env.reset(seed=1)
    picture = env.render()
    for kind in range(4):
        cells = picture[5::10, 5::10][obs[:, :, kind] == 1]
        assert len(np.unique(cells, axis=0)) <= 1
    assert np.array_equal(picture[20:30, 0:10], np.broadcast_to(picture[20, 0], (10, 10, 3)))


def test_the_pole_leans_as_the_angle_says_and_the_pendulum_hangs():
    paint = importlib.import_module("gpureplay._pictures").painter_of
    pole = paint("CartPole-v1", (4,), np.float32)
    left, right = pole(np.array([0, 0, -0.2, 0])), pole(np.array([0, 0, 0.2, 0]))
    assert np.array_equal(left[:130, 1:], right[:130, :0:-1])
    assert (right[80] != right[0]).any(1).nonzero()[0].min() > 150
    hanging = paint("Pendulum", (3,), np.float32)(np.array([-1.0, 0, 0]))
    rows = (hanging != hanging[0, 0]).any((1, 2)).nonzero()[0]
    assert rows.min() > 85 and rows.max() > 180


def test_nothing_is_drawn_without_a_render_mode():
    env = gpureplay.make_env("CartPole-v1")
    env.reset()
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None


# Plug-ins.


def test_a_plugin_shows_its_images_and_tells_of_lives(plugin):
    env = gpureplay.make_env(f"{plugin}:Pictures", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env, skip_close_check=True)
    assert env.name == "Pictures" and env.observation_space == gymnasium.spaces.Box(0, 255, (4, 6), np.uint8)
    env = gpureplay.make_env(plugin, render_mode="rgb_array")
    assert env.reset()[1] == {}
    assert env.step(0)[2:] == (False, False, {}) and np.array_equal(env.render(), np.full((4, 6, 3), 10))
    assert env.step(0)[2:] == (True, False, {"continues": True})
    assert np.array_equal(env.reset()[0], np.full((4, 6), 20))
    envs = gpureplay.make_vec(plugin, 2, autoreset="same_step")
    envs.reset()
    infos = [envs.step([0, 1])[-1] for _ in range(6)]
    assert [info["continues"].tolist() if "continues" in info else None for info in infos] == \
        [None, [True, True], None, [True, True], None, None]
    assert infos[5]["_final_obs"].all() and np.array_equal(infos[5]["final_obs"][1], np.full((4, 6), 60))


def test_a_plugin_without_images_is_not_drawn(tmp_path):
    (tmp_path / "one").mkdir()
    source, = (block for block in blocks_of_page("environments.md", "c") if "typedef struct corridor" in block)
    corridor = compile_plugin(tmp_path, source)
    with pytest.raises(ValueError, match="the observations of Corridor, float32 of shape .1,., are no picture"):
        gpureplay.make_env(corridor, render_mode="rgb_array")
    env = gpureplay.make_env(corridor, env_options={"length": 3})
    env.reset()
    check_env(gpureplay.make_env(compile_plugin(tmp_path / "one", source.replace(".shape = {1}", ".shape = {0}"))))
    assert env.metadata["render_modes"] == [] and env.step(1)[1:4] == (0.0, False, False)
    assert env.step(1)[1:4] == (1.0, True, False)


def test_a_step_lets_other_threads_run(plugin):
    """It waits for one: holding the interpreter's lock it would wait in vain."""
    envs = gpureplay.make_vec(plugin, 2, env_options="waits")
    envs.reset()
    thread = threading.Timer(0.1, ctypes.CDLL(plugin).release)
    thread.start()
    assert envs.step([0, 0])[1].tolist() == [1.0, 1.0]
    thread.join()


# The end.


def test_environments_close_once_and_by_themselves():
    for made in (gpureplay.make_env("CartPole-v1"), gpureplay.make_vec("CartPole-v1", 2)):
        made.reset()
        made.close()
        made.close()
        with pytest.raises(gpureplay.Closed, match="was closed"):
            made.step(made.action_space.sample())
    envs = gpureplay.make_vec("MinAtar/Seaquest", 50)
    gone = weakref.ref(envs._games)
    del envs
    gc.collect()
    assert gone() is None


def test_without_gymnasium_the_error_says_what_to_install():
    out, _ = run("""
        try:
            gpureplay.make_env("CartPole-v1")
        except ModuleNotFoundError as error:
            print(error, error.name)
        """, preamble="import sys\nsys.modules['gymnasium'] = None\nimport gpureplay\n")
    assert "which is not installed; `pip install gymnasium` gymnasium" in out


def test_the_package_alone_does_not_import_gymnasium():
    run("import sys; assert 'gymnasium' not in sys.modules", preamble="import gpureplay\n")


# With others.


def test_gymnasiums_wrappers_and_vectors_take_them():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("gpureplay/CartPole-v1", env_options="max_steps=5"))
    env.reset(seed=1)
    for _ in range(5):
        info = env.step(0)[-1]
    assert info["episode"]["r"] == 5
    envs = gymnasium.make_vec("gpureplay/CartPole-v1", num_envs=3, env_options={"max_steps": 5}, autoreset="same_step")
    assert isinstance(envs, gpureplay.envs.GameVectorEnv) and envs.spec.id == "gpureplay/CartPole-v1"
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs.reset(seed=1)
    for _ in range(5):
        info = envs.step(np.zeros(3, int))[-1]
    assert info["episode"]["r"].tolist() == [5, 5, 5]


def test_processes_of_gymnasium_make_them():
    envs = gymnasium.vector.AsyncVectorEnv([lambda: gpureplay.make_env("CartPole-v1")] * 2, context="spawn")
    alone = gpureplay.make_vec("CartPole-v1", 2)
    same_step(alone.reset(seed=1), envs.reset(seed=1))
    same_step(alone.step([0, 1]), envs.step(np.array([0, 1])))
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_buffer_and_a_training_take_them(mode):
    envs = gpureplay.make_vec("CartPole-v1", 4, autoreset=mode)
    buffer = gpureplay.ReplayBuffer.for_env(1000, envs, device="cpu")
    obs, _ = envs.reset(seed=1)
    rows = ends = 0
    for _ in range(100):
        action = envs.action_space.sample()
        next_obs, reward, terminated, truncated, info = envs.step(action)
        rows += 4 - (ends if mode == "next_step" else 0)
        ends = int((terminated | truncated).sum())
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated,
                   info=info)
        obs = next_obs
    assert buffer.stats.appended == rows
    result = gpureplay.train(envs, eval_env=gpureplay.make_env("CartPole-v1"), device="cpu", threads=1, steps=200,
                             prepopulation=40, eval_episodes=1, progress=False)
    assert result.stats.env_steps == 200


def test_the_pages_examples_run(capsys):
    blocks = [block for block in blocks_of_page("environments.md") if "make_" in block]
    assert blocks
    for block in blocks:
        exec(compile(block, "environments.md", "exec"), {})


# MinAtar by its authors.


@pytest.mark.parametrize("name", [name.partition("/")[2] for name in GAMES if "/" in name])
def test_minatar_is_that_of_its_authors(name, monkeypatch):
    """With the same random numbers, in a vector of one and alone. The games themselves, and players that get further,
    are compared in tests/env/test_minatar.py."""
    minatar = pytest.importorskip("minatar")
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "env")
    numbers = importlib.import_module("our_numbers").OurNumbers(9)
    theirs = minatar.Environment({"SpaceInvaders": "space_invaders"}.get(name, name.lower()))
    theirs.random = theirs.env.random = numbers
    env = gpureplay.make_env(f"MinAtar/{name}")
    envs = gpureplay.make_vec(f"MinAtar/{name}", 1, autoreset="disabled")
    obs, _ = env.reset(seed=9)
    theirs.reset()
    assert np.array_equal(obs, theirs.state()) and np.array_equal(obs, envs.reset(seed=9)[0][0])
    for action in np.random.default_rng(1).integers(6, size=2000).tolist():
        reward, ended = theirs.act(action)
        found, many = env.step(action), envs.step([action])
        assert np.array_equal(found[0], theirs.state()) and found[1:4] == (reward, ended, False)
        assert np.array_equal(found[0], many[0][0]) and (many[1][0], many[2][0]) == (reward, ended)
        if ended:
            theirs.reset()
            assert np.array_equal(env.reset()[0], theirs.state())
            envs.reset()


