/* SPDX-License-Identifier: MIT */
/* Random numbers: Philox4x32-10 against its authors' test vectors and, where it is installed, their implementation
 * Random123; and the numbers made from its bits. */
#include "test.h"
#include "kernels/lib/random.h"

#if defined(__has_include)
#if __has_include(<Random123/philox.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <Random123/philox.h>
#pragma GCC diagnostic pop
#define HAS_RANDOM123
#endif
#endif

static int equal(gpur_u32x4 x, gpur_u32x4 y)
{
    return memcmp(x.v, y.v, sizeof x.v) == 0;
}

/* From Random123's kat_vectors: philox 4x32 10. */
TEST(philox_gives_its_authors_vectors)
{
    static const struct {
        gpur_u32x4 counter;
        uint64_t key;
        gpur_u32x4 want;
    } vectors[] = {
        {{{0, 0, 0, 0}}, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}}},
        {{{~0u, ~0u, ~0u, ~0u}}, ~(uint64_t)0, {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}}},
        {{{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
         (uint64_t)0x299f31d0u << 32 | 0xa4093822u,
         {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}},
    };
    for (int i = 0; i < 3; i++)
        CHECK(equal(gpur_philox4x32_10(vectors[i].counter, vectors[i].key), vectors[i].want));
}

#ifdef HAS_RANDOM123
TEST(philox_equals_random123)
{
    const int64_t count = test_is_long() ? 100000000 : 1000000;
    gpur_u32x4 counter = {{1, 2, 3, 4}};
    uint64_t key = 5;
    for (int64_t i = 0; i < count; i++) {
        const philox4x32_ctr_t c = {{counter.v[0], counter.v[1], counter.v[2], counter.v[3]}};
        const philox4x32_key_t k = {{(uint32_t)key, (uint32_t)(key >> 32)}};
        const philox4x32_ctr_t want = philox4x32(c, k);
        counter = gpur_philox4x32_10(counter, key); /* the output is the next input, so inputs are random */
        key = key * 6364136223846793005u + counter.v[0];
        CHECK(memcmp(counter.v, want.v, sizeof want.v) == 0);
    }
}
#endif

TEST(bits_depend_on_seed_purpose_step_and_lane)
{
    static const struct {
        uint64_t seed;
        uint32_t purpose;
        uint64_t step;
        uint32_t lane;
    } others[] = {{2, 2, 3, 4}, {(uint64_t)1 << 32 | 1, 2, 3, 4}, {1, 3, 3, 4},
                  {1, 2, 4, 4}, {1, 2, (uint64_t)1 << 32 | 3, 4}, {1, 2, 3, 5}};
    const gpur_u32x4 bits = gpur_random_bits(1, 2, 3, 4);
    CHECK(equal(bits, gpur_random_bits(1, 2, 3, 4)));
    for (int i = 0; i < 6; i++)
        CHECK(!equal(bits, gpur_random_bits(others[i].seed, others[i].purpose, others[i].step, others[i].lane)));
}

TEST(the_ends_of_the_bits_are_the_ends_of_the_range)
{
    const gpur_u32x4 none = {{0}}, all = {{0xffffffffu, 0xffffffffu, 0, 0}};
    static const uint64_t ranges[] = {1, 2, 3, 1000003, (uint64_t)1 << 40, ~(uint64_t)0};
    for (int i = 0; i < 6; i++) {
        CHECK(gpur_random_below(none, ranges[i]) == 0);
        CHECK(gpur_random_below(all, ranges[i]) == ranges[i] - 1);
    }
    CHECK(gpur_random_uniform(0) == 0.0f);
    CHECK(gpur_random_uniform(0xffffffffu) < 1.0f);
    CHECK(gpur_random_uniform(0x80000000u) == 0.5f);
}

/* Chi-square of `draws` numbers below n, in standard deviations from its mean; exceeds 5 once in two million tests. */
static double deviation_below(uint64_t n, int64_t draws)
{
    static int64_t counts[1000];
    const double expected = (double)draws / (double)n;
    double chi_square = 0.0;
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < draws; i++)
        counts[gpur_random_below(gpur_random_bits(7, GPUR_RANDOM_SAMPLE, (uint64_t)i / 100, (uint32_t)(i % 100)), n)]++;
    for (uint64_t bin = 0; bin < n; bin++)
        chi_square += ((double)counts[bin] - expected) * ((double)counts[bin] - expected) / expected;
    return (chi_square - (double)(n - 1)) / sqrt(2.0 * (double)(n - 1));
}

TEST(bounded_draws_are_uniform)
{
    static const uint64_t ranges[] = {2, 3, 7, 100, 257, 1000};
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(deviation_below(ranges[i], 1000000), 0.0, 5.0);
}

/* Mean 1/2, variance 1/12. The mean of a million numbers is off by more than 5 x 2.9e-4 once in two million tests. */
TEST(unit_draws_have_the_mean_and_variance_of_the_uniform)
{
    enum { DRAWS = 1000000 };
    double sum = 0.0, squares = 0.0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double x = gpur_random_uniform(gpur_random_bits(11, GPUR_RANDOM_EXPLORE, 0, i).v[i % 4]);
        CHECK(x >= 0.0 && x < 1.0);
        sum += x, squares += x * x;
    }
    CHECK_NEAR(sum / DRAWS, 0.5, 1.5e-3);
    CHECK_NEAR(squares / DRAWS - sum / DRAWS * sum / DRAWS, 1.0 / 12.0, 1.5e-3);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(philox_gives_its_authors_vectors);
#ifdef HAS_RANDOM123
    RUN(philox_equals_random123);
#else
    printf("  without Random123 (Debian: apt install librandom123-dev)\n");
#endif
    RUN(bits_depend_on_seed_purpose_step_and_lane);
    RUN(the_ends_of_the_bits_are_the_ends_of_the_range);
    RUN(bounded_draws_are_uniform);
    RUN(unit_draws_have_the_mean_and_variance_of_the_uniform);
    return test_main_end();
}
