/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: its counters and incarnations. Replay and learner have files of their own beside it. */
#include "run/apex/handle.h"
#include "run/folder.h"
#include "run/state_file.h"

#include <inttypes.h>

/* What the file has beside the core's. */
typedef struct apex_state {
    int64_t env_steps, train_steps;
    gpur_apex_counts counts;
    gpur_limiter limiter;
    int64_t rows;                    /* of gpur_folder_position */
    int64_t own_slots, remote_slots; /* of these arrays */

    /* (own_slots + 1) the next incarnation of each own actor, the last the evaluator's. (remote_slots, 2) of actors of
     * the caller: incarnation, number of the next block. */
    int64_t incarnations[GPUR_APEX_SLOTS], remotes[2 * GPUR_APEX_MAX_ACTORS];
} apex_state;

static void add_arrays(apex_state *state, gpur_state_table *table)
{
    gpur_state_add_array(table,
                         (gpur_state_array){"incarnations", GPUR_I64, state->own_slots + 1, 0, state->incarnations, 1});
    if (state->remote_slots > 0)
        gpur_state_add_array(table,
                             (gpur_state_array){"remote_actors", GPUR_I64, state->remote_slots, 2, state->remotes, 1});
}

/* When the counts of a file have been read. */
static gpur_status set_arrays(void *context, gpur_state_table *table)
{
    apex_state *const state = context;
    if (state->own_slots > GPUR_APEX_MAX_ACTORS || state->remote_slots > GPUR_APEX_MAX_ACTORS)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has %" PRId64 " actors and %" PRId64 " remote actors; there must be 0 to %d of both",
                         state->own_slots, state->remote_slots, GPUR_APEX_MAX_ACTORS);
    add_arrays(state, table);
    return GPUR_OK;
}

static void add_counts(apex_state *state, gpur_state_table *table)
{
    gpur_apex_counts *const c = &state->counts;
    gpur_state_add_count(table, "env_steps", GPUR_SCALAR_I64, &state->env_steps);
    gpur_state_add_count(table, "train_steps", GPUR_SCALAR_I64, &state->train_steps);
    gpur_state_add_count(table, "blocks", GPUR_SCALAR_I64, &c->blocks);
    gpur_state_add_count(table, "block_rows", GPUR_SCALAR_I64, &c->rows);
    gpur_state_add_count(table, "block_bytes", GPUR_SCALAR_I64, &c->bytes);
    gpur_state_add_count(table, "refused_blocks", GPUR_SCALAR_I64, &c->refused_blocks);
    gpur_state_add_count(table, "lost_blocks", GPUR_SCALAR_I64, &c->lost_blocks);
    gpur_state_add_count(table, "lost_rows", GPUR_SCALAR_I64, &c->lost_rows);
    gpur_state_add_count(table, "starts", GPUR_SCALAR_I64, &c->starts);
    gpur_state_add_count(table, "deaths", GPUR_SCALAR_I64, &c->deaths);
    gpur_state_add_count(table, "broadcasts", GPUR_SCALAR_I64, &c->broadcasts);
    gpur_state_add_count(table, "pulled", GPUR_SCALAR_I64, &c->pulled);
    gpur_state_add_count(table, "trims", GPUR_SCALAR_I64, &c->trims);
    gpur_state_add_count(table, "limiter_timeouts", GPUR_SCALAR_I64, &c->limiter_timeouts);
    gpur_state_add_count(table, "limiter_has_begun", GPUR_SCALAR_I32, &state->limiter.has_begun);
    gpur_state_add_count(table, "limiter_inserted", GPUR_SCALAR_I64, &state->limiter.inserted);
    gpur_state_add_count(table, "limiter_learned", GPUR_SCALAR_I64, &state->limiter.learned);
    gpur_state_add_count(table, "own_slots", GPUR_SCALAR_I64, &state->own_slots);
    gpur_state_add_count(table, "remote_slots", GPUR_SCALAR_I64, &state->remote_slots);
    gpur_state_add_count(table, "rows", GPUR_SCALAR_I64, &state->rows);
}

/* The number of actors and where they run may change. */
static gpur_state_table table_of(gpur_apex *apex, apex_state *state)
{
    gpur_state_table table = {.run = &apex->core, .kind = "Ape-X run", .device = apex->learner->device};
    add_counts(state, &table);
    return table;
}

/* Saving. */

static int64_t next_incarnation(const gpur_slot *slot)
{
    return slot->incarnation + slot->is_running;
}

/* Under set_lock, so that no slots are added. */
static void read_slots(gpur_apex *apex, apex_state *state)
{
    const gpur_slot_table *const own = &apex->tables[GPUR_SLOT_OWN], *const caller = &apex->tables[GPUR_SLOT_CALLER];
    state->own_slots = own->count;
    state->remote_slots = caller->count;
    gpur_mutex_lock(&apex->core.lock);
    for (int32_t i = 0; i < own->count; i++)
        state->incarnations[i] = next_incarnation(own->slots[i]);
    state->incarnations[own->count] = next_incarnation(apex->evaluator);
    for (int32_t i = 0; i < caller->count; i++) {
        state->remotes[2 * i] = caller->slots[i]->incarnation;
        state->remotes[2 * i + 1] = caller->slots[i]->next_sequence;
    }
    gpur_mutex_unlock(&apex->core.lock);
}

static gpur_status read_state(gpur_apex *apex, apex_state *state)
{
    gpur_run_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_run_get_stats(&apex->core, &stats));
    gpur_mutex_lock(&apex->core.lock);
    state->env_steps = apex->core.stats.env_steps;
    state->train_steps = apex->core.stats.train_steps;
    state->counts = apex->counts;
    state->limiter = apex->limiter;
    gpur_mutex_unlock(&apex->core.lock);
    state->counts.pulled = stats.apex.pulled;
    gpur_mutex_lock(&apex->set_lock);
    read_slots(apex, state);
    gpur_mutex_unlock(&apex->set_lock);
    return GPUR_OK;
}

gpur_status gpur_apex_save(gpur_run *core, const char *folder)
{
    gpur_apex *const apex = gpur_apex_of(core);
    apex_state state = {.env_steps = 0};
    gpur_folder_position position;
    gpur_state_table table = table_of(apex, &state);
    GPUR_TRY(gpur_folder_make(folder));
    GPUR_TRY(read_state(apex, &state));
    add_arrays(&state, &table);
    GPUR_TRY(gpur_folder_save(folder, apex->learner, &position));
    table.trained = position.trained, state.rows = position.rows;
    return gpur_state_write(&table, folder);
}

/* Loading. */

/* Sets the incarnations of own actors, also of those that the run has no longer. */
static gpur_status set_own_slots(gpur_apex *apex, const apex_state *state)
{
    gpur_slot *slot;
    gpur_status status = GPUR_OK;
    gpur_mutex_lock(&apex->set_lock);
    for (int32_t i = 0; i < state->own_slots && status == GPUR_OK; i++) {
        status = gpur_slot_find(apex, GPUR_SLOT_OWN, i, &slot);
        if (status == GPUR_OK)
            slot->incarnation = state->incarnations[i];
    }
    gpur_mutex_lock(&apex->core.lock);
    if (!apex->evaluator->is_running) /* it may have evaluated already */
        apex->evaluator->incarnation = state->incarnations[state->own_slots];
    gpur_mutex_unlock(&apex->core.lock);
    gpur_mutex_unlock(&apex->set_lock);
    return status;
}

/* Under the lock. Callers may bring blocks already. */
static void set_remote_slots(gpur_apex *apex, const apex_state *state)
{
    while (apex->receiving > 0)
        gpur_mutex_wait(&apex->core.lock);
    const gpur_slot_table *const table = &apex->tables[GPUR_SLOT_CALLER];
    for (int32_t i = 0; i < table->count && i < state->remote_slots; i++) {
        table->slots[i]->incarnation = state->remotes[2 * i];
        table->slots[i]->next_sequence = state->remotes[2 * i + 1];
    }
}

/* A replay that is filled again begins the limiter's counts anew. */
static void set_state(gpur_apex *apex, const apex_state *state, int64_t trained, int32_t refill)
{
    gpur_mutex_lock(&apex->core.lock);
    set_remote_slots(apex, state);
    apex->core.stats.env_steps = state->env_steps;
    apex->core.stats.train_steps = state->train_steps;
    apex->counts = state->counts;
    if (!refill) {
        apex->limiter.has_begun = state->limiter.has_begun != 0;
        apex->limiter.inserted = state->limiter.inserted;
        apex->limiter.learned = state->limiter.learned;
    }
    apex->base_steps = trained - state->train_steps;
    gpur_mutex_unlock(&apex->core.lock);
}

static gpur_status replace_all(gpur_apex *apex, const apex_state *state, const gpur_state_table *table,
                               const char *folder, int32_t refill)
{
    GPUR_TRY(gpur_folder_load(folder, apex->learner, refill));
    GPUR_TRY(set_own_slots(apex, state));
    gpur_state_restore(table);
    set_state(apex, state, table->trained, refill);
    return GPUR_OK;
}

gpur_status gpur_apex_load(gpur_run *core, const char *folder, int32_t refill)
{
    gpur_apex *const apex = gpur_apex_of(core);
    apex_state state = {.env_steps = 0};
    gpur_state_table table = table_of(apex, &state);
    GPUR_REQUIRE(!apex->has_begun, "the run has received %" PRId64 " steps; load before the first gpur_run_advance",
                 core->stats.env_steps);
    table.set_arrays = set_arrays, table.context = &state;
    GPUR_TRY(gpur_state_read(&table, folder));
    GPUR_TRY(gpur_folder_check(folder, &(gpur_folder_position){table.trained, state.rows}, refill));
    const gpur_status status = replace_all(apex, &state, &table, folder, refill);
    return status == GPUR_OK ? GPUR_OK : gpur_run_fail_loading(core, status);
}
