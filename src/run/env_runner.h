/* SPDX-License-Identifier: MIT */
/* An environment runner: an environment with the observation that the network sees of it, whether it is one of a run's
 * environment slots, of an actor's, of an agent's or of an evaluation. */
#pragma once

#include "base/status.h"
#include "gpureplay/env.h"
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

/* How many axes a shape has; 0 stands after the last one. */
int32_t gpur_shape_dims(const int32_t *shape);

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
typedef struct gpur_env_runner {
    const gpur_env_type *type;
    void *env;
    const gpur_obs_shape *shape;
    unsigned char *frame; /* (frame_bytes) what the environment wrote last */
    unsigned char *obs;   /* (stack, frame) what the network sees */
    int32_t check_finite; /* 1: refuses observations and rewards that are not */
    int32_t evaluates;    /* 1: it plays evaluations, whose games have an end */
    int64_t max_steps;    /* of a game; 0: any number */
    int32_t is_bounded;   /* 1: they are GPUR_EVALUATION_STEPS */
    int64_t cut;          /* games that were truncated after those */
    int64_t steps;        /* of the game so far */
    int32_t goes_on;      /* 1: the last step lost a life, and the next reset goes on with the game */
    int32_t has_refused;  /* 1: the last error is a number of the environment's that is not finite */
} gpur_env_runner;

/* Takes over an environment that the init of the runner's type has made. Refuses one that cannot be. */
gpur_status gpur_env_runner_take_env(gpur_env_runner *runner, void *env, const gpur_env_info *info);

/* Lowers the steps of a game to `most`; 0: to none. Of a runner that has its environment. */
void gpur_env_runner_limit(gpur_env_runner *runner, int64_t most);

/* Opens a runner whose type and environment are set. `obs`: where the network sees its observation; NULL: in memory of
 * the runner. */
gpur_status gpur_env_runner_open(gpur_env_runner *runner, const gpur_obs_shape *shape, unsigned char *obs,
                                 int32_t check_finite);
void gpur_env_runner_close(gpur_env_runner *runner); /* accepts a zeroed one */
void gpur_env_runner_close_env(gpur_env_runner *runner);

/* Errors are the environment's refusals, and numbers of it that are not finite. */
gpur_status gpur_env_runner_reset(gpur_env_runner *runner);
gpur_status gpur_env_runner_step(gpur_env_runner *runner, const void *action, gpur_env_result *result);

/* The same two for an environment that is one of a vector, which has written `frame` already: they check it, and show
 * it to the network. */
gpur_status gpur_env_runner_note_beginning(gpur_env_runner *runner);
gpur_status gpur_env_runner_note_step(gpur_env_runner *runner, const gpur_env_result *result);

/* Turns an environment's refusal into an error; NULL is GPUR_OK. */
gpur_status gpur_env_error(const char *sentence);
