/* SPDX-License-Identifier: MIT */
/* Draws from a linked replay of 4 frames of 84 x 84 bytes, for a first layer that reads blocks of 4 x 4 pixels: in one
 * kernel behind the gather of the rows, and in two by way of the stacks' bytes. */
#ifndef BENCH_OBSERVED_H
#define BENCH_OBSERVED_H

#include "gpureplay.h"

typedef struct observed_draws observed_draws;

/* NULL, with the last error, when they could not be made. Close takes NULL. */
observed_draws *observed_open(gpur_replay *replay, int64_t rows);
void observed_close(observed_draws *draws);

/* Two bodies (bench.h); `context` is the observed_draws. Both draw the same rows. */
void observed_by_one(void *context, int64_t repeats);
void observed_by_two(void *context, int64_t repeats);

/* 1 when both make the same numbers of a draw, to the bit. */
int observed_agree(observed_draws *draws);

#endif
