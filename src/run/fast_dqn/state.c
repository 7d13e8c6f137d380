/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: the slots' observations, logs and environments, and the counters. The replay and the learner
 * have files of their own beside it. */
#include "run/fast_dqn/fast_dqn.h"

#include "file/checkpoint_file.h"
#include "learn/learner.h"
#include "replay/view.h"
#include "run/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a slot, or the evaluation, has beside arrays; in the file rows of int64. */
typedef struct slot_state {
    uint64_t steps;
    double episode_return; /* of the evaluation: the mean of the last one */
    int64_t episode_length, logged;
} slot_state;
enum { SLOT_NUMBERS = sizeof(slot_state) / sizeof(int64_t) };

/* A run's state in host memory, as it goes to the file and comes from it. */
typedef struct run_state {
    gpur_run *run;
    int32_t runners;     /* slots, and the evaluation if there is one */
    int64_t log_entries; /* of all slots */
    unsigned char *memory;
    size_t bytes;
    slot_state *slots;                        /* (runners) */
    double *recent;                           /* (GPUR_RECENT_EPISODES) */
    unsigned char *obs, *frames, *envs, *log; /* (runners, ...), (log_entries, entry_bytes) */
    int64_t step, prepopulated, episodes, train_steps, evaluations;
    uint64_t env_options;  /* a checksum */
    int64_t trained, rows; /* the numbers in the learner's file and in the replay's: see gpur_folder_read_trained */
} run_state;

static int64_t entry_bytes(const gpur_run *run)
{
    return run->slots[0].log.entry_bytes;
}

static gpur_env_runner *runner_of(const run_state *state, int32_t i)
{
    gpur_run *const run = state->run;
    return i < run->shape.envs ? &run->slots[i].runner : &run->evaluator.runner;
}

static gpur_status alloc_state(run_state *state, gpur_run *run, int64_t log_entries)
{
    const int64_t obs = gpur_obs_bytes(&run->obs_shape), frame = run->obs_shape.frame_bytes;
    const int64_t save = run->info.save_bytes, runners = run->shape.envs + (run->evaluator.runner.env != NULL);
    const int64_t sizes[] = {runners * (int64_t)sizeof *state->slots,
                             GPUR_RECENT_EPISODES * (int64_t)sizeof *state->recent,
                             log_entries * entry_bytes(run),
                             runners * save,
                             runners * obs,
                             runners * frame};
    int64_t at[sizeof sizes / sizeof *sizes], bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        at[i] = bytes;
        bytes += (sizes[i] + 7) / 8 * 8;
    }
    state->run = run;
    state->runners = (int32_t)runners;
    state->log_entries = log_entries;
    state->bytes = (size_t)bytes;
    state->memory = calloc(1, state->bytes);
    if (!state->memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of a run's state", bytes);
    state->slots = (void *)(state->memory + at[0]);
    state->recent = (void *)(state->memory + at[1]);
    state->log = state->memory + at[2];
    state->envs = state->memory + at[3];
    state->obs = state->memory + at[4];
    state->frames = state->memory + at[5];
    return GPUR_OK;
}

static int64_t count_logged(const gpur_run *run)
{
    int64_t logged = 0;
    for (int32_t i = 0; i < run->shape.envs; i++)
        logged += run->slots[i].log.count;
    return logged;
}

static gpur_status read_runner(run_state *state, int32_t i)
{
    gpur_run *const run = state->run;
    const gpur_env_runner *const runner = runner_of(state, i);
    const int64_t obs = gpur_obs_bytes(&run->obs_shape), frame = run->obs_shape.frame_bytes;
    memcpy(state->obs + i * obs, runner->obs, (size_t)obs);
    memcpy(state->frames + i * frame, runner->frame, (size_t)frame);
    if (run->info.save_bytes == 0)
        return GPUR_OK;
    return gpur_prefix_error(gpur_env_error(runner->type->save(runner->env, state->envs + i * run->info.save_bytes)),
                             "the environment could not be saved");
}

static gpur_status read_state(run_state *state)
{
    gpur_run *const run = state->run;
    unsigned char *log = state->log;
    for (int32_t i = 0; i < run->shape.envs; i++) {
        const gpur_env_slot *const slot = &run->slots[i];
        state->slots[i] = (slot_state){slot->steps, slot->episode_return, slot->episode_length, slot->log.count};
        memcpy(log, slot->log.entries, (size_t)(slot->log.count * entry_bytes(run)));
        log += slot->log.count * entry_bytes(run);
    }
    if (state->runners > run->shape.envs)
        state->slots[run->shape.envs] =
            (slot_state){.steps = run->evaluator.steps, .episode_return = run->evaluated_return};
    for (int32_t i = 0; i < state->runners; i++)
        GPUR_TRY(read_runner(state, i));
    memcpy(state->recent, run->recent, sizeof run->recent);
    state->step = run->step;
    state->prepopulated = run->prepopulated;
    state->episodes = run->episodes;
    state->train_steps = run->train_steps;
    state->evaluations = run->evaluator.reported;
    state->env_options = gpur_options_checksum(run->config.env_options);
    return GPUR_OK;
}

static gpur_status add_bytes(gpur_sections *sections, const char *name, int64_t rows, int64_t columns, void *memory)
{
    const gpur_piece piece = {memory, rows * columns, 0};
    return columns > 0 ? gpur_sections_add(sections, name, GPUR_U8, rows, columns, piece) : GPUR_OK;
}

static gpur_status add_state(const run_state *state, gpur_sections *sections)
{
    const gpur_run *const run = state->run;
    const int64_t runners = state->runners;
    const gpur_piece slots = {state->slots, runners * (int64_t)sizeof *state->slots, 0};
    const gpur_piece recent = {state->recent, (int64_t)sizeof run->recent, 0};
    GPUR_TRY(gpur_sections_add(sections, "slots", GPUR_I64, runners, SLOT_NUMBERS, slots));
    GPUR_TRY(gpur_sections_add(sections, "recent", GPUR_I64, GPUR_RECENT_EPISODES, 0, recent));
    GPUR_TRY(add_bytes(sections, "log", state->log_entries, entry_bytes(run), state->log));
    GPUR_TRY(add_bytes(sections, "environments", runners, run->info.save_bytes, state->envs));
    GPUR_TRY(add_bytes(sections, "obs", runners, gpur_obs_bytes(&run->obs_shape), state->obs));
    return add_bytes(sections, "frames", runners, run->obs_shape.frame_bytes, state->frames);
}

enum { SCALARS = 8 };

/* The numbers in the file's notes. */
static void list_scalars(run_state *state, gpur_scalar scalars[SCALARS])
{
    const gpur_scalar all[SCALARS] = {
        {"step", GPUR_SCALAR_I64, &state->step},
        {"prepopulated", GPUR_SCALAR_I64, &state->prepopulated},
        {"episodes", GPUR_SCALAR_I64, &state->episodes},
        {"train_steps", GPUR_SCALAR_I64, &state->train_steps},
        {"evaluations", GPUR_SCALAR_I64, &state->evaluations},
        {"trained", GPUR_SCALAR_I64, &state->trained},
        {"rows", GPUR_SCALAR_I64, &state->rows},
        {"env_options", GPUR_SCALAR_U64, &state->env_options},
    };
    memcpy(scalars, all, sizeof all);
}

/* Settings that must match, so that the run goes on as it was. */
static gpur_status add_settings(const gpur_run *run, gpur_tensors *settings)
{
    const gpur_run_config *const c = &run->config;
    GPUR_TRY(gpur_tensors_add_metadata(settings, "environment", "%.180s",
                                       run->vector.type ? run->vector.type->name : run->slots[0].runner.type->name));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "num_envs", "%d", (int)c->num_envs));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "concurrent", "%d", (int)c->concurrent));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "synchronized", "%d", (int)c->synchronized));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "burst", "%d", (int)c->burst));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "acts_by_target", "%d", (int)run->shape.acts_by_target));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "whole_episodes", "%d", (int)c->whole_episodes));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "target_period", "%" PRId64, c->target_period));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "train_period", "%" PRId64, c->train_period));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "prepopulation", "%" PRId64, c->prepopulation));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "seed", "%" PRIu64, c->seed));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "eval_period", "%" PRId64, c->eval_period));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "eval_episodes", "%" PRId64, c->eval_episodes));
    return gpur_tensors_add_metadata(settings, "eval_epsilon", "%.9g", (double)c->eval_epsilon);
}

static gpur_status write_file(run_state *state, const char *folder)
{
    gpur_sections sections = {0};
    gpur_tensors tensors = {0};
    gpur_checkpoint_options options;
    char path[GPUR_FOLDER_PATH];
    gpur_scalar scalars[SCALARS];
    gpur_learner *const learner = state->run->learner;
    list_scalars(state, scalars);
    GPUR_TRY(gpur_folder_path(folder, "run.safetensors", path));
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    gpur_status status = gpur_checkpoint_add_kind(&tensors, "run");
    if (status == GPUR_OK)
        status = add_settings(state->run, &tensors);
    if (status == GPUR_OK)
        status = gpur_scalars_write(&tensors, scalars, SCALARS);
    if (status == GPUR_OK)
        status = add_state(state, &sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_write(learner->device, learner->stream, &sections, &tensors, path, &options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

static gpur_status save_all(run_state *state, const char *folder)
{
    gpur_learner *const learner = state->run->learner;
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(read_state(state));
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    GPUR_TRY(gpur_replay_save(learner->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(gpur_learner_save(learner, path, NULL));
    GPUR_TRY(gpur_folder_read_trained(folder, &state->trained));
    GPUR_TRY(gpur_folder_read_rows(folder, &state->rows));
    return write_file(state, folder);
}

gpur_status gpur_run_save(gpur_run *run, const char *folder)
{
    run_state state = {0};
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(run->has_begun && run->step % run->shape.target_period == 0,
                 "the run has taken %" PRId64 " steps; to be saved it must have begun, and have taken a multiple of "
                 "target_period, %" PRId64,
                 run->step, run->shape.target_period);
    GPUR_TRY(gpur_tensors_available());
    GPUR_TRY(gpur_fast_dqn_join(run));
    GPUR_TRY(gpur_fast_dqn_flush(run));
    if (atomic_load(&run->stopping)) /* an evaluation may have been cut off */
        return gpur_fail(GPUR_INTERRUPTED, "the run was stopped after %" PRId64 " steps; it is not saved",
                         gpur_fast_dqn_steps_taken(run));
    GPUR_TRY(gpur_folder_make(folder));
    GPUR_TRY(alloc_state(&state, run, count_logged(run)));
    const gpur_status status = save_all(&state, folder);
    free(state.memory);
    return status;
}

/* Loading. */

static gpur_status set_log(gpur_env_slot *slot, const unsigned char *entries, int64_t count)
{
    gpur_step_log *const log = &slot->log;
    const size_t bytes = (size_t)(count * log->entry_bytes);
    unsigned char *const memory = malloc(bytes ? bytes : 1);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a log of %" PRId64 " steps", count);
    memcpy(memory, entries, bytes);
    free(log->entries);
    log->entries = memory;
    log->count = log->room = count;
    return GPUR_OK;
}

static gpur_status set_runner(const run_state *state, int32_t i)
{
    gpur_run *const run = state->run;
    gpur_env_runner *const runner = runner_of(state, i);
    const int64_t obs = gpur_obs_bytes(&run->obs_shape), frame = run->obs_shape.frame_bytes;
    memcpy(runner->obs, state->obs + i * obs, (size_t)obs);
    memcpy(runner->frame, state->frames + i * frame, (size_t)frame);
    if (i < run->shape.envs)
        runner->steps = gpur_env_slot_open_steps(&run->slots[i]);
    return gpur_prefix_error(gpur_env_error(runner->type->load(runner->env, state->envs + i * run->info.save_bytes)),
                             "the environment could not be loaded");
}

/* Environments that cannot load their states begin new episodes, and with new seeds: not those that they began with. */
static gpur_status set_runners(const run_state *state)
{
    gpur_run *const run = state->run;
    for (int32_t i = 0; i < state->runners && run->info.save_bytes > 0; i++)
        GPUR_TRY(set_runner(state, i));
    for (int32_t i = 0; i < run->shape.envs && run->info.save_bytes == 0; i++)
        gpur_env_slot_drop_open_game(&run->slots[i]);
    return run->info.save_bytes > 0 ? GPUR_OK : gpur_fast_dqn_remake_envs(run);
}

static gpur_status set_state(const run_state *state)
{
    gpur_run *const run = state->run;
    const unsigned char *log = state->log;
    for (int32_t i = 0; i < run->shape.envs; i++) {
        gpur_env_slot *const slot = &run->slots[i];
        slot->steps = state->slots[i].steps;
        slot->episode_return = state->slots[i].episode_return;
        slot->episode_length = state->slots[i].episode_length;
        GPUR_TRY(set_log(slot, log, state->slots[i].logged));
        log += state->slots[i].logged * entry_bytes(run);
    }
    gpur_mutex_lock(&run->stats_lock);
    if (state->runners > run->shape.envs) {
        run->evaluator.steps = state->slots[run->shape.envs].steps;
        run->evaluated_return = state->slots[run->shape.envs].episode_return;
    }
    memcpy(run->recent, state->recent, sizeof run->recent);
    run->prepopulated = state->prepopulated;
    run->episodes = state->episodes;
    gpur_mutex_unlock(&run->stats_lock);
    run->has_begun = 1;
    run->step = run->dispatched = state->step;
    run->train_steps = state->train_steps;
    run->evaluator.begun = run->evaluator.reported = state->evaluations;
    atomic_store(&run->meter.items[GPUR_PHASE_ENV], state->step);
    atomic_store(&run->meter.items[GPUR_PHASE_TRAIN], state->train_steps);
    atomic_store(&run->meter.items[GPUR_PHASE_EVALUATE], state->evaluations);
    for (int32_t i = 0; i < run->threads; i++)
        gpur_job_thread_restart_at(&run->env_threads[i].worker, state->step);
    gpur_job_thread_restart_at(&run->trainer, state->train_steps);
    if (state->runners > run->shape.envs)
        gpur_job_thread_restart_at(&run->evaluator.worker, state->evaluations);
    return set_runners(state);
}

/* Valid checksums do not make a file trustworthy: refuses numbers that no run can have. */
static gpur_status check_state(const run_state *state)
{
    const gpur_run *const run = state->run;
    int64_t logged = 0;
    const int64_t numbers[] = {state->step,        state->prepopulated, state->episodes, state->train_steps,
                               state->evaluations, state->trained,      state->rows};
    if (state->env_options != gpur_options_checksum(run->config.env_options))
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the file is of environments with other options than this run's, \"%.200s\"; they must be the "
                         "same",
                         run->config.env_options ? run->config.env_options : "");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return gpur_fail(GPUR_FILE_ERROR, "the file has a count of %" PRId64 "; it must be 0 to 2^61", numbers[i]);
    for (int32_t i = 0; i < run->shape.envs; i++) {
        const int64_t one = state->slots[i].logged;
        if (one < 0 || one > state->log_entries - logged)
            return gpur_fail(GPUR_FILE_ERROR, "the file has %" PRId64 " logged steps of a slot, and %" PRId64 " in all",
                             one, state->log_entries);
        const gpur_step_log log = {state->log + logged * entry_bytes(run), entry_bytes(run), one, one};
        GPUR_TRY(gpur_step_log_check(&log, run->info.action.num_actions, &run->slots[0].runner));
        logged += one;
    }
    return GPUR_OK;
}

static gpur_status read_file(run_state *state, gpur_checkpoint *file, gpur_sections *sections, gpur_tensors *settings)
{
    gpur_run *const run = state->run;
    const gpur_tensor_entry *const log = gpur_tensors_find(&file->tensors, "log");
    gpur_scalar scalars[SCALARS];
    gpur_checkpoint_options options;
    int touched = 0;
    list_scalars(state, scalars);
    GPUR_TRY(gpur_checkpoint_options_init(&options, sizeof options));
    GPUR_TRY(add_settings(run, settings));
    GPUR_TRY(gpur_checkpoint_compare(file, "run", "this run", settings, scalars, SCALARS));
    GPUR_TRY(alloc_state(state, run, log && log->dims > 0 ? log->shape[0] : 0));
    GPUR_TRY(add_state(state, sections));
    GPUR_TRY(gpur_checkpoint_match(file, sections, "this run", 1));
    GPUR_TRY(gpur_checkpoint_fill(file, run->learner->device, run->learner->stream, sections, &options, &touched));
    return gpur_checkpoint_add_path_to_error(file, check_state(state));
}

static gpur_status read_run(run_state *state, const char *folder)
{
    gpur_checkpoint file;
    gpur_sections sections = {0};
    gpur_tensors settings = {0};
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, "run.safetensors", path));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_status status = read_file(state, &file, &sections, &settings);
    gpur_sections_free(&sections);
    gpur_tensors_free(&settings);
    gpur_checkpoint_close(&file);
    return status;
}

/* The three files are replaced one after another, so a save that was interrupted leaves some of an older one. */
static gpur_status check_files(const run_state *state, const char *folder)
{
    int64_t trained, rows;
    GPUR_TRY(gpur_folder_read_trained(folder, &trained));
    GPUR_TRY(gpur_folder_read_rows(folder, &rows));
    if (trained != state->trained || rows != state->rows)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s: run.safetensors was saved after %" PRId64 " train steps and %" PRId64 " transitions, and "
                         "the files beside it after %" PRId64 " and %" PRId64
                         ": they are of different saves, of which one was not finished",
                         folder, state->trained, state->rows, trained, rows);
    return GPUR_OK;
}

/* The environments are loaded first: what they refuse leaves the replay and the learner as they were. */
static gpur_status load_all(run_state *state, const char *folder)
{
    gpur_learner *const learner = state->run->learner;
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(set_state(state));
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    GPUR_TRY(gpur_replay_load(learner->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(gpur_learner_load(learner, path, NULL));
    return state->run->work.copy(state->run->work.context, state->run->shape.acts_by_target);
}

/* A run that is loaded in part has ended. */
static gpur_status replace_all(run_state *state, const char *folder)
{
    char error[GPUR_JOB_ERROR];
    const gpur_status status = load_all(state, folder);
    state->run->has_ended = status != GPUR_OK;
    if (status == GPUR_OK)
        return GPUR_OK;
    snprintf(error, sizeof error, "%s", gpur_last_error());
    return gpur_fail(status, "%s; the run is loaded in part, and has ended", error);
}

gpur_status gpur_run_load(gpur_run *run, const char *folder)
{
    run_state state = {.run = run};
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(!run->has_begun, "the run has taken %" PRId64 " steps; load before the first", run->step);
    GPUR_TRY(gpur_tensors_available());
    gpur_status status = read_run(&state, folder);
    if (status == GPUR_OK)
        status = check_files(&state, folder);
    if (status == GPUR_OK)
        status = replace_all(&state, folder);
    free(state.memory);
    return status;
}
