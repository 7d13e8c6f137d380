/* SPDX-License-Identifier: MIT */
#pragma once

/* Bits of the flags of a row of lanes (kernels/args_lanes.h). A row is whole if a transition of one step can be made of
 * it: from the time when its next observation is known until that is overwritten. Only whole rows are drawn. */
enum {
    GPUR_LANE_TERMINATED = 1,
    GPUR_LANE_TRUNCATED = 2,
    GPUR_LANE_ENDED = GPUR_LANE_TERMINATED | GPUR_LANE_TRUNCATED,
    GPUR_LANE_HAS_FINAL = 4, /* its next observation is in the side ring */
    GPUR_LANE_IS_RESET = 8,  /* its action reset the environment, or the caller did, so it is no transition */
    GPUR_LANE_IS_WHOLE = 16,
    GPUR_LANE_BEGINS = 32, /* it is the first of its episode */
};

/* The byte of a row whose observation is a stack of K frames. */
enum {
    GPUR_STACK_AGE = 31,           /* how many of its older frames are of its episode, and stored; at most K */
    GPUR_STACK_REPEATS = 32,       /* the first frame of the episode stands for those that are not; else zeros do */
    GPUR_STACK_IS_BROKEN = 64,     /* its older frames are other ones, so that it is no part of a transition */
    GPUR_STACK_FINAL_BROKEN = 128, /* those of its final observation are */
};
