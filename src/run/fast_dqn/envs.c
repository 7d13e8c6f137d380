/* SPDX-License-Identifier: MIT */
/* The environments of a run of fast DQN: made, opened, begun, and made again after a load. */
#include "run/fast_dqn/handle.h"

#include "replay/view.h"
#include "run/action_vectors.h"
#include "run/single_env.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed_of(const gpur_fast_dqn *run, int32_t index)
{
    return gpur_run_env_seed(run->core.config.seed, index, run->core.stats.fast_dqn.prepopulated + run->step);
}

/* `index` W and above: an environment of evaluations. */
static gpur_status make_env(const gpur_fast_dqn *run, int32_t index, gpur_env_info *info)
{
    const gpur_status status =
        gpur_run_make_env(&run->core.config, seed_of(run, index), gpur_fast_dqn_runner(run, index), info);
    return index >= run->shape.envs ? gpur_prefix_error(status, "the evaluation")
                                    : gpur_prefix_error(status, "environment %d", (int)index);
}

static gpur_status make_vector(gpur_fast_dqn *run, gpur_env_info *info)
{
    const gpur_vector_env_type *const type = run->vector.type;
    void *env = NULL;
    *info = (gpur_env_info){.size = sizeof *info};
    const char *const refusal = type->init(run->core.config.env_options, seed_of(run, 0), run->shape.envs, info, &env);
    GPUR_TRY(gpur_prefix_error(gpur_env_error(refusal), "%s", type->name));
    run->vector.env = env;
    GPUR_REQUIRE(env, "init of %s returned no environment", type->name);
    info->save_bytes = 0;
    return GPUR_OK;
}

/* Refuses an environment that shows or takes something else than the first one: memory is as large as that needs. */
static gpur_status check_same(const gpur_fast_dqn *run, const gpur_env_info *info, int32_t index)
{
    const gpur_space *const first = &run->info.obs, *const obs = &info->obs;
    const int is_same = obs->dtype == first->dtype && memcmp(obs->shape, first->shape, sizeof obs->shape) == 0;
    const int takes_same = info->action.num_actions == run->info.action.num_actions &&
                           memcmp(info->action.shape, run->info.action.shape, sizeof info->action.shape) == 0;
    GPUR_REQUIRE(is_same && takes_same,
                 "environment %d (%d and above are the evaluation's) has other observations or actions than "
                 "environment 0; all must "
                 "have the same",
                 (int)index, (int)run->shape.envs);
    GPUR_REQUIRE(run->vector.type || info->save_bytes == run->info.save_bytes,
                 "environment %d saves %" PRId64 " bytes and environment 0 %" PRId64 "; they must be the same",
                 (int)index, info->save_bytes, run->info.save_bytes);
    return GPUR_OK;
}

/* The environments of the slots, in their order, and those of evaluations. The first one tells what all are like. */
static gpur_status make_envs(gpur_fast_dqn *run)
{
    const int is_first = run->info.size == 0;
    gpur_env_info info;
    for (int32_t i = 0; i < run->shape.envs + run->evaluator.count; i++) {
        if (gpur_fast_dqn_runner(run, i)->type)
            GPUR_TRY(make_env(run, i, &info));
        else if (i == 0)
            GPUR_TRY(make_vector(run, &info));
        else
            continue;
        if (i == 0 && is_first)
            run->info = info;
        GPUR_TRY(check_same(run, &info, i));
    }
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_begin_envs(gpur_fast_dqn *run)
{
    if (run->vector.type)
        return gpur_vector_begin(run);
    for (int32_t i = 0; i < run->shape.envs; i++) {
        gpur_env_slot *const slot = &run->slots[i];
        GPUR_TRY(gpur_env_slot_name_error(slot, run->step, gpur_env_slot_begin(slot, run->step)));
    }
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_remake_envs(gpur_fast_dqn *run)
{
    for (int32_t i = 0; i < run->shape.envs + run->evaluator.count; i++)
        gpur_env_runner_close_env(gpur_fast_dqn_runner(run, i));
    gpur_vector_close_env(&run->vector);
    GPUR_TRY(make_envs(run));
    return gpur_fast_dqn_begin_envs(run);
}

static gpur_status open_runners(gpur_fast_dqn *run)
{
    const int32_t count = run->shape.envs;
    const int32_t check_finite = gpur_replay_settings(run->learner->replay)->check_finite;
    const int64_t bytes = gpur_obs_bytes(&run->obs_shape);
    run->obs = calloc((size_t)count, (size_t)bytes);
    if (!run->obs)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d observations of %" PRId64 " bytes", (int)count, bytes);
    for (int32_t i = 0; i < count; i++)
        GPUR_TRY(gpur_env_runner_open(&run->slots[i].runner, &run->obs_shape, run->obs + i * bytes, check_finite));
    return run->evaluator.count ? gpur_evaluator_open(&run->evaluator, &run->obs_shape, check_finite) : GPUR_OK;
}

gpur_status gpur_fast_dqn_open_envs(gpur_fast_dqn *run)
{
    const int32_t envs = run->shape.envs;
    gpur_replay *const replay = run->learner->replay;
    run->vector.type = run->core.config.vector;
    for (int32_t i = 0; i < envs; i++) {
        run->slots[i].run = run;
        run->slots[i].index = i;
        run->slots[i].runner.type = run->core.config.vector ? NULL : run->core.config.type;
    }
    if (run->core.config.eval_episodes > 0)
        GPUR_TRY(gpur_evaluator_alloc(&run->evaluator,
                                      gpur_run_eval_envs(&run->core.config, run->core.config.eval_episodes),
                                      run->core.config.type ? run->core.config.type : &gpur_single_env,
                                      gpur_fast_dqn_action_bytes(run), (uint32_t)envs));
    GPUR_TRY(make_envs(run));
    GPUR_TRY(gpur_action_check(&run->info.action, gpur_fast_dqn_network(run)));
    GPUR_TRY(
        gpur_obs_shape_find(&run->info.obs, gpur_replay_schema(replay), gpur_replay_settings(replay), &run->obs_shape));
    GPUR_TRY(open_runners(run));
    for (int32_t i = 0; i < envs; i++)
        GPUR_TRY(gpur_env_slot_open(&run->slots[i]));
    return run->vector.type ? gpur_vector_open(run) : GPUR_OK;
}
