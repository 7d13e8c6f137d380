# SPDX-License-Identifier: MIT
"""Steps whose episodes the library tracks: refusals that change nothing, resets, interrupts, writers, threads, files,
and random episodes, all against a model."""

import copy
import threading

import gpureplay
import numpy as np
import pytest
from hypothesis import given, strategies as st
from steps_model import MODES, TRACKED, Model, check, give, make, step_of
from support import needs_files

# Refusals that change nothing; resets, interrupts, writers and threads.


KINDS = {**TRACKED, "transitions": ({}, {})}  # of the last, each step is a transition


@pytest.fixture(params=TRACKED)
def kind(request):
    return TRACKED[request.param]


def refused(buffer, error, text, **values):
    before = buffer.stats.appended
    with pytest.raises(error, match=text):
        buffer.add(**values)
    assert buffer.stats.appended == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["obs", "next_obs", "reward", "final_obs"])
def test_nan_is_refused(name, mode):
    buffer, model = make(TRACKED["frames of n steps"], mode)
    with buffer:
        for _ in range(40):
            if name == "obs":
                buffer.reset()
                model.reset()
            given = step_of(buffer, model)
            bad = {**given, name: np.full_like(given[name], np.nan)}
            is_read = name != "final_obs" or (mode == "same_step" and (given["terminated"] | given["truncated"]).any())
            if is_read:
                refused(buffer, ValueError, f'"{name}" is NaN in ', **bad)
            if is_read and name == "final_obs":
                del bad["final_obs"]
                refused(buffer, ValueError, "its last next_obs is not given", **bad)
            buffer.add(**given)
        check(buffer, model)


def test_what_the_library_refuses_changes_nothing():
    buffer, model = make(TRACKED["stacks"], "disabled")
    with buffer:
        give(buffer, model, 20)
        for _ in range(20):
            over = list(model.over)
            given = step_of(buffer, model)
            wrong = given["next_obs"].copy()
            wrong[:, 1] += 1
            refused(buffer, gpureplay.InvalidArgument, "next_obs of environment 0 has a frame 1 of its stack",
                    **{**given, "next_obs": wrong})
            if not all(over):
                refused(buffer, ValueError, "obs of environment [01] is not", **{**given, "obs": given["obs"] + 1})
            buffer.add(**given)
        check(buffer, model)


def test_an_ended_episode_cannot_end_again():
    buffer, model = make(TRACKED["n steps"], "next_step", num_envs=1)
    with buffer:
        while not model.over[0] or not model.rows:
            give(buffer, model, 1)
        given = step_of(buffer, model)
        refused(buffer, gpureplay.InvalidArgument, "it ends again", **{**given, "terminated": np.ones(1, bool)})
        assert buffer.add(**given) == 0
        give(buffer, model, 30)
        check(buffer, model)


def test_what_a_step_fills_in_is_not_given():
    buffer, model = make(({"n_step": 3}, {"previous": "int64", "discount": "float32"}))
    with buffer:
        for name in ("discount", "previous"):
            refused(buffer, TypeError, rf"unknown \['{name}'\]; the fields are obs, action", **step_of(buffer, model),
                    **{name: np.zeros(2)})
        given = step_of(buffer, model)
        del given["reward"]
        refused(buffer, TypeError, r"missing \['reward'\]", **given)
        refused(buffer, ValueError, r"obs has shape \(2, 2\)",
                **{**step_of(buffer, model), "obs": np.zeros((2, 2), np.uint8)})
    assert [field.name for field in buffer.fields][-2:] == ["previous", "discount"]


def test_finished_rows():
    """Layout "rows" takes them, with `discount`, beside open episodes. Layout "frames" has no place for them."""
    buffer, model = make(TRACKED["n steps"], num_envs=1)
    rows = {field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields}
    rows["terminated"][:] = False
    with buffer:
        assert buffer.extend(**rows) == 5
        given = step_of(buffer, model)
        assert buffer.add(**given) == 0 and buffer.extend(**rows) == 5
        assert buffer.gather(range(10)).discount.tolist() == [1] * 10
        with pytest.raises(TypeError, match="missing.*discount"):
            buffer.extend(**{name: rows[name] for name in rows if name != "discount"})
    buffer, _ = make(TRACKED["stacks"])
    with buffer, pytest.raises(gpureplay.InvalidArgument, match="finished rows do not tell to which episode"):
        buffer.extend(**{field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields})


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_when_the_library_is_done(kind, mode, monkeypatch):
    """The library has done the call, and the package does not know: the episodes go on, and the next step is checked
    like any other."""
    buffer, model = make(kind, mode)
    real, calls, checked = buffer._writer._call, [], 0

    def call(function, *arguments):
        real(function, *arguments)
        calls.append(function)
        if len(calls) % 7 == 0:
            raise KeyboardInterrupt

    with buffer:
        for _ in range(80):
            given, is_done = step_of(buffer, model), False
            buffer._writer._tracker.forget()  # the extension module leaves such a step to Python
            while not is_done:
                try:
                    with monkeypatch.context() as patch:
                        patch.setattr(buffer._writer, "_call", call)
                        buffer.add(**given)
                    is_done = True
                except KeyboardInterrupt:
                    is_done = calls[-1] is gpureplay.lib.gpur_writer_step_ex
            if mode == "same_step" or not model.over[1]:
                given = step_of(buffer, copy.deepcopy(model))
                given["obs"][1] += 1
                refused(buffer, ValueError, "obs of environment 1 is not the next_obs", **given)
                checked += 1
        assert checked > 10
        check(buffer, model)


def test_writers_in_threads_have_episodes_of_their_own(kind):
    buffer, _ = make(kind, n_step=2)
    counts = []

    def run(seed):
        writer, added = buffer.writer(3, "same_step"), 0
        model = Model(seed, num_envs=3, mode="same_step", **{**kind[0], "n_step": 2})
        for _ in range(50):
            added += writer.add(**step_of(buffer, model))
        counts.append((added, model, writer))

    with buffer:
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [added for added, *_ in counts] == [len(model.rows) for _, model, _ in counts] and len(counts) == 3
        got, rows = buffer.gather(range(len(buffer))), [row for _, model, _ in counts for row in model.rows]
        found = sorted(one.tobytes() + other.tobytes() for one, other in zip(got.obs, got.next_obs))
        assert found == sorted(row["obs"].tobytes() + row["next_obs"].tobytes() for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_one_environment_needs_no_axis(kind):
    buffer, model = make(KINDS[kind], None, num_envs=1)
    with buffer:
        model.mode = "disabled"
        for _ in range(60):
            given = {name: value[0] for name, value in step_of(buffer, model).items()}
            before = len(buffer)
            added = buffer.add(**given)
            assert len(buffer) == before + added
        check(buffer, model)


# Environments that the caller resets.


@pytest.mark.parametrize("mode", MODES)
def test_an_observation_that_does_not_follow_is_refused(kind, mode):
    """Only open episodes are checked. After an end any observation may come, unless it was given with the end."""
    buffer, model = make(kind, mode, num_envs=1)
    with buffer:
        give(buffer, model, 1)
        for _ in range(40):
            is_open, given = not model.over[0], step_of(buffer, model)
            if is_open:
                refused(buffer, ValueError, "obs of environment 0 is not the next_obs that was given last, and its "
                                            "episode has not ended; call `reset`", **{**given, "obs": given["obs"] + 1})
            buffer.add(**given)
        check(buffer, model)
        for _ in range(3):  # the first finds nothing to end, or an episode without a step
            buffer.reset()
            model.reset()
            check(buffer, model)
        give(buffer, model, 30)
        check(buffer, model)


class Sparse(Model):
    """Most numbers of its frames are zeros."""

    def frame(self):
        return (self.random.integers(-2, 3, (2, 3)) // 2).astype(self.dtype)


ZEROS = {
    "n steps": {"n_step": 3},
    "stacks": {"stack": 3},
    "stacks along the last axis": {"stack": 3, "axis": "last", "pad": "repeat"},
    "stacks in rows": {"stack": 2, "n_step": 2},
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ZEROS)
def test_zeros_may_change_their_signs_and_nothing_else_may(name, mode, dtype):
    """next_obs * (1 - done) + first_obs * done makes 0.0 of -0.0."""
    model, random = Sparse(3, mode=mode, dtype=dtype, **ZEROS[name]), np.random.default_rng(7)
    layout = "rows" if "rows" in name or model.stack == 1 else "frames"

    def signed(values):
        signs = np.where(random.random(values.shape) < 0.5, values.dtype.type(-0.0), values.dtype.type(0))
        return np.where(values == 0, signs, values)

    with gpureplay.ReplayBuffer(10_000, model.fields(), layout=layout, **model.settings()) as buffer:
        for _ in range(60):
            before, given = len(model.rows), step_of(buffer, model)
            is_open = np.flatnonzero(buffer._writer._tracker.envs.state == 1)
            for wrong in (np.finfo(dtype).tiny, 7) if len(is_open) else ():
                obs = given["obs"].copy()
                obs[is_open[0]].flat[-1] = wrong
                refused(buffer, ValueError, "is not the next_obs", **{**given, "obs": obs})
            for one in ("obs", "next_obs", "final_obs"):
                given[one] = signed(given[one])
            assert buffer.add(**given) == len(model.rows) - before
        check(buffer, model)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", [lambda envs: envs, lambda envs: np.isin(np.arange(4), envs)],
                         ids=["numbers", "a mask"])
@pytest.mark.parametrize("kind", KINDS)
def test_some_environments_are_reset_and_the_others_go_on(kind, mode, form):
    buffer, model = make(KINDS[kind], mode, num_envs=4)
    random = np.random.default_rng(1)
    with buffer:
        for _ in range(40):
            give(buffer, model, 3)
            envs = np.flatnonzero(random.integers(0, 3, 4) == 0)
            buffer.reset(form(envs))
            model.reset(envs)
        give(buffer, model, 10)
        check(buffer, model)


BAD_ENVS = {
    "a shape": (np.ones(3, bool), ValueError, r"envs is a mask of shape \(3,\); it must be \(2,\)"),
    "one too high": ([0, 2], ValueError, "envs has 2; it must be 0 to 1"),
    "one too low": ([-1], ValueError, "envs has -1; it must be 0 to 1"),
    "no numbers": ([0.5], TypeError, r"envs is \[0.5\]; it must be None, a mask of \(2,\) bool, or numbers"),
    "a word": ("all", TypeError, "envs is 'all'; it must be"),
    "two axes": ([[0, 1]], TypeError, r"envs is \[\[0, 1\]\]; it must be"),
}


@pytest.mark.parametrize("case", BAD_ENVS)
def test_environments_that_do_not_exist_are_refused(case):
    envs, error, text = BAD_ENVS[case]
    buffer, model = make(TRACKED["n steps"])
    with buffer:
        give(buffer, model, 20)
        with pytest.raises(error, match=text):
            buffer.reset(envs)
        buffer.reset([])
        give(buffer, model, 20)
        check(buffer, model)


def test_ctrl_c_in_a_reset(kind, monkeypatch):
    """The library has ended an episode, and the package does not know."""
    buffer, model = make(kind, "disabled")
    with buffer:
        for _ in range(20):
            give(buffer, model, 5)
            with monkeypatch.context() as patch:
                real = buffer._writer._call

                def call(function, *arguments, real=real):
                    real(function, *arguments)
                    if function is gpureplay.lib.gpur_writer_reset:
                        raise KeyboardInterrupt

                patch.setattr(buffer._writer, "_call", call)
                is_open = not model.over[0]
                try:
                    buffer.reset([0])
                    assert not is_open
                except KeyboardInterrupt:
                    assert is_open
            model.reset([0])
        give(buffer, model, 10)
        check(buffer, model)


# Random episodes: n steps, stacks and frames, several environments, three autoreset modes, resets in between.


MODELS = st.fixed_dictionaries({
    "seed": st.integers(0, 2**32), "num_envs": st.integers(1, 4), "mode": st.sampled_from(MODES),
    "n_step": st.integers(1, 5), "stack": st.integers(1, 4), "pad": st.sampled_from(("zero", "repeat")),
    "axis": st.sampled_from(("first", "last")), "observations": st.sampled_from(("stacks", "frames")),
    "dtype": st.sampled_from(("uint8", "float32")), "clip": st.sampled_from((0.0, 0.5))})
SCHEDULE = st.lists(st.one_of(st.integers(1, 30), st.sampled_from(("reset", "refused"))), min_size=1, max_size=6)
MORE = {"tag": "float32", "previous": "int64"}


@pytest.mark.parametrize("kind", ["frames", "rows", "transitions"])
@given(MODELS, SCHEDULE, st.sampled_from((20, 64, 2000)), st.booleans())
def test_random_episodes(kind, settings, schedule, capacity, has_truncated):
    """Tracked episodes end where the step is truncated, even if that is no field. Steps that are stored as they come
    need the field."""
    changed = {"frames": {}, "rows": {"observations": "stacks"},
               "transitions": {"observations": "stacks", "n_step": 1, "stack": 1}}
    model, layout = Model(**{**settings, **changed[kind]}), "frames" if kind == "frames" else "rows"
    fields = model.fields(**(MORE if kind != "transitions" else {"tag": "float32"}))
    if not has_truncated and kind != "transitions":
        del fields["truncated"]
    more = {"block_rows": 1} if kind == "frames" else {}
    with gpureplay.ReplayBuffer(capacity, fields, layout=layout, max_batch=2, **more, **model.settings()) as buffer:
        for part in [*schedule, 20]:
            if part == "reset":
                buffer.reset()
                model.reset()
            elif part == "refused":
                step = step_of(buffer, copy.deepcopy(model))
                refused(buffer, ValueError, '"reward" is NaN in ',
                        **{**step, "reward": step["reward"] * np.float32("nan")})
            else:
                give(buffer, model, part)
        check(buffer, model, max_rows=2)


# Files with open episodes, which continue in another buffer or in the same one.


SAVED = {
    "rows": {},  # the library does not track episodes
    "n steps": {"n_step": 4},
    "stacks": {"stack": 3, "pad": "repeat"},
    "frames": {"stack": 3, "n_step": 3, "observations": "frames", "axis": "last", "dtype": "float32"},
}


def make_saved(model):
    more = {"previous": "int64"} if model.n_step > 1 or model.stack > 1 else {}
    return gpureplay.ReplayBuffer(10_000, model.fields(**more), layout="frames" if model.stack > 1 else None,
                                  **model.settings())


def refuse_other_observations(buffer, writer, model):
    """The next step of each open episode must follow from the step before. Returns how many are open."""
    is_open = [model.mode == "same_step" or not over for over in model.over]
    given = step_of(buffer, copy.deepcopy(model))
    for env in np.flatnonzero(is_open):
        obs = given["obs"].copy()
        obs[env] += 1
        with pytest.raises(ValueError, match=f"obs of environment {env} is not the next_obs"):
            writer.add(**{**given, "obs": obs})
    return sum(is_open)


def check_rows(buffer, models):
    """The buffer has the transitions of these models, in any order."""
    got, rows = buffer.gather(range(len(buffer))), [row for model in models for row in model.rows]
    found = sorted(one.tobytes() + other.tobytes() for one, other in zip(got.obs, got.next_obs))
    assert found == sorted(row["obs"].tobytes() + row["next_obs"].tobytes() for row in rows)


@needs_files
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SAVED)
def test_open_episodes_of_a_file_go_on(kind, mode, tmp_path):
    """After each of 8 steps two writers are saved, and loaded into another buffer, whose second writer is made before
    or after that. The first step after a load is checked like any other. Before a save that follows a reset the library
    begins episodes of zeros, because their first observation is not known."""
    models = [Model(seed, num_envs=envs, mode=mode, **SAVED[kind]) for seed, envs in ((7, 2), (9, 3))]
    ends, checked = set(), 0
    with make_saved(models[0]) as saved:
        writers = saved, saved.writer(3, mode)
        for number in range(8):
            for writer, model in zip(writers, models):
                give(saved, model, 1 if number else 15, writer)
            if number % 4 == 3:
                saved.reset()
                models[0].reset()
            saved.save(tmp_path / "buffer")
            ends.add(sum(models[1].over))
            copies = copy.deepcopy(models)
            with make_saved(models[0]) as other:
                second = other.writer(3, mode) if number % 2 else None
                other.load(tmp_path / "buffer")
                if number % 4 == 1:
                    other.reset()
                    copies[0].reset()
                check_rows(other, copies)
                second = second or other.writer(3, mode)
                if kind != "rows":
                    checked += refuse_other_observations(other, second, copies[1])
                for writer, model in ((other, copies[0]), (second, copies[1])):
                    give(other, model, 21 + number, writer)
                check_rows(other, copies)
        assert (checked > 10 or kind == "rows") and (len(ends) > 1 or mode == "same_step")


@needs_files
@pytest.mark.parametrize("kind", SAVED)
def test_a_buffer_loads_its_own_file_or_goes_on_without_it(kind, tmp_path):
    """A load takes episodes back to where they were. After a damaged file was refused they go on."""
    model, path = Model(5, num_envs=2, **SAVED[kind]), tmp_path / "buffer"
    with make_saved(model) as buffer:
        give(buffer, model, 13)
        buffer.save(path)
        before = copy.deepcopy(model)
        give(buffer, model, 7)
        buffer.load(path)
        give(buffer, before, 9)
        check(buffer, before)
        file = bytearray(path.read_bytes())
        file[-3] ^= 1
        path.write_bytes(file)
        for _ in range(3):
            with pytest.raises(gpureplay.FileError):
                buffer.load(path)
            give(buffer, before, 7)
        check(buffer, before)
