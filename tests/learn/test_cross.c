/* SPDX-License-Identifier: MIT */
/*
 * Compares a device with the CPU with one thread, bit for bit: the sampled ids and rows; and n-step returns, discounts,
 * links and frame stacks of the same episodes, in packed and linked replays, while the rings wrap around.
 * tests/replay/test_frames_model.c compares each device with the reference history.
 */
#include "support/cross_devices.h"
#include "learn/learner.h"
#include "support/learner_fixture.h"
#include "support/episode_fixture.h"
#include "support/replay_fixture.h"

enum { CAPACITY = 2000, LIMIT = 500, STEPS = 3000 };

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {9}},    {"action", GPUR_INT32, {0}},     {"half", GPUR_FLOAT16, {3}},
    {"pixels", GPUR_UINT8, {5}},   {"next_obs", GPUR_FLOAT32, {9}}, {"terminated", GPUR_BOOL, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"tag", GPUR_INT64, {0}},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static gpur_device *device[CROSS_DEVICES];

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    row_tags row_tags;
} side;

static gpur_status open_side(side *s, gpur_device *on, int32_t source, uint64_t seed)
{
    gpur_replay_config config = replay_fixture_config(fields, FIELDS, CAPACITY, 64, LIMIT);
    config.index_source = source;
    config.seed = seed;
    memset(s, 0, sizeof *s);
    GPUR_TRY(gpur_replay_create(on, &config, &s->replay));
    s->row_tags = row_tags_of(s->replay, config.gamma);
    return gpur_writer_create(s->replay, 1, &s->writer);
}

static void close_side(side *s)
{
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
}

static void check_rows(const row_tags *k, gpur_batch *const batch[CROSS_DEVICES])
{
    for (int32_t f = 0; f < k->count; f++)
        CHECK_EQUAL(cross_differing(batch, k->fields[f].name), 0);
    CHECK_EQUAL(cross_differing(batch, "weight"), 0);
    CHECK_EQUAL(cross_differing(batch, "discount"), 0);
}

/* Samples on both devices. Returns how many bytes of the ids differ, and compares the rows if `compare_rows`. */
static int64_t draw_both(side *sides, int64_t count, int compare_rows)
{
    gpur_batch *batch[CROSS_DEVICES] = {NULL, NULL};
    int64_t differ = -1;
    if (gpur_replay_sample(sides[0].replay, count, NULL, &batch[0]) == GPUR_OK &&
        gpur_replay_sample(sides[1].replay, count, NULL, &batch[1]) == GPUR_OK)
        differ = cross_differing(batch, "id");
    if (differ == 0 && compare_rows)
        check_rows(&sides[0].row_tags, batch);
    gpur_batch_release(batch[0]);
    gpur_batch_release(batch[1]);
    return differ;
}

static gpur_status append_both(side *sides, int64_t *tag, int64_t count)
{
    GPUR_TRY(append_tagged(&sides[0].row_tags, sides[0].writer, *tag, count));
    GPUR_TRY(append_tagged(&sides[1].row_tags, sides[1].writer, *tag, count));
    *tag += count;
    return GPUR_OK;
}

/* Draws batches of several sizes while the ring fills and wraps around. *unequal is how many draws differed. */
static void compare_streams(int32_t source, uint64_t seed, uint64_t other_seed, int *unequal)
{
    static const int64_t counts[] = {1, 3, 32, 64, 257, LIMIT};
    side sides[CROSS_DEVICES];
    int64_t tag = 0;
    *unequal = 0;
    CHECK_OK(open_side(&sides[0], device[0], source, seed));
    CHECK_OK(open_side(&sides[1], device[1], source, other_seed));
    CHECK_OK(append_both(sides, &tag, LIMIT + 7));
    for (int step = 0; step < cross_count(STEPS); step++) {
        if (step % 7 == 0)
            CHECK_OK(append_both(sides, &tag, 1 + step % 50));
        const int64_t differ = draw_both(sides, counts[step % 6], step % 13 == 0);
        CHECK(differ >= 0);
        *unequal += differ > 0;
    }
    close_side(&sides[0]);
    close_side(&sides[1]);
}

TEST(uniform_draws_are_the_same_rows)
{
    int unequal;
    compare_streams(GPUR_UNIFORM, 11, 11, &unequal);
    CHECK_EQUAL(unequal, 0);
}

TEST(distinct_draws_are_the_same_rows)
{
    int unequal;
    compare_streams(GPUR_UNIFORM_DISTINCT, 0xfedcba9876543210u, 0xfedcba9876543210u, &unequal);
    CHECK_EQUAL(unequal, 0);
}

TEST(another_seed_draws_other_rows)
{
    int unequal;
    compare_streams(GPUR_UNIFORM, 11, 12, &unequal);
    CHECK(unequal > cross_count(STEPS) * 9 / 10);
}

/* Trains one step and reads its ids. */
static gpur_status trained_ids(gpur_learner *learner, gpur_device *on, int64_t *ids, int64_t count)
{
    GPUR_TRY(gpur_learner_train(learner, 1));
    return gpur_device_copy(on, ids, learner->step.batch.id, count * (int64_t)sizeof *ids);
}

static void compare_training(int32_t source)
{
    static learner_fixture fixture[CROSS_DEVICES];
    gpur_learner *learner[CROSS_DEVICES] = {NULL, NULL};
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[CROSS_DEVICES][64];
    config.index_source = source;
    config.batch_size = 48;
    for (int i = 0; i < CROSS_DEVICES; i++) {
        CHECK_OK(learner_fixture_open(&fixture[i], device[i], 100));
        CHECK_OK(gpur_learner_create(fixture[i].replay, &config, &learner[i]));
    }
    for (int step = 0; step < cross_count(STEPS); step++) {
        for (int i = 0; i < CROSS_DEVICES; i++) {
            CHECK_OK(trained_ids(learner[i], device[i], ids[i], config.batch_size));
            if (step < FIXTURE_ROWS - 100)
                CHECK_OK(gpur_writer_append(fixture[i].writer, 1, &fixture[i].rows[100 + step], NULL));
        }
        CHECK(memcmp(ids[0], ids[1], (size_t)config.batch_size * sizeof ids[0][0]) == 0);
    }
    for (int i = 0; i < CROSS_DEVICES; i++) {
        gpur_learner_destroy(learner[i]);
        learner_fixture_close(&fixture[i]);
    }
}

TEST(learners_train_on_the_same_rows)
{
    compare_training(GPUR_UNIFORM);
    compare_training(GPUR_UNIFORM_DISTINCT);
}

enum { PLAY_STEPS = 1200, MOST_DRAWN = 24 };

static const layouts_setting settings[] = {
    {.shape = {4, 1},
     .writers = 2,
     .envs = 3,
     .autoreset = GPUR_AUTORESET_NEXT_STEP,
     .ends_in = 9,
     .capacity = 300,
     .block_rows = 16,
     .max_batch = MOST_DRAWN,
     .staging_blocks = 2,
     .n_step = 3,
     .index_source = GPUR_UNIFORM},
    {.shape = {3, 0},
     .writers = 1,
     .envs = 2,
     .autoreset = GPUR_AUTORESET_SAME_STEP,
     .ends_in = 5,
     .capacity = 200,
     .block_rows = 8,
     .max_batch = MOST_DRAWN,
     .staging_blocks = 2,
     .n_step = 5,
     .index_source = GPUR_UNIFORM_DISTINCT,
     .repeats = 1},
    {.shape = {4, 0},
     .writers = 2,
     .envs = 2,
     .autoreset = GPUR_AUTORESET_DISABLED,
     .ends_in = 12,
     .capacity = 300,
     .block_rows = 16,
     .max_batch = MOST_DRAWN,
     .staging_blocks = 2,
     .n_step = 1,
     .index_source = GPUR_PRIORITIZED_STRATIFIED,
     .prioritized = 1,
     .alpha = 1,
     .priority_offset = 0.5f},
};

/* Opens the same world on both devices. Each world closes its own device handle. */
static void open_worlds(layouts_fixture *worlds, const layouts_setting *setting, uint64_t seed)
{
    gpur_device *own[CROSS_DEVICES];
    cross_open(own);
    for (int i = 0; i < CROSS_DEVICES; i++)
        CHECK(layouts_fixture_open(&worlds[i], own[i], setting, seed));
}

static void compare_batches(gpur_batch *const batch[CROSS_DEVICES])
{
    static const char *const names[] = {"id",         "obs",       "action",   "reward",   "next_obs",
                                        "terminated", "truncated", "discount", "previous", "tag"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_EQUAL(cross_differing(batch, names[i]), 0);
}

/* Samples from one of the three replays on both devices. While no row is visible both calls are refused. */
static void compare_draws(layouts_fixture *worlds, int replay, int64_t count)
{
    gpur_batch *batch[CROSS_DEVICES] = {NULL, NULL};
    gpur_status status[CROSS_DEVICES];
    for (int i = 0; i < CROSS_DEVICES; i++)
        status[i] = gpur_replay_sample(worlds[i].replays[replay], count, NULL, &batch[i]);
    if (status[0] == GPUR_OK && status[1] == GPUR_OK)
        compare_batches(batch);
    gpur_batch_release(batch[0]);
    gpur_batch_release(batch[1]);
    CHECK_EQUAL(status[1], status[0]);
    CHECK(status[0] == GPUR_OK || status[0] == GPUR_TOO_FEW);
}

static void play_both(layouts_fixture *worlds, int step)
{
    for (int i = 0; i < CROSS_DEVICES; i++)
        for (int w = 0; w < worlds[i].setting.writers; w++)
            CHECK_OK(player_step(&worlds[i].players[w]));
    for (int replay = 0; replay < LAYOUTS_REPLAYS; replay++)
        compare_draws(worlds, replay, 1 + step % MOST_DRAWN);
}

TEST(batches_of_several_steps_and_of_frames_are_the_same_bytes)
{
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        static layouts_fixture worlds[CROSS_DEVICES];
        open_worlds(worlds, &settings[s], s + 5);
        const int before = test_state.failures;
        for (int step = 0; step < cross_count(PLAY_STEPS) && test_state.failures == before; step++)
            play_both(worlds, step);
        CHECK_EQUAL(worlds[1].all.count, worlds[0].all.count);
        CHECK(cross_is_slow() || worlds[0].all.count > 2 * settings[s].capacity);
        layouts_fixture_close(&worlds[0]);
        layouts_fixture_close(&worlds[1]);
    }
}

/* Shows that the test above can fail. */
TEST(another_seed_gives_other_batches)
{
    static layouts_fixture worlds[CROSS_DEVICES];
    gpur_device *own[CROSS_DEVICES];
    gpur_batch *batch[CROSS_DEVICES] = {NULL, NULL};
    cross_open(own);
    for (int i = 0; i < CROSS_DEVICES; i++) {
        CHECK(layouts_fixture_open(&worlds[i], own[i], &settings[0], (uint64_t)i + 5));
        for (int step = 0; step < 40; step++)
            CHECK_OK(player_step(&worlds[i].players[0]));
        CHECK_OK(gpur_replay_sample(worlds[i].replays[1], MOST_DRAWN, NULL, &batch[i]));
    }
    CHECK(cross_differing(batch, "obs") > 0);
    for (int i = 0; i < CROSS_DEVICES; i++) {
        gpur_batch_release(batch[i]);
        layouts_fixture_close(&worlds[i]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    cross_open(device);
    RUN(uniform_draws_are_the_same_rows);
    RUN(distinct_draws_are_the_same_rows);
    RUN(another_seed_draws_other_rows);
    RUN(learners_train_on_the_same_rows);
    RUN(batches_of_several_steps_and_of_frames_are_the_same_bytes);
    RUN(another_seed_gives_other_batches);
    cross_close(device);
    return test_main_end();
}
