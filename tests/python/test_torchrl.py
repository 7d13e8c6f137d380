# SPDX-License-Identifier: MIT
"""A batch as a TensorDict, as docs/python.md shows it, in a loss of TorchRL's. Skipped where PyTorch, tensordict or
TorchRL are missing; to run it, `pip install torchrl`."""

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tensordict = pytest.importorskip("tensordict")
objectives = pytest.importorskip("torchrl.objectives")

from torchrl.data import Categorical  # noqa: E402
from torchrl.modules import QValueActor  # noqa: E402

import gpureplay  # noqa: E402

GUIDE = Path(__file__).resolve().parents[2] / "docs/python.md"
FIELDS = {"obs": ((4,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((4,), "float32"),
          "terminated": "bool", "truncated": "bool"}


def shown():
    """The function in the document."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.S | re.M)
    [code] = [block for block in blocks if "def to_tensordict" in block]
    names = {}
    exec(code, names)  # noqa: S102
    return names["to_tensordict"]


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(200, FIELDS, device="cpu", prioritized=True) as made:
        random, count = np.random.default_rng(1), 150
        obs = random.normal(size=(count, 4))
        made.extend(obs=obs, action=random.integers(0, 2, count), reward=obs[:, 0],
                    next_obs=random.normal(size=(count, 4)), terminated=random.integers(0, 2, count).astype(bool),
                    truncated=random.integers(0, 2, count).astype(bool))
        yield made


def test_it_is_the_batch_and_not_a_copy(buffer):
    batch = buffer.sample(32)
    data = shown()(batch)
    assert data.shape == (32,) and data["next", "reward"].shape == (32, 1)
    pairs = [("observation", "obs"), (("next", "observation"), "next_obs"), ("action", "action"), ("index", "id"),
             (("next", "reward"), "reward"), (("next", "terminated"), "terminated"), ("_weight", "weight")]
    for key, name in pairs:
        assert np.array_equal(data[key].reshape(batch[name].shape), batch[name]), key
        assert data[key].data_ptr() == batch[name].__array_interface__["data"][0], key
    assert torch.equal(data["next", "done"], data["next", "terminated"] | torch.tensor(batch.truncated)[:, None])


def test_a_loss_of_torchrl_trains_on_it_and_its_errors_become_priorities(buffer):
    torch.manual_seed(2)
    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    actor = QValueActor(network, in_keys=["observation"], spec=Categorical(2))
    loss_of = objectives.DQNLoss(actor, action_space="categorical", delay_value=False)
    loss_of.make_value_estimator(gamma=0.01)
    optimizer, losses = torch.optim.Adam(loss_of.parameters(), 3e-3), []
    for _ in range(400):
        data = shown()(buffer.sample(64))
        loss = loss_of(data)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        buffer.update_priorities(data["index"], data["td_error"].detach().flatten())
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 2
    assert np.allclose(buffer.get_priorities(data["index"]), data["td_error"].detach().flatten() + 1e-6, atol=1e-5)
