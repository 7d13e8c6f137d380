/* SPDX-License-Identifier: MIT */
/*
 * The permutation behind sampling without replacement, tested by itself. test_sampler.c samples with it; the tests here
 * need more samples, or access to its parts. Every tail probability must be at least 1e-6, and the seeds are fixed.
 */
#include "kernels/lib/permutation.h"
#include "support/replay_kit.h"
#include "test.h"

enum { PURPOSE = 2, MOST = 512 };
static const double alarm = 1e-6;

#ifdef GPUR_RACE_CHECK
enum { DRAWS = 100000 }; /* the race check looks for races, not for bias */
#else
enum { DRAWS = 5000000 }; /* also in long runs: 20 times more would detect the 0.4% bias that eight rounds leave */
#endif

/* Counts the distance in the window, modulo n, from row 0 of a sample to its row `other`: 1 to n - 1. The rotation
 * moves both rows by the same amount, so it does not affect the distance. */
static void count_distances(uint64_t n, uint64_t other, int64_t *counts)
{
    for (uint64_t step = 0; step < DRAWS; step++) {
        const gpur_permutation p = gpur_permutation_of(21, PURPOSE, step, n);
        const uint64_t a = gpur_permute(&p, 0), b = gpur_permute(&p, other);
        CHECK(a < n && b < n && a != b);
        counts[(b > a ? b - a : n + b - a) - 1]++;
    }
}

/* All distances must be equally likely, above all the distance that the two rows have within the sample. */
static void check_pairs(uint64_t n, uint64_t other)
{
    int64_t counts[MOST] = {0};
    count_distances(n, other, counts);
    const double chance = 2 / (double)(n - 1), want = DRAWS * chance;
    const double off = (double)(counts[other - 1] + counts[n - other - 1]) - want;
    CHECK(kit_chi_square_tail(off * off / (want * (1 - chance)), 1) >= alarm);
    CHECK(kit_chi_square_tail(kit_chi_square(counts, (int64_t)n - 1), (int64_t)n - 2) >= alarm);
}

/*
 * With six rounds, or four, every line below fails: over 255 and 256 rows by the distribution of all distances (the
 * statistic is then expected 13 standard deviations too high; the alarm is at about 5), over 512 rows by the rows' own
 * distance, which six rounds give 6% too often (8 standard deviations; 2 in 1,000 seeds would not raise the alarm).
 */
TEST(rows_of_a_draw_lie_apart_in_the_window_as_chance_has_it)
{
    check_pairs(255, 16);
    check_pairs(256, 32);
    check_pairs(512, 1);
    check_pairs(512, 16);
}

/* Without the rotation no row's marginal distribution would be exactly uniform, although the difference is too small to
 * count. */
TEST(the_turn_moves_every_row_by_as_much)
{
    static const uint64_t sizes[] = {1, 2, 7, 200, 256, 1000003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t step = 0; step < 20; step++) {
            const uint64_t n = sizes[s];
            const gpur_permutation turned = gpur_permutation_of(22, PURPOSE, step, n);
            gpur_permutation still = turned;
            still.turn = 0;
            CHECK(turned.turn < n);
            for (uint64_t i = 0; i < n && i < 300; i++)
                CHECK_EQUAL(gpur_permute(&turned, i), (gpur_permute(&still, i) + turned.turn) % n);
        }
}

TEST(the_turn_is_uniform)
{
    static const uint64_t sizes[] = {2, 7, 200, 512};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t counts[MOST] = {0};
        for (uint64_t step = 0; step < 100000; step++)
            counts[gpur_permutation_of(23, PURPOSE, step, sizes[s]).turn]++;
        CHECK(kit_chi_square_tail(kit_chi_square(counts, (int64_t)sizes[s]), (int64_t)sizes[s] - 1) >= alarm);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_of_a_draw_lie_apart_in_the_window_as_chance_has_it);
    RUN(the_turn_moves_every_row_by_as_much);
    RUN(the_turn_is_uniform);
    return test_main_end();
}
