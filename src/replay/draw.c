/* SPDX-License-Identifier: MIT */
#include "replay/draw.h"

#include "kernels/random.h"
#include "replay/copies.h"
#include "replay/replay.h"

#include <inttypes.h>

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

/* How the rows lie that are drawn from: those of the ring, or packed ones. */
typedef struct lay {
    const gpur_schema *schema;
    const int32_t *stored; /* of each field of a request, which of `schema`, or -1; NULL: the same */
    int32_t links;         /* the field of the links, or -1 */
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

static uint32_t purpose_of(const gpur_draw_request *r)
{
    const int distinct = r->source == GPUR_SOURCE_DISTINCT;
    if (r->for_learner)
        return distinct ? GPUR_DRAW_LEARN_DISTINCT : GPUR_DRAW_LEARN;
    return distinct ? GPUR_DRAW_DISTINCT : GPUR_DRAW_SAMPLE;
}

/* Fills in the launches after the first, which copy what that one has no room for: they find its rows by their ids. */
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

/* `more` is NULL where one launch has to do. */
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
        .window = replay->intake.feed.window,
        .ring = replay->intake.feed.ring,
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
        .purpose = purpose_of(r),
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
    return &replay->intake.feed.priorities;
}
