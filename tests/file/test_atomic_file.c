/* SPDX-License-Identifier: MIT */
/* gpur_atomic_file: a file is written completely or not at all, also when the disk is full. */
#include "file/atomic_file.h"
#include "support/faults.h"
#include "support/checkpoint_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns 1 if the file at `path` holds this text and no temporary file is left. */
static int holds(const char *path, const char *text)
{
    char part[160];
    snprintf(part, sizeof part, "%s.part", path);
    return file_is(path, (const unsigned char *)text, (int64_t)strlen(text)) && access(part, F_OK) != 0;
}

TEST(a_file_is_replaced_when_it_is_committed)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file file;
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_OK(gpur_atomic_file_begin(&file, path, 4));
    CHECK_OK(gpur_atomic_file_write(&file, "ew", 2, 1));
    CHECK_OK(gpur_atomic_file_write(&file, "n", 1, 0));
    CHECK_OK(gpur_atomic_file_write(&file, "!", 1, 3));
    CHECK(file_is(path, (const unsigned char *)"old", 3));
    CHECK_OK(gpur_atomic_file_commit(&file));
    CHECK(holds(path, "new!"));
}

TEST(an_abandoned_file_leaves_the_old_one)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file file;
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_OK(gpur_atomic_file_begin(&file, path, 3));
    CHECK_OK(gpur_atomic_file_write(&file, "new", 3, 0));
    gpur_atomic_file_discard(&file);
    gpur_atomic_file_discard(&file);
    CHECK(holds(path, "old"));
}

TEST(two_do_not_write_one_file)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file first, second;
    CHECK_OK(gpur_atomic_file_begin(&first, path, 3));
    CHECK_STATUS(gpur_atomic_file_begin(&second, path, 3), GPUR_FILE_ERROR);
    CHECK_MESSAGE("somebody else is writing it");
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

/* Also where a killed program left a temporary file, which is written over. */
TEST(a_file_keeps_its_permissions)
{
    static const mode_t modes[] = {0600, 0640, 0644, 0666, 0400, 0755};
    const char *const path = test_file_path("modes"), *const part = test_file_path("modes.part");
    gpur_atomic_file file;
    for (int left = 0; left < 2; left++)
        for (int i = 0; i < 6; i++) {
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
    CHECK_EQUAL(there.st_uid, 12345);
    CHECK_EQUAL(there.st_gid, 54321);
    CHECK_EQUAL(there.st_mode & 07777, 0640);
}

/* Replaces a file while the nth system call fails (0: none). Afterwards either the file is the new one, or the call
 * reports why the old one (or none) is still there. Returns the number of system calls. */
static int64_t replace_with_failure(const char *path, const char *old, int64_t nth, gpur_status *status)
{
    unlink(path);
    if (old)
        (void)write_file(path, old, (int64_t)strlen(old));
    faults_begin(FAULT_FILE, nth, FAULT_ONCE);
    *status = replace(path);
    return faults_end();
}

static void check_failing_call(const char *path, const char *old, int64_t nth)
{
    gpur_status status = GPUR_OK;
    (void)replace_with_failure(path, old, nth, &status);
    const char *const wanted = status == GPUR_OK ? "new" : old;
    char part[160];
    snprintf(part, sizeof part, "%s.part", path);
    if (status != GPUR_OK)
        CHECK_STATUS(status, GPUR_FILE_ERROR);
    if (strcmp(faults_name(), "unlink") == 0)
        unlink(part); /* a temporary file that could not be removed is reused by the next save */
    TEST_REQUIRE(wanted ? holds(path, wanted) : access(path, F_OK) != 0 && access(part, F_OK) != 0,
                 "%s failed (call %lld, %s): %s, and there is not \"%s\" alone", faults_name(), (long long)nth,
                 old ? "over a file" : "no file", gpur_status_name(status), wanted ? wanted : "nothing");
    CHECK_OK(replace(path));
    CHECK(holds(path, "new"));
}

TEST(each_failing_call_leaves_the_old_file_or_the_new_one)
{
    char path[128];
    snprintf(path, sizeof path, "%s", test_file_path("calls"));
    for (int over = 0; over < 2; over++) {
        gpur_status status = GPUR_OK;
        const char *const old = over ? "old" : NULL;
        const int64_t calls = replace_with_failure(path, old, 0, &status);
        CHECK_OK(status);
        CHECK(calls >= 10);
        for (int64_t nth = 1; nth <= calls; nth++)
            check_failing_call(path, old, nth);
    }
}

static gpur_status replace_without(const char *path, int kinds, int64_t nth)
{
    faults_begin(kinds, nth, FAULT_ALWAYS);
    const gpur_status status = replace(path);
    faults_end();
    return status;
}

TEST(a_folder_that_cannot_be_synced_keeps_the_old_file)
{
    const char *const path = test_file_path("synced");
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_STATUS(replace_without(path, FAULT_FSYNC, 2), GPUR_FILE_ERROR);
    CHECK_MESSAGE("its folder cannot be synced; the old file is in its place: Input/output error");
    CHECK(holds(path, "old"));
    CHECK(unlink(path) == 0);
    CHECK_STATUS(replace_without(path, FAULT_FSYNC, 2), GPUR_FILE_ERROR);
    CHECK(access(path, F_OK) != 0);
}

/* As on NFS, which cannot exchange names: the folder is synced when the rename can no longer be undone. */
TEST(a_file_system_without_exchange_tells_what_it_left)
{
    const char *const path = test_file_path("nfs");
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_OK(replace_without(path, FAULT_EXCHANGE, 1));
    CHECK(holds(path, "new"));
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_STATUS(replace_without(path, FAULT_EXCHANGE | FAULT_FSYNC, 2), GPUR_FILE_ERROR);
    CHECK_MESSAGE("the new file is in its place");
    CHECK(holds(path, "new"));
}

enum { RIVALS = 4 };
typedef struct rival {
    const char *path;
    char letter;
    int64_t wanted, written, other;
} rival;

/* Writes files of 3000 times one letter, whenever no other thread is writing. */
static void *write_often(void *context)
{
    rival *const r = context;
    char text[3000];
    memset(text, r->letter, sizeof text);
    while (r->written < r->wanted && r->other == 0) {
        gpur_atomic_file file;
        gpur_status status = gpur_atomic_file_begin(&file, r->path, sizeof text);
        if (status == GPUR_OK)
            status = gpur_atomic_file_write(&file, text, sizeof text, 0);
        if (status == GPUR_OK)
            status = gpur_atomic_file_commit(&file);
        r->written += status == GPUR_OK;
        r->other += status != GPUR_OK && !strstr(gpur_last_error(), "somebody else");
    }
    return NULL;
}

/* Returns 1 if the file is 3000 times one letter. */
static int is_whole(const char *path)
{
    int64_t bytes = 0, same = 0;
    unsigned char *const data = read_file(path, &bytes);
    for (int64_t i = 0; data && i < bytes; i++)
        same += data[i] == data[0];
    free(data);
    return same == 3000;
}

TEST(rivals_leave_a_whole_file_at_any_time)
{
    char path[128];
    pthread_t threads[RIVALS];
    rival rivals[RIVALS];
    int64_t written = 0, other = 0, torn = 0;
    /* On a file system in memory, if there is one: the threads then collide more often. */
    snprintf(path, sizeof path, "/dev/shm/gpureplay-rivals-%d", (int)getpid());
    if (access("/dev/shm", W_OK) != 0)
        snprintf(path, sizeof path, "%s", test_file_path("rivals"));
    rivals[0] = (rival){.path = path, .letter = 'a', .wanted = 1};
    write_often(&rivals[0]);
    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (rival){.path = path, .letter = (char)('a' + i), .wanted = test_is_long() ? 20000 : 2000};
        CHECK(pthread_create(&threads[i], NULL, write_often, &rivals[i]) == 0);
    }
    for (int i = 0; i < (test_is_long() ? 50000 : 2500); i++)
        torn += !is_whole(path);
    for (int i = 0; i < RIVALS; i++) {
        pthread_join(threads[i], NULL);
        written += rivals[i].written;
        other += rivals[i].other;
    }
    const int whole = is_whole(path);
    unlink(path);
    CHECK_EQUAL(other, 0);
    CHECK_EQUAL(torn, 0);
    CHECK(whole);
    CHECK_EQUAL(written, RIVALS * rivals[0].wanted);
}

/* Lets this process write files of at most `bytes`; 0: as before. */
static int limit_files(rlim_t bytes)
{
    static struct rlimit before;
    if (bytes == 0)
        return setrlimit(RLIMIT_FSIZE, &before) == 0;
    struct rlimit small;
    const int known = getrlimit(RLIMIT_FSIZE, &before) == 0;
    small = before;
    small.rlim_cur = bytes;
    return known && setrlimit(RLIMIT_FSIZE, &small) == 0;
}

TEST(a_limit_on_files_is_told_and_raises_no_signal)
{
    const char *const path = test_file_path("file");
    gpur_atomic_file file;
    CHECK(write_file(path, "old", 3) == 0);
    CHECK(limit_files(1000));
    const gpur_status refused = gpur_atomic_file_begin(&file, path, 1001);
    CHECK(limit_files(0));
    CHECK_STATUS(refused, GPUR_FILE_ERROR);
    CHECK_MESSAGE("1001 bytes: this process may write files of 1000 bytes");
    CHECK(holds(path, "old"));
}

/* As on a file system that cannot reserve space: the write itself fails. */
TEST(a_write_without_room_is_told)
{
    const char *const path = test_file_path("file");
    static const char data[4096];
    gpur_atomic_file file;
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK(write_file(path, "old", 3) == 0);
    CHECK_OK(gpur_atomic_file_begin(&file, path, sizeof data));
    CHECK(limit_files(1000));
    const gpur_status refused = gpur_atomic_file_write(&file, data, sizeof data, 0);
    CHECK(limit_files(0));
    signal(SIGXFSZ, handler);
    CHECK_STATUS(refused, GPUR_FILE_ERROR);
    CHECK_MESSAGE("no room for its 4096 bytes");
    CHECK_MESSAGE("bytes are free");
    gpur_atomic_file_discard(&file);
    CHECK(holds(path, "old"));
}

#ifdef GPUR_HAS_FILES

/* Mounts a file system of 256 KiB, which requires root. */
static int mount_small(const char *folder)
{
    return mkdir(folder, 0700) == 0 && mount("none", folder, "tmpfs", 0, "size=256k") == 0;
}

static void check_full_disk(replay_fixture *s, const char *path)
{
    gpur_checkpoint_info info = {.size = sizeof info};
    CHECK_OK(replay_fixture_append(s, 500));
    CHECK_OK(gpur_replay_save(s->replay, path, NULL));
    CHECK_OK(replay_fixture_append(s, 5000));
    CHECK_STATUS(gpur_replay_save(s->replay, path, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("no room for its ");
    CHECK_MESSAGE("No space left on device; ");
    CHECK_MESSAGE(" bytes are free");
    CHECK_EQUAL(gpur_replay_size(s->replay), 5500);
    CHECK_OK(gpur_checkpoint_get_info(path, &info));
    CHECK_EQUAL(info.rows, 500);
    CHECK_OK(gpur_replay_load(s->replay, path, NULL));
    CHECK_EQUAL(gpur_replay_size(s->replay), 500);
}

TEST(a_full_disk_is_told_and_the_old_file_stays)
{
    const gpur_replay_config config = replay_fixture_plain_config(10000, 64, 64, GPUR_FLUSH_AUTO);
    char folder[128], path[160], part[192];
    replay_fixture s;
    snprintf(folder, sizeof folder, "%s", test_file_path("small"));
    snprintf(path, sizeof path, "%s/saved", folder);
    snprintf(part, sizeof part, "%s.part", path);
    if (!mount_small(folder)) {
        printf("  no small file system could be mounted (not root): RLIMIT_FSIZE alone was tried\n");
        rmdir(folder);
        return;
    }
    if (replay_fixture_open(&s, test_device(), &config, 1))
        check_full_disk(&s, path);
    const int left = access(part, F_OK) == 0;
    replay_fixture_close(&s);
    umount(folder);
    rmdir(folder);
    CHECK(!left);
}

#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_file_is_replaced_when_it_is_committed);
    RUN(an_abandoned_file_leaves_the_old_one);
    RUN(two_do_not_write_one_file);
    RUN(a_file_keeps_its_permissions);
    RUN(a_file_keeps_its_owner);
    RUN(each_failing_call_leaves_the_old_file_or_the_new_one);
    RUN(a_folder_that_cannot_be_synced_keeps_the_old_file);
    RUN(a_file_system_without_exchange_tells_what_it_left);
    RUN(rivals_leave_a_whole_file_at_any_time);
    RUN(a_limit_on_files_is_told_and_raises_no_signal);
    RUN(a_write_without_room_is_told);
#ifdef GPUR_HAS_FILES
    RUN(a_full_disk_is_told_and_the_old_file_stays);
#endif
    test_remove_folder();
    return test_main_end();
}
