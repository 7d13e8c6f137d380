/* SPDX-License-Identifier: MIT */
/* A replay full of made-up transitions whose content is known by id, for tests of the public learner. */
#ifndef GPUR_SUPPORT_LEARN_WORLD_H
#define GPUR_SUPPORT_LEARN_WORLD_H

#include "reference/reference_learn.h"

enum { WORLD_FEATURES = 5, WORLD_ACTIONS = 3, WORLD_ROWS = 500 };

typedef struct world_row {
    float obs[WORLD_FEATURES];
    int32_t action;
    float reward;
    float next_obs[WORLD_FEATURES];
    uint8_t terminated, truncated;
} world_row;

typedef struct learn_world {
    gpur_replay *replay;
    gpur_writer *writer;
    world_row rows[WORLD_ROWS]; /* by id */
} learn_world;

/* `filled` rows are in the replay; the rest may be appended later. Returns the first failure; close it in any case. */
gpur_status world_open(learn_world *world, gpur_device *device, int filled);
void world_close(learn_world *world);

/* The same in a prioritized replay. */
gpur_status world_open_prioritized(learn_world *world, gpur_device *device, int filled, int32_t weight_norm);

/* The same rows in a replay whose actions are int64, and without `truncated`. */
gpur_status world_open_wide(learn_world *world, gpur_device *device);

ref_row world_reference(const learn_world *world, int64_t id);

/* A small learner: `head`, one trunk layer of 16 ReLU units, two streams or one of 12. */
gpur_learner_config world_config(int head, int double_dqn);

/* A reference with the learner's weights, online in both copies. NULL when they could not be read. */
ref_net *world_net(gpur_learner *learner, const gpur_learner_config *config);

/* All online weights in the order of their names: at most `most` of them; their number. */
int64_t world_weights(gpur_learner *learner, int32_t which, float *values, int64_t most);

/* After all train steps enqueued; `steps` is -1 when they could not be had. */
gpur_learner_stats world_stats(gpur_learner *learner);

/* Leaves the device's window its first `count` rows, behind the replay's back: 0 makes steps empty, WORLD_ROWS is as
 * before. */
gpur_status world_set_window(gpur_learner *learner, int64_t count);

/* The (count) ids of step t: a fixed walk through the rows, duplicates now and then. */
void world_ids(int t, int count, int64_t *ids);

#endif
