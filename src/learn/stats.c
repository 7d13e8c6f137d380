/* SPDX-License-Identifier: MIT */
/* The statistics of a network that is trained: states that launches leave, without waiting for them. */
#include "learn/stats.h"

#include "base/clock.h"

#include <math.h>

gpur_status gpur_train_stats_open(gpur_train_stats *stats, gpur_device *device)
{
    void *memory = NULL;
    stats->device = device;
    stats->seen_at = gpur_clock_seconds();
    stats->seen.finite_loss = NAN;
    if (pthread_mutex_init(&stats->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for a learner's stats");
    for (int i = 0; i < GPUR_TRAIN_STATS_SLOTS; i++)
        GPUR_TRY(gpur_event_create(device, &stats->copied[i]));
    GPUR_TRY(gpur_pinned_alloc(device, GPUR_TRAIN_STATS_BYTES, "a learner's stats", &memory));
    stats->slot = memory;
    return GPUR_OK;
}

void gpur_train_stats_close(gpur_train_stats *stats)
{
    gpur_pinned_free(stats->device, stats->slot);
    for (int i = 0; i < GPUR_TRAIN_STATS_SLOTS; i++)
        gpur_event_destroy(stats->copied[i]);
    pthread_mutex_destroy(&stats->mutex);
}

gpur_status gpur_train_stats_record(gpur_train_stats *stats, gpur_stream *stream, const gpur_train_state *state,
                                    int64_t steps)
{
    pthread_mutex_lock(&stats->mutex);
    const int64_t slot = stats->launches % GPUR_TRAIN_STATS_SLOTS;
    gpur_status status = gpur_copy(stream, &stats->slot[slot], state, sizeof *state);
    if (status == GPUR_OK)
        status = gpur_event_record(stats->copied[slot], stream);
    if (status == GPUR_OK) {
        stats->launches++;
        stats->steps_enqueued += steps;
    }
    pthread_mutex_unlock(&stats->mutex);
    return status;
}

/* The newest state whose copy is done. A state that is being overwritten is not, because its event was recorded
 * again. */
static gpur_train_state newest(const gpur_train_stats *stats)
{
    const int64_t last = stats->launches - 1;
    for (int64_t i = last; i >= 0 && i > last - GPUR_TRAIN_STATS_SLOTS; i--)
        if (gpur_event_done(stats->copied[i % GPUR_TRAIN_STATS_SLOTS]))
            return stats->slot[i % GPUR_TRAIN_STATS_SLOTS];
    return stats->seen;
}

gpur_train_state gpur_train_stats_newest(gpur_train_stats *stats)
{
    pthread_mutex_lock(&stats->mutex);
    const gpur_train_state state = newest(stats);
    pthread_mutex_unlock(&stats->mutex);
    return state;
}

void gpur_train_stats_put(gpur_train_stats *stats, const gpur_train_state *state)
{
    pthread_mutex_lock(&stats->mutex);
    stats->slot[stats->launches++ % GPUR_TRAIN_STATS_SLOTS] = *state;
    stats->steps_enqueued++;
    pthread_mutex_unlock(&stats->mutex);
}

int64_t gpur_train_stats_steps_enqueued(gpur_train_stats *stats)
{
    pthread_mutex_lock(&stats->mutex);
    const int64_t steps = stats->steps_enqueued;
    pthread_mutex_unlock(&stats->mutex);
    return steps;
}

void gpur_train_stats_restore(gpur_train_stats *stats, const gpur_train_state *state, int64_t steps_enqueued)
{
    pthread_mutex_lock(&stats->mutex);
    stats->launches = 0;
    stats->steps_enqueued = steps_enqueued;
    stats->seen = *state;
    stats->seen_at = gpur_clock_seconds();
    stats->mean_loss = 0;
    pthread_mutex_unlock(&stats->mutex);
}

/* Returns the mean loss of the steps from `before` to `now`. */
static double mean_loss(const gpur_train_state *before, const gpur_train_state *now, double steps)
{
    if (now->diverged_at > 0)
        return NAN;
    return now->infinite_losses != before->infinite_losses ? INFINITY : (now->loss_sum - before->loss_sum) / steps;
}

void gpur_train_stats_read(gpur_train_stats *stats, gpur_train_stats_snapshot *view)
{
    pthread_mutex_lock(&stats->mutex);
    const double now = gpur_clock_seconds();
    const gpur_train_state state = newest(stats);
    const double steps = (double)(state.step - stats->seen.step);
    view->state = state;
    view->steps_enqueued = stats->steps_enqueued;
    if (steps > 0)
        stats->mean_loss = mean_loss(&stats->seen, &state, steps);
    view->mean_loss = stats->mean_loss;
    view->steps_per_second = now > stats->seen_at ? steps / (now - stats->seen_at) : 0.0;
    stats->seen = state;
    stats->seen_at = now;
    pthread_mutex_unlock(&stats->mutex);
}
