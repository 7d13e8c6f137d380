/* SPDX-License-Identifier: MIT */
#include "support/file_kit.h"

#include "support/replay_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned char *read_file(const char *path, int64_t *bytes)
{
    FILE *const file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = ftell(file);
    rewind(file);
    unsigned char *data = malloc((size_t)*bytes + 1);
    if (data && fread(data, 1, (size_t)*bytes, file) != (size_t)*bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

int write_file(const char *path, const void *data, int64_t bytes)
{
    unlink(path); /* a file that is emptied and written anew is flushed by some file systems at once */
    FILE *const file = fopen(path, "wb");
    if (!file)
        return -1;
    const int good = fwrite(data, 1, (size_t)bytes, file) == (size_t)bytes;
    return fclose(file) == 0 && good ? 0 : -1;
}

int overwrite_file(const char *path, const void *data, int64_t bytes)
{
    const int file = open(path, O_WRONLY);
    if (file < 0)
        return -1;
    const int good = pwrite(file, data, (size_t)bytes, 0) == bytes && ftruncate(file, bytes) == 0;
    return close(file) == 0 && good ? 0 : -1;
}

static char folder[64];

const char *scene_path(const char *name)
{
    static char paths[4][128];
    static int next;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "gpureplay-files-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void scene_remove_folder(void)
{
    DIR *const open = folder[0] ? opendir(folder) : NULL;
    char path[512];
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open)) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (open)
        closedir(open);
    rmdir(folder);
    folder[0] = 0;
}

int64_t damage_file(unsigned char *data, int64_t bytes, int64_t head, uint64_t *random)
{
    const int64_t where = kit_below(random, kit_below(random, 2) ? head : bytes);
    const int64_t other = kit_below(random, bytes), run = 1 + kit_below(random, 64);
    const int64_t length = where + run < bytes ? run : bytes - where;
    switch (kit_below(random, 7)) {
    case 0:
        data[where] = (unsigned char)kit_below(random, 256);
        break;
    case 1:
        memset(data + where, kit_below(random, 2) ? 0 : 0xFF, (size_t)length);
        break;
    case 2:
        memmove(data + where, data + where + length, (size_t)(bytes - where - length));
        return bytes - length;
    case 3:
        memmove(data + where + run, data + where, (size_t)(bytes - where));
        return bytes + run;
    case 4:
        memmove(data + where, data + other, (size_t)(length < bytes - other ? length : bytes - other));
        break;
    case 5: /* another digit, quote or bracket: what headers are made of */
        data[where] = (unsigned char)"0123456789\"{}[]:,- "[kit_below(random, 19)];
        break;
    default:
        data[where] ^= (unsigned char)(1 << kit_below(random, 8));
    }
    return bytes;
}
