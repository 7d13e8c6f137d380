/* SPDX-License-Identifier: MIT */
/* Numbers that C and the scripts with PyTorch make alike: their weights and batches. */
#pragma once

#include <stdint.h>

/* Number i of a sequence, in [0, 1), by a hash of 32 bits: `unit` of support/torch_*.py. */
static inline double torch_unit(uint32_t i, uint32_t sequence)
{
    uint32_t x = i * 2654435761u + sequence * 40503u;
    x = (x ^ x >> 16) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return (x ^ x >> 16) * 0x1p-32;
}
