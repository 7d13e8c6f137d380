/* SPDX-License-Identifier: MIT */
/*
 * Actors for tests of blocks. Each gives the same steps to a writer of one replay and to a packer, whose blocks go into
 * another replay. All that a row should hold follows from plain lists of what happened, or is in the first replay.
 */
#pragma once

#include "gpureplay.h"

enum { ACTOR_FIELDS = 10, ACTOR_FRAME = 12, ACTOR_ACTIONS = 5, ACTOR_VECTOR = 3, ACTOR_MAX_STACK = 4, ACTORS_MAX = 8 };

/* Fields, in the order of the schema. */
enum {
    ACTOR_OBS,
    ACTOR_ACTION,
    ACTOR_REWARD,
    ACTOR_NEXT_OBS,
    ACTOR_TERMINATED,
    ACTOR_TRUNCATED,
    ACTOR_DISCOUNT,
    ACTOR_PRIORITY,
    ACTOR_TAG, /* an extra: the number of the step among those of all actors */
    ACTOR_PREVIOUS
};

/* The older frames of an episode's first observation. */
enum { ACTOR_PAD_ZERO, ACTOR_PAD_REPEAT, ACTOR_PAD_OTHERS /* frames of their own, in stacks alone */ };

typedef struct actors_setting {
    int32_t layout, stack, last; /* last: the frames are the last axis */
    int32_t pad, gives_frames;
    int32_t n_step, rows, compression; /* rows of a block */
    int32_t actors;
    int32_t ends_in, resets_in; /* an episode ends after a step with probability 1 / ends_in, and is reset before one
                                   with probability 1 / resets_in */
    int32_t cut_at;             /* a step after which blocks are taken that are not full; -1: none */
    int64_t steps;              /* of all actors */
    int32_t vectors;            /* 1: actions are vectors, and a step has two Q values */
} actors_setting;

typedef struct actor_step {
    int64_t tag;
    float reward, q[ACTOR_ACTIONS], final_q[ACTOR_ACTIONS];
    int32_t action;
    uint8_t terminated, truncated, has_final_q;
    int is_last; /* the episode ended with it, or was reset after it */
} actor_step;

typedef struct actor {
    gpur_writer *stepping, *appending;
    gpur_packer *packer;
    actor_step *steps; /* (count) all that it took */
    int64_t count, blocks, rows;
    int64_t frames[ACTOR_MAX_STACK]; /* what the agent sees */
    int is_open;
} actor;

typedef struct actors_fixture {
    actors_setting setting;
    gpur_device *device;
    gpur_field fields[ACTOR_FIELDS];
    gpur_replay_config config;
    gpur_replay *stepped, *packed;
    gpur_block_format *format;
    actor actors[ACTORS_MAX];
    uint64_t random;
    int64_t next_frame, next_tag;
} actors_fixture;

/* The config that the fixture uses; its fields are `fields`. */
gpur_replay_config actors_config(const actors_setting *setting, gpur_field fields[ACTOR_FIELDS]);

/* The bytes of a stack of these frames; -1 is no frame. */
void actor_stack(unsigned char *to, int32_t stack, int32_t last, const int64_t *frames);

/* 1 when all of it could be made. The device is the fixture's from here on. */
int actors_open(actors_fixture *w, gpur_device *device, const actors_setting *setting, uint64_t seed);
void actors_close(actors_fixture *w);

/* All steps of the setting; then all episodes end and all blocks are taken. */
gpur_status actors_run(actors_fixture *w);

/* What the initial priorities are by definition, of `count` steps of one actor. */
void actor_priorities(const actors_setting *setting, float gamma, const actor_step *steps, int64_t count,
                      double *priorities);

/* Rows of the packed replay that differ from the stepped one's of the same tag or from the lists, or that are in one
 * only; -1 on a failing call. */
int64_t actors_wrong(actors_fixture *w);
