/* SPDX-License-Identifier: MIT */
/* The state of a learner: weights by name, statistics, memory; the calls that must not change the replay; and appends
 * beside a train step. */
#include "test.h"
#include "base/clock.h"
#include "base/status.h"
#include "learn/dqn/dqn.h"
#include "support/counting_alloc.h"
#include "support/learner_fixture.h"

#include <pthread.h>
#include <time.h>

enum { LIMIT = 4096 };

static gpur_device *device;
static learner_fixture fixture;

/* Writes all tensors of both networks, then reads all of them back. */
static void check_round_trip(gpur_learner *learner, int32_t tensors)
{
    static float values[LIMIT], back[LIMIT];
    CHECK_EQUAL(gpur_learner_weight_count(learner), tensors);
    for (int32_t i = 0; i < 4 * tensors; i++) {
        const int32_t which = i / tensors % 2 ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE;
        gpur_weight_info info = {.size = sizeof info};
        CHECK_OK(gpur_learner_get_weight_info(learner, i % tensors, &info));
        int64_t numbers = 1;
        for (int d = 0; d < info.dims; d++)
            numbers *= info.shape[d];
        CHECK(info.count == numbers && numbers <= LIMIT);
        random_floats((uint64_t)(2 * (i % tensors) + which), values, numbers);
        if (i < 2 * tensors)
            CHECK_OK(gpur_learner_write_weights(learner, which, info.name, values, numbers));
        CHECK_OK(gpur_learner_read_weights(learner, which, info.name, back, numbers));
        CHECK(memcmp(values, back, (size_t)numbers * sizeof *back) == 0);
    }
}

TEST(weights_survive_a_round_trip_by_name)
{
    const gpur_dqn_config config = conv_config(GPUR_CHW);
    gpur_weight_info info = {.size = sizeof info};
    conv_fixture s;
    gpur_learner *const dense =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_DUELING, 1));
    CHECK(dense);
    check_round_trip(dense, 10);
    learner_fixture_close_learner(&fixture, dense);
    CHECK_OK(conv_fixture_open(&s, device, &config));
    check_round_trip(s.learner, 12);
    CHECK_OK(gpur_learner_get_weight_info(s.learner, 0, &info));
    CHECK(strcmp(info.name, "trunk.0.weight") == 0 && info.dims == 4 && info.shape[0] == 6);
    CHECK(info.shape[1] == 4 && info.shape[2] == 4 && info.shape[3] == IMAGE_CHANNELS);
    CHECK_OK(gpur_learner_get_weight_info(s.learner, 1, &info));
    CHECK(info.dims == 1 && info.shape[0] == 6 && info.shape[1] == 0);
    CHECK_OK(gpur_learner_get_weight_info(s.learner, 4, &info));
    CHECK(strcmp(info.name, "value.hidden.weight") == 0 && info.dims == 2 && info.shape[1] == 5 * 3 * 5);
    conv_fixture_close(&s);
}

/* A refused call does not start a new mean. */
TEST(the_mean_loss_is_over_the_steps_since_the_stats_before)
{
    gpur_learner_stats refused = {.size = 1};
    double sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        gpur_learner *const learner =
            learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
        const gpur_learner_stats stats = learner_fixture_stats(learner);
        CHECK(stats.steps == 0 && stats.steps_enqueued == 0 && stats.loss == 0 && stats.mean_loss == 0);
        for (int t = 0; t < 10; t++) {
            CHECK_OK(gpur_learner_train(learner, 1));
            sum += pass == 0 ? (double)learner_fixture_stats(learner).loss : 0;
        }
        CHECK_STATUS(gpur_learner_get_stats(learner, &refused), GPUR_INVALID_ARGUMENT);
        if (pass == 1)
            for (int read = 0; read < 2; read++) /* the second finds no new step */
                CHECK_NEAR(learner_fixture_stats(learner).mean_loss, sum / 10, 1e-6 * sum);
        learner_fixture_close_learner(&fixture, learner);
    }
}

/* Each statistics call reads the clock between two readings of this test, which bounds the rate. */
TEST(steps_per_second_are_those_since_the_stats_before)
{
    gpur_learner *const learner =
        learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 64));
    for (int steps = 10; steps < 200; steps += 90) {
        const double before = gpur_clock_seconds();
        (void)learner_fixture_stats(learner);
        const double begin = gpur_clock_seconds();
        CHECK_OK(gpur_learner_train(learner, steps));
        CHECK_OK(gpur_learner_sync(learner));
        const double end = gpur_clock_seconds();
        const double rate = learner_fixture_stats(learner).steps_per_second;
        CHECK(rate >= steps / (gpur_clock_seconds() - before) && rate <= steps / (end - begin));
    }
    learner_fixture_close_learner(&fixture, learner);
}

/* Creates a learner, trains on samples and on host rows, acts and destroys it. Returns the first error. */
static gpur_status train_and_act(gpur_replay *replay)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const float obs[FIXTURE_FEATURES] = {0};
    gpur_learner *learner = NULL;
    int32_t action = -1;
    config.host_batches = 2;
    gpur_status status = gpur_dqn_create(replay, &config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 3);
    for (int i = 0; i < 4 && status == GPUR_OK; i++)
        status = gpur_learner_train_host_batch(learner, fixture.rows);
    if (status == GPUR_OK)
        status = gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL);
    if (status == GPUR_OK)
        status = gpur_learner_sync(learner);
    gpur_learner_destroy(learner);
    return status;
}

/* For each allocation of the learner: it and all later ones fail. The allocator must get back all that it gave. A
 * learner whose config is refused at once allocates only its handle. */
TEST(every_failing_allocation_is_refused_cleanly)
{
    gpur_dqn_config refused = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *none = NULL;
    int64_t calls = 1;
    refused.size = 0;
    for (int64_t nth = 0; nth <= calls; nth++) {
        counting_alloc counts = {0};
        gpur_device_config config = test_device_config();
        gpur_device *own = NULL;
        config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
        CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
        CHECK_OK(learner_fixture_open(&fixture, own, FIXTURE_ROWS));
        int64_t before = counts.calls;
        CHECK_STATUS(gpur_dqn_create(fixture.replay, &refused, &none), GPUR_INVALID_ARGUMENT);
        CHECK_EQUAL(counts.calls, ++before);
        counts.fail_at = nth ? before + nth : 0;
        CHECK_STATUS(train_and_act(fixture.replay), nth ? GPUR_OUT_OF_MEMORY : GPUR_OK);
        calls = nth ? calls : counts.calls - before;
        learner_fixture_close(&fixture);
        gpur_device_close(own);
        CHECK(counts.blocks == 0 && counts.bytes == 0 && counts.wrong_sizes == 0);
    }
    CHECK(calls >= 4);
}

enum { CAPACITY = 64, BLOCK = 8, COUNT = 4 };

typedef struct small_row {
    float obs[2];
    int32_t action;
    float reward, next_obs[2];
    uint8_t terminated;
} small_row;

/* Every row has a reward of 1000 and ends its episode, so a step that finds its row has a loss above 0. */
#define RICH                                                                                                           \
    {                                                                                                                  \
        {1, 1}, 1, 1000, {1, 1}, 1                                                                                     \
    }
static const small_row rich[BLOCK] = {RICH, RICH, RICH, RICH, RICH, RICH, RICH, RICH};

/* A full replay of rich rows, and a learner on it with learning rate 0. */
typedef struct small_fixture {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_dqn_config config;
} small_fixture;

static void small_open(small_fixture *s, int64_t capacity, int32_t flush, int64_t batch, int32_t prioritized)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {2}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    memset(s, 0, sizeof *s);
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = capacity, config.fields = fields, config.field_count = 5;
    config.block_rows = BLOCK, config.max_batch = BLOCK, config.flush = flush, config.prioritized = prioritized;
    CHECK_OK(gpur_replay_create(device, &config, &s->replay));
    CHECK_OK(gpur_writer_create(s->replay, 1, &s->writer));
    for (int64_t i = 0; i < capacity / BLOCK; i++)
        CHECK_OK(gpur_writer_append(s->writer, BLOCK, rich, NULL));
    CHECK_OK(gpur_dqn_config_init(&s->config, sizeof s->config));
    s->config.network.num_actions = 2, s->config.batch_size = batch, s->config.host_batches = 1;
    s->config.optimizer.learning_rate.first = s->config.optimizer.learning_rate.last = 0;
    CHECK_OK(gpur_dqn_create(s->replay, &s->config, &s->learner));
}

static void small_close(small_fixture *s)
{
    gpur_learner_destroy(s->learner);
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
}

/* Calls that are no sample. */
enum { NOTHING, WEIGHTS, HOST_ROWS, ANOTHER_LEARNER, REFUSED_IDS, CALLS };

static void make_call(small_fixture *s, int call)
{
    const int64_t ids[COUNT] = {-1, -1, -1, -1};
    gpur_weight_info info = {.size = sizeof info};
    gpur_learner *other = NULL;
    float values[1024];
    if (call == WEIGHTS) {
        CHECK_OK(gpur_learner_get_weight_info(s->learner, 1, &info));
        CHECK_OK(gpur_learner_read_weights(s->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
        CHECK_OK(gpur_learner_write_weights(s->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
    } else if (call == HOST_ROWS) {
        CHECK_OK(gpur_learner_train_host_batch(s->learner, rich));
    } else if (call == ANOTHER_LEARNER) {
        CHECK_OK(gpur_dqn_create(s->replay, &s->config, &other));
        gpur_learner_destroy(other);
    } else if (call == REFUSED_IDS) {
        CHECK_STATUS(gpur_learner_train_ids(s->learner, ids), GPUR_INVALID_ARGUMENT);
    }
}

static gpur_status sample_ids(gpur_replay *replay, int64_t ids[COUNT])
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample(replay, COUNT, NULL, &batch));
    const gpur_status status = gpur_batch_read(batch, "id", ids, COUNT * (int64_t)sizeof *ids);
    gpur_batch_release(batch);
    return status;
}

/* After the call the replay's statistics are unchanged, and its next two samples are in `ids`. */
static void check_call(int call, int32_t prioritized, int64_t ids[2][COUNT])
{
    gpur_replay_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_priority_stats priorities = {.size = sizeof priorities};
    small_fixture s;
    small_open(&s, CAPACITY, GPUR_FLUSH_MANUAL, COUNT, prioritized);
    CHECK_OK(sample_ids(s.replay, ids[0]));
    CHECK_OK(gpur_writer_append(s.writer, BLOCK, rich, NULL));
    CHECK_OK(gpur_replay_get_stats(s.replay, &before));
    CHECK_EQUAL(before.visible, CAPACITY - BLOCK);
    make_call(&s, call);
    CHECK_OK(gpur_replay_get_stats(s.replay, &after));
    CHECK(after.visible == before.visible && after.first_id == before.first_id);
    CHECK(after.published == before.published && after.appended == before.appended && after.sampled == before.sampled);
    if (prioritized) {
        CHECK_OK(gpur_replay_get_priority_stats(s.replay, &priorities));
        CHECK(priorities.updates == 0 && priorities.stale == 0 && priorities.nonzero == CAPACITY - BLOCK);
    }
    CHECK_OK(sample_ids(s.replay, ids[0]));
    CHECK_OK(sample_ids(s.replay, ids[1]));
    small_close(&s);
}

/* A block that overwrites rows is published by the sample after the next. None of these calls may count as one. */
TEST(calls_that_sample_nothing_leave_the_replay_as_it_is)
{
    for (int32_t prioritized = 0; prioritized < 2; prioritized++) {
        int64_t first[2][COUNT], ids[2][COUNT];
        for (int call = NOTHING; call < CALLS; call++) {
            check_call(call, prioritized, call ? ids : first);
            TEST_REQUIRE(call == NOTHING || memcmp(ids, first, sizeof ids) == 0, "call %d changes the next samples",
                         call);
        }
    }
}

static atomic_int stop;

/* `context` is the replay. */
static void *append_rows(void *context)
{
    gpur_writer *writer = NULL;
    gpur_status status = gpur_writer_create(context, 1, &writer);
    while (status == GPUR_OK && !atomic_load(&stop))
        status = gpur_writer_append(writer, 1, rich, NULL);
    if (status != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    return NULL;
}

TEST(a_step_on_ids_never_trains_on_an_evicted_row)
{
    const int steps = test_is_long() ? 40000 : 3000;
    int64_t accepted = 0, lost = 0;
    pthread_t thread;
    small_fixture s;
    small_open(&s, 1024, GPUR_FLUSH_AUTO, 1, 0);
    atomic_store(&stop, 0);
    CHECK(pthread_create(&thread, NULL, append_rows, s.replay) == 0);
    for (int i = 0; i < steps; i++) {
        gpur_replay_stats replay = {.size = sizeof replay};
        CHECK_OK(gpur_replay_get_stats(s.replay, &replay));
        const int64_t id = replay.first_id + 3 + i % 30;
        if (gpur_learner_train_ids(s.learner, &id) == GPUR_OK)
            accepted++, lost += learner_fixture_stats(s.learner).loss == 0.0f;
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    CHECK(accepted > 0);
    CHECK_EQUAL(lost, 0);
    small_close(&s);
}

/* A thread that appends a row each half a millisecond without waiting, so that the staging blocks do not fill up during
 * a step, and notes when it succeeded. */
typedef struct appending {
    atomic_int stop, count;
    double at[4096]; /* (count) seconds */
    gpur_status status;
} appending;

static void *append_and_note(void *argument)
{
    static const learner_fixture_row row = {.action = 1};
    static const void *const fields[] = {row.obs,      &row.action,     &row.reward,
                                         row.next_obs, &row.terminated, &row.truncated};
    appending *const a = argument;
    for (; !atomic_load(&a->stop); nanosleep(&(const struct timespec){.tv_nsec = 500000}, NULL)) {
        const gpur_status status = gpur_writer_try_append_fields(fixture.writer, 1, fields);
        const int n = atomic_load(&a->count);
        if (status == GPUR_OK && n < 4096) {
            a->at[n] = gpur_clock_seconds();
            atomic_store(&a->count, n + 1);
        } else if (status != GPUR_OK && status != GPUR_WOULD_BLOCK) {
            a->status = status;
            return NULL;
        }
    }
    return NULL;
}

/* Appends in the middle half of one step. The gather, at its beginning, takes far less than a quarter of it. */
static void count_appends_within_a_step(gpur_learner *learner, int *within)
{
    static appending a;
    int64_t ids[256];
    pthread_t thread;
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &stats));
    for (int i = 0; i < 256; i++)
        ids[i] = stats.first_id + stats.visible - 1 - i % 64;
    atomic_store(&a.stop, 0), atomic_store(&a.count, 0);
    CHECK(pthread_create(&thread, NULL, append_and_note, &a) == 0);
    const double begin = gpur_clock_seconds();
    const gpur_status status = gpur_learner_train_ids(learner, ids);
    const double end = gpur_clock_seconds();
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    CHECK_OK(status);
    CHECK_OK(a.status);
    for (int i = 0; i < atomic_load(&a.count); i++)
        *within += a.at[i] > begin + 0.25 * (end - begin) && a.at[i] < end - 0.25 * (end - begin);
}

TEST(writers_go_on_while_a_step_on_given_ids_is_carried_out)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    int within = 0;
    if (!gpur_device_get_traits(device)->is_synchronous) /* the call returns when the step has been enqueued */
        return;
    config.network = network_fixture_config(512, 512, GPUR_RELU, GPUR_HEAD_Q, 0, FIXTURE_ACTIONS);
    config.batch_size = 200;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    for (int attempt = 0; attempt < 20 && within == 0; attempt++) /* the other thread may get no core */
        count_appends_within_a_step(learner, &within);
    CHECK(within > 0);
    learner_fixture_close_learner(&fixture, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(weights_survive_a_round_trip_by_name);
    RUN(the_mean_loss_is_over_the_steps_since_the_stats_before);
    RUN(steps_per_second_are_those_since_the_stats_before);
    RUN(writers_go_on_while_a_step_on_given_ids_is_carried_out);
    if (!IN_RACE_CHECK) {
        RUN(every_failing_allocation_is_refused_cleanly);
        RUN(calls_that_sample_nothing_leave_the_replay_as_it_is);
        RUN(a_step_on_ids_never_trains_on_an_evicted_row);
    }
    gpur_device_close(device);
    return test_main_end();
}
