/* SPDX-License-Identifier: MIT */
/*
 * The last frames of each environment, of which a linked writer's rows are stacks: as many as a row's two stacks can
 * reach over. Frames are counted within an episode; the first is number stack - 1, and those before it are what its
 * stack is padded with: no frame, or one of another number. With each frame is noted under which id it is stored, so
 * that rows link to it instead of storing it again.
 */
#ifndef GPUR_REPLAY_WRITER_FRAME_HISTORY_H
#define GPUR_REPLAY_WRITER_FRAME_HISTORY_H

#include "replay/storage/ingest.h"

enum { GPUR_FRAME_NONE = -1 };

typedef struct gpur_frame_place {
    int64_t same;  /* the number of the frame that is here: its own, a later one's (padding), or GPUR_FRAME_NONE */
    int64_t id;    /* stored under, or -1 */
    uint32_t link; /* of that id */
} gpur_frame_place;

typedef struct gpur_history {
    gpur_device *device; /* not held */
    const gpur_linking *linking;
    int32_t num_envs, input;  /* GPUR_INPUT_* */
    int64_t room;             /* frames kept of an environment: a power of two, enough for a row's two stacks */
    int64_t input_bytes;      /* of one observation as it is given */
    int64_t *newest;          /* (num_envs) numbers */
    gpur_frame_place *places; /* (num_envs, room) of frame f in place f % room */
    unsigned char *frames;    /* (num_envs, room, frame_bytes) */
    size_t bytes;             /* allocated behind `newest`, and all of it */
} gpur_history;

/* What would be kept, in a zeroed one, without memory for it. */
void gpur_history_plan(gpur_history *history, const gpur_storage *storage, int32_t num_envs, int32_t input,
                       int32_t n_step);

/* Does nothing for a packed replay. */
gpur_status gpur_history_build(gpur_history *history, gpur_device *device, const gpur_storage *storage,
                               int32_t num_envs, int32_t input, int32_t n_step);
void gpur_history_destroy(gpur_history *history); /* tolerates half-built */

/* None of its frames is stored any more. */
void gpur_history_forget(gpur_history *history);

/* An episode begins with this observation. */
void gpur_history_begin(gpur_history *history, int64_t env, const unsigned char *obs);

/* The observation that the environment stands at, as it was given. */
void gpur_history_get(const gpur_history *history, int64_t env, unsigned char *obs);

/* The next observation: its newest frame is taken. */
void gpur_history_add(gpur_history *history, int64_t env, const unsigned char *obs);

/* Refuses a stack whose older frames are not the environment's newest; `what` names the array. */
gpur_status gpur_history_check(const gpur_history *history, int64_t env, const unsigned char *obs, const char *what);

/*
 * Writes the links of a row that reaches over the last `steps` steps, storing with its claim what is not stored yet, or
 * so long ago that it would hold the ring up.
 */
void gpur_history_link(gpur_history *history, gpur_intake *intake, const gpur_claim *claim, int64_t env, int64_t steps,
                       uint32_t *links);

#endif
