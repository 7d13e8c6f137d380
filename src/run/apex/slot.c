/* SPDX-License-Identifier: MIT */
/* Slots of actors, and tables of slots that are as long as the largest number of an actor. */
#include "run/apex/slot.h"

#include "replay/view.h"

#include <stdlib.h>
#include <string.h>

gpur_status gpur_slot_create(gpur_apex *apex, gpur_slot_origin origin, int32_t actor, gpur_slot **slot)
{
    *slot = calloc(1, sizeof **slot);
    if (!*slot)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for actor %d", (int)actor);
    **slot = (gpur_slot){.apex = apex, .origin = origin, .actor = actor, .process = -1};
    return GPUR_OK;
}

void gpur_slot_destroy(gpur_slot *slot)
{
    if (!slot)
        return;
    gpur_writer_destroy(slot->writer);
    gpur_slot_forget_error(slot);
    free(slot);
}

gpur_status gpur_slot_open_writer(gpur_slot *slot, gpur_replay *replay)
{
    gpur_writer_config config;
    if (slot->writer)
        return GPUR_OK;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.link_appends = gpur_schema_has_previous(gpur_replay_schema(replay));
    return gpur_prefix_error(gpur_writer_open(replay, &config, &slot->writer), "actor %d", (int)slot->actor);
}

void gpur_slot_note_error(gpur_slot *slot, const char *error)
{
    if (!slot->error && error[0])
        slot->error = strdup(error); /* without memory the actor ends without a reason */
}

void gpur_slot_forget_error(gpur_slot *slot)
{
    free(slot->error);
    slot->error = NULL;
}

/* Puts a slot into the table, whose array becomes longer if it must. */
static gpur_status put(gpur_slot_table *table, gpur_mutex *lock, gpur_slot *slot)
{
    const int32_t count = table->count > slot->actor ? table->count : slot->actor + 1;
    gpur_slot **const before = table->slots;
    gpur_slot **const slots = count > table->count ? calloc((size_t)count, sizeof(gpur_slot *)) : before;
    if (!slots)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d actors", (int)count);
    gpur_mutex_lock(lock);
    for (int32_t i = 0; i < table->count; i++)
        slots[i] = before[i];
    slots[slot->actor] = slot;
    table->slots = slots;
    table->count = count;
    gpur_mutex_unlock(lock);
    if (slots != before)
        free(before);
    return GPUR_OK;
}

gpur_status gpur_slot_table_find(gpur_slot_table *table, gpur_mutex *lock, gpur_apex *apex, gpur_slot_origin origin,
                                 int32_t actor, gpur_slot **slot)
{
    *slot = actor < table->count ? table->slots[actor] : NULL;
    if (*slot)
        return GPUR_OK;
    GPUR_TRY(gpur_slot_create(apex, origin, actor, slot));
    const gpur_status status = put(table, lock, *slot);
    if (status != GPUR_OK)
        gpur_slot_destroy(*slot);
    return status;
}

void gpur_slot_table_close(gpur_slot_table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        gpur_slot_destroy(table->slots[i]);
    free(table->slots);
    *table = (gpur_slot_table){0};
}
