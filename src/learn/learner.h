/* SPDX-License-Identifier: MIT */
/*
 * The handle of a learner, and the table that an algorithm is. A learner is the struct of its algorithm (gpur_dqn,
 * gpur_dpg, gpur_actor_critic), which begins with a gpur_learner. That has what all of them do alike: the networks that
 * are trained, with their optimizers and statistics; the parts; memory; weights by name (weights.c); files
 * (checkpoint.c). What differs is in the entry.
 */
#pragma once

#include "base/ticket_lock.h"
#include "learn/acting/policy.h"
#include "learn/diverged.h"
#include "learn/learner_file.h"
#include "learn/stats.h"
#include "learn/train_step.h"
#include "replay/view.h"

/* A network that a learner trains, with one optimizer. */
typedef struct gpur_trained {
    const char *name;      /* before the names of its tensors, and in messages: "actor"; "": there is one network */
    const char *file_name; /* before the names of its arrays in files: "", "critic." */
    const char *moments;   /* before those of its optimizer: "optimizer.", "critic.optimizer." */
    const gpur_network *network;
    const gpur_network_config *config;
    gpur_optimizer *optimizer;
    uint64_t seed;          /* of its first weights */
    int32_t shares_weights; /* 1: the optimizer changes the weights of the network before, whose names these are */
    const char *value_name; /* what the mean of its values is in messages: "mean Q" */
} gpur_trained;

/* What a learner's file has besides the arrays. */
typedef struct gpur_learner_state {
    gpur_train_state train[GPUR_MAX_FILE_NETWORKS]; /* of each trained network */
    uint64_t act_counter;
    int64_t acts, steps_enqueued;
} gpur_learner_state;

enum { GPUR_MAX_LEARNER_SCALARS = 24 };

typedef struct gpur_learner_part {
    const gpur_part *part;
    size_t offset; /* of its struct in the learner's */
} gpur_learner_part;

typedef struct gpur_algorithm {
    const char *name;               /* in messages: "a DQN learner" */
    const char *kind;               /* of its files: "learner" */
    size_t bytes;                   /* of the learner's struct */
    const gpur_learner_part *parts; /* (part_count) in the order in which the phases walk them; `close` goes backward */
    int32_t part_count;

    /* Reads and checks the settings, builds the networks, lists them, and says what the parts are opened with. Of
     * `context` the device and the replay are set. */
    gpur_status (*build)(gpur_learner *learner, const void *config, gpur_part_context *context);

    /* Called when the learner is complete; NULL: nothing is to be done. */
    gpur_status (*finish)(gpur_learner *learner);

    /* Enqueues train steps on rows of the replay; NULL: `no_train` says why there are none. */
    gpur_status (*train)(gpur_learner *learner, gpur_stream *stream, int64_t steps);
    const char *no_train;
    gpur_status (*check_train)(const gpur_learner *learner); /* refuses to train now; NULL: nothing does */

    /* Adds what the algorithm alone has, to the statistics of the networks. NULL: nothing. */
    void (*add_stats)(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats);

    /* Files. */
    gpur_status (*add_settings)(const gpur_learner *learner, gpur_tensors *settings); /* that must be equal */
    int32_t (*list_scalars)(gpur_learner_state *state,
                            gpur_scalar *list);  /* returns their number; in the file's order */
    void (*complete)(gpur_learner_state *state); /* sets what a file leaves out; NULL: nothing */
    void (*after_load)(gpur_learner *learner);   /* NULL: nothing is to be done */
} gpur_algorithm;

struct gpur_learner {
    const gpur_algorithm *algorithm;
    gpur_device *device;
    gpur_replay *replay;            /* NULL: it trains on batches that are given */
    gpur_action_limit action_limit; /* in the replay's list */
    gpur_trained networks[GPUR_MAX_FILE_NETWORKS];
    gpur_train_stats stats[GPUR_MAX_FILE_NETWORKS]; /* of the networks; without a replay only those of `main` */
    int32_t network_count;
    int32_t main;          /* the network whose steps, losses and values the statistics tell */
    gpur_train_step *step; /* NULL without a replay */
    gpur_policy *acting;   /* the learner's own policy; NULL: it does not act */
    int32_t acts_with;     /* GPUR_WEIGHTS_* that the policy gets */
    gpur_field obs;        /* its observations; the name is not used */
    float policy_floor;
    int32_t math, deterministic;
    int32_t opened, opened_stats; /* parts, and stats, that `open` was called for */
    gpur_ticket_lock lock;        /* without a replay: held while work is enqueued */
    gpur_stream *stream;          /* the replay's consumer stream, or its own */
    void *memory;                 /* device: the arrays of all parts */
    int64_t memory_bytes;
};

/* Creates a learner of this algorithm. `replay` NULL: it is on `device` without one. */
gpur_status gpur_learner_create_of(const gpur_algorithm *algorithm, gpur_device *device, gpur_replay *replay,
                                   const void *config, gpur_learner **learner);

/* Refuses a learner of another algorithm than the function `call` needs, and NULL. */
gpur_status gpur_learner_require(const gpur_learner *learner, const gpur_algorithm *algorithm, const char *call);

/* Enters the stream of the learner's launches, between two of them, and leaves it. `end` returns `status`, or what
 * failed in it. Between them the consumer lock is held, or without a replay the learner's. */
gpur_status gpur_learner_begin(gpur_learner *learner, gpur_stream **stream);
gpur_status gpur_learner_end(gpur_learner *learner, gpur_status status);

/* Requires the consumer lock. Enqueues what ends every launch: the weights for acting, and the statistics. */
gpur_status gpur_learner_end_launch(gpur_learner *learner, gpur_stream *stream, int64_t steps);

/* Sets the first weights of all networks, and resets their optimizers. Waits. */
gpur_status gpur_learner_set_first_weights(gpur_learner *learner, gpur_stream *stream);

/* Train steps enqueued so far. */
int64_t gpur_learner_steps_enqueued(gpur_learner *learner);

/* Refuses a learner that has diverged, by these states of its networks, or by what of them has reached the host. */
gpur_status gpur_learner_check_states(const gpur_learner *learner, const gpur_train_state *states);
gpur_status gpur_learner_check_finite(gpur_learner *learner);

/* Waits for all train steps, and refuses a learner that has diverged: by their losses, or by a weight. `reward_clip`
 * NULL: that of the replay, if there is one. */
gpur_status gpur_learner_check_weights(gpur_learner *learner, const float *reward_clip);

/* Copies the weights of a network to (P) in host memory, as they are after the train steps enqueued so far. Waits. */
gpur_status gpur_learner_download(gpur_learner *learner, int network, float *weights, int64_t *steps);

/* The weights that acting uses. */
const float *gpur_learner_acting_weights(const gpur_learner *learner);
