/* SPDX-License-Identifier: MIT */
#include "env/refuse.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[512];

const char *gpur_env_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return sentence;
}
