/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults and checks. */
#include "ga3c/ga3c.h"

#include "base/sized.h"
#include "env/type.h"
#include "replay/config.h"
#include "run/system.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_BATCH = 65536, MAX_ROOM = 65536 };

static const gpur_ga3c_config defaults = {
    .size = sizeof(gpur_ga3c_config),
    .agents = 32,
    .predictors = 2,
    .trainers = 2,
    .t_max = 5,
    .discount = 0.99f,
    .reward_clip = 1.0f,
    .max_prediction_batch = 128,
    .queue_room = 100,
    .tuner_period = 60.0,
    .tuner_settling = 1.0,
    .max_agents = GPUR_GA3C_MAX_AGENTS,
};

gpur_status gpur_ga3c_config_init(gpur_ga3c_config *config, uint64_t size)
{
    GPUR_REQUIRE(config, "gpur_ga3c_config is NULL");
    GPUR_REQUIRE(size >= sizeof size && size <= 65536, "size is %" PRIu64 "; it must be sizeof(gpur_ga3c_config)",
                 size);
    config->size = size;
    return gpur_sized_write(config, &defaults, sizeof defaults, "gpur_ga3c_config");
}

static gpur_status check_range(int64_t value, int64_t first, int64_t last, const char *name)
{
    GPUR_REQUIRE(value >= first && value <= last, "%s is %" PRId64 "; it must be %" PRId64 " to %" PRId64, name, value,
                 first, last);
    return GPUR_OK;
}

static gpur_status check_reals(const gpur_ga3c_config *c)
{
    GPUR_REQUIRE(c->discount >= 0.0f && c->discount <= 1.0f, "discount is %g; it must be 0 to 1", (double)c->discount);
    GPUR_REQUIRE(c->reward_clip >= 0.0f && c->reward_clip < INFINITY,
                 "reward_clip is %g; it must be 0 (none) or more, and finite", (double)c->reward_clip);
    GPUR_REQUIRE(c->tuner_period > 0.0 && c->tuner_period < 1e9,
                 "tuner_period is %g seconds; it must be above 0, and below 1e9", c->tuner_period);
    GPUR_REQUIRE(c->tuner_settling >= 0.0 && c->tuner_settling < 1e9,
                 "tuner_settling is %g seconds; it must be 0 or more, and below 1e9", c->tuner_settling);
    return GPUR_OK;
}

static gpur_status check_values(const gpur_ga3c_config *c)
{
    GPUR_TRY(gpur_choice_check(c->system, GPUR_A2C, "system", "GPUR_GA3C, GPUR_A3C or GPUR_A2C"));
    GPUR_TRY(check_range(c->t_max, 1, GPUR_GA3C_MAX_ROLLOUT, "t_max"));
    GPUR_TRY(gpur_choice_check(c->drop_terminal, 1, "drop_terminal", "0 or 1"));
    GPUR_TRY(check_range(c->max_prediction_batch, 1, MAX_BATCH, "max_prediction_batch"));
    GPUR_TRY(check_range(c->min_train_batch, 0, MAX_BATCH, "min_train_batch"));
    GPUR_TRY(check_range(c->queue_room, 1, MAX_ROOM, "queue_room"));
    GPUR_TRY(
        gpur_choice_check(c->when_full, GPUR_QUEUE_DROP_OLDEST, "when_full", "GPUR_QUEUE_WAIT, REFUSE or DROP_OLDEST"));
    GPUR_TRY(gpur_choice_check(c->tuner, GPUR_TUNER_CODE, "tuner", "GPUR_TUNER_NONE, PAPER or CODE"));
    GPUR_TRY(check_range(c->max_agents, 1, GPUR_GA3C_MAX_AGENTS, "max_agents"));
    GPUR_TRY(gpur_reserved_check(&(const int64_t){c->reserved}, 1, "gpur_ga3c_config"));
    GPUR_REQUIRE(c->tuner == GPUR_TUNER_NONE || c->system == GPUR_GA3C,
                 "tuner is %d and system %d; a tuner is for GPUR_GA3C (0) alone", (int)c->tuner, (int)c->system);
    return check_reals(c);
}

gpur_ga3c_numbers gpur_ga3c_numbers_of(const gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers)
{
    const int is_ga3c = run->config.system == GPUR_GA3C;
    return (gpur_ga3c_numbers){agents, is_ga3c ? predictors : 1, is_ga3c ? trainers : 1};
}

gpur_status gpur_ga3c_check_numbers(const gpur_ga3c *run, gpur_ga3c_numbers numbers)
{
    const gpur_ga3c_config *const c = &run->config;
    GPUR_TRY(check_range(numbers.agents, 1, GPUR_GA3C_MAX_AGENTS, "agents"));
    GPUR_TRY(check_range(numbers.predictors, 1, GPUR_GA3C_MAX_PREDICTORS, "predictors"));
    GPUR_TRY(check_range(numbers.trainers, 1, GPUR_GA3C_MAX_TRAINERS, "trainers"));
    GPUR_REQUIRE(c->system != GPUR_A2C || numbers.agents * (int64_t)c->t_max <= run->model.max_batch,
                 "agents is %d and t_max %d, and the learner's max_batch %" PRId64
                 "; with GPUR_A2C their product must be at most max_batch",
                 (int)numbers.agents, (int)c->t_max, run->model.max_batch);
    return GPUR_OK;
}

/* How large a batch can become. */
static gpur_status set_batch(gpur_ga3c *run)
{
    const gpur_ga3c_config *const c = &run->config;
    const int is_a2c = c->system == GPUR_A2C;
    const int64_t least = c->system == GPUR_GA3C ? c->min_train_batch : 0;
    GPUR_REQUIRE(least + c->t_max <= run->model.max_batch,
                 "min_train_batch is %" PRId64 " and t_max %d, and the learner's max_batch %" PRId64
                 "; their sum must be at most max_batch",
                 least, (int)c->t_max, run->model.max_batch);
    GPUR_REQUIRE(c->system != GPUR_A3C || run->model.local_open, "the model has no copies for agents, and system is "
                                                                 "GPUR_A3C");
    run->most_rows = is_a2c ? run->model.max_batch : least + c->t_max;
    run->most_rollouts = is_a2c ? GPUR_GA3C_MAX_AGENTS : least + 1;
    return GPUR_OK;
}

/* Observations. */

static gpur_status check_lengths(const gpur_ga3c_model *model, const gpur_space *space, int has_stack)
{
    const int32_t wanted = gpur_shape_dims(model->obs.shape), axis = model->stack_is_last ? wanted - 1 : 0;
    for (int32_t i = 0; i < gpur_shape_dims(space->shape); i++) {
        const int32_t length = model->obs.shape[has_stack && i >= axis ? i + 1 : i];
        GPUR_REQUIRE(space->shape[i] == length,
                     "axis %d of the environment's observations is %d long and that of %s %d; they must be the same",
                     (int)i, (int)space->shape[i],
                     has_stack ? "a frame of the learner's observations" : "the learner's observations", (int)length);
    }
    return GPUR_OK;
}

static gpur_status find_shape(gpur_ga3c *run, const gpur_env_info *info)
{
    const gpur_ga3c_model *const model = &run->model;
    const int32_t dims = gpur_shape_dims(info->obs.shape), wanted = gpur_shape_dims(model->obs.shape);
    gpur_obs_shape *const shape = &run->shape;
    GPUR_REQUIRE(info->action.num_actions == model->num_actions,
                 "the environment has %d discrete actions and the learner's network %d; they must be the same",
                 (int)info->action.num_actions, (int)model->num_actions);
    GPUR_REQUIRE(info->obs.dtype == model->obs.dtype,
                 "the environment's observations are %s and the learner's %s; they must be the same",
                 gpur_dtype_name(info->obs.dtype), gpur_dtype_name(model->obs.dtype));
    GPUR_REQUIRE(dims == wanted || (dims > 0 && dims + 1 == wanted),
                 "the environment's observations have %d axes and the learner's %d; they must be as many, or one less",
                 (int)dims, (int)wanted);
    GPUR_TRY(check_lengths(model, &info->obs, dims != wanted));
    shape->is_last_axis = dims != wanted && model->stack_is_last;
    shape->stack = dims == wanted ? 1 : model->obs.shape[model->stack_is_last ? wanted - 1 : 0];
    shape->element_bytes = gpur_dtype_bytes(info->obs.dtype);
    shape->frame_bytes = shape->element_bytes;
    for (int32_t i = 0; i < dims; i++)
        shape->frame_bytes *= info->obs.shape[i];
    run->obs_bytes = gpur_obs_bytes(shape);
    return GPUR_OK;
}

static gpur_status check_env(gpur_ga3c *run)
{
    gpur_env_info info = {.size = sizeof info};
    GPUR_TRY(gpur_env_type_check(run->type));
    GPUR_TRY(gpur_env_get_info(run->type, run->env_options, &info));
    return find_shape(run, &info);
}

gpur_status gpur_ga3c_read_config(const gpur_ga3c_config *given, gpur_ga3c_config *config)
{
    *config = defaults;
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_ga3c_config"));
    GPUR_TRY(check_range(config->predictors, 1, GPUR_GA3C_MAX_PREDICTORS, "predictors"));
    return check_values(config);
}

gpur_status gpur_ga3c_configure(gpur_ga3c *run, const gpur_ga3c_config *given)
{
    gpur_ga3c_config *const c = &run->config;
    GPUR_TRY(gpur_ga3c_read_config(given, c));
    run->numbers = gpur_ga3c_numbers_of(run, c->agents, c->predictors, c->trainers);
    run->largest = run->numbers;
    GPUR_TRY(gpur_ga3c_check_numbers(run, run->numbers));
    GPUR_TRY(set_batch(run));
    run->env_options = strdup(c->env_options ? c->env_options : "");
    c->env_options = NULL;
    if (!run->env_options)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the environments' options");
    return check_env(run);
}
