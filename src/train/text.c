/* SPDX-License-Identifier: MIT */
#include "train/text.h"

#include "base/utf8.h"

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

const char *gpur_text_of(const gpur_text *t)
{
    return t->memory && !t->lacks_memory ? t->memory : "";
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

void gpur_text_add_bytes(gpur_text *t, const char *bytes, size_t count)
{
    if (!reserve(t, count))
        return;
    memcpy(t->memory + t->length, bytes, count);
    t->length += count;
    t->memory[t->length] = '\0';
}

void gpur_text_add_number(gpur_text *t, double value, gpur_digits digits, const char *none)
{
    static const int fewest[] = {15, 6, 6}, most[] = {17, 9, 6};
    char number[40];
    if (!isfinite(value))
        snprintf(number, sizeof number, "%s", none);
    else if (value == floor(value) && fabs(value) < 1e15)
        snprintf(number, sizeof number, "%.0f", value);
    else
        for (int count = fewest[digits]; count <= most[digits]; count++) {
            snprintf(number, sizeof number, "%.*g", count, value);
            if ((digits == GPUR_DIGITS_OF_FLOAT ? (double)strtof(number, NULL) : strtod(number, NULL)) == value)
                break;
        }
    gpur_text_add(t, "%s", number);
}

void gpur_text_add_string(gpur_text *t, const char *value)
{
    gpur_text_add(t, "\"");
    for (const char *s = value; *s;) {
        const size_t length = gpur_utf8_length(s, strnlen(s, 4));
        if (*s == '"' || *s == '\\')
            gpur_text_add(t, "\\");
        if (length == 0) /* a control character, or no UTF-8 */
            gpur_text_add(t, "\\u%04x", *s > 0 && *s < 0x20 ? (unsigned)*s : 0xFFFDu);
        gpur_text_add_bytes(t, s, length);
        s += length ? length : 1;
    }
    gpur_text_add(t, "\"");
}

gpur_text *gpur_json_member(gpur_json *j, const char *name)
{
    if (j->depth > 0)
        gpur_text_add(j->out, "%s\n%*s", j->has_members ? "," : "", 2 * j->depth, "");
    if (name) {
        gpur_text_add_string(j->out, name);
        gpur_text_add(j->out, ": ");
    }
    j->has_members = 1;
    return j->out;
}

void gpur_json_begin(gpur_json *j, const char *name, char bracket)
{
    gpur_text_add(gpur_json_member(j, name), "%c", bracket);
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
    gpur_text_add_string(gpur_json_member(j, name), value);
}

void gpur_json_integer(gpur_json *j, const char *name, int64_t value)
{
    gpur_text_add(gpur_json_member(j, name), "%" PRId64, value);
}

void gpur_json_float(gpur_json *j, const char *name, float value)
{
    gpur_text_add_number(gpur_json_member(j, name), (double)value, GPUR_DIGITS_OF_FLOAT, "null");
}
