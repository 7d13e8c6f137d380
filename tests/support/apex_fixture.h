/* SPDX-License-Identifier: MIT */
/* Fixture of the tests of Ape-X: a device, a replay, a learner and a run on it, for one of some environments; and the
 * actors' side of it, for the same test program in another process. */
#pragma once

#include "gpureplay/sac.h"
#include "run/apex/handle.h"
#include "run/apex/transport/connection.h"

/*
 * The environments, by their name:
 *
 *   "numbers"   run_fixture_env, with the options that follow a colon: "numbers:fail=7"
 *   "frames"    frames of 84 x 84 bytes, of which a block of 50 has more than 350,000 bytes
 *   "cartpole"  CartPole-v1; the limiter is on
 *   "pendulum"  Pendulum, and a learner of DPG
 *   "td3"       the same with two critics
 *   "sac"       Pendulum, and a learner of SAC
 */
typedef struct apex_settings {
    gpur_run_config run; /* with the environment */
    gpur_field fields[GPUR_APEX_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_dpg_config dpg;
    int has_dpg; /* 1: `dpg` is the learner's */
    gpur_sac_config sac;
    int has_sac; /* 1: `sac` is */
    gpur_apex_config apex;
} apex_settings;

/* Those of "apex-dqn-small" or "apex-dpg-small", in sizes for a test: 3 actors, blocks of 10, learning from 200
 * transitions on, no limiter. */
gpur_status apex_fixture_settings(const char *name, apex_settings *s);

/* The networks of its learner, in memory of the block that has the expression. */
#define APEX_NETWORKS(s)                                                                                               \
    (&(gpur_apex_networks){.size = sizeof(gpur_apex_networks),                                                         \
                           .acting = (s)->has_sac   ? &(s)->sac.actor                                                  \
                                     : (s)->has_dpg ? &(s)->dpg.actor                                                  \
                                                    : &(s)->learner.network,                                           \
                           .critic = (s)->has_sac   ? &(s)->sac.critic                                                 \
                                     : (s)->has_dpg ? &(s)->dpg.critic                                                 \
                                                    : NULL,                                                            \
                           .critics = (s)->has_sac   ? (s)->sac.critics                                                \
                                      : (s)->has_dpg ? (s)->dpg.critics                                                \
                                                     : 0})

typedef struct apex_fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_run *run;
    gpur_apex *apex; /* the same run */
    /* Of the events so far. */
    int64_t kinds[5];
    int64_t steps, lost_blocks, lost_rows; /* sums of those of ENDED; without the actor that evaluates */
    int64_t asked;                         /* ENDED as asked */
    gpur_run_event evaluation;             /* the last one */
    double best_return;                    /* of an episode */
    float noise;                           /* epsilon of the actor that ended the last one */
    int32_t most_actor;                    /* the largest number of an actor that ended an episode */
    char error[512];                       /* of the last ENDED that had one */
} apex_fixture;

/* Opens all of it, with on_event set. Returns the first error; the caller always calls apex_fixture_close. */
gpur_status apex_fixture_open(apex_fixture *f, const char *device_name, const gpur_device_config *device,
                              const apex_settings *s);
void apex_fixture_close(apex_fixture *f);

/* Advances until a block of each of the first so many actors has come, and by some train steps; at most 30 s. */
gpur_status apex_fixture_await_actors(apex_fixture *f, int32_t actors);

/* Asks all actors to end, and advances until they have; at most 30 s. */
gpur_status apex_fixture_end_actors(apex_fixture *f);

gpur_run_stats apex_fixture_stats(const apex_fixture *f);

/* The command of a process whose main() of test program `test` gets "actor", `kind` and the name of the environment. It
 * is valid until the next call. */
const char *const *apex_fixture_command(const char *test, const char *kind, const char *name);

/* What such a process does: "serve" is gpur_apex_serve, and "narrow", too, with a socket that holds a hundredth of a
 * block of frames, so that each is sent in pieces; otherwise blocks are changed on their way:
 *   "again"    each is sent twice
 *   "gaps"     every second one is not sent
 *   "damaged"  the 5th has a wrong byte
 *   "foreign"  all are of another actor
 *   "noise"    in place of the 5th come bytes that are no message
 *   "exit"     the process ends at once with status 7
 *   "killed"   actor 1 is killed at each of its starts; with "all killed" all actors are, and with "evaluator killed"
 *              the one that evaluates */
int apex_fixture_serve(const char *kind, const char *name);
