/* SPDX-License-Identifier: MIT */
#include "support/torch_rows.h"

#include "base/status.h"
#include "support/torch_nature.h"

#include <string.h>

enum { PIXELS = 4 * 84 * 84, TRANSITION = 2 * PIXELS + 16 };

double torch_unit(uint32_t i, uint32_t sequence)
{
    uint32_t x = i * 2654435761u + (sequence + 10000u * TORCH_SEED) * 40503u;
    x = (x ^ x >> 16) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (x ^ x >> 16) * 0x1p-32;
}

/* gamma to the power of the row's steps, as its writer would have multiplied it. */
static float discount_of(uint32_t i)
{
    float discount = i % 7 == 0 ? 0.0f : 1.0f;
    for (uint32_t m = 0; m < 1 + i % TORCH_N_STEP; m++)
        discount *= 0.99f;
    return discount;
}

/* obs, next_obs, action, reward, terminated, and at the next multiple of 4 discount: as the schema lays them out. */
static void make_row(uint32_t i, unsigned char *row)
{
    const int32_t action = (int32_t)(torch_unit(i, 1) * TORCH_ACTIONS);
    const float reward = (float)(2 * torch_unit(i, 2) - 1), discount = discount_of(i);
    for (uint32_t p = 0; p < PIXELS; p++) {
        row[p] = (unsigned char)(torch_unit(p, 1000 + i) * 256);
        row[PIXELS + p] = (unsigned char)(torch_unit(p, 2000 + i) * 256);
    }
    memcpy(row + 2 * PIXELS, &action, 4);
    memcpy(row + 2 * PIXELS + 4, &reward, 4);
    row[2 * PIXELS + 8] = i % 7 == 0;
    memcpy(row + 2 * PIXELS + 12, &discount, 4);
}

/* A draw makes the rows visible, without which they take no priorities. */
static gpur_status publish(gpur_replay *filled)
{
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample(filled, 1, NULL, &batch));
    const gpur_status status = gpur_batch_sync(batch);
    gpur_batch_release(batch);
    return status;
}

/* The one of them without a discount takes what it has a field for. */
static gpur_status fill(gpur_replay *to)
{
    static unsigned char row[TRANSITION];
    gpur_writer *writer = NULL;
    gpur_status status = gpur_writer_create(to, 1, &writer);
    for (uint32_t i = 0; i < TORCH_ROWS && status == GPUR_OK; i++) {
        make_row(i, row);
        status = gpur_writer_append(writer, 1, row, NULL);
    }
    gpur_writer_destroy(writer);
    return status == GPUR_OK ? publish(to) : status;
}

gpur_status torch_replay(gpur_device *device, int is_ranked, gpur_replay **made)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {4, 84, 84}},
                                        {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"terminated", GPUR_BOOL, {0}},
                                        {"discount", GPUR_FLOAT32, {0}}};
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 128, config.max_batch = 64;
    config.fields = fields, config.field_count = is_ranked ? 6 : 5;
    config.gamma = 0.99f;
    if (is_ranked) {
        config.prioritized = 1;
        /* As they are given, so that they can be whole numbers. */
        config.alpha = 1.0f, config.priority_offset = 0.0f;
    }
    GPUR_TRY(gpur_replay_create(device, &config, made));
    return fill(*made);
}
