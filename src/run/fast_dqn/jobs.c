/* SPDX-License-Identifier: MIT */
/* The jobs of the threads: steps of environments, train steps, and evaluations. */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "kernels/lib/random.h"

enum { TRAIN_SLICE = 32 }; /* train steps between two looks at whether to pause */

/* Acting. */

/* The random action of a slot's next step, or -1: it acts greedily. A pure function of the seed, the slot and its
 * number of steps, so that no timing of threads changes it. */
static int32_t explore(const gpur_fast_dqn *run, int32_t slot, uint64_t steps, float epsilon)
{
    const gpur_u32x4 bits = gpur_random_bits(run->core.config.seed, GPUR_RANDOM_RUN_EXPLORE, steps, (uint32_t)slot);
    return gpur_random_uniform(bits.v[2]) < epsilon
               ? (int32_t)gpur_random_below(bits, (uint64_t)run->info.action.num_actions)
               : -1;
}

gpur_status gpur_fast_dqn_infer(gpur_fast_dqn *run, int64_t count, const unsigned char *obs, int32_t *actions)
{
    const double begin = gpur_clock_seconds();
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_INFER, 0);
    const gpur_status status = run->work.infer(run->acting, count, obs, actions);
    gpur_meter_add(&run->meter, GPUR_PHASE_INFER, count, begin);
    return status;
}

static gpur_status take_step(gpur_fast_dqn *run, gpur_env_slot *slot, int64_t step)
{
    int ended;
    int32_t action = explore(run, slot->index, slot->steps, gpur_learner_epsilon(run->learner, step));
    if (action < 0 && run->shape.synchronized)
        action = run->greedy[slot->index];
    else if (action < 0)
        GPUR_TRY(gpur_fast_dqn_infer(run, 1, slot->runner.obs, &action));
    const double begin = gpur_clock_seconds();
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_ENV, step);
    const gpur_status status = gpur_env_slot_step(slot, step, action, &ended);
    slot->taken = step;
    gpur_meter_add(&run->meter, GPUR_PHASE_ENV, 1, begin);
    return status;
}

/* One step of a vector environment: the global steps `first` to first + W - 1. */
static gpur_status take_vector_step(gpur_fast_dqn *run, int64_t first, int64_t *transitions, int *ended)
{
    const double begin = gpur_clock_seconds();
    const int32_t slots = run->shape.envs;
    for (int32_t i = 0; i < slots; i++) {
        const float epsilon = first > 0 ? gpur_learner_epsilon(run->learner, first + i) : 1.0f;
        const int32_t action = explore(run, i, run->slots[i].steps, epsilon);
        if (action >= 0)
            run->greedy[i] = action;
    }
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_ENV, first);
    GPUR_TRY(gpur_vector_step(run, first, transitions, ended));
    if (first > 0)
        gpur_meter_add(&run->meter, GPUR_PHASE_ENV, slots, begin);
    return GPUR_OK;
}

static gpur_status step_vector(gpur_fast_dqn *run, int64_t first, int64_t last, int64_t *done)
{
    int64_t transitions, step = first;
    int ended;
    for (; step <= last && !gpur_fast_dqn_pauses(run); step += run->shape.envs) {
        GPUR_TRY(take_vector_step(run, step, &transitions, &ended));
        run->slots[run->shape.envs - 1].taken = step + run->shape.envs - 1;
    }
    *done = step - 1;
    return GPUR_OK;
}

gpur_status gpur_env_jobs(void *context, int64_t first, int64_t last, int64_t *done)
{
    const gpur_env_thread *const thread = context;
    gpur_fast_dqn *const run = thread->run;
    int64_t step = first;
    if (run->vector.type)
        return step_vector(run, first, last, done);
    for (; step <= last && !gpur_fast_dqn_pauses(run); step++) {
        gpur_env_slot *const slot = &run->slots[gpur_sequence_env_of(&run->shape, step)];
        if (slot->index % run->threads == thread->index)
            GPUR_TRY(gpur_env_slot_name_error(slot, step, take_step(run, slot, step)));
    }
    *done = step - 1;
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_random_step(gpur_fast_dqn *run, int64_t step, int64_t *taken, int *ended)
{
    gpur_env_slot *const slot = &run->slots[0];
    gpur_status status;
    *taken = 1;
    if (run->vector.type) {
        status = take_vector_step(run, gpur_min(step, 1 - run->shape.envs), taken, ended);
    } else {
        const int32_t action = explore(run, 0, slot->steps, 1.0f);
        status = gpur_env_slot_name_error(slot, step, gpur_env_slot_step(slot, step, action, ended));
    }
    return gpur_prefix_error(status, "a random step before training");
}

/* Training. */

gpur_status gpur_train_jobs(void *context, int64_t first, int64_t last, int64_t *done)
{
    gpur_fast_dqn *const run = context;
    int64_t at = first;
    for (int64_t steps; at <= last && !gpur_fast_dqn_pauses(run); at += steps) {
        const double begin = gpur_clock_seconds();
        steps = gpur_min(TRAIN_SLICE, last + 1 - at);
        gpur_fast_dqn_call_delay(run, GPUR_PHASE_TRAIN, at);
        if (at == run->refresh_at)
            GPUR_TRY(run->work.refresh(run->learner));
        GPUR_TRY(run->work.train(run->learner, steps));
        gpur_meter_add(&run->meter, GPUR_PHASE_TRAIN, steps, begin);
    }
    *done = at - 1;
    return GPUR_OK;
}

/* Evaluation. */

static gpur_status choose(void *context, int64_t count, const unsigned char *obs, const uint32_t *streams,
                          const uint64_t *steps, int32_t greedy, void *chosen)
{
    gpur_fast_dqn *const run = context;
    int32_t *const actions = chosen;
    const float epsilon = greedy ? 0.0f : run->core.config.eval_epsilon;
    int are_random = 1;
    for (int64_t i = 0; i < count; i++)
        are_random &= explore(run, (int32_t)streams[i], steps[i], epsilon) >= 0;
    if (!are_random)
        GPUR_TRY(run->work.infer(run->evaluating, count, obs, actions));
    for (int64_t i = 0; i < count; i++) {
        const int32_t action = explore(run, (int32_t)streams[i], steps[i], epsilon);
        actions[i] = action >= 0 ? action : actions[i];
    }
    return GPUR_OK;
}

static int pauses(void *context)
{
    return gpur_fast_dqn_pauses(context);
}

/* The next evaluation is begun when this one has been reported, so the job is one. */
gpur_status gpur_evaluation_jobs(void *context, int64_t first, int64_t last, int64_t *done)
{
    gpur_fast_dqn *const run = context;
    GPUR_TRY(gpur_prefix_error(gpur_evaluator_play(&run->evaluator, choose, run, pauses), "the evaluation"));
    *done = gpur_evaluator_is_over(&run->evaluator) ? last : first - 1;
    return GPUR_OK;
}
