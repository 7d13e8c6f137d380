/* SPDX-License-Identifier: MIT */
/* Ape-X with actors in processes: this program itself. They are killed at random moments and amid a send, send what is
 * no block, another one's or the same again, and leave nothing behind. */
#include "base/clock.h"
#include "support/apex_fixture.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

/* Under ThreadSanitizer a process takes half a second to begin. */
#if defined(__SANITIZE_THREAD__)
enum { KILLS = 10 };
#else
enum { KILLS = 20 };
#endif

static apex_fixture fixture;
static apex_settings settings;

static gpur_status choose_settings(const char *kind, const char *name)
{
    GPUR_TRY(apex_fixture_settings(name, &settings));
    settings.apex.command = apex_fixture_command("test_apex_processes", kind, name);
    return GPUR_OK;
}

static gpur_status open_run(const char *kind, const char *name)
{
    const gpur_device_config device = test_device_config();
    GPUR_TRY(choose_settings(kind, name));
    return apex_fixture_open(&fixture, test_device_name(), &device, &settings);
}

static void sleep_for(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (int)seconds) * 1e9)}, NULL);
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *const entries = opendir(folder);
    while (entries && readdir(entries))
        count++;
    if (entries)
        closedir(entries);
    return count;
}

/* Segments of shared memory that the process has mapped. */
static int count_segments(void)
{
    char line[512];
    int count = 0;
    FILE *const maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:gpureplay") != NULL;
    if (maps)
        fclose(maps);
    return count;
}

/* What the process has: descriptors, threads, segments of shared memory, and no children. */
typedef struct belongings {
    int descriptors, threads, segments;
} belongings;

static belongings count_belongings(void)
{
    return (belongings){count_entries("/proc/self/fd"), count_entries("/proc/self/task"), count_segments()};
}

/* Before a test. The run of one that failed goes on, and starts actors. */
static belongings take_stock(void)
{
    apex_fixture_close(&fixture);
    return count_belongings();
}

static void check_nothing_left(belongings before)
{
    int status;
    belongings after = count_belongings();
    for (int i = 0; i < 100 && after.threads != before.threads; i++) {
        sleep_for(0.01); /* a thread is joined a moment before its folder is gone */
        after = count_belongings();
    }
    CHECK_EQUAL(after.descriptors, before.descriptors);
    CHECK_EQUAL(after.threads, before.threads);
    CHECK_EQUAL(after.segments, before.segments);
    CHECK_EQUAL(waitpid(-1, &status, WNOHANG), -1);
    CHECK_EQUAL(errno, ECHILD);
}

/* All that was made has arrived or is counted as lost. */
static void check_counts(void)
{
    gpur_replay_stats replay = {.size = sizeof replay};
    CHECK(count_segments() > 0);
    CHECK_OK(apex_fixture_end_actors(&fixture));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &replay));
    CHECK_EQUAL(stats.apex.actors, 0);
    CHECK_EQUAL(replay.appended, stats.apex.rows);
    CHECK_EQUAL(stats.apex.rows + stats.apex.lost_rows, fixture.steps);
    CHECK_EQUAL(stats.apex.lost_rows, fixture.lost_rows);
    CHECK_EQUAL(stats.apex.lost_blocks, fixture.lost_blocks);
    CHECK_EQUAL(stats.apex.deaths, fixture.kinds[GPUR_RUN_ENDED] - fixture.asked);
}

/* A first run, as libraries below this one start threads when they are first needed, and keep them. */
static void warm_up(void)
{
    CHECK_OK(open_run("serve", "frames"));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 5));
    apex_fixture_close(&fixture);
}

/* What a list of processes shows. */
static void check_name(int32_t actor, const char *want)
{
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)gpur_apex_actor_process(fixture.run, actor));
    FILE *const file = fopen(path, "r");
    CHECK(file && fread(name, 1, sizeof name - 1, file) > 0);
    if (file)
        fclose(file);
    CHECK(strcmp(name, want) == 0);
}

TEST(actors_in_processes_fill_the_replay_and_leave_nothing_behind)
{
    warm_up();
    const belongings before = take_stock();
    CHECK_OK(open_run("serve", "numbers"));
    CHECK_OK(gpur_run_advance(fixture.run, 2000, 0));
    CHECK_OK(apex_fixture_await_actors(&fixture, 3));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.actors == 3 && stats.apex.starts == 3 && stats.apex.deaths == 0 && stats.apex.refused_blocks == 0);
    CHECK(stats.apex.rows > 1900 && stats.apex.pulled >= 3 && stats.train_steps > 0);
    CHECK(stats.env_seconds > 0.0 && stats.apex.actor_infer_seconds > 0.0 && stats.apex.actor_wait_seconds > 0.0);
    CHECK(stats.env_seconds + stats.apex.actor_infer_seconds + stats.apex.actor_wait_seconds <=
          stats.apex.actor_seconds);
    for (int32_t i = 0; i < 3; i++)
        CHECK_EQUAL(kill((pid_t)gpur_apex_actor_process(fixture.run, i), 0), 0);
    check_name(2, "gpureplay actor 2");
    check_counts();
    CHECK(fixture.lost_rows == 0 && fixture.asked == 3);
    CHECK(strcmp(fixture.error, "") == 0);
    CHECK_OK(gpur_apex_set_actors(fixture.run, 2));
    CHECK_OK(gpur_run_advance(fixture.run, 200, 0));
    apex_fixture_close(&fixture); /* while they act */
    check_nothing_left(before);
}

TEST(blocks_that_a_socket_cannot_hold_arrive_whole)
{
    CHECK_OK(open_run("narrow", "frames"));
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.blocks >= 500 / 50 - 3 && stats.apex.bytes > stats.apex.rows * 7000);
    CHECK(stats.apex.refused_blocks == 0 && stats.apex.lost_blocks == 0 && stats.apex.deaths == 0);
    check_counts();
    CHECK_EQUAL(fixture.lost_rows, 0);
    apex_fixture_close(&fixture);
}

TEST(cartpole_is_played_and_evaluated_by_processes)
{
    const gpur_device_config device = test_device_config();
    CHECK_OK(apex_fixture_settings("cartpole", &settings));
    settings.apex.command = apex_fixture_command("test_apex_processes", "serve", "cartpole");
    settings.run.eval_episodes = 5;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_OK(gpur_run_advance(fixture.run, (int64_t)test_rounds(6000) + 400, 0));
    CHECK_OK(gpur_apex_set_actors(fixture.run, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 0, 0));
    CHECK_OK(gpur_run_evaluate(fixture.run, 0, 0, NULL));
    CHECK(fixture.evaluation.episodes == 5 && fixture.evaluation.length >= 5 * 8 && fixture.lost_rows == 0);
    CHECK(fixture.asked == 3 && fixture.best_return >= 8.0); /* no pole falls sooner */
    apex_fixture_close(&fixture);
}

static _Atomic int has_killed_all;

/* 1 if another incarnation of the actor runs than that which was killed before, and, if it is wanted, has sent
 * something. */
static int is_ready(int32_t actor, int64_t killed, int must_have_sent)
{
    gpur_mutex_lock(&fixture.apex->core.lock);
    const gpur_slot *const slot = fixture.apex->tables[GPUR_SLOT_OWN].slots[actor];
    const int is = slot->process > 0 && slot->incarnation > killed && (slot->has_sent || !must_have_sent);
    gpur_mutex_unlock(&fixture.apex->core.lock);
    return is;
}

/* Two of three are killed after they have sent something, and the third wherever it may be. */
static void *kill_actors(void *context)
{
    const int kills = *(const int *)context;
    int64_t killed[4] = {-1, -1, -1, -1};
    uint32_t random = 7;
    for (int k = 0; k < kills; k++) {
        const int32_t actor = k % 4;
        random = random * 1664525u + 1013904223u; /* Knuth, The Art of Computer Programming, 3.3.4 */
        for (int i = 0; i < 30000 && !is_ready(actor, killed[actor], k % 3 != 0); i++)
            sleep_for(0.001);
        sleep_for((double)(random >> 24) * 5e-5);
        gpur_mutex_lock(&fixture.apex->core.lock);
        killed[actor] = fixture.apex->tables[GPUR_SLOT_OWN].slots[actor]->incarnation;
        gpur_mutex_unlock(&fixture.apex->core.lock);
        const int64_t process = gpur_apex_actor_process(fixture.run, actor);
        if (process > 0)
            kill((pid_t)process, SIGKILL);
    }
    atomic_store(&has_killed_all, 1);
    return NULL;
}

/* Blocks are larger than a socket holds, so that all are sent in pieces. */
TEST(a_run_goes_on_when_actors_are_killed_at_random_moments)
{
    const belongings before = take_stock();
    int kills = KILLS;
    pthread_t killer;
    CHECK_OK(open_run("narrow", "frames"));
    CHECK_OK(gpur_apex_set_actors(fixture.run, 4));
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    atomic_store(&has_killed_all, 0);
    CHECK_EQUAL(pthread_create(&killer, NULL, kill_actors, &kills), 0);
    gpur_status status = GPUR_OK;
    while (!atomic_load(&has_killed_all) && status == GPUR_OK)
        status = gpur_run_advance(fixture.run, 100, 10);
    pthread_join(killer, NULL);
    CHECK_OK(status);
    for (int i = 0; i < 3000 && apex_fixture_stats(&fixture).apex.deaths < kills; i++)
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
    CHECK_OK(apex_fixture_await_actors(&fixture, 4));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    TEST_REQUIRE(stats.apex.deaths == kills, "%d deaths of %d kills; the last: %s", (int)stats.apex.deaths, kills,
                 fixture.error);
    CHECK_EQUAL(stats.apex.refused_blocks, 0);
    check_counts();
    CHECK(fixture.lost_rows > 0);
    CHECK(strstr(fixture.error, "killed by signal 9"));
    apex_fixture_close(&fixture);
    check_nothing_left(before);
}

/* Of all actors, by their own count. */
static int64_t count_steps(void)
{
    int64_t steps = 0;
    for (int32_t i = 0; i < 3; i++)
        steps += atomic_load(&gpur_shared_counts(&fixture.apex->shared, i)->steps);
    return steps;
}

/* 1 if each actor waits for something else than a processor, which a busy machine may not give it: for its send. */
static int all_are_asleep(void)
{
    int count = 0;
    for (int32_t i = 0; i < 3; i++) {
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)gpur_apex_actor_process(fixture.run, i));
        FILE *const file = fopen(path, "r");
        count += file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
        if (file)
            fclose(file);
    }
    return count == 3;
}

/* Kills an actor, and waits until it is dead: on a busy machine it could else go on with its send once there is room,
 * which comes before the signal. The supervisor may have seen the death before. */
static void kill_dead(int32_t actor)
{
    siginfo_t info;
    const pid_t process = (pid_t)gpur_apex_actor_process(fixture.run, actor);
    CHECK(process > 0);
    CHECK_EQUAL(kill(process, SIGKILL), 0);
    while (waitid(P_PID, (id_t)process, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
}

/* While nobody advances, every actor is soon amid a block that its socket cannot hold, but for one whose block the
 * supervisor may hold. */
TEST(an_actor_that_is_killed_amid_a_send_loses_what_it_had_made)
{
    CHECK_OK(open_run("narrow", "frames"));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    for (int64_t steps = -1; steps != count_steps() || !all_are_asleep();) {
        steps = count_steps();
        sleep_for(0.3);
    }
    for (int32_t i = 0; i < 3; i++)
        kill_dead(i);
    while (fixture.kinds[GPUR_RUN_ENDED] < 3)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK(fixture.lost_blocks >= 2 && fixture.lost_rows >= 2 * 50);
    check_counts();
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.deaths, 3);
    apex_fixture_close(&fixture);
}

/* With a limiter an actor that has handed over a block waits until it is taken; without one it goes on until its socket
 * is full. */
TEST(with_a_limiter_an_actor_has_one_block_on_its_way)
{
    CHECK_OK(open_run("serve", "cartpole"));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    for (int64_t steps = -1; steps != count_steps() || !all_are_asleep();) {
        steps = count_steps();
        sleep_for(0.2);
    }
    for (int32_t i = 0; i < 3; i++) {
        const int64_t made = atomic_load(&gpur_shared_counts(&fixture.apex->shared, i)->blocks);
        gpur_mutex_lock(&fixture.apex->core.lock);
        const int64_t taken = fixture.apex->tables[GPUR_SLOT_OWN].slots[i]->blocks;
        gpur_mutex_unlock(&fixture.apex->core.lock);
        TEST_REQUIRE(made <= taken + 1, "actor %d has made %d blocks, and %d were taken", (int)i, (int)made,
                     (int)taken);
    }
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    check_counts();
    CHECK_EQUAL(fixture.lost_rows, 0);
    apex_fixture_close(&fixture);
}

static gpur_status advanced;

static void *advance(void *user)
{
    (void)user;
    advanced = gpur_run_advance(fixture.run, 0, INT64_MAX);
    return NULL;
}

/* The process that follows this one, within 20 s; else 0. */
static int64_t await_next_process(int32_t actor, int64_t process)
{
    int64_t next = process;
    for (int i = 0; i < 400 && (next == process || next < 0); i++) {
        sleep_for(0.05);
        next = gpur_apex_actor_process(fixture.run, actor);
    }
    return next != process && next > 0 ? next : 0;
}

/* The learner must do hundreds of thousands of train steps before the limiter lets in another block, and the block of
 * each actor waits for that. The blocks of those that die wait no longer. */
TEST(deaths_are_noticed_while_the_limiter_waits)
{
    const belongings before = take_stock();
    const gpur_device_config device = test_device_config();
    pthread_t learner;
    CHECK_OK(choose_settings("serve", "cartpole"));
    settings.apex.samples_per_insert = 1e6;
    settings.apex.rows_under_way = 30;
    settings.apex.limiter_timeout = 1e6;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_EQUAL(pthread_create(&learner, NULL, advance, NULL), 0);
    for (int64_t steps = -1; steps < 300 || steps != count_steps() || !all_are_asleep();) {
        steps = count_steps();
        sleep_for(0.2);
    }
    const gpur_run_stats held = apex_fixture_stats(&fixture);
    for (int32_t i = 0; i < 3; i++) {
        const int64_t process = gpur_apex_actor_process(fixture.run, i);
        CHECK_EQUAL(kill((pid_t)process, SIGKILL), 0);
        TEST_REQUIRE(await_next_process(i, process), "nobody noticed that actor %d has died", (int)i);
        CHECK_EQUAL(apex_fixture_stats(&fixture).apex.deaths, i + 1);
    }
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.blocks >= held.apex.blocks + 3 && stats.apex.blocks <= held.apex.blocks + 4 &&
          stats.apex.limiter_timeouts == 0);
    gpur_run_stop(fixture.run);
    pthread_join(learner, NULL);
    CHECK_EQUAL(advanced, GPUR_INTERRUPTED);
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_ENDED], 3);
    apex_fixture_close(&fixture);
    check_nothing_left(before);
}

TEST(a_process_that_does_not_end_is_killed)
{
    const belongings before = take_stock();
    CHECK_OK(open_run("serve", "numbers"));
    CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_EQUAL(kill((pid_t)gpur_apex_actor_process(fixture.run, 1), SIGSTOP), 0);
    const double begin = gpur_clock_seconds();
    apex_fixture_close(&fixture);
    CHECK(gpur_clock_seconds() - begin >= 5.0);
    check_nothing_left(before);
}

TEST(blocks_that_come_again_are_refused_and_counted)
{
    CHECK_OK(open_run("again", "numbers"));
    CHECK_OK(gpur_run_advance(fixture.run, 500, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.refused_blocks >= stats.apex.blocks - 3 && stats.apex.refused_blocks <= stats.apex.blocks &&
          stats.apex.deaths == 0);
    check_counts();
    CHECK_EQUAL(fixture.lost_rows, 0);
    apex_fixture_close(&fixture);
}

TEST(gaps_in_the_sequence_are_lost_blocks)
{
    CHECK_OK(open_run("gaps", "numbers"));
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.lost_blocks >= stats.apex.blocks - 3 && stats.apex.lost_blocks < stats.apex.blocks &&
          stats.apex.deaths == 0);
    check_counts();
    apex_fixture_close(&fixture);
}

/* Each incarnation sends four good blocks before. */
static void check_restarts(const char *kind, const char *error, int64_t least_refused)
{
    CHECK_OK(open_run(kind, "numbers"));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.deaths >= 3 && stats.apex.refused_blocks >= least_refused);
    TEST_REQUIRE(strstr(fixture.error, error), "the actor's error is \"%s\"; wanted \"%s\" in it", fixture.error,
                 error);
    check_counts();
    apex_fixture_close(&fixture);
}

TEST(an_actor_that_sends_a_damaged_block_is_started_again)
{
    check_restarts("damaged", "checksum", 3);
    check_restarts("noise", "a message has magic number", 0);
}

TEST(an_actor_that_sends_anothers_block_ends_the_run_at_last)
{
    CHECK_OK(open_run("foreign", "numbers"));
    CHECK_FAILS(gpur_run_advance(fixture.run, 100000, 0), GPUR_INVALID_ARGUMENT, "a block is of actor ");
    CHECK_EQUAL(apex_fixture_stats(&fixture).apex.rows, 0);
    apex_fixture_close(&fixture);
}

TEST(a_command_that_fails_ends_the_run_with_what_is_known_of_it)
{
    static const char *const missing[] = {"/nowhere/at-all", NULL};
    const gpur_device_config device = test_device_config();
    CHECK_OK(open_run("exit", "numbers"));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "its process ended with status 7");
    apex_fixture_close(&fixture);
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.apex.command = missing;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT,
                "\"/nowhere/at-all\" could not be started: No such file");
    apex_fixture_close(&fixture);
    CHECK_OK(open_run("serve", "numbers:fail=3"));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "step 3: the motor is broken");
    apex_fixture_close(&fixture);
    CHECK_OK(open_run("serve", "numbers:bad=50")); /* blocks of it have come, and it is not started again */
    CHECK_FAILS(gpur_run_advance(fixture.run, 3000, 0), GPUR_INVALID_ARGUMENT, ": step 50: the observation is NaN");
    CHECK(apex_fixture_stats(&fixture).apex.rows > 0);
    apex_fixture_close(&fixture);
}

/* Its process is killed then, which is no death by anyone's signal. */
TEST(an_actor_that_fails_and_is_late_to_end_has_failed)
{
    const gpur_device_config device = test_device_config();
    CHECK_OK(choose_settings("late", "numbers:fail=3"));
    settings.apex.restarts = 0;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "step 3: the motor is broken");
    CHECK(!strstr(gpur_last_error(), "no actor is left"));
    apex_fixture_close(&fixture);
}

/* The learner's replay or network is another one than the actor's. */
TEST(an_actor_of_other_settings_ends_the_run_with_both)
{
    const gpur_device_config device = test_device_config();
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.apex.command = apex_fixture_command("test_apex_processes", "serve", "numbers");
    settings.replay.n_step = 2;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "the settings of the replay must be");
    apex_fixture_close(&fixture);
    settings.replay.n_step = 3;
    settings.learner.network.hidden = 48;
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "the networks must be the same");
    apex_fixture_close(&fixture);
}

/* It is started again after longer and longer waits, which its events tell, and each death is counted. */
TEST(an_actor_that_is_killed_at_each_start_ends_no_run)
{
    CHECK_OK(open_run("killed", "numbers"));
    while (apex_fixture_stats(&fixture).apex.deaths < 6)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.deaths >= 6 && stats.apex.deaths == fixture.kinds[GPUR_RUN_ENDED] &&
          stats.apex.starts <= 2 + stats.apex.deaths + 1);
    CHECK(stats.apex.rows > 300 && stats.apex.lost_rows == 0);
    TEST_REQUIRE(strstr(fixture.error, "its process was killed by signal 9") &&
                     strstr(fixture.error, " (early death number ") &&
                     strstr(fixture.error, " in a row; the next start is in "),
                 "the actor's error is \"%s\"", fixture.error);
    CHECK_OK(gpur_apex_set_actors(fixture.run, 2)); /* it is one of those that are left */
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    apex_fixture_close(&fixture);
}

TEST(kills_of_all_actors_at_each_start_end_the_run)
{
    CHECK_OK(open_run("all killed", "numbers"));
    CHECK_FAILS(gpur_run_advance(fixture.run, 300, 0), GPUR_INVALID_ARGUMENT, "its process was killed by signal 9");
    CHECK_MESSAGE("; all actors died at least 5 times in a row within a minute after their start, and none is left");
    CHECK(apex_fixture_stats(&fixture).apex.deaths >= 3 * 5 && apex_fixture_stats(&fixture).apex.rows == 0);
    apex_fixture_close(&fixture);
}

static void check_missing_evaluation(int32_t restarts, int64_t starts)
{
    const gpur_device_config device = test_device_config();
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.apex.restarts = restarts;
    settings.run.eval_episodes = 3;
    settings.run.eval_period = 0;
    settings.apex.command = apex_fixture_command("test_apex_processes", "evaluator killed", "numbers");
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    for (int i = 0; i < 2; i++) { /* each call tries anew, which ends no run */
        const int64_t before = apex_fixture_stats(&fixture).apex.starts;
        CHECK_FAILS(gpur_run_evaluate(fixture.run, 0, 0, NULL), GPUR_UNAVAILABLE, "the evaluation is missing");
        CHECK_MESSAGE(restarts ? "died again and again, the last time so: its process was killed by signal 9 (Killed)"
                               : "died: its process was killed by signal 9 (Killed)");
        CHECK_EQUAL(apex_fixture_stats(&fixture).apex.starts, before + starts);
        TEST_REQUIRE(strcmp(fixture.error, "its process was killed by signal 9 (Killed); it is not started again, and "
                                           "the evaluation is missing") == 0,
                     "the evaluator's error is \"%s\"", fixture.error);
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    }
    apex_fixture_close(&fixture);
    settings.run.eval_period = 200; /* beside the training */
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_OK(gpur_run_advance(fixture.run, 250, 0)); /* one is due in each call, however fast the steps come */
    CHECK_OK(gpur_run_advance(fixture.run, 200, 0));
    CHECK_EQUAL(fixture.kinds[GPUR_RUN_EVALUATION], 0);
    CHECK(apex_fixture_stats(&fixture).apex.deaths >= (restarts ? 2 : 1) * starts);
    apex_fixture_close(&fixture);
}

TEST(an_evaluation_whose_process_is_killed_at_each_start_is_missing_and_the_run_is_whole)
{
    check_missing_evaluation(1, 5);
    check_missing_evaluation(0, 1);
}

typedef struct served {
    int connection;
    _Atomic int has_ended;
    gpur_status status;
    char error[128];
} served;

static void *serve(void *user)
{
    served *const s = user;
    s->status = gpur_apex_serve(s->connection, &settings.run, &settings.replay, APEX_NETWORKS(&settings), 1);
    snprintf(s->error, sizeof s->error, "%s", gpur_last_error());
    atomic_store(&s->has_ended, 1);
    return NULL;
}

/* Its process, here a thread, would otherwise wait for an evaluation for ever. */
TEST(an_evaluator_without_an_evaluation_ends_with_its_learner)
{
    int ends[2];
    pthread_t thread;
    CHECK_OK(open_run("serve", "numbers"));
    gpur_slot *const slot = fixture.apex->evaluator;
    const gpur_hello hello = {.size = sizeof hello,
                              .format = gpur_block_format_hash(fixture.apex->format),
                              .weights_bytes = fixture.apex->shared.weights_bytes,
                              .settings = gpur_apex_slot_settings(slot)};
    CHECK_OK(gpur_connection_make(ends, 1000));
    CHECK_OK(gpur_connection_send_hello(ends[0], &hello, fixture.apex->shared.fd));
    served s = {.connection = ends[1]};
    CHECK_EQUAL(pthread_create(&thread, NULL, serve, &s), 0);
    close(ends[0]);
    for (int i = 0; i < 1000 && !atomic_load(&s.has_ended); i++)
        sleep_for(0.01);
    atomic_store(&gpur_shared_counts(&fixture.apex->shared, GPUR_APEX_EVALUATOR)->is_asked, 1);
    pthread_join(thread, NULL);
    CHECK(s.status == GPUR_INTERRUPTED && strcmp(s.error, "the learner is gone") == 0);
    apex_fixture_close(&fixture);
}

TEST(without_restarts_killed_actors_stay_away)
{
    const gpur_device_config device = test_device_config();
    CHECK_OK(apex_fixture_settings("numbers", &settings));
    settings.apex.restarts = 0;
    settings.apex.actors = 2;
    settings.apex.command = apex_fixture_command("test_apex_processes", "serve", "numbers");
    CHECK_OK(apex_fixture_open(&fixture, test_device_name(), &device, &settings));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    CHECK_EQUAL(kill((pid_t)gpur_apex_actor_process(fixture.run, 0), SIGKILL), 0);
    while (apex_fixture_stats(&fixture).apex.deaths == 0)
        CHECK_OK(gpur_run_advance(fixture.run, 100, 0));
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    CHECK(apex_fixture_stats(&fixture).apex.starts == 2 && gpur_apex_actor_process(fixture.run, 0) == -1);
    CHECK_EQUAL(kill((pid_t)gpur_apex_actor_process(fixture.run, 1), SIGKILL), 0);
    CHECK_FAILS(gpur_run_advance(fixture.run, 1000000000, 0), GPUR_INVALID_ARGUMENT, "no actor is left");
    apex_fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "actor") == 0)
        return apex_fixture_serve(argv[2], argv[3]);
    test_main_begin(argc, argv);
    RUN(actors_in_processes_fill_the_replay_and_leave_nothing_behind);
    RUN(blocks_that_a_socket_cannot_hold_arrive_whole);
    RUN(cartpole_is_played_and_evaluated_by_processes);
    RUN(a_run_goes_on_when_actors_are_killed_at_random_moments);
    RUN(an_actor_that_is_killed_amid_a_send_loses_what_it_had_made);
    RUN(with_a_limiter_an_actor_has_one_block_on_its_way);
    RUN(deaths_are_noticed_while_the_limiter_waits);
    RUN(a_process_that_does_not_end_is_killed);
    RUN(blocks_that_come_again_are_refused_and_counted);
    RUN(gaps_in_the_sequence_are_lost_blocks);
    RUN(an_actor_that_sends_a_damaged_block_is_started_again);
    RUN(an_actor_that_sends_anothers_block_ends_the_run_at_last);
    RUN(a_command_that_fails_ends_the_run_with_what_is_known_of_it);
    RUN(an_actor_that_fails_and_is_late_to_end_has_failed);
    RUN(an_actor_of_other_settings_ends_the_run_with_both);
    RUN(an_actor_that_is_killed_at_each_start_ends_no_run);
    RUN(kills_of_all_actors_at_each_start_end_the_run);
    RUN(an_evaluation_whose_process_is_killed_at_each_start_is_missing_and_the_run_is_whole);
    RUN(an_evaluator_without_an_evaluation_ends_with_its_learner);
    RUN(without_restarts_killed_actors_stay_away);
    return test_main_end();
}
