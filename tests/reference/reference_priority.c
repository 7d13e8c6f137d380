/* SPDX-License-Identifier: MIT */
#include "reference/reference_priority.h"

#include "reference/reference_replay.h"

#include <math.h>

__extension__ typedef unsigned __int128 wide;

int reference_octave(int octave, double largest, double alpha)
{
    const int own = largest > 0.0 ? (int)ceil(log2(largest)) : octave;
    return fabs((own - octave) * alpha) > 5.0 ? own : octave;
}

double reference_leaf(double p, double alpha, int octave, double one)
{
    if (p == 0.0)
        return 0.0;
    const double whole = floor(pow(ldexp(p, -octave), alpha) * one + 0.5);
    return whole < 1.0 ? 1.0 : whole > 4294967295.0 ? 4294967295.0 : whole;
}

static double sum_of(const double *leaves, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += leaves[i];
    return sum;
}

/* P(i) = leaf_i / sum of leaves [eq. 1]. */
static double weight_of(const double *leaves, int64_t count, int64_t i, double beta)
{
    return pow((double)count * leaves[i] / sum_of(leaves, count), -beta);
}

static double largest_weight(const double *leaves, int64_t count, double beta)
{
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++)
        if (leaves[i] > 0.0)
            largest = fmax(largest, weight_of(leaves, count, i, beta));
    return largest;
}

void reference_weights(const double *leaves, int64_t count, const int64_t *sampled, int64_t batch, double beta,
                       int norm, double *weights)
{
    const int flat = sum_of(leaves, count) == 0.0;
    double largest = 0.0;
    for (int64_t b = 0; b < batch; b++) {
        weights[b] = flat ? 1.0 : weight_of(leaves, count, sampled[b], beta);
        largest = fmax(largest, weights[b]);
    }
    if (norm == REFERENCE_NORM_MEMORY && !flat)
        largest = largest_weight(leaves, count, beta);
    for (int64_t b = 0; b < batch && norm != REFERENCE_NORM_NONE; b++)
        weights[b] /= largest;
}

static int64_t find(const double *leaves, int64_t count, uint64_t u)
{
    uint64_t below = 0;
    for (int64_t i = 0; i < count; i++) {
        below += (uint64_t)leaves[i];
        if (u < below)
            return i;
    }
    return -1;
}

int64_t reference_sample_by_priority(const double *leaves, int64_t count, uint64_t seed, uint32_t purpose,
                                     uint64_t sample, int64_t b, int64_t batch, int stratified)
{
    const uint64_t total = (uint64_t)sum_of(leaves, count);
    const uint64_t parts = stratified ? (uint64_t)batch : 1, part = stratified ? (uint64_t)b : 0;
    const uint64_t first = (uint64_t)((wide)total * part / parts), end = (uint64_t)((wide)total * (part + 1) / parts);
    const uint64_t n = total > 0 ? end - first : (uint64_t)count;
    const uint64_t number = reference_random_below(seed, purpose, sample, (uint32_t)b, n);
    return total > 0 ? find(leaves, count, first + number) : (int64_t)number;
}
