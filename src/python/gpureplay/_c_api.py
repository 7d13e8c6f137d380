# SPDX-License-Identifier: MIT
"""The C API in ctypes, and nothing else: constants, structs and the signature of every function.

Needs the standard library alone. The headers under include/gpureplay/ are the documentation. A test compares every
constant, struct, member and function here with them.
"""

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Any, Union

MAX_FIELDS, MAX_DIMS, MAX_NAME, MAX_LAYERS, MAX_READERS, MAX_HOST_BATCHES = 64, 6, 64, 8, 8, 16
LAUNCH_STEPS, MAX_N_STEP, MAX_STACK = 256, 64, 16

OK, INVALID_ARGUMENT, OUT_OF_MEMORY, TOO_FEW, WOULD_BLOCK, UNAVAILABLE, DEVICE_ERROR = 0, 1, 2, 3, 4, 5, -1
FILE_ERROR, INTERRUPTED, EVICTED = 6, 7, 8
EXECUTOR_INLINE, EXECUTOR_THREAD = 0, 1
FLOAT32, FLOAT16, UINT8, INT32, INT64, BOOL = 1, 2, 3, 4, 5, 6
SOURCE_AUTO, UNIFORM, UNIFORM_DISTINCT, PRIORITIZED_STRATIFIED, PRIORITIZED_INDEPENDENT = 0, 1, 2, 3, 4
WEIGHT_NORM_BATCH, WEIGHT_NORM_MEMORY, WEIGHT_NORM_NONE = 0, 1, 2
UPLOAD_COPY, UPLOAD_SCATTER = 0, 1
FLUSH_AUTO, FLUSH_MANUAL = 0, 1
WHEN_FULL_WAIT, WHEN_FULL_ERROR = 0, 1
LAYOUT_ROWS, LAYOUT_FRAMES = 0, 1
STACK_FIRST, STACK_LAST = 0, 1
PAD_ZERO, PAD_REPEAT = 0, 1
OBSERVATIONS_STACKS, OBSERVATIONS_FRAMES = 0, 1
AUTORESET_DISABLED, AUTORESET_NEXT_STEP, AUTORESET_SAME_STEP = 0, 1, 2
EPISODE_NONE, EPISODE_OPEN, EPISODE_ENDED = 0, 1, 2
LINEAR, RELU, TANH = 0, 1, 2
DENSE, CONV = 0, 1
CHW, HWC = 0, 1
HEAD_Q, HEAD_DUELING, HEAD_SOFTMAX_VALUE, HEAD_TANH_ACTION = 0, 1, 2, 3
INIT_FAN_IN, INIT_GLOROT, INIT_NORMAL = 0, 1, 2
LOSS_HUBER, LOSS_SQUARED = 0, 1
ADAM, RMSPROP_TF, RMSPROP_KERAS2, RMSPROP_TORCH, RMSPROP_DEEPMIND = 0, 1, 2, 3, 4
MATH_FP32, MATH_TF32, MATH_BF16 = 0, 1, 2
ACT_LATEST, ACT_PREVIOUS, ACT_TARGET = 0, 1, 2
STEP_AUTO, STEP_LIBRARIES, STEP_FUSED = 0, 1, 2
WEIGHTS_ONLINE, WEIGHTS_TARGET, WEIGHTS_GRADIENT = 0, 1, 2


def _members(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Struct(ctypes.Structure):
    """A struct of the library's, by its name there."""

    c_name = ""


class Sized(Struct):
    """A config or info struct, which begins with its own size."""

    def __init__(self) -> None:
        super().__init__()
        self.size = ctypes.sizeof(self)


class DeviceConfig(Sized):
    c_name = "gpur_device_config"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_int32, "threads executor"),
        *_members(c_void_p, "stream log log_user alloc release alloc_user"),
    ]


class DeviceInfo(Sized):
    c_name = "gpur_device_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * 32),
        ("description", c_char * 128),
        *_members(c_int32, "is_cuda threads"),
        *_members(c_int64, "memory_total memory_free memory_used"),
    ]


class Field(Struct):
    c_name = "gpur_field"
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("shape", c_int32 * MAX_DIMS)]


class FieldInfo(Sized):
    c_name = "gpur_field_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * MAX_NAME),
        *_members(c_int32, "dtype dims"),
        ("shape", c_int32 * MAX_DIMS),
        *_members(c_int64, "offset bytes"),
    ]


class BatchView(Sized):
    c_name = "gpur_batch_view"
    _fields_ = [
        ("size", c_uint64),
        ("count", c_int64),
        *_members(c_void_p, "obs action reward next_obs terminated truncated discount weight id"),
    ]


class Schedule(Struct):
    c_name = "gpur_schedule"
    _fields_ = [*_members(c_float, "first last"), *_members(c_int64, "begin steps"), ("reserved", c_int64 * 2)]


class ReplayConfig(Sized):
    c_name = "gpur_replay_config"
    _fields_ = [
        ("size", c_uint64),
        ("capacity", c_int64),
        ("fields", POINTER(Field)),
        *_members(c_int32, "field_count index_source"),
        ("block_rows", c_int64),
        *_members(c_int32, "staging_blocks upload flush when_full"),
        *_members(c_int64, "min_size max_batch"),
        *_members(c_float, "gamma reward_clip"),
        ("seed", c_uint64),
        *_members(c_int32, "prioritized weight_norm"),
        *_members(c_float, "alpha priority_offset"),
        ("beta", Schedule),
        *_members(c_int32, "n_step layout frame_stack stack_axis stack_pad reserved"),
        ("extra_frames", c_int64),
    ]


class ReplayPlan(Sized):
    c_name = "gpur_replay_plan"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_int64, "row_bytes row_pitch ring_bytes upload_bytes pinned_bytes batch_bytes device_bytes"),
        *_members(c_int64, "priority_bytes frames frame_bytes frame_pitch frame_ring_bytes frame_reach"),
    ]


class ReplayStats(Sized):
    c_name = "gpur_replay_stats"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_int64,
                  "first_id visible appended published evicted blocks truncated_on_close sampled batches_alive"),
        *_members(c_int64, "batches_made waits"),
        *_members(c_double, "wait_seconds append_seconds"),
        *_members(c_int64, "bytes_uploaded frames_stored"),
    ]


class PriorityStats(Sized):
    c_name = "gpur_priority_stats"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_float, "alpha beta"),
        ("total", c_double),
        *_members(c_float, "max_priority min_priority"),
        *_members(c_int64, "nonzero updates stale invalid"),
    ]


class WriterConfig(Sized):
    c_name = "gpur_writer_config"
    _fields_ = [("size", c_uint64), *_members(c_int32, "num_envs autoreset observations reserved")]


class StepInput(Sized):
    c_name = "gpur_step_input"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_void_p, "action reward next_obs terminated truncated final_obs extras"),
    ]


class EpisodeInfo(Sized):
    c_name = "gpur_episode_info"
    _fields_ = [("size", c_uint64), ("steps", c_int64), *_members(c_int32, "state pending")]


class Layer(Struct):
    c_name = "gpur_layer"
    _fields_ = [*_members(c_int32, "kind units activation kernel stride padding"), ("reserved", c_int64 * 2)]


class NetworkConfig(Struct):
    c_name = "gpur_network_config"
    _fields_ = [
        ("trunk", Layer * MAX_LAYERS),
        *_members(c_int32, "trunk_count head hidden hidden_activation num_actions init"),
        *_members(c_float, "init_scale input_scale"),
        ("input_layout", c_int32),
        ("reserved", c_int64 * 4),
    ]


class OptimizerConfig(Struct):
    c_name = "gpur_optimizer_config"
    _fields_ = [
        *_members(c_int32, "kind centered"),
        ("learning_rate", Schedule),
        *_members(c_float, "beta1 beta2 decay momentum epsilon clip_norm clip_value"),
        ("reserved", c_int64 * 4),
    ]


class LearnerConfig(Sized):
    c_name = "gpur_learner_config"
    _fields_ = [
        ("size", c_uint64),
        ("network", NetworkConfig),
        ("optimizer", OptimizerConfig),
        *_members(c_int32, "double_dqn loss"),
        ("huber_delta", c_float),
        ("index_source", c_int32),
        *_members(c_int64, "batch_size target_period"),
        *_members(c_int32, "target_copy_first act max_act_batch math unroll step_kernel"),
        ("exploration", Schedule),
        ("seed", c_uint64),
        *_members(c_int32, "host_batches deterministic"),
        ("beta", Schedule),
    ]


class LearnerStats(Sized):
    c_name = "gpur_learner_stats"
    _fields_ = [
        ("size", c_uint64),
        *_members(c_int64, "steps steps_enqueued skipped target_copies"),
        *_members(c_float, "loss mean_loss mean_q gradient_norm learning_rate reserved"),
        ("steps_per_second", c_double),
        *_members(c_int64, "device_bytes actions invalid_actions pinned_bytes"),
    ]


class WeightInfo(Sized):
    c_name = "gpur_weight_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * 64),
        ("dims", c_int32),
        ("shape", c_int32 * 4),
        ("reserved", c_int32),
        ("count", c_int64),
    ]


class CheckpointOptions(Sized):
    c_name = "gpur_checkpoint_options"
    _fields_ = [("size", c_uint64), *_members(c_void_p, "progress progress_user")]


class CheckpointInfo(Sized):
    c_name = "gpur_checkpoint_info"
    _fields_ = [
        ("size", c_uint64),
        ("kind", c_char * 16),
        ("version", c_char * 16),
        *_members(c_int64, "bytes tensors rows capacity first_id writers steps weights"),
    ]


STRUCTS: list[type[Struct]] = [
    DeviceConfig, DeviceInfo, Field, FieldInfo, BatchView, ReplayConfig, ReplayPlan, ReplayStats, PriorityStats,
    WriterConfig, StepInput, EpisodeInfo, Layer, Schedule, NetworkConfig, OptimizerConfig, LearnerConfig, LearnerStats,
    WeightInfo, CheckpointOptions, CheckpointInfo,
]

PROGRESS_FN = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

# Handles and all other pointers are c_void_p: an int, or None for NULL.
_P, _I32, _I64, _U64, _F32, _TEXT = c_void_p, c_int32, c_int64, c_uint64, c_float, c_char_p
_STATUS = c_int32
FUNCTIONS = {
    "gpur_status_name": (_TEXT, [_STATUS]),
    "gpur_last_error": (_TEXT, []),
    "gpur_version": (_TEXT, []),
    "gpur_build_info": (_TEXT, []),
    "gpur_struct_size": (_I64, [_TEXT]),
    "gpur_device_config_init": (_STATUS, [_P, _U64]),
    "gpur_device_open": (_STATUS, [_TEXT, _P, _P]),
    "gpur_device_close": (None, [_P]),
    "gpur_device_get_info": (_STATUS, [_P, _P]),
    "gpur_device_alloc": (_STATUS, [_P, _I64, _P]),
    "gpur_device_free": (None, [_P, _P]),
    "gpur_device_copy": (_STATUS, [_P, _P, _P, _I64]),
    "gpur_device_sync": (_STATUS, [_P]),
    "gpur_device_wait_stream": (_STATUS, [_P, _P]),
    "gpur_replay_config_init": (_STATUS, [_P, _U64]),
    "gpur_replay_config_preset": (_STATUS, [_P, _TEXT]),
    "gpur_replay_plan_bytes": (_STATUS, [_P, _P]),
    "gpur_replay_create": (_STATUS, [_P, _P, _P]),
    "gpur_replay_destroy": (None, [_P]),
    "gpur_replay_get_field": (_STATUS, [_P, _I32, _P]),
    "gpur_replay_size": (_I64, [_P]),
    "gpur_replay_can_sample": (_I32, [_P]),
    "gpur_replay_sample": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_replay_gather": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_replay_sample_into": (_STATUS, [_P, _P, _P]),
    "gpur_replay_get_stats": (_STATUS, [_P, _P]),
    "gpur_replay_update_priorities": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_replay_get_priorities": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_replay_set_alpha": (_STATUS, [_P, _F32]),
    "gpur_replay_set_beta": (_STATUS, [_P, _F32]),
    "gpur_replay_get_priority_stats": (_STATUS, [_P, _P]),
    "gpur_replay_check_priorities": (_STATUS, [_P, _P]),
    "gpur_batch_count": (_I64, [_P]),
    "gpur_batch_get_array": (_STATUS, [_P, _TEXT, _P, _P]),
    "gpur_batch_get_view": (_STATUS, [_P, _P]),
    "gpur_batch_sync": (_STATUS, [_P]),
    "gpur_batch_wait": (_STATUS, [_P, _P]),
    "gpur_batch_read": (_STATUS, [_P, _TEXT, _P, _I64]),
    "gpur_batch_to_dlpack": (_STATUS, [_P, _TEXT, _I32, _P]),
    "gpur_batch_retain": (None, [_P]),
    "gpur_batch_release": (None, [_P]),
    "gpur_writer_config_init": (_STATUS, [_P, _U64]),
    "gpur_writer_open": (_STATUS, [_P, _P, _P]),
    "gpur_writer_create": (_STATUS, [_P, _I32, _P]),
    "gpur_writer_destroy": (None, [_P]),
    "gpur_writer_reset": (_STATUS, [_P, _I32, _P]),
    "gpur_writer_get_episode": (_STATUS, [_P, _I32, _P, _P]),
    "gpur_writer_set_ended": (_STATUS, [_P, _P]),
    "gpur_writer_step_ex": (_STATUS, [_P, _P]),
    "gpur_writer_step": (_STATUS, [_P, _P, _P, _P, _P, _P]),
    "gpur_writer_append": (_STATUS, [_P, _I64, _P, _P]),
    "gpur_writer_append_fields": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_writer_try_append_fields": (_STATUS, [_P, _I64, _P]),
    "gpur_writer_flush": (_STATUS, [_P]),
    "gpur_schedule_at": (_F32, [_P, _I64]),
    "gpur_learner_config_init": (_STATUS, [_P, _U64]),
    "gpur_learner_config_preset": (_STATUS, [_P, _TEXT]),
    "gpur_learner_create": (_STATUS, [_P, _P, _P]),
    "gpur_learner_destroy": (None, [_P]),
    "gpur_learner_train": (_STATUS, [_P, _I64]),
    "gpur_learner_train_ids": (_STATUS, [_P, _P]),
    "gpur_learner_acquire_host_batch": (_STATUS, [_P, _P]),
    "gpur_learner_train_host_batch": (_STATUS, [_P, _P]),
    "gpur_learner_release_host_batch": (_STATUS, [_P, _P]),
    "gpur_learner_sync": (_STATUS, [_P]),
    "gpur_learner_act": (_STATUS, [_P, _I64, _P, _F32, _P, _P]),
    "gpur_learner_q_values": (_STATUS, [_P, _I64, _P, _P, _P]),
    "gpur_learner_epsilon": (_F32, [_P, _I64]),
    "gpur_learner_get_stats": (_STATUS, [_P, _P]),
    "gpur_learner_weight_count": (_I32, [_P]),
    "gpur_learner_get_weight_info": (_STATUS, [_P, _I32, _P]),
    "gpur_learner_read_weights": (_STATUS, [_P, _I32, _TEXT, _P, _I64]),
    "gpur_checkpoint_options_init": (_STATUS, [_P, _U64]),
    "gpur_checkpoint_get_info": (_STATUS, [_TEXT, _P]),
    "gpur_replay_save": (_STATUS, [_P, _TEXT, _P]),
    "gpur_replay_load": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_save": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_load": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_save_weights": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_load_weights": (_STATUS, [_P, _TEXT, _P]),
    "gpur_learner_write_weights": (_STATUS, [_P, _I32, _TEXT, _P, _I64]),
}


def load(path: Union[str, os.PathLike[str]]) -> ctypes.CDLL:
    """The shared library, every function with its signature. RuntimeError when it is another version's."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise RuntimeError(f"{path} has no {name}; it is of another version than this package") from None
        function.restype, function.argtypes = result, arguments
    for struct in STRUCTS:
        theirs, ours = library.gpur_struct_size(struct.c_name.encode()), ctypes.sizeof(struct)
        if theirs != ours:
            raise RuntimeError(f"{struct.c_name} has {theirs} bytes in {path} and {ours} in this package; "
                               "they are of different versions")
    return library
