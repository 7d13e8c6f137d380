# SPDX-License-Identifier: MIT
"""gpureplay.fast_td3 beside a search in all steps."""

import numpy as np
import pytest
from support import needs_files

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


@pytest.mark.parametrize("n_steps", [1, 3])
def test_what_a_training_reads_of_a_batch(n_steps):
    """Keys, shapes and types of nested dicts, which its script fills anew and computes with."""
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, True, n_steps=n_steps, device="cpu")
    for t in range(5):
        buffer.extend(step_of(t, True))
    batch = buffer.sample(4)
    assert {name: (array.dtype, array.shape[1:]) for name, array in batch.items() if name != "next"} == {
        "observations": (torch.float32, (OBS,)), "actions": (torch.float32, (ACT,)),
        "critic_observations": (torch.float32, (CRITIC,))}
    assert {name: (array.dtype, array.shape[1:]) for name, array in batch["next"].items()} == {
        "observations": (torch.float32, (OBS,)), "critic_observations": (torch.float32, (CRITIC,)),
        "rewards": (torch.float32, ()), "dones": (torch.int64, ()), "truncations": (torch.int64, ()),
        "effective_n_steps": (torch.int64 if n_steps == 1 else torch.float32, ())}
    batch["next"]["rewards"] = batch["next"]["rewards"] / 2
    discount = 0.5 ** batch["next"]["effective_n_steps"]
    assert discount.dtype == torch.float32 and discount.min() == 0.5 ** n_steps
    assert buffer.device == torch.device("cpu") and SimpleReplayBuffer(1, 2, 1, 1, 1).device == torch.device("cpu")
    assert SimpleReplayBuffer(2, 4, 1, 1, 1, device=torch.device("cpu")).buffer.num_lanes == 2


@needs_files
def test_files_go_through_the_buffer_of_lanes(tmp_path):
    first, second = (SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC) for _ in range(2))
    for t in range(20):
        first.extend(step_of(t, False))
    first.buffer.save(tmp_path / "steps")
    second.buffer.load(tmp_path / "steps")
    assert second.buffer.stats == first.buffer.stats and second.sample(2)["observations"].shape == (2 * ENVS, OBS)


@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"observations": torch.zeros(ENVS, OBS + 1)}, ValueError, r"observations has shape \(5, 4\); it must be \(5, 3\)"),
    ({"actions": torch.zeros(ENVS + 1, ACT)}, ValueError, r"actions has shape \(6, 2\); it must be \(5, 2\)"),
    ({"actions": np.zeros((ENVS, ACT), np.float32)}, TypeError, r"actions is a ndarray; it must be a tensor \(5, 2\)"),
    ({"actions": torch.zeros(ENVS, ACT, device="meta")}, ValueError,
     r"actions is on meta; it must be on cpu: actions.to\('cpu'\)"),
    ({"critic_observations": torch.zeros(ENVS, OBS)}, ValueError, r"critic_observations has shape \(5, 3\)"),
    ({"next.rewards": torch.zeros(ENVS, 1)}, ValueError, r"next.rewards has shape \(5, 1\); it must be \(5,\)"),
    ({"next.dones": torch.zeros(())}, ValueError, r"next.dones has shape \(\); it must be \(5,\)"),
    ({"next.critic_observations": None}, KeyError, "next.critic_observations is missing; it must be a tensor"),
    ({"next.observations": (same := torch.zeros(ENVS, OBS)), "observations": same}, ValueError,
     "next.observations has the memory of observations, so that one has overwritten the other; it must be a tensor of"),
    ({"next.observations": (whole := torch.zeros(ENVS, OBS)).view(ENVS, OBS), "observations": whole}, ValueError,
     "next.observations has the memory of observations"),
    ({"next.critic_observations": (critic := torch.zeros(ENVS, CRITIC)).view(ENVS, CRITIC),
      "critic_observations": critic}, ValueError, "next.critic_observations has the memory of critic_observations"),
    ({"next": None}, KeyError, "next is missing; it must be a dict of what came after the step: observations, rewards"),
    ({"next": torch.zeros(2)}, TypeError, "next is a Tensor; it must be a dict of what came after"),
])
@pytest.mark.parametrize("playground", [False, True])
def test_arrays_that_do_not_fit_are_refused(changes, error, words, playground):
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, True, playground)
    buffer.extend(step_of(0, True))
    before, step = buffer.buffer.stats, step_of(1, True)
    for name, value in changes.items():
        values = step["next"] if name.startswith("next.") else step
        values[name.rpartition(".")[2]] = value
        if value is None:
            del values[name.rpartition(".")[2]]
    with pytest.raises(error, match=words):
        buffer.extend(step)
    assert buffer.ptr == 1 and buffer.buffer.stats == before


@pytest.mark.parametrize("place", ["step", "next"])
def test_observations_of_the_critic_are_not_dropped(place):
    buffer = SimpleReplayBuffer(n_env=ENVS, buffer_size=SIZE, n_obs=OBS, n_act=ACT, n_critic_obs=CRITIC, n_steps=1,
                                gamma=0.97, device="cpu")
    step, whole = step_of(0, False), step_of(0, True)
    (step if place == "step" else step["next"])["critic_observations"] = whole["critic_observations"]
    with pytest.raises(ValueError, match="critic_observations is given and asymmetric_obs is False; make the buffer "
                                         "with asymmetric_obs=True"):
        buffer.extend(step)
    assert buffer.ptr == 0


class Walk:
    """Environments whose observations tell themselves apart: a number that is never used twice. Some of them end at
    random, and begin anew in the same step."""

    def __init__(self, asymmetric, playground):
        self.asymmetric, self.playground, self.used = asymmetric, playground, 0
        self.random = torch.Generator().manual_seed(3)

    def new(self):
        self.used += ENVS
        return torch.arange(self.used - ENVS, self.used).float()[:, None]

    def shown(self, numbers):
        step = {"observations": numbers.repeat(1, OBS)}
        if self.asymmetric:
            step["critic_observations"] = torch.cat([step["observations"] if self.playground else -step["observations"],
                                                     0.5 * numbers.repeat(1, CRITIC - OBS)], 1)
        return step

    def step(self, now):
        after, rare = self.new(), torch.rand(2, ENVS, generator=self.random) < 0.15
        dones, truncations = (rare[0] | rare[1]).long(), (rare[1] & ~rare[0]).long()
        return {**self.shown(now), "actions": now.repeat(1, ACT),
                "next": {**self.shown(after), "rewards": now[:, 0] + 1, "dones": dones, "truncations": truncations}
                }, torch.where(dones[:, None] > 0, self.new(), after)


def search(ring, at, env, n_steps, left_out):
    """The transition of n steps from this one on, in a ring that stores both observations of each step: what came
    after its last step, the reward, and the number of steps."""
    reward, count = 0.0, 0
    while count < n_steps and (at + count, env) not in left_out:
        after = ring[at + count]["next"]
        reward, count = reward + 0.5 ** count * after["rewards"][env].item(), count + 1
        if after["dones"][env]:
            break
    return after, reward, count


@pytest.mark.parametrize(("n_steps", "asymmetric", "playground"),
                         [(1, False, False), (3, False, False), (3, True, False), (5, True, True)])
@pytest.mark.parametrize("some", [False, True])
def test_environments_that_are_reset_after_an_evaluation(n_steps, asymmetric, playground, some):
    """As FastTD3's script does after an evaluation: obs = envs.reset(), of all environments, after a step that ended
    none. The step before is left out, and counted; all other transitions are those of a ring that stores both
    observations."""
    envs, ring, left_out, added = Walk(asymmetric, playground), [], set(), 60
    buffer = SimpleReplayBuffer(ENVS, 1000, OBS, ACT, CRITIC, asymmetric, playground, n_steps, 0.5, "cpu")
    obs = envs.new()
    for t in range(added):
        step, obs = envs.step(obs)
        buffer.extend(step)
        ring.append(step)
        if t % 12 == 7:
            which = (torch.arange(ENVS) % 2 == 0) | (not some)
            obs = torch.where(which[:, None], envs.new(), obs)
            left_out |= {(t, env) for env in range(ENVS) if which[env] and not step["next"]["dones"][env]}
    assert buffer.buffer.stats.without_final == len(left_out) > (7 if some else 15)
    batch, seen = buffer.sample(2000), set()
    steps = {step["observations"][env, 0].item(): (t, env) for t, step in enumerate(ring) for env in range(ENVS)}
    for row, number in enumerate(batch["observations"][:, 0].tolist()):
        at, env = steps[number]
        if at + n_steps < added and (at, env) not in seen:  # the newest ones have fewer steps
            after, reward, count = search(ring, at, env, n_steps, left_out)
            following = {name: array[row] for name, array in batch["next"].items()}
            assert following["effective_n_steps"] == count and following["rewards"].item() == pytest.approx(reward)
            assert (batch["actions"][row] == number).all()
            for name in ("dones", "truncations", "observations", *["critic_observations"] * asymmetric):
                assert (following[name] == after[name][env]).all()
            if asymmetric:
                assert (batch["critic_observations"][row] == ring[at]["critic_observations"][env]).all()
            seen.add((at, env))
    assert seen == {(at, env) for at in range(added - n_steps) for env in range(ENVS)} - left_out


def test_observations_that_are_normalized_anew_are_refused_in_the_second_call():
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, device="cpu")
    buffer.extend(step_of(0, False))
    step = step_of(1, False)
    step["observations"] = step["observations"] * 1.5
    with pytest.raises(ValueError, match="observations of the second step are not next.observations of the first one "
                                         "in any of the 5 environments; they must be the same numbers"):
        buffer.extend(step)
    assert buffer.ptr == 1 and buffer.buffer.stats.steps == 1
    step["observations"][3] = step_of(1, False)["observations"][3]  # one of them goes on
    buffer.extend(step)
    assert buffer.buffer.stats.without_final == ENVS - 1
    step = step_of(2, False)
    step["observations"] = step["observations"] * 1.5
    buffer.extend(step)  # later on it may be a reset
    assert buffer.buffer.stats.without_final == 2 * ENVS - 1


def test_nan_is_the_next_observation_of_itself_and_floats_of_other_types_are_those_that_are_stored():
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, device="cpu")
    for t in range(6):
        step = step_of(t, False)
        step["observations"] = (step["observations"] + 0.1).bfloat16()
        step["next"]["observations"] = (step["next"]["observations"] + 0.1).bfloat16()
        step["observations"][0] = step["next"]["observations"][0] = float("nan")
        buffer.extend(step)
    assert buffer.buffer.stats.without_final == 0 and buffer.sample(8)["observations"][:8].isnan().all()


def test_a_function_that_pytorch_compiles_extends_and_draws():
    called, compiled = (SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, True, True, 3, 0.5) for _ in range(2))

    def loop(buffer, step):
        buffer.extend(step)
        batch = buffer.sample(4)
        return {**batch, **batch["next"]}

    run = torch.compile(loop, fullgraph=True, backend="aot_eager")
    for t in range(30):
        step = step_of(t, True)
        if t % 10 == 5:
            step["observations"] = step["observations"] + 0.5
            step["critic_observations"][:, :OBS] += 0.5
        one, other = loop(called, step), run(compiled, step)
        assert {name: one[name].shape for name in one if name != "next"} == {
            name: other[name].shape for name in other if name != "next"}
    one, other = (buffer.buffer.gather(torch.arange(30 * ENVS)) for buffer in (called, compiled))
    assert all(torch.equal(one[name], other[name]) for name in one) and (one["id"] >= 0).any()
    assert called.buffer.stats == compiled.buffer.stats and called.buffer.stats.without_final > ENVS


def test_a_tensordict_is_taken_as_a_dict():
    tensordict = pytest.importorskip("tensordict")
    buffers = [SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC, True, False, 3, 0.5) for _ in range(2)]
    for t in range(20):
        step = step_of(t, True)
        buffers[0].extend(step)
        buffers[1].extend(tensordict.TensorDict(step, batch_size=(ENVS,)))
    one, other = (buffer.buffer.gather(torch.arange(20 * ENVS)) for buffer in buffers)
    assert all(torch.equal(one[name], other[name]) for name in one) and (one["id"] >= 0).any()
    incomplete = tensordict.TensorDict({"observations": torch.zeros(ENVS, OBS)}, batch_size=(ENVS,))
    with pytest.raises(KeyError, match="next is missing"):
        buffers[1].extend(incomplete)


@pytest.mark.parametrize(("settings", "words"), [
    ({"n_env": 0}, "n_env is 0; it must be 1 to 65536"), ({"buffer_size": 1}, "buffer_size is 1; it must be 2 or more"),
    ({"n_obs": 0}, "n_obs is 0; it must be 1 or more"), ({"n_act": 0}, "n_act is 0; it must be 1 or more"),
    ({"n_steps": 65}, "n_steps is 65; it must be 1 to 64"), ({"gamma": 1.5}, "gamma is 1.5"),
    ({"n_critic_obs": 0, "asymmetric_obs": True}, "n_critic_obs is 0; it must be 1 or more"),
    ({"n_critic_obs": OBS, "asymmetric_obs": True, "playground_mode": True}, "n_critic_obs is 3; it must be 4 or more"),
])
def test_settings_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        SimpleReplayBuffer(**{"n_env": ENVS, "buffer_size": SIZE, "n_obs": OBS, "n_act": ACT, "n_critic_obs": CRITIC,
                              **settings})


def test_draws_that_do_not_fit_are_refused():
    buffer = SimpleReplayBuffer(ENVS, SIZE, OBS, ACT, CRITIC)
    with pytest.raises(ValueError, match="`sample` is called and nothing was added; `extend` must be called before"):
        buffer.sample(1)
    buffer.extend(step_of(0, False))
    for size, error, words in ((0, ValueError, "batch_size is 0; it must be 1 to 13107"),
                               (13108, ValueError, "batch_size is 13108; it must be 1 to 13107"),
                               (1.5, TypeError, "batch_size is 1.5; it must be an integer")):
        with pytest.raises(error, match=words):
            buffer.sample(size)
    assert buffer.buffer.stats.draws == 0
    assert buffer.sample(1)["next"]["effective_n_steps"].tolist() == [0] * ENVS  # what came after is not known yet
