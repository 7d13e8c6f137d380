/* SPDX-License-Identifier: MIT */
/* Counts forks, so that an owner of threads can detect that it runs in a forked child. A child has none of its parent's
 * other threads: if the count differs from the one stored when the threads were started, they do not exist here. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Starts counting forks. GPUR_OUT_OF_MEMORY: the C library has no memory for one more fork handler. */
gpur_status gpur_forks_count_from_now(void);

/* Returns the number of forks between the process that first called gpur_forks_count_from_now and this one. */
uint32_t gpur_forks(void);
