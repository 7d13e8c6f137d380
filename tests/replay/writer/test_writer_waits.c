/* SPDX-License-Identifier: MIT */
/* Appends and steps while copies or a launch are held back: what waits, what must not, and what a refused call leaves.
 */
#include "device/cpu/cpu.h"
#include "replay/replay.h"
#include "replay/sampler/consumer.h"
#include "support/episode_fixture.h"
#include "support/stream_gate.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

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

/* Work is done by the thread that enqueues it; with other executors nothing goes straight to the ring. */
static int is_inline(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_INLINE;
}

/* A replay whose calls answer GPUR_WOULD_BLOCK when its staging blocks are full. */
static int open_without_waits(replay_fixture *s, gate *g, gpur_replay_config *config, int32_t staging_blocks)
{
    config->when_full = GPUR_WHEN_FULL_ERROR, config->staging_blocks = staging_blocks;
    gate_init(g);
    return replay_fixture_open(s, test_device(), config, 1);
}

static gpur_status step(gpur_writer *writer, int32_t t, int ends)
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
    config.n_step = 3, config.gamma = 1;
    CHECK(open_without_waits(&s, &g, &config, 2));
    CHECK_STATUS(gpur_writer_create(s.replay, 2, &wide), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("num_envs is 2; under GPUR_WHEN_FULL_ERROR a step of all must fit in 3 rows");
    CHECK_OK(gpur_writer_reset(s.writer, 0, zeros));
    CHECK_OK(gate_close(&g, s.replay->copy_stream));
    for (int t = 0; t < 4; t++)
        CHECK_OK(step(s.writer, t, 0));                                    /* 2 rows, 2 steps pending */
    CHECK_OK(gpur_writer_append(s.writer, 3, (const float[32]){0}, NULL)); /* one row is free in the second block */
    CHECK_STATUS(step(s.writer, 4, 1), GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("there is room for 1 rows in the staging blocks; a step needs 3");
    CHECK_FAILS(gpur_writer_reset(s.writer, 0, zeros), GPUR_WOULD_BLOCK, "a reset of open episodes needs 2");
    CHECK_EQUAL(rows_appended(s.replay), 5);
    gate_open(&g);
    while (status == GPUR_WOULD_BLOCK)
        status = step(s.writer, 4, 1);
    CHECK_OK(status);
    CHECK_OK(read_rows(s.replay, "reward", 0, 2, reward, 4));
    CHECK_OK(read_rows(s.replay, "reward", 5, 3, reward + 2, 4));
    CHECK_OK(read_rows(s.replay, "previous", 5, 3, previous, 8));
    CHECK(memcmp(reward, want, sizeof want) == 0);
    CHECK(previous[0] == 1 && previous[1] == 5 && previous[2] == 6);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

/* Eight environments of which each row stores five new frames, two rows a block; nine would be one too many. */
TEST(a_step_without_room_takes_no_row_and_no_frame)
{
    const unsigned char obs[8 * PLAYER_FRAME] = {1}, ends[8] = {0};
    gpur_field stacks[PLAYER_FIELDS];
    gpur_writer_config writer = {.size = sizeof writer, .observations = GPUR_OBSERVATIONS_FRAMES, .num_envs = 9};
    gpur_status status = GPUR_OK;
    replay_fixture s;
    gate g;
    player_fields(stacks, (stack_shape){4, 0});
    gpur_replay_config config = replay_fixture_config(stacks, 6, 64, 4, 8);
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4, config.extra_frames = 1;
    CHECK(open_without_waits(&s, &g, &config, 5));
    gpur_writer_destroy(s.writer);
    CHECK_STATUS(gpur_writer_open(s.replay, &writer, &s.writer), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("must fit in 8 rows, those of staging_blocks - 1 blocks without a frame in common");
    writer.num_envs = 8;
    CHECK_OK(gpur_writer_open(s.replay, &writer, &s.writer));
    CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
    for (int i = 0; i < 8; i += status == GPUR_OK)
        status = gpur_writer_step(s.writer, zeros, zeros, obs, ends, NULL);
    gpur_replay_stats before = replay_fixture_stats(s.replay);
    CHECK_OK(gate_close(&g, s.replay->copy_stream));
    for (int i = 0; status == GPUR_OK && i < 100; i++) {
        before = replay_fixture_stats(s.replay);
        status = gpur_writer_step(s.writer, zeros, zeros, obs, ends, NULL);
    }
    CHECK_FAILS(status, GPUR_WOULD_BLOCK, "a step needs 8");
    const gpur_replay_stats after = replay_fixture_stats(s.replay);
    CHECK(after.appended == before.appended && after.frames_stored == before.frames_stored);
    gate_open(&g);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

TEST(an_append_that_may_not_wait_leaves_exactly_the_rest)
{
    enum { ROWS = 60, BLOCK_ROWS = 6, BLOCKS = 3 };
    gpur_replay_config config = replay_fixture_config(fields, 7, 200, BLOCK_ROWS, 64);
    int64_t taken = 0, ids[ROWS];
    replay_fixture s;
    gate g;
    CHECK(open_without_waits(&s, &g, &config, BLOCKS));
    unsigned char *const rows = tagged_rows(&s.row_tags, 0, ROWS);
    CHECK_OK(gate_close(&g, s.replay->copy_stream));
    CHECK_STATUS(gpur_writer_append(s.writer, ROWS, rows, &taken), GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("all 3 staging blocks of 6 rows are in use");
    CHECK_EQUAL(taken, BLOCKS * BLOCK_ROWS);
    CHECK_EQUAL(rows_appended(s.replay), BLOCKS * BLOCK_ROWS);
    gate_open(&g);
    for (int64_t done = taken; done < ROWS; done += taken) {
        const gpur_status status =
            gpur_writer_append(s.writer, ROWS - done, rows + done * s.row_tags.row_bytes, &taken);
        CHECK(status == GPUR_OK || status == GPUR_WOULD_BLOCK);
        CHECK((status == GPUR_OK) == (taken == ROWS - done));
    }
    for (int64_t b = 0; b < ROWS; b++)
        ids[b] = b;
    CHECK_OK(replay_fixture_gather(&s, ROWS, ids));
    free(rows);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

/* A call on a thread of its own. */
typedef struct call {
    replay_fixture *fixture;
    gate *gate;
    sem_t begun;
    atomic_int done;
    gpur_status status;
} call;

static void *append_three_arrays(void *context)
{
    call *const c = context;
    c->status = replay_fixture_append_fields(c->fixture, 3);
    atomic_store(&c->done, 1);
    return NULL;
}

/* On the CPU the scatter upload reads any arrays in place. While they are not read, their own append waits, and nobody
 * else. A call that waits all the same is ended by the alarm, here and below. */
TEST(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on)
{
    gpur_replay_config config = replay_fixture_plain_config(100, 10, 20, GPUR_FLUSH_AUTO);
    gpur_writer *other = NULL;
    pthread_t thread;
    replay_fixture s;
    call append = {.fixture = &s};
    gate g;
    config.upload = GPUR_UPLOAD_SCATTER;
    gate_init(&g);
    alarm(600);
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_create(s.replay, 1, &other));
    CHECK_OK(gate_close(&g, s.replay->copy_stream));
    CHECK(pthread_create(&thread, NULL, append_three_arrays, &append) == 0);
    while (rows_appended(s.replay) < 3)
        sched_yield();
    CHECK_OK(append_tagged(&s.row_tags, other, 3, 5));
    CHECK_EQUAL(rows_appended(s.replay), 8);
    CHECK(!atomic_load(&append.done));
    gate_open(&g);
    pthread_join(thread, NULL);
    CHECK_OK(append.status);
    CHECK_OK(replay_fixture_gather(&s, 8, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}));
    alarm(0);
    gpur_writer_destroy(other);
    replay_fixture_close(&s);
    gate_destroy(&g);
}

TEST(an_append_at_once_takes_all_or_none)
{
    for (int32_t upload = GPUR_UPLOAD_COPY; upload <= GPUR_UPLOAD_SCATTER; upload++) {
        gpur_replay_config config = replay_fixture_config(&number, 1, 200, 6, 64);
        const void *const x[] = {zeros};
        replay_fixture s;
        config.upload = upload, config.staging_blocks = 3;
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

/* Looks again and again, as soon as the lock is free, for rows that are claimed and not committed. */
static replay_fixture watched;
static atomic_int watch_ends, half_done;

static void *watch(void *unused)
{
    const struct timespec pause = {.tv_nsec = 20000}; /* else nobody else would get the lock */
    while (!atomic_load(&watch_ends)) {
        gpur_window_lock(watched.replay);
        atomic_fetch_add(&half_done, watched.replay->ingest.writing > 0);
        gpur_window_unlock(watched.replay);
        nanosleep(&pause, NULL);
    }
    return unused;
}

/* Blocks of 4 MB, of which an append fills a quarter: long enough for the watching thread to look. */
TEST(an_append_at_once_lets_nobody_in_between)
{
    enum { COUNT = 1000, FLOATS = 256, TURNS = 200 };
    static const gpur_field field = {"x", GPUR_FLOAT32, {FLOATS}};
    static float x[COUNT][FLOATS];
    gpur_replay_config config = replay_fixture_config(&field, 1, 20 * COUNT, 4 * COUNT + 1, 8);
    pthread_t thread;
    config.flush = GPUR_FLUSH_MANUAL;
    CHECK(replay_fixture_open(&watched, test_device(), &config, 1));
    CHECK(pthread_create(&thread, NULL, watch, NULL) == 0);
    for (int taken = 0; taken < TURNS;)
        taken += gpur_writer_try_append_fields(watched.writer, COUNT, (const void *[]){x}) == GPUR_OK;
    atomic_store(&watch_ends, 1);
    pthread_join(thread, NULL);
    CHECK_EQUAL(watched.replay->ingest.appended, TURNS * COUNT);
    CHECK_EQUAL(atomic_load(&half_done), 0);
    replay_fixture_close(&watched);
}

/* A launch that waits while it holds the consumer's stream, as a long step inline does. */
static void *wait_in_a_launch(void *context)
{
    call *const c = context;
    gpur_stream *stream = NULL;
    c->status = gpur_consumer_begin(c->fixture->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream);
    sem_post(&c->begun);
    if (c->status == GPUR_OK)
        c->status = gate_close(c->gate, stream);
    if (c->status == GPUR_OK)
        c->status = gpur_consumer_end(c->fixture->replay, GPUR_OK);
    return NULL;
}

/* A ring of 12, full or not, and blocks of 4: an append of 3 stays in its block, and one more fills it. With other
 * executors nobody holds a stream for longer than enqueuing takes. */
TEST(an_append_at_once_waits_for_no_launch)
{
    for (int64_t rows = 4; rows <= 12; rows += 8) {
        const gpur_status wanted = rows == 12 ? GPUR_WOULD_BLOCK : GPUR_OK;
        const gpur_replay_config config = replay_fixture_config(&number, 1, 12, 4, 4);
        const struct timespec pause = {.tv_nsec = 20000000};
        const void *const x[] = {zeros};
        pthread_t thread;
        replay_fixture s;
        gate g;
        call launch = {.fixture = &s, .gate = &g};
        gate_init(&g);
        sem_init(&launch.begun, 0, 0);
        alarm(600);
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        for (int64_t n = 0; n < rows; n++)
            CHECK_OK(gpur_writer_append_fields(s.writer, 1, x, NULL, NULL));
        CHECK(pthread_create(&thread, NULL, wait_in_a_launch, &launch) == 0);
        sem_wait(&launch.begun);
        nanosleep(&pause, NULL); /* it is at the gate by now; if not, the more is allowed */
        CHECK_OK(gpur_writer_try_append_fields(s.writer, 3, x));
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, x), wanted);
        gate_open(&g);
        pthread_join(thread, NULL);
        alarm(0);
        CHECK_OK(launch.status);
        CHECK_EQUAL(s.replay->ingest.appended, rows + 3 + (wanted == GPUR_OK));
        CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, x));
        CHECK_EQUAL(s.replay->window.launch_open, 0);
        replay_fixture_close(&s);
        sem_destroy(&launch.begun);
        gate_destroy(&g);
    }
}

/* An append that answers GPUR_WOULD_BLOCK must succeed later, when nobody else is at work: what can never have room is
 * refused by its count. Three blocks of 4, one of which has been flushed with a single row in it. */
TEST(no_append_would_block_for_ever)
{
    gpur_replay_config config = replay_fixture_config(&number, 1, 64, 4, 4);
    const void *const x[] = {zeros};
    replay_fixture s;
    config.staging_blocks = 3;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, x));
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(gpur_device_sync(s.device));
    for (int64_t count = 13; count > 8; count--) {
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, count, x), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("at once it must be at most (staging_blocks - 1) x block_rows = 8");
    }
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 8, x));
    CHECK_EQUAL(s.replay->ingest.appended, 9);
    replay_fixture_close(&s);
}

static int64_t max_parts;
static gpur_cpu_entry real_scatter;

static void count_parts(int64_t part, int64_t parts, const void *args)
{
    if (part == 0)
        max_parts = parts > max_parts ? parts : max_parts;
    real_scatter(part, parts, args);
}

TEST(appends_are_carried_out_by_their_thread_until_more_threads_pay)
{
    enum { ROWS = 8192, THREADS = 4 };
    static const gpur_field field = {"x", GPUR_UINT8, {1024}};
    static const int64_t counts[] = {16, ROWS - 1, ROWS};
    static unsigned char x[ROWS][1024];
    static gpur_cpu_entry counted[GPUR_KERNEL_COUNT];
    const gpur_replay_config config = replay_fixture_config(&field, 1, 4 * ROWS, ROWS, 8);
    gpur_device_config device_config = test_device_config();
    gpur_device *device = NULL;
    replay_fixture s;
    device_config.threads = THREADS;
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &device));
    if (!gpur_cpu_of(device)->entries) { /* the race check's blocks are others */
        gpur_device_close(device);
        return;
    }
    CHECK(replay_fixture_open(&s, device, &config, 1));
    const gpur_cpu_entry *const entries = gpur_cpu_of(device)->entries;
    memcpy(counted, entries, sizeof counted);
    real_scatter = counted[GPUR_KERNEL_ID_scatter];
    counted[GPUR_KERNEL_ID_scatter] = count_parts;
    gpur_cpu_of(device)->entries = counted;
    for (int i = 0; i < 3; i++) {
        max_parts = 0;
        CHECK_OK(gpur_writer_append_fields(s.writer, counts[i], (const void *[]){x}, NULL, NULL));
        CHECK(counts[i] < ROWS ? max_parts == 1 : max_parts >= device->threads);
    }
    gpur_cpu_of(device)->entries = entries;
    replay_fixture_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (can_hold()) {
        RUN(a_step_or_reset_that_may_not_wait_takes_all_rows_or_none_and_leaves_pending_steps_alone);
        RUN(a_step_without_room_takes_no_row_and_no_frame);
        RUN(an_append_that_may_not_wait_leaves_exactly_the_rest);
        RUN(an_append_that_waits_for_its_arrays_to_be_read_lets_others_go_on);
    }
    RUN(an_append_at_once_takes_all_or_none);
    RUN(an_append_at_once_lets_nobody_in_between);
    if (is_inline()) {
        RUN(an_append_at_once_waits_for_no_launch);
        RUN(appends_are_carried_out_by_their_thread_until_more_threads_pay);
    }
    RUN(no_append_would_block_for_ever);
    return test_main_end();
}
