/* SPDX-License-Identifier: MIT */
/*
 * Soft actor-critic: learners of continuous actions, a policy pi(a|s) whose entropy is part of what it maximizes, and
 * two critics Q_i(s, a), which train on a replay [Haarnoja et al. 2018a: Soft Actor-Critic: Off-Policy Maximum Entropy
 * Deep Reinforcement Learning with a Stochastic Actor; 2018b: Soft Actor-Critic Algorithms and Applications]. Policies
 * (policy.h) with the actor's network act, by actions drawn from it or by its mean; they get its weights by
 * gpur_policy_pull.
 *
 *     gpur_sac_config config;
 *     gpur_sac_config_init(&config, sizeof config);
 *     config.actor.num_actions = 6;
 *     gpur_sac_create(replay, &config, &learner);
 *     gpur_learner_train(learner, 1);
 *     gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
 *
 * examples/ship_sac.c trains one in an environment of its own.
 *
 * A train step samples and gathers a batch, draws actions a~ for s and a' for s' from the policy as it is, and then
 * does, with the targets Q'_i, which are copies of the critics, and the temperature alpha:
 *
 *     critics      y = r + discount (min_i Q'_i(s', a') - alpha log pi(a'|s')), and the loss is the mean of
 *                  w sum_i (Q_i(s, a) - y)^2 / 2 with the importance weights w [2018b, eq. 5 and 6]
 *     actor        the loss is the mean of alpha log pi(a~|s) - min_i Q_i(s, a~) by the critics that have just been
 *                  trained, and its gradient goes through a~ [2018b, eq. 7 to 9]
 *     temperature  the loss is the mean of -log alpha (log pi(a~|s) + H), which keeps the policy's entropy near the
 *                  target entropy H [2018b, section 5]; or alpha is fixed, as in 2018a
 *
 * The targets move by target_rate towards the critics in every target_period-th step. If the step samples by priority,
 * its transitions get the new priorities (|Q_1(s, a) - y| + |Q_2(s, a) - y|) / 2 + priority_offset. (Where
 * critics learn distributions, each error is the loss of the distribution, as dqn.h has it.) n-step returns are the
 * replay's (n_step), and so is their discount. On CUDA the step is recorded once as a graph, and runs without a round
 * trip to the host. The random numbers of an action follow from seed, step, row of the batch and component.
 *
 * learner.h has the functions of such a learner. The tensors are "actor.trunk.0.weight", "critic.1.trunk.0.weight",
 * "critic.2.trunk.0.weight" and so on, and "temperature.log_alpha"; the critics alone have targets. gpur_policy_load
 * reads the actor of a file.
 */
#ifndef GPUREPLAY_SAC_H
#define GPUREPLAY_SAC_H

#include "gpureplay/learner.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Settings of gpur_sac_create. gpur_sac_config_init sets the defaults, which are those of Haarnoja et al. 2018b, table
 * 1; actor.num_actions must then be set. */
typedef struct gpur_sac_config {
    uint64_t size;              /* sizeof(gpur_sac_config), as the caller was compiled */
    gpur_network_config actor;  /* pi: dense layers that read obs, and GPUR_HEAD_SQUASHED_GAUSSIAN; num_actions is the
                                   size of the action vector. Default: two layers of 256 units with ReLU. input_scale
                                   must be 1, and input_shift 0 */
    gpur_network_config critic; /* each Q: dense layers that read obs and then the action, side by side, and GPUR_HEAD_Q
                                   with num_actions 1. Default: likewise. With a head of distributions, as in dpg.h:
                                   of two targets the distribution with the smaller mean counts, each of its returns
                                   lessened by discount alpha log pi(a'|s'), and the actor is trained by the smaller of
                                   both means */
    gpur_optimizer_config actor_optimizer;       /* default Adam with learning rate 3e-4 */
    gpur_optimizer_config critic_optimizer;      /* likewise, of both critics as one */
    gpur_optimizer_config temperature_optimizer; /* likewise, of log alpha */
    float temperature;         /* alpha at the beginning of training; above 0, default 1. It weighs entropies beside
                                  the stored rewards; 2018a has no alpha, and rewards multiplied by 1 / alpha */
    int32_t fixed_temperature; /* 1: alpha stays what it is, as in 2018a; 0, the default: it is learned */
    float target_entropy;      /* H / num_actions: a learned alpha keeps the policy's entropy near this for each
                                  component of the action; finite, default -1 */
    int32_t critics;           /* 1 or 2; default 2 */
    int32_t index_source;      /* as in gpur_dqn_config */
    gpur_schedule beta;        /* as in gpur_dqn_config */
    int64_t batch_size;        /* 1 to the replay's max_batch; default 256 */
    int64_t target_period;     /* train steps between moves of the targets, 1 or more; default 1 */
    float target_rate;         /* as in gpur_dqn_config; default 0.005 */
    int32_t math;              /* GPUR_MATH_*; default FP32 */
    uint64_t seed;             /* of sampling, of the actions that are drawn and of the initial weights; the actor's are
                                  those of a policy with this seed; default 0 */
    gpur_replay *demonstrations; /* as in gpur_dqn_config */
    float demonstration_ratio;   /* likewise; default 0.5 */
} gpur_sac_config;

/* Sets every member to its default. `size` is sizeof(gpur_sac_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_sac_config_init(gpur_sac_config *config, uint64_t size);

/*
 * Does what gpur_sac_config_init does, with the settings of FastSAC [Seo et al. 2025b, and its code], for many
 * environments that step together on a device: layers of 512, 256 and 128 units in the actor and 768, 384 and 192 in
 * the critics, with layer normalization; critics with distributions of 101 atoms from -20 to 20; AdamW with learning
 * rate 3e-4, beta2 0.95 and weight_decay 0.001 (of the temperature 0.01), batches of 8,192, target_rate 0.125,
 * temperature 0.001 and target_entropy 0. Elsewhere that code has gamma 0.97 and eight train steps for each step of all
 * environments. What it has, and is not here: the mean of both critics in the place of the smaller one; SiLU, in place
 * of which there is ReLU; a log sigma between -5 and 0; and an actor that is trained in every fourth step.
 *
 *     gpur_sac_config config;
 *     gpur_fast_sac_config_init(&config, sizeof config);
 *     config.actor.num_actions = 29;
 *     gpur_sac_create(replay, &config, &learner);
 */
GPUR_API gpur_status gpur_fast_sac_config_init(gpur_sac_config *config, uint64_t size);

/*
 * Creates a learner on `replay`, which must outlive it. All of its memory is allocated here. Any thread, also while
 * others use the replay. What the replay's schema must have, and which actions are refused, is as gpur_dpg_create says
 * (dpg.h).
 *
 *   config   settings; read before the call returns
 *   learner  receives the handle, or NULL if the call fails; destroy it with gpur_learner_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, an action in the replay that is not -1 to 1, a field that is
 *                          missing or has another type or size, a convolution, sampling by priority from a replay that
 *                          is not prioritized, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the folders that were searched
 */
GPUR_API gpur_status gpur_sac_create(gpur_replay *replay, const gpur_sac_config *config, gpur_learner **learner);

#ifdef __cplusplus
}
#endif
#endif
