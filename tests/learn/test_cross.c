/* SPDX-License-Identifier: MIT */
/* A device against the CPU with one thread, bit for bit: which rows are drawn, and what they hold. */
#include "support/cross_sides.h"
#include "learn/learner.h"
#include "support/learn_world.h"
#include "support/replay_kit.h"

enum { CAPACITY = 2000, MOST = 500, STEPS = 3000 };

static const gpur_field fields[] = {
    {"obs", GPUR_FLOAT32, {9}},    {"action", GPUR_INT32, {0}},     {"half", GPUR_FLOAT16, {3}},
    {"pixels", GPUR_UINT8, {5}},   {"next_obs", GPUR_FLOAT32, {9}}, {"terminated", GPUR_BOOL, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"tag", GPUR_INT64, {0}},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static gpur_device *device[CROSS_SIDES];

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    kit kit;
} side;

static gpur_status open_side(side *s, gpur_device *on, int32_t source, uint64_t seed)
{
    gpur_replay_config config = kit_config(fields, FIELDS, CAPACITY, 64, MOST);
    config.index_source = source;
    config.seed = seed;
    memset(s, 0, sizeof *s);
    GPUR_TRY(gpur_replay_create(on, &config, &s->replay));
    s->kit = kit_of(s->replay, config.gamma);
    return gpur_writer_create(s->replay, 1, &s->writer);
}

static void close_side(side *s)
{
    gpur_writer_destroy(s->writer);
    gpur_replay_destroy(s->replay);
}

static void check_rows(const kit *k, gpur_batch *const batch[CROSS_SIDES])
{
    for (int32_t f = 0; f < k->count; f++)
        CHECK_EQUAL(cross_differing(batch, k->fields[f].name), 0);
    CHECK_EQUAL(cross_differing(batch, "weight"), 0);
    CHECK_EQUAL(cross_differing(batch, "discount"), 0);
}

/* One draw on both sides: how many bytes of the ids differ. The rows are compared where they should be equal. */
static int64_t draw_both(side *sides, int64_t count, int compare_rows)
{
    gpur_batch *batch[CROSS_SIDES] = {NULL, NULL};
    int64_t differ = -1;
    if (gpur_replay_sample(sides[0].replay, count, NULL, &batch[0]) == GPUR_OK &&
        gpur_replay_sample(sides[1].replay, count, NULL, &batch[1]) == GPUR_OK)
        differ = cross_differing(batch, "id");
    if (differ == 0 && compare_rows)
        check_rows(&sides[0].kit, batch);
    gpur_batch_release(batch[0]);
    gpur_batch_release(batch[1]);
    return differ;
}

static gpur_status append_both(side *sides, int64_t *tag, int64_t count)
{
    GPUR_TRY(kit_append(&sides[0].kit, sides[0].writer, *tag, count));
    GPUR_TRY(kit_append(&sides[1].kit, sides[1].writer, *tag, count));
    *tag += count;
    return GPUR_OK;
}

/* Thousands of draws of several sizes while the ring fills, wraps and evicts; `unequal`: draws that differed. */
static void compare_streams(int32_t source, uint64_t seed, uint64_t other_seed, int *unequal)
{
    static const int64_t counts[] = {1, 3, 32, 64, 257, MOST};
    side sides[CROSS_SIDES];
    int64_t tag = 0;
    *unequal = 0;
    CHECK_OK(open_side(&sides[0], device[0], source, seed));
    CHECK_OK(open_side(&sides[1], device[1], source, other_seed));
    CHECK_OK(append_both(sides, &tag, MOST + 7));
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

/* The ids of a learner's last step, where the step itself reads them. */
static gpur_status trained_ids(gpur_learner *learner, gpur_device *on, int64_t *ids, int64_t count)
{
    GPUR_TRY(gpur_learner_train(learner, 1));
    return gpur_device_copy(on, ids, learner->step.batch.id, count * (int64_t)sizeof *ids);
}

static void compare_training(int32_t source)
{
    static learn_world world[CROSS_SIDES];
    gpur_learner *learner[CROSS_SIDES] = {NULL, NULL};
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[CROSS_SIDES][64];
    config.index_source = source;
    config.batch_size = 48;
    for (int i = 0; i < CROSS_SIDES; i++) {
        CHECK_OK(world_open(&world[i], device[i], 100));
        CHECK_OK(gpur_learner_create(world[i].replay, &config, &learner[i]));
    }
    for (int step = 0; step < cross_count(STEPS); step++) {
        for (int i = 0; i < CROSS_SIDES; i++) {
            CHECK_OK(trained_ids(learner[i], device[i], ids[i], config.batch_size));
            if (step < WORLD_ROWS - 100)
                CHECK_OK(gpur_writer_append(world[i].writer, 1, &world[i].rows[100 + step], NULL));
        }
        CHECK(memcmp(ids[0], ids[1], (size_t)config.batch_size * sizeof ids[0][0]) == 0);
    }
    for (int i = 0; i < CROSS_SIDES; i++) {
        gpur_learner_destroy(learner[i]);
        world_close(&world[i]);
    }
}

TEST(learners_train_on_the_same_rows)
{
    compare_training(GPUR_UNIFORM);
    compare_training(GPUR_UNIFORM_DISTINCT);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    cross_open(device);
    RUN(uniform_draws_are_the_same_rows);
    RUN(distinct_draws_are_the_same_rows);
    RUN(another_seed_draws_other_rows);
    RUN(learners_train_on_the_same_rows);
    cross_close(device);
    return test_main_end();
}
