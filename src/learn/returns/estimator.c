/* SPDX-License-Identifier: MIT */
/* The table of estimators, and what each needs. */
#include "learn/returns/estimator.h"

#include "kernels/args_returns.h"

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

int gpur_returns_need_taken(const gpur_returns_config *config)
{
    const gpur_estimator *const estimator = gpur_estimator_of(config->estimator);
    return estimator->cuts_traces || estimator->rule == GPUR_RETURNS_ERROR_BOUND ||
           gpur_returns_are_prioritized(config);
}
