/* SPDX-License-Identifier: MIT */
/* A model as a table of the functions that agents, predictors and trainers call. Tests and benchmarks have models that
 * only take time. */
#pragma once

#include "base/status.h"
#include "device/device.h"
#include "gpureplay/actor_critic.h"
#include "gpureplay/policy.h"
#include "learn/actor_critic/local.h"

typedef struct gpur_ga3c_model {
    void *context; /* given to all functions that have no `local` */

    /* Its inputs and outputs. */
    gpur_field obs;        /* an observation */
    int32_t stack_is_last; /* 1: channels are the last axis of an observation */
    int32_t check_finite;  /* 1: observations and rewards must be */
    int32_t num_actions;
    int64_t max_batch;   /* rows of a train step */
    gpur_device *device; /* through which files are written */
    gpur_policy *policy; /* has the weights that `predict` uses; NULL: there is none */

    /* Computes the actions and values of observations, with the newest weights that were broadcast. Up to
     * GPUR_GA3C_MAX_PREDICTORS threads at the same time. *version: train steps that the weights had. */
    gpur_status (*predict)(void *context, int64_t count, const void *obs, const uint32_t *lanes, const uint64_t *steps,
                           int32_t greedy, int32_t *actions, float *values, int64_t *version);

    /* Trains, and broadcasts the new weights. Any number of threads. losses->step is the number of the train step. */
    gpur_status (*train)(void *context, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses);

    /* Fails: a value by the weights after train step `step` was not finite. */
    gpur_status (*diverged)(void *context, int64_t step);

    /* Refuses a model that has a weight that is NaN or infinite. */
    gpur_status (*check)(void *context);

    /* Lets `predict` have the present weights: train steps may have been done by others. */
    gpur_status (*broadcast)(void *context);

    /* An agent's own copy of the model, for A3C; used by one thread. Its gradients are applied to the shared weights.
     * NULL where there is no A3C. */
    gpur_status (*local_open)(void *context, gpur_local_model **local);
    void (*local_close)(gpur_local_model *local);
    gpur_status (*local_pull)(gpur_local_model *local); /* copies the shared weights */
    gpur_status (*local_predict)(gpur_local_model *local, const void *obs, uint32_t lane, uint64_t step,
                                 int32_t *action, float *value);
    gpur_status (*local_train)(gpur_local_model *local, const gpur_actor_critic_batch *batch,
                               gpur_actor_critic_losses *losses);

    int64_t (*steps)(void *context); /* train steps done */
    gpur_status (*save)(void *context, const char *path);
    /* Refuses a file that was not saved after `trained` train steps; what it refuses changes nothing. */
    gpur_status (*load)(void *context, const char *path, int64_t trained);
    void (*close)(void *context);
} gpur_ga3c_model;
