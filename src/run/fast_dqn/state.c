/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: the observations, logs and environments of its slots and of evaluations, and the counters. The
 * replay and the learner have files of their own beside it. */
#include "run/fast_dqn/handle.h"

#include "base/arena.h"
#include "learn/learner.h"
#include "run/folder.h"
#include "run/state_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of a slot; of an environment of evaluations only the steps. In the file rows of int64. */
typedef struct slot_state {
    uint64_t steps;
    double episode_return;
    int64_t episode_length, logged, counted;
} slot_state;
enum { SLOT_NUMBERS = sizeof(slot_state) / sizeof(int64_t) };

/* A run's state in host memory, as it goes to the file and comes from it. */
typedef struct run_state {
    gpur_fast_dqn *run;
    int32_t runners; /* slots, and environments of evaluations */
    unsigned char *memory;
    slot_state *slots;                        /* (runners) */
    unsigned char *obs, *frames, *envs, *log; /* (runners, ...), (log_entries, entry_bytes) */
    int64_t step, prepopulated, train_steps, log_entries;
    int64_t rows; /* of gpur_folder_position */
} run_state;

static int64_t entry_bytes(const gpur_fast_dqn *run)
{
    return run->slots[0].log.entry_bytes;
}

static int64_t assign(run_state *state, void *memory)
{
    const gpur_fast_dqn *const run = state->run;
    const int64_t n = state->runners;
    gpur_arena arena = {memory, 0};
    state->slots = gpur_arena_alloc(&arena, n * (int64_t)sizeof *state->slots);
    state->log = gpur_arena_alloc(&arena, state->log_entries * entry_bytes(run));
    state->envs = gpur_arena_alloc(&arena, n * run->info.save_bytes);
    state->obs = gpur_arena_alloc(&arena, n * gpur_obs_bytes(&run->obs_shape));
    state->frames = gpur_arena_alloc(&arena, n * run->obs_shape.frame_bytes);
    return arena.used;
}

/* Allocates the arrays for state->log_entries, and adds them to the table. */
static gpur_status set_arrays(void *context, gpur_state_table *table)
{
    run_state *const state = context;
    const gpur_fast_dqn *const run = state->run;
    const int64_t n = state->runners, bytes = assign(state, NULL);
    state->memory = calloc(1, (size_t)bytes + 1);
    if (!state->memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of a run's state", bytes);
    assign(state, state->memory);
    gpur_state_add_array(table, (gpur_state_array){"slots", GPUR_I64, n, SLOT_NUMBERS, state->slots, 0});
    gpur_state_add_array(table,
                         (gpur_state_array){"log", GPUR_U8, state->log_entries, entry_bytes(run), state->log, 0});
    if (run->info.save_bytes > 0)
        gpur_state_add_array(table,
                             (gpur_state_array){"environments", GPUR_U8, n, run->info.save_bytes, state->envs, 0});
    gpur_state_add_array(table, (gpur_state_array){"obs", GPUR_U8, n, gpur_obs_bytes(&run->obs_shape), state->obs, 0});
    gpur_state_add_array(table, (gpur_state_array){"frames", GPUR_U8, n, run->obs_shape.frame_bytes, state->frames, 0});
    return GPUR_OK;
}

/* Settings that must match, so that the run goes on as it was. */
static gpur_state_table table_of(run_state *state)
{
    gpur_fast_dqn *const run = state->run;
    const gpur_fast_dqn_config *const c = &run->config;
    gpur_state_table t = {.run = &run->core, .kind = "fast DQN run", .device = run->learner->device};
    state->runners = run->shape.envs + run->evaluator.count;
    gpur_state_add_setting(&t, "num_envs", GPUR_SCALAR_I32, &c->num_envs);
    gpur_state_add_setting(&t, "concurrent", GPUR_SCALAR_I32, &c->concurrent);
    gpur_state_add_setting(&t, "synchronized", GPUR_SCALAR_I32, &c->synchronized);
    gpur_state_add_setting(&t, "burst", GPUR_SCALAR_I32, &c->burst);
    gpur_state_add_setting(&t, "acts_by_target", GPUR_SCALAR_I32, &run->shape.acts_by_target);
    gpur_state_add_setting(&t, "whole_episodes", GPUR_SCALAR_I32, &c->whole_episodes);
    gpur_state_add_setting(&t, "target_period", GPUR_SCALAR_I64, &c->target_period);
    gpur_state_add_setting(&t, "train_period", GPUR_SCALAR_I64, &c->train_period);
    if (run->numbers > 0 || c->train_steps != 1) /* files of 0.1.0 do not have it */
        gpur_state_add_setting(&t, "train_steps_each", GPUR_SCALAR_I64, &c->train_steps);
    if (run->numbers > 0)
        gpur_state_add_setting(&t, "sigma", GPUR_SCALAR_F32, &c->sigma);
    gpur_state_add_setting(&t, "prepopulation", GPUR_SCALAR_I64, &c->prepopulation);
    gpur_state_add_setting(&t, "eval_period", GPUR_SCALAR_I64, &run->core.config.eval_period);
    gpur_state_add_setting(&t, "eval_episodes", GPUR_SCALAR_I64, &run->core.config.eval_episodes);
    gpur_state_add_setting(&t, "eval_envs", GPUR_SCALAR_I32, &run->evaluator.count);
    gpur_state_add_setting(&t, "eval_epsilon", GPUR_SCALAR_F32, &run->core.config.eval_epsilon);
    gpur_state_add_count(&t, "step", GPUR_SCALAR_I64, &state->step);
    gpur_state_add_count(&t, "prepopulated", GPUR_SCALAR_I64, &state->prepopulated);
    gpur_state_add_count(&t, "train_steps", GPUR_SCALAR_I64, &state->train_steps);
    gpur_state_add_count(&t, "log_entries", GPUR_SCALAR_I64, &state->log_entries);
    gpur_state_add_count(&t, "rows", GPUR_SCALAR_I64, &state->rows);
    return t;
}

/* Saving. */

static gpur_status read_runner(run_state *state, int32_t i)
{
    const gpur_fast_dqn *const run = state->run;
    const gpur_env_runner *const runner = gpur_fast_dqn_runner(run, i);
    const int64_t obs = gpur_obs_bytes(&run->obs_shape), frame = run->obs_shape.frame_bytes;
    memcpy(state->obs + i * obs, runner->obs, (size_t)obs);
    memcpy(state->frames + i * frame, runner->frame, (size_t)frame);
    if (run->info.save_bytes == 0)
        return GPUR_OK;
    return gpur_prefix_error(gpur_env_error(runner->type->save(runner->env, state->envs + i * run->info.save_bytes)),
                             "the environment could not be saved");
}

static void read_slots(run_state *state)
{
    const gpur_fast_dqn *const run = state->run;
    unsigned char *log = state->log;
    for (int32_t i = 0; i < run->shape.envs; i++) {
        const gpur_env_slot *const slot = &run->slots[i];
        state->slots[i] =
            (slot_state){slot->steps, slot->episode_return, slot->episode_length, slot->log.count, slot->log.counted};
        memcpy(log, slot->log.entries, (size_t)(slot->log.count * entry_bytes(run)));
        log += slot->log.count * entry_bytes(run);
    }
    for (int32_t i = 0; i < run->evaluator.count; i++)
        state->slots[run->shape.envs + i] = (slot_state){.steps = run->evaluator.taken[i]};
}

static gpur_status read_state(run_state *state)
{
    const gpur_fast_dqn *const run = state->run;
    read_slots(state);
    for (int32_t i = 0; i < state->runners; i++)
        GPUR_TRY(read_runner(state, i));
    state->step = run->step;
    state->prepopulated = run->core.stats.fast_dqn.prepopulated;
    state->train_steps = run->train_steps;
    return GPUR_OK;
}

static gpur_status save_all(run_state *state, gpur_state_table *table, const char *folder)
{
    gpur_folder_position position;
    GPUR_TRY(set_arrays(state, table));
    GPUR_TRY(read_state(state));
    GPUR_TRY(gpur_folder_save(folder, state->run->learner, &position));
    table->trained = position.trained, state->rows = position.rows;
    return gpur_state_write(table, folder);
}

gpur_status gpur_fast_dqn_save(gpur_run *core, const char *folder)
{
    gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    run_state state = {.run = run};
    GPUR_REQUIRE(run->has_begun && run->step % run->shape.target_period == 0,
                 "the run has taken %" PRId64 " steps; to be saved it must have begun, and have taken a multiple of "
                 "target_period, %" PRId64,
                 run->step, run->shape.target_period);
    GPUR_REQUIRE(!gpur_fast_dqn_has_unfinished(run),
                 "the run was stopped after %" PRId64 " steps within the work of a target period; it can be saved when "
                 "it has been advanced to the next multiple of target_period, %" PRId64,
                 run->step, run->shape.target_period);
    GPUR_TRY(gpur_fast_dqn_flush(run));
    GPUR_TRY(gpur_folder_make(folder));
    for (int32_t i = 0; i < run->shape.envs; i++)
        state.log_entries += run->slots[i].log.count;
    gpur_state_table table = table_of(&state);
    const gpur_status status = save_all(&state, &table, folder);
    free(state.memory);
    return status;
}

/* Loading. */

static gpur_status set_log(gpur_env_slot *slot, const unsigned char *entries, int64_t count, int64_t counted)
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
    log->counted = counted;
    return GPUR_OK;
}

static gpur_status set_runner(const run_state *state, int32_t i)
{
    const gpur_fast_dqn *const run = state->run;
    gpur_env_runner *const runner = gpur_fast_dqn_runner(run, i);
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
    gpur_fast_dqn *const run = state->run;
    for (int32_t i = 0; i < state->runners && run->info.save_bytes > 0; i++)
        GPUR_TRY(set_runner(state, i));
    for (int32_t i = 0; i < run->shape.envs && run->info.save_bytes == 0; i++)
        gpur_env_slot_drop_open_game(&run->slots[i]);
    return run->info.save_bytes > 0 ? GPUR_OK : gpur_fast_dqn_remake_envs(run);
}

static gpur_status set_slots(const run_state *state)
{
    gpur_fast_dqn *const run = state->run;
    const unsigned char *log = state->log;
    for (int32_t i = 0; i < run->shape.envs; i++) {
        const slot_state *const s = &state->slots[i];
        gpur_env_slot *const slot = &run->slots[i];
        slot->steps = s->steps;
        slot->episode_return = s->episode_return;
        slot->episode_length = s->episode_length;
        GPUR_TRY(set_log(slot, log, s->logged, s->counted));
        log += s->logged * entry_bytes(run);
    }
    for (int32_t i = 0; i < run->evaluator.count; i++)
        run->evaluator.taken[i] = state->slots[run->shape.envs + i].steps;
    return GPUR_OK;
}

static gpur_status set_state(const run_state *state, const gpur_state_table *table)
{
    gpur_fast_dqn *const run = state->run;
    GPUR_TRY(set_slots(state));
    gpur_state_restore(table);
    run->core.stats.fast_dqn.prepopulated = state->prepopulated;
    run->have_envs_begun = run->has_begun = 1;
    run->step = run->released = run->joined = state->step;
    run->train_steps = state->train_steps;
    atomic_store(&run->meter.items[GPUR_PHASE_ENV], state->step);
    atomic_store(&run->meter.items[GPUR_PHASE_TRAIN], state->train_steps);
    for (int32_t i = 0; i < run->threads; i++)
        gpur_job_thread_restart_at(&run->env_threads[i].jobs, state->step);
    gpur_job_thread_restart_at(&run->trainer, state->train_steps);
    return set_runners(state);
}

/* Valid checksums do not make a file trustworthy: refuses logs that no run can have. */
static gpur_status check_logs(const run_state *state)
{
    const gpur_fast_dqn *const run = state->run;
    int64_t logged = 0;
    for (int32_t i = 0; i < run->shape.envs; i++) {
        const slot_state *const s = &state->slots[i];
        if (s->logged < 0 || s->logged > state->log_entries - logged || s->counted < 0 || s->counted > s->logged)
            return gpur_fail(GPUR_FILE_ERROR,
                             "the file has %" PRId64 " logged steps of an environment, of which %" PRId64
                             " were counted, and %" PRId64 " in all",
                             s->logged, s->counted, state->log_entries);
        const gpur_step_log log = {.entries = state->log + logged * entry_bytes(run),
                                   .entry_bytes = entry_bytes(run),
                                   .count = s->logged,
                                   .numbers = run->numbers,
                                   .room = s->logged};
        GPUR_TRY(gpur_step_log_check(&log, run->numbers > 0 ? 1 : run->info.action.num_actions, &run->slots[0].runner));
        logged += s->logged;
    }
    return GPUR_OK;
}

/* The environments are loaded first: what they refuse leaves the replay and the learner as they were. */
static gpur_status load_all(const run_state *state, const gpur_state_table *table, const char *folder)
{
    gpur_fast_dqn *const run = state->run;
    GPUR_TRY(set_state(state, table));
    GPUR_TRY(gpur_folder_load(folder, run->learner, 0));
    return gpur_fast_dqn_copy_weights(run);
}

static gpur_status load(run_state *state, const char *folder)
{
    gpur_state_table table = table_of(state);
    table.set_arrays = set_arrays;
    table.context = state;
    GPUR_TRY(gpur_state_read(&table, folder));
    GPUR_TRY(gpur_prefix_error(check_logs(state), "%s/run.safetensors", folder));
    GPUR_TRY(gpur_folder_check(folder, &(gpur_folder_position){table.trained, state->rows}, 0));
    const gpur_status status = load_all(state, &table, folder);
    return status == GPUR_OK ? GPUR_OK : gpur_run_fail_loading(&state->run->core, status);
}

gpur_status gpur_fast_dqn_load(gpur_run *core, const char *folder, int32_t refill)
{
    gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    run_state state = {.run = run};
    (void)refill;
    GPUR_REQUIRE(!run->have_envs_begun, "the run has taken %" PRId64 " steps; load before the first gpur_run_advance",
                 run->step);
    const gpur_status status = load(&state, folder);
    free(state.memory);
    return status;
}
