/* SPDX-License-Identifier: MIT */
/* The convolutions and matrix products of a train step of the Nature network, and nothing else: in order, by the
 * device's libraries, on memory of the same sizes. */
#ifndef BENCH_CONVOLUTIONS_H
#define BENCH_CONVOLUTIONS_H

#include "gpureplay.h"

typedef struct bare_convolutions bare_convolutions;

/* For a learner of this config on 84 x 84 x 4. NULL, with the last error set, on failure; close takes NULL. */
bare_convolutions *bare_convolutions_open(gpur_device *device, const gpur_learner_config *config);
void bare_convolutions_close(bare_convolutions *bare);

/* A bench_body; `context` is the bare_convolutions. */
void bare_convolutions_run(void *context, int64_t repeats);

/* "oneDNN 2.6.0": the library of its first convolution. */
const char *bare_convolutions_library(const bare_convolutions *bare);

#endif
