/* SPDX-License-Identifier: MIT */
#include "learn/stats.h"

#include "base/clock.h"

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_train_stats *const progress = part;
    gpur_device *const device = context->device;
    void *memory = NULL;
    progress->device = device;
    progress->seen_at = gpur_clock_seconds();
    if (pthread_mutex_init(&progress->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for a learner's progress");
    progress->has_mutex = 1;
    for (int i = 0; i < GPUR_TRAIN_STATS_SLOTS; i++)
        GPUR_TRY(gpur_event_create(device, &progress->copied[i]));
    GPUR_TRY(
        gpur_pinned_alloc(device, GPUR_TRAIN_STATS_SLOTS * sizeof(gpur_train_state), "a learner's progress", &memory));
    progress->slot = memory;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_train_stats *const progress = part;
    gpur_pinned_free(progress->device, progress->slot);
    for (int i = 0; i < GPUR_TRAIN_STATS_SLOTS; i++)
        gpur_event_destroy(progress->copied[i]);
    if (progress->has_mutex)
        pthread_mutex_destroy(&progress->mutex);
}

static int64_t pinned_bytes(const void *part)
{
    (void)part;
    return GPUR_TRAIN_STATS_SLOTS * (int64_t)sizeof(gpur_train_state);
}

const gpur_part gpur_progress_part = {.open = open, .close = close, .pinned_bytes = pinned_bytes};

gpur_status gpur_train_stats_record(gpur_train_stats *progress, gpur_stream *stream, const gpur_train_state *state,
                                    int64_t steps)
{
    pthread_mutex_lock(&progress->mutex);
    const int64_t slot = progress->launches % GPUR_TRAIN_STATS_SLOTS;
    gpur_status status = gpur_copy(stream, &progress->slot[slot], state, sizeof *state);
    if (status == GPUR_OK)
        status = gpur_event_record(progress->copied[slot], stream);
    if (status == GPUR_OK) {
        progress->launches++;
        progress->steps_enqueued += steps;
    }
    pthread_mutex_unlock(&progress->mutex);
    return status;
}

/* The newest state whose copy is done. A state that is being overwritten is not, because its event was recorded
 * again. */
static gpur_train_state newest(const gpur_train_stats *progress)
{
    const int64_t last = progress->launches - 1;
    for (int64_t i = last; i >= 0 && i > last - GPUR_TRAIN_STATS_SLOTS; i--)
        if (gpur_event_done(progress->copied[i % GPUR_TRAIN_STATS_SLOTS]))
            return progress->slot[i % GPUR_TRAIN_STATS_SLOTS];
    return progress->seen;
}

void gpur_train_stats_restore(gpur_train_stats *progress, const gpur_train_state *state, int64_t steps_enqueued)
{
    pthread_mutex_lock(&progress->mutex);
    progress->launches = 0;
    progress->steps_enqueued = steps_enqueued;
    progress->seen = *state;
    progress->seen_at = gpur_clock_seconds();
    pthread_mutex_unlock(&progress->mutex);
}

void gpur_train_stats_read(gpur_train_stats *progress, gpur_train_stats_snapshot *view)
{
    pthread_mutex_lock(&progress->mutex);
    const double now = gpur_clock_seconds();
    const gpur_train_state state = newest(progress);
    const double steps = (double)(state.step - progress->seen.step);
    view->state = state;
    view->steps_enqueued = progress->steps_enqueued;
    view->mean_loss = steps > 0 ? (state.loss_sum - progress->seen.loss_sum) / steps : 0.0;
    view->steps_per_second = now > progress->seen_at ? steps / (now - progress->seen_at) : 0.0;
    progress->seen = state;
    progress->seen_at = now;
    pthread_mutex_unlock(&progress->mutex);
}
