# SPDX-License-Identifier: MIT
"""A recurrent agent in PyTorch that learns CartPole without seeing velocities: it must remember where the pole was. It
learns from sequences of a prioritized replay, with the recurrent state that was stored when it acted, and a burn-in
[R2D2: Kapturowski et al. 2019].

    python3 r2d2.py                    needs `pip install gymnasium torch`; --help tells more
"""

import argparse
import sys

import numpy as np

import gpureplay
from curve import draw, show

try:
    import gymnasium
    import torch
except ModuleNotFoundError as error:
    sys.exit(f"this example trains a network of PyTorch's on Gymnasium's CartPole: pip install {error.name}")

ENVS, SEEN, HIDDEN = 8, [0, 2], 64  # what the agent sees of an observation: the position and the angle
BATCH, LENGTH, BURN_IN = 32, 40, 8  # sequences, rows of one, and rows that only bring the recurrent state up to date
GAMMA, COPY_EVERY, LEARNING_STARTS = 0.99, 200, 2000  # the second in train steps, the third in environment steps
ETA = 0.9  # a sequence's priority: this part of the largest of its errors, the rest of their mean [section 2.3]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(len(SEEN), HIDDEN, batch_first=True)
        self.q = torch.nn.Linear(HIDDEN, 2)

    def forward(self, obs, state):
        """Q values of (batch, length) observations, and the state behind them. state: (batch, 2 HIDDEN)."""
        h, c = state[None, :, :HIDDEN].contiguous(), state[None, :, HIDDEN:].contiguous()
        out, (h, c) = self.lstm(obs, (h, c))
        return self.q(out), torch.cat((h[0], c[0]), 1)


def errors_of(batch, online, target):
    """TD errors by double Q-learning, (BATCH, LENGTH), and which of them are learned from: not those behind a
    sequence's last row, nor of the burn-in, which a sequence from an episode's first row does not need. Within an
    episode the observation of a row is the next_obs of the row before."""
    obs = torch.cat((batch["obs"][:, :1], batch["next_obs"]), 1)
    state = batch["state"][:, 0]
    q, _ = online(obs, state)
    with torch.no_grad():
        best = q[:, 1:].argmax(2, keepdim=True)
        value = target(obs, state)[0][:, 1:].gather(2, best)[..., 0]
    chosen = q[:, :-1].gather(2, batch["action"][..., None])[..., 0]
    learned = batch["mask"] & ((torch.arange(LENGTH) >= BURN_IN) | batch["is_first"][:, :1])
    return (batch["reward"] + batch["discount"] * value - chosen) * learned, learned


def train(args, curve):
    """Adds (steps, mean return of the last 50 episodes) to the curve as it goes."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # layers this small gain nothing from more
    envs = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="sync",
                              vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs, buffer_length=50)
    seen = ((len(SEEN),), "float32")
    fields = {"obs": seen, "action": "int64", "reward": "float32", "next_obs": seen, "terminated": "bool",
              "truncated": "bool", "state": ((2 * HIDDEN,), "float32")}
    buffer = gpureplay.ReplayBuffer(50_000, fields, device="cpu", num_envs=ENVS, autoreset="same_step", gamma=GAMMA,
                                    sequences=True, prioritized=True, alpha=0.9, beta=0.6, seed=args.seed)
    online, target = Network(), Network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    random = np.random.default_rng(args.seed)
    obs = envs.reset(seed=args.seed)[0][:, SEEN]
    state = torch.zeros(ENVS, 2 * HIDDEN)
    for step in range(0, args.steps, ENVS):
        with torch.no_grad():
            q, next_state = online(torch.as_tensor(obs)[:, None], state)
        explores = random.random(ENVS) < max(0.02, 1 - step / 10_000)
        action = np.where(explores, random.integers(0, 2, ENVS), q[:, 0].argmax(1).numpy())
        next_obs, reward, terminated, truncated, info = envs.step(action)
        buffer.add(obs=obs, action=action, reward=reward / 10, next_obs=next_obs[:, SEEN], terminated=terminated,
                   truncated=truncated, state=state.numpy(), final_obs=final_obs(next_obs, info)[:, SEEN])
        obs, state = next_obs[:, SEEN], next_state * torch.as_tensor(~(terminated | truncated))[:, None]
        if step >= LEARNING_STARTS:
            learn(buffer, online, target, optimizer)
            if step // ENVS % COPY_EVERY == 0:
                target.load_state_dict(online.state_dict())
        if step > 0 and step % 2048 == 0 and envs.return_queue:
            curve.append((step, float(np.mean(envs.return_queue))))
            show(step, args.steps, f"last 50 episodes return {curve[-1][1]:.0f}")


def final_obs(next_obs, info):
    """The last observations of episodes that ended in this step; of the others next_obs."""
    final = next_obs.copy()
    for env in np.flatnonzero(info.get("_final_obs", ())):
        final[env] = info["final_obs"][env]
    return final


def learn(buffer, online, target, optimizer):
    """A train step. Sequences do not go on from one episode to the next, and may be shorter than LENGTH."""
    batch = buffer.sample_sequences(BATCH, LENGTH, across_episodes=False)
    tensors = batch.torch()
    errors, learned = errors_of(tensors, online, target)
    count = learned.sum(1).clamp(min=1)
    loss = torch.nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none").sum(1) / count
    optimizer.zero_grad()
    (loss * tensors["weight"][:, 0]).mean().backward()
    torch.nn.utils.clip_grad_norm_(online.parameters(), 10)
    optimizer.step()
    sizes = errors.detach().abs()
    last = batch.id[np.arange(BATCH), batch.mask.sum(1) - 1]
    buffer.update_priorities(last, (ETA * sizes.amax(1) + (1 - ETA) * sizes.sum(1) / count).numpy())


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=60_000, help="environment steps")
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
draw(curve, args.out, title="CartPole-v1 without velocities")
sys.exit(1 if interrupted else 0)
