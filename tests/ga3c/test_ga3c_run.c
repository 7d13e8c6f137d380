/* SPDX-License-Identifier: MIT */
/* Runs of GA3C: exact numbers of steps, stopping, errors, lags, threads that come and go, and what is saved. */
#include "support/file_utils.h"
#include "support/ga3c_fixture.h"
#include "test.h"

#include <time.h>

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

static void pause_for(int64_t microseconds)
{
    const struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static int64_t sum_of_lags(const gpur_run_stats *stats)
{
    int64_t sum = 0;
    for (int i = 0; i < GPUR_GA3C_LAGS; i++)
        sum += stats->ga3c.lags[i];
    return sum;
}

static void check_stats(int64_t steps)
{
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(s.env_steps, steps);
    CHECK(s.episodes == fixture.episodes && fixture.lengths <= steps && isfinite(s.recent_return));
    CHECK_EQUAL(s.ga3c.trained_rows, fixture.fake.count);
    CHECK_EQUAL(s.train_steps, atomic_load(&fixture.fake.steps));
    CHECK_EQUAL(sum_of_lags(&s), s.ga3c.trained_rows);
    CHECK(s.ga3c.predictions >= steps && s.ga3c.prediction_batches <= s.ga3c.predictions &&
          s.ga3c.training_batches >= s.train_steps);
    CHECK(s.ga3c.largest_lag >= 0 && s.ga3c.mean_lag <= (double)s.ga3c.largest_lag);
    CHECK(s.ga3c.queue_lag >= 0 && s.ga3c.queue_lag <= s.ga3c.queue_lag_bound);
    CHECK(s.ga3c.training_queue > 0.0 && s.ga3c.training_queue <= config.run.queue_room &&
          s.ga3c.prediction_queue >= 1.0);
    CHECK(s.seconds > 0.0 && s.env_seconds > 0.0 && s.ga3c.wait_seconds > 0.0 && s.ga3c.predict_seconds > 0.0);
    CHECK(s.ga3c.predictor_seconds > 0.0 && s.train_seconds > 0.0 && s.ga3c.queue_seconds > 0.0);
    CHECK_NEAR(s.ga3c.value_loss, 0.25, 0.0);
}

TEST(exactly_as_many_steps_are_taken_as_were_asked_for)
{
    static const int64_t steps[] = {1, 2, 3, 97, 1, 400, 5};
    int64_t sum = 0;
    config = ga3c_fixture_config("");
    config.run.agents = 7;
    config.run.predictors = 2;
    config.run.trainers = 3;
    open_run();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        CHECK_OK(gpur_run_advance(fixture.run, steps[i], 0));
        sum += steps[i];
        CHECK_EQUAL(ga3c_fixture_stats(&fixture).env_steps, sum);
        CHECK_EQUAL(ga3c_fixture_stats(&fixture).ga3c.trained_rows, fixture.fake.count);
    }
    check_stats(sum);
    close_run();
}

/* A game goes on where a life is lost. */
TEST(an_episode_is_a_whole_game)
{
    config = ga3c_fixture_config("lives,length=3");
    config.run.agents = 1;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 61, 0));
    CHECK_EQUAL(fixture.episodes, 10);
    CHECK_EQUAL(fixture.lengths, 60);
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).episodes, 10);
    close_run();
}

/* Batches. */

TEST(trainers_join_rollouts_until_they_have_more_than_the_least_number)
{
    config = ga3c_fixture_config("length=10");
    config.run.min_train_batch = 20;
    open_run();
    for (int call = 0; call < 3; call++) { /* the last batch of each call may be smaller */
        const int64_t rows = fixture.fake.count, batches = ga3c_fixture_stats(&fixture).train_steps;
        CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
        CHECK_EQUAL(ga3c_fixture_stats(&fixture).train_steps, batches + (fixture.fake.count - rows + 24) / 25);
        for (int64_t i = rows; i < fixture.fake.count; i++)
            CHECK_EQUAL(fixture.fake.rows[i].batch, batches + 1 + (i - rows) / 25);
    }
    close_run();
}

TEST(predictors_take_all_that_wait_at_once_up_to_the_most)
{
    config = ga3c_fixture_config("");
    config.run.agents = 24;
    config.run.max_prediction_batch = 8;
    fixture.fake.awaited_requests = 16;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 600, 0));
    CHECK_EQUAL(atomic_load(&fixture.fake.largest_prediction), 8);
    CHECK(ga3c_fixture_stats(&fixture).ga3c.prediction_queue > 1.0);
    close_run();
}

/* The trainer waits until the queue is full: what is in it grows old, by the updates of section 4.4 at most. */
static void try_full_queue(int32_t when_full)
{
    config = ga3c_fixture_config("length=10");
    config.run.agents = 8;
    config.run.queue_room = 3;
    config.run.when_full = when_full;
    fixture.fake.awaited_rollouts = 4;
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 1600, 0));
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(s.ga3c.queue_lag_bound, 3 + 8 + 1);
    CHECK(s.ga3c.queue_lag > 0 && s.ga3c.queue_lag <= s.ga3c.queue_lag_bound && s.ga3c.training_queue <= 3.0);
    CHECK_EQUAL(s.ga3c.refused_rollouts > 0, when_full == GPUR_QUEUE_REFUSE);
    CHECK_EQUAL(s.ga3c.overwritten_rollouts > 0, when_full == GPUR_QUEUE_DROP_OLDEST);
    CHECK_EQUAL(s.ga3c.dropped_rows, 5 * (s.ga3c.refused_rollouts + s.ga3c.overwritten_rollouts));
    CHECK(1600 - s.ga3c.trained_rows - s.ga3c.dropped_rows >= 0 &&
          1600 - s.ga3c.trained_rows - s.ga3c.dropped_rows <= 8 * 4);
    CHECK(s.ga3c.mean_lag > 0.0);
    close_run();
}

TEST(a_full_training_queue_waits_refuses_or_drops)
{
    try_full_queue(GPUR_QUEUE_WAIT);
    try_full_queue(GPUR_QUEUE_REFUSE);
    try_full_queue(GPUR_QUEUE_DROP_OLDEST);
}

/* One agent acts on its fifth step's reply before the rollout is trained on, and else never on older weights. */
TEST(the_lag_is_counted_in_updates)
{
    config = ga3c_fixture_config("length=10");
    config.run.agents = 1;
    open_run();
    for (int i = 0; i < 20; i++)
        CHECK_OK(gpur_run_advance(fixture.run, 5, 0));
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(s.ga3c.trained_rows, 100);
    CHECK_EQUAL(s.ga3c.lags[0], 90);
    CHECK_EQUAL(s.ga3c.lags[1], 10);
    close_run();
}

/* Stopping. */

static void *stop_soon(void *context)
{
    pause_for(*(const int64_t *)context);
    gpur_run_stop(fixture.run);
    return NULL;
}

static void try_stop(int32_t system)
{
    static const int64_t soon = 20000;
    pthread_t stopper;
    config = ga3c_fixture_config("slow");
    config.run.system = system;
    open_run();
    CHECK(pthread_create(&stopper, NULL, stop_soon, (void *)(intptr_t)&soon) == 0);
    const gpur_status status = gpur_run_advance(fixture.run, 1000000000, 0);
    pthread_join(stopper, NULL);
    CHECK_EQUAL(status, GPUR_INTERRUPTED);
    CHECK_MESSAGE("environment steps");
    const int64_t steps = ga3c_fixture_stats(&fixture).env_steps;
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(s.env_steps, steps + 100);
    CHECK(s.env_seconds >= 0.0019 * (double)s.env_steps); /* each takes 2 ms */
    gpur_run_stop(fixture.run);
    CHECK_STATUS(gpur_run_advance(fixture.run, 100, 0), GPUR_INTERRUPTED);
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).env_steps, steps + 100);
    CHECK_OK(gpur_run_advance(fixture.run, 4, 0));
    close_run();
}

TEST(a_run_can_be_stopped_and_goes_on)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++)
        try_stop(system);
}

/* Errors. */

static void try_error(int32_t system, const char *options, int64_t predict, int64_t train, const char *message)
{
    config = ga3c_fixture_config(options);
    config.run.system = system;
    fixture.fake.predict_fails_at = predict;
    fixture.fake.train_fails_at = train;
    open_run();
    CHECK_STATUS(gpur_run_advance(fixture.run, 100000, 0),
                 predict + train > 0 ? GPUR_DEVICE_ERROR : GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK_FAILS(gpur_run_advance(fixture.run, 1, 0), GPUR_INVALID_ARGUMENT, message);
    CHECK_MESSAGE("can only be destroyed");
    close_run();
}

TEST(the_first_error_of_any_thread_ends_the_run)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        try_error(system, "fail=17", 0, 0, "step 17: the motor is broken");
        try_error(system, "", 50, 0, "the network is broken");
        try_error(system, "", 0, 9, "a train step: the optimizer is broken");
    }
}

TEST(settings_are_checked)
{
    gpur_run_event event = {0};
    config = ga3c_fixture_config("");
    open_run();
    CHECK_FAILS(gpur_run_advance(fixture.run, -1, 0), GPUR_INVALID_ARGUMENT, "env_steps is -1; it must be 0 to");
    CHECK_FAILS(gpur_run_advance(fixture.run, 1, 1), GPUR_INVALID_ARGUMENT, "train_steps is 1; it must be 0");
    CHECK_FAILS(gpur_run_advance(NULL, 1, 0), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gpur_ga3c_set_counts(fixture.run, 0, 1, 1), GPUR_INVALID_ARGUMENT, "agents is 0; it must be 1 to 1024");
    CHECK_FAILS(gpur_ga3c_set_counts(fixture.run, 1, 65, 1), GPUR_INVALID_ARGUMENT, "predictors is 65");
    CHECK_FAILS(gpur_ga3c_set_counts(fixture.run, 1, 1, 0), GPUR_INVALID_ARGUMENT, "trainers is 0");
    CHECK_FAILS(gpur_run_evaluate(fixture.run, -1, 1, &event), GPUR_INVALID_ARGUMENT, "episodes is -1");
    CHECK_FAILS(gpur_run_evaluate(fixture.run, 1, 2, &event), GPUR_INVALID_ARGUMENT, "greedy is 2");
    close_run();
#define REFUSES(setting, message)                                                                                      \
    config = ga3c_fixture_config("");                                                                                  \
    config.run.setting;                                                                                                \
    CHECK_FAILS(ga3c_fixture_open(&fixture, &config), GPUR_INVALID_ARGUMENT, message);                                 \
    close_run()
    REFUSES(system = 3, "system is 3");
    REFUSES(agents = 1025, "agents is 1025; it must be 1 to 1024");
    REFUSES(t_max = 0, "t_max is 0; it must be 1 to 256");
    REFUSES(discount = 1.5f, "discount is 1.5; it must be 0 to 1");
    REFUSES(reward_clip = -1.0f, "reward_clip is -1");
    REFUSES(queue_room = 0, "queue_room is 0");
    REFUSES(when_full = 3, "when_full is 3");
    REFUSES(min_train_batch = 5996, "min_train_batch is 5996 and t_max 5, and the learner's max_batch 6000");
    REFUSES(tuner_period = -1.0, "tuner_period is -1");
    config = ga3c_fixture_config("");
    config.run.system = GPUR_A2C;
    config.run.tuner = GPUR_TUNER_PAPER;
    CHECK_FAILS(ga3c_fixture_open(&fixture, &config), GPUR_INVALID_ARGUMENT, "tuner is 1 and system 2");
    close_run();
    config.run.tuner = GPUR_TUNER_NONE;
    config.run.agents = 8;
    fixture.fake.max_batch = 39;
    CHECK_FAILS(ga3c_fixture_open(&fixture, &config), GPUR_INVALID_ARGUMENT, "agents is 8 and t_max 5");
    close_run();
}

/* Threads that come and go. */

static _Atomic int is_over;

static void *change_numbers(void *unused)
{
    (void)unused;
    for (int32_t i = 0; !atomic_load(&is_over); i++)
        if (gpur_ga3c_set_counts(fixture.run, 1 + i * 7 % 40, 1 + i % 3, 1 + i % 2) != GPUR_OK)
            break;
    return NULL;
}

static int64_t agents_so_far(void)
{
    int64_t agents = 0;
    gpur_mutex_lock(&fixture.run->lock);
    for (int32_t i = 0; i < gpur_ga3c_of(fixture.run)->slot_count; i++)
        agents += gpur_ga3c_of(fixture.run)->slots[i]->incarnation;
    gpur_mutex_unlock(&fixture.run->lock);
    return agents;
}

static void try_changes(int32_t system, int64_t agents)
{
    pthread_t changer;
    int64_t steps = 0;
    gpur_status status = GPUR_OK;
    config = ga3c_fixture_config("");
    config.run.system = system;
    config.run.queue_room = 2;
    config.run.min_train_batch = system == GPUR_GA3C ? 6 : 0;
    open_run();
    atomic_store(&is_over, 0);
    CHECK(pthread_create(&changer, NULL, change_numbers, NULL) == 0);
    for (; status == GPUR_OK && agents_so_far() < agents; steps += 200)
        status = gpur_run_advance(fixture.run, 200, 0);
    atomic_store(&is_over, 1);
    pthread_join(changer, NULL);
    CHECK_OK(status);
    CHECK_OK(gpur_ga3c_set_counts(fixture.run, 3, 1, 1));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK_EQUAL(s.env_steps, steps + 300);
    CHECK_EQUAL(s.ga3c.agents, 3);
    CHECK_EQUAL(s.ga3c.trained_rows, fixture.fake.count);
    const int64_t open = s.env_steps - s.ga3c.trained_rows - s.ga3c.dropped_rows;
    /* With A2C an advance can end within a round, in which some rollouts are complete, and wait for the others. */
    CHECK(open >= 0 && open <= 3 * (system == GPUR_A2C ? 5 : 4));
    close_run();
    CHECK_EQUAL(atomic_load(&fixture.fake.locals), 0);
}

TEST(a_thousand_agents_come_and_go)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++)
        try_changes(system, (int64_t)test_rounds(1000));
}

TEST(numbers_can_be_set_in_an_event)
{
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        config = ga3c_fixture_config("");
        config.run.system = system;
        fixture.changes_numbers = 1;
        open_run();
        CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
        CHECK_OK(fixture.changed);
        CHECK(ga3c_fixture_stats(&fixture).env_steps == 300 && fixture.episodes > 10);
        CHECK_EQUAL(ga3c_fixture_stats(&fixture).ga3c.agents, 1 + fixture.episodes % 6);
        close_run();
    }
}

static void *leave_one_agent(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000 && ga3c_count_entries(&gpur_ga3c_of(fixture.run)->rollouts) < 5; i++)
        pause_for(1000);
    fixture.changed = gpur_ga3c_set_counts(fixture.run, 1, 1, 1);
    return NULL;
}

/* The trainer has a rollout, another one fills the queue, and all four agents wait for room behind it. Three of them
 * leave before the train step ends, which waits for that. */
TEST(agents_leave_a_full_queue_at_once)
{
    pthread_t changer;
    config = ga3c_fixture_config("length=10");
    config.run.queue_room = 1;
    fixture.fake.awaited_left = 3;
    open_run();
    CHECK(pthread_create(&changer, NULL, leave_one_agent, NULL) == 0);
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    pthread_join(changer, NULL);
    CHECK_OK(fixture.changed);
    const gpur_run_stats s = ga3c_fixture_stats(&fixture);
    CHECK(s.ga3c.left_rollouts == 3 && s.ga3c.dropped_rows == 15 && s.ga3c.queue_lag <= s.ga3c.queue_lag_bound);
    CHECK(!fixture.fake.waited_in_vain);
    close_run();
}

TEST(a_run_ends_at_any_moment)
{
    for (int i = 0; i < (int)test_rounds(300); i++) {
        const int64_t soon = i * 37 % 900;
        pthread_t stopper;
        config = ga3c_fixture_config(i % 2 ? "length=5" : "");
        config.run.system = i % 3;
        config.run.agents = 1 + i % 12;
        config.run.predictors = 1 + i % 3;
        config.run.trainers = 1 + i % 2;
        config.run.queue_room = 1 + i % 4;
        open_run();
        CHECK(pthread_create(&stopper, NULL, stop_soon, (void *)(intptr_t)&soon) == 0);
        const gpur_status status = gpur_run_advance(fixture.run, i % 7 == 0 ? 3 : 1000000, 0);
        pthread_join(stopper, NULL);
        CHECK(status == GPUR_OK || status == GPUR_INTERRUPTED);
        close_run();
    }
}

/* Evaluation, and files. */

static double expected_return(int32_t id, int64_t games)
{
    double sum = 0.0;
    int32_t total = 0;
    for (int32_t episode = 0; episode < games; episode++) {
        const int32_t length = ga3c_env_length("", id, episode);
        for (int32_t t = 0; t < length; t++, total++)
            sum += (double)ga3c_env_reward("", id, total, t + 1 == length);
    }
    return sum / (double)games;
}

/* Evaluation `number` plays in an environment of its own. */
static void check_evaluation(int64_t number)
{
    gpur_run_event event = {0};
    const int32_t id = (int32_t)(gpur_run_env_seed(fixture.run->config.seed, GPUR_GA3C_MAX_AGENTS, number) & 0xfffff);
    CHECK_OK(gpur_run_evaluate(fixture.run, 20, 1, &event));
    CHECK_NEAR(event.mean_return, expected_return(id, 20), 1e-9);
}

TEST(an_evaluation_plays_whole_games_beside_the_run)
{
    gpur_run_event event = {0};
    config = ga3c_fixture_config("");
    open_run();
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    check_evaluation(0);
    CHECK(atomic_load(&fixture.fake.greedy) >= 20 && ga3c_fixture_stats(&fixture).env_steps == 100);
    check_evaluation(1);
    gpur_run_stop(fixture.run);
    CHECK_FAILS(gpur_run_evaluate(fixture.run, 20, 1, &event), GPUR_INTERRUPTED,
                "the run was stopped after 100 environment steps");
    check_evaluation(2); /* the same environment, in which no game has begun */
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).env_steps, 200);
    close_run();
}

static int64_t noted;

static void note_evaluation(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind != GPUR_RUN_EVALUATION)
        return;
    const uint64_t seed = gpur_run_env_seed(event->run->config.seed, GPUR_GA3C_MAX_AGENTS, noted);
    CHECK_EQUAL(event->env_steps, 60 * ++noted);
    CHECK(event->episodes == 5 && event->version == event->train_steps);
    CHECK_NEAR(event->mean_return, expected_return((int32_t)(seed & 0xfffff), 5), 1e-9);
}

static void *stop_in_evaluation(void *run)
{
    while (ga3c_fixture_stats(&fixture).eval_episode == 0)
        pause_for(500);
    gpur_run_stop(run);
    return NULL;
}

/* One that is stopped is played anew, with the same games. */
TEST(evaluations_are_played_at_each_multiple_of_their_period)
{
    pthread_t thread;
    for (int32_t system = GPUR_GA3C; system <= GPUR_A2C; system++) {
        config = ga3c_fixture_config("slow");
        config.run.system = system;
        config.all.eval_period = 60, config.all.eval_episodes = 5;
        noted = 0;
        open_run();
        fixture.run->config.on_event = note_evaluation;
        CHECK_OK(gpur_run_advance(fixture.run, 59, 0));
        CHECK_EQUAL(noted, 0);
        CHECK_OK(gpur_run_advance(fixture.run, 1, 0));
        CHECK_EQUAL(noted, 1);
        CHECK_OK(gpur_run_advance(fixture.run, 130, 0));
        CHECK(noted == 3 && ga3c_fixture_stats(&fixture).env_steps == 190);
        CHECK_EQUAL(pthread_create(&thread, NULL, stop_in_evaluation, fixture.run), 0);
        CHECK_FAILS(gpur_run_advance(fixture.run, 100, 0), GPUR_INTERRUPTED, "after 240 environment steps");
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        CHECK(noted == 3 && ga3c_fixture_stats(&fixture).eval_episode == 0);
        CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
        CHECK(noted == 4 && ga3c_fixture_stats(&fixture).evaluations == 4);
        close_run();
    }
}

TEST(an_evaluation_that_is_due_is_not_lost_to_one_that_is_asked_for)
{
    pthread_t thread;
    config = ga3c_fixture_config("slow");
    config.all.eval_period = 60, config.all.eval_episodes = 5;
    open_run();
    CHECK_EQUAL(pthread_create(&thread, NULL, stop_in_evaluation, fixture.run), 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, 60, 0), GPUR_INTERRUPTED, "after 60 environment steps");
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_OK(gpur_run_evaluate(fixture.run, 1, 0, NULL));
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).evaluations, 1);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).evaluations, 2);
    close_run();
}

#ifdef GPUR_HAS_FILES
/* Agents are in new environments, and take actions by random numbers that come after those of their first `steps`. */
static void check_actions_go_on(const uint64_t *steps, int32_t agents)
{
    CHECK(fixture.fake.count > 0);
    for (int64_t i = 0; i < fixture.fake.count; i++) {
        const ga3c_row *const row = &fixture.fake.rows[i];
        int32_t agent = 0;
        while (agent < agents && row->id != (int32_t)(gpur_run_env_seed(fixture.run->config.seed, agent, 1) & 0xfffff))
            agent++;
        CHECK(agent < agents);
        CHECK_EQUAL(row->action, ga3c_fake_action((uint32_t)agent, steps[agent] + (uint64_t)row->total));
    }
}

TEST(a_saved_run_goes_on)
{
    char folder[512];
    uint64_t steps[5];
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    config = ga3c_fixture_config("");
    open_run();
    CHECK_OK(gpur_ga3c_set_counts(fixture.run, 5, 2, 3));
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    check_evaluation(0);
    const gpur_run_stats saved = ga3c_fixture_stats(&fixture);
    for (int32_t agent = 0; agent < 5; agent++)
        steps[agent] = gpur_ga3c_of(fixture.run)->slots[agent]->steps;
    const uint64_t eval_steps = gpur_ga3c_of(fixture.run)->eval_steps;
    CHECK_OK(gpur_run_save(fixture.run, folder));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "the run has taken 500 steps");
    close_run();
    open_run();
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    const gpur_run_stats loaded = ga3c_fixture_stats(&fixture);
    CHECK(loaded.ga3c.agents == 5 && loaded.ga3c.predictors == 2 && loaded.ga3c.trainers == 3);
    CHECK(loaded.env_steps == 500 && loaded.episodes == saved.episodes &&
          loaded.ga3c.trained_rows == saved.ga3c.trained_rows);
    CHECK(memcmp(loaded.ga3c.lags, saved.ga3c.lags, sizeof saved.ga3c.lags) == 0 &&
          loaded.ga3c.largest_lag == saved.ga3c.largest_lag);
    CHECK_NEAR(loaded.recent_return, saved.recent_return, 0.0);
    CHECK_EQUAL(atomic_load(&fixture.fake.steps), saved.train_steps);
    CHECK(eval_steps > 0 && gpur_ga3c_of(fixture.run)->eval_steps == eval_steps);
    check_evaluation(1);
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_EQUAL(ga3c_fixture_stats(&fixture).env_steps, 600);
    check_actions_go_on(steps, 5);
    close_run();
    config.all.seed++;
    open_run();
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "seed");
    close_run();
    test_remove_folder();
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(exactly_as_many_steps_are_taken_as_were_asked_for);
    RUN(an_episode_is_a_whole_game);
    RUN(trainers_join_rollouts_until_they_have_more_than_the_least_number);
    RUN(predictors_take_all_that_wait_at_once_up_to_the_most);
    RUN(a_full_training_queue_waits_refuses_or_drops);
    RUN(the_lag_is_counted_in_updates);
    RUN(a_run_can_be_stopped_and_goes_on);
    RUN(the_first_error_of_any_thread_ends_the_run);
    RUN(settings_are_checked);
    RUN(a_thousand_agents_come_and_go);
    RUN(numbers_can_be_set_in_an_event);
    RUN(agents_leave_a_full_queue_at_once);
    RUN(a_run_ends_at_any_moment);
    RUN(an_evaluation_plays_whole_games_beside_the_run);
    RUN(evaluations_are_played_at_each_multiple_of_their_period);
    RUN(an_evaluation_that_is_due_is_not_lost_to_one_that_is_asked_for);
#ifdef GPUR_HAS_FILES
    RUN(a_saved_run_goes_on);
#endif
    return test_main_end();
}
