/* SPDX-License-Identifier: MIT */
#include "count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int read_count(const char *option, const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    errno = 0;
    const long long read = strtoll(text, &end, 10);
    if (errno || end == text || *end || read < low || read > high) {
        fprintf(stderr, "%s is \"%s\"; it must be a whole number from %lld to %lld\n", option, text, (long long)low,
                (long long)high);
        return -1;
    }
    *value = read;
    return 0;
}
