/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10 against cuRAND's generator, which runs on the host: first the function as the host compiles it, then
 * the random words that sampling on this device uses.
 */
#include "support/replay_fixture.h"
#include "test.h"
#include "device/device.h"
#include "kernels/lib/random.h"

#include <dlfcn.h>

enum { QUADS = 262144, HALF = 65536, LANES = QUADS / HALF, DRAWS = 4096 };

static uint32_t words[QUADS][4];
static const uint64_t seed = 0x123456789abcdef1u;

enum { PHILOX4_32_10 = 161 }; /* CURAND_RNG_PSEUDO_PHILOX4_32_10 in curand.h */

/* The loader's own, or the one of the toolkit that this was built with: pip keeps that where no loader looks. */
static void *open_curand(void)
{
    void *const library = dlopen("libcurand.so.10", RTLD_NOW);
#ifdef CURAND_HOST_LIBRARY
    return library ? library : dlopen(CURAND_HOST_LIBRARY, RTLD_NOW);
#else
    return library;
#endif
}

/* Fills `words`. Returns the name of the function that the library lacks or that failed, or NULL. ISO C does not turn a
 * pointer to an object into one to a function, but POSIX says the bits are good. */
static const char *generate_words(void *library)
{
    static const char *const names[] = {"curandCreateGeneratorHost", "curandSetPseudoRandomGeneratorSeed",
                                        "curandGenerate", "curandDestroyGenerator"};
    int (*create)(void **generator, int kind) = NULL; /* as declared in curand.h, as the next three */
    int (*set_seed)(void *generator, unsigned long long key) = NULL;
    int (*generate)(void *generator, unsigned *to, size_t count) = NULL;
    int (*destroy)(void *generator) = NULL;
    void *const functions[4] = {&create, &set_seed, &generate, &destroy};
    void *generator = NULL;
    for (int i = 0; i < 4; i++) {
        void *const address = dlsym(library, names[i]);
        if (!address)
            return names[i];
        memcpy(functions[i], &address, sizeof address);
    }
    if (create(&generator, PHILOX4_32_10) != 0)
        return names[0];
    if (set_seed(generator, seed) != 0)
        return names[1];
    if (generate(generator, words[0], (size_t)QUADS * 4) != 0)
        return names[2];
    return destroy(generator) != 0 ? names[3] : NULL;
}

/* With cuRAND's default order, quad i is that of counter {i / 65536, 0, i % 65536, 0}. */
TEST(philox_equals_curand)
{
    for (uint32_t i = 0; i < QUADS; i++) {
        const gpur_u32x4 counter = {{i / HALF, 0, i % HALF, 0}};
        CHECK(memcmp(gpur_philox4x32_10(counter, seed).v, words[i], sizeof words[i]) == 0);
    }
}

/* Samples LANES rows of draw t without gathering any field. The counter is {lane, purpose, step}, so with purpose 0 it
 * is one of cuRAND's. */
static gpur_status draw(gpur_device *device, gpur_stream *stream, gpur_window *window, int64_t *id, int64_t t)
{
    const gpur_gather_args args = {.window = window,
                                   .ring = (const unsigned char *)window,
                                   .capacity = INT64_MAX,
                                   .batch = LANES,
                                   .tile_rows = 1 + (int32_t)t % LANES,
                                   .seed = seed,
                                   .step_value = (uint64_t)t,
                                   .source = GPUR_SOURCE_UNIFORM,
                                   .terminated_offset = -1,
                                   .id = id + t * LANES};
    return gpur_launch_gather(stream, gpur_grid_rows(device, LANES, args.tile_rows, 8), &args);
}

/* Of 2^62 rows, uniform sampling takes the row given by the upper 62 of its 64 random bits. */
TEST(draws_are_made_of_curands_words)
{
    const gpur_window all = {0, 0, (int64_t)1 << 62};
    static int64_t ids[DRAWS][LANES];
    gpur_device *const device = test_device();
    gpur_window *const window = kit_upload(device, &all, sizeof all);
    int64_t *const id = kit_upload(device, ids, sizeof ids);
    gpur_stream *stream = NULL;
    CHECK(window && id);
    CHECK_OK(gpur_stream_create(device, &stream));
    for (int64_t t = 0; t < DRAWS; t++)
        CHECK_OK(draw(device, stream, window, id, t));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_device_copy(device, ids, id, sizeof ids));
    for (int64_t t = 0; t < DRAWS; t++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            const uint32_t *const quad = words[lane * HALF + t];
            CHECK_EQUAL(ids[t][lane], ((uint64_t)quad[1] << 32 | quad[0]) >> 2);
        }
    gpur_stream_destroy(stream);
    gpur_device_free(device, id);
    gpur_device_free(device, window);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    void *const library = open_curand();
    if (!library) { /* which alone excuses a test */
        printf("test_random_curand: no cuRAND: %s\n", dlerror());
        return 77;
    }
    const char *const failed = generate_words(library);
    if (failed) {
        fprintf(stderr, "test_random_curand: %s is missing or failed\n", failed);
        return 1;
    }
    RUN(philox_equals_curand);
    RUN(draws_are_made_of_curands_words);
    return test_main_end();
}
