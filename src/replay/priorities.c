/* SPDX-License-Identifier: MIT */
#include "replay/priorities.h"

#include "base/red_zone.h"

#include <string.h>

enum {
    GRANULE = 256, /* of every array */
    RESULTS = 256, /* bytes: state, findings and total on the host */
};
_Static_assert(sizeof(gpur_priority_state) + sizeof(gpur_priority_found) + sizeof(uint64_t) <= RESULTS, "room");

/* Takes the next array; with base NULL only counts. */
static void *take(unsigned char *base, int64_t *used, int64_t bytes)
{
    unsigned char *const memory = base ? base + *used : NULL;
    const int64_t taken = (bytes + GRANULE - 1) / GRANULE * GRANULE + GPUR_RED_ZONE;
    if (memory)
        gpur_red_zone_set(memory + bytes, taken - bytes);
    *used += taken;
    return memory;
}

static int64_t whole_nodes(int64_t count)
{
    return (count + GPUR_TREE_FAN - 1) / GPUR_TREE_FAN * GPUR_TREE_FAN;
}

static int32_t levels_for(int64_t capacity)
{
    int32_t levels = 1;
    for (int64_t reach = GPUR_TREE_FAN; reach < capacity; reach *= GPUR_TREE_FAN)
        levels++;
    return levels;
}

/* Every level is whole nodes, so that nobody has to ask where it ends; what is beyond its end stays empty. */
static int64_t lay_out_tree(gpur_tree *tree, int64_t capacity, int least, unsigned char *base)
{
    int64_t used = 0;
    memset(tree, 0, sizeof *tree);
    tree->capacity = capacity;
    tree->levels = levels_for(capacity);
    tree->state = take(base, &used, sizeof *tree->state);
    tree->leaf = take(base, &used, whole_nodes(capacity) * (int64_t)sizeof *tree->leaf);
    tree->raw = take(base, &used, whole_nodes(capacity) * (int64_t)sizeof *tree->raw);
    for (int32_t l = 0; l < tree->levels; l++)
        tree->sum[l] = take(base, &used, whole_nodes(gpur_tree_nodes(tree, l)) * (int64_t)sizeof *tree->sum[l]);
    for (int32_t l = 0; l == 0 || l + 1 < tree->levels; l++)
        tree->part[l] = take(base, &used, GPUR_NODE_PARTS * gpur_tree_nodes(tree, l) * (int64_t)sizeof *tree->part[l]);
    for (int32_t l = 0; least && l < tree->levels; l++)
        tree->least[l] = take(base, &used, whole_nodes(gpur_tree_nodes(tree, l)) * (int64_t)sizeof *tree->least[l]);
    return used;
}

static int64_t lay_out(gpur_priorities *p, const gpur_replay_config *c, unsigned char *base)
{
    int64_t used = lay_out_tree(&p->tree, c->capacity, c->weight_norm == GPUR_WEIGHT_NORM_MEMORY, base);
    p->ids = take(base, &used, c->max_batch * (int64_t)sizeof *p->ids);
    p->values = take(base, &used, c->max_batch * (int64_t)sizeof *p->values);
    p->leaf = take(base, &used, c->max_batch * (int64_t)sizeof *p->leaf);
    p->found = take(base, &used, sizeof *p->found);
    return used;
}

int64_t gpur_priorities_device_bytes(const gpur_replay_config *checked)
{
    gpur_priorities unused;
    return checked->prioritized ? lay_out(&unused, checked, NULL) : 0;
}

int64_t gpur_priorities_pinned_bytes(const gpur_replay_config *checked)
{
    return checked->prioritized ? RESULTS + 2 * checked->max_batch * (int64_t)sizeof(float) : 0;
}

static gpur_status set_first(gpur_priorities *p, gpur_stream *stream, float alpha)
{
    const float most = 1.0f; /* p_1 = 1 [Schaul et al. 2016, algorithm 1] */
    memset(p->host_state, 0, sizeof *p->host_state);
    p->host_state->alpha = alpha;
    memcpy(&p->host_state->most, &most, sizeof most);
    GPUR_TRY(gpur_copy(stream, p->tree.state, p->host_state, sizeof *p->host_state));
    for (int32_t l = 0; p->tree.least[0] && l < p->tree.levels; l++)
        GPUR_TRY(gpur_fill(stream, p->tree.least[l], 0xFF,
                           whole_nodes(gpur_tree_nodes(&p->tree, l)) * (int64_t)sizeof *p->tree.least[l]));
    return gpur_stream_sync(stream);
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
    p->priority_offset = field >= 0 ? (int32_t)schema->fields[field].offset : -1;
    p->norm = checked->weight_norm;
    p->offset = checked->priority_offset;
    GPUR_TRY(gpur_memory_alloc(device, gpur_priorities_device_bytes(checked), "the priorities", (void **)&p->memory));
    lay_out(p, checked, p->memory);
    GPUR_TRY(gpur_pinned_alloc(device, gpur_priorities_pinned_bytes(checked), "priorities on their way",
                               (void **)&p->pinned));
    p->host_total = (uint64_t *)(void *)p->pinned;
    p->host_state = (gpur_priority_state *)(void *)(p->host_total + 1);
    p->host_found = (gpur_priority_found *)(void *)(p->host_state + 1);
    p->host_values = (float *)(void *)(p->pinned + RESULTS);
    return set_first(p, stream, checked->alpha);
}

void gpur_priorities_destroy(gpur_priorities *p)
{
    gpur_device *const device = p->device;
    if (!device)
        return;
    gpur_pinned_free(device, p->pinned);
    gpur_memory_free(device, p->memory);
}
