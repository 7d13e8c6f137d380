/* SPDX-License-Identifier: MIT */
#include "train/files.h"

#include "file/atomic_file.h"

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

static gpur_status refuse(const char *what, const char *path)
{
    return gpur_fail(GPUR_FILE_ERROR, "cannot %s %s: %s", what, path, strerror(errno));
}

int gpur_file_exists(const char *folder, const char *name)
{
    char path[GPUR_MAX_PATH];
    struct stat found;
    return gpur_path_make(path, "%s/%s", folder, name) == GPUR_OK && lstat(path, &found) == 0;
}

gpur_status gpur_file_rename(const char *folder, const char *from, const char *to)
{
    char old[GPUR_MAX_PATH], new[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(old, "%s/%s", folder, from));
    GPUR_TRY(gpur_path_make(new, "%s/%s", folder, to));
    return rename(old, new) == 0 ? GPUR_OK : refuse("rename", old);
}

gpur_status gpur_file_remove(const char *folder, const char *name)
{
    char path[GPUR_MAX_PATH];
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, name));
    return unlink(path) == 0 || errno == ENOENT ? GPUR_OK : refuse("remove", path);
}

gpur_status gpur_folder_remove(const char *folder, const char *name)
{
    char path[GPUR_MAX_PATH];
    gpur_status status = GPUR_OK;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, name));
    DIR *const files = opendir(path);
    if (!files)
        return errno == ENOENT ? GPUR_OK : refuse("open the folder", path);
    for (struct dirent *entry = readdir(files); entry && status == GPUR_OK; entry = readdir(files))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = gpur_file_remove(path, entry->d_name);
    closedir(files);
    return status != GPUR_OK || rmdir(path) == 0 ? status : refuse("remove", path);
}

gpur_status gpur_folders_make(const char *path)
{
    char part[GPUR_MAX_PATH];
    struct stat made;
    GPUR_TRY(gpur_path_make(part, "%s/", path));
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return refuse("make the folder", part);
        *slash = '/';
    }
    if (stat(path, &made) != 0 || !S_ISDIR(made.st_mode))
        return gpur_fail(GPUR_FILE_ERROR, "%s is not a folder", path);
    return GPUR_OK;
}

gpur_status gpur_folder_sync(const char *path)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return refuse("open the folder", path);
    const gpur_status status = fsync(folder) == 0 ? GPUR_OK : refuse("sync the folder", path);
    close(folder);
    return status;
}

gpur_status gpur_text_file_write(const char *folder, const char *name, const gpur_text *contents)
{
    char path[GPUR_MAX_PATH];
    gpur_atomic_file file;
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, name));
    if (!gpur_text_is_whole(contents))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the contents of %s", path);
    GPUR_TRY(gpur_atomic_file_begin(&file, path, (int64_t)contents->length));
    gpur_status status = gpur_atomic_file_write(&file, contents->memory, (int64_t)contents->length, 0);
    if (status == GPUR_OK)
        status = gpur_atomic_file_commit(&file);
    gpur_atomic_file_discard(&file);
    return status;
}

gpur_status gpur_text_file_read(const char *folder, const char *name, gpur_text *contents)
{
    char path[GPUR_MAX_PATH], bytes[1 << 14];
    GPUR_TRY(gpur_path_make(path, "%s/%s", folder, name));
    FILE *const file = fopen(path, "re");
    if (!file)
        return refuse("read", path);
    gpur_text_add(contents, "%s", ""); /* has memory, even if the file is empty */
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0;)
        gpur_text_add_bytes(contents, bytes, count);
    const gpur_status status = ferror(file) ? refuse("read", path) : GPUR_OK;
    fclose(file);
    if (status == GPUR_OK && !gpur_text_is_whole(contents))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the contents of %s", path);
    return status;
}
