/* SPDX-License-Identifier: MIT */
/*
 * Samples of stacks of 4 frames of 84 x 84 bytes, frames stored once, for a first convolution that reads blocks of 4 x
 * 4 pixels: in the library's one kernel behind the gather of the rows, and in two, the first of which writes the
 * stacks' bytes. Both sample the same rows and must write the same numbers. On a GPU the frames are more than its L2
 * cache holds.
 *
 * Also samples of the stacks' bytes themselves, as bench_pixels times them from outside, with the host's part: here
 * they are recorded, and the time is the device's alone.
 */
#include "bench/device/parts.h"

#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"
#include "replay/view.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 84, BLOCK = 4, LINKS = 2 * STACK, DRAWS = 8, FRAMES = 20000, FRAMES_ON_CPU = 4000 };

/* What is recorded: for a convolution, by one kernel behind the gather of rows or by two, or the bytes alone. */
typedef enum gather_kind { ONE_KERNEL, TWO_KERNELS, BYTES } gather_kind;

typedef struct pixel_gather {
    gpur_replay *replay;
    gpur_device *device;
    step_counter counter;
    gpur_preprocess_args how;        /* of the second kernel of two also: from where to where */
    gpur_gather_plan drawing[DRAWS]; /* each with a seed of its own */
    gather_kind kind;
    int64_t rows, x_bytes;
    unsigned char *raw, *x; /* (2 rows, STACK_BYTES) bytes; the same as float32, or on a GPU bfloat16 */
    uint32_t *links;        /* (rows, LINKS) */
} pixel_gather;

static void prepare(pixel_gather *d)
{
    const gpur_schema *const schema = gpur_replay_schema(d->replay);
    const gpur_preprocess_output observed = {&d->how, d->x, d->x + d->x_bytes / 2};
    const gpur_gather_field fields[] = {
        {gpur_schema_find(schema, "obs"), d->raw, STACK_BYTES},
        {gpur_schema_find(schema, "next_obs"), d->raw + d->rows * STACK_BYTES, STACK_BYTES}};
    gpur_gather_request request = {
        .source = GPUR_UNIFORM, .rows = d->rows, .links = d->links, .step = step_counter_value(&d->counter)};
    if (d->kind == ONE_KERNEL)
        request.preprocess = &observed;
    else
        request.fields = fields, request.field_count = 2;
    for (int i = 0; i < DRAWS; i++) {
        request.seed = (uint64_t)i + 1;
        bench_must(gpur_gather_plan_prepare(d->replay, &request, &d->drawing[i]), "a sample of pixels");
    }
}

static void open_gather(pixel_gather *d, gpur_replay *replay, gpur_device *device, int64_t rows, gather_kind kind)
{
    const int is_cuda = bench_is_cuda(device);
    *d = (pixel_gather){.replay = replay, .device = device, .rows = rows, .kind = kind};
    d->x_bytes = 2 * rows * STACK_BYTES * (is_cuda ? 2 : 4);
    step_counter_open(&d->counter, device);
    bench_must(gpur_memory_alloc(device, 2 * rows * STACK_BYTES, "the stacks", (void **)&d->raw), "memory");
    bench_must(gpur_memory_alloc(device, d->x_bytes, "the numbers", (void **)&d->x), "memory");
    bench_must(gpur_memory_alloc(device, rows * LINKS * 4, "the links", (void **)&d->links), "memory");
    d->how = (gpur_preprocess_args){.obs = d->raw,
                                    .x = d->x,
                                    .count = 2 * rows,
                                    .obs_pitch = STACK_BYTES,
                                    .x_pitch = STACK_BYTES,
                                    .height = SIDE,
                                    .width = SIDE,
                                    .channels = STACK,
                                    .planes = 1,
                                    .space_to_depth = BLOCK,
                                    .bf16 = is_cuda,
                                    .scale = 1.0f / 255};
    prepare(d);
}

static void close_gather(pixel_gather *d)
{
    gpur_memory_free(d->device, d->raw);
    gpur_memory_free(d->device, d->x);
    gpur_memory_free(d->device, d->links);
    step_counter_close(&d->counter);
}

static gpur_status launch(const pixel_gather *d, gpur_stream *stream, int index)
{
    const gpur_grid grid = gpur_grid_rows(d->device, d->how.count * SIDE, 1, SIDE * STACK * 4); /* as the learner's */
    GPUR_TRY(gpur_gather_plan_launch(d->replay, stream, &d->drawing[index]));
    return d->kind == TWO_KERNELS ? gpur_launch_preprocess(stream, grid, &d->how) : GPUR_OK;
}

static gpur_status record_draws(void *context, gpur_stream *stream)
{
    const pixel_gather *const d = context;
    for (int i = 0; i < DRAWS; i++)
        GPUR_TRY(launch(d, stream, i));
    return count_step(&d->counter, stream);
}

static unsigned char *numbers_of(const pixel_gather *d)
{
    gpur_stream *stream = NULL;
    unsigned char *const x = bench_allocate((size_t)d->x_bytes);
    bench_must(gpur_stream_create(d->device, &stream), "stream");
    bench_must(launch(d, stream, 0), "a sample of pixels");
    bench_must(gpur_stream_sync(stream), "sync");
    bench_must(gpur_device_copy(d->device, x, d->x, d->x_bytes), "copy");
    gpur_stream_destroy(stream);
    return x;
}

static void compare(bench_report *report, const char *name, const pixel_gather *one, const pixel_gather *two)
{
    char text[192];
    unsigned char *const a = numbers_of(one), *const b = numbers_of(two);
    int64_t differ = 0;
    for (int64_t i = 0; i < one->x_bytes; i++)
        differ += a[i] != b[i];
    snprintf(text, sizeof text, "%s: bytes of one kernel and of two", name);
    bench_check(report, text, differ, one->x_bytes);
    free(a);
    free(b);
}

static void run_case(bench_report *report, gpur_device *device, gpur_replay *replay, int64_t rows)
{
    char name[80];
    pixel_gather one, two;
    recorded recorded_one, recorded_two;
    snprintf(name, sizeof name, "draw %lld stacks for a first convolution", (long long)rows);
    if (!bench_wants(report, name))
        return;
    open_gather(&one, replay, device, rows, ONE_KERNEL);
    open_gather(&two, replay, device, rows, TWO_KERNELS);
    compare(report, name, &one, &two);
    bench_must(recorded_open(&recorded_one, device, record_draws, &one, 1, 1), name);
    bench_must(recorded_open(&recorded_two, device, record_draws, &two, 1, 1), name);
    bench_case c = bench_versus(name, "draw", DRAWS, recorded_run, "two kernels", recorded_run, &recorded_one);
    c.variants[0].name = "one kernel";
    c.variants[1].context = &recorded_two;
    bench_run(report, &c);
    recorded_close(&recorded_one);
    recorded_close(&recorded_two);
    close_gather(&one);
    close_gather(&two);
}

/* Beside a copy of as many bytes. */
static void run_bytes(bench_report *report, gpur_device *device, gpur_replay *replay, int64_t rows, int32_t axis)
{
    char name[80];
    pixel_gather bytes;
    recorded gathers, copies;
    snprintf(name, sizeof name, "draw + gather %lld x 4 frames, %s axis", (long long)rows,
             axis == GPUR_STACK_LAST ? "last" : "first");
    if (!bench_wants(report, name))
        return;
    device_copy copy = device_copy_open(device, 2 * rows * STACK_BYTES);
    open_gather(&bytes, replay, device, rows, BYTES);
    bench_must(recorded_open(&gathers, device, record_draws, &bytes, 1, 1), name);
    bench_must(recorded_open(&copies, device, device_copy_record, &copy, 1, 1), name);
    bench_case c = bench_versus(name, "draw", DRAWS, recorded_run, "copy within the device", recorded_run, &gathers);
    c.variants[1].context = &copies, c.variants[1].items = (double)copy.count;
    bench_run(report, &c);
    recorded_close(&copies);
    recorded_close(&gathers);
    close_gather(&bytes);
    device_copy_close(&copy);
}

void bench_pixels(bench_report *report, gpur_device *device)
{
    static const int32_t axes[] = {GPUR_STACK_FIRST, GPUR_STACK_LAST};
    for (int i = 0; i < 2; i++) {
        gpur_replay *const replay =
            bench_frames_replay(device, bench_is_cuda(device) ? FRAMES : FRAMES_ON_CPU, axes[i]);
        publish_rows(replay, PIXELS_BATCH);
        for (int64_t rows = 32; rows <= 512; rows *= 16)
            run_bytes(report, device, replay, rows, axes[i]);
        if (axes[i] == GPUR_STACK_FIRST) /* which a convolution reads */
            run_case(report, device, replay, 32);
        if (axes[i] == GPUR_STACK_FIRST && !report->options->quick)
            run_case(report, device, replay, 512);
        gpur_replay_destroy(replay);
    }
}
