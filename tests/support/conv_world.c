/* SPDX-License-Identifier: MIT */
#include "support/conv_world.h"

#include <stdlib.h>
#include <string.h>

image_row conv_rows[ROWS];
float conv_wide[2][ROWS][PIXELS];

void conv_world_make(void)
{
    float noise[2 * PIXELS + 1];
    for (int i = 0; i < ROWS; i++) {
        rig_random((uint64_t)i + 500, noise, 2 * PIXELS + 1);
        for (int p = 0; p < PIXELS; p++) {
            conv_rows[i].obs[p] = (uint8_t)(127.5f + 127 * noise[p]);
            conv_rows[i].next_obs[p] = (uint8_t)(127.5f + 127 * noise[PIXELS + p]);
            conv_wide[0][i][p] = conv_rows[i].obs[p], conv_wide[1][i][p] = conv_rows[i].next_obs[p];
        }
        conv_rows[i].action = (i * 7 + i / 5) % ACTIONS;
        conv_rows[i].reward = 2 * noise[2 * PIXELS];
        conv_rows[i].terminated = i % 7 == 0;
    }
}

static gpur_status open_replay(gpur_device *device, int32_t layout, gpur_replay **replay)
{
    const int planes = layout == GPUR_CHW;
    const gpur_field image = {
        "obs", GPUR_UINT8, {planes ? CHANNELS : HEIGHT, planes ? HEIGHT : WIDTH, planes ? WIDTH : CHANNELS}};
    gpur_field fields[] = {
        image, image, {"action", GPUR_INT32, {0}}, {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_writer *writer = NULL;
    fields[1].name = "next_obs";
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 4 * ROWS, config.max_batch = ROWS, config.fields = fields, config.field_count = 5;
    config.gamma = 0.9f;
    GPUR_TRY(gpur_replay_create(device, &config, replay));
    GPUR_TRY(gpur_writer_create(*replay, 1, &writer));
    const gpur_status status = gpur_writer_append(writer, ROWS, conv_rows, NULL);
    gpur_writer_destroy(writer);
    return status;
}

gpur_learner_config conv_config(int32_t layout)
{
    gpur_learner_config config;
    const gpur_layer layers[] = {{GPUR_CONV, 6, GPUR_RELU, 4, 2, 0, {0}}, {GPUR_CONV, 5, GPUR_TANH, 3, 1, 1, {0}}};
    (void)gpur_learner_config_init(&config, sizeof config);
    config.network = rig_network(0, 0, GPUR_RELU, GPUR_HEAD_DUELING, 9, ACTIONS);
    memcpy(config.network.trunk, layers, sizeof layers);
    config.network.trunk_count = 2;
    config.network.input_scale = 1.0f / 255;
    config.network.input_layout = layout;
    config.batch_size = BATCH;
    config.target_period = 7;
    config.seed = 3;
    config.host_batches = 2;
    config.max_act_batch = 16;
    return config;
}

gpur_status conv_read(gpur_learner *learner, ref_tensor *tensor, int32_t which, double *to)
{
    float *const values = malloc((size_t)tensor->count * sizeof *values);
    const gpur_status status = gpur_learner_read_weights(learner, which, tensor->name, values, tensor->count);
    for (int i = 0; status == GPUR_OK && i < tensor->count; i++)
        to[i] = values[i];
    free(values);
    return status;
}

gpur_status conv_replay_open(conv_scene *s, gpur_device *device, int32_t layout)
{
    memset(s, 0, sizeof *s);
    return open_replay(device, layout, &s->replay);
}

gpur_status conv_scene_open(conv_scene *s, gpur_device *device, const gpur_learner_config *config)
{
    memset(s, 0, sizeof *s);
    s->config = *config;
    GPUR_TRY(open_replay(device, config->network.input_layout, &s->replay));
    GPUR_TRY(gpur_learner_create(s->replay, config, &s->learner));
    s->net = ref_net_create_image(&config->network, HEIGHT, WIDTH, CHANNELS);
    for (int i = 0; i < s->net->tensors; i++) {
        ref_tensor *const t = &s->net->tensor[i];
        GPUR_TRY(conv_read(s->learner, t, GPUR_WEIGHTS_ONLINE, t->w));
        ref_optimizer_begin(&config->optimizer, t->count, t->m, t->v, t->u);
    }
    ref_net_copy_target(s->net);
    return GPUR_OK;
}

void conv_scene_close(conv_scene *s)
{
    if (s->net)
        ref_net_destroy(s->net);
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
}

void conv_ids(int step, int64_t ids[BATCH], ref_row batch[BATCH])
{
    for (int b = 0; b < BATCH; b++) {
        const int i = (step * 13 + b * 5) % ROWS;
        const ref_row row = {conv_wide[0][i],        conv_wide[1][i], conv_rows[i].action, conv_rows[i].reward, 1.0f,
                             conv_rows[i].terminated};
        ids[b] = i;
        batch[b] = row;
    }
}
