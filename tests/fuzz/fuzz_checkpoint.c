/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as a file. The first byte of an input selects the function that reads the rest, and
 * whether the checksums are corrected first, so that the code behind their check is reached. There are two replays: one
 * with layout rows, and one with layout frames, prioritized and with n-step returns. Whatever an input does, both must
 * stay usable for sampling and stepping. Writes the initial inputs into the folder named last on the command line.
 */
#include "support/checkpoint_fixture.h"
#include "file/checkpoint_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_REPLAY, READ_LEARNER, READ_WEIGHTS, READ_INFO, READ_LINKED, READERS, REPAIR = 8 };
enum { LINKED_VARIANT = 8, PLAYED = 40 };

static checkpoint_fixture fixture, linked;
static const char *path;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, gpur_last_error());
    abort();
}

/* Makes an input from the file at `path`. */
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
    must(gpur_replay_save(fixture.replay, path, NULL) == GPUR_OK, "replay");
    add_seed(folder, "replay", READ_REPLAY, 0);
    must(gpur_replay_save(linked.replay, path, NULL) == GPUR_OK, "linked replay");
    add_seed(folder, "linked", READ_LINKED, 0);
    must(gpur_learner_save(fixture.learner, path, NULL) == GPUR_OK, "learner");
    add_seed(folder, "learner", READ_LEARNER, 0);
    must(gpur_learner_save_weights(fixture.learner, path, NULL) == GPUR_OK, "weights");
    add_seed(folder, "weights", READ_WEIGHTS, 0);
    add_seed(folder, "foreign", READ_WEIGHTS, 1);
    add_seed(folder, "info", READ_INFO, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    gpur_device *device = NULL;
    must(gpur_device_open("cpu", NULL, &device) == GPUR_OK, "device");
    for (int i = 0; i < 2; i++) {
        checkpoint_fixture *const s = i ? &linked : &fixture;
        must(scene_play(s, device, i ? LINKED_VARIANT : 0, PLAYED) == GPUR_OK, "scene");
    }
    path = strdup(test_file_path("input"));
    atexit(test_remove_folder);
    const char *const last = (*argv)[*argc - 1];
    if (*argc > 1 && last[0] != '-')
        add_seeds(last);
    return 0;
}

/* Corrects the checksums, if the header can be read and has room for them. */
static void repair(unsigned char *file, int64_t bytes)
{
    gpur_checkpoint read;
    if (gpur_checkpoint_open(&read, path) != GPUR_OK)
        return;
    forge_checksums(&read.tensors, file, bytes, read.data_at);
    gpur_checkpoint_close(&read);
    must(write_file(path, file, bytes) == 0, "an input cannot be written");
}

/* Samples from the replay unless it is empty. */
static void draw(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    const int64_t size = gpur_replay_size(replay);
    must(size >= 0 && size <= 100, "size");
    if (size == 0)
        return;
    must(gpur_replay_sample(replay, 8, NULL, &batch) == GPUR_OK, "draw");
    gpur_batch_release(batch);
}

/* Whatever episodes and frames were loaded, stepping them works; it is refused only if an episode is over or none is
 * open. */
static void step(void)
{
    const float obs[CHECKPOINT_ENVS * CHECKPOINT_FEATURES] = {1}, reward[CHECKPOINT_ENVS] = {0};
    const int32_t action[CHECKPOINT_ENVS] = {0};
    const uint8_t ended[CHECKPOINT_ENVS] = {0};
    const gpur_status status = gpur_writer_step(linked.writer, action, reward, obs, ended, NULL);
    must(status == GPUR_OK || status == GPUR_INVALID_ARGUMENT, "step");
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
    const int reader = data[0] % REPAIR % READERS;
    const gpur_status status = reader == READ_REPLAY    ? gpur_replay_load(fixture.replay, path, NULL)
                               : reader == READ_LINKED  ? gpur_replay_load(linked.replay, path, NULL)
                               : reader == READ_LEARNER ? gpur_learner_load(fixture.learner, path, NULL)
                               : reader == READ_WEIGHTS ? gpur_learner_load_weights(fixture.learner, path, NULL)
                                                        : gpur_checkpoint_get_info(path, &info);
    must(status >= 0, "the device failed");
    must(status == GPUR_OK || gpur_last_error()[0], "a refusal without a message");
    draw(fixture.replay);
    step();
    draw(linked.replay);
    return 0;
}
