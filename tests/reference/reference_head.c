/* SPDX-License-Identifier: MIT */
/* Heads of reference_learn.h, alone. */
#include "reference/reference_learn.h"

#include <math.h>

void ref_head(int head, int outputs, const double *z, double *y)
{
    double sum = 0;
    for (int k = 0; k < outputs; k++) {
        if (head == GPUR_HEAD_Q)
            y[k] = z[k];
        else if (head == GPUR_HEAD_TANH_ACTION)
            y[k] = tanh(z[k]);
        else
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
    for (int j = 0; j < outputs; j++) {
        double sum = 0;
        for (int k = 0; k < outputs; k++) {
            const double same = j == k;
            if (head == GPUR_HEAD_Q)
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
