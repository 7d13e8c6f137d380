/* SPDX-License-Identifier: MIT */
/* A copy of an actor-critic's network with a gradient of its own, of which each agent of A3C has one [Mnih et al. 2016,
 * algorithm S3]. One thread at a time uses it; those of different agents compute at the same time. */
#pragma once

#include "learn/actor_critic/actor_critic.h"

typedef struct gpur_local_model gpur_local_model;

/* `seed` is that of the actions that it draws. The learner must outlive it. */
gpur_status gpur_local_model_create(gpur_actor_critic *learner, uint64_t seed, gpur_local_model **local);
void gpur_local_model_destroy(gpur_local_model *local);

/* Takes the learner's weights. Waits for a train step of another thread. Comes before the first of the two below. */
gpur_status gpur_local_model_pull(gpur_local_model *local);

/* Draws an action for one observation, (1, ...) in host memory, by its own weights. */
gpur_status gpur_local_model_predict(gpur_local_model *local, const void *obs, uint32_t lane, uint64_t step,
                                     int32_t *action, float *value);

/* Computes the gradient of a batch by its own weights, and takes a train step of the learner with it. `losses` are only
 * complete if the step was taken. */
gpur_status gpur_local_model_train(gpur_local_model *local, const gpur_actor_critic_batch *batch,
                                   gpur_actor_critic_losses *losses);
