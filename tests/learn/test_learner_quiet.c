/* SPDX-License-Identifier: MIT */
/* Calls on a learner that leave the replay alone: refused ones, and those that only read or train on rows in RAM. And
 * the one that must not train on a row that is leaving. */
#include "test.h"

#include <pthread.h>

enum { CAPACITY = 64, UPDATE = 8, BATCH = 4 };

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {2}},
                                    {"terminated", GPUR_BOOL, {0}}};

typedef struct row {
    float obs[2];
    int32_t action;
    float reward, next_obs[2];
    uint8_t terminated;
} row;

static const row rich = {{1, 1}, 1, 1000, {1, 1}, 1};

typedef struct quiet {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_learner_config config;
} quiet;

static gpur_status append(gpur_writer *writer, int64_t count)
{
    row rows[UPDATE];
    for (int64_t i = 0; i < count; i++)
        rows[i] = rich;
    return gpur_writer_append(writer, count, rows, NULL);
}

static void quiet_open(quiet *q, int64_t capacity, int32_t flush, int64_t batch)
{
    gpur_replay_config config;
    q->device = test_device();
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = capacity, config.fields = fields, config.field_count = 5;
    config.update_size = UPDATE, config.max_batch = UPDATE, config.flush = flush;
    CHECK_OK(gpur_replay_create(q->device, &config, &q->replay));
    CHECK_OK(gpur_writer_create(q->replay, 1, &q->writer));
    for (int64_t i = 0; i < capacity / UPDATE; i++)
        CHECK_OK(append(q->writer, UPDATE));
    CHECK_OK(gpur_learner_config_init(&q->config, sizeof q->config));
    q->config.network.outputs = 2, q->config.batch_size = batch, q->config.host_batches = 1;
    q->config.optimizer.learning_rate.first = q->config.optimizer.learning_rate.last = 0;
    CHECK_OK(gpur_learner_create(q->replay, &q->config, &q->learner));
}

static void quiet_close(quiet *q)
{
    gpur_learner_destroy(q->learner);
    gpur_writer_destroy(q->writer);
    gpur_replay_destroy(q->replay);
    gpur_device_close(q->device);
}

static void read_weights(quiet *q)
{
    gpur_weight_info info = {.size = sizeof info};
    float values[1024];
    CHECK_OK(gpur_learner_weight(q->learner, 1, &info));
    CHECK_OK(gpur_learner_read_weights(q->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
    CHECK_OK(gpur_learner_write_weights(q->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
}

static void train_rows(quiet *q)
{
    const row rows[BATCH] = {rich, rich, rich, rich};
    CHECK_OK(gpur_learner_train_rows(q->learner, rows));
}

static void make_another(quiet *q)
{
    gpur_learner *other = NULL;
    CHECK_OK(gpur_learner_create(q->replay, &q->config, &other));
    gpur_learner_destroy(other);
}

static void train_on_nothing(quiet *q)
{
    const int64_t ids[BATCH] = {-1, -1, -1, -1};
    CHECK_STATUS(gpur_learner_train_on(q->learner, ids), GPUR_INVALID_ARGUMENT);
}

/* A block that overwrites rows waits for the draw after the next: none of these is that draw. */
TEST(calls_that_draw_nothing_publish_nothing)
{
    void (*const calls[])(quiet *) = {read_weights, train_rows, make_another, train_on_nothing};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        gpur_replay_stats before = {.size = sizeof before}, after = {.size = sizeof after};
        gpur_batch *batch = NULL;
        quiet q;
        quiet_open(&q, CAPACITY, GPUR_FLUSH_MANUAL, BATCH);
        CHECK_OK(gpur_replay_sample(q.replay, BATCH, NULL, &batch));
        gpur_batch_release(batch);
        CHECK_OK(append(q.writer, UPDATE));
        CHECK_OK(gpur_replay_get_stats(q.replay, &before));
        CHECK_EQUAL(before.visible, CAPACITY - UPDATE);
        calls[i](&q);
        CHECK_OK(gpur_replay_get_stats(q.replay, &after));
        CHECK_EQUAL(after.visible, before.visible);
        CHECK_EQUAL(after.published, before.published);
        quiet_close(&q);
    }
}

TEST(refused_statistics_begin_no_new_mean)
{
    gpur_learner_stats stats = {.size = 1};
    quiet q;
    quiet_open(&q, CAPACITY, GPUR_FLUSH_AUTO, BATCH);
    CHECK_OK(gpur_learner_train(q.learner, 5));
    CHECK_OK(gpur_learner_sync(q.learner));
    CHECK_STATUS(gpur_learner_get_stats(q.learner, &stats), GPUR_INVALID_ARGUMENT);
    stats.size = sizeof stats;
    CHECK_OK(gpur_learner_get_stats(q.learner, &stats));
    CHECK(stats.mean_loss > 0);
    quiet_close(&q);
}

static atomic_int stop;

/* `context` is the replay. */
static void *feed(void *context)
{
    gpur_writer *writer = NULL;
    gpur_status status = gpur_writer_create(context, 1, &writer);
    while (status == GPUR_OK && !atomic_load(&stop))
        status = append(writer, 1);
    if (status != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    return NULL;
}

/* Every row has a reward of 1000 and ends its episode, so a step that found its row has a loss. */
TEST(a_step_on_ids_never_trains_on_a_row_that_has_left)
{
    const int steps = test_is_long() ? 40000 : 3000;
    int64_t accepted = 0, lost = 0;
    pthread_t thread;
    quiet q;
    quiet_open(&q, 1024, GPUR_FLUSH_AUTO, 1);
    atomic_store(&stop, 0);
    CHECK(pthread_create(&thread, NULL, feed, q.replay) == 0);
    for (int i = 0; i < steps; i++) {
        gpur_replay_stats replay = {.size = sizeof replay};
        gpur_learner_stats learner = {.size = sizeof learner};
        CHECK_OK(gpur_replay_get_stats(q.replay, &replay));
        const int64_t id = replay.first_id + 3 + i % 30;
        if (gpur_learner_train_on(q.learner, &id) != GPUR_OK)
            continue;
        CHECK_OK(gpur_learner_sync(q.learner));
        CHECK_OK(gpur_learner_get_stats(q.learner, &learner));
        accepted++, lost += learner.loss == 0.0f;
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    CHECK(accepted > 0);
    CHECK_EQUAL(lost, 0);
    quiet_close(&q);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(calls_that_draw_nothing_publish_nothing);
    RUN(refused_statistics_begin_no_new_mean);
    RUN(a_step_on_ids_never_trains_on_a_row_that_has_left);
    return test_main_end();
}
