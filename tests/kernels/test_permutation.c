/* SPDX-License-Identifier: MIT */
/*
 * The permutation behind distinct draws, by itself: test_sampler.c draws with it, and here are the questions that need
 * more draws, or a look at its parts. Every tail must be at least 1e-6, and the seeds are fixed.
 */
#include "kernels/lib/permutation.h"
#include "support/replay_kit.h"
#include "test.h"

enum { PURPOSE = 2, MOST = 512 };
static const double alarm = 1e-6;

#ifdef GPUR_RACE_CHECK
enum { DRAWS = 100000 }; /* there the question is races */
#else
enum { DRAWS = 5000000 }; /* long runs take as many: twenty times that would find the 0.4% that eight rounds leave */
#endif

/* How far row `other` of a draw lies behind its row 0 in the window, around its end: 1 to n - 1. The turn moves both
 * alike, so it hides nothing here. */
static void count_distances(uint64_t n, uint64_t other, int64_t *counts)
{
    for (uint64_t step = 0; step < DRAWS; step++) {
        const gpur_permutation p = gpur_permutation_of(21, PURPOSE, step, n);
        const uint64_t a = gpur_permute(&p, 0), b = gpur_permute(&p, other);
        CHECK(a < n && b < n && a != b);
        counts[(b > a ? b - a : n + b - a) - 1]++;
    }
}

/* All distances alike, and above all not more often the one that the rows have in the draw. */
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
 * Six rounds fail each line, and four do: over 255 and 256 rows by all distances (the statistic is then expected 13
 * standard deviations too high, the alarm being at some 5), over 512 rows by the rows' own distance, which six rounds
 * give 6% too often (8 standard deviations; 2 in 1,000 seeds would not raise the alarm).
 */
TEST(rows_of_a_draw_lie_apart_in_the_window_as_chance_has_it)
{
    check_pairs(255, 16);
    check_pairs(256, 32);
    check_pairs(512, 1);
    check_pairs(512, 16);
}

/* Without it no row's marginal would be exactly uniform; how far from it is too little to be counted. */
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
