/* SPDX-License-Identifier: MIT */
/*
 * What the replay's tests share: rows whose every byte follows from a tag, so that a torn, stale or misplaced row
 * shows. The tag is the row's field "tag" where the schema has one, and else its id.
 */
#pragma once

#include "gpureplay.h"

/* A config with these fields and sizes; the rest is default. */
gpur_replay_config replay_fixture_config(const gpur_field *fields, int32_t field_count, int64_t capacity,
                                         int64_t block_rows, int64_t max_batch);

typedef struct row_tags {
    gpur_field_info fields[GPUR_MAX_FIELDS]; /* (count) */
    int32_t count;
    int64_t row_bytes;
    float gamma;
} row_tags;

/* Learns the schema from the replay. */
row_tags row_tags_of(gpur_replay *replay, float gamma);

/* What a field "priority" of the row with this tag holds: good ones, and some that are none. */
float tagged_priority(int64_t tag);

/* Packed rows with tags first, first + 1, ...: malloc'ed, (count, row_bytes). */
unsigned char *tagged_rows(const row_tags *k, int64_t first, int64_t count);

/* The same as one malloc'ed array a field. Free each. */
void tagged_arrays(const row_tags *k, int64_t first, int64_t count, void **arrays);

/* Appends rows with these tags; returns the status, or -100 when not all were taken. */
gpur_status append_tagged(const row_tags *k, gpur_writer *writer, int64_t first, int64_t count);

/* How many bytes of the batch are not as the tags say, its discounts and weights included; -1 on a failing call. `ids`
 * (count) gets the ids, if not NULL. */
int64_t count_wrong_bytes(const row_tags *k, gpur_batch *batch, int64_t *ids);

/* 1 when gpur_replay_create refuses the config for want of memory, the capacity that it says would fit is planned to
 * fit in what it says is free, and one of 1 % more is not. */
int refusal_says_what_fits(gpur_device *device, const gpur_replay_config *config);

/* A replay with one writer, and the tag of the row that comes next. */
typedef struct replay_fixture {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    row_tags row_tags;
    int64_t next;
} replay_fixture;

/* 1 when all of it could be made. replay_fixture_close closes the device. */
int replay_fixture_open(replay_fixture *s, gpur_device *device, const gpur_replay_config *config, int32_t num_envs);
void replay_fixture_close(replay_fixture *s);
gpur_status replay_fixture_append(replay_fixture *s, int64_t count);

/* GPUR_OK when a batch of exactly these ids (at most 64) comes out right; -100 when it comes out wrong. */
gpur_status replay_fixture_gather(replay_fixture *s, int64_t count, const int64_t *ids);

/* The same of a sample; `ids` (count) gets the ids, if not NULL. */
gpur_status replay_fixture_sample(replay_fixture *s, int64_t count, int64_t *ids);

/* Appends the next rows as one host array a field. */
gpur_status replay_fixture_append_fields(replay_fixture *s, int64_t count);

/* Statistics; visible is -1 when they could not be had. */
gpur_replay_stats replay_fixture_stats(gpur_replay *replay);

/* Device memory with these bytes in it; NULL when there is none. */
void *upload_to_device(gpur_device *device, const void *host, int64_t bytes);

/* A cheap generator for schedules: xorshift64* [Vigna 2016]. Uniform below n, well enough. */
uint64_t xorshift_next(uint64_t *state);
int64_t xorshift_below(uint64_t *state, int64_t n);

/* P(X >= x) of a chi-square distribution with `freedom` degrees, by the recurrence over freedom [Abramowitz & Stegun
 * 26.4.4 and 26.4.5]. A test that asks for at least 1e-6 raises a false alarm for one seed in a million. */
double chi_square_tail(double x, int64_t freedom);

/* The statistic of `counts` (cells) against equal expectations. */
double chi_square_statistic(const int64_t *counts, int64_t cells);

/* A config of three fields, float32 a (5), bool terminated and int64 b, of these sizes and flushed like this. */
gpur_replay_config replay_fixture_plain_config(int64_t capacity, int64_t block_rows, int64_t max_batch, int32_t flush);

/* From how many rows on an append that finds nothing staged is uploaded at once: where work is done before the call
 * returns, 8 KiB or more that the next launch sees anyway need no staging. 0: none is. */
int64_t direct_rows(gpur_device *device, const gpur_replay_config *config, int64_t row_bytes);
