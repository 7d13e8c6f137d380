/* SPDX-License-Identifier: MIT */
/*
 * Evicts rows with probability in proportion to p^evict_alpha [Horgan et al. 2018, appendix D: evict_alpha is below 0,
 * so that rows with small priorities leave]. Arguments and shapes: gpur_priority_evict_args.
 *
 * All rows are drawn at once and with replacement. Of draws of the same row the first one counts: the different rows,
 * in the order of their first draws, are successive draws without replacement. The draws that are left are then made
 * one by one among the rows that are left, which is how the successive draws go on. So the rows that leave have exactly
 * the probabilities of draws one after the other, and depend on no order of threads.
 */
#pragma once

#include "kernels/priority/priority_sample.h"

/* The changes of the totals of both trees. */
typedef struct gpur_evict_change {
    uint64_t sample, evict;
} gpur_evict_change;

/* Takes a slot's leaf from a tree. Returns the change, which the total lacks. */
GPUR_FN uint64_t gpur_evict_leaf(const gpur_tree *tree, int64_t slot)
{
    const uint64_t change = 0 - (uint64_t)tree->leaf[slot];
    tree->leaf[slot] = 0;
    gpur_tree_add_above(tree, slot, change);
    return change;
}

/* Evicts the row in this slot, as the n-th one. */
GPUR_FN void gpur_evict_row(const gpur_priority_evict_args *a, int64_t n, int64_t slot, gpur_evict_change *change)
{
    change->sample += gpur_evict_leaf(&a->tree, slot);
    change->evict += gpur_evict_leaf(&a->draw.tree, slot);
    a->tree.priority[slot] = 0.0f;
    a->tree.turn[slot]++;
    a->slots[(a->first + n) % a->tree.capacity] = slot;
}

/* Whether an earlier draw is the same row. */
GPUR_FN int gpur_evict_is_repeated(const int64_t *id, int64_t n)
{
    int is_repeated = 0;
    for (int64_t k = 0; k < n; k++)
        is_repeated |= id[k] == id[n];
    return is_repeated;
}

/* Evicts the rows that were drawn. The leaf of a repeated draw becomes 0, as the mark of one to be made again. */
GPUR_FN void gpur_evict_drawn(gpur_thread at, const gpur_priority_evict_args *a)
{
    const gpur_span span = gpur_block_span(at, a->draw.batch);
    gpur_evict_change change = {0, 0};
    for (int64_t n = span.first; n < span.last; n += span.step) {
        if (gpur_evict_is_repeated(a->draw.id, n))
            a->draw.leaf[n] = 0;
        else
            gpur_evict_row(a, n, a->draw.id[n] % a->tree.capacity, &change);
    }
    gpur_tree_add_total(at, &a->tree, change.sample);
    gpur_tree_add_total(at, &a->draw.tree, change.evict);
}

/* Makes repeated draws again, one after the other. By one thread. */
GPUR_FN void gpur_evict_repeated(const gpur_priority_evict_args *a)
{
    const gpur_tree *const tree = &a->draw.tree;
    for (int64_t n = 0; n < a->draw.batch; n++) {
        gpur_evict_change change = {0, 0};
        if (a->draw.leaf[n] != 0)
            continue;
        const gpur_u32x4 bits =
            gpur_random_bits(a->draw.seed, a->draw.purpose, a->draw.step_value, (uint32_t)(GPUR_EVICT_ROWS + n));
        gpur_evict_row(a, n, gpur_thread_find(tree, gpur_random_below(bits, gpur_tree_total(tree))), &change);
        gpur_atomic_add_u64(&a->tree.sum[a->tree.levels - 1][0], change.sample);
        gpur_atomic_add_u64(&tree->sum[tree->levels - 1][0], change.evict);
    }
}

GPUR_KERNEL(priority_evict)
{
    gpur_priority_sample(at, &a->draw);
    gpur_barrier(at);
    gpur_evict_drawn(at, a);
    gpur_barrier(at);
    if (at.thread != 0)
        return;
    gpur_evict_repeated(a);
    *a->window = a->next;
}
