/* SPDX-License-Identifier: MIT */
/* The handle: making, flushing, destroying. */
#include "replay/writer.h"

#include "replay/writer_state.h"

#include <inttypes.h>

static gpur_status writer_build(gpur_writer *writer)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_step_fields fields = {
        .obs = gpur_schema_find(schema, "obs"),
        .action = gpur_schema_find(schema, "action"),
        .reward = gpur_schema_find(schema, "reward"),
        .next_obs = gpur_schema_find(schema, "next_obs"),
        .terminated = gpur_schema_find(schema, "terminated"),
        .truncated = gpur_schema_find(schema, "truncated"),
    };
    writer->fields = fields;
    writer->obs_bytes = fields.obs >= 0 ? schema->fields[fields.obs].bytes : 0;
    writer->bytes = (size_t)(writer->num_envs * (writer->obs_bytes + 1));
    writer->obs = gpur_host_alloc(writer->replay->device, writer->bytes);
    if (!writer->obs)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the observations of %d environments, %zu bytes",
                         (int)writer->num_envs, writer->bytes);
    writer->is_open = writer->obs + writer->num_envs * writer->obs_bytes;
    return GPUR_OK;
}

/* A step under GPUR_WHEN_FULL_ERROR takes all rows or none, and must not wait for room that can never be there. */
static gpur_status check_envs(const gpur_replay *replay, int32_t num_envs)
{
    const int64_t room = (replay->config.staging_blocks - 1) * replay->config.update_size;
    GPUR_REQUIRE(num_envs >= 1, "num_envs is %d; it must be 1 or more", (int)num_envs);
    GPUR_REQUIRE(replay->config.when_full == GPUR_WHEN_FULL_WAIT || num_envs <= room,
                 "num_envs is %d; under GPUR_WHEN_FULL_ERROR a step of all must fit in %" PRId64
                 " rows, (staging_blocks - 1) x update_size",
                 (int)num_envs, room);
    return GPUR_OK;
}

gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **out)
{
    GPUR_REQUIRE(out, "writer is NULL; it must be where the handle goes");
    *out = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(check_envs(replay, num_envs));
    gpur_writer *const writer = gpur_host_alloc(replay->device, sizeof *writer);
    if (!writer)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a writer handle of %zu bytes", sizeof *writer);
    writer->replay = replay;
    writer->num_envs = num_envs;
    const gpur_status status = writer_build(writer);
    if (status != GPUR_OK) {
        gpur_host_free(replay->device, writer, sizeof *writer);
        return status;
    }
    gpur_intake_lock(&replay->intake);
    gpur_intake_enter(&replay->intake);
    gpur_writer_join(writer);
    gpur_intake_leave(&replay->intake);
    gpur_intake_unlock(&replay->intake);
    *out = writer;
    return GPUR_OK;
}

static gpur_status flush(gpur_intake *intake)
{
    GPUR_TRY(gpur_intake_seal(intake));
    gpur_feed_hasten(&intake->feed);
    return GPUR_OK;
}

gpur_status gpur_writer_flush(gpur_writer *writer)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    gpur_intake_lock(&writer->replay->intake);
    const gpur_status status = flush(&writer->replay->intake);
    gpur_intake_unlock(&writer->replay->intake);
    return status;
}

void gpur_writer_destroy(gpur_writer *writer)
{
    if (!writer)
        return;
    gpur_intake *const intake = &writer->replay->intake;
    gpur_device *const device = writer->replay->device;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    for (int32_t env = 0; env < writer->num_envs; env++)
        intake->episodes_cut += writer->is_open[env];
    flush(intake); /* a failing device tells so at the next call that can */
    gpur_writer_part(writer);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    gpur_host_free(device, writer->obs, writer->bytes);
    gpur_host_free(device, writer, sizeof *writer);
}
