/* SPDX-License-Identifier: MIT */
#include "replay/kept.h"

enum { ALIGNMENT = 16 };

int64_t gpur_power_above(int64_t x)
{
    int64_t power = 1;
    while (power <= x)
        power *= 2;
    return power;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void keep_field(gpur_kept *kept, const gpur_schema *schema, const gpur_storage *storage, int32_t field)
{
    const int32_t stored = storage->stored[field];
    if (stored < 0)
        return;
    const int64_t bytes = schema->fields[field].bytes;
    const gpur_kept_field kept_field = {field, kept->step_bytes, storage->rows.fields[stored].offset, bytes};
    kept->fields[kept->count++] = kept_field;
    kept->step_bytes += round_up(bytes);
}

static void keep_fields(gpur_kept *kept, const gpur_step_fields *fields, const gpur_schema *schema,
                        const gpur_storage *storage)
{
    if (fields->obs >= 0)
        keep_field(kept, schema, storage, fields->obs);
    kept->obs_bytes = kept->count > 0 ? kept->fields[0].bytes : 0;
    if (fields->action >= 0)
        keep_field(kept, schema, storage, fields->action);
    for (int32_t field = 0; field < schema->count; field++)
        if (gpur_step_fields_is_extra(fields, field))
            keep_field(kept, schema, storage, field);
}

void gpur_kept_plan(gpur_kept *kept, int32_t num_envs, int32_t n_step, const gpur_step_fields *fields,
                    const gpur_schema *schema, const gpur_storage *storage)
{
    kept->num_envs = num_envs;
    kept->n_step = n_step;
    kept->room = gpur_power_above(n_step);
    keep_fields(kept, fields, schema, storage);
}

gpur_status gpur_kept_build(gpur_kept *kept, gpur_device *device, int32_t num_envs, int32_t n_step,
                            const gpur_step_fields *fields, const gpur_schema *schema, const gpur_storage *storage)
{
    kept->device = device;
    gpur_kept_plan(kept, num_envs, n_step, fields, schema, storage);
    const int64_t steps = num_envs * kept->room;
    const int64_t episodes = round_up(num_envs * (int64_t)sizeof *kept->episodes);
    const int64_t rewards = round_up(steps * (int64_t)sizeof *kept->rewards);
    kept->bytes = (size_t)(episodes + rewards + steps * kept->step_bytes);
    unsigned char *const memory = gpur_host_alloc(device, kept->bytes);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the last steps of %d environments, %zu bytes",
                         (int)num_envs, kept->bytes);
    kept->episodes = (gpur_episode *)(void *)memory;
    kept->rewards = (float *)(void *)(memory + episodes);
    kept->values = memory + episodes + rewards;
    return GPUR_OK;
}

void gpur_kept_destroy(gpur_kept *kept)
{
    if (kept->episodes)
        gpur_host_free(kept->device, kept->episodes, kept->bytes);
}

void gpur_kept_begin(gpur_kept *kept, int64_t env)
{
    const gpur_episode begun = {.previous = -1, .state = GPUR_EPISODE_OPEN};
    kept->episodes[env] = begun;
}
