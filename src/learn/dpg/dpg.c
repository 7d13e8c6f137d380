/* SPDX-License-Identifier: MIT */
/* The public learner of deterministic policy gradients: config, create, destroy, train, publish, statistics. */
#include "learn/dpg/dpg.h"

#include "base/sized.h"
#include "learn/acting/policy.h"
#include "learn/config.h"
#include "learn/network/init.h"
#include "learn/weights_file.h"
#include "replay/sampler/consumer.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* clang-format off */
#define DENSE(layer_units, layer_activation) {.kind = GPUR_DENSE, .units = layer_units, .activation = layer_activation}
#define ADAM                                                                                                           \
    {.kind = GPUR_ADAM, .learning_rate = {.first = 1e-4f, .last = 1e-4f}, .beta1 = 0.9f, .beta2 = 0.999f,              \
     .decay = 0.95f, .epsilon = 1e-8f}
/* clang-format on */

gpur_status gpur_dpg_config_init(gpur_dpg_config *config, uint64_t size)
{
    static const gpur_dpg_config defaults = {
        .actor = {.trunk = {DENSE(300, GPUR_TANH), DENSE(200, GPUR_LINEAR)},
                  .trunk_count = 2,
                  .head = GPUR_HEAD_TANH_ACTION,
                  .input_scale = 1.0f,
                  .input_layout = GPUR_INPUT_AUTO},
        .critic = {.trunk = {DENSE(400, GPUR_TANH), DENSE(300, GPUR_LINEAR)},
                   .trunk_count = 2,
                   .head = GPUR_HEAD_Q,
                   .num_actions = 1,
                   .input_scale = 1.0f,
                   .input_layout = GPUR_INPUT_AUTO},
        .actor_optimizer = ADAM,
        .critic_optimizer = ADAM,
        .action_gradient_clip = 1.0f,
        .index_source = GPUR_SOURCE_AUTO,
        .beta = {.first = 0.4f, .last = 0.4f},
        .batch_size = 256,
        .target_period = 100,
        .math = GPUR_MATH_FP32,
        .unroll = 8,
    };
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_dpg_config");
}

gpur_dpg_network gpur_dpg_network_of(gpur_dpg *dpg, int which)
{
    const gpur_dpg_network actor = {"actor", &dpg->config.actor, &dpg->actor, &dpg->dpg.actor_optimizer};
    const gpur_dpg_network critic = {"critic", &dpg->config.critic, &dpg->critic, &dpg->step.optimizer};
    return which == 0 ? actor : critic;
}

/* Its parts, in the order in which they are opened. */
static void parts_of(gpur_dpg *dpg, const gpur_part *parts[GPUR_DPG_PARTS], void *structs[GPUR_DPG_PARTS])
{
    parts[0] = &gpur_step_part, structs[0] = &dpg->step;
    parts[1] = &gpur_train_stats_part, structs[1] = &dpg->actor_stats;
    parts[2] = &gpur_train_stats_part, structs[2] = &dpg->critic_stats;
}

/* The input of both is obs, as the replay has it. */
static gpur_status build_network(gpur_network *network, const gpur_network_config *config, int32_t head,
                                 int64_t features)
{
    const gpur_input_shape shape = gpur_input_shape_of(features);
    GPUR_TRY(gpur_network_check(config, &shape));
    GPUR_REQUIRE(config->head == head, "network.head is %" PRId32 "; it must be %s (%" PRId32 ")", config->head,
                 head == GPUR_HEAD_Q ? "GPUR_HEAD_Q" : "GPUR_HEAD_TANH_ACTION", head);
    GPUR_REQUIRE(config->trunk_count == 0 || config->trunk[0].kind == GPUR_DENSE,
                 "network.trunk[0] is a convolution (GPUR_CONV); deterministic policy gradients need dense layers "
                 "(GPUR_DENSE)");
    GPUR_REQUIRE(config->input_scale == 1.0f, "network.input_scale is %g; it must be 1", (double)config->input_scale);
    GPUR_REQUIRE(config->input_shift == 0.0f, "network.input_shift is %g; it must be 0", (double)config->input_shift);
    return gpur_network_build(network, config, &shape);
}

static gpur_status build_networks(gpur_dpg *dpg, gpur_learn_fields *fields)
{
    const gpur_dpg_config *const config = &dpg->config;
    const int32_t actions = config->actor.num_actions;
    GPUR_REQUIRE(actions >= 1, "actor: network.num_actions is %" PRId32 "; it must be the size of the action vector",
                 actions);
    GPUR_TRY(gpur_learn_fields_find(fields, gpur_replay_schema(dpg->replay), actions));
    GPUR_REQUIRE(fields->obs_format.is_float, "field \"obs\" is uint8; deterministic policy gradients need float32");
    GPUR_REQUIRE(config->critic.num_actions == 1,
                 "critic: network.num_actions is %" PRId32 "; it must be 1, the value of an action of the input",
                 config->critic.num_actions);
    const int64_t features = fields->obs_format.features;
    GPUR_TRY(gpur_prefix_error(build_network(&dpg->actor, &config->actor, GPUR_HEAD_TANH_ACTION, features), "actor"));
    return gpur_prefix_error(build_network(&dpg->critic, &config->critic, GPUR_HEAD_Q, features + actions), "critic");
}

/* The settings of the train step, whose network is the critic. */
static gpur_status step_config_of(const gpur_dpg *dpg, gpur_dqn_config *step)
{
    const gpur_dpg_config *const config = &dpg->config;
    GPUR_REQUIRE(config->action_gradient_clip >= 0.0f && config->action_gradient_clip < INFINITY,
                 "action_gradient_clip is %g; it must be above 0, or 0 for none, and finite",
                 (double)config->action_gradient_clip);
    GPUR_REQUIRE(config->preactivation_penalty >= 0.0f && config->preactivation_penalty < INFINITY,
                 "preactivation_penalty is %g; it must be 0 or more, and finite",
                 (double)config->preactivation_penalty);
    GPUR_TRY(gpur_prefix_error(gpur_optimizer_check(&config->actor_optimizer), "actor_optimizer"));
    GPUR_TRY(gpur_prefix_error(gpur_optimizer_check(&config->critic_optimizer), "critic_optimizer"));
    GPUR_TRY(gpur_dqn_config_init(step, sizeof *step));
    step->network = config->critic;
    step->optimizer = config->critic_optimizer;
    step->loss = GPUR_LOSS_SQUARED;
    step->index_source = config->index_source;
    step->beta = config->beta;
    step->batch_size = config->batch_size;
    step->target_period = config->target_period;
    step->math = config->math; /* which is decided */
    step->unroll = config->unroll;
    step->deterministic = config->deterministic;
    step->seed = config->seed;
    return gpur_dqn_config_check(step, gpur_replay_settings(dpg->replay));
}

static gpur_status open_parts(gpur_dpg *dpg, const gpur_dqn_config *config, const gpur_learn_fields *fields)
{
    const gpur_part *parts[GPUR_DPG_PARTS];
    void *structs[GPUR_DPG_PARTS];
    const gpur_part_context context = {
        .device = dpg->device,
        .replay = dpg->replay,
        .network = &dpg->critic,
        .config = config,
        .fields = fields,
        .step = &dpg->step,
        .algorithm = &gpur_algorithm_dpg,
        .dpg = &dpg->dpg,
    };
    dpg->dpg.actor = &dpg->actor;
    dpg->dpg.actor_config = dpg->config.actor_optimizer;
    dpg->dpg.action_gradient_clip = dpg->config.action_gradient_clip;
    dpg->dpg.preactivation_penalty = dpg->config.preactivation_penalty;
    parts_of(dpg, parts, structs);
    for (int i = 0; i < GPUR_DPG_PARTS; i++) {
        dpg->opened = i + 1;
        GPUR_TRY(parts[i]->open(structs[i], &context));
    }
    return GPUR_OK;
}

/* Of the parts, only the step has device memory. */
static gpur_status assign_memory(gpur_dpg *dpg)
{
    gpur_arena arena = {NULL, 0};
    gpur_step_part.assign(&dpg->step, &arena);
    dpg->memory_bytes = arena.used;
    GPUR_TRY(gpur_memory_alloc(dpg->device, arena.used, "the weights and activations of an actor and a critic",
                               &dpg->memory));
    arena = (gpur_arena){dpg->memory, 0};
    gpur_step_part.assign(&dpg->step, &arena);
    return gpur_step_part.connect(&dpg->step);
}

/* The critic's weights have a seed of their own, so that they are independent of the actor's. */
static gpur_status set_first_weights(gpur_dpg *dpg, gpur_stream *stream)
{
    const gpur_params *const actor_params = &dpg->actor.params, *const critic_params = &dpg->critic.params;
    float *actor = NULL, *critic = NULL;
    gpur_status status = gpur_weights_alloc(dpg->device, actor_params, &actor);
    if (status == GPUR_OK)
        status = gpur_weights_alloc(dpg->device, critic_params, &critic);
    if (status == GPUR_OK) {
        gpur_init_weights(actor_params, &dpg->config.actor, dpg->config.seed, actor);
        gpur_init_weights(critic_params, &dpg->config.critic, ~dpg->config.seed, critic);
        status = gpur_dpg_step_reset(&dpg->step, stream, actor, critic);
    }
    gpur_weights_free(dpg->device, actor_params, actor);
    gpur_weights_free(dpg->device, critic_params, critic);
    return status;
}

/* As a learner does: one step comes before the first weights, since libraries load their code in their first call. */
static gpur_status start(gpur_dpg *dpg, gpur_stream *stream)
{
    GPUR_TRY(gpur_train_step_warm_up(&dpg->step, stream));
    GPUR_TRY(set_first_weights(dpg, stream));
    GPUR_TRY(gpur_step_part.start(&dpg->step, stream));
    return gpur_stream_sync(stream);
}

static gpur_status build(gpur_dpg *dpg, const gpur_dpg_config *given)
{
    gpur_learn_fields fields;
    gpur_dqn_config step;
    GPUR_TRY(gpur_dpg_config_init(&dpg->config, sizeof dpg->config));
    GPUR_TRY(gpur_sized_read(&dpg->config, sizeof dpg->config, given, "gpur_dpg_config"));
    dpg->config.math = gpur_math_decide(dpg->device, dpg->config.math);
    GPUR_TRY(build_networks(dpg, &fields));
    GPUR_TRY(step_config_of(dpg, &step));
    GPUR_TRY(open_parts(dpg, &step, &fields));
    GPUR_TRY(assign_memory(dpg));
    GPUR_TRY(gpur_replay_limit_actions(dpg->replay, &dpg->action_limit, GPUR_UNIT_ACTIONS));
    GPUR_TRY(gpur_consumer_begin(dpg->replay, gpur_consumer_without_publishing, &dpg->stream));
    return gpur_consumer_end(dpg->replay, start(dpg, dpg->stream));
}

gpur_status gpur_dpg_create(gpur_replay *replay, const gpur_dpg_config *config, gpur_dpg **out)
{
    GPUR_REQUIRE(out, "dpg, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    gpur_device *const device = gpur_replay_device(replay);
    gpur_dpg *const dpg = gpur_host_alloc(device, sizeof *dpg);
    if (!dpg)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a learner of %zu bytes", sizeof *dpg);
    gpur_device_retain(device);
    dpg->device = device;
    dpg->replay = replay;
    const gpur_status status = build(dpg, config);
    if (status != GPUR_OK) {
        gpur_dpg_destroy(dpg);
        return status;
    }
    *out = dpg;
    return GPUR_OK;
}

void gpur_dpg_destroy(gpur_dpg *dpg)
{
    const gpur_part *parts[GPUR_DPG_PARTS];
    void *structs[GPUR_DPG_PARTS];
    if (!dpg)
        return;
    gpur_device *const device = dpg->device;
    gpur_replay_free_actions(dpg->replay, &dpg->action_limit);
    if (dpg->stream)
        (void)gpur_stream_sync(dpg->stream);
    parts_of(dpg, parts, structs);
    for (int i = dpg->opened - 1; i >= 0; i--)
        parts[i]->close(structs[i]);
    gpur_memory_free(device, dpg->memory);
    gpur_host_free(device, dpg, sizeof *dpg);
    gpur_device_release(device);
}

static gpur_status enqueue_steps(gpur_dpg *dpg, gpur_stream *stream, int64_t steps)
{
    GPUR_TRY(gpur_graph_launch(dpg->step.sampled.train, stream, steps));
    GPUR_TRY(gpur_train_stats_record(&dpg->actor_stats, stream, dpg->dpg.actor_optimizer.state, steps));
    return gpur_train_stats_record(&dpg->critic_stats, stream, dpg->step.optimizer.state, steps);
}

/* 1: of two networks, which spoil each other, the actor was the first one. In the same step the critic is trained
 * first. */
static int is_actor_first(const gpur_train_state *actor, const gpur_train_state *critic)
{
    return actor->diverged_at > 0 && (critic->diverged_at == 0 || actor->diverged_at < critic->diverged_at);
}

gpur_status gpur_dpg_check_states(gpur_dpg *dpg, const gpur_train_state *actor, const gpur_train_state *critic)
{
    const float *const clip = &gpur_replay_settings(dpg->replay)->reward_clip;
    return is_actor_first(actor, critic)
               ? gpur_train_state_check(actor, &dpg->config.actor_optimizer, clip, "actor: ")
               : gpur_train_state_check(critic, &dpg->config.critic_optimizer, clip, "critic: ");
}

gpur_status gpur_dpg_check_finite(gpur_dpg *dpg)
{
    const gpur_train_state actor = gpur_train_stats_newest(&dpg->actor_stats);
    const gpur_train_state critic = gpur_train_stats_newest(&dpg->critic_stats);
    return gpur_dpg_check_states(dpg, &actor, &critic);
}

gpur_status gpur_dpg_check_weights(gpur_dpg *dpg)
{
    GPUR_TRY(gpur_dpg_sync(dpg));
    for (int which = 0; which < GPUR_DPG_NETWORKS; which++) {
        const gpur_dpg_network n = gpur_dpg_network_of(dpg, which);
        gpur_divergence divergence = {.optimizer = &n.optimizer->config,
                                      .reward_clip = &gpur_replay_settings(dpg->replay)->reward_clip,
                                      .network = which == 0 ? "actor: " : "critic: "};
        GPUR_TRY(gpur_weights_check_finite(dpg->replay, &n.network->params, n.optimizer->weights, &divergence,
                                           which == 0 ? &dpg->actor_stats : &dpg->critic_stats));
    }
    return GPUR_OK;
}

gpur_status gpur_dpg_train(gpur_dpg *dpg, int64_t steps)
{
    GPUR_REQUIRE(dpg, "dpg is NULL");
    GPUR_REQUIRE(steps >= 0, "steps is %" PRId64 "; it must be 0 or more", steps);
    const gpur_sampler *const sampler = gpur_sampler_of(dpg->step.config.index_source);
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, gpur_sampler_needs(sampler, dpg->config.batch_size),
                                         gpur_replay_settings(dpg->replay)->min_size};
    for (int64_t done = 0; done < steps; done += GPUR_LAUNCH_STEPS) {
        const int64_t launch_steps = steps - done < GPUR_LAUNCH_STEPS ? steps - done : GPUR_LAUNCH_STEPS;
        gpur_stream *stream = NULL;
        GPUR_TRY(gpur_dpg_check_finite(dpg));
        GPUR_TRY(gpur_consumer_begin(dpg->replay, launch, &stream));
        GPUR_TRY(gpur_consumer_end(dpg->replay, enqueue_steps(dpg, stream, launch_steps)));
    }
    return GPUR_OK;
}

gpur_status gpur_dpg_sync(gpur_dpg *dpg)
{
    GPUR_REQUIRE(dpg, "dpg is NULL");
    GPUR_TRY(gpur_stream_sync(dpg->stream));
    return gpur_dpg_check_finite(dpg);
}

gpur_status gpur_dpg_publish(gpur_dpg *dpg, gpur_policy *policy)
{
    GPUR_REQUIRE(dpg && policy, "dpg and policy must not be NULL");
    GPUR_REQUIRE(policy->device == dpg->device,
                 "the learner is on %s, opened by another gpur_device_open than this policy's %s; it must be the same",
                 gpur_device_name(dpg->device), gpur_device_name(policy->device));
    const gpur_dpg_network from = gpur_dpg_network_of(dpg, policy->network.head != GPUR_HEAD_TANH_ACTION);
    GPUR_TRY(gpur_network_check_equal(&policy->network, from.network));
    GPUR_TRY(gpur_dpg_check_finite(dpg));
    gpur_consumer_lock(dpg->replay);
    const int64_t version = gpur_train_stats_steps_enqueued(&dpg->critic_stats);
    const gpur_status status = gpur_policy_enqueue_write(policy, dpg->stream, from.optimizer->weights, version);
    gpur_consumer_unlock(dpg->replay);
    return status;
}

int32_t gpur_dpg_math(const gpur_dpg *dpg)
{
    return dpg ? dpg->config.math : -1;
}

gpur_status gpur_dpg_get_stats(gpur_dpg *dpg, gpur_dpg_stats *stats)
{
    gpur_train_stats_snapshot actor, critic;
    gpur_dpg_stats known;
    GPUR_REQUIRE(dpg && stats, "dpg and stats must not be NULL");
    GPUR_TRY(gpur_sized_check(stats, "gpur_dpg_stats")); /* first, because reading them begins the next mean */
    memset(&known, 0, sizeof known);
    gpur_train_stats_read(&dpg->actor_stats, &actor);
    gpur_train_stats_read(&dpg->critic_stats, &critic);
    known.steps = (int64_t)critic.state.step;
    known.steps_enqueued = critic.steps_enqueued;
    known.skipped = critic.state.skipped;
    known.target_copies = critic.state.target_copies;
    known.critic_loss = critic.state.loss;
    known.mean_critic_loss = (float)critic.mean_loss;
    known.mean_q = critic.state.mean_q;
    known.critic_gradient_norm = critic.state.gradient_norm;
    known.critic_learning_rate = critic.state.learning_rate;
    known.actor_loss = -actor.state.mean_q;
    known.actor_gradient_norm = actor.state.gradient_norm;
    known.actor_learning_rate = actor.state.learning_rate;
    known.steps_per_second = critic.steps_per_second;
    known.diverged_at =
        (int64_t)(is_actor_first(&actor.state, &critic.state) ? actor.state.diverged_at : critic.state.diverged_at);
    known.device_bytes = dpg->memory_bytes;
    known.invalid_actions = critic.state.invalid_actions;
    known.pinned_bytes = 2 * gpur_train_stats_part.pinned_bytes(&dpg->critic_stats);
    return gpur_sized_write(stats, &known, sizeof known, "gpur_dpg_stats");
}
