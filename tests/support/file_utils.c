/* SPDX-License-Identifier: MIT */
#include "support/file_utils.h"

#include <fcntl.h>
#include <ftw.h>
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
    const int file = open(path, O_WRONLY | O_CREAT, 0666);
    if (file < 0)
        return -1;
    const int good = pwrite(file, data, (size_t)bytes, 0) == bytes && ftruncate(file, bytes) == 0;
    return close(file) == 0 && good ? 0 : -1;
}

int file_is(const char *path, const unsigned char *data, int64_t bytes)
{
    int64_t there = 0;
    unsigned char *const got = read_file(path, &there);
    const int same = got && data && there == bytes && memcmp(got, data, (size_t)bytes) == 0;
    free(got);
    return same;
}

int files_are_same(const char *path, const char *other)
{
    int64_t bytes = 0;
    unsigned char *const data = read_file(path, &bytes);
    const int same = file_is(other, data, bytes);
    free(data);
    return same;
}

int replay_is_as(gpur_replay *replay, const char *path)
{
    const char *const again = test_file_path("again");
    return gpur_replay_save(replay, again, NULL) == GPUR_OK && files_are_same(again, path);
}

static char folder[64], paths[32][128];
static int path_count;

const char *test_file_path(const char *name)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "gpureplay-files-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    for (int i = 0; i < path_count; i++)
        if (strcmp(paths[i] + strlen(folder) + 1, name) == 0)
            return paths[i];
    if (path_count == (int)(sizeof paths / sizeof *paths))
        abort();
    snprintf(paths[path_count], sizeof *paths, "%s/%s", folder, name);
    return paths[path_count++];
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    (void)remove(path);
    return 0;
}

/* Folders in it, too. */
void test_remove_folder(void)
{
    if (folder[0])
        (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    folder[0] = 0;
    path_count = 0;
}

void forge_checksums(const gpur_tensors *tensors, unsigned char *file, int64_t bytes, int64_t data_at)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(tensors, "checksums");
    const int64_t count = entry && entry->begin == 0 && entry->type == GPUR_I64 ? entry->end / 8 : 0;
    uint64_t *const checksums = count >= 2 ? calloc((size_t)count, sizeof *checksums) : NULL;
    if (!checksums)
        return;
    for (int64_t i = 0; i < count - 2; i++) {
        const int64_t begin = data_at + entry->end + i * GPUR_CHUNK;
        const int64_t end = begin + GPUR_CHUNK < bytes ? begin + GPUR_CHUNK : bytes;
        checksums[i] = begin < end ? gpur_checksum(file + begin, end - begin) : 0;
    }
    checksums[count - 2] = gpur_checksum(file, data_at);
    checksums[count - 1] = gpur_checksum(checksums, (count - 1) * 8);
    memcpy(file + data_at, checksums, (size_t)count * 8);
    free(checksums);
}

int write_forged(const gpur_checkpoint *file, const unsigned char *data, const char *path)
{
    unsigned char *head = NULL;
    int64_t head_bytes = 0;
    if (gpur_tensors_print(&file->tensors, &head, &head_bytes) != GPUR_OK)
        return -1;
    const int64_t bytes = head_bytes + file->data_bytes;
    unsigned char *const all = malloc((size_t)bytes);
    int failed = -1;
    if (all) {
        memcpy(all, head, (size_t)head_bytes);
        memcpy(all + head_bytes, data + file->data_at, (size_t)file->data_bytes);
        forge_checksums(&file->tensors, all, bytes, head_bytes);
        failed = write_file(path, all, bytes);
    }
    free(all);
    free(head);
    return failed;
}
