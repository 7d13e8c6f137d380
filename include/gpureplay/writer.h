/* SPDX-License-Identifier: MIT */
/*
 * Writers: how transitions get into a replay. A writer serves one thread, which steps any number of environments with
 * it, or appends finished transitions.
 */
#ifndef GPUREPLAY_WRITER_H
#define GPUREPLAY_WRITER_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One source of transitions. It is used by one thread at a time; any number of writers on any number of threads feed
 * one replay at the same time.
 *
 * Unless a comment says otherwise, arrays are in host memory, have the schema's types, and are read before the call
 * returns. Their contents are stored as they are: NaN in an observation or a reward is not looked for.
 *
 * Any call that reaches the device may also answer GPUR_DEVICE_ERROR; the replay can then only be destroyed.
 */
typedef struct gpur_writer gpur_writer;

/* Who begins the next episode of an environment whose episode has ended: the autoreset modes of Gymnasium 1.x. */
enum {
    GPUR_AUTORESET_DISABLED = 0,  /* the caller, with gpur_writer_reset before the environment's next step */
    GPUR_AUTORESET_NEXT_STEP = 1, /* the environment, in the step after the one that ended the episode. In that step
                                     next_obs is the first observation of the new episode, the action and reward are
                                     ignored, and no transition is made */
    GPUR_AUTORESET_SAME_STEP = 2, /* the environment, in the step that ends the episode. next_obs is then the first
                                     observation of the new episode, and final_obs the last one of the old episode */
};

/* What a writer is given as an observation. The second is for replays of GPUR_LINKED. */
enum {
    GPUR_INPUT_STACKS = 0, /* an observation as the schema describes it. A GPUR_LINKED replay takes it apart into its
                              frame_stack frames. In a reset, a frame of zeros counts as no frame, and copies of the
                              newest frame as that frame. In a step, the older frames must be those given before */
    GPUR_INPUT_FRAMES = 1, /* the newest frame alone: the schema's obs without its stack axis. Batches have whole
                              stacks. The stack to act on is kept by the caller: the last frame_stack frames of the
                              environment, padded at the beginning of an episode as the replay's stack_pad says. With
                              another padding the agent acts on observations that it never learns from */
};

/* Settings of gpur_writer_open. gpur_writer_config_init fills in the defaults. */
typedef struct gpur_writer_config {
    uint64_t size;     /* sizeof(gpur_writer_config), as the caller was compiled */
    int32_t num_envs;  /* environments that one step advances, 1 to 1,048,576; default 1 */
    int32_t autoreset; /* GPUR_AUTORESET_*; default DISABLED. The first episode of each environment begins with
                          gpur_writer_reset, whatever the mode */
    int32_t input;     /* GPUR_INPUT_*; default STACKS. Applies to obs, next_obs and final_obs */
    int32_t reserved;  /* 0 */
} gpur_writer_config;

/* Sets every member to its default. `size` is sizeof(gpur_writer_config). Any thread. GPUR_INVALID_ARGUMENT: NULL or a
 * bad size. */
GPUR_API gpur_status gpur_writer_config_init(gpur_writer_config *config, uint64_t size);

/*
 * Makes a writer. Any thread, at any time in the life of the replay, which must outlive the writer.
 *
 * A writer takes host memory that gpur_replay_plan does not count. With P(x) for the smallest power of two that is
 * larger than x, each environment takes 24 bytes, and P(n_step) times the sum of 4 bytes, the action, each field that a
 * step does not fill in itself and, with GPUR_PACKED, obs; each of these fields is rounded up to 16 bytes. GPUR_LINKED
 * adds 8 bytes and P(frame_stack + n_step - 1) times (frame_bytes + 24). The writer itself takes at most 3 KiB.
 *
 *   writer  gets the handle, or NULL if the call fails
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, or NULL. Under GPUR_WHEN_FULL_ERROR also: more environments than
 *                          one step could ever store at once; the message has how many rows that is. For a GPUR_LINKED
 *                          replay with frame_slack 0 also: more environments, together with those of its other writers,
 *                          than the frames reach back for; the message has the frame_slack that is needed
 *   GPUR_OUT_OF_MEMORY     no host memory for the last n_step steps of each environment
 */
GPUR_API gpur_status gpur_writer_open(gpur_replay *replay, const gpur_writer_config *config, gpur_writer **writer);

/* Like gpur_writer_open, with the default settings except for num_envs. */
GPUR_API gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer);

/*
 * Destroys a writer. Episodes that are still open end as if truncated after their last step: the transitions that were
 * waiting for their n-step return are added, and the episodes are counted in episodes_cut. Then it flushes. Must be
 * called before the replay is destroyed. NULL does nothing.
 */
GPUR_API void gpur_writer_destroy(gpur_writer *writer);

/*
 * Begins a new episode of environment `env`, or with env = -1 of all environments.
 *
 * An episode that is still open ends as if truncated after its last step; with n_step above 1, the transitions that
 * were waiting for their n-step return are added now. It is not counted in episodes_cut.
 *
 *   obs   the first observation, (...); with env = -1 one of each environment, (num_envs, ...)
 *
 *   GPUR_INVALID_ARGUMENT  env is not -1 to num_envs - 1, NULL, an obs of GPUR_BOOL with a byte that is neither 0 nor
 *                          1, or a schema that gpur_writer_step_with refuses
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: no room for those transitions. Nothing has changed; call again
 */
GPUR_API gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs);

/* The arguments of gpur_writer_step_with: one step of every environment. */
typedef struct gpur_step_input {
    uint64_t size;             /* sizeof(gpur_step_input), as the caller was compiled. Members not used must be NULL */
    const void *action;        /* (num_envs, ...) */
    const float *reward;       /* (num_envs) clipped by the replay's reward_clip */
    const void *next_obs;      /* (num_envs, ...) */
    const uint8_t *terminated; /* (num_envs) 0 or 1. 1: the episode has ended, and nothing is bootstrapped */
    const uint8_t *truncated;  /* (num_envs) 0 or 1. 1: the episode was cut off; the value of its last observation is
                                  still bootstrapped. NULL: no environment was truncated */
    const void *final_obs; /* (num_envs, ...) with GPUR_AUTORESET_SAME_STEP: the last observation of each episode that
                              ended in this step; not read for other environments. May be NULL when none ended.
                              Not read in the other modes */
    const void *const *extras; /* (field_count) pointers in the order of the schema, each to (num_envs, ...). Read only
                                  for the fields that a step does not fill in itself. NULL when there are none */
} gpur_step_input;

/*
 * Completes one step of every environment: from the observation given last, by `action`, to `next_obs`. Where an
 * episode ends, next_obs is its last observation (but see GPUR_AUTORESET_SAME_STEP).
 *
 * With the replay's n_step = n, a transition spans m steps. Its obs, action and extras are those of its first step. Its
 * reward is r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1), with each r clipped first. next_obs is the observation after
 * its last step, and terminated and truncated are those of its last step [multi-step return: Sutton & Barto 2018, eq.
 * 7.1; Horgan et al. 2018, section 3]. m is n, except at the end of an episode: then each step that has not begun a
 * transition yet begins a shorter one, which ends with the episode.
 *
 * These fields are filled in, too, if the schema has them:
 *
 *   discount  float32: gamma^m, or 0 where the last step terminated. The schema must have it when n_step is above 1
 *   previous  one int64: the id of the transition that this environment completed before, -1 for the first of an
 *             episode
 *
 * Ids count up in this order: the environments in the order of their index, and for one environment its oldest first
 * step first. Ids of other writers' transitions may come in between.
 *
 *   GPUR_INVALID_ARGUMENT  an environment without an open episode; terminated or truncated other than 0 or 1, or not 0
 *                          in the step that resets under GPUR_AUTORESET_NEXT_STEP; a byte other than 0 or 1 in another
 *                          GPUR_BOOL; NULL where an array is needed; a stack whose older frames are not those given
 *                          before (the message names environment and frame); a schema without obs, action, reward,
 *                          next_obs or terminated, or with another type for one of them. Nothing was taken
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: no room for all transitions of this step. None was taken; call
 *                          again with the same arguments
 */
GPUR_API gpur_status gpur_writer_step_with(gpur_writer *writer, const gpur_step_input *input);

/* Like gpur_writer_step_with, for a schema without extras, and for any mode but GPUR_AUTORESET_SAME_STEP. */
GPUR_API gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward,
                                      const void *next_obs, const uint8_t *terminated, const uint8_t *truncated);

/* The state of an environment between two calls. */
enum {
    GPUR_EPISODE_NONE = 0,  /* it must be reset before its next step */
    GPUR_EPISODE_OPEN = 1,  /* its next step continues the episode */
    GPUR_EPISODE_ENDED = 2, /* GPUR_AUTORESET_NEXT_STEP: its next step begins a new episode */
};

/* What gpur_writer_get_episode reports. */
typedef struct gpur_episode_info {
    uint64_t size;   /* sizeof(gpur_episode_info), as the caller was compiled: set it before the call */
    int64_t steps;   /* steps of the open episode; 0 if none is open */
    int32_t state;   /* GPUR_EPISODE_* */
    int32_t pending; /* steps that have not begun a transition yet, less than n_step. If the next step ends the episode,
                        it completes this many transitions besides its own */
} gpur_episode_info;

/*
 * Reports the state of one environment. After gpur_replay_load it tells where the episodes in the file were.
 *
 *   info  `size` is set by the caller; the other members are filled in
 *   obs   (...) one observation as this writer is given them, a stack or a frame. If the episode is open, it gets the
 *         observation given last; otherwise it is not written. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  env is not 0 to num_envs - 1, NULL, a bad size, or with `obs` a schema that
 *                          gpur_writer_step_with refuses
 */
GPUR_API gpur_status gpur_writer_get_episode(gpur_writer *writer, int32_t env, gpur_episode_info *info, void *obs);

/*
 * Notes which environments will only reset in their next step. It is for callers that append rows of environments with
 * GPUR_AUTORESET_NEXT_STEP and leave those steps out themselves. The library only saves the note with the writer and
 * loads it: gpur_writer_get_episode reports GPUR_EPISODE_ENDED for such an environment, otherwise GPUR_EPISODE_NONE.
 *
 *   ended   (num_envs) 0 or 1
 *
 *   GPUR_INVALID_ARGUMENT  an environment has an open episode since the writer was given steps; a value is neither 0
 *                          nor 1; or NULL. Nothing has changed
 */
GPUR_API gpur_status gpur_writer_set_ended(gpur_writer *writer, const uint8_t *ended);

/*
 * Appends finished transitions, given as packed rows: an array of C structs with the schema's fields in order has the
 * right layout, and gpur_replay_get_field tells the offsets. Ids count up in the order of the rows. Rewards are clipped
 * by the replay's reward_clip. In fields of GPUR_BOOL, and in terminated and truncated, bytes other than 0 are stored
 * as 1.
 *
 *   rows       (count, row_bytes), see gpur_replay_plan
 *   count      0 or more
 *   appended   gets how many rows were taken: `count`, unless the call fails. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  count below 0, NULL, or a replay of GPUR_LINKED, which is fed by steps alone
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: the first `appended` rows were taken; the others were not
 */
GPUR_API gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended);

/*
 * Appends finished transitions, given as one array a field. The arrays are either all in host memory or all in device
 * memory of the replay's device, which a kernel copies into the ring without a visit to the host. Order of ids, rewards
 * and flags: as gpur_writer_append.
 *
 * Host arrays go through the staging blocks. Device arrays (on the CPU: all arrays, if the replay has
 * GPUR_FEED_SCATTER) do not. Such a call first seals the partly filled staging block, so that ids follow the order of
 * appends, and then both are fed to the ring, also under GPUR_FLUSH_MANUAL. It needs no staging block and never answers
 * GPUR_WOULD_BLOCK.
 *
 *   fields     (field_count) pointers in the order of the schema, each to (count, ...) contiguous elements
 *   stream     CUDA, device arrays: the cudaStream_t that wrote them. The copy waits for it, and later work on it waits
 *              for the copy. NULL: the arrays are complete now, and have been read when the call returns. For host
 *              arrays, and on the CPU: NULL
 *   appended   as in gpur_writer_append
 *
 *   GPUR_INVALID_ARGUMENT  count below 0, NULL, arrays of which some are in host and some in device memory, a stream on
 *                          the CPU, or a replay of GPUR_LINKED
 *   GPUR_WOULD_BLOCK       host arrays: as in gpur_writer_append
 */
GPUR_API gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields,
                                               void *stream, int64_t *appended);

/*
 * Appends `count` transitions from host arrays without waiting, all of them or none. It is for a thread with a
 * deadline, or one that holds a lock that others need, as an interpreter's.
 *
 * It waits for no lock, for no staging block (whatever when_full says), and for no draw or train step. Where it would
 * overwrite transitions that another thread's draw or train step, which is being enqueued right now (on the CPU:
 * carried out), may read, it answers GPUR_WOULD_BLOCK. It takes the time of copying its rows and the blocks that they
 * fill. One wait remains: when a stream's queue is full (CUDA's, or the 256 operations of GPUR_EXECUTOR_THREAD),
 * enqueuing waits for the device. Under GPUR_FEED_SCATTER, too, the arrays go through the staging blocks.
 *
 *   fields  (field_count) pointers in the order of the schema, each to (count, ...) contiguous elements in host memory
 *   count   0 to (staging_blocks - 1) x update_size. A partly filled block may stay in use until the next flush, so
 *           only the other blocks are sure to have room
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, or NULL
 *   GPUR_WOULD_BLOCK       another thread is in the way, or there is no room now. Nothing was taken; call again later
 */
GPUR_API gpur_status gpur_writer_try_append_fields(gpur_writer *writer, int64_t count, const void *const *fields);

/*
 * Publishes what has been appended, with other writers' rows that are in the same staging block: the next draw, update
 * of priorities or request for their statistics sees it. Waits for threads that are writing rows into that block. Not
 * needed under GPUR_FLUSH_AUTO. GPUR_INVALID_ARGUMENT: NULL.
 */
GPUR_API gpur_status gpur_writer_flush(gpur_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
