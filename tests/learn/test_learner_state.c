/* SPDX-License-Identifier: MIT */
/* The state of a learner: weights by name, statistics, steps on an empty window, memory; and the calls that must not
 * change the replay. */
#include "test.h"
#include "base/clock.h"
#include "base/status.h"
#include "learn/learner.h"
#include "support/counting_alloc.h"
#include "support/learner_fixture.h"

#include <pthread.h>

enum { LIMIT = WORLD_MOST_WEIGHTS, BATCH = 16 };

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
    const gpur_learner_config config = conv_config(GPUR_CHW);
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

/* The largest weight is near the published limit. The fans of a convolution include its kernel size. */
TEST(first_weights_of_a_convolution_have_their_published_limits)
{
    static float w[5 * 3 * 3 * 6];
    const double limits[] = {
        [GPUR_INIT_FAN_IN] = 1 / sqrt(3 * 3 * 6), [GPUR_INIT_GLOROT] = sqrt(6.0 / (3 * 3 * (6 + 5)))};
    const int32_t inits[] = {GPUR_INIT_FAN_IN, GPUR_INIT_GLOROT};
    for (int i = 0; i < 2; i++) {
        gpur_learner_config config = conv_config(GPUR_CHW);
        conv_fixture s;
        double largest = 0;
        config.network.init = inits[i];
        CHECK_OK(conv_fixture_open(&s, device, &config));
        CHECK_OK(gpur_learner_read_weights(s.learner, GPUR_WEIGHTS_ONLINE, "trunk.1.weight", w, 5 * 3 * 3 * 6));
        conv_fixture_close(&s);
        for (int j = 0; j < 5 * 3 * 3 * 6; j++)
            largest = fmax(largest, fabs((double)w[j]));
        CHECK(largest <= limits[inits[i]] * (1 + 1e-6) && largest > 0.9 * limits[inits[i]]);
    }
}

/* A refused call does not start a new mean. */
TEST(the_mean_loss_is_over_the_steps_since_the_stats_before)
{
    double sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        gpur_learner *const learner =
            learner_fixture_open_learner(&fixture, device, learner_fixture_config(GPUR_HEAD_Q, 1));
        gpur_learner_stats stats = learner_fixture_stats(learner), refused = {.size = 1};
        CHECK(stats.steps == 0 && stats.steps_enqueued == 0 && stats.loss == 0 && stats.mean_loss == 0);
        for (int t = 0; t < 10; t++) {
            CHECK_OK(gpur_learner_train(learner, 1));
            sum += pass == 0 ? (double)learner_fixture_stats(learner).loss : 0;
        }
        if (pass == 1) {
            CHECK_OK(gpur_learner_sync(learner));
            CHECK_STATUS(gpur_learner_get_stats(learner, &refused), GPUR_INVALID_ARGUMENT);
            CHECK_NEAR(learner_fixture_stats(learner).mean_loss, sum / 10, 1e-6 * sum);
        }
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

static void check_empty_window(int32_t step_kernel, int64_t steps_a_launch, float clip_norm)
{
    static float a[LIMIT], b[LIMIT];
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.step_kernel = step_kernel;
    config.target_period = 1;
    config.optimizer.clip_norm = clip_norm;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    learner->fused.launch.steps = steps_a_launch;
    CHECK_OK(gpur_learner_train(learner, 3));
    const int64_t count = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, a, LIMIT);
    CHECK(count > 0);
    CHECK_OK(learner_fixture_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_EQUAL(learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, b, LIMIT), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    CHECK_OK(learner_fixture_set_window(learner, FIXTURE_ROWS));
    CHECK_OK(gpur_learner_train(learner, 1));
    const gpur_learner_stats stats = learner_fixture_stats(learner);
    CHECK_EQUAL(stats.steps, 4);
    CHECK_EQUAL(stats.skipped, 5);
    CHECK_EQUAL(stats.target_copies, 4);
    learner_fixture_close_learner(&fixture, learner);
}

TEST(an_empty_window_makes_the_step_a_counted_nothing)
{
    check_empty_window(GPUR_STEP_LIBRARIES, 0, 0.0f);
    check_empty_window(GPUR_STEP_FUSED, 1, 0.0f);
    check_empty_window(GPUR_STEP_FUSED, 3, 0.0f);
    check_empty_window(GPUR_STEP_FUSED, 256, 0.1f);
}

TEST(the_padding_between_weights_stays_zero)
{
    static float w[LIMIT], g[LIMIT];
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.optimizer.kind = GPUR_RMSPROP_TF;
    config.optimizer.momentum = 0.9f;
    gpur_learner *const learner = learner_fixture_open_learner(&fixture, device, config);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 30));
    CHECK_OK(gpur_learner_sync(learner));
    const gpur_params *const params = &learner->network.params;
    CHECK(params->count <= LIMIT);
    CHECK_OK(gpur_device_copy(device, w, learner->step.optimizer.weights, params->count * 4));
    CHECK_OK(gpur_device_copy(device, g, learner->step.optimizer.gradient, params->count * 4));
    for (int32_t i = 0; i < params->tensor_count; i++)
        for (int64_t j = 0; j < gpur_tensor_count(&params->tensor[i]); j++)
            w[params->tensor[i].offset + j] = g[params->tensor[i].offset + j] = 0;
    for (int64_t i = 0; i < params->count; i++)
        CHECK(w[i] == 0 && g[i] == 0);
    learner_fixture_close_learner(&fixture, learner);
}

/* Creates a learner, trains on draws and on host rows, acts and destroys it. Returns the first error. */
static gpur_status use(gpur_replay *replay)
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const float obs[FIXTURE_FEATURES] = {0};
    gpur_learner *learner = NULL;
    int32_t action = -1;
    config.host_batches = 2;
    gpur_status status = gpur_learner_create(replay, &config, &learner);
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

/* For each allocation of the learner: it and all later ones fail. The allocator must get back all that it gave. */
TEST(every_failing_allocation_is_refused_cleanly)
{
    int64_t calls = 1;
    for (int64_t nth = 0; nth <= calls; nth++) {
        counting_alloc counts = {0};
        gpur_device_config config = test_device_config();
        gpur_device *own = NULL;
        config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
        CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
        CHECK_OK(learner_fixture_open(&fixture, own, FIXTURE_ROWS));
        const int64_t before = counts.calls;
        counts.fail_at = nth ? before + nth : 0;
        CHECK_STATUS(use(fixture.replay), nth ? GPUR_OUT_OF_MEMORY : GPUR_OK);
        calls = nth ? calls : counts.calls - before;
        learner_fixture_close(&fixture);
        gpur_device_close(own);
        CHECK(counts.blocks == 0 && counts.bytes == 0 && counts.wrong_sizes == 0);
    }
    CHECK(calls >= 4);
}

/* A learner whose config is refused at once allocates only its handle. */
TEST(the_handle_comes_from_the_callers_allocator)
{
    counting_alloc counts = {0};
    gpur_device_config config = test_device_config();
    gpur_learner_config refused = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_device *own = NULL;
    gpur_learner *learner = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &own));
    CHECK_OK(learner_fixture_open(&fixture, own, 0));
    const int64_t calls = counts.calls, blocks = counts.blocks;
    refused.size = 0;
    CHECK_STATUS(gpur_learner_create(fixture.replay, &refused, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(counts.calls, calls + 1);
    CHECK_EQUAL(counts.blocks, blocks);
    learner_fixture_close(&fixture);
    gpur_device_close(own);
}

enum { CAPACITY = 64, UPDATE = 8, FEW = 4 };

typedef struct small_row {
    float obs[2];
    int32_t action;
    float reward, next_obs[2];
    uint8_t terminated;
} small_row;

/* Every row has a reward of 1000 and ends its episode, so a step that finds its row has a loss above 0. */
static const small_row rich = {{1, 1}, 1, 1000, {1, 1}, 1};

/* A small full replay, and a learner on it with learning rate 0. */
typedef struct quiet {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_learner_config config;
} quiet;

static gpur_status append_rich(gpur_writer *writer, int64_t count)
{
    const small_row rows[UPDATE] = {rich, rich, rich, rich, rich, rich, rich, rich};
    return gpur_writer_append(writer, count, rows, NULL);
}

static void quiet_open(quiet *q, int64_t capacity, int32_t flush, int64_t batch, int32_t prioritized)
{
    static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {2}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_FLOAT32, {2}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    memset(q, 0, sizeof *q);
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = capacity, config.fields = fields, config.field_count = 5;
    config.block_rows = UPDATE, config.max_batch = UPDATE, config.flush = flush, config.prioritized = prioritized;
    CHECK_OK(gpur_replay_create(device, &config, &q->replay));
    CHECK_OK(gpur_writer_create(q->replay, 1, &q->writer));
    for (int64_t i = 0; i < capacity / UPDATE; i++)
        CHECK_OK(append_rich(q->writer, UPDATE));
    CHECK_OK(gpur_learner_config_init(&q->config, sizeof q->config));
    q->config.network.num_actions = 2, q->config.batch_size = batch, q->config.host_batches = 1;
    q->config.optimizer.learning_rate.first = q->config.optimizer.learning_rate.last = 0;
    CHECK_OK(gpur_learner_create(q->replay, &q->config, &q->learner));
}

static void quiet_close(quiet *q)
{
    gpur_learner_destroy(q->learner);
    gpur_writer_destroy(q->writer);
    gpur_replay_destroy(q->replay);
}

static void do_nothing(quiet *q)
{
    (void)q;
}

static void read_and_write_weights(quiet *q)
{
    gpur_weight_info info = {.size = sizeof info};
    float values[1024];
    CHECK_OK(gpur_learner_get_weight_info(q->learner, 1, &info));
    CHECK_OK(gpur_learner_read_weights(q->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
    CHECK_OK(gpur_learner_write_weights(q->learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
}

static void train_rows(quiet *q)
{
    const small_row rows[FEW] = {rich, rich, rich, rich};
    CHECK_OK(gpur_learner_train_host_batch(q->learner, rows));
}

static void make_another(quiet *q)
{
    gpur_learner *other = NULL;
    CHECK_OK(gpur_learner_create(q->replay, &q->config, &other));
    gpur_learner_destroy(other);
}

static void train_on_nothing(quiet *q)
{
    const int64_t ids[FEW] = {-1, -1, -1, -1};
    CHECK_STATUS(gpur_learner_train_ids(q->learner, ids), GPUR_INVALID_ARGUMENT);
}

static gpur_status gather_ids(gpur_replay *replay, int64_t ids[FEW])
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample(replay, FEW, NULL, &batch));
    const gpur_status status = gpur_batch_read(batch, "id", ids, FEW * 8);
    gpur_batch_release(batch);
    return status;
}

/* After `call` the replay's statistics are unchanged, and its next two draws are in `ids`. */
static void check_quiet(void (*call)(quiet *q), int32_t prioritized, int64_t ids[2][FEW])
{
    gpur_replay_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_priority_stats priorities = {.size = sizeof priorities};
    quiet q;
    quiet_open(&q, CAPACITY, GPUR_FLUSH_MANUAL, FEW, prioritized);
    CHECK_OK(gather_ids(q.replay, ids[0]));
    CHECK_OK(append_rich(q.writer, UPDATE));
    CHECK_OK(gpur_replay_get_stats(q.replay, &before));
    CHECK_EQUAL(before.visible, CAPACITY - UPDATE);
    call(&q);
    CHECK_OK(gpur_replay_get_stats(q.replay, &after));
    CHECK(after.visible == before.visible && after.first_id == before.first_id);
    CHECK(after.published == before.published && after.appended == before.appended && after.sampled == before.sampled);
    if (prioritized) {
        CHECK_OK(gpur_replay_get_priority_stats(q.replay, &priorities));
        CHECK(priorities.updates == 0 && priorities.stale == 0 && priorities.nonzero == CAPACITY - UPDATE);
    }
    CHECK_OK(gather_ids(q.replay, ids[0]));
    CHECK_OK(gather_ids(q.replay, ids[1]));
    quiet_close(&q);
}

/* A block that overwrites rows is published by the draw after the next. None of these calls may count as a draw. */
TEST(calls_that_draw_nothing_leave_the_replay_as_it_is)
{
    void (*const calls[])(quiet *) = {do_nothing, read_and_write_weights, train_rows, make_another, train_on_nothing};
    for (int32_t prioritized = 0; prioritized < 2; prioritized++) {
        int64_t first[2][FEW], ids[2][FEW];
        for (int i = 0; i < 5; i++) {
            check_quiet(calls[i], prioritized, i ? ids : first);
            TEST_REQUIRE(i == 0 || memcmp(ids, first, sizeof ids) == 0, "call %d changes what is drawn next", i);
        }
    }
}

static atomic_int stop;

/* `context` is the replay. */
static void *feed(void *context)
{
    gpur_writer *writer = NULL;
    gpur_status status = gpur_writer_create(context, 1, &writer);
    while (status == GPUR_OK && !atomic_load(&stop))
        status = append_rich(writer, 1);
    if (status != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    return NULL;
}

TEST(a_step_on_ids_never_trains_on_a_row_that_has_left)
{
    const int steps = test_is_long() ? 40000 : 3000;
    int64_t accepted = 0, lost = 0;
    pthread_t thread;
    quiet q;
    quiet_open(&q, 1024, GPUR_FLUSH_AUTO, 1, 0);
    atomic_store(&stop, 0);
    CHECK(pthread_create(&thread, NULL, feed, q.replay) == 0);
    for (int i = 0; i < steps; i++) {
        gpur_replay_stats replay = {.size = sizeof replay};
        CHECK_OK(gpur_replay_get_stats(q.replay, &replay));
        const int64_t id = replay.first_id + 3 + i % 30;
        if (gpur_learner_train_ids(q.learner, &id) == GPUR_OK)
            accepted++, lost += learner_fixture_stats(q.learner).loss == 0.0f;
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
    device = test_device();
    RUN(weights_survive_a_round_trip_by_name);
    RUN(first_weights_of_a_convolution_have_their_published_limits);
    RUN(the_mean_loss_is_over_the_steps_since_the_stats_before);
    RUN(steps_per_second_are_those_since_the_stats_before);
    RUN(an_empty_window_makes_the_step_a_counted_nothing);
    RUN(the_padding_between_weights_stays_zero);
    if (!IN_RACE_CHECK) {
        RUN(every_failing_allocation_is_refused_cleanly);
        RUN(the_handle_comes_from_the_callers_allocator);
        RUN(calls_that_draw_nothing_leave_the_replay_as_it_is);
        RUN(a_step_on_ids_never_trains_on_a_row_that_has_left);
    }
    gpur_device_close(device);
    return test_main_end();
}
