/* SPDX-License-Identifier: MIT */
/* The arrays of a batch, and the conversion of its observations. */
#include "learn/train_batch.h"

#include "kernels/lib/allowed.h"
#include "replay/view.h"

#include <string.h>

void gpur_train_batch_open(gpur_train_batch *batch, const gpur_part_context *context, int64_t rows, int32_t wants)
{
    memset(batch, 0, sizeof *batch);
    batch->device = context->device;
    batch->replay = context->replay;
    batch->rows = rows;
    batch->wants = wants;
    batch->observations = !!(wants & GPUR_WANTS_OBS) + !!(wants & GPUR_WANTS_NEXT_OBS);
    batch->next_row = (batch->observations - 1) * rows;
    batch->fields = context->fields;
    batch->mask_bytes = gpur_mask_bytes(context->network->num_actions);
    batch->input = gpur_input_of(context->network, &context->fields.obs_format, context->network_config);
    batch->x_pitch = gpur_input_pitch(context->network);
    batch->is_preprocessed = !batch->input.direct && gpur_replay_links(batch->replay) > 0 && !(wants & GPUR_WANTS_RAW);
    if (!batch->input.direct && (!batch->is_preprocessed || context->host_batches > 0))
        batch->raw_bytes = batch->observations * batch->rows * batch->input.raw_pitch;
}

/* Returns an array of `bytes` for each row if one of the inputs `which` is wanted, else NULL. */
static void *assign_input(const gpur_train_batch *batch, int32_t which, int64_t bytes, gpur_arena *arena)
{
    return batch->wants & which ? gpur_arena_alloc(arena, batch->rows * bytes) : NULL;
}

void gpur_train_batch_assign(gpur_train_batch *batch, gpur_arena *arena)
{
    const int64_t rows = batch->rows, links = gpur_replay_links(batch->replay);
    batch->x = gpur_arena_floats(arena, batch->observations * rows * batch->x_pitch);
    batch->raw = batch->raw_bytes > 0 ? gpur_arena_alloc(arena, batch->raw_bytes) : NULL;
    if (!batch->fields.action_floats)
        batch->action = assign_input(batch, GPUR_WANTS_ACTION, batch->fields.action_is_int64 ? 8 : 4, arena);
    batch->reward = assign_input(batch, GPUR_WANTS_REWARD, sizeof *batch->reward, arena);
    batch->discount = assign_input(batch, GPUR_WANTS_DISCOUNT, sizeof *batch->discount, arena);
    batch->weight = assign_input(batch, GPUR_WANTS_WEIGHT, sizeof *batch->weight, arena);
    batch->next_mask = assign_input(batch, GPUR_WANTS_NEXT_MASK, batch->mask_bytes, arena);
    batch->id = gpur_arena_alloc(arena, rows * (int64_t)sizeof *batch->id);
    batch->links = gpur_arena_alloc(arena, rows * links * (int64_t)sizeof *batch->links);
    if (arena->base && batch->wants & GPUR_WANTS_NEXT_OBS)
        batch->next_x = gpur_input_row(&batch->input, batch->x, batch->next_row, batch->x_pitch);
}

static void *row_of(void *array, int64_t row, int64_t bytes)
{
    return array ? (unsigned char *)array + row * bytes : NULL;
}

gpur_train_batch gpur_train_batch_part(const gpur_train_batch *batch, gpur_replay *replay,
                                       const gpur_learn_fields *fields, int64_t first, int64_t rows)
{
    gpur_train_batch part = *batch;
    part.replay = replay;
    part.fields = *fields;
    part.rows = rows;
    part.first_row = first;
    part.x = gpur_input_row(&batch->input, batch->x, first, batch->x_pitch);
    part.next_x = batch->next_x ? gpur_input_row(&batch->input, batch->next_x, first, batch->x_pitch) : NULL;
    part.raw = row_of(batch->raw, first, batch->input.raw_pitch);
    part.action = row_of(batch->action, first, fields->action_is_int64 ? 8 : 4);
    part.reward = row_of(batch->reward, first, sizeof *batch->reward);
    part.discount = row_of(batch->discount, first, sizeof *batch->discount);
    part.weight = row_of(batch->weight, first, sizeof *batch->weight);
    part.next_mask = row_of(batch->next_mask, first, batch->mask_bytes);
    part.id = row_of(batch->id, first, sizeof *batch->id);
    part.links = row_of(batch->links, first, gpur_replay_links(replay) * (int64_t)sizeof *batch->links);
    return part;
}

int32_t gpur_train_batch_fields(const gpur_train_batch *batch, int is_raw,
                                gpur_gather_field list[GPUR_MAX_TRAIN_FIELDS])
{
    const gpur_learn_fields *const f = &batch->fields;
    const int direct = batch->input.direct;
    const int64_t pitch = direct ? batch->x_pitch * (int64_t)sizeof(float) : batch->input.raw_pitch;
    unsigned char *const obs = direct ? (unsigned char *)batch->x : batch->raw;
    int32_t count = 0;
    if (is_raw && batch->wants & GPUR_WANTS_OBS)
        list[count++] = (gpur_gather_field){f->obs, obs, pitch};
    if (is_raw && batch->wants & GPUR_WANTS_NEXT_OBS)
        list[count++] = (gpur_gather_field){f->next_obs, obs + batch->next_row * pitch, pitch};
    if (f->action_floats)
        list[count++] = (gpur_gather_field){f->action, batch->x + f->obs_format.features, pitch};
    else if (batch->wants & GPUR_WANTS_ACTION)
        list[count++] = (gpur_gather_field){f->action, batch->action, f->action_is_int64 ? 8 : 4};
    if (batch->wants & GPUR_WANTS_REWARD)
        list[count++] = (gpur_gather_field){f->reward, batch->reward, sizeof *batch->reward};
    if (batch->wants & GPUR_WANTS_NEXT_MASK)
        list[count++] = (gpur_gather_field){f->next_mask, batch->next_mask, batch->mask_bytes};
    return count;
}
