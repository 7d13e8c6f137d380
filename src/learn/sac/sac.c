/* SPDX-License-Identifier: MIT */
/* Soft actor-critic as an algorithm: settings, and how its learner is built. */
#include "learn/sac/sac.h"

#include "base/sized.h"
#include "learn/demonstrations.h"
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

static const gpur_learner_part parts[] = {{&gpur_step_part, offsetof(gpur_sac, step)}};

/* The input of both is obs, as the replay has it. */
static gpur_status build_network(gpur_network *network, const gpur_network_config *config, int32_t head,
                                 int64_t features, int32_t copies)
{
    const gpur_input_shape shape = gpur_input_shape_of(features);
    GPUR_REQUIRE(config->trunk_count == 0 || config->trunk[0].kind != GPUR_CONV,
                 "network.trunk[0] is a convolution (GPUR_CONV); soft actor-critic needs dense layers (GPUR_DENSE)");
    GPUR_TRY(gpur_network_build_copies(network, config, &shape, copies));
    GPUR_REQUIRE(config->head == head, "network.head is %" PRId32 "; it must be %s (%" PRId32 ")", config->head,
                 head == GPUR_HEAD_Q ? "GPUR_HEAD_Q" : "GPUR_HEAD_SQUASHED_GAUSSIAN", head);
    GPUR_REQUIRE(config->input_scale == 1.0f, "network.input_scale is %g; it must be 1", (double)config->input_scale);
    GPUR_REQUIRE(config->input_shift == 0.0f, "network.input_shift is %g; it must be 0", (double)config->input_shift);
    return GPUR_OK;
}

/* A network without layers, whose only number is log alpha. */
static void build_temperature(gpur_network *network)
{
    memset(network, 0, sizeof *network);
    network->head = -1;
    network->params.tensor[0] = (gpur_tensor){.name = "log_alpha", .units = 1, .inputs = 1, .outputs = 1, .is_bias = 1};
    network->params.tensor_count = 1;
    (void)gpur_params_add_group(&network->params, 1);
}

static gpur_status build_networks(gpur_sac *sac, gpur_learn_fields *fields)
{
    const gpur_sac_config *const config = &sac->config;
    const int32_t actions = config->actor.num_actions;
    GPUR_REQUIRE(actions >= 1, "actor: network.num_actions is %" PRId32 "; it must be the size of the action vector",
                 actions);
    GPUR_TRY(gpur_learn_fields_find(fields, gpur_replay_schema(sac->learner.replay), actions));
    GPUR_REQUIRE(fields->obs_format.is_float, "field \"obs\" is uint8; soft actor-critic needs float32");
    GPUR_REQUIRE(config->critic.num_actions == 1,
                 "critic: network.num_actions is %" PRId32 "; it must be 1, the value of an action of the input",
                 config->critic.num_actions);
    GPUR_TRY(gpur_range_check(config->critics, 1, GPUR_MAX_COPIES, "critics"));
    const int64_t features = fields->obs_format.features;
    build_temperature(&sac->temperature);
    GPUR_TRY(gpur_prefix_error(build_network(&sac->actor, &config->actor, GPUR_HEAD_SQUASHED_GAUSSIAN, features, 1),
                               "actor"));
    return gpur_prefix_error(
        build_network(&sac->critic, &config->critic, GPUR_HEAD_Q, features + actions, config->critics), "critic");
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

/* The critics read the batch. */
static gpur_step_config step_config_of(const gpur_sac_config *config)
{
    return (gpur_step_config){
        .wants = GPUR_WANTS_OBS | GPUR_WANTS_NEXT_OBS | GPUR_WANTS_ACTION | GPUR_WANTS_REWARD | GPUR_WANTS_DISCOUNT |
                 GPUR_WANTS_WEIGHT,
        .batch_size = config->batch_size,
        .index_source = config->index_source,
        .beta = config->beta,
        .loss = GPUR_LOSS_SQUARED,
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

/* The names of the actor's arrays, and the critics' seed: as of DPG (dpg/dpg.c). */
static void list_networks(gpur_sac *sac)
{
    gpur_learner *const learner = &sac->learner;
    learner->networks[GPUR_SAC_ACTOR] = (gpur_trained){.name = "actor",
                                                       .file_name = "",
                                                       .network = &sac->actor,
                                                       .config = &sac->config.actor,
                                                       .optimizer = &sac->actor_optimizer,
                                                       .seed = sac->config.seed,
                                                       .value_name = "mean entropy"};
    learner->networks[GPUR_SAC_CRITIC] = (gpur_trained){.name = "critic",
                                                        .file_name = "critic.",
                                                        .network = &sac->critic,
                                                        .config = &sac->config.critic,
                                                        .optimizer = &sac->step.optimizer,
                                                        .seed = ~sac->config.seed,
                                                        .value_name = "mean Q"};
    learner->networks[GPUR_SAC_TEMPERATURE] = (gpur_trained){.name = "temperature",
                                                             .file_name = "temperature.",
                                                             .network = &sac->temperature,
                                                             .optimizer = &sac->temperature_optimizer,
                                                             .first = logf(sac->config.temperature),
                                                             .value_name = "temperature"};
    learner->network_count = 3;
    learner->main = GPUR_SAC_CRITIC;
    learner->math = sac->config.math;
}

static gpur_status build(gpur_learner *learner, const void *given, gpur_part_context *context)
{
    gpur_sac *const sac = gpur_sac_of(learner);
    gpur_sac_config *const config = &sac->config;
    GPUR_TRY(gpur_sac_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_sac_config"));
    config->math = gpur_math_decide(learner->device, config->math);
    GPUR_TRY(build_networks(sac, &context->fields));
    GPUR_TRY(check_config(config));
    context->step_config = step_config_of(config);
    GPUR_TRY(gpur_step_config_check(&context->step_config, gpur_replay_settings(learner->replay)));
    GPUR_TRY(gpur_demonstrations_check(&context->step_config, learner->replay, &context->fields));
    context->network = &sac->critic;
    context->network_config = &config->critic;
    context->step = &sac->step;
    context->actor = &gpur_sac_step_actor;
    context->actor_state = sac;
    list_networks(sac);
    return GPUR_OK;
}

gpur_status gpur_sac_create(gpur_replay *replay, const gpur_sac_config *config, gpur_learner **learner)
{
    return gpur_learner_create_of(&gpur_algorithm_sac, NULL, replay, config, learner);
}

static void add_stats(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats)
{
    const gpur_train_state *const actor = &networks[GPUR_SAC_ACTOR].state;
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
    gpur_train_state *const a = &state->train[GPUR_SAC_ACTOR], *const c = &state->train[GPUR_SAC_CRITIC];
    gpur_train_state *const t = &state->train[GPUR_SAC_TEMPERATURE];
    const gpur_scalar scalars[] = {
        {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, &state->steps_enqueued},
        {"step", GPUR_SCALAR_U64, &c->step},
        {"skipped", GPUR_SCALAR_I64, &c->skipped},
        {"target_copies", GPUR_SCALAR_I64, &c->target_copies},
        {"copy_due", GPUR_SCALAR_I32, &c->copy_due},
        {"loss", GPUR_SCALAR_F32, &c->loss},
        {"loss_sum", GPUR_SCALAR_F64, &c->loss_sum},
        {"actor.beta1_power", GPUR_SCALAR_F64, &a->beta1_power},
        {"actor.beta2_power", GPUR_SCALAR_F64, &a->beta2_power},
        {"actor.next_learning_rate", GPUR_SCALAR_F32, &a->next_learning_rate},
        {"actor.loss", GPUR_SCALAR_F32, &a->loss},
        {"actor.entropy", GPUR_SCALAR_F32, &a->mean_q},
        {"actor.gradient_norm", GPUR_SCALAR_F32, &a->gradient_norm},
        {"actor.learning_rate", GPUR_SCALAR_F32, &a->learning_rate},
        {"critic.beta1_power", GPUR_SCALAR_F64, &c->beta1_power},
        {"critic.beta2_power", GPUR_SCALAR_F64, &c->beta2_power},
        {"critic.next_learning_rate", GPUR_SCALAR_F32, &c->next_learning_rate},
        {"critic.mean_q", GPUR_SCALAR_F32, &c->mean_q},
        {"critic.gradient_norm", GPUR_SCALAR_F32, &c->gradient_norm},
        {"critic.learning_rate", GPUR_SCALAR_F32, &c->learning_rate},
        {"temperature.beta1_power", GPUR_SCALAR_F64, &t->beta1_power},
        {"temperature.beta2_power", GPUR_SCALAR_F64, &t->beta2_power},
        {"temperature.next_learning_rate", GPUR_SCALAR_F32, &t->next_learning_rate},
        {"temperature.value", GPUR_SCALAR_F32, &t->mean_q},
    };
    memcpy(list, scalars, sizeof scalars);
    return sizeof scalars / sizeof *scalars;
}

static void complete(const gpur_learner *learner, gpur_learner_state *state)
{
    (void)learner;
    const gpur_train_state *const c = &state->train[GPUR_SAC_CRITIC];
    gpur_train_state *const others[] = {&state->train[GPUR_SAC_ACTOR], &state->train[GPUR_SAC_TEMPERATURE]};
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
