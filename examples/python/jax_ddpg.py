# SPDX-License-Identifier: MIT
"""DDPG in JAX, with the whole loop in one jax.lax.scan: 64 pendulums, acting, storing, drawing and training. Nothing of
it returns to Python until the scan ends, and the replay is a `LaneBuffer`, which stores each observation once.

    python3 jax_ddpg.py               needs `pip install jax`; --help tells more
"""

import argparse
import functools
import sys
from typing import NamedTuple

import gpureplay
from curve import draw, show

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    sys.exit(f"this example trains a network of JAX's: pip install {error.name}")

import gpureplay.jax

LANES, BATCH, TRAIN_STEPS, UNITS = 64, 256, 4, 64  # training steps for each step of all lanes; units of a layer
GAMMA, RATE, TAU, NOISE, REWARD_SCALE = 0.99, 1e-3, 0.005, 0.1, 0.1
MAX_TORQUE, MAX_SPEED, EPISODE = 2.0, 8.0, 200
RANDOM_STEPS = 20  # of all lanes, before the actor acts


# The pendulum: gravity 10 m/s^2, mass 1 kg, length 1 m, steps of 0.05 s, as Gymnasium's Pendulum-v1 has it.


class Pendulum(NamedTuple):
    angle: jax.Array  # from upright, rad
    speed: jax.Array  # rad/s
    steps: jax.Array  # in this episode


def reset(key, lanes):
    angle, speed = jax.random.uniform(key, (2, lanes), minval=-1.0)
    return Pendulum(jnp.pi * angle, speed, jnp.zeros(lanes, jnp.int32))


def observe(p):
    return jnp.stack([jnp.cos(p.angle), jnp.sin(p.angle), p.speed], 1)


def move(p, torque):
    """The pendulums after a step, and their rewards. The torque turns a rod: 3 / (m l^2), and gravity 3 g / (2 l)."""
    off = (p.angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
    reward = -(off**2 + 0.1 * p.speed**2 + 0.001 * torque**2)
    speed = jnp.clip(p.speed + 0.05 * (15 * jnp.sin(p.angle) + 3 * torque), -MAX_SPEED, MAX_SPEED)
    return Pendulum(p.angle + 0.05 * speed, speed, p.steps + 1), reward


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
    token: jax.Array  # orders the calls on the replay
    pendulums: Pendulum
    learner: Learner
    key: jax.Array
    steps: jax.Array


def step_of(lanes, state):
    """One step of all lanes, and then some of training."""
    key, random_key, noise_key, reset_key = jax.random.split(state.key, 4)
    before = state.pendulums
    obs, shape = observe(before), (LANES, 1)
    noisy = act(state.learner.nets["actor"], obs) + NOISE * MAX_TORQUE * jax.random.normal(noise_key, shape)
    blind = jax.random.uniform(random_key, shape, minval=-MAX_TORQUE, maxval=MAX_TORQUE)
    action = jnp.clip(jnp.where(state.steps < RANDOM_STEPS, blind, noisy), -MAX_TORQUE, MAX_TORQUE)
    after, reward = move(before, action[:, 0])
    truncated = after.steps >= EPISODE
    token = lanes.add(state.token, obs=obs, action=action, reward=reward, terminated=jnp.zeros(LANES, bool),
                      truncated=truncated, final_obs=observe(after))
    pendulums = jax.tree.map(lambda new, old: jnp.where(truncated, new, old), reset(reset_key, LANES), after)

    def train(carry, _):
        token, learner = carry
        token, batch = lanes.sample(token, BATCH)
        return (token, trained(learner, batch)), None

    (token, learner), _ = jax.lax.scan(train, (token, state.learner), length=TRAIN_STEPS)
    return State(token, pendulums, learner, key, state.steps + 1)


@functools.partial(jax.jit, static_argnums=0)
def begin(lanes, key):
    """Pendulums amid their episodes, so that these do not all end at once, and an untrained learner."""
    key, net_key, reset_key, steps_key = jax.random.split(key, 4)
    pendulums = reset(reset_key, LANES)._replace(steps=jax.random.randint(steps_key, (LANES,), 0, EPISODE))
    return State(lanes.init(), pendulums, learner(net_key), key, jnp.zeros((), jnp.int32))


@functools.partial(jax.jit, static_argnums=(0, 2))
def run(lanes, state, count):
    """So many steps of all lanes, in one scan."""
    return jax.lax.scan(lambda state, _: (step_of(lanes, state), None), state, length=count)[0]


@functools.partial(jax.jit, static_argnums=0)
def play(player, key, actor):
    """The mean return of 64 episodes."""
    def step(carry, key):
        pendulums, total = carry
        pendulums, reward = move(pendulums, player(key, actor, observe(pendulums)))
        return (pendulums, total + reward), None

    begin, *keys = jax.random.split(key, EPISODE + 1)
    return jax.lax.scan(step, (reset(begin, LANES), jnp.zeros(LANES)), jnp.stack(keys))[0][1].mean()


def by_chance(key, _, obs):
    return jax.random.uniform(key, obs.shape[:1], minval=-MAX_TORQUE, maxval=MAX_TORQUE)


def by_actor(_, actor, obs):
    return act(actor, obs)[:, 0]


def train(args, curve):
    """Adds (environment steps, mean return of 64 episodes) to the curve as it goes."""
    device = "cuda:0" if jax.default_backend() == "gpu" else "cpu"
    buffer = gpureplay.LaneBuffer(LANES, 1000, {"obs": ((3,), "float32"), "action": ((1,), "float32")}, gamma=GAMMA,
                                  seed=args.seed, device=device)
    lanes = gpureplay.jax.Lanes(buffer)
    key, play_key = jax.random.split(jax.random.key(args.seed))
    state = begin(lanes, key)
    chance = float(play(by_chance, play_key, state.learner.nets["actor"]))
    print(f"a random player's mean return is {chance:.0f}")
    for _ in range(args.parts):
        state = run(lanes, state, args.steps // args.parts)
        score = float(play(by_actor, play_key, state.learner.nets["actor"]))
        curve.append((int(state.steps) * LANES, score))
        show(int(state.steps) * LANES, args.steps * LANES, f"mean return {score:.0f}, of a random player {chance:.0f}")
    print(f"\n{buffer.stats.draws:,} batches of {BATCH} from {buffer!r}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--quick", action="store_true", help="a good half of the training")
parser.add_argument("--out", default="jax_ddpg.png", help="the picture of the learning curve")
args, curve = parser.parse_args(), []
args.steps, args.parts = (1200, 6) if args.quick else (2000, 10)  # steps of all lanes, and scans that they are in
try:
    train(args, curve)
    interrupted = False
except KeyboardInterrupt:
    interrupted = True
print("\ninterrupted" if interrupted else "")
draw(curve, args.out, title="Pendulum")
sys.exit(1 if interrupted else 0)
