/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10 against cuRAND's generator, which runs on the host: first the function as the host compiles it, then
 * the random words that sampling on this device uses.
 */
#include "test.h"
#include "support/curand_host.h"
#include "device/device.h"
#include "kernels/lib/random.h"

enum { QUADS = 262144, HALF = 65536, LANES = QUADS / HALF, DRAWS = 4096 };

static uint32_t words[QUADS][4];
static const uint64_t seed = 0x123456789abcdef1u;

/* With cuRAND's default order, quad i is that of counter {i / 65536, 0, i % 65536, 0}. */
TEST(philox_equals_curand)
{
    for (uint32_t i = 0; i < QUADS; i++) {
        const gpur_u32x4 counter = {{i / HALF, 0, i % HALF, 0}};
        CHECK(memcmp(gpur_philox4x32_10(counter, seed).v, words[i], sizeof words[i]) == 0);
    }
}

typedef struct drawer {
    gpur_device *device;
    gpur_stream *stream;
    gpur_window *window; /* (1) */
    int64_t *id;         /* (DRAWS, LANES) */
} drawer;

static gpur_status open_drawer(drawer *d, const gpur_window *window)
{
    memset(d, 0, sizeof *d);
    d->device = test_device();
    GPUR_TRY(gpur_stream_create(d->device, &d->stream));
    GPUR_TRY(gpur_device_alloc(d->device, sizeof *d->window, (void **)&d->window));
    GPUR_TRY(gpur_device_alloc(d->device, DRAWS * LANES * (int64_t)sizeof *d->id, (void **)&d->id));
    return gpur_device_copy(d->device, d->window, window, sizeof *window);
}

static void close_drawer(drawer *d)
{
    gpur_stream_destroy(d->stream);
    gpur_device_free(d->device, d->id);
    gpur_device_free(d->device, d->window);
    gpur_device_close(d->device);
}

/* Samples LANES rows without gathering any field. The counter is {lane, purpose, step}, so with purpose 0 it is one of
 * cuRAND's. */
static gpur_status draw(const drawer *d, int64_t t)
{
    gpur_gather_args args;
    memset(&args, 0, sizeof args);
    args.window = d->window, args.ring = (const unsigned char *)d->window;
    args.capacity = INT64_MAX, args.batch = LANES, args.tile = 1 + (int32_t)t % LANES;
    args.seed = seed, args.step_value = (uint64_t)t, args.source = GPUR_SOURCE_UNIFORM;
    args.terminated_offset = -1;
    args.id = d->id + t * LANES;
    return gpur_launch_gather(d->stream, gpur_grid_rows(d->device, LANES, args.tile, 8), &args);
}

/* Of 2^62 rows, uniform sampling takes the row given by the upper 62 of its 64 random bits. */
TEST(draws_are_made_of_curands_words)
{
    const gpur_window all = {0, 0, (int64_t)1 << 62};
    static int64_t id[DRAWS][LANES];
    drawer d;
    CHECK_OK(open_drawer(&d, &all));
    for (int64_t t = 0; t < DRAWS; t++)
        CHECK_OK(draw(&d, t));
    CHECK_OK(gpur_stream_sync(d.stream));
    CHECK_OK(gpur_device_copy(d.device, id, d.id, sizeof id));
    for (int64_t t = 0; t < DRAWS; t++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            const uint32_t *const quad = words[lane * HALF + t];
            CHECK_EQUAL(id[t][lane], ((uint64_t)quad[1] << 32 | quad[0]) >> 2);
        }
    close_drawer(&d);
}

int main(int argc, char **argv)
{
    char failed[256];
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
    RUN(draws_are_made_of_curands_words);
    return test_main_end();
}
