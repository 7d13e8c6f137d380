/* SPDX-License-Identifier: MIT */
/* Finds the fields that a train step reads, and checks its settings. */
#include "learn/config.h"

#include "device/device.h"
#include "kernels/lib/allowed.h"
#include "learn/optimizer.h"
#include "replay/config.h"
#include "replay/sampler/sampler.h"
#include "replay/storage/layout.h"
#include "replay/view.h"

#include <inttypes.h>

static gpur_status find(const gpur_schema *schema, const char *name, int32_t *index)
{
    *index = gpur_schema_find(schema, name);
    GPUR_REQUIRE(*index >= 0,
                 "the replay has no field \"%s\"; a learner needs obs, action, reward, next_obs, terminated", name);
    return GPUR_OK;
}

static gpur_status find_float(const gpur_schema *schema, const char *name, int32_t *index)
{
    GPUR_TRY(find(schema, name, index));
    GPUR_REQUIRE(schema->fields[*index].dtype == GPUR_FLOAT32, "field \"%s\" is %s; a learner needs float32", name,
                 gpur_dtype_name(schema->fields[*index].dtype));
    return GPUR_OK;
}

static gpur_status check_one(const gpur_schema *schema, const char *name, int32_t index)
{
    const int64_t elements = gpur_field_elements(&schema->fields[index]);
    GPUR_REQUIRE(elements == 1, "field \"%s\" has %" PRId64 " numbers a transition; a learner needs one", name,
                 elements);
    return GPUR_OK;
}

static gpur_status find_vector(gpur_learn_fields *fields, const gpur_schema *schema)
{
    GPUR_TRY(find_float(schema, "action", &fields->action));
    const int64_t elements = gpur_field_elements(&schema->fields[fields->action]);
    GPUR_REQUIRE(elements == fields->action_floats,
                 "field \"action\" has %" PRId64 " numbers, and the network's num_actions is %" PRId32
                 "; they must be equal",
                 elements, fields->action_floats);
    return GPUR_OK;
}

static gpur_status find_action(gpur_learn_fields *fields, const gpur_schema *schema)
{
    if (fields->action_floats)
        return find_vector(fields, schema);
    GPUR_TRY(find(schema, "action", &fields->action));
    const int32_t dtype = schema->fields[fields->action].dtype;
    GPUR_REQUIRE(dtype == GPUR_INT32 || dtype == GPUR_INT64,
                 "field \"action\" is %s; a learner of action values needs int32 or int64", gpur_dtype_name(dtype));
    fields->action_is_int64 = dtype == GPUR_INT64;
    return check_one(schema, "action", fields->action);
}

static gpur_status find_obs(const gpur_schema *schema, const char *name, int32_t *index, gpur_obs_format *format)
{
    GPUR_TRY(find(schema, name, index));
    return gpur_obs_format_of(&schema->fields[*index], format);
}

/* A convolution reads both by the axes of obs. */
static gpur_status check_axes(const gpur_field_info *obs, const gpur_field_info *next_obs)
{
    GPUR_REQUIRE(obs->dims == next_obs->dims, "obs has %d axes and next_obs %d; they must be of the same shape",
                 (int)obs->dims, (int)next_obs->dims);
    for (int i = 0; i < obs->dims; i++)
        GPUR_REQUIRE(obs->shape[i] == next_obs->shape[i],
                     "axis %d of obs has %" PRId32 " and of next_obs %" PRId32 "; they must be of the same shape", i,
                     obs->shape[i], next_obs->shape[i]);
    return GPUR_OK;
}

gpur_status gpur_learn_fields_find(gpur_learn_fields *fields, const gpur_schema *schema, int32_t action_floats)
{
    int32_t terminated;
    gpur_obs_format next;
    fields->action_floats = action_floats;
    fields->action_is_int64 = 0;
    fields->next_mask = gpur_schema_find(schema, "next_action_mask");
    GPUR_REQUIRE(action_floats == 0 || fields->next_mask < 0,
                 "the replay has a field \"next_action_mask\", and actions are vectors; only discrete ones have masks");
    GPUR_TRY(find_obs(schema, "obs", &fields->obs, &fields->obs_format));
    GPUR_TRY(find_obs(schema, "next_obs", &fields->next_obs, &next));
    GPUR_TRY(find_float(schema, "reward", &fields->reward));
    GPUR_TRY(check_one(schema, "reward", fields->reward));
    GPUR_TRY(find_action(fields, schema));
    GPUR_TRY(find(schema, "terminated", &terminated)); /* the replay has checked that it is one byte */
    GPUR_REQUIRE(next.is_float == fields->obs_format.is_float, "obs is %s and next_obs %s; they must be alike",
                 gpur_dtype_name(schema->fields[fields->obs].dtype),
                 gpur_dtype_name(schema->fields[fields->next_obs].dtype));
    return check_axes(&schema->fields[fields->obs], &schema->fields[fields->next_obs]);
}

gpur_status gpur_learn_masks_check(const gpur_learn_fields *fields, gpur_replay *replay, const gpur_dqn_config *config)
{
    const int32_t actions = config->network.num_actions;
    if (fields->next_mask < 0)
        return GPUR_OK;
    const gpur_field_info *const mask = &gpur_replay_schema(replay)->fields[fields->next_mask];
    GPUR_REQUIRE(mask->dtype == GPUR_UINT8 && mask->bytes == gpur_mask_bytes(actions),
                 "field \"next_action_mask\" is %s of %" PRId64 " bytes; with network.num_actions %" PRId32
                 " it must be uint8 of %" PRId64 ", one bit for each action",
                 gpur_dtype_name(mask->dtype), mask->bytes, actions, gpur_mask_bytes(actions));
    GPUR_REQUIRE(!gpur_replay_lanes(replay),
                 "the replay of GPUR_LAYOUT_LANES has a field \"next_action_mask\"; with masks it must be of "
                 "GPUR_LAYOUT_ROWS or FRAMES (0, 1)");
    GPUR_REQUIRE(config->returns.cache_size == 0,
                 "returns.cache_size is %" PRId64
                 " and the replay has a field \"next_action_mask\"; with masks it must "
                 "be 0, since a cache of returns takes the best of all actions",
                 config->returns.cache_size);
    return GPUR_OK;
}

/* Without replacement as many rows must stay visible, which a replay that samples so itself sees to. */
static gpur_status check_batch(const gpur_step_config *config, const gpur_replay_config *replay)
{
    const int64_t kept = gpur_kept_rows(replay);
    GPUR_REQUIRE(config->batch_size >= 1 && config->batch_size <= replay->max_batch,
                 "batch_size is %" PRId64 "; it must be 1 to the replay's max_batch, %" PRId64 " (a setting of the "
                 "replay)",
                 config->batch_size, replay->max_batch);
    GPUR_REQUIRE(config->index_source != GPUR_UNIFORM_DISTINCT || config->batch_size <= kept,
                 "batch_size is %" PRId64 " and index_source GPUR_UNIFORM_DISTINCT (2); of this replay it must be at "
                 "most %" PRId64 ", the transitions that stay visible while a block is in flight, or the replay's "
                 "index_source GPUR_UNIFORM_DISTINCT, too",
                 config->batch_size, kept);
    return GPUR_OK;
}

static gpur_status check_source(const gpur_step_config *config, const gpur_replay_config *replay)
{
    GPUR_TRY(gpur_index_source_check(config->index_source, "index_source"));
    GPUR_REQUIRE(!gpur_sampler_of(config->index_source)->is_by_priority || replay->prioritized,
                 "index_source is %" PRId32 ", by priority, and the replay's prioritized is 0; it must be 1, or "
                 "index_source GPUR_SOURCE_AUTO (0)",
                 config->index_source);
    GPUR_REQUIRE(replay->eviction == GPUR_EVICT_OLDEST || config->index_source == GPUR_SOURCE_AUTO ||
                     gpur_sampler_of(config->index_source)->is_by_priority,
                 "index_source is %" PRId32 ", uniform, and the replay evicts by priority (GPUR_EVICT_BY_PRIORITY); it "
                 "must be GPUR_SOURCE_AUTO (0) or GPUR_PRIORITIZED_* (3, 4)",
                 config->index_source);
    return gpur_schedule_check(&config->beta, GPUR_MAX_EXPONENT, "beta");
}

gpur_status gpur_math_check(int32_t math)
{
    return gpur_choice_check(math, GPUR_MATH_AUTO, "math", "GPUR_MATH_FP32, TF32, BF16 or AUTO (0 to 3)");
}

int32_t gpur_math_decide(gpur_device *device, int32_t math)
{
    if (math != GPUR_MATH_AUTO)
        return math;
    return gpur_device_get_traits(device)->has_own_memory ? GPUR_MATH_TF32 : GPUR_MATH_FP32;
}

gpur_status gpur_step_config_check(gpur_step_config *config, const gpur_replay_config *replay)
{
    GPUR_REQUIRE(config->target_period >= 1, "target_period is %" PRId64 "; it must be at least 1 train step",
                 config->target_period);
    GPUR_REQUIRE(config->target_rate > 0.0f && config->target_rate <= 1.0f,
                 "target_rate is %g; it must be above 0, and at most 1", (double)config->target_rate);
    GPUR_TRY(check_source(config, replay));
    if (config->index_source == GPUR_SOURCE_AUTO)
        config->index_source = replay->index_source;
    GPUR_TRY(check_batch(config, replay));
    return gpur_math_check(config->math);
}
