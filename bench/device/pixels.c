/* SPDX-License-Identifier: MIT */
/*
 * Stacks of 4 frames of 84 x 84 bytes for a first convolution that reads bfloat16 with space-to-depth, rebuilt from the
 * frames that transitions link to: in two kernels (bytes, then numbers), in the library's one, and in a probe that has
 * no other shape than this. On a GPU a recording's gathers link to more frames than its L2 cache holds.
 */
#include "bench/device/equal.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"

#include <stdlib.h>

enum { SIDE = 84, FRAME = SIDE * SIDE, PITCH = 7168, STACK = 4, PIXELS = STACK * FRAME, BLOCK = 4 };
enum { FRAMES = 20000, ON_CPU = 2000, ROWS = 4096, MOST = 512 };
enum { BYTES, NUMBERS, BOTH, ONE_KERNEL, PROBE };

typedef struct pixels_context {
    gpur_device *device;
    unsigned char *frames; /* (slots) */
    uint32_t *links;       /* (ROWS, 8) */
    unsigned char *bytes;  /* (2 MOST) stacks: obs, then next_obs */
    uint16_t *numbers;     /* (2 MOST, 21, 21, 64) bfloat16 */
    uint32_t slots;
    int64_t rows; /* of a recording */
    int64_t batch;
    int way;
} pixels_context;

/* Units of 16 bytes, bands of 160 at most: as src/replay/sampler/gather.c divides frames for this and the next. */
static gpur_status gather(const pixels_context *c, gpur_stream *stream, const uint32_t *links)
{
    const int32_t units = FRAME / 16, bands = (units + 159) / 160;
    const gpur_gather_frames_args args = {.frames = c->frames,
                                          .links = links,
                                          .obs = c->bytes,
                                          .next_obs = c->bytes + c->batch * PIXELS,
                                          .pitch = PITCH,
                                          .frame_bytes = FRAME,
                                          .obs_pitch = PIXELS,
                                          .next_pitch = PIXELS,
                                          .batch = c->batch,
                                          .unit_step = 16,
                                          .place_step = FRAME,
                                          .stack = STACK,
                                          .units = units,
                                          .shift = 4,
                                          .bands = bands,
                                          .slots = c->slots};
    const gpur_grid grid = gpur_grid_rows(c->device, c->batch * bands, 1, 2 * PIXELS / bands);
    return gpur_launch_gather_frames(stream, grid, &args);
}

/* How the first layer wants them. */
static gpur_observe_args look(void)
{
    const gpur_observe_args args = {.x_pitch = PIXELS,
                                    .height = SIDE,
                                    .width = SIDE,
                                    .channels = STACK,
                                    .planes = 1,
                                    .block = BLOCK,
                                    .bf16 = 1,
                                    .scale = 1.0f / 255.0f};
    return args;
}

static gpur_status gather_observed(const pixels_context *c, gpur_stream *stream, const uint32_t *links)
{
    const int64_t pitch = PIXELS * (int64_t)sizeof(uint16_t);
    const int32_t bands = (FRAME + 511) / 512;
    const gpur_gather_observed_args args = {.frames = {.frames = c->frames,
                                                       .links = links,
                                                       .obs = (unsigned char *)c->numbers,
                                                       .next_obs = (unsigned char *)c->numbers + c->batch * pitch,
                                                       .pitch = PITCH,
                                                       .frame_bytes = FRAME,
                                                       .obs_pitch = pitch,
                                                       .next_pitch = pitch,
                                                       .batch = c->batch,
                                                       .unit_step = 1,
                                                       .place_step = FRAME,
                                                       .stack = STACK,
                                                       .units = FRAME,
                                                       .bands = bands,
                                                       .slots = c->slots},
                                            .observe = look(),
                                            .is_plane = 1};
    const gpur_grid grid = gpur_grid_rows(c->device, c->batch * bands, 1, 2 * pitch / bands);
    return gpur_launch_gather_observed(stream, grid, &args);
}

/* As src/learn/network/input.c launches it, obs and next_obs at once. */
static gpur_status observe(const pixels_context *c, gpur_stream *stream)
{
    gpur_observe_args args = look();
    args.obs = c->bytes, args.obs_pitch = PIXELS;
    args.x = c->numbers, args.count = 2 * c->batch;
    const gpur_grid grid = gpur_grid_rows(c->device, args.count * SIDE, 1, SIDE * STACK * 4);
    return gpur_launch_observe(stream, grid, &args);
}

static gpur_status probe(const pixels_context *c, gpur_stream *stream, const uint32_t *links)
{
    const probe_pixels_args args = {.frames = c->frames,
                                    .links = links,
                                    .obs = c->numbers,
                                    .next_obs = c->numbers + c->batch * PIXELS,
                                    .pitch = PITCH,
                                    .batch = c->batch,
                                    .slots = c->slots,
                                    .scale = 1.0f / 255.0f};
    return probe_pixels(stream, &args);
}

static gpur_status go(const pixels_context *c, gpur_stream *stream, const uint32_t *links)
{
    if (c->way == ONE_KERNEL)
        return gather_observed(c, stream, links);
    if (c->way == PROBE)
        return probe(c, stream, links);
    if (c->way != NUMBERS)
        GPUR_TRY(gather(c, stream, links));
    return c->way == BYTES ? GPUR_OK : observe(c, stream);
}

static gpur_status record(void *context, gpur_stream *stream)
{
    const pixels_context *const c = context;
    for (int64_t first = 0; first + c->batch <= c->rows; first += c->batch)
        GPUR_TRY(go(c, stream, c->links + first * 2 * STACK));
    return GPUR_OK;
}

static void measure(bench_report *report, const pixels_context *c)
{
    static const char *const ways[] = {"frames to bytes", "bytes to bfloat16", "frames to bytes to bfloat16",
                                       "frames to bfloat16 in one kernel", "frames to bfloat16, bare probe"};
    char name[96];
    pixels_context mine = *c;
    const recorded_work work = {record, &mine, 1, 1};
    snprintf(name, sizeof name, "pixels, %lld transitions: %s", (long long)c->batch, ways[c->way]);
    const bench_figure figure = {.name = name,
                                 .items = (double)(c->rows / c->batch),
                                 .item = "gather",
                                 .rounds = report->options->rounds < 15 ? report->options->rounds : 15};
    recorded_measure(report, c->device, figure, &work);
}

/* One way's numbers against those of two kernels, bit for bit. */
static void compare(bench_report *report, pixels_context *c, int way, const char *name)
{
    const int64_t count = 2 * c->batch * PIXELS, bytes = count * (int64_t)sizeof(uint16_t);
    unsigned char *const numbers = malloc(2 * (size_t)bytes);
    gpur_stream *stream = NULL;
    if (!numbers)
        bench_must(GPUR_OUT_OF_MEMORY, "numbers");
    bench_must(gpur_stream_create(c->device, &stream), "stream");
    for (int i = 0; i < 2; i++) {
        c->way = i ? way : BOTH;
        bench_must(gpur_fill(stream, c->numbers, 0xff, bytes), "numbers");
        bench_must(go(c, stream, c->links), "pixels");
        bench_must(gpur_device_copy(c->device, numbers + i * bytes, c->numbers, bytes), "numbers");
    }
    bench_equal(report, name, differing(numbers, numbers + bytes, count, 2), count);
    gpur_stream_destroy(stream);
    free(numbers);
}

/* Five frames in a row make both stacks; now and then an episode has just begun, and its first places have none. */
static void fill_links(const pixels_context *c)
{
    uint32_t *const links = calloc(ROWS, 2 * STACK * sizeof *links);
    uint64_t state = 5;
    if (!links)
        bench_must(GPUR_OUT_OF_MEMORY, "links");
    for (int64_t b = 0; b < ROWS; b++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        const uint32_t first = (uint32_t)((state >> 32) % (c->slots - STACK)) + 1;
        const uint32_t missing = b % 50 == 0 ? 3 : 0;
        for (uint32_t p = 0; p < 2 * STACK; p++)
            links[b * 2 * STACK + p] = p < missing ? 0 : first + (p < STACK ? p : p - STACK + 1);
    }
    bench_must(gpur_device_copy(c->device, c->links, links, ROWS * 2 * STACK * (int64_t)sizeof *links), "links");
    free(links);
}

static void fill_frames(const pixels_context *c)
{
    unsigned char *const frame = malloc(PITCH);
    uint64_t state = 9;
    if (!frame)
        bench_must(GPUR_OUT_OF_MEMORY, "a frame");
    for (uint32_t slot = 0; slot < c->slots; slot++) {
        for (int i = 0; i < PITCH; i++, state = state * 6364136223846793005ull + 1442695040888963407ull)
            frame[i] = (unsigned char)(state >> 56);
        bench_must(gpur_device_copy(c->device, c->frames + (int64_t)slot * PITCH, frame, PITCH), "frames");
    }
    free(frame);
}

static void *take(gpur_device *device, int64_t bytes)
{
    void *memory = NULL;
    bench_must(gpur_device_alloc(device, bytes, &memory), "pixels");
    return memory;
}

void bench_pixel_gathers(bench_report *report, gpur_device *device)
{
    static const int64_t batches[] = {32, MOST};
    const int on_cuda = gpur_device_is_cuda(device);
    pixels_context c = {.device = device, .slots = on_cuda ? FRAMES : ON_CPU, .rows = on_cuda ? ROWS : MOST};
    c.frames = take(device, (int64_t)c.slots * PITCH);
    c.links = take(device, ROWS * 2 * STACK * (int64_t)sizeof *c.links);
    c.bytes = take(device, 2 * (int64_t)MOST * PIXELS);
    c.numbers = take(device, 2 * (int64_t)MOST * PIXELS * (int64_t)sizeof *c.numbers);
    fill_frames(&c), fill_links(&c);
    for (int i = 0; i < 2; i++)
        for (c.batch = batches[i], c.way = BYTES; c.way <= PROBE; c.way++)
            measure(report, &c);
    c.batch = 32;
    compare(report, &c, ONE_KERNEL, "pixels, numbers of two kernels and of one");
    if (on_cuda)
        compare(report, &c, PROBE, "pixels, numbers of two kernels and of the probe");
    gpur_device_free(device, c.numbers), gpur_device_free(device, c.bytes);
    gpur_device_free(device, c.links), gpur_device_free(device, c.frames);
}
