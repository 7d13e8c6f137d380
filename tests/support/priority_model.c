/* SPDX-License-Identifier: MIT */
#include "support/priority_model.h"

#include "reference/reference_priority.h"
#include "replay/replay.h"
#include "support/replay_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void priority_model_begin(priority_model *model, const reference_replay *rows, const gpur_replay_config *config,
                          int brings)
{
    memset(model, 0, sizeof *model);
    model->rows = rows;
    model->priority = malloc((size_t)rows->room * sizeof *model->priority);
    for (int64_t i = 0; i < rows->room; i++)
        model->priority[i] = -1.0f;
    model->most = 1.0f;
    model->alpha = config->alpha, model->offset = config->priority_offset;
    model->brings = brings;
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

static void welcome(priority_model *model, int64_t id)
{
    const float own = tagged_priority(id);
    const int good = model->brings && is_good(own);
    model->priority[id] = good ? own + model->offset : model->most;
    model->invalid += model->brings && !good;
    model->most = model->priority[id] > model->most ? model->priority[id] : model->most;
}

/* Rows that were visible and have left unseen come before those that are there. */
void priority_model_insert_new(priority_model *model)
{
    int64_t last = first_visible(model);
    while (is_visible(model, last))
        last++;
    if (last > first_visible(model))
        for (; model->next < last; model->next++)
            welcome(model, model->next);
}

/* Whether row i is the first of its id in this update that counts. */
static int is_first(const int64_t *ids, const float *priorities, int64_t i)
{
    for (int64_t j = 0; j < i; j++)
        if (ids[j] == ids[i] && is_good(priorities[j]))
            return 0;
    return 1;
}

void priority_model_update(priority_model *model, int64_t count, const int64_t *ids, const float *priorities)
{
    for (int64_t i = 0; i < count; i++) {
        const int good = is_good(priorities[i]), there = is_visible(model, ids[i]);
        const float p = priorities[i] + model->offset;
        model->invalid += !good, model->stale += good && !there, model->updates += good && there;
        if (!good || !there)
            continue;
        float *const held = &model->priority[ids[i]];
        *held = is_first(ids, priorities, i) || p > *held ? p : *held;
        model->most = p > model->most ? p : model->most;
    }
}

double priority_model_leaves(const priority_model *model, double *leaves)
{
    double total = 0.0;
    for (int64_t slot = 0; slot < model->rows->capacity; slot++)
        leaves[slot] = 0.0;
    for (int64_t id = first_visible(model); is_visible(model, id); id++)
        total += leaves[id % model->rows->capacity] = reference_leaf((double)model->priority[id], (double)model->alpha);
    return total;
}

void priority_model_sample(const priority_model *model, uint64_t seed, uint64_t draw, int64_t batch, int stratified,
                           int64_t *ids)
{
    const int64_t capacity = model->rows->capacity, first = first_visible(model);
    double *const leaves = malloc((size_t)capacity * sizeof *leaves);
    const int flat = priority_model_leaves(model, leaves) == 0.0;
    const int64_t cells = flat ? reference_count(model->rows, ROW_VISIBLE) : capacity;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t cell = reference_sample_by_priority(leaves, cells, seed, 7, draw, b, batch, stratified);
        ids[b] = first + (flat ? cell : (cell - first % capacity + capacity) % capacity);
    }
    free(leaves);
}

static int64_t count_drawable(const priority_model *model)
{
    int64_t drawable = 0;
    for (int64_t id = first_visible(model); is_visible(model, id); id++)
        drawable += reference_leaf((double)model->priority[id], (double)model->alpha) > 0.0;
    return drawable;
}

static double total_of(const priority_model *model)
{
    double *const leaves = malloc((size_t)model->rows->capacity * sizeof *leaves);
    const double total = priority_model_leaves(model, leaves);
    free(leaves);
    return total / 1048576.0;
}

/* As the device has them, since gpur_replay_get_priorities publishes like a draw. */
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

static float least_of(const priority_model *model)
{
    float least = INFINITY;
    for (int64_t id = first_visible(model); is_visible(model, id); id++)
        if (model->priority[id] > 0.0f)
            least = fminf(least, model->priority[id]);
    return least < INFINITY ? least : 0.0f;
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
    if (stats.updates != model->updates || stats.stale != model->stale || stats.invalid != model->invalid)
        return "other counts of updates, stale or invalid ones";
    if (stats.total != total_of(model) || stats.nonzero != count_drawable(model))
        return "another total, or another number of rows to draw";
    if (stats.max_priority != model->most || stats.min_priority != least_of(model) || stats.alpha != model->alpha)
        return "another maximum, minimum or alpha";
    return rows_differ(model, replay);
}
