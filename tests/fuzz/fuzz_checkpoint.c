/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as a file. The first byte of an input selects the function that reads the rest, and
 * whether the checksums are corrected first, so that the code behind their check is reached. There are three replays:
 * one with layout rows, one with layout frames, prioritized and with n-step returns, and one of lanes, prioritized.
 * Whatever an input does, all must stay usable for sampling and stepping. Writes the initial inputs into the folder
 * named last on the command line.
 */
#include "support/checkpoint_fixture.h"
#include "file/checkpoint_file.h"
#include "gpureplay/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_ROWS, READ_LEARNER, READ_WEIGHTS, READ_INFO, READ_FRAMES, READ_LANES, READERS, REPAIR = 8 };
enum { LANES = 3, LANE_STEPS = 12, LANE_FIELDS = 6 };

static checkpoint_fixture rows, frames;
static const char *path;
static gpur_replay *lanes;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, gpur_last_error());
    abort();
}

static const gpur_field lane_fields[LANE_FIELDS] = {
    {"obs", GPUR_FLOAT32, {2}},    {"next_obs", GPUR_FLOAT32, {2}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_BOOL, {0}},
};

/* Steps of all lanes, and a draw after each. On the CPU the arrays of a call may be anywhere. */
static void run_lanes(int64_t steps)
{
    const float obs[LANES][2] = {{1.0f}}, final_obs[LANES][2] = {{2.0f}}, reward[LANES] = {0.5f};
    const int32_t action[LANES] = {0};
    uint8_t terminated[LANES] = {0}, truncated[LANES] = {0};
    const void *const given[LANE_FIELDS] = {obs, final_obs, action, reward, terminated, truncated};
    float of_obs[8][2], of_next[8][2];
    int64_t id[8];
    void *const fields[LANE_FIELDS] = {of_obs, of_next};
    gpur_lane_draw draw;
    must(gpur_lane_draw_init(&draw, sizeof draw) == GPUR_OK, "a draw");
    draw.count = 8, draw.fields = fields, draw.id = id, draw.n_step = 3;
    for (int64_t t = 0; t < steps; t++) {
        terminated[1] = t % 3 == 0, truncated[2] = t % 4 == 0;
        must(gpur_replay_add_lanes(lanes, given, NULL) == GPUR_OK, "a step of all lanes");
        must(gpur_replay_draw_lanes(lanes, &draw, NULL) == GPUR_OK, "a draw from lanes");
    }
}

static void open_lanes(gpur_device *device)
{
    gpur_replay_config config;
    must(gpur_replay_config_init(&config, sizeof config) == GPUR_OK, "a config");
    config.fields = lane_fields, config.field_count = LANE_FIELDS;
    config.layout = GPUR_LAYOUT_LANES, config.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    config.lanes = LANES, config.capacity = LANES * LANE_STEPS, config.max_batch = 8, config.prioritized = 1;
    must(gpur_replay_create(device, &config, &lanes) == GPUR_OK, "layout lanes");
    run_lanes(LANE_STEPS + 5);
}

/* Makes an input from the file at `path`, of the library's own or of a foreign kind. */
static void add_seed(const char *folder, const char *name, int reader, gpur_status saved)
{
    char seed[512];
    int64_t bytes = 0;
    unsigned char *const file = read_file(path, &bytes);
    must(saved == GPUR_OK && file != NULL, name);
    unsigned char *const input = malloc((size_t)bytes + 1);
    must(input != NULL, "no memory for a seed");
    input[0] = (unsigned char)(reader | REPAIR);
    memcpy(input + 1, file, (size_t)bytes);
    for (unsigned char *at = input; strcmp(name, "foreign") == 0 && (at = memmem(at, 600, "gpureplay", 9)) != NULL;)
        *at = 'x';
    snprintf(seed, sizeof seed, "%s/%s", folder, name);
    must(write_file(seed, input, bytes + 1) == 0, "a seed cannot be written");
    free(input);
    free(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    gpur_device *device = NULL;
    const char *const last = (*argv)[*argc - 1];
    path = test_file_path("input");
    atexit(test_remove_folder);
    must(gpur_device_open("cpu", NULL, &device) == GPUR_OK, "device");
    must(checkpoint_fixture_start(&rows, device, 0, 40) == GPUR_OK, "layout rows");
    must(checkpoint_fixture_start(&frames, device, 8, 40) == GPUR_OK, "layout frames");
    open_lanes(device);
    if (*argc > 1 && last[0] != '-') {
        add_seed(last, "rows", READ_ROWS, gpur_replay_save(rows.replay, path, NULL));
        add_seed(last, "frames", READ_FRAMES, gpur_replay_save(frames.replay, path, NULL));
        add_seed(last, "lanes", READ_LANES, gpur_replay_save(lanes, path, NULL));
        add_seed(last, "learner", READ_LEARNER, gpur_learner_save(rows.learner, path, NULL));
        add_seed(last, "weights", READ_WEIGHTS, gpur_learner_save_weights(rows.learner, path, NULL));
        add_seed(last, "foreign", READ_WEIGHTS, GPUR_OK);
        add_seed(last, "info", READ_INFO, GPUR_OK);
    }
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
static void sample(gpur_replay *replay)
{
    gpur_batch *batch = NULL;
    const int64_t size = gpur_replay_size(replay);
    must(size >= 0 && size <= 100, "size");
    must(size == 0 || gpur_replay_sample(replay, 8, NULL, &batch) == GPUR_OK, "sample");
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
    const int reader = data[0] % REPAIR % READERS;
    const gpur_status status = reader == READ_ROWS      ? gpur_replay_load(rows.replay, path, NULL)
                               : reader == READ_FRAMES  ? gpur_replay_load(frames.replay, path, NULL)
                               : reader == READ_LANES   ? gpur_replay_load(lanes, path, NULL)
                               : reader == READ_LEARNER ? gpur_learner_load(rows.learner, path, NULL)
                               : reader == READ_WEIGHTS ? gpur_learner_load_weights(rows.learner, path, NULL)
                                                        : gpur_checkpoint_get_info(path, &info);
    must(status >= 0, "the device failed");
    must(status == GPUR_OK || gpur_last_error()[0], "a refusal without a message");
    /* Whatever episodes and frames were loaded, a step is refused only if an episode is over or none is open. */
    sample(rows.replay);
    const gpur_status stepped = checkpoint_fixture_run(&frames, 1, 2);
    must(stepped == GPUR_OK || stepped == GPUR_INVALID_ARGUMENT, "step");
    sample(frames.replay);
    run_lanes(2);
    return 0;
}
