/* SPDX-License-Identifier: MIT */
#include "run/evaluating_policy.h"

#include "base/numbers.h"
#include "run/action_vectors.h"

#include <stdlib.h>

int64_t gpur_evaluating_policy_action_bytes(const gpur_network_config *network)
{
    return 4 * gpur_max(gpur_action_numbers(network), 1);
}

gpur_status gpur_evaluating_policy_open(gpur_evaluating_policy *p, gpur_policy *policy,
                                        const gpur_network_config *network, const gpur_space *actions, int32_t rows)
{
    GPUR_TRY(gpur_action_check(actions, network));
    p->policy = policy;
    p->actions = *actions;
    p->numbers = gpur_action_numbers(network);
    p->draws = network->head == GPUR_HEAD_SOFTMAX_VALUE || network->head == GPUR_HEAD_SQUASHED_GAUSSIAN;
    p->noises = calloc((size_t)rows, sizeof *p->noises);
    p->vectors = calloc((size_t)(rows * gpur_max(p->numbers, 1)), sizeof *p->vectors);
    if (!p->noises || !p->vectors)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for actions in %d environments", (int)rows);
    return GPUR_OK;
}

void gpur_evaluating_policy_close(gpur_evaluating_policy *p)
{
    free(p->noises);
    free(p->vectors);
    *p = (gpur_evaluating_policy){0};
}

gpur_status gpur_evaluating_policy_act(gpur_evaluating_policy *p, int64_t count, const unsigned char *obs,
                                       const uint32_t *streams, const uint64_t *steps, float noise, int32_t greedy,
                                       void *actions)
{
    const int32_t numbers = p->numbers;
    gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs, .lane = streams, .step = steps};
    gpur_policy_output output = {.size = sizeof output};
    if (numbers > 0)
        output.action_vectors = p->vectors;
    else
        output.actions = actions;
    if (!p->draws)
        *(numbers > 0 ? &input.sigma : &input.epsilon) = p->noises;
    input.greedy = p->draws && (greedy || numbers > 0);
    for (int64_t i = 0; i < count; i++)
        p->noises[i] = noise;
    GPUR_TRY(gpur_policy_act(p->policy, &input, &output));
    for (int64_t i = 0; numbers > 0 && i < count; i++)
        gpur_action_scale(&p->actions, numbers, p->vectors + i * numbers, (float *)actions + i * numbers);
    return GPUR_OK;
}
