/* SPDX-License-Identifier: MIT */
/* A seeded training whose losses tests/python/test_losses.py compares, bit for bit, with the Python package's. */
#include <gpureplay.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 500, OBS = 5, ACTIONS = 3, STEPS = 100 };

static void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(1);
}

/* Halves and quarters of small integers, which Python computes just the same. */
static void fill(gpur_writer *writer)
{
    static float obs[ROWS][OBS], next_obs[ROWS][OBS], reward[ROWS];
    static int32_t action[ROWS];
    static uint8_t terminated[ROWS];
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < OBS; i++) {
            obs[row][i] = (float)((row * 7 + i * 3) % 11) / 4.0f - 1.0f;
            next_obs[row][i] = (float)((row * 5 + i * 2) % 13) / 4.0f - 1.5f;
        }
        action[row] = row % ACTIONS;
        reward[row] = (float)(row % 9) / 2.0f - 2.0f;
        terminated[row] = row % 17 == 0;
    }
    const void *const fields[] = {obs, action, reward, next_obs, terminated};
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

static gpur_learner *make_learner(gpur_replay *replay)
{
    gpur_learner_config config;
    gpur_learner *learner;
    must(gpur_learner_config_init(&config, sizeof config));
    config.network.head = GPUR_HEAD_DUELING, config.network.hidden = 16, config.network.outputs = ACTIONS;
    config.network.trunk_count = 2;
    config.network.trunk[0] = (gpur_layer){.units = 24, .activation = GPUR_TANH};
    config.network.trunk[1] = (gpur_layer){.units = 20, .activation = GPUR_RELU};
    config.optimizer.kind = GPUR_RMSPROP_TORCH, config.optimizer.learning_rate = (gpur_schedule){3e-3f, 1e-3f, 10, 80};
    config.batch_size = 48, config.target_period = 30, config.seed = 11, config.index_source = GPUR_UNIFORM_DISTINCT;
    must(gpur_learner_create(replay, &config, &learner));
    return learner;
}

int main(void)
{
    const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {OBS}},      {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},     {"next_obs", GPUR_FLOAT32, {OBS}},
                                 {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    must(gpur_device_open("cpu", NULL, &device));
    must(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 400, config.fields = fields, config.field_count = 5, config.seed = 5, config.gamma = 0.9f;
    must(gpur_replay_create(device, &config, &replay));
    must(gpur_writer_create(replay, 1, &writer));
    fill(writer);
    gpur_learner *learner = make_learner(replay);
    train(learner);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return 0;
}
