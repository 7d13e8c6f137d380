/* SPDX-License-Identifier: MIT */
/* The work of a run, done by a learner and by policies that have copies of its weights. */
#include "run/fast_dqn/learner_work.h"
#include "run/acting_policy.h"

#include "learn/dqn/dqn.h"
#include "replay/view.h"

static gpur_status act(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions)
{
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    return gpur_policy_act(policy, &input, &output);
}

static gpur_status infer(void *context, int64_t count, const unsigned char *obs, int32_t *actions)
{
    return act(((gpur_learner_work *)context)->acting, count, obs, actions);
}

static gpur_status copy(void *context, int from_target)
{
    gpur_learner_work *const work = context;
    return gpur_policy_pull(work->acting, work->learner, from_target ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE);
}

static gpur_status train(void *context, int64_t steps)
{
    gpur_learner_work *const work = context;
    GPUR_TRY(gpur_learner_train(work->learner, steps));
    return gpur_learner_sync(work->learner);
}

static gpur_status refresh(void *context)
{
    return gpur_learner_refresh(((gpur_learner_work *)context)->learner);
}

static gpur_status copy_for_evaluation(void *context)
{
    gpur_learner_work *const work = context;
    return gpur_policy_pull(work->evaluating, work->learner, GPUR_WEIGHTS_ONLINE);
}

static gpur_status infer_for_evaluation(void *context, int64_t count, const unsigned char *obs, int32_t *actions)
{
    return act(((gpur_learner_work *)context)->evaluating, count, obs, actions);
}

/* A policy with a learner's network, on its device. */
static gpur_status open_policy(const gpur_learner *learner, int32_t streams, int32_t rows, gpur_policy **policy)
{
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.network = gpur_dqn_of(learner)->config.network;
    config.max_batch = rows;
    config.streams = streams;
    config.math = learner->math;
    return gpur_acting_policy_open(learner->device, gpur_replay_schema(learner->replay), &config, policy);
}

gpur_status gpur_learner_work_open(gpur_learner_work *work, gpur_learner *learner, gpur_learner_work_size size,
                                   gpur_fast_dqn_work *table)
{
    work->learner = learner;
    *table = (gpur_fast_dqn_work){work, infer, copy, train, refresh, copy_for_evaluation, infer_for_evaluation};
    GPUR_TRY(open_policy(learner, size.streams, size.rows, &work->acting));
    return size.eval_rows > 0 ? open_policy(learner, 1, size.eval_rows, &work->evaluating) : GPUR_OK;
}

void gpur_learner_work_close(gpur_learner_work *work)
{
    gpur_policy_destroy(work->acting);
    gpur_policy_destroy(work->evaluating);
    *work = (gpur_learner_work){0};
}
