/* SPDX-License-Identifier: MIT */
/* The actor-critic handle, shared by the files that implement the public learner. */
#pragma once

#include "base/ticket_lock.h"
#include "learn/actor_critic/gradient.h"
#include "learn/diverged.h"

struct gpur_actor_critic {
    gpur_device *device;
    gpur_actor_critic_config config; /* as checked; obs.name is NULL */
    gpur_obs_format obs;
    gpur_network network;
    gpur_ticket_lock lock;        /* of the calls that use the members below */
    gpur_optimizer optimizers[2]; /* [1] only with dual_optimizer; it changes the weights of [0] */
    int64_t *drawable;            /* (1) device; not 0: every step is done */
    gpur_gradient gradient;
    void *memory; /* device: all arrays */
    int64_t memory_bytes;
    _Atomic int64_t steps;
    _Atomic double finite_loss; /* of the last train step whose loss was; NaN: none is known */
    gpur_divergence divergence; /* as noted by the step that spoiled the weights; its step is 0: none did */
};

static inline int gpur_actor_critic_optimizers(const gpur_actor_critic *learner)
{
    return learner->config.dual_optimizer ? 2 : 1;
}

/* Fails: the weights after train step `step` are not finite. `reward_clip` NULL: not known. */
gpur_status gpur_actor_critic_diverged(gpur_actor_critic *learner, int64_t step, const float *reward_clip);

/* Requires the lock. Refuses a learner that has diverged. */
gpur_status gpur_actor_critic_check_finite(const gpur_actor_critic *learner);

/* Requires the lock. Notes whether the train step that is done, which had these losses, has spoiled the weights, and
 * refuses the learner if so. */
gpur_status gpur_actor_critic_judge(gpur_actor_critic *learner, const gpur_actor_critic_losses *losses);

/* Refuses a learner of which a weight is not finite. */
gpur_status gpur_actor_critic_check_weights(gpur_actor_critic *learner, const float *reward_clip);

/* Requires the lock. Enqueues on the learner's stream the copy of the weights to the device memory of another object,
 * (P) behind which lies their copy in bfloat16. */
gpur_status gpur_actor_critic_copy_weights(const gpur_actor_critic *learner, float *to);

/* Requires the lock. Takes a step of the optimizers on these gradients, (P) device each, whose computation is done, in
 * place of the learner's own. Waits, fills in the losses' step, gradient_norm and learning_rate, and judges the step. A
 * learner that has diverged before takes none, and the losses' step is unchanged. */
gpur_status gpur_actor_critic_apply(gpur_actor_critic *learner, float *const gradients[2],
                                    gpur_actor_critic_losses *losses);
