/* SPDX-License-Identifier: MIT */
/*
 * Prioritized replay as it is commonly written for a CPU, and plainly: a binary tree of sums in double, one array,
 * whose nodes n have the children 2 n and 2 n + 1; draws walk down it and updates walk up it [Schaul et al. 2016,
 * appendix B.2.1]. One thread, nothing but indices, priorities and weights.
 */
#ifndef BENCH_SUM_TREE_H
#define BENCH_SUM_TREE_H

#include <stdint.h>

typedef struct sum_tree {
    int64_t entries, leaves; /* leaves: the next power of two */
    double *sum;             /* (2 leaves) from 1 on */
    uint64_t random;
} sum_tree;

/* All priorities 1. Leaves the program when there is no memory. */
void sum_tree_open(sum_tree *tree, int64_t entries);
void sum_tree_close(sum_tree *tree);

/* One entry of each of `count` equal parts, and its weight (N P)^-beta, divided by the largest. */
void sum_tree_draw(sum_tree *tree, int64_t count, double beta, int64_t *entries, float *weights);

/* |error| + 1e-6, to the power of alpha. */
void sum_tree_update(sum_tree *tree, int64_t count, const int64_t *entries, const float *errors, double alpha);

#endif
