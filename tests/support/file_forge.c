/* SPDX-License-Identifier: MIT */
#include "support/file_forge.h"

#include "support/file_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    for (int32_t i = 0; i < f->file.tensors.note_count; i++) {
        gpur_note *const note = &f->file.tensors.notes[i];
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
