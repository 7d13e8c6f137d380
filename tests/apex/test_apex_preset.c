/* SPDX-License-Identifier: MIT */
/* The settings of the whole systems: each constant beside its published value, and runs of all presets. */
#include "gpureplay/apex.h"
#include "gpureplay/fast_dqn.h"
#include "support/run_envs.h"
#include "test.h"

#include <math.h>
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
    gpur_field fields[GPUR_APEX_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_dpg_config dpg;
    gpur_run_config run;
    gpur_apex_config apex;
} system_config;

/* The members of Ape-X's config that a preset does not set get other values than the defaults, and so do some that it
 * does. */
static void set_others(system_config *c)
{
    (void)gpur_replay_config_init(&c->replay, sizeof c->replay);
    c->replay.eviction = GPUR_EVICT_BY_PRIORITY, c->replay.evict_alpha = -2.0f;
    (void)gpur_dqn_config_init(&c->learner, sizeof c->learner);
    (void)gpur_dpg_config_init(&c->dpg, sizeof c->dpg);
    (void)gpur_run_config_init(&c->run, sizeof c->run);
    (void)gpur_apex_config_init(&c->apex, sizeof c->apex);
    c->apex.actors = 3, c->apex.remote_actors = 2, c->run.seed = 7;
    c->apex.epsilon_base = 0.1f, c->apex.epsilon_exponent = 1.0f, c->apex.block_rows = 3, c->apex.compression = 2;
    c->apex.initial_priorities = 0, c->apex.replicate = 2, c->apex.pull_period = 3, c->apex.max_episode_steps = 5;
    c->apex.broadcast_period = 9, c->apex.soft_capacity = 5, c->apex.trim_period = 3, c->apex.limiter_band = 9.0;
    c->apex.samples_per_insert = 3.0, c->apex.limiter_timeout = 3.0, c->run.eval_episodes = 1, c->apex.restarts = 0;
    c->run.eval_epsilon = 0.9f, c->run.eval_period = 1, c->apex.sigma = 0.1f;
    c->dpg.seed = 7, c->dpg.batch_size = 3, c->dpg.target_period = 5, c->dpg.action_gradient_clip = 0.5f;
    c->dpg.actor.trunk_count = 1, c->dpg.actor_optimizer.kind = GPUR_RMSPROP_TF;
}

/* Settings of an environment, which are valid until the next call. */
static gpur_run_config *of(const gpur_env_type *type, const char *options)
{
    static gpur_run_config config;
    (void)gpur_run_config_init(&config, sizeof config);
    config.type = type, config.env_options = options;
    return &config;
}

static gpur_status read_preset(const char *name, const gpur_env_type *type, system_config *c)
{
    set_others(c);
    c->run.type = type;
    return gpur_apex_preset(name, &c->run, c->fields, &c->replay, &c->learner, NULL, &c->apex);
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

static void check_shared(const system_config *c)
{
    const gpur_apex_config *const a = &c->apex;
    const constant constants[] = {
        {"actors", a->actors, 3},
        {"remote_actors", a->remote_actors, 2},
        {"seed", (double)c->run.seed, 7},
        {"epsilon's base", (double)a->epsilon_base, (double)0.4f},
        {"epsilon's exponent", (double)a->epsilon_exponent, 7},
        {"transitions of a block", a->block_rows, 50},
        {"compression", a->compression, 0},
        {"initial priorities", a->initial_priorities, 1},
        {"copies of a block", a->replicate, 1},
        {"steps between pulls", (double)a->pull_period, 400 / 4},
        {"steps of an episode", (double)a->max_episode_steps, 50000 / 4},
        {"train steps between publications", (double)a->broadcast_period, 10},
        {"train steps between trims", (double)a->trim_period, 100},
        {"band of the limiter", a->limiter_band, 0},
        {"time of the limiter", a->limiter_timeout, 10},
        {"episodes of an evaluation", (double)c->run.eval_episodes, 30},
        {"epsilon of the evaluation", (double)c->run.eval_epsilon, (double)0.0016384f},
        {"restarts", a->restarts, 1},
        {"fields", c->replay.field_count, GPUR_APEX_FIELDS},
        {"n", c->replay.n_step, 3},
        {"gamma", (double)c->replay.gamma, (double)0.99f},
        {"prioritized", c->replay.prioritized, 1},
        {"alpha", (double)c->replay.alpha, (double)0.6f},
        {"added to priorities", (double)c->replay.priority_offset, (double)1e-6f},
        {"double DQN", c->learner.double_dqn, 1},
        {"head", c->learner.network.head, GPUR_HEAD_DUELING},
        {"draws", c->learner.index_source, GPUR_PRIORITIZED_STRATIFIED},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK(strcmp(c->fields[6].name, "discount") == 0 && strcmp(c->fields[7].name, "priority") == 0);
    CHECK(c->replay.fields == c->fields && strcmp(c->run.env_options, "") == 0);
}

/* Horgan et al. 2018, section 4.1 and appendices C and F; where they are silent, public code. */
TEST(apex_dqn_has_the_published_constants)
{
    system_config c;
    CHECK_OK(read_preset("apex-dqn", &frames, &c));
    const gpur_network_config *const n = &c.learner.network;
    const constant constants[] = {
        {"layers", n->trunk_count, 3},
        {"filters 1", n->trunk[0].units, 32},
        {"filters 2", n->trunk[1].units, 64},
        {"filters 3", n->trunk[2].units, 64},
        {"units of a branch", n->hidden, 512},
        {"actions", n->num_actions, 4},
        {"input scale", (double)n->input_scale, (double)(1.0f / 255.0f)},
        {"optimizer", c.learner.optimizer.kind, GPUR_RMSPROP_DEEPMIND},
        {"centered", c.learner.optimizer.centered, 1},
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)(0.00025f / 4.0f)},
        {"last learning rate", (double)c.learner.optimizer.learning_rate.last, (double)(0.00025f / 4.0f)},
        {"decay", (double)c.learner.optimizer.decay, (double)0.95f},
        {"optimizer's epsilon", (double)c.learner.optimizer.epsilon, (double)1.5e-7f},
        {"momentum", (double)c.learner.optimizer.momentum, 0},
        {"clipping by norm", (double)c.learner.optimizer.clip_norm, 40},
        {"beta", (double)c.learner.beta.first, (double)0.4f},
        {"last beta", (double)c.learner.beta.last, (double)0.4f},
        {"loss", c.learner.loss, GPUR_LOSS_SQUARED},
        {"batch", (double)c.learner.batch_size, 512},
        {"target period", (double)c.learner.target_period, 2500},
        {"soft capacity", (double)c.apex.soft_capacity, 2000000},
        {"capacity", (double)c.replay.capacity, 2125000},
        {"extra frames", (double)c.replay.extra_frames, 2125000 / 50 * 6 + 2125000 / 64},
        {"transitions before training", (double)c.replay.min_size, 50000},
        {"samples per insert", c.apex.samples_per_insert, 0},
        {"rewards clipped at", (double)c.replay.reward_clip, 1},
        {"layout", c.replay.layout, GPUR_LAYOUT_FRAMES},
        {"frames of a stack", c.replay.frame_stack, 4},
        {"first axis", c.fields[0].shape[0], 4},
        {"second axis", c.fields[0].shape[1], SIDE},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    check_shared(&c);
}

/* Sizes, optimizer and loss of "fast-dqn-small", and a train step every 4 environment steps. The learning rate and beta
 * are its own. */
TEST(apex_dqn_small_is_like_fast_dqn_small_but_for_its_system)
{
    const gpur_env_type *cartpole = NULL;
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_fast_dqn_config run;
    system_config c;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    CHECK_OK(gpur_dqn_config_init(&learner, sizeof learner));
    CHECK_OK(gpur_fast_dqn_config_init(&run, sizeof run));
    CHECK_OK(gpur_fast_dqn_preset("fast-dqn-small", ENVS_WITH(cartpole, ""), fields, &replay, &learner, &run));
    CHECK_OK(read_preset("apex-dqn-small", cartpole, &c));
    const constant constants[] = {
        {"units", c.learner.network.trunk[0].units, learner.network.trunk[0].units},
        {"units of a branch", c.learner.network.hidden, learner.network.trunk[1].units},
        {"layers", c.learner.network.trunk_count, 1},
        {"optimizer", c.learner.optimizer.kind, learner.optimizer.kind},
        {"learning rate", (double)c.learner.optimizer.learning_rate.first, (double)1e-3f},
        {"beta", (double)c.learner.beta.first, 1},
        {"last beta", (double)c.learner.beta.last, 1},
        {"clipping by norm", (double)c.learner.optimizer.clip_norm, (double)learner.optimizer.clip_norm},
        {"loss", c.learner.loss, learner.loss},
        {"batch", (double)c.learner.batch_size, (double)learner.batch_size},
        {"target period", (double)c.learner.target_period, (double)learner.target_period},
        {"soft capacity", (double)c.apex.soft_capacity, (double)replay.capacity},
        {"capacity", (double)c.replay.capacity, 106250},
        {"extra frames", (double)c.replay.extra_frames, 0},
        {"transitions before training", (double)c.replay.min_size, (double)replay.min_size},
        {"samples per insert", c.apex.samples_per_insert, (double)learner.batch_size / (double)run.train_period},
        {"layout", c.replay.layout, GPUR_LAYOUT_ROWS},
        {"actions", c.learner.network.num_actions, 2},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    check_shared(&c);
}

static const gpur_env_type *pendulum(void)
{
    const gpur_env_type *type = NULL;
    return gpur_env_find("Pendulum", &type) == GPUR_OK ? type : NULL;
}

static gpur_status read_dpg(const char *name, const gpur_env_type *type, system_config *c)
{
    set_others(c);
    c->run.type = type;
    return gpur_apex_preset(name, &c->run, c->fields, &c->replay, NULL, &c->dpg, &c->apex);
}

/* Horgan et al. 2018, appendix D: "otherwise as per DQN". Frames are steps, as actions are not repeated. */
TEST(apex_dpg_has_the_published_constants)
{
    system_config c;
    CHECK_OK(read_dpg("apex-dpg", pendulum(), &c));
    const gpur_dpg_config *const d = &c.dpg;
    const gpur_apex_config *const a = &c.apex;
    const constant constants[] = {
        {"layers of the actor", d->actor.trunk_count, 2},
        {"units 1 of the actor", d->actor.trunk[0].units, 300},
        {"after them", d->actor.trunk[0].activation, GPUR_TANH},
        {"units 2 of the actor", d->actor.trunk[1].units, 200},
        {"layers of the critic", d->critic.trunk_count, 2},
        {"units 1 of the critic", d->critic.trunk[0].units, 400},
        {"after them", d->critic.trunk[0].activation, GPUR_TANH},
        {"units 2 of the critic", d->critic.trunk[1].units, 300},
        {"head of the actor", d->actor.head, GPUR_HEAD_TANH_ACTION},
        {"numbers of an action", d->actor.num_actions, 1},
        {"actor's optimizer", d->actor_optimizer.kind, GPUR_ADAM},
        {"actor's rate", (double)d->actor_optimizer.learning_rate.first, (double)1e-4f},
        {"critic's optimizer", d->critic_optimizer.kind, GPUR_ADAM},
        {"critic's rate", (double)d->critic_optimizer.learning_rate.last, (double)1e-4f},
        {"clipping of dQ / da", (double)d->action_gradient_clip, 1},
        {"penalty", (double)d->preactivation_penalty, 0},
        {"norm of the actor's gradient", (double)d->actor_optimizer.clip_norm, 40},
        {"norm of the critic's gradient", (double)d->critic_optimizer.clip_norm, 40},
        {"batch", (double)d->batch_size, 256},
        {"target period", (double)d->target_period, 100},
        {"beta", (double)d->beta.first, (double)0.4f},
        {"draws", d->index_source, GPUR_PRIORITIZED_STRATIFIED},
        {"seed", (double)d->seed, 7},
        {"sigma", (double)a->sigma, (double)0.3f},
        {"soft capacity", (double)a->soft_capacity, 1000000},
        {"capacity", (double)c.replay.capacity, 1062500},
        {"transitions before training", (double)c.replay.min_size, 50000},
        {"n", c.replay.n_step, 3},
        {"eviction", c.replay.eviction, GPUR_EVICT_BY_PRIORITY},
        {"exponent of eviction", (double)c.replay.evict_alpha, (double)-0.4f},
        {"gamma", (double)c.replay.gamma, (double)0.99f},
        {"alpha", (double)c.replay.alpha, (double)0.6f},
        {"added to priorities", (double)c.replay.priority_offset, (double)1e-6f},
        {"rewards clipped at", (double)c.replay.reward_clip, 0},
        {"transitions of a block", a->block_rows, 50},
        {"steps between pulls", (double)a->pull_period, 400},
        {"steps of an episode", (double)a->max_episode_steps, 50000},
        {"train steps between trims", (double)a->trim_period, 100},
        {"initial priorities", a->initial_priorities, 1},
        {"samples per insert", a->samples_per_insert, 0},
        {"actors", a->actors, 3},
        {"fields", c.replay.field_count, GPUR_APEX_FIELDS},
        {"layout", c.replay.layout, GPUR_LAYOUT_ROWS},
    };
    check_constants(constants, sizeof constants / sizeof *constants);
    CHECK(strcmp(c.fields[1].name, "action") == 0 && c.fields[1].dtype == GPUR_FLOAT32 && c.fields[1].shape[0] == 1);
    CHECK(c.fields[0].shape[0] == 3 && strcmp(c.fields[7].name, "priority") == 0 && c.replay.fields == c.fields);
}

/* Also where they are 0 or NULL: a learner of remote actors has none of its own. */
TEST(actors_command_and_folder_are_the_callers)
{
    static const char *const names[] = {"apex-dqn", "apex-dqn-small", "apex-dpg", "apex-dpg-small"};
    static const char *const command[] = {"actor", NULL};
    system_config c;
    for (int i = 0; i < 4; i++)
        for (int with = 0; with < 2; with++) {
            set_others(&c);
            c.run.type = i < 2 ? &frames : pendulum();
            c.apex.actors = 0, c.apex.remote_actors = with ? 5 : 0;
            c.apex.command = with ? command : NULL, c.apex.folder = with ? "folder" : NULL;
            CHECK_OK(gpur_apex_preset(names[i], &c.run, c.fields, &c.replay, &c.learner, &c.dpg, &c.apex));
            CHECK(c.apex.actors == 0 && c.apex.remote_actors == (with ? 5 : 0));
            CHECK(c.apex.command == (with ? command : NULL) && c.apex.restarts == 1);
            CHECK(with ? c.apex.folder && strcmp(c.apex.folder, "folder") == 0 : c.apex.folder == NULL);
        }
}

/* An environment whose observations are a table of numbers, and whose actions have two axes. */
static const char *table_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {4, 5}, .low = -INFINITY, .high = INFINITY};
    info->action = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {2, 3}, .low = -1.0f, .high = 2.0f};
    *env = calloc(1, 1);
    return *env ? NULL : "no memory";
}

TEST(apex_dpg_takes_arrays_and_refuses_what_is_not_continuous)
{
    const gpur_env_type table = {
        .size = sizeof table, .name = "table", .init = table_init, .reset = reset, .step = step, .close = free};
    const gpur_env_type *cartpole = NULL;
    system_config c, before;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    memset(&c, 0, sizeof c);
    CHECK_OK(read_dpg("apex-dpg-small", &table, &c));
    CHECK(c.dpg.actor.num_actions == 6 && c.fields[1].shape[0] == 6 && c.fields[1].shape[1] == 0);
    CHECK(c.fields[0].shape[0] == 4 && c.fields[0].shape[1] == 5 && c.replay.layout == GPUR_LAYOUT_ROWS);
    before = c;
    CHECK_FAILS(gpur_apex_preset("apex-dpg", of(cartpole, ""), c.fields, &c.replay, NULL, &c.dpg, &c.apex),
                GPUR_INVALID_ARGUMENT, "CartPole-v1: the environment's actions are discrete");
    CHECK_FAILS(gpur_apex_preset("apex-dpg", of(&frames, ""), c.fields, &c.replay, NULL, &c.dpg, &c.apex),
                GPUR_INVALID_ARGUMENT, "the dtype of its observations");
    CHECK_FAILS(gpur_apex_preset("apex-dqn", of(&table, ""), c.fields, &c.replay, NULL, &c.dpg, &c.apex),
                GPUR_INVALID_ARGUMENT, "dqn is NULL; preset \"apex-dqn\" sets it");
    CHECK_FAILS(gpur_apex_preset("apex-dpg", of(&table, ""), c.fields, &c.replay, &c.learner, NULL, &c.apex),
                GPUR_INVALID_ARGUMENT, "dpg is NULL; preset \"apex-dpg\" sets it");
    CHECK(memcmp(&before, &c, sizeof c) == 0);
}

TEST(a_refused_preset_changes_nothing)
{
    const gpur_env_type *cartpole = NULL;
    system_config c, before;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    memset(&c, 0, sizeof c);
    CHECK_OK(read_preset("apex-dqn-small", cartpole, &c));
    before = c;
    CHECK_FAILS(gpur_apex_preset("apex-dqn", of(cartpole, ""), c.fields, &c.replay, &c.learner, NULL, &c.apex),
                GPUR_INVALID_ARGUMENT, "\"apex-dqn\" needs frames of 84 x 84 bytes; \"apex-dqn-small\" takes");
    CHECK_FAILS(gpur_apex_preset("apex", of(cartpole, ""), c.fields, &c.replay, &c.learner, NULL, &c.apex),
                GPUR_INVALID_ARGUMENT,
                "preset is \"apex\"; it must be \"apex-dqn\", \"apex-dqn-small\", \"apex-dpg\" or \"apex-dpg-small\"");
    CHECK_FAILS(gpur_apex_preset("apex-dqn", NULL, c.fields, &c.replay, &c.learner, NULL, &c.apex),
                GPUR_INVALID_ARGUMENT, "an argument is NULL");
    CHECK_FAILS(
        gpur_apex_preset("apex-dqn-small", of(cartpole, "speed=3"), c.fields, &c.replay, &c.learner, NULL, &c.apex),
        GPUR_INVALID_ARGUMENT, "speed");
    CHECK(memcmp(&before, &c, sizeof c) == 0);
}

static void check_runs(const char *name, const gpur_env_type *type)
{
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    gpur_learner *learner = NULL;
    gpur_run *run = NULL;
    system_config c;
    const int has_dpg = strstr(name, "dpg") != NULL;
    CHECK_OK(has_dpg ? read_dpg(name, type, &c) : read_preset(name, type, &c));
    CHECK_EQUAL(has_dpg ? c.dpg.math : c.learner.math, strstr(name, "-small") ? GPUR_MATH_AUTO : GPUR_MATH_FP32);
    c.replay.capacity = 3000, c.replay.min_size = 100, c.replay.block_rows = 100, c.replay.max_batch = 64;
    c.replay.extra_frames = c.replay.extra_frames > 0 ? 1000 : 0;
    c.apex.soft_capacity = 1000, c.apex.actors = 2;
    c.learner.batch_size = c.dpg.batch_size = 8;
    CHECK_OK(gpur_replay_create(device, &c.replay, &replay));
    CHECK_OK(has_dpg ? gpur_dpg_create(replay, &c.dpg, &learner) : gpur_dqn_create(replay, &c.learner, &learner));
    CHECK_OK(gpur_apex_create(learner, &c.run, &c.apex, &run));
    CHECK_OK(gpur_run_advance(run, 0, 2));
    gpur_run_destroy(run);
    gpur_learner_destroy(learner);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

TEST(runs_can_be_made_of_all_presets)
{
    const gpur_env_type *cartpole = NULL;
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    check_runs("apex-dqn", &frames);
    check_runs("apex-dqn-small", &frames);
    check_runs("apex-dqn-small", cartpole);
    check_runs("apex-dpg", pendulum());
    check_runs("apex-dpg-small", pendulum());
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(apex_dqn_has_the_published_constants);
    RUN(apex_dqn_small_is_like_fast_dqn_small_but_for_its_system);
    RUN(apex_dpg_has_the_published_constants);
    RUN(actors_command_and_folder_are_the_callers);
    RUN(apex_dpg_takes_arrays_and_refuses_what_is_not_continuous);
    RUN(a_refused_preset_changes_nothing);
    RUN(runs_can_be_made_of_all_presets);
    return test_main_end();
}
