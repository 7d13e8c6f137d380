/* SPDX-License-Identifier: MIT */
/*
 * Deterministic policy gradients: learners of continuous actions, an actor mu(s) and a critic Q(s, a), which train on a
 * replay as in Ape-X DPG [Horgan et al. 2018, section 3.2 and appendix D; Lillicrap et al. 2016, algorithm 1; Silver et
 * al. 2014], or, with two critics and other settings, as in TD3 [Fujimoto et al. 2018, algorithm 1]. Policies
 * (policy.h) with the actor's network act; they get its weights by gpur_policy_pull.
 *
 *     gpur_dpg_config config;
 *     gpur_dpg_config_init(&config, sizeof config);
 *     config.actor.num_actions = 21;
 *     gpur_dpg_create(replay, &config, &learner);
 *     gpur_learner_train(learner, 100);
 *     gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
 *
 * examples/pendulum_dpg.c trains one.
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
 * TD3 is the same with the settings of gpur_td3_config_init. It differs in four points:
 *
 *     two critics   y = r + discount min_i Q'_i(s', a'), and the loss is the mean of w sum_i (Q_i(s, a) - y)^2 / 2
 *                   [section 4.2]; the actor's is by Q_1. (The paper has no 1 / 2, which Adam's steps hardly depend on)
 *     smoothing     a' = clip(mu'(s') + clip(sigma n, -c, c), -1, 1) with n of N(0, 1) for each component, in place of
 *                   mu'(s') [section 5.3]. n follows from seed, step, row of the batch and component
 *     delay         the actor is trained, and all targets are moved, in every policy_delay-th step alone
 *     soft targets  target += target_rate (w - target)
 *
 * A step copies both networks to their targets every target_period steps, and, if it samples by priority, gives its
 * transitions the new priorities |Q(s, a) - y| + priority_offset, of two critics the mean of both errors. (Where
 * critics learn distributions, each error is the loss of the distribution, as dqn.h has it.) n-step returns are the
 * replay's (n_step), and so is their discount. On CUDA the step is recorded once as a graph, and runs without a round
 * trip to the host.
 *
 * learner.h has the functions of such a learner. A policy pulls the actor, or with the critic's head a single critic,
 * for which its obs are a row of the replay's obs and then the action; gpur_policy_load reads the actor of a file. The
 * tensors of two critics are "critic.1.trunk.0.weight", "critic.2.trunk.0.weight" and so on.
 */
#ifndef GPUREPLAY_DPG_H
#define GPUREPLAY_DPG_H

#include "gpureplay/learner.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Settings of gpur_dpg_create. gpur_dpg_config_init sets the defaults, which are those of Horgan et al. 2018, appendix
 * D, as far as it states them; actor.num_actions must then be set. */
typedef struct gpur_dpg_config {
    uint64_t size;              /* sizeof(gpur_dpg_config), as the caller was compiled */
    gpur_network_config actor;  /* mu: dense layers that read obs, and GPUR_HEAD_TANH_ACTION; num_actions is the size of
                                   the action vector. Default: layers of 300 units with tanh and of 200 without, since
                                   the paper has no activation there; trunk[1].activation
                                   sets one. input_scale must be 1, and input_shift 0 */
    gpur_network_config critic; /* Q: dense layers that read obs and then the action, side by side, and GPUR_HEAD_Q with
                                   num_actions 1. Default: likewise, of 400 and 300 units. With a head of distributions
                                   the critic learns the distribution of returns, by the loss of dqn.h with kappa 1. Two
                                   critics both learn from the target with the smaller mean, as in the code of FastTD3
                                   [Seo et al. 2025]; the actor is trained by the mean of the first */
    gpur_optimizer_config actor_optimizer;  /* default Adam with learning rate 1e-4 */
    gpur_optimizer_config critic_optimizer; /* likewise */
    float action_gradient_clip;  /* each component of a row's dQ / da is clipped to [-this, this]; default 1; 0: off */
    int32_t index_source;        /* as in gpur_dqn_config */
    gpur_schedule beta;          /* as in gpur_dqn_config */
    int64_t batch_size;          /* 1 to the replay's max_batch; default 256 */
    int64_t target_period;       /* train steps between copies to the targets, 1 or more; default 100 */
    int32_t math;                /* GPUR_MATH_*; default FP32 */
    float preactivation_penalty; /* c: the actor's loss has c |z|^2 more for a row, where mu(s) = tanh(z)
                                   [Andrychowicz et al. 2017, appendix A]. 0 or more; default 0, as the paper */
    uint64_t seed;               /* of sampling and of the initial weights; the actor's are those of a policy with this
                                   seed; default 0 */
    gpur_replay *demonstrations; /* as in gpur_dqn_config */
    float demonstration_ratio;   /* likewise; default 0.5 */
    float target_rate;           /* as in gpur_dqn_config, of both targets; default 1. Lillicrap et al. 2016 have 0.001
                                    with target_period 1 */
    int32_t critics;             /* 1 or 2; default 1 */
    int32_t policy_delay;    /* the actor is trained in each step whose number, counted from 1, is a multiple of this:
                                    1 to 64; default 1. target_period and the schedule of the actor's learning rate
                                    count these steps alone, so that all targets are copied in such steps */
    float target_noise;      /* sigma: standard deviation of the noise on the target actor's actions, whose range is
                                    -1 to 1; 0 or more; default 0: none */
    float target_noise_clip; /* c: each component of the noise is clipped to [-c, c]; default 0: it is not */
} gpur_dpg_config;

/* Sets every member to its default. `size` is sizeof(gpur_dpg_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_dpg_config_init(gpur_dpg_config *config, uint64_t size);

/*
 * Does what gpur_dpg_config_init does, with the settings of TD3: the networks and constants of Fujimoto et al. 2018,
 * section 6.1 and appendix C: layers of 400 and 300 units with ReLU in all networks, Adam with learning rate 1e-3,
 * batches of 100, soft targets with target_rate 0.005, two critics, policy_delay 2, target_noise 0.2 clipped to 0.5,
 * and no clipping of dQ / da.
 *
 *     gpur_dpg_config config;
 *     gpur_td3_config_init(&config, sizeof config);
 *     config.actor.num_actions = 6;
 *     gpur_dpg_create(replay, &config, &learner);
 */
GPUR_API gpur_status gpur_td3_config_init(gpur_dpg_config *config, uint64_t size);

/*
 * Does what gpur_dpg_config_init does, with the settings of FastTD3 [Seo et al. 2025], for many environments that step
 * together on a device: layers of 512, 256 and 128 units in the actor and 1,024, 512 and 256 in the critics, with ReLU;
 * critics with distributions of 101 atoms from -250 to 250 (v_min and v_max are the task's: -10 and 10 in that paper's
 * tasks of MuJoCo Playground); AdamW with learning rate 3e-4 and weight_decay 0.1, batches of 32,768, target_rate 0.1,
 * and noise of 0.001. Elsewhere that code has gamma 0.99 or 0.97, two train steps for each step of all environments,
 * and actors' noise between 0.001 and 0.4, for each environment another. Its target has no copy of the actor, its actor
 * is trained by the smaller of both critics, and the weights of its last layer begin as N(0, 0.01^2); here these three
 * are as in TD3.
 *
 *     gpur_dpg_config config;
 *     gpur_fast_td3_config_init(&config, sizeof config);
 *     config.actor.num_actions = 29;
 *     config.critic.v_min = -10, config.critic.v_max = 10;
 *     gpur_dpg_create(replay, &config, &learner);
 */
GPUR_API gpur_status gpur_fast_td3_config_init(gpur_dpg_config *config, uint64_t size);

/*
 * Creates a learner on `replay`, which must outlive it. All of its memory is allocated here. Any thread, also while
 * others use the replay.
 *
 * The schema must have obs and next_obs, float32 of the same shape, which are flattened; action, float32 of
 * actor.num_actions numbers in -1 to 1, the actor's range, to which a program scales those of its environment; reward,
 * one float32; and terminated, one byte. Other actions are refused: those that the replay has now, for which this call
 * publishes what was appended, as saving does (with GPUR_EVICT_BY_PRIORITY only until transitions have left); and from
 * now on those that come from host memory, by rows, steps, blocks and files. Train steps count the rest and leave it
 * out (gpur_learner_stats.invalid_actions).
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
GPUR_API gpur_status gpur_dpg_create(gpur_replay *replay, const gpur_dpg_config *config, gpur_learner **learner);

#ifdef __cplusplus
}
#endif
#endif
