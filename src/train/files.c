/* SPDX-License-Identifier: MIT */
#include "train/files.h"

#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gpur_status gpur_path_make(char path[GPUR_MAX_PATH], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, GPUR_MAX_PATH, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= GPUR_MAX_PATH)
        return gpur_fail(GPUR_FILE_ERROR, "the path %s... has %d bytes; it must have less than %d", path, length,
                         GPUR_MAX_PATH);
    return GPUR_OK;
}

int gpur_path_exists(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0;
}

gpur_status gpur_folders_make(const char *path)
{
    char part[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(part, "%s/", path));
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return gpur_fail(GPUR_FILE_ERROR, "cannot make the folder %s: %s", part, strerror(errno));
        *slash = '/';
    }
    struct stat made;
    if (stat(path, &made) != 0 || !S_ISDIR(made.st_mode))
        return gpur_fail(GPUR_FILE_ERROR, "%s is not a folder", path);
    return GPUR_OK;
}

gpur_status gpur_folder_sync(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return gpur_fail(GPUR_FILE_ERROR, "cannot open the folder %s: %s", path, strerror(errno));
    const gpur_status result = fsync(folder) == 0
                                   ? GPUR_OK
                                   : gpur_fail(GPUR_FILE_ERROR, "cannot sync the folder %s: %s", path, strerror(errno));
    close(folder);
    return result;
}

gpur_status gpur_folder_remove(const char *path)
{
    DIR *const folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? GPUR_OK
                               : gpur_fail(GPUR_FILE_ERROR, "cannot open the folder %s: %s", path, strerror(errno));
    gpur_status result = GPUR_OK;
    for (struct dirent *entry = readdir(folder); entry && result == GPUR_OK; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            result = gpur_fail(GPUR_FILE_ERROR, "cannot remove %s/%s: %s", path, entry->d_name, strerror(errno));
    closedir(folder);
    if (result == GPUR_OK && rmdir(path) != 0)
        result = gpur_fail(GPUR_FILE_ERROR, "cannot remove %s: %s", path, strerror(errno));
    return result;
}

gpur_status gpur_path_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "cannot rename %s to %s: %s", from, to, strerror(errno));
    return GPUR_OK;
}

gpur_status gpur_write_all(int file, const char *bytes, size_t count, const char *path)
{
    while (count > 0) {
        const ssize_t written = write(file, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return gpur_fail(GPUR_FILE_ERROR, "cannot write %s: %s", path, strerror(errno));
        bytes += written;
        count -= (size_t)written;
    }
    return GPUR_OK;
}

/* Puts a file that was written as PATH.part in its place, if it was written whole. Closes it. */
static gpur_status finish_part(int file, gpur_status status, const char *part, const char *path)
{
    if (status == GPUR_OK && fsync(file) != 0)
        status = gpur_fail(GPUR_FILE_ERROR, "cannot write %s: %s", part, strerror(errno));
    close(file);
    return status == GPUR_OK ? gpur_path_rename(part, path) : status;
}

static gpur_status begin_part(const char *path, char part[GPUR_MAX_PATH], int *file)
{
    GPUR_TRY(gpur_path_make(part, "%s.part", path));
    *file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *file >= 0 ? GPUR_OK : gpur_fail(GPUR_FILE_ERROR, "cannot write %s: %s", part, strerror(errno));
}

gpur_status gpur_text_file_write(const char *folder, const char *name, const gpur_text *contents)
{
    char path[GPUR_MAX_PATH], part[GPUR_MAX_PATH];
    int file;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, name));
    if (!gpur_text_is_whole(contents))
        return gpur_fail(GPUR_FILE_ERROR, "there is no memory for the text of %s", path);
    GPUR_TRY(begin_part(path, part, &file));
    const gpur_status status = gpur_write_all(file, contents->memory, contents->length, part);
    GPUR_TRY(finish_part(file, status, part, path));
    return gpur_folder_sync(folder);
}

static gpur_status copy_bytes(FILE *from, const char *from_path, int to, const char *to_path)
{
    char bytes[1 << 16];
    gpur_status status = GPUR_OK;
    for (size_t count; status == GPUR_OK && (count = fread(bytes, 1, sizeof bytes, from)) > 0;)
        status = gpur_write_all(to, bytes, count, to_path);
    return status == GPUR_OK && ferror(from)
               ? gpur_fail(GPUR_FILE_ERROR, "cannot read %s: %s", from_path, strerror(errno))
               : status;
}

gpur_status gpur_file_copy(const char *from, const char *to)
{
    char part[GPUR_MAX_PATH];
    int file = -1;
    FILE *const source = fopen(from, "re");
    if (!source)
        return gpur_fail(GPUR_FILE_ERROR, "cannot read %s: %s", from, strerror(errno));
    gpur_status status = begin_part(to, part, &file);
    if (status == GPUR_OK)
        status = finish_part(file, copy_bytes(source, from, file, part), part, to);
    fclose(source);
    return status;
}

gpur_status gpur_text_file_read(const char *path, gpur_text *contents)
{
    char bytes[4096];
    FILE *const file = fopen(path, "re");
    if (!file)
        return gpur_fail(GPUR_FILE_ERROR, "cannot read %s: %s", path, strerror(errno));
    gpur_text_add(contents, "%s", ""); /* has memory, even if the file is empty */
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0;)
        gpur_text_add(contents, "%.*s", (int)count, bytes);
    const gpur_status result =
        ferror(file) ? gpur_fail(GPUR_FILE_ERROR, "cannot read %s: %s", path, strerror(errno)) : GPUR_OK;
    fclose(file);
    if (result == GPUR_OK && !gpur_text_is_whole(contents))
        return gpur_fail(GPUR_FILE_ERROR, "there is no memory for the contents of %s", path);
    return result;
}
