/* SPDX-License-Identifier: MIT */
/* A network on a device, without a replay, beside its reference; and small help for tests of the learner. */
#ifndef GPUR_SUPPORT_LEARN_RIG_H
#define GPUR_SUPPORT_LEARN_RIG_H

#include "learn/network/pass.h"
#include "support/learn_world.h"
#include "reference/reference_learn.h"

typedef struct learn_rig {
    gpur_device *device;
    gpur_stream *stream;
    gpur_network network;
    gpur_pass pass;
    gpur_backward backward;
    int64_t rows;
    void *memory, *workspace;
    float *weights, *gradient; /* device (P) */
    float *host;               /* (P) the weights, as uploaded */
    float *x;                  /* host (rows, features) */
    ref_net *reference;        /* the same weights */
} learn_rig;

/* Random observations and weights (biases too), the same in both. Returns the first failure; close it in any case. */
gpur_status rig_open(learn_rig *rig, gpur_device *device, const gpur_network_config *config, int features, int64_t rows,
                     int fuse);

/* The same on images; x is (rows, H, W, C), and config's layout GPUR_HWC. */
gpur_status rig_open_scene(learn_rig *rig, gpur_device *device, const gpur_network_config *config,
                           const gpur_scene *scene, int64_t rows, const gpur_pass_options *options);
void rig_close(learn_rig *rig);

/* The last sheet after a forward pass over `rows` rows: (rows, width) in host memory. */
gpur_status rig_forward(learn_rig *rig, int64_t rows, float *z);

/* The gradient of sum(dz * z), as laid out in the parameters: (P) in host memory. */
gpur_status rig_backward(learn_rig *rig, const float *dz, float *gradient);

/* Numbers in (-1, 1) that depend on the seed alone. */
void rig_random(uint64_t seed, float *x, int64_t count);

/* Device memory with these bytes in it; NULL when there is none. */
void *rig_upload(gpur_device *device, const void *host, int64_t bytes);

/* A learner over a world all of whose rows are in; NULL when it could not be made. Close it in any case. */
gpur_learner *rig_open_learner(learn_world *world, gpur_device *device, gpur_learner_config config);
void rig_close_learner(learn_world *world, gpur_learner *learner);

/* A network config: `trunk` units a layer (0 ends), all activations the same. */
gpur_network_config rig_network(int first, int second, int activation, int head, int hidden, int outputs);

#endif
