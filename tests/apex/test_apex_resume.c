/* SPDX-License-Identifier: MIT */
/* Saved runs of Ape-X: resumed with their replay, and by filling it again; and folders that are refused. */
#include "support/apex_fixture.h"
#include "support/file_utils.h"
#include "test.h"

#include <math.h>
#include <sys/stat.h>

static apex_fixture fixture;
static apex_settings settings;
static char folder[4096];

static gpur_status open_run(void)
{
    const gpur_device_config device = test_device_config();
    return apex_fixture_open(&fixture, test_device_name(), &device, &settings);
}

static gpur_run_stats saved;
static unsigned char weights[1 << 20], loaded_weights[1 << 20]; /* online */

static void read_weights(unsigned char *to)
{
    const int64_t bytes = fixture.apex->shared.weights_bytes;
    CHECK(bytes > 0 && bytes <= (int64_t)sizeof weights);
    CHECK_OK(gpur_policy_pull(fixture.apex->policies.acting, fixture.learner, GPUR_WEIGHTS_ONLINE));
    CHECK_OK(gpur_policy_get_weights(fixture.apex->policies.acting, to, bytes));
}

/* A run of 700 steps and more, saved, and gone on with. */
static void open_and_save(void)
{
    snprintf(folder, sizeof folder, "%s", test_file_path("apex.safetensors"));
    *strrchr(folder, '/') = 0;
    (void)test_file_path("learner.safetensors");
    (void)test_file_path("replay.safetensors");
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.apex.samples_per_insert = 8.0;
    CHECK_OK(open_run());
    CHECK_OK(apex_fixture_await_actors(&fixture, 3)); /* on a busy machine two may be far ahead of the third */
    CHECK_OK(gpur_run_advance(fixture.run, 700, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 15));
    CHECK_OK(gpur_run_save(fixture.run, folder));
    saved = apex_fixture_stats(&fixture);
    read_weights(weights);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 5));
    read_weights(loaded_weights);
    CHECK(memcmp(weights, loaded_weights, (size_t)fixture.apex->shared.weights_bytes) != 0);
    apex_fixture_close(&fixture);
}

/* The weights are those that were saved, and so is the learner's whole state, as far as its file has it. */
static void check_learner(void)
{
    read_weights(loaded_weights);
    CHECK(memcmp(weights, loaded_weights, (size_t)fixture.apex->shared.weights_bytes) == 0);
    CHECK_OK(gpur_learner_save(fixture.learner, test_file_path("again.safetensors"), NULL));
    CHECK(files_are_same(test_file_path("again.safetensors"), test_file_path("learner.safetensors")));
}

static void check_loaded(const gpur_run_stats *loaded)
{
    CHECK_EQUAL(loaded->env_steps, saved.env_steps);
    CHECK_EQUAL(loaded->train_steps, saved.train_steps);
    CHECK_EQUAL(loaded->apex.rows, saved.apex.rows);
    CHECK_EQUAL(loaded->episodes, saved.episodes);
    CHECK(loaded->apex.pulled >= 3 && loaded->apex.pulled <= saved.apex.pulled); /* actors may have taken more since */
    CHECK_EQUAL(loaded->apex.broadcasts, saved.apex.broadcasts);
    CHECK(loaded->recent_return == saved.recent_return || (isnan(loaded->recent_return) && isnan(saved.recent_return)));
    CHECK_EQUAL(loaded->apex.actors, 0);
}

TEST(a_run_is_resumed_with_its_replay)
{
    gpur_learner_stats learner = {.size = sizeof learner};
    open_and_save();
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK(replay_is_as(fixture.replay, test_file_path("replay.safetensors")));
    apex_fixture_close(&fixture);
    settings.apex.actors = 5; /* whose file would have more writers */
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    const gpur_run_stats loaded = apex_fixture_stats(&fixture);
    check_loaded(&loaded);
    CHECK_EQUAL(gpur_replay_size(fixture.replay), saved.apex.rows < 4000 ? saved.apex.rows : 4000);
    check_learner();
    CHECK_EQUAL(fixture.apex->tables[GPUR_SLOT_OWN].slots[2]->incarnation, 1);
    CHECK_EQUAL(fixture.apex->tables[GPUR_SLOT_OWN].slots[3]->incarnation, 0);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 5));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    CHECK_OK(gpur_learner_get_stats(fixture.learner, &learner));
    const gpur_run_stats later = apex_fixture_stats(&fixture);
    CHECK(later.env_steps >= saved.env_steps + 300 && later.train_steps == learner.steps);
    CHECK(later.apex.weights_age >= 0.0 && later.apex.weights_age <= (double)(later.train_steps - saved.train_steps));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "load before the first");
    apex_fixture_close(&fixture);
    test_remove_folder();
}

/* Training goes on when the replay has its min_size again. */
TEST(a_run_is_resumed_by_filling_its_replay_again)
{
    open_and_save();
    CHECK_EQUAL(remove(test_file_path("replay.safetensors")), 0);
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_FILE_ERROR, "replay.safetensors");
    CHECK_OK(gpur_run_load(fixture.run, folder, 1));
    const gpur_run_stats loaded = apex_fixture_stats(&fixture);
    check_loaded(&loaded);
    CHECK_EQUAL(gpur_replay_size(fixture.replay), 0);
    check_learner();
    CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
    CHECK(gpur_replay_size(fixture.replay) >= 200);
    CHECK_EQUAL(apex_fixture_stats(&fixture).train_steps, saved.train_steps + 1);
    apex_fixture_close(&fixture);
    test_remove_folder();
}

/* The period is counted from the last one that was due, also if that was before the save. */
TEST(an_evaluation_is_not_played_again_after_a_load)
{
    snprintf(folder, sizeof folder, "%s", test_file_path("run.safetensors"));
    *strrchr(folder, '/') = 0;
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.run.eval_period = 1000, settings.run.eval_episodes = 1;
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_advance(fixture.run, 1010, 0));
    CHECK_EQUAL(apex_fixture_stats(&fixture).evaluations, 1);
    CHECK_OK(gpur_run_save(fixture.run, folder));
    apex_fixture_close(&fixture);
    CHECK_OK(open_run());
    CHECK_OK(gpur_run_load(fixture.run, folder, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 10, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.env_steps < 2000 && stats.evaluations == 1);
    CHECK_OK(gpur_run_advance(fixture.run, 2000 - stats.env_steps, 0));
    CHECK_EQUAL(apex_fixture_stats(&fixture).evaluations, 2);
    apex_fixture_close(&fixture);
    test_remove_folder();
}

TEST(folders_of_other_runs_are_refused)
{
    open_and_save();
    settings.run.seed = 9;
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "seed");
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 2), GPUR_INVALID_ARGUMENT, "refill is 2; it must be 0 or 1");
    CHECK_FAILS(gpur_run_load(fixture.run, NULL, 0), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gpur_run_load(fixture.run, "/nowhere", 0), GPUR_FILE_ERROR, "/nowhere/run.safetensors");
    CHECK_EQUAL(mkdir(test_file_path("old"), 0700), 0);
    FILE *const old = fopen(test_file_path("old/apex.safetensors"), "w");
    if (old)
        fclose(old);
    CHECK_FAILS(gpur_run_load(fixture.run, test_file_path("old"), 0), GPUR_FILE_ERROR,
                "apex.safetensors: it is of a run of an earlier version of this library");
    CHECK_FAILS(gpur_run_save(NULL, folder), GPUR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gpur_run_save(fixture.run, "/nowhere/at/all"), GPUR_FILE_ERROR, "cannot make the folder");
    apex_fixture_close(&fixture);
    settings.run.seed = 3;
    settings.run.env_options = "lives";
    CHECK_OK(open_run());
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_INVALID_ARGUMENT, "environments with other options");
    apex_fixture_close(&fixture);
    test_remove_folder();
}

/* A learner's file of another save. */
TEST(a_folder_of_two_saves_is_refused)
{
    open_and_save();
    settings.run.env_options = "";
    CHECK_OK(open_run());
    CHECK_OK(gpur_learner_save(fixture.learner, test_file_path("learner.safetensors"), NULL));
    CHECK_FAILS(gpur_run_load(fixture.run, folder, 0), GPUR_FILE_ERROR, "they are of different saves");
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    apex_fixture_close(&fixture);
    test_remove_folder();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_run_is_resumed_with_its_replay);
    RUN(a_run_is_resumed_by_filling_its_replay_again);
    RUN(an_evaluation_is_not_played_again_after_a_load);
    RUN(folders_of_other_runs_are_refused);
    RUN(a_folder_of_two_saves_is_refused);
    return test_main_end();
}
