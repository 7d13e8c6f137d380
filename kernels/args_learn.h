/* SPDX-License-Identifier: MIT */
/* Kernels of the learner. Axes: B batch, A actions, F features of a layer, Z outputs of the network before its head, Y
 * outputs of the head, P parameters. */
#ifndef GPUR_ARGS_LEARN_H
#define GPUR_ARGS_LEARN_H

#include <stdint.h>

#include "kernels/args_priority.h"
#include "kernels/args_replay.h"

#define GPUR_LEARN_KERNEL_LIST(X)                                                                                      \
    X(bias_activation)                                                                                                 \
    X(layer_backward)                                                                                                  \
    X(head_forward)                                                                                                    \
    X(head_backward)                                                                                                   \
    X(td_error)                                                                                                        \
    X(gradient_norm)                                                                                                   \
    X(update)                                                                                                          \
    X(finish_step)                                                                                                     \
    X(explore)                                                                                                         \
    X(learn_steps)

/* Of a dense layer; the values are those of GPUR_LINEAR, GPUR_RELU, GPUR_TANH in the public header. */
enum { GPUR_ACTIVATION_LINEAR = 0, GPUR_ACTIVATION_RELU = 1, GPUR_ACTIVATION_TANH = 2 };

/* What stands on the network; the values are those of GPUR_HEAD_* in the public header. */
enum { GPUR_STAND_Q = 0, GPUR_STAND_DUELING = 1, GPUR_STAND_SOFTMAX_VALUE = 2, GPUR_STAND_TANH_ACTION = 3 };

/* y = activation(y + bias), where the GEMM could not take it along. */
typedef struct gpur_bias_activation_args {
    float *y;          /* (B, F), rows `pitch` floats apart */
    const float *bias; /* (F) */
    int64_t batch, features, pitch;
    int32_t activation;
} gpur_bias_activation_args;

/* dy *= activation'(y), and the bias gradient: the sum of dy over the batch. */
typedef struct gpur_layer_backward_args {
    float *dy;            /* (B, F), rows `dy_pitch` floats apart */
    const float *y;       /* (B, F), rows `y_pitch` floats apart; not read when linear */
    float *bias_gradient; /* (F), written */
    int64_t batch, features, dy_pitch, y_pitch;
    int32_t activation;
} gpur_layer_backward_args;

/*
 * The head, and the columns of z (+ bias) it reads and of y it makes, with A `outputs`:
 *   Q              z (A)      action values             y (A)      z
 *   DUELING        z (1 + A)  value, advantages         y (A)      value + advantage - mean advantage
 *   SOFTMAX_VALUE  z (A + 1)  logits, value             y (A + 1)  probabilities, value
 *   TANH_ACTION    z (A)                                y (A)      tanh z
 */
typedef struct gpur_head_forward_args {
    const float *z;    /* (B, Z), rows `z_pitch` floats apart, without their bias */
    const float *bias; /* (Z) */
    float *y;          /* (B, Y), contiguous */
    int64_t batch, z_pitch;
    int32_t head, outputs;
} gpur_head_forward_args;

typedef struct gpur_head_backward_args {
    const float *y;  /* (B, Y) as head_forward made it */
    const float *dy; /* (B, Y) gradient of the loss */
    float *dz;       /* (B, Z), rows `dz_pitch` floats apart, written */
    int64_t batch, dz_pitch;
    int32_t head, outputs;
} gpur_head_backward_args;

/* From the networks' outputs to the loss and its gradient, a row at a time. */
typedef struct gpur_td_error_args {
    const float *z;        /* (B or 2 B, Z) online: obs, then with double_dqn next_obs; rows `z_pitch` floats apart */
    const float *z_target; /* (B, Z) target network on next_obs; the same pitch */
    const float *bias;     /* (Z) online */
    const float *bias_target; /* (Z) */
    const void *action;       /* (B) int32, or int64 if wide_action */
    const float *reward;      /* (B) */
    const float *discount;    /* (B) 0 where nothing is bootstrapped */
    const float *weight;      /* (B) importance */
    float *q;                 /* (B or 2 B, A) out: online action values */
    float *q_target;          /* (B, A) out */
    float *dq;                /* (B, A) out: gradient of the mean loss */
    float *dz;                /* (B, Z) out, rows `z_pitch` floats apart */
    float *td;                /* (B) out: |y - Q(s, a)| */
    float *loss;              /* (B) out, weighted */
    float *q_taken;           /* (B) out: Q(s, a) */
    float *invalid;           /* (B) out: 1 where the action is none of 0 ... A - 1, and nothing is trained; else 0 */
    int64_t batch, z_pitch;
    int32_t head, outputs; /* head: Q or DUELING */
    int32_t wide_action, double_dqn;
    int32_t squared; /* 1: delta^2 / 2; 0: Huber */
    float huber_delta;
} gpur_td_error_args;

/*
 * What changes from step to step, in device memory, so that a recorded step needs no host. The last kernel of a step
 * moves it on.
 */
typedef struct gpur_train_state {
    uint64_t step;   /* train steps done; also the counter of the draws, hence first */
    int64_t skipped; /* steps that found an empty window */
    int64_t target_copies;
    int64_t invalid_actions;                          /* rows of all steps done */
    double beta1_power, beta2_power;                  /* beta^t of the step to come */
    double loss_sum;                                  /* over all steps done */
    float next_learning_rate;                         /* of the step to come */
    int32_t copy_due;                                 /* 1: the step to come ends in a target copy */
    float loss, mean_q, gradient_norm, learning_rate; /* of the last step */
} gpur_train_state;

/* Floats whose squares one partial sum holds: 32 lanes of 32, whatever the launch shape. */
enum { GPUR_NORM_LANES = 32, GPUR_NORM_CHUNK = 1024 };

typedef struct gpur_gradient_norm_args {
    const float *gradient; /* (P) */
    float *partial;        /* (ceil(P / GPUR_NORM_CHUNK)) out: sums of squares */
    float *clipped;        /* the same after clipping by value; NULL where nothing is clipped so */
    int64_t count;
    float clip_value; /* read if there is a `clipped` */
} gpur_gradient_norm_args;

/* Optimisers; the flavours of RMSProp differ only in numbers, see src/learn/optimizer.c. */
typedef struct gpur_update_args {
    float *weights;        /* (P) */
    float *target;         /* (P) */
    const float *gradient; /* (P) */
    float *mean;           /* (P) running mean of g: ADAM, centred RMSPROP; else NULL */
    float *square;         /* (P) running mean of g^2 */
    float *velocity;       /* (P) momentum of RMSPROP; NULL: none */
    const float *partial;  /* (partials) of gradient_norm, after clipping by value */
    const gpur_train_state *state;
    const gpur_window *window; /* empty: nothing changes */
    int64_t count, partials;
    int32_t adam;           /* 1: ADAM; 0: RMSPROP */
    int32_t rate_on_weight; /* 1: the learning rate multiplies the velocity (PyTorch), 0: what enters it */
    float mean_decay, square_decay, momentum;
    float epsilon_inside, epsilon_outside; /* of the root */
    float clip_value, clip_norm;           /* 0: not */
} gpur_update_args;

typedef struct gpur_finish_step_args {
    gpur_train_state *state;
    const gpur_window *window;
    const float *loss;    /* (B) */
    const float *q_taken; /* (B) */
    const float *invalid; /* (B) 0 or 1 */
    const float *partial; /* (partials) of gradient_norm, before any clipping */
    int64_t batch, partials;
    int64_t target_period;
    int64_t target_phase; /* step t = 1, 2, ... ends in a copy when t % target_period is this */
    float beta1, beta2;
    float rate_first, rate_last;
    int64_t rate_begin, rate_steps;
} gpur_finish_step_args;

/* Epsilon-greedy over the action values of a Q or dueling head. */
typedef struct gpur_explore_args {
    const float *z;    /* (B, Z), rows `z_pitch` floats apart, without their bias */
    const float *bias; /* (Z) */
    float *q;          /* (B, A) out */
    int32_t *action;   /* (B) out */
    int64_t batch, z_pitch;
    int32_t head, outputs;
    uint64_t seed, counter; /* of this act: a pure function, so any launch shape explores alike */
    float epsilon;
} gpur_explore_args;

/* One side of a product: element (i, k) is x[i * row + k * step], or the sum of that in every part, in their order. */
typedef struct gpur_factor {
    const float *x;
    const float *y; /* NULL; or, of the shape of one part, the sheet whose activation a gradient passes: times its slope
                       at y */
    int64_t row, step, part_step;
    int32_t parts; /* 1 or more */
    int32_t activation;
} gpur_factor;

/* C = A B^T, a tile of it and a part of k at a time: kernels/fused/tile_product.h. */
typedef struct gpur_product {
    gpur_factor a, b;  /* (m, k), (n, k) */
    float *c;          /* (parts, m, n) out, rows c_row floats apart, parts c_part: one sum for each part of k */
    float *a_sums;     /* (parts, m) out, parts c_part floats apart: sums of a over its part of k; NULL: not wanted */
    const float *bias; /* (n) C = activation(A B^T + bias); NULL: neither; else parts is 1 */
    int64_t c_row, c_part;
    int32_t m, n, k;
    int32_t parts; /* of k, 1 to k */
    int32_t activation;
    int32_t large; /* 1: large tiles, fewer loads for each multiplication; 0: small ones, for more blocks */
    int32_t stage; /* GPUR_STAGE_* in which it is computed */
} gpur_product;

/* The stages of a step in one kernel, in order. Between two of them all blocks meet. */
enum {
    GPUR_STAGE_DRAW = 0, /* ids by priority */
    GPUR_STAGE_GATHER = 1,
    GPUR_STAGE_FIRST = 2, /* forward: the first layer; importance weights */
    GPUR_STAGE_HIDDEN = 3,
    GPUR_STAGE_HEADS = 4,          /* by rows: last layers, TD error, gradient of the hidden sheet */
    GPUR_STAGE_GRADIENTS = 5,      /* of all later weights, and parts of the first sheet's; new priorities */
    GPUR_STAGE_FIRST_GRADIENT = 6, /* of the first layer's weights */
    GPUR_STAGE_NORM = 7,
    GPUR_STAGE_UPDATE = 8,
    GPUR_STAGE_COUNT = 9,
};

/* The last layers, and the hidden sheet that they read: H numbers wide. */
typedef struct gpur_last_layers {
    const float *online, *target;        /* (B or 2 B, H), (B, H) the hidden sheets */
    const float *weight, *target_weight; /* (Z, inputs) */
    float *z, *z_target;                 /* (B or 2 B, Z), (B, Z) out: what td_error reads */
    float *gradient;                     /* (B, H) out: of the loss by the hidden layer's sums, before its activation */
    int64_t pitch;                       /* floats between rows of the hidden sheets */
    int32_t width, inputs, outputs;      /* H; H or H / 2; Z */
    int32_t split;                       /* outputs before it read the first `inputs` columns, the others the next */
    int32_t activation;                  /* of the hidden layer */
} gpur_last_layers;

/* Two layers, one or two last layers, with all that their passes read and write. */
enum { GPUR_MOST_PRODUCTS = 9 };

/* `steps` whole train steps: learn_steps.h. */
typedef struct gpur_learn_steps_args {
    int64_t steps;
    uint64_t *draw_step; /* (1) scratch: the number of the next draw, which `gather` and `draw` read */
    gpur_gather_args gather;
    gpur_priority_draw_args draw;       /* the next three are read where by_priority is 1 */
    gpur_priority_weights_args weights;
    gpur_priority_update_args priorities;
    gpur_td_error_args td;
    gpur_last_layers last;
    gpur_gradient_norm_args norm;
    gpur_update_args update;
    gpur_finish_step_args finish;
    const float *gradient_parts; /* (parts, P) whose sum is the gradient; NULL: it is there as it is */
    float *gradient;             /* (P) */
    int32_t parts;
    int32_t by_priority;
    int32_t updates_early; /* 1: the update waits for no norm, and goes with it */
    int32_t product_count;
    gpur_product products[GPUR_MOST_PRODUCTS];
} gpur_learn_steps_args;

#endif
