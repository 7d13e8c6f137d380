/* SPDX-License-Identifier: MIT */
#include "bench/device/observed.h"
#include "bench/setup.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 84, STACK = 4, PIXELS = STACK * SIDE * SIDE, BLOCK = 4, LINKS = 2 * STACK };

struct observed_draws {
    gpur_replay *replay;
    gpur_device *device;
    gpur_observe_args how; /* and, for the second of two kernels, from where to where */
    gpur_drawing one, two;
    int64_t rows, x_bytes;
    uint64_t draws;
    unsigned char *raw, *x; /* (2 rows, PIXELS) bytes, and as float32 or bfloat16 */
    uint32_t *links;        /* (rows, LINKS) */
};

static gpur_status prepare_one(observed_draws *d, gpur_draw_request request)
{
    const gpur_draw_observed observed = {&d->how, d->x, d->x + d->x_bytes / 2};
    request.observed = &observed;
    return gpur_drawing_prepare(d->replay, &request, &d->one);
}

static gpur_status prepare_two(observed_draws *d, gpur_draw_request request)
{
    const gpur_schema *const schema = gpur_replay_schema(d->replay);
    const gpur_draw_field fields[] = {{gpur_schema_find(schema, "obs"), d->raw, PIXELS},
                                      {gpur_schema_find(schema, "next_obs"), d->raw + d->rows * PIXELS, PIXELS}};
    request.fields = fields, request.field_count = 2;
    return gpur_drawing_prepare(d->replay, &request, &d->two);
}

static gpur_status open_draws(observed_draws *d)
{
    const int is_cuda = gpur_device_is_cuda(d->device);
    const gpur_observe_args how = {.count = 2 * d->rows,
                                   .obs_pitch = PIXELS,
                                   .x_pitch = PIXELS,
                                   .height = SIDE,
                                   .width = SIDE,
                                   .channels = STACK,
                                   .planes = 1,
                                   .block = BLOCK,
                                   .bf16 = is_cuda,
                                   .scale = 1.0f / 255};
    d->how = how;
    d->x_bytes = 2 * d->rows * PIXELS * (is_cuda ? 2 : 4);
    GPUR_TRY(gpur_memory_alloc(d->device, 2 * d->rows * PIXELS, "the stacks", (void **)&d->raw));
    GPUR_TRY(gpur_memory_alloc(d->device, d->x_bytes, "the numbers", (void **)&d->x));
    GPUR_TRY(gpur_memory_alloc(d->device, d->rows * LINKS * 4, "the links", (void **)&d->links));
    d->how.obs = d->raw, d->how.x = d->x;
    const gpur_draw_request request = {.source = GPUR_UNIFORM, .rows = d->rows, .links = d->links, .seed = 1};
    GPUR_TRY(prepare_one(d, request));
    return prepare_two(d, request);
}

observed_draws *observed_open(gpur_replay *replay, int64_t rows)
{
    observed_draws *const d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->replay = replay, d->device = gpur_replay_device(replay), d->rows = rows;
    if (open_draws(d) == GPUR_OK)
        return d;
    observed_close(d);
    return NULL;
}

void observed_close(observed_draws *d)
{
    if (!d)
        return;
    gpur_memory_free(d->device, d->raw);
    gpur_memory_free(d->device, d->x);
    gpur_memory_free(d->device, d->links);
    free(d);
}

/* As src/learn/network/input.c launches it. */
static gpur_status observe(const observed_draws *d, gpur_stream *stream)
{
    const gpur_grid grid = gpur_grid_rows(d->device, d->how.count * SIDE, 1, SIDE * STACK * 4);
    return gpur_launch_observe(stream, grid, &d->how);
}

static gpur_status launch(const observed_draws *d, gpur_stream *stream, const gpur_drawing *way, uint64_t step)
{
    gpur_drawing drawing = *way;
    drawing.rows.step_value = step;
    GPUR_TRY(gpur_drawing_launch(d->replay, stream, &drawing));
    return way == &d->two ? observe(d, stream) : GPUR_OK;
}

static gpur_status draw(const observed_draws *d, const gpur_drawing *way, uint64_t step)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(d->replay, 1, &stream));
    const gpur_status status = launch(d, stream, way, step), ended = gpur_consumer_end(d->replay);
    return status != GPUR_OK ? status : ended;
}

static void run(observed_draws *d, const gpur_drawing *way, int64_t repeats)
{
    for (int64_t i = 0; i < repeats; i++)
        bench_must(draw(d, way, d->draws++), "a draw");
    bench_must(gpur_device_sync(d->device), "sync");
}

void observed_by_one(void *context, int64_t repeats)
{
    observed_draws *const d = context;
    run(d, &d->one, repeats);
}

void observed_by_two(void *context, int64_t repeats)
{
    observed_draws *const d = context;
    run(d, &d->two, repeats);
}

static unsigned char *made_by(const observed_draws *d, const gpur_drawing *way)
{
    unsigned char *const x = malloc((size_t)d->x_bytes);
    if (!x)
        bench_must(GPUR_OUT_OF_MEMORY, "the numbers");
    bench_must(draw(d, way, 0), "a draw");
    bench_must(gpur_device_copy(d->device, x, d->x, d->x_bytes), "copy");
    return x;
}

int observed_agree(observed_draws *d)
{
    unsigned char *const one = made_by(d, &d->one), *const two = made_by(d, &d->two);
    const int agree = memcmp(one, two, (size_t)d->x_bytes) == 0;
    free(one);
    free(two);
    return agree;
}
