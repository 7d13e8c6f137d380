/* SPDX-License-Identifier: MIT */
#include "replay/writer/env_state.h"

#include "base/numbers.h"
#include "kernels/lib/previous.h"

#include <inttypes.h>
#include <string.h>

int gpur_step_fields_is_extra(const gpur_step_fields *f, int32_t field)
{
    const int32_t filled[] = {f->obs,        f->action,    f->reward,   f->next_obs,
                              f->terminated, f->truncated, f->discount, f->previous};
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        if (filled[i] == field)
            return 0;
    return 1;
}

gpur_step_fields gpur_step_fields_find(const gpur_schema *schema)
{
    gpur_step_fields fields = {
        .obs = gpur_schema_find(schema, "obs"),
        .action = gpur_schema_find(schema, "action"),
        .reward = gpur_schema_find(schema, "reward"),
        .next_obs = gpur_schema_find(schema, "next_obs"),
        .terminated = gpur_schema_find(schema, "terminated"),
        .truncated = gpur_schema_find(schema, "truncated"),
        .discount = gpur_schema_find(schema, "discount"),
        .previous = gpur_schema_find(schema, "previous"),
        .extra = -1,
    };
    for (int32_t field = schema->count - 1; field >= 0; field--)
        if (gpur_step_fields_is_extra(&fields, field))
            fields.extra = field;
    return fields;
}

static gpur_status check_present(const gpur_step_fields *f)
{
    GPUR_REQUIRE(f->obs >= 0 && f->action >= 0 && f->reward >= 0 && f->next_obs >= 0 && f->terminated >= 0,
                 "the schema has no field \"%s\"; gpur_writer_step needs obs, action, reward, next_obs and terminated",
                 f->obs < 0        ? "obs"
                 : f->action < 0   ? "action"
                 : f->reward < 0   ? "reward"
                 : f->next_obs < 0 ? "next_obs"
                                   : "terminated");
    return GPUR_OK;
}

/* gpur_schema_build has checked the types of terminated and discount. */
gpur_status gpur_step_fields_check(const gpur_step_fields *f, const gpur_schema *schema)
{
    GPUR_TRY(check_present(f));
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
    const gpur_field_info *const previous = f->previous < 0 ? NULL : &schema->fields[f->previous];
    GPUR_REQUIRE(!previous || (previous->dtype == GPUR_INT64 && previous->bytes == 8),
                 "field \"previous\" is %s of %" PRId64 " bytes; gpur_writer_step needs one int64",
                 gpur_dtype_name(previous->dtype), previous->bytes);
    return GPUR_OK;
}

enum { ALIGNMENT = 16 };

static void carry_field(gpur_env_state *env_state, const gpur_schema *schema, const gpur_ring_layout *layout,
                        int32_t field)
{
    const int32_t stored = layout->stored[field];
    if (stored < 0)
        return;
    const int64_t bytes = schema->fields[field].bytes;
    const int is_last = strcmp(schema->fields[field].name, "next_action_mask") == 0;
    const gpur_carried_field carried = {field, is_last, env_state->step_bytes, layout->rows.fields[stored].offset,
                                        bytes};
    env_state->fields[env_state->count++] = carried;
    env_state->step_bytes += gpur_round_up(bytes, ALIGNMENT);
}

static void carry_fields(gpur_env_state *env_state, const gpur_step_fields *fields, const gpur_schema *schema,
                         const gpur_ring_layout *layout)
{
    if (fields->obs >= 0)
        carry_field(env_state, schema, layout, fields->obs);
    env_state->obs_bytes = env_state->count > 0 ? env_state->fields[0].bytes : 0;
    if (fields->action >= 0)
        carry_field(env_state, schema, layout, fields->action);
    for (int32_t field = 0; field < schema->count; field++)
        if (gpur_step_fields_is_extra(fields, field))
            carry_field(env_state, schema, layout, field);
}

void gpur_env_state_plan(gpur_env_state *env_state, int32_t num_envs, int32_t n_step, const gpur_step_fields *fields,
                         const gpur_schema *schema, const gpur_ring_layout *layout)
{
    env_state->num_envs = num_envs;
    env_state->n_step = n_step;
    env_state->room = gpur_power_above(n_step);
    carry_fields(env_state, fields, schema, layout);
}

gpur_status gpur_env_state_build(gpur_env_state *env_state, gpur_device *device, int32_t num_envs, int32_t n_step,
                                 const gpur_step_fields *fields, const gpur_schema *schema,
                                 const gpur_ring_layout *layout)
{
    env_state->device = device;
    gpur_env_state_plan(env_state, num_envs, n_step, fields, schema, layout);
    const int64_t steps = num_envs * env_state->room;
    const int64_t episodes = gpur_round_up(num_envs * (int64_t)sizeof *env_state->episodes, ALIGNMENT);
    const int64_t rewards = gpur_round_up(steps * (int64_t)sizeof *env_state->rewards, ALIGNMENT);
    env_state->bytes = (size_t)(episodes + rewards + steps * env_state->step_bytes);
    unsigned char *const memory = gpur_host_alloc(device, env_state->bytes);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the last steps of %d environments, %zu bytes",
                         (int)num_envs, env_state->bytes);
    env_state->episodes = (gpur_episode *)(void *)memory;
    env_state->rewards = (float *)(void *)(memory + episodes);
    env_state->values = memory + episodes + rewards;
    return GPUR_OK;
}

void gpur_env_state_destroy(gpur_env_state *env_state)
{
    if (env_state->episodes)
        gpur_host_free(env_state->device, env_state->episodes, env_state->bytes);
}

void gpur_env_state_begin(gpur_env_state *env_state, int64_t env)
{
    gpur_episode *const episode = &env_state->episodes[env];
    const int64_t previous = gpur_episode_is_unused(episode) ? -1 : gpur_previous_across(episode->previous);
    const gpur_episode begun = {.previous = previous, .state = GPUR_EPISODE_OPEN};
    *episode = begun;
}
