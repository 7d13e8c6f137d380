/* SPDX-License-Identifier: MIT */
/* DQN as an algorithm: how its learner is built, and the calls that other learners have not. */
#include "learn/dqn/dqn.h"

#include "base/sized.h"
#include "learn/demonstrations.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const gpur_learner_part parts[] = {
    {&gpur_return_cache_part, offsetof(gpur_dqn, returns)},
    {&gpur_step_part, offsetof(gpur_dqn, step)},
    {&gpur_fused_step_part, offsetof(gpur_dqn, fused)},
    {&gpur_host_batches_part, offsetof(gpur_dqn, host_batches)},
};

/* With given returns there is no target, and next_obs is not read. */
enum {
    GIVEN_RETURNS = GPUR_WANTS_OBS | GPUR_WANTS_ACTION | GPUR_WANTS_WEIGHT,
    ONE_STEP = GIVEN_RETURNS | GPUR_WANTS_NEXT_OBS | GPUR_WANTS_REWARD | GPUR_WANTS_DISCOUNT,
};

static gpur_step_config step_config_of(const gpur_dqn_config *config, const gpur_part_context *context)
{
    const int has_cache = config->returns.cache_size > 0;
    const int32_t raw = config->returns.storage == GPUR_CACHE_PHYSICAL ? GPUR_WANTS_RAW : 0;
    const int32_t mask = context->fields.next_mask >= 0 ? GPUR_WANTS_NEXT_MASK : 0;
    return (gpur_step_config){
        .wants = has_cache ? GIVEN_RETURNS | raw : ONE_STEP | mask,
        .batch_size = config->batch_size,
        .index_source = config->index_source,
        .beta = config->beta,
        .takes_ids = !has_cache && !gpur_replay_lanes(context->replay),
        .double_dqn = config->double_dqn && !has_cache, /* given returns need no action of next_obs */
        .loss = config->loss,
        .huber_delta = config->huber_delta,
        .policy_delay = 1,
        .target_period = config->target_period,
        .target_copy_first = config->target_copy_first,
        .target_rate = config->target_rate,
        .optimizer = config->optimizer,
        .math = config->math,
        .seed = config->seed,
        .demonstrations = config->demonstrations,
        .demonstration_ratio = config->demonstration_ratio,
    };
}

static gpur_status check_config(gpur_dqn_config *config, gpur_part_context *context)
{
    GPUR_TRY(gpur_returns_config_check(config, context->replay));
    GPUR_TRY(gpur_dqn_config_check(config));
    GPUR_TRY(gpur_learn_masks_check(&context->fields, context->replay, config));
    context->step_config = step_config_of(config, context);
    GPUR_TRY(gpur_step_config_check(&context->step_config, gpur_replay_settings(context->replay)));
    GPUR_TRY(gpur_demonstrations_check(&context->step_config, context->replay, &context->fields));
    config->index_source = context->step_config.index_source;
    return GPUR_OK;
}

/* The fused step computes in FP32, and is chosen before GPUR_MATH_AUTO is anything else. */
static gpur_status build_network(gpur_dqn *dqn, gpur_part_context *context)
{
    gpur_dqn_config *const config = &dqn->config;
    const int32_t math = config->math == GPUR_MATH_AUTO ? GPUR_MATH_FP32 : config->math;
    const gpur_obs_format *const obs = &context->fields.obs_format;
    GPUR_TRY(gpur_learn_fields_find(&context->fields, gpur_replay_schema(context->replay), 0));
    GPUR_TRY(gpur_network_open(&dqn->network, &config->network, obs, 1, context->device, math));
    GPUR_TRY(check_config(config, context));
    context->step_config.math = math;
    GPUR_TRY(gpur_fused_step_choose(context, &config->step_kernel));
    context->step_config.is_fused = config->step_kernel == GPUR_STEP_FUSED;
    if (!context->step_config.is_fused)
        context->step_config.math = gpur_math_decide(context->device, config->math);
    config->math = context->step_config.math;
    return GPUR_OK;
}

static gpur_status open_acting(gpur_dqn *dqn)
{
    const gpur_dqn_config *const config = &dqn->config;
    gpur_policy_config policy;
    GPUR_TRY(gpur_policy_config_init(&policy, sizeof policy));
    policy.network = config->network;
    policy.obs = gpur_network_text_obs(gpur_replay_schema(dqn->learner.replay));
    policy.math = config->math;
    policy.seed = config->seed;
    GPUR_TRY(gpur_policy_create(dqn->learner.device, &policy, &dqn->learner.acting));
    dqn->learner.acting->grows = 1;
    dqn->learner.acting->age = config->act == GPUR_ACT_LATEST ? GPUR_COPY_LATEST : GPUR_COPY_OLDER;
    dqn->learner.acts_with = config->act == GPUR_ACT_TARGET ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE;
    return GPUR_OK;
}

static void list_network(gpur_dqn *dqn)
{
    gpur_learner *const learner = &dqn->learner;
    learner->networks[0] = (gpur_trained){.name = "",
                                          .file_name = "",
                                          .network = &dqn->network,
                                          .config = &dqn->config.network,
                                          .optimizer = &dqn->step.optimizer,
                                          .seed = dqn->config.seed,
                                          .value_name = "mean Q"};
    learner->network_count = 1;
    learner->math = dqn->config.math;
}

static gpur_status build(gpur_learner *learner, const void *given, gpur_part_context *context)
{
    gpur_dqn *const dqn = gpur_dqn_of(learner);
    gpur_dqn_config *const config = &dqn->config;
    GPUR_TRY(gpur_dqn_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_dqn_config"));
    context->cache = config->returns.cache_size != 0 ? &dqn->returns : NULL;
    context->returns = &config->returns;
    context->network = &dqn->network;
    context->network_config = &config->network;
    context->host_batches = config->host_batches;
    context->step = &dqn->step;
    GPUR_TRY(build_network(dqn, context));
    list_network(dqn);
    return open_acting(dqn);
}

gpur_status gpur_dqn_create(gpur_replay *replay, const gpur_dqn_config *config, gpur_learner **learner)
{
    return gpur_learner_create_of(&gpur_algorithm_dqn, NULL, replay, config, learner);
}

/* Training. */

/* Refuses to train from a cache that was never filled. */
static gpur_status check_train(const gpur_learner *learner)
{
    const gpur_return_cache *const cache = &gpur_dqn_of(learner)->returns;
    if (cache->size > 0 && !atomic_load(&cache->is_filled))
        return gpur_fail(GPUR_TOO_FEW,
                         "the cache of returns is empty; gpur_learner_refresh fills its %" PRId64 " entries",
                         cache->size);
    return GPUR_OK;
}

static gpur_status train(gpur_learner *learner, gpur_stream *stream, int64_t steps)
{
    const gpur_dqn *const dqn = gpur_dqn_of(learner);
    return dqn->step.config.is_fused ? gpur_fused_step_enqueue(&dqn->fused, stream, steps)
                                     : gpur_train_step_launch(&dqn->step, stream, 0, steps);
}

/* Requires the consumer lock. */
static gpur_status enqueue_refresh(gpur_learner *learner, gpur_stream *stream)
{
    GPUR_TRY(gpur_return_cache_refresh(&gpur_dqn_of(learner)->returns, stream));
    return gpur_train_stats_record(&learner->stats[0], stream, learner->step->optimizer.state, 0);
}

gpur_status gpur_learner_refresh(gpur_learner *learner)
{
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_learner_refresh"));
    gpur_return_cache *const cache = &gpur_dqn_of(learner)->returns;
    GPUR_REQUIRE(cache->size > 0, "the learner was made with returns.cache_size 0; a refresh needs a cache");
    GPUR_TRY(gpur_learner_check_finite(learner));
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, cache->config.block_length + 1,
                                         gpur_replay_settings(learner->replay)->min_size};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, launch, &stream));
    return gpur_consumer_end(learner->replay, enqueue_refresh(learner, stream));
}

/* Trains on the rows with given ids. Holds the window lock while they are gathered, and no longer: on the CPU the step
 * may be carried out before this returns, and writers would wait for it. */
static gpur_status train_ids(gpur_learner *learner, gpur_stream *stream, const int64_t *ids)
{
    gpur_gather_work work = {&learner->step->by_ids, stream};
    GPUR_TRY(gpur_step_upload_ids(learner->step, stream, ids));
    GPUR_TRY(gpur_with_ids_locked(learner->replay, learner->step->config.batch_size, ids, gpur_gather_locked, &work));
    GPUR_TRY(gpur_graph_launch(learner->step->by_ids.train, stream, 1));
    return gpur_learner_end_launch(learner, stream, 1);
}

gpur_status gpur_learner_train_ids(gpur_learner *learner, const int64_t *ids)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_learner_train_ids"));
    GPUR_REQUIRE(ids, "ids is NULL");
    const int64_t entries = gpur_dqn_of(learner)->returns.size;
    GPUR_REQUIRE(entries == 0,
                 "the learner trains from its cache of %" PRId64 " returns; to train on ids it must have none",
                 entries);
    GPUR_TRY(gpur_replay_refuse_lanes(learner->replay, "training on ids"));
    GPUR_TRY(gpur_consumer_check_ids(learner->replay, learner->step->config.batch_size, ids));
    GPUR_TRY(gpur_learner_check_finite(learner));
    GPUR_TRY(gpur_consumer_begin(learner->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    return gpur_consumer_end(learner->replay, train_ids(learner, stream, ids));
}

/* Acting. */

static gpur_status act(gpur_learner *learner, gpur_inference_call *call, int draws)
{
    int64_t version = 0;
    call->exploration.seed = learner->acting->config.seed;
    GPUR_TRY(gpur_inference_check(&learner->acting->inferences[0], call, GPUR_MAX_ACT_BATCH, ""));
    return gpur_policy_run(learner->acting, call, draws, &version);
}

gpur_status gpur_learner_act(gpur_learner *learner, int64_t count, const void *obs, float epsilon, int32_t *actions,
                             void *stream)
{
    return gpur_learner_act_masked(learner, count, obs, NULL, epsilon, actions, stream);
}

gpur_status gpur_learner_act_masked(gpur_learner *learner, int64_t count, const void *obs, const uint8_t *mask,
                                    float epsilon, int32_t *actions, void *stream)
{
    gpur_inference_call call = {.count = count, .obs = obs, .native = stream, .mask = mask, .actions = actions};
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_learner_act"));
    GPUR_REQUIRE(actions, "actions, which gets the results, is NULL");
    GPUR_TRY(gpur_learner_check_finite(learner));
    call.exploration.epsilon = epsilon;
    return act(learner, &call, 1);
}

gpur_status gpur_learner_q_values(gpur_learner *learner, int64_t count, const void *obs, float *q, void *stream)
{
    gpur_inference_call call = {.count = count, .obs = obs, .native = stream, .q = q};
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_learner_q_values"));
    GPUR_REQUIRE(q, "q, which gets the results, is NULL");
    return act(learner, &call, 0);
}

float gpur_learner_epsilon(gpur_learner *learner, int64_t step)
{
    const int is_dqn = learner && learner->algorithm == &gpur_algorithm_dqn;
    return is_dqn ? gpur_schedule_at(&gpur_dqn_of(learner)->config.exploration, step) : 0.0f;
}

/* Statistics and files. */

static void add_stats(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats)
{
    const gpur_return_cache *const cache = &gpur_dqn_of(learner)->returns;
    (void)networks;
    stats->refreshes = atomic_load(&cache->refreshes);
    stats->cache_bytes = cache->entries_bytes;
}

static int32_t list_scalars(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *list)
{
    (void)learner;
    gpur_train_state *const t = &state->train[0];
    const gpur_scalar scalars[] = {
        {"step", GPUR_SCALAR_U64, &t->step},
        {"skipped", GPUR_SCALAR_I64, &t->skipped},
        {"target_copies", GPUR_SCALAR_I64, &t->target_copies},
        {"invalid_actions", GPUR_SCALAR_I64, &t->invalid_actions},
        {"beta1_power", GPUR_SCALAR_F64, &t->beta1_power},
        {"beta2_power", GPUR_SCALAR_F64, &t->beta2_power},
        {"loss_sum", GPUR_SCALAR_F64, &t->loss_sum},
        {"next_learning_rate", GPUR_SCALAR_F32, &t->next_learning_rate},
        {"copy_due", GPUR_SCALAR_I32, &t->copy_due},
        {"loss", GPUR_SCALAR_F32, &t->loss},
        {"mean_q", GPUR_SCALAR_F32, &t->mean_q},
        {"gradient_norm", GPUR_SCALAR_F32, &t->gradient_norm},
        {"learning_rate", GPUR_SCALAR_F32, &t->learning_rate},
        {"act_counter", GPUR_SCALAR_U64, &state->act_counter},
        {"acts", GPUR_SCALAR_I64, &state->acts},
        {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, &state->steps_enqueued},
    };
    memcpy(list, scalars, sizeof scalars);
    return sizeof scalars / sizeof *scalars;
}

/* Files do not have the cache. */
static void after_load(gpur_learner *learner)
{
    atomic_store(&gpur_dqn_of(learner)->returns.is_filled, 0);
}

const gpur_algorithm gpur_algorithm_dqn = {
    .name = "a DQN learner",
    .kind = "learner",
    .bytes = sizeof(gpur_dqn),
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .build = build,
    .train = train,
    .check_train = check_train,
    .add_stats = add_stats,
    .list_scalars = list_scalars,
    .after_load = after_load,
};
