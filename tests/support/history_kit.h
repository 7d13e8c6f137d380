/* SPDX-License-Identifier: MIT */
/*
 * Random worlds for writers: environments whose frames are known by tags, played into a replay and into the reference
 * history at once, and batches held against that history, byte by byte.
 */
#ifndef GPUR_SUPPORT_HISTORY_KIT_H
#define GPUR_SUPPORT_HISTORY_KIT_H

#include "gpureplay.h"
#include "reference/reference_history.h"

enum { PLAY_FIELDS = 9, PLAY_FRAME = 20, PLAY_ENVS = 8, PLAY_WRITERS = 3 };

/* A stack of frames of PLAY_FRAME bytes as the last or the first axis of an observation. */
typedef struct play_shape {
    int32_t stack, last; /* last: the frames are the last axis */
} play_shape;

/* obs, action, reward, next_obs, terminated, truncated, discount, previous, and "tag", an extra int64. */
void play_fields(gpur_field *fields, play_shape shape);

/* The bytes of a stack of these tags. */
void play_stack(unsigned char *to, play_shape shape, const int64_t *tags);

/* Writers of several replays that are told the same. The history is the caller's to set up (n_step, stack, repeats,
 * gamma, clip). */
typedef struct play {
    gpur_writer *writers[PLAY_WRITERS]; /* (writer_count) */
    int32_t gives_frames[PLAY_WRITERS]; /* 1: that writer takes single frames, not stacks */
    int32_t writer_count;
    history history;
    play_shape shape;
    int32_t autoreset;
    int32_t ends_in; /* an episode ends after a step with probability 1 / ends_in */
    uint64_t *random;
    int64_t *next_frame; /* tags never repeat */
    int32_t is_over[PLAY_ENVS];
} play;

/* Resets one environment, or all with -1. */
gpur_status play_reset(play *p, int32_t env);

/* One step of all. Environments that have ended are reset before it as the mode wants. */
gpur_status play_step(play *p);

/* Bytes and numbers of a batch that are not as the history's row of the same id says; -1 on a failing call. */
int64_t play_wrong(gpur_batch *batch, play_shape shape, const history_rows *all);

/* The same for every visible row; *first and *count get what the replay says is visible. */
int64_t play_wrong_everywhere(gpur_replay *replay, play_shape shape, const history_rows *all, int64_t *first,
                              int64_t *count);

#endif
