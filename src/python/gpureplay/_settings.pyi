# SPDX-License-Identifier: MIT
# Written by python3 tests/package/test_ctypes.py --write
"""The settings of constructors, for type checkers and editors. There is no such module when a program runs."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

from ._buffer import ReplayBuffer
from ._device import Device, TorchDevice
from ._envs import EnvOptions
from ._hindsight import Hindsight

Layer = Union[int, Sequence[Any], Mapping[str, Any]]
Schedule = Union[float, Sequence[float]]
Prioritized = Union[bool, Literal["independent"]]

Flush = Literal["auto", "manual"]
WeightNorm = Literal["batch", "memory", "none"]
Layout = Literal["rows", "frames"]
StackAxis = Literal["first", "last"]
StackPad = Literal["zero", "repeat"]
Eviction = Literal["oldest", "priority"]
FirstPriority = Literal["window", "ever"]
Observations = Literal["stacks", "frames"]
Strategy = Literal["future", "final", "episode"]
HindsightConfigReward = Literal["sparse", "distance", "nearness", "unchanged"]
Estimator = Literal["peng", "n-step", "watkins", "peng-median", "watkins-median", "peng-error-bound",
    "watkins-error-bound"]
Storage = Literal["virtual", "physical"]
Draw = Literal["permutation", "replacement"]
Head = Literal["q", "dueling", "softmax_value", "tanh_action", "squashed_gaussian", "quantiles", "categorical"]
HiddenActivation = Literal["linear", "relu", "tanh"]
Init = Literal["fan_in", "glorot", "normal"]
InputLayout = Literal["auto", "chw", "hwc"]
Optimizer = Literal["adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"]
Log = Literal["add", "max", "softmax"]
Loss = Literal["huber", "squared"]
Act = Literal["latest", "previous", "target"]
Math = Literal["fp32", "tf32", "bf16", "auto"]
StepKernel = Literal["auto", "libraries", "fused"]
FastDQNConfigAct = Literal["latest", "target"]
InitialPriorities = Literal["td", "max"]
System = Literal["ga3c", "a3c", "a2c"]
GA3CConfigWhenFull = Literal["wait", "refuse", "drop_oldest"]
Tuner = Literal["none", "paper", "code"]

class NetworkSettings(TypedDict, total=False):
    trunk: Sequence[Layer]
    head: Head
    hidden: int
    hidden_activation: HiddenActivation
    init: Init
    init_scale: float
    input_scale: float
    input_layout: InputLayout
    input_shift: float
    atoms: int
    v_min: float
    v_max: float

class OptimizerSettings(TypedDict, total=False):
    optimizer: Optimizer
    centered: bool
    learning_rate: Schedule
    beta1: float
    beta2: float
    decay: float
    momentum: float
    epsilon: float
    clip_norm: float
    clip_value: float
    weight_decay: float

class NetworkAndOptimizer(NetworkSettings, OptimizerSettings, total=False):
    pass

class ReturnsSettings(TypedDict, total=False):
    cache_size: int
    block_length: int
    estimator: Estimator
    lambda_: float
    n_step: int
    error_bound: float
    storage: Storage
    draw: Draw
    truncation_terminates: bool
    prioritization: Schedule

class DQNSettings(NetworkAndOptimizer, ReturnsSettings, total=False):
    double_dqn: bool
    loss: Loss
    huber_delta: float
    batch_size: int
    target_period: int
    target_copy_first: bool
    act: Act
    math: Math
    step_kernel: StepKernel
    exploration: Schedule
    seed: int
    host_batches: int
    beta: Schedule
    demonstration_ratio: float
    target_rate: float
    prioritized: Prioritized | None
    distinct: bool
    demonstrations: ReplayBuffer | None

class DDPGSettings(TypedDict, total=False):
    action_gradient_clip: float
    beta: Schedule
    batch_size: int
    target_period: int
    math: Math
    preactivation_penalty: float
    seed: int
    demonstration_ratio: float
    target_rate: float
    critics: int
    policy_delay: int
    target_noise: float
    target_noise_clip: float
    actor: NetworkAndOptimizer
    critic: NetworkAndOptimizer
    prioritized: Prioritized | None
    distinct: bool
    demonstrations: ReplayBuffer | None

class SACSettings(TypedDict, total=False):
    temperature: float
    fixed_temperature: bool
    target_entropy: float
    critics: int
    beta: Schedule
    batch_size: int
    target_period: int
    target_rate: float
    math: Math
    seed: int
    demonstration_ratio: float
    actor: NetworkAndOptimizer
    critic: NetworkAndOptimizer
    temperature_optimizer: OptimizerSettings
    prioritized: Prioritized | None
    distinct: bool
    demonstrations: ReplayBuffer | None

class ActorCriticSettings(NetworkAndOptimizer, total=False):
    dual_optimizer: bool
    log: Log
    log_epsilon: float
    policy_floor: float
    value_coefficient: float
    entropy: Schedule
    max_batch: int
    math: Math
    seed: int

class PolicySettings(NetworkSettings, total=False):
    max_batch: int
    streams: int
    math: Math
    policy_floor: float
    seed: int

class PolicyArguments(PolicySettings, total=False):
    device: str | TorchDevice | Device
    check_nan: bool

class CommonRunSettings(TypedDict, total=False):
    seed: int | None
    eval_period: int | None
    eval_episodes: int | None
    eval_epsilon: float | None
    eval_envs: int | None

class RunSettings(CommonRunSettings, total=False):
    num_envs: int | None
    threads: int | None
    concurrent: bool | None
    synchronized: bool | None
    act: FastDQNConfigAct | None
    whole_episodes: bool | None
    target_period: int | None
    train_period: int | None
    prepopulation: int | None
    burst: bool | None
    train_steps: int | None
    sigma: float | None

class ApexSettings(CommonRunSettings, total=False):
    actors: int | None
    epsilon_base: float | None
    epsilon_exponent: float | None
    block_rows: int | None
    compression: int | None
    initial_priorities: InitialPriorities | None
    replicate: int | None
    pull_period: int | None
    max_episode_steps: int | None
    broadcast_period: int | None
    soft_capacity: int | None
    trim_period: int | None
    samples_per_insert: float | None
    limiter_band: float | None
    limiter_timeout: float | None
    restarts: bool | None
    sigma: float | None
    remote_actors: int | None
    rows_under_way: int | None
    processes: bool | None
    epsilons: Sequence[float] | None
    folder: str | os.PathLike[str] | None

class GA3CSettings(CommonRunSettings, total=False):
    system: System | None
    agents: int | None
    predictors: int | None
    trainers: int | None
    t_max: int | None
    discount: float | None
    reward_clip: float | None
    drop_terminal: bool | None
    max_prediction_batch: int | None
    min_train_batch: int | None
    queue_room: int | None
    when_full: GA3CConfigWhenFull | None
    tuner: Tuner | None
    tuner_period: float | None
    tuner_settling: float | None
    max_agents: int | None

class BufferOptions(TypedDict, total=False):
    preset: str | None
    device: str | TorchDevice | Device
    min_size: int | None
    max_batch: int | None
    gamma: float | None
    reward_clip: float | None
    distinct: bool
    seed: int | None
    block_rows: int | None
    flush: Flush | None
    check_nan: bool
    prioritized: Prioritized | None
    alpha: float | None
    beta: Schedule | None
    weight_norm: WeightNorm | None
    priority_offset: float | None
    n_step: int | None
    frame_stack: int | None
    layout: Layout | None
    stack_axis: StackAxis | None
    stack_pad: StackPad | None
    extra_frames: int | None
    observations: Observations
    sequences: bool | tuple[int, int | None]
    keep_steps: bool
    eviction: Eviction | None
    evict_alpha: float | None
    first_priority: FirstPriority | None
    flatten: bool
    hindsight: Hindsight | None
    action_mask: bool

class PlanSettings(TypedDict, total=False):
    device: str | TorchDevice | Device
    num_envs: int
    autoreset: Any
    min_size: int | None
    max_batch: int | None
    gamma: float | None
    reward_clip: float | None
    distinct: bool
    seed: int | None
    block_rows: int | None
    flush: Flush | None
    check_nan: bool
    prioritized: Prioritized | None
    alpha: float | None
    beta: Schedule | None
    weight_norm: WeightNorm | None
    priority_offset: float | None
    n_step: int | None
    frame_stack: int | None
    layout: Layout | None
    stack_axis: StackAxis | None
    stack_pad: StackPad | None
    extra_frames: int | None
    observations: Observations
    sequences: bool | tuple[int, int | None]
    keep_steps: bool
    eviction: Eviction | None
    evict_alpha: float | None
    first_priority: FirstPriority | None
    flatten: bool
    hindsight: Hindsight | None
    action_mask: bool

class TrainArguments(TypedDict, total=False):
    device: str | TorchDevice | Device | None
    out: str | os.PathLike[str] | None
    resume: str | os.PathLike[str] | None
    progress: bool
    on_event: Callable[[Any], Any] | None
    env_options: EnvOptions
    eval_env: Any
    check_nan: bool
    buffer: Mapping[str, Any] | None
    agent: Mapping[str, Any] | None
    refill: bool

class DQNTraining(TrainArguments, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    deterministic: bool | None
    seed: int | float | None
    steps: int | float | None
    num_envs: int | None
    env_threads: int | None
    concurrent: bool | None
    synchronized: bool | None
    burst: bool | None
    act: Literal["latest", "target"] | None
    whole_episodes: bool | None
    target_period: int | float | None
    target_rate: float | None
    train_period: int | float | None
    train_steps: int | float | None
    prepopulation: int | float | None
    eval_period: int | float | None
    eval_episodes: int | float | None
    capacity: int | float | None
    frame_stack: int | None
    batch: int | float | None
    demonstrations: str | os.PathLike[str] | None
    demonstration_ratio: float | None
    learning_rate: float | None
    weight_decay: float | None
    optimizer: Literal["adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"] | None
    exploration_steps: int | float | None
    estimator: Literal["peng", "n-step", "watkins", "peng-median", "watkins-median", "peng-error-bound",
        "watkins-error-bound"] | None
    lambda_: float | None
    n_step: int | None
    atoms: int | None
    v_min: float | None
    v_max: float | None
    error_bound: float | None
    block_length: int | float | None
    cache_size: int | float | None
    storage: Literal["virtual", "physical"] | None
    draw: Literal["permutation", "replacement"] | None
    prioritization: float | None
    prioritization_steps: int | float | None
    truncation_terminates: bool | None
    checkpoint: int | float | None

class ApexTraining(TrainArguments, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    seed: int | float | None
    steps: int | float | None
    target_period: int | float | None
    target_rate: float | None
    prepopulation: int | float | None
    eval_period: int | float | None
    eval_episodes: int | float | None
    capacity: int | float | None
    frame_stack: int | None
    batch: int | float | None
    demonstrations: str | os.PathLike[str] | None
    demonstration_ratio: float | None
    learning_rate: float | None
    weight_decay: float | None
    optimizer: Literal["adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"] | None
    checkpoint: int | float | None
    actors: int | None
    processes: bool | None
    samples_per_insert: float | None
    initial_priorities: Literal["max", "td"] | None
    prioritized: bool | None
    replicate: int | None
    epsilons: str | Sequence[float] | None
    compression: int | None
    pull_period: int | float | None
    folder: str | os.PathLike[str] | None

class DDPGTraining(TrainArguments, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    deterministic: bool | None
    seed: int | float | None
    steps: int | float | None
    num_envs: int | None
    env_threads: int | None
    concurrent: bool | None
    synchronized: bool | None
    burst: bool | None
    whole_episodes: bool | None
    target_period: int | float | None
    target_rate: float | None
    period: int | float | None
    train_period: int | float | None
    train_steps: int | float | None
    prepopulation: int | float | None
    eval_period: int | float | None
    eval_episodes: int | float | None
    capacity: int | float | None
    batch: int | float | None
    demonstrations: str | os.PathLike[str] | None
    demonstration_ratio: float | None
    learning_rate: float | None
    critic_learning_rate: float | None
    weight_decay: float | None
    n_step: int | None
    gamma: float | None
    hidden: str | None
    critic_head: Literal["q", "quantiles", "categorical"] | None
    atoms: int | None
    v_min: float | None
    v_max: float | None
    checkpoint: int | float | None
    actors: int | None
    processes: bool | None
    samples_per_insert: float | None
    initial_priorities: Literal["max", "td"] | None
    prioritized: bool | None
    replicate: int | None
    sigma: float | None
    policy_delay: int | None
    target_noise: float | None
    target_noise_clip: float | None
    eviction: Literal["oldest", "priority"] | None
    second_activation: Literal["none", "relu", "tanh"] | None
    compression: int | None
    pull_period: int | float | None
    folder: str | os.PathLike[str] | None

class GA3CTraining(TrainArguments, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    deterministic: bool | None
    seed: int | float | None
    steps: int | float | None
    eval_episodes: int | float | None
    learning_rate: float | None
    checkpoint: int | float | None
    agents: int | None
    predictors: int | None
    trainers: int | None
    t_max: int | None
    min_train_batch: int | None
    queue_room: int | None
    when_full: Literal["wait", "refuse", "drop-oldest"] | None
    tuner: Literal["none", "paper", "code"] | None
    tuner_period: float | None
    entropy: float | None

class OfflineTraining(TrainArguments, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    deterministic: bool | None
    seed: int | float | None
    steps: int | float | None
    num_actions: int | None
    target_period: int | float | None
    target_rate: float | None
    eval_period: int | float | None
    eval_episodes: int | float | None
    batch: int | float | None
    learning_rate: float | None
    weight_decay: float | None
    optimizer: Literal["adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"] | None
    atoms: int | None
    v_min: float | None
    v_max: float | None
    n_step: int | None
    checkpoint: int | float | None
    prioritized: bool | None
    temperature: float | None
    fixed_temperature: bool | None
    target_entropy: float | None
    policy_delay: int | None
    target_noise: float | None
    target_noise_clip: float | None

class TrainOptions(TypedDict, total=False):
    threads: int | None
    math: Literal["fp32", "tf32", "bf16", "auto"] | None
    deterministic: bool | None
    seed: int | float | None
    steps: int | float | None
    data: str | os.PathLike[str] | ReplayBuffer | None
    num_actions: int | None
    num_envs: int | None
    env_threads: int | None
    concurrent: bool | None
    synchronized: bool | None
    burst: bool | None
    act: Literal["latest", "target"] | None
    whole_episodes: bool | None
    target_period: int | float | None
    target_rate: float | None
    period: int | float | None
    train_period: int | float | None
    train_steps: int | float | None
    prepopulation: int | float | None
    eval_period: int | float | None
    eval_episodes: int | float | None
    capacity: int | float | None
    frame_stack: int | None
    batch: int | float | None
    demonstrations: str | os.PathLike[str] | None
    demonstration_ratio: float | None
    learning_rate: float | None
    critic_learning_rate: float | None
    weight_decay: float | None
    optimizer: Literal["adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"] | None
    exploration_steps: int | float | None
    estimator: Literal["peng", "n-step", "watkins", "peng-median", "watkins-median", "peng-error-bound",
        "watkins-error-bound"] | None
    lambda_: float | None
    n_step: int | None
    gamma: float | None
    hidden: str | None
    critic_head: Literal["q", "quantiles", "categorical"] | None
    atoms: int | None
    v_min: float | None
    v_max: float | None
    error_bound: float | None
    block_length: int | float | None
    cache_size: int | float | None
    storage: Literal["virtual", "physical"] | None
    draw: Literal["permutation", "replacement"] | None
    prioritization: float | None
    prioritization_steps: int | float | None
    truncation_terminates: bool | None
    checkpoint: int | float | None
    actors: int | None
    processes: bool | None
    samples_per_insert: float | None
    initial_priorities: Literal["max", "td"] | None
    prioritized: bool | None
    replicate: int | None
    epsilons: str | Sequence[float] | None
    sigma: float | None
    temperature: float | None
    fixed_temperature: bool | None
    target_entropy: float | None
    policy_delay: int | None
    target_noise: float | None
    target_noise_clip: float | None
    eviction: Literal["oldest", "priority"] | None
    second_activation: Literal["none", "relu", "tanh"] | None
    compression: int | None
    pull_period: int | float | None
    folder: str | os.PathLike[str] | None
    agents: int | None
    predictors: int | None
    trainers: int | None
    t_max: int | None
    min_train_batch: int | None
    queue_room: int | None
    when_full: Literal["wait", "refuse", "drop-oldest"] | None
    tuner: Literal["none", "paper", "code"] | None
    tuner_period: float | None
    entropy: float | None
