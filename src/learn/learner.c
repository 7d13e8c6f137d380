/* SPDX-License-Identifier: MIT */
/* The public learner: create, destroy, train, act, statistics. */
#include "learn/learner.h"

#include "base/sized.h"
#include "learn/config.h"
#include "learn/network/init.h"
#include "learn/returns/returns_config.h"
#include "replay/finite.h"
#include "replay/sampler/consumer.h"
#include "replay/view.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* The parts, in the order in which the phases walk them; `close` goes backward. */
static const struct {
    const gpur_part *part;
    size_t offset; /* of its struct in gpur_learner */
} parts[] = {
    {&gpur_return_cache_part, offsetof(gpur_learner, returns)},
    {&gpur_step_part, offsetof(gpur_learner, step)},
    {&gpur_fused_step_part, offsetof(gpur_learner, fused)},
    {&gpur_actor_part, offsetof(gpur_learner, actor)},
    {&gpur_train_stats_part, offsetof(gpur_learner, train_stats)},
    {&gpur_host_batches_part, offsetof(gpur_learner, host_batches)},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void *struct_of(gpur_learner *learner, int i)
{
    return (char *)learner + parts[i].offset;
}

static const void *const_struct_of(const gpur_learner *learner, int i)
{
    return (const char *)learner + parts[i].offset;
}

static gpur_status open_parts(gpur_learner *learner, const gpur_part_context *context)
{
    for (int i = 0; i < PARTS; i++) {
        learner->opened = i + 1;
        GPUR_TRY(parts[i].part->open(struct_of(learner, i), context));
    }
    return GPUR_OK;
}

static void close_parts(gpur_learner *learner)
{
    for (int i = learner->opened - 1; i >= 0; i--)
        if (parts[i].part->close)
            parts[i].part->close(struct_of(learner, i));
}

static int64_t assign_parts(gpur_learner *learner, void *base)
{
    gpur_arena arena = {base, 0};
    for (int i = 0; i < PARTS; i++)
        if (parts[i].part->assign)
            parts[i].part->assign(struct_of(learner, i), &arena);
    return arena.used;
}

static gpur_status assign_memory(gpur_learner *learner)
{
    learner->memory_bytes = assign_parts(learner, NULL);
    GPUR_TRY(gpur_memory_alloc(learner->device, learner->memory_bytes, "a learner's weights and activations",
                               &learner->memory));
    assign_parts(learner, learner->memory);
    return GPUR_OK;
}

static gpur_status connect_parts(gpur_learner *learner)
{
    for (int i = 0; i < PARTS; i++)
        if (parts[i].part->connect)
            GPUR_TRY(parts[i].part->connect(struct_of(learner, i)));
    return GPUR_OK;
}

static gpur_status start_parts(gpur_learner *learner, gpur_stream *stream)
{
    for (int i = 0; i < PARTS; i++)
        if (parts[i].part->start)
            GPUR_TRY(parts[i].part->start(struct_of(learner, i), stream));
    return GPUR_OK;
}

gpur_saved_arrays gpur_learner_saved_arrays(const gpur_learner *learner)
{
    gpur_saved_arrays arrays = {.count = 0};
    for (int i = 0; i < PARTS; i++)
        if (parts[i].part->save)
            parts[i].part->save(const_struct_of(learner, i), &arrays);
    return arrays;
}

/* Sets the initial weights in the optimizer, the target network and both acting copies, and resets moments and
 * counters. */
static gpur_status set_first_weights(gpur_learner *learner, gpur_stream *stream)
{
    const size_t bytes = (size_t)learner->network.params.count * sizeof(float);
    float *const weights = gpur_host_alloc(learner->device, bytes);
    if (!weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of initial weights", bytes);
    gpur_init_weights(&learner->network.params, &learner->config.network, learner->config.seed, weights);
    gpur_status status = gpur_optimizer_reset(&learner->step.optimizer, stream, weights);
    gpur_host_free(learner->device, weights, bytes);
    for (int i = 0; i < 2 && status == GPUR_OK; i++)
        status = gpur_actor_publish(&learner->actor, stream, gpur_learner_acting_weights(learner));
    return status;
}

/* Runs one step before it sets the initial weights: cuBLAS and cuDNN load their code at their first call, which is not
 * allowed during graph capture. */
static gpur_status start(gpur_learner *learner, gpur_stream *stream)
{
    GPUR_TRY(gpur_train_step_warm_up(&learner->step, stream));
    GPUR_TRY(set_first_weights(learner, stream));
    GPUR_TRY(start_parts(learner, stream));
    return gpur_stream_sync(stream);
}

/* Checks everything first, and then builds. */
static gpur_status build(gpur_learner *learner, gpur_replay *replay, const gpur_dqn_config *given)
{
    gpur_learn_fields fields;
    gpur_dqn_config *const config = &learner->config;
    GPUR_TRY(gpur_dqn_config_init(config, sizeof *config));
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_dqn_config"));
    GPUR_TRY(gpur_learn_fields_find(&fields, gpur_replay_schema(replay), 0));
    GPUR_TRY(gpur_input_layout_resolve(&fields.obs_format, &config->network));
    const gpur_input_shape input_shape = gpur_input_shape_find(&fields.obs_format, &config->network);
    const gpur_part_context context = {
        .device = learner->device,
        .replay = replay,
        .network = &learner->network,
        .config = config,
        .fields = &fields,
        .step = &learner->step,
        .algorithm = config->returns.cache_size != 0 ? &gpur_algorithm_returns : &gpur_algorithm_dqn,
        .cache = config->returns.cache_size != 0 ? &learner->returns : NULL,
    };
    GPUR_TRY(gpur_network_check(&config->network, &input_shape));
    GPUR_TRY(gpur_returns_config_check(config, replay));
    GPUR_TRY(gpur_dqn_config_check(config, gpur_replay_settings(replay)));
    GPUR_TRY(gpur_network_build(&learner->network, &config->network, &input_shape));
    const int32_t math = config->math;
    if (math == GPUR_MATH_AUTO)
        config->math = GPUR_MATH_FP32; /* the one of a step that is one kernel */
    gpur_network_choose_bf16(&learner->network, learner->device, config->math);
    GPUR_TRY(gpur_fused_step_choose(&context, &config->step_kernel));
    if (config->step_kernel != GPUR_STEP_FUSED)
        config->math = gpur_math_decide(learner->device, math);
    GPUR_TRY(open_parts(learner, &context));
    GPUR_TRY(assign_memory(learner));
    GPUR_TRY(connect_parts(learner));
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_without_publishing, &learner->stream));
    return gpur_consumer_end(learner->replay, start(learner, learner->stream));
}

gpur_status gpur_dqn_create(gpur_replay *replay, const gpur_dqn_config *config, gpur_learner **out)
{
    GPUR_REQUIRE(out, "learner, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    gpur_device *const device = gpur_replay_device(replay);
    gpur_learner *const learner = gpur_host_alloc(device, sizeof *learner);
    if (!learner)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a learner of %zu bytes", sizeof *learner);
    gpur_device_retain(device);
    learner->replay = replay;
    learner->device = device;
    const gpur_status status = build(learner, replay, config);
    if (status != GPUR_OK) {
        gpur_learner_destroy(learner);
        return status;
    }
    (void)gpur_replay_limit_actions(replay, &learner->action_limit,
                                    learner->config.network.num_actions); /* which refuses nothing stored */
    *out = learner;
    return GPUR_OK;
}

void gpur_learner_destroy(gpur_learner *learner)
{
    if (!learner)
        return;
    gpur_device *const device = learner->device;
    gpur_replay_free_actions(learner->replay, &learner->action_limit);
    if (learner->stream)
        (void)gpur_stream_sync(learner->stream);
    close_parts(learner);
    gpur_memory_free(device, learner->memory);
    gpur_host_free(device, learner, sizeof *learner);
    gpur_device_release(device);
}

/* Requires the consumer lock. Enqueues `steps` train steps, by a graph or, if that is NULL, by the fused step, and then
 * what ends every launch: the weights for acting, and the statistics. */
static gpur_status enqueue_steps(gpur_learner *learner, gpur_stream *stream, gpur_graph *graph, int64_t steps)
{
    GPUR_TRY(graph ? gpur_graph_launch(graph, stream, steps) : gpur_fused_step_enqueue(&learner->fused, stream, steps));
    GPUR_TRY(gpur_actor_publish(&learner->actor, stream, gpur_learner_acting_weights(learner)));
    return gpur_train_stats_record(&learner->train_stats, stream, learner->step.optimizer.state, steps);
}

/* Refuses to train from a cache that was never filled. */
static gpur_status check_cache(gpur_learner *learner)
{
    if (learner->returns.size > 0 && !atomic_load(&learner->returns.is_filled))
        return gpur_fail(GPUR_TOO_FEW,
                         "the cache of returns is empty; gpur_learner_refresh fills its %" PRId64 " entries",
                         learner->returns.size);
    return GPUR_OK;
}

gpur_status gpur_learner_check_state(gpur_learner *learner, const gpur_train_state *state)
{
    return gpur_train_state_check(state, &learner->config.optimizer,
                                  &gpur_replay_settings(learner->replay)->reward_clip, "");
}

gpur_status gpur_learner_check_finite(gpur_learner *learner)
{
    const gpur_train_state state = gpur_train_stats_newest(&learner->train_stats);
    return gpur_learner_check_state(learner, &state);
}

gpur_status gpur_learner_train(gpur_learner *learner, int64_t steps)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(steps >= 0, "steps is %" PRId64 "; it must be 0 or more", steps);
    GPUR_TRY(check_cache(learner));
    const gpur_sampler *const sampler = gpur_sampler_of(learner->config.index_source);
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, gpur_sampler_needs(sampler, learner->config.batch_size),
                                         gpur_replay_settings(learner->replay)->min_size};
    for (int64_t done = 0; done < steps; done += GPUR_LAUNCH_STEPS) {
        const int64_t launch_steps = steps - done < GPUR_LAUNCH_STEPS ? steps - done : GPUR_LAUNCH_STEPS;
        gpur_stream *stream = NULL;
        GPUR_TRY(gpur_learner_check_finite(learner));
        GPUR_TRY(gpur_consumer_begin(learner->replay, launch, &stream));
        GPUR_TRY(gpur_consumer_end(learner->replay,
                                   enqueue_steps(learner, stream, learner->step.sampled.train, launch_steps)));
    }
    return GPUR_OK;
}

/* Requires the consumer lock. */
static gpur_status enqueue_refresh(gpur_learner *learner, gpur_stream *stream)
{
    GPUR_TRY(gpur_return_cache_refresh(&learner->returns, stream));
    return gpur_train_stats_record(&learner->train_stats, stream, learner->step.optimizer.state, 0);
}

gpur_status gpur_learner_refresh(gpur_learner *learner)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    gpur_return_cache *const cache = &learner->returns;
    GPUR_REQUIRE(cache->size > 0, "the learner was made with returns.cache_size 0; a refresh needs a cache");
    GPUR_TRY(gpur_learner_check_finite(learner));
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, cache->config.block_length + 1,
                                         gpur_replay_settings(learner->replay)->min_size};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, launch, &stream));
    return gpur_consumer_end(learner->replay, enqueue_refresh(learner, stream));
}

/* Training on the rows with given ids. */
typedef struct ids_request {
    gpur_learner *learner;
    gpur_stream *stream;
} ids_request;

static gpur_status gather_locked(void *context)
{
    const ids_request *const r = context;
    return gpur_batch_source_gather(&r->learner->step.by_ids, r->stream);
}

/* Holds the window lock while the rows are gathered, and no longer: on the CPU the step may be carried out before this
 * returns, and writers would wait for it. */
static gpur_status train_ids(gpur_learner *learner, gpur_stream *stream, const int64_t *ids)
{
    ids_request request = {learner, stream};
    GPUR_TRY(gpur_step_upload_ids(&learner->step, stream, ids));
    GPUR_TRY(gpur_with_ids_locked(learner->replay, learner->config.batch_size, ids, gather_locked, &request));
    return enqueue_steps(learner, stream, learner->step.by_ids.train, 1);
}

gpur_status gpur_learner_train_ids(gpur_learner *learner, const int64_t *ids)
{
    gpur_stream *stream = NULL;
    GPUR_REQUIRE(learner && ids, "learner and ids must not be NULL");
    GPUR_REQUIRE(learner->returns.size == 0,
                 "the learner trains from its cache of %" PRId64 " returns; to train on ids it must have none",
                 learner->returns.size);
    GPUR_TRY(gpur_replay_refuse_lanes(learner->replay, "training on ids"));
    GPUR_TRY(gpur_consumer_check_ids(learner->replay, learner->config.batch_size, ids));
    GPUR_TRY(gpur_learner_check_finite(learner));
    GPUR_TRY(gpur_consumer_begin(learner->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    return gpur_consumer_end(learner->replay, train_ids(learner, stream, ids));
}

gpur_status gpur_learner_sync(gpur_learner *learner)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_TRY(gpur_stream_sync(learner->stream));
    return gpur_learner_check_finite(learner);
}

gpur_status gpur_learner_act(gpur_learner *learner, int64_t count, const void *obs, float epsilon, int32_t *actions,
                             void *stream)
{
    gpur_inference_call call = {.count = count, .obs = obs, .native = stream, .actions = actions};
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_TRY(gpur_learner_check_finite(learner));
    call.exploration.epsilon = epsilon;
    return gpur_actor_choose(&learner->actor, &call);
}

gpur_status gpur_learner_q_values(gpur_learner *learner, int64_t count, const void *obs, float *q, void *stream)
{
    const gpur_inference_call call = {.count = count, .obs = obs, .native = stream, .q = q};
    GPUR_REQUIRE(learner, "learner is NULL");
    return gpur_actor_values(&learner->actor, &call);
}

float gpur_learner_epsilon(gpur_learner *learner, int64_t step)
{
    return learner ? gpur_schedule_at(&learner->config.exploration, step) : 0.0f;
}

static int64_t pinned_bytes(const gpur_learner *learner)
{
    int64_t bytes = 0;
    for (int i = 0; i < PARTS; i++)
        if (parts[i].part->pinned_bytes)
            bytes += parts[i].part->pinned_bytes(const_struct_of(learner, i));
    return bytes;
}

int32_t gpur_learner_math(const gpur_learner *learner)
{
    return learner ? learner->config.math : -1;
}

gpur_status gpur_learner_get_stats(gpur_learner *learner, gpur_learner_stats *stats)
{
    gpur_train_stats_snapshot view;
    gpur_learner_stats known;
    GPUR_REQUIRE(learner && stats, "learner and stats must not be NULL");
    GPUR_TRY(gpur_sized_check(stats, "gpur_learner_stats")); /* first, because reading them begins the next mean */
    memset(&known, 0, sizeof known);
    gpur_train_stats_read(&learner->train_stats, &view);
    known.steps = (int64_t)view.state.step;
    known.steps_enqueued = view.steps_enqueued;
    known.skipped = view.state.skipped;
    known.target_copies = view.state.target_copies;
    known.invalid_actions = view.state.invalid_actions;
    known.missing_rows = view.state.missing_rows;
    known.empty_refreshes = view.state.empty_refreshes;
    known.refreshes = atomic_load(&learner->returns.refreshes);
    known.cache_bytes = learner->returns.entries_bytes;
    known.loss = view.state.loss;
    known.mean_loss = (float)view.mean_loss;
    known.mean_q = view.state.mean_q;
    known.gradient_norm = view.state.gradient_norm;
    known.learning_rate = view.state.learning_rate;
    known.steps_per_second = view.steps_per_second;
    known.device_bytes = learner->memory_bytes + atomic_load(&learner->actor.inference.grown_bytes);
    known.pinned_bytes = pinned_bytes(learner);
    known.actions = atomic_load(&learner->actor.chosen);
    known.diverged_at = (int64_t)view.state.diverged_at;
    return gpur_sized_write(stats, &known, sizeof known, "gpur_learner_stats");
}

/* Training on batches in host memory. */

static gpur_status check(const gpur_learner *learner)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->host_batches.count > 0,
                 "the learner was made with host_batches 0; rows in RAM need 1 to %d of them", GPUR_MAX_HOST_BATCHES);
    return GPUR_OK;
}

gpur_status gpur_learner_acquire_host_batch(gpur_learner *learner, void **rows)
{
    int32_t index = 0;
    GPUR_REQUIRE(rows, "rows, which gets the buffer, is NULL");
    *rows = NULL;
    GPUR_TRY(check(learner));
    GPUR_TRY(gpur_host_batches_acquire(&learner->host_batches, &index));
    *rows = gpur_host_batches_buffer(&learner->host_batches, index);
    return GPUR_OK;
}

gpur_status gpur_learner_release_host_batch(gpur_learner *learner, void *rows)
{
    int32_t index = 0;
    GPUR_TRY(check(learner));
    GPUR_REQUIRE(rows, "rows is NULL; it must be a buffer of gpur_learner_acquire_host_batch");
    GPUR_TRY(gpur_host_batches_find(&learner->host_batches, rows, &index));
    GPUR_REQUIRE(index >= 0, "rows is %p, which is none of the host batches", rows);
    gpur_host_batches_release(&learner->host_batches, index);
    return GPUR_OK;
}

static gpur_status enqueue(gpur_learner *learner, gpur_stream *stream, int32_t index)
{
    gpur_graph *graph = NULL;
    GPUR_TRY(gpur_host_batches_upload(&learner->host_batches, index, stream, &graph));
    return enqueue_steps(learner, stream, graph, 1);
}

static gpur_status check_finite(const gpur_learner *learner, const void *rows)
{
    const gpur_schema *const schema = gpur_replay_schema(learner->replay);
    if (!gpur_replay_settings(learner->replay)->check_finite)
        return GPUR_OK;
    return gpur_check_rows_finite(schema, rows, learner->config.batch_size, schema->row_bytes, GPUR_INVALID_ARGUMENT);
}

/* The launch needs no visible rows: the contents of the replay do not matter. */
static gpur_status train(gpur_learner *learner, int32_t index)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    return gpur_consumer_end(learner->replay, enqueue(learner, stream, index));
}

gpur_status gpur_learner_train_host_batch(gpur_learner *learner, const void *rows)
{
    int32_t index = 0;
    GPUR_TRY(check(learner));
    GPUR_REQUIRE(rows, "rows is NULL; it must be (batch_size, row_bytes) in host memory");
    GPUR_TRY(gpur_host_batches_find(&learner->host_batches, rows, &index));
    if (index < 0)
        GPUR_TRY(gpur_host_batches_acquire_copy(&learner->host_batches, rows, &index));
    gpur_status status = gpur_learner_check_finite(learner);
    if (status == GPUR_OK)
        status = check_finite(learner, rows);
    if (status == GPUR_OK)
        status = train(learner, index);
    gpur_host_batches_release(&learner->host_batches, index);
    return status;
}
