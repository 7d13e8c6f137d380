/* SPDX-License-Identifier: MIT */
#include "replay/priority/sum_tree.h"

#include "base/arena.h"
#include "base/numbers.h"
#include "kernels/lib/random.h"

#include <inttypes.h>
#include <string.h>

enum { RESULTS = 256 }; /* bytes for state, report and total on the host */
_Static_assert(2 * sizeof(gpur_priority_state) + 2 * sizeof(gpur_tree_report) + sizeof(uint64_t) <= RESULTS, "room");

static int64_t whole_nodes(int64_t count)
{
    return gpur_round_up(count, GPUR_TREE_FAN);
}

static int32_t levels_for(int64_t capacity)
{
    int32_t levels = 1;
    for (int64_t reach = GPUR_TREE_FAN; reach < capacity; reach *= GPUR_TREE_FAN)
        levels++;
    return levels;
}

/* The number of bounds, as gpur_tree_bounds has them. */
static int64_t bounds_of(const gpur_tree *tree)
{
    int64_t count = 0;
    for (int32_t l = 0; l < tree->levels; l++)
        count += whole_nodes(gpur_tree_nodes(tree, l));
    return count;
}

/* Every level is padded to whole nodes, so that kernels need not check where it ends; the padding stays empty.
 * `priority` NULL: the tree has its own, and
 * knows the largest of them. */
static void assign_tree(gpur_tree *tree, int64_t capacity, int with_min_leaves, float *priority, gpur_arena *arena)
{
    memset(tree, 0, sizeof *tree);
    tree->capacity = capacity;
    tree->levels = levels_for(capacity);
    tree->state = gpur_arena_alloc(arena, sizeof *tree->state);
    tree->leaf = gpur_arena_alloc(arena, whole_nodes(capacity) * (int64_t)sizeof *tree->leaf);
    tree->priority = priority;
    if (!priority)
        tree->priority = gpur_arena_alloc(arena, whole_nodes(capacity) * (int64_t)sizeof *tree->priority);
    for (int32_t l = 0; l < tree->levels; l++)
        tree->sum[l] = gpur_arena_alloc(arena, whole_nodes(gpur_tree_nodes(tree, l)) * (int64_t)sizeof *tree->sum[l]);
    for (int32_t l = 0; l == 0 || l + 1 < tree->levels; l++)
        tree->segment[l] =
            gpur_arena_alloc(arena, GPUR_NODE_SEGMENTS * gpur_tree_nodes(tree, l) * (int64_t)sizeof *tree->segment[l]);
    for (int32_t l = 0; with_min_leaves && l < tree->levels; l++)
        tree->min_leaf[l] =
            gpur_arena_alloc(arena, whole_nodes(gpur_tree_nodes(tree, l)) * (int64_t)sizeof *tree->min_leaf[l]);
    if (!priority)
        tree->bound = gpur_arena_alloc(arena, bounds_of(tree) * (int64_t)sizeof *tree->bound);
}

static void assign_eviction(gpur_priorities *p, int64_t capacity, gpur_arena *arena)
{
    assign_tree(&p->evict, capacity, 0, p->tree.priority, arena);
    p->tree.turn = gpur_arena_alloc(arena, capacity * (int64_t)sizeof *p->tree.turn);
    p->slots = gpur_arena_alloc(arena, capacity * (int64_t)sizeof *p->slots);
    p->victims = gpur_arena_alloc(arena, GPUR_EVICT_ROWS * (int64_t)sizeof *p->victims);
    p->victim_leaves = gpur_arena_alloc(arena, GPUR_EVICT_ROWS * (int64_t)sizeof *p->victim_leaves);
    p->evict.turn = p->tree.turn;
    p->evict.evicts = 1;
}

static int64_t assign_arrays(gpur_priorities *p, const gpur_replay_config *c, unsigned char *base)
{
    gpur_arena of_memory = {.base = base}, *const arena = &of_memory;
    assign_tree(&p->tree, c->capacity, c->weight_norm == GPUR_WEIGHT_NORM_MEMORY, NULL, arena);
    p->tree.first_ever = c->first_priority == GPUR_FIRST_PRIORITY_EVER;
    if (c->eviction == GPUR_EVICT_BY_PRIORITY)
        assign_eviction(p, c->capacity, arena);
    p->ids = gpur_arena_alloc(arena, c->max_batch * (int64_t)sizeof *p->ids);
    p->values = gpur_arena_alloc(arena, c->max_batch * (int64_t)sizeof *p->values);
    p->leaf = gpur_arena_alloc(arena, c->max_batch * (int64_t)sizeof *p->leaf);
    p->report = gpur_arena_alloc(arena, 2 * sizeof *p->report);
    return arena->used;
}

int64_t gpur_priorities_device_bytes(const gpur_replay_config *checked)
{
    gpur_priorities unused;
    return checked->prioritized ? assign_arrays(&unused, checked, NULL) : 0;
}

int64_t gpur_priorities_pinned_bytes(const gpur_replay_config *checked)
{
    return checked->prioritized ? RESULTS + 2 * checked->max_batch * (int64_t)sizeof(float) : 0;
}

static gpur_status set_initial(gpur_priorities *p, gpur_stream *stream, float alpha)
{
    const float first = 1.0f; /* p_1 = 1 [Schaul et al. 2016, algorithm 1] */
    memset(p->host_state, 0, sizeof *p->host_state);
    p->host_state->alpha = alpha;
    memcpy(&p->host_state->ever, &first, sizeof first);
    GPUR_TRY(gpur_copy(stream, p->tree.state, p->host_state, sizeof *p->host_state));
    for (int32_t l = 0; p->tree.min_leaf[0] && l < p->tree.levels; l++)
        GPUR_TRY(gpur_fill(stream, p->tree.min_leaf[l], 0xFF,
                           whole_nodes(gpur_tree_nodes(&p->tree, l)) * (int64_t)sizeof *p->tree.min_leaf[l]));
    return gpur_stream_sync(stream);
}

/* The first `capacity` rows take the slots in their order. */
static gpur_status set_initial_slots(gpur_priorities *p, gpur_stream *stream)
{
    const int64_t capacity = p->tree.capacity, bytes = capacity * (int64_t)sizeof *p->slots;
    int64_t *const slots = gpur_host_alloc(p->device, (size_t)bytes);
    if (!slots)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of slots", bytes);
    for (int64_t slot = 0; slot < capacity; slot++)
        slots[slot] = slot;
    p->host_state->alpha = p->evict_alpha;
    gpur_status status = gpur_copy(stream, p->slots, slots, bytes);
    if (status == GPUR_OK)
        status = gpur_copy(stream, p->evict.state, p->host_state, sizeof *p->host_state);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    gpur_host_free(p->device, slots, (size_t)bytes);
    return status;
}

gpur_status gpur_priorities_build(gpur_priorities *p, gpur_device *device, const gpur_replay_config *checked,
                                  const gpur_schema *schema, const void *ring, gpur_window *window, gpur_stream *stream)
{
    const int32_t field = gpur_schema_find(schema, "priority");
    if (!checked->prioritized)
        return GPUR_OK;
    p->device = device;
    p->window = window;
    p->ring = ring;
    p->pitch = schema->pitch;
    p->field_offset = field >= 0 ? (int32_t)schema->fields[field].offset : -1;
    p->norm = checked->weight_norm;
    p->offset = checked->priority_offset;
    GPUR_TRY(gpur_memory_alloc(device, gpur_priorities_device_bytes(checked), "the priorities", (void **)&p->memory));
    assign_arrays(p, checked, p->memory);
    GPUR_TRY(gpur_pinned_alloc(device, gpur_priorities_pinned_bytes(checked), "priorities on their way",
                               (void **)&p->pinned));
    p->host_total = (uint64_t *)(void *)p->pinned;
    p->host_state = (gpur_priority_state *)(void *)(p->host_total + 1);
    p->host_evict_state = p->host_state + 1;
    p->host_report = (gpur_tree_report *)(void *)(p->host_state + 2);
    p->host_values = (float *)(void *)(p->pinned + RESULTS);
    p->seed = checked->seed;
    p->evict_alpha = checked->evict_alpha;
    GPUR_TRY(set_initial(p, stream, checked->alpha));
    return p->slots ? set_initial_slots(p, stream) : GPUR_OK;
}

void gpur_priorities_destroy(gpur_priorities *p)
{
    gpur_device *const device = p->device;
    if (!device)
        return;
    gpur_pinned_free(device, p->pinned);
    gpur_memory_free(device, p->memory);
}

/* Launches of the tree's kernels. */

enum {
    ONE_BLOCK = 1024, /* the most rows that one block updates in one kernel launch: one per thread */
    NODE_BYTES = GPUR_TREE_FAN * 8,
    NODES_A_BLOCK = 4,
    WARP = 32,          /* threads in a warp of a GPU */
    SAMPLE_BYTES = 256, /* per sampled row: a warp of a GPU; a block of the CPU for every few hundred rows */
};

/* One node per warp. */
static gpur_grid grid_of_nodes(const gpur_priorities *p, int64_t nodes)
{
    const int64_t blocks = gpur_divide_up(nodes, NODES_A_BLOCK);
    const gpur_grid grid = gpur_grid_rows(p->device, blocks, 1, NODES_A_BLOCK * NODE_BYTES);
    return gpur_grid_of_threads(grid, NODES_A_BLOCK * WARP);
}

/* Recomputes the smallest leaves of the nodes above these slots, level by level, if the tree stores them. With eviction
 * by priority the rows may be in any slots. */
static gpur_status refresh_min(const gpur_priorities *p, gpur_stream *stream, int64_t first_slot, int64_t rows)
{
    if (p->slots)
        first_slot = 0, rows = p->tree.capacity;
    for (int32_t l = 0; p->tree.min_leaf[0] && l < p->tree.levels; l++) {
        const int shift = (l + 1) * GPUR_TREE_SHIFT;
        const int64_t first = first_slot >> shift, count = ((first_slot + rows - 1) >> shift) - first + 1;
        const gpur_priority_rebuild_args args = {
            .tree = p->tree, .first = first, .count = count, .level = l, .what = GPUR_REBUILD_MIN};
        GPUR_TRY(gpur_launch_priority_rebuild(stream, grid_of_nodes(p, count), &args));
    }
    return GPUR_OK;
}

/* Launches the change of contiguous slots. `left`: the window after the eviction of these rows; NULL: inserts them. */
static gpur_status launch_range(const gpur_priorities *p, gpur_stream *stream, int64_t first_slot, int64_t rows,
                                const gpur_window *left)
{
    gpur_priority_insert_evict_args args = {
        .tree = p->tree,
        .evict = p->evict,
        .slots = p->slots,
        .ring = p->ring,
        .pitch = p->pitch,
        .first_slot = first_slot,
        .rows = rows,
        .field_offset = p->field_offset,
        .insert = !left,
        .offset = p->offset,
    };
    if (left)
        args.window = p->window, args.next = *left;
    const gpur_grid grid = gpur_grid_rows(p->device, rows / GPUR_TREE_FAN + 1, 1, NODE_BYTES);
    return gpur_launch_priority_insert_evict(stream, grid, &args);
}

/* Launches the eviction of rows by priority. `left`: the window after it. */
static gpur_status launch_evict(const gpur_priorities *p, gpur_stream *stream, int64_t rows, const gpur_window *left)
{
    const int64_t evicted = left->first_id - rows;
    gpur_priority_evict_args args = {
        .tree = p->tree,
        .draw = {.tree = p->evict,
                 .window = p->window,
                 .id = p->victims,
                 .leaf = p->victim_leaves,
                 .batch = rows,
                 .step_value = (uint64_t)evicted,
                 .seed = p->seed,
                 .purpose = GPUR_RANDOM_EVICT},
        .slots = p->slots,
        .first = evicted,
        .window = p->window,
        .next = *left,
    };
    return gpur_launch_priority_evict(stream, gpur_grid_single(p->device), &args);
}

static gpur_status evict_range(const gpur_priorities *p, gpur_stream *stream, gpur_window *window, int64_t rows)
{
    const int64_t first_slot = window->first_slot;
    window->first_id += rows;
    window->first_slot = window->first_id % p->tree.capacity;
    window->count -= rows;
    GPUR_TRY(p->slots ? launch_evict(p, stream, rows, window) : launch_range(p, stream, first_slot, rows, window));
    return p->slots ? GPUR_OK : refresh_min(p, stream, first_slot, rows);
}

/* How many of `rows` rows, from `first_id` on, have contiguous slots: all, or those before the ring's end. With
 * eviction by priority slots need not be contiguous. */
static int64_t contiguous_rows(const gpur_priorities *p, int64_t first_id, int64_t rows)
{
    return p->slots ? rows : gpur_min(rows, p->tree.capacity - first_id % p->tree.capacity);
}

gpur_status gpur_priorities_settle(const gpur_priorities *p, gpur_stream *stream, int64_t first, int64_t rows)
{
    const gpur_priority_settle_args args = {
        .tree = p->tree,
        .evict = p->evict,
        .slots = p->slots,
        .ring = p->ring,
        .pitch = p->pitch,
        .first_slot = first % p->tree.capacity,
        .rows = rows,
        .field_offset = p->field_offset,
        .offset = p->offset,
    };
    return gpur_launch_priority_settle(stream, gpur_grid_single(p->device), &args);
}

gpur_status gpur_priorities_evict(const gpur_priorities *p, gpur_stream *stream, const gpur_window *old,
                                  const gpur_window *next)
{
    gpur_window window = *old;
    if (!p->device)
        return GPUR_OK;
    const int64_t last = gpur_min(next->first_id, old->first_id + old->count);
    while (window.first_id < last) {
        const int64_t rows = contiguous_rows(p, window.first_id, last - window.first_id);
        GPUR_TRY(evict_range(p, stream, &window, p->slots ? gpur_min(rows, GPUR_EVICT_ROWS) : rows));
    }
    if (old->first_id >= last)
        return GPUR_OK;
    if (p->slots) /* rows leave anywhere: all minima are computed anew, once */
        GPUR_TRY(refresh_min(p, stream, 0, p->tree.capacity));
    return gpur_priorities_settle(p, stream, 0, 0);
}

gpur_status gpur_priorities_insert(const gpur_priorities *p, gpur_stream *stream, const gpur_window *old,
                                   const gpur_window *next)
{
    if (!p->device)
        return GPUR_OK;
    const int64_t first = gpur_max(old->first_id + old->count, next->first_id), last = next->first_id + next->count;
    for (int64_t id = first, rows; id < last; id += rows) {
        rows = contiguous_rows(p, id, last - id);
        GPUR_TRY(launch_range(p, stream, id % p->tree.capacity, rows, NULL));
    }
    if (first < last)
        GPUR_TRY(gpur_priorities_settle(p, stream, first, last - first));
    for (int64_t id = first, rows; id < last; id += rows) {
        rows = contiguous_rows(p, id, last - id);
        GPUR_TRY(refresh_min(p, stream, id % p->tree.capacity, rows));
    }
    return GPUR_OK;
}

gpur_priority_sample_args gpur_priorities_sample_args(const gpur_priorities *p, int stratified, int64_t rows,
                                                      int64_t *id, uint32_t *leaf)
{
    const gpur_priority_sample_args args = {
        .tree = p->tree,
        .window = p->window,
        .id = id,
        .leaf = leaf,
        .batch = rows,
        .stratified = stratified,
    };
    return args;
}

gpur_grid gpur_priorities_sample_grid(const gpur_priorities *p, int64_t rows)
{
    return gpur_grid_rows(p->device, rows, 1, SAMPLE_BYTES);
}

gpur_priority_weights_args gpur_priorities_weight_args(const gpur_priorities *p, int64_t rows, const int64_t *id,
                                                       const uint32_t *leaf, float *weight)
{
    const gpur_priority_weights_args args = {
        .tree = p->tree,
        .rows = &p->window->count,
        .id = id,
        .leaf = leaf,
        .weight = weight,
        .batch = rows,
        .norm = p->norm,
    };
    return args;
}

gpur_priority_update_args gpur_priorities_update_args(const gpur_priorities *p, int64_t count, const int64_t *ids,
                                                      const float *values, int skip_if_empty)
{
    const gpur_priority_update_args args = {
        .tree = p->tree,
        .evict = p->evict,
        .window = p->window,
        .id = ids,
        .priority = values,
        .count = count,
        .offset = p->offset,
        .phase = GPUR_PHASE_ALL,
        .skip_if_empty = skip_if_empty,
    };
    return args;
}

static gpur_status launch_update(gpur_stream *stream, gpur_grid grid, const gpur_priority_update_args *args,
                                 int32_t phase)
{
    gpur_priority_update_args a = *args;
    a.phase = phase;
    return gpur_launch_priority_update(stream, grid, &a);
}

/* Whether the last block of a launch goes on where one block alone may. */
static int has_last_block(const gpur_priorities *p)
{
    return gpur_device_get_traits(p->device)->has_warps && !GPUR_DRAWS_ARE_SEPARATE;
}

/* The phases up to SETTLE, with a kernel launch for each; RAISE may settle, too. */
static gpur_status launch_phases(const gpur_priorities *p, gpur_stream *stream, gpur_grid grid,
                                 const gpur_priority_update_args *a)
{
    GPUR_TRY(launch_update(stream, grid, a, GPUR_PHASE_CLEAR));
    GPUR_TRY(launch_update(stream, grid, a, GPUR_PHASE_RAISE));
    if (p->slots)
        GPUR_TRY(launch_update(stream, grid, a, GPUR_PHASE_EVICT));
    else if (has_last_block(p))
        return GPUR_OK;
    return launch_update(stream, gpur_grid_single(p->device), a, GPUR_PHASE_SETTLE);
}

/* Up to ONE_BLOCK rows in one kernel launch: by one block, with block barriers between the phases, or on a GPU by
 * several, unless the last of them would have much to do. More rows with a kernel launch for each phase. */
gpur_status gpur_priorities_update(const gpur_priorities *p, gpur_stream *stream, int64_t count, const int64_t *ids,
                                   const float *values, int skip_if_empty)
{
    const gpur_grid grid = gpur_grid_elements(p->device, count);
    const int32_t levels = p->tree.min_leaf[0] ? p->tree.levels : 0;
    const int is_shared = has_last_block(p) && levels == 0 && !p->slots;
    const gpur_priority_update_args args = gpur_priorities_update_args(p, count, ids, values, skip_if_empty);
    if (count <= ONE_BLOCK || grid.blocks == 1)
        return launch_update(stream, is_shared ? grid : gpur_grid_single(p->device), &args, GPUR_PHASE_ALL);
    GPUR_TRY(launch_phases(p, stream, grid, &args));
    for (int32_t level = 0; level < levels; level++)
        GPUR_TRY(launch_update(stream, grid_of_nodes(p, count), &args, GPUR_PHASE_MIN + level));
    return GPUR_OK;
}

static gpur_grid grid_of_level(const gpur_priorities *p, int32_t level)
{
    const int64_t count = gpur_tree_nodes(&p->tree, level);
    return level < 0 ? gpur_grid_elements(p->device, count) : grid_of_nodes(p, count);
}

static gpur_status rebuild_level(const gpur_priorities *p, gpur_stream *stream, gpur_priority_rebuild_args *args,
                                 int32_t level)
{
    args->level = level;
    args->count = gpur_tree_nodes(&p->tree, level);
    return gpur_launch_priority_rebuild(stream, grid_of_level(p, level), args);
}

/* `octave` GPUR_OCTAVE_OF_LARGEST: that of the largest priority, or if there is none, 0. */
static gpur_status rebuild(const gpur_priorities *p, gpur_stream *stream, const gpur_tree *tree, float alpha,
                           int32_t octave)
{
    gpur_priority_rebuild_args args = {.tree = *tree, .alpha = alpha, .what = GPUR_REBUILD_SUMS};
    if (octave == GPUR_OCTAVE_OF_LARGEST)
        args.largest = p->tree.bound + bounds_of(&p->tree) - GPUR_TREE_FAN; /* of the root */
    else
        args.octave = octave;
    for (int32_t level = -1; level < p->tree.levels; level++)
        GPUR_TRY(rebuild_level(p, stream, &args, level));
    return GPUR_OK;
}

gpur_status gpur_priorities_set_alpha(const gpur_priorities *p, gpur_stream *stream, float alpha)
{
    return rebuild(p, stream, &p->tree, alpha, GPUR_OCTAVE_OF_LARGEST);
}

gpur_status gpur_priorities_read_state(const gpur_priorities *p, gpur_stream *stream)
{
    if (!p->device)
        return GPUR_OK;
    GPUR_TRY(gpur_copy(stream, p->host_state, p->tree.state, sizeof *p->host_state));
    if (p->slots)
        GPUR_TRY(gpur_copy(stream, p->host_evict_state, p->evict.state, sizeof *p->host_evict_state));
    return gpur_stream_sync(stream);
}

static gpur_status clear_slots(const gpur_priorities *p, gpur_stream *stream, int64_t first, int64_t last)
{
    const int64_t bytes = (last - first) * (int64_t)sizeof *p->tree.priority;
    return bytes > 0 ? gpur_fill(stream, p->tree.priority + first, 0, bytes) : GPUR_OK;
}

gpur_status gpur_priorities_restore(const gpur_priorities *p, gpur_stream *stream, const gpur_window *window)
{
    const int64_t capacity = p->tree.capacity, end = window->first_slot + window->count;
    if (!p->device)
        return GPUR_OK;
    if (!p->slots)
        GPUR_TRY(clear_slots(p, stream, end > capacity ? end - capacity : 0, window->first_slot));
    GPUR_TRY(clear_slots(p, stream, p->slots ? window->first_id + window->count : end, capacity));
    GPUR_TRY(gpur_copy(stream, p->tree.state, p->host_state, sizeof *p->host_state));
    gpur_priority_rebuild_args args = {.tree = p->tree, .what = GPUR_REBUILD_LARGEST};
    for (int32_t level = 0; level < p->tree.levels; level++)
        GPUR_TRY(rebuild_level(p, stream, &args, level));
    GPUR_TRY(rebuild(p, stream, &p->tree, p->host_state->alpha, p->host_state->octave));
    if (p->slots)
        GPUR_TRY(rebuild(p, stream, &p->evict, p->evict_alpha, p->host_evict_state->octave));
    return gpur_priorities_settle(p, stream, 0, 0);
}

static gpur_status validate_levels(const gpur_priorities *p, gpur_stream *stream, const gpur_tree *tree,
                                   gpur_tree_report *report)
{
    gpur_priority_validate_args args = {.tree = *tree, .window = p->window, .report = report};
    for (args.level = -1; args.level < p->tree.levels; args.level++) {
        args.count = gpur_tree_nodes(&p->tree, args.level);
        GPUR_TRY(gpur_launch_priority_validate(stream, grid_of_level(p, args.level), &args));
    }
    return GPUR_OK;
}

gpur_status gpur_priorities_validate(const gpur_priorities *p, gpur_stream *stream)
{
    const gpur_tree_report nothing = {.min_priority = UINT32_MAX};
    p->host_report[0] = p->host_report[1] = nothing;
    GPUR_TRY(gpur_copy(stream, p->report, p->host_report, 2 * sizeof nothing));
    GPUR_TRY(validate_levels(p, stream, &p->tree, &p->report[0]));
    if (p->slots)
        GPUR_TRY(validate_levels(p, stream, &p->evict, &p->report[1]));
    GPUR_TRY(gpur_copy(stream, p->host_report, p->report, 2 * sizeof nothing));
    GPUR_TRY(gpur_copy(stream, p->host_state, p->tree.state, sizeof *p->host_state));
    return gpur_copy(stream, p->host_total, p->tree.sum[p->tree.levels - 1], sizeof *p->host_total);
}
