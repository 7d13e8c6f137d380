/* SPDX-License-Identifier: MIT */
/* cuRAND's generator on the host, which needs no GPU: an oracle where the library is, loaded by name. */
#ifndef GPUR_CURAND_HOST_H
#define GPUR_CURAND_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Philox4x32-10 from this seed, `count` words. 0 when there is no cuRAND here. */
int curand_host_philox(uint64_t seed, uint32_t *words, size_t count);

#endif
