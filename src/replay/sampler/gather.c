/* SPDX-License-Identifier: MIT */
#include "replay/sampler/gather.h"

#include "replay/storage/copies.h"
#include "replay/replay.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)GPUR_SOURCE_UNIFORM == (int)GPUR_UNIFORM, "the kernels' sources are the public ones");
_Static_assert((int)GPUR_SOURCE_DISTINCT == (int)GPUR_UNIFORM_DISTINCT, "the kernels' sources are the public ones");

static gpur_status check(const gpur_replay *replay, const gpur_draw_request *r)
{
    GPUR_REQUIRE(r->rows >= 1 && r->rows <= replay->config.max_batch,
                 "a draw of %" PRId64 " transitions; it must be 1 to max_batch = %" PRId64, r->rows,
                 replay->config.max_batch);
    GPUR_REQUIRE(r->source == GPUR_SOURCE_UNIFORM || r->source == GPUR_SOURCE_DISTINCT || r->source == GPUR_SOURCE_IDS,
                 "the source of a gather is %d; it must be GPUR_UNIFORM (1), GPUR_UNIFORM_DISTINCT (2) or ids (5)",
                 (int)r->source);
    GPUR_REQUIRE(r->source != GPUR_SOURCE_IDS || r->ids, "a draw by ids has no ids (NULL)");
    GPUR_REQUIRE(r->field_count >= 0 && r->field_count <= GPUR_MAX_FIELDS, "a draw of %d fields; at most %d",
                 (int)r->field_count, GPUR_MAX_FIELDS);
    for (int32_t i = 0; i < r->field_count; i++) {
        const gpur_draw_field *const f = &r->fields[i];
        GPUR_REQUIRE(f->field >= 0 && f->field < replay->schema.count, "a draw of field %d; there are %d fields",
                     (int)f->field, (int)replay->schema.count);
        GPUR_REQUIRE(f->to && f->pitch >= replay->schema.fields[f->field].bytes,
                     "a draw of field \"%s\" to %p with %" PRId64 " bytes a row; it needs %" PRId64,
                     replay->schema.fields[f->field].name, f->to, f->pitch, replay->schema.fields[f->field].bytes);
    }
    return GPUR_OK;
}

/* The layout of the rows to be gathered: rows of the ring, or packed rows. */
typedef struct lay {
    const gpur_schema *schema;
    const int32_t *stored; /* for each field of a request its index in `schema`, or -1; NULL: the same index */
    int32_t links;         /* index of the field with the links, or -1 */
} lay;

static void list_copies(const lay *l, const gpur_draw_request *r, int32_t stored_discount, gpur_copies *copies)
{
    copies->count = copies->units = 0;
    for (int32_t i = 0; i < r->field_count; i++) {
        const int32_t at = l->stored ? l->stored[r->fields[i].field] : r->fields[i].field;
        if (at >= 0)
            gpur_copies_add(copies, r->fields[i].to, r->fields[i].pitch, l->schema->fields[at].offset,
                            l->schema->fields[at].bytes);
    }
    if (r->discount && stored_discount >= 0)
        gpur_copies_add(copies, r->discount, sizeof(float), l->schema->fields[stored_discount].offset, sizeof(float));
    if (l->links >= 0 && r->links) {
        const gpur_field_info *const links = &l->schema->fields[l->links];
        gpur_copies_add(copies, r->links, links->bytes, links->offset, links->bytes);
    }
}

/* Fills in the kernel launches after the first one, for the copies that do not fit into it. They find the rows by the
 * ids that the first one writes. */
static void prepare_more(const gpur_copies *copies, const gpur_gather_args *first, gpur_more_gathers *more)
{
    for (int32_t part = 1; part < gpur_copies_parts(copies); part++) {
        gpur_gather_args *const args = &more->list[more->count++];
        *args = *first;
        args->ids = first->id;
        args->source = GPUR_SOURCE_IDS;
        args->id = NULL, args->weight = NULL, args->discount = NULL;
        args->terminated_offset = -1;
        const gpur_copies_range range = gpur_copies_part(copies, part, args->copies);
        args->copy_count = range.count, args->units = range.units;
    }
}

/* `more` NULL: all copies must fit into one launch. */
static gpur_status prepare(gpur_replay *replay, const gpur_draw_request *r, const lay *l, gpur_gather_args *args,
                           gpur_more_gathers *more)
{
    GPUR_TRY(check(replay, r));
    const gpur_schema *const schema = l->schema;
    const int32_t terminated = gpur_schema_find(schema, "terminated");
    const int32_t stored_discount = gpur_schema_find(schema, "discount");
    gpur_copies copies;
    list_copies(l, r, stored_discount, &copies);
    GPUR_REQUIRE(gpur_copies_parts(&copies) == 1 || (more && r->id),
                 "a draw of %d fields takes several launches, and has no place for its ids", (int)r->field_count);
    *args = (gpur_gather_args){
        .window = replay->window.device,
        .ring = replay->ring.rows,
        .pitch = schema->pitch,
        .capacity = replay->config.capacity,
        .batch = r->rows,
        .ids = r->ids,
        .step = r->step,
        .step_value = r->step_value,
        .seed = r->seed,
        .id = r->id,
        .weight = r->weight,
        .discount = stored_discount >= 0 ? NULL : r->discount,
        .gamma = replay->config.gamma,
        .purpose = r->purpose,
        .source = r->source,
        .terminated_offset = terminated >= 0 ? (int32_t)schema->fields[terminated].offset : -1,
        .tile = gpur_tile_rows(schema->pitch),
        .row_bytes = (int32_t)schema->row_bytes,
    };
    const gpur_copies_range range = gpur_copies_part(&copies, 0, args->copies);
    args->copy_count = range.count, args->units = range.units;
    if (more)
        prepare_more(&copies, args, more);
    return GPUR_OK;
}

gpur_status gpur_draw_prepare(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_args *args)
{
    return gpur_draw_prepare_all(replay, r, args, NULL);
}

gpur_status gpur_draw_prepare_all(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_args *args,
                                  gpur_more_gathers *more)
{
    const lay l = {&replay->storage.rows, replay->storage.stored, replay->storage.links};
    return prepare(replay, r, &l, args, more);
}

gpur_status gpur_draw_prepare_packed(gpur_replay *replay, const gpur_draw_request *r, gpur_gather_args *args)
{
    const lay l = {&replay->schema, NULL, -1};
    return prepare(replay, r, &l, args, NULL);
}

gpur_grid gpur_draw_grid(gpur_replay *replay, int64_t rows)
{
    const int64_t pitch = replay->storage.rows.pitch;
    return gpur_grid_rows(replay->device, rows, gpur_tile_rows(pitch), pitch);
}

int32_t gpur_replay_links(const gpur_replay *replay)
{
    return 2 * replay->storage.linking.stack;
}

gpur_device *gpur_replay_device(gpur_replay *replay)
{
    return replay->device;
}

const gpur_schema *gpur_replay_schema(gpur_replay *replay)
{
    return &replay->schema;
}

const gpur_replay_config *gpur_replay_settings(gpur_replay *replay)
{
    return &replay->config;
}

const gpur_priorities *gpur_replay_priorities(gpur_replay *replay)
{
    return &replay->priorities;
}

_Static_assert((int)GPUR_MAX_LINKS == (int)GPUR_MOST_LINKS, "the kernels' most links are those of the largest stack");

enum {
    WIDEST_SHIFT = 4,
    BAND_UNITS = 160,  /* units of a frame per thread block; a frame has more units than a block has threads */
    BAND_PIXELS = 512, /* pixels that one thread block preprocesses, in one or two iterations */
    BAND_THREADS = 256,
    CACHED_BATCH_BYTES = 8 << 20, /* a larger batch does not stay in the CPU's caches */
};

static const gpur_draw_field *find(const gpur_draw_request *r, int32_t field)
{
    for (int32_t i = 0; i < r->field_count; i++)
        if (r->fields[i].field == field)
            return &r->fields[i];
    return NULL;
}

/* log2 of the widest unit, 1 to 16 bytes, that divides the frame size and every address and pitch; if `element` is not
 * 0, log2 of that. Frames of the ring start at multiples of 16 bytes. */
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

/* Sets the units of a frame and their offsets in a stack: frame after frame or, if the stack is the last axis,
 * interleaved number by number. */
static void divide(gpur_gather_frames_args *a, const gpur_linking *linking)
{
    const int32_t woven = linking->is_last;
    a->shift = shift_of(a, woven ? linking->element : 0);
    a->units = (int32_t)(a->frame_bytes >> a->shift);
    a->unit_step = woven ? linking->stack * linking->element : (int64_t)1 << a->shift;
    a->place_step = woven ? linking->element : a->frame_bytes;
    a->bands = (a->units + BAND_UNITS - 1) / BAND_UNITS;
}

/* The same for preprocessing: a unit is one number whatever the axis, and thread blocks share an image by pixels. */
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
        .frames = replay->ring.frames,
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

int gpur_drawing_is_several(const gpur_drawing *drawing)
{
    return drawing->frames.frames.batch > 0 || drawing->more.count > 0;
}

gpur_status gpur_drawing_launch(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing)
{
    GPUR_TRY(launch_rows(replay, stream, drawing));
    if (drawing->frames.frames.batch == 0)
        return GPUR_OK;
    return (drawing->is_observed ? launch_observed : launch_frames)(replay, stream, drawing);
}
