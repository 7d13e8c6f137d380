/* SPDX-License-Identifier: MIT */
/* The library's objects: a device, a replay on it, a learner on that, and the run, with its environments. */
#pragma once

#include "settings.h"

typedef struct agent {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_run *run;
} agent;

/* Opens all of them. If the device is to be "auto", and the GPU has what a replay needs but not what a learner needs,
 * the CPU is used. After a failure call agent_close. */
int agent_open(agent *a, const options *o, const settings *s);
void agent_close(agent *a); /* accepts a zeroed one */
