/* SPDX-License-Identifier: MIT */
#include "support/priority_model.h"

#include "reference/reference_priority.h"
#include "replay/replay.h"
#include "replay/view.h"
#include "support/replay_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void priority_model_begin(priority_model *model, const reference_replay *rows, const gpur_replay_config *config,
                          int rows_have_priority)
{
    memset(model, 0, sizeof *model);
    model->rows = rows;
    model->priority = malloc((size_t)rows->room * sizeof *model->priority);
    for (int64_t i = 0; i < rows->room; i++)
        model->priority[i] = -1.0f;
    model->ever = 1.0f, model->first_ever = config->first_priority == GPUR_FIRST_PRIORITY_EVER;
    model->alpha = config->alpha, model->offset = config->priority_offset;
    model->rows_have_priority = rows_have_priority;
}

void priority_model_end(priority_model *model)
{
    free(model->priority);
}

static int is_visible(const priority_model *model, int64_t id)
{
    return id >= 0 && id < model->rows->count && model->rows->rows[id] == ROW_VISIBLE;
}

/* The oldest visible row; the rest of them follow it. */
static int64_t first_visible(const priority_model *model)
{
    const int64_t first = reference_first(model->rows, ROW_VISIBLE);
    return first < 0 ? model->rows->count : first;
}

static int is_good(float p)
{
    return p >= 0.0f && isfinite(p);
}

/* The largest of the visible rows before `end`, or 0. */
static float largest_before(const priority_model *model, int64_t end)
{
    float largest = 0.0f;
    for (int64_t id = first_visible(model); id < end && is_visible(model, id); id++)
        largest = fmaxf(largest, model->priority[id]);
    return largest;
}

static void insert(priority_model *model, int64_t id)
{
    const float own = tagged_priority(id), largest = largest_before(model, id);
    const float first = model->first_ever ? model->ever : largest > 0.0f ? largest : 1.0f;
    const int good = model->rows_have_priority && is_good(own);
    model->priority[id] = good ? own + model->offset : first;
    model->ever = fmaxf(model->ever, model->priority[id]);
}

/* Rows that have left since the last call come before those that are there. */
void priority_model_insert_new(priority_model *model)
{
    int64_t last = first_visible(model);
    while (is_visible(model, last))
        last++;
    if (last > first_visible(model))
        for (; model->next < last; model->next++)
            insert(model, model->next);
}

int priority_model_read_octave(priority_model *model, gpur_replay *replay)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(replay);
    gpur_priority_state state;
    if (gpur_device_copy(priorities->device, &state, priorities->tree.state, sizeof state) != GPUR_OK)
        return 0;
    const double largest = (double)largest_before(model, model->rows->count);
    model->octave = state.octave;
    return reference_octave(model->octave, largest, (double)model->alpha) == model->octave;
}

static double leaf_of(const priority_model *model, int64_t id)
{
    return reference_leaf((double)model->priority[id], (double)model->alpha, model->octave, REFERENCE_SAMPLE_ONE);
}

void priority_model_update(priority_model *model, int64_t count, const int64_t *ids, const float *priorities)
{
    for (int64_t i = 0; i < count; i++) {
        const int good = is_good(fabsf(priorities[i])), there = is_visible(model, ids[i]);
        model->invalid += !good, model->stale += good && !there, model->updates += good && there;
        if (good && there)
            model->priority[ids[i]] = 0.0f;
    }
    for (int64_t i = 0; i < count; i++)
        if (is_good(fabsf(priorities[i])) && is_visible(model, ids[i])) {
            float *const priority = &model->priority[ids[i]];
            *priority = fmaxf(*priority, fabsf(priorities[i]) + model->offset);
            model->ever = fmaxf(model->ever, *priority);
        }
}

double priority_model_leaves(const priority_model *model, double *leaves)
{
    double total = 0.0;
    for (int64_t slot = 0; slot < model->rows->capacity; slot++)
        leaves[slot] = 0.0;
    for (int64_t id = first_visible(model); is_visible(model, id); id++)
        total += leaves[id % model->rows->capacity] = leaf_of(model, id);
    return total;
}

void priority_model_sample(const priority_model *model, uint64_t seed, uint64_t sample, int64_t batch, int stratified,
                           int64_t *ids)
{
    const int64_t capacity = model->rows->capacity, first = first_visible(model);
    double *const leaves = malloc((size_t)capacity * sizeof *leaves);
    const int flat = priority_model_leaves(model, leaves) == 0.0;
    const int64_t cells = flat ? reference_count(model->rows, ROW_VISIBLE) : capacity;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t cell = reference_sample_by_priority(leaves, cells, seed, 7, sample, b, batch, stratified);
        ids[b] = first + (flat ? cell : (cell - first % capacity + capacity) % capacity);
    }
    free(leaves);
}

/* Reads device memory, since gpur_replay_get_priorities publishes rows. */
static const char *rows_differ(const priority_model *model, gpur_replay *replay)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(replay);
    const int64_t capacity = model->rows->capacity;
    float *const raw = malloc((size_t)capacity * sizeof *raw);
    const char *differs = NULL;
    if (gpur_device_copy(priorities->device, raw, priorities->tree.priority, capacity * (int64_t)sizeof *raw) !=
        GPUR_OK)
        differs = "priorities cannot be read";
    for (int64_t id = first_visible(model); !differs && is_visible(model, id); id++)
        if (raw[id % capacity] != model->priority[id])
            differs = "a row has another priority";
    free(raw);
    return differs;
}

static gpur_priority_stats stats_of(const priority_model *model)
{
    const float largest = model->first_ever ? model->ever : largest_before(model, model->rows->count);
    gpur_priority_stats stats = {
        .min_priority = INFINITY, .max_priority = largest > 0.0f ? largest : 1.0f, .alpha = model->alpha};
    stats.updates = model->updates, stats.stale = model->stale, stats.invalid = model->invalid;
    for (int64_t id = first_visible(model); is_visible(model, id); id++) {
        const double leaf = leaf_of(model, id);
        stats.total += ldexp(leaf / REFERENCE_SAMPLE_ONE, model->alpha > 0.0f ? model->octave : 0);
        stats.nonzero += leaf > 0.0;
        if (model->priority[id] > 0.0f)
            stats.min_priority = fminf(stats.min_priority, model->priority[id]);
    }
    if (stats.min_priority == INFINITY)
        stats.min_priority = 0.0f;
    return stats;
}

const char *priority_model_differs(priority_model *model, gpur_replay *replay)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    priority_model_insert_new(model);
    if (gpur_replay_check_priorities(replay, &wrong) != GPUR_OK || wrong != 0)
        return "the tree is not whole";
    if (gpur_replay_get_priority_stats(replay, &stats) != GPUR_OK)
        return "there are no statistics";
    if (!priority_model_read_octave(model, replay))
        return "the scale of the leaves does not suit the largest priority";
    const gpur_priority_stats want = stats_of(model);
    if (stats.updates != want.updates || stats.stale != want.stale || stats.invalid != want.invalid)
        return "other counts of updates, stale or invalid ones";
    if (stats.total != want.total || stats.nonzero != want.nonzero)
        return "another total, or another number of rows with a leaf";
    if (stats.max_priority != want.max_priority || stats.min_priority != want.min_priority || stats.alpha != want.alpha)
        return "another maximum, minimum or alpha";
    return rows_differ(model, replay);
}
