# SPDX-License-Identifier: MIT
"""The Atari plug-in against ale-py's AtariVectorEnv: the same seeds and actions give the same frames, rewards and ends,
byte for byte. And what that one does not have: lost lives, the last frame before the limit, saved states, errors.

The plug-in is built into build/atari, which takes a minute the first time. GPUR_TEST_LONG=1: every game of ALE.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import env_plugin
from env_plugin import Env, Failure, Plugin

try:
    import numpy as np
    from ale_py import roms
    from ale_py.vector_env import AtariVectorEnv
except ImportError as missing:
    print(f"skipped: {sys.executable} has no ale-py and Gymnasium ({missing})")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/atari"
LONG = os.environ.get("GPUR_TEST_LONG") == "1"
GAMES = ("pong", "breakout", "seaquest", "freeway", "ms_pacman", "qbert")
# Where ALE's own saved state is incomplete: a chip in the cartridge, flags of the rules; and other cartridges.
SAVED_GAMES = ("breakout", "ms_pacman", "pitfall2", "demon_attack", "chopper_command", "miniature_golf")


def build():
    """The plug-in, or the end of this test where it cannot be built."""
    done = subprocess.run(["bash", ROOT / "src/plugins/atari/build.sh", FOLDER], capture_output=True, text=True,
                          env={**os.environ, "PYTHON": sys.executable})
    if done.returncode == 3:
        print(f"skipped: {done.stderr.strip().splitlines()[-1]}")
        sys.exit(77)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return Plugin(FOLDER / "atari.so")


class Reference:
    """AtariVectorEnv with the same meaning and defaults of the options, and one game, which begins anew when it is told
    to."""

    NAMES = {"frame_skip": "frameskip", "fire_reset": "use_fire_reset", "sticky": "repeat_action_probability",
             "max_frames": "max_num_frames_per_episode", "episodic_life": "life_loss_info"}
    SWITCHES = ("fire_reset", "episodic_life", "grayscale", "maxpool", "full_action_space")

    def __init__(self, game, seed, **options):
        arguments = {self.NAMES.get(name, name): bool(value) if name in self.SWITCHES else value
                     for name, value in {"episodic_life": 1, **options}.items()}
        size = arguments.pop("size", 84)
        noop_max = arguments.pop("max_noops", 30) + 1  # theirs is one more than the most
        self.envs = AtariVectorEnv(game, 1, stack_num=1, reward_clipping=False, num_threads=1, img_height=size,
                                   img_width=size, noop_max=noop_max, **arguments)
        self.seed = seed

    def reset(self):
        obs, _ = self.envs.reset(seed=self.seed, options={"reset_mask": np.array([True])})
        self.seed = None  # the first game is that of the seed; the next ones follow
        return obs[0, 0]

    def step(self, action):
        obs, reward, terminated, truncated, _ = self.envs.step(np.array([action]))
        return obs[0, 0], float(reward[0]), bool(terminated[0]), bool(truncated[0])


def text_of(options):
    return ",".join(f"{name}={value}" for name, value in options.items())


def compare(kind, game, steps, seed=1, **options):
    """Plays both with the same random actions. Returns how many games ended, and how many lives were lost."""
    env, reference = Env(kind, text_of(options), seed), Reference(game, seed, **options)
    random, ended, lost, late = np.random.default_rng(seed), 0, 0, 0
    assert np.array_equal(env.reset(), reference.reset()), f"{game} {options}: the first frame"
    for step in range(steps):
        action = int(random.integers(env.actions))
        result = env.step(action)
        obs, reward, terminated, truncated = reference.step(action)
        where = f"{game} {options}, step {step}"
        assert (result.reward, result.terminated, result.truncated) == (reward + late, terminated, truncated), where
        assert truncated or np.array_equal(env.obs, obs), where
        late = 0
        if result.continues:
            lost += 1
            obs, late, terminated, truncated = reference.step(0)
            assert np.array_equal(env.reset(), obs) and not terminated and not truncated, where
        elif terminated or truncated:
            ended += 1
            assert np.array_equal(env.reset(), reference.reset()), where
    return ended, lost


def equals_ale_py_with_every_option(plugin):
    ended = {game: compare(plugin.type(game), game, 2000, episodic_life=0) for game in GAMES}
    assert all(games for game, (games, _) in ended.items() if game != "freeway"), ended
    lives = {game: compare(plugin.type(game), game, 1200, seed=2) for game in GAMES[1:]}
    assert all(lost for game, (_, lost) in lives.items() if game != "freeway"), lives
    for game, options in (("breakout", {"sticky": 0.25}), ("seaquest", {"grayscale": 0, "sticky": 0.5}),
                          ("pong", {"maxpool": 0}), ("ms_pacman", {"full_action_space": 1}),
                          ("breakout", {"frame_skip": 1, "size": 42}), ("qbert", {"frame_skip": 3, "size": 127}),
                          ("space_invaders", {"max_noops": 0, "fire_reset": 0}), ("air_raid", {"size": 16}),
                          ("seaquest", {"max_frames": 400, "max_noops": 100})):
        compare(plugin.type(game), game, 600, seed=2**31 - 1, **options)


def equals_ale_py_in_every_game(plugin):
    for game in roms.get_all_rom_ids():
        kind = plugin.type(game)
        if kind is not None:
            compare(kind, game, 300)


def the_last_frame_before_the_limit_is_a_frame(plugin):
    """AtariVectorEnv shows it where its own limit is a step later."""
    env, later = Env(plugin.type("seaquest"), "max_frames=200,episodic_life=0", 5), \
        Reference("seaquest", 5, max_frames=204, episodic_life=0)
    for _ in range(3):
        assert np.array_equal(env.reset(), later.reset())
        for step in range(50):
            result = env.step(step % 18)
            assert np.array_equal(env.obs, later.step(step % 18)[0]), step
        assert result.truncated and not result.terminated and not result.continues
    assert env.info.max_steps == 50
    env = Env(plugin.type("seaquest"), "max_frames=201,frame_skip=4,episodic_life=0")  # a step is never cut in two
    env.reset()
    assert env.info.max_steps == 51 and [env.step(0).truncated for _ in range(51)] == [0] * 50 + [1]
    env = Env(plugin.type("seaquest"), "max_frames=0")
    assert env.info.max_steps == 0


def played(env, random, steps):
    """What an environment shows in so many steps."""
    shown = []
    for _ in range(steps):
        result = env.step(int(random.integers(env.actions)))
        shown.append((env.obs.tobytes(), result.reward, result.terminated, result.truncated, result.continues))
        if result.terminated or result.truncated:
            shown.append(env.reset().tobytes())
    return shown


def a_saved_state_goes_on_with_the_same_bits(plugin):
    for game in roms.get_all_rom_ids() if LONG else SAVED_GAMES:
        kind, options = plugin.type(game), "sticky=0.25"
        if kind is None:
            continue
        first, second = Env(kind, options, 3), Env(kind, options, 4)
        assert first.info.save_bytes == second.info.save_bytes
        before, random = np.random.default_rng(3), np.random.default_rng(5)
        first.reset()
        second.reset()
        played(second, before, 25)
        for _ in range(4):
            played(first, before, 77)
            state = first.save()
            shown = played(first, np.random.default_rng(5), 150)
            second.load(state)
            assert np.array_equal(second.save(), state), game
            assert played(second, np.random.default_rng(5), 150) == shown, game


def threads_do_not_disturb_each_other(plugin):
    def play(game, shown):
        env = Env(plugin.type(game), "", 7)
        env.reset()
        shown[game] = played(env, np.random.default_rng(7), 300)

    alone, together = {}, {}
    for game in GAMES[:4]:
        play(game, alone)
    threads = [threading.Thread(target=play, args=(game, together)) for game in GAMES[:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == together


def refused(words, call, *arguments):
    try:
        call(*arguments)
    except Failure as failure:
        assert re.search(words, str(failure)), f"\"{failure}\" has no \"{words}\""
        return
    raise AssertionError(f"not refused, with \"{words}\"")


def names_find_games(plugin):
    """Gymnasium's names, which are listed, and ALE's own. ALE has no rules for a few of the ROMs."""
    with_rules = [game for game in roms.get_all_rom_ids() if plugin.type(game) is not None]
    assert len(with_rules) >= 100, with_rules
    for game in with_rules:
        name = game.title().replace("_", "")
        assert plugin.type(game).name.decode() == plugin.type(name).name.decode() == name, (game, name)
    listed = [plugin.name(index) for index in range(len(with_rules) + 1)]
    assert listed == [game.title().replace("_", "").encode() for game in sorted(with_rules)] + [None]
    assert plugin.name(-1) is None
    assert plugin.type("Tetriss") is None and plugin.type("pong.bin") is None
    kind = plugin.type("")
    assert Env(kind, "game=pong").actions == 6
    assert Env(kind, f"rom={FOLDER}/roms/breakout.bin").actions == 4


def errors_say_what_is_wrong(plugin):
    pong, any_game = plugin.type("Pong"), plugin.type("")
    for words, kind, options in (
            (r"neither option game nor option rom", any_game, ""),
            (r"unknown option \"game\"; known are sticky, frame_skip", pong, "game=pong"),
            (r"option \"sticky\" has no value", pong, "frame_skip=4,sticky"),
            (r"option frame_skip is \"0\"; it must be a whole number from 1 to 1000", pong, "frame_skip=0"),
            (r"option size is \"84\.5\"; .* from 16 to 159", pong, "size=84.5"),
            (r"option max_noops is \"\"", pong, "max_noops="),
            (r"option sticky is \"1\"; it must be a probability", pong, "sticky=1"),
            (r"option sticky is \"nan\"", pong, "sticky=nan"),
            (r"the ROM \"/nowhere/pong\.bin\" cannot be read: .*ALE_ROMS_DIR", pong, "roms=/nowhere"),
            (r"the ROM \".*roms\" cannot be read", pong, f"rom={FOLDER}/roms"),
            (r"breakout\.bin\" is the ROM of breakout; it must be that of pong", pong,
             f"rom={FOLDER}/roms/breakout.bin"),
            (r"the ROM \".*/sokoban\.bin\" cannot be read", any_game, "game=sokoban")):
        refused(words, Env, kind, options)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pong.bin").write_bytes(b"\x00" * 2048)
        refused(r"pong\.bin\" is not the ROM of pong: its MD5 is [0-9a-f]{32}, which must be", Env, pong,
                f"roms={folder}")
    env = Env(pong)
    refused("reset must be called before step", env.step, 0)
    env.reset()
    refused("action is 6; it must be 0 to 5", env.step, 6)
    refused("action is -1; it must be 0 to 5", env.step, -1)
    state = env.save()
    refused("is of \"pong,frame_skip=4.*\"; it must be of \"pong,frame_skip=2", Env(pong, "frame_skip=2").load, state)
    state[-1] ^= 1
    refused("damaged", env.load, state)
    refused("no state of an Atari game", env.load, np.zeros_like(state))
    env.step(0)


def help_names_every_option(plugin):
    """With its default, which is taken."""
    for name in ("Pong", ""):
        lines = plugin.type(name).options.decode().splitlines()
        options = [line.split()[0] for line in lines]
        assert {"frame_skip=4", "max_noops=30", "roms="} <= set(options) and ("game=" in options) == (name == "")
        given = [option for option in options if not option.endswith("=")]
        assert Env(plugin.type(name), ",".join([*given, *([] if name else ["game=pong"])])).save().size


def main():
    plugin = build()
    tests = [equals_ale_py_with_every_option, the_last_frame_before_the_limit_is_a_frame,
             a_saved_state_goes_on_with_the_same_bits, threads_do_not_disturb_each_other, names_find_games,
             errors_say_what_is_wrong, help_names_every_option]
    for test in tests + [equals_ale_py_in_every_game] * LONG:
        test(plugin)
        print(test.__name__.replace("_", " "), flush=True)


main()
