/* SPDX-License-Identifier: MIT */
/* Gives rows of a batch new goals, and the rewards that follow [Andrychowicz et al. 2017, algorithm 1]. Arguments and
 * shapes: gpur_hindsight_relabel_args. A thread relabels a row. */
#pragma once

#include "kernels/args_hindsight.h"
#include "kernels/hindsight/places.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/random.h"

/* What becomes of a row: its place, and the row of its episode whose achieved goal is the new one. */
typedef struct gpur_relabel {
    int64_t id;      /* -1: the row stays as it is */
    uint64_t random; /* of which the goal follows */
    gpur_hindsight_place place;
    int64_t goal;                 /* the index of that row in the episode */
    const unsigned char *numbers; /* of the new goal */
} gpur_relabel;

GPUR_FN float gpur_goal_number(const unsigned char *numbers, int32_t i)
{
    float x;
    memcpy(&x, numbers + (int64_t)sizeof x * i, sizeof x);
    return x;
}

/* The first row of the episode that is in the window: the oldest rows are evicted first. */
GPUR_FN int64_t gpur_relabel_oldest(const gpur_hindsight_relabel_args *a, const gpur_window *window,
                                    const gpur_relabel *r)
{
    int64_t gone = -1, is_there = r->place.index;
    if (gpur_window_has(window, gpur_hindsight_id(&a->index, a->capacity, &r->place, r->id, 0)))
        return 0;
    while (is_there - gone > 1) {
        const int64_t middle = gone + (is_there - gone) / 2;
        if (gpur_window_has(window, gpur_hindsight_id(&a->index, a->capacity, &r->place, r->id, middle)))
            is_there = middle;
        else
            gone = middle;
    }
    return is_there;
}

/* The index of the row whose achieved goal is taken [ibid., section 4.5]. */
GPUR_FN int64_t gpur_relabel_goal(const gpur_hindsight_relabel_args *a, const gpur_window *window,
                                  const gpur_relabel *r, uint64_t random)
{
    const int64_t length = r->place.length;
    if (a->strategy == GPUR_HINDSIGHT_FINAL)
        return length - 1;
    const int64_t first = a->strategy == GPUR_HINDSIGHT_FUTURE ? r->place.index : gpur_relabel_oldest(a, window, r);
    return first + (int64_t)gpur_mulhi_u64(random, (uint64_t)(length - first));
}

/* What the random numbers say of row b. */
GPUR_FN gpur_relabel gpur_relabel_draw(const gpur_hindsight_relabel_args *a, const gpur_window *window, uint64_t step,
                                       int64_t b)
{
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose, step, (uint32_t)b);
    const uint64_t goals = (uint64_t)a->n_sampled_goal;
    gpur_relabel r;
    r.id = (uint64_t)bits.v[0] * (goals + 1) >> 32 < goals ? a->ids[b] : -1;
    r.random = (uint64_t)bits.v[3] << 32 | bits.v[2];
    if (!gpur_window_has(window, r.id))
        r.id = -1;
    return r;
}

/* Finds the row's place, and chooses the row of its goal. */
GPUR_FN void gpur_relabel_choose(const gpur_hindsight_relabel_args *a, const gpur_window *window, gpur_relabel *r)
{
    if (r->id < 0)
        return;
    r->place = a->index.places[gpur_window_slot(window, a->capacity, r->id)];
    if (r->place.index >= r->place.length || r->place.stamp != (uint32_t)r->id)
        r->id = -1;
    else
        r->goal = gpur_relabel_goal(a, window, r, r->random);
}

/* What was achieved after step `index` of the row's episode: with transitions of several steps, before the next. The
 * values of `previous` may be a caller's own, and then the order may name a row that has left the window: the sampled
 * row takes its place. */
GPUR_FN const unsigned char *gpur_relabel_achieved(const gpur_hindsight_relabel_args *a, const gpur_window *window,
                                                   const gpur_relabel *r, int64_t index)
{
    const int is_next = a->n_step > 1 && index + 1 < r->place.length;
    const int64_t listed = index + is_next == r->place.index
                               ? r->id
                               : gpur_hindsight_id(&a->index, a->capacity, &r->place, r->id, index + is_next);
    const int64_t id = gpur_window_has(window, listed) ? listed : r->id;
    return gpur_hindsight_row(window, a->ring, a->pitch, a->capacity, id) +
           (is_next ? a->achieved_offset : a->next_achieved_offset);
}

GPUR_FN void gpur_relabel_find(const gpur_hindsight_relabel_args *a, const gpur_window *window, gpur_relabel *r)
{
    if (r->id >= 0)
        r->numbers = gpur_relabel_achieved(a, window, r, r->goal);
}

/* The Euclidean distance of two goals; 0 only if they are equal. */
GPUR_FN double gpur_goal_distance(const unsigned char *achieved, const unsigned char *goal, int32_t size)
{
    double sum = 0;
    for (int32_t i = 0; i < size; i++) {
        const double difference = (double)gpur_goal_number(achieved, i) - (double)gpur_goal_number(goal, i);
        sum += difference * difference;
    }
    return sqrt(sum);
}

GPUR_FN float gpur_goal_reward(const gpur_hindsight_relabel_args *a, double distance, int is_reached)
{
    float reward = is_reached ? a->reward_reached : a->reward_missed;
    if (a->reward_kind == GPUR_GOAL_REWARD_DISTANCE)
        reward = (float)-distance;
    if (a->reward_kind == GPUR_GOAL_REWARD_NEARNESS)
        reward = expf((float)-distance);
    return a->reward_clip > 0.0f ? gpur_clip(reward, a->reward_clip) : reward;
}

/* The reward of a transition for its new goal, and what else follows. */
typedef struct gpur_relabel_outcome {
    double reward, discount;
    int is_end; /* 1: a step reached the goal, and that ends the episode */
} gpur_relabel_outcome;

/* r(0) + gamma r(1) + ... over the steps of the transition, up to the one that reaches the goal if that is the end. */
GPUR_FN gpur_relabel_outcome gpur_relabel_return(const gpur_hindsight_relabel_args *a, const gpur_window *window,
                                                 const gpur_relabel *r, const unsigned char *goal)
{
    const int64_t left = (int64_t)r->place.length - r->place.index, steps = left < a->n_step ? left : a->n_step;
    gpur_relabel_outcome outcome;
    outcome.reward = 0, outcome.discount = 1, outcome.is_end = 0;
    for (int64_t i = 0; i < steps && !outcome.is_end; i++) {
        const unsigned char *const achieved = gpur_relabel_achieved(a, window, r, r->place.index + i);
        const double distance = gpur_goal_distance(achieved, goal, a->goal_size);
        const int is_reached = distance <= (double)a->threshold;
        outcome.reward += outcome.discount * (double)gpur_goal_reward(a, distance, is_reached);
        outcome.discount *= (double)a->gamma;
        outcome.is_end = a->ends_at_goal && is_reached;
    }
    return outcome;
}

GPUR_FN void gpur_relabel_write(gpur_hindsight_output output, int64_t b, float x)
{
    if (output.to)
        memcpy(output.to + b * output.pitch, &x, sizeof x);
}

GPUR_FN void gpur_relabel_write_goal(gpur_hindsight_output output, int64_t b, const unsigned char *goal, int32_t size)
{
    for (int32_t i = 0; output.to && i < size; i++) {
        const float x = gpur_goal_number(goal, i);
        memcpy(output.to + b * output.pitch + (int64_t)sizeof x * i, &x, sizeof x);
    }
}

GPUR_FN void gpur_relabel_row(const gpur_hindsight_relabel_args *a, const gpur_window *window, int64_t b,
                              const gpur_relabel *r)
{
    if (a->relabeled)
        a->relabeled[b] = (uint8_t)(r->id >= 0);
    if (r->id < 0)
        return;
    gpur_relabel_write_goal(a->desired, b, r->numbers, a->goal_size);
    gpur_relabel_write_goal(a->next_desired, b, r->numbers, a->goal_size);
    if (a->reward_kind == GPUR_GOAL_REWARD_UNCHANGED)
        return;
    const gpur_relabel_outcome outcome = gpur_relabel_return(a, window, r, r->numbers);
    gpur_relabel_write(a->reward, b, (float)outcome.reward);
    if (!a->ends_at_goal)
        return;
    gpur_relabel_write(a->discount, b, outcome.is_end ? 0.0f : (float)outcome.discount);
    if (a->terminated.to)
        a->terminated.to[b * a->terminated.pitch] = (unsigned char)outcome.is_end;
}

enum { GPUR_RELABEL_ROWS = 64 }; /* whose memory accesses a CPU overlaps */

/* Fetches the numbers of a goal, which may lie in two cache lines. */
GPUR_FN void gpur_relabel_prefetch(const unsigned char *numbers, int32_t size)
{
    gpur_prefetch(numbers);
    gpur_prefetch(numbers + (int64_t)sizeof(float) * size - 1);
}

/* Rows b to b + rows - 1 on a CPU, in steps that each fetch what the next one reads: places, entries of the order, and
 * the goals that were achieved. */
GPUR_FN void gpur_relabel_tile(const gpur_hindsight_relabel_args *a, const gpur_window *window, uint64_t step,
                               int64_t b, int64_t rows)
{
    gpur_relabel r[GPUR_RELABEL_ROWS];
    for (int64_t i = 0; i < rows; i++) {
        r[i] = gpur_relabel_draw(a, window, step, b + i);
        if (r[i].id >= 0)
            gpur_prefetch(&a->index.places[gpur_window_slot(window, a->capacity, r[i].id)]);
    }
    for (int64_t i = 0; i < rows; i++) {
        gpur_relabel_choose(a, window, &r[i]);
        if (r[i].id >= 0)
            gpur_prefetch(&a->index.order[gpur_hindsight_entry(a->capacity, &r[i].place, r[i].goal)]);
    }
    for (int64_t i = 0; i < rows; i++) {
        gpur_relabel_find(a, window, &r[i]);
        if (r[i].id >= 0) {
            gpur_relabel_prefetch(r[i].numbers, a->goal_size);
            gpur_relabel_prefetch(gpur_relabel_achieved(a, window, &r[i], r[i].place.index), a->goal_size);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        gpur_relabel_row(a, window, b + i, &r[i]);
}

GPUR_KERNEL(hindsight_relabel)
{
    const gpur_span span = gpur_grid_span(at, a->batch);
    const gpur_window window = *a->window;
    const uint64_t step = a->step ? *a->step : a->step_value;
    for (int64_t b = span.first; !gpur_is_parallel() && b < span.last; b += GPUR_RELABEL_ROWS)
        gpur_relabel_tile(a, &window, step, b, span.last - b < GPUR_RELABEL_ROWS ? span.last - b : GPUR_RELABEL_ROWS);
    for (int64_t b = span.first; gpur_is_parallel() && b < span.last; b += span.step) {
        gpur_relabel r = gpur_relabel_draw(a, &window, step, b);
        gpur_relabel_choose(a, &window, &r);
        gpur_relabel_find(a, &window, &r);
        gpur_relabel_row(a, &window, b, &r);
    }
}
