/* SPDX-License-Identifier: MIT */
#include "replay/maker.h"

#include "replay/fold.h"

#include <inttypes.h>
#include <string.h>

gpur_status gpur_maker_check_room(gpur_writer *writer, int64_t rows, const char *what)
{
    gpur_intake *const intake = &writer->replay->intake;
    if (gpur_intake_waits(intake))
        return GPUR_OK;
    gpur_intake_settle(intake);
    const int64_t room = gpur_staging_room(&intake->staging);
    if (room >= rows)
        return GPUR_OK;
    return gpur_fail(GPUR_WOULD_BLOCK,
                     "there is room for %" PRId64 " rows in the staging blocks; a %s needs %" PRId64
                     ": call again later, or set when_full to GPUR_WHEN_FULL_WAIT",
                     room, what, rows);
}

gpur_maker gpur_maker_begin(gpur_writer *writer, int64_t rows, int waits)
{
    const gpur_maker maker = {.writer = writer, .left = rows, .waits = waits};
    return maker;
}

gpur_status gpur_maker_end(gpur_maker *maker)
{
    const int64_t used = maker->used;
    maker->used = 0;
    return used > 0 ? gpur_intake_commit(&maker->writer->replay->intake, &maker->claim) : GPUR_OK;
}

/* Several rows are claimed at once where they are in one block. */
static gpur_status next_row(gpur_maker *maker, unsigned char **row, int64_t *id)
{
    gpur_intake *const intake = &maker->writer->replay->intake;
    if (maker->used == maker->claim.count) {
        GPUR_TRY(gpur_maker_end(maker));
        maker->claim.count = 0;
        GPUR_TRY(gpur_intake_claim(intake, maker->left, maker->waits, &maker->claim));
        maker->left -= maker->claim.count;
    }
    *row = maker->claim.rows + maker->used * maker->writer->replay->schema.pitch;
    *id = maker->claim.first_id + maker->used++;
    return GPUR_OK;
}

static void put(const gpur_schema *schema, unsigned char *row, int32_t field, const void *value)
{
    if (field >= 0)
        memcpy(row + schema->fields[field].offset, value, (size_t)schema->fields[field].bytes);
}

/* A transition of `steps` steps from step `first` on. */
static void write_row(const gpur_writer *writer, int64_t env, int64_t first, int32_t steps, const gpur_ending *ending,
                      unsigned char *row)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_step_fields *const f = &writer->fields;
    const gpur_kept *const kept = &writer->kept;
    const unsigned char *const values = gpur_kept_step(kept, env, first);
    gpur_fold fold =
        gpur_fold_rewards(kept->rewards + env * kept->n_step, kept->n_step, first, steps, writer->replay->config.gamma);
    if (ending->terminated)
        fold.discount = 0.0f;
    for (int32_t i = 0; i < kept->count; i++)
        memcpy(row + kept->fields[i].row_offset, values + kept->fields[i].offset, (size_t)kept->fields[i].bytes);
    put(schema, row, f->reward, &fold.reward);
    put(schema, row, f->next_obs, ending->next_obs);
    put(schema, row, f->terminated, &ending->terminated);
    put(schema, row, f->truncated, &ending->truncated);
    put(schema, row, f->discount, &fold.discount);
    put(schema, row, f->previous, &kept->episodes[env].previous);
}

gpur_status gpur_maker_make(gpur_maker *maker, int64_t env, int32_t due, const gpur_ending *ending)
{
    gpur_episode *const episode = &maker->writer->kept.episodes[env];
    for (; due > 0; due--) {
        unsigned char *row = NULL;
        int64_t id = 0;
        GPUR_TRY(next_row(maker, &row, &id));
        write_row(maker->writer, env, episode->steps - episode->pending, episode->pending, ending, row);
        episode->previous = id;
        episode->pending--;
    }
    return GPUR_OK;
}
