/* SPDX-License-Identifier: MIT */
/*
 * Any bytes at all as a file, for libFuzzer. The first byte of an input says what reads the rest, and whether its
 * checksums are put right first, so that what lies behind them is reached. Whatever happens, the replay must stay one
 * that can be drawn from. Writes the files to begin with into the folder named last on the command line.
 */
#include "file_scene.h"
#include "replay/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_REPLAY, READ_LEARNER, READ_WEIGHTS, READ_INFO, READERS, REPAIR = 4 };

static file_scene scene;
static const char *path;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, gpur_last_error());
    abort();
}

/* An input made of the file that lies at `path`. */
static void add_seed(const char *folder, const char *name, int reader, int is_foreign)
{
    char seed[512];
    int64_t bytes = 0;
    unsigned char *const file = read_file(path, &bytes);
    must(file != NULL, "a seed cannot be read");
    unsigned char *const input = malloc((size_t)bytes + 1);
    must(input != NULL, "no memory for a seed");
    input[0] = (unsigned char)(reader | REPAIR);
    memcpy(input + 1, file, (size_t)bytes);
    for (unsigned char *at = input; is_foreign && (at = memmem(at, 600, "gpureplay", 9)) != NULL;)
        *at = 'x';
    snprintf(seed, sizeof seed, "%s/%s", folder, name);
    must(write_file(seed, input, bytes + 1) == 0, "a seed cannot be written");
    free(input);
    free(file);
}

static void add_seeds(const char *folder)
{
    must(gpur_replay_save(scene.replay, path, NULL) == GPUR_OK, "replay");
    add_seed(folder, "replay", READ_REPLAY, 0);
    must(gpur_learner_save(scene.learner, path, NULL) == GPUR_OK, "learner");
    add_seed(folder, "learner", READ_LEARNER, 0);
    must(gpur_learner_save_weights(scene.learner, path, NULL) == GPUR_OK, "weights");
    add_seed(folder, "weights", READ_WEIGHTS, 0);
    add_seed(folder, "foreign", READ_WEIGHTS, 1);
    add_seed(folder, "info", READ_INFO, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    gpur_device *device = NULL;
    must(gpur_device_open("cpu", NULL, &device) == GPUR_OK, "device");
    must(scene_open(&scene, device, 0) == GPUR_OK, "scene");
    must(scene_begin(&scene, 0) == GPUR_OK, "writer");
    must(scene_run(&scene, 0, 40) == GPUR_OK, "run");
    path = strdup(scene_path("input"));
    atexit(scene_remove_folder);
    const char *const last = (*argv)[*argc - 1];
    if (*argc > 1 && last[0] != '-')
        add_seeds(last);
    return 0;
}

/* Where the header can be read and has room for them. */
static void repair(unsigned char *file, int64_t bytes)
{
    gpur_checkpoint read;
    if (gpur_checkpoint_open(&read, path) != GPUR_OK)
        return;
    const gpur_tensor_entry *const entry = gpur_tensors_find(&read.tensors, "checksums");
    const int64_t count = entry && entry->begin == 0 && entry->type == GPUR_I64 ? entry->end / 8 : 0;
    uint64_t *const checksums = count >= 2 ? calloc((size_t)count, sizeof *checksums) : NULL;
    for (int64_t i = 0; checksums && i < count - 2; i++) {
        const int64_t begin = read.data_at + entry->end + i * GPUR_CHUNK;
        const int64_t end = begin + GPUR_CHUNK < bytes ? begin + GPUR_CHUNK : bytes;
        checksums[i] = begin < end ? gpur_checksum(file + begin, end - begin) : 0;
    }
    if (checksums) {
        checksums[count - 2] = gpur_checksum(file, read.data_at);
        checksums[count - 1] = gpur_checksum(checksums, (count - 1) * 8);
        memcpy(file + read.data_at, checksums, (size_t)count * 8);
        must(write_file(path, file, bytes) == 0, "an input cannot be written");
    }
    free(checksums);
    gpur_checkpoint_close(&read);
}

/* A draw of what there is. */
static void draw(void)
{
    gpur_batch *batch = NULL;
    const int64_t size = gpur_replay_size(scene.replay);
    must(size >= 0 && size <= 100, "size");
    if (size == 0)
        return;
    must(gpur_replay_sample(scene.replay, 8, NULL, &batch) == GPUR_OK, "draw");
    gpur_batch_release(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    unsigned char *const file = malloc(size);
    must(file != NULL, "no memory for an input");
    memcpy(file, data + 1, size - 1);
    must(write_file(path, file, (int64_t)size - 1) == 0, "an input cannot be written");
    if (data[0] & REPAIR)
        repair(file, (int64_t)size - 1);
    free(file);
    gpur_checkpoint_info info = {.size = sizeof info};
    const int reader = data[0] % READERS;
    const gpur_status status = reader == READ_REPLAY    ? gpur_replay_load(scene.replay, path, NULL)
                               : reader == READ_LEARNER ? gpur_learner_load(scene.learner, path, NULL)
                               : reader == READ_WEIGHTS ? gpur_learner_load_weights(scene.learner, path, NULL)
                                                        : gpur_checkpoint_get_info(path, &info);
    must(status >= 0, "the device failed");
    must(status == GPUR_OK || gpur_last_error()[0], "a refusal without a message");
    draw();
    return 0;
}
