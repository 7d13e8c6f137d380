/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: its counters. The replay and the learner have files of their own beside it. */
#include "apex/apex.h"

#include "file/checkpoint_file.h"
#include "run/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A run's state in host memory, as it goes to the file and comes from it. */
typedef struct apex_state {
    gpur_apex_counts counts;
    gpur_limiter limiter;
    gpur_recent returns, evaluated;
    int64_t incarnations[GPUR_APEX_SLOTS]; /* the next one of each actor */
    int64_t remote_actors[GPUR_APEX_MAX_ACTORS]
                         [2]; /* that the caller brings: incarnation, and number of the next block */
    uint64_t env_options;     /* a checksum */
    int64_t trained, rows;    /* the numbers in the learner's file and in the replay's */
} apex_state;

static void read_state(gpur_apex *apex, apex_state *state)
{
    gpur_apex_stats stats = {.size = sizeof stats};
    (void)gpur_apex_get_stats(apex, &stats);
    gpur_mutex_lock(&apex->lock);
    state->counts = apex->counts;
    state->limiter = apex->limiter;
    state->returns = apex->returns;
    state->evaluated = apex->evaluated;
    for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++)
        state->incarnations[i] = apex->slots[i].incarnation + apex->slots[i].is_running;
    memset(state->remote_actors, 0, sizeof state->remote_actors);
    for (int32_t i = 0; i < apex->config.remote_actors; i++)
        state->remote_actors[i][0] = apex->remote_actors[i].incarnation,
        state->remote_actors[i][1] = apex->remote_actors[i].next_sequence;
    gpur_mutex_unlock(&apex->lock);
    state->counts.pulled = stats.pulled;
    state->env_options = gpur_options_checksum(apex->env_options);
}

static gpur_status add_state(apex_state *state, gpur_sections *sections)
{
    const gpur_piece incarnations = {state->incarnations, sizeof state->incarnations, 0};
    const gpur_piece returns = {state->returns.values, sizeof state->returns.values, 0};
    const gpur_piece evaluated = {state->evaluated.values, sizeof state->evaluated.values, 0};
    GPUR_TRY(gpur_sections_add(sections, "incarnations", GPUR_I64, GPUR_APEX_SLOTS, 0, incarnations));
    const gpur_piece remote_actors = {state->remote_actors, sizeof state->remote_actors, 0};
    GPUR_TRY(
        gpur_sections_add(sections, "remote_actors", GPUR_I64, 2 * (int64_t)GPUR_APEX_MAX_ACTORS, 0, remote_actors));
    GPUR_TRY(gpur_sections_add(sections, "returns", GPUR_I64, GPUR_APEX_RECENT, 0, returns));
    return gpur_sections_add(sections, "evaluated", GPUR_I64, GPUR_APEX_RECENT, 0, evaluated);
}

enum { COUNTS = 15, SCALARS = COUNTS + 8 };
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
        status = gpur_checkpoint_write(apex->learner.device, apex->learner.stream, &sections, &tensors, path, &options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

gpur_status gpur_apex_save(gpur_apex *apex, const char *folder)
{
    apex_state state;
    char path[GPUR_FOLDER_PATH];
    GPUR_REQUIRE(apex && folder, "apex and folder must not be NULL");
    GPUR_TRY(gpur_apex_check_open(apex));
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_folder_make(folder));
    read_state(apex, &state);
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    GPUR_TRY(gpur_replay_save(apex->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(gpur_apex_learner_save(&apex->learner, path));
    GPUR_TRY(gpur_folder_read_trained(folder, &state.trained));
    GPUR_TRY(gpur_folder_read_rows(folder, &state.rows));
    return write_file(apex, &state, folder);
}

/* Loading. */

/* Valid checksums do not make a file trustworthy: refuses numbers that no run can have. */
static gpur_status check_state(const gpur_apex *apex, const apex_state *state)
{
    const int64_t others[] = {state->limiter.has_begun,
                              state->limiter.inserted,
                              state->limiter.learned,
                              state->returns.count,
                              state->evaluated.count,
                              state->trained,
                              state->rows};
    enum { OTHERS = sizeof others / sizeof *others, REMOTE_ACTORS = sizeof state->remote_actors / sizeof(int64_t) };
    int64_t numbers[COUNTS + OTHERS + GPUR_APEX_SLOTS + REMOTE_ACTORS];
    memcpy(numbers, &state->counts, sizeof state->counts);
    memcpy(numbers + COUNTS, others, sizeof others);
    memcpy(numbers + COUNTS + OTHERS, state->incarnations, sizeof state->incarnations);
    memcpy(numbers + COUNTS + OTHERS + GPUR_APEX_SLOTS, state->remote_actors, sizeof state->remote_actors);
    if (state->env_options != gpur_options_checksum(apex->env_options))
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the file is of environments with other options than this run's, \"%.200s\"; they must be the "
                         "same",
                         apex->env_options);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", numbers[i]);
    return GPUR_OK;
}

static gpur_status read_file(gpur_apex *apex, apex_state *state, gpur_checkpoint *file, gpur_sections *sections,
                             gpur_tensors *settings)
{
    gpur_scalar scalars[SCALARS];
    gpur_checkpoint_options options;
    int touched = 0;
    list_scalars(state, scalars);
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(add_settings(apex, settings));
    GPUR_TRY(gpur_checkpoint_compare(file, "apex", "this run", settings, scalars, SCALARS));
    GPUR_TRY(add_state(state, sections));
    GPUR_TRY(gpur_checkpoint_match(file, sections, "this run", 1));
    GPUR_TRY(gpur_checkpoint_fill(file, apex->learner.device, apex->learner.stream, sections, &options, &touched));
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
    return gpur_apex_learner_load(&apex->learner, path);
}

/* A replay that is filled again begins the limiter's counts anew. */
static void set_state(gpur_apex *apex, const apex_state *state, int32_t refill)
{
    gpur_mutex_lock(&apex->receiving); /* remote actors may bring blocks already */
    gpur_mutex_lock(&apex->lock);
    apex->counts = state->counts;
    apex->returns = state->returns;
    apex->evaluated = state->evaluated;
    for (int32_t i = 0; i < GPUR_APEX_SLOTS; i++)
        apex->slots[i].incarnation = state->incarnations[i];
    for (int32_t i = 0; i < apex->config.remote_actors; i++)
        apex->remote_actors[i].incarnation = state->remote_actors[i][0],
        apex->remote_actors[i].next_sequence = state->remote_actors[i][1];
    if (!refill) {
        apex->limiter.has_begun = state->limiter.has_begun != 0;
        apex->limiter.inserted = state->limiter.inserted;
        apex->limiter.learned = state->limiter.learned;
    }
    apex->base_steps = state->trained - state->counts.train_steps;
    gpur_mutex_unlock(&apex->lock);
    gpur_mutex_unlock(&apex->receiving);
}

/* A run that is loaded in part has ended. */
static gpur_status replace_all(gpur_apex *apex, const apex_state *state, const char *folder, int32_t refill)
{
    char error[2 * GPUR_APEX_ERROR];
    const gpur_status status = load_files(apex, folder, refill);
    if (status == GPUR_OK) {
        set_state(apex, state, refill);
        return GPUR_OK;
    }
    snprintf(error, sizeof error, "%s; the run is loaded in part, and has ended", gpur_last_error());
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, error);
    gpur_mutex_unlock(&apex->lock);
    return gpur_fail(status, "%s", error);
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
    GPUR_TRY(read_run(apex, &state, folder));
    GPUR_TRY(check_files(&state, folder, refill));
    return replace_all(apex, &state, folder, refill);
}
