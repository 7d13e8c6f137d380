/* SPDX-License-Identifier: MIT */
#include "bench/training/trainee.h"
#include "bench/bench.h"
#include "bench/setup.h"
#include "examples/dodge.h"
#include "examples/interrupt.h"

static void open_learner(trainee *c, int64_t batch)
{
    gpur_learner_config config;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = batch;
    config.host_batches = c->kind->host_batches;
    config.max_act_batch = TRAINING_EPISODES;
    config.exploration.steps = training_exploration(c->options);
    config.seed = (uint64_t)c->options->seed;
    bench_must(gpur_learner_create(c->replay, &config, &c->learner), "learner");
}

void trainee_open(trainee *c, const memory_kind *kind, gpur_device *device, const training_options *options,
                  int64_t batch)
{
    const uint64_t seed = (uint64_t)options->seed;
    *c = (trainee){.kind = kind, .options = options};
    if (vec_env_open(&c->envs, &dodge_kind, TRAINING_ENVS, seed) != 0 ||
        evaluator_open(&c->judge, &dodge_kind, TRAINING_EPISODES, ~seed) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "environments");
    c->replay = bench_melee_replay(device, kind->ring);
    open_learner(c, batch);
    const memory_setup setup = {.replay = c->replay, .learner = c->learner, .envs = &c->envs, .batch = batch};
    c->memory = kind->open(&setup);
}

void trainee_close(trainee *c)
{
    c->kind->close(c->memory);
    gpur_learner_destroy(c->learner);
    gpur_replay_destroy(c->replay);
    evaluator_close(&c->judge);
    vec_env_close(&c->envs);
}

static void play_step(trainee *c)
{
    int32_t actions[TRAINING_ENVS];
    const float *const obs = vec_env_obs(&c->envs, 0);
    const float epsilon = gpur_learner_epsilon(c->learner, c->steps);
    bench_must(gpur_learner_act(c->learner, TRAINING_ENVS, obs, epsilon, actions, NULL), "act");
    vec_env_step(&c->envs, actions);
    c->kind->remember(c->memory, actions, &c->envs);
    c->steps += TRAINING_ENVS;
}

/* A train step for every environment step, once there is enough to draw from. */
static void play_and_train(trainee *c)
{
    for (int64_t end = c->steps + TRAINING_ROUND; c->steps < end;)
        play_step(c);
    if (c->steps <= training_burn_in(c->options))
        return;
    c->kind->train(c->memory, TRAINING_ROUND);
    c->train_steps += TRAINING_ROUND;
}

void trainee_train(trainee *c, int64_t steps)
{
    const double start = bench_now();
    while (c->steps < steps && !interrupt_came())
        play_and_train(c);
    bench_must(gpur_learner_sync(c->learner), "sync");
    c->seconds += bench_now() - start;
}

double trainee_evaluate(trainee *c)
{
    float mean;
    bench_must(evaluator_run(&c->judge, c->learner, &mean), "evaluation");
    return (double)mean;
}
