/* SPDX-License-Identifier: MIT */
/*
 * Sets new priorities of rows by id [Schaul et al. 2016, algorithm 1]. Arguments and shapes:
 * gpur_priority_update_args. Of several priorities for one row the largest counts, in any order of threads.
 *
 * Up to 1,024 rows on a GPU: the sign bit of a stored priority, which is 0 or more, marks a row whose priority is of
 * this update already. The priority of each row is raised, mark and all, by one atomic maximum, which replaces one that
 * is not marked, or a smaller one that is. What was there before says what to add to the row's leaf and to the sums:
 * the leaf of the one less that of the other. These differences add up to the right one, in whatever order threads
 * come. The last block to end takes the marks off and settles the tree; more rows would be too many for one block.
 *
 * More rows, and blocks of several CPU threads, take the phases CLEAR and RAISE one after the other: the first sets the
 * leaves to 0, the second raises them. The serial body marks rows, too, and takes row tiles, with prefetching.
 */
#pragma once

#include "kernels/priority/settle.h"

/* The mark of a row whose priority is of this update. */
#define GPUR_SEEN_BIT 0x80000000u

/* One thread's counters. */
typedef struct gpur_priority_update_counters {
    uint64_t total; /* change of the tree's total */
    uint64_t updates, stale, invalid;
    uint32_t max_priority;
} gpur_priority_update_counters;

GPUR_FN gpur_priority_update_counters gpur_priority_update_begin(void)
{
    gpur_priority_update_counters counters;
    memset(&counters, 0, sizeof counters);
    return counters;
}

/* Adds the counters to the tree's total and state: one atomic a warp for those that every row changes. Every thread
 * must call it. */
GPUR_FN void gpur_priority_update_end(gpur_thread at, const gpur_priority_update_args *a,
                                      const gpur_priority_update_counters *counters)
{
    gpur_priority_state *const state = a->tree.state;
    const uint64_t updates = gpur_warp_sum_u64(at, counters->updates);
    const uint32_t largest = gpur_warp_prefix_max_u32(at, counters->max_priority);
    gpur_tree_add_total(at, &a->tree, counters->total);
    if (updates && gpur_lane(at) == GPUR_WARP - 1)
        gpur_atomic_add_u64((uint64_t *)&state->updates, updates);
    if (counters->stale)
        gpur_atomic_add_u64((uint64_t *)&state->stale, counters->stale);
    if (counters->invalid)
        gpur_atomic_add_u64((uint64_t *)&state->invalid, counters->invalid);
    if (largest && gpur_lane(at) == GPUR_WARP - 1)
        gpur_atomic_max_u32(&state->ever, largest);
}

/* Returns the slot of row i, or -1 if its id is stale or its priority invalid. `p` becomes the new priority; -1:
 * invalid. */
GPUR_FN int64_t gpur_priority_update_row(const gpur_priority_update_args *a, const gpur_window *window, int64_t i,
                                         float *p)
{
    const int64_t slot = gpur_tree_slot(&a->tree, window, a->id[i]);
    *p = gpur_priority_add_offset(fabsf(a->priority[i]), a->offset);
    return *p < 0.0f ? -1 : slot;
}

/* The same, of a row that is to get its priority; counts it. */
GPUR_FN int64_t gpur_priority_update_take(const gpur_priority_update_args *a, const gpur_window *window, int64_t i,
                                          float *p, gpur_priority_update_counters *counters)
{
    const int64_t slot = gpur_priority_update_row(a, window, i, p);
    counters->invalid += *p < 0.0f;
    counters->stale += *p >= 0.0f && slot < 0;
    counters->updates += slot >= 0;
    return slot;
}

/* CLEAR: sets the rows' leaves to 0 and subtracts each from all sums, once even if its row is given several times. */
GPUR_FN void gpur_priority_update_clear(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    gpur_priority_update_counters counters = gpur_priority_update_begin();
    for (int64_t i = span.first; i < span.last; i += span.step) {
        float p;
        const int64_t slot = gpur_priority_update_row(a, &window, i, &p);
        if (slot < 0)
            continue;
        const uint64_t change = 0 - (uint64_t)gpur_atomic_exchange_u32(&a->tree.leaf[slot], 0);
        gpur_atomic_exchange_u32((uint32_t *)&a->tree.priority[slot], 0);
        counters.total += change;
        if (change)
            gpur_tree_add_above(&a->tree, slot, change);
    }
    gpur_priority_update_end(at, a, &counters);
}

/* RAISE: a row keeps the largest of its new priorities. Each priority that raises the leaf adds the difference to the
 * sums. */
GPUR_FN void gpur_priority_update_raise(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    const gpur_leaf_scale scale = gpur_tree_scale(&a->tree);
    gpur_priority_update_counters counters = gpur_priority_update_begin();
    for (int64_t i = span.first; i < span.last; i += span.step) {
        float p;
        const int64_t slot = gpur_priority_update_take(a, &window, i, &p, &counters);
        if (slot < 0)
            continue;
        const uint32_t bits = gpur_priority_to_bits(p), leaf = gpur_leaf_of(p, scale);
        gpur_atomic_max_u32((uint32_t *)&a->tree.priority[slot], bits);
        gpur_tree_raise(&a->tree, slot, bits);
        const uint32_t before = gpur_atomic_max_u32(&a->tree.leaf[slot], leaf);
        const uint64_t change = leaf > before ? leaf - before : 0;
        if (change)
            gpur_tree_add_above(&a->tree, slot, change);
        counters.total += change;
        counters.max_priority = bits > counters.max_priority ? bits : counters.max_priority;
    }
    gpur_priority_update_end(at, a, &counters);
}

/* CLEAR and RAISE by one block with a thread for each row. It computes the new leaves while it waits for the old ones,
 * and changes each sum once. */
GPUR_FN void gpur_priority_update_block(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_window window = *a->window;
    const gpur_leaf_scale scale = gpur_tree_scale(&a->tree);
    gpur_priority_update_counters counters = gpur_priority_update_begin();
    int64_t slot = -1;
    float p = 0.0f;
    uint32_t old = 0;
    if (at.thread < a->count)
        slot = gpur_priority_update_take(a, &window, at.thread, &p, &counters);
    if (slot >= 0) {
        old = gpur_atomic_exchange_u32(&a->tree.leaf[slot], 0);
        gpur_atomic_exchange_u32((uint32_t *)&a->tree.priority[slot], 0);
    }
    const uint32_t leaf = gpur_leaf_of(p, scale);
    gpur_barrier(at);
    if (slot >= 0) {
        counters.max_priority = gpur_priority_to_bits(p);
        gpur_atomic_max_u32((uint32_t *)&a->tree.priority[slot], counters.max_priority);
        gpur_tree_raise(&a->tree, slot, counters.max_priority);
        const uint32_t before = gpur_atomic_max_u32(&a->tree.leaf[slot], leaf);
        counters.total = (leaf > before ? (uint64_t)(leaf - before) : 0) - old;
        if (counters.total)
            gpur_tree_add_above(&a->tree, slot, counters.total);
    }
    gpur_priority_update_end(at, a, &counters);
}

/* Changes a slot's priority, given by its bits, from one to the other, and the leaf and the sums above it by the
 * difference. Returns the change, which the total lacks. */
GPUR_FN uint64_t gpur_priority_update_change(const gpur_tree *tree, int64_t slot, uint32_t from, uint32_t to,
                                             gpur_leaf_scale scale)
{
    const uint64_t change = (uint64_t)gpur_leaf_of(gpur_priority_from_bits(to), scale) -
                            (uint64_t)gpur_leaf_of(gpur_priority_from_bits(from), scale);
    if (change) {
        gpur_atomic_add_u32(&tree->leaf[slot], (uint32_t)change);
        gpur_tree_add_above(tree, slot, change);
    }
    return change;
}

/* Raises each row's priority, in one pass over the rows, and marks it. */
GPUR_FN void gpur_priority_update_once(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    const gpur_leaf_scale scale = gpur_tree_scale(&a->tree);
    gpur_priority_update_counters counters = gpur_priority_update_begin();
    for (int64_t i = span.first; i < span.last; i += span.step) {
        float p;
        const int64_t slot = gpur_priority_update_take(a, &window, i, &p, &counters);
        if (slot < 0)
            continue;
        const uint32_t bits = gpur_priority_to_bits(p), marked = bits | GPUR_SEEN_BIT;
        const uint32_t before = gpur_atomic_max_u32((uint32_t *)&a->tree.priority[slot], marked);
        gpur_tree_raise(&a->tree, slot, bits);
        if (before < marked)
            counters.total += gpur_priority_update_change(&a->tree, slot, before & ~GPUR_SEEN_BIT, bits, scale);
        counters.max_priority = bits > counters.max_priority ? bits : counters.max_priority;
    }
    gpur_priority_update_end(at, a, &counters);
}

/* Takes the marks off. */
GPUR_FN void gpur_priority_update_unmark(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    for (int64_t i = span.first; i < span.last; i += span.step) {
        const int64_t slot = gpur_tree_slot(&a->tree, &window, a->id[i]);
        if (slot >= 0)
            gpur_atomic_and_u32((uint32_t *)&a->tree.priority[slot], ~GPUR_SEEN_BIT);
    }
}

/* EVICT: a row's leaf in the tree by which rows are evicted follows from its priority again. A slot that has another
 * row by now has the right leaf already. */
GPUR_FN void gpur_priority_update_evict(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    uint64_t change = 0;
    if (!a->evict.leaf)
        return;
    for (int64_t i = span.first; i < span.last; i += span.step)
        change += a->id[i] < 0 ? 0 : gpur_tree_set_leaf(&a->evict, a->id[i] % a->evict.capacity);
    gpur_tree_add_total(at, &a->evict, change);
}

/* Recomputes the minima of one level's nodes above the rows, with a warp for each row. Several warps may compute the
 * same node, all with the same result. */
GPUR_FN void gpur_priority_update_min(gpur_thread at, const gpur_priority_update_args *a, int32_t level)
{
    const gpur_span rows = gpur_warp_rows(at, a->count);
    const gpur_window window = *a->window;
    int64_t last = -1;
    for (int64_t i = rows.first; i < rows.last; i += rows.step) {
        const int64_t slot = gpur_tree_slot(&a->tree, &window, a->id[i]);
        const int64_t node = slot >> (level + 1) * GPUR_TREE_SHIFT;
        if (slot < 0 || node == last)
            continue;
        const uint32_t smallest = gpur_tree_node_min(at, &a->tree, level, node);
        if (gpur_lane(at) == 0)
            gpur_atomic_exchange_u32(&a->tree.min_leaf[level][node], smallest);
        last = node;
    }
}

/* The serial version of CLEAR and RAISE, in one pass by a single thread. While one tile of rows is updated, the cache
 * lines of the next tile are prefetched, and its leaves are computed in groups meanwhile. */
enum { GPUR_UPDATE_TILE_ROWS = 32, GPUR_UPDATE_GROUP = 8 };

typedef struct gpur_priority_update_tile {
    int64_t slot[GPUR_UPDATE_TILE_ROWS]; /* -1: stale or invalid */
    float p[GPUR_UPDATE_TILE_ROWS];      /* initialized after the last row, too: leaves are computed in whole groups */
    uint32_t leaf[GPUR_UPDATE_TILE_ROWS];
    int32_t rows;
} gpur_priority_update_tile;

/* Finds the slots of the next tile, which may be empty, and counts its rows. */
GPUR_FN void gpur_priority_update_tile_begin(const gpur_priority_update_args *a, const gpur_window *window,
                                             int64_t first, gpur_priority_update_tile *tile,
                                             gpur_priority_update_counters *counters)
{
    const int64_t left = a->count - first;
    tile->rows = (int32_t)(left < 0 ? 0 : left < GPUR_UPDATE_TILE_ROWS ? left : GPUR_UPDATE_TILE_ROWS);
    for (int32_t i = 0; i < tile->rows; i++) {
        tile->slot[i] = gpur_tree_slot(&a->tree, window, a->id[first + i]);
        tile->p[i] = gpur_priority_add_offset(fabsf(a->priority[first + i]), a->offset);
    }
    for (int32_t i = 0; i < tile->rows; i++) {
        const int good = tile->p[i] >= 0.0f, there = tile->slot[i] >= 0;
        counters->invalid += !good, counters->stale += good && !there, counters->updates += good && there;
        tile->slot[i] = good ? tile->slot[i] : -1;
    }
}

/* Computes the leaves of one group. The group's size is a constant, so the loop vectorizes. */
GPUR_FN void gpur_priority_update_group_leaves(gpur_priority_update_tile *tile, int32_t first, gpur_leaf_scale scale)
{
    for (int32_t i = first; i < first + GPUR_UPDATE_GROUP; i++)
        tile->leaf[i] = gpur_leaf_of(tile->p[i], scale);
}

/* Prefetches into the second-level cache, which in a large tree was measured to be faster than the first. */
GPUR_FN void gpur_priority_update_prefetch(const gpur_tree *tree, int64_t slot)
{
    const int64_t at = slot < 0 ? 0 : slot;
    gpur_prefetch_l2(&tree->leaf[at]);
    gpur_prefetch_l2(&tree->priority[at]);
    gpur_prefetch_l2(&tree->segment[0][gpur_tree_segment(at, 0)]);
}

GPUR_FN void gpur_priority_update_run_row(const gpur_tree *tree, const gpur_priority_update_tile *tile, int32_t i,
                                          gpur_priority_update_counters *counters)
{
    uint32_t *const raw = (uint32_t *)tree->priority;
    const int64_t slot = tile->slot[i];
    const uint32_t bits = gpur_priority_to_bits(tile->p[i]);
    if (slot < 0 || (raw[slot] & GPUR_SEEN_BIT && bits <= (raw[slot] & ~GPUR_SEEN_BIT)))
        return;
    const uint64_t change = (uint64_t)tile->leaf[i] - (uint64_t)tree->leaf[slot];
    tree->leaf[slot] = tile->leaf[i];
    raw[slot] = bits | GPUR_SEEN_BIT;
    for (int l = 0; l + 1 < tree->levels; l++) {
        tree->segment[l][gpur_tree_segment(slot, l)] += change;
        tree->sum[l][slot >> (l + 1) * GPUR_TREE_SHIFT] += change;
    }
    if (tree->bound[slot >> GPUR_TREE_SHIFT] < bits)
        gpur_tree_raise(tree, slot, bits);
    counters->total += change;
    counters->max_priority = bits > counters->max_priority ? bits : counters->max_priority;
}

/* Prefetches one row of the next tile before each row of this one: prefetches that are issued all at once wait for
 * each other. */
GPUR_FN void gpur_priority_update_run_group(const gpur_tree *tree, const gpur_priority_update_tile *tile,
                                            const gpur_priority_update_tile *next, int32_t first,
                                            gpur_priority_update_counters *counters)
{
    for (int32_t i = first; i < first + GPUR_UPDATE_GROUP; i++) {
        if (i < next->rows)
            gpur_priority_update_prefetch(tree, next->slot[i]);
        if (i < tile->rows)
            gpur_priority_update_run_row(tree, tile, i, counters);
    }
}

GPUR_FN void gpur_priority_update_tile_run(const gpur_tree *tree, const gpur_priority_update_tile *tile,
                                           gpur_priority_update_tile *next, gpur_priority_update_counters *counters)
{
    const gpur_leaf_scale scale = gpur_tree_scale(tree);
    for (int32_t first = 0; first < tile->rows || first < next->rows; first += GPUR_UPDATE_GROUP) {
        gpur_priority_update_run_group(tree, tile, next, first, counters);
        if (first < next->rows)
            gpur_priority_update_group_leaves(next, first, scale);
    }
}

/* Clears the mark of every row. */
GPUR_FN void gpur_priority_update_clear_seen(const gpur_priority_update_args *a, const gpur_window *window)
{
    uint32_t *const raw = (uint32_t *)a->tree.priority;
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t slot = gpur_tree_slot(&a->tree, window, a->id[i]);
        if (slot >= 0)
            raw[slot] &= ~GPUR_SEEN_BIT;
    }
}

/* The serial body. Two tiles alternate: one is updated while the next is prepared. */
GPUR_FN void gpur_priority_update_serial(gpur_thread at, const gpur_priority_update_args *a)
{
    const gpur_window window = *a->window;
    gpur_priority_update_counters counters = gpur_priority_update_begin();
    gpur_priority_update_tile tiles[2];
    int now = 0;
    memset(tiles[0].p, 0, sizeof tiles[0].p);
    memset(tiles[1].p, 0, sizeof tiles[1].p);
    tiles[now].rows = 0;
    for (int64_t first = 0; first < a->count || tiles[now].rows > 0; first += GPUR_UPDATE_TILE_ROWS) {
        gpur_priority_update_tile *const next = &tiles[1 - now];
        gpur_priority_update_tile_begin(a, &window, first, next, &counters);
        gpur_priority_update_tile_run(&a->tree, &tiles[now], next, &counters);
        now = 1 - now;
    }
    gpur_priority_update_clear_seen(a, &window);
    gpur_priority_update_end(at, a, &counters);
}

/* CLEAR and RAISE, by one block. */
GPUR_FN void gpur_priority_update_by_block(gpur_thread at, const gpur_priority_update_args *a)
{
    if (!gpur_is_parallel()) {
        gpur_priority_update_serial(at, a);
    } else if (a->count <= at.threads) {
        gpur_priority_update_block(at, a);
    } else {
        gpur_priority_update_clear(at, a);
        gpur_barrier(at);
        gpur_priority_update_raise(at, a);
    }
}

/* Whether the last block to end goes on with what one block alone may do. */
GPUR_FN int gpur_priority_update_goes_on(void)
{
    return gpur_is_parallel() && !GPUR_DRAWS_ARE_SEPARATE;
}

/* This block's share of a phase that gives rows their priorities. Returns whether one block is to settle the tree then.
 */
GPUR_FN int gpur_priority_update_rows(gpur_thread at, const gpur_priority_update_args *a)
{
    const int goes_on = gpur_priority_update_goes_on();
    if (a->phase == GPUR_PHASE_CLEAR)
        gpur_priority_update_clear(at, a);
    else if (a->phase == GPUR_PHASE_RAISE)
        gpur_priority_update_raise(at, a);
    else if (a->phase == GPUR_PHASE_ALL && goes_on)
        gpur_priority_update_once(at, a);
    else if (a->phase == GPUR_PHASE_ALL && at.block == 0)
        gpur_priority_update_by_block(gpur_as_single_block(at), a);
    return a->phase == GPUR_PHASE_ALL || a->phase == GPUR_PHASE_SETTLE ||
           (a->phase == GPUR_PHASE_RAISE && goes_on && !a->evict.leaf);
}

/* What one block does when the rows have their priorities: of the phase ALL, everything. */
GPUR_FN void gpur_priority_update_finish(gpur_thread at, const gpur_priority_update_args *a)
{
    const int32_t levels = a->phase == GPUR_PHASE_ALL && a->tree.min_leaf[0] ? a->tree.levels : 0;
    if (a->phase == GPUR_PHASE_ALL && gpur_priority_update_goes_on())
        gpur_priority_update_unmark(at, a);
    if (a->phase == GPUR_PHASE_ALL && a->evict.leaf) {
        gpur_barrier(at);
        gpur_priority_update_evict(at, a);
    }
    gpur_tree_settle(at, &a->tree, &a->evict);
    for (int32_t level = 0; level < levels; level++) {
        gpur_barrier(at);
        gpur_priority_update_min(at, a, level);
    }
}

GPUR_KERNEL(priority_update)
{
    if (a->skip_if_empty && a->window->count == 0)
        return;
    if (a->phase == GPUR_PHASE_EVICT)
        gpur_priority_update_evict(at, a);
    else if (a->phase >= GPUR_PHASE_MIN)
        gpur_priority_update_min(at, a, a->phase - GPUR_PHASE_MIN);
    else if (gpur_priority_update_rows(at, a) && gpur_is_last_to_arrive(at, &a->tree.state->arrived))
        gpur_priority_update_finish(gpur_as_single_block(at), a);
}
