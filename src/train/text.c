/* SPDX-License-Identifier: MIT */
#include "train/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpur_text_free(gpur_text *t)
{
    free(t->memory);
    *t = (gpur_text){0};
}

void gpur_text_clear(gpur_text *t)
{
    t->length = 0;
    t->lacks_memory = 0;
}

int gpur_text_is_whole(const gpur_text *t)
{
    return !t->lacks_memory;
}

/* Makes room for `more` bytes and a NUL. Returns 0 if there is no memory. */
static int reserve(gpur_text *t, size_t more)
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

void gpur_text_add(gpur_text *t, const char *format, ...)
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
static int add_whole(gpur_text *t, double value)
{
    if (value != floor(value) || fabs(value) >= 1e15)
        return 0;
    gpur_text_add(t, "%.0f", value);
    return 1;
}

void gpur_text_add_exactly(gpur_text *t, double value, const char *none)
{
    char digits[40];
    if (!isfinite(value)) {
        gpur_text_add(t, "%s", none);
        return;
    }
    if (add_whole(t, value))
        return;
    for (int count = 15; count <= 17; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, value);
        if (count == 17 || strtod(digits, NULL) == value) {
            gpur_text_add(t, "%s", digits);
            return;
        }
    }
}

void gpur_text_add_float(gpur_text *t, float value, const char *none)
{
    char digits[40];
    if (!isfinite(value)) {
        gpur_text_add(t, "%s", none);
        return;
    }
    if (add_whole(t, (double)value))
        return;
    for (int count = 6; count <= 9; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, (double)value);
        if (count == 9 || strtof(digits, NULL) == value) {
            gpur_text_add(t, "%s", digits);
            return;
        }
    }
}

double gpur_text_shortest(float value)
{
    gpur_text digits = {0};
    gpur_text_add_float(&digits, value, "0");
    const double number = gpur_text_is_whole(&digits) ? strtod(digits.memory, NULL) : (double)value;
    gpur_text_free(&digits);
    return number;
}

void gpur_text_add_short(gpur_text *t, double value, int width)
{
    char number[32] = "-";
    if (isfinite(value))
        snprintf(number, sizeof number, value >= 1000.0 ? "%.0f" : "%.4g", value);
    gpur_text_add(t, "%*s", width, number);
}

void gpur_text_add_rounded(gpur_text *t, double value, const char *none)
{
    if (!isfinite(value))
        gpur_text_add(t, "%s", none);
    else if (!add_whole(t, value))
        gpur_text_add(t, "%.6g", value);
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

void gpur_text_add_string(gpur_text *t, const char *value)
{
    gpur_text_add(t, "\"");
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        const int length = utf8_length(s);
        if (length == 0)
            gpur_text_add(t, "\\ufffd");
        else if (*s == '"' || *s == '\\')
            gpur_text_add(t, "\\%c", *s);
        else if (*s < 0x20)
            gpur_text_add(t, "\\u%04x", *s);
        else
            gpur_text_add(t, "%.*s", length, (const char *)s);
        s += length ? length : 1;
    }
    gpur_text_add(t, "\"");
}

/* Ends the member before, and begins the next one. */
static void begin_member(gpur_json *j, const char *name)
{
    if (j->depth > 0)
        gpur_text_add(j->out, "%s\n%*s", j->has_members ? "," : "", 2 * j->depth, "");
    if (name) {
        gpur_text_add_string(j->out, name);
        gpur_text_add(j->out, ": ");
    }
    j->has_members = 1;
}

void gpur_json_begin(gpur_json *j, const char *name, char bracket)
{
    begin_member(j, name);
    gpur_text_add(j->out, "%c", bracket);
    j->depth++;
    j->has_members = 0;
}

void gpur_json_end(gpur_json *j, char bracket)
{
    j->depth--;
    gpur_text_add(j->out, "\n%*s%c%s", 2 * j->depth, "", bracket, j->depth ? "" : "\n");
    j->has_members = 1;
}

void gpur_json_string(gpur_json *j, const char *name, const char *value)
{
    begin_member(j, name);
    gpur_text_add_string(j->out, value);
}

void gpur_json_integer(gpur_json *j, const char *name, int64_t value)
{
    begin_member(j, name);
    gpur_text_add(j->out, "%" PRId64, value);
}

void gpur_json_number(gpur_json *j, const char *name, const char *digits)
{
    begin_member(j, name);
    gpur_text_add(j->out, "%s", digits);
}

void gpur_json_integers(gpur_json *j, const char *name, const int32_t *values, int count)
{
    begin_member(j, name);
    gpur_text_add(j->out, "[");
    for (int i = 0; i < count; i++)
        gpur_text_add(j->out, "%s%" PRId32, i ? ", " : "", values[i]);
    gpur_text_add(j->out, "]");
}

void gpur_json_float(gpur_json *j, const char *name, float value)
{
    begin_member(j, name);
    gpur_text_add_float(j->out, value, "null");
}
