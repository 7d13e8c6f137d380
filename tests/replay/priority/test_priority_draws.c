/* SPDX-License-Identifier: MIT */
/*
 * Draws by priority against their proportions, and the weights that come with them against double. Every chi-square
 * must have a tail of at least 1e-6: there are eight of them, so a false alarm comes with one choice of seeds in
 * 125,000. The seeds are fixed.
 */
#include "reference/reference_priority.h"
#include "support/replay_kit.h"
#include "test.h"
#include "support/tree_rig.h"

enum { LEAVES = 1000, ROOM = 4096, BATCH = 256 };
static const double alarm = 1e-6;

/* The race check makes a thread of every lane, whatever the number of threads: there the question is races. */
#ifdef GPUR_RACE_CHECK
enum { MOST_THREADS = 1 };
#else
enum { MOST_THREADS = 4 };
#endif
static int64_t draws(int64_t count)
{
#ifdef GPUR_RACE_CHECK
    return count / 1000 + 1;
#else
    return test_is_long() ? 20 * count : count;
#endif
}

/* Leaves from 0 to 10,000, of which a fifth are 0; with `two` nearly everything is one of two. */
static void make_leaves(uint32_t *leaves, double *as_double, int two)
{
    uint64_t random = 31;
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = kit_below(&random, 5) ? (uint32_t)kit_below(&random, 10000) : 0;
        if (two)
            leaves[i] = i == 3 ? 3000000 : i == 700 ? 4000000 : leaves[i] / 100;
        as_double[i] = leaves[i];
    }
}

/* A statistic that grows cell by cell. Cells too small to stand alone are one. */
typedef struct tally {
    double statistic, rest, come;
    int64_t cells;
} tally;

static void tally_cell(tally *t, double come, double want)
{
    if (want < 10.0) {
        t->rest += want, t->come += come;
        return;
    }
    t->statistic += (come - want) * (come - want) / want;
    t->cells++;
}

/* Adds the small ones' cell; the degrees of freedom. */
static int64_t tally_end(tally *t)
{
    if (t->rest >= 10.0) {
        t->statistic += (t->come - t->rest) * (t->come - t->rest) / t->rest;
        t->cells++;
    }
    return t->cells > 1 ? t->cells - 1 : 0;
}

/* One part of the total against what came from it in so many draws: no leaf that it has no unit of may come. */
static int64_t compare_part(tally *t, const double *below, double first, double end, const int64_t *counts,
                            int64_t rounds)
{
    for (int i = 0; i < LEAVES; i++) {
        const double common = fmin(end, below[i + 1]) - fmax(first, below[i]);
        if (common <= 0.0 && counts[i] > 0)
            return -1;
        tally_cell(t, (double)counts[i], common > 0.0 ? (double)rounds * common / (end - first) : 0.0);
    }
    return tally_end(t);
}

/* Row b of many draws: a multinomial over the leaves of part b; rows are independent of each other. */
static void compare_parts(int64_t batch, const double *below, int64_t (*counts)[LEAVES], int64_t rounds)
{
    double statistic = 0.0;
    int64_t freedom = 0;
    for (int64_t b = 0; b < batch; b++) {
        tally t = {0};
        const double first = floor(below[LEAVES] * (double)b / (double)batch);
        const double end = floor(below[LEAVES] * (double)(b + 1) / (double)batch);
        const int64_t more = compare_part(&t, below, first, end, counts[b], rounds);
        CHECK(more >= 0);
        statistic += t.statistic - (more == 0 ? t.statistic : 0.0), freedom += more;
    }
    CHECK(rounds < 1000 || (freedom > 0 && kit_chi_square_tail(statistic, freedom) >= alarm));
}

static void check_strata(int64_t batch, int two, uint64_t seed)
{
    static uint32_t leaves[LEAVES];
    static int64_t ids[BATCH], counts[BATCH][LEAVES];
    double as_double[LEAVES], below[LEAVES + 1] = {0};
    const int64_t rounds = draws(20000);
    tree_rig rig;
    make_leaves(leaves, as_double, two);
    memset(counts, 0, sizeof counts);
    CHECK(tree_open(&rig, test_device(), LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_set_leaves(&rig, 0, LEAVES, leaves));
    for (int64_t d = 0; d < rounds; d++) {
        CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED, batch, seed, (uint64_t)d, ids, NULL));
        for (int64_t b = 0; b < batch; b++)
            counts[b][ids[b]]++;
    }
    for (int i = 0; i < LEAVES; i++)
        below[i + 1] = below[i] + as_double[i];
    compare_parts(batch, below, counts, rounds);
    tree_close(&rig);
}

TEST(each_part_of_a_stratified_draw_follows_its_proportions)
{
    check_strata(1, 0, 1);
    check_strata(7, 0, 2);
    check_strata(32, 0, 3);
    check_strata(32, 1, 4);
    check_strata(BATCH, 0, 5);
}

static void check_plain(int two, uint64_t seed)
{
    static uint32_t leaves[LEAVES];
    static double wanted[LEAVES];
    static int64_t ids[ROOM];
    int64_t counts[LEAVES] = {0};
    double total = 0.0;
    tally t = {0};
    const int64_t rounds = draws(300);
    tree_rig rig;
    make_leaves(leaves, wanted, two);
    for (int i = 0; i < LEAVES; i++)
        total += wanted[i];
    CHECK(tree_open(&rig, test_device(), LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_set_leaves(&rig, 0, LEAVES, leaves));
    for (int64_t d = 0; d < rounds; d++) {
        CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED_PLAIN, ROOM, seed, (uint64_t)d, ids, NULL));
        for (int64_t b = 0; b < ROOM; b++) {
            CHECK(leaves[ids[b]] > 0);
            counts[ids[b]]++;
        }
    }
    for (int i = 0; i < LEAVES; i++)
        tally_cell(&t, (double)counts[i], (double)(rounds * ROOM) * wanted[i] / total);
    const int64_t freedom = tally_end(&t);
    CHECK(freedom > 0 && kit_chi_square_tail(t.statistic, freedom) >= alarm);
    tree_close(&rig);
}

TEST(a_plain_draw_follows_the_proportions)
{
    check_plain(0, 6);
    check_plain(1, 7);
}

/* The pairs (this row, the next) of a plain draw, over a grid of 8 x 8 parts of the total. */
TEST(rows_of_a_plain_draw_tell_nothing_of_each_other)
{
    enum { SIDE = 8 };
    static uint32_t leaves[LEAVES];
    static int64_t ids[ROOM];
    int64_t counts[SIDE * SIDE] = {0};
    tree_rig rig;
    for (int i = 0; i < LEAVES; i++)
        leaves[i] = 5;
    CHECK(tree_open(&rig, test_device(), LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_set_leaves(&rig, 0, LEAVES, leaves));
    for (int64_t d = 0; d < draws(100); d++) {
        CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED_PLAIN, ROOM, 8, (uint64_t)d, ids, NULL));
        for (int64_t b = 0; b < ROOM; b += 2)
            counts[ids[b] * SIDE / LEAVES * SIDE + ids[b + 1] * SIDE / LEAVES]++;
    }
    CHECK(kit_chi_square_tail(kit_chi_square(counts, SIDE * SIDE), SIDE * SIDE - 1) >= alarm);
    tree_close(&rig);
}

/* Number of threads, shape of launch and device do not matter: the draw is that of the reference, row by row. */
TEST(any_number_of_threads_draws_what_the_reference_draws)
{
    static uint32_t leaves[LEAVES], drawn[ROOM];
    static double wanted[LEAVES];
    static int64_t ids[ROOM];
    make_leaves(leaves, wanted, 0);
    for (int32_t threads = 1; threads <= MOST_THREADS; threads++) {
        gpur_device_config config = test_device_config();
        gpur_device *device = NULL;
        tree_rig rig;
        config.threads = threads;
        CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
        CHECK(tree_open(&rig, device, LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
        CHECK_OK(tree_set_leaves(&rig, 0, LEAVES, leaves));
        for (int source = GPUR_PRIORITIZED; source <= GPUR_PRIORITIZED_PLAIN; source++)
            for (int64_t batch = 1; batch <= ROOM; batch = batch * 3 + 1) {
                CHECK_OK(tree_draw(&rig, source, batch, 9, (uint64_t)batch, ids, drawn));
                for (int64_t b = 0; b < batch; b++) {
                    CHECK_EQUAL(ids[b], reference_draw_by_priority(wanted, LEAVES, 9, 7, (uint64_t)batch, b, batch,
                                                                   source == GPUR_PRIORITIZED));
                    CHECK_EQUAL(drawn[b], leaves[ids[b]]);
                }
            }
        tree_close(&rig);
    }
}

/* A replay's weights; alpha 1 makes leaves that need no second rounding. */
static void check_weights(int32_t source, int32_t norm, float beta, float fill)
{
    enum { ROWS = 200 };
    gpur_replay_config config = kit_plain_config(300, 10, BATCH, GPUR_FLUSH_AUTO);
    double leaves[ROWS], wanted[BATCH];
    float priorities[ROWS], weights[BATCH];
    int64_t ids[BATCH];
    uint64_t random = 41;
    gpur_batch *batch = NULL;
    kit_scene s;
    config.prioritized = 1, config.index_source = source, config.weight_norm = norm, config.alpha = 1.0f;
    config.beta.first = config.beta.last = beta, config.priority_offset = 0.0f;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, ROWS));
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    gpur_batch_release(batch);
    for (int i = 0; i < ROWS; i++) {
        priorities[i] = kit_below(&random, 6) ? fill * (float)(1 + kit_below(&random, 1000)) : 0.0f;
        leaves[i] = reference_leaf((double)priorities[i], 1.0);
        ids[0] = i;
        CHECK_OK(gpur_replay_update_priorities(s.replay, 1, ids, &priorities[i], NULL));
    }
    for (int64_t count = 1; count <= BATCH; count = count * 3 + 1) {
        CHECK_OK(gpur_replay_sample(s.replay, count, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, count * 8));
        CHECK_OK(gpur_batch_read(batch, "weight", weights, count * 4));
        gpur_batch_release(batch);
        reference_weights(leaves, ROWS, ids, count, (double)beta, norm, wanted);
        for (int64_t b = 0; b < count; b++)
            CHECK_NEAR(weights[b], wanted[b], 3e-6 * wanted[b]);
    }
    kit_close(&s);
}

TEST(weights_follow_their_formula_in_all_three_norms)
{
    for (int32_t norm = GPUR_WEIGHT_NORM_BATCH; norm <= GPUR_WEIGHT_NORM_NONE; norm++)
        for (int source = GPUR_PRIORITIZED; source <= GPUR_PRIORITIZED_PLAIN; source++) {
            check_weights(source, norm, 0.4f, 0.01f);
            check_weights(source, norm, 1.0f, 0.01f);
            check_weights(source, norm, 0.0f, 0.01f);
            check_weights(source, norm, 0.7f, 0.0f); /* no priority at all: uniform, weights 1 */
        }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(each_part_of_a_stratified_draw_follows_its_proportions);
    RUN(a_plain_draw_follows_the_proportions);
    RUN(rows_of_a_plain_draw_tell_nothing_of_each_other);
    RUN(any_number_of_threads_draws_what_the_reference_draws);
    RUN(weights_follow_their_formula_in_all_three_norms);
    return test_main_end();
}
