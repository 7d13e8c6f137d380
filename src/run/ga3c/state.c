/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: its counters. The learner has a file of its own beside it. */
#include "run/ga3c/ga3c.h"

#include "file/checkpoint_file.h"
#include "run/folder.h"

#include <inttypes.h>
#include <string.h>

/* A run's state in host memory, as it goes to the file and comes from it. */
typedef struct run_state {
    gpur_ga3c_counts counts;
    gpur_ga3c_returns returns;
    gpur_ga3c_numbers numbers;
    int64_t incarnations[GPUR_GA3C_MAX_AGENTS], steps[GPUR_GA3C_MAX_AGENTS]; /* of each slot */
    int64_t eval_steps, eval_games;
    uint64_t env_options; /* a checksum */
    int64_t trained;      /* the number in the learner's file */
} run_state;

static void read_state(gpur_ga3c *run, run_state *state)
{
    gpur_mutex_lock(&run->lock);
    state->counts = run->counts;
    state->returns = run->returns;
    /* Numbers on trial are not saved: the run that goes on would begin with them, and accept them. */
    state->numbers = run->tuner.accepted.agents > 0 ? run->tuner.accepted : run->numbers;
    for (int32_t i = 0; i < GPUR_GA3C_MAX_AGENTS; i++) {
        state->incarnations[i] = run->slots[i].incarnation;
        state->steps[i] = (int64_t)run->slots[i].steps;
    }
    gpur_mutex_unlock(&run->lock);
    state->eval_steps = (int64_t)run->eval_steps;
    state->eval_games = run->eval_games;
    state->env_options = gpur_options_checksum(run->env_options);
    state->trained = run->model.steps(run->model.context);
}

static gpur_status add_state(run_state *state, gpur_sections *sections)
{
    const gpur_piece lags = {state->counts.lags, sizeof state->counts.lags, 0};
    const gpur_piece returns = {state->returns.values, sizeof state->returns.values, 0};
    const gpur_piece incarnations = {state->incarnations, sizeof state->incarnations, 0};
    const gpur_piece steps = {state->steps, sizeof state->steps, 0};
    GPUR_TRY(gpur_sections_add(sections, "lags", GPUR_I64, GPUR_GA3C_LAGS, 0, lags));
    GPUR_TRY(gpur_sections_add(sections, "returns", GPUR_I64, GPUR_GA3C_RECENT, 0, returns));
    GPUR_TRY(gpur_sections_add(sections, "incarnations", GPUR_I64, GPUR_GA3C_MAX_AGENTS, 0, incarnations));
    return gpur_sections_add(sections, "steps", GPUR_I64, GPUR_GA3C_MAX_AGENTS, 0, steps);
}

enum { COUNTS = 13, SCALARS = COUNTS + 8 };
_Static_assert(sizeof(gpur_ga3c_counts) == (COUNTS + GPUR_GA3C_LAGS) * sizeof(int64_t), "each count is in the file");

/* The numbers in the file's notes. */
static void list_scalars(run_state *state, gpur_scalar scalars[SCALARS])
{
    gpur_ga3c_counts *const c = &state->counts;
    const gpur_scalar all[SCALARS] = {
        {"env_steps", GPUR_SCALAR_I64, &c->steps},
        {"episodes", GPUR_SCALAR_I64, &c->episodes},
        {"predictions", GPUR_SCALAR_I64, &c->predictions},
        {"prediction_batches", GPUR_SCALAR_I64, &c->prediction_batches},
        {"train_steps", GPUR_SCALAR_I64, &c->train_steps},
        {"trained_rows", GPUR_SCALAR_I64, &c->trained_rows},
        {"training_batches", GPUR_SCALAR_I64, &c->training_batches},
        {"refused_rollouts", GPUR_SCALAR_I64, &c->refused_rollouts},
        {"overwritten_rollouts", GPUR_SCALAR_I64, &c->overwritten_rollouts},
        {"left_rollouts", GPUR_SCALAR_I64, &c->left_rollouts},
        {"dropped_rows", GPUR_SCALAR_I64, &c->dropped_rows},
        {"largest_lag", GPUR_SCALAR_I64, &c->largest_lag},
        {"lag_sum", GPUR_SCALAR_I64, &c->lag_sum},
        {"agents", GPUR_SCALAR_I32, &state->numbers.agents},
        {"predictors", GPUR_SCALAR_I32, &state->numbers.predictors},
        {"trainers", GPUR_SCALAR_I32, &state->numbers.trainers},
        {"returns", GPUR_SCALAR_I64, &state->returns.count},
        {"eval_steps", GPUR_SCALAR_I64, &state->eval_steps},
        {"eval_games", GPUR_SCALAR_I64, &state->eval_games},
        {"env_options", GPUR_SCALAR_U64, &state->env_options},
        {"trained", GPUR_SCALAR_I64, &state->trained},
    };
    memcpy(scalars, all, sizeof all);
}

/* Settings that must match: those that say what is learnt. The numbers of threads, and how rollouts are queued and
 * joined, may change. */
static gpur_status add_settings(const gpur_ga3c *run, gpur_tensors *settings)
{
    const gpur_ga3c_config *const c = &run->config;
    GPUR_TRY(gpur_tensors_add_metadata(settings, "environment", "%.180s", run->type->name));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "system", "%d", (int)c->system));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "t_max", "%d", (int)c->t_max));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "discount", "%.9g", (double)c->discount));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "reward_clip", "%.9g", (double)c->reward_clip));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "drop_terminal", "%d", (int)c->drop_terminal));
    return gpur_tensors_add_metadata(settings, "seed", "%" PRIu64, c->seed);
}

static gpur_status write_sections(gpur_ga3c *run, run_state *state, gpur_stream *stream, const char *path)
{
    gpur_sections sections = {0};
    gpur_tensors tensors = {0};
    gpur_checkpoint_options options;
    gpur_scalar scalars[SCALARS];
    list_scalars(state, scalars);
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    gpur_status status = gpur_checkpoint_add_kind(&tensors, "ga3c");
    if (status == GPUR_OK)
        status = add_settings(run, &tensors);
    if (status == GPUR_OK)
        status = gpur_scalars_write(&tensors, scalars, SCALARS);
    if (status == GPUR_OK)
        status = add_state(state, &sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_write(run->model.device, stream, &sections, &tensors, path, &options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

static gpur_status write_file(gpur_ga3c *run, run_state *state, const char *folder)
{
    char path[GPUR_FOLDER_PATH];
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_folder_path(folder, "ga3c.safetensors", path));
    GPUR_TRY(gpur_stream_create(run->model.device, &stream));
    const gpur_status status = write_sections(run, state, stream, path);
    gpur_stream_destroy(stream);
    return status;
}

gpur_status gpur_ga3c_save(gpur_ga3c *run, const char *folder)
{
    run_state state;
    char path[GPUR_FOLDER_PATH];
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_ga3c_check_open(run));
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_folder_make(folder));
    read_state(run, &state);
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(run->model.save(run->model.context, path));
    return write_file(run, &state, folder);
}

/* Loading. */

static gpur_status check_count(int64_t count)
{
    if (count < 0 || count > INT64_MAX / 4)
        return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", count);
    return GPUR_OK;
}

/* Valid checksums do not make a file trustworthy: refuses numbers that no run can have. */
static gpur_status check_state(const gpur_ga3c *run, const run_state *state)
{
    const int64_t others[] = {state->returns.count, state->eval_steps, state->eval_games, state->trained};
    int64_t counts[sizeof state->counts / sizeof(int64_t)];
    memcpy(counts, &state->counts, sizeof counts);
    if (state->env_options != gpur_options_checksum(run->env_options))
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the file is of environments with other options than this run's, \"%.200s\"; they must be the "
                         "same",
                         run->env_options);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        GPUR_TRY(check_count(counts[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        GPUR_TRY(check_count(others[i]));
    for (int32_t i = 0; i < GPUR_GA3C_MAX_AGENTS; i++) {
        GPUR_TRY(check_count(state->incarnations[i]));
        GPUR_TRY(check_count(state->steps[i]));
    }
    return gpur_ga3c_check_numbers(run, state->numbers);
}

static gpur_status fill(gpur_ga3c *run, gpur_checkpoint *file, gpur_sections *sections)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    int touched = 0;
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(gpur_stream_create(run->model.device, &stream));
    const gpur_status status = gpur_checkpoint_fill(file, run->model.device, stream, sections, &options, &touched);
    gpur_stream_destroy(stream);
    return status;
}

static gpur_status read_sections(gpur_ga3c *run, run_state *state, gpur_checkpoint *file, gpur_sections *sections,
                                 gpur_tensors *settings)
{
    gpur_scalar scalars[SCALARS];
    list_scalars(state, scalars);
    GPUR_TRY(add_settings(run, settings));
    GPUR_TRY(gpur_checkpoint_compare(file, "ga3c", "this run", settings, scalars, SCALARS));
    GPUR_TRY(add_state(state, sections));
    GPUR_TRY(gpur_checkpoint_match(file, sections, "this run", 1));
    GPUR_TRY(fill(run, file, sections));
    return gpur_checkpoint_add_path_to_error(file, check_state(run, state));
}

static gpur_status read_file(gpur_ga3c *run, run_state *state, const char *folder)
{
    gpur_checkpoint file;
    gpur_sections sections = {0};
    gpur_tensors settings = {0};
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, "ga3c.safetensors", path));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_status status = read_sections(run, state, &file, &sections, &settings);
    gpur_sections_free(&sections);
    gpur_tensors_free(&settings);
    gpur_checkpoint_close(&file);
    return status;
}

static void set_state(gpur_ga3c *run, const run_state *state)
{
    gpur_mutex_lock(&run->lock);
    run->counts = state->counts;
    run->returns = state->returns;
    run->numbers = run->largest = state->numbers;
    for (int32_t i = 0; i < GPUR_GA3C_MAX_AGENTS; i++) {
        run->slots[i].incarnation = state->incarnations[i];
        run->slots[i].steps = (uint64_t)state->steps[i];
    }
    gpur_mutex_unlock(&run->lock);
    run->eval_steps = (uint64_t)state->eval_steps;
    run->eval_games = state->eval_games;
}

gpur_status gpur_ga3c_load(gpur_ga3c *run, const char *folder)
{
    char path[GPUR_FOLDER_PATH];
    run_state state = {0};
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_ga3c_check_open(run));
    GPUR_REQUIRE(!run->has_begun, "the run has taken %" PRId64 " steps; load before the first gpur_ga3c_advance",
                 run->counts.steps);
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(read_file(run, &state, folder));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(run->model.load(run->model.context, path, state.trained));
    set_state(run, &state);
    return GPUR_OK;
}
