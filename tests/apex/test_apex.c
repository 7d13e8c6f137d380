/* SPDX-License-Identifier: MIT */
/* Runs of Ape-X with actors in threads: what is counted and reported, the limiter, the soft capacity, and errors. */
#include "base/clock.h"
#include "run/apex/intake.h"
#include "support/apex_fixture.h"
#include "support/run_fixture.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static apex_fixture fixture;
static apex_settings settings;

static gpur_status open_run(void)
{
    const gpur_device_config device = test_device_config();
    return apex_fixture_open(&fixture, test_device_name(), &device, &settings);
}

static void begin(const char *name)
{
    CHECK_OK(apex_fixture_settings(name, &settings));
}

TEST(epsilons_are_a_ladder_or_a_fixed_set_and_sigmas_equal)
{
    static const float set[] = {0.5f, 0.25f, 0.125f};
    gpur_apex_config config;
    CHECK_OK(gpur_apex_config_init(&config, sizeof config));
    for (int32_t i = 0; i < 360; i++)
        CHECK_NEAR(gpur_apex_exploration_of(&config, 0, i, 360), pow(0.4, 1.0 + 7.0 * i / 359.0), 1e-7);
    CHECK_NEAR(gpur_apex_exploration_of(&config, 0, 359, 360), 6.5536e-4, 1e-9);
    CHECK_NEAR(gpur_apex_exploration_of(&config, 0, 0, 1), 0.4, 1e-7);
    config.epsilons = set;
    config.epsilon_count = 3;
    for (int32_t i = 0; i < 8; i++)
        CHECK(gpur_apex_exploration_of(&config, 0, i, 8) == set[i % 3]);
    for (int32_t i = 0; i < 8; i++)
        CHECK(gpur_apex_exploration_of(&config, 1, i, 8) == 0.3f);
}

TEST(recent_values_are_the_last_hundred)
{
    gpur_recent recent = {.count = 0};
    CHECK(isnan(gpur_recent_median(&recent)));
    for (int i = 1; i <= 250; i++) {
        gpur_recent_add(&recent, i % 2 ? (double)i : -(double)i);
        const double wanted = i == 1 ? 1.0 : i == 2 ? -0.5 : i == 3 ? 1.0 : i == 250 ? 0.5 * (151.0 - 152.0) : NAN;
        CHECK(isnan(wanted) || gpur_recent_median(&recent) == wanted);
    }
}

/* All that was made has arrived, and is in the replay, each transition with the limits of an episode that its fields
 * say. */
static void check_all_arrived(void)
{
    gpur_replay_stats replay = {.size = sizeof replay};
    CHECK_OK(apex_fixture_end_actors(&fixture));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &replay));
    CHECK_EQUAL(stats.apex.actors, 0);
    CHECK_EQUAL(stats.apex.rows + stats.apex.lost_rows, fixture.steps);
    CHECK_EQUAL(replay.appended, stats.apex.rows * settings.apex.replicate);
    CHECK_EQUAL(stats.apex.lost_rows, fixture.lost_rows);
    CHECK_EQUAL(stats.apex.lost_blocks, fixture.lost_blocks);
    CHECK_EQUAL(stats.apex.starts, fixture.kinds[GPUR_RUN_STARTED]);
    CHECK_EQUAL(stats.apex.deaths, fixture.kinds[GPUR_RUN_ENDED] - fixture.asked);
    CHECK_EQUAL(stats.episodes, fixture.kinds[GPUR_RUN_EPISODE]);
}

/* Nothing of an actor that is asked to end is lost. */
TEST(actors_in_threads_fill_the_replay_while_it_is_trained_on)
{
    begin("numbers");
    settings.run.eval_episodes = 3;
    settings.run.eval_period = 500;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 2000, 0));
    CHECK(apex_fixture_stats(&fixture).env_steps >= 2000);
    CHECK_OK(apex_fixture_await_actors(&fixture, 3));
    gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.rows <= stats.env_steps && stats.apex.rows > stats.env_steps - 3 * 20);
    CHECK(stats.apex.blocks >= stats.apex.rows / 10 && stats.apex.bytes > stats.apex.rows * 60);
    CHECK(stats.train_steps > 0 && stats.apex.learned == 32 * stats.train_steps && stats.apex.actors == 3);
    CHECK_EQUAL(stats.apex.broadcasts, 1 + stats.train_steps / 10);
    CHECK(stats.apex.pulled >= 3 && stats.apex.weights_age >= 0.0 && stats.train_seconds > 0.0);
    CHECK(stats.apex.inserted > 0 && stats.apex.inserted <= stats.apex.rows - 200);
    CHECK(stats.env_seconds > 0.0 && stats.apex.actor_infer_seconds > 0.0 && stats.apex.actor_wait_seconds > 0.0);
    CHECK(stats.env_seconds + stats.apex.actor_infer_seconds + stats.apex.actor_wait_seconds <=
          stats.apex.actor_seconds);
    CHECK(stats.episodes == fixture.kinds[GPUR_RUN_EPISODE] && isfinite(stats.recent_return));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 25));
    CHECK_EQUAL(apex_fixture_stats(&fixture).train_steps, stats.train_steps + 25);
    CHECK(apex_fixture_stats(&fixture).evaluated_return == fixture.evaluation.mean_return);
    CHECK(fixture.evaluation.episodes == 3 && fixture.evaluation.env_steps >= 500 && fixture.evaluation.length >= 3);
    CHECK(fixture.kinds[GPUR_RUN_STARTED] == 4 && fixture.kinds[GPUR_RUN_ENDED] == 0);
    check_all_arrived();
    CHECK(strcmp(fixture.error, "") == 0 && fixture.lost_rows == 0);
    apex_fixture_close(&fixture);
}

TEST(a_block_can_be_appended_several_times)
{
    begin("numbers");
    settings.apex.replicate = 4;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    check_all_arrived();
    apex_fixture_close(&fixture);
}

TEST(frames_and_uniform_draws_and_other_priorities_work)
{
    begin("frames");
    settings.apex.initial_priorities = 0;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    check_all_arrived();
    apex_fixture_close(&fixture);
    begin("numbers");
    settings.apex.initial_priorities = 0;
    settings.replay.prioritized = 0;
    settings.learner.index_source = GPUR_UNIFORM;
    settings.replay.field_count = GPUR_APEX_FIELDS - 1;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    check_all_arrived();
    apex_fixture_close(&fixture);
}

/* That it is learned is shown by bench/experiments, over seeds. */
TEST(cartpole_is_played_and_trained_on)
{
    begin("cartpole");
    settings.apex.limiter_timeout = 0.5; /* without actors a train step waits for so long */
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, (int64_t)test_rounds(6000) + 400, 0));
    CHECK(fixture.best_return >= 8.0); /* no pole falls sooner */
    check_all_arrived();
    apex_fixture_close(&fixture);
}

/* Between two calls nothing changes. */
TEST(actors_wait_while_nobody_advances)
{
    gpur_replay_stats before = {.size = sizeof before}, after = before;
    begin("numbers");
    settings.run.eval_episodes = 1;
    settings.run.eval_period = 1;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &before));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &after));
    CHECK_EQUAL(after.appended, before.appended);
    const gpur_run_stats later = apex_fixture_stats(&fixture);
    CHECK(later.apex.rows == stats.apex.rows && later.episodes == stats.episodes && later.env_steps == stats.env_steps);
    apex_fixture_close(&fixture);
}

/* The ratio after min_size is within the band, and neither side has waited too long. Without actors the learner waits,
 * and goes on one step at a time. */
TEST(the_limiter_holds_its_band_and_times_out)
{
    begin("numbers");
    settings.apex.samples_per_insert = 4.0;
    settings.apex.limiter_band = 200.0;
    CHECK_OK(open_run());
    for (int i = 0; i < 20; i++) {
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
        gpur_mutex_lock(&fixture.apex->core.lock);
        const double ahead = gpur_limiter_ahead(&fixture.apex->limiter);
        gpur_mutex_unlock(&fixture.apex->core.lock);
        TEST_REQUIRE(fabs(ahead) <= 200.0, "the learner is ahead by %g transitions", ahead);
    }
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.limiter_timeouts == 0 && stats.apex.learned == fixture.apex->limiter.learned);
    CHECK(fixture.apex->limiter.inserted <= stats.apex.rows - 200 && stats.apex.learned > 1000);
    apex_fixture_close(&fixture);
    settings.apex.limiter_timeout = 0.05;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    CHECK_OK(apex_fixture_end_actors(&fixture));
    const gpur_run_stats before = apex_fixture_stats(&fixture);
    while (apex_fixture_stats(&fixture).apex.limiter_timeouts < before.apex.limiter_timeouts + 3)
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
    CHECK(apex_fixture_stats(&fixture).apex.learner_wait_seconds >= before.apex.learner_wait_seconds + 3 * 0.05);
    apex_fixture_close(&fixture);
}

static int has_waiting_block(void)
{
    gpur_mutex_lock(&fixture.apex->core.lock);
    const int has = fixture.apex->waiting != NULL;
    gpur_mutex_unlock(&fixture.apex->core.lock);
    return has;
}

static void *stop_soon(void *context)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    gpur_run_stop(context);
    return NULL;
}

static void advance_for_a_while(void)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_soon, fixture.run), 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, 0, INT64_MAX), GPUR_INTERRUPTED, "the run was stopped");
    pthread_join(thread, NULL);
}

/* The limiter holds up all blocks after the first ones for good. */
TEST(the_time_between_two_calls_is_no_wait_for_the_limiter)
{
    begin("numbers");
    settings.apex.samples_per_insert = 1e6;
    settings.apex.limiter_timeout = 1.0;
    CHECK_OK(open_run());
    const double begin_seconds = gpur_clock_seconds(), pause = 1.1;
    while (!has_waiting_block())
        CHECK_OK(gpur_run_advance(fixture.run, 0, 50));
    for (int i = 0; i < 3; i++)
        advance_for_a_while();
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    for (int i = 0; i < 3; i++)
        advance_for_a_while();
    if (gpur_clock_seconds() - begin_seconds - pause < settings.apex.limiter_timeout) /* on a busy machine it is not */
        CHECK_EQUAL(apex_fixture_stats(&fixture).apex.limiter_timeouts, 0);
    apex_fixture_close(&fixture);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 16 actors, whose blocks together have 64 transitions, and a train step for every four: so 16 train steps pass while a
 * block is under way, and its weights were at most 10 train steps old before. Blocks of 20 would need 80. */
TEST(with_a_limiter_weights_do_not_get_older_with_more_actors)
{
    double ages[15];
    CHECK_EQUAL(gpur_apex_rows_under_way(8.0, 32, 250), 500);
    CHECK_EQUAL(gpur_apex_rows_under_way(1e6, 32, 250), 1);
    CHECK_EQUAL(gpur_apex_rows_under_way(0.0, 32, 250), 0);
    begin("numbers");
    settings.apex.actors = 16;
    settings.apex.samples_per_insert = 8.0;
    settings.apex.block_rows = 20;
    settings.apex.rows_under_way = 64;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    for (int i = 0; i < 15; i++) {
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
        ages[i] = apex_fixture_stats(&fixture).apex.weights_age;
    }
    qsort(ages, 15, sizeof *ages, compare);
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    TEST_REQUIRE(ages[7] <= 60.0, "the weights that act are %g train steps old", ages[7]);
    CHECK(stats.apex.rows <= 4 * stats.apex.blocks && stats.apex.limiter_timeouts == 0);
    apex_fixture_close(&fixture);
    settings.apex.block_rows = 10;
    settings.apex.rows_under_way = 0; /* half a target period's 1,000 transitions are more than 16 blocks */
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    CHECK_EQUAL(fixture.apex->config.rows_under_way, 500);
    CHECK_EQUAL(gpur_apex_block_rows(&fixture.apex->config, 16), 10);
    CHECK_EQUAL(gpur_apex_block_rows(&fixture.apex->config, 64), 7);
    CHECK_EQUAL(gpur_apex_block_rows(&fixture.apex->config, 1000), 1);
    gpur_apex_config unlimited = fixture.apex->config;
    unlimited.samples_per_insert = 0.0;
    CHECK_EQUAL(gpur_apex_block_rows(&unlimited, 1000), 10);
    apex_fixture_close(&fixture);
}

enum { ACTORS = 8, LEAST_WAITING = 3 };

/* Which actors have a block that waits, in their order, and how many blocks of each were inserted. */
typedef struct line {
    int32_t count, actors[ACTORS];
    int64_t inserted[ACTORS];
} line;

static line look_at_line(void)
{
    line found = {0};
    gpur_mutex_lock(&fixture.apex->core.lock);
    for (const gpur_intake_block *at = fixture.apex->waiting; at; at = at->next)
        found.actors[found.count++] = at->slot->actor;
    for (int32_t i = 0; i < ACTORS; i++)
        found.inserted[i] = fixture.apex->tables[GPUR_SLOT_OWN].slots[i]->blocks;
    gpur_mutex_unlock(&fixture.apex->core.lock);
    return found;
}

/* While nobody advances, all actors wait, most of them with a block. */
static line await_line(void)
{
    const double end = gpur_clock_seconds() + 30.0;
    line found = look_at_line();
    while (found.count < LEAST_WAITING && gpur_clock_seconds() < end)
        found = look_at_line();
    return found;
}

/* Of those that waited before an advance no block is inserted before the one that came earlier. */
TEST(blocks_that_wait_are_inserted_in_their_order)
{
    begin("numbers");
    settings.apex.actors = ACTORS;
    settings.apex.samples_per_insert = 8.0;
    settings.apex.rows_under_way = 4 * ACTORS;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    for (int i = 0; i < 40; i++) {
        const line before = await_line();
        TEST_REQUIRE(before.count >= LEAST_WAITING, "after %d advances %d blocks wait", i, (int)before.count);
        CHECK_OK(gpur_run_advance(fixture.run, 4, 0));
        const line after = look_at_line();
        for (int32_t k = 1; k < before.count; k++) {
            const int32_t first = before.actors[k - 1], second = before.actors[k];
            TEST_REQUIRE(after.inserted[first] > before.inserted[first] ||
                             after.inserted[second] == before.inserted[second],
                         "advance %d: block %d of those that wait was inserted before the one ahead", i, (int)k);
        }
    }
    apex_fixture_close(&fixture);
}

/* The learner must do 3,125 train steps for each row, which take longer than the wait: blocks go in all the same. */
TEST(inserts_that_wait_too_long_go_on)
{
    begin("numbers");
    settings.apex.samples_per_insert = 1e5;
    settings.apex.limiter_timeout = 0.02;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
    CHECK_OK(gpur_run_advance(fixture.run, 250, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.limiter_timeouts > 0 && stats.apex.actor_wait_seconds > 0.02);
    apex_fixture_close(&fixture);
}

/* A trim leaves the last 300 at most, and between two of them nothing is overwritten. */
TEST(a_soft_capacity_is_trimmed_at_exact_multiples)
{
    gpur_replay_stats before = {.size = sizeof before}, after = before;
    begin("numbers");
    settings.apex.soft_capacity = 300;
    settings.apex.trim_period = 7;
    settings.apex.samples_per_insert = 8.0;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 600, 0));
    for (int i = 0; i < 64; i++) {
        CHECK_OK(gpur_replay_get_stats(fixture.replay, &before));
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
        CHECK_OK(gpur_replay_get_stats(fixture.replay, &after));
        const gpur_run_stats stats = apex_fixture_stats(&fixture);
        CHECK_EQUAL(stats.apex.trims, stats.train_steps / 7);
        if (stats.train_steps % 7 == 0)
            CHECK(after.first_id >= before.appended - 300 && after.first_id <= after.appended - 300);
        else
            CHECK_EQUAL(after.first_id, before.first_id);
    }
    CHECK(apex_fixture_stats(&fixture).apex.trims > 5);
    apex_fixture_close(&fixture);
}

/* The learner does up to 32 slow train steps before it looks at the count. */
TEST(the_steps_that_were_asked_for_end_the_intake_themselves)
{
    begin("numbers");
    settings.learner.network.hidden = 512;
    settings.replay.capacity = 40000;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    for (int i = 0; i < 5; i++) {
        const int64_t before = apex_fixture_stats(&fixture).env_steps;
        CHECK_OK(gpur_run_advance(fixture.run, 60, 0));
        const int64_t more = apex_fixture_stats(&fixture).env_steps - before;
        TEST_REQUIRE(more >= 60 && more < 60 + 10 + 3, "%d steps were received; 60 were wanted", (int)more);
    }
    apex_fixture_close(&fixture);
}

TEST(actors_can_be_more_and_fewer_while_it_runs)
{
    begin("numbers");
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    CHECK_OK(gpur_apex_set_actors(fixture.run, 6));
    while (fixture.most_actor < 5)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.actors, 6);
    CHECK_NEAR(fixture.apex->tables[GPUR_SLOT_OWN].slots[2]->epsilon, 6.5536e-4, 1e-8); /* the last of three */
    CHECK_NEAR(fixture.apex->tables[GPUR_SLOT_OWN].slots[4]->epsilon, pow(0.4, 1.0 + 7.0 * 4.0 / 5.0), 1e-7);
    CHECK_OK(gpur_apex_set_actors(fixture.run, 1));
    while (apex_fixture_stats(&fixture).apex.actors > 1)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_OK(gpur_apex_set_actors(fixture.run, 2));
    while (apex_fixture_stats(&fixture).apex.actors < 2)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_EQUAL(fixture.apex->tables[GPUR_SLOT_OWN].slots[1]->incarnation, 1);
    check_all_arrived();
    CHECK_FAILS(gpur_apex_set_actors(fixture.run, 1025), GPUR_INVALID_ARGUMENT, "actors is 1025; it must be 0 to 1024");
    apex_fixture_close(&fixture);
}

TEST(a_run_can_be_stopped_and_goes_on)
{
    pthread_t thread;
    begin("numbers");
    CHECK_OK(open_run());
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_soon, fixture.run), 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000000000, 0), GPUR_INTERRUPTED, "the run was stopped after");
    pthread_join(thread, NULL);
    const int64_t before = apex_fixture_stats(&fixture).env_steps;
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK(apex_fixture_stats(&fixture).env_steps >= before + 100);
    apex_fixture_close(&fixture);
}

/* With `restarts` it begins again; an environment that always fails at once ends the run, and without restarts the
 * first error does. */
TEST(an_error_of_an_environment_names_the_actor)
{
    begin("numbers:fail=100");
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.deaths > 3 && stats.apex.starts >= stats.apex.deaths && stats.apex.lost_rows > 0);
    CHECK_EQUAL(stats.apex.lost_blocks, 0); /* each incarnation counts its blocks from 0 on */
    CHECK(strcmp(fixture.error, "step 100: the motor is broken") == 0);
    check_all_arrived();
    apex_fixture_close(&fixture);
    begin("numbers:fail=3");
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, ": step 3: the motor is broken");
    CHECK_MESSAGE("actor ");
    CHECK_MESSAGE("for the 5th time in a row it died within a minute after its start");
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, "the run has ended by an error");
    apex_fixture_close(&fixture);
    begin("numbers:fail=100");
    settings.apex.restarts = 0;
    settings.apex.actors = 1;
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, "actor 0: step 100: the motor");
    apex_fixture_close(&fixture);
}

/* It would show it again, so it is not started again, also when blocks of it have come. With check_finite 0 the run
 * takes it, observations, Q values and all: the row's priority is none. */
TEST(an_observation_that_is_not_finite_ends_the_run_or_is_taken)
{
    gpur_priority_stats priorities = {.size = sizeof priorities};
    begin("numbers:bad=100");
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000, 0), GPUR_INVALID_ARGUMENT, "actor ");
    CHECK_MESSAGE(": step 100: the observation is NaN; its numbers must be finite");
    CHECK(strcmp(fixture.error, "step 100: the observation is NaN; its numbers must be finite") == 0);
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.deaths, 1);
    CHECK(apex_fixture_stats(&fixture).apex.rows > 0);
    apex_fixture_close(&fixture);
    begin("numbers:bad=100");
    settings.replay.check_finite = 0;
    settings.replay.min_size = 2000; /* training on it would end the run */
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    CHECK(apex_fixture_stats(&fixture).apex.deaths == 0 && apex_fixture_stats(&fixture).apex.rows > 900);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &priorities));
    CHECK(priorities.max_priority < 1e4f && priorities.invalid == 0);
    apex_fixture_close(&fixture);
}

/* The limiter holds up nobody then. */
TEST(a_run_ends_by_the_ends_of_its_actors_and_a_whole_evaluation)
{
    begin("numbers");
    settings.run.eval_episodes = 3;
    settings.run.eval_period = 0;
    settings.apex.samples_per_insert = 8.0;
    gpur_run_event result = {.size = sizeof result};
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    CHECK_OK(apex_fixture_await_actors(&fixture, 3));
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_EVALUATION], 0);
    const gpur_run_stats before = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_apex_set_actors(fixture.run, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK(fixture.asked == 3 && fixture.kinds[GPUR_RUN_ENDED] == 3 && fixture.kinds[GPUR_RUN_STARTED] == 3);
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    const gpur_run_stats after = apex_fixture_stats(&fixture);
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_EVALUATION], 1);
    CHECK(fixture.evaluation.episodes == 3 && fixture.evaluation.env_steps >= before.env_steps);
    CHECK_EQUAL(fixture.evaluation.train_steps, before.train_steps);
    CHECK(after.train_steps == before.train_steps && after.apex.broadcasts == before.apex.broadcasts);
    CHECK(fixture.kinds[GPUR_RUN_ENDED] == 3 && fixture.kinds[GPUR_RUN_STARTED] == 4);
    CHECK(after.apex.lost_rows == 0 && after.apex.rows == fixture.steps &&
          after.apex.limiter_timeouts == before.apex.limiter_timeouts);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK_FAILS(gpur_run_advance(fixture.run, 100, 0), GPUR_INVALID_ARGUMENT,
                "env_steps is 100, train_steps 0, and the run has 0 actors and no folder");
    apex_fixture_close(&fixture);
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0)); /* before it has begun */
    CHECK_OK(gpur_run_evaluate(fixture.run, 7, 1, &result));
    CHECK(fixture.kinds[GPUR_RUN_EVALUATION] == 1 && fixture.kinds[GPUR_RUN_STARTED] == 1);
    CHECK(result.episodes == 7 && result.env_steps == 0 && result.version == 0 && !result.policy);
    CHECK_EQUAL(fixture.evaluation.episodes, 7);
    apex_fixture_close(&fixture);
}

/* Games of 20 steps by the environment's own count. */
typedef struct game_of_20 {
    int32_t steps;
} game_of_20;

static const char *init_game(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options, (void)seed;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {RUN_FEATURES}};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = RUN_ACTIONS};
    *env = calloc(1, sizeof(game_of_20));
    return *env ? NULL : "no memory";
}

static const char *reset_game(void *env, void *obs)
{
    ((game_of_20 *)env)->steps = 0;
    memset(obs, 0, RUN_FEATURES * sizeof(float));
    return NULL;
}

static const char *step_game(void *env, const void *action, void *obs, gpur_env_result *result)
{
    (void)action;
    memset(obs, 0, RUN_FEATURES * sizeof(float));
    result->terminated = ++((game_of_20 *)env)->steps == 20;
    return NULL;
}

static const gpur_env_type games_of_20 = {.size = sizeof games_of_20,
                                          .name = "games of 20",
                                          .init = init_game,
                                          .reset = reset_game,
                                          .step = step_game,
                                          .close = free};

/* Each has its episodes, and games of 20 steps: none is cut off, whether it is due amid a call, while another one is
 * played, or with the last step. */
TEST(evaluations_are_delivered_in_the_call_in_which_they_are_due)
{
    begin("numbers");
    settings.run.type = &games_of_20;
    settings.run.eval_episodes = 300;
    settings.run.eval_period = 500;
    CHECK_OK(open_run());
    for (int64_t i = 1; i <= 4; i++) {
        CHECK_OK(gpur_run_advance(fixture.run, 500 * i - apex_fixture_stats(&fixture).env_steps, 0));
        const gpur_run_stats stats = apex_fixture_stats(&fixture);
        CHECK(fixture.kinds[GPUR_RUN_EVALUATION] == i && stats.evaluations == i && stats.eval_episode == 0);
        CHECK(fixture.evaluation.episodes == 300 && fixture.evaluation.length == 300 * 20);
        CHECK(fixture.evaluation.env_steps >= 500 * i && fixture.evaluation.env_steps <= stats.env_steps);
        CHECK_EQUAL(fixture.evaluation.version, fixture.evaluation.train_steps);
        CHECK(fixture.evaluation.train_steps <= stats.train_steps && stats.evaluated_return == 0.0);
        CHECK(stats.evaluated_steps == fixture.evaluation.env_steps && stats.eval_seconds > 0.0);
    }
    CHECK_OK(gpur_run_evaluate(fixture.run, 5, 0, NULL));
    CHECK(fixture.evaluation.episodes == 5 && fixture.evaluation.length == 5 * 20);
    apex_fixture_close(&fixture);
}

/* The learner trains on while it is played. */
TEST(an_evaluation_has_the_steps_of_its_weights)
{
    begin("numbers");
    settings.run.type = &games_of_20;
    settings.run.eval_episodes = 3;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 20));
    const gpur_run_stats before = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_apex_begin_evaluation(fixture.apex, 2000, 0, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 20));
    CHECK_EQUAL(fixture.evaluation.episodes, 2000);
    CHECK_EQUAL(fixture.evaluation.env_steps, before.env_steps);
    CHECK_EQUAL(fixture.evaluation.train_steps, before.train_steps);
    apex_fixture_close(&fixture);
}

static int64_t evaluated;

/* Delivering takes the thread that advances longer than actors need for all steps. */
static void take_time(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind == GPUR_RUN_EVALUATION)
        CHECK_EQUAL(event->env_steps / 100, ++evaluated);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

TEST(no_evaluation_is_left_out_while_the_thread_that_advances_is_busy)
{
    begin("numbers");
    settings.run.type = &games_of_20;
    settings.run.eval_episodes = 3;
    settings.run.eval_period = 100;
    evaluated = 0;
    CHECK_OK(open_run());
    fixture.run->config.on_event = take_time;
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    CHECK_EQUAL(evaluated, 4);
    apex_fixture_close(&fixture);
}

TEST(a_result_of_another_evaluation_does_not_count)
{
    begin("numbers");
    settings.run.eval_episodes = 3;
    CHECK_OK(open_run());
    gpur_actor_evaluation late = {.number = 1, .episodes = 3, .length = 60};
    CHECK_OK(gpur_apex_begin_evaluation(fixture.apex, 1 << 30, 0, 0));
    CHECK_OK(gpur_apex_begin_evaluation(fixture.apex, 1 << 30, 0, 0));
    gpur_apex_take_evaluation(fixture.apex->evaluator, &late);
    CHECK_EQUAL(fixture.apex->evaluation.state, GPUR_EVALUATION_PLAYED);
    late.number = 2;
    gpur_apex_take_evaluation(fixture.apex->evaluator, &late);
    CHECK_EQUAL(fixture.apex->evaluation.state, GPUR_EVALUATION_ENDED);
    apex_fixture_close(&fixture);
}

/* One of gpur_run_evaluate is given up, and one beside the training goes on. */
TEST(an_evaluation_that_is_stopped_is_given_up_or_goes_on)
{
    pthread_t thread;
    begin("numbers");
    settings.run.type = &games_of_20;
    settings.run.eval_episodes = 20000;
    settings.run.eval_period = 500;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_evaluate(fixture.run, 3, 0, NULL));
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_soon, fixture.run), 0);
    CHECK_FAILS(gpur_run_evaluate(fixture.run, INT64_MAX / 8, 0, NULL), GPUR_INTERRUPTED, "the run was stopped");
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(fixture.kinds[GPUR_RUN_EVALUATION] == 1 && apex_fixture_stats(&fixture).eval_episode == 0);
    CHECK_OK(gpur_run_advance(fixture.run, 400, 0));
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_soon, fixture.run), 0);
    const gpur_status status = gpur_run_advance(fixture.run, 200, 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    if (status == GPUR_OK) /* it was quicker */
        CHECK_FAILS(gpur_run_advance(fixture.run, 0, 0), GPUR_INTERRUPTED, "");
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0)); /* does not wait for it */
    CHECK_OK(gpur_run_advance(fixture.run, 200, 0)); /* on a busy machine it is not due before these steps */
    CHECK(fixture.kinds[GPUR_RUN_EVALUATION] == 2 && fixture.evaluation.episodes == 20000);
    CHECK_EQUAL(fixture.evaluation.length, 20000 * 20);
    apex_fixture_close(&fixture);
}

/* Weights that were kept in on_event. */
static unsigned char kept[1 << 16];
static int64_t kept_bytes;

static void keep(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind != GPUR_RUN_EVALUATION)
        return;
    kept_bytes = gpur_policy_weights_bytes(event->policy);
    CHECK(kept_bytes <= (int64_t)sizeof kept && event->run == fixture.run && event->learner == fixture.learner);
    CHECK_OK(gpur_policy_get_weights(event->policy, kept, kept_bytes));
}

/* They are those of the learner, since it has trained no more. */
TEST(the_weights_of_an_evaluation_can_be_kept)
{
    static unsigned char now[sizeof kept];
    begin("numbers");
    settings.run.eval_episodes = 2;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 0, 15));
    fixture.run->config.on_event = keep;
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    CHECK_OK(gpur_policy_pull(fixture.apex->policies.acting, fixture.learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(gpur_policy_get_weights(fixture.apex->policies.acting, now, kept_bytes));
    CHECK(kept_bytes > 0 && memcmp(kept, now, (size_t)kept_bytes) == 0);
    apex_fixture_close(&fixture);
}

/* The end of the last actor comes by itself, so that nothing of it is lost. */
TEST(a_run_that_is_stopped_waits_for_the_ends_of_its_actors)
{
    begin("numbers");
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    gpur_run_stop(fixture.run);
    CHECK_OK(gpur_apex_set_actors(fixture.run, 0));
    CHECK_FAILS(gpur_run_advance(fixture.run, 0, 0), GPUR_INTERRUPTED, "");
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK(fixture.asked == 3 && fixture.kinds[GPUR_RUN_ENDED] == 3);
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.rows, fixture.steps);
    apex_fixture_close(&fixture);
}

TEST(a_run_that_never_advances_can_be_destroyed)
{
    begin("numbers");
    CHECK_OK(open_run());
    apex_fixture_close(&fixture);
    gpur_run_destroy(NULL);
}

static const char *const no_command[] = {NULL};

/* Sets one member that is refused, and names what the message must have. */
#define REFUSED(part, ...)                                                                                             \
    do {                                                                                                               \
        begin("numbers");                                                                                              \
        __VA_ARGS__;                                                                                                   \
        CHECK_FAILS(open_run(), GPUR_INVALID_ARGUMENT, part);                                                          \
        CHECK(!fixture.run);                                                                                           \
        apex_fixture_close(&fixture);                                                                                  \
    } while (0)

TEST(settings_that_do_not_go_together_are_refused)
{
    static const float bad[] = {0.1f, 2.0f};
    gpur_apex_config *const c = &settings.apex;
    REFUSED("actors is 0; it must be 1 to 1024, or 0 beside remote actors or a folder", c->actors = 0);
    REFUSED("command is empty; it must be NULL, or have the name of a program", c->command = no_command);
    REFUSED("epsilon_base is 1.5; it must be 0 to 1", c->epsilon_base = 1.5f);
    REFUSED("epsilon_exponent is -1", c->epsilon_exponent = -1.0f);
    REFUSED("one of the epsilons is 2", c->epsilons = bad; c->epsilon_count = 2);
    REFUSED("epsilon_count is 0", c->epsilons = bad);
    REFUSED("block_rows is 0; it must be 1 to 65536", c->block_rows = 0);
    REFUSED("block_rows is 65 and that of the replay 64", c->block_rows = 65);
    REFUSED("compression is 20; it must be 0 (none) to 19", c->compression = 20);
    REFUSED("initial_priorities is 2", c->initial_priorities = 2);
    REFUSED("and it has no field \"priority\"", settings.replay.field_count--);
    REFUSED("the replay's prioritized is 0", settings.replay.prioritized = 0;
            settings.learner.index_source = GPUR_UNIFORM);
    REFUSED("replicate is 65; it must be 1 to 64", c->replicate = 65);
    REFUSED("pull_period is 0; it must be 1 or more", c->pull_period = 0);
    REFUSED("max_episode_steps is -1", c->max_episode_steps = -1);
    REFUSED("broadcast_period is 0", c->broadcast_period = 0);
    REFUSED("soft_capacity is 10; it must be 0 (none), or 64, the transitions that stay visible",
            c->soft_capacity = 10);
    REFUSED("trim_period is 0", c->trim_period = 0);
    REFUSED("samples_per_insert is -1", c->samples_per_insert = -1.0);
    REFUSED("rows_under_way is -1; it must be 0 to", c->rows_under_way = -1);
    REFUSED("limiter_band is 31; it must be at least batch_size, 32", c->limiter_band = 31.0);
    REFUSED("8 x 10", c->samples_per_insert = 8.0; c->limiter_band = 79.0);
    REFUSED("limiter_timeout is 0 seconds", c->limiter_timeout = 0.0);
    REFUSED("eval_episodes is -1", settings.run.eval_episodes = -1);
    REFUSED("eval_period is -1", settings.run.eval_period = -1);
    REFUSED("eval_epsilon is -1", settings.run.eval_epsilon = -1.0f);
    REFUSED("eval_envs is 1025; it must be 0 to 1024", settings.run.eval_envs = 1025);
    REFUSED("restarts is 3", c->restarts = 3);
    REFUSED("when_full is 1", settings.replay.when_full = GPUR_WHEN_FULL_ERROR);
    REFUSED("a field \"mood\", which actors cannot fill in", settings.fields[5].name = "mood");
    REFUSED("has 4 discrete actions and the learner's network 5", settings.learner.network.num_actions = 5);
}

TEST(calls_with_wrong_arguments_are_refused)
{
    gpur_run *run = NULL;
    const gpur_run_config empty = {.size = sizeof empty};
    gpur_run_stats stats = {0};
    gpur_apex_config config;
    CHECK_FAILS(gpur_apex_config_init(NULL, sizeof config), GPUR_INVALID_ARGUMENT, "is NULL");
    CHECK_FAILS(gpur_apex_config_init(&config, 7), GPUR_INVALID_ARGUMENT, "size is 7");
    begin("numbers");
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_apex_create(NULL, &settings.run, &settings.apex, &run), GPUR_INVALID_ARGUMENT, "learner");
    CHECK_FAILS(gpur_apex_create(fixture.learner, &empty, &settings.apex, &run), GPUR_INVALID_ARGUMENT,
                "the type of environment is NULL");
    CHECK_FAILS(gpur_apex_create(fixture.learner, &settings.run, &settings.apex, NULL), GPUR_INVALID_ARGUMENT,
                "handle");
    CHECK_FAILS(gpur_run_advance(fixture.run, 5, -1), GPUR_INVALID_ARGUMENT, "train_steps is -1");
    CHECK_FAILS(gpur_run_advance(fixture.run, -1, 5), GPUR_INVALID_ARGUMENT, "env_steps is -1");
    CHECK_FAILS(gpur_run_get_stats(fixture.run, &stats), GPUR_INVALID_ARGUMENT, "gpur_run_stats.size is 0");
    CHECK_FAILS(gpur_run_get_stats(fixture.run, NULL), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gpur_apex_set_actors(NULL, 1), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_EQUAL(gpur_apex_actor_process(NULL, 0), -1);
    CHECK_EQUAL(gpur_apex_actor_process(fixture.run, 0), -1);
    CHECK_EQUAL(gpur_apex_actor_process(fixture.run, 5000), -1);
    apex_fixture_close(&fixture);
    CHECK_FAILS(gpur_apex_serve(-1, &settings.run, &settings.replay, APEX_NETWORKS(&settings), 0),
                GPUR_INVALID_ARGUMENT, "descriptor -1 is no connection to a learner");
    CHECK_FAILS(gpur_apex_serve(0, NULL, &settings.replay, APEX_NETWORKS(&settings), 0), GPUR_INVALID_ARGUMENT,
                "gpur_run_config is NULL");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(epsilons_are_a_ladder_or_a_fixed_set_and_sigmas_equal);
    RUN(recent_values_are_the_last_hundred);
    RUN(actors_in_threads_fill_the_replay_while_it_is_trained_on);
    RUN(a_block_can_be_appended_several_times);
    RUN(frames_and_uniform_draws_and_other_priorities_work);
    RUN(cartpole_is_played_and_trained_on);
    RUN(actors_wait_while_nobody_advances);
    RUN(the_limiter_holds_its_band_and_times_out);
    RUN(the_time_between_two_calls_is_no_wait_for_the_limiter);
    RUN(with_a_limiter_weights_do_not_get_older_with_more_actors);
    RUN(blocks_that_wait_are_inserted_in_their_order);
    RUN(inserts_that_wait_too_long_go_on);
    RUN(a_soft_capacity_is_trimmed_at_exact_multiples);
    RUN(the_steps_that_were_asked_for_end_the_intake_themselves);
    RUN(actors_can_be_more_and_fewer_while_it_runs);
    RUN(a_run_can_be_stopped_and_goes_on);
    RUN(an_error_of_an_environment_names_the_actor);
    RUN(an_observation_that_is_not_finite_ends_the_run_or_is_taken);
    RUN(a_run_ends_by_the_ends_of_its_actors_and_a_whole_evaluation);
    RUN(evaluations_are_delivered_in_the_call_in_which_they_are_due);
    RUN(an_evaluation_has_the_steps_of_its_weights);
    RUN(no_evaluation_is_left_out_while_the_thread_that_advances_is_busy);
    RUN(a_result_of_another_evaluation_does_not_count);
    RUN(an_evaluation_that_is_stopped_is_given_up_or_goes_on);
    RUN(the_weights_of_an_evaluation_can_be_kept);
    RUN(a_run_that_is_stopped_waits_for_the_ends_of_its_actors);
    RUN(a_run_that_never_advances_can_be_destroyed);
    RUN(settings_that_do_not_go_together_are_refused);
    RUN(calls_with_wrong_arguments_are_refused);
    return test_main_end();
}
