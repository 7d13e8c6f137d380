/* SPDX-License-Identifier: MIT */
/*
 * Prioritized replay again, naive, in double [Schaul et al. 2016]: a list of priorities, and walks over it.
 */
#pragma once

#include <stdint.h>

/* (p / 2^octave)^alpha one, rounded to an integer from 1 to 2^32 - 1; 0 for p = 0. `one` is 2^26 in the tree by which
 * rows are sampled, and 2^16 in that by which they are evicted. */
enum { REFERENCE_SAMPLE_ONE = 1 << 26, REFERENCE_EVICT_ONE = 1 << 16 };
double reference_leaf(double p, double alpha, int octave, double one);

/* The octave after the largest priority became `largest`: it changes if that one's leaf is more than 2^5 times as large
 * or small as it would be in its own octave, the smallest n with largest <= 2^n. */
int reference_octave(int octave, double largest, double alpha);

enum { REFERENCE_NORM_BATCH, REFERENCE_NORM_MEMORY, REFERENCE_NORM_NONE };

/*
 * Importance weights (N P)^-beta of the rows `sampled` (batch) among `count` visible ones, divided by their largest, by
 * the largest of all rows with a leaf, or by 1 [section 3.4]. All 1 where no row has a leaf.
 */
void reference_weights(const double *leaves, int64_t count, const int64_t *sampled, int64_t batch, double beta,
                       int norm, double *weights);

/*
 * Row b of `batch` in sample number `sample` of a seed: Philox4x32-10 for the purpose, then a unit of part b of the sum
 * of leaves (`stratified`), or of all of it; of all rows alike where the sum is 0. Exact: leaves are whole numbers with
 * a sum below 2^53.
 */
int64_t reference_sample_by_priority(const double *leaves, int64_t count, uint64_t seed, uint32_t purpose,
                                     uint64_t sample, int64_t b, int64_t batch, int stratified);
