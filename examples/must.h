/* SPDX-License-Identifier: MIT */
/* How these programs take a failure: it ends them. */
#pragma once

#include <gpureplay.h>

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the library's error message if a call failed. */
static inline void must(gpur_status status)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", gpur_status_name(status), gpur_last_error());
    exit(2);
}

/* Ends the program with the sentence of an environment that refused something. */
static inline void check_env(const char *refusal)
{
    if (!refusal)
        return;
    fprintf(stderr, "%s\n", refusal);
    exit(2);
}
