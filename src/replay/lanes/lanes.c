/* SPDX-License-Identifier: MIT */
#include "replay/lanes/lanes.h"

#include "base/arena.h"
#include "base/numbers.h"
#include "gpureplay/writer.h"
#include "kernels/lib/random.h"

#include <stdio.h>
#include <string.h>

enum { WARP_ROW_BYTES = 1024, ROWS_PER_BLOCK = 8, GATHER_THREADS = 256 };

gpur_lane_config gpur_lane_config_of(const gpur_replay_config *c)
{
    return (gpur_lane_config){.lanes = c->lanes,
                              .steps = gpur_max(2, c->capacity / c->lanes),
                              .max_batch = c->max_batch,
                              .resets_later = c->lane_autoreset == GPUR_AUTORESET_NEXT_STEP,
                              .reward_clip = c->reward_clip,
                              .stack = c->frame_stack,
                              .stack_is_last = c->stack_axis == GPUR_STACK_LAST};
}

/* The role of a field, and for next_x the field x, which must have a ring. */
static gpur_lane_role role_of(const gpur_schema *schema, int32_t field, int32_t *of)
{
    int32_t of_x = -1;
    static const char *const names[] = {"reward", "terminated", "truncated"};
    static const gpur_lane_role roles[] = {GPUR_LANE_REWARD, GPUR_LANE_TERMINATION, GPUR_LANE_TRUNCATION};
    const char *const name = schema->fields[field].name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return roles[i];
    *of = strncmp(name, "next_", 5) == 0 ? gpur_schema_find(schema, name + 5) : -1;
    if (*of < 0)
        return GPUR_LANE_STORED;
    const gpur_field_info *const x = &schema->fields[*of], *const next = &schema->fields[field];
    const int is_alike =
        x->dtype == next->dtype && x->dims == next->dims && memcmp(x->shape, next->shape, sizeof x->shape) == 0;
    const int has_ring = is_alike && role_of(schema, *of, &of_x) == GPUR_LANE_STORED;
    return has_ring ? GPUR_LANE_NEXT : GPUR_LANE_STORED;
}

static gpur_status check_field(const gpur_schema *schema, const char *name, int64_t bytes, const char *wanted)
{
    const int32_t index = gpur_schema_find(schema, name);
    GPUR_REQUIRE(index >= 0, "the schema has no field \"%s\"; lanes need one, %s", name, wanted);
    const gpur_field_info *const field = &schema->fields[index];
    const int is_right =
        bytes == 4 ? field->dtype == GPUR_FLOAT32 : field->dtype == GPUR_BOOL || field->dtype == GPUR_UINT8;
    GPUR_REQUIRE(is_right && field->bytes == bytes, "field \"%s\" is %s of %lld bytes; lanes need %s", name,
                 gpur_dtype_name(field->dtype), (long long)field->bytes, wanted);
    return GPUR_OK;
}

gpur_status gpur_lane_schema_check(const gpur_schema *schema)
{
    static const char *const refused[] = {"priority", "discount", "previous"};
    GPUR_TRY(check_field(schema, "reward", 4, "one float32"));
    GPUR_TRY(check_field(schema, "terminated", 1, "one bool or uint8"));
    GPUR_TRY(check_field(schema, "truncated", 1, "one bool or uint8"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        GPUR_REQUIRE(gpur_schema_find(schema, refused[i]) < 0,
                     "the schema has a field \"%s\", which rows of lanes do not have", refused[i]);
    GPUR_REQUIRE(schema->count <= GPUR_MAX_LANE_FIELDS, "the schema has %d fields; with lanes it must be at most %d",
                 (int)schema->count, GPUR_MAX_LANE_FIELDS);
    return GPUR_OK;
}

/* The length of the axis that counts frames. */
static int32_t frames_of(const gpur_field_info *field, int32_t stack_is_last)
{
    return field->dims > 0 ? field->shape[stack_is_last ? field->dims - 1 : 0] : 0;
}

/* A stack is obs, or a part obs.x of two axes or more, with so many frames. */
static int is_stack(const gpur_schema *schema, int32_t field, int32_t stack, int32_t stack_is_last)
{
    const gpur_field_info *const info = &schema->fields[field];
    const int is_obs = strcmp(info->name, "obs") == 0, is_part = strncmp(info->name, "obs.", 4) == 0 && info->dims > 1;
    char next[GPUR_MAX_NAME + 8];
    int32_t of = -1;
    snprintf(next, sizeof next, "next_%s", info->name);
    const int32_t other = gpur_schema_find(schema, next);
    return stack > 1 && (is_obs || is_part) && frames_of(info, stack_is_last) == stack && other >= 0 &&
           role_of(schema, other, &of) == GPUR_LANE_NEXT;
}

gpur_status gpur_lane_stacks_check(const gpur_replay_config *c, const gpur_schema *schema)
{
    const int is_last = c->stack_axis == GPUR_STACK_LAST;
    const char *const axis = is_last ? "last" : "first";
    const int32_t obs = gpur_schema_find(schema, "obs");
    GPUR_REQUIRE(
        c->frame_stack > 1 || !is_last,
        "gpur_replay_config.stack_axis is GPUR_STACK_LAST (1) and frame_stack 1; with lanes stack_axis must be "
        "its default, GPUR_STACK_FIRST (0), where observations are no stacks");
    for (int32_t i = 0; i < schema->count; i++)
        if (is_stack(schema, i, c->frame_stack, is_last))
            return GPUR_OK;
    GPUR_REQUIRE(c->frame_stack == 1 || obs < 0 || frames_of(&schema->fields[obs], is_last) == c->frame_stack,
                 "gpur_replay_config.frame_stack is %d and the %s axis of \"obs\" is %d long; they must be the same",
                 (int)c->frame_stack, axis, (int)frames_of(&schema->fields[obs], is_last));
    GPUR_REQUIRE(c->frame_stack == 1,
                 "gpur_replay_config.frame_stack is %d, and the schema has no pair of fields \"obs\" and \"next_obs\", "
                 "or \"obs.x\" and \"next_obs.x\", of one type and shape with a %s axis of %d frames",
                 (int)c->frame_stack, axis, (int)c->frame_stack);
    return GPUR_OK;
}

static int64_t finals_of(const gpur_lane_config *c)
{
    return c->lanes * gpur_max(2, gpur_divide_up(c->steps, GPUR_LANE_EPISODE));
}

static int has_next(const gpur_lane_store *store, int32_t field)
{
    for (int32_t i = 0; i < store->schema->count; i++)
        if (store->parts[i].role == GPUR_LANE_NEXT && store->parts[i].of == field)
            return 1;
    return 0;
}

int64_t gpur_lane_part_bytes(const gpur_lane_store *store, int32_t field)
{
    return store->schema->fields[field].bytes / (store->parts[field].is_stack ? store->lanes.stack : 1);
}

/* Measures with an arena without memory, and else assigns addresses. */
static int64_t assign(gpur_lane_store *store, const gpur_lane_config *c, unsigned char *base)
{
    gpur_arena of_memory = {.base = base}, *const arena = &of_memory;
    gpur_lane_rings *const l = &store->lanes;
    const int64_t rows = c->lanes * c->steps;
    l->lanes = c->lanes, l->steps = c->steps, l->finals = finals_of(c), l->resets_later = c->resets_later;
    l->stack = c->stack > 1 ? c->stack : 1, store->stack_is_last = c->stack_is_last;
    l->state = gpur_arena_alloc(arena, (int64_t)sizeof *l->state);
    l->flags = gpur_arena_alloc(arena, rows);
    l->reward = gpur_arena_floats(arena, rows);
    l->stacks = l->stack > 1 ? gpur_arena_alloc(arena, rows) : NULL;
    store->ids = gpur_arena_alloc(arena, c->max_batch * (int64_t)sizeof *store->ids);
    if (!c->resets_later) {
        l->final = gpur_arena_alloc(arena, rows * (int64_t)sizeof *l->final);
        l->owner = gpur_arena_alloc(arena, l->finals * (int64_t)sizeof *l->owner);
    }
    for (int32_t i = 0; i < store->schema->count; i++) {
        store->parts[i].role = role_of(store->schema, i, &store->parts[i].of);
        store->parts[i].is_stack = is_stack(store->schema, i, l->stack, c->stack_is_last);
    }
    for (int32_t i = 0; i < store->schema->count; i++) {
        gpur_lane_part *const part = &store->parts[i];
        const int64_t bytes = gpur_lane_part_bytes(store, i);
        const int64_t values = part->is_stack ? rows + (l->stack - 1) * c->lanes : rows;
        if (part->role != GPUR_LANE_STORED)
            continue;
        part->ring = gpur_arena_alloc(arena, values * bytes);
        if (has_next(store, i) && !c->resets_later)
            part->finals = gpur_arena_alloc(arena, l->finals * bytes);
    }
    return arena->used;
}

int64_t gpur_lane_store_bytes(const gpur_schema *schema, const gpur_lane_config *config)
{
    gpur_lane_store store = {.schema = schema};
    return assign(&store, config, NULL);
}

gpur_status gpur_lane_store_build(gpur_lane_store *store, gpur_device *device, const gpur_schema *schema,
                                  const gpur_lane_config *config, const gpur_priorities *priorities,
                                  gpur_window *window)
{
    store->device = device;
    store->schema = schema;
    store->priorities = priorities;
    store->reward_clip = config->reward_clip;
    GPUR_TRY(
        gpur_memory_alloc(device, gpur_lane_store_bytes(schema, config), "the ring of lanes", (void **)&store->memory));
    assign(store, config, store->memory);
    store->lanes.window = window;
    return GPUR_OK;
}

void gpur_lane_store_destroy(gpur_lane_store *store)
{
    if (store->device)
        gpur_memory_free(store->device, store->memory);
}

static gpur_status advance(const gpur_lane_store *store, gpur_stream *stream, int is_draw)
{
    const gpur_lanes_advance_args args = {.lanes = store->lanes, .is_draw = is_draw};
    return gpur_launch_lanes_advance(stream, gpur_grid_single(store->device), &args);
}

/* The widest unit, as a shift, that divides all of x. */
static int32_t shift_of(uint64_t x)
{
    int32_t shift = 0;
    while (shift < 4 && (x >> shift & 1) == 0)
        shift++;
    return shift;
}

/* How the frames of a stacked field lie in arrays that are given. */
static gpur_lane_stack stack_of(const gpur_lane_store *store, int32_t field, const void *from, const void *finals)
{
    const gpur_field_info *const info = &store->schema->fields[field];
    const int64_t bytes = gpur_lane_part_bytes(store, field), number = gpur_dtype_bytes(info->dtype);
    const int32_t wide = shift_of((uint64_t)(uintptr_t)from | (uint64_t)(uintptr_t)finals | (uint64_t)bytes);
    gpur_lane_stack s = {.from = from, .finals = finals, .ring = store->parts[field].ring, .pitch = info->bytes};
    s.shift = store->stack_is_last ? shift_of((uint64_t)number) : wide;
    s.units = (int32_t)(bytes >> s.shift);
    s.unit_step = store->stack_is_last ? store->lanes.stack * number : (int64_t)1 << s.shift;
    s.frame_step = store->stack_is_last ? number : bytes;
    return s;
}

/* Final observations, or the newest frames of these. */
static gpur_lane_final final_of(const gpur_lane_store *store, int32_t next, const void *from)
{
    const int32_t of = store->parts[next].of;
    const int64_t bytes = store->schema->fields[next].bytes;
    unsigned char *const ring = store->parts[of].finals;
    if (store->parts[of].is_stack) {
        const gpur_lane_stack s = stack_of(store, of, from, NULL);
        return (gpur_lane_final){
            s.from + (store->lanes.stack - 1) * s.frame_step, ring, s.pitch, s.unit_step, s.units, s.shift};
    }
    const int32_t shift = shift_of((uint64_t)(uintptr_t)from | (uint64_t)bytes);
    return (gpur_lane_final){from, ring, bytes, (int64_t)1 << shift, (int32_t)(bytes >> shift), shift};
}

static void set_finals(const gpur_lane_store *store, const void *const *fields, gpur_lanes_add_args *args)
{
    for (int32_t i = 0; i < store->schema->count; i++)
        if (store->parts[i].role == GPUR_LANE_NEXT && fields[i])
            args->finals[args->final_count++] = final_of(store, i, fields[i]);
}

/* The array of next_x beside that of x. */
static const void *final_array_of(const gpur_lane_store *store, int32_t field, const void *const *fields)
{
    for (int32_t i = 0; i < store->schema->count; i++)
        if (store->parts[i].role == GPUR_LANE_NEXT && store->parts[i].of == field)
            return fields[i];
    return NULL;
}

static gpur_status add_stacks(const gpur_lane_store *store, gpur_stream *stream, const void *const *fields,
                              const gpur_lanes_add_args *add)
{
    gpur_lanes_stack_args args = {.lanes = store->lanes, .terminated = add->terminated, .truncated = add->truncated};
    int64_t row_bytes = 0;
    for (int32_t i = 0; i < store->schema->count; i++)
        if (store->parts[i].is_stack) {
            args.stacks[args.stack_count++] = stack_of(store, i, fields[i], final_array_of(store, i, fields));
            row_bytes += store->schema->fields[i].bytes;
        }
    const gpur_grid grid = gpur_grid_rows(store->device, store->lanes.lanes, ROWS_PER_BLOCK, row_bytes);
    return gpur_launch_lanes_stack(stream, gpur_grid_of_threads(grid, GATHER_THREADS), &args);
}

gpur_status gpur_lane_store_add(const gpur_lane_store *store, gpur_stream *stream, const void *const *fields)
{
    const gpur_schema *const schema = store->schema;
    gpur_lanes_add_args args = {
        .lanes = store->lanes, .tree = store->priorities->tree, .reward_clip = store->reward_clip};
    int64_t row_bytes = 0;
    for (int32_t i = 0; i < schema->count; i++) {
        const gpur_lane_role role = store->parts[i].role;
        if (role == GPUR_LANE_STORED && !store->parts[i].is_stack)
            args.fields[args.field_count++] =
                (gpur_lane_field){fields[i], store->parts[i].ring, schema->fields[i].bytes};
        else if (role == GPUR_LANE_REWARD)
            args.reward = fields[i];
        else if (role == GPUR_LANE_TERMINATION)
            args.terminated = fields[i];
        else if (role == GPUR_LANE_TRUNCATION)
            args.truncated = fields[i];
        row_bytes += schema->fields[i].bytes;
    }
    set_finals(store, fields, &args);
    if (store->lanes.stack > 1)
        GPUR_TRY(add_stacks(store, stream, fields, &args));
    const gpur_grid grid = gpur_grid_rows(store->device, store->lanes.lanes, ROWS_PER_BLOCK, row_bytes);
    GPUR_TRY(gpur_launch_lanes_add(stream, gpur_grid_of_threads(grid, GATHER_THREADS), &args));
    GPUR_TRY(advance(store, stream, 0));
    return store->priorities->device ? gpur_priorities_settle(store->priorities, stream, 0, 0) : GPUR_OK;
}

gpur_status gpur_lane_store_reset(const gpur_lane_store *store, gpur_stream *stream, const uint8_t *which)
{
    const gpur_lanes_reset_args args = {.lanes = store->lanes, .which = which};
    return gpur_launch_lanes_reset(stream, gpur_grid_elements(store->device, store->lanes.lanes), &args);
}

static void add_copy(const gpur_lane_store *store, int32_t field, void *to, int64_t pitch, gpur_lanes_gather_args *args)
{
    const gpur_lane_part *const part = &store->parts[field];
    const int is_next = part->role == GPUR_LANE_NEXT;
    const gpur_lane_part *const stored = is_next ? &store->parts[part->of] : part;
    const int64_t bytes = store->schema->fields[field].bytes;
    gpur_lane_copy *const copy = &args->copies[args->copy_count++];
    *copy = (gpur_lane_copy){.ring = stored->ring,
                             .finals = stored->finals,
                             .to = to,
                             .bytes = bytes,
                             .pitch = pitch,
                             .is_next = is_next,
                             .stack = stored->is_stack ? store->lanes.stack : 1,
                             .is_last = store->stack_is_last,
                             .first_unit = args->units};
    if (copy->stack > 1 && copy->is_last)
        copy->shift = shift_of((uint64_t)gpur_dtype_bytes(store->schema->fields[field].dtype));
    else
        copy->shift = shift_of((uint64_t)(uintptr_t)to | (uint64_t)(bytes / copy->stack) | (uint64_t)pitch);
    args->units += (int32_t)(bytes >> copy->shift);
}

static void set_copies(const gpur_lane_store *store, const gpur_lane_batch *batch, gpur_lanes_gather_args *args)
{
    for (int32_t i = 0; i < store->schema->count; i++) {
        void *const to = batch->fields ? batch->fields[i] : NULL;
        if (!to)
            continue;
        if (store->parts[i].role == GPUR_LANE_REWARD)
            args->reward = to;
        else if (store->parts[i].role == GPUR_LANE_TERMINATION)
            args->terminated = to;
        else if (store->parts[i].role == GPUR_LANE_TRUNCATION)
            args->truncated = to;
        else
            add_copy(store, i, to, batch->pitches ? batch->pitches[i] : store->schema->fields[i].bytes, args);
    }
}

/* The number of the draw, in device memory. */
static const uint64_t *step_of(const gpur_lane_store *store, const gpur_lane_batch *batch)
{
    return batch->step ? batch->step : (const uint64_t *)(const void *)&store->lanes.state->draws;
}

static gpur_status gather(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch,
                          const int64_t *ids, int64_t *id)
{
    gpur_lanes_gather_args args = {
        .lanes = store->lanes,
        .ids = ids,
        .redraws = !batch->ids,
        .draw = step_of(store, batch),
        .seed = batch->seed,
        .batch = batch->count,
        .id = id,
        .weight = batch->weight,
        .discount = batch->discount,
        .steps = batch->steps,
        .gamma = batch->gamma,
        .purpose = batch->purpose,
        .way = batch->of_each_lane                            ? GPUR_LANES_OF_EACH
               : batch->index_source == GPUR_UNIFORM_DISTINCT ? GPUR_LANES_DISTINCT
                                                              : GPUR_LANES_OF_ALL,
        .n_step = batch->n_step,
    };
    set_copies(store, batch, &args);
    const gpur_grid rows = gpur_grid_rows(store->device, batch->count, ROWS_PER_BLOCK, WARP_ROW_BYTES);
    const gpur_grid grid = gpur_grid_of_threads(rows, GATHER_THREADS);
    return store->lanes.stack > 1 ? gpur_launch_lanes_gather_stacks(stream, grid, &args)
                                  : gpur_launch_lanes_gather(stream, grid, &args);
}

static uint32_t *leaf_of(const gpur_lane_store *store, const gpur_lane_batch *batch)
{
    return batch->leaf ? batch->leaf : store->priorities->leaf;
}

/* The weights (N P(i))^-beta [Schaul et al. 2016, section 3.4] of rows by their leaves, of one step each, whatever n
 * is. */
static gpur_status weigh(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch,
                         const int64_t *id)
{
    const gpur_priorities *const p = store->priorities;
    gpur_priority_weights_args weights =
        gpur_priorities_weight_args(p, batch->count, id, leaf_of(store, batch), batch->weight);
    weights.step = step_of(store, batch);
    weights.rows = &store->lanes.state->whole;
    weights.beta_first = batch->beta.first, weights.beta_last = batch->beta.last;
    weights.beta_begin = batch->beta.begin, weights.beta_steps = batch->beta.steps;
    return gpur_launch_priority_weights(stream, gpur_grid_elements(store->device, batch->count), &weights);
}

/* P(i) = p_i^alpha / sum_k p_k^alpha [Schaul et al. 2016, equation 1]. */
static gpur_status draw_by_priority(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch)
{
    const gpur_priorities *const p = store->priorities;
    int64_t *const id = batch->id ? batch->id : p->ids;
    gpur_priority_sample_args sample = gpur_priorities_sample_args(
        p, batch->index_source == GPUR_PRIORITIZED_STRATIFIED, batch->count, id, leaf_of(store, batch));
    sample.seed = batch->seed;
    sample.purpose = batch->step ? GPUR_RANDOM_LEARN_PRIORITY : GPUR_RANDOM_PRIORITY;
    sample.step = step_of(store, batch);
    GPUR_TRY(gpur_launch_priority_sample(stream, gpur_priorities_sample_grid(p, batch->count), &sample));
    GPUR_TRY(gather(store, stream, batch, id, id));
    return batch->weight ? weigh(store, stream, batch, id) : GPUR_OK;
}

static int32_t last_of(const gpur_lane_batch *batch)
{
    if (batch->ids)
        return GPUR_LAST_GIVEN;
    if (batch->index_source == GPUR_PRIORITIZED_STRATIFIED)
        return GPUR_LAST_STRATIFIED;
    return batch->index_source == GPUR_PRIORITIZED_INDEPENDENT ? GPUR_LAST_INDEPENDENT : GPUR_LAST_UNIFORM;
}

/* Finds the rows of sequences by their last ones, which are drawn or given; then gathers them. By priority all rows of
 * a sequence have the weight of the last one. */
static gpur_status draw_sequences(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch)
{
    const gpur_priorities *const p = store->priorities;
    const int is_weighed = p->device && !batch->ids && last_of(batch) != GPUR_LAST_UNIFORM && batch->weight;
    const gpur_sequences_args args = {
        .window = store->lanes.window,
        .capacity = store->lanes.lanes * store->lanes.steps,
        .count = batch->count / batch->length,
        .length = batch->length,
        .min_length = batch->min_length,
        .step = step_of(store, batch),
        .seed = batch->seed,
        .last_ids = batch->ids,
        .last_pitch = 1,
        .id = store->ids,
        .leaf = is_weighed ? leaf_of(store, batch) : NULL,
        .mask = batch->mask,
        .is_first = batch->is_first,
        .lanes = store->lanes,
        .tree = p->tree,
        .last = last_of(batch),
        .across_episodes = batch->across_episodes,
        .purpose = batch->purpose,
    };
    gpur_lane_batch rows = *batch;
    rows.ids = store->ids;
    GPUR_TRY(gpur_launch_sequences(stream, gpur_grid_elements(store->device, args.count), &args));
    GPUR_TRY(gather(store, stream, &rows, rows.ids, batch->id));
    return is_weighed ? weigh(store, stream, batch, store->ids) : GPUR_OK;
}

gpur_status gpur_lane_store_draw(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch)
{
    if (batch->length > 0) {
        GPUR_TRY(draw_sequences(store, stream, batch));
        return batch->ids || batch->step ? GPUR_OK : advance(store, stream, 1);
    }
    if (batch->ids)
        return gather(store, stream, batch, batch->ids, batch->id);
    if (batch->index_source == GPUR_UNIFORM || batch->index_source == GPUR_UNIFORM_DISTINCT)
        GPUR_TRY(gather(store, stream, batch, NULL, batch->id));
    else
        GPUR_TRY(draw_by_priority(store, stream, batch));
    return batch->step ? GPUR_OK : advance(store, stream, 1);
}

gpur_status gpur_lane_store_read(const gpur_lane_store *store, gpur_stream *stream, gpur_lanes_state *state)
{
    GPUR_TRY(gpur_copy(stream, state, store->lanes.state, (int64_t)sizeof *state));
    return gpur_stream_sync(stream);
}
