/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[512]; /* one text per thread */

gpur_status gpur_fail(gpur_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

const char *gpur_last_error(void)
{
    return last_error;
}

const char *gpur_status_name(gpur_status status)
{
    switch (status) {
    case GPUR_OK:
        return "GPUR_OK";
    case GPUR_INVALID_ARGUMENT:
        return "GPUR_INVALID_ARGUMENT";
    case GPUR_OUT_OF_MEMORY:
        return "GPUR_OUT_OF_MEMORY";
    case GPUR_TOO_FEW:
        return "GPUR_TOO_FEW";
    case GPUR_WOULD_BLOCK:
        return "GPUR_WOULD_BLOCK";
    case GPUR_UNAVAILABLE:
        return "GPUR_UNAVAILABLE";
    case GPUR_FILE_ERROR:
        return "GPUR_FILE_ERROR";
    case GPUR_INTERRUPTED:
        return "GPUR_INTERRUPTED";
    case GPUR_EVICTED:
        return "GPUR_EVICTED";
    case GPUR_DEVICE_ERROR:
        return "GPUR_DEVICE_ERROR";
    default:
        return "unknown status";
    }
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *gpur_version(void)
{
    return TEXT(GPUR_VERSION_MAJOR) "." TEXT(GPUR_VERSION_MINOR) "." TEXT(GPUR_VERSION_PATCH);
}
