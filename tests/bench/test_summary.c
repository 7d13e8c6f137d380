/* SPDX-License-Identifier: MIT */
/* What the benchmarks say of many samples: medians, intervals that hold them with 95%, times with units. */
#include "bench/lib/summary.h"
#include "test.h"

/* The chance that a median lies between the rank-th least and the rank-th greatest of n. */
static double chance(int n, int rank)
{
    double below = 0;
    for (int k = 0; k < rank; k++)
        below += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * log(2.0));
    return 1 - 2 * below;
}

TEST(the_interval_is_the_narrowest_of_95_percent)
{
    for (int n = 6; n <= 512; n++) {
        const int rank = bench_interval_rank(n);
        CHECK(chance(n, rank) >= 0.95);
        CHECK(chance(n, rank + 1) < 0.95);
    }
    CHECK_EQUAL(bench_interval_rank(5), 1);
    CHECK_EQUAL(bench_interval_rank(41), 14);
}

TEST(known_samples_give_known_intervals)
{
    double samples[30];
    for (int i = 0; i < 30; i++)
        samples[i] = 30 - i;
    const bench_summary s = bench_summarize(samples, 30);
    CHECK_NEAR(s.median, 15.5, 0);
    CHECK_NEAR(s.low, 10, 0);
    CHECK_NEAR(s.high, 21, 0);
    CHECK_NEAR(s.p99, 29, 0);
    CHECK_EQUAL(s.count, 30);
}

TEST(one_sample_is_its_own_interval)
{
    double sample = 7;
    const bench_summary s = bench_summarize(&sample, 1);
    CHECK(s.median == 7 && s.low == 7 && s.high == 7);
}

TEST(times_have_three_digits_and_a_unit)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{6.561690e-4, "656 us"}, {9.994e-9, "9.99 ns"}, {9.996e-9, "10.0 ns"}, {99.96e-9, "100 ns"},
                 {999.6e-9, "1.00 us"},   {0.0123, "12.3 ms"},   {1234.0, "1234 s"},    {0, "0.00 ns"}};
    char text[TIME_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(strcmp(time_text(cases[i].seconds, text), cases[i].text) == 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_interval_is_the_narrowest_of_95_percent);
    RUN(known_samples_give_known_intervals);
    RUN(one_sample_is_its_own_interval);
    RUN(times_have_three_digits_and_a_unit);
    return test_main_end();
}
