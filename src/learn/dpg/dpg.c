/* SPDX-License-Identifier: MIT */
/* Deterministic policy gradients as an algorithm: settings, and how its learner is built. */
#include "learn/dpg/dpg.h"

#include "base/sized.h"
#include "learn/action_networks.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
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
        .demonstration_ratio = 0.5f,
        .target_rate = 1.0f,
        .critics = 1,
        .policy_delay = 1,
    };
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_dpg_config");
}

/* Networks and constants of Fujimoto et al. 2018: section 6.1 and appendix C. */
gpur_status gpur_td3_config_init(gpur_dpg_config *config, uint64_t size)
{
    gpur_dpg_config td3;
    GPUR_TRY(gpur_dpg_config_init(&td3, sizeof td3));
    td3.actor.trunk[0] = td3.critic.trunk[0] = (gpur_layer)DENSE(400, GPUR_RELU);
    td3.actor.trunk[1] = td3.critic.trunk[1] = (gpur_layer)DENSE(300, GPUR_RELU);
    td3.actor_optimizer.learning_rate = td3.critic_optimizer.learning_rate =
        (gpur_schedule){.first = 1e-3f, .last = 1e-3f};
    td3.action_gradient_clip = 0.0f;
    td3.batch_size = 100;
    td3.target_period = 1;
    td3.target_rate = 0.005f;
    td3.critics = 2;
    td3.policy_delay = 2;
    td3.target_noise = 0.2f;
    td3.target_noise_clip = 0.5f;
    return gpur_sized_init(config, size, &td3, sizeof td3, "gpur_dpg_config");
}

/* Seo et al. 2025: appendix, and the defaults of the authors' code. */
gpur_status gpur_fast_td3_config_init(gpur_dpg_config *config, uint64_t size)
{
    gpur_dpg_config fast;
    GPUR_TRY(gpur_td3_config_init(&fast, sizeof fast));
    for (int32_t i = 0; i < 3; i++) {
        fast.actor.trunk[i] = (gpur_layer)DENSE(512 >> i, GPUR_RELU);
        fast.critic.trunk[i] = (gpur_layer)DENSE(1024 >> i, GPUR_RELU);
    }
    fast.actor.trunk_count = fast.critic.trunk_count = 3;
    fast.critic.head = GPUR_HEAD_CATEGORICAL;
    fast.critic.atoms = 101;
    fast.critic.v_min = -250.0f;
    fast.critic.v_max = 250.0f;
    fast.actor_optimizer.learning_rate = (gpur_schedule){.first = 3e-4f, .last = 3e-4f};
    fast.actor_optimizer.weight_decay = 0.1;
    fast.critic_optimizer = fast.actor_optimizer;
    fast.batch_size = 32768;
    fast.target_rate = 0.1f;
    fast.target_noise = 0.001f;
    return gpur_sized_init(config, size, &fast, sizeof fast, "gpur_dpg_config");
}

enum { MAX_POLICY_DELAY = 64 };

static const gpur_learner_part parts[] = {{&gpur_step_part, offsetof(gpur_dpg, step)}};

static gpur_status check_noise(float value, const char *name, const char *wanted)
{
    GPUR_REQUIRE(value >= 0.0f && value < INFINITY, "%s is %g; it must be %s, and finite", name, (double)value, wanted);
    return GPUR_OK;
}

static gpur_status check_config(const gpur_dpg_config *config)
{
    GPUR_REQUIRE(config->action_gradient_clip >= 0.0f && config->action_gradient_clip < INFINITY,
                 "action_gradient_clip is %g; it must be above 0, or 0 for none, and finite",
                 (double)config->action_gradient_clip);
    GPUR_REQUIRE(config->preactivation_penalty >= 0.0f && config->preactivation_penalty < INFINITY,
                 "preactivation_penalty is %g; it must be 0 or more, and finite",
                 (double)config->preactivation_penalty);
    GPUR_TRY(gpur_range_check(config->policy_delay, 1, MAX_POLICY_DELAY, "policy_delay"));
    GPUR_TRY(check_noise(config->target_noise, "target_noise", "0 or more"));
    GPUR_TRY(check_noise(config->target_noise_clip, "target_noise_clip", "above 0, or 0 for none"));
    GPUR_TRY(gpur_prefix_error(gpur_optimizer_check(&config->actor_optimizer), "actor_optimizer"));
    return gpur_prefix_error(gpur_optimizer_check(&config->critic_optimizer), "critic_optimizer");
}

static gpur_step_config step_config_of(const gpur_dpg_config *config)
{
    return (gpur_step_config){
        .batch_size = config->batch_size,
        .index_source = config->index_source,
        .beta = config->beta,
        .huber_delta = 1.0f, /* kappa of quantiles */
        .policy_delay = config->policy_delay,
        .target_period = config->target_period,
        .target_rate = config->target_rate,
        .optimizer = config->critic_optimizer,
        .math = config->math,
        .seed = config->seed,
        .demonstrations = config->demonstrations,
        .demonstration_ratio = config->demonstration_ratio,
    };
}

static gpur_status build(gpur_learner *learner, const void *given, gpur_part_context *context)
{
    gpur_dpg *const dpg = gpur_dpg_of(learner);
    gpur_dpg_config *const config = &dpg->config;
    GPUR_TRY(gpur_dpg_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_dpg_config"));
    config->math = gpur_math_decide(learner->device, config->math);
    const gpur_action_networks networks = {
        .needs = "deterministic policy gradients need",
        .actor = &dpg->actor,
        .critic = &dpg->critic,
        .actor_config = &config->actor,
        .critic_config = &config->critic,
        .actor_optimizer = &dpg->actor_optimizer,
        .actor_value = "mean Q",
        .head = GPUR_HEAD_TANH_ACTION,
        .critics = config->critics,
    };
    GPUR_TRY(check_config(config));
    context->step_config = step_config_of(config);
    context->step = &dpg->step;
    GPUR_TRY(gpur_action_networks_build(&networks, learner, context));
    context->actor = &gpur_dpg_step_actor;
    context->actor_state = dpg;
    dpg->first = gpur_network_first_copy(&dpg->critic);
    return GPUR_OK;
}

gpur_status gpur_dpg_create(gpur_replay *replay, const gpur_dpg_config *config, gpur_learner **learner)
{
    return gpur_learner_create_of(&gpur_algorithm_dpg, NULL, replay, config, learner);
}

static void add_stats(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats)
{
    const gpur_train_state *const actor = &networks[GPUR_ACTOR_NETWORK].state;
    (void)learner;
    stats->policy_loss = -actor->mean_q;
    stats->policy_gradient_norm = actor->gradient_norm;
    stats->policy_learning_rate = actor->learning_rate;
}

/* A learner that trains its actor in each step loads any file. */
static gpur_status add_settings(const gpur_learner *learner, gpur_tensors *settings)
{
    const int32_t delay = gpur_dpg_of(learner)->config.policy_delay;
    return delay > 1 ? gpur_tensors_add_metadata(settings, "policy_delay", "%" PRId32, delay) : GPUR_OK;
}

/* The counters of both networks are equal, unless the actor is trained in fewer steps. */
static int32_t list_scalars(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *list)
{
    gpur_train_state *const a = &state->train[GPUR_ACTOR_NETWORK];
    const int32_t count = gpur_action_networks_list_scalars(state, "actor.mean_q", list);
    const gpur_scalar delayed[] = {
        {"actor.step", GPUR_SCALAR_U64, &a->step},
        {"actor.skipped", GPUR_SCALAR_I64, &a->skipped},
        {"actor.target_copies", GPUR_SCALAR_I64, &a->target_copies},
        {"actor.copy_due", GPUR_SCALAR_I32, &a->copy_due},
    };
    if (gpur_dpg_of(learner)->config.policy_delay == 1)
        return count;
    memcpy(list + count, delayed, sizeof delayed);
    return count + (int32_t)(sizeof delayed / sizeof *delayed);
}

static void complete(const gpur_learner *learner, gpur_learner_state *state)
{
    gpur_train_state *const a = &state->train[GPUR_ACTOR_NETWORK];
    const gpur_train_state *const c = &state->train[GPUR_CRITIC_NETWORK];
    if (gpur_dpg_of(learner)->config.policy_delay > 1)
        return;
    a->step = c->step, a->skipped = c->skipped;
    a->target_copies = c->target_copies, a->copy_due = c->copy_due;
}

const gpur_algorithm gpur_algorithm_dpg = {
    .name = "a DPG learner",
    .kind = "dpg",
    .bytes = sizeof(gpur_dpg),
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .build = build,
    .add_stats = add_stats,
    .add_settings = add_settings,
    .list_scalars = list_scalars,
    .complete = complete,
};
