# SPDX-License-Identifier: MIT
"""A recurrent agent in PyTorch that must remember: a signal at the start of a corridor tells which way to turn at its
end. It learns from overlapping sequences of a prioritized replay, with the recurrent state that was stored when it
acted, a burn-in and targets of several steps [R2D2: Kapturowski et al. 2019].

    python3 r2d2.py                    needs `pip install torch`
    python3 r2d2.py --state none       the same network without memory; --help tells more
"""

import argparse
import sys

import numpy as np

import gpureplay
from curve import draw, show

try:
    import torch
except ModuleNotFoundError as error:
    sys.exit(f"this example trains a network of PyTorch's: pip install {error.name}")

ENVS, CORRIDOR, LIMIT, UNITS = 16, 10, 60, 32  # LIMIT: steps, after which an episode is truncated
BATCH, LENGTH, EVERY, BURN_IN = 32, 16, 8, 4  # sequences, rows of each, steps from one to the next, rows of burn-in
GAMMA, N_STEP, COPY_EVERY, TRAIN_EVERY, STARTS = 0.97, 3, 100, 2, 2000  # STARTS counts environment steps
ETA = 0.9  # a sequence's priority: this part of the largest of its errors, the rest of their mean [section 2.3]
FORWARD, UP, DOWN = range(3)
EPSILON = 0.4 ** (1 + 7 * np.arange(ENVS) / (ENVS - 1))  # of each environment [Horgan et al. 2018, section 4.1]


class Corridor:
    """T-mazes that step together [Bakker 2001]. The signal, 1 or -1, is seen in the first step alone. At the end of the
    corridor UP is right if it was 1, and DOWN if it was -1: reward 1; the other way costs 1. A step against a wall
    costs 0.1. An observation is the signal, whether this is the end, and a 1."""

    def __init__(self, count, random):
        self._random = random
        self._signal, self._place, self._steps = np.zeros((3, count), int)
        self.reset(np.ones(count, bool))

    def reset(self, envs):
        self._signal[envs] = self._random.choice([-1, 1], envs.sum())
        self._place[envs] = self._steps[envs] = 0

    @property
    def obs(self):
        return np.stack([self._signal * (self._steps == 0), self._place == CORRIDOR,
                         np.ones_like(self._place)], 1).astype(np.float32)

    def step(self, action):
        """Returns a row of the replay, whose next_obs is of a new episode where one has ended."""
        row, at_end = {"obs": self.obs, "action": action}, self._place == CORRIDOR
        terminated = at_end & (action != FORWARD)
        right = (action == UP) == (self._signal == 1)
        walks = ~at_end & (action == FORWARD)
        self._place += walks
        self._steps += 1
        truncated = ~terminated & (self._steps == LIMIT)
        row |= {"reward": np.where(terminated, np.where(right, 1, -1), np.where(walks, 0, -0.1)), "final_obs": self.obs,
                "terminated": terminated, "truncated": truncated}
        self.reset(terminated | truncated)
        return {**row, "next_obs": self.obs}


class Network(torch.nn.Module):
    """Q values of a dueling network behind an LSTM."""

    def __init__(self, remembers):
        super().__init__()
        self.remembers = remembers
        self.lstm = torch.nn.LSTM(3, UNITS, batch_first=True)
        self.heads = torch.nn.Linear(UNITS, 3 + 1)

    def forward(self, obs, state):
        """Q values (batch, length, 3) of observations (batch, length, 3), and the state behind them. state: (batch,
        2 UNITS)."""
        if self.remembers:
            out, hidden = self.lstm(obs, tuple(state[None].contiguous().split(UNITS, 2)))
            state = torch.cat(hidden, 2)[0]
        else:  # each observation is the first
            out = self.lstm(obs.reshape(-1, 1, 3))[0].reshape(*obs.shape[:2], UNITS)
        heads = self.heads(out)
        return heads[..., :3] - heads[..., :3].mean(2, keepdim=True) + heads[..., 3:], state


def rescale(x):
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x  # [section 2.3]


def rescale_back(x):
    return x.sign() * ((((1 + 4e-3 * (x.abs() + 1 + 1e-3)).sqrt() - 1) / 2e-3) ** 2 - 1)


def unroll(network, batch):
    """Q values of each row's observation, and of the one behind the last row, which within an episode is the next_obs
    of the row before. The burn-in only brings the recurrent state up to date, but where an episode begins the state is
    exact, and all rows are learned from."""
    obs = torch.cat((batch["obs"][:, :1], batch["next_obs"]), 1)
    burned, state = network(obs[:, :BURN_IN], batch["state"][:, 0])
    q, _ = network(obs[:, BURN_IN:], torch.where(batch["is_first"][:, :1], state, state.detach()))
    return torch.cat((burned, q), 1)


def returns_of(batch, value):
    """Returns of N_STEP steps, or up to the sequence's last row, and then the value of what came after."""
    count = batch["mask"].sum(1, keepdim=True)
    row = torch.arange(LENGTH)[None]
    found = value.gather(1, torch.minimum(row + N_STEP, count))
    for step in reversed(range(N_STEP)):
        at = (row + step).clamp(max=LENGTH - 1).expand(len(count), -1)
        earlier = batch["reward"].gather(1, at) + batch["discount"].gather(1, at) * found
        found = torch.where(row + step < count, earlier, found)
    return found


def errors_of(batch, online, target):
    """TD errors by double Q-learning, (BATCH, LENGTH), and which of them are learned from."""
    q = unroll(online, batch)
    with torch.no_grad():
        value = unroll(target, batch).gather(2, q.argmax(2, keepdim=True))[..., 0]
        wanted = rescale(returns_of(batch, rescale_back(value)))
    chosen = q[:, :-1].gather(2, batch["action"][..., None])[..., 0]
    learned = batch["mask"] & ((torch.arange(LENGTH) >= BURN_IN) | batch["is_first"][:, :1])
    return (wanted - chosen) * learned, learned


def learn(args, buffer, online, target, optimizer):
    batch = buffer.sample_sequences(BATCH).torch()
    if args.state == "zero":
        batch["state"] = torch.zeros_like(batch["state"])
    errors, learned = errors_of(batch, online, target)
    count = learned.sum(1).clamp(min=1)
    loss = (errors ** 2).sum(1) / count * batch["weight"][:, 0]
    optimizer.zero_grad()
    loss.mean().backward()
    torch.nn.utils.clip_grad_norm_(online.parameters(), 10)
    optimizer.step()
    sizes = errors.detach().abs()
    last = batch["id"].max(1).values  # ids rise along a sequence
    buffer.update_priorities(last, ETA * sizes.amax(1) + (1 - ETA) * sizes.sum(1) / count)


def act(network, obs, state, epsilon, random):
    with torch.no_grad():
        q, state = network(torch.as_tensor(obs)[:, None], state)
    explores = random.random(len(obs)) < epsilon
    return np.where(explores, random.integers(0, 3, len(obs)), q[:, 0].argmax(1).numpy()), state


def success_rate(network, episodes=200):
    """The share of greedy episodes that turn the right way at the end."""
    envs, random = Corridor(episodes, np.random.default_rng(0)), np.random.default_rng(0)
    state, ended, right = torch.zeros(episodes, 2 * UNITS), np.zeros(episodes, bool), np.zeros(episodes, bool)
    for _ in range(LIMIT):
        action, state = act(network, envs.obs, state, 0, random)
        row = envs.step(action)
        right |= ~ended & (row["reward"] == 1)
        ended |= row["terminated"] | row["truncated"]
    return right.mean()


def train(args, curve):
    """Adds (steps, success rate) to the curve as it goes."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # layers this small gain nothing from more
    fields = {"obs": ((3,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((3,), "float32"),
              "terminated": "bool", "truncated": "bool", "state": ((2 * UNITS,), "float32")}
    buffer = gpureplay.ReplayBuffer(50_000, fields, device="cpu", num_envs=ENVS, autoreset="same_step", gamma=GAMMA,
                                    sequences=(LENGTH, EVERY), prioritized=True, alpha=0.9, beta=0.6, seed=args.seed)
    online, target = (Network(args.state != "none") for _ in range(2))
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    envs, random = Corridor(ENVS, np.random.default_rng(args.seed)), np.random.default_rng(args.seed)
    state = torch.zeros(ENVS, 2 * UNITS)
    for step in range(ENVS, args.steps + 1, ENVS):
        action, next_state = act(online, envs.obs, state, EPSILON, random)
        row = envs.step(action)
        buffer.add(**row, state=state.numpy())
        state = next_state * torch.as_tensor(~(row["terminated"] | row["truncated"]))[:, None]
        if step >= STARTS and step // ENVS % TRAIN_EVERY == 0:
            learn(args, buffer, online, target, optimizer)
        if step // ENVS % (COPY_EVERY * TRAIN_EVERY) == 0:
            target.load_state_dict(online.state_dict())
        if step % (args.steps // 10) < ENVS:
            curve.append((step, success_rate(online)))
            show(step, args.steps, f"{curve[-1][1]:.1%} of greedy episodes turn the right way")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=80_000, help="environment steps")
    parser.add_argument("--state", choices=["stored", "zero", "none"], default="stored",
                        help="what sequences begin with: the state that was stored, zeros, or nothing is remembered")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_const", dest="steps", const=4000, help="seconds, to see that it runs")
    parser.add_argument("--out", default="r2d2.png", help="the picture of the learning curve")
    args, curve = parser.parse_args(), []
    try:
        train(args, curve)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    print("\ninterrupted" if interrupted else "")
    draw(curve, args.out, title="T-maze")
    sys.exit(1 if interrupted else 0)
