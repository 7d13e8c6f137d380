/* SPDX-License-Identifier: MIT */
/* Atomic operations of the CPU targets. They are relaxed: as on a GPU, they do not order any other memory access, but
 * for gpur_arrive_u32. */
#pragma once

GPUR_FN uint64_t gpur_atomic_add_u64(uint64_t *to, uint64_t x)
{
    return __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
GPUR_FN void gpur_atomic_add_u32(uint32_t *to, uint32_t x)
{
    __atomic_fetch_add(to, x, __ATOMIC_RELAXED);
}
GPUR_FN void gpur_atomic_and_u32(uint32_t *to, uint32_t x)
{
    __atomic_fetch_and(to, x, __ATOMIC_RELAXED);
}
GPUR_FN uint32_t gpur_atomic_exchange_u32(uint32_t *to, uint32_t x)
{
    return __atomic_exchange_n(to, x, __ATOMIC_RELAXED);
}

/* These two return the previous value. */
GPUR_FN uint32_t gpur_atomic_max_u32(uint32_t *to, uint32_t x)
{
    uint32_t before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (before < x && !__atomic_compare_exchange_n(to, &before, x, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    return before;
}
GPUR_FN uint32_t gpur_atomic_min_u32(uint32_t *to, uint32_t x)
{
    uint32_t before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (before > x && !__atomic_compare_exchange_n(to, &before, x, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    return before;
}

GPUR_FN uint32_t gpur_arrive_u32(uint32_t *count, uint32_t calls)
{
    const uint32_t before = __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
    if (before == calls - 1)
        __atomic_store_n(count, 0, __ATOMIC_RELAXED);
    return before;
}
