/* SPDX-License-Identifier: MIT */
/* Written by python3 tests/package/test_ctypes.py --write */
/* The members of settings' structs. */
#include "train/members.h"

#include "gpureplay.h"
#include "gpureplay/run.h"

static const gpur_member gpur_schedule_members[] = {
    {.name = "first", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_schedule, first)},
    {.name = "last", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_schedule, last)},
    {.name = "begin", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_schedule, begin)},
    {.name = "steps", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_schedule, steps)},
    {.name = NULL}};

const gpur_member gpur_replay_config_members[] = {
    {.name = "capacity", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, capacity)},
    {.name = "index_source", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, index_source), .words =
        (const char *const[]){"auto", "uniform", "uniform_distinct", "prioritized_stratified",
        "prioritized_independent"}, .word_count = 5},
    {.name = "block_rows", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, block_rows)},
    {.name = "staging_blocks", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, staging_blocks)},
    {.name = "upload", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, upload), .words = (const char
        *const[]){"copy", "scatter"}, .word_count = 2},
    {.name = "flush", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, flush), .words = (const char
        *const[]){"auto", "manual"}, .word_count = 2},
    {.name = "when_full", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, when_full), .words = (const char
        *const[]){"wait", "error"}, .word_count = 2},
    {.name = "min_size", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, min_size)},
    {.name = "max_batch", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, max_batch)},
    {.name = "gamma", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_replay_config, gamma)},
    {.name = "reward_clip", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_replay_config, reward_clip)},
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, seed)},
    {.name = "prioritized", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, prioritized)},
    {.name = "weight_norm", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, weight_norm), .words = (const
        char *const[]){"batch", "memory", "none"}, .word_count = 3},
    {.name = "alpha", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_replay_config, alpha)},
    {.name = "priority_offset", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_replay_config, priority_offset)},
    {.name = "beta", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_replay_config, beta), .of = gpur_schedule_members},
    {.name = "n_step", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, n_step)},
    {.name = "layout", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, layout), .words = (const char
        *const[]){"rows", "frames", "lanes"}, .word_count = 3},
    {.name = "frame_stack", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, frame_stack)},
    {.name = "stack_axis", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, stack_axis), .words = (const
        char *const[]){"first", "last"}, .word_count = 2},
    {.name = "stack_pad", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, stack_pad), .words = (const char
        *const[]){"zero", "repeat"}, .word_count = 2},
    {.name = "check_finite", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, check_finite)},
    {.name = "extra_frames", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_replay_config, extra_frames)},
    {.name = "eviction", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, eviction), .words = (const char
        *const[]){"oldest", "priority"}, .word_count = 2},
    {.name = "evict_alpha", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_replay_config, evict_alpha)},
    {.name = "first_priority", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_replay_config, first_priority), .words =
        (const char *const[]){"window", "ever"}, .word_count = 2},
    {.name = NULL}};

static const gpur_member gpur_layer_members[] = {
    {.name = "kind", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, kind), .words = (const char
        *const[]){"dense", "conv"}, .word_count = 2},
    {.name = "units", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, units)},
    {.name = "activation", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, activation), .words = (const char
        *const[]){"linear", "relu", "tanh"}, .word_count = 3},
    {.name = "kernel", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, kernel)},
    {.name = "stride", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, stride)},
    {.name = "padding", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, padding)},
    {.name = "norm", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_layer, norm)},
    {.name = NULL}};

static const gpur_member gpur_network_config_members[] = {
    {.name = "trunk", .kind = GPUR_MEMBER_TRUNK, .at = offsetof(gpur_network_config, trunk), .of = gpur_layer_members},
    {.name = "head", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, head), .words = (const char
        *const[]){"q", "dueling", "softmax_value", "tanh_action", "squashed_gaussian", "quantiles", "categorical"},
        .word_count = 7},
    {.name = "hidden", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, hidden)},
    {.name = "hidden_activation", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, hidden_activation),
        .words = (const char *const[]){"linear", "relu", "tanh"}, .word_count = 3},
    {.name = "num_actions", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, num_actions)},
    {.name = "init", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, init), .words = (const char
        *const[]){"fan_in", "glorot", "normal"}, .word_count = 3},
    {.name = "init_scale", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_network_config, init_scale)},
    {.name = "input_scale", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_network_config, input_scale)},
    {.name = "input_layout", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, input_layout), .words =
        (const char *const[]){"chw", "hwc", "auto"}, .word_count = 3},
    {.name = "input_shift", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_network_config, input_shift)},
    {.name = "atoms", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_network_config, atoms)},
    {.name = "v_min", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_network_config, v_min)},
    {.name = "v_max", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_network_config, v_max)},
    {.name = NULL}};

static const gpur_member gpur_optimizer_config_members[] = {
    {.name = "kind", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_optimizer_config, kind), .words = (const char
        *const[]){"adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind", "adam_tf"}, .word_count =
        6},
    {.name = "centered", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_optimizer_config, centered)},
    {.name = "learning_rate", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_optimizer_config, learning_rate), .of =
        gpur_schedule_members},
    {.name = "beta1", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, beta1)},
    {.name = "beta2", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, beta2)},
    {.name = "decay", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, decay)},
    {.name = "momentum", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, momentum)},
    {.name = "epsilon", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, epsilon)},
    {.name = "clip_norm", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, clip_norm)},
    {.name = "clip_value", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_optimizer_config, clip_value)},
    {.name = "weight_decay", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_optimizer_config, weight_decay)},
    {.name = NULL}};

static const gpur_member gpur_returns_config_members[] = {
    {.name = "cache_size", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_returns_config, cache_size)},
    {.name = "block_length", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_returns_config, block_length)},
    {.name = "estimator", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_returns_config, estimator), .words = (const
        char *const[]){"peng", "n-step", "watkins", "peng-median", "watkins-median", "peng-error-bound",
        "watkins-error-bound"}, .word_count = 7},
    {.name = "lambda", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_returns_config, lambda)},
    {.name = "n_step", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_returns_config, n_step)},
    {.name = "error_bound", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_returns_config, error_bound)},
    {.name = "storage", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_returns_config, storage), .words = (const char
        *const[]){"virtual", "physical"}, .word_count = 2},
    {.name = "draw", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_returns_config, draw), .words = (const char
        *const[]){"permutation", "replacement"}, .word_count = 2},
    {.name = "truncation_terminates", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_returns_config,
        truncation_terminates)},
    {.name = "prioritization", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_returns_config, prioritization), .of =
        gpur_schedule_members},
    {.name = NULL}};

const gpur_member gpur_dqn_config_members[] = {
    {.name = "network", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dqn_config, network), .of =
        gpur_network_config_members},
    {.name = "optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dqn_config, optimizer), .of =
        gpur_optimizer_config_members, .words = (const char *const[]){"adam", "rmsprop_tf", "rmsprop_keras2",
        "rmsprop_torch", "rmsprop_deepmind", "adam_tf"}, .word_count = 6},
    {.name = "double_dqn", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, double_dqn)},
    {.name = "loss", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, loss), .words = (const char
        *const[]){"huber", "squared"}, .word_count = 2},
    {.name = "huber_delta", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dqn_config, huber_delta)},
    {.name = "index_source", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, index_source), .words = (const
        char *const[]){"auto", "uniform", "uniform_distinct", "prioritized_stratified", "prioritized_independent"},
        .word_count = 5},
    {.name = "batch_size", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dqn_config, batch_size)},
    {.name = "target_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dqn_config, target_period)},
    {.name = "target_copy_first", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, target_copy_first)},
    {.name = "act", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, act), .words = (const char
        *const[]){"latest", "previous", "target"}, .word_count = 3},
    {.name = "math", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, math), .words = (const char
        *const[]){"fp32", "tf32", "bf16", "auto"}, .word_count = 4},
    {.name = "step_kernel", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, step_kernel), .words = (const
        char *const[]){"auto", "libraries", "fused"}, .word_count = 3},
    {.name = "exploration", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dqn_config, exploration), .of =
        gpur_schedule_members},
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dqn_config, seed)},
    {.name = "host_batches", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dqn_config, host_batches)},
    {.name = "beta", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dqn_config, beta), .of = gpur_schedule_members},
    {.name = "returns", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dqn_config, returns), .of =
        gpur_returns_config_members},
    {.name = "target_rate", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dqn_config, target_rate)},
    {.name = NULL}};

const gpur_member gpur_dpg_config_members[] = {
    {.name = "actor", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dpg_config, actor), .of =
        gpur_network_config_members},
    {.name = "critic", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dpg_config, critic), .of =
        gpur_network_config_members},
    {.name = "actor_optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dpg_config, actor_optimizer), .of =
        gpur_optimizer_config_members},
    {.name = "critic_optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dpg_config, critic_optimizer), .of =
        gpur_optimizer_config_members},
    {.name = "action_gradient_clip", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dpg_config, action_gradient_clip)},
    {.name = "index_source", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dpg_config, index_source), .words = (const
        char *const[]){"auto", "uniform", "uniform_distinct", "prioritized_stratified", "prioritized_independent"},
        .word_count = 5},
    {.name = "beta", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_dpg_config, beta), .of = gpur_schedule_members},
    {.name = "batch_size", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dpg_config, batch_size)},
    {.name = "target_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dpg_config, target_period)},
    {.name = "math", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dpg_config, math), .words = (const char
        *const[]){"fp32", "tf32", "bf16", "auto"}, .word_count = 4},
    {.name = "preactivation_penalty", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dpg_config,
        preactivation_penalty)},
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_dpg_config, seed)},
    {.name = "target_rate", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dpg_config, target_rate)},
    {.name = "critics", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dpg_config, critics)},
    {.name = "policy_delay", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_dpg_config, policy_delay)},
    {.name = "target_noise", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dpg_config, target_noise)},
    {.name = "target_noise_clip", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_dpg_config, target_noise_clip)},
    {.name = NULL}};

const gpur_member gpur_sac_config_members[] = {
    {.name = "actor", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config, actor), .of =
        gpur_network_config_members},
    {.name = "critic", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config, critic), .of =
        gpur_network_config_members},
    {.name = "actor_optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config, actor_optimizer), .of =
        gpur_optimizer_config_members},
    {.name = "critic_optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config, critic_optimizer), .of =
        gpur_optimizer_config_members},
    {.name = "temperature_optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config,
        temperature_optimizer), .of = gpur_optimizer_config_members},
    {.name = "temperature", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_sac_config, temperature)},
    {.name = "fixed_temperature", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_sac_config, fixed_temperature)},
    {.name = "target_entropy", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_sac_config, target_entropy)},
    {.name = "critics", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_sac_config, critics)},
    {.name = "index_source", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_sac_config, index_source), .words = (const
        char *const[]){"auto", "uniform", "uniform_distinct", "prioritized_stratified", "prioritized_independent"},
        .word_count = 5},
    {.name = "beta", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_sac_config, beta), .of = gpur_schedule_members},
    {.name = "batch_size", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_sac_config, batch_size)},
    {.name = "target_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_sac_config, target_period)},
    {.name = "target_rate", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_sac_config, target_rate)},
    {.name = "math", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_sac_config, math), .words = (const char
        *const[]){"fp32", "tf32", "bf16", "auto"}, .word_count = 4},
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_sac_config, seed)},
    {.name = NULL}};

const gpur_member gpur_actor_critic_config_members[] = {
    {.name = "network", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_actor_critic_config, network), .of =
        gpur_network_config_members},
    {.name = "obs", .kind = GPUR_MEMBER_FIELD, .at = offsetof(gpur_actor_critic_config, obs)},
    {.name = "optimizer", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_actor_critic_config, optimizer), .of =
        gpur_optimizer_config_members, .words = (const char *const[]){"adam", "rmsprop_tf", "rmsprop_keras2",
        "rmsprop_torch", "rmsprop_deepmind", "adam_tf"}, .word_count = 6},
    {.name = "dual_optimizer", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_actor_critic_config, dual_optimizer)},
    {.name = "log", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_actor_critic_config, log), .words = (const char
        *const[]){"add", "max", "softmax"}, .word_count = 3},
    {.name = "log_epsilon", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_actor_critic_config, log_epsilon)},
    {.name = "policy_floor", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_actor_critic_config, policy_floor)},
    {.name = "value_coefficient", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_actor_critic_config,
        value_coefficient)},
    {.name = "entropy", .kind = GPUR_MEMBER_STRUCT, .at = offsetof(gpur_actor_critic_config, entropy), .of =
        gpur_schedule_members},
    {.name = "max_batch", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_actor_critic_config, max_batch)},
    {.name = "math", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_actor_critic_config, math), .words = (const char
        *const[]){"fp32", "tf32", "bf16", "auto"}, .word_count = 4},
    {.name = "check_finite", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_actor_critic_config, check_finite)},
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_actor_critic_config, seed)},
    {.name = NULL}};

const gpur_member gpur_run_config_members[] = {
    {.name = "seed", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_run_config, seed)},
    {.name = "eval_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_run_config, eval_period)},
    {.name = "eval_episodes", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_run_config, eval_episodes)},
    {.name = "eval_epsilon", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_run_config, eval_epsilon)},
    {.name = "eval_envs", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_run_config, eval_envs)},
    {.name = NULL}};

const gpur_member gpur_fast_dqn_config_members[] = {
    {.name = "num_envs", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, num_envs)},
    {.name = "threads", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, threads)},
    {.name = "concurrent", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, concurrent)},
    {.name = "synchronized", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, synchronized)},
    {.name = "act", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, act), .words = (const char
        *const[]){"latest", NULL, "target"}, .word_count = 3},
    {.name = "whole_episodes", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, whole_episodes)},
    {.name = "target_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_fast_dqn_config, target_period)},
    {.name = "train_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_fast_dqn_config, train_period)},
    {.name = "prepopulation", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_fast_dqn_config, prepopulation)},
    {.name = "burst", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_fast_dqn_config, burst)},
    {.name = "train_steps", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_fast_dqn_config, train_steps)},
    {.name = "sigma", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_fast_dqn_config, sigma)},
    {.name = NULL}};

const gpur_member gpur_apex_config_members[] = {
    {.name = "actors", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, actors)},
    {.name = "epsilon_base", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_apex_config, epsilon_base)},
    {.name = "epsilon_exponent", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_apex_config, epsilon_exponent)},
    {.name = "block_rows", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, block_rows)},
    {.name = "compression", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, compression)},
    {.name = "initial_priorities", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, initial_priorities),
        .words = (const char *const[]){"max", "td"}, .word_count = 2},
    {.name = "replicate", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, replicate)},
    {.name = "pull_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, pull_period)},
    {.name = "max_episode_steps", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, max_episode_steps)},
    {.name = "broadcast_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, broadcast_period)},
    {.name = "soft_capacity", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, soft_capacity)},
    {.name = "trim_period", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, trim_period)},
    {.name = "samples_per_insert", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_apex_config, samples_per_insert)},
    {.name = "limiter_band", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_apex_config, limiter_band)},
    {.name = "limiter_timeout", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_apex_config, limiter_timeout)},
    {.name = "restarts", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, restarts)},
    {.name = "sigma", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_apex_config, sigma)},
    {.name = "remote_actors", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_apex_config, remote_actors)},
    {.name = "rows_under_way", .kind = GPUR_MEMBER_INT64, .at = offsetof(gpur_apex_config, rows_under_way)},
    {.name = NULL}};

const gpur_member gpur_ga3c_config_members[] = {
    {.name = "system", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, system), .words = (const char
        *const[]){"ga3c", "a3c", "a2c"}, .word_count = 3},
    {.name = "agents", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, agents)},
    {.name = "predictors", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, predictors)},
    {.name = "trainers", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, trainers)},
    {.name = "t_max", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, t_max)},
    {.name = "discount", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_ga3c_config, discount)},
    {.name = "reward_clip", .kind = GPUR_MEMBER_FLOAT, .at = offsetof(gpur_ga3c_config, reward_clip)},
    {.name = "drop_terminal", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, drop_terminal)},
    {.name = "max_prediction_batch", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, max_prediction_batch)},
    {.name = "min_train_batch", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, min_train_batch)},
    {.name = "queue_room", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, queue_room)},
    {.name = "when_full", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, when_full), .words = (const char
        *const[]){"wait", "refuse", "drop-oldest"}, .word_count = 3},
    {.name = "tuner", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, tuner), .words = (const char
        *const[]){"none", "paper", "code"}, .word_count = 3},
    {.name = "tuner_period", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_ga3c_config, tuner_period)},
    {.name = "tuner_settling", .kind = GPUR_MEMBER_DOUBLE, .at = offsetof(gpur_ga3c_config, tuner_settling)},
    {.name = "max_agents", .kind = GPUR_MEMBER_INT32, .at = offsetof(gpur_ga3c_config, max_agents)},
    {.name = NULL}};
