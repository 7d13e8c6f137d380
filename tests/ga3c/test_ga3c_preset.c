/* SPDX-License-Identifier: MIT */
/* Presets of GA3C: the constants of the paper and of its code, what a preset leaves alone, and what is refused. */
#include "gpureplay/ga3c.h"
#include "support/run_envs.h"
#include "test.h"

typedef struct constant {
    const char *name;
    double got, wanted;
} constant;

static void check_constants(const constant *constants, size_t count)
{
    for (size_t i = 0; i < count; i++)
        TEST_REQUIRE(constants[i].got == constants[i].wanted, "%s is %.9g; wanted %.9g", constants[i].name,
                     constants[i].got, constants[i].wanted);
}

/* Frames of 84 x 84 bytes, four actions. */
static const char *init_frames(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    static int one;
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {84, 84}, .high = 255};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 4, .high = 3};
    *env = &one;
    return NULL;
}
static const char *reset_frames(void *env, void *obs)
{
    (void)env, (void)obs;
    return NULL;
}
static const char *step_frames(void *env, const void *action, void *obs, gpur_env_result *result)
{
    (void)env, (void)action, (void)obs;
    *result = (gpur_env_result){0};
    return NULL;
}
static void close_frames(void *env)
{
    (void)env;
}
static const gpur_env_type frames = {.size = sizeof frames,
                                     .name = "Frames",
                                     .init = init_frames,
                                     .reset = reset_frames,
                                     .step = step_frames,
                                     .close = close_frames};

typedef struct system_config {
    gpur_actor_critic_config learner;
    gpur_ga3c_config run;
    gpur_run_config all;
} system_config;

/* What a preset leaves alone has values of its own. */
static gpur_status read_preset(const char *name, const gpur_env_type *type, system_config *c)
{
    gpur_status status = gpur_actor_critic_config_init(&c->learner, sizeof c->learner);
    if (status == GPUR_OK)
        status = gpur_ga3c_config_init(&c->run, sizeof c->run);
    if (status == GPUR_OK)
        status = gpur_run_config_init(&c->all, sizeof c->all);
    c->learner.seed = 7, c->learner.max_batch = 99;
    c->run.agents = 5, c->run.predictors = 3, c->run.trainers = 4, c->all.seed = 8, c->run.tuner_period = 6;
    c->learner.entropy.first = 3, c->run.t_max = 11, c->learner.network.hidden = 17; /* which it sets */
    c->all.type = type, c->all.eval_period = 9, c->all.eval_episodes = 8;
    return status == GPUR_OK ? gpur_ga3c_preset(name, &c->all, &c->learner, &c->run) : status;
}

static void check_kept(const system_config *c)
{
    CHECK(c->all.eval_period == 0 && c->all.eval_episodes == 30);
    CHECK(c->learner.seed == 7 && c->learner.max_batch == 99 && c->run.agents == 5 && c->run.predictors == 3);
    CHECK(c->run.trainers == 4 && c->all.seed == 8 && c->run.tuner_period == 6.0);
}

TEST(ga3c_has_the_published_constants)
{
    system_config c;
    CHECK_OK(read_preset("ga3c", &frames, &c));
    const gpur_network_config *const n = &c.learner.network;
    const gpur_optimizer_config *const o = &c.learner.optimizer;
    const constant constants[] = {
        {"layers", n->trunk_count, 3},
        {"filters 1", n->trunk[0].units, 16},
        {"kernel 1", n->trunk[0].kernel, 8},
        {"stride 1", n->trunk[0].stride, 4},
        {"padding 1", n->trunk[0].padding, GPUR_SAME},
        {"filters 2", n->trunk[1].units, 32},
        {"kernel 2", n->trunk[1].kernel, 4},
        {"stride 2", n->trunk[1].stride, 2},
        {"padding 2", n->trunk[1].padding, GPUR_SAME},
        {"units", n->trunk[2].units, 256},
        {"hidden", n->hidden, 0},
        {"head", n->head, GPUR_HEAD_SOFTMAX_VALUE},
        {"actions", n->num_actions, 4},
        {"initial weights", n->init, GPUR_INIT_FAN_IN},
        {"input scale", (double)n->input_scale, 1.0 / 128},
        {"input shift", (double)n->input_shift, -1},
        {"frames", c.learner.obs.shape[0], 4},
        {"optimizer", o->kind, GPUR_RMSPROP_TF},
        {"centered", o->centered, 0},
        {"learning rate", (double)o->learning_rate.first, (double)3e-4f},
        {"last learning rate", (double)o->learning_rate.last, (double)3e-4f},
        {"decay", (double)o->decay, (double)0.99f},
        {"momentum", (double)o->momentum, 0},
        {"optimizer's epsilon", (double)o->epsilon, (double)0.1f},
        {"clipping", (double)o->clip_norm, 0},
        {"two optimizers", c.learner.dual_optimizer, 0},
        {"log", c.learner.log, GPUR_LOG_ADD},
        {"epsilon of the log", (double)c.learner.log_epsilon, (double)1e-6f},
        {"floor", (double)c.learner.policy_floor, 0},
        {"coefficient of the value", (double)c.learner.value_coefficient, 0.5},
        {"entropy", (double)c.learner.entropy.first, (double)0.01f},
        {"last entropy", (double)c.learner.entropy.last, (double)0.01f},
        {"system", c.run.system, GPUR_GA3C},
        {"t_max", c.run.t_max, 5},
        {"gamma", (double)c.run.discount, (double)0.99f},
        {"clipping of rewards", (double)c.run.reward_clip, 1},
        {"requests of a batch", c.run.max_prediction_batch, 128},
        {"least training batch", c.run.min_train_batch, 0},
        {"room of the queue", c.run.queue_room, 100},
        {"when it is full", c.run.when_full, GPUR_QUEUE_WAIT},
        {"terminal steps", c.run.drop_terminal, 0},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    check_kept(&c);
}

/* Footnote 2 of the paper; and the systems beside it. */
TEST(the_other_presets_differ_in_network_and_system)
{
    static const struct {
        const char *name;
        int32_t system, stride, layers;
    } others[] = {{"ga3c-large-4", GPUR_GA3C, 4, 4}, {"ga3c-large-3", GPUR_GA3C, 3, 4},
                  {"ga3c-large-2", GPUR_GA3C, 2, 4}, {"ga3c-large-1", GPUR_GA3C, 1, 4},
                  {"a3c-cpu", GPUR_A3C, 4, 3},       {"a2c", GPUR_A2C, 4, 3}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        system_config c;
        CHECK_OK(read_preset(others[i].name, &frames, &c));
        const gpur_network_config *const n = &c.learner.network;
        const int is_large = others[i].layers == 4;
        CHECK_EQUAL(c.run.system, others[i].system);
        CHECK_EQUAL(c.learner.math, GPUR_MATH_FP32);
        CHECK_EQUAL(n->trunk_count, others[i].layers);
        CHECK_EQUAL(n->trunk[0].units, is_large ? 32 : 16);
        CHECK_EQUAL(n->trunk[0].stride, others[i].stride);
        CHECK(!is_large || (n->trunk[2].units == 64 && n->trunk[2].kernel == 4 && n->trunk[2].stride == 2));
        CHECK_EQUAL(n->trunk[others[i].layers - 1].units, 256);
        CHECK_NEAR(c.learner.optimizer.clip_norm, others[i].system == GPUR_A3C ? 40.0 : 0.0, 0.0);
        check_kept(&c);
    }
}

TEST(the_small_ones_take_other_games)
{
    static const char *const games[] = {"CartPole-v1", "MinAtar/Breakout"};
    static const char *const names[] = {"ga3c-small", "a3c-small", "a2c-small"};
    for (int i = 0; i < 6; i++) {
        const gpur_env_type *type = NULL;
        system_config c;
        CHECK_OK(gpur_env_find(games[i % 2], &type));
        CHECK_OK(read_preset(names[i / 2], type, &c));
        CHECK_EQUAL(c.run.system, i / 2);
        CHECK_EQUAL(c.learner.math, GPUR_MATH_AUTO);
        CHECK_EQUAL(c.run.t_max, i / 2 == GPUR_A3C ? 40 : 5);
        CHECK_EQUAL(c.learner.network.trunk[0].kind, i % 2 ? GPUR_CONV : GPUR_DENSE);
        CHECK_EQUAL(c.learner.network.num_actions, i % 2 ? 6 : 2);
        check_kept(&c);
    }
}

TEST(what_does_not_fit_is_refused_and_changes_nothing)
{
    const gpur_env_type *pole = NULL;
    system_config c, before;
    CHECK_OK(gpur_env_find("CartPole-v1", &pole));
    CHECK_OK(read_preset("ga3c-small", pole, &c));
    before = c;
    CHECK_FAILS(gpur_ga3c_preset("ga3c", ENVS_WITH(pole, ""), &c.learner, &c.run), GPUR_INVALID_ARGUMENT,
                "needs frames of 84 x 84 bytes; \"ga3c-small\" takes other observations");
    CHECK_FAILS(gpur_ga3c_preset("ga3c-large-5", ENVS_WITH(&frames, ""), &c.learner, &c.run), GPUR_INVALID_ARGUMENT,
                "preset is \"ga3c-large-5\"; it must be \"ga3c\"");
    CHECK_FAILS(gpur_ga3c_preset("ga3c", NULL, &c.learner, &c.run), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK(memcmp(&c, &before, sizeof c) == 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(ga3c_has_the_published_constants);
    RUN(the_other_presets_differ_in_network_and_system);
    RUN(the_small_ones_take_other_games);
    RUN(what_does_not_fit_is_refused_and_changes_nothing);
    return test_main_end();
}
