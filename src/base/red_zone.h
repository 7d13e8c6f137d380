/* SPDX-License-Identifier: MIT */
/*
 * Red zones: guard bytes behind each array that shares an allocation with others. AddressSanitizer knows where an
 * allocation ends, but not where an array within it ends; red zones make it report an access past the end of an array.
 * Builds without AddressSanitizer have no red zones.
 */
#pragma once

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define GPUR_HAS_RED_ZONES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUR_HAS_RED_ZONES 1
#endif
#endif

#ifdef GPUR_HAS_RED_ZONES
#include <sanitizer/asan_interface.h>

enum { GPUR_RED_ZONE = 256 }; /* bytes to leave free; a multiple of every alignment in use */

/* Makes AddressSanitizer report any access to these bytes until gpur_red_zone_lift. Byte-exact if they end at a
 * multiple of 8. */
static inline void gpur_red_zone_set(const void *first, int64_t bytes)
{
    __asan_poison_memory_region(first, (size_t)bytes);
}
static inline void gpur_red_zone_lift(const void *first, int64_t bytes)
{
    __asan_unpoison_memory_region(first, (size_t)bytes);
}
#else
enum { GPUR_RED_ZONE = 0 };

static inline void gpur_red_zone_set(const void *first, int64_t bytes)
{
    (void)first, (void)bytes;
}
static inline void gpur_red_zone_lift(const void *first, int64_t bytes)
{
    (void)first, (void)bytes;
}
#endif
