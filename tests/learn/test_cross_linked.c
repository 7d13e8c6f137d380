/* SPDX-License-Identifier: MIT */
/*
 * A device against the CPU with one thread, bit for bit: n-step returns, discounts, links and stacks of frames of the
 * same episodes, packed and linked, by stacks and by frames, while rings wrap; drawn uniformly and by priority. On each
 * device alone tests/replay/test_linked_model.c holds them against the naive history.
 */
#include "support/cross_sides.h"
#include "support/linked_kit.h"

enum { STEPS = 1200, MOST = 24 };

static const linked_setting settings[] = {
    {.shape = {4, 1}, .writers = 2, .envs = 3, .autoreset = GPUR_AUTORESET_NEXT_STEP, .ends_in = 9, .capacity = 300,
     .update_size = 16, .max_batch = MOST, .staging_blocks = 2, .n_step = 3, .index_source = GPUR_UNIFORM},
    {.shape = {3, 0}, .writers = 1, .envs = 2, .autoreset = GPUR_AUTORESET_SAME_STEP, .ends_in = 5, .capacity = 200,
     .update_size = 8, .max_batch = MOST, .staging_blocks = 2, .n_step = 5, .index_source = GPUR_UNIFORM_DISTINCT,
     .repeats = 1},
    {.shape = {4, 0}, .writers = 2, .envs = 2, .autoreset = GPUR_AUTORESET_DISABLED, .ends_in = 12, .capacity = 300,
     .update_size = 16, .max_batch = MOST, .staging_blocks = 2, .n_step = 1, .index_source = GPUR_PRIORITIZED,
     .prioritized = 1, .alpha = 1, .priority_offset = 0.5f},
};

/* The same world on either device. The device is open twice: a world closes its own. */
static void open_worlds(linked_world *worlds, const linked_setting *setting, uint64_t seed)
{
    gpur_device *device[CROSS_SIDES];
    cross_open(device);
    for (int i = 0; i < CROSS_SIDES; i++)
        CHECK(linked_open(&worlds[i], device[i], setting, seed));
}

static void compare_batches(gpur_batch *const batch[CROSS_SIDES])
{
    static const char *const names[] = {"id",         "obs",       "action",   "reward",   "next_obs",
                                        "terminated", "truncated", "discount", "previous", "tag"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_EQUAL(cross_differing(batch, names[i]), 0);
}

/* A draw of one of the three replays on both sides. Where nothing is visible yet both are refused. */
static void compare_draws(linked_world *worlds, int replay, int64_t count)
{
    gpur_batch *batch[CROSS_SIDES] = {NULL, NULL};
    gpur_status status[CROSS_SIDES];
    for (int i = 0; i < CROSS_SIDES; i++)
        status[i] = gpur_replay_sample(worlds[i].replays[replay], count, NULL, &batch[i]);
    if (status[0] == GPUR_OK && status[1] == GPUR_OK)
        compare_batches(batch);
    gpur_batch_release(batch[0]);
    gpur_batch_release(batch[1]);
    CHECK_EQUAL(status[1], status[0]);
    CHECK(status[0] == GPUR_OK || status[0] == GPUR_TOO_FEW);
}

static void play_both(linked_world *worlds, int step)
{
    for (int i = 0; i < CROSS_SIDES; i++)
        for (int w = 0; w < worlds[i].setting.writers; w++)
            CHECK_OK(play_step(&worlds[i].plays[w]));
    for (int replay = 0; replay < LINKED_REPLAYS; replay++)
        compare_draws(worlds, replay, 1 + step % MOST);
}

TEST(batches_of_several_steps_and_of_frames_are_the_same_bytes)
{
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        static linked_world worlds[CROSS_SIDES];
        open_worlds(worlds, &settings[s], s + 5);
        const int before = test_state.failures;
        for (int step = 0; step < cross_count(STEPS) && test_state.failures == before; step++)
            play_both(worlds, step);
        CHECK_EQUAL(worlds[1].all.count, worlds[0].all.count);
        CHECK(cross_is_slow() || worlds[0].all.count > 2 * settings[s].capacity);
        linked_close(&worlds[0]);
        linked_close(&worlds[1]);
    }
}

/* Else the test above would compare nothing. */
TEST(another_seed_gives_other_batches)
{
    static linked_world worlds[CROSS_SIDES];
    gpur_device *device[CROSS_SIDES];
    gpur_batch *batch[CROSS_SIDES] = {NULL, NULL};
    cross_open(device);
    for (int i = 0; i < CROSS_SIDES; i++) {
        CHECK(linked_open(&worlds[i], device[i], &settings[0], (uint64_t)i + 5));
        for (int step = 0; step < 40; step++)
            CHECK_OK(play_step(&worlds[i].plays[0]));
        CHECK_OK(gpur_replay_sample(worlds[i].replays[1], MOST, NULL, &batch[i]));
    }
    CHECK(cross_differing(batch, "obs") > 0);
    for (int i = 0; i < CROSS_SIDES; i++) {
        gpur_batch_release(batch[i]);
        linked_close(&worlds[i]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(batches_of_several_steps_and_of_frames_are_the_same_bytes);
    RUN(another_seed_gives_other_batches);
    return test_main_end();
}
