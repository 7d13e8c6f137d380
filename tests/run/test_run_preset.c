/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: each constant beside its published value, and runs of all presets. */
#include "gpureplay/run.h"
#include "support/run_envs.h"
#include "test.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { SIDE = 84 };

/* Frames of 84 x 84 bytes, which show the number of the step. An episode has 20 steps. */
static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {SIDE, SIDE}, .high = 255.0f};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 4, .high = 3.0f};
    *env = calloc(1, sizeof(int32_t));
    return *env ? NULL : "no memory";
}

static const char *reset(void *env, void *obs)
{
    *(int32_t *)env = 0;
    memset(obs, 0, (size_t)SIDE * SIDE);
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    const int32_t steps = ++*(int32_t *)env;
    result->reward = *(const int32_t *)action == 0 ? 1.0f : 0.0f;
    result->terminated = steps == 20;
    memset(obs, steps, (size_t)SIDE * SIDE);
    return NULL;
}

static const gpur_env_type frames = {
    .size = sizeof frames, .name = "counted frames", .init = init, .reset = reset, .step = step, .close = free};

typedef struct system_config {
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_fast_dqn_config run;
    gpur_run_config all;
} system_config;

/* The members of the run's config that a preset does not set get other values than the defaults, and so do some that
 * it does. */
static gpur_status read_preset(const char *name, const gpur_env_type *type, system_config *c)
{
    (void)gpur_replay_config_init(&c->replay, sizeof c->replay);
    (void)gpur_dqn_config_init(&c->learner, sizeof c->learner);
    (void)gpur_fast_dqn_config_init(&c->run, sizeof c->run);
    (void)gpur_run_config_init(&c->all, sizeof c->all);
    c->all.type = type;
    c->all.seed = 7, c->run.threads = 2;
    c->run.num_envs = 3, c->run.concurrent = c->run.synchronized = 0, c->run.act = GPUR_ACT_TARGET;
    c->run.whole_episodes = 1, c->run.target_period = 12, c->run.train_period = 3, c->run.prepopulation = 5;
    c->all.eval_period = 24, c->all.eval_episodes = 1, c->all.eval_epsilon = 0.5f, c->run.burst = 2;
    return gpur_fast_dqn_preset(name, &c->all, c->fields, &c->replay, &c->learner, &c->run);
}

typedef struct constant {
    const char *name;
    double got, want;
} constant;

static void check_constants(const constant *constants, size_t count)
{
    for (size_t i = 0; i < count; i++)
        TEST_REQUIRE(constants[i].got == constants[i].want, "%s: %g; wanted %g", constants[i].name, constants[i].got,
                     constants[i].want);
}

/* Daley & Amato 2021, table 5 and section 5, and the network of Mnih et al. 2015; where they are silent the code of
 * Daley & Amato. */
TEST(fast_dqn_has_the_published_constants)
{
    system_config c;
    CHECK_OK(read_preset("fast-dqn", &frames, &c));
    const gpur_network_config *const n = &c.learner.network;
    const constant constants[] = {
        {"layers", n->trunk_count, 4},
        {"filters 1", n->trunk[0].units, 32},
        {"filters 2", n->trunk[1].units, 64},
        {"filters 3", n->trunk[2].units, 64},
        {"kernel 1", n->trunk[0].kernel, 8},
        {"kernel 2", n->trunk[1].kernel, 4},
        {"kernel 3", n->trunk[2].kernel, 3},
        {"stride 1", n->trunk[0].stride, 4},
        {"stride 2", n->trunk[1].stride, 2},
        {"stride 3", n->trunk[2].stride, 1},
        {"kind 1", n->trunk[0].kind, GPUR_CONV},
        {"kind 2", n->trunk[1].kind, GPUR_CONV},
        {"kind 3", n->trunk[2].kind, GPUR_CONV},
        {"kind 4", n->trunk[3].kind, GPUR_DENSE},
        {"units", n->trunk[3].units, 512},
        {"activation", n->trunk[3].activation, GPUR_RELU},
        {"head", n->head, GPUR_HEAD_Q},
        {"actions", n->num_actions, 4},
        {"initial weights", n->init, GPUR_INIT_GLOROT},
        {"input scale", (double)n->input_scale, (double)(1.0f / 255.0f)},
        {"optimizer", c.learner.optimizer.kind, GPUR_RMSPROP_DEEPMIND},
        {"centered", c.learner.optimizer.centered, 1},
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)2.5e-4f},
        {"last learning rate", (double)c.learner.optimizer.learning_rate.last, (double)2.5e-4f},
        {"decay", (double)c.learner.optimizer.decay, (double)0.95f},
        {"optimizer's epsilon", (double)c.learner.optimizer.epsilon, (double)0.01f},
        {"momentum", (double)c.learner.optimizer.momentum, 0},
        {"clipping by norm", (double)c.learner.optimizer.clip_norm, 0},
        {"double DQN", c.learner.double_dqn, 0},
        {"loss", c.learner.loss, GPUR_LOSS_HUBER},
        {"delta", (double)c.learner.huber_delta, 1},
        {"minibatch", (double)c.learner.batch_size, 32},
        {"learner's target period", (double)c.learner.target_period, 10000 / 4},
        {"first epsilon", (double)c.learner.exploration.first, 1},
        {"last epsilon", (double)c.learner.exploration.last, (double)0.1f},
        {"steps of epsilon", (double)c.learner.exploration.steps, 1000000},
        {"capacity", (double)c.replay.capacity, 1000000},
        {"gamma", (double)c.replay.gamma, (double)0.99f},
        {"rewards clipped at", (double)c.replay.reward_clip, 1},
        {"steps of a return", c.replay.n_step, 1},
        {"layout", c.replay.layout, GPUR_LAYOUT_FRAMES},
        {"stack", c.replay.frame_stack, 4},
        {"padding", c.replay.stack_pad, GPUR_PAD_ZERO},
        {"stack axis", c.replay.stack_axis, GPUR_STACK_FIRST},
        {"C", (double)c.run.target_period, 10000},
        {"F", (double)c.run.train_period, 4},
        {"W", c.run.num_envs, 8},
        {"concurrent", c.run.concurrent, 1},
        {"synchronized", c.run.synchronized, 1},
        {"act", c.run.act, GPUR_ACT_LATEST},
        {"burst", c.run.burst, 0},
        {"whole episodes", c.run.whole_episodes, 0},
        {"fields", c.replay.field_count, 6},
        {"prepopulation", (double)c.run.prepopulation, 50000},
        {"least size", (double)c.replay.min_size, 50000},
        {"steps between evaluations", (double)c.all.eval_period, 250000},
        {"episodes of an evaluation", (double)c.all.eval_episodes, 30},
        {"epsilon of an evaluation", (double)c.all.eval_epsilon, (double)0.05f},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK(c.all.seed == 7 && c.run.threads == 2); /* what the paper says nothing about */
    CHECK(c.fields[0].shape[0] == 4 && c.fields[0].shape[1] == SIDE && c.fields[0].shape[2] == SIDE);
}

/* What the code of both papers on DQN(lambda) has, of runs on the Atari console. */
static void check_dqn_lambda(const system_config *c)
{
    const gpur_network_config *const n = &c->learner.network;
    const constant constants[] = {
        {"layers", n->trunk_count, 4},
        {"filters 1", n->trunk[0].units, 32},
        {"filters 2", n->trunk[1].units, 64},
        {"filters 3", n->trunk[2].units, 64},
        {"kernel 1", n->trunk[0].kernel, 8},
        {"kernel 2", n->trunk[1].kernel, 4},
        {"kernel 3", n->trunk[2].kernel, 3},
        {"stride 1", n->trunk[0].stride, 4},
        {"stride 2", n->trunk[1].stride, 2},
        {"stride 3", n->trunk[2].stride, 1},
        {"units", n->trunk[3].units, 512},
        {"activation", n->trunk[3].activation, GPUR_RELU},
        {"head", n->head, GPUR_HEAD_Q},
        {"hidden units of the head", n->hidden, 0},
        {"actions", n->num_actions, 4},
        {"initial weights", n->init, GPUR_INIT_GLOROT},
        {"input scale", (double)n->input_scale, (double)(1.0f / 255.0f)},
        {"optimizer", c->learner.optimizer.kind, GPUR_ADAM_TF},
        {"beta1", (double)c->learner.optimizer.beta1, (double)0.9f},
        {"beta2", (double)c->learner.optimizer.beta2, (double)0.999f},
        {"clipping by norm", (double)c->learner.optimizer.clip_norm, 0},
        {"loss", c->learner.loss, GPUR_LOSS_SQUARED},
        {"minibatch", (double)c->learner.batch_size, 32},
        {"last epsilon", (double)c->learner.exploration.last, (double)0.1f},
        {"S", (double)c->learner.returns.cache_size, 80000},
        {"B", (double)c->learner.returns.block_length, 100},
        {"estimator", c->learner.returns.estimator, GPUR_ESTIMATOR_PENG},
        {"lambda, which the papers do not have", (double)c->learner.returns.lambda, -1},
        {"time limits are terminal", c->learner.returns.truncation_terminates, 1},
        {"prioritization", (double)c->learner.returns.prioritization.first, 0},
        {"capacity", (double)c->replay.capacity, 1000000},
        {"gamma", (double)c->replay.gamma, (double)0.99f},
        {"rewards clipped at", (double)c->replay.reward_clip, 1},
        {"steps of a return", c->replay.n_step, 1},
        {"layout", c->replay.layout, GPUR_LAYOUT_FRAMES},
        {"stack", c->replay.frame_stack, 4},
        {"padding", c->replay.stack_pad, GPUR_PAD_ZERO},
        {"fields", c->replay.field_count, 7},
        {"C", (double)c->run.target_period, 10000},
        {"F", (double)c->run.train_period, 4},
        {"W", c->run.num_envs, 1},
        {"burst", c->run.burst, 1},
        {"concurrent", c->run.concurrent, 0},
        {"synchronized", c->run.synchronized, 0},
        {"act", c->run.act, GPUR_ACT_LATEST},
        {"whole episodes", c->run.whole_episodes, 0},
        {"K", (double)c->run.prepopulation, 50000},
        {"least size", (double)c->replay.min_size, 50000},
        {"steps between evaluations, which there are not", (double)c->all.eval_period, 0},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK(strcmp(c->fields[6].name, "previous") == 0 && c->fields[6].dtype == GPUR_INT64);
}

/* Their gradients are twice ours, so that epsilon and the limit of a component are half of theirs. */
TEST(dqn_lambda_2019_has_the_constants_of_its_code)
{
    system_config c;
    CHECK_OK(read_preset("dqn-lambda-2019", &frames, &c));
    check_dqn_lambda(&c);
    const constant constants[] = {
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)1e-4f},
        {"last learning rate", (double)c.learner.optimizer.learning_rate.last, (double)1e-4f},
        {"Adam's epsilon", 2 * (double)c.learner.optimizer.epsilon, (double)1e-4f},
        {"clipping by value", 2 * (double)c.learner.optimizer.clip_value, 40},
        {"draw", c.learner.returns.draw, GPUR_CACHE_REPLACEMENT},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    const int64_t k = 50000;
    for (int64_t t = k; t < 1200000; t += 50000) { /* its t counts from 0, ours from 1 after the random steps */
        const double want = t < k + 1000000 ? 1.0 - 0.9 * (double)(t - k) / 1e6 : 0.1;
        CHECK(fabs((double)gpur_schedule_at(&c.learner.exploration, t - k + 1) - want) < 1e-6);
    }
}

TEST(vrc_2021_has_the_constants_of_its_code)
{
    system_config c;
    CHECK_OK(read_preset("vrc-2021", &frames, &c));
    check_dqn_lambda(&c);
    const constant constants[] = {
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)5e-5f},
        {"last learning rate", (double)c.learner.optimizer.learning_rate.last, (double)5e-5f},
        {"Adam's epsilon", 2 * (double)c.learner.optimizer.epsilon, (double)1e-8f},
        {"clipping by value", (double)c.learner.optimizer.clip_value, 0},
        {"draw", c.learner.returns.draw, GPUR_CACHE_PERMUTATION},
        {"storage", c.learner.returns.storage, GPUR_CACHE_VIRTUAL},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    const int64_t k = 50000;
    for (int64_t t = k + 1; t < 1200000; t += 50000) /* its t counts from 1 the random steps, too */
        CHECK(fabs((double)gpur_schedule_at(&c.learner.exploration, t - k) - fmax(0.1, 1.0 - 0.9 * (double)t / 1e6)) <
              1e-6);
}

TEST(dqn_lambda_2019_has_the_authors_setting_of_cartpole)
{
    const gpur_env_type *cartpole = NULL;
    system_config c;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(read_preset("dqn-lambda-2019", cartpole, &c));
    const gpur_network_config *const n = &c.learner.network;
    const constant constants[] = {
        {"layers", n->trunk_count, 2},
        {"kind", n->trunk[1].kind, GPUR_DENSE},
        {"units 1", n->trunk[0].units, 512},
        {"units 2", n->trunk[1].units, 512},
        {"activation 1", n->trunk[0].activation, GPUR_TANH},
        {"activation 2", n->trunk[1].activation, GPUR_TANH},
        {"initial weights", n->init, GPUR_INIT_GLOROT},
        {"actions", n->num_actions, 2},
        {"input scale", (double)n->input_scale, 1},
        {"optimizer", c.learner.optimizer.kind, GPUR_ADAM_TF},
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)1e-4f},
        {"Adam's epsilon", 2 * (double)c.learner.optimizer.epsilon, (double)1e-8f},
        {"clipping by value", (double)c.learner.optimizer.clip_value, 0},
        {"estimator", c.learner.returns.estimator, GPUR_ESTIMATOR_N_STEP},
        {"n", c.learner.returns.n_step, 5},
        {"S", (double)c.learner.returns.cache_size, 80000},
        {"B", (double)c.learner.returns.block_length, 100},
        {"draw", c.learner.returns.draw, GPUR_CACHE_REPLACEMENT},
        {"time limits are terminal", c.learner.returns.truncation_terminates, 1},
        {"capacity", (double)c.replay.capacity, 500000},
        {"rewards are not clipped", (double)c.replay.reward_clip, 0},
        {"layout", c.replay.layout, GPUR_LAYOUT_ROWS},
        {"stack", c.replay.frame_stack, 1},
        {"K", (double)c.run.prepopulation, 50000},
        {"C", (double)c.run.target_period, 10000},
        {"steps of epsilon", (double)c.learner.exploration.steps, 300000},
        {"epsilon begins to fall", (double)c.learner.exploration.begin, 1},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    const gpur_env_type *breakout = NULL;
    CHECK_OK(gpur_env_find("MinAtar/Breakout", &breakout));
    CHECK_FAILS(read_preset("dqn-lambda-2019", breakout, &c), GPUR_INVALID_ARGUMENT,
                "\"dqn-lambda-2019\" needs frames of 84 x 84 bytes; \"dqn-lambda-2019-small\" takes");
    CHECK_FAILS(read_preset("vrc-2021", cartpole, &c), GPUR_INVALID_ARGUMENT, "\"vrc-2021-small\" takes");
}

TEST(the_small_relatives_differ_as_their_systems_do)
{
    const gpur_env_type *breakout = NULL;
    system_config old, new;
    CHECK_OK(gpur_env_find("MinAtar/Breakout", &breakout));
    CHECK_OK(read_preset("dqn-lambda-2019-small", breakout, &old));
    CHECK_OK(read_preset("vrc-2021-small", breakout, &new));
    const system_config *const both[] = {&old, &new};
    for (int i = 0; i < 2; i++) {
        const system_config *const c = both[i];
        CHECK(c->run.num_envs == 1 && c->run.burst == 1 && c->run.concurrent == 0 && c->run.synchronized == 0);
        CHECK(c->run.target_period == 1000 && c->run.train_period == 4 && c->run.prepopulation == 5000);
        CHECK(c->learner.returns.cache_size == 8000 && c->learner.returns.block_length == 100);
        CHECK(c->learner.returns.lambda == -1.0f && c->learner.returns.truncation_terminates == 0);
        CHECK(c->learner.optimizer.kind == GPUR_ADAM_TF && c->learner.optimizer.clip_norm == 0.0f);
        CHECK(c->learner.optimizer.learning_rate.first == 2.5e-4f && c->learner.loss == GPUR_LOSS_SQUARED);
        CHECK(c->replay.capacity == 100000 && c->replay.min_size == 5000 && c->replay.field_count == 7);
    }
    CHECK(old.learner.optimizer.epsilon == 5e-5f && old.learner.optimizer.clip_value == 20.0f);
    CHECK(new.learner.optimizer.epsilon == 5e-9f && new.learner.optimizer.clip_value == 0.0f);
    CHECK(old.learner.returns.draw == GPUR_CACHE_REPLACEMENT && new.learner.returns.draw == GPUR_CACHE_PERMUTATION);
    CHECK(old.learner.exploration.first == 1.0f && old.learner.exploration.steps == 100000);
    CHECK(fabs((double)new.learner.exploration.first - 0.955) < 1e-6 && new.learner.exploration.steps == 95000);
}

TEST(presets_compute_in_float32_as_the_papers_unless_they_are_small)
{
    static const char *const names[] = {"fast-dqn",       "dqn-lambda-2019",       "vrc-2021",
                                        "fast-dqn-small", "dqn-lambda-2019-small", "vrc-2021-small"};
    const gpur_env_type *cartpole = NULL;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    for (int i = 0; i < 6; i++) {
        system_config c;
        CHECK_OK(read_preset(names[i], i < 3 ? &frames : cartpole, &c));
        CHECK_EQUAL(c.learner.math, i < 3 ? GPUR_MATH_FP32 : GPUR_MATH_AUTO);
    }
}

/* Of a program that was compiled against a header without caches the learner's config is shorter, and it has room for
 * six fields. */
TEST(an_older_programs_configs_are_not_written_beyond_their_end)
{
    const gpur_env_type *cartpole = NULL;
    const uint64_t size = offsetof(gpur_dqn_config, returns);
    const gpur_field untouched = {"untouched", GPUR_BOOL, {7}};
    system_config c;
    gpur_returns_config marked;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    (void)gpur_replay_config_init(&c.replay, sizeof c.replay);
    (void)gpur_fast_dqn_config_init(&c.run, sizeof c.run);
    memset(&c.learner, 0xab, sizeof c.learner);
    marked = c.learner.returns;
    (void)gpur_dqn_config_init(&c.learner, size);
    c.fields[6] = untouched;
    CHECK_OK(gpur_fast_dqn_preset("fast-dqn-small", ENVS_WITH(cartpole, ""), c.fields, &c.replay, &c.learner, &c.run));
    CHECK(c.learner.size == size && c.replay.field_count == 6 && c.learner.target_period == 250);
    CHECK(memcmp(&c.learner.returns, &marked, sizeof marked) == 0);
    CHECK(memcmp(&c.fields[6], &untouched, sizeof untouched) == 0);
    CHECK_FAILS(
        gpur_fast_dqn_preset("vrc-2021-small", ENVS_WITH(cartpole, ""), c.fields, &c.replay, &c.learner, &c.run),
        GPUR_INVALID_ARGUMENT, "needs");
    CHECK(memcmp(&c.fields[6], &untouched, sizeof untouched) == 0 && c.run.burst == 0);
}

TEST(the_small_preset_sets_all_of_a_run)
{
    const gpur_env_type *cartpole = NULL;
    system_config c;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(read_preset("fast-dqn-small", cartpole, &c));
    CHECK(c.run.target_period == 1000 && c.run.train_period == 4 && c.run.prepopulation == 5000);
    CHECK(c.run.num_envs == 8 && c.run.concurrent == 1 && c.run.synchronized == 1 && c.run.act == GPUR_ACT_LATEST);
    CHECK(c.run.whole_episodes == 0 && c.all.eval_period == 50000 && c.all.eval_episodes == 30);
    CHECK(c.all.eval_epsilon == 0.05f && c.all.seed == 7 && c.run.threads == 2);
    CHECK(c.learner.target_period == 250 && c.replay.capacity == 100000 && c.replay.min_size == 5000);
}

TEST(the_preset_of_vectors_sets_what_differs_from_the_small_one)
{
    const gpur_env_type *cartpole = NULL;
    system_config c;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(read_preset("fast-dqn-small-vectors", cartpole, &c));
    CHECK(c.run.target_period == 400 && c.learner.target_period == 100 && c.all.eval_epsilon == 0.0f);
    CHECK(c.learner.network.head == GPUR_HEAD_DUELING && c.learner.network.trunk_count == 1);
    CHECK(c.learner.double_dqn == 1 && c.learner.network.hidden == 128 && c.learner.network.trunk[0].units == 128);
    CHECK(c.learner.loss == GPUR_LOSS_SQUARED && c.learner.batch_size == 64);
    CHECK(c.learner.optimizer.learning_rate.first == 1e-3f && c.learner.optimizer.learning_rate.last == 1e-3f);
    CHECK(c.learner.exploration.last == 0.05f && c.learner.exploration.steps == 50000);
    CHECK_FAILS(read_preset("fast-dqn-small-vectors", &frames, &c), GPUR_INVALID_ARGUMENT,
                "needs observations of one axis; \"fast-dqn-small\" takes images, too");
}

/* Dabney et al. 2018, section 5 and appendix, and Bellemare et al. 2017, section 5, with the network of Mnih et al.
 * 2015; where they are silent their public code. */
TEST(presets_of_distributions_have_the_published_constants_for_frames)
{
    static const char *const names[] = {"qr-dqn", "c51"};
    for (int i = 0; i < 2; i++) {
        system_config c;
        CHECK_OK(read_preset(names[i], &frames, &c));
        const gpur_network_config *const n = &c.learner.network;
        const constant constants[] = {
            {"layers", n->trunk_count, 4},
            {"filters 1", n->trunk[0].units, 32},
            {"units", n->trunk[3].units, 512},
            {"head", n->head, i == 0 ? GPUR_HEAD_QUANTILES : GPUR_HEAD_CATEGORICAL},
            {"atoms", n->atoms, i == 0 ? 200 : 51},
            {"smallest return", (double)n->v_min, i == 0 ? 0 : -10},
            {"largest return", (double)n->v_max, i == 0 ? 0 : 10},
            {"actions", n->num_actions, 4},
            {"optimizer", c.learner.optimizer.kind, GPUR_ADAM},
            {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)(i == 0 ? 5e-5f : 2.5e-4f)},
            {"Adam's epsilon", (double)c.learner.optimizer.epsilon, (double)(0.01f / 32.0f)},
            {"double DQN", c.learner.double_dqn, 0},
            {"kappa", (double)c.learner.huber_delta, 1},
            {"minibatch", (double)c.learner.batch_size, 32},
            {"learner's target period", (double)c.learner.target_period, 10000 / 4},
            {"first epsilon", (double)c.learner.exploration.first, 1},
            {"last epsilon", (double)c.learner.exploration.last, (double)0.01f},
            {"steps of epsilon", (double)c.learner.exploration.steps, 1000000},
            {"math", c.learner.math, GPUR_MATH_FP32},
            {"capacity", (double)c.replay.capacity, 1000000},
            {"gamma", (double)c.replay.gamma, (double)0.99f},
            {"rewards clipped at", (double)c.replay.reward_clip, 1},
            {"stack", c.replay.frame_stack, 4},
            {"fields", c.replay.field_count, 6},
            {"C", (double)c.run.target_period, 10000},
            {"F", (double)c.run.train_period, 4},
            {"environments", c.run.num_envs, 1},
            {"concurrent, synchronized, burst", c.run.concurrent + c.run.synchronized + c.run.burst, 0},
            {"random steps", (double)c.run.prepopulation, 50000},
            {"steps between evaluations", (double)c.all.eval_period, 250000},
            {"epsilon of an evaluation", (double)c.all.eval_epsilon, (double)0.001f},
        };
        check_constants(constants, sizeof constants / sizeof *constants);
    }
}

/* Of a learner with such a head nothing is left in the small relatives of fast DQN. */
TEST(without_frames_distributions_differ_from_the_small_presets_in_their_head)
{
    static const char *const names[] = {"qr-dqn", "c51"};
    for (int is_image = 0; is_image < 2; is_image++)
        for (int i = 0; i < 2; i++) {
            const gpur_env_type *type = NULL;
            const char *const relative = is_image ? "fast-dqn-small" : "fast-dqn-small-vectors";
            system_config c, small;
            CHECK_OK(gpur_env_find(is_image ? "MinAtar/Breakout" : "CartPole-v1", &type));
            CHECK_OK(read_preset(relative, type, &small));
            CHECK_OK(read_preset(names[i], type, &c));
            CHECK_EQUAL(c.learner.network.head, i == 0 ? GPUR_HEAD_QUANTILES : GPUR_HEAD_CATEGORICAL);
            CHECK_EQUAL(c.learner.network.atoms, i == 0 ? 50 : 101);
            CHECK(c.learner.network.v_max == (i == 0 ? 0.0f : 100.0f));
            CHECK(c.learner.network.v_min == -c.learner.network.v_max && c.learner.huber_delta == 1.0f);
            CHECK_EQUAL(c.learner.math, GPUR_MATH_FP32);
            gpur_dqn_config other = c.learner;
            other.network.head = small.learner.network.head;
            other.network.atoms = 0;
            other.network.v_min = other.network.v_max = 0.0f;
            other.math = small.learner.math;
            CHECK(memcmp(&other, &small.learner, sizeof other) == 0);
            CHECK(memcmp(&c.run, &small.run, sizeof c.run) == 0 && memcmp(&c.all, &small.all, sizeof c.all) == 0);
            CHECK(c.replay.capacity == small.replay.capacity && c.replay.reward_clip == 0.0f);
            CHECK_OK(gpur_fast_dqn_preset(relative, &c.all, c.fields, &c.replay, &c.learner, &c.run));
            CHECK(memcmp(&c.learner, &small.learner, sizeof c.learner) == 0);
        }
}

TEST(a_refused_preset_changes_nothing)
{
    const gpur_env_type *cartpole = NULL;
    system_config c;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_FAILS(read_preset("fast-dqn", cartpole, &c), GPUR_INVALID_ARGUMENT, "needs frames of 84 x 84 bytes");
    CHECK(c.run.num_envs == 3 && c.run.target_period == 12);
    CHECK_FAILS(read_preset("slow-dqn", cartpole, &c), GPUR_INVALID_ARGUMENT, "preset is \"slow-dqn\"");
    CHECK_FAILS(read_preset("slow-dqn-small", cartpole, &c), GPUR_INVALID_ARGUMENT, "preset is \"slow-dqn-small\"");
}

/* Images of three colors with these first, or narrow ones of two colors, with these last. */
static const char *init_image(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    const char *const error = init(options, seed, info, env);
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {3, 10, strcmp(options, "narrow") == 0 ? 2 : 12}};
    return error;
}

TEST(an_image_has_its_channels_last_unless_its_shape_says_otherwise)
{
    gpur_env_type type = frames;
    system_config c;
    type.init = init_image;
    CHECK_OK(read_preset("fast-dqn-small", &type, &c));
    CHECK_EQUAL(c.learner.network.input_layout, GPUR_CHW);
    CHECK_OK(
        gpur_fast_dqn_preset("fast-dqn-small", ENVS_WITH(&type, "narrow"), c.fields, &c.replay, &c.learner, &c.run));
    CHECK_EQUAL(c.learner.network.input_layout, GPUR_HWC);
}

static const char *init_nothing(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed, (void)info;
    *env = NULL;
    return NULL;
}

static const char *init_no_vector(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env)
{
    (void)num_envs;
    return init_nothing(options, seed, info, env);
}

static void close_nothing(void *env)
{
    *(volatile char *)env = 0;
}

TEST(a_type_that_makes_no_environment_is_refused)
{
    const gpur_env_type none = {.size = sizeof none, .name = "None", .close = free};
    const gpur_env_type nothing = {.size = sizeof nothing,
                                   .name = "Nothing",
                                   .init = init_nothing,
                                   .reset = reset,
                                   .step = step,
                                   .close = close_nothing};
    gpur_vector_env_type vector = {.size = sizeof vector, .name = "None", .close = close_nothing};
    gpur_run_config *const vectors = &(gpur_run_config){.size = sizeof *vectors, .vector = &vector};
    gpur_env_info info = {.size = sizeof info, .max_steps = 7};
    system_config c;
    CHECK_FAILS(read_preset("fast-dqn-small", &none, &c), GPUR_INVALID_ARGUMENT, "the type has no function init");
    CHECK_FAILS(read_preset("fast-dqn-small", &nothing, &c), GPUR_INVALID_ARGUMENT, "init of Nothing returned no env");
    CHECK_FAILS(gpur_fast_dqn_preset("fast-dqn-small", vectors, c.fields, &c.replay, &c.learner, &c.run),
                GPUR_INVALID_ARGUMENT, "the type has no function init");
    vector.init = init_no_vector;
    CHECK_FAILS(gpur_env_get_info(&nothing, "", &info), GPUR_INVALID_ARGUMENT, "init of Nothing returned no env");
    CHECK_FAILS(gpur_vector_env_get_info(&vector, "", &info), GPUR_INVALID_ARGUMENT, "init of None returned no env");
    CHECK_FAILS(gpur_env_get_info(&nothing, NULL, &info), GPUR_INVALID_ARGUMENT, "type or options is NULL");
    CHECK(info.max_steps == 7);
}

/* Creates the run of a preset with its replay made small, and takes the prepopulation and a few steps. `stack`: 0, or
 * frames of a stack, as a caller sets them after the preset. */
static void check_runs(const char *name, const gpur_env_type *type, int32_t stack)
{
    const gpur_device_config device_config = test_device_config();
    gpur_run_stats stats = {.size = sizeof stats};
    gpur_device *device = NULL;
    gpur_replay *replay = NULL;
    gpur_learner *learner = NULL;
    gpur_run *run = NULL;
    system_config c;
    CHECK_OK(read_preset(name, type, &c));
    c.replay.capacity = 1000;
    c.replay.min_size = c.run.prepopulation = 300;
    c.run.threads = 0;
    if (stack > 0)
        c.replay.frame_stack = c.fields[0].shape[0] = c.fields[3].shape[0] = stack;
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &device));
    CHECK_OK(gpur_replay_create(device, &c.replay, &replay));
    if (c.learner.returns.cache_size > 0) {
        if (c.learner.returns.estimator == GPUR_ESTIMATOR_PENG)
            CHECK_FAILS(gpur_dqn_create(replay, &c.learner, &learner), GPUR_INVALID_ARGUMENT, "lambda is -1");
        c.learner.returns.lambda = 0.75f;
        c.learner.returns.cache_size = 200;
        c.run.target_period = 4, c.run.train_period = 4;
    }
    CHECK_OK(gpur_dqn_create(replay, &c.learner, &learner));
    CHECK_OK(gpur_fast_dqn_create(learner, &c.all, &c.run, &run));
    CHECK_OK(gpur_run_advance(run, c.learner.returns.cache_size > 0 ? 5 : 0, 0));
    CHECK_OK(gpur_run_get_stats(run, &stats));
    CHECK(stats.fast_dqn.prepopulated >= 300);
    CHECK(stats.train_steps == (c.learner.returns.cache_size > 0 ? 2 : 0));
    gpur_run_destroy(run);
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

/* Continuous actions. */

typedef struct dpg_config {
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config replay;
    gpur_dpg_config learner;
    gpur_fast_dqn_config run;
    gpur_run_config all;
} dpg_config;

static gpur_status read_dpg(const char *name, const char *env, dpg_config *c)
{
    (void)gpur_replay_config_init(&c->replay, sizeof c->replay);
    (void)gpur_dpg_config_init(&c->learner, sizeof c->learner);
    (void)gpur_fast_dqn_config_init(&c->run, sizeof c->run);
    (void)gpur_run_config_init(&c->all, sizeof c->all);
    if (gpur_env_find(env, &c->all.type) != GPUR_OK)
        return GPUR_INVALID_ARGUMENT;
    c->all.seed = 7, c->learner.seed = 9, c->run.threads = 1;
    c->run.burst = 1, c->run.train_steps = 5, c->learner.target_rate = 0.5f, c->replay.n_step = 4;
    return gpur_dpg_preset(name, &c->all, c->fields, &c->replay, &c->learner, &c->run);
}

/* Lillicrap et al. 2016, supplementary section 7; Fujimoto et al. 2018, section 6.1 for evaluations. */
TEST(ddpg_has_the_published_constants)
{
    dpg_config c;
    CHECK_OK(read_dpg("ddpg", "Pendulum", &c));
    const gpur_dpg_config *const d = &c.learner;
    const constant constants[] = {
        {"layers of the actor", d->actor.trunk_count, 2},
        {"units 1 of the actor", d->actor.trunk[0].units, 400},
        {"units 2 of the actor", d->actor.trunk[1].units, 300},
        {"after them", d->actor.trunk[1].activation, GPUR_RELU},
        {"units 1 of the critic", d->critic.trunk[0].units, 400},
        {"units 2 of the critic", d->critic.trunk[1].units, 300},
        {"weights", d->critic.init, GPUR_INIT_FAN_IN},
        {"head of the actor", d->actor.head, GPUR_HEAD_TANH_ACTION},
        {"numbers of an action", d->actor.num_actions, 1},
        {"actor's rate", (double)d->actor_optimizer.learning_rate.first, (double)1e-4f},
        {"critic's rate", (double)d->critic_optimizer.learning_rate.last, (double)1e-3f},
        {"clipping of dQ / da", (double)d->action_gradient_clip, 0},
        {"batch", (double)d->batch_size, 64},
        {"tau", (double)d->target_rate, (double)0.001f},
        {"train steps between soft copies", (double)d->target_period, 1},
        {"learner's seed", (double)d->seed, 9},
        {"math", d->math, GPUR_MATH_FP32},
        {"capacity", (double)c.replay.capacity, 1000000},
        {"gamma", (double)c.replay.gamma, (double)0.99f},
        {"n", c.replay.n_step, 1},
        {"sigma", (double)c.run.sigma, (double)0.2f},
        {"random steps", (double)c.run.prepopulation, 1000},
        {"least rows", (double)c.replay.min_size, 1000},
        {"environments", c.run.num_envs, 1},
        {"train period", (double)c.run.train_period, 1},
        {"train steps", (double)c.run.train_steps, 1},
        {"concurrent, synchronized, burst", c.run.concurrent + c.run.synchronized + c.run.burst, 0},
        {"threads", c.run.threads, 1},
        {"steps between evaluations", (double)c.all.eval_period, 5000},
        {"episodes of an evaluation", (double)c.all.eval_episodes, 10},
        {"run's seed", (double)c.all.seed, 7},
        {"fields", c.replay.field_count, 6},
        {"layout", c.replay.layout, GPUR_LAYOUT_ROWS},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK(strcmp(c.fields[1].name, "action") == 0 && c.fields[1].dtype == GPUR_FLOAT32 && c.fields[1].shape[0] == 1);
    CHECK(c.fields[0].shape[0] == 3 && c.replay.fields == c.fields);
}

/* The defaults of Stable-Baselines3, with the noise and the replay that its zoo has for Pendulum. */
TEST(ddpg_small_differs_in_its_rates_and_sizes)
{
    dpg_config c;
    CHECK_OK(read_dpg("ddpg-small", "Pendulum", &c));
    const constant constants[] = {
        {"actor's rate", (double)c.learner.actor_optimizer.learning_rate.last, (double)1e-3f},
        {"critic's rate", (double)c.learner.critic_optimizer.learning_rate.first, (double)1e-3f},
        {"batch", (double)c.learner.batch_size, 256},
        {"tau", (double)c.learner.target_rate, (double)0.005f},
        {"capacity", (double)c.replay.capacity, 200000},
        {"sigma", (double)c.run.sigma, (double)0.1f},
        {"random steps", (double)c.run.prepopulation, 100},
        {"units", c.learner.actor.trunk[0].units, 400},
        {"math", c.learner.math, GPUR_MATH_AUTO},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
}

/* Fujimoto et al. 2018, section 6.1 and appendix C, where they are not those of gpur_td3_config_init; and the defaults
 * of Stable-Baselines3. */
TEST(td3_has_the_published_constants)
{
    dpg_config c, small;
    gpur_dpg_config paper;
    CHECK_OK(gpur_td3_config_init(&paper, sizeof paper));
    CHECK_OK(read_dpg("td3", "Pendulum", &c));
    paper.actor.num_actions = 1, paper.seed = 9;
    CHECK(memcmp(&c.learner, &paper, sizeof paper) == 0);
    CHECK_OK(read_dpg("td3-small", "Pendulum", &small));
    const constant constants[] = {
        {"capacity", (double)c.replay.capacity, 1000000},
        {"sigma", (double)c.run.sigma, (double)0.1f},
        {"random steps", (double)c.run.prepopulation, 1000},
        {"batch", (double)small.learner.batch_size, 256},
        {"critics", small.learner.critics, 2},
        {"delay", small.learner.policy_delay, 2},
        {"tau", (double)small.learner.target_rate, (double)0.005f},
        {"rate", (double)small.learner.actor_optimizer.learning_rate.first, (double)1e-3f},
        {"small capacity", (double)small.replay.capacity, 200000},
        {"small random steps", (double)small.run.prepopulation, 100},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
}

/* Haarnoja et al. 2018b, table 1: the settings of gpur_sac_config_init; and the defaults of Stable-Baselines3, with the
 * rate and the replay that its zoo has. */
TEST(sac_has_the_published_constants)
{
    dpg_config c;
    gpur_sac_config paper, sac;
    CHECK_OK(gpur_sac_config_init(&paper, sizeof paper));
    sac = paper, sac.seed = 9, sac.batch_size = 3, sac.fixed_temperature = 1;
    CHECK_OK(read_dpg("td3", "Pendulum", &c)); /* the environment, and other values */
    CHECK_OK(gpur_sac_preset("sac", &c.all, c.fields, &c.replay, &sac, &c.run));
    paper.actor.num_actions = 1, paper.seed = 9;
    CHECK(memcmp(&sac, &paper, sizeof paper) == 0);
    CHECK(c.replay.capacity == 1000000 && c.run.prepopulation == 1000 && c.replay.min_size == 1000);
    CHECK(c.fields[1].dtype == GPUR_FLOAT32 && c.fields[1].shape[0] == 1 && c.all.eval_episodes == 10);
    CHECK_OK(gpur_sac_preset("sac-small", &c.all, c.fields, &c.replay, &sac, &c.run));
    const constant constants[] = {
        {"actor's rate", (double)sac.actor_optimizer.learning_rate.first, (double)1e-3f},
        {"critics' rate", (double)sac.critic_optimizer.learning_rate.last, (double)1e-3f},
        {"temperature's rate", (double)sac.temperature_optimizer.learning_rate.first, (double)1e-3f},
        {"batch", (double)sac.batch_size, 256},
        {"tau", (double)sac.target_rate, (double)0.005f},
        {"capacity", (double)c.replay.capacity, 200000},
        {"random steps", (double)c.run.prepopulation, 100},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK_FAILS(gpur_sac_preset("td3", &c.all, c.fields, &c.replay, &sac, &c.run), GPUR_INVALID_ARGUMENT,
                "preset is \"td3\"; it must be \"sac\" or \"sac-small\"");
}

TEST(presets_of_continuous_actions_refuse_others_and_change_nothing)
{
    dpg_config c, before;
    memset(&c, 0, sizeof c);
    CHECK_FAILS(read_dpg("ddpg", "CartPole-v1", &c), GPUR_INVALID_ARGUMENT,
                "CartPole-v1: the environment's actions are discrete");
    before = c;
    CHECK_FAILS(gpur_dpg_preset("ddpg", &c.all, c.fields, &c.replay, &c.learner, &c.run), GPUR_INVALID_ARGUMENT,
                "CartPole-v1: ");
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    CHECK_FAILS(read_dpg("apex-dpg", "Pendulum", &c), GPUR_INVALID_ARGUMENT,
                "preset is \"apex-dpg\"; it must be \"ddpg\", \"ddpg-small\", \"td3\" or \"td3-small\"");
    CHECK_FAILS(gpur_dpg_preset("ddpg", NULL, c.fields, &c.replay, &c.learner, &c.run), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(read_dpg("ddpg", "MinAtar/Breakout", &c), GPUR_INVALID_ARGUMENT,
                "MinAtar/Breakout: the dtype of its observations is");
    system_config dqn;
    const gpur_env_type *pendulum = NULL;
    CHECK_OK(gpur_env_find("Pendulum", &pendulum));
    CHECK_FAILS(read_preset("fast-dqn-small", pendulum, &dqn), GPUR_INVALID_ARGUMENT,
                "Pendulum: its actions are vectors; preset \"fast-dqn-small\" needs discrete actions, and \"ddpg\", "
                "\"ddpg-small\", \"td3\", \"td3-small\", \"sac\", "
                "\"sac-small\", \"apex-dpg\" and \"apex-dpg-small\" take vectors");
}

TEST(runs_can_be_made_of_all_presets)
{
    const gpur_env_type *cartpole = NULL;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    check_runs("fast-dqn", &frames, 0);
    check_runs("fast-dqn-small", cartpole, 0);
    check_runs("fast-dqn-small", &frames, 0);
    check_runs("dqn-lambda-2019", &frames, 0);
    check_runs("dqn-lambda-2019", &frames, 1); /* the partly observable mode of Daley & Amato 2019 */
    check_runs("dqn-lambda-2019", cartpole, 0);
    check_runs("dqn-lambda-2019-small", cartpole, 0);
    check_runs("vrc-2021", &frames, 0);
    check_runs("vrc-2021-small", &frames, 0);
    check_runs("qr-dqn", &frames, 0);
    check_runs("c51", &frames, 0);
    check_runs("qr-dqn", cartpole, 0);
    check_runs("c51", cartpole, 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(fast_dqn_has_the_published_constants);
    RUN(dqn_lambda_2019_has_the_constants_of_its_code);
    RUN(vrc_2021_has_the_constants_of_its_code);
    RUN(dqn_lambda_2019_has_the_authors_setting_of_cartpole);
    RUN(the_small_relatives_differ_as_their_systems_do);
    RUN(an_older_programs_configs_are_not_written_beyond_their_end);
    RUN(presets_compute_in_float32_as_the_papers_unless_they_are_small);
    RUN(the_small_preset_sets_all_of_a_run);
    RUN(the_preset_of_vectors_sets_what_differs_from_the_small_one);
    RUN(presets_of_distributions_have_the_published_constants_for_frames);
    RUN(without_frames_distributions_differ_from_the_small_presets_in_their_head);
    RUN(a_refused_preset_changes_nothing);
    RUN(an_image_has_its_channels_last_unless_its_shape_says_otherwise);
    RUN(a_type_that_makes_no_environment_is_refused);
    RUN(ddpg_has_the_published_constants);
    RUN(ddpg_small_differs_in_its_rates_and_sizes);
    RUN(td3_has_the_published_constants);
    RUN(sac_has_the_published_constants);
    RUN(presets_of_continuous_actions_refuse_others_and_change_nothing);
    RUN(runs_can_be_made_of_all_presets);
    return test_main_end();
}
