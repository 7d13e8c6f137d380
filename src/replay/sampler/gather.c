/* SPDX-License-Identifier: MIT */
#include "replay/sampler/gather.h"

#include "base/numbers.h"
#include "replay/storage/copies.h"
#include "replay/replay.h"
#include "replay/view.h"

#include <inttypes.h>
#include <string.h>

static gpur_status check(const gpur_replay *replay, const gpur_gather_request *r)
{
    GPUR_REQUIRE(r->rows >= 1, "a gather of %" PRId64 " transitions; it must be at least 1", r->rows);
    GPUR_REQUIRE(r->source == GPUR_GATHER_UNIFORM || r->source == GPUR_GATHER_DISTINCT || r->source == GPUR_GATHER_IDS,
                 "the source of a gather is %d; it must be GPUR_UNIFORM (1), GPUR_UNIFORM_DISTINCT (2) or ids (5)",
                 (int)r->source);
    GPUR_REQUIRE(r->source != GPUR_GATHER_IDS || r->ids, "a gather by ids has no ids (NULL)");
    GPUR_REQUIRE(r->field_count >= 0 && r->field_count <= GPUR_MAX_FIELDS, "a gather of %d fields; at most %d",
                 (int)r->field_count, GPUR_MAX_FIELDS);
    for (int32_t i = 0; i < r->field_count; i++) {
        const gpur_gather_field *const f = &r->fields[i];
        GPUR_REQUIRE(f->field >= 0 && f->field < replay->schema.count, "a gather of field %d; there are %d fields",
                     (int)f->field, (int)replay->schema.count);
        GPUR_REQUIRE(f->to && f->pitch >= replay->schema.fields[f->field].bytes,
                     "a gather of field \"%s\" to %p with %" PRId64 " bytes a row; it needs %" PRId64,
                     replay->schema.fields[f->field].name, f->to, f->pitch, replay->schema.fields[f->field].bytes);
    }
    return GPUR_OK;
}

/* The layout of the rows to be gathered: rows of the ring, or packed rows. */
typedef struct row_view {
    const gpur_schema *schema;
    const int32_t *stored; /* for each field of a request its index in `schema`, or -1; NULL: the same index */
    int32_t links;         /* index of the field with the links, or -1 */
} row_view;

static void list_copies(const row_view *l, const gpur_gather_request *r, int32_t stored_discount, gpur_copies *copies)
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
    for (int32_t launch = 1; launch < gpur_copies_launches(copies); launch++) {
        gpur_gather_args *const args = &more->list[more->count++];
        *args = *first;
        args->ids = first->id;
        args->source = GPUR_GATHER_IDS;
        args->id = NULL, args->weight = NULL, args->discount = NULL;
        args->terminated_offset = -1;
        const gpur_copies_range range = gpur_copies_launch(copies, launch, args->copies);
        args->copy_count = range.count, args->units = range.units;
    }
}

/* `more` NULL: all copies must fit into one launch. */
static gpur_status prepare(gpur_replay *replay, const gpur_gather_request *r, const row_view *l, gpur_gather_args *args,
                           gpur_more_gathers *more)
{
    GPUR_TRY(check(replay, r));
    const gpur_schema *const schema = l->schema;
    const int32_t terminated = gpur_schema_find(schema, "terminated");
    const int32_t stored_discount = gpur_schema_find(schema, "discount");
    gpur_copies copies;
    list_copies(l, r, stored_discount, &copies);
    GPUR_REQUIRE(gpur_copies_launches(&copies) == 1 || (more && r->id),
                 "a gather of %d fields takes several launches and needs memory for its ids, which is NULL",
                 (int)r->field_count);
    *args = (gpur_gather_args){
        .window = replay->window.device,
        .ring = replay->ring.rows,
        .pitch = schema->pitch,
        .capacity = replay->config.capacity,
        .batch = r->rows,
        .turn = l->stored ? replay->priorities.tree.turn : NULL, /* a caller's rows are in their order */
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
        .tile_rows = gpur_tile_rows(schema->pitch),
        .row_bytes = (int32_t)schema->row_bytes,
    };
    const gpur_copies_range range = gpur_copies_launch(&copies, 0, args->copies);
    args->copy_count = range.count, args->units = range.units;
    if (more)
        prepare_more(&copies, args, more);
    return GPUR_OK;
}

/* `more`, whose count must be 0, gets the launches after the first one; NULL as for `prepare`. */
static gpur_status prepare_stored(gpur_replay *replay, const gpur_gather_request *r, gpur_gather_args *args,
                                  gpur_more_gathers *more)
{
    const row_view l = {&replay->layout.rows, replay->layout.stored, replay->layout.links};
    return prepare(replay, r, &l, args, more);
}

gpur_status gpur_gather_prepare(gpur_replay *replay, const gpur_gather_request *r, gpur_gather_args *args)
{
    return prepare_stored(replay, r, args, NULL);
}

gpur_status gpur_gather_prepare_packed(gpur_replay *replay, const gpur_gather_request *r, gpur_gather_args *args)
{
    const row_view l = {&replay->schema, NULL, -1};
    return prepare(replay, r, &l, args, NULL);
}

/* A GPU's thread copies four units at a time: a block of these threads has a small tile or a part of a large row. */
enum { GATHER_THREADS = 256, PART_BYTES = 4 * 16 * GATHER_THREADS };

/* Of large batches a warp draws and copies several rows, so that its units are found once for all of them, and all
 * warps run at the same time. On no GPU was it measured which number of rows is the best. */
enum { ROW_A_WARP = 4096, WARPS_AT_ONCE = 8192 };

int gpur_gather_is_by_warps(const gpur_replay *replay, const gpur_gather_args *args)
{
    return gpur_device_get_traits(replay->device)->has_warps && !GPUR_DRAWS_ARE_SEPARATE &&
           args->units <= GPUR_WARP_UNITS;
}

gpur_grid gpur_gather_grid(const gpur_replay *replay, const gpur_gather_args *args)
{
    const int64_t rows = args->batch, pitch = replay->layout.rows.pitch, parts = gpur_divide_up(pitch, PART_BYTES);
    if (gpur_gather_is_by_warps(replay, args))
        return gpur_grid_warps(replay->device, rows < ROW_A_WARP ? rows : gpur_min(rows / 2, WARPS_AT_ONCE));
    const gpur_grid grid = gpur_grid_rows(replay->device, rows * parts, gpur_tile_rows(pitch), pitch / parts);
    return gpur_grid_of_threads(grid, GATHER_THREADS);
}

enum {
    WIDEST_SHIFT = 4,
    BAND_UNITS = 160,  /* units of a frame per thread block; a frame has more units than a block has threads */
    BAND_PIXELS = 512, /* pixels that one thread block preprocesses, in one or two iterations */
    BAND_THREADS = 256,
    CACHED_BATCH_BYTES = 8 << 20, /* a larger batch does not stay in the CPU's caches */
};

static const gpur_gather_field *find_field(const gpur_gather_request *r, int32_t field)
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
static void set_units(gpur_gather_frames_args *a, const gpur_frame_layout *frame_layout)
{
    const int32_t interleaved = frame_layout->stack_is_last;
    a->shift = shift_of(a, interleaved ? frame_layout->element : 0);
    a->units = (int32_t)(a->frame_bytes >> a->shift);
    a->unit_step = interleaved ? frame_layout->stack * frame_layout->element : (int64_t)1 << a->shift;
    a->position_step = interleaved ? frame_layout->element : a->frame_bytes;
    a->bands = (a->units + BAND_UNITS - 1) / BAND_UNITS;
}

/* The same for preprocessing: a unit is one number whatever the axis, and thread blocks share an image by pixels. */
static void divide_preprocessed(gpur_gather_preprocessed_args *a, const gpur_frame_layout *frame_layout)
{
    gpur_gather_frames_args *const f = &a->frames;
    const gpur_preprocess_args *const o = &a->preprocess;
    const int64_t pixels = o->height * o->width;
    f->shift = o->floats ? 2 : 0;
    f->units = (int32_t)(f->frame_bytes >> f->shift);
    f->unit_step = frame_layout->stack_is_last ? frame_layout->stack * frame_layout->element : frame_layout->element;
    f->position_step = frame_layout->stack_is_last ? frame_layout->element : f->frame_bytes;
    f->bands = (int32_t)((pixels + BAND_PIXELS - 1) / BAND_PIXELS);
    a->is_plane =
        o->channels == f->stack && pixels == f->units && (f->stack == 1 || o->planes != frame_layout->stack_is_last);
}

/* Where the goals of gathered rows lie, and what follows from them. */
static gpur_hindsight_output output_of(const gpur_gather_request *r, int32_t field, int64_t offset)
{
    const gpur_gather_field *const found = field < 0 ? NULL : find_field(r, field);
    gpur_hindsight_output output = {0};
    if (found) {
        output.to = (unsigned char *)found->to + offset;
        output.pitch = found->pitch;
    }
    return output;
}

static void prepare_relabel(const gpur_replay *replay, const gpur_gather_request *r, gpur_hindsight_relabel_args *a)
{
    const gpur_goal_fields *const f = &replay->hindsight.fields;
    *a = replay->hindsight.relabel;
    a->batch = r->rows;
    a->ids = r->id;
    a->step = r->step;
    a->seed = r->seed;
    a->desired = output_of(r, f->desired, f->desired_bytes);
    a->next_desired = output_of(r, f->next_desired, f->desired_bytes);
    a->reward = output_of(r, f->reward, 0);
    a->terminated = output_of(r, f->terminated, 0);
    a->discount = output_of(r, f->discount, 0);
    if (r->discount) {
        a->discount.to = (unsigned char *)r->discount;
        a->discount.pitch = sizeof *r->discount;
    }
    a->relabeled = r->relabeled;
}

static gpur_gather_frames_args frames_of(const gpur_replay *replay, const gpur_gather_request *r)
{
    const gpur_frame_layout *const frame_layout = &replay->layout.frame_layout;
    const gpur_gather_frames_args frames = {
        .frames = replay->ring.frames,
        .links = r->links,
        .pitch = frame_layout->pitch,
        .frame_bytes = frame_layout->frame_bytes,
        .stack = frame_layout->stack,
        .slots = (uint32_t)frame_layout->frames,
    };
    return frames;
}

static void prepare_frames(gpur_replay *replay, const gpur_gather_request *r, gpur_gather_frames_args *a)
{
    const gpur_gather_field *const obs = find_field(r, gpur_schema_find(&replay->schema, "obs"));
    const gpur_gather_field *const next = find_field(r, gpur_schema_find(&replay->schema, "next_obs"));
    *a = frames_of(replay, r);
    a->obs = obs ? obs->to : NULL;
    a->next_obs = next ? next->to : NULL;
    a->obs_pitch = obs ? obs->pitch : 0;
    a->next_pitch = next ? next->pitch : 0;
    a->batch = obs || next ? r->rows : 0;
    set_units(a, &replay->layout.frame_layout);
}

static void prepare_preprocessed(gpur_replay *replay, const gpur_gather_request *r, gpur_gather_preprocessed_args *a)
{
    a->frames = frames_of(replay, r);
    a->preprocess = *r->preprocess->args;
    a->frames.obs = r->preprocess->obs;
    a->frames.next_obs = r->preprocess->next_obs;
    a->frames.obs_pitch = a->frames.next_pitch = a->preprocess.x_pitch * (a->preprocess.bf16 ? 2 : 4);
    a->frames.batch = r->rows;
    divide_preprocessed(a, &replay->layout.frame_layout);
}

gpur_status gpur_gather_plan_prepare(gpur_replay *replay, const gpur_gather_request *request, gpur_gather_plan *plan)
{
    memset(&plan->frames_args, 0, sizeof plan->frames_args);
    plan->is_preprocessed = request->preprocess != NULL;
    plan->relabel.batch = 0;
    if (replay->hindsight.device && request->id)
        prepare_relabel(replay, request, &plan->relabel);
    plan->more.count = 0;
    GPUR_TRY(prepare_stored(replay, request, &plan->rows, &plan->more));
    GPUR_REQUIRE(
        !request->preprocess || gpur_replay_links(replay) > 0,
        "preprocessed stacks are gathered from a replay of GPUR_LAYOUT_ROWS; it must be of GPUR_LAYOUT_FRAMES");
    if (gpur_replay_links(replay) == 0)
        return GPUR_OK;
    GPUR_REQUIRE(request->links, "a gather of frame stacks needs memory for their links, which is NULL");
    if (plan->is_preprocessed)
        prepare_preprocessed(replay, request, &plan->frames_args);
    else
        prepare_frames(replay, request, &plan->frames_args.frames);
    return GPUR_OK;
}

static gpur_status launch_frames(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan)
{
    gpur_gather_frames_args args = plan->frames_args.frames;
    args.batch = plan->rows.batch;
    const int64_t row_bytes = 2 * args.stack * args.frame_bytes;
    args.nontemporal = row_bytes * args.batch > CACHED_BATCH_BYTES;
    const gpur_grid grid = gpur_grid_rows(replay->device, args.batch * args.bands, 1, row_bytes / args.bands);
    return gpur_launch_gather_frames(stream, gpur_grid_of_threads(grid, BAND_THREADS), &args);
}

static gpur_status launch_preprocessed(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan)
{
    gpur_gather_preprocessed_args args = plan->frames_args;
    args.frames.batch = plan->rows.batch;
    const int64_t row_bytes = 2 * args.frames.obs_pitch, bands = args.frames.bands;
    const gpur_grid grid = gpur_grid_rows(replay->device, args.frames.batch * bands, 1, row_bytes / bands);
    return gpur_launch_gather_preprocessed(stream, gpur_grid_of_threads(grid, BAND_THREADS), &args);
}

static gpur_status launch_gather(const gpur_replay *replay, gpur_stream *stream, const gpur_gather_args *args)
{
    return gpur_launch_gather(stream, gpur_gather_grid(replay, args), args);
}

int gpur_gather_takes_several_launches(const gpur_gather_plan *plan)
{
    return plan->frames_args.frames.batch > 0 || plan->more.count > 0;
}

gpur_status gpur_gather_plan_launch(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan)
{
    GPUR_TRY(launch_gather(replay, stream, &plan->rows));
    return gpur_gather_plan_launch_rest(replay, stream, plan);
}

gpur_status gpur_gather_plan_launch_rest(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan)
{
    for (int32_t i = 0; i < plan->more.count; i++) {
        gpur_gather_args args = plan->more.list[i];
        args.batch = plan->rows.batch;
        GPUR_TRY(launch_gather(replay, stream, &args));
    }
    if (plan->frames_args.frames.batch == 0)
        return GPUR_OK;
    return (plan->is_preprocessed ? launch_preprocessed : launch_frames)(replay, stream, plan);
}
