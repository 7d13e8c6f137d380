/* SPDX-License-Identifier: MIT */
/* Text that grows, and JSON in it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Zeroed, it is empty. If memory runs out it takes no more, and gpur_text_is_whole says so. */
typedef struct gpur_text {
    char *memory; /* ends with a NUL; NULL while nothing was added */
    size_t length, room;
    int lacks_memory;
} gpur_text;

void gpur_text_free(gpur_text *t);
void gpur_text_clear(gpur_text *t);
int gpur_text_is_whole(const gpur_text *t);
const char *gpur_text_of(const gpur_text *t); /* what was added; "" if not all of it was */
void gpur_text_add(gpur_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

void gpur_text_add_bytes(gpur_text *t, const char *bytes, size_t count);

/* How a number is written: with as many digits as give the same number when they are read, or the same float; or with
 * six. Whole numbers have all of theirs. */
typedef enum gpur_digits { GPUR_DIGITS_OF_DOUBLE, GPUR_DIGITS_OF_FLOAT, GPUR_DIGITS_ROUNDED } gpur_digits;

/* Adds a number; NaN and infinity become `none`. */
void gpur_text_add_number(gpur_text *t, double value, gpur_digits digits, const char *none);

/* Adds a JSON string with its quotes. What is not UTF-8 becomes U+FFFD. */
void gpur_text_add_string(gpur_text *t, const char *value);

/* A JSON document that is written from its beginning to its end, a member on a line. In an array names are NULL. */
typedef struct gpur_json {
    gpur_text *out;
    int depth, has_members;
} gpur_json;

/* Begins a member, whose value is to be added to the text that it returns. */
gpur_text *gpur_json_member(gpur_json *j, const char *name);
void gpur_json_begin(gpur_json *j, const char *name, char bracket);
void gpur_json_end(gpur_json *j, char bracket);
void gpur_json_string(gpur_json *j, const char *name, const char *value);
void gpur_json_integer(gpur_json *j, const char *name, int64_t value);
void gpur_json_float(gpur_json *j, const char *name, float value);
