/* SPDX-License-Identifier: MIT */
/* Settles the tree after rows were inserted or evicted: gpur_priority_settle_args. */
#pragma once

#include "kernels/priority/settle.h"

/* Gives the slot another priority. Returns the change of its leaf. */
GPUR_FN uint64_t gpur_fold_replace(const gpur_tree *tree, int64_t slot, uint32_t bits)
{
    const float p = gpur_priority_from_bits(bits);
    const uint32_t leaf = gpur_leaf_of(p, gpur_tree_scale(tree));
    const uint64_t change = (uint64_t)leaf - (uint64_t)tree->leaf[slot];
    tree->leaf[slot] = leaf;
    tree->priority[slot] = p;
    gpur_tree_raise(tree, slot, bits);
    if (change)
        gpur_tree_add_above(tree, slot, change);
    return change;
}

/* The slot of row n of the publication. */
GPUR_FN int64_t gpur_fold_slot(const gpur_priority_settle_args *a, int64_t n)
{
    const int64_t at_slot = a->first_slot + n;
    const int64_t place = at_slot < a->tree.capacity ? at_slot : at_slot - a->tree.capacity;
    return a->slots ? a->slots[place] : place;
}

/* The largest of `x` in the lanes before this one, and of `before`. */
GPUR_FN uint32_t gpur_fold_earlier(gpur_thread at, uint32_t x, uint32_t before)
{
    const uint32_t largest = gpur_warp_prefix_max_u32(at, x);
    const uint32_t earlier = gpur_warp_get_u32(at, largest, gpur_lane(at) > 0 ? gpur_lane(at) - 1 : 0);
    return gpur_lane(at) > 0 && earlier > before ? earlier : before;
}

/* Gives each row without a valid priority of its own the largest priority before it, in the order of the rows; `before`
 * is the largest before the first row, or 0, and where there is none before a row either, it gets 1. One warp does it,
 * with a lane for each row. It runs only if a publication has such rows and also a priority larger than all earlier
 * ones. */
GPUR_FN void gpur_fold_fill(gpur_thread at, const gpur_priority_settle_args *a, uint32_t before)
{
    const gpur_tree *const tree = &a->tree;
    uint64_t change = 0, evict_change = 0;
    for (int64_t first = 0; first < a->rows; first += GPUR_WARP) {
        const int64_t n = first + gpur_lane(at), slot = n < a->rows ? gpur_fold_slot(a, n) : 0;
        float p = 0.0f;
        if (n < a->rows)
            memcpy(&p, a->ring + slot * a->pitch + a->field_offset, sizeof p);
        p = gpur_priority_add_offset(p, a->offset);
        const int is_missing = p < 0.0f && n < a->rows;
        uint32_t own = p < 0.0f || n >= a->rows ? 0 : gpur_priority_to_bits(p);
        if (gpur_fold_earlier(at, own, before) == 0 && is_missing)
            own = gpur_priority_to_bits(1.0f);
        const uint32_t earlier = gpur_fold_earlier(at, own, before), bits = earlier ? earlier : own;
        if (is_missing) {
            change += gpur_fold_replace(tree, slot, bits);
            evict_change += a->slots ? gpur_tree_set_leaf(&a->evict, slot) : 0;
        }
        const uint32_t last = gpur_warp_max_u32(at, own);
        before = last > before ? last : before;
    }
    gpur_tree_add_total(at, tree, change);
    if (a->slots)
        gpur_tree_add_total(at, &a->evict, evict_change);
}

/* Ends a publication. By the first warp. */
GPUR_FN void gpur_fold(gpur_thread at, const gpur_priority_settle_args *a)
{
    gpur_priority_state *const state = a->tree.state;
    /* all lanes read the state before lane 0 changes it */
    const uint32_t ever = gpur_warp_get_u32(at, state->ever, 0);
    const uint32_t before = gpur_warp_get_u32(at, a->tree.first_ever ? ever : state->largest, 0);
    const uint32_t pending_max = gpur_warp_get_u32(at, state->pending_max, 0);
    const uint32_t lacking = gpur_warp_get_u32(at, state->pending_missing, 0);
    if (pending_max > before && lacking)
        gpur_fold_fill(at, a, before);
    if (at.thread != 0)
        return;
    state->ever = pending_max > ever ? pending_max : ever;
    state->pending_max = 0;
    state->pending_missing = 0;
}

GPUR_KERNEL(priority_settle)
{
    if (at.block != 0)
        return;
    at.blocks = 1;
    if (a->rows > 0 && a->field_offset >= 0 && at.thread < GPUR_WARP)
        gpur_fold(at, a);
    gpur_tree_settle(at, &a->tree, &a->evict);
}
