/* SPDX-License-Identifier: MIT */
/* Plays whole games with the present weights, between two advances, when predictors do nothing. */
#include "run/ga3c/handle.h"

#include "base/numbers.h"
#include "run/evaluate.h"

/* Random numbers and seeds of evaluations are those of agents that no run has. */
enum { FIRST_STREAM = GPUR_GA3C_MAX_AGENTS };

static gpur_status choose(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                          const uint64_t *steps, int32_t greedy, void *actions)
{
    const gpur_ga3c *const run = context;
    float values[GPUR_GA3C_MAX_AGENTS];
    int64_t version;
    return run->model.predict(run->model.context, count, obs, streams, steps, greedy, actions, values, &version);
}

static int is_stopping(void *context)
{
    gpur_ga3c *const run = context;
    return gpur_run_is_stopping(&run->core);
}

static gpur_status make_envs(gpur_ga3c *run, gpur_evaluator *e)
{
    gpur_env_info info;
    const int64_t made = run->eval_games++;
    for (int32_t i = 0; i < e->count; i++) {
        const uint64_t seed = gpur_run_env_seed(run->core.config.seed, FIRST_STREAM + i, made);
        e->taken[i] = run->eval_steps;
        GPUR_TRY(
            gpur_prefix_error(gpur_run_make_env(&run->core.config, seed, &e->runners[i], &info), "the evaluation"));
    }
    return GPUR_OK;
}

static gpur_status play(gpur_ga3c *run, gpur_evaluator *e, int64_t episodes, int32_t greedy)
{
    const int64_t wanted = gpur_min(gpur_run_eval_envs(&run->core.config, episodes), episodes);
    const int32_t envs = (int32_t)gpur_min(wanted, run->config.max_prediction_batch);
    GPUR_TRY(gpur_evaluator_alloc(e, envs, run->core.config.type, sizeof(int32_t), FIRST_STREAM));
    GPUR_TRY(make_envs(run, e));
    GPUR_TRY(gpur_evaluator_open(e, &run->shape, run->model.check_finite));
    gpur_evaluator_begin(e, episodes, greedy);
    return gpur_prefix_error(gpur_evaluator_play(e, choose, run, is_stopping), "the evaluation");
}

static void count(gpur_ga3c *run, const gpur_evaluator *e)
{
    gpur_mutex_lock(&run->core.lock);
    gpur_evaluator_fill_stats(e, &run->core.stats);
    run->core.stats.eval_episode = 0;
    run->evaluator = NULL;
    gpur_mutex_unlock(&run->core.lock);
    for (int32_t i = 0; i < e->count; i++)
        run->eval_steps = e->taken[i] > run->eval_steps ? e->taken[i] : run->eval_steps;
}

gpur_status gpur_ga3c_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event)
{
    gpur_ga3c *const run = gpur_ga3c_of(core);
    gpur_evaluator e = {0};
    const int64_t games = run->eval_games;
    const uint64_t steps = run->eval_steps;
    GPUR_TRY(run->model.broadcast(run->model.context));
    gpur_mutex_lock(&core->lock);
    run->evaluator = &e; /* statistics show the evaluation while it is played */
    gpur_mutex_unlock(&core->lock);
    const gpur_status status = play(run, &e, episodes, greedy);
    count(run, &e);
    if (status == GPUR_OK && !gpur_evaluator_is_over(&e)) /* stopped: played anew, it has the same games */
        run->eval_games = games, run->eval_steps = steps;
    gpur_mutex_lock(&core->lock);
    event->env_steps = core->stats.env_steps;
    event->train_steps = core->stats.train_steps;
    event->loss = core->system->loss(core);
    gpur_mutex_unlock(&core->lock);
    event->version = run->model.steps(run->model.context);
    event->policy = run->model.policy;
    gpur_evaluator_fill_event(&e, event);
    gpur_evaluator_close(&e);
    return status;
}
