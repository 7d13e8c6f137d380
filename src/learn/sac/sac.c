/* SPDX-License-Identifier: MIT */
/* Soft actor-critic as an algorithm: settings, and how its learner is built. */
#include "learn/sac/sac.h"

#include "base/sized.h"
#include "learn/action_networks.h"
#include "replay/config.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* clang-format off */
#define DENSE(layer_units) {.kind = GPUR_DENSE, .units = layer_units, .activation = GPUR_RELU}
#define ADAM                                                                                                           \
    {.kind = GPUR_ADAM, .learning_rate = {.first = 3e-4f, .last = 3e-4f}, .beta1 = 0.9f, .beta2 = 0.999f,              \
     .decay = 0.95f, .epsilon = 1e-8f}
/* clang-format on */

gpur_status gpur_sac_config_init(gpur_sac_config *config, uint64_t size)
{
    static const gpur_sac_config defaults = {
        .actor = {.trunk = {DENSE(256), DENSE(256)},
                  .trunk_count = 2,
                  .head = GPUR_HEAD_SQUASHED_GAUSSIAN,
                  .input_scale = 1.0f,
                  .input_layout = GPUR_INPUT_AUTO},
        .critic = {.trunk = {DENSE(256), DENSE(256)},
                   .trunk_count = 2,
                   .head = GPUR_HEAD_Q,
                   .num_actions = 1,
                   .input_scale = 1.0f,
                   .input_layout = GPUR_INPUT_AUTO},
        .actor_optimizer = ADAM,
        .critic_optimizer = ADAM,
        .temperature_optimizer = ADAM,
        .temperature = 1.0f,
        .target_entropy = -1.0f,
        .critics = 2,
        .index_source = GPUR_SOURCE_AUTO,
        .beta = {.first = 0.4f, .last = 0.4f},
        .batch_size = 256,
        .target_period = 1,
        .target_rate = 0.005f,
        .math = GPUR_MATH_FP32,
        .demonstration_ratio = 0.5f,
    };
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_sac_config");
}

/* Seo et al. 2025b, by the defaults of the authors' code. The temperature's decay is PyTorch's default, which that code
 * leaves. */
gpur_status gpur_fast_sac_config_init(gpur_sac_config *config, uint64_t size)
{
    gpur_sac_config fast;
    GPUR_TRY(gpur_sac_config_init(&fast, sizeof fast));
    for (int32_t i = 0; i < 3; i++) {
        fast.actor.trunk[i] = (gpur_layer)DENSE(512 >> i);
        fast.critic.trunk[i] = (gpur_layer)DENSE(768 >> i);
        fast.actor.trunk[i].norm = fast.critic.trunk[i].norm = GPUR_LAYER_NORM;
    }
    fast.actor.trunk_count = fast.critic.trunk_count = 3;
    fast.critic.head = GPUR_HEAD_CATEGORICAL;
    fast.critic.atoms = 101;
    fast.critic.v_min = -20.0f;
    fast.critic.v_max = 20.0f;
    fast.actor_optimizer.beta2 = 0.95f;
    fast.actor_optimizer.weight_decay = 0.001;
    fast.critic_optimizer = fast.temperature_optimizer = fast.actor_optimizer;
    fast.temperature_optimizer.weight_decay = 0.01;
    fast.temperature = 0.001f;
    fast.target_entropy = 0.0f;
    fast.batch_size = 8192;
    fast.target_rate = 0.125f;
    return gpur_sized_init(config, size, &fast, sizeof fast, "gpur_sac_config");
}

static const gpur_learner_part parts[] = {{&gpur_step_part, offsetof(gpur_sac, step)}};

/* A network without layers, whose only number is log alpha. */
static void build_temperature(gpur_sac *sac)
{
    gpur_network *const network = &sac->temperature;
    memset(network, 0, sizeof *network);
    network->head = -1;
    network->params.tensor[0] = (gpur_tensor){.name = "log_alpha", .units = 1, .inputs = 1, .outputs = 1, .is_bias = 1};
    network->params.tensor_count = 1;
    (void)gpur_params_add_group(&network->params, 1);
    sac->learner.networks[GPUR_SAC_TEMPERATURE] = (gpur_trained){.name = "temperature",
                                                                 .file_name = "temperature.",
                                                                 .network = network,
                                                                 .optimizer = &sac->temperature_optimizer,
                                                                 .first = logf(sac->config.temperature),
                                                                 .value_name = "temperature"};
    sac->learner.network_count++;
}

static gpur_status check_config(const gpur_sac_config *config)
{
    GPUR_REQUIRE(config->temperature >= FLT_MIN && config->temperature < INFINITY,
                 "temperature is %g; it must be above 0, and finite", (double)config->temperature);
    GPUR_TRY(gpur_choice_check(config->fixed_temperature, 1, "fixed_temperature", "0 or 1"));
    GPUR_REQUIRE(isfinite(config->target_entropy), "target_entropy is %g; it must be finite",
                 (double)config->target_entropy);
    GPUR_TRY(gpur_prefix_error(gpur_optimizer_check(&config->actor_optimizer), "actor_optimizer"));
    GPUR_TRY(gpur_prefix_error(gpur_optimizer_check(&config->critic_optimizer), "critic_optimizer"));
    return gpur_prefix_error(gpur_optimizer_check(&config->temperature_optimizer), "temperature_optimizer");
}

static gpur_step_config step_config_of(const gpur_sac_config *config)
{
    return (gpur_step_config){
        .batch_size = config->batch_size,
        .index_source = config->index_source,
        .beta = config->beta,
        .huber_delta = 1.0f, /* kappa of quantiles */
        .policy_delay = 1,
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
    gpur_sac *const sac = gpur_sac_of(learner);
    gpur_sac_config *const config = &sac->config;
    GPUR_TRY(gpur_sac_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_sac_config"));
    config->math = gpur_math_decide(learner->device, config->math);
    const gpur_action_networks networks = {
        .needs = "soft actor-critic needs",
        .actor = &sac->actor,
        .critic = &sac->critic,
        .actor_config = &config->actor,
        .critic_config = &config->critic,
        .actor_optimizer = &sac->actor_optimizer,
        .actor_value = "mean entropy",
        .head = GPUR_HEAD_SQUASHED_GAUSSIAN,
        .critics = config->critics,
    };
    GPUR_TRY(check_config(config));
    context->step_config = step_config_of(config);
    context->step = &sac->step;
    GPUR_TRY(gpur_action_networks_build(&networks, learner, context));
    context->actor = &gpur_sac_step_actor;
    context->actor_state = sac;
    build_temperature(sac);
    return GPUR_OK;
}

gpur_status gpur_sac_create(gpur_replay *replay, const gpur_sac_config *config, gpur_learner **learner)
{
    return gpur_learner_create_of(&gpur_algorithm_sac, NULL, replay, config, learner);
}

static void add_stats(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats)
{
    const gpur_train_state *const actor = &networks[GPUR_ACTOR_NETWORK].state;
    const int has_trained = networks[GPUR_SAC_TEMPERATURE].state.step > 0;
    stats->policy_loss = actor->loss;
    stats->policy_gradient_norm = actor->gradient_norm;
    stats->policy_learning_rate = actor->learning_rate;
    stats->entropy = actor->mean_q;
    stats->temperature =
        has_trained ? networks[GPUR_SAC_TEMPERATURE].state.mean_q : gpur_sac_of(learner)->config.temperature;
}

/* The counters of all networks are equal. */
static int32_t list_scalars(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *list)
{
    (void)learner;
    gpur_train_state *const t = &state->train[GPUR_SAC_TEMPERATURE];
    const gpur_scalar more[] = {
        {"actor.loss", GPUR_SCALAR_F32, &state->train[GPUR_ACTOR_NETWORK].loss},
        {"temperature.beta1_power", GPUR_SCALAR_F64, &t->beta1_power},
        {"temperature.beta2_power", GPUR_SCALAR_F64, &t->beta2_power},
        {"temperature.next_learning_rate", GPUR_SCALAR_F32, &t->next_learning_rate},
        {"temperature.value", GPUR_SCALAR_F32, &t->mean_q},
    };
    const int32_t count = gpur_action_networks_list_scalars(state, "actor.entropy", list);
    memcpy(list + count, more, sizeof more);
    return count + (int32_t)(sizeof more / sizeof *more);
}

static void complete(const gpur_learner *learner, gpur_learner_state *state)
{
    (void)learner;
    const gpur_train_state *const c = &state->train[GPUR_CRITIC_NETWORK];
    gpur_train_state *const others[] = {&state->train[GPUR_ACTOR_NETWORK], &state->train[GPUR_SAC_TEMPERATURE]};
    for (int i = 0; i < 2; i++)
        others[i]->step = c->step, others[i]->skipped = c->skipped;
}

const gpur_algorithm gpur_algorithm_sac = {
    .name = "a SAC learner",
    .kind = "sac",
    .bytes = sizeof(gpur_sac),
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .build = build,
    .add_stats = add_stats,
    .list_scalars = list_scalars,
    .complete = complete,
};
