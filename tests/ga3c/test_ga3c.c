/* SPDX-License-Identifier: MIT */
/* Runs with an actor-critic on the device under test: the three systems train it, evaluate it, and save it. */
#include "run/ga3c/handle.h"
#include "support/file_utils.h"
#include "run/ga3c/handle.h"
#include "support/learner_fixture.h"
#include "support/run_envs.h"
#include "test.h"

#include <stdlib.h>

static gpur_device *device;
static gpur_learner *learner;
static gpur_run *run;

/* Preset "NAME-small" for CartPole. */
static gpur_status open_run(const char *name, uint64_t seed)
{
    const gpur_env_type *type;
    gpur_actor_critic_config learner_config;
    gpur_ga3c_config config;
    gpur_run_config all;
    gpur_device_config device_config = test_device_config();
    device_config.threads = 1;
    device_config.deterministic = 1;
    GPUR_TRY(gpur_device_open(test_device_name(), &device_config, &device));
    GPUR_TRY(gpur_env_find("CartPole-v1", &type));
    GPUR_TRY(gpur_actor_critic_config_init(&learner_config, sizeof learner_config));
    GPUR_TRY(gpur_ga3c_config_init(&config, sizeof config));
    GPUR_TRY(gpur_run_config_init(&all, sizeof all));
    all.type = type, all.eval_envs = 1;
    learner_config.seed = all.seed = seed;
    config.agents = 8;
    GPUR_TRY(gpur_ga3c_preset(name, &all, &learner_config, &config));
    GPUR_TRY(gpur_actor_critic_create(device, &learner_config, &learner));
    return gpur_ga3c_create(learner, &all, &config, &run);
}

static void close_run(void)
{
    gpur_run_destroy(run);
    gpur_learner_destroy(learner);
    gpur_device_close(device);
    run = NULL, learner = NULL, device = NULL;
}

static gpur_run_stats stats_of_run(void)
{
    gpur_run_stats stats = {.size = sizeof stats};
    (void)gpur_run_get_stats(run, &stats);
    return stats;
}

static const char *const names[] = {"ga3c-small", "a3c-small", "a2c-small"};

TEST(each_system_trains_the_learner)
{
    for (int i = 0; i < 3; i++) {
        gpur_run_event event = {0};
        CHECK_OK(open_run(names[i], 1));
        CHECK_OK(gpur_run_advance(run, 1500, 0));
        const gpur_run_stats s = stats_of_run();
        CHECK_EQUAL(s.env_steps, 1500);
        CHECK(s.train_steps > 25 && s.train_steps == learner_fixture_stats(learner).steps);
        CHECK(s.ga3c.trained_rows <= 1500 && s.ga3c.trained_rows >= 1500 - 8 * (i == GPUR_A3C ? 39 : 4));
        CHECK(isfinite(s.ga3c.policy_loss) && s.ga3c.value_loss > 0.0 && s.ga3c.entropy > 0.0 &&
              s.ga3c.entropy < 0.6932);
        CHECK(s.ga3c.gradient_norm > 0.0 && s.ga3c.learning_rate > 0.0);
        CHECK_OK(gpur_run_evaluate(run, 3, 1, &event));
        CHECK(event.mean_return >= 8.0);
        close_run();
    }
}

/* The same bits with the same seed. */
static void train_a2c(float *weights, int64_t count)
{
    CHECK_OK(open_run("a2c-small", 5));
    CHECK_OK(gpur_run_advance(run, 700, 0));
    CHECK_OK(gpur_run_advance(run, 101, 0));
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_learner_get_weight_info(learner, 0, &info));
    memset(weights, 0, (size_t)count * sizeof *weights);
    CHECK(info.count <= count);
    CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, weights, info.count));
    close_run();
}

TEST(a2c_gives_the_same_bits_again)
{
    static float first[65536], second[65536];
    train_a2c(first, 65536);
    train_a2c(second, 65536);
    CHECK(memcmp(first, second, sizeof first) == 0);
}

TEST(a3c_and_a2c_learn_cartpole)
{
    for (int i = 1; i < 3; i++) {
        CHECK_OK(open_run(names[i], 3));
        CHECK_OK(gpur_run_advance(run, 2000, 0));
        const double before = stats_of_run().recent_return;
        CHECK_OK(gpur_run_advance(run, test_is_long() ? 100000 : 16000, 0));
        const double after = stats_of_run().recent_return;
        CHECK(after > 2.0 * before);
        close_run();
    }
}

/* An environment that writes down its actions: each agent's, and those of evaluations in the last row. */

enum { AGENTS = 3, ACTIONS = 3, LENGTH = 64, WRITTEN = 1024, T_MAX = 5 };

typedef struct notebook {
    uint64_t seed; /* of the environment that writes here */
    int32_t count, t;
    int32_t actions[WRITTEN];
} notebook;

static notebook notebooks[AGENTS + 1], others;

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {2}, .high = 1};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = ACTIONS, .high = ACTIONS - 1};
    *env = &others;
    for (int i = 0; i <= AGENTS; i++)
        if (notebooks[i].seed == seed)
            *env = &notebooks[i];
    return NULL;
}

static const char *reset(void *env, void *obs)
{
    ((notebook *)env)->t = 0;
    memset(obs, 0, 2 * sizeof(float));
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    notebook *const n = env;
    memset(obs, 0, 2 * sizeof(float));
    n->actions[n->count % WRITTEN] = *(const int32_t *)action;
    n->count++;
    *result = (gpur_env_result){.terminated = (uint8_t)(++n->t == LENGTH)};
    return NULL;
}

static void close_env(void *env)
{
    (void)env;
}

static const gpur_env_type writer = {
    .size = sizeof writer, .name = "Writer", .init = init, .reset = reset, .step = step, .close = close_env};

/* The run's seed is not 0, and the learning rate is too small for a change of the weights. */
static void open_writers(int32_t system, gpur_policy **expected)
{
    gpur_actor_critic_config learner_config;
    gpur_policy_config acting;
    gpur_ga3c_config c;
    CHECK_OK(gpur_actor_critic_config_init(&learner_config, sizeof learner_config));
    learner_config.network.num_actions = ACTIONS;
    learner_config.obs = (gpur_field){"obs", GPUR_FLOAT32, {2}};
    learner_config.optimizer.learning_rate.first = learner_config.optimizer.learning_rate.last = 1e-30f;
    learner_config.policy_floor = 0.2f;
    CHECK_OK(gpur_ga3c_config_init(&c, sizeof c));
    c.system = system, c.agents = AGENTS, c.t_max = T_MAX;
    c.min_train_batch = system == GPUR_GA3C ? 100 : 0;
    CHECK_OK(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = learner_config.network, acting.obs = learner_config.obs;
    acting.policy_floor = learner_config.policy_floor, acting.seed = 5;
    device = test_device();
    CHECK_OK(gpur_actor_critic_create(device, &learner_config, &learner));
    CHECK_OK(gpur_policy_create(device, &acting, expected));
    gpur_run_config *const all = ENVS(&writer);
    all->seed = 5;
    CHECK_OK(gpur_ga3c_create(learner, all, &c, &run));
    memset(notebooks, 0, sizeof notebooks);
    for (int i = 0; i <= AGENTS; i++)
        notebooks[i].seed = gpur_run_env_seed(run->config.seed, i < AGENTS ? i : GPUR_GA3C_MAX_AGENTS, 0);
}

/* The weights prefer an action by far. */
static void prefer(int32_t action, gpur_policy *expected)
{
    float bias[ACTIONS] = {0};
    bias[action] = 4.0f;
    CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "policy.out.bias", bias, ACTIONS));
    CHECK_OK(gpur_policy_pull(expected, learner, GPUR_WEIGHTS_ONLINE));
}

/* The actions from number `first` on are those that the policy draws by the random numbers of this lane, and of steps
 * that are numbered from `step` on. */
static void check_draws(gpur_policy *expected, const notebook *n, uint32_t lane, int32_t first, uint64_t step)
{
    static const float obs[2];
    int32_t changes = 0;
    CHECK(n->count <= WRITTEN);
    for (int32_t i = first; i < n->count; i++, step++) {
        int32_t wanted = -1;
        const gpur_policy_input input = {.size = sizeof input, .count = 1, .obs = obs, .lane = &lane, .step = &step};
        const gpur_policy_output output = {.size = sizeof output, .actions = &wanted};
        CHECK_OK(gpur_policy_act(expected, &input, &output));
        CHECK_EQUAL(n->actions[i], wanted);
        changes += i > first && n->actions[i] != n->actions[i - 1];
    }
    CHECK(changes > 0 || n->count - first < 30);
}

static void evaluate(int64_t episodes, int32_t greedy)
{
    gpur_run_event event = {0};
    notebooks[AGENTS].seed = gpur_run_env_seed(run->config.seed, GPUR_GA3C_MAX_AGENTS, gpur_ga3c_of(run)->eval_games);
    notebooks[AGENTS].count = 0;
    CHECK_OK(gpur_run_evaluate(run, episodes, greedy, &event));
    CHECK_EQUAL(notebooks[AGENTS].count, episodes * LENGTH);
}

static void check_evaluations(gpur_policy *expected, int32_t preferred)
{
    const uint64_t steps = gpur_ga3c_of(run)->eval_steps;
    evaluate(1, 1);
    for (int i = 0; i < LENGTH; i++)
        CHECK_EQUAL(notebooks[AGENTS].actions[i], preferred);
    evaluate(2, 0);
    check_draws(expected, &notebooks[AGENTS], GPUR_GA3C_MAX_AGENTS, 0, steps + LENGTH);
}

/* With the policy floor, with random numbers of their own, and soon with weights that were written between two calls:
 * an agent may have its next action already, and with A3C it acts by its copy until its rollout is full. */
TEST(agents_and_evaluations_act_by_the_learner_s_weights)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        gpur_policy *expected = NULL;
        int32_t first[AGENTS] = {0};
        open_writers(system, &expected);
        for (int32_t preferred = 0; preferred < ACTIONS; preferred++) {
            int64_t steps = 0;
            prefer(preferred, expected);
            if (preferred == 1)
                check_evaluations(expected, preferred);
            CHECK_OK(gpur_run_advance(run, 60, 0));
            check_evaluations(expected, preferred);
            for (int i = 0; i < AGENTS; i++) {
                check_draws(expected, &notebooks[i], (uint32_t)i, first[i], (uint64_t)first[i]);
                first[i] = notebooks[i].count + (system == GPUR_A3C ? T_MAX : 1);
                steps += notebooks[i].count;
            }
            CHECK_EQUAL(steps, 60 * (preferred + 1));
        }
        gpur_policy_destroy(expected);
        close_run();
    }
}

/* On the host a stream of a policy is memory for a forward pass. */
TEST(as_many_predictions_as_there_are_predictors_are_made_at_the_same_time)
{
    int64_t used[3];
    for (int i = 0; i < 3; i++) {
        gpur_ga3c_config c;
        const gpur_env_type *type;
        CHECK_OK(open_run("ga3c-small", 1));
        CHECK_OK(gpur_env_find("CartPole-v1", &type));
        CHECK_OK(gpur_ga3c_config_init(&c, sizeof c));
        gpur_run_destroy(run);
        const int64_t before = test_memory_used(device);
        c.predictors = 1 + i;
        CHECK_OK(gpur_ga3c_create(learner, ENVS(type), &c, &run));
        used[i] = test_memory_used(device) - before;
        close_run();
    }
    CHECK(used[1] > used[0] && used[2] - used[1] == used[1] - used[0]);
}

TEST(environments_that_do_not_fit_are_refused)
{
    const gpur_env_type *cartpole, *breakout;
    gpur_ga3c_config config;
    gpur_run *other;
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_ga3c_config_init(&config, sizeof config));
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(gpur_env_find("MinAtar/Breakout", &breakout));
    CHECK_FAILS(gpur_ga3c_create(learner, ENVS(breakout), &config, &other), GPUR_INVALID_ARGUMENT,
                "discrete actions and");
    CHECK(other == NULL);
    CHECK_FAILS(gpur_ga3c_create(learner, ENVS(NULL), &config, &other), GPUR_INVALID_ARGUMENT,
                "type of environment is NULL");
    CHECK_FAILS(gpur_ga3c_create(learner, ENVS(cartpole), &config, NULL), GPUR_INVALID_ARGUMENT, "is NULL");
    config.predictors = 65;
    CHECK_FAILS(gpur_ga3c_create(learner, ENVS(cartpole), &config, &other), GPUR_INVALID_ARGUMENT, "predictors is 65");
    config.predictors = 1;
    CHECK_FAILS(gpur_ga3c_create(learner, ENVS_WITH(cartpole, "nothing=1"), &config, &other), GPUR_INVALID_ARGUMENT,
                "nothing");
    close_run();
}

#ifdef GPUR_HAS_FILES
TEST(a_saved_learner_goes_on_in_another_run)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_run_advance(run, 500, 0));
    const gpur_run_stats saved = stats_of_run();
    CHECK_OK(gpur_run_save(run, folder));
    close_run();
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_run_load(run, folder, 0));
    CHECK_EQUAL(learner_fixture_stats(learner).steps, saved.train_steps);
    CHECK_OK(gpur_run_advance(run, 500, 0));
    const gpur_run_stats s = stats_of_run();
    CHECK_EQUAL(s.env_steps, 1000);
    CHECK(s.train_steps > saved.train_steps && s.ga3c.largest_lag < 1000);
    close_run();
    test_remove_folder();
}

/* What is refused leaves the run as it was, so that it goes on. */
TEST(a_folder_of_two_saves_is_refused)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    const char *const file = test_file_path("learner.safetensors");
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_run_advance(run, 500, 0));
    CHECK_OK(gpur_run_save(run, folder));
    close_run();
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_learner_save(learner, file, NULL));
    CHECK_FAILS(gpur_run_load(run, folder, 0), GPUR_FILE_ERROR, "saved after 0 train steps");
    CHECK_EQUAL(remove(file), 0);
    CHECK_FAILS(gpur_run_load(run, folder, 0), GPUR_FILE_ERROR, "learner.safetensors");
    CHECK_EQUAL(stats_of_run().env_steps, 0);
    CHECK_OK(gpur_run_advance(run, 100, 0));
    close_run();
    test_remove_folder();
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(each_system_trains_the_learner);
    RUN(a2c_gives_the_same_bits_again);
    if (!IS_WATCHED)
        RUN(a3c_and_a2c_learn_cartpole);
    RUN(agents_and_evaluations_act_by_the_learner_s_weights);
    RUN(as_many_predictions_as_there_are_predictors_are_made_at_the_same_time);
    RUN(environments_that_do_not_fit_are_refused);
#ifdef GPUR_HAS_FILES
    RUN(a_saved_learner_goes_on_in_another_run);
    RUN(a_folder_of_two_saves_is_refused);
#endif
    return test_main_end();
}
