/* SPDX-License-Identifier: MIT */
#include "support/optimizer_rig.h"

#include "support/learn_rig.h"

#include <math.h>
#include <string.h>

gpur_learner_config optimizer_rig_config(int kind, int centered)
{
    gpur_learner_config config;
    gpur_learner_config_init(&config, sizeof config);
    config.optimizer.kind = kind;
    config.optimizer.centered = centered;
    config.optimizer.learning_rate.first = 0.01f;
    config.optimizer.learning_rate.last = 0.001f;
    config.optimizer.learning_rate.begin = 5;
    config.optimizer.learning_rate.steps = 30;
    config.optimizer.decay = 0.95f;
    config.optimizer.momentum = 0.9f;
    config.optimizer.epsilon = kind == GPUR_ADAM ? 1e-8f : 0.01f;
    config.target_period = 10;
    return config;
}

gpur_status optimizer_rig_open(optimizer_rig *rig, gpur_device *device, const gpur_learner_config *config,
                               const float *weights)
{
    static const float loss[OPTIMIZER_RIG_BATCH] = {1, 2, 6}, invalid[OPTIMIZER_RIG_BATCH] = {1, 0, 1};
    const gpur_window full = {0, 0, 1};
    gpur_arena arena = {NULL, 0};
    memset(rig, 0, sizeof *rig);
    rig->device = device;
    GPUR_TRY(gpur_stream_create(device, &rig->stream));
    gpur_optimizer_open(&rig->optimizer, device, config, P);
    gpur_optimizer_place(&rig->optimizer, &arena);
    GPUR_TRY(gpur_device_alloc(device, arena.used, &rig->memory));
    arena.base = rig->memory;
    arena.used = 0;
    gpur_optimizer_place(&rig->optimizer, &arena);
    rig->window = rig_upload(device, &full, sizeof full);
    rig->loss = rig_upload(device, loss, sizeof loss);
    rig->invalid = rig_upload(device, invalid, sizeof invalid);
    rig->optimizer.window = rig->window;
    return gpur_optimizer_reset(&rig->optimizer, rig->stream, weights);
}

void optimizer_rig_close(optimizer_rig *rig)
{
    gpur_stream_destroy(rig->stream);
    gpur_device_free(rig->device, rig->memory);
    gpur_device_free(rig->device, rig->window);
    gpur_device_free(rig->device, rig->loss);
    gpur_device_free(rig->device, rig->invalid);
}

gpur_status optimizer_rig_step(optimizer_rig *rig, const float *gradient)
{
    GPUR_TRY(gpur_device_copy(rig->device, rig->optimizer.gradient, gradient, P * sizeof(float)));
    const gpur_step_results results = {
        .loss = rig->loss, .q_taken = rig->loss, .invalid = rig->invalid, .batch = OPTIMIZER_RIG_BATCH};
    GPUR_TRY(gpur_optimizer_step(&rig->optimizer, rig->stream, &results));
    return gpur_stream_sync(rig->stream);
}

gpur_status optimizer_rig_read(const optimizer_rig *rig, const float *from, float *to)
{
    return gpur_device_copy(rig->device, to, from, P * sizeof(float));
}

gpur_train_state optimizer_rig_state(const optimizer_rig *rig)
{
    gpur_train_state state;
    memset(&state, 0, sizeof state);
    (void)gpur_device_copy(rig->device, &state, rig->optimizer.state, sizeof state);
    return state;
}

void optimizer_rig_gradient(int t, float *g)
{
    rig_random((uint64_t)t + 1000, g, P);
    for (int i = 0; i < P; i++)
        g[i] = (g[i] + 0.3f) * powf(10.0f, (float)(i % 5) - 3.0f);
}
