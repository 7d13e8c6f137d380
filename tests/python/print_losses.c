/* SPDX-License-Identifier: MIT */
/* Seeded trainings whose losses tests/python/test_learner.py compares, bit for bit, with the Python package's.
 *
 * usage: print_losses [images]: of a dense network on vectors, or of convolutions on images, drawn by priority */
#include <gpureplay.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 500, OBS = 5, PIXELS = 3 * 8 * 7, ACTIONS = 3, STEPS = 100 };

static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

static struct {
    float obs[ROWS][OBS], next_obs[ROWS][OBS], reward[ROWS];
    uint8_t image[ROWS][PIXELS], next_image[ROWS][PIXELS], terminated[ROWS];
    int32_t action[ROWS];
} table;

/* Halves and quarters of small integers, which Python computes just the same. */
static void fill_row(int row)
{
    for (int i = 0; i < OBS; i++) {
        table.obs[row][i] = (float)((row * 7 + i * 3) % 11) / 4.0f - 1.0f;
        table.next_obs[row][i] = (float)((row * 5 + i * 2) % 13) / 4.0f - 1.5f;
    }
    for (int i = 0; i < PIXELS; i++) {
        table.image[row][i] = (uint8_t)((row * 7 + i * 3) % 251);
        table.next_image[row][i] = (uint8_t)((row * 5 + i * 2) % 253);
    }
    table.action[row] = row % ACTIONS;
    table.reward[row] = (float)(row % 9) / 2.0f - 2.0f;
    table.terminated[row] = row % 17 == 0;
}

static void fill(gpur_writer *writer, int images)
{
    const void *const obs = images ? (const void *)table.image : table.obs;
    const void *const next_obs = images ? (const void *)table.next_image : table.next_obs;
    const void *const fields[] = {obs, table.action, table.reward, next_obs, table.terminated};
    for (int row = 0; row < ROWS; row++)
        fill_row(row);
    must(gpur_writer_append_fields(writer, ROWS, fields, NULL, NULL));
}

static void train(gpur_learner *learner)
{
    for (int step = 0; step < STEPS; step++) {
        gpur_learner_stats stats = {.size = sizeof stats};
        uint32_t bits[3];
        must(gpur_learner_train(learner, 1));
        must(gpur_learner_sync(learner));
        must(gpur_learner_get_stats(learner, &stats));
        memcpy(&bits[0], &stats.loss, sizeof bits[0]);
        memcpy(&bits[1], &stats.mean_q, sizeof bits[1]);
        memcpy(&bits[2], &stats.gradient_norm, sizeof bits[2]);
        printf("%08" PRIx32 " %08" PRIx32 " %08" PRIx32 "\n", bits[0], bits[1], bits[2]);
    }
}

static void make_dense(gpur_dqn_config *config)
{
    config->network.head = GPUR_HEAD_DUELING, config->network.hidden = 16, config->network.trunk_count = 2;
    config->network.trunk[0] = (gpur_layer){.units = 24, .activation = GPUR_TANH};
    config->network.trunk[1] = (gpur_layer){.units = 20, .activation = GPUR_RELU};
    config->optimizer.kind = GPUR_RMSPROP_TORCH;
    config->optimizer.learning_rate = (gpur_schedule){.first = 3e-3f, .last = 1e-3f, .begin = 10, .steps = 80};
    config->index_source = GPUR_UNIFORM_DISTINCT;
}

static void make_convolutions(gpur_dqn_config *config)
{
    config->network.trunk_count = 3, config->network.input_layout = GPUR_HWC;
    config->network.input_scale = 1.0f / 255.0f;
    config->network.trunk[0] = (gpur_layer){GPUR_CONV, 6, GPUR_RELU, 3, 2, 1, {0}};
    config->network.trunk[1] = (gpur_layer){GPUR_CONV, 4, GPUR_TANH, 2, 1, 0, {0}};
    config->network.trunk[2] = (gpur_layer){.units = 20, .activation = GPUR_RELU};
    config->beta = (gpur_schedule){.first = 0.4f, .last = 1.0f, .begin = 5, .steps = 60};
    config->index_source = GPUR_PRIORITIZED_STRATIFIED;
}

static gpur_learner *make_learner(gpur_replay *replay, int images)
{
    gpur_dqn_config config;
    gpur_learner *learner;
    must(gpur_dqn_config_init(&config, sizeof config));
    (images ? make_convolutions : make_dense)(&config);
    config.network.num_actions = ACTIONS;
    config.batch_size = 48, config.target_period = 30, config.seed = 11;
    must(gpur_dqn_create(replay, &config, &learner));
    return learner;
}

static gpur_replay *make_replay(gpur_device *device, int images)
{
    gpur_field fields[] = {{"obs", GPUR_FLOAT32, {OBS}},
                           {"action", GPUR_INT32, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           {"next_obs", GPUR_FLOAT32, {OBS}},
                           {"terminated", GPUR_BOOL, {0}}};
    const gpur_field image = {NULL, GPUR_UINT8, {8, 7, 3}};
    gpur_replay_config config;
    gpur_replay *replay;
    for (int at = 0; images && at < 4; at += 3)
        fields[at].dtype = image.dtype, memcpy(fields[at].shape, image.shape, sizeof image.shape);
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 400, config.fields = fields, config.field_count = 5, config.seed = 5, config.gamma = 0.9f;
    if (images)
        config.prioritized = 1, config.alpha = 0.7f;
    must(gpur_replay_create(device, &config, &replay));
    return replay;
}

int main(int count, char **arguments)
{
    const int images = count > 1 && strcmp(arguments[1], "images") == 0;
    gpur_device *device;
    gpur_writer *writer;
    must(gpur_device_open("cpu", NULL, &device));
    gpur_replay *replay = make_replay(device, images);
    must(gpur_writer_create(replay, 1, &writer));
    fill(writer, images);
    gpur_learner *learner = make_learner(replay, images);
    train(learner);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return 0;
}
