/* SPDX-License-Identifier: MIT */
/* Saved runs: resuming them, with environments that can be saved and with others, and folders that are refused. */
#include "support/run_fixture.h"

#include "support/file_utils.h"
#include "test.h"

#include <math.h>

enum { STEPS = 240, SAVED_AT = 96, FOLDER_ROOM = 4096 };

static run_fixture fixture;
static char folder[FOLDER_ROOM];

static gpur_status open_run(const run_settings *config, const gpur_vector_env_type *vector)
{
    const gpur_device_config device = test_device_config();
    return run_fixture_open(&fixture, &device, test_device_name(), config, vector);
}

static void begin_folder(void)
{
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
}

/* A run of two periods, saved. It goes on. */
static void open_and_save(const run_settings *config, const gpur_vector_env_type *vector)
{
    begin_folder();
    CHECK_OK(open_run(config, vector));
    CHECK_OK(gpur_run_advance(fixture.run, SAVED_AT, 0));
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    CHECK_OK(gpur_run_save(fixture.run, folder));
}

static void open_and_load(const run_settings *config, const gpur_vector_env_type *vector)
{
    CHECK_OK(open_run(config, vector));
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
}

/* The events from now on, and what the run leaves behind at its end. */
static run_hashes hashes_at_end(void)
{
    fixture.events = 0, fixture.episodes = fixture.evaluations = 0;
    const run_hashes failed = {0};
    return gpur_run_advance(fixture.run, STEPS - SAVED_AT, 0) == GPUR_OK &&
                   gpur_run_evaluate(fixture.run, 0, 0, NULL) == GPUR_OK
               ? run_fixture_hashes(&fixture)
               : failed;
}

static void close_and_remove(void)
{
    run_fixture_close(&fixture);
    test_remove_folder();
}

static void check_resume(const run_settings *config)
{
    gpur_run_stats saved = {.size = sizeof saved}, loaded = saved;
    open_and_save(config, NULL);
    CHECK_OK(gpur_run_get_stats(fixture.run, &saved));
    const run_hashes want = hashes_at_end();
    run_fixture_close(&fixture);
    open_and_load(config, NULL);
    CHECK_OK(gpur_run_get_stats(fixture.run, &loaded));
    CHECK(saved.evaluations > 0 && loaded.evaluations == saved.evaluations);
    CHECK(loaded.evaluated_return == saved.evaluated_return && loaded.recent_return == saved.recent_return);
    CHECK(run_hashes_agree(hashes_at_end(), want));
    close_and_remove();
}

TEST(a_resumed_run_goes_on_with_the_same_bits)
{
    run_settings config = run_fixture_config(4, 1, 1);
    check_resume(&config);
    config.all.env_options = "frames,lives", config.run.whole_episodes = 1;
    check_resume(&config);
    config.all.env_options = "lives,limit=7", config.run.whole_episodes = 0; /* games that the library ends */
    check_resume(&config);
    config = run_fixture_config(3, 0, 0);
    check_resume(&config);
    config = run_fixture_config(4, 0, 1);
    config.run.burst = 1;
    check_resume(&config);
    config.all.env_options = "cache";
    check_resume(&config);
    config.run.burst = 0, config.run.concurrent = 1, config.all.env_options = "cache,frames,lives";
    check_resume(&config);
    config.all.env_options = "vectors,lives", config.run.train_steps = 2, config.run.whole_episodes = 1;
    check_resume(&config);
    config.run.concurrent = config.run.whole_episodes = 0;
    check_resume(&config);
}

/* Environments that cannot be saved, one of which, that of lane 1, only begins before step 1. Each load makes them
 * again, with the same seeds as each other load and with others than the run that was saved. */
static void check_new_episodes(const run_settings *config, const gpur_vector_env_type *vector)
{
    gpur_run_stats stats = {.size = sizeof stats};
    float first[RUN_FEATURES], again[RUN_FEATURES];
    CHECK_OK(open_run(config, vector));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    memcpy(first, gpur_fast_dqn_of(fixture.run)->slots[1].runner.obs, sizeof first);
    run_fixture_close(&fixture);
    open_and_save(config, vector);
    run_fixture_close(&fixture);
    open_and_load(config, vector);
    memcpy(again, gpur_fast_dqn_of(fixture.run)->slots[1].runner.obs, sizeof again);
    const run_hashes want = hashes_at_end();
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK(stats.env_steps == STEPS && stats.train_steps == STEPS / 4);
    run_fixture_close(&fixture);
    open_and_load(config, vector);
    CHECK(memcmp(again, first, sizeof again) != 0);
    CHECK(memcmp(again, gpur_fast_dqn_of(fixture.run)->slots[1].runner.obs, sizeof again) == 0);
    CHECK(run_hashes_agree(hashes_at_end(), want));
    close_and_remove();
}

TEST(environments_that_cannot_be_saved_begin_new_episodes_with_new_seeds)
{
    run_settings config = run_fixture_config(4, 1, 1);
    check_new_episodes(&config, &run_fixture_same_step);
    check_new_episodes(&config, &run_fixture_next_step);
    config.all.env_options = "unsaved";
    check_new_episodes(&config, NULL);
    config.run.whole_episodes = 1;
    check_new_episodes(&config, NULL);
}

/* Of each lane: the steps that its episodes have had since the load, by their events. */
static int64_t counted[4], steps_taken[4];

static void count_steps(void *user, const gpur_run_event *event)
{
    (void)user;
    if (event->kind != GPUR_RUN_EPISODE)
        return;
    counted[event->env_index] += event->length;
    steps_taken[event->env_index] = (event->env_steps - SAVED_AT - 1 - event->env_index) / 4 + 1;
}

/* Steps of the episodes that were open when the run was saved are not counted in those that begin after the load. */
TEST(a_resumed_run_with_whole_episodes_has_none_made_of_two)
{
    run_settings config = run_fixture_config(4, 1, 1);
    config.all.env_options = "unsaved", config.run.whole_episodes = 1;
    open_and_save(&config, NULL);
    int64_t logged = 0;
    for (int i = 0; i < 4; i++)
        logged += gpur_fast_dqn_of(fixture.run)->slots[i].log.count;
    CHECK(logged > 4); /* more than the beginnings of their episodes */
    run_fixture_close(&fixture);
    open_and_load(&config, NULL);
    memset(counted, 0, sizeof counted);
    gpur_fast_dqn_of(fixture.run)->core.config.on_event = count_steps;
    CHECK_OK(gpur_run_advance(fixture.run, STEPS - SAVED_AT, 0));
    for (int i = 0; i < 4; i++)
        CHECK(counted[i] > 0 && counted[i] == steps_taken[i]);
    close_and_remove();
}

/* Each lane has a writer, of which the replay's file has a note and some tensors. */
TEST(a_run_with_the_most_environments_is_saved_and_loaded)
{
    run_settings config = run_fixture_config(4096, 1, 0);
    gpur_run_stats stats = {.size = sizeof stats};
    config.run.threads = 1, config.all.env_options = "frames";
    open_and_save(&config, NULL);
    run_fixture_close(&fixture);
    open_and_load(&config, NULL);
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK_EQUAL(stats.env_steps, SAVED_AT);
    close_and_remove();
}

static void path_of(const char *name, char path[FOLDER_ROOM + 32])
{
    snprintf(path, FOLDER_ROOM + 32, "%s/%s", folder, name);
}

static void check_nothing_loaded(void)
{
    gpur_run_stats stats = {.size = sizeof stats};
    gpur_replay_stats replay = {.size = sizeof replay};
    CHECK_OK(gpur_run_get_stats(fixture.run, &stats));
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &replay));
    CHECK(stats.env_steps == 0 && stats.train_steps == 0 && replay.appended == 0);
}

TEST(a_policy_cannot_be_opened_from_the_file_of_a_run_but_from_its_folder)
{
    const run_settings config = run_fixture_config(4, 1, 1);
    gpur_policy *policy = NULL;
    char path[FOLDER_ROOM + 32];
    open_and_save(&config, NULL);
    path_of("run.safetensors", path);
    CHECK_FAILS(gpur_policy_open(fixture.device, path, NULL, &policy), GPUR_FILE_ERROR,
                "run.safetensors is a fast DQN run file, which has no network; it must be a file of a learner");
    path_of("replay.safetensors", path);
    CHECK_FAILS(gpur_policy_open(fixture.device, path, NULL, &policy), GPUR_FILE_ERROR,
                "replay.safetensors is a replay file, which has no network");
    CHECK_OK(gpur_policy_open(fixture.device, folder, NULL, &policy));
    gpur_policy_destroy(policy);
    close_and_remove();
}

/* One file of three is that of the first save, as if the second one had been stopped amid its files. */
TEST(files_of_different_saves_are_refused)
{
    static const char *const names[] = {"run.safetensors", "learner.safetensors", "replay.safetensors"};
    const run_settings config = run_fixture_config(4, 1, 1);
    unsigned char *first[3], *second[3];
    int64_t bytes[2][3];
    char path[FOLDER_ROOM + 32];
    open_and_save(&config, NULL);
    for (int i = 0; i < 3; i++)
        path_of(names[i], path), first[i] = read_file(path, &bytes[0][i]);
    CHECK_OK(gpur_run_advance(fixture.run, 48, 0));
    CHECK_OK(gpur_run_save(fixture.run, folder));
    run_fixture_close(&fixture);
    CHECK_OK(open_run(&config, NULL));
    for (int i = 0; i < 3; i++) {
        path_of(names[i], path), second[i] = read_file(path, &bytes[1][i]);
        CHECK(first[i] != NULL && second[i] != NULL && write_file(path, first[i], bytes[0][i]) == 0);
        CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_FILE_ERROR,
                    i == 0 ? "run.safetensors was saved after 24 train steps" : "was saved after 36 train steps");
        CHECK_MESSAGE("they are of different saves");
        CHECK_MESSAGE(i == 2 ? "the files beside it after 36" : i == 1 ? "the files beside it after 24" : "after 36");
        check_nothing_loaded();
        CHECK(write_file(path, second[i], bytes[1][i]) == 0);
        free(first[i]), free(second[i]);
    }
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 48, 0));
    close_and_remove();
}

static const char *refuse_to_load(void *env, const void *state)
{
    (void)env, (void)state;
    return "the level is gone";
}

/* What is refused before anything is replaced changes nothing; after that the run has ended. */
TEST(a_load_that_fails_changes_nothing_or_ends_the_run)
{
    run_settings config = run_fixture_config(4, 1, 1);
    gpur_env_type type = run_fixture_env;
    char path[FOLDER_ROOM + 32];
    int64_t bytes;
    open_and_save(&config, NULL);
    run_fixture_close(&fixture);
    config.all.env_options = "lives";
    CHECK_OK(open_run(&config, NULL));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT,
                "other options than this run's, \"lives\"");
    check_nothing_loaded();
    CHECK_OK(gpur_run_advance(fixture.run, 48, 0));
    run_fixture_close(&fixture);

    config.all.env_options = NULL, config.all.eval_epsilon = 0.5f;
    CHECK_OK(open_run(&config, NULL));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "eval_epsilon");
    check_nothing_loaded();
    run_fixture_close(&fixture);

    config = run_fixture_config(4, 1, 1), config.run.concurrent = 0;
    for (config.run.burst = 0; config.run.burst <= 1; config.run.burst++) { /* a file of one is not one of the other */
        open_and_save(&config, NULL);
        run_fixture_close(&fixture);
        config.run.burst ^= 1;
        CHECK_OK(open_run(&config, NULL));
        CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "burst");
        check_nothing_loaded();
        close_and_remove();
        config.run.burst ^= 1;
    }
    config = run_fixture_config(4, 1, 1);
    open_and_save(&config, NULL);
    run_fixture_close(&fixture);
    type.load = refuse_to_load;
    CHECK_OK(open_run(&config, NULL));
    gpur_run_destroy(fixture.run);
    CHECK_OK(run_fixture_create(fixture.learner, &type, NULL, &config, &fixture.run));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT,
                "the environment could not be loaded: the level is gone; the run is loaded in part, and has ended");
    CHECK_FAILS(gpur_run_advance(fixture.run, 48, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    gpur_run_destroy(fixture.run);
    CHECK_OK(run_fixture_create(fixture.learner, &run_fixture_env, NULL, &config, &fixture.run));
    check_nothing_loaded(); /* the replay and the learner can be used for another run */
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    run_fixture_close(&fixture);

    path_of("learner.safetensors", path);
    unsigned char *const file = read_file(path, &bytes);
    CHECK(file != NULL);
    file[bytes - 1] ^= 1;
    CHECK(write_file(path, file, bytes) == 0);
    free(file);
    CHECK_OK(open_run(&config, NULL));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_FILE_ERROR, "the run is loaded in part, and has ended");
    CHECK_FAILS(gpur_run_advance(fixture.run, 48, 0), GPUR_INVALID_ARGUMENT, "the run has ended");
    close_and_remove();
}

TEST(a_log_that_no_lane_writes_is_refused)
{
    struct {
        gpur_log_entry entry;
        float frame[2];
    } logged = {.entry = {.action = 3, .terminated = 1}};
    const gpur_obs_shape shape = {
        .frame_bytes = sizeof logged.frame, .element_bytes = 4, .dtype = GPUR_FLOAT32, .stack = 1};
    const gpur_step_log log = {(unsigned char *)&logged, sizeof logged, 1, 1};
    gpur_env_runner player = {.shape = &shape, .check_finite = 1};
    CHECK_OK(gpur_step_log_check(&log, 4, &player));
    CHECK_FAILS(gpur_step_log_check(&log, 3, &player), GPUR_FILE_ERROR, "has action 3, terminated 1");
    logged.entry.action = -2;
    CHECK_FAILS(gpur_step_log_check(&log, 4, &player), GPUR_FILE_ERROR, "has action -2");
    logged.entry.action = -1;
    CHECK_OK(gpur_step_log_check(&log, 4, &player));
    logged.entry.continues = 7;
    CHECK_FAILS(gpur_step_log_check(&log, 4, &player), GPUR_FILE_ERROR,
                "continues 7; they must be -1 to 3, and 0 or 1");
    logged.entry.continues = 0, logged.frame[1] = INFINITY;
    CHECK_FAILS(gpur_step_log_check(&log, 4, &player), GPUR_FILE_ERROR, "\"obs\" is infinite in logged step 0 of 1");
    logged.frame[1] = 0.0f, logged.entry.reward = NAN;
    CHECK_FAILS(gpur_step_log_check(&log, 4, &player), GPUR_FILE_ERROR, "\"reward\" is NaN in logged step 0 of 1");
    player.check_finite = 0;
    CHECK_OK(gpur_step_log_check(&log, 4, &player));
}

TEST(a_logged_vector_that_no_lane_writes_is_refused)
{
    struct {
        gpur_log_entry entry;
        float vector[3], padding, frame[2];
    } logged[2] = {{.vector = {1, -1, 0}}, {.vector = {0, 0, 1.5f}}};
    const gpur_obs_shape shape = {
        .frame_bytes = sizeof logged->frame, .element_bytes = 4, .dtype = GPUR_FLOAT32, .stack = 1};
    const gpur_env_runner player = {.shape = &shape, .check_finite = 1};
    gpur_step_log log = {.entries = (unsigned char *)logged, .count = 1};
    gpur_step_log_set(&log, 3, &shape);
    CHECK_EQUAL(log.entry_bytes, sizeof *logged);
    CHECK_OK(gpur_step_log_check(&log, 1, &player));
    log.count = 2;
    CHECK_FAILS(gpur_step_log_check(&log, 1, &player), GPUR_FILE_ERROR,
                "number 2 of the action of a logged step is 1.5; it must be -1 to 1");
    logged[1].vector[2] = NAN;
    CHECK_FAILS(gpur_step_log_check(&log, 1, &player), GPUR_FILE_ERROR, "number 2 of the action of a logged step is");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_resumed_run_goes_on_with_the_same_bits);
    RUN(environments_that_cannot_be_saved_begin_new_episodes_with_new_seeds);
    RUN(a_resumed_run_with_whole_episodes_has_none_made_of_two);
    RUN(a_run_with_the_most_environments_is_saved_and_loaded);
    RUN(a_policy_cannot_be_opened_from_the_file_of_a_run_but_from_its_folder);
    RUN(files_of_different_saves_are_refused);
    RUN(a_load_that_fails_changes_nothing_or_ends_the_run);
    RUN(a_log_that_no_lane_writes_is_refused);
    RUN(a_logged_vector_that_no_lane_writes_is_refused);
    return test_main_end();
}
