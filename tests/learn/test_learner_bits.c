/* SPDX-License-Identifier: MIT */
/*
 * Training must give the same bits however its steps are divided into calls, for every launch shape, for rows by id and
 * from host memory, with a second thread, and for both layouts of the replay. Draws depend only on the seed.
 */
#include "test.h"
#include "base/status.h"
#include "learn/learner.h"
#include "replay/replay.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

enum { BATCH = 16, MOST = 1 << 15, PORTIONS = 8, BUFFERS = 3 };

enum { SHAPE_STEPS = IN_RACE_CHECK ? 3 : 12, RAM_STEPS = 500 };

static gpur_device *device;

/* A training run: how the learner is created, and how it is trained. */
typedef struct run {
    int kind, filled;
    int32_t norm;
    gpur_learner_config config;
    gpur_grid grid;
    gpur_fused_launch_config way;
    int32_t large; /* tiles of the matrix products in one kernel: 0 small, 1 large, -1 the default of each */
    int64_t portions[PORTIONS]; /* the steps of each call of gpur_learner_train */
    gpur_status (*feed)(gpur_learner *learner, const struct run *run); /* replaces these calls if not NULL */
} run;

static learner_fixture world;

static gpur_learner_config one_kernel_config(gpur_network_config network, int64_t batch)
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.network = network;
    config.network.init = GPUR_INIT_FAN_IN;
    config.batch_size = batch;
    config.step_kernel = GPUR_STEP_FUSED;
    return config;
}

static run run_of(gpur_learner_config config)
{
    return (run){
        .filled = FIXTURE_ROWS, .norm = WORLD_UNIFORM, .config = config, .large = -1, .portions = {SHAPE_STEPS}};
}

static gpur_status train(const run *r, gpur_learner *learner)
{
    learner->fused.launch = r->way;
    for (int i = 0; i < learner->fused.args.gemm_count && r->large >= 0 && learner->fused.step; i++)
        learner->fused.args.gemms[i].large = r->large;
    if (r->feed)
        return r->feed(learner, r);
    for (int i = 0; i < PORTIONS; i++)
        GPUR_TRY(gpur_learner_train(learner, r->portions[i]));
    return GPUR_OK;
}

static gpur_status read_priorities(float *priorities)
{
    int64_t ids[FIXTURE_ROWS];
    for (int i = 0; i < FIXTURE_ROWS; i++)
        ids[i] = i;
    for (int first = 0; first < FIXTURE_ROWS; first += FIXTURE_ROWS / 2)
        GPUR_TRY(gpur_replay_get_priorities(world.replay, FIXTURE_ROWS / 2, ids + first, priorities + first));
    return GPUR_OK;
}

/* Trains, and reads the weights of both networks and the priorities. Returns how many numbers, or -1 on an error. */
static int64_t result_of(const run *r, float *values)
{
    gpur_learner *learner = NULL;
    int64_t online = -1, target = -1, priorities = 0;
    const int filled = r->filled < world_rows_of(r->kind) ? r->filled : world_rows_of(r->kind);
    gpur_device_force_grid(device, r->grid);
    gpur_status status = world_open_kind(&world, device, r->kind, filled, r->norm);
    if (status == GPUR_OK)
        status = gpur_learner_create(world.replay, &r->config, &learner);
    if (status == GPUR_OK)
        status = train(r, learner);
    if (status == GPUR_OK)
        online = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST);
    if (online > 0)
        target = learner_fixture_weights(learner, GPUR_WEIGHTS_TARGET, values + online, MOST - online);
    if (target > 0 && r->norm != WORLD_UNIFORM)
        priorities = read_priorities(values + online + target) == GPUR_OK ? FIXTURE_ROWS : -MOST;
    if (status != GPUR_OK)
        fprintf(stderr, "%s\n", gpur_last_error());
    gpur_learner_destroy(learner);
    learner_fixture_close(&world);
    gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
    return target > 0 ? online + target + priorities : -1;
}

static void check_same(const run *a, const run *b, const char *what, int64_t which)
{
    static float x[MOST + FIXTURE_ROWS], y[MOST + FIXTURE_ROWS];
    const int64_t count = result_of(a, x), other = result_of(b, y);
    TEST_REQUIRE(count > 0 && other == count && memcmp(x, y, (size_t)count * sizeof *x) == 0, "%s %lld: other bits",
                 what, (long long)which);
}

TEST(steps_may_be_divided_into_calls_in_any_way)
{
    static const int64_t portions[][PORTIONS] = {{1, 8, 0, 255, 256, 80}, {300, 300}};
    run whole = run_of(learner_fixture_config(GPUR_HEAD_DUELING, 1));
    whole.portions[0] = 600;
    for (int i = 0; i < 2; i++) {
        run parts = whole;
        memcpy(parts.portions, portions[i], sizeof parts.portions);
        check_same(&whole, &parts, "portions", i);
    }
    whole.config.index_source = GPUR_UNIFORM_DISTINCT, whole.config.target_period = 3, whole.portions[0] = 8;
    run ones = whole;
    for (int i = 0; i < PORTIONS; i++)
        ones.portions[i] = 1;
    check_same(&whole, &ones, "distinct draws", 8);
}

static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};

TEST(no_launch_shape_changes_a_bit_of_steps_by_libraries)
{
    for (int32_t norm = WORLD_UNIFORM; norm <= GPUR_WEIGHT_NORM_MEMORY; norm += 2) {
        run first = run_of(learner_fixture_config(GPUR_HEAD_DUELING, 1));
        first.norm = norm, first.grid = grids[0];
        first.config.index_source = norm == WORLD_UNIFORM ? GPUR_UNIFORM : GPUR_PRIORITIZED_STRATIFIED;
        for (int i = 1; i < 4; i++) {
            run other = first;
            other.grid = grids[i];
            check_same(&first, &other, norm == WORLD_UNIFORM ? "uniform, grid" : "priorities, grid", i);
        }
    }
}

/* Several block sizes, grids and clusters, and 1 to 12 steps a launch. By priority, each step of a launch must draw
 * from the priorities that the step before wrote. */
static void check_ways(const run *first, const char *what)
{
    static const gpur_fused_launch_config ways[] = {{1, 32, 0, 1},  {1, 64, 0, 5}, {2, 96, 0, 2},
                                                    {3, 128, 1, 5}, {4, 16, 0, 3}, {16, 256, 0, 12}};
    run one = *first;
    one.way = ways[0];
    for (int i = 1; i < 6; i++) {
        run other = one;
        other.way = ways[i];
        other.way.threads = test_on_cuda() && ways[i].threads < 32 ? 32 : ways[i].threads;
        check_same(&one, &other, what, i);
    }
}

TEST(no_launch_shape_changes_a_bit_of_steps_in_one_kernel)
{
    const gpur_network_config small = network_fixture_config(33, 0, GPUR_RELU, GPUR_HEAD_DUELING, 35, FIXTURE_ACTIONS);
    const gpur_network_config tall = network_fixture_config(9, 0, GPUR_RELU, GPUR_HEAD_DUELING, 70, FIXTURE_ACTIONS);
    for (int32_t large = -1; large <= 1; large++) {
        run r = run_of(one_kernel_config(small, BATCH));
        r.large = large;
        check_ways(&r, "tiles of the default, small or large size; way");
    }
    run r = run_of(one_kernel_config(small, BATCH));
    r.norm = GPUR_WEIGHT_NORM_MEMORY, r.config.index_source = GPUR_PRIORITIZED_STRATIFIED,
    r.config.optimizer.clip_norm = 0.1f;
    check_ways(&r, "priorities, way");
    r = run_of(one_kernel_config(tall, 270));
    r.kind = WORLD_WIDE, r.large = 1, r.portions[0] = 5;
    check_ways(&r, "sums in several parts, way");
}

/* Every feed trains step t on the rows learner_fixture_ids(t), so all must end with the same weights. */
static gpur_status by_ids(gpur_learner *learner, const run *r)
{
    for (int t = 0; t < RAM_STEPS; t++) {
        int64_t ids[BATCH];
        learner_fixture_ids(&world, t, (int)r->config.batch_size, ids);
        GPUR_TRY(gpur_learner_train_ids(learner, ids));
        memset(ids, 0xff, sizeof ids); /* the caller may change them now */
    }
    return GPUR_OK;
}

static gpur_status by_ids_waiting(gpur_learner *learner, const run *r)
{
    for (int t = 0; t < RAM_STEPS; t++) {
        int64_t ids[BATCH];
        learner_fixture_ids(&world, t, (int)r->config.batch_size, ids);
        GPUR_TRY(gpur_learner_train_ids(learner, ids));
        GPUR_TRY(gpur_learner_sync(learner));
    }
    return GPUR_OK;
}

static void pack_step(const run *r, int t, void *rows)
{
    int64_t ids[BATCH];
    learner_fixture_ids(&world, t, (int)r->config.batch_size, ids);
    world_pack(&world, ids, (int)r->config.batch_size, rows);
}

/* world_pack overwrites a buffer as soon as it is acquired, so an upload that still reads it shows. */
static gpur_status by_buffers(gpur_learner *learner, const run *r)
{
    for (int t = 0; t < RAM_STEPS; t++) {
        void *rows = NULL;
        GPUR_TRY(gpur_learner_acquire_host_batch(learner, &rows));
        pack_step(r, t, rows);
        GPUR_TRY(gpur_learner_train_host_batch(learner, rows));
    }
    return GPUR_OK;
}

static gpur_status by_own_memory(gpur_learner *learner, const run *r)
{
    static unsigned char rows[BATCH * MOST_ROW_BYTES];
    for (int t = 0; t < RAM_STEPS; t++) {
        pack_step(r, t, rows);
        GPUR_TRY(gpur_learner_train_host_batch(learner, rows));
        memset(rows, 0xff, sizeof rows);
    }
    return GPUR_OK;
}

static gpur_status by_ids_and_rows(gpur_learner *learner, const run *r)
{
    static unsigned char rows[BATCH * MOST_ROW_BYTES];
    for (int t = 0; t < RAM_STEPS; t++) {
        int64_t ids[BATCH];
        learner_fixture_ids(&world, t, (int)r->config.batch_size, ids);
        pack_step(r, t, rows);
        GPUR_TRY(t % 3 ? gpur_learner_train_host_batch(learner, rows) : gpur_learner_train_ids(learner, ids));
    }
    return GPUR_OK;
}

/* One thread fills buffers, another trains on them. */
typedef struct prefetching {
    gpur_learner *learner;
    const run *r;
    sem_t room, filled;
    void *waiting[BUFFERS];
    int asks_again; /* 1: poll gpur_learner_acquire_host_batch instead of waiting for room */
} prefetching;

static void *prefetch(void *context)
{
    prefetching *const p = context;
    for (int t = 0; t < RAM_STEPS; t++) {
        void *rows = NULL;
        if (!p->asks_again)
            sem_wait(&p->room);
        gpur_status status = gpur_learner_acquire_host_batch(p->learner, &rows);
        for (; p->asks_again && status == GPUR_WOULD_BLOCK; status = gpur_learner_acquire_host_batch(p->learner, &rows))
            sched_yield();
        if (status == GPUR_OK)
            pack_step(p->r, t, rows);
        else
            test_fail(__FILE__, __LINE__);
        p->waiting[t % BUFFERS] = rows;
        sem_post(&p->filled);
    }
    return NULL;
}

static gpur_status by_two_threads(gpur_learner *learner, const run *r, int asks_again)
{
    prefetching p = {.learner = learner, .r = r, .asks_again = asks_again};
    pthread_t thread;
    gpur_status first = GPUR_OK;
    sem_init(&p.room, 0, BUFFERS);
    sem_init(&p.filled, 0, 0);
    if (pthread_create(&thread, NULL, prefetch, &p) != 0)
        return GPUR_DEVICE_ERROR;
    for (int t = 0; t < RAM_STEPS; t++) {
        sem_wait(&p.filled);
        const gpur_status status = gpur_learner_train_host_batch(learner, p.waiting[t % BUFFERS]);
        first = first != GPUR_OK ? first : status;
        sem_post(&p.room);
    }
    pthread_join(thread, NULL);
    sem_destroy(&p.room);
    sem_destroy(&p.filled);
    return first;
}

static gpur_status by_a_thread_that_waits(gpur_learner *learner, const run *r)
{
    return by_two_threads(learner, r, 0);
}

static gpur_status by_a_thread_that_asks_again(gpur_learner *learner, const run *r)
{
    return by_two_threads(learner, r, 1);
}

/* Rows from host memory need no rows in the replay: `filled` is 0 in most cases. */
TEST(rows_by_id_from_ram_and_from_another_thread_train_alike)
{
    static const struct {
        const char *name;
        gpur_status (*feed)(gpur_learner *learner, const run *run);
        int kind, buffers, filled;
    } feeds[] = {
        {"ids, waited for", by_ids_waiting, WORLD_PLAIN, 1, FIXTURE_ROWS},
        {"one buffer", by_buffers, WORLD_PLAIN, 1, 0},
        {"two buffers", by_buffers, WORLD_PLAIN, 2, 0},
        {"three buffers", by_buffers, WORLD_PLAIN, 3, FIXTURE_ROWS},
        {"16 buffers", by_buffers, WORLD_PLAIN, 16, 0},
        {"own memory, one buffer", by_own_memory, WORLD_PLAIN, 1, 0},
        {"own memory, two buffers", by_own_memory, WORLD_PLAIN, 2, FIXTURE_ROWS},
        {"ids and rows", by_ids_and_rows, WORLD_PLAIN, 2, FIXTURE_ROWS},
        {"another layout", by_buffers, WORLD_WIDE, 2, 0},
        {"images", by_own_memory, WORLD_PLANES, 2, 0},
        {"a thread that waits", by_a_thread_that_waits, WORLD_PLAIN, BUFFERS, 0},
        {"a thread that asks again", by_a_thread_that_asks_again, WORLD_PLAIN, BUFFERS, 0},
    };
    for (size_t i = 0; i < sizeof feeds / sizeof *feeds; i++) {
        if (feeds[i].kind == WORLD_PLANES && IS_WATCHED)
            continue;
        run ids = run_of(feeds[i].kind == WORLD_PLANES ? conv_config(GPUR_CHW)
                                                       : learner_fixture_config(GPUR_HEAD_DUELING, 1));
        ids.kind = feeds[i].kind, ids.feed = by_ids;
        run other = ids;
        other.feed = feeds[i].feed, other.config.host_batches = feeds[i].buffers, other.filled = feeds[i].filled;
        check_same(&ids, &other, feeds[i].name, (int64_t)i);
    }
}

enum { STACK = 3, FEATURES = 4, WALK = 300 };

static const gpur_field stacks[] = {
    {"obs", GPUR_FLOAT32, {STACK, FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {STACK, FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}}};

/* Steps episodes of random stacks of frames, the same for each layout. */
static gpur_status walk(gpur_writer *writer)
{
    float obs[STACK][FEATURES] = {{0}};
    uint64_t random = 9;
    for (int t = 0; t < WALK; t++) {
        const int32_t action = (int32_t)xorshift_below(&random, FIXTURE_ACTIONS);
        const float reward = (float)xorshift_below(&random, 100) / 50.0f - 1.0f;
        const uint8_t ends = t % 11 == 10;
        if (t % 11 == 0) {
            memset(obs, 0, sizeof obs);
            obs[STACK - 1][0] = (float)t + 1;
            GPUR_TRY(gpur_writer_reset(writer, 0, obs));
        }
        memmove(obs, obs + 1, sizeof obs - sizeof obs[0]);
        for (int f = 0; f < FEATURES; f++)
            obs[STACK - 1][f] = (float)xorshift_below(&random, 1000) / 500.0f - 1.0f;
        GPUR_TRY(gpur_writer_step(writer, &action, &reward, obs, &ends, NULL));
    }
    return GPUR_OK;
}

/* Trains on draws, on ids, and on host rows, which are packed for both layouts. */
static gpur_status train_on_stacks(gpur_replay *replay, gpur_learner *learner, float gamma)
{
    int64_t ids[32];
    const row_tags k = row_tags_of(replay, gamma);
    GPUR_TRY(gpur_learner_train(learner, 20));
    for (int b = 0; b < 32; b++)
        ids[b] = WALK - 2 - b;
    GPUR_TRY(gpur_learner_train_ids(learner, ids));
    unsigned char *const rows = calloc(32, (size_t)k.row_bytes);
    const gpur_status status = gpur_learner_train_host_batch(learner, rows);
    free(rows);
    GPUR_TRY(status);
    return gpur_learner_train(learner, 3);
}

static int64_t weights_of_layout(int32_t layout, float *values)
{
    gpur_replay_config config = replay_fixture_config(stacks, 6, 256, 16, 32);
    gpur_learner_config learner_config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_learner *learner = NULL;
    config.layout = layout, config.frame_stack = layout == GPUR_LAYOUT_FRAMES ? STACK : 1, config.n_step = 2;
    config.extra_frames = 64;
    learner_config.batch_size = 32, learner_config.host_batches = 1;
    const int good = gpur_replay_create(device, &config, &replay) == GPUR_OK &&
                     gpur_writer_create(replay, 1, &writer) == GPUR_OK &&
                     gpur_learner_create(replay, &learner_config, &learner) == GPUR_OK && walk(writer) == GPUR_OK &&
                     train_on_stacks(replay, learner, config.gamma) == GPUR_OK && gpur_replay_size(replay) == 256;
    const int64_t count = good ? learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST) : -1;
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    return count;
}

TEST(packed_and_linked_replays_train_alike)
{
    static float packed[MOST], linked[MOST];
    const int64_t count = weights_of_layout(GPUR_LAYOUT_ROWS, packed);
    CHECK(count > 100);
    CHECK_EQUAL(weights_of_layout(GPUR_LAYOUT_FRAMES, linked), count);
    CHECK(memcmp(packed, linked, (size_t)count * sizeof *packed) == 0);
}

/* The ids of four train steps, and of four calls of gpur_replay_sample. */
static gpur_status draw_both(int32_t source, uint64_t seed, int64_t learned[4][BATCH], int64_t drawn[4][BATCH])
{
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    GPUR_TRY(learner_fixture_open(&world, device, FIXTURE_ROWS));
    world.replay->config.index_source = config.index_source = source;
    world.replay->config.seed = config.seed = seed;
    GPUR_TRY(gpur_learner_create(world.replay, &config, &learner));
    for (int t = 0; t < 4; t++) {
        gpur_batch *batch = NULL;
        GPUR_TRY(gpur_learner_train(learner, 1));
        GPUR_TRY(gpur_device_copy(device, learned[t], learner->step.batch.id, sizeof *learned));
        GPUR_TRY(gpur_replay_sample(world.replay, BATCH, NULL, &batch));
        GPUR_TRY(gpur_batch_read(batch, "id", drawn[t], sizeof *drawn));
        gpur_batch_release(batch);
    }
    gpur_learner_destroy(learner);
    learner_fixture_close(&world);
    return GPUR_OK;
}

/* A learner and gpur_replay_sample both count their draws from 0, and must draw differently with the same seed. */
TEST(draws_follow_the_seed_and_are_not_those_of_the_replay)
{
    for (int32_t source = GPUR_UNIFORM; source <= GPUR_UNIFORM_DISTINCT; source++) {
        int64_t learned[3][4][BATCH], drawn[3][4][BATCH];
        for (int i = 0; i < 3; i++)
            CHECK_OK(draw_both(source, i < 2 ? 8 : 9, learned[i], drawn[i]));
        CHECK(memcmp(learned[0], learned[1], sizeof learned[0]) == 0);
        CHECK(memcmp(learned[0], learned[2], sizeof learned[0]) != 0);
        for (int i = 0; i < 16; i++)
            CHECK(memcmp(learned[0][i / 4], drawn[0][i % 4], sizeof **drawn) != 0);
    }
}

/* The CPU computes float32 in either case. On a GPU TF32 has a 10-bit mantissa. */
TEST(tensor_core_arithmetic_stays_close)
{
    static float a[MOST], b[MOST];
    run fp32 = run_of(learner_fixture_config(GPUR_HEAD_DUELING, 1));
    fp32.portions[0] = 5;
    run tf32 = fp32;
    tf32.config.math = GPUR_MATH_TF32;
    const int64_t count = result_of(&fp32, a);
    CHECK(count > 0);
    CHECK_EQUAL(result_of(&tf32, b), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(b[i], a[i], test_on_cuda() ? 1e-2 : 0); /* Adam moves a weight by 1e-3 a step at most */
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(steps_may_be_divided_into_calls_in_any_way);
    RUN(no_launch_shape_changes_a_bit_of_steps_by_libraries);
    RUN(no_launch_shape_changes_a_bit_of_steps_in_one_kernel);
    if (!IN_RACE_CHECK)
        RUN(rows_by_id_from_ram_and_from_another_thread_train_alike);
    RUN(packed_and_linked_replays_train_alike);
    RUN(draws_follow_the_seed_and_are_not_those_of_the_replay);
    RUN(tensor_core_arithmetic_stays_close);
    gpur_device_close(device);
    return test_main_end();
}
