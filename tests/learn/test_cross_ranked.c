/* SPDX-License-Identifier: MIT */
/*
 * A device against the CPU with one thread: draws by priority, the updates between them, and what is told of them. With
 * alpha = 1 leaves are equal, and so must be every row that is drawn. With other exponents a leaf may differ by what
 * multiply-adds round (docs/numerics.md).
 */
#include "support/cross_sides.h"
#include "learn/learner.h"
#include "support/learn_world.h"
#include "support/replay_kit.h"

enum { CAPACITY = 2000, MOST = 500, STEPS = 2000 };
static const double weight_tolerance = 3e-6, total_tolerance = 1e-6; /* relative */

static const gpur_field fields[] = {{"a", GPUR_FLOAT32, {5}}, {"b", GPUR_UINT8, {3}}, {"tag", GPUR_INT64, {0}}};

static gpur_device *device[CROSS_SIDES];

typedef struct side {
    gpur_replay *replay;
    gpur_writer *writer;
    kit kit;
} side;

static gpur_status open_side(side *s, gpur_device *on, int32_t source, float alpha, uint64_t seed)
{
    gpur_replay_config config = kit_config(fields, 3, CAPACITY, 64, MOST);
    config.prioritized = 1, config.index_source = source, config.alpha = alpha, config.seed = seed;
    memset(s, 0, sizeof *s);
    GPUR_TRY(gpur_replay_create(on, &config, &s->replay));
    s->kit = kit_of(s->replay, config.gamma);
    return gpur_writer_create(s->replay, 1, &s->writer);
}

static void close_sides(side *sides)
{
    for (int i = 0; i < CROSS_SIDES; i++) {
        gpur_writer_destroy(sides[i].writer);
        gpur_replay_destroy(sides[i].replay);
    }
}

static gpur_status append_both(side *sides, int64_t *tag, int64_t count)
{
    for (int i = 0; i < CROSS_SIDES; i++)
        GPUR_TRY(kit_append(&sides[i].kit, sides[i].writer, *tag, count));
    *tag += count;
    return GPUR_OK;
}

/* Priorities for ids of the last 2,500 rows, some overwritten, some twice; now and then one that is none, or zero. */
static gpur_status update_both(side *sides, int64_t tag, int64_t count, uint64_t *random)
{
    int64_t ids[MOST];
    float priorities[MOST];
    for (int64_t i = 0; i < count; i++) {
        ids[i] = tag - 1 - kit_below(random, tag < 2500 ? tag : 2500);
        priorities[i] = kit_below(random, 9) ? (float)kit_below(random, 1 << 20) / 4096.0f : 0.0f;
        if (kit_below(random, 50) == 0)
            priorities[i] = kit_below(random, 2) ? NAN : -1.0f;
    }
    for (int i = 0; i < CROSS_SIDES; i++)
        GPUR_TRY(gpur_replay_update_priorities(sides[i].replay, count, ids, priorities, NULL));
    return GPUR_OK;
}

static double furthest_weight(gpur_batch *const batch[CROSS_SIDES], int64_t count)
{
    float left[MOST], right[MOST];
    double furthest = 0.0;
    const int64_t bytes = count * (int64_t)sizeof *left;
    if (gpur_batch_read(batch[0], "weight", left, bytes) != GPUR_OK ||
        gpur_batch_read(batch[1], "weight", right, bytes) != GPUR_OK)
        return INFINITY;
    for (int64_t i = 0; i < count; i++)
        furthest = fmax(furthest, fabs((double)right[i] - (double)left[i]) / (double)left[i]);
    return furthest;
}

/* One draw on both sides: how many bytes of the ids differ, or -1. Where none does, rows and weights are compared. */
static int64_t draw_both(side *sides, int64_t count)
{
    gpur_batch *batch[CROSS_SIDES] = {NULL, NULL};
    int64_t differ = -1, rows = 0;
    double weights = 0.0;
    if (gpur_replay_sample(sides[0].replay, count, NULL, &batch[0]) == GPUR_OK &&
        gpur_replay_sample(sides[1].replay, count, NULL, &batch[1]) == GPUR_OK)
        differ = cross_differing(batch, "id");
    if (differ == 0) {
        rows = cross_differing(batch, "a") | cross_differing(batch, "b") | cross_differing(batch, "tag");
        weights = furthest_weight(batch, count);
    }
    gpur_batch_release(batch[0]);
    gpur_batch_release(batch[1]);
    return rows != 0 || weights > weight_tolerance ? -1 : differ;
}

static void compare_what_is_told(side *sides, double tolerance)
{
    gpur_priority_stats told[CROSS_SIDES];
    int64_t wrong;
    for (int i = 0; i < CROSS_SIDES; i++) {
        told[i].size = sizeof told[i];
        CHECK_OK(gpur_replay_get_priority_stats(sides[i].replay, &told[i]));
        CHECK_OK(gpur_replay_check_priorities(sides[i].replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    CHECK(told[0].total > 0.0 && told[0].stale > 0 && told[0].invalid > 0);
    CHECK_NEAR(told[1].total, told[0].total, tolerance * told[0].total);
    CHECK(told[1].max_priority == told[0].max_priority && told[1].min_priority == told[0].min_priority);
    CHECK(told[1].drawable == told[0].drawable && told[1].updates == told[0].updates);
    CHECK(told[1].stale == told[0].stale && told[1].invalid == told[0].invalid);
}

/* Draws of several sizes and updates while the ring fills, wraps and evicts; `unequal`: draws that differed. */
static void play(side *sides, int64_t *unequal)
{
    static const int64_t counts[] = {1, 3, 32, 64, 257, MOST};
    uint64_t random = 77;
    int64_t tag = 0;
    *unequal = 0;
    CHECK_OK(append_both(sides, &tag, MOST + 7));
    for (int step = 0; step < cross_count(STEPS); step++) {
        if (step % 3 == 0)
            CHECK_OK(append_both(sides, &tag, 1 + step % 50));
        CHECK_OK(update_both(sides, tag, counts[(step + 2) % 6], &random));
        const int64_t differ = draw_both(sides, counts[step % 6]);
        CHECK(differ >= 0);
        *unequal += differ > 0;
    }
}

static void compare(int32_t source, float alpha, uint64_t other_seed, int64_t *unequal)
{
    side sides[CROSS_SIDES];
    CHECK_OK(open_side(&sides[0], device[0], source, alpha, 11));
    CHECK_OK(open_side(&sides[1], device[1], source, alpha, other_seed));
    play(sides, unequal);
    if (!cross_is_slow()) /* nothing has been overwritten yet */
        compare_what_is_told(sides, alpha == 1.0f ? 0.0 : total_tolerance);
    close_sides(sides);
}

TEST(with_equal_leaves_stratified_draws_are_the_same_rows)
{
    int64_t unequal = -1;
    compare(GPUR_PRIORITIZED, 1.0f, 11, &unequal);
    CHECK_EQUAL(unequal, 0);
}

TEST(with_equal_leaves_plain_draws_are_the_same_rows)
{
    int64_t unequal = -1;
    compare(GPUR_PRIORITIZED_PLAIN, 1.0f, 11, &unequal);
    CHECK_EQUAL(unequal, 0);
}

TEST(another_seed_draws_other_rows)
{
    int64_t unequal = -1;
    compare(GPUR_PRIORITIZED, 1.0f, 12, &unequal);
    CHECK(unequal > cross_count(STEPS) * 8 / 10);
}

/* Priorities as given stay equal, whatever their powers round to. */
TEST(with_other_exponents_leaves_are_near)
{
    side sides[CROSS_SIDES];
    uint64_t random = 5;
    int64_t tag = 0;
    for (int i = 0; i < CROSS_SIDES; i++)
        CHECK_OK(open_side(&sides[i], device[i], GPUR_PRIORITIZED, 0.6f, 11));
    for (int step = 0; step < 60; step++) {
        CHECK_OK(append_both(sides, &tag, 50));
        CHECK_OK(update_both(sides, tag, MOST, &random));
    }
    compare_what_is_told(sides, total_tolerance);
    for (int64_t first = tag - CAPACITY; first < tag; first += MOST) {
        int64_t ids[MOST];
        float given[CROSS_SIDES][MOST];
        for (int64_t i = 0; i < MOST; i++)
            ids[i] = first + i;
        for (int i = 0; i < CROSS_SIDES; i++)
            CHECK_OK(gpur_replay_get_priorities(sides[i].replay, MOST, ids, given[i]));
        CHECK(memcmp(given[0], given[1], sizeof given[0]) == 0);
    }
    close_sides(sides);
}

/* Later steps depend on TD errors, which products round differently. */
TEST(learners_begin_with_the_same_rows)
{
    static learn_world world[CROSS_SIDES];
    gpur_learner *learner[CROSS_SIDES] = {NULL, NULL};
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[CROSS_SIDES][48];
    config.batch_size = 48;
    for (int source = 0; source < 2; source++) {
        config.index_source = source ? GPUR_PRIORITIZED_PLAIN : GPUR_PRIORITIZED;
        for (int i = 0; i < CROSS_SIDES; i++) {
            CHECK_OK(world_open_prioritized(&world[i], device[i], 100, GPUR_WEIGHT_NORM_BATCH));
            CHECK_OK(gpur_learner_create(world[i].replay, &config, &learner[i]));
            CHECK_OK(gpur_learner_train(learner[i], 1));
            CHECK_OK(gpur_device_copy(device[i], ids[i], learner[i]->step.batch.id, sizeof ids[i]));
        }
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
        for (int i = 0; i < CROSS_SIDES; i++) {
            gpur_learner_destroy(learner[i]);
            world_close(&world[i]);
        }
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    cross_open(device);
    RUN(with_equal_leaves_stratified_draws_are_the_same_rows);
    RUN(with_equal_leaves_plain_draws_are_the_same_rows);
    RUN(another_seed_draws_other_rows);
    RUN(with_other_exponents_leaves_are_near);
    RUN(learners_begin_with_the_same_rows);
    cross_close(device);
    return test_main_end();
}
