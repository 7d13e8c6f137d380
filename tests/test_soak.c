/* SPDX-License-Identifier: MIT */
/*
 * Everything at once: writers append and overwrite, one thread draws, one trains, one acts. Every number of a row
 * follows from its tag, so a row that mixes two writes shows, in a user's batch and in the learner's private one.
 */
#include "learn/learner.h"
#include "test.h"

#include <pthread.h>

enum { F = 9, ACTIONS = 5, BATCH = 16, WRITERS = 4, CAPACITY = 300, UPDATE = 24, STEPS = 400, LONG_STEPS = 40000 };

typedef struct row {
    float obs[F];
    int32_t action;
    float reward;
    float next_obs[F];
    uint8_t terminated;
} row;

typedef struct soak {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    int64_t steps;
    atomic_int writers, training;
} soak;

/* Tags count modulo 2^20, so that every number is exact in float32, and small enough not to upset the network. */
static row row_of(int64_t count)
{
    const int64_t tag = count % (1 << 20);
    const float unit = (float)tag * 0x1p-20f;
    row r = {.action = (int32_t)(tag % ACTIONS), .reward = -unit, .terminated = tag % 3 == 0};
    for (int f = 0; f < F; f++)
        r.obs[f] = unit + (float)f, r.next_obs[f] = unit - (float)f;
    return r;
}

static int64_t tag_of(const float *obs)
{
    return (int64_t)(obs[0] * 0x1p20f);
}

/* Rows whose parts do not belong together. `pitch`: the distance of observations; gamma x (1 - terminated) follows. */
static int64_t torn(int64_t count, const float *obs, const float *next_obs, int64_t pitch, const int32_t *action,
                    const float *reward, const float *discount)
{
    int64_t wrong = 0;
    for (int64_t b = 0; b < count; b++) {
        const int64_t tag = tag_of(obs + b * pitch);
        const row want = row_of(tag);
        wrong += memcmp(obs + b * pitch, want.obs, sizeof want.obs) != 0 ||
                 memcmp(next_obs + b * pitch, want.next_obs, sizeof want.next_obs) != 0 || action[b] != want.action ||
                 reward[b] != want.reward || (discount[b] == 0.0f) != (want.terminated == 1);
    }
    return wrong;
}

static void *write_rows(void *context)
{
    soak *const s = context;
    gpur_writer *writer = NULL;
    row rows[2 * UPDATE];
    int64_t tag = atomic_fetch_add(&s->writers, 1) * 100003;
    if (gpur_writer_create(s->replay, 1, &writer) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    while (writer && atomic_load(&s->training)) {
        const int64_t count = 1 + tag % (2 * UPDATE);
        for (int64_t i = 0; i < count; i++)
            rows[i] = row_of(tag++);
        if (gpur_writer_append(writer, count, rows, NULL) != GPUR_OK)
            test_fail(__FILE__, __LINE__);
    }
    gpur_writer_destroy(writer);
    return NULL;
}

static void draw_once(soak *s)
{
    gpur_batch *batch = NULL;
    float obs[BATCH * F], next_obs[BATCH * F], reward[BATCH], discount[BATCH];
    int32_t action[BATCH];
    CHECK_OK(gpur_replay_sample(s->replay, BATCH, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
    CHECK_OK(gpur_batch_read(batch, "next_obs", next_obs, sizeof next_obs));
    CHECK_OK(gpur_batch_read(batch, "action", action, sizeof action));
    CHECK_OK(gpur_batch_read(batch, "reward", reward, sizeof reward));
    CHECK_OK(gpur_batch_read(batch, "discount", discount, sizeof discount));
    gpur_batch_release(batch);
    CHECK_EQUAL(torn(BATCH, obs, next_obs, F, action, reward, discount), 0);
}

static void *draw_rows(void *context)
{
    soak *const s = context;
    while (atomic_load(&s->training))
        draw_once(s);
    return NULL;
}

static void *act(void *context)
{
    soak *const s = context;
    while (atomic_load(&s->training)) {
        const row r = row_of(7);
        int32_t action = -1;
        if (gpur_learner_act(s->learner, 1, r.obs, 0.5f, &action, NULL) != GPUR_OK || action < 0 || action >= ACTIONS)
            test_fail(__FILE__, __LINE__);
    }
    return NULL;
}

/* What the last train step was made from. The learner's memory is its own between two launches. */
static void check_private_batch(soak *s)
{
    const gpur_step *const step = &s->learner->step;
    const int64_t pitch = step->online.pitch[0];
    float x[2 * BATCH * 16], reward[BATCH], discount[BATCH];
    int32_t action[BATCH];
    CHECK(pitch <= 16);
    CHECK_OK(gpur_device_copy(s->device, x, step->x, 2 * BATCH * pitch * 4));
    CHECK_OK(gpur_device_copy(s->device, action, step->action, sizeof action));
    CHECK_OK(gpur_device_copy(s->device, reward, step->reward, sizeof reward));
    CHECK_OK(gpur_device_copy(s->device, discount, step->discount, sizeof discount));
    CHECK_EQUAL(torn(BATCH, x, x + BATCH * pitch, pitch, action, reward, discount), 0);
}

static void *train(void *context)
{
    soak *const s = context;
    for (int64_t done = 0; done < s->steps; done += 4) {
        if (gpur_learner_train(s->learner, 4) != GPUR_OK || gpur_learner_sync(s->learner) != GPUR_OK)
            test_fail(__FILE__, __LINE__);
        check_private_batch(s);
    }
    atomic_store(&s->training, 0);
    return NULL;
}

static int open_soak(soak *s, int32_t flush, int32_t feed)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {F}},      {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},   {"next_obs", GPUR_FLOAT32, {F}},
                                 {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config memory;
    gpur_learner_config dqn;
    if (gpur_replay_config_init(&memory, sizeof memory) != GPUR_OK ||
        gpur_learner_config_init(&dqn, sizeof dqn) != GPUR_OK)
        return 0;
    memory.capacity = CAPACITY, memory.fields = fields, memory.field_count = 5, memory.max_batch = 2 * BATCH;
    memory.update_size = UPDATE, memory.flush = flush, memory.feed = feed;
    dqn.network.trunk[0].units = dqn.network.trunk[1].units = 16;
    dqn.network.outputs = ACTIONS, dqn.batch_size = BATCH, dqn.act = GPUR_ACT_PREVIOUS;
    s->device = test_device();
    s->steps = test_is_long() ? LONG_STEPS : STEPS;
    return gpur_replay_create(s->device, &memory, &s->replay) == GPUR_OK &&
           gpur_learner_create(s->replay, &dqn, &s->learner) == GPUR_OK;
}

static void fill(soak *s)
{
    gpur_writer *writer = NULL;
    CHECK_OK(gpur_writer_create(s->replay, 1, &writer));
    for (int64_t tag = 0; tag < CAPACITY; tag++) {
        const row r = row_of(tag);
        CHECK_OK(gpur_writer_append(writer, 1, &r, NULL));
    }
    CHECK_OK(gpur_writer_flush(writer));
    gpur_writer_destroy(writer);
}

static void check_soak(int32_t flush, int32_t feed)
{
    void *(*const roles[])(void *) = {draw_rows, act, train};
    pthread_t threads[WRITERS + 3];
    soak s = {.training = 1};
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK(open_soak(&s, flush, feed));
    fill(&s);
    for (int i = 0; i < WRITERS + 3; i++)
        CHECK(pthread_create(&threads[i], NULL, i < WRITERS ? write_rows : roles[i - WRITERS], &s) == 0);
    for (int i = 0; i < WRITERS + 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_OK(gpur_learner_get_stats(s.learner, &stats));
    CHECK_EQUAL(stats.steps, s.steps);
    CHECK_EQUAL(stats.skipped, 0);
    CHECK(isfinite(stats.loss));
    gpur_learner_destroy(s.learner);
    gpur_replay_destroy(s.replay);
    gpur_device_close(s.device);
}

TEST(no_row_is_torn_while_all_append_draw_train_and_act)
{
    check_soak(GPUR_FLUSH_AUTO, GPUR_FEED_COPY);
    check_soak(GPUR_FLUSH_MANUAL, GPUR_FEED_SCATTER);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(no_row_is_torn_while_all_append_draw_train_and_act);
    return test_main_end();
}
