/* SPDX-License-Identifier: MIT */
#include "support/learn_world.h"

#include "learn/learner.h"
#include "support/learn_rig.h"
#include "replay/sampler/consumer.h"

#include <stdlib.h>
#include <string.h>

static void make_rows(learn_world *world)
{
    float noise[3];
    for (int i = 0; i < WORLD_ROWS; i++) {
        world_row *const row = &world->rows[i];
        rig_random((uint64_t)i + 10, row->obs, WORLD_FEATURES);
        rig_random((uint64_t)i + 10000, row->next_obs, WORLD_FEATURES);
        rig_random((uint64_t)i + 20000, noise, 3);
        row->action = (i * 7 + i / 5) % WORLD_ACTIONS;
        row->reward = 2 * noise[0];
        row->terminated = i % 7 == 0;
        row->truncated = i % 5 == 0;
    }
}

/* `weight_norm` -1: without priorities. */
static gpur_status open_replay(learn_world *world, gpur_device *device, const gpur_field *fields, int count,
                               int32_t weight_norm)
{
    gpur_replay_config config;
    memset(world, 0, sizeof *world);
    make_rows(world);
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 4096;
    config.fields = fields;
    config.field_count = count;
    config.update_size = 64;
    config.max_batch = 256;
    config.gamma = 0.9f;
    config.prioritized = weight_norm >= 0;
    config.weight_norm = weight_norm >= 0 ? weight_norm : 0;
    GPUR_TRY(gpur_replay_create(device, &config, &world->replay));
    return gpur_writer_create(world->replay, 1, &world->writer);
}

gpur_status world_open_prioritized(learn_world *world, gpur_device *device, int filled, int32_t weight_norm)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {WORLD_FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {WORLD_FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
    };
    GPUR_TRY(open_replay(world, device, fields, 6, weight_norm));
    return filled ? gpur_writer_append(world->writer, filled, world->rows, NULL) : GPUR_OK;
}

gpur_status world_open(learn_world *world, gpur_device *device, int filled)
{
    return world_open_prioritized(world, device, filled, -1);
}

gpur_status world_open_wide(learn_world *world, gpur_device *device)
{
    static const gpur_field fields[] = {
        {"terminated", GPUR_UINT8, {1}}, {"next_obs", GPUR_FLOAT32, {WORLD_FEATURES}},
        {"action", GPUR_INT64, {0}},     {"obs", GPUR_FLOAT32, {WORLD_FEATURES}},
        {"reward", GPUR_FLOAT32, {1}},
    };
    GPUR_TRY(open_replay(world, device, fields, 5, -1));
    for (int i = 0; i < WORLD_ROWS; i++) {
        const world_row *const row = &world->rows[i];
        const int64_t action = row->action;
        const void *const values[] = {&row->terminated, row->next_obs, &action, row->obs, &row->reward};
        GPUR_TRY(gpur_writer_append_fields(world->writer, 1, values, NULL, NULL));
    }
    return GPUR_OK;
}

void world_close(learn_world *world)
{
    gpur_writer_destroy(world->writer);
    gpur_replay_destroy(world->replay);
}

ref_row world_reference(const learn_world *world, int64_t id)
{
    const world_row *const row = &world->rows[id];
    const ref_row reference = {row->obs, row->next_obs, row->action, row->reward, 1.0f, row->terminated};
    return reference;
}

gpur_learner_config world_config(int head, int double_dqn)
{
    gpur_learner_config config;
    (void)gpur_learner_config_init(&config, sizeof config);
    config.network = rig_network(16, 0, GPUR_RELU, head, 12, WORLD_ACTIONS);
    config.network.init = GPUR_INIT_FAN_IN;
    config.double_dqn = double_dqn;
    config.batch_size = 16;
    config.target_period = 20;
    config.max_act_batch = 64;
    config.seed = 4;
    return config;
}

static gpur_status read_into(gpur_learner *learner, ref_net *net, int32_t index)
{
    gpur_weight_info info = {.size = sizeof info};
    GPUR_TRY(gpur_learner_weight(learner, index, &info));
    float *const values = malloc((size_t)info.count * sizeof *values);
    ref_tensor *const tensor = ref_net_find(net, info.name);
    gpur_status status = tensor && tensor->count == info.count ? GPUR_OK : GPUR_INVALID_ARGUMENT;
    if (status == GPUR_OK)
        status = gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count);
    for (int64_t i = 0; status == GPUR_OK && i < info.count; i++)
        tensor->w[i] = tensor->target[i] = values[i];
    free(values);
    return status;
}

ref_net *world_net(gpur_learner *learner, const gpur_learner_config *config)
{
    ref_net *const net = ref_net_create(&config->network, WORLD_FEATURES);
    gpur_status status = gpur_learner_weight_count(learner) == net->tensors ? GPUR_OK : GPUR_INVALID_ARGUMENT;
    for (int32_t i = 0; i < net->tensors && status == GPUR_OK; i++)
        status = read_into(learner, net, i);
    for (int i = 0; i < net->tensors; i++)
        ref_optimizer_begin(&config->optimizer, net->tensor[i].count, net->tensor[i].m, net->tensor[i].v,
                            net->tensor[i].u);
    if (status == GPUR_OK)
        return net;
    ref_net_destroy(net);
    return NULL;
}

int64_t world_weights(gpur_learner *learner, int32_t which, float *values, int64_t most)
{
    int64_t used = 0;
    for (int32_t i = 0; i < gpur_learner_weight_count(learner); i++) {
        gpur_weight_info info = {.size = sizeof info};
        if (gpur_learner_weight(learner, i, &info) != GPUR_OK || used + info.count > most ||
            gpur_learner_read_weights(learner, which, info.name, values + used, info.count) != GPUR_OK)
            return -1;
        used += info.count;
    }
    return used;
}

gpur_learner_stats world_stats(gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    if (gpur_learner_sync(learner) != GPUR_OK || gpur_learner_get_stats(learner, &stats) != GPUR_OK)
        stats.steps = -1;
    return stats;
}

gpur_status world_set_window(gpur_learner *learner, int64_t count)
{
    const gpur_window_set_args args = {(gpur_window *)(uintptr_t)learner->step.sampled.plan.rows.window, {0, 0, count}};
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_unpublished, &stream));
    const gpur_status status = gpur_launch_window_set(stream, gpur_grid_single(learner->device), &args);
    return gpur_consumer_end(learner->replay, status);
}

void world_ids(int t, int count, int64_t *ids)
{
    for (int b = 0; b < count; b++)
        ids[b] = ((int64_t)t * 131 + b * 37 + (b % 3) * t) % WORLD_ROWS;
}
