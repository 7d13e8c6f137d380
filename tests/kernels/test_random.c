/* SPDX-License-Identifier: MIT */
/* Random numbers: Philox4x32-10 against its authors' test vectors and against the reference, and the numbers made from
 * its bits. test_sampler.c tests that numbers below n are uniform. */
#include "test.h"
#include "kernels/lib/random.h"
#include "reference/reference_replay.h"

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

/* With the counter {lane, purpose, step}. Each output is the next input, so inputs are random. */
TEST(bits_of_seed_purpose_step_and_lane_are_those_of_the_reference)
{
    gpur_u32x4 counter = {{1, 2, 3, 4}};
    uint64_t seed = 5;
    for (int i = 0; i < 1000000; i++) {
        const uint64_t step = (uint64_t)counter.v[3] << 32 | counter.v[2];
        const gpur_u32x4 bits = gpur_random_bits(seed, counter.v[1], step, counter.v[0]);
        gpur_u32x4 want;
        reference_philox(counter.v, seed, want.v);
        CHECK(equal(bits, want));
        counter = want;
        seed = seed * 6364136223846793005u + counter.v[0];
    }
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

/* Mean 1/2, variance 1/12. The mean of a million numbers is off by more than 5 x 2.9e-4 once in two million tests. */
TEST(unit_numbers_have_the_mean_and_variance_of_the_uniform)
{
    enum { NUMBERS = 1000000 };
    double sum = 0.0, squares = 0.0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const double x = gpur_random_uniform(gpur_random_bits(11, GPUR_RANDOM_EXPLORE, 0, i).v[i % 4]);
        CHECK(x >= 0.0 && x < 1.0);
        sum += x, squares += x * x;
    }
    CHECK_NEAR(sum / NUMBERS, 0.5, 1.5e-3);
    CHECK_NEAR(squares / NUMBERS - sum / NUMBERS * sum / NUMBERS, 1.0 / 12.0, 1.5e-3);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(philox_gives_its_authors_vectors);
    RUN(bits_of_seed_purpose_step_and_lane_are_those_of_the_reference);
    RUN(the_ends_of_the_bits_are_the_ends_of_the_range);
    RUN(unit_numbers_have_the_mean_and_variance_of_the_uniform);
    return test_main_end();
}
