/* SPDX-License-Identifier: MIT */
/* Ape-X with a folder: remote actors in processes, which are this program itself, and files that are written here:
 * good, damaged, of others, and unfinished. */
#include "base/clock.h"
#include "replay/block/block.h"
#include "run/folder.h"
#include "support/apex_fixture.h"
#include "support/file_utils.h"
#include "support/run_fixture.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 10, REMOTE_ACTORS = 3 };
static const double TIMEOUT_SECONDS = 120.0; /* seconds for what takes one or two: the machine may be busy */

static apex_fixture fixture;
static apex_settings settings;
static char folder[256], blocks_folder[GPUR_FOLDER_PATH], model_file[GPUR_FOLDER_PATH];

/* The folder. */

static const char *path_of(const char *name)
{
    static char path[GPUR_FOLDER_PATH];
    (void)gpur_folder_path(blocks_folder, name, path);
    return path;
}

/* The files whose names end so, and the last of their names. */
static int count_files(const char *end, char last[256])
{
    int count = 0;
    DIR *const entries = opendir(blocks_folder);
    for (struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries)) {
        const size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' || length < strlen(end) || strcmp(e->d_name + length - strlen(end), end) != 0)
            continue;
        count++;
        if (last)
            snprintf(last, 256, "%s", e->d_name);
    }
    if (entries)
        closedir(entries);
    return count;
}

/* All that may be in it. */
static void remove_folder(void)
{
    for (char name[256]; count_files("", name) > 0;)
        if (unlink(path_of(name)) != 0 && rmdir(path_of(name)) != 0)
            break;
    (void)unlink(model_file);
    CHECK_EQUAL(rmdir(blocks_folder), 0);
    CHECK_EQUAL(rmdir(folder), 0);
    test_remove_folder();
}

/* The settings of both sides. */
static gpur_status read_settings(const char *name, const char *where)
{
    GPUR_TRY(apex_fixture_settings(name, &settings));
    settings.replay.min_size = ROWS;
    settings.apex.actors = REMOTE_ACTORS;
    settings.apex.folder = where;
    return GPUR_OK;
}

static gpur_status open_run(const char *name)
{
    const gpur_device_config device = test_device_config();
    GPUR_TRY(read_settings(name, folder));
    settings.apex.actors = 0;
    return apex_fixture_open(&fixture, test_device_name(), &device, &settings);
}

/* Workers. */

static volatile sig_atomic_t is_asked;
static pid_t parent; /* of a remote actor */

static void on_signal(int number)
{
    (void)number;
    is_asked = 1;
}

static int stop(void *user)
{
    (void)user;
    return is_asked || (parent && getppid() != parent);
}

static int run_remote_actor(const char *where, const char *actor, const char *name)
{
    signal(SIGTERM, on_signal);
    parent = getppid();
    gpur_status status = read_settings(name, where);
    if (status == GPUR_OK)
        status = gpur_apex_work(&settings.run, &settings.apex, (int32_t)strtol(actor, NULL, 10), &settings.replay,
                                APEX_NETWORKS(&settings), 0, stop, NULL);
    if (status != GPUR_OK)
        fprintf(stderr, "remote actor %s: %s\n", actor, gpur_last_error());
    return status != GPUR_OK;
}

static pid_t living[REMOTE_ACTORS]; /* the process of each remote; 0: none */

static pid_t start_remote_actor(int actor, const char *name)
{
    char number[16];
    snprintf(number, sizeof number, "%d", actor);
    char *const command[] = {
        (char *)"/proc/self/exe", (char *)"test_apex_folder", (char *)"remote", folder, number, (char *)name, NULL};
    if (posix_spawn(&living[actor], command[0], NULL, NULL, command, environ) != 0)
        living[actor] = 0;
    return living[actor];
}

/* Its status; -1: it was not started. */
static int end_remote_actor(pid_t process, int number)
{
    int status = -1;
    if (process <= 0 || kill(process, number) != 0)
        return -1;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
    for (int i = 0; i < REMOTE_ACTORS; i++)
        living[i] = living[i] == process ? 0 : living[i];
    return status;
}

/* Before a test: those of one that failed go on. */
static void end_all(void)
{
    for (int i = 0; i < REMOTE_ACTORS; i++)
        (void)end_remote_actor(living[i], SIGKILL);
    apex_fixture_close(&fixture);
}

static void make_folder(void)
{
    end_all();
    snprintf(folder, sizeof folder, "%s", test_file_path("apex"));
    CHECK_OK(gpur_folder_path(folder, "blocks", blocks_folder));
    CHECK_OK(gpur_folder_path(folder, "model.safetensors", model_file));
    CHECK_OK(gpur_folder_make(folder));
    CHECK_OK(gpur_folder_make(blocks_folder));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Blocks that are written here, of zeros, except for the priority of the second row. */

static unsigned char block[1 << 16];
static float second_priority;

static int64_t make_block(const gpur_replay_config *replay, int64_t actor, int64_t sequence, int64_t rows)
{
    static const unsigned char zeros[64 * RUN_FEATURES * sizeof(float)];
    const float priorities[64] = {0, second_priority};
    const void *fields[GPUR_APEX_FIELDS];
    gpur_block_format *format = NULL;
    int64_t bytes = -1;
    for (int i = 0; i < GPUR_APEX_FIELDS; i++)
        fields[i] = strcmp(replay->fields[i].name, "priority") == 0 ? (const void *)priorities : zeros;
    const gpur_block_input input = {.size = sizeof input,
                                    .actor = actor,
                                    .incarnation = 7,
                                    .sequence = sequence,
                                    .first_step = ROWS * sequence,
                                    .rows = rows,
                                    .fields = fields};
    if (gpur_block_format_create(replay, &format) == GPUR_OK)
        (void)gpur_block_pack(format, &input, block, sizeof block, &bytes);
    gpur_block_format_destroy(format);
    return bytes;
}

static void put(const char *name, int64_t bytes)
{
    CHECK(bytes >= 0);
    CHECK_EQUAL(write_file(path_of(name), block, bytes), 0);
}

static void put_block(const char *name, int64_t sequence)
{
    put(name, make_block(&settings.replay, 5, sequence, ROWS));
}

static int is_waiting(double begin)
{
    return gpur_clock_seconds() - begin < TIMEOUT_SECONDS;
}

/* Advances until so many blocks were taken and so many refused, and no file is left: it is deleted or renamed after it
 * was counted. */
static void take_all(int64_t blocks, int64_t refused)
{
    gpur_run_stats stats = apex_fixture_stats(&fixture);
    for (const double begin = gpur_clock_seconds();
         (stats.apex.blocks < blocks || stats.apex.refused_blocks < refused || count_files(".block", NULL) > 0) &&
         is_waiting(begin);) {
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
        stats = apex_fixture_stats(&fixture);
    }
    CHECK_EQUAL(stats.apex.blocks, blocks);
    CHECK_EQUAL(stats.apex.refused_blocks, refused);
}

/* The tests. */

static int64_t version_of(const char *name)
{
    gpur_block_header header = {0};
    const int file = open(path_of(name), O_RDONLY);
    const ssize_t got = file >= 0 ? read(file, &header, sizeof header) : -1;
    if (file >= 0)
        close(file);
    return got == (ssize_t)sizeof header ? header.weights_version : 0;
}

/* Two remote actors begin before the learner does. Each row that is in a file arrives once. */
TEST(remote_actors_feed_a_learner_and_act_by_its_newest_weights)
{
    pid_t remote_actors[REMOTE_ACTORS];
    gpur_replay_stats replay = {.size = sizeof replay};
    int64_t version = 0;
    char name[256];
    make_folder();
    for (int i = 0; i < REMOTE_ACTORS - 1; i++)
        remote_actors[i] = start_remote_actor(i, "numbers");
    CHECK_OK(open_run("numbers"));
    remote_actors[REMOTE_ACTORS - 1] = start_remote_actor(REMOTE_ACTORS - 1, "numbers");
    CHECK_OK(gpur_run_advance(fixture.run, 1000, 0));
    for (const double begin = gpur_clock_seconds(); version == 0 && is_waiting(begin);) {
        CHECK_OK(gpur_run_advance(fixture.run, 0, 10));
        version = count_files(".block", name) > 0 ? version_of(name) : 0;
    }
    CHECK(version > 0);
    for (int i = 0; i < REMOTE_ACTORS; i++)
        CHECK_EQUAL(end_remote_actor(remote_actors[i], SIGTERM), 0);
    CHECK_EQUAL(count_files(".part", NULL), 0);
    for (const double begin = gpur_clock_seconds(); count_files("", NULL) > 0 && is_waiting(begin);)
        CHECK_OK(gpur_run_advance(fixture.run, 0, 1));
    CHECK_EQUAL(count_files("", NULL), 0);
    CHECK_OK(gpur_run_advance(fixture.run, 0, 1)); /* what is deleted has been counted */
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK_OK(gpur_replay_get_stats(fixture.replay, &replay));
    CHECK(stats.apex.refused_blocks == 0 && stats.apex.lost_blocks == 0 && stats.apex.actors == 0 &&
          stats.apex.starts == 0);
    CHECK(stats.apex.rows > 900 && stats.env_steps == stats.apex.rows && replay.appended == stats.apex.rows);
    apex_fixture_close(&fixture);
    remove_folder();
}

/* Without a limiter there would be two files of each, while nobody advances. The learner's share of rows holds for
 * remote actors, too. */
TEST(with_a_limiter_a_remote_actor_has_one_file_in_the_folder)
{
    pid_t remote_actors[REMOTE_ACTORS];
    char name[256];
    int files = 0;
    make_folder();
    CHECK_OK(open_run("cartpole"));
    for (int i = 0; i < REMOTE_ACTORS; i++)
        remote_actors[i] = start_remote_actor(i, "cartpole");
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    for (const double begin = gpur_clock_seconds(); files < REMOTE_ACTORS && is_waiting(begin); nap())
        files = count_files(".block", NULL);
    for (int i = 0; i < 300; i++) {
        nap();
        files = count_files(".block", name) > files ? count_files(".block", NULL) : files;
    }
    CHECK_EQUAL(files, REMOTE_ACTORS);
    CHECK_OK(gpur_run_advance(fixture.run, 300, 0));
    for (int i = 0; i < REMOTE_ACTORS; i++)
        CHECK_EQUAL(end_remote_actor(remote_actors[i], SIGTERM), 0);
    CHECK(apex_fixture_stats(&fixture).apex.refused_blocks == 0);
    apex_fixture_close(&fixture);
    remove_folder();
}

/* All in one folder: the files are taken in the order of their names. */
TEST(bad_files_are_skipped_and_counted)
{
    gpur_replay_config foreign, without_priorities;
    make_folder();
    CHECK_OK(open_run("numbers"));
    foreign = without_priorities = settings.replay;
    foreign.gamma = 0.5f;
    without_priorities.prioritized = 0; /* its blocks are of the same format, and may have any numbers there */
    put_block("a good.block", 0);
    const int64_t bytes = make_block(&settings.replay, 5, 1, ROWS);
    put("b truncated.block", bytes - 1);
    put("c truncated in its header.block", 100);
    put("d empty.block", 0);
    put("e with more.block", bytes + 1);
    block[bytes / 2] ^= 16;
    put("f damaged.block", bytes);
    put("g foreign.block", make_block(&foreign, 5, 1, ROWS));
    put("h of nobody.block", make_block(&settings.replay, GPUR_APEX_MAX_ACTORS, 1, ROWS));
    put("i with too many rows.block", make_block(&settings.replay, 5, 1, ROWS + 1));
    put("j too large.block", sizeof block);
    CHECK_EQUAL(mkdir(path_of("k a folder.block"), 0777), 0);
    CHECK_EQUAL(symlink("a good.block", path_of("l a link.block")), 0);
    put_block("m the same again.block", 0);
    second_priority = -0.5f;
    put("m with a negative priority.block", make_block(&without_priorities, 5, 1, ROWS));
    second_priority = 0.0f;
    put_block("n unfinished.block.part", 1);
    put("o noise", bytes);
    put_block("p good.block", 1);
    put_block("q good after a lost one.block", 3);
    take_all(3, 13);
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.rows == 3 * ROWS && stats.env_steps == 4 * ROWS && stats.apex.lost_blocks == 1 &&
          stats.apex.deaths == 0);
    CHECK_EQUAL(count_files(".bad", NULL), 12);
    CHECK_EQUAL(count_files("", NULL), 14);
    CHECK(access(path_of("n unfinished.block.part"), F_OK) == 0 && access(path_of("o noise"), F_OK) == 0);
    apex_fixture_close(&fixture);
    remove_folder();
}

/* Bad files do not fill the disk. */
TEST(not_too_many_bad_files_are_kept)
{
    char name[32];
    make_folder();
    CHECK_OK(open_run("numbers"));
    for (int i = 0; i < 70; i++) {
        snprintf(name, sizeof name, "%d.block", i);
        put(name, 5);
    }
    put_block("good.block", 0);
    take_all(1, 70);
    CHECK_EQUAL(count_files(".bad", NULL), 64);
    CHECK_EQUAL(count_files("", NULL), 64);
    apex_fixture_close(&fixture);
    remove_folder();
}

static void age(const char *name)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) - 120}, {.tv_sec = time(NULL) - 120}};
    CHECK_EQUAL(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

TEST(unfinished_files_are_deleted_once_nobody_writes_them)
{
    make_folder();
    CHECK_OK(open_run("numbers"));
    put("a new.block.part", make_block(&settings.replay, 5, 0, ROWS));
    put("b old.block.part", 100);
    put("c old and locked.block.part", 100);
    age("b old.block.part");
    age("c old and locked.block.part");
    const int file = open(path_of("c old and locked.block.part"), O_RDWR);
    CHECK_EQUAL(flock(file, LOCK_EX), 0);
    put_block("d.block", 0);
    take_all(1, 0);
    CHECK(access(path_of("a new.block.part"), F_OK) == 0 && access(path_of("b old.block.part"), F_OK) != 0);
    CHECK_EQUAL(access(path_of("c old and locked.block.part"), F_OK), 0);
    close(file);
    apex_fixture_close(&fixture);
    remove_folder();
}

static struct stat model_now(void)
{
    struct stat found = {0};
    (void)stat(model_file, &found);
    return found;
}

/* While a run looks. */
static void put_whole_block(const char *name, int64_t sequence)
{
    char from[GPUR_FOLDER_PATH];
    put_block("next.part", sequence);
    snprintf(from, sizeof from, "%s", path_of("next.part"));
    CHECK_EQUAL(rename(from, path_of(name)), 0);
}

/* Puts `count` good blocks, and a bad one after them: once that is refused, all that follows from the others is
 * done. */
static void feed(int64_t first, int64_t count)
{
    char name[32];
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    for (int64_t i = first; i < first + count; i++) {
        snprintf(name, sizeof name, "%04d.block", (int)i);
        put_whole_block(name, i);
    }
    take_all(stats.apex.blocks + count, stats.apex.refused_blocks);
    put("bad.block", 5);
    take_all(stats.apex.blocks + count, stats.apex.refused_blocks + 1);
}

TEST(weights_are_published_at_the_beginning_and_every_15_files)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    make_folder();
    CHECK_OK(open_run("numbers"));
    feed(0, 14);
    const struct stat first = model_now();
    CHECK_OK(gpur_checkpoint_get_info(model_file, &info));
    CHECK(first.st_ino != 0 && info.steps == 0);
    feed(14, 1);
    const struct stat second = model_now();
    CHECK_OK(gpur_checkpoint_get_info(model_file, &info));
    CHECK(second.st_ino != first.st_ino && info.steps > 0);
    feed(15, 14);
    CHECK_EQUAL(model_now().st_ino, second.st_ino);
    feed(29, 1);
    CHECK(model_now().st_ino != second.st_ino);
    apex_fixture_close(&fixture);
    remove_folder();
}

/* A learner that has trained, for its weights: remote actors need no other part of it. */
static void write_model(void)
{
    CHECK_OK(gpur_learner_save_weights(fixture.learner, model_file, NULL));
}

TEST(a_remote_actor_waits_while_two_of_its_files_do)
{
    make_folder();
    CHECK_OK(open_run("numbers"));
    const pid_t remote = start_remote_actor(0, "numbers"); /* the weights come later */
    write_model();
    for (const double begin = gpur_clock_seconds(); count_files(".block", NULL) < 2 && is_waiting(begin);)
        nap();
    for (int i = 0; i < 300; i++) {
        CHECK_EQUAL(count_files("", NULL), 2);
        nap();
    }
    CHECK_EQUAL(end_remote_actor(remote, SIGTERM), 0);
    CHECK_EQUAL(count_files("", NULL), 2);
    take_all(2, 0);
    apex_fixture_close(&fixture);
    remove_folder();
}

/* Files are taken away as they come, until one is seen that is not finished: then its writer is killed. Whether it is
 * in time is seen by what remains. */
static int kill_amid_a_write(void)
{
    char name[256];
    const pid_t remote = start_remote_actor(0, "frames");
    for (const double begin = gpur_clock_seconds(); count_files(".part", NULL) == 0 && is_waiting(begin);)
        if (count_files(".block", name) > 0)
            (void)unlink(path_of(name));
    (void)end_remote_actor(remote, SIGKILL);
    return count_files(".part", NULL);
}

/* The next remote actor of the same actor goes on, and the learner takes nothing of what was not finished. */
TEST(a_remote_actor_that_is_killed_amid_a_write_leaves_nothing_that_counts)
{
    char name[256];
    make_folder();
    CHECK_OK(open_run("frames"));
    write_model();
    for (const double begin = gpur_clock_seconds(); kill_amid_a_write() == 0 && is_waiting(begin);)
        continue;
    CHECK_EQUAL(count_files(".part", name), 1);
    while (count_files(".block", name) > 0)
        (void)unlink(path_of(name));
    CHECK_EQUAL(count_files(".part", name), 1);
    age(name);
    const pid_t remote = start_remote_actor(0, "frames");
    CHECK_OK(gpur_run_advance(fixture.run, 200, 0));
    CHECK(access(path_of(name), F_OK) != 0);
    CHECK_EQUAL(end_remote_actor(remote, SIGTERM), 0);
    const gpur_run_stats stats = apex_fixture_stats(&fixture);
    CHECK(stats.apex.refused_blocks == 0 && stats.apex.lost_blocks == 0 && stats.apex.rows >= 200);
    apex_fixture_close(&fixture);
    remove_folder();
}

static gpur_status work(int32_t actor)
{
    return gpur_apex_work(&settings.run, &settings.apex, actor, &settings.replay, APEX_NETWORKS(&settings), 0, stop,
                          NULL);
}

TEST(a_remote_actor_refuses_what_it_cannot_use)
{
    make_folder();
    CHECK_OK(open_run("numbers"));
    write_model();
    CHECK_FAILS(work(0), GPUR_INVALID_ARGUMENT, "actor is 0 and actors, of all remote actors, 0");
    settings.apex.actors = REMOTE_ACTORS;
    CHECK_FAILS(work(REMOTE_ACTORS), GPUR_INVALID_ARGUMENT, "actor is 3");
    settings.apex.folder = NULL;
    CHECK_FAILS(work(0), GPUR_INVALID_ARGUMENT, "folder is NULL");
    settings.apex.folder = "/proc/nowhere";
    CHECK_FAILS(work(0), GPUR_FILE_ERROR, "cannot make the folder /proc/nowhere");
    settings.apex.folder = folder;
    settings.learner.network.hidden = 48;
    CHECK_FAILS(work(0), GPUR_INVALID_ARGUMENT, "");
    is_asked = 1; /* of a remote actor that waits for its first weights */
    CHECK_EQUAL(unlink(model_file), 0);
    CHECK_OK(work(0));
    is_asked = 0;
    CHECK_EQUAL(count_files("", NULL), 0);
    apex_fixture_close(&fixture);
    CHECK_OK(read_settings("numbers", NULL));
    settings.apex.actors = 0;
    const gpur_device_config device = test_device_config();
    CHECK_FAILS(apex_fixture_open(&fixture, test_device_name(), &device, &settings), GPUR_INVALID_ARGUMENT,
                "actors is 0");
    apex_fixture_close(&fixture);
    remove_folder();
}

/* Between two calls the run holds the first file, and has seen the second. */
TEST(a_file_that_is_deleted_by_others_is_no_error)
{
    int64_t blocks = 1;
    make_folder();
    CHECK_OK(open_run("numbers"));
    feed(0, 1);
    for (int64_t i = 1; blocks == 1 && i < 100; i += 2) {
        put_whole_block("b.block", i + 1);
        put_whole_block("a.block", i);
        for (int k = 0; k < 200; k++)
            nap();
        CHECK(unlink(path_of("a.block")) == 0 && unlink(path_of("b.block")) == 0);
        for (int k = 0; blocks == 1 && k < 200; k++) { /* the supervisor's thread may be slow to wake up */
            CHECK_OK(gpur_run_advance(fixture.run, 0, 5));
            nap();
            blocks = apex_fixture_stats(&fixture).apex.blocks;
        }
    }
    CHECK(blocks > 1);
    feed(200, 1);
    apex_fixture_close(&fixture);
    remove_folder();
}

TEST(a_folder_has_one_learner)
{
    gpur_run *second = NULL;
    make_folder();
    CHECK_OK(open_run("numbers"));
    CHECK_FAILS(gpur_apex_create(fixture.learner, &settings.run, &settings.apex, &second), GPUR_INVALID_ARGUMENT,
                "has a learner already");
    CHECK(!second);
    apex_fixture_close(&fixture);
    CHECK_OK(open_run("numbers"));
    apex_fixture_close(&fixture);
    remove_folder();
}

TEST(a_folder_that_is_gone_ends_the_run)
{
    make_folder();
    CHECK_OK(open_run("numbers"));
    feed(0, 1);
    CHECK_EQUAL(unlink(path_of("bad.bad")), 0);
    CHECK_EQUAL(rmdir(blocks_folder), 0);
    CHECK(gpur_run_advance(fixture.run, 1, 0) != GPUR_OK); /* the run may have ended before the call */
    CHECK_MESSAGE("blocks cannot be read: No such file");
    CHECK_EQUAL(mkdir(blocks_folder, 0777), 0);
    apex_fixture_close(&fixture);
    remove_folder();
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "remote") == 0)
        return run_remote_actor(argv[2], argv[3], argv[4]);
    test_main_begin(argc, argv);
    RUN(remote_actors_feed_a_learner_and_act_by_its_newest_weights);
    RUN(with_a_limiter_a_remote_actor_has_one_file_in_the_folder);
    RUN(bad_files_are_skipped_and_counted);
    RUN(not_too_many_bad_files_are_kept);
    RUN(unfinished_files_are_deleted_once_nobody_writes_them);
    RUN(weights_are_published_at_the_beginning_and_every_15_files);
    RUN(a_remote_actor_waits_while_two_of_its_files_do);
    RUN(a_remote_actor_that_is_killed_amid_a_write_leaves_nothing_that_counts);
    RUN(a_remote_actor_refuses_what_it_cannot_use);
    RUN(a_file_that_is_deleted_by_others_is_no_error);
    RUN(a_folder_has_one_learner);
    RUN(a_folder_that_is_gone_ends_the_run);
    return test_main_end();
}
