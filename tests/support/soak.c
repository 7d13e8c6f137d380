/* SPDX-License-Identifier: MIT */
#include "support/soak.h"

#include "base/clock.h"
#include "support/replay_kit.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 4, LEAST_BATCHES = 20, LEAST_STEPS = 40, HELD = 3, PATIENCE = 1200 };

void soak_fail(soak *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&s->mutex);
    if (!s->failure[0])
        vsnprintf(s->failure, sizeof s->failure, format, arguments);
    pthread_mutex_unlock(&s->mutex);
    va_end(arguments);
    atomic_store(&s->over, 1);
}

int soak_ok(soak *s, gpur_status status, const char *call)
{
    if (status != GPUR_OK)
        soak_fail(s, "%s is %s: %s", call, gpur_status_name(status), gpur_last_error());
    return status == GPUR_OK;
}

uint64_t soak_hash(uint64_t before, const void *bytes, size_t count)
{
    uint64_t hash = before ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static int is_ranked(const soak *s)
{
    return s->setting.source == GPUR_PRIORITIZED || s->setting.source == GPUR_PRIORITIZED_PLAIN;
}

static int is_weight(const soak *s, float weight)
{
    return is_ranked(s) ? weight > 0.0f && weight <= 1.0f : weight == 1.0f;
}

static int is_in_order(const int64_t *id, const int64_t *tag, int64_t a, int64_t b)
{
    const int same_source = tag[a] >> 40 == tag[b] >> 40;
    return id[a] == id[b] ? tag[a] == tag[b] : !same_source || (id[a] < id[b]) == (tag[a] < tag[b]);
}

void soak_check_order(soak *s, gpur_batch *batch)
{
    const int64_t count = gpur_batch_count(batch);
    int64_t id[SOAK_BATCH], tag[SOAK_BATCH];
    float weight[SOAK_BATCH];
    if (!soak_ok(s, gpur_batch_read(batch, "id", id, count * 8), "reading id") ||
        !soak_ok(s, gpur_batch_read(batch, "tag", tag, count * 8), "reading tag") ||
        !soak_ok(s, gpur_batch_read(batch, "weight", weight, count * 4), "reading weight"))
        return;
    for (int64_t b = 0; b < count; b++) {
        if (!is_weight(s, weight[b]))
            soak_fail(s, "row %" PRId64 " weighs %.9g", b, (double)weight[b]);
        for (int64_t a = 0; a < b; a++)
            if (!is_in_order(id, tag, a, b))
                soak_fail(s, "ids %" PRId64 ", %" PRId64 " have tags %" PRIx64 ", %" PRIx64, id[a], id[b],
                          (uint64_t)tag[a], (uint64_t)tag[b]);
    }
}

/* What a draw made between two looks at the window may have seen. */
static void check_ids(soak *s, gpur_batch *batch, const gpur_replay_stats *before)
{
    gpur_replay_stats after = {.size = sizeof after};
    const int64_t count = gpur_batch_count(batch);
    int64_t id[SOAK_BATCH];
    if (!soak_ok(s, gpur_replay_get_stats(s->replay, &after), "gpur_replay_get_stats") ||
        !soak_ok(s, gpur_batch_read(batch, "id", id, count * 8), "reading id"))
        return;
    for (int64_t b = 0; b < count; b++)
        if (id[b] < before->first_id || id[b] >= after.first_id + after.visible)
            soak_fail(s, "id %" PRId64 "; the window went from %" PRId64 " to %" PRId64, id[b], before->first_id,
                      after.first_id + after.visible);
}

/* Half of them by id: what is visible may have left by then, and the call is refused. NULL: it was, or there is a
 * failure. */
static gpur_batch *draw(soak *s, int64_t i)
{
    gpur_replay_stats before = {.size = sizeof before};
    gpur_batch *batch = NULL;
    int64_t ids[SOAK_BATCH];
    if (!soak_ok(s, gpur_replay_get_stats(s->replay, &before), "gpur_replay_get_stats"))
        return NULL;
    for (int64_t b = 0; b < SOAK_BATCH; b++)
        ids[b] = before.first_id + (b * 7 + i) % before.visible;
    const gpur_status status = i % 2 ? gpur_replay_gather(s->replay, SOAK_BATCH, ids, NULL, &batch)
                                     : gpur_replay_sample(s->replay, 1 + i / 2 % SOAK_BATCH, NULL, &batch);
    if (i % 2 && status == GPUR_EVICTED)
        return NULL;
    if (!soak_ok(s, status, i % 2 ? "gpur_replay_gather" : "gpur_replay_sample"))
        return NULL;
    check_ids(s, batch, &before);
    return batch;
}

static void look_at(soak *s, gpur_batch *batch)
{
    s->setting.kind->check(s, batch);
    soak_check_order(s, batch);
    atomic_fetch_add(&s->counts.rows, gpur_batch_count(batch));
}

static void rank(soak *s, gpur_batch *batch, int64_t i)
{
    const int64_t count = gpur_batch_count(batch);
    int64_t ids[SOAK_BATCH];
    float priorities[SOAK_BATCH];
    for (int64_t b = 0; b < count; b++)
        priorities[b] = (float)((i + b * 5) % 9);
    if (soak_ok(s, gpur_batch_read(batch, "id", ids, count * 8), "reading id") &&
        soak_ok(s, gpur_replay_update_priorities(s->replay, count, ids, priorities, NULL), "an update of priorities"))
        atomic_fetch_add(&s->counts.ranked, count);
}

/* A batch is looked at when it comes, and again when it goes: what others append meanwhile must not change it. */
static void *draw_batches(void *context)
{
    soak *const s = (soak *)context;
    gpur_batch *held[HELD] = {NULL};
    for (int64_t i = 0; !atomic_load(&s->over); i++) {
        gpur_batch **const batch = &held[i % HELD];
        if (*batch)
            look_at(s, *batch);
        gpur_batch_release(*batch);
        *batch = draw(s, i);
        if (!*batch)
            continue;
        look_at(s, *batch);
        atomic_fetch_add(&s->counts.batches, 1);
        if (is_ranked(s))
            rank(s, *batch, i);
    }
    for (int i = 0; i < HELD; i++)
        gpur_batch_release(held[i]);
    return NULL;
}

/* Mostly without waiting, so that launches are in flight all the time. */
static void *train(void *context)
{
    soak *const s = (soak *)context;
    for (int64_t i = 0; !atomic_load(&s->over); i++) {
        const int64_t steps = 1 + i % 13;
        if (!soak_ok(s, gpur_learner_train(s->learner, steps), "gpur_learner_train"))
            break;
        atomic_fetch_add(&s->counts.steps, steps);
        if (i % 4 == 3 && soak_ok(s, gpur_learner_sync(s->learner), "gpur_learner_sync")) {
            s->setting.kind->check_trained(s);
            atomic_fetch_add(&s->counts.rows, SOAK_BATCH);
        }
    }
    return NULL;
}

static void *act(void *context)
{
    static const float any[64];
    soak *const s = (soak *)context;
    while (!atomic_load(&s->over)) {
        int32_t action = -1;
        if (!soak_ok(s, gpur_learner_act(s->learner, 1, any, 0.5f, &action, NULL), "gpur_learner_act"))
            break;
        if (action < 0 || action >= SOAK_ACTIONS)
            soak_fail(s, "action %d of %d", (int)action, SOAK_ACTIONS);
        atomic_fetch_add(&s->counts.acts, 1);
    }
    return NULL;
}

static void *write_rows(void *context)
{
    soak *const s = (soak *)context;
    s->setting.kind->write(s, atomic_fetch_add(&s->writers, 1));
    return NULL;
}

static gpur_status open_both(soak *s)
{
    gpur_replay_config replay;
    gpur_learner_config learner;
    GPUR_TRY(gpur_replay_config_init(&replay, sizeof replay));
    GPUR_TRY(gpur_learner_config_init(&learner, sizeof learner));
    replay.capacity = SOAK_CAPACITY, replay.update_size = SOAK_UPDATE, replay.max_batch = 2 * SOAK_BATCH;
    replay.index_source = s->setting.source, replay.prioritized = is_ranked(s);
    replay.flush = s->setting.flush, replay.feed = s->setting.feed;
    learner.network.trunk[0].units = learner.network.trunk[1].units = 16;
    learner.network.outputs = SOAK_ACTIONS, learner.batch_size = SOAK_BATCH, learner.act = GPUR_ACT_PREVIOUS;
    learner.index_source = s->setting.source;
    learner.step_kernel = s->setting.step_kernel;
    GPUR_TRY(s->setting.kind->configure(s, &replay, &learner));
    s->gamma = replay.gamma;
    GPUR_TRY(gpur_replay_create(s->device, &replay, &s->replay));
    return gpur_learner_create(s->replay, &learner, &s->learner);
}

/* So that nobody finds too few rows: draws of distinct ones want as many as a batch. */
static gpur_status wait_for_rows(soak *s)
{
    const struct timespec moment = {0, 1000000};
    gpur_replay_stats stats = {.size = sizeof stats};
    while (!atomic_load(&s->over) && stats.visible < SOAK_CAPACITY / 2) {
        nanosleep(&moment, NULL);
        GPUR_TRY(gpur_replay_get_stats(s->replay, &stats));
    }
    return GPUR_OK;
}

static int has_seen_enough(soak *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) != GPUR_OK ||
           (stats.evicted >= ROUNDS * SOAK_CAPACITY && atomic_load(&s->counts.batches) >= LEAST_BATCHES &&
            atomic_load(&s->counts.steps) >= LEAST_STEPS && atomic_load(&s->counts.acts) > 0);
}

static void wait_for_end(soak *s, double seconds)
{
    const struct timespec moment = {0, 10000000};
    const double begin = gpur_clock_seconds();
    while (!atomic_load(&s->over)) {
        const double passed = gpur_clock_seconds() - begin;
        nanosleep(&moment, NULL);
        if (passed >= seconds && has_seen_enough(s))
            break;
        if (passed >= seconds + PATIENCE)
            soak_fail(s, "after %.0f s: %" PRId64 " batches, %" PRId64 " steps, %" PRId64 " acts", passed,
                      atomic_load(&s->counts.batches), atomic_load(&s->counts.steps), atomic_load(&s->counts.acts));
    }
    atomic_store(&s->over, 1);
}

static void run_threads(soak *s, double seconds)
{
    void *(*const roles[])(void *) = {draw_batches, train, act};
    pthread_t threads[SOAK_WRITERS + 3];
    int begun = 0;
    for (; begun < SOAK_WRITERS + 3; begun++) {
        if (begun == SOAK_WRITERS)
            (void)soak_ok(s, wait_for_rows(s), "waiting for rows");
        if (pthread_create(&threads[begun], NULL, begun < SOAK_WRITERS ? write_rows : roles[begun - SOAK_WRITERS], s)) {
            soak_fail(s, "no thread %d", begun);
            break;
        }
    }
    wait_for_end(s, seconds);
    while (begun > 0)
        pthread_join(threads[--begun], NULL);
}

void soak_run(soak *s, gpur_device *device, const soak_case *setting, double seconds)
{
    memset(s, 0, sizeof *s);
    s->setting = *setting;
    s->device = device;
    pthread_mutex_init(&s->mutex, NULL);
    if (soak_ok(s, open_both(s), "making replay and learner"))
        run_threads(s, seconds);
}

void soak_close(soak *s)
{
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
    pthread_mutex_destroy(&s->mutex);
}
