/* SPDX-License-Identifier: MIT */
/* Offline runs: train steps on a replay as it is, and evaluations between them. */
#include "gpureplay/offline.h"

#include "base/numbers.h"
#include "learn/learner.h"
#include "replay/view.h"
#include "run/evaluating_policy.h"
#include "run/core.h"
#include "run/evaluate.h"
#include "run/folder.h"
#include "run/state_file.h"

#include <inttypes.h>
#include <stdlib.h>

/* Random numbers and seeds of evaluations are of streams that no environment of a run has. */
enum { TRAIN_SLICE = 32 /* train steps between two looks at gpur_run_stop */, FIRST_STREAM = 1 << 20 };

typedef struct gpur_offline {
    gpur_run core; /* the first member: gpur_run_destroy frees it */
    gpur_learner *learner;
    gpur_obs_shape shape;    /* of evaluations, as what follows */
    gpur_policy *policy;     /* with the weights that are evaluated; NULL: there are no environments */
    int64_t eval_games;      /* evaluations begun, from which the seeds of their environments follow */
    uint64_t eval_steps;     /* the most steps of an environment in them, from which their random numbers follow */
    gpur_evaluator *playing; /* under the lock: the evaluation that is played */
} gpur_offline;

static gpur_offline *offline_of(gpur_run *core)
{
    return (gpur_offline *)core;
}

static const gpur_network_config *network_of(const gpur_offline *run)
{
    return run->learner->networks[0].config;
}

/* Evaluations. */

typedef struct evaluation {
    gpur_offline *run;
    gpur_evaluator evaluator;
    gpur_evaluating_policy acting;
} evaluation;

static gpur_status choose(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                          const uint64_t *steps, int32_t greedy, void *actions)
{
    evaluation *const e = context;
    const float epsilon = greedy || e->acting.numbers > 0 ? 0.0f : e->run->core.config.eval_epsilon;
    return gpur_evaluating_policy_act(&e->acting, count, obs, streams, steps, epsilon, greedy, actions);
}

static int is_stopping(void *context)
{
    const evaluation *const e = context;
    return gpur_run_is_stopping(&e->run->core);
}

static gpur_status open_evaluation(evaluation *e, int64_t episodes)
{
    gpur_env_info info;
    gpur_space actions = {0}; /* of the first environment */
    gpur_offline *const run = e->run;
    const gpur_run_config *const config = &run->core.config;
    const int64_t made = run->eval_games++;
    const int32_t envs = (int32_t)gpur_min(gpur_run_eval_envs(config, config->eval_episodes), episodes);
    GPUR_TRY(gpur_evaluator_alloc(&e->evaluator, envs, config->type,
                                  gpur_evaluating_policy_action_bytes(network_of(run)), FIRST_STREAM));
    for (int32_t i = 0; i < envs; i++) {
        const uint64_t seed = gpur_run_env_seed(config->seed, FIRST_STREAM + i, made);
        e->evaluator.taken[i] = run->eval_steps;
        GPUR_TRY(gpur_run_make_env(config, seed, &e->evaluator.runners[i], &info));
        if (i == 0)
            actions = info.action;
    }
    GPUR_TRY(gpur_evaluating_policy_open(&e->acting, run->policy, network_of(run), &actions, envs));
    return gpur_evaluator_open(&e->evaluator, &run->shape, gpur_replay_settings(run->learner->replay)->check_finite);
}

static gpur_status play(evaluation *e, int64_t episodes, int32_t greedy)
{
    GPUR_TRY(open_evaluation(e, episodes));
    gpur_evaluator_begin(&e->evaluator, episodes, greedy);
    return gpur_evaluator_play(&e->evaluator, choose, e, is_stopping);
}

/* Statistics show the evaluation while it is played, and count it afterwards. */
static void show(gpur_offline *run, gpur_evaluator *e)
{
    gpur_mutex_lock(&run->core.lock);
    if (!e) {
        gpur_evaluator_fill_stats(run->playing, &run->core.stats);
        run->core.stats.eval_episode = 0;
    }
    run->playing = e;
    gpur_mutex_unlock(&run->core.lock);
}

static gpur_status evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event)
{
    gpur_offline *const run = offline_of(core);
    evaluation e = {.run = run};
    const int64_t games = run->eval_games;
    const uint64_t steps = run->eval_steps;
    GPUR_REQUIRE(run->policy, "the run was made without environments; evaluations need them");
    GPUR_TRY(gpur_learner_check_weights(run->learner, NULL));
    GPUR_TRY(gpur_policy_pull(run->policy, run->learner, GPUR_WEIGHTS_ONLINE));
    show(run, &e.evaluator);
    const gpur_status status = gpur_prefix_error(play(&e, episodes, greedy), "the evaluation");
    show(run, NULL);
    for (int32_t i = 0; i < e.evaluator.count; i++)
        run->eval_steps = e.evaluator.taken[i] > run->eval_steps ? e.evaluator.taken[i] : run->eval_steps;
    if (status != GPUR_OK || !gpur_evaluator_is_over(&e.evaluator)) /* stopped: played anew, it has the same games */
        run->eval_games = games, run->eval_steps = steps;
    event->env_steps = event->train_steps = core->stats.train_steps;
    event->loss = gpur_learner_newest_loss(run->learner);
    event->version = gpur_policy_version(run->policy);
    event->policy = run->policy;
    gpur_evaluator_fill_event(&e.evaluator, event);
    gpur_evaluator_close(&e.evaluator);
    gpur_evaluating_policy_close(&e.acting);
    return status;
}

/* The step after which the next evaluation is due: the multiple of the period after the last one. */
static int64_t next_evaluation(const gpur_offline *run)
{
    const gpur_run_config *const c = &run->core.config;
    const int has = run->policy && c->eval_period > 0;
    return has ? run->core.evaluated_at - run->core.evaluated_at % c->eval_period + c->eval_period : INT64_MAX;
}

static gpur_status evaluate_when_due(gpur_offline *run)
{
    gpur_run_event event = {.kind = GPUR_RUN_EVALUATION, .env_index = -1};
    const int64_t done = run->core.stats.train_steps;
    if (done < next_evaluation(run) || gpur_run_is_stopping(&run->core))
        return GPUR_OK;
    GPUR_TRY(evaluate(&run->core, run->core.config.eval_episodes, 0, &event));
    if (gpur_run_is_stopping(&run->core))
        return GPUR_OK;
    run->core.evaluated_at = done;
    gpur_run_report_evaluation(&run->core, &event);
    return GPUR_OK;
}

/* Training. */

static gpur_status train(gpur_offline *run, int64_t steps)
{
    const double begin = gpur_clock_seconds();
    GPUR_TRY(gpur_learner_train(run->learner, steps));
    GPUR_TRY(gpur_learner_sync(run->learner));
    gpur_mutex_lock(&run->core.lock);
    run->core.stats.train_seconds += gpur_clock_seconds() - begin;
    run->core.stats.train_steps += steps;
    run->core.stats.env_steps = run->core.stats.train_steps;
    gpur_mutex_unlock(&run->core.lock);
    return GPUR_OK;
}

/* An evaluation that is due after the last step is delivered, too, and one that was stopped is played now. */
static gpur_status advance(gpur_run *core, int64_t steps, int64_t train_steps)
{
    gpur_offline *const run = offline_of(core);
    const int64_t end = core->stats.train_steps + steps;
    (void)train_steps;
    GPUR_TRY(evaluate_when_due(run));
    while (core->stats.train_steps < end && !gpur_run_is_stopping(core)) {
        const int64_t done = core->stats.train_steps, next = gpur_min(end, next_evaluation(run));
        GPUR_TRY(train(run, gpur_min(TRAIN_SLICE - done % TRAIN_SLICE, next - done)));
        GPUR_TRY(evaluate_when_due(run));
    }
    return gpur_learner_check_weights(run->learner, NULL);
}

/* Files. */

typedef struct offline_state {
    int64_t steps, rows, eval_games, eval_steps;
} offline_state;

static gpur_state_table table_of(gpur_offline *run, offline_state *state)
{
    gpur_state_table table = {.run = &run->core, .kind = "offline run", .device = run->learner->device};
    gpur_state_add_count(&table, "train_steps", GPUR_SCALAR_I64, &state->steps);
    gpur_state_add_count(&table, "rows", GPUR_SCALAR_I64, &state->rows);
    gpur_state_add_count(&table, "eval_games", GPUR_SCALAR_I64, &state->eval_games);
    gpur_state_add_count(&table, "eval_steps", GPUR_SCALAR_I64, &state->eval_steps);
    return table;
}

static gpur_status save(gpur_run *core, const char *folder)
{
    gpur_offline *const run = offline_of(core);
    gpur_folder_position position;
    GPUR_TRY(gpur_folder_make(folder));
    GPUR_TRY(gpur_folder_save(folder, run->learner, &position));
    offline_state state = {core->stats.train_steps, position.rows, run->eval_games, (int64_t)run->eval_steps};
    gpur_state_table table = table_of(run, &state);
    table.trained = position.trained;
    return gpur_state_write(&table, folder);
}

static gpur_status load(gpur_run *core, const char *folder, int32_t refill)
{
    gpur_offline *const run = offline_of(core);
    offline_state state = {0};
    gpur_state_table table = table_of(run, &state);
    GPUR_REQUIRE(core->stats.train_steps == 0,
                 "the run has taken %" PRId64 " steps; load before the first gpur_run_advance",
                 core->stats.train_steps);
    GPUR_TRY(gpur_state_read(&table, folder));
    GPUR_TRY(gpur_folder_check(folder, &(gpur_folder_position){table.trained, state.rows}, refill));
    const gpur_status status = gpur_folder_load(folder, run->learner, refill);
    if (status != GPUR_OK)
        return gpur_run_fail_loading(core, status);
    gpur_state_restore(&table);
    gpur_mutex_lock(&core->lock);
    core->stats.train_steps = core->stats.env_steps = state.steps;
    gpur_mutex_unlock(&core->lock);
    run->eval_games = state.eval_games;
    run->eval_steps = (uint64_t)state.eval_steps;
    return GPUR_OK;
}

/* The run. */

static void fill_stats(gpur_run *core, gpur_run_stats *stats)
{
    const gpur_offline *const run = offline_of(core);
    if (run->playing)
        gpur_evaluator_fill_stats(run->playing, stats);
}

static double loss(gpur_run *core)
{
    return gpur_learner_newest_loss(core->learner);
}

static void destroy(gpur_run *core)
{
    gpur_offline *const run = offline_of(core);
    gpur_policy_destroy(run->policy);
    gpur_run_close(core);
    free(run);
}

static const gpur_run_system run_system = {.advance = advance,
                                           .evaluate = evaluate,
                                           .save = save,
                                           .load = load,
                                           .fill_stats = fill_stats,
                                           .loss = loss,
                                           .destroy = destroy};

/* What a run without environments has in the place of their type. */
static const char *refuse_env(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed, (void)info;
    *env = NULL;
    return "there is no environment";
}

static const char *refuse_reset(void *env, void *obs)
{
    (void)env, (void)obs;
    return "there is no environment";
}

static const char *refuse_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    (void)env, (void)action, (void)obs, (void)result;
    return "there is no environment";
}

static void close_nothing(void *env)
{
    (void)env;
}

static const gpur_env_type no_env = {.size = sizeof no_env,
                                     .name = "none",
                                     .init = refuse_env,
                                     .reset = refuse_reset,
                                     .step = refuse_step,
                                     .close = close_nothing};

static gpur_status open_policy(gpur_offline *run)
{
    gpur_policy_config config;
    const gpur_run_config *const all = &run->core.config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.network = *network_of(run);
    config.obs = run->learner->obs;
    config.max_batch = gpur_run_eval_envs(all, all->eval_episodes);
    config.math = run->learner->math;
    config.seed = all->seed;
    return gpur_policy_create(run->learner->device, &config, &run->policy);
}

/* An environment shows what the learner's network sees, and takes its actions. */
static gpur_status check_env(gpur_offline *run)
{
    gpur_env_info info = {.size = sizeof info};
    gpur_replay *const replay = run->learner->replay;
    const gpur_run_config *const all = &run->core.config;
    gpur_evaluating_policy acting = {0};
    GPUR_TRY(gpur_env_get_info(all->type, all->env_options, &info));
    GPUR_TRY(gpur_obs_shape_find(&info.obs, gpur_replay_schema(replay), gpur_replay_settings(replay), &run->shape));
    const gpur_status status = gpur_evaluating_policy_open(&acting, NULL, network_of(run), &info.action, 1);
    gpur_evaluating_policy_close(&acting);
    return status;
}

static gpur_status build(gpur_offline *run, const gpur_run_config *given)
{
    gpur_run_config none;
    GPUR_TRY(gpur_run_config_init(&none, sizeof none));
    none.type = &no_env;
    GPUR_TRY(gpur_run_open(&run->core, &run_system, given ? given : &none));
    GPUR_TRY(gpur_run_require_type(&run->core.config, "an offline run"));
    if (!given || run->core.config.eval_episodes == 0)
        return GPUR_OK;
    GPUR_TRY(check_env(run));
    return open_policy(run);
}

gpur_status gpur_offline_create(gpur_learner *learner, const gpur_run_config *run_config, gpur_run **out)
{
    GPUR_REQUIRE(out, "handle, which gets the run, is NULL");
    *out = NULL;
    GPUR_REQUIRE(learner, "learner is NULL");
    GPUR_REQUIRE(learner->step, "gpur_offline_create needs a learner of a replay, of DQN, DPG or SAC; this is %s",
                 learner->algorithm->name);
    gpur_offline *const run = calloc(1, sizeof *run);
    if (!run)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *run);
    run->learner = run->core.learner = learner;
    const gpur_status status = build(run, run_config);
    if (status != GPUR_OK) {
        destroy(&run->core);
        return status;
    }
    *out = &run->core;
    return GPUR_OK;
}
