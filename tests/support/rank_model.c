/* SPDX-License-Identifier: MIT */
#include "support/rank_model.h"

#include "reference/reference_priority.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void rank_begin(rank_model *m, const gpur_replay_config *config)
{
    memset(m, 0, sizeof *m);
    m->most = 1.0f;
    m->alpha = config->alpha, m->offset = config->priority_offset;
    m->capacity = config->capacity;
}

void rank_end(rank_model *m)
{
    free(m->priority);
}

static void make_room(rank_model *m, int64_t ids)
{
    if (ids <= m->room)
        return;
    const int64_t room = 2 * ids;
    m->priority = realloc(m->priority, (size_t)room * sizeof *m->priority);
    for (int64_t i = m->room; i < room; i++)
        m->priority[i] = -1.0f;
    m->room = room;
}

gpur_status rank_look(rank_model *m, gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    const gpur_status status = gpur_replay_get_stats(replay, &stats);
    if (status != GPUR_OK)
        return status;
    m->first = stats.first_id, m->count = stats.visible;
    make_room(m, m->first + m->count);
    for (int64_t id = m->first; id < m->first + m->count; id++)
        if (m->priority[id] < 0.0f)
            m->priority[id] = m->most;
    return GPUR_OK;
}

static int is_good(float p)
{
    return p >= 0.0f && isfinite(p);
}

/* Whether row i is the first of its id in this update that counts. */
static int is_first(const int64_t *ids, const float *priorities, int64_t i)
{
    for (int64_t j = 0; j < i; j++)
        if (ids[j] == ids[i] && is_good(priorities[j]))
            return 0;
    return 1;
}

void rank_update(rank_model *m, int64_t count, const int64_t *ids, const float *priorities)
{
    for (int64_t i = 0; i < count; i++) {
        const int good = is_good(priorities[i]), there = ids[i] >= m->first && ids[i] < m->first + m->count;
        const float p = priorities[i] + m->offset;
        m->invalid += !good, m->stale += good && !there, m->updates += good && there;
        if (!good || !there)
            continue;
        float *const held = &m->priority[ids[i]];
        *held = is_first(ids, priorities, i) || p > *held ? p : *held;
        m->most = p > m->most ? p : m->most;
    }
}

static double leaf_of(const rank_model *m, int64_t id)
{
    return reference_leaf((double)m->priority[id], (double)m->alpha);
}

static double fill_leaves(const rank_model *m, double *leaves)
{
    double total = 0.0;
    memset(leaves, 0, (size_t)m->capacity * sizeof *leaves);
    for (int64_t id = m->first; id < m->first + m->count; id++)
        total += leaves[id % m->capacity] = leaf_of(m, id);
    return total;
}

/* w = (N P)^-beta over the largest of the batch: of the smallest leaf. */
static void weigh(const rank_model *m, int64_t batch, double beta, const int64_t *ids, int flat, double *weights)
{
    double least = HUGE_VAL;
    for (int64_t b = 0; b < batch; b++)
        least = flat ? 1.0 : fmin(least, leaf_of(m, ids[b]));
    for (int64_t b = 0; b < batch; b++)
        weights[b] = flat ? 1.0 : pow(leaf_of(m, ids[b]) / least, -beta);
}

void rank_draw(rank_model *m, int64_t batch, int stratified, double beta, int64_t *ids, double *weights)
{
    double *const leaves = malloc((size_t)m->capacity * sizeof *leaves);
    const int flat = fill_leaves(m, leaves) == 0.0;
    const int64_t cells = flat ? m->count : m->capacity;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t cell =
            reference_draw_by_priority(leaves, cells, 0, 7, (uint64_t)m->draws, b, batch, stratified);
        ids[b] = m->first + (flat ? cell : (cell - m->first % m->capacity + m->capacity) % m->capacity);
    }
    m->draws++;
    free(leaves);
    weigh(m, batch, beta, ids, flat, weights);
}

static const char *stats_differ(rank_model *m, gpur_replay *replay)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    double *const leaves = malloc((size_t)m->capacity * sizeof *leaves);
    const double total = fill_leaves(m, leaves) / 1048576.0;
    free(leaves);
    if (gpur_replay_get_priority_stats(replay, &stats) != GPUR_OK)
        return "there are no statistics";
    if (stats.updates != m->updates || stats.stale != m->stale || stats.invalid != m->invalid)
        return "other counts of updates, stale or invalid ones";
    return stats.total == total && stats.max_priority == m->most ? NULL : "another total, or another maximum";
}

static const char *rows_differ(rank_model *m, gpur_replay *replay, int64_t most)
{
    int64_t ids[64];
    float held[64];
    for (int64_t i = 0, n; i < m->count; i += n) {
        n = m->count - i < most ? m->count - i : most;
        n = n < 64 ? n : 64;
        for (int64_t j = 0; j < n; j++)
            ids[j] = m->first + i + j;
        if (gpur_replay_get_priorities(replay, n, ids, held) != GPUR_OK)
            return "priorities cannot be read";
        if (memcmp(held, m->priority + m->first + i, (size_t)n * sizeof *held) != 0)
            return "a row has another priority";
    }
    return NULL;
}

const char *rank_differs(rank_model *m, gpur_replay *replay, int64_t most)
{
    int64_t wrong = -1;
    if (rank_look(m, replay) != GPUR_OK)
        return "the window cannot be read";
    const char *differs = stats_differ(m, replay);
    if (gpur_replay_check_priorities(replay, &wrong) != GPUR_OK || wrong != 0)
        return "the tree is not whole";
    if (!differs)
        differs = rows_differ(m, replay, most);
    return differs;
}
