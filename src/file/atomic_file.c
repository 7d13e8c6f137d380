/* SPDX-License-Identifier: MIT */
#include "file/atomic_file.h"

#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    TRIES = 100,           /* to lock a file that other processes rename at the same time */
    EARLY_BYTES = 8 << 20, /* bytes to collect before write-back is started */
};

static gpur_status refuse(const gpur_atomic_file *file, const char *what)
{
    return gpur_fail(GPUR_FILE_ERROR, "%s: %s: %s", file->path, what, strerror(errno));
}

static gpur_status refuse_room(const gpur_atomic_file *file, const char *why)
{
    struct statvfs room;
    if (fstatvfs(file->folder, &room) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s: no room for its %" PRId64 " bytes: %s", file->path, file->bytes, why);
    return gpur_fail(GPUR_FILE_ERROR,
                     "%s: no room for its %" PRId64 " bytes: %s; %" PRIu64 " bytes are free on that file system",
                     file->path, file->bytes, why, (uint64_t)room.f_bavail * room.f_frsize);
}

static int is_about_room(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Returns the length of the folder part of `path`, including the last slash; 0 means the current folder. */
static size_t folder_length(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static gpur_status open_folder(gpur_atomic_file *file)
{
    const size_t length = folder_length(file->path);
    char *const name = length ? strndup(file->path, length) : strdup(".");
    if (!name)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the name of a folder");
    file->folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const gpur_status status = file->folder >= 0 ? GPUR_OK : refuse(file, "its folder cannot be opened");
    free(name);
    return status;
}

/* Only an ordinary file may be replaced. */
static gpur_status check_target(gpur_atomic_file *file, struct stat *old)
{
    if (fstatat(file->folder, file->name, old, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? GPUR_OK : refuse(file, "cannot be looked at");
    file->replaces = 1;
    if (S_ISREG(old->st_mode))
        return GPUR_OK;
    return gpur_fail(GPUR_FILE_ERROR, "%s is %s; a file is to be written there", file->path,
                     S_ISDIR(old->st_mode)   ? "a folder"
                     : S_ISLNK(old->st_mode) ? "a symbolic link, which would be replaced: name what it points to"
                                             : "no ordinary file");
}

/* Returns 1 if the open file has this name. */
static int has_name(const gpur_atomic_file *file, const char *name)
{
    struct stat opened, there;
    return fstat(file->descriptor, &opened) == 0 && fstatat(file->folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

/* What a killed program left behind may have other names, another owner and other permissions. */
static gpur_status remove_left_file(const gpur_atomic_file *file)
{
    struct stat left;
    if (!has_name(file, file->part_name))
        return GPUR_OK;
    if (fstat(file->descriptor, &left) == 0 && !S_ISREG(left.st_mode))
        return gpur_fail(GPUR_FILE_ERROR, "%s is no ordinary file; it would be written first", file->part);
    return unlinkat(file->folder, file->part_name, 0) == 0 ? GPUR_OK
                                                           : refuse(file, "a file beside it (.part) cannot be removed");
}

/* Leaves *done 0 if there was such a file, or another process removed or renamed ours before our lock; the caller then
 * tries again. A file that replaces another one starts with mode 0600, so that no other user can read it before it has
 * the permissions of the old one. */
static gpur_status try_to_lock(gpur_atomic_file *file, int *done)
{
    const mode_t mode = file->replaces ? 0600 : 0666;
    const int how = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    file->descriptor = openat(file->folder, file->part_name, how | O_CREAT | O_EXCL, mode);
    const int is_new = file->descriptor >= 0;
    if (!is_new && errno == EEXIST) {
        file->descriptor = openat(file->folder, file->part_name, how);
        if (file->descriptor < 0 && errno == EACCES) /* it has the permissions of the file that it was to replace */
            file->descriptor = openat(file->folder, file->part_name, (how & ~O_ACCMODE) | O_RDONLY);
        if (file->descriptor < 0 && errno == ENOENT)
            return GPUR_OK;
    }
    if (file->descriptor < 0)
        return refuse(file, "a file beside it (.part) cannot be made");
    if (flock(file->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return gpur_fail(GPUR_FILE_ERROR, "%s: somebody else is writing it: %s is locked", file->path, file->part);
    if (!is_new)
        return remove_left_file(file);
    *done = has_name(file, file->part_name);
    return GPUR_OK;
}

/* Only the process that has locked `part` may remove it. So a failure before the lock only closes the descriptor. */
static gpur_status lock_part_file(gpur_atomic_file *file)
{
    gpur_status status = GPUR_OK;
    int done = 0;
    for (int i = 0; i < TRIES && status == GPUR_OK && !done; i++) {
        status = try_to_lock(file, &done);
        if (!done && file->descriptor >= 0) {
            close(file->descriptor);
            file->descriptor = -1;
        }
    }
    if (status == GPUR_OK && !done)
        return gpur_fail(GPUR_FILE_ERROR, "%s: others keep on writing it", file->path);
    return status;
}

/* Copies the owner, group and permissions of the old file. Only root may change the owner, and the group must be one of
 * the process's own, so failing to set these is not an error; failing to set the permissions is. The permissions are
 * set last because chown clears some of them. */
static gpur_status copy_permissions(const gpur_atomic_file *file, const struct stat *old)
{
    struct stat ours;
    if (fstat(file->descriptor, &ours) != 0)
        return refuse(file, "a file beside it (.part) cannot be looked at");
    if ((ours.st_uid != old->st_uid || ours.st_gid != old->st_gid) &&
        fchown(file->descriptor, old->st_uid, old->st_gid) != 0 &&
        fchown(file->descriptor, (uid_t)-1, old->st_gid) != 0)
        errno = 0; /* owner and group stay those of this process */
    if (fchmod(file->descriptor, old->st_mode & 0777) != 0 && (ours.st_mode ^ old->st_mode) & 0777)
        return refuse(file, "a file beside it (.part) cannot be given its permissions");
    return GPUR_OK;
}

/* A write beyond RLIMIT_FSIZE raises a signal that by default ends the program, so check the limit first. */
static gpur_status check_limit(const gpur_atomic_file *file)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= (rlim_t)file->bytes)
        return GPUR_OK;
    return gpur_fail(GPUR_FILE_ERROR,
                     "%s: no room for its %" PRId64 " bytes: this process may write files of %" PRIu64
                     " bytes (RLIMIT_FSIZE)",
                     file->path, file->bytes, (uint64_t)limit.rlim_cur);
}

static gpur_status reserve_space(gpur_atomic_file *file)
{
    int result;
    if (ftruncate(file->descriptor, 0) != 0)
        return refuse(file, "cannot be emptied");
    GPUR_TRY(check_limit(file));
    do
        result = gpur_file_reserve(file->descriptor, file->bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && is_about_room(errno))
        return refuse_room(file, strerror(errno));
    return GPUR_OK; /* a file system that cannot reserve space reports a lack of it when data is written */
}

static gpur_status open_all(gpur_atomic_file *file)
{
    const size_t length = strlen(file->path);
    struct stat old;
    GPUR_REQUIRE(length > 0, "path is \"\"; it must be that of a file");
    file->part = malloc(length + sizeof ".part");
    if (!file->part)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the name of a file");
    snprintf(file->part, length + sizeof ".part", "%s.part", file->path);
    file->name = file->path + folder_length(file->path), file->part_name = file->part + folder_length(file->path);
    GPUR_TRY(open_folder(file));
    GPUR_TRY(check_target(file, &old));
    GPUR_TRY(lock_part_file(file));
    if (file->replaces)
        GPUR_TRY(copy_permissions(file, &old));
    return reserve_space(file);
}

gpur_status gpur_atomic_file_begin(gpur_atomic_file *file, const char *path, int64_t bytes)
{
    *file = (gpur_atomic_file){.path = path, .descriptor = -1, .folder = -1, .bytes = bytes};
    const gpur_status status = open_all(file);
    if (status != GPUR_OK)
        gpur_atomic_file_discard(file);
    return status;
}

/* Starts write-back of the data written so far, to leave less work for the final sync. */
static void start_writing(gpur_atomic_file *file, int64_t end)
{
    if (end - file->writeback_bytes < EARLY_BYTES)
        return;
    gpur_file_start_writing(file->descriptor, file->writeback_bytes, end - file->writeback_bytes);
    file->writeback_bytes = end;
}

gpur_status gpur_atomic_file_write(gpur_atomic_file *file, const void *data, int64_t bytes, int64_t offset)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        const ssize_t written = pwrite(file->descriptor, from, (size_t)bytes, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && is_about_room(errno))
            return refuse_room(file, strerror(errno));
        if (written <= 0)
            return refuse(file, "cannot be written");
        from += written, offset += written, bytes -= written;
    }
    start_writing(file, offset);
    return GPUR_OK;
}

static int sync_fully(int descriptor)
{
    int result;
    do
        result = gpur_file_sync(descriptor);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Some file systems do not support syncing a folder, and do not need it. */
static int sync_folder(const gpur_atomic_file *file)
{
    return sync_fully(file->folder) != 0 && errno != EINVAL && errno != ENOTSUP ? -1 : 0;
}

/* Opens and locks the file at `path`. While it has the name of `part`, the lock prevents other processes from taking it
 * for an abandoned temporary file. Returns -1 if there is no such file or it cannot be opened or locked. */
static int open_old(const gpur_atomic_file *file)
{
    struct stat there;
    const int old = openat(file->folder, file->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (old < 0)
        return -1;
    if (fstat(old, &there) == 0 && S_ISREG(there.st_mode) && flock(old, LOCK_EX | LOCK_NB) == 0)
        return old;
    close(old);
    return -1;
}

static int exchange_names(const gpur_atomic_file *file)
{
    return gpur_file_exchange(file->folder, file->part_name, file->name);
}

/* Closes the file, which releases its lock. There is no temporary file any more that gpur_atomic_file_discard could
 * remove. */
static void close_file(gpur_atomic_file *file)
{
    close(file->descriptor);
    file->descriptor = -1;
}

static gpur_status refuse_unsynced(const gpur_atomic_file *file, int error)
{
    errno = error;
    return refuse(file, "the new file is in its place, but might not be there after a crash of the machine, as its "
                        "folder cannot be synced");
}

/* The old file has the name `part` now. Removes it once the folder is synced, or else exchanges the names back. */
static gpur_status end_exchange(gpur_atomic_file *file)
{
    const int error = sync_folder(file) == 0 ? 0 : errno;
    if (error != 0 && exchange_names(file) == 0) {
        errno = error;
        return refuse(file, "its folder cannot be synced; the old file is in its place");
    }
    unlinkat(file->folder, file->part_name, 0);
    close_file(file);
    return error == 0 ? GPUR_OK : refuse_unsynced(file, error);
}

/* After a plain rename. If the folder cannot be synced, this can be undone only where there was no old file. */
static gpur_status end_rename(gpur_atomic_file *file)
{
    const int error = sync_folder(file) == 0 ? 0 : errno;
    const int undone =
        error != 0 && !file->replaces && has_name(file, file->name) && unlinkat(file->folder, file->name, 0) == 0;
    close_file(file);
    if (error == 0)
        return GPUR_OK;
    if (!undone)
        return refuse_unsynced(file, error);
    errno = error;
    return refuse(file, "its folder cannot be synced");
}

static gpur_status replace_target(gpur_atomic_file *file)
{
    const int old = open_old(file);
    if (old >= 0 && exchange_names(file) == 0) {
        const gpur_status status = end_exchange(file);
        close(old);
        return status;
    }
    if (old >= 0)
        close(old);
    if (renameat(file->folder, file->part_name, file->folder, file->name) != 0)
        return refuse(file, "cannot be put in its place");
    return end_rename(file);
}

static gpur_status commit(gpur_atomic_file *file)
{
    if (sync_fully(file->descriptor) != 0)
        return is_about_room(errno) ? refuse_room(file, strerror(errno)) : refuse(file, "cannot be synced");
    return replace_target(file);
}

gpur_status gpur_atomic_file_commit(gpur_atomic_file *file)
{
    const gpur_status status = commit(file);
    gpur_atomic_file_discard(file);
    return status;
}

void gpur_atomic_file_discard(gpur_atomic_file *file)
{
    if (file->descriptor >= 0) {
        unlinkat(file->folder, file->part_name, 0);
        close(file->descriptor);
    }
    if (file->folder >= 0)
        close(file->folder);
    free(file->part);
    *file = (gpur_atomic_file){.descriptor = -1, .folder = -1};
}
