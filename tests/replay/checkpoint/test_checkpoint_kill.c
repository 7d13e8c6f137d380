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

/* What is saved: a variant of checkpoint_fixture.h of this capacity, whose ring has come round; and a learner, whose
 * replay stays as it is, since what it learns from is in no file. Any process that goes on from a run's file comes to
 * the same states, bit for bit. */
static const struct {
    const char *name;
    int variant;
    int64_t capacity;
} kinds[] = {{"packed", 0, 20000}, /* more than a MiB: its file has several chunks */
             {"prioritized", 4, 1500},  {"n-step", 6, 1500}, {"linked", 7, 1500},
             {"all together", 9, 1500}, {"learner", 0, 100}};
enum { KINDS = sizeof kinds / sizeof *kinds, LEARNER = KINDS - 1 };

typedef struct kill_run {
    checkpoint_fixture scene;
    int kind;
    int64_t steps; /* since it began */
} kill_run;

/* Steps of the scene before the run begins. */
static int filled(int kind)
{
    return kind == LEARNER ? LEARNER_STEPS : (int)(kinds[kind].capacity * 5 / 4 / CHECKPOINT_ENVS);
}

/* A run from its begin, or that goes on from a file. */
static gpur_status run_open(kill_run *run, gpur_device *device, int kind, const char *path, int64_t steps)
{
    memset(run, 0, sizeof *run);
    run->kind = kind;
    run->steps = steps;
    GPUR_TRY(scene_open_with(&run->scene, device, kinds[kind].variant, kinds[kind].capacity, kind == LEARNER));
    GPUR_TRY(checkpoint_fixture_begin(&run->scene, path && kind != LEARNER));
    if (!path || kind == LEARNER)
        GPUR_TRY(checkpoint_fixture_run(&run->scene, 0, filled(kind)));
    return !path             ? GPUR_OK
           : kind == LEARNER ? gpur_learner_load(run->scene.learner, path, NULL)
                             : gpur_replay_load(run->scene.replay, path, NULL);
}

static gpur_status run_step(kill_run *run)
{
    const float obs[CHECKPOINT_FEATURES] = {(float)run->steps};
    const int next = filled(run->kind) + (int)run->steps++;
    int32_t action;
    if (run->kind != LEARNER)
        return checkpoint_fixture_run(&run->scene, next, next + 1);
    GPUR_TRY(gpur_learner_train(run->scene.learner, 1));
    return gpur_learner_act(run->scene.learner, 1, obs, 0.5f, &action, NULL);
}

static gpur_status run_save(const kill_run *run, const char *path, const gpur_checkpoint_options *options)
{
    return run->kind == LEARNER ? gpur_learner_save(run->scene.learner, path, options)
                                : gpur_replay_save(run->scene.replay, path, options);
}

/* Says to the pipe that a file is being written, and gives the parent time to hear it. */
static int32_t dawdle(void *user, int64_t done, int64_t all)
{
    const struct timespec wait = {0, 100000000};
    const int64_t word = WRITING;
    (void)user;
    if (done > all / 4 && write(STDOUT_FILENO, &word, sizeof word) == sizeof word)
        nanosleep(&wait, NULL);
    return 0;
}

/* Takes a step, saves, takes a step ... until it is killed. After each save it says to the pipe how many steps there
 * were. */
static int save_for_ever(const char *path, int kind, int64_t steps, int slowly)
{
    gpur_checkpoint_options options = {.size = sizeof options};
    static kill_run run;
    gpur_status status = run_open(&run, test_device(), kind, path, steps);
    while (status == GPUR_OK) {
        status = run_step(&run);
        if (status == GPUR_OK)
            status = run_save(&run, path, &options);
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
    char program[] = "test_checkpoint_kill", device[32], executor[32], mode[] = "save", name[128], kind[8], steps[24];
    char pace[8];
    int ends[2];
    posix_spawn_file_actions_t actions;
    snprintf(device, sizeof device, "%s", test_device_name());
    snprintf(executor, sizeof executor, "%s", test_state.executor);
    snprintf(name, sizeof name, "%s", path);
    snprintf(kind, sizeof kind, "%d", from->kind);
    snprintf(steps, sizeof steps, "%lld", (long long)from->steps);
    snprintf(pace, sizeof pace, "%d", slowly);
    char *const arguments[] = {program, device, executor, mode, name, kind, steps, pace, NULL};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int failed = posix_spawn(&c->id, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    c->pipe = ends[0];
    return failed;
}

/* Kills it some time after its first save, or in the midst of a later one; `steps` is what its last finished save
 * had. */
static int kill_later(child *c, int64_t microseconds, int slowly, int64_t *steps)
{
    const struct timespec wait = {0, (slowly ? microseconds / 8 : microseconds) * 1000};
    int64_t heard = 0;
    int status = 0;
    *steps = 0;
    if (read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *steps = heard;
    while (slowly && heard != WRITING && read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *steps = heard == WRITING ? *steps : heard;
    nanosleep(&wait, NULL);
    kill(c->id, SIGKILL);
    waitpid(c->id, &status, 0);
    while (read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *steps = heard == WRITING ? *steps : heard;
    close(c->pipe);
    return *steps > 0 && WIFSIGNALED(status) ? 0 : -1;
}

/* The run that nobody kills, which saves after each of its steps, too. */
static gpur_status go_on(kill_run *run, int64_t steps, const char *path)
{
    gpur_status status = GPUR_OK;
    while (status == GPUR_OK && run->steps < steps) {
        status = run_step(run);
        if (status == GPUR_OK)
            status = run_save(run, path, NULL);
    }
    return status;
}

/* What is there is the file of so many steps, or of one more; and all of it is loaded: saved again it is the same. */
static void check_file(kill_run *run, const char *path, int64_t steps)
{
    static kill_run other;
    const char *const mine = test_file_path("mine"), *const again = test_file_path("again");
    CHECK_OK(go_on(run, steps, mine));
    if (!files_are_same(path, mine))
        CHECK_OK(go_on(run, steps + 1, mine));
    TEST_REQUIRE(files_are_same(path, mine), "%s: the file is that of neither %lld nor %lld steps",
                 kinds[run->kind].name, (long long)steps, (long long)steps + 1);
    CHECK_OK(run_open(&other, run->scene.device, run->kind, path, run->steps));
    CHECK_OK(run_save(&other, again, NULL));
    checkpoint_fixture_close(&other.scene);
    TEST_REQUIRE(files_are_same(path, again),
                 "%s: the file of %lld steps is another when it was loaded and saved again", kinds[run->kind].name,
                 (long long)run->steps);
}

/* How many of the kills came while a file was written; -1: a check has failed. */
static int64_t kill_often(kill_run *run, const char *path, int64_t kills)
{
    const int before = atomic_load(&test_state.failures);
    uint64_t random = 5 + (uint64_t)run->kind;
    int64_t in_the_midst = 0;
    char part[160];
    snprintf(part, sizeof part, "%s.part", path);
    for (int64_t i = 0; i < kills; i++) {
        child c;
        int64_t steps = 0;
        if (start(&c, path, run, (int)(i % 2)) != 0 ||
            kill_later(&c, xorshift_below(&random, 8000), (int)(i % 2), &steps))
            return -1;
        in_the_midst += access(part, F_OK) == 0;
        check_file(run, path, steps);
        if (atomic_load(&test_state.failures) != before)
            return -1;
    }
    return run_save(run, path, NULL) == GPUR_OK && access(part, F_OK) != 0 ? in_the_midst : -1;
}

static void check_kind(int kind, int64_t kills)
{
    gpur_device *const device = test_device();
    char path[128];
    static kill_run run;
    snprintf(path, sizeof path, "%s", test_file_path("saved"));
    CHECK_OK(run_open(&run, device, kind, NULL, 0));
    CHECK_OK(run_save(&run, path, NULL));
    CHECK_OK(run_save(&run, test_file_path("mine"), NULL));
    const int64_t in_the_midst = kill_often(&run, path, kills);
    printf("  %s: %lld of %lld kills came while a file was written, %lld steps\n", kinds[kind].name,
           (long long)in_the_midst, (long long)kills, (long long)run.steps);
    CHECK(in_the_midst >= kills * 2 / 5);
    checkpoint_fixture_close(&run.scene);
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
