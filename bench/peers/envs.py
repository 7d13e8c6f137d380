#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Steps a second of many environments: the library's games by `make_vec` beside gymnax, pgx, EnvPool and Gymnasium.

    python3 -m venv build/envs && build/envs/bin/pip install -r bench/peers/requirements-envs.txt .
    build/envs/bin/python bench/peers/envs.py --threads 1 --json envs.json

Actions are random ones, made before. Each library steps in its fastest way for a caller of any kind: gymnax and pgx,
which are JAX, take 64 steps in one compiled call, with their observations computed at each; the others take one step a
call, and give arrays of NumPy. Gymnasium's CartPole is its vectorized one; its MinAtar is the authors' package. Games
of MinAtar have the actions that have an effect in them. gymnax has no Seaquest, pgx no control, EnvPool no MinAtar.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import common
import numpy as np
from common import OURS

ROUNDS, QUICK_ROUNDS = 11, 6
SECONDS, QUICK_SECONDS = 0.15, 0.02  # of a sample, at least
SIZES, QUICK_SIZES = (64, 1024), (64,)
ACTIONS = 64  # steps whose actions differ, and of a compiled call
GAMES = {"CartPole-v1": "CartPole-v1", "Pendulum": "Pendulum-v1", "MinAtar/Asterix": "asterix",
         "MinAtar/Breakout": "breakout", "MinAtar/Freeway": "freeway", "MinAtar/Seaquest": "seaquest",
         "MinAtar/SpaceInvaders": "space_invaders"}  # ids of Gymnasium, and names of MinAtar's games
Step = Callable[[], int]  # takes some steps of all environments, and returns how many


class Missing(Exception):
    """The library has no such game."""


def is_minatar(game: str) -> bool:
    return game.startswith("MinAtar/")


def stepping(envs: Any, actions: Sequence[Any]) -> Step:
    """One step a call."""
    following = itertools.cycle(actions)

    def step() -> int:
        envs.step(next(following))
        return 1

    return step


def of_gymnasium(envs: Any) -> Step:
    """A vector environment of Gymnasium's kind."""
    envs.reset(seed=1)
    envs.action_space.seed(1)
    return stepping(envs, [envs.action_space.sample() for _ in range(ACTIONS)])


def ours(game: str, num_envs: int, threads: int) -> Step:
    import gpureplay

    options = "minimal_actions=1" if is_minatar(game) else ""
    return of_gymnasium(gpureplay.make_vec(game, num_envs, env_options=options, autoreset="same_step"))


def gymnasium_(game: str, num_envs: int, threads: int) -> Step:
    import gymnasium

    name = f"{game}-v1" if is_minatar(game) else GAMES[game]
    if is_minatar(game) and name not in gymnasium.registry:
        importlib.import_module("minatar.gym").register_envs()
    return of_gymnasium(gymnasium.make_vec(name, num_envs=num_envs))


def envpool_(game: str, num_envs: int, threads: int) -> Step:
    import envpool

    if is_minatar(game):
        raise Missing("it has no MinAtar")
    envs = envpool.make(GAMES[game], env_type="gymnasium", num_envs=num_envs, num_threads=threads, seed=1)
    envs.reset()
    draw = np.random.default_rng(1)
    space = envs.action_space
    shape = (ACTIONS, num_envs, *space.shape)
    actions = draw.uniform(space.low, space.high, shape) if hasattr(space, "low") else \
        draw.integers(space.n, size=shape)
    return stepping(envs, list(actions.astype(space.dtype)))


def scanning(jax: Any, take: Callable[[Any, Any, Any], Any], state: Any, actions: Any) -> Step:
    """Steps of an environment in JAX, in one compiled call. take(state, action, key) returns the next state, with the
    observations in it."""

    def many(state: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(actions) + 1)
        return jax.lax.scan(lambda now, given: (take(now, *given), None), state, (actions, keys[1:]))[0], keys[0]

    call, held = jax.jit(many), [(state, jax.random.key(2))]

    def step() -> int:
        held[0] = jax.block_until_ready(call(*held[0]))
        return len(actions)

    return step


def gymnax_(game: str, num_envs: int, threads: int) -> Step:
    import gymnax
    import jax

    name = f"{game.partition('/')[2]}-MinAtar" if is_minatar(game) else GAMES[game]
    if name not in gymnax.registered_envs:
        raise Missing(f"it has no {name}")
    env, params = gymnax.make(name)
    shown, state = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.key(1), num_envs), params)
    zeros = jax.numpy.zeros(num_envs)
    step = jax.vmap(env.step, (0, 0, 0, None))

    def take(now: Any, action: Any, key: Any) -> Any:
        return step(jax.random.split(key, num_envs), now[1], action, params)[:4]

    space = env.action_space(params)
    actions = jax.vmap(jax.vmap(space.sample))(
        jax.random.split(jax.random.key(3), ACTIONS * num_envs).reshape(ACTIONS, num_envs))
    first = take((shown, state, zeros, zeros), actions[0], jax.random.key(4))
    return scanning(jax, take, first, actions)


def pgx_(game: str, num_envs: int, threads: int) -> Step:
    import jax
    import pgx

    if not is_minatar(game):
        raise Missing(f"it has no {game}")
    wrappers = importlib.import_module("pgx.experimental.wrappers")
    env = pgx.make(f"minatar-{GAMES[game]}")
    state = jax.vmap(env.init)(jax.random.split(jax.random.key(1), num_envs))
    step = jax.vmap(wrappers.auto_reset(env.step, env.init))
    actions = jax.random.randint(jax.random.key(3), (ACTIONS, num_envs), 0, env.num_actions)
    return scanning(jax, lambda now, action, key: step(now, action, jax.random.split(key, num_envs)), state, actions)


MAKERS: dict[str, Callable[[str, int, int], Step]] = {
    OURS: ours, "gymnax": gymnax_, "pgx": pgx_, "EnvPool": envpool_, "Gymnasium": gymnasium_}


def seconds_of(step: Step, num_envs: int, least: float) -> float:
    """Of a step of one environment."""
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < least:
        steps += step()
    return passed / (steps * num_envs)


def case_of(game: str, num_envs: int, given: argparse.Namespace) -> dict[str, Any]:
    name, least = f"{game}, {num_envs:,} environments", QUICK_SECONDS if given.quick else SECONDS
    found, absent = {}, {}
    for who, make in MAKERS.items():
        if given.only is not None and who not in (OURS, *given.only.split(",")):
            continue
        common.show(f"{name}: {who}")
        try:
            found[who] = make(game, num_envs, given.threads)
            seconds_of(found[who], num_envs, least)  # which compiles
        except (ImportError, Missing) as error:
            found.pop(who, None)
            absent[who] = common.error_text(error)
    samples: dict[str, list[float]] = {who: [] for who in found}
    for round_ in range(given.rounds):
        common.show(f"{name}: round {round_ + 1} of {given.rounds}")
        for who, step in found.items():
            samples[who].append(seconds_of(step, num_envs, least))
    return {"name": name, "game": game, "num_envs": num_envs, "variants": common.variants(samples, absent)}


def main(arguments: list[str]) -> None:
    parser = common.parser_of(__doc__, ROUNDS, "a short try", "libraries")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for each, and cores for the process (1)")
    parser.add_argument("--games", help="games, separated by commas (all)")
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    cores = common.use_threads(given.threads, on_cuda=False)
    head = {"title": "steps of environments", "machine": common.describe_machine(), "device": "cpu",
            "threads": given.threads, "cores": cores, "rounds": given.rounds, "interrupted": False}
    games: Iterable[str] = GAMES if given.games is None else given.games.split(",")
    cases = (case_of(game, count, given) for game in games for count in (QUICK_SIZES if given.quick else SIZES))
    done = common.collect(head, cases, given.json)
    sys.path.append(str(common.HERE.parent))
    importlib.import_module("table").print_env_steps({**head, "cases": done})


if __name__ == "__main__":
    main(sys.argv[1:])
