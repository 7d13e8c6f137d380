/* SPDX-License-Identifier: MIT */
/* A lane: an environment, the observation that the network sees of it, the log of its steps since they were last
 * published, and its writer into the replay. */
#pragma once

#include "gpureplay/env.h"
#include "gpureplay/run.h"
#include "gpureplay/writer.h"
#include "replay/schema.h"

/* How the network sees observations. With GPUR_LAYOUT_FRAMES an observation is a stack of the environment's last
 * frames, padded as the replay pads it. */
typedef struct gpur_obs_shape {
    int64_t frame_bytes;   /* what the environment writes */
    int64_t element_bytes; /* of one number */
    int32_t dtype;
    int32_t stack;        /* frames; 1: the observation is the frame */
    int32_t is_last_axis; /* 1: the stack is the last axis */
    int32_t pads_repeat;  /* 1: GPUR_PAD_REPEAT; 0: zeros */
} gpur_obs_shape;

static inline int64_t gpur_obs_bytes(const gpur_obs_shape *shape)
{
    return shape->stack * shape->frame_bytes;
}

/* Finds the shape. Refuses an environment whose observations are not what a network sees, which is of this type and
 * shape, without the axis of the stack; `axis` -1: there is none. Errors call it `name`. */
gpur_status gpur_obs_shape_of(const gpur_space *obs, int32_t dtype, const int32_t *seen, int32_t axis, const char *name,
                              gpur_obs_shape *shape);

/* The same, where the network sees what a replay with this schema and these settings stores. */
gpur_status gpur_obs_shape_find(const gpur_space *obs, const gpur_schema *schema, const gpur_replay_config *config,
                                gpur_obs_shape *shape);

/* Refuses actions that are not discrete, or not as many as a network has. */
gpur_status gpur_actions_check(const gpur_space *actions, int32_t num_actions);

/* An environment, and what the network sees of it. */
typedef struct gpur_player {
    const gpur_env_type *type;
    void *env;
    const gpur_obs_shape *shape;
    unsigned char *frame; /* (frame_bytes) what the environment wrote last */
    unsigned char *obs;   /* (stack, frame) what the network sees; memory of the run */
    int32_t check_finite; /* 1: refuses observations and rewards that are not */
    int32_t evaluates;    /* 1: it plays evaluations, whose games have an end */
    int64_t max_steps;    /* of a game; 0: any number */
    int32_t is_bounded;   /* 1: they are GPUR_EVALUATION_STEPS */
    int64_t cut;          /* games that were truncated after those */
    int64_t steps;        /* of the game so far */
    int32_t goes_on;      /* 1: the last step lost a life, and the next reset goes on with the game */
    int32_t has_refused;  /* 1: the last error is a number of the environment's that is not finite */
} gpur_player;

/* Takes over an environment that the init of the player's type has made. Refuses one that cannot be. */
gpur_status gpur_player_take_env(gpur_player *player, void *env, const gpur_env_info *info);

/* Opens a player whose type and environment are set. */
gpur_status gpur_player_open(gpur_player *player, const gpur_obs_shape *shape, unsigned char *obs,
                             int32_t check_finite);
void gpur_player_close(gpur_player *player); /* accepts a zeroed one */
void gpur_player_close_env(gpur_player *player);

/* Errors are the environment's refusals, and numbers of it that are not finite. */
gpur_status gpur_player_reset(gpur_player *player);
gpur_status gpur_player_step(gpur_player *player, const void *action, gpur_env_result *result);

/* Turns an environment's refusal into an error; NULL is GPUR_OK. */
gpur_status gpur_env_error(const char *sentence);

/* An entry of a log: the beginning of an episode, or a step. The frame that it led to follows it in memory. */
typedef struct gpur_log_entry {
    int64_t step; /* global */
    float reward;
    int32_t action; /* -1: the beginning of an episode */
    uint8_t terminated, truncated, continues, reserved[5];
} gpur_log_entry;

typedef struct gpur_step_log {
    unsigned char *entries; /* (room, entry_bytes) */
    int64_t entry_bytes, count, room;
} gpur_step_log;

/* Refuses entries that no lane with such a player writes: for a log from a file. */
gpur_status gpur_step_log_check(const gpur_step_log *log, int32_t num_actions, const gpur_player *player);

typedef struct gpur_lane {
    int32_t index;
    gpur_player player;
    uint64_t steps;       /* that the lane has taken: the number of its random numbers */
    int32_t awaits_reset; /* 1: one of a vector, which begins its next episode in the next step */
    gpur_step_log log;
    gpur_writer *writer;
    int32_t action_is_int64; /* of the replay */
    double episode_return;   /* of the game so far, as far as it is published */
    int64_t episode_length;
} gpur_lane;

typedef void (*gpur_episode_sink)(void *context, const gpur_run_event *episode);

/* Opens the log and the writer of a lane whose player is open. */
gpur_status gpur_lane_open(gpur_lane *lane, gpur_replay *replay);
void gpur_lane_close(gpur_lane *lane); /* also after a failed open */

/* Begins the first episode. */
gpur_status gpur_lane_begin(gpur_lane *lane, int64_t step);

/* Takes a step, and begins the next episode if it ends one. Both go to the log. *ended: 1 if a game has ended. */
gpur_status gpur_lane_step(gpur_lane *lane, int64_t step, int32_t action, int *ended);

/* The same two for an environment that is one of a vector: they only note what it did. */
gpur_status gpur_lane_note_beginning(gpur_lane *lane, int64_t step, const unsigned char *frame);
gpur_status gpur_lane_note_step(gpur_lane *lane, int64_t step, int32_t action, const gpur_env_result *result,
                                const unsigned char *frame);

/* Puts the lane and the step in front of an error. */
gpur_status gpur_lane_name_error(const gpur_lane *lane, int64_t step, gpur_status status);

/* Steps of the game that has not ended, published or not. */
int64_t gpur_lane_open_steps(const gpur_lane *lane);

/* Takes what belongs to a game that has not ended out of the log. */
void gpur_lane_drop_open_game(gpur_lane *lane);

/* Moves the log to the replay. `whole_episodes` 1: what belongs to an episode that has not ended stays. */
gpur_status gpur_lane_publish(gpur_lane *lane, int whole_episodes, gpur_episode_sink sink, void *context);
