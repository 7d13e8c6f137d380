/* SPDX-License-Identifier: MIT */
/* Argument structs of the learner's kernels. Axes: B batch, A actions, F features of a layer, Z outputs of the
 * network before its head, Y outputs of the head, P parameters. */
#pragma once

#include "gpureplay/actor_critic.h"
#include "kernels/args_priority.h"
#include "kernels/args_replay.h"

#define GPUR_LEARN_KERNEL_LIST(X)                                                                                      \
    X(bias_activation)                                                                                                 \
    X(layer_backward)                                                                                                  \
    X(layer_norm)                                                                                                      \
    X(layer_norm_backward)                                                                                             \
    X(head_forward)                                                                                                    \
    X(head_backward)                                                                                                   \
    X(td_error)                                                                                                        \
    X(critic_error)                                                                                                    \
    X(distribution_error)                                                                                              \
    X(critic_distribution_error)                                                                                       \
    X(distribution_slope)                                                                                              \
    X(gradient_norm)                                                                                                   \
    X(weight_update)                                                                                                   \
    X(finish_step)                                                                                                     \
    X(epsilon_greedy)                                                                                                  \
    X(distribution_greedy)                                                                                             \
    X(softmax_choice)                                                                                                  \
    X(noisy_action)                                                                                                    \
    X(gaussian_choice)                                                                                                 \
    X(gaussian_sample)                                                                                                 \
    X(gaussian_gradient)                                                                                               \
    X(target_action)                                                                                                   \
    X(temperature_gradient)                                                                                            \
    X(soft_value)                                                                                                      \
    X(action_gradient)                                                                                                 \
    X(actor_critic_loss)                                                                                               \
    X(fused_train_steps)

/* y = activation(y + bias), in place, for layers whose GEMM cannot include it as an epilogue. */
typedef struct gpur_bias_activation_args {
    float *y;          /* (B, F), rows `pitch` floats apart */
    const float *bias; /* (F) */
    int64_t batch, features, pitch;
    int32_t activation;
} gpur_bias_activation_args;

/* dy *= activation'(y), in place or, if `rounded` is given, there, rounded to bfloat16. And the bias gradient: the sum
 * over the batch, of what was not rounded yet. */
typedef struct gpur_layer_backward_args {
    void *dy;             /* (B, F), rows `dy_pitch` numbers apart: float32, or bfloat16 if dy_bf16 */
    const void *y;        /* (B, F), rows `y_pitch` numbers apart, likewise; not read when linear */
    uint16_t *rounded;    /* (B, F) out, rows `dy_pitch` apart, may be dy; NULL: dy, of float32, gets the result */
    float *bias_gradient; /* (F) out; NULL: not wanted */
    int64_t batch, features, dy_pitch, y_pitch;
    int32_t activation;
    int32_t dy_bf16, y_bf16; /* dy_bf16 needs y_bf16, or GPUR_LINEAR, which reads no y */
} gpur_layer_backward_args;

/* Normalizes a dense layer's sums, the units of each copy of the network by themselves: F = copies * units. */
typedef struct gpur_layer_norm_args {
    const float *z;                    /* (B, F) the layer's products, without bias, rows `pitch` floats apart */
    const float *bias, *gain, *offset; /* (F) */
    float *y;                          /* (B, F) out, rows `pitch` floats apart */
    int64_t batch, pitch;
    int32_t units, copies;
    int32_t activation;
} gpur_layer_norm_args;

/* Back through that, but not through the activation. */
typedef struct gpur_layer_norm_backward_args {
    const float *z, *bias, *gain; /* as above */
    float *d;       /* (B, F) gradient by what the activation reads, which that by z takes the place of; rows `pitch`
                       floats apart */
    float *by_gain; /* (B, F) out: the gradient by the gain, row by row, likewise; NULL: not wanted */
    int64_t batch, pitch;
    int32_t units, copies;
} gpur_layer_norm_backward_args;

/*
 * A head with A outputs: the columns of z (+ bias) that it reads, and the columns of y that it writes.
 *   Q              z (A)      action values             y (A)      z
 *   DUELING        z (1 + A)  value, advantages         y (A)      value + advantage - mean advantage
 *   SOFTMAX_VALUE  z (A + 1)  logits, value             y (A + 1)  probabilities, value
 *   TANH_ACTION    z (A)                                y (A)      tanh z
 * SQUASHED_GAUSSIAN has z (2 A), means and then log sigmas, and kernels of its own: gaussian_sample, gaussian_gradient.
 */
typedef struct gpur_head_forward_args {
    const float *z;    /* (B, Z), rows `z_pitch` floats apart, without bias */
    const float *bias; /* (Z) */
    float *y;          /* (B, Y) out, rows `y_pitch` floats apart */
    int64_t batch, z_pitch, y_pitch;
    int32_t head, num_actions;
} gpur_head_forward_args;

typedef struct gpur_head_backward_args {
    const float *y;  /* (B, Y) result of head_forward */
    const float *dy; /* (B, Y) gradient of the loss */
    float *dz;       /* (B, Z) out, rows `dz_pitch` floats apart */
    int64_t batch, dz_pitch;
    int32_t head, num_actions;
} gpur_head_backward_args;

/* TD error, loss and gradient of the loss, row by row, from the networks' outputs before the head. The formulas are
 * in kernels/learn/td_error.h. */
typedef struct gpur_td_error_args {
    const float *z;           /* (B or 2 B, Z) online network: obs, then, with double_dqn, next_obs; rows `z_pitch`
                              apart */
    const float *z_target;    /* (B, Z) target network on next_obs; the same pitch. Not read with discount NULL */
    const float *bias;        /* (Z) online */
    const float *bias_target; /* (Z) */
    const void *action;       /* (B) int32, or int64 if action_is_int64 */
    const float *reward;      /* (B); with discount NULL the targets y themselves */
    const float *discount;    /* (B) 0: no bootstrap; NULL: the targets are given */
    const int64_t *id;        /* (B) a row with id -1 is missing: nothing is trained on it. NULL: none is */
    const float *weight;      /* (B) importance weights */
    float *q;                 /* (B or 2 B, A) out: online action values */
    float *q_target;          /* (B, A) out */
    float *dq;                /* (B, A) out: gradient of the mean loss */
    float *dz;                /* (B, Z) out, rows `z_pitch` floats apart */
    float *td;                /* (B) out: |y - Q(s, a)| */
    float *loss;              /* (B) out: loss of the row, weighted */
    float *q_taken;           /* (B) out: Q(s, a) */
    float *invalid;           /* (B) out: 1 if the action is not one of 0 ... A - 1: nothing is trained on the row; else
                                 0 */
    float *missing;           /* (B) out: 1 if the row is missing, else 0; NULL: not wanted, as is id */
    int64_t batch, z_pitch;
    int32_t head, num_actions; /* head: Q or DUELING */
    int32_t action_is_int64, double_dqn;
    int32_t loss_kind; /* 1: delta^2 / 2; 0: Huber */
    float huber_delta;
    const unsigned char *next_mask; /* (B, ceil(A / 8)) actions that next_obs allows (kernels/lib/allowed.h), of which
                                       the best is chosen; where there is none nothing is bootstrapped. NULL: all are
                                       allowed */
} gpur_td_error_args;

/* TD error, loss and gradient of C critics of action vectors, row by row. The formulas are in
 * kernels/learn/critic_error.h. */
typedef struct gpur_critic_error_args {
    const float *z;           /* (B, C) of the critics for obs and action, rows `z_pitch` floats apart, without bias */
    const float *z_target;    /* (B, C) of their targets for next_obs and the action there, rows as far apart */
    const float *bias;        /* (C) */
    const float *bias_target; /* (C) */
    const float *action;      /* (B, A) rows `action_pitch` floats apart */
    const float *reward;      /* (B) */
    const float *discount;    /* (B) 0: no bootstrap */
    const float *entropy;     /* (B) alpha log pi(a'|s'), which the value of next_obs loses; NULL: nothing */
    const float *weight;      /* (B) importance weights */
    float *dz;                /* (B, C) out: gradient of the mean loss, rows `z_pitch` floats apart */
    float *td;                /* (B) out: mean over the critics of |y - Q_i(s, a)| */
    float *loss;              /* (B) out: loss of the row, weighted */
    float *q_taken;           /* (B) out: mean over the critics of Q_i(s, a) */
    float *invalid; /* (B) out: 1 if a number of the action is not -1 to 1: nothing is trained on the row; else
                                 0 */
    int64_t batch, z_pitch, action_pitch;
    int32_t critics, num_actions;
} gpur_critic_error_args;

/* How the N numbers of an action are a distribution of returns. */
typedef struct gpur_distribution {
    int32_t atoms;      /* N; 0: a head without distributions */
    float v_min, v_max; /* CATEGORICAL: the first and the last of the returns, at equal distances */
} gpur_distribution;

/* The same as td_error for a head of distributions, whose outputs z are (Z) = (A, N). The formulas are in
 * kernels/learn/distribution_error.h. */
typedef struct gpur_distribution_error_args {
    gpur_td_error_args td; /* its `q` gets those of next_obs alone, `td` the losses without their weights, and
                              `huber_delta` is kappa; dq, id, missing and loss_kind are not used */
    gpur_distribution distribution;
    float *target;    /* (B, N) out: the target's quantiles or probabilities */
    float *atom_loss; /* (B, N) scratch: the parts of a row's loss */
} gpur_distribution_error_args;

/* The same as critic_error for critics of distributions, whose outputs z are (B, C N). The formulas are in
 * kernels/learn/critic_distribution_error.h. */
typedef struct gpur_critic_distribution_error_args {
    gpur_critic_error_args critic; /* its `td` gets the mean over the critics of the losses without their weights */
    gpur_distribution distribution;
    int32_t head;
    float kappa;      /* of QUANTILES */
    float *target;    /* (B, N) out: as in gpur_distribution_error_args */
    float *atom_loss; /* (B, C N) scratch */
} gpur_critic_distribution_error_args;

/* The means of distributions, and their gradients by the numbers of these. */
typedef struct gpur_distribution_slope_args {
    const float *z;    /* (B, N), rows `z_pitch` floats apart, without bias */
    const float *bias; /* (N) */
    float *q;          /* (B) out */
    float *dz;         /* (B, N) out, rows as far apart */
    int64_t batch, z_pitch;
    gpur_distribution distribution;
    int32_t head;
} gpur_distribution_slope_args;

/* The part of a learner's state that changes from step to step. It is in device memory, so that a captured step needs
 * no host. finish_step, the last kernel of a step, advances it. */
typedef struct gpur_train_state {
    uint64_t step;   /* train steps done; also the number of the next sample, which the sampling kernels read here */
    int64_t skipped; /* steps that did nothing, since there was no row to draw */
    int64_t target_copies;
    int64_t invalid_actions;                          /* rows with an invalid action, over all steps */
    int64_t missing_rows;                             /* rows that were missing, over all steps */
    int64_t empty_refreshes;                          /* refreshes of a cache of returns that found no block */
    double beta1_power, beta2_power;                  /* beta1^t and beta2^t of the next step t */
    double loss_sum;                                  /* of all losses that were finite */
    float next_learning_rate;                         /* of the next step */
    int32_t copy_due;                                 /* 1: the next step ends with a target copy */
    float loss, mean_q, gradient_norm, learning_rate; /* of the last step, or of the step diverged_at */
    uint64_t diverged_at;     /* the first step that spoiled the network: see finish_step; 0: there was none */
    float finite_loss;        /* the last loss before that step that was finite; NaN: none is known */
    uint32_t infinite_losses; /* steps whose loss was not finite, which loss_sum leaves out */
} gpur_train_state;

/* Floats in one partial sum of squares, whatever the launch shape. */
enum { GPUR_NORM_CHUNK = 1024 };

typedef struct gpur_gradient_norm_args {
    const float *gradient; /* (P) aligned to 16 bytes */
    float *partial;        /* (ceil(P / GPUR_NORM_CHUNK)) out: sums of squares */
    float *clipped;        /* the same after clipping by value; NULL: no clipping by value */
    int64_t count;
    float clip_value; /* not read if `clipped` is NULL */
} gpur_gradient_norm_args;

/* The optimizer's update of all weights. The kinds of RMSProp differ only in these numbers: see
 * src/learn/optimizer.c. */
typedef struct gpur_weight_update_args {
    float *weights;        /* (P) */
    float *target;         /* (P) */
    uint16_t *bf16;        /* (P) out: the new weights, rounded to bfloat16; NULL: not wanted */
    uint16_t *target_bf16; /* (P) the same of the target */
    const float *gradient; /* (P) */
    float *mean;           /* (P) running mean of g: ADAM, centered RMSPROP; else NULL */
    float *square;         /* (P) running mean of g^2 */
    float *velocity;       /* (P) momentum of RMSPROP; NULL: none */
    const float *partial;  /* (partials) of gradient_norm, after clipping by value */
    const gpur_train_state *state;
    const int64_t *drawable; /* (1) the rows that there are to draw; if it is 0, the kernel changes nothing */
    int64_t count, partials;
    int32_t adam;           /* 1: ADAM; 0: RMSPROP */
    int32_t correct_rate;   /* ADAM, 1: the bias correction is of the learning rate; 0: of m and v */
    int32_t rate_on_weight; /* 1: the learning rate multiplies the velocity (PyTorch); 0: it multiplies what is added to
                               the velocity */
    float mean_decay, square_decay, momentum;
    float epsilon_inside, epsilon_outside; /* added inside and outside the square root */
    float clip_value, clip_norm;           /* 0: no such clipping */
    float weight_decay;                    /* ADAM; 0: none */
    float target_rate; /* the part of the way to the new weights that a copy takes the target; 1: all of it */
} gpur_weight_update_args;

typedef struct gpur_finish_step_args {
    gpur_train_state *state;
    const int64_t *drawable; /* (1) if it is 0, only `skipped` changes */
    const float *loss;       /* (B) */
    const float *q_taken;    /* (B) */
    const float *invalid;    /* (B) 0 or 1 */
    const float *missing;    /* (B) 0 or 1; NULL: no row is */
    const float *partial;    /* (partials) of gradient_norm, before any clipping */
    int64_t batch;
    int32_t partials;
    int32_t clips; /* 1: the optimizer clips the gradient, by norm or by value */
    int64_t target_period;
    int64_t target_phase; /* step t = 1, 2, ... ends with a target copy when t % target_period equals this */
    float beta1, beta2;
    float rate_first, rate_last;
    int64_t rate_begin, rate_steps;
} gpur_finish_step_args;

/* What decides whether the action of a row is random, and which one it is then. */
typedef struct gpur_explore_row {
    uint64_t step;
    uint32_t lane;
    float epsilon; /* probability of a random action; of noisy actions: the standard deviation of the noise */
} gpur_explore_row;

/* The arguments of all kernels that act by a head: epsilon_greedy by action values, distribution_greedy by the means of
 * distributions, softmax_choice by probabilities, noisy_action and gaussian_choice by vectors. The random numbers of a
 * row are a pure function of the seed, its step and its lane. */
typedef struct gpur_choice_args {
    const float *z;    /* (B, Z), rows `z_pitch` floats apart, without bias */
    const float *bias; /* (Z) */
    float *per_action; /* (B, A) out: of each action its value or its probability; or an action vector */
    float *value;      /* (B) out of softmax_choice; of gaussian_choice log pi(a | s) */
    int32_t *action;   /* (B) out; not of noisy_action and gaussian_choice */
    int64_t batch, z_pitch;
    int32_t head, num_actions;
    int32_t greedy; /* softmax_choice. 1: the most probable action; 0: one drawn from the probabilities.
                       gaussian_choice. 1: tanh(mean); 0: an action drawn from the distribution */
    float floor;    /* softmax_choice, f: p = (softmax + f) / (1 + f A) */
    uint64_t seed;
    const gpur_explore_row *rows; /* (B); NULL: all rows have `step` and `epsilon`, and the lane of row b is b */
    uint64_t step;
    float epsilon;                  /* as in gpur_explore_row */
    gpur_distribution distribution; /* distribution_greedy */
    const unsigned char *mask;      /* (B, ceil(A / 8)) allowed actions (kernels/lib/allowed.h), at least one: others
                                       are not chosen, and their probability is 0. NULL: all are allowed */
} gpur_choice_args;
typedef gpur_choice_args gpur_epsilon_greedy_args;
typedef gpur_choice_args gpur_distribution_greedy_args;
typedef gpur_choice_args gpur_softmax_choice_args;
typedef gpur_choice_args gpur_noisy_action_args;
typedef gpur_choice_args gpur_gaussian_choice_args;

/* Actions drawn in a train step from the distribution of a SQUASHED_GAUSSIAN head, with what its backward pass needs.
 * The random numbers are a pure function of the seed, the step, the row and the component. */
typedef struct gpur_gaussian_sample_args {
    const float *z;                /* (B, 2 A) means, then log sigmas, rows `z_pitch` floats apart, without bias */
    const float *bias;             /* (2 A) */
    const gpur_train_state *state; /* its `step` numbers the draw */
    float *action;                 /* (B, A) out: tanh(mean + sigma n), rows `action_pitch` floats apart */
    float *noise;                  /* (B, A) out: n */
    float *log_prob;               /* (B) out: log of the density of the action */
    const float *log_alpha;        /* (1) */
    float *entropy;                /* (B) out: alpha times log_prob; NULL: not wanted, as is log_alpha */
    int64_t batch, z_pitch, action_pitch;
    int64_t first_row; /* number of row 0 among all rows of the draw; (first_row + row) A + k numbers its component k */
    int32_t num_actions;
    uint64_t seed;
} gpur_gaussian_sample_args;

/* The gradient of alpha log pi(a | s) - Q(s, a), averaged over the batch, by the head's inputs, where a is the result
 * of gaussian_sample. */
typedef struct gpur_gaussian_gradient_args {
    const float *z;         /* (B, 2 A), bias and noise: as gaussian_sample has them */
    const float *bias;      /* (2 A) */
    const float *noise;     /* (B, A) */
    const float *slope;     /* (B, A) dQ / da, rows `slope_pitch` floats apart */
    const float *log_alpha; /* (1) */
    float *dz;              /* (B, 2 A) out, rows `z_pitch` floats apart */
    int64_t batch, z_pitch, slope_pitch;
    int32_t num_actions;
} gpur_gaussian_gradient_args;

/* The actions of a deterministic target policy, with clipped noise. The formulas are in
 * kernels/learn/target_action.h. */
typedef struct gpur_target_action_args {
    const float *z;    /* (B, A) of the target actor for next_obs, rows `z_pitch` floats apart, without bias */
    const float *bias; /* (A) */
    const gpur_train_state *state; /* whose step the noise follows from */
    float *y;                      /* (B, A) out, rows `y_pitch` floats apart */
    int64_t batch, z_pitch, y_pitch;
    int32_t num_actions;
    float sigma, clip; /* of the noise; clip 0: none */
    uint64_t seed;
} gpur_target_action_args;

/* The value of actions drawn from a policy, by the least of its critics: kernels/learn/soft_value.h. */
typedef struct gpur_soft_value_args {
    const float *z;         /* (B, C), of distributions (B, C N), of the critics for obs and a drawn action, rows
                               `z_pitch` floats apart, without bias */
    const float *bias;      /* (C) or (C N) */
    const float *log_prob;  /* (B) of the actions */
    const float *log_alpha; /* (1) */
    float *dz;              /* as z, out: gradient of the least value */
    float *loss;            /* (B) out: alpha log pi - the least value */
    float *entropy;         /* (B) out: -log pi */
    int64_t batch, z_pitch;
    int32_t critics;
    gpur_distribution distribution;
    int32_t head;
} gpur_soft_value_args;

/* The gradient of a temperature's loss by its logarithm: kernels/learn/soft_value.h. */
typedef struct gpur_temperature_gradient_args {
    const float *log_prob;  /* (B) of actions drawn from the policy */
    const float *log_alpha; /* (1) */
    float *gradient;        /* (1) out */
    float *loss;            /* (1) out */
    float *alpha;           /* (1) out: the temperature of this step */
    int64_t batch;
    float target_entropy; /* of the policy */
    int32_t is_fixed;     /* 1: the gradient is 0 */
} gpur_temperature_gradient_args;

/* The gradient of a deterministic policy's loss, the mean of -Q(s, mu(s)), by the actor's outputs before the head. */
typedef struct gpur_action_gradient_args {
    const float *z;          /* (B, 1) of the critic for s and mu(s), rows `z_pitch` floats apart, without bias */
    const float *bias;       /* (1) of the critic */
    const float *action;     /* (B, A) mu(s), rows `action_pitch` floats apart */
    const float *slope;      /* (B, A) dQ / da there, rows as far apart */
    const float *actor_z;    /* (B, A) of the actor for s, rows `actor_pitch` floats apart, without bias */
    const float *actor_bias; /* (A) */
    float *q;                /* (B) out: Q(s, mu(s)); NULL: not wanted */
    float *dz;               /* (B, A) out, rows `actor_pitch` floats apart */
    int64_t batch, z_pitch, action_pitch, actor_pitch;
    int32_t num_actions;
    float clip;    /* limit of a component of dQ / da; 0: none */
    float penalty; /* c of c |z|^2; 0: none */
} gpur_action_gradient_args;

/* The parts of the loss whose gradient is wanted. */
enum { GPUR_LOSS_OF_POLICY = 1, GPUR_LOSS_OF_VALUE = 2 };

/* What a row of an actor-critic batch gives: arrays of B, one after another. */
enum {
    GPUR_ROW_POLICY_LOSS = 0, /* -log(p_a) (R - V) */
    GPUR_ROW_VALUE_LOSS = 1,  /* (R - V)^2 */
    GPUR_ROW_ENTROPY = 2,
    GPUR_ROW_VALUE = 3,
    GPUR_ROW_RESULTS = 4,
};

/* Loss of an actor-critic and its gradient, row by row. The formulas are in kernels/learn/actor_critic_loss.h. */
typedef struct gpur_actor_critic_loss_args {
    const float *z;                /* (B, A + 1), rows `z_pitch` floats apart, without bias */
    const float *bias;             /* (A + 1) */
    const int32_t *action;         /* (B) 0 to A - 1 */
    const float *returns;          /* (B) R */
    const int64_t *count;          /* (1) device: rows that train; the gradient of the others is 0 */
    const gpur_train_state *state; /* of the entropy's schedule */
    float *p;                      /* (B, A) out: probabilities */
    float *dp;                     /* (B, A) out: gradients by them */
    float *dz;                     /* (B, A + 1) out, rows `z_pitch` floats apart */
    float *results;                /* (GPUR_ROW_RESULTS, B) out; 0 in rows that do not train */
    int64_t batch, z_pitch;
    int32_t num_actions;
    int32_t parts; /* GPUR_LOSS_OF_*: others add nothing to dz */
    int32_t log;   /* GPUR_LOG_* */
    float log_epsilon, floor, value_coefficient;
    float entropy_first, entropy_last;
    int64_t entropy_begin, entropy_steps;
} gpur_actor_critic_loss_args;

/* One operand of a matrix product: element (i, k) is x[i * row + k * step]. If y is given and x was computed in several
 * splits, it is the sum of that element over the splits, in their order. */
typedef struct gpur_gemm_operand {
    const float *x;
    const float *y; /* NULL, or activations, in the shape of one split, by which x is the gradient: each element is
                       multiplied by activation'(y) */
    int64_t row, step, k_split_step;
    int32_t k_splits;   /* splits of x, 1 or more */
    int16_t activation; /* this one and the next are short, since all arguments of the fused step hardly fit */
    int16_t in_quads; /* 1: row or step is 1, and along it numbers are loaded four at a time, each four at a multiple of
                         16 bytes; there is memory for the last four. Needed if y is given */
} gpur_gemm_operand;

/* C = A B^T, computed by tiles of C and splits of k: kernels/fused/tile_gemm.h. */
typedef struct gpur_tile_gemm {
    gpur_gemm_operand a, b; /* (m, k), (n, k) */
    float *c;               /* (splits, m, n) out, rows c_row floats apart, splits c_split floats apart: a partial sum
                               for each split of k */
    float *a_sums;          /* (splits, m) out, splits c_split floats apart: sums of the rows of a over the split of k;
                               NULL: not wanted */
    const float *bias;      /* (n) C = activation(A B^T + bias), which needs a single split; NULL: no bias and no
                               activation */
    int64_t c_row, c_split;
    int32_t m, n, k;
    int32_t k_splits; /* splits of k, 1 to k */
    int32_t k_size;   /* k of a split, a multiple of 4; the last one has fewer */
    int32_t activation;
    int32_t large; /* 1: large tiles, with fewer loads for each multiplication; 0: small tiles, for more blocks */
} gpur_tile_gemm;

/*
 * The stages of a train step in one kernel, in order. A grid sync separates any two of them. If no norm is needed
 * before the weight update, that is done in FIRST_GRADIENT: the block that computes a gradient of the first layer
 * updates those weights, and the blocks that have none update all others. The gradient's norm, a statistic then, is
 * computed by blocks that the next step's stage FIRST leaves idle.
 */
enum {
    GPUR_STAGE_SAMPLE = 0, /* sample ids by priority */
    GPUR_STAGE_GATHER = 1,
    GPUR_STAGE_FIRST = 2,          /* forward pass of the first layer; importance weights */
    GPUR_STAGE_HIDDEN = 3,         /* forward pass of the second layer; the last block ends the step before this one */
    GPUR_STAGE_HEADS = 4,          /* row by row: last layers, TD error, gradient of the hidden layer */
    GPUR_STAGE_GRADIENTS = 5,      /* gradients of all weights but the first layer's, and splits of the gradient of the
                                      first layer's activations; new priorities */
    GPUR_STAGE_FIRST_GRADIENT = 6, /* gradient of the first layer's weights */
    GPUR_STAGE_NORM = 7,           /* this and the next only if the weight update needs the norm, or the gradient has
                                      splits */
    GPUR_STAGE_UPDATE = 8,
    GPUR_STAGE_COUNT = 9,
};

/* The last layers and the activations of the hidden layer, H wide, which they read. */
typedef struct gpur_last_layers {
    const float *online, *target;        /* (B or 2 B, H), (B, H) activations of the hidden layer */
    const float *weight, *target_weight; /* (Z, inputs) */
    float *z, *z_target;                 /* (B or 2 B, Z), (B, Z) out: what td_error reads */
    float *gradient;                     /* (B, H) out: gradient of the loss by the hidden layer's pre-activations */
    int64_t pitch;                       /* floats between rows of the hidden activations and of their gradient */
    int32_t width, inputs, outputs;      /* H; activations that an output reads, H or H / 2; Z */
    int32_t first_outputs;               /* so many first outputs read the first `inputs` activations, the others the
                                            next */
    int32_t activation;                  /* of the hidden layer */
} gpur_last_layers;

/* Matrix products of a step, at most: the forward passes of two layers in two networks (4), the weight gradients of
 * two layers and of one or two last layers (4), the gradient of the first layer's activations (1). */
enum { GPUR_MAX_TILE_GEMMS = 9 };

/* `steps` whole train steps in one kernel: kernels/fused/fused_train_steps.h. */
typedef struct gpur_fused_train_steps_args {
    int64_t steps;
    uint64_t *sample_step; /* (1) scratch: the number of the next sample, which the sampling kernels read */
    gpur_gather_args gather;
    gpur_priority_sample_args sample; /* this one and the next two are read only if by_priority is 1 */
    gpur_priority_weights_args weights;
    gpur_priority_update_args priorities;
    gpur_td_error_args td;
    gpur_last_layers last;
    gpur_gradient_norm_args norm;
    gpur_weight_update_args weight_update; /* of all weights, or with update_before_norm of all but the first layer's */
    gpur_weight_update_args first_update;  /* of all weights; read only with update_before_norm, for the first layer */
    gpur_finish_step_args finish;
    const float *gradient_splits; /* (splits, P) the gradient is their sum; NULL: it is computed without splits */
    float *gradient;              /* (P) */
    int32_t k_splits;
    int32_t by_priority;
    int32_t update_before_norm; /* 1: the weight update needs no norm, and runs in FIRST_GRADIENT */
    int32_t gemm_count;
    int32_t first_gemm[GPUR_STAGE_COUNT + 1];  /* the products of stage s are first_gemm[s] to first_gemm[s + 1] - 1 */
    gpur_tile_gemm gemms[GPUR_MAX_TILE_GEMMS]; /* in the order of their stages */
} gpur_fused_train_steps_args;
