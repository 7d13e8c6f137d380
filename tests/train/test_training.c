/* SPDX-License-Identifier: MIT */
/* Trainings: stopped before they begin, with a row that cannot be written, and without memory. What they train, and
 * what they print and write, is tested through the program (tests/examples/test_train*.py). */
#include "gpureplay/training.h"

#include "support/faults.h"
#include "support/file_utils.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { MAX_OPTIONS = 16, MOST_LOOKS = 3000 };

static const char *const systems[] = {"fast-dqn-small", "dqn-lambda-2019-small", "apex-dqn-small", "apex-dpg-small",
                                      "ga3c-small"};

/* A short training of a preset, whose options the caller may add to. */
typedef struct short_options {
    char preset[64], device[64];
    const char *list[MAX_OPTIONS];
} short_options;

static gpur_training_config short_training(const char *preset, const char *folder, short_options *o)
{
    const int has_actors = strncmp(preset, "apex", 4) == 0, is_ga3c = strncmp(preset, "ga3c", 4) == 0;
    const char *const all[] = {
        o->preset,        o->device,   strstr(preset, "dpg") ? "env=Pendulum" : "env=CartPole-v1",
        "steps=1500",     "threads=1", "checkpoint=400",
        "eval_episodes=1"};
    gpur_training_config config;
    int count = 0;
    snprintf(o->preset, sizeof o->preset, "preset=%s", preset);
    snprintf(o->device, sizeof o->device, "device=%s", test_device_name());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        o->list[count++] = all[i];
    o->list[count++] = is_ga3c ? "agents=2" : "prepopulation=500";
    if (has_actors)
        o->list[count++] = "actors=1";
    else if (!is_ga3c)
        o->list[count++] = "target_period=400";
    if (strstr(preset, "lambda"))
        o->list[count++] = "lambda=0.5";
    o->list[count] = NULL;
    (void)gpur_training_config_init(&config, sizeof config);
    config.options = o->list;
    config.out = folder;
    return config;
}

static gpur_status open_training(const gpur_training_config *config, gpur_training **t)
{
    gpur_status status = gpur_training_create(config, t);
    if (status == GPUR_OK)
        status = gpur_training_open(*t);
    return status == GPUR_OK ? gpur_training_begin(*t) : status;
}

/* The folder is resumed to its end. */
static void check_resumed(const char *folder)
{
    gpur_training_config config;
    gpur_training *t = NULL;
    CHECK_OK(gpur_training_config_init(&config, sizeof config));
    config.resume = folder;
    CHECK_OK(open_training(&config, &t));
    CHECK_OK(gpur_training_advance(t));
    CHECK(gpur_training_step(t) >= 1500);
    CHECK_OK(gpur_training_finish(t));
    gpur_training_destroy(t);
}

/* As Ctrl-C does while the replay takes its memory. */
TEST(a_training_stopped_before_its_first_step_is_resumed)
{
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        short_options options;
        const char *const folder = test_file_path("run");
        const gpur_training_config config = short_training(systems[i], folder, &options);
        gpur_training *t = NULL;
        CHECK_OK(open_training(&config, &t));
        gpur_training_stop(t, 0);
        CHECK_FAILS(gpur_training_advance(t), GPUR_INTERRUPTED, "after 0 steps");
        CHECK_EQUAL(gpur_training_saved_step(t), 0);
        CHECK_OK(gpur_training_finish(t));
        gpur_training_destroy(t);
        check_resumed(folder);
        test_remove_folder();
    }
}

/* Which may be minutes away, where checkpoints are far between. */
TEST(the_line_of_progress_says_where_a_training_stops)
{
    short_options options;
    const gpur_training_config config = short_training("ga3c-small", test_file_path("stops"), &options);
    gpur_training *t = NULL;
    char line[256];
    CHECK_OK(open_training(&config, &t));
    CHECK_OK(gpur_training_look(t, line, sizeof line));
    CHECK(strstr(line, "0 of 1500 steps") && !strstr(line, "stops"));
    gpur_training_stop(t, 0);
    CHECK_OK(gpur_training_look(t, line, sizeof line));
    CHECK(strstr(line, "0 of 1500 steps, 0.0%, stops at 0"));
    gpur_training_destroy(t);
    test_remove_folder();
}

/* The number of this process's open file of this name; -1: there is none. */
static int find_file(const char *name)
{
    DIR *const files = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; files && (entry = readdir(files));) {
        char target[4096];
        const ssize_t length = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        const char *const base = strrchr(target, '/');
        if (base && strcmp(base + 1, name) == 0)
            found = atoi(entry->d_name);
    }
    if (files)
        closedir(files);
    return found;
}

static void *look_until_it_fails(void *training)
{
    gpur_status status = GPUR_OK;
    for (int i = 0; i < MOST_LOOKS && status == GPUR_OK; i++) {
        usleep(10000);
        status = gpur_training_look(training, NULL, 0);
    }
    return (void *)(intptr_t)status;
}

/* By the thread that looks; the training is told by the thread that advances. */
TEST(a_row_that_cannot_be_written_ends_the_training_with_its_reason)
{
    short_options options;
    gpur_training_config config = short_training("fast-dqn-small", test_file_path("rows"), &options);
    gpur_training *t = NULL;
    pthread_t thread;
    void *looked;
    options.list[3] = "steps=1000000000";
    options.list[5] = "checkpoint=0";
    CHECK_OK(open_training(&config, &t));
    const int file = find_file("rates.csv"), kept = dup(file), closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && kept >= 0 && closed >= 0 && dup2(closed, file) == file);
    CHECK(pthread_create(&thread, NULL, look_until_it_fails, t) == 0);
    CHECK_FAILS(gpur_training_advance(t), GPUR_FILE_ERROR, "rates.csv");
    pthread_join(thread, &looked);
    CHECK_EQUAL((intptr_t)looked, GPUR_FILE_ERROR);
    CHECK(dup2(kept, file) == file);
    close(kept);
    close(closed);
    gpur_training_destroy(t);
    test_remove_folder();
}

static void check_command(gpur_training *t, const char *const *begin)
{
    static const char *const passed[] = {"env=CartPole-v1", "env_options=", "preset=apex-dqn-small",
                                         "batch=", "capacity="};
    gpur_training_settings settings = {.size = sizeof settings};
    CHECK_OK(gpur_training_get_settings(t, &settings));
    const char *const *const words = settings.apex->command;
    for (int i = 0; i < 7; i++) {
        const char *const want = i < 2 ? begin[i] : passed[i - 2];
        TEST_REQUIRE(words[i] && strncmp(words[i], want, strlen(want)) == 0, "word %d is %s; wanted %s", i, words[i],
                     want);
    }
    CHECK(!words[7]);
}

/* Each refusal of memory in turn, also of what starts the actors. */
TEST(a_training_without_memory_is_refused)
{
    static const char *const command[] = {"/bin/true", "actor", NULL};
    const int64_t live = faults_live();
    int64_t nth = 0, calls = 0;
    while (calls >= nth) {
        short_options options;
        gpur_training_config config = short_training("apex-dqn-small", NULL, &options);
        gpur_training *t = NULL;
        config.command = command;
        options.list[3] = "processes=1";
        faults_begin(FAULT_MEMORY | FAULT_LOCK, ++nth, FAULT_ONCE);
        const gpur_status status = gpur_training_create(&config, &t);
        calls = faults_end();
        TEST_REQUIRE(status == GPUR_OK || strstr(gpur_last_error(), "no memory"),
                     "%s number %lld failed, and status is %s: %s", faults_name(), (long long)nth,
                     gpur_status_name(status), gpur_last_error());
        CHECK((t != NULL) == (status == GPUR_OK));
        if (t)
            check_command(t, command);
        gpur_training_destroy(t);
        CHECK_EQUAL(faults_live() - live, 0);
    }
    CHECK(nth > 20);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    faults_watch_json();
    RUN(a_training_stopped_before_its_first_step_is_resumed);
    RUN(the_line_of_progress_says_where_a_training_stops);
    RUN(a_row_that_cannot_be_written_ends_the_training_with_its_reason);
    RUN(a_training_without_memory_is_refused);
    test_remove_folder();
    return test_main_end();
}
