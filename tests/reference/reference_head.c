/* SPDX-License-Identifier: MIT */
/* Heads and epsilon-greedy actions of reference_learn.h. */
#include "reference/reference_learn.h"
#include "reference/reference_replay.h"

#include <math.h>

/* The outputs of these heads are what a loss reads. */
static int is_plain(int head)
{
    return head == GPUR_HEAD_Q || head == GPUR_HEAD_QUANTILES || head == GPUR_HEAD_CATEGORICAL;
}

void ref_head(int head, int outputs, const double *z, double *y)
{
    double sum = 0;
    for (int k = 0; k < outputs; k++) {
        if (is_plain(head))
            y[k] = z[k];
        else if (head == GPUR_HEAD_TANH_ACTION)
            y[k] = tanh(z[k]);
        else if (head == GPUR_HEAD_SQUASHED_GAUSSIAN) {
            y[k] = z[k];
            y[outputs + k] = fmax(-20, fmin(2, z[outputs + k]));
        } else
            sum += head == GPUR_HEAD_DUELING ? z[1 + k] : exp(z[k]);
    }
    if (head == GPUR_HEAD_DUELING)
        for (int k = 0; k < outputs; k++)
            y[k] = z[0] + z[1 + k] - sum / outputs;
    if (head == GPUR_HEAD_SOFTMAX_VALUE) {
        for (int k = 0; k < outputs; k++)
            y[k] = exp(z[k]) / sum;
        y[outputs] = z[outputs];
    }
}

/* By the full Jacobian: dz_j = sum_k dy_k dy_k/dz_j. */
void ref_head_backward(int head, int outputs, const double *y, const double *dy, double *dz)
{
    if (head == GPUR_HEAD_DUELING) {
        dz[0] = 0;
        for (int k = 0; k < outputs; k++)
            dz[0] += dy[k];
    }
    for (int k = 0; k < outputs && head == GPUR_HEAD_SQUASHED_GAUSSIAN; k++) {
        dz[k] = dy[k];
        dz[outputs + k] = y[outputs + k] > -20 && y[outputs + k] < 2 ? dy[outputs + k] : 0;
    }
    for (int j = 0; j < outputs && head != GPUR_HEAD_SQUASHED_GAUSSIAN; j++) {
        double sum = 0;
        for (int k = 0; k < outputs; k++) {
            const double same = j == k;
            if (is_plain(head))
                sum += dy[k] * same;
            else if (head == GPUR_HEAD_TANH_ACTION)
                sum += dy[k] * same * (1 - y[k] * y[k]);
            else if (head == GPUR_HEAD_DUELING)
                sum += dy[k] * (same - 1.0 / outputs);
            else
                sum += dy[k] * y[k] * (same - y[j]);
        }
        dz[head == GPUR_HEAD_DUELING ? 1 + j : j] = sum;
    }
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        dz[outputs] = dy[outputs];
}

int ref_epsilon_greedy(uint64_t seed, uint64_t step, uint32_t lane, float epsilon, int actions, const double *q)
{
    enum { EXPLORE = 4 };
    const uint32_t counter[4] = {lane, EXPLORE, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t bits[4];
    int best = 0;
    reference_philox(counter, seed, bits);
    if ((bits[2] >> 8) / 16777216.0 < (double)epsilon)
        return (int)reference_random_below(seed, EXPLORE, step, lane, (uint64_t)actions);
    for (int k = 1; k < actions; k++)
        best = q[k] > q[best] ? k : best;
    return best;
}
