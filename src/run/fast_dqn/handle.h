/* SPDX-License-Identifier: MIT */
/*
 * The handle of a run of fast DQN. Its work is ordered by sequence.h. The thread that advances it carries that order
 * out (advance.c), the environment threads step the slots, the trainer's thread trains, and that of the evaluation
 * evaluates (jobs.c).
 */
#pragma once

#include "gpureplay/fast_dqn.h"
#include "gpureplay/policy.h"
#include "learn/learner.h"
#include "run/core.h"
#include "run/evaluate.h"
#include "run/evaluating_policy.h"
#include "run/fast_dqn/env_slot.h"
#include "run/fast_dqn/job_thread.h"
#include "run/fast_dqn/meter.h"
#include "run/fast_dqn/sequence.h"

/* The environments of the slots, if they are one vector. */
typedef struct gpur_vector {
    const gpur_vector_env_type *type; /* NULL: the slots have environments of their own */
    void *env;
    void *memory;
    gpur_vector_result result; /* (W, ...) in `memory` */
} gpur_vector;

/* A thread that steps the slots `index`, index + threads, ... Its jobs are the global steps; it is woken for those of
 * its slots, and passes over the others. */
typedef struct gpur_env_thread {
    struct gpur_fast_dqn *run;
    int32_t index;
    gpur_job_thread jobs;
} gpur_env_thread;

/* What a run lets its learner and its policies do. Tests and benchmarks set functions of their own. */
typedef struct gpur_fast_dqn_work {
    /* The actions with the largest Q values of `count` observations. Any thread. */
    gpur_status (*infer)(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions);

    /* The same of a learner of continuous actions, with the noise of its exploration: (count, numbers) of -1 to 1. */
    gpur_status (*infer_vectors)(gpur_policy *policy, const gpur_policy_input *input, float *actions);

    /* Gives a policy the weights GPUR_WEIGHTS_*, after the train steps so far. Not while `train` or `refresh` runs. */
    gpur_status (*pull)(gpur_policy *policy, gpur_learner *learner, int32_t weights);

    /* Runs `steps` train steps, and returns when they are done. In the trainer's thread. */
    gpur_status (*train)(gpur_learner *learner, int64_t steps);

    /* Fills the learner's cache of returns anew, before the train steps that follow. In the trainer's thread. */
    gpur_status (*refresh)(gpur_learner *learner);
} gpur_fast_dqn_work;

/* Called at the beginning of a task, in the thread that carries it out: tests delay threads with it. */
typedef void (*gpur_fast_dqn_delay)(void *context, gpur_run_phase phase, int64_t step);

typedef struct gpur_fast_dqn {
    gpur_run core;
    gpur_fast_dqn_config config;
    gpur_sequence_shape shape;
    gpur_learner *learner;
    gpur_obs_shape obs_shape;
    gpur_env_info info;
    int32_t threads;
    gpur_fast_dqn_work work;
    gpur_policy *acting, *evaluating; /* `evaluating` is NULL if there are no evaluations */
    gpur_fast_dqn_delay delay;        /* NULL: none */
    void *delay_context;

    unsigned char *obs;    /* (W, obs) what the network sees of each environment */
    int32_t numbers;       /* of an action vector; 0: actions are numbers */
    unsigned char *chosen; /* (W, action_bytes) the next action of each slot: an int32, or floats of -1 to 1 */
    float *scaled;         /* (W, numbers) vectors as the environments take them */
    float *noises;         /* (W) sigma of each, as inferences take it; and what their random numbers follow from */
    uint32_t *noise_lanes;
    uint64_t *noise_steps;
    gpur_env_slot *slots; /* (W) */
    gpur_vector vector;
    gpur_env_thread *env_threads; /* (threads) */
    gpur_job_thread trainer;      /* its jobs are train steps */
    gpur_job_thread evaluation;   /* its jobs are evaluations, each of the weights that were copied for it */
    gpur_evaluator evaluator;
    gpur_evaluating_policy playing; /* of vectors: acts by `evaluating` */
    gpur_run_event evaluated;       /* the event of the evaluation that is played, or was the last */
    _Atomic int failing;            /* 1: a job of a thread has failed */
    _Atomic int is_catching_up;     /* 1: gpur_run_stop does not pause threads, which take the last steps that remain */
    gpur_meter meter;

    /* Used only by the thread that advances. */
    int32_t have_envs_begun;    /* 1: each environment has begun its first episode */
    int32_t has_begun;          /* 1: the prepopulation is over */
    int32_t prepopulation_ends; /* 1: its last step ended a game */
    int64_t step;               /* the last global step that was dispatched */
    int64_t released;           /* the last one that the environment threads know of */
    int64_t joined;             /* the last one that all of them are known to have taken */
    int32_t next_op;            /* of the operations of step + 1, the first that was not carried out */
    int64_t train_steps;        /* begun */
    int64_t refresh_at;      /* the last train step that a refresh comes before; the trainer reads it while it trains */
    int64_t begun, reported; /* evaluations */
} gpur_fast_dqn;

static inline gpur_fast_dqn *gpur_fast_dqn_of(gpur_run *run)
{
    return (gpur_fast_dqn *)(void *)run;
}

/* 1: threads pause, since the run was stopped or a thread has failed. */
static inline int gpur_fast_dqn_pauses(gpur_fast_dqn *run)
{
    return atomic_load_explicit(&run->failing, memory_order_relaxed) ||
           (gpur_run_is_stopping(&run->core) && !atomic_load_explicit(&run->is_catching_up, memory_order_relaxed));
}

static inline void gpur_fast_dqn_call_delay(const gpur_fast_dqn *run, gpur_run_phase phase, int64_t step)
{
    if (run->delay)
        run->delay(run->delay_context, phase, step);
}

/* The runner of an environment; `index` W and above: of one of evaluations. */
static inline gpur_env_runner *gpur_fast_dqn_runner(const gpur_fast_dqn *run, int32_t index)
{
    const int32_t envs = run->shape.envs;
    return index < envs ? &run->slots[index].runner : &run->evaluator.runners[index - envs];
}

/* The network that acts. */
static inline const gpur_network_config *gpur_fast_dqn_network(const gpur_fast_dqn *run)
{
    return run->learner->networks[0].config;
}

/* The bytes of an action. */
static inline int64_t gpur_fast_dqn_action_bytes(const gpur_fast_dqn *run)
{
    return run->numbers > 0 ? run->numbers * (int64_t)sizeof(float) : (int64_t)sizeof(int32_t);
}

/* The action that was chosen for a slot. */
static inline void *gpur_fast_dqn_chosen(const gpur_fast_dqn *run, int32_t slot)
{
    return run->chosen + slot * gpur_fast_dqn_action_bytes(run);
}

/* The same, as its environment takes it. Actions of the slots after it follow in memory. */
const void *gpur_fast_dqn_env_action(const gpur_fast_dqn *run, int32_t slot);

/* The settings, config.c. */

/* Reads and checks the settings, for a run whose core and learner are set. */
gpur_status gpur_fast_dqn_configure(gpur_fast_dqn *run, const gpur_fast_dqn_config *given);

/* The environments of slots and of evaluations, envs.c. */

/* Makes all environments and opens their slots; the slots have been allocated. */
gpur_status gpur_fast_dqn_open_envs(gpur_fast_dqn *run);

/* Begins the first episode of every slot. */
gpur_status gpur_fast_dqn_begin_envs(gpur_fast_dqn *run);

/* After a load: makes environments that cannot be saved again, with the seeds that follow from the steps taken, and
 * begins an episode of every slot. */
gpur_status gpur_fast_dqn_remake_envs(gpur_fast_dqn *run);

/* The slots as one vector environment, which steps all of them at once, vector.c. */

/* Allocates the arrays of a step. */
gpur_status gpur_vector_open(gpur_fast_dqn *run);
void gpur_vector_close(gpur_vector *vector); /* accepts a zeroed one */
void gpur_vector_close_env(gpur_vector *vector);

/* Begins the first episode of every slot. */
gpur_status gpur_vector_begin(gpur_fast_dqn *run);

/* Takes a step of every slot: those numbered step, step + 1, ..., by their chosen actions. *transitions: steps
 * that did not only begin an episode. *ended: 1 if a game has ended. */
gpur_status gpur_vector_step(gpur_fast_dqn *run, int64_t step, int64_t *transitions, int *ended);

/* The jobs of the threads, jobs.c. */

/* As gpur_jobs; the context is the gpur_env_thread, and for the other two the run. */
gpur_status gpur_env_jobs(void *context, int64_t first, int64_t last, int64_t *done);
gpur_status gpur_train_jobs(void *context, int64_t first, int64_t last, int64_t *done);
gpur_status gpur_evaluation_jobs(void *context, int64_t first, int64_t last, int64_t *done);

/* Chooses the actions of `count` slots from `first` on by the network: of numbers the best ones, of vectors with noise.
 * The thread of these slots, and the one that advances. */
gpur_status gpur_fast_dqn_infer(gpur_fast_dqn *run, int32_t first, int32_t count);

/* A random step before step 1: of slot 0, or of a whole vector. *taken: the transitions that it made. */
gpur_status gpur_fast_dqn_random_step(gpur_fast_dqn *run, int64_t step, int64_t *taken, int *ended);

/* Functions of gpur_run_system: advance.c, state.c. */

gpur_status gpur_fast_dqn_check_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_fast_dqn_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_fast_dqn_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);
gpur_status gpur_fast_dqn_save(gpur_run *core, const char *folder);
gpur_status gpur_fast_dqn_load(gpur_run *core, const char *folder, int32_t refill);

/* Parts of an advance, advance.c. */

/* Gives the policy that acts the weights that it acts by. Only while no train step runs. */
gpur_status gpur_fast_dqn_copy_weights(gpur_fast_dqn *run);

/* Moves all logs to the replay. Only while no train step runs. */
gpur_status gpur_fast_dqn_flush(gpur_fast_dqn *run);

/* 1: steps, train steps or an evaluation were begun and not finished, because the run was stopped. */
int gpur_fast_dqn_has_unfinished(const gpur_fast_dqn *run);
