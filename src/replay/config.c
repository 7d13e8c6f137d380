/* SPDX-License-Identifier: MIT */
#include "replay/config.h"

#include "base/sized.h"
#include "replay/sampler/sampler.h"
#include "replay/storage/layout.h"
#include "base/status.h"
#include "replay/hindsight/hindsight.h"
#include "gpureplay/priority.h"
#include "gpureplay/writer.h"
#include "replay/lanes/lanes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define EVICTION "gpur_replay_config.eviction is GPUR_EVICT_BY_PRIORITY (1), and "

static const gpur_replay_config defaults = {
    .size = sizeof(gpur_replay_config),
    .capacity = 1000000,
    .staging_blocks = 4,
    .min_size = 1,
    .gamma = 0.99f,
    .alpha = 0.6f,
    .priority_offset = 1e-6f,
    .beta = {.first = 0.4f, .last = 0.4f},
    .n_step = 1,
    .frame_stack = 1,
    .check_finite = 1,
    .evict_alpha = -0.4f,
};

gpur_status gpur_replay_config_init(gpur_replay_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_replay_config");
}

gpur_status gpur_choice_check(int32_t value, int32_t last, const char *name, const char *choices)
{
    GPUR_REQUIRE(value >= 0 && value <= last, "%s is %" PRId32 "; it must be %s", name, value, choices);
    return GPUR_OK;
}

gpur_status gpur_range_check(int64_t value, int64_t first, int64_t last, const char *name)
{
    GPUR_REQUIRE(value >= first && value <= last, "%s is %" PRId64 "; it must be %" PRId64 " to %" PRId64, name, value,
                 first, last);
    return GPUR_OK;
}

gpur_status gpur_index_source_check(int32_t index_source, const char *name)
{
    GPUR_REQUIRE(
        index_source >= GPUR_SOURCE_AUTO && index_source <= GPUR_PRIORITIZED_INDEPENDENT,
        "%s is %d; it must be GPUR_SOURCE_AUTO, GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT, GPUR_PRIORITIZED_STRATIFIED or "
        "GPUR_PRIORITIZED_INDEPENDENT (0 to 4)",
        name, (int)index_source);
    return GPUR_OK;
}

static gpur_status check_choices(const gpur_replay_config *c)
{
    GPUR_TRY(gpur_index_source_check(c->index_source, "gpur_replay_config.index_source"));
    GPUR_TRY(gpur_choice_check(c->upload, 1, "gpur_replay_config.upload",
                               "GPUR_UPLOAD_COPY (0) or GPUR_UPLOAD_SCATTER (1)"));
    GPUR_TRY(
        gpur_choice_check(c->flush, 1, "gpur_replay_config.flush", "GPUR_FLUSH_AUTO (0) or GPUR_FLUSH_MANUAL (1)"));
    GPUR_TRY(gpur_choice_check(c->when_full, 1, "gpur_replay_config.when_full",
                               "GPUR_WHEN_FULL_WAIT (0) or GPUR_WHEN_FULL_ERROR (1)"));
    GPUR_REQUIRE(c->gamma >= 0.0f && c->gamma <= 1.0f, "gpur_replay_config.gamma is %g; it must be 0 to 1",
                 (double)c->gamma);
    GPUR_REQUIRE(c->reward_clip >= 0.0f && c->reward_clip < INFINITY,
                 "gpur_replay_config.reward_clip is %g; it must be 0 (not clipped) or more, and finite",
                 (double)c->reward_clip);
    GPUR_TRY(gpur_choice_check(c->layout, GPUR_LAYOUT_LANES, "gpur_replay_config.layout",
                               "GPUR_LAYOUT_ROWS (0), FRAMES (1) or LANES (2)"));
    GPUR_TRY(gpur_choice_check(c->check_finite, 1, "gpur_replay_config.check_finite", "0 or 1"));
    return GPUR_OK;
}

#define WITH_LANES "gpur_replay_config.layout is GPUR_LAYOUT_LANES (2), and "

/* Settings of how experience comes from the host, which have no effect with lanes, must have their defaults. */
static gpur_status check_unused_by_lanes(const gpur_replay_config *c)
{
    const struct {
        const char *name;
        int64_t given, wanted;
    } unused[] = {
        {"block_rows", c->block_rows, defaults.block_rows},
        {"staging_blocks", c->staging_blocks, defaults.staging_blocks},
        {"upload", c->upload, defaults.upload},
        {"flush", c->flush, defaults.flush},
        {"when_full", c->when_full, defaults.when_full},
        {"min_size", c->min_size, defaults.min_size},
        {"stack_pad", c->stack_pad, defaults.stack_pad},
        {"extra_frames", c->extra_frames, defaults.extra_frames},
        {"eviction", c->eviction, defaults.eviction},
    };
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        GPUR_REQUIRE(unused[i].given == unused[i].wanted,
                     WITH_LANES "%s is %" PRId64 "; it must be %" PRId64 ", its default", unused[i].name,
                     unused[i].given, unused[i].wanted);
    GPUR_REQUIRE(c->weight_norm != GPUR_WEIGHT_NORM_MEMORY,
                 WITH_LANES "weight_norm is GPUR_WEIGHT_NORM_MEMORY (1); it must be BATCH (0) or NONE (2)");
    return GPUR_OK;
}

static gpur_status check_lanes(const gpur_replay_config *c, const gpur_schema *schema)
{
    GPUR_TRY(gpur_range_check(c->lanes, 1, GPUR_MAX_LANES, "gpur_replay_config.lanes"));
    GPUR_REQUIRE(c->capacity % c->lanes == 0 && c->capacity / c->lanes >= 2,
                 WITH_LANES "capacity is %" PRId64 "; it must be a multiple of lanes, %" PRId64 ", by 2 or more",
                 c->capacity, c->lanes);
    GPUR_TRY(gpur_choice_check(c->lane_autoreset, GPUR_AUTORESET_SAME_STEP, "gpur_replay_config.lane_autoreset",
                               "GPUR_AUTORESET_DISABLED (0), NEXT_STEP (1) or SAME_STEP (2)"));
    GPUR_TRY(check_unused_by_lanes(c));
    return gpur_lane_schema_check(schema);
}

static gpur_status check_no_lanes(const gpur_replay_config *c)
{
    GPUR_REQUIRE(c->lanes == 0 && c->lane_autoreset == 0,
                 "gpur_replay_config.lanes is %" PRId64 " and lane_autoreset %d; they are for the layout "
                 "GPUR_LAYOUT_LANES, and must be 0 with layout %d",
                 c->lanes, (int)c->lane_autoreset, (int)c->layout);
    return GPUR_OK;
}

static gpur_status check_capacity(const gpur_replay_config *c, int64_t pitch)
{
    const int64_t limit = INT64_MAX / 256 / pitch;
    GPUR_REQUIRE(c->capacity >= 2 && c->capacity <= limit,
                 "gpur_replay_config.capacity is %" PRId64 "; it must be 2 to %" PRId64, c->capacity, limit);
    GPUR_REQUIRE(c->block_rows >= 0,
                 "gpur_replay_config.block_rows is %" PRId64 "; it must be 1 or more, or 0 for "
                 "the default",
                 c->block_rows);
    GPUR_REQUIRE(c->max_batch >= 0,
                 "gpur_replay_config.max_batch is %" PRId64 "; it must be 1 or more, or 0 for the "
                 "default",
                 c->max_batch);
    const int64_t most = limit < INT32_MAX ? limit : INT32_MAX;
    GPUR_REQUIRE(c->max_batch <= most, "gpur_replay_config.max_batch is %" PRId64 "; it must be at most %" PRId64,
                 c->max_batch, most);
    return GPUR_OK;
}

/* While a full ring receives a block, the rows that the block overwrites are evicted and its own are not visible yet. A
 * sample must still find a row, or without replacement max_batch rows. */
static gpur_status check_sizes(const gpur_replay_config *c)
{
    GPUR_REQUIRE(c->block_rows < c->capacity,
                 "gpur_replay_config.capacity is %" PRId64 " and block_rows %" PRId64
                 "; the first must be larger, because a row must stay visible while a block is in flight",
                 c->capacity, c->block_rows);
    GPUR_REQUIRE(c->layout != GPUR_LAYOUT_LANES || c->index_source != GPUR_UNIFORM_DISTINCT ||
                     c->max_batch < c->capacity,
                 "gpur_replay_config.max_batch is %" PRId64 " and index_source GPUR_UNIFORM_DISTINCT (2); it must be "
                 "below gpur_replay_config.capacity = %" PRId64,
                 c->max_batch, c->capacity);
    GPUR_REQUIRE(c->index_source != GPUR_UNIFORM_DISTINCT || c->max_batch <= c->capacity - c->block_rows,
                 "gpur_replay_config.max_batch is %" PRId64 " and index_source GPUR_UNIFORM_DISTINCT (2); it must be "
                 "at most capacity - block_rows = %" PRId64
                 ", because so many transitions stay visible while a block is in flight",
                 c->max_batch, c->capacity - c->block_rows);
    GPUR_REQUIRE(c->min_size >= 0 && c->min_size <= c->capacity,
                 "gpur_replay_config.min_size is %" PRId64 "; it must be 0 to the capacity, %" PRId64, c->min_size,
                 c->capacity);
    GPUR_REQUIRE(c->staging_blocks >= GPUR_MIN_STAGING_BLOCKS && c->staging_blocks <= GPUR_MAX_STAGING_BLOCKS,
                 "gpur_replay_config.staging_blocks is %d; it must be %d to %d", (int)c->staging_blocks,
                 GPUR_MIN_STAGING_BLOCKS, GPUR_MAX_STAGING_BLOCKS);
    return GPUR_OK;
}

gpur_status gpur_exponent_check(float value, const char *name)
{
    GPUR_REQUIRE(value >= 0.0f && value <= GPUR_MAX_EXPONENT, "%s is %g; it must be 0 to %g", name, (double)value,
                 (double)GPUR_MAX_EXPONENT);
    return GPUR_OK;
}

gpur_status gpur_schedule_check(const gpur_schedule *s, float limit, const char *name)
{
    GPUR_REQUIRE(s->first >= 0.0f && s->first <= limit && s->last >= 0.0f && s->last <= limit && s->begin >= 0 &&
                     s->steps >= 0,
                 "%s goes from %g to %g, from step %" PRId64 " on and over %" PRId64
                 " steps; it must stay within 0 to %g, and begin and steps must be 0 or more",
                 name, (double)s->first, (double)s->last, s->begin, s->steps, (double)limit);
    return gpur_reserved_check(s->reserved, 2, name);
}

/* Refuses a reward_clip that could have no effect: it needs a field "reward" of one float32. */
static gpur_status check_clipping(const gpur_replay_config *c, const gpur_schema *schema)
{
    const int32_t reward = gpur_schema_find(schema, "reward");
    const gpur_field_info *const field = &schema->fields[reward < 0 ? 0 : reward];
    GPUR_REQUIRE(c->reward_clip == 0.0f || reward >= 0,
                 "gpur_replay_config.reward_clip is %g and the schema has no field \"reward\"; it must be 0",
                 (double)c->reward_clip);
    GPUR_REQUIRE(c->reward_clip == 0.0f || (field->dtype == GPUR_FLOAT32 && field->bytes == sizeof(float)),
                 "gpur_replay_config.reward_clip is %g and field \"reward\" is %s of %" PRId64
                 " bytes; only one float32 can be clipped: set reward_clip to 0",
                 (double)c->reward_clip, gpur_dtype_name(field->dtype), field->bytes);
    return GPUR_OK;
}

/* The field "priority", with a row's first priority, must be one float32 if the schema has it. */
static gpur_status check_priority_field(const gpur_schema *schema)
{
    const int32_t index = gpur_schema_find(schema, "priority");
    const gpur_field_info *const field = &schema->fields[index < 0 ? 0 : index];
    GPUR_REQUIRE(index < 0 || (field->dtype == GPUR_FLOAT32 && field->bytes == sizeof(float)),
                 "field \"priority\" is %s of %" PRId64 " bytes; a prioritized replay needs one float32",
                 gpur_dtype_name(field->dtype), field->bytes);
    return GPUR_OK;
}

/* Without priorities, refuses settings of priorities that differ from their defaults, since they would have no effect.
 * The values that presets set equal the defaults, so `prioritized` may be cleared after a preset. */
static gpur_status check_unprioritized(const gpur_replay_config *c)
{
    const gpur_schedule *const beta = &c->beta, *const plain = &defaults.beta;
    GPUR_REQUIRE(c->weight_norm == defaults.weight_norm,
                 "gpur_replay_config.weight_norm is %d and prioritized 0; without priorities it must be 0, its default",
                 (int)c->weight_norm);
    GPUR_REQUIRE(c->alpha == defaults.alpha,
                 "gpur_replay_config.alpha is %g and prioritized 0; without priorities it must be %g, its default",
                 (double)c->alpha, (double)defaults.alpha);
    GPUR_REQUIRE(c->priority_offset == defaults.priority_offset,
                 "gpur_replay_config.priority_offset is %g and prioritized 0; without priorities it must be %g, its "
                 "default",
                 (double)c->priority_offset, (double)defaults.priority_offset);
    GPUR_REQUIRE(memcmp(beta, plain, sizeof *beta) == 0,
                 "gpur_replay_config.beta goes from %g to %g and prioritized is 0; without priorities it must be %g "
                 "throughout, its default",
                 (double)beta->first, (double)beta->last, (double)plain->first);
    return GPUR_OK;
}

/* Rows that leave in any order share no frames, cannot be counted by their ids, and are not followed by `previous`. */
static gpur_status check_eviction(const gpur_replay_config *c, const gpur_schema *schema)
{
    GPUR_TRY(gpur_choice_check(c->eviction, GPUR_EVICT_BY_PRIORITY, "gpur_replay_config.eviction",
                               "GPUR_EVICT_OLDEST (0) or GPUR_EVICT_BY_PRIORITY (1)"));
    GPUR_REQUIRE(c->evict_alpha >= -GPUR_MAX_EXPONENT && c->evict_alpha <= 0.0f,
                 "gpur_replay_config.evict_alpha is %g; it must be %g to 0", (double)c->evict_alpha,
                 -(double)GPUR_MAX_EXPONENT);
    if (c->eviction == GPUR_EVICT_OLDEST)
        return GPUR_OK;
    GPUR_REQUIRE(c->prioritized, EVICTION "prioritized is 0; it must be 1");
    GPUR_REQUIRE(c->layout == GPUR_LAYOUT_ROWS,
                 EVICTION "layout is GPUR_LAYOUT_FRAMES (1); it must be GPUR_LAYOUT_ROWS (0)");
    GPUR_REQUIRE(c->index_source == GPUR_SOURCE_AUTO || gpur_sampler_of(c->index_source)->is_by_priority,
                 EVICTION "index_source is %d, uniform; it must be GPUR_SOURCE_AUTO (0) or GPUR_PRIORITIZED_* (3, 4)",
                 (int)c->index_source);
    GPUR_REQUIRE(c->priority_offset > 0.0f,
                 EVICTION "priority_offset is %g; it must be above 0, so that no priority is 0",
                 (double)c->priority_offset);
    GPUR_REQUIRE(gpur_schema_find(schema, "previous") < 0,
                 EVICTION "the schema has a field \"previous\", which links transitions; it must have none");
    return GPUR_OK;
}

static gpur_status check_priorities(const gpur_replay_config *c, const gpur_schema *schema)
{
    GPUR_REQUIRE(c->prioritized == 0 || c->prioritized == 1, "gpur_replay_config.prioritized is %d; it must be 0 or 1",
                 (int)c->prioritized);
    GPUR_REQUIRE(c->prioritized || !gpur_sampler_of(c->index_source)->is_by_priority,
                 "gpur_replay_config.index_source is %d, by priority, and prioritized is 0; set prioritized to 1, or "
                 "index_source to GPUR_SOURCE_AUTO (0)",
                 (int)c->index_source);
    GPUR_TRY(gpur_choice_check(c->weight_norm, GPUR_WEIGHT_NORM_NONE, "gpur_replay_config.weight_norm",
                               "GPUR_WEIGHT_NORM_BATCH, MEMORY or NONE (0 to 2)"));
    GPUR_TRY(gpur_choice_check(c->first_priority, GPUR_FIRST_PRIORITY_EVER, "gpur_replay_config.first_priority",
                               "GPUR_FIRST_PRIORITY_WINDOW (0) or GPUR_FIRST_PRIORITY_EVER (1)"));
    GPUR_TRY(gpur_exponent_check(c->alpha, "gpur_replay_config.alpha"));
    GPUR_REQUIRE(c->priority_offset >= 0.0f && c->priority_offset <= GPUR_MAX_PRIORITY_OFFSET,
                 "gpur_replay_config.priority_offset is %g; it must be 0 to %g", (double)c->priority_offset,
                 (double)GPUR_MAX_PRIORITY_OFFSET);
    GPUR_REQUIRE(!c->prioritized || c->capacity <= INT32_MAX,
                 "gpur_replay_config.capacity is %" PRId64 "; with priorities it must be at most %d", c->capacity,
                 INT32_MAX);
    GPUR_TRY(gpur_schedule_check(&c->beta, GPUR_MAX_EXPONENT, "gpur_replay_config.beta"));
    return c->prioritized ? check_priority_field(schema) : check_unprioritized(c);
}

/* With n_step above 1 every row must store its discount: transitions at the end of an episode have fewer steps, so the
 * power of gamma to bootstrap with differs from row to row. */
static gpur_status check_n_step(const gpur_replay_config *c, const gpur_schema *schema)
{
    GPUR_REQUIRE(c->n_step >= 1 && c->n_step <= GPUR_MAX_N_STEP, "gpur_replay_config.n_step is %d; it must be 1 to %d",
                 (int)c->n_step, GPUR_MAX_N_STEP);
    GPUR_REQUIRE(c->n_step == 1 || c->layout == GPUR_LAYOUT_LANES || gpur_schema_find(schema, "discount") >= 0,
                 "gpur_replay_config.n_step is %d, and the schema has no field \"discount\"; add one, a float32, for "
                 "gamma to the power of each transition's steps",
                 (int)c->n_step);
    return GPUR_OK;
}

gpur_status gpur_replay_config_check(const gpur_replay_config *given, gpur_replay_config *checked, gpur_schema *schema)
{
    gpur_replay_config c = defaults;
    GPUR_TRY(gpur_sized_read(&c, sizeof c, given, "gpur_replay_config"));
    GPUR_TRY(gpur_schema_build(schema, c.fields, c.field_count));
    GPUR_TRY(check_choices(&c));
    GPUR_TRY(c.layout == GPUR_LAYOUT_LANES ? check_lanes(&c, schema) : check_no_lanes(&c));
    GPUR_TRY(check_capacity(&c, schema->pitch));
    GPUR_TRY(check_n_step(&c, schema));
    GPUR_TRY(check_clipping(&c, schema));
    GPUR_TRY(gpur_ring_layout_resolve(&c, schema));
    if (c.layout == GPUR_LAYOUT_LANES)
        GPUR_TRY(gpur_lane_stacks_check(&c, schema));
    GPUR_TRY(check_sizes(&c));
    GPUR_TRY(gpur_ring_layout_check(&c, schema));
    GPUR_TRY(check_priorities(&c, schema));
    GPUR_TRY(check_eviction(&c, schema));
    if (c.hindsight)
        GPUR_TRY(gpur_hindsight_check(&c, schema));
    if (c.index_source == GPUR_SOURCE_AUTO)
        c.index_source = c.prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM;
    c.fields = NULL;
    *checked = c;
    return GPUR_OK;
}

int32_t gpur_clipped_field(const gpur_replay_config *checked, const gpur_schema *schema)
{
    return checked->reward_clip > 0.0f ? gpur_schema_find(schema, "reward") : -1;
}

/* Presets: the replay settings of published systems. */

/* The replay of all three Melee agents [Parr 2018, sections 4 and 5; its code clips rewards to [-1, 1]]. The published
 * burn-in is 125 files of workers, of unpublished length; here it is one full staging block. */
static void set_melee(gpur_replay_config *config)
{
    config->capacity = 1000000;
    config->block_rows = config->min_size = 2000;
    config->gamma = 0.99f;
    config->reward_clip = 1.0f;
}

/* Mnih et al. 2015, extended data table 1: the last million transitions, and training starts after 50,000. The paper
 * replaces rewards by their signs; Atari's rewards are integers, so clipping to [-1, 1] does the same. Observations are
 * stacks of four frames, each frame is stored once, and the first stack of an episode is padded with zeros, as in the
 * code of Daley & Amato 2021. */
static void set_nature(gpur_replay_config *config)
{
    config->layout = GPUR_LAYOUT_FRAMES;
    config->frame_stack = 4;
    config->stack_axis = GPUR_STACK_FIRST;
    config->stack_pad = GPUR_PAD_ZERO;
    config->capacity = 1000000;
    config->gamma = 0.99f;
    config->reward_clip = 1.0f;
    config->min_size = 50000;
}

/* Horgan et al. 2018, section 4.1 and appendix C: two million transitions, and learning starts after 50,000; 3-step
 * returns, alpha 0.6, beta 0.4 throughout, and rows without a priority as in Schaul et al. 2016. priority_offset is
 * taken from public code. */
static void set_apex(gpur_replay_config *config)
{
    const gpur_schedule beta = {.first = 0.4f, .last = 0.4f};
    set_nature(config);
    config->capacity = 2000000;
    config->n_step = 3;
    config->prioritized = 1;
    config->alpha = 0.6f;
    config->priority_offset = 1e-6f;
    config->first_priority = GPUR_FIRST_PRIORITY_EVER;
    config->beta = beta;
}

typedef struct preset {
    const char *name;
    void (*set)(gpur_replay_config *config);
} preset;

static const preset presets[] = {
    {"melee-gpu", set_melee},       {"melee-dqn", set_melee}, {"melee-double", set_melee}, {"nature-dqn", set_nature},
    {"nature-dueling", set_nature}, {"qr-dqn", set_nature},   {"c51", set_nature},         {"apex-dqn", set_apex},
};

#define PRESETS                                                                                                        \
    "there are \"melee-gpu\", \"melee-dqn\", \"melee-double\", \"nature-dqn\", \"nature-dueling\", \"qr-dqn\", "       \
    "\"c51\", \"apex-dqn\""

gpur_status gpur_replay_config_preset(gpur_replay_config *config, const char *name)
{
    gpur_replay_config changed;
    GPUR_REQUIRE(name, "the preset's name is NULL; " PRESETS);
    GPUR_TRY(gpur_replay_config_init(&changed, sizeof changed));
    GPUR_TRY(gpur_sized_read(&changed, sizeof changed, config, "gpur_replay_config"));
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) {
            presets[i].set(&changed);
            return gpur_sized_write(config, &changed, sizeof changed, "gpur_replay_config");
        }
    return gpur_fail(GPUR_INVALID_ARGUMENT, "no replay preset \"%s\"; " PRESETS, name);
}
