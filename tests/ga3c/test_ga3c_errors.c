/* SPDX-License-Identifier: MIT */
/* What a run of GA3C refuses, and what its errors say. */
#include "support/file_utils.h"
#include "support/ga3c_fixture.h"
#include "test.h"

#include <pthread.h>

static ga3c_fixture fixture;
static ga3c_settings config;

static void open_run(void)
{
    CHECK_OK(ga3c_fixture_open(&fixture, &config));
}

static void close_run(void)
{
    ga3c_fixture_close(&fixture);
    ga3c_fixture_free(&fixture);
}

/* Agents that the tuner may not have would be gone after its first window. */
TEST(a_tuner_begins_with_no_more_agents_than_it_may_have)
{
    config = ga3c_fixture_config("");
    config.run.tuner = GPUR_TUNER_PAPER;
    config.run.max_agents = 3;
    CHECK_FAILS(ga3c_fixture_open(&fixture, &config), GPUR_INVALID_ARGUMENT, "agents is 4 and max_agents 3");
    close_run();
    config.run.agents = 3;
    open_run();
    CHECK_FAILS(gpur_ga3c_set_counts(fixture.run, 4, 1, 1), GPUR_INVALID_ARGUMENT, "agents is 4 and max_agents 3");
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).ga3c.agents, 3);
    close_run();
    config.run.tuner = GPUR_TUNER_NONE;
    config.run.agents = 4;
    open_run();
    close_run();
}

TEST(the_period_of_a_tuner_is_that_of_its_rule)
{
    static const double periods[] = {60.0, 60.0, 20.0};
    config = ga3c_fixture_config("");
    for (config.run.tuner = GPUR_TUNER_NONE; config.run.tuner <= GPUR_TUNER_CODE; config.run.tuner++) {
        open_run();
        CHECK_NEAR(gpur_ga3c_of(fixture.run)->config.tuner_period, periods[config.run.tuner], 0.0);
        close_run();
    }
}

static int set_default_stack(size_t bytes)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const int error = pthread_attr_setstacksize(&attributes, bytes) || pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return error;
}

/* No thread can start whose stack would have more bytes than addresses. */
TEST(statistics_have_the_threads_that_there_are)
{
    size_t before;
    pthread_attr_t attributes;
    CHECK(pthread_getattr_default_np(&attributes) == 0 && pthread_attr_getstacksize(&attributes, &before) == 0);
    pthread_attr_destroy(&attributes);
    config = ga3c_fixture_config("");
    config.run.trainers = 3;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 50, 0));
    CHECK(set_default_stack((size_t)1 << 56) == 0);
    const gpur_status status = gpur_ga3c_set_counts(fixture.run, 9, 1, 2);
    CHECK(set_default_stack(before) == 0);
    CHECK_EQUAL(status, GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("a thread for an agent could not be started");
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK(s.ga3c.agents == 4 && s.ga3c.predictors == 1 && s.ga3c.trainers == 2);
    CHECK_OK(gpur_run_advance(fixture.run, 50, 0));
    close_run();
}

/* Rewards and values. */

static void try_numbers(int32_t system, const char *options, int64_t diverges_at, const char *message)
{
    config = ga3c_fixture_config(options);
    config.run.system = system;
    config.run.agents = 1;
    fixture.fake.diverges_at = diverges_at;
    open_run();
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, message);
    close_run();
}

TEST(numbers_that_are_not_finite_end_the_run_where_they_come_from)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        try_numbers(system, "nan=17", 0, "agent 0, step 17: the reward is nan; it must be a finite number");
        try_numbers(system, "", 1, ": the learner has diverged: after train step ");
        CHECK_MESSAGE("agent 0, step ");
        CHECK_MESSAGE("its numbers are not finite (weights), and the loss before was 0.25");
        CHECK_MESSAGE("learning_rate, now 7, to limit the gradient by clip_norm, now 0 (none)");
    }
}

#ifdef GPUR_HAS_FILES
TEST(a_file_of_other_returns_is_refused)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    config = ga3c_fixture_config("");
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 50, 0));
    CHECK_OK(gpur_run_save(fixture.run, folder));
    close_run();
#define REFUSES(setting, name)                                                                                         \
    config = ga3c_fixture_config("");                                                                                  \
    config.run.setting;                                                                                                \
    open_run();                                                                                                        \
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, name);                                   \
    close_run()
    REFUSES(t_max = 4, "t_max");
    REFUSES(discount = 0.9f, "discount");
    REFUSES(reward_clip = 0.0f, "reward_clip");
    REFUSES(drop_terminal = 1, "drop_terminal");
    config = ga3c_fixture_config("");
    config.run.trainers = 2;
    config.run.min_train_batch = 20;
    open_run();
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    close_run();
    test_remove_folder();
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_tuner_begins_with_no_more_agents_than_it_may_have);
    RUN(the_period_of_a_tuner_is_that_of_its_rule);
    RUN(statistics_have_the_threads_that_there_are);
    RUN(numbers_that_are_not_finite_end_the_run_where_they_come_from);
#ifdef GPUR_HAS_FILES
    RUN(a_file_of_other_returns_is_refused);
#endif
    return test_main_end();
}
