/* SPDX-License-Identifier: MIT */
/*
 * Training must give the same bits however its steps are divided into calls, for every launch shape, for rows by id and
 * from host memory, and with a second thread. tests/replay/test_frames_images.c compares the layouts of the replay.
 */
#include "test.h"
#include "base/status.h"
#include "learn/dqn/dqn.h"
#include "support/learner_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

enum { BATCH = 16, MAX_NUMBERS = 1 << 15, CALLS = 8, BUFFERS = 3 };

enum { SHAPE_STEPS = IN_RACE_CHECK ? 3 : 12, ROW_STEPS = 500 };

/* Where the rows of a step come from, and what else a run on given rows does. */
enum { SAMPLED, IDS, ACQUIRED_BATCH, OWN_MEMORY };
enum { SYNCS = 1, FILLS_IN_A_THREAD, FILLS_IN_A_THREAD_THAT_POLLS };

static gpur_device *device;

/* A training run: how the learner is created, and how it is trained. */
typedef struct run {
    int kind, filled;
    int32_t norm;
    gpur_dqn_config config;
    gpur_grid grid;
    gpur_fused_launch_config launch;
    int32_t large;        /* tiles of the matrix products in one kernel: 0 small, 1 large, -1 the default of each */
    int64_t calls[CALLS]; /* the steps of each call of gpur_learner_train */
    int rows[2], extra;   /* where the rows of even and odd steps come from, if not SAMPLED */
} run;

static learner_fixture fixture;

static gpur_dqn_config one_kernel_config(gpur_network_config network, int64_t batch)
{
    gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    config.network = network;
    config.network.init = GPUR_INIT_FAN_IN;
    config.batch_size = batch;
    config.step_kernel = GPUR_STEP_FUSED;
    return config;
}

static run run_of(gpur_dqn_config config)
{
    return (run){
        .filled = FIXTURE_ROWS, .norm = NOT_PRIORITIZED, .config = config, .large = -1, .calls = {SHAPE_STEPS}};
}

/* Step t of every run on given rows trains on the rows learner_fixture_ids(t), so all end with the same weights. Ids,
 * rows and buffers are overwritten as soon as the caller may do so: an upload that still reads them shows. */
static gpur_status train_on_rows(const run *r, gpur_learner *learner)
{
    static unsigned char memory[BATCH * MAX_ROW_BYTES];
    const int batch = (int)r->config.batch_size;
    for (int t = 0; t < ROW_STEPS; t++) {
        int64_t ids[BATCH];
        void *rows = memory;
        if (r->rows[t % 2] == ACQUIRED_BATCH)
            GPUR_TRY(gpur_learner_acquire_host_batch(learner, &rows));
        learner_fixture_ids(&fixture, t, batch, ids);
        learner_fixture_pack(&fixture, ids, batch, rows);
        if (r->rows[t % 2] == IDS)
            GPUR_TRY(gpur_learner_train_ids(learner, ids));
        else
            GPUR_TRY(gpur_learner_train_host_batch(learner, rows));
        memset(ids, 0xff, sizeof ids);
        memset(memory, 0xff, sizeof memory);
        if (r->extra == SYNCS)
            GPUR_TRY(gpur_learner_sync(learner));
    }
    return GPUR_OK;
}

/* One thread fills buffers, another trains on them. */
typedef struct prefetching {
    gpur_learner *learner;
    sem_t room, filled;
    void *waiting[BUFFERS];
    int polls; /* 1: poll gpur_learner_acquire_host_batch instead of waiting for room */
} prefetching;

static void *prefetch(void *context)
{
    prefetching *const p = context;
    for (int t = 0; t < ROW_STEPS; t++) {
        int64_t ids[BATCH];
        void *rows = NULL;
        learner_fixture_ids(&fixture, t, BATCH, ids);
        if (!p->polls)
            sem_wait(&p->room);
        gpur_status status = gpur_learner_acquire_host_batch(p->learner, &rows);
        for (; p->polls && status == GPUR_WOULD_BLOCK; status = gpur_learner_acquire_host_batch(p->learner, &rows))
            sched_yield();
        if (status == GPUR_OK)
            learner_fixture_pack(&fixture, ids, BATCH, rows);
        else
            test_fail(__FILE__, __LINE__);
        p->waiting[t % BUFFERS] = rows;
        sem_post(&p->filled);
    }
    return NULL;
}

static gpur_status train_on_prefetched_rows(const run *r, gpur_learner *learner)
{
    prefetching p = {.learner = learner, .polls = r->extra == FILLS_IN_A_THREAD_THAT_POLLS};
    pthread_t thread;
    gpur_status first = GPUR_OK;
    sem_init(&p.room, 0, BUFFERS);
    sem_init(&p.filled, 0, 0);
    if (pthread_create(&thread, NULL, prefetch, &p) != 0)
        return GPUR_DEVICE_ERROR;
    for (int t = 0; t < ROW_STEPS; t++) {
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

static gpur_status train(const run *r, gpur_learner *learner)
{
    gpur_dqn_of(learner)->fused.launch = r->launch;
    for (int i = 0;
         i < gpur_dqn_of(learner)->fused.args.gemm_count && r->large >= 0 && gpur_dqn_of(learner)->fused.step; i++)
        gpur_dqn_of(learner)->fused.args.gemms[i].large = r->large;
    if (r->rows[0] != SAMPLED)
        return (r->extra >= FILLS_IN_A_THREAD ? train_on_prefetched_rows : train_on_rows)(r, learner);
    for (int i = 0; i < CALLS; i++)
        GPUR_TRY(gpur_learner_train(learner, r->calls[i]));
    return GPUR_OK;
}

/* Trains, and reads the weights of both networks and the priorities. Returns how many numbers, or -1 on an error. */
static int64_t result_of(const run *r, float *values)
{
    gpur_learner *learner = NULL;
    int64_t online = -1, target = -1, priorities = 0;
    const int filled = r->filled < rows_of_kind(r->kind) ? r->filled : rows_of_kind(r->kind);
    gpur_device_force_grid(device, r->grid);
    gpur_status status = learner_fixture_open_kind(&fixture, device, r->kind, filled, r->norm);
    if (status == GPUR_OK)
        status = gpur_dqn_create(fixture.replay, &r->config, &learner);
    if (status == GPUR_OK)
        status = train(r, learner);
    if (status == GPUR_OK)
        online = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, values, MAX_NUMBERS);
    if (online > 0)
        target = learner_fixture_weights(learner, GPUR_WEIGHTS_TARGET, values + online, MAX_NUMBERS - online);
    if (target > 0 && r->norm != NOT_PRIORITIZED)
        priorities =
            learner_fixture_priorities(&fixture, values + online + target) == GPUR_OK ? FIXTURE_ROWS : -MAX_NUMBERS;
    if (status != GPUR_OK)
        fprintf(stderr, "%s\n", gpur_last_error());
    learner_fixture_close_learner(&fixture, learner);
    gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
    return target > 0 ? online + target + priorities : -1;
}

static void check_same(const run *a, const run *b, const char *what, int64_t which)
{
    static float x[MAX_NUMBERS + FIXTURE_ROWS], y[MAX_NUMBERS + FIXTURE_ROWS];
    const int64_t count = result_of(a, x), other = result_of(b, y);
    TEST_REQUIRE(count > 0 && other == count && memcmp(x, y, (size_t)count * sizeof *x) == 0, "%s %lld: other bits",
                 what, (long long)which);
}

TEST(steps_may_be_divided_into_calls_in_any_way)
{
    static const int64_t calls[][CALLS] = {{1, 8, 0, 255, 256, 80}, {300, 300}, {1, 1, 1, 1, 1, 1, 1, 1}};
    run whole = run_of(learner_fixture_config(GPUR_HEAD_DUELING, 1));
    for (int i = 0; i < 3; i++) {
        whole.calls[0] = i < 2 ? 600 : CALLS;
        whole.config.index_source = i < 2 ? GPUR_UNIFORM : GPUR_UNIFORM_DISTINCT;
        whole.config.target_period = i < 2 ? 20 : 3;
        run parts = whole;
        memcpy(parts.calls, calls[i], sizeof parts.calls);
        check_same(&whole, &parts, "division into calls", i);
    }
}

static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};

TEST(no_launch_shape_changes_a_bit_of_steps_by_libraries)
{
    for (int32_t norm = NOT_PRIORITIZED; norm <= GPUR_WEIGHT_NORM_MEMORY; norm += 2) {
        run first = run_of(learner_fixture_config(GPUR_HEAD_DUELING, 1));
        first.norm = norm, first.grid = grids[0];
        first.config.index_source = norm == NOT_PRIORITIZED ? GPUR_UNIFORM : GPUR_PRIORITIZED_STRATIFIED;
        for (int i = 1; i < 4; i++) {
            run other = first;
            other.grid = grids[i];
            check_same(&first, &other, norm == NOT_PRIORITIZED ? "uniform, grid" : "priorities, grid", i);
        }
    }
}

/* Several block sizes, grids, and 1 to 12 steps a launch. By priority, each step of a launch must sample by the
 * priorities that the step before wrote. */
static void check_launches(const run *first, const char *what)
{
    static const gpur_fused_launch_config launches[] = {{1, 32, 1},  {1, 64, 5}, {2, 96, 2},
                                                        {3, 128, 5}, {4, 16, 3}, {16, 256, 12}};
    run one = *first;
    one.launch = launches[0];
    for (int i = 1; i < 6; i += IN_RACE_CHECK ? 2 : 1) {
        run other = one;
        other.launch = launches[i];
        other.launch.threads = test_on_cuda() && launches[i].threads < 32 ? 32 : launches[i].threads;
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
        check_launches(&r, "tiles of the default, small or large size; launch");
    }
    run r = run_of(one_kernel_config(small, BATCH));
    r.norm = GPUR_WEIGHT_NORM_MEMORY, r.config.index_source = GPUR_PRIORITIZED_STRATIFIED,
    r.config.optimizer.clip_norm = 0.1f;
    check_launches(&r, "priorities, launch");
    r = run_of(one_kernel_config(tall, 270));
    r.kind = ROWS_WIDE, r.large = 1, r.calls[0] = 5;
    check_launches(&r, "sums in several parts, launch");
}

/* Rows from host memory need no rows in the replay: `filled` is 0 in most cases. */
TEST(rows_by_id_from_host_memory_and_from_another_thread_train_alike)
{
    static const struct {
        const char *name;
        int rows[2], extra, kind, buffers, filled;
    } cases[] = {
        {"ids, waited for", {IDS, IDS}, SYNCS, ROWS_PLAIN, 1, FIXTURE_ROWS},
        {"one buffer", {ACQUIRED_BATCH, ACQUIRED_BATCH}, 0, ROWS_PLAIN, 1, 0},
        {"two buffers", {ACQUIRED_BATCH, ACQUIRED_BATCH}, 0, ROWS_PLAIN, 2, 0},
        {"16 buffers", {ACQUIRED_BATCH, ACQUIRED_BATCH}, 0, ROWS_PLAIN, 16, FIXTURE_ROWS},
        {"own memory, one buffer", {OWN_MEMORY, OWN_MEMORY}, 0, ROWS_PLAIN, 1, 0},
        {"own memory, two buffers", {OWN_MEMORY, OWN_MEMORY}, 0, ROWS_PLAIN, 2, FIXTURE_ROWS},
        {"ids and rows", {IDS, OWN_MEMORY}, 0, ROWS_PLAIN, 2, FIXTURE_ROWS},
        {"another layout", {ACQUIRED_BATCH, ACQUIRED_BATCH}, 0, ROWS_WIDE, 2, 0},
        {"images", {OWN_MEMORY, OWN_MEMORY}, 0, ROWS_PLANES, 2, 0},
        {"a thread that waits", {ACQUIRED_BATCH}, FILLS_IN_A_THREAD, ROWS_PLAIN, BUFFERS, 0},
        {"a thread that polls", {ACQUIRED_BATCH}, FILLS_IN_A_THREAD_THAT_POLLS, ROWS_PLAIN, BUFFERS, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].kind == ROWS_PLANES && IS_WATCHED)
            continue;
        run ids =
            run_of(cases[i].kind == ROWS_PLANES ? conv_config(GPUR_CHW) : learner_fixture_config(GPUR_HEAD_DUELING, 1));
        ids.kind = cases[i].kind, ids.rows[0] = ids.rows[1] = IDS;
        run other = ids;
        other.config.host_batches = cases[i].buffers, other.filled = cases[i].filled, other.extra = cases[i].extra;
        memcpy(other.rows, cases[i].rows, sizeof other.rows);
        check_same(&ids, &other, cases[i].name, (int64_t)i);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(no_launch_shape_changes_a_bit_of_steps_by_libraries);
    RUN(no_launch_shape_changes_a_bit_of_steps_in_one_kernel);
    if (!IN_RACE_CHECK) {
        RUN(steps_may_be_divided_into_calls_in_any_way);
        RUN(rows_by_id_from_host_memory_and_from_another_thread_train_alike);
    }
    gpur_device_close(device);
    return test_main_end();
}
