/* SPDX-License-Identifier: MIT */
#include "ram_rows.h"
#include "ram_random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 4096, AHEAD = 12, LINE = 64, HUGE_PAGE = 2 << 20 };

struct ram_rows {
    melee_row *row; /* (capacity) in a ring */
    int64_t capacity, first, size;
    uint64_t random;
    int64_t place[MOST];
};

static melee_row *large_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0)
        return NULL;
    madvise(memory, bytes, MADV_HUGEPAGE); /* fewer page walks; without, it is slower and right */
    return memory;
}

ram_rows *ram_rows_create(int64_t capacity)
{
    ram_rows *const rows = calloc(1, sizeof *rows);
    if (!rows)
        return NULL;
    rows->capacity = capacity;
    rows->row = large_memory((size_t)capacity * sizeof *rows->row);
    if (rows->row)
        return rows;
    free(rows);
    return NULL;
}

void ram_rows_destroy(ram_rows *rows)
{
    if (rows)
        free(rows->row);
    free(rows);
}

/* Where the place `i` behind the oldest lies. */
static int64_t slot(const ram_rows *rows, int64_t i)
{
    const int64_t at = rows->first + i;
    return at < rows->capacity ? at : at - rows->capacity;
}

static void append_part(ram_rows *rows, int64_t count, const melee_row *given)
{
    const int64_t at = slot(rows, rows->size < rows->capacity ? rows->size : 0);
    const int64_t free_rows = rows->capacity - rows->size;
    memcpy(rows->row + at, given, (size_t)count * sizeof *given);
    rows->size += count < free_rows ? count : free_rows;
    rows->first = slot(rows, count < free_rows ? 0 : count - free_rows);
}

/* Two parts at the ring's end. */
void ram_rows_append(ram_rows *rows, int64_t count, const melee_row *given)
{
    const int64_t at = slot(rows, rows->size < rows->capacity ? rows->size : 0), to_end = rows->capacity - at;
    const int64_t head = count < to_end ? count : to_end;
    append_part(rows, head, given);
    if (head < count)
        append_part(rows, count - head, given + head);
}

int64_t ram_rows_size(const ram_rows *rows)
{
    return rows->size;
}

int64_t ram_rows_bytes(const ram_rows *rows)
{
    return (int64_t)sizeof *rows + rows->capacity * (int64_t)sizeof *rows->row;
}

static void ask_for(const ram_rows *rows, int64_t place)
{
    const char *const at = (const char *)(rows->row + slot(rows, place));
    for (size_t byte = 0; byte < sizeof *rows->row; byte += LINE)
        __builtin_prefetch(at + byte);
    __builtin_prefetch(at + sizeof *rows->row - 1); /* a row of 228 bytes may reach into a fifth line */
}

void ram_rows_gather(const ram_rows *rows, int64_t count, const int64_t *places, melee_row *batch)
{
    for (int64_t b = 0; b < AHEAD && b < count; b++)
        ask_for(rows, places[b]);
    for (int64_t b = 0; b < count; b++) {
        if (b + AHEAD < count)
            ask_for(rows, places[b + AHEAD]);
        batch[b] = rows->row[slot(rows, places[b])];
    }
}

void ram_rows_sample(ram_rows *rows, int64_t count, melee_row *batch)
{
    if (count > MOST || rows->size == 0)
        bench_must(GPUR_INVALID_ARGUMENT, "a sample of the rows");
    for (int64_t b = 0; b < count; b++)
        rows->place[b] = ram_random_below(&rows->random, rows->size);
    ram_rows_gather(rows, count, rows->place, batch);
}
