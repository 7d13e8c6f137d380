/* SPDX-License-Identifier: MIT */
#include "files.h"

#include "failure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int path_make(char path[MAX_PATH], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, MAX_PATH, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= MAX_PATH)
        return fail("the path %s... has %d bytes; it must have less than %d", path, length, MAX_PATH);
    return 0;
}

int path_exists(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0;
}

int folder_make(const char *path)
{
    char part[MAX_PATH];
    TRY(path_make(part, "%s/", path));
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return fail("cannot make the folder %s: %s", part, strerror(errno));
        *slash = '/';
    }
    struct stat made;
    if (stat(path, &made) != 0 || !S_ISDIR(made.st_mode))
        return fail("%s is not a folder", path);
    return 0;
}

int folder_sync(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return fail("cannot open the folder %s: %s", path, strerror(errno));
    const int result = fsync(folder) == 0 ? 0 : fail("cannot sync the folder %s: %s", path, strerror(errno));
    close(folder);
    return result;
}

int folder_remove(const char *path)
{
    DIR *const folder = opendir(path);
    if (!folder)
        return errno == ENOENT ? 0 : fail("cannot open the folder %s: %s", path, strerror(errno));
    int result = 0;
    for (struct dirent *entry = readdir(folder); entry && result == 0; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            result = fail("cannot remove %s/%s: %s", path, entry->d_name, strerror(errno));
    closedir(folder);
    if (result == 0 && rmdir(path) != 0)
        result = fail("cannot remove %s: %s", path, strerror(errno));
    return result;
}

int path_rename(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return fail("cannot rename %s to %s: %s", from, to, strerror(errno));
    return 0;
}

int write_all(int file, const char *bytes, size_t count, const char *path)
{
    while (count > 0) {
        const ssize_t written = write(file, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail("cannot write %s: %s", path, strerror(errno));
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

int file_write(const char *folder, const char *name, const text *contents)
{
    char path[MAX_PATH], part[MAX_PATH];
    TRY(path_make(path, "%s/%s", folder, name));
    TRY(path_make(part, "%s.part", path));
    if (!text_is_whole(contents))
        return fail("there is no memory for the text of %s", path);
    const int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return fail("cannot write %s: %s", part, strerror(errno));
    int result = write_all(file, contents->memory, contents->length, part);
    if (result == 0 && fsync(file) != 0)
        result = fail("cannot write %s: %s", part, strerror(errno));
    close(file);
    if (result == 0)
        result = path_rename(part, path);
    return result == 0 ? folder_sync(folder) : result;
}

int file_read(const char *path, text *contents)
{
    char bytes[4096];
    FILE *const file = fopen(path, "re");
    if (!file)
        return fail("cannot read %s: %s", path, strerror(errno));
    text_add(contents, "%s", ""); /* has memory, even if the file is empty */
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0;)
        text_add(contents, "%.*s", (int)count, bytes);
    const int result = ferror(file) ? fail("cannot read %s: %s", path, strerror(errno)) : 0;
    fclose(file);
    if (result == 0 && !text_is_whole(contents))
        return fail("there is no memory for the contents of %s", path);
    return result;
}
