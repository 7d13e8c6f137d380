# SPDX-License-Identifier: MIT
"""The C API in ctypes, and nothing else: constants, structs and the signature of every function.

Needs the standard library alone. The headers under include/gpureplay/ are the documentation. A test compares every
constant, struct, member and function here with them.
"""

import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint8, c_uint64,
                    c_void_p)
from typing import Any, Union

from ._struct import Sized, Struct

MAX_FIELDS, MAX_DIMS, MAX_NAME, MAX_LAYERS, MAX_READERS, MAX_HOST_BATCHES = 64, 6, 64, 8, 8, 16
LAUNCH_STEPS, MAX_N_STEP, MAX_STACK, MAX_POLICY_STREAMS, MAX_ACTOR_CRITIC_BATCH = 256, 64, 16, 64, 65536
MAX_LANES = 65536

OK, INVALID_ARGUMENT, OUT_OF_MEMORY, TOO_FEW, WOULD_BLOCK, UNAVAILABLE, DEVICE_ERROR = 0, 1, 2, 3, 4, 5, -1
FILE_ERROR, INTERRUPTED, EVICTED = 6, 7, 8
EXECUTOR_INLINE, EXECUTOR_THREAD = 0, 1
FLOAT32, FLOAT16, UINT8, INT32, INT64, BOOL = 1, 2, 3, 4, 5, 6
SOURCE_AUTO, UNIFORM, UNIFORM_DISTINCT, PRIORITIZED_STRATIFIED, PRIORITIZED_INDEPENDENT = 0, 1, 2, 3, 4
WEIGHT_NORM_BATCH, WEIGHT_NORM_MEMORY, WEIGHT_NORM_NONE = 0, 1, 2
UPLOAD_COPY, UPLOAD_SCATTER = 0, 1
FLUSH_AUTO, FLUSH_MANUAL = 0, 1
WHEN_FULL_WAIT, WHEN_FULL_ERROR = 0, 1
LAYOUT_ROWS, LAYOUT_FRAMES, LAYOUT_LANES = 0, 1, 2
STACK_FIRST, STACK_LAST = 0, 1
PAD_ZERO, PAD_REPEAT = 0, 1
EVICT_OLDEST, EVICT_BY_PRIORITY = 0, 1
FIRST_PRIORITY_WINDOW, FIRST_PRIORITY_EVER = 0, 1
OBSERVATIONS_STACKS, OBSERVATIONS_FRAMES = 0, 1
AUTORESET_DISABLED, AUTORESET_NEXT_STEP, AUTORESET_SAME_STEP = 0, 1, 2
EPISODE_NONE, EPISODE_OPEN, EPISODE_ENDED = 0, 1, 2
RUN_EPISODE, RUN_EVALUATION, RUN_TUNED, FAST_DQN_FIELDS = 0, 1, 2, 7
PRESET_FAST_DQN, PRESET_APEX_DQN, PRESET_APEX_DPG, PRESET_GA3C, PRESET_A3C = range(5)
APEX_EPISODE, APEX_EVALUATION, APEX_STARTED, APEX_ENDED = 0, 1, 2, 3
APEX_MAX_ACTORS, APEX_EVALUATOR, APEX_FIELDS = 1024, 1024, 8
LINEAR, RELU, TANH = 0, 1, 2
DENSE, CONV = 0, 1
SAME = -1
CHW, HWC, INPUT_AUTO = 0, 1, 2
HEAD_Q, HEAD_DUELING, HEAD_SOFTMAX_VALUE, HEAD_TANH_ACTION = 0, 1, 2, 3
INIT_FAN_IN, INIT_GLOROT, INIT_NORMAL = 0, 1, 2
LOG_ADD, LOG_MAX, LOG_SOFTMAX = 0, 1, 2
LOSS_HUBER, LOSS_SQUARED = 0, 1
GA3C, A3C, A2C = 0, 1, 2
QUEUE_WAIT, QUEUE_REFUSE, QUEUE_DROP_OLDEST = 0, 1, 2
TUNER_NONE, TUNER_PAPER, TUNER_CODE = 0, 1, 2
EVALUATION_STEPS = 27000
GA3C_MAX_AGENTS, GA3C_MAX_PREDICTORS, GA3C_MAX_TRAINERS, GA3C_MAX_ROLLOUT, GA3C_LAGS = 1024, 64, 64, 256, 64
ADAM, RMSPROP_TF, RMSPROP_KERAS2, RMSPROP_TORCH, RMSPROP_DEEPMIND, ADAM_TF = 0, 1, 2, 3, 4, 5
ESTIMATOR_PENG, ESTIMATOR_N_STEP, ESTIMATOR_WATKINS, ESTIMATOR_PENG_MEDIAN, ESTIMATOR_WATKINS_MEDIAN = 0, 1, 2, 3, 4
ESTIMATOR_PENG_ERROR_BOUND, ESTIMATOR_WATKINS_ERROR_BOUND = 5, 6
CACHE_VIRTUAL, CACHE_PHYSICAL, CACHE_PERMUTATION, CACHE_REPLACEMENT = 0, 1, 0, 1
MATH_FP32, MATH_TF32, MATH_BF16, MATH_AUTO = 0, 1, 2, 3
ACT_LATEST, ACT_PREVIOUS, ACT_TARGET = 0, 1, 2
STEP_AUTO, STEP_LIBRARIES, STEP_FUSED = 0, 1, 2
WEIGHTS_ONLINE, WEIGHTS_TARGET, WEIGHTS_GRADIENT = 0, 1, 2


def _members(*parts: tuple[Any, str]) -> list[tuple[str, Any]]:
    """From types, each with the names of members that follow each other."""
    return [(name, kind) for kind, names in parts for name in names.split()]


class DeviceConfig(Sized):
    c_name = "gpur_device_config"
    _fields_ = _members((c_uint64, "size"), (c_int32, "threads executor"),
                        (c_void_p, "stream log log_user alloc release alloc_user"))


class DeviceInfo(Sized):
    c_name = "gpur_device_info"
    _fields_ = _members((c_uint64, "size"), (c_char * 32, "name"), (c_char * 128, "description"),
                        (c_int32, "is_cuda threads"), (c_int64, "memory_total memory_free memory_used"))


class Field(Struct):
    c_name = "gpur_field"
    _fields_ = _members((c_char_p, "name"), (c_int32, "dtype"), (c_int32 * MAX_DIMS, "shape"))


class FieldInfo(Sized):
    c_name = "gpur_field_info"
    _fields_ = _members((c_uint64, "size"), (c_char * MAX_NAME, "name"), (c_int32, "dtype dims"),
                        (c_int32 * MAX_DIMS, "shape"), (c_int64, "offset bytes"))


class BatchView(Sized):
    c_name = "gpur_batch_view"
    _fields_ = _members((c_uint64, "size"), (c_int64, "count"),
                        (c_void_p, "obs action reward next_obs terminated truncated discount weight id"))


class SequenceConfig(Sized):
    c_name = "gpur_sequence_config"
    _fields_ = _members((c_uint64, "size"), (c_int64, "batch length min_length"),
                        (c_int32, "across_episodes index_source"), (c_void_p, "last_ids"))


class LaneDraw(Sized):
    c_name = "gpur_lane_draw"
    _fields_ = _members((c_uint64, "size"), (c_int64, "count"), (c_void_p, "ids fields id weight discount steps"),
                        (c_int32, "n_step"), (c_float, "gamma"), (c_int32, "of_each_lane across_episodes"),
                        (c_int64, "length min_length"), (c_void_p, "mask is_first"))


class LaneStats(Sized):
    c_name = "gpur_lane_stats"
    _fields_ = _members((c_uint64, "size"),
                        (c_int64, "steps transitions draws finals without_final lost_finals broken_stacks"))


class Schedule(Struct):
    c_name = "gpur_schedule"
    _fields_ = _members((c_float, "first last"), (c_int64, "begin steps"), (c_int64 * 2, "reserved"))


class ReplayConfig(Sized):
    c_name = "gpur_replay_config"
    _fields_ = _members((c_uint64, "size"), (c_int64, "capacity"), (POINTER(Field), "fields"),
                        (c_int32, "field_count index_source"), (c_int64, "block_rows"),
                        (c_int32, "staging_blocks upload flush when_full"), (c_int64, "min_size max_batch"),
                        (c_float, "gamma reward_clip"), (c_uint64, "seed"), (c_int32, "prioritized weight_norm"),
                        (c_float, "alpha priority_offset"), (Schedule, "beta"),
                        (c_int32, "n_step layout frame_stack stack_axis stack_pad check_finite"),
                        (c_int64, "extra_frames"), (c_int32, "eviction"), (c_float, "evict_alpha"),
                        (c_int32, "first_priority lane_autoreset"), (c_int64, "lanes lane_steps"))


class ReplayPlan(Sized):
    c_name = "gpur_replay_plan"
    _fields_ = _members((c_uint64, "size"),
                        (c_int64, "row_bytes row_pitch ring_bytes upload_bytes pinned_bytes batch_bytes device_bytes "
                                  "priority_bytes frames frame_bytes frame_pitch frame_ring_bytes frame_reach"))


class ReplayStats(Sized):
    c_name = "gpur_replay_stats"
    _fields_ = _members((c_uint64, "size"),
                        (c_int64, "first_id visible appended published evicted blocks truncated_on_close sampled "
                                  "batches_alive batches_made waits"), (c_double, "wait_seconds append_seconds"),
                        (c_int64, "bytes_uploaded frames_stored cut_on_load"))


class PriorityStats(Sized):
    c_name = "gpur_priority_stats"
    _fields_ = _members((c_uint64, "size"), (c_float, "alpha beta"), (c_double, "total"),
                        (c_float, "max_priority min_priority"), (c_int64, "nonzero updates stale invalid raised"))


class WriterConfig(Sized):
    c_name = "gpur_writer_config"
    _fields_ = _members((c_uint64, "size"), (c_int32, "num_envs autoreset observations link_appends"))


class StepInput(Sized):
    c_name = "gpur_step_input"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "action reward next_obs terminated truncated final_obs extras"))


class EpisodeInfo(Sized):
    c_name = "gpur_episode_info"
    _fields_ = _members((c_uint64, "size"), (c_int64, "steps"), (c_int32, "state pending"))


class Layer(Struct):
    c_name = "gpur_layer"
    _fields_ = _members((c_int32, "kind units activation kernel stride padding"), (c_int64 * 2, "reserved"))


class NetworkConfig(Struct):
    c_name = "gpur_network_config"
    _fields_ = _members((Layer * MAX_LAYERS, "trunk"),
                        (c_int32, "trunk_count head hidden hidden_activation num_actions init"),
                        (c_float, "init_scale input_scale"), (c_int32, "input_layout"), (c_float, "input_shift"),
                        (c_int64 * 4, "reserved"))


class OptimizerConfig(Struct):
    c_name = "gpur_optimizer_config"
    _fields_ = _members((c_int32, "kind centered"), (Schedule, "learning_rate"),
                        (c_float, "beta1 beta2 decay momentum epsilon clip_norm clip_value"), (c_int64 * 4, "reserved"))


class ReturnsConfig(Struct):
    c_name = "gpur_returns_config"
    _fields_ = _members((c_int64, "cache_size block_length"), (c_int32, "estimator"), (c_float, "lambda"),
                        (c_int32, "n_step"), (c_float, "error_bound"), (c_int32, "storage draw"),
                        (Schedule, "prioritization"), (c_int32, "truncation_terminates reserved0"),
                        (c_int64 * 4, "reserved"))


class DQNConfig(Sized):
    c_name = "gpur_dqn_config"
    _fields_ = _members((c_uint64, "size"), (NetworkConfig, "network"), (OptimizerConfig, "optimizer"),
                        (c_int32, "double_dqn loss"), (c_float, "huber_delta"), (c_int32, "index_source"),
                        (c_int64, "batch_size target_period"),
                        (c_int32, "target_copy_first act max_act_batch math step_kernel"),
                        (Schedule, "exploration"), (c_uint64, "seed"), (c_int32, "host_batches deterministic"),
                        (Schedule, "beta"), (ReturnsConfig, "returns"))


class LearnerStats(Sized):
    c_name = "gpur_learner_stats"
    _fields_ = _members((c_uint64, "size"), (c_int64, "steps steps_enqueued skipped target_copies"),
                        (c_float, "loss mean_loss mean_q gradient_norm learning_rate "
                                  "policy_loss policy_gradient_norm policy_learning_rate"),
                        (c_double, "steps_per_second"),
                        (c_int64, "device_bytes pinned_bytes actions invalid_actions"),
                        (c_int64, "refreshes missing_rows cache_bytes diverged_at empty_refreshes"))


class WeightInfo(Sized):
    c_name = "gpur_weight_info"
    _fields_ = _members((c_uint64, "size"), (c_char * 64, "name"), (c_int32, "dims"), (c_int32 * 4, "shape"),
                        (c_int32, "reserved"), (c_int64, "count"))


class PolicyConfig(Sized):
    c_name = "gpur_policy_config"
    _fields_ = _members((c_uint64, "size"), (NetworkConfig, "network"), (Field, "obs"),
                        (c_int32, "max_batch streams math deterministic"), (c_uint64, "seed"),
                        (c_float, "policy_floor"), (c_int32, "reserved"))


class PolicyInput(Sized):
    c_name = "gpur_policy_input"
    _fields_ = _members((c_uint64, "size"), (c_int64, "count"), (c_void_p, "obs epsilon lane step stream"),
                        (c_int32, "greedy reserved"), (c_void_p, "sigma"))


class PolicyOutput(Sized):
    c_name = "gpur_policy_output"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "actions q version probabilities values action_vectors"))


class PolicyStats(Sized):
    c_name = "gpur_policy_stats"
    _fields_ = _members((c_uint64, "size"), (c_int64, "calls observations version device_bytes pinned_bytes"))


class ActorCriticConfig(Sized):
    c_name = "gpur_actor_critic_config"
    _fields_ = _members((c_uint64, "size"), (NetworkConfig, "network"), (Field, "obs"), (OptimizerConfig, "optimizer"),
                        (c_int32, "dual_optimizer log"), (c_float, "log_epsilon policy_floor value_coefficient"),
                        (Schedule, "entropy"), (c_int32, "max_batch math deterministic check_finite"),
                        (c_uint64, "seed"))


class ActorCriticBatch(Sized):
    c_name = "gpur_actor_critic_batch"
    _fields_ = _members((c_uint64, "size"), (c_int64, "count"), (c_void_p, "obs actions returns"))


class ActorCriticLosses(Sized):
    c_name = "gpur_actor_critic_losses"
    _fields_ = _members((c_uint64, "size"), (c_int64, "step"),
                        (c_double, "policy value entropy mean_value gradient_norm learning_rate"))


class DPGConfig(Sized):
    c_name = "gpur_dpg_config"
    _fields_ = _members((c_uint64, "size"), (NetworkConfig, "actor critic"),
                        (OptimizerConfig, "actor_optimizer critic_optimizer"), (c_float, "action_gradient_clip"),
                        (c_int32, "index_source"), (Schedule, "beta"), (c_int64, "batch_size target_period"),
                        (c_int32, "math deterministic"), (c_float, "preactivation_penalty"),
                        (c_uint64, "seed"))


class CheckpointOptions(Sized):
    c_name = "gpur_checkpoint_options"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "progress progress_user"))


class CheckpointInfo(Sized):
    c_name = "gpur_checkpoint_info"
    _fields_ = _members((c_uint64, "size"), (c_char * 16, "kind version"),
                        (c_int64, "bytes tensors rows capacity first_id writers steps weights envs"))


class Space(Struct):
    c_name = "gpur_space"
    _fields_ = _members((c_int32, "dtype"), (c_int32 * MAX_DIMS, "shape"), (c_int32, "num_actions"),
                        (c_float, "low high"), (c_void_p, "lows highs"))


class EnvInfo(Sized):
    c_name = "gpur_env_info"
    _fields_ = _members((c_uint64, "size"), (Space, "obs action"), (c_int64, "max_steps save_bytes"))


class EnvResult(Struct):
    c_name = "gpur_env_result"
    _fields_ = _members((c_float, "reward"), (c_uint8, "terminated truncated continues reserved"))


class EnvType(Sized):
    """Its functions return None, or a sentence that says what went wrong."""

    c_name = "gpur_env_type"
    _fields_ = _members((c_uint64, "size"), (c_char_p, "name options"),
                        (CFUNCTYPE(c_char_p, c_char_p, c_uint64, c_void_p, c_void_p), "init"),
                        (CFUNCTYPE(c_char_p, c_void_p, c_void_p), "reset"),
                        (CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_void_p, c_void_p), "step"),
                        (CFUNCTYPE(None, c_void_p), "close"),
                        (CFUNCTYPE(c_char_p, c_void_p, c_void_p), "save load"))


class VectorResult(Struct):
    c_name = "gpur_vector_result"
    _fields_ = _members((c_void_p, "next_obs final_obs reward terminated truncated continues"))


class VectorEnvType(Sized):
    c_name = "gpur_vector_env_type"
    _fields_ = _members((c_uint64, "size"), (c_char_p, "name options"), (c_int32, "autoreset reserved"),
                        (CFUNCTYPE(c_char_p, c_char_p, c_uint64, c_int32, c_void_p, c_void_p), "init"),
                        (CFUNCTYPE(c_char_p, c_void_p, c_void_p), "reset"),
                        (CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_void_p), "step"),
                        (CFUNCTYPE(None, c_void_p), "close"))


class RunEnvs(Sized):
    c_name = "gpur_run_envs"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "type vector"), (c_char_p, "options"),
                        (c_int32, "eval_count reserved"))


class RunEvent(Sized):
    c_name = "gpur_run_event"
    _fields_ = _members((c_uint64, "size"), (c_int32, "kind env_index"),
                        (c_int64, "env_steps train_steps length episodes"),
                        (c_double, "mean_return return_deviation"), (c_int64, "version"),
                        (c_void_p, "policy run learner"),
                        (c_int32, "agents predictors trainers accepted"), (c_double, "rate loss"))


class FastDQNConfig(Sized):
    c_name = "gpur_fast_dqn_config"
    _fields_ = _members((c_uint64, "size"), (c_int32, "num_envs threads concurrent synchronized act whole_episodes"),
                        (c_int64, "target_period train_period prepopulation eval_period eval_episodes"),
                        (c_float, "eval_epsilon"), (c_int32, "burst"), (c_uint64, "seed"),
                        (CFUNCTYPE(None, c_void_p, c_void_p), "on_event"), (c_void_p, "user"))


class FastDQNStats(Struct):
    c_name = "gpur_fast_dqn_stats"
    _fields_ = _members((c_int64, "prepopulated inferences inferred"),
                        (c_double, "infer_seconds flush_seconds copy_seconds"), (c_int64 * 10, "reserved"))


class GA3CStats(Struct):
    c_name = "gpur_ga3c_stats"
    _fields_ = _members((c_int64, "predictions prediction_batches trained_rows training_batches refused_rollouts "
                                  "overwritten_rollouts left_rollouts dropped_rows largest_lag lag_sum"),
                        (c_int64 * GA3C_LAGS, "lags"), (c_double, "mean_lag"), (c_int64, "queue_lag queue_lag_bound"),
                        (c_int32, "agents predictors trainers reserved0"),
                        (c_double, "prediction_queue training_queue wait_seconds queue_seconds predict_seconds "
                                   "predictor_seconds policy_loss value_loss entropy mean_value gradient_norm "
                                   "learning_rate"), (c_int64 * 10, "reserved"))


class RunStats(Sized):
    c_name = "gpur_run_stats"
    _fields_ = _members((c_uint64, "size"),
                        (c_int64, "env_steps train_steps episodes evaluations eval_episode eval_cut evaluated_steps"),
                        (c_double, "evaluated_return recent_return loss seconds env_seconds train_seconds "
                                   "eval_seconds"), (c_int64 * 17, "reserved"),
                        (FastDQNStats, "fast_dqn"), (GA3CStats, "ga3c"))


class BlockInfo(Sized):
    c_name = "gpur_block_info"
    _fields_ = _members((c_uint64, "size format"),
                        (c_int64, "actor incarnation sequence first_step version rows frames bytes raw_bytes"))


class BlockInput(Sized):
    c_name = "gpur_block_input"
    _fields_ = _members((c_uint64, "size"), (c_int64, "actor incarnation sequence first_step version rows"),
                        (c_void_p, "fields"), (c_int64, "frames"), (c_void_p, "frame_data links"),
                        (c_int32, "compression"))


class PackerConfig(Sized):
    c_name = "gpur_packer_config"
    _fields_ = _members((c_uint64, "size"), (c_int64, "actor incarnation"),
                        (c_int32, "rows num_actions observations compression"))


class PackerStepInput(Sized):
    c_name = "gpur_packer_step_input"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "action"), (c_float, "reward"),
                        (c_uint8, "terminated truncated"), (c_void_p, "next_obs q final_q extras"),
                        (c_int64, "version"))


class ApexEvent(Sized):
    c_name = "gpur_apex_event"
    _fields_ = _members((c_uint64, "size"), (c_int32, "kind actor"), (c_int64, "incarnation env_steps train_steps "
                        "length episodes"),
                        (c_double, "mean_return return_deviation"), (c_float, "epsilon"), (c_int32, "asked"),
                        (c_int64, "lost_blocks lost_rows"), (c_char_p, "error"))


class ApexConfig(Sized):
    c_name = "gpur_apex_config"
    _fields_ = _members((c_uint64, "size"), (c_int32, "actors processes"), (c_void_p, "command"),
                        (c_float, "epsilon_base epsilon_exponent"), (c_void_p, "epsilons"),
                        (c_int32, "epsilon_count block_rows compression initial_priorities replicate"),
                        (c_int64, "pull_period max_episode_steps broadcast_period soft_capacity trim_period"),
                        (c_double, "samples_per_insert limiter_band limiter_timeout"), (c_int64, "eval_episodes "
                        "eval_period"), (c_float, "eval_epsilon"), (c_int32, "restarts"), (c_uint64, "seed"),
                        (c_char_p, "env_options"), (CFUNCTYPE(None, c_void_p, c_void_p), "on_event"),
                        (c_void_p, "user"), (c_char_p, "folder"), (c_float, "sigma"), (c_int32, "remote_actors"),
                        (c_int64, "rows_under_way"))


class ApexNetworks(Sized):
    c_name = "gpur_apex_networks"
    _fields_ = _members((c_uint64, "size"), (c_void_p, "acting critic"))


class ApexTransport(Sized):
    c_name = "gpur_apex_transport"
    _fields_ = _members((c_uint64, "size"), (CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64), "take_block"),
                        (CFUNCTYPE(c_int32, c_void_p, c_int64, c_double), "take_episode"),
                        (CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_void_p), "copy_weights"), (c_void_p, "user"))


class ApexStats(Sized):
    c_name = "gpur_apex_stats"
    _fields_ = _members((c_uint64, "size"),
                        (c_int64, "env_steps episodes train_steps learned blocks rows inserted bytes refused_blocks "
                                  "lost_blocks lost_rows starts deaths actors broadcasts pulled trims eval_episode "
                                  "limiter_timeouts"),
                        (c_double, "recent_return evaluated_return seconds train_seconds broadcast_seconds "
                                   "receive_seconds learner_wait_seconds actor_seconds actor_env_seconds "
                                   "actor_infer_seconds actor_wait_seconds weights_age"))


class GA3CConfig(Sized):
    c_name = "gpur_ga3c_config"
    _fields_ = _members((c_uint64, "size"), (c_int32, "system agents predictors trainers t_max"),
                        (c_float, "discount reward_clip"),
                        (c_int32, "drop_terminal max_prediction_batch min_train_batch queue_room when_full tuner"),
                        (c_double, "tuner_period tuner_settling"), (c_int32, "max_agents reserved"),
                        (c_uint64, "seed"), (CFUNCTYPE(None, c_void_p, c_void_p), "on_event"), (c_void_p, "user"))


STRUCTS: list[type[Struct]] = [
    DeviceConfig, DeviceInfo, Field, FieldInfo, BatchView, SequenceConfig, LaneDraw, LaneStats, ReplayConfig,
    ReplayPlan, ReplayStats, PriorityStats, WriterConfig, StepInput, EpisodeInfo, Layer, Schedule, NetworkConfig,
    OptimizerConfig, ReturnsConfig, DQNConfig, LearnerStats, WeightInfo, PolicyConfig, PolicyInput, PolicyOutput,
    PolicyStats, ActorCriticConfig, ActorCriticBatch, ActorCriticLosses, DPGConfig, CheckpointOptions,
    CheckpointInfo, Space, EnvInfo, EnvResult, EnvType, VectorResult, VectorEnvType, RunEnvs, RunEvent,
    FastDQNConfig, FastDQNStats, RunStats, BlockInfo, BlockInput, PackerConfig, PackerStepInput, ApexEvent,
    ApexConfig, ApexNetworks, ApexTransport, ApexStats, GA3CConfig, GA3CStats,
]

PROGRESS_FN = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)
LOG_FN = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

# Result, arguments, and the functions that have these. Handles and all other pointers are c_void_p: an int, or None for
# NULL. A status is an int32, as are some other results.
_P, _I32, _I64, _U64, _F32, _TEXT = c_void_p, c_int32, c_int64, c_uint64, c_float, c_char_p
_STATUS = c_int32
FUNCTIONS = {name: (result, arguments) for result, arguments, names in (
    (_TEXT, [_I32], "gpur_status_name gpur_env_name"),
    (_TEXT, [_I32, _P], "gpur_preset_name"),
    (_TEXT, [], "gpur_last_error gpur_version gpur_build_info"),
    (_I64, [_TEXT], "gpur_struct_size"),
    (_STATUS, [_P, _U64], "gpur_device_config_init gpur_replay_config_init gpur_writer_config_init "
        "gpur_sequence_config_init gpur_lane_draw_init "
        "gpur_dqn_config_init gpur_policy_config_init gpur_fast_dqn_config_init gpur_checkpoint_options_init "
        "gpur_packer_config_init gpur_apex_config_init gpur_actor_critic_config_init gpur_ga3c_config_init "
        "gpur_dpg_config_init"),
    (_STATUS, [_TEXT, _P, _P], "gpur_device_open"),
    (None, [_P], "gpur_device_close gpur_replay_destroy gpur_batch_retain gpur_batch_release gpur_writer_destroy "
        "gpur_learner_destroy gpur_policy_destroy gpur_run_destroy gpur_run_stop "
        "gpur_block_format_destroy gpur_packer_destroy gpur_apex_destroy gpur_apex_stop "
        ""),
    (_STATUS, [_P, _P], "gpur_device_get_info gpur_device_wait_stream gpur_replay_plan_bytes gpur_replay_get_stats "
        "gpur_replay_get_priority_stats gpur_replay_check_priorities gpur_batch_get_view gpur_batch_wait "
        "gpur_writer_set_ended gpur_writer_step_ex gpur_learner_train_ids gpur_learner_acquire_host_batch "
        "gpur_learner_train_host_batch gpur_learner_release_host_batch gpur_learner_get_stats gpur_policy_get_stats "
        "gpur_policy_get_config "
        "gpur_run_get_stats gpur_block_format_create gpur_packer_reset gpur_packer_step gpur_apex_get_stats "
        ""),
    (_STATUS, [_P, _I64, _P], "gpur_device_alloc gpur_writer_try_append_fields"),
    (None, [_P, _P], "gpur_device_free"),
    (_STATUS, [_P, _P, _P, _I64], "gpur_device_copy"),
    (_I32, [_P], "gpur_learner_math"),
    (_STATUS, [_P], "gpur_device_sync gpur_replay_can_sample gpur_batch_sync gpur_writer_flush "
        "gpur_writer_end_appended_episode gpur_learner_sync gpur_learner_refresh "
        "gpur_learner_weight_count"),
    (_STATUS, [_P, _TEXT], "gpur_replay_config_preset gpur_dqn_config_preset gpur_policy_config_preset "
        "gpur_run_save gpur_run_load gpur_apex_save"),
    (_STATUS, [_P, _P, _P], "gpur_replay_create gpur_replay_add_lanes gpur_replay_reset_lanes gpur_replay_draw_lanes "
        "gpur_replay_get_lane_stats gpur_replay_sample_into gpur_writer_open gpur_dqn_create "
        "gpur_policy_create gpur_policy_act gpur_packer_create gpur_actor_critic_create gpur_actor_critic_train "
        "gpur_dpg_create"),
    (_STATUS, [_P, _I32, _P], "gpur_replay_get_field gpur_writer_create gpur_writer_reset "
        "gpur_learner_get_weight_info"),
    (_STATUS, [_P, _TEXT, _P, _P], "gpur_policy_open"),
    (_I32, [_I32, _I32, _I32], "gpur_image_layout"),
    (_STATUS, [_P, _P, _I32], "gpur_policy_pull"),
    (_STATUS, [_P, _P, _I64], "gpur_policy_get_weights gpur_policy_set_weights"),
    (_I64, [_P], "gpur_replay_size gpur_batch_count gpur_batch_length gpur_policy_version gpur_policy_weights_bytes "
        "gpur_apex_weights_bytes"),
    (_U64, [_P], "gpur_block_format_hash"),
    (_I64, [_P, _I64, _I64], "gpur_block_max_bytes"),
    (_STATUS, [_P, _P, _P, _I64, _P], "gpur_block_pack"),
    (_STATUS, [_P, _P, _I64, _P], "gpur_block_check gpur_writer_append_block"),
    (_STATUS, [_P, _I64, _I64], "gpur_apex_advance gpur_run_advance"),
    (_I64, [ctypes.c_double, _I64, _I64], "gpur_apex_rows_under_way"),
    (_STATUS, [_P, _I32], "gpur_apex_set_actors gpur_apex_finish"),
    (_I64, [_P, _I32], "gpur_apex_actor_process"),
    (_STATUS, [_P, _TEXT, _I32], "gpur_apex_load"),
    (_STATUS, [_I32, _P, _TEXT, _P, _P, _I32], "gpur_apex_serve"),
    (_STATUS, [_P, _I32, _P, _P, _P, _I32, _P, _P], "gpur_apex_work"),
    (_STATUS, [_P, _I32, _I64, _P, _P, _P, _I32, _P], "gpur_apex_act"),
    (_STATUS, [_P, _P, _I64], "gpur_apex_receive_block"),
    (_STATUS, [_P, _I32, _I64, ctypes.c_double], "gpur_apex_receive_episode"),
    (_STATUS, [_P, _I32, _I64], "gpur_apex_receive_start"),
    (_STATUS, [_P, _P, _I64, _P], "gpur_apex_get_weights"),
    (_STATUS, [_P, _I64, _P, _P], "gpur_replay_sample gpur_replay_get_priorities gpur_writer_append"),
    (_STATUS, [_P, _I64, _P, _P, _P], "gpur_replay_gather gpur_replay_update_priorities gpur_replay_update_lanes "
        "gpur_writer_append_fields "
        "gpur_learner_q_values"),
    (_STATUS, [_P, _F32], "gpur_replay_set_alpha gpur_replay_set_beta"),
    (_STATUS, [_P, _TEXT, _P, _P], "gpur_batch_get_array"),
    (_STATUS, [_P, _TEXT, _P, _I64], "gpur_batch_read"),
    (_STATUS, [_P, _TEXT, _I32, _P], "gpur_batch_to_dlpack"),
    (_STATUS, [_P, _I32, _P, _P], "gpur_writer_get_episode gpur_packer_take"),
    (_STATUS, [_P, _P, _P, _P, _P, _P], "gpur_writer_step"),
    (_F32, [_P, _I64], "gpur_schedule_at gpur_learner_epsilon"),
    (_STATUS, [_P, _I64], "gpur_learner_train gpur_replay_trim"),
    (_STATUS, [_P, _I64, _I32, _P], "gpur_run_evaluate"),
    (_STATUS, [_P, _I32, _I32, _I32], "gpur_ga3c_set_counts"),
    (_STATUS, [_TEXT, _P, _P, _P], "gpur_ga3c_preset"),
    (_STATUS, [_TEXT, _P, _P, _P, _P, _P], "gpur_fast_dqn_preset"),
    (_STATUS, [_P, _I64, _P, _F32, _P, _P], "gpur_learner_act"),
    (_STATUS, [_TEXT, _P, _TEXT, _P, _P, _P, _P, _P], "gpur_apex_preset"),
    (_STATUS, [_P, _P, _P, _P], "gpur_fast_dqn_create gpur_apex_create gpur_ga3c_create "
        "gpur_replay_sample_sequences gpur_replay_sample_sequences_into"),
    (_STATUS, [_P, _I32, _TEXT, _P, _I64], "gpur_learner_read_weights gpur_learner_write_weights"),
    (_STATUS, [_TEXT, _P], "gpur_checkpoint_get_info gpur_env_find gpur_vector_env_find"),
    (_STATUS, [_P, _TEXT, _P], "gpur_env_get_info gpur_vector_env_get_info gpur_replay_save gpur_replay_load "
        "gpur_learner_save gpur_learner_load gpur_learner_save_weights gpur_learner_load_weights gpur_policy_save "
        "gpur_policy_load"),
) for name in names.split()}


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
