/* SPDX-License-Identifier: MIT */
/* Text that grows, and JSON in it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Zeroed, it is empty. If memory runs out it takes no more, and text_is_whole says so. */
typedef struct text {
    char *memory; /* ends with a NUL; NULL while nothing was added */
    size_t length, room;
    int lacks_memory;
} text;

void text_free(text *t);
void text_clear(text *t);
int text_is_whole(const text *t);
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a number; NaN and infinity become `none`. Exactly: with as many digits as give the same number when they are
 * read, for text_add_float the same float. Rounded: with six digits, whole numbers with all of theirs. */
void text_add_exactly(text *t, double value, const char *none);
void text_add_float(text *t, float value, const char *none);
void text_add_rounded(text *t, double value, const char *none);

/* Adds a JSON string with its quotes. What is not UTF-8 becomes U+FFFD. */
void text_add_string(text *t, const char *value);

/* A JSON document that is written from its beginning to its end, a member on a line. In an array names are NULL. */
typedef struct json {
    text *out;
    int depth, has_members;
} json;

void json_begin(json *j, const char *name, char bracket);
void json_end(json *j, char bracket);
void json_string(json *j, const char *name, const char *value);
void json_integer(json *j, const char *name, int64_t value);
void json_integers(json *j, const char *name, const int32_t *values, int count);
void json_float(json *j, const char *name, float value);
