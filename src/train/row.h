/* SPDX-License-Identifier: MIT */
/* A row of a run's record: columns by name, each with a number or a word. */
#pragma once

#include <stdint.h>

enum { GPUR_MAX_COLUMNS = 32 };

typedef struct gpur_row {
    int32_t count;
    const char *names[GPUR_MAX_COLUMNS];
    double values[GPUR_MAX_COLUMNS];     /* NaN: no value */
    const char *words[GPUR_MAX_COLUMNS]; /* NULL: the value is a number */
} gpur_row;

static inline void gpur_row_add(gpur_row *row, const char *name, double value)
{
    row->names[row->count] = name;
    row->values[row->count] = value;
    row->words[row->count++] = 0;
}

static inline void gpur_row_add_word(gpur_row *row, const char *name, const char *word)
{
    gpur_row_add(row, name, 0.0);
    row->words[row->count - 1] = word;
}

/* The value of a column; NaN if there is none. */
double gpur_row_value(const gpur_row *row, const char *name);
