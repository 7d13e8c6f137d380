/* SPDX-License-Identifier: MIT */
/*
 * The same episodes in a packed replay, in a linked one that is given stacks, and in a linked one that is given frames:
 * any number of writers play into all three.
 */
#ifndef GPUR_SUPPORT_LINKED_KIT_H
#define GPUR_SUPPORT_LINKED_KIT_H

#include "support/history_kit.h"

enum { LINKED_REPLAYS = 3, LINKED_WRITERS = 3 };

typedef struct linked_setting {
    play_shape shape;
    int32_t writers, envs, autoreset, ends_in; /* of each writer; ends_in: 1 / probability */
    int32_t repeats;                           /* GPUR_PAD_REPEAT */
    int64_t capacity, update_size, max_batch, frame_slack;
    int32_t n_step, flush, staging_blocks, index_source;
    int32_t prioritized; /* 1: with these two */
    float alpha, priority_offset;
} linked_setting;

typedef struct linked_world {
    linked_setting setting;
    gpur_device *device;
    gpur_replay *replays[LINKED_REPLAYS]; /* packed, linked by stacks, linked by frames */
    gpur_replay_config config;            /* of the linked ones */
    gpur_field fields[PLAY_FIELDS];
    history_rows all;
    play plays[LINKED_WRITERS];
    uint64_t random;
    int64_t next_frame;
    int out_of_step; /* a draw was refused by one of them alone: their next draws are of other random numbers */
} linked_world;

/* 1 when all of it could be made. The device is the world's from here on. */
int linked_open(linked_world *w, gpur_device *device, const linked_setting *setting, uint64_t seed);
void linked_close(linked_world *w);

/* Ends the writers, and with them their open episodes. */
void linked_end_writers(linked_world *w);

/*
 * Every visible row of every replay is the history's, and the linked ones, of which both must show the same, show as
 * many as the packed one or fewer, but never fewer than `least` while there are as many. 0: right.
 */
int64_t linked_wrong(linked_world *w, int64_t least);

/* The rows of a batch drawn from each are the history's, and the batches equal, where their windows are. 0: right. */
int64_t linked_draws_differ(linked_world *w, int64_t count);

#endif
