/* SPDX-License-Identifier: MIT */
/* Appends and steps while something stands still: what waits, what must not, and what is left when there is no room. */
#include "device/cpu/cpu.h"
#include "replay/replay.h"
#include "replay/sampler/consumer.h"
#include "support/episode_fixture.h"
#include "support/stream_gate.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {0}},     {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {0}},
                                    {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}},
                                    {"previous", GPUR_INT64, {0}}};
static const gpur_field number = {"x", GPUR_FLOAT32, {0}};
static const float zeros[64];

/* Copies can be held back by a gate: by the thread executor, which a stream's thread carries out. */
static int can_hold(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
}

/* Work is done by the thread that enqueues it. */
static int is_inline(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_INLINE;
}

static gpur_status take(gpur_writer *writer, int32_t t, int ends)
{
    const float reward = (float)(1 << t), next_obs = (float)(t + 1);
    const uint8_t terminated = ends != 0;
    return gpur_writer_step(writer, &t, &reward, &next_obs, &terminated, NULL);
}

/* Two blocks of three rows; n = 3, so that the last step of an episode makes three transitions. */
TEST(a_step_or_reset_that_may_not_wait_takes_all_rows_or_none_and_leaves_pending_steps_alone)
{
    static const float want[] = {7, 14, 28, 24, 16}; /* 1 + 2 + 4, 2 + 4 + 8, 4 + 8 + 16, 8 + 16, 16 */
    gpur_replay_config config = replay_fixture_config(fields, 7, 100, 3, 32);
    gpur_writer *wide = NULL;
    gpur_status status = GPUR_WOULD_BLOCK;
    float reward[5];
    int64_t previous[3];
    replay_fixture s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR, config.staging_blocks = 2, config.n_step = 3, config.gamma = 1;
    gate_init(&g);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_create(s.replay, 2, &wide), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 2; under GPUR_WHEN_FULL_ERROR a step of all must fit in 3 rows");
    CHECK_OK(gpur_writer_reset(s.writer, 0, zeros));
    if (can_hold())
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    for (int t = 0; t < 4; t++)
        CHECK_OK(take(s.writer, t, 0)); /* 2 rows, 2 steps pending */
    if (can_hold()) {
        CHECK_OK(gpur_writer_append(s.writer, 3, (const float[32]){0}, NULL)); /* one row is free in the second block */
        CHECK_STATUS(take(s.writer, 4, 1), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("there is room for 1 rows in the staging blocks; a step needs 3");
        CHECK_STATUS(gpur_writer_reset(s.writer, 0, zeros), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("a reset of open episodes needs 2");
        CHECK_EQUAL(rows_appended(s.replay), 5);
        gate_open(&g);
    }
    while (status == GPUR_WOULD_BLOCK)
        status = take(s.writer, 4, 1);
    CHECK_OK(status);
    const int64_t rest = can_hold() ? 5 : 2;
    CHECK_OK(read_rows(s.replay, "reward", 0, 2, reward, 4));
    CHECK_OK(read_rows(s.replay, "reward", rest, 3, reward + 2, 4));
    CHECK_OK(read_rows(s.replay, "previous", rest, 3, previous, 8));
    CHECK(memcmp(reward, want, sizeof want) == 0);
    CHECK(previous[0] == 1 && previous[1] == rest && previous[2] == rest + 1);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

/* Eight environments of which each row stores five frames anew, two rows a block; nine would be one too many. */
TEST(a_step_without_room_takes_no_row_and_no_frame)
{
    const unsigned char obs[8 * PLAYER_FRAME] = {1}, ends[8] = {0};
    const stack_shape shape = {4, 0};
    gpur_field stacks[PLAYER_FIELDS];
    gpur_replay_stats before = {.size = sizeof before}, after = before;
    gpur_writer_config writer = {.size = sizeof writer, .observations = GPUR_OBSERVATIONS_FRAMES, .num_envs = 9};
    gpur_status status = GPUR_OK;
    replay_fixture s;
    gate g;
    player_fields(stacks, shape);
    gpur_replay_config config = replay_fixture_config(stacks, 6, 64, 4, 8);
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4, config.extra_frames = 1;
    config.when_full = GPUR_WHEN_FULL_ERROR, config.staging_blocks = 5;
    gate_init(&g);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    gpur_writer_destroy(s.writer);
    CHECK_STATUS(gpur_writer_open(s.replay, &writer, &s.writer), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("must fit in 8 rows, those of staging_blocks - 1 blocks without a frame in common");
    writer.num_envs = 8;
    CHECK_OK(gpur_writer_open(s.replay, &writer, &s.writer));
    CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
    for (int i = 0; i < 8; i += status == GPUR_OK)
        status = gpur_writer_step(s.writer, zeros, zeros, obs, ends, NULL);
    if (can_hold()) {
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
        for (int i = 0; status == GPUR_OK && i < 100; i++) {
            CHECK_OK(gpur_replay_get_stats(s.replay, &before));
            status = gpur_writer_step(s.writer, zeros, zeros, obs, ends, NULL);
        }
        CHECK_STATUS(status, GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("a step needs 8");
        CHECK_OK(gpur_replay_get_stats(s.replay, &after));
        CHECK(after.appended == before.appended && after.frames_stored == before.frames_stored);
        gate_open(&g);
    }
    replay_fixture_close(&s);
    gate_destroy(&g);
}

TEST(an_append_that_may_not_wait_leaves_exactly_the_rest)
{
    enum { ROWS = 100, UPDATE = 6, BLOCKS = 3 };
    gpur_replay_config config = replay_fixture_config(fields, 7, 200, UPDATE, 64);
    int64_t taken = 0, done = 0, ids[50];
    replay_fixture s;
    gate g;
    config.when_full = GPUR_WHEN_FULL_ERROR, config.staging_blocks = BLOCKS;
    gate_init(&g);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    unsigned char *const rows = tagged_rows(&s.row_tags, 0, ROWS);
    if (can_hold()) { /* copies stand still: three blocks fill up */
        CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
        CHECK_STATUS(gpur_writer_append(s.writer, ROWS, rows, &taken), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("all 3 staging blocks of 6 rows are in use");
        CHECK_EQUAL(taken, BLOCKS * UPDATE);
        CHECK_EQUAL(rows_appended(s.replay), BLOCKS * UPDATE);
        gate_open(&g);
        done = taken;
    }
    while (done < ROWS) {
        const gpur_status status =
            gpur_writer_append(s.writer, ROWS - done, rows + done * s.row_tags.row_bytes, &taken);
        CHECK(status == GPUR_OK || status == GPUR_WOULD_BLOCK);
        CHECK((status == GPUR_OK) == (taken == ROWS - done));
        done += taken;
    }
    for (int half = 0; half < 2; half++) {
        for (int64_t b = 0; b < 50; b++)
            ids[b] = 50 * half + b;
        CHECK_OK(replay_fixture_gather(&s, 50, ids));
    }
    free(rows);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

/* A call on a thread of its own, and what came of it. */
typedef struct call {
    replay_fixture *scene;
    gate *gate;
    int64_t count;
    sem_t signal;
    atomic_int done;
    gpur_status status;
} call;

static void call_init(call *c, replay_fixture *s, gate *g, int64_t count)
{
    memset(c, 0, sizeof *c);
    c->scene = s, c->gate = g, c->count = count;
    sem_init(&c->signal, 0, 0);
}

/* 0: ten minutes went by without a word. */
static int call_wait(call *c)
{
    struct timespec limit;
    int failed = -1;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 600;
    while ((failed = sem_timedwait(&c->signal, &limit)) != 0 && errno == EINTR)
        ;
    return failed == 0;
}

static void *append_three_arrays(void *context)
{
    call *const c = context;
    void *arrays[GPUR_MAX_FIELDS];
    gpur_writer *writer = NULL;
    tagged_arrays(&c->scene->row_tags, 0, 3, arrays);
    c->status = gpur_writer_create(c->scene->replay, 1, &writer);
    if (c->status == GPUR_OK)
        c->status = gpur_writer_append_fields(writer, 3, (const void *const *)arrays, NULL, NULL);
    atomic_store(&c->done, 1);
    for (int32_t f = 0; f < c->scene->row_tags.count; f++)
        free(arrays[f]);
    gpur_writer_destroy(writer);
    return NULL;
}

static void *open_when_told(void *context)
{
    call *const c = context;
    call_wait(c);
    atomic_store(&c->done, 1);
    gate_open(c->gate);
    return NULL;
}

/* On the CPU the scatter feed reads any arrays where they lie. While they are not read, their own append waits, and
 * nobody else. */
TEST(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on)
{
    gpur_replay_config config = replay_fixture_plain_config(100, 10, 20, GPUR_FLUSH_AUTO);
    pthread_t threads[2];
    replay_fixture s;
    call append, opener;
    gate g;
    if (!can_hold())
        return;
    config.upload = GPUR_UPLOAD_SCATTER;
    gate_init(&g);
    call_init(&append, &s, &g, 3), call_init(&opener, &s, &g, 0);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    CHECK(pthread_create(&threads[0], NULL, append_three_arrays, &append) == 0);
    CHECK(pthread_create(&threads[1], NULL, open_when_told, &opener) == 0);
    while (rows_appended(s.replay) < 3)
        sched_yield();
    CHECK_OK(append_tagged(&s.row_tags, s.writer, 3, 5));
    CHECK_EQUAL(rows_appended(s.replay), 8);
    CHECK(!atomic_load(&append.done) && !atomic_load(&opener.done));
    sem_post(&opener.signal);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_OK(append.status);
    CHECK_OK(replay_fixture_gather(&s, 8, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}));
    replay_fixture_close(&s);
    gate_destroy(&g);
}

/* What gpur_writer_try_append_fields promises. */

TEST(an_append_at_once_takes_all_or_none)
{
    for (int32_t feed = GPUR_UPLOAD_COPY; feed <= GPUR_UPLOAD_SCATTER; feed++) {
        gpur_replay_config config = replay_fixture_config(&number, 1, 200, 6, 64);
        const void *const x[] = {zeros};
        replay_fixture s;
        config.upload = feed, config.staging_blocks = 3;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        gpur_ingest *const ingest = &s.replay->ingest;
        CHECK_OK(gpur_writer_try_append_fields(s.writer, 5, x));
        gpur_window_lock(s.replay);
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, x), GPUR_WOULD_BLOCK);
        CHECK_MESSAGE("1 transitions would have to wait; call again later, or gpur_writer_append_fields");
        gpur_window_unlock(s.replay);
        ingest->flushing++;
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, x), GPUR_WOULD_BLOCK);
        ingest->flushing--;
        ingest->staging.open->filled += 1; /* as if a row had been claimed */
        ingest->staging.spare.count = 1;   /* and another block were in use */
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 2 * 6, x), GPUR_WOULD_BLOCK);
        ingest->staging.open->filled -= 1;
        ingest->staging.spare.count = 2;
        CHECK_EQUAL(rows_appended(s.replay), 5);
        CHECK_OK(gpur_writer_try_append_fields(s.writer, 8, x));
        CHECK_OK(gpur_writer_try_append_fields(s.writer, 0, x));
        CHECK_EQUAL(rows_appended(s.replay), 13);
        replay_fixture_close(&s);
    }
}

/* Looks in again and again, as soon as the lock is free, for rows that are claimed and not committed. */
typedef struct onlooker {
    gpur_replay *replay;
    atomic_int stop, half_done;
} onlooker;

static void *look(void *context)
{
    const struct timespec pause = {.tv_nsec = 20000}; /* else nobody else would get the lock */
    onlooker *const o = context;
    while (!atomic_load(&o->stop)) {
        gpur_window_lock(o->replay);
        atomic_fetch_add(&o->half_done, o->replay->ingest.writing > 0);
        gpur_window_unlock(o->replay);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Blocks of 4 MB, of which an append fills a quarter: long enough to be looked in upon. */
TEST(an_append_at_once_lets_nobody_in_between)
{
    enum { COUNT = 1000, FLOATS = 256, TURNS = 200 };
    static const gpur_field field = {"x", GPUR_FLOAT32, {FLOATS}};
    static float x[COUNT][FLOATS];
    gpur_replay_config config = replay_fixture_config(&field, 1, 20 * COUNT, 4 * COUNT + 1, 8);
    pthread_t thread;
    replay_fixture s;
    config.flush = GPUR_FLUSH_MANUAL;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    onlooker o = {.replay = s.replay};
    CHECK(pthread_create(&thread, NULL, look, &o) == 0);
    for (int taken = 0; taken < TURNS;)
        taken += gpur_writer_try_append_fields(s.writer, COUNT, (const void *[]){x}) == GPUR_OK;
    atomic_store(&o.stop, 1);
    pthread_join(thread, NULL);
    CHECK_EQUAL(s.replay->ingest.appended, TURNS * COUNT);
    CHECK_EQUAL(atomic_load(&o.half_done), 0);
    replay_fixture_close(&s);
}

/* A launch that stands still with the consumer's stream in its hands, as a long step inline does. */
static void *stand_in_a_launch(void *context)
{
    call *const c = context;
    gpur_stream *stream = NULL;
    c->status = gpur_consumer_begin(c->scene->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream);
    sem_post(&c->signal);
    if (c->status == GPUR_OK)
        c->status = gate_close(c->gate, stream);
    if (c->status == GPUR_OK)
        c->status = gpur_consumer_end(c->scene->replay, GPUR_OK);
    return NULL;
}

static void *append_at_once(void *context)
{
    call *const c = context;
    c->status = gpur_writer_try_append_fields(c->scene->writer, c->count, (const void *[]){zeros});
    sem_post(&c->signal);
    return NULL;
}

/* 1 when the answer to an append of `count` rows came without anybody opening the gate. */
static int answers(replay_fixture *s, gate *g, int64_t count, gpur_status *status)
{
    pthread_t thread;
    call c;
    call_init(&c, s, g, count);
    if (pthread_create(&thread, NULL, append_at_once, &c) != 0)
        return 0;
    const int in_time = call_wait(&c);
    if (!in_time)
        gate_open(g);
    pthread_join(thread, NULL);
    *status = c.status;
    return in_time;
}

/* A ring of 12, full or not, and blocks of 4: an append of 3 stays in its block, and one more fills it. */
static void check_amid_launch(int64_t held, gpur_status wanted)
{
    const gpur_replay_config config = replay_fixture_config(&number, 1, 12, 4, 4);
    const struct timespec pause = {.tv_nsec = 20000000};
    gpur_status status[2];
    pthread_t thread;
    replay_fixture s;
    call launch;
    gate g;
    gate_init(&g);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int64_t n = 0; n < held; n++)
        CHECK_OK(gpur_writer_append_fields(s.writer, 1, (const void *[]){zeros}, NULL, NULL));
    call_init(&launch, &s, &g, 0);
    CHECK(pthread_create(&thread, NULL, stand_in_a_launch, &launch) == 0);
    CHECK(call_wait(&launch));
    nanosleep(&pause, NULL); /* it is at the gate by now; if not, the more is allowed */
    CHECK(answers(&s, &g, 3, &status[0]) && answers(&s, &g, 1, &status[1]));
    gate_open(&g);
    pthread_join(thread, NULL);
    CHECK_OK(launch.status);
    CHECK_OK(status[0]);
    CHECK_STATUS(status[1], wanted);
    CHECK_EQUAL(s.replay->ingest.appended, held + 3 + (wanted == GPUR_OK));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, (const void *[]){zeros}));
    CHECK_EQUAL(s.replay->window.launch_open, 0);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

TEST(an_append_at_once_waits_for_no_launch)
{
    if (!is_inline())
        return; /* elsewhere nobody holds a stream for longer than enqueuing takes */
    check_amid_launch(12, GPUR_WOULD_BLOCK);
    check_amid_launch(4, GPUR_OK);
}

/* An append that answers GPUR_WOULD_BLOCK must succeed later, when nobody else is at work: what can never have room is
 * refused by its count. Three blocks of 4, one of which has been flushed with a single row in it. */
TEST(no_append_would_block_for_ever)
{
    gpur_replay_config config = replay_fixture_config(&number, 1, 64, 4, 4);
    gpur_batch *batch = NULL;
    replay_fixture s;
    config.staging_blocks = 3;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, (const void *[]){zeros}));
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_batch_sync(batch));
    gpur_batch_release(batch);
    CHECK_OK(gpur_device_sync(s.device));
    for (int64_t count = 13; count > 8; count--) {
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, count, (const void *[]){zeros}), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("at once it must be at most (staging_blocks - 1) x block_rows = 8");
    }
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 8, (const void *[]){zeros}));
    CHECK_EQUAL(s.replay->ingest.appended, 9);
    replay_fixture_close(&s);
}

static int64_t most_parts;
static gpur_cpu_entry real_scatter;

static void count_parts(int64_t part, int64_t parts, const void *args)
{
    if (part == 0)
        most_parts = parts > most_parts ? parts : most_parts;
    real_scatter(part, parts, args);
}

/* Into how many parts the CPU shares out one append of rows of 1 KB. */
static int64_t parts_of(replay_fixture *s, int64_t count, const void *x)
{
    static gpur_cpu_entry counted[GPUR_KERNEL_COUNT];
    gpur_cpu *const cpu = gpur_cpu_of(s->device);
    const gpur_cpu_entry *const entries = cpu->entries;
    memcpy(counted, entries, sizeof counted);
    real_scatter = counted[GPUR_KERNEL_ID_scatter];
    counted[GPUR_KERNEL_ID_scatter] = count_parts, most_parts = 0;
    cpu->entries = counted;
    const gpur_status status = gpur_writer_append_fields(s->writer, count, (const void *[]){x}, NULL, NULL);
    cpu->entries = entries;
    return status == GPUR_OK ? most_parts : -1;
}

TEST(appends_are_carried_out_by_their_thread_until_a_team_pays)
{
    enum { ROWS = 8192, THREADS = 4 };
    static const gpur_field field = {"x", GPUR_UINT8, {1024}};
    static unsigned char x[ROWS][1024];
    const gpur_replay_config config = replay_fixture_config(&field, 1, 4 * ROWS, ROWS, 8);
    gpur_device_config device_config = test_device_config();
    gpur_device *device = NULL;
    replay_fixture s;
    device_config.threads = THREADS;
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &device));
    if (!is_inline() || !gpur_cpu_of(device)->entries) {
        gpur_device_close(device);
        return; /* elsewhere nothing goes straight, or the blocks are others */
    }
    CHECK(replay_fixture_open(&s, device, &config, 1));
    CHECK_EQUAL(parts_of(&s, 16, x), 1);
    CHECK_EQUAL(parts_of(&s, ROWS - 1, x), 1);
    CHECK(parts_of(&s, ROWS, x) >= device->threads);
    replay_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_step_or_reset_that_may_not_wait_takes_all_rows_or_none_and_leaves_pending_steps_alone);
    RUN(a_step_without_room_takes_no_row_and_no_frame);
    RUN(an_append_that_may_not_wait_leaves_exactly_the_rest);
    RUN(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on);
    RUN(an_append_at_once_takes_all_or_none);
    RUN(an_append_at_once_lets_nobody_in_between);
    RUN(an_append_at_once_waits_for_no_launch);
    RUN(no_append_would_block_for_ever);
    RUN(appends_are_carried_out_by_their_thread_until_a_team_pays);
    return test_main_end();
}
