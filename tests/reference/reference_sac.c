/* SPDX-License-Identifier: MIT */
#include "reference/reference_sac.h"
#include "reference/reference_distribution.h"
#include "reference/reference_replay.h"

#include <math.h>
#include <string.h>

double ref_sac_noise(uint64_t seed, int64_t t, int64_t i)
{
    enum { POLICY_DRAW = 23 };
    const uint64_t step = (uint64_t)t - 1;
    const uint32_t counter[4] = {(uint32_t)(i / 4), POLICY_DRAW, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t bits[4];
    reference_philox(counter, seed, bits);
    const uint32_t *const pair = bits + i % 4 / 2 * 2;
    const double u = ((pair[0] >> 8) + 1) * 0x1p-24, angle = 2 * acos(-1) * (pair[1] >> 8) * 0x1p-24;
    return sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
}

/* The action tanh(mean + sigma n) and its log-probability; the actor's outputs stay on the tape. */
static double draw(ref_sac *sac, const float *obs, const double *noise, ref_tape *tape, double *action)
{
    const int actions = sac->actor->config.num_actions;
    double log_prob = 0;
    ref_forward(sac->actor, 0, obs, tape);
    for (int k = 0; k < actions; k++) {
        const double log_sigma = tape->y[actions + k], u = tape->y[k] + exp(log_sigma) * noise[k];
        action[k] = tanh(u);
        log_prob += -noise[k] * noise[k] / 2 - log_sigma - log(2 * acos(-1)) / 2 + 2 * log(cosh(u));
    }
    return log_prob;
}

static double value_of(ref_sac *sac, int i, int target, const float *obs, const double *action, ref_tape *tape)
{
    const int features = sac->actor->features;
    for (int k = 0; k < features; k++)
        tape->x[k] = obs[k];
    for (int k = 0; k < sac->actor->config.num_actions; k++)
        tape->x[features + k] = action[k];
    ref_forward_input(sac->critic[i], target, tape);
    return sac->critic[i]->config.atoms ? ref_distribution_mean(&sac->critic[i]->config, tape->y) : tape->y[0];
}

/* The least value of all critics, and which one's it is; its tape is kept. */
static double least_of(ref_sac *sac, int target, const float *obs, const double *action, ref_tape *tape, int *which)
{
    static _Thread_local ref_tape other;
    const double least = value_of(sac, 0, target, obs, action, tape);
    *which = 0;
    const double second = sac->critics > 1 ? value_of(sac, 1, target, obs, action, &other) : INFINITY;
    if (second >= least)
        return least;
    *tape = other;
    *which = 1;
    return second;
}

/* The loss of one critic of distributions for the outputs of its tape, and its gradient by them. Each return of the
 * next action, with the numbers `next`, is lessened by `lost`. */
static double distribution_loss(const ref_net *critic, const ref_sac_row *row, const ref_tape *tape, const double *next,
                                double lost, double *slope)
{
    static _Thread_local double target[REF_WIDTH];
    ref_distribution_target(&critic->config, row->reward - row->discount * lost, row->discount, next, target);
    return ref_distribution_loss(&critic->config, 1, tape->y, target, slope);
}

double ref_sac_critic_loss(ref_sac *sac, ref_sac_row *rows, int batch, double *mean_q)
{
    static _Thread_local ref_tape tape, next;
    static _Thread_local double slope[REF_WIDTH];
    const int atoms = sac->critic[0]->config.atoms;
    double loss = 0;
    int which;
    *mean_q = 0;
    for (int i = 0; i < sac->critics; i++)
        ref_net_zero_gradient(sac->critic[i]);
    for (int b = 0; b < batch; b++) {
        ref_sac_row *const row = &rows[b];
        double action[REF_SAC_ACTIONS];
        const double log_prob = draw(sac, row->next_obs, row->next_noise, &tape, action);
        const double lost = exp(sac->log_alpha) * log_prob;
        const double y = row->reward + row->discount * (least_of(sac, 1, row->next_obs, action, &next, &which) - lost);
        for (int k = 0; k < sac->actor->config.num_actions; k++)
            action[k] = row->action[k];
        row->error = 0;
        for (int i = 0; i < sac->critics; i++) {
            const double q = value_of(sac, i, 0, row->obs, action, &tape);
            double of_one = (q - y) * (q - y) / 2, error = fabs(q - y);
            slope[0] = q - y;
            if (atoms)
                error = of_one = distribution_loss(sac->critic[i], row, &tape, next.y, lost, slope);
            for (int n = 0; n < (atoms ? atoms : 1); n++)
                slope[n] *= row->weight / batch;
            row->error += error / sac->critics;
            loss += row->weight * of_one / batch;
            *mean_q += q / batch / sac->critics;
            ref_backward(sac->critic[i], &tape, slope);
        }
    }
    return loss;
}

double ref_sac_actor_loss(ref_sac *sac, const ref_sac_row *rows, int batch, double *entropy)
{
    static _Thread_local ref_tape actor, critic;
    static _Thread_local double dx[REF_WIDTH], of_mean[REF_WIDTH];
    const int actions = sac->actor->config.num_actions;
    const double alpha = exp(sac->log_alpha);
    double loss = 0;
    *entropy = 0;
    ref_net_zero_gradient(sac->actor);
    for (int b = 0; b < batch; b++) {
        double action[REF_SAC_ACTIONS], dy[2 * REF_SAC_ACTIONS];
        int which;
        const double log_prob = draw(sac, rows[b].obs, rows[b].noise, &actor, action);
        loss += (alpha * log_prob - least_of(sac, 0, rows[b].obs, action, &critic, &which)) / batch;
        *entropy -= log_prob / batch;
        ref_mean_slopes(&sac->critic[which]->config, critic.y, of_mean);
        ref_backward_to_input(sac->critic[which], &critic, of_mean, dx);
        for (int k = 0; k < actions; k++) {
            const double spread = exp(actor.y[actions + k]) * rows[b].noise[k];
            const double slope = dx[sac->actor->features + k] * (1 - action[k] * action[k]);
            dy[k] = (alpha * 2 * action[k] - slope) / batch;
            dy[actions + k] = (alpha * (2 * action[k] * spread - 1) - slope * spread) / batch;
        }
        ref_backward(sac->actor, &actor, dy);
    }
    return loss;
}

double ref_sac_temperature_gradient(const ref_sac *sac, double entropy)
{
    return entropy - sac->target_entropy;
}
