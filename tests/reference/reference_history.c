/* SPDX-License-Identifier: MIT */
#include "reference/reference_history.h"

#include <stdlib.h>
#include <string.h>

void history_begin(history *h, history_rows *all, int32_t num_envs)
{
    h->all = all;
    h->num_envs = num_envs;
    h->envs = calloc((size_t)num_envs, sizeof *h->envs);
    for (int32_t env = 0; env < num_envs; env++)
        h->envs[env].last = -1;
}

void history_end(history *h)
{
    for (int32_t env = 0; env < h->num_envs; env++) {
        free(h->envs[env].frames);
        free(h->envs[env].steps);
    }
    free(h->envs);
}

void history_rows_end(history_rows *all)
{
    free(all->rows);
}

/* The frames up to number `last` of the episode. */
static void stack_at(const history *h, const history_env *e, int64_t last, int64_t *tags)
{
    for (int64_t j = 0; j < h->stack; j++) {
        const int64_t frame = last - h->stack + 1 + j;
        tags[j] = frame >= 0 ? e->frames[frame] : h->repeats ? e->frames[0] : HISTORY_NO_FRAME;
    }
}

void history_stack(const history *h, int64_t env, int64_t *tags)
{
    stack_at(h, &h->envs[env], h->envs[env].count, tags);
}

double history_clipped(const history *h, float reward)
{
    if (h->clip > 0 && reward > h->clip)
        return (double)h->clip;
    if (h->clip > 0 && reward < -h->clip)
        return -(double)h->clip;
    return (double)reward;
}

void history_add(history_rows *all, const history_row *row)
{
    if (all->count == all->room) {
        all->room = 2 * all->room + 64;
        all->rows = realloc(all->rows, (size_t)all->room * sizeof *all->rows);
    }
    all->rows[all->count++] = *row;
}

/* From step `from` to behind step `to` - 1. */
static void make(history *h, int64_t env, int64_t from, int64_t to, int terminated, int truncated)
{
    history_env *const e = &h->envs[env];
    history_row row = {.env = env, .previous = e->link, .action = e->steps[from].action};
    row.extra = e->steps[from].extra;
    row.terminated = (uint8_t)terminated, row.truncated = (uint8_t)truncated;
    double power = 1;
    for (int64_t i = from; i < to; i++, power *= (double)h->gamma)
        row.reward += power * history_clipped(h, e->steps[i].reward);
    row.discount = terminated ? 0 : power;
    stack_at(h, e, from, row.obs);
    stack_at(h, e, to, row.next_obs);
    e->link = e->last = h->all->count;
    history_add(h->all, &row);
}

static void make_all(history *h, int64_t env, int ended, int terminated, int truncated)
{
    history_env *const e = &h->envs[env];
    for (; e->made < e->count && (ended || e->made + h->n_step <= e->count); e->made++) {
        const int64_t to = e->made + h->n_step < e->count ? e->made + h->n_step : e->count;
        make(h, env, e->made, to, terminated, truncated);
    }
}

static void grow(history_env *e)
{
    if (e->count + 2 <= e->room)
        return;
    e->room = 2 * e->room + 16;
    e->frames = realloc(e->frames, (size_t)e->room * sizeof *e->frames);
    e->steps = realloc(e->steps, (size_t)e->room * sizeof *e->steps);
}

void history_reset(history *h, int64_t env, int64_t frame)
{
    history_env *const e = &h->envs[env];
    if (e->is_open)
        make_all(h, env, 1, 0, 1);
    e->count = e->made = 0;
    e->link = e->last < 0 ? -1 : -2 - e->last;
    e->is_open = 1;
    grow(e);
    e->frames[0] = frame;
}

void history_take(history *h, int64_t env, history_step step, int64_t frame, int terminated, int truncated)
{
    history_env *const e = &h->envs[env];
    grow(e);
    e->steps[e->count++] = step;
    e->frames[e->count] = frame;
    e->is_open = !terminated && !truncated;
    make_all(h, env, !e->is_open, terminated, truncated);
}

int32_t history_truncate_all(history *h)
{
    int32_t open = 0;
    for (int32_t env = 0; env < h->num_envs; env++) {
        open += h->envs[env].is_open;
        if (h->envs[env].is_open)
            make_all(h, env, 1, 0, 1);
    }
    return open;
}
