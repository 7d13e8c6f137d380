/* SPDX-License-Identifier: MIT */
/*
 * Plays whole games by weights that were saved, without training:
 *
 *     gpur_play_config config;
 *     gpur_play_result result = {.size = sizeof result};
 *     gpur_play_config_init(&config, sizeof config);
 *     config.path = "runs/MinAtar-Breakout-1";
 *     gpur_play(&config, &result);
 *
 * gpureplay-train's commands play and evaluate are such calls.
 */
#ifndef GPUREPLAY_PLAY_H
#define GPUREPLAY_PLAY_H

#include "gpureplay/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is played, by which weights, how an action is chosen, and what the caller hears of it. Only `path` has no
 * default; a file that is no folder of a run also needs the option env. */
typedef struct gpur_play_config {
    uint64_t size;    /* sizeof(gpur_play_config), as the caller was compiled */
    const char *path; /* the folder of a run (training.h), or a file of a learner, of a policy or of weights */
    const char *const *options; /* "name=value", ended by NULL: env, env_options, device, threads and seed, of which
                                   those of a run come from its folder, but for the device: by default that is "auto".
                                   A file needs env. NULL, the default: none */
    int32_t best;               /* of a run: 1: the weights of its best evaluation, "best.safetensors"; 0, the default:
                                   the newest ones */
    int32_t greedy;             /* 1: the best action always; default 0 */
    float epsilon;              /* probability of a random action, 0 to 1; -1, the default: as the run's evaluations, or
                                   of a file 0.05. Without effect with greedy 1 and on action vectors, which have no
                                   noise. An actor-critic draws its actions, and has epsilon 0 by default */
    int32_t envs;               /* environments that play at the same time, with one inference for all of them, 1 to
                                   1,024; 0, the default: 8, or as many as episodes if these are fewer */
    int64_t episodes;           /* games; default 30 */

    /* Gets what environment 0 shows, an array in host memory, before each of its steps. NULL, the default: not
     * called. */
    void (*on_obs)(void *user, const gpur_space *space, const void *obs);

    /* Gets each game that has ended: the sum of its rewards, and its steps. NULL, the default: not called. */
    void (*on_game)(void *user, double sum, int64_t length);
    int32_t (*stop)(void *user); /* asked before each step of all; not 0: no further one. NULL, the default: none */
    void *user;                  /* given to these functions */
} gpur_play_config;

/* What gpur_play has played. */
typedef struct gpur_play_result {
    uint64_t size;           /* sizeof(gpur_play_result), as the caller was compiled: set it before the call */
    int64_t episodes;        /* games that were played */
    int64_t length;          /* their steps */
    double mean_return;      /* over the games */
    double return_deviation; /* standard deviation over the games */
    double interval;         /* half the width of the 95% interval of the mean, by Student's t; NaN for one game */
    int64_t version;         /* gpur_policy_version of the weights: train steps */
    int64_t best_step;       /* with `best`: the environment step of that evaluation, else 0 */
    double best_return;      /* with `best`: its mean return, else NaN */
} gpur_play_result;

/* Sets every member to its default; `path` must then be set. `size` is sizeof(gpur_play_config). Any thread.
 * GPUR_INVALID_ARGUMENT: NULL, or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_play_config_init(gpur_play_config *config, uint64_t size);

/*
 * Plays games to their end, and returns when the last one is over. Any thread.
 *
 *   config  read before the call returns; its functions are called in the calling thread
 *   result  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, an option that is none of these, an environment that shows or
 *                          takes something else than the network, or that refuses; NULL
 *   GPUR_FILE_ERROR        a file cannot be read, or has no weights; a run without a best evaluation
 *   GPUR_INTERRUPTED       `stop` answered so; the result is that of the games that had ended
 *   others                 as gpur_policy_open
 */
GPUR_API gpur_status gpur_play(const gpur_play_config *config, gpur_play_result *result);

#ifdef __cplusplus
}
#endif
#endif
