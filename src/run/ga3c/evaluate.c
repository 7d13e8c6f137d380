/* SPDX-License-Identifier: MIT */
/* Plays whole games with the present weights, between two advances, when predictors do nothing. */
#include "run/ga3c/ga3c.h"

#include <inttypes.h>

/* Random numbers and seeds of evaluations are those of an agent that no run has. */
enum { EVALUATOR = GPUR_GA3C_MAX_AGENTS };

static gpur_status choose(gpur_ga3c *run, const gpur_env_runner *runner, int32_t greedy, int32_t *action)
{
    const uint32_t lane = EVALUATOR;
    const uint64_t step = run->eval_steps++;
    float value;
    int64_t version;
    return run->model.predict(run->model.context, 1, runner->obs, &lane, &step, greedy, action, &value, &version);
}

/* A loss of a life does not end the game. */
static gpur_status play_game(gpur_ga3c *run, gpur_env_runner *runner, int32_t greedy, double *sum)
{
    gpur_env_result result = {.terminated = 1, .continues = 1};
    while (result.continues || !(result.terminated || result.truncated)) {
        int32_t action;
        if (atomic_exchange(&run->stopping, 0))
            return gpur_fail(GPUR_INTERRUPTED, "the evaluation was stopped");
        if (result.terminated || result.truncated)
            GPUR_TRY(gpur_env_runner_reset(runner));
        GPUR_TRY(choose(run, runner, greedy, &action));
        GPUR_TRY(gpur_env_runner_step(runner, &action, &result));
        result.continues &= result.terminated | result.truncated;
        *sum += (double)result.reward;
    }
    return GPUR_OK;
}

static gpur_status play(gpur_ga3c *run, int64_t episodes, int32_t greedy, double *mean_return)
{
    gpur_env_runner runner = {.evaluates = 1};
    double sum = 0.0;
    gpur_status status = gpur_ga3c_open_runner(run, gpur_ga3c_env_seed(run, run->eval_games++, EVALUATOR), &runner);
    for (int64_t i = 0; i < episodes && status == GPUR_OK; i++)
        status = play_game(run, &runner, greedy, &sum);
    gpur_mutex_lock(&run->lock);
    run->eval_cut += runner.cut;
    gpur_mutex_unlock(&run->lock);
    gpur_ga3c_close_runner(&runner);
    *mean_return = sum / (double)episodes;
    return gpur_prefix_error(status, "the evaluation");
}

gpur_status gpur_ga3c_evaluate(gpur_ga3c *run, int64_t episodes, int32_t greedy, double *mean_return)
{
    double mean = 0.0;
    GPUR_TRY(gpur_ga3c_check_open(run));
    GPUR_REQUIRE(episodes >= 1, "episodes is %" PRId64 "; it must be 1 or more", episodes);
    GPUR_REQUIRE(greedy == 0 || greedy == 1, "greedy is %d; it must be 0 or 1", (int)greedy);
    GPUR_REQUIRE(mean_return, "mean_return is NULL");
    GPUR_TRY(run->model.publish(run->model.context));
    GPUR_TRY(play(run, episodes, greedy, &mean));
    *mean_return = mean;
    return GPUR_OK;
}
