/* SPDX-License-Identifier: MIT */
/* gpur_atomic_file: a file is written completely or not at all, also when the disk is full. */
#include "file/atomic_file.h"
#include "support/faults.h"
#include "support/file_utils.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 1 if the file at `path` holds this text (NULL: if there is no file) and no temporary file is left. */
static int holds(const char *path, const char *text)
{
    char part[160];
    snprintf(part, sizeof part, "%s.part", path);
    return access(part, F_OK) != 0 &&
           (text ? file_is(path, (const unsigned char *)text, (int64_t)strlen(text)) : access(path, F_OK) != 0);
}

TEST(a_file_is_replaced_when_it_is_committed_and_only_then)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file file;
    for (int commits = 0; commits < 2; commits++) {
        CHECK(write_file(path, "old", 3) == 0);
        CHECK_OK(gpur_atomic_file_begin(&file, path, 4));
        CHECK_OK(gpur_atomic_file_write(&file, "ew", 2, 1));
        CHECK_OK(gpur_atomic_file_write(&file, "n", 1, 0));
        CHECK_OK(gpur_atomic_file_write(&file, "!", 1, 3));
        CHECK(file_is(path, (const unsigned char *)"old", 3));
        CHECK_OK(commits ? gpur_atomic_file_commit(&file) : GPUR_OK);
        gpur_atomic_file_discard(&file);
        gpur_atomic_file_discard(&file);
        CHECK(holds(path, commits ? "new!" : "old"));
    }
}

TEST(two_do_not_write_one_file)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file first, second;
    CHECK_OK(gpur_atomic_file_begin(&first, path, 3));
    CHECK_FAILS(gpur_atomic_file_begin(&second, path, 3), GPUR_FILE_ERROR, "somebody else is writing it");
    CHECK_OK(gpur_atomic_file_write(&first, "1st", 3, 0));
    CHECK_OK(gpur_atomic_file_commit(&first));
    CHECK_OK(gpur_atomic_file_begin(&second, path, 3));
    gpur_atomic_file_discard(&second);
    CHECK(holds(path, "1st"));
}

static mode_t mode_of(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 ? there.st_mode & 07777 : 0;
}

/* Replaces the file at `path`, if there is one, by "new". */
static gpur_status replace(const char *path)
{
    gpur_atomic_file file;
    GPUR_TRY(gpur_atomic_file_begin(&file, path, 3));
    gpur_status status = gpur_atomic_file_write(&file, "new", 3, 0);
    if (status == GPUR_OK)
        status = gpur_atomic_file_commit(&file);
    gpur_atomic_file_discard(&file);
    return status;
}

/* Also where a killed program left a temporary file, which is removed. */
TEST(a_file_keeps_its_permissions)
{
    static const mode_t modes[] = {0600, 0640, 0644, 0666, 0400, 0755};
    const char *const path = test_file_path("modes"), *const part = test_file_path("modes.part");
    gpur_atomic_file file;
    for (int left = 0; left < 2; left++)
        for (int i = 0; i < 6; i++) {
            unlink(path); /* the old one may be read-only */
            CHECK(write_file(path, "old", 3) == 0);
            CHECK(chmod(path, modes[i]) == 0);
            if (left)
                CHECK(write_file(part, "left by somebody", 16) == 0);
            CHECK_OK(gpur_atomic_file_begin(&file, path, 3));
            CHECK_EQUAL(mode_of(part), modes[i]);
            CHECK_OK(gpur_atomic_file_write(&file, "new", 3, 0));
            CHECK_OK(gpur_atomic_file_commit(&file));
            CHECK(holds(path, "new"));
            CHECK_EQUAL(mode_of(path), modes[i]);
        }
    CHECK(unlink(path) == 0);
    const mode_t mask = umask(027);
    const gpur_status status = replace(path);
    umask(mask);
    CHECK_OK(status);
    CHECK_EQUAL(mode_of(path), 0640); /* the process's umask applies to new files */
}

/* What a killed program left may be another name of a file that is wanted, with permissions that nobody asked for. */
TEST(a_left_temporary_file_is_not_written_into)
{
    const char *const path = test_file_path("left"), *const part = test_file_path("left.part");
    const char *const backup = test_file_path("backup");
    CHECK(write_file(backup, "old", 3) == 0);
    CHECK(link(backup, part) == 0);
    CHECK(chmod(part, 0600) == 0);
    const mode_t mask = umask(022);
    const gpur_status status = replace(path);
    umask(mask);
    CHECK_OK(status);
    CHECK(holds(path, "new") && holds(backup, "old"));
    CHECK_EQUAL(mode_of(path), 0644);
    unlink(path);
    CHECK(mkfifo(part, 0600) == 0);
    CHECK_FAILS(replace(path), GPUR_FILE_ERROR, "left.part is no ordinary file");
    unlink(part);
}

/* A relative path means the folder that was the current one when the file was begun. */
TEST(the_current_folder_may_change_meanwhile)
{
    char before[1024], path[256];
    gpur_atomic_file file;
    snprintf(path, sizeof path, "%s", test_file_path("moved"));
    TEST_REQUIRE(path[0] != '/' && getcwd(before, sizeof before), "%s must be relative", path);
    for (int commits = 1; commits >= 0; commits--) {
        CHECK_OK(gpur_atomic_file_begin(&file, path, 3));
        CHECK(chdir("/") == 0);
        CHECK_OK(gpur_atomic_file_write(&file, "new", 3, 0));
        if (commits)
            CHECK_OK(gpur_atomic_file_commit(&file));
        gpur_atomic_file_discard(&file);
        CHECK(chdir(before) == 0);
        CHECK(holds(path, "new"));
        CHECK_EQUAL(mode_of(test_file_path("moved.part")), 0);
    }
}

TEST(a_file_keeps_its_owner)
{
    const char *const path = test_file_path("owned");
    struct stat there;
    CHECK(write_file(path, "old", 3) == 0);
    if (chown(path, 12345, 54321) != 0) {
        printf("  a file could not be given away (not root): owners were not tried\n");
        return;
    }
    CHECK(chmod(path, 0640) == 0);
    CHECK_OK(replace(path));
    CHECK(stat(path, &there) == 0);
    CHECK(there.st_uid == 12345 && there.st_gid == 54321 && (there.st_mode & 07777) == 0640);
}

/* Replaces a file, if there is an `old` one, while the nth system call of these kinds fails (0: none), or all from that
 * one on. Returns how many calls of these kinds there were. */
static int64_t replace_failing(const char *path, const char *old, int kinds, int64_t nth, int always,
                               gpur_status *status)
{
    unlink(path);
    if (old)
        (void)write_file(path, old, (int64_t)strlen(old));
    faults_begin(kinds, nth, always);
    *status = replace(path);
    return faults_end();
}

/* Afterwards either the file is the new one, or the call reports why the old one, or none, is still there. */
static void check_failing_call(const char *path, const char *old, int64_t nth)
{
    gpur_status status = GPUR_OK;
    (void)replace_failing(path, old, FAULT_FILE, nth, FAULT_ONCE, &status);
    const char *const wanted = status == GPUR_OK ? "new" : old;
    if (status != GPUR_OK)
        CHECK_STATUS(status, GPUR_FILE_ERROR);
    if (strcmp(faults_name(), "unlinkat") == 0)
        unlink(test_file_path("calls.part")); /* the next save removes a temporary file that this one could not */
    TEST_REQUIRE(holds(path, wanted), "%s failed (call %lld, %s): %s, and there is not \"%s\" alone", faults_name(),
                 (long long)nth, old ? "over a file" : "no file", gpur_status_name(status),
                 wanted ? wanted : "nothing");
    CHECK_OK(replace(path));
    CHECK(holds(path, "new"));
}

TEST(each_failing_call_leaves_the_old_file_or_the_new_one)
{
    const char *const path = test_file_path("calls");
    for (int over = 0; over < 2; over++) {
        gpur_status status = GPUR_OK;
        const char *const old = over ? "old" : NULL;
        const int64_t calls = replace_failing(path, old, FAULT_FILE, 0, FAULT_ONCE, &status);
        CHECK_OK(status);
        CHECK(calls >= 10);
        for (int64_t nth = 1; nth <= calls; nth++)
            check_failing_call(path, old, nth);
    }
}

/* Under FAULT_EXCHANGE a file system is like NFS, which cannot exchange names: its folder is synced when the rename
 * can no longer be undone. */
TEST(a_folder_that_cannot_be_synced_has_the_file_that_the_message_says)
{
    static const struct {
        const char *old;
        int kinds, nth;
        const char *message, *left; /* NULL: no failure; no file */
    } cases[] = {
        {"old", FAULT_FSYNC, 2, "its folder cannot be synced; the old file is in its place: Input/output error", "old"},
        {NULL, FAULT_FSYNC, 2, "its folder cannot be synced", NULL},
        {"old", FAULT_EXCHANGE, 1, NULL, "new"},
        {"old", FAULT_EXCHANGE | FAULT_FSYNC, 2, "the new file is in its place", "new"},
    };
    const char *const path = test_file_path("synced");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_status status = GPUR_OK;
        (void)replace_failing(path, cases[i].old, cases[i].kinds, cases[i].nth, FAULT_ALWAYS, &status);
        CHECK_STATUS(status, cases[i].message ? GPUR_FILE_ERROR : GPUR_OK);
        CHECK_MESSAGE(cases[i].message ? cases[i].message : "");
        TEST_REQUIRE(holds(path, cases[i].left), "case %d left another file", (int)i);
    }
}

enum { RIVALS = 4, RIVAL_BYTES = 3000 };
static char rival_path[128];
static atomic_int written, other_errors;

/* Writes files of one letter, whenever no other thread is writing. */
static void *write_often(void *letter)
{
    char text[RIVAL_BYTES];
    memset(text, *(const char *)letter, sizeof text);
    for (int wanted = test_is_long() ? 20000 : 2000; wanted > 0 && atomic_load(&other_errors) == 0;) {
        gpur_atomic_file file;
        gpur_status status = gpur_atomic_file_begin(&file, rival_path, sizeof text);
        if (status == GPUR_OK)
            status = gpur_atomic_file_write(&file, text, sizeof text, 0);
        if (status == GPUR_OK)
            status = gpur_atomic_file_commit(&file);
        wanted -= status == GPUR_OK;
        atomic_fetch_add(&written, status == GPUR_OK);
        atomic_fetch_add(&other_errors, status != GPUR_OK && !strstr(gpur_last_error(), "somebody else"));
    }
    return NULL;
}

/* Returns 1 if the file has one letter throughout. */
static int is_whole(void)
{
    int64_t bytes = 0, same = 0;
    unsigned char *const data = read_file(rival_path, &bytes);
    for (int64_t i = 0; data && i < bytes; i++)
        same += data[i] == data[0];
    free(data);
    return same == RIVAL_BYTES;
}

TEST(rivals_leave_a_whole_file_at_any_time)
{
    static char letters[] = "abcd";
    pthread_t threads[RIVALS];
    int64_t torn = 0;
    /* On a file system in memory, if there is one: the threads then collide more often. */
    snprintf(rival_path, sizeof rival_path, "/dev/shm/gpureplay-rivals-%d", (int)getpid());
    if (access("/dev/shm", W_OK) != 0)
        snprintf(rival_path, sizeof rival_path, "%s", test_file_path("rivals"));
    for (int i = 0; i < RIVALS; i++)
        CHECK(pthread_create(&threads[i], NULL, write_often, &letters[i]) == 0);
    while (atomic_load(&written) == 0 && atomic_load(&other_errors) == 0)
        sched_yield();
    for (int i = 0; i < (test_is_long() ? 50000 : 2500); i++)
        torn += !is_whole();
    for (int i = 0; i < RIVALS; i++)
        pthread_join(threads[i], NULL);
    torn += !is_whole();
    unlink(rival_path);
    CHECK_EQUAL(atomic_load(&other_errors), 0);
    CHECK_EQUAL(torn, 0);
    CHECK_EQUAL(atomic_load(&written), RIVALS * (test_is_long() ? 20000 : 2000));
}

/* A limit on the size of files is reported before anything is written, and raises no signal. Where space cannot be
 * reserved, as if the limit came later, the write itself fails. */
TEST(a_file_without_room_is_refused)
{
    const char *const path = test_file_path("file");
    static const char data[4096];
    struct rlimit before, small;
    gpur_atomic_file file;
    CHECK(write_file(path, "old", 3) == 0);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before, small.rlim_cur = 1000;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    gpur_status refused = gpur_atomic_file_begin(&file, path, 1001);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_FAILS(refused, GPUR_FILE_ERROR, "1001 bytes: this process may write files of 1000 bytes");
    CHECK(holds(path, "old"));
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK_OK(gpur_atomic_file_begin(&file, path, sizeof data));
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    refused = gpur_atomic_file_write(&file, data, sizeof data, 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    signal(SIGXFSZ, handler);
    CHECK_FAILS(refused, GPUR_FILE_ERROR, "no room for its 4096 bytes");
    CHECK_MESSAGE("bytes are free");
    gpur_atomic_file_discard(&file);
    CHECK(holds(path, "old"));
}

/* Space is reserved at first, on a file system of 256 KiB, which root alone can mount. */
TEST(a_full_disk_is_reported_and_the_old_file_stays)
{
    const char *const folder = test_file_path("small"), *const path = test_file_path("small/file");
    gpur_atomic_file file;
    if (mkdir(folder, 0700) != 0 || mount("none", folder, "tmpfs", 0, "size=256k") != 0) {
        printf("  no small file system could be mounted (not root): RLIMIT_FSIZE alone was tried\n");
        rmdir(folder);
        return;
    }
    const int failed = write_file(path, "old", 3);
    const gpur_status refused = gpur_atomic_file_begin(&file, path, 1 << 20);
    gpur_atomic_file_discard(&file);
    const int is_left = holds(path, "old");
    umount(folder);
    rmdir(folder);
    CHECK(failed == 0 && is_left);
    CHECK_FAILS(refused, GPUR_FILE_ERROR, "no room for its 1048576 bytes");
    CHECK_MESSAGE("No space left on device; ");
    CHECK_MESSAGE(" bytes are free");
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_file_is_replaced_when_it_is_committed_and_only_then);
    RUN(two_do_not_write_one_file);
    RUN(a_file_keeps_its_permissions);
    RUN(a_left_temporary_file_is_not_written_into);
    RUN(the_current_folder_may_change_meanwhile);
    RUN(a_file_keeps_its_owner);
    RUN(each_failing_call_leaves_the_old_file_or_the_new_one);
    RUN(a_folder_that_cannot_be_synced_has_the_file_that_the_message_says);
    RUN(rivals_leave_a_whole_file_at_any_time);
    RUN(a_file_without_room_is_refused);
    RUN(a_full_disk_is_reported_and_the_old_file_stays);
    test_remove_folder();
    return test_main_end();
}
