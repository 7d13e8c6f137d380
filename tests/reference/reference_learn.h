/* SPDX-License-Identifier: MIT */
/*
 * The learner's formulas again, naive, in double, from the papers: networks of convolutions and dense layers, heads,
 * losses, optimizers and a whole DQN step. Shares no code with kernels/ or src/.
 */
#pragma once

#include "gpureplay.h"
#include "reference/reference_conv.h"

enum { REF_TENSORS = 32, REF_WIDTH = 1600, REF_DEPTH = 12 };

/* A weight (units, inputs) or bias (units), with its gradient, its target copy and the optimizer's slots. */
typedef struct ref_tensor {
    char name[64];
    int units, inputs; /* inputs 0: a bias */
    int count;
    double *w, *target, *g, *m, *v, *u; /* (count) */
} ref_tensor;

/* A dense layer or a convolution. */
typedef struct ref_layer {
    ref_tensor *weight, *bias;
    ref_tensor *gain, *offset; /* of its normalization; NULL: it has none */
    int activation, is_conv;
    ref_conv conv;
} ref_layer;

typedef struct ref_net {
    gpur_network_config config;
    int features;
    int height, columns, channels; /* of the image that an observation is */
    ref_layer trunk[REF_DEPTH];
    ref_layer hidden[2], out[2]; /* (branches) of the head's branches; hidden only if config.hidden is above 0 */
    int branches;
    ref_tensor tensor[REF_TENSORS];
    int tensors;
} ref_net;

/* What one row left behind in each layer. */
typedef struct ref_tape {
    double x[REF_WIDTH];                /* (features) scaled, an image as (H, W, C) */
    double trunk[REF_DEPTH][REF_WIDTH]; /* after each trunk layer */
    double hidden[2][REF_WIDTH];        /* of each branch */
    double z[REF_WIDTH], y[REF_WIDTH];  /* before and after the head */
} ref_tape;

ref_net *ref_net_create(const gpur_network_config *config, int features);
/* On images; at most REF_WIDTH numbers each, in every layer. */
ref_net *ref_net_create_image(const gpur_network_config *config, int height, int width, int channels);
void ref_net_destroy(ref_net *net);
ref_tensor *ref_net_find(ref_net *net, const char *name); /* NULL: no such name */
void ref_net_copy_target(ref_net *net, double rate);      /* 1: the whole weights */
void ref_net_zero_gradient(ref_net *net);

/* One row: fills in the tape. `target` != 0 uses the target copy. */
void ref_forward(ref_net *net, int target, const float *x, ref_tape *tape);
void ref_forward_input(ref_net *net, int target, ref_tape *tape); /* of the x on the tape, which is scaled */

/* Adds the gradient of sum_k dy[k] y[k] for the row on the tape to every tensor's g. */
void ref_backward(ref_net *net, const ref_tape *tape, const double *dy);

/* The same, and the gradient by x (features), without the scale of the input. */
void ref_backward_to_input(ref_net *net, const ref_tape *tape, const double *dy, double *dx);

/* Head alone: y from z, dz from y and dy. Columns as in gpureplay/learner.h: value first for dueling, last for softmax;
 * of a squashed Gaussian y is the means and then the log sigmas, clipped to -20 to 2. Of a head of distributions y
 * is z, and `outputs` the numbers of all actions. */
void ref_head(int head, int outputs, const double *z, double *y);
void ref_head_backward(int head, int outputs, const double *y, const double *dy, double *dz);

/* The action of a row: uniformly random with probability epsilon, by Philox4x32-10 of (seed, purpose 4, step, lane),
 * else the first of those with the largest value. */
int ref_epsilon_greedy(uint64_t seed, uint64_t step, uint32_t lane, float epsilon, int actions, const double *q);

double ref_loss(int kind, double delta, double error);
double ref_loss_derivative(int kind, double delta, double error);
double ref_schedule(const gpur_schedule *schedule, double step);

/* Slots as before step 1, for `count` weights. */
void ref_optimizer_begin(const gpur_optimizer_config *config, int count, double *m, double *v, double *u);

/* Step t = 1, 2, ... on clipped, scaled gradients g. */
void ref_optimizer_step(const gpur_optimizer_config *config, int64_t t, int count, double *w, const double *g,
                        double *m, double *v, double *u);

/* A transition as the replay under test stores it. */
typedef struct ref_row {
    const float *obs, *next_obs;
    int action;
    float reward, weight;
    double discount; /* gamma to the power of its steps; 0: the episode ended */
    double error;    /* filled in: Q(s, a) minus its target; with a head of distributions the loss without its weight */
    const unsigned char *next_mask; /* bit k % 8 of byte k / 8 is 1: next_obs allows action k; NULL: it allows all */
} ref_row;

/* Mean loss of a batch, to which a row with an action that there is not adds nothing; leaves its gradient in g (zeroed
 * first), each row's TD error in `rows`, and the mean Q(s, a) in *mean_q if not NULL. */
double ref_dqn_loss(ref_net *net, const gpur_dqn_config *config, ref_row *rows, int batch, double *mean_q);

/* 1: step t = 1, 2, ... ends in a copy of the online weights to the target. */
int ref_copies_target(const gpur_dqn_config *config, int64_t t);

/* Step t = 1, 2, ...: clips, updates, copies the target if it is time to. The norm of the gradient as it came. */
double ref_dqn_update(ref_net *net, const gpur_dqn_config *config, int64_t t);
