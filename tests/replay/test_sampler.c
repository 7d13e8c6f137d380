/* SPDX-License-Identifier: MIT */
/*
 * Uniform samplers, drawn as a learner draws: by the gather kernel, with the step counter in device memory; and the
 * permutation behind draws without replacement, where more samples are needed or access to its parts. Every chi-square
 * must have a tail of at least 1e-6; there are some forty of them, and the seeds are fixed.
 */
#include "kernels/lib/permutation.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/sampler.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { MAX_ROWS = 4096, CELLS = 1000 };
static const double alarm = 1e-6;

/* A replay of `size` rows of one byte, and where draws from it go. */
typedef struct well {
    gpur_device *device;
    gpur_replay *replay;
    int64_t size, rows;
    int64_t *id;    /* (MAX_ROWS) device */
    uint64_t *step; /* (1) device */
    uint64_t now;
    int64_t ids[MAX_ROWS]; /* of the last draw */
    gpur_gather_request request;
} well;

static well *well_open(int64_t size, int32_t source, int64_t rows, uint64_t seed)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    const gpur_replay_config config = replay_fixture_config(&byte, 1, size + 2 * MAX_ROWS, 0, MAX_ROWS);
    unsigned char *const bytes = calloc((size_t)size, 1);
    gpur_writer *writer = NULL;
    well *const w = calloc(1, sizeof *w);
    w->device = test_device(), w->size = size, w->rows = rows;
    w->id = kit_upload(w->device, w->ids, sizeof w->ids);
    w->step = kit_upload(w->device, &w->now, sizeof w->now);
    if (gpur_replay_create(w->device, &config, &w->replay) != GPUR_OK ||
        gpur_writer_create(w->replay, 1, &writer) != GPUR_OK ||
        gpur_writer_append(writer, size, bytes, NULL) != GPUR_OK || !w->id || !w->step)
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    free(bytes);
    w->request = (gpur_gather_request){.source = source, .rows = rows, .id = w->id, .seed = seed, .step = w->step};
    w->request.purpose = gpur_sampler_of(source)->purpose[GPUR_USER_CALLER];
    return w;
}

static void well_close(well *w)
{
    gpur_device_free(w->device, w->id);
    gpur_device_free(w->device, w->step);
    gpur_replay_destroy(w->replay);
    gpur_device_close(w->device);
    free(w);
}

/* One draw into w->ids; each with the next step. */
static void draw(well *w)
{
    gpur_stream *stream = NULL;
    gpur_gather_args args;
    CHECK_OK(gpur_consumer_begin(w->replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    CHECK_OK(gpur_gather_prepare(w->replay, &w->request, &args));
    CHECK_OK(gpur_copy(stream, w->step, &w->now, sizeof w->now));
    CHECK_OK(gpur_launch_gather(stream, gpur_gather_grid(w->replay, w->rows), &args));
    CHECK_OK(gpur_copy(stream, w->ids, w->id, w->rows * (int64_t)sizeof *w->ids));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_consumer_end(w->replay, GPUR_OK));
    w->now++;
    for (int64_t b = 0; b < w->rows; b++)
        CHECK(w->ids[b] >= 0 && w->ids[b] < w->size);
}

/* The race check makes a thread of every row: there the question is races, and statistics are answered elsewhere. */
static int64_t steps(int64_t count)
{
#ifdef GPUR_RACE_CHECK
    return count / 50 + 50;
#else
    return test_is_long() ? 20 * count : count;
#endif
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

TEST(uniform_draws_are_uniform_and_reach_both_ends)
{
    static const int64_t cases[][3] = {{1, 32, 1},     {2, 1024, 100},    {3, 1024, 100},
                                       {7, 1024, 100}, {1000, 4096, 100}, {1000003, 4096, 1200}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t size = cases[i][0], rows = cases[i][1];
        well *const w = well_open(size, GPUR_UNIFORM, rows, 11);
        int64_t counts[CELLS] = {0}, first = 0, last = 0, drawn = 0;
        for (; drawn < steps(cases[i][2]) * rows; drawn += rows) {
            draw(w);
            for (int64_t b = 0; b < rows; b++) {
                counts[cell_of(w->ids[b], size)]++;
                first += w->ids[b] == 0, last += w->ids[b] == size - 1;
            }
        }
        CHECK(drawn < 4 * size || (first > 0 && last > 0));
        check_even(counts, size);
        well_close(w);
    }
}

/* One row of many draws, each of which is a permutation's beginning; and where two rows were drawn of a few, both: all
 * n (n - 1) ordered pairs are alike. */
TEST(rows_and_pairs_of_a_distinct_draw_are_uniform)
{
    static const int64_t cases[][4] = {{1, 1, 0, 10},       {2, 2, 0, 10000}, {3, 3, 2, 10000}, {7, 5, 4, 10000},
                                       {1000, 2, 1, 20000}, {3, 2, 1, 20000}, {7, 2, 1, 20000}, {8, 2, 1, 20000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t size = cases[i][0], row = cases[i][2], has_pairs = size > 2 && size < 9 && row == 1;
        well *const w = well_open(size, GPUR_UNIFORM_DISTINCT, cases[i][1], 13 + (uint64_t)has_pairs);
        int64_t counts[CELLS] = {0}, pairs[64] = {0};
        for (int64_t d = 0; d < steps(cases[i][3]); d++) {
            draw(w);
            counts[cell_of(w->ids[row], size)]++;
            if (has_pairs)
                pairs[w->ids[0] * (size - 1) + w->ids[1] - (w->ids[1] > w->ids[0])]++;
        }
        check_even(counts, size);
        if (has_pairs)
            check_even(pairs, size * (size - 1));
        well_close(w);
    }
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

TEST(a_distinct_draw_has_no_transition_twice)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 1024, 1025, 4095, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t rows = sizes[i] < MAX_ROWS ? sizes[i] : MAX_ROWS;
        well *const w = well_open(sizes[i], GPUR_UNIFORM_DISTINCT, rows, 15);
        for (int64_t d = 0; d < 50; d++) {
            draw(w);
            qsort(w->ids, (size_t)rows, sizeof *w->ids, compare_ids);
            for (int64_t b = 1; b < rows; b++)
                TEST_REQUIRE(w->ids[b] != w->ids[b - 1], "row %d of %d twice", (int)w->ids[b], (int)sizes[i]);
        }
        well_close(w);
    }
}

/* (this, next) of a row over an 8 x 8 grid. */
TEST(one_draw_tells_nothing_about_the_next)
{
    enum { SIZE = 1000, SIDE = 8, ROWS = 64 };
    for (int32_t source = GPUR_UNIFORM; source <= GPUR_UNIFORM_DISTINCT; source++) {
        well *const w = well_open(SIZE, source, ROWS, 16);
        int64_t counts[SIDE * SIDE] = {0}, before[ROWS];
        draw(w);
        for (int64_t d = 0; d < steps(3000); d++) {
            memcpy(before, w->ids, sizeof before);
            draw(w);
            for (int64_t b = 0; b < ROWS; b++)
                counts[before[b] * SIDE / SIZE * SIDE + w->ids[b] * SIDE / SIZE]++;
        }
        check_even(counts, SIDE * SIDE);
        well_close(w);
    }
}

TEST(the_same_seed_and_step_draw_the_same)
{
    well *const a = well_open(1000, GPUR_UNIFORM, 100, 17), *const b = well_open(1000, GPUR_UNIFORM, 100, 17);
    for (int d = 0; d < 4; d++) {
        b->request.seed = d < 3 ? 17 : 18;
        draw(a), draw(b);
        CHECK((memcmp(a->ids, b->ids, 100 * sizeof *a->ids) == 0) == (d < 3));
    }
    well_close(a), well_close(b);
}

/* ---- the permutation ---- */

enum { PURPOSE = 2, MOST = 512 };

#ifdef GPUR_RACE_CHECK
enum { DRAWS = 100000 }; /* the race check looks for races, not for bias */
#else
enum { DRAWS = 5000000 }; /* also in long runs: 20 times more would detect the 0.4% bias that eight rounds leave */
#endif

/* The distance in the window, modulo n, from row 0 of a sample to its row `other`: 1 to n - 1, which the rotation does
 * not affect. All must be equally likely, above all the distance that the two rows have within the sample. */
static void check_distances(uint64_t n, uint64_t other)
{
    int64_t counts[MOST] = {0};
    for (uint64_t step = 0; step < DRAWS; step++) {
        const gpur_permutation p = gpur_permutation_of(21, PURPOSE, step, n);
        const uint64_t a = gpur_permute(&p, 0), b = gpur_permute(&p, other);
        CHECK(a < n && b < n && a != b);
        counts[(b > a ? b - a : n + b - a) - 1]++;
    }
    const double chance = 2 / (double)(n - 1), want = DRAWS * chance;
    const double off = (double)(counts[other - 1] + counts[n - other - 1]) - want;
    CHECK(chi_square_tail(off * off / (want * (1 - chance)), 1) >= alarm);
    check_even(counts, (int64_t)n - 1);
}

/*
 * With six rounds, or four, every line below fails: over 255 and 256 rows by the distribution of all distances (the
 * statistic is then expected 13 standard deviations too high; the alarm is at about 5), over 512 rows by the rows' own
 * distance, which six rounds give 6% too often (8 standard deviations; 2 in 1,000 seeds would not raise the alarm).
 */
TEST(rows_of_a_draw_lie_apart_in_the_window_as_chance_has_it)
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
TEST(the_turn_is_uniform_and_moves_every_row_by_as_much)
{
    static const uint64_t sizes[] = {1, 2, 7, 200, 256, 512, 1000003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t n = sizes[s];
        int64_t counts[CELLS] = {0};
        for (uint64_t step = 0; step < 100000; step++) {
            const gpur_permutation turned = gpur_permutation_of(22, PURPOSE, step, n);
            gpur_permutation still = turned;
            still.rotation = 0;
            CHECK(turned.rotation < n);
            counts[cell_of((int64_t)turned.rotation, (int64_t)n)]++;
            for (uint64_t i = 0; step < 20 && i < n && i < 300; i++)
                CHECK_EQUAL(gpur_permute(&turned, i), (gpur_permute(&still, i) + turned.rotation) % n);
        }
        check_even(counts, (int64_t)n);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(uniform_draws_are_uniform_and_reach_both_ends);
    RUN(rows_and_pairs_of_a_distinct_draw_are_uniform);
    RUN(a_distinct_draw_has_no_transition_twice);
    RUN(one_draw_tells_nothing_about_the_next);
    RUN(the_same_seed_and_step_draw_the_same);
    RUN(rows_of_a_draw_lie_apart_in_the_window_as_chance_has_it);
    RUN(the_turn_is_uniform_and_moves_every_row_by_as_much);
    return test_main_end();
}
