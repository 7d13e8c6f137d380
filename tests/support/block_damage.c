/* SPDX-License-Identifier: MIT */
#include "support/block_damage.h"

#include "file/safetensors.h"
#include "replay/block/block.h"
#include "replay/replay.h"
#include "support/actor_fixture.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, STEPS = ROWS + 3 };

static const actors_setting settings[] = {{.layout = GPUR_LAYOUT_ROWS, .stack = 2, .n_step = 1},
                                          {.layout = GPUR_LAYOUT_FRAMES, .stack = 4, .n_step = 3}};

/* A block of two episodes. */
static gpur_status pack(block_kind *k, const actors_setting *s, int32_t level)
{
    int64_t frames[STEPS + ACTOR_MAX_STACK], bytes = 0;
    unsigned char obs[ACTOR_MAX_STACK * ACTOR_FRAME];
    const float q[ACTOR_ACTIONS] = {0.5f, -1, 2};
    const void *block = NULL;
    gpur_packer *packer = NULL;
    gpur_packer_config config;
    gpur_packer_config_init(&config, sizeof config);
    config.rows = ROWS, config.num_actions = ACTOR_ACTIONS, config.compression = level, config.actor = 2;
    for (int64_t i = 0; i < STEPS + s->stack; i++)
        frames[i] = i < s->stack - 1 ? -1 : i;
    GPUR_TRY(gpur_packer_create(k->format, &config, &packer));
    gpur_status status = GPUR_OK;
    for (int64_t i = 0; i < STEPS && status == GPUR_OK && !block; i++) {
        const int64_t action = i % ACTOR_ACTIONS;
        const void *const extras[ACTOR_FIELDS] = {[ACTOR_TAG] = &i};
        actor_stack(obs, s->stack, s->last, frames + i);
        if (i == 0 || i == 5)
            status = gpur_packer_reset(packer, obs);
        actor_stack(obs, s->stack, s->last, frames + i + 1);
        const gpur_packer_step_input input = {
            .size = sizeof input, .action = &action, .next_obs = obs, .terminated = i == 4, .q = q, .extras = extras};
        status = status == GPUR_OK ? gpur_packer_step(packer, &input) : status;
        status = status == GPUR_OK ? gpur_packer_take(packer, 0, &block, &bytes) : status;
    }
    if (block && bytes <= BLOCK_ROOM)
        memcpy(k->block, block, (size_t)bytes), k->bytes = bytes;
    gpur_packer_destroy(packer);
    return status;
}

static gpur_replay_config config_of(int32_t kind, gpur_field fields[ACTOR_FIELDS])
{
    gpur_replay_config config = actors_config(&settings[kind / 2], fields);
    config.capacity = 128, config.block_rows = 32, config.max_batch = 64;
    config.extra_frames = kind / 2 ? 100 : 0;
    return config;
}

gpur_status block_kind_make(block_kind *k, int32_t kind)
{
    gpur_field fields[ACTOR_FIELDS];
    const gpur_replay_config config = config_of(kind, fields);
#ifdef GPUR_HAS_ZSTD
    const int32_t level = kind % 2;
#else
    const int32_t level = 0;
#endif
    memset(k, 0, sizeof *k);
    GPUR_TRY(gpur_block_format_create(&config, &k->format));
    GPUR_TRY(pack(k, &settings[kind / 2], level));
    return gpur_block_check(k->format, k->block, k->bytes, NULL);
}

int block_kind_open(block_kind *k, gpur_device *device, int32_t kind)
{
    gpur_field fields[ACTOR_FIELDS];
    const gpur_replay_config config = config_of(kind, fields);
    const gpur_writer_config links = {.size = sizeof links, .num_envs = 1, .link_appends = 1};
    return block_kind_make(k, kind) == GPUR_OK && gpur_replay_create(device, &config, &k->replay) == GPUR_OK &&
           gpur_writer_open(k->replay, &links, &k->writer) == GPUR_OK &&
           gpur_writer_append_block(k->writer, k->block, k->bytes, NULL) == GPUR_OK;
}

void block_kind_close(block_kind *k)
{
    gpur_block_format_destroy(k->format);
    gpur_writer_destroy(k->writer);
    gpur_replay_destroy(k->replay);
}

void block_repair(unsigned char *block, int64_t bytes)
{
    const int64_t payload = bytes - GPUR_BLOCK_HEADER;
    if (payload < 0)
        return;
    memcpy(block + offsetof(gpur_block_header, payload_bytes), &payload, sizeof payload);
    memset(block + offsetof(gpur_block_header, checksum), 0, 8);
    const uint64_t sum = gpur_checksum(block, bytes);
    memcpy(block + offsetof(gpur_block_header, checksum), &sum, sizeof sum);
}

block_state block_state_of(gpur_replay *replay)
{
    gpur_window_lock(replay);
    const gpur_ingest *const ingest = &replay->ingest;
    const gpur_staging_block *const open = ingest->staging.open;
    const block_state state = {
        ingest->appended,         ingest->next_id,          ingest->staged,           ingest->writing,
        replay->frame_index.head, replay->frame_index.rows, open ? open->filled : -1, open ? open->frames_filled : -1,
        ingest->active_calls};
    gpur_window_unlock(replay);
    return state;
}

/* The sum of the fields' checksums of one batch. */
static uint64_t batch_sum(gpur_replay *replay, gpur_batch *batch, int64_t count)
{
    uint64_t sum = 1;
    for (int32_t f = 0; f < ACTOR_FIELDS; f++) {
        gpur_field_info info = {.size = sizeof info};
        gpur_replay_get_field(replay, f, &info);
        unsigned char *const values = malloc((size_t)(count * info.bytes));
        if (gpur_batch_read(batch, info.name, values, count * info.bytes) == GPUR_OK)
            sum = sum * 31 + gpur_checksum(values, count * info.bytes);
        free(values);
    }
    return sum;
}

uint64_t block_contents(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_batch *batch = NULL;
    int64_t ids[64];
    uint64_t sum = 0;
    if (gpur_replay_get_stats(replay, &stats) != GPUR_OK)
        return 0;
    for (int64_t first = stats.first_id; first < stats.appended; first += 64) {
        const int64_t count = stats.appended - first < 64 ? stats.appended - first : 64;
        for (int64_t i = 0; i < count; i++)
            ids[i] = first + i;
        if (gpur_replay_gather(replay, count, ids, NULL, &batch) != GPUR_OK)
            return 0;
        sum = sum * 7 + batch_sum(replay, batch, count);
        gpur_batch_release(batch);
    }
    return sum;
}
