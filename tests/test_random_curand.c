/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 against cuRAND's, where that is. */
#include "test.h"

#include "curand_host.h"
#include "kernels/random.h"

enum { QUADS = 262144 };

static uint32_t words[QUADS][4];
static const uint64_t seed = 0x123456789abcdef1u;

/* With cuRAND's default order, quad i is that of counter {i / 65536, 0, i % 65536, 0}. */
TEST(philox_equals_curand)
{
    for (uint32_t i = 0; i < QUADS; i++) {
        const gpur_u32x4 counter = {{i / 65536, 0, i % 65536, 0}};
        CHECK(memcmp(gpur_philox4x32_10(counter, seed).v, words[i], sizeof words[i]) == 0);
    }
}

int main(int argc, char **argv)
{
    char failed[128];
    test_main_begin(argc, argv);
    const int found = curand_host_philox(seed, words[0], QUADS * 4, failed, sizeof failed);
    if (found == CURAND_HOST_NOT_HERE) {
        printf("test_random_curand: %s\n", failed);
        return 77;
    }
    if (found == CURAND_HOST_FAILED) {
        fprintf(stderr, "test_random_curand: %s\n", failed);
        return 1;
    }
    RUN(philox_equals_curand);
    return test_main_end();
}
