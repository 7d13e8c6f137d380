/* SPDX-License-Identifier: MIT */
/* Fixture of the tests of deterministic policy gradients: replays whose rows are known by id, and learners on them. */
#pragma once

#include "gpureplay.h"

enum { DPG_FEATURES = 5, DPG_ACTIONS = 3, DPG_ROWS = 200 };

/* As the schema packs it. */
typedef struct dpg_row {
    float obs[DPG_FEATURES], action[DPG_ACTIONS], reward, next_obs[DPG_FEATURES], discount;
    uint8_t terminated;
    uint8_t padding[3];
} dpg_row;

/* The row with this id. Its discount, 0 to 0.95, is stored, as that of n steps is. */
dpg_row dpg_fixture_row(int64_t id);

typedef struct dpg_fixture {
    gpur_replay *replay;
    gpur_writer *writer;
} dpg_fixture;

/* A replay with all rows. The caller always calls dpg_fixture_close. */
gpur_status dpg_fixture_open(dpg_fixture *f, gpur_device *device, int prioritized);

/* One without rows. */
gpur_status dpg_fixture_open_empty(dpg_fixture *f, gpur_device *device, int prioritized);
void dpg_fixture_close(dpg_fixture *f);

/* Small networks: layers of 9 and 7 units, and 11 and 6, with tanh. Batches of 24. */
gpur_dpg_config dpg_fixture_config(void);

/* NULL on an error, which is printed. */
gpur_learner *dpg_fixture_learner(const dpg_fixture *f, const gpur_dpg_config *config);

/* A policy with the learner's actor; NULL on an error. */
gpur_policy *dpg_fixture_policy(gpur_device *device, const gpur_dpg_config *config, int32_t streams);
