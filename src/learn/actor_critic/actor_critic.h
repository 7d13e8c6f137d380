/* SPDX-License-Identifier: MIT */
/* An actor-critic learner: its settings, its optimizers, and the gradient of its loss. */
#pragma once

#include "learn/actor_critic/gradient.h"
#include "learn/learner.h"

typedef struct gpur_actor_critic {
    gpur_learner learner;
    gpur_actor_critic_config config; /* as checked; obs.name is NULL */
    gpur_obs_format obs;
    gpur_network network;
    gpur_optimizer optimizers[2]; /* [1] only with dual_optimizer; it changes the weights of [0] */
    int64_t *drawable;            /* (1) device; not 0: every step is done */
    gpur_gradient gradient;
} gpur_actor_critic;

extern const gpur_algorithm gpur_algorithm_actor_critic;

/* Returns the struct of a learner that is known to be an actor-critic. */
static inline gpur_actor_critic *gpur_actor_critic_of(const gpur_learner *learner)
{
    return (gpur_actor_critic *)(uintptr_t)learner;
}

/* Requires the lock. Takes a step of the optimizers on these gradients, (P) device each, whose computation is done, in
 * place of the learner's own. Waits, fills in the losses' step, gradient_norm and learning_rate, and refuses a learner
 * whose weights the step has spoiled. One that has diverged before takes no step, and the losses' step is unchanged. */
gpur_status gpur_actor_critic_apply(gpur_actor_critic *ac, float *const gradients[2], gpur_actor_critic_losses *losses);
