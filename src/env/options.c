/* SPDX-License-Identifier: MIT */
#include "env/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIGITS = 15 }; /* of so many digits, each decimal number becomes the nearest double */

/* "a, b, c" */
static void list_names(const gpur_env_option_table *table, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (int32_t i = 0; i < table->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", table->options[i].name);
}

/* Reads digits with at most one point among them: strtod would want the point of the program's locale. Returns 0 if the
 * text is anything else. */
static int read_decimal(const char *text, size_t length, double *value)
{
    double number = 0.0, divisor = 1.0;
    int digits = 0, points = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && points++ == 0)
            continue;
        if (text[i] < '0' || text[i] > '9' || ++digits > MAX_DIGITS)
            return 0;
        number = 10.0 * number + (text[i] - '0');
        divisor = points ? 10.0 * divisor : divisor;
    }
    *value = number / divisor;
    return digits > 0;
}

static int is_whole(double value)
{
    return value <= GPUR_ENV_MAX_STEPS && (double)(int64_t)value == value;
}

/* Reads one "name=value" of so many characters. `given` receives 1 for the option that it names. */
static const char *read_option(gpur_env_settings *settings, const gpur_env_option_table *table, const char *text,
                               size_t length, int32_t *given)
{
    char names[256];
    const char *const equals = memchr(text, '=', length);
    const size_t name_length = equals ? (size_t)(equals - text) : length;
    int32_t i = 0;
    while (i < table->count &&
           (strlen(table->options[i].name) != name_length || memcmp(table->options[i].name, text, name_length) != 0))
        i++;
    list_names(table, names, sizeof names);
    GPUR_ENV_REQUIRE(i < table->count, "%s has no option \"%.*s\"; it has %s", settings->name, (int)name_length, text,
                     names);
    const gpur_env_option *const option = &table->options[i];
    GPUR_ENV_REQUIRE(equals, "option %s of %s has no value; options are name=value,name=value", option->name,
                     settings->name);
    GPUR_ENV_REQUIRE(!given[i], "option %s of %s is given twice; once is enough", option->name, settings->name);
    const char *const digits = equals + 1;
    const size_t count = length - name_length - 1;
    double value = 0.0;
    const int is_good = read_decimal(digits, count, &value) && value >= option->low && value <= option->high &&
                        (!option->is_whole || is_whole(value));
    GPUR_ENV_REQUIRE(is_good, "option %s of %s is \"%.*s\"; it must be a %s from %.0f to %.0f, of at most %d digits",
                     option->name, settings->name, (int)count, digits, option->is_whole ? "whole number" : "number",
                     option->low, option->high, MAX_DIGITS);
    settings->values[i] = value;
    given[i] = 1;
    return NULL;
}

const char *gpur_env_settings_read(gpur_env_settings *settings, const char *name, const gpur_env_option_table *table,
                                   const char *text)
{
    int32_t given[GPUR_ENV_MAX_OPTIONS] = {0};
    memset(settings, 0, sizeof *settings);
    snprintf(settings->name, sizeof settings->name, "%s", name);
    for (int32_t i = 0; i < table->count; i++)
        settings->values[i] = table->options[i].value;
    GPUR_ENV_REQUIRE(text, "the options of %s are NULL; for the defaults they are \"\"", name);
    while (*text) {
        const size_t length = strcspn(text, ",");
        GPUR_ENV_TRY(read_option(settings, table, text, length, given));
        text += length;
        GPUR_ENV_REQUIRE(*text != ',' || text[1], "the options of %s end with a comma; another name=value must follow",
                         name);
        text += *text == ',';
    }
    return NULL;
}

const char *gpur_env_settings_check(const gpur_env_settings *settings, const gpur_env_option_table *table,
                                    const gpur_env_settings *saved)
{
    GPUR_ENV_REQUIRE(memcmp(saved->name, settings->name, sizeof saved->name) == 0,
                     "the state is of \"%.*s\"; it must be of \"%s\"", GPUR_ENV_MAX_NAME, saved->name, settings->name);
    for (int32_t i = 0; i < table->count; i++)
        GPUR_ENV_REQUIRE(saved->values[i] == settings->values[i],
                         "the state was saved with %s=%.15g; this %s has %s=%.15g", table->options[i].name,
                         saved->values[i], settings->name, table->options[i].name, settings->values[i]);
    return NULL;
}

const char *gpur_env_steps_check(const gpur_env_settings *settings, int64_t saved)
{
    const int64_t most = INT64_MAX / 2;
    GPUR_ENV_REQUIRE(saved >= 0 && saved <= most,
                     "the state of %s has %" PRId64 " steps in its episode; it must be 0 to %" PRId64, settings->name,
                     saved, most);
    return NULL;
}
