/* SPDX-License-Identifier: MIT */
/* New priorities: what leaves they make, that no order of them matters, and that every node stays the sum of its
 * children, in any shape of launch. */
#include "kernels/lib/power.h"
#include "reference/reference_priority.h"
#include "support/replay_kit.h"
#include "test.h"
#include "support/tree_rig.h"

enum { ROOM = 8192, SLOTS = 40000 };

static int scale(void)
{
#ifdef GPUR_RACE_CHECK
    return 8;
#else
    return 1;
#endif
}

/* A leaf as float arithmetic may come to it: 1e-6 of it, and the rounding. */
static void check_leaf(tree_rig *rig, float p, double alpha)
{
    const int64_t id = 0;
    uint32_t leaf = 0;
    CHECK_OK(tree_update(rig, 1, &id, &p));
    CHECK_OK(gpur_copy(rig->stream, &leaf, rig->priorities.tree.leaf, 4));
    CHECK_OK(gpur_stream_sync(rig->stream));
    const double want = reference_leaf((double)p, alpha);
    CHECK_NEAR(leaf, want, 0.5 + 1e-6 * want);
    CHECK((leaf == 0) == (p == 0.0f));
    CHECK_EQUAL(tree_wrong(rig, NULL), 0);
}

TEST(a_leaf_is_the_priority_to_the_power_of_alpha)
{
    static const float alphas[] = {0.0f, 0.4f, 0.6f, 1.0f, 2.0f};
    static const float priorities[] = {0.0f, 1e-45f, 1e-30f, 1e-6f,   0.001f, 0.5f,  1.0f,
                                       1.5f, 7.0f,   100.0f, 4095.9f, 1e5f,   1e20f, 3.4e38f};
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        tree_rig rig;
        CHECK(tree_open(&rig, test_device(), 2, GPUR_WEIGHT_NORM_MEMORY, alphas[a], 0.0f, ROOM));
        for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++)
            check_leaf(&rig, priorities[i], (double)alphas[a]);
        tree_close(&rig);
    }
}

/* The power that makes leaves and weights, against the C library's, over all that a float can be. */
TEST(powers_are_good_to_ten_digits)
{
    uint64_t random = 3;
    for (int i = 0; i < 200000; i++) {
        const float x = (float)ldexp(1.0 + (double)kit_below(&random, 1 << 23) / 8388608.0,
                                     (int)kit_below(&random, 270) - 145);
        const double a = (double)kit_below(&random, 4000) / 1000.0 - 2.0, want = pow((double)x, a);
        if (want > 1e-44 && want < 1e44)
            CHECK_NEAR(gpur_power((double)x, a), want, 1e-10 * want);
        CHECK(gpur_power((double)x, 0.0) == 1.0);
    }
    CHECK(gpur_power(1.0, 0.6) == 1.0);
    CHECK(gpur_power(4.0, 0.5) == 2.0);
}

/* Rows and priorities, half of them on a few hot leaves; and what each slot then has. */
typedef struct rush {
    int64_t count, ids[ROOM];
    float priorities[ROOM];
    float held[SLOTS]; /* by slot */
} rush;

static void make_rush(rush *r, int64_t slots, uint64_t *random)
{
    static unsigned char given[SLOTS];
    memset(given, 0, sizeof given);
    for (int64_t i = 0; i < r->count; i++) {
        r->ids[i] = kit_below(random, kit_below(random, 2) ? slots : slots < 64 ? slots : 64);
        r->priorities[i] = (float)kit_below(random, 1000) * 0.01f;
        float *const held = &r->held[r->ids[i]];
        *held = given[r->ids[i]] && *held > r->priorities[i] ? *held : r->priorities[i];
        given[r->ids[i]] = 1;
    }
}

static void check_rush(tree_rig *rig, const rush *r)
{
    static float raw[SLOTS];
    static uint32_t leaves[SLOTS];
    CHECK_EQUAL(tree_wrong(rig, NULL), 0);
    CHECK_OK(tree_leaves(rig, leaves));
    CHECK_OK(gpur_copy(rig->stream, raw, rig->priorities.tree.raw, rig->capacity * 4));
    CHECK_OK(gpur_stream_sync(rig->stream));
    for (int64_t slot = 0; slot < rig->capacity; slot++) {
        const double want = reference_leaf((double)r->held[slot], 0.6);
        CHECK_NEAR(raw[slot], r->held[slot], 0);
        CHECK_NEAR(leaves[slot], want, 0.5 + 1e-6 * want);
    }
}

static void check_shape(int64_t slots, int32_t norm, gpur_grid grid)
{
    static rush r;
    tree_rig rig;
    uint64_t random = (uint64_t)grid.blocks * 100 + (uint64_t)grid.threads + 1;
    memset(&r, 0, sizeof r);
    CHECK(tree_open(&rig, test_device(), slots, norm, 0.6f, 0.0f, ROOM));
    for (int round = 0; round < 3; round++) {
        r.count = (1 + kit_below(&random, ROOM)) / scale() + 1;
        make_rush(&r, slots, &random);
        if (grid.blocks == 1)
            CHECK_OK(tree_update_part(&rig, r.count, r.ids, r.priorities, GPUR_UPDATE_ALL, grid));
        const int levels = norm == GPUR_WEIGHT_NORM_MEMORY ? rig.priorities.tree.levels : 0;
        for (int part = GPUR_UPDATE_CLEAR; grid.blocks > 1 && part < GPUR_UPDATE_LEAST + levels; part++)
            CHECK_OK(tree_update_part(&rig, r.count, r.ids, r.priorities, part, grid));
        check_rush(&rig, &r);
    }
    tree_close(&rig);
}

/* Blocks and threads race for the same leaves, and for the nodes above them. */
TEST(racing_updates_keep_every_node_exact_and_the_largest_duplicate)
{
    static const int64_t blocks[] = {1, 2, 7, 64}, slots[] = {1, 5, 129, 300, SLOTS};
    const int32_t lanes = test_on_cuda() ? 32 : GPUR_WARP, sizes = lanes == 1 ? 1 : 3;
    for (int i = 0; i < 4 * sizes; i++) {
        const gpur_grid grid = {blocks[i % 4], lanes * (1 + i / 4 * 3), 0};
        for (size_t s = 0; s < sizeof slots / sizeof *slots; s++)
            check_shape(slots[s] / (slots[s] > 300 ? scale() : 1),
                        s % 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH, grid);
    }
}

/* As the library itself shapes it: few rows, and more than one block takes. */
TEST(few_and_many_updates_come_out_alike)
{
    static rush r;
    static const int64_t counts[] = {1, 2, 31, 1000, 4096, 4097, ROOM};
    tree_rig rig;
    uint64_t random = 4;
    gpur_device *const device = test_device();
    memset(&r, 0, sizeof r);
    CHECK(tree_open(&rig, device, SLOTS, GPUR_WEIGHT_NORM_MEMORY, 0.6f, 0.0f, ROOM));
    gpur_device_force_grid(device, (gpur_grid){3, test_on_cuda() ? 64 : GPUR_WARP, 0});
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        r.count = counts[i];
        make_rush(&r, SLOTS, &random);
        CHECK_OK(tree_update(&rig, r.count, r.ids, r.priorities));
        check_rush(&rig, &r);
    }
    tree_close(&rig);
}

TEST(bad_priorities_and_stale_ids_are_counted_and_change_nothing)
{
    const gpur_window window = {1000, 3, 5}; /* slots 3 to 7 of 10 */
    const int64_t good[] = {1000, 1004}, bad[] = {1000, 1004, 1000, 1001}, stale[] = {999, 1005, -1, INT64_MAX};
    const float two[] = {2.0f, 3.0f}, wrong[] = {NAN, INFINITY, -1.0f, -0.5f}, fine[] = {5.0f, 5.0f, 5.0f, 5.0f};
    uint32_t before[10], after[10];
    tree_rig rig;
    CHECK(tree_open(&rig, test_device(), 10, GPUR_WEIGHT_NORM_MEMORY, 0.6f, 0.5f, ROOM));
    CHECK_OK(tree_show(&rig, window));
    CHECK_OK(tree_update(&rig, 2, good, two));
    CHECK_OK(tree_leaves(&rig, before));
    CHECK(before[3] > 0 && before[7] > before[3]);
    CHECK_NEAR(before[3], reference_leaf(2.5, 0.6), 2.0);
    CHECK_OK(tree_update(&rig, 4, bad, wrong));
    CHECK_OK(tree_update(&rig, 4, stale, fine));
    CHECK_OK(tree_leaves(&rig, after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK_EQUAL(tree_wrong(&rig, NULL), 0);
    const gpur_priority_state state = *rig.priorities.host_state;
    CHECK_EQUAL(state.updates, 2);
    CHECK_EQUAL(state.invalid, 4);
    CHECK_EQUAL(state.stale, 4);
    tree_close(&rig);
}

TEST(a_new_alpha_makes_every_leaf_anew)
{
    static rush r;
    static uint32_t leaves[SLOTS];
    static const float alphas[] = {1.0f, 0.0f, 0.25f, 0.6f};
    tree_rig rig;
    uint64_t random = 6;
    memset(&r, 0, sizeof r);
    r.count = ROOM;
    CHECK(tree_open(&rig, test_device(), SLOTS, GPUR_WEIGHT_NORM_MEMORY, 0.6f, 0.0f, ROOM));
    make_rush(&r, SLOTS, &random);
    CHECK_OK(tree_update(&rig, r.count, r.ids, r.priorities));
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        CHECK_OK(gpur_priorities_rebuild(&rig.priorities, rig.stream, alphas[a]));
        CHECK_EQUAL(tree_wrong(&rig, NULL), 0);
        CHECK_OK(tree_leaves(&rig, leaves));
        for (int slot = 0; slot < SLOTS; slot++) {
            const double want = reference_leaf((double)r.held[slot], (double)alphas[a]);
            CHECK_NEAR(leaves[slot], want, 0.5 + 1e-6 * want);
        }
    }
    check_rush(&rig, &r); /* back at 0.6, the leaves are what they were */
    tree_close(&rig);
}

/* Nodes have sums of their parts where one thread descends. */
static int parts_are_kept(void)
{
    return GPUR_WARP == 1 && !test_on_cuda();
}

/* A walk that finds nothing would be no proof. */
TEST(a_broken_node_is_found)
{
    const int64_t id = 3;
    const float p = 2.0f;
    const uint64_t off = 5;
    const uint32_t leaf = 7;
    const int parts = parts_are_kept();
    tree_rig rig;
    CHECK(tree_open(&rig, test_device(), 300, GPUR_WEIGHT_NORM_MEMORY, 0.6f, 0.0f, ROOM));
    CHECK_OK(tree_update(&rig, 1, &id, &p));
    CHECK_EQUAL(tree_wrong(&rig, NULL), 0);
    CHECK_OK(gpur_copy(rig.stream, &rig.priorities.tree.sum[0][2], &off, sizeof off)); /* no sum, and the total lacks
                                                                                          it */
    CHECK_EQUAL(tree_wrong(&rig, NULL), 2);
    CHECK_OK(gpur_copy(rig.stream, &rig.priorities.tree.leaf[299], &leaf, sizeof leaf)); /* nor is this of a priority */
    CHECK_EQUAL(tree_wrong(&rig, NULL), 4 + parts); /* with the smallest leaf of its node, and its part */
    CHECK_OK(gpur_copy(rig.stream, &rig.priorities.tree.part[0][9], &off, sizeof off)); /* nothing is in it */
    CHECK_EQUAL(tree_wrong(&rig, NULL), 4 + 2 * parts);
    tree_close(&rig);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_leaf_is_the_priority_to_the_power_of_alpha);
    RUN(powers_are_good_to_ten_digits);
    RUN(racing_updates_keep_every_node_exact_and_the_largest_duplicate);
    RUN(few_and_many_updates_come_out_alike);
    RUN(bad_priorities_and_stale_ids_are_counted_and_change_nothing);
    RUN(a_new_alpha_makes_every_leaf_anew);
    RUN(a_broken_node_is_found);
    return test_main_end();
}
