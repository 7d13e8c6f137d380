/* SPDX-License-Identifier: MIT */
#include "evaluate.h"
#include "try.h"

#include <stdlib.h>
#include <string.h>

int evaluator_open(evaluator *judge, const env_kind *kind, int32_t episodes, uint64_t seed)
{
    judge->actions = calloc((size_t)episodes, sizeof *judge->actions);
    judge->done = calloc((size_t)episodes, 1);
    return vec_env_open(&judge->envs, kind, episodes, seed) == 0 && judge->actions && judge->done ? 0 : -1;
}

void evaluator_close(evaluator *judge)
{
    vec_env_close(&judge->envs);
    free(judge->actions);
    free(judge->done);
    *judge = (evaluator){0};
}

gpur_status evaluator_run(evaluator *judge, gpur_learner *learner, float *mean)
{
    vec_env *const envs = &judge->envs;
    double sum = 0.0;
    vec_env_reset(envs);
    memset(judge->done, 0, (size_t)envs->count);
    for (int32_t left = envs->count; left > 0;) {
        TRY(gpur_learner_act(learner, envs->count, (const float *)vec_env_obs(envs, 0), 0.0f, judge->actions, NULL));
        vec_env_step(envs, judge->actions);
        for (int32_t i = 0; i < envs->count; i++) {
            if (judge->done[i] || !vec_env_ended(envs, i))
                continue; /* a copy that is done plays on, unheard */
            judge->done[i] = 1;
            sum += (double)envs->episode_return[i];
            left--;
        }
    }
    *mean = (float)(sum / envs->count);
    return GPUR_OK;
}
