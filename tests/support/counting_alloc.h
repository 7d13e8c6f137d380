/* SPDX-License-Identifier: MIT */
/* A caller's allocator that counts, checks that each block comes back with its size, and can fail. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct counting_alloc {
    _Atomic int64_t calls, blocks, bytes, wrong_sizes;
    int64_t fail_at; /* this call and all later ones give NULL; 0: none */
    int64_t offset;  /* added to every address: 32 makes them misaligned */
} counting_alloc;

void *counting_alloc_take(void *user, size_t bytes);
void counting_alloc_give(void *user, void *memory, size_t bytes);
