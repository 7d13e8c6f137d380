/* SPDX-License-Identifier: MIT */
/* Memory for what one call converts. */
#ifndef GPUREPLAY_PYTHON_SCRATCH_H
#define GPUREPLAY_PYTHON_SCRATCH_H

#include "fast.h"

enum { FAST_SCRATCH_BYTES = 1 << 16 }; /* of more, NumPy's conversion is as quick */

typedef struct fast_scratch {
    unsigned char *memory; /* (FAST_SCRATCH_BYTES), or NULL until it is wanted */
    int64_t used;
} fast_scratch;

/* Room for `count` things of `each` bytes, on a boundary of 16, or NULL: there is no more. Of arrays that repeat one
 * element the count may be anything. */
static inline void *fast_scratch_take(fast_scratch *scratch, int64_t count, int64_t each)
{
    if (count > FAST_SCRATCH_BYTES || count * each > FAST_SCRATCH_BYTES - scratch->used)
        return NULL;
    const int64_t bytes = count * each;
    if (!scratch->memory)
        scratch->memory = (unsigned char *)PyMem_Malloc(FAST_SCRATCH_BYTES);
    void *const taken = scratch->memory ? scratch->memory + scratch->used : NULL;
    scratch->used += (bytes + 15) / 16 * 16;
    return taken;
}

#endif
