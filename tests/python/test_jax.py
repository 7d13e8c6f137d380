# SPDX-License-Identifier: MIT
"""Lanes in functions that JAX compiles: the same bits as by the buffer's own methods, in order, and each call once;
what is refused while JAX traces, and what when a compiled function runs."""

import contextlib
import ctypes
import gc
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from gpureplay import _library
from support import blocks_of_page

import gpureplay

jax = pytest.importorskip("jax", reason="JAX is not installed here")
if not Path(_library.path).with_name("libgpureplay_jax.so").is_file():
    pytest.skip("libgpureplay_jax.so was not built: CMake's Python has no jaxlib", allow_module_level=True)
import jax.numpy as jnp  # noqa: E402

import gpureplay.jax  # noqa: E402


@pytest.fixture(autouse=True)
def without_x64():
    """Whatever tests of other files have set."""
    with jax.enable_x64(False):
        yield


LANES, STEPS, BATCH = 6, 16, 32
FIELDS = {"obs": ((3,), "float32"), "action": ((), "int32"), "image": ((2, 2), "uint8")}


def make(**settings):
    return gpureplay.LaneBuffer(LANES, STEPS, settings.pop("fields", FIELDS), device="cpu",
                                **{"seed": 1, "n_step": 3, **settings})


def step_of(t, like=jnp):
    """Step t: values that tell step and lane. Lanes terminate and are truncated now and then."""
    ids = t * LANES + like.arange(LANES, dtype=np.int32)
    obs = like.stack([ids, ids + 1, ids + 2], 1).astype(np.float32)
    return {"obs": obs, "action": ids, "image": like.stack([ids] * 4, 1).astype(np.uint8).reshape(LANES, 2, 2),
            "reward": (ids % 7).astype(np.float32), "terminated": ids % 31 == 7, "truncated": ids % 17 == 3,
            "final_obs": -obs}


def filled(steps=20, **settings):
    buffer = make(**settings)
    for t in range(steps):
        buffer.add(**step_of(t, np))
    return buffer, gpureplay.jax.Lanes(buffer)


def number_of(ids):
    """Ids as int64, which they are with jax_enable_x64."""
    ids = np.asarray(ids)
    return ids if ids.dtype == np.int64 else ids.view(np.int64)[..., 0]


def the_same(batches, expected):
    """Whether arrays (steps, batch, ...) have the bits of a list of batches."""
    assert sorted(batches) == sorted(expected[0])  # JAX has the arrays of a dict in the order of their names
    for name, array in batches.items():
        got = number_of(array) if name == "id" else np.asarray(array)
        wanted = np.stack([np.asarray(batch[name]) for batch in expected])
        assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes(), name


# What a step of a loop does, by the buffer and in JAX.


def by_calls(buffer, t):
    buffer.add(**step_of(t, np))
    buffer.reset(step_of(t, np)["action"] % 19 == 5)
    batch, other = buffer.sample(BATCH), buffer.sample(BATCH, n_step=2, gamma=0.5)
    if buffer._is_prioritized:
        buffer.update_priorities(batch["id"], batch["reward"] + np.float32(1))
    return batch, other, buffer.gather(other["id"], n_step=1)


def in_jax(lanes, token, t):
    token = lanes.add(token, **step_of(t))
    token = lanes.reset(token, step_of(t)["action"] % 19 == 5)
    token, batch = lanes.sample(token, BATCH)
    token, other = lanes.sample(token, BATCH, n_step=2, gamma=0.5)
    if lanes.buffer._is_prioritized:
        token = lanes.update_priorities(token, batch["id"], batch["reward"] + 1)
    token, again = lanes.gather(token, other["id"], n_step=1)
    return token, (batch, other, again)


@pytest.mark.parametrize(("prioritized", "x64"), [(True, False), (False, True)])
def test_the_same_bits_by_calls_in_jit_and_in_a_scan(prioritized, x64):
    with jax.enable_x64(x64):
        called, jitted, scanned = (make(prioritized=prioritized) for _ in range(3))
        expected = [by_calls(called, t) for t in range(1000)]
        lanes, step = gpureplay.jax.Lanes(jitted), jax.jit(in_jax, static_argnums=0)
        token, outs = lanes.init(), []
        for t in range(1000):
            token, batches = step(lanes, token, t)
            outs.append(batches)
        lanes = gpureplay.jax.Lanes(scanned)
        token, in_scan = jax.jit(lambda token: jax.lax.scan(
            lambda token, t: in_jax(lanes, token, t), token, jnp.arange(1000, dtype=np.int32)))(lanes.init())
        jax.block_until_ready(token)
        for which in range(3):
            wanted = [batches[which] for batches in expected]
            the_same(in_scan[which], wanted)
            the_same({name: np.stack([batches[which][name] for batches in outs]) for name in outs[0][which]}, wanted)
        assert called.stats == jitted.stats == scanned.stats and called.stats.draws == 2000
        assert in_scan[0]["id"].dtype == (np.int64 if x64 else np.int32)


def test_calls_without_jit_do_the_same():
    (called, _), (buffer, lanes) = filled(), filled()
    token, batch = lanes.sample(lanes.init(), 8)
    the_same({name: np.asarray(array)[None] for name, array in batch.items()}, [called.sample(8)])
    assert buffer.stats == called.stats


def test_all_lanes_are_reset():
    (called, _), (buffer, lanes) = filled(), filled()
    called.reset()
    jax.block_until_ready(jax.jit(lanes.reset)(lanes.init()))
    assert buffer.stats == called.stats and buffer.stats.without_final >= LANES - 2


def test_large_batches():
    (called, _), (_, lanes) = filled(), filled()
    _, batch = jax.jit(lambda token: lanes.sample(token, 8192))(lanes.init())
    the_same({name: np.asarray(array)[None] for name, array in batch.items()}, [called.sample(8192)])


@pytest.mark.parametrize("settings", [{}, {"across_episodes": False, "n_step": 1}, {"min_length": 2, "gamma": 0.5}])
def test_sequences(settings):
    (called, _), (_, lanes) = filled(), filled()
    draw = jax.jit(lambda token, **more: lanes.sample_sequences(token, 40, 4, **settings, **more))
    token, batch = draw(lanes.init())
    wanted = called.sample_sequences(40, 4, **settings)
    the_same({name: np.asarray(array)[None] for name, array in batch.items()}, [wanted])
    assert batch["obs"].shape == (40, 4, 3) and batch["mask"].any() and batch["is_first"].any()
    last = np.ascontiguousarray(wanted["id"][:, -1])
    _, batch = draw(token, last_ids=jnp.asarray(batch["id"][:, -1]))
    the_same({name: np.asarray(array)[None] for name, array in batch.items()},
             [called.sample_sequences(40, 4, last_ids=last, **settings)])


def test_as_many_transitions_of_each_lane():
    _, lanes = filled()
    _, batch = jax.jit(lambda token: lanes.sample(token, 5 * LANES, per_lane=True))(lanes.init())
    assert (number_of(batch["id"]).reshape(LANES, 5) % LANES == np.arange(LANES)[:, None]).all()


def test_ids_of_ones_own_and_those_that_have_left():
    buffer, lanes = filled(prioritized=True)
    ids = np.array([19 * LANES - 1, 0, -1])  # the first step has been overwritten
    for given in (ids, jnp.asarray(np.ascontiguousarray(ids).view(np.int32).reshape(3, 2))):
        _, batch = lanes.gather(lanes.init(), given)
        assert number_of(batch["id"]).tolist() == [19 * LANES - 1, -1, -1] and batch["steps"].tolist() == [1, 0, 0]
    jax.block_until_ready(lanes.update_priorities(lanes.init(), ids[:1], jnp.full(1, 1e6)))
    assert (buffer.sample(50)["id"] == ids[0]).mean() > 0.8
    _, batch = lanes.sample(gpureplay.jax.Lanes(make()).init(), 4)
    _, none = gpureplay.jax.Lanes(make()).sample(lanes.init(), 4)
    assert not none["steps"].any() and (number_of(none["id"]) == -1).all() and batch["steps"].all()


def test_no_call_is_dropped_and_all_keep_their_order():
    """Batches that nobody reads are drawn, equal calls are not merged, and additions are in the order of the token."""
    buffer = make(n_step=1)
    lanes = gpureplay.jax.Lanes(buffer)

    @jax.jit
    def steps(token):
        for t in (0, 1, 2, 3, 3):
            token = lanes.add(token, **step_of(t))
        for _ in range(3):
            token, _ = lanes.sample(token, 8)
        token, batch = lanes.sample(token, BATCH)
        return token, batch["id"], batch["obs"]

    token, ids, obs = steps(lanes.init())
    at = number_of(ids) // LANES
    assert buffer.stats.steps == 5 and buffer.stats.draws == 4 and {0, 1, 2, 3} <= set(at)
    assert (np.asarray(obs)[:, 0] // LANES == np.minimum(at, 3)).all()
    token = jax.lax.fori_loop(0, 10, lambda _, token: lanes.add(token, **step_of(0)), token)
    jax.block_until_ready(jax.lax.cond(True, lambda t: lanes.sample(t, 8)[0], lambda t: t, token))
    assert buffer.stats.steps == 15 and buffer.stats.draws == 5

    @jax.jit
    def forgetful(token):
        lanes.add(token, **step_of(0))
        jax.lax.scan(lambda _, x: (lanes.sample(token, 8)[1]["steps"][0], None), 0, length=3)
        return lanes.sample(token, 8)[1]["steps"] + lanes.sample(token, 8)[1]["steps"]

    forgetful(token)
    assert buffer.stats.steps == 16 and buffer.stats.draws == 10


def test_a_loss_of_a_batch_has_gradients():
    _, lanes = filled()

    def loss(weight, token):
        token, batch = lanes.sample(token, 8)
        return (weight * batch["obs"]).sum(), token

    slope, token = jax.jit(jax.grad(loss, has_aux=True))(2.0, lanes.init())
    assert slope > 0 and token.shape == ()


def changed(**changes):
    values = {**step_of(0), **changes}
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize(("values", "error", "words"), [
    (changed(obs=jnp.zeros((LANES, 3), jnp.int32)), TypeError, "obs is int32; it must be float32"),
    (changed(obs=jnp.zeros((LANES, 3), jnp.bfloat16)), TypeError, "obs is bfloat16; it must be float32"),
    (changed(obs=np.zeros((LANES, 3))), TypeError, "obs is float64; it must be float32"),
    (changed(obs=jnp.zeros((LANES, 4))), ValueError, r"obs has shape \(6, 4\); it must be \(6, 3\)"),
    (changed(terminated=jnp.zeros(LANES)), TypeError, "terminated is float32; it must be bool"),
    (changed(terminated=None), TypeError, "terminated is missing; `add` needs obs, action, image, reward, terminated"),
    (changed(next_obs=jnp.zeros((LANES, 3))), TypeError, "next_obs is given; it is the obs of the next step"),
    (changed(colour=jnp.zeros(LANES)), TypeError, "colour is given, and the buffer has no such field"),
])
def test_steps_that_do_not_fit_are_refused_while_jax_traces(values, error, words):
    buffer = make()
    lanes = gpureplay.jax.Lanes(buffer)
    with pytest.raises(error, match=words):
        jax.jit(lambda token: lanes.add(token, **values)).trace(lanes.init())
    assert buffer.stats.steps == 0


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda b, t: b.reset(t, jnp.zeros(LANES)), TypeError, r"lanes is float32; it must be bool: lanes.astype\('bool"),
    (lambda b, t: b.reset(t, jnp.zeros(3, bool)), ValueError, r"lanes has shape \(3,\); it must be \(6,\)"),
    (lambda b, t: b.sample(t, 0), ValueError, "batch_size is 0; it must be 1 to 65536"),
    (lambda b, t: b.sample(t, jnp.int32(3) + t.astype(int)), TypeError, "batch_size is .*; it must be an integer"),
    (lambda b, t: b.sample(t, 4, n_step=0), ValueError, "n_step is 0; it must be 1 to 64"),
    (lambda b, t: b.sample(t, 4, gamma=1.5), ValueError, "gamma is 1.5; it must be 0 to 1"),
    (lambda b, t: b.sample(t, 4, per_lane=True), ValueError, "batch_size is 4; it must be a multiple of num_lanes"),
    (lambda b, t: b.sample(jnp.zeros(3), 4), TypeError, "token is .*; it must be what `init` or the call before"),
    (lambda b, t: b.gather(t, jnp.zeros(3, np.int32)), TypeError,
     r"ids is int32 of shape \(3,\); it must be as batches have it as id: int64 \(count,\) with jax_enable_x64"),
    (lambda b, t: b.sample_sequences(t, 4, 0), ValueError, "length is 0; it must be 1"),
    (lambda b, t: b.sample_sequences(t, 4, 2, last_ids=jnp.zeros((3, 2), np.int32)), ValueError,
     "last_ids has 3 ids and batch_size is 4; they must be equal"),
    (lambda b, t: b.sample_sequences(t, 4, 2, last_ids=jnp.zeros(4)), TypeError, "last_ids is float32 of shape"),
    (lambda b, t: b.gather(t, [1, 2]), TypeError, "ids is a list; it must be as batches have it as id"),
    (lambda b, t: b.gather(t, jnp.zeros((0, 2), np.int32)), ValueError, "ids has 0 numbers; they must be 1 to"),
    (lambda b, t: b.update_priorities(t, jnp.zeros((3, 2), np.int32), jnp.zeros(3)), ValueError,
     "this buffer has no priorities"),
    (lambda b, t: gpureplay.jax.Lanes(filled(prioritized=True)[0]).update_priorities(
        t, jnp.zeros((3, 2), np.int32), jnp.zeros(4)), ValueError, r"priorities has shape \(4,\); it must be \(3,\)"),
    (lambda b, t: gpureplay.jax.Lanes(b), TypeError, "buffer is a Lanes; it must be a gpureplay.LaneBuffer"),
    (lambda b, t: gpureplay.jax.Lanes(make(fields={"token": "int32"})), ValueError, "a field called 'token', as the"),
])
def test_draws_that_do_not_fit_are_refused_while_jax_traces(call, error, words):
    buffer, lanes = filled()
    with pytest.raises(error, match=words):
        jax.jit(lambda token: call(lanes, token)).trace(lanes.init())
    assert buffer.stats.draws == 0


def test_a_field_of_int64_needs_x64():
    lanes = gpureplay.jax.Lanes(make(fields={"obs": ((3,), "float32"), "tag": "int64"}))
    values = {name: value for name, value in step_of(0).items() if name not in ("action", "image")}
    for call in (lambda: lanes.sample(lanes.init(), 4),
                 lambda: lanes.add(lanes.init(), tag=jnp.arange(LANES), **values)):
        with pytest.raises(TypeError, match="tag is int64, which JAX has with jax_enable_x64 alone; set it"):
            call()
    with jax.enable_x64(True):
        token = lanes.add(lanes.init(), tag=2**40 + jnp.arange(LANES), **values)
        token = lanes.add(token, tag=jnp.zeros(LANES, np.int64), **values)
        _, batch = lanes.gather(token, jnp.arange(2))
        assert batch["tag"].tolist() == [2**40, 2**40 + 1]


def test_how_a_buffer_resets_is_heeded():
    buffer = make(autoreset="next_step")
    lanes = gpureplay.jax.Lanes(buffer)
    with pytest.raises(gpureplay.InvalidArgument, match='final_obs is given and autoreset is "next_step"'):
        lanes.add(lanes.init(), **step_of(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lanes.add(lanes.init(), **changed(final_obs=None, truncated=None))
    lanes = gpureplay.jax.Lanes(make())
    with pytest.warns(RuntimeWarning, match="`add` was given no final_obs") as caught:
        jax.jit(lambda token: lanes.add(token, **changed(final_obs=None)))(lanes.init())
        jax.jit(lambda token: lanes.add(token, **changed(final_obs=None)))(lanes.init())  # once a buffer
    assert len(caught) == 1 and caught[0].filename == __file__
    lanes = gpureplay.jax.Lanes(buffer := make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lanes.add(lanes.add(lanes.init(), **step_of(0)), **changed(final_obs=None, truncated=None))
    assert buffer.stats.steps == 2
    with pytest.warns(RuntimeWarning, match="`add` was given no final_obs"):
        lanes.add(lanes.init(), **changed(final_obs=None))


@pytest.mark.parametrize("compiled", [jax.jit, lambda function: function])
def test_vmap_is_refused(compiled):
    buffer, lanes = filled()
    for call in (lambda reward: lanes.add(lanes.init(), **changed(reward=reward)),
                 lambda reward: lanes.sample(lanes.init() + reward[0].astype(np.uint32), 4)):
        with pytest.raises(NotImplementedError, match="a call on lanes is under jax.vmap, over 3; a buffer is one"):
            jax.vmap(compiled(call))(jnp.ones((3, LANES)))
    assert buffer.stats.steps == 20 and buffer.stats.draws == 0


@pytest.fixture
def failing():
    """Around functions that fail, whose errors JAX keeps until another one has run."""
    yield
    _, lanes = filled()
    jax.block_until_ready(lanes.sample(lanes.init(), 4))


@pytest.mark.parametrize("leaves", ["is closed", "is gone"])
@pytest.mark.usefixtures("failing")
def test_a_compiled_function_outlives_its_buffer(leaves):
    buffer, lanes = filled()
    run = jax.jit(lambda token: lanes.sample(token, 4)).lower(lanes.init()).compile()
    token, _ = run(lanes.init())
    if leaves == "is closed":
        buffer.close()
        with pytest.raises(gpureplay.Closed, match="this buffer was closed"):
            lanes.sample(token, 4)
    del buffer, lanes
    gc.collect()
    other, _ = filled()  # which may lie where that one was
    with pytest.raises(Exception, match="the buffer of lanes that this function was compiled with was closed"):
        jax.block_until_ready(run(token))
    assert other.stats.draws == 0


def long_scan(lanes, steps, callback=None):
    """A function that JAX runs in a thread of its own: a multiplication takes its time."""
    def step(carry, t):
        token, square = carry
        if callback is not None:
            jax.debug.callback(callback)
        return (lanes.add(token, **step_of(t)), square @ square), None

    run = jax.jit(lambda token, square: jax.lax.scan(step, (token, square), jnp.arange(steps))[0])
    begin = lanes.init(), jnp.zeros((300, 300))
    compiled = run.lower(*begin).compile()
    return lambda: compiled(*begin)[0]


def test_calls_of_the_buffer_come_after_functions_that_were_called_before():
    buffer, lanes = filled()
    run = long_scan(lanes, 200)
    run()
    assert buffer.stats.steps == 220
    run()  # its token is dropped
    buffer.add(**step_of(5, np))
    buffer.add(**step_of(6, np))
    batch = buffer.gather(420 * LANES + np.arange(LANES))
    assert (batch["action"] // LANES == 5).all() and buffer.stats.steps == 422
    token = run()
    buffer.close()
    jax.block_until_ready(token)  # no error: it was done


@pytest.mark.parametrize("cache", [{}, {"cache_size": 64, "block_length": 4, "lambda_": 0.5}])
def test_a_learner_trains_after_functions_that_were_called_before(cache):
    """As after the same steps by calls: its draws are of all of them."""
    trained = []
    for is_in_jax in (True, False):
        buffer, lanes = filled(n_step=1)
        agent = gpureplay.DQN(buffer, num_actions=1400, trunk=[8], batch_size=BATCH, seed=1, **cache)
        if is_in_jax:
            long_scan(lanes, 200)()
        else:
            for t in range(200):
                buffer.add(**step_of(t, np))
        if cache:
            agent.refresh()
        agent.train(2)
        trained.append(agent.weights["trunk.0.weight"])
        buffer.close()
    assert trained[0].tobytes() == trained[1].tobytes()


def test_a_callback_does_not_wait_for_its_own_function():
    buffer, lanes = filled()
    seen = []
    long_scan(lanes, 5, lambda: seen.append(buffer.stats.steps))()
    jax.effects_barrier()
    assert len(seen) == 5 and all(20 <= steps <= 25 for steps in seen)


@pytest.mark.usefixtures("failing")
def test_a_buffer_goes_amid_a_scan():
    buffer, lanes = filled()
    run = long_scan(lanes, 200)
    with contextlib.suppress(RuntimeError):
        token = run()
        del buffer, lanes
        gc.collect()
        jax.block_until_ready(token)
    other, _ = filled()
    assert other.stats.steps == 20  # the error is not that of another buffer's call


def raw(name, arguments, buffer, results=(), **attributes):
    """A call as another function would make it."""
    token = jax.ShapeDtypeStruct((), np.uint32)
    call = jax.ffi.ffi_call(name, (token, *results), has_side_effect=True, input_output_aliases={0: 0})
    return jax.block_until_ready(call(jnp.zeros((), np.uint32), *arguments, buffer=np.int64(buffer), **attributes))


def test_a_function_of_another_buffer_is_refused():
    """As one of an executable's cache could be, which another process had filled."""
    buffer, _ = filled(prioritized=True)
    number = gpureplay.jax._number_of(buffer)
    fit = "the arrays of this call do not fit the buffer of lanes"
    for arguments, attributes in (([jnp.zeros(LANES * 3)], {"given": np.int64(3)}), ([], {}),
                                  ([jnp.zeros(LANES * 2)], {"given": np.int64(1)}),
                                  ([jnp.zeros(LANES * 3)] * 2, {"given": np.int64(1)})):
        with pytest.raises(Exception, match=fit):
            raw("gpureplay_add", arguments, number, **attributes)
    for arguments in ([jnp.zeros(4), jnp.zeros(3)], [jnp.zeros(6)], []):
        with pytest.raises(Exception, match=fit):
            raw("gpureplay_update", arguments, number, count=np.int64(3))
    with pytest.raises(Exception, match=fit):
        raw("gpureplay_draw", [], number, count=np.int64(3))
    with pytest.raises(Exception, match="is in another process"):
        raw("gpureplay_update", [], 2**40, count=np.int64(3))
    assert buffer.stats.steps == 20 and buffer.stats.draws == 0


def test_handlers_of_cuda_want_a_gpus_buffer_and_a_stream():
    """As far as it shows without a GPU: they are called for the CPU, under names of their own."""
    buffer, _ = filled(prioritized=True)
    entry, library = ctypes.c_void_p(), gpureplay.jax._jax
    as_of_cuda = library.gpureplay_jax_open(buffer._open_handle(), 1, LANES, 0, None, ctypes.addressof(entry))
    for name in ("add", "reset", "draw", "update"):
        handler = jax.ffi.pycapsule(getattr(gpureplay.jax._jax, f"gpureplay_jax_{name}_cuda"))
        jax.ffi.register_ffi_target(f"test_{name}_cuda", handler, platform="cpu")
        with pytest.raises(Exception, match="the buffer of lanes is on the CPU, and the function was compiled for a"):
            raw(f"test_{name}_cuda", [], gpureplay.jax._number_of(buffer))
        with pytest.raises(Exception, match="the buffer of lanes is on a GPU, and the function was compiled for the"):
            raw(f"gpureplay_{name}", [], as_of_cuda)
        with pytest.raises(Exception, match="(?i)gpu|stream"):  # in XLA's words
            raw(f"test_{name}_cuda", [], as_of_cuda)
    library.gpureplay_jax_close(entry)


def python(text, folder=None):
    """Runs it with the search path of this process; with the library of another folder."""
    path = _library.path if folder is None else shutil.copy(_library.path, folder / "libgpureplay.so")
    return subprocess.run([sys.executable, "-c", f"import os, sys; sys.path[:] = {sys.path!r}\n"
                           f"os.environ['GPUREPLAY_LIBRARY'] = {str(path)!r}\n{text}"], capture_output=True, text=True,
                          timeout=600)


def test_without_jax_the_import_says_what_to_install():
    run = python("sys.modules['jax'] = None; import gpureplay.jax")
    assert run.returncode == 1 and "JAX is not installed; `pip install jax`" in run.stderr


def test_without_its_library_the_import_says_how_to_get_it(tmp_path):
    run = python("import gpureplay.jax", tmp_path)
    assert run.returncode == 1 and "there is no libgpureplay_jax.so beside" in run.stderr
    assert "`pip install jax`, then `pip install --force-reinstall" in run.stderr


def test_a_jaxlib_that_would_refuse_the_handlers_is_named(tmp_path):
    header = tmp_path / "xla/ffi/api/c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MINOR 0\n")
    run = python(f"import jax.ffi; jax.ffi.include_dir = lambda: {str(tmp_path)!r}; import gpureplay.jax")
    assert run.returncode == 1 and "ImportError: gpureplay was built with a later jaxlib than this one" in run.stderr


def test_a_buffer_in_use_by_jax_at_the_end_of_a_program():
    run = python("import gpureplay, gpureplay.jax, jax, numpy as np\n"
                 "buffer = gpureplay.LaneBuffer(2, 4, {'obs': ((1,), 'float32')}, device='cpu')\n"
                 "lanes = gpureplay.jax.Lanes(buffer)\n"
                 "draw = jax.jit(lambda token: lanes.sample(token, 4))\n"
                 "print(draw(lanes.init())[1]['steps'].sum())")
    assert (run.returncode, run.stdout, run.stderr) == (0, "0\n", "")


def test_the_block_of_the_page_runs():
    block, = (block for block in blocks_of_page("simulators.md") if "jax" in block)
    names = {}
    exec(compile(block, "simulators.md", "exec"), names)
    assert names["buffer"].stats.steps == names["buffer"].stats.draws == names["targets"].shape[0] == 1000
