# SPDX-License-Identifier: MIT
# Written by python3 tests/package/test_ctypes.py --write
"""The C API in ctypes, and nothing else: constants, structs and the signature of every function.

Needs the standard library alone. The headers under include/gpureplay/ are the documentation, and this file is made of
them. Handles and all other pointers are c_void_p: an int, or None for NULL. A status is an int32.
"""

from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8,
                    c_uint64, c_void_p)
from typing import Any

from ._struct import Sized, Struct

LOG_ADD = 0
LOG_MAX = 1
LOG_SOFTMAX = 2
MAX_ACTOR_CRITIC_BATCH = 65536
APEX_MAX_ACTORS = 1024
APEX_EVALUATOR = 1024
APEX_FIELDS = 8
MAX_READERS = 8
EXECUTOR_INLINE = 0
EXECUTOR_THREAD = 1
LOSS_HUBER = 0
LOSS_SQUARED = 1
ACT_LATEST = 0
ACT_PREVIOUS = 1
ACT_TARGET = 2
STEP_AUTO = 0
STEP_LIBRARIES = 1
STEP_FUSED = 2
MAX_HOST_BATCHES = 16
EVALUATION_STEPS = 27000
FAST_DQN_FIELDS = 7
GA3C_MAX_AGENTS = 1024
GA3C_MAX_PREDICTORS = 64
GA3C_MAX_TRAINERS = 64
GA3C_MAX_ROLLOUT = 256
GA3C = 0
A3C = 1
A2C = 2
QUEUE_WAIT = 0
QUEUE_REFUSE = 1
QUEUE_DROP_OLDEST = 2
TUNER_NONE = 0
TUNER_PAPER = 1
TUNER_CODE = 2
HINDSIGHT_FUTURE = 0
HINDSIGHT_FINAL = 1
HINDSIGHT_EPISODE = 2
GOAL_REWARD_SPARSE = 0
GOAL_REWARD_DISTANCE = 1
GOAL_REWARD_NEARNESS = 2
GOAL_REWARD_UNCHANGED = 3
LAUNCH_STEPS = 256
WEIGHTS_ONLINE = 0
WEIGHTS_TARGET = 1
WEIGHTS_GRADIENT = 2
MATH_FP32 = 0
MATH_TF32 = 1
MATH_BF16 = 2
MATH_AUTO = 3
LINEAR = 0
RELU = 1
TANH = 2
DENSE = 0
CONV = 1
LAYER_NORM = 1
SAME = -1
CHW = 0
HWC = 1
INPUT_AUTO = 2
HEAD_Q = 0
HEAD_DUELING = 1
HEAD_SOFTMAX_VALUE = 2
HEAD_TANH_ACTION = 3
HEAD_SQUASHED_GAUSSIAN = 4
HEAD_QUANTILES = 5
HEAD_CATEGORICAL = 6
MAX_LAYERS = 8
INIT_FAN_IN = 0
INIT_GLOROT = 1
INIT_NORMAL = 2
ADAM = 0
RMSPROP_TF = 1
RMSPROP_KERAS2 = 2
RMSPROP_TORCH = 3
RMSPROP_DEEPMIND = 4
ADAM_TF = 5
MAX_POLICY_STREAMS = 64
FLOAT32 = 1
FLOAT16 = 2
UINT8 = 3
INT32 = 4
INT64 = 5
BOOL = 6
MAX_FIELDS = 64
MAX_DIMS = 6
MAX_NAME = 64
SOURCE_AUTO = 0
UNIFORM = 1
UNIFORM_DISTINCT = 2
PRIORITIZED_STRATIFIED = 3
PRIORITIZED_INDEPENDENT = 4
WEIGHT_NORM_BATCH = 0
WEIGHT_NORM_MEMORY = 1
WEIGHT_NORM_NONE = 2
UPLOAD_COPY = 0
UPLOAD_SCATTER = 1
FLUSH_AUTO = 0
FLUSH_MANUAL = 1
WHEN_FULL_WAIT = 0
WHEN_FULL_ERROR = 1
MAX_N_STEP = 64
MAX_STACK = 16
MAX_LANES = 65536
LAYOUT_ROWS = 0
LAYOUT_FRAMES = 1
LAYOUT_LANES = 2
STACK_FIRST = 0
STACK_LAST = 1
PAD_ZERO = 0
PAD_REPEAT = 1
EVICT_OLDEST = 0
EVICT_BY_PRIORITY = 1
FIRST_PRIORITY_WINDOW = 0
FIRST_PRIORITY_EVER = 1
ESTIMATOR_PENG = 0
ESTIMATOR_N_STEP = 1
ESTIMATOR_WATKINS = 2
ESTIMATOR_PENG_MEDIAN = 3
ESTIMATOR_WATKINS_MEDIAN = 4
ESTIMATOR_PENG_ERROR_BOUND = 5
ESTIMATOR_WATKINS_ERROR_BOUND = 6
CACHE_VIRTUAL = 0
CACHE_PHYSICAL = 1
CACHE_PERMUTATION = 0
CACHE_REPLACEMENT = 1
RUN_EPISODE = 0
RUN_EVALUATION = 1
RUN_TUNED = 2
RUN_STARTED = 3
RUN_ENDED = 4
PRESET_FAST_DQN = 0
PRESET_APEX_DQN = 1
PRESET_APEX_DPG = 2
PRESET_GA3C = 3
PRESET_A3C = 4
PRESET_OFFLINE_DQN = 5
PRESET_OFFLINE_DPG = 6
PRESET_DPG = 7
PRESET_SAC = 8
PRESET_OFFLINE_SAC = 9
GA3C_LAGS = 64
OK = 0
INVALID_ARGUMENT = 1
OUT_OF_MEMORY = 2
TOO_FEW = 3
WOULD_BLOCK = 4
UNAVAILABLE = 5
FILE_ERROR = 6
INTERRUPTED = 7
EVICTED = 8
DEVICE_ERROR = -1
OPTIONS_OF_PROGRAM = 0
OPTIONS_OF_KEYWORDS = 1
SAY_INFO = 0
SAY_WARNING = 1
AUTORESET_DISABLED = 0
AUTORESET_NEXT_STEP = 1
AUTORESET_SAME_STEP = 2
OBSERVATIONS_STACKS = 0
OBSERVATIONS_FRAMES = 1
EPISODE_NONE = 0
EPISODE_OPEN = 1
EPISODE_ENDED = 2

PROGRESS_FN = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)
LOG_FN = CFUNCTYPE(None, c_void_p, c_char_p)
ALLOC_FN = CFUNCTYPE(c_void_p, c_void_p, c_size_t)
RELEASE_FN = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class Layer(Struct):
    c_name = "gpur_layer"
    _fields_ = [
        ("kind", c_int32),
        ("units", c_int32),
        ("activation", c_int32),
        ("kernel", c_int32),
        ("stride", c_int32),
        ("padding", c_int32),
        ("reserved", c_int64 * 1),
        ("norm", c_int32),
        ("reserved0", c_int32),
    ]


class NetworkConfig(Struct):
    c_name = "gpur_network_config"
    _fields_ = [
        ("trunk", Layer * MAX_LAYERS),
        ("trunk_count", c_int32),
        ("head", c_int32),
        ("hidden", c_int32),
        ("hidden_activation", c_int32),
        ("num_actions", c_int32),
        ("init", c_int32),
        ("init_scale", c_float),
        ("input_scale", c_float),
        ("input_layout", c_int32),
        ("input_shift", c_float),
        ("atoms", c_int32),
        ("v_min", c_float),
        ("v_max", c_float),
        ("reserved_number", c_int32),
        ("reserved", c_int64 * 2),
    ]


class Field(Struct):
    c_name = "gpur_field"
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int32),
        ("shape", c_int32 * MAX_DIMS),
    ]


class Schedule(Struct):
    c_name = "gpur_schedule"
    _fields_ = [
        ("first", c_float),
        ("last", c_float),
        ("begin", c_int64),
        ("steps", c_int64),
        ("reserved", c_int64 * 2),
    ]


class OptimizerConfig(Struct):
    c_name = "gpur_optimizer_config"
    _fields_ = [
        ("kind", c_int32),
        ("centered", c_int32),
        ("learning_rate", Schedule),
        ("beta1", c_float),
        ("beta2", c_float),
        ("decay", c_float),
        ("momentum", c_float),
        ("epsilon", c_float),
        ("clip_norm", c_float),
        ("clip_value", c_float),
        ("weight_decay", c_double),
        ("reserved", c_int64 * 3),
    ]


class ActorCriticConfig(Sized):
    c_name = "gpur_actor_critic_config"
    _fields_ = [
        ("size", c_uint64),
        ("network", NetworkConfig),
        ("obs", Field),
        ("optimizer", OptimizerConfig),
        ("dual_optimizer", c_int32),
        ("log", c_int32),
        ("log_epsilon", c_float),
        ("policy_floor", c_float),
        ("value_coefficient", c_float),
        ("entropy", Schedule),
        ("max_batch", c_int32),
        ("math", c_int32),
        ("check_finite", c_int32),
        ("seed", c_uint64),
    ]


class ActorCriticBatch(Sized):
    c_name = "gpur_actor_critic_batch"
    _fields_ = [
        ("size", c_uint64),
        ("count", c_int64),
        ("obs", c_void_p),
        ("actions", c_void_p),
        ("returns", c_void_p),
    ]


class ActorCriticLosses(Sized):
    c_name = "gpur_actor_critic_losses"
    _fields_ = [
        ("size", c_uint64),
        ("step", c_int64),
        ("policy", c_double),
        ("value", c_double),
        ("entropy", c_double),
        ("mean_value", c_double),
        ("gradient_norm", c_double),
        ("learning_rate", c_double),
    ]


class ApexConfig(Sized):
    c_name = "gpur_apex_config"
    _fields_ = [
        ("size", c_uint64),
        ("actors", c_int32),
        ("command", c_void_p),
        ("epsilon_base", c_float),
        ("epsilon_exponent", c_float),
        ("epsilons", c_void_p),
        ("epsilon_count", c_int32),
        ("block_rows", c_int32),
        ("compression", c_int32),
        ("initial_priorities", c_int32),
        ("replicate", c_int32),
        ("pull_period", c_int64),
        ("max_episode_steps", c_int64),
        ("broadcast_period", c_int64),
        ("soft_capacity", c_int64),
        ("trim_period", c_int64),
        ("samples_per_insert", c_double),
        ("limiter_band", c_double),
        ("limiter_timeout", c_double),
        ("restarts", c_int32),
        ("folder", c_char_p),
        ("sigma", c_float),
        ("remote_actors", c_int32),
        ("rows_under_way", c_int64),
    ]


class ApexNetworks(Sized):
    c_name = "gpur_apex_networks"
    _fields_ = [
        ("size", c_uint64),
        ("acting", c_void_p),
        ("critic", c_void_p),
        ("critics", c_int32),
        ("reserved", c_int32),
    ]


class ApexTransport(Sized):
    c_name = "gpur_apex_transport"
    _fields_ = [
        ("size", c_uint64),
        ("take_block", CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64)),
        ("take_episode", CFUNCTYPE(c_int32, c_void_p, c_int64, c_double)),
        ("copy_weights", CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_void_p)),
        ("user", c_void_p),
    ]


class BatchView(Sized):
    c_name = "gpur_batch_view"
    _fields_ = [
        ("size", c_uint64),
        ("count", c_int64),
        ("obs", c_void_p),
        ("action", c_void_p),
        ("reward", c_void_p),
        ("next_obs", c_void_p),
        ("terminated", c_void_p),
        ("truncated", c_void_p),
        ("discount", c_void_p),
        ("weight", c_void_p),
        ("id", c_void_p),
    ]


class BlockInfo(Sized):
    c_name = "gpur_block_info"
    _fields_ = [
        ("size", c_uint64),
        ("format", c_uint64),
        ("actor", c_int64),
        ("incarnation", c_int64),
        ("sequence", c_int64),
        ("first_step", c_int64),
        ("version", c_int64),
        ("rows", c_int64),
        ("frames", c_int64),
        ("bytes", c_int64),
        ("raw_bytes", c_int64),
    ]


class BlockInput(Sized):
    c_name = "gpur_block_input"
    _fields_ = [
        ("size", c_uint64),
        ("actor", c_int64),
        ("incarnation", c_int64),
        ("sequence", c_int64),
        ("first_step", c_int64),
        ("version", c_int64),
        ("rows", c_int64),
        ("fields", c_void_p),
        ("frames", c_int64),
        ("frame_data", c_void_p),
        ("links", c_void_p),
        ("compression", c_int32),
    ]


class PackerConfig(Sized):
    c_name = "gpur_packer_config"
    _fields_ = [
        ("size", c_uint64),
        ("actor", c_int64),
        ("incarnation", c_int64),
        ("rows", c_int32),
        ("num_actions", c_int32),
        ("observations", c_int32),
        ("compression", c_int32),
        ("critics", c_int32),
        ("reserved", c_int32),
    ]


class PackerStepInput(Sized):
    c_name = "gpur_packer_step_input"
    _fields_ = [
        ("size", c_uint64),
        ("action", c_void_p),
        ("reward", c_float),
        ("terminated", c_uint8),
        ("truncated", c_uint8),
        ("next_obs", c_void_p),
        ("q", c_void_p),
        ("final_q", c_void_p),
        ("extras", c_void_p),
        ("version", c_int64),
    ]


class CheckpointOptions(Sized):
    c_name = "gpur_checkpoint_options"
    _fields_ = [
        ("size", c_uint64),
        ("progress", c_void_p),
        ("progress_user", c_void_p),
    ]


class CheckpointInfo(Sized):
    c_name = "gpur_checkpoint_info"
    _fields_ = [
        ("size", c_uint64),
        ("kind", c_char * 16),
        ("version", c_char * 16),
        ("bytes", c_int64),
        ("tensors", c_int64),
        ("rows", c_int64),
        ("capacity", c_int64),
        ("first_id", c_int64),
        ("writers", c_int64),
        ("steps", c_int64),
        ("weights", c_int64),
        ("envs", c_int64),
    ]


class DeviceConfig(Sized):
    c_name = "gpur_device_config"
    _fields_ = [
        ("size", c_uint64),
        ("threads", c_int32),
        ("executor", c_int32),
        ("stream", c_void_p),
        ("deterministic", c_int32),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("alloc", c_void_p),
        ("release", c_void_p),
        ("alloc_user", c_void_p),
    ]


class DeviceInfo(Sized):
    c_name = "gpur_device_info"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char * 32),
        ("description", c_char * 128),
        ("is_cuda", c_int32),
        ("threads", c_int32),
        ("memory_total", c_int64),
        ("memory_free", c_int64),
        ("memory_used", c_int64),
    ]


class DPGConfig(Sized):
    c_name = "gpur_dpg_config"
    _fields_ = [
        ("size", c_uint64),
        ("actor", NetworkConfig),
        ("critic", NetworkConfig),
        ("actor_optimizer", OptimizerConfig),
        ("critic_optimizer", OptimizerConfig),
        ("action_gradient_clip", c_float),
        ("index_source", c_int32),
        ("beta", Schedule),
        ("batch_size", c_int64),
        ("target_period", c_int64),
        ("math", c_int32),
        ("preactivation_penalty", c_float),
        ("seed", c_uint64),
        ("demonstrations", c_void_p),
        ("demonstration_ratio", c_float),
        ("target_rate", c_float),
        ("critics", c_int32),
        ("policy_delay", c_int32),
        ("target_noise", c_float),
        ("target_noise_clip", c_float),
    ]


class ReturnsConfig(Struct):
    c_name = "gpur_returns_config"
    _fields_ = [
        ("cache_size", c_int64),
        ("block_length", c_int64),
        ("estimator", c_int32),
        ("lambda", c_float),
        ("n_step", c_int32),
        ("error_bound", c_float),
        ("storage", c_int32),
        ("draw", c_int32),
        ("truncation_terminates", c_int32),
        ("prioritization", Schedule),
    ]


class DQNConfig(Sized):
    c_name = "gpur_dqn_config"
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
        ("target_copy_first", c_int32),
        ("act", c_int32),
        ("math", c_int32),
        ("step_kernel", c_int32),
        ("exploration", Schedule),
        ("seed", c_uint64),
        ("host_batches", c_int32),
        ("beta", Schedule),
        ("returns", ReturnsConfig),
        ("demonstrations", c_void_p),
        ("demonstration_ratio", c_float),
        ("target_rate", c_float),
    ]


class Space(Struct):
    c_name = "gpur_space"
    _fields_ = [
        ("dtype", c_int32),
        ("shape", c_int32 * MAX_DIMS),
        ("num_actions", c_int32),
        ("low", c_float),
        ("high", c_float),
        ("lows", c_void_p),
        ("highs", c_void_p),
    ]


class EnvInfo(Sized):
    c_name = "gpur_env_info"
    _fields_ = [
        ("size", c_uint64),
        ("obs", Space),
        ("action", Space),
        ("max_steps", c_int64),
        ("save_bytes", c_int64),
    ]


class EnvResult(Struct):
    c_name = "gpur_env_result"
    _fields_ = [
        ("reward", c_float),
        ("terminated", c_uint8),
        ("truncated", c_uint8),
        ("continues", c_uint8),
        ("reserved", c_uint8),
    ]


class EnvType(Sized):
    c_name = "gpur_env_type"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char_p),
        ("options", c_char_p),
        ("init", CFUNCTYPE(c_char_p, c_char_p, c_uint64, c_void_p, c_void_p)),
        ("reset", CFUNCTYPE(c_char_p, c_void_p, c_void_p)),
        ("step", CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_void_p, c_void_p)),
        ("close", CFUNCTYPE(None, c_void_p)),
        ("save", CFUNCTYPE(c_char_p, c_void_p, c_void_p)),
        ("load", CFUNCTYPE(c_char_p, c_void_p, c_void_p)),
    ]


class VectorResult(Struct):
    c_name = "gpur_vector_result"
    _fields_ = [
        ("next_obs", c_void_p),
        ("final_obs", c_void_p),
        ("reward", c_void_p),
        ("terminated", c_void_p),
        ("truncated", c_void_p),
        ("continues", c_void_p),
    ]


class VectorEnvType(Sized):
    c_name = "gpur_vector_env_type"
    _fields_ = [
        ("size", c_uint64),
        ("name", c_char_p),
        ("options", c_char_p),
        ("autoreset", c_int32),
        ("reserved", c_int32),
        ("init", CFUNCTYPE(c_char_p, c_char_p, c_uint64, c_int32, c_void_p, c_void_p)),
        ("reset", CFUNCTYPE(c_char_p, c_void_p, c_void_p)),
        ("step", CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_void_p)),
        ("close", CFUNCTYPE(None, c_void_p)),
    ]


class FastDQNConfig(Sized):
    c_name = "gpur_fast_dqn_config"
    _fields_ = [
        ("size", c_uint64),
        ("num_envs", c_int32),
        ("threads", c_int32),
        ("concurrent", c_int32),
        ("synchronized", c_int32),
        ("act", c_int32),
        ("whole_episodes", c_int32),
        ("target_period", c_int64),
        ("train_period", c_int64),
        ("prepopulation", c_int64),
        ("burst", c_int32),
        ("train_steps", c_int64),
        ("sigma", c_float),
    ]


class GA3CConfig(Sized):
    c_name = "gpur_ga3c_config"
    _fields_ = [
        ("size", c_uint64),
        ("system", c_int32),
        ("agents", c_int32),
        ("predictors", c_int32),
        ("trainers", c_int32),
        ("t_max", c_int32),
        ("discount", c_float),
        ("reward_clip", c_float),
        ("drop_terminal", c_int32),
        ("max_prediction_batch", c_int32),
        ("min_train_batch", c_int32),
        ("queue_room", c_int32),
        ("when_full", c_int32),
        ("tuner", c_int32),
        ("tuner_period", c_double),
        ("tuner_settling", c_double),
        ("max_agents", c_int32),
    ]


class HindsightConfig(Sized):
    c_name = "gpur_hindsight_config"
    _fields_ = [
        ("size", c_uint64),
        ("achieved_field", c_char_p),
        ("desired_field", c_char_p),
        ("achieved_at", c_int32),
        ("desired_at", c_int32),
        ("goal_size", c_int32),
        ("strategy", c_int32),
        ("n_sampled_goal", c_int32),
        ("reward", c_int32),
        ("threshold", c_float),
        ("reward_reached", c_float),
        ("reward_missed", c_float),
        ("ends_at_goal", c_int32),
    ]


class LaneDraw(Sized):
    c_name = "gpur_lane_draw"
    _fields_ = [
        ("size", c_uint64),
        ("count", c_int64),
        ("ids", c_void_p),
        ("fields", c_void_p),
        ("id", c_void_p),
        ("weight", c_void_p),
        ("discount", c_void_p),
        ("steps", c_void_p),
        ("n_step", c_int32),
        ("gamma", c_float),
        ("of_each_lane", c_int32),
        ("across_episodes", c_int32),
        ("length", c_int64),
        ("min_length", c_int64),
        ("mask", c_void_p),
        ("is_first", c_void_p),
    ]


class LaneStats(Sized):
    c_name = "gpur_lane_stats"
    _fields_ = [
        ("size", c_uint64),
        ("steps", c_int64),
        ("transitions", c_int64),
        ("draws", c_int64),
        ("finals", c_int64),
        ("without_final", c_int64),
        ("lost_finals", c_int64),
        ("broken_stacks", c_int64),
    ]


class LearnerStats(Sized):
    c_name = "gpur_learner_stats"
    _fields_ = [
        ("size", c_uint64),
        ("steps", c_int64),
        ("steps_enqueued", c_int64),
        ("skipped", c_int64),
        ("target_copies", c_int64),
        ("loss", c_float),
        ("mean_loss", c_float),
        ("mean_q", c_float),
        ("gradient_norm", c_float),
        ("learning_rate", c_float),
        ("policy_loss", c_float),
        ("policy_gradient_norm", c_float),
        ("policy_learning_rate", c_float),
        ("steps_per_second", c_double),
        ("device_bytes", c_int64),
        ("pinned_bytes", c_int64),
        ("actions", c_int64),
        ("invalid_actions", c_int64),
        ("refreshes", c_int64),
        ("missing_rows", c_int64),
        ("cache_bytes", c_int64),
        ("diverged_at", c_int64),
        ("empty_refreshes", c_int64),
        ("temperature", c_float),
        ("entropy", c_float),
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


class ReplayPlan(Sized):
    c_name = "gpur_replay_plan"
    _fields_ = [
        ("size", c_uint64),
        ("row_bytes", c_int64),
        ("row_pitch", c_int64),
        ("ring_bytes", c_int64),
        ("upload_bytes", c_int64),
        ("pinned_bytes", c_int64),
        ("batch_bytes", c_int64),
        ("device_bytes", c_int64),
        ("priority_bytes", c_int64),
        ("frames", c_int64),
        ("frame_bytes", c_int64),
        ("frame_pitch", c_int64),
        ("frame_ring_bytes", c_int64),
        ("frame_reach", c_int64),
    ]


class PlayConfig(Sized):
    c_name = "gpur_play_config"
    _fields_ = [
        ("size", c_uint64),
        ("path", c_char_p),
        ("options", c_void_p),
        ("best", c_int32),
        ("greedy", c_int32),
        ("epsilon", c_float),
        ("envs", c_int32),
        ("episodes", c_int64),
        ("on_obs", CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)),
        ("on_game", CFUNCTYPE(None, c_void_p, c_double, c_int64)),
        ("stop", CFUNCTYPE(c_int32, c_void_p)),
        ("user", c_void_p),
    ]


class PlayResult(Sized):
    c_name = "gpur_play_result"
    _fields_ = [
        ("size", c_uint64),
        ("episodes", c_int64),
        ("length", c_int64),
        ("mean_return", c_double),
        ("return_deviation", c_double),
        ("interval", c_double),
        ("version", c_int64),
        ("best_step", c_int64),
        ("best_return", c_double),
    ]


class PolicyConfig(Sized):
    c_name = "gpur_policy_config"
    _fields_ = [
        ("size", c_uint64),
        ("network", NetworkConfig),
        ("obs", Field),
        ("max_batch", c_int32),
        ("streams", c_int32),
        ("math", c_int32),
        ("policy_floor", c_float),
        ("seed", c_uint64),
    ]


class PolicyInput(Sized):
    c_name = "gpur_policy_input"
    _fields_ = [
        ("size", c_uint64),
        ("count", c_int64),
        ("obs", c_void_p),
        ("epsilon", c_void_p),
        ("lane", c_void_p),
        ("step", c_void_p),
        ("stream", c_void_p),
        ("greedy", c_int32),
        ("reserved", c_int32),
        ("sigma", c_void_p),
        ("mask", c_void_p),
    ]


class PolicyOutput(Sized):
    c_name = "gpur_policy_output"
    _fields_ = [
        ("size", c_uint64),
        ("actions", c_void_p),
        ("q", c_void_p),
        ("version", c_void_p),
        ("probabilities", c_void_p),
        ("values", c_void_p),
        ("action_vectors", c_void_p),
        ("log_probs", c_void_p),
    ]


class PolicyStats(Sized):
    c_name = "gpur_policy_stats"
    _fields_ = [
        ("size", c_uint64),
        ("calls", c_int64),
        ("observations", c_int64),
        ("version", c_int64),
        ("device_bytes", c_int64),
        ("pinned_bytes", c_int64),
    ]


class PriorityStats(Sized):
    c_name = "gpur_priority_stats"
    _fields_ = [
        ("size", c_uint64),
        ("alpha", c_float),
        ("beta", c_float),
        ("total", c_double),
        ("max_priority", c_float),
        ("min_priority", c_float),
        ("nonzero", c_int64),
        ("updates", c_int64),
        ("stale", c_int64),
        ("invalid", c_int64),
        ("raised", c_int64),
    ]


class ReplayConfig(Sized):
    c_name = "gpur_replay_config"
    _fields_ = [
        ("size", c_uint64),
        ("capacity", c_int64),
        ("fields", POINTER(Field)),
        ("field_count", c_int32),
        ("index_source", c_int32),
        ("block_rows", c_int64),
        ("staging_blocks", c_int32),
        ("upload", c_int32),
        ("flush", c_int32),
        ("when_full", c_int32),
        ("min_size", c_int64),
        ("max_batch", c_int64),
        ("gamma", c_float),
        ("reward_clip", c_float),
        ("seed", c_uint64),
        ("prioritized", c_int32),
        ("weight_norm", c_int32),
        ("alpha", c_float),
        ("priority_offset", c_float),
        ("beta", Schedule),
        ("n_step", c_int32),
        ("layout", c_int32),
        ("frame_stack", c_int32),
        ("stack_axis", c_int32),
        ("stack_pad", c_int32),
        ("check_finite", c_int32),
        ("extra_frames", c_int64),
        ("eviction", c_int32),
        ("evict_alpha", c_float),
        ("first_priority", c_int32),
        ("lane_autoreset", c_int32),
        ("lanes", c_int64),
        ("hindsight", c_void_p),
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
        ("first_id", c_int64),
        ("visible", c_int64),
        ("appended", c_int64),
        ("published", c_int64),
        ("evicted", c_int64),
        ("blocks", c_int64),
        ("truncated_on_close", c_int64),
        ("sampled", c_int64),
        ("batches_alive", c_int64),
        ("batches_made", c_int64),
        ("waits", c_int64),
        ("wait_seconds", c_double),
        ("append_seconds", c_double),
        ("bytes_uploaded", c_int64),
        ("frames_stored", c_int64),
        ("cut_on_load", c_int64),
    ]


class RunEvent(Sized):
    c_name = "gpur_run_event"
    _fields_ = [
        ("size", c_uint64),
        ("kind", c_int32),
        ("env_index", c_int32),
        ("env_steps", c_int64),
        ("train_steps", c_int64),
        ("length", c_int64),
        ("episodes", c_int64),
        ("mean_return", c_double),
        ("return_deviation", c_double),
        ("version", c_int64),
        ("policy", c_void_p),
        ("run", c_void_p),
        ("learner", c_void_p),
        ("agents", c_int32),
        ("predictors", c_int32),
        ("trainers", c_int32),
        ("accepted", c_int32),
        ("rate", c_double),
        ("loss", c_double),
        ("incarnation", c_int64),
        ("lost_blocks", c_int64),
        ("lost_rows", c_int64),
        ("epsilon", c_float),
        ("asked", c_int32),
        ("error", c_char_p),
    ]


class RunConfig(Sized):
    c_name = "gpur_run_config"
    _fields_ = [
        ("size", c_uint64),
        ("type", c_void_p),
        ("vector", c_void_p),
        ("env_options", c_char_p),
        ("seed", c_uint64),
        ("eval_period", c_int64),
        ("eval_episodes", c_int64),
        ("eval_epsilon", c_float),
        ("eval_envs", c_int32),
        ("on_event", CFUNCTYPE(None, c_void_p, c_void_p)),
        ("user", c_void_p),
    ]


class FastDQNStats(Struct):
    c_name = "gpur_fast_dqn_stats"
    _fields_ = [
        ("prepopulated", c_int64),
        ("inferences", c_int64),
        ("inferred", c_int64),
        ("infer_seconds", c_double),
        ("flush_seconds", c_double),
        ("copy_seconds", c_double),
        ("reserved", c_int64 * 10),
    ]


class GA3CStats(Struct):
    c_name = "gpur_ga3c_stats"
    _fields_ = [
        ("predictions", c_int64),
        ("prediction_batches", c_int64),
        ("trained_rows", c_int64),
        ("training_batches", c_int64),
        ("refused_rollouts", c_int64),
        ("overwritten_rollouts", c_int64),
        ("left_rollouts", c_int64),
        ("dropped_rows", c_int64),
        ("largest_lag", c_int64),
        ("lag_sum", c_int64),
        ("lags", c_int64 * GA3C_LAGS),
        ("mean_lag", c_double),
        ("queue_lag", c_int64),
        ("queue_lag_bound", c_int64),
        ("agents", c_int32),
        ("predictors", c_int32),
        ("trainers", c_int32),
        ("reserved0", c_int32),
        ("prediction_queue", c_double),
        ("training_queue", c_double),
        ("wait_seconds", c_double),
        ("queue_seconds", c_double),
        ("predict_seconds", c_double),
        ("predictor_seconds", c_double),
        ("policy_loss", c_double),
        ("value_loss", c_double),
        ("entropy", c_double),
        ("mean_value", c_double),
        ("gradient_norm", c_double),
        ("learning_rate", c_double),
        ("reserved", c_int64 * 10),
    ]


class ApexStats(Struct):
    c_name = "gpur_apex_stats"
    _fields_ = [
        ("learned", c_int64),
        ("blocks", c_int64),
        ("rows", c_int64),
        ("inserted", c_int64),
        ("bytes", c_int64),
        ("refused_blocks", c_int64),
        ("lost_blocks", c_int64),
        ("lost_rows", c_int64),
        ("starts", c_int64),
        ("deaths", c_int64),
        ("actors", c_int64),
        ("broadcasts", c_int64),
        ("pulled", c_int64),
        ("trims", c_int64),
        ("limiter_timeouts", c_int64),
        ("broadcast_seconds", c_double),
        ("receive_seconds", c_double),
        ("learner_wait_seconds", c_double),
        ("actor_seconds", c_double),
        ("actor_infer_seconds", c_double),
        ("actor_wait_seconds", c_double),
        ("weights_age", c_double),
        ("reserved", c_int64 * 10),
    ]


class RunStats(Sized):
    c_name = "gpur_run_stats"
    _fields_ = [
        ("size", c_uint64),
        ("env_steps", c_int64),
        ("train_steps", c_int64),
        ("episodes", c_int64),
        ("evaluations", c_int64),
        ("eval_episode", c_int64),
        ("eval_cut", c_int64),
        ("evaluated_steps", c_int64),
        ("evaluated_return", c_double),
        ("recent_return", c_double),
        ("loss", c_double),
        ("seconds", c_double),
        ("env_seconds", c_double),
        ("train_seconds", c_double),
        ("eval_seconds", c_double),
        ("reserved", c_int64 * 17),
        ("fast_dqn", FastDQNStats),
        ("ga3c", GA3CStats),
        ("apex", ApexStats),
    ]


class SACConfig(Sized):
    c_name = "gpur_sac_config"
    _fields_ = [
        ("size", c_uint64),
        ("actor", NetworkConfig),
        ("critic", NetworkConfig),
        ("actor_optimizer", OptimizerConfig),
        ("critic_optimizer", OptimizerConfig),
        ("temperature_optimizer", OptimizerConfig),
        ("temperature", c_float),
        ("fixed_temperature", c_int32),
        ("target_entropy", c_float),
        ("critics", c_int32),
        ("index_source", c_int32),
        ("beta", Schedule),
        ("batch_size", c_int64),
        ("target_period", c_int64),
        ("target_rate", c_float),
        ("math", c_int32),
        ("seed", c_uint64),
        ("demonstrations", c_void_p),
        ("demonstration_ratio", c_float),
    ]


class SequenceConfig(Sized):
    c_name = "gpur_sequence_config"
    _fields_ = [
        ("size", c_uint64),
        ("batch", c_int64),
        ("length", c_int64),
        ("min_length", c_int64),
        ("across_episodes", c_int32),
        ("last_ids", c_void_p),
    ]


class TrainingConfig(Sized):
    c_name = "gpur_training_config"
    _fields_ = [
        ("size", c_uint64),
        ("options", c_void_p),
        ("style", c_int32),
        ("refill", c_int32),
        ("out", c_char_p),
        ("resume", c_char_p),
        ("type", c_void_p),
        ("vector", c_void_p),
        ("command", c_void_p),
        ("on_event", CFUNCTYPE(None, c_void_p, c_void_p)),
        ("on_row", CFUNCTYPE(None, c_void_p, c_char_p, c_int32, c_void_p, c_void_p, c_void_p)),
        ("say", CFUNCTYPE(None, c_void_p, c_int32, c_char_p)),
        ("user", c_void_p),
        ("program", c_char_p),
        ("overrides", c_void_p),
        ("document", c_void_p),
        ("begins_again", c_int32),
        ("replay", c_void_p),
    ]


class TrainingSettings(Sized):
    c_name = "gpur_training_settings"
    _fields_ = [
        ("size", c_uint64),
        ("system", c_int32),
        ("threads", c_int32),
        ("deterministic", c_int32),
        ("processes", c_int32),
        ("preset", c_char_p),
        ("device", c_char_p),
        ("run", c_void_p),
        ("fast_dqn", c_void_p),
        ("apex", c_void_p),
        ("ga3c", c_void_p),
        ("replay", c_void_p),
        ("dqn", c_void_p),
        ("dpg", c_void_p),
        ("actor_critic", c_void_p),
        ("demonstrations", c_char_p),
        ("sac", c_void_p),
    ]


class WriterConfig(Sized):
    c_name = "gpur_writer_config"
    _fields_ = [
        ("size", c_uint64),
        ("num_envs", c_int32),
        ("autoreset", c_int32),
        ("observations", c_int32),
        ("link_appends", c_int32),
        ("sequence_length", c_int32),
        ("sequence_every", c_int32),
    ]


class StepInput(Sized):
    c_name = "gpur_step_input"
    _fields_ = [
        ("size", c_uint64),
        ("action", c_void_p),
        ("reward", c_void_p),
        ("next_obs", c_void_p),
        ("terminated", c_void_p),
        ("truncated", c_void_p),
        ("final_obs", c_void_p),
        ("extras", c_void_p),
    ]


class EpisodeInfo(Sized):
    c_name = "gpur_episode_info"
    _fields_ = [
        ("size", c_uint64),
        ("steps", c_int64),
        ("state", c_int32),
        ("pending", c_int32),
    ]


STRUCTS: list[type[Struct]] = [
    Layer, NetworkConfig, Field, Schedule, OptimizerConfig, ActorCriticConfig, ActorCriticBatch, ActorCriticLosses,
        ApexConfig, ApexNetworks, ApexTransport, BatchView, BlockInfo, BlockInput, PackerConfig, PackerStepInput,
        CheckpointOptions, CheckpointInfo, DeviceConfig, DeviceInfo, DPGConfig, ReturnsConfig, DQNConfig, Space,
        EnvInfo, EnvResult, EnvType, VectorResult, VectorEnvType, FastDQNConfig, GA3CConfig, HindsightConfig, LaneDraw,
        LaneStats, LearnerStats, WeightInfo, ReplayPlan, PlayConfig, PlayResult, PolicyConfig, PolicyInput,
        PolicyOutput, PolicyStats, PriorityStats, ReplayConfig, FieldInfo, ReplayStats, RunEvent, RunConfig,
        FastDQNStats, GA3CStats, ApexStats, RunStats, SACConfig, SequenceConfig, TrainingConfig, TrainingSettings,
        WriterConfig, StepInput, EpisodeInfo,
]
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # result, arguments
    "gpur_actor_critic_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_actor_critic_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_actor_critic_train": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_apex_rows_under_way": (c_int64, [c_double, c_int64, c_int64]),
    "gpur_apex_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_apex_preset": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_apex_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_apex_set_actors": (c_int32, [c_void_p, c_int32]),
    "gpur_apex_actor_process": (c_int64, [c_void_p, c_int32]),
    "gpur_apex_serve": (c_int32, [c_int32, c_void_p, c_void_p, c_void_p, c_int32]),
    "gpur_apex_work": (c_int32, [c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_void_p, c_void_p]),
    "gpur_apex_act": (c_int32, [c_void_p, c_void_p, c_int32, c_int64, c_void_p, c_void_p, c_int32, c_void_p]),
    "gpur_apex_receive_block": (c_int32, [c_void_p, c_void_p, c_int64]),
    "gpur_apex_receive_start": (c_int32, [c_void_p, c_int32, c_int64]),
    "gpur_apex_receive_episode": (c_int32, [c_void_p, c_int32, c_int64, c_double]),
    "gpur_apex_weights_bytes": (c_int64, [c_void_p]),
    "gpur_apex_get_weights": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p]),
    "gpur_batch_count": (c_int64, [c_void_p]),
    "gpur_batch_get_array": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "gpur_batch_get_view": (c_int32, [c_void_p, c_void_p]),
    "gpur_batch_sync": (c_int32, [c_void_p]),
    "gpur_batch_read": (c_int32, [c_void_p, c_char_p, c_void_p, c_int64]),
    "gpur_batch_retain": (None, [c_void_p]),
    "gpur_batch_release": (None, [c_void_p]),
    "gpur_batch_wait": (c_int32, [c_void_p, c_void_p]),
    "gpur_batch_to_dlpack": (c_int32, [c_void_p, c_char_p, c_int32, c_void_p]),
    "gpur_replay_sample_into": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_block_format_create": (c_int32, [c_void_p, c_void_p]),
    "gpur_block_format_destroy": (None, [c_void_p]),
    "gpur_block_format_hash": (c_uint64, [c_void_p]),
    "gpur_block_max_bytes": (c_int64, [c_void_p, c_int64, c_int64]),
    "gpur_block_pack": (c_int32, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "gpur_block_check": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p]),
    "gpur_writer_append_block": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p]),
    "gpur_packer_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_packer_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_packer_destroy": (None, [c_void_p]),
    "gpur_packer_reset": (c_int32, [c_void_p, c_void_p]),
    "gpur_packer_step": (c_int32, [c_void_p, c_void_p]),
    "gpur_packer_take": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p]),
    "gpur_checkpoint_options_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_replay_save": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_replay_load": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_learner_save": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_learner_load": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_learner_save_weights": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_learner_load_weights": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_checkpoint_get_info": (c_int32, [c_char_p, c_void_p]),
    "gpur_device_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_device_open": (c_int32, [c_char_p, c_void_p, c_void_p]),
    "gpur_device_close": (None, [c_void_p]),
    "gpur_device_get_info": (c_int32, [c_void_p, c_void_p]),
    "gpur_device_alloc": (c_int32, [c_void_p, c_int64, c_void_p]),
    "gpur_device_free": (None, [c_void_p, c_void_p]),
    "gpur_device_copy": (c_int32, [c_void_p, c_void_p, c_void_p, c_int64]),
    "gpur_device_sync": (c_int32, [c_void_p]),
    "gpur_device_wait_stream": (c_int32, [c_void_p, c_void_p]),
    "gpur_dpg_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_td3_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_fast_td3_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_dpg_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_dqn_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_dqn_config_preset": (c_int32, [c_void_p, c_char_p]),
    "gpur_dqn_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_learner_refresh": (c_int32, [c_void_p]),
    "gpur_learner_train_ids": (c_int32, [c_void_p, c_void_p]),
    "gpur_learner_acquire_host_batch": (c_int32, [c_void_p, c_void_p]),
    "gpur_learner_release_host_batch": (c_int32, [c_void_p, c_void_p]),
    "gpur_learner_train_host_batch": (c_int32, [c_void_p, c_void_p]),
    "gpur_learner_act": (c_int32, [c_void_p, c_int64, c_void_p, c_float, c_void_p, c_void_p]),
    "gpur_learner_act_masked": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_float, c_void_p, c_void_p]),
    "gpur_learner_q_values": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_learner_epsilon": (c_float, [c_void_p, c_int64]),
    "gpur_env_find": (c_int32, [c_char_p, c_void_p]),
    "gpur_vector_env_find": (c_int32, [c_char_p, c_void_p]),
    "gpur_env_get_info": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_vector_env_get_info": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_env_name": (c_char_p, [c_int32]),
    "gpur_envs_create": (c_int32, [c_void_p, c_char_p, c_void_p, c_int32, c_int32, c_void_p]),
    "gpur_envs_destroy": (None, [c_void_p]),
    "gpur_envs_reset": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_envs_step": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_fast_dqn_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_fast_dqn_preset": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_dpg_preset": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_sac_preset": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_fast_dqn_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_ga3c_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_ga3c_preset": (c_int32, [c_char_p, c_void_p, c_void_p, c_void_p]),
    "gpur_ga3c_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_ga3c_set_counts": (c_int32, [c_void_p, c_int32, c_int32, c_int32]),
    "gpur_hindsight_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_replay_add_lanes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_replay_reset_lanes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_lane_draw_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_replay_draw_lanes": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_replay_get_lane_stats": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_replay_update_lanes": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_learner_destroy": (None, [c_void_p]),
    "gpur_learner_train": (c_int32, [c_void_p, c_int64]),
    "gpur_learner_sync": (c_int32, [c_void_p]),
    "gpur_learner_get_stats": (c_int32, [c_void_p, c_void_p]),
    "gpur_learner_math": (c_int32, [c_void_p]),
    "gpur_learner_weight_count": (c_int32, [c_void_p]),
    "gpur_learner_get_weight_info": (c_int32, [c_void_p, c_int32, c_void_p]),
    "gpur_learner_read_weights": (c_int32, [c_void_p, c_int32, c_char_p, c_void_p, c_int64]),
    "gpur_learner_write_weights": (c_int32, [c_void_p, c_int32, c_char_p, c_void_p, c_int64]),
    "gpur_image_layout": (c_int32, [c_int32, c_int32, c_int32]),
    "gpur_offline_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_replay_plan_bytes": (c_int32, [c_void_p, c_void_p]),
    "gpur_play_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_play": (c_int32, [c_void_p, c_void_p]),
    "gpur_policy_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_policy_config_preset": (c_int32, [c_void_p, c_char_p]),
    "gpur_policy_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_policy_open": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "gpur_policy_get_config": (c_int32, [c_void_p, c_void_p]),
    "gpur_policy_destroy": (None, [c_void_p]),
    "gpur_policy_act": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_policy_version": (c_int64, [c_void_p]),
    "gpur_policy_pull": (c_int32, [c_void_p, c_void_p, c_int32]),
    "gpur_policy_load": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_policy_save": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "gpur_policy_weights_bytes": (c_int64, [c_void_p]),
    "gpur_policy_get_weights": (c_int32, [c_void_p, c_void_p, c_int64]),
    "gpur_policy_set_weights": (c_int32, [c_void_p, c_void_p, c_int64]),
    "gpur_policy_get_stats": (c_int32, [c_void_p, c_void_p]),
    "gpur_replay_update_priorities": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_replay_get_priorities": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p]),
    "gpur_replay_set_alpha": (c_int32, [c_void_p, c_float]),
    "gpur_replay_set_beta": (c_int32, [c_void_p, c_float]),
    "gpur_replay_get_priority_stats": (c_int32, [c_void_p, c_void_p]),
    "gpur_replay_check_priorities": (c_int32, [c_void_p, c_void_p]),
    "gpur_replay_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_replay_config_preset": (c_int32, [c_void_p, c_char_p]),
    "gpur_replay_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_replay_destroy": (None, [c_void_p]),
    "gpur_replay_get_field": (c_int32, [c_void_p, c_int32, c_void_p]),
    "gpur_replay_size": (c_int64, [c_void_p]),
    "gpur_replay_can_sample": (c_int32, [c_void_p]),
    "gpur_replay_trim": (c_int32, [c_void_p, c_int64]),
    "gpur_replay_sample": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p]),
    "gpur_replay_gather": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_replay_get_stats": (c_int32, [c_void_p, c_void_p]),
    "gpur_run_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_preset_name": (c_char_p, [c_int32, c_void_p]),
    "gpur_run_destroy": (None, [c_void_p]),
    "gpur_run_advance": (c_int32, [c_void_p, c_int64, c_int64]),
    "gpur_run_stop": (None, [c_void_p]),
    "gpur_run_evaluate": (c_int32, [c_void_p, c_int64, c_int32, c_void_p]),
    "gpur_run_get_stats": (c_int32, [c_void_p, c_void_p]),
    "gpur_run_save": (c_int32, [c_void_p, c_char_p]),
    "gpur_run_load": (c_int32, [c_void_p, c_char_p, c_int32]),
    "gpur_sac_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_fast_sac_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_sac_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_schedule_at": (c_float, [c_void_p, c_int64]),
    "gpur_sequence_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_replay_sample_sequences": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_replay_sample_sequences_into": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_batch_length": (c_int64, [c_void_p]),
    "gpur_status_name": (c_char_p, [c_int32]),
    "gpur_last_error": (c_char_p, []),
    "gpur_version": (c_char_p, []),
    "gpur_build_info": (c_char_p, []),
    "gpur_struct_size": (c_int64, [c_char_p]),
    "gpur_training_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_training_create": (c_int32, [c_void_p, c_void_p]),
    "gpur_training_destroy": (None, [c_void_p]),
    "gpur_training_open": (c_int32, [c_void_p]),
    "gpur_training_get_settings": (c_int32, [c_void_p, c_void_p]),
    "gpur_training_adopt_device": (c_int32, [c_void_p, c_void_p]),
    "gpur_training_fill": (c_int32, [c_void_p, c_void_p]),
    "gpur_training_adopt": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_training_begin": (c_int32, [c_void_p]),
    "gpur_training_document": (c_char_p, [c_void_p]),
    "gpur_training_folder": (c_char_p, [c_void_p]),
    "gpur_training_step": (c_int64, [c_void_p]),
    "gpur_training_saved_step": (c_int64, [c_void_p]),
    "gpur_training_advance": (c_int32, [c_void_p]),
    "gpur_training_stop": (None, [c_void_p, c_int32]),
    "gpur_training_look": (c_int32, [c_void_p, c_void_p, c_int64]),
    "gpur_training_finish": (c_int32, [c_void_p]),
    "gpur_training_summary": (c_char_p, [c_void_p]),
    "gpur_training_serve": (c_int32, [c_void_p, c_int32]),
    "gpur_training_work": (c_int32, [c_void_p, c_int32, c_void_p]),
    "gpur_training_help": (c_int32, [c_char_p, c_char_p, c_char_p, c_void_p, c_int64]),
    "gpur_training_option_name": (c_char_p, [c_int32, c_int32]),
    "gpur_training_option_value": (c_char_p, [c_char_p]),
    "gpur_training_describe_env": (c_int32, [c_char_p, c_char_p, c_void_p, c_int64]),
    "gpur_replay_write_field": (c_int32, [c_void_p, c_int32, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_writer_config_init": (c_int32, [c_void_p, c_uint64]),
    "gpur_writer_open": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "gpur_writer_create": (c_int32, [c_void_p, c_int32, c_void_p]),
    "gpur_writer_destroy": (None, [c_void_p]),
    "gpur_writer_reset": (c_int32, [c_void_p, c_int32, c_void_p]),
    "gpur_writer_step_ex": (c_int32, [c_void_p, c_void_p]),
    "gpur_writer_step": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "gpur_writer_get_episode": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p]),
    "gpur_writer_set_ended": (c_int32, [c_void_p, c_void_p]),
    "gpur_writer_append": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p]),
    "gpur_writer_append_fields": (c_int32, [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "gpur_writer_try_append_fields": (c_int32, [c_void_p, c_int64, c_void_p]),
    "gpur_writer_end_appended_episode": (c_int32, [c_void_p]),
    "gpur_writer_flush": (c_int32, [c_void_p]),
}
