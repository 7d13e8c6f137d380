/* SPDX-License-Identifier: MIT */
/* cuRAND's generator on the host, which needs no GPU: an oracle where the library is, loaded by name. */
#ifndef GPUR_SUPPORT_CURAND_HOST_H
#define GPUR_SUPPORT_CURAND_HOST_H

#include <stddef.h>
#include <stdint.h>

/* How it went: only a library that is not on this machine excuses a test. */
enum { CURAND_HOST_GOOD, CURAND_HOST_NOT_HERE, CURAND_HOST_FAILED };

/* Philox4x32-10 from this seed, `count` words. `why` (size) says what is missing, or which call answered what. */
int curand_host_philox(uint64_t seed, uint32_t *words, size_t count, char *why, size_t size);

#endif
