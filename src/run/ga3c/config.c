/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults and checks. */
#include "run/ga3c/handle.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>

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
    .tuner_settling = 1.0,
    .max_agents = GPUR_GA3C_MAX_AGENTS,
};

gpur_status gpur_ga3c_config_init(gpur_ga3c_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_ga3c_config");
}

static gpur_status check_reals(const gpur_ga3c_config *c)
{
    GPUR_REQUIRE(c->discount >= 0.0f && c->discount <= 1.0f, "discount is %g; it must be 0 to 1", (double)c->discount);
    GPUR_REQUIRE(c->reward_clip >= 0.0f && c->reward_clip < INFINITY,
                 "reward_clip is %g; it must be 0 (none) or more, and finite", (double)c->reward_clip);
    GPUR_REQUIRE(c->tuner_period >= 0.0 && c->tuner_period < 1e9,
                 "tuner_period is %g seconds; it must be 0 (60, or 20 for GPUR_TUNER_CODE) or more, and below 1e9",
                 c->tuner_period);
    GPUR_REQUIRE(c->tuner_settling >= 0.0 && c->tuner_settling < 1e9,
                 "tuner_settling is %g seconds; it must be 0 or more, and below 1e9", c->tuner_settling);
    return GPUR_OK;
}

static gpur_status check_values(const gpur_ga3c_config *c)
{
    GPUR_TRY(gpur_choice_check(c->system, GPUR_A2C, "system", "GPUR_GA3C, GPUR_A3C or GPUR_A2C"));
    GPUR_TRY(gpur_range_check(c->t_max, 1, GPUR_GA3C_MAX_ROLLOUT, "t_max"));
    GPUR_TRY(gpur_choice_check(c->drop_terminal, 1, "drop_terminal", "0 or 1"));
    GPUR_TRY(gpur_range_check(c->max_prediction_batch, 1, MAX_BATCH, "max_prediction_batch"));
    GPUR_TRY(gpur_range_check(c->min_train_batch, 0, MAX_BATCH, "min_train_batch"));
    GPUR_TRY(gpur_range_check(c->queue_room, 1, MAX_ROOM, "queue_room"));
    GPUR_TRY(
        gpur_choice_check(c->when_full, GPUR_QUEUE_DROP_OLDEST, "when_full", "GPUR_QUEUE_WAIT, REFUSE or DROP_OLDEST"));
    GPUR_TRY(gpur_choice_check(c->tuner, GPUR_TUNER_CODE, "tuner", "GPUR_TUNER_NONE, PAPER or CODE"));
    GPUR_TRY(gpur_range_check(c->max_agents, 1, GPUR_GA3C_MAX_AGENTS, "max_agents"));
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
    GPUR_TRY(gpur_range_check(numbers.agents, 1, GPUR_GA3C_MAX_AGENTS, "agents"));
    GPUR_TRY(gpur_range_check(numbers.predictors, 1, GPUR_GA3C_MAX_PREDICTORS, "predictors"));
    GPUR_TRY(gpur_range_check(numbers.trainers, 1, GPUR_GA3C_MAX_TRAINERS, "trainers"));
    GPUR_REQUIRE(c->tuner == GPUR_TUNER_NONE || numbers.agents <= c->max_agents,
                 "agents is %d and max_agents %d; with a tuner agents must be at most max_agents", (int)numbers.agents,
                 (int)c->max_agents);
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

/* Observations with one axis more than the environment's are a stack of its frames. */
static gpur_status check_env(gpur_ga3c *run)
{
    const gpur_ga3c_model *const model = &run->model;
    gpur_env_info info = {.size = sizeof info};
    GPUR_TRY(gpur_env_get_info(run->core.config.type, run->core.config.env_options, &info));
    const int32_t dims = gpur_shape_dims(info.obs.shape), wanted = gpur_shape_dims(model->obs.shape);
    const int32_t axis = dims == 0 || dims >= wanted ? -1 : model->stack_is_last ? wanted - 1 : 0;
    GPUR_TRY(gpur_actions_check(&info.action, model->num_actions));
    GPUR_TRY(gpur_obs_shape_of(&info.obs, model->obs.dtype, model->obs.shape, axis, "the learner's observation",
                               &run->shape));
    run->obs_bytes = gpur_obs_bytes(&run->shape);
    return GPUR_OK;
}

gpur_status gpur_ga3c_read_config(const gpur_ga3c_config *given, gpur_ga3c_config *config)
{
    *config = defaults;
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_ga3c_config"));
    GPUR_TRY(gpur_range_check(config->predictors, 1, GPUR_GA3C_MAX_PREDICTORS, "predictors"));
    GPUR_TRY(check_values(config));
    if (config->tuner_period == 0.0)
        config->tuner_period = config->tuner == GPUR_TUNER_CODE ? 20.0 : 60.0;
    return GPUR_OK;
}

gpur_status gpur_ga3c_configure(gpur_ga3c *run, const gpur_ga3c_config *given)
{
    gpur_ga3c_config *const c = &run->config;
    GPUR_TRY(gpur_ga3c_read_config(given, c));
    GPUR_TRY(gpur_run_require_type(&run->core.config, "GA3C"));
    run->numbers = gpur_ga3c_numbers_of(run, c->agents, c->predictors, c->trainers);
    run->largest = run->numbers;
    GPUR_TRY(gpur_ga3c_check_numbers(run, run->numbers));
    GPUR_TRY(set_batch(run));
    return check_env(run);
}
