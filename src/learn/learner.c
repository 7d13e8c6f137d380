/* SPDX-License-Identifier: MIT */
/* Creates, destroys and trains learners of any algorithm, and reads their statistics. */
#include "learn/learner.h"

#include "base/sized.h"
#include "learn/weights_file.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const gpur_part *part_of(const gpur_learner *learner, int i)
{
    return learner->algorithm->parts[i].part;
}

static void *struct_of(gpur_learner *learner, int i)
{
    return (char *)learner + learner->algorithm->parts[i].offset;
}

static gpur_status open_parts(gpur_learner *learner, const gpur_part_context *context)
{
    for (int i = 0; i < learner->algorithm->part_count; i++) {
        learner->opened = i + 1;
        GPUR_TRY(part_of(learner, i)->open(struct_of(learner, i), context));
    }
    for (int i = 0; i < learner->network_count; i++) {
        learner->opened_stats = i + 1;
        if (!learner->networks[i].shares_weights)
            GPUR_TRY(gpur_train_stats_open(&learner->stats[i], learner->device));
    }
    return GPUR_OK;
}

static void close_parts(gpur_learner *learner)
{
    for (int i = learner->opened_stats - 1; i >= 0; i--)
        if (!learner->networks[i].shares_weights)
            gpur_train_stats_close(&learner->stats[i]);
    for (int i = learner->opened - 1; i >= 0; i--)
        if (part_of(learner, i)->close)
            part_of(learner, i)->close(struct_of(learner, i));
}

static int64_t assign_parts(gpur_learner *learner, void *base)
{
    gpur_arena arena = {base, 0};
    for (int i = 0; i < learner->algorithm->part_count; i++)
        if (part_of(learner, i)->assign)
            part_of(learner, i)->assign(struct_of(learner, i), &arena);
    return arena.used;
}

static gpur_status assign_memory(gpur_learner *learner)
{
    learner->memory_bytes = assign_parts(learner, NULL);
    GPUR_TRY(gpur_memory_alloc(learner->device, learner->memory_bytes, "a learner's weights and activations",
                               &learner->memory));
    assign_parts(learner, learner->memory);
    for (int i = 0; i < learner->algorithm->part_count; i++)
        if (part_of(learner, i)->connect)
            GPUR_TRY(part_of(learner, i)->connect(struct_of(learner, i)));
    return GPUR_OK;
}

static gpur_status reset_network(gpur_learner *learner, const gpur_trained *n, gpur_stream *stream)
{
    float *weights = NULL;
    GPUR_TRY(gpur_weights_alloc(learner->device, &n->network->params, &weights));
    if (n->config)
        gpur_init_weights(&n->network->params, n->config, n->seed, weights);
    else
        weights[0] = n->first;
    const gpur_status status = gpur_optimizer_reset(n->optimizer, stream, weights);
    gpur_weights_free(learner->device, &n->network->params, weights);
    return status;
}

gpur_status gpur_learner_set_first_weights(gpur_learner *learner, gpur_stream *stream)
{
    for (int i = 0; i < learner->network_count; i++)
        GPUR_TRY(reset_network(learner, &learner->networks[i], stream));
    for (int i = 0; i < 2 && learner->acting; i++)
        GPUR_TRY(gpur_policy_enqueue_write(learner->acting, stream, gpur_learner_acting_weights(learner), 0));
    return GPUR_OK;
}

/* Runs one step before it sets the first weights: cuBLAS and cuDNN load their code at their first call, which is not
 * allowed during graph capture. */
static gpur_status start(gpur_learner *learner, gpur_stream *stream)
{
    learner->stream = stream;
    if (learner->step)
        GPUR_TRY(gpur_train_step_warm_up(learner->step, stream));
    GPUR_TRY(gpur_learner_set_first_weights(learner, stream));
    for (int i = 0; i < learner->algorithm->part_count; i++)
        if (part_of(learner, i)->start)
            GPUR_TRY(part_of(learner, i)->start(struct_of(learner, i), stream));
    return gpur_stream_sync(stream);
}

/* Actions that are stored already are not refused. */
static gpur_status limit_actions(gpur_learner *learner, const gpur_part_context *context)
{
    const int32_t actions = context->fields.action_floats > 0 ? GPUR_UNIT_ACTIONS : context->network->num_actions;
    GPUR_TRY(gpur_replay_limit_actions(learner->replay, &learner->action_limit, actions));
    if (!learner->demonstrations)
        return GPUR_OK;
    return gpur_prefix_error(gpur_replay_limit_actions(learner->demonstrations, &learner->demonstration_limit, actions),
                             "demonstrations");
}

/* The first step reads the demonstrations, too. */
static gpur_status begin_start(gpur_learner *learner, gpur_stream **stream)
{
    if (!learner->demonstrations)
        return gpur_learner_begin(learner, stream);
    return gpur_consumer_begin_both(learner->replay, gpur_consumer_without_publishing, learner->demonstrations,
                                    gpur_consumer_without_publishing, stream);
}

static gpur_status end_start(gpur_learner *learner, gpur_status status)
{
    if (!learner->demonstrations)
        return gpur_learner_end(learner, status);
    return gpur_consumer_end_both(learner->replay, learner->demonstrations, status);
}

/* Checks everything first, and then builds. */
static gpur_status build(gpur_learner *learner, const void *config)
{
    gpur_part_context context = {.device = learner->device, .replay = learner->replay};
    gpur_stream *stream = NULL;
    GPUR_TRY(learner->algorithm->build(learner, config, &context));
    learner->step = context.step;
    learner->demonstrations = context.step_config.demonstrations;
    if (learner->replay)
        learner->obs = gpur_network_text_obs(gpur_replay_schema(learner->replay));
    if (!learner->replay)
        GPUR_TRY(gpur_ticket_lock_open(&learner->lock, "a learner"));
    GPUR_TRY(open_parts(learner, &context));
    GPUR_TRY(assign_memory(learner));
    GPUR_TRY(begin_start(learner, &stream));
    GPUR_TRY(end_start(learner, start(learner, stream)));
    return learner->replay ? limit_actions(learner, &context) : GPUR_OK;
}

gpur_status gpur_learner_create_of(const gpur_algorithm *algorithm, gpur_device *device, gpur_replay *replay,
                                   const void *config, gpur_learner **out)
{
    GPUR_REQUIRE(out, "learner, which gets the handle, is NULL");
    *out = NULL;
    GPUR_REQUIRE(replay || algorithm->no_train, "replay is NULL");
    GPUR_REQUIRE(replay || device, "device is NULL");
    device = replay ? gpur_replay_device(replay) : device;
    gpur_learner *const learner = gpur_host_alloc(device, algorithm->bytes);
    if (!learner)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a learner of %zu bytes", algorithm->bytes);
    gpur_device_retain(device);
    learner->algorithm = algorithm;
    learner->device = device;
    learner->replay = replay;
    const gpur_status status = build(learner, config);
    if (status != GPUR_OK) {
        gpur_learner_destroy(learner);
        return status;
    }
    *out = learner;
    return GPUR_OK;
}

void gpur_learner_destroy(gpur_learner *learner)
{
    if (!learner)
        return;
    gpur_device *const device = learner->device;
    if (learner->replay)
        gpur_replay_free_actions(learner->replay, &learner->action_limit);
    if (learner->demonstrations)
        gpur_replay_free_actions(learner->demonstrations, &learner->demonstration_limit);
    if (learner->stream)
        (void)gpur_stream_sync(learner->stream);
    gpur_policy_destroy(learner->acting);
    close_parts(learner);
    if (!learner->replay)
        gpur_ticket_lock_close(&learner->lock);
    gpur_memory_free(device, learner->memory);
    gpur_host_free(device, learner, learner->algorithm->bytes);
    gpur_device_release(device);
}

gpur_status gpur_learner_require(const gpur_learner *learner, const gpur_algorithm *algorithm, const char *call)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->algorithm == algorithm, "%s needs %s; this is %s", call, algorithm->name,
                 learner->algorithm->name);
    return GPUR_OK;
}

gpur_status gpur_learner_begin(gpur_learner *learner, gpur_stream **stream)
{
    if (learner->replay)
        return gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, stream);
    gpur_ticket_lock_lock(&learner->lock);
    *stream = learner->stream;
    return GPUR_OK;
}

gpur_status gpur_learner_end(gpur_learner *learner, gpur_status status)
{
    if (learner->replay)
        return gpur_consumer_end(learner->replay, status);
    gpur_ticket_lock_unlock(&learner->lock);
    return status;
}

const float *gpur_learner_acting_weights(const gpur_learner *learner)
{
    const gpur_optimizer *const optimizer = learner->networks[0].optimizer;
    return learner->acts_with == GPUR_WEIGHTS_TARGET ? optimizer->target : optimizer->weights;
}

int64_t gpur_learner_steps_enqueued(gpur_learner *learner)
{
    return gpur_train_stats_steps_enqueued(&learner->stats[learner->main]);
}

gpur_status gpur_learner_download(gpur_learner *learner, int i, float *weights, int64_t *steps)
{
    const gpur_trained *const n = &learner->networks[i];
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    const int64_t bytes = n->network->params.count * (int64_t)sizeof *weights;
    const gpur_status status = gpur_copy(stream, weights, n->optimizer->weights, bytes);
    *steps = gpur_learner_steps_enqueued(learner);
    return gpur_learner_end(learner, gpur_stream_finish(stream, status));
}

/* Training. */

gpur_status gpur_learner_end_launch(gpur_learner *learner, gpur_stream *stream, int64_t steps)
{
    if (learner->acting)
        GPUR_TRY(gpur_policy_enqueue_write(learner->acting, stream, gpur_learner_acting_weights(learner), 0));
    for (int i = 0; i < learner->network_count; i++)
        GPUR_TRY(gpur_train_stats_record(&learner->stats[i], stream, learner->networks[i].optimizer->state, steps));
    return GPUR_OK;
}

static gpur_status enqueue_steps(gpur_learner *learner, gpur_stream *stream, int64_t steps)
{
    GPUR_TRY(learner->algorithm->train
                 ? learner->algorithm->train(learner, stream, steps)
                 : gpur_train_step_launch(learner->step, stream, gpur_learner_steps_enqueued(learner), steps));
    return gpur_learner_end_launch(learner, stream, steps);
}

/* The launch of train steps that draw `rows` rows of this replay at a time. */
static gpur_consumer_launch launch_of(gpur_replay *replay, int32_t index_source, int64_t rows)
{
    return (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, gpur_sampler_needs(gpur_sampler_of(index_source), rows),
                                  gpur_replay_settings(replay)->min_size};
}

gpur_status gpur_learner_train(gpur_learner *learner, int64_t steps)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->replay, "%s", learner->algorithm->no_train);
    GPUR_REQUIRE(steps >= 0, "steps is %" PRId64 "; it must be 0 or more", steps);
    if (learner->algorithm->check_train)
        GPUR_TRY(learner->algorithm->check_train(learner));
    const gpur_step_config *const config = &learner->step->config;
    gpur_replay *const demonstrations = learner->demonstrations;
    const gpur_consumer_launch launch =
        launch_of(learner->replay, config->index_source, config->batch_size - config->demonstration_rows);
    const gpur_consumer_launch second =
        demonstrations ? launch_of(demonstrations, config->demonstration_source, config->demonstration_rows) : launch;
    for (int64_t done = 0; done < steps; done += GPUR_LAUNCH_STEPS) {
        const int64_t launch_steps = steps - done < GPUR_LAUNCH_STEPS ? steps - done : GPUR_LAUNCH_STEPS;
        gpur_stream *stream = NULL;
        GPUR_TRY(gpur_learner_check_finite(learner));
        GPUR_TRY(gpur_consumer_begin_both(learner->replay, launch, demonstrations, second, &stream));
        GPUR_TRY(gpur_consumer_end_both(learner->replay, demonstrations, enqueue_steps(learner, stream, launch_steps)));
    }
    return GPUR_OK;
}

gpur_status gpur_learner_sync(gpur_learner *learner)
{
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_TRY(gpur_stream_sync(learner->stream));
    return gpur_learner_check_finite(learner);
}

int32_t gpur_learner_math(const gpur_learner *learner)
{
    return learner ? learner->math : -1;
}

/* Statistics. */

static int64_t pinned_bytes(gpur_learner *learner)
{
    int64_t bytes = learner->acting ? atomic_load(&learner->acting->inferences[0].pinned_bytes) : 0;
    for (int i = 0; i < learner->algorithm->part_count; i++)
        if (part_of(learner, i)->pinned_bytes)
            bytes += part_of(learner, i)->pinned_bytes(struct_of(learner, i));
    for (int i = 0; i < learner->network_count; i++)
        bytes += learner->networks[i].shares_weights ? 0 : GPUR_TRAIN_STATS_BYTES;
    return bytes;
}

static int64_t device_bytes(gpur_learner *learner)
{
    const gpur_policy *const acting = learner->acting;
    return learner->memory_bytes +
           (acting ? acting->memory_bytes + atomic_load(&acting->inferences[0].grown_bytes) : 0);
}

gpur_status gpur_learner_get_stats(gpur_learner *learner, gpur_learner_stats *stats)
{
    gpur_train_stats_snapshot networks[GPUR_MAX_NETWORKS];
    gpur_train_state states[GPUR_MAX_NETWORKS];
    gpur_learner_stats known;
    GPUR_REQUIRE(learner && stats, "learner and stats must not be NULL");
    GPUR_TRY(gpur_sized_check(stats, "gpur_learner_stats")); /* first, because reading them begins the next mean */
    memset(&known, 0, sizeof known);
    for (int i = 0; i < learner->network_count; i++)
        if (!learner->networks[i].shares_weights) {
            gpur_train_stats_read(&learner->stats[i], &networks[i]);
            states[i] = networks[i].state;
        }
    const gpur_train_stats_snapshot *const view = &networks[learner->main];
    known.steps = (int64_t)view->state.step;
    known.steps_enqueued = view->steps_enqueued;
    known.skipped = view->state.skipped;
    known.target_copies = view->state.target_copies;
    known.invalid_actions = view->state.invalid_actions;
    known.missing_rows = view->state.missing_rows;
    known.empty_refreshes = view->state.empty_refreshes;
    known.loss = view->state.loss;
    known.mean_loss = (float)view->mean_loss;
    known.mean_q = view->state.mean_q;
    known.gradient_norm = view->state.gradient_norm;
    known.learning_rate = view->state.learning_rate;
    known.policy_loss = known.policy_gradient_norm = known.policy_learning_rate = NAN;
    known.temperature = known.entropy = NAN;
    known.steps_per_second = view->steps_per_second;
    known.device_bytes = device_bytes(learner);
    known.pinned_bytes = pinned_bytes(learner);
    known.actions = learner->acting ? atomic_load(&learner->acting->actions) : 0;
    const int spoiled = gpur_learner_first_spoiled(learner, states);
    known.diverged_at = gpur_learner_spoiled_at(learner, spoiled, &states[spoiled]);
    if (learner->algorithm->add_stats)
        learner->algorithm->add_stats(learner, networks, &known);
    return gpur_sized_write(stats, &known, sizeof known, "gpur_learner_stats");
}

double gpur_learner_newest_loss(gpur_learner *learner)
{
    return (double)gpur_train_stats_newest(&learner->stats[learner->main]).loss;
}
