/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults, and checks with the learner, its replay and the environments. */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "learn/dqn/dqn.h"
#include "replay/config.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_THREADS = GPUR_MAX_POLICY_STREAMS }; /* that step environments by default, and that infer at all */

static const gpur_fast_dqn_config defaults = {
    .size = sizeof(gpur_fast_dqn_config),
    .num_envs = 8,
    .concurrent = 1,
    .synchronized = 1,
    .act = GPUR_ACT_LATEST,
    .target_period = 10000,
    .train_period = 4,
    .prepopulation = 50000,
    .train_steps = 1,
    .sigma = 0.1f,
};

gpur_status gpur_fast_dqn_config_init(gpur_fast_dqn_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_fast_dqn_config");
}

/* Of a learner of DQN; NULL: it is of continuous actions. */
static const gpur_dqn_config *dqn_of(const gpur_fast_dqn *run)
{
    return run->learner->algorithm == &gpur_algorithm_dqn ? &gpur_dqn_of(run->learner)->config : NULL;
}

/* A target network is copied between two periods. */
static gpur_status check_target(const gpur_fast_dqn *run, const gpur_dqn_config *learner)
{
    const gpur_fast_dqn_config *const c = &run->config;
    const int64_t trained = gpur_learner_steps_enqueued(run->learner);
    GPUR_REQUIRE(run->shape.has_cache || learner->target_period == c->target_period / c->train_period * c->train_steps,
                 "the learner's target_period is %" PRId64 " train steps; it must be target_period / train_period = "
                 "%" PRId64 " / %" PRId64 ", times train_steps, %" PRId64,
                 learner->target_period, c->target_period, c->train_period, c->train_steps);
    GPUR_REQUIRE(run->shape.has_cache || trained % learner->target_period == 0,
                 "the learner has done %" PRId64 " train steps and its target_period is %" PRId64
                 "; the first must be a multiple of the second, so that the target network is copied between periods",
                 trained, learner->target_period);
    GPUR_REQUIRE(!learner->target_copy_first, "the learner's target_copy_first is 1; it must be 0 in a run");
    return GPUR_OK;
}

static gpur_status check_vectors(const gpur_fast_dqn *run)
{
    const gpur_fast_dqn_config *const c = &run->config;
    GPUR_REQUIRE(c->act == GPUR_ACT_LATEST,
                 "act is GPUR_ACT_TARGET (2) and the learner is one of continuous actions; it must be GPUR_ACT_LATEST "
                 "(0)");
    GPUR_REQUIRE(isfinite(c->sigma) && c->sigma >= 0.0f, "sigma is %g; it must be 0 or more", (double)c->sigma);
    return GPUR_OK;
}

static gpur_status check_values(const gpur_fast_dqn *run)
{
    const gpur_fast_dqn_config *const c = &run->config;
    const int64_t min_size = gpur_replay_settings(run->learner->replay)->min_size;
    GPUR_TRY(gpur_choice_check(c->concurrent, 1, "concurrent", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->synchronized, 1, "synchronized", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->whole_episodes, 1, "whole_episodes", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->burst, 1, "burst", "0 or 1"));
    GPUR_TRY(gpur_sequence_check(&run->shape));
    GPUR_REQUIRE(c->threads >= 0 && c->threads <= c->num_envs,
                 "threads is %d and num_envs is %d; the first must be 0 (as many) or 1 to the second", (int)c->threads,
                 (int)c->num_envs);
    GPUR_REQUIRE(c->synchronized || c->threads <= MAX_THREADS,
                 "threads is %d and synchronized is 0; without `synchronized` the first must be at most %d",
                 (int)c->threads, MAX_THREADS);
    GPUR_REQUIRE(c->act == GPUR_ACT_LATEST || c->act == GPUR_ACT_TARGET,
                 "act is %d; it must be GPUR_ACT_LATEST (0) or GPUR_ACT_TARGET (2)", (int)c->act);
    GPUR_TRY(dqn_of(run) ? check_target(run, dqn_of(run)) : check_vectors(run));
    GPUR_REQUIRE(c->prepopulation >= gpur_max(min_size, 1),
                 "prepopulation is %" PRId64 "; it must be at least 1 and the replay's min_size, %" PRId64
                 ", because training begins right after it",
                 c->prepopulation, min_size);
    return GPUR_OK;
}

/* Blocks have successive transitions of one environment. The first refresh comes right after the prepopulation, and
 * needs an environment with as many steps as a block; in later ones the environments share the replay. */
static gpur_status check_cache(const gpur_fast_dqn *run)
{
    const gpur_fast_dqn_config *const c = &run->config;
    const int32_t envs = run->core.config.vector ? c->num_envs : 1;
    const int64_t block = gpur_dqn_of(run->learner)->config.returns.block_length;
    const int64_t capacity = gpur_replay_settings(run->learner->replay)->capacity;
    if (!run->shape.has_cache)
        return GPUR_OK;
    GPUR_REQUIRE(c->prepopulation / envs > block,
                 "prepopulation is %" PRId64 ", the steps of %d environment%s, and the learner's returns.block_length "
                 "is %" PRId64 "; each of them must take more steps than a block has",
                 c->prepopulation, (int)envs, envs == 1 ? "" : "s", block);
    GPUR_REQUIRE(capacity / c->num_envs >= 2 * block,
                 "the replay's capacity is %" PRId64 " and num_envs is %d, which is %" PRId64
                 " transitions of each environment; with a cache of returns it must be at least 2 x block_length = "
                 "%" PRId64 " of each",
                 capacity, (int)c->num_envs, capacity / c->num_envs, 2 * block);
    return GPUR_OK;
}

static gpur_status check_envs(const gpur_fast_dqn *run)
{
    const gpur_fast_dqn_config *const c = &run->config;
    GPUR_REQUIRE(!run->core.config.vector || c->synchronized,
                 "synchronized is 0; a vector environment, which steps all at once, needs synchronized 1");
    GPUR_REQUIRE(run->core.config.vector || !c->synchronized || c->num_envs >= 2,
                 "synchronized is 1 and num_envs is %d; it needs 2 or more, or a vector environment", (int)c->num_envs);
    GPUR_REQUIRE(!run->core.config.vector || c->concurrent || c->burst || c->train_period % c->num_envs == 0,
                 "train_period is %" PRId64 " and num_envs is %d; for a vector environment without `concurrent` and "
                 "`burst` the first must be a multiple of the second",
                 c->train_period, (int)c->num_envs);
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_configure(gpur_fast_dqn *run, const gpur_fast_dqn_config *given)
{
    gpur_fast_dqn_config *const c = &run->config;
    *c = defaults;
    GPUR_TRY(gpur_sized_read(c, sizeof *c, given, "gpur_fast_dqn_config"));
    const int has_cache = dqn_of(run) && dqn_of(run)->returns.cache_size > 0;
    const int acts_by_target = dqn_of(run) && ((c->concurrent && !has_cache) || c->act == GPUR_ACT_TARGET);
    const gpur_run_config *const all = &run->core.config;
    run->shape = (gpur_sequence_shape){.target_period = c->target_period,
                                       .train_period = c->train_period,
                                       .train_steps = c->train_steps,
                                       .eval_period = all->eval_episodes > 0 ? all->eval_period : 0,
                                       .envs = c->num_envs,
                                       .concurrent = c->concurrent,
                                       .synchronized = c->synchronized,
                                       .burst = c->burst,
                                       .has_cache = has_cache,
                                       .acts_by_target = acts_by_target};
    GPUR_TRY(check_values(run));
    GPUR_TRY(check_envs(run));
    GPUR_TRY(check_cache(run));
    run->threads = all->vector ? 1 : c->threads > 0 ? c->threads : (int32_t)gpur_min(c->num_envs, MAX_THREADS);
    return GPUR_OK;
}
