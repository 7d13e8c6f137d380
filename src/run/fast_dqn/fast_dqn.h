/* SPDX-License-Identifier: MIT */
/* The run handle. Its work is ordered by run/sequence.h; the thread that advances it carries that order out, the
 * environment threads step the slots, the trainer's trains, and the evaluator's evaluates. */
#pragma once

#include "run/fast_dqn/env_slot.h"
#include "run/fast_dqn/meter.h"
#include "run/fast_dqn/sequence.h"
#include "run/fast_dqn/vector.h"
#include "run/fast_dqn/learner_work.h"
#include "run/fast_dqn/job_thread.h"

/* A thread that steps the slots `index`, index + threads, ... Its jobs are the global steps; it is woken for those of
 * its slots, and passes over the others. */
typedef struct gpur_env_thread {
    gpur_run *run;
    int32_t index;
    gpur_job_thread worker;
} gpur_env_thread;

/* The evaluator. Its jobs are evaluations; each is of the weights that were copied for it. */
typedef struct gpur_evaluator {
    gpur_job_thread worker;
    gpur_env_runner runner;
    uint64_t steps;          /* it has taken, for its random numbers */
    _Atomic int64_t episode; /* that is played, counted from 1; 0: none is */
    _Atomic int64_t cut;     /* as the runner's */
    int64_t begun, reported; /* evaluations begun, and reported as events */
    gpur_run_event result;   /* of the last one */
} gpur_evaluator;

enum { GPUR_RECENT_EPISODES = 100 };

/* Called at the beginning of a task, in the thread that carries it out: tests delay threads with it. */
typedef void (*gpur_fast_dqn_delay)(void *context, gpur_run_phase part, int64_t step);

struct gpur_run {
    gpur_run_config config;
    gpur_sequence_shape shape;
    gpur_learner *learner;
    gpur_obs_shape obs_shape;
    gpur_env_info info;
    int32_t threads;
    gpur_learner_work learner_work;
    gpur_fast_dqn_work work;
    gpur_fast_dqn_delay delay; /* NULL: none */
    void *delay_context;

    unsigned char *obs;           /* (W + 1, obs) what the network sees of each slot, and of the evaluation */
    int32_t *greedy;              /* (W) actions of the last inference, with `synchronized` */
    gpur_env_slot *slots;         /* (W) */
    gpur_vector vector;           /* their environments, if they are one vector */
    gpur_env_thread *env_threads; /* (threads) */
    gpur_job_thread trainer;      /* its jobs are train steps */
    gpur_evaluator evaluator;

    /* Of the thread that advances. */
    int has_begun, has_ended;
    int64_t step;        /* the last global step that was dispatched */
    int64_t dispatched;  /* the last one that the slots know of */
    int64_t train_steps; /* begun */
    int64_t refresh_at;  /* the last train step that a refresh comes before; the trainer reads it while it trains */

    _Atomic int stopping;
    gpur_meter meter;
    gpur_mutex stats_lock; /* protects what follows */
    double recent[GPUR_RECENT_EPISODES];
    int64_t episodes, prepopulated;
    double evaluated_return, seconds;
};

/* What the slots and the evaluation act in: `env` for both; or `vector` for the slots, and for the evaluation `env`, or
 * a vector of one slot if that is NULL. */
typedef struct gpur_run_types {
    const gpur_env_type *env;
    const gpur_vector_env_type *vector;
} gpur_run_types;

/* gpur_run_create with another table of work than a learner's; NULL: the learner's. The learner and its replay are used
 * for their settings, and the replay to publish. */
gpur_status gpur_run_create_with(gpur_learner *learner, gpur_run_types types, const gpur_run_config *config,
                                 const gpur_fast_dqn_work *work, gpur_run **run);

/* Refuses NULL, and a run that has ended. */
gpur_status gpur_run_check_open(const gpur_run *run);

/* After a load: makes environments that cannot be saved again, with the seeds that follow from the steps taken, and
 * begins an episode of every slot. */
gpur_status gpur_fast_dqn_remake_envs(gpur_run *run);

/* Steps that the slots have taken. In a run that was stopped fewer than were dispatched: run->step. */
int64_t gpur_fast_dqn_steps_taken(gpur_run *run);

/* Waits for every thread, the evaluator included, and reports finished evaluations. */
gpur_status gpur_fast_dqn_join(gpur_run *run);

/* Moves all logs to the replay. Only while no train step runs. */
gpur_status gpur_fast_dqn_flush(gpur_run *run);

/* The seed of the environment of a slot; slot W: of the evaluation. `taken`: steps that the run had taken when it made
 * the environment, the prepopulation included. */
uint64_t gpur_run_env_seed(uint64_t seed, int32_t slot, int64_t taken);
