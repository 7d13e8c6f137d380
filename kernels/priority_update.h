/* SPDX-License-Identifier: MIT */
#ifndef GPUR_PRIORITY_UPDATE_H
#define GPUR_PRIORITY_UPDATE_H

#include "tree.h"

/* What one thread has come to. */
typedef struct gpur_update_tally {
    uint64_t total; /* change of the tree's total */
    uint64_t updates, stale, invalid;
    uint32_t most;
} gpur_update_tally;

GPUR_FN gpur_update_tally gpur_update_begin(void)
{
    gpur_update_tally tally;
    memset(&tally, 0, sizeof tally);
    return tally;
}

/* Every thread must come here. */
GPUR_FN void gpur_update_end(gpur_place at, const gpur_priority_update_args *a, const gpur_update_tally *tally)
{
    gpur_priority_state *const state = a->tree.state;
    gpur_tree_add_total(at, &a->tree, tally->total);
    if (tally->updates)
        gpur_atomic_add_u64((uint64_t *)&state->updates, tally->updates);
    if (tally->stale)
        gpur_atomic_add_u64((uint64_t *)&state->stale, tally->stale);
    if (tally->invalid)
        gpur_atomic_add_u64((uint64_t *)&state->invalid, tally->invalid);
    if (tally->most)
        gpur_atomic_max_u32(&state->most, tally->most);
}

/* The slot of row i and its new priority; -1: refused. */
GPUR_FN int64_t gpur_update_row(const gpur_priority_update_args *a, const gpur_window *window, int64_t i, float *p)
{
    const int64_t slot = gpur_tree_slot(&a->tree, window, a->id[i]);
    *p = gpur_priority_with(a->priority[i], a->offset);
    return *p < 0.0f ? -1 : slot;
}

/* The leaf goes to 0, and with it out of all sums: once, however often the row is there. */
GPUR_FN void gpur_update_clear(gpur_place at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    gpur_update_tally tally = gpur_update_begin();
    for (int64_t i = span.first; i < span.last; i += span.step) {
        float p;
        const int64_t slot = gpur_update_row(a, &window, i, &p);
        if (slot < 0)
            continue;
        const uint64_t change = 0 - (uint64_t)gpur_atomic_exchange_u32(&a->tree.leaf[slot], 0);
        gpur_atomic_exchange_u32((uint32_t *)&a->tree.raw[slot], 0);
        tally.total += change;
        if (change)
            gpur_tree_add_above(&a->tree, slot, change);
    }
    gpur_update_end(at, a, &tally);
}

/* The largest of a row's new priorities stays: each that raises the leaf adds what it raises it by. */
GPUR_FN void gpur_update_raise(gpur_place at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    const float alpha = a->tree.state->alpha;
    gpur_update_tally tally = gpur_update_begin();
    for (int64_t i = span.first; i < span.last; i += span.step) {
        float p;
        const int64_t slot = gpur_update_row(a, &window, i, &p);
        tally.invalid += p < 0.0f;
        tally.stale += p >= 0.0f && slot < 0;
        if (slot < 0)
            continue;
        const uint32_t bits = gpur_priority_bits(p), leaf = gpur_leaf_of(p, alpha);
        gpur_atomic_max_u32((uint32_t *)&a->tree.raw[slot], bits);
        const uint32_t before = gpur_atomic_max_u32(&a->tree.leaf[slot], leaf);
        const uint64_t change = leaf > before ? leaf - before : 0;
        if (change)
            gpur_tree_add_above(&a->tree, slot, change);
        tally.total += change;
        tally.most = bits > tally.most ? bits : tally.most;
        tally.updates++;
    }
    gpur_update_end(at, a, &tally);
}

/* The smallest leaves of the nodes of a level above the rows, a row a warp. The same node may be worked out several
 * times, each time alike. */
GPUR_FN void gpur_update_least(gpur_place at, const gpur_priority_update_args *a, int32_t level)
{
    const gpur_span rows = gpur_warp_rows(at, a->count);
    const gpur_window window = *a->window;
    int64_t last = -1;
    for (int64_t i = rows.first; i < rows.last; i += rows.step) {
        const int64_t slot = gpur_tree_slot(&a->tree, &window, a->id[i]);
        const int64_t node = slot >> (level + 1) * GPUR_TREE_SHIFT;
        if (slot < 0 || node == last)
            continue;
        const uint32_t least = gpur_tree_node_least(at, &a->tree, level, node);
        if (gpur_lane(at) == 0)
            gpur_atomic_exchange_u32(&a->tree.least[level][node], least);
        last = node;
    }
}

/* The first two parts for one thread that nobody else disturbs, with plain sums. */
enum { GPUR_UPDATE_AHEAD = 16 };

GPUR_FN void gpur_update_prefetch(const gpur_priority_update_args *a, const gpur_window *window, int64_t i)
{
    const int64_t slot = i < a->count ? gpur_tree_slot(&a->tree, window, a->id[i]) : -1;
    if (slot < 0)
        return;
    gpur_prefetch(&a->tree.leaf[slot]);
    gpur_prefetch(&a->tree.raw[slot]);
    gpur_prefetch(&a->tree.sum[0][slot >> GPUR_TREE_SHIFT]);
}

GPUR_FN void gpur_update_add(const gpur_tree *tree, int64_t slot, uint64_t x)
{
    for (int l = 0; l < tree->levels; l++)
        tree->sum[l][slot >> (l + 1) * GPUR_TREE_SHIFT] += x;
}

GPUR_FN void gpur_update_clear_alone(const gpur_priority_update_args *a, const gpur_window *window)
{
    for (int64_t i = 0; i < GPUR_UPDATE_AHEAD; i++)
        gpur_update_prefetch(a, window, i);
    for (int64_t i = 0; i < a->count; i++) {
        float p;
        const int64_t slot = gpur_update_row(a, window, i, &p);
        gpur_update_prefetch(a, window, i + GPUR_UPDATE_AHEAD);
        if (slot < 0)
            continue;
        gpur_update_add(&a->tree, slot, 0 - (uint64_t)a->tree.leaf[slot]);
        a->tree.leaf[slot] = 0;
        a->tree.raw[slot] = 0.0f;
    }
}

GPUR_FN void gpur_update_alone(gpur_place at, const gpur_priority_update_args *a)
{
    const gpur_window window = *a->window;
    const float alpha = a->tree.state->alpha;
    gpur_update_tally tally = gpur_update_begin();
    gpur_update_clear_alone(a, &window);
    for (int64_t i = 0; i < a->count; i++) {
        float p;
        const int64_t slot = gpur_update_row(a, &window, i, &p);
        tally.invalid += p < 0.0f;
        tally.stale += p >= 0.0f && slot < 0;
        if (slot < 0)
            continue;
        const uint32_t bits = gpur_priority_bits(p), leaf = gpur_leaf_of(p, alpha), before = a->tree.leaf[slot];
        if (leaf > before) {
            gpur_update_add(&a->tree, slot, leaf - before);
            a->tree.leaf[slot] = leaf;
        }
        a->tree.raw[slot] = p > a->tree.raw[slot] ? p : a->tree.raw[slot];
        tally.most = bits > tally.most ? bits : tally.most;
        tally.updates++;
    }
    gpur_update_end(at, a, &tally);
}

GPUR_FN void gpur_update_all(gpur_place at, const gpur_priority_update_args *a)
{
    if (gpur_strided()) {
        gpur_update_clear(at, a);
        gpur_barrier(at);
        gpur_update_raise(at, a);
    } else {
        gpur_update_alone(at, a);
    }
    for (int32_t level = 0; a->tree.least[0] && level < a->tree.levels; level++) {
        gpur_barrier(at);
        gpur_update_least(at, a, level);
    }
}

/* As if this block were the only one. */
GPUR_FN gpur_place gpur_alone(gpur_place at)
{
    at.blocks = 1;
    return at;
}

GPUR_KERNEL(priority_update)
{
    if (a->quiet && a->window->count == 0)
        return;
    if (a->part == GPUR_UPDATE_CLEAR)
        gpur_update_clear(at, a);
    else if (a->part == GPUR_UPDATE_RAISE)
        gpur_update_raise(at, a);
    else if (a->part >= GPUR_UPDATE_LEAST)
        gpur_update_least(at, a, a->part - GPUR_UPDATE_LEAST);
    else if (at.block == 0)
        gpur_update_all(gpur_alone(at), a);
}

#endif
