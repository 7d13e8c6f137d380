# SPDX-License-Identifier: MIT
"""DDPG in JAX on gymnax's Pendulum-v1, with the whole loop in one jax.lax.scan: 64 environments, acting, storing,
drawing and training. Nothing of it returns to Python until the scan ends, and the replay is a `LaneBuffer`, which
stores each observation once.

    python3 jax_ddpg.py               needs `pip install "gymnax>=1" six`; --help tells more
"""

import argparse
import functools
import sys
import time
from typing import Any, NamedTuple

import gpureplay
from curve import draw, show

try:
    import jax
    import jax.numpy as jnp
    import gymnax
except ModuleNotFoundError as error:  # six: gymnax 1.0.1 needs it, and does not say so
    sys.exit(f"this example trains a network of JAX's on gymnax's Pendulum: pip install {error.name}")

import gpureplay.jax

LANES, BATCH, TRAIN_STEPS, UNITS = 64, 256, 4, 64  # training steps for each step of all lanes; units of a layer
KEPT = 1000  # steps of each lane in the replay
GAMMA, RATE, TAU, NOISE, REWARD_SCALE = 0.99, 1e-3, 0.005, 0.1, 0.1
RANDOM_STEPS = 20  # of all lanes, before the actor acts and is trained

ENV, PARAMS = gymnax.make("Pendulum-v1")
MAX_TORQUE, EPISODE = PARAMS.max_torque, PARAMS.max_steps_in_episode
FIELDS = {"obs": ((3,), "float32"), "action": ((1,), "float32")}


def reset(key, lanes=LANES):
    return jax.vmap(ENV.reset, (0, None))(jax.random.split(key, lanes), PARAMS)


def move(key, pendulums, action):
    """A step of all of them. An episode that ends begins anew in the same step; info has its final observation."""
    return jax.vmap(ENV.step, (0, 0, 0, None))(jax.random.split(key, len(action)), pendulums, action, PARAMS)


# Networks of two layers, and Adam.


def network(key, inputs):
    sizes = [inputs, UNITS, UNITS, 1]
    return [(jax.random.uniform(k, (m, n), minval=-1, maxval=1) / m**0.5, jnp.zeros(n))
            for k, m, n in zip(jax.random.split(key, 3), sizes, sizes[1:])]


def output(net, x):
    for weight, bias in net[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ net[-1][0] + net[-1][1]


def act(actor, obs):
    return MAX_TORQUE * jnp.tanh(output(actor, obs))


def value(critic, obs, action):
    return output(critic, jnp.concatenate([obs, action], 1))[:, 0]


class Learner(NamedTuple):
    nets: dict    # "actor", "critic"
    target: dict  # slow copies
    first: dict   # Adam's moments
    second: dict
    steps: jax.Array


def learner(key):
    one, other = jax.random.split(key)
    nets = {"actor": network(one, 3), "critic": network(other, 4)}
    zeros = jax.tree.map(jnp.zeros_like, nets)
    return Learner(nets, nets, zeros, zeros, jnp.zeros((), jnp.int32))


def loss_of(nets, target, batch):
    """[Lillicrap et al. 2016, equations 4 and 6]; `discount` is gamma, and 0 where an episode terminated."""
    follow = value(target["critic"], batch["next_obs"], act(target["actor"], batch["next_obs"]))
    wanted = REWARD_SCALE * batch["reward"] + batch["discount"] * follow
    error = wanted - value(nets["critic"], batch["obs"], batch["action"])
    critic = jax.lax.stop_gradient(nets["critic"])
    return jnp.mean(error**2) - jnp.mean(value(critic, batch["obs"], act(nets["actor"], batch["obs"])))


def trained(learner, batch):
    """One step of Adam [Kingma & Ba 2015, algorithm 1] on both networks, and of their slow copies."""
    slopes = jax.grad(loss_of)(learner.nets, learner.target, batch)
    steps = learner.steps + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, learner.first, slopes)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, learner.second, slopes)
    nets = jax.tree.map(lambda w, m, v: w - RATE * (m / (1 - 0.9**steps)) / (jnp.sqrt(v / (1 - 0.999**steps)) + 1e-8),
                        learner.nets, first, second)
    target = jax.tree.map(lambda slow, w: slow + TAU * (w - slow), learner.target, nets)
    return Learner(nets, target, first, second, steps)


# The loop.


class State(NamedTuple):
    token: Any  # orders the calls on the replay
    obs: jax.Array
    pendulums: Any  # gymnax's
    learner: Learner
    key: jax.Array
    steps: jax.Array


def step_of(lanes, state):
    """One step of all lanes, and then some of training."""
    key, random_key, noise_key, move_key = jax.random.split(state.key, 4)
    shape = LANES, 1
    noisy = act(state.learner.nets["actor"], state.obs) + NOISE * MAX_TORQUE * jax.random.normal(noise_key, shape)
    blind = jax.random.uniform(random_key, shape, minval=-MAX_TORQUE, maxval=MAX_TORQUE)
    action = jnp.clip(jnp.where(state.steps < RANDOM_STEPS, blind, noisy), -MAX_TORQUE, MAX_TORQUE)
    obs, pendulums, reward, terminated, truncated, info = move(move_key, state.pendulums, action)
    token = lanes.add(state.token, obs=state.obs, action=action, reward=reward, terminated=terminated,
                      truncated=truncated, final_obs=info["final_observation"])

    def train(carry, _):
        token, learner = carry
        token, batch = lanes.sample(token, BATCH)
        return (token, trained(learner, batch)), None

    token, learner = jax.lax.cond(state.steps < RANDOM_STEPS, lambda both: both,
                                  lambda both: jax.lax.scan(train, both, length=TRAIN_STEPS)[0], (token, state.learner))
    return State(token, obs, pendulums, learner, key, state.steps + 1)


@functools.partial(jax.jit, static_argnums=0)
def begin(lanes, key):
    """Pendulums amid their episodes, so that these do not all end at once, and an untrained learner."""
    key, net_key, reset_key, steps_key = jax.random.split(key, 4)
    obs, pendulums = reset(reset_key)
    time = jax.random.randint(steps_key, (LANES,), 0, EPISODE)
    pendulums = pendulums.replace(time=time, last_u=jnp.zeros(LANES))  # strongly typed, as a step leaves them
    return State(lanes.init(), obs, pendulums, learner(net_key), key, jnp.zeros((), jnp.int32))


@functools.partial(jax.jit, static_argnums=(0, 2))
def run(lanes, state, count):
    """So many steps of all lanes, in one scan."""
    return jax.lax.scan(lambda state, _: (step_of(lanes, state), None), state, length=count)[0]


@functools.partial(jax.jit, static_argnums=0)
def play(player, key, actor):
    """The mean return of 64 episodes."""
    def step(carry, key):
        obs, pendulums, total = carry
        act_key, move_key = jax.random.split(key)
        obs, pendulums, reward, *_ = move(move_key, pendulums, player(act_key, actor, obs))
        return (obs, pendulums, total + reward), None

    begin, *keys = jax.random.split(key, EPISODE + 1)
    return jax.lax.scan(step, (*reset(begin), jnp.zeros(LANES)), jnp.stack(keys))[0][2].mean()


def by_chance(key, _, obs):
    return jax.random.uniform(key, (len(obs), 1), minval=-MAX_TORQUE, maxval=MAX_TORQUE)


def by_actor(_, actor, obs):
    return act(actor, obs)


def train(lanes, seed, steps, parts, clock=time.perf_counter):
    """Trains for so many steps of all lanes, in so many scans. Yields environment steps, mean return and the scan's
    seconds by the clock: before the first one those of a random player, and then after each."""
    key, play_key = jax.random.split(jax.random.key(seed))
    state = begin(lanes, key)
    yield 0, float(play(by_chance, play_key, state.learner.nets["actor"])), 0.0
    for _ in range(parts):
        start = clock()
        state = jax.block_until_ready(run(lanes, state, steps // parts))
        seconds = clock() - start
        yield int(state.steps) * LANES, float(play(by_actor, play_key, state.learner.nets["actor"])), seconds


def lane_buffer(seed):
    device = "cuda:0" if jax.default_backend() == "gpu" else "cpu"
    return gpureplay.LaneBuffer(LANES, KEPT, FIELDS, gamma=GAMMA, seed=seed, device=device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a good half of the training")
    parser.add_argument("--out", default="jax_ddpg.png", help="the picture of the learning curve")
    args, curve, interrupted = parser.parse_args(), [], False
    steps, parts = (1200, 6) if args.quick else (2000, 10)  # steps of all lanes, and scans that they are in
    buffer = lane_buffer(args.seed)
    try:
        for done, score, _ in train(gpureplay.jax.Lanes(buffer), args.seed, steps, parts):
            curve.append((done, score))
            show(done, steps * LANES, f"mean return {score:.0f}, of a random player {curve[0][1]:.0f}")
        print(f"\n{buffer.stats.draws:,} batches of {BATCH} from {buffer!r}")
    except KeyboardInterrupt:
        interrupted = True
    print("\ninterrupted" if interrupted else "")
    draw(curve, args.out, title="Pendulum")
    return int(interrupted)


if __name__ == "__main__":
    sys.exit(main())
