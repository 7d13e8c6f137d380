/* SPDX-License-Identifier: MIT */
/* Runs with an actor-critic on the device under test: the three systems train it, evaluate it, and save it. */
#include "ga3c/ga3c.h"
#include "support/file_utils.h"
#include "test.h"

static gpur_device *device;
static gpur_actor_critic *learner;
static gpur_ga3c *run;

/* Preset "NAME-small" for CartPole. */
static gpur_status open_run(const char *name, uint64_t seed)
{
    const gpur_env_type *type;
    gpur_actor_critic_config learner_config;
    gpur_ga3c_config config;
    gpur_device_config device_config = test_device_config();
    device_config.threads = 1;
    GPUR_TRY(gpur_device_open(test_device_name(), &device_config, &device));
    GPUR_TRY(gpur_env_find("CartPole-v1", &type));
    GPUR_TRY(gpur_actor_critic_config_init(&learner_config, sizeof learner_config));
    GPUR_TRY(gpur_ga3c_config_init(&config, sizeof config));
    learner_config.seed = config.seed = seed;
    learner_config.deterministic = 1;
    config.agents = 8;
    GPUR_TRY(gpur_ga3c_preset(name, type, "", &learner_config, &config));
    GPUR_TRY(gpur_actor_critic_create(device, &learner_config, &learner));
    return gpur_ga3c_create(learner, type, &config, &run);
}

static void close_run(void)
{
    gpur_ga3c_destroy(run);
    gpur_actor_critic_destroy(learner);
    gpur_device_close(device);
    run = NULL, learner = NULL, device = NULL;
}

static gpur_ga3c_stats stats_of_run(void)
{
    gpur_ga3c_stats stats = {.size = sizeof stats};
    (void)gpur_ga3c_get_stats(run, &stats);
    return stats;
}

static const char *const names[] = {"ga3c-small", "a3c-small", "a2c-small"};

TEST(each_system_trains_the_learner)
{
    for (int i = 0; i < 3; i++) {
        double mean = 0.0;
        CHECK_OK(open_run(names[i], 1));
        CHECK_OK(gpur_ga3c_advance(run, 1500));
        const gpur_ga3c_stats s = stats_of_run();
        CHECK_EQUAL(s.steps, 1500);
        CHECK(s.train_steps > 30 && s.train_steps == gpur_actor_critic_steps(learner));
        CHECK(s.trained_rows <= 1500 && s.trained_rows >= 1500 - 8 * 4);
        CHECK(isfinite(s.policy_loss) && s.value_loss > 0.0 && s.entropy > 0.0 && s.entropy < 0.6932);
        CHECK(s.gradient_norm > 0.0 && s.learning_rate > 0.0);
        CHECK_OK(gpur_ga3c_evaluate(run, 3, 1, &mean));
        CHECK(mean >= 8.0);
        close_run();
    }
}

/* The same bits with the same seed. */
static void train_a2c(float *weights, int64_t count)
{
    CHECK_OK(open_run("a2c-small", 5));
    CHECK_OK(gpur_ga3c_advance(run, 700));
    CHECK_OK(gpur_ga3c_advance(run, 101));
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_actor_critic_get_weight_info(learner, 0, &info));
    memset(weights, 0, (size_t)count * sizeof *weights);
    CHECK(info.count <= count);
    CHECK_OK(gpur_actor_critic_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, weights, info.count));
    close_run();
}

TEST(a2c_gives_the_same_bits_again)
{
    static float first[65536], second[65536];
    train_a2c(first, 65536);
    train_a2c(second, 65536);
    CHECK(memcmp(first, second, sizeof first) == 0);
}

TEST(a2c_learns_cartpole)
{
    CHECK_OK(open_run("a2c-small", 3));
    CHECK_OK(gpur_ga3c_advance(run, 2000));
    const double before = stats_of_run().recent_return;
    CHECK_OK(gpur_ga3c_advance(run, test_is_long() ? 100000 : 16000));
    const double after = stats_of_run().recent_return;
    CHECK(after > 2.0 * before);
    close_run();
}

TEST(environments_that_do_not_fit_are_refused)
{
    const gpur_env_type *cartpole, *breakout;
    gpur_ga3c_config config;
    gpur_ga3c *other;
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_ga3c_config_init(&config, sizeof config));
    CHECK_OK(gpur_env_find("CartPole-v1", &cartpole));
    CHECK_OK(gpur_env_find("MinAtar/Breakout", &breakout));
    CHECK_FAILS(gpur_ga3c_create(learner, breakout, &config, &other), GPUR_INVALID_ARGUMENT, "discrete actions and");
    CHECK(other == NULL);
    CHECK_FAILS(gpur_ga3c_create(learner, NULL, &config, &other), GPUR_INVALID_ARGUMENT, "must not be NULL");
    CHECK_FAILS(gpur_ga3c_create(learner, cartpole, &config, NULL), GPUR_INVALID_ARGUMENT, "is NULL");
    config.predictors = 65;
    CHECK_FAILS(gpur_ga3c_create(learner, cartpole, &config, &other), GPUR_INVALID_ARGUMENT, "predictors is 65");
    config.predictors = 1;
    config.env_options = "nothing=1";
    CHECK_FAILS(gpur_ga3c_create(learner, cartpole, &config, &other), GPUR_INVALID_ARGUMENT, "nothing");
    close_run();
}

#ifdef GPUR_HAS_FILES
TEST(a_saved_learner_goes_on_in_another_run)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_file_path("ga3c.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_ga3c_advance(run, 500));
    const gpur_ga3c_stats saved = stats_of_run();
    CHECK_OK(gpur_ga3c_save(run, folder));
    close_run();
    CHECK_OK(open_run("ga3c-small", 1));
    CHECK_OK(gpur_ga3c_load(run, folder));
    CHECK_EQUAL(gpur_actor_critic_steps(learner), saved.train_steps);
    CHECK_OK(gpur_ga3c_advance(run, 500));
    const gpur_ga3c_stats s = stats_of_run();
    CHECK_EQUAL(s.steps, 1000);
    CHECK(s.train_steps > saved.train_steps && s.largest_lag < 1000);
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
        RUN(a2c_learns_cartpole);
    RUN(environments_that_do_not_fit_are_refused);
#ifdef GPUR_HAS_FILES
    RUN(a_saved_learner_goes_on_in_another_run);
#endif
    return test_main_end();
}
