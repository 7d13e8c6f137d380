/* SPDX-License-Identifier: MIT */
/* What the linked layout promises: how often a frame is stored, what stays visible, what a stack is made of. */
#include "support/gate_cpu.h"
#include "support/linked_kit.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

static const linked_setting usual = {
    .shape = {4, 0},
    .writers = 1,
    .envs = 1,
    .ends_in = 1000000000,
    .capacity = 256,
    .update_size = 16,
    .max_batch = 16,
    .n_step = 1,
    .staging_blocks = 3,
};

static gpur_replay_stats stats_of(const linked_world *w, int replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_replay_get_stats(w->replays[replay], &stats);
    return stats;
}

static gpur_status play_steps(linked_world *w, int writer, int64_t count, int flushes)
{
    for (int64_t i = 0; i < count; i++) {
        GPUR_TRY(play_step(&w->plays[writer]));
        for (int r = 0; flushes && r < LINKED_REPLAYS; r++)
            GPUR_TRY(gpur_writer_flush(w->plays[writer].writers[r]));
    }
    return GPUR_OK;
}

TEST(every_frame_crosses_once_however_small_the_publishes)
{
    for (int many = 0; many < 2; many++)
        for (int flushes = 0; flushes < 2; flushes++) {
            linked_setting setting = usual;
            linked_world w;
            setting.envs = many ? 8 : 1, setting.n_step = many ? 3 : 1;
            setting.frame_slack = 80; /* (4 + 2 x 3) frames of each of 8 environments */
            CHECK(linked_open(&w, test_device(), &setting, 1));
            CHECK_EQUAL(stats_of(&w, 1).frames_stored, 0);
            CHECK_OK(play_steps(&w, 0, 200, flushes));
            linked_end_writers(&w);
            const gpur_replay_stats stats = stats_of(&w, 1);
            CHECK_EQUAL(stats.appended, 200 * setting.envs);
            CHECK_EQUAL(stats.frames_stored, 201 * setting.envs);
            CHECK_EQUAL(stats_of(&w, 2).frames_stored, 201 * setting.envs);
            CHECK_EQUAL(stats.bytes_fed, 200 * setting.envs * w.replays[1]->storage.rows.pitch +
                                             201 * setting.envs * w.replays[1]->storage.linking.pitch);
            CHECK_EQUAL(linked_wrong(&w, setting.max_batch), 0);
            linked_close(&w);
        }
}

/* One frame more an episode: its last observation is stored like any other, and so is its first. */
TEST(episodes_of_one_step_cost_two_frames_each_and_a_reset_nothing)
{
    linked_setting setting = usual;
    linked_world w;
    setting.ends_in = 1;
    CHECK(linked_open(&w, test_device(), &setting, 2));
    for (int i = 0; i < 50; i++)
        CHECK_OK(play_reset(&w.plays[0], -1));
    CHECK_EQUAL(stats_of(&w, 1).frames_stored, 0);
    CHECK_OK(play_steps(&w, 0, 400, 0));
    CHECK_EQUAL(stats_of(&w, 1).frames_stored, 800);
    CHECK_EQUAL(linked_wrong(&w, setting.max_batch), 0);
    CHECK(stats_of(&w, 1).visible >= setting.capacity / 2 - setting.update_size);
    linked_close(&w);
}

/* The memory figure holds for as many rows as it was asked for. */
TEST(a_full_replay_shows_its_capacity_by_one_environment_and_by_eight)
{
    for (int many = 0; many < 2; many++) {
        linked_setting setting = usual;
        linked_world w;
        setting.envs = many ? 8 : 1, setting.frame_slack = 40;
        CHECK(linked_open(&w, test_device(), &setting, 3));
        for (int i = 0; i < 300; i++) {
            CHECK_OK(play_steps(&w, 0, many ? 1 : 4, 1)); /* publishes of 4 rows, and of 8 */
            const int64_t all = w.all.count, capacity = setting.capacity;
            CHECK_EQUAL(gpur_replay_size(w.replays[1]), all < capacity ? all : capacity);
        }
        CHECK_EQUAL(linked_wrong(&w, setting.capacity), 0);
        linked_close(&w);
    }
}

TEST(a_slow_environment_does_not_hold_the_ring_up)
{
    linked_setting setting = usual;
    linked_world w;
    setting.writers = 2, setting.frame_slack = 40;
    CHECK(linked_open(&w, test_device(), &setting, 4));
    for (int i = 0; i < 6; i++) {
        const int64_t before = stats_of(&w, 1).frames_stored;
        CHECK_OK(play_steps(&w, 1, 1, 1)); /* the slow one stores its stack again, and one frame more */
        const int64_t stored = stats_of(&w, 1).frames_stored - before;
        CHECK_EQUAL(stored, i == 0 ? 2 : i + 2 > 5 ? 5 : i + 2);
        CHECK_OK(play_steps(&w, 0, 500, 0));
        CHECK_EQUAL(gpur_replay_size(w.replays[1]), setting.capacity);
        CHECK_EQUAL(linked_wrong(&w, setting.capacity), 0);
    }
    linked_close(&w);
}

/* So many environments that each row stores all of its frames anew, and memory that is just what such rows need. */
TEST(max_batch_stays_visible_however_many_frames_rows_need)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        linked_setting setting = usual;
        linked_world w;
        uint64_t random = seed + 1;
        setting.shape.stack = 1 + (int32_t)(seed % 5), setting.envs = PLAY_ENVS, setting.writers = LINKED_WRITERS;
        setting.n_step = 1 + (int32_t)(seed / 5 % 3) * 2, setting.frame_slack = 1;
        setting.flush = (int32_t)(seed / 2 % 2), setting.update_size = 1 + kit_below(&random, 12);
        setting.max_batch = 1 + kit_below(&random, 32), setting.ends_in = seed % 3 ? 1000000 : 2;
        setting.capacity = setting.max_batch + setting.update_size + kit_below(&random, 8);
        CHECK(linked_open(&w, test_device(), &setting, seed));
        const gpur_window *const window = &w.replays[1]->window.host;
        for (int64_t i = 0, most = 0; i < 60; i++) {
            CHECK_OK(play_step(&w.plays[i % LINKED_WRITERS]));
            most = window->count > most ? window->count : most;
            CHECK(window->count >= (most < setting.max_batch ? most : setting.max_batch));
            if (kit_below(&random, 3) == 0)
                CHECK_EQUAL(linked_draws_differ(&w, setting.max_batch), 0);
        }
        linked_close(&w);
    }
}

/* Frames 0, 1, 2 ... by tag; the stack before step t has those up to t. */
TEST(stacks_begin_with_what_the_setting_pads_them_with)
{
    for (int32_t repeats = 0; repeats < 2; repeats++) {
        linked_setting setting = usual;
        linked_world w;
        setting.repeats = repeats;
        CHECK(linked_open(&w, test_device(), &setting, 5));
        CHECK_OK(play_steps(&w, 0, 6, 0));
        for (int64_t id = 0; id < 6; id++) {
            unsigned char want[4 * PLAY_FRAME], got[4 * PLAY_FRAME];
            int64_t tags[4];
            for (int64_t j = 0; j < 4; j++)
                tags[j] = id - 3 + j >= 0 ? id - 3 + j : repeats ? 0 : HISTORY_NO_FRAME;
            play_stack(want, setting.shape, tags);
            for (int r = 0; r < LINKED_REPLAYS; r++) {
                gpur_batch *batch = NULL;
                CHECK_OK(gpur_replay_gather(w.replays[r], 1, &id, NULL, &batch));
                CHECK_OK(gpur_batch_read(batch, "obs", got, sizeof got));
                gpur_batch_release(batch);
                CHECK(memcmp(want, got, sizeof got) == 0);
            }
        }
        linked_close(&w);
    }
}

/* Eight environments of which each row stores five frames anew, two rows a block. */
typedef struct crowd {
    unsigned char obs[8 * PLAY_FRAME];
    int32_t action[8];
    float reward[8];
    uint8_t ends[8];
} crowd;

static gpur_status step_crowd(kit_scene *s, const crowd *c)
{
    return gpur_writer_step(s->writer, c->action, c->reward, c->obs, c->ends, NULL);
}

/* Nine environments would be one too many. */
static void open_crowd(kit_scene *s, const crowd *c)
{
    gpur_field fields[PLAY_FIELDS];
    const play_shape shape = {4, 0};
    gpur_writer_config writer;
    play_fields(fields, shape);
    gpur_replay_config config = kit_config(fields, 6, 64, 4, 8);
    config.layout = GPUR_LINKED, config.frame_stack = 4, config.frame_slack = 1;
    config.when_full = GPUR_WHEN_FULL_ERROR, config.staging_blocks = 5;
    CHECK(kit_open(s, test_device(), &config, 1));
    gpur_writer_destroy(s->writer);
    s->writer = NULL;
    CHECK_OK(gpur_writer_config_init(&writer, sizeof writer));
    writer.input = GPUR_INPUT_FRAMES, writer.num_envs = 9;
    CHECK_STATUS(gpur_writer_open(s->replay, &writer, &s->writer), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("must fit in 8 rows, those of staging_blocks - 1 blocks without a frame in common");
    writer.num_envs = 8;
    CHECK_OK(gpur_writer_open(s->replay, &writer, &s->writer));
    CHECK_OK(gpur_writer_reset(s->writer, -1, c->obs));
    for (int i = 0; i < 8; i++) {
        gpur_status status = GPUR_WOULD_BLOCK;
        while (status == GPUR_WOULD_BLOCK)
            status = step_crowd(s, c);
        CHECK_OK(status);
    }
}

/* The rows of a step are taken all or not at all, frames included. */
TEST(a_step_without_room_takes_no_row_and_no_frame)
{
    const crowd c = {.obs = {1}};
    gpur_replay_stats before = {.size = sizeof before}, after = before;
    gpur_status status = GPUR_OK;
    kit_scene s;
    gate g;
    if (test_on_cuda() || test_executor() != GPUR_EXECUTOR_THREAD)
        return;
    gate_init(&g);
    open_crowd(&s, &c);
    CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    for (int i = 0; status == GPUR_OK && i < 100; i++) {
        CHECK_OK(gpur_replay_get_stats(s.replay, &before));
        status = step_crowd(&s, &c);
    }
    CHECK_STATUS(status, GPUR_WOULD_BLOCK);
    CHECK_MESSAGE("a step needs 8");
    CHECK_OK(gpur_replay_get_stats(s.replay, &after));
    CHECK(after.appended == before.appended && after.frames_stored == before.frames_stored);
    gate_open(&g);
    kit_close(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_frame_crosses_once_however_small_the_publishes);
    RUN(episodes_of_one_step_cost_two_frames_each_and_a_reset_nothing);
    RUN(a_full_replay_shows_its_capacity_by_one_environment_and_by_eight);
    RUN(a_slow_environment_does_not_hold_the_ring_up);
    RUN(max_batch_stays_visible_however_many_frames_rows_need);
    RUN(stacks_begin_with_what_the_setting_pads_them_with);
    RUN(a_step_without_room_takes_no_row_and_no_frame);
    return test_main_end();
}
