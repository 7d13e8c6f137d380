/* SPDX-License-Identifier: MIT */
#include "replay/draw.h"
#include "replay/replay.h"

#include <string.h>

_Static_assert((int)GPUR_MAX_LINKS == (int)GPUR_MOST_LINKS, "the kernels' most links are those of the largest stack");

enum {
    WIDEST_SHIFT = 4,
    BAND_UNITS = 160,  /* of a frame; a block of a GPU has fewer threads for one row than a frame has units */
    BAND_PIXELS = 512, /* of an observation: one or two turns of a block */
    BAND_THREADS = 256,
    CACHED_BATCH_BYTES = 8 << 20, /* a larger one would push itself out of a CPU's caches */
};

static const gpur_draw_field *find(const gpur_draw_request *r, int32_t field)
{
    for (int32_t i = 0; i < r->field_count; i++)
        if (r->fields[i].field == field)
            return &r->fields[i];
    return NULL;
}

/* What divides every address that a unit goes to. Frames of the ring start on multiples of 16 bytes. */
static int32_t shift_of(const gpur_gather_frames_args *a, int64_t element)
{
    uint64_t all = (uint64_t)a->frame_bytes;
    if (a->obs)
        all |= (uint64_t)(uintptr_t)a->obs | (uint64_t)a->obs_pitch;
    if (a->next_obs)
        all |= (uint64_t)(uintptr_t)a->next_obs | (uint64_t)a->next_pitch;
    if (element > 0)
        all = (uint64_t)element;
    int32_t shift = 0;
    while (shift < WIDEST_SHIFT && (all >> shift & 1) == 0)
        shift++;
    return shift;
}

/* Units, and how they lie in a stack: frame after frame, or number by number. */
static void divide(gpur_gather_frames_args *a, const gpur_linking *linking)
{
    const int32_t woven = linking->is_last;
    a->shift = shift_of(a, woven ? linking->element : 0);
    a->units = (int32_t)(a->frame_bytes >> a->shift);
    a->unit_step = woven ? linking->stack * linking->element : (int64_t)1 << a->shift;
    a->place_step = woven ? linking->element : a->frame_bytes;
    a->bands = (a->units + BAND_UNITS - 1) / BAND_UNITS;
}

/* Units that are single numbers, whatever the axis, and parts of an image. */
static void divide_observed(gpur_gather_observed_args *a, const gpur_linking *linking)
{
    gpur_gather_frames_args *const f = &a->frames;
    const gpur_observe_args *const o = &a->observe;
    const int64_t pixels = o->height * o->width;
    f->shift = o->floats ? 2 : 0;
    f->units = (int32_t)(f->frame_bytes >> f->shift);
    f->unit_step = linking->is_last ? linking->stack * linking->element : linking->element;
    f->place_step = linking->is_last ? linking->element : f->frame_bytes;
    f->bands = (int32_t)((pixels + BAND_PIXELS - 1) / BAND_PIXELS);
    a->is_plane = o->channels == f->stack && pixels == f->units && (f->stack == 1 || o->planes != linking->is_last);
}

static gpur_gather_frames_args frames_of(const gpur_replay *replay, const gpur_draw_request *r)
{
    const gpur_linking *const linking = &replay->storage.linking;
    const gpur_gather_frames_args frames = {
        .frames = replay->intake.feed.frames,
        .links = r->links,
        .pitch = linking->pitch,
        .frame_bytes = linking->frame_bytes,
        .stack = linking->stack,
        .slots = (uint32_t)linking->frames,
    };
    return frames;
}

static void prepare_frames(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_frames_args *a)
{
    const gpur_draw_field *const obs = find(r, gpur_schema_find(&replay->schema, "obs"));
    const gpur_draw_field *const next = find(r, gpur_schema_find(&replay->schema, "next_obs"));
    *a = frames_of(replay, r);
    a->obs = obs ? obs->to : NULL;
    a->next_obs = next ? next->to : NULL;
    a->obs_pitch = obs ? obs->pitch : 0;
    a->next_pitch = next ? next->pitch : 0;
    a->batch = obs || next ? r->rows : 0;
    divide(a, &replay->storage.linking);
}

static void prepare_observed(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_observed_args *a)
{
    a->frames = frames_of(replay, r);
    a->observe = *r->observed->how;
    a->frames.obs = r->observed->obs;
    a->frames.next_obs = r->observed->next_obs;
    a->frames.obs_pitch = a->frames.next_pitch = a->observe.x_pitch * (a->observe.bf16 ? 2 : 4);
    a->frames.batch = r->rows;
    divide_observed(a, &replay->storage.linking);
}

gpur_status gpur_drawing_prepare(gpur_replay *replay, const gpur_draw_request *request, gpur_drawing *drawing)
{
    memset(&drawing->frames, 0, sizeof drawing->frames);
    drawing->is_observed = request->observed != NULL;
    drawing->more.count = 0;
    GPUR_TRY(gpur_draw_prepare_all(replay, request, &drawing->rows, &drawing->more));
    GPUR_REQUIRE(!request->observed || gpur_replay_links(replay) > 0,
                 "a draw of stacks as a first layer reads them is from a packed replay; it must be from a linked one");
    if (gpur_replay_links(replay) == 0)
        return GPUR_OK;
    GPUR_REQUIRE(request->links, "a draw from a linked replay has no place for its links (NULL)");
    if (drawing->is_observed)
        prepare_observed(replay, request, &drawing->frames);
    else
        prepare_frames(replay, request, &drawing->frames.frames);
    return GPUR_OK;
}

static gpur_status launch_frames(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    gpur_gather_frames_args args = drawing->frames.frames;
    args.batch = drawing->rows.batch;
    const int64_t row_bytes = 2 * args.stack * args.frame_bytes;
    args.past = row_bytes * args.batch > CACHED_BATCH_BYTES;
    const gpur_grid grid = gpur_grid_rows(replay->device, args.batch * args.bands, 1, row_bytes / args.bands);
    return gpur_launch_gather_frames(stream, gpur_grid_of_threads(grid, BAND_THREADS), &args);
}

static gpur_status launch_observed(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    gpur_gather_observed_args args = drawing->frames;
    args.frames.batch = drawing->rows.batch;
    const int64_t row_bytes = 2 * args.frames.obs_pitch, bands = args.frames.bands;
    const gpur_grid grid = gpur_grid_rows(replay->device, args.frames.batch * bands, 1, row_bytes / bands);
    return gpur_launch_gather_observed(stream, gpur_grid_of_threads(grid, BAND_THREADS), &args);
}

static gpur_status launch_rows(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    const int64_t batch = drawing->rows.batch;
    GPUR_TRY(gpur_launch_gather(stream, gpur_draw_grid(replay, batch), &drawing->rows));
    for (int32_t i = 0; i < drawing->more.count; i++) {
        gpur_gather_args args = drawing->more.list[i];
        args.batch = batch;
        GPUR_TRY(gpur_launch_gather(stream, gpur_draw_grid(replay, batch), &args));
    }
    return GPUR_OK;
}

gpur_status gpur_drawing_launch_locked(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    GPUR_TRY(launch_rows(replay, stream, drawing));
    if (drawing->frames.frames.batch == 0)
        return GPUR_OK;
    return (drawing->is_observed ? launch_observed : launch_frames)(replay, stream, drawing);
}

gpur_status gpur_drawing_launch(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    if (drawing->frames.frames.batch == 0 && drawing->more.count == 0)
        return gpur_drawing_launch_locked(replay, stream, drawing);
    gpur_intake_lock(&replay->intake);
    const gpur_status status = gpur_drawing_launch_locked(replay, stream, drawing);
    gpur_intake_unlock(&replay->intake);
    return status;
}
