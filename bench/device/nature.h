/* SPDX-License-Identifier: MIT */
/* The convolutions and products of a train step of the Nature network, bare: in order, on the device's libraries, on
 * memory of the same sizes. */
#ifndef BENCH_NATURE_H
#define BENCH_NATURE_H

#include "gpureplay.h"

typedef struct bare_nature bare_nature;

/* Of a learner of this config on 84 x 84 x 4; NULL, with the last error, when it could not be made. Takes NULL. */
bare_nature *bare_nature_open(gpur_device *device, const gpur_learner_config *config);
void bare_nature_close(bare_nature *bare);

/* A bench_body; `context` is the bare_nature. */
void bare_nature_run(void *context, int64_t repeats);

/* "oneDNN 2.6.0": which way its first convolution goes. */
const char *bare_nature_way(const bare_nature *bare);

#endif
