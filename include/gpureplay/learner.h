/* SPDX-License-Identifier: MIT */
/*
 * Learners: networks, a loss, optimizers, and what a train step needs. They are made by one of
 *
 *   gpur_dqn_create            DQN on a replay                                          (dqn.h)
 *   gpur_dpg_create            deterministic policy gradients on a replay               (dpg.h)
 *   gpur_sac_create            soft actor-critic on a replay                            (sac.h)
 *   gpur_actor_critic_create   an actor-critic on the caller's own batches              (actor_critic.h)
 *
 * and the functions below take any of them. Functions of one algorithm alone refuse the others with
 * GPUR_INVALID_ARGUMENT: "gpur_learner_act needs a DQN learner; this is a DPG learner".
 *
 * A train step on a replay samples and gathers a batch, runs the forward passes, computes targets and loss, runs the
 * backward passes, updates the weights, copies them to the target networks every target_period steps, and, in a
 * prioritized replay, writes the new priorities back. The step is recorded once (on CUDA as a graph) and then runs on
 * the device without a round trip to the host. Train steps are enqueued in launches of at most GPUR_LAUNCH_STEPS steps.
 * A call of gpur_learner_train_ids or gpur_learner_train_host_batch is a launch of one step.
 *
 * Demonstrations: a learner on a replay may draw a part of each batch from a second one [Hester et al. 2018; Ball et
 * al. 2023], which its settings name as `demonstrations`. The last demonstration_ratio x batch_size rows of every
 * batch come from that, always as many, and the others from the learner's own replay, in the same recorded step. Each
 * replay draws as its own index source says (for its own replay a learner's index_source can say another), and gets
 * the new priorities of its own rows; importance weights compare the rows of one replay, as its weight_norm says. Both
 * must be on one device, of GPUR_LAYOUT_ROWS or FRAMES with the same obs, action, n_step, gamma and reward_clip, and
 * must outlive the learner. Both may be appended to meanwhile, and other learners may train on them. Train steps on
 * given ids and on host batches take all rows from the caller. To go on with the same bits, save and load both replays
 * beside the learner.
 *
 * A learner has diverged when a train step has spoiled the weights of a network: its mean Q (of an actor-critic: its
 * mean value) is NaN or infinite; or the gradient has a NaN; or its norm is infinite and the optimizer clips neither by
 * norm nor by value, so that weights become NaN or, since the mean squares are infinite, move no more. An infinite loss
 * alone is no sign of it: the gradient of Huber's loss, and one that is clipped, can be finite nevertheless. The device
 * notes the step (gpur_learner_stats.diverged_at) and what was not finite in it, and training goes on until the host
 * sees it, without waiting for it. From then on calls that train, refresh, act, save or let a policy pull are refused
 * with GPUR_INVALID_ARGUMENT. gpur_learner_sync waits for the steps, and so always sees it and reports it. The
 * message has the network, if there are two, the step, those of its loss, mean Q and gradient norm that were not
 * finite, the loss before, and the settings that most often are why. gpur_learner_load brings the learner back to a
 * saved state. gpur_learner_q_values, gpur_learner_read_weights and the statistics show the numbers as they are. Any
 * call that uses the device can also return GPUR_DEVICE_ERROR; the learner can then only be destroyed.
 */
#ifndef GPUREPLAY_LEARNER_H
#define GPUREPLAY_LEARNER_H

#include "gpureplay/math.h"
#include "gpureplay/network.h"
#include "gpureplay/optimizer.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A learner. One thread at a time trains it; another thread may train it once the calls of the first have returned. Any
 * number of threads, including the one that trains, may act, and read statistics and weights, at the same time. (An
 * actor-critic may be trained by any number of threads, too: their train steps are done one after another.)
 *
 * Several learners may train on one replay, each with a thread of its own. Their launches, and the sample calls of
 * other threads, run one after another on the device, in the order in which they were called. All learners on a
 * prioritized replay write to the same priorities.
 */
typedef struct gpur_learner gpur_learner;

/* Waits for the learner's work, and then frees the learner. Call it from any thread, but not while another thread is
 * inside of a call with it. The replay stays. NULL does nothing. */
GPUR_API void gpur_learner_destroy(gpur_learner *learner);

/* The most train steps in one launch. An append that overwrites transitions may have to wait for two launches. */
enum { GPUR_LAUNCH_STEPS = 256 };

/*
 * Enqueues `steps` train steps [Mnih et al. 2015, algorithm 1], and returns before the last one is done. They run in
 * launches of GPUR_LAUNCH_STEPS steps, the last of which may have fewer. The call waits so that at most two
 * launches are in flight, and for calls of other threads that sample or train and were called before. Only in the
 * thread that trains; writers, gpur_learner_act and calls that read statistics continue meanwhile.
 *
 *   steps  0 or more
 *
 *   GPUR_INVALID_ARGUMENT  steps below 0, NULL, an actor-critic, or the learner has diverged (see the top of this file)
 *   GPUR_TOO_FEW           the replay is empty; or fewer than its min_size transitions have become visible so far; or,
 *                          with GPUR_UNIFORM_DISTINCT, fewer are visible than a batch has of it; or the same of the
 *                          demonstrations; or the cache of returns has not been filled. The message has the counts.
 *                          Launches that this call has enqueued before stay enqueued
 */
GPUR_API gpur_status gpur_learner_train(gpur_learner *learner, int64_t steps);

/* Waits until all train steps that have been enqueued are done. Any thread. GPUR_INVALID_ARGUMENT: NULL, or
 * the learner has diverged (see the top of this file). GPUR_DEVICE_ERROR: the device failed in one of them. */
GPUR_API gpur_status gpur_learner_sync(gpur_learner *learner);

/* What gpur_learner_get_stats reports. Losses, norms and rates are of the last step done. "Since the last call" means
 * since the previous call by any thread. A count that a learner does not have is 0, and another number that it does not
 * have is NaN. */
typedef struct gpur_learner_stats {
    uint64_t size;              /* sizeof(gpur_learner_stats), as the caller was compiled: set it before the call */
    int64_t steps;              /* train steps done */
    int64_t steps_enqueued;     /* train steps enqueued */
    int64_t skipped;            /* steps that found nothing to draw and changed nothing */
    int64_t target_copies;      /* copies of the weights to the target networks */
    float loss;                 /* DPG, SAC: of the critics, the mean of w (Q(s, a) - y)^2 / 2, summed over them. An
                                   actor-critic: the mean over the rows of -log(p_a) (R - V) + value_coefficient
                                   (R - V)^2 */
    float mean_loss;            /* its mean over the steps done since the last call, or if there were none, that call's:
                                   infinite if one of the losses was, NaN if the learner has diverged */
    float mean_q;               /* the mean over the batch of Q(s, a); an actor-critic: of V(s) */
    float gradient_norm;        /* before any clipping; DPG, SAC: the critics'; with dual_optimizer: the policy's */
    float learning_rate;        /* DPG, SAC: of the critics */
    float policy_loss;          /* DPG: mean of -Q(s, mu(s)), without the penalty. SAC: mean of alpha log pi(a|s)
                                   - min_i Q_i(s, a). Others: NaN, as the next two */
    float policy_gradient_norm; /* DPG, SAC: the actor's, before any clipping */
    float policy_learning_rate; /* DPG, SAC: of the actor */
    double steps_per_second;    /* since the last call; 0 if no step was done */
    int64_t device_bytes;       /* device memory of this learner */
    int64_t pinned_bytes;       /* host memory of this learner, pinned on CUDA */
    int64_t actions;            /* actions chosen by gpur_learner_act */
    int64_t invalid_actions;    /* transitions that trained nothing because of their action, over all steps. DQN: it was
                                   not 0 to num_actions - 1; DPG: one of its numbers was not -1 to 1. They are from
                                   before the learner was made, from device memory, or of a host batch. DPG: from 0
                                   again after gpur_learner_load */
    int64_t refreshes;          /* refreshes of the cache of returns, enqueued */
    int64_t missing_rows;       /* entries of the cache that were drawn and trained nothing, because their transition
                                   had been overwritten (of lanes also: its final observation), or because the refresh
                                   had found no block for them; from 0 again after gpur_learner_load */
    int64_t cache_bytes;        /* device memory of the cache's entries, part of device_bytes: 8 bytes each; 4 more for
                                   Q(s, a), which WATKINS, *_ERROR_BOUND and prioritization need; 1 more with WATKINS*;
                                   with GPUR_CACHE_PHYSICAL also obs and action */
    int64_t diverged_at;        /* the first train step that spoiled a network (see the top of this file); 0: none did.
                                   loss, mean_q, gradient_norm and learning_rate of that network are then those of this
                                   step */
    int64_t empty_refreshes;    /* refreshes that found no block at all: all entries are missing, and train steps train
                                   nothing until the next refresh; from 0 again after gpur_learner_load */
    float temperature;          /* SAC: alpha, with which the step was done. Others: NaN, as the next */
    float entropy;              /* SAC: of the policy, the mean of -log pi(a|s) of the actions drawn in the step */
} gpur_learner_stats;

/*
 * Reads the statistics as of the last launch that is done. Does not wait; call gpur_learner_sync first to include all
 * steps. Any thread.
 *
 *   stats  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `stats->size` was not set
 */
GPUR_API gpur_status gpur_learner_get_stats(gpur_learner *learner, gpur_learner_stats *stats);

/*
 * Returns the arithmetic that the learner computes with: GPUR_MATH_FP32, TF32 or BF16, of which one has taken the place
 * of GPUR_MATH_AUTO. NULL gives -1. Any thread.
 *
 *     if (gpur_learner_math(learner) == GPUR_MATH_BF16)
 *         puts("matrix products read numbers of bfloat16");
 */
GPUR_API int32_t gpur_learner_math(const gpur_learner *learner);

/* The arrays with one number for each weight: the network that is trained, the target network, the last gradient. */
enum { GPUR_WEIGHTS_ONLINE = 0, GPUR_WEIGHTS_TARGET = 1, GPUR_WEIGHTS_GRADIENT = 2 };

/* Describes one tensor of a network. */
typedef struct gpur_weight_info {
    uint64_t size;    /* sizeof(gpur_weight_info), as the caller was compiled: set it before the call */
    char name[64];    /* "trunk.0.weight", "value.hidden.bias", "advantage.out.weight", ...; of DPG and SAC
                         "actor.trunk.0.weight", "critic.q.out.bias", with two critics "critic.1.q.out.bias", ... */
    int32_t dims;     /* 1, 2 or 4 */
    int32_t shape[4]; /* bias: (units). Weight of a dense layer: (units, inputs), with the inputs after a convolution in
                         the order height, width, channels. Weight of a convolution: (filters, kernel rows, kernel
                         columns, channels) */
    int32_t reserved; /* 0 */
    int64_t count;    /* float32 numbers */
} gpur_weight_info;

/* Returns the number of tensors of all networks. Any thread. NULL gives 0. */
GPUR_API int32_t gpur_learner_weight_count(gpur_learner *learner);

/*
 * Describes one tensor. Any thread.
 *
 *   index  0 to gpur_learner_weight_count - 1
 *   info   `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  no such index, NULL, or `info->size` was not set
 */
GPUR_API gpur_status gpur_learner_get_weight_info(gpur_learner *learner, int32_t index, gpur_weight_info *info);

/*
 * Copies one tensor to host memory, as it is after the last train step enqueued, which the call waits for. Any thread.
 *
 *   which    GPUR_WEIGHTS_*
 *   name     as in gpur_weight_info
 *   values   (count) float32 in host memory, in the order of the tensor's shape; filled in when the call returns
 *   count    the count of gpur_weight_info
 *
 *   GPUR_INVALID_ARGUMENT  an unknown name or `which`, the target network of a learner that has none (an actor-critic,
 *                          or with a cache of returns) or of SAC's actor or temperature, another count, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for a copy of the tensor
 */
GPUR_API gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                               int64_t count);

/*
 * Sets one tensor from host memory, between two launches, and waits until it is set. Gradients cannot be set.
 * gpur_learner_act uses the new weights from then on if it acts with this network: the target network under
 * GPUR_ACT_TARGET, otherwise the online network. Setting online weights does not change the target network before the
 * next copy. Threads, arguments and errors are those of gpur_learner_read_weights; values that are NaN or infinite are
 * GPUR_INVALID_ARGUMENT, too, and the message has how many there are.
 *
 *     gpur_weight_info info = {.size = sizeof info};
 *     for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) { // copies one learner's network to another
 *         gpur_learner_get_weight_info(learner, i, &info);
 *         float *const values = malloc((size_t)info.count * sizeof *values);
 *         gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count);
 *         gpur_learner_write_weights(other_learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count);
 *         free(values);
 *     }
 */
GPUR_API gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name,
                                                const float *values, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
