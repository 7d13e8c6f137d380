/* SPDX-License-Identifier: MIT */
/*
 * A device against the CPU with one thread: draws by priority, the updates between them, and what is told of them. With
 * alpha = 1 leaves are equal, and so must be every row that is drawn. With other exponents a leaf may differ by what
 * multiply-adds round (docs/numerics.md).
 */
#include "support/cross_devices.h"
#include "learn/learner.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"

enum { CAPACITY = 2000, LIMIT = 500, STEPS = 2000 };
static const double weight_tolerance = 3e-6, total_tolerance = 1e-6; /* relative */

static const gpur_field fields[] = {{"a", GPUR_FLOAT32, {5}}, {"b", GPUR_UINT8, {3}}, {"tag", GPUR_INT64, {0}}};

static gpur_device *device[CROSS_DEVICES];
static replay_fixture sides[CROSS_DEVICES]; /* whose devices stay open */

static void open_sides(int32_t source, float alpha, uint64_t other_seed)
{
    for (int i = 0; i < CROSS_DEVICES; i++) {
        gpur_replay_config config = replay_fixture_config(fields, 3, CAPACITY, 64, LIMIT);
        config.prioritized = 1, config.index_source = source, config.alpha = alpha, config.seed = i ? other_seed : 11;
        CHECK(replay_fixture_open(&sides[i], device[i], &config, 1));
    }
}

static void close_sides(void)
{
    for (int i = 0; i < CROSS_DEVICES; i++) {
        gpur_writer_destroy(sides[i].writer);
        gpur_replay_destroy(sides[i].replay);
    }
}

static gpur_status append_both(int64_t count)
{
    for (int i = 0; i < CROSS_DEVICES; i++)
        GPUR_TRY(replay_fixture_append(&sides[i], count));
    return GPUR_OK;
}

/* Priorities for ids of the last 2,500 rows, some overwritten, some twice; now and then one that is none, or zero. */
static gpur_status update_both(int64_t count, uint64_t *random)
{
    const int64_t tag = sides[0].next;
    int64_t ids[LIMIT];
    float priorities[LIMIT];
    for (int64_t i = 0; i < count; i++) {
        ids[i] = tag - 1 - xorshift_below(random, tag < 2500 ? tag : 2500);
        priorities[i] = xorshift_below(random, 9) ? (float)xorshift_below(random, 1 << 20) / 4096.0f : 0.0f;
        if (xorshift_below(random, 50) == 0)
            priorities[i] = xorshift_below(random, 2) ? NAN : -1.0f;
    }
    for (int i = 0; i < CROSS_DEVICES; i++)
        GPUR_TRY(gpur_replay_update_priorities(sides[i].replay, count, ids, priorities, NULL));
    return GPUR_OK;
}

static double furthest_weight(gpur_batch *const batch[CROSS_DEVICES], int64_t count)
{
    float left[LIMIT], right[LIMIT];
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
static int64_t draw_both(int64_t count)
{
    gpur_batch *batch[CROSS_DEVICES] = {NULL, NULL};
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

static void compare_what_is_told(double tolerance)
{
    gpur_priority_stats told[CROSS_DEVICES];
    int64_t wrong;
    for (int i = 0; i < CROSS_DEVICES; i++) {
        told[i].size = sizeof told[i];
        CHECK_OK(gpur_replay_get_priority_stats(sides[i].replay, &told[i]));
        CHECK_OK(gpur_replay_check_priorities(sides[i].replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    CHECK(told[0].total > 0.0 && told[0].stale > 0 && told[0].invalid > 0);
    CHECK_NEAR(told[1].total, told[0].total, tolerance * told[0].total);
    CHECK(told[1].max_priority == told[0].max_priority && told[1].min_priority == told[0].min_priority);
    CHECK(told[1].nonzero == told[0].nonzero && told[1].updates == told[0].updates);
    CHECK(told[1].stale == told[0].stale && told[1].invalid == told[0].invalid);
}

/* Draws of several sizes and updates while the ring fills, wraps and evicts. Returns how many draws differed, or -1. */
static int play(void)
{
    static const int64_t counts[] = {1, 3, 32, 64, 257, LIMIT};
    uint64_t random = 77;
    int unequal = 0;
    if (append_both(LIMIT + 7) != GPUR_OK)
        return -1;
    for (int step = 0; step < cross_count(STEPS); step++) {
        if ((step % 3 == 0 && append_both(1 + step % 50) != GPUR_OK) ||
            update_both(counts[(step + 2) % 6], &random) != GPUR_OK)
            return -1;
        const int64_t differ = draw_both(counts[step % 6]);
        if (differ < 0)
            return -1;
        unequal += differ > 0;
    }
    return unequal;
}

static int compare(int32_t source, uint64_t other_seed)
{
    open_sides(source, 1.0f, other_seed);
    const int unequal = play();
    if (!cross_is_slow()) /* nothing has been overwritten yet */
        compare_what_is_told(0.0);
    close_sides();
    return unequal;
}

TEST(with_equal_leaves_draws_are_the_same_rows_and_another_seed_draws_others)
{
    CHECK_EQUAL(compare(GPUR_PRIORITIZED_STRATIFIED, 11), 0);
    CHECK_EQUAL(compare(GPUR_PRIORITIZED_INDEPENDENT, 11), 0);
    CHECK(compare(GPUR_PRIORITIZED_STRATIFIED, 12) > cross_count(STEPS) * 8 / 10);
}

/* Priorities as given stay equal, whatever their powers round to. */
TEST(with_other_exponents_leaves_are_near)
{
    uint64_t random = 5;
    open_sides(GPUR_PRIORITIZED_STRATIFIED, 0.6f, 11);
    for (int step = 0; step < 60; step++) {
        CHECK_OK(append_both(50));
        CHECK_OK(update_both(LIMIT, &random));
    }
    compare_what_is_told(total_tolerance);
    for (int64_t first = sides[0].next - CAPACITY; first < sides[0].next; first += LIMIT) {
        int64_t ids[LIMIT];
        float given[CROSS_DEVICES][LIMIT];
        for (int64_t i = 0; i < LIMIT; i++)
            ids[i] = first + i;
        for (int i = 0; i < CROSS_DEVICES; i++)
            CHECK_OK(gpur_replay_get_priorities(sides[i].replay, LIMIT, ids, given[i]));
        CHECK(memcmp(given[0], given[1], sizeof given[0]) == 0);
    }
    close_sides();
}

/* Later steps depend on TD errors, which products round differently. */
TEST(learners_begin_with_the_same_rows)
{
    static learner_fixture fixture[CROSS_DEVICES];
    gpur_learner *learner[CROSS_DEVICES] = {NULL, NULL};
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[CROSS_DEVICES][48];
    config.batch_size = 48;
    for (int source = 0; source < 2; source++) {
        config.index_source = source ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_PRIORITIZED_STRATIFIED;
        for (int i = 0; i < CROSS_DEVICES; i++) {
            CHECK_OK(learner_fixture_open_prioritized(&fixture[i], device[i], 100, GPUR_WEIGHT_NORM_BATCH));
            CHECK_OK(gpur_learner_create(fixture[i].replay, &config, &learner[i]));
            CHECK_OK(gpur_learner_train(learner[i], 1));
            CHECK_OK(gpur_device_copy(device[i], ids[i], learner[i]->step.batch.id, sizeof ids[i]));
        }
        CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
        for (int i = 0; i < CROSS_DEVICES; i++) {
            gpur_learner_destroy(learner[i]);
            learner_fixture_close(&fixture[i]);
        }
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    cross_open(device);
    RUN(with_equal_leaves_draws_are_the_same_rows_and_another_seed_draws_others);
    RUN(with_other_exponents_leaves_are_near);
    RUN(learners_begin_with_the_same_rows);
    cross_close(device);
    return test_main_end();
}
