/* SPDX-License-Identifier: MIT */
/*
 * The part of a handle that every run has, whatever its system: environments, the flag of gpur_run_stop, the error that
 * ends it, events, returns and statistics. A system's handle begins with a gpur_run, and has a gpur_run_system: the
 * functions behind the public ones.
 */
#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "gpureplay/run_handle.h"
#include "run/env_runner.h"

#include <stdatomic.h>

enum { GPUR_RUN_ERROR = 1024, GPUR_RUN_RECENT = 100 };

/* The functions up to `load` are called by the thread that advances, with arguments that were checked, and on a run
 * that has not ended. Any thread calls `fill_stats` and `loss`, also on a run that has ended. */
typedef struct gpur_run_system {
    /* 1: its train steps do not follow from its environment steps. Then an advance may limit the train steps, and a
     * load may leave the replay to be filled again. */
    int32_t has_free_learner;

    /* 1: it can be saved only where a period ends, and its advances end there when the run is to end soon. 0: at any
     * step. */
    int32_t is_saved_between_periods;

    /* Refuses arguments. NULL: nothing is to be refused. */
    gpur_status (*check_advance)(gpur_run *run, int64_t env_steps, int64_t train_steps);

    /* Takes the steps. An error other than GPUR_INTERRUPTED ends the run. */
    gpur_status (*advance)(gpur_run *run, int64_t env_steps, int64_t train_steps);

    /* Evaluates, and fills in *event: the return and its deviation, episodes, length, steps and version. An error does
     * not end the run. */
    gpur_status (*evaluate)(gpur_run *run, int64_t episodes, int32_t greedy, gpur_run_event *event);

    /* Write and read the folder. Errors do not end the run. */
    gpur_status (*save)(gpur_run *run, const char *folder);
    gpur_status (*load)(gpur_run *run, const char *folder, int32_t refill);

    /* Fills in what is not counted in run->stats. Under the lock. */
    void (*fill_stats)(gpur_run *run, gpur_run_stats *stats);

    /* The loss of the last train step that the host knows of. Under the lock. */
    double (*loss)(gpur_run *run);

    /* Ends all threads and frees the handle, which may have been opened in part. */
    void (*destroy)(gpur_run *run);
} gpur_run_system;

typedef struct gpur_run_events {
    gpur_run_event *list; /* (count) texts of errors are memory of their own, unless they are "" */
    int64_t count, room;
} gpur_run_events;

/* The returns of the last episodes, in a ring. */
typedef struct gpur_run_returns {
    double values[GPUR_RUN_RECENT];
    int64_t count; /* ever added */
} gpur_run_returns;

struct gpur_run {
    const gpur_run_system *system;
    gpur_learner *learner;  /* of events; NULL where a test has none */
    gpur_run_config config; /* its env_options are memory of the run */
    int64_t evaluated_at;  /* environment steps of the last evaluation that was due. Of the thread that advances */
    _Atomic int ends_soon; /* 1: advances end at the next point where the run can be saved */
    _Atomic int stopping;  /* gpur_run_stop was called, and the call that it ends has not returned yet */

    gpur_mutex lock;      /* protects what follows */
    gpur_run_stats stats; /* what is counted as it happens */
    gpur_run_returns returns;
    gpur_run_events events;
    double started;     /* when the present or the last advance began */
    gpur_status status; /* other than GPUR_OK: the run has ended, with this message */
    char error[GPUR_RUN_ERROR];
};

/* Reads settings, and refuses values that no run can have. */
gpur_status gpur_run_read_config(const gpur_run_config *given, gpur_run_config *config);

/* Refuses a vector environment, for systems whose environments step one at a time. */
gpur_status gpur_run_require_type(const gpur_run_config *config, const char *system);

/* Opens the core of a zeroed handle. After a failure call gpur_run_close. */
gpur_status gpur_run_open(gpur_run *run, const gpur_run_system *system, const gpur_run_config *given);
void gpur_run_close(gpur_run *run); /* without freeing the handle */

static inline int gpur_run_is_stopping(gpur_run *run)
{
    return atomic_load_explicit(&run->stopping, memory_order_relaxed);
}

/* Lets the present advance and those after it end at the next point where the run can be saved. Between two periods
 * they return GPUR_OK, as if they had been asked for no more steps; where the run can be saved at any step, this is
 * gpur_run_stop. Any thread; also safe in a signal handler. */
void gpur_run_end_soon(gpur_run *run);

/* Ends the run, if it has not ended before. Under the lock. */
void gpur_run_end(gpur_run *run, gpur_status status, const char *error);

/* Ends the run with the message of this thread's error, if it has not ended before. Without the lock. */
void gpur_run_fail(gpur_run *run, gpur_status status);
int gpur_run_has_failed(gpur_run *run);

/* Ends a run whose load failed after something of it had changed, and returns the error that says so. */
gpur_status gpur_run_fail_loading(gpur_run *run, gpur_status status);

/* Refuses NULL, and a run that has ended. */
gpur_status gpur_run_check_open(gpur_run *run);

/* Adds a return to the last ones. Under the lock. */
void gpur_run_add_return(gpur_run *run, double episode_return);

/* Counts an episode that has ended, and its return. Under the lock. */
void gpur_run_count_episode(gpur_run *run, double episode_return);

/* Adds an event that is not an evaluation. Sets its `size`, `run`, `learner` and `loss`. Under the lock. */
void gpur_run_add_event(gpur_run *run, gpur_run_event event);

/* Calls on_event for all events that were added. In the thread that advances, without the lock. */
void gpur_run_deliver_events(gpur_run *run);

/* Counts an evaluation that has ended, and calls on_event for it, and then for the events that were added. In the
 * thread that advances, without the lock. */
void gpur_run_report_evaluation(gpur_run *run, const gpur_run_event *event);

/* The seed of an environment: `index` counts the environments of a run, `made` says what distinguishes it from those
 * that had the same index before, such as the steps that were taken by then. */
uint64_t gpur_run_env_seed(uint64_t seed, int32_t index, int64_t made);

/* In how many environments so many episodes of an evaluation are played. */
int32_t gpur_run_eval_envs(const gpur_run_config *config, int64_t episodes);

/* Makes an environment for a runner whose type is set, and lets the runner take it. */
gpur_status gpur_run_make_env(const gpur_run_config *config, uint64_t seed, gpur_env_runner *runner,
                              gpur_env_info *info);
