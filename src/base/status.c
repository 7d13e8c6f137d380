/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024]; /* one text per thread */

gpur_status gpur_fail(gpur_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

static void append_text(const char *text)
{
    strncat(last_error, text, sizeof last_error - 1 - strlen(last_error));
}

gpur_status gpur_prefix_error(gpur_status status, const char *format, ...)
{
    char text[sizeof last_error];
    va_list arguments;
    if (status == GPUR_OK)
        return GPUR_OK;
    memcpy(text, last_error, sizeof text);
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    append_text(": ");
    append_text(text);
    return status;
}

const char *gpur_last_error(void)
{
    return last_error;
}

const char *gpur_status_name(gpur_status status)
{
    static const char *const names[] = {
        "GPUR_OK",          "GPUR_INVALID_ARGUMENT", "GPUR_OUT_OF_MEMORY", "GPUR_TOO_FEW", "GPUR_WOULD_BLOCK",
        "GPUR_UNAVAILABLE", "GPUR_FILE_ERROR",       "GPUR_INTERRUPTED",   "GPUR_EVICTED",
    };
    _Static_assert(sizeof names / sizeof *names == GPUR_EVICTED + 1, "the names of the statuses from 0 on");
    if (status == GPUR_DEVICE_ERROR)
        return "GPUR_DEVICE_ERROR";
    return (int)status >= 0 && (int)status <= GPUR_EVICTED ? names[status] : "unknown status";
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *gpur_version(void)
{
    return TEXT(GPUR_VERSION_MAJOR) "." TEXT(GPUR_VERSION_MINOR) "." TEXT(GPUR_VERSION_PATCH);
}
