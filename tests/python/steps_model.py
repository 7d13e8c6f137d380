# SPDX-License-Identifier: MIT
"""The model of `add`: environments with random steps, and the transitions that these steps make, computed one by one
from the episodes: n steps, stacks of frames, three autoreset modes."""

import gpureplay
import numpy as np

MODES = ("disabled", "next_step", "same_step")
EXTRAS = {"tag": ((), "float32"), **{f"extra_{at}": ((1 + at % 3,), "float32") for at in range(40)}}  # fields
TRACKED = {  # of buffers whose library tracks episodes: settings of the Model, fields beside Gymnasium's
    "n steps": ({"n_step": 3}, {}),
    "stacks": ({"stack": 3}, EXTRAS),
    "frames of n steps": ({"stack": 3, "n_step": 3, "observations": "frames", "dtype": "float32"}, {}),
    "previous": ({}, {"previous": "int64", "tag": "float32"}),
}
FRAME = (2, 3)
LONGEST = 6  # about the length of an episode: a few steps more than a stack and n_step


class Episode:
    """All frames of an episode, and its steps whose transitions are not complete yet."""

    def __init__(self, first, last):
        """`last`: the id of the environment's last transition, or None."""
        self.frames, self.waiting, self.previous = [first], [], -1 if last is None else -2 - last


class Model:
    """num_envs environments with random frames, rewards and ends. `rows`: the transitions, in the order of `add`."""

    def __init__(self, seed, num_envs=2, mode="next_step", n_step=1, stack=1, pad="zero", axis="first",
                 observations="stacks", dtype="uint8", gamma=0.9, clip=0.0):
        self.random = np.random.default_rng(seed)
        self.num_envs, self.mode, self.n_step, self.gamma, self.clip = num_envs, mode, n_step, gamma, clip
        self.stack, self.pad, self.axis, self.observations, self.dtype = stack, pad, axis, observations, dtype
        self.rows, self.episodes, self.last = [], [None] * num_envs, [None] * num_envs
        self.over = [True] * num_envs

    def frame(self):
        return self.random.integers(1, 250, FRAME).astype(self.dtype)

    def stacked(self, episode, at):
        """Frames at - stack + 1 ... at of an episode, as they are in a batch."""
        empty = np.zeros(FRAME, self.dtype) if self.pad == "zero" else episode.frames[0]
        frames = [episode.frames[i] if i >= 0 else empty for i in range(at - self.stack + 1, at + 1)]
        return np.stack(frames, axis=0 if self.axis == "first" else -1)

    def newest(self, episode):
        """The newest observation, as `add` is given it."""
        return episode.frames[-1] if self.observations == "frames" else self.stacked(episode, len(episode.frames) - 1)

    def fields(self, **more):
        stack = (self.stack, *FRAME) if self.axis == "first" else (*FRAME, self.stack)
        obs = FRAME if self.observations == "frames" else stack, self.dtype
        return {"obs": obs, "action": "int64", "reward": "float32", "next_obs": obs,
                "terminated": "bool", "truncated": "bool", **more}

    def settings(self):
        """The settings of a buffer that makes such transitions."""
        return {"num_envs": self.num_envs, "autoreset": self.mode, "n_step": self.n_step, "frame_stack": self.stack,
                "stack_pad": self.pad, "stack_axis": self.axis, "observations": self.observations, "gamma": self.gamma,
                "reward_clip": self.clip, "device": "cpu"}

    def begin(self, env):
        self.episodes[env], self.over[env] = Episode(self.frame(), self.last[env]), False

    def reset(self, envs=None):
        """Begins new episodes in these environments, or in all."""
        for env in range(self.num_envs) if envs is None else envs:
            self.complete(env, {"terminated": False, "truncated": True}, whole=True)
            self.begin(env)

    def complete(self, env, ends, whole):
        """Appends the transitions that are complete. With `whole` all are, because the episode ends."""
        episode = self.episodes[env]
        while episode is not None and episode.waiting and (whole or len(episode.waiting) == self.n_step):
            at, action, _, tag = episode.waiting[0]
            rewards = [reward for _, _, reward, _ in episode.waiting]
            self.rows.append({
                "obs": self.stacked(episode, at), "next_obs": self.stacked(episode, len(episode.frames) - 1),
                "action": action, **extras(tag), **ends,
                "reward": sum(r * self.gamma**k for k, r in enumerate(rewards)),
                "discount": 0.0 if ends["terminated"] else self.gamma**len(rewards), "previous": episode.previous})
            episode.previous = self.last[env] = len(self.rows) - 1
            episode.waiting.pop(0)

    def step(self):
        """Returns the arguments of `add`, and appends the transitions that they make to `rows`."""
        for env in range(self.num_envs):
            if self.over[env] and (self.mode != "next_step" or self.episodes[env] is None):
                self.begin(env)
        made = [self.step_of(env) for env in range(self.num_envs)]
        return {name: np.stack([one[name] for one in made]) for name in made[0]}

    def step_of(self, env):
        given = {"obs": self.newest(self.episodes[env]), "action": self.random.integers(0, 9),
                 "reward": np.float32(self.random.normal()), **extras(np.float32(self.random.random())),
                 "terminated": False, "truncated": False}
        if self.over[env]:
            self.begin(env)
            last = self.newest(self.episodes[env])
            return {**given, "next_obs": last, "final_obs": last}
        return self.advance(env, given)

    def advance(self, env, given):
        episode, kind = self.episodes[env], self.random.integers(0, 2 * LONGEST)
        reward = float(np.clip(given["reward"], -self.clip, self.clip)) if self.clip else float(given["reward"])
        episode.waiting.append((len(episode.frames) - 1, given["action"], reward, given["tag"]))
        episode.frames.append(self.frame())
        ends = {"terminated": kind == 0, "truncated": kind == 1}
        self.over[env] = kind <= 1
        last = self.newest(episode)
        self.complete(env, ends, whole=self.over[env])
        if self.over[env] and self.mode == "same_step":
            self.begin(env)
        return {**given, **ends, "next_obs": self.newest(self.episodes[env]), "final_obs": last}


def extras(tag):
    """A row's values of EXTRAS."""
    return {name: np.full(shape, tag + at, dtype) for at, (name, (shape, dtype)) in enumerate(EXTRAS.items())}


def make(kind, mode="next_step", seed=5, num_envs=2, **settings):
    """A buffer of these `settings`, and a Model of its steps. kind: as in TRACKED."""
    of, fields = kind
    model = Model(seed, mode=mode, num_envs=num_envs, **of)
    return gpureplay.ReplayBuffer(10_000, model.fields(**fields), **{**model.settings(), **settings}), model


def step_of(buffer, model):
    """The next step, without values that are no fields of the buffer."""
    names = ("final_obs", "truncated", *(field.name for field in buffer.fields))
    return {name: value for name, value in model.step().items() if name in names}


def give(buffer, model, steps, writer=None):
    """Adds this many steps, whose arrays the environments then reuse. `add` must return the counts of the model."""
    for _ in range(steps):
        before, given = len(model.rows), step_of(buffer, model)
        assert (writer or buffer).add(**given) == len(model.rows) - before
        for values in given.values():
            values.fill(0)


def check(buffer, model, max_rows=64):
    """The buffer must hold the last transitions of the model: all of them, if there is plenty of room. In a small one,
    rows leave in groups, and with their frames."""
    first = len(model.rows) - len(buffer)
    assert len(buffer) > 0 and buffer.stats.appended == len(model.rows)
    assert first == 0 or buffer.capacity <= 8 * len(model.rows)
    for start in range(first, len(model.rows), max_rows):
        wanted = model.rows[start:start + max_rows]
        batch = buffer.gather(range(start, start + len(wanted)))
        for name in batch.keys():
            if name not in ("weight", "id"):
                rows = np.stack([np.asarray(row[name]) for row in wanted])
                if name in ("reward", "discount"):
                    np.testing.assert_allclose(batch[name], rows, rtol=2e-6, atol=2e-6)
                else:
                    assert batch[name].shape == rows.shape and (batch[name] == rows).all(), name
