/* SPDX-License-Identifier: MIT */
/*
 * A program that is killed while it saves leaves the file of its last save, or of the one it was at, whole: bit for bit
 * what a run saves at that step that nobody killed. Runs of every kind of replay, and of a learner.
 */
#include "base/status.h"
#include "support/checkpoint_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRITING = -1, LEARNER_STEPS = 60 };

extern char **environ;

/* What is saved: a variant of checkpoint_fixture.h of this capacity, whose ring has gone round; and a learner, whose
 * replay stays as it is, since what it learns from is in no file. Any process that goes on from a run's file comes to
 * the same states, bit for bit. */
static const struct {
    const char *name;
    int variant;
    int64_t capacity;
} kinds[] = {{"rows", 0, 20000}, /* more than a MiB: its file has several chunks */
             {"prioritized", 4, 1500},  {"n-step", 6, 1500}, {"frames", 7, 1500},
             {"all together", 9, 1500}, {"learner", 0, 100}};
enum { KINDS = sizeof kinds / sizeof *kinds, LEARNER = KINDS - 1 };

typedef struct kill_run {
    checkpoint_fixture fixture;
    int kind;
    int64_t steps; /* since it began */
} kill_run;

/* Steps of the fixture before the run begins. */
static int filled(int kind)
{
    return kind == LEARNER ? LEARNER_STEPS : (int)(kinds[kind].capacity * 5 / 4 / CHECKPOINT_ENVS);
}

/* A run from its beginning, or that goes on from a file. */
static gpur_status run_open(kill_run *run, gpur_device *device, int kind, const char *path, int64_t steps)
{
    checkpoint_fixture *const s = &run->fixture;
    const int goes_on = path && kind != LEARNER;
    run->kind = kind;
    run->steps = steps;
    GPUR_TRY(checkpoint_fixture_open_with(s, device, kinds[kind].variant, kinds[kind].capacity, kind == LEARNER));
    GPUR_TRY(checkpoint_fixture_begin(s, goes_on));
    if (goes_on)
        return gpur_replay_load(s->replay, path, NULL);
    GPUR_TRY(checkpoint_fixture_run(s, 0, filled(kind)));
    return path ? gpur_learner_load(s->learner, path, NULL) : GPUR_OK;
}

static gpur_status run_save(const kill_run *run, const char *path, const gpur_checkpoint_options *options)
{
    return run->kind == LEARNER ? gpur_learner_save(run->fixture.learner, path, options)
                                : gpur_replay_save(run->fixture.replay, path, options);
}

/* Takes a step and saves. */
static gpur_status run_step(kill_run *run, const char *path, const gpur_checkpoint_options *options)
{
    const float obs[CHECKPOINT_FEATURES] = {(float)run->steps};
    const int next = filled(run->kind) + (int)run->steps++;
    int32_t action;
    if (run->kind == LEARNER) {
        GPUR_TRY(gpur_learner_train(run->fixture.learner, 1));
        GPUR_TRY(gpur_learner_act(run->fixture.learner, 1, obs, 0.5f, &action, NULL));
    } else {
        GPUR_TRY(checkpoint_fixture_run(&run->fixture, next, next + 1));
    }
    return run_save(run, path, options);
}

/* Reports to the pipe that a file is being written, and gives the parent time to read that. */
static int32_t dawdle(void *user, int64_t done, int64_t all)
{
    const struct timespec wait = {0, 100000000};
    const int64_t word = WRITING;
    (void)user;
    if (done > all / 4 && write(STDOUT_FILENO, &word, sizeof word) == sizeof word)
        nanosleep(&wait, NULL);
    return 0;
}

/* Takes a step, saves, takes a step ... until it is killed. After each save it reports to the pipe how many steps there
 * were. */
static int save_for_ever(const char *path, int kind, int64_t steps, int slowly)
{
    gpur_checkpoint_options options = {.size = sizeof options};
    static kill_run run;
    gpur_status status = run_open(&run, test_device(), kind, path, steps);
    while (status == GPUR_OK) {
        status = run_step(&run, path, &options);
        if (status == GPUR_OK && write(STDOUT_FILENO, &run.steps, sizeof run.steps) != sizeof run.steps)
            return 1;
        if (slowly)
            options.progress = dawdle;
    }
    fprintf(stderr, "%s\n", gpur_last_error());
    return 1;
}

typedef struct child {
    pid_t id;
    int pipe;
} child;

static int start(child *c, const char *path, const kill_run *from, int slowly)
{
    char numbers[3][24];
    const char *const arguments[] = {"all_tests",
                                     "test_checkpoint_kill",
                                     test_device_name(),
                                     test_state.executor,
                                     "save",
                                     path,
                                     numbers[0],
                                     numbers[1],
                                     numbers[2],
                                     NULL};
    int ends[2];
    posix_spawn_file_actions_t actions;
    snprintf(numbers[0], sizeof numbers[0], "%d", from->kind);
    snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)from->steps);
    snprintf(numbers[2], sizeof numbers[2], "%d", slowly);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int failed = posix_spawn(&c->id, "/proc/self/exe", &actions, NULL, (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    c->pipe = ends[0];
    return failed;
}

/* 1: a report was read. */
static int read_report(const child *c, int64_t *report, int64_t *steps)
{
    const int is_there = read(c->pipe, report, sizeof *report) == sizeof *report;
    if (is_there && *report != WRITING)
        *steps = *report;
    return is_there;
}

/* Kills it some time after its first save, or during a later one; `steps` is what its last finished save had. */
static int kill_later(child *c, int64_t microseconds, int slowly, int64_t *steps)
{
    const struct timespec wait = {0, (slowly ? microseconds / 8 : microseconds) * 1000};
    int64_t report = 0;
    int status = 0;
    *steps = 0;
    while (read_report(c, &report, steps) && slowly && report != WRITING)
        ;
    nanosleep(&wait, NULL);
    kill(c->id, SIGKILL);
    waitpid(c->id, &status, 0);
    while (read_report(c, &report, steps))
        ;
    close(c->pipe);
    return *steps > 0 && WIFSIGNALED(status) ? 0 : -1;
}

/* The run that nobody kills, which saves after each of its steps, too. */
static gpur_status go_on(kill_run *run, int64_t steps, const char *path)
{
    while (run->steps < steps)
        GPUR_TRY(run_step(run, path, NULL));
    return GPUR_OK;
}

/* The file is that of so many steps, or of one more; and all of it is loaded: saved again it is the same. */
static void check_file(kill_run *run, const char *path, int64_t steps)
{
    static kill_run other;
    const char *const mine = test_file_path("mine"), *const again = test_file_path("again");
    CHECK_OK(go_on(run, steps, mine));
    if (!files_are_same(path, mine))
        CHECK_OK(go_on(run, steps + 1, mine));
    TEST_REQUIRE(files_are_same(path, mine), "%s: the file is that of neither %lld nor %lld steps",
                 kinds[run->kind].name, (long long)steps, (long long)steps + 1);
    CHECK_OK(run_open(&other, run->fixture.device, run->kind, path, run->steps));
    CHECK_OK(run_save(&other, again, NULL));
    checkpoint_fixture_close(&other.fixture);
    TEST_REQUIRE(files_are_same(path, again), "%s: the file of %lld steps is another when loaded and saved again",
                 kinds[run->kind].name, (long long)run->steps);
}

static void check_kind(int kind, int64_t kills)
{
    gpur_device *const device = test_device();
    const char *const path = test_file_path("saved"), *const part = test_file_path("saved.part");
    const int before = atomic_load(&test_state.failures);
    uint64_t random = 5 + (uint64_t)kind;
    int64_t midway = 0;
    static kill_run run;
    CHECK_OK(run_open(&run, device, kind, NULL, 0));
    CHECK_OK(run_save(&run, path, NULL));
    CHECK_OK(run_save(&run, test_file_path("mine"), NULL));
    for (int64_t i = 0; i < kills && atomic_load(&test_state.failures) == before; i++) {
        child c;
        int64_t steps = 0;
        const int slowly = (int)(i % 2);
        CHECK(start(&c, path, &run, slowly) == 0);
        CHECK(kill_later(&c, xorshift_below(&random, 8000), slowly, &steps) == 0);
        midway += access(part, F_OK) == 0;
        check_file(&run, path, steps);
    }
    printf("  %s: %lld of %lld kills came while a file was written, %lld steps\n", kinds[kind].name, (long long)midway,
           (long long)kills, (long long)run.steps);
    CHECK(midway >= kills * 2 / 5);
    CHECK_OK(run_save(&run, path, NULL)); /* over the temporary file of a killed save */
    CHECK(access(part, F_OK) != 0);
    checkpoint_fixture_close(&run.fixture);
    gpur_device_close(device);
}

TEST(a_killed_save_leaves_the_old_file_or_the_new_one)
{
    const int64_t kills = test_is_long() ? 1000 : 100;
    for (int kind = 0; kind < KINDS; kind++)
        check_kind(kind, (kills + kind) / KINDS);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (argc == 8 && strcmp(argv[3], "save") == 0)
        return save_for_ever(argv[4], atoi(argv[5]), atoll(argv[6]), atoi(argv[7]));
    RUN(a_killed_save_leaves_the_old_file_or_the_new_one);
    test_remove_folder();
    return test_main_end();
}
