/* SPDX-License-Identifier: MIT */
/* An environment of a run of fast DQN with its log and its writer: stepping, logging, and flushing the log. */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "learn/learner.h"
#include "replay/finite.h"
#include "replay/view.h"
#include "run/action_vectors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The log. */

static gpur_log_entry *entry_at(const gpur_step_log *log, int64_t i)
{
    return (gpur_log_entry *)(void *)(log->entries + i * log->entry_bytes);
}

static int64_t vector_bytes(const gpur_step_log *log)
{
    return gpur_round_up((int64_t)sizeof(float) * log->numbers, 8);
}

static float *vector_at(const gpur_step_log *log, int64_t i)
{
    return (float *)(void *)(log->entries + i * log->entry_bytes + sizeof(gpur_log_entry));
}

static unsigned char *frame_at(const gpur_step_log *log, int64_t i)
{
    return log->entries + i * log->entry_bytes + sizeof(gpur_log_entry) + vector_bytes(log);
}

void gpur_step_log_set(gpur_step_log *log, int32_t numbers, const gpur_obs_shape *shape)
{
    log->numbers = numbers;
    log->entry_bytes = (int64_t)sizeof(gpur_log_entry) + vector_bytes(log) + gpur_round_up(shape->frame_bytes, 8);
}

/* The rewards and frames of entries. */
static gpur_status check_finite_entry(const gpur_step_log *log, int64_t i, const gpur_obs_shape *shape)
{
    const gpur_field_values obs = {frame_at(log, i), 1,     shape->frame_bytes, shape->frame_bytes,
                                   shape->dtype,     "obs", "logged step"};
    const gpur_field_values reward = {&entry_at(log, i)->reward, 1, 4, 4, GPUR_FLOAT32, "reward", "logged step"};
    GPUR_TRY(gpur_check_finite(&obs, GPUR_FILE_ERROR));
    return gpur_check_finite(&reward, GPUR_FILE_ERROR);
}

static gpur_status check_vector(const gpur_step_log *log, int64_t i)
{
    for (int32_t k = 0; k < log->numbers; k++)
        if (!(fabsf(vector_at(log, i)[k]) <= 1.0f)) /* also where it is NaN */
            return gpur_fail(GPUR_FILE_ERROR, "number %d of the action of a logged step is %g; it must be -1 to 1",
                             (int)k, (double)vector_at(log, i)[k]);
    return GPUR_OK;
}

gpur_status gpur_step_log_check(const gpur_step_log *log, int32_t num_actions, const gpur_env_runner *runner)
{
    for (int64_t i = 0; i < log->count; i++) {
        const gpur_log_entry *const e = entry_at(log, i);
        if (runner->check_finite)
            GPUR_TRY(check_finite_entry(log, i, runner->shape));
        GPUR_TRY(check_vector(log, i));
        if (e->action < -1 || e->action >= num_actions || e->terminated > 1 || e->truncated > 1 || e->continues > 1)
            return gpur_fail(GPUR_FILE_ERROR,
                             "a logged step has action %d, terminated %d, truncated %d and continues %d; they must be "
                             "-1 to %d, and 0 or 1",
                             (int)e->action, e->terminated, e->truncated, e->continues, (int)num_actions - 1);
    }
    return GPUR_OK;
}

/* Steps have the action that was chosen. */
static gpur_status append(gpur_env_slot *slot, gpur_log_entry entry)
{
    gpur_step_log *const log = &slot->log;
    if (log->count == log->room) {
        const int64_t room = log->room ? 2 * log->room : 256;
        unsigned char *const entries = realloc(log->entries, (size_t)(room * log->entry_bytes));
        if (!entries)
            return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a log of %" PRId64 " steps of %" PRId64 " bytes", room,
                             log->entry_bytes);
        log->entries = entries;
        log->room = room;
    }
    *entry_at(log, log->count) = entry;
    if (log->numbers > 0)
        memcpy(vector_at(log, log->count), gpur_fast_dqn_chosen(slot->run, slot->index),
               (size_t)log->numbers * sizeof(float));
    memcpy(frame_at(log, log->count), slot->runner.frame, (size_t)slot->runner.shape->frame_bytes);
    log->count++;
    return GPUR_OK;
}

gpur_status gpur_env_slot_name_error(const gpur_env_slot *slot, int64_t step, gpur_status status)
{
    return gpur_prefix_error(status, "environment %d, step %" PRId64, (int)slot->index, step);
}

static gpur_status log_beginning(gpur_env_slot *slot, int64_t step)
{
    return append(slot, (gpur_log_entry){.step = step, .action = -1});
}

static gpur_status log_step(gpur_env_slot *slot, int64_t step, const gpur_env_result *result)
{
    const int32_t *const chosen = gpur_fast_dqn_chosen(slot->run, slot->index);
    return append(slot, (gpur_log_entry){.step = step,
                                         .reward = result->reward,
                                         .action = slot->log.numbers > 0 ? 0 : *chosen,
                                         .terminated = result->terminated != 0,
                                         .truncated = result->truncated != 0,
                                         .continues = result->continues != 0});
}

gpur_status gpur_env_slot_begin(gpur_env_slot *slot, int64_t step)
{
    GPUR_TRY(gpur_env_runner_reset(&slot->runner));
    return log_beginning(slot, step);
}

gpur_status gpur_env_slot_step(gpur_env_slot *slot, int64_t step, int *ended)
{
    gpur_env_result result;
    slot->steps++;
    GPUR_TRY(gpur_env_runner_step(&slot->runner, gpur_fast_dqn_env_action(slot->run, slot->index), &result));
    const int is_over = result.terminated || result.truncated;
    *ended = is_over && !result.continues;
    GPUR_TRY(log_step(slot, step, &result));
    return is_over ? gpur_env_slot_begin(slot, step) : GPUR_OK;
}

gpur_status gpur_env_slot_note_beginning(gpur_env_slot *slot, int64_t step)
{
    GPUR_TRY(gpur_env_runner_note_beginning(&slot->runner));
    slot->awaits_reset = 0;
    return log_beginning(slot, step);
}

gpur_status gpur_env_slot_note_step(gpur_env_slot *slot, int64_t step, const gpur_env_result *result)
{
    slot->steps++;
    GPUR_TRY(gpur_env_runner_note_step(&slot->runner, result));
    return log_step(slot, step, result);
}

static int ends_game(const gpur_log_entry *e)
{
    return (e->terminated || e->truncated) && !e->continues;
}

int64_t gpur_env_slot_open_steps(const gpur_env_slot *slot)
{
    int64_t steps = slot->episode_length;
    for (int64_t i = slot->log.counted; i < slot->log.count; i++) {
        const gpur_log_entry *const e = entry_at(&slot->log, i);
        steps = e->action < 0 ? steps : ends_game(e) ? 0 : steps + 1;
    }
    return steps;
}

/* Flushing. */

static gpur_status flush_step(gpur_env_slot *slot, int64_t i)
{
    const gpur_step_log *const log = &slot->log;
    const gpur_log_entry *const e = entry_at(log, i);
    const int64_t wide = e->action;
    const void *const number = slot->action_is_int64 ? (const void *)&wide : (const void *)&e->action;
    const gpur_step_input input = {
        .size = sizeof input,
        .action = log->numbers > 0 ? vector_at(log, i) : number,
        .reward = &e->reward,
        .next_obs = frame_at(log, i),
        .terminated = &e->terminated,
        .truncated = &e->truncated,
    };
    return gpur_writer_step_ex(slot->writer, &input);
}

void gpur_env_slot_drop_open_game(gpur_env_slot *slot)
{
    gpur_step_log *const log = &slot->log;
    while (log->count > 0 && !ends_game(entry_at(log, log->count - 1)))
        log->count--;
    log->counted = gpur_min(log->counted, log->count);
    slot->episode_return = 0.0;
    slot->episode_length = 0;
}

static void count_step(gpur_env_slot *slot, const gpur_log_entry *e)
{
    gpur_run *const core = &slot->run->core;
    slot->episode_return += (double)e->reward;
    slot->episode_length++;
    if (!ends_game(e))
        return;
    gpur_mutex_lock(&core->lock);
    gpur_run_count_episode(core, slot->episode_return);
    gpur_run_add_event(core, (gpur_run_event){.kind = GPUR_RUN_EPISODE,
                                              .env_index = slot->index,
                                              .env_steps = e->step,
                                              .train_steps = atomic_load(&slot->run->meter.items[GPUR_PHASE_TRAIN]),
                                              .length = slot->episode_length,
                                              .episodes = 1,
                                              .mean_return = slot->episode_return});
    gpur_mutex_unlock(&core->lock);
    slot->episode_return = 0.0;
    slot->episode_length = 0;
}

/* Counts the entries before `end` that were not counted yet. */
static void count_until(gpur_env_slot *slot, int64_t end)
{
    gpur_step_log *const log = &slot->log;
    for (; log->counted < end; log->counted++)
        if (entry_at(log, log->counted)->action >= 0)
            count_step(slot, entry_at(log, log->counted));
}

void gpur_env_slot_count_episodes(gpur_env_slot *slot)
{
    count_until(slot, slot->log.count);
}

/* Entries that are flushed now. An episode begins with an entry of its own, so whole episodes end before the last
 * such entry. */
static int64_t count_ready(const gpur_step_log *log, int whole_episodes)
{
    int64_t ready = log->count;
    while (whole_episodes && ready > 0 && entry_at(log, ready - 1)->action >= 0)
        ready--;
    return whole_episodes && ready > 0 ? ready - 1 : ready;
}

gpur_status gpur_env_slot_flush(gpur_env_slot *slot)
{
    gpur_step_log *const log = &slot->log;
    const int64_t ready = count_ready(log, slot->run->config.whole_episodes);
    for (int64_t i = 0; i < ready; i++) {
        const gpur_log_entry *const e = entry_at(log, i);
        if (e->action < 0)
            GPUR_TRY(gpur_writer_reset(slot->writer, 0, frame_at(log, i)));
        else
            GPUR_TRY(flush_step(slot, i));
        count_until(slot, i + 1);
    }
    if (ready > 0)
        memmove(log->entries, log->entries + ready * log->entry_bytes,
                (size_t)((log->count - ready) * log->entry_bytes));
    log->count -= ready;
    log->counted -= ready;
    return GPUR_OK;
}

/* Opening and closing. */

gpur_status gpur_env_slot_open(gpur_env_slot *slot)
{
    gpur_replay *const replay = slot->run->learner->replay;
    const gpur_schema *const schema = gpur_replay_schema(replay);
    gpur_writer_config config;
    GPUR_REQUIRE(
        gpur_schema_find(schema, "next_action_mask") < 0,
        "the replay has a field \"next_action_mask\", which the environments of a run do not give; it must have "
        "none, or the program must step its environments itself");
    gpur_step_log_set(&slot->log, slot->run->numbers, slot->runner.shape);
    slot->action_is_int64 = schema->fields[gpur_schema_find(schema, "action")].dtype == GPUR_INT64;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    if (gpur_replay_settings(replay)->layout == GPUR_LAYOUT_FRAMES)
        config.observations = GPUR_OBSERVATIONS_FRAMES;
    return gpur_writer_open(replay, &config, &slot->writer);
}

void gpur_env_slot_close(gpur_env_slot *slot)
{
    gpur_writer_destroy(slot->writer);
    gpur_env_runner_close(&slot->runner);
    free(slot->log.entries);
}
