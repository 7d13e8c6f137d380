/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: its counters. The replay and the learner have files of their own beside it. */
#include "file/checkpoint_file.h"
#include "run/apex/handle.h"
#include "run/apex/transport/callbacks.h"
#include "run/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run's state in host memory, as it goes to the file and comes from it. */
typedef struct apex_state {
    gpur_apex_counts counts;
    gpur_limiter limiter;
    gpur_recent returns, evaluated;
    int64_t own_slots, remote_slots; /* of these arrays */
    int64_t *incarnations;           /* (own_slots + 1) the next one of each own actor, the last the evaluator's */
    int64_t *remotes;      /* (remote_slots, 2) of actors of the caller: incarnation, number of the next block */
    uint64_t env_options;  /* a checksum */
    int64_t trained, rows; /* the numbers in the learner's file and in the replay's */
} apex_state;

static gpur_status alloc_arrays(apex_state *state)
{
    state->incarnations = calloc((size_t)state->own_slots + 1, sizeof *state->incarnations);
    state->remotes = calloc(2 * (size_t)state->remote_slots + 1, sizeof *state->remotes);
    if (!state->incarnations || !state->remotes)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the state of %" PRId64 " actors",
                         state->own_slots + state->remote_slots);
    return GPUR_OK;
}

static void free_arrays(apex_state *state)
{
    free(state->incarnations);
    free(state->remotes);
}

static int64_t next_incarnation(const gpur_slot *slot)
{
    return slot->incarnation + slot->is_running;
}

/* Under set_lock, so that no slots are added. */
static gpur_status read_slots(gpur_apex *apex, apex_state *state)
{
    const gpur_slot_table *const own = &apex->tables[GPUR_SLOT_OWN], *const caller = &apex->tables[GPUR_SLOT_CALLER];
    state->own_slots = own->count;
    state->remote_slots = caller->count;
    GPUR_TRY(alloc_arrays(state));
    gpur_mutex_lock(&apex->lock);
    for (int32_t i = 0; i < own->count; i++)
        state->incarnations[i] = next_incarnation(own->slots[i]);
    state->incarnations[own->count] = next_incarnation(apex->evaluator);
    for (int32_t i = 0; i < caller->count; i++) {
        state->remotes[2 * i] = caller->slots[i]->incarnation;
        state->remotes[2 * i + 1] = caller->slots[i]->next_sequence;
    }
    gpur_mutex_unlock(&apex->lock);
    return GPUR_OK;
}

static gpur_status read_state(gpur_apex *apex, apex_state *state)
{
    gpur_apex_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_apex_get_stats(apex, &stats));
    gpur_mutex_lock(&apex->lock);
    state->counts = apex->counts;
    state->limiter = apex->limiter;
    state->returns = apex->returns;
    state->evaluated = apex->evaluated;
    gpur_mutex_unlock(&apex->lock);
    state->counts.pulled = stats.pulled;
    state->env_options = gpur_options_checksum(apex->env_options);
    gpur_mutex_lock(&apex->set_lock);
    const gpur_status status = read_slots(apex, state);
    gpur_mutex_unlock(&apex->set_lock);
    return status;
}

static gpur_status add_array(gpur_sections *sections, const char *name, void *memory, int64_t count)
{
    const gpur_piece piece = {memory, count * (int64_t)sizeof(int64_t), 0};
    return count > 0 ? gpur_sections_add(sections, name, GPUR_I64, count, 0, piece) : GPUR_OK;
}

static gpur_status add_state(apex_state *state, gpur_sections *sections)
{
    GPUR_TRY(add_array(sections, "incarnations", state->incarnations, state->own_slots + 1));
    GPUR_TRY(add_array(sections, "remote_actors", state->remotes, 2 * state->remote_slots));
    GPUR_TRY(add_array(sections, "returns", state->returns.values, GPUR_APEX_RECENT));
    return add_array(sections, "evaluated", state->evaluated.values, GPUR_APEX_RECENT);
}

enum { COUNTS = 15, SCALARS = COUNTS + 10 };
_Static_assert(sizeof(gpur_apex_counts) == COUNTS * sizeof(int64_t), "each count is in the file");

/* The numbers in the file's notes. */
static void list_scalars(apex_state *state, gpur_scalar scalars[SCALARS])
{
    gpur_apex_counts *const c = &state->counts;
    const gpur_scalar all[SCALARS] = {
        {"env_steps", GPUR_SCALAR_I64, &c->env_steps},
        {"episodes", GPUR_SCALAR_I64, &c->episodes},
        {"train_steps", GPUR_SCALAR_I64, &c->train_steps},
        {"blocks", GPUR_SCALAR_I64, &c->blocks},
        {"block_rows", GPUR_SCALAR_I64, &c->rows},
        {"block_bytes", GPUR_SCALAR_I64, &c->bytes},
        {"refused_blocks", GPUR_SCALAR_I64, &c->refused_blocks},
        {"lost_blocks", GPUR_SCALAR_I64, &c->lost_blocks},
        {"lost_rows", GPUR_SCALAR_I64, &c->lost_rows},
        {"starts", GPUR_SCALAR_I64, &c->starts},
        {"deaths", GPUR_SCALAR_I64, &c->deaths},
        {"broadcasts", GPUR_SCALAR_I64, &c->broadcasts},
        {"pulled", GPUR_SCALAR_I64, &c->pulled},
        {"trims", GPUR_SCALAR_I64, &c->trims},
        {"limiter_timeouts", GPUR_SCALAR_I64, &c->limiter_timeouts},
        {"limiter_has_begun", GPUR_SCALAR_I32, &state->limiter.has_begun},
        {"limiter_inserted", GPUR_SCALAR_I64, &state->limiter.inserted},
        {"limiter_learned", GPUR_SCALAR_I64, &state->limiter.learned},
        {"returns", GPUR_SCALAR_I64, &state->returns.count},
        {"evaluated", GPUR_SCALAR_I64, &state->evaluated.count},
        {"own_slots", GPUR_SCALAR_I64, &state->own_slots},
        {"remote_slots", GPUR_SCALAR_I64, &state->remote_slots},
        {"env_options", GPUR_SCALAR_U64, &state->env_options},
        {"trained", GPUR_SCALAR_I64, &state->trained},
        {"rows", GPUR_SCALAR_I64, &state->rows},
    };
    memcpy(scalars, all, sizeof all);
}

/* Settings that must match. The number of actors and where they run may change. */
static gpur_status add_settings(const gpur_apex *apex, gpur_tensors *settings)
{
    GPUR_TRY(gpur_tensors_add_metadata(settings, "environment", "%.180s", apex->type->name));
    return gpur_tensors_add_metadata(settings, "seed", "%" PRIu64, apex->config.seed);
}

static gpur_status write_file(gpur_apex *apex, apex_state *state, const char *folder)
{
    gpur_sections sections = {0};
    gpur_tensors tensors = {0};
    gpur_checkpoint_options options;
    char path[GPUR_FOLDER_PATH];
    gpur_scalar scalars[SCALARS];
    list_scalars(state, scalars);
    GPUR_TRY(gpur_folder_path(folder, "apex.safetensors", path));
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    gpur_status status = gpur_checkpoint_add_kind(&tensors, "apex");
    if (status == GPUR_OK)
        status = add_settings(apex, &tensors);
    if (status == GPUR_OK)
        status = gpur_scalars_write(&tensors, scalars, SCALARS);
    if (status == GPUR_OK)
        status = add_state(state, &sections);
    if (status == GPUR_OK)
        status =
            gpur_checkpoint_write(apex->learner->device, apex->learner->stream, &sections, &tensors, path, &options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

static gpur_status save(gpur_apex *apex, apex_state *state, const char *folder)
{
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(read_state(apex, state));
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    GPUR_TRY(gpur_replay_save(apex->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(gpur_learner_save(apex->learner, path, NULL));
    GPUR_TRY(gpur_folder_read_trained(folder, &state->trained));
    GPUR_TRY(gpur_folder_read_rows(folder, &state->rows));
    return write_file(apex, state, folder);
}

gpur_status gpur_apex_save(gpur_apex *apex, const char *folder)
{
    apex_state state = {0};
    GPUR_REQUIRE(apex && folder, "apex and folder must not be NULL");
    GPUR_TRY(gpur_apex_check_open(apex));
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_folder_make(folder));
    const gpur_status status = save(apex, &state, folder);
    free_arrays(&state);
    return status;
}

/* Loading. */

/* Valid checksums do not make a file trustworthy: refuses numbers that no run can have. */
static gpur_status check_numbers(const int64_t *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", numbers[i]);
    return GPUR_OK;
}

static gpur_status check_slots(const apex_state *state)
{
    if (state->own_slots < 0 || state->own_slots > GPUR_APEX_MAX_ACTORS || state->remote_slots < 0 ||
        state->remote_slots > GPUR_APEX_MAX_ACTORS)
        return gpur_fail(GPUR_FILE_ERROR,
                         "the file has %" PRId64 " actors and %" PRId64 " remote actors; there must be 0 to %d of both",
                         state->own_slots, state->remote_slots, GPUR_APEX_MAX_ACTORS);
    return GPUR_OK;
}

static gpur_status check_state(const gpur_apex *apex, const apex_state *state)
{
    const int64_t others[] = {state->limiter.has_begun,
                              state->limiter.inserted,
                              state->limiter.learned,
                              state->returns.count,
                              state->evaluated.count,
                              state->trained,
                              state->rows};
    int64_t counts[COUNTS];
    memcpy(counts, &state->counts, sizeof counts);
    if (state->env_options != gpur_options_checksum(apex->env_options))
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the file is of environments with other options than this run's, \"%.200s\"; they must be the "
                         "same",
                         apex->env_options);
    GPUR_TRY(check_numbers(counts, COUNTS));
    GPUR_TRY(check_numbers(others, sizeof others / sizeof *others));
    GPUR_TRY(check_numbers(state->incarnations, state->own_slots + 1));
    return check_numbers(state->remotes, 2 * state->remote_slots);
}

static gpur_status read_arrays(gpur_apex *apex, apex_state *state, gpur_checkpoint *file, gpur_sections *sections)
{
    gpur_checkpoint_options options;
    int touched = 0;
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(alloc_arrays(state));
    GPUR_TRY(add_state(state, sections));
    GPUR_TRY(gpur_checkpoint_match(file, sections, "this run", 1));
    return gpur_checkpoint_fill(file, apex->learner->device, apex->learner->stream, sections, &options, &touched);
}

static gpur_status read_file(gpur_apex *apex, apex_state *state, gpur_checkpoint *file, gpur_sections *sections,
                             gpur_tensors *settings)
{
    gpur_scalar scalars[SCALARS];
    list_scalars(state, scalars);
    GPUR_TRY(add_settings(apex, settings));
    GPUR_TRY(gpur_checkpoint_compare(file, "apex", "this run", settings, scalars, SCALARS));
    GPUR_TRY(gpur_checkpoint_add_path_to_error(file, check_slots(state)));
    GPUR_TRY(read_arrays(apex, state, file, sections));
    return gpur_checkpoint_add_path_to_error(file, check_state(apex, state));
}

static gpur_status read_run(gpur_apex *apex, apex_state *state, const char *folder)
{
    gpur_checkpoint file;
    gpur_sections sections = {0};
    gpur_tensors settings = {0};
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, "apex.safetensors", path));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_status status = read_file(apex, state, &file, &sections, &settings);
    gpur_sections_free(&sections);
    gpur_tensors_free(&settings);
    gpur_checkpoint_close(&file);
    return status;
}

/* The files are replaced one after another, so a save that was interrupted leaves some of an older one. */
static gpur_status check_files(const apex_state *state, const char *folder, int32_t refill)
{
    int64_t trained, rows = state->rows;
    GPUR_TRY(gpur_folder_read_trained(folder, &trained));
    if (!refill)
        GPUR_TRY(gpur_folder_read_rows(folder, &rows));
    if (trained != state->trained || rows != state->rows)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s: apex.safetensors was saved after %" PRId64 " train steps and %" PRId64
                         " transitions, and the files beside it after %" PRId64 " and %" PRId64
                         ": they are of different saves, of which one was not finished",
                         folder, state->trained, state->rows, trained, rows);
    return GPUR_OK;
}

static gpur_status load_files(gpur_apex *apex, const char *folder, int32_t refill)
{
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    if (!refill)
        GPUR_TRY(gpur_replay_load(apex->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    return gpur_learner_load(apex->learner, path, NULL);
}

/* Of each own actor, also of those that the run has no longer. Under set_lock. */
static gpur_status set_own_slots(gpur_apex *apex, const apex_state *state)
{
    gpur_slot *slot;
    for (int32_t i = 0; i < state->own_slots; i++) {
        GPUR_TRY(gpur_slot_table_find(&apex->tables[GPUR_SLOT_OWN], &apex->lock, apex, GPUR_SLOT_OWN, i, &slot));
        slot->incarnation = state->incarnations[i];
    }
    apex->evaluator->incarnation = state->incarnations[state->own_slots];
    return GPUR_OK;
}

/* Under the lock. Callers may bring blocks already. */
static void set_remote_slots(gpur_apex *apex, const apex_state *state)
{
    gpur_callbacks_wait(apex);
    const gpur_slot_table *const table = &apex->tables[GPUR_SLOT_CALLER];
    for (int32_t i = 0; i < table->count && i < state->remote_slots; i++) {
        table->slots[i]->incarnation = state->remotes[2 * i];
        table->slots[i]->next_sequence = state->remotes[2 * i + 1];
    }
}

/* A replay that is filled again begins the limiter's counts anew. */
static gpur_status set_state(gpur_apex *apex, const apex_state *state, int32_t refill)
{
    gpur_mutex_lock(&apex->set_lock);
    const gpur_status status = set_own_slots(apex, state);
    gpur_mutex_unlock(&apex->set_lock);
    GPUR_TRY(status);
    gpur_mutex_lock(&apex->lock);
    set_remote_slots(apex, state);
    apex->counts = state->counts;
    apex->returns = state->returns;
    apex->evaluated = state->evaluated;
    if (!refill) {
        apex->limiter.has_begun = state->limiter.has_begun != 0;
        apex->limiter.inserted = state->limiter.inserted;
        apex->limiter.learned = state->limiter.learned;
    }
    apex->base_steps = state->trained - state->counts.train_steps;
    gpur_mutex_unlock(&apex->lock);
    return GPUR_OK;
}

/* A run that is loaded in part has ended. */
static gpur_status replace_all(gpur_apex *apex, const apex_state *state, const char *folder, int32_t refill)
{
    char error[2 * GPUR_APEX_ERROR];
    gpur_status status = load_files(apex, folder, refill);
    if (status == GPUR_OK)
        status = set_state(apex, state, refill);
    if (status == GPUR_OK)
        return GPUR_OK;
    snprintf(error, sizeof error, "%s; the run is loaded in part, and has ended", gpur_last_error());
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, error);
    gpur_mutex_unlock(&apex->lock);
    return gpur_fail(status, "%s", error);
}

static gpur_status load(gpur_apex *apex, apex_state *state, const char *folder, int32_t refill)
{
    GPUR_TRY(read_run(apex, state, folder));
    GPUR_TRY(check_files(state, folder, refill));
    return replace_all(apex, state, folder, refill);
}

gpur_status gpur_apex_load(gpur_apex *apex, const char *folder, int32_t refill)
{
    apex_state state = {0};
    GPUR_REQUIRE(apex && folder, "apex and folder must not be NULL");
    GPUR_REQUIRE(refill == 0 || refill == 1, "refill is %d; it must be 0 or 1", (int)refill);
    GPUR_TRY(gpur_apex_check_open(apex));
    GPUR_REQUIRE(!apex->has_begun, "the run has received %" PRId64 " steps; load before the first gpur_apex_advance",
                 apex->counts.env_steps);
    GPUR_TRY(gpur_tensors_available());
    const gpur_status status = load(apex, &state, folder, refill);
    free_arrays(&state);
    return status;
}
