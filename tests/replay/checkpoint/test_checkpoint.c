/* SPDX-License-Identifier: MIT */
/* Saving and loading: a run that goes on from files, in a process of its own, is the run that went on. */
#include "support/file_scene.h"
#include "test.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAVED_AT = 58, END = 131 };

extern char **environ;
static char *program;

#ifdef GPUR_HAS_FILES

/* In another process: as `arguments` say, the scene from files to a file with its trace. */
static int resume(char **arguments)
{
    const int variant = atoi(arguments[0]), early = variant % 2;
    const char *const replay = arguments[1], *const learner = arguments[2], *const trace = arguments[3];
    gpur_device *const device = test_device();
    file_scene s;
    gpur_status status = scene_open(&s, device, variant);
    if (status == GPUR_OK && early)
        status = scene_begin(&s, 1);
    if (status == GPUR_OK)
        status = gpur_replay_load(s.replay, replay, NULL);
    if (status == GPUR_OK)
        status = gpur_learner_load(s.learner, learner, NULL);
    if (status == GPUR_OK && !early)
        status = scene_begin(&s, 1);
    if (status == GPUR_OK)
        status = scene_run(&s, SAVED_AT, END);
    if (status == GPUR_OK)
        status = scene_finish(&s);
    if (status != GPUR_OK)
        fprintf(stderr, "resume: %s: %s\n", gpur_status_name(status), gpur_last_error());
    else if (write_file(trace, s.trace, s.traced * (int64_t)sizeof *s.trace) != 0)
        status = GPUR_FILE_ERROR;
    scene_close(&s);
    gpur_device_close(device);
    return status != GPUR_OK;
}

static int spawn_resume(int variant, const char *replay, const char *learner, const char *trace)
{
    char number[8], device[32], executor[32];
    int status = -1;
    pid_t child;
    snprintf(number, sizeof number, "%d", variant);
    snprintf(device, sizeof device, "%s", test_device_name());
    snprintf(executor, sizeof executor, "%s", test_state.executor);
    char *const arguments[] = {program, device, executor, "resume", number, (char *)replay, (char *)learner,
                               (char *)trace, NULL};
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
        return -1;
    waitpid(child, &status, 0);
    return status;
}

static void check_resumption(int variant)
{
    gpur_device *const device = test_device();
    const char *const replay = scene_path("replay"), *const learner = scene_path("learner");
    const char *const trace = scene_path("trace");
    file_scene s;
    CHECK_OK(scene_open(&s, device, variant));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    s.traced = 0;
    CHECK_OK(scene_run(&s, SAVED_AT, END));
    CHECK_OK(scene_finish(&s));
    CHECK(s.traced > 1000 && s.traced < SCENE_TRACE - 200);
    CHECK_EQUAL(spawn_resume(variant, replay, learner, trace), 0);
    int64_t bytes = 0;
    unsigned char *const theirs = read_file(trace, &bytes);
    CHECK_EQUAL(bytes, s.traced * (int64_t)sizeof *s.trace);
    for (int i = 0; i < s.traced; i++)
        TEST_REQUIRE(memcmp(theirs + 4 * i, &s.trace[i], 4) == 0, "variant %d: number %d of %d differs", variant, i,
                     s.traced);
    free(theirs);
    scene_close(&s);
    gpur_device_close(device);
}

TEST(a_run_goes_on_from_files_bit_for_bit)
{
    for (int variant = 0; variant < SCENE_VARIANTS; variant++)
        check_resumption(variant);
}

/* Into objects that have gone on meanwhile. */
TEST(a_run_goes_back_to_files)
{
    gpur_device *const device = test_device();
    const char *const replay = scene_path("replay"), *const learner = scene_path("learner");
    static file_scene s, first;
    CHECK_OK(scene_open(&s, device, 1));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, SAVED_AT));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    for (int time = 0; time < 2; time++) {
        gpur_learner_stats stats = {.size = sizeof stats};
        CHECK_OK(gpur_learner_load(s.learner, learner, NULL));
        CHECK_OK(gpur_replay_load(s.replay, replay, NULL));
        CHECK_OK(gpur_learner_get_stats(s.learner, &stats));
        CHECK_EQUAL(stats.steps, 32);
        CHECK_EQUAL(stats.steps_enqueued, 32);
        s.traced = 0;
        CHECK_OK(scene_run(&s, SAVED_AT, END));
        CHECK_OK(scene_finish(&s));
        if (time == 0)
            first = s;
    }
    CHECK_EQUAL(s.traced, first.traced);
    CHECK(memcmp(s.trace, first.trace, (size_t)s.traced * sizeof *s.trace) == 0);
    scene_close(&s);
    gpur_device_close(device);
}

#else

TEST(a_build_without_them_names_the_packages)
{
    gpur_device *const device = test_device();
    gpur_checkpoint_info info = {.size = sizeof info};
    file_scene s;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_STATUS(gpur_replay_save(s.replay, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("libcjson-dev libxxhash-dev");
    CHECK_STATUS(gpur_replay_load(s.replay, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_save_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_learner_load_weights(s.learner, "file", NULL), GPUR_UNAVAILABLE);
    CHECK_STATUS(gpur_checkpoint_get_info("file", &info), GPUR_UNAVAILABLE);
    scene_close(&s);
    gpur_device_close(device);
}

#endif

int main(int argc, char **argv)
{
    program = argv[0];
    test_main_begin(argc, argv);
#ifdef GPUR_HAS_FILES
    if (argc == 8 && strcmp(argv[3], "resume") == 0)
        return resume(argv + 4);
    RUN(a_run_goes_on_from_files_bit_for_bit);
    RUN(a_run_goes_back_to_files);
#else
    RUN(a_build_without_them_names_the_packages);
#endif
    scene_remove_folder();
    return test_main_end();
}
