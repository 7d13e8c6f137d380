/* SPDX-License-Identifier: MIT */
#include "reference/reference_dpg.h"

#include <math.h>
#include <stddef.h>

double ref_dpg_q(ref_dpg *dpg, int target, const float *obs, const double *action, ref_tape *tape)
{
    const int features = dpg->actor->features;
    for (int i = 0; i < features; i++)
        tape->x[i] = obs[i];
    for (int k = 0; k < dpg->actor->config.num_actions; k++)
        tape->x[features + k] = action[k];
    ref_forward_input(dpg->critic, target, tape);
    return tape->y[0];
}

static double target_of(ref_dpg *dpg, const ref_dpg_row *row)
{
    static _Thread_local ref_tape actor, critic;
    ref_forward(dpg->actor, 1, row->next_obs, &actor);
    return row->reward + row->discount * ref_dpg_q(dpg, 1, row->next_obs, actor.y, &critic);
}

double ref_dpg_critic_loss(ref_dpg *dpg, ref_dpg_row *rows, int batch, double *mean_q)
{
    static _Thread_local ref_tape tape;
    static _Thread_local double action[REF_WIDTH];
    double loss = 0;
    *mean_q = 0;
    ref_net_zero_gradient(dpg->critic);
    for (int b = 0; b < batch; b++) {
        ref_dpg_row *const row = &rows[b];
        for (int k = 0; k < dpg->actor->config.num_actions; k++)
            action[k] = row->action[k];
        const double y = target_of(dpg, row), q = ref_dpg_q(dpg, 0, row->obs, action, &tape);
        const double slope = row->weight * (q - y) / batch;
        row->error = q - y;
        loss += row->weight * (q - y) * (q - y) / 2 / batch;
        *mean_q += q / batch;
        ref_backward(dpg->critic, &tape, &slope);
    }
    return loss;
}

double ref_dpg_actor_loss(ref_dpg *dpg, const ref_dpg_row *rows, int batch, double *slopes)
{
    static _Thread_local ref_tape actor, critic;
    static _Thread_local double dx[REF_WIDTH], da[REF_WIDTH];
    const int actions = dpg->actor->config.num_actions;
    const double one = 1, limit = dpg->clip > 0 ? dpg->clip : INFINITY;
    double loss = 0;
    ref_net_zero_gradient(dpg->actor);
    for (int b = 0; b < batch; b++) {
        ref_forward(dpg->actor, 0, rows[b].obs, &actor);
        loss -= ref_dpg_q(dpg, 0, rows[b].obs, actor.y, &critic) / batch;
        ref_backward_to_input(dpg->critic, &critic, &one, dx); /* its g is of no use from now on */
        for (int k = 0; k < actions; k++) {
            const double slope = dx[dpg->actor->features + k], mu = actor.y[k];
            da[k] = (2 * dpg->penalty * atanh(mu) / (1 - mu * mu) - fmax(-limit, fmin(limit, slope))) / batch;
            if (slopes)
                slopes[b * actions + k] = slope;
        }
        ref_backward(dpg->actor, &actor, da);
    }
    return loss;
}
