/* SPDX-License-Identifier: MIT */
/* An optimiser over made-up weights, with nothing before it: what it does to them step by step. */
#ifndef GPUR_SUPPORT_OPTIMIZER_RIG_H
#define GPUR_SUPPORT_OPTIMIZER_RIG_H

#include "learn/optimizer.h"

enum { P = 5000, OPTIMIZER_RIG_BATCH = 3 };

typedef struct optimizer_rig {
    gpur_device *device;
    gpur_stream *stream;
    gpur_optimizer optimizer;
    void *memory;
    gpur_window *window; /* device */
    float *loss;         /* device (batch) 1, 2, 6 */
    float *invalid;      /* device (batch) two of them */
} optimizer_rig;

/* A schedule of the learning rate, and constants that all kinds read. */
gpur_learner_config optimizer_rig_config(int kind, int centered);

/* From these weights (P). Returns the first failure; close it in any case. */
gpur_status optimizer_rig_open(optimizer_rig *rig, gpur_device *device, const gpur_learner_config *config,
                               const float *weights);
void optimizer_rig_close(optimizer_rig *rig);

/* One step on this gradient (P), waited for. */
gpur_status optimizer_rig_step(optimizer_rig *rig, const float *gradient);

/* Gradients (P) whose size differs from weight to weight and whose sign mostly stays, as training's do. */
void optimizer_rig_gradient(int t, float *gradient);

/* One of the optimiser's arrays (P), and its state. */
gpur_status optimizer_rig_read(const optimizer_rig *rig, const float *from, float *to);
gpur_train_state optimizer_rig_state(const optimizer_rig *rig);

#endif
