/* SPDX-License-Identifier: MIT */
/* The library's objects behind one training run: a device, a replay on it, a learner over it, a writer into it. */
#ifndef EXAMPLES_AGENT_H
#define EXAMPLES_AGENT_H

#include "vec_env.h"

typedef struct agent_config {
    const char *device;
    int32_t threads;    /* of a CPU device; 0: all cores */
    const char *preset; /* of the learner; network outputs and seed are filled in */
    int64_t capacity;   /* transitions kept */
    int64_t min_size;   /* transitions before training begins */
    float gamma;
    int32_t envs;
    int32_t max_act; /* most observations in one act call */
    uint64_t seed;
} agent_config;

typedef struct agent {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
} agent;

/* Fills in `opened`, which agent_close takes back whether this went well or not. */
gpur_status agent_open(agent *opened, const env_kind *kind, const agent_config *config);
void agent_close(agent *opened);

/* Hands the last step of `envs` to the replay, and begins the episodes that follow the ended ones. */
gpur_status agent_remember(agent *opened, const vec_env *envs, const int32_t *actions);

/* FOLDER/replay.safetensors and FOLDER/learner.safetensors: all that training needs to go on, but for the episodes that
 * are under way, whose environments are not in them. */
gpur_status agent_save(agent *opened, const char *folder);
gpur_status agent_load(agent *opened, const char *folder);

#endif
