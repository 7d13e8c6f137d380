/* SPDX-License-Identifier: MIT */
#include "run/lane.h"

#include "base/numbers.h"
#include "replay/finite.h"
#include "replay/view.h"
#include "run/system.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Observations. */

/* Writes a frame into place `at` of a stack. */
static void put(const gpur_obs_shape *shape, unsigned char *obs, int32_t at, const unsigned char *frame)
{
    const int64_t element = shape->element_bytes;
    if (!shape->is_last_axis) {
        memcpy(obs + at * shape->frame_bytes, frame, (size_t)shape->frame_bytes);
        return;
    }
    for (int64_t i = 0; i < shape->frame_bytes / element; i++)
        memcpy(obs + (i * shape->stack + at) * element, frame + i * element, (size_t)element);
}

/* Sets a stack to the first frame of an episode. */
static void begin_obs(const gpur_obs_shape *shape, unsigned char *obs, const unsigned char *frame)
{
    if (!shape->pads_repeat)
        memset(obs, 0, (size_t)gpur_obs_bytes(shape));
    for (int32_t at = shape->pads_repeat ? 0 : shape->stack - 1; at < shape->stack; at++)
        put(shape, obs, at, frame);
}

/* Moves a stack on by one frame. */
static void push_frame(const gpur_obs_shape *shape, unsigned char *obs, const unsigned char *frame)
{
    /* Every frame moves to the place before it: by a frame's bytes, or, on the last axis, by one number. The number
     * that then enters a pixel from the next one is overwritten by the new frame. */
    const int64_t by = shape->is_last_axis ? shape->element_bytes : shape->frame_bytes;
    memmove(obs, obs + by, (size_t)(gpur_obs_bytes(shape) - by));
    put(shape, obs, shape->stack - 1, frame);
}

static gpur_status check_axes(const gpur_space *space, const int32_t *seen, int32_t axis, const char *name)
{
    const int has_stack = axis >= 0;
    const int32_t dims = gpur_shape_dims(space->shape), wanted = gpur_shape_dims(seen) - has_stack;
    const char *const part = has_stack ? "a frame of " : "";
    GPUR_REQUIRE(dims == wanted, "the environment's observations have %d axes and %s%s has %d; they must be the same",
                 (int)dims, part, name, (int)wanted);
    for (int32_t i = 0; i < dims; i++) {
        const int32_t length = seen[has_stack && i >= axis ? i + 1 : i];
        GPUR_REQUIRE(space->shape[i] == length,
                     "axis %d of the environment's observations is %d long and that of %s%s %d; they must be the same",
                     (int)i, (int)space->shape[i], part, name, (int)length);
    }
    return GPUR_OK;
}

gpur_status gpur_obs_shape_of(const gpur_space *obs, int32_t dtype, const int32_t *seen, int32_t axis, const char *name,
                              gpur_obs_shape *shape)
{
    GPUR_REQUIRE(obs->dtype == dtype, "the environment's observations are %s and %s is %s; they must be the same",
                 gpur_dtype_name(obs->dtype), name, gpur_dtype_name(dtype));
    GPUR_TRY(check_axes(obs, seen, axis, name));
    *shape = (gpur_obs_shape){
        .element_bytes = gpur_dtype_bytes(dtype), .dtype = dtype, .stack = 1, .is_last_axis = axis > 0};
    shape->frame_bytes = shape->element_bytes;
    for (int32_t i = 0; i < gpur_shape_dims(obs->shape); i++)
        shape->frame_bytes *= obs->shape[i];
    if (axis >= 0)
        shape->stack = seen[axis];
    return GPUR_OK;
}

gpur_status gpur_obs_shape_find(const gpur_space *obs, const gpur_schema *schema, const gpur_replay_config *config,
                                gpur_obs_shape *shape)
{
    const gpur_field_info *const field = &schema->fields[gpur_schema_find(schema, "obs")];
    const int32_t last = config->stack_axis == GPUR_STACK_LAST ? field->dims - 1 : 0;
    const int32_t axis = config->layout == GPUR_LAYOUT_FRAMES ? last : -1;
    GPUR_TRY(gpur_obs_shape_of(obs, field->dtype, field->shape, axis, "the replay's \"obs\"", shape));
    shape->pads_repeat = config->stack_pad == GPUR_PAD_REPEAT;
    return GPUR_OK;
}

gpur_status gpur_actions_check(const gpur_space *actions, int32_t num_actions)
{
    const int32_t found = actions->num_actions;
    GPUR_REQUIRE(found > 0, "the environment's actions are not discrete; the network needs discrete actions");
    GPUR_REQUIRE(found == num_actions,
                 "the environment has %d discrete actions and the learner's network %d; they must be the same",
                 (int)found, (int)num_actions);
    return GPUR_OK;
}

/* Environments. */

gpur_status gpur_env_error(const char *sentence)
{
    return sentence ? gpur_fail(GPUR_INVALID_ARGUMENT, "%s", sentence) : GPUR_OK;
}

gpur_status gpur_player_take_env(gpur_player *player, void *env, const gpur_env_info *info)
{
    const gpur_env_type *const type = player->type;
    player->env = env;
    GPUR_REQUIRE(env, "init of %s returned no environment", type->name);
    player->is_bounded = player->evaluates && info->max_steps == 0;
    player->max_steps = player->is_bounded ? GPUR_EVALUATION_STEPS : info->max_steps;
    GPUR_REQUIRE(info->max_steps >= 0, "max_steps of %s is %" PRId64 "; it must be 0 or more", type->name,
                 info->max_steps);
    GPUR_REQUIRE(info->save_bytes >= 0, "save_bytes of %s is %" PRId64 "; it must be 0 or more", type->name,
                 info->save_bytes);
    GPUR_REQUIRE(info->save_bytes == 0 || (type->save && type->load),
                 "save_bytes of %s is %" PRId64 " and it has no functions save and load; without them it must be 0",
                 type->name, info->save_bytes);
    return GPUR_OK;
}

void gpur_player_close_env(gpur_player *player)
{
    if (player->env)
        player->type->close(player->env);
    player->env = NULL;
}

void gpur_player_close(gpur_player *player)
{
    gpur_player_close_env(player);
    free(player->frame);
    player->frame = NULL;
}

static gpur_status check_frame(gpur_player *player)
{
    const gpur_obs_shape *const shape = player->shape;
    if (!player->check_finite)
        return GPUR_OK;
    const int64_t found = gpur_find_not_finite(shape->dtype, player->frame, shape->frame_bytes / shape->element_bytes);
    player->has_refused = found >= 0;
    GPUR_REQUIRE(found < 0, "the observation is %s; its numbers must be finite",
                 gpur_not_finite_name(shape->dtype, player->frame, found));
    return GPUR_OK;
}

static gpur_status check_reward(gpur_player *player, const gpur_env_result *result)
{
    const gpur_status status = player->check_finite ? gpur_check_reward_finite(result->reward) : GPUR_OK;
    player->has_refused = status != GPUR_OK;
    return status;
}

/* Truncates a game that has had its max_steps, but not where a life was lost just now: that ends an episode already. */
static void limit(gpur_player *player, gpur_env_result *result)
{
    const int is_over = result->terminated || result->truncated;
    player->steps++;
    if (player->max_steps > 0 && player->steps >= player->max_steps && !is_over) {
        result->truncated = 1;
        player->cut += player->is_bounded;
    }
    player->goes_on = is_over && result->continues;
}

gpur_status gpur_player_reset(gpur_player *player)
{
    player->steps = player->goes_on ? player->steps : 0;
    player->goes_on = 0;
    GPUR_TRY(gpur_env_error(player->type->reset(player->env, player->frame)));
    GPUR_TRY(check_frame(player));
    begin_obs(player->shape, player->obs, player->frame);
    return GPUR_OK;
}

gpur_status gpur_player_step(gpur_player *player, const void *action, gpur_env_result *result)
{
    *result = (gpur_env_result){0};
    GPUR_TRY(gpur_env_error(player->type->step(player->env, action, player->frame, result)));
    GPUR_TRY(check_frame(player));
    GPUR_TRY(check_reward(player, result));
    push_frame(player->shape, player->obs, player->frame);
    limit(player, result);
    return GPUR_OK;
}

/* The log. */

static gpur_log_entry *entry_at(const gpur_step_log *log, int64_t i)
{
    return (gpur_log_entry *)(void *)(log->entries + i * log->entry_bytes);
}

static const unsigned char *frame_at(const gpur_step_log *log, int64_t i)
{
    return log->entries + i * log->entry_bytes + sizeof(gpur_log_entry);
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

gpur_status gpur_step_log_check(const gpur_step_log *log, int32_t num_actions, const gpur_player *player)
{
    for (int64_t i = 0; i < log->count; i++) {
        const gpur_log_entry *const e = entry_at(log, i);
        if (player->check_finite)
            GPUR_TRY(check_finite_entry(log, i, player->shape));
        if (e->action < -1 || e->action >= num_actions || e->terminated > 1 || e->truncated > 1 || e->continues > 1)
            return gpur_fail(GPUR_FILE_ERROR,
                             "a logged step has action %d, terminated %d, truncated %d and continues %d; they must be "
                             "-1 to %d, and 0 or 1",
                             (int)e->action, e->terminated, e->truncated, e->continues, (int)num_actions - 1);
    }
    return GPUR_OK;
}

static gpur_status append(gpur_lane *lane, gpur_log_entry entry)
{
    gpur_step_log *const log = &lane->log;
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
    memcpy(log->entries + log->count * log->entry_bytes + sizeof entry, lane->player.frame,
           (size_t)lane->player.shape->frame_bytes);
    log->count++;
    return GPUR_OK;
}

gpur_status gpur_lane_name_error(const gpur_lane *lane, int64_t step, gpur_status status)
{
    return gpur_prefix_error(status, "lane %d, step %" PRId64, (int)lane->index, step);
}

static gpur_status log_beginning(gpur_lane *lane, int64_t step)
{
    return append(lane, (gpur_log_entry){.step = step, .action = -1});
}

static gpur_status log_step(gpur_lane *lane, int64_t step, int32_t action, const gpur_env_result *result)
{
    return append(lane, (gpur_log_entry){.step = step,
                                         .reward = result->reward,
                                         .action = action,
                                         .terminated = result->terminated != 0,
                                         .truncated = result->truncated != 0,
                                         .continues = result->continues != 0});
}

gpur_status gpur_lane_begin(gpur_lane *lane, int64_t step)
{
    GPUR_TRY(gpur_player_reset(&lane->player));
    return log_beginning(lane, step);
}

gpur_status gpur_lane_step(gpur_lane *lane, int64_t step, int32_t action, int *ended)
{
    gpur_env_result result;
    lane->steps++;
    GPUR_TRY(gpur_player_step(&lane->player, &action, &result));
    const int is_over = result.terminated || result.truncated;
    *ended = is_over && !result.continues;
    GPUR_TRY(log_step(lane, step, action, &result));
    return is_over ? gpur_lane_begin(lane, step) : GPUR_OK;
}

gpur_status gpur_lane_note_beginning(gpur_lane *lane, int64_t step, const unsigned char *frame)
{
    gpur_player *const player = &lane->player;
    memcpy(player->frame, frame, (size_t)player->shape->frame_bytes);
    GPUR_TRY(check_frame(player));
    begin_obs(player->shape, player->obs, player->frame);
    lane->awaits_reset = 0;
    return log_beginning(lane, step);
}

gpur_status gpur_lane_note_step(gpur_lane *lane, int64_t step, int32_t action, const gpur_env_result *result,
                                const unsigned char *frame)
{
    gpur_player *const player = &lane->player;
    lane->steps++;
    memcpy(player->frame, frame, (size_t)player->shape->frame_bytes);
    GPUR_TRY(check_frame(player));
    GPUR_TRY(check_reward(player, result));
    push_frame(player->shape, player->obs, player->frame);
    return log_step(lane, step, action, result);
}

int64_t gpur_lane_open_steps(const gpur_lane *lane)
{
    int64_t steps = lane->episode_length;
    for (int64_t i = 0; i < lane->log.count; i++) {
        const gpur_log_entry *const e = entry_at(&lane->log, i);
        const int is_end = (e->terminated || e->truncated) && !e->continues;
        steps = e->action < 0 ? steps : is_end ? 0 : steps + 1;
    }
    return steps;
}

/* Publishing. */

static gpur_status publish_step(gpur_lane *lane, const gpur_log_entry *e, const unsigned char *frame)
{
    const int64_t wide = e->action;
    const gpur_step_input input = {
        .size = sizeof input,
        .action = lane->action_is_int64 ? (const void *)&wide : (const void *)&e->action,
        .reward = &e->reward,
        .next_obs = frame,
        .terminated = &e->terminated,
        .truncated = &e->truncated,
    };
    return gpur_writer_step_ex(lane->writer, &input);
}

static int ends_game(const gpur_log_entry *e)
{
    return (e->terminated || e->truncated) && !e->continues;
}

void gpur_lane_drop_open_game(gpur_lane *lane)
{
    gpur_step_log *const log = &lane->log;
    while (log->count > 0 && !ends_game(entry_at(log, log->count - 1)))
        log->count--;
    lane->episode_return = 0.0;
    lane->episode_length = 0;
}

static void count_episode(gpur_lane *lane, const gpur_log_entry *e, gpur_episode_sink sink, void *context)
{
    lane->episode_return += (double)e->reward;
    lane->episode_length++;
    if (!ends_game(e))
        return;
    const gpur_run_event event = {.size = sizeof event,
                                  .kind = GPUR_RUN_EPISODE,
                                  .lane = lane->index,
                                  .step = e->step,
                                  .length = lane->episode_length,
                                  .episodes = 1,
                                  .mean_return = lane->episode_return};
    lane->episode_return = 0.0;
    lane->episode_length = 0;
    sink(context, &event);
}

/* Entries that are published now. An episode begins with an entry of its own, so whole episodes end before the last
 * such entry. */
static int64_t count_ready(const gpur_step_log *log, int whole_episodes)
{
    int64_t ready = log->count;
    while (whole_episodes && ready > 0 && entry_at(log, ready - 1)->action >= 0)
        ready--;
    return whole_episodes && ready > 0 ? ready - 1 : ready;
}

gpur_status gpur_lane_publish(gpur_lane *lane, int whole_episodes, gpur_episode_sink sink, void *context)
{
    gpur_step_log *const log = &lane->log;
    const int64_t ready = count_ready(log, whole_episodes);
    for (int64_t i = 0; i < ready; i++) {
        const gpur_log_entry *const e = entry_at(log, i);
        if (e->action < 0)
            GPUR_TRY(gpur_writer_reset(lane->writer, 0, frame_at(log, i)));
        else
            GPUR_TRY(publish_step(lane, e, frame_at(log, i)));
        if (e->action >= 0)
            count_episode(lane, e, sink, context);
    }
    if (ready > 0)
        memmove(log->entries, log->entries + ready * log->entry_bytes,
                (size_t)((log->count - ready) * log->entry_bytes));
    log->count -= ready;
    return GPUR_OK;
}

/* Opening and closing. */

static gpur_status no_memory(const char *what, int64_t bytes)
{
    return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of %s", bytes, what);
}

gpur_status gpur_player_open(gpur_player *player, const gpur_obs_shape *shape, unsigned char *obs, int32_t check_finite)
{
    player->shape = shape;
    player->obs = obs;
    player->check_finite = check_finite;
    player->frame = calloc(1, (size_t)shape->frame_bytes);
    return player->frame ? GPUR_OK : no_memory("a frame", shape->frame_bytes);
}

gpur_status gpur_lane_open(gpur_lane *lane, gpur_replay *replay)
{
    const gpur_schema *const schema = gpur_replay_schema(replay);
    gpur_writer_config config;
    lane->log.entry_bytes = (int64_t)sizeof(gpur_log_entry) + gpur_round_up(lane->player.shape->frame_bytes, 8);
    lane->action_is_int64 = schema->fields[gpur_schema_find(schema, "action")].dtype == GPUR_INT64;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    if (gpur_replay_settings(replay)->layout == GPUR_LAYOUT_FRAMES)
        config.observations = GPUR_OBSERVATIONS_FRAMES;
    return gpur_writer_open(replay, &config, &lane->writer);
}

void gpur_lane_close(gpur_lane *lane)
{
    gpur_writer_destroy(lane->writer);
    gpur_player_close(&lane->player);
    free(lane->log.entries);
}
