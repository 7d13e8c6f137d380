/* SPDX-License-Identifier: MIT */
/* Fixture of the tests of the cache of returns: environments with random episodes that terminate, are truncated, or are
 * reset amid an episode, in one replay, and learners with a cache on it. */
#pragma once

#include "gpureplay.h"
#include "learn/dqn/dqn.h"
#include "reference/reference_returns.h"
#include "support/learner_fixture.h"

enum {
    RETURNS_ACTIONS = 3,
    RETURNS_MAX_ENVS = 8,
    RETURNS_NUMBERS = 5,                 /* of an observation of GPUR_LAYOUT_ROWS, float32 */
    RETURNS_STACK = 4,                   /* frames of one of GPUR_LAYOUT_FRAMES, uint8 */
    RETURNS_SIDE = 8,                    /* of a frame */
    RETURNS_FRAME = 8 * 8,               /* bytes of a frame */
    RETURNS_MAX_ROWS = 1024,             /* capacity, at most */
    RETURNS_OBS = RETURNS_STACK * 8 * 8, /* bytes of an observation, at most */
};

static const float RETURNS_GAMMA = 0.9f;

/* The fields of a replay. With DISCOUNTS each row has a discount of its own, and there is one environment, without
 * resets. */
enum { RETURNS_PLAIN, RETURNS_NO_TRUNCATED, RETURNS_DISCOUNTS };

typedef struct returns_setting {
    int32_t is_frames, envs;
    int32_t is_conv;             /* with frames: the network begins with a convolution */
    int32_t schema;              /* RETURNS_*; with frames and with lanes RETURNS_PLAIN */
    int32_t is_lanes, autoreset; /* is_lanes 1: of GPUR_LAYOUT_LANES, and how these reset: GPUR_AUTORESET_* */
    int64_t capacity;
    int32_t flush;
    uint64_t seed;
} returns_setting;

/* A step of a lane, and what is known of it. */
typedef struct returns_lane_row {
    float obs[RETURNS_NUMBERS], next_obs[RETURNS_NUMBERS], reward;
    int32_t action;
    uint8_t terminated, truncated;
    int32_t is_reset, is_first; /* 1: its action reset the environment; it is the first of its episode */
    int32_t is_complete;        /* 1: its next observation has come */
    int64_t final;              /* the number of its final observation; -1: none */
} returns_lane_row;

/* Of a row in the place of `previous`: no transition can be made of it. */
#define RETURNS_NO_TRANSITION INT64_MIN

typedef struct returns_fixture {
    returns_setting setting;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    uint64_t random;
    int32_t is_over[RETURNS_MAX_ENVS];
    returns_lane_row *lane_rows; /* (RETURNS_MAX_ROWS) by id: all that were added to lanes */
    int64_t lane_steps, lane_finals;
    void *lane_arrays[6]; /* device: of a step */
} returns_fixture;

/* Returns the first error. The caller always calls returns_fixture_close. */
gpur_status returns_fixture_open(returns_fixture *f, gpur_device *device, const returns_setting *setting);
void returns_fixture_close(returns_fixture *f);

/* Takes so many steps of all environments. */
gpur_status returns_fixture_step(returns_fixture *f, int64_t steps);

/* A small network, and a cache of `size` entries in blocks of `length`. */
gpur_dqn_config returns_fixture_config(const returns_fixture *f, int64_t size, int64_t length);

/* The visible rows as the steps of the reference, by id - *first; v, Q and greediness are those of the learner's
 * weights now. Returns their number, or -1 on an error. *margin gets the smallest difference by which an action was
 * greedy or was not. */
int64_t returns_fixture_steps(const returns_fixture *f, gpur_learner *learner, ref_step *steps, int64_t *first,
                              int64_t *previous, double *margin);

/* Waits, and reads the entries: (size) addresses and returns. The first id that addresses count from is in *first. */
gpur_status returns_fixture_entries(gpur_learner *learner, gpur_cache_entry *entries, int64_t *first);
