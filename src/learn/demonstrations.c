/* SPDX-License-Identifier: MIT */
#include "learn/demonstrations.h"

#include "device/device.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>

/* Another row a batch would be at least 1 / 4096, and float32 is exact to 1e-7 of the ratio. */
enum { ROUNDING = 1000 };

static gpur_status set_rows(gpur_step_config *config)
{
    const double ratio = (double)config->demonstration_ratio, rows = ratio * (double)config->batch_size;
    GPUR_REQUIRE(ratio > 0.0 && ratio < 1.0, "demonstration_ratio is %g; it must be above 0 and below 1", ratio);
    GPUR_REQUIRE(fabs(rows - nearbyint(rows)) * ROUNDING < 1.0 && rows > 0.5 &&
                     nearbyint(rows) < (double)config->batch_size,
                 "demonstration_ratio is %g, which of batch_size %" PRId64 " is %g transitions; it must be a whole "
                 "number of 1 to %" PRId64,
                 ratio, config->batch_size, rows, config->batch_size - 1);
    config->demonstration_rows = (int64_t)nearbyint(rows);
    return GPUR_OK;
}

static gpur_status check_obs(const gpur_field_info *own, const gpur_field_info *given)
{
    GPUR_REQUIRE(given->dtype == own->dtype, "obs is %s, and that of the learner's own replay %s; they must be equal",
                 gpur_dtype_name(given->dtype), gpur_dtype_name(own->dtype));
    GPUR_REQUIRE(given->dims == own->dims,
                 "obs has %d axes, and that of the learner's own replay %d; they must be equal", (int)given->dims,
                 (int)own->dims);
    for (int i = 0; i < own->dims; i++)
        GPUR_REQUIRE(given->shape[i] == own->shape[i],
                     "axis %d of obs has %" PRId32 ", and that of the learner's own replay %" PRId32
                     "; they must be equal",
                     i, given->shape[i], own->shape[i]);
    return GPUR_OK;
}

/* NULL: the replay has none. */
static gpur_status check_masks(const gpur_field_info *given, const gpur_field_info *own)
{
    GPUR_REQUIRE(!given == !own,
                 "their replay has %s field \"next_action_mask\", and the learner's own %s; both or none must have it",
                 given ? "a" : "no", own ? "one" : "none");
    GPUR_REQUIRE(!own || (given->dtype == own->dtype && given->bytes == own->bytes),
                 "next_action_mask is %s of %" PRId64 " bytes; it must be %s of %" PRId64 ", as in the learner's own "
                 "replay",
                 gpur_dtype_name(given->dtype), given->bytes, gpur_dtype_name(own->dtype), own->bytes);
    return GPUR_OK;
}

static gpur_status check_schema(gpur_step_config *config, const gpur_schema *own, const gpur_schema *given,
                                const gpur_learn_fields *fields)
{
    GPUR_TRY(gpur_learn_fields_find(&config->demonstrated, given, fields->action_floats));
    GPUR_TRY(check_obs(&own->fields[fields->obs], &given->fields[config->demonstrated.obs]));
    GPUR_REQUIRE(config->demonstrated.action_is_int64 == fields->action_is_int64,
                 "action is %s, and that of the learner's own replay %s; they must be equal",
                 gpur_dtype_name(given->fields[config->demonstrated.action].dtype),
                 gpur_dtype_name(own->fields[fields->action].dtype));
    return check_masks(config->demonstrated.next_mask < 0 ? NULL : &given->fields[config->demonstrated.next_mask],
                       fields->next_mask < 0 ? NULL : &own->fields[fields->next_mask]);
}

#define SAME(member, format, given_value, own_value)                                                                   \
    GPUR_REQUIRE(given->member == own->member,                                                                         \
                 #member " is " format "; it must be " format ", as in the learner's own replay", given_value,         \
                 own_value)
#define SAME_NUMBER(member) SAME(member, "%g", (double)given->member, (double)own->member)
#define SAME_CHOICE(member, names) SAME(member, "%s", names[given->member], names[own->member])

/* What a row means: its return, and how its observations are stored. */
static gpur_status check_settings(const gpur_replay_config *own, const gpur_replay_config *given)
{
    static const char *const layouts[] = {"GPUR_LAYOUT_ROWS (0)", "GPUR_LAYOUT_FRAMES (1)", "GPUR_LAYOUT_LANES (2)"};
    static const char *const axes[] = {"GPUR_STACK_FIRST (0)", "GPUR_STACK_LAST (1)"};
    SAME_NUMBER(n_step);
    SAME_NUMBER(gamma);
    SAME_NUMBER(reward_clip);
    SAME_CHOICE(layout, layouts);
    SAME_NUMBER(frame_stack);
    SAME_CHOICE(stack_axis, axes);
    return GPUR_OK;
}

static gpur_status check(gpur_step_config *config, gpur_replay *replay, const gpur_learn_fields *fields)
{
    gpur_replay *const given = config->demonstrations;
    const gpur_replay_config *const settings = gpur_replay_settings(given);
    GPUR_REQUIRE(given != replay, "this is the learner's own replay; it must be another");
    GPUR_REQUIRE(gpur_replay_device(given) == gpur_replay_device(replay),
                 "their replay is on a device that was opened apart; it must be on that of the learner's own");
    GPUR_REQUIRE(!gpur_replay_lanes(replay),
                 "layout of the learner's own replay is GPUR_LAYOUT_LANES (2); it must be GPUR_LAYOUT_ROWS or FRAMES "
                 "(0, 1)");
    GPUR_TRY(check_settings(gpur_replay_settings(replay), settings));
    GPUR_TRY(check_schema(config, gpur_replay_schema(replay), gpur_replay_schema(given), fields));
    GPUR_REQUIRE(config->demonstration_rows <= settings->max_batch,
                 "a batch has %" PRId64 " of them; max_batch of their replay is %" PRId64 ", and must be as many",
                 config->demonstration_rows, settings->max_batch);
    config->demonstration_source = settings->index_source;
    return GPUR_OK;
}

gpur_status gpur_demonstrations_check(gpur_step_config *config, gpur_replay *replay, const gpur_learn_fields *fields)
{
    if (!config->demonstrations)
        return GPUR_OK;
    GPUR_TRY(set_rows(config));
    return gpur_prefix_error(check(config, replay, fields), "demonstrations");
}
