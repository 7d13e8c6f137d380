/* SPDX-License-Identifier: MIT */
/* The files of a DQN learner: gpur_learner_save and gpur_learner_load. */
#include "learn/learner.h"
#include "learn/learner_file.h"
#include "replay/sampler/consumer.h"

#include <math.h>

typedef struct learner_state {
    gpur_train_state train;
    uint64_t act_counter;
    int64_t acts, steps_enqueued;
} learner_state;

#define SCALAR(state, name, type)                                                                                      \
    {                                                                                                                  \
#name, GPUR_SCALAR_##type, &(state)->name                                                                      \
    }
#define STATE_SCALARS(state)                                                                                           \
    {                                                                                                                  \
        SCALAR(&(state)->train, step, U64), SCALAR(&(state)->train, skipped, I64),                                     \
            SCALAR(&(state)->train, target_copies, I64), SCALAR(&(state)->train, invalid_actions, I64),                \
            SCALAR(&(state)->train, beta1_power, F64), SCALAR(&(state)->train, beta2_power, F64),                      \
            SCALAR(&(state)->train, loss_sum, F64), SCALAR(&(state)->train, next_learning_rate, F32),                  \
            SCALAR(&(state)->train, copy_due, I32), SCALAR(&(state)->train, loss, F32),                                \
            SCALAR(&(state)->train, mean_q, F32), SCALAR(&(state)->train, gradient_norm, F32),                         \
            SCALAR(&(state)->train, learning_rate, F32), SCALAR(state, act_counter, U64), SCALAR(state, acts, I64),    \
            SCALAR(state, steps_enqueued, I64),                                                                        \
    }

static gpur_status add_settings(const void *given, gpur_tensors *settings)
{
    const gpur_learner *const learner = given;
    const gpur_dqn_config *const config = &learner->config;
    return gpur_learner_file_add_network(&config->network, &learner->network.params, "", config->optimizer.kind,
                                         settings);
}

/* `scalars` are those of a state. */
static gpur_learner_file file_of(const gpur_learner *learner, const gpur_scalar *scalars, size_t count)
{
    return (gpur_learner_file){.device = learner->device,
                               .kind = "learner",
                               .scalars = scalars,
                               .scalar_count = (int32_t)count,
                               .network_count = 1,
                               .networks = {{gpur_learner_saved_arrays(learner), &learner->network.params}},
                               .add_settings = add_settings,
                               .learner = learner,
                               .text = {&learner->config.network, gpur_network_text_obs(learner->replay), 0.0f}};
}

/* Reads the state after the last launch. Waits for it. */
static gpur_status read_state(gpur_learner *learner, gpur_stream *stream, learner_state *state)
{
    GPUR_TRY(gpur_copy(stream, &state->train, learner->step.optimizer.state, sizeof state->train));
    GPUR_TRY(gpur_stream_sync(stream));
    state->steps_enqueued = (int64_t)state->train.step + state->train.skipped;
    gpur_actor_get_counters(&learner->actor, &state->act_counter, &state->acts);
    return GPUR_OK;
}

static gpur_status save(gpur_learner *learner, gpur_stream *stream, const char *path,
                        const gpur_checkpoint_options *options)
{
    learner_state state;
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    const gpur_learner_file file = file_of(learner, scalars, sizeof scalars / sizeof *scalars);
    GPUR_TRY(read_state(learner, stream, &state));
    GPUR_TRY(gpur_prefix_error(gpur_learner_check_state(learner, &state.train), "%s is not written", path));
    return gpur_learner_file_write(&file, stream, path, options);
}

gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    return gpur_consumer_end(learner->replay, save(learner, stream, path, &options));
}

/* Publishing overwrites the older acting copy, the last array. So the file's older copy is published first, and becomes
 * the older one when the current weights are published. */
static gpur_status enqueue_upload(const gpur_learner_file *file, const gpur_learner_loading *load,
                                  const learner_state *state, gpur_learner *learner, gpur_stream *stream)
{
    gpur_learner_file others = *file;
    const int32_t last = --others.networks[0].arrays.count;
    GPUR_TRY(gpur_learner_file_enqueue_upload(&others, load, stream));
    GPUR_TRY(gpur_optimizer_round(&learner->step.optimizer, stream));
    GPUR_TRY(gpur_actor_publish(&learner->actor, stream, load->host + last * learner->network.params.count));
    GPUR_TRY(gpur_actor_publish(&learner->actor, stream, gpur_learner_acting_weights(learner)));
    return gpur_copy(stream, learner->step.optimizer.state, &state->train, sizeof state->train);
}

/* Waits even after a failure, because enqueued copies read host memory. */
static gpur_status load_opened(gpur_learner_loading *load, gpur_learner *learner, gpur_stream *stream,
                               const gpur_checkpoint_options *options)
{
    learner_state state = {.train = {.finite_loss = NAN}};
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    const gpur_learner_file file = file_of(learner, scalars, sizeof scalars / sizeof *scalars);
    GPUR_TRY(gpur_learner_file_read(&file, load, stream, options));
    const gpur_status status = enqueue_upload(&file, load, &state, learner, stream);
    const gpur_status done = gpur_stream_sync(stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    gpur_train_stats_restore(&learner->train_stats, &state.train, state.steps_enqueued);
    gpur_actor_set_counters(&learner->actor, state.act_counter, state.acts);
    atomic_store(&learner->returns.is_filled, 0); /* files do not have the cache */
    return GPUR_OK;
}

gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_learner_loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_status status = gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream);
    if (status == GPUR_OK)
        status = gpur_consumer_end(learner->replay, load_opened(&load, learner, stream, &options));
    gpur_learner_loading_close(&load, learner->device);
    return status;
}
