/* SPDX-License-Identifier: MIT */
#include "reference/reference_replay.h"

#include <stdlib.h>
#include <string.h>

void reference_begin(reference_replay *model, const gpur_replay_config *settings, int64_t room)
{
    memset(model, 0, sizeof *model);
    model->capacity = settings->capacity;
    model->block_rows = settings->block_rows;
    model->kept = settings->max_batch;
    if (settings->index_source != GPUR_UNIFORM_DISTINCT && model->kept > settings->capacity / 2)
        model->kept = settings->capacity / 2;
    model->flush = settings->flush;
    model->rows = malloc((size_t)room);
    model->room = room;
}

void reference_end(reference_replay *model)
{
    free(model->rows);
}

int64_t reference_count(const reference_replay *model, int where)
{
    int64_t count = where == ROW_GONE ? model->gone : 0;
    for (int64_t id = model->gone; id < model->count; id++)
        count += model->rows[id] == where;
    return count;
}

int64_t reference_first(const reference_replay *model, int where)
{
    for (int64_t id = model->gone; id < model->count; id++)
        if (model->rows[id] == where)
            return id;
    return -1;
}

static void move_all(reference_replay *model, int from, int to)
{
    for (int64_t id = model->gone; id < model->count; id++)
        if (model->rows[id] == from)
            model->rows[id] = (unsigned char)to;
}

/* Reserve and copy the oldest `count` staged rows. */
static void upload(reference_replay *model, int64_t count)
{
    const int64_t in_flight =
        reference_count(model, ROW_PUBLISH_NEXT) + model->refreshed + reference_count(model, ROW_PUBLISH_AFTER);
    if (in_flight + count + model->kept > model->capacity) {
        model->refreshed = 0;
        move_all(model, ROW_PUBLISH_NEXT, ROW_VISIBLE);
        move_all(model, ROW_PUBLISH_AFTER, ROW_VISIBLE);
    }
    int64_t rows = count;
    for (int where = ROW_PUBLISH_AFTER; where <= ROW_VISIBLE; where++)
        rows += reference_count(model, where);
    const int evicts = rows > model->capacity;
    for (; rows > model->capacity; rows--)
        model->rows[model->gone++] = ROW_GONE; /* visible ones: the oldest leave first */
    const int late = reference_count(model, ROW_PUBLISH_AFTER) > 0 || (evicts && model->launches > 0);
    for (; count > 0; count--)
        model->rows[reference_first(model, ROW_STAGED)] = late ? ROW_PUBLISH_AFTER : ROW_PUBLISH_NEXT;
}

static void upload_staged(reference_replay *model)
{
    const int64_t staged = reference_count(model, ROW_STAGED);
    if (staged > 0)
        upload(model, staged);
}

static int goes_straight(const reference_replay *model, int64_t count)
{
    return model->straight > 0 && count >= model->straight && model->block_filled == 0 &&
           reference_count(model, ROW_STAGED) == 0;
}

void reference_stage(reference_replay *model, int64_t count)
{
    for (; count > 0; count--) {
        model->rows[model->count++] = ROW_STAGED;
        if (++model->block_filled == model->block_rows) {
            upload_staged(model);
            model->block_filled = 0;
        }
    }
}

void reference_append(reference_replay *model, int64_t count)
{
    while (count > 0) {
        const int straight = goes_straight(model, count);
        const int64_t rows = straight ? count < model->block_rows ? count : model->block_rows : 1;
        (straight ? reference_append_arrays : reference_stage)(model, rows);
        count -= rows;
    }
}

void reference_append_arrays(reference_replay *model, int64_t count)
{
    upload_staged(model);
    while (count > 0) {
        const int64_t rows = count < model->block_rows ? count : model->block_rows;
        for (int64_t i = 0; i < rows; i++)
            model->rows[model->count++] = ROW_STAGED;
        upload(model, rows);
        count -= rows;
    }
}

void reference_flush(reference_replay *model)
{
    upload_staged(model);
    move_all(model, ROW_PUBLISH_AFTER, ROW_PUBLISH_NEXT);
}

void reference_launch(reference_replay *model)
{
    if (model->flush == GPUR_FLUSH_AUTO)
        reference_flush(model);
    move_all(model, ROW_PUBLISH_NEXT, ROW_VISIBLE);
    move_all(model, ROW_PUBLISH_AFTER, ROW_PUBLISH_NEXT);
    model->refreshed = 0;
    model->launches++;
}

void reference_refresh(reference_replay *model)
{
    if (model->flush == GPUR_FLUSH_AUTO)
        reference_flush(model);
    else
        model->refreshed += reference_count(model, ROW_PUBLISH_NEXT);
    move_all(model, ROW_PUBLISH_NEXT, ROW_VISIBLE);
}

void reference_trim(reference_replay *model, int64_t keep)
{
    for (int64_t visible = reference_count(model, ROW_VISIBLE); visible > keep; visible--)
        model->rows[model->gone++] = ROW_GONE;
}

int64_t reference_size(const reference_replay *model)
{
    int64_t size = reference_count(model, ROW_VISIBLE) + reference_count(model, ROW_PUBLISH_NEXT);
    if (model->flush == GPUR_FLUSH_AUTO)
        size += reference_count(model, ROW_PUBLISH_AFTER) + reference_count(model, ROW_STAGED);
    return size < model->capacity ? size : model->capacity;
}

void reference_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t key_low = (uint32_t)(key & 0xffffffffu), key_high = (uint32_t)(key >> 32);
    memcpy(out, counter, 4 * sizeof *out);
    for (int round = 0; round < 10; round++) {
        const uint64_t left = 3528531795u * (uint64_t)out[0], right = 3449720151u * (uint64_t)out[2];
        const uint32_t next[4] = {(uint32_t)(right >> 32) ^ out[1] ^ key_low, (uint32_t)right,
                                  (uint32_t)(left >> 32) ^ out[3] ^ key_high, (uint32_t)left};
        memcpy(out, next, sizeof next);
        key_low += 2654435769u;
        key_high += 3144134277u;
    }
}

uint64_t reference_random_below(uint64_t seed, uint32_t purpose, uint64_t step, uint32_t lane, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    const uint32_t counter[4] = {lane, purpose, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t out[4];
    reference_philox(counter, seed, out);
    return (uint64_t)((wide)((uint64_t)out[1] << 32 | out[0]) * n >> 64);
}

int64_t reference_sample(const reference_replay *model, uint64_t seed, uint64_t sample, int64_t b)
{
    const uint64_t visible = (uint64_t)reference_count(model, ROW_VISIBLE);
    return reference_first(model, ROW_VISIBLE) + (int64_t)reference_random_below(seed, 1, sample, (uint32_t)b, visible);
}

void reference_load(reference_replay *model)
{
    upload_staged(model);
    move_all(model, ROW_PUBLISH_AFTER, ROW_VISIBLE);
    move_all(model, ROW_PUBLISH_NEXT, ROW_VISIBLE);
    model->block_filled = model->refreshed = model->launches = 0;
}
