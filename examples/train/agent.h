/* SPDX-License-Identifier: MIT */
/* The library's objects: a device, a replay on it, a learner on that, of DQN or of DPG, and the run, with its
 * environments; or Ape-X, with its actors; or an actor-critic on the device, and its run. */
#pragma once

#include "settings.h"

typedef struct agent {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_learner *actor_critic;
    gpur_run *run; /* of these two one is there */
    gpur_apex *apex;
} agent;

/* Opens all of them. If the device is to be "auto", and the GPU has what a replay needs but not what a learner needs,
 * the CPU is used. After a failure call agent_close. */
int agent_open(agent *a, const options *o, const settings *s);
void agent_close(agent *a); /* accepts a zeroed one */

/* The arithmetic of the learner: gpur_learner_math. */
int32_t agent_math(const agent *a);

/* All systems. agent_advance takes so many environment steps more: Ape-X at least as many, since steps come in
 * blocks. agent_stop may be called in a signal handler. */
gpur_status agent_advance(agent *a, int64_t steps);
void agent_stop(const agent *a);
gpur_status agent_save(agent *a, const char *folder);
gpur_status agent_save_learner(agent *a, const char *path);

/* `refill` 1, of Ape-X: without the replay. */
gpur_status agent_load(agent *a, const char *folder, int refill);
