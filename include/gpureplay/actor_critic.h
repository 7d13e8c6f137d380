/* SPDX-License-Identifier: MIT */
/*
 * Actor-critic learners: a network with a policy and a value, which trains on the caller's own batches of observations,
 * actions and returns. There is no replay and no target network. Policies (policy.h) with the same network act; they
 * get its weights by gpur_policy_pull.
 *
 *     gpur_actor_critic_config config;
 *     gpur_actor_critic_config_init(&config, sizeof config);
 *     config.network.num_actions = 6;
 *     config.obs = (gpur_field){"obs", GPUR_FLOAT32, {4}};
 *     gpur_actor_critic_create(device, &config, &learner);
 *     gpur_actor_critic_train(learner, &rollouts, &losses);
 *     gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
 *
 * examples/actor_critic.c is A2C in CartPole.
 *
 * The loss of a batch is the sum over its rows of three terms [Babaeizadeh et al. 2017, eq. 1, 2 and 5; Mnih et
 * al. 2016], where R is the given return, p = softmax(logits) and V the value that the network computes for the row:
 *
 *     -log(p_a) (R - V)                R - V is a constant in the gradient
 *     -entropy H(p),                   H(p) = -sum over a of p_a log(p_a)
 *     value_coefficient (R - V)^2
 *
 * `log` says how log(p) is computed where p may be 0. The sum is not divided by the number of rows.
 *
 * learner.h has the other functions of such a learner. Any number of threads may call all of them, and train, at the
 * same time, except gpur_learner_destroy; train steps are done one after another, and gpur_policy_pull waits for one.
 */
#ifndef GPUREPLAY_ACTOR_CRITIC_H
#define GPUREPLAY_ACTOR_CRITIC_H

#include "gpureplay/learner.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How log(p) is computed in the loss, with e = log_epsilon. */
enum {
    GPUR_LOG_ADD = 0,     /* log(p + e), and in H(p) both p are p + e [Babaeizadeh et al. 2017, eq. 5]: the gradient by
                             p is at most 1 / e */
    GPUR_LOG_MAX = 1,     /* log(max(p, e)), as in the authors' code: the gradient of an action with p < e is 0 */
    GPUR_LOG_SOFTMAX = 2, /* z - log(sum over a of exp(z_a)) of the logits z, which is never infinite: without e, and
                             without policy_floor */
};

/* The most rows of a train step. */
enum { GPUR_MAX_ACTOR_CRITIC_BATCH = 65536 };

/* Settings of gpur_actor_critic_create. gpur_actor_critic_config_init sets the defaults, which are those of the code of
 * Babaeizadeh et al. 2017 but for the network; network.num_actions and obs must then be set. */
typedef struct gpur_actor_critic_config {
    uint64_t size;                   /* sizeof(gpur_actor_critic_config), as the caller was compiled */
    gpur_network_config network;     /* its head must be GPUR_HEAD_SOFTMAX_VALUE, the default; the default layer is one
                                        of 128 units */
    gpur_field obs;                  /* as in gpur_policy_config */
    gpur_optimizer_config optimizer; /* learning rate and clipping by train step; default RMSPROP_TF with 3e-4, decay
                                        0.99 and epsilon 0.1 under the root [eq. 3] */
    int32_t dual_optimizer;          /* 1: the gradients of the policy, with its entropy, and of the value are clipped
                                        and applied apart, each with mean squares of its own, and the layers that both
                                        share are changed by both; optimizer.weight_decay acts once a step. 0, the
                                        default: their sum is applied */
    int32_t log;                     /* GPUR_LOG_*; default ADD */
    float log_epsilon;               /* e; above 0, below 1, default 1e-6 */
    float policy_floor;              /* f: p = (softmax(logits) + f) / (1 + f num_actions); 0 or more, below 1, default
                                        0. Policies that act should have the same */
    float value_coefficient;         /* 0 or more; default 0.5 */
    gpur_schedule entropy;           /* by train step, 0 or more; default 0.01 throughout */
    int32_t max_batch;               /* the most rows of a train step, 1 to GPUR_MAX_ACTOR_CRITIC_BATCH; default 128 */
    int32_t math;                    /* GPUR_MATH_*; default FP32 */
    int32_t check_finite;            /* 1, the default: train steps refuse observations and returns that are NaN or
                                        infinite, and so do runs (ga3c.h) what their environments show. 0: they are
                                        taken */
    uint64_t seed;                   /* of the initial weights; default 0 */
} gpur_actor_critic_config;

/* Sets every member to its default. `size` is sizeof(gpur_actor_critic_config). Any thread. GPUR_INVALID_ARGUMENT:
 * NULL, or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_actor_critic_config_init(gpur_actor_critic_config *config, uint64_t size);

/*
 * Creates a learner. All of its memory is allocated here. Any thread.
 *
 *   config   settings; read before the call returns
 *   learner  receives the handle, or NULL if the call fails; destroy it with gpur_learner_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, an observation that does not fit the network, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the folders that were searched
 */
GPUR_API gpur_status gpur_actor_critic_create(gpur_device *device, const gpur_actor_critic_config *config,
                                              gpur_learner **learner);

/* The rows of a train step. All arrays are in host memory, and are read before the call returns. */
typedef struct gpur_actor_critic_batch {
    uint64_t size;          /* sizeof(gpur_actor_critic_batch), as the caller was compiled */
    int64_t count;          /* rows, 1 to max_batch; each call may have another number */
    const void *obs;        /* (count, ...) as config.obs */
    const int32_t *actions; /* (count) 0 to num_actions - 1 */
    const float *returns;   /* (count) R */
} gpur_actor_critic_batch;

/* What a train step computed. The first four are means over the rows, without coefficients. */
typedef struct gpur_actor_critic_losses {
    uint64_t size;        /* sizeof(gpur_actor_critic_losses), as the caller was compiled: set it before the call */
    int64_t step;         /* the number of the train step, from 1 on */
    double policy;        /* -log(p_a) (R - V) */
    double value;         /* (R - V)^2 */
    double entropy;       /* H(p) */
    double mean_value;    /* V */
    double gradient_norm; /* before any clipping; with dual_optimizer that of the policy's gradient */
    double learning_rate; /* of this step */
} gpur_actor_critic_losses;

/*
 * Trains on a batch: forward pass, loss, backward pass, optimizer. Returns when the step is done. Any thread; a call
 * waits for those before it.
 *
 *   losses  may be NULL; otherwise `size` is set by the caller
 *
 *   GPUR_INVALID_ARGUMENT  a count or an action out of range, an observation or a return that is not finite
 *                          (check_finite; the message has its row), NULL, or the learner had diverged before; nothing
 *                          is trained, and `losses` are unchanged. Or the learner has diverged in this train step,
 *                          which was done, and `losses` are filled in
 */
GPUR_API gpur_status gpur_actor_critic_train(gpur_learner *learner, const gpur_actor_critic_batch *batch,
                                             gpur_actor_critic_losses *losses);

#ifdef __cplusplus
}
#endif
#endif
