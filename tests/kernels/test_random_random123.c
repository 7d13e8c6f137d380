/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 against Random123, the implementation of its authors, if that is installed. */
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

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
#ifdef HAS_RANDOM123
    RUN(philox_equals_random123);
    return test_main_end();
#else
    printf("test_random_random123: not compiled in, without Random123 (Debian: apt install librandom123-dev)\n");
    return 77;
#endif
}
