/* SPDX-License-Identifier: MIT */
/* Creates and destroys runs of Ape-X, reads their statistics, and changes their numbers of actors. */
#include "run/apex/transport/connection.h"
#include "run/apex/handle.h"

#include "base/clock.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row links to at most so many frames that no other row of its block does. */
static int64_t max_frames(const gpur_apex *apex)
{
    enum { MOST = 1048576 };
    const gpur_replay_config *const c = gpur_replay_settings(apex->replay);
    const int64_t of_row = gpur_min(c->frame_stack + c->n_step, 2 * c->frame_stack);
    return c->layout == GPUR_LAYOUT_FRAMES ? gpur_min(apex->config.block_rows * of_row, MOST) : 0;
}

static gpur_status open_format(gpur_apex *apex)
{
    GPUR_TRY(gpur_block_format_of(apex->replay, &apex->format));
    const int64_t block = gpur_block_max_bytes(apex->format, apex->config.block_rows, max_frames(apex));
    apex->max_message = gpur_max(block, GPUR_MESSAGE_TEXT);
    return GPUR_OK;
}

static gpur_apex_networks networks_of(const gpur_learner *learner)
{
    const gpur_trained *const networks = learner->networks;
    return (gpur_apex_networks){.size = sizeof(gpur_apex_networks),
                                .acting = networks[0].config,
                                .critic = learner->network_count > 1 ? networks[1].config : NULL,
                                .critics = learner->network_count > 1 ? networks[1].network->copies : 0};
}

/* Policies on the learner's device, to which its weights are copied: for actors, and for the evaluator. */
static gpur_status open_policies(gpur_apex *apex)
{
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.max_batch = 1;
    config.math = apex->learner->math;
    GPUR_TRY(gpur_actor_policies_open(&apex->policies, apex->learner->device, gpur_replay_schema(apex->replay),
                                      &apex->networks, apex->config.initial_priorities, &config));
    config.network = *apex->networks.acting;
    config.obs = apex->learner->obs;
    return gpur_policy_create(apex->learner->device, &config, &apex->evaluated);
}

static gpur_status open_weights(gpur_apex *apex)
{
    GPUR_TRY(open_policies(apex));
    const int64_t bytes = gpur_actor_policies_bytes(&apex->policies);
    apex->weights = malloc((size_t)bytes);
    if (!apex->weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of weights", bytes);
    return gpur_shared_create(&apex->shared, bytes);
}

static double seconds_of(const _Atomic int64_t *nanoseconds)
{
    return 1e-9 * (double)atomic_load(nanoseconds);
}

/* Adds the counters that actors keep in shared memory: copies of weights, and times. */
static void add_counts(const gpur_apex *apex, gpur_run_stats *stats)
{
    for (int32_t i = 0; i < apex->tables[GPUR_SLOT_OWN].count; i++) {
        const gpur_actor_counts *const c = gpur_shared_counts(&apex->shared, i);
        stats->apex.pulled += atomic_load(&c->pulls);
        stats->env_seconds += seconds_of(&c->env_nanoseconds);
        stats->apex.actor_infer_seconds += seconds_of(&c->infer_nanoseconds);
        stats->apex.actor_wait_seconds += seconds_of(&c->wait_nanoseconds);
        stats->apex.actor_seconds += seconds_of(&c->nanoseconds); /* last, so that it is no less than the parts */
    }
}

/* Remote actors whose blocks the caller brings, heard from in the last minute. */
static int64_t count_heard(const gpur_apex *apex)
{
    const gpur_slot_table *const table = &apex->tables[GPUR_SLOT_CALLER];
    const double since = gpur_clock_seconds() - 60.0;
    int64_t heard = 0;
    for (int32_t i = 0; i < table->count; i++)
        heard += table->slots[i]->heard > 0.0 && table->slots[i]->heard > since;
    return heard;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpur_recent_median(const gpur_recent *recent)
{
    double sorted[GPUR_APEX_RECENT];
    const size_t count = (size_t)gpur_min(recent->count, GPUR_APEX_RECENT);
    memcpy(sorted, recent->values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return count > 0 ? 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]) : (double)NAN;
}

/* Under the lock. */
static void fill_stats(gpur_run *core, gpur_run_stats *stats)
{
    const gpur_apex *const apex = gpur_apex_of(core);
    const gpur_apex_counts *const c = &apex->counts;
    const int is_evaluating = apex->evaluation.state == GPUR_EVALUATION_PLAYED;
    stats->eval_episode = is_evaluating ? atomic_load(&gpur_slot_counts(apex->evaluator)->eval_episode) : 0;
    stats->apex = (gpur_apex_stats){
        .learned = stats->train_steps * apex->limiter.batch,
        .blocks = c->blocks,
        .rows = c->rows,
        .inserted = apex->limiter.inserted,
        .bytes = c->bytes,
        .refused_blocks = c->refused_blocks,
        .lost_blocks = c->lost_blocks,
        .lost_rows = c->lost_rows,
        .starts = c->starts,
        .deaths = c->deaths,
        .actors = apex->running + count_heard(apex),
        .broadcasts = c->broadcasts,
        .pulled = c->pulled,
        .trims = c->trims,
        .limiter_timeouts = c->limiter_timeouts,
        .broadcast_seconds = apex->broadcast_seconds,
        .receive_seconds = apex->receive_seconds,
        .learner_wait_seconds = apex->learner_wait_seconds,
        .weights_age = gpur_recent_median(&apex->ages),
    };
    add_counts(apex, stats);
}

static double loss(gpur_run *core)
{
    return gpur_learner_newest_loss(core->learner);
}

static void destroy(gpur_run *core)
{
    gpur_apex *const apex = gpur_apex_of(core);
    gpur_supervisor_close(apex);
    gpur_shared_close(&apex->shared);
    gpur_actor_policies_close(&apex->policies);
    gpur_policy_destroy(apex->evaluated);
    gpur_block_format_destroy(apex->format);
    gpur_apex_free_config(apex);
    gpur_mutex_close(&apex->policies_lock);
    gpur_mutex_close(&apex->set_lock);
    gpur_run_close(core);
    free(apex->weights);
    free(apex);
}

static const gpur_run_system run_system = {.has_free_learner = 1,
                                           .check_advance = gpur_apex_check_advance,
                                           .advance = gpur_apex_advance,
                                           .evaluate = gpur_apex_evaluate,
                                           .save = gpur_apex_save,
                                           .load = gpur_apex_load,
                                           .fill_stats = fill_stats,
                                           .loss = loss,
                                           .destroy = destroy};

static gpur_status build(gpur_apex *apex, const gpur_run_config *run, const gpur_apex_config *config)
{
    GPUR_TRY(gpur_run_open(&apex->core, &run_system, run));
    GPUR_TRY(gpur_mutex_open(&apex->set_lock, "a run of Ape-X"));
    GPUR_TRY(gpur_mutex_open(&apex->policies_lock, "the weights of a run of Ape-X"));
    GPUR_TRY(gpur_apex_configure(apex, config));
    GPUR_TRY(open_format(apex));
    GPUR_TRY(open_weights(apex));
    apex->base_steps = gpur_learner_steps_enqueued(apex->learner);
    return gpur_supervisor_open(apex);
}

gpur_status gpur_apex_create(gpur_learner *learner, const gpur_run_config *run, const gpur_apex_config *config,
                             gpur_run **out)
{
    GPUR_REQUIRE(out, "handle, which gets the run, is NULL");
    *out = NULL;
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->step, "gpur_apex_create needs a learner of a replay, of DQN, DPG or SAC; this is %s",
                 learner->algorithm->name);
    gpur_apex *const apex = calloc(1, sizeof *apex);
    if (!apex)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *apex);
    apex->learner = apex->core.learner = learner;
    apex->networks = networks_of(learner);
    apex->replay = learner->replay;
    apex->wake[0] = apex->wake[1] = apex->shared.fd = -1;
    const gpur_status status = build(apex, run, config);
    if (status != GPUR_OK) {
        destroy(&apex->core);
        return status;
    }
    *out = &apex->core;
    return GPUR_OK;
}

gpur_status gpur_apex_find(gpur_run *run, gpur_apex **apex)
{
    GPUR_REQUIRE(run, "run is NULL");
    GPUR_REQUIRE(run->system == &run_system, "the run is not one of gpur_apex_create");
    *apex = gpur_apex_of(run);
    return GPUR_OK;
}

gpur_status gpur_apex_set_actors(gpur_run *run, int32_t actors)
{
    gpur_apex *apex = NULL;
    GPUR_TRY(gpur_apex_find(run, &apex));
    GPUR_REQUIRE(actors >= 0 && actors <= GPUR_APEX_MAX_ACTORS, "actors is %d; it must be 0 to %d", (int)actors,
                 GPUR_APEX_MAX_ACTORS);
    gpur_mutex_lock(&apex->set_lock);
    const gpur_status status = gpur_supervisor_set_actors(apex, actors);
    gpur_mutex_unlock(&apex->set_lock);
    return status;
}

/* An own actor's slot, or NULL. Under the lock. */
static const gpur_slot *own_slot(const gpur_apex *apex, int32_t actor)
{
    const gpur_slot_table *const table = &apex->tables[GPUR_SLOT_OWN];
    if (actor == GPUR_APEX_EVALUATOR)
        return apex->evaluator;
    return actor >= 0 && actor < table->count ? table->slots[actor] : NULL;
}

int64_t gpur_apex_actor_process(gpur_run *run, int32_t actor)
{
    gpur_apex *apex = NULL;
    if (gpur_apex_find(run, &apex) != GPUR_OK)
        return -1;
    gpur_mutex_lock(&apex->core.lock);
    const gpur_slot *const slot = own_slot(apex, actor);
    const int64_t process = slot ? slot->process : -1;
    gpur_mutex_unlock(&apex->core.lock);
    return process;
}
