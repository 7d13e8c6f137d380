/* SPDX-License-Identifier: MIT */
/*
 * Hindsight experience replay [Andrychowicz et al. 2017]: of most transitions that are sampled the goal is replaced by
 * one that was achieved later in the same episode, and the reward by that of the new goal. The terms are those of
 * replay.h.
 *
 * A goal is a number of float32 in a row: a field, or a part of one, such as the end of "obs". There are four:
 *
 *     what is achieved before the step, and after it   in `achieved_field`, and in the field "next_" + its name
 *     what is desired                                  in `desired_field`, and in the field "next_" + its name
 *
 * For example, obs and next_obs of 31 numbers, of which the last six are an achieved and a desired goal:
 *
 *     gpur_hindsight_config hindsight;
 *     gpur_hindsight_config_init(&hindsight, sizeof hindsight);
 *     hindsight.goal_size = 3, hindsight.achieved_at = 25, hindsight.desired_at = 28;
 *     hindsight.threshold = 0.05f;
 *     replay_config.hindsight = &hindsight;
 *
 * From then on gpur_replay_sample, gpur_replay_sample_into and the samples of learners have new goals. The ring holds
 * what was stored, which gpur_replay_gather and sequences return. Rows get new goals only once their episode has ended:
 * with n_step 1 when a row that is terminated or truncated is visible, and otherwise when the first row of the
 * environment's next episode is, since that row's field `previous` tells where the episode before ended. A replay that
 * is loaded from a file finds the episodes in its rows again.
 *
 * Needs GPUR_LAYOUT_ROWS, and the fields "reward", one float32, and `previous`, one int64 (gpur_writer_step_ex). It
 * takes 28 bytes of device memory for each row of the capacity.
 */
#ifndef GPUREPLAY_HINDSIGHT_H
#define GPUREPLAY_HINDSIGHT_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The step of the episode whose achieved goal, that after the step, becomes the new goal [ibid., section 4.5]. All
 * steps that can be chosen are equally likely. */
enum {
    GPUR_HINDSIGHT_FUTURE = 0,  /* the transition's own first step or a later one */
    GPUR_HINDSIGHT_FINAL = 1,   /* the last one */
    GPUR_HINDSIGHT_EPISODE = 2, /* any one whose row has not been evicted */
};

/* The reward of a step that achieves a goal at the Euclidean distance d of the desired one. The goal is reached if d is
 * at most `threshold`; with threshold 0, if all numbers are equal. */
enum {
    GPUR_GOAL_REWARD_SPARSE = 0,    /* reward_reached if the goal is reached, else reward_missed */
    GPUR_GOAL_REWARD_DISTANCE = 1,  /* -d */
    GPUR_GOAL_REWARD_NEARNESS = 2,  /* exp(-d) */
    GPUR_GOAL_REWARD_UNCHANGED = 3, /* as stored: the caller computes rewards of the rows that are "relabeled". Not for
                                       gpur_learner_train, whose samples would have new goals and old rewards */
};

/* Settings of hindsight. gpur_hindsight_config_init sets the defaults. */
typedef struct gpur_hindsight_config {
    uint64_t size;              /* sizeof(gpur_hindsight_config), as the caller was compiled */
    const char *achieved_field; /* a field of float32; "next_" + its name is one of the same shape. Copied. NULL, the
                                   default: "obs" */
    const char *desired_field;  /* likewise */
    int32_t achieved_at;        /* the first number of the goal in these fields, counted from 0; default 0 */
    int32_t desired_at;
    int32_t goal_size;      /* numbers of a goal. 0, the default: all of both fields, which then have the same size */
    int32_t strategy;       /* GPUR_HINDSIGHT_*; default FUTURE */
    int32_t n_sampled_goal; /* k: a row gets a new goal with probability k / (k + 1); 0 to 1,000,000, default 4 */
    int32_t reward;         /* GPUR_GOAL_REWARD_*; default SPARSE. UNCHANGED needs n_step 1 and ends_at_goal 0 */
    float threshold;        /* 0 or more; default 0 */
    float reward_reached;   /* finite; default 0 */
    float reward_missed;    /* finite; default -1 */
    int32_t ends_at_goal;   /* 1: a step that reaches the goal terminates the episode. A transition of several steps is
                               then cut behind that step: its reward is the sum up to there, terminated 1 and discount
                               0, so that nothing is learned from its next_obs. Where the new goal is not reached,
                               terminated is 0 and discount gamma^m. 0, the default: terminated and discount stay as
                               stored, and a transition of m steps has the sum of m rewards */
} gpur_hindsight_config;

/* Sets every member to its default. `size` is sizeof(gpur_hindsight_config). Any thread. GPUR_INVALID_ARGUMENT: NULL,
 * or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_hindsight_config_init(gpur_hindsight_config *config, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
