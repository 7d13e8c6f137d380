/* SPDX-License-Identifier: MIT */
#include "sum_tree.h"

#include "setup.h"

#include <math.h>
#include <stdlib.h>

void sum_tree_open(sum_tree *tree, int64_t entries)
{
    tree->entries = entries;
    tree->random = 1;
    for (tree->leaves = 1; tree->leaves < entries; tree->leaves *= 2)
        continue;
    tree->sum = calloc((size_t)(2 * tree->leaves), sizeof *tree->sum);
    if (!tree->sum)
        bench_must(GPUR_OUT_OF_MEMORY, "a sum tree");
    for (int64_t i = 0; i < entries; i++)
        tree->sum[tree->leaves + i] = 1.0;
    for (int64_t n = tree->leaves - 1; n >= 1; n--)
        tree->sum[n] = tree->sum[2 * n] + tree->sum[2 * n + 1];
}

void sum_tree_close(sum_tree *tree)
{
    free(tree->sum);
}

static double uniform(sum_tree *tree)
{
    tree->random = tree->random * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(tree->random >> 11) * 0x1p-53;
}

static int64_t find(const sum_tree *tree, double u)
{
    int64_t n = 1;
    while (n < tree->leaves) {
        n *= 2;
        if (u >= tree->sum[n])
            u -= tree->sum[n], n++;
    }
    return n - tree->leaves;
}

void sum_tree_draw(sum_tree *tree, int64_t count, double beta, int64_t *entries, float *weights)
{
    const double total = tree->sum[1], part = total / (double)count;
    float largest = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        entries[i] = find(tree, ((double)i + uniform(tree)) * part);
        const double p = tree->sum[tree->leaves + entries[i]] / total;
        weights[i] = powf((float)((double)tree->entries * p), (float)-beta);
        largest = weights[i] > largest ? weights[i] : largest;
    }
    for (int64_t i = 0; i < count; i++)
        weights[i] /= largest;
}

void sum_tree_update(sum_tree *tree, int64_t count, const int64_t *entries, const float *errors, double alpha)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t n = tree->leaves + entries[i];
        tree->sum[n] = (double)powf(fabsf(errors[i]) + 1e-6f, (float)alpha);
        for (n /= 2; n >= 1; n /= 2)
            tree->sum[n] = tree->sum[2 * n] + tree->sum[2 * n + 1];
    }
}
