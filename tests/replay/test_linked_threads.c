/* SPDX-License-Identifier: MIT */
/* Threads step environments into a small linked replay while others draw: no frame is torn, stale or another's. */
#include "support/history_kit.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/sampler.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ENVS = 3, EACH = 1500, LONG_EACH = 60000, STACK = 3, FIELDS = 6, BATCH = 12 };

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_UINT8, {STACK, PLAY_FRAME}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_UINT8, {STACK, PLAY_FRAME}}, {"terminated", GPUR_BOOL, {0}}, {"tag", GPUR_INT64, {0}}};

typedef struct crowd {
    gpur_replay *replay;
    int64_t each;
    atomic_int first, writing;
} crowd;

/* Frames are numbered within a stream of experience; step t of it is from frame t to frame t + 1. An episode begins at
 * every frame that `begins` says. */
static int begins(int64_t frame)
{
    return frame % 7 == 0 || frame % 50 == 3;
}

static int64_t tag_of(int64_t stream, int64_t frame)
{
    return stream << 32 | frame;
}

static void frame_bytes(unsigned char *to, int64_t tag)
{
    const play_shape one = {1, 0};
    play_stack(to, one, &tag);
}

/* The frame that begins an episode is that of the step before, too: its last observation. */
static gpur_status step(gpur_writer *writer, int64_t stream, int64_t t)
{
    unsigned char obs[ENVS][PLAY_FRAME];
    const void *extras[FIELDS] = {0};
    int64_t tags[ENVS];
    int32_t action[ENVS] = {0};
    float reward[ENVS] = {0};
    uint8_t ends[ENVS];
    for (int e = 0; e < ENVS; e++) {
        tags[e] = tag_of(stream * ENVS + e, t);
        frame_bytes(obs[e], tags[e]);
        if (begins(t))
            GPUR_TRY(gpur_writer_reset(writer, e, obs[e]));
        frame_bytes(obs[e], tags[e] + 1);
        ends[e] = (uint8_t)begins(t + 1);
    }
    extras[FIELDS - 1] = tags;
    const gpur_step_input input = {sizeof input, action, reward, obs, ends, NULL, NULL, extras};
    return gpur_writer_step_with(writer, &input);
}

static void play_stream(crowd *c, gpur_writer *writer, int64_t stream)
{
    uint64_t random = (uint64_t)stream + 1;
    for (int64_t t = 0; t < c->each; t++) {
        CHECK_OK(step(writer, stream, t));
        if (kit_below(&random, 20) == 0)
            CHECK_OK(gpur_writer_flush(writer));
    }
}

static void *write_steps(void *context)
{
    crowd *const c = context;
    gpur_writer_config config;
    gpur_writer *writer = NULL;
    gpur_writer_config_init(&config, sizeof config);
    config.num_envs = ENVS, config.input = GPUR_INPUT_FRAMES;
    if (gpur_writer_open(c->replay, &config, &writer) == GPUR_OK)
        play_stream(c, writer, atomic_fetch_add(&c->first, 1));
    else
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    atomic_fetch_sub(&c->writing, 1);
    return NULL;
}

/* The stack up to a frame, of an episode that began at or before frame `from`. */
static int is_stack(const unsigned char *got, int64_t tag, int64_t from)
{
    unsigned char want[STACK * PLAY_FRAME];
    int64_t tags[STACK], frame = tag & 0xffffffff, open = 1;
    const play_shape shape = {STACK, 0};
    for (int j = STACK - 1; j >= 0; j--, frame--) {
        tags[j] = open ? tag - (STACK - 1 - j) : HISTORY_NO_FRAME;
        open = open && !(frame <= from && begins(frame));
    }
    play_stack(want, shape, tags);
    return memcmp(want, got, sizeof want) == 0;
}

static void check_batch(gpur_batch *batch)
{
    unsigned char obs[BATCH][STACK * PLAY_FRAME], next[BATCH][STACK * PLAY_FRAME];
    int64_t tags[BATCH];
    const int64_t n = gpur_batch_count(batch);
    CHECK_OK(gpur_batch_read(batch, "obs", obs, n * STACK * PLAY_FRAME));
    CHECK_OK(gpur_batch_read(batch, "next_obs", next, n * STACK * PLAY_FRAME));
    CHECK_OK(gpur_batch_read(batch, "tag", tags, n * 8));
    for (int64_t b = 0; b < n; b++) {
        CHECK(is_stack(obs[b], tags[b], tags[b] & 0xffffffff));
        CHECK(is_stack(next[b], tags[b] + 1, tags[b] & 0xffffffff));
    }
}

/* Half of them by id: what is visible may have left by then, and the call is refused. */
static void draw_once(crowd *c, int64_t i)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_batch *batch = NULL;
    int64_t ids[BATCH];
    CHECK_OK(gpur_replay_get_stats(c->replay, &stats));
    for (int64_t b = 0; b < BATCH; b++)
        ids[b] = stats.first_id + (stats.visible > 0 ? (b + i) % stats.visible : 0);
    const gpur_status status = i % 2 ? gpur_replay_gather(c->replay, 1 + i % BATCH, ids, NULL, &batch)
                                     : gpur_replay_sample(c->replay, 1 + i % BATCH, NULL, &batch);
    CHECK(status == GPUR_OK || status == GPUR_TOO_FEW || (i % 2 && status == GPUR_EVICTED));
    if (status == GPUR_OK)
        check_batch(batch);
    gpur_batch_release(batch);
}

static void *draw_batches(void *context)
{
    crowd *const c = context;
    for (int64_t i = 0; atomic_load(&c->writing) > 0; i++)
        draw_once(c, i);
    return NULL;
}

static void run_crowd(crowd *c)
{
    pthread_t threads[THREADS + 2];
    atomic_store(&c->writing, THREADS);
    for (int i = 0; i < THREADS + 2; i++)
        CHECK(pthread_create(&threads[i], NULL, i < THREADS ? write_steps : draw_batches, c) == 0);
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(threads[i], NULL);
}

TEST(draws_beside_writers_see_whole_stacks_of_the_right_frames)
{
    for (int32_t flush = GPUR_FLUSH_AUTO; flush <= GPUR_FLUSH_MANUAL; flush++) {
        gpur_device *const device = test_device();
        gpur_replay_config config = kit_config(fields, FIELDS, 60, 5, BATCH);
        crowd c = {.each = test_is_long() ? LONG_EACH : EACH};
#if defined(__SANITIZE_THREAD__) || defined(GPUR_RACE_CHECK)
        c.each /= 10;
#endif
        config.layout = GPUR_LINKED, config.frame_stack = STACK, config.flush = flush, config.frame_slack = 5;
        CHECK_OK(gpur_replay_create(device, &config, &c.replay));
        run_crowd(&c);
        draw_once(&c, 0);
        gpur_replay_destroy(c.replay);
        gpur_device_close(device);
    }
}

typedef struct launch {
    gpur_replay *replay;
    gpur_stream *stream;
    gpur_drawing drawing;
    uint32_t *links; /* and behind them a stack */
    atomic_int done;
} launch;

static gpur_status prepare(launch *l, gpur_device *device)
{
    GPUR_TRY(gpur_memory_alloc(device, 256 + STACK * PLAY_FRAME, "the test", (void **)&l->links));
    const gpur_draw_field obs = {0, (unsigned char *)l->links + 256, STACK * PLAY_FRAME};
    const gpur_draw_request request = {
        .fields = &obs, .field_count = 1, .source = GPUR_UNIFORM, .rows = 1, .links = l->links};
    return gpur_drawing_prepare(l->replay, &request, &l->drawing);
}

static void *enqueue(void *context)
{
    launch *const l = context;
    const gpur_sample_args args = {.user = GPUR_USER_CALLER};
    if (gpur_sample_enqueue(l->replay, gpur_sampler_of(GPUR_UNIFORM), &args, &l->drawing, l->stream) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    atomic_store(&l->done, 1);
    return NULL;
}

/* Rows and frames are two launches, and whoever overwrites frames does so behind what is enqueued when their rows
 * leave, under the window lock. So nobody must come between the two: while that lock is held, a draw does not end. */
TEST(no_append_comes_between_the_rows_of_a_draw_and_their_frames)
{
    gpur_device *const device = test_device();
    gpur_replay_config config = kit_config(fields, FIELDS, 60, 5, BATCH);
    const struct timespec moment = {0, 50000000};
    crowd c = {.each = 10};
    launch l = {0};
    pthread_t thread;
    config.layout = GPUR_LINKED, config.frame_stack = STACK;
    CHECK_OK(gpur_replay_create(device, &config, &c.replay));
    l.replay = c.replay;
    write_steps(&c);
    CHECK_OK(prepare(&l, device));
    CHECK_OK(gpur_consumer_begin(c.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &l.stream));
    gpur_window_lock(c.replay);
    CHECK(pthread_create(&thread, NULL, enqueue, &l) == 0);
    nanosleep(&moment, NULL);
    CHECK_EQUAL(atomic_load(&l.done), 0);
    gpur_window_unlock(c.replay);
    pthread_join(thread, NULL);
    CHECK_EQUAL(atomic_load(&l.done), 1);
    CHECK_OK(gpur_stream_sync(l.stream));
    CHECK_OK(gpur_consumer_end(c.replay, GPUR_OK));
    gpur_memory_free(device, l.links);
    gpur_replay_destroy(c.replay);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(no_append_comes_between_the_rows_of_a_draw_and_their_frames);
    RUN(draws_beside_writers_see_whole_stacks_of_the_right_frames);
    return test_main_end();
}
