/* SPDX-License-Identifier: MIT */
/* Fixture of the tests of runs: an environment whose every number follows from its seed and the actions taken, and a
 * device, a replay, a learner and a run on it. */
#pragma once

#include "run/fast_dqn/handle.h"

/*
 * The environment: 6 numbers of float32, 4 actions. Options, given to its init as "a,b":
 *   frames   its observations are frames of 3 x 5 bytes
 *   last     the replay stacks frames on the last axis
 *   repeat   it pads stacks by repeating the first frame
 *   vectors  its actions are vectors of RUN_NUMBERS, and the learner is one of deterministic policy gradients
 *   lives    every second end of an episode is the loss of a life
 *   unsaved  it cannot save its state
 *   cache=B  the learner has a cache of returns, of 96 entries, or the next multiple of B, in blocks of B; without =B
 *            of 6
 *   fail=N   its step N is refused
 *   bad=N    a number of the observation after its step N is NaN (without frames)
 *   endless=N  from its step N on no episode ends
 *   limit=N  it tells that a game has at most N steps, and leaves it to the library to end it
 */
extern const gpur_env_type run_fixture_env;

/* The same environments as one vector, with the seeds that a run gives its lanes at first, and others if it is made
 * again; in each mode of autoreset. */
extern const gpur_vector_env_type run_fixture_same_step, run_fixture_next_step;

enum { RUN_ACTIONS = 4, RUN_NUMBERS = 2, RUN_FEATURES = 6, RUN_FRAME = 15, RUN_STACK = 3 };

extern const float run_fixture_lows[RUN_NUMBERS], run_fixture_highs[RUN_NUMBERS];

typedef struct run_settings {
    gpur_run_config all;
    gpur_fast_dqn_config run;
} run_settings;

typedef struct run_fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_run *run;
    uint64_t events;  /* a hash of all events so far, in their order */
    int64_t episodes; /* events of each kind */
    int64_t evaluations;
} run_fixture;

/* Settings for a few hundred steps: C 48, F 4, 60 steps of prepopulation, an evaluation of 2 episodes every 96. */
run_settings run_fixture_config(int32_t num_envs, int concurrent, int synchronized);

/* Creates a run in these environments; `vector` may be NULL, and with it `type`. */
gpur_status run_fixture_create(gpur_learner *learner, const gpur_env_type *type, const gpur_vector_env_type *vector,
                               const run_settings *settings, gpur_run **run);

/* Opens all of it, with environments of their own or, unless it is NULL, with those of `vector`, and with
 * GPUR_LAYOUT_FRAMES if the options have "frames". Returns the first error; the caller always calls
 * run_fixture_close. */
gpur_status run_fixture_open(run_fixture *f, const gpur_device_config *device, const char *name,
                             const run_settings *config, const gpur_vector_env_type *vector);
void run_fixture_close(run_fixture *f);

/* Hashes of all that a run leaves behind; both 0 on an error. */
typedef struct run_hashes {
    uint64_t events, replay, weights;
} run_hashes;
run_hashes run_fixture_hashes(run_fixture *f);

static inline int run_hashes_agree(run_hashes a, run_hashes b)
{
    return a.replay && a.events == b.events && a.replay == b.replay && a.weights == b.weights;
}

/* Delays threads by up to 300 microseconds, as a hash of schedule (1, 2, ...), part and step says; 0: not at all. */
void run_fixture_delay(run_fixture *f, uint64_t schedule);
