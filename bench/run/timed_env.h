/* SPDX-License-Identifier: MIT */
/* An environment whose step takes a known time and does nothing else: it sleeps, or computes ("spins"). */
#pragma once

#include "gpureplay/env.h"

typedef struct timed_env {
    double mean; /* seconds of a step */
    int spins;
    int is_exponential; /* 1: exponentially distributed; 0: constant */
    double slow;        /* lane 0's steps take so many times as long */
} timed_env;

enum { TIMED_OBS = 4, TIMED_ACTIONS = 4, TIMED_EPISODE = 200 }; /* steps of an episode */

/* The type, for one setting at a time. Its instances are the lanes in the order of their making; timed_env_use starts
 * that count again. */
extern const gpur_env_type timed_env_type;
void timed_env_use(const timed_env *setting);

void timed_sleep(double seconds);
