/* SPDX-License-Identifier: MIT */
#include "reference_returns.h"

#include <math.h>
#include <stdlib.h>

/* 1 if the return of step t looks no further: at the end of the block or of the episode, and, if traces are cut, before
 * an action that is not greedy. */
static int is_last(const gpur_returns_config *config, const ref_step *steps, int64_t t, int cuts)
{
    return t + 1 == config->block_length || steps[t].discount == 0 || steps[t].truncated || steps[t + 1].is_first ||
           (cuts && !steps[t + 1].is_greedy);
}

/* r_t + gamma_t r_{t+1} + ... + gamma_t ... gamma_{t+n-1} v(s_{t+n}). */
static double n_step_return(const gpur_returns_config *config, const ref_step *steps, int64_t t, int64_t n)
{
    double sum = 0, factor = 1;
    for (int64_t k = t; k < t + n; k++) {
        sum += factor * steps[k].reward;
        factor *= steps[k].discount;
    }
    const int ends = steps[t + n - 1].truncated && config->truncation_terminates;
    return ends ? sum : sum + factor * steps[t + n - 1].value;
}

/* The steps that the return of step t sees. */
static int64_t steps_seen(const gpur_returns_config *config, const ref_step *steps, int64_t t, int cuts)
{
    int64_t n = 1;
    while (!is_last(config, steps, t + n - 1, cuts))
        n++;
    return n;
}

/* (1 - lambda) sum_n lambda^(n-1) G^(n) + lambda^(N-1) G^(N). */
static double lambda_return(const gpur_returns_config *config, const ref_step *steps, int64_t t, int cuts,
                            double lambda)
{
    const int64_t seen = steps_seen(config, steps, t, cuts);
    double sum = 0;
    for (int64_t n = 1; n <= seen; n++)
        sum += (n < seen ? 1 - lambda : 1) * pow(lambda, (double)(n - 1)) * n_step_return(config, steps, t, n);
    return sum;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_return(const gpur_returns_config *config, const ref_step *steps, int64_t t, int cuts)
{
    double all[21];
    for (int i = 0; i < 21; i++)
        all[i] = lambda_return(config, steps, t, cuts, i * 0.05);
    qsort(all, 21, sizeof *all, compare);
    return all[10];
}

static double mean_square(const gpur_returns_config *config, const ref_step *steps, int cuts, double lambda)
{
    double sum = 0;
    for (int64_t t = 0; t < config->block_length; t++)
        sum += pow(lambda_return(config, steps, t, cuts, lambda) - steps[t].taken, 2);
    return sum / (double)config->block_length;
}

/* Of 0, 1/128, ... 1. */
static double largest_lambda(const gpur_returns_config *config, const ref_step *steps, int cuts)
{
    for (int k = 128; k > 0; k--)
        if (mean_square(config, steps, cuts, k / 128.0) <= (double)config->error_bound)
            return k / 128.0;
    return 0;
}

void ref_returns(const gpur_returns_config *config, const ref_step *steps, double *returns)
{
    const int kind = config->estimator;
    const int cuts = kind == GPUR_ESTIMATOR_WATKINS || kind == GPUR_ESTIMATOR_WATKINS_MEDIAN ||
                     kind == GPUR_ESTIMATOR_WATKINS_ERROR_BOUND;
    const int is_bound = kind == GPUR_ESTIMATOR_PENG_ERROR_BOUND || kind == GPUR_ESTIMATOR_WATKINS_ERROR_BOUND;
    const double lambda = is_bound ? largest_lambda(config, steps, cuts) : (double)config->lambda;
    for (int64_t t = 0; t < config->block_length; t++) {
        const int64_t seen = steps_seen(config, steps, t, cuts);
        if (kind == GPUR_ESTIMATOR_N_STEP)
            returns[t] = n_step_return(config, steps, t, seen < config->n_step ? seen : config->n_step);
        else if (kind == GPUR_ESTIMATOR_PENG_MEDIAN || kind == GPUR_ESTIMATOR_WATKINS_MEDIAN)
            returns[t] = median_return(config, steps, t, cuts);
        else
            returns[t] = lambda_return(config, steps, t, cuts, lambda);
    }
}
