/* SPDX-License-Identifier: MIT */
/* The actor-critic handle, shared by the files that implement the public learner. */
#pragma once

#include "base/ticket_lock.h"
#include "learn/actor_critic/gradient.h"

struct gpur_actor_critic {
    gpur_device *device;
    gpur_actor_critic_config config; /* as checked; obs.name is NULL */
    gpur_obs_format obs;
    gpur_network network;
    gpur_ticket_lock lock;        /* of the calls that use the members below */
    gpur_optimizer optimizers[2]; /* [1] only with dual_optimizer; it changes the weights of [0] */
    gpur_window *window;          /* (1) device; not empty: every step is done */
    gpur_gradient gradient;
    void *memory; /* device: all arrays */
    int64_t memory_bytes;
    _Atomic int64_t steps;
    _Atomic double finite_loss; /* of the last train step whose loss was; NaN: none */
};

static inline int gpur_actor_critic_optimizers(const gpur_actor_critic *learner)
{
    return learner->config.dual_optimizer ? 2 : 1;
}

/* Fails: the learner has diverged after train step `step`. `loss`: of that step; if it is finite, the weights are not.
 * `reward_clip` NULL: not known. */
gpur_status gpur_actor_critic_diverged(gpur_actor_critic *learner, int64_t step, double loss, const float *reward_clip);

/* Refuses a learner whose train step had these losses, if they are not finite. */
gpur_status gpur_actor_critic_judge(gpur_actor_critic *learner, const gpur_actor_critic_losses *losses);

/* Refuses a learner of which a weight is not finite. */
gpur_status gpur_actor_critic_check_weights(gpur_actor_critic *learner, const float *reward_clip);

/* Requires the lock. Enqueues on the learner's stream the copy of the weights to the device memory of another object,
 * (P) behind which lies their copy in bfloat16. */
gpur_status gpur_actor_critic_copy_weights(const gpur_actor_critic *learner, float *to);

/* Requires the lock. Takes a step of the optimizers on these gradients, (P) device each, whose computation is done, in
 * place of the learner's own. Waits, and fills in the losses' step, gradient_norm and learning_rate. */
gpur_status gpur_actor_critic_apply(gpur_actor_critic *learner, float *const gradients[2],
                                    gpur_actor_critic_losses *losses);
