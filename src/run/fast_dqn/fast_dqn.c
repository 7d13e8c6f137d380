/* SPDX-License-Identifier: MIT */
/* Creates and destroys runs of fast DQN. */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "learn/dqn/dqn.h"
#include "run/action_vectors.h"

#include <stdlib.h>

static void fill_stats(gpur_run *core, gpur_run_stats *stats)
{
    const gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    const gpur_meter *const meter = &run->meter;
    stats->env_steps = atomic_load(&meter->items[GPUR_PHASE_ENV]);
    stats->train_steps = atomic_load(&meter->items[GPUR_PHASE_TRAIN]);
    stats->env_seconds = gpur_meter_seconds(meter, GPUR_PHASE_ENV);
    stats->train_seconds = gpur_meter_seconds(meter, GPUR_PHASE_TRAIN);
    stats->fast_dqn.inferences = atomic_load(&meter->calls[GPUR_PHASE_INFER]);
    stats->fast_dqn.inferred = atomic_load(&meter->items[GPUR_PHASE_INFER]);
    stats->fast_dqn.infer_seconds = gpur_meter_seconds(meter, GPUR_PHASE_INFER);
    stats->fast_dqn.flush_seconds = gpur_meter_seconds(meter, GPUR_PHASE_FLUSH);
    stats->fast_dqn.copy_seconds = gpur_meter_seconds(meter, GPUR_PHASE_COPY);
    gpur_evaluator_fill_stats(&run->evaluator, stats);
}

static double loss(gpur_run *core)
{
    return gpur_learner_newest_loss(core->learner);
}

static void destroy(gpur_run *core)
{
    gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    atomic_store(&run->failing, 1);
    for (int32_t i = 0; run->env_threads && i < run->threads; i++)
        gpur_job_thread_close(&run->env_threads[i].jobs);
    gpur_job_thread_close(&run->trainer);
    gpur_job_thread_close(&run->evaluation);
    for (int32_t i = 0; run->slots && i < run->shape.envs; i++)
        gpur_env_slot_close(&run->slots[i]);
    gpur_evaluator_close(&run->evaluator);
    gpur_vector_close(&run->vector);
    gpur_evaluating_policy_close(&run->playing);
    gpur_policy_destroy(run->acting);
    gpur_policy_destroy(run->evaluating);
    gpur_run_close(core);
    free(run->env_threads);
    free(run->slots);
    free(run->chosen);
    free(run->scaled);
    free(run->noises);
    free(run->noise_lanes);
    free(run->noise_steps);
    free(run->obs);
    free(run);
}

static const gpur_run_system run_system = {.is_saved_between_periods = 1,
                                           .check_advance = gpur_fast_dqn_check_advance,
                                           .advance = gpur_fast_dqn_advance,
                                           .evaluate = gpur_fast_dqn_evaluate,
                                           .save = gpur_fast_dqn_save,
                                           .load = gpur_fast_dqn_load,
                                           .fill_stats = fill_stats,
                                           .loss = loss,
                                           .destroy = destroy};

static gpur_status alloc_slots(gpur_fast_dqn *run)
{
    const size_t envs = (size_t)run->shape.envs;
    run->slots = calloc(envs, sizeof *run->slots);
    run->env_threads = calloc((size_t)run->threads, sizeof *run->env_threads);
    run->chosen = calloc(envs, (size_t)gpur_fast_dqn_action_bytes(run));
    run->scaled = calloc(envs, (size_t)gpur_max(run->numbers, 1) * sizeof *run->scaled);
    run->noises = calloc(envs, sizeof *run->noises);
    run->noise_lanes = calloc(envs, sizeof *run->noise_lanes);
    run->noise_steps = calloc(envs, sizeof *run->noise_steps);
    if (!run->slots || !run->env_threads || !run->chosen || !run->scaled || !run->noises || !run->noise_lanes ||
        !run->noise_steps)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu environments", envs);
    return GPUR_OK;
}

static gpur_status infer(gpur_policy *policy, int64_t count, const unsigned char *obs, int32_t *actions)
{
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    return gpur_policy_act(policy, &input, &output);
}

static gpur_status infer_vectors(gpur_policy *policy, const gpur_policy_input *input, float *actions)
{
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = actions};
    return gpur_policy_act(policy, input, &output);
}

static gpur_status train(gpur_learner *learner, int64_t steps)
{
    GPUR_TRY(gpur_learner_train(learner, steps));
    return gpur_learner_sync(learner);
}

/* A policy with the network that acts, on the learner's device. */
static gpur_status open_policy(const gpur_fast_dqn *run, int32_t streams, int32_t rows, gpur_policy **policy)
{
    const gpur_learner *const learner = run->learner;
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.network = *gpur_fast_dqn_network(run);
    config.seed = run->core.config.seed;
    config.obs = learner->obs;
    config.max_batch = rows;
    config.streams = streams;
    config.math = learner->math;
    return gpur_policy_create(learner->device, &config, policy);
}

static gpur_status open_work(gpur_fast_dqn *run)
{
    const int32_t rows = run->config.synchronized ? run->config.num_envs : 1, eval_rows = run->evaluator.count;
    run->work = (gpur_fast_dqn_work){infer, infer_vectors, gpur_policy_pull, train, gpur_learner_refresh};
    GPUR_TRY(open_policy(run, run->config.synchronized ? 1 : run->threads, rows, &run->acting));
    if (eval_rows == 0)
        return GPUR_OK;
    GPUR_TRY(open_policy(run, 1, eval_rows, &run->evaluating));
    return gpur_evaluating_policy_open(&run->playing, run->evaluating, gpur_fast_dqn_network(run), &run->info.action,
                                       eval_rows);
}

static gpur_status open_threads(gpur_fast_dqn *run)
{
    for (int32_t i = 0; i < run->threads; i++) {
        gpur_env_thread *const thread = &run->env_threads[i];
        thread->run = run;
        thread->index = i;
        GPUR_TRY(gpur_job_thread_open(&thread->jobs, gpur_env_jobs, thread, &run->failing, "environments"));
    }
    GPUR_TRY(gpur_job_thread_open(&run->trainer, gpur_train_jobs, run, &run->failing, "the trainer"));
    if (run->evaluator.count == 0)
        return GPUR_OK;
    return gpur_job_thread_open(&run->evaluation, gpur_evaluation_jobs, run, &run->failing, "the evaluation");
}

static gpur_status build(gpur_fast_dqn *run, const gpur_run_config *all, const gpur_fast_dqn_config *config)
{
    GPUR_TRY(gpur_run_open(&run->core, &run_system, all));
    run->numbers = gpur_action_numbers(gpur_fast_dqn_network(run));
    GPUR_TRY(gpur_fast_dqn_configure(run, config));
    GPUR_TRY(alloc_slots(run));
    GPUR_TRY(gpur_fast_dqn_open_envs(run));
    GPUR_TRY(open_work(run));
    return open_threads(run);
}

gpur_status gpur_fast_dqn_create(gpur_learner *learner, const gpur_run_config *all, const gpur_fast_dqn_config *config,
                                 gpur_run **out)
{
    GPUR_REQUIRE(out, "handle, which gets the run, is NULL");
    *out = NULL;
    if (!learner || !learner->step) /* not on a replay */
        GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_fast_dqn_create"));
    gpur_fast_dqn *const run = calloc(1, sizeof *run);
    if (!run)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *run);
    run->learner = run->core.learner = learner;
    const gpur_status status = build(run, all, config);
    if (status != GPUR_OK) {
        destroy(&run->core);
        return status;
    }
    *out = &run->core;
    return GPUR_OK;
}
