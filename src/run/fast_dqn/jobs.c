/* SPDX-License-Identifier: MIT */
/* The jobs of the threads: steps of environments, train steps, and evaluations. */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "kernels/lib/random.h"
#include "run/action_vectors.h"

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

/* The numbers of a slot's random vector are uniform over [-1, 1). They follow from the same. */
static void choose_at_random(const gpur_fast_dqn *run, int32_t slot)
{
    gpur_u32x4 bits = {{0}};
    float *const vector = gpur_fast_dqn_chosen(run, slot);
    for (int32_t k = 0; k < run->numbers; k++) {
        if (k % 4 == 0)
            bits = gpur_random_bits(run->core.config.seed, GPUR_RANDOM_RUN_EXPLORE | (uint32_t)(k / 4) << 16,
                                    run->slots[slot].steps, (uint32_t)slot);
        vector[k] = 2.0f * gpur_random_uniform(bits.v[k % 4]) - 1.0f;
    }
}

/* Chooses a random action with probability epsilon, in the prepopulation always; later the network chooses vectors.
 * Returns 0 if it has not. */
static int try_random(const gpur_fast_dqn *run, int32_t slot, int64_t step)
{
    const int is_before = step <= 0;
    if (run->numbers > 0 && is_before)
        choose_at_random(run, slot);
    if (run->numbers > 0)
        return is_before;
    const float epsilon = is_before ? 1.0f : gpur_learner_epsilon(run->learner, step);
    const int32_t action = explore(run, slot, run->slots[slot].steps, epsilon);
    if (action >= 0)
        *(int32_t *)gpur_fast_dqn_chosen(run, slot) = action;
    return action >= 0;
}

const void *gpur_fast_dqn_env_action(const gpur_fast_dqn *run, int32_t slot)
{
    return run->numbers > 0 ? (const void *)(run->scaled + (int64_t)slot * run->numbers)
                            : gpur_fast_dqn_chosen(run, slot);
}

static void scale(const gpur_fast_dqn *run, int32_t slot)
{
    if (run->numbers > 0)
        gpur_action_scale(&run->info.action, run->numbers, gpur_fast_dqn_chosen(run, slot),
                          run->scaled + (int64_t)slot * run->numbers);
}

/* The noise follows from the seed, the slot and its number of steps, as random actions do. */
static gpur_status infer_vectors(gpur_fast_dqn *run, int32_t first, int32_t count, const unsigned char *obs)
{
    const int has_noise = gpur_fast_dqn_network(run)->head == GPUR_HEAD_TANH_ACTION;
    for (int32_t i = first; i < first + count; i++) {
        run->noises[i] = run->config.sigma;
        run->noise_lanes[i] = (uint32_t)i;
        run->noise_steps[i] = run->slots[i].steps;
    }
    const gpur_policy_input input = {.size = sizeof input,
                                     .count = count,
                                     .obs = obs,
                                     .sigma = has_noise ? run->noises + first : NULL,
                                     .lane = run->noise_lanes + first,
                                     .step = run->noise_steps + first};
    return run->work.infer_vectors(run->acting, &input, gpur_fast_dqn_chosen(run, first));
}

gpur_status gpur_fast_dqn_infer(gpur_fast_dqn *run, int32_t first, int32_t count)
{
    const double begin = gpur_clock_seconds();
    const unsigned char *const obs = run->obs + first * gpur_obs_bytes(&run->obs_shape);
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_INFER, 0);
    const gpur_status status = run->numbers > 0
                                   ? infer_vectors(run, first, count, obs)
                                   : run->work.infer(run->acting, count, obs, gpur_fast_dqn_chosen(run, first));
    gpur_meter_add(&run->meter, GPUR_PHASE_INFER, count, begin);
    return status;
}

static gpur_status take_step(gpur_fast_dqn *run, gpur_env_slot *slot, int64_t step)
{
    int ended;
    if (!try_random(run, slot->index, step) && !run->shape.synchronized)
        GPUR_TRY(gpur_fast_dqn_infer(run, slot->index, 1));
    const double begin = gpur_clock_seconds();
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_ENV, step);
    scale(run, slot->index);
    const gpur_status status = gpur_env_slot_step(slot, step, &ended);
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
        (void)try_random(run, i, first > 0 ? first + i : first);
        scale(run, i);
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
        (void)try_random(run, 0, step);
        scale(run, 0);
        status = gpur_env_slot_name_error(slot, step, gpur_env_slot_step(slot, step, ended));
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
    if (run->numbers > 0)
        return gpur_evaluating_policy_act(&run->playing, count, obs, streams, steps, 0.0f, 1, chosen);
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
