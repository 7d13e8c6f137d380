/* SPDX-License-Identifier: MIT */
/*
 * The files that a run fills: episodes.csv, evaluations.csv and rates.csv, of Ape-X actors.csv, too, of GA3C tuner.csv,
 * and log.jsonl with the rows of all of them. A row is written by one call of write(2), so that a run that is killed
 * leaves whole rows.
 */
#pragma once

#include "files.h"
#include "options.h"

#include <pthread.h>

/* Kinds of rows; each has a CSV file of its own. */
typedef enum record_kind {
    RECORD_EPISODE,
    RECORD_EVALUATION,
    RECORD_RATES,
    RECORD_ACTOR,
    RECORD_TUNER,
    RECORD_KINDS
} record_kind;

/* Columns of rates.csv of a run. */
enum {
    RATES_SECONDS,
    RATES_STEP,
    RATES_TRAIN_STEPS,
    RATES_EPISODES,
    RATES_ENV_STEPS_PER_SECOND,
    RATES_INFERENCES_PER_SECOND,
    RATES_OBSERVATIONS_PER_INFERENCE,
    RATES_TRAIN_STEPS_PER_SECOND,
    RATES_ENV_SHARE,
    RATES_INFER_SHARE,
    RATES_TRAIN_SHARE,
    RATES_PUBLISH_SHARE,
    RATES_COPY_SHARE,
    RATES_EVAL_SHARE,
    RATES_PUBLISH_SECONDS,
    RATES_COPY_SECONDS,
    RATES_RECENT_RETURN,
    RATES_EPSILON,
    RATES_LEARNING_RATE,
    RATES_LOSS,
    RATES_MEAN_Q,
    RATES_GRADIENT_NORM,
    RATES_MISSING_SHARE,
    RATES_COLUMNS
};

/* Columns of rates.csv of Ape-X. */
enum {
    APEX_SECONDS,
    APEX_STEP,
    APEX_TRAIN_STEPS,
    APEX_EPISODES,
    APEX_ENV_STEPS_PER_SECOND,
    APEX_TRANSITIONS_PER_SECOND,
    APEX_MEGABYTES_PER_SECOND,
    APEX_TRAIN_STEPS_PER_SECOND,
    APEX_LEARNED_PER_SECOND,
    APEX_SAMPLES_PER_INSERT,
    APEX_WEIGHTS_AGE,
    APEX_ACTORS,
    APEX_DEATHS,
    APEX_LOST_TRANSITIONS,
    APEX_REFUSED_BLOCKS,
    APEX_LIMITER_TIMEOUTS,
    APEX_TRAIN_SHARE,
    APEX_BROADCAST_SHARE,
    APEX_RECEIVE_SHARE,
    APEX_LEARNER_WAIT_SHARE,
    APEX_ACTOR_ENV_SHARE,
    APEX_ACTOR_INFER_SHARE,
    APEX_ACTOR_WAIT_SHARE,
    APEX_RECENT_RETURN,
    APEX_EVALUATED_RETURN,
    APEX_LEARNING_RATE,
    APEX_LOSS,
    APEX_MEAN_Q,
    APEX_GRADIENT_NORM,
    APEX_COLUMNS
};

/* Columns of rates.csv of GA3C, A3C and A2C. */
enum {
    GA3C_SECONDS,
    GA3C_STEP,
    GA3C_TRAIN_STEPS,
    GA3C_EPISODES,
    GA3C_ENV_STEPS_PER_SECOND,
    GA3C_PREDICTIONS_PER_SECOND,
    GA3C_ROLLOUTS_PER_SECOND,
    GA3C_PREDICTIONS_PER_ROLLOUT,
    GA3C_TRAIN_STEPS_PER_SECOND,
    GA3C_PREDICTION_BATCH,
    GA3C_PREDICTION_QUEUE,
    GA3C_TRAINING_QUEUE,
    GA3C_MEAN_LAG,
    GA3C_LARGEST_LAG,
    GA3C_QUEUE_LAG,
    GA3C_QUEUE_LAG_BOUND,
    GA3C_AGENTS,
    GA3C_PREDICTORS,
    GA3C_TRAINERS,
    GA3C_ENV_SHARE,
    GA3C_WAIT_SHARE,
    GA3C_PREDICT_SHARE,
    GA3C_TRAIN_SHARE,
    GA3C_RECENT_RETURN,
    GA3C_ENTROPY,
    GA3C_VALUE_LOSS,
    GA3C_LEARNING_RATE,
    GA3C_GRADIENT_NORM,
    GA3C_COLUMNS
};

enum { MAX_COLUMNS = (int)APEX_COLUMNS > (int)RATES_COLUMNS ? (int)APEX_COLUMNS : (int)RATES_COLUMNS };

enum { RECORD_FILES = RECORD_KINDS + 1 }; /* and the log */

typedef struct record {
    char folder[MAX_PATH];
    system_id system;
    int file[RECORD_FILES];
    pthread_mutex_t lock; /* rows of two threads */
    text row;
} record;

/* Opens the files, and keeps other processes from doing so. Nothing in them changes. */
int record_open(record *r, const char *folder, system_id system);

/* Cuts off what the files have beyond `bytes` (RECORD_FILES), as record_sync reported them. NULL: all that they have,
 * and gives them their header lines. */
int record_begin(record *r, const int64_t *bytes);

/* The last step of which the files have an episode or an evaluation; 0: there is none. */
int record_find_last_step(const record *r, int64_t *step);

void record_close(record *r); /* accepts a zeroed one */

/* Appends a row, in any thread. `values` has one number for each column; NaN is no value. The event of an actor is
 * GPUR_RUN_STARTED or GPUR_RUN_ENDED. */
int record_add(record *r, record_kind which, const double *values);

/* Waits until all rows are on the disk, and reports the bytes (RECORD_FILES) that the files have now. */
int record_sync(record *r, int64_t *bytes);

/* NULL: the system has no such file. */
const char *record_file_name(const record *r, int file);

/* Of a file that some system has. */
const char *record_any_file_name(int file);
