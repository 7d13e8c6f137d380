/* SPDX-License-Identifier: MIT */
/*
 * The sum tree by itself, without a replay. It is exact: every unit of the total reaches its leaf, parts of the total
 * have no gap, the order of updates does not matter, and every node stays the sum of its children, in any shape of
 * launch. Draws are held against the reference row by row and against their proportions: every chi-square must have a
 * tail of at least 1e-6; there are eight of them, so a false alarm comes with one choice of seeds in 125,000. The seeds
 * are fixed.
 */
#include "kernels/lib/power.h"
#include "kernels/priority/strata.h"
#include "reference/reference_priority.h"
#include "replay/priority/sum_tree.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { ROOM = 8192, SLOTS = 40000, BY_LIBRARY = -1 };
static const double alarm = 1e-6;

/* The race check makes a thread of every lane: there the question is races, and counts are asked elsewhere. */
#ifdef GPUR_RACE_CHECK
enum { RACE = 1, MOST_THREADS = 1 };
#else
enum { RACE = 0, MOST_THREADS = 4 };
#endif

/* A leaf for each slot of a ring that nobody fills, and a window that shows them all, slot 0 with id 0. */
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

static gpur_status show(gpur_window window)
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
    return show((gpur_window){0, 0, capacity});
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

/* New priorities, as a replay would give them (BY_LIBRARY), or by one part of an update in this shape of launch. */
static gpur_status update(int64_t count, const int64_t *ids, const float *priorities, int32_t part, gpur_grid grid)
{
    const gpur_priority_update_args args = {.tree = t.priorities.tree,
                                            .window = t.window,
                                            .id = t.ids,
                                            .priority = t.values,
                                            .count = count,
                                            .offset = t.priorities.offset,
                                            .phase = part};
    GPUR_TRY(gpur_copy(t.stream, t.ids, ids, count * 8));
    GPUR_TRY(gpur_copy(t.stream, t.values, priorities, count * 4));
    GPUR_TRY(part == BY_LIBRARY ? gpur_priorities_update(&t.priorities, t.stream, count, t.ids, t.values, 0)
                                : gpur_launch_priority_update(t.stream, grid, &args));
    return gpur_stream_sync(t.stream);
}

/* Leaves as given: with alpha 1 a priority of leaf / 2^20 is kept exactly, up to 24 bits. */
static gpur_status set_leaves(int64_t first_slot, int64_t count, const uint32_t *leaves)
{
    static int64_t ids[ROOM];
    static float priorities[ROOM];
    for (int64_t done = 0, part; done < count; done += part) {
        part = count - done < ROOM ? count - done : ROOM;
        for (int64_t i = 0; i < part; i++)
            ids[i] = first_slot + done + i, priorities[i] = (float)leaves[done + i] / 1048576.0f;
        GPUR_TRY(update(part, ids, priorities, BY_LIBRARY, (gpur_grid){0}));
    }
    return GPUR_OK;
}

/* Which rows are drawn by random numbers, or which have these units of the total; and their leaves. */
static gpur_status draw(int32_t source, int64_t count, uint64_t seed, uint64_t step, const uint64_t *units,
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

/* How much of the whole tree is wrong, or -1; and its total. */
static int64_t wrong(uint64_t *total)
{
    if (gpur_priorities_validate(&t.priorities, t.stream) != GPUR_OK || gpur_stream_sync(t.stream) != GPUR_OK)
        return -1;
    if (total)
        *total = *t.priorities.host_total;
    return t.priorities.host_report->wrong;
}

/* ---- every unit of the total ---- */

/* Small leaves, of which about a third are 0, the first and the last now and then. */
static void make_small(uint32_t *leaves, int64_t count, uint64_t *random)
{
    for (int64_t i = 0; i < count; i++)
        leaves[i] = xorshift_below(random, 3) ? (uint32_t)xorshift_below(random, 6) : 0;
    if (count < 3) /* or nothing may be left to find */
        leaves[count - 1] = 3;
}

/* Every unit in order, ROOM at a time: leaf s must be found by as many units in a row as it is large. */
static void check_capacity(int64_t capacity, uint64_t seed)
{
    static uint32_t leaves[SLOTS], found[ROOM];
    static uint64_t units[ROOM];
    static int64_t ids[ROOM];
    uint64_t random = seed * 0x9E3779B97F4A7C15ull + 1, total = 0, want = 0;
    int64_t slot = 0;
    make_small(leaves, capacity, &random);
    for (int64_t i = 0; i < capacity; i++)
        want += leaves[i];
    CHECK_OK(open_tree(test_device(), capacity, GPUR_WEIGHT_NORM_MEMORY, 1.0f));
    CHECK_OK(set_leaves(0, capacity, leaves));
    TEST_REQUIRE(wrong(&total) == 0 && total == want, "capacity %d", (int)capacity);
    for (uint64_t first = 0, left = leaves[0]; first < total; first += ROOM) {
        const int64_t count = (int64_t)(total - first < ROOM ? total - first : ROOM);
        for (int64_t i = 0; i < count; i++)
            units[i] = first + (uint64_t)i;
        CHECK_OK(draw(GPUR_PRIORITIZED_STRATIFIED, count, 0, 0, units, ids, found));
        for (int64_t i = 0; i < count; i++, left--) {
            while (left == 0)
                left = leaves[++slot];
            TEST_REQUIRE(ids[i] == slot && found[i] == leaves[slot], "capacity %d, unit %d", (int)capacity,
                         (int)units[i]);
        }
    }
    close_tree();
}

TEST(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity)
{
    static const int64_t edges[] = {1, 2, 3, 127, 128, 129, 255, 256, 257, 1000, 16383, 16384, 16385};
    uint64_t random = 5;
    for (size_t i = 0; i < (RACE ? 9 : sizeof edges / sizeof *edges); i++)
        check_capacity(edges[i], i);
    for (uint64_t i = 0; i < (RACE ? 1 : 40); i++)
        check_capacity(1 + xorshift_below(&random, RACE ? 400 : 20000), i);
}

/* Of a large tree a leaf here and there, with everything from 1 to the largest, and both ends. */
static void check_sparse(int64_t capacity, uint64_t seed)
{
    enum { LEAVES = 64 };
    uint64_t units[3 * LEAVES], below[LEAVES + 1] = {0}, random = seed + 1, total = 0;
    uint32_t found[3 * LEAVES];
    int64_t slots[LEAVES], ids[3 * LEAVES];
    CHECK_OK(open_tree(test_device(), capacity, GPUR_WEIGHT_NORM_BATCH, 1.0f));
    for (int64_t i = 0; i < LEAVES; i++) {
        const int64_t part = capacity / LEAVES; /* ascending: one in each part, the ends included */
        const uint32_t leaf = (uint32_t)1 << xorshift_below(&random, 32);
        slots[i] = i == 0 ? 0 : i == LEAVES - 1 ? capacity - 1 : i * part + xorshift_below(&random, part);
        CHECK_OK(set_leaves(slots[i], 1, &leaf));
        below[i + 1] = below[i] + leaf;
    }
    CHECK_EQUAL(wrong(&total), 0);
    CHECK_EQUAL(total, below[LEAVES]);
    for (int64_t i = 0; i < LEAVES; i++) { /* the first and the last unit of each, and one between */
        units[3 * i] = below[i], units[3 * i + 1] = below[i + 1] - 1;
        units[3 * i + 2] = below[i] + (below[i + 1] - below[i]) / 2;
    }
    CHECK_OK(draw(GPUR_PRIORITIZED_STRATIFIED, 3 * LEAVES, 0, 0, units, ids, found));
    for (int64_t i = 0; i < 3 * LEAVES; i++)
        TEST_REQUIRE(ids[i] == slots[i / 3], "capacity %lld, leaf %d", (long long)capacity, (int)i / 3);
    close_tree();
}

TEST(a_few_leaves_of_a_large_tree_are_found_at_their_ends)
{
    static const int64_t edges[] = {2097153, 2097151, 2097152, (int64_t)16 << 20, ((int64_t)16 << 20) + 1};
    uint64_t random = 9;
    for (uint64_t i = 0; i < (RACE ? 1 : 5); i++)
        check_sparse(edges[i], i);
    for (uint64_t i = 0; i < (RACE ? 0 : test_is_long() ? 20 : 3); i++)
        check_sparse(1000 + xorshift_below(&random, (int64_t)16 << 20), 6 + i);
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
        CHECK(gpur_stratum_mass(&s, i, 0) == first);
        CHECK(gpur_stratum_mass(&s, i, UINT64_MAX) == (end > first ? end - 1 : first));
        const gpur_strata_walk from_here = gpur_strata_walk_from(&s, i);
        CHECK(walk.first == from_here.first && walk.carry == from_here.carry);
        CHECK(gpur_strata_walk_mass(&s, &walk, UINT64_MAX - 1) == gpur_stratum_mass(&s, i, UINT64_MAX - 1));
    }
}

TEST(strata_tile_the_total_without_a_gap)
{
    static const uint64_t totals[] = {1, 2, 511, 512, 513, 1048576, 0x123456789ABCDEFull, 0x7FFFFFFF80000000ull};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        for (int64_t parts = 1; parts <= 512; parts++)
            check_strata(totals[i], parts);
        check_strata(totals[i], 65536);
        check_strata(totals[i], 99991);
    }
}

/* ---- new priorities ---- */

/* The power that makes leaves and weights, against the C library's, over all that a float can be. */
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

/* A leaf as float arithmetic may come to it: 1e-6 of it, and the rounding. */
static int is_near(uint32_t leaf, float p, double alpha)
{
    const double want = reference_leaf((double)p, alpha);
    return (leaf == 0) == (p == 0.0f) && fabs(leaf - want) <= 0.5 + 1e-6 * want;
}

TEST(a_leaf_is_the_priority_to_the_power_of_alpha)
{
    static const float alphas[] = {0.0f, 0.4f, 0.6f, 1.0f, 2.0f};
    static const float priorities[] = {0.0f, 1e-45f, 1e-30f, 1e-6f,   0.001f, 0.5f,  1.0f,
                                       1.5f, 7.0f,   100.0f, 4095.9f, 1e5f,   1e20f, 3.4e38f};
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        CHECK_OK(open_tree(test_device(), 2, GPUR_WEIGHT_NORM_MEMORY, alphas[a]));
        for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++) {
            uint32_t leaf = 0;
            CHECK_OK(update(1, &(int64_t){0}, &priorities[i], BY_LIBRARY, (gpur_grid){0}));
            CHECK_OK(gpur_copy(t.stream, &leaf, t.priorities.tree.leaf, sizeof leaf));
            CHECK_EQUAL(wrong(NULL), 0);
            TEST_REQUIRE(is_near(leaf, priorities[i], (double)alphas[a]), "%g to the power of %g is %u",
                         (double)priorities[i], (double)alphas[a], leaf);
        }
        close_tree();
    }
}

/* Rows and priorities, half of them on a few hot leaves; some ids are of no row, and some priorities are none. What
 * each slot then has, and the counts. */
static struct {
    int64_t count, ids[ROOM];
    float priorities[ROOM];
    float held[SLOTS]; /* by slot */
    uint64_t random;
    int64_t updates, stale, invalid;
} rush;

static void make_rush(int64_t count)
{
    static const float bad[] = {NAN, INFINITY, -1.0f, -0.5f};
    static unsigned char given[SLOTS];
    const int64_t slots = t.capacity;
    memset(given, 0, sizeof given);
    rush.count = count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t dice = xorshift_below(&rush.random, 40);
        int64_t *const id = &rush.ids[i];
        float *const p = &rush.priorities[i];
        *id = xorshift_below(&rush.random, xorshift_below(&rush.random, 2) ? slots : slots < 64 ? slots : 64);
        *p = (float)xorshift_below(&rush.random, 1000) * 0.01f;
        if (dice == 0)
            *p = bad[xorshift_below(&rush.random, 4)];
        if (dice == 1)
            *id = (const int64_t[]){-1, slots, INT64_MAX}[xorshift_below(&rush.random, 3)];
        rush.invalid += dice == 0, rush.stale += dice == 1, rush.updates += dice > 1;
        if (dice < 2)
            continue;
        float *const held = &rush.held[*id];
        *held = given[*id] && *held > *p ? *held : *p;
        given[*id] = 1;
    }
}

static void begin_rush(uint64_t seed)
{
    memset(&rush, 0, sizeof rush);
    rush.random = seed;
}

static void check_rush(double alpha)
{
    static float raw[SLOTS];
    static uint32_t leaves[SLOTS];
    CHECK_EQUAL(wrong(NULL), 0);
    CHECK_OK(gpur_copy(t.stream, leaves, t.priorities.tree.leaf, t.capacity * 4));
    CHECK_OK(gpur_copy(t.stream, raw, t.priorities.tree.priority, t.capacity * 4));
    CHECK_OK(gpur_stream_sync(t.stream));
    for (int64_t slot = 0; slot < t.capacity; slot++)
        CHECK(raw[slot] == rush.held[slot] && is_near(leaves[slot], raw[slot], alpha));
    const gpur_priority_state *const state = t.priorities.host_state;
    CHECK(state->updates == rush.updates && state->stale == rush.stale && state->invalid == rush.invalid);
}

static void check_shape(int64_t slots, int32_t norm, gpur_grid grid)
{
    begin_rush((uint64_t)grid.blocks * 100 + (uint64_t)grid.threads + 1);
    CHECK_OK(open_tree(test_device(), slots, norm, 0.6f));
    for (int round = 0; round < 3; round++) {
        const int levels = norm == GPUR_WEIGHT_NORM_MEMORY ? t.priorities.tree.levels : 0;
        const int first = grid.blocks == 1 ? GPUR_PHASE_ALL : GPUR_PHASE_CLEAR;
        const int end = grid.blocks == 1 ? GPUR_PHASE_ALL + 1 : GPUR_PHASE_MIN + levels;
        make_rush((1 + xorshift_below(&rush.random, ROOM)) / (RACE ? 8 : 1) + 1);
        for (int part = first; part < end; part++)
            CHECK_OK(update(rush.count, rush.ids, rush.priorities, part, grid));
        check_rush(0.6);
    }
    close_tree();
}

/* Blocks and threads race for the same leaves, and for the nodes above them. */
TEST(racing_updates_keep_every_node_exact_and_the_largest_duplicate)
{
    static const int64_t blocks[] = {1, 2, 7, 64}, slots[] = {1, 5, 129, 300, RACE ? SLOTS / 8 : SLOTS};
    const int32_t lanes = test_on_cuda() ? 32 : GPUR_WARP, sizes = lanes == 1 ? 1 : 3;
    for (int i = 0; i < 4 * sizes * 5; i++)
        check_shape(slots[i % 5], i % 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH,
                    (gpur_grid){blocks[i / 5 % 4], lanes * (1 + i / 20 * 3), 0});
}

/* As the library itself shapes it: few rows, and more than one block takes. */
TEST(few_and_many_updates_come_out_alike_and_a_new_alpha_makes_every_leaf_anew)
{
    static const int64_t counts[] = {1, 2, 31, 1000, 4096, 4097, ROOM};
    static const float alphas[] = {1.0f, 0.0f, 0.25f, 0.6f};
    gpur_device *const device = test_device();
    begin_rush(4);
    CHECK_OK(open_tree(device, SLOTS, GPUR_WEIGHT_NORM_MEMORY, 0.6f));
    gpur_device_force_grid(device, (gpur_grid){3, test_on_cuda() ? 64 : GPUR_WARP, 0});
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        make_rush(counts[i]);
        CHECK_OK(update(rush.count, rush.ids, rush.priorities, BY_LIBRARY, (gpur_grid){0}));
        check_rush(0.6);
    }
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        CHECK_OK(gpur_priorities_rebuild(&t.priorities, t.stream, alphas[a]));
        check_rush((double)alphas[a]);
    }
    close_tree();
}

/* A walk that finds nothing would be no proof. Nodes have sums of their parts where one thread descends. */
TEST(a_broken_node_is_found)
{
    const uint64_t off = 5;
    const uint32_t leaf = 7;
    const int parts = GPUR_WARP == 1 && !test_on_cuda();
    gpur_tree *const tree = &t.priorities.tree;
    CHECK_OK(open_tree(test_device(), 300, GPUR_WEIGHT_NORM_MEMORY, 0.6f));
    CHECK_OK(update(1, &(int64_t){3}, &(float){2}, BY_LIBRARY, (gpur_grid){0}));
    CHECK_EQUAL(wrong(NULL), 0);
    CHECK_OK(gpur_copy(t.stream, &tree->sum[0][2], &off, sizeof off)); /* no sum, and the total lacks it */
    CHECK_EQUAL(wrong(NULL), 2);
    CHECK_OK(gpur_copy(t.stream, &tree->leaf[299], &leaf, sizeof leaf));   /* nor is this of a priority */
    CHECK_EQUAL(wrong(NULL), 4 + parts);                                   /* with the smallest leaf of its node, and
                                                                              its part */
    CHECK_OK(gpur_copy(t.stream, &tree->segment[0][9], &off, sizeof off)); /* nothing is in it */
    CHECK_EQUAL(wrong(NULL), 4 + 2 * parts);
    close_tree();
}

/* Rows that enter and leave in runs, over several levels and round the ring's end: after each step the window's rows
 * have the same leaf, and every node and part is right. */
TEST(rows_that_come_and_go_leave_every_sum_right)
{
    static const int64_t entered[] = {1, 17, 20, 300, 17000, 40000, 40100, 57003, 80000};
    gpur_window old = {0, 0, 0};
    uint64_t total = 0;
    CHECK_OK(open_tree(test_device(), SLOTS, GPUR_WEIGHT_NORM_MEMORY, 1.0f));
    CHECK_OK(show(old));
    for (size_t i = 0; i < sizeof entered / sizeof *entered; i++) {
        const int64_t first = entered[i] > SLOTS ? entered[i] - SLOTS : 0;
        const gpur_window next = {first, first % SLOTS, entered[i] - first};
        CHECK_OK(gpur_priorities_evict(&t.priorities, t.stream, &old, &next));
        CHECK_OK(show(next));
        CHECK_OK(gpur_priorities_insert(&t.priorities, t.stream, &old, &next));
        CHECK_EQUAL(wrong(&total), 0);
        CHECK_EQUAL(total, (uint64_t)next.count << 20);
        old = next;
    }
    close_tree();
}

/* ---- draws by random numbers ---- */

enum { LEAVES = 1000, MOST_BATCH = 4096, PARTS = 256 };
enum { ANY, TWO, ONE, FLAT }; /* leaves: any; nearly everything is one of two; a single unit; all alike */

static double as_double[LEAVES], below[LEAVES + 1];

static gpur_status open_leaves(gpur_device *device, int kind)
{
    static uint32_t leaves[LEAVES];
    uint64_t random = 31;
    for (int i = 0; i < LEAVES; i++) {
        const uint32_t any = xorshift_below(&random, 5) ? (uint32_t)xorshift_below(&random, 10000) : 0;
        const uint32_t two = i == 3 ? 3000000 : i == 700 ? 4000000 : any / 100;
        leaves[i] = kind == ANY ? any : kind == TWO ? two : kind == ONE ? i == LEAVES - 1 : 5;
        as_double[i] = leaves[i], below[i + 1] = below[i] + leaves[i];
    }
    GPUR_TRY(open_tree(device, LEAVES, GPUR_WEIGHT_NORM_BATCH, 1.0f));
    return set_leaves(0, LEAVES, leaves);
}

static int64_t draws(int64_t count)
{
    return RACE ? count / 1000 + 1 : test_is_long() ? 20 * count : count;
}

/* A statistic that grows cell by cell. Cells too small to stand alone are one. */
typedef struct tally {
    double statistic, rest, come;
    int64_t cells;
} tally;

static void tally_cell(tally *sum, double come, double want)
{
    if (want < 10.0) {
        sum->rest += want, sum->come += come;
        return;
    }
    sum->statistic += (come - want) * (come - want) / want;
    sum->cells++;
}

/* Adds the small ones' cell; the degrees of freedom, and with none no statistic. */
static int64_t tally_end(tally *sum)
{
    const double want = sum->rest, come = sum->come;
    sum->rest = sum->come = 0.0;
    if (want >= 10.0)
        tally_cell(sum, come, want);
    sum->statistic = sum->cells > 1 ? sum->statistic : 0.0;
    return sum->cells > 1 ? sum->cells - 1 : 0;
}

/* Row b of many draws: a multinomial over the leaves of its part of the total; rows are independent of each other. No
 * leaf that a part has no unit of may come. */
static void check_strata_of_draws(int64_t batch, int kind, uint64_t seed)
{
    static int64_t ids[MOST_BATCH], counts[PARTS][LEAVES];
    static uint32_t found[MOST_BATCH];
    const int64_t rounds = draws(20000);
    double statistic = 0.0;
    int64_t freedom = 0;
    memset(counts, 0, sizeof counts);
    CHECK_OK(open_leaves(test_device(), kind));
    for (int64_t d = 0; d < rounds; d++) {
        CHECK_OK(draw(GPUR_PRIORITIZED_STRATIFIED, batch, seed, (uint64_t)d, NULL, ids, found));
        for (int64_t b = 0; b < batch; b++)
            counts[b][ids[b]]++;
    }
    for (int64_t b = 0; b < batch; b++) {
        tally sum = {0};
        const double first = floor(below[LEAVES] * (double)b / (double)batch);
        const double end = floor(below[LEAVES] * (double)(b + 1) / (double)batch);
        for (int i = 0; i < LEAVES; i++) {
            const double common = fmin(end, below[i + 1]) - fmax(first, below[i]);
            CHECK(common > 0.0 || counts[b][i] == 0);
            tally_cell(&sum, (double)counts[b][i], common > 0.0 ? (double)rounds * common / (end - first) : 0.0);
        }
        freedom += tally_end(&sum), statistic += sum.statistic;
    }
    CHECK(rounds < 1000 || (freedom > 0 && chi_square_tail(statistic, freedom) >= alarm));
    close_tree();
}

TEST(each_part_of_a_stratified_draw_follows_its_proportions)
{
    check_strata_of_draws(1, ANY, 1);
    check_strata_of_draws(7, ANY, 2);
    check_strata_of_draws(32, ANY, 3);
    check_strata_of_draws(32, TWO, 4);
    check_strata_of_draws(PARTS, ANY, 5);
}

/* And the pairs (this row, the next) over a grid of 8 x 8 parts of the slots, which with leaves all alike are parts of
 * the total: no row tells anything of the next. */
static void check_plain(int kind, uint64_t seed, int64_t rounds)
{
    enum { SIDE = 8 };
    static int64_t ids[MOST_BATCH];
    static uint32_t found[MOST_BATCH];
    int64_t counts[LEAVES] = {0}, pairs[SIDE * SIDE] = {0};
    tally sum = {0};
    CHECK_OK(open_leaves(test_device(), kind));
    for (int64_t d = 0; d < rounds; d++) {
        CHECK_OK(draw(GPUR_PRIORITIZED_INDEPENDENT, MOST_BATCH, seed, (uint64_t)d, NULL, ids, found));
        for (int64_t b = 0; b < MOST_BATCH; b++) {
            CHECK(as_double[ids[b]] > 0.0);
            counts[ids[b]]++;
            pairs[ids[b] * SIDE / LEAVES * SIDE + ids[b ^ 1] * SIDE / LEAVES] += b % 2 == 0;
        }
    }
    for (int i = 0; i < LEAVES; i++)
        tally_cell(&sum, (double)counts[i], (double)(rounds * MOST_BATCH) * as_double[i] / below[LEAVES]);
    const int64_t freedom = tally_end(&sum);
    CHECK(RACE || freedom > 0);
    CHECK(freedom == 0 || chi_square_tail(sum.statistic, freedom) >= alarm);
    CHECK(kind != FLAT || chi_square_tail(chi_square_statistic(pairs, SIDE * SIDE), SIDE * SIDE - 1) >= alarm);
    close_tree();
}

TEST(a_plain_draw_follows_the_proportions_and_its_rows_are_independent)
{
    check_plain(ANY, 6, draws(300));
    check_plain(TWO, 7, draws(300));
    check_plain(FLAT, 8, draws(100));
}

/* Number of threads, shape of launch and device do not matter: the draw is that of the reference, row by row. */
static void check_against_reference(int kind)
{
    static uint32_t found[MOST_BATCH];
    static int64_t ids[MOST_BATCH];
    for (int source = GPUR_PRIORITIZED_STRATIFIED; source <= GPUR_PRIORITIZED_INDEPENDENT; source++)
        for (int64_t batch = 1; batch <= (kind == ONE ? 121 : MOST_BATCH); batch = batch * 3 + 1) {
            CHECK_OK(draw(source, batch, 9, (uint64_t)batch, NULL, ids, found));
            for (int64_t b = 0; b < batch; b++) {
                CHECK_EQUAL(ids[b], reference_sample_by_priority(as_double, LEAVES, 9, 7, (uint64_t)batch, b, batch,
                                                                 source == GPUR_PRIORITIZED_STRATIFIED));
                CHECK_EQUAL(found[b], as_double[ids[b]]);
            }
        }
}

TEST(any_number_of_threads_draws_what_the_reference_draws)
{
    for (int32_t threads = 1; threads <= MOST_THREADS; threads++)
        for (int kind = ANY; kind <= ONE; kind += ONE) {
            gpur_device_config config = test_device_config();
            gpur_device *device = NULL;
            config.threads = threads;
            CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
            CHECK_OK(open_leaves(device, kind));
            check_against_reference(kind);
            close_tree();
        }
}

/* Without any priority a draw is uniform over the window, which may go round the ring's end; without a window there is
 * nothing. */
TEST(a_total_of_zero_draws_uniformly_and_an_empty_window_nothing)
{
    enum { ROWS = 5, DRAWN = 1024 };
    const double none[ROWS] = {0};
    int64_t ids[DRAWN];
    uint32_t found[DRAWN];
    CHECK_OK(open_tree(test_device(), 10, GPUR_WEIGHT_NORM_BATCH, 1.0f));
    CHECK_OK(show((gpur_window){1007, 7, ROWS}));
    CHECK_OK(draw(GPUR_PRIORITIZED_STRATIFIED, DRAWN, 3, 1, NULL, ids, found));
    for (int b = 0; b < DRAWN; b++)
        CHECK(ids[b] == 1007 + reference_sample_by_priority(none, ROWS, 3, 7, 1, b, DRAWN, 1) && found[b] == 0);
    CHECK_OK(show((gpur_window){1012, 2, 0}));
    CHECK_OK(draw(GPUR_PRIORITIZED_INDEPENDENT, 3, 3, 1, NULL, ids, found));
    for (int b = 0; b < 3; b++)
        CHECK_EQUAL(ids[b], -1);
    close_tree();
}

/* ---- weights ---- */

/* A replay's weights; alpha 1 makes leaves that need no second rounding. */
static void check_weights(int32_t source, int32_t norm, float beta, float fill)
{
    enum { ROWS = 200, MOST = 256 };
    gpur_replay_config config = replay_fixture_plain_config(300, 10, MOST, GPUR_FLUSH_AUTO);
    double leaves[ROWS], wanted[MOST];
    float weights[MOST];
    int64_t ids[MOST];
    uint64_t random = 41;
    replay_fixture s;
    config.prioritized = 1, config.index_source = source, config.weight_norm = norm, config.alpha = 1.0f;
    config.beta.first = config.beta.last = beta, config.priority_offset = 0.0f;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, ROWS));
    for (int64_t i = 0; i < ROWS; i++) {
        const float p = xorshift_below(&random, 6) ? fill * (float)(1 + xorshift_below(&random, 1000)) : 0.0f;
        leaves[i] = reference_leaf((double)p, 1.0);
        CHECK_OK(gpur_replay_update_priorities(s.replay, 1, &i, &p, NULL));
    }
    for (int64_t count = 1; count <= MOST; count = count * 3 + 1) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, count, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", ids, count * 8));
        CHECK_OK(gpur_batch_read(batch, "weight", weights, count * 4));
        gpur_batch_release(batch);
        reference_weights(leaves, ROWS, ids, count, (double)beta, norm, wanted);
        for (int64_t b = 0; b < count; b++)
            CHECK_NEAR(weights[b], wanted[b], 3e-6 * wanted[b]);
    }
    replay_fixture_close(&s);
}

TEST(weights_follow_their_formula_in_all_three_norms)
{
    for (int32_t norm = GPUR_WEIGHT_NORM_BATCH; norm <= GPUR_WEIGHT_NORM_NONE; norm++)
        for (int source = GPUR_PRIORITIZED_STRATIFIED; source <= GPUR_PRIORITIZED_INDEPENDENT; source++) {
            check_weights(source, norm, 0.4f, 0.01f);
            check_weights(source, norm, 1.0f, 0.01f);
            check_weights(source, norm, 0.0f, 0.01f);
            check_weights(source, norm, 0.7f, 0.0f); /* no priority at all: uniform, weights 1 */
        }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_unit_reaches_its_leaf_in_a_tree_of_any_capacity);
    RUN(a_few_leaves_of_a_large_tree_are_found_at_their_ends);
    RUN(strata_tile_the_total_without_a_gap);
    RUN(powers_are_good_to_ten_digits);
    RUN(a_leaf_is_the_priority_to_the_power_of_alpha);
    RUN(racing_updates_keep_every_node_exact_and_the_largest_duplicate);
    RUN(few_and_many_updates_come_out_alike_and_a_new_alpha_makes_every_leaf_anew);
    RUN(a_broken_node_is_found);
    RUN(rows_that_come_and_go_leave_every_sum_right);
    RUN(each_part_of_a_stratified_draw_follows_its_proportions);
    RUN(a_plain_draw_follows_the_proportions_and_its_rows_are_independent);
    RUN(any_number_of_threads_draws_what_the_reference_draws);
    RUN(a_total_of_zero_draws_uniformly_and_an_empty_window_nothing);
    RUN(weights_follow_their_formula_in_all_three_norms);
    return test_main_end();
}
