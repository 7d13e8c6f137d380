/* SPDX-License-Identifier: MIT */
#include "replay/hindsight/hindsight.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_GOALS = 1000000 };

static const gpur_hindsight_config defaults = {
    .size = sizeof(gpur_hindsight_config),
    .n_sampled_goal = 4,
    .reward_missed = -1.0f,
};

gpur_status gpur_hindsight_config_init(gpur_hindsight_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_hindsight_config");
}

static gpur_status check_values(const gpur_hindsight_config *c, const gpur_replay_config *replay)
{
    GPUR_TRY(gpur_choice_check(c->strategy, GPUR_HINDSIGHT_EPISODE, "gpur_hindsight_config.strategy",
                               "GPUR_HINDSIGHT_FUTURE, FINAL or EPISODE (0 to 2)"));
    GPUR_TRY(gpur_choice_check(c->reward, GPUR_GOAL_REWARD_UNCHANGED, "gpur_hindsight_config.reward",
                               "GPUR_GOAL_REWARD_SPARSE, DISTANCE, NEARNESS or UNCHANGED (0 to 3)"));
    GPUR_TRY(gpur_choice_check(c->ends_at_goal, 1, "gpur_hindsight_config.ends_at_goal", "0 or 1"));
    GPUR_TRY(gpur_range_check(c->n_sampled_goal, 0, MOST_GOALS, "gpur_hindsight_config.n_sampled_goal"));
    GPUR_REQUIRE(c->threshold >= 0.0f && c->threshold < INFINITY,
                 "gpur_hindsight_config.threshold is %g; it must be 0 or more, and finite", (double)c->threshold);
    GPUR_REQUIRE(isfinite(c->reward_reached) && isfinite(c->reward_missed),
                 "gpur_hindsight_config.reward_reached is %g and reward_missed %g; both must be finite",
                 (double)c->reward_reached, (double)c->reward_missed);
    GPUR_REQUIRE(c->reward != GPUR_GOAL_REWARD_UNCHANGED || (replay->n_step == 1 && !c->ends_at_goal),
                 "gpur_hindsight_config.reward is GPUR_GOAL_REWARD_UNCHANGED (3), ends_at_goal %d and "
                 "gpur_replay_config.n_step %d; they must be 0 and 1, because only built-in rewards are summed and cut",
                 (int)c->ends_at_goal, (int)replay->n_step);
    return GPUR_OK;
}

/* Of the replay: what the list of episodes, and the rewards, need. */
static gpur_status check_replay(const gpur_replay_config *c, const gpur_schema *schema)
{
    const int32_t reward = gpur_schema_find(schema, "reward");
    GPUR_REQUIRE(c->layout == GPUR_LAYOUT_ROWS,
                 "gpur_replay_config.hindsight is set and layout is %d; hindsight needs GPUR_LAYOUT_ROWS (0)",
                 (int)c->layout);
    GPUR_REQUIRE(gpur_schema_has_previous(schema),
                 "gpur_replay_config.hindsight is set, and the schema has no field \"previous\" of one int64, by which "
                 "the episodes are found; add one");
    GPUR_REQUIRE(reward >= 0 && schema->fields[reward].dtype == GPUR_FLOAT32 && schema->fields[reward].bytes == 4,
                 "gpur_replay_config.hindsight is set, and the schema has no field \"reward\" of one float32; add one");
    GPUR_REQUIRE(gpur_schema_find(schema, "relabeled") < 0,
                 "gpur_replay_config.hindsight is set, and the schema has a field \"relabeled\", which is the name of "
                 "an array of every batch then; give it another name");
    GPUR_REQUIRE(c->capacity <= GPUR_MAX_HINDSIGHT_ROWS,
                 "gpur_replay_config.capacity is %" PRId64 "; with hindsight it must be at most %d", c->capacity,
                 GPUR_MAX_HINDSIGHT_ROWS);
    return GPUR_OK;
}

static gpur_status find_real(const gpur_schema *schema, const char *name, const char *member, int32_t *field)
{
    *field = gpur_schema_find(schema, name);
    GPUR_REQUIRE(*field >= 0, "gpur_hindsight_config.%s: the schema has no field \"%s\"", member, name);
    GPUR_REQUIRE(schema->fields[*field].dtype == GPUR_FLOAT32,
                 "gpur_hindsight_config.%s: field \"%s\" is %s; goals must be float32", member, name,
                 gpur_dtype_name(schema->fields[*field].dtype));
    return GPUR_OK;
}

/* The fields of a goal, before and after the step, and how many numbers both have. */
typedef struct goal_field {
    int32_t before, after;
    int64_t numbers;
} goal_field;

static gpur_status find_pair(const gpur_schema *schema, const char *given, const char *member, goal_field *found)
{
    const char *const name = given ? given : "obs";
    char next[GPUR_MAX_NAME + 8];
    GPUR_REQUIRE(strlen(name) < GPUR_MAX_NAME, "gpur_hindsight_config.%s has %zu bytes; a field's name has at most %d",
                 member, strlen(name), GPUR_MAX_NAME - 1);
    snprintf(next, sizeof next, "next_%s", name);
    GPUR_TRY(find_real(schema, name, member, &found->before));
    GPUR_TRY(find_real(schema, next, member, &found->after));
    found->numbers = schema->fields[found->before].bytes / 4;
    GPUR_REQUIRE(schema->fields[found->after].bytes == 4 * found->numbers,
                 "gpur_hindsight_config.%s: field \"%s\" has %" PRId64 " numbers and \"%s\" %" PRId64
                 "; they must have as many",
                 member, name, found->numbers, next, schema->fields[found->after].bytes / 4);
    return GPUR_OK;
}

static gpur_status check_part(const char *member, int32_t at, int32_t size, int64_t numbers)
{
    GPUR_REQUIRE(at >= 0 && size >= 1 && (int64_t)at + size <= numbers,
                 "gpur_hindsight_config.%s is %d and the goal has %d numbers; the field has %" PRId64
                 " (gpur_hindsight_config.goal_size is for goals that are a part of it)",
                 member, (int)at, (int)size, numbers);
    return GPUR_OK;
}

static int32_t offset_of(const gpur_schema *schema, int32_t field, int32_t at)
{
    return (int32_t)schema->fields[field].offset + 4 * at;
}

static gpur_status find_fields(const gpur_hindsight_config *c, const gpur_schema *schema, gpur_goal_fields *f)
{
    goal_field achieved = {0}, desired = {0};
    GPUR_TRY(find_pair(schema, c->achieved_field, "achieved_field", &achieved));
    GPUR_TRY(find_pair(schema, c->desired_field, "desired_field", &desired));
    GPUR_REQUIRE(c->goal_size >= 0,
                 "gpur_hindsight_config.goal_size is %d; it must be 1 or more, or 0 for all of both "
                 "fields",
                 (int)c->goal_size);
    GPUR_REQUIRE(
        c->goal_size > 0 || achieved.before != desired.before,
        "gpur_hindsight_config.goal_size is 0, and both goals lie in field \"%s\"; it must be the numbers of a "
        "goal, and achieved_at and desired_at where they begin",
        schema->fields[desired.before].name);
    f->size = c->goal_size > 0 ? c->goal_size : (int32_t)desired.numbers;
    GPUR_TRY(check_part("achieved_at", c->achieved_at, f->size, achieved.numbers));
    GPUR_TRY(check_part("desired_at", c->desired_at, f->size, desired.numbers));
    GPUR_REQUIRE(c->goal_size > 0 || achieved.numbers == desired.numbers,
                 "gpur_hindsight_config: the achieved goal has %" PRId64 " numbers and the desired one %" PRId64
                 "; they must have as many",
                 achieved.numbers, desired.numbers);
    GPUR_REQUIRE(achieved.before != desired.before || c->achieved_at + f->size <= c->desired_at ||
                     c->desired_at + f->size <= c->achieved_at,
                 "gpur_hindsight_config.achieved_at is %d, desired_at %d and goal_size %d; the goals must not overlap",
                 (int)c->achieved_at, (int)c->desired_at, (int)f->size);
    f->desired = desired.before, f->next_desired = desired.after;
    f->desired_bytes = 4 * (int64_t)c->desired_at;
    f->achieved_offset = offset_of(schema, achieved.before, c->achieved_at);
    f->next_achieved_offset = offset_of(schema, achieved.after, c->achieved_at);
    f->reward = gpur_schema_find(schema, "reward");
    f->terminated = schema->terminated;
    f->discount = schema->discount;
    return GPUR_OK;
}

static gpur_status read_settings(const gpur_replay_config *checked, const gpur_schema *schema, gpur_hindsight_config *c,
                                 gpur_goal_fields *fields)
{
    *c = defaults;
    GPUR_TRY(gpur_sized_read(c, sizeof *c, checked->hindsight, "gpur_hindsight_config"));
    GPUR_TRY(check_replay(checked, schema));
    GPUR_TRY(check_values(c, checked));
    return find_fields(c, schema, fields);
}

gpur_status gpur_hindsight_check(const gpur_replay_config *checked, const gpur_schema *schema)
{
    gpur_hindsight_config c;
    gpur_goal_fields fields;
    return read_settings(checked, schema, &c, &fields);
}

static int64_t places_bytes(const gpur_replay_config *checked)
{
    return checked->capacity * (int64_t)sizeof(gpur_hindsight_place);
}

static int64_t order_bytes(const gpur_replay_config *checked)
{
    return GPUR_HINDSIGHT_ORDERS * checked->capacity * (int64_t)sizeof(uint32_t);
}

int64_t gpur_hindsight_bytes(const gpur_replay_config *checked)
{
    return checked->hindsight ? (int64_t)sizeof(uint64_t) + places_bytes(checked) + order_bytes(checked) : 0;
}

static int32_t flag_offset(const gpur_schema *schema, const char *name)
{
    const int32_t field = gpur_schema_find(schema, name);
    return field >= 0 && schema->fields[field].bytes == 1 ? (int32_t)schema->fields[field].offset : -1;
}

static void set_list(gpur_hindsight *h, const gpur_replay_config *checked, const gpur_schema *schema,
                     const unsigned char *ring, const gpur_window *window)
{
    h->list = (gpur_hindsight_find_args){
        .window = window,
        .ring = ring,
        .pitch = schema->pitch,
        .capacity = checked->capacity,
        .index = h->index,
        .previous_offset = (int32_t)schema->fields[gpur_schema_find(schema, "previous")].offset,
        .terminated_offset = flag_offset(schema, "terminated"),
        .truncated_offset = flag_offset(schema, "truncated"),
        .has_flags = checked->n_step == 1,
    };
}

static void set_relabel(gpur_hindsight *h, const gpur_replay_config *checked, const gpur_schema *schema,
                        const unsigned char *ring, const gpur_window *window)
{
    const gpur_hindsight_config *const c = &h->config;
    h->relabel = (gpur_hindsight_relabel_args){
        .window = window,
        .ring = ring,
        .pitch = schema->pitch,
        .capacity = checked->capacity,
        .index = h->index,
        .achieved_offset = h->fields.achieved_offset,
        .next_achieved_offset = h->fields.next_achieved_offset,
        .goal_size = h->fields.size,
        .strategy = c->strategy,
        .n_sampled_goal = c->n_sampled_goal,
        .reward_kind = c->reward,
        .ends_at_goal = c->ends_at_goal,
        .n_step = checked->n_step,
        .threshold = c->threshold,
        .reward_reached = c->reward_reached,
        .reward_missed = c->reward_missed,
        .gamma = checked->gamma,
        .reward_clip = checked->reward_clip,
    };
}

gpur_status gpur_hindsight_build(gpur_hindsight *h, gpur_device *device, const gpur_replay_config *checked,
                                 const gpur_schema *schema, const unsigned char *ring, const gpur_window *window,
                                 gpur_stream *stream)
{
    if (!checked->hindsight)
        return GPUR_OK;
    GPUR_TRY(read_settings(checked, schema, &h->config, &h->fields));
    h->config.achieved_field = h->config.desired_field = NULL;
    GPUR_TRY(
        gpur_memory_alloc(device, gpur_hindsight_bytes(checked), "the episodes of hindsight", (void **)&h->memory));
    h->device = device;
    h->index.used = (uint64_t *)(void *)h->memory;
    h->index.places = (gpur_hindsight_place *)(void *)(h->memory + sizeof *h->index.used);
    h->index.order = (uint32_t *)(void *)((unsigned char *)h->index.places + places_bytes(checked));
    set_list(h, checked, schema, ring, window);
    set_relabel(h, checked, schema, ring, window);
    return gpur_fill(stream, h->memory, 0, gpur_hindsight_bytes(checked));
}

void gpur_hindsight_destroy(gpur_hindsight *h)
{
    if (h->device)
        gpur_memory_free(h->device, h->memory);
}

gpur_status gpur_hindsight_list_rows(const gpur_hindsight *h, gpur_stream *stream, int64_t first_id, int64_t rows)
{
    if (!h->device || rows <= 0)
        return GPUR_OK;
    gpur_hindsight_find_args args = h->list;
    args.first_id = first_id;
    args.rows = rows;
    return gpur_launch_hindsight_find(stream, gpur_grid_elements(h->device, rows), &args);
}

gpur_status gpur_hindsight_restore(const gpur_hindsight *h, gpur_stream *stream, const gpur_window *window)
{
    if (!h->device)
        return GPUR_OK;
    GPUR_TRY(gpur_fill(stream, h->index.places, 0, h->list.capacity * (int64_t)sizeof *h->index.places));
    return gpur_hindsight_list_rows(h, stream, window->first_id, window->count);
}
