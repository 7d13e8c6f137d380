/* SPDX-License-Identifier: MIT */
/* An environment slot of a run of fast DQN: an environment, the log of its steps since they were last flushed to the
 * replay, and its writer into the replay. */
#pragma once

#include "gpureplay/run_handle.h"
#include "gpureplay/writer.h"
#include "run/env_runner.h"

/* An entry of a log: the beginning of an episode, or a step. The frame that it led to follows it in memory, and before
 * that the action, where it is a vector. */
typedef struct gpur_log_entry {
    int64_t step; /* global */
    float reward;
    int32_t action; /* -1: the beginning of an episode; of vectors 0 */
    uint8_t terminated, truncated, continues, reserved[5];
} gpur_log_entry;

typedef struct gpur_step_log {
    unsigned char *entries; /* (room, entry_bytes) */
    int64_t entry_bytes, count, room;
    int32_t numbers; /* of an action vector; 0: actions are numbers */
    int64_t counted; /* entries whose rewards and ends were counted; less than `count` as long as the log grows */
} gpur_step_log;

/* Sets how large entries are. */
void gpur_step_log_set(gpur_step_log *log, int32_t numbers, const gpur_obs_shape *shape);

/* Refuses entries that no slot with such a runner writes: for a log from a file. `num_actions`: not of vectors. */
gpur_status gpur_step_log_check(const gpur_step_log *log, int32_t num_actions, const gpur_env_runner *runner);

typedef struct gpur_env_slot {
    struct gpur_fast_dqn *run;
    int32_t index;
    gpur_env_runner runner;
    uint64_t steps;       /* that the slot has taken: the number of its random numbers */
    int64_t taken;        /* the last global step of it that was taken; 0: none since the run was made */
    int32_t awaits_reset; /* 1: one of a vector, which begins its next episode in the next step */
    gpur_step_log log;
    gpur_writer *writer;
    int32_t action_is_int64; /* of the replay */
    double episode_return;   /* of the game so far, as far as it was counted */
    int64_t episode_length;
} gpur_env_slot;

/* Opens the log and the writer of a slot whose runner is open. */
gpur_status gpur_env_slot_open(gpur_env_slot *slot);
void gpur_env_slot_close(gpur_env_slot *slot); /* also after a failed open */

/* Begins the first episode. */
gpur_status gpur_env_slot_begin(gpur_env_slot *slot, int64_t step);

/* Takes a step by the slot's chosen action, and begins the next episode if it ends one. Both go to the log. *ended: 1
 * if a game has ended. */
gpur_status gpur_env_slot_step(gpur_env_slot *slot, int64_t step, int *ended);

/* The same two for an environment that is one of a vector: they only note what it did, when the runner has its
 * frame. */
gpur_status gpur_env_slot_note_beginning(gpur_env_slot *slot, int64_t step);
gpur_status gpur_env_slot_note_step(gpur_env_slot *slot, int64_t step, const gpur_env_result *result);

/* Puts the slot and the step in front of an error. */
gpur_status gpur_env_slot_name_error(const gpur_env_slot *slot, int64_t step, gpur_status status);

/* Steps of the game that has not ended, counted or not. */
int64_t gpur_env_slot_open_steps(const gpur_env_slot *slot);

/* Takes what belongs to a game that has not ended out of the log. */
void gpur_env_slot_drop_open_game(gpur_env_slot *slot);

/* Counts the steps in the log: games that have ended become the run's. Flushing counts them, too, each once. */
void gpur_env_slot_count_episodes(gpur_env_slot *slot);

/* Moves the log to the replay. With `whole_episodes` what belongs to an episode that has not ended stays. */
gpur_status gpur_env_slot_flush(gpur_env_slot *slot);
