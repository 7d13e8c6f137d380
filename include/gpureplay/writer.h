/* SPDX-License-Identifier: MIT */
/*
 * Writers: how transitions get into a replay. A writer belongs to one thread, which steps any number of environments
 * with it, or appends finished transitions. The terms are those of replay.h.
 */
#ifndef GPUREPLAY_WRITER_H
#define GPUREPLAY_WRITER_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One source of transitions. A writer is used by one thread at a time; any number of writers on any number of threads
 * may write to one replay at the same time.
 *
 * Except where a comment says otherwise, arrays are in host memory, have the types of the schema, and are read before
 * the call returns. Values are stored as given, and numbers that are NaN or infinite are refused (check_finite of
 * gpur_replay_config).
 *
 * Any call that uses the device can also return GPUR_DEVICE_ERROR; the replay can then only be destroyed.
 */
typedef struct gpur_writer gpur_writer;

/* How the next episode of an environment begins after the end of an episode: the autoreset modes of Gymnasium 1.x. */
enum {
    GPUR_AUTORESET_DISABLED = 0,  /* the caller calls gpur_writer_reset before the environment's next step */
    GPUR_AUTORESET_NEXT_STEP = 1, /* the environment resets itself in the step after the last step of the episode. In
                                     that step next_obs is the first observation of the new episode, the action and
                                     reward are ignored, and no transition is made */
    GPUR_AUTORESET_SAME_STEP = 2, /* the environment resets itself in the last step of the episode. In that step
                                     next_obs is the first observation of the new episode, and final_obs the last
                                     observation of the old one */
};

/* What an observation given to a writer is. */
enum {
    GPUR_OBSERVATIONS_STACKS = 0, /* a whole observation, as in the schema. A replay of GPUR_LAYOUT_FRAMES takes it
                                     apart into its frame_stack frames. In a reset, an older frame that is all zeros
                                     counts as no frame, and one that is equal to the newest frame counts as that frame.
                                     In a step, all frames except the newest must be equal to the last frames of the
                                     observation before */
    GPUR_OBSERVATIONS_FRAMES = 1, /* only the newest frame: the shape of obs without its stack axis. For replays of
                                     GPUR_LAYOUT_FRAMES only. Batches contain whole stacks. The caller keeps the stack
                                     that the agent acts on: the last frame_stack frames of the environment, padded at
                                     the beginning of an episode in the same way as the replay's stack_pad. Otherwise
                                     the agent acts on observations that it is never trained on */
};

/* Settings of gpur_writer_open. gpur_writer_config_init sets the defaults. */
typedef struct gpur_writer_config {
    uint64_t size;           /* sizeof(gpur_writer_config), as the caller was compiled */
    int32_t num_envs;        /* environments that one step advances, 1 to 1,048,576; default 1 */
    int32_t autoreset;       /* GPUR_AUTORESET_*; default DISABLED. In every mode the first episode of each environment
                             begins with gpur_writer_reset */
    int32_t observations;    /* GPUR_OBSERVATIONS_* of obs, next_obs and final_obs; default STACKS */
    int32_t link_appends;    /* 1: the transitions that gpur_writer_append, gpur_writer_append_fields and
                             gpur_writer_append_block (block.h) take are successive steps of one environment, beside
                             the num_envs that steps advance, and the writer fills in their field `previous`, as
                             gpur_writer_step_ex describes. An episode ends with a transition whose terminated or
                             truncated is not 0, and with gpur_writer_end_appended_episode; in a block where that says
                             so (gpur_block_input.fields). So transitions of several steps must come in blocks: of the
                             last n of an episode all are terminated or truncated, and each would end an episode. The
                             values of `previous` that the other two functions get are not read, and in arrays of fields
                             it may be NULL. With n_step above 1 those two functions refuse transitions. Arrays in the
                             memory of a GPU are refused. After gpur_replay_load the next transition has -1. Default 0:
                             rows are stored as given */
    int32_t sequence_length; /* 1 or more: of the transitions of this writer only those that end a sequence can be drawn
                                by priority. Sequences begin with every sequence_every-th row of an episode, from its
                                first on, and have so many rows; the last ones end with the episode, so that in all of
                                it none is left out if sequence_every <= sequence_length [overlapping sequences that
                                never cross episodes: Kapturowski et al. 2019, section 2.3]. The writer fills in
                                `priority`: 0, or where a sequence ends NaN, which is none (priority.h). It is then no
                                extra, and in arrays of fields may be NULL. Sample with across_episodes = 0 and
                                min_length = 1 (sequences.h). Needs prioritized, priority_offset 0 and fields `priority`
                                and `previous`. Appended transitions need link_appends; blocks, which bring priorities
                                of their own, are refused. The last row before a gpur_writer_reset amid an episode ends
                                a sequence with n_step above 1 alone. Default 0: all can be drawn */
    int32_t sequence_every;  /* rows from the beginning of one sequence to that of the next; 1 or more, and more than an
                                episode has: sequences begin where episodes do. 0, the default, without
                                sequence_length */
} gpur_writer_config;

/* Sets every member to its default. `size` is sizeof(gpur_writer_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_writer_config_init(gpur_writer_config *config, uint64_t size);

/*
 * Creates a writer. The replay must outlive it. Any thread, also while others use the replay.
 *
 * A writer takes host memory, which gpur_replay_plan does not include: at most 3 KiB for itself, and for each
 * environment
 *
 *   - 24 bytes
 *   - S times 4 bytes, and S times the action, the extras (fields that a step does not fill in itself) and, with
 *     GPUR_LAYOUT_ROWS, obs; each of these fields is rounded up to 16 bytes. S is the smallest power of two above
 *     n_step
 *   - with GPUR_LAYOUT_FRAMES, 8 bytes, and F times (frame_bytes + 24) bytes. F is the smallest power of two above
 *     frame_stack + n_step - 1
 *
 *   config  settings; read before the call returns
 *   writer  receives the handle, or NULL if the call fails; destroy it with gpur_writer_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, GPUR_OBSERVATIONS_FRAMES with GPUR_LAYOUT_ROWS, link_appends
 *                          without a field `previous` of one int64, or NULL. Under
 *                          GPUR_WHEN_FULL_ERROR also: num_envs x n_step rows, which one step may need, are more than
 *                          staging_blocks - 1 blocks are sure to hold; the message has the numbers. (A block holds
 *                          block_rows rows. With GPUR_LAYOUT_FRAMES it is only sure to hold as many as it has room for
 *                          F frames of each; block.h has F and the frames of a block.) With
 *                          GPUR_LAYOUT_FRAMES and extra_frames 0 also: frame_stack + 2 n_step frames for each
 *                          environment of all writers are more than the frame_reach of gpur_replay_plan; the message
 *                          has the extra_frames needed
 *   GPUR_OUT_OF_MEMORY     no host memory for the environments
 */
GPUR_API gpur_status gpur_writer_open(gpur_replay *replay, const gpur_writer_config *config, gpur_writer **writer);

/* Does what gpur_writer_open does, with the default settings except for num_envs. Any thread. */
GPUR_API gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer);

/*
 * Destroys a writer, and must be called before the replay is destroyed. Open episodes end as if truncated after their
 * last step: their steps that are waiting for an n-step return become transitions, and truncated_on_close of
 * gpur_replay_stats counts the episodes. Then the writer flushes. For this it waits for staging blocks even under
 * GPUR_WHEN_FULL_ERROR. If the device fails, a later call of the replay reports it. NULL does nothing.
 */
GPUR_API void gpur_writer_destroy(gpur_writer *writer);

/*
 * Begins a new episode of one environment or of all.
 *
 * An episode that is still open ends as if truncated after its last step: its steps that are waiting for an n-step
 * return become transitions. It is not counted in truncated_on_close.
 *
 *   env   0 to num_envs - 1, or -1 for all environments
 *   obs   the first observation, (...); with env = -1 that of each environment, (num_envs, ...)
 *
 *   GPUR_INVALID_ARGUMENT  env is not -1 to num_envs - 1, NULL, an obs of GPUR_BOOL with a byte that is neither 0 nor
 *                          1, or a schema that gpur_writer_step_ex refuses
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: no room for those transitions. Nothing has changed; call again
 */
GPUR_API gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs);

/* The arguments of gpur_writer_step_ex: one step of every environment. */
typedef struct gpur_step_input {
    uint64_t size;             /* sizeof(gpur_step_input), as the caller was compiled. Set unused members to NULL */
    const void *action;        /* (num_envs, ...) */
    const float *reward;       /* (num_envs) clipped by the replay's reward_clip */
    const void *next_obs;      /* (num_envs, ...) */
    const uint8_t *terminated; /* (num_envs) 0 or 1. 1: the episode has ended; nothing is bootstrapped */
    const uint8_t *truncated;  /* (num_envs) 0 or 1. 1: the episode was cut off; the value of its last observation is
                                  bootstrapped. NULL: no environment was truncated */
    const void *final_obs; /* (num_envs, ...) with GPUR_AUTORESET_SAME_STEP: the last observation of each episode that
                              ended in this step; not read for other environments. May be NULL if none ended. Not read
                              in the other modes */
    const void *const *extras; /* (field_count) pointers in the order of the schema, each to (num_envs, ...). Read only
                                  for the fields that a step does not fill in itself. NULL if there are none */
} gpur_step_input;

/*
 * Records one step of every environment: from the observation given last, by `action`, to `next_obs`. At the end of an
 * episode, next_obs is its last observation (with GPUR_AUTORESET_SAME_STEP, final_obs is).
 *
 * With the replay's n_step = n, a transition spans m steps. Its obs, action and extras are those of its first step. Its
 * reward is r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1), with each r clipped first. Its next_obs is the observation
 * after its last step, and its terminated and truncated are those of its last step [n-step return: Sutton & Barto 2018,
 * eq. 7.1; Horgan et al. 2018, section 3]. So is the extra next_action_mask, the actions that this observation allows
 * (see gpur_dqn_create). m is n, except at the end of an episode: there every step that still waits for later ones
 * starts a shorter transition, which ends with the episode.
 *
 * These fields are filled in, too, if the schema has them:
 *
 *   discount  one float32: gamma^m, or 0 if the last step terminated. Required if n_step is above 1
 *   previous  one int64, which links the transitions of an environment: the id p >= 0 of the transition that this
 *             environment completed before in the same episode. The first transition of an episode has -1 if it is the
 *             environment's first, else -2 - p, where p is the id of the last transition of the episode before. So
 *             below 0 is always the first of an episode. (In files of earlier versions all of these have -1.)
 *
 * Ids are given to the environments in the order of their index, and for one environment in the order of the
 * transitions' first steps. Ids of other writers' transitions may lie between them.
 *
 *   GPUR_INVALID_ARGUMENT  an environment without an open episode; terminated or truncated other than 0 or 1, or not 0
 *                          in the step that resets under GPUR_AUTORESET_NEXT_STEP; a byte other than 0 or 1 in another
 *                          GPUR_BOOL; NULL where an array is needed; a stack whose older frames are not those given
 *                          before (the message names environment and frame); a schema without obs, action, reward,
 *                          next_obs or terminated, or with another type for one of them. Nothing was taken
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: no room for all transitions of this step. None was taken; call
 *                          again with the same arguments
 *
 *     const void *const extras[6] = {[5] = &log_prob}; // the sixth field of the schema is the program's own
 *     const gpur_step_input step = {.size = sizeof step, .action = &action, .reward = &reward, .next_obs = next_obs,
 *                                   .terminated = &terminated, .truncated = &truncated, .extras = extras};
 *     gpur_writer_step_ex(writer, &step);
 */
GPUR_API gpur_status gpur_writer_step_ex(gpur_writer *writer, const gpur_step_input *input);

/* Does what gpur_writer_step_ex does, for a schema without extras, and not for GPUR_AUTORESET_SAME_STEP. */
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
    int32_t pending; /* steps whose transitions are not complete yet, less than n_step. If the next step ends the
                        episode, it completes this many transitions and one more */
} gpur_episode_info;

/*
 * Reports the state of one environment. After gpur_replay_load, this is the state in the file, from which the caller
 * can continue the episode.
 *
 *   env   0 to num_envs - 1
 *   info  `size` is set by the caller; the other members are filled in
 *   obs   (...) host memory for one observation in this writer's form, a stack or a frame. If an episode is open,
 *         receives the observation given last; otherwise it is not written. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  env is not 0 to num_envs - 1, NULL, `info->size` was not set, or with `obs` a
 *                          schema that gpur_writer_step_ex refuses
 *
 *     gpur_episode_info episode = {.size = sizeof episode};
 *     gpur_replay_load(replay, "replay.safetensors", NULL);
 *     gpur_writer_get_episode(writer, 0, &episode, obs);
 *     if (episode.state == GPUR_EPISODE_OPEN)
 *         printf("environment 0 goes on after %" PRId64 " steps, from the observation in obs\n", episode.steps);
 */
GPUR_API gpur_status gpur_writer_get_episode(gpur_writer *writer, int32_t env, gpur_episode_info *info, void *obs);

/*
 * Stores which environments will reset in their next step. It is for callers that append transitions of environments
 * with GPUR_AUTORESET_NEXT_STEP themselves, without those steps. The library only saves and loads this state with the
 * writer: gpur_writer_get_episode then reports GPUR_EPISODE_ENDED for such an environment, and GPUR_EPISODE_NONE for
 * the others.
 *
 *   ended   (num_envs) 0 or 1
 *
 *   GPUR_INVALID_ARGUMENT  an environment has an open episode from gpur_writer_reset or a step; a value is neither 0
 *                          nor 1; or NULL. Nothing has changed
 *
 *     const uint8_t ended[2] = {0, 1}; // environment 1 resets in its next step
 *     gpur_writer_set_ended(writer, ended);
 *     gpur_replay_save(replay, "replay.safetensors", NULL);
 */
GPUR_API gpur_status gpur_writer_set_ended(gpur_writer *writer, const uint8_t *ended);

/*
 * Appends finished transitions, given as packed rows: each like a C struct of the schema's fields in order;
 * gpur_replay_get_field reports the offsets. Ids count up in the order of the rows. Rewards are clipped by the replay's
 * reward_clip. In fields of GPUR_BOOL, and in terminated and truncated, bytes other than 0 are stored as 1.
 *
 *   count      0 or more
 *   rows       (count, row_bytes) in host memory, see gpur_replay_plan
 *   appended   receives the number of rows taken: `count`, unless the call fails. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  count below 0, NULL, or a replay of GPUR_LAYOUT_FRAMES, which takes steps and
 *                          blocks (block.h). A row with `terminated` other than 0 and a `discount` other than 0, since
 *                          learners would bootstrap with it. In a prioritized replay, a `priority` that is negative or
 *                          infinite; NaN is none (priority.h). No row is taken then
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR: the first `appended` rows were taken; the others were not
 */
GPUR_API gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended);

/*
 * Appends finished transitions, given as one array per field. Ids, rewards and flags are treated as in
 * gpur_writer_append. The arrays are either all in host memory or all in memory of the replay's device.
 *
 * Host arrays go through the staging blocks. Device arrays do not: a kernel copies them into the ring. (On the CPU, all
 * arrays count as device arrays if the replay has GPUR_UPLOAD_SCATTER and the writer does not link what it appends, and
 * as host arrays otherwise.) A call with
 * device arrays first uploads the open staging block, so that ids follow the order of appends, and then its arrays,
 * also under GPUR_FLUSH_MANUAL. It needs no staging block, and never returns GPUR_WOULD_BLOCK.
 *
 *   count      0 or more
 *   fields     (field_count) pointers in the order of the schema, each to (count, ...) contiguous elements
 *   stream     CUDA, device arrays: the cudaStream_t that wrote them. The copy waits for the work that is on it now,
 *              and later work on it waits for the copy. NULL: the arrays are complete now, and have been read when the
 *              call returns. For host arrays, and on the CPU: NULL
 *   appended   as in gpur_writer_append
 *
 *   GPUR_INVALID_ARGUMENT  count below 0, NULL, some arrays in host and some in device memory, memory of another GPU, a
 *                          stream on the CPU, a stream under capture, or a replay of GPUR_LAYOUT_FRAMES. A row that
 *                          gpur_writer_append refuses; but rows in the memory of a GPU cannot be looked at without
 *                          waiting, and are taken as they are
 *   GPUR_WOULD_BLOCK       host arrays: as in gpur_writer_append
 */
GPUR_API gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields,
                                               void *stream, int64_t *appended);

/*
 * Appends `count` transitions from host arrays without waiting, all of them or none. It is for a thread with a
 * deadline, or one that holds a lock that other threads need, such as an interpreter's.
 *
 * The call does not wait for a lock, for a staging block (whatever when_full is), or for a launch. It returns
 * GPUR_WOULD_BLOCK where gpur_writer_append_fields would wait. That includes the case that it would overwrite
 * transitions which a launch may read that another thread is enqueuing at this moment (on the CPU: carrying out). It
 * takes the time of copying its rows, and of uploading the blocks that they fill. One wait remains: if a stream's queue
 * is full (CUDA's, or the 256 operations of GPUR_EXECUTOR_THREAD), enqueuing waits for the device. Even under
 * GPUR_UPLOAD_SCATTER the arrays go through the staging blocks.
 *
 *   count   0 to (staging_blocks - 1) x block_rows: the open block may stay partly filled until the next flush, so
 *           only the other blocks are sure to have room
 *   fields  (field_count) pointers in the order of the schema, each to (count, ...) contiguous elements in host memory
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, NULL, or a replay of GPUR_LAYOUT_FRAMES
 *   GPUR_WOULD_BLOCK       another thread is in the way, or there is no room now. Nothing was taken; call again later
 *
 *     const void *const fields[5] = {obs, &action, &reward, next_obs, &terminated};
 *     if (gpur_writer_try_append_fields(writer, 1, fields) == GPUR_WOULD_BLOCK)
 *         puts("nothing was taken; try again after other work");
 */
GPUR_API gpur_status gpur_writer_try_append_fields(gpur_writer *writer, int64_t count, const void *const *fields);

/*
 * With link_appends: the transition appended last was the last one of its episode, though neither terminated nor
 * truncated says so, because the caller has reset the environment since. The next transition is the first of an
 * episode. Before the first transition, and after the end of an episode, nothing changes.
 *
 *   GPUR_INVALID_ARGUMENT  a writer without link_appends, or NULL
 *
 *     gpur_writer_append(writer, 1, row, NULL); // neither terminated nor truncated, but the environment is reset now
 *     gpur_writer_end_appended_episode(writer);
 *     gpur_writer_append(writer, 1, next_row, NULL); // the first of an episode
 */
GPUR_API gpur_status gpur_writer_end_appended_episode(gpur_writer *writer);

/*
 * Flushes the open staging block, including rows from other writers, so that the next launch sees them, as do the next
 * update of priorities and the next request for their statistics. Waits until every thread has finished writing into
 * the block. Under GPUR_FLUSH_AUTO the library does this before each launch. GPUR_INVALID_ARGUMENT: NULL.
 */
GPUR_API gpur_status gpur_writer_flush(gpur_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
