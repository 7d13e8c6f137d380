/* SPDX-License-Identifier: MIT */
/* What the trainings of each system have of their own. */
#pragma once

#include "train/members.h"
#include "train/options.h"
#include "train/row.h"
#include "train/text.h"

/* The handles of a training. */
typedef struct gpur_train_handles {
    gpur_device *device;
    gpur_replay *replay; /* NULL: the learner has none */
    gpur_learner *learner;
    gpur_run *run;
} gpur_train_handles;

/* What the statistics were at a moment. */
typedef struct gpur_train_sample {
    double seconds; /* that the run has taken */
    int64_t step;
    gpur_run_stats run;
    gpur_learner_stats learner; /* of a learner with a replay */
} gpur_train_sample;

/* The time between two samples. */
typedef struct gpur_train_span {
    const gpur_train_settings *settings;
    gpur_learner *learner;
    const gpur_train_sample *from, *to;
    double seconds;
} gpur_train_span;

/* a / b. Of 0 / 0 there is no value. */
double gpur_train_ratio(double a, double b);

/* Adds the columns learning_rate, loss, mean_q and gradient_norm, of a learner with a replay. */
void gpur_train_add_learning(gpur_row *row, const gpur_train_span *span);

/* Adds " name value" to a line if there is a value. */
void gpur_train_show(gpur_text *line, const char *name, double value);

/* A config of the settings, as config.json has it. */
typedef struct gpur_train_part {
    const char *name;
    const gpur_member *members;
    size_t at; /* of gpur_train_settings */
} gpur_train_part;

typedef struct gpur_train_system {
    gpur_train_part run, learner;
    size_t math; /* of gpur_train_settings: the arithmetic of the learner, an int32_t */

    /* The same: train steps between two copies to a target network that is copied beside the actors, an int64_t. 0:
     * there is none. */
    size_t target_period;

    /* Sets the configs to those of the preset. */
    gpur_status (*fill)(const gpur_options *options, gpur_train_settings *settings);

    /* Sets what depends on options, and refuses options that do not go together. */
    gpur_status (*complete)(const gpur_options *options, gpur_train_settings *settings);

    /* Adds what will run: the environment, how many of them, and the preset. */
    void (*describe)(gpur_text *text, const gpur_train_settings *settings);

    /* Opens replay, learner and run on the device. */
    gpur_status (*open)(gpur_train_settings *settings, gpur_train_handles *handles);

    /* Sets what the objects have decided of the settings, in a copy of these for config.json. NULL: nothing. */
    void (*settle)(gpur_train_settings *settings);

    /* A checkpoint is at a multiple of so many steps. NULL: at any. */
    int64_t (*checkpoint_granule)(const gpur_train_settings *settings);

    /* The networks that actors elsewhere have. NULL: there are no such actors. */
    gpur_apex_networks (*networks)(const gpur_train_settings *settings);

    /* Adds the columns of an episode beside those of all systems (NULL: none), and of the rates in a span of time. */
    void (*add_episode)(gpur_row *row, const gpur_run_event *event);
    void (*add_rates)(gpur_row *row, const gpur_train_span *span);

    /* Adds how far it is until training begins. Returns 0 if it has begun. NULL: it begins at once. */
    int (*show_beginning)(gpur_text *line, const gpur_train_settings *settings, const gpur_train_sample *now);

    /* Adds values to the line that shows progress. */
    void (*show_values)(gpur_text *line, const gpur_row *rates, const gpur_train_sample *now);

    /* Adds a table of the rates of the whole time. NULL: there is none. */
    void (*add_summary)(gpur_text *text, const gpur_train_span *span, const gpur_row *rates);

    int32_t has_free_learner; /* 1: actors end before the last checkpoint, and steps are those received */
    int32_t has_actors_file, has_tuner_file;
    int32_t lacks_eval_length; /* 1: evaluations.csv has no column `length` */
    const char *lane;          /* the name of what an environment belongs to */
} gpur_train_system;

/* By GPUR_PRESET_*. */
const gpur_train_system *gpur_train_system_of(int32_t system);

extern const gpur_train_system gpur_train_fast_dqn, gpur_train_apex_dqn, gpur_train_apex_dpg, gpur_train_ga3c,
    gpur_train_a3c;

/* Parts that several systems have. */

/* Refuses a batch of which the replay holds less than two, and makes room for a large one. */
gpur_status gpur_train_use_batch(const gpur_options *options, int64_t capacity, int64_t batch_size,
                                 gpur_replay_config *replay);

/* Sets stacks of `replay.frame_stack` frames. */
gpur_status gpur_train_use_frame_stack(const gpur_options *options, gpur_train_settings *settings);

/* Sets eval_period, unless it was given, to a multiple of `granule`, or to 0 if there are no evaluations. */
void gpur_train_use_evaluations(const gpur_options *options, int64_t granule, gpur_train_settings *settings);

/* The same for `checkpoint`. */
gpur_status gpur_train_use_checkpoint(const gpur_options *options, int64_t granule, gpur_train_settings *settings);

/* Refuses environments that step all at once. `who` has one each. */
gpur_status gpur_train_check_single(const gpur_options *options, const gpur_train_settings *settings, const char *who);

/* Sets how the replay samples and its learner, of which `source` is a setting: GPUR_PRIORITIZED_* or GPUR_UNIFORM*. */
void gpur_train_settle_source(gpur_replay_config *replay, int32_t *source);

int gpur_train_is_small(const gpur_train_settings *settings);
