# SPDX-License-Identifier: MIT
"""A PyTorch agent that keeps its own network, loss and optimizer, and uses only the replay: batches come as tensors
that are the replay's memory, on the CPU and on a GPU.

    python3 torch_dqn.py               needs `pip install gymnasium torch`; --help tells more
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

ENVS, BATCH, GAMMA, LEARNING_STARTS = 8, 64, 0.99, 1000


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(),
                               torch.nn.Linear(128, 2))


def loss_of(batch, online, target):
    """Double DQN; `discount` is gamma, and 0 where the episode terminated."""
    with torch.no_grad():
        best = online(batch["next_obs"]).argmax(1, keepdim=True)
        value = batch["reward"] + batch["discount"] * target(batch["next_obs"]).gather(1, best)[:, 0]
    q = online(batch["obs"]).gather(1, batch["action"][:, None])[:, 0]
    return torch.nn.functional.smooth_l1_loss(q, value)


def train(args, curve):
    """Adds (steps, mean return of the last 20 episodes) to the curve as it goes."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # layers this small gain nothing from more
    device = "cuda" if torch.cuda.is_available() else "cpu"
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("CartPole-v1", num_envs=ENVS))
    buffer = gpureplay.ReplayBuffer.for_env(50_000, envs, device="cuda:0" if device == "cuda" else "cpu", gamma=GAMMA,
                                            seed=args.seed)
    online, target = network().to(device), network().to(device)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    obs, _ = envs.reset(seed=args.seed)
    envs.action_space.seed(args.seed)
    for step in range(0, args.steps, ENVS):
        greedy = online(torch.as_tensor(obs, device=device)).argmax(1).cpu().numpy()
        explores = torch.rand(ENVS).numpy() < max(0.04, 1 - step / 4000)
        action = np.where(explores, envs.action_space.sample(), greedy)
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
        obs = next_obs
        if step < LEARNING_STARTS:
            continue
        for _ in range(ENVS):
            optimizer.zero_grad()
            loss_of(buffer.sample(BATCH).torch(), online, target).backward()
            optimizer.step()
        if step % 128 == 0:
            target.load_state_dict(online.state_dict())
        if step % 1024 == 0:
            recent = list(envs.return_queue)[-20:]
            curve.append((step, float(np.mean(recent))))
            show(step, args.steps, f"last 20 episodes return {curve[-1][1]:.0f}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=30_000, help="environment steps")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--quick", action="store_const", dest="steps", const=3000, help="seconds, to see that it runs")
parser.add_argument("--out", default="torch_dqn.png", help="the picture of the learning curve")
args, curve = parser.parse_args(), []
try:
    train(args, curve)
    interrupted = False
except KeyboardInterrupt:
    interrupted = True
print("\ninterrupted" if interrupted else "")
draw(curve, args.out)
sys.exit(1 if interrupted else 0)
