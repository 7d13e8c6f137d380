/* SPDX-License-Identifier: MIT */
/* n-step returns, and the transitions that they complete: claims rows of staging blocks and writes them from a writer's
 * state. All functions that take an emitter require the window lock. */
#pragma once

#include "base/numbers.h"
#include "replay/writer/env_state.h"
#include "replay/writer/writer.h"

#include <math.h>

/*
 * n-step returns of one environment [Sutton & Barto 2018, eq. 7.1; the shorter returns at an episode's end as in Horgan
 * et al. 2018, section 3]: which transitions a step completes, and their returns.
 */

/* Number of transitions that the last step completes. They begin at the oldest pending steps and end with the last
 * step. `pending`: steps whose transitions are not complete yet, the last step included; `ends`: the episode ends
 * with it. */
static inline int32_t gpur_n_step_ready(int32_t pending, int32_t n_step, int ends)
{
    if (ends)
        return pending;
    return pending >= n_step ? pending - n_step + 1 : 0;
}

typedef struct gpur_n_step_return {
    float reward;   /* r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1) */
    float discount; /* gamma^m, whether or not the last step terminated */
} gpur_n_step_return;

/* The return of `steps` rewards, from number `first` on, in a ring buffer of `room` floats, a power of two. A single
 * reward is returned bit for bit; sums are computed in double and rounded once. */
gpur_n_step_return gpur_n_step_return_of(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma);

/* 1 if a sequence ends with row `row` of an episode, counted from 0 (gpur_writer_config.sequence_length): one of
 * `length` rows, or one that the episode's end cuts off. */
static inline int gpur_ends_sequence(int64_t row, int ends, int64_t length, int64_t every)
{
    const int64_t first = row + 1 - length; /* of a sequence of `length` rows */
    if (first >= 0 && first % every == 0)
        return 1;
    return ends && (first < 0 || gpur_divide_up(first, every) * every <= row);
}

/* Fills in the first priority of row `row` of an episode. Inlined: writers without sequences only compare. */
static inline void gpur_writer_mark(const gpur_writer *writer, unsigned char *memory, int64_t row, int ends)
{
    const gpur_writer_config *const c = &writer->config;
    if (c->sequence_length == 0)
        return;
    const float priority = gpur_ends_sequence(row, ends, c->sequence_length, c->sequence_every) ? NAN : 0.0f;
    memcpy(memory + writer->offsets.priority, &priority, sizeof priority);
}

/* Emits a known number of rows, between gpur_row_emitter_begin and gpur_row_emitter_end. */
typedef struct gpur_row_emitter {
    gpur_writer *writer;
    int64_t left;     /* rows still to be claimed */
    int waits;        /* 1: wait for staging blocks */
    int64_t pitch;    /* bytes from row to row */
    int64_t used;     /* rows of the claim that have been handed to the caller */
    gpur_claim claim; /* its block is NULL if the rows are committed already */
} gpur_row_emitter;

/* The flags of the last step, shared by all transitions that it completes. The observation after that step is the
 * environment's current one. */
typedef struct gpur_episode_end {
    uint8_t terminated, truncated;
} gpur_episode_end;

static inline int gpur_episode_end_is(const gpur_episode_end *end)
{
    return end->terminated || end->truncated;
}

/* Under GPUR_WHEN_FULL_ERROR: GPUR_WOULD_BLOCK if `rows` rows do not fit now; otherwise they can be emitted without
 * waiting. `what` names in the message what needs the rows. */
gpur_status gpur_row_emitter_check_room(gpur_writer *writer, int64_t rows, const char *what);

/* Begins to emit exactly `rows` rows. */
gpur_row_emitter gpur_row_emitter_begin(gpur_writer *writer, int64_t rows, int waits);

/* Emits the transitions that begin at the `ready` oldest pending steps of an environment and end with its last step. */
gpur_status gpur_row_emitter_emit(gpur_row_emitter *emitter, int64_t env, int32_t ready,
                                  const gpur_episode_end *episode_end);

gpur_status gpur_row_emitter_end(gpur_row_emitter *emitter);

/* Claims more rows: as many at a time as fit into the open block. */
gpur_status gpur_row_emitter_claim(gpur_row_emitter *emitter);

/* Gets the memory and the id of the next row. */
static inline gpur_status gpur_row_emitter_next(gpur_row_emitter *emitter, unsigned char **row, int64_t *id)
{
    if (emitter->used == emitter->claim.count)
        GPUR_TRY(gpur_row_emitter_claim(emitter));
    *row = emitter->claim.rows + emitter->used * emitter->pitch;
    *id = emitter->claim.first_id + emitter->used++;
    return GPUR_OK;
}

/* Writes a field, if rows have it (`offset` is not -1). Inlined, so that the length is known and the copy is a single
 * move. */
static inline void gpur_write_field(unsigned char *row, int64_t offset, const void *value, size_t bytes)
{
    if (offset >= 0)
        memcpy(row + offset, value, bytes);
}

/* Writes a row's reward, terminated, truncated and discount, and `previous`, the link to the transition before. */
static inline void gpur_write_outcome(const gpur_row_offsets *at, unsigned char *row, gpur_n_step_return n_step_return,
                                      const gpur_episode_end *episode_end, int64_t previous)
{
    const float discount = episode_end->terminated ? 0.0f : n_step_return.discount;
    gpur_write_field(row, at->reward, &n_step_return.reward, sizeof n_step_return.reward);
    gpur_write_field(row, at->terminated, &episode_end->terminated, 1);
    gpur_write_field(row, at->truncated, &episode_end->truncated, 1);
    gpur_write_field(row, at->discount, &discount, sizeof discount);
    gpur_write_field(row, at->previous, &previous, sizeof previous);
}
