/* SPDX-License-Identifier: MIT */
/* gpur_writer_step and gpur_writer_step_ex: one step of every environment. */
#include "replay/writer/n_step.h"
#include "base/sized.h"
#include "kernels/lib/clip.h"
#include "replay/finite.h"
#include "replay/replay.h"
#include "replay/row_rules.h"
#include "replay/writer/env_state.h"

#include <inttypes.h>

static int is_truncated(const gpur_step_input *in, int64_t env)
{
    return in->truncated && in->truncated[env];
}

static int ends(const gpur_step_input *in, int64_t env)
{
    return in->terminated[env] || is_truncated(in, env);
}

/* The caller's array with the observation after the environment's step. */
static const void *last_obs(const gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    return ends(in, env) && writer->config.autoreset == GPUR_AUTORESET_SAME_STEP ? in->final_obs : in->next_obs;
}

static gpur_status check_stack(const gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    const void *const array = last_obs(writer, in, env);
    if (writer->env_state.episodes[env].state != GPUR_EPISODE_OPEN)
        return GPUR_OK;
    return gpur_frame_history_check(&writer->frame_history, env, gpur_writer_obs(writer, array, env),
                                    array == in->final_obs ? "final_obs" : "next_obs");
}

static gpur_status check_env(const gpur_writer *writer, const gpur_step_input *in, int32_t env)
{
    const int32_t state = writer->env_state.episodes[env].state;
    GPUR_REQUIRE(state != GPUR_EPISODE_NONE,
                 "environment %d has no open episode: it must be reset before its next step", (int)env);
    GPUR_REQUIRE(in->terminated[env] <= 1, "terminated[%d] is %d; it must be 0 or 1", (int)env,
                 (int)in->terminated[env]);
    GPUR_REQUIRE(!in->truncated || in->truncated[env] <= 1, "truncated[%d] is %d; it must be 0 or 1", (int)env,
                 (int)in->truncated[env]);
    GPUR_REQUIRE(state == GPUR_EPISODE_OPEN || !ends(in, env),
                 "environment %d ended in the step before, so that this one only resets it, and it ends again; "
                 "terminated and truncated must be 0: is its autoreset GPUR_AUTORESET_NEXT_STEP?",
                 (int)env);
    GPUR_REQUIRE(writer->config.autoreset != GPUR_AUTORESET_SAME_STEP || in->final_obs || !ends(in, env),
                 "final_obs is NULL and environment %d ended; under GPUR_AUTORESET_SAME_STEP it must have the last "
                 "observation of each episode that ended",
                 (int)env);
    return writer->frame_history.last ? check_stack(writer, in, env) : GPUR_OK;
}

static gpur_status check_flags(const unsigned char *flags, int64_t bytes, int64_t env, const char *name)
{
    for (int64_t i = 0; i < bytes; i++)
        GPUR_REQUIRE(flags[i] <= 1, "%s of environment %" PRId64 " has %d among its bools; they must be 0 or 1", name,
                     env, (int)flags[i]);
    return GPUR_OK;
}

static int64_t bytes_of_obs(const gpur_writer *writer)
{
    const int64_t frame_bytes = writer->frame_history.input_bytes;
    return frame_bytes > 0 ? frame_bytes : writer->env_state.obs_bytes;
}

gpur_status gpur_writer_check_obs(const gpur_writer *writer, const void *array, int64_t env, const char *name)
{
    const gpur_schema *const schema = &writer->replay->schema;
    if (!schema->is_flag[writer->fields.obs])
        return GPUR_OK;
    return check_flags(gpur_writer_obs(writer, array, env), bytes_of_obs(writer), env, name);
}

/* Refuses numbers of a field that are not finite. `array` has `bytes` of each environment. */
static gpur_status check_finite_array(const gpur_writer *writer, int32_t f, const void *array, int64_t envs,
                                      int64_t bytes, const char *name)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_field_values values = {array, envs, bytes, bytes, schema->fields[f].dtype, name, "environment"};
    if (!schema->is_real[f] || !writer->replay->config.check_finite)
        return GPUR_OK;
    return gpur_check_finite(&values, GPUR_INVALID_ARGUMENT);
}

gpur_status gpur_writer_check_finite_obs(const gpur_writer *writer, const void *array, int64_t envs, const char *name)
{
    return check_finite_array(writer, writer->fields.obs, array, envs, bytes_of_obs(writer), name);
}

/* The last observations of episodes that end now; the others of final_obs mean nothing. */
static gpur_status check_finite_ends(const gpur_writer *writer, const gpur_step_input *in)
{
    if (writer->config.autoreset != GPUR_AUTORESET_SAME_STEP || !writer->replay->schema.is_real[writer->fields.obs])
        return GPUR_OK;
    for (int64_t env = 0; env < writer->config.num_envs; env++) {
        const void *const last = last_obs(writer, in, env);
        if (last != in->next_obs)
            GPUR_TRY(gpur_prefix_error(
                gpur_writer_check_finite_obs(writer, gpur_writer_obs(writer, last, env), 1, "final_obs"),
                "environment %" PRId64, env));
    }
    return GPUR_OK;
}

/* All numbers of a step, also those of environments that it only resets. */
static gpur_status check_finite(const gpur_writer *writer, const gpur_step_input *in)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_step_fields *const fields = &writer->fields;
    const int64_t envs = writer->config.num_envs;
    GPUR_TRY(check_finite_array(writer, fields->reward, in->reward, envs, sizeof *in->reward, "reward"));
    GPUR_TRY(gpur_writer_check_finite_obs(writer, in->next_obs, envs, "next_obs"));
    GPUR_TRY(check_finite_ends(writer, in));
    for (int32_t i = 0; i < writer->real_count; i++) {
        const int32_t f = writer->reals[i];
        const gpur_field_info *const field = &schema->fields[f];
        GPUR_TRY(check_finite_array(writer, f, f == fields->action ? in->action : in->extras[f], envs, field->bytes,
                                    field->name));
    }
    return GPUR_OK;
}

/* Checks the GPUR_BOOL fields other than terminated and truncated. */
static gpur_status check_bools(const gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const void *const last = last_obs(writer, in, env);
    GPUR_TRY(gpur_writer_check_obs(writer, in->next_obs, env, "next_obs"));
    if (last != in->next_obs)
        GPUR_TRY(gpur_writer_check_obs(writer, last, env, "final_obs"));
    for (int32_t f = 0; f < schema->count; f++) {
        const int is_action = f == writer->fields.action, is_extra = gpur_step_fields_is_extra(&writer->fields, f);
        const gpur_field_info *const field = &schema->fields[f];
        if (!schema->is_flag[f] || !(is_action || is_extra))
            continue;
        const unsigned char *const values = is_action ? in->action : in->extras[f];
        GPUR_TRY(check_flags(values + env * field->bytes, field->bytes, env, field->name));
    }
    return GPUR_OK;
}

static gpur_status check_extras(const gpur_writer *writer, const gpur_step_input *in)
{
    const gpur_schema *const schema = &writer->replay->schema;
    for (int32_t f = writer->fields.extra; f >= 0 && f < schema->count; f++) {
        if (f == writer->marked || !gpur_step_fields_is_extra(&writer->fields, f))
            continue;
        GPUR_REQUIRE(in->extras,
                     "field \"%s\" is none that a step fills in: give it in the extras of gpur_writer_step_ex, or use "
                     "gpur_writer_append_fields",
                     schema->fields[f].name);
        GPUR_REQUIRE(in->extras[f], "extras[%d], field \"%s\", is NULL", (int)f, schema->fields[f].name);
    }
    return GPUR_OK;
}

static int64_t bytes_of_action(const gpur_writer *writer)
{
    return writer->replay->schema.fields[writer->fields.action].bytes;
}

/* Of the extras, in a prioritized replay. */
static gpur_status check_priorities(const gpur_writer *writer, const gpur_step_input *in)
{
    const int32_t field = writer->replay->schema.priority;
    const int is_given = in->extras && field >= 0 && field != writer->marked;
    const gpur_row_values values = {.priority = is_given ? in->extras[field] : NULL, .priority_pitch = sizeof(float)};
    return writer->replay->config.prioritized ? gpur_row_values_check(&values, writer->config.num_envs, 0) : GPUR_OK;
}

/* Checked once per writer, because the schema never changes. */
static gpur_status check_schema(gpur_writer *writer)
{
    if (!writer->can_step)
        GPUR_TRY(gpur_step_fields_check(&writer->fields, &writer->replay->schema));
    writer->can_step = 1;
    return GPUR_OK;
}

static gpur_status check(gpur_writer *writer, const gpur_step_input *in)
{
    GPUR_REQUIRE(in->action && in->reward && in->next_obs && in->terminated, "%s is NULL; only truncated may be",
                 !in->action     ? "action"
                 : !in->reward   ? "reward"
                 : !in->next_obs ? "next_obs"
                                 : "terminated");
    GPUR_TRY(check_schema(writer));
    GPUR_TRY(check_extras(writer, in));
    GPUR_TRY(check_priorities(writer, in));
    for (int32_t env = 0; env < writer->config.num_envs; env++)
        GPUR_TRY(check_env(writer, in, env));
    for (int32_t env = 0; writer->bools > 0 && env < writer->config.num_envs; env++)
        GPUR_TRY(check_bools(writer, in, env));
    GPUR_TRY(gpur_writer_check_actions(writer, in->action, writer->config.num_envs, bytes_of_action(writer),
                                       "environment", GPUR_INVALID_ARGUMENT));
    return writer->replay->config.check_finite ? check_finite(writer, in) : GPUR_OK;
}

/* Number of transitions that the step completes in this environment. */
static int32_t ready_of(const gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    const gpur_episode *const episode = &writer->env_state.episodes[env];
    if (episode->state != GPUR_EPISODE_OPEN)
        return 0;
    return gpur_n_step_ready(episode->pending + 1, writer->env_state.n_step, ends(in, env));
}

static float clipped_reward(const gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    const float limit = writer->replay->config.reward_clip;
    return limit > 0.0f ? gpur_clip(in->reward[env], limit) : in->reward[env];
}

/* The step's value of a field that a transition takes from its first step: the action or an extra. */
static const unsigned char *given(const gpur_writer *writer, const gpur_step_input *in, const gpur_carried_field *field,
                                  int64_t env)
{
    static const float none = 0; /* stands for what gpur_writer_mark writes */
    if (field->field == writer->marked)
        return (const unsigned char *)&none;
    const void *const array = field->field == writer->fields.action ? in->action : in->extras[field->field];
    return (const unsigned char *)array + env * field->bytes;
}

/* Stores the step as the last pending one. */
static void push_step(gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    gpur_env_state *const env_state = &writer->env_state;
    gpur_episode *const episode = &env_state->episodes[env];
    unsigned char *const values = gpur_env_state_step(env_state, env, episode->steps);
    for (int32_t i = env_state->obs_bytes > 0; i < env_state->count; i++) {
        const gpur_carried_field *const field = &env_state->fields[i];
        gpur_copy_value(values + field->offset, given(writer, in, field, env), field->bytes);
    }
    env_state->rewards[env * env_state->room + (episode->steps & (env_state->room - 1))] =
        clipped_reward(writer, in, env);
    episode->steps++;
    episode->pending++;
}

/* Fast path: with GPUR_LAYOUT_ROWS and n_step 1 every step is a complete transition. Its row is written straight from
 * the caller's arrays and the stored observation, and only next_obs is stored. */
static int is_single_step(const gpur_writer *writer)
{
    return writer->env_state.n_step == 1 && writer->offsets.links < 0;
}

static gpur_status write_single_step(gpur_writer *writer, gpur_row_emitter *emitter, const gpur_step_input *in,
                                     int64_t env, const gpur_episode_end *episode_end)
{
    const gpur_env_state *const env_state = &writer->env_state;
    gpur_episode *const episode = &env_state->episodes[env];
    const unsigned char *const next_obs = gpur_writer_obs(writer, last_obs(writer, in, env), env);
    const gpur_n_step_return n_step_return = {clipped_reward(writer, in, env), writer->replay->config.gamma};
    unsigned char *row = NULL;
    int64_t id = 0;
    GPUR_TRY(gpur_row_emitter_next(emitter, &row, &id));
    gpur_copy_value(row + env_state->fields[0].row_offset, gpur_env_state_obs(env_state, env), env_state->obs_bytes);
    for (int32_t i = 1; i < env_state->count; i++)
        gpur_copy_value(row + env_state->fields[i].row_offset, given(writer, in, &env_state->fields[i], env),
                        env_state->fields[i].bytes);
    gpur_copy_value(row + writer->offsets.next_obs, next_obs, env_state->obs_bytes);
    gpur_write_outcome(&writer->offsets, row, n_step_return, episode_end, episode->previous);
    gpur_writer_mark(writer, row, episode->steps, gpur_episode_end_is(episode_end));
    episode->previous = id;
    episode->steps++;
    gpur_writer_push_obs(writer, env, next_obs);
    return GPUR_OK;
}

static gpur_status push_and_emit(gpur_writer *writer, gpur_row_emitter *emitter, const gpur_step_input *in, int64_t env,
                                 const gpur_episode_end *episode_end)
{
    const int32_t ready = ready_of(writer, in, env);
    push_step(writer, in, env);
    gpur_writer_push_obs(writer, env, gpur_writer_obs(writer, last_obs(writer, in, env), env));
    return gpur_row_emitter_emit(emitter, env, ready, episode_end);
}

static void end(gpur_writer *writer, const gpur_step_input *in, int64_t env)
{
    const int32_t autoreset = writer->config.autoreset;
    gpur_episode *const episode = &writer->env_state.episodes[env];
    if (autoreset == GPUR_AUTORESET_SAME_STEP)
        gpur_writer_begin_episode(writer, env, gpur_writer_obs(writer, in->next_obs, env));
    else
        episode->state = autoreset == GPUR_AUTORESET_NEXT_STEP ? GPUR_EPISODE_ENDED : GPUR_EPISODE_NONE;
}

static gpur_status step_env(gpur_writer *writer, gpur_row_emitter *emitter, const gpur_step_input *in, int64_t env)
{
    const gpur_episode_end episode_end = {in->terminated[env], (uint8_t)is_truncated(in, env)};
    if (writer->env_state.episodes[env].state != GPUR_EPISODE_OPEN) {
        gpur_writer_begin_episode(writer, env, gpur_writer_obs(writer, in->next_obs, env));
        return GPUR_OK;
    }
    GPUR_TRY((is_single_step(writer) ? write_single_step : push_and_emit)(writer, emitter, in, env, &episode_end));
    if (ends(in, env))
        end(writer, in, env);
    return GPUR_OK;
}

/* Requires the window lock. */
static gpur_status emit_steps(gpur_writer *writer, const gpur_step_input *in, int64_t rows)
{
    GPUR_TRY(gpur_row_emitter_check_room(writer, rows, "step"));
    gpur_row_emitter emitter = gpur_row_emitter_begin(writer, rows, gpur_ingest_may_wait(&writer->replay->ingest));
    for (int64_t env = 0; env < writer->config.num_envs; env++)
        GPUR_TRY(step_env(writer, &emitter, in, env));
    return gpur_row_emitter_end(&emitter);
}

/* Checks the state of the episodes only after gpur_ingest_begin_call: before it, gpur_replay_load could change that
 * state. */
static gpur_status step_locked(gpur_writer *writer, const gpur_step_input *in)
{
    gpur_replay *const replay = writer->replay;
    int64_t rows = 0;
    GPUR_TRY(check(writer, in));
    for (int32_t env = 0; env < writer->config.num_envs; env++)
        rows += ready_of(writer, in, env);
    const gpur_append_clock clock = gpur_append_clock_begin(&replay->ingest, rows);
    const gpur_status status = emit_steps(writer, in, rows);
    gpur_append_clock_end(&clock, &replay->ingest);
    return status;
}

static gpur_status step(gpur_writer *writer, const gpur_step_input *in)
{
    gpur_replay *const replay = writer->replay;
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_status status = step_locked(writer, in);
    gpur_ingest_end_call(&replay->ingest);
    return status;
}

gpur_status gpur_writer_step_ex(gpur_writer *writer, const gpur_step_input *input)
{
    gpur_step_input in = {.size = sizeof in};
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_TRY(gpur_sized_read(&in, sizeof in, input, "gpur_step_input"));
    return step(writer, &in);
}

gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward, const void *next_obs,
                             const uint8_t *terminated, const uint8_t *truncated)
{
    const gpur_step_input in = {.size = sizeof in,
                                .action = action,
                                .reward = reward,
                                .next_obs = next_obs,
                                .terminated = terminated,
                                .truncated = truncated};
    GPUR_REQUIRE(writer, "writer is NULL");
    return step(writer, &in);
}
