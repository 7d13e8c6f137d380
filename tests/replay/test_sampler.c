/* SPDX-License-Identifier: MIT */
/*
 * The index sources, drawn as a learner draws: by the gather kernel, with the step counter in device memory. Every
 * chi-square must have a tail of at least 1e-6; there are some thirty of them, and the seeds are fixed.
 */
#include "reference/reference_replay.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/sampler.h"
#include "support/replay_kit.h"
#include "test.h"

enum { MAX_ROWS = 4096 };
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
    gpur_draw_request request;
} well;

static void fill_replay(well *w)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    gpur_replay_config config = kit_config(&byte, 1, w->size + 2 * MAX_ROWS, 0, MAX_ROWS);
    unsigned char *const rows = calloc((size_t)w->size + 1, 1);
    gpur_writer *writer = NULL;
    CHECK_OK(gpur_replay_create(w->device, &config, &w->replay));
    CHECK_OK(gpur_writer_create(w->replay, 1, &writer));
    CHECK_OK(gpur_writer_append(writer, w->size, rows, NULL));
    gpur_writer_destroy(writer);
    free(rows);
}

static well *well_open(int64_t size, int32_t source, int64_t rows, uint64_t seed)
{
    well *const w = calloc(1, sizeof *w);
    w->device = test_device();
    w->size = size;
    w->rows = rows;
    fill_replay(w);
    if (gpur_device_alloc(w->device, sizeof w->ids, (void **)&w->id) != GPUR_OK ||
        gpur_device_alloc(w->device, sizeof *w->step, (void **)&w->step) != GPUR_OK)
        test_fail(__FILE__, __LINE__);
    const gpur_draw_request request = {.source = source,
                                       .rows = rows,
                                       .id = w->id,
                                       .seed = seed,
                                       .step = w->step,
                                       .purpose = gpur_sampler_of(source)->purpose[GPUR_USER_CALLER]};
    w->request = request;
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
    CHECK_OK(gpur_draw_prepare(w->replay, &w->request, &args));
    CHECK_OK(gpur_copy(stream, w->step, &w->now, sizeof w->now));
    CHECK_OK(gpur_launch_gather(stream, gpur_draw_grid(w->replay, w->rows), &args));
    CHECK_OK(gpur_copy(stream, w->ids, w->id, w->rows * (int64_t)sizeof *w->ids));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_consumer_end(w->replay, GPUR_OK));
    w->now++;
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

/* All rows of all draws over all slots, or over 1,000 groups of slots. */
static void check_uniform(int64_t size, int32_t source, int64_t rows, int64_t draws)
{
    const int64_t cells = size < 1000 ? size : 1000;
    well *const w = well_open(size, source, rows, 11);
    int64_t counts[1000] = {0}, first = 0, last = 0;
    for (int64_t d = 0; d < draws; d++) {
        draw(w);
        for (int64_t b = 0; b < rows; b++) {
            CHECK(w->ids[b] >= 0 && w->ids[b] < size);
            counts[w->ids[b] * cells / size]++;
            first += w->ids[b] == 0;
            last += w->ids[b] == size - 1;
        }
    }
    CHECK(first > 0);
    CHECK(last > 0);
    if (cells > 1 && size % cells == 0)
        CHECK(kit_chi_square_tail(kit_chi_square(counts, cells), cells - 1) >= alarm);
    well_close(w);
}

TEST(uniform_draws_are_uniform_and_reach_both_ends)
{
    check_uniform(1, GPUR_UNIFORM, 32, 50);
    check_uniform(2, GPUR_UNIFORM, 1024, steps(100));
    check_uniform(3, GPUR_UNIFORM, 1024, steps(100));
    check_uniform(7, GPUR_UNIFORM, 1024, steps(100));
    check_uniform(1000, GPUR_UNIFORM, MAX_ROWS, steps(100));
#ifndef GPUR_RACE_CHECK
    check_uniform(1000003, GPUR_UNIFORM, MAX_ROWS, steps(1200));
#endif
}

/* 1,000,003 is prime: its groups of slots differ by one slot, so the expectation is worked out for each. */
TEST(uniform_draws_of_a_prime_number_of_slots)
{
    enum { CELLS = 1000 };
    const int64_t size = 1000003;
    well *const w = well_open(size, GPUR_UNIFORM, MAX_ROWS, 12);
    int64_t counts[CELLS] = {0}, total = 0;
    double statistic = 0;
    for (int64_t d = 0; d < steps(100); d++, total += MAX_ROWS) {
        draw(w);
        for (int64_t b = 0; b < MAX_ROWS; b++)
            counts[w->ids[b] * CELLS / size]++;
    }
    for (int64_t c = 0; c < CELLS; c++) {
        const int64_t from = (c * size + CELLS - 1) / CELLS, to = ((c + 1) * size + CELLS - 1) / CELLS;
        const double want = (double)total * (double)(to - from) / (double)size;
        statistic += ((double)counts[c] - want) * ((double)counts[c] - want) / want;
    }
    CHECK(kit_chi_square_tail(statistic, CELLS - 1) >= alarm);
    well_close(w);
}

/* Row `row` of many draws, each of which is a permutation's beginning. */
static void check_distinct_row(int64_t size, int64_t rows, int64_t row, int64_t draws)
{
    const int64_t cells = size < 1000 ? size : 1000;
    well *const w = well_open(size, GPUR_UNIFORM_DISTINCT, rows, 13);
    int64_t counts[1000] = {0};
    for (int64_t d = 0; d < draws; d++) {
        draw(w);
        CHECK(w->ids[row] >= 0 && w->ids[row] < size);
        counts[w->ids[row] * cells / size]++;
    }
    CHECK(cells == 1 || kit_chi_square_tail(kit_chi_square(counts, cells), cells - 1) >= alarm);
    well_close(w);
}

TEST(each_row_of_a_distinct_draw_is_uniform)
{
    check_distinct_row(1, 1, 0, 10);
    check_distinct_row(2, 2, 0, steps(10000));
    check_distinct_row(3, 3, 2, steps(10000));
    check_distinct_row(7, 5, 4, steps(10000));
    check_distinct_row(1000, 2, 1, steps(20000));
}

/* Neighbouring rows: all n (n - 1) ordered pairs alike. test_permutation.c asks the same of larger n. */
static void check_distinct_pairs(int64_t size, int64_t draws)
{
    well *const w = well_open(size, GPUR_UNIFORM_DISTINCT, 2, 14);
    int64_t counts[64] = {0};
    for (int64_t d = 0; d < draws; d++) {
        draw(w);
        CHECK(w->ids[0] != w->ids[1]);
        counts[w->ids[0] * (size - 1) + w->ids[1] - (w->ids[1] > w->ids[0])]++;
    }
    CHECK(kit_chi_square_tail(kit_chi_square(counts, size * (size - 1)), size * (size - 1) - 1) >= alarm);
    well_close(w);
}

TEST(pairs_of_a_distinct_draw_are_uniform)
{
    check_distinct_pairs(3, steps(20000));
    check_distinct_pairs(7, steps(20000));
    check_distinct_pairs(8, steps(20000));
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void check_no_twins(int64_t size, int64_t rows, int64_t draws)
{
    well *const w = well_open(size, GPUR_UNIFORM_DISTINCT, rows, 15);
    for (int64_t d = 0; d < draws; d++) {
        draw(w);
        qsort(w->ids, (size_t)rows, sizeof *w->ids, compare_ids);
        CHECK(w->ids[0] >= 0 && w->ids[rows - 1] < size);
        for (int64_t b = 1; b < rows; b++)
            CHECK(w->ids[b] != w->ids[b - 1]);
    }
    well_close(w);
}

TEST(a_distinct_draw_has_no_transition_twice)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 1024, 1025, 4095, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_no_twins(sizes[i], sizes[i], 50);
    check_no_twins(1000003, MAX_ROWS, 50);
}

/* (this, next) of a row over an 8 x 8 grid. */
static void check_independent(int32_t source)
{
    enum { SIZE = 1000, SIDE = 8 };
    well *const w = well_open(SIZE, source, 64, 16);
    int64_t counts[SIDE * SIDE] = {0}, before[64];
    draw(w);
    for (int64_t d = 0; d < steps(3000); d++) {
        memcpy(before, w->ids, sizeof before);
        draw(w);
        for (int64_t b = 0; b < 64; b++)
            counts[before[b] * SIDE / SIZE * SIDE + w->ids[b] * SIDE / SIZE]++;
    }
    CHECK(kit_chi_square_tail(kit_chi_square(counts, SIDE * SIDE), SIDE * SIDE - 1) >= alarm);
    well_close(w);
}

TEST(one_draw_tells_nothing_about_the_next)
{
    check_independent(GPUR_UNIFORM);
    check_independent(GPUR_UNIFORM_DISTINCT);
}

TEST(the_same_seed_and_step_draw_the_same)
{
    well *const a = well_open(1000, GPUR_UNIFORM, 100, 17), *const b = well_open(1000, GPUR_UNIFORM, 100, 17);
    for (int d = 0; d < 3; d++) {
        draw(a), draw(b);
        CHECK(memcmp(a->ids, b->ids, 100 * sizeof *a->ids) == 0);
    }
    b->now = 0, b->request.seed = 18;
    a->now = 0;
    draw(a), draw(b);
    CHECK(memcmp(a->ids, b->ids, 100 * sizeof *a->ids) != 0);
    well_close(a), well_close(b);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(uniform_draws_are_uniform_and_reach_both_ends);
    RUN(uniform_draws_of_a_prime_number_of_slots);
    RUN(each_row_of_a_distinct_draw_is_uniform);
    RUN(pairs_of_a_distinct_draw_are_uniform);
    RUN(a_distinct_draw_has_no_transition_twice);
    RUN(one_draw_tells_nothing_about_the_next);
    RUN(the_same_seed_and_step_draw_the_same);
    return test_main_end();
}
