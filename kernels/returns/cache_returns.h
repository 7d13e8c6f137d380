/* SPDX-License-Identifier: MIT */
/*
 * The returns of a block of successive rows, backward from its last one [Daley & Amato 2019, section 3; 2021b,
 * algorithm 1]:
 *
 *   lambda       L_t = r_t + gamma (lambda L_{t+1} + (1 - lambda) v(s_{t+1}))                 [Peng & Williams 1994]
 *                with lambda 0 where a_{t+1} is not greedy in s_{t+1}                                  [Watkins 1989]
 *   n-step       L_t = r_t + gamma r_{t+1} + ... + gamma^n v(s_{t+n})
 *   median       the median of the returns for lambda = 0, 0.05, ... 1                [Daley & Amato 2019, section 4.2]
 *   error bound  the returns for the largest lambda of 0, 1/128, ... 1 with mean_t (L_t - Q(s_t, a_t))^2 <=
 *                error_bound; lambda = 0 if none has it                               [Daley & Amato 2019, section 4.2]
 *
 * A row that terminated has L_t = r_t. The last row of the block, one that was truncated, and one whose episode ended
 * otherwise, which the field `previous` of the next row shows, have L_t = r_t + gamma v(s_{t+1}). No row behind the
 * block is read.
 *
 * Arguments and shapes: gpur_cache_returns_args. A thread computes a block, and for medians a block of threads.
 */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/lib/lane_rows.h"
#include "kernels/lib/previous.h"
#include "kernels/target/thread.h"

enum {
    GPUR_MEDIAN_LAMBDAS = 21, /* 0, 0.05, ... 1 */
    GPUR_BOUND_LAMBDAS = 128, /* 1/128, 2/128, ... 1 */
    GPUR_BOUND_AT_ONCE = 16,  /* lambdas of one pass over a block, so that its rows are read seldom */
};

/* What an entry's return depends on, beside the return of the next entry. */
typedef struct gpur_return_term {
    float reward, discount; /* discount 0: nothing follows */
    float value;            /* v(s_{t+1}) */
    int32_t goes_on;        /* 1: the next entry is of the same episode, and no trace is cut */
    int32_t is_missing;
} gpur_return_term;

/* The numbers of a row that its return needs. */
typedef struct gpur_return_row {
    float reward, discount; /* discount: gamma, or that of the row; 0: it terminated */
    int32_t is_truncated;
} gpur_return_row;

/* The slot of an entry's row; -1: it is not in the window, or of lanes, no transition can be made of it. */
GPUR_FN int64_t gpur_return_slot(const gpur_cache_returns_args *a, int64_t entry)
{
    const uint32_t address = a->entry[entry].address;
    const int64_t id = a->state->first_id + (int64_t)address, offset = id - a->window->first_id;
    if (address == GPUR_CACHE_MISSING)
        return -1;
    if (a->lanes.state)
        return gpur_lanes_find(&a->lanes, a->window, id);
    if (offset < 0 || offset >= a->window->count)
        return -1;
    const int64_t slot = a->window->first_slot + offset;
    return slot < a->capacity ? slot : slot - a->capacity;
}

/* 1 if the entry's row in the ring is the first of its episode, or missing. */
GPUR_FN int gpur_return_is_first(const gpur_cache_returns_args *a, int64_t entry)
{
    const int64_t slot = gpur_return_slot(a, entry);
    int64_t previous = -1;
    if (slot >= 0)
        memcpy(&previous, a->ring + slot * a->pitch + a->previous, sizeof previous);
    return gpur_previous_is_first(previous);
}

GPUR_FN gpur_return_row gpur_return_row_of_lanes(const gpur_cache_returns_args *a, int64_t slot)
{
    const int flags = a->lanes.flags[slot];
    gpur_return_row row;
    row.reward = a->lanes.reward[slot];
    row.discount = (flags & GPUR_LANE_TERMINATED) != 0 ? 0.0f : a->gamma;
    row.is_truncated = (flags & GPUR_LANE_TRUNCATED) != 0;
    return row;
}

GPUR_FN gpur_return_row gpur_return_row_of_ring(const gpur_cache_returns_args *a, int64_t slot)
{
    const unsigned char *const from = a->ring + slot * a->pitch;
    gpur_return_row row;
    memcpy(&row.reward, from + a->reward, sizeof row.reward);
    row.discount = from[a->terminated] != 0 ? 0.0f : a->gamma;
    if (a->discount >= 0)
        memcpy(&row.discount, from + a->discount, sizeof row.discount);
    row.is_truncated = a->truncated >= 0 && from[a->truncated] != 0;
    return row;
}

GPUR_FN gpur_return_term gpur_return_term_of(const gpur_cache_returns_args *a, int64_t entry, int is_last)
{
    const int64_t slot = gpur_return_slot(a, entry);
    gpur_return_term term;
    memset(&term, 0, sizeof term);
    term.is_missing = slot < 0;
    if (slot < 0)
        return term;
    const gpur_return_row row = a->lanes.state ? gpur_return_row_of_lanes(a, slot) : gpur_return_row_of_ring(a, slot);
    term.reward = row.reward;
    term.value = a->entry[entry].value;
    term.discount = row.is_truncated && a->truncation_terminates ? 0.0f : row.discount;
    term.goes_on = !is_last && !row.is_truncated && term.discount != 0.0f;
    if (!a->lanes.state && term.goes_on) /* of lanes each episode's last row says that it is */
        term.goes_on = !gpur_return_is_first(a, entry + 1);
    if (a->greedy && term.goes_on)
        term.goes_on = a->greedy[entry + 1];
    return term;
}

/* L_t from L_{t+1}. */
GPUR_FN float gpur_return_of(gpur_return_term term, float next, float lambda)
{
    if (term.discount == 0.0f)
        return term.reward;
    return term.reward + term.discount * (term.goes_on ? lambda * next + (1.0f - lambda) * term.value : term.value);
}

GPUR_FN void gpur_return_write(const gpur_cache_returns_args *a, int64_t entry, gpur_return_term term, float value)
{
    a->entry[entry].value = term.is_missing ? 0.0f : value;
    if (term.is_missing)
        a->entry[entry].address = GPUR_CACHE_MISSING;
    if (a->writes_errors)
        a->taken[entry] = term.is_missing ? GPUR_CACHE_NO_ERROR : fabsf(value - a->taken[entry]);
}

GPUR_FN void gpur_returns_lambda(const gpur_cache_returns_args *a, int64_t first, float lambda)
{
    float next = 0.0f;
    for (int64_t i = a->length - 1; i >= 0; i--) {
        const gpur_return_term term = gpur_return_term_of(a, first + i, i == a->length - 1);
        next = gpur_return_of(term, next, lambda);
        gpur_return_write(a, first + i, term, next);
    }
}

/* Forward, because each return reads the values of later entries. */
GPUR_FN void gpur_returns_n_step(const gpur_cache_returns_args *a, int64_t first)
{
    for (int64_t i = 0; i < a->length; i++) {
        const gpur_return_term begin = gpur_return_term_of(a, first + i, i == a->length - 1);
        gpur_return_term term = begin;
        float sum = term.reward, power = term.discount;
        for (int64_t k = i + 1; k < i + a->n_step && term.goes_on; k++) {
            term = gpur_return_term_of(a, first + k, k == a->length - 1);
            sum += power * term.reward;
            power *= term.discount;
        }
        gpur_return_write(a, first + i, begin, power == 0.0f ? sum : sum + power * term.value);
    }
}

/* 1 if x[k] is the median of x (GPUR_MEDIAN_LAMBDAS): as many are before it as behind it, in an order in which equal
 * ones follow their index. */
GPUR_FN int gpur_returns_is_median(const float *x, int64_t k)
{
    int before = 0;
    for (int i = 0; i < GPUR_MEDIAN_LAMBDAS; i++)
        before += x[i] < x[k] || (x[i] == x[k] && i < k);
    return before == GPUR_MEDIAN_LAMBDAS / 2;
}

/* The threads of a block of threads share the lambdas of a block of entries. */
GPUR_FN void gpur_returns_medians(gpur_thread at, const gpur_cache_returns_args *a)
{
    GPUR_SHARED(float, next, GPUR_MEDIAN_LAMBDAS);
    const gpur_span blocks = gpur_block_rows(at, a->blocks);
    const gpur_span lambdas = gpur_block_span(at, GPUR_MEDIAN_LAMBDAS);
    for (int64_t block = blocks.first; block < blocks.last; block += blocks.step)
        for (int64_t i = a->length - 1; i >= 0; i--) {
            const int is_last = i == a->length - 1;
            const int64_t entry = block * a->length + i;
            const gpur_return_term term = gpur_return_term_of(a, entry, is_last);
            for (int64_t k = lambdas.first; k < lambdas.last; k += lambdas.step)
                next[k] = gpur_return_of(term, is_last ? 0.0f : next[k], (float)k / (float)(GPUR_MEDIAN_LAMBDAS - 1));
            gpur_barrier(at);
            for (int64_t k = lambdas.first; k < lambdas.last; k += lambdas.step)
                if (gpur_returns_is_median(next, k))
                    gpur_return_write(a, entry, term, next[k]);
            gpur_barrier(at);
        }
}

/* The largest k of last - 15 to last for which the mean squared error of the block's returns for lambda = k / 128,
 * without missing entries, is within the bound; 0 if there is none. */
GPUR_FN int gpur_returns_within_bound(const gpur_cache_returns_args *a, int64_t first, int last)
{
    float next[GPUR_BOUND_AT_ONCE] = {0}, sum[GPUR_BOUND_AT_ONCE] = {0};
    int64_t count = 0;
    for (int64_t i = a->length - 1; i >= 0; i--) {
        const gpur_return_term term = gpur_return_term_of(a, first + i, i == a->length - 1);
        const float taken = a->taken[first + i];
        for (int k = 0; k < GPUR_BOUND_AT_ONCE; k++) {
            next[k] = gpur_return_of(term, next[k], (float)(last - k) / (float)GPUR_BOUND_LAMBDAS);
            sum[k] += term.is_missing ? 0.0f : (next[k] - taken) * (next[k] - taken);
        }
        count += !term.is_missing;
    }
    for (int k = 0; k < GPUR_BOUND_AT_ONCE; k++)
        if (count == 0 || sum[k] / (float)count <= a->error_bound)
            return last - k;
    return 0;
}

/* The mean has no single slope over lambda, so that no halving finds the largest one. */
GPUR_FN float gpur_returns_largest_lambda(const gpur_cache_returns_args *a, int64_t first)
{
    int found = 0;
    for (int last = GPUR_BOUND_LAMBDAS; last > 0 && found == 0; last -= GPUR_BOUND_AT_ONCE)
        found = gpur_returns_within_bound(a, first, last);
    return (float)found / (float)GPUR_BOUND_LAMBDAS;
}

GPUR_KERNEL(cache_returns)
{
    const gpur_span s = gpur_grid_span(at, a->blocks);
    if (a->rule == GPUR_RETURNS_MEDIAN) {
        gpur_returns_medians(at, a);
        return;
    }
    for (int64_t block = s.first; block < s.last; block += s.step) {
        const int64_t first = block * a->length;
        if (a->rule == GPUR_RETURNS_N_STEP)
            gpur_returns_n_step(a, first);
        else if (a->rule == GPUR_RETURNS_ERROR_BOUND)
            gpur_returns_lambda(a, first, gpur_returns_largest_lambda(a, first));
        else
            gpur_returns_lambda(a, first, a->lambda);
    }
}
