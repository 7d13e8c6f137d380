# SPDX-License-Identifier: MIT
"""usage: python3 test_on_device.py [DEVICE] [unittest's own options]

The package with PyTorch, CuPy and JAX on one device: arrays in and out, side streams, priorities, a learner. A library
that is missing is skipped. Without the device all is skipped, with status 77. By itself, and under pytest, it takes the
CPU and tests what can be tested there, so that on a GPU nothing but the GPU is new."""

import contextlib
import importlib
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/python"))

import gpureplay  # noqa: E402
import numpy as np  # noqa: E402

DEVICE = "cpu"
FIELDS = {"obs": ((3, 5), "float32"), "half": ((4,), "float16"), "pixel": ((7,), "uint8"), "small": ((), "int32"),
          "large": ((2,), "int64"), "flag": ((), "bool")}
ROWS = 300
NAMES = (*FIELDS, "discount", "weight", "id")


def on_cuda():
    return DEVICE != "cpu"


def rows(count, first=0):
    """Field by field, (count, ...): every value follows from the row's number."""
    number = np.arange(first, first + count)
    return {"obs": (number[:, None] + np.arange(15)).reshape(count, 3, 5).astype("f4"),
            "half": (number[:, None] % 100 + np.arange(4)).astype("f2"),
            "pixel": (number[:, None] + np.arange(7)).astype("u1"), "small": -number.astype("i4"),
            "large": np.stack([number << 40, -number], axis=1), "flag": number % 3 == 0}


def overwrite(array):
    """In the order of the current stream. JAX's arrays cannot be written."""
    if hasattr(array, "fill_"):
        array.fill_(1)
    elif hasattr(array, "fill"):
        array.fill(1)


class Numpy:
    """NumPy's arrays, which are in host memory."""

    name = "numpy"

    def __init__(self):
        self.module = importlib.import_module(self.name)

    def of(self, values):
        return values.copy()

    def taken(self, array):
        return np.from_dlpack(array) if not on_cuda() else array.numpy()

    def host(self, array):
        return np.asarray(array)

    def side(self):
        """Makes another stream than the default one the current one, and gives it; or None where there are none."""
        return contextlib.nullcontext()


class Torch(Numpy):
    name = "torch"

    def of(self, values):
        return self.module.from_numpy(values.copy()).to(DEVICE)

    def taken(self, array):
        return self.module.from_dlpack(array)

    def host(self, array):
        return array.cpu().numpy()

    @contextlib.contextmanager
    def side(self):
        stream = self.module.cuda.Stream(DEVICE) if on_cuda() else None
        with self.module.cuda.stream(stream):
            yield stream


class Cupy(Numpy):
    name = "cupy"

    def __init__(self):
        if not on_cuda():
            raise ImportError("CuPy has no arrays on a CPU")
        super().__init__()
        self.module.cuda.Device(int(DEVICE.partition(":")[2])).use()

    def of(self, values):
        return self.module.asarray(values)

    def taken(self, array):
        return self.module.from_dlpack(array)

    def host(self, array):
        return self.module.asnumpy(array)

    @contextlib.contextmanager
    def side(self):
        stream = self.module.cuda.Stream(non_blocking=True)
        with stream:
            yield stream
        stream.synchronize()


class Jax(Numpy):
    name = "jax"

    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        super().__init__()
        self.module.config.update("jax_enable_x64", True)
        kind, _, number = DEVICE.partition(":")
        self.device = self.module.devices(kind)[int(number or 0)]  # RuntimeError: JAX has none of this kind

    def of(self, values):
        return self.module.device_put(values, self.device)

    def taken(self, array):
        return self.module.dlpack.from_dlpack(array)


class WithLibrary:
    """The tests of each library. Subclasses set LIBRARY."""

    LIBRARY = None

    def setUp(self):
        try:
            self.library = self.LIBRARY()
        except (ImportError, RuntimeError) as error:
            self.skipTest(f"{self.LIBRARY.name}: {error}")
        self.buffer = gpureplay.ReplayBuffer(2000, FIELDS, device=DEVICE, max_batch=512)
        self.addCleanup(self.buffer.close)

    def given(self, count, first=0):
        return {name: self.library.of(values) for name, values in rows(count, first).items()}

    def check_rows(self, ids, wanted):
        batch = self.buffer.gather(ids)
        for name, values in wanted.items():
            found = batch.array(name).numpy()
            self.assertEqual(found.dtype, values.dtype, name)
            np.testing.assert_array_equal(found, values, name)

    def check_taken(self, batch):
        """What the library sees of a batch is what the batch says it is."""
        ids = batch.array("id").numpy()
        for name in NAMES:
            found = self.library.host(self.library.taken(batch.array(name)))
            np.testing.assert_array_equal(found, batch.array(name).numpy(), name)
            if name in FIELDS:
                np.testing.assert_array_equal(found, rows(2000)[name][ids], name)

    def test_batches_go_out_and_live_on(self):
        self.buffer.extend(**rows(ROWS))
        for size in (64, 5, 200, 64):
            self.check_taken(self.buffer.sample(size))
        self.check_taken(self.buffer.gather([0, ROWS - 1, 7, 7]))
        with self.library.side() as stream:
            for _ in range(20):
                self.check_taken(self.buffer.sample(100, stream=stream))
                batch = self.buffer.sample(100)
                obs = self.library.taken(batch.array("obs")) + 0
                ids = batch.array("id").numpy()
                del batch
                self.buffer.sample(100)  # may use the same memory, after the addition
                np.testing.assert_array_equal(self.library.host(obs), rows(ROWS)["obs"][ids])
        held = [(batch.array("id").numpy(), self.library.taken(batch.array("obs")))
                for batch in (self.buffer.sample(33) for _ in range(5))]
        self.buffer.close()
        for ids, obs in held:
            np.testing.assert_array_equal(self.library.host(obs), rows(ROWS)["obs"][ids])

    def test_arrays_come_in(self):
        """When the call returns, the arrays' memory belongs to their stream again: it is overwritten at once, or given
        to the next array."""
        self.assertEqual(self.buffer.extend(**self.given(ROWS)), ROWS)
        self.assertEqual(self.buffer.extend(**self.given(1, ROWS)), 1)
        self.check_rows(np.arange(ROWS + 1), rows(ROWS + 1))
        with self.library.side() as stream:
            for turn in range(30):
                given, first = self.given(60, 60 * turn % 1800), self.buffer.stats.appended
                self.buffer.extend(**given, stream=stream if turn % 3 == 0 else None)
                for array in given.values():
                    overwrite(array)
                given.clear()
                for values in rows(60).values():  # of the same size, so that they may get the same memory
                    self.library.of(np.zeros_like(values))
                self.check_rows(np.arange(first, first + 60), rows(60, 60 * turn % 1800))

    def test_large_arrays_of_a_side_stream_come_in(self):
        """They are so large that reading them takes a while, and so does the work that makes them."""
        count, width = 1500, 4096 if on_cuda() else 64
        with gpureplay.ReplayBuffer(2 * count, {"obs": ((width,), "float32")}, device=DEVICE) as buffer:
            with self.library.side():
                for turn in range(6):
                    obs = self.library.of(np.zeros((count, width), np.float32))
                    for _ in range(20):
                        obs = obs + 1
                    obs = obs + turn
                    buffer.extend(obs=obs)
                    overwrite(obs)
                    del obs
                    self.library.of(np.full((count, width), -1, np.float32))
                    batch = buffer.gather(np.arange((turn + 1) * count - 500, (turn + 1) * count))
                    self.assertEqual(np.unique(batch.array("obs").numpy()).tolist(), [20 + turn])

    def test_priorities_are_updated(self):
        with gpureplay.ReplayBuffer(2000, FIELDS, device=DEVICE, prioritized=True, alpha=1.0,
                                    priority_offset=0.0) as buffer:
            buffer.extend(**rows(ROWS))
            for turn in range(10):
                with self.library.side() if turn % 2 else contextlib.nullcontext() as stream:
                    batch = buffer.sample(64, stream=stream)
                    ids = batch.array("id").numpy()
                    wanted = (ids % 50 + 1 + turn).astype("f4")
                    priorities = self.library.of(wanted)
                    buffer.update_priorities(self.library.taken(batch.array("id")), priorities)
                    overwrite(priorities)
                    del priorities
                    np.testing.assert_allclose(buffer.get_priorities(ids), wanted, rtol=1e-6)
            self.assertEqual(buffer.check_priorities(), 0)

    def test_a_learner_acts_on_arrays_and_trains(self):
        fields = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
                  "terminated": "bool"}
        random = np.random.default_rng(3)
        obs = random.normal(size=(600, 4)).astype("f4")
        values = {"obs": obs, "action": random.integers(0, 3, 600).astype("i4"), "reward": obs[:, 0].copy(),
                  "next_obs": obs.copy(), "terminated": np.ones(600, bool)}
        with gpureplay.ReplayBuffer(1000, fields, device=DEVICE) as buffer:
            buffer.extend(**{name: self.library.of(array) for name, array in values.items()})
            learner = gpureplay.DQN(buffer, num_actions=3, trunk=[32], batch_size=64, learning_rate=1e-2)
            learner.train(1)
            learner.sync()
            first = learner.stats.loss
            learner.train(600)
            with self.library.side():
                for _ in range(10):
                    given = self.library.of(obs[:16])
                    self.assertEqual(learner.q_values(given).shape, (16, 3))
                    overwrite(given)
            learner.sync()
            self.assertEqual(learner.stats.steps, 601)
            self.assertLess(learner.stats.mean_loss, first / 5)
            given, seen = self.library.of(obs[:50]), obs[:50]
            np.testing.assert_allclose(learner.q_values(given), learner.q_values(seen), rtol=1e-5, atol=1e-5)
            self.assertEqual(learner.act(given).tolist(), learner.act(seen).tolist())


class WithNumpy(WithLibrary, unittest.TestCase):
    LIBRARY = Numpy

    def test_a_batch_goes_into_another_buffer(self):
        """Without a copy in host memory."""
        self.buffer.extend(**rows(ROWS))
        with gpureplay.ReplayBuffer(500, FIELDS, device=DEVICE) as other:
            for turn in range(5):
                batch = self.buffer.sample(50)
                other.extend(**{name: batch.array(name) for name in FIELDS})
                ids = batch.array("id").numpy()
                del batch
                self.buffer.sample(50)
                found = other.gather(np.arange(50 * turn, 50 * turn + 50))
                for name in FIELDS:
                    np.testing.assert_array_equal(found.array(name).numpy(), rows(ROWS)[name][ids], name)


class WithTorch(WithLibrary, unittest.TestCase):
    LIBRARY = Torch

    def setUp(self):
        super().setUp()
        self.cuda = self.library.module.cuda

    def need_cuda(self):
        if not on_cuda():
            self.skipTest("the CPU has no streams")

    def test_streams_may_be_given_as_objects(self):
        self.need_cuda()
        self.buffer.extend(**rows(ROWS))
        for turn, stream in enumerate((self.cuda.current_stream(DEVICE), self.cuda.Stream(DEVICE))):
            with self.cuda.stream(stream):
                self.check_taken(self.buffer.sample(50, stream=stream))
                self.check_taken(self.buffer.gather([1, 2, 3], stream=stream.cuda_stream))
                self.buffer.extend(**self.given(10, ROWS + 10 * turn), stream=stream)
        with gpureplay.Device(DEVICE, stream=self.cuda.Stream(DEVICE)) as device, \
                gpureplay.ReplayBuffer(500, FIELDS, device=device) as buffer:
            buffer.extend(**rows(ROWS))
            self.assertEqual(len(buffer.sample(20)), 20)

    def test_a_batch_may_go_amid_the_capture_of_a_graph(self):
        """PyTorch captures in the global mode: nothing of the library may spoil the capture, nor get into it."""
        self.need_cuda()
        self.buffer.extend(**rows(ROWS))
        stream, graph = self.cuda.Stream(DEVICE), self.cuda.CUDAGraph()
        numbers = self.library.module.arange(4.0, device=DEVICE)
        batch, other = (self.buffer.sample(64, stream=stream) for _ in range(2))
        self.cuda.synchronize(DEVICE)
        with self.cuda.graph(graph, stream=stream):
            doubled = numbers * 2
            del batch
            self.assertEqual(len(self.buffer.sample(500)), 500)  # a larger one, whose memory is allocated now
            self.buffer.extend(**rows(3))
        numbers += 1
        graph.replay()
        self.cuda.synchronize(DEVICE)
        self.assertEqual(doubled.tolist(), [2, 4, 6, 8])
        self.check_taken(other)
        self.check_taken(self.buffer.sample(64, stream=stream))


class Interface:
    """An array that has nothing but the CUDA array interface."""

    def __init__(self, array):
        self._array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


class WithCupy(WithLibrary, unittest.TestCase):
    LIBRARY = Cupy

    def test_the_cuda_array_interface_both_ways(self):
        self.buffer.extend(**{name: Interface(array) for name, array in self.given(ROWS).items()})
        self.check_rows(np.arange(ROWS), rows(ROWS))
        batch = self.buffer.sample(64)
        for name in NAMES:
            np.testing.assert_array_equal(self.library.host(self.library.module.asarray(batch.array(name))),
                                          batch.array(name).numpy(), name)


class WithJax(WithLibrary, unittest.TestCase):
    LIBRARY = Jax


class WholeTraining(unittest.TestCase):
    """`train`, with actions from the device in the library's threads."""

    def check_twice(self, env, **options):
        results = [gpureplay.train(env, device=DEVICE, num_envs=4, steps=800, target_period=160, prepopulation=100,
                                   capacity=1000, eval_period=320, eval_episodes=2, deterministic=True, progress=False,
                                   **options) for _ in range(2)]
        one, other = ({name: tensor.tobytes() for name, tensor in result.agent.weights.items()} for result in results)
        self.assertEqual(one, other)
        self.assertEqual(results[0].episodes.tobytes(), results[1].episodes.tobytes())
        self.assertEqual((len(results[0].evaluations), results[0].stats.train_steps), (3, 200))

    def test_games_of_the_library_give_the_same_each_time(self):
        for concurrent in (False, True):
            for synchronized in (False, True):
                self.check_twice("CartPole-v1", concurrent=concurrent, synchronized=synchronized)
        self.check_twice("MinAtar/Breakout")

    def test_an_environment_in_python_gives_the_same_each_time(self):
        try:
            importlib.import_module("gymnasium")
        except ImportError:
            self.skipTest("gymnasium is not installed")
        self.check_twice("gymnasium:CartPole-v1")


def main():
    global DEVICE
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        DEVICE = sys.argv.pop(1)
    try:
        gpureplay.Device(DEVICE).close()
    except gpureplay.Unavailable as error:
        print(f"no device {DEVICE}: {error}")
        return 77
    found = unittest.main(verbosity=2, exit=False).result
    return 0 if found.wasSuccessful() and found.testsRun > len(found.skipped) else 1


if __name__ == "__main__":
    sys.exit(main())
