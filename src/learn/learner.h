/* SPDX-License-Identifier: MIT */
/*
 * The handle of a learner, and the table of algorithms: gpur_algorithm_dqn, gpur_algorithm_dpg, gpur_algorithm_sac and
 * gpur_algorithm_actor_critic are its entries, each in a folder of its own. The struct of each (gpur_dqn, gpur_dpg,
 * gpur_sac, gpur_actor_critic) begins with a gpur_learner, which lists the networks that are trained, with their
 * optimizers. learner.c, weights.c and checkpoint.c work on that list, and never ask which algorithm it is.
 */
#pragma once

#include "base/ticket_lock.h"
#include "learn/acting/policy.h"
#include "learn/network_text.h"
#include "learn/stats.h"
#include "learn/train_step.h"
#include "replay/view.h"

enum { GPUR_MAX_NETWORKS = 3 };

/* A network that a learner trains, with one optimizer. */
typedef struct gpur_trained {
    const char *name;      /* stands before the names of its tensors, and in messages: "actor"; "": the only network */
    const char *file_name; /* stands before the names of its arrays in files: "", "critic." */
    const gpur_network *network;
    const gpur_network_config *config; /* NULL: it has no layers, but a single number, whose first value is `first` */
    gpur_optimizer *optimizer;
    uint64_t seed; /* for the first weights */
    float first;
    int32_t pause;          /* train steps between two that train it; 0: each does */
    int32_t shares_weights; /* 1: a second optimizer of the network listed before, whose weights it changes, too */
    const char *value_name; /* names the mean of its values in messages: "mean Q" */
} gpur_trained;

/* The numbers of a learner's file, beside the arrays. */
typedef struct gpur_learner_state {
    gpur_train_state train[GPUR_MAX_NETWORKS]; /* one for each trained network */
    uint64_t act_counter;
    int64_t acts, steps_enqueued;
} gpur_learner_state;

enum { GPUR_MAX_LEARNER_SCALARS = 32 };

typedef struct gpur_learner_part {
    const gpur_part *part;
    size_t offset; /* where the part's struct is in the learner's struct */
} gpur_learner_part;

typedef struct gpur_algorithm {
    const char *name;               /* the learner in messages: "a DQN learner" */
    const char *kind;               /* the kind of its files: "learner" */
    size_t bytes;                   /* the size of the learner's struct */
    const gpur_learner_part *parts; /* (part_count) opened in this order, closed in the reverse one */
    int32_t part_count;

    /* Reads and checks the settings, builds the networks and lists them, and fills in `context`, of which the device
     * and the replay are set. */
    gpur_status (*build)(gpur_learner *learner, const void *config, gpur_part_context *context);

    /* Enqueues train steps on rows of the replay; NULL: launches the graph of the train step. Of a learner without a
     * replay gpur_learner_train fails with the text `no_train`, which is NULL for others. */
    gpur_status (*train)(gpur_learner *learner, gpur_stream *stream, int64_t steps);
    const char *no_train;
    gpur_status (*check_train)(const gpur_learner *learner); /* refuses to train now; NULL: never */

    /* Fills in the statistics that this algorithm alone has. NULL: there are none. */
    void (*add_stats)(gpur_learner *learner, const gpur_train_stats_snapshot *networks, gpur_learner_stats *stats);

    /* Files. */
    gpur_status (*add_settings)(const gpur_learner *learner, gpur_tensors *settings); /* that must be equal */
    int32_t (*list_scalars)(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *list); /* returns
                                                    their number */
    void (*complete)(const gpur_learner *learner, gpur_learner_state *state); /* sets the numbers that a file leaves
                                                    out; NULL: does nothing */
    void (*after_load)(gpur_learner *learner);                                /* NULL: does nothing */
} gpur_algorithm;

struct gpur_learner {
    const gpur_algorithm *algorithm;
    gpur_device *device;
    gpur_replay *replay;                   /* NULL: it trains on batches that are given */
    gpur_replay *demonstrations;           /* a second replay that it draws from; NULL: there is none */
    gpur_action_limit action_limit;        /* in the replay's list */
    gpur_action_limit demonstration_limit; /* in the demonstrations' list */
    gpur_trained networks[GPUR_MAX_NETWORKS];
    gpur_train_stats stats[GPUR_MAX_NETWORKS]; /* one for each network that does not share its weights */
    int32_t network_count;
    int32_t main;          /* index of the network whose steps, losses and values gpur_learner_get_stats reports */
    gpur_train_step *step; /* NULL without a replay */
    gpur_policy *acting;   /* the learner's own policy; NULL: it does not act */
    int32_t acts_with;     /* which weights it acts with: GPUR_WEIGHTS_ONLINE or TARGET */
    gpur_field obs;        /* an observation, as files describe it; the name is not used */
    float policy_floor;
    int32_t math;
    int32_t opened, opened_stats; /* how many parts and stats have been opened */
    gpur_ticket_lock lock;        /* without a replay: held while work is enqueued */
    gpur_stream *stream;          /* the replay's consumer stream, or its own */
    void *memory;                 /* device: the arrays of all parts */
    int64_t memory_bytes;
};

/* Creates a learner of this algorithm on a replay and its device, or with `no_train` on `device`. Refuses NULL. */
gpur_status gpur_learner_create_of(const gpur_algorithm *algorithm, gpur_device *device, gpur_replay *replay,
                                   const void *config, gpur_learner **learner);

/* The loss of the last train step that the host knows of, of the first statistics. Does not wait. Any thread. */
double gpur_learner_newest_loss(gpur_learner *learner);

/* Refuses NULL, and a learner of another algorithm. `call`: the name of the public function, for the message. */
gpur_status gpur_learner_require(const gpur_learner *learner, const gpur_algorithm *algorithm, const char *call);

/* Begins and ends work on the learner's stream, between two launches of training. The consumer lock is held meanwhile,
 * or without a replay the learner's lock. `end` returns `status` if it is an error. */
gpur_status gpur_learner_begin(gpur_learner *learner, gpur_stream **stream);
gpur_status gpur_learner_end(gpur_learner *learner, gpur_status status);

/* Requires the consumer lock. Enqueues the end of a launch: copies of the weights for acting and of the statistics. */
gpur_status gpur_learner_end_launch(gpur_learner *learner, gpur_stream *stream, int64_t steps);

/* Sets the first weights of all networks, and resets their optimizers. Waits. */
gpur_status gpur_learner_set_first_weights(gpur_learner *learner, gpur_stream *stream);

/* Returns the number of train steps enqueued so far. */
int64_t gpur_learner_steps_enqueued(gpur_learner *learner);

/* The train step that spoiled network i, by its state; 0: none did. */
int64_t gpur_learner_spoiled_at(const gpur_learner *learner, int i, const gpur_train_state *state);

/* The index of the network that was the first to be spoiled, by these states of all; `main` if none was. */
int gpur_learner_first_spoiled(const gpur_learner *learner, const gpur_train_state *states);

/* Refuses a learner that has diverged, by the newest states that have reached the host. */
gpur_status gpur_learner_check_finite(gpur_learner *learner);

/* Waits for all train steps, and refuses a learner that has diverged: by their losses, or by a weight. `reward_clip`
 * NULL: that of the replay, if there is one. */
gpur_status gpur_learner_check_weights(gpur_learner *learner, const float *reward_clip);

/* Fails: the weights of a network are not finite after train step `step`. `reward_clip`: as in the function above. */
gpur_status gpur_learner_weights_diverged(gpur_learner *learner, int network, int64_t step, const float *reward_clip);

/* Copies the weights of a network to (P) in host memory, as they are after the train steps enqueued so far. Waits. */
gpur_status gpur_learner_download(gpur_learner *learner, int network, float *weights, int64_t *steps);

/* The weights that acting uses. */
const float *gpur_learner_acting_weights(const gpur_learner *learner);

/* Reads the online weights from an opened file of a learner of this kind, whose network must be the policy's, into
 * `weights`, the array of all parameters in host memory, all zero, and the number of train steps enqueued. A refusal
 * may leave part of the weights set. */
gpur_status gpur_learner_file_read(gpur_policy *policy, gpur_checkpoint *file, const char *kind,
                                   const gpur_checkpoint_options *options, float *weights, int64_t *steps);
