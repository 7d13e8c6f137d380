/* SPDX-License-Identifier: MIT */
/* The library's objects: a device, a replay on it, a learner on that, of DQN or of DPG, or an actor-critic on the
 * device, and the run. */
#pragma once

#include "settings.h"

typedef struct agent {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_learner *actor_critic;
    gpur_run *run;
    int is_apex;
} agent;

/* Opens all of them. If the device is to be "auto", and the GPU has what a replay needs but not what a learner needs,
 * the CPU is used. After a failure call agent_close. */
int agent_open(agent *a, const options *o, const settings *s);
void agent_close(agent *a); /* accepts a zeroed one */

/* The arithmetic of the learner: gpur_learner_math. */
int32_t agent_math(const agent *a);

gpur_status agent_save_learner(agent *a, const char *path);
