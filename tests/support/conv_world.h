/* SPDX-License-Identifier: MIT */
/* A learner on made-up images of uint8, beside its reference. */
#ifndef GPUR_SUPPORT_CONV_WORLD_H
#define GPUR_SUPPORT_CONV_WORLD_H

#include "support/learn_rig.h"

enum { CHANNELS = 3, HEIGHT = 12, WIDTH = 8, PIXELS = CHANNELS * HEIGHT * WIDTH, ROWS = 64, BATCH = 8, ACTIONS = 3 };

/* As the schema packs it. */
typedef struct image_row {
    uint8_t obs[PIXELS], next_obs[PIXELS];
    int32_t action;
    float reward;
    uint8_t terminated;
} image_row;

/* By id, and obs and next_obs as floats; conv_world_make fills them in. */
extern image_row conv_rows[ROWS];
extern float conv_wide[2][ROWS][PIXELS];
void conv_world_make(void);

typedef struct conv_scene {
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_learner_config config;
    ref_net *net;
} conv_scene;

/* A small dueling network: the first convolution reads blocks of 2 x 2 pixels, the second has padding. */
gpur_learner_config conv_config(int32_t layout);

/* A replay of all rows and nothing else. Close it in any case. */
gpur_status conv_replay_open(conv_scene *s, gpur_device *device, int32_t layout);

/* A replay of all rows, the learner, and a reference with its weights in both copies. Close it in any case. */
gpur_status conv_scene_open(conv_scene *s, gpur_device *device, const gpur_learner_config *config);
void conv_scene_close(conv_scene *s);

/* A tensor of the learner by the reference's name. */
gpur_status conv_read(gpur_learner *learner, ref_tensor *tensor, int32_t which, double *to);

/* The batch of step `step`. */
void conv_ids(int step, int64_t ids[BATCH], ref_row batch[BATCH]);

#endif
