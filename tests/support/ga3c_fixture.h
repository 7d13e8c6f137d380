/* SPDX-License-Identifier: MIT */
/* Fixture of the tests of GA3C: an environment whose rewards and episodes follow from its seed alone, and a model whose
 * values follow from the observation, which writes down all that it is trained on. */
#pragma once

#include "run/ga3c/handle.h"

#include <pthread.h>

/*
 * The environment: 4 numbers of float32 (id, episode, step of the episode, step of the environment), 4 actions.
 * Options, given to its init as "a,b":
 *   length=L   each episode has L steps; otherwise 1 to 12, as id and episode say
 *   truncate   every second episode is cut off
 *   lives      every second end of an episode is the loss of a life
 *   sparse     the only reward is 1, with the last step of an episode
 *   fail=N     its step N is refused
 *   nan=N      the reward of its step N is not a number
 *   delay      each step takes up to 200 microseconds, as chance has it
 *   slow       each step takes 2 milliseconds
 *   frames     its observations are frames of 2 x 3 bytes (id 0 and 1, episode, step, 0, step of the environment)
 */
extern const gpur_env_type ga3c_fixture_env;

enum { GA3C_ACTIONS = 4, GA3C_FEATURES = 4, GA3C_FRAME = 6, GA3C_STACK = 4 };

/* What the environment does. */
int32_t ga3c_env_length(const char *options, int32_t id, int32_t episode);
int ga3c_env_is_cut_off(const char *options, int32_t episode);
float ga3c_env_reward(const char *options, int32_t id, int32_t total, int is_last);

int64_t ga3c_count_entries(gpur_queue *queue);

/* What the model says. */
float ga3c_fake_value(int32_t id, int32_t episode, int32_t t);
int32_t ga3c_fake_action(uint32_t lane, uint64_t step);

/* A step that was trained on. */
typedef struct ga3c_row {
    int32_t id, episode, t, total, action;
    float returned;
    int64_t batch, at; /* the number of the batch, and of the row in it */
    unsigned char stack[GA3C_STACK * GA3C_FRAME];
} ga3c_row;

typedef struct ga3c_fake {
    pthread_mutex_t lock;
    int has_frames;
    ga3c_row *rows; /* (count) in the order of training; NULL if they are not kept */
    int64_t count, room;
    _Atomic int64_t steps; /* train steps */
    _Atomic int64_t greedy, pulls, locals, published, largest_prediction;
    int64_t predict_fails_at, train_fails_at; /* the number of a call, from 1 on; 0: never */
    int64_t diverges_at;                      /* train steps after which values are infinite; 0: never */
    _Atomic int64_t predictions;
    /* The first prediction waits until so many requests are in the queue, and the first train step until so many
     * rollouts were put into theirs or dropped, and so many were left; for 20 s at most. */
    _Atomic int64_t awaited_requests, awaited_rollouts, awaited_left;
    _Atomic int waited_in_vain;
    gpur_run **run;
    int64_t max_batch;
    gpur_device *device;
    _Atomic int is_closed;
} ga3c_fake;

/* Settings of a run, and of its environments. */
typedef struct ga3c_settings {
    gpur_ga3c_config run;
    gpur_run_config all;
} ga3c_settings;

typedef struct ga3c_fixture {
    gpur_device *device;
    ga3c_fake fake;
    gpur_run *run;
    int64_t episodes, tuned;                       /* events */
    int64_t lengths;                               /* sum of the episodes' */
    double returns;                                /* likewise */
    int changes_numbers;                           /* 1: each episode's event sets other numbers of threads */
    gpur_status changed;                           /* the first error of that */
    void (*on_tuned)(const gpur_run_event *event); /* called if it is not NULL */
} ga3c_fixture;

/* Defaults: 4 agents, one predictor, one trainer. */
ga3c_settings ga3c_fixture_config(const char *env_options);

/* Opens all of it, on the CPU, with on_event set. Returns the first error; the caller always calls ga3c_fixture_close,
 * after which the rows are still there. ga3c_fixture_free frees them. */
gpur_status ga3c_fixture_open(ga3c_fixture *f, const ga3c_settings *config);
void ga3c_fixture_close(ga3c_fixture *f);
void ga3c_fixture_free(ga3c_fixture *f);

gpur_run_stats ga3c_fixture_stats(const ga3c_fixture *f);

/* A hash of all rows in their order. */
uint64_t ga3c_fixture_hash(const ga3c_fixture *f);
