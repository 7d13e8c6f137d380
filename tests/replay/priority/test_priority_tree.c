/* SPDX-License-Identifier: MIT */
/* The sum tree is exact: every unit of the total reaches its leaf, whatever the capacity, and parts of it have no
 * gap. */
#include "kernels/priority/strata.h"
#include "support/replay_kit.h"
#include "test.h"
#include "support/tree_rig.h"

enum { ROOM = 4096 };
static const gpur_grid good = {0, 0, 0};

/* The race check makes a thread of every lane: there the question is races, and counts are asked elsewhere. */
static int64_t fewer(int64_t count)
{
#ifdef GPUR_RACE_CHECK
    return count / 50 + 1;
#else
    return count;
#endif
}

/* Small leaves, of which about a third are 0, the first and the last now and then. */
static uint32_t *small_leaves(int64_t count, uint64_t *random)
{
    uint32_t *const leaves = malloc((size_t)count * sizeof *leaves);
    for (int64_t i = 0; i < count; i++)
        leaves[i] = kit_below(random, 3) ? (uint32_t)kit_below(random, 6) : 0;
    if (count < 3) /* or nothing may be left to find */
        leaves[count - 1] = 3;
    return leaves;
}

/* Every unit in order, ROOM at a time: leaf s must be found by as many units in a row as it is large. */
static void check_every_unit(tree_rig *rig, const uint32_t *leaves, uint64_t total)
{
    static uint64_t units[ROOM];
    static int64_t ids[ROOM];
    static uint32_t found[ROOM];
    int64_t slot = 0;
    uint64_t left = leaves[0];
    for (uint64_t first = 0; first < total; first += ROOM) {
        const int64_t count = (int64_t)(total - first < ROOM ? total - first : ROOM);
        for (int64_t i = 0; i < count; i++)
            units[i] = first + (uint64_t)i;
        CHECK_OK(tree_find(rig, count, units, ids, found, good));
        for (int64_t i = 0; i < count; i++, left--) {
            while (left == 0)
                left = leaves[++slot];
            CHECK_EQUAL(ids[i], slot);
            CHECK_EQUAL(found[i], leaves[slot]);
        }
    }
    CHECK_EQUAL(left, 0);
}

static void check_capacity(int64_t capacity, uint64_t seed)
{
    tree_rig rig;
    uint64_t random = seed * 0x9E3779B97F4A7C15ull + 1, total = 0, want = 0;
    uint32_t *const leaves = small_leaves(capacity, &random);
    CHECK(tree_open(&rig, test_device(), capacity, GPUR_WEIGHT_NORM_MEMORY, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_set_leaves(&rig, 0, capacity, leaves));
    for (int64_t i = 0; i < capacity; i++)
        want += leaves[i];
    CHECK_EQUAL(tree_wrong(&rig, &total), 0);
    CHECK_EQUAL(total, want);
    check_every_unit(&rig, leaves, total);
    tree_close(&rig);
    free(leaves);
}

TEST(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity)
{
    static const int64_t edges[] = {1, 2, 3, 127, 128, 129, 255, 256, 257, 1000, 16383, 16384, 16385};
    uint64_t random = 5;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        if (fewer(edges[i]) == edges[i] || edges[i] <= 257)
            check_capacity(edges[i], i);
    for (uint64_t i = 0; i < (uint64_t)fewer(40); i++)
        check_capacity(1 + kit_below(&random, fewer(20000)), i);
}

/* Of a large tree a leaf here and there, with everything from 1 to the largest, and both ends. */
static void check_sparse(int64_t capacity, int64_t count, uint64_t seed)
{
    static uint64_t units[3 * 64], below[64];
    static int64_t slots[64], ids[3 * 64];
    tree_rig rig;
    uint64_t random = seed + 1, total = 0, sum = 0;
    CHECK(tree_open(&rig, test_device(), capacity, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    for (int64_t i = 0; i < count; i++) {
        const int64_t part = capacity / count; /* ascending: one in each part, the ends included */
        const uint32_t leaf = (uint32_t)1 << kit_below(&random, 32);
        slots[i] = i == 0 ? 0 : i == count - 1 ? capacity - 1 : i * part + kit_below(&random, part);
        CHECK_OK(tree_set_leaves(&rig, slots[i], 1, &leaf));
        below[i] = sum;
        sum += leaf;
    }
    CHECK_EQUAL(tree_wrong(&rig, &total), 0);
    CHECK_EQUAL(total, sum);
    for (int64_t i = 0; i < count; i++) { /* the first and the last unit of each, and one between */
        const uint64_t end = i + 1 < count ? below[i + 1] : sum;
        units[3 * i] = below[i], units[3 * i + 1] = end - 1, units[3 * i + 2] = below[i] + (end - below[i]) / 2;
    }
    CHECK_OK(tree_find(&rig, 3 * count, units, ids, NULL, good));
    for (int64_t i = 0; i < 3 * count; i++)
        CHECK_EQUAL(ids[i], slots[i / 3]);
    tree_close(&rig);
}

TEST(a_few_leaves_of_a_large_tree_are_found_at_their_ends)
{
    uint64_t random = 9;
    check_sparse(2097153, 64, 3);
#ifndef GPUR_RACE_CHECK
    check_sparse(2097151, 64, 1);
    check_sparse(2097152, 64, 2);
    check_sparse((int64_t)16 << 20, 64, 4);
    check_sparse(((int64_t)16 << 20) + 1, 64, 5);
    for (uint64_t i = 0; i < (test_is_long() ? 20 : 3); i++)
        check_sparse(1000 + kit_below(&random, (int64_t)16 << 20), 64, 6 + i);
#endif
    (void)random;
}

TEST(a_tree_of_one_leaf_gives_it_for_every_draw)
{
    static const int64_t capacities[] = {1, 2, 128, 129, 20000};
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
        const int64_t capacity = capacities[c];
        const uint32_t leaf = c % 2 ? 1 : 1000;
        int64_t ids[64];
        tree_rig rig;
        CHECK(tree_open(&rig, test_device(), capacity, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
        CHECK_OK(tree_set_leaves(&rig, capacity - 1, 1, &leaf));
        for (int source = GPUR_PRIORITIZED; source <= GPUR_PRIORITIZED_PLAIN; source++) {
            CHECK_OK(tree_draw(&rig, source, 64, 3, c, ids, NULL));
            for (int b = 0; b < 64; b++)
                CHECK_EQUAL(ids[b], capacity - 1);
        }
        tree_close(&rig);
    }
}

/* Without any priority a draw is uniform over the window, which may go round the ring's end; without a window there is
 * nothing. */
TEST(a_total_of_zero_draws_uniformly_and_an_empty_window_nothing)
{
    const gpur_window window = {1007, 7, 5}, empty = {1012, 2, 0};
    int64_t ids[1024], counts[5] = {0};
    uint32_t leaves[1024];
    tree_rig rig;
    CHECK(tree_open(&rig, test_device(), 10, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_show(&rig, window));
    CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED, 1024, 3, 1, ids, leaves));
    for (int b = 0; b < 1024; b++) {
        CHECK(ids[b] >= 1007 && ids[b] < 1012);
        CHECK_EQUAL(leaves[b], 0);
        counts[ids[b] - 1007]++;
    }
    CHECK(kit_chi_square_tail(kit_chi_square(counts, 5), 4) >= 1e-6);
    CHECK_OK(tree_show(&rig, empty));
    CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED_PLAIN, 3, 3, 1, ids, leaves));
    for (int b = 0; b < 3; b++)
        CHECK_EQUAL(ids[b], -1);
    tree_close(&rig);
}

/* Rows that enter and leave in runs, over several levels and round the ring's end: after each step the window's rows
 * have the same leaf, and every node and part is right. */
TEST(rows_that_come_and_go_leave_every_sum_right)
{
    static const int64_t entered[] = {1, 17, 20, 300, 17000, 40000, 40100, 57003, 80000};
    const int64_t capacity = 40000;
    gpur_window old = {0, 0, 0};
    uint64_t total = 0;
    tree_rig rig;
    CHECK(tree_open(&rig, test_device(), capacity, GPUR_WEIGHT_NORM_MEMORY, 1.0f, 0.0f, ROOM));
    CHECK_OK(tree_show(&rig, old));
    for (size_t i = 0; i < sizeof entered / sizeof *entered; i++) {
        const int64_t first = entered[i] > capacity ? entered[i] - capacity : 0;
        const gpur_window next = {first, first % capacity, entered[i] - first};
        CHECK_OK(gpur_priorities_leave(&rig.priorities, rig.stream, &old, &next));
        CHECK_OK(tree_show(&rig, next));
        CHECK_OK(gpur_priorities_enter(&rig.priorities, rig.stream, &old, &next));
        CHECK_EQUAL(tree_wrong(&rig, &total), 0);
        CHECK_EQUAL(total, (uint64_t)next.count << 20);
        old = next;
    }
    tree_close(&rig);
}

static void check_strata(uint64_t total, int64_t parts)
{
    const gpur_strata s = gpur_strata_of(total, parts);
    gpur_strata_walk walk = gpur_strata_walk_from(&s, 0);
    CHECK(gpur_stratum(&s, 0) == 0);
    CHECK(gpur_stratum(&s, parts) == total);
    for (int64_t i = 0; i < parts; i++) {
        __extension__ typedef unsigned __int128 u128;
        const uint64_t first = (uint64_t)((u128)total * (uint64_t)i / (uint64_t)parts);
        const uint64_t end = (uint64_t)((u128)total * (uint64_t)(i + 1) / (uint64_t)parts);
        CHECK(gpur_stratum(&s, i) == first);
        CHECK(gpur_stratum_unit(&s, i, 0) == first);
        CHECK(gpur_stratum_unit(&s, i, UINT64_MAX) == (end > first ? end - 1 : first));
        const gpur_strata_walk from_here = gpur_strata_walk_from(&s, i);
        CHECK(walk.first == from_here.first && walk.carry == from_here.carry);
        CHECK(gpur_strata_walk_unit(&s, &walk, UINT64_MAX - 1) == gpur_stratum_unit(&s, i, UINT64_MAX - 1));
    }
}

TEST(strata_tile_the_total_without_a_gap)
{
    static const uint64_t totals[] = {1, 2, 511, 512, 513, 1048576, 0x123456789ABCDEFull, 0x7FFFFFFF80000000ull};
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        for (int64_t parts = 1; parts <= 512; parts++)
            check_strata(totals[t], parts);
        check_strata(totals[t], 65536);
        check_strata(totals[t], 99991);
    }
}

/* A row of a stratified draw never leaves its part of the total. */
TEST(row_i_of_a_stratified_draw_lies_in_part_i)
{
    enum { LEAVES = 300 };
    uint32_t leaves[LEAVES];
    int64_t ids[512];
    uint64_t random = 77, below[LEAVES + 1] = {0};
    tree_rig rig;
    CHECK(tree_open(&rig, test_device(), LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f, 0.0f, ROOM));
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = (uint32_t)kit_below(&random, 1000);
        below[i + 1] = below[i] + leaves[i];
    }
    CHECK_OK(tree_set_leaves(&rig, 0, LEAVES, leaves));
    for (int64_t batch = 1; batch <= 512; batch = batch * 2 + 1) {
        const uint64_t total = below[LEAVES], parts = (uint64_t)batch;
        CHECK_OK(tree_draw(&rig, GPUR_PRIORITIZED, batch, 1, (uint64_t)batch, ids, NULL));
        for (uint64_t b = 0; b < parts; b++) {
            CHECK(below[ids[b] + 1] > total * b / parts);
            CHECK(below[ids[b]] < (total * (b + 1) + parts - 1) / parts);
        }
    }
    tree_close(&rig);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity);
    RUN(a_few_leaves_of_a_large_tree_are_found_at_their_ends);
    RUN(a_tree_of_one_leaf_gives_it_for_every_draw);
    RUN(a_total_of_zero_draws_uniformly_and_an_empty_window_nothing);
    RUN(rows_that_come_and_go_leave_every_sum_right);
    RUN(strata_tile_the_total_without_a_gap);
    RUN(row_i_of_a_stratified_draw_lies_in_part_i);
    return test_main_end();
}
