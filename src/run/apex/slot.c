/* SPDX-License-Identifier: MIT */
/* Slots of actors, and tables of them. */
#include "run/apex/handle.h"

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

gpur_status gpur_slot_find(gpur_apex *apex, gpur_slot_origin origin, int32_t actor, gpur_slot **slot)
{
    gpur_slot_table *const table = &apex->tables[origin];
    *slot = table->slots[actor];
    if (*slot)
        return GPUR_OK;
    GPUR_TRY(gpur_slot_create(apex, origin, actor, slot));
    gpur_mutex_lock(&apex->core.lock);
    table->slots[actor] = *slot;
    table->count = (int32_t)gpur_max(table->count, actor + 1);
    gpur_mutex_unlock(&apex->core.lock);
    return GPUR_OK;
}

void gpur_slot_table_close(gpur_slot_table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        gpur_slot_destroy(table->slots[i]);
}

gpur_status gpur_slot_open_writer(gpur_slot *slot)
{
    gpur_replay *const replay = slot->apex->replay;
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

void gpur_slot_add_event(const gpur_slot *slot, gpur_run_event event)
{
    gpur_run *const run = &slot->apex->core;
    event.env_index = slot->actor;
    event.incarnation = slot->incarnation;
    event.env_steps = run->stats.env_steps;
    event.train_steps = run->stats.train_steps;
    event.epsilon = slot->epsilon;
    gpur_run_add_event(run, event);
}
