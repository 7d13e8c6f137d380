/* SPDX-License-Identifier: MIT */
/* What gpur_writer_try_append_fields promises while other threads are at work, and which thread carries appends out. */
#include "device/cpu/cpu.h"
#include "support/gate_cpu.h"
#include "replay/sampler/consumer.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

/* One who looks in again and again, as soon as the lock is free. */
typedef struct onlooker {
    gpur_replay *replay;
    atomic_int stop, half_done; /* half_done: looks that found rows claimed and not committed */
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
TEST(an_append_that_waits_for_nobody_lets_nobody_in_between)
{
    enum { COUNT = 1000, FLOATS = 256, TURNS = 200 };
    static const gpur_field field = {"x", GPUR_FLOAT32, {FLOATS}};
    static float x[COUNT][FLOATS];
    gpur_replay_config config = kit_config(&field, 1, 20 * COUNT, 4 * COUNT + 1, 8);
    config.flush = GPUR_FLUSH_MANUAL;
    pthread_t thread;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    onlooker o = {.replay = s.replay};
    CHECK(pthread_create(&thread, NULL, look, &o) == 0);
    for (int taken = 0; taken < TURNS;)
        taken += gpur_writer_try_append_fields(s.writer, COUNT, (const void *[]){x}) == GPUR_OK;
    atomic_store(&o.stop, 1);
    pthread_join(thread, NULL);
    CHECK_EQUAL(s.replay->ingest.appended, TURNS * COUNT);
    CHECK_EQUAL(atomic_load(&o.half_done), 0);
    kit_close(&s);
}

/* A launch that stands still with the consumer's stream in its hands, as a long step inline does. */
typedef struct launch {
    gpur_replay *replay;
    gate *g;
    sem_t begun;
    gpur_status status;
} launch;

static void *stand_in_a_launch(void *context)
{
    launch *const l = context;
    gpur_stream *stream = NULL;
    l->status = gpur_consumer_begin(l->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream);
    sem_post(&l->begun);
    if (l->status == GPUR_OK)
        l->status = gate_close(l->g, stream);
    if (l->status == GPUR_OK)
        l->status = gpur_consumer_end(l->replay, GPUR_OK);
    return NULL;
}

/* One who appends, and says what came of it. */
typedef struct appender {
    gpur_writer *writer;
    int64_t count;
    sem_t answered;
    gpur_status status;
} appender;

static void *append(void *context)
{
    static const float x[64];
    appender *const a = context;
    a->status = gpur_writer_try_append_fields(a->writer, a->count, (const void *[]){x});
    sem_post(&a->answered);
    return NULL;
}

/* 1 when the answer to an append of `count` rows came without anybody opening the gate. */
static int answers(kit_scene *s, gate *g, int64_t count, gpur_status *status)
{
    appender a = {.writer = s->writer, .count = count};
    struct timespec until;
    pthread_t thread;
    sem_init(&a.answered, 0, 0);
    if (pthread_create(&thread, NULL, append, &a) != 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 600;
    const int in_time = sem_timedwait(&a.answered, &until) == 0;
    if (!in_time)
        gate_open(g);
    pthread_join(thread, NULL);
    sem_destroy(&a.answered);
    *status = a.status;
    return in_time;
}

/* A ring of 12, full or not, and blocks of 4: an append of 3 stays in its block, and one more fills it. */
static void check_amid_launch(int64_t held, gpur_status wanted)
{
    static const gpur_field field = {"x", GPUR_FLOAT32, {0}};
    const gpur_replay_config config = kit_config(&field, 1, 12, 4, 4);
    const struct timespec pause = {.tv_nsec = 20000000};
    gpur_status status[2];
    pthread_t thread;
    kit_scene s;
    gate g;
    gate_init(&g);
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int64_t n = 0; n < held; n++)
        CHECK_OK(gpur_writer_append_fields(s.writer, 1, (const void *[]){&(float){1}}, NULL, NULL));
    launch l = {.replay = s.replay, .g = &g};
    sem_init(&l.begun, 0, 0);
    CHECK(pthread_create(&thread, NULL, stand_in_a_launch, &l) == 0);
    while (sem_wait(&l.begun) != 0)
        ;
    nanosleep(&pause, NULL); /* it is at the gate by now; if not, the more is allowed */
    CHECK(answers(&s, &g, 3, &status[0]) && answers(&s, &g, 1, &status[1]));
    gate_open(&g);
    pthread_join(thread, NULL);
    CHECK_OK(l.status);
    CHECK_OK(status[0]);
    CHECK_STATUS(status[1], wanted);
    CHECK_EQUAL(s.replay->ingest.appended, held + 3 + (wanted == GPUR_OK));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, (const void *[]){&(float){1}}));
    CHECK_EQUAL(s.replay->window.launch_open, 0);
    kit_close(&s);
    sem_destroy(&l.begun);
    gate_destroy(&g);
}

TEST(an_append_that_waits_for_nobody_waits_for_no_launch)
{
    if (test_on_cuda() || test_executor() != GPUR_EXECUTOR_INLINE)
        return; /* there nobody holds a stream for longer than enqueuing takes */
    check_amid_launch(12, GPUR_WOULD_BLOCK);
    check_amid_launch(4, GPUR_OK);
}

/* An append that answers GPUR_WOULD_BLOCK must succeed later, when nobody else is at work: what can never have room is
 * refused by its count. Three blocks of 4, one of which has been flushed with a single row in it. */
TEST(no_append_would_block_for_ever)
{
    static const gpur_field field = {"x", GPUR_FLOAT32, {0}};
    static const float x[13];
    gpur_replay_config config = kit_config(&field, 1, 64, 4, 4);
    gpur_batch *batch = NULL;
    kit_scene s;
    config.staging_blocks = 3;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, (const void *[]){x}));
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_batch_sync(batch));
    gpur_batch_release(batch);
    CHECK_OK(gpur_device_sync(s.device));
    for (int64_t count = 13; count > 8; count--) {
        CHECK_STATUS(gpur_writer_try_append_fields(s.writer, count, (const void *[]){x}), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("at once it must be at most (staging_blocks - 1) x update_size = 8");
    }
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 8, (const void *[]){x}));
    CHECK_EQUAL(s.replay->ingest.appended, 9);
    kit_close(&s);
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
static int64_t parts_of(kit_scene *s, int64_t count, const void *x)
{
    gpur_cpu *const cpu = gpur_cpu_of(s->device);
    const gpur_cpu_entry *const entries = cpu->entries;
    static gpur_cpu_entry counted[GPUR_KERNEL_COUNT];
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
    enum { MOST = 8192, THREADS = 4 };
    static const gpur_field field = {"x", GPUR_UINT8, {1024}};
    const gpur_replay_config config = kit_config(&field, 1, 4 * MOST, MOST, 8);
    static unsigned char x[MOST][1024];
    gpur_device_config device_config = test_device_config();
    gpur_device *device = NULL;
    kit_scene s;
    device_config.threads = THREADS;
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &device));
    if (test_on_cuda() || test_executor() != GPUR_EXECUTOR_INLINE || !gpur_cpu_of(device)->entries) {
        gpur_device_close(device);
        return; /* elsewhere nothing goes straight, or the blocks are others */
    }
    CHECK(kit_open(&s, device, &config, 1));
    CHECK_EQUAL(parts_of(&s, 16, x), 1);
    CHECK_EQUAL(parts_of(&s, MOST - 1, x), 1);
    CHECK(parts_of(&s, MOST, x) >= device->threads);
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_append_that_waits_for_nobody_lets_nobody_in_between);
    RUN(an_append_that_waits_for_nobody_waits_for_no_launch);
    RUN(no_append_would_block_for_ever);
    RUN(appends_are_carried_out_by_their_thread_until_a_team_pays);
    return test_main_end();
}
