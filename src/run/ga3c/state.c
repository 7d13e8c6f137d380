/* SPDX-License-Identifier: MIT */
/* Saves and loads a run: its counters, and the learner in a file of its own. */
#include "run/ga3c/handle.h"

#include "run/folder.h"
#include "run/state_file.h"

/* The entries of the file that the core does not add. */
typedef struct run_state {
    gpur_run_stats stats;
    gpur_ga3c_numbers numbers;
    int64_t incarnations[GPUR_GA3C_MAX_AGENTS], steps[GPUR_GA3C_MAX_AGENTS]; /* of each slot */
    int64_t eval_steps, eval_games;
} run_state;

static void read_state(gpur_ga3c *run, run_state *state)
{
    gpur_mutex_lock(&run->core.lock);
    state->stats = run->core.stats;
    /* Numbers on trial are not saved: the run that goes on would begin with them, and accept them. */
    state->numbers = run->tuner.accepted.agents > 0 ? run->tuner.accepted : run->numbers;
    for (int32_t i = 0; i < run->slot_count; i++) {
        state->incarnations[i] = run->slots[i]->incarnation;
        state->steps[i] = (int64_t)run->slots[i]->steps;
    }
    gpur_mutex_unlock(&run->core.lock);
    state->eval_steps = (int64_t)run->eval_steps;
    state->eval_games = run->eval_games;
}

static void add_counts(run_state *state, gpur_state_table *table)
{
    gpur_ga3c_stats *const s = &state->stats.ga3c;
    gpur_state_add_count(table, "env_steps", GPUR_SCALAR_I64, &state->stats.env_steps);
    gpur_state_add_count(table, "train_steps", GPUR_SCALAR_I64, &state->stats.train_steps);
    gpur_state_add_count(table, "predictions", GPUR_SCALAR_I64, &s->predictions);
    gpur_state_add_count(table, "prediction_batches", GPUR_SCALAR_I64, &s->prediction_batches);
    gpur_state_add_count(table, "trained_rows", GPUR_SCALAR_I64, &s->trained_rows);
    gpur_state_add_count(table, "training_batches", GPUR_SCALAR_I64, &s->training_batches);
    gpur_state_add_count(table, "refused_rollouts", GPUR_SCALAR_I64, &s->refused_rollouts);
    gpur_state_add_count(table, "overwritten_rollouts", GPUR_SCALAR_I64, &s->overwritten_rollouts);
    gpur_state_add_count(table, "left_rollouts", GPUR_SCALAR_I64, &s->left_rollouts);
    gpur_state_add_count(table, "dropped_rows", GPUR_SCALAR_I64, &s->dropped_rows);
    gpur_state_add_count(table, "largest_lag", GPUR_SCALAR_I64, &s->largest_lag);
    gpur_state_add_count(table, "lag_sum", GPUR_SCALAR_I64, &s->lag_sum);
    gpur_state_add_count(table, "agents", GPUR_SCALAR_I32, &state->numbers.agents);
    gpur_state_add_count(table, "predictors", GPUR_SCALAR_I32, &state->numbers.predictors);
    gpur_state_add_count(table, "trainers", GPUR_SCALAR_I32, &state->numbers.trainers);
    gpur_state_add_count(table, "eval_steps", GPUR_SCALAR_I64, &state->eval_steps);
    gpur_state_add_count(table, "eval_games", GPUR_SCALAR_I64, &state->eval_games);
}

/* Settings that must match are those that say what is learned. The numbers of threads, and how rollouts are queued and
 * joined, may change. */
static gpur_state_table table_of(gpur_ga3c *run, run_state *state)
{
    const gpur_ga3c_config *const c = &run->config;
    gpur_state_table table = {.run = &run->core, .kind = "GA3C run", .device = run->model.device};
    gpur_state_add_setting(&table, "system", GPUR_SCALAR_I32, &c->system);
    gpur_state_add_setting(&table, "t_max", GPUR_SCALAR_I32, &c->t_max);
    gpur_state_add_setting(&table, "discount", GPUR_SCALAR_F32, &c->discount);
    gpur_state_add_setting(&table, "reward_clip", GPUR_SCALAR_F32, &c->reward_clip);
    gpur_state_add_setting(&table, "drop_terminal", GPUR_SCALAR_I32, &c->drop_terminal);
    add_counts(state, &table);
    gpur_state_add_array(&table, (gpur_state_array){"lags", GPUR_I64, GPUR_GA3C_LAGS, 0, state->stats.ga3c.lags, 1});
    gpur_state_add_array(&table,
                         (gpur_state_array){"incarnations", GPUR_I64, GPUR_GA3C_MAX_AGENTS, 0, state->incarnations, 1});
    gpur_state_add_array(&table, (gpur_state_array){"steps", GPUR_I64, GPUR_GA3C_MAX_AGENTS, 0, state->steps, 1});
    return table;
}

gpur_status gpur_ga3c_save(gpur_run *core, const char *folder)
{
    gpur_ga3c *const run = gpur_ga3c_of(core);
    run_state state = {0};
    char path[GPUR_FOLDER_PATH];
    gpur_state_table table = table_of(run, &state);
    GPUR_TRY(gpur_folder_make(folder));
    read_state(run, &state);
    table.trained = run->model.steps(run->model.context);
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(run->model.save(run->model.context, path));
    return gpur_state_write(&table, folder);
}

/* Loading. */

static int32_t count_slots(const run_state *state)
{
    int32_t count = state->numbers.agents;
    for (int32_t i = count; i < GPUR_GA3C_MAX_AGENTS; i++)
        if (state->incarnations[i] > 0)
            count = i + 1;
    return count;
}

/* Counts that are not in the file are zero in `state`. */
static void set_state(gpur_ga3c *run, const run_state *state)
{
    gpur_mutex_lock(&run->core.lock);
    run->core.stats.env_steps = state->stats.env_steps;
    run->core.stats.train_steps = state->stats.train_steps;
    run->core.stats.ga3c = state->stats.ga3c;
    run->numbers = run->largest = state->numbers;
    for (int32_t i = 0; i < run->slot_count; i++) {
        run->slots[i]->incarnation = state->incarnations[i];
        run->slots[i]->steps = (uint64_t)state->steps[i];
    }
    gpur_mutex_unlock(&run->core.lock);
    run->eval_steps = (uint64_t)state->eval_steps;
    run->eval_games = state->eval_games;
}

gpur_status gpur_ga3c_load(gpur_run *core, const char *folder, int32_t refill)
{
    gpur_ga3c *const run = gpur_ga3c_of(core);
    char path[GPUR_FOLDER_PATH];
    run_state state = {0};
    gpur_state_table table = table_of(run, &state);
    (void)refill;
    GPUR_REQUIRE(!run->has_begun, "the run has taken %lld steps; load before the first gpur_run_advance",
                 (long long)core->stats.env_steps);
    GPUR_TRY(gpur_state_read(&table, folder));
    GPUR_TRY(gpur_ga3c_check_numbers(run, state.numbers));
    GPUR_TRY(gpur_ga3c_make_slots(run, count_slots(&state)));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(run->model.load(run->model.context, path, table.trained));
    gpur_state_restore(&table);
    set_state(run, &state);
    return GPUR_OK;
}
