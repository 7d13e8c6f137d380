/* SPDX-License-Identifier: MIT */
/* A thread that reads the statistics of a run while another one advances it: it shows the progress line, and fills
 * rates.csv. */
#pragma once

#include "agent.h"
#include "record.h"

/* What the statistics of the run and of the learner were at a moment. */
typedef struct progress_sample {
    double seconds; /* that the run has taken */
    int64_t step;
    gpur_run_stats run;
    gpur_learner_stats learner;
} progress_sample;

typedef struct progress {
    const agent *agent;
    const char *preset;
    record *record;
    int64_t steps, prepopulation; /* of the whole run */
    int64_t eval_episodes;        /* of an evaluation */
    int64_t target_period;        /* of Ape-X, in train steps */
    int has_limiter;              /* likewise: 1 with samples_per_insert */
    int64_t drawn_entries;        /* of the cache of returns, by a train step; 0: there is no cache */
    int64_t first_step;           /* where this program began or resumed it */
    double first_seconds;
    int has_dpg; /* 1: the learner is of DPG */
    int is_quiet;

    /* Of the thread. */
    double began;    /* on the clock */
    int64_t counted; /* environment steps that the statistics had at the beginning */
    int is_terminal, rows;
    int has_warned;              /* of old weights, or of games that were cut off */
    double printed;              /* seconds of the last line, where there is no terminal */
    progress_sample first, last; /* of the beginning, and of the last row */
    double rates[MAX_COLUMNS];   /* that are shown */
    pthread_t thread;
    int has_thread;
    pthread_mutex_t lock; /* protects quits */
    pthread_cond_t wake;
    int quits;
} progress;

/* Starts the thread. The members up to is_quiet are set, the others 0. */
int progress_start(progress *p);

/* Ends the thread, after a last row and a last line. Accepts one that was not started. */
void progress_stop(progress *p);

/* Seconds that the run has taken, also before it was resumed. Any thread. */
double progress_seconds(const progress *p);
