/* SPDX-License-Identifier: MIT */
/* What the trainings of each system have of their own. */
#pragma once

#include "train/members.h"
#include "train/options.h"
#include "train/files.h"
#include "train/text.h"

/* A row of a run's record: columns by name, each with a number or a word. */
enum { GPUR_MAX_COLUMNS = 32 };
typedef struct gpur_row {
    int32_t count;
    const char *names[GPUR_MAX_COLUMNS];
    double values[GPUR_MAX_COLUMNS];     /* NaN: no value */
    const char *words[GPUR_MAX_COLUMNS]; /* NULL: the value is a number */
} gpur_row;

void gpur_row_add(gpur_row *row, const char *name, double value);

/* The value of a column; NaN if there is none. */
double gpur_row_value(const gpur_row *row, const char *name);

/* The handles of a training. */
typedef struct gpur_train_handles {
    gpur_device *device;
    gpur_replay *replay;         /* NULL: the learner has none */
    gpur_replay *demonstrations; /* NULL: there are none */
    gpur_learner *learner;
    gpur_run *run;
} gpur_train_handles;

/* What the statistics were at a moment. */
typedef struct gpur_train_sample {
    double seconds; /* that the run has taken */
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

/* How much a statistic has grown in a span, of whose samples `from` and `to` point to one of the structs. */
#define GPUR_SINCE(member) ((double)(to->member - from->member))

/* a / b. Of 0 / 0 there is no value. */
double gpur_ratio(double a, double b);

/* A config of the settings, as config.json has it. */
typedef struct gpur_train_part {
    const char *name;
    const gpur_member *members;
    size_t at; /* of gpur_train_settings */
} gpur_train_part;

typedef struct gpur_train_system {
    gpur_train_part run, learner;

    /* Members of gpur_train_settings. 0: the system has none. */
    size_t count;          /* how many environments train, an int32_t */
    size_t math;           /* the arithmetic of the learner, an int32_t */
    size_t source;         /* how its train steps draw, GPUR_SOURCE_*, an int32_t */
    size_t target_period;  /* train steps between two copies to a target network beside actors, an int64_t */
    size_t acting, critic; /* the networks of actors, which may be elsewhere */
    size_t critics;        /* how many critics they have, an int32_t */

    const char *lane, *lanes; /* what an environment belongs to, and several, after their number */
    const char *step_rate;    /* the column of its steps per second; NULL: "env_steps_per_second" */

    /* Labels of the line that shows progress, each followed by its column of the rates, ended by NULL. */
    const char *const *shown;

    /* Offline: describes the rows, and where there is no environment what one would show and take. NULL: the system
     * makes its rows. */
    gpur_status (*find_rows)(const gpur_options *options, gpur_train_settings *settings);

    /* Sets the configs to those of the preset. */
    gpur_status (*fill)(gpur_train_settings *settings);

    /* Sets what depends on options, and refuses options that do not go together. */
    gpur_status (*complete)(const gpur_options *options, gpur_train_settings *settings);

    /* Opens replay, learner and run on the device. */
    gpur_status (*open)(gpur_train_settings *settings, gpur_train_handles *handles);

    /* Adds the columns of the rates in a span of time, after those of all systems. */
    void (*add_rates)(gpur_row *row, const gpur_train_span *span);

    /* Adds how far it is until training begins. Returns 0 if it has begun. NULL: it begins at once. */
    int (*show_beginning)(gpur_text *line, const gpur_train_settings *settings, const gpur_run_stats *now);

    /* Adds a table of the rates of the whole time. NULL: there is none. */
    void (*add_summary)(gpur_text *text, const gpur_train_span *span, const gpur_row *rates);

    const char *period; /* the option that a run calls target_period; NULL: that */

    int32_t takes_vector;      /* 1: environments may step all at once */
    int32_t has_actors;        /* 1: they have epsilons and a file, and end before the last checkpoint; steps are those
                                  received of them */
    int32_t has_tuner;         /* 1: it has a file */
    int32_t lacks_eval_length; /* 1: evaluations.csv has no column `length` */
} gpur_train_system;

/* By GPUR_PRESET_*. */
const gpur_train_system *gpur_train_system_of(int32_t system);

extern const gpur_train_system gpur_train_fast_dqn, gpur_train_apex_dqn, gpur_train_apex_dpg, gpur_train_ga3c,
    gpur_train_a3c, gpur_train_offline_dqn, gpur_train_offline_dpg, gpur_train_offline_sac, gpur_train_dpg,
    gpur_train_sac;

/* Parts that several systems have. */

/* Whether the preset is one of the small relatives of published systems. */
int gpur_train_is_small(const gpur_train_settings *settings);

/* The option of a run's target_period. */
const char *gpur_train_period_name(const gpur_options *options);

/* Refuses a batch of which the replay holds less than two, and makes room for a large one. */
gpur_status gpur_train_use_batch(const gpur_options *options, int64_t capacity, int64_t batch_size,
                                 gpur_replay_config *replay);

/* Loads the demonstrations into a replay with the settings of the learner's own, as large as that of the file, for the
 * learner's settings. Does nothing if there are none. */
gpur_status gpur_train_open_demonstrations(gpur_train_settings *settings, gpur_train_handles *handles);

/* Sets stacks of `replay.frame_stack` frames. */
void gpur_train_use_frame_stack(gpur_train_settings *settings);

/* Sets eval_period and checkpoint, unless they were given, to multiples of `granule`, or to 0 if there are no
 * evaluations, or no files. */
gpur_status gpur_train_use_periods(const gpur_options *options, int64_t granule, gpur_train_settings *settings);

/* Adds the columns learning_rate, loss, mean_q and gradient_norm, of a learner with a replay. */
void gpur_train_add_learning(gpur_row *row, const gpur_train_span *span);

/* Offline: loads the rows into a replay, unless it has them or a checkpoint does, and sets what follows from them: how
 * many actions there are. Its errors have options in braces, as those of gpur_refuse. */
gpur_status gpur_train_fill(gpur_train_settings *settings, gpur_replay *replay);

/* What a run is called where it has no name: its environment, or offline the data. */
gpur_status gpur_train_name(const gpur_train_settings *settings, char name[GPUR_MAX_PATH]);

/* Adds a line of a table of rates: a value, and those of two others. */
void gpur_train_add_line(gpur_text *text, const char *name, double value, const char *unit, const char *one,
                         const char *other);
