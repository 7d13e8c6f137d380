/* SPDX-License-Identifier: MIT */
#include "support/counting_alloc.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 64 };

void *counting_alloc_take(void *user, size_t bytes)
{
    counting_alloc *const counts = (counting_alloc *)user;
    const int64_t call = atomic_fetch_add(&counts->calls, 1) + 1;
    if (counts->fail_at && call >= counts->fail_at)
        return NULL;
    unsigned char *const raw = (unsigned char *)aligned_alloc(64, (bytes + 2 * HEADER + 63) / 64 * 64);
    if (!raw)
        return NULL;
    memcpy(raw, &bytes, sizeof bytes);
    memset(raw + HEADER + counts->offset, 0xaa, bytes); /* the library must not take it for zero */
    atomic_fetch_add(&counts->blocks, 1);
    atomic_fetch_add(&counts->bytes, (int64_t)bytes);
    return raw + HEADER + counts->offset;
}

void counting_alloc_give(void *user, void *memory, size_t bytes)
{
    counting_alloc *const counts = (counting_alloc *)user;
    unsigned char *const raw = (unsigned char *)memory - counts->offset - HEADER;
    size_t taken = 0;
    memcpy(&taken, raw, sizeof taken);
    if (taken != bytes)
        atomic_fetch_add(&counts->wrong_sizes, 1);
    atomic_fetch_sub(&counts->blocks, 1);
    atomic_fetch_sub(&counts->bytes, (int64_t)taken);
    free(raw);
}
