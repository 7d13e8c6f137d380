/* SPDX-License-Identifier: MIT */
/* Offline runs: train steps on known rows, evaluations between them, and the same bits after stops and loads. */
#include "gpureplay/offline.h"

#include "gpureplay/actor_critic.h"
#include "run/core.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "test.h"

enum { ROWS = 300, STEPS = 120, SAVED_AT = 50, PERIOD = 30, EPISODES = 3, FEATURES = 4, FOLDER_ROOM = 4096 };

/* As the schema packs it. */
typedef struct pole_row {
    float obs[FEATURES];
    int32_t action;
    float reward, next_obs[FEATURES];
    uint8_t terminated, truncated;
} pole_row;

typedef struct offline_fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
    gpur_run *run;
    gpur_run_config config;
    int64_t evaluations;
    uint64_t seen;    /* a hash of the evaluations */
    int64_t stops_at; /* the evaluation, from 1 on, whose first step stops the run; 0: none */
} offline_fixture;

static gpur_env_type pole; /* CartPole that may stop the run it is stepped for */
static const gpur_env_type *games;
static offline_fixture *stepped;
static int64_t begun;

static const char *count_and_reset(void *env, void *obs)
{
    if (stepped && stepped->stops_at > 0 && begun++ == stepped->stops_at - 1)
        gpur_run_stop(stepped->run);
    return games->reset(env, obs);
}

static void note(void *user, const gpur_run_event *event)
{
    offline_fixture *const f = user;
    const double numbers[] = {(double)event->env_steps, (double)event->train_steps, event->mean_return,
                              event->return_deviation,  (double)event->length,      (double)event->version};
    f->evaluations++;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        f->seen = (f->seen ^ bits) * UINT64_C(0x9E3779B97F4A7C15);
    }
}

static float number(int64_t i, int64_t of)
{
    return sinf((float)(i * 7 + of) * 0.37f);
}

static gpur_status fill(gpur_writer *writer)
{
    for (int64_t i = 0; i < ROWS; i++) {
        pole_row row = {.action = (int32_t)(i * 5 % 3 % 2), .reward = 1.0f, .terminated = i % 20 == 19};
        for (int f = 0; f < FEATURES; f++)
            row.obs[f] = number(i, f), row.next_obs[f] = number(i + 1, f);
        const gpur_status status = gpur_writer_append(writer, 1, &row, NULL);
        if (status != GPUR_OK)
            return status;
    }
    return gpur_writer_flush(writer);
}

static gpur_status open_replay(offline_fixture *f)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {FEATURES}}, {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},     {"next_obs", GPUR_FLOAT32, {FEATURES}},
                                 {"terminated", GPUR_BOOL, {0}},    {"truncated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_status status = gpur_replay_config_init(&config, sizeof config);
    config.capacity = 512, config.fields = fields, config.field_count = 6, config.prioritized = 1;
    if (status == GPUR_OK)
        status = gpur_replay_create(f->device, &config, &f->replay);
    if (status == GPUR_OK)
        status = gpur_writer_create(f->replay, 1, &f->writer);
    return status == GPUR_OK ? fill(f->writer) : status;
}

static gpur_status open_learner(offline_fixture *f)
{
    gpur_dqn_config config;
    gpur_status status = gpur_dqn_config_init(&config, sizeof config);
    config.network.num_actions = 2;
    config.network.trunk_count = 1;
    config.network.trunk[0] = (gpur_layer){.kind = GPUR_DENSE, .units = 8, .activation = GPUR_RELU};
    config.batch_size = 16, config.target_period = 20;
    return status == GPUR_OK ? gpur_dqn_create(f->replay, &config, &f->learner) : status;
}

/* All of it, with CartPole. The caller always calls close_all. */
static gpur_status open_all(offline_fixture *f)
{
    *f = (offline_fixture){.device = test_device()};
    gpur_status status = gpur_env_find("CartPole-v1", &games);
    pole = *games;
    pole.reset = count_and_reset;
    if (status == GPUR_OK)
        status = gpur_run_config_init(&f->config, sizeof f->config);
    f->config.type = &pole;
    f->config.seed = 5, f->config.eval_period = PERIOD, f->config.eval_episodes = EPISODES;
    f->config.on_event = note, f->config.user = f;
    if (status == GPUR_OK)
        status = open_replay(f);
    if (status == GPUR_OK)
        status = open_learner(f);
    begun = 0;
    return status == GPUR_OK ? gpur_offline_create(f->learner, &f->config, &f->run) : status;
}

static void close_all(offline_fixture *f)
{
    stepped = NULL;
    gpur_run_destroy(f->run);
    gpur_learner_destroy(f->learner);
    gpur_writer_destroy(f->writer);
    gpur_replay_destroy(f->replay);
    gpur_device_close(f->device);
}

/* The learner's file of a run that nobody stopped, and its evaluations. */
static void run_whole(const char *path, offline_fixture *f)
{
    gpur_run_stats stats = {.size = sizeof stats};
    CHECK_OK(open_all(f));
    CHECK_OK(gpur_run_advance(f->run, STEPS, 0));
    CHECK_OK(gpur_run_get_stats(f->run, &stats));
    CHECK_EQUAL(stats.train_steps, STEPS);
    CHECK_EQUAL(stats.env_steps, STEPS);
    CHECK_EQUAL(stats.evaluations, STEPS / PERIOD);
    CHECK_EQUAL(stats.evaluated_steps, STEPS);
    CHECK_EQUAL(f->evaluations, STEPS / PERIOD);
    CHECK(isfinite(stats.loss) && stats.evaluated_return >= 8.0 && stats.eval_seconds > 0.0 &&
          stats.train_seconds > 0.0);
    CHECK_EQUAL(gpur_replay_size(f->replay), ROWS);
    CHECK_OK(gpur_learner_save(f->learner, path, NULL));
    CHECK_OK(gpur_learner_save_weights(f->learner, test_file_path("weights"), NULL));
    close_all(f);
}

/* But for the copies of the weights that the learner acts with, which are those of its last two launches. */
TEST(a_run_in_pieces_has_the_bits_of_a_whole_one)
{
    offline_fixture whole, f;
    const char *const path = test_file_path("whole"), *const other = test_file_path("pieces");
    run_whole(path, &whole);
    CHECK_OK(open_all(&f));
    for (int64_t i = 0; i < STEPS; i += 8)
        CHECK_OK(gpur_run_advance(f.run, 8, 0));
    CHECK_OK(gpur_learner_save_weights(f.learner, other, NULL));
    CHECK(files_are_same(test_file_path("weights"), other) && f.seen == whole.seen);
    close_all(&f);
    test_remove_folder();
}

/* In an evaluation that is due, which is played anew. */
TEST(a_run_that_is_stopped_goes_on_with_the_same_bits)
{
    offline_fixture whole, f;
    const char *const path = test_file_path("whole"), *const other = test_file_path("stopped");
    gpur_run_stats stats = {.size = sizeof stats};
    run_whole(path, &whole);
    CHECK_OK(open_all(&f));
    stepped = &f;
    f.stops_at = EPISODES + 1; /* the first game of the second evaluation */
    CHECK_FAILS(gpur_run_advance(f.run, STEPS, 0), GPUR_INTERRUPTED, "60 environment steps and 60 train steps");
    CHECK_EQUAL(f.evaluations, 1);
    CHECK_OK(gpur_run_advance(f.run, 0, 0)); /* plays it */
    CHECK_EQUAL(f.evaluations, 2);
    CHECK_OK(gpur_run_get_stats(f.run, &stats));
    CHECK_EQUAL(stats.eval_episode, 0);
    CHECK_OK(gpur_run_advance(f.run, STEPS - 60, 0));
    CHECK_OK(gpur_learner_save(f.learner, other, NULL));
    CHECK(files_are_same(path, other) && f.seen == whole.seen);
    close_all(&f);
    test_remove_folder();
}

TEST(a_loaded_run_goes_on_with_the_same_bits)
{
    offline_fixture whole, f;
    char folder[FOLDER_ROOM];
    const char *const path = test_file_path("whole"), *const other = test_file_path("loaded");
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    run_whole(path, &whole);
    CHECK_OK(open_all(&f));
    CHECK_OK(gpur_run_advance(f.run, SAVED_AT, 0));
    CHECK_OK(gpur_run_save(f.run, folder));
    CHECK_FAILS(gpur_run_load(f.run, folder, 0), GPUR_INVALID_ARGUMENT, "load before the first gpur_run_advance");
    const uint64_t seen = f.seen;
    close_all(&f);
    CHECK_OK(open_all(&f));
    CHECK_OK(gpur_run_load(f.run, folder, 0));
    f.seen = seen;
    CHECK_OK(gpur_run_advance(f.run, STEPS - SAVED_AT, 0));
    CHECK_OK(gpur_learner_save(f.learner, other, NULL));
    CHECK(files_are_same(path, other) && f.seen == whole.seen);
    close_all(&f);
    (void)test_file_path("learner.safetensors");
    (void)test_file_path("replay.safetensors");
    test_remove_folder();
}

TEST(a_run_of_dpg_trains_and_needs_no_environment)
{
    dpg_fixture f;
    gpur_run *run;
    gpur_device *const device = test_device();
    gpur_run_stats stats = {.size = sizeof stats};
    const gpur_dpg_config config = dpg_fixture_config();
    CHECK_OK(dpg_fixture_open(&f, device, 0));
    gpur_learner *const learner = dpg_fixture_learner(&f, &config);
    CHECK(learner);
    CHECK_OK(gpur_offline_create(learner, NULL, &run));
    CHECK_OK(gpur_run_advance(run, 40, 0));
    CHECK_OK(gpur_run_get_stats(run, &stats));
    CHECK(stats.train_steps == 40 && stats.evaluations == 0);
    CHECK_FAILS(gpur_run_evaluate(run, 0, 0, NULL), GPUR_INVALID_ARGUMENT, "without environments");
    gpur_run_destroy(run);
    gpur_learner_destroy(learner);
    dpg_fixture_close(&f);
    gpur_device_close(device);
}

TEST(what_cannot_be_trained_offline_is_refused)
{
    offline_fixture f;
    gpur_run *run = NULL;
    gpur_learner *critic;
    gpur_actor_critic_config config;
    CHECK_OK(open_all(&f));
    CHECK_FAILS(gpur_offline_create(NULL, &f.config, &run), GPUR_INVALID_ARGUMENT, "learner is NULL");
    CHECK_FAILS(gpur_offline_create(f.learner, &f.config, NULL), GPUR_INVALID_ARGUMENT, "handle");
    CHECK_FAILS(gpur_run_advance(f.run, 1, 1), GPUR_INVALID_ARGUMENT, "train_steps is 1");
    CHECK_OK(gpur_env_find("Pendulum", &f.config.type));
    CHECK_FAILS(gpur_offline_create(f.learner, &f.config, &run), GPUR_INVALID_ARGUMENT, "axis 0 of the environment's");
    CHECK_OK(gpur_env_find("MinAtar/Breakout", &f.config.type));
    CHECK_FAILS(gpur_offline_create(f.learner, &f.config, &run), GPUR_INVALID_ARGUMENT, "uint8");
    CHECK(!run);
    f.config.type = &pole;
    f.config.eval_episodes = 0;
    CHECK_OK(gpur_offline_create(f.learner, &f.config, &run));
    CHECK_FAILS(gpur_run_evaluate(run, 1, 0, NULL), GPUR_INVALID_ARGUMENT, "eval_episodes 0");
    gpur_run_destroy(run);
    CHECK_OK(gpur_actor_critic_config_init(&config, sizeof config));
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {FEATURES}};
    config.network.num_actions = 2;
    CHECK_OK(gpur_actor_critic_create(f.device, &config, &critic));
    CHECK_FAILS(gpur_offline_create(critic, &f.config, &run), GPUR_INVALID_ARGUMENT, "a learner of a replay");
    gpur_learner_destroy(critic);
    close_all(&f);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_run_in_pieces_has_the_bits_of_a_whole_one);
    RUN(a_run_that_is_stopped_goes_on_with_the_same_bits);
    RUN(a_loaded_run_goes_on_with_the_same_bits);
    RUN(a_run_of_dpg_trains_and_needs_no_environment);
    RUN(what_cannot_be_trained_offline_is_refused);
    return test_main_end();
}
