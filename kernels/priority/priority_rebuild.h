/* SPDX-License-Identifier: MIT */
/* Recomputes a level of the sum tree from the level below, or the leaves from the priorities: when alpha changes,
 * when a file is loaded, and, minima only, when rows are inserted or evicted. See gpur_priority_rebuild_args. */
#pragma once

#include "kernels/priority/rebuild.h"

GPUR_KERNEL(priority_rebuild)
{
    const uint32_t largest = a->largest ? *a->largest : 0;
    if (a->level < 0)
        gpur_rebuild_leaves(at, &a->tree, a->first, a->count, a->alpha, largest ? gpur_octave_of(largest) : a->octave);
    else
        gpur_rebuild_nodes(at, &a->tree, a->level, a->first, a->count, a->what);
}
