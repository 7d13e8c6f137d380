# SPDX-License-Identifier: MIT
"""gpureplay.fast_td3 beside a search in all steps."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

from gpureplay.fast_td3 import SimpleReplayBuffer  # noqa: E402

ENVS, SIZE, OBS, ACT, CRITIC = 5, 12, 3, 2, 7


def step_of(t, asymmetric):
    """Observation t of environment e is t x ENVS + e in all its numbers, and the last one of an episode minus that.
    Environment 1 ends at every fourth step, environment 2 is truncated at every sixth."""
    ids = torch.arange(t * ENVS, (t + 1) * ENVS)
    dones, truncations = torch.zeros(2, ENVS, dtype=torch.long)
    dones[1], dones[2] = t % 4 == 3, t % 6 == 5
    truncations[2] = t % 6 == 5
    wide = ids[:, None].float()
    after = torch.where(dones[:, None] > 0, -wide, wide + ENVS)
    step = {"observations": wide.repeat(1, OBS), "actions": wide.repeat(1, ACT),
            "next": {"observations": after.repeat(1, OBS), "rewards": ids.double(), "dones": dones,
                     "truncations": truncations}}
    if asymmetric:
        step["critic_observations"] = wide.repeat(1, CRITIC)
        step["next"]["critic_observations"] = after.repeat(1, CRITIC)
    return step


@pytest.mark.parametrize(("n_steps", "asymmetric", "playground"),
                         [(1, False, False), (3, True, False), (3, True, True)])
def test_each_row_is_the_one_that_a_search_finds(n_steps, asymmetric, playground):
    buffer, added = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, asymmetric, playground, n_steps, 0.5), 40
    for t in range(added):
        buffer.extend(step_of(t, asymmetric))
    assert buffer.ptr == added
    batch = buffer.sample(64)
    assert batch["observations"].shape == (ENVS * 64, OBS) and batch["actions"].shape == (ENVS * 64, ACT)
    seen = set()
    for at, row in enumerate(batch["observations"][:, 0].long().tolist()):
        (t, env), reward = divmod(row, ENVS), 0.0
        assert env == at // 64 and added - SIZE <= t
        for count in range(1, n_steps + 1):
            step = step_of(t + count - 1, asymmetric)
            reward += 0.5 ** (count - 1) * step["next"]["rewards"][env].item()
            after, ended = step["next"], step["next"]["dones"][env].item()
            newest = t + count - 1 == added - 1 or (t + count == added - 1 and not
                                                    step_of(added - 1, asymmetric)["next"]["dones"][env])
            if ended or newest:
                break
        following = {name: array[at] for name, array in batch["next"].items()}
        assert following["rewards"].item() == pytest.approx(reward) and following["effective_n_steps"] == count
        assert following["dones"] == after["dones"][env] and following["truncations"] == after["truncations"][env]
        assert (following["observations"] == after["observations"][env]).all()
        if asymmetric:
            assert (batch["critic_observations"][at] == row).all() and following["critic_observations"].shape == (7,)
            assert (following["critic_observations"] == after["critic_observations"][env]).all()
        seen.add(row)
    assert len(seen) > 0.9 * ENVS * (SIZE - 1)


def test_arrays_that_do_not_fit_are_refused():
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC)
    step = step_of(0, False)
    step["observations"] = torch.zeros(ENVS, OBS + 1)
    with pytest.raises(ValueError, match=r"obs has shape \(5, 4\); it must be \(5, 3\)"):
        buffer.extend(step)
    assert buffer.ptr == 0 and np.all(buffer.sample(1)["observations"].numpy() == 0)
