/* SPDX-License-Identifier: MIT */
/* A child of fork has none of its parent's other threads. What owns threads compares this count with the one it began
 * with, to learn that it is in a child and that its threads are not. */
#ifndef GPUR_BASE_FORK_H
#define GPUR_BASE_FORK_H

#include "base/status.h"

#include <stdint.h>

/* Has forks counted from now on. GPUR_OUT_OF_MEMORY: the C library has no memory for one more fork handler. */
gpur_status gpur_forks_watch(void);

/* How many forks lie between the process that first called gpur_forks_watch and this one. */
uint32_t gpur_forks(void);

#endif
