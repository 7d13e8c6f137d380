# SPDX-License-Identifier: MIT
"""The public structs in ctypes. Run with a file name, it writes a C program there that prints the compiler's layout."""

import ctypes
import sys
from ctypes import c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p

MAX_DIMS, MAX_NAME, MAX_LAYERS = 6, 32, 8


class Field(ctypes.Structure):
    c_name = "gpur_field"
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("shape", c_int32 * MAX_DIMS)]


class Layer(ctypes.Structure):
    c_name = "gpur_layer"
    _fields_ = [("units", c_int32), ("activation", c_int32)]


class Schedule(ctypes.Structure):
    c_name = "gpur_schedule"
    _fields_ = [("first", c_float), ("last", c_float), ("begin", c_int64), ("steps", c_int64)]


class NetworkConfig(ctypes.Structure):
    c_name = "gpur_network_config"
    _fields_ = [
        ("trunk", Layer * MAX_LAYERS),
        *((name, c_int32) for name in "trunk_count head hidden hidden_activation outputs init".split()),
        ("init_scale", c_float),
    ]


class OptimizerConfig(ctypes.Structure):
    c_name = "gpur_optimizer_config"
    _fields_ = [
        ("kind", c_int32),
        ("centered", c_int32),
        ("learning_rate", Schedule),
        *((name, c_float) for name in "beta1 beta2 decay momentum epsilon clip_norm clip_value".split()),
    ]


class Sized(ctypes.Structure):
    """A config or info struct, which begins with its own size."""

    def __init__(self):
        super().__init__()
        self.size = ctypes.sizeof(self)


class DeviceConfig(Sized):
    c_name = "gpur_device_config"
    _fields_ = [
        ("size", c_uint64),
        ("threads", c_int32),
        ("executor", c_int32),
        *((name, c_void_p) for name in "stream log log_user alloc release alloc_user".split()),
    ]


class DeviceInfo(Sized):
    c_name = "gpur_device_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * 32),
        ("description", c_char * 128),
        ("is_cuda", c_int32),
        ("threads", c_int32),
        *((name, c_int64) for name in "memory_total memory_free memory_used".split()),
    ]


class ReplayConfig(Sized):
    c_name = "gpur_replay_config"
    _fields_ = [
        ("size", c_uint64),
        ("capacity", c_int64),
        ("fields", ctypes.POINTER(Field)),
        ("field_count", c_int32),
        ("index_source", c_int32),
        ("update_size", c_int64),
        *((name, c_int32) for name in "staging_blocks feed flush when_full".split()),
        ("min_size", c_int64),
        ("max_batch", c_int64),
        ("gamma", c_float),
        ("reward_clip", c_float),
        ("seed", c_uint64),
    ]


class ReplayPlan(Sized):
    c_name = "gpur_replay_plan"
    _fields_ = [
        ("size", c_uint64),
        *((name + "_bytes", c_int64) if name != "pitch" else ("row_pitch", c_int64)
          for name in "row pitch ring feed pinned batch device".split()),
    ]


class FieldInfo(Sized):
    c_name = "gpur_field_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * MAX_NAME),
        ("dtype", c_int32),
        ("dims", c_int32),
        ("shape", c_int32 * MAX_DIMS),
        ("offset", c_int64),
        ("bytes", c_int64),
    ]


class ReplayStats(Sized):
    c_name = "gpur_replay_stats"
    _fields_ = [
        ("size", c_uint64),
        *((name, c_int64) for name in (
            "first_id visible appended published evicted blocks episodes_cut draws batches_alive batches_made waits"
        ).split()),
        ("wait_seconds", c_double),
        ("append_seconds", c_double),
        ("bytes_fed", c_int64),
    ]


class LearnerConfig(Sized):
    c_name = "gpur_learner_config"
    _fields_ = [
        ("size", c_uint64),
        ("network", NetworkConfig),
        ("optimizer", OptimizerConfig),
        ("double_dqn", c_int32),
        ("loss", c_int32),
        ("huber_delta", c_float),
        ("index_source", c_int32),
        ("batch_size", c_int64),
        ("target_period", c_int64),
        *((name, c_int32) for name in "target_copy_first act max_act_batch math unroll reserved".split()),
        ("exploration", Schedule),
        ("seed", c_uint64),
        ("host_batches", c_int32),
        ("reserved2", c_int32),
    ]


class LearnerStats(Sized):
    c_name = "gpur_learner_stats"
    _fields_ = [
        ("size", c_uint64),
        *((name, c_int64) for name in "steps steps_enqueued skipped target_copies".split()),
        *((name, c_float) for name in "loss mean_loss mean_q gradient_norm learning_rate reserved".split()),
        ("steps_per_second", c_double),
        *((name, c_int64) for name in "device_bytes acts invalid_actions pinned_bytes".split()),
    ]


class WeightInfo(Sized):
    c_name = "gpur_weight_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * 64),
        ("dims", c_int32),
        ("shape", c_int32 * 2),
        ("count", c_int64),
    ]


STRUCTS = [
    Field, Layer, Schedule, NetworkConfig, OptimizerConfig, DeviceConfig, DeviceInfo, ReplayConfig, ReplayPlan,
    FieldInfo, ReplayStats, LearnerConfig, LearnerStats, WeightInfo,
]


def layout():
    """{"gpur_field": 40, "gpur_field.name": (0, 8), ...}: sizes, and (offset, size) of each member."""
    found = {}
    for struct in STRUCTS:
        found[struct.c_name] = ctypes.sizeof(struct)
        for name, _ in struct._fields_:
            member = getattr(struct, name)
            found[f"{struct.c_name}.{name}"] = (member.offset, member.size)
    return found


def c_program():
    """Prints the same, one line each: `name size` or `name.member offset size`."""
    lines = ["#include <gpureplay.h>", "#include <stdio.h>", "int main(void)", "{"]
    for struct in STRUCTS:
        lines.append(f'    printf("{struct.c_name} %zu\\n", sizeof({struct.c_name}));')
        for name, _ in struct._fields_:
            place = f"offsetof({struct.c_name}, {name}), sizeof((({struct.c_name} *)0)->{name})"
            lines.append(f'    printf("{struct.c_name}.{name} %zu %zu\\n", {place});')
    return "\n".join([*lines, "    return 0;", "}", ""])


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(c_program())
