/* SPDX-License-Identifier: MIT */
#include "support/episode_kit.h"

#include <string.h>

const gpur_field episode_fields[EPISODE_FIELDS] = {
    {"obs", GPUR_FLOAT32, {0}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_UINT8, {0}},
    {"discount", GPUR_FLOAT32, {0}}, {"previous", GPUR_INT64, {0}},  {"extra", GPUR_INT32, {0}}};

gpur_replay_config episode_config(int32_t field_count, int32_t n_step, float gamma)
{
    gpur_replay_config config = kit_config(episode_fields, field_count, 100, 7, EPISODE_MOST);
    config.n_step = n_step;
    config.gamma = gamma;
    return config;
}

/* One field into the members of the rows, which lie sizeof(episode_row) apart. */
static gpur_status read_into(gpur_batch *batch, const char *name, void *member, size_t bytes)
{
    unsigned char values[EPISODE_MOST * 8];
    const int64_t count = gpur_batch_count(batch);
    const gpur_status status = gpur_batch_read(batch, name, values, count * (int64_t)bytes);
    for (int64_t i = 0; status == GPUR_OK && i < count; i++)
        memcpy((unsigned char *)member + (size_t)i * sizeof(episode_row), values + (size_t)i * bytes, bytes);
    return status;
}

static gpur_status read_rows(gpur_batch *batch, episode_row *rows)
{
    gpur_status status = read_into(batch, "obs", &rows->obs, 4);
    status = status ? status : read_into(batch, "action", &rows->action, 4);
    status = status ? status : read_into(batch, "reward", &rows->reward, 4);
    status = status ? status : read_into(batch, "next_obs", &rows->next_obs, 4);
    status = status ? status : read_into(batch, "terminated", &rows->terminated, 1);
    status = status ? status : read_into(batch, "truncated", &rows->truncated, 1);
    status = status ? status : read_into(batch, "discount", &rows->discount, 4);
    if (status == GPUR_OK && read_into(batch, "previous", &rows->previous, 8) == GPUR_OK)
        read_into(batch, "extra", &rows->extra, 4);
    return status;
}

gpur_status episode_rows(gpur_replay *replay, int64_t first, int64_t count, episode_row *rows)
{
    int64_t ids[EPISODE_MOST];
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < count; i++)
        ids[i] = first + i;
    gpur_status status = gpur_replay_gather(replay, count, ids, NULL, &batch);
    if (status == GPUR_OK)
        status = read_rows(batch, rows);
    gpur_batch_release(batch);
    return status;
}

int64_t episode_appended(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats, .appended = -1};
    gpur_replay_get_stats(replay, &stats);
    return stats.appended;
}
