/* SPDX-License-Identifier: MIT */
#include "failure.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char sentence[4096];
static int has_failed;

int fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    if (!has_failed)
        vsnprintf(sentence, sizeof sentence, format, arguments);
    has_failed = 1;
    pthread_mutex_unlock(&lock);
    va_end(arguments);
    return FAILED;
}

const char *failure(void)
{
    pthread_mutex_lock(&lock);
    const char *const found = has_failed ? sentence : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}
