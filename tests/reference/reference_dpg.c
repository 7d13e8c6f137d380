/* SPDX-License-Identifier: MIT */
#include "reference/reference_dpg.h"
#include "reference/reference_distribution.h"
#include "reference/reference_replay.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

ref_tensor *ref_dpg_find(ref_dpg *dpg, const char *name)
{
    const char *const rest = strchr(name, '.') + 1;
    if (strncmp(name, "actor.", 6) == 0 || !dpg->second)
        return ref_net_find(name[0] == 'a' ? dpg->actor : dpg->critic, rest);
    return ref_net_find(rest[0] == '1' ? dpg->critic : dpg->second, rest + 2);
}

static double value_of(const ref_dpg *dpg, ref_net *critic, int target, const float *obs, const double *action,
                       ref_tape *tape)
{
    const int features = dpg->actor->features;
    for (int i = 0; i < features; i++)
        tape->x[i] = obs[i];
    for (int k = 0; k < dpg->actor->config.num_actions; k++)
        tape->x[features + k] = action[k];
    ref_forward_input(critic, target, tape);
    return critic->config.atoms ? ref_distribution_mean(&critic->config, tape->y) : tape->y[0];
}

double ref_dpg_q(ref_dpg *dpg, int target, const float *obs, const double *action, ref_tape *tape)
{
    return value_of(dpg, dpg->critic, target, obs, action, tape);
}

double ref_dpg_noise(uint64_t seed, int64_t t, uint32_t row, int k, double sigma, double clip)
{
    enum { TARGET_NOISE = 22 };
    const uint64_t step = (uint64_t)t - 1;
    const uint32_t counter[4] = {row, TARGET_NOISE + ((uint32_t)(k / 4) << 16), (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    const uint32_t *const pair = bits + k % 4 / 2 * 2;
    const double u = ((pair[0] >> 8) + 1) * 0x1p-24, angle = 2 * acos(-1) * (pair[1] >> 8) * 0x1p-24;
    const double noise = sigma * sqrt(-2 * log(u)) * (k % 2 ? sin(angle) : cos(angle));
    return clip > 0 ? fmax(-clip, fmin(clip, noise)) : noise;
}

static double target_of(ref_dpg *dpg, const ref_dpg_row *row)
{
    static _Thread_local ref_tape actor, critic;
    ref_forward(dpg->actor, 1, row->next_obs, &actor);
    for (int k = 0; k < dpg->actor->config.num_actions && row->noise; k++)
        actor.y[k] = fmax(-1, fmin(1, actor.y[k] + row->noise[k]));
    double least = ref_dpg_q(dpg, 1, row->next_obs, actor.y, &critic);
    if (dpg->second)
        least = fmin(least, value_of(dpg, dpg->second, 1, row->next_obs, actor.y, &critic));
    return row->reward + row->discount * least;
}

/* The target's distribution: of two critics' targets the one with the smaller mean. */
static void target_distribution(ref_dpg *dpg, const ref_dpg_row *row, double *target)
{
    static _Thread_local ref_tape actor, first, second;
    const gpur_network_config *const network = &dpg->critic->config;
    ref_forward(dpg->actor, 1, row->next_obs, &actor);
    for (int k = 0; k < dpg->actor->config.num_actions && row->noise; k++)
        actor.y[k] = fmax(-1, fmin(1, actor.y[k] + row->noise[k]));
    const double mean = value_of(dpg, dpg->critic, 1, row->next_obs, actor.y, &first);
    const double *least = first.y;
    if (dpg->second && value_of(dpg, dpg->second, 1, row->next_obs, actor.y, &second) < mean)
        least = second.y;
    ref_distribution_target(network, row->reward, row->discount, least, target);
}

/* The loss of one critic of distributions; its gradient by the numbers. */
static double distribution_loss(ref_dpg *dpg, const ref_dpg_row *row, const ref_tape *tape, double *slope)
{
    static _Thread_local double target[REF_WIDTH];
    target_distribution(dpg, row, target);
    return ref_distribution_loss(&dpg->critic->config, 1, tape->y, target, slope);
}

double ref_dpg_critic_loss(ref_dpg *dpg, ref_dpg_row *rows, int batch, double *mean_q)
{
    static _Thread_local ref_tape tape;
    static _Thread_local double action[REF_WIDTH], slope[REF_WIDTH];
    ref_net *const critics[] = {dpg->critic, dpg->second};
    const int count = dpg->second ? 2 : 1;
    double loss = 0;
    *mean_q = 0;
    for (int i = 0; i < count; i++)
        ref_net_zero_gradient(critics[i]);
    for (int b = 0; b < batch; b++) {
        ref_dpg_row *const row = &rows[b];
        const double y = target_of(dpg, row);
        for (int k = 0; k < dpg->actor->config.num_actions; k++)
            action[k] = row->action[k];
        row->error = 0;
        for (int i = 0; i < count; i++) {
            const double q = value_of(dpg, critics[i], 0, row->obs, action, &tape);
            double of_one = (q - y) * (q - y) / 2, error = fabs(q - y);
            slope[0] = q - y;
            if (dpg->critic->config.atoms)
                error = of_one = distribution_loss(dpg, row, &tape, slope);
            for (int n = 0; n < ref_atoms(&dpg->critic->config); n++)
                slope[n] *= (double)row->weight / batch;
            row->error += error / count;
            loss += row->weight * of_one / batch;
            *mean_q += q / batch / count;
            ref_backward(critics[i], &tape, slope);
        }
    }
    return loss;
}

double ref_dpg_update_critics(ref_dpg *dpg, const gpur_dqn_config *config, int64_t t)
{
    gpur_dqn_config scaled = *config;
    const double limit = config->optimizer.clip_norm;
    if (!dpg->second)
        return ref_dqn_update(dpg->critic, config, t);
    double squares = 0;
    for (int i = 0; i < 2 * dpg->critic->tensors; i++) {
        const ref_tensor *const r = &(i % 2 ? dpg->second : dpg->critic)->tensor[i / 2];
        for (int j = 0; j < r->count; j++)
            squares += r->g[j] * r->g[j];
    }
    const double norm = sqrt(squares), scale = limit > 0 && norm > limit ? limit / norm : 1;
    for (int i = 0; i < 2 * dpg->critic->tensors; i++) {
        ref_tensor *const r = &(i % 2 ? dpg->second : dpg->critic)->tensor[i / 2];
        for (int j = 0; j < r->count; j++)
            r->g[j] *= scale;
    }
    scaled.optimizer.clip_norm = 0;
    (void)ref_dqn_update(dpg->critic, &scaled, t);
    (void)ref_dqn_update(dpg->second, &scaled, t);
    return norm;
}

double ref_dpg_actor_loss(ref_dpg *dpg, const ref_dpg_row *rows, int batch, double *slopes)
{
    static _Thread_local ref_tape actor, critic;
    static _Thread_local double dx[REF_WIDTH], da[REF_WIDTH], of_mean[REF_WIDTH];
    const int actions = dpg->actor->config.num_actions;
    const double limit = dpg->clip > 0 ? dpg->clip : INFINITY;
    double loss = 0;
    ref_net_zero_gradient(dpg->actor);
    for (int b = 0; b < batch; b++) {
        ref_forward(dpg->actor, 0, rows[b].obs, &actor);
        loss -= ref_dpg_q(dpg, 0, rows[b].obs, actor.y, &critic) / batch;
        ref_mean_slopes(&dpg->critic->config, critic.y, of_mean);
        ref_backward_to_input(dpg->critic, &critic, of_mean, dx); /* its g is of no use from now on */
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
