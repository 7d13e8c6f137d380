/* SPDX-License-Identifier: MIT */
/* An actor [Horgan et al. 2018, algorithm 1]: an environment, an action selector with a copy of the weights of its own,
 * and a packer of blocks. It is the same in a thread and in a process; a transport brings its blocks to the learner.
 * The actor that evaluates has other parts (evaluating_actor.c). */
#pragma once

#include "run/apex/policies.h"
#include "run/env_runner.h"
#include "run/apex/shared.h"
#include "gpureplay/block.h"
#include "replay/block/block.h"

/* The actor's number, and how it acts. Sent to processes as it is. */
typedef struct gpur_actor_settings {
    int32_t actor; /* its number, or GPUR_APEX_EVALUATOR */
    float epsilon; /* for action vectors: sigma */
    int64_t incarnation;
    uint64_t seed; /* of the run */
    int64_t pull_period, max_episode_steps;
    int32_t block_rows, compression, initial_priorities;
    int32_t eval_envs; /* of the evaluator: environments in which it plays at the same time */
    int32_t waits; /* 1: a block that was handed over has been appended, or the transport waits until it is. Then the
                      actor takes the newest weights for the next one */
} gpur_actor_settings;

typedef struct gpur_actor_episode {
    double episode_return;
    int64_t length;
} gpur_actor_episode;

/* The result of an evaluation, by its number. */
typedef struct gpur_actor_evaluation {
    int64_t number, episodes, length;
    int64_t cut; /* games that were cut off, see gpur_env_runner.cut */
    double mean_return, return_deviation, seconds;
} gpur_actor_evaluation;

/* The actor's side of a transport: brings what the actor has made to the learner, with the number of its steps so far,
 * and weights to the actor. May wait. GPUR_INTERRUPTED ends the actor. */
typedef struct gpur_actor_transport {
    void *context;
    gpur_status (*take_block)(void *context, const void *block, int64_t bytes, int64_t steps);
    gpur_status (*take_episode)(void *context, const gpur_actor_episode *episode, int64_t steps);
    /* Gives the policies the newest weights if they have older ones: *is_newer becomes 1. Comes before the first step,
     * too, and then there must be some. `weights`: memory for those of the policies, the same in each call. */
    gpur_status (*pull)(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer);

    /* Of the evaluator. Others may have NULL. */
    gpur_status (*take_evaluation)(void *context, const gpur_actor_evaluation *evaluation);
    int (*is_gone)(void *context); /* 1: the learner is gone. NULL: it outlives the actor */
} gpur_actor_transport;

/* What an actor acts with. */
typedef struct gpur_actor_context {
    const gpur_env_type *type;
    const char *env_options;
    gpur_device *device;
    const gpur_block_format *format; /* with the schema and the settings of the replay */
    gpur_apex_networks networks;
    gpur_actor_counts *counts;
    const gpur_shared *shared; /* of the evaluator, for its weights; others may have NULL */
} gpur_actor_context;

/* What an actor outside of the learner's threads is given, and what it opens for itself. */
typedef struct gpur_actor_resources {
    gpur_actor_context context;
    gpur_run_config run;
    const gpur_replay_config *replay; /* as given */
    int32_t threads;                  /* of the device, the CPU */
    gpur_device *device;
    gpur_block_format *format;
} gpur_actor_resources;

/* Reads what a caller gives: the settings of all runs and of the replay, the networks, and threads, of which 0 is 1.
 * Refuses what must not be left out, and threads out of range. Nothing is opened. `resources`: zeroed. */
gpur_status gpur_actor_resources_read(gpur_actor_resources *resources, const gpur_run_config *run,
                                      const gpur_replay_config *replay, const gpur_apex_networks *networks,
                                      int32_t threads);

/* Opens the rest of the context, but for its counts. To be closed whatever this returns. */
gpur_status gpur_actor_resources_open(gpur_actor_resources *resources);
void gpur_actor_resources_close(gpur_actor_resources *resources);

/* Opens a CPU device on which an actor acts. */
gpur_status gpur_actor_open_device(int32_t threads, gpur_device **device);

/* Acts until its counts say that it is asked to end; what it has packed is then taken away, too. An error of the
 * environment has the step. */
gpur_status gpur_actor_run(const gpur_actor_context *context, const gpur_actor_settings *settings,
                           const gpur_actor_transport *transport);

/* What gpur_actor_run does for the actor that evaluates: it plays the evaluation whose number its counts have, and
 * waits where they have none. */
gpur_status gpur_actor_evaluate(const gpur_actor_context *context, const gpur_actor_settings *settings,
                                const gpur_actor_transport *transport);

/* The seed of an environment of an incarnation: `index` is the actor's number, or counts on from GPUR_APEX_EVALUATOR.
 * The exploration has another one. */
uint64_t gpur_actor_seed(const gpur_actor_settings *settings, int32_t index, int is_of_exploration);

/* Makes an environment for a runner, with the limit of the settings. */
gpur_status gpur_actor_make_env(const gpur_actor_context *context, const gpur_actor_settings *settings, uint64_t seed,
                                gpur_env_runner *runner, gpur_env_info *info);
