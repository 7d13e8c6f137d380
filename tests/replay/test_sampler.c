/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the uniform samplers; and the permutation of samples without replacement, where more samples are needed
 * or access to its parts. Every chi-square must have a tail of at least 1e-6; there are some forty of them, and the
 * seeds are fixed.
 */
#include "kernels/lib/permutation.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { MAX_ROWS = 4096, CELLS = 1000, SIDE = 8 };
static const double alarm = 1e-6;

/* A replay of `size` rows of one byte. */
typedef struct fixture {
    replay_fixture replay;
    int64_t size, rows;
    int64_t ids[MAX_ROWS]; /* (rows) of the last sample */
} fixture;

static void open_fixture(fixture *w, int64_t size, int32_t source, int64_t rows, uint64_t seed)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    gpur_replay_config config = replay_fixture_config(&byte, 1, size + 2 * MAX_ROWS, 0, MAX_ROWS);
    config.index_source = source, config.seed = seed;
    memset(w, 0, sizeof *w);
    w->size = size, w->rows = rows;
    CHECK(replay_fixture_open(&w->replay, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&w->replay, size));
}

static void sample(fixture *w)
{
    gpur_batch *batch = NULL;
    CHECK_OK(gpur_replay_sample(w->replay.replay, w->rows, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", w->ids, w->rows * (int64_t)sizeof *w->ids));
    gpur_batch_release(batch);
    for (int64_t b = 0; b < w->rows; b++)
        CHECK(w->ids[b] >= 0 && w->ids[b] < w->size);
}

/* The race check makes a thread of every row. It looks for races, and statistics are tested without it. */
static int64_t steps(int64_t count)
{
    return IN_RACE_CHECK ? count / 50 + 50 : test_is_long() ? 20 * count : count;
}

/* Counts over all slots, or over 1,000 groups of slots, which differ by a slot where their number is no multiple. */
static void check_even(const int64_t *counts, int64_t size)
{
    const int64_t cells = size < CELLS ? size : CELLS;
    double total = 0, statistic = 0;
    for (int64_t c = 0; c < cells; c++)
        total += (double)counts[c];
    for (int64_t c = 0; c < cells; c++) {
        const int64_t from = (c * size + cells - 1) / cells, to = ((c + 1) * size + cells - 1) / cells;
        const double want = total * (double)(to - from) / (double)size, off = (double)counts[c] - want;
        statistic += off * off / want;
    }
    TEST_REQUIRE(cells == 1 || chi_square_tail(statistic, cells - 1) >= alarm, "of %d rows", (int)size);
}

static int64_t cell_of(int64_t id, int64_t size)
{
    return id * (size < CELLS ? size : CELLS) / size;
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A sample without replacement has no row twice. */
static void check_distinct(const fixture *w)
{
    static int64_t sorted[MAX_ROWS];
    memcpy(sorted, w->ids, (size_t)w->rows * sizeof *sorted);
    qsort(sorted, (size_t)w->rows, sizeof *sorted, compare_ids);
    for (int64_t b = 1; b < w->rows; b++)
        TEST_REQUIRE(sorted[b] != sorted[b - 1], "row %d of %d twice", (int)sorted[b], (int)w->size);
}

/* What is counted beside the ids of one row of each sample, or of all rows (-1): nothing; the ids of rows 0 and 1,
 * whose n (n - 1) ordered pairs are equally likely; or a row's ids in two samples, over a grid of 8 x 8 parts of the
 * slots. */
enum { IDS, TWO_ROWS, TWO_SAMPLES };

static void check_samples(int32_t source, int64_t size, int64_t rows, int64_t samples, int64_t row, int beside)
{
    static fixture w;
    int64_t counts[CELLS] = {0}, pairs[SIDE * SIDE] = {0}, before[MAX_ROWS];
    const int64_t first = row < 0 ? 0 : row, end = row < 0 ? rows : row + 1;
    open_fixture(&w, size, source, rows, 11 + (uint64_t)(source + beside));
    for (int64_t i = 0; i < samples; i++) {
        memcpy(before, w.ids, sizeof before);
        sample(&w);
        for (int64_t b = first; b < end; b++) {
            counts[cell_of(w.ids[b], size)]++;
            if (beside == TWO_SAMPLES && i > 0)
                pairs[before[b] * SIDE / size * SIDE + w.ids[b] * SIDE / size]++;
        }
        if (beside == TWO_ROWS)
            pairs[w.ids[0] * (size - 1) + w.ids[1] - (w.ids[1] > w.ids[0])]++;
        if (source == GPUR_UNIFORM_DISTINCT && i < 50)
            check_distinct(&w);
    }
    if (samples * (end - first) >= 5 * (size < CELLS ? size : CELLS)) /* else too few for a chi-square */
        check_even(counts, size);
    if (beside != IDS)
        check_even(pairs, beside == TWO_ROWS ? size * (size - 1) : SIDE * SIDE);
    replay_fixture_close(&w.replay);
}

TEST(rows_of_a_uniform_sample_are_uniform_and_independent_of_the_sample_before)
{
    static const int64_t cases[][4] = {
        {1, 32, 1, IDS},        {2, 1024, 100, IDS},        {3, 1024, 100, IDS},          {7, 1024, 100, IDS},
        {1000, 4096, 100, IDS}, {1000003, 4096, 1200, IDS}, {1000, 64, 3000, TWO_SAMPLES}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_samples(GPUR_UNIFORM, cases[i][0], cases[i][1], steps(cases[i][2]), -1, (int)cases[i][3]);
}

/* One row of many samples, each of which is a permutation's beginning. */
TEST(rows_and_pairs_of_a_distinct_sample_are_uniform)
{
    static const int64_t cases[][5] = {
        {1, 1, 10, 0, IDS},         {2, 2, 10000, 0, IDS},      {3, 3, 10000, 2, IDS},
        {7, 5, 10000, 4, IDS},      {1000, 2, 20000, 1, IDS},   {3, 2, 20000, 1, TWO_ROWS},
        {7, 2, 20000, 1, TWO_ROWS}, {8, 2, 20000, 1, TWO_ROWS}, {1000, 64, 3000, -1, TWO_SAMPLES}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_samples(GPUR_UNIFORM_DISTINCT, cases[i][0], cases[i][1], steps(cases[i][2]), cases[i][3],
                      (int)cases[i][4]);
}

TEST(a_distinct_sample_has_no_transition_twice)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 1024, 1025, 4095, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_samples(GPUR_UNIFORM_DISTINCT, sizes[i], sizes[i] < MAX_ROWS ? sizes[i] : MAX_ROWS, 50, 0, IDS);
}

/* ---- the permutation ---- */

enum { PURPOSE = 2, MAX_SIZE = 512 };

/* Also in long runs: 20 times more would detect the 0.4% bias that eight rounds leave. The race check looks for races,
 * not for bias. */
enum { SAMPLES = IN_RACE_CHECK ? 100000 : 5000000 };

/* The distance in the window, modulo n, from row 0 of a sample to its row `other`: 1 to n - 1, which the rotation does
 * not affect. All must be equally likely, above all the distance that the two rows have within the sample. */
static void check_distances(uint64_t n, uint64_t other)
{
    int64_t counts[MAX_SIZE] = {0};
    for (uint64_t step = 0; step < SAMPLES; step++) {
        const gpur_permutation p = gpur_permutation_of(21, PURPOSE, step, n);
        const uint64_t a = gpur_permute(&p, 0), b = gpur_permute(&p, other);
        CHECK(a < n && b < n && a != b);
        counts[(b > a ? b - a : n + b - a) - 1]++;
    }
    const double chance = 2 / (double)(n - 1), want = SAMPLES * chance;
    const double off = (double)(counts[other - 1] + counts[n - other - 1]) - want;
    CHECK(chi_square_tail(off * off / (want * (1 - chance)), 1) >= alarm);
    check_even(counts, (int64_t)n - 1);
}

/*
 * With six rounds, or four, every line below fails: over 255 and 256 rows by the distribution of all distances (the
 * statistic is then expected 13 standard deviations too high; the alarm is at about 5), over 512 rows by the rows' own
 * distance, which six rounds give 6% too often (8 standard deviations; 2 in 1,000 seeds would not raise the alarm).
 */
TEST(distances_between_rows_of_a_sample_are_equally_likely)
{
    if (test_on_cuda())
        return; /* this is on the host */
    check_distances(255, 16);
    check_distances(256, 32);
    check_distances(512, 1);
    check_distances(512, 16);
}

/* Without the rotation no row's marginal distribution would be exactly uniform, although the difference is too small to
 * count. */
TEST(the_rotation_is_uniform_and_moves_every_row_by_as_much)
{
    static const uint64_t sizes[] = {1, 2, 7, 200, 256, 512, 1000003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t n = sizes[s];
        int64_t counts[CELLS] = {0};
        for (uint64_t step = 0; step < 100000; step++) {
            const gpur_permutation rotated = gpur_permutation_of(22, PURPOSE, step, n);
            gpur_permutation plain = rotated;
            plain.rotation = 0;
            CHECK(rotated.rotation < n);
            counts[cell_of((int64_t)rotated.rotation, (int64_t)n)]++;
            for (uint64_t i = 0; step < 20 && i < n && i < 300; i++)
                CHECK_EQUAL(gpur_permute(&rotated, i), (gpur_permute(&plain, i) + rotated.rotation) % n);
        }
        check_even(counts, (int64_t)n);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_of_a_uniform_sample_are_uniform_and_independent_of_the_sample_before);
    RUN(rows_and_pairs_of_a_distinct_sample_are_uniform);
    RUN(a_distinct_sample_has_no_transition_twice);
    RUN(distances_between_rows_of_a_sample_are_equally_likely);
    RUN(the_rotation_is_uniform_and_moves_every_row_by_as_much);
    return test_main_end();
}
