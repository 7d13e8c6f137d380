/* SPDX-License-Identifier: MIT */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#include <stdint.h>

/* Reads an option's value. 0; or -1, having said on stderr what was given and that a whole number from `low` to `high`
 * is wanted. */
int read_count(const char *option, const char *text, int64_t low, int64_t high, int64_t *value);

#endif
