/* SPDX-License-Identifier: MIT */
/* The weights of an actor and a critic by name, and their files. Each call holds the consumer lock, so it comes between
 * two launches. */
#include "learn/dpg/dpg.h"

#include "base/sized.h"
#include "learn/learner_file.h"
#include "learn/weights_file.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int32_t gpur_dpg_weight_count(gpur_dpg *dpg)
{
    return dpg ? dpg->actor.params.tensor_count + dpg->critic.params.tensor_count : 0;
}

gpur_status gpur_dpg_get_weight_info(gpur_dpg *dpg, int32_t index, gpur_weight_info *info)
{
    gpur_weight_info known = {.size = sizeof known};
    GPUR_REQUIRE(dpg && info, "dpg and info must not be NULL");
    GPUR_REQUIRE(index >= 0 && index < gpur_dpg_weight_count(dpg), "index is %" PRId32 "; it must be 0 to %" PRId32,
                 index, gpur_dpg_weight_count(dpg) - 1);
    const int32_t first = dpg->actor.params.tensor_count;
    const gpur_dpg_network owner = gpur_dpg_network_of(dpg, index >= first);
    const gpur_params *const params = &owner.network->params;
    const int32_t i = index >= first ? index - first : index;
    GPUR_TRY(gpur_weight_info_write(params, i, &known));
    snprintf(known.name, sizeof known.name, "%s.%.56s", owner.name, params->tensor[i].name);
    return gpur_sized_write(info, &known, sizeof known, "gpur_weight_info");
}

/* A tensor of a call, found by "actor.NAME" or "critic.NAME". */
typedef struct found {
    gpur_dpg_network owner;
    const gpur_tensor *tensor;
} found;

static gpur_status find(gpur_dpg *dpg, const char *name, const float *values, int64_t count, found *f)
{
    GPUR_REQUIRE(dpg && values, "dpg and values must not be NULL");
    GPUR_REQUIRE(name, "name of the weights is NULL");
    const int which = strncmp(name, "critic.", 7) == 0;
    GPUR_REQUIRE(which || strncmp(name, "actor.", 6) == 0,
                 "no weights are named \"%s\"; their names begin with \"actor.\" or \"critic.\"", name);
    f->owner = gpur_dpg_network_of(dpg, which);
    GPUR_TRY(
        gpur_prefix_error(gpur_params_find(&f->owner.network->params, name + strlen(f->owner.name) + 1, &f->tensor),
                          "%s", f->owner.name));
    GPUR_REQUIRE(count == gpur_tensor_count(f->tensor), "count is %" PRId64 "; \"%s\" has %" PRId64 " numbers", count,
                 name, gpur_tensor_count(f->tensor));
    return GPUR_OK;
}

/* Copies after the last launch, and waits even after a failure, because an enqueued copy uses the caller's memory. */
static gpur_status copy_tensor(gpur_dpg *dpg, float *to, const float *from, int64_t count)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(dpg->replay, gpur_consumer_without_publishing, &stream));
    const gpur_status status = gpur_copy(stream, to, from, count * (int64_t)sizeof *to);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(dpg->replay, status == GPUR_OK ? done : status);
}

gpur_status gpur_dpg_read_weights(gpur_dpg *dpg, int32_t which, const char *name, float *values, int64_t count)
{
    found f;
    GPUR_TRY(find(dpg, name, values, count, &f));
    GPUR_REQUIRE(which >= GPUR_WEIGHTS_ONLINE && which <= GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)", which);
    const gpur_optimizer *const o = f.owner.optimizer;
    const float *const arrays[] = {o->weights, o->target, o->gradient};
    return copy_tensor(dpg, values, arrays[which] + f.tensor->offset, count);
}

gpur_status gpur_dpg_write_weights(gpur_dpg *dpg, int32_t which, const char *name, const float *values, int64_t count)
{
    found f;
    GPUR_TRY(find(dpg, name, values, count, &f));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_TARGET,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written", which);
    GPUR_TRY(gpur_tensor_check_numbers(f.tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    float *const array = which == GPUR_WEIGHTS_ONLINE ? f.owner.optimizer->weights : f.owner.optimizer->target;
    return copy_tensor(dpg, array + f.tensor->offset, values, count);
}

/* Files. */

/* The actor's arrays have the names that a file with one network has, so that policies read them. */
static gpur_saved_arrays arrays_of(const gpur_dpg_network *owner, int which)
{
    static const char *const names[GPUR_DPG_NETWORKS][5] = {
        {"online", "target", "optimizer.square", "optimizer.mean", "optimizer.velocity"},
        {"critic.online", "critic.target", "critic.optimizer.square", "critic.optimizer.mean",
         "critic.optimizer.velocity"}};
    const gpur_optimizer *const o = owner->optimizer;
    float *const memory[] = {o->weights, o->target, o->square, o->mean, o->velocity};
    gpur_saved_arrays arrays = {.count = 0};
    for (int i = 0; i < 5; i++)
        gpur_saved_arrays_add(&arrays, names[which][i], memory[i]);
    return arrays;
}

static gpur_status add_settings(const void *learner, gpur_tensors *settings)
{
    const gpur_dpg *const dpg = learner;
    GPUR_TRY(gpur_learner_file_add_network(&dpg->config.actor, &dpg->actor.params, "", dpg->config.actor_optimizer.kind,
                                           settings));
    return gpur_learner_file_add_network(&dpg->config.critic, &dpg->critic.params, "critic.",
                                         dpg->config.critic_optimizer.kind, settings);
}

/* What changes from step to step besides the arrays. The counters of both networks are equal. */
typedef struct saved_state {
    int64_t steps_enqueued;
    gpur_train_state train[GPUR_DPG_NETWORKS];
} saved_state;

#define SCALAR(owner, state, name, type)                                                                               \
    {                                                                                                                  \
        owner #name, GPUR_SCALAR_##type, &(state)->name                                                                \
    }
#define OPTIMIZER_SCALARS(owner, state)                                                                                \
    SCALAR(owner, state, beta1_power, F64), SCALAR(owner, state, beta2_power, F64),                                    \
        SCALAR(owner, state, next_learning_rate, F32), SCALAR(owner, state, mean_q, F32),                              \
        SCALAR(owner, state, gradient_norm, F32), SCALAR(owner, state, learning_rate, F32)
#define STATE_SCALARS(s)                                                                                               \
    {                                                                                                                  \
        {"steps_enqueued", GPUR_SCALAR_I64, &(s)->steps_enqueued}, SCALAR("", &(s)->train[1], step, U64),              \
            SCALAR("", &(s)->train[1], skipped, I64), SCALAR("", &(s)->train[1], target_copies, I64),                  \
            SCALAR("", &(s)->train[1], copy_due, I32), SCALAR("", &(s)->train[1], loss, F32),                          \
            SCALAR("", &(s)->train[1], loss_sum, F64), OPTIMIZER_SCALARS("actor.", &(s)->train[0]),                    \
            OPTIMIZER_SCALARS("critic.", &(s)->train[1]),                                                              \
    }

/* `scalars` are those of a state. */
static gpur_learner_file file_of(gpur_dpg *dpg, const gpur_scalar *scalars, size_t count)
{
    gpur_learner_file file = {.device = dpg->device,
                              .kind = "dpg",
                              .scalars = scalars,
                              .scalar_count = (int32_t)count,
                              .network_count = GPUR_DPG_NETWORKS,
                              .add_settings = add_settings,
                              .learner = dpg,
                              .text = {&dpg->config.actor, gpur_network_text_obs(dpg->replay), 0.0f}};
    for (int which = 0; which < GPUR_DPG_NETWORKS; which++) {
        const gpur_dpg_network owner = gpur_dpg_network_of(dpg, which);
        file.networks[which].arrays = arrays_of(&owner, which);
        file.networks[which].params = &owner.network->params;
    }
    return file;
}

/* Requires the lock. Waits for the last launch. */
static gpur_status read_state(gpur_dpg *dpg, gpur_stream *stream, saved_state *state)
{
    for (int which = 0; which < GPUR_DPG_NETWORKS; which++)
        GPUR_TRY(gpur_copy(stream, &state->train[which], gpur_dpg_network_of(dpg, which).optimizer->state,
                           sizeof state->train[which]));
    GPUR_TRY(gpur_stream_sync(stream));
    state->steps_enqueued = (int64_t)state->train[1].step + state->train[1].skipped;
    return GPUR_OK;
}

static gpur_status save(gpur_dpg *dpg, gpur_stream *stream, const char *path, const gpur_checkpoint_options *options)
{
    saved_state state;
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    const gpur_learner_file file = file_of(dpg, scalars, sizeof scalars / sizeof *scalars);
    GPUR_TRY(read_state(dpg, stream, &state));
    GPUR_TRY(
        gpur_prefix_error(gpur_dpg_check_states(dpg, &state.train[0], &state.train[1]), "%s is not written", path));
    return gpur_learner_file_write(&file, stream, path, options);
}

gpur_status gpur_dpg_save(gpur_dpg *dpg, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_checkpoint_check_call(dpg, "dpg", path, given, &options));
    GPUR_TRY(gpur_consumer_begin(dpg->replay, gpur_consumer_without_publishing, &stream));
    return gpur_consumer_end(dpg->replay, save(dpg, stream, path, &options));
}

static gpur_status enqueue_upload(const gpur_learner_file *file, const gpur_learner_loading *load,
                                  const saved_state *state, gpur_dpg *dpg, gpur_stream *stream)
{
    GPUR_TRY(gpur_learner_file_enqueue_upload(file, load, stream));
    for (int which = 0; which < GPUR_DPG_NETWORKS; which++)
        GPUR_TRY(gpur_copy(stream, gpur_dpg_network_of(dpg, which).optimizer->state, &state->train[which],
                           sizeof state->train[which]));
    return GPUR_OK;
}

/* Waits even after a failure, because enqueued copies read host memory. */
static gpur_status load_opened(gpur_learner_loading *load, gpur_dpg *dpg, gpur_stream *stream,
                               const gpur_checkpoint_options *options)
{
    saved_state state = {.train = {{.finite_loss = NAN}, {.finite_loss = NAN}}};
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    const gpur_learner_file file = file_of(dpg, scalars, sizeof scalars / sizeof *scalars);
    gpur_train_state *const actor = &state.train[0], *const critic = &state.train[1];
    GPUR_TRY(gpur_learner_file_read(&file, load, stream, options));
    actor->step = critic->step, actor->skipped = critic->skipped;
    actor->target_copies = critic->target_copies, actor->copy_due = critic->copy_due;
    const gpur_status status = enqueue_upload(&file, load, &state, dpg, stream);
    const gpur_status done = gpur_stream_sync(stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    gpur_train_stats_restore(&dpg->actor_stats, actor, state.steps_enqueued);
    gpur_train_stats_restore(&dpg->critic_stats, critic, state.steps_enqueued);
    return GPUR_OK;
}

gpur_status gpur_dpg_load(gpur_dpg *dpg, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_learner_loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(dpg, "dpg", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_status status = gpur_consumer_begin(dpg->replay, gpur_consumer_without_publishing, &stream);
    if (status == GPUR_OK)
        status = gpur_consumer_end(dpg->replay, load_opened(&load, dpg, stream, &options));
    gpur_learner_loading_close(&load, dpg->device);
    return status;
}
