/* SPDX-License-Identifier: MIT */
/*
 * The sum tree by itself, without a replay. It is exact: every unit of the total reaches its leaf, parts of the total
 * have no gap, the order of updates does not matter, and every node stays the sum of its children, in any launch shape.
 * Samples are compared with the reference row by row, and with their proportions: every chi-square must have a tail of
 * at least 1e-6; there are eight of them, so one choice of seeds in 125,000 raises a false alarm. The seeds are fixed.
 */
#include "kernels/lib/power.h"
#include "kernels/priority/strata.h"
#include "reference/reference_learn.h"
#include "reference/reference_priority.h"
#include "replay/priority/sum_tree.h"
#include "support/priority_model.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { ROOM = 8192, SLOTS = 40000, BY_LIBRARY = -9 };
static const double alarm = 1e-6;

/* The race check makes a thread of every lane. It looks for races, and statistics are tested without it. */
enum { MAX_THREADS = IN_RACE_CHECK ? 1 : 4 };

/* A leaf for each slot of a ring without rows, and a window of all slots, of which slot 0 has id 0. */
static struct {
    gpur_device *device;
    gpur_stream *stream;
    gpur_priorities priorities;
    gpur_window *window; /* device, as the next four, which have ROOM elements */
    int64_t *ids;
    float *values;
    uint32_t *leaf;
    uint64_t *units;
    int64_t capacity;
} t;

static gpur_status set_window(gpur_window window)
{
    GPUR_TRY(gpur_copy(t.stream, t.window, &window, sizeof window));
    return gpur_stream_sync(t.stream);
}

static gpur_status open_tree(gpur_device *device, int64_t capacity, int32_t norm, float alpha)
{
    static const gpur_schema none;
    gpur_replay_config config = {.capacity = capacity, .max_batch = ROOM, .prioritized = 1};
    config.weight_norm = norm, config.alpha = alpha;
    memset(&t, 0, sizeof t);
    t.device = device, t.capacity = capacity;
    GPUR_TRY(gpur_stream_create(device, &t.stream));
    GPUR_TRY(gpur_device_alloc(device, sizeof *t.window, (void **)&t.window));
    GPUR_TRY(gpur_device_alloc(device, ROOM * sizeof *t.ids, (void **)&t.ids));
    GPUR_TRY(gpur_device_alloc(device, ROOM * sizeof *t.values, (void **)&t.values));
    GPUR_TRY(gpur_device_alloc(device, ROOM * sizeof *t.leaf, (void **)&t.leaf));
    GPUR_TRY(gpur_device_alloc(device, ROOM * sizeof *t.units, (void **)&t.units));
    GPUR_TRY(gpur_priorities_build(&t.priorities, device, &config, &none, NULL, t.window, t.stream));
    return set_window((gpur_window){0, 0, capacity});
}

static void close_tree(void)
{
    void *const memory[] = {t.window, t.ids, t.values, t.leaf, t.units};
    gpur_stream_destroy(t.stream);
    gpur_priorities_destroy(&t.priorities);
    for (int i = 0; i < 5; i++)
        gpur_device_free(t.device, memory[i]);
    gpur_device_close(t.device);
}

/* New priorities, by the function of the library (BY_LIBRARY), or by one phase of an update in this launch shape. */
static gpur_status update(int64_t count, const int64_t *ids, const float *priorities, int32_t phase, gpur_grid grid)
{
    const gpur_priority_update_args args = {.tree = t.priorities.tree,
                                            .window = t.window,
                                            .id = t.ids,
                                            .priority = t.values,
                                            .count = count,
                                            .offset = t.priorities.offset,
                                            .phase = phase};
    GPUR_TRY(gpur_copy(t.stream, t.ids, ids, count * 8));
    GPUR_TRY(gpur_copy(t.stream, t.values, priorities, count * 4));
    GPUR_TRY(phase == BY_LIBRARY ? gpur_priorities_update(&t.priorities, t.stream, count, t.ids, t.values, 0)
                                 : gpur_launch_priority_update(t.stream, grid, &args));
    return gpur_stream_sync(t.stream);
}

/* Leaves of these slots, or of the first `count`, if the largest is 2^21 to 2^31; smaller ones are scaled. With alpha 1
 * a priority of leaf / 2^26 is exact up to 24 bits. */
static gpur_status set_leaves(int64_t count, const int64_t *slots, const uint32_t *leaves)
{
    static int64_t ids[ROOM];
    static float priorities[ROOM];
    for (int64_t done = 0, part; done < count; done += part) {
        part = count - done < ROOM ? count - done : ROOM;
        for (int64_t i = 0; i < part; i++) {
            ids[i] = slots ? slots[done + i] : done + i;
            priorities[i] = (float)leaves[done + i] / (float)REFERENCE_SAMPLE_ONE;
        }
        GPUR_TRY(update(part, ids, priorities, BY_LIBRARY, (gpur_grid){0}));
    }
    return GPUR_OK;
}

/* Ids and leaves of the rows that are sampled by random numbers, or that have these units of the total. */
static gpur_status sample(int32_t source, int64_t count, uint64_t seed, uint64_t step, const uint64_t *units,
                          int64_t *ids, uint32_t *leaves)
{
    gpur_priority_sample_args args =
        gpur_priorities_sample_args(&t.priorities, source == GPUR_PRIORITIZED_STRATIFIED, count, t.ids, t.leaf);
    args.seed = seed, args.step_value = step, args.purpose = 7, args.mass = units ? t.units : NULL;
    if (units)
        GPUR_TRY(gpur_copy(t.stream, t.units, units, count * 8));
    GPUR_TRY(gpur_launch_priority_sample(t.stream, gpur_priorities_sample_grid(&t.priorities, count), &args));
    GPUR_TRY(gpur_copy(t.stream, ids, t.ids, count * 8));
    GPUR_TRY(gpur_copy(t.stream, leaves, t.leaf, count * 4));
    return gpur_stream_sync(t.stream);
}

/* The number of wrong nodes, leaves and segments, or -1; and the total. */
static int64_t count_wrong(uint64_t *total)
{
    if (gpur_priorities_validate(&t.priorities, t.stream) != GPUR_OK || gpur_stream_sync(t.stream) != GPUR_OK)
        return -1;
    if (total)
        *total = *t.priorities.host_total;
    return t.priorities.host_report->wrong;
}

/* ---- every unit of the total ---- */

/* Each leaf, in ascending slots, must be found by up to six units of the total, its first and its last among them. */
static void check_units(int64_t capacity, int64_t count, const int64_t *slots, const uint32_t *leaves)
{
    enum { UNITS = 6 };
    static uint64_t units[ROOM];
    static int64_t wanted[ROOM], ids[ROOM];
    static uint32_t found[ROOM];
    uint64_t below = 0, total = 0;
    CHECK_OK(open_tree(test_device(), capacity, capacity % 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH, 1.0f));
    CHECK_OK(set_leaves(count, slots, leaves));
    TEST_REQUIRE(count_wrong(&total) == 0, "capacity %lld", (long long)capacity);
    for (int64_t i = 0, n = 0; i < count; i++) {
        const uint32_t parts = leaves[i] < UNITS ? leaves[i] : UNITS;
        for (uint32_t part = 0; part < parts; part++, n++)
            units[n] = below + (parts > 1 ? (uint64_t)(leaves[i] - 1) * part / (parts - 1) : 0), wanted[n] = i;
        below += leaves[i];
        if (n == 0 || (n + UNITS <= ROOM && i + 1 < count))
            continue;
        CHECK_OK(sample(GPUR_PRIORITIZED_STRATIFIED, n, 0, 0, units, ids, found));
        for (; n > 0; n--)
            TEST_REQUIRE(ids[n - 1] == slots[wanted[n - 1]] && found[n - 1] == leaves[wanted[n - 1]],
                         "capacity %lld, unit %lld", (long long)capacity, (long long)units[n - 1]);
    }
    CHECK_EQUAL(total, below);
    close_tree();
}

/* Leaves of a few sizes, of which about a third are 0. */
static void check_all_slots(int64_t capacity, uint64_t seed)
{
    static uint32_t leaves[SLOTS];
    static int64_t slots[SLOTS];
    uint64_t random = seed * 0x9E3779B97F4A7C15ull + 1;
    for (int64_t i = 0; i < capacity; i++) {
        leaves[i] = xorshift_below(&random, 3) ? (uint32_t)xorshift_below(&random, 6) << 22 : 0;
        slots[i] = i;
    }
    if (capacity < 3) /* or all leaves may be 0 */
        leaves[capacity - 1] = 3 << 22;
    check_units(capacity, capacity, slots, leaves);
}

/* One leaf in each of 64 parts of a large tree, both ends included, of all sizes from 1 to 2^31. */
static void check_few_slots(int64_t capacity, uint64_t seed)
{
    enum { LEAVES = 64 };
    uint64_t random = seed + 1;
    const int64_t part = capacity / LEAVES;
    uint32_t leaves[LEAVES];
    int64_t slots[LEAVES];
    for (int64_t i = 0; i < LEAVES; i++) {
        leaves[i] = (uint32_t)1 << xorshift_below(&random, 32);
        slots[i] = i == 0 ? 0 : i == LEAVES - 1 ? capacity - 1 : i * part + xorshift_below(&random, part);
    }
    check_units(capacity, LEAVES, slots, leaves);
}

TEST(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity)
{
    static const int64_t small[] = {1, 2, 3, 127, 128, 129, 255, 256, 257, 1000, 16383, 16384, 16385};
    static const int64_t large[] = {2097153, 2097151, 2097152, (int64_t)16 << 20, ((int64_t)16 << 20) + 1};
    uint64_t random = 5;
    for (size_t i = 0; i < (IN_RACE_CHECK ? 9 : sizeof small / sizeof *small); i++)
        check_all_slots(small[i], i);
    for (uint64_t i = 0; i < (IN_RACE_CHECK ? 1 : 40); i++)
        check_all_slots(1 + xorshift_below(&random, IN_RACE_CHECK ? 400 : 20000), i);
    for (uint64_t i = 0; i < (IN_RACE_CHECK ? 1 : 5); i++)
        check_few_slots(large[i], i);
    for (uint64_t i = 0; i < (IN_RACE_CHECK ? 0 : test_is_long() ? 20 : 3); i++)
        check_few_slots(1000 + xorshift_below(&random, (int64_t)16 << 20), 6 + i);
}

static void check_strata(uint64_t total, int64_t parts)
{
    const gpur_strata s = gpur_strata_of(total, gpur_divisor_of(parts));
    gpur_strata_walk walk = gpur_strata_walk_from(&s, 0);
    CHECK(gpur_stratum(&s, 0) == 0);
    CHECK(gpur_stratum(&s, parts) == total);
    for (int64_t i = 0; i < parts; i++) {
        __extension__ typedef unsigned __int128 u128;
        const uint64_t first = (uint64_t)((u128)total * (uint64_t)i / (uint64_t)parts);
        const uint64_t end = (uint64_t)((u128)total * (uint64_t)(i + 1) / (uint64_t)parts);
        CHECK(gpur_stratum(&s, i) == first);
        CHECK(gpur_stratum_mass(&s, i, 0) == first);
        CHECK(gpur_stratum_mass(&s, i, UINT64_MAX) == (end > first ? end - 1 : first));
        const gpur_strata_walk from_here = gpur_strata_walk_from(&s, i);
        CHECK(walk.first == from_here.first && walk.carry == from_here.carry);
        CHECK(gpur_strata_walk_mass(&s, &walk, UINT64_MAX - 1) == gpur_stratum_mass(&s, i, UINT64_MAX - 1));
    }
}

TEST(strata_tile_the_total_without_a_gap)
{
    static const uint64_t totals[] = {1,         2, 511, 512, 513, 1048576, 0x123456789ABCDEFull, 0x7FFFFFFF80000000ull,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        for (int64_t parts = 1; parts <= 512; parts++)
            check_strata(totals[i], parts);
        check_strata(totals[i], 65536);
        check_strata(totals[i], 99991);
    }
}

/* ---- new priorities ---- */

/* The power function of leaves and weights, against the C library's, over the range of float32. */
TEST(powers_are_good_to_ten_digits)
{
    uint64_t random = 3;
    for (int i = 0; i < 200000; i++) {
        const float x = (float)ldexp(1.0 + (double)xorshift_below(&random, 1 << 23) / 8388608.0,
                                     (int)xorshift_below(&random, 270) - 145);
        const double a = (double)xorshift_below(&random, 4000) / 1000.0 - 2.0, want = pow((double)x, a);
        if (want > 1e-44 && want < 1e44)
            CHECK_NEAR(gpur_power((double)x, a), want, 1e-10 * want);
        CHECK(gpur_power((double)x, 0.0) == 1.0);
    }
    CHECK(gpur_power(1.0, 0.6) == 1.0 && gpur_power(4.0, 0.5) == 2.0);
}

/* Within the rounding to an integer, and 1e-6 of the leaf for float arithmetic. */
static int is_near(uint32_t leaf, float p, double alpha, int octave)
{
    const double want = reference_leaf((double)p, alpha, octave, REFERENCE_SAMPLE_ONE);
    return (leaf == 0) == (p == 0.0f) && fabs(leaf - want) <= 0.5 + 1e-6 * want;
}

TEST(a_leaf_is_the_priority_to_the_power_of_alpha)
{
    static const float alphas[] = {0.0f, 0.4f, 0.6f, 1.0f, 2.0f};
    static const float priorities[] = {0.0f, 1e-45f, 1e-30f, 1e-6f,   0.001f, 0.5f,  1.0f,
                                       1.5f, 7.0f,   100.0f, 4095.9f, 1e5f,   1e20f, 3.4e38f};
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        int octave = 0;
        CHECK_OK(open_tree(test_device(), 2, GPUR_WEIGHT_NORM_MEMORY, alphas[a]));
        for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++) {
            uint32_t leaf = 0;
            CHECK_OK(update(1, &(int64_t){0}, &priorities[i], BY_LIBRARY, (gpur_grid){0}));
            CHECK_OK(gpur_copy(t.stream, &leaf, t.priorities.tree.leaf, sizeof leaf));
            CHECK_EQUAL(count_wrong(NULL), 0);
            octave = reference_octave(octave, (double)priorities[i], (double)alphas[a]);
            CHECK_EQUAL(t.priorities.host_state->octave, octave);
            TEST_REQUIRE(is_near(leaf, priorities[i], (double)alphas[a], octave), "%g to the power of %g is %u",
                         (double)priorities[i], (double)alphas[a], leaf);
        }
        close_tree();
    }
}

/* A random update, and the model of the priorities after it. Half of the rows are among the first 64 slots; some ids
 * are of no row, and some priorities are invalid. */
static struct {
    int64_t count, ids[ROOM];
    float priorities[ROOM];
    reference_replay rows; /* all visible */
    priority_model model;
    uint64_t random;
} updates;

static void begin_updates(uint64_t seed)
{
    const gpur_replay_config config = {.capacity = t.capacity, .block_rows = t.capacity, .max_batch = 1};
    updates.random = seed;
    reference_begin(&updates.rows, &config, t.capacity);
    memset(updates.rows.rows, ROW_VISIBLE, (size_t)t.capacity);
    updates.rows.count = t.capacity;
    priority_model_begin(&updates.model, &updates.rows, &config, 0);
    memset(updates.model.priority, 0, (size_t)t.capacity * sizeof *updates.model.priority);
}

static void end_updates(void)
{
    priority_model_end(&updates.model);
    reference_end(&updates.rows);
    close_tree();
}

static void make_update(int64_t count)
{
    static const float bad[] = {NAN, INFINITY, -1.0f, -0.5f};
    const int64_t slots = t.capacity;
    updates.count = count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t dice = xorshift_below(&updates.random, 40);
        updates.ids[i] = xorshift_below(&updates.random, xorshift_below(&updates.random, 2) || slots < 64 ? slots : 64);
        updates.priorities[i] = (float)xorshift_below(&updates.random, 1000) * 0.01f;
        if (dice == 0)
            updates.priorities[i] = bad[xorshift_below(&updates.random, 4)];
        if (dice == 1)
            updates.ids[i] = (const int64_t[]){-1, slots, INT64_MAX}[xorshift_below(&updates.random, 3)];
    }
    priority_model_update(&updates.model, count, updates.ids, updates.priorities);
}

static void compare_with_model(double alpha)
{
    static float priorities[SLOTS];
    static uint32_t leaves[SLOTS];
    CHECK_EQUAL(count_wrong(NULL), 0);
    CHECK_OK(gpur_copy(t.stream, leaves, t.priorities.tree.leaf, t.capacity * 4));
    CHECK_OK(gpur_copy(t.stream, priorities, t.priorities.tree.priority, t.capacity * 4));
    CHECK_OK(gpur_stream_sync(t.stream));
    const gpur_priority_state *const state = t.priorities.host_state;
    float largest = 0.0f;
    for (int64_t slot = 0; slot < t.capacity; slot++) {
        CHECK(priorities[slot] == updates.model.priority[slot] &&
              is_near(leaves[slot], priorities[slot], alpha, state->octave));
        largest = fmaxf(largest, priorities[slot]);
    }
    CHECK_EQUAL(state->updates, updates.model.updates);
    CHECK_EQUAL(state->stale, updates.model.stale);
    CHECK_EQUAL(state->invalid, updates.model.invalid);
    CHECK(memcmp(&state->ever, &updates.model.ever, sizeof updates.model.ever) == 0);
    CHECK(memcmp(&state->largest, &largest, sizeof largest) == 0);
    CHECK_EQUAL(reference_octave(state->octave, (double)largest, alpha), state->octave);
}

/* Whether several blocks may do all phases of an update. */
static int are_blocks_enough(void)
{
    return gpur_device_get_traits(t.device)->has_warps && !GPUR_DRAWS_ARE_SEPARATE;
}

/* By kernels of this shape, or without one (0 blocks) by the library, which then also changes alpha. */
static void check_updates(int64_t slots, int32_t norm, gpur_grid grid)
{
    static const int64_t counts[] = {1, 2, 31, 1000, 4096, 4097, ROOM};
    static const float alphas[] = {1.0f, 0.0f, 0.25f, 0.6f};
    const int by_library = grid.blocks == 0;
    CHECK_OK(open_tree(test_device(), slots, norm, 0.6f));
    begin_updates((uint64_t)grid.blocks * 100 + (uint64_t)grid.threads + 1);
    if (by_library)
        gpur_device_force_grid(t.device, (gpur_grid){3, test_on_cuda() ? 64 : GPUR_WARP, 0});
    for (int round = 0; round < (by_library ? 7 : 3); round++) {
        const int levels = norm == GPUR_WEIGHT_NORM_MEMORY ? t.priorities.tree.levels : 0;
        const int at_once = grid.blocks == 1 || (round == 1 && are_blocks_enough());
        const int first = by_library ? BY_LIBRARY : at_once ? GPUR_PHASE_ALL : GPUR_PHASE_CLEAR;
        const int end = first == GPUR_PHASE_CLEAR ? GPUR_PHASE_MIN + levels : first + 1;
        make_update(by_library ? counts[round]
                               : (1 + xorshift_below(&updates.random, ROOM)) / (IN_RACE_CHECK ? 8 : 1) + 1);
        for (int phase = first; phase < end; phase++)
            CHECK_OK(update(updates.count, updates.ids, updates.priorities, phase, grid));
        compare_with_model(0.6);
    }
    for (int a = 0; by_library && a < 4; a++) {
        CHECK_OK(gpur_priorities_set_alpha(&t.priorities, t.stream, alphas[a]));
        compare_with_model((double)alphas[a]);
    }
    end_updates();
}

/* Blocks and threads race for the same leaves, and for the nodes above them. */
TEST(racing_updates_and_a_new_alpha_keep_every_node_exact_and_the_largest_duplicate)
{
    static const int64_t blocks[] = {1, 2, 7, 64}, slots[] = {1, 5, 129, 300, IN_RACE_CHECK ? SLOTS / 8 : SLOTS};
    const int32_t lanes = test_on_cuda() ? 32 : GPUR_WARP, sizes = lanes == 1 ? 1 : 3;
    for (int i = 0; i < 4 * sizes * 5;
         i += IN_RACE_CHECK ? 3 : 1) { /* 3: each size, each number of slots and of blocks comes */
        const gpur_grid grid = {blocks[i / 5 % 4], lanes * (1 + i / 20 * 3), 0};
        check_updates(slots[i % 5], i % 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH, grid);
        TEST_REQUIRE(atomic_load(&test_state.failures) == 0, "%d blocks of %d", (int)grid.blocks, (int)grid.threads);
    }
    check_updates(SLOTS, GPUR_WEIGHT_NORM_MEMORY, (gpur_grid){0});
}

/* gpur_priorities_validate itself is tested here. Nodes have segments where one thread descends. */
TEST(a_broken_node_is_found)
{
    const uint64_t off = 5;
    const uint32_t leaf = 7;
    const int segments = GPUR_WARP == 1 && !test_on_cuda();
    gpur_tree *const tree = &t.priorities.tree;
    CHECK_OK(open_tree(test_device(), 300, GPUR_WEIGHT_NORM_MEMORY, 0.6f));
    CHECK_OK(update(1, &(int64_t){3}, &(float){2}, BY_LIBRARY, (gpur_grid){0}));
    CHECK_EQUAL(count_wrong(NULL), 0);
    CHECK_OK(gpur_copy(t.stream, &tree->sum[0][2], &off, sizeof off)); /* neither this sum nor the total is right */
    CHECK_EQUAL(count_wrong(NULL), 2);
    CHECK_OK(gpur_copy(t.stream, &tree->leaf[299], &leaf, sizeof leaf)); /* its priority has no such leaf */
    CHECK_EQUAL(count_wrong(NULL), 4 + segments);                        /* and the node's smallest leaf, and segment */
    CHECK_OK(gpur_copy(t.stream, &tree->segment[0][9], &off, sizeof off)); /* its leaves are 0 */
    CHECK_EQUAL(count_wrong(NULL), 4 + 2 * segments);
    CHECK_OK(gpur_copy(t.stream, &tree->bound[2], &leaf, sizeof leaf)); /* a bound may be too large */
    CHECK_EQUAL(count_wrong(NULL), 4 + 2 * segments);
    CHECK_OK(gpur_copy(t.stream, &tree->bound[0], &leaf, sizeof leaf)); /* but not too small */
    CHECK_EQUAL(count_wrong(NULL), 5 + 2 * segments);
    close_tree();
}

/* Rows that enter and leave in runs, over several levels and round the ring's end: after each step the window's rows
 * have the same leaf, and every node and segment is right. */
TEST(rows_that_come_and_go_leave_every_sum_right)
{
    static const int64_t entered[] = {1, 17, 20, 300, 17000, 40000, 40100, 57003, 80000};
    gpur_window old = {0, 0, 0};
    uint64_t total = 0;
    CHECK_OK(open_tree(test_device(), SLOTS, GPUR_WEIGHT_NORM_MEMORY, 1.0f));
    CHECK_OK(set_window(old));
    for (size_t i = 0; i < sizeof entered / sizeof *entered; i++) {
        const int64_t first = entered[i] > SLOTS ? entered[i] - SLOTS : 0;
        const gpur_window next = {first, first % SLOTS, entered[i] - first};
        CHECK_OK(gpur_priorities_evict(&t.priorities, t.stream, &old, &next));
        CHECK_OK(set_window(next));
        CHECK_OK(gpur_priorities_insert(&t.priorities, t.stream, &old, &next));
        CHECK_EQUAL(count_wrong(&total), 0);
        CHECK_EQUAL(total, (uint64_t)next.count << 26);
        old = next;
    }
    close_tree();
}

/* ---- samples by random numbers ---- */

enum { LEAVES = 1000, MAX_BATCH = 4096, PARTS = 256 };
enum { ANY, TWO, FLAT, ONE, NONE }; /* leaves: any; two have nearly everything; all equal; a single unit; all 0 */

static double as_double[LEAVES], below[LEAVES + 1];

static gpur_status open_leaves(gpur_device *device, int kind)
{
    static uint32_t leaves[LEAVES];
    uint64_t random = 31;
    for (int i = 0; i < LEAVES; i++) {
        const uint32_t any = xorshift_below(&random, 5) ? (uint32_t)xorshift_below(&random, 10000) : 0;
        const uint32_t two = i == 3 ? 3000000 : i == 700 ? 4000000 : any / 100;
        leaves[i] = (const uint32_t[]){any, two, 5, i == LEAVES - 1, 0}[kind];
    }
    GPUR_TRY(open_tree(device, LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f));
    GPUR_TRY(set_leaves(LEAVES, NULL, leaves));
    GPUR_TRY(gpur_priorities_read_state(&t.priorities, t.stream));
    for (int i = 0; i < LEAVES; i++) {
        as_double[i] = ldexp(leaves[i], -t.priorities.host_state->octave);
        below[i + 1] = below[i] + as_double[i];
    }
    return GPUR_OK;
}

/* A chi-square over the leaves of each part of the total. Cells too small to be counted alone are one. */
static void check_parts(int64_t parts, int64_t samples_of_part, int64_t (*counts)[LEAVES])
{
    double statistic = 0.0;
    int64_t freedom = 0;
    for (int64_t p = 0; p < parts; p++) {
        const double first = floor(below[LEAVES] * (double)p / (double)parts);
        const double end = floor(below[LEAVES] * (double)(p + 1) / (double)parts);
        double small_got = 0.0, small_want = 0.0, sum = 0.0;
        int64_t cells = 0;
        for (int i = 0; i <= LEAVES; i++) { /* the last cell is that of the small ones */
            const double common = i < LEAVES ? fmin(end, below[i + 1]) - fmax(first, below[i]) : 0.0;
            const double got = i < LEAVES ? (double)counts[p][i] : small_got;
            const double want = i < LEAVES ? (double)samples_of_part * fmax(common, 0.0) / (end - first) : small_want;
            CHECK(i == LEAVES || common > 0.0 || got == 0.0);
            if (want >= 10.0)
                sum += (got - want) * (got - want) / want, cells++;
            else
                small_got += got, small_want += want;
        }
        if (cells > 1)
            statistic += sum, freedom += cells - 1;
    }
    CHECK(IN_RACE_CHECK || freedom > 0);
    CHECK(IN_RACE_CHECK || chi_square_tail(statistic, freedom) >= alarm);
}

/* Rows of a sample are independent of each other: the pairs (this row, the next) are counted over a grid of 8 x 8 parts
 * of the slots, which are parts of the total if all leaves are equal. */
static void check_proportions(int32_t source, int64_t batch, int kind, uint64_t seed, int64_t rounds)
{
    enum { SIDE = 8 };
    static int64_t ids[MAX_BATCH], counts[PARTS][LEAVES];
    static uint32_t found[MAX_BATCH];
    const int64_t parts = source == GPUR_PRIORITIZED_STRATIFIED ? batch : 1;
    int64_t pairs[SIDE * SIDE] = {0};
    rounds = IN_RACE_CHECK ? rounds / 1000 + 1 : test_is_long() ? 20 * rounds : rounds;
    memset(counts, 0, sizeof counts);
    CHECK_OK(open_leaves(test_device(), kind));
    for (int64_t round = 0; round < rounds; round++) {
        CHECK_OK(sample(source, batch, seed, (uint64_t)round, NULL, ids, found));
        for (int64_t b = 0; b < batch; b++) {
            counts[b % parts][ids[b]]++;
            if (b % 2)
                pairs[ids[b - 1] * SIDE / LEAVES * SIDE + ids[b] * SIDE / LEAVES]++;
        }
    }
    check_parts(parts, rounds * batch / parts, counts);
    CHECK(kind != FLAT || chi_square_tail(chi_square_statistic(pairs, SIDE * SIDE), SIDE * SIDE - 1) >= alarm);
    close_tree();
}

TEST(each_part_of_a_stratified_sample_follows_its_proportions)
{
    check_proportions(GPUR_PRIORITIZED_STRATIFIED, 1, ANY, 1, 20000);
    check_proportions(GPUR_PRIORITIZED_STRATIFIED, 7, ANY, 2, 20000);
    check_proportions(GPUR_PRIORITIZED_STRATIFIED, 32, ANY, 3, 20000);
    check_proportions(GPUR_PRIORITIZED_STRATIFIED, 32, TWO, 4, 20000);
    check_proportions(GPUR_PRIORITIZED_STRATIFIED, PARTS, ANY, 5, 20000);
}

TEST(an_independent_sample_follows_the_proportions_and_its_rows_are_independent)
{
    check_proportions(GPUR_PRIORITIZED_INDEPENDENT, MAX_BATCH, ANY, 6, 300);
    check_proportions(GPUR_PRIORITIZED_INDEPENDENT, MAX_BATCH, TWO, 7, 300);
    check_proportions(GPUR_PRIORITIZED_INDEPENDENT, MAX_BATCH, FLAT, 8, 100);
}

/* Without any priority a sample is uniform over the window, which goes round the ring's end. */
static void check_against_reference(int kind)
{
    static uint32_t found[MAX_BATCH];
    static int64_t ids[MAX_BATCH];
    const int64_t first = kind == NONE ? 2 * LEAVES - 100 : 0, rows = kind == NONE ? LEAVES / 2 : LEAVES;
    CHECK_OK(set_window((gpur_window){first, first % LEAVES, rows}));
    for (int source = GPUR_PRIORITIZED_STRATIFIED; source <= GPUR_PRIORITIZED_INDEPENDENT; source++)
        for (int64_t batch = 1; batch <= (kind == ANY ? MAX_BATCH : 121); batch = batch * 3 + 1) {
            CHECK_OK(sample(source, batch, 9, (uint64_t)batch, NULL, ids, found));
            for (int64_t b = 0; b < batch; b++) {
                const int64_t want = first + reference_sample_by_priority(as_double, rows, 9, 7, (uint64_t)batch, b,
                                                                          batch, source == GPUR_PRIORITIZED_STRATIFIED);
                TEST_REQUIRE(ids[b] == want && found[b] == as_double[want % LEAVES], "leaves %d, source %d, row %d",
                             kind, source, (int)b);
            }
        }
    CHECK_OK(set_window((gpur_window){first, first % LEAVES, 0}));
    CHECK_OK(sample(GPUR_PRIORITIZED_INDEPENDENT, 3, 3, 1, NULL, ids, found));
    CHECK(kind != NONE || (ids[0] == -1 && ids[1] == -1 && ids[2] == -1));
}

TEST(any_number_of_threads_samples_the_rows_of_the_reference_and_nothing_from_an_empty_window)
{
    for (int32_t threads = 1; threads <= MAX_THREADS; threads++)
        for (int kind = ANY; kind <= NONE; kind++) {
            gpur_device_config config = test_device_config();
            gpur_device *device = NULL;
            config.threads = threads;
            CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
            CHECK_OK(open_leaves(device, kind));
            check_against_reference(kind);
            close_tree();
        }
}

/* ---- weights ---- */

/* The weights of a replay's batches, while beta follows its schedule and after it is set. Alpha 1 makes leaves that
 * need no second rounding; the largest priority, 1 to 10, leaves the octave at 0. */
static void check_weights(int32_t source, int32_t norm, gpur_schedule beta, float scale)
{
    enum { ROWS = 200, MAX_ROWS = 121, SAMPLES = 8 };
    static const int64_t counts[SAMPLES] = {1, 2, 4, 13, 40, 121, 121, 40};
    gpur_replay_config config = replay_fixture_plain_config(300, 10, MAX_ROWS, GPUR_FLUSH_AUTO);
    double leaves[ROWS], wanted[MAX_ROWS];
    float weights[MAX_ROWS];
    int64_t ids[MAX_ROWS];
    uint64_t random = 41;
    replay_fixture s;
    config.prioritized = 1, config.index_source = source, config.weight_norm = norm, config.alpha = 1.0f;
    config.beta = beta, config.priority_offset = 0.0f;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, ROWS));
    for (int64_t i = 0; i < ROWS; i++) {
        const float p = xorshift_below(&random, 6) ? scale * (float)(1 + xorshift_below(&random, 1000)) : 0.0f;
        leaves[i] = reference_leaf((double)p, 1.0, 0, REFERENCE_SAMPLE_ONE);
        CHECK_OK(gpur_replay_update_priorities(s.replay, 1, &i, &p, NULL));
    }
    for (int i = 0; i < SAMPLES; i++) {
        const int is_set = i == SAMPLES - 1;
        const double exponent = is_set ? 0.25 : ref_schedule(&beta, i);
        gpur_priority_stats stats = {.size = sizeof stats};
        gpur_batch *batch = NULL;
        if (is_set)
            CHECK_OK(gpur_replay_set_beta(s.replay, 0.25f));
        CHECK_OK(gpur_replay_get_priority_stats(s.replay, &stats));
        CHECK_NEAR(stats.beta, exponent, 1e-6);
        CHECK_OK(gpur_replay_sample(s.replay, counts[i], NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, counts[i] * 8));
        CHECK_OK(gpur_batch_read(batch, "weight", weights, counts[i] * 4));
        gpur_batch_release(batch);
        reference_weights(leaves, ROWS, ids, counts[i], exponent, norm, wanted);
        for (int64_t b = 0; b < counts[i]; b++)
            CHECK_NEAR(weights[b], wanted[b], 3e-6 * wanted[b]);
    }
    replay_fixture_close(&s);
}

TEST(weights_follow_their_formula_and_schedule_in_all_three_norms)
{
    static const gpur_schedule betas[] = {
        {.first = 0.4f, .last = 1.0f, .begin = 2, .steps = 4}, {.first = 0.0f}, {.first = 1.0f}, {.first = 0.7f}};
    for (int32_t norm = GPUR_WEIGHT_NORM_BATCH; norm <= GPUR_WEIGHT_NORM_NONE; norm++)
        for (int source = GPUR_PRIORITIZED_STRATIFIED; source <= GPUR_PRIORITIZED_INDEPENDENT; source++)
            for (int b = 0; b < 4; b += IN_RACE_CHECK ? 3 : 1) /* the last without priorities: all weights are 1 */
                check_weights(source, norm, betas[b], b < 3 ? 0.01f : 0.0f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity);
    RUN(strata_tile_the_total_without_a_gap);
    RUN(powers_are_good_to_ten_digits);
    RUN(a_leaf_is_the_priority_to_the_power_of_alpha);
    RUN(racing_updates_and_a_new_alpha_keep_every_node_exact_and_the_largest_duplicate);
    RUN(a_broken_node_is_found);
    RUN(rows_that_come_and_go_leave_every_sum_right);
    RUN(each_part_of_a_stratified_sample_follows_its_proportions);
    RUN(an_independent_sample_follows_the_proportions_and_its_rows_are_independent);
    RUN(any_number_of_threads_samples_the_rows_of_the_reference_and_nothing_from_an_empty_window);
    RUN(weights_follow_their_formula_and_schedule_in_all_three_norms);
    return test_main_end();
}
