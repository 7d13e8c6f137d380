/* SPDX-License-Identifier: MIT */
#include "support/file_utils.h"

#include "support/replay_fixture.h"

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

static char folder[64];

const char *test_file_path(const char *name)
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

void test_remove_folder(void)
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
    const int64_t where = xorshift_below(random, xorshift_below(random, 2) ? head : bytes);
    const int64_t other = xorshift_below(random, bytes), run = 1 + xorshift_below(random, 64);
    const int64_t length = where + run < bytes ? run : bytes - where;
    switch (xorshift_below(random, 7)) {
    case 0:
        data[where] = (unsigned char)xorshift_below(random, 256);
        break;
    case 1:
        memset(data + where, xorshift_below(random, 2) ? 0 : 0xFF, (size_t)length);
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
        data[where] = (unsigned char)"0123456789\"{}[]:,- "[xorshift_below(random, 19)];
        break;
    default:
        data[where] ^= (unsigned char)(1 << xorshift_below(random, 8));
    }
    return bytes;
}

int forgery_open(forgery *f, const char *path)
{
    int64_t bytes = 0;
    *f = (forgery){.data = NULL};
    if (gpur_checkpoint_open(&f->file, path) != GPUR_OK)
        return 0;
    f->data = read_file(path, &bytes);
    if (f->data)
        memmove(f->data, f->data + f->file.data_at, (size_t)f->file.data_bytes);
    return f->data != NULL;
}

void forgery_close(forgery *f)
{
    free(f->data);
    gpur_checkpoint_close(&f->file);
}

int forgery_note(forgery *f, const char *key, const char *value)
{
    for (int32_t i = 0; i < f->file.tensors.metadata_count; i++) {
        gpur_metadata_entry *const note = &f->file.tensors.metadata[i];
        if (strcmp(note->key, key) == 0)
            return snprintf(note->value, sizeof note->value, "%s", value) >= 0;
    }
    return 0;
}

unsigned char *forgery_tensor(forgery *f, const char *name)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&f->file.tensors, name);
    return entry ? f->data + entry->begin : NULL;
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

int forgery_write(const forgery *f, const char *path)
{
    unsigned char *head = NULL;
    int64_t head_bytes = 0;
    if (gpur_tensors_print(&f->file.tensors, &head, &head_bytes) != GPUR_OK)
        return -1;
    const int64_t bytes = head_bytes + f->file.data_bytes;
    unsigned char *const file = malloc((size_t)bytes);
    int result = -1;
    if (file) {
        memcpy(file, head, (size_t)head_bytes);
        memcpy(file + head_bytes, f->data, (size_t)f->file.data_bytes);
        forge_checksums(&f->file.tensors, file, bytes, head_bytes);
        result = write_file(path, file, bytes);
    }
    free(file);
    free(head);
    return result;
}
