/* SPDX-License-Identifier: MIT */
/*
 * The field `previous` of a transition links the transitions of one environment, also across its episodes:
 *
 *   p >= 0   the id of the transition before, of the same episode
 *   -1       none: the environment's first transition
 *   p <= -2  the first of an episode; the transition with id -2 - p is the last of the environment's previous episode
 */
#pragma once

#include "kernels/target/thread.h"

/* The id of the environment's transition before, in whichever episode; -1: there is none. */
GPUR_FN int64_t gpur_previous_id(int64_t previous)
{
    return previous >= 0 ? previous : -2 - previous;
}

/* 1 if the transition is the first of its episode. */
GPUR_FN int gpur_previous_is_first(int64_t previous)
{
    return previous < 0;
}

/* The link to the same transition from the first one of a new episode. */
GPUR_FN int64_t gpur_previous_across(int64_t previous)
{
    return previous >= 0 ? -2 - previous : previous;
}
