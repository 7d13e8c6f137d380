/* SPDX-License-Identifier: MIT */
/* The frames layout: how often a frame is stored, which rows stay visible, how many environments fit. */
#include "replay/replay.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/sampler.h"
#include "support/episode_fixture.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

static const layouts_setting usual = {
    .shape = {4, 0},
    .writers = 1,
    .envs = 1,
    .ends_in = 1000000000,
    .capacity = 256,
    .block_rows = 16,
    .max_batch = 16,
    .n_step = 1,
    .staging_blocks = 3,
};

static gpur_replay_stats stats_of(const layouts_fixture *w, int replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_replay_get_stats(w->replays[replay], &stats);
    return stats;
}

static gpur_status run_steps(layouts_fixture *w, int writer, int64_t count, int flushes)
{
    for (int64_t i = 0; i < count; i++) {
        GPUR_TRY(player_step(&w->players[writer]));
        for (int r = 0; flushes && r < LAYOUTS_REPLAYS; r++)
            GPUR_TRY(gpur_writer_flush(w->players[writer].writers[r]));
    }
    return GPUR_OK;
}

/* And the capacity is the number of visible rows, however few rows are published at a time. */
TEST(every_frame_is_uploaded_once_and_a_full_replay_has_capacity_rows)
{
    for (int i = 0; i < 4; i++) {
        const int many = i % 2, flushes = i / 2;
        layouts_setting setting = usual;
        layouts_fixture w;
        setting.envs = many ? 8 : 1, setting.n_step = many ? 3 : 1;
        setting.extra_frames = 80; /* (4 + 2 x 3) frames of each of 8 environments */
        CHECK(layouts_fixture_open(&w, test_device(), &setting, 1));
        CHECK_EQUAL(stats_of(&w, 1).frames_stored, 0);
        for (int step = 0; step < 300; step++) {
            CHECK_OK(run_steps(&w, 0, 1, flushes));
            CHECK_EQUAL(gpur_replay_size(w.replays[1]),
                        w.all.count < setting.capacity ? w.all.count : setting.capacity);
        }
        layouts_fixture_end_writers(&w);
        const gpur_replay_stats stats = stats_of(&w, 1);
        const int64_t rows = 300 * setting.envs, frames = 301 * setting.envs;
        CHECK_EQUAL(stats.appended, rows);
        CHECK_EQUAL(stats.frames_stored, frames);
        CHECK_EQUAL(stats_of(&w, 2).frames_stored, frames);
        CHECK_EQUAL(stats.bytes_uploaded,
                    rows * w.replays[1]->layout.rows.pitch + frames * w.replays[1]->layout.frame_layout.pitch);
        CHECK_EQUAL(layouts_fixture_wrong(&w, setting.capacity), 0);
        layouts_fixture_close(&w);
    }
}

/* One frame more an episode: its last observation is stored like any other, and so is its first. */
TEST(episodes_of_one_step_cost_two_frames_each_and_a_reset_nothing)
{
    layouts_setting setting = usual;
    layouts_fixture w;
    setting.ends_in = 1;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 2));
    for (int i = 0; i < 50; i++)
        CHECK_OK(player_reset(&w.players[0], -1));
    CHECK_EQUAL(stats_of(&w, 1).frames_stored, 0);
    CHECK_OK(run_steps(&w, 0, 400, 0));
    CHECK_EQUAL(stats_of(&w, 1).frames_stored, 800);
    CHECK_EQUAL(layouts_fixture_wrong(&w, setting.max_batch), 0);
    CHECK(stats_of(&w, 1).visible >= setting.capacity / 2 - setting.block_rows);
    layouts_fixture_close(&w);
}

TEST(a_slow_environment_does_not_block_the_ring)
{
    layouts_setting setting = usual;
    layouts_fixture w;
    setting.writers = 2, setting.extra_frames = 40;
    CHECK(layouts_fixture_open(&w, test_device(), &setting, 4));
    for (int i = 0; i < 6; i++) {
        const int64_t before = stats_of(&w, 1).frames_stored;
        CHECK_OK(run_steps(&w, 1, 1, 1)); /* the slow one stores its stack again, and one frame more */
        const int64_t stored = stats_of(&w, 1).frames_stored - before;
        CHECK_EQUAL(stored, i == 0 ? 2 : i + 2 > 5 ? 5 : i + 2);
        CHECK_OK(run_steps(&w, 0, 500, 0));
        CHECK_EQUAL(gpur_replay_size(w.replays[1]), setting.capacity);
        CHECK_EQUAL(layouts_fixture_wrong(&w, setting.capacity), 0);
    }
    layouts_fixture_close(&w);
}

/* The last line that the device logged. */
typedef struct log_line {
    int count;
    char text[400];
} log_line;

static void store_line(void *user, const char *line)
{
    log_line *const l = user;
    l->count++;
    snprintf(l->text, sizeof l->text, "%s", line);
}

static const gpur_field vector[] = {{"obs", GPUR_FLOAT32, {27}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {27}},
                                    {"terminated", GPUR_BOOL, {0}}};

/* 300 transitions, which need three frames of each environment in reach: how far back links may go decides how many
 * environments there may be. */
static const struct {
    int64_t extra_frames;
    int32_t envs, steps, refused; /* refused: the next writer of one environment */
    int64_t stored;
    const char *logged; /* NULL: nothing */
} reaches[] = {
    {0, 64, 50, 1, 51 * 64, NULL},
    {600, 200, 20, 0, 21 * 200, NULL},
    {100, 200, 20, 0, 2 * 20 * 200, "reaches back 100: set gpur_replay_config.extra_frames to 600 or more"},
};

TEST(environments_out_of_reach_are_refused_by_default_and_logged_if_extra_frames_are_set)
{
    static const float obs[200 * 27], reward[200];
    uint8_t ends[200] = {0};
    for (size_t i = 0; i < sizeof reaches / sizeof *reaches; i++) {
        gpur_device_config config = test_device_config();
        gpur_replay_config replay = replay_fixture_config(vector, 5, 300, 20, 40);
        gpur_replay_stats stats = {.size = sizeof stats};
        gpur_device *device = NULL;
        gpur_writer *more = NULL;
        log_line line = {0};
        float discounts[2];
        replay_fixture s;
        config.log = store_line, config.log_user = &line;
        replay.layout = GPUR_LAYOUT_FRAMES, replay.extra_frames = reaches[i].extra_frames;
        CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
        line.count = 0; /* opening the device may log a line */
        CHECK(replay_fixture_open(&s, device, &replay, reaches[i].envs));
        CHECK_EQUAL(line.count, reaches[i].logged != NULL);
        CHECK(!reaches[i].logged || strstr(line.text, reaches[i].logged));
        if (reaches[i].refused) {
            CHECK_STATUS(gpur_writer_create(s.replay, 1, &more), GPUR_INVALID_ARGUMENT);
            CHECK_MESSAGE("num_envs is 1, and other writers have 64; the last 3 frames of each must be in reach");
            CHECK_MESSAGE("reaches back 192: set gpur_replay_config.extra_frames to 195 or more");
            CHECK(more == NULL);
        }
        CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
        for (int t = 1; t <= reaches[i].steps; t++) {
            ends[0] = t == reaches[i].steps;
            CHECK_OK(gpur_writer_step(s.writer, reward, reward, obs, ends, NULL));
        }
        CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
        CHECK_OK(read_rows(s.replay, "discount", stats.appended - reaches[i].envs, 2, discounts, 4));
        CHECK(discounts[0] == 0 && discounts[1] == replay.gamma); /* the schema has none */
        CHECK_EQUAL(stats.frames_stored, reaches[i].stored);
        CHECK(reaches[i].logged ? stats.visible < 250 : stats.visible == 300);
        gpur_writer_destroy(s.writer);
        s.writer = NULL;
        CHECK(!reaches[i].refused || gpur_writer_create(s.replay, 65, &s.writer) == GPUR_INVALID_ARGUMENT);
        replay_fixture_close(&s);
    }
}

/* A sample of one row: its links, and a stack behind them. */
typedef struct launch {
    gpur_replay *replay;
    gpur_stream *stream;
    gpur_gather_plan plan;
    uint32_t *links;
    atomic_int done;
} launch;

static gpur_status prepare(launch *l, gpur_device *device)
{
    GPUR_TRY(gpur_memory_alloc(device, 256 + 4 * PLAYER_FRAME, "the test", (void **)&l->links));
    const gpur_gather_field obs = {0, (unsigned char *)l->links + 256, 4 * PLAYER_FRAME};
    const gpur_gather_request request = {
        .fields = &obs, .field_count = 1, .source = GPUR_UNIFORM, .rows = 1, .links = l->links};
    return gpur_gather_plan_prepare(l->replay, &request, &l->plan);
}

static void *enqueue(void *context)
{
    launch *const l = context;
    const gpur_sample_args args = {.user = GPUR_USER_CALLER};
    if (gpur_sample_enqueue(l->replay, gpur_sampler_of(GPUR_UNIFORM), &args, &l->plan, l->stream) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    atomic_store(&l->done, 1);
    return NULL;
}

/* Rows and frames are gathered by two launches, and frames are overwritten behind what is enqueued when their rows
 * leave the window, under the window lock. So while that lock is held, a sample must not end. */
TEST(no_append_comes_between_the_rows_of_a_sample_and_their_frames)
{
    const struct timespec moment = {0, 50000000};
    launch l = {0};
    pthread_t thread;
    layouts_fixture w;
    CHECK(layouts_fixture_open(&w, test_device(), &usual, 7));
    CHECK_OK(run_steps(&w, 0, 10, 0));
    gpur_replay *const replay = l.replay = w.replays[1];
    CHECK_OK(prepare(&l, w.device));
    CHECK_OK(gpur_consumer_begin(replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &l.stream));
    gpur_window_lock(replay);
    CHECK(pthread_create(&thread, NULL, enqueue, &l) == 0);
    nanosleep(&moment, NULL);
    CHECK_EQUAL(atomic_load(&l.done), 0);
    gpur_window_unlock(replay);
    pthread_join(thread, NULL);
    CHECK_EQUAL(atomic_load(&l.done), 1);
    CHECK_OK(gpur_stream_sync(l.stream));
    CHECK_OK(gpur_consumer_end(replay, GPUR_OK));
    gpur_memory_free(w.device, l.links);
    layouts_fixture_close(&w);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_frame_is_uploaded_once_and_a_full_replay_has_capacity_rows);
    RUN(episodes_of_one_step_cost_two_frames_each_and_a_reset_nothing);
    RUN(a_slow_environment_does_not_block_the_ring);
    RUN(environments_out_of_reach_are_refused_by_default_and_logged_if_extra_frames_are_set);
    RUN(no_append_comes_between_the_rows_of_a_sample_and_their_frames);
    return test_main_end();
}
