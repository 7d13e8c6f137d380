/* SPDX-License-Identifier: MIT */
/*
 * Environments for tests of writers and of both layouts. Their frames follow from tags; their steps go to up to three
 * replays and into the reference history at once; batches are compared with that history byte by byte.
 */
#pragma once

#include "gpureplay.h"
#include "reference/reference_history.h"
#include "support/replay_fixture.h"

enum {
    PLAYER_FIELDS = 9,
    PLAYER_FRAME = 20,
    PLAYER_ENVS = 8,
    LAYOUTS_MAX_BATCH = 32,
    LAYOUTS_REPLAYS = 3,
    LAYOUTS_WRITERS = 3
};

/* A stack of frames of PLAYER_FRAME bytes as the last or the first axis of an observation. */
typedef struct stack_shape {
    int32_t stack, last; /* last: the frames are the last axis */
} stack_shape;

/* obs, action, reward, next_obs, terminated, truncated, discount, previous, and "tag", an extra int64. */
void player_fields(gpur_field *fields, stack_shape shape);

/* The bytes of a stack of these tags. */
void player_stack(unsigned char *to, stack_shape shape, const int64_t *tags);

/* The environments of one writer in each replay; all those writers are given the same steps. */
typedef struct player {
    gpur_writer *writers[LAYOUTS_REPLAYS]; /* (writer_count) */
    int32_t gives_frames[LAYOUTS_REPLAYS]; /* 1: that writer is given single frames, not stacks */
    int32_t writer_count;
    history history;
    stack_shape shape;
    int32_t autoreset;
    int32_t ends_in; /* an episode ends after a step with probability 1 / ends_in */
    uint64_t *random;
    int64_t *next_frame; /* tags never repeat */
    int32_t is_over[PLAYER_ENVS];
} player;

/* Resets one environment, or all with -1. This and player_step call again where a writer answers GPUR_WOULD_BLOCK. */
gpur_status player_reset(player *p, int32_t env);

/* One step of all. Environments that have ended are reset before it as the mode wants. */
gpur_status player_step(player *p);

/* Values of a batch that differ from the history's row of the same id; -1 on a failing call. */
int64_t player_wrong(gpur_batch *batch, stack_shape shape, const history_rows *all);

/* Environments of writer `w` whose state or observation gpur_writer_get_episode reports otherwise than the history. */
int32_t player_wrong_states(const player *p, int32_t w);

typedef struct layouts_setting {
    stack_shape shape;
    int32_t writers, envs, autoreset, ends_in; /* of each writer; ends_in: 1 / probability */
    int32_t repeats;                           /* GPUR_PAD_REPEAT */
    int64_t capacity, block_rows, max_batch, extra_frames;
    int32_t n_step, flush, staging_blocks, index_source;
    int32_t prioritized; /* 1: with these three */
    float alpha, priority_offset;
    int32_t weight_norm;
    int32_t rows_only; /* 1: a replay with layout rows alone, with these two */
    int32_t feed, when_full;
    int32_t more_envs;    /* so many more of each further writer */
    float gamma;          /* 0: 0.97 */
    int32_t is_unclipped; /* 0: rewards are clipped to +-1.5 */
    uint64_t seed;        /* of the replays */
} layouts_setting;

typedef struct layouts_fixture {
    layouts_setting setting;
    gpur_device *device;
    gpur_replay *replays[LAYOUTS_REPLAYS]; /* layout rows; layout frames, given stacks; given frames */
    int32_t replay_count;
    gpur_replay_config config; /* of replay 0, and of the others except for the layout */
    gpur_field fields[PLAYER_FIELDS];
    history_rows all;
    player players[LAYOUTS_WRITERS];
    uint64_t random;
    int64_t next_frame;
    int out_of_step; /* some replays refused to be sampled: their next samples are of other random numbers */
    int64_t ids[LAYOUTS_MAX_BATCH]; /* last sampled from replay 0, (drawn) */
    float weights[LAYOUTS_MAX_BATCH];
    int64_t drawn;
} layouts_fixture;

/* 1 when all of it could be made. The device is the fixture's from here on. */
int layouts_fixture_open(layouts_fixture *w, gpur_device *device, const layouts_setting *setting, uint64_t seed);
void layouts_fixture_close(layouts_fixture *w);

/* Destroys the writers, which ends their open episodes. Returns how many of each replay were open. */
int32_t layouts_fixture_end_writers(layouts_fixture *w);

/* Saves every replay to a file, and goes on with new replays and writers that are loaded from it. */
gpur_status layouts_fixture_reload(layouts_fixture *w);

/* Every visible row of every replay is the history's. Both replays with layout frames show the same rows: as many as
 * the one with layout rows or fewer, but at least `least` if that shows as many. 0: right. */
int64_t layouts_fixture_wrong(layouts_fixture *w, int64_t least);

/* The rows of a batch sampled from each are the history's; ids and weights equal, where their windows are. 0: right. */
int64_t layouts_fixture_samples_differ(layouts_fixture *w, int64_t count);

/* One field of the rows of ids first ... first + count - 1: (count, ...) in `values`. */
gpur_status read_rows(gpur_replay *replay, const char *name, int64_t first, int64_t count, void *values, int64_t bytes);

int64_t rows_appended(gpur_replay *replay);
