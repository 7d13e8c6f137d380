/* SPDX-License-Identifier: MIT */
#include "device/device_name.h"

#include <string.h>

enum { MAX_ORDINAL = 9999 };

/* Digits and nothing else: strtol would take "cuda: 1" and "cuda:+1". */
static int parse_ordinal(const char *text, int *ordinal)
{
    int number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number <= MAX_ORDINAL; at++)
        number = 10 * number + (*at - '0');
    *ordinal = number;
    return at > text && *at == '\0' && number <= MAX_ORDINAL;
}

gpur_status gpur_device_name_parse(const char *name, int *kind, int *ordinal)
{
    *ordinal = 0;
    *kind = GPUR_NAMED_CUDA;
    if (strcmp(name, "cuda") == 0)
        return GPUR_OK;
    if (strncmp(name, "cuda:", 5) == 0 && parse_ordinal(name + 5, ordinal))
        return GPUR_OK;
    *kind = strcmp(name, "cpu") == 0 ? GPUR_NAMED_CPU : GPUR_NAMED_AUTO;
    GPUR_REQUIRE(
        *kind == GPUR_NAMED_CPU || strcmp(name, "auto") == 0,
        "no device is called \"%.64s\"; the names are \"auto\", \"cpu\", \"cuda\" and \"cuda:N\" with N from 0", name);
    return GPUR_OK;
}
