/* SPDX-License-Identifier: MIT */
/*
 * Replay in RAM done well: one block of packed rows in a ring, appended to by memcpy, drawn from with the rows ahead
 * already asked for from memory. One thread at a time.
 */
#ifndef BENCH_RAM_ROWS_H
#define BENCH_RAM_ROWS_H

#include "setup.h"

typedef struct ram_rows ram_rows;

/* NULL: no memory. Destroy takes NULL. */
ram_rows *ram_rows_create(int64_t capacity);
void ram_rows_destroy(ram_rows *rows);

void ram_rows_append(ram_rows *rows, int64_t count, const melee_row *given);
int64_t ram_rows_size(const ram_rows *rows);
int64_t ram_rows_bytes(const ram_rows *rows);

/* `count` of them into a batch (count): drawn uniformly with replacement, or those at the given places (count), 0 being
 * the oldest. */
void ram_rows_sample(ram_rows *rows, int64_t count, melee_row *batch);
void ram_rows_gather(const ram_rows *rows, int64_t count, const int64_t *places, melee_row *batch);

#endif
