/* SPDX-License-Identifier: MIT */
/* A program that is killed while it saves leaves the file of its last save, or of the one it was at, whole. */
#include "file_scene.h"
#include "replay_kit.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_ROWS = 4000, CAPACITY = 200000, WRITING = -1 };

extern char **environ;

#ifdef GPUR_HAS_FILES

static gpur_replay_config small_config(void)
{
    return kit_plain_config(CAPACITY, 64, 64, GPUR_FLUSH_AUTO);
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

/* Saves, appends a row, saves ... until it is killed. After each save it says to the pipe how many rows there are. */
static int save_for_ever(const char *path, int slowly)
{
    gpur_checkpoint_options options = {.size = sizeof options};
    const gpur_replay_config config = small_config();
    kit_scene s;
    if (!kit_open(&s, test_device(), &config, 1) || gpur_replay_load(s.replay, path, NULL) != GPUR_OK)
        return 1;
    s.next = gpur_replay_size(s.replay);
    for (;;) {
        if (kit_append_next(&s, 1) != GPUR_OK || gpur_replay_save(s.replay, path, &options) != GPUR_OK) {
            fprintf(stderr, "%s\n", gpur_last_error());
            return 1;
        }
        const int64_t rows = s.next;
        if (write(STDOUT_FILENO, &rows, sizeof rows) != sizeof rows)
            return 1;
        if (slowly)
            options.progress = dawdle;
    }
}

typedef struct child {
    pid_t id;
    int pipe;
} child;

static int start(child *c, const char *path, int slowly)
{
    char program[] = "test_checkpoint_kill", device[32], executor[32], mode[] = "save", name[128], pace[] = "at once";
    int ends[2];
    posix_spawn_file_actions_t actions;
    snprintf(device, sizeof device, "%s", test_device_name());
    snprintf(executor, sizeof executor, "%s", test_state.executor);
    snprintf(name, sizeof name, "%s", path);
    char *const arguments[] = {program, device, executor, mode, name, pace, NULL};
    if (slowly)
        snprintf(pace, sizeof pace, "slowly");
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

/* Kills it some time after its first save, or in the midst of a later one; `rows` is what its last finished save had.
 */
static int kill_later(child *c, int64_t microseconds, int slowly, int64_t *rows)
{
    const struct timespec wait = {0, (slowly ? microseconds / 8 : microseconds) * 1000};
    int64_t heard = 0;
    int status = 0;
    *rows = 0;
    if (read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *rows = heard;
    while (slowly && heard != WRITING && read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *rows = heard == WRITING ? *rows : heard;
    nanosleep(&wait, NULL);
    kill(c->id, SIGKILL);
    waitpid(c->id, &status, 0);
    while (read(c->pipe, &heard, sizeof heard) == sizeof heard)
        *rows = heard == WRITING ? *rows : heard;
    close(c->pipe);
    return *rows > 0 && WIFSIGNALED(status) ? 0 : -1;
}

/* What is there is the file of `rows` rows or of one more, and every row of it is right. */
static void check_file(kit_scene *s, const char *path, int64_t rows)
{
    int64_t ids[64];
    uint64_t random = (uint64_t)rows + 1;
    CHECK_OK(gpur_replay_load(s->replay, path, NULL));
    const int64_t size = gpur_replay_size(s->replay);
    TEST_REQUIRE(size == rows || size == rows + 1, "the file has %lld rows; the last save had %lld", (long long)size,
                 (long long)rows);
    for (int i = 0; i < 64; i++)
        ids[i] = i < 2 ? i * (size - 1) : kit_below(&random, size);
    CHECK_OK(kit_gather(s, 64, ids));
}

TEST(a_killed_save_leaves_the_old_file_or_the_new_one)
{
    const gpur_replay_config config = small_config();
    const char *const path = scene_path("saved");
    char part[160];
    kit_scene s;
    uint64_t random = 5;
    int64_t in_the_midst = 0, kills = test_is_long() ? 1000 : 100;
    snprintf(part, sizeof part, "%s.part", path);
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, FIRST_ROWS));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    for (int64_t i = 0; i < kills; i++) {
        child c;
        int64_t rows = 0;
        CHECK_EQUAL(start(&c, path, (int)(i % 2)), 0);
        CHECK_EQUAL(kill_later(&c, kit_below(&random, 8000), (int)(i % 2), &rows), 0);
        in_the_midst += access(part, F_OK) == 0;
        const int before = atomic_load(&test_state.failures);
        check_file(&s, path, rows);
        if (atomic_load(&test_state.failures) != before)
            break;
    }
    printf("  %lld of %lld kills came while a file was written\n", (long long)in_the_midst, (long long)kills);
    CHECK(in_the_midst >= kills * 2 / 5);
    CHECK_OK(gpur_replay_save(s.replay, path, NULL)); /* over what the last one left */
    CHECK(access(part, F_OK) != 0);
    kit_close(&s);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
#ifdef GPUR_HAS_FILES
    if (argc == 6 && strcmp(argv[3], "save") == 0)
        return save_for_ever(argv[4], strcmp(argv[5], "slowly") == 0);
    RUN(a_killed_save_leaves_the_old_file_or_the_new_one);
    scene_remove_folder();
    return test_main_end();
#else
    printf("test_checkpoint_kill: skipped: a build without cJSON or xxHash\n");
    return 77;
#endif
}
