/* SPDX-License-Identifier: MIT */
/*
 * Deterministic policy gradients: learners of continuous actions, an actor mu(s) and a critic Q(s, a), which train on a
 * replay as in Ape-X DPG [Horgan et al. 2018, section 3.2 and appendix D; Lillicrap et al. 2016, algorithm 1; Silver et
 * al. 2014]. Policies (policy.h) with the actor's network act; they get its weights by gpur_dpg_publish.
 *
 *     gpur_dpg_config_init(&config, sizeof config);
 *     config.actor.num_actions = 21;
 *     gpur_dpg_create(replay, &config, &dpg);
 *     gpur_dpg_train(dpg, 100);
 *     gpur_dpg_publish(dpg, policy);
 *
 * A train step samples and gathers a batch, and then does, with the targets mu' and Q', which are copies of both
 * networks:
 *
 *     critic   y = r + discount Q'(s', mu'(s')), and the loss is the mean of w (Q(s, a) - y)^2 / 2 with the importance
 *              weights w
 *     actor    the loss is the mean of -Q(s, mu(s)) by the critic that has just been trained. Its gradient goes through
 *              dQ / da, of which each component is clipped. A penalty of the numbers z with mu(s) = tanh(z) can be
 *              added: where they are large tanh is flat, and the gradient of Q no longer moves them
 *
 * It copies both networks to their targets every target_period steps, and, if it samples by priority, gives its
 * transitions the new priorities |Q(s, a) - y| + priority_offset. n-step returns are the replay's (n_step), and so is
 * their discount. On CUDA the step is recorded once as a graph, and runs without a round trip to the host.
 *
 * A learner that has diverged is refused as learner.h says of gpur_learner, by gpur_dpg_train, gpur_dpg_sync,
 * gpur_dpg_publish and gpur_dpg_save; the message names the network that was the first to be spoiled. Any call that
 * uses the device can also return GPUR_DEVICE_ERROR; the learner can then only be destroyed.
 */
#ifndef GPUREPLAY_DPG_H
#define GPUREPLAY_DPG_H

#include "gpureplay/policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A learner. One thread at a time trains it; another thread may train it once the calls of the first have returned. Any
 * number of threads may meanwhile publish it, read statistics and weights, and save it. Several learners may train on
 * one replay, as several gpur_learner may. */
typedef struct gpur_dpg gpur_dpg;

/* Settings of gpur_dpg_create. gpur_dpg_config_init sets the defaults, which are those of Horgan et al. 2018, appendix
 * D, as far as it states them; actor.num_actions must then be set. */
typedef struct gpur_dpg_config {
    uint64_t size;              /* sizeof(gpur_dpg_config), as the caller was compiled */
    gpur_network_config actor;  /* mu: dense layers that read obs, and GPUR_HEAD_TANH_ACTION; num_actions is the size of
                                   the action vector. Default: layers of 300 units with tanh and of 200 without, since
                                   the paper has no activation there; trunk[1].activation
                                   sets one. input_scale must be 1, and input_shift 0 */
    gpur_network_config critic; /* Q: dense layers that read obs and then the action, side by side, and GPUR_HEAD_Q with
                                   num_actions 1. Default: likewise, of 400 and 300 units */
    gpur_optimizer_config actor_optimizer;  /* default Adam with learning rate 1e-4 */
    gpur_optimizer_config critic_optimizer; /* likewise */
    float action_gradient_clip;  /* each component of a row's dQ / da is clipped to [-this, this]; default 1; 0: off */
    int32_t index_source;        /* as in gpur_dqn_config */
    gpur_schedule beta;          /* as in gpur_dqn_config */
    int64_t batch_size;          /* 1 to the replay's max_batch; default 256 */
    int64_t target_period;       /* train steps between copies to the targets, 1 or more; default 100 */
    int32_t math;                /* GPUR_MATH_*; default FP32 */
    int32_t unroll;              /* CUDA: train steps in one graph; 1 to 64, default 8 */
    int32_t deterministic;       /* as in gpur_dqn_config; 0 or 1, default 0 */
    float preactivation_penalty; /* c: the actor's loss has c |z|^2 more for a row, where mu(s) = tanh(z)
                                   [Andrychowicz et al. 2017, appendix A]. 0 or more; default 0, as the paper */
    uint64_t seed;               /* of sampling and of the initial weights; the actor's are those of a policy with this
                                   seed; default 0 */
} gpur_dpg_config;

/* Sets every member to its default. `size` is sizeof(gpur_dpg_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_dpg_config_init(gpur_dpg_config *config, uint64_t size);

/*
 * Creates a learner on `replay`, which must outlive it. All of its memory is allocated here. Any thread, also while
 * others use the replay.
 *
 * The schema must have obs and next_obs, float32 of the same shape, which are flattened; action, float32 of
 * actor.num_actions numbers in -1 to 1, the actor's range, to which a program scales those of its environment; reward,
 * one float32; and terminated, one byte. Other actions are refused: those that the replay has now, for which this call
 * publishes what was appended, as saving does (with GPUR_EVICT_BY_PRIORITY only until transitions have left); and from
 * now on those that come from host memory, by rows, steps, blocks and files. Train steps count the rest and leave it
 * out (gpur_dpg_stats.invalid_actions).
 *
 *   config  settings; read before the call returns
 *   dpg     receives the handle, or NULL if the call fails; destroy it with gpur_dpg_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, an action in the replay that is not -1 to 1, a field that is
 *                          missing or has another type or size, a convolution, sampling by priority from a replay that
 *                          is not prioritized, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the folders that were searched
 */
GPUR_API gpur_status gpur_dpg_create(gpur_replay *replay, const gpur_dpg_config *config, gpur_dpg **dpg);
/* Waits for the learner's work, and then frees the learner. Call it from any thread, but not while another thread is
 * inside of a call with it. The replay stays. NULL does nothing. */
GPUR_API void gpur_dpg_destroy(gpur_dpg *dpg);

/* Enqueues `steps` train steps, 0 or more, and returns before the last one is done. It waits, and refuses, as
 * gpur_learner_train does. Only in the thread that trains. */
GPUR_API gpur_status gpur_dpg_train(gpur_dpg *dpg, int64_t steps);

/* Waits until all train steps that have been enqueued are done. Any thread. GPUR_INVALID_ARGUMENT: NULL. */
GPUR_API gpur_status gpur_dpg_sync(gpur_dpg *dpg);

/*
 * Copies the actor's weights to a policy, as gpur_policy_pull does, or the critic's; their version is the number of
 * train steps enqueued. Any thread.
 *
 *   policy  on the device of the learner, with a network equal to the actor; or to the critic, for which its obs are a
 *           row of the replay's obs and then the action
 *
 *   GPUR_INVALID_ARGUMENT  those of gpur_policy_pull. The policy is unchanged
 */
GPUR_API gpur_status gpur_dpg_publish(gpur_dpg *dpg, gpur_policy *policy);

/* What gpur_dpg_get_stats reports. Losses, norms and rates are of the last step done. "Since the last call" means since
 * the previous call by any thread. */
typedef struct gpur_dpg_stats {
    uint64_t size;              /* sizeof(gpur_dpg_stats), as the caller was compiled: set it before the call */
    int64_t steps;              /* train steps done */
    int64_t steps_enqueued;     /* train steps enqueued */
    int64_t skipped;            /* steps that found nothing to draw and changed nothing */
    int64_t target_copies;      /* copies of both networks to their targets */
    float critic_loss;          /* mean of w (Q(s, a) - y)^2 / 2 */
    float mean_critic_loss;     /* its mean over the steps since the last call, or if there were none, that call's:
                                   infinite if one of them was, NaN if the critic has diverged */
    float actor_loss;           /* mean of -Q(s, mu(s)), without the penalty */
    float mean_q;               /* mean of Q(s, a) */
    float critic_gradient_norm; /* before any clipping by the optimizer, as the next */
    float actor_gradient_norm;
    float critic_learning_rate;
    float actor_learning_rate;
    double steps_per_second; /* since the last call; 0 if no step was done */
    int64_t device_bytes;    /* device memory of this learner */
    int64_t pinned_bytes;    /* host memory of this learner, pinned on CUDA */
    int64_t diverged_at;     /* the first train step that spoiled one of the networks (learner.h); 0: none did. The
                                numbers of that network are then those of this step */
    int64_t invalid_actions; /* sampled rows whose action has a number that is not -1 to 1, over all steps. They are not
                                trained on. Only arrays in device memory bring such rows, and what was added before the
                                learner was made and was not a visible row then */
} gpur_dpg_stats;

/* Reads the statistics as of the last launch that is done. Does not wait; call gpur_dpg_sync first to include all
 * steps. Any thread. `stats->size` is set by the caller. GPUR_INVALID_ARGUMENT: NULL, or that was not set. */
GPUR_API gpur_status gpur_dpg_get_stats(gpur_dpg *dpg, gpur_dpg_stats *stats);

/* As gpur_learner_math. */
GPUR_API int32_t gpur_dpg_math(const gpur_dpg *dpg);

/* The same as gpur_learner_weight_count, gpur_learner_get_weight_info, gpur_learner_read_weights and
 * gpur_learner_write_weights, for both networks: "actor.trunk.0.weight", ..., "critic.q.out.bias". Policies get weights
 * that were written with the next gpur_dpg_publish. */
GPUR_API int32_t gpur_dpg_weight_count(gpur_dpg *dpg);
GPUR_API gpur_status gpur_dpg_get_weight_info(gpur_dpg *dpg, int32_t index, gpur_weight_info *info);
GPUR_API gpur_status gpur_dpg_read_weights(gpur_dpg *dpg, int32_t which, const char *name, float *values,
                                           int64_t count);
GPUR_API gpur_status gpur_dpg_write_weights(gpur_dpg *dpg, int32_t which, const char *name, const float *values,
                                            int64_t count);

/*
 * Writes both networks, their targets, the state of the optimizers and the counters to a file. gpur_dpg_load reads it
 * into a learner with equal networks and kinds of optimizers, which goes on with the same bits if its other settings
 * and the contents of its replay are equal, too. gpur_policy_load reads the actor's weights of such a file. Any thread.
 *
 *   path      the name of a file
 *   options   may be NULL
 *
 *   errors    those of gpur_learner_save and gpur_learner_load
 */
GPUR_API gpur_status gpur_dpg_save(gpur_dpg *dpg, const char *path, const gpur_checkpoint_options *options);
GPUR_API gpur_status gpur_dpg_load(gpur_dpg *dpg, const char *path, const gpur_checkpoint_options *options);

#ifdef __cplusplus
}
#endif
#endif
