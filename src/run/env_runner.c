/* SPDX-License-Identifier: MIT */
/* An environment that is being played: its steps, its limits, and the stack of frames that the network sees. */
#include "run/env_runner.h"

#include "env/limit.h"
#include "replay/finite.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Observations. */

int32_t gpur_shape_dims(const int32_t *shape)
{
    int32_t dims = 0;
    while (dims < GPUR_MAX_DIMS && shape[dims] > 0)
        dims++;
    return dims;
}

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

gpur_status gpur_env_runner_take_env(gpur_env_runner *runner, void *env, const gpur_env_info *info)
{
    const gpur_env_type *const type = runner->type;
    runner->env = env;
    GPUR_REQUIRE(env, "init of %s returned no environment", type->name);
    runner->is_bounded = runner->evaluates && info->max_steps == 0;
    runner->max_steps = runner->is_bounded ? GPUR_EVALUATION_STEPS : info->max_steps;
    GPUR_REQUIRE(info->max_steps >= 0, "max_steps of %s is %" PRId64 "; it must be 0 or more", type->name,
                 info->max_steps);
    GPUR_REQUIRE(info->save_bytes >= 0, "save_bytes of %s is %" PRId64 "; it must be 0 or more", type->name,
                 info->save_bytes);
    GPUR_REQUIRE(info->save_bytes == 0 || (type->save && type->load),
                 "save_bytes of %s is %" PRId64 " and it has no functions save and load; without them it must be 0",
                 type->name, info->save_bytes);
    return GPUR_OK;
}

void gpur_env_runner_limit(gpur_env_runner *runner, int64_t most)
{
    if (most == 0 || (runner->max_steps > 0 && runner->max_steps <= most))
        return;
    runner->max_steps = most;
    runner->is_bounded = 0;
}

void gpur_env_runner_close_env(gpur_env_runner *runner)
{
    if (runner->env)
        runner->type->close(runner->env);
    runner->env = NULL;
}

void gpur_env_runner_close(gpur_env_runner *runner)
{
    gpur_env_runner_close_env(runner);
    free(runner->frame);
    runner->frame = NULL;
}

static gpur_status check_frame(gpur_env_runner *runner)
{
    const gpur_obs_shape *const shape = runner->shape;
    if (!runner->check_finite)
        return GPUR_OK;
    const int64_t found = gpur_find_not_finite(shape->dtype, runner->frame, shape->frame_bytes / shape->element_bytes);
    runner->has_refused = found >= 0;
    GPUR_REQUIRE(found < 0, "the observation is %s; its numbers must be finite",
                 gpur_not_finite_name(shape->dtype, runner->frame, found));
    return GPUR_OK;
}

gpur_status gpur_env_runner_note_beginning(gpur_env_runner *runner)
{
    GPUR_TRY(check_frame(runner));
    begin_obs(runner->shape, runner->obs, runner->frame);
    return GPUR_OK;
}

gpur_status gpur_env_runner_note_step(gpur_env_runner *runner, const gpur_env_result *result)
{
    GPUR_TRY(check_frame(runner));
    const gpur_status status = runner->check_finite ? gpur_check_reward_finite(result->reward) : GPUR_OK;
    runner->has_refused = status != GPUR_OK;
    if (status == GPUR_OK)
        push_frame(runner->shape, runner->obs, runner->frame);
    return status;
}

static void limit(gpur_env_runner *runner, gpur_env_result *result)
{
    runner->goes_on = (result->terminated || result->truncated) && result->continues;
    if (gpur_env_limit(runner->max_steps, ++runner->steps, result))
        runner->cut += runner->is_bounded;
}

gpur_status gpur_env_runner_reset(gpur_env_runner *runner)
{
    runner->steps = runner->goes_on ? runner->steps : 0;
    runner->goes_on = 0;
    GPUR_TRY(gpur_env_error(runner->type->reset(runner->env, runner->frame)));
    return gpur_env_runner_note_beginning(runner);
}

gpur_status gpur_env_runner_step(gpur_env_runner *runner, const void *action, gpur_env_result *result)
{
    *result = (gpur_env_result){0};
    GPUR_TRY(gpur_env_error(runner->type->step(runner->env, action, runner->frame, result)));
    GPUR_TRY(gpur_env_runner_note_step(runner, result));
    limit(runner, result);
    return GPUR_OK;
}

gpur_status gpur_env_runner_open(gpur_env_runner *runner, const gpur_obs_shape *shape, unsigned char *obs,
                                 int32_t check_finite)
{
    const int64_t bytes = shape->frame_bytes + (obs ? 0 : gpur_obs_bytes(shape));
    runner->shape = shape;
    runner->check_finite = check_finite;
    runner->frame = calloc(1, (size_t)bytes);
    if (!runner->frame)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of a frame", bytes);
    runner->obs = obs ? obs : runner->frame + shape->frame_bytes;
    return GPUR_OK;
}
