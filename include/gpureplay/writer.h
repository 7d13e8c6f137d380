/* SPDX-License-Identifier: MIT */
/* A writer: one source of experience, which serves any number of environments. */
#ifndef GPUREPLAY_WRITER_H
#define GPUREPLAY_WRITER_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Used by one thread at a time; any number of writers on any number of threads feed one replay at once. Any call may
 * also answer GPUR_DEVICE_ERROR; the replay can then only be destroyed. But for device arrays nothing here knows of a
 * CUDA stream: what the caller gives is host memory, read before the call returns.
 */
typedef struct gpur_writer gpur_writer;

/* Who begins the next episode of an environment that has ended: the modes of Gymnasium 1.x. */
enum {
    GPUR_AUTORESET_DISABLED = 0,  /* the caller, by gpur_writer_reset before the environment's next step */
    GPUR_AUTORESET_NEXT_STEP = 1, /* the environment, in its next step: next_obs is then the new episode's first
                                     observation, the action is ignored, and no transition is made */
    GPUR_AUTORESET_SAME_STEP = 2, /* the environment, in the step that ends: next_obs is already the new episode's first
                                     observation, and final_obs has the old one's last */
};

/* What the observations are that a writer is given. */
enum {
    GPUR_INPUT_STACKS = 0, /* as the schema says. With GPUR_LINKED they are taken apart by frame_stack: at a reset,
                              zeros are no frame, and copies of the newest are that frame; at a step, the older frames
                              must be those of the environment's history */
    GPUR_INPUT_FRAMES = 1, /* the newest frame alone: the schema's obs without its stack axis. GPUR_LINKED only. Batches
                              have stacks; the one to act on is the caller's to keep: an environment's last frame_stack
                              frames, padded before an episode's first as the replay's stack_pad says, or the agent
                              acts on observations that it never learns from */
};

/* Settings of gpur_writer_open; gpur_writer_config_init fills in the defaults. */
typedef struct gpur_writer_config {
    uint64_t size;     /* sizeof(gpur_writer_config), as the caller was compiled */
    int32_t num_envs;  /* environments, 1 to 1,048,576; default 1 */
    int32_t autoreset; /* GPUR_AUTORESET_*; default DISABLED. The first episodes are begun by gpur_writer_reset */
    int32_t input;     /* GPUR_INPUT_*; default STACKS. Of obs, next_obs and final_obs */
    int32_t reserved;  /* 0 */
} gpur_writer_config;

/* Sets every member to its default; `size` is sizeof(gpur_writer_config). Any thread. GPUR_INVALID_ARGUMENT: NULL or a
 * bad size. */
GPUR_API gpur_status gpur_writer_config_init(gpur_writer_config *config, uint64_t size);

/*
 * Makes a writer. Any thread, at any time in the life of the replay.
 *
 * It takes host memory, which no plan counts, with P(x) for the smallest power of two above x: for each environment 24
 * bytes, and P(n_step) times the sum of 4 bytes, the action, each field that a step does not fill in itself and, with
 * GPUR_PACKED, obs, each of these fields rounded up to 16 bytes; with GPUR_LINKED 8 bytes more, and P(frame_stack +
 * n_step - 1) times frame_bytes + 24. Besides at most 2 KiB.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, NULL, or under GPUR_WHEN_FULL_ERROR more environments than the
 *                          staging blocks can take all rows of at once (the message has how many rows that is); or more
 *                          environments, with those of the replay's other writers, than a linked replay of the default
 *                          frame_slack reaches back for (the message has the frame_slack that is wanted)
 *   GPUR_OUT_OF_MEMORY     no host memory for the last n_step steps of each environment
 */
GPUR_API gpur_status gpur_writer_open(gpur_replay *replay, const gpur_writer_config *config, gpur_writer **writer);

/* Like gpur_writer_open, with default settings but for num_envs. */
GPUR_API gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer);

/* Ends the episodes still open, each as if truncated where it is, counts them as cut, and flushes. Before the replay
 * goes. Takes NULL. */
GPUR_API void gpur_writer_destroy(gpur_writer *writer);

/*
 * Begins an episode of environment `env`, or of all of them with env = -1.
 *
 * An episode that is open ends as if truncated where it is: with n_step above 1, its last steps' shorter transitions
 * are added now. It is not counted as cut.
 *
 *   obs   (...) of one observation, or (num_envs, ...) with -1; the schema's dtype; host memory, copied
 *
 *   GPUR_INVALID_ARGUMENT  env is not -1 to num_envs - 1, NULL, an obs of GPUR_BOOL with a byte that is neither 0 nor
 *                          1, or a schema that gpur_writer_step_with cannot feed
 *   GPUR_WOULD_BLOCK       no room for those transitions, under GPUR_WHEN_FULL_ERROR: none was taken, call again
 */
GPUR_API gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs);

/* One step of every environment. Host memory, the schema's dtypes, num_envs values an array. */
typedef struct gpur_step_input {
    uint64_t size;             /* sizeof(gpur_step_input), as the caller was compiled; zero the rest if unused */
    const void *action;        /* (num_envs, ...) */
    const float *reward;       /* (num_envs), clipped if the replay says so */
    const void *next_obs;      /* (num_envs, ...) */
    const uint8_t *terminated; /* (num_envs) 0 or 1: the task ended; nothing is bootstrapped */
    const uint8_t *truncated;  /* (num_envs) 0 or 1: cut off; its last observation is bootstrapped from. NULL: none */
    const void *final_obs;     /* GPUR_AUTORESET_SAME_STEP: (num_envs, ...) the last observation of each episode that
                                  ended, anything elsewhere; NULL when none ended. Else not read */
    const void *const *extras; /* (field_count) pointers in the schema's order, each to (num_envs, ...), read only for
                                  fields that a step does not fill in itself; NULL when there are none */
} gpur_step_input;

/*
 * Completes one step of every environment: from the observation last given, by `action`, to `next_obs`, which is the
 * episode's last observation where it ended (but see GPUR_AUTORESET_SAME_STEP).
 *
 * With the replay's n_step = n, a transition begins n - 1 steps before the one that completes it: obs, action and
 * extras are of its first step, reward is r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1), each r clipped first, next_obs
 * is the observation after its last step, and terminated and truncated are of its last step [multi-step return: Sutton
 * & Barto 2018, eq. 7.1; Horgan et al. 2018, section 3]. m is n, and less for the last steps of an episode, each of
 * which begins a transition that ends with the episode. These fields are filled in besides, where the schema has them:
 *
 *   discount  float32: gamma^m, or 0 where the last step terminated. Wanted when n_step is above 1
 *   previous  one int64: id of the transition that this environment completed before, -1 if none in this episode
 *
 *   GPUR_INVALID_ARGUMENT  an environment was not reset, terminated and truncated are not 0 or 1 (both 0 in the step
 *                          by which GPUR_AUTORESET_NEXT_STEP resets), another GPUR_BOOL has a byte that is neither,
 *                          NULL where an array is wanted, a stack whose older frames are not those given before (the
 *                          message names environment and frame), or a schema without obs, action, reward, next_obs and
 *                          terminated, or with another type for one
 *   GPUR_WOULD_BLOCK       no room for all transitions, under GPUR_WHEN_FULL_ERROR: none was taken, call again
 */
GPUR_API gpur_status gpur_writer_step_with(gpur_writer *writer, const gpur_step_input *input);

/* Like gpur_writer_step_with, for a schema without extras and an autoreset other than GPUR_AUTORESET_SAME_STEP. */
GPUR_API gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward,
                                      const void *next_obs, const uint8_t *terminated, const uint8_t *truncated);

/* Where an environment stands between calls. */
enum {
    GPUR_EPISODE_NONE = 0,  /* it must be reset before its next step */
    GPUR_EPISODE_OPEN = 1,  /* its next step goes on from the observation last given */
    GPUR_EPISODE_ENDED = 2, /* its next step only resets it: GPUR_AUTORESET_NEXT_STEP */
};

/* What gpur_writer_get_episode tells. */
typedef struct gpur_episode_info {
    uint64_t size;   /* sizeof(gpur_episode_info), as the caller was compiled */
    int64_t steps;   /* of the episode that is open, and else 0 */
    int32_t state;   /* GPUR_EPISODE_* */
    int32_t pending; /* steps that begin no transition yet, less than n_step: the step that ends the episode completes
                        so many transitions beside its own */
} gpur_episode_info;

/*
 * Where an environment stands: for who goes on after gpur_replay_load, which takes the writer's episodes from the file.
 *
 *   info  its `size` set by the caller; the rest is filled in
 *   obs   (...) of one observation, as this writer is given them, stack or frame; the schema's dtype; host memory. Gets
 *         the observation last given, bit for bit, where the episode is open; else it stays as it is. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  env is not 0 to num_envs - 1, NULL, a bad size, or with `obs` a schema that
 *                          gpur_writer_step_with cannot feed
 */
GPUR_API gpur_status gpur_writer_get_episode(gpur_writer *writer, int32_t env, gpur_episode_info *info, void *obs);

/*
 * Notes which environments only reset in their next step, for a caller that appends rows of environments with
 * GPUR_AUTORESET_NEXT_STEP and leaves such steps out itself. The library does nothing with it but to save it with the
 * writer and to load it: gpur_writer_get_episode then tells GPUR_EPISODE_ENDED, and else GPUR_EPISODE_NONE.
 *
 *   ended   (num_envs) 0 or 1
 *
 *   GPUR_INVALID_ARGUMENT  an environment has an open episode, for the writer was given steps; a value is neither 0 nor
 *                          1; or NULL. Nothing has changed
 */
GPUR_API gpur_status gpur_writer_set_ended(gpur_writer *writer, const uint8_t *ended);

/*
 * Adds finished rows, packed as gpur_replay_get_field tells (an array of matching C structs will do). Rewards are
 * clipped if the replay says so. In a field of GPUR_BOOL, and in terminated and truncated, every byte other than 0
 * becomes 1.
 *
 *   rows       (count, row_bytes) host memory, free to reuse when the call returns
 *   appended   how many were taken, which is `count` unless the call fails; may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  count < 0, NULL, or a replay of GPUR_LINKED, which steps alone can feed
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR; `appended` rows were taken, the rest is still the caller's
 */
GPUR_API gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended);

/*
 * Adds finished rows given field by field, in the schema's order, all in host memory or all in memory of the replay's
 * device. Device arrays do not visit the host: a scatter-update kernel writes them into the ring. Rewards are clipped
 * if the replay says so, and flags become 0 or 1 as in gpur_writer_append, wherever they lie.
 *
 * Host arrays are staged as rows are. Device arrays (on the CPU: any, where the replay has GPUR_FEED_SCATTER) are
 * blocks of their own: the call seals what is staged, so that ids follow the order of appends, and both go to the ring
 * at once, also under GPUR_FLUSH_MANUAL, and are published as whole blocks are. They need no staging block, so they
 * never answer GPUR_WOULD_BLOCK.
 *
 *   fields     (field_count) pointers, each to (count, ...) contiguous elements
 *   stream     CUDA, device arrays: the cudaStream_t that made them; it is ordered before the reading, and after it
 *              for whatever the caller enqueues next. NULL: the arrays are ready now, and have been read on return;
 *              other threads go on while this one waits for that
 *   appended   as in gpur_writer_append
 *
 *   GPUR_INVALID_ARGUMENT  count < 0, NULL, arrays of which some lie in host and some in device memory, a stream on
 *                          the CPU, or a replay of GPUR_LINKED
 *   GPUR_WOULD_BLOCK       host arrays: as in gpur_writer_append
 */
GPUR_API gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields,
                                               void *stream, int64_t *appended);

/*
 * The same for `count` transitions in host memory, all or none, at once or not at all: for a thread with a deadline, or
 * one that holds what others want, as an interpreter's lock. It waits for no lock, for no staging block, whatever
 * when_full says, and for no draw or training launch: where it would have to enqueue behind one that another thread is
 * enqueuing (on the CPU: carrying out), since it overwrites what that may read, it answers GPUR_WOULD_BLOCK. What it
 * takes is the copying of its rows and of the blocks that they fill; and a stream whose queue is full (CUDA's, or the
 * 256 operations of GPUR_EXECUTOR_THREAD) makes everyone wait for its device. Under GPUR_FEED_SCATTER, too, the arrays
 * are staged.
 *
 *   fields  (field_count) pointers, each to (count, ...) contiguous elements in host memory
 *
 *   GPUR_INVALID_ARGUMENT  count < 0 or more than (staging_blocks - 1) x update_size, or NULL. One block may be
 *                          partly filled until somebody flushes, so that more rows might never have room
 *   GPUR_WOULD_BLOCK       another thread is at it or amid a launch, or there is no room now; nothing was taken
 */
GPUR_API gpur_status gpur_writer_try_append_fields(gpur_writer *writer, int64_t count, const void *const *fields);

/* Seals the partly filled block, other writers' rows in it included, so that the next draw sees its rows; waits for
 * threads that are filling it. Not needed under GPUR_FLUSH_AUTO. GPUR_INVALID_ARGUMENT: NULL. */
GPUR_API gpur_status gpur_writer_flush(gpur_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
