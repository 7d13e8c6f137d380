/* SPDX-License-Identifier: MIT */
/*
 * The cache of returns of a DQN learner (dqn.h), from which it trains instead of computing one-step targets with a
 * target network: DQN(lambda) [Daley & Amato 2019, algorithm 1] with the virtual replay cache [Daley & Amato 2021b].
 *
 *     gpur_dqn_config config;
 *     gpur_dqn_config_init(&config, sizeof config);
 *     config.network.num_actions = 6;
 *     config.returns.cache_size = 80000;
 *     config.returns.block_length = 100;
 *     config.returns.lambda = 0.8f;
 *     gpur_dqn_create(replay, &config, &learner);
 *     gpur_learner_refresh(learner);
 *     gpur_learner_train(learner, 2500);
 *
 * gpur_learner_refresh fills the cache: it draws S / B blocks of B successive transitions of an environment, evaluates
 * the network on them, and computes the return of each transition backward through its block. Train steps then draw
 * their batches from the S entries of the cache and reduce the loss of return - Q(s, a), until the next refresh. Where
 * no environment has B visible transitions a refresh finds no blocks: entries are missing and train nothing, which
 * missing_rows of gpur_learner_stats shows, and empty_refreshes where that are all of them. Blocks are drawn at random,
 * so a refresh may also find none where an environment has few more than B transitions.
 *
 * The replay must have n_step 1, the field `previous` (one int64, see gpur_writer_step_ex), and a capacity below
 * 2^32 - 1. One of GPUR_LAYOUT_LANES needs no such field: a lane's steps lie in order. The learner has no target
 * network: double_dqn and target_* have no effect, and GPUR_ACT_TARGET, GPUR_WEIGHTS_TARGET, GPUR_STEP_FUSED, host
 * batches, gpur_learner_train_ids and sampling by priority are refused. A file of the learner does not have the cache:
 * after loading one a refresh must come before the next train step.
 *
 * In the formulas t is a transition, s_t its obs, s_{t+1} its next_obs, and v(s) = max_a Q(s, a) with the weights of
 * the refresh. The return of a transition that terminated its episode is r_t. A transition after which its block ends,
 * or after which its episode was truncated or reset, has r_t + gamma v(s_{t+1}): the return does not go on behind it.
 * If the replay has a field `discount`, that number of transition t takes the place of gamma, and a discount of 0 that
 * of terminated.
 */
#ifndef GPUREPLAY_RETURNS_H
#define GPUREPLAY_RETURNS_H

#include "gpureplay/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Estimators of the return L_t.
 *
 *   PENG                 L_t = r_t + gamma (lambda L_{t+1} + (1 - lambda) v(s_{t+1}))      [Peng & Williams 1994]
 *   N_STEP               L_t = r_t + gamma r_{t+1} + ... + gamma^n v(s_{t+n}), with fewer rewards near the end of a
 *                        block or of an episode
 *   WATKINS              as PENG, with lambda = 0 where a_{t+1} is not greedy: Q(s_{t+1}, a_{t+1}) < v(s_{t+1})
 *                                                                                           [Watkins 1989]
 *   PENG_MEDIAN, WATKINS_MEDIAN            the median of the returns for lambda = 0, 0.05, ... 1
 *                                                                            [Daley & Amato 2019, section 4.2]
 *   PENG_ERROR_BOUND, WATKINS_ERROR_BOUND  of each block, the returns for the largest lambda of 0, 1/128, ... 1 whose
 *                        mean of (L_t - Q(s_t, a_t))^2 over the block is at most error_bound; lambda = 0 if it is more
 *                        for all of them                                     [Daley & Amato 2019, section 4.2]
 *                        (The papers' code halves 0 to 1 seven times, which gives the same where the mean rises with
 *                        lambda, and compares with max_a Q(s_t, a) in place of Q(s_t, a_t). Missing entries do not
 *                        count.)
 */
enum {
    GPUR_ESTIMATOR_PENG = 0,
    GPUR_ESTIMATOR_N_STEP = 1,
    GPUR_ESTIMATOR_WATKINS = 2,
    GPUR_ESTIMATOR_PENG_MEDIAN = 3,
    GPUR_ESTIMATOR_WATKINS_MEDIAN = 4,
    GPUR_ESTIMATOR_PENG_ERROR_BOUND = 5,
    GPUR_ESTIMATOR_WATKINS_ERROR_BOUND = 6,
};

/* What an entry of the cache stores. VIRTUAL: its return and which row of the replay it is of, 8 bytes. PHYSICAL: a
 * copy of obs and action too. Both train the same weights, bit for bit, while no rows of the cache are overwritten. */
enum { GPUR_CACHE_VIRTUAL = 0, GPUR_CACHE_PHYSICAL = 1 };

/* How train steps draw entries. PERMUTATION: each entry once, in random order, then each once in another order.
 * REPLACEMENT: each draw is independent. */
enum { GPUR_CACHE_PERMUTATION = 0, GPUR_CACHE_REPLACEMENT = 1 };

/* The cache of a learner; member `returns` of gpur_dqn_config. Other members than cache_size are only read and
 * checked if that is above 0. */
typedef struct gpur_returns_config {
    int64_t cache_size;   /* S, entries, up to 2^31 - 1; 0, the default: no cache, and one-step targets */
    int64_t block_length; /* B, transitions; 1 or more, below the replay's capacity, or capacity / lanes; S must be a
                                     multiple of it; default 100 */
    int32_t estimator;    /* GPUR_ESTIMATOR_*; default PENG */
    float lambda;         /* PENG and WATKINS: 0 to 1. The default, -1, is refused: the papers state no value */
    int32_t n_step;       /* N_STEP: 1 to block_length; default 3 */
    float error_bound;    /* *_ERROR_BOUND: above 0; default 0.025 */
    int32_t storage;      /* GPUR_CACHE_VIRTUAL, the default, or GPUR_CACHE_PHYSICAL */
    int32_t draw;         /* GPUR_CACHE_PERMUTATION, the default, or GPUR_CACHE_REPLACEMENT */
    int32_t truncation_terminates; /* 1: a truncation counts as terminated, as in the papers' code; 0, the default, and
                                      where the replay has no field `truncated`: its return bootstraps from
                                      v(s_{t+1}) */
    gpur_schedule prioritization;  /* p by train step, 0 to 1, default 0. Above 0 it needs REPLACEMENT: entries whose
                                      |L_t - Q(s_t, a_t)| at the refresh is above the median are drawn with a weight of
                                      1 + p, those below it with 1 - p, those at it with 1 [Daley & Amato 2019,
                                      section 4.3]. Entries for which the refresh found no transition are not drawn and
                                      do not count for the median. The value at a refresh holds until the next one */
} gpur_returns_config;

#ifdef __cplusplus
}
#endif
#endif
