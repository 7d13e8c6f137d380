/* SPDX-License-Identifier: MIT */
/* The settings of a cache of returns: what each estimator needs, and checks against the learner and the replay. */
#include "learn/returns/return_cache.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "kernels/args_returns.h"
#include "replay/config.h"
#include "replay/sampler/sampler.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>

static const gpur_estimator estimators[] = {
    [GPUR_ESTIMATOR_PENG] = {"peng", GPUR_RETURNS_LAMBDA, .needs_lambda = 1},
    [GPUR_ESTIMATOR_N_STEP] = {"n-step", GPUR_RETURNS_N_STEP},
    [GPUR_ESTIMATOR_WATKINS] = {"watkins", GPUR_RETURNS_LAMBDA, .cuts_traces = 1, .needs_lambda = 1},
    [GPUR_ESTIMATOR_PENG_MEDIAN] = {"peng-median", GPUR_RETURNS_MEDIAN},
    [GPUR_ESTIMATOR_WATKINS_MEDIAN] = {"watkins-median", GPUR_RETURNS_MEDIAN, .cuts_traces = 1},
    [GPUR_ESTIMATOR_PENG_ERROR_BOUND] = {"peng-error-bound", GPUR_RETURNS_ERROR_BOUND},
    [GPUR_ESTIMATOR_WATKINS_ERROR_BOUND] = {"watkins-error-bound", GPUR_RETURNS_ERROR_BOUND, .cuts_traces = 1},
};

const gpur_estimator *gpur_estimator_of(int32_t estimator)
{
    const int32_t count = sizeof estimators / sizeof *estimators;
    return estimator >= 0 && estimator < count ? &estimators[estimator] : NULL;
}

int gpur_returns_are_prioritized(const gpur_returns_config *config)
{
    return config->prioritization.first > 0.0f || (config->prioritization.steps > 0 && config->prioritization.last > 0);
}

static gpur_status check_sizes(const gpur_returns_config *c, const gpur_replay_config *replay)
{
    const int64_t capacity = replay->capacity, most = capacity / gpur_max(replay->lanes, 1) - 1;
    GPUR_REQUIRE(c->cache_size >= 0 && c->cache_size <= INT32_MAX,
                 "returns.cache_size is %" PRId64 "; it must be 1 to %d, or 0 for no cache", c->cache_size, INT32_MAX);
    GPUR_REQUIRE(capacity < (int64_t)GPUR_CACHE_MISSING,
                 "the replay's capacity is %" PRId64 "; the 32-bit addresses of a cache need one below %" PRId64,
                 capacity, (int64_t)GPUR_CACHE_MISSING);
    GPUR_REQUIRE(c->block_length >= 1 && c->block_length <= most,
                 "returns.block_length is %" PRId64 "; it must be at least 1 and below the replay's %s, %" PRId64,
                 c->block_length, replay->lanes > 0 ? "steps of a lane" : "capacity", most + 1);
    GPUR_REQUIRE(c->cache_size % c->block_length == 0,
                 "returns.cache_size is %" PRId64 "; it must be a multiple of returns.block_length, %" PRId64,
                 c->cache_size, c->block_length);
    return GPUR_OK;
}

/* Settings of the estimator that is chosen; those of the others are not read. */
static gpur_status check_estimator(const gpur_returns_config *c)
{
    const gpur_estimator *const estimator = gpur_estimator_of(c->estimator);
    GPUR_REQUIRE(estimator,
                 "returns.estimator is %" PRId32 "; it must be GPUR_ESTIMATOR_PENG to WATKINS_ERROR_BOUND "
                 "(0 to 6)",
                 c->estimator);
    GPUR_REQUIRE(!estimator->needs_lambda || (c->lambda >= 0.0f && c->lambda <= 1.0f),
                 "returns.lambda is %g; estimator \"%s\" needs 0 to 1, which the caller must choose: the papers state "
                 "no value",
                 (double)c->lambda, estimator->name);
    GPUR_REQUIRE(estimator->rule != GPUR_RETURNS_N_STEP || (c->n_step >= 1 && c->n_step <= c->block_length),
                 "returns.n_step is %" PRId32 "; it must be 1 to returns.block_length, %" PRId64, c->n_step,
                 c->block_length);
    GPUR_REQUIRE(estimator->rule != GPUR_RETURNS_ERROR_BOUND || (c->error_bound > 0.0f && c->error_bound < INFINITY),
                 "returns.error_bound is %g; it must be above 0, and finite", (double)c->error_bound);
    return GPUR_OK;
}

static gpur_status check_draw(const gpur_returns_config *c)
{
    GPUR_TRY(
        gpur_choice_check(c->storage, GPUR_CACHE_PHYSICAL, "returns.storage", "GPUR_CACHE_VIRTUAL or PHYSICAL (0, 1)"));
    GPUR_TRY(gpur_choice_check(c->draw, GPUR_CACHE_REPLACEMENT, "returns.draw",
                               "GPUR_CACHE_PERMUTATION or REPLACEMENT (0, 1)"));
    GPUR_TRY(gpur_schedule_check(&c->prioritization, 1.0f, "returns.prioritization"));
    GPUR_REQUIRE(c->draw == GPUR_CACHE_REPLACEMENT || !gpur_returns_are_prioritized(c),
                 "returns.prioritization is %g to %g and returns.draw GPUR_CACHE_PERMUTATION (0); above 0 it needs "
                 "GPUR_CACHE_REPLACEMENT (1)",
                 (double)c->prioritization.first, (double)c->prioritization.last);
    return gpur_choice_check(c->truncation_terminates, 1, "returns.truncation_terminates", "0 or 1");
}

/* Refuses what needs a target network, or batches from elsewhere than the cache. */
static gpur_status check_learner(const gpur_dqn_config *config)
{
    GPUR_REQUIRE(config->act != GPUR_ACT_TARGET,
                 "act is GPUR_ACT_TARGET (2); a learner with a cache of returns has no target network: it must be "
                 "GPUR_ACT_LATEST or PREVIOUS (0, 1)");
    GPUR_REQUIRE(config->step_kernel != GPUR_STEP_FUSED,
                 "step_kernel is GPUR_STEP_FUSED (2); with a cache of returns it must be GPUR_STEP_AUTO or LIBRARIES "
                 "(0, 1)");
    GPUR_REQUIRE(config->host_batches == 0,
                 "host_batches is %" PRId32 "; with a cache of returns it must be 0, since rows in host memory have no "
                 "return",
                 config->host_batches);
    GPUR_REQUIRE(!config->demonstrations,
                 "there are demonstrations, and returns.cache_size is %" PRId64
                 "; with demonstrations it must be 0, since a cache holds returns of one replay",
                 config->returns.cache_size);
    GPUR_TRY(gpur_index_source_check(config->index_source, "index_source"));
    GPUR_REQUIRE(!gpur_sampler_of(config->index_source)->is_by_priority,
                 "index_source is %" PRId32 ", by priority; with a cache of returns it must be GPUR_SOURCE_AUTO (0) or "
                 "GPUR_UNIFORM (1), and returns.prioritization draws by error",
                 config->index_source);
    return GPUR_OK;
}

gpur_status gpur_returns_config_check(gpur_dqn_config *config, gpur_replay *replay)
{
    const gpur_returns_config *const c = &config->returns;
    const gpur_replay_config *const settings = gpur_replay_settings(replay);
    if (c->cache_size == 0)
        return GPUR_OK;
    GPUR_TRY(check_sizes(c, settings));
    GPUR_TRY(check_estimator(c));
    GPUR_TRY(check_draw(c));
    GPUR_TRY(check_learner(config));
    GPUR_TRY(gpur_sequences_check(replay));
    GPUR_REQUIRE(!gpur_replay_has_hindsight(replay),
                 "the replay has hindsight, whose new goals and rewards a cache of returns does not have; it must have "
                 "none");
    GPUR_REQUIRE(settings->n_step == 1,
                 "the replay's n_step is %" PRId32 "; a cache of returns needs 1, since it computes returns itself",
                 settings->n_step);
    config->index_source = GPUR_UNIFORM;
    return GPUR_OK;
}
