/* SPDX-License-Identifier: MIT */
/* One transition of every environment. */
#include "replay/writer.h"

#include "kernels/clip.h"
#include "replay/append_clock.h"

#include <inttypes.h>
#include <string.h>

/* What the caller gave for one step of all environments. */
typedef struct step_input {
    const unsigned char *action, *next_obs;
    const float *reward;
    const uint8_t *terminated, *truncated; /* truncated may be NULL */
} step_input;

static gpur_status check_alike(const gpur_schema *schema, const gpur_step_fields *f)
{
    const gpur_field_info *const obs = &schema->fields[f->obs], *const next = &schema->fields[f->next_obs];
    GPUR_REQUIRE(obs->dtype == next->dtype && memcmp(obs->shape, next->shape, sizeof obs->shape) == 0,
                 "fields \"obs\" and \"next_obs\" differ in type or shape; gpur_writer_step needs them alike");
    const gpur_field_info *const reward = &schema->fields[f->reward];
    GPUR_REQUIRE(reward->dtype == GPUR_FLOAT32 && reward->bytes == 4,
                 "field \"reward\" is %s of %" PRId64 " bytes; gpur_writer_step needs one float32",
                 gpur_dtype_name(reward->dtype), reward->bytes);
    GPUR_REQUIRE(f->truncated < 0 || schema->fields[f->truncated].bytes == 1,
                 "field \"truncated\" has %" PRId64 " bytes; gpur_writer_step needs one bool or uint8",
                 schema->fields[f->truncated].bytes);
    return GPUR_OK;
}

gpur_status gpur_writer_check_steps(const gpur_writer *writer)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_step_fields *const f = &writer->fields;
    GPUR_REQUIRE(f->obs >= 0 && f->action >= 0 && f->reward >= 0 && f->next_obs >= 0 && f->terminated >= 0,
                 "the schema has no field \"%s\"; gpur_writer_step needs obs, action, reward, next_obs and terminated",
                 f->obs < 0        ? "obs"
                 : f->action < 0   ? "action"
                 : f->reward < 0   ? "reward"
                 : f->next_obs < 0 ? "next_obs"
                                   : "terminated");
    const int32_t known = 5 + (f->truncated >= 0);
    GPUR_REQUIRE(schema->count == known,
                 "the schema has %d fields; gpur_writer_step fills in %d of them: use "
                 "gpur_writer_append_fields",
                 (int)schema->count, (int)known);
    return check_alike(schema, f);
}

static gpur_status check_flags(const gpur_writer *writer, const step_input *in)
{
    for (int32_t env = 0; env < writer->num_envs; env++) {
        GPUR_REQUIRE(writer->is_open[env], "environment %d has no open episode: it must be reset before its next step",
                     (int)env);
        GPUR_REQUIRE(in->terminated[env] <= 1, "terminated[%d] is %d; it must be 0 or 1", (int)env,
                     (int)in->terminated[env]);
        GPUR_REQUIRE(!in->truncated || in->truncated[env] <= 1, "truncated[%d] is %d; it must be 0 or 1", (int)env,
                     (int)in->truncated[env]);
    }
    return GPUR_OK;
}

static gpur_status check(const gpur_writer *writer, const step_input *in)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(in->action && in->reward && in->next_obs && in->terminated, "%s is NULL; only truncated may be",
                 !in->action     ? "action"
                 : !in->reward   ? "reward"
                 : !in->next_obs ? "next_obs"
                                 : "terminated");
    GPUR_TRY(gpur_writer_check_steps(writer));
    return check_flags(writer, in);
}

static void put(const gpur_schema *schema, unsigned char *row, int32_t field, const void *value)
{
    memcpy(row + schema->fields[field].offset, value, (size_t)schema->fields[field].bytes);
}

static void write_row(const gpur_writer *writer, const step_input *in, int64_t env, unsigned char *row)
{
    const gpur_schema *const schema = &writer->replay->schema;
    const gpur_step_fields *const f = &writer->fields;
    const float limit = writer->replay->config.reward_clip;
    const float reward = limit > 0.0f ? gpur_clip(in->reward[env], limit) : in->reward[env];
    const uint8_t truncated = in->truncated ? in->truncated[env] : 0;
    put(schema, row, f->obs, writer->obs + env * writer->obs_bytes);
    put(schema, row, f->action, in->action + env * schema->fields[f->action].bytes);
    put(schema, row, f->reward, &reward);
    put(schema, row, f->next_obs, in->next_obs + env * writer->obs_bytes);
    put(schema, row, f->terminated, &in->terminated[env]);
    if (f->truncated >= 0)
        put(schema, row, f->truncated, &truncated);
}

/* With the lock held. Under GPUR_WHEN_FULL_ERROR the claims were seen to have room, so all of them succeed. */
static gpur_status write_rows(gpur_writer *writer, const step_input *in)
{
    gpur_intake *const intake = &writer->replay->intake;
    const int64_t pitch = writer->replay->schema.pitch;
    for (int64_t env = 0; env < writer->num_envs;) {
        gpur_claim claim;
        GPUR_TRY(gpur_intake_claim(intake, writer->num_envs - env, &claim));
        for (int64_t i = 0; i < claim.count; i++)
            write_row(writer, in, env++, claim.rows + i * pitch);
        GPUR_TRY(gpur_intake_commit(intake, &claim));
    }
    return GPUR_OK;
}

static gpur_status take(gpur_writer *writer, const step_input *in)
{
    gpur_intake *const intake = &writer->replay->intake;
    if (intake->when_full == GPUR_WHEN_FULL_ERROR) {
        gpur_intake_settle(intake);
        const int64_t room = gpur_staging_room(&intake->staging);
        if (room < writer->num_envs)
            return gpur_fail(GPUR_WOULD_BLOCK,
                             "there is room for %" PRId64 " rows in the staging blocks; a step needs "
                             "%d: call again later, or set when_full to GPUR_WHEN_FULL_WAIT",
                             room, (int)writer->num_envs);
    }
    return write_rows(writer, in);
}

/* The next transitions start where these ended. */
static void advance(gpur_writer *writer, const step_input *in)
{
    memcpy(writer->obs, in->next_obs, (size_t)(writer->num_envs * writer->obs_bytes));
    for (int32_t env = 0; env < writer->num_envs; env++)
        if (in->terminated[env] || (in->truncated && in->truncated[env]))
            writer->is_open[env] = 0;
}

gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward, const void *next_obs,
                             const uint8_t *terminated, const uint8_t *truncated)
{
    const step_input in = {action, next_obs, reward, terminated, truncated};
    GPUR_TRY(check(writer, &in));
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    const gpur_append_clock clock = gpur_append_clock_begin(intake, writer->num_envs);
    const gpur_status status = take(writer, &in);
    gpur_append_clock_end(&clock, intake);
    if (status == GPUR_OK)
        advance(writer, &in);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return status;
}

gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(obs, "obs is NULL; it must be the first observation of %s",
                 env == -1 ? "every episode" : "the episode");
    GPUR_REQUIRE(env >= -1 && env < writer->num_envs, "env is %d; it must be 0 to %d, or -1 for all", (int)env,
                 (int)writer->num_envs - 1);
    GPUR_TRY(gpur_writer_check_steps(writer));
    const int32_t first = env < 0 ? 0 : env, count = env < 0 ? writer->num_envs : 1;
    gpur_intake *const intake = &writer->replay->intake;
    gpur_intake_lock(intake);
    gpur_intake_enter(intake);
    memcpy(writer->obs + first * writer->obs_bytes, obs, (size_t)(count * writer->obs_bytes));
    memset(writer->is_open + first, 1, (size_t)count);
    gpur_intake_leave(intake);
    gpur_intake_unlock(intake);
    return GPUR_OK;
}
