# SPDX-License-Identifier: MIT
"""The C API by ctypes alone: no package, no NumPy. An agent learns that the reward is at the right end of a corridor.

    GPUREPLAY_LIBRARY=build/libgpureplay.so python3 bare_ctypes.py [--quick]
"""

import ctypes
import os
import signal
import sys
from ctypes import byref, c_char_p, c_float, c_int32, c_int64, c_uint8, c_uint64, c_void_p

signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it as it ends a C program
try:
    lib = ctypes.CDLL(os.environ.get("GPUREPLAY_LIBRARY", "libgpureplay.so"))
except OSError as error:
    sys.exit(f"{error}\nset GPUREPLAY_LIBRARY to the path of libgpureplay.so")
lib.gpur_last_error.restype, lib.gpur_struct_size.restype = c_char_p, c_int64
FLOAT32, INT32, BOOL = 1, 4, 6


class Field(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("shape", c_int32 * 6)]


class ReplayConfig(ctypes.Structure):
    """As far as it is needed here: it begins with its own size, and what lies beyond keeps the library's defaults."""

    _fields_ = [("size", c_uint64), ("capacity", c_int64), ("fields", ctypes.POINTER(Field)), ("field_count", c_int32)]


def must(status):
    if status != 0:
        sys.exit(lib.gpur_last_error().decode())


def made_by(function, *arguments):
    """The handle that a creating function gives back through its last argument."""
    handle = c_void_p()
    must(function(*arguments, byref(handle)))
    return handle


fields = (Field * 5)((b"obs", FLOAT32, (1,)), (b"action", INT32), (b"reward", FLOAT32), (b"next_obs", FLOAT32, (1,)),
                     (b"terminated", BOOL))
memory = ReplayConfig()
must(lib.gpur_replay_config_init(byref(memory), c_uint64(ctypes.sizeof(memory))))
memory.capacity, memory.fields, memory.field_count = 10_000, fields, 5
size = lib.gpur_struct_size(b"gpur_dqn_config")
network = ctypes.create_string_buffer(size)  # nothing to set but a preset: its members need no names
must(lib.gpur_dqn_config_init(network, c_uint64(size)))
must(lib.gpur_dqn_config_preset(network, b"cartpole"))  # two actions

device = made_by(lib.gpur_device_open, b"auto", None)
replay = made_by(lib.gpur_replay_create, device, byref(memory))
writer = made_by(lib.gpur_writer_create, replay, c_int32(1))
learner = made_by(lib.gpur_dqn_create, replay, network)

place, action, arrived, reward = c_float(0), c_int32(), c_uint8(), c_float()
must(lib.gpur_writer_reset(writer, c_int32(0), byref(place)))
steps = 800 if "--quick" in sys.argv else 1500
for step in range(steps):
    epsilon = c_float(1 if step < 300 else 0.1)
    must(lib.gpur_learner_act(learner, c_int64(1), byref(place), epsilon, byref(action), None))
    place.value = max(place.value + (0.2 if action.value else -0.2), 0)  # 0: left, 1: right
    arrived.value = reward.value = place.value > 0.9
    must(lib.gpur_writer_step(writer, byref(action), byref(reward), byref(place), byref(arrived), None))
    if arrived.value:
        place.value = 0
        must(lib.gpur_writer_reset(writer, c_int32(0), byref(place)))
    must(lib.gpur_learner_train(learner, c_int64(1)))  # returns before it is done
    print(f"\r[{'#' * (20 * (step + 1) // steps):<20}] {step + 1} of {steps} steps", end="", flush=True)
print()

batch = made_by(lib.gpur_replay_sample, replay, c_int64(32), None)
rewards, q = (c_float * 32)(), (c_float * 2)()
must(lib.gpur_batch_read(batch, b"reward", rewards, c_int64(ctypes.sizeof(rewards))))
must(lib.gpur_learner_q_values(learner, c_int64(1), byref(c_float(0)), q, None))
print(f"rewards of 32 sampled transitions: {' '.join(f'{reward:g}' for reward in rewards)}")
print(f"at the start left is worth {q[0]:.2f}, right {q[1]:.2f} (0.99^4 = 0.96)")

lib.gpur_batch_release(batch)
lib.gpur_learner_destroy(learner)
lib.gpur_writer_destroy(writer)
lib.gpur_replay_destroy(replay)
lib.gpur_device_close(device)
