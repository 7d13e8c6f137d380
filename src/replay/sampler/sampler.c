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

/* Weights that are divided by the largest of the batch need all of its leaves. One block, the last to end, computes
 * them as fast as a kernel of its own does if they are few: on no GPU was it measured how few. */
enum { ROWS_OF_LAST_BLOCK = 512 };

static int32_t when_to_weigh(const gpur_priority_gather_args *a)
{
    if (a->weights.norm != GPUR_WEIGHT_NORM_BATCH)
        return GPUR_WEIGH_EACH;
    return a->weights.batch <= ROWS_OF_LAST_BLOCK ? GPUR_WEIGH_LAST : GPUR_WEIGH_NOT;
}

gpur_status gpur_sampler_launch_weights(const gpur_replay *replay, gpur_stream *stream,
                                        const gpur_priority_weights_args *a)
{
    return gpur_launch_priority_weights(stream, gpur_grid_elements(replay->device, a->batch), a);
}

static gpur_status launch_in_turn(const gpur_replay *replay, gpur_stream *stream, const gpur_priority_gather_args *a)
{
    const gpur_grid grid = gpur_priorities_sample_grid(&replay->priorities, a->sample.batch);
    GPUR_TRY(gpur_launch_priority_sample(stream, grid, &a->sample));
    GPUR_TRY(gpur_launch_gather(stream, gpur_gather_grid(replay, &a->gather), &a->gather));
    return gpur_sampler_launch_weights(replay, stream, &a->weights);
}

gpur_status gpur_sampler_launch_by_priority(const gpur_replay *replay, gpur_stream *stream,
                                            const gpur_priority_gather_args *args)
{
    gpur_priority_gather_args a = *args;
    if (!gpur_gather_is_by_warps(replay, &a.gather))
        return launch_in_turn(replay, stream, &a);
    a.weigh = when_to_weigh(&a);
    GPUR_TRY(gpur_launch_priority_gather(stream, gpur_gather_grid(replay, &a.gather), &a));
    return a.weigh == GPUR_WEIGH_NOT ? gpur_sampler_launch_weights(replay, stream, &a.weights) : GPUR_OK;
}

/* P(i) = p_i^alpha / sum_k p_k^alpha [Schaul et al. 2016, equation 1], and w_i = (1 / N x 1 / P(i))^beta, normalized
 * [ibid., section 3.4]. */
static gpur_status draw_by_priority(gpur_replay *replay, const gpur_sampler *sampler, const gpur_sample_args *a,
                                    const gpur_gather_args *gather, gpur_stream *stream)
{
    gpur_priority_gather_args args = {.gather = *gather};
    args.sample = gpur_sampler_sample_args(replay, sampler, a, gather->batch);
    args.weights = gpur_sampler_weights_args(replay, a, gather->batch);
    return gpur_sampler_launch_by_priority(replay, stream, &args);
}

static const gpur_sampler samplers[] = {
    [GPUR_UNIFORM] = {.gather_source = GPUR_GATHER_UNIFORM,
                      .purpose = {GPUR_RANDOM_SAMPLE, GPUR_RANDOM_LEARN, GPUR_RANDOM_DEMONSTRATIONS}},
    [GPUR_UNIFORM_DISTINCT] = {.gather_source = GPUR_GATHER_DISTINCT,
                               .purpose = {GPUR_RANDOM_DISTINCT, GPUR_RANDOM_LEARN_DISTINCT,
                                           GPUR_RANDOM_DEMONSTRATIONS_DISTINCT},
                               .is_distinct = 1},
    [GPUR_PRIORITIZED_STRATIFIED] = {.gather_source = GPUR_GATHER_IDS,
                                     .purpose = {GPUR_RANDOM_PRIORITY, GPUR_RANDOM_LEARN_PRIORITY,
                                                 GPUR_RANDOM_DEMONSTRATIONS_PRIORITY},
                                     .is_by_priority = 1,
                                     .is_stratified = 1,
                                     .draw = draw_by_priority},
    [GPUR_PRIORITIZED_INDEPENDENT] = {.gather_source = GPUR_GATHER_IDS,
                                      .purpose = {GPUR_RANDOM_PRIORITY, GPUR_RANDOM_LEARN_PRIORITY,
                                                  GPUR_RANDOM_DEMONSTRATIONS_PRIORITY},
                                      .is_by_priority = 1,
                                      .draw = draw_by_priority},
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

static gpur_status gather(const sample_request *r)
{
    if (!r->sampler->draw)
        return gpur_gather_plan_launch(r->replay, r->stream, r->plan);
    GPUR_TRY(r->sampler->draw(r->replay, r->sampler, r->args, &r->plan->rows, r->stream));
    return gpur_gather_plan_launch_rest(r->replay, r->stream, r->plan);
}

/* Hindsight: new goals for the gathered rows. */
static gpur_status relabel(const sample_request *r)
{
    gpur_hindsight_relabel_args args = r->plan->relabel;
    args.batch = r->plan->rows.batch;
    args.step_value = r->args->step_value;
    args.purpose = GPUR_RANDOM_HINDSIGHT + ((uint32_t)r->args->user << 16);
    return gpur_launch_hindsight_relabel(r->stream, gpur_grid_elements(r->replay->device, args.batch), &args);
}

static gpur_status enqueue(void *context)
{
    const sample_request *const r = context;
    GPUR_TRY(gather(r));
    return r->plan->relabel.batch > 0 ? relabel(r) : GPUR_OK;
}

gpur_status gpur_sample_enqueue(gpur_replay *replay, const gpur_sampler *sampler, const gpur_sample_args *args,
                                const gpur_gather_plan *plan, gpur_stream *stream)
{
    sample_request request = {replay, sampler, args, plan, stream};
    if (!sampler->draw && !gpur_gather_takes_several_launches(plan) && plan->relabel.batch == 0)
        return enqueue(&request);
    return gpur_with_window_locked(replay, enqueue, &request);
}
