/* SPDX-License-Identifier: MIT */
#include "replay/sampler/sampler.h"

#include "kernels/lib/random.h"
#include "replay/replay.h"

gpur_priority_sample_args gpur_sampler_sample_args(const gpur_replay *replay, const gpur_sampler *sampler,
                                                   const gpur_sample_args *a, int64_t rows)
{
    gpur_priority_sample_args args =
        gpur_priorities_sample_args(&replay->priorities, sampler->is_stratified, rows, a->id, a->leaf);
    args.seed = a->seed;
    args.step = a->step;
    args.step_value = a->step_value;
    args.purpose = sampler->purpose[a->user];
    return args;
}

gpur_priority_weights_args gpur_sampler_weights_args(const gpur_replay *replay, const gpur_sample_args *a, int64_t rows)
{
    gpur_priority_weights_args args = gpur_priorities_weight_args(&replay->priorities, rows, a->id, a->leaf, a->weight);
    args.step = a->step;
    args.step_value = a->step_value;
    args.beta_first = a->beta.first, args.beta_last = a->beta.last;
    args.beta_begin = a->beta.begin, args.beta_steps = a->beta.steps;
    return args;
}

/* P(i) = p_i^alpha / sum_k p_k^alpha [Schaul et al. 2016, equation 1]. */
static gpur_status sample_by_priority(gpur_replay *replay, const gpur_sampler *sampler, const gpur_sample_args *a,
                                      int64_t rows, gpur_stream *stream)
{
    const gpur_priority_sample_args args = gpur_sampler_sample_args(replay, sampler, a, rows);
    return gpur_launch_priority_sample(stream, gpur_priorities_sample_grid(&replay->priorities, rows), &args);
}

/* w_i = (1 / N x 1 / P(i))^beta, normalized [Schaul et al. 2016, section 3.4]. */
static gpur_status weigh_by_priority(gpur_replay *replay, const gpur_sample_args *a, int64_t rows, gpur_stream *stream)
{
    const gpur_priority_weights_args args = gpur_sampler_weights_args(replay, a, rows);
    return gpur_launch_priority_weights(stream, gpur_grid_elements(replay->device, rows), &args);
}

static const gpur_sampler samplers[] = {
    [GPUR_UNIFORM] = {.gather_source = GPUR_GATHER_UNIFORM, .purpose = {GPUR_RANDOM_SAMPLE, GPUR_RANDOM_LEARN}},
    [GPUR_UNIFORM_DISTINCT] = {.gather_source = GPUR_GATHER_DISTINCT,
                               .purpose = {GPUR_RANDOM_DISTINCT, GPUR_RANDOM_LEARN_DISTINCT},
                               .is_distinct = 1},
    [GPUR_PRIORITIZED_STRATIFIED] = {.gather_source = GPUR_GATHER_IDS,
                                     .purpose = {GPUR_RANDOM_PRIORITY, GPUR_RANDOM_LEARN_PRIORITY},
                                     .is_by_priority = 1,
                                     .is_stratified = 1,
                                     .sample = sample_by_priority,
                                     .weigh = weigh_by_priority},
    [GPUR_PRIORITIZED_INDEPENDENT] = {.gather_source = GPUR_GATHER_IDS,
                                      .purpose = {GPUR_RANDOM_PRIORITY, GPUR_RANDOM_LEARN_PRIORITY},
                                      .is_by_priority = 1,
                                      .sample = sample_by_priority,
                                      .weigh = weigh_by_priority},
};

const gpur_sampler *gpur_sampler_of(int32_t index_source)
{
    return &samplers[index_source];
}

int64_t gpur_sampler_needs(const gpur_sampler *sampler, int64_t rows)
{
    return sampler->is_distinct ? rows : 1;
}

typedef struct sample_request {
    gpur_replay *replay;
    const gpur_sampler *sampler;
    const gpur_sample_args *args;
    const gpur_gather_plan *plan;
    gpur_stream *stream;
} sample_request;

static gpur_status enqueue(void *context)
{
    const sample_request *const r = context;
    const int64_t rows = r->plan->rows.batch;
    if (r->sampler->sample)
        GPUR_TRY(r->sampler->sample(r->replay, r->sampler, r->args, rows, r->stream));
    GPUR_TRY(gpur_gather_plan_launch(r->replay, r->stream, r->plan));
    return r->sampler->weigh ? r->sampler->weigh(r->replay, r->args, rows, r->stream) : GPUR_OK;
}

gpur_status gpur_sample_enqueue(gpur_replay *replay, const gpur_sampler *sampler, const gpur_sample_args *args,
                                const gpur_gather_plan *plan, gpur_stream *stream)
{
    sample_request request = {replay, sampler, args, plan, stream};
    if (!sampler->sample && !gpur_gather_takes_several_launches(plan))
        return enqueue(&request);
    return gpur_with_window_locked(replay, enqueue, &request);
}
