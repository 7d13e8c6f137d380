/* SPDX-License-Identifier: MIT */
#include "replay/checkpoint/slots.h"

#include <inttypes.h>

static int64_t bytes_of(const gpur_replay *replay)
{
    return replay->config.capacity * (int64_t)sizeof(int64_t);
}

gpur_status gpur_slots_copy_alloc(const gpur_replay *replay, gpur_slots_copy *copy)
{
    const int64_t bytes = bytes_of(replay);
    if (!replay->priorities.slots)
        return GPUR_OK;
    copy->turn = gpur_host_alloc(replay->device, (size_t)(2 * bytes));
    if (!copy->turn)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of slots", 2 * bytes);
    copy->slots = copy->turn + replay->config.capacity;
    return GPUR_OK;
}

void gpur_slots_copy_free(const gpur_replay *replay, gpur_slots_copy *copy)
{
    if (copy->turn)
        gpur_host_free(replay->device, copy->turn, (size_t)(2 * bytes_of(replay)));
    copy->turn = copy->slots = NULL;
}

int64_t gpur_slots_used(const gpur_replay *replay, int64_t next_row)
{
    return next_row < replay->config.capacity ? next_row : replay->config.capacity;
}

gpur_status gpur_slots_copy_read(const gpur_replay *replay, gpur_stream *stream, gpur_slots_copy *copy)
{
    const gpur_priorities *const p = &replay->priorities;
    if (!copy->turn)
        return GPUR_OK;
    GPUR_TRY(gpur_copy(stream, copy->turn, p->tree.turn, bytes_of(replay)));
    GPUR_TRY(gpur_copy(stream, copy->slots, p->slots, bytes_of(replay)));
    return gpur_stream_sync(stream);
}

gpur_status gpur_slots_copy_write(const gpur_replay *replay, gpur_stream *stream, const gpur_slots_copy *copy)
{
    const gpur_priorities *const p = &replay->priorities;
    if (!copy->turn)
        return GPUR_OK;
    GPUR_TRY(gpur_copy(stream, p->tree.turn, copy->turn, bytes_of(replay)));
    GPUR_TRY(gpur_copy(stream, p->slots, copy->slots, bytes_of(replay)));
    return gpur_stream_sync(stream);
}

void gpur_slots_copy_clear(const gpur_replay *replay, gpur_slots_copy *copy)
{
    for (int64_t slot = 0; copy->turn && slot < replay->config.capacity; slot++) {
        copy->turn[slot] += copy->turn[slot] % 2;
        copy->slots[slot] = slot;
    }
}

gpur_status gpur_slots_copy_add_sections(const gpur_replay *replay, const gpur_slots_copy *copy,
                                         gpur_sections *sections)
{
    const int64_t capacity = replay->config.capacity;
    const gpur_piece turn = {copy->turn, bytes_of(replay), 0}, slots = {copy->slots, bytes_of(replay), 0};
    if (!copy->turn)
        return GPUR_OK;
    GPUR_TRY(gpur_sections_add(sections, "turns", GPUR_I64, capacity, 0, turn));
    return gpur_sections_add(sections, "slots", GPUR_I64, capacity, 0, slots);
}

/* The sign of a turn marks its slot as found, until all is checked. */
static int waits_once(gpur_slots_copy *copy, int64_t slot)
{
    const int is_free = copy->turn[slot] >= 0 && copy->turn[slot] % 2 == 0;
    copy->turn[slot] = is_free ? ~copy->turn[slot] : copy->turn[slot];
    return is_free;
}

int gpur_slots_copy_is_valid(const gpur_replay *replay, const gpur_slots_copy *copy, int64_t first_id, int64_t rows)
{
    const int64_t capacity = replay->config.capacity;
    gpur_slots_copy marked = *copy;
    int64_t taken = 0;
    int is_valid = 1;
    if (!copy->turn)
        return 1;
    for (int64_t slot = 0; slot < capacity; slot++) {
        is_valid &= copy->turn[slot] >= 0 && copy->turn[slot] / 2 <= first_id;
        is_valid &= copy->slots[slot] >= 0 && copy->slots[slot] < capacity;
        taken += copy->turn[slot] % 2 == 1;
    }
    if (!is_valid || taken != rows)
        return 0;
    for (int64_t n = rows; n < capacity; n++)
        is_valid &= waits_once(&marked, copy->slots[(first_id + n) % capacity]);
    for (int64_t slot = 0; slot < capacity; slot++)
        copy->turn[slot] = copy->turn[slot] < 0 ? ~copy->turn[slot] : copy->turn[slot];
    return is_valid;
}
