/* SPDX-License-Identifier: MIT */
#include "replay/draw.h"
#include "replay/replay.h"

#include <string.h>

_Static_assert((int)GPUR_MAX_LINKS == (int)GPUR_MOST_LINKS, "the kernels' most links are those of the largest stack");
_Static_assert(sizeof(gpur_gather_frames_args) <= GPUR_MAX_ARGS, "a queued launch has room for its arguments");

enum {
    WIDEST_SHIFT = 4,
    BAND_UNITS = 160, /* of a frame; a block of a GPU has fewer threads for one row than a frame has units */
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

static void prepare_frames(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_frames_args *a)
{
    const gpur_linking *const linking = &replay->storage.linking;
    const gpur_draw_field *const obs = find(r, gpur_schema_find(&replay->schema, "obs"));
    const gpur_draw_field *const next = find(r, gpur_schema_find(&replay->schema, "next_obs"));
    const gpur_gather_frames_args filled = {
        .frames = replay->intake.feed.frames,
        .links = r->links,
        .obs = obs ? obs->to : NULL,
        .next_obs = next ? next->to : NULL,
        .pitch = linking->pitch,
        .frame_bytes = linking->frame_bytes,
        .obs_pitch = obs ? obs->pitch : 0,
        .next_pitch = next ? next->pitch : 0,
        .batch = obs || next ? r->rows : 0,
        .stack = linking->stack,
        .slots = (uint32_t)linking->frames,
    };
    *a = filled;
    divide(a, linking);
}

gpur_status gpur_drawing_prepare(gpur_replay *replay, const gpur_draw_request *request, gpur_drawing *drawing)
{
    memset(&drawing->frames, 0, sizeof drawing->frames);
    GPUR_TRY(gpur_draw_prepare(replay, request, &drawing->rows));
    if (gpur_replay_links(replay) == 0)
        return GPUR_OK;
    GPUR_REQUIRE(request->links, "a draw from a linked replay has no place for its links (NULL)");
    prepare_frames(replay, request, &drawing->frames);
    return GPUR_OK;
}

static gpur_status launch_frames(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    gpur_gather_frames_args args = drawing->frames;
    args.batch = drawing->rows.batch;
    const int64_t row_bytes = 2 * args.stack * args.frame_bytes;
    args.past = row_bytes * args.batch > CACHED_BATCH_BYTES;
    const gpur_grid grid = gpur_grid_rows(replay->device, args.batch * args.bands, 1, row_bytes / args.bands);
    return gpur_launch_gather_frames(stream, grid, &args);
}

gpur_status gpur_drawing_launch_locked(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    GPUR_TRY(gpur_launch_gather(stream, gpur_draw_grid(replay, drawing->rows.batch), &drawing->rows));
    return drawing->frames.batch == 0 ? GPUR_OK : launch_frames(replay, stream, drawing);
}

gpur_status gpur_drawing_launch(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    if (drawing->frames.batch == 0)
        return gpur_drawing_launch_locked(replay, stream, drawing);
    gpur_intake_lock(&replay->intake);
    const gpur_status status = gpur_drawing_launch_locked(replay, stream, drawing);
    gpur_intake_unlock(&replay->intake);
    return status;
}
