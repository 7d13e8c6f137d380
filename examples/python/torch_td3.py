# SPDX-License-Identifier: MIT
"""TD3 on MuJoCo Playground: 64 cartpoles that step together and are to swing up. Their arrays go from JAX to PyTorch
and into a `LaneBuffer` without a copy, on the CPU and on a GPU, and the replay stores each observation once.

    python3 torch_td3.py                      needs `pip install playground torch`; --help tells more
    python3 torch_td3.py --learner built-in   FastTD3 by this library's own learner

Without --learner the networks and their train step are PyTorch's. Playground steps with MuJoCo Warp (--impl warp) or
with JAX's own MuJoCo (--impl jax), which is faster on the CPU.
"""

import argparse
import functools
import sys
import time

import gpureplay
from curve import draw, show

try:
    import jax
    import jax.numpy as jnp
    import torch
    from mujoco_playground import registry
except ModuleNotFoundError as error:
    package = {"mujoco_playground": "playground"}.get(error.name, error.name)
    sys.exit(f"this example trains a network of PyTorch's in MuJoCo Playground: pip install {package}")

ENV = "CartpoleSwingup"
LANES, BATCH, TRAIN_STEPS, UNITS = 64, 256, 4, 64  # training steps for each step of all lanes; units of a layer
REPEATS = 4  # of an action, each for one of Playground's steps
STEPS, KEPT = 2000, 1000  # of each lane: that a training has, and that the replay keeps
GAMMA, RATE, TAU = 0.99, 1e-3, 0.02
TARGET_NOISE, NOISE_CLIP, ACTOR_PERIOD = 0.2, 0.5, 2  # as in TD3
LEAST_NOISE, MOST_NOISE = 0.05, 1.0  # deviation of the actions of the first and of the last lane
RANDOM_STEPS = 100  # of all lanes, before the actor acts and is trained


class Simulator:
    """Environments of Playground that step together. What they give are PyTorch's arrays of JAX's memory. A lane whose
    episode ends begins anew in the same step, as it began first, which is how Playground's own wrapper resets."""

    def __init__(self, name, impl):
        given = registry.get_default_config(name)
        env = registry.load(name, config_overrides={"impl": impl, "ctrl_dt": REPEATS * given.ctrl_dt})
        self.num_obs, self.num_actions = env.observation_size, env.action_size
        self.episode = given.episode_length // REPEATS
        self._reset, self._move = jax.jit(jax.vmap(env.reset)), jax.jit(functools.partial(self._moved, env))

    def reset(self, seed, steps):
        """The state of the simulator, and the observations. steps: what each lane has behind it of its episode."""
        first = self._reset(jax.random.split(jax.random.key(seed), LANES))
        return (first, first, jnp.asarray(steps, jnp.int32)), torch.from_dlpack(first.obs)

    def _moved(self, env, state, action):
        first, before, steps = state
        after, steps = jax.vmap(env.step)(before, action), steps + 1
        terminated = after.done > 0
        truncated = (steps >= self.episode) & ~terminated
        ended = terminated | truncated

        def begun(new, old):
            if old.shape[:1] != (LANES,):  # Warp has room for contacts that all lanes share
                return old
            return jnp.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        data, obs = jax.tree.map(begun, (first.data, first.obs), (after.data, after.obs))
        begun_state = after.replace(data=data, obs=obs, done=jnp.zeros_like(after.done))
        return (first, begun_state, jnp.where(ended, 0, steps)), (obs, after.reward, terminated, truncated, after.obs)

    def step(self, state, action):
        """The next state and observations, the rewards, terminated, truncated, and the observations before resets."""
        state, found = self._move(state, jax.dlpack.from_dlpack(action.detach()))
        if not action.is_cuda:  # on a GPU PyTorch's stream waits
            jax.block_until_ready(found)
        return state, *map(torch.from_dlpack, found)


def network(inputs, outputs, *last):
    return torch.nn.Sequential(torch.nn.Linear(inputs, UNITS), torch.nn.ReLU(), torch.nn.Linear(UNITS, UNITS),
                               torch.nn.ReLU(), torch.nn.Linear(UNITS, outputs), *last)


class Torch:
    """TD3 [Fujimoto et al. 2018, algorithm 1] in PyTorch, on batches of the buffer."""

    def __init__(self, buffer, num_obs, num_actions, device, seed):
        self._buffer = buffer
        self.actor = network(num_obs, num_actions, torch.nn.Tanh()).to(device)
        self.critics = torch.nn.ModuleList(network(num_obs + num_actions, 1) for _ in range(2)).to(device)
        with torch.no_grad():
            self.actor[-2].weight *= 0.01  # so that it does not begin near the limits, where tanh is flat
        self._slow_actor = network(num_obs, num_actions, torch.nn.Tanh()).to(device)
        self._slow_critics = torch.nn.ModuleList(network(num_obs + num_actions, 1) for _ in range(2)).to(device)
        self._slow_actor.load_state_dict(self.actor.state_dict())
        self._slow_critics.load_state_dict(self.critics.state_dict())
        self._of_actor = torch.optim.Adam(self.actor.parameters(), lr=RATE, fused=True)
        self._of_critics = torch.optim.Adam(self.critics.parameters(), lr=RATE, fused=True)
        self._steps = 0

    def train(self, steps):
        for _ in range(steps):
            self._train(self._buffer.sample(BATCH))

    def _train(self, batch):
        """`discount` is gamma, and 0 where an episode terminated."""
        with torch.no_grad():
            noise = (TARGET_NOISE * torch.randn_like(batch["action"])).clamp_(-NOISE_CLIP, NOISE_CLIP)
            action = (self._slow_actor(batch["next_obs"]) + noise).clamp_(-1, 1)
            least = torch.minimum(*self._values(self._slow_critics, batch["next_obs"], action))
            wanted = batch["reward"] + batch["discount"] * least
        loss = sum(torch.nn.functional.mse_loss(value, wanted)
                   for value in self._values(self.critics, batch["obs"], batch["action"]))
        self._of_critics.zero_grad()
        loss.backward()
        self._of_critics.step()
        self._steps += 1
        if self._steps % ACTOR_PERIOD == 0:
            x = torch.cat([batch["obs"], self.actor(batch["obs"])], 1)
            self._of_actor.zero_grad()
            (-self.critics[0](x).mean()).backward()
            self._of_actor.step()
            self._follow(self._slow_actor, self.actor)
            self._follow(self._slow_critics, self.critics)

    def _values(self, critics, obs, action):
        x = torch.cat([obs, action], 1)
        return [critic(x)[:, 0] for critic in critics]

    def _follow(self, slow, net):
        with torch.no_grad():
            torch._foreach_lerp_(list(slow.parameters()), list(net.parameters()), TAU)


class BuiltIn:
    """FastTD3 [Seo et al. 2025] by this library: batches are drawn and trained on without leaving the device. Networks
    and batches are as small as PyTorch's above; the returns of this task lie between v_min and v_max."""

    def __init__(self, buffer, num_obs, num_actions, device, seed):
        self._learner = gpureplay.FastTD3(
            buffer, actor={"trunk": [UNITS, UNITS], "learning_rate": RATE, "weight_decay": 0.0},
            critic={"trunk": [UNITS, UNITS], "learning_rate": RATE, "weight_decay": 0.0, "atoms": 51, "v_min": 0.0,
                    "v_max": 100.0},
            batch_size=BATCH, target_rate=TAU, seed=seed)
        self._policy = self._learner.policy()

    def actor(self, obs):
        return torch.as_tensor(self._policy.act_vectors(obs), device=obs.device)

    def train(self, steps):
        self._learner.train(steps)
        self._policy.pull(self._learner)


LEARNERS = {"torch": Torch, "built-in": BuiltIn}


def play(simulator, player):
    """The mean return of an episode of each lane."""
    (state, obs), total = simulator.reset(0, [0] * LANES), 0.0
    for _ in range(simulator.episode):
        state, obs, reward, *_ = simulator.step(state, player(obs))
        total += reward.mean().item()
    return total


def train(buffer, simulator, seed, steps, parts, clock=time.perf_counter, learner=Torch):
    """Trains for so many steps of all lanes. Yields environment steps, mean return and seconds by the clock: before the
    first step those of a random player, and then after each of the parts."""
    torch.manual_seed(seed)
    behind = torch.randint(simulator.episode, (LANES,)).tolist()  # so that the episodes do not all end at once
    state, obs = simulator.reset(seed, behind)
    device, shape = obs.device, (LANES, simulator.num_actions)
    agent = learner(buffer, simulator.num_obs, simulator.num_actions, device, seed)
    deviation = torch.linspace(LEAST_NOISE, MOST_NOISE, LANES, device=device)[:, None]
    yield 0, play(simulator, lambda obs: torch.rand(shape, device=device) * 2 - 1), 0.0
    start = clock()
    for step in range(1, steps + 1):
        with torch.no_grad():
            action = torch.rand(shape, device=device) * 2 - 1 if step <= RANDOM_STEPS else \
                (agent.actor(obs) + deviation * torch.randn(shape, device=device)).clamp_(-1, 1)
        state, next_obs, reward, terminated, truncated, final_obs = simulator.step(state, action)
        buffer.add(obs=obs, action=action, reward=reward, terminated=terminated, truncated=truncated,
                   final_obs=final_obs)
        obs = next_obs
        if step > RANDOM_STEPS:
            agent.train(TRAIN_STEPS)
        if step % (steps // parts) == 0:
            seconds = clock() - start
            with torch.no_grad():
                score = play(simulator, agent.actor)
            yield step * LANES, score, seconds
            start = clock()


def lane_buffer(simulator, seed):
    fields = {"obs": ((simulator.num_obs,), "float32"), "action": ((simulator.num_actions,), "float32")}
    device = "cuda:0" if jax.default_backend() == "gpu" else "cpu"
    return gpureplay.LaneBuffer(LANES, KEPT, fields, gamma=GAMMA, seed=seed, device=torch.device(device))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default=ENV, help="an environment of Playground's control suite")
    parser.add_argument("--impl", default="warp" if jax.default_backend() == "gpu" else "jax", help="jax or warp")
    parser.add_argument("--learner", choices=LEARNERS, default="torch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the training, to see that it runs")
    parser.add_argument("--out", default="torch_td3.png", help="the picture of the learning curve")
    args, curve, interrupted = parser.parse_args(), [], False
    steps, parts = (200, 1) if args.quick else (STEPS, 5)
    torch.set_num_threads(1)  # layers this small gain nothing from more
    simulator = Simulator(args.env, args.impl)
    buffer = lane_buffer(simulator, args.seed)
    try:
        for done, score, _ in train(buffer, simulator, args.seed, steps, parts, learner=LEARNERS[args.learner]):
            curve.append((done, score))
            show(done, steps * LANES, f"mean return {score:.0f}, of a random player {curve[0][1]:.0f}")
        print(f"\n{TRAIN_STEPS * (steps - RANDOM_STEPS):,} train steps of {BATCH} on {buffer!r}")
    except KeyboardInterrupt:
        interrupted = True
    print("\ninterrupted" if interrupted else "")
    draw(curve, args.out, title=args.env)
    return int(interrupted)


if __name__ == "__main__":
    sys.exit(main())
