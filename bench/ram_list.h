/* SPDX-License-Identifier: MIT */
/*
 * Replay in RAM as the paper compares with [Parr 2018, sections 4 and 5]: a list of transitions, each allocated for
 * itself, the oldest dropped when it is full; a sample draws distinct ones and copies them together field by field. One
 * thread at a time.
 */
#ifndef BENCH_RAM_LIST_H
#define BENCH_RAM_LIST_H

#include "setup.h"

typedef struct ram_list ram_list;

/* NULL: no memory. Destroy takes NULL. */
ram_list *ram_list_create(int64_t capacity);
void ram_list_destroy(ram_list *list);

void ram_list_append(ram_list *list, const melee_row *transition);
int64_t ram_list_size(const ram_list *list);

/* Bytes taken, the allocator's own rounding included. */
int64_t ram_list_bytes(const ram_list *list);

/* `count` of them into a batch (count): all different, or those at the given places (count), 0 being the oldest. */
void ram_list_sample(ram_list *list, int64_t count, melee_row *batch);
void ram_list_gather(const ram_list *list, int64_t count, const int64_t *places, melee_row *batch);

#endif
