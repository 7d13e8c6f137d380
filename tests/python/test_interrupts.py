# SPDX-License-Identifier: MIT
"""What signal handlers raise, as Ctrl-C does, arrives wherever it meets a program, and nothing of the library is lost
with it: batches, tensors and whole buffers are given back."""

import ast
import gc
import random
import signal
import sys
from pathlib import Path

import gpureplay
import gymnasium
import numpy as np
import pytest
from support import TRANSITION, Endless, block

ROWS = 256
FIELDS = {**TRANSITION, "frame": ((50,), "float32")}
NETWORK = {"num_actions": 2, "trunk": [8], "batch_size": 8}


class Interrupts:
    """A timer's handler that raises KeyboardInterrupt. Each has its own timer, which is started anew."""

    def __init__(self):
        self.sent, self.lost = 0, []
        self._random = random.Random(1)

    def handle(self, *_):
        self.sent += 1
        raise KeyboardInterrupt

    def _call_until_it_comes(self, call, seconds):
        sent = self.sent
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-4, seconds))
        while self.sent == sent:
            call()

    def caught(self, count, call, seconds):
        """How many of `count` interrupts, each within so many seconds of calls, arrive as an exception."""
        arrived = 0
        for _ in range(count):
            try:
                self._call_until_it_comes(call, seconds)
            except KeyboardInterrupt:
                arrived += 1
        return arrived


@pytest.fixture
def interrupts(monkeypatch):
    made, callbacks = Interrupts(), gc.callbacks[:]
    monkeypatch.setattr(sys, "unraisablehook", made.lost.append)
    before = signal.signal(signal.SIGALRM, made.handle)
    gc.callbacks.clear()  # Hypothesis has one, in which Python drops what a handler raises
    yield made
    gc.callbacks.extend(callbacks)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(ROWS, FIELDS, device="cpu", sequences=True, max_batch=ROWS // 2) as made:
        rows = block(FIELDS, 0, ROWS)
        rows["action"] %= 2
        made.extend(**rows)
        yield made


class OfDlpack:
    """Takes arrays as another library does, or leaves the capsule to itself, with this version of DLPack."""

    def __init__(self, version, is_taken):
        self._version, self._is_taken = version, is_taken

    def __call__(self, buffer):
        array = buffer.sample(8).array("frame")
        if self._is_taken:
            np.from_dlpack(array)
        else:
            array.__dlpack__(max_version=self._version)


def refill(buffer):
    batch = buffer.sample(8)
    for _ in range(20):
        buffer.sample(8, out=batch)


def to_torch(buffer):
    pytest.importorskip("torch", reason="PyTorch is not installed here")
    buffer.sample(8).torch()


BATCHES = {
    "sample": lambda buffer: buffer.sample(32),
    "sample as out": refill,
    "sample_sequences": lambda buffer: buffer.sample_sequences(4, 8),
    "gather": lambda buffer: buffer.gather(np.arange(8)),
    "array": lambda buffer: np.asarray(buffer.sample(8).array("frame")),
    "DLPack": OfDlpack(None, True),
    "a capsule": OfDlpack(None, False),
    "a capsule of DLPack 1": OfDlpack((1, 0), False),
    "torch": to_torch,
}


@pytest.mark.parametrize("door", BATCHES)
def test_interrupts_of_a_loop_that_makes_batches_arrive(interrupts, buffer, door):
    call, count = BATCHES[door], 2000 if door == "sample" else 300
    call(buffer)
    arrived = interrupts.caught(count, lambda: call(buffer), 5e-4)
    gc.collect()
    assert (arrived, interrupts.sent, interrupts.lost) == (count, count, [])
    assert buffer.stats.batches_alive == 0


def make_buffer(_, device):
    gpureplay.ReplayBuffer(100, FIELDS, device=device)


def make_learner(buffer, _):
    gpureplay.DQN(buffer, **NETWORK).train(1)


def make_policy(_, device):
    gpureplay.Policy(((3,), "float32"), 2, trunk=[8], device=device)


def make_run(device, env, shape):
    buffer = gpureplay.ReplayBuffer(1000, gymnasium.spaces.Box(-9, 9, shape), Endless.action_space, device=device)
    agent = gpureplay.DQN(buffer, trunk=[8], batch_size=8, target_period=25)
    gpureplay.Run(agent, env, num_envs=2, target_period=100, eval_period=0, eval_episodes=0)


HANDLES = {
    "device": lambda *_: gpureplay.Device("cpu"),
    "buffer": make_buffer,
    "writer": lambda buffer, _: buffer.writer(2),
    "learner": make_learner,
    "policy": make_policy,
    "run": lambda _, device: make_run(device, "CartPole-v1", (4,)),
    "run of environments in Python": lambda _, device: make_run(device, lambda _: Endless(), (3,)),
}


@pytest.mark.parametrize("door", HANDLES)
def test_interrupts_of_a_loop_that_makes_other_objects_arrive(interrupts, door):
    call, count = HANDLES[door], 60 if "run" in door else 200
    device = gpureplay.Device("cpu")
    buffer = gpureplay.ReplayBuffer(ROWS, FIELDS, device=device)
    rows = block(FIELDS, 0, ROWS)
    rows["action"] %= 2
    buffer.extend(**rows)
    call(buffer, device)
    gc.collect()
    before = device.info.memory_used
    arrived = interrupts.caught(count, lambda: call(buffer, device), 5e-3 if "run" in door else 1e-3)
    gc.collect()
    assert (arrived, interrupts.sent, interrupts.lost) == (count, count, [])
    assert device.info.memory_used == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # also where calls catch handlers' exceptions
    buffer.close()


def test_no_finalizer_is_python_code():
    """Python drops what a handler raises there."""
    for path in Path(gpureplay.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                assert node.name != "__del__", f"{path.name}, line {node.lineno}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("WeakSet", "WeakKeyDictionary", "WeakValueDictionary", "WeakMethod",
                                         "finalize"), f"{path.name}, line {node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("weakref.ref", "weakref.proxy"):
                assert len(node.args) == 1, f"{path.name}, line {node.lineno}: a callback"
