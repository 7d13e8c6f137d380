/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_free(text *t)
{
    free(t->memory);
    *t = (text){0};
}

void text_clear(text *t)
{
    t->length = 0;
    t->lacks_memory = 0;
}

int text_is_whole(const text *t)
{
    return !t->lacks_memory;
}

/* Makes room for `more` bytes and a NUL. Returns 0 if there is no memory. */
static int reserve(text *t, size_t more)
{
    if (t->length + more < t->room)
        return 1;
    const size_t room = 2 * (t->length + more) + 256;
    char *const memory = realloc(t->memory, room);
    if (!memory) {
        t->lacks_memory = 1;
        return 0;
    }
    t->memory = memory;
    t->room = room;
    return 1;
}

void text_add(text *t, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0)
        t->lacks_memory = 1;
    else if (reserve(t, (size_t)length)) {
        vsnprintf(t->memory + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

/* Whole numbers look like whole numbers. Returns 0 if it is not one, or too large for all its digits to count. */
static int add_whole(text *t, double value)
{
    if (value != floor(value) || fabs(value) >= 1e15)
        return 0;
    text_add(t, "%.0f", value);
    return 1;
}

void text_add_exactly(text *t, double value, const char *none)
{
    char digits[40];
    if (!isfinite(value)) {
        text_add(t, "%s", none);
        return;
    }
    if (add_whole(t, value))
        return;
    for (int count = 15; count <= 17; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, value);
        if (count == 17 || strtod(digits, NULL) == value) {
            text_add(t, "%s", digits);
            return;
        }
    }
}

void text_add_float(text *t, float value, const char *none)
{
    char digits[40];
    if (!isfinite(value)) {
        text_add(t, "%s", none);
        return;
    }
    if (add_whole(t, (double)value))
        return;
    for (int count = 6; count <= 9; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, (double)value);
        if (count == 9 || strtof(digits, NULL) == value) {
            text_add(t, "%s", digits);
            return;
        }
    }
}

void text_add_rounded(text *t, double value, const char *none)
{
    if (!isfinite(value))
        text_add(t, "%s", none);
    else if (!add_whole(t, value))
        text_add(t, "%.6g", value);
}

/* The bytes of the UTF-8 character at `s`, 0 if there is none [RFC 3629, section 4]. */
static int utf8_length(const unsigned char *s)
{
    const unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    const int length = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] <= 0xF4 ? 4 : 0;
    if (length > 1 && (s[1] < low || s[1] > high))
        return 0;
    for (int i = 2; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

void text_add_string(text *t, const char *value)
{
    text_add(t, "\"");
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        const int length = utf8_length(s);
        if (length == 0)
            text_add(t, "\\ufffd");
        else if (*s == '"' || *s == '\\')
            text_add(t, "\\%c", *s);
        else if (*s < 0x20)
            text_add(t, "\\u%04x", *s);
        else
            text_add(t, "%.*s", length, (const char *)s);
        s += length ? length : 1;
    }
    text_add(t, "\"");
}

/* Ends the member before, and begins the next one. */
static void begin_member(json *j, const char *name)
{
    if (j->depth > 0)
        text_add(j->out, "%s\n%*s", j->has_members ? "," : "", 2 * j->depth, "");
    if (name) {
        text_add_string(j->out, name);
        text_add(j->out, ": ");
    }
    j->has_members = 1;
}

void json_begin(json *j, const char *name, char bracket)
{
    begin_member(j, name);
    text_add(j->out, "%c", bracket);
    j->depth++;
    j->has_members = 0;
}

void json_end(json *j, char bracket)
{
    j->depth--;
    text_add(j->out, "\n%*s%c%s", 2 * j->depth, "", bracket, j->depth ? "" : "\n");
    j->has_members = 1;
}

void json_string(json *j, const char *name, const char *value)
{
    begin_member(j, name);
    text_add_string(j->out, value);
}

void json_integer(json *j, const char *name, int64_t value)
{
    begin_member(j, name);
    text_add(j->out, "%" PRId64, value);
}

void json_integers(json *j, const char *name, const int32_t *values, int count)
{
    begin_member(j, name);
    text_add(j->out, "[");
    for (int i = 0; i < count; i++)
        text_add(j->out, "%s%" PRId32, i ? ", " : "", values[i]);
    text_add(j->out, "]");
}

void json_float(json *j, const char *name, float value)
{
    begin_member(j, name);
    text_add_float(j->out, value, "null");
}
